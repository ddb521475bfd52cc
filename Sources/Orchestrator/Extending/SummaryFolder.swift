import AppStore
import Ledger
import Pricing
import ServiceKit

/// Folds `RENEWAL_EXTENSION`/`SUMMARY`: it names a request and no subscription. One of no request of ours is kept,
/// counted and changes nothing.
struct SummaryFolder: Sendable {
    let world: Extender.World

    func round() async throws -> Int {
        let limit = world.limits.summariesPerRound
        let now = world.clock.nowMilliseconds()
        let (folded, foreign) = try await world.pool.withTransaction { connection in
            let waiting = try MassExtensionQueries.waitingSummaries(limit: limit, on: connection)
            var foreign: [String] = []
            for one in waiting {
                guard let summary = Self.summary(one) else {
                    _ = try connection.pipeline([
                        MassExtensionQueries.setAside(
                            one, detail: "the stored summary can't be read", at: now)
                    ])
                    foreign.append(one.notificationUUID)
                    continue
                }
                if try !MassExtensionQueries.fold(one, summary, at: now, on: connection) {
                    foreign.append(summary.requestIdentifier ?? one.notificationUUID)
                }
            }
            return (waiting.count, foreign)
        }
        for request in foreign {
            world.metrics.increment("repricer_foreign_summaries_total")
            world.log.warning(
                "a summary of an extension that was never requested here; see report renewal_extension",
                ["request": request])
        }
        return folded
    }

    private static func summary(
        _ waiting: MassExtensionQueries.WaitingSummary
    ) -> MassExtensionQueries.Summary? {
        let receivedAt = Instant(milliseconds: waiting.receivedAt)
        // Verified when it arrived; damaged bytes say nothing.
        guard let told = try? waiting.evidence.decoded(receivedAt: receivedAt),
            let summary = told.summary
        else { return nil }
        return MassExtensionQueries.Summary(
            requestIdentifier: summary.requestIdentifier, productID: summary.productID,
            storefronts: summary.storefronts.flatMap { $0.isEmpty ? nil : $0 },
            succeeded: summary.succeeded, failed: summary.failed,
            signedAt: told.signedAt.milliseconds)
    }
}

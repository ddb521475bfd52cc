import AppStore
import Calls
import Facts
import Notifications
import Pricing
import ServiceKit

/// Folds `RENEWAL_EXTENSION`/`SUMMARY`, which names a request and no subscription. A summary of a request that is not
/// ours is kept and counted, and changes nothing.
struct SummaryFolder: Sendable {
    let engine: CallEngine

    private static let perRound = 100

    func round() async throws -> Int {
        let limit = Self.perRound
        let now = engine.clock.nowMilliseconds()
        let (folded, foreign, unreadable) = try await engine.pool.withTransaction { connection in
            let waiting = try MassExtensionQueries.waitingSummaries(limit: limit, on: connection)
            var foreign: [String] = []
            var unreadable: [String] = []
            for one in waiting {
                guard let (summary, signedAt) = Self.summary(one) else {
                    _ = try connection.pipeline([
                        MassExtensionQueries.quarantine(
                            one, detail: Self.isUnreadable, at: now)
                    ])
                    unreadable.append(one.notificationUUID)
                    continue
                }
                if try !MassExtensionQueries.fold(
                    one, summary, signedAt: signedAt, at: now, on: connection)
                {
                    foreign.append(summary.requestIdentifier ?? one.notificationUUID)
                }
            }
            return (waiting.count, foreign, unreadable)
        }
        for notification in unreadable {
            engine.log.error(
                "a notification can't be folded",
                ["notification": notification, "error": Self.isUnreadable])
        }
        for request in foreign {
            engine.metrics.increment("repricer_foreign_summaries_total")
            engine.log.warning(
                "a summary of an extension that was never requested here; see report renewal_extension",
                ["request": request])
        }
        return folded
    }

    private static let isUnreadable = "the stored summary can't be read"

    private static func summary(
        _ waiting: MassExtensionQueries.WaitingSummary
    ) -> (ExtensionSummary, signedAt: Int64)? {
        let receivedAt = Instant(milliseconds: waiting.receivedAt)
        // It was verified when it arrived, so if it cannot be read, its bytes are damaged.
        guard let told = try? waiting.evidence.decoded(receivedAt: receivedAt),
            var summary = told.summary
        else { return nil }
        if summary.storefronts == [] { summary.storefronts = nil }
        return (summary, told.signedAt.milliseconds)
    }
}

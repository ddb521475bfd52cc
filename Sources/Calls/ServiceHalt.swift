import AppStore
import Facts
import ServiceKit

/// Stops the whole service where calls are refused alike, whatever the subscription and the batch, and lets it go on
/// once a call is answered again. Written down before anything else, told at error level.
struct ServiceHalt: Sendable {
    let pool: DatabasePool
    let clock: any WallClock
    let log: Log
    let metrics: Metrics

    /// - Parameter subject: The last of those that were refused alike.
    func halt(because refusal: StoreRefusal, _ subject: String) async throws {
        let now = clock.nowMilliseconds()
        let text =
            "\(refusal.codeAndName): several subscriptions in a row were refused alike, the last of them \(subject)"
        let isNew = try await pool.withTransaction {
            try ServiceControlQueries.haltService(reason: text, at: now, on: $0)
        }
        guard isNew else { return }
        log.error(
            "service halted: calls are refused alike, whatever the subscription",
            ["code": refusal.codeAndName, "subscription": subject])
        metrics.increment("repricer_service_halts_total")
    }

    /// Whether the code at the beginning of the reason is about our key, or the way to the App Store.
    static func isAboutKey(_ reason: String) -> Bool {
        guard let code = Int(reason.prefix { $0.isASCII && $0.isNumber }) else { return false }
        return APIErrorCode(rawValue: code).disposition(onRetry: false) == .haltService
    }

    /// The App Store takes calls again.
    func recover() async throws {
        let now = clock.nowMilliseconds()
        let isNew = try await pool.withTransaction {
            try ServiceControlQueries.recoverService(at: now, on: $0)
        }
        if isNew { log.notice("service recovered: calls are answered again") }
    }
}

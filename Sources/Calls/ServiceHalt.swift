import Facts
import ServiceKit

/// Stops the whole service where the App Store refuses our key, for no call can succeed then, and lets it go on once a
/// call is answered again. Written down before anything else, told at error level.
struct ServiceHalt: Sendable {
    let pool: LedgerPool
    let clock: any WallClock
    let log: Log
    let metrics: Metrics

    func halt(because refusal: StoreRefusal) async throws {
        let now = clock.nowMilliseconds()
        let text = refusal.codeAndName
        let isNew = try await pool.withTransaction {
            try ServiceControlQueries.haltService(reason: text, at: now, on: $0)
        }
        guard isNew else { return }
        log.error("service halted: no call can succeed until somebody acts", ["code": text])
        metrics.increment("repricer_service_halts_total")
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

import Facts
import Pricing
import ServiceKit
import Synchronization

/// Since when changes are due and none could be claimed, though calls were allowed: somebody holds their rows, or their
/// buckets.
final class UnclaimedWatch: Sendable {
    private static let toldAfter: Duration = .seconds(60)

    private struct State {
        var since: ContinuousClock.Instant?
        var isTold = false
    }

    private let state = Mutex(State())
    private let pool: DatabasePool
    private let log: Log
    private let metrics: Metrics

    init(pool: DatabasePool, log: Log, metrics: Metrics) {
        self.pool = pool
        self.log = log
        self.metrics = metrics
        metrics.describe(
            "repricer_changes_due_unclaimed_seconds",
            "Real time since changes are due and none could be claimed; 0: they are, or none is due."
        )
        metrics.set("repricer_changes_due_unclaimed_seconds", to: 0)
    }

    /// - Parameter isStuck: Changes were due and calls allowed, and nothing was claimed.
    func note(isStuck: Bool, now: ContinuousClock.Instant = .now) async throws {
        let (waited, isNews) = state.withLock { state -> (Duration, Bool) in
            guard isStuck else {
                state = State()
                return (.zero, false)
            }
            let since = state.since ?? now
            state.since = since
            let isNews = !state.isTold && now - since >= Self.toldAfter
            state.isTold = state.isTold || isNews
            return (now - since, isNews)
        }
        metrics.set("repricer_changes_due_unclaimed_seconds", to: waited.seconds)
        guard isNews else { return }
        let sessions = try await pool.read { try BlockerQueries.sessions(on: $0) }
        log.error(
            "changes are due, and none can be claimed: another session holds their rows",
            [
                "seconds": "\(Int64(waited.seconds))",
                "sessions": sessions.isEmpty
                    ? "of this database user" : sessions.map(\.text).joined(separator: "; "),
            ])
    }
}

extension BlockerQueries.Session {
    /// `pid 4711 of ana (psql) since 2026-12-01T00:00:00Z`
    fileprivate var text: String {
        let since = since.map { " since \(Instant(milliseconds: $0).text)" } ?? ""
        return "pid \(pid) of \(user) (\(application))\(since)"
    }
}

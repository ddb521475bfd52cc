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
        /// When it was last written down, for `status`.
        var notedAt: ContinuousClock.Instant?
    }

    private let state = Mutex(State())
    private let pool: DatabasePool
    private let realClock: any WallClock
    private let log: Log
    private let metrics: Metrics

    init(pool: DatabasePool, realClock: any WallClock, log: Log, metrics: Metrics) {
        self.pool = pool
        self.realClock = realClock
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
        let (waited, news) = state.withLock { state -> (Duration, News) in
            guard isStuck else {
                defer { state = State() }
                return (.zero, state.notedAt == nil ? .none : .over)
            }
            let since = state.since ?? now
            state.since = since
            guard now - (state.notedAt ?? since) >= Self.toldAfter else {
                return (now - since, .none)
            }
            let isFirst = state.notedAt == nil
            state.notedAt = now
            return (now - since, isFirst ? .first : .again)
        }
        metrics.set("repricer_changes_due_unclaimed_seconds", to: waited.seconds)
        switch news {
        case .none: return
        case .over:
            let note = ServiceControlQueries.noteUnclaimed(since: nil, sessions: nil)
            return try await pool.read { _ = try $0.pipeline([note]) }
        case .first, .again: break
        }
        let since = realClock.nowMilliseconds() - waited.milliseconds
        let text = try await pool.read { connection in
            let sessions = try BlockerQueries.sessions(on: connection)
            let text =
                sessions.isEmpty
                ? "of this database user" : sessions.map(\.text).joined(separator: "; ")
            _ = try connection.pipeline([
                ServiceControlQueries.noteUnclaimed(since: since, sessions: text)
            ])
            return text
        }
        guard news == .first else { return }
        log.error(
            "changes are due, and none can be claimed: another session holds their rows",
            ["seconds": "\(Int64(waited.seconds))", "sessions": text])
    }

    private enum News { case none, first, again, over }
}

extension BlockerQueries.Session {
    /// `pid 4711 of ana (psql) since 2026-12-01T00:00:00Z`
    fileprivate var text: String {
        let since = since.map { " since \(Instant(milliseconds: $0).text)" } ?? ""
        return "pid \(pid) of \(user) (\(application))\(since)"
    }
}

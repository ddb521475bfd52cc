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
    private let log: Log
    private let metrics: Metrics

    init(log: Log, metrics: Metrics) {
        self.log = log
        self.metrics = metrics
        metrics.describe(
            "repricer_changes_due_unclaimed_seconds",
            "Real time since changes are due and none could be claimed; 0: they are, or none is due."
        )
        metrics.set("repricer_changes_due_unclaimed_seconds", to: 0)
    }

    /// - Parameter isStuck: Changes were due and calls allowed, and nothing was claimed.
    func note(isStuck: Bool, now: ContinuousClock.Instant = .now) {
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
        log.error(
            "changes are due, and none can be claimed: another session holds their rows",
            ["seconds": "\(Int64(waited.seconds))"])
    }
}

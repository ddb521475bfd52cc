import Synchronization

/// Buckets in which another session, such as a person's open transaction, has locked a change that a claim needs.
/// Claims skip these buckets for a while, so that the lock delays the other buckets only briefly.
final class BusyBuckets: Sendable {
    /// How long a bucket is skipped after a claim waited there for half a second (`Claimer`). A parked change is tried
    /// once more half a minute before its last instant, so this must be shorter.
    static let passedOverFor: Duration = .seconds(15)
    /// For how long a change counts as held after a claim has met it.
    private static let heldFor: Duration = .seconds(60)

    private struct State {
        var until: [Int: ContinuousClock.Instant] = [:]
        var met: ContinuousClock.Instant?
    }

    private let state = Mutex(State())

    func note(_ bucket: Int, now: ContinuousClock.Instant = .now) {
        state.withLock { state in
            state.until[bucket] = now + Self.passedOverFor
            state.met = now
        }
    }

    func contains(_ bucket: Int, now: ContinuousClock.Instant = .now) -> Bool {
        state.withLock { state in
            guard let end = state.until[bucket] else { return false }
            if end <= now { state.until[bucket] = nil }
            return end > now
        }
    }

    /// Whether a claim has met a held change in the last minute.
    var haveHeldChanges: Bool {
        state.withLock { state in state.met.map { .now - $0 < Self.heldFor } ?? false }
    }
}

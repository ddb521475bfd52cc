import Synchronization

/// Buckets in which another session holds a change that a claim needs, as a person's open transaction does. Claims pass
/// them over for a while, so that what is held keeps the other buckets waiting for moments at most.
final class BusyBuckets: Sendable {
    /// For how long a bucket is passed over. Before that, a claim has waited for half a second (`Claimer`). It is less
    /// than the time before its last instant at which a parked change goes once more.
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

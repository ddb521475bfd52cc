import Synchronization

/// Buckets in which another session holds a change that a claim needs, as a person's open transaction does. Claims pass
/// them over for a while, so that one held row does not keep all others waiting.
final class BusyBuckets: Sendable {
    /// For how long a bucket is passed over. A claim waits for the row as long as `lock_timeout` allows (15 s in `serve`).
    static let passedOverFor: Duration = .seconds(60)

    private let until = Mutex<[Int: ContinuousClock.Instant]>([:])

    func note(_ bucket: Int, now: ContinuousClock.Instant = .now) {
        until.withLock { $0[bucket] = now + Self.passedOverFor }
    }

    func contains(_ bucket: Int, now: ContinuousClock.Instant = .now) -> Bool {
        until.withLock { until in
            guard let end = until[bucket] else { return false }
            if end <= now { until[bucket] = nil }
            return end > now
        }
    }
}

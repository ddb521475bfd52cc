import Synchronization

/// Tells when, by this process's monotonic clock, the database's clock showed an instant. Permits are reserved by the
/// database's clock.
///
/// A delayed answer must not postpone its permits, because the last of them would crowd those that another process
/// reserved after them. So the fastest answer of the last seconds gives the offset between the two clocks, and the lag
/// of any other answer behind it counts as that answer's delay.
///
/// An answer that is faster than all before it shows that permits were postponed after all, or that the database's
/// clock was set forward. Then new permits that lie before one already held are skipped, because their calls would be
/// sent beside its call.
final class PermitClock: Sendable {
    /// How long an answer is remembered. In a longer time the two clocks may drift apart by more than answers differ.
    static let memorySpan: Duration = .seconds(10)
    /// An answer that lags further may show that a clock was set back.
    static let lagMax: Duration = .milliseconds(250)

    /// By how much two permits may come closer to each other than the database placed them.
    static let slack: Duration = .milliseconds(5)

    private struct Answer {
        let at: ContinuousClock.Instant
        /// How far the monotonic clock was ahead of the database's clock. The origin is arbitrary, so only differences
        /// count.
        let ahead: Duration
    }

    private let origin = ContinuousClock.now
    private struct Memory {
        var answers: [Answer] = []
        /// The last permit of the newest lease, by both clocks.
        var last: (micros: Int64, instant: ContinuousClock.Instant)?
    }

    private let memory = Mutex(Memory())

    /// Whether no answer is remembered. A single answer may have been delayed for any time, so it says nothing by
    /// itself.
    func isNew(at now: ContinuousClock.Instant) -> Bool {
        memory.withLock { memory in
            memory.answers.removeAll { now - $0.at > Self.memorySpan }
            return memory.answers.isEmpty
        }
    }

    /// When the database's clock showed `micros`, according to an answer that arrived at `answered`. Returns nil where
    /// the answer lags too far behind the others. Then the memory starts again with this answer, which says nothing by
    /// itself.
    func instant(
        of micros: Int64, answered: ContinuousClock.Instant
    ) -> ContinuousClock.Instant? {
        let answer = Answer(at: answered, ahead: answered - origin - .microseconds(micros))
        return memory.withLock { memory in
            memory.answers.removeAll { answered - $0.at > Self.memorySpan }
            memory.answers.append(answer)
            let quickest = memory.answers.map(\.ahead).min() ?? answer.ahead
            let lag = answer.ahead - quickest
            guard lag <= Self.lagMax else {
                memory.answers = [answer]
                return nil
            }
            return answered - lag
        }
    }

    /// The permits of a lease that keep their distance from the last permit of the lease before. `asked` is when the
    /// lease's clock showed `nowMicros`.
    func inOrder(
        _ permits: [Int64], nowMicros: Int64, asked: ContinuousClock.Instant, gapMicros: Int64
    ) -> [Int64] {
        memory.withLock { memory in
            let first: Int
            if let last = memory.last {
                first =
                    permits.firstIndex { permit in
                        let apart = min(gapMicros, permit &- last.micros)
                        // A released permit is leased again, so it lies before the last one.
                        guard apart > 0 else { return true }
                        return asked + .microseconds(permit &- nowMicros) - last.instant
                            >= .microseconds(apart) - Self.slack
                    } ?? permits.endIndex
            } else {
                first = permits.startIndex
            }
            let kept = Array(permits[first...])
            if let last = kept.last {
                memory.last = (last, asked + .microseconds(last &- nowMicros))
            }
            return kept
        }
    }
}

import Synchronization

/// When, by this process's monotonic clock, the database answered by its own: slots are reserved by that one.
///
/// An answer that was held up on its way must not put off its slots: the last of them would crowd those that somebody
/// reserved behind them. So of the answers of the last seconds the quickest tells how the two clocks stand, and any
/// other was as late as it lags behind that one.
///
/// One that is quicker than all before it tells that slots were put off after all, or that the database's clock was set
/// forward. Then those of the new slots that lie before one that is already held are passed over: they would leave
/// beside it.
final class PermitClock: Sendable {
    /// Longer, and the two clocks may have drifted apart by more than answers differ.
    static let memorySpan: Duration = .seconds(10)
    /// An answer that lags further may tell of a clock that was set back.
    static let lagMax: Duration = .milliseconds(250)

    /// Two slots may come so much closer to each other than the database placed them.
    static let slack: Duration = .milliseconds(5)

    private struct Answer {
        let at: ContinuousClock.Instant
        /// How far the monotonic clock was ahead of the database's, from an origin of no meaning.
        let ahead: Duration
    }

    private let origin = ContinuousClock.now
    private struct Memory {
        var answers: [Answer] = []
        /// The last slot of the newest lease, by both clocks.
        var last: (micros: Int64, instant: ContinuousClock.Instant)?
    }

    private let memory = Mutex(Memory())

    /// Whether no answer is remembered: a single one could have been held up for as long as it liked.
    func isNew(at now: ContinuousClock.Instant) -> Bool {
        memory.withLock { memory in
            memory.answers.removeAll { now - $0.at > Self.memorySpan }
            return memory.answers.isEmpty
        }
    }

    /// When the database's clock said `micros`, by an answer that arrived at `answered`. nil where the answer lags too
    /// far behind the others: then it is the first of new ones, and says nothing yet.
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

    /// Those of a lease's slots that keep their distance from the last slot of the lease before. `asked` is when the
    /// lease's clock said `nowMicros`.
    func inOrder(
        _ slots: [Int64], nowMicros: Int64, asked: ContinuousClock.Instant, gapMicros: Int64
    ) -> [Int64] {
        memory.withLock { memory in
            let first: Int
            if let last = memory.last {
                first =
                    slots.firstIndex { slot in
                        let apart = min(gapMicros, slot &- last.micros)
                        // What was given back is leased again: it lies before.
                        guard apart > 0 else { return true }
                        return asked + .microseconds(slot &- nowMicros) - last.instant
                            >= .microseconds(apart) - Self.slack
                    } ?? slots.endIndex
            } else {
                first = slots.startIndex
            }
            let kept = Array(slots[first...])
            if let last = kept.last {
                memory.last = (last, asked + .microseconds(last &- nowMicros))
            }
            return kept
        }
    }
}

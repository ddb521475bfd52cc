import Synchronization

/// When, by this process's monotonic clock, the database answered by its own: slots are reserved by that one.
///
/// An answer that was held up on its way must not put off its slots: the last of them would crowd those that somebody
/// reserved behind them. So of the answers of the last seconds the quickest tells how the two clocks stand, and any
/// other was as late as it lags behind that one.
///
/// One that is far quicker than all of them tells of a clock that was set forward: it holds slots of before, which are
/// still to come, for past, and would grant the same moments again.
final class SlotClock: Sendable {
    /// Longer, and the two clocks may have drifted apart by more than answers differ.
    static let memorySpan: Duration = .seconds(10)
    /// An answer that lags further may tell of a clock that was set back.
    static let lagMax: Duration = .milliseconds(250)

    /// Of several answers one was nearly as quick as can be, and none later beats it by more.
    static let stepMin: Duration = .milliseconds(10)
    static let several = 5
    /// Until the slots of before a step have been, and their window with them.
    static let doubt: Duration = .milliseconds(1700)

    private struct Answer {
        let at: ContinuousClock.Instant
        /// How far the monotonic clock was ahead of the database's, from an origin of no meaning.
        let ahead: Duration
    }

    private let origin = ContinuousClock.now
    private struct Memory {
        var answers: [Answer] = []
        var doubtfulUntil: ContinuousClock.Instant?
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
    /// far behind the others, for then it is the first of new ones and says nothing yet; and for a while after the
    /// clock was set forward.
    func instant(
        of micros: Int64, answered: ContinuousClock.Instant
    ) -> ContinuousClock.Instant? {
        let answer = Answer(at: answered, ahead: answered - origin - .microseconds(micros))
        return memory.withLock { memory in
            memory.answers.removeAll { answered - $0.at > Self.memorySpan }
            let quickest = memory.answers.map(\.ahead).min() ?? answer.ahead
            if memory.answers.count >= Self.several, quickest - answer.ahead > Self.stepMin {
                memory = Memory(doubtfulUntil: answered + Self.doubt)
            }
            memory.answers.append(answer)
            let lag = max(.zero, answer.ahead - quickest)
            guard lag <= Self.lagMax else {
                memory.answers = [answer]
                return nil
            }
            guard memory.doubtfulUntil.map({ answered >= $0 }) ?? true else { return nil }
            return answered - lag
        }
    }
}

import Synchronization

/// When, by this process's monotonic clock, the database answered by its own: slots are reserved by that one.
///
/// An answer that was held up on its way must not put off its slots: the last of them would crowd those that somebody
/// reserved behind them. So of the answers of the last seconds the quickest tells how the two clocks stand, and any
/// other was as late as it lags behind that one.
final class SlotClock: Sendable {
    /// Longer, and the two clocks may have drifted apart by more than answers differ.
    static let memory: Duration = .seconds(10)
    /// An answer that lags further may tell of a clock that was set back.
    static let lagMax: Duration = .milliseconds(250)

    private struct Answer {
        let at: ContinuousClock.Instant
        /// How far the monotonic clock was ahead of the database's, from an origin of no meaning.
        let ahead: Duration
    }

    private let origin = ContinuousClock.now
    private let answers = Mutex<[Answer]>([])

    /// Whether no answer is remembered: a single one could have been held up for as long as it liked.
    func isNew(at now: ContinuousClock.Instant) -> Bool {
        answers.withLock { answers in
            answers.removeAll { now - $0.at > Self.memory }
            return answers.isEmpty
        }
    }

    /// When the database's clock said `micros`, by an answer that arrived at `answered`. nil where the answer lags too
    /// far behind the others: then it is the first of new ones, and says nothing yet.
    func instant(
        of micros: Int64, answered: ContinuousClock.Instant
    ) -> ContinuousClock.Instant? {
        let answer = Answer(at: answered, ahead: answered - origin - .microseconds(micros))
        return answers.withLock { answers in
            answers.removeAll { answered - $0.at > Self.memory }
            answers.append(answer)
            let quickest = answers.map(\.ahead).min() ?? answer.ahead
            let lag = answer.ahead - quickest
            guard lag <= Self.lagMax else {
                answers = [answer]
                return nil
            }
            return answered - lag
        }
    }
}

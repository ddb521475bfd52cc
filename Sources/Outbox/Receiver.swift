import ServiceKit
import Synchronization

/// What is known of the receiver of webhooks, and what the log says of it: one line when it takes nothing any more, one
/// when it is back, and one for all that was given up meanwhile.
final class Receiver: Sendable {
    private let outage: Outage
    /// Events are given up. One line says so, for after three days of a receiver that is away there are thousands.
    private let loss: Outage
    private let awayAfter: Duration
    private let tookAt = Mutex<ContinuousClock.Instant?>(nil)

    /// - Parameters:
    ///   - awayAfter: A failure sooner than this after a delivery is that event's own, and not the receiver's.
    ///   - quietFor: A delivery sooner than this after a failure ends no outage, because the receiver may take some
    ///     events and not others.
    init(log: Log, awayAfter: Duration, quietFor: Duration) {
        self.awayAfter = awayAfter
        outage = Outage(
            log: log, level: .warning,
            failure: "the receiver of webhooks takes no event; each is tried again for three days",
            recovery: "the receiver of webhooks takes events again", quietFor: quietFor)
        loss = Outage(
            log: log,
            failure: "a webhook is given up; `repricer outbox replay --given-up` sends it again",
            recovery: "webhooks are delivered again", quietFor: quietFor)
    }

    func tookOne() {
        tookAt.withLock { $0 = .now }
        outage.end()
        loss.end()
    }

    func failed(_ error: String) {
        let isAway = tookAt.withLock { $0.map { .now - $0 >= awayAfter } ?? true }
        if isAway { outage.note(error) }
    }

    func gaveUp(_ error: String) {
        failed(error)
        loss.note(error)
    }
}

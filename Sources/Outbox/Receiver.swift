import ServiceKit
import Synchronization

/// Tracks whether the receiver of webhooks accepts events, and logs it: one line when it stops accepting, one when it
/// is back, and one for all events that were abandoned meanwhile.
final class Receiver: Sendable {
    private let outage: Outage
    /// Logs abandoned events in one line, because after three days without the receiver there are thousands.
    private let loss: Outage
    private let awayAfter: Duration
    private let tookAt = Mutex<ContinuousClock.Instant?>(nil)

    /// - Parameters:
    ///   - awayAfter: A failure sooner than this after a delivery is attributed to its event, not to the receiver.
    ///   - quietFor: A delivery sooner than this after a failure does not end an outage, because the receiver may
    ///     accept some events and not others.
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

import Synchronization

/// An error whose cause may already be in the log, such as a database outage that the pool has reported.
package protocol ToldError: Error {
    /// Whether the log already has a line for this outage, so that no other is needed.
    var isTold: Bool { get }
}

/// Logs a failure that repeats, perhaps a hundred times a second, as one outage: one line when it begins and one when
/// it ends. A failure with another text in between gets a line too, at most one per `againAfter`.
package final class Outage: Sendable {
    private struct State {
        var since: ContinuousClock.Instant?
        var saidAt: ContinuousClock.Instant?
        var said = ""
        var failedAt: ContinuousClock.Instant?
        var failures = 0
    }

    private let log: Log
    private let level: Log.Level
    private let failure: String
    private let recovery: String
    private let againAfter: Duration
    private let quietFor: Duration
    private let state = Mutex(State())
    /// It is read at every success, and therefore without the lock.
    private let isOn = Atomic(false)

    /// - Parameters:
    ///   - failure: The message of the first failure, which says that the work is retried.
    ///   - recovery: The message of the first success afterwards.
    ///   - quietFor: A success sooner than this after a failure does not end the outage, because where many callers
    ///     share it others may still fail.
    package init(
        log: Log, level: Log.Level = .error, failure: String,
        recovery: String = "it works again", againAfter: Duration = .seconds(10),
        quietFor: Duration = .zero
    ) {
        self.log = log
        self.level = level
        self.failure = failure
        self.recovery = recovery
        self.againAfter = againAfter
        self.quietFor = quietFor
    }

    /// Notes a failure. One that `isTold` gets a debug line only, and begins no outage.
    package func note(_ error: any Error, now: ContinuousClock.Instant = .now) {
        guard !((error as? any ToldError)?.isTold ?? false) else {
            log.debug(failure, ["error": String(describing: error)])
            return
        }
        note(String(describing: error), now: now)
    }

    package func note(_ text: String, now: ContinuousClock.Instant = .now) {
        let isNews = state.withLock { state in
            state.since = state.since ?? now
            state.failures += 1
            state.failedAt = now
            let isNews =
                state.saidAt.map { text != state.said && now - $0 >= againAfter } ?? true
            guard isNews else { return false }
            (state.said, state.saidAt) = (text, now)
            return true
        }
        isOn.store(true, ordering: .relaxed)
        log.write(isNews ? level : .debug, failure, ["error": text])
    }

    /// Notes a success. Without an outage this costs one atomic load.
    package func end(now: ContinuousClock.Instant = .now) {
        guard isOn.load(ordering: .relaxed) else { return }
        let ended = state.withLock { state -> (Duration, Int)? in
            guard state.failedAt.map({ now - $0 >= quietFor }) ?? true else { return nil }
            defer { state = State() }
            isOn.store(false, ordering: .relaxed)
            return state.since.map { (now - $0, state.failures) }
        }
        guard let (lasted, failures) = ended else { return }
        log.notice(
            recovery,
            [
                "after": failure, "seconds": "\(Int64(lasted.seconds.rounded()))",
                "failures": "\(failures)",
            ])
    }
}

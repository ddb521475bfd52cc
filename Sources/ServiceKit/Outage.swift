import Synchronization

/// An error that may come from something that is away for a time, and whose absence somebody else has told of.
package protocol ToldError: Error {
    /// Whether the log already says that this goes on, so that no other line is needed.
    var isTold: Bool { get }
}

/// Something that fails, perhaps a hundred times a second, until it works again. It gets one line when it begins and
/// one when it ends. A failure of another kind in between gets a line too, at most one in `againAfter`.
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
    /// It is asked at every success, and so without a lock.
    private let isOn = Atomic(false)

    /// - Parameters:
    ///   - failure: What the first failure says, and that it is tried again.
    ///   - recovery: What the first success afterwards says.
    ///   - quietFor: A success sooner than this after a failure ends nothing, because others of many that ask may
    ///     still fail.
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

    /// Another failure. One that is told already gets no line, neither now nor when it ends.
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

    /// It works. Costs one look where nothing was wrong.
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

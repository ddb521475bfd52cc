import ServiceKit
import Synchronization

/// Lets a few log lines per second pass, so that clients cannot fill the disk.
final class Throttle: Sendable {
    private struct State {
        var second = Deadline.now
        var passed = 0
        var dropped = 0
    }

    private let perSecond: Int
    private let state = Mutex(State())

    init(perSecond: Int) {
        self.perSecond = perSecond
    }

    /// How many were dropped since the last one that passed; nil when this one is dropped too.
    func pass() -> Int? {
        state.withLock { state in
            let now = Deadline.now
            if now - state.second >= .seconds(1) {
                state.second = now
                state.passed = 0
            }
            guard state.passed < perSecond else {
                state.dropped += 1
                return nil
            }
            state.passed += 1
            defer { state.dropped = 0 }
            return state.dropped
        }
    }
}

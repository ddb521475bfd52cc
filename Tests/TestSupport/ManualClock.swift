import ServiceKit
import Synchronization

/// A clock that stands still until a test moves it.
package final class ManualClock: WallClock {
    private struct State {
        var milliseconds: Int64
        /// By how many milliseconds each reading moves it on.
        var tick: Int64 = 0
    }

    private let state: Mutex<State>

    package init(_ milliseconds: Int64) {
        state = Mutex(State(milliseconds: milliseconds))
    }

    package func nowMilliseconds() -> Int64 {
        state.withLock { state in
            state.milliseconds += state.tick
            return state.milliseconds
        }
    }

    package func set(_ newValue: Int64) {
        state.withLock { $0.milliseconds = newValue }
    }

    package func advance(by interval: Duration) {
        state.withLock { $0.milliseconds += interval.milliseconds }
    }

    /// Each reading is a millisecond later from now on, for tests of what comes before something and what comes after.
    package func tick() {
        state.withLock { $0.tick = 1 }
    }
}

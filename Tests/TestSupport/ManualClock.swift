import ServiceKit
import Synchronization

/// A clock that stands still until a test moves it.
package final class ManualClock: WallClock {
    private let milliseconds: Mutex<Int64>

    package init(_ milliseconds: Int64) {
        self.milliseconds = Mutex(milliseconds)
    }

    package func nowMilliseconds() -> Int64 {
        milliseconds.withLock { $0 }
    }

    package func set(_ newValue: Int64) {
        milliseconds.withLock { $0 = newValue }
    }

    package func advance(by interval: Duration) {
        milliseconds.withLock { $0 = $0 + interval.milliseconds }
    }
}

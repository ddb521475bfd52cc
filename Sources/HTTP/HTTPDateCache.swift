import ServiceKit
import Synchronization

/// Formats the date once a second instead of once per answer.
final class HTTPDateCache: Sendable {
    private let clock: any WallClock
    private let last = Mutex((second: Int64.min, text: ""))

    init(clock: any WallClock) {
        self.clock = clock
    }

    var text: String {
        let now = clock.nowMilliseconds()
        let second = now / 1000
        return last.withLock { last in
            if last.second != second { last = (second, HTTPDate.text(now)) }
            return last.text
        }
    }
}

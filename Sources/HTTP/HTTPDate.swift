import ServiceKit
import Synchronization

/// The Date field: RFC 9110, section 5.6.7, `Sun, 06 Nov 1994 08:49:37 GMT`.
enum HTTPDate {
    private static let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// `milliseconds` are UTC, not before 1970.
    static func text(_ milliseconds: Int64) -> String {
        let seconds = max(0, milliseconds) / 1000
        let day = Int(seconds / 86_400)
        // 2026-01-05T00:00:00Z
        let parts = RFC3339.format(seconds * 1000).split { "-T:Z".contains($0) }
        guard parts.count == 6, let month = Int(parts[1]), months.indices.contains(month - 1)
        else { return "Thu, 01 Jan 1970 00:00:00 GMT" }
        return "\(days[day % 7]), \(parts[2]) \(months[month - 1]) \(parts[0]) "
            + "\(parts[3]):\(parts[4]):\(parts[5]) GMT"
    }
}

/// Makes the date once a second and not once an answer.
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

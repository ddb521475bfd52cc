/// The date of HTTP headers in its usual form: RFC 9110, section 5.6.7, `Sun, 06 Nov 1994 08:49:37 GMT`.
package enum HTTPDate {
    private static let days = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"]
    private static let months = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ]

    /// `milliseconds` are UTC, not before 1970.
    package static func text(_ milliseconds: Int64) -> String {
        let seconds = max(0, milliseconds) / 1000
        let day = Int(seconds / 86_400)
        // 2026-01-05T00:00:00Z
        let parts = RFC3339.format(seconds * 1000).split { "-T:Z".contains($0) }
        guard parts.count == 6, let month = Int(parts[1]), months.indices.contains(month - 1)
        else { return "Thu, 01 Jan 1970 00:00:00 GMT" }
        return "\(days[day % 7]), \(parts[2]) \(months[month - 1]) \(parts[0]) "
            + "\(parts[3]):\(parts[4]):\(parts[5]) GMT"
    }

    /// UTC milliseconds; nil for any other form. The day of the week is not checked.
    package static func parse(_ text: String) -> Int64? {
        let parts = text.split(separator: " ").map(String.init)
        guard parts.count == 6, parts[5] == "GMT", parts[1].count == 2,
            let month = months.firstIndex(of: parts[2])
        else { return nil }
        let number = month < 9 ? "0\(month + 1)" : "\(month + 1)"
        return RFC3339.parse("\(parts[3])-\(number)-\(parts[1])T\(parts[4])Z")
    }
}

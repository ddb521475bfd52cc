import ServiceKit

/// The `Date` header's usual form: `Sun, 06 Nov 1994 08:49:37 GMT`.
enum HTTPDate {
    private static let months = [
        "Jan": "01", "Feb": "02", "Mar": "03", "Apr": "04", "May": "05", "Jun": "06", "Jul": "07",
        "Aug": "08", "Sep": "09", "Oct": "10", "Nov": "11", "Dec": "12",
    ]

    /// UTC milliseconds; nil for any other form.
    static func parse(_ text: String) -> Int64? {
        let parts = text.split(separator: " ").map(String.init)
        guard parts.count == 6, parts[5] == "GMT", let month = months[parts[2]] else { return nil }
        return RFC3339.parse("\(parts[3])-\(month)-\(parts[1])T\(parts[4])Z")
    }
}

/// Converts instants between text such as `2026-12-01T00:00:00Z` and UTC milliseconds.
package enum RFC3339 {
    /// Reads an instant with `Z` or an offset; nil for anything else, a leap second included.
    ///
    /// Digits beyond the millisecond are cut off.
    package static func parse(_ text: String) -> Int64? {
        var text = text
        return text.withUTF8 { CivilTime.parse(UnsafeRawBufferPointer($0), as: .rfc3339) }
    }

    /// The microseconds that `parse` cuts off: 0 to 999. The database keeps instants to the microsecond.
    package static func microseconds(beyondMillisecondsOf text: String) -> Int64 {
        let fraction = text.drop { $0 != "." }.dropFirst().prefix { $0.isASCII && $0.isNumber }
        let digits = fraction.dropFirst(3).prefix(3)
        return Int64(digits + String(repeating: "0", count: 3 - digits.count)) ?? 0
    }

    /// Writes an instant in UTC; the fraction (`.123`) only when there is one.
    package static func format(_ milliseconds: Int64) -> String {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(24)
        CivilTime(milliseconds).append(
            to: &bytes, separator: "T", hasFraction: milliseconds % 1000 != 0)
        bytes.append(UInt8(ascii: "Z"))
        return String(decoding: bytes, as: UTF8.self)
    }

    /// The same with 0 to 999 microseconds beyond the milliseconds. The fraction has six digits unless they are 0.
    package static func format(_ milliseconds: Int64, microseconds: Int64) -> String {
        guard microseconds != 0 else { return format(milliseconds) }
        let whole = format(milliseconds).dropLast()
        let digits = String(1000 + microseconds).dropFirst()
        return whole + (milliseconds % 1000 == 0 ? ".000" : "") + digits + "Z"
    }
}

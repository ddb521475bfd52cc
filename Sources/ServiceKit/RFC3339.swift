/// Instants as text: `2026-12-01T00:00:00Z`, UTC milliseconds inside.
package enum RFC3339 {
    /// Reads an instant with `Z` or an offset; nil for anything else, a leap second included.
    ///
    /// Digits beyond the millisecond are cut off.
    package static func parse(_ text: String) -> Int64? {
        var text = text
        return text.withUTF8 { CivilTime.parse(UnsafeRawBufferPointer($0), as: .rfc3339) }
    }

    /// The same, rounded up to the next millisecond where there are digits beyond it: all that came by the instant, which the
    /// database keeps to the microsecond, came by this one.
    package static func parseRoundingUp(_ text: String) -> Int64? {
        guard let cut = parse(text) else { return nil }
        let fraction = text.drop { $0 != "." }.dropFirst().prefix { $0.isASCII && $0.isNumber }
        return fraction.dropFirst(3).contains { $0 != "0" } ? cut + 1 : cut
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
}

/// Appends a separator and the number with at least that many digits.
private func append(
    _ number: Int, width: Int, after separator: Unicode.Scalar, to bytes: inout [UInt8]
) {
    bytes.append(UInt8(ascii: separator))
    appendPadded(number, width, to: &bytes)
}

extension Instant {
    package static let millisecondsPerDay: Int64 = 86_400_000

    /// Whether the calendar can take it, from 1970 to the end of 9999.
    ///
    /// Apple's instants are on the calendar. A garbled one (seconds times a million, a negative number) is not, and
    /// counts as not known.
    package var isOnCalendar: Bool { (0...253_402_300_799_999).contains(milliseconds) }

    /// The instant that many milliseconds later. It stops at the ends of the range instead of overflowing.
    package func advanced(by span: Int64) -> Instant {
        let (sum, overflow) = milliseconds.addingReportingOverflow(span)
        return Instant(milliseconds: overflow ? (span < 0 ? .min : .max) : sum)
    }

    /// The same time of day that many calendar months later, on the last day where the month is shorter (29 February
    /// plus 12 months is 28 February).
    package func advanced(byMonths months: Int) -> Instant {
        guard isOnCalendar, abs(months) <= 12_000 else { return self }
        let date = CivilDate(monthIndex: day.monthIndex + months, clampedDay: day.day)
        return date.startAt.advanced(by: timeOfDay)
    }

    /// 00:00 UTC on the first day of its month.
    package var startOfMonth: Instant {
        CivilDate(monthIndex: day.monthIndex, clampedDay: 1).startAt
    }

    /// The UTC day that holds the instant.
    package var day: CivilDate {
        let days = milliseconds / Instant.millisecondsPerDay
        let isBefore = milliseconds % Instant.millisecondsPerDay < 0
        return CivilDate(daysSinceEpoch: Int(isBefore ? days - 1 : days))
    }

    /// The milliseconds since 00:00 UTC of its day.
    var timeOfDay: Int64 {
        let rest = milliseconds % Instant.millisecondsPerDay
        return rest < 0 ? rest + Instant.millisecondsPerDay : rest
    }

    /// RFC 3339 in UTC: `2026-12-01T00:00:00Z`, with `.123` only when the milliseconds are not zero.
    package var text: String {
        let time = Int(timeOfDay)
        // It is built byte by byte, because a plan writes millions of them.
        var bytes: [UInt8] = []
        bytes.reserveCapacity(24)
        day.append(to: &bytes)
        append(time / 3_600_000, width: 2, after: "T", to: &bytes)
        append(time / 60_000 % 60, width: 2, after: ":", to: &bytes)
        append(time / 1000 % 60, width: 2, after: ":", to: &bytes)
        if time % 1000 != 0 { append(time % 1000, width: 3, after: ".", to: &bytes) }
        bytes.append(UInt8(ascii: "Z"))
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Reads RFC 3339, such as `2026-12-01T00:00:00Z`. A day alone is no instant.
    ///
    /// Up to nine digits of fraction are cut to milliseconds. The zone is `Z` or an offset.
    package init?(_ text: some StringProtocol) {
        let bytes = Array(text.utf8)
        guard bytes.count >= 20, bytes.count <= 40, let date = CivilDate(text.prefix(10)),
            bytes[10] == UInt8(ascii: "T") || bytes[10] == UInt8(ascii: "t"),
            bytes[13] == UInt8(ascii: ":"), bytes[16] == UInt8(ascii: ":"),
            let hour = decimalNumber(bytes[11..<13]), hour < 24,
            let minute = decimalNumber(bytes[14..<16]), minute < 60,
            let second = decimalNumber(bytes[17..<19]), second < 60,
            let (fraction, zone) = Instant.fraction(bytes[19...]),
            let offset = Instant.offset(zone)
        else { return nil }
        let time = Int64((hour * 60 + minute - offset) * 60 + second) * 1000 + fraction
        self = date.startAt.advanced(by: time)
    }

    private static func fraction(_ bytes: ArraySlice<UInt8>) -> (Int64, ArraySlice<UInt8>)? {
        guard bytes.first == UInt8(ascii: ".") else { return (0, bytes) }
        let digits = bytes.dropFirst().prefix(while: isDigit)
        let padding = Array(repeating: UInt8(ascii: "0"), count: max(0, 3 - digits.count))
        guard !digits.isEmpty, digits.count <= 9,
            let value = decimalNumber(digits.prefix(3) + padding)
        else { return nil }
        return (Int64(value), bytes[digits.endIndex...])
    }

    private static func offset(_ zone: ArraySlice<UInt8>) -> Int? {
        if zone.elementsEqual("Z".utf8) || zone.elementsEqual("z".utf8) { return 0 }
        let bytes = Array(zone)
        guard bytes.count == 6, bytes[3] == UInt8(ascii: ":"),
            bytes[0] == UInt8(ascii: "+") || bytes[0] == UInt8(ascii: "-"),
            let hours = decimalNumber(bytes[1..<3]), hours < 24,
            let minutes = decimalNumber(bytes[4..<6]), minutes < 60
        else { return nil }
        return (hours * 60 + minutes) * (bytes[0] == UInt8(ascii: "-") ? -1 : 1)
    }
}

/// Instants between PostgreSQL's `timestamptz` and UTC milliseconds.
enum PostgresTime {
    /// 2000-01-01T00:00:00Z, PostgreSQL's epoch, in Unix milliseconds.
    static let epochMilliseconds: Int64 = 946_684_800_000

    /// Microseconds since PostgreSQL's epoch; nil when the number overflows.
    static func microseconds(fromUnixMilliseconds milliseconds: Int64) -> Int64? {
        let (shifted, overflow) = milliseconds.subtractingReportingOverflow(epochMilliseconds)
        guard !overflow else { return nil }
        let (scaled, scaleOverflow) = shifted.multipliedReportingOverflow(by: 1000)
        // The two extreme numbers mean infinity.
        guard !scaleOverflow, scaled != .max, scaled != .min else { return nil }
        return scaled
    }

    /// Reads `2026-01-05 00:00:00.123456+00` as the session writes it (ISO, UTC).
    ///
    /// Digits below a millisecond are cut off. Infinity and years before Christ are nil.
    static func milliseconds(parsing text: UnsafeRawBufferPointer) -> Int64? {
        var reader = DigitReader(text)
        guard let year = reader.number(digits: 4...6), reader.skip("-"),
            let month = reader.number(digits: 2...2), reader.skip("-"),
            let day = reader.number(digits: 2...2), reader.skip(" "),
            let hour = reader.number(digits: 2...2), reader.skip(":"),
            let minute = reader.number(digits: 2...2), reader.skip(":"),
            let second = reader.number(digits: 2...2)
        else { return nil }
        var fraction: Int64 = 0
        if reader.skip(".") {
            guard let parsed = reader.milliseconds() else { return nil }
            fraction = parsed
        }
        guard reader.skip("+"), reader.number(digits: 2...2) == 0, reader.isAtEnd else {
            return nil
        }
        let days = daysSinceUnixEpoch(year: year, month: month, day: day)
        return ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + fraction
    }

    /// An instant taken apart, to be written as `2026-01-05 00:00:00.123+00`.
    struct Parts {
        fileprivate let year: Int64
        fileprivate let month: Int64
        fileprivate let day: Int64
        fileprivate let milliseconds: Int64

        /// Appends the text byte by byte: COPY writes millions of them.
        func append(to bytes: inout [UInt8]) {
            let (seconds, millisecond) = milliseconds.quotientAndRemainder(dividingBy: 1000)
            Self.append(year, highest: 1000, then: "-", to: &bytes)
            Self.append(month, highest: 10, then: "-", to: &bytes)
            Self.append(day, highest: 10, then: " ", to: &bytes)
            Self.append(seconds / 3600, highest: 10, then: ":", to: &bytes)
            Self.append(seconds / 60 % 60, highest: 10, then: ":", to: &bytes)
            Self.append(seconds % 60, highest: 10, then: ".", to: &bytes)
            Self.append(millisecond, highest: 100, then: "+", to: &bytes)
            bytes.append(UInt8(ascii: "0"))
            bytes.append(UInt8(ascii: "0"))
        }

        /// The digits from that place on, and a separator.
        private static func append(
            _ number: Int64, highest: Int64, then separator: Unicode.Scalar,
            to bytes: inout [UInt8]
        ) {
            var place = highest
            while place > 0 {
                bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number / place % 10))
                place /= 10
            }
            bytes.append(UInt8(ascii: separator))
        }
    }

    /// Nil outside the years 1 to 9999.
    static func parts(unixMilliseconds: Int64) -> Parts? {
        let (days, rest) = floorDivide(unixMilliseconds, 86_400_000)
        let (year, month, day) = civil(daysSinceUnixEpoch: days)
        guard (1...9999).contains(year) else { return nil }
        return Parts(year: year, month: month, day: day, milliseconds: rest)
    }

    /// `2026-01-05 00:00:00.123+00`; nil outside the years 1 to 9999.
    static func text(unixMilliseconds: Int64) -> String? {
        guard let parts = parts(unixMilliseconds: unixMilliseconds) else { return nil }
        var bytes: [UInt8] = []
        parts.append(to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Days from a date of the proleptic Gregorian calendar, in eras of 400 years from 1 March.
    private static func daysSinceUnixEpoch(year: Int64, month: Int64, day: Int64) -> Int64 {
        let shifted = month <= 2 ? year - 1 : year
        let (era, yearOfEra) = floorDivide(shifted, 400)
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }

    private static func civil(daysSinceUnixEpoch days: Int64) -> (Int64, Int64, Int64) {
        let (era, dayOfEra) = floorDivide(days + 719_468, 146_097)
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let day = dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, day)
    }

    private static func floorDivide(_ value: Int64, _ by: Int64) -> (Int64, Int64) {
        let (quotient, remainder) = value.quotientAndRemainder(dividingBy: by)
        return remainder < 0 ? (quotient - 1, remainder + by) : (quotient, remainder)
    }
}

/// Reads runs of decimal digits and single separators.
private struct DigitReader {
    private let bytes: UnsafeRawBufferPointer
    private var position = 0

    init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
    }

    var isAtEnd: Bool { position == bytes.count }

    mutating func skip(_ separator: Unicode.Scalar) -> Bool {
        guard position < bytes.count, bytes[position] == UInt8(ascii: separator) else {
            return false
        }
        position += 1
        return true
    }

    mutating func number(digits: ClosedRange<Int>) -> Int64? {
        var value: Int64 = 0
        var count = 0
        while position < bytes.count, count < digits.upperBound,
            (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(bytes[position])
        {
            value = value * 10 + Int64(bytes[position] - UInt8(ascii: "0"))
            position += 1
            count += 1
        }
        return digits.contains(count) ? value : nil
    }

    /// One to six digits of a fraction, as milliseconds.
    mutating func milliseconds() -> Int64? {
        let start = position
        guard let value = number(digits: 1...6) else { return nil }
        var scaled = value
        for _ in (position - start)..<6 { scaled *= 10 }
        return scaled / 1000
    }
}

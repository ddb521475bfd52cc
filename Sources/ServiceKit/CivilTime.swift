/// The calendar fields of an instant, in UTC and by the proleptic Gregorian calendar.
package struct CivilTime {
    package let year: Int
    let month: Int
    let day: Int
    /// The milliseconds since midnight.
    let milliseconds: Int

    /// `unixMilliseconds` are UTC milliseconds since 1970.
    package init(_ unixMilliseconds: Int64) {
        let (days, rest) = Self.floorDivide(Int(unixMilliseconds), by: 86_400_000)
        // Years are counted from 1 March, so that the leap day is the last of its year:
        // https://howardhinnant.github.io/date_algorithms.html
        let (era, dayOfEra) = Self.floorDivide(days + 719_468, by: 146_097)
        let yearOfEra =
            (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shifted = (5 * dayOfYear + 2) / 153
        month = shifted < 10 ? shifted + 3 : shifted - 9
        year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        day = dayOfYear - (153 * shifted + 2) / 5 + 1
        milliseconds = rest
    }

    private static func daysSince1970(year: Int, month: Int, day: Int) -> Int {
        let (era, yearOfEra) = floorDivide(month <= 2 ? year - 1 : year, by: 400)
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
            - 719_468
    }

    private static func floorDivide(_ value: Int, by divisor: Int) -> (quotient: Int, rest: Int) {
        let (quotient, rest) = value.quotientAndRemainder(dividingBy: divisor)
        return rest < 0 ? (quotient - 1, rest + divisor) : (quotient, rest)
    }

    private static func days(inMonth month: Int, year: Int) -> Int {
        let isLeap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
        switch month {
        case 2: return isLeap ? 29 : 28
        case 4, 6, 9, 11: return 30
        default: return 31
        }
    }

    /// Appends `2026-01-05T00:00:00.123` byte by byte: COPY writes millions of them.
    package func append(
        to bytes: inout [UInt8], separator: Unicode.Scalar, hasFraction: Bool
    ) {
        let (seconds, rest) = milliseconds.quotientAndRemainder(dividingBy: 1000)
        if year < 0 { bytes.append(UInt8(ascii: "-")) }
        Self.append(Int(year.magnitude), width: 4, to: &bytes)
        bytes.append(UInt8(ascii: "-"))
        Self.append(month, width: 2, to: &bytes)
        bytes.append(UInt8(ascii: "-"))
        Self.append(day, width: 2, to: &bytes)
        bytes.append(UInt8(ascii: separator))
        Self.append(seconds / 3600, width: 2, to: &bytes)
        bytes.append(UInt8(ascii: ":"))
        Self.append(seconds / 60 % 60, width: 2, to: &bytes)
        bytes.append(UInt8(ascii: ":"))
        Self.append(seconds % 60, width: 2, to: &bytes)
        guard hasFraction else { return }
        bytes.append(UInt8(ascii: "."))
        Self.append(rest, width: 3, to: &bytes)
    }

    /// Appends the number with at least `width` digits.
    private static func append(_ number: Int, width: Int, to bytes: inout [UInt8]) {
        var place = 1
        var digits = 1
        while digits < width || number / place >= 10 {
            place *= 10
            digits += 1
        }
        while place > 0 {
            bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number / place % 10))
            place /= 10
        }
    }

    package enum Form: Sendable {
        /// `2026-12-01T00:00:00.123Z`, or an offset in place of the `Z`.
        case rfc3339
        /// `2026-01-05 00:00:00.123456+00`, as a session in UTC writes a `timestamptz`. Infinity and years before
        /// Christ have another form.
        case postgres
    }

    /// UTC milliseconds; nil for anything else, a leap second included. Digits beyond the millisecond are cut off.
    package static func parse(_ text: UnsafeRawBufferPointer, as form: Form) -> Int64? {
        let isRFC = form == .rfc3339
        var reader = DigitReader(text)
        guard let year = reader.number(digits: isRFC ? 4...4 : 4...6), reader.skip("-"),
            let month = reader.number(digits: 2...2), reader.skip("-"),
            let day = reader.number(digits: 2...2),
            isRFC ? reader.skip("T") || reader.skip("t") : reader.skip(" "),
            let hour = reader.number(digits: 2...2), reader.skip(":"),
            let minute = reader.number(digits: 2...2), reader.skip(":"),
            let second = reader.number(digits: 2...2), hour < 24, minute < 60, second < 60,
            (1...12).contains(month), day >= 1, day <= days(inMonth: month, year: year),
            let fraction = reader.fractionMilliseconds(),
            let offset = reader.offsetMinutes(form), reader.isAtEnd
        else { return nil }
        let minutes = daysSince1970(year: year, month: month, day: day) * 1440 + hour * 60 + minute
        return Int64((minutes - offset) * 60_000 + second * 1000 + fraction)
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

    private mutating func digit() -> Int? {
        guard position < bytes.count, bytes[position] &- 0x30 < 10 else { return nil }
        defer { position += 1 }
        return Int(bytes[position] &- 0x30)
    }

    mutating func number(digits: ClosedRange<Int>) -> Int? {
        var value = 0
        var count = 0
        while count < digits.upperBound, let digit = digit() {
            value = value * 10 + digit
            count += 1
        }
        return digits.contains(count) ? value : nil
    }

    mutating func fractionMilliseconds() -> Int? {
        guard skip(".") else { return 0 }
        var (value, weight, count) = (0, 100, 0)
        while let digit = digit() {
            value += digit * weight
            weight /= 10
            count += 1
        }
        return count == 0 ? nil : value
    }

    mutating func offsetMinutes(_ form: CivilTime.Form) -> Int? {
        if form == .postgres { return skip("+") && number(digits: 2...2) == 0 ? 0 : nil }
        if skip("Z") || skip("z") { return 0 }
        let sign = skip("+") ? 1 : -1
        guard sign == 1 || skip("-") else { return nil }
        guard let hours = number(digits: 2...2), skip(":"), let minutes = number(digits: 2...2),
            hours < 24, minutes < 60
        else { return nil }
        return sign * (hours * 60 + minutes)
    }
}

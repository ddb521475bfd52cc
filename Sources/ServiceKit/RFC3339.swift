/// Instants as text: `2026-12-01T00:00:00Z`, UTC milliseconds inside.
package enum RFC3339 {
    /// Reads an instant with `Z` or an offset; nil for anything else, a leap second included.
    ///
    /// Digits beyond the millisecond are cut off.
    package static func parse(_ text: String) -> Int64? {
        var reader = DigitReader(text.utf8)
        guard let year = reader.number(digits: 4), reader.skip("-"),
            let month = reader.number(digits: 2), reader.skip("-"),
            let day = reader.number(digits: 2), reader.skip("T", "t"),
            let hour = reader.number(digits: 2), reader.skip(":"),
            let minute = reader.number(digits: 2), reader.skip(":"),
            let second = reader.number(digits: 2), hour < 24, minute < 60, second < 60,
            (1...12).contains(month), day >= 1, day <= days(inMonth: month, year: year)
        else { return nil }
        guard let fraction = reader.fractionMilliseconds(), let offset = reader.offsetMinutes(),
            reader.isAtEnd
        else { return nil }
        let minutes = daysSince1970(year: year, month: month, day: day) * 1440 + hour * 60 + minute
        return Int64((minutes - offset) * 60_000 + second * 1000 + fraction)
    }

    /// Writes an instant in UTC; the fraction (`.123`) only when there is one.
    package static func format(_ milliseconds: Int64) -> String {
        let (dayNumber, inDay) = floorDivide(Int(milliseconds), by: 86_400_000)
        let (year, month, day) = civil(daysSince1970: dayNumber)
        let date = "\(pad(year, 4))-\(pad(month, 2))-\(pad(day, 2))"
        let (hour, minute, second) = (inDay / 3_600_000, inDay / 60_000 % 60, inDay / 1000 % 60)
        let time = "\(pad(hour, 2)):\(pad(minute, 2)):\(pad(second, 2))"
        let fraction = inDay % 1000 == 0 ? "" : ".\(pad(inDay % 1000, 3))"
        return "\(date)T\(time)\(fraction)Z"
    }

    private static func pad(_ number: Int, _ width: Int) -> String {
        let digits = String(number.magnitude)
        let zeros = String(repeating: "0", count: max(0, width - digits.count))
        return (number < 0 ? "-" : "") + zeros + digits
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

    // Both conversions count years from 1 March, so that the leap day is a year's last:
    // https://howardhinnant.github.io/date_algorithms.html
    private static func daysSince1970(year: Int, month: Int, day: Int) -> Int {
        let (era, yearOfEra) = floorDivide(month <= 2 ? year - 1 : year, by: 400)
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
            - 719_468
    }

    private static func civil(daysSince1970 days: Int) -> (year: Int, month: Int, day: Int) {
        let (era, dayOfEra) = floorDivide(days + 719_468, by: 146_097)
        let yearOfEra =
            (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shifted = (5 * dayOfYear + 2) / 153
        let month = shifted < 10 ? shifted + 3 : shifted - 9
        let year = yearOfEra + era * 400 + (month <= 2 ? 1 : 0)
        return (year, month, dayOfYear - (153 * shifted + 2) / 5 + 1)
    }
}

/// Reads fixed-width digit fields from the front of some bytes.
private struct DigitReader {
    private var rest: Substring.UTF8View

    init(_ bytes: String.UTF8View) {
        rest = bytes[...]
    }

    var isAtEnd: Bool { rest.isEmpty }

    private mutating func digit() -> Int? {
        guard let byte = rest.first, (0x30...0x39).contains(byte) else { return nil }
        rest.removeFirst()
        return Int(byte - 0x30)
    }

    mutating func number(digits: Int) -> Int? {
        var value = 0
        for _ in 0..<digits {
            guard let digit = digit() else { return nil }
            value = value * 10 + digit
        }
        return value
    }

    mutating func skip(_ allowed: Unicode.Scalar...) -> Bool {
        guard let byte = rest.first, allowed.contains(Unicode.Scalar(byte)) else { return false }
        rest.removeFirst()
        return true
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

    mutating func offsetMinutes() -> Int? {
        if skip("Z", "z") { return 0 }
        let sign = skip("+") ? 1 : -1
        guard sign == 1 || skip("-") else { return nil }
        guard let hours = number(digits: 2), skip(":"), let minutes = number(digits: 2),
            hours < 24, minutes < 60
        else { return nil }
        return sign * (hours * 60 + minutes)
    }
}

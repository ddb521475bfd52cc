/// A day of the proleptic Gregorian calendar, in UTC.
package struct CivilDate: Hashable, Comparable, Sendable {
    package let year: Int
    /// From 1 to 12.
    package let month: Int
    /// From 1 to 31.
    package let day: Int

    /// A day that exists between the years 1 and 9999; nil for any other.
    package init?(year: Int, month: Int, day: Int) {
        guard (1...9999).contains(year), (1...12).contains(month), day >= 1,
            day <= CivilDate.daysInMonth(year: year, month: month)
        else { return nil }
        self.init(trusted: year, month, day)
    }

    /// Reads exactly `YYYY-MM-DD`.
    package init?(_ text: some StringProtocol) {
        let bytes = Array(text.utf8)
        guard bytes.count == 10, bytes[4] == UInt8(ascii: "-"), bytes[7] == UInt8(ascii: "-"),
            let year = decimalNumber(bytes[0..<4]), let month = decimalNumber(bytes[5..<7]),
            let day = decimalNumber(bytes[8..<10])
        else { return nil }
        self.init(year: year, month: month, day: day)
    }

    /// Whether the text would be a day of a year after 9999.
    package static func isBeyond(_ text: some StringProtocol) -> Bool {
        let year = text.prefix { $0 != "-" }
        return year.utf8.count > 4 && year.utf8.allSatisfy(isDigit)
            && CivilDate("2000" + text.dropFirst(year.count)) != nil
    }

    init(daysSinceEpoch days: Int) {
        // Years are counted from 1 March, so that the leap day is the last day of its year.
        let shifted = days + 719_468
        let era = floorDivision(shifted, by: 146_097)
        let dayOfEra = shifted - era * 146_097
        let yearOfEra =
            (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        let month = monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9
        self.init(
            trusted: yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month,
            dayOfYear - (153 * monthFromMarch + 2) / 5 + 1)
    }

    /// The day of that month, or its last day where the month is shorter.
    init(monthIndex: Int, clampedDay: Int) {
        let year = floorDivision(monthIndex, by: 12)
        let month = monthIndex - year * 12 + 1
        self.init(
            trusted: year, month, min(clampedDay, CivilDate.daysInMonth(year: year, month: month)))
    }

    private init(trusted year: Int, _ month: Int, _ day: Int) {
        self.year = year
        self.month = month
        self.day = day
    }

    /// The number of days since 1970-01-01.
    package var daysSinceEpoch: Int {
        let shiftedYear = month <= 2 ? year - 1 : year
        let era = floorDivision(shiftedYear, by: 400)
        let yearOfEra = shiftedYear - era * 400
        let monthFromMarch = month > 2 ? month - 3 : month + 9
        let dayOfYear = (153 * monthFromMarch + 2) / 5 + day - 1
        return era * 146_097 + yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
            - 719_468
    }

    /// 00:00:00 UTC of this day.
    package var startAt: Instant {
        Instant(milliseconds: Int64(daysSinceEpoch) * Instant.millisecondsPerDay)
    }

    /// The number of months since the year 0.
    var monthIndex: Int { year * 12 + month - 1 }

    /// `YYYY-MM-DD`.
    package var text: String {
        var bytes: [UInt8] = []
        append(to: &bytes)
        return String(decoding: bytes, as: UTF8.self)
    }

    /// Appends `YYYY-MM-DD`.
    func append(to bytes: inout [UInt8]) {
        appendPadded(year, 4, to: &bytes)
        bytes.append(UInt8(ascii: "-"))
        appendPadded(month, 2, to: &bytes)
        bytes.append(UInt8(ascii: "-"))
        appendPadded(day, 2, to: &bytes)
    }

    package static func < (left: CivilDate, right: CivilDate) -> Bool {
        (left.year, left.month, left.day) < (right.year, right.month, right.day)
    }

    static func daysInMonth(year: Int, month: Int) -> Int {
        switch month {
        case 2: (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 29 : 28
        case 4, 6, 9, 11: 30
        default: 31
        }
    }
}

func floorDivision(_ value: Int, by divisor: Int) -> Int {
    let quotient = value / divisor
    return value % divisor < 0 ? quotient - 1 : quotient
}

func padded(_ number: Int, _ width: Int) -> String {
    var bytes: [UInt8] = []
    appendPadded(number, width, to: &bytes)
    return String(decoding: bytes, as: UTF8.self)
}

/// Appends the digits of a number, at least `width` of them; a sign counts as one.
func appendPadded(_ number: Int, _ width: Int, to bytes: inout [UInt8]) {
    guard (0..<10_000).contains(number), width <= 4 else {
        let digits = String(number).utf8
        for _ in 0..<max(0, width - digits.count) { bytes.append(UInt8(ascii: "0")) }
        return bytes.append(contentsOf: digits)
    }
    var weight = 1000
    for place in (0..<4).reversed() {
        if place < width || number >= weight {
            bytes.append(UInt8(ascii: "0") + UInt8(truncatingIfNeeded: number / weight % 10))
        }
        weight /= 10
    }
}

/// The value of a text of ASCII digits; nil when it is empty, longer than 18 digits, or holds anything else.
func decimalNumber(_ bytes: some Collection<UInt8>) -> Int? {
    guard !bytes.isEmpty, bytes.count <= 18 else { return nil }
    var value = 0
    for byte in bytes {
        guard isDigit(byte) else { return nil }
        value = value * 10 + Int(byte - UInt8(ascii: "0"))
    }
    return value
}

func isDigit(_ byte: UInt8) -> Bool { (0x30...0x39).contains(byte) }

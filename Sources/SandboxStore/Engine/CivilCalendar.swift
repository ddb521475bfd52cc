/// UTC dates of the proleptic Gregorian calendar, for stepping billing periods.
struct CivilDate: Hashable, Sendable {
    var year: Int
    var month: Int
    var day: Int

    /// Days since 1970-01-01, counted through a 400-year cycle that begins on 1 March.
    var daysSinceEpoch: Int64 {
        let marchYear = Int64(month <= 2 ? year - 1 : year)
        let cycle = (marchYear >= 0 ? marchYear : marchYear - 399) / 400
        let yearOfCycle = marchYear - cycle * 400
        let monthFromMarch = Int64((month + 9) % 12)
        let dayOfYear = (153 * monthFromMarch + 2) / 5 + Int64(day) - 1
        let dayOfCycle = yearOfCycle * 365 + yearOfCycle / 4 - yearOfCycle / 100 + dayOfYear
        return cycle * 146_097 + dayOfCycle - 719_468
    }

    init(year: Int, month: Int, day: Int) {
        self.year = year
        self.month = month
        self.day = day
    }

    init(daysSinceEpoch: Int64) {
        let shifted = daysSinceEpoch + 719_468
        let cycle = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfCycle = shifted - cycle * 146_097
        let yearOfCycle =
            (dayOfCycle - dayOfCycle / 1460 + dayOfCycle / 36_524 - dayOfCycle / 146_096) / 365
        let dayOfYear = dayOfCycle - (365 * yearOfCycle + yearOfCycle / 4 - yearOfCycle / 100)
        let monthFromMarch = (5 * dayOfYear + 2) / 153
        day = Int(dayOfYear - (153 * monthFromMarch + 2) / 5) + 1
        month = Int(monthFromMarch < 10 ? monthFromMarch + 3 : monthFromMarch - 9)
        year = Int(yearOfCycle + cycle * 400) + (month <= 2 ? 1 : 0)
    }

    static func lengthOfMonth(year: Int, month: Int) -> Int {
        switch month {
        case 4, 6, 9, 11: 30
        case 2: (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 29 : 28
        default: 31
        }
    }

    /// The date `count` months on, at `anchorDay` or at the month's last day where that is earlier.
    func stepped(months count: Int, anchorDay: Int) -> CivilDate {
        let total = year * 12 + (month - 1) + count
        let newYear = total >= 0 ? total / 12 : (total - 11) / 12
        let newMonth = total - newYear * 12 + 1
        let last = CivilDate.lengthOfMonth(year: newYear, month: newMonth)
        return CivilDate(year: newYear, month: newMonth, day: min(anchorDay, last))
    }

    /// `YYYY-MM-DD`.
    var text: String {
        let yearText = String(year)
        let padded = String(repeating: "0", count: max(0, 4 - yearText.count)) + yearText
        return "\(padded)-\(month < 10 ? "0" : "")\(month)-\(day < 10 ? "0" : "")\(day)"
    }
}

/// Lengths in UTC milliseconds.
enum Milliseconds {
    static let second: Int64 = 1000
    static let minute: Int64 = 60 * second
    static let hour: Int64 = 60 * minute
    static let day: Int64 = 24 * hour

    /// Whole days since the epoch and the rest of the day, also before 1970.
    static func split(_ instant: Int64) -> (days: Int64, rest: Int64) {
        let days = instant >= 0 ? instant / day : (instant - day + 1) / day
        return (days, instant - days * day)
    }

    static func date(of instant: Int64) -> CivilDate {
        CivilDate(daysSinceEpoch: split(instant).days)
    }
}

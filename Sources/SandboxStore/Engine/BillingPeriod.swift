/// The renewal periods of the Advanced Commerce API.
enum BillingPeriod: String, Codable, Hashable, Sendable, CaseIterable {
    case week = "P1W"
    case month = "P1M"
    case twoMonths = "P2M"
    case threeMonths = "P3M"
    case sixMonths = "P6M"
    case year = "P1Y"

    var months: Int {
        switch self {
        case .week: 0
        case .month: 1
        case .twoMonths: 2
        case .threeMonths: 3
        case .sixMonths: 6
        case .year: 12
        }
    }

    /// Days before the renewal at which the store asks for consent.
    var consentLeadDays: Int64 {
        switch self {
        case .week: 7
        case .month: 27
        case .twoMonths, .threeMonths, .sixMonths, .year: 60
        }
    }
}

/// How long a period lasts: Production's calendar, or a test month of some seconds.
struct BillingCalendar: Codable, Hashable, Sendable {
    /// Length of one month in milliseconds where periods are shortened; nil is the true calendar.
    var shortMonth: Int64?

    var isShortened: Bool { shortMonth != nil }

    /// The end of the `count`th period that begins at `start`, which is `anchorDay` of its month.
    func end(of period: BillingPeriod, from start: Int64, count: Int = 1, anchorDay: Int) -> Int64 {
        if let shortMonth {
            return start + shortLength(of: period, month: shortMonth) * Int64(count)
        }
        let (days, rest) = Milliseconds.split(start)
        if period == .week { return start + 7 * Milliseconds.day * Int64(count) }
        let date = CivilDate(daysSinceEpoch: days)
            .stepped(months: period.months * count, anchorDay: anchorDay)
        return date.daysSinceEpoch * Milliseconds.day + rest
    }

    // Apple's test accounts renew a week in 3 minutes where a month takes 5.
    private func shortLength(of period: BillingPeriod, month: Int64) -> Int64 {
        period == .week ? max(1, month * 3 / 5) : month * Int64(period.months)
    }
}

/// A whole batch in numbers, gathered row by row in the order of the file: whatever the batch's size, what is
/// kept is a few tables and 48 bytes a call.
package struct BatchForecast: Sendable {
    /// Increases kept as the largest, and lines kept as examples.
    static let examplesMax = 10

    /// The rows that can go of one storefront and period. Money in milliunits.
    package struct MoneyKey: Hashable, Comparable, Sendable {
        package var currency: String
        package var storefront: String
        package var period: String

        package static func < (left: MoneyKey, right: MoneyKey) -> Bool {
            (left.currency, left.storefront, left.period)
                < (right.currency, right.storefront, right.period)
        }
    }

    package struct Money: Sendable, Equatable {
        package var rows = 0
        /// What one period of each row costs now, and with the new prices.
        package var now: Int64 = 0
        package var then: Int64 = 0
        /// The part of `now` whose subscribers must consent, and end the item when they don't.
        package var atRisk: Int64 = 0
        /// The part of `now` whose subscribers may have to: nobody knows.
        package var maybeAtRisk: Int64 = 0
    }

    /// Rows whose consent one rule leaves open.
    package struct NotKnown: Sendable, Equatable {
        package var rows = 0
        package var storefronts: Set<String> = []
    }

    /// Rows that take effect in one week.
    package struct Week: Sendable, Equatable {
        package var increases = 0
        package var decreases = 0
        package var rows: Int { increases + decreases }
    }

    /// One increase, to be shown by itself.
    package struct Increase: Sendable, Equatable {
        package var line: Int
        package var originalTransactionID: String
        package var sku: String
        package var currency: String
        package var currentPrice: Int64
        package var newPrice: Int64

        /// The increase in tenths of a percent, rounded down; `.max` where that is too large a number.
        package var permille: Int64 {
            let (scaled, overflow) = (newPrice - currentPrice).multipliedReportingOverflow(by: 1000)
            return overflow || currentPrice <= 0 ? .max : scaled / currentPrice
        }
    }

    /// Rows above 50 % whose threshold Apple has not published.
    package struct Uncertain: Sendable, Equatable {
        package var rows = 0
        /// The first of them.
        package var lines: [Int] = []
    }

    package private(set) var rowCount = 0
    package private(set) var canGoCount = 0
    package private(set) var codes: [RowCode: Int] = [:]
    package private(set) var directions: [PlanRow.Direction: Int] = [:]
    package private(set) var consents: [Consent: Int] = [:]
    package private(set) var reasons: [ConsentReason: Int] = [:]
    /// Of the rows whose consent is not known: the rules that leave it open.
    package private(set) var notKnown: [ConsentReason: NotKnown] = [:]
    /// Rows that can go on facts older than a renewal that is known.
    package private(set) var staleCount = 0
    /// By the Monday on which the week begins.
    package private(set) var weeks: [CivilDate: Week] = [:]
    package private(set) var money: [MoneyKey: Money] = [:]
    /// The largest by percent, the largest first; of equal ones the first in the file.
    package private(set) var largest: [Increase] = []
    package private(set) var uncertain: [RuleSource: Uncertain] = [:]
    package private(set) var firstSendBy: Instant?
    package private(set) var lastEffectiveAt: Instant?
    /// What the quota is asked about.
    package private(set) var calls: CallList
    /// Rows that can go by their wave, from 1; empty without waves.
    package private(set) var waves: [Int]
    package let terms: BatchTerms

    package init(_ terms: BatchTerms = BatchTerms()) {
        self.terms = terms
        calls = CallList(terms.grouping)
        waves = terms.waves.map { [Int](repeating: 0, count: $0.waves.count) } ?? []
    }

    package var refusedCount: Int { rowCount - canGoCount }

    package mutating func add(_ row: PlanRow) {
        rowCount += 1
        if let code = row.code {
            codes[code, default: 0] += 1
            return
        }
        canGoCount += 1
        if let direction = row.direction { directions[direction, default: 0] += 1 }
        if let consent = row.consent { consents[consent, default: 0] += 1 }
        for reason in row.reasons { reasons[reason, default: 0] += 1 }
        addNotKnown(row)
        if row.isStale { staleCount += 1 }
        if let sendBy = row.sendBy { firstSendBy = min(firstSendBy ?? sendBy, sendBy) }
        if let effectiveAt = row.effectiveAt {
            lastEffectiveAt = max(lastEffectiveAt ?? effectiveAt, effectiveAt)
            count(row, inWeekOf: effectiveAt)
        }
        addMoney(row)
        addUncertain(row)
        addLargest(row)
        calls.add(row)
        countWave(row)
    }

    private mutating func addNotKnown(_ row: PlanRow) {
        guard row.consent == .notKnown else { return }
        for rule in row.notKnown {
            notKnown[rule, default: NotKnown()].rows += 1
            if let storefront = row.storefront { notKnown[rule]?.storefronts.insert(storefront) }
        }
    }

    private mutating func countWave(_ row: PlanRow) {
        guard
            let wave = terms.waves?.wave(
                ofSubscription: row.originalTransactionID, storefront: row.storefront)
        else { return }
        waves[wave - 1] += 1
    }

    private mutating func count(_ row: PlanRow, inWeekOf instant: Instant) {
        let days = instant.day.daysSinceEpoch
        // 1970-01-01 was a Thursday.
        let monday = days - (days + 3) % 7
        switch row.direction {
        case .increase: weeks[CivilDate(daysSinceEpoch: monday), default: Week()].increases += 1
        case .decrease: weeks[CivilDate(daysSinceEpoch: monday), default: Week()].decreases += 1
        case nil: break
        }
    }

    private mutating func addMoney(_ row: PlanRow) {
        guard let currency = row.currency, let storefront = row.storefront,
            let period = row.period, let current = row.currentPrice, let new = row.newPrice
        else { return }
        let key = MoneyKey(currency: currency, storefront: storefront, period: period)
        money[key, default: Money()].add(current, new, row.consent)
    }

    private mutating func addUncertain(_ row: PlanRow) {
        guard let verdict = row.verdict, verdict.restsOnThreshold else { return }
        switch verdict.thresholdSource {
        case .apple: return
        case .estimated, .unknown: break
        }
        uncertain[verdict.thresholdSource, default: Uncertain()].add(row.line)
    }

    private mutating func addLargest(_ row: PlanRow) {
        guard row.direction == .increase, let current = row.currentPrice, let new = row.newPrice
        else { return }
        if largest.count == Self.examplesMax, let last = largest.last,
            !Self.isLarger((current, new), (last.currentPrice, last.newPrice))
        {
            return
        }
        let increase = Increase(
            line: row.line, originalTransactionID: row.originalTransactionID, sku: row.sku,
            currency: row.currency ?? "", currentPrice: current, newPrice: new)
        let place = largest.firstIndex {
            Self.isLarger((current, new), ($0.currentPrice, $0.newPrice))
        }
        largest.insert(increase, at: place ?? largest.endIndex)
        if largest.count > Self.examplesMax { largest.removeLast() }
    }

    /// Whether the first grows by a larger factor, exactly: new / current, crosswise.
    private static func isLarger(
        _ left: (current: Int64, new: Int64), _ right: (current: Int64, new: Int64)
    ) -> Bool {
        let first = left.new.multipliedFullWidth(by: right.current)
        let second = right.new.multipliedFullWidth(by: left.current)
        return (first.high, first.low) > (second.high, second.low)
    }
}

extension BatchForecast.Money {
    /// Prices are far below the limit, but a sum of bad data must not trap.
    fileprivate mutating func add(_ current: Int64, _ new: Int64, _ consent: Consent?) {
        rows += 1
        now = now.addingReportingOverflow(current).partialValue
        then = then.addingReportingOverflow(new).partialValue
        switch consent {
        case .required: atRisk = atRisk.addingReportingOverflow(current).partialValue
        case .notKnown: maybeAtRisk = maybeAtRisk.addingReportingOverflow(current).partialValue
        case .notRequired?, Consent.none?, nil: break
        }
    }
}

extension BatchForecast.Uncertain {
    fileprivate mutating func add(_ line: Int) {
        rows += 1
        if lines.count < BatchForecast.examplesMax { lines.append(line) }
    }
}

extension Period {
    /// An amount of one period as an amount a month: a year is 12 months or 52 weeks, as in
    /// `report.revenue_impact`. Rounded half away from zero; nil for a period that cannot be stepped.
    package func perMonth(_ amount: Int64) -> Int64? {
        let (factor, divisor): (Int64, Int64)
        switch step {
        case .months(let months): (factor, divisor) = (1, Int64(months))
        // 52 weeks are 364 days.
        case .days(let days): (factor, divisor) = (364, Int64(days) * 12)
        case nil: return nil
        }
        let (scaled, overflow) = amount.multipliedReportingOverflow(by: factor)
        guard !overflow, divisor > 0 else { return nil }
        let (whole, rest) = scaled.quotientAndRemainder(dividingBy: divisor)
        guard Int64(rest.magnitude) * 2 >= divisor else { return whole }
        return whole + rest.signum()
    }
}

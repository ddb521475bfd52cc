/// What one scenario does to its cohort, in figures that can be added up.
package struct ScenarioForecast: Sendable, Equatable {
    /// Days of waiting that are looked at.
    package static let waitingDays = 30

    /// Why an item of the cohort gets no price.
    package enum NoPrice: String, Error, Hashable, Sendable, CaseIterable {
        /// Every increase may be asked about, however small.
        case alwaysAsked = "always_asked"
        /// The rule gives no price above 0 that the currency has.
        case notANumber = "no_price"
    }

    /// Of one currency, milliunits.
    package struct Money: Sendable, Equatable {
        package var rows = 0
        /// What all rows that can go are charged in a month, now and then.
        package var nowAMonth: Int64 = 0
        package var thenAMonth: Int64 = 0
        /// The price effect of 12 months where everybody stays.
        package var gain: Int64 = 0
        /// What is lost of it where all who are, or may be, asked decline: their increases, and what they are charged
        /// today with the dependents.
        package var loss: Int64 = 0
        /// What those who must consent are charged in a month, dependents counted in; and those who may have to.
        package var atRiskAMonth: Int64 = 0
        package var maybeAtRiskAMonth: Int64 = 0

        package static let none = Money()

        /// The price effect of 12 months where so many hundredths of a percent of those asked decline.
        package func effect(declining basisPoints: Int64) -> Int64 {
            let lost = Int128(loss) * Int128(basisPoints) / 10_000
            return Int64(clamping: Int128(gain) - lost)
        }

        /// The decline rate, in hundredths of a percent, at which 12 months bring nothing: nil where none does.
        package var breakEvenBasisPoints: Int64? {
            guard loss > 0, gain >= 0, gain <= loss else { return nil }
            return Int64(clamping: Int128(gain) * 10_000 / Int128(loss))
        }

        package static func + (left: Money, right: Money) -> Money {
            Money(
                rows: left.rows + right.rows,
                nowAMonth: sum(left.nowAMonth, right.nowAMonth),
                thenAMonth: sum(left.thenAMonth, right.thenAMonth),
                gain: sum(left.gain, right.gain), loss: sum(left.loss, right.loss),
                atRiskAMonth: sum(left.atRiskAMonth, right.atRiskAMonth),
                maybeAtRiskAMonth: sum(left.maybeAtRiskAMonth, right.maybeAtRiskAMonth))
        }

        /// The same in another currency; nil where it does not fit.
        package func converted(_ convert: (Int64) -> Int64?) -> Money? {
            guard let now = convert(nowAMonth), let then = convert(thenAMonth),
                let gain = convert(gain), let loss = convert(loss),
                let atRisk = convert(atRiskAMonth), let maybe = convert(maybeAtRiskAMonth)
            else { return nil }
            return Money(
                rows: rows, nowAMonth: now, thenAMonth: then, gain: gain, loss: loss,
                atRiskAMonth: atRisk, maybeAtRiskAMonth: maybe)
        }

        private static func sum(_ left: Int64, _ right: Int64) -> Int64 {
            Int64(clamping: Int128(left) + Int128(right))
        }
    }

    package let sentAt: Instant
    package private(set) var rows = 0
    package private(set) var canGo = 0
    package private(set) var codes: [RowCode: Int] = [:]
    package private(set) var withoutPrice: [NoPrice: Int] = [:]
    package private(set) var consents: [Consent: Int] = [:]
    /// Rows by the month in which they take effect, counted from the year 0.
    package private(set) var months: [Int: Int] = [:]
    /// By whole days of waiting, from 1 on: rows whose renewal slips with that day.
    package private(set) var slips = [Int](repeating: 0, count: waitingDays)
    package private(set) var money: [String: Money] = [:]

    package init(sentAt: Instant) { self.sentAt = sentAt }

    package var refused: Int { rows - canGo }

    mutating func refuse(_ why: NoPrice) {
        rows += 1
        withoutPrice[why, default: 0] += 1
    }

    mutating func add(_ row: PlanRow, renewals: Renewals?) {
        rows += 1
        if let code = row.code {
            codes[code, default: 0] += 1
            return
        }
        canGo += 1
        if let consent = row.consent { consents[consent, default: 0] += 1 }
        if let effectiveAt = row.effectiveAt { months[effectiveAt.day.monthIndex, default: 0] += 1 }
        countSlip(row)
        addMoney(row, renewals)
    }

    private mutating func countSlip(_ row: PlanRow) {
        guard let sendBy = row.sendBy, sendBy >= sentAt else { return }
        let day = (sendBy.milliseconds - sentAt.milliseconds) / Instant.millisecondsPerDay
        if let day = Int(exactly: day), slips.indices.contains(day) { slips[day] += 1 }
    }

    private mutating func addMoney(_ row: PlanRow, _ renewals: Renewals?) {
        guard let code = row.currency, let current = row.currentPrice, let new = row.newPrice,
            let period = row.period.map(Period.init), let effectiveAt = row.effectiveAt
        else { return }
        let count = renewals.map { charges(from: effectiveAt, $0) } ?? 0
        func times(_ amount: Int64) -> Int64 { Int64(clamping: Int128(amount) * Int128(count)) }
        var money = Money(
            rows: 1, nowAMonth: period.perMonth(current) ?? 0,
            thenAMonth: period.perMonth(new) ?? 0, gain: times(new - current))
        let atRisk = row.atRisk ?? current
        switch row.consent {
        case .required: money.atRiskAMonth = period.perMonth(atRisk) ?? 0
        case .notKnown: money.maybeAtRiskAMonth = period.perMonth(atRisk) ?? 0
        case .notRequired?, Consent.none?, nil:
            self.money[code] = (self.money[code] ?? Money()) + money
            return
        }
        money.loss = Int64(clamping: Int128(times(new - current)) + Int128(times(atRisk)))
        self.money[code] = (self.money[code] ?? Money()) + money
        addElsewhere(row, effectiveAt)
    }

    /// Dependents in another currency or period: by the month, to the same day a year later.
    private mutating func addElsewhere(_ row: PlanRow, _ effectiveAt: Instant) {
        let months = max(0, horizon.day.monthIndex - effectiveAt.day.monthIndex)
        for charge in row.atRiskElsewhere {
            guard let amount = Period(charge.period).perMonth(charge.amount) else { continue }
            var money = Money()
            money.loss = Int64(clamping: Int128(amount) * Int128(months))
            if row.consent == .required {
                money.atRiskAMonth = amount
            } else {
                money.maybeAtRiskAMonth = amount
            }
            self.money[charge.currency] = (self.money[charge.currency] ?? Money()) + money
        }
    }

    /// The renewals of 12 months from the call that charge the new price.
    private func charges(from effectiveAt: Instant, _ renewals: Renewals) -> Int {
        let first = renewals.firstIndex(atOrAfter: effectiveAt)
        return max(0, renewals.firstIndex(atOrAfter: horizon) - first)
    }

    private var horizon: Instant { sentAt.advanced(byMonths: 12) }

    /// Adds the figures of another part of the same cohort.
    package mutating func add(_ other: ScenarioForecast) {
        rows += other.rows
        canGo += other.canGo
        codes.merge(other.codes, uniquingKeysWith: +)
        withoutPrice.merge(other.withoutPrice, uniquingKeysWith: +)
        consents.merge(other.consents, uniquingKeysWith: +)
        months.merge(other.months, uniquingKeysWith: +)
        for (day, rows) in other.slips.enumerated() where slips.indices.contains(day) {
            slips[day] += rows
        }
        money.merge(other.money, uniquingKeysWith: +)
    }
}

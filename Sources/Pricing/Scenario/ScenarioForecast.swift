/// What one scenario does to its cohort, in figures that can be added up.
package struct ScenarioForecast: Sendable, Equatable {
    /// For how many days of waiting it is computed.
    package static let waitingDays = 30

    /// Why an item of the cohort gets no price.
    package enum NoPrice: String, Error, Hashable, Sendable, CaseIterable {
        /// Consent may be needed for every increase, however small.
        case alwaysAsked = "always_asked"
        /// The rule gives no price above 0 that the currency has.
        case notANumber = "no_price"
    }

    /// The money effect of 12 months in one currency.
    package struct Effect: Sendable, Equatable {
        /// The gain if everybody stays.
        package var gain = MoneySum.zero
        /// The loss if everybody who is, or may be, asked declines: their increases, and their present charges with
        /// those of the dependents.
        package var loss = MoneySum.zero

        package static let none = Effect()

        /// The effect if this share of those asked declines, in hundredths of a percent.
        package func effect(declining basisPoints: Int64) -> MoneySum {
            gain - loss.times(basisPoints, over: 10_000)
        }

        /// The decline rate, in hundredths of a percent, at which the effect of 12 months is zero; nil where there is
        /// none.
        package var breakEvenBasisPoints: Int64? { gain.basisPoints(of: loss) }

        package static func + (left: Effect, right: Effect) -> Effect {
            Effect(gain: left.gain + right.gain, loss: left.loss + right.loss)
        }

        /// The effect in another currency; nil where there is no rate.
        package func converted(_ convert: (MoneySum) -> MoneySum?) -> Effect? {
            guard let gain = convert(gain), let loss = convert(loss) else { return nil }
            return Effect(gain: gain, loss: loss)
        }
    }

    /// Which of the cohort's options its subscriptions have.
    package struct Seen: Sendable, Equatable {
        package var skus: Set<String> = []
        package var storefronts: Set<String> = []
        package var dependents: Set<String> = []

        package init() {}

        package mutating func formUnion(_ other: Seen) {
            skus.formUnion(other.skus)
            storefronts.formUnion(other.storefronts)
            dependents.formUnion(other.dependents)
        }

        fileprivate mutating func add(_ facts: SubscriptionFacts, _ cohort: Cohort) {
            for item in facts.items where item.renews {
                if cohort.skus.contains(item.sku) { skus.insert(item.sku) }
                if cohort.dependents.contains(item.sku) { dependents.insert(item.sku) }
            }
            if let storefront = facts.storefront { storefronts.insert(storefront) }
        }
    }

    package private(set) var seen = Seen()
    package let sentAt: Instant
    package private(set) var rows = 0
    package private(set) var canGo = 0
    package private(set) var codes: [RowCode: Int] = [:]
    package private(set) var withoutPrice: [NoPrice: Int] = [:]
    package private(set) var consents: [Consent: Int] = [:]
    /// The rows that can go although a known renewal has passed without a statement about it.
    package private(set) var stale = 0
    /// The rows by the month in which they take effect, counted from the year 0.
    package private(set) var months: [Int: Int] = [:]
    /// The rows whose renewal slips with each day of waiting, from one day on.
    package private(set) var slips = [Int](repeating: 0, count: waitingDays)
    /// What all rows that can go are charged a period, now and then, and what is at risk.
    package private(set) var money: [BatchFigures.MoneyKey: BatchFigures.Money] = [:]
    /// The effects by currency.
    package private(set) var effects: [String: Effect] = [:]

    package init(sentAt: Instant) { self.sentAt = sentAt }

    package var refused: Int { rows - canGo }

    /// Notes a subscription of the cohort, whatever becomes of its rows.
    mutating func see(_ facts: SubscriptionFacts, _ cohort: Cohort) { seen.add(facts, cohort) }

    mutating func refuse(_ why: NoPrice) {
        rows += 1
        withoutPrice[why, default: 0] += 1
    }

    /// - Parameters:
    ///   - fall: When the item is cancelled if the customer declines another row's.
    ///   - isStale: Whether a known renewal had passed without a statement at the instant of the forecast.
    mutating func add(
        _ row: PlanRow, renewals: Renewals?, fallingAt fall: Instant?, isStale: Bool
    ) {
        rows += 1
        if let code = row.code {
            codes[code, default: 0] += 1
            return
        }
        canGo += 1
        if isStale { stale += 1 }
        if let consent = row.consent { consents[consent, default: 0] += 1 }
        if let effectiveAt = row.effectiveAt { months[effectiveAt.day.monthIndex, default: 0] += 1 }
        countSlip(row)
        money.add(row)
        addEffect(row, renewals, fall)
    }

    private mutating func countSlip(_ row: PlanRow) {
        guard let sendBy = row.sendBy, sendBy >= sentAt else { return }
        let day = (sendBy.milliseconds - sentAt.milliseconds) / Instant.millisecondsPerDay
        if let day = Int(exactly: day), slips.indices.contains(day) { slips[day] += 1 }
    }

    private mutating func addEffect(_ row: PlanRow, _ renewals: Renewals?, _ fall: Instant?) {
        guard let code = row.currency, let current = row.currentPrice, let new = row.newPrice,
            let effectiveAt = row.effectiveAt
        else { return }
        let count = renewals.map { charges(from: effectiveAt, $0) } ?? 0
        // The amount at risk is for all seats, so the gain must be too.
        let gainOnce = (MoneySum(new) - MoneySum(current)).times(row.seats)
        let gain = gainOnce.times(Int64(count))
        effects[code, default: .none].gain += gain
        switch row.consent {
        case .notRequired?, Consent.none?, nil:
            // The other row counts the present charges of this one as at risk.
            guard let fall, let renewals else { return }
            let lost = charges(from: max(effectiveAt, fall), renewals)
            effects[code, default: .none].loss += gainOnce.times(Int64(lost))
            return
        case .required?, .notKnown?: break
        }
        // Dependents are on the same subscription, so a charge in `atRiskElsewhere` is there only because it did not
        // fit into 64 bits.
        let atRisk = row.atRiskElsewhere.reduce(row.countedAtRisk(current)) {
            $0 + MoneySum($1.amount)
        }
        effects[code, default: .none].loss += gain + atRisk.times(Int64(count))
    }

    /// How many renewals of the 12 months after the call charge the new price.
    private func charges(from effectiveAt: Instant, _ renewals: Renewals) -> Int {
        let first = renewals.firstIndex(atOrAfter: effectiveAt)
        return max(0, renewals.firstIndex(atOrAfter: horizon) - first)
    }

    private var horizon: Instant { sentAt.advanced(byMonths: 12) }

    /// Adds the figures of another part of the same cohort.
    package mutating func add(_ other: ScenarioForecast) {
        seen.formUnion(other.seen)
        rows += other.rows
        canGo += other.canGo
        stale += other.stale
        codes.merge(other.codes, uniquingKeysWith: +)
        withoutPrice.merge(other.withoutPrice, uniquingKeysWith: +)
        consents.merge(other.consents, uniquingKeysWith: +)
        months.merge(other.months, uniquingKeysWith: +)
        for (day, rows) in other.slips.enumerated() where slips.indices.contains(day) {
            slips[day] += rows
        }
        for (key, sum) in other.money { money[key, default: .init()].add(sum) }
        effects.merge(other.effects, uniquingKeysWith: +)
    }
}

extension BatchFigures {
    /// What the rows of one currency and period cost.
    package struct Money: Sendable, Equatable {
        package var rows = 0
        /// What one period of each row costs now, and with the new prices, of all its seats.
        package var now = MoneySum.zero
        package var then = MoneySum.zero
        /// What is charged now for items whose subscribers must consent, and for their dependents. All of it ends
        /// when they do not.
        package var atRisk = MoneySum.zero
        /// The same for subscribers whose consent is not known.
        package var maybeAtRisk = MoneySum.zero

        package init(
            rows: Int = 0, now: MoneySum = .zero, then: MoneySum = .zero, atRisk: MoneySum = .zero,
            maybeAtRisk: MoneySum = .zero
        ) {
            self.rows = rows
            self.now = now
            self.then = then
            self.atRisk = atRisk
            self.maybeAtRisk = maybeAtRisk
        }

        /// How much more the new prices bring; below 0 where they bring less.
        package var change: MoneySum { then - now }

        /// Whether one of the sums is too large.
        package var isTooLarge: Bool {
            [now, then, change, atRisk, maybeAtRisk].contains(where: \.isTooLarge)
        }

        package mutating func addPrice(_ current: Int64, _ new: Int64, seats: Int64) {
            rows += 1
            now += MoneySum(current).times(seats)
            then += MoneySum(new).times(seats)
        }

        package mutating func addAtRisk(_ amount: MoneySum, _ consent: Consent?) {
            switch consent {
            case .required: atRisk += amount
            case .notKnown: maybeAtRisk += amount
            case .notRequired?, Consent.none?, nil: break
            }
        }

        package mutating func add(_ other: Money) {
            rows += other.rows
            now += other.now
            then += other.then
            atRisk += other.atRisk
            maybeAtRisk += other.maybeAtRisk
        }

        /// Each sum converted; nil where one cannot be.
        func converted(_ convert: (MoneySum) -> MoneySum?) -> Money? {
            guard let now = convert(now), let then = convert(then), let atRisk = convert(atRisk),
                let maybeAtRisk = convert(maybeAtRisk)
            else { return nil }
            return Money(
                rows: rows, now: now, then: then, atRisk: atRisk, maybeAtRisk: maybeAtRisk)
        }
    }
}

extension [BatchFigures.MoneyKey: BatchFigures.Money] {
    /// Adds the prices of a row that can be sent, and its amounts at risk.
    mutating func add(_ row: PlanRow) {
        guard let currency = row.currency, let storefront = row.storefront,
            let period = row.period, let current = row.currentPrice, let new = row.newPrice
        else { return }
        let key = BatchFigures.MoneyKey(
            currency: currency, storefront: storefront, period: period)
        self[key, default: .init()].addPrice(current, new, seats: row.seats)
        self[key]?.addAtRisk(row.countedAtRisk(current), row.consent)
        for charge in row.atRiskElsewhere {
            addElsewhere(.init(charge), MoneySum(charge.amount), row.consent)
        }
    }

    /// Adds an amount at risk on another subscription. A group without one gets no line.
    package mutating func addElsewhere(
        _ key: BatchFigures.MoneyKey, _ amount: MoneySum, _ consent: Consent?
    ) {
        var money = self[key] ?? .init()
        money.addAtRisk(amount, consent)
        if money != .init() { self[key] = money }
    }
}

extension BatchFigures {
    /// Sums of milliunits; one that does not fit stands at the limit, for bad data must neither trap nor turn its sign.
    package struct Money: Sendable, Equatable {
        package var rows = 0
        /// What one period of each row costs now, and with the new prices.
        package var now: Int64 = 0
        package var then: Int64 = 0
        /// What is charged now for items whose subscribers must consent, and for their dependents: all end when they don't.
        package var atRisk: Int64 = 0
        /// The same of subscribers who may have to: nobody knows.
        package var maybeAtRisk: Int64 = 0

        package init(
            rows: Int = 0, now: Int64 = 0, then: Int64 = 0, atRisk: Int64 = 0,
            maybeAtRisk: Int64 = 0
        ) {
            self.rows = rows
            self.now = now
            self.then = then
            self.atRisk = atRisk
            self.maybeAtRisk = maybeAtRisk
        }

        /// How much more it is with the new prices; below 0 where it is less.
        package var change: Int64 {
            let (change, overflow) = then.subtractingReportingOverflow(now)
            return overflow ? (then < now ? .min : .max) : change
        }

        package mutating func addPrice(_ current: Int64, _ new: Int64) {
            rows += 1
            now = bounded(now, plus: current)
            then = bounded(then, plus: new)
        }

        package mutating func addAtRisk(_ amount: Int64, _ consent: Consent?) {
            switch consent {
            case .required: atRisk = bounded(atRisk, plus: amount)
            case .notKnown: maybeAtRisk = bounded(maybeAtRisk, plus: amount)
            case .notRequired?, Consent.none?, nil: break
            }
        }

        package mutating func add(_ other: Money) {
            rows += other.rows
            now = bounded(now, plus: other.now)
            then = bounded(then, plus: other.then)
            atRisk = bounded(atRisk, plus: other.atRisk)
            maybeAtRisk = bounded(maybeAtRisk, plus: other.maybeAtRisk)
        }

        /// Each sum converted; nil where one can't be.
        func converted(_ convert: (Int64) -> Int64?) -> Money? {
            guard let now = convert(now), let then = convert(then), let atRisk = convert(atRisk),
                let maybeAtRisk = convert(maybeAtRisk)
            else { return nil }
            return Money(
                rows: rows, now: now, then: then, atRisk: atRisk, maybeAtRisk: maybeAtRisk)
        }
    }
}

/// The sum, or the limit that it passes.
private func bounded(_ left: Int64, plus right: Int64) -> Int64 {
    let (sum, overflow) = left.addingReportingOverflow(right)
    return overflow ? (right < 0 ? .min : .max) : sum
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

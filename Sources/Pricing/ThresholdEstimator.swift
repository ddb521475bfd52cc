/// Estimates the thresholds of storefronts without a row, for one kind of period.
///
/// The definition: convert the USA's amount by the rates in force. Divide each of Apple's amounts, of that currency or
/// of all currencies where it has none, by the USA's amount converted to its currency. The estimate is the converted
/// amount times the median of these factors. The USA's amount and its rate cancel out, so the estimate is the median of
/// Apple's amounts, each converted into the currency. Rows of the currency itself therefore need no rate.
///
/// - The median of an even number is the mean of the two in the middle.
/// - A shown estimate is rounded down to the currency's smallest step, and its error is rounded up. Whether an increase
///   is close to the estimate is decided on the unrounded values.
/// - A row in a currency without a rate is left out where rates are needed.
struct ThresholdEstimator {
    /// The USA's own row.
    private let base: Rule?
    /// Apple's amounts of this kind, without amounts that a person has estimated.
    private let known: [Rule]
    private let rates: [String: Rule]

    /// `rates` are those in force, that of the euro included.
    init(
        _ kind: PeriodKind, thresholds: [Rule], rates: [String: Rule]
    ) {
        self.rates = rates
        known = thresholds.filter { $0.key.periodKind == kind && $0.isApples }
        base = thresholds.first {
            $0.key.periodKind == kind && $0.storefront == "USA" && $0.currency == "USD"
        }
    }

    /// nil where there is nothing to estimate from, or the amount does not fit.
    func estimate(_ currency: Currency) -> ThresholdInForce? {
        let own = known.filter { $0.currency == currency.code }
        guard own.isEmpty else {
            return estimate(currency, own.map { Money.fine($0.value) }, nil)
        }
        guard let base, let rate = rates[currency.code], let usd = rates["USD"] else { return nil }
        var used = [rate, usd]
        var amounts: [Int128] = []
        for row in known {
            guard let from = rates[row.currency],
                let amount = Money.fine(row.value, rate.perEuro, per: from.perEuro)
            else { continue }
            amounts.append(amount)
            used.append(from)
        }
        guard let median = Self.median(amounts),
            let plain = Money.fine(base.value, rate.perEuro, per: usd.perEuro),
            let correction = Money.factor(median, over: plain)
        else { return nil }
        return estimate(
            currency, amounts,
            ThresholdEstimate.Conversion(
                usdAmount: base.value, perEuro: rate.perEuro, usdPerEuro: usd.perEuro,
                correction: correction, ratesFrom: used.compactMap(\.validFrom).min(),
                source: currency.code == "EUR" ? usd.source : rate.source))
    }

    private func estimate(
        _ currency: Currency, _ amounts: [Int128], _ conversion: ThresholdEstimate.Conversion?
    ) -> ThresholdInForce? {
        let step = Money.fine(currency.smallestStep)
        guard let median = Self.median(amounts),
            let furthest = amounts.map({ ($0 - median).magnitude }).max(),
            let amount = Int64(exactly: median / step * step / Money.parts),
            let error = Int64(
                exactly: (Int128(furthest) + step - 1) / step * step / Money.parts)
        else { return nil }
        return ThresholdInForce(
            amount: amount, source: .estimated,
            basis: .estimate(
                ThresholdEstimate(
                    error: error, exact: .init(amount: median, error: Int128(furthest)),
                    rows: amounts.count, conversion: conversion)))
    }

    private static func median(_ amounts: [Int128]) -> Int128? {
        let sorted = amounts.sorted()
        let middle = sorted.count / 2
        guard let upper = sorted.dropFirst(middle).first else { return nil }
        guard sorted.count.isMultiple(of: 2), let lower = sorted.dropFirst(middle - 1).first else {
            return upper
        }
        return (lower + upper) / 2
    }
}

/// Amounts in billionths of a milliunit: at most 2^63 milliunits, so that sums and products with 2^30 fit 128 bits.
private enum Money {
    static let parts = ThresholdEstimate.Exact.parts

    static func fine(_ milliunits: Int64) -> Int128 { Int128(milliunits) * parts }

    /// `amount` × `rate` ÷ `divisor`, rounded to the nearest billionth; nil where it has more milliunits than
    /// `Int64`.
    static func fine(_ amount: Int64, _ rate: Rate, per divisor: Rate) -> Int128? {
        let divisor = Int128(divisor.billionths)
        let (whole, rest) = (Int128(amount) * Int128(rate.billionths))
            .quotientAndRemainder(dividingBy: divisor)
        guard Int64(exactly: whole) != nil else { return nil }
        return whole * parts + (rest * parts + divisor / 2) / divisor
    }

    /// A quotient to four decimals; nil where it is none, is 0, or is too large.
    static func factor(_ amount: Int128, over divisor: Int128) -> Rate? {
        guard divisor > 0 else { return nil }
        let tenThousandths = (amount * 10_000 + divisor / 2) / divisor
        guard let small = Int64(exactly: tenThousandths) else { return nil }
        let (billionths, overflow) = small.multipliedReportingOverflow(by: 100_000)
        return overflow ? nil : Rate(billionths: billionths)
    }
}

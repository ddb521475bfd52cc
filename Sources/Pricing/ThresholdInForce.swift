/// The amount that an increase is compared with, and where it comes from.
struct ThresholdInForce: Hashable, Sendable {
    var amount: Int64
    var source: RuleSource
    var basis = Basis.row

    /// A plan holds one of these a row: the estimate's figures are shared, not copied.
    indirect enum Basis: Hashable, Sendable {
        case row
        case estimate(ThresholdEstimate)
    }

    var estimate: ThresholdEstimate? {
        switch basis {
        case .row: nil
        case .estimate(let estimate): estimate
        }
    }
}

/// How a threshold was estimated for a storefront that has no row of its own.
struct ThresholdEstimate: Hashable, Sendable {
    /// The threshold of the USA, in milliunits of USD.
    var usdAmount: Int64
    /// What one euro costs in the subscription's currency.
    var perEuro: Rate
    var usdPerEuro: Rate
    /// Since when the older of the two rates is in force; nil: since ever.
    var ratesFrom: Instant?
    var source: String

    /// Rounded down to the currency's smallest step, so that an estimate rather forecasts consent than
    /// misses it; nil when the amount does not fit.
    func amount(in currency: Currency) -> Int64? {
        perEuro.converted(usdAmount, per: usdPerEuro).map { $0 - $0 % currency.smallestStep }
    }
}

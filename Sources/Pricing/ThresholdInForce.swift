/// The amount with which an increase is compared, and where it comes from.
struct ThresholdInForce: Hashable, Sendable {
    var amount: Int64
    var source: RuleSource
    var basis = Basis.row

    /// A plan holds one of these a row, so the estimate's figures are shared and not copied.
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

    /// Whether an increase by `difference` exceeds the amount. Nil where it is closer to an estimate than the
    /// estimate's own error, because Apple's amount may then lie on either side.
    func isExceeded(by difference: Int64) -> Bool? {
        isClose(to: difference) ? nil : difference > amount
    }

    /// Whether the difference is closer to an estimate than the error of the estimate. It compares the exact values,
    /// because the shown ones are rounded.
    private func isClose(to difference: Int64) -> Bool {
        guard let exact = estimate?.exact else { return false }
        let distance = Int128(difference) * ThresholdEstimate.Exact.parts - exact.amount
        return distance.magnitude < exact.error.magnitude
    }
}

/// The basis of an estimated threshold.
struct ThresholdEstimate: Hashable, Sendable {
    /// By how much Apple's own amounts differ from their estimates: the largest difference, in the milliunits of the
    /// estimate, rounded up to the currency's smallest step.
    var error: Int64
    /// The estimate and its error before they were rounded.
    var exact: Exact
    /// How many of Apple's amounts it rests on.
    var rows: Int
    /// The conversion; nil where these amounts are of the currency itself, and no rate was needed.
    var conversion: Conversion?

    /// In billionths of a milliunit.
    struct Exact: Hashable, Sendable {
        static let parts: Int128 = 1_000_000_000
        var amount: Int128
        var error: Int128
    }

    struct Conversion: Hashable, Sendable {
        /// The threshold of the USA, in milliunits of USD.
        var usdAmount: Int64
        /// What one euro costs in the subscription's currency.
        var perEuro: Rate
        var usdPerEuro: Rate
        /// The factor from the amount converted by rates alone to the estimate, with four decimals.
        var correction: Rate
        /// Since when the oldest of the used rates is in force; nil where it always was.
        var ratesFrom: Instant?
        var source: String
    }
}

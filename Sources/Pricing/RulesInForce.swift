/// The rules of one instant, indexed. They are made once for a whole batch.
package struct RulesInForce: Hashable, Sendable {
    private struct ThresholdKey: Hashable {
        var storefront: String
        var currency: String
        var kind: PeriodKind
    }

    private struct EstimateKey: Hashable {
        var currency: String
        var kind: PeriodKind
    }

    private var thresholds: [ThresholdKey: RuleSet.Threshold] = [:]
    private var alwaysConsent: [String: RuleSet.AlwaysConsent] = [:]
    private var currencies: [String: RuleSet.CurrencyRule] = [:]
    private var exchangeRates: [String: RuleSet.ExchangeRate] = [:]
    private var estimates: [EstimateKey: ThresholdInForce] = [:]
    /// The storefronts for which Apple gives an amount.
    private var storefrontsWithAmount: Set<String> = []

    init(_ rules: RuleSet, at now: Instant) {
        thresholds = newest(rules.thresholds, at: now, from: \.validFrom) {
            ThresholdKey(storefront: $0.storefront, currency: $0.currency, kind: $0.kind)
        }
        alwaysConsent = newest(rules.alwaysConsent, at: now, from: \.validFrom, by: \.storefront)
        currencies = newest(rules.currencies, at: now, from: \.validFrom, by: \.currency.code)
        exchangeRates = newest(rules.exchangeRates, at: now, from: \.validFrom, by: \.currency)
        estimates = makeEstimates()
        storefrontsWithAmount = Set(
            thresholds.values.lazy.filter { $0.source == .apple }.map(\.storefront))
    }

    /// The amount that judges an increase; nil where there is neither a row nor a way to estimate one.
    func thresholdInForce(
        storefront: String, currency: String, kind: PeriodKind
    ) -> ThresholdInForce? {
        if let row = threshold(storefront: storefront, currency: currency, kind: kind) {
            return ThresholdInForce(amount: row.amount, source: row.source)
        }
        return estimates[EstimateKey(currency: currency, kind: kind)]
    }

    /// The estimate of every currency, so that a million rows read it instead of computing it.
    private func makeEstimates() -> [EstimateKey: ThresholdInForce] {
        var rates = exchangeRates
        rates["EUR"] = exchangeRate("EUR")
        var estimates: [EstimateKey: ThresholdInForce] = [:]
        for kind in PeriodKind.allCases {
            let estimator = ThresholdEstimator(kind, thresholds: thresholds.values, rates: rates)
            for (code, row) in currencies {
                estimates[EstimateKey(currency: code, kind: kind)] =
                    estimator.estimate(row.currency)
            }
        }
        return estimates
    }

    /// What one euro costs in a currency; nil where no rate is loaded. The euro itself needs none.
    package func exchangeRate(_ code: String) -> RuleSet.ExchangeRate? {
        if let row = exchangeRates[code] { return row }
        return code == "EUR"
            ? RuleSet.ExchangeRate(currency: code, perEuro: .one, source: "identity") : nil
    }

    /// The threshold of a storefront in a subscription's currency; nil where none is known.
    package func threshold(
        storefront: String, currency: String, kind: PeriodKind
    ) -> RuleSet.Threshold? {
        thresholds[ThresholdKey(storefront: storefront, currency: currency, kind: kind)]
    }

    /// Whether every increase of a storefront needs consent.
    struct AlwaysAnswer: Hashable, Sendable {
        var isRequired: Bool
        /// A `RuleSource`, or `inferred`.
        var source: String
    }

    /// What the list says of the storefront; nil where nobody knows.
    ///
    /// Inference: Apple gives an amount only where an increase can go without consent, so a storefront with an amount
    /// does not always ask. That the list does not name a storefront says nothing.
    func alwaysAnswer(storefront: String) -> AlwaysAnswer? {
        if let row = alwaysConsent[storefront] {
            return AlwaysAnswer(isRequired: row.isRequired, source: row.source.rawValue)
        }
        return storefrontsWithAmount.contains(storefront)
            ? AlwaysAnswer(isRequired: false, source: "inferred") : nil
    }

    /// A currency by its ISO code in upper case; nil for one in which Apple does not price.
    package func currency(_ code: String) -> Currency? { currencies[code]?.currency }

    /// The rows in force, in the order of their keys.
    package var thresholdRows: [RuleSet.Threshold] {
        thresholds.values.sorted {
            ($0.storefront, $0.currency, $0.kind.rawValue)
                < ($1.storefront, $1.currency, $1.kind.rawValue)
        }
    }

    package var alwaysConsentRows: [RuleSet.AlwaysConsent] {
        alwaysConsent.values.sorted { $0.storefront < $1.storefront }
    }

    package var currencyRows: [RuleSet.CurrencyRule] {
        currencies.values.sorted { $0.currency.code < $1.currency.code }
    }

    /// The estimates by which storefronts without a row of their own are judged, in the order of currencies.
    package var estimateRows: [Estimate] {
        estimates.map { Estimate($0.currency, $0.kind, $1) }
            .sorted { ($0.currency, $0.kind.rawValue) < ($1.currency, $1.kind.rawValue) }
    }

    /// The estimate by which a storefront without a row is judged; nil where nothing is known.
    package func estimate(currency: String, kind: PeriodKind) -> Estimate? {
        estimates[EstimateKey(currency: currency, kind: kind)].map { Estimate(currency, kind, $0) }
    }

    /// A threshold that Apple's other amounts suggest.
    package struct Estimate: Hashable, Sendable {
        package var currency: String
        package var kind: PeriodKind
        /// The amount in milliunits a period.
        package var amount: Int64
        /// By how many milliunits it may be off. An increase that is closer to it is not judged.
        package var error: Int64
        /// How many of Apple's amounts it rests on.
        package var rows: Int
        /// Whether these are of other currencies, converted by the rates in force.
        package var isConverted: Bool

        fileprivate init(_ currency: String, _ kind: PeriodKind, _ threshold: ThresholdInForce) {
            self.currency = currency
            self.kind = kind
            amount = threshold.amount
            error = threshold.estimate?.error ?? 0
            rows = threshold.estimate?.rows ?? 0
            isConverted = threshold.estimate?.conversion != nil
        }
    }

    package var exchangeRateRows: [RuleSet.ExchangeRate] {
        exchangeRates.values.sorted { $0.currency < $1.currency }
    }

    /// All rows in force as lines in a fixed order, for the plan hash.
    ///
    /// Exchange rates are not among them: a row that rests on one names it, and the others must not drift with every
    /// day's rates.
    var canonicalLines: [String] {
        let amounts = thresholds.values.map {
            "threshold \($0.storefront) \($0.currency) \($0.kind.rawValue) \($0.amount) "
                + $0.source.rawValue
        }
        let always = alwaysConsent.values.map {
            "always \($0.storefront) \($0.isRequired) \($0.source.rawValue)"
        }
        let decimals = currencies.values.map {
            "currency \($0.currency.code) \($0.currency.decimals)"
        }
        return (amounts + always + decimals).sorted()
    }
}

/// The rows in force: for each key the latest, or among equal dates the last.
private func newest<Row, Key: Hashable>(
    _ rows: [Row], at now: Instant, from validFrom: (Row) -> Instant?, by key: (Row) -> Key
) -> [Key: Row] {
    let inForce = rows.enumerated()
        .map { (at: validFrom($1)?.milliseconds ?? .min, order: $0, row: $1) }
        .filter { $0.at <= now.milliseconds }
        .sorted { ($0.at, $0.order) < ($1.at, $1.order) }
    return Dictionary(inForce.map { (key($0.row), $0.row) }) { _, later in later }
}

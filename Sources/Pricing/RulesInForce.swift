/// The rules of one instant, indexed. They are made once for a whole batch.
package struct RulesInForce: Hashable, Sendable {
    // A plan looks up a million amounts, so their keys are small.
    private struct ThresholdKey: Hashable {
        var storefront: String
        var currency: String
        var kind: PeriodKind
    }

    private struct EstimateKey: Hashable {
        var currency: String
        var kind: PeriodKind
    }

    /// For each key the latest row, or among equal dates the last.
    private var rows: [Rule.Key: Rule] = [:]
    private var thresholds: [ThresholdKey: ThresholdInForce] = [:]
    private var estimates: [EstimateKey: ThresholdInForce] = [:]
    private var always: [String: AlwaysAnswer] = [:]
    private var currencies: [String: Currency] = [:]

    init(_ rules: RuleSet, at now: Instant) {
        for row in rules.rows where row.startsAt <= now {
            if let other = rows[row.key], other.startsAt > row.startsAt { continue }
            rows[row.key] = row
        }
        for row in rows.values { index(row) }
        estimates = makeEstimates()
    }

    private mutating func index(_ row: Rule) {
        switch row.kind {
        case .threshold:
            guard let kind = row.key.periodKind else { return }
            let key = ThresholdKey(storefront: row.storefront, currency: row.currency, kind: kind)
            thresholds[key] = ThresholdInForce(
                amount: row.value, source: RuleSource(rawValue: row.source) ?? .unknown)
            if row.isApples, always[row.storefront] == nil {
                always[row.storefront] = AlwaysAnswer(isRequired: false, source: "inferred")
            }
        case .alwaysConsent:
            always[row.storefront] = AlwaysAnswer(isRequired: row.isRequired, source: row.source)
        case .currency: currencies[row.currency] = Currency(row)
        case .exchangeRate: break
        }
    }

    /// The amount that judges an increase; nil where there is neither a row nor a way to estimate one.
    func thresholdInForce(
        storefront: String, currency: String, kind: PeriodKind
    ) -> ThresholdInForce? {
        thresholds[ThresholdKey(storefront: storefront, currency: currency, kind: kind)]
            ?? estimates[EstimateKey(currency: currency, kind: kind)]
    }

    /// The estimate of every currency, so that a million rows read it instead of computing it.
    private func makeEstimates() -> [EstimateKey: ThresholdInForce] {
        var rates: [String: Rule] = [:]
        for row in rows(of: .exchangeRate) { rates[row.currency] = row }
        rates["EUR"] = exchangeRate("EUR")
        let known = rows(of: .threshold)
        var estimates: [EstimateKey: ThresholdInForce] = [:]
        for kind in PeriodKind.allCases {
            let estimator = ThresholdEstimator(kind, thresholds: known, rates: rates)
            for (code, currency) in currencies {
                estimates[EstimateKey(currency: code, kind: kind)] = estimator.estimate(currency)
            }
        }
        return estimates
    }

    /// What one euro costs in a currency; nil where no rate is loaded. The euro itself needs none.
    package func exchangeRate(_ code: String) -> Rule? {
        if let row = rows[Rule.Key(.exchangeRate, currency: code)] { return row }
        return code == "EUR" ? .exchangeRate(code, perEuro: .one, source: "identity") : nil
    }

    /// Whether every increase of a storefront needs consent.
    struct AlwaysAnswer: Hashable, Sendable {
        var isRequired: Bool
        /// A `RuleSource`, or `inferred`.
        var source: String
    }

    /// What the list says about the storefront; nil where that is not known.
    ///
    /// Inference: Apple gives an amount only where an increase can go without consent, so a storefront with an amount
    /// does not always ask. That the list does not name a storefront says nothing.
    func alwaysAnswer(storefront: String) -> AlwaysAnswer? { always[storefront] }

    /// A currency by its ISO code in upper case; nil for one in which Apple does not price.
    package func currency(_ code: String) -> Currency? { currencies[code] }

    /// The rows of a kind in force, in the order of their keys.
    package func rows(of kind: Rule.Kind) -> [Rule] {
        func order(_ key: Rule.Key) -> (String, String, String) {
            (key.storefront, key.currency, key.periodKind?.rawValue ?? "")
        }
        return rows.values.filter { $0.kind == kind }.sorted { order($0.key) < order($1.key) }
    }

    /// The estimates for storefronts without a row of their own, in the order of currencies.
    package var estimateRows: [Estimate] {
        rows(of: .currency).flatMap { row in
            PeriodKind.allCases.compactMap { estimate(currency: row.currency, kind: $0) }
        }
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
        /// The error of the estimate, in milliunits. An increase that is closer to the amount than this gets no answer.
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

    /// All rows in force as lines in a fixed order, for the plan hash.
    ///
    /// Exchange rates are left out: a row that depends on one names it, and other rows must not drift with each day's
    /// rates.
    var canonicalLines: [String] {
        rows.values.compactMap { row in
            switch row.kind {
            case .threshold: "\(row.key.text) \(row.value) \(row.source)"
            case .alwaysConsent: "always \(row.storefront) \(row.isRequired) \(row.source)"
            case .currency: "\(row.key.text) \(row.value)"
            case .exchangeRate: nil
            }
        }.sorted()
    }
}

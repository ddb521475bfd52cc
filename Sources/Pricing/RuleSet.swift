/// Where a rule's figure comes from.
package enum RuleSource: String, Hashable, Sendable, Codable, CaseIterable {
    case apple
    /// From the USD amounts by exchange rates.
    case estimated
    case unknown
}

/// The consent rules and currency decimals as data, each row in force from its date on.
///
/// A later row for the same key replaces an earlier one; among rows with the same date the last one counts.
package struct RuleSet: Hashable, Sendable, Codable {
    package var thresholds: [Threshold]
    package var alwaysConsent: [AlwaysConsent]
    package var currencies: [CurrencyRule]

    package init(
        thresholds: [Threshold], alwaysConsent: [AlwaysConsent], currencies: [CurrencyRule]
    ) {
        self.thresholds = thresholds
        self.alwaysConsent = alwaysConsent
        self.currencies = currencies
    }

    /// An increase of more than 50 % that also exceeds this amount needs consent.
    package struct Threshold: Hashable, Sendable, Codable {
        /// ISO 3166-1 alpha-3.
        package var storefront: String
        package var currency: String
        package var kind: PeriodKind
        /// Milliunits a period.
        package var amount: Int64
        /// Nil: since ever.
        package var validFrom: Instant?
        package var source: RuleSource

        package init(
            storefront: String, currency: String, kind: PeriodKind, amount: Int64,
            validFrom: Instant? = nil, source: RuleSource
        ) {
            self.storefront = storefront
            self.currency = currency
            self.kind = kind
            self.amount = amount
            self.validFrom = validFrom
            self.source = source
        }
    }

    /// A storefront where every increase needs consent (or, with `isRequired` false, no longer does).
    package struct AlwaysConsent: Hashable, Sendable, Codable {
        package var storefront: String
        package var isRequired: Bool
        package var validFrom: Instant?
        package var source: RuleSource

        package init(
            storefront: String, isRequired: Bool = true, validFrom: Instant? = nil,
            source: RuleSource
        ) {
            self.storefront = storefront
            self.isRequired = isRequired
            self.validFrom = validFrom
            self.source = source
        }
    }

    /// A currency and its decimals.
    package struct CurrencyRule: Hashable, Sendable, Codable {
        package var currency: Currency
        package var validFrom: Instant?
        package var source: RuleSource

        package init(currency: Currency, validFrom: Instant? = nil, source: RuleSource) {
            self.currency = currency
            self.validFrom = validFrom
            self.source = source
        }
    }

    /// The rules that judge at that instant, ready to be asked.
    package func inForce(at now: Instant) -> RulesInForce { RulesInForce(self, at: now) }
}

/// The rules of one instant, indexed; made once for a whole batch.
package struct RulesInForce: Hashable, Sendable {
    private struct ThresholdKey: Hashable {
        var storefront: String
        var currency: String
        var kind: PeriodKind
    }

    private var thresholds: [ThresholdKey: RuleSet.Threshold] = [:]
    private var alwaysConsent: [String: RuleSet.AlwaysConsent] = [:]
    private var currencies: [String: RuleSet.CurrencyRule] = [:]

    init(_ rules: RuleSet, at now: Instant) {
        for row in newest(rules.thresholds, at: now, from: \.validFrom) {
            thresholds[
                ThresholdKey(storefront: row.storefront, currency: row.currency, kind: row.kind)] =
                row
        }
        for row in newest(rules.alwaysConsent, at: now, from: \.validFrom) {
            alwaysConsent[row.storefront] = row
        }
        for row in newest(rules.currencies, at: now, from: \.validFrom) {
            currencies[row.currency.code] = row
        }
    }

    /// The threshold of a storefront in a subscription's currency; nil where none is known.
    package func threshold(
        storefront: String, currency: String, kind: PeriodKind
    ) -> RuleSet.Threshold? {
        thresholds[ThresholdKey(storefront: storefront, currency: currency, kind: kind)]
    }

    /// The row that says whether every increase of the storefront needs consent; nil where none says.
    package func alwaysConsent(storefront: String) -> RuleSet.AlwaysConsent? {
        alwaysConsent[storefront]
    }

    /// A currency by its ISO code, upper case; nil for one that Apple does not price in.
    package func currency(_ code: String) -> Currency? { currencies[code]?.currency }

    /// All rows in force, in a fixed order, as lines: part of the plan hash.
    var canonicalLines: [String] {
        let amounts = thresholds.values.map {
            "threshold \($0.storefront) \($0.currency) \($0.kind.rawValue) \($0.amount) "
                + $0.source.rawValue
        }
        let always = alwaysConsent.values.map { "always \($0.storefront) \($0.isRequired)" }
        let decimals = currencies.values.map {
            "currency \($0.currency.code) \($0.currency.decimals)"
        }
        return (amounts + always + decimals).sorted()
    }
}

/// The rows in force, earliest first, so that a later one overwrites.
private func newest<Row>(
    _ rows: [Row], at now: Instant, from validFrom: (Row) -> Instant?
) -> [Row] {
    rows.enumerated()
        .map { (at: validFrom($1)?.milliseconds ?? .min, order: $0, row: $1) }
        .filter { $0.at <= now.milliseconds }
        .sorted { ($0.at, $0.order) < ($1.at, $1.order) }
        .map(\.row)
}

/// Where a rule's figure comes from.
package enum RuleSource: String, Hashable, Sendable, CaseIterable {
    case apple
    /// It was estimated from the USD amounts by exchange rates.
    case estimated
    case unknown
}

/// One row of the rules: its key, its value, and from when it is in force.
package struct Rule: Hashable, Sendable {
    /// The kinds of rules, in the order in which rules are loaded and files are explained.
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        /// An increase of more than 50 % that also exceeds this amount needs consent. It is in milliunits a period.
        case threshold
        /// Whether every increase in a storefront needs consent: 1, or 0 where it no longer does.
        case alwaysConsent = "always_consent"
        /// The number of a currency's decimals.
        case currency
        /// What one euro costs in a currency, in billionths. It is greater than 0.
        case exchangeRate = "exchange_rate"
    }

    /// The key of a rule. Of two rules with the same key the later one holds.
    package struct Key: Hashable, Sendable {
        package let kind: Kind
        /// The storefront as ISO 3166-1 alpha-3; empty where the kind has none.
        package let storefront: String
        /// The currency in ISO 4217, upper case; empty where the kind has none.
        package let currency: String
        /// It is nil except for thresholds.
        package let periodKind: PeriodKind?

        package init(
            _ kind: Kind, storefront: String = "", currency: String = "",
            periodKind: PeriodKind? = nil
        ) {
            self.kind = kind
            self.storefront = storefront
            self.currency = currency
            self.periodKind = periodKind
        }

        /// The key as people read it, such as `threshold DEU EUR annual`.
        package var text: String {
            [kind.rawValue, storefront, currency, periodKind?.rawValue ?? ""]
                .filter { !$0.isEmpty }.joined(separator: " ")
        }
    }

    package let key: Key
    /// The figure, in the unit of its kind.
    package let value: Int64
    /// Since when it holds; nil where it always did.
    package var validFrom: Instant?
    /// A `RuleSource`; of an exchange rate whoever publishes it, such as `ecb`.
    package var source: String
    /// When it was recorded; nil where it shipped with the product, or is not stored yet.
    package var recordedAt: Instant?

    package init(
        _ key: Key, value: Int64, validFrom: Instant? = nil, source: String,
        recordedAt: Instant? = nil
    ) {
        self.key = key
        self.value = value
        self.validFrom = validFrom
        self.source = source
        self.recordedAt = recordedAt
    }

    /// What one euro costs in a currency.
    package static func exchangeRate(
        _ currency: String, perEuro: Rate, validFrom: Instant? = nil, source: String
    ) -> Rule {
        Rule(
            Key(.exchangeRate, currency: currency), value: perEuro.billionths,
            validFrom: validFrom, source: source)
    }

    package var kind: Kind { key.kind }
    package var storefront: String { key.storefront }
    package var currency: String { key.currency }
    /// The first instant at which it holds.
    package var startsAt: Instant { validFrom ?? .distantPast }
    package var isApples: Bool { source == RuleSource.apple.rawValue }
    /// Whether every increase in the storefront needs consent. Ask only rules of the kind `alwaysConsent`.
    package var isRequired: Bool { value != 0 }

    /// What one euro costs. Ask only exchange rates.
    package var perEuro: Rate {
        guard let rate = Rate(billionths: value) else {
            preconditionFailure("a rate that is not positive is refused before it becomes a rule")
        }
        return rate
    }

    /// What the rule says, and its source.
    package var words: String {
        switch kind {
        case .threshold: "\(PriceText.decimal(value)) \(currency) (\(source))"
        case .alwaysConsent: "\(isRequired ? "required" : "not required") (\(source))"
        case .currency: "\(value) decimals (\(source))"
        case .exchangeRate: "\(perEuro.text) per EUR (\(source))"
        }
    }
}

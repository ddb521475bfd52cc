/// Where a rule's figure comes from.
package enum RuleSource: String, Hashable, Sendable, CaseIterable {
    case apple
    /// It was estimated from the USD amounts by exchange rates.
    case estimated
    case unknown
}

/// The consent rules, currency decimals and exchange rates as data, each row in force from its date on.
///
/// A later row for the same key replaces an earlier one; among rows with the same date the last one counts.
package struct RuleSet: Hashable, Sendable {
    package var thresholds: [Threshold]
    package var alwaysConsent: [AlwaysConsent]
    package var currencies: [CurrencyRule]
    package var exchangeRates: [ExchangeRate]

    package init(
        thresholds: [Threshold], alwaysConsent: [AlwaysConsent], currencies: [CurrencyRule],
        exchangeRates: [ExchangeRate] = []
    ) {
        self.thresholds = thresholds
        self.alwaysConsent = alwaysConsent
        self.currencies = currencies
        self.exchangeRates = exchangeRates
    }

    /// An increase of more than 50 % that also exceeds this amount needs consent.
    package struct Threshold: Hashable, Sendable {
        /// The storefront as ISO 3166-1 alpha-3.
        package var storefront: String
        package var currency: String
        package var kind: PeriodKind
        /// The amount in milliunits a period.
        package var amount: Int64
        /// Since when it holds; nil where it always did.
        package var validFrom: Instant?
        package var source: RuleSource
        /// When it was recorded; nil where it shipped with the product, or is not stored yet. The other rows are
        /// alike.
        package var recordedAt: Instant?

        package init(
            storefront: String, currency: String, kind: PeriodKind, amount: Int64,
            validFrom: Instant? = nil, source: RuleSource, recordedAt: Instant? = nil
        ) {
            self.storefront = storefront
            self.currency = currency
            self.kind = kind
            self.amount = amount
            self.validFrom = validFrom
            self.source = source
            self.recordedAt = recordedAt
        }
    }

    /// A storefront where every increase needs consent (or, with `isRequired` false, no longer does).
    package struct AlwaysConsent: Hashable, Sendable {
        package var storefront: String
        package var isRequired: Bool
        package var validFrom: Instant?
        package var source: RuleSource
        package var recordedAt: Instant?

        package init(
            storefront: String, isRequired: Bool = true, validFrom: Instant? = nil,
            source: RuleSource, recordedAt: Instant? = nil
        ) {
            self.storefront = storefront
            self.isRequired = isRequired
            self.validFrom = validFrom
            self.source = source
            self.recordedAt = recordedAt
        }
    }

    /// A currency and its decimals.
    package struct CurrencyRule: Hashable, Sendable {
        package var currency: Currency
        package var validFrom: Instant?
        package var source: RuleSource
        package var recordedAt: Instant?

        package init(
            currency: Currency, validFrom: Instant? = nil, source: RuleSource,
            recordedAt: Instant? = nil
        ) {
            self.currency = currency
            self.validFrom = validFrom
            self.source = source
            self.recordedAt = recordedAt
        }
    }

    /// What one euro costs in a currency.
    package struct ExchangeRate: Hashable, Sendable {
        /// The currency in ISO 4217, upper case.
        package var currency: String
        package var perEuro: Rate
        package var validFrom: Instant?
        /// Who publishes it, such as `ecb`.
        package var source: String
        package var recordedAt: Instant?

        package init(
            currency: String, perEuro: Rate, validFrom: Instant? = nil, source: String,
            recordedAt: Instant? = nil
        ) {
            self.currency = currency
            self.perEuro = perEuro
            self.validFrom = validFrom
            self.source = source
            self.recordedAt = recordedAt
        }
    }

    /// The rules that judge at that instant, ready to be asked.
    package func inForce(at now: Instant) -> RulesInForce { RulesInForce(self, at: now) }

    /// When rules come into force, in order.
    package var starts: [Instant] {
        let starts =
            thresholds.map(\.validFrom) + alwaysConsent.map(\.validFrom)
            + currencies.map(\.validFrom) + exchangeRates.map(\.validFrom)
        return Set(starts.compactMap { $0 }).sorted()
    }
}

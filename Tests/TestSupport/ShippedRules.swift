package import Pricing

extension RuleSet {
    /// What the product knows on the day it ships, for tests that need no database.
    ///
    /// The product reads it from its tables, which `0005_rules.sql` seeds; a test compares the two.
    /// The amounts are Apple's, from the part of its table of storefronts that could be read (AFG to BGR),
    /// and those of the rule's own text for USA. Of every other storefront it is not known, until its rows are
    /// imported, whether an increase above 50 % needs consent, nor whether every increase does: Apple's list of
    /// storefronts that always ask could not be read either. It is empty, not guessed.
    package static let shipped = RuleSet(
        usd5 + usd6 + others + Currency.apple.map { .currency($0, source: .apple) })

    private static let usd5 = thresholds(
        "USA AFG DZA AGO AIA ATG ARG AZE BHS BHR BLZ BMU BTN BOL BWA VGB BRN", "USD", 5)
    private static let usd6 = thresholds("ALB ARM BRB BLR BEN", "USD", 6)
    private static let others =
        thresholds("AUT BEL BIH", "EUR", 5) + thresholds("AUS", "AUD", 8)
        + thresholds("BRA", "BRL", 40) + thresholds("BGR", "BGN", 12)

    /// In Apple's table the annual amount is always ten times the other one.
    private static func thresholds(
        _ storefronts: String, _ currency: String, _ units: Int64
    ) -> [Rule] {
        storefronts.split(separator: " ").flatMap { storefront in
            [(PeriodKind.nonannual, units * 1000), (.annual, units * 10_000)].map {
                .threshold(
                    storefront: String(storefront), currency: currency, kind: $0, amount: $1,
                    source: .apple)
            }
        }
    }
}

extension RuleSet {
    /// The rows of one kind. New ones come after those of other kinds.
    package subscript(kind: Rule.Kind) -> [Rule] {
        get { rows.filter { $0.kind == kind } }
        set { rows = rows.filter { $0.kind != kind } + newValue }
    }
}

extension Rule {
    package static func threshold(
        storefront: String, currency: String, kind: PeriodKind, amount: Int64,
        validFrom: Instant? = nil, source: RuleSource
    ) -> Rule {
        Rule(
            Key(.threshold, storefront: storefront, currency: currency, periodKind: kind),
            value: amount, validFrom: validFrom, source: source.rawValue)
    }

    package static func alwaysConsent(
        _ storefront: String, isRequired: Bool = true, validFrom: Instant? = nil,
        source: RuleSource = .apple
    ) -> Rule {
        Rule(
            Key(.alwaysConsent, storefront: storefront), value: isRequired ? 1 : 0,
            validFrom: validFrom, source: source.rawValue)
    }

    package static func currency(
        _ currency: Currency, validFrom: Instant? = nil, source: RuleSource
    ) -> Rule {
        Rule(
            Key(.currency, currency: currency.code), value: Int64(currency.decimals),
            validFrom: validFrom, source: source.rawValue)
    }
}

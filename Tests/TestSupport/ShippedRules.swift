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
        thresholds: usd5 + usd6 + others, alwaysConsent: [],
        currencies: Currency.apple.map { CurrencyRule(currency: $0, source: .apple) })

    private static let usd5 = thresholds(
        "USA AFG DZA AGO AIA ATG ARG AZE BHS BHR BLZ BMU BTN BOL BWA VGB BRN", "USD", 5)
    private static let usd6 = thresholds("ALB ARM BRB BLR BEN", "USD", 6)
    private static let others =
        thresholds("AUT BEL BIH", "EUR", 5) + thresholds("AUS", "AUD", 8)
        + thresholds("BRA", "BRL", 40) + thresholds("BGR", "BGN", 12)

    /// In Apple's table the annual amount is always ten times the other one.
    private static func thresholds(
        _ storefronts: String, _ currency: String, _ units: Int64
    ) -> [Threshold] {
        storefronts.split(separator: " ").flatMap { storefront in
            [(PeriodKind.nonannual, units * 1000), (.annual, units * 10_000)].map {
                Threshold(
                    storefront: String(storefront), currency: currency, kind: $0, amount: $1,
                    source: .apple)
            }
        }
    }
}

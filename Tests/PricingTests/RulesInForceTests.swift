import Pricing
import Testing

@Suite struct RulesInForceTests {
    private static func instant(_ milliseconds: Int64) -> Instant {
        Instant(milliseconds: milliseconds)
    }

    /// One row of each kind, each from its own instant on.
    private static func rules() throws -> RuleSet {
        RuleSet(
            thresholds: [
                RuleSet.Threshold(
                    storefront: "DEU", currency: "EUR", kind: .annual, amount: 50_000,
                    validFrom: instant(100), source: .apple),
                RuleSet.Threshold(
                    storefront: "USA", currency: "USD", kind: .annual, amount: 50_000,
                    source: .apple),
            ],
            alwaysConsent: [
                RuleSet.AlwaysConsent(storefront: "CHL", validFrom: instant(200), source: .apple)
            ],
            currencies: [
                RuleSet.CurrencyRule(
                    currency: Currency(code: "EUR", decimals: 2), validFrom: instant(300),
                    source: .apple)
            ],
            exchangeRates: [
                RuleSet.ExchangeRate(
                    currency: "USD", perEuro: .one, validFrom: instant(400), source: "ecb")
            ])
    }

    @Test(
        arguments: zip(
            [0, 99, 100, 200, 299, 300, 399, 400], [100, 100, 200, 300, 300, 400, 400, nil]))
    func next_isTheEarliestOfAnyKindThatIsStillToCome(now: Int64, next: Int64?) throws {
        #expect(try Self.rules().nextInForce(after: Self.instant(now))?.milliseconds == next)
    }

    @Test func next_whereNothingChanges_isNone() {
        let rules = RuleSet(thresholds: [], alwaysConsent: [], currencies: [])

        #expect(rules.nextInForce(after: Self.instant(0)) == nil)
    }
}

import TestSupport
import Testing

@testable import Pricing

@Suite struct RulesInForceTests {
    private static func instant(_ milliseconds: Int64) -> Instant {
        Instant(milliseconds: milliseconds)
    }

    /// One row of each kind, each from its own instant on.
    private static func rules() throws -> RuleSet {
        RuleSet([
            .threshold(
                storefront: "DEU", currency: "EUR", kind: .annual, amount: 50_000,
                validFrom: instant(100), source: .apple),
            .threshold(
                storefront: "USA", currency: "USD", kind: .annual, amount: 50_000, source: .apple),
            .alwaysConsent("CHL", validFrom: instant(200)),
            .currency(
                Currency(code: "EUR", decimals: 2), validFrom: instant(300), source: .apple),
            .exchangeRate("USD", perEuro: .one, validFrom: instant(400), source: "ecb"),
        ])
    }

    @Test func starts_areThoseOfEveryKind_inOrder() throws {
        #expect(try Self.rules().starts.map(\.milliseconds) == [100, 200, 300, 400])
    }

    /// Of one storefront the later row holds, wherever the earlier one stands, and the rows behind both hold, too.
    @Test func laterRow_beforeAnEarlierOne_holds_andSoDoesWhatFollows() {
        let rules = RulesInForce(
            RuleSet([
                .alwaysConsent("CHL", isRequired: false, validFrom: Self.instant(200)),
                .alwaysConsent("CHL", validFrom: Self.instant(100)), .alwaysConsent("KOR"),
                .alwaysConsent("IND", validFrom: Self.instant(301)),
            ]), at: Self.instant(300))

        #expect(
            rules.rows(of: .alwaysConsent).map { "\($0.storefront) \($0.isRequired)" }
                == ["CHL false", "KOR true"])
    }
}

import Testing

@testable import Pricing

/// What a verdict, its dates and the plan hash say of an estimate; `ThresholdRuleTests` has the amounts.
struct EstimatedThresholdTests {
    /// The shipped rules and rates that make 5 USD four times what a euro costs.
    static let rules = RuleSet.shipped.with(["USD": "1.25", "JPY": "160", "GBP": "0.85"])
        .neverAlways("DEU", "JPN", "GBR", "SWE")

    @Test func estimate_whenExplained_namesEveryFigure() {
        let facts = SubscriptionFacts.make(price: 1_000_000, storefront: "JPN", currency: "JPY")

        let plan = Judge.make(rules: Self.rules).one(.make(1_800_000, currency: "JPY"), facts)

        #expect(
            String(decoding: plan.jsonBytes, as: UTF8.self).contains(
                """
                {"rule":"threshold","answer":true,"inputs":{"percent_over":true,"amount_over":true,\
                "increase_basis_points":8000,"increase_milliunits":800000,\
                "threshold_milliunits":640000,"threshold_kind":"nonannual",\
                "threshold_source":"estimated","threshold_error_milliunits":160000,\
                "estimate_rows":25,"estimate_basis":"all_currencies",\
                "usd_threshold_milliunits":5000,"units_per_eur":"160","usd_per_eur":"1.25",\
                "correction":"1","rates_from":"2026-10-01T00:00:00Z",\
                "rates_source":"ecb"}}
                """))
    }

    @Test func estimate_ofApplesAmountsInTheCurrency_namesNoRates() {
        let facts = SubscriptionFacts.make(price: 2_000, storefront: "DEU", currency: "EUR")

        let plan = Judge.make(rules: Self.rules).one(.make(7_000, currency: "EUR"), facts)

        #expect(
            String(decoding: plan.jsonBytes, as: UTF8.self).contains(
                """
                "threshold_milliunits":5000,"threshold_kind":"nonannual",\
                "threshold_source":"estimated","threshold_error_milliunits":0,\
                "estimate_rows":3,"estimate_basis":"same_currency"}}
                """))
    }

    @Test func increase_closeToTheEstimate_isNotKnown() {
        let facts = SubscriptionFacts.make(price: 1_000_000, storefront: "JPN", currency: "JPY")

        let plan = Judge.make(rules: Self.rules).one(.make(1_700_000, currency: "JPY"), facts)

        #expect(plan.consent == .notKnown)
        #expect(plan.notKnown == [.threshold])
        #expect(
            String(decoding: plan.jsonBytes, as: UTF8.self).contains(
                #""rule":"threshold","answer":null,"inputs":{"percent_over":true,"amount_over":null"#
            ))
    }

    @Test(arguments: [
        ("2026-09-30T23:59:59.999Z", ThresholdOf(nil, .unknown)),
        ("2026-10-01T00:00:00Z", ThresholdOf(640_000, .estimated)),
        ("2026-10-15T00:00:00Z", ThresholdOf(700_000, .apple)),
        ("2026-10-31T23:59:59.999Z", ThresholdOf(700_000, .apple)),
        ("2026-11-01T00:00:00Z", ThresholdOf(800_000, .apple)),
    ])
    func threshold_whenRulesAreDated_isTheOneOfTheInstant(now: String, expected: ThresholdOf) {
        var rules = Self.rules
        for (amount, day) in [(Int64(800_000), "2026-11-01"), (700_000, "2026-10-15")] {
            rules[.threshold].append(
                .threshold(
                    storefront: "JPN", currency: "JPY", kind: .nonannual, amount: amount,
                    validFrom: Instant("\(day)T00:00:00Z"), source: .apple))
        }
        let facts = SubscriptionFacts.make(price: 1_000_000, storefront: "JPN", currency: "JPY")

        let plan = Judge.make(now: now, rules: rules).one(
            .make(2_000_000, currency: "JPY"), facts)

        let inputs = plan.rules.first { $0.rule == .threshold }?.inputs ?? []
        let amount = inputs.first { $0.name == "threshold_milliunits" }?.value
        #expect(amount == expected.amount.map { .number($0) } ?? .missing)
        #expect(plan.thresholdSource == expected.source)
    }

    struct ThresholdOf: Sendable {
        var amount: Int64?
        var source: RuleSource

        init(_ amount: Int64?, _ source: RuleSource) {
            self.amount = amount
            self.source = source
        }
    }

    @Test(arguments: [
        ("2026-09-30T23:59:59.999Z", false), ("2026-10-01T00:00:00Z", true),
        ("2026-10-19T23:59:59.999Z", true), ("2026-10-20T00:00:00Z", false),
    ])
    func alwaysConsent_whenListedAndTakenOff_holdsBetween(now: String, expected: Bool) {
        var rules = RuleSet.shipped
        rules[.alwaysConsent] = [
            .alwaysConsent("USA", validFrom: at("2026-10-01T00:00:00Z")),
            .alwaysConsent("USA", isRequired: false, validFrom: at("2026-10-20T00:00:00Z")),
        ]

        let plan = Judge.make(now: now, rules: rules).one(.make(10_000))

        #expect(plan.reasons == (expected ? [.alwaysConsentStorefront] : []))
    }

    @Test func hash_whenOnlyAnotherCurrencysRateMoves_staysTheSame() {
        func hash(_ rules: RuleSet) -> String {
            let judge = Judge.make(rules: rules)
            var hash = PlanHash(rules: rules.inForce(at: judge.now), environment: .production)
            let facts = SubscriptionFacts.make(price: 9990, storefront: "GBR", currency: "GBP")
            hash.add(judge.one(.make(currency: "GBP"), facts))
            return hash.text
        }

        #expect(hash(Self.rules) == hash(Self.rules.with(["JPY": "170"])))
        #expect(hash(Self.rules) != hash(Self.rules.with(["USD": "1.26"])))
        // The Australian amount is then the furthest of all: only the error moves.
        #expect(hash(Self.rules) != hash(Self.rules.with(["AUD": "1.25"])))
    }

    @Test func hash_whenAnIncreaseIsImported_isAnotherThanApplesWord() {
        func hash(_ source: PastIncrease.Source) -> String {
            let judge = Judge.make(rules: Self.rules)
            var hash = PlanHash(rules: Self.rules.inForce(at: judge.now), environment: .production)
            let increase = PastIncrease(
                sku: "ITEM", at: at("2026-10-01T00:00:00Z"), source: source)
            hash.add(judge.one(.make(), .make(), JudgeContext(increaseHistory: [increase])))
            return hash.text
        }

        #expect(hash(.imported) != hash(.statement))
    }

    @Test func korea_whenAnOfferEnds_showsTheWindowWithoutTheDay() {
        let facts = SubscriptionFacts.make(
            renewalAt: "2026-05-01T00:00:00Z", price: 3_300_000, storefront: "KOR",
            currency: "KRW"
        ) {
            $0.edit("OTHER") { $0.offer = .init(price: 0, period: "P1M", isRunning: true) }
        }

        let plan = Judge.make(now: "2026-04-01T00:00:00Z").one(
            .make(3_900_000, currency: "KRW"), facts)

        #expect(
            String(decoding: plan.jsonBytes, as: UTF8.self).contains(
                """
                "inputs":{"storefront":"KOR","offer_ends_at":"2026-05-01T00:00:00Z",\
                "offer_sku":"OTHER","conversion_on":"2026-05-01","window_first_on":"2026-04-01",\
                "window_last_on":"2026-04-30"}
                """))
    }
}

extension RuleSet {
    /// These rules and rates of the European Central Bank, in force from 1 October 2026.
    func with(_ perEuro: [String: String]) -> RuleSet {
        var rules = self
        for (currency, text) in perEuro.sorted(by: { $0.key < $1.key }) {
            guard let rate = try? Rate(decimal: text) else {
                preconditionFailure("no rate: \(text)")
            }
            rules[.exchangeRate].append(
                .exchangeRate(
                    currency, perEuro: rate, validFrom: at("2026-10-01T00:00:00Z"),
                    source: "ecb"))
        }
        return rules
    }
}

import Testing

@testable import Pricing

/// Thresholds by row, by estimate and not at all: the amounts were worked out apart, in exact fractions.
struct EstimatedThresholdTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var storefront: String
        var currency: String
        var period: String
        var from: Int64
        var to: Int64
        var verdict: String

        init(
            _ storefront: String, _ currency: String, _ period: String, _ from: Int64, _ to: Int64,
            _ verdict: String
        ) {
            self.storefront = storefront
            self.currency = currency
            self.period = period
            self.from = from
            self.to = to
            self.verdict = verdict
        }

        var testDescription: String { "\(storefront) \(period) \(from) → \(to)" }
    }

    /// The shipped rules and rates that make 5 USD four times what a euro costs.
    static let rules = RuleSet.shipped.with([
        "USD": "1.25", "JPY": "160", "GBP": "0.85", "KRW": "1500", "TRY": "40.5",
        "VND": "28000.123456789", "INR": "90", "CLP": "1050.55", "HUF": "400", "CHF": "0.93333",
    ]).neverAlways(
        "DEU", "JPN", "GBR", "KOR", "TUR", "VNM", "CHL", "HUN", "CHE", "KHM", "SWE", "POL", "MEX")

    @Test(arguments: [
        Case("DEU", "EUR", "P1M", 2_000, 6_000, "announced estimated"),
        Case("DEU", "EUR", "P1M", 2_000, 6_010, "required threshold estimated"),
        Case("DEU", "EUR", "P1Y", 20_000, 60_000, "announced estimated"),
        Case("DEU", "EUR", "P1Y", 20_000, 60_010, "required threshold estimated"),
        Case("DEU", "EUR", "P3M", 16_000, 24_000, "announced estimated"),
        Case("DEU", "EUR", "P3M", 16_000, 24_010, "required threshold estimated"),
        Case("JPN", "JPY", "P1M", 320_000, 960_000, "announced estimated"),
        Case("JPN", "JPY", "P1M", 320_000, 961_000, "required threshold estimated"),
        Case("JPN", "JPY", "P1Y", 3_200_000, 9_600_000, "announced estimated"),
        Case("JPN", "JPY", "P1Y", 3_200_000, 9_601_000, "required threshold estimated"),
        Case("JPN", "JPY", "P3M", 2_560_000, 3_840_000, "announced estimated"),
        Case("JPN", "JPY", "P3M", 2_560_000, 3_841_000, "required threshold estimated"),
        Case("GBR", "GBP", "P1M", 1_700, 5_100, "announced estimated"),
        Case("GBR", "GBP", "P1M", 1_700, 5_110, "required threshold estimated"),
        Case("GBR", "GBP", "P1Y", 17_000, 51_000, "announced estimated"),
        Case("GBR", "GBP", "P1Y", 17_000, 51_010, "required threshold estimated"),
        Case("GBR", "GBP", "P3M", 13_600, 20_400, "announced estimated"),
        Case("GBR", "GBP", "P3M", 13_600, 20_410, "required threshold estimated"),
        Case("KOR", "KRW", "P1M", 3_000_000, 9_000_000, "announced estimated"),
        Case("KOR", "KRW", "P1M", 3_000_000, 9_001_000, "required threshold estimated"),
        Case("KOR", "KRW", "P1Y", 30_000_000, 90_000_000, "announced estimated"),
        Case("KOR", "KRW", "P1Y", 30_000_000, 90_001_000, "required threshold estimated"),
        Case("KOR", "KRW", "P3M", 24_000_000, 36_000_000, "announced estimated"),
        Case("KOR", "KRW", "P3M", 24_000_000, 36_001_000, "required threshold estimated"),
        Case("TUR", "TRY", "P1M", 81_000, 243_000, "announced estimated"),
        Case("TUR", "TRY", "P1M", 81_000, 243_010, "required threshold estimated"),
        Case("TUR", "TRY", "P1Y", 810_000, 2_430_000, "announced estimated"),
        Case("TUR", "TRY", "P1Y", 810_000, 2_430_010, "required threshold estimated"),
        Case("TUR", "TRY", "P3M", 648_000, 972_000, "announced estimated"),
        Case("TUR", "TRY", "P3M", 648_000, 972_010, "required threshold estimated"),
        Case("VNM", "VND", "P1M", 56_000_000, 168_000_000, "announced estimated"),
        Case("VNM", "VND", "P1M", 56_000_000, 168_001_000, "required threshold estimated"),
        Case("VNM", "VND", "P1Y", 560_002_000, 1_680_006_000, "announced estimated"),
        Case("VNM", "VND", "P1Y", 560_002_000, 1_680_007_000, "required threshold estimated"),
        Case("VNM", "VND", "P3M", 448_000_000, 672_000_000, "announced estimated"),
        Case("VNM", "VND", "P3M", 448_000_000, 672_001_000, "required threshold estimated"),
        Case("CHL", "CLP", "P1M", 2_101_000, 6_303_000, "announced estimated"),
        Case("CHL", "CLP", "P1M", 2_101_000, 6_304_000, "required threshold estimated"),
        Case("CHL", "CLP", "P1Y", 21_011_000, 63_033_000, "announced estimated"),
        Case("CHL", "CLP", "P1Y", 21_011_000, 63_034_000, "required threshold estimated"),
        Case("CHL", "CLP", "P3M", 16_808_000, 25_212_000, "announced estimated"),
        Case("CHL", "CLP", "P3M", 16_808_000, 25_213_000, "required threshold estimated"),
        Case("HUN", "HUF", "P1M", 800_000, 2_400_000, "announced estimated"),
        Case("HUN", "HUF", "P1M", 800_000, 2_401_000, "required threshold estimated"),
        Case("HUN", "HUF", "P1Y", 8_000_000, 24_000_000, "announced estimated"),
        Case("HUN", "HUF", "P1Y", 8_000_000, 24_001_000, "required threshold estimated"),
        Case("HUN", "HUF", "P3M", 6_400_000, 9_600_000, "announced estimated"),
        Case("HUN", "HUF", "P3M", 6_400_000, 9_601_000, "required threshold estimated"),
        Case("CHE", "CHF", "P1M", 1_860, 5_590, "announced estimated"),
        Case("CHE", "CHF", "P1M", 1_860, 5_600, "required threshold estimated"),
        Case("CHE", "CHF", "P1Y", 18_660, 55_990, "announced estimated"),
        Case("CHE", "CHF", "P1Y", 18_660, 56_000, "required threshold estimated"),
        Case("CHE", "CHF", "P3M", 14_920, 22_380, "announced estimated"),
        Case("CHE", "CHF", "P3M", 14_920, 22_390, "required threshold estimated"),
        Case("KHM", "USD", "P1M", 2_500, 7_500, "announced estimated"),
        Case("KHM", "USD", "P1M", 2_500, 7_510, "required threshold estimated"),
        Case("KHM", "USD", "P1Y", 25_000, 75_000, "announced estimated"),
        Case("KHM", "USD", "P1Y", 25_000, 75_010, "required threshold estimated"),
        Case("KHM", "USD", "P3M", 20_000, 30_000, "announced estimated"),
        Case("KHM", "USD", "P3M", 20_000, 30_010, "required threshold estimated"),
        Case("SWE", "SEK", "P1M", 200_000, 300_000, "announced unknown"),
        Case("SWE", "SEK", "P1M", 200_000, 301_000, "not_known threshold unknown"),
        Case("SWE", "SEK", "P1Y", 200_000, 1_800_000, "not_known threshold unknown"),
        Case("POL", "PLN", "P1M", 2_000, 3_000, "announced unknown"),
        Case("POL", "PLN", "P1M", 2_000, 3_010, "not_known threshold unknown"),
        Case("POL", "PLN", "P1Y", 2_000, 18_000, "not_known threshold unknown"),
        Case("MEX", "MXN", "P1M", 200_000, 300_000, "announced unknown"),
        Case("MEX", "MXN", "P1M", 200_000, 301_000, "not_known threshold unknown"),
        Case("MEX", "MXN", "P1Y", 200_000, 1_800_000, "not_known threshold unknown"),
        Case("USA", "USD", "P1W", 2_500, 7_500, "announced apple"),
        Case("USA", "USD", "P1W", 2_500, 7_510, "required threshold apple"),
        Case("USA", "USD", "P6M", 2_500, 7_500, "announced apple"),
        Case("USA", "USD", "P6M", 2_500, 7_510, "required threshold apple"),
        Case("USA", "USD", "P1Y", 25_000, 75_000, "announced apple"),
        Case("USA", "USD", "P1Y", 25_000, 75_010, "required threshold apple"),
        Case("ALB", "USD", "P1W", 3_000, 9_000, "announced apple"),
        Case("ALB", "USD", "P1W", 3_000, 9_010, "required threshold apple"),
        Case("ALB", "USD", "P6M", 3_000, 9_000, "announced apple"),
        Case("ALB", "USD", "P6M", 3_000, 9_010, "required threshold apple"),
        Case("ALB", "USD", "P1Y", 30_000, 90_000, "announced apple"),
        Case("ALB", "USD", "P1Y", 30_000, 90_010, "required threshold apple"),
        Case("AUT", "EUR", "P1W", 2_500, 7_500, "announced apple"),
        Case("AUT", "EUR", "P1W", 2_500, 7_510, "required threshold apple"),
        Case("AUT", "EUR", "P6M", 2_500, 7_500, "announced apple"),
        Case("AUT", "EUR", "P6M", 2_500, 7_510, "required threshold apple"),
        Case("AUT", "EUR", "P1Y", 25_000, 75_000, "announced apple"),
        Case("AUT", "EUR", "P1Y", 25_000, 75_010, "required threshold apple"),
    ])
    func increase_whenJudged_isComparedWithTheAmountOfItsStorefront(_ item: Case) {
        let facts = SubscriptionFacts.make(
            period: item.period, price: item.from, storefront: item.storefront,
            currency: item.currency)

        let plan = Judge.make(rules: Self.rules).one(
            .make(item.to, currency: item.currency), facts)

        let consent = plan.consent == .notRequired ? "announced" : plan.consent?.rawValue ?? "none"
        let verdict =
            [consent] + (plan.reasons + plan.notKnown).map(\.rawValue)
            + [plan.thresholdSource?.rawValue ?? "none"]
        #expect(plan.code == nil)
        #expect(verdict.joined(separator: " ") == item.verdict)
    }

    @Test func estimate_whenExplained_namesEveryFigure() {
        let facts = SubscriptionFacts.make(price: 1_000_000, storefront: "JPN", currency: "JPY")

        let plan = Judge.make(rules: Self.rules).one(.make(1_700_000, currency: "JPY"), facts)

        #expect(
            String(decoding: plan.rulesJSONBytes, as: UTF8.self).contains(
                """
                {"rule":"threshold","answer":true,"inputs":{"percent_over":true,"amount_over":true,\
                "increase_basis_points":7000,"increase_milliunits":700000,\
                "threshold_milliunits":640000,"threshold_kind":"nonannual",\
                "threshold_source":"estimated","usd_threshold_milliunits":5000,\
                "units_per_eur":"160","usd_per_eur":"1.25","rates_from":"2026-10-01T00:00:00Z",\
                "rates_source":"ecb"}}
                """))
    }

    @Test(arguments: [
        ("2026-09-30T23:59:59.999Z", ThresholdOf(nil, .unknown)),
        ("2026-10-01T00:00:00Z", ThresholdOf(4000, .estimated)),
        ("2026-10-15T00:00:00Z", ThresholdOf(5000, .apple)),
        ("2026-10-31T23:59:59.999Z", ThresholdOf(5000, .apple)),
        ("2026-11-01T00:00:00Z", ThresholdOf(6000, .apple)),
    ])
    func threshold_whenRulesAreDated_isTheOneOfTheInstant(now: String, expected: ThresholdOf) {
        var rules = Self.rules
        for (amount, day) in [(Int64(6000), "2026-11-01"), (5000, "2026-10-15")] {
            rules.thresholds.append(
                .init(
                    storefront: "DEU", currency: "EUR", kind: .nonannual, amount: amount,
                    validFrom: Instant("\(day)T00:00:00Z"), source: .apple))
        }
        let facts = SubscriptionFacts.make(price: 9990, storefront: "DEU", currency: "EUR")

        let plan = Judge.make(now: now, rules: rules).one(.make(19_990, currency: "EUR"), facts)

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
        rules.alwaysConsent = [
            .init(storefront: "USA", validFrom: at("2026-10-01T00:00:00Z"), source: .apple),
            .init(
                storefront: "USA", isRequired: false, validFrom: at("2026-10-20T00:00:00Z"),
                source: .apple),
        ]

        let plan = Judge.make(now: now, rules: rules).one(.make(10_000))

        #expect(plan.reasons == (expected ? [.alwaysConsentStorefront] : []))
    }

    @Test func hash_whenOnlyAnotherCurrencysRateMoves_staysTheSame() {
        func hash(_ rules: RuleSet) -> String {
            let judge = Judge.make(rules: rules)
            var hash = PlanHash(rules: judge.rules, environment: .production)
            let facts = SubscriptionFacts.make(price: 9990, storefront: "DEU", currency: "EUR")
            hash.add(judge.one(.make(currency: "EUR"), facts))
            return hash.text
        }

        #expect(hash(Self.rules) == hash(Self.rules.with(["JPY": "170"])))
        #expect(hash(Self.rules) != hash(Self.rules.with(["USD": "1.26"])))
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
            String(decoding: plan.rulesJSONBytes, as: UTF8.self).contains(
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
            rules.exchangeRates.append(
                .init(
                    currency: currency, perEuro: rate, validFrom: at("2026-10-01T00:00:00Z"),
                    source: "ecb"))
        }
        return rules
    }
}

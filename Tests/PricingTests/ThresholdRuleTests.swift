import Testing

@testable import Pricing

/// Every edge of the threshold rule, worked out by hand.
///
/// With these rates Apple's amounts are worth 4 EUR (17 storefronts at 5 USD), 4.80 EUR (5 at 6 USD) and 5 EUR (3); of
/// AUD, BGN and BRL there is no rate. The median is 4 EUR, and the furthest amount lies 1 EUR from it.
struct ThresholdRuleTests {
    struct Case: Sendable, CustomTestStringConvertible {
        var storefront: String
        var currency: String
        var period: String
        var from: Int64
        var by: Int64
        var answer: Bool?
        /// Source, amount and error, in milliunits.
        var threshold: String

        init(
            _ storefront: String, _ currency: String, _ period: String, _ from: Int64,
            by: Int64, _ answer: Bool?, _ threshold: String
        ) {
            self.storefront = storefront
            self.currency = currency
            self.period = period
            self.from = from
            self.by = by
            self.answer = answer
            self.threshold = threshold
        }

        var testDescription: String { "\(storefront) \(currency) \(period) \(from) +\(by)" }
    }

    static let rules = RuleSet.shipped.with([
        "USD": "1.25", "JPY": "160", "GBP": "0.85", "VND": "28000.123456789", "CHF": "0.93333",
    ])

    private func inputs(_ item: Case, _ rules: RuleSet) -> (Bool?, [String: RuleAnswer.Value]) {
        let facts = SubscriptionFacts.make(
            period: item.period, price: item.from, storefront: item.storefront,
            currency: item.currency)
        let plan = Judge.make(rules: rules).one(
            .make(item.from + item.by, currency: item.currency), facts)
        let rule = plan.rules.first { $0.rule == .threshold }
        var values: [String: RuleAnswer.Value] = [:]
        for input in rule?.inputs ?? [] { values[input.name] = input.value }
        return (rule?.answer, values)
    }

    private func check(_ item: Case, _ rules: RuleSet) {
        let (answer, inputs) = inputs(item, rules)

        #expect(answer == item.answer)
        let threshold = [
            inputs["threshold_source"], inputs["threshold_milliunits"],
            inputs["threshold_error_milliunits"],
        ].compactMap { value -> String? in
            switch value {
            case .text(let text)?: text
            case .number(let number)?: "\(number)"
            case .flag?, .instant?, .missing?, nil: nil
            }
        }
        #expect(threshold.joined(separator: " ") == item.threshold)
    }

    @Test(arguments: [
        // Apple's own row: exactly 50 %, exactly the amount, and one step more of each.
        Case("USA", "USD", "P1M", 10_000, by: 5_000, false, "apple 5000"),
        Case("USA", "USD", "P1M", 10_020, by: 5_010, false, "apple 5000"),
        Case("USA", "USD", "P1M", 10_000, by: 5_010, true, "apple 5000"),
        Case("USA", "USD", "P1M", 9_990, by: 5_000, false, "apple 5000"),
        Case("USA", "USD", "P1M", 20_000, by: 10_000, false, "apple 5000"),
        Case("ALB", "USD", "P1M", 6_000, by: 6_000, false, "apple 6000"),
        Case("ALB", "USD", "P1M", 6_000, by: 6_010, true, "apple 6000"),
        // The other kind of period has its own amount.
        Case("USA", "USD", "P1Y", 10_000, by: 49_990, false, "apple 50000"),
        Case("USA", "USD", "P1Y", 10_000, by: 50_000, false, "apple 50000"),
        Case("USA", "USD", "P1Y", 10_000, by: 50_010, true, "apple 50000"),
        Case("USA", "USD", "P6M", 1_000, by: 5_010, true, "apple 5000"),
        Case("USA", "USD", "P1W", 1_000, by: 5_000, false, "apple 5000"),
        // One amount known in the currency: no error, and no rate.
        Case("DEU", "EUR", "P1M", 2_000, by: 5_000, false, "estimated 5000 0"),
        Case("DEU", "EUR", "P1M", 2_000, by: 5_010, true, "estimated 5000 0"),
        Case("DEU", "EUR", "P1Y", 20_000, by: 50_000, false, "estimated 50000 0"),
        Case("DEU", "EUR", "P1Y", 20_000, by: 50_010, true, "estimated 50000 0"),
        Case("DEU", "EUR", "P1M", 10_020, by: 5_010, false, "estimated 5000 0"),
        Case("NRU", "AUD", "P1M", 2_000, by: 8_010, true, "estimated 8000 0"),
        Case("BGR", "EUR", "P1M", 2_000, by: 5_000, false, "estimated 5000 0"),
        // Two amounts known in the currency: 17 times 5 and 5 times 6.
        Case("KHM", "USD", "P1M", 2_000, by: 3_990, false, "estimated 5000 1000"),
        Case("KHM", "USD", "P1M", 2_000, by: 4_000, false, "estimated 5000 1000"),
        Case("KHM", "USD", "P1M", 2_000, by: 4_010, nil, "estimated 5000 1000"),
        Case("KHM", "USD", "P1M", 2_000, by: 5_000, nil, "estimated 5000 1000"),
        Case("KHM", "USD", "P1M", 2_000, by: 5_990, nil, "estimated 5000 1000"),
        Case("KHM", "USD", "P1M", 2_000, by: 6_000, true, "estimated 5000 1000"),
        Case("KHM", "USD", "P1M", 10_000, by: 5_000, false, "estimated 5000 1000"),
        Case("KHM", "USD", "P1Y", 2_000, by: 40_000, false, "estimated 50000 10000"),
        Case("KHM", "USD", "P1Y", 2_000, by: 40_010, nil, "estimated 50000 10000"),
        Case("KHM", "USD", "P1Y", 2_000, by: 60_000, true, "estimated 50000 10000"),
        // None known in the currency: all of them, by the rates.
        Case("JPN", "JPY", "P1M", 320_000, by: 480_000, false, "estimated 640000 160000"),
        Case("JPN", "JPY", "P1M", 320_000, by: 481_000, nil, "estimated 640000 160000"),
        Case("JPN", "JPY", "P1M", 320_000, by: 799_000, nil, "estimated 640000 160000"),
        Case("JPN", "JPY", "P1M", 320_000, by: 800_000, true, "estimated 640000 160000"),
        Case("JPN", "JPY", "P1M", 1_280_000, by: 640_000, false, "estimated 640000 160000"),
        Case("JPN", "JPY", "P1M", 1_280_000, by: 641_000, nil, "estimated 640000 160000"),
        Case("JPN", "JPY", "P1Y", 320_000, by: 4_800_000, false, "estimated 6400000 1600000"),
        Case("JPN", "JPY", "P1Y", 320_000, by: 4_801_000, nil, "estimated 6400000 1600000"),
        Case("JPN", "JPY", "P1Y", 320_000, by: 8_000_000, true, "estimated 6400000 1600000"),
        Case("GBR", "GBP", "P3M", 1_000, by: 2_550, false, "estimated 3400 850"),
        Case("GBR", "GBP", "P3M", 1_000, by: 2_560, nil, "estimated 3400 850"),
        Case("GBR", "GBP", "P3M", 1_000, by: 4_240, nil, "estimated 3400 850"),
        Case("GBR", "GBP", "P3M", 1_000, by: 4_250, true, "estimated 3400 850"),
        // The amount is rounded down to what the currency has, the error up.
        Case("CHE", "CHF", "P1M", 1_000, by: 2_790, false, "estimated 3730 940"),
        Case("CHE", "CHF", "P1M", 1_000, by: 2_800, nil, "estimated 3730 940"),
        Case("CHE", "CHF", "P1M", 1_000, by: 4_660, nil, "estimated 3730 940"),
        Case("CHE", "CHF", "P1M", 1_000, by: 4_670, true, "estimated 3730 940"),
        Case("VNM", "VND", "P1M", 1_000, by: 140_001_000, true, "estimated 112000000 28001000"),
        Case("VNM", "VND", "P1M", 1_000, by: 140_000_000, nil, "estimated 112000000 28001000"),
        Case("VNM", "VND", "P1Y", 1_000, by: 1, false, "estimated 1120004000 280002000"),
        // A currency without a rate and without a row.
        Case("SWE", "SEK", "P1M", 200_000, by: 100_000, false, "unknown"),
        Case("SWE", "SEK", "P1M", 200_000, by: 101_000, nil, "unknown"),
        Case("SWE", "SEK", "P1Y", 200_000, by: 900_000_000, nil, "unknown"),
    ])
    func answer_atEachEdge_isTheOneWorkedOut(_ item: Case) { check(item, Self.rules) }

    @Test(arguments: [
        Case("DEU", "EUR", "P1M", 2_000, by: 5_010, true, "estimated 5000 0"),
        Case("KHM", "USD", "P1M", 2_000, by: 6_000, true, "estimated 5000 1000"),
        Case("NRU", "AUD", "P1M", 2_000, by: 8_000, false, "estimated 8000 0"),
        Case("FRA", "BGN", "P1M", 2_000, by: 12_010, true, "estimated 12000 0"),
        Case("FRA", "BRL", "P1Y", 2_000, by: 400_010, true, "estimated 400000 0"),
        Case("JPN", "JPY", "P1M", 320_000, by: 9_000_000, nil, "unknown"),
    ])
    func answer_withoutAnyRate_restsOnTheRowsOfTheCurrency(_ item: Case) { check(item, .shipped) }

    @Test(arguments: [
        // 800 and 901 JPY: the median is 850.5.
        Case("KOR", "JPY", "P1M", 100_000, by: 799_000, false, "estimated 850000 51000"),
        Case("KOR", "JPY", "P1M", 100_000, by: 800_000, false, "estimated 850000 51000"),
        Case("KOR", "JPY", "P1M", 100_000, by: 801_000, nil, "estimated 850000 51000"),
        Case("KOR", "JPY", "P1M", 100_000, by: 900_000, nil, "estimated 850000 51000"),
        Case("KOR", "JPY", "P1M", 100_000, by: 901_000, true, "estimated 850000 51000"),
        // 4 EUR, 5 EUR, 5 EUR and 5.63125 EUR: of the four the two in the middle.
        Case("KOR", "GBP", "P1M", 1_000, by: 3_250, false, "estimated 4250 850"),
        Case("KOR", "GBP", "P1M", 1_000, by: 3_400, false, "estimated 4250 850"),
        Case("KOR", "GBP", "P1M", 1_000, by: 3_410, nil, "estimated 4250 850"),
        // Annual amounts: 40 EUR alone.
        Case("KOR", "GBP", "P1Y", 1_000, by: 34_000, false, "estimated 34000 0"),
        Case("KOR", "GBP", "P1Y", 1_000, by: 34_010, true, "estimated 34000 0"),
        // What a person has estimated is no amount of Apple's: neither it nor its error counts.
        Case("CHE", "CHF", "P1M", 1_000, by: 9_000, false, "estimated 9000"),
        Case("CHE", "CHF", "P1M", 1_000, by: 9_010, true, "estimated 9000"),
        Case("LIE", "CHF", "P1M", 1_000, by: 3_720, false, "estimated 4660 940"),
        Case("LIE", "CHF", "P1M", 1_000, by: 3_730, false, "estimated 4660 940"),
        Case("LIE", "CHF", "P1M", 1_000, by: 3_740, nil, "estimated 4660 940"),
    ])
    func answer_ofAnEvenNumberOfRows_restsOnTheMeanOfTheTwoInTheMiddle(_ item: Case) {
        var rules = RuleSet.shipped.with([
            "USD": "1.25", "JPY": "160", "GBP": "0.85", "CHF": "0.93333",
        ])
        rules[.threshold] = [
            .threshold("USA", "USD", 5_000), .threshold("AUT", "EUR", 5_000),
            .threshold("JPN", "JPY", 800_000), .threshold("PRK", "JPY", 901_000),
            .threshold("CHE", "CHF", 9_000, source: .estimated),
            .threshold("USA", "USD", 50_000, kind: .annual),
        ]

        check(item, rules)
    }

    @Test(arguments: [("AUD", 8_000), ("EUR", 5_000), ("BGN", 12_000), ("BRL", 40_000)])
    func estimate_whereApplesAmountIsFarFromTheRates_isApplesAmount(
        currency: String, amount: Int64
    ) {
        let rules = RuleSet.shipped.with([
            "USD": "1.16", "AUD": "1.7794", "BGN": "1.9558", "BRL": "6.199",
        ]).inForce(at: at("2026-11-01T00:00:00Z"))

        let estimate = rules.thresholdInForce(
            storefront: "XXX", currency: currency, kind: .nonannual)

        #expect(estimate?.amount == amount)
    }

    @Test func estimate_whereEveryAmountOfApplesIsHigher_isCorrected() {
        // 5 USD are 4 EUR by the rates, and Apple says 5 EUR in most storefronts.
        var rules = RuleSet.shipped.with(["USD": "1.25", "JPY": "160"])
        rules[.threshold] = [
            .threshold("USA", "USD", 5_000), .threshold("AUT", "EUR", 5_000),
            .threshold("BEL", "EUR", 5_000),
        ]
        let item = Case("JPN", "JPY", "P1M", 1_000, by: 640_000, false, "estimated 800000 160000")

        check(item, rules)
        #expect(inputs(item, rules).1["correction"] == .text("1.25"))
    }

    @Test(arguments: [
        ("9223372035.999999999", "0.000000001"), ("0.000000001", "9223372035"),
    ])
    func estimate_byRatesThatAreAbsurd_isNone(perEuro: String, dollars: String) {
        let rules = RuleSet.shipped.with(["JPY": perEuro, "USD": dollars])
            .inForce(at: at("2026-11-01T00:00:00Z"))

        let estimate = rules.thresholdInForce(
            storefront: "JPN", currency: "JPY", kind: .nonannual)

        #expect(estimate == nil)
    }
}

extension Rule {
    static func threshold(
        _ storefront: String, _ currency: String, _ amount: Int64, kind: PeriodKind = .nonannual,
        source: RuleSource = .apple
    ) -> Rule {
        .threshold(
            storefront: storefront, currency: currency, kind: kind, amount: amount, source: source)
    }
}

import Testing

@testable import Pricing

/// Edges of the consent rules that `Deploy/mutate` found untested: what a wrong sign, bound or constant would move.
struct RuleEdgeTests {
    private static let renewal = at("2026-12-01T00:00:00Z")

    private func threshold(_ rules: RuleSet, _ storefront: String, _ currency: String)
        -> ThresholdInForce?
    {
        rules.inForce(at: at("2026-11-01T00:00:00Z")).thresholdInForce(
            storefront: storefront, currency: currency, kind: .nonannual)
    }

    /// The euro's own rate is none: what was published is the dollar's.
    @Test(arguments: [("DEU", "EUR", "bank"), ("JPN", "JPY", "desk")])
    func estimate_namesWhoseRateItRestsOn(storefront: String, currency: String, source: String) {
        var rules = RuleSet.shipped.with(["USD": "1.25", "JPY": "160"])
        rules[.threshold].removeAll { $0.currency == "EUR" }
        for index in rules[.exchangeRate].indices {
            rules[.exchangeRate][index].source =
                rules[.exchangeRate][index].currency == "USD" ? "bank" : "desk"
        }

        let estimate = threshold(rules, storefront, currency)?.estimate

        #expect(estimate?.conversion?.source == source)
    }

    private func rules(_ thresholds: [Rule], _ perEuro: [String: String]) -> RuleSet {
        var rules = RuleSet.shipped
        rules[.threshold] = thresholds
        return rules.with(perEuro)
    }

    /// Whatever else there is in dollars or of the USA: an estimate begins with the USA's own amount in dollars for that
    /// kind of period.
    @Test(arguments: 1...8)
    func estimate_beginsWithTheAmountOfTheUSA(number: Int) {
        let others = (0..<12).map { Rule.threshold("X\(number)\($0)", "USD", 6000) }
        let own: [Rule] = [
            .threshold("USA", "CAD", 9000), .threshold("USA", "USD", 50_000, kind: .annual),
            .threshold("USA", "USD", 5000),
        ]

        let estimate = threshold(
            rules(others + own, ["USD": "1.25", "JPY": "160", "CAD": "1.5"]), "JPN", "JPY")

        #expect(estimate?.estimate?.conversion?.usdAmount == 5000)
    }

    /// 4 EUR are 3.7200004 francs, and the next amount lies 0.9300001 above: down to the smallest step, and up to it.
    @Test func estimate_isRoundedDown_andItsErrorUp() {
        let estimate = threshold(
            rules(
                [
                    .threshold("USA", "USD", 5000), .threshold("ALB", "USD", 5000),
                    .threshold("AUT", "EUR", 5000),
                ],
                ["USD": "1.25", "CHF": "0.9300001"]), "CHE", "CHF")

        #expect(estimate?.amount == 3720)
        #expect(estimate?.estimate?.error == 940)
    }

    /// An estimate of 3.729 francs with an error of 0.948, shown as 3.72 and 0.95: on neither side does the rounding
    /// decide.
    @Test(
        arguments: [
            (2780, false), (2790, nil), (3720, nil), (3730, nil), (4670, nil), (4680, true),
        ] as [(Int64, Bool?)])
    func estimate_isComparedAsItWasBeforeItWasRounded(difference: Int64, expected: Bool?) {
        let estimate = threshold(
            rules(
                [
                    .threshold("USA", "USD", 3729), .threshold("AUT", "EUR", 3729),
                    .threshold("BEL", "EUR", 4677),
                ],
                ["USD": "1", "CHF": "1"]), "CHE", "CHF")

        #expect(estimate?.amount == 3720)
        #expect(estimate?.estimate?.error == 950)
        #expect(estimate?.isExceeded(by: difference) == expected)
    }

    /// However little an amount is off, the estimate may be off by a step.
    @Test func error_ofABillionth_isAWholeStep() {
        let amount: Int64 = 10_000_000_000
        let estimate = threshold(
            rules(
                [
                    .threshold("USA", "USD", amount), .threshold("AUT", "EUR", amount),
                    .threshold("BEL", "EUR", amount + 1),
                ], ["USD": "1", "CHF": "0.000000001"]), "CHE", "CHF")

        #expect(estimate?.amount == 10)
        #expect(estimate?.estimate?.error == 10)
    }

    /// The correction is told to four decimals, rounded.
    @Test(arguments: [(50_003, "1.0001"), (50_002, "1"), (49_997, "0.9999")] as [(Int64, String)])
    func correction_isRounded(amount: Int64, expected: String) {
        let estimate = threshold(
            rules(
                [
                    .threshold("USA", "USD", 50_000), .threshold("AUT", "EUR", amount),
                    .threshold("BEL", "EUR", amount),
                ], ["USD": "1", "CHF": "1"]), "CHE", "CHF")

        #expect(estimate?.estimate?.conversion?.correction.text == expected)
    }

    /// Of several rates the oldest says how old an estimate may be.
    @Test func estimate_saysSinceWhenItsOldestRateHolds() {
        var rules = RuleSet.shipped.with(["USD": "1.25", "JPY": "160"])
        for index in rules[.exchangeRate].indices
        where rules[.exchangeRate][index].currency == "USD" {
            rules[.exchangeRate][index].validFrom = at("2026-09-01T00:00:00Z")
        }

        let estimate = threshold(rules, "JPN", "JPY")?.estimate

        #expect(estimate?.conversion?.ratesFrom == at("2026-09-01T00:00:00Z"))
    }

    /// So do the rates of the currencies in which Apple's other amounts are.
    @Test func estimate_saysSinceWhenTheRateOfAnotherRowHolds() {
        var rules = RuleSet.shipped.with(["USD": "1.25", "JPY": "160", "AUD": "1.7"])
        for index in rules[.exchangeRate].indices
        where rules[.exchangeRate][index].currency == "AUD" {
            rules[.exchangeRate][index].validFrom = at("2026-08-01T00:00:00Z")
        }

        #expect(
            threshold(rules, "JPN", "JPY")?.estimate?.conversion?.ratesFrom
                == at("2026-08-01T00:00:00Z"))
    }

    /// `rules show` tells apart what Apple said in the currency and what was converted.
    @Test func estimate_saysWhetherItWasConverted() {
        let rules = RuleSet.shipped.with(["USD": "1.25", "JPY": "160"])
            .inForce(at: at("2026-11-01T00:00:00Z"))

        #expect(rules.estimate(currency: "EUR", kind: .nonannual)?.isConverted == false)
        #expect(rules.estimate(currency: "JPY", kind: .nonannual)?.isConverted == true)
    }

    /// The same rules in another order make the same plan.
    @Test func hash_ofRulesInAnotherOrder_isTheSame() {
        var reversed = RuleSet.shipped.neverAlways("DEU", "JPN", "GBR")
        let hash = { (rules: RuleSet) in
            PlanHash(rules: rules.inForce(at: Self.renewal), environment: .production).text
        }
        let expected = hash(reversed)
        reversed[.threshold].reverse()
        reversed[.alwaysConsent].reverse()
        reversed[.currency].reverse()

        #expect(hash(reversed) == expected)
    }

    /// The table of the source page, and what the contract adds for who need not be asked or told.
    @Test(
        arguments: [
            (.week, 7, 27), (.month, 27, 27), (.twoMonths, 60, 27), (.threeMonths, 60, 27),
            (.sixMonths, 60, 27), (.year, 60, 27), (.other("P9Z"), 60, 27),
        ] as [(Period, Int64, Int64)])
    func lead_isTheOneOfTheSourcePage(period: Period, asked: Int64, told: Int64) {
        let days = [Consent.required, .notKnown, .notRequired, Consent.none].map {
            Timeline.lead(consent: $0, period: period) / Instant.millisecondsPerDay
        }

        #expect(days == [asked, asked, told, 0])
    }

    /// Verdicts are kept in one place that copies share: what makes two of them equal is all that they rest on.
    @Test func verdicts_areEqualWhereQuestionAndRulesAre() throws {
        let judge = Judge.make()
        let stricter = Judge.make(rules: .shipped.neverAlways("USA"))
        let verdict = try #require(judge.one(.make()).verdict)

        #expect(judge.one(.make()).verdict == verdict)
        #expect(judge.one(.make(13_000)).verdict != verdict)
        #expect(stricter.one(.make()).verdict != verdict)
        #expect(
            Set([verdict, judge.one(.make(13_000)).verdict, stricter.one(.make()).verdict]).count
                == 3)
    }

    /// The day begins in Seoul nine hours before it does in UTC, to the millisecond.
    @Test(arguments: [
        ("2026-04-30T14:59:59.999Z", "2026-04-30"), ("2026-04-30T15:00:00Z", "2026-05-01"),
        ("2026-05-01T14:59:59.999Z", "2026-05-01"),
    ])
    func conversionDay_isSeouls(instant: String, expected: String) {
        let conversion = OfferConversion(sku: "OTHER", at: at(instant))

        #expect(conversion.day == day(expected))
        #expect(conversion.windowLastDay.daysSinceEpoch == day(expected).daysSinceEpoch - 1)
        #expect(conversion.windowFirstDay.daysSinceEpoch == day(expected).daysSinceEpoch - 30)
    }

    /// In the Sandbox an increase skips one renewal, whoever made it.
    @Test func scheduledIncrease_inTheSandbox_takesEffectAtTheSecondRenewal() {
        let facts = SubscriptionFacts.make {
            $0.purchasedAt = at("2026-11-01T00:00:00Z")
            $0.signedAt = at("2026-11-02T00:00:00Z")
            $0.edit("OTHER") { $0.increase = .init(status: "SCHEDULED", price: 4200) }
        }
        let judge = Judge.make(now: "2026-11-03T00:00:00Z", environment: .sandbox)

        let shown = RowGroup(judge, rows: [.make()], facts: facts, context: JudgeContext())
            .shown(besides: IncreaseHistory())

        #expect(shown.map(\.at) == [at("2026-12-31T00:00:00Z")])
    }

    /// A row that takes effect before all that is known stands before it, too.
    @Test func increase_thatIsAddedLast_standsWhereItTakesEffect() {
        let known = ["2027-01-01T00:00:00Z", "2027-03-01T00:00:00Z"].map {
            EarlierIncrease(sku: "ITEM", at: at($0), origin: .change("c9"))
        }
        var history = IncreaseHistory(known)
        history.add(EarlierIncrease(sku: "ITEM", at: Self.renewal, origin: .line(2)))

        #expect(history.latest(before: at("2027-01-01T00:00:00Z"))?.origin == .line(2))
        #expect(history.latest(before: at("2027-02-01T00:00:00Z")) == known[0])
        #expect(history.latest(before: .distantFuture) == known[1])
    }

    /// Statements and a person tell of one increase: the verdict rests on what Apple signed.
    @Test(arguments: [false, true])
    func increase_thatIsSignedAndImported_isNamedAsSigned(importedFirst: Bool) {
        let signed = EarlierIncrease(sku: "ITEM", at: Self.renewal, origin: .past(.statement))
        let imported = EarlierIncrease(sku: "ITEM", at: Self.renewal, origin: .past(.imported))
        let both = importedFirst ? [imported, signed] : [signed, imported]
        var added = IncreaseHistory()
        for increase in both { added.add(increase) }

        #expect(IncreaseHistory(both).latest(before: .distantFuture) == signed)
        #expect(added.latest(before: .distantFuture) == signed)
    }
}

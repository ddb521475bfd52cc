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
        rules.thresholds.removeAll { $0.currency == "EUR" }
        for index in rules.exchangeRates.indices {
            rules.exchangeRates[index].source =
                rules.exchangeRates[index].currency == "USD" ? "bank" : "desk"
        }

        let estimate = threshold(rules, storefront, currency)?.estimate

        #expect(estimate?.conversion?.source == source)
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

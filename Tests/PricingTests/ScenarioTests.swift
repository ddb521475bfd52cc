import TestSupport
import Testing

@testable import Pricing

@Suite(.ownThread) struct ScenarioTests {
    private static let now = at("2026-11-01T00:00:00Z")

    private func forecast(
        _ rule: ScenarioRule, _ facts: [SubscriptionFacts], ending: PriceEnding = .none,
        sentAt: Instant = now, rules: RuleSet = .shipped, cohort: Cohort = Cohort(skus: ["ITEM"]),
        context: JudgeContext = JudgeContext()
    ) -> (forecast: ScenarioForecast, rows: [PlanRow]) {
        let judge = ScenarioJudge(
            [Scenario(rule: rule, ending: ending, sentAt: sentAt)], of: cohort, rules: rules,
            environment: .production, now: Self.now)
        var forecasts = judge.emptyForecasts
        var rows: [PlanRow] = []
        for one in facts { judge.add(one, context, to: &forecasts) { rows.append($1) } }
        return (forecasts[0], rows)
    }

    @Test(arguments: [
        ("+10%", [ScenarioRule.percent(10_00)]), ("-5%", [.percent(-5_00)]),
        ("+2.5%", [.percent(2_50)]), ("+1.50", [.amount(1500)]), ("-1", [.amount(-1000)]),
        ("=12.99", [.price(12_990)]), ("max-without-consent", [.maxWithoutConsent]),
        ("+10%..+25%", [.percent(10_00), .percent(15_00), .percent(20_00), .percent(25_00)]),
        ("+10%..+12%/1.5", [.percent(10_00), .percent(11_50), .percent(12_00)]),
        ("-10%..+0.5%/5", [.percent(-10_00), .percent(-5_00), .percent(0), .percent(50)]),
    ])
    func rule_asItIsTyped_isRead(text: String, expected: [ScenarioRule]) throws {
        #expect(try ScenarioRule.list(text) == expected)
        for rule in expected where rule != .percent(0) {
            #expect(try ScenarioRule.list(rule.text) == [rule])
        }
    }

    @Test(arguments: [
        "", "10%", "+", "+%", "=0", "=-1", "+1.2345", "-100%", "+1000.01%", "+10%..+10%",
        "+10%..", "..+10%", "+1..+2", "+1%..+99%/0.1", "+1%..+2%/0", "=12.99%", "max", "+1e3%",
    ])
    func rule_thatIsNone_isRefused(text: String) {
        #expect(throws: ScenarioRule.Fault.self) { try ScenarioRule.list(text) }
    }

    @Test(
        arguments: [
            (ScenarioRule.percent(10_00), PriceEnding.none, 9990, 10_990),
            (.percent(10_00), .fraction(990), 9990, 10_990), (.percent(15_00), .none, 9990, 11_490),
            (.percent(15_00), .fraction(990), 9990, 10_990), (.amount(1500), .none, 9990, 11_490),
            (.amount(-1500), .fraction(950), 9990, 7950), (.price(12_990), .none, 9990, 12_990),
            (.percent(-5_00), .none, 9990, 9490),
            // Rounded once: 49.994999 is nearer to 49.99 than to 50.00.
            (.percent(1), .none, 49_990, 49_990),
        ] as [(ScenarioRule, PriceEnding, Int64, Int64)])
    func price_isMadeAndRounded(
        rule: ScenarioRule, ending: PriceEnding, current: Int64, expected: Int64
    ) {
        let rows = forecast(rule, [.make(price: current)], ending: ending).rows

        #expect(rows.map(\.newPrice) == [expected])
    }

    /// Until the calls of a later day, changes that wait have gone, and they count as what they will be then.
    @Test(arguments: [
        ("2026-11-01T00:00:00Z", "P1M", "2026-12-01T00:00:00Z", Consent.notRequired),
        ("2027-02-01T00:00:00Z", "P1M", "2026-12-01T00:00:00Z", .required),
        ("2027-02-01T00:00:00Z", "P1Y", "2026-12-31T00:00:00Z", .required),
        // It is held for a renewal that no call of that day is late for.
        ("2027-02-01T00:00:00Z", "P1M", "2027-06-01T00:00:00Z", .notRequired),
    ])
    func openChange_thatGoesBeforeTheScenariosCalls_counts(
        sentAt: String, period: String, due: String, expected: Consent
    ) {
        let facts = SubscriptionFacts.make(
            period: period,
            renewalAt: period == "P1Y" ? "2026-12-31T00:00:00Z" : "2026-12-01T00:00:00Z")
        let context = JudgeContext(openChanges: [
            .init(
                changeID: "c9", sku: "OTHER", newPrice: 4200, dependentSKUs: [], state: .queued,
                increasesAt: at(due))
        ])

        let rows = forecast(.percent(5_00), [facts], sentAt: at(sentAt), context: context).rows

        #expect(rows.map(\.consent) == [expected])
    }

    @Test func price_ofACurrencyWithoutDecimals_isWhole() {
        let facts = SubscriptionFacts.make(price: 980_000, storefront: "JPN", currency: "JPY")

        let rows = forecast(.percent(10_00), [facts], ending: .fraction(990)).rows

        #expect(rows.map(\.newPrice) == [1_078_000])
    }

    /// One unit more needs consent, or is not known to need none; the price itself does not.
    @Test(arguments: 1...300 as ClosedRange<UInt64>)
    func maxWithoutConsent_isTheEdge(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let places = [
            ("USA", "USD"), ("ALB", "USD"), ("BRA", "BRL"), ("AUT", "EUR"), ("AUS", "AUD"),
            ("JPN", "JPY"), ("KOR", "KRW"), ("CHL", "CLP"), ("DEU", "EUR"),
        ]
        let place = places.randomElement(using: &random) ?? places[0]
        let currency = Currency.apple.first { $0.code == place.1 }
        let step = try #require(currency).smallestStep
        let period = ["P1W", "P1M", "P3M", "P1Y"].randomElement(using: &random)
        let facts = SubscriptionFacts.make(
            period: period,
            // What several seats pay on average is no price of the currency.
            price: Int64.random(in: 1...20_000, using: &random) * step
                + (Bool.random(using: &random) ? Int64.random(in: 0..<step, using: &random) : 0),
            storefront: place.0, currency: place.1
        ) {
            if UInt8.random(in: 0..<10, using: &random) == 0 { $0.knownSince = nil }
        }
        let rules =
            Bool.random(using: &random) ? RuleSet.shipped : .shipped.neverAlways(place.0)
        let judge = Judge.make(now: Self.now, rules: rules)

        let found = forecast(.maxWithoutConsent, [facts], rules: rules)

        let current = facts.items[0].currentPrice ?? 0
        let oneStep = judge.one(.make(current / step * step + step, currency: place.1), facts)
        guard let row = found.rows.first, let price = row.newPrice else {
            #expect(oneStep.consent != .notRequired, "seed \(seed)")
            #expect(found.forecast.withoutPrice == [.alwaysAsked: 1], "seed \(seed)")
            return
        }
        #expect(judge.one(.make(price, currency: place.1), facts).consent == .notRequired)
        #expect(price % step == 0 && price > current, "seed \(seed)")
        let more = judge.one(.make(price + step, currency: place.1), facts)
        #expect(more.consent == .required || more.consent == .notKnown, "seed \(seed)")
    }

    @Test func cohort_isWhoRenewsTheItemAndFits() {
        var cohort = Cohort(skus: ["ITEM"])
        cohort.storefronts = ["USA", "CAN"]
        cohort.period = "P1M"
        cohort.currency = "USD"
        cohort.startedBefore = day("2026-06-01")
        cohort.priceBelow = 10_000
        cohort.priceAbove = 5000
        let others: [SubscriptionFacts] = [
            .make { $0.status = 2 }, .make { $0.autoRenews = false },
            .make { $0.edit { $0.renews = false } }, .make(storefront: "DEU"),
            .make(period: "P1Y"), .make(currency: "CAD"),
            .make(startedAt: "2026-06-01T00:00:00Z"), .make(startedAt: nil), .make(price: 10_000),
            .make(price: 5000), .make { $0.ownershipType = "FAMILY_SHARED" },
        ]

        #expect(cohort.items(of: .make()).map(\.sku) == ["ITEM"])
        for other in others { #expect(cohort.items(of: other).isEmpty, "\(other)") }
    }

    /// Each seat gains, and each is lost.
    @Test func effect_ofSeveralSeats_isThatOfAll() {
        let one = SubscriptionFacts.make(price: 4000)
        let ten = SubscriptionFacts.make(price: 4000) { $0.quantity = 10 }

        let alone = forecast(.price(10_000), [one]).forecast.effects["USD"]
        let all = forecast(.price(10_000), [ten]).forecast.effects["USD"]

        #expect(alone != nil)
        #expect(all?.gain == alone.map { $0.gain.times(10) })
        #expect(all?.loss == alone.map { $0.loss.times(10) })
        #expect(all?.breakEvenBasisPoints == alone?.breakEvenBasisPoints)
    }

    @Test func forecast_countsMoneyOf12MonthsAtADeclineRate() {
        // Charged at the new price from 1 December to 1 October, eleven times: 6.00 and 1.00 more, or 4.00 and 3.99 less
        // and no 6.00.
        let asked = SubscriptionFacts.make(price: 4000)
        var cohort = Cohort(skus: ["ITEM"])
        cohort.dependents = ["OTHER"]

        let forecast = forecast(
            .price(10_000), [asked, .make(price: 9000)], cohort: cohort
        ).forecast

        let effect = forecast.effects["USD"]
        #expect(forecast.consents == [.required: 1, .notRequired: 1])
        #expect(effect?.gain == 77_000)
        #expect(effect?.loss == 153_890)
        #expect(effect?.effect(declining: 0) == 77_000)
        #expect(effect?.effect(declining: 50_00) == 55)
        #expect(effect?.breakEvenBasisPoints == 50_03)
        #expect(forecast.money.values.map(\.atRisk) == [7990])
        #expect(forecast.money.values.map(\.now) == [13_000])
        #expect(forecast.money.values.map(\.then) == [20_000])
        #expect(forecast.months == [2026 * 12 + 11: 2])
        // Both must be sent by 4 November: with the fourth day of waiting they slip.
        #expect(forecast.slips.enumerated().filter { $1 > 0 }.map { [$0, $1] } == [[3, 2]])
    }

    /// Dependents fall with the first item that can go, and not with one that is refused, has no price, or is a dependent
    /// itself.
    @Test(
        arguments: [
            ("nothing", ["ITEM", "MORE"], ["ITEM"]), ("offer", ["ITEM", "MORE"], ["MORE"]),
            ("no price", ["ITEM", "MORE"], ["MORE"]), ("nothing", ["OTHER", "MORE"], ["MORE"]),
            ("nothing", ["OTHER"], []), ("both", ["ITEM", "MORE"], ["ITEM"]),
        ] as [(String, [String], [String])])
    func dependents_fallWithTheFirstItemThatCanGo(
        obstacle: String, skus: [String], parents: [String]
    ) {
        var cohort = Cohort(skus: skus)
        cohort.dependents = ["OTHER"]
        let facts = SubscriptionFacts.make {
            $0.items.append(.make("MORE", price: 5990))
            if obstacle == "no price" { $0.edit { $0.currentPrice = 1 } }
            if ["offer", "both"].contains(obstacle) {
                $0.edit { $0.offer = .init(price: 990, periodsLeft: 2, isRunning: true) }
            }
            if obstacle == "both" {
                $0.edit("MORE") { $0.offer = .init(price: 990, periodsLeft: 2, isRunning: true) }
            }
        }

        let rows = forecast(
            obstacle == "no price" ? .percent(200_00) : .percent(300_00), [facts], cohort: cohort
        ).rows

        #expect(
            rows.filter { !$0.dependentSKUs.isEmpty }.map(\.sku) == parents, "\(rows.map(\.code))")
    }

    /// Who may be asked counts like who is; whom nobody asks loses nothing.
    @Test(arguments: [(4000, true, 153_890), (9000, false, 153_890), (9000, true, 0)])
    func loss_isOfAllWhoMayBeAsked(price: Int64, isKnown: Bool, loss: Int64) {
        let facts = SubscriptionFacts.make(price: price) {
            if !isKnown { $0.knownSince = nil }
        }
        var cohort = Cohort(skus: ["ITEM"])
        cohort.dependents = ["OTHER"]

        let forecast = forecast(.price(10_000), [facts], cohort: cohort).forecast

        #expect(forecast.effects["USD"]?.loss == MoneySum(loss))
        #expect(forecast.money.values.map(\.maybeAtRisk) == [isKnown ? 0 : 12_990])
    }

    /// Nobody is asked about the dependent, and yet its new price is lost with it when the parent's is declined.
    @Test(arguments: [("OTHER", 246_400), ("THIRD", 176_000 + 990 * 11)] as [(String, Int64)])
    func loss_ofARowThatFallsWithAnother_isOfItsNewPrice(dependent: String, loss: Int64) {
        let facts = SubscriptionFacts.make(price: 10_000) {
            $0.edit("OTHER") { ($0.currentPrice, $0.renewalPrice) = (4000, 4000) }
            $0.items.append(.make("THIRD", price: 990))
        }
        var cohort = Cohort(skus: ["ITEM", "OTHER"])
        cohort.dependents = [dependent]

        let found = forecast(.percent(60_00), [facts], cohort: cohort)

        // Eleven charges, 6.00 and 2.40 more, or none of 10.00 and those of the dependent.
        #expect(found.rows.map(\.consent) == [.required, .notRequired])
        #expect(found.forecast.effects["USD"]?.gain == 92_400)
        #expect(found.forecast.effects["USD"]?.loss == MoneySum(loss))
    }

    /// A renewal that comes before a later call has not passed yet.
    @Test func staleRows_areThoseWhoseRenewalHasPassedToday() {
        let fresh = SubscriptionFacts.make()
        let renewal = fresh.renewalAt ?? Self.now
        let stale = SubscriptionFacts.make { $0.renewalAt = Self.now.advanced(by: -1) }

        let today = forecast(.percent(10_00), [fresh, stale]).forecast
        let later = forecast(
            .percent(10_00), [fresh, stale], sentAt: renewal.advanced(by: 86_400_000)
        ).forecast

        #expect(renewal > Self.now)
        #expect(today.canGo == 2 && today.stale == 1)
        #expect(later.canGo == 2 && later.stale == 1)
        var both = today
        both.add(later)
        #expect(both.stale == 2)
    }

    @Test func loss_ofAnAbsurdDependent_isTooLarge() {
        let facts = SubscriptionFacts.make(price: 4000) {
            $0.edit("OTHER") { $0.currentPrice = .max }
        }
        var cohort = Cohort(skus: ["ITEM"])
        cohort.dependents = ["OTHER"]

        let found = forecast(.price(10_000), [facts], cohort: cohort)

        #expect(found.rows.map(\.atRisk) == [4000])
        #expect(found.rows.map { $0.atRiskElsewhere.map(\.amount) } == [[.max]])
        #expect(found.forecast.effects["USD"]?.loss.isTooLarge == true)
        #expect(found.forecast.money.values.map(\.atRisk.isTooLarge) == [true])
    }

    /// Decreases lose what increases win, each in its currency.
    @Test func gain_ofEachCurrency_standsForItself() {
        let euros = SubscriptionFacts.make(price: 5000, storefront: "AUT", currency: "EUR")

        let effects = forecast(
            .price(4000), [.make(price: 5000), .make(price: 3500), euros]
        ).forecast.effects

        // 1.00 less twelve times from 1 December on, and 0.50 more.
        #expect(effects.mapValues(\.gain) == ["USD": -5500, "EUR": -11_000])
        #expect(effects.mapValues(\.loss) == ["USD": 0, "EUR": 0])
    }

    @Test func forecast_ofSeveralItemsOfASubscription_countsThemBesideOneAnother() {
        let found = forecast(
            .percent(10_00), [.make()], cohort: Cohort(skus: ["ITEM", "OTHER"]))

        #expect(found.rows.map(\.newPrice) == [10_990, 4390])
        #expect(found.forecast.canGo == 2)
    }

    /// A dependent falls with one item alone, or it would be nobody's.
    @Test func dependent_ofSeveralItems_fallsWithTheFirst() {
        let facts = SubscriptionFacts.make { $0.items.append(.make("THIRD", price: 990)) }
        var cohort = Cohort(skus: ["ITEM", "OTHER"])
        cohort.dependents = ["THIRD"]

        let found = forecast(.percent(10_00), [facts], cohort: cohort)

        #expect(found.forecast.canGo == 2)
        #expect(found.rows.map(\.dependentSKUs) == [["THIRD"], []])
    }

    @Test func forecast_inParts_addsUpToTheWhole() {
        let facts = (1...9).map { SubscriptionFacts.make(price: Int64($0) * 1000) }
        let whole = forecast(.price(6000), facts).forecast

        var parts = forecast(.price(6000), Array(facts.prefix(4))).forecast
        parts.add(forecast(.price(6000), Array(facts.dropFirst(4))).forecast)

        #expect(parts == whole)
        #expect(whole.codes == [.noChange: 1])
    }

    @Test func reportingCurrency_convertsByTheRates_orSaysThatItCannot() throws {
        var rules = RuleSet.shipped
        rules[.exchangeRate] = [
            .exchangeRate("USD", perEuro: try Rate(decimal: "1.25"), source: "ecb"),
            .exchangeRate("JPY", perEuro: try Rate(decimal: "160"), source: "ecb"),
        ]
        let usd = try #require(ReportingCurrency("USD", rules: rules.inForce(at: Self.now)))

        #expect(usd.converted(1_600_000, from: "JPY") == 12_500)
        #expect(usd.converted(-1_600_000, from: "JPY") == -12_500)
        #expect(usd.converted(8000, from: "EUR") == 10_000)
        #expect(usd.converted(1, from: "USD") == 1)
        #expect(usd.converted(1000, from: "NGN") == nil)
        #expect(ReportingCurrency("NGN", rules: rules.inForce(at: Self.now)) == nil)
    }
}

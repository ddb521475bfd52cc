import Testing

@testable import Pricing

/// South Korea asks before an offer turns into its full price: in the 30 days before the conversion day.
struct KoreaTests {
    private static func facts(
        period: String = "P1M", renewalAt: String, startedAt: String, offer: String? = "P2M",
        periodsLeft: Int = 0
    ) -> SubscriptionFacts {
        .make(
            period: period, renewalAt: renewalAt, startedAt: startedAt, price: 9_900_000,
            storefront: "KOR", currency: "KRW"
        ) {
            $0.edit("OTHER") {
                $0.offer = .init(
                    price: 0, period: offer, periodsLeft: periodsLeft, isRunning: true)
            }
        }
    }

    private func plan(
        _ facts: SubscriptionFacts, now: String,
        _ row: BatchRow = .make(
            10_900_000, currency: "KRW")
    ) -> PlanRow {
        Judge.make(now: now, rules: .shipped.neverAlways("KOR")).one(row, facts)
    }

    private func window(_ plan: PlanRow) -> [RuleAnswer.Value?] {
        let inputs = plan.rules.first { $0.rule == .koreaOfferConversion }?.inputs ?? []
        return ["conversion_on", "window_first_on", "window_last_on"].map { name in
            inputs.first { $0.name == name }?.value
        }
    }

    /// The source's own example: a trial of two months from 1 March, in Seoul; the conversion is on 1 May.
    @Test func example_ofTheSource_isAskedForFrom1To30April() {
        let facts = Self.facts(
            period: "P2M", renewalAt: "2026-04-30T15:00:00Z", startedAt: "2026-02-28T15:00:00Z")

        let plan = plan(facts, now: "2026-03-10T00:00:00Z")

        #expect(plan.reasons == [.koreaOfferConversion])
        #expect(
            window(plan) == [.text("2026-05-01"), .text("2026-04-01"), .text("2026-04-30")])
        #expect(plan.noticeAt == at("2026-03-31T15:00:00Z"))
        #expect(plan.sendBy == at("2026-03-31T15:00:00Z"))
        #expect(plan.effectiveAt == at("2026-04-30T15:00:00Z"))
    }

    /// Two offers end together: the item that stands first is named, each time the same one.
    @Test func conversion_ofTwoItems_namesTheFirst() {
        var facts = Self.facts(
            period: "P2M", renewalAt: "2026-04-30T15:00:00Z", startedAt: "2026-02-28T15:00:00Z")
        var third = facts.items[1]
        third.sku = "THIRD"
        facts.items.append(third)

        let rules = plan(facts, now: "2026-03-10T00:00:00Z").rules

        let inputs = rules.first { $0.rule == .koreaOfferConversion }?.inputs ?? []
        #expect(inputs.first { $0.name == "offer_sku" }?.value == .text("OTHER"))
    }

    /// An offer whose end can't be read may end at this renewal, so nobody knows; elsewhere it does not matter.
    @Test(arguments: [
        ("P6X", 1, "KOR"), ("P1M", 100_000, "KOR"), ("P6X", 0, ""), ("P1M", 3, ""),
        ("P6X", 1, "USA"),
    ])
    func offerWhoseEndIsNotKnown_isNoNo(period: String, periodsLeft: Int, unknownIn: String) {
        var facts = Self.facts(
            renewalAt: "2026-04-30T15:00:00Z", startedAt: "2026-02-28T15:00:00Z", offer: period,
            periodsLeft: periodsLeft)
        if unknownIn == "USA" { (facts.storefront, facts.currency) = ("USA", "USD") }

        let plan = plan(
            facts, now: "2026-03-10T00:00:00Z",
            .make(10_900_000, currency: unknownIn == "USA" ? "USD" : "KRW"))

        let isUnknown = unknownIn == "KOR"
        #expect(plan.notKnown.contains(.koreaOfferConversion) == isUnknown)
        if isUnknown { #expect(plan.consent == .notKnown) }
    }

    @Test(arguments: ["P1W", "P1M", "P2M", "P3M", "P6M", "P1Y"])
    func conversion_whateverThePeriod_isToldOf30DaysAhead(period: String) {
        let facts = Self.facts(
            period: period, renewalAt: "2027-02-15T00:00:00Z", startedAt: "2026-02-15T00:00:00Z",
            offer: period)

        let inTime = plan(facts, now: "2027-01-16T00:00:00Z")
        let late = plan(facts, now: "2027-01-16T00:00:00.001Z")

        #expect(inTime.reasons == [.koreaOfferConversion])
        #expect(inTime.effectiveAt == at("2027-02-15T00:00:00Z"))
        #expect(inTime.noticeAt == at("2027-01-16T00:00:00Z"))
        #expect(late.reasons.isEmpty)
        #expect(late.effectiveAt.map { $0 > at("2027-02-15T00:00:00Z") } == true)
    }

    @Test func conversion_atTheFourthRenewalOfAWeek_isPassedOverWhereItIsLate() {
        // Renewals on 7, 14, 21 and 28 November; the offer ends with the fourth.
        let facts = Self.facts(
            period: "P1W", renewalAt: "2026-11-07T00:00:00Z", startedAt: "2026-10-03T00:00:00Z",
            offer: "P1W", periodsLeft: 3)

        let plan = plan(facts, now: "2026-11-01T00:00:00Z")

        #expect(plan.reasons.isEmpty)
        #expect(plan.effectiveAt == at("2026-12-05T00:00:00Z"))
        #expect(plan.sendBy == at("2026-11-13T00:00:00Z"))
    }

    @Test func conversion_whereConsentIsNeededAnyway_isToldOf30DaysAheadToo() {
        let facts = Self.facts(
            period: "P1Y", renewalAt: "2027-02-15T00:00:00Z", startedAt: "2026-02-15T00:00:00Z",
            offer: "P1Y")
        var rules = RuleSet.shipped
        rules[.alwaysConsent] = [.alwaysConsent("KOR")]

        let plan = Judge.make(now: "2027-01-10T00:00:00Z", rules: rules).one(
            .make(10_900_000, currency: "KRW"), facts)

        #expect(plan.reasons == [.alwaysConsentStorefront, .koreaOfferConversion])
        #expect(plan.effectiveAt == at("2027-02-15T00:00:00Z"))
        #expect(plan.noticeAt == at("2027-01-16T00:00:00Z"))
    }

    @Test func decrease_atAConversion_asksNobody() {
        let facts = Self.facts(
            period: "P1M", renewalAt: "2026-12-01T00:00:00Z", startedAt: "2026-01-01T00:00:00Z")

        let plan = plan(
            facts, now: "2026-11-29T00:00:00Z", .make(8_900_000, currency: "KRW"))

        #expect(plan.consent == Consent.none)
        #expect(plan.effectiveAt == at("2026-12-01T00:00:00Z"))
    }
}

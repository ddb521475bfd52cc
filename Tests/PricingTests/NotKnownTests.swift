import Testing

@testable import Pricing

/// What nobody knows is neither yes nor no, and never taken for no.
struct NotKnownTests {
    struct History: Sendable {
        var knownSince: String?
        var startedAt: String?
        var increaseAt: String?
        var answer: Bool?

        init(_ knownSince: String?, started: String?, increase: String?, _ answer: Bool?) {
            self.knownSince = knownSince
            startedAt = started
            increaseAt = increase
            self.answer = answer
        }
    }

    @Test(arguments: [
        // One notification of a customer since 2020.
        History("2026-10-01T00:00:00Z", started: "2020-01-01T00:00:00Z", increase: nil, nil),
        History(nil, started: "2026-10-01T00:00:00Z", increase: nil, nil),
        History("2026-10-01T00:00:00Z", started: nil, increase: nil, nil),
        // The first period is known, or the 12 months are.
        History("2026-10-01T00:00:00Z", started: "2026-10-01T00:00:00Z", increase: nil, false),
        History("2025-11-01T00:00:00Z", started: "2020-01-01T00:00:00Z", increase: nil, false),
        History("2025-11-01T00:00:00.001Z", started: "2020-01-01T00:00:00Z", increase: nil, nil),
        // A known increase counts, or is over, whatever else is known.
        History(nil, started: nil, increase: "2026-10-01T00:00:00Z", true),
        History(
            "2026-10-01T00:00:00Z", started: "2020-01-01T00:00:00Z",
            increase: "2025-10-01T00:00:00Z", nil),
        // Before a lapse.
        History(
            "2026-01-01T00:00:00Z", started: "2026-10-01T00:00:00Z",
            increase: "2026-03-01T00:00:00Z", true),
    ])
    func history_isNoOnlyWhereNothingCanHaveBeenOverlooked(_ item: History) {
        let facts = SubscriptionFacts.make(startedAt: item.startedAt) {
            $0.knownSince = item.knownSince.map(at)
        }
        let context = JudgeContext(
            increaseHistory: item.increaseAt.map { [PastIncrease(sku: "ITEM", at: at($0))] } ?? [])

        let plan = Judge.make().one(.make(), facts, context)

        let rule = plan.rules.first { $0.rule == .increaseWithin12Months }
        let because = rule?.inputs.first { $0.name == "because" }?.value
        #expect(rule?.answer == item.answer)
        #expect(because == (item.answer == true ? item.increaseAt.map { .instant(at($0)) } : nil))
        #expect(plan.notKnown == (item.answer == nil ? [.increaseWithin12Months] : []))
        #expect(
            plan.consent
                == (item.answer.map { $0 ? Consent.required : .notRequired } ?? .notKnown))
        #expect(plan.knownSince == item.knownSince.map(at))
    }

    /// An increase of 28 February counts until 28 February, however late on that day it was. So who is known from the
    /// 29th on is not known for a year before that day is over. On a leap day itself the year before begins on the 28th.
    @Test(
        arguments: [
            ("2028-02-29T10:00:00Z", "2029-02-28T10:00:00Z", nil),
            ("2028-02-29T10:00:00Z", "2029-02-28T23:59:59.999Z", nil),
            ("2028-02-29T10:00:00Z", "2029-03-01T00:00:00Z", false),
            ("2028-02-28T10:00:00Z", "2029-02-28T09:59:59.999Z", nil),
            ("2028-02-28T10:00:00Z", "2029-02-28T10:00:00Z", false),
            ("2027-02-28T10:00:00Z", "2028-02-28T10:00:00Z", false),
            ("2027-02-28T10:00:00Z", "2028-02-29T09:59:59.999Z", nil),
            ("2027-02-28T10:00:00Z", "2028-02-29T10:00:00Z", false),
            ("2027-03-01T10:00:00Z", "2028-03-01T10:00:00Z", false),
        ] as [(String, String, Bool?)])
    func year_aroundALeapDay_isKnownWhereAllOfItIs(knownSince: String, now: String, answer: Bool?) {
        let facts = SubscriptionFacts.make(
            renewalAt: "2029-06-01T00:00:00Z", startedAt: "2020-01-01T00:00:00Z"
        ) { $0.knownSince = at(knownSince) }

        let plan = Judge.make(now: now).one(.make(), facts)

        #expect(plan.rules.first { $0.rule == .increaseWithin12Months }?.answer == answer)
    }

    /// When a whole year is known is an instant at which the answer turns.
    @Test(
        arguments: [
            ("2028-02-29T10:00:00Z", "2029-02-28T05:00:00Z", "2029-03-01T00:00:00Z"),
            ("2027-02-28T10:00:00Z", "2028-02-28T05:00:00Z", "2028-02-28T10:00:00Z"),
            ("2027-02-28T10:00:00Z", "2028-02-28T12:00:00Z", "2028-02-29T00:00:00Z"),
            ("2027-02-28T10:00:00Z", "2028-02-29T05:00:00Z", "2028-02-29T10:00:00Z"),
        ])
    func year_aroundALeapDay_turnsTheVerdict(knownSince: String, now: String, turnsAt: String) {
        let facts = SubscriptionFacts.make(
            renewalAt: "2029-06-01T00:00:00Z", startedAt: "2020-01-01T00:00:00Z"
        ) { $0.knownSince = at(knownSince) }

        let plan = Judge.make(now: now).one(.make(), facts)

        #expect(plan.turn?.at == at(turnsAt))
    }

    @Test(
        arguments: [
            // Named by the list; not named, with Apple's amount; with somebody's amount; with none.
            ("CHL", true), ("ALB", true), ("PER", false), ("USA", false), ("JPN", nil),
            ("DEU", nil),
        ] as [(String, Bool?)])
    func alwaysConsent_whereTheListIsSilent_isNotKnownButForApplesAmounts(
        storefront: String, expected: Bool?
    ) {
        var rules = RuleSet.shipped.neverAlways("PER")
        rules[.alwaysConsent] += ["CHL", "ALB"].map { .alwaysConsent($0) }
        rules[.threshold].append(
            .threshold(
                storefront: "JPN", currency: "USD", kind: .annual, amount: 5000, source: .estimated)
        )

        let plan = Judge.make(rules: rules).one(.make(), .make(storefront: storefront))

        #expect(plan.rules.first { $0.rule == .alwaysConsentStorefront }?.answer == expected)
        #expect(
            plan.consent == (expected.map { $0 ? Consent.required : .notRequired } ?? .notKnown))
    }

    @Test(arguments: [
        (Consent.notKnown, Consent.required, true), (.required, .notKnown, true),
        (.notRequired, .notKnown, true), (.notKnown, .notRequired, true),
        (.notRequired, .required, false), (.required, .required, true),
        (.required, .notRequired, true), (.notKnown, .notKnown, true),
    ])
    func change_judgedAnew_driftsOnlyFromSurelyNotToYes(
        submitted: Consent, now: Consent, isSent: Bool
    ) {
        let facts = SubscriptionFacts.make { if now == .notKnown { $0.knownSince = nil } }
        var context = SendingTests.ownContext
        if now == .required {
            context.increaseHistory = [PastIncrease(sku: "ITEM", at: at("2026-10-01T00:00:00Z"))]
        }

        let verdict = Judge.make().judgeForSending(
            SendingTests.stored(consent: submitted), facts: facts, context: context)

        switch verdict {
        case .send(let plan): #expect(isSent && plan.consent == now)
        case .ineligible(let fault): #expect(!isSent && fault.code == .drifted)
        case .wait: Issue.record("\(verdict)")
        }
    }

    @Test func requests_whereConsentIsNotKnown_goAloneAsThoseThatNeedIt() {
        func key(_ sku: String, _ consent: Consent) -> String? {
            RequestGroup.key(
                .announced, consent: consent, effectiveAt: at("2026-12-01T00:00:00Z"), sku: sku)
        }

        #expect(key("A", .notKnown) == key("A", .required))
        #expect(key("A", .notKnown) != key("B", .notKnown))
        #expect(key("A", .notKnown) != key("A", .notRequired))
    }

    @Test(arguments: [
        ("2026-12-01T00:00:00Z", false), ("2026-11-01T00:00:00Z", false),
        ("2026-10-31T23:59:59.999Z", true),
    ])
    func row_whoseKnownRenewalLiesBehind_isStaleAndCounted(renewalAt: String, expected: Bool) {
        let plan = Judge.make().one(.make(), .make(renewalAt: renewalAt))
        var forecast = BatchForecast()
        forecast.add(plan)

        #expect(plan.isStale == expected)
        #expect(plan.json.contains(#""stale":\#(expected),"#))
        #expect(forecast.staleCount == (expected ? 1 : 0))
    }

    struct Held: Sendable {
        var period: String
        var increaseAt: String
        var onOrAfter: String
        var judgedAt: String
        var consent: Consent
        var effectiveAt: String

        init(
            _ period: String, increase: String, onOrAfter: String, judged: String,
            _ consent: Consent, effective: String
        ) {
            (self.period, increaseAt, self.onOrAfter) = (period, increase, onOrAfter)
            (judgedAt, self.consent, effectiveAt) = (judged, consent, effective)
        }
    }

    /// Planned on 1 November 2026; renewals from 1 December on.
    @Test(arguments: [
        Held(
            "P1M", increase: "2026-03-01T00:00:00Z", onOrAfter: "2027-05-01",
            judged: "2027-03-05T00:00:00.001Z", .notRequired, effective: "2027-05-01T00:00:00Z"),
        Held(
            "P2M", increase: "2026-03-01T00:00:00Z", onOrAfter: "2027-06-01",
            judged: "2027-01-31T00:00:00.001Z", .required, effective: "2027-06-01T00:00:00Z"),
        // Seven days' notice would do from 22 December on; on 20 December none is needed, and the fourth renewal counts.
        Held(
            "P1W", increase: "2025-12-20T00:00:00Z", onOrAfter: "2027-01-05",
            judged: "2026-12-20T00:00:00Z", .notRequired, effective: "2027-01-12T00:00:00Z"),
        Held(
            "P1M", increase: "2025-11-15T00:00:00Z", onOrAfter: "2026-12-01",
            judged: "2026-11-01T00:00:00Z", .required, effective: "2026-12-01T00:00:00Z"),
    ])
    func row_thatWaitsForItsDate_isJudgedForTheInstantAtWhichItGoes(_ item: Held) {
        let context = JudgeContext(
            increaseHistory: [PastIncrease(sku: "ITEM", at: at(item.increaseAt))])

        let plan = Judge.make().one(
            .make(onOrAfter: item.onOrAfter), .make(period: item.period), context)

        #expect(plan.judgedAt == at(item.judgedAt))
        #expect(plan.sendAfter ?? at("2026-11-01T00:00:00Z") == at(item.judgedAt))
        #expect(plan.consent == item.consent)
        #expect(plan.effectiveAt == at(item.effectiveAt))
    }

    @Test func forecast_countsWhatIsNotKnownApart_byRuleAndMoney() {
        let facts = SubscriptionFacts.make(price: 1_000_000, storefront: "JPN", currency: "JPY") {
            $0.knownSince = nil
        }
        var forecast = BatchForecast()
        forecast.add(Judge.make().one(.make(1_600_000, currency: "JPY"), facts))
        forecast.add(Judge.make().one(.make(19_990)))
        forecast.add(Judge.make().one(.make(10_990)))

        #expect(forecast.consents == [.notKnown: 1, .required: 1, .notRequired: 1])
        #expect(
            forecast.notKnown.mapValues(\.rows)
                == [.alwaysConsentStorefront: 1, .threshold: 1, .increaseWithin12Months: 1])
        #expect(forecast.notKnown[.threshold]?.storefronts == ["JPN"])
        let sums = forecast.money.sorted { $0.key < $1.key }.map { [$1.atRisk, $1.maybeAtRisk] }
        #expect(sums.map { $0.map(\.milliunits) } == [[0, 1_000_000], [9990, 0]])
    }
}

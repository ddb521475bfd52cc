import Testing

@testable import Pricing

/// A row may wait between its first and its last day to send. Its verdict is that of the first; where a later call would
/// be judged otherwise, the plan says from when on, and why.
struct ConsentTurnTests {
    private static let now = at("2026-11-01T00:00:00Z")

    private func plan(
        _ row: BatchRow, _ facts: SubscriptionFacts = .make(), rules: RuleSet = .shipped,
        _ context: JudgeContext = JudgeContext(), now: Instant = now
    ) -> PlanRow {
        Judge(rules: RuleCourse(rules, from: now), environment: .production, now: now)
            .one(row, facts, context)
    }

    private func asking(from day: String) -> RuleSet {
        var rules = RuleSet.shipped
        rules[.alwaysConsent] = [
            .alwaysConsent("USA", isRequired: false),
            .alwaysConsent("USA", validFrom: at("\(day)T00:00:00Z")),
        ]
        return rules
    }

    private func input(_ name: String, _ rule: ConsentReason, _ plan: PlanRow) -> RuleAnswer.Value?
    {
        plan.rules.first { $0.rule == rule }?.inputs.first { $0.name == name }?.value
    }

    @Test func increase_thatAgesInTheWindow_isNamedWithItsDay() {
        let facts = SubscriptionFacts.make(period: "P1Y", renewalAt: "2027-06-01T00:00:00Z")
        let context = JudgeContext(increaseHistory: [
            PastIncrease(sku: "OTHER", at: at("2026-02-01T00:00:00Z"))
        ])

        let plan = plan(.make(10_500), facts, context)

        #expect(plan.consent == .required)
        #expect(plan.judgedAt == Self.now)
        // Announced only, 27 days would be enough.
        #expect(plan.sendBy == at("2027-05-05T00:00:00Z"))
        #expect(plan.turn?.at == at("2027-02-01T00:00:00Z"))
        #expect(plan.turn?.consent == .notRequired)
        let rule = ConsentReason.increaseWithin12Months
        #expect(input("because", rule, plan) == .instant(at("2026-02-01T00:00:00Z")))
        #expect(input("turns_at", rule, plan) == .instant(at("2027-02-01T00:00:00Z")))
        #expect(input("turns_to", rule, plan) == .flag(false))
        #expect(input("turns_at", .threshold, plan) == nil)
        #expect(
            plan.json.contains(
                #""consent_turns_at":"2027-02-01T00:00:00Z","consent_turns_to":"not_required""#))
    }

    /// A row held back for January goes between 4 November and 5 December.
    @Test(arguments: [
        ("2026-11-03", nil, Consent.required), ("2026-11-20", "2026-11-20", .notRequired),
        ("2026-12-05", "2026-12-05", .notRequired), ("2026-12-06", nil, .notRequired),
    ])
    func rule_thatComesIntoForceInTheWindow_isNamedWithItsDay(
        from: String, turn: String?, consent: Consent
    ) {
        let row = BatchRow.make(10_500, onOrAfter: "2027-01-01")

        let plan = plan(row, rules: asking(from: from))

        #expect(plan.sendAfter == at("2026-11-04T00:00:00.001Z"))
        #expect(plan.sendBy == at("2026-12-05T00:00:00Z"))
        #expect(plan.consent == consent)
        #expect(plan.turn?.at.day.text == turn)
        #expect(plan.turn?.consent == (turn == nil ? nil : .required))
    }

    /// Yearly, due on 1 June 2027: 60 days' notice where the customer is asked, 27 where they are told. The last call is
    /// looked for through all that changes meanwhile.
    @Test(
        arguments: [
            // Nothing changes: 60 days before.
            ("2026-10-01T00:00:00Z", nil, "2027-04-02T00:00:00Z"),
            // The increase ages early enough for 27 days.
            ("2026-02-01T00:00:00Z", nil, "2027-05-05T00:00:00Z"),
            // It ages, and before those 27 days every increase is asked about.
            ("2026-02-01T00:00:00Z", "2027-04-20", "2027-04-19T23:59:59.999Z"),
            // It ages at the very last instant, and a millisecond after it.
            ("2026-05-05T00:00:00Z", nil, "2027-05-05T00:00:00Z"),
            ("2026-05-05T00:00:00.001Z", nil, "2027-04-02T00:00:00Z"),
        ] as [(String, String?, String)])
    func lastCall_isJudgedAsOfItsOwnInstant(
        increaseAt: String, askedFrom: String?, sendBy: String
    ) {
        let facts = SubscriptionFacts.make(period: "P1Y", renewalAt: "2027-06-01T00:00:00Z")
        let context = JudgeContext(increaseHistory: [
            PastIncrease(sku: "OTHER", at: at(increaseAt))
        ])

        let plan = plan(
            .make(10_500), facts, rules: askedFrom.map(asking) ?? .shipped, context)

        #expect(plan.consent == .required)
        #expect(plan.effectiveAt == at("2027-06-01T00:00:00Z"))
        #expect(plan.sendBy == at(sendBy))
    }

    /// A weekly increase that is held goes when the earlier one has aged, whatever rule comes into force long after.
    @Test func firstCall_isTheFirstTurnThatLetsItGo() {
        var rules = RuleSet.shipped
        rules[.alwaysConsent] = [
            .alwaysConsent("JPN", validFrom: at("2027-06-01T00:00:00Z"))
        ]
        let context = JudgeContext(increaseHistory: [
            PastIncrease(sku: "ITEM", at: at("2025-12-20T00:00:00Z"))
        ])

        let plan = plan(
            .make(onOrAfter: "2027-01-05"), .make(period: "P1W"), rules: rules, context)

        #expect(plan.judgedAt == at("2026-12-20T00:00:00Z"))
        #expect(plan.effectiveAt == at("2027-01-12T00:00:00Z"))
    }

    @Test func year_thatGetsKnownInTheWindow_turnsNotKnownIntoNo() {
        let facts = SubscriptionFacts.make { $0.knownSince = at("2025-11-15T00:00:00Z") }

        let plan = plan(
            .make(10_500, onOrAfter: "2027-01-01"),
            facts.with(startedAt: "2024-01-01T00:00:00Z"))

        #expect(plan.consent == .notKnown)
        #expect(plan.turn?.at == at("2026-11-15T00:00:00Z"))
        #expect(plan.turn?.consent == .notRequired)
    }

    @Test func turn_isWarnedOf_andPartOfTheHash() {
        func hash(_ plan: PlanRow) -> String {
            var hash = PlanHash(
                rules: RuleSet.shipped.inForce(at: Self.now), environment: .production)
            hash.add(plan)
            return hash.text
        }
        let row = BatchRow.make(10_500, onOrAfter: "2027-01-01")
        let turning = plan(row, rules: asking(from: "2026-11-20"))
        let steady = plan(row, rules: asking(from: "2027-11-20"))
        var forecast = BatchForecast()

        for plan in [turning, steady] { forecast.add(plan) }

        #expect(forecast.warnings[.turns] == .init(count: 1, lines: [2]))
        #expect(hash(turning) != hash(steady))
    }

    @Test(arguments: [true, false])
    func change_whoseConsentIsForeseen_isSentAfterTheTurn(isForeseen: Bool) {
        var change = SendingTests.stored()
        if isForeseen {
            change.foreseen = ForeseenConsent(
                from: at("2026-11-02T00:00:00Z"), reasons: [.alwaysConsentStorefront])
        }
        let now = at("2026-11-02T00:00:00Z")
        let judge = Judge(
            rules: RuleCourse(asking(from: "2026-11-02"), from: now), environment: .production,
            now: now)

        let verdict = judge.judgeForSending(
            change, facts: .make(), context: SendingTests.ownContext)

        switch verdict {
        case .send(let plan):
            #expect(isForeseen)
            #expect(plan.consent == .required)
        case .ineligible(let fault):
            #expect(!isForeseen)
            #expect(fault.code == .drifted)
        case .wait: Issue.record("\(verdict)")
        }
    }
}

extension ConsentTurnTests {
    /// The list will ask from the 20th on, as the plan said. Something else that asks is a drift before and after it.
    @Test(arguments: [
        ("2026-11-10T00:00:00Z", false, true), ("2026-11-10T00:00:00Z", true, false),
        ("2026-11-20T00:00:00Z", false, true), ("2026-11-20T00:00:00Z", true, false),
    ])
    func change_whoseConsentIsForeseen_isNotExcusedForAnotherReason(
        now: String, hasRisen: Bool, isSent: Bool
    ) {
        var change = SendingTests.stored()
        change.foreseen = ForeseenConsent(
            from: at("2026-11-20T00:00:00Z"), reasons: [.alwaysConsentStorefront])
        let judge = Judge(
            rules: RuleCourse(asking(from: "2026-11-20"), from: at(now)), environment: .production,
            now: at(now))
        var context = SendingTests.ownContext
        if hasRisen {
            context.increaseHistory = [
                .init(sku: "OTHER", at: at("2026-11-05T00:00:00Z"), source: .statement)
            ]
        }

        let verdict = judge.judgeForSending(change, facts: .make(), context: context)

        switch verdict {
        case .send: #expect(isSent)
        case .ineligible(let fault):
            #expect(!isSent)
            #expect(fault.code == .drifted)
        case .wait: Issue.record("\(verdict)")
        }
    }
}

extension SubscriptionFacts {
    fileprivate func with(startedAt: String) -> SubscriptionFacts {
        var facts = self
        facts.recentSubscriptionStartAt = at(startedAt)
        return facts
    }
}

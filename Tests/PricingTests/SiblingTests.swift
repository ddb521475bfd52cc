import Testing

@testable import Pricing

/// Rows and open changes of one subscription are each other's history, in the order in which they take effect.
struct SiblingTests {
    private static let first = at("2026-12-01T00:00:00Z")
    private static let second = at("2027-01-01T00:00:00Z")

    private func plans(
        _ rows: [BatchRow], _ facts: SubscriptionFacts = .make(),
        _ context: JudgeContext = JudgeContext(), now: String = "2026-11-01T00:00:00Z"
    ) -> [PlanRow] {
        Judge.make(now: now).judge(rows: rows, facts: facts, context: context)
    }

    private func because(_ plan: PlanRow) -> RuleAnswer.Value? {
        plan.rules.first { $0.rule == .increaseWithin12Months }?.inputs
            .first { $0.name == "because" }?.value
    }

    @Test func row_thatTakesEffectAfterASibling_needsConsentBecauseOfItsLine() {
        let plans = plans([
            .make(4200, sku: "OTHER", line: 2, onOrAfter: "2027-06-01"),
            .make(10_500, line: 3),
        ])

        #expect(plans.map(\.code) == [nil, nil])
        #expect(plans.map(\.consent) == [.required, .notRequired])
        #expect(plans.map(\.effectiveAt) == [at("2027-06-01T00:00:00Z"), Self.first])
        #expect(because(plans[0]) == .text("line 3"))
        #expect(because(plans[1]) == nil)
    }

    @Test func rows_thatAreAllHeldBack_countAgainstEachOther() {
        let plans = plans([
            .make(4200, sku: "OTHER", line: 2, onOrAfter: "2027-06-01"),
            .make(10_500, line: 3, onOrAfter: "2027-03-01"),
        ])

        #expect(plans.map(\.consent) == [.required, .notRequired])
        #expect(because(plans[0]) == .text("line 3"))
    }

    @Test func rows_ofTheSameRenewal_doNotCountAgainstEachOther() {
        let plans = plans([.make(4200, sku: "OTHER", line: 2), .make(10_500, line: 3)])

        #expect(plans.map(\.consent) == [.notRequired, .notRequired])
        #expect(plans.map(\.effectiveAt) == [Self.first, Self.first])
    }

    @Test func rows_inAChain_countTheLatestBefore() {
        let facts = SubscriptionFacts.make { $0.items.append(.make("THIRD", price: 5000)) }
        let plans = plans(
            [
                .make(5200, sku: "THIRD", line: 2, onOrAfter: "2027-03-01"),
                .make(4200, sku: "OTHER", line: 3, onOrAfter: "2027-02-01"),
                .make(10_500, line: 4),
            ], facts)

        #expect(plans.map(\.consent) == [.required, .required, .notRequired])
        #expect(plans.map(because) == [.text("line 3"), .text("line 4"), nil])
    }

    @Test(
        arguments: [
            (7990, "2027-06-01", Consent.notRequired), (10_500, "2028-01-02", .notRequired),
            (10_500, "2027-12-02", .required),
        ] as [(Int64, String, Consent)])
    func sibling_thatIsNoIncreaseOrLongOver_doesNotCount(
        price: Int64, onOrAfter: String, expected: Consent
    ) {
        // 12 months after December 2026 end on 1 December 2027: the call for February 2028 goes after that, the one for
        // January before.
        let plans = plans([
            .make(price, line: 2), .make(4200, sku: "OTHER", line: 3, onOrAfter: onOrAfter),
        ])

        #expect(plans[1].consent == expected)
    }

    @Test func sibling_thatIsRefused_countsForNobody() {
        let plans = plans([
            .make(10_500, line: 2, expected: 8990),
            .make(4200, sku: "OTHER", line: 3, onOrAfter: "2027-06-01"),
        ])

        #expect(plans.map(\.code) == [.drifted, nil])
        #expect(plans[1].consent == .notRequired)
    }

    @Test(arguments: [(ChangeState.queued, true), (.awaitingApproval, true), (.aborted, false)])
    func openChange_ofAnotherBatch_countsFromItsRenewalOn(state: ChangeState, counts: Bool) {
        let context = JudgeContext(openChanges: [
            .init(
                changeID: "c9", sku: "OTHER", newPrice: 4200, dependentSKUs: [], state: state,
                increasesAt: Self.first)
        ])

        let same = plans([.make()], .make(), context)
        let later = plans([.make(onOrAfter: "2027-01-01")], .make(), context)

        #expect(same[0].consent == .notRequired)
        #expect(later[0].consent == (counts ? .required : .notRequired))
        #expect(because(later[0]) == (counts ? .text("c9") : nil))
    }

    struct Waiting: Sendable {
        var state = ChangeState.queued
        /// The renewal that the change was due at when it was stored.
        var due = "2026-11-01T00:00:00Z"
        var onOrAfter: String?
        var expected: Consent
        var effectiveAt = "2027-02-01T00:00:00Z"
    }

    /// Quarterly, judged on 15 November: a call that announces is in time for 1 February, and one that asks too (60 days).
    /// On 10 December only one that announces is.
    @Test(arguments: [
        // It waited past its renewal, and will rise with the row.
        Waiting(expected: .notRequired),
        Waiting(state: .awaitingApproval, expected: .notRequired),
        // It was called in time, or may have been.
        Waiting(state: .scheduled, expected: .required, effectiveAt: "2027-05-01T00:00:00Z"),
        Waiting(state: .unknown, expected: .required, effectiveAt: "2027-05-01T00:00:00Z"),
        // It rises at the renewal before the row's.
        Waiting(onOrAfter: "2027-03-01", expected: .required, effectiveAt: "2027-05-01T00:00:00Z"),
        // The same, though its own renewal has not come: no call reaches it.
        Waiting(
            due: "2027-01-01T00:00:00Z", onOrAfter: "2027-03-01", expected: .required,
            effectiveAt: "2027-05-01T00:00:00Z"),
        // It is due at the renewal before the row's, and not a day later.
        Waiting(
            due: "2027-02-01T00:00:00Z", onOrAfter: "2027-03-01", expected: .required,
            effectiveAt: "2027-05-01T00:00:00Z"),
        // It is held for a later one.
        Waiting(due: "2027-05-01T00:00:00Z", expected: .notRequired),
        // Its renewal moved by some hours.
        Waiting(due: "2027-02-01T07:00:00Z", expected: .notRequired),
    ])
    func openChange_thatWaited_countsFromTheRenewalThatACallReachesNow(_ item: Waiting) {
        let facts = SubscriptionFacts.make(period: "P3M", renewalAt: "2027-02-01T00:00:00Z")
        let context = JudgeContext(openChanges: [
            .init(
                changeID: "c9", sku: "OTHER", newPrice: 4200, dependentSKUs: [], state: item.state,
                increasesAt: at(item.due))
        ])

        let plan = plans(
            [.make(10_500, onOrAfter: item.onOrAfter)], facts, context, now: "2026-12-10T00:00:00Z")[
                0]

        #expect(plan.code == nil)
        #expect(plan.consent == item.expected)
        #expect(plan.effectiveAt == at(item.effectiveAt))
        #expect(because(plan) == (item.expected == .required ? .text("c9") : nil))
    }

    /// The item costs as much already, so that nothing will rise.
    @Test func openChange_toThePriceThatIsCharged_countsForNobody() {
        let context = JudgeContext(openChanges: [
            .init(
                changeID: "c9", sku: "OTHER", newPrice: 3990, dependentSKUs: [], state: .queued,
                increasesAt: Self.first)
        ])

        let plan = plans([.make(onOrAfter: "2027-01-01")], .make(), context)[0]

        #expect(plan.consent == .notRequired)
    }

    /// What Apple has been told counts at the renewal for which it was told, and 12 months from then: not at a later one
    /// that a call now would reach.
    @Test func openChange_thatAppleHas_agesFromItsOwnRenewal() {
        let context = JudgeContext(openChanges: [
            .init(
                changeID: "c9", sku: "OTHER", newPrice: 4200, dependentSKUs: [], state: .scheduled,
                increasesAt: Self.first)
        ])

        let plans = ["2027-12-02", "2028-01-02"].map {
            self.plans(
                [.make(10_500, onOrAfter: $0)], .make(), context, now: "2026-11-20T00:00:00Z")[0]
        }

        #expect(plans.map(\.consent) == [.required, .notRequired])
    }

    /// Weekly: who is asked gets a week's notice, who is told the fourth renewal. So the increase that asks comes first,
    /// and the other one is asked about because of it.
    @Test func rowsOfAWeek_takeEffectAtDifferentRenewals_andCount() {
        let plans = plans(
            [.make(15_990, line: 2), .make(4200, sku: "OTHER", line: 3)], .make(period: "P1W"))

        #expect(plans.map(\.consent) == [.required, .required])
        #expect(plans.map(\.effectiveAt) == [Self.first, at("2026-12-08T00:00:00Z")])
        #expect(plans.map(because) == [nil, .text("line 2")])
    }

    /// A row that is refused still says what would be asked, besides the rows that can go.
    @Test func row_thatIsRefused_isJudgedBesideThoseThatCanGo() {
        let plans = plans([
            .make(10_500, line: 2),
            .make(4200, sku: "OTHER", line: 3, expected: 1, onOrAfter: "2027-06-01"),
        ])

        #expect(plans.map(\.code) == [nil, .drifted])
        #expect(plans.map(\.consent) == [.notRequired, .required])
        #expect(because(plans[1]) == .text("line 2"))
    }

    struct Shown: Sendable {
        var status: String
        var period = "P1M"
        var signedAt = "2026-11-01T00:00:00Z"
        var announcedAt: String?
        /// When the running period began.
        var purchasedAt: String?
        /// The renewals, from R0 on, at which it counts against an increase that is held back for them.
        var counts: [Bool]
    }

    @Test(arguments: [
        Shown(status: "PENDING", counts: [false, true, true, true, true]),
        Shown(status: "ACCEPTED", counts: [false, true, true, true, true]),
        Shown(
            status: "ACCEPTED", announcedAt: "2026-10-20T00:00:00Z",
            counts: [false, true, true, true, true]),
        Shown(status: "SCHEDULED", counts: [false, true, true, true, true]),
        Shown(
            status: "SCHEDULED", signedAt: "2026-11-10T00:00:00Z",
            counts: [false, false, true, true, true]),
        // The first of the four renewals after the notice is 17 November.
        Shown(
            status: "ACCEPTED", period: "P1W", announcedAt: "2026-11-15T00:00:00Z",
            counts: [false, false, true, true, true]),
        // Told long ago: due at the next renewal.
        Shown(
            status: "ACCEPTED", period: "P1W", announcedAt: "2026-11-09T00:00:00Z",
            counts: [false, true, true, true, true]),
        Shown(
            status: "ACCEPTED", period: "P1W", announcedAt: "2026-11-01T00:00:00Z",
            counts: [false, true, true, true, true]),
        // The day before a renewal is too late for a call, but the notice came after its call.
        Shown(
            status: "ACCEPTED", period: "P1W", announcedAt: "2026-11-16T12:00:00Z",
            counts: [false, false, true, true, true]),
        Shown(
            status: "ACCEPTED", period: "P1W", announcedAt: "2026-11-17T00:00:00Z",
            counts: [false, false, true, true, true]),
        Shown(
            status: "ACCEPTED", period: "P1W", announcedAt: "2026-11-17T00:00:00.001Z",
            counts: [false, false, false, true, true]),
        Shown(
            status: "ACCEPTED", period: "P1W", announcedAt: "2026-11-30T00:00:00Z",
            counts: [false, false, false, false, true]),
        Shown(
            status: "ACCEPTED", period: "P1W", announcedAt: "2026-11-30T12:00:00Z",
            counts: [false, false, false, false, true]),
        // The running period was extended, so that no renewal was on 24 November.
        Shown(
            status: "ACCEPTED", period: "P1W", announcedAt: "2026-11-21T00:00:00Z",
            purchasedAt: "2026-11-20T00:00:00Z", counts: [false, false, false, false, true]),
        // Told at the very renewal that began the running period, which is the first of the four.
        Shown(
            status: "ACCEPTED", period: "P1W", announcedAt: "2026-11-24T00:00:00Z",
            purchasedAt: "2026-11-24T00:00:00Z", counts: [false, false, false, true, true]),
        Shown(status: "PENDING", period: "P1W", counts: [false, true, true, true, true]),
    ])
    func increase_thatAppleShows_countsFromItsRenewalOn(_ item: Shown) {
        let facts = SubscriptionFacts.make(period: item.period) {
            $0.edit("OTHER") { $0.increase = .init(status: item.status, price: 4200) }
            $0.signedAt = at(item.signedAt)
            $0.purchasedAt = item.purchasedAt.map(at)
        }
        var context = JudgeContext()
        if let told = item.announcedAt { context.announcedAt = ["OTHER": at(told)] }
        let calendar = facts.renewals(from: Self.first)

        let counted = (0..<5).map { index -> Bool? in
            calendar.flatMap { calendar in
                let renewal = calendar.renewal(index)
                let row = BatchRow.make(15_500, onOrAfter: renewal.day.text)
                let search = RowGroup(
                    Judge.make(now: item.signedAt), rows: [row], facts: facts, context: context
                ).increase(
                    of: "ITEM", from: 9990, to: 10_500, currency: "USD", storefront: "USA",
                    at: at(item.signedAt),
                    besides: RowGroup(
                        Judge.make(now: item.signedAt), rows: [row], facts: facts,
                        context: context
                    ).knownHistory)
                return search?.verdict(at: at(item.signedAt), for: renewal).reasons == [
                    .increaseWithin12Months
                ]
            }
        }

        #expect(counted == item.counts)
    }

    /// Agreed elsewhere, and no increase by Apple's word: once it is charged it counts, so it does before. What a decrease,
    /// an offer or another currency makes of the price does not.
    @Test func higherPriceThatRenews_withoutAnIncrease_countsFromItsRenewalOn() {
        func known(_ change: (inout SubscriptionFacts) -> Void) -> [EarlierIncrease] {
            let facts = SubscriptionFacts.make {
                $0.edit("OTHER") { $0.renewalPrice = 4200 }
                $0.signedAt = at("2026-11-23T00:00:00Z")
                change(&$0)
            }
            return shown(facts, now: "2026-11-23T00:00:00Z")
        }

        let raised = known { _ in }

        #expect(raised.map(\.sku) == ["OTHER"])
        #expect(
            raised.map(\.at) == [SubscriptionFacts.make().renewals(from: Self.first)?.renewal(0)])
        #expect(known { $0.edit("OTHER") { $0.renewalPrice = 10 } }.isEmpty)
        #expect(known { $0.edit("OTHER") { $0.renews = false } }.isEmpty)
        #expect(known { $0.renewalCurrency = "EUR" }.isEmpty)
        #expect(known { $0.renewalPeriod = "P1Y" }.isEmpty)
    }

    /// Weekly: the increase of the next renewal brings consent to the one that is scheduled, so that it needs a week's
    /// notice and no longer the fourth renewal.
    @Test func increase_thatIsScheduled_isDatedAfterThoseThatAppleShowsBeforeIt() {
        let signed = "2026-11-23T00:00:00Z"
        let facts = SubscriptionFacts.make(period: "P1W") {
            $0.items.append(.make("THIRD", price: 5000))
            $0.edit("OTHER") { $0.increase = .init(status: "PENDING", price: 4200) }
            $0.edit("THIRD") { $0.increase = .init(status: "SCHEDULED", price: 5200) }
            $0.signedAt = at(signed)
        }

        let known = RowGroup(
            Judge.make(now: signed), rows: [.make()], facts: facts, context: JudgeContext()
        ).knownHistory

        #expect(known.latest(before: .distantFuture)?.sku == "THIRD")
        #expect(known.latest(before: .distantFuture)?.at == at("2026-12-08T00:00:00Z"))
    }

    private func shown(
        _ facts: SubscriptionFacts, _ context: JudgeContext = JudgeContext(), now: String
    ) -> [EarlierIncrease] {
        RowGroup(Judge.make(now: now), rows: [.make()], facts: facts, context: context)
            .shown(besides: IncreaseHistory())
    }

    /// Weekly: OTHER costs more than half more by over 5 USD, so that it needs consent, and a week's notice. THIRD would
    /// be announced for the fourth renewal, but for OTHER.
    @Test func increasesThatAreScheduled_areDatedOneAfterTheOther() {
        let facts = SubscriptionFacts.make(period: "P1W") {
            $0.items.append(.make("THIRD", price: 5000))
            $0.edit("OTHER") { $0.increase = .init(status: "SCHEDULED", price: 9990) }
            $0.edit("THIRD") { $0.increase = .init(status: "SCHEDULED", price: 5200) }
            $0.signedAt = at("2026-11-23T00:00:00Z")
        }

        let shown = shown(facts, now: "2026-11-23T00:00:00Z")

        #expect(shown.map(\.sku) == ["OTHER", "THIRD"])
        #expect(shown.map(\.at) == [at("2026-12-01T00:00:00Z"), at("2026-12-08T00:00:00Z")])
    }

    /// Annual, and raised on 20 November 2025: on 10 November 2026 the increase of OTHER needs consent, and 60 days'
    /// notice, so that it takes effect in 2028. What another statement says a fortnight later moves no date.
    @Test func increaseThatIsScheduled_isDatedFromTheFirstStatementThatShowedIt() {
        var facts = SubscriptionFacts.make(
            period: "P1Y", renewalAt: "2027-01-01T00:00:00Z", startedAt: "2024-01-01T00:00:00Z")
        facts.edit("OTHER") { $0.increase = .init(status: "SCHEDULED", price: 4200) }
        facts.signedAt = at("2026-11-25T00:00:00Z")
        var first = facts
        first.edit("OTHER") { $0.increase?.shownAt = at("2026-11-10T00:00:00Z") }
        let context = JudgeContext(increaseHistory: [
            PastIncrease(sku: "ITEM", at: at("2025-11-20T00:00:00Z"))
        ])

        let dates = [first, facts].map { facts in
            RowGroup(
                Judge.make(now: "2026-11-26T00:00:00Z"), rows: [.make()], facts: facts,
                context: context
            ).shown(
                besides: IncreaseHistory([
                    EarlierIncrease(
                        sku: "ITEM", at: at("2025-11-20T00:00:00Z"), origin: .past(.statement))
                ])
            ).map(\.at)
        }

        #expect(dates == [[at("2028-01-01T00:00:00Z")], [at("2027-01-01T00:00:00Z")]])
    }

    /// Weekly, with renewals on Tuesdays at 20:00; the next one is 15 September. The first of the four is the one after
    /// the statement, though it has passed, but for one that no call a day before it was in time for.
    @Test(arguments: [
        ("2026-09-01T12:00:00Z", "2026-09-08T20:00:00Z", "2026-09-29T20:00:00Z"),
        ("2026-09-07T20:00:00Z", "2026-09-08T20:00:00Z", "2026-09-29T20:00:00Z"),
        ("2026-09-07T20:00:00.001Z", "2026-09-08T20:00:00Z", "2026-10-06T20:00:00Z"),
        ("2026-09-09T12:00:00Z", "2026-09-08T20:00:00Z", "2026-10-06T20:00:00Z"),
        // It should have taken effect: what is known of the next renewal is all there is.
        ("2026-07-01T12:00:00Z", "2026-09-08T20:00:00Z", "2026-09-15T20:00:00Z"),
        // The running period was extended by a week.
        ("2026-09-02T12:00:00Z", "2026-09-01T20:00:00Z", "2026-10-06T20:00:00Z"),
    ])
    func increaseThatIsStillScheduledAfterARenewal_isDatedFromItsStatement(
        shownAt: String, purchasedAt: String, expected: String
    ) {
        let facts = SubscriptionFacts.make(period: "P1W", renewalAt: "2026-09-15T20:00:00Z") {
            $0.edit("OTHER") {
                $0.increase = .init(status: "SCHEDULED", price: 4200)
                $0.increase?.shownAt = at(shownAt)
            }
            $0.purchasedAt = at(purchasedAt)
            $0.signedAt = at("2026-09-10T00:00:00Z")
        }

        #expect(shown(facts, now: "2026-09-10T00:00:00Z").map(\.at) == [at(expected)])
    }

    /// In the Sandbox an increase skips one renewal, counted from its statement.
    @Test(arguments: [
        ("2026-09-01T11:57:00Z", "2026-09-01T12:05:00Z"),
        ("2026-09-01T12:01:00Z", "2026-09-01T12:10:00Z"),
        ("2026-09-01T11:01:00Z", "2026-09-01T12:05:00Z"),
    ])
    func increaseThatIsStillScheduledAfterARenewal_inTheSandbox_isDatedFromItsStatement(
        shownAt: String, expected: String
    ) {
        let facts = SubscriptionFacts.make(renewalAt: "2026-09-01T12:05:00Z") {
            $0.edit("OTHER") {
                $0.increase = .init(status: "SCHEDULED", price: 4200)
                $0.increase?.shownAt = at(shownAt)
            }
            $0.purchasedAt = at("2026-09-01T12:00:00Z")
        }
        let judge = Judge.make(now: "2026-09-01T12:02:00Z", environment: .sandbox)

        let shown = RowGroup(judge, rows: [.make()], facts: facts, context: JudgeContext())
            .shown(besides: IncreaseHistory())

        #expect(shown.map(\.at) == [at(expected)])
    }

    @Test func increaseThatAppleShows_ofOurOpenChange_isShownOnce() {
        let facts = SubscriptionFacts.make {
            $0.edit("OTHER") { $0.increase = .init(status: "SCHEDULED", price: 4200) }
        }
        let context = JudgeContext(openChanges: [
            .init(
                changeID: "c9", sku: "OTHER", newPrice: 4200, dependentSKUs: [], state: .scheduled,
                increasesAt: Self.second)
        ])

        #expect(shown(facts, context, now: "2026-11-01T00:00:00Z").isEmpty)
        #expect(shown(facts, now: "2026-11-01T00:00:00Z").map(\.sku) == ["OTHER"])
    }

    /// A change that is not sent yet, or of another price, is not what Apple shows; one whose answer was lost may be.
    @Test(
        arguments: [
            (ChangeState.queued, 4200, true), (.awaitingApproval, 4200, true),
            (.scheduled, 4900, true),
            (.scheduled, 2990, true), (.unknown, 4200, false), (.pendingConsent, 4200, false),
        ] as [(ChangeState, Int64, Bool)])
    func increaseThatAppleShows_besideAnOpenChangeThatDidNotBringIt_counts(
        state: ChangeState, price: Int64, counts: Bool
    ) {
        let facts = SubscriptionFacts.make {
            $0.edit("OTHER") { $0.increase = .init(status: "SCHEDULED", price: 4200) }
        }
        for increasesAt in [Self.second, nil] {
            let context = JudgeContext(openChanges: [
                .init(
                    changeID: "c9", sku: "OTHER", newPrice: price, dependentSKUs: [], state: state,
                    increasesAt: increasesAt)
            ])

            #expect(shown(facts, context, now: "2026-11-01T00:00:00Z").isEmpty == !counts)
        }
    }

    /// The end of an offer is shown with the price that the item has already.
    @Test func increaseThatAppleShows_toNoHigherPrice_isNone() {
        let facts = SubscriptionFacts.make {
            $0.edit("OTHER") { $0.increase = .init(status: "PENDING", price: 3990) }
        }

        #expect(shown(facts, now: "2026-11-01T00:00:00Z").isEmpty)
    }

    @Test func increaseThatAppleShows_withoutItsPrice_isTakenForTheNextRenewal() {
        let facts = SubscriptionFacts.make {
            $0.edit("OTHER") { $0.increase = .init(status: "SCHEDULED", price: nil) }
        }

        #expect(shown(facts, now: "2026-11-01T00:00:00Z").map(\.at) == [Self.first])
    }

    @Test(arguments: [
        // Until 20 October every increase needed consent: 60 days before 1 December had passed.
        ("2026-10-10T00:00:00Z", [Consent.notRequired, .required]),
        ("2026-10-19T23:59:59.999Z", [.notRequired, .required]),
        // Since then 27 days are enough.
        ("2026-10-20T00:00:00Z", [.required, .required]),
        ("2026-10-21T00:00:00Z", [.required, .required]),
    ])
    func increase_thatIsScheduled_isDatedByTheRulesOfItsStatementsDay(
        signedAt: String, expected: [Consent]
    ) {
        var rules = RuleSet.shipped
        rules[.alwaysConsent] = [
            .alwaysConsent("USA"),
            .alwaysConsent("JPN", validFrom: at("2026-10-15T00:00:00Z")),
            .alwaysConsent("USA", isRequired: false, validFrom: at("2026-10-20T00:00:00Z")),
        ]
        let now = at("2026-11-01T00:00:00Z")
        let judge = Judge(
            rules: RuleCourse(rules, from: now), environment: .production, now: now)
        let facts = SubscriptionFacts.make(period: "P3M") {
            $0.edit("OTHER") { $0.increase = .init(status: "SCHEDULED", price: 4200) }
            $0.signedAt = at(signedAt)
        }

        let consents = ["2027-03-01", "2027-06-01"].map {
            judge.one(.make(10_500, onOrAfter: $0), facts).consent
        }

        #expect(consents == expected)
    }

    @Test func change_ofAnItemWhoseSiblingWeIncreased_isSentThoughItNeedsConsentNow() {
        var context = SendingTests.ownContext
        context.increaseHistory = [
            PastIncrease(sku: "OTHER", at: at("2026-10-01T00:00:00Z"), isOurs: true)
        ]
        let verdict = Judge.make().judgeForSending(
            SendingTests.stored(), facts: .make(), context: context)
        guard case .send(let plan) = verdict else {
            Issue.record("\(verdict)")
            return
        }
        #expect(plan.consent == .required)
    }

    /// Weekly: both changes are called in November. OTHER needs consent, and takes effect first. It brings consent to
    /// THIRD, which would be announced for the fourth renewal but for OTHER.
    @Test func changesThatWait_areDatedOneAfterTheOther() {
        let facts = SubscriptionFacts.make(period: "P1W") {
            $0.items.append(.make("THIRD", price: 5000))
        }
        func change(_ id: String, _ sku: String, _ price: Int64) -> JudgeContext.OpenChange {
            .init(
                changeID: id, sku: sku, newPrice: price, dependentSKUs: [], state: .queued,
                increasesAt: Self.first)
        }
        let context = JudgeContext(openChanges: [
            change("c1", "THIRD", 5200), change("c2", "OTHER", 9990),
        ])
        let judge = Judge(
            rules: RuleCourse(.shipped, from: at("2026-11-20T00:00:00Z")),
            environment: .production, now: at("2026-12-24T00:00:00Z"),
            waitingSince: at("2026-11-20T00:00:00Z"))
        let group = RowGroup(judge, rows: [.make()], facts: facts, context: context)

        var waiting = group.waitingIncreases
        let history = group.called(of: &waiting, besides: IncreaseHistory())

        #expect(waiting.isEmpty)
        #expect(history.latest(before: .distantFuture)?.sku == "THIRD")
        #expect(history.latest(before: .distantFuture)?.at == at("2026-12-08T00:00:00Z"))
    }

    @Test func siblings_inOtherPiecesOfTheFile_giveTheSamePlan() {
        let rows: [BatchRow] = [
            .make(4200, sku: "OTHER", line: 2, onOrAfter: "2027-06-01"),
            .make(10_500, line: 3),
        ]
        let whole = plans(rows)

        for row in rows {
            let one = Judge.make().judge(
                rows: [row], siblings: rows, facts: .make(), context: JudgeContext())
            #expect(one == whole.filter { $0.line == row.line })
        }
    }
}

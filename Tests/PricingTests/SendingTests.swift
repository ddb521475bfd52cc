import Testing

@testable import Pricing

struct SendingTests {
    static func stored(
        _ newPrice: Int64 = 12_990, consent: Consent = .notRequired, onOrAfter: String? = nil
    ) -> StoredChange {
        StoredChange(
            changeID: "c1", originalTransactionID: "2000000000000001", sku: "ITEM",
            newPrice: newPrice, currentPrice: 9990, currency: "USD", storefront: "USA",
            period: "P1M", consent: consent, dependentSKUs: ["OTHER"],
            effectiveOnOrAfter: onOrAfter.map(day))
    }

    static let ownContext = JudgeContext(openChanges: [
        .init(
            changeID: "c1", sku: "ITEM", newPrice: 12_990, dependentSKUs: ["OTHER"],
            state: .queued)
    ])

    @Test func change_whenNothingMoved_isSentWithNewDates() throws {
        let verdict = Judge.make(now: "2026-11-20T00:00:00Z").judgeForSending(
            Self.stored(), facts: .make(), context: Self.ownContext)

        guard case .send(let plan) = verdict else {
            Issue.record("\(verdict)")
            return
        }
        #expect(plan.effectiveAt == at("2027-01-01T00:00:00Z"))
        #expect(plan.dependentSKUs == ["OTHER"])
        // It stands on no line of a file.
        #expect(plan.line == 0)
    }

    /// Apple's statements show the price of the coming renewal. A decrease that is due later is not gone because that one is
    /// charged the old price.
    @Test func undoOfADecrease_thatIsDueAfterTheComingRenewal_waitsForIt() throws {
        func verdict(_ due: String, renews: Int64, now: String = "2026-11-20T00:00:00Z")
            -> SendingVerdict
        {
            var facts = SubscriptionFacts.make(price: 12_990)
            facts.purchasedAt = at("2026-11-01T00:00:00Z")
            facts.edit { $0.renewalPrice = renews }
            var undo = Self.stored(12_990, consent: .none)
            undo.currentPrice = 9990
            return Judge.make(now: now).judgeUndo(
                undo, sendBy: at("2026-12-30T00:00:00Z"), effectiveAt: at(due), facts: facts)
        }

        #expect(
            verdict("2027-01-01T00:00:00Z", renews: 12_990)
                == .wait(until: at("2026-12-01T01:00:00Z")))
        // The statement of the renewal is late.
        #expect(
            verdict("2027-01-01T00:00:00Z", renews: 12_990, now: "2026-12-01T02:00:00Z")
                == .wait(until: at("2026-12-01T03:00:00Z")))
        guard case .send = verdict("2027-01-01T00:00:00Z", renews: 9990),
            case .ineligible(let gone) = verdict("2026-12-01T00:00:00Z", renews: 12_990)
        else {
            Issue.record("it is sent where it shows, and not where it would show")
            return
        }
        #expect(gone.code == .noChange)
        #expect(gone.message == "9.99 USD is no longer scheduled")
    }

    /// Another item rose on 8 October 2026, so the customer is asked until a year later, 60 days ahead. From 23 September on a call
    /// is too late for the approved renewal, and from 8 October on it is in time again, 27 days ahead.
    @Test(arguments: [
        ("2027-09-22T00:00:00Z", nil as String?, "2027-11-22T00:00:00Z" as String?),
        ("2027-09-25T00:00:00Z", "2027-10-08T00:00:00Z", nil as String?),
        ("2027-10-07T00:00:00Z", "2027-10-08T00:00:00Z", nil),
        ("2027-10-08T00:00:00Z", nil, "2027-11-22T00:00:00Z"),
        ("2027-10-26T00:00:00Z", nil, "2027-11-22T00:00:00Z"),
        ("2027-10-27T00:00:00Z", nil, "2028-11-22T00:00:00Z"),
    ])
    func change_tooLateWithConsentAndInTimeWithoutIt_waits(
        now: String, until: String?, effectiveAt: String?
    ) throws {
        let (facts, context) = Self.risenUntilOctober
        var change = Self.stored(consent: .required)
        change.period = "P1Y"
        change.dueAt = at("2027-11-22T00:00:00Z")
        change.sendBy = at("2027-10-26T00:00:00Z")

        let verdict = Judge.make(now: now).judgeForSending(change, facts: facts, context: context)

        switch verdict {
        case .wait(let instant):
            #expect(instant.text.hasPrefix(try #require(until).prefix(10)))
            #expect(effectiveAt == nil)
        case .send(let plan):
            #expect(plan.effectiveAt == effectiveAt.map(at))
            #expect(until == nil)
        case .ineligible(let fault): Issue.record("\(fault)")
        }
    }

    /// What was planned in those days is approved for the later renewal, and goes at once.
    @Test func change_plannedWhileTooLate_isSentAsApproved() {
        let (facts, context) = Self.risenUntilOctober
        var change = Self.stored(consent: .required)
        change.period = "P1Y"
        change.dueAt = at("2028-11-22T00:00:00Z")
        change.sendBy = at("2028-10-26T00:00:00Z")

        let verdict = Judge.make(now: "2027-09-25T00:00:00Z").judgeForSending(
            change, facts: facts, context: context)

        guard case .send(let plan) = verdict else {
            Issue.record("\(verdict)")
            return
        }
        #expect(plan.effectiveAt == at("2028-11-22T00:00:00Z"))
    }

    private static var risenUntilOctober: (SubscriptionFacts, JudgeContext) {
        var context = ownContext
        context.increaseHistory = [
            .init(sku: "OTHER", at: at("2026-10-08T00:00:00Z"), source: .statement)
        ]
        return (.make(period: "P1Y", renewalAt: "2027-11-22T00:00:00Z"), context)
    }

    @Test func change_whenHeldBack_waitsToTheMillisecond() {
        let due = at("2026-12-05T00:00:00.001Z")
        let change = Self.stored(onOrAfter: "2027-02-01")

        let early = Judge.make().judgeForSending(change, facts: .make(), context: Self.ownContext)
        let last = Judge.make(now: due.advanced(by: -1)).judgeForSending(
            change, facts: .make(), context: Self.ownContext)
        let ready = Judge.make(now: due).judgeForSending(
            change, facts: .make(), context: Self.ownContext)

        #expect(early == .wait(until: due))
        #expect(last == .wait(until: due))
        guard case .send(let plan) = ready else {
            Issue.record("\(ready)")
            return
        }
        #expect(plan.effectiveAt == at("2027-02-01T00:00:00Z"))
    }

    @Test(arguments: [
        ("price", RowCode.drifted), ("currency", .drifted), ("storefront", .drifted),
        ("period", .drifted), ("consent", .drifted), ("off", .autoRenewOff),
        ("dropped", .unknownItem), ("price and off", .drifted),
        ("communicated", .alreadyCommunicated),
        ("dependent", .dependentUnknown), ("price and dropped", .unknownItem),
    ])
    func change_whenTheFactsMoved_isIneligible(what: String, expected: RowCode) {
        var context = Self.ownContext
        let facts = SubscriptionFacts.make {
            if what.contains("price") { $0.edit { $0.currentPrice = 8990 } }
            if what == "currency" { $0.currency = "CAD" }
            if what == "storefront" { $0.storefront = "CAN" }
            if what == "period" { $0.period = "P1Y" }
            if what.contains("off") { $0.autoRenews = false }
            if what.contains("dropped") { $0.edit { $0.renews = false } }
            if what == "communicated" {
                $0.edit { $0.increase = .init(status: "PENDING", dependentSKUs: []) }
            }
            if what == "dependent" { $0.edit("OTHER") { $0.renews = false } }
        }
        if what == "consent" {
            context.increaseHistory = [PastIncrease(sku: "ITEM", at: at("2026-10-01T00:00:00Z"))]
        }

        let verdict = Judge.make().judgeForSending(Self.stored(), facts: facts, context: context)

        guard case .ineligible(let fault) = verdict else {
            Issue.record("\(verdict)")
            return
        }
        #expect(fault.code == expected)
    }

    @Test func change_whenConsentIsNoLongerNeeded_isSent() {
        let verdict = Judge.make().judgeForSending(
            Self.stored(consent: .required), facts: .make(), context: Self.ownContext)

        guard case .send = verdict else {
            Issue.record("\(verdict)")
            return
        }
    }

    @Test func change_whenTheSubscriptionIsGone_isIneligible() {
        let verdict = Judge.make().judgeForSending(
            Self.stored(), facts: nil, context: Self.ownContext)

        guard case .ineligible(let fault) = verdict else {
            Issue.record("\(verdict)")
            return
        }
        #expect(fault.code == .unknownSubscription)
    }

    @Test func groups_whenMade_shareOneRequestOnlyAmongAnnouncedOrDecreased() {
        let facts = SubscriptionFacts.make {
            $0.items = (1...8).map { .make("S\($0)", price: 9990) }
        }
        let rows = [
            BatchRow.make(10_990, sku: "S1"), .make(19_990, sku: "S2"), .make(7990, sku: "S3"),
            .make(11_990, sku: "S4"), .make(18_990, sku: "S5"), .make(6990, sku: "S6"),
            .make(11_990, sku: "S7", onOrAfter: "2027-02-01"), .make(9990, sku: "S8"),
        ]

        let plans = Judge.make().judge(rows: rows, facts: facts, context: JudgeContext())
        let keys = plans.map { plan in
            plan.consent.flatMap { consent in
                plan.effectiveAt.flatMap {
                    RequestGroup.key(
                        .announced, consent: consent, effectiveAt: $0, sku: plan.sku)
                }
            }
        }

        #expect(plans.map { $0.fault == nil } == Array(repeating: true, count: 7) + [false])
        #expect(keys[0] == keys[3])
        #expect(keys[2] == keys[5])
        #expect(Set(keys.prefix(7)).count == 5)
        #expect(keys[1]?.hasPrefix("consent/") == true)
        #expect(keys[4]?.hasPrefix("consent/") == true)
    }
}

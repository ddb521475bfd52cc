import Testing

@testable import Pricing

/// What a judged row says beside its verdict: each case stands for a change of the rules that no other test found.
struct JudgedRowTests {
    private static let now = at("2026-11-01T00:00:00Z")

    /// A row that can't go tells, too, of which instant its verdict is, and in what the customer pays.
    @Test func refusedRow_saysWhenItWasJudged_andTheSubscriptionsCurrency() {
        let plan = Judge.make(now: Self.now).one(
            .make(sku: "NONE", currency: "EUR"), .make(storefront: "JPN", currency: "JPY"))

        #expect(plan.fault != nil)
        #expect(plan.judgedAt == Self.now)
        #expect(plan.currency == "JPY")
    }

    @Test func conflict_namesTheFirstOpenChangeOfTheItem() {
        var context = JudgeContext()
        context.openChanges = [
            .init(changeID: "c1", sku: "ITEM", newPrice: 10_990, dependentSKUs: [], state: .queued),
            .init(
                changeID: "c2", sku: "ITEM", newPrice: 11_990, dependentSKUs: [],
                state: .awaitingApproval),
        ]

        let plan = Judge.make(now: Self.now).one(.make(), .make(), context)

        #expect(plan.code == .conflictOpenChange)
        #expect(plan.fault?.message.contains("10.99 USD is queued") == true)
    }

    /// An item that only joins at the renewal is lost at its price there, where that is in the currency of today.
    @Test(arguments: [(nil, 12_980), ("USD", 12_980), ("EUR", 9990)] as [(String?, Int64)])
    func atRisk_ofADependentThatJoins_isWhatItWillCost(renewalCurrency: String?, expected: Int64) {
        let facts = SubscriptionFacts.make { facts in
            facts.renewalCurrency = renewalCurrency
            for (sku, price) in [("FIRST", 4990), ("JOINS", 2990)] as [(String, Int64)] {
                var item = SubscriptionFacts.Item.make(sku, price: price)
                item.currentPrice = nil
                facts.items.append(item)
            }
        }

        let plan = Judge.make(now: Self.now).one(.make(dependents: ["JOINS"]), facts)

        #expect(plan.atRisk == expected)
    }

    /// No sum holds so many seats, which are taken for one.
    @Test func seats_beyondAnySum_areOne() {
        let plan = Judge.make(now: Self.now).one(.make(), .make { $0.quantity = .max })

        #expect(plan.seats == 1)
    }

    @Test(
        arguments: [(nil, nil), (10_990, .increase), (8990, .decrease)]
            as [(Int64?, PlanRow.Direction?)])
    func spoiledRow_saysADirection_whereItsPriceIsKnown(price: Int64?, expected: PlanRow.Direction?)
    {
        var plan = PlanRow(line: 2, originalTransactionID: "2000000000000001", sku: "ITEM")
        plan.newPrice = price

        Judge.make(now: Self.now).describe(&plan, facts: .make())

        #expect(plan.direction == expected)
        #expect(plan.currentPrice == 9990)
    }

    // MARK: Consent that a plan did not foresee

    private func unforeseen(
        _ stored: Consent, _ foreseen: ForeseenConsent?, risen: Bool = true
    ) -> String? {
        let past = PastIncrease(sku: "OTHER", at: at("2026-06-01T00:00:00Z"), isOurs: true)
        let plan = Judge.make(now: Self.now).one(
            .make(), .make(), JudgeContext(increaseHistory: risen ? [past] : []))
        return StoredChange(
            changeID: "c1", originalTransactionID: "2000000000000001", sku: "ITEM",
            newPrice: 12_990,
            currentPrice: 9990, currency: "USD", storefront: "USA", period: "P1M", consent: stored,
            dependentSKUs: [], effectiveOnOrAfter: nil, foreseen: foreseen
        ).unforeseenConsent(in: plan)
    }

    private func foreseen(_ reason: ConsentReason, later: Int64 = 0) -> ForeseenConsent {
        ForeseenConsent(from: Self.now.advanced(by: later), reasons: [reason])
    }

    @Test func consent_thatAnIncreaseOfOursBrought_isUnforeseen() {
        let said = unforeseen(.notRequired, nil)

        #expect(said?.contains("OTHER rose at 2026-06-01T00:00:00Z") == true)
        #expect(unforeseen(.required, nil) == nil)
        #expect(unforeseen(.notKnown, nil) == nil)
        #expect(unforeseen(.notRequired, nil, risen: false) == nil)
    }

    /// From the very instant on that the plan named, and for its reason.
    @Test func consent_thatThePlanForesaw_isNone() {
        #expect(unforeseen(.notRequired, foreseen(.increaseWithin12Months)) == nil)
        #expect(unforeseen(.notRequired, foreseen(.increaseWithin12Months, later: -1)) == nil)
        #expect(unforeseen(.notRequired, foreseen(.increaseWithin12Months, later: 1)) != nil)
        #expect(unforeseen(.notRequired, foreseen(.threshold)) != nil)
    }
}

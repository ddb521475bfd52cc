import Testing

@testable import Pricing

private typealias Story = LifecycleStory

/// A customer chose another length of the period from the renewal on: what renews is judged, and no price is compared
/// with that of another length.
@Suite struct ComingPeriodTests {
    private static func event(
        _ day: Int64, price: Int64, _ period: String?, renewing: Int64, _ coming: String?
    ) -> SubscriptionEvent {
        var event = Story.event(
            day, "DID_RENEW", purchasedOn: day, charged: [Story.charged(price: price)],
            renewing: [Story.renewing(price: renewing)])
        event.transaction?.period = period
        event.renewal?.period = coming
        event.renewal?.currency = "USD"
        return event
    }

    private func plan(
        to price: Int64, _ event: SubscriptionEvent, expected: Int64? = nil,
        dependents: [String] = []
    ) -> PlanRow {
        let facts = Story.fold([event], []).state.facts
        let row = BatchRow(
            line: 2, originalTransactionID: "1", sku: "A", newPrice: price, currency: "USD",
            dependentSKUs: dependents, expectedPrice: expected)
        return Judge.make(now: Story.at(1)).one(row, facts)
    }

    private let toYear = event(0, price: 9990, "P1M", renewing: 99_990, "P1Y")
    private let toMonth = event(0, price: 99_990, "P1Y", renewing: 9990, "P1M")

    @Test func facts_tellTheRunningPeriodAndTheComingOneApart() {
        let facts = Story.fold([toYear], []).state.facts
        #expect(facts.period == "P1M" && facts.renewalPeriod == "P1Y")
        #expect(facts.items.map(\.currentPrice) == [9990])

        let renewed = Story.fold(
            [toYear, Self.event(31, price: 99_990, "P1Y", renewing: 99_990, "P1Y")], []
        ).state
        #expect(renewed.facts.period == "P1Y" && renewed.facts.renewalPeriod == nil)
        #expect(renewed.increases.isEmpty)
    }

    /// A transaction that does not say its period brought the one that was to come.
    @Test func renewalWithoutAPeriod_broughtTheOneThatWasToCome() {
        let renewed = Story.fold(
            [toYear, Self.event(31, price: 99_990, nil, renewing: 99_990, "P1Y")], []
        ).state.facts
        #expect(renewed.period == "P1Y" && renewed.renewalPeriod == nil)
    }

    @Test func row_isJudgedByThePriceThatRenews() {
        let up = plan(to: 109_990, toYear)
        #expect(up.fault == nil && up.direction == .increase)
        #expect(up.currentPrice == 99_990 && up.period == "P1Y")
        #expect(up.verdict?.reasons == [])
        #expect(up.atRisk == 99_990)

        let down = plan(to: 89_990, toYear)
        #expect(down.fault == nil && down.direction == .decrease)
        #expect(plan(to: 99_990, toYear).fault?.code == .noChange)
    }

    @Test func row_ofAShorterPeriodToCome_isNoDecreaseMadeElsewhere() {
        let up = plan(to: 10_990, toMonth, expected: 9990)
        #expect(up.fault == nil && up.direction == .increase && up.period == "P1M")
        #expect(plan(to: 10_990, toMonth, expected: 99_990).fault?.code == .drifted)
    }

    /// Where Apple has not said what the coming period costs, there is nothing to judge by.
    @Test func row_withoutThePriceThatRenews_isNotJudged() {
        var untold = toYear
        untold.renewal?.items?[0].price = nil
        #expect(plan(to: 109_990, untold).fault?.code == .unknownItem)
        #expect(plan(to: 109_990, untold).consent == nil)
    }

    @Test func row_whereRenewalIsOff_isToldThat() {
        var off = toYear
        off.renewal?.autoRenewStatus = 0
        off.renewal?.items = []
        #expect(plan(to: 109_990, off).fault?.code == .autoRenewOff)
    }

    @Test func changeOfPeriod_isNoIncrease() {
        let state = Story.fold(
            [
                Self.event(0, price: 9990, "P1M", renewing: 9990, "P1M"),
                Self.event(31, price: 99_990, "P1Y", renewing: 99_990, "P1Y"),
            ], []
        ).state
        #expect(state.increases.isEmpty)
    }

    /// What Apple has told as an increase is one, whatever length of period was paid before.
    @Test func increaseThatWasTold_chargedAtARenewalOfAnotherLength_counts() {
        var told = Self.event(20, price: 9990, "P1M", renewing: 119_990, "P1Y")
        told.renewal?.items?[0].increaseStatus = "PENDING"
        told.renewal?.items?[0].increasePrice = 119_990
        let state = Story.fold(
            [
                Self.event(0, price: 9990, "P1M", renewing: 99_990, "P1Y"), told,
                Self.event(31, price: 119_990, "P1Y", renewing: 119_990, "P1Y"),
            ], []
        ).state
        #expect(state.increases.map(\.price) == [119_990])
        #expect(state.increases.allSatisfy { $0.effectiveAt != nil })
    }
}

import Pricing
import TestSupport
import Testing

@testable import SandboxStore

/// Stories of price changes that meet one another, an offer, a move, the calendar: no row that could go is ever
/// turned away, and what was foretold of it is what the store does.
@Suite(.database) struct RehearsalTests {
    @Test func siblings_ofOneBatch_bothTakeEffect() async throws {
        let rehearsal = try await Rehearsal.open(
            Rehearsal.subscription(items: ["A": 9990, "B": 9990]))
        try await rehearsal.submit(
            Rehearsal.row("A", to: 10_490),
            Rehearsal.row("B", to: 10_490, line: 3, onOrAfter: "2026-06-01"))

        try await rehearsal.live(115)

        #expect(try await rehearsal.rows().map(\.consent) == [.notRequired, .required])
        try await rehearsal.expectWhatWasForetold()
        await rehearsal.close()
    }

    /// The second batch takes effect first, and makes the customer be asked for the row that waits.
    @Test func siblings_ofTwoBatches_bothTakeEffect() async throws {
        let rehearsal = try await Rehearsal.open(
            Rehearsal.subscription(items: ["A": 9990, "B": 9990]))
        try await rehearsal.submit(Rehearsal.row("B", to: 10_490, onOrAfter: "2026-06-01"))
        try await rehearsal.live(1)
        try await rehearsal.submit(Rehearsal.row("A", to: 10_490), name: "later")

        try await rehearsal.live(114)

        try await rehearsal.expectWhatWasForetold(turned: ["B": true])
        await rehearsal.close()
    }

    @Test func siblingsOfAWeeklyPlan_inCallsOfTheirOwn_bothTakeEffect() async throws {
        let rehearsal = try await Rehearsal.open(
            Rehearsal.subscription(0, .week, items: ["A": 9990, "B": 9990], boughtBefore: 4),
            Rehearsal.subscription(1, .week, items: ["A": 2990, "B": 9990], boughtBefore: 5))
        try await rehearsal.submit(
            Rehearsal.row("A", to: 10_490), Rehearsal.row("B", to: 10_490, line: 3),
            // More than half, and more than 5.00.
            Rehearsal.row("A", to: 8990, line: 4, number: 1),
            Rehearsal.row("B", to: 10_490, line: 5, number: 1), grouping: .item)

        try await rehearsal.live(50)

        #expect(
            try await rehearsal.rows().map(\.consent) == [
                .notRequired, .notRequired, .required, .required,
            ])
        try await rehearsal.expectWhatWasForetold()
        await rehearsal.close()
    }

    /// An increase of 10 April 2025 counts for rows that go before 10 April 2026, and for no later one.
    @Test func rows_heldUntilTheTwelveMonthsAreOver_areNotAsked() async throws {
        let increasedOn = "2025-04-10"
        let subscriptions = [Int64(0), 1].map { number in
            var subscription = Rehearsal.subscription(number, items: ["A": 9990])
            subscription.increasedAt = CivilDate(increasedOn)?.startAt.milliseconds
            return subscription
        }
        let rehearsal = try await Rehearsal.open(subscriptions[0], subscriptions[1])
        try await rehearsal.importIncreases(on: increasedOn)
        try await rehearsal.submit(
            Rehearsal.row("A", to: 10_490),
            Rehearsal.row("A", to: 10_490, line: 3, onOrAfter: "2026-06-01", number: 1))

        try await rehearsal.live(115)

        #expect(try await rehearsal.rows().map(\.consent) == [.required, .notRequired])
        try await rehearsal.expectWhatWasForetold()
        await rehearsal.close()
    }

    /// The year is over while a row waits for somebody to resume its batch.
    @Test func row_whoseConsentTurnsWhileItWaits_takesEffect() async throws {
        let increasedOn = "2025-03-25"
        var subscription = Rehearsal.subscription(
            0, .threeMonths, items: ["A": 9990], boughtBefore: 1)
        subscription.increasedAt = CivilDate(increasedOn)?.startAt.milliseconds
        let rehearsal = try await Rehearsal.open(subscription)
        try await rehearsal.importIncreases(on: increasedOn)
        let batchID = try await rehearsal.submit(Rehearsal.row("A", to: 10_490))
        #expect(try await rehearsal.rows().map(\.consent) == [.required])
        try await rehearsal.harness.setPause(batchID, true)
        try await rehearsal.live(27)
        try await rehearsal.harness.setPause(batchID, false)

        try await rehearsal.live(66)

        try await rehearsal.expectWhatWasForetold(turned: ["A": false])
        await rehearsal.close()
    }

    /// A rule that was known when the row was planned comes into force while it waits. The store knows nothing of it.
    @Test func row_whoseConsentIsForeseen_isNotTurnedAway() async throws {
        let rehearsal = try await Rehearsal.open(Rehearsal.subscription(items: ["A": 9990]))
        try await rehearsal.importAlways("USA", true, from: "2026-04-01")
        let batchID = try await rehearsal.submit(
            Rehearsal.row("A", to: 10_490, onOrAfter: "2026-05-01"))
        try await rehearsal.harness.setPause(batchID, true)
        try await rehearsal.live(36)
        try await rehearsal.harness.setPause(batchID, false)

        try await rehearsal.live(50)

        let rows = try await rehearsal.rows()
        #expect(rows.map(\.consent) == [.notRequired])
        #expect(rows.map(\.state) == ["effective"], "\(rows)")
        await rehearsal.close()
    }

    /// The increase comes at the very renewal at which another item's offer ends, and at one that is none.
    @Test func korea_asksForConsentAtAConversion() async throws {
        func subscription(_ number: Int64) -> StoreSubscription {
            var subscription = Rehearsal.subscription(
                number, items: ["A": 9_900_000, "B": 4_900_000], storefront: "KOR",
                currency: "KRW")
            subscription.items[1].offer = StoreOffer(
                price: 0, periodsLeft: 2, periodCount: 3, reason: "WIN_BACK")
            return subscription
        }
        let rehearsal = try await Rehearsal.open(subscription(0), subscription(1))
        try await rehearsal.importAlways("KOR", false, from: "2026-01-01")
        try await rehearsal.submit(
            Rehearsal.row("A", to: 10_400_000, onOrAfter: "2026-05-01", currency: "KRW"),
            Rehearsal.row("A", to: 10_400_000, line: 3, currency: "KRW", number: 1))

        try await rehearsal.live(90)

        #expect(
            try await rehearsal.rows().map(\.reasons) == [["korea_offer_conversion"], []])
        try await rehearsal.expectWhatWasForetold()
        await rehearsal.close()
    }

    /// 9.99 USD became 13.99 AUD: no increase, and none that counts for the next.
    @Test func storefrontMove_isNoIncrease() async throws {
        let rehearsal = try await Rehearsal.open(
            Rehearsal.subscription(items: ["A": 9990, "B": 4990]))
        try await rehearsal.act(
            .move(storefront: "AUS", prices: ["A": 13_990, "B": 6990]))
        try await rehearsal.live(24)
        try await rehearsal.submit(
            Rehearsal.row("A", to: 14_990, currency: "AUD"),
            Rehearsal.row("B", to: 7490, line: 3, onOrAfter: "2026-06-01", currency: "AUD"))

        try await rehearsal.live(95)

        #expect(try await rehearsal.rows().map(\.consent) == [.notRequired, .required])
        try await rehearsal.expectWhatWasForetold()
        await rehearsal.close()
    }

    /// Somebody else called for an increase of B before; ours of A comes at a later renewal.
    @Test func increaseMadeElsewhere_countsForALaterOne() async throws {
        let rehearsal = try await Rehearsal.open(
            Rehearsal.subscription(items: ["A": 9990, "B": 9990]))
        try await rehearsal.callElsewhere("B", to: 10_990)
        try await rehearsal.live(1)
        try await rehearsal.submit(Rehearsal.row("A", to: 10_490, onOrAfter: "2026-05-01"))

        try await rehearsal.live(85)

        #expect(try await rehearsal.rows().map(\.reasons) == [["increase_within_12_months"]])
        try await rehearsal.expectWhatWasForetold()
        await rehearsal.close()
    }
}

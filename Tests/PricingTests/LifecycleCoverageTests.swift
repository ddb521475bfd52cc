import Testing

@testable import Pricing

private typealias Story = LifecycleStory

/// Which increases a subscription is known to have had, and since when one would have been noticed.
@Suite struct LifecycleCoverageTests {
    private static func event(
        signed: Int64, purchased: Int64, started: Int64, price: Int64 = 9990,
        place: (storefront: String, currency: String) = ("USA", "USD")
    ) -> SubscriptionEvent {
        var event = Story.event(
            signed, "DID_RENEW", purchasedOn: purchased, charged: [Story.charged(price: price)],
            renewing: [Story.renewing(price: price)])
        event.transaction?.storefront = place.storefront
        event.transaction?.currency = place.currency
        event.transaction?.originalPurchaseAt = Story.at(-1000)
        event.renewal?.recentSubscriptionStartAt = Story.at(started)
        return event
    }

    private func fold(_ events: [SubscriptionEvent]) -> SubscriptionState {
        Story.fold(events, []).state
    }

    @Test(
        arguments: [
            ("CAN", "CAD", 13_990, 0), ("CAN", "USD", 13_990, 0), ("USA", "CAD", 13_990, 0),
            ("USA", "USD", 13_990, 1),
        ] as [(String, String, Int64, Int)])
    func increase_isAHigherPriceInTheSameCurrencyAndStorefront(
        storefront: String, currency: String, price: Int64, expected: Int
    ) {
        let state = fold([
            Self.event(signed: 0, purchased: 0, started: 0),
            Self.event(
                signed: 31, purchased: 31, started: 0, price: price, place: (storefront, currency)),
        ])

        #expect(state.increases.count == expected)
        #expect(state.facts.storefront == storefront)
    }

    @Test func increase_afterAMove_isComparedWithThePriceThere() {
        let state = fold([
            Self.event(signed: 0, purchased: 0, started: 0),
            Self.event(signed: 31, purchased: 31, started: 0, price: 13_990, place: ("CAN", "CAD")),
            Self.event(signed: 62, purchased: 62, started: 0, price: 14_990, place: ("CAN", "CAD")),
        ])

        #expect(state.increases.map(\.effectiveAt) == [Story.at(62)])
    }

    @Test func coverage_ofOneNotification_beginsWithItsPeriod() {
        let facts = fold([Self.event(signed: 700, purchased: 690, started: 0)]).facts

        #expect(facts.knownSince == Story.at(690))
        #expect(!facts.isKnownFromStart)
    }

    @Test func coverage_ofTheFirstPeriod_isTheWholeSubscription_wheneverSigned() {
        let first = Self.event(signed: 700, purchased: 0, started: 0)
        let current = Self.event(signed: 695, purchased: 690, started: 0)

        for events in [[first, current], [current, first]] {
            let state = fold(events)
            #expect(state.facts.knownSince == Story.at(0))
            #expect(state.facts.isKnownFromStart)
            #expect(state.increases.isEmpty)
        }
    }

    @Test func coverage_ofACheaperPeriodToldLate_tellsOfAnIncrease() {
        let state = fold([
            Self.event(signed: 695, purchased: 690, started: 0),
            Self.event(signed: 700, purchased: 0, started: 0, price: 4990),
        ])

        #expect(
            state.increases
                == [RecordedIncrease(sku: "A", price: 9990, effectiveAt: Story.at(690))])
    }

    /// A refund told of a period that nobody had told of, between two that were told.
    @Test(
        arguments: [
            ([9990, 9990, 9990], []), ([9990, 8990, 9990], [62]), ([9990, 10_990, 9990], [31]),
            ([8990, 9990, 9990], [31]), ([8990, 8990, 9990], [62]),
            ([8990, 9490, 9990], [31, 62]),
            ([8990, 10_990, 9990], [31]),
        ] as [([Int64], [Int64])])
    func increase_toldByALatePeriod_countsFromWhereItRose_whateverTheOrder(
        prices: [Int64], rises: [Int64]
    ) {
        let periods = prices.enumerated().map { index, price in
            (purchased: Int64(index) * 31, price: price)
        }
        for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
            let events = order.enumerated().map { place, index in
                Self.event(
                    signed: 100 + Int64(place), purchased: periods[index].purchased, started: 0,
                    price: periods[index].price)
            }
            let state = fold(events)
            #expect(
                state.increases.compactMap(\.effectiveAt).sorted() == rises.map(Story.at),
                "\(order)")
            #expect(state.facts.isKnownFromStart)
        }
    }

    /// The price fell again before the first period was told.
    @Test func increase_thatFellAgain_isToldByTheFirstPeriod() {
        let state = fold([
            Self.event(signed: 95, purchased: 93, started: 0, price: 9990),
            Self.event(signed: 125, purchased: 124, started: 0, price: 8490),
            Self.event(signed: 130, purchased: 0, started: 0, price: 8990),
        ])

        #expect(state.increases.map(\.effectiveAt) == [Story.at(93)])
    }

    /// Another currency or another length of the period is another price.
    @Test(arguments: [false, true])
    func increase_isToldByNoLatePeriodThatCannotBeCompared(isInOrder: Bool) {
        var yearly = Self.event(signed: 0, purchased: 0, started: 0, price: 4990)
        yearly.transaction?.period = "P1W"
        let elsewhere = Self.event(
            signed: isInOrder ? 10 : 200, purchased: 10, started: 0, price: 1990,
            place: ("CAN", "CAD"))
        if !isInOrder { yearly.key.signedAt = Story.at(210) }

        let state = fold([
            yearly, elsewhere, Self.event(signed: 95, purchased: 93, started: 0),
        ])

        #expect(state.increases.isEmpty)
    }

    /// Whoever folds the late period alone has not the statements that it must be compared with.
    @Test func periodToldLate_isFoldedWithAllOthers() {
        let running = Self.event(signed: 95, purchased: 93, started: 0)
        let late = Self.event(signed: 100, purchased: 31, started: 0)
        let facts = fold([running]).facts

        #expect(SubscriptionFold.isLate([late], after: running.key, [], facts))
        #expect(
            !SubscriptionFold.isLate(
                [Self.event(signed: 130, purchased: 124, started: 0)], after: running.key, [],
                facts))
    }

    @Test func coverage_whereItBeganAnewUnseen_beginsWithTheFirstPeriodSeen() {
        let facts = fold([
            Self.event(signed: 0, purchased: 0, started: 0),
            Self.event(signed: 400, purchased: 390, started: 300),
        ]).facts

        #expect(facts.knownSince == Story.at(390))
        #expect(!facts.isKnownFromStart)
    }

    @Test func coverage_whereItBeganAnewAndWasSeen_goesOn() {
        let facts = fold([
            Self.event(signed: 0, purchased: 0, started: 0),
            Self.event(signed: 300, purchased: 300, started: 300),
            Self.event(signed: 331, purchased: 331, started: 300),
        ]).facts

        #expect(facts.knownSince == Story.at(0))
        #expect(facts.isKnownFromStart)
    }

    /// Whether the item whose price was left out rose to the next period is not known.
    @Test(arguments: [[0, 1], [1, 0]])
    func coverage_ofAPeriodWithAnItemWithoutAPrice_beginsAfterIt(order: [Int]) {
        var first = Self.event(signed: 0, purchased: 0, started: 0)
        var second = Self.event(signed: 31, purchased: 31, started: 0)
        var other = Story.charged("B", price: 12_990)
        second.transaction?.items.append(other)
        other.price = nil
        first.transaction?.items.append(other)
        let events = [first, second]

        let facts = fold(order.map { events[$0] }).facts

        #expect(facts.knownSince == Story.at(31))
        #expect(!facts.isKnownFromStart)
    }

    @Test func coverage_ofAStatementWithoutACharge_isNone() {
        var told = Self.event(signed: 0, purchased: 0, started: 0)
        told.transaction = nil

        #expect(fold([told]).facts.knownSince == nil)
    }

    /// An increase that is only scheduled is dated from the first statement that showed it, at this price.
    @Test(
        arguments: [
            (["SCHEDULED", "SCHEDULED"], [15_990, 15_990], 3), (["SCHEDULED"], [15_990], 3),
            (["SCHEDULED", "SCHEDULED"], [14_990, 15_990], 4),
            ([nil, "SCHEDULED"], [15_990, 15_990], 4),
            (["SCHEDULED", nil, "SCHEDULED"], [15_990, 15_990, 15_990], 5),
            (["SCHEDULED", "PENDING"], [15_990, 15_990], nil),
        ] as [([String?], [Int64], Int64?)])
    func scheduledIncrease_isShownSinceTheFirstStatementOfIt(
        statuses: [String?], prices: [Int64], day: Int64?
    ) {
        var events = [Story.bought]
        for (place, status) in statuses.enumerated() {
            events.append(
                Story.event(
                    3 + Int64(place), "PRICE_CHANGE", charged: [Story.charged()],
                    renewing: [Story.renewing(status: status, to: prices[place])]))
        }

        let items = fold(events).facts.items

        #expect(items.map { $0.increase?.shownAt } == [day.map(Story.at)])
    }
}

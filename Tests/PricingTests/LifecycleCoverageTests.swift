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

    @Test func coverage_ofAStatementWithoutACharge_isNone() {
        var told = Self.event(signed: 0, purchased: 0, started: 0)
        told.transaction = nil

        #expect(fold([told]).facts.knownSince == nil)
    }
}

import Testing

@testable import Pricing

private typealias Story = LifecycleStory

/// What a subscription's facts say where seats were added within a period: as many as the money ledger counts.
@Suite struct AddedSeatsTests {
    private static func renewed(
        _ day: Int64, seats: Int?, items: [StatementItem] = [Story.charged()], signed: Int64? = nil
    ) -> SubscriptionEvent {
        var event = Story.event(
            signed ?? day, "DID_RENEW", purchasedOn: day, charged: items,
            renewing: items.map { Story.renewing($0.sku, price: $0.price ?? 0) })
        event.transaction?.quantity = seats
        return event
    }

    private static func added(
        _ day: Int64, seats: Int, to period: Int64 = 0, price: Int64 = 9990, sku: String = "A",
        signed: Int64? = nil, _ type: String? = nil, number: Int = 1
    ) -> SubscriptionEvent {
        var event = Story.event(
            signed ?? day, type, source: .status, purchasedOn: day,
            charged: [Story.charged(sku, price: price)])
        event.transaction?.transactionID = "seats-\(number)"
        event.transaction?.expiresAt = Story.at(period + 31)
        event.transaction?.quantity = seats
        event.transaction?.reason = "PURCHASE"
        event.transaction?.details[.additionalTransactionReason] = .text("SEAT_ADDITION")
        event.renewal = nil
        return event
    }

    private func facts(_ events: [SubscriptionEvent]) -> SubscriptionFacts {
        Story.fold(events, []).state.facts
    }

    @Test func seats_areThoseOfTheRenewal_andThoseThatWereAdded_eachTransactionOnce() {
        let told = [
            Self.renewed(0, seats: 3), Self.added(10, seats: 2),
            Self.added(10, seats: 2, signed: 12), Self.added(15, seats: 1, number: 2),
        ]

        #expect(facts(told).seats == 6)
        #expect(facts(told).purchasedAt == Story.at(0))
        // The next renewal sets the number anew.
        #expect(facts(told + [Self.renewed(31, seats: 4)]).seats == 4)
        #expect(
            facts(told + [Self.renewed(31, seats: 4), Self.added(10, seats: 2, signed: 40)]).seats
                == 4)
        // The period's own transaction, told again, adds none.
        #expect(facts(told + [Self.renewed(0, seats: 3, signed: 20)]).seats == 6)
    }

    @Test func seats_ofAPeriodToldAfterTheAddition_areTheSame() {
        let before = Self.renewed(0, seats: 1)
        let added = Self.added(41, seats: 2, to: 31)

        #expect(facts([before, added, Self.renewed(31, seats: 3, signed: 50)]).seats == 5)
        #expect(facts([added, Self.renewed(31, seats: 3, signed: 50)]).seats == 5)
        // No number says one.
        #expect(facts([Self.renewed(31, seats: nil), added]).seats == 3)
        #expect(facts([added]).seats == 2)
    }

    @Test func seats_thatWereGivenBack_areGone_untilThatIsTakenBack() {
        var refund = Self.added(10, seats: 2, signed: 12, "REFUND")
        refund.transaction?.revokedAt = Story.at(12)
        refund.status = nil
        let before = [Self.renewed(0, seats: 3), Self.added(10, seats: 2)]

        let after = facts(before + [refund])
        #expect(after.seats == 3)
        #expect(after.status == 1)
        #expect(facts(before + [refund, Self.added(10, seats: 2, signed: 13)]).seats == 3)
        #expect(
            facts(before + [refund, Self.added(10, seats: 2, signed: 13, "REFUND_REVERSED")]).seats
                == 5)
        // A part that was given back takes no seat.
        refund.transaction?.details[.revocationPercentage] = .number(40_000)
        #expect(facts(before + [refund]).seats == 5)
    }

    /// The rest of a period may cost a part of the price. That is no price of the item, and so no increase afterwards.
    @Test func priceOfAddedSeats_isNoPriceOfTheItem() {
        let two = [Story.charged(), Story.charged("B", price: 4990)]
        let state = Story.fold(
            [
                Self.renewed(0, seats: 3, items: two), Self.added(10, seats: 2, price: 5000),
                Self.added(20, seats: 1, price: 12000, number: 2),
                Self.renewed(31, seats: 6, items: two),
            ], []
        ).state

        #expect(state.increases.isEmpty)
        let running = facts([
            Self.renewed(0, seats: 3, items: two), Self.added(10, seats: 2, price: 5000),
        ])
        #expect(running.items.map(\.currentPrice) == [9990, 4990])
        #expect(running.knownSince == Story.at(0))
    }

    /// An addition lists the items that it is of. The others did not leave.
    @Test func addedSeats_dropNoItem_andEndNoChange() {
        let two = [Story.charged(), Story.charged("B", price: 4990)]
        let fold = Story.fold([
            Self.renewed(0, seats: 3, items: two), Story.priceChange, Story.pending,
            Self.added(10, seats: 2, sku: "B"),
        ])

        #expect(fold.lines.map(\.state) == [.scheduled, .pendingConsent])
    }
}

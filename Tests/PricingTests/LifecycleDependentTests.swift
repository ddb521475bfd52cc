import Pricing
import Testing

private typealias Story = LifecycleStory

@Suite struct LifecycleDependentTests {
    private let bought = Story.event(
        0, "SUBSCRIBED",
        charged: [
            Story.charged("A"), Story.charged("B", price: 3990), Story.charged("C", price: 990),
        ],
        renewing: [
            Story.renewing("A"), Story.renewing("B", price: 3990), Story.renewing("C", price: 990),
        ])
    private let pending = Story.event(
        4, "PRICE_INCREASE", "PENDING",
        renewing: [
            Story.renewing("A", price: 15990, status: "PENDING"), Story.renewing("B", price: 3990),
            Story.renewing("C", price: 990),
        ])
    private let parent = Story.change(dependents: ["B"])

    private func renewed(_ skus: [String]) -> SubscriptionEvent {
        Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: skus.map { Story.charged($0, price: 990) },
            renewing: skus.map { Story.renewing($0, price: 990) })
    }

    @Test func dependent_parentDeclinedAtRenewal_isConfirmedByTheSameStatement() throws {
        let state = Story.fold([bought, pending, renewed(["C"])], [parent]).state

        let cancellation = try #require(state.cancellations.first)
        #expect(state.cancellations.count == 1)
        #expect(cancellation.dependentSKU == "B")
        #expect(cancellation.state == .confirmed)
        #expect(cancellation.price == 3990)
        #expect(cancellation.settledByEvidence == "31-DID_RENEW--")
    }

    @Test func dependent_chargedAgain_isADiscrepancyWhenItStays() {
        let stays = Story.fold([bought, pending, renewed(["B", "C"])], [parent]).state
        let chargedAgain = Story.event(
            62, "DID_RENEW", purchasedOn: 62, charged: [Story.charged("B", price: 3990)],
            renewing: [Story.renewing("B", price: 3990)])

        #expect(stays.cancellations.map(\.state) == [.requested])
        #expect(
            Story.fold([bought, pending, renewed(["B", "C"]), chargedAgain], [parent]).state
                .cancellations
                .map(\.state) == [.discrepancy])
    }

    @Test func dependent_ofAnotherSubscription_isLeftToTheCanceller() {
        let elsewhere = Story.change(dependents: ["NOT_HERE"])

        let state = Story.fold([bought, pending, renewed(["C"])], [elsewhere]).state

        #expect(state.cancellations.map(\.state) == [.requested])
        #expect(state.cancellations.map(\.isCrossSubscription) == [true])
    }

    @Test func dependent_wholeSubscriptionExpiredForTheIncrease_isConfirmed() {
        let expired = Story.event(
            31, "EXPIRED", "PRICE_INCREASE", status: 2, autoRenew: 0, intent: 3)

        let state = Story.fold([bought, pending, expired], [parent]).state

        #expect(state.changes[0].progress.state == .declined)
        #expect(state.cancellations.map(\.state) == [.confirmed])
    }

    @Test func dependent_subscriberLeftAfterBeingAsked_isConfirmed_butNotWhenNeverAsked() {
        let left = Story.event(31, "EXPIRED", "VOLUNTARY", status: 2, autoRenew: 0, intent: 1)
        let scheduled = Story.event(
            3, "PRICE_CHANGE",
            renewing: [Story.renewing("A", status: "SCHEDULED"), Story.renewing("B")])

        #expect(
            Story.fold([bought, pending, left], [parent]).state.cancellations.map(\.state) == [
                .confirmed
            ])
        #expect(Story.fold([bought, scheduled, left], [parent]).state.cancellations.isEmpty)
    }

    @Test func dependent_parentConsentedLate_nothingIsCancelled() {
        let consented = Story.event(
            30, "PRICE_INCREASE", "ACCEPTED",
            renewing: [
                Story.renewing("A", price: 15990, status: "ACCEPTED"),
                Story.renewing("B", price: 3990),
            ])
        let renewal = Story.event(
            31, "DID_RENEW", purchasedOn: 31,
            charged: [Story.charged("A", price: 15990), Story.charged("B", price: 3990)],
            renewing: [Story.renewing("A", price: 15990), Story.renewing("B", price: 3990)])

        let state = Story.fold([bought, pending, consented, renewal], [parent]).state

        #expect(state.changes[0].progress.state == .effective)
        #expect(state.cancellations.isEmpty)
    }

    @Test func dependent_withItsOwnIncrease_fallsWithItsParentAndSaysSo() {
        let own = Story.change("B", from: 3990, to: 4990, id: "change-B")
        let bothTold = Story.event(
            4, "PRICE_INCREASE", "PENDING",
            renewing: [
                Story.renewing("A", price: 15990, status: "PENDING"),
                Story.renewing("B", price: 4990, status: "ACCEPTED", to: 4990),
                Story.renewing("C", price: 990),
            ])

        let state = Story.fold([bought, bothTold, renewed(["C"])], [parent, own]).state

        #expect(state.changes.map(\.progress.state) == [.declined, .declined])
        #expect(state.changes[1].progress.reason == "parent_declined")
        #expect(state.cancellations.map(\.dependentSKU) == ["B"])
    }

    @Test func dependent_withItsOwnIncrease_isCancelledWhenTheSubscriberLeavesAltogether() {
        let own = Story.change("B", from: 3990, to: 4990, id: "change-B")
        let bothTold = Story.event(
            4, "PRICE_INCREASE", "PENDING",
            renewing: [
                Story.renewing("A", price: 15990, status: "PENDING"),
                Story.renewing("B", price: 4990, status: "SCHEDULED", to: 4990),
                Story.renewing("C", price: 990),
            ])
        let left = Story.event(31, "EXPIRED", "VOLUNTARY", status: 2, autoRenew: 0, intent: 1)

        let state = Story.fold([bought, bothTold, left], [parent, own]).state

        #expect(state.changes.map(\.progress.state) == [.cancelled, .cancelled])
        #expect(state.changes.map(\.progress.reason) == ["left_voluntarily", "left_voluntarily"])
        #expect(state.cancellations.map(\.state) == [.confirmed])
    }

    /// Its call had no answer, and no statement ever showed it applied: nobody was asked about it.
    @Test func dependent_whoseOwnIncreaseWasNeverSeenApplied_isCancelledWithItsParent_notDeclined()
    {
        var own = Story.change("B", from: 3990, to: 4990, id: "change-B")
        own.progress.state = .unknown
        own.callProgress.state = .unknown
        let over = Story.event(31, "EXPIRED", "PRICE_INCREASE", status: 2, autoRenew: 0, intent: 3)

        let state = Story.fold([bought, pending, over], [parent, own]).state

        #expect(state.changes.map(\.progress.state) == [.declined, .cancelled])
        #expect(state.changes[1].progress.reason == "parent_declined")
    }

    @Test func dependent_withItsOwnDecrease_isCancelledWithItsParent_notDeclined() {
        let own = Story.change("B", from: 3990, to: 2990, id: "change-B")
        let told = Story.event(
            4, "PRICE_INCREASE", "PENDING",
            renewing: [
                Story.renewing("A", price: 15990, status: "PENDING"),
                Story.renewing("B", price: 2990),
                Story.renewing("C", price: 990),
            ])

        let state = Story.fold([bought, told, renewed(["C"])], [parent, own]).state

        #expect(state.changes.map(\.progress.state) == [.declined, .cancelled])
        #expect(state.changes[1].progress.reason == "parent_declined")
    }
}

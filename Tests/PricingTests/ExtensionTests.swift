import Testing

@testable import Pricing

private typealias Story = LifecycleStory

@Suite struct ExtensionTests {
    private func extended(
        _ day: Int64, to end: Int64, _ type: String? = "RENEWAL_EXTENDED",
        source: SubscriptionEvent.Source = .notification
    ) -> SubscriptionEvent {
        var event = Story.event(
            day, type, source: source, charged: [Story.charged()],
            renewing: [Story.renewing(status: "SCHEDULED")])
        event.transaction?.expiresAt = Story.at(end)
        event.renewal?.renewalAt = Story.at(end)
        return event
    }

    private func facts(_ change: (inout SubscriptionFacts) -> Void = { _ in }) -> SubscriptionFacts
    {
        var facts = Story.fold([Story.bought]).state.facts
        change(&facts)
        return facts
    }

    private func obstacle(
        _ facts: SubscriptionFacts?, extendedAt: [Instant] = [], hasOpen: Bool = false
    ) -> ExtensionObstacle? {
        ExtensionEligibility.obstacle(
            facts, extendedAt: extendedAt, hasOpen: hasOpen, now: Story.at(400))
    }

    @Test func eligibility_ofEachState_hasItsReason() {
        #expect(obstacle(facts()) == nil)
        #expect(obstacle(nil) == .unknownSubscription)
        #expect(obstacle(facts { $0.signedAt = nil }) == .unknownSubscription)
        #expect(obstacle(facts { $0.ownershipType = "FAMILY_SHARED" }) == .familyMember)
        #expect(obstacle(facts { $0.ownershipType = "ASSIGNED" }) == .assignedSeat)
        #expect(obstacle(facts { $0.ownershipType = "PURCHASED" }) == nil)
        #expect(obstacle(facts { $0.status = 2 }) == .expired)
        #expect(obstacle(facts { $0.status = 3 }) == .billingRetry)
        #expect(obstacle(facts { $0.status = 4 }) == .gracePeriod)
        #expect(
            obstacle(
                facts {
                    $0.status = 4
                    $0.isInBillingRetry = true
                    $0.expiresAt = Story.at(401)
                }) == nil)
        #expect(obstacle(facts { $0.status = 5 }) == .revoked)
        #expect(obstacle(facts { $0.isInBillingRetry = true }) == .billingRetry)
        #expect(obstacle(facts { $0.autoRenews = false }) == .expired)
        #expect(obstacle(facts(), hasOpen: true) == .extensionOpen)
    }

    @Test func eligibility_inAFreeOffer_isNoneUntilAnItemIsPaid() {
        let free = SubscriptionFacts.Offer(price: 0, isRunning: true)
        let paid = SubscriptionFacts.Offer(price: 990, isRunning: true)

        #expect(obstacle(facts { $0.items[0].offer = free }) == .freeOffer)
        #expect(obstacle(facts { $0.items[0].offer = paid }) == nil)
        #expect(
            obstacle(
                facts {
                    $0.items[0].offer = free
                    $0.items.append(.init(sku: "B", currentPrice: 990, renews: true))
                }) == nil)
        // Ordinary subscriptions have no items, and say it of the whole.
        for (type, expected) in [
            ("FREE_TRIAL", ExtensionObstacle.freeOffer), ("PAY_AS_YOU_GO", nil), (nil, nil),
        ] {
            #expect(
                obstacle(
                    facts {
                        $0.items = []
                        $0.offerDiscountType = type
                    }) == expected)
        }
    }

    @Test func eligibility_afterTwoWithin365Days_waitsForTheFirstToBeOlder() {
        let edge = Story.at(400 - 365)
        let within = edge.advanced(by: 1)

        #expect(obstacle(facts(), extendedAt: [within, Story.at(399)]) == .twoWithinAYear)
        #expect(obstacle(facts(), extendedAt: [edge, Story.at(399)]) == nil)
        #expect(obstacle(facts(), extendedAt: [within]) == nil)
    }

    @Test func extension_whenTold_isNotedWithBothDates() {
        let (state, _) = Story.fold([Story.bought, Story.priceChange, extended(6, to: 41)])

        #expect(state.extensions.map(\.outcome) == [.extended])
        #expect(state.extensions.first?.renewalBefore == Story.renewal)
        #expect(state.extensions.first?.renewalAt == Story.at(41))
    }

    @Test func extension_seenInAStatusOnly_movesTheChangeAsWell() {
        let (state, lines) = Story.fold([
            Story.bought, Story.priceChange, extended(6, to: 41, nil, source: .status),
            extended(7, to: 41),
        ])

        #expect(state.changes[0].progress.dueAt == Story.at(41))
        #expect(lines.count { $0.reason == "renewal_extended" } == 1)
        #expect(state.extensions.map(\.outcome) == [.seen, .extended])
    }

    @Test func extension_ofAChangeDueLater_keepsItsTurn() {
        // Due at the second renewal: 1 April, then 1 May. The first moves to 11 April, so the second to 11 May.
        let change = Story.change(dueAt: Instant("2026-05-01T00:00:00Z"))

        let (state, _) = Story.fold(
            [Story.bought, Story.priceChange, extended(6, to: 41)], [change])

        #expect(state.changes[0].progress.dueAt == Instant("2026-05-11T00:00:00Z"))
    }

    @Test func extension_beforeACallThatDidNotKnowOfIt_movesTheChange() {
        // Extended on the first day, called on the second by the renewal of before: the App Store takes the call for the
        // renewal that it had moved.
        var change = Story.change()
        change.calledRenewalAt = Story.renewal

        let (state, lines) = Story.fold(
            [Story.bought, extended(1, to: 41), answer(to: change, 3, end: 41)], [change])

        #expect(state.changes[0].progress.dueAt == Story.at(41))
        #expect(lines.map(\.state) == [.sending, .scheduled])
        #expect(lines.first?.reason == "renewal_extended")
        // Before whatever is told of the call: the App Store's clock may be behind ours.
        #expect(lines.first?.at == Story.sent.advanced(by: -TrackedChange.clockMargin))
    }

    @Test func extensions_beforeACallThatKnewOfNone_moveTheChangeByBoth() {
        var change = Story.change(sentAt: Story.at(3))
        change.calledRenewalAt = Story.renewal

        let (state, _) = Story.fold(
            [
                Story.bought, extended(1, to: 41), extended(2, to: 50),
                answer(to: change, 4, end: 50),
            ], [change])

        #expect(state.changes[0].progress.dueAt == Story.at(50))
    }

    @Test func extension_beforeACallThatKnewOfIt_movesNothing() {
        var change = Story.change(dueAt: Story.at(41))
        change.calledRenewalAt = Story.at(41)

        let (state, lines) = Story.fold(
            [Story.bought, extended(1, to: 41), answer(to: change, 3, end: 41)], [change])

        #expect(state.changes[0].progress.dueAt == Story.at(41))
        #expect(lines.map(\.reason) == [nil])
    }

    @Test func extension_knownAtACallWhoseClockIsBehind_movesNothing() {
        // Signed two seconds after the call by Apple's clock, and known at it.
        var change = Story.change(sentAt: Story.at(1).advanced(by: -2000), dueAt: Story.at(41))
        change.calledRenewalAt = Story.at(41)

        let (state, _) = Story.fold(
            [Story.bought, extended(1, to: 41), answer(to: change, 3, end: 41)], [change])

        #expect(state.changes[0].progress.dueAt == Story.at(41))
    }

    @Test func extensions_beforeAndAfterTheCall_moveTheChangeByBoth() {
        var change = Story.change()
        change.calledRenewalAt = Story.renewal

        let (state, _) = Story.fold(
            [
                Story.bought, extended(1, to: 41), answer(to: change, 3, end: 41),
                extended(6, to: 45),
            ], [change])

        #expect(state.changes[0].progress.dueAt == Story.at(45))
    }

    /// The answer to the change's call, of a period that ends on that day.
    private func answer(
        to change: TrackedChange, _ day: Int64, end: Int64
    ) -> SubscriptionEvent {
        var answer = Story.event(
            day, id: change.requestReferenceID, source: .response, charged: [Story.charged()],
            renewing: [Story.renewing(status: "SCHEDULED")])
        answer.transaction?.expiresAt = Story.at(end)
        answer.renewal?.renewalAt = Story.at(end)
        return answer
    }

    @Test func failure_movesNothing() {
        let failed = Story.event(
            6, "RENEWAL_EXTENSION", "FAILURE", charged: [Story.charged()],
            renewing: [Story.renewing(status: "SCHEDULED")])

        let (state, lines) = Story.fold([Story.bought, Story.priceChange, failed])

        #expect(state.changes[0].progress.dueAt == Story.renewal)
        #expect(state.extensions.map(\.outcome) == [.failed])
        #expect(lines.map(\.state) == [.scheduled])
    }

    @Test func renewal_isNoExtension() {
        let (state, _) = Story.fold([Story.bought, Story.renewedAtNewPrice])

        #expect(state.extensions.isEmpty)
    }
}

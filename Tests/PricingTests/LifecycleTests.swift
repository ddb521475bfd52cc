import Testing

@testable import Pricing

private typealias Story = LifecycleStory

@Suite struct LifecycleTests {
    @Test func change_consentGivenThenRenewed_isEffectiveAndConsented() throws {
        let (state, lines) = Story.fold([
            Story.bought, Story.priceChange, Story.pending, Story.accepted, Story.renewedAtNewPrice,
        ])

        let progress = try #require(state.changes.first?.progress)
        #expect(lines.map(\.state) == [.scheduled, .pendingConsent, .accepted, .effective])
        #expect(progress.acceptance == .consented)
        #expect(progress.effectiveAt == Story.at(31))
        #expect(progress.endedAt == Story.at(31))
    }

    /// The word of the consent was lost, and the App Store charges nobody without it.
    @Test func change_askedThenCharged_hasConsented() {
        let change = Story.fold([
            Story.bought, Story.priceChange, Story.pending, Story.renewedAtNewPrice,
        ]).state.changes[0].progress

        #expect(change.state == .effective)
        #expect(change.acceptance == .consented)
        #expect(change.acceptedAt == nil)
    }

    /// Nobody knows whether a customer was asked of whom no word came.
    @Test func change_chargedUntold_isNeitherConsentedNorInformed() {
        let change = Story.fold([Story.bought, Story.priceChange, Story.renewedAtNewPrice])
            .state.changes[0].progress

        #expect(change.state == .effective)
        #expect(change.acceptance == nil)
    }

    /// Ids are random, and decide the order of what was signed at one instant.
    @Test(arguments: [("a", "b"), ("b", "a")])
    func change_askedAndAcceptedAtOneInstant_hasConsented(asked: String, accepted: String) {
        let both = [("PENDING", asked), ("ACCEPTED", accepted)].map { status, id in
            Story.event(
                4, "PRICE_INCREASE", status, id: id, charged: [Story.charged()],
                renewing: [Story.renewing(price: 15990, status: status)])
        }

        let change = Story.fold([Story.bought, Story.priceChange] + both).state.changes[0].progress

        #expect(change.state == .accepted)
        #expect(change.acceptance == .consented)
        #expect(change.consentAskedAt == Story.at(4))
    }

    @Test func change_acceptedWithoutPending_isInformed() {
        let progress = Story.fold([Story.bought, Story.priceChange, Story.accepted]).state.changes[
            0
        ].progress

        #expect(progress.state == .accepted)
        #expect(progress.acceptance == .informed)
    }

    @Test func change_firstSeenPending_passesThroughScheduled() {
        #expect(
            Story.states([Story.bought, Story.pending]) == [
                "change-A scheduled", "change-A pending_consent",
            ])
    }

    @Test func change_anyOrderAndRepetition_endsTheSame() {
        let events = [
            Story.bought, Story.priceChange, Story.pending, Story.accepted, Story.renewedAtNewPrice,
        ]
        let expected = Story.fold(events).state

        for permutation in permutations(events) {
            #expect(Story.fold(permutation).state == expected)
            #expect(foldAsArriving(permutation + permutation.prefix(2)) == expected)
        }
    }

    @Test(
        arguments: [
            ("VOLUNTARY", nil, ChangeState.cancelled), ("PRICE_INCREASE", nil, .declined),
            ("BILLING_RETRY", nil, .lapsed), ("PRODUCT_NOT_FOR_SALE", nil, .lapsed),
            (nil, 1, .cancelled), (nil, 2, .lapsed), (nil, 3, .declined), (nil, 4, .lapsed),
            (nil, nil, .lapsed), ("A_SUBTYPE_OF_TOMORROW", 3, .declined),
        ] as [(String?, Int?, ChangeState)])
    func change_subscriptionExpired_endsByItsCause(
        subtype: String?, intent: Int?, expected: ChangeState
    ) {
        let expired = Story.event(
            31, "EXPIRED", subtype, status: 2, charged: [Story.charged()], renewing: [],
            autoRenew: 0,
            intent: intent)

        let state = Story.fold([Story.bought, Story.priceChange, Story.pending, expired]).state

        #expect(state.changes[0].progress.state == expected)
    }

    @Test func change_itemMissingAfterPending_isDeclined() {
        let renewedWithout = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged("B", price: 1000)],
            renewing: [Story.renewing("B", price: 1000)])

        let state = Story.fold([Story.bought, Story.priceChange, Story.pending, renewedWithout])
            .state

        #expect(state.changes[0].progress.state == .declined)
        #expect(state.changes[0].progress.reason == "item_missing_at_renewal")
    }

    @Test func change_renewedAtOldPriceFirst_waitsForTheNextRenewal() {
        let atOldPrice = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged()],
            renewing: [Story.renewing(price: 15990, status: "ACCEPTED")])
        let atNewPrice = Story.event(
            62, "DID_RENEW", purchasedOn: 62, charged: [Story.charged(price: 15990)],
            renewing: [Story.renewing(price: 15990)])

        #expect(
            Story.fold([Story.bought, Story.priceChange, atOldPrice]).state.changes[0].progress
                .state == .accepted)
        #expect(
            Story.fold([Story.bought, Story.priceChange, atOldPrice, atNewPrice]).state.changes[0]
                .progress
                .effectiveAt == Story.at(62))
    }

    @Test func change_decrease_goesFromScheduledToEffective() {
        let decrease = Story.change(from: 9990, to: 7990)
        let told = Story.event(
            3, "PRICE_CHANGE", charged: [Story.charged()], renewing: [Story.renewing(price: 7990)])
        let renewed = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged(price: 7990)],
            renewing: [Story.renewing(price: 7990)])

        #expect(
            Story.states([Story.bought, told, renewed], [decrease]) == [
                "change-A scheduled", "change-A effective",
            ])
    }

    @Test func change_statementSignedBeforeTheCall_saysNothingOfIt() {
        let early = Story.event(
            1, "PRICE_INCREASE", "ACCEPTED", charged: [Story.charged()],
            renewing: [Story.renewing(price: 15990, status: "ACCEPTED")])

        #expect(Story.states([Story.bought, early]).isEmpty)
    }

    @Test func change_refundOfTheRunningPeriod_isCancelled_butOfAnEarlierOneIsNot() {
        let renewed = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged()],
            renewing: [Story.renewing(status: "SCHEDULED")])
        let old = Story.event(
            32, "REFUND", purchasedOn: 0, charged: [Story.charged()],
            renewing: [Story.renewing(status: "SCHEDULED")], revoked: true)
        let running = Story.event(
            33, "REFUND", status: 5, purchasedOn: 31, charged: [Story.charged()], renewing: [],
            autoRenew: 0, revoked: true)

        let afterOld = Story.fold([Story.bought, Story.priceChange, renewed, old]).state
        #expect(afterOld.changes[0].progress.state == .scheduled)
        #expect(afterOld.facts.purchasedAt == Story.at(31))
        #expect(
            afterOld.money.first { $0.key.kind == .refund }?.key
                == .init(
                    transactionID: "t0", sku: "A", kind: .refund, occurredAt: Story.at(32),
                    number: 0))
        #expect(
            Story.fold([Story.bought, Story.priceChange, renewed, old, running]).state.changes[0]
                .progress.state
                == .cancelled)
    }

    @Test(arguments: ["DID_CHANGE_RENEWAL_PREF", "OFFER_REDEEMED"])
    func change_itemReplacedByAPurchaseWithinThePeriod_isNotDeclined(type: String) {
        var replaced = Story.event(
            10, type, purchasedOn: 10, charged: [Story.charged("P", price: 19990)],
            renewing: [Story.renewing("P", price: 19990)])
        replaced.transaction?.reason = "PURCHASE"

        let state = Story.fold([Story.bought, Story.pending, replaced]).state

        #expect(state.changes.first?.progress.state == .invalidated)
        #expect(state.changes.first?.progress.reason == "item_replaced")
    }

    @Test func change_refusedOnARetryAndThenSeenApplied_isOpenAgain() {
        let rejected = ChangeProgress(
            state: .rejected, reason: "4000205 refused_on_retry", endedAt: Story.at(3),
            since: Story.at(3))
        var doubtful = Story.change()
        doubtful.callProgress = rejected
        doubtful.progress = rejected
        var certain = doubtful
        certain.callProgress.reason = "4000205 PriceChangeCannotBeIssued"

        #expect(
            Story.states([Story.bought, Story.priceChange, Story.pending], [doubtful])
                == ["change-A scheduled", "change-A pending_consent"])
        #expect(
            Story.fold([Story.priceChange], [doubtful]).state.changes[0].progress.endedAt == nil)
        #expect(
            Story.states([Story.bought, Story.renewedAtNewPrice], [doubtful])
                == ["change-A effective"])
        #expect(Story.states([Story.bought, Story.priceChange, Story.pending], [certain]).isEmpty)
        #expect(Story.states([Story.bought, Story.renewedAtNewPrice], [certain]).isEmpty)
    }

    @Test func change_itemReplaced_isInvalidated() {
        let replaced = Story.event(
            6, "DID_CHANGE_RENEWAL_PREF", "UPGRADE", charged: [Story.charged()],
            renewing: [Story.renewing("PREMIUM")])

        #expect(
            Story.fold([Story.bought, Story.priceChange, Story.pending, replaced]).state.changes[0]
                .progress.state
                == .invalidated)
    }

    @Test func facts_unknownTypeAndStatus_areKeptAndHarmless() {
        let strange = Story.event(
            6, "A_TYPE_OF_TOMORROW", "AND_SUBTYPE", status: 9, charged: [Story.charged()],
            renewing: [Story.renewing(status: "SOMETHING_NEW")])

        let state = Story.fold([Story.bought, Story.priceChange, strange]).state

        #expect(state.facts.status == 9)
        #expect(state.facts.items[0].increase?.status == "SOMETHING_NEW")
        #expect(state.changes[0].progress.state == .scheduled)
    }

    @Test func increases_chargedOrAnnounced_areRemembered_butRefusedOnesAreNot() {
        let charged = Story.fold([Story.bought, Story.pending, Story.renewedAtNewPrice]).state
            .increases
        let refused = Story.fold([
            Story.bought, Story.pending,
            Story.event(
                31, "EXPIRED", "PRICE_INCREASE", status: 2, charged: [Story.charged()], renewing: []
            ),
        ]).state.increases

        #expect(
            charged == [
                RecordedIncrease(
                    sku: "A", price: 15990, communicatedAt: Story.at(4), effectiveAt: Story.at(31))
            ])
        #expect(refused.isEmpty)
    }
}

/// Folds one by one as they arrive, beginning again whenever one is late: what the projector does.
private func foldAsArriving(_ events: [SubscriptionEvent]) -> SubscriptionState {
    var known: [SubscriptionEvent] = []
    var state = SubscriptionState(originalTransactionID: "1", changes: [LifecycleStory.change()])
    for event in events where !known.contains(event) {
        known.append(event)
        if let folded = state.foldedThrough, event.key <= folded {
            state = SubscriptionState(originalTransactionID: "1", changes: state.changes)
            _ = Lifecycle.fold(known.sorted { $0.key < $1.key }, into: &state)
        } else {
            _ = Lifecycle.fold([event], into: &state)
        }
    }
    return state
}

private func permutations<Element>(_ elements: [Element]) -> [[Element]] {
    guard let first = elements.first else { return [[]] }
    return permutations(Array(elements.dropFirst())).flatMap { rest in
        (0...rest.count).map { place in
            Array(rest[..<place]) + [first] + Array(rest[place...])
        }
    }
}

import Testing

@testable import Pricing

private typealias Story = LifecycleStory

/// What the types tell of the subscription, with and without the renewal info; clocks that disagree; Korea.
@Suite struct LifecycleFactTests {
    @Test(
        arguments: [
            ("SUBSCRIBED", "INITIAL_BUY", 1), ("SUBSCRIBED", "RESUBSCRIBE", 1),
            ("DID_RENEW", nil, 1),
            ("DID_RENEW", "BILLING_RECOVERY", 1), ("DID_FAIL_TO_RENEW", nil, 3),
            ("DID_FAIL_TO_RENEW", "GRACE_PERIOD", 4), ("GRACE_PERIOD_EXPIRED", nil, 3),
            ("EXPIRED", "BILLING_RETRY", 2), ("REVOKE", nil, 5), ("PRICE_INCREASE", "PENDING", 9),
        ] as [(String, String?, Int)])
    func status_notGiven_isWhatTheTypeStandsFor(type: String, subtype: String?, expected: Int) {
        var before = Story.bought
        before.status = 9
        let told = Story.event(5, type, subtype, status: nil, charged: [Story.charged()])

        #expect(Story.fold([before, told], []).state.facts.status == expected)
    }

    @Test func facts_typeAlone_tellsRenewalAndRetry() {
        func after(_ type: String, _ subtype: String? = nil) -> SubscriptionFacts {
            var told = Story.event(5, type, subtype)
            told.renewal = nil
            return Story.fold([Story.bought, told], []).state.facts
        }

        #expect(after("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED").autoRenews == false)
        #expect(after("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED").autoRenews == true)
        #expect(after("DID_FAIL_TO_RENEW").isInBillingRetry)
        #expect(!after("EXPIRED").isInBillingRetry)
        #expect(
            after("CONSUMPTION_REQUEST").items == Story.fold([Story.bought], []).state.facts.items)
    }

    @Test(
        arguments: [
            ("DID_FAIL_TO_RENEW", "GRACE_PERIOD", 4), ("DID_FAIL_TO_RENEW", nil, 3),
            ("GRACE_PERIOD_EXPIRED", nil, 3),
            ("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", 1),
            ("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED", 1), ("REFUND_DECLINED", nil, 1),
            ("CONSUMPTION_REQUEST", nil, 1), ("RENEWAL_EXTENSION", "FAILURE", 1),
            ("RESCIND_CONSENT", nil, 1), ("A_TYPE_OF_TOMORROW", nil, 1),
        ] as [(String, String?, Int)])
    func change_typeThatOnlyConcernsFacts_waits(type: String, subtype: String?, status: Int) {
        let told = Story.event(
            6, type, subtype, status: status, charged: [Story.charged()],
            renewing: [Story.renewing(price: 15990, status: "PENDING")])

        #expect(
            Story.states([Story.bought, Story.pending, told])
                == ["change-A scheduled", "change-A pending_consent"])
    }

    @Test func change_billingRecoveredAtTheNewPrice_isEffective() {
        let failed = Story.event(
            31, "DID_FAIL_TO_RENEW", status: 3, charged: [Story.charged()],
            renewing: [Story.renewing(price: 15990, status: "ACCEPTED")])
        let recovered = Story.event(
            35, "DID_RENEW", "BILLING_RECOVERY", purchasedOn: 35,
            charged: [Story.charged(price: 15990)], renewing: [Story.renewing(price: 15990)])

        #expect(
            Story.fold([Story.bought, Story.accepted, failed, recovered]).state.changes[0].progress
                .state == .effective)
    }

    @Test func change_ourClockAhead_theAnswerDatesTheCallByApplesClock() {
        let hour: Int64 = 3_600_000
        let ahead = Story.change(sentAt: Story.at(4).advanced(by: hour))
        let answer = Story.event(
            4, id: Story.requestID, source: .response,
            renewing: [Story.renewing(status: "SCHEDULED")])
        var pending = Story.event(
            4, "PRICE_INCREASE", "PENDING", charged: [Story.charged()],
            renewing: [Story.renewing(price: 15990, status: "PENDING")])
        pending.key.signedAt = Story.at(4).advanced(by: 60_000)

        #expect(
            Story.states([Story.bought, answer, pending], [ahead])
                == ["change-A scheduled", "change-A pending_consent"])
        #expect(Story.states([Story.bought, pending], [ahead]).isEmpty)
    }

    @Test func change_ourClockAheadAndTheAnswerLost_aMarginStillCountsWhatIsNew() {
        let minutes: Int64 = 60_000
        let ahead = Story.change(sentAt: Story.at(3).advanced(by: 4 * minutes))
        let tooFar = Story.change(sentAt: Story.at(3).advanced(by: 6 * minutes))
        // The same increase was told long before: the statement within the margin is no news of this call.
        let earlier = Story.event(
            1, "PRICE_CHANGE", charged: [Story.charged()],
            renewing: [Story.renewing(status: "SCHEDULED")])

        #expect(Story.states([Story.bought, Story.priceChange], [ahead]) == ["change-A scheduled"])
        #expect(Story.states([Story.bought, Story.priceChange], [tooFar]).isEmpty)
        #expect(Story.states([Story.bought, earlier, Story.priceChange], [ahead]).isEmpty)
    }

    /// An item may be charged in one offer, and renew in another.
    @Test func offerToCome_leavesWhatTheRunningPeriodWasCharged() {
        var coming = Story.renewing()
        coming.offerPrice = 2990
        let bought = Story.event(
            0, "SUBSCRIBED", "INITIAL_BUY",
            charged: [StatementItem(sku: "A", price: 9990, offerPrice: 4990)], renewing: [coming])
        let withdrawn = Story.event(
            3, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED", renewing: [Story.renewing()])

        let offered = Story.fold([bought], []).state.facts
        let ending = Story.fold([bought, withdrawn], []).state.facts

        #expect(offered.items.first?.offer?.price == 2990)
        #expect(offered.charge(of: "A")?.amount == 4990)
        #expect(ending.items.first?.offer?.price == 4990)
        #expect(ending.charge(of: "A")?.amount == 4990)
    }

    private func korean(_ status: String?, _ days: Int64, _ type: String, _ subtype: String?)
        -> SubscriptionEvent
    {
        var item = Story.renewing(price: 9990, status: status, to: 9990)
        if status == nil { item.increasePrice = nil }
        var told = Story.event(
            days, type, subtype,
            charged: [StatementItem(sku: "A", price: 9990, offerPrice: 990)],
            renewing: [item])
        told.transaction?.storefront = "KOR"
        return told
    }

    @Test func conversion_inKoreaWithoutAChangeOfOurs_isTrackedAsSuch() {
        var paid = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged()],
            renewing: [Story.renewing()])
        paid.transaction?.storefront = "KOR"
        let asked = [
            korean(nil, 0, "SUBSCRIBED", "INITIAL_BUY"),
            korean("PENDING", 4, "PRICE_INCREASE", "PENDING"),
        ]
        let expired = Story.event(
            31, "EXPIRED", "PRICE_INCREASE", status: 2, renewing: [], autoRenew: 0, intent: 3)

        let consented = Story.fold(
            asked + [korean("ACCEPTED", 5, "PRICE_INCREASE", "ACCEPTED"), paid], []
        ).state
        let refused = Story.fold(asked + [expired], []).state

        #expect(
            consented.increases == [
                RecordedIncrease(
                    sku: "A", price: 9990, communicatedAt: Story.at(4), effectiveAt: Story.at(31),
                    origin: .offerConversion, consentAskedAt: Story.at(4), acceptedAt: Story.at(5))
            ])
        #expect(refused.increases.map(\.refusedAt) == [Story.at(31)])
    }

    /// While it waits, the renewal info shows the higher price. The price that the offer ends in is that of the
    /// transaction, and what is more than that is an increase, whatever the item's offer.
    @Test(arguments: ["PENDING", "SCHEDULED"])
    func increase_inKoreaDuringAnOffer_isNoConversion(status: String) {
        func told(_ days: Int64, _ status: String) -> SubscriptionEvent {
            var told = korean(status, days, "PRICE_INCREASE", status)
            told.renewal?.items = [Story.renewing(price: 10990, status: status, to: 10990)]
            return told
        }
        var paid = Story.event(
            31, "DID_RENEW", purchasedOn: 31, charged: [Story.charged(price: 10990)],
            renewing: [Story.renewing(price: 10990)])
        paid.transaction?.storefront = "KOR"

        let state = Story.fold(
            [
                korean(nil, 0, "SUBSCRIBED", "INITIAL_BUY"), told(4, status), told(5, "ACCEPTED"),
                paid,
            ], []
        ).state

        #expect(state.increases.map(\.origin) == [.elsewhere])
        #expect(state.increases.map(\.effectiveAt) == [Story.at(31)])
    }

    @Test func increase_thatNoChangeOfOursExplains_isRecordedAsMadeElsewhere() {
        let told = Story.event(
            4, "PRICE_INCREASE", "ACCEPTED", charged: [Story.charged()],
            renewing: [Story.renewing(price: 12990, status: "ACCEPTED", to: 12990)])

        #expect(Story.fold([Story.bought, told], []).state.increases.map(\.origin) == [.elsewhere])
        #expect(Story.fold([Story.bought, Story.pending]).state.increases.map(\.origin) == [nil])
    }
}

import Pricing
import Testing

private typealias Story = LifecycleStory

/// An EXPIRED that the App Store signs after the customer has come back is about what expired, not about what runs.
@Suite struct FormerEndTests {
    private var returned: SubscriptionEvent {
        var event = Story.event(
            32, "SUBSCRIBED", "RESUBSCRIBE", purchasedOn: 32, charged: [Story.charged()],
            renewing: [Story.renewing()])
        event.transaction?.reason = "PURCHASE"
        return event
    }

    private func expired(_ day: Int64, _ subtype: String, status: Int?) -> SubscriptionEvent {
        Story.event(
            day, "EXPIRED", subtype, status: status, charged: [Story.charged()],
            renewing: [], autoRenew: 0, intent: 3)
    }

    @Test(arguments: [1, 2, nil])
    func signedAfterTheReturn_theSubscriptionRuns(status: Int?) {
        let late = expired(33, "PRICE_INCREASE", status: status)

        let (before, _) = Story.fold([Story.bought, returned])
        let (state, _) = Story.fold([Story.bought, returned, late])

        var expected = before.facts
        expected.signedAt = late.key.signedAt
        #expect(state.facts == expected)
        #expect(state.facts.status == 1)
        #expect(state.facts.autoRenews == true)
    }

    @Test func signedAfterTheReturn_theSubscriberHadDeclined() {
        let asked = [Story.bought, Story.priceChange, Story.pending]

        let inOrder = Story.states(asked + [expired(31, "PRICE_INCREASE", status: 2), returned])
        let late = Story.states(asked + [returned, expired(33, "PRICE_INCREASE", status: 2)])

        #expect(inOrder.last == "change-A declined")
        #expect(late.last == inOrder.last)
        #expect(late.dropLast().last?.hasSuffix("invalidated") == true)
    }

    @Test func signedAfterTheReturn_whoLeftAfterConsentHasLeft() {
        let consented = [Story.bought, Story.priceChange, Story.pending, Story.accepted]

        let (state, lines) = Story.fold(
            consented + [returned, expired(33, "VOLUNTARY", status: 2)])

        #expect(state.changes[0].progress.state == .cancelled)
        #expect(lines.last?.reason == "left_voluntarily")
    }

    /// The renewals since the return do not hide that the customer came back.
    @Test func signedMonthsAfterTheReturn_theSubscriptionRuns() {
        var renewed = Story.event(
            63, "DID_RENEW", purchasedOn: 63, charged: [Story.charged()],
            renewing: [Story.renewing()])
        renewed.renewal?.recentSubscriptionStartAt = Story.at(32)

        let late = expired(64, "PRICE_INCREASE", status: 2)
        #expect(Story.fold([Story.bought, returned, renewed, late]).state.facts.status == 1)

        // Without a return, a statement of the end is about what runs.
        renewed.renewal?.recentSubscriptionStartAt = nil
        #expect(Story.fold([Story.bought, renewed, late]).state.facts.status == 2)
    }

    /// The change that was called in the new cycle is not the one that was declined.
    @Test func signedAfterTheReturn_aChangeOfTheNewCycleGoesOn() {
        var change = Story.change()
        change.sentAt = Story.at(33)
        var scheduled = Story.event(
            33, "PRICE_CHANGE", id: "33-told", purchasedOn: 32, charged: [Story.charged()],
            renewing: [Story.renewing(status: "SCHEDULED")])
        scheduled.transaction?.reason = "PURCHASE"

        let (state, _) = Story.fold(
            [Story.bought, returned, scheduled, expired(34, "PRICE_INCREASE", status: 2)], [change])

        #expect(state.changes[0].progress.state == .scheduled)
    }
}

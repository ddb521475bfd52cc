import Testing

@testable import Pricing

/// An unsigned hint yields to every signed statement of its time or later, and moves no change.
@Suite struct LifecycleLegacyTests {
    static let id = "2000000012345678"

    static func signed(_ at: Int64, autoRenews: Int) -> SubscriptionEvent {
        SubscriptionEvent(
            key: .init(signedAt: Instant(milliseconds: at), evidenceID: "signed-\(at)"),
            source: .notification, originalTransactionID: id, type: "DID_RENEW", status: 1,
            transaction: TransactionStatement(
                expiresAt: Instant(milliseconds: 900), items: [.init(sku: "A", price: 10)]),
            renewal: RenewalStatement(
                autoRenewStatus: autoRenews, items: [.init(sku: "A", price: 10)]))
    }

    static func hint(_ at: Int64) -> SubscriptionEvent {
        SubscriptionEvent(
            key: .init(signedAt: Instant(milliseconds: at), evidenceID: "v1:\(at)"),
            source: .legacy, originalTransactionID: id, type: "DID_CHANGE_RENEWAL_STATUS",
            legacy: LegacyStatement(
                autoRenews: false, isInBillingRetry: true, expiresAt: Instant(milliseconds: 800)))
    }

    static func facts(_ events: [SubscriptionEvent]) -> SubscriptionFacts {
        var state = SubscriptionState(originalTransactionID: id, changes: [])
        let transitions = Lifecycle.fold(events.sorted { $0.key < $1.key }, into: &state)
        #expect(transitions.isEmpty)
        return state.facts
    }

    @Test func hint_afterTheSignedOnes_tellsRenewalAndRetryOnly() {
        let before = Self.facts([Self.signed(100, autoRenews: 1)])
        let after = Self.facts([Self.signed(100, autoRenews: 1), Self.hint(200)])

        var expected = before
        expected.autoRenews = false
        expected.isInBillingRetry = true
        #expect(after == expected)
    }

    @Test(arguments: [100, 99] as [Int64])
    func hint_ofTheSameOrAnEarlierTime_changesNothing(_ at: Int64) {
        let signed = [Self.signed(50, autoRenews: 1), Self.signed(100, autoRenews: 1)]

        #expect(Self.facts(signed + [Self.hint(at)]) == Self.facts(signed))
    }

    @Test func hint_aboutAnUnknownSubscription_changesNothing() {
        #expect(
            Self.facts([Self.hint(100)]) == SubscriptionFacts(originalTransactionID: Self.id))
    }

    @Test func hint_refutedBySignedStatementLater_isForgotten() {
        let signed = [Self.signed(100, autoRenews: 1), Self.signed(300, autoRenews: 1)]

        #expect(Self.facts(signed + [Self.hint(200)]) == Self.facts(signed))
    }
}

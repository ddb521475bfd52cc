import Extensions
import TestSupport
import Testing

@testable import Pricing

/// An ordinary subscription in its free trial: known from what Apple signed, through the database, to the judgement.
@Suite(.database) struct FreeTrialTests {
    @Test func freeTrial_ofAnOrdinarySubscription_allowsNoExtensionUntilAPeriodIsPaid() async throws
    {
        let harness = try await DeliveryHarness.make()
        func period(_ start: Int64, _ type: String, _ discount: String?) -> SubscriptionEvent {
            SubscriptionEvent(
                key: .init(signedAt: harness.at(start), evidenceID: "period-\(start)"),
                source: .notification, originalTransactionID: "1", type: type, status: 1,
                transaction: TransactionStatement(
                    transactionID: "t\(start)", productID: "monthly",
                    purchasedAt: harness.at(start), expiresAt: harness.at(start + 30),
                    storefront: "USA", currency: "USD", price: discount == nil ? 4990 : 0,
                    offerDiscountType: discount),
                renewal: RenewalStatement(autoRenewStatus: 1, renewalAt: harness.at(start + 30)))
        }

        try await harness.tell(period(0, "SUBSCRIBED", "FREE_TRIAL"))
        let free = try await ExtensionForecast.obstacle(
            of: "1", now: harness.at(1), pool: harness.submitter)
        try await harness.tell(period(30, "DID_RENEW", nil))
        let paid = try await ExtensionForecast.obstacle(
            of: "1", now: harness.at(31), pool: harness.submitter)
        // Told late: of an earlier period than the one that runs.
        try await harness.tell(period(0, "OFFER_REDEEMED", "FREE_TRIAL").signed(at: harness.at(32)))
        let still = try await ExtensionForecast.obstacle(
            of: "1", now: harness.at(33), pool: harness.submitter)

        #expect(free == .freeOffer)
        #expect(paid == nil)
        #expect(still == nil)
        await harness.close()
    }
}

extension SubscriptionEvent {
    fileprivate func signed(at instant: Instant) -> SubscriptionEvent {
        var event = self
        event.key = .init(signedAt: instant, evidenceID: "late")
        return event
    }
}

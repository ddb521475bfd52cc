/// What is known of one subscription, from the newest signed payloads; never what we intend.
///
/// Prices are milliunits. Each optional is a value that Apple has not sent (yet). A storefront, currency or
/// offer reason that nobody knows is kept as its text: an unknown value never fails.
package struct SubscriptionFacts: Hashable, Sendable {
    package var originalTransactionID: String
    /// Apple's `status`: 1 active, 2 expired, 3 billing retry, 4 grace period, 5 revoked.
    package var status: Int?
    package var autoRenews: Bool?
    package var isInBillingRetry = false
    package var gracePeriodExpiresAt: Instant?
    package var expirationIntent: Int?
    package var storefront: String?
    package var currency: String?
    /// `P1W`, `P1M`, `P2M`, `P3M`, `P6M`, `P1Y`, or a text nobody knows.
    package var period: String?
    package var productID: String?
    package var appAccountToken: String?
    /// Apple's `inAppOwnershipType`: `PURCHASED`, `FAMILY_SHARED`, or a text nobody knows.
    package var ownershipType: String?
    /// Shared by who bought it: it has no price of its own, and Apple refuses calls for it.
    package var isFamilyMembers: Bool { ownershipType == "FAMILY_SHARED" }
    /// Of the running period of an ordinary subscription: `FREE_TRIAL`, ….
    package var offerDiscountType: String?
    /// Of the running period, as Apple codes it; nil: no offer.
    package var offerType: Int?
    package var quantity: Int?
    /// Why the running period was charged: `PURCHASE`, `RENEWAL`, or a text nobody knows.
    package var transactionReason: String?
    /// The download that it was bought in.
    package var appTransactionID: String?
    /// The product that renews: another than `productID` where a change of it is pending.
    package var autoRenewProductID: String?
    /// What the next period costs as a whole, in milliunits of `renewalCurrency`; nil where the newest renewal info
    /// doesn't say.
    package var renewalTotal: Int64?
    package var renewalCurrency: String?
    /// Of the next period; nil: no offer.
    package var renewalOfferType: Int?
    /// What else the transaction of the running period says, and what the newest renewal info.
    package var transactionDetails = SignedDetails()
    package var renewalDetails = SignedDetails()
    package var latestTransactionID: String?
    package var originalPurchaseAt: Instant?
    package var recentSubscriptionStartAt: Instant?
    /// Start of the running period: `purchaseDate` of the latest transaction.
    package var purchasedAt: Instant?
    package var expiresAt: Instant?
    package var renewalAt: Instant?
    package var consistencyToken: String?
    package var items: [Item] = []
    /// `signedDate` of the newest payload folded in.
    package var signedAt: Instant?
    /// Start of the earliest period from which on statements tell what was charged: an increase since then was noticed.
    package var knownSince: Instant?

    /// One SKU of the bundle, as charged now and as set to renew.
    package struct Item: Hashable, Sendable {
        package var sku: String
        /// Full price of the running period (transaction info, list price without the offer); nil when the
        /// item only joins at the renewal.
        package var currentPrice: Int64?
        /// `items[].price` of the renewal info; while an increase is PENDING this is already the higher one.
        package var renewalPrice: Int64?
        /// Whether the renewal info lists the SKU.
        package var renews = false
        package var offer: Offer?
        package var increase: Increase?
        /// The SKU of the running period's transaction, where a rename is newer than it.
        package var chargedAs: String?
    }

    /// An offer that runs on an item. `periodsLeft` counts periods from the next renewal on, from the renewal
    /// info; 0 or nil when the offer ends with the running period.
    package struct Offer: Hashable, Sendable {
        package var price: Int64?
        package var period: String?
        package var periodsLeft: Int?
        package var reason: String?
        /// Whether the running period (transaction info) was charged at the offer's price.
        package var isRunning = false
    }

    /// Apple's `priceIncreaseInfo` of a renewal item.
    package struct Increase: Hashable, Sendable {
        /// `SCHEDULED`, `PENDING`, `ACCEPTED`, or a text nobody knows.
        package var status: String
        package var price: Int64?
        package var dependentSKUs: [String] = []
    }
}

extension SubscriptionFacts {
    /// Whether a further period of the item will be charged, as far as is known: not where the subscription ended (2 expired,
    /// 5 revoked) or its renewal is off.
    func isSetToRenew(_ sku: String) -> Bool {
        autoRenews != false && status != 2 && status != 5
            && items.contains { $0.sku == sku && $0.renews }
    }
}

// What must be known of each; the rest is set as it is read.
extension SubscriptionFacts {
    package init(originalTransactionID: String) {
        self.originalTransactionID = originalTransactionID
    }
}

extension SubscriptionFacts.Item {
    package init(sku: String) { self.sku = sku }
}

extension SubscriptionFacts.Offer {
    package init(price: Int64?) { self.price = price }
}

extension SubscriptionFacts.Increase {
    package init(status: String) { self.status = status }
}

extension SubscriptionFacts {
    /// Whether the item renews at this price, or an announced increase brings it, whoever asked for that.
    package func bears(_ price: Int64, for sku: String) -> Bool {
        items.contains { $0.sku == sku && ($0.increase?.price ?? $0.renewalPrice) == price }
    }
}

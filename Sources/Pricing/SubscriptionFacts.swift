/// What is known of one subscription, from the newest signed payloads; never what we intend.
///
/// Prices are milliunits. Each optional is a value that Apple has not sent (yet). A storefront, currency or
/// offer reason that nobody knows is kept as its text: an unknown value never fails.
package struct SubscriptionFacts: Hashable, Sendable {
    package var originalTransactionID: String
    /// Apple's `status`: 1 active, 2 expired, 3 billing retry, 4 grace period, 5 revoked.
    package var status: Int?
    package var autoRenews: Bool?
    package var isInBillingRetry: Bool
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
    /// Of the running period of an ordinary subscription: `FREE_TRIAL`, ….
    package var offerDiscountType: String?
    package var latestTransactionID: String?
    package var originalPurchaseAt: Instant?
    package var recentSubscriptionStartAt: Instant?
    /// Start of the running period: `purchaseDate` of the latest transaction.
    package var purchasedAt: Instant?
    package var expiresAt: Instant?
    package var renewalAt: Instant?
    package var consistencyToken: String?
    package var items: [Item]
    /// `signedDate` of the newest payload folded in.
    package var signedAt: Instant?

    /// One SKU of the bundle, as charged now and as set to renew.
    package struct Item: Hashable, Sendable {
        package var sku: String
        /// Full price of the running period (transaction info, list price without the offer); nil when the
        /// item only joins at the renewal.
        package var currentPrice: Int64?
        /// `items[].price` of the renewal info; while an increase is PENDING this is already the higher one.
        package var renewalPrice: Int64?
        /// Whether the renewal info lists the SKU.
        package var renews: Bool
        package var offer: Offer?
        package var increase: Increase?
        /// The SKU of the running period's transaction, where a rename is newer than it.
        package var chargedAs: String?

        package init(
            sku: String,
            currentPrice: Int64? = nil,
            renewalPrice: Int64? = nil,
            renews: Bool = false,
            offer: Offer? = nil,
            increase: Increase? = nil,
            chargedAs: String? = nil
        ) {
            self.sku = sku
            self.currentPrice = currentPrice
            self.renewalPrice = renewalPrice
            self.renews = renews
            self.offer = offer
            self.increase = increase
            self.chargedAs = chargedAs
        }
    }

    /// An offer that runs on an item. `periodsLeft` counts periods from the next renewal on, from the renewal
    /// info; 0 or nil when the offer ends with the running period.
    package struct Offer: Hashable, Sendable {
        package var price: Int64?
        package var period: String?
        package var periodsLeft: Int?
        package var reason: String?
        /// Whether the running period (transaction info) was charged at the offer's price.
        package var isRunning: Bool

        package init(
            price: Int64? = nil,
            period: String? = nil,
            periodsLeft: Int? = nil,
            reason: String? = nil,
            isRunning: Bool = false
        ) {
            self.price = price
            self.period = period
            self.periodsLeft = periodsLeft
            self.reason = reason
            self.isRunning = isRunning
        }
    }

    /// Apple's `priceIncreaseInfo` of a renewal item.
    package struct Increase: Hashable, Sendable {
        /// `SCHEDULED`, `PENDING`, `ACCEPTED`, or a text nobody knows.
        package var status: String
        package var price: Int64?
        package var dependentSKUs: [String]

        package init(
            status: String,
            price: Int64? = nil,
            dependentSKUs: [String] = []
        ) {
            self.status = status
            self.price = price
            self.dependentSKUs = dependentSKUs
        }
    }

    package init(
        originalTransactionID: String,
        status: Int? = nil,
        autoRenews: Bool? = nil,
        isInBillingRetry: Bool = false,
        gracePeriodExpiresAt: Instant? = nil,
        expirationIntent: Int? = nil,
        storefront: String? = nil,
        currency: String? = nil,
        period: String? = nil,
        productID: String? = nil,
        appAccountToken: String? = nil,
        latestTransactionID: String? = nil,
        originalPurchaseAt: Instant? = nil,
        recentSubscriptionStartAt: Instant? = nil,
        purchasedAt: Instant? = nil,
        expiresAt: Instant? = nil,
        renewalAt: Instant? = nil,
        consistencyToken: String? = nil,
        items: [Item] = [],
        signedAt: Instant? = nil
    ) {
        self.originalTransactionID = originalTransactionID
        self.status = status
        self.autoRenews = autoRenews
        self.isInBillingRetry = isInBillingRetry
        self.gracePeriodExpiresAt = gracePeriodExpiresAt
        self.expirationIntent = expirationIntent
        self.storefront = storefront
        self.currency = currency
        self.period = period
        self.productID = productID
        self.appAccountToken = appAccountToken
        self.latestTransactionID = latestTransactionID
        self.originalPurchaseAt = originalPurchaseAt
        self.recentSubscriptionStartAt = recentSubscriptionStartAt
        self.purchasedAt = purchasedAt
        self.expiresAt = expiresAt
        self.renewalAt = renewalAt
        self.consistencyToken = consistencyToken
        self.items = items
        self.signedAt = signedAt
    }
}

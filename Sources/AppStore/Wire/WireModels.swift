/// `advancedCommerceInfo.items[].offer`, alike in transactions and renewals.
struct WireOffer: Decodable {
    @Lenient var price: Int64?
    @Lenient var period: WireText?
    @Lenient var periodCount: Int?
    @Lenient var reason: WireText?
}

/// The decoded payload of a `signedTransactionInfo`, as far as we use it.
struct WireTransaction: Decodable {
    @Lenient var originalTransactionId: WireText?
    @Lenient var transactionId: WireText?
    @Lenient var bundleId: WireText?
    @Lenient var environment: WireText?
    @Lenient var type: WireText?
    @Lenient var productId: WireText?
    @Lenient var appAccountToken: WireText?
    @Lenient var purchaseDate: WireInstant?
    @Lenient var originalPurchaseDate: WireInstant?
    @Lenient var expiresDate: WireInstant?
    @Lenient var revocationDate: WireInstant?
    @Lenient var signedDate: WireInstant?
    @Lenient var transactionReason: WireText?
    @Lenient var storefront: WireText?
    @Lenient var currency: WireText?
    @Lenient var price: Int64?
    @Lenient var advancedCommerceInfo: Info?

    struct Info: Decodable {
        @Lenient var period: WireText?
        @Lenient var items: WireList<Item>?
    }

    struct Item: Decodable {
        var SKU: WireText
        @Lenient var price: Int64?
        @Lenient var offer: WireOffer?
        @Lenient var revocationDate: WireInstant?
    }
}

/// The decoded payload of a `signedRenewalInfo`, as far as we use it.
struct WireRenewal: Decodable {
    @Lenient var originalTransactionId: WireText?
    @Lenient var environment: WireText?
    @Lenient var productId: WireText?
    @Lenient var autoRenewStatus: Int?
    @Lenient var isInBillingRetryPeriod: Bool?
    @Lenient var expirationIntent: Int?
    @Lenient var gracePeriodExpiresDate: WireInstant?
    @Lenient var renewalDate: WireInstant?
    @Lenient var recentSubscriptionStartDate: WireInstant?
    @Lenient var signedDate: WireInstant?
    @Lenient var currency: WireText?
    @Lenient var appAccountToken: WireText?
    @Lenient var advancedCommerceInfo: Info?

    struct Info: Decodable {
        @Lenient var consistencyToken: WireText?
        @Lenient var period: WireText?
        @Lenient var items: WireList<Item>?
    }

    struct Item: Decodable {
        var SKU: WireText
        @Lenient var price: Int64?
        @Lenient var offer: WireOffer?
        @Lenient var priceIncreaseInfo: Increase?
    }

    struct Increase: Decodable {
        @Lenient var status: WireText?
        @Lenient var price: Int64?
        @Lenient var dependentSKUs: WireList<WireText>?
    }
}

/// The decoded payload of a notification: one of the four containers, by its kind.
struct WireNotification: Decodable {
    @Lenient var notificationType: WireText?
    @Lenient var subtype: WireText?
    @Lenient var notificationUUID: WireText?
    @Lenient var signedDate: WireInstant?
    @Lenient var data: Container?
    @Lenient var summary: Container?
    @Lenient var appData: Container?
    @Lenient var externalPurchaseToken: Container?
    /// No notification has it; a transaction posted in a notification's place does.
    @Lenient var bundleId: WireText?

    /// The union of the containers' fields.
    struct Container: Decodable {
        @Lenient var appAppleId: Int64?
        @Lenient var bundleId: WireText?
        @Lenient var environment: WireText?
        @Lenient var status: Int?
        @Lenient var signedTransactionInfo: String?
        @Lenient var signedRenewalInfo: String?
        @Lenient var externalPurchaseId: WireText?
    }
}

/// Only the time of signing, which is read before the signature is proved.
struct WireSignedDate: Decodable {
    @Lenient var signedDate: WireInstant?
}

/// `JWSTransactionDecodedPayload`, as far as this store fills it. A nil is left out.
struct TransactionPayload: Encodable, Sendable {
    var originalTransactionId: String
    var transactionId: String
    var webOrderLineItemId: String
    var bundleId: String
    var productId: String
    var subscriptionGroupIdentifier: String
    var purchaseDate: Int64
    var originalPurchaseDate: Int64
    var expiresDate: Int64
    var quantity = 1
    var type = "Auto-Renewable Subscription"
    var appAccountToken: String
    var inAppOwnershipType = "PURCHASED"
    var signedDate: Int64
    var revocationReason: Int?
    var revocationDate: Int64?
    var environment: String
    var storefront: String
    var storefrontId: String
    var transactionReason: String
    var additionalTransactionReason: String?
    var price: Int64
    var currency: String
    var appTransactionId: String
    var advancedCommerceInfo: Commerce

    struct Commerce: Encodable, Sendable {
        var descriptors = DescriptorsPayload()
        var estimatedTax: Int64 = 0
        var taxExclusivePrice: Int64
        var taxRate = "0"
        var taxCode = "C003-00-1"
        var period: String
        var requestReferenceId: String
        var items: [Item]
    }

    struct Item: Encodable, Sendable {
        var SKU: String
        var displayName: String
        var description: String
        var price: Int64
        var offer: OfferPayload?
        var refunds: [Refund]?
        var revocationDate: Int64?
    }

    struct Refund: Encodable, Sendable {
        var refundAmount: Int64
        var refundDate: Int64
        var refundReason: String
        var refundType: String
    }
}

/// `JWSRenewalInfoDecodedPayload`, as far as this store fills it.
struct RenewalPayload: Encodable, Sendable {
    var originalTransactionId: String
    var autoRenewProductId: String
    var productId: String
    var autoRenewStatus: Int
    var isInBillingRetryPeriod: Bool
    var expirationIntent: Int?
    var priceIncreaseStatus: Int?
    var gracePeriodExpiresDate: Int64?
    var signedDate: Int64
    var environment: String
    var recentSubscriptionStartDate: Int64
    var renewalDate: Int64
    /// The price per seat.
    var renewalPrice: Int64?
    var renewalQuantity: Int?
    var currency: String
    var appTransactionId: String
    var appAccountToken: String
    var advancedCommerceInfo: Commerce?

    struct Commerce: Encodable, Sendable {
        var consistencyToken: String
        var descriptors = DescriptorsPayload()
        var items: [Item]
        var period: String
        var requestReferenceId: String
        var taxCode = "C003-00-1"
    }

    struct Item: Encodable, Sendable {
        var SKU: String
        var displayName: String
        var description: String
        var price: Int64
        var offer: OfferPayload?
        var priceIncreaseInfo: Increase?
    }

    struct Increase: Encodable, Sendable {
        var status: String
        var price: Int64
        var dependentSKUs: [String]?
    }
}

struct DescriptorsPayload: Encodable, Sendable {
    var displayName = "Stream Bundle"
    var description = "Channels and extras"
}

struct OfferPayload: Encodable, Sendable {
    var price: Int64
    var period: String
    var periodCount: Int
    var reason: String
}

/// `responseBodyV2DecodedPayload`.
struct NotificationPayload: Encodable, Sendable {
    var notificationType: String
    var subtype: String?
    var notificationUUID: String
    var version = "2.0"
    var signedDate: Int64
    var data: Facts?
    var summary: SummaryPayload?

    struct Facts: Encodable, Sendable {
        var appAppleId: Int64?
        var bundleId: String
        var bundleVersion = "1.0"
        var environment: String
        var status: Int?
        var signedTransactionInfo: String?
        var signedRenewalInfo: String?
    }
}

/// `summary` of `RENEWAL_EXTENSION`/`SUMMARY`.
struct SummaryPayload: Encodable, Sendable {
    var requestIdentifier: String
    var environment: String
    var appAppleId: Int64?
    var bundleId: String
    var productId: String
    var storefrontCountryCodes: [String]?
    var succeededCount: Int64
    var failedCount: Int64

    init(_ summary: MassSummary, _ identity: StoreIdentity) {
        requestIdentifier = summary.requestIdentifier
        environment = identity.environment
        appAppleId = identity.environment == "Production" ? identity.appAppleID : nil
        bundleId = identity.bundleID
        productId = summary.productID
        storefrontCountryCodes = summary.storefronts
        succeededCount = summary.succeeded
        failedCount = summary.failed
    }
}

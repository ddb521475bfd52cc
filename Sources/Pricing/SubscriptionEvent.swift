/// One signed statement about one subscription, decoded: a notification, a response to our call, or a status
/// that we read. The projector folds them in the order of `key`.
package struct SubscriptionEvent: Hashable, Sendable {
    /// The order of folding: Apple's `signedDate`, and where two statements of a subscription bear the same
    /// millisecond, the evidence id, byte by byte (`notificationUUID`, our `requestReferenceId`, the digest of a
    /// status). The second part says nothing of what came first; it only makes every order of arrival fold alike.
    ///
    /// A notification is dated by its outer `signedDate`, an answer or a status by that of its renewal info.
    package struct Key: Hashable, Comparable, Sendable {
        package var signedAt: Instant
        package var evidenceID: String

        package init(signedAt: Instant, evidenceID: String) {
            self.signedAt = signedAt
            self.evidenceID = evidenceID
        }

        package static func < (left: Key, right: Key) -> Bool {
            if left.signedAt != right.signedAt { return left.signedAt < right.signedAt }
            return left.evidenceID.utf8.lexicographicallyPrecedes(right.evidenceID.utf8)
        }
    }

    package enum Source: String, Hashable, Sendable {
        case notification, response, status
        /// A V1 notification: unsigned, and coarser than what Apple signs. It moves no change and
        /// no price, and yields to every signed statement of its time or a later one.
        case legacy
    }

    package var key: Key
    package var source: Source
    package var originalTransactionID: String
    /// `notificationType` as Apple wrote it; nil for responses and statuses.
    package var type: String?
    package var subtype: String?
    package var status: Int?
    package var transaction: TransactionStatement?
    package var renewal: RenewalStatement?
    /// Fields whose values mean nothing and were left out; nil for almost all statements.
    package var ignored: [String]?
    /// Only of the source `legacy`, which has nothing else.
    package var legacy: LegacyStatement?

    package init(
        key: Key,
        source: Source,
        originalTransactionID: String,
        type: String? = nil,
        subtype: String? = nil,
        status: Int? = nil,
        transaction: TransactionStatement? = nil,
        renewal: RenewalStatement? = nil,
        legacy: LegacyStatement? = nil
    ) {
        self.key = key
        self.source = source
        self.originalTransactionID = originalTransactionID
        self.type = type
        self.subtype = subtype
        self.status = status
        self.transaction = transaction
        self.renewal = renewal
        self.legacy = legacy
    }
}

/// What a V1 notification says that an unsigned source may tell: nothing of prices, consent, items or
/// the renewal's date. nil is silence.
package struct LegacyStatement: Hashable, Sendable {
    package var autoRenews: Bool?
    package var isInBillingRetry: Bool?
    package var gracePeriodExpiresAt: Instant?
    package var expiresAt: Instant?

    package init(
        autoRenews: Bool? = nil, isInBillingRetry: Bool? = nil,
        gracePeriodExpiresAt: Instant? = nil, expiresAt: Instant? = nil
    ) {
        self.autoRenews = autoRenews
        self.isInBillingRetry = isInBillingRetry
        self.gracePeriodExpiresAt = gracePeriodExpiresAt
        self.expiresAt = expiresAt
    }

    package var isSilent: Bool { self == LegacyStatement() }
}

/// What a verified `signedTransactionInfo` says, reduced to what the domain uses.
package struct TransactionStatement: Hashable, Sendable {
    package var transactionID: String?
    package var productID: String?
    package var appAccountToken: String?
    /// `PURCHASED` or `FAMILY_SHARED`.
    package var ownershipType: String?
    package var purchasedAt: Instant?
    package var originalPurchaseAt: Instant?
    package var expiresAt: Instant?
    package var revokedAt: Instant?
    /// `PURCHASE` or `RENEWAL`.
    package var reason: String?
    package var storefront: String?
    package var currency: String?
    package var price: Int64?
    package var period: String?
    /// `FREE_TRIAL`, `PAY_AS_YOU_GO`, `PAY_UP_FRONT` or `ONE_TIME`, of an ordinary subscription.
    package var offerDiscountType: String?
    package var items: [Item]

    package struct Item: Hashable, Sendable {
        package var sku: String
        package var price: Int64?
        package var offerPrice: Int64?
        package var offerPeriod: String?
        package var offerPeriodCount: Int?
        package var offerReason: String?
        package var revokedAt: Instant?

        package init(
            sku: String,
            price: Int64? = nil,
            offerPrice: Int64? = nil,
            offerPeriod: String? = nil,
            offerPeriodCount: Int? = nil,
            offerReason: String? = nil,
            revokedAt: Instant? = nil
        ) {
            self.sku = sku
            self.price = price
            self.offerPrice = offerPrice
            self.offerPeriod = offerPeriod
            self.offerPeriodCount = offerPeriodCount
            self.offerReason = offerReason
            self.revokedAt = revokedAt
        }
    }

    package init(
        transactionID: String? = nil,
        productID: String? = nil,
        appAccountToken: String? = nil,
        ownershipType: String? = nil,
        purchasedAt: Instant? = nil,
        originalPurchaseAt: Instant? = nil,
        expiresAt: Instant? = nil,
        revokedAt: Instant? = nil,
        reason: String? = nil,
        storefront: String? = nil,
        currency: String? = nil,
        price: Int64? = nil,
        period: String? = nil,
        offerDiscountType: String? = nil,
        items: [Item] = []
    ) {
        self.transactionID = transactionID
        self.productID = productID
        self.appAccountToken = appAccountToken
        self.ownershipType = ownershipType
        self.purchasedAt = purchasedAt
        self.originalPurchaseAt = originalPurchaseAt
        self.expiresAt = expiresAt
        self.revokedAt = revokedAt
        self.reason = reason
        self.storefront = storefront
        self.currency = currency
        self.price = price
        self.period = period
        self.offerDiscountType = offerDiscountType
        self.items = items
    }
}

/// What a verified `signedRenewalInfo` says, reduced to what the domain uses.
package struct RenewalStatement: Hashable, Sendable {
    package var productID: String?
    package var autoRenewStatus: Int?
    package var isInBillingRetry: Bool?
    package var expirationIntent: Int?
    package var gracePeriodExpiresAt: Instant?
    package var renewalAt: Instant?
    package var recentSubscriptionStartAt: Instant?
    package var currency: String?
    package var appAccountToken: String?
    package var consistencyToken: String?
    package var period: String?
    /// nil when the payload carries no `advancedCommerceInfo`.
    package var items: [Item]?

    package struct Item: Hashable, Sendable {
        package var sku: String
        package var price: Int64?
        package var offerPrice: Int64?
        package var offerPeriod: String?
        package var offerPeriodCount: Int?
        package var offerReason: String?
        package var increaseStatus: String?
        package var increasePrice: Int64?
        package var dependentSKUs: [String]?

        package init(
            sku: String,
            price: Int64? = nil,
            offerPrice: Int64? = nil,
            offerPeriod: String? = nil,
            offerPeriodCount: Int? = nil,
            offerReason: String? = nil,
            increaseStatus: String? = nil,
            increasePrice: Int64? = nil,
            dependentSKUs: [String]? = nil
        ) {
            self.sku = sku
            self.price = price
            self.offerPrice = offerPrice
            self.offerPeriod = offerPeriod
            self.offerPeriodCount = offerPeriodCount
            self.offerReason = offerReason
            self.increaseStatus = increaseStatus
            self.increasePrice = increasePrice
            self.dependentSKUs = dependentSKUs
        }
    }

    package init(
        productID: String? = nil,
        autoRenewStatus: Int? = nil,
        isInBillingRetry: Bool? = nil,
        expirationIntent: Int? = nil,
        gracePeriodExpiresAt: Instant? = nil,
        renewalAt: Instant? = nil,
        recentSubscriptionStartAt: Instant? = nil,
        currency: String? = nil,
        appAccountToken: String? = nil,
        consistencyToken: String? = nil,
        period: String? = nil,
        items: [Item]? = nil
    ) {
        self.productID = productID
        self.autoRenewStatus = autoRenewStatus
        self.isInBillingRetry = isInBillingRetry
        self.expirationIntent = expirationIntent
        self.gracePeriodExpiresAt = gracePeriodExpiresAt
        self.renewalAt = renewalAt
        self.recentSubscriptionStartAt = recentSubscriptionStartAt
        self.currency = currency
        self.appAccountToken = appAccountToken
        self.consistencyToken = consistencyToken
        self.period = period
        self.items = items
    }
}

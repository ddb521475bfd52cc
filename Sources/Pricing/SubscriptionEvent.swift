/// One signed statement about one subscription, decoded: a notification, a response to our call, or a status
/// that we read. The projector folds them in the order of `key`.
package struct SubscriptionEvent: Hashable, Sendable {
    /// Ties in `signedAt` are broken by the evidence id, so that any order of arrival folds alike.
    package struct Key: Hashable, Comparable, Sendable {
        package var signedAt: Instant
        package var evidenceID: String

        package init(signedAt: Instant, evidenceID: String) {
            self.signedAt = signedAt
            self.evidenceID = evidenceID
        }

        package static func < (left: Key, right: Key) -> Bool {
            (left.signedAt, left.evidenceID) < (right.signedAt, right.evidenceID)
        }
    }

    package enum Source: String, Hashable, Sendable, Codable {
        case notification, response, status
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
}

/// What a verified `signedTransactionInfo` says, reduced to what the domain uses.
package struct TransactionStatement: Hashable, Sendable, Codable {
    package var transactionID: String?
    package var productID: String?
    package var appAccountToken: String?
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
    package var items: [Item]

    package struct Item: Hashable, Sendable, Codable {
        package var sku: String
        package var price: Int64?
        package var offerPrice: Int64?
        package var offerPeriod: String?
        package var offerPeriodCount: Int?
        package var offerReason: String?
        package var revokedAt: Instant?
    }
}

/// What a verified `signedRenewalInfo` says, reduced to what the domain uses.
package struct RenewalStatement: Hashable, Sendable, Codable {
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

    package struct Item: Hashable, Sendable, Codable {
        package var sku: String
        package var price: Int64?
        package var offerPrice: Int64?
        package var offerPeriod: String?
        package var offerPeriodCount: Int?
        package var offerReason: String?
        package var increaseStatus: String?
        package var increasePrice: Int64?
        package var dependentSKUs: [String]?
    }
}

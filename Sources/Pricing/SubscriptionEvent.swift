/// One signed statement about one subscription, decoded: a notification, an answer to a call of ours, or a status
/// that we read. The projector folds them in the order of `key`.
package struct SubscriptionEvent: Hashable, Sendable {
    /// The order of folding: Apple's `signedDate` and, for statements of the same millisecond, the evidence id byte by
    /// byte (`notificationUUID`, our `requestReferenceId`, the digest of a status). The second part does not show what
    /// came first; it only ensures that every order of arrival folds to the same result.
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
        /// A V1 notification. It is unsigned and less detailed than what Apple signs. It changes no price and moves no
        /// change, and every signed statement of its time or later overrides it.
        case legacy
    }

    package var key: Key
    package var source: Source
    package var originalTransactionID: String
    /// The `notificationType` as Apple wrote it; nil for answers and statuses.
    package var type: String?
    package var subtype: String?
    package var status: Int?
    package var transaction: TransactionStatement?
    package var renewal: RenewalStatement?
    /// The names of removed, meaningless values; nil for almost all statements.
    package var ignored: [String]?
    /// The content of the source `legacy`, which has nothing else.
    package var legacy: LegacyStatement?
}

/// The part of a V1 notification that we accept from an unsigned source. It has no prices, consent, items or renewal
/// date. nil means that the notification does not say.
package struct LegacyStatement: Hashable, Sendable {
    package var autoRenews: Bool?
    package var isInBillingRetry: Bool?
    package var gracePeriodExpiresAt: Instant?
    package var expiresAt: Instant?

    package var isSilent: Bool { self == LegacyStatement() }
}

/// What a verified `signedTransactionInfo` says, reduced to what the domain uses.
package struct TransactionStatement: Hashable, Sendable {
    package var transactionID: String?
    package var productID: String?
    package var appAccountToken: String?
    /// `PURCHASED`, `FAMILY_SHARED` or `ASSIGNED`.
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
    /// The `price` of all items together without the estimated tax in it.
    package var taxExclusivePrice: Int64?
    package var period: String?
    /// `FREE_TRIAL`, `PAY_AS_YOU_GO`, `PAY_UP_FRONT` or `ONE_TIME`, for an ordinary subscription.
    package var offerDiscountType: String?
    /// The type of its period's offer, as Apple codes it.
    package var offerType: Int?
    package var quantity: Int?
    package var appTransactionID: String?
    package var details = SignedDetails()
    package var items: [StatementItem] = []
    /// Whether an item could not be read. Then an item that is not listed may be charged nevertheless.
    package var isIncomplete = false
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
    /// The product that renews. It differs from `productID` where a change of it is pending.
    package var autoRenewProductID: String?
    /// The price of the whole subscription, in milliunits of `currency`.
    package var price: Int64?
    /// The type of the offer that the next period is charged at, as Apple codes it.
    package var offerType: Int?
    package var appTransactionID: String?
    package var details = SignedDetails()
    /// nil when the payload carries no `advancedCommerceInfo`.
    package var items: [StatementItem]?
}

/// What a statement says of one item: as charged in a transaction, or as set to renew in a renewal info.
package struct StatementItem: Hashable, Sendable {
    package var sku: String
    package var price: Int64?
    package var offerPrice: Int64?
    package var offerPeriod: String?
    package var offerPeriodCount: Int?
    package var offerReason: String?
    /// When it was revoked. Like the refunds, only a transaction has it.
    package var revokedAt: Instant?
    package var refunds: [StatementRefund] = []
    /// The status of its increase. Like what follows, only a renewal info has it.
    package var increaseStatus: String?
    package var increasePrice: Int64?
    package var dependentSKUs: [String]?

    /// Whether the running or the next period is charged at an offer's price.
    var isInOffer: Bool { offerPrice != nil || offerReason != nil || offerPeriod != nil }

    /// Whether the renewal info in the answer to a price change shows that the change was not applied: the item keeps its
    /// price, or is set to another one. An announcement without a price, an item without a price and one in an offer show
    /// neither, nor does a higher price where the change is due after the next renewal (inferences: Apple's pages do not say
    /// what an answer shows then). `newPrice` is in milliunits.
    package func contradicts(newPrice: Int64, isDueLater: Bool) -> Bool {
        guard price != newPrice, increasePrice != newPrice else { return false }
        guard increaseStatus == nil else { return increasePrice != nil }
        guard let price, !isInOffer else { return false }
        return !isDueLater || price < newPrice
    }
}

extension SubscriptionEvent {
    /// Whether it was signed too late for a price change to take effect at the renewal that it shows (Change Subscription
    /// Price: "no later than 24 hours before"). Its renewal info tells the price of that renewal alone.
    package var isTooLateForItsRenewal: Bool {
        renewal?.renewalAt.map { $0 < key.signedAt.advanced(by: Instant.millisecondsPerDay) }
            ?? false
    }
}

/// One full or partial refund of an item: `advancedCommerceInfo.items[].refunds[]`.
package struct StatementRefund: Hashable, Sendable {
    /// The amount in milliunits of the transaction's currency, positive.
    package var amount: Int64
    package var at: Instant

    package init(amount: Int64, at: Instant) {
        self.amount = amount
        self.at = at
    }
}

// Only the required values are parameters; the others are set while a statement is read.
extension SubscriptionEvent {
    package init(key: Key, source: Source, originalTransactionID: String) {
        self.key = key
        self.source = source
        self.originalTransactionID = originalTransactionID
    }
}

extension LegacyStatement {
    package init(autoRenews: Bool?) { self.autoRenews = autoRenews }
}

extension TransactionStatement {
    package init(items: [StatementItem]) { self.items = items }
}

extension RenewalStatement {
    package init(items: [StatementItem]?) { self.items = items }
}

extension StatementItem {
    package init(sku: String) { self.sku = sku }
}

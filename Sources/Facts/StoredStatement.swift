import Pricing

// The fields of `subscription_events.statement`.

extension SubscriptionEvent: StoredObject {
    static var unread: Self {
        Self(key: .unread, source: .notification, originalTransactionID: "")
    }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("key", &key)
        try fields.field("source", &source)
        try fields.field("originalTransactionID", &originalTransactionID)
        try fields.field("type", &type)
        try fields.field("subtype", &subtype)
        try fields.field("status", &status)
        try fields.field("transaction", &transaction)
        try fields.field("renewal", &renewal)
        try fields.field("ignored", &ignored)
        try fields.field("legacy", &legacy)
    }
}

extension SubscriptionEvent.Key: StoredObject {
    static var unread: Self { Self(signedAt: .unread, evidenceID: "") }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("evidenceID", &evidenceID)
        try fields.field("signedAt", &signedAt)
    }
}

extension TransactionStatement: StoredObject {
    static var unread: Self { Self(items: []) }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("transactionID", &transactionID)
        try fields.field("productID", &productID)
        try fields.field("appAccountToken", &appAccountToken)
        try fields.field("ownershipType", &ownershipType)
        try fields.field("purchasedAt", &purchasedAt)
        try fields.field("originalPurchaseAt", &originalPurchaseAt)
        try fields.field("expiresAt", &expiresAt)
        try fields.field("revokedAt", &revokedAt)
        try fields.field("reason", &reason)
        try fields.field("storefront", &storefront)
        try fields.field("currency", &currency)
        try fields.field("price", &price)
        try fields.field("taxExclusivePrice", &taxExclusivePrice)
        try fields.field("period", &period)
        try fields.field("offerDiscountType", &offerDiscountType)
        try fields.field("offerType", &offerType)
        try fields.field("quantity", &quantity)
        try fields.field("appTransactionID", &appTransactionID)
        try fields.details("details", &details, SignedDetails.ofTransaction)
        try fields.field("items", &items)
        var incomplete = isIncomplete ? true : Bool?.none
        try fields.field("isIncomplete", &incomplete)
        isIncomplete = incomplete ?? false
    }
}

extension RenewalStatement: StoredObject {
    static var unread: Self { Self(items: nil) }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("productID", &productID)
        try fields.field("autoRenewStatus", &autoRenewStatus)
        try fields.field("isInBillingRetry", &isInBillingRetry)
        try fields.field("expirationIntent", &expirationIntent)
        try fields.field("gracePeriodExpiresAt", &gracePeriodExpiresAt)
        try fields.field("renewalAt", &renewalAt)
        try fields.field("recentSubscriptionStartAt", &recentSubscriptionStartAt)
        try fields.field("currency", &currency)
        try fields.field("appAccountToken", &appAccountToken)
        try fields.field("consistencyToken", &consistencyToken)
        try fields.field("period", &period)
        try fields.field("autoRenewProductID", &autoRenewProductID)
        try fields.field("price", &price)
        try fields.field("offerType", &offerType)
        try fields.field("appTransactionID", &appTransactionID)
        try fields.details("details", &details, SignedDetails.ofRenewal)
        try fields.field("items", &items)
    }
}

extension StatementItem: StoredObject {
    static var unread: Self { Self(sku: "") }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("sku", &sku)
        try fields.field("price", &price)
        try fields.field("offerPrice", &offerPrice)
        try fields.field("offerPeriod", &offerPeriod)
        try fields.field("offerPeriodCount", &offerPeriodCount)
        try fields.field("offerReason", &offerReason)
        try fields.field("revokedAt", &revokedAt)
        try fields.sparse("refunds", &refunds)
        try fields.field("increaseStatus", &increaseStatus)
        try fields.field("increasePrice", &increasePrice)
        try fields.field("dependentSKUs", &dependentSKUs)
    }
}

extension StatementRefund: StoredObject {
    static var unread: Self { Self(amount: 0, at: .unread) }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("amount", &amount)
        try fields.field("at", &at)
    }
}

extension LegacyStatement: StoredObject {
    static var unread: Self { Self(autoRenews: nil) }

    mutating func pass<Pass: FieldPass>(_ fields: inout Pass) throws(Pass.Failure) {
        try fields.field("autoRenews", &autoRenews)
        try fields.field("isInBillingRetry", &isInBillingRetry)
        try fields.field("gracePeriodExpiresAt", &gracePeriodExpiresAt)
        try fields.field("expiresAt", &expiresAt)
    }
}

extension Instant {
    /// The placeholder for an instant until it is read.
    static var unread: Instant { Instant(milliseconds: 0) }
}

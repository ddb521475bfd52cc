internal import FoundationEssentials
internal import Pricing

/// JSON that may be anything: nil where it is not an object of the model.
func decodeWire<Model: Decodable>(_ type: Model.Type, _ payload: [UInt8]) -> Model? {
    // Unknown shapes are a value here, not an error; the raw text is kept by the caller.
    try? JSONDecoder().decode(type, from: Data(payload))
}

/// The unproved `signedDate`, good for one use: the time at which the certificates must be valid.
func signedDate(ofUnproved payload: [UInt8]) -> Int64? {
    decodeWire(WireSignedDate.self, payload)?.signedDate?.milliseconds
}

extension WireInstant {
    var instant: Instant { Instant(milliseconds: milliseconds) }
}

extension WireTransaction {
    /// The product types that the App Store documents and that are no subscriptions.
    private static let otherTypes: Set<String> = [
        "Consumable", "Non-Consumable", "Non-Renewing Subscription",
    ]

    /// Unknown and absent types count as subscriptions.
    var isSubscription: Bool { !Self.otherTypes.contains(type?.text ?? "") }

    var statement: TransactionStatement {
        TransactionStatement(
            transactionID: transactionId?.text,
            productID: productId?.text,
            appAccountToken: appAccountToken?.text,
            purchasedAt: purchaseDate?.instant,
            originalPurchaseAt: originalPurchaseDate?.instant,
            expiresAt: expiresDate?.instant,
            revokedAt: revocationDate?.instant,
            reason: transactionReason?.text,
            storefront: storefront?.text,
            currency: currency?.text,
            price: price,
            period: advancedCommerceInfo?.period?.text,
            items: advancedCommerceInfo?.items?.elements.map(\.statement) ?? [])
    }
}

extension WireTransaction.Item {
    fileprivate var statement: TransactionStatement.Item {
        TransactionStatement.Item(
            sku: SKU.text,
            price: price,
            offerPrice: offer?.price,
            offerPeriod: offer?.period?.text,
            offerPeriodCount: offer?.periodCount,
            offerReason: offer?.reason?.text,
            revokedAt: revocationDate?.instant)
    }
}

extension WireRenewal {
    var statement: RenewalStatement {
        RenewalStatement(
            productID: productId?.text,
            autoRenewStatus: autoRenewStatus,
            isInBillingRetry: isInBillingRetryPeriod,
            expirationIntent: expirationIntent,
            gracePeriodExpiresAt: gracePeriodExpiresDate?.instant,
            renewalAt: renewalDate?.instant,
            recentSubscriptionStartAt: recentSubscriptionStartDate?.instant,
            currency: currency?.text,
            appAccountToken: appAccountToken?.text,
            consistencyToken: advancedCommerceInfo?.consistencyToken?.text,
            period: advancedCommerceInfo?.period?.text,
            items: items)
    }

    /// Nil also where one item is unreadable: an item that only seems to be missing would look
    /// declined.
    private var items: [RenewalStatement.Item]? {
        guard let list = advancedCommerceInfo?.items, list.unreadable == 0 else { return nil }
        return list.elements.map(\.statement)
    }
}

extension WireRenewal.Item {
    fileprivate var statement: RenewalStatement.Item {
        RenewalStatement.Item(
            sku: SKU.text,
            price: price,
            offerPrice: offer?.price,
            offerPeriod: offer?.period?.text,
            offerPeriodCount: offer?.periodCount,
            offerReason: offer?.reason?.text,
            increaseStatus: priceIncreaseInfo?.status?.text,
            increasePrice: priceIncreaseInfo?.price,
            dependentSKUs: priceIncreaseInfo?.dependentSKUs?.elements.map(\.text))
    }
}

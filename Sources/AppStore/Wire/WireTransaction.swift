internal import JSON
internal import Pricing

/// `JWSTransactionDecodedPayload`: the payload of a `signedTransactionInfo`.
struct WireTransaction: WireObject {
    let json: JSONNode

    /// The product types that the App Store documents and that are no subscriptions.
    private static let otherTypes: Set<String> = [
        "Consumable", "Non-Consumable", "Non-Renewing Subscription",
    ]

    /// Unknown and absent types count as subscriptions.
    var isSubscription: Bool { !Self.otherTypes.contains(json["type"]?.storableText ?? "") }

    var originalTransactionId: String? { json["originalTransactionId"]?.storableText }
    var bundleId: String? { json["bundleId"]?.storableText }
    var environment: String? { json["environment"]?.storableText }
    var signedDate: Instant? { json["signedDate"]?.instant }

    var statement: TransactionStatement {
        let commerce = json["advancedCommerceInfo"]
        return TransactionStatement(
            transactionID: json["transactionId"]?.storableText,
            productID: json["productId"]?.storableText,
            appAccountToken: json["appAccountToken"]?.storableText,
            ownershipType: json["inAppOwnershipType"]?.storableText,
            purchasedAt: json["purchaseDate"]?.instant,
            originalPurchaseAt: json["originalPurchaseDate"]?.instant,
            expiresAt: json["expiresDate"]?.instant,
            revokedAt: json["revocationDate"]?.instant,
            reason: json["transactionReason"]?.storableText,
            storefront: json["storefront"]?.storableText,
            currency: json["currency"]?.storableText,
            price: json["price"]?.int64,
            period: commerce?["period"]?.storableText,
            offerDiscountType: json["offerDiscountType"]?.storableText,
            items: commerce?["items"]?.elements?.compactMap(TransactionStatement.Item.init) ?? [])
    }
}

extension TransactionStatement.Item {
    /// An item that was charged. Without a SKU it is unreadable.
    fileprivate init?(_ json: JSONNode) {
        guard let sku = json["SKU"]?.storableText else { return nil }
        let offer = json["offer"]
        self.init(
            sku: sku,
            price: json["price"]?.int64,
            offerPrice: offer?["price"]?.int64,
            offerPeriod: offer?["period"]?.storableText,
            offerPeriodCount: offer?["periodCount"]?.int,
            offerReason: offer?["reason"]?.storableText,
            revokedAt: json["revocationDate"]?.instant)
    }
}

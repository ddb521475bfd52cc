internal import JSON
internal import Pricing

/// `JWSTransactionDecodedPayload`: the payload of a `signedTransactionInfo`.
struct WireTransaction: WireObject {
    let json: JSONNode

    /// The product types that the App Store documents and that are no subscriptions.
    private static let otherTypes: Set<String> = [
        "Consumable", "Non-Consumable", "Non-Renewing Subscription",
    ]

    /// Whether it is of a subscription. Unknown and absent types count as subscriptions.
    var isSubscription: Bool { !Self.otherTypes.contains(json["type"]?.storableText ?? "") }

    var originalTransactionId: String? { json["originalTransactionId"]?.storableText }
    var bundleId: String? { json["bundleId"]?.storableText }
    var environment: String? { json["environment"]?.storableText }
    var signedDate: Instant? { json["signedDate"]?.instant }

    var statement: TransactionStatement {
        let commerce = json["advancedCommerceInfo"]
        let listed = commerce?["items"]?.elements ?? []
        var statement = TransactionStatement(items: listed.compactMap(Self.item))
        // `WireShape` reports which.
        statement.isIncomplete = statement.items.count < listed.count
        statement.transactionID = json["transactionId"]?.storableText
        statement.productID = json["productId"]?.storableText
        statement.appAccountToken = json["appAccountToken"]?.customerToken
        statement.ownershipType = json["inAppOwnershipType"]?.storableText
        statement.purchasedAt = json["purchaseDate"]?.instant
        statement.originalPurchaseAt = json["originalPurchaseDate"]?.instant
        statement.expiresAt = json["expiresDate"]?.instant
        statement.revokedAt = json["revocationDate"]?.instant
        statement.reason = json["transactionReason"]?.storableText
        statement.storefront = json["storefront"]?.storableText
        statement.currency = json["currency"]?.storableText
        statement.price = json["price"]?.int64
        statement.taxExclusivePrice = commerce?["taxExclusivePrice"]?.int64
        statement.period = commerce?["period"]?.storableText
        statement.offerDiscountType = json["offerDiscountType"]?.storableText
        statement.offerType = json["offerType"]?.int
        statement.quantity = json["quantity"]?.int
        statement.appTransactionID = json["appTransactionId"]?.storableText
        statement.details = SignedDetails(json, SignedDetails.ofTransaction)
        return statement
    }

    private static func item(_ json: JSONNode) -> StatementItem? {
        var item = StatementItem(json)
        item?.revokedAt = json["revocationDate"]?.instant
        item?.refunds =
            json["refunds"]?.elements?.compactMap { refund in
                // Any other is reported as unknown (`WireShape`), and counted by `refunds_without_amount`.
                guard let amount = refund["refundAmount"]?.int64, amount >= 0,
                    let at = refund["refundDate"]?.instant
                else { return nil }
                return StatementRefund(amount: amount, at: at)
            } ?? []
        return item
    }
}

extension StatementItem {
    /// Reads what a charged item and one set to renew have in common. Without a SKU it is unreadable.
    init?(_ json: JSONNode) {
        guard let sku = json["SKU"]?.storableText else { return nil }
        self.init(sku: sku)
        price = json["price"]?.int64
        guard let offer = json["offer"] else { return }
        offerPrice = offer["price"]?.int64
        offerPeriod = offer["period"]?.storableText
        offerPeriodCount = offer["periodCount"]?.int
        offerReason = offer["reason"]?.storableText
    }
}

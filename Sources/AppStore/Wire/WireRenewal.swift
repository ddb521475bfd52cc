internal import JSON
internal import Pricing

/// `JWSRenewalInfoDecodedPayload`: the payload of a `signedRenewalInfo`. It names no app: what encloses it does.
struct WireRenewal: WireObject {
    let json: JSONNode

    var originalTransactionId: String? { json["originalTransactionId"]?.storableText }
    var environment: String? { json["environment"]?.storableText }
    var signedDate: Instant? { json["signedDate"]?.instant }

    var statement: RenewalStatement {
        let commerce = json["advancedCommerceInfo"]
        return RenewalStatement(
            productID: json["productId"]?.storableText,
            autoRenewStatus: json["autoRenewStatus"]?.int,
            isInBillingRetry: json["isInBillingRetryPeriod"]?.boolean,
            expirationIntent: json["expirationIntent"]?.int,
            gracePeriodExpiresAt: json["gracePeriodExpiresDate"]?.instant,
            renewalAt: json["renewalDate"]?.instant,
            recentSubscriptionStartAt: json["recentSubscriptionStartDate"]?.instant,
            currency: json["currency"]?.storableText,
            appAccountToken: json["appAccountToken"]?.storableText,
            consistencyToken: commerce?["consistencyToken"]?.storableText,
            period: commerce?["period"]?.storableText,
            items: Self.items(commerce?["items"]))
    }

    /// Nil also where one item is unreadable: an item that only seems to be missing would look
    /// declined.
    private static func items(_ list: JSONNode?) -> [RenewalStatement.Item]? {
        guard let listed = list?.elements else { return nil }
        let items = listed.compactMap(RenewalStatement.Item.init)
        return items.count == listed.count ? items : nil
    }
}

extension RenewalStatement.Item {
    /// An item set to renew. Without a SKU it is unreadable.
    fileprivate init?(_ json: JSONNode) {
        guard let sku = json["SKU"]?.storableText else { return nil }
        let (offer, increase) = (json["offer"], json["priceIncreaseInfo"])
        self.init(
            sku: sku,
            price: json["price"]?.int64,
            offerPrice: offer?["price"]?.int64,
            offerPeriod: offer?["period"]?.storableText,
            offerPeriodCount: offer?["periodCount"]?.int,
            offerReason: offer?["reason"]?.storableText,
            increaseStatus: increase?["status"]?.storableText,
            increasePrice: increase?["price"]?.int64,
            dependentSKUs: increase?["dependentSKUs"]?.texts)
    }
}

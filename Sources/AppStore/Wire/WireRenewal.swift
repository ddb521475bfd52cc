internal import JSON
internal import Pricing

/// `JWSRenewalInfoDecodedPayload`: the payload of a `signedRenewalInfo`. It names no app; what encloses it does.
struct WireRenewal: WireObject {
    let json: JSONNode

    var originalTransactionId: String? { json["originalTransactionId"]?.storableText }
    var environment: String? { json["environment"]?.storableText }
    var signedDate: Instant? { json["signedDate"]?.instant }

    var statement: RenewalStatement {
        let commerce = json["advancedCommerceInfo"]
        var statement = RenewalStatement(items: Self.items(commerce?["items"]))
        statement.productID = json["productId"]?.storableText
        statement.autoRenewStatus = json["autoRenewStatus"]?.int
        statement.isInBillingRetry = json["isInBillingRetryPeriod"]?.boolean
        statement.expirationIntent = json["expirationIntent"]?.int
        statement.gracePeriodExpiresAt = json["gracePeriodExpiresDate"]?.instant
        statement.renewalAt = json["renewalDate"]?.instant
        statement.recentSubscriptionStartAt = json["recentSubscriptionStartDate"]?.instant
        statement.currency = json["currency"]?.storableText
        statement.appAccountToken = json["appAccountToken"]?.customerToken
        statement.consistencyToken = commerce?["consistencyToken"]?.storableText
        statement.period = commerce?["period"]?.storableText
        statement.autoRenewProductID = json["autoRenewProductId"]?.storableText
        statement.price = json["renewalPrice"]?.int64
        statement.offerType = json["offerType"]?.int
        statement.appTransactionID = json["appTransactionId"]?.storableText
        statement.details = SignedDetails(json, SignedDetails.ofRenewal)
        return statement
    }

    /// The items. Nil also where one item is unreadable, because an item that only seems to be missing would count as
    /// declined.
    private static func items(_ list: JSONNode?) -> [StatementItem]? {
        guard let listed = list?.elements else { return nil }
        let items = listed.compactMap(item)
        return items.count == listed.count ? items : nil
    }

    private static func item(_ json: JSONNode) -> StatementItem? {
        guard var item = StatementItem(json) else { return nil }
        guard let increase = json["priceIncreaseInfo"] else { return item }
        item.increaseStatus = increase["status"]?.storableText
        item.increasePrice = increase["price"]?.int64
        item.dependentSKUs = increase["dependentSKUs"]?.texts
        return item
    }
}

internal import JSONReading

/// `SubscriptionPriceChangeRequest` as the App Store reads it; absent optionals are left out.
struct WirePriceChange: Encodable {
    struct Item: Encodable {
        var SKU: String
        var price: Int64
        var dependentSKUs: [String]?
    }

    var requestInfo: CommerceRequestInfo
    var currency: String?
    var storefront: String?
    var items: [Item]

    init(_ call: PriceChangeCall) {
        requestInfo = call.requestInfo
        currency = call.currency
        storefront = call.storefront
        items = call.items.map {
            Item(
                SKU: $0.sku, price: $0.priceMilliunits,
                dependentSKUs: $0.dependentSKUs.isEmpty ? nil : $0.dependentSKUs)
        }
    }
}

/// The answer to Change Subscription Price.
struct WireSignedAnswer: WireObject {
    let json: JSONNode

    init?(_ json: JSONNode) {
        guard json.kind == .object else { return nil }
        self.json = json
    }

    var signedTransactionInfo: String? { json["signedTransactionInfo"]?.text }
    var signedRenewalInfo: String? { json["signedRenewalInfo"]?.text }
}

/// The answer to Get All Subscription Statuses.
struct WireStatuses {
    struct Last {
        let status: Int?
        let signedTransactionInfo: String?
        let signedRenewalInfo: String?
    }

    let bundleId: String?
    let environment: String?
    /// Of all subscription groups.
    let lastTransactions: [Last]

    /// nil where the answer is not of the documented form throughout: a subscription left out would
    /// look as if it were none of the customer's.
    init?(_ json: JSONNode) {
        guard let groups = json["data"]?.elements else { return nil }
        var found: [Last] = []
        for group in groups {
            guard let listed = group["lastTransactions"]?.elements else { return nil }
            for last in listed {
                guard last.kind == .object else { return nil }
                found.append(
                    Last(
                        status: last["status"]?.int,
                        signedTransactionInfo: last["signedTransactionInfo"]?.text,
                        signedRenewalInfo: last["signedRenewalInfo"]?.text))
            }
        }
        bundleId = json["bundleId"]?.text
        environment = json["environment"]?.text
        lastTransactions = found
    }
}

/// The body of every refusal.
struct WireError: WireObject {
    let json: JSONNode

    init?(_ json: JSONNode) {
        guard json.kind == .object else { return nil }
        self.json = json
    }

    var errorCode: Int? { json["errorCode"]?.int }
    var errorMessage: String? { json["errorMessage"]?.storableText }
}

internal import FoundationEssentials

/// `SubscriptionPriceChangeRequest` as the App Store reads it; absent optionals are left out.
struct WirePriceChange: Encodable {
    struct RequestInfo: Encodable {
        var requestReferenceId: String
        var consistencyToken: String?
    }

    struct Item: Encodable {
        var SKU: String
        var price: Int64
        var dependentSKUs: [String]?
    }

    var requestInfo: RequestInfo
    var currency: String?
    var storefront: String?
    var items: [Item]

    init(_ call: PriceChangeCall) {
        requestInfo = RequestInfo(
            requestReferenceId: call.requestReferenceID, consistencyToken: call.consistencyToken)
        currency = call.currency
        storefront = call.storefront
        items = call.items.map {
            Item(
                SKU: $0.sku, price: $0.priceMilliunits,
                dependentSKUs: $0.dependentSKUs.isEmpty ? nil : $0.dependentSKUs)
        }
    }

    /// One text for one request, whenever it is made.
    func encoded() throws -> [UInt8] {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        return Array(try encoder.encode(self))
    }
}

/// The answer to Change Subscription Price.
struct WireSignedAnswer: Decodable {
    @Lenient var signedTransactionInfo: String?
    @Lenient var signedRenewalInfo: String?
}

/// The answer to Get All Subscription Statuses.
struct WireStatuses: Decodable {
    struct Group: Decodable {
        var lastTransactions: [Last]
    }

    struct Last: Decodable {
        @Lenient var status: Int?
        @Lenient var signedTransactionInfo: String?
        @Lenient var signedRenewalInfo: String?
    }

    var data: [Group]
}

/// The body of every refusal.
struct WireError: Decodable {
    @Lenient var errorCode: Int?
    @Lenient var errorMessage: WireText?
}

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

internal import JSON

/// One Change Subscription Price request, checked before it is encoded.
package struct PriceChangeCall: Hashable, Sendable {
    package struct Item: Hashable, Sendable {
        package var sku: String
        /// The new full price of the item per period.
        package var priceMilliunits: Int64
        /// The dependents. They are sent only where there are some.
        package var dependentSKUs: [String]

        package init(sku: String, priceMilliunits: Int64, dependentSKUs: [String] = []) {
            self.sku = sku
            self.priceMilliunits = priceMilliunits
            self.dependentSKUs = dependentSKUs
        }
    }

    package let requestInfo: CommerceRequestInfo
    package let currency: String?
    /// ISO 3166-1 alpha-3.
    package let storefront: String?
    package let items: [Item]

    package init(
        requestReferenceID: String, consistencyToken: String? = nil, currency: String? = nil,
        storefront: String? = nil, items: [Item]
    ) throws(RequestFault) {
        requestInfo = try CommerceRequestInfo(
            requestReferenceID: requestReferenceID, consistencyToken: consistencyToken)
        try FieldCheck.currency(currency)
        try FieldCheck.storefront(storefront)
        guard !items.isEmpty else { throw .noItems }
        try FieldCheck.different(items.map(\.sku))
        for item in items { try item.check() }
        try Self.checkDependents(of: items)
        self.currency = currency
        self.storefront = storefront
        self.items = items
    }

    /// `SubscriptionPriceChangeRequest`, the same text each time for one request.
    var body: String {
        JSONWriter.object {
            $0.text("currency", currency)
            $0.list("items", items) { item, json in
                json.object {
                    $0.text("SKU", item.sku)
                    if !item.dependentSKUs.isEmpty {
                        $0.texts("dependentSKUs", item.dependentSKUs)
                    }
                    $0.number("price", item.priceMilliunits)
                }
            }
            $0.key("requestInfo", requestInfo.write)
            $0.text("storefront", storefront)
        }
    }

    /// Checks what Apple refuses with 4000192 and 4000193, within the request.
    private static func checkDependents(of items: [Item]) throws(RequestFault) {
        let parents = Set(items.filter { !$0.dependentSKUs.isEmpty }.map(\.sku))
        var seen: Set<String> = []
        for sku in items.flatMap({ Set($0.dependentSKUs) }) {
            guard seen.insert(sku).inserted else { throw .dependentShared(sku: sku) }
            guard !parents.contains(sku) else { throw .dependentChained(sku: sku) }
        }
    }
}

extension PriceChangeCall.Item {
    fileprivate func check() throws(RequestFault) {
        try FieldCheck.sku(sku)
        guard priceMilliunits >= 0 else { throw .priceNegative(sku: sku) }
        for dependent in dependentSKUs {
            try FieldCheck.sku(dependent)
            guard dependent != sku else { throw .dependsOnItself(sku: sku) }
        }
    }
}

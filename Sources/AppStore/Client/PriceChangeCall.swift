/// One Change Subscription Price request, before it is encoded.
package struct PriceChangeCall: Hashable, Sendable {
    package struct Item: Hashable, Sendable {
        package var sku: String
        /// The new full price of the item per period.
        package var priceMilliunits: Int64
        /// Sent only where not empty.
        package var dependentSKUs: [String]

        package init(sku: String, priceMilliunits: Int64, dependentSKUs: [String] = []) {
            self.sku = sku
            self.priceMilliunits = priceMilliunits
            self.dependentSKUs = dependentSKUs
        }
    }

    /// Stored before the first send; repeated only while the outcome is unknown.
    package var requestReferenceID: String
    /// The last one seen in renewal info; never made up.
    package var consistencyToken: String?
    package var currency: String?
    /// ISO 3166-1 alpha-3.
    package var storefront: String?
    package var items: [Item]
    /// What the answer's event is called in the evidence; the reference id unless the caller has a
    /// better one.
    package var evidenceID: String

    package init(
        requestReferenceID: String, consistencyToken: String? = nil, currency: String? = nil,
        storefront: String? = nil, items: [Item], evidenceID: String? = nil
    ) {
        self.requestReferenceID = requestReferenceID
        self.consistencyToken = consistencyToken
        self.currency = currency
        self.storefront = storefront
        self.items = items
        self.evidenceID = evidenceID ?? requestReferenceID
    }
}

/// One well-formed row of a batch file. Nothing in it has been compared with a subscription yet.
package struct BatchRow: Hashable, Sendable {
    /// The physical line in the file, from 1 on.
    package var line: Int
    package var originalTransactionID: String
    package var sku: String
    /// The new price in milliunits, more than 0.
    package var newPrice: Int64
    package var currency: String
    package var storefront: String?
    /// The dependents, each once, in the order of the file.
    package var dependentSKUs: [String]
    /// The current price that the team expects, in milliunits.
    package var expectedPrice: Int64?
    package var effectiveOnOrAfter: CivilDate?

    package init(
        line: Int, originalTransactionID: String, sku: String, newPrice: Int64, currency: String,
        storefront: String? = nil, dependentSKUs: [String] = [], expectedPrice: Int64? = nil,
        effectiveOnOrAfter: CivilDate? = nil
    ) {
        self.line = line
        self.originalTransactionID = originalTransactionID
        self.sku = sku
        self.newPrice = newPrice
        self.currency = currency
        self.storefront = storefront
        if dependentSKUs.count > 1 {
            var seen: Set<String> = []
            self.dependentSKUs = dependentSKUs.filter { seen.insert($0).inserted }
        } else {
            self.dependentSKUs = dependentSKUs
        }
        self.expectedPrice = expectedPrice
        self.effectiveOnOrAfter = effectiveOnOrAfter
    }
}

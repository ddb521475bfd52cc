/// That a well-formed row of a batch names an item: all that rows of one subscription need to know of each
/// other.
package struct BatchMention: Hashable, Sendable {
    /// The physical line.
    package var line: Int
    package var sku: String
    package var dependentSKUs: [String]

    package init(line: Int, sku: String, dependentSKUs: [String]) {
        self.line = line
        self.sku = sku
        self.dependentSKUs = dependentSKUs
    }

    package init(_ row: BatchRow) {
        self.init(line: row.line, sku: row.sku, dependentSKUs: row.dependentSKUs)
    }
}

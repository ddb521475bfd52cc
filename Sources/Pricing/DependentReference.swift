/// A dependent as a batch names it: `SKU`, an item of the same subscription or of another one of the same customer;
/// or `SUBSCRIPTION/SKU`, an item of the subscription with that original transaction id.
package struct DependentReference: Hashable, Sendable {
    /// The subscription; nil where the name is a SKU alone.
    package var originalTransactionID: String?
    package var sku: String

    /// Reads digits before the first slash as a subscription, and any other text as a SKU.
    package init(_ text: String) {
        let bytes = text.utf8
        if let slash = bytes.firstIndex(of: 0x2F), slash != bytes.startIndex,
            bytes[..<slash].allSatisfy(isDigit),
            bytes.index(after: slash) != bytes.endIndex
        {
            originalTransactionID = String(text[..<slash])
            sku = String(text[text.utf8.index(after: slash)...])
        } else {
            sku = text
        }
    }

    package init(originalTransactionID: String, sku: String) {
        self.originalTransactionID = originalTransactionID
        self.sku = sku
    }

    /// The reference with a subscription: its own, or else `id`.
    package func placed(on id: String) -> DependentReference {
        DependentReference(originalTransactionID: originalTransactionID ?? id, sku: sku)
    }

    package var text: String { originalTransactionID.map { "\($0)/\(sku)" } ?? sku }
}

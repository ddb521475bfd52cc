package import Postgres
package import Pricing

extension Row {
    package func storedItems() throws -> [SubscriptionFacts.Item] {
        try stored("items", StatementText.items)
    }

    package func storedIncreases() throws -> [RecordedIncrease] {
        // Most have none, and a plan reads a million.
        if try decoded("increases", { $0.elementsEqual("[]".utf8) }) == true { return [] }
        return try stored("increases", StatementText.increases)
    }
}

extension [RecordedIncrease] {
    /// The anchor of the 12 months is the instant it took effect, else when it was communicated. The conversion of
    /// an offer is no increase.
    package var past: [PastIncrease] {
        compactMap { increase in
            guard increase.origin != .offerConversion else { return nil }
            return (increase.effectiveAt ?? increase.communicatedAt).map {
                PastIncrease(sku: increase.sku, at: $0)
            }
        }
    }
}

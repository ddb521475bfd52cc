import JSON
package import Postgres
package import Pricing

/// Items by the JSON from which they were read lately: most subscriptions carry the same items at the same prices as
/// many others.
package struct RecentItems {
    private static let countMax = 32
    private var texts: [[UInt8]] = []
    private var read: [[SubscriptionFacts.Item]] = []
    private var oldest = 0

    package init() {}

    /// Reads what `storedItems` reads.
    package mutating func items(of row: Row) throws -> [SubscriptionFacts.Item] {
        if let place = try row.place(of: "items", among: texts) { return read[place] }
        let items = try row.storedItems()
        guard let text = try row.decoded("items", { Array($0) }) else { return items }
        if texts.count < Self.countMax {
            texts.append(text)
            read.append(items)
        } else {
            texts[oldest] = text
            read[oldest] = items
            oldest = (oldest + 1) % Self.countMax
        }
        return items
    }
}

extension Row {
    package func storedItems() throws -> [SubscriptionFacts.Item] {
        try storedList("items")
    }

    func storedDetails(into facts: inout SubscriptionFacts) throws {
        // Most subscriptions have none.
        guard try decoded("signed_details", { _ in true }) != nil else { return }
        let details: StoredDetails = try stored("signed_details")
        facts.transactionDetails = details.transaction
        facts.renewalDetails = details.renewal
        facts.addedSeats = details.addedSeats
    }

    func storedRenames() throws -> [SubscriptionFacts.FormerName] {
        // Most subscriptions have none.
        guard try decoded("renames", { _ in true }) != nil else { return [] }
        return try storedList("renames")
    }

    package func storedIncreases() throws -> [RecordedIncrease] {
        // Most subscriptions have none, and a plan reads a million of them.
        if try decoded("increases", { $0.elementsEqual("[]".utf8) }) == true { return [] }
        return try storedList("increases")
    }
}

extension [RecordedIncrease] {
    /// The increases that took effect: the 12 months are counted from that instant (an inference, since Apple names
    /// no anchor). The conversion of an offer is no increase.
    package var past: [PastIncrease] {
        compactMap { increase in
            guard increase.origin != .offerConversion else { return nil }
            return increase.effectiveAt.map { PastIncrease(sku: increase.sku, at: $0) }
        }
    }

    /// When the subscriber was told of each increase that needed no consent and has not taken effect yet, by item.
    package var announcedAt: [String: Instant] {
        var told: [String: Instant] = [:]
        for increase in self
        where increase.effectiveAt == nil && increase.origin != .offerConversion
            && increase.consentAskedAt == nil
        {
            told[increase.sku] = increase.communicatedAt
        }
        return told
    }
}

extension Row {
    /// Reads the object that this program wrote to a JSON column.
    func stored<Object: StoredObject>(_ column: String) throws -> Object {
        try stored(column, StoredJSON.object)
    }

    /// Reads the list that this program wrote to a JSON column.
    func storedList<Object: StoredObject>(_ column: String) throws -> [Object] {
        try stored(column, StoredJSON.objects)
    }

    private func stored<Value>(
        _ column: String, _ read: (JSONNode) throws(JSONRecord.Fault) -> Value
    ) throws -> Value {
        guard let bytes = try decoded(column, { Array($0) }), let node = JSONDocument.read(bytes)
        else { throw FactsError.unreadable("\(column) is no JSON") }
        do throws(JSONRecord.Fault) {
            return try read(node)
        } catch {
            throw FactsError.unreadable("\(column): \(error)")
        }
    }
}

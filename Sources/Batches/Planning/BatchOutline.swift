package import Pricing

/// What a first reading of a batch leaves behind: its digest, and which rows speak of the same subscription.
///
/// A row is 40 bytes here whatever it says, so that a batch of any size can then be read again and judged in
/// the order of its lines, a piece at a time.
package struct BatchOutline: Sendable {
    /// Of the bytes as they stand: the same file again is the same batch. 64 hexadecimal digits.
    package let sha256: String
    package let columns: [BatchColumn]
    package let priceUnit: BatchPriceUnit
    /// All rows, the spoiled ones included.
    package private(set) var rowCount = 0

    private struct Mention {
        var subscription: SubscriptionKeys.Key
        var line: Int
        var newPrice: Int64
        var sku: UInt32
        var dependents: UInt32
        var terms: UInt32
    }

    /// The price of a row that was refused for its own cells: none, for a price is more than 0.
    private static let spoiledPrice: Int64 = 0

    /// What few rows of a file say differently.
    private struct Terms: Hashable {
        var currency: String
        var storefront: String?
        var expectedPrice: Int64?
        var effectiveOnOrAfter: CivilDate?
    }

    private static let noDependents: UInt32 = 0
    private var mentions: [Mention] = []
    private var keys = SubscriptionKeys()
    private var skus = Interner<String>()
    private var dependents = Interner<[String]>()
    private var terms = Interner<Terms>()
    /// Rows that name a dependent as `SUBSCRIPTION/SKU`, by that name: few, whatever the batch.
    private var claimsByName: [String: [DependentClaim]] = [:]
    private var claimedSubscriptions: Set<SubscriptionKeys.Key> = []

    /// Reads the whole batch once. Throws `empty_file` where there is no row.
    package init(_ input: BatchInput, rules: RulesInForce) throws(BatchFileError) {
        let source = DigestingByteSource(try input.open())
        var reader = try BatchFileReader(source: source, file: input.path, rules: rules)
        // The first number is `noDependents`.
        _ = dependents.number(of: [])
        while let entry = try reader.next() {
            rowCount += 1
            guard let row = Self.mentioned(by: entry) else { continue }
            mentions.append(
                Mention(
                    subscription: keys.add(row.originalTransactionID), line: row.line,
                    newPrice: row.newPrice, sku: skus.number(of: row.sku),
                    dependents: dependents.number(of: row.dependentSKUs),
                    terms: terms.number(
                        of: Terms(
                            currency: row.currency, storefront: row.storefront,
                            expectedPrice: row.expectedPrice,
                            effectiveOnOrAfter: row.effectiveOnOrAfter))))
            for (name, claim) in row.claims { claimsByName[name, default: []].append(claim) }
        }
        guard rowCount > 0 else {
            throw BatchFileError(
                code: .emptyFile, file: input.path, line: nil, message: "the file has no rows",
                remedy: "add a row for each price to change")
        }
        sha256 = source.hexadecimalDigest
        columns = reader.columns
        priceUnit = reader.priceUnit
        for name in claimsByName.keys {
            if let id = DependentReference(name).originalTransactionID, let key = keys.key(of: id) {
                claimedSubscriptions.insert(key)
            }
        }
        keepOnlyShared()
    }

    /// A row whose cells are wrong speaks of its item nevertheless; nil where they name none.
    private static func mentioned(by entry: BatchFileEntry) -> BatchRow? {
        switch entry {
        case .row(let row): row
        case .spoiled(let row):
            row.item.map { item in
                BatchRow(
                    line: row.line, originalTransactionID: item.originalTransactionID,
                    sku: item.sku, newPrice: spoiledPrice, currency: "",
                    dependentSKUs: item.dependentSKUs)
            }
        }
    }

    /// The rows that name this item, written `SUBSCRIPTION/SKU`, as their dependent.
    func claims(on name: String) -> [DependentClaim] { claimsByName[name] ?? [] }

    /// The other rows beside which a row must be judged, itself included, in the order of lines; may be empty for a
    /// row that is alone with its subscription and has no dependents. A row that was refused for its
    /// own cells is among them where its item or its dependents matter to another, and says no more than these.
    func rows(of id: String) -> [BatchRow] {
        guard let key = keys.key(of: id) else { return [] }
        var low = 0
        var high = mentions.count
        while low < high {
            let middle = (low + high) / 2
            if mentions[middle].subscription < key { low = middle + 1 } else { high = middle }
        }
        var found: [BatchRow] = []
        while low < mentions.count, mentions[low].subscription == key {
            let mention = mentions[low]
            let terms = terms[mention.terms]
            found.append(
                BatchRow(
                    line: mention.line, originalTransactionID: id, sku: skus[mention.sku],
                    newPrice: mention.newPrice, currency: terms.currency,
                    storefront: terms.storefront,
                    dependentSKUs: dependents[mention.dependents],
                    expectedPrice: terms.expectedPrice,
                    effectiveOnOrAfter: terms.effectiveOnOrAfter))
            low += 1
        }
        return found
    }

    /// Forgets the rows that share their subscription with no other, have no dependents, and whose items no other
    /// names by their subscription.
    private mutating func keepOnlyShared() {
        mentions.sort { ($0.subscription, $0.line) < ($1.subscription, $1.line) }
        var kept = 0
        var start = 0
        while start < mentions.count {
            var end = start + 1
            while end < mentions.count,
                mentions[end].subscription == mentions[start].subscription
            {
                end += 1
            }
            let group = mentions[start..<end].filter { $0.newPrice != Self.spoiledPrice }
            let items = Set(group.map(\.sku))
            // `kept` never overtakes the group that is copied to it.
            let isKept =
                end - start > 1 || mentions[start].dependents != Self.noDependents
                || claimedSubscriptions.contains(mentions[start].subscription)
            for index in start..<end
            where isKept
                && (items.contains(mentions[index].sku)
                    || mentions[index].dependents != Self.noDependents)
            {
                mentions[kept] = mentions[index]
                kept += 1
            }
            start = end
        }
        mentions.removeLast(mentions.count - kept)
    }
}

extension BatchRow {
    /// What the row claims of other subscriptions, by `SUBSCRIPTION/SKU`.
    var claims: [(name: String, claim: DependentClaim)] {
        dependentSKUs.compactMap { name in
            guard DependentReference(name).originalTransactionID != nil else { return nil }
            return (
                name,
                DependentClaim(
                    originalTransactionID: originalTransactionID, sku: sku, line: line)
            )
        }
    }
}

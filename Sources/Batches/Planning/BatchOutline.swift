package import Pricing

/// The result of the first read of a batch: its digest, and which rows name the same subscription.
///
/// A row takes 40 bytes here, whatever its content. So a batch of any size can be judged in the order of its lines, a
/// piece at a time, without reading the file again. Only a file with spoiled rows is read again, because the content of
/// their cells is not kept.
package struct BatchOutline: Sendable {
    /// The digest of the bytes as they stand, as 64 hexadecimal digits: the same file again is the same batch.
    package private(set) var sha256 = ""
    package let columns: [BatchColumn]
    package let priceUnit: BatchPriceUnit
    /// The number of all rows, the spoiled ones included.
    package private(set) var rowCount = 0

    private struct Mention {
        var subscription: SubscriptionKeys.Key
        var line: Int
        var newPrice: Int64
        var sku: UInt32
        var dependents: UInt32
        var terms: UInt32
    }

    /// The price that stands for a row that was refused for its own cells. No price is 0.
    private static let spoiledPrice: Int64 = 0

    /// Terms that few rows of a file say differently.
    private struct Terms: Hashable {
        var currency: String
        var storefront: String?
        var expectedPrice: Int64?
        var effectiveOnOrAfter: CivilDate?
    }

    /// A place where a subscription is mentioned. It sorts by the subscription, then by the line.
    private struct Place: Comparable {
        var subscription: SubscriptionKeys.Key
        var index: UInt32

        static func < (left: Place, right: Place) -> Bool {
            (left.subscription, left.index) < (right.subscription, right.index)
        }
    }

    private static let noDependents: UInt32 = 0
    /// The mentions in the order of lines.
    private var mentions: [Mention] = []
    /// The places of rows that share their subscription with other rows, or that matter to other rows.
    private var shared: [Place] = []
    private var keys = SubscriptionKeys()
    private var skus = Interner<String>()
    private var dependents = Interner<[String]>()
    private var terms = Interner<Terms>()
    /// The rows that name a dependent as `SUBSCRIPTION/SKU`, by that name. They are few, whatever the batch.
    private var claimsByName: [String: [DependentClaim]] = [:]
    private var claimedSubscriptions: Set<SubscriptionKeys.Key> = []
    private var hasSpoiledRows = false

    /// The most rows of a piece: enough to make one query worthwhile, and few enough to be judged in a few hundredths
    /// of a second.
    static let pieceRowsMax = 4096
    /// The most pieces that are being parsed or wait for their turn.
    private static let piecesInFlight = 6

    /// Reads the whole batch once. Throws `empty_file` where it has no row.
    package init(_ input: BatchInput, rules: RulesInForce) async throws {
        let source = DigestingByteSource(try input.open())
        var reader = try BatchFileReader(source: source, file: input.path, rules: rules)
        columns = reader.columns
        priceUnit = reader.priceUnit
        // The first number is `noDependents`.
        _ = dependents.number(of: [])
        try await withThrowingTaskGroup(of: (Int, [BatchFileEntry]).self) { group in
            var started = 0
            var taken = 0
            var waiting: [Int: [BatchFileEntry]] = [:]
            while true {
                while started - taken < Self.piecesInFlight,
                    let piece = try reader.nextPiece(rowsMax: Self.pieceRowsMax)
                {
                    let number = started
                    group.addTask { (number, piece.entries()) }
                    started += 1
                }
                guard let (number, entries) = try await group.next() else { return }
                waiting[number] = entries
                while let entries = waiting.removeValue(forKey: taken) {
                    for entry in entries { add(entry) }
                    taken += 1
                }
            }
        }
        guard rowCount > 0 else {
            throw BatchFileError(
                code: .emptyFile, file: input.path, line: nil, message: "the file has no rows",
                remedy: "add a row for each price to change")
        }
        sha256 = source.hexadecimalDigest
        for name in claimsByName.keys {
            if let id = DependentReference(name).originalTransactionID, let key = keys.key(of: id) {
                claimedSubscriptions.insert(key)
            }
        }
        findShared()
    }

    private mutating func add(_ entry: BatchFileEntry) {
        rowCount += 1
        guard let row = Self.mentioned(by: entry) else { return }
        mentions.append(
            Mention(
                subscription: keys.add(row.originalTransactionID), line: row.line,
                newPrice: row.newPrice, sku: skus.number(of: row.sku),
                dependents: row.dependentSKUs.isEmpty
                    ? Self.noDependents : dependents.number(of: row.dependentSKUs),
                terms: terms.number(
                    of: Terms(
                        currency: row.currency, storefront: row.storefront,
                        expectedPrice: row.expectedPrice,
                        effectiveOnOrAfter: row.effectiveOnOrAfter))))
        if case .spoiled = entry { hasSpoiledRows = true }
        for (name, claim) in row.claims { claimsByName[name, default: []].append(claim) }
    }

    /// The item of a row whose cells are wrong, because the row still mentions it; nil where the cells name none.
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

    /// All rows together with which a row of the subscription must be judged, itself included, in the order of lines.
    /// The list may be empty for the only row of a subscription that has no dependents. It has a row that was refused
    /// for its own cells only where its item or dependents matter to another row; nothing else of that row counts.
    func rows(of id: String) -> [BatchRow] {
        guard let key = keys.key(of: id) else { return [] }
        var low = 0
        var high = shared.count
        while low < high {
            let middle = (low + high) / 2
            if shared[middle].subscription < key { low = middle + 1 } else { high = middle }
        }
        var found: [BatchRow] = []
        while low < shared.count, shared[low].subscription == key {
            found.append(row(mentions[Int(shared[low].index)], id))
            low += 1
        }
        return found
    }

    private func row(_ mention: Mention, _ id: String) -> BatchRow {
        let terms = terms[mention.terms]
        return BatchRow(
            line: mention.line, originalTransactionID: id, sku: skus[mention.sku],
            newPrice: mention.newPrice, currency: terms.currency, storefront: terms.storefront,
            dependentSKUs: dependents[mention.dependents], expectedPrice: terms.expectedPrice,
            effectiveOnOrAfter: terms.effectiveOnOrAfter)
    }

    /// The number of pieces of all rows; nil where the file has to be read again, because cells of a row are wrong.
    var pieceCount: Int? {
        hasSpoiledRows || mentions.count < rowCount
            ? nil : (rowCount + Self.pieceRowsMax - 1) / Self.pieceRowsMax
    }

    /// The rows of one of these pieces.
    func entries(ofPiece number: Int) -> [BatchFileEntry] {
        let start = number * Self.pieceRowsMax
        return mentions[start..<min(start + Self.pieceRowsMax, mentions.count)].map { mention in
            .row(row(mention, keys.id(of: mention.subscription)))
        }
    }

    /// Finds the rows that share their subscription with another row, that have dependents, or whose items other rows
    /// name by their subscription.
    private mutating func findShared() {
        let mentions = mentions
        let places = mentions.indices.map { index in
            Place(
                subscription: mentions[index].subscription,
                index: UInt32(truncatingIfNeeded: index))
        }.sorted()
        var start = 0
        while start < places.count {
            let subscription = places[start].subscription
            var end = start + 1
            while end < places.count, places[end].subscription == subscription { end += 1 }
            let group = places[start..<end]
            start = end
            let first = mentions[Int(group[group.startIndex].index)]
            guard
                group.count > 1 || first.dependents != Self.noDependents
                    || claimedSubscriptions.contains(subscription)
            else { continue }
            let items = Set(
                group.lazy.map { mentions[Int($0.index)] }
                    .filter { $0.newPrice != Self.spoiledPrice }.map(\.sku))
            shared += group.filter { place in
                let mention = mentions[Int(place.index)]
                return items.contains(mention.sku) || mention.dependents != Self.noDependents
            }
        }
    }
}

extension BatchRow {
    /// The items on other subscriptions that the row names as dependents, by `SUBSCRIPTION/SKU`.
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

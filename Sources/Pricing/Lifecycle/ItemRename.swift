/// One product under a new SKU. Change Subscription Metadata or Migrate renamed it, and an increase of the item goes
/// on ("Handling subscription price changes": a metadata-only change preserves the price increase).
package struct ItemRename: Hashable, Sendable {
    package var from: String
    package var to: String
}

/// A rename with the statement that told it.
package struct ToldRename: Hashable, Sendable {
    package var rename: ItemRename
    package var key: SubscriptionEvent.Key
    package var source: SubscriptionEvent.Source
}

extension Lifecycle {
    /// The name of an item after all statements about its subscription, in the order of folding; nil where none
    /// renamed it.
    package static func nameToday(of sku: String, after events: [SubscriptionEvent]) -> String? {
        var state = SubscriptionState(originalTransactionID: "", changes: [])
        _ = fold(events, into: &state)
        var name = sku
        for told in state.renames where told.rename.from == name { name = told.rename.to }
        return name == sku ? nil : name
    }
}

extension SubscriptionFacts {
    /// The items that a statement renames: those that no longer renew, each with the one that came in its place.
    ///
    /// Apple does not say which became which. An inference pairs those with the same increase, price and offer, and
    /// then those with the same price, in the order of their names. A single one that is left over goes with the
    /// single one that came.
    func renames(toldBy event: SubscriptionEvent) -> [ItemRename] {
        switch event.type {
        case "METADATA_UPDATE", "MIGRATION", "MIGRATE": break
        case .some, .none: return []
        }
        guard let listed = event.renewal?.items else { return [] }
        let names = Set(listed.map(\.sku))
        let known = Set(items.map(\.sku))
        var gone = items.filter { $0.renews && !names.contains($0.sku) }.sorted { $0.sku < $1.sku }
        var came = listed.filter { !known.contains($0.sku) }.sorted { $0.sku < $1.sku }
        var renames: [ItemRename] = []
        pair(&gone, &came, into: &renames) { old, new in
            old.increase?.status == new.increaseStatus && old.increase?.price == new.increasePrice
                && old.renewalPrice == new.price && old.offer?.price == new.offerPrice
        }
        pair(&gone, &came, into: &renames) { old, new in
            old.increase?.price == new.increasePrice && old.renewalPrice == new.price
        }
        if gone.count == 1, came.count == 1 { pair(&gone, &came, into: &renames) { _, _ in true } }
        return renames
    }

    private func pair(
        _ gone: inout [Item], _ came: inout [StatementItem],
        into renames: inout [ItemRename],
        where isAlike: (Item, StatementItem) -> Bool
    ) {
        gone.removeAll { old in
            guard let place = came.firstIndex(where: { isAlike(old, $0) }) else { return false }
            renames.append(ItemRename(from: old.sku, to: came.remove(at: place).sku))
            return true
        }
    }
}

extension SubscriptionState {
    /// Gives items, recorded increases and changes their new names.
    mutating func rename(_ renames: [ItemRename], at event: SubscriptionEvent) {
        self.renames += renames.map {
            ToldRename(rename: $0, key: event.key, source: event.source)
        }
        let names = Dictionary(renames.map { ($0.from, $0.to) }) { first, _ in first }
        for index in facts.items.indices {
            guard let name = names[facts.items[index].sku] else { continue }
            // The running period was charged under the old name, and its transaction bears that name until the
            // renewal.
            facts.items[index].chargedAs = facts.items[index].chargedAs ?? facts.items[index].sku
            facts.items[index].sku = name
        }
        for index in increases.indices {
            increases[index].sku = names[increases[index].sku] ?? increases[index].sku
        }
        for index in toldPeriods.indices {
            for place in toldPeriods[index].prices.indices {
                let sku = toldPeriods[index].prices[place].sku
                toldPeriods[index].prices[place].sku = names[sku] ?? sku
            }
        }
        for index in cancellations.indices
        where cancellations[index].state == .requested && !cancellations[index].isCrossSubscription
        {
            guard let name = names[cancellations[index].dependentSKU] else { continue }
            cancellations[index].state = .discrepancy
            cancellations[index].settledAt = event.key.signedAt
            cancellations[index].settledByEvidence = event.key.evidenceID
            cancellations[index].detail = "renamed to \(name) before it was cancelled"
        }
    }
}

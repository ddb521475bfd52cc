/// A new SKU for the same product, by Change Subscription Metadata or Migrate. An increase of the item continues
/// ("Handling subscription price changes": a metadata-only change preserves the price increase).
package struct ItemRename: Hashable, Sendable {
    package var from: String
    package var to: String
}

/// A rename, with the statement that shows it.
package struct ToldRename: Hashable, Sendable {
    package var rename: ItemRename
    package var key: SubscriptionEvent.Key
    package var source: SubscriptionEvent.Source
}

extension Lifecycle {
    /// The name of an item after all statements about its subscription, in the order of folding; nil where none renamed
    /// it. `known` are the renames in its facts, whose statements may have been dropped.
    package static func nameToday(
        of sku: String, after events: [SubscriptionEvent],
        known: [SubscriptionFacts.FormerName] = []
    ) -> String? {
        var state = SubscriptionState(originalTransactionID: "", changes: [])
        _ = fold(events, into: &state)
        var name = sku
        for told in state.renames where told.rename.from == name { name = told.rename.to }
        if name == sku {
            for told in known where told.from == name { name = told.to }
        }
        return name == sku ? nil : name
    }
}

extension SubscriptionFacts {
    /// The items that a statement renames: those that no longer renew, each with the one that came in its place.
    ///
    /// Apple does not say which old item became which new one. By inference, this pairs items with the same increase,
    /// price and offer, and then items with the same price, in the order of their names. If one old and one new item
    /// are left, they are a pair too.
    ///
    /// Where the notification of the rename was lost, any other statement shows it by the increase. An item that the
    /// customer chose instead of another has no announced increase, certainly none with the same price as the former
    /// item's.
    func renames(toldBy event: SubscriptionEvent) -> [ItemRename] {
        guard let listed = event.renewal?.items else { return [] }
        let names = Set(listed.map(\.sku))
        let known = Set(items.map(\.sku))
        var gone = items.filter { $0.renews && !names.contains($0.sku) }.sorted { $0.sku < $1.sku }
        var came = listed.filter { !known.contains($0.sku) }.sorted { $0.sku < $1.sku }
        var renames: [ItemRename] = []
        switch event.type {
        case "METADATA_UPDATE", "MIGRATION", "MIGRATE": break
        case .some, .none:
            pair(&gone, &came, into: &renames) { old, new in
                guard let price = old.increase?.price, new.increasePrice == price else {
                    return false
                }
                return new.price == old.renewalPrice || new.price == price
            }
            return renames
        }
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

    /// Keeps renames as long as charges may still change. A rename that alternates with its reverse is kept once.
    mutating func note(_ renames: [FormerName], at: Instant) {
        guard !renames.isEmpty else { return }
        let since = FoldCheckpoint.moneySince(at)
        self.renames.removeAll { $0.at < since }
        for rename in renames {
            let isKnown =
                rename.transactionID != nil
                && self.renames.contains {
                    $0.from == rename.from && $0.to == rename.to
                        && $0.transactionID == rename.transactionID
                }
            if !isKnown { self.renames.append(rename) }
        }
    }

    fileprivate func formerNames(_ renames: [ItemRename], at: Instant) -> [FormerName] {
        renames.map {
            FormerName(from: $0.from, to: $0.to, at: at, transactionID: latestTransactionID)
        }
    }

    /// The renames that only the running transaction shows. It lists another name in place of one that it charged. A
    /// transaction charges an item only once, so it is the same item (an inference). The rename is certain if the price
    /// is the same and the new name was unknown. At another price, or if an item of that name was to join, it is
    /// doubtful.
    ///
    /// - Parameter seen: Every name that was known before.
    func renamesUntold(before event: SubscriptionEvent, seen: [String]) -> [FormerName] {
        guard let transaction = event.transaction, let running = latestTransactionID,
            transaction.transactionID == running, !isOlder(transaction)
        else { return [] }
        let names = Set(transaction.items.lazy.map(\.sku))
        var gone = items.filter { item in
            item.currentPrice != nil && !names.contains(item.sku)
                && !(item.chargedAs.map { names.contains($0) } ?? false)
        }
        guard !gone.isEmpty else { return [] }
        gone.sort { $0.sku < $1.sku }
        let known = Set(items.lazy.map(\.sku)).union(items.lazy.compactMap(\.chargedAs))
        var came = transaction.items.filter { !known.contains($0.sku) }.sorted { $0.sku < $1.sku }
        var alike: [ItemRename] = []
        pair(&gone, &came, into: &alike) { $0.currentPrice == $1.price }
        let charged = Set(
            items.lazy.filter { $0.currentPrice != nil }.flatMap {
                [$0.sku, $0.chargedAs ?? $0.sku]
            })
        let paired = Set(alike.lazy.map(\.to))
        var others = transaction.items.filter {
            !charged.contains($0.sku) && !paired.contains($0.sku)
        }.sorted { $0.sku < $1.sku }
        var doubtful: [ItemRename] = []
        pair(&gone, &others, into: &doubtful) { _, _ in true }
        let bound = Set(
            renames.lazy.filter { $0.isOfItsTransaction && $0.transactionID == running }.map(\.to))
        var told = formerNames(alike + doubtful, at: event.key.signedAt)
        for index in told.indices {
            told[index].isDoubtful = index >= alike.count
            told[index].isOfItsTransaction =
                bound.contains(told[index].from)
                || told[index].isDoubtful && seen.contains(told[index].to)
        }
        return told
    }

    /// The names of a transaction's items when it was charged.
    struct ChargedNames {
        /// The names at the charge, by the names in the transaction; items whose name is the same are left out.
        var former: [String: String] = [:]
        /// Those of these former names that only a doubtful rename shows.
        var doubtful: Set<String> = []
    }

    /// The names that items of a transaction had when it was charged.
    ///
    /// After a rename that takes effect at once, the transaction that charged the item may show the new name (an
    /// inference). It is still the same charge, so it keeps the name at the charge. Only the facts give that name, so
    /// it does not depend on which other statements about the transaction have arrived.
    func namesWhenCharged(in transaction: TransactionStatement) -> ChargedNames {
        let since = renames.filter { $0.isSince(transaction) }
        guard !since.isEmpty else { return ChargedNames() }
        var charged = ChargedNames()
        for item in transaction.items {
            var name = item.sku
            var isDoubtful = false
            for told in since.reversed() where told.to == name {
                name = told.from
                isDoubtful = isDoubtful || told.isDoubtful
            }
            if name != item.sku { charged.former[item.sku] = name }
            if isDoubtful { charged.doubtful.insert(name) }
        }
        guard !charged.former.isEmpty else { return charged }
        // A name that another item had before its own rename means that other item, unless the transaction has a name
        // that can only be new.
        let isOnlyNew = charged.former.keys.contains { name in
            since.first { $0.from == name || $0.to == name }?.to == name
        }
        guard isOnlyNew else { return ChargedNames() }
        let names = Set(transaction.items.lazy.map { charged.former[$0.sku] ?? $0.sku })
        return names.count == Set(transaction.items.lazy.map(\.sku)).count
            ? charged : ChargedNames()
    }

    /// The current names of a transaction's items, by the names in it; items whose name is the same are left out. A
    /// doubtful rename changes no name.
    func namesToday(in transaction: TransactionStatement) -> [String: String] {
        guard !renames.isEmpty else { return [:] }
        let since = renames.filter { !$0.isDoubtful && $0.isSince(transaction) }
        let then = namesWhenCharged(in: transaction).former
        var today: [String: String] = [:]
        for item in transaction.items {
            var name = then[item.sku] ?? item.sku
            for told in since where told.from == name { name = told.to }
            if name != item.sku { today[item.sku] = name }
        }
        return today
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
        facts.note(
            facts.formerNames(renames, at: event.key.signedAt), at: event.key.signedAt)
        let names = Dictionary(renames.map { ($0.from, $0.to) }) { first, _ in first }
        for index in facts.items.indices {
            guard let name = names[facts.items[index].sku] else { continue }
            // The running period was charged under the old name, and its transaction shows that name until the renewal.
            facts.items[index].chargedAs = facts.items[index].chargedAs ?? facts.items[index].sku
            facts.items[index].sku = name
        }
        renameWhatRose(names)
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

    /// Stores the renames that only the running transaction shows. Changes do not follow them.
    mutating func noteRenamesUntold(before event: SubscriptionEvent) {
        let untold = facts.renamesUntold(before: event, seen: seenSKUs)
        guard !untold.isEmpty else { return }
        facts.note(untold, at: event.key.signedAt)
        renameWhatRose(
            Dictionary(untold.lazy.filter { !$0.isDoubtful }.map { ($0.from, $0.to) }) {
                first, _ in first
            })
    }

    private mutating func renameWhatRose(_ names: [String: String]) {
        for index in increases.indices {
            increases[index].sku = names[increases[index].sku] ?? increases[index].sku
        }
        for index in toldPeriods.indices {
            for place in toldPeriods[index].prices.indices {
                let sku = toldPeriods[index].prices[place].sku
                toldPeriods[index].prices[place].sku = names[sku] ?? sku
            }
            toldPeriods[index].announced = toldPeriods[index].announced.map { names[$0] ?? $0 }
        }
    }
}

extension SubscriptionFacts.FormerName {
    /// Whether the rename is newer than the charge of this transaction, so that it may be about it.
    fileprivate func isSince(_ transaction: TransactionStatement) -> Bool {
        if transactionID != nil, transactionID == transaction.transactionID { return true }
        return !isOfItsTransaction && transaction.purchasedAt.map { $0 < at } ?? false
    }
}

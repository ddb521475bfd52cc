extension SubscriptionState {
    mutating func noteSeenSKUs() {
        var seen = Set(seenSKUs)
        for item in facts.items { seen.insert(item.sku) }
        if seen.count > seenSKUs.count { seenSKUs = seen.sorted() }
    }

    /// Remembers increases for the rule of 12 months, first as communicated and then as charged. A refused increase
    /// never happened and is forgotten (an inference: Apple names no anchor).
    mutating func noteIncreases(_ reading: Reading) {
        for item in reading.event.renewal?.items ?? [] { noteCommunicated(item, reading) }
        if let transaction = reading.runningTransaction { noteCharged(transaction, reading) }
        let kept = reading.runningTransaction.flatMap { $0.items.isEmpty ? nil : $0.items }
        let isOver = reading.isExpired
        for index in increases.indices.reversed() where increases[index].isOpen {
            let sku = increases[index].sku
            let isDropped =
                kept.map { items in
                    !items.contains { $0.sku == sku }
                        && !reading.facts.items.contains { $0.sku == sku && $0.chargedAs != nil }
                } ?? false
            guard isOver || isDropped else { continue }
            if increases[index].origin == .offerConversion {
                increases[index].refusedAt = reading.at
            } else {
                increases.remove(at: index)
            }
        }
    }

    private mutating func noteCommunicated(_ item: StatementItem, _ reading: Reading) {
        guard item.increaseStatus == "PENDING" || item.increaseStatus == "ACCEPTED",
            let price = item.increasePrice
        else { return }
        let place =
            increases.firstIndex { $0.sku == item.sku && $0.price == price && $0.isOpen }
            ?? increases.endIndex
        if place == increases.endIndex {
            increases.append(
                RecordedIncrease(
                    sku: item.sku, price: price, communicatedAt: reading.at,
                    origin: origin(of: item, to: price, reading)))
        }
        guard increases[place].origin != nil else { return }
        if item.increaseStatus == "PENDING" {
            increases[place].consentAskedAt = increases[place].consentAskedAt ?? reading.at
        } else {
            increases[place].acceptedAt = increases[place].acceptedAt ?? reading.at
        }
    }

    /// The origin of an increase; nil where a change of ours explains it. In South Korea the App Store also asks before
    /// an offer ends.
    private func origin(
        of item: StatementItem, to price: Int64, _ reading: Reading
    ) -> RecordedIncrease.Origin? {
        let isOurs = changes.contains {
            $0.sku == item.sku && $0.newPrice == price
                && ($0.progress.state.isWithApple || $0.isCallDoubtful)
        }
        if isOurs { return nil }
        guard reading.facts.storefront == "KOR",
            let known = reading.facts.items.first(where: { $0.sku == item.sku }),
            known.offer != nil
        else { return .elsewhere }
        // The price after the offer is the full price in the running period's transaction. The renewal's price may be
        // the increased one, so it is used only where no transaction gives a price.
        guard let full = known.currentPrice ?? item.price else { return .elsewhere }
        return price <= full ? .offerConversion : .elsewhere
    }

    private mutating func noteCharged(_ transaction: TransactionStatement, _ reading: Reading) {
        guard let purchasedAt = transaction.purchasedAt else { return }
        let places = SKUPlaces(reading.before.items.map(\.sku))
        for item in transaction.items {
            guard let price = item.price else { continue }
            let told = increases.firstIndex {
                $0.sku == item.sku && $0.price == price && $0.isOpen
            }
            if let told, increases[told].origin == .offerConversion {
                if reading.newTransaction != nil, !item.isInOffer {
                    increases[told].effectiveAt = purchasedAt
                }
                continue
            }
            // Milliunits of two currencies, of two storefronts, or for a month and a year, cannot be compared, so a move
            // from one to the other is no increase.
            guard !reading.isMove else { continue }
            guard !reading.isOfAnotherLength else {
                // What a statement called an increase is one, whatever was paid before.
                if let told, reading.newTransaction != nil {
                    increases[told].effectiveAt = purchasedAt
                }
                continue
            }
            guard let place = places[item.sku],
                let old = reading.before.items[place].currentPrice, price > old
            else { continue }
            if let told {
                increases[told].effectiveAt = purchasedAt
            } else {
                increases.append(
                    RecordedIncrease(sku: item.sku, price: price, effectiveAt: purchasedAt))
            }
        }
    }
}

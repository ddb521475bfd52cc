extension SubscriptionState {
    mutating func noteSeenSKUs() {
        let seen = Set(seenSKUs).union(facts.items.map(\.sku))
        if seen.count > seenSKUs.count { seenSKUs = seen.sorted() }
    }

    /// What a transaction charged; one told again (a refund, a duplicate) only adds its revocation.
    mutating func noteCharges(of event: SubscriptionEvent) {
        guard let transaction = event.transaction, let transactionID = transaction.transactionID,
            let purchasedAt = transaction.purchasedAt, let currency = transaction.currency
        else { return }
        for item in transaction.items {
            guard let price = item.offerPrice ?? item.price else { continue }
            let revokedAt = item.revokedAt ?? transaction.revokedAt
            let known = charges.firstIndex {
                $0.transactionID == transactionID && $0.sku == item.sku
            }
            if let known {
                charges[known].revokedAt = charges[known].revokedAt ?? revokedAt
            } else {
                charges.append(
                    Charge(
                        transactionID: transactionID, sku: item.sku, purchasedAt: purchasedAt,
                        price: price, currency: currency, revokedAt: revokedAt))
            }
        }
    }

    /// Remembers increases for the rule of 12 months: communicated, then charged. One that was refused never
    /// happened and is forgotten (an inference: Apple names no anchor).
    mutating func noteIncreases(of event: SubscriptionEvent, before: SubscriptionFacts) {
        for item in event.renewal?.items ?? [] {
            guard item.increaseStatus == "PENDING" || item.increaseStatus == "ACCEPTED",
                let price = item.increasePrice
            else { continue }
            if !increases.contains(where: {
                $0.sku == item.sku && $0.price == price && $0.effectiveAt == nil
            }) {
                increases.append(
                    RecordedIncrease(
                        sku: item.sku, price: price, communicatedAt: event.key.signedAt))
            }
        }
        guard let transaction = event.transaction, !before.isOlder(transaction) else { return }
        noteCharged(transaction, before: before)
        let isOver = event.type == "EXPIRED" || event.status == 2
        increases.removeAll { known in
            guard known.effectiveAt == nil else { return false }
            let isDropped =
                !transaction.items.isEmpty && !transaction.items.contains { $0.sku == known.sku }
            return isOver || isDropped
        }
    }

    private mutating func noteCharged(
        _ transaction: TransactionStatement, before: SubscriptionFacts
    ) {
        guard let purchasedAt = transaction.purchasedAt else { return }
        for item in transaction.items {
            guard let price = item.price,
                let old = before.items.first(where: { $0.sku == item.sku })?.currentPrice,
                price > old
            else { continue }
            let told = increases.firstIndex {
                $0.sku == item.sku && $0.price == price && $0.effectiveAt == nil
            }
            if let told {
                increases[told].effectiveAt = purchasedAt
            } else {
                increases.append(
                    RecordedIncrease(sku: item.sku, price: price, effectiveAt: purchasedAt))
            }
        }
    }
}

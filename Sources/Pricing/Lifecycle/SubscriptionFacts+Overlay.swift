extension SubscriptionFacts {
    /// Whether a transaction belongs to an earlier period than the one known.
    func isOlder(_ transaction: TransactionStatement) -> Bool {
        guard let known = purchasedAt, let told = transaction.purchasedAt else { return false }
        return told < known
    }

    /// Lays a newer statement over the facts. What it doesn't mention stays.
    mutating func overlay(_ event: SubscriptionEvent) {
        signedAt = event.key.signedAt
        status = event.status ?? status
        var items = self.items
        if let transaction = event.transaction, !isOlder(transaction) {
            overlay(transaction)
            if transaction.revokedAt != nil { status = 5 }
            items = Self.items(items, asChargedBy: transaction)
        }
        if let renewal = event.renewal {
            overlay(renewal)
            items = Self.items(items, asSetToRenewBy: renewal)
        }
        self.items = items
    }

    private mutating func overlay(_ transaction: TransactionStatement) {
        latestTransactionID = transaction.transactionID ?? latestTransactionID
        productID = transaction.productID ?? productID
        appAccountToken = transaction.appAccountToken ?? appAccountToken
        purchasedAt = transaction.purchasedAt ?? purchasedAt
        originalPurchaseAt = transaction.originalPurchaseAt ?? originalPurchaseAt
        if let expiry = transaction.expiresAt {
            expiresAt = expiry
            renewalAt = expiry
        }
        storefront = transaction.storefront ?? storefront
        currency = transaction.currency ?? currency
        period = transaction.period ?? period
    }

    private mutating func overlay(_ renewal: RenewalStatement) {
        productID = renewal.productID ?? productID
        if let flag = renewal.autoRenewStatus { autoRenews = flag == 1 }
        // Apple leaves these out when they don't hold, so absence in a newer statement is an answer.
        isInBillingRetry = renewal.isInBillingRetry ?? false
        gracePeriodExpiresAt = renewal.gracePeriodExpiresAt
        expirationIntent = renewal.expirationIntent
        renewalAt = renewal.renewalAt ?? renewalAt
        recentSubscriptionStartAt = renewal.recentSubscriptionStartAt ?? recentSubscriptionStartAt
        currency = currency ?? renewal.currency
        appAccountToken = renewal.appAccountToken ?? appAccountToken
        consistencyToken = renewal.consistencyToken ?? consistencyToken
        period = renewal.period ?? period
    }

    /// The items of the running period; one that only joins at the renewal is kept apart by a nil price.
    private static func items(
        _ known: [Item], asChargedBy transaction: TransactionStatement
    ) -> [Item] {
        guard !transaction.items.isEmpty else { return known }
        var items = transaction.items.map { charged in
            var item = known.first { $0.sku == charged.sku } ?? Item(sku: charged.sku)
            item.currentPrice = charged.price
            item.offer = charged.runningOffer
            return item
        }
        let chargedSKUs = Set(items.map(\.sku))
        for item in known where item.renews && !chargedSKUs.contains(item.sku) {
            var joining = item
            joining.currentPrice = nil
            items.append(joining)
        }
        return items
    }

    private static func items(_ known: [Item], asSetToRenewBy renewal: RenewalStatement) -> [Item] {
        guard let renewing = renewal.items else { return known }
        var items: [Item] = known.compactMap { item in
            guard !renewing.contains(where: { $0.sku == item.sku }) else { return nil }
            guard item.currentPrice != nil else { return nil }
            var leaving = item
            leaving.renews = false
            leaving.renewalPrice = nil
            leaving.increase = nil
            return leaving
        }
        for told in renewing {
            var item = known.first { $0.sku == told.sku } ?? Item(sku: told.sku)
            item.renews = true
            item.renewalPrice = told.price
            item.offer = told.offer(besides: item.offer)
            item.increase = told.increaseStatus.map {
                Increase(
                    status: $0, price: told.increasePrice, dependentSKUs: told.dependentSKUs ?? [])
            }
            items.append(item)
        }
        return items.sorted { $0.sku < $1.sku }
    }
}

extension TransactionStatement.Item {
    fileprivate var runningOffer: SubscriptionFacts.Offer? {
        guard offerPrice != nil || offerReason != nil || offerPeriod != nil else { return nil }
        return SubscriptionFacts.Offer(
            price: offerPrice, period: offerPeriod, periodsLeft: 0, reason: offerReason,
            isRunning: true)
    }
}

extension RenewalStatement.Item {
    /// The renewal info counts the periods still to come; without an offer in it, a running one ends here.
    fileprivate func offer(besides running: SubscriptionFacts.Offer?) -> SubscriptionFacts.Offer? {
        let isRunning = running?.isRunning ?? false
        guard offerPrice != nil || offerReason != nil || offerPeriod != nil else {
            guard isRunning, var ending = running else { return nil }
            ending.periodsLeft = 0
            return ending
        }
        return SubscriptionFacts.Offer(
            price: offerPrice, period: offerPeriod, periodsLeft: offerPeriodCount ?? 1,
            reason: offerReason, isRunning: isRunning)
    }
}

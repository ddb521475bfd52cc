extension SubscriptionFacts {
    /// Whether a transaction belongs to an earlier period than the known one.
    func isOlder(_ transaction: TransactionStatement) -> Bool {
        guard let known = purchasedAt, let told = transaction.purchasedAt else { return false }
        return told < known
    }

    /// Applies a newer statement to the facts. Facts that it does not mention stay.
    mutating func overlay(_ event: SubscriptionEvent) {
        signedAt = event.key.signedAt
        guard !isFormerEnd(event) else { return }
        var items = self.items
        var isRevoked = false
        if let transaction = event.transaction, !isOlder(transaction) {
            if transaction.addsSeats {
                overlay(added: transaction, isReversed: event.type == refundReversed)
            } else {
                overlay(transaction)
                isRevoked = transaction.revokedAt != nil
                items = Self.items(items, asChargedBy: transaction)
            }
        }
        status = event.status ?? (isRevoked ? 5 : event.impliedStatus) ?? status
        if let renewal = event.renewal {
            overlay(renewal)
            items = Self.items(items, asSetToRenewBy: renewal, at: event.key.signedAt)
        } else {
            overlayImplications(of: event)
        }
        self.items = items
    }

    private mutating func overlay(_ transaction: TransactionStatement) {
        latestTransactionID = transaction.transactionID ?? latestTransactionID
        productID = transaction.productID ?? productID
        appAccountToken = transaction.appAccountToken ?? appAccountToken
        ownershipType = transaction.ownershipType ?? ownershipType
        if let told = transaction.purchasedAt, told != purchasedAt {
            // Its renewal came, and brought the period that it has, or else the one that was to come.
            period = renewalPeriod ?? period
            renewalPeriod = nil
        }
        purchasedAt = transaction.purchasedAt ?? purchasedAt
        originalPurchaseAt = transaction.originalPurchaseAt ?? originalPurchaseAt
        if let expiry = transaction.expiresAt {
            expiresAt = expiry
            renewalAt = expiry
        }
        storefront = transaction.storefront ?? storefront
        currency = transaction.currency ?? currency
        period = transaction.period ?? period
        notePeriod(coming: nil)
        overlay(quantity: transaction.quantity)
        appTransactionID = transaction.appTransactionID ?? appTransactionID
        transactionReason = transaction.reason ?? transactionReason
        // Apple leaves these out where they do not apply, such as in a period without an offer.
        offerDiscountType = transaction.offerDiscountType
        offerType = transaction.offerType
        transactionDetails = transaction.details
    }

    private mutating func overlay(_ renewal: RenewalStatement) {
        productID = renewal.productID ?? productID
        if let flag = renewal.autoRenewStatus { autoRenews = flag == 1 }
        // Apple leaves these out where they do not hold, so their absence in a newer statement is an answer.
        isInBillingRetry = renewal.isInBillingRetry ?? false
        gracePeriodExpiresAt = renewal.gracePeriodExpiresAt
        expirationIntent = renewal.expirationIntent
        renewalAt = renewal.renewalAt ?? renewalAt
        recentSubscriptionStartAt = renewal.recentSubscriptionStartAt ?? recentSubscriptionStartAt
        currency = currency ?? renewal.currency
        appAccountToken = renewal.appAccountToken ?? appAccountToken
        consistencyToken = renewal.consistencyToken ?? consistencyToken
        notePeriod(coming: renewal.period)
        autoRenewProductID = renewal.autoRenewProductID ?? autoRenewProductID
        appTransactionID = renewal.appTransactionID ?? appTransactionID
        // The items renew in this currency, whether or not the total is told. An old amount no longer renews.
        renewalTotal = renewal.price
        renewalCurrency = renewal.currency
        renewalOfferType = renewal.offerType
        renewalDetails = renewal.details
    }

    /// Applies what the type alone implies, where the renewal info is missing or unreadable.
    private mutating func overlayImplications(of event: SubscriptionEvent) {
        switch (event.type, event.subtype) {
        case ("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED"): autoRenews = true
        case ("DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED"): autoRenews = false
        case ("DID_FAIL_TO_RENEW", _): isInBillingRetry = true
        case ("GRACE_PERIOD_EXPIRED", _): gracePeriodExpiresAt = nil
        case ("DID_RENEW", _), ("SUBSCRIBED", _):
            autoRenews = true
            isInBillingRetry = false
            gracePeriodExpiresAt = nil
        case ("EXPIRED", _):
            isInBillingRetry = false
            gracePeriodExpiresAt = nil
        default: break
        }
    }

    /// The items of the running period. An item that only joins at the renewal has a nil price.
    private static func items(
        _ known: [Item], asChargedBy transaction: TransactionStatement
    ) -> [Item] {
        guard !transaction.items.isEmpty else { return known }
        let places = SKUPlaces(known.map(\.sku))
        let formerPlaces = SKUPlaces(known.map { $0.chargedAs ?? "" })
        var items: [Item] = []
        for charged in transaction.items {
            var item = Item(sku: charged.sku)
            if let place = places[charged.sku] {
                item = known[place]
                item.chargedAs = nil
            } else if let place = formerPlaces[charged.sku] {
                item = known[place]
            }
            item.currentPrice = charged.price
            item.offer = charged.runningOffer
            items.append(item)
        }
        let chargedPlaces = SKUPlaces(items.map(\.sku))
        guard !transaction.isIncomplete else {
            return items + known.filter { chargedPlaces[$0.sku] == nil }
        }
        for item in known where item.renews && chargedPlaces[item.sku] == nil {
            var joining = item
            joining.currentPrice = nil
            joining.chargedAs = nil
            items.append(joining)
        }
        return items
    }

    private static func items(
        _ known: [Item], asSetToRenewBy renewal: RenewalStatement, at signedAt: Instant
    ) -> [Item] {
        guard let renewing = renewal.items else { return known }
        let toldPlaces = SKUPlaces(renewing.map(\.sku))
        var items: [Item] = known.compactMap { item in
            guard toldPlaces[item.sku] == nil, item.currentPrice != nil else { return nil }
            var leaving = item
            leaving.renews = false
            leaving.renewalPrice = nil
            leaving.increase = nil
            return leaving
        }
        let knownPlaces = SKUPlaces(known.map(\.sku))
        for told in renewing {
            var item = knownPlaces[told.sku].map { known[$0] } ?? Item(sku: told.sku)
            item.renews = true
            item.renewalPrice = told.price
            item.offer = told.offer(besides: item.offer)
            item.increase = told.increase(after: item.increase, at: signedAt)
            items.append(item)
        }
        return items.sorted { $0.sku < $1.sku }
    }
}

/// Finds the index of a SKU in a list: by a linear search in a short list, and by a dictionary in a long one.
struct SKUPlaces {
    private let skus: [String]
    private let places: [String: Int]?

    init(_ skus: [String]) {
        self.skus = skus
        places =
            skus.count <= 16
            ? nil : Dictionary(zip(skus, skus.indices)) { first, _ in first }
    }

    subscript(sku: String) -> Int? {
        if let places { return places[sku] }
        return skus.firstIndex(of: sku)
    }
}

extension SubscriptionEvent {
    /// The status that the type implies, where Apple gave none.
    fileprivate var impliedStatus: Int? {
        switch type {
        case "SUBSCRIBED", "DID_RENEW": 1
        case "EXPIRED": 2
        case "DID_FAIL_TO_RENEW": subtype == "GRACE_PERIOD" ? 4 : 3
        case "GRACE_PERIOD_EXPIRED": 3
        case "REVOKE": 5
        case .some, .none: nil
        }
    }
}

extension StatementItem {
    fileprivate var runningOffer: SubscriptionFacts.Offer? {
        guard isInOffer else { return nil }
        return SubscriptionFacts.Offer(
            price: offerPrice, period: offerPeriod, periodsLeft: 0, reason: offerReason,
            isRunning: true)
    }

    /// The increase that the renewal info shows. While it is only scheduled, its expected date is computed from the
    /// first statement that showed it.
    fileprivate func increase(
        after known: SubscriptionFacts.Increase?, at signedAt: Instant
    ) -> SubscriptionFacts.Increase? {
        guard let increaseStatus else { return nil }
        var increase = SubscriptionFacts.Increase(
            status: increaseStatus, price: increasePrice, dependentSKUs: dependentSKUs ?? [])
        guard !increase.isCommunicated else { return increase }
        let isKnown = known?.status == increaseStatus && known?.price == increasePrice
        increase.shownAt = isKnown ? known?.shownAt ?? signedAt : signedAt
        return increase
    }

    /// The offer from the renewal info, which counts the periods still to come. Without an offer in it, a running
    /// offer ends with this period.
    fileprivate func offer(besides running: SubscriptionFacts.Offer?) -> SubscriptionFacts.Offer? {
        let isRunning = running?.isRunning ?? false
        guard isInOffer else {
            guard isRunning, var ending = running else { return nil }
            ending.periodsLeft = 0
            (ending.price, ending.runningPrice) = (ending.chargedPrice, nil)
            return ending
        }
        let charged = running?.chargedPrice
        return SubscriptionFacts.Offer(
            price: offerPrice, period: offerPeriod, periodsLeft: offerPeriodCount ?? 1,
            reason: offerReason, isRunning: isRunning,
            runningPrice: charged == offerPrice ? nil : charged)
    }
}

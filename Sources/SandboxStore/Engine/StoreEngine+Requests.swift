/// Requests: the App Store's checks before it accepts a change, and what it then records.
extension StoreEngine {
    /// The two signed statements of a response, before they are signed.
    struct Answer: Hashable, Sendable {
        var subscription: StoreSubscription
        var signedAt: Int64
        var consistencyToken: String
        /// The transaction in the answer, of an earlier period; nil: the newest.
        var transactionID: Int64?
    }

    /// Change Subscription Price. The caller has advanced the engine to the instant of the call.
    mutating func changePrice(
        transaction: String, request: ChangePriceRequest
    ) throws(StoreError) -> Answer {
        var subscription = try find(transaction)
        if let digest = subscription.answered[request.info.referenceID] {
            // A repeated request gets its answer again and has no other effect.
            guard digest == request.digest else { throw .repeatedRequestReferenceID }
            return statement(of: &subscription)
        }
        try check(request, for: subscription)
        var changes: [(index: Int, change: PendingChange)] = []
        for item in request.items {
            changes.append(try judge(item, of: subscription))
        }
        try checkOpenDependents(request, subscription)
        for (index, change) in changes {
            subscription.items[index].change =
                change.price == subscription.items[index].price
                ? nil : change
        }
        subscription.answered[request.info.referenceID] = request.digest
        touch(&subscription)
        let answer = statement(of: &subscription)
        notify(.priceChange, nil, &subscription)
        put(subscription)
        return Answer(
            subscription: answer.subscription, signedAt: answer.signedAt,
            consistencyToken: answer.consistencyToken)
    }

    /// Cancel a Subscription: it runs to the end of the period.
    mutating func cancel(
        transaction: String, info: RequestInfo, storefront: String?
    ) throws(StoreError) -> Answer {
        var subscription = try find(transaction)
        if subscription.answered[info.referenceID] != nil { return statement(of: &subscription) }
        if let storefront, storefront != subscription.storefront { throw .mismatchedStorefront }
        guard subscription.isBilledOrWaiting else { throw .subscriptionDoesNotExist }
        guard subscription.autoRenews else { throw .notEligible }
        try checkToken(info, subscription)
        subscription.answered[info.referenceID] = "cancel"
        turnOffRenewal(&subscription)
        let answer = statement(of: &subscription)
        put(subscription)
        return answer
    }

    /// Get All Subscription Statuses: all subscriptions of a transaction's customer. Reading signs statements too, and
    /// so raises `lastSignedAt`.
    mutating func statuses(transaction: String) throws(StoreError) -> [Answer] {
        subscriptions(ofCustomerOf: try find(transaction)).map { subscription in
            var subscription = subscription
            return statement(of: &subscription)
        }
    }

    mutating func statement(of subscription: inout StoreSubscription) -> Answer {
        let signedAt = sign(&subscription)
        subscriptions[subscription.originalTransactionID] = subscription
        return Answer(
            subscription: subscription, signedAt: signedAt,
            consistencyToken: consistencyToken(of: subscription))
    }

    func find(_ transaction: String) throws(StoreError) -> StoreSubscription {
        guard !transaction.isEmpty, transaction.utf8.count <= 18,
            transaction.utf8.allSatisfy({ (48...57).contains($0) })
        else { throw .invalidTransactionID }
        guard let found = subscription(ofTransaction: transaction) else {
            throw .transactionNotFound
        }
        return found
    }

    func checkToken(
        _ info: RequestInfo, _ subscription: StoreSubscription
    ) throws(StoreError) {
        guard let token = info.consistencyToken, options.repeats ?? .staleToken == .staleToken
        else { return }
        if token != consistencyToken(of: subscription) { throw .invalidConsistencyToken }
    }

    private func check(
        _ request: ChangePriceRequest, for subscription: StoreSubscription
    ) throws(StoreError) {
        if let storefront = request.storefront, storefront != subscription.storefront {
            throw .mismatchedStorefront
        }
        if let currency = request.currency, currency != subscription.currency {
            throw .invalidCurrency
        }
        switch subscription.status {
        case .active: break
        case .gracePeriod, .billingRetry: throw .notEligible
        case .expired, .revoked: throw .subscriptionDoesNotExist
        }
        guard subscription.autoRenews else { throw .notEligible }
        try checkToken(request.info, subscription)
    }

    private func judge(
        _ wanted: ChangePriceRequest.Item, of subscription: StoreSubscription
    ) throws(StoreError) -> (index: Int, change: PendingChange) {
        guard let index = subscription.items.firstIndex(where: { $0.renewalSKU == wanted.sku }),
            !subscription.items[index].isLeaving
        else { throw .notSetToRenew }
        let item = subscription.items[index]
        if item.offer != nil { throw .notEligible }
        if item.change?.isCommunicated == true { throw .alreadyCommunicated }
        if options.repeats == .refused, item.change?.price == wanted.price {
            throw .alreadyCommunicated
        }
        let isIncrease = wanted.price > item.price
        if isIncrease, subscription.storefront == "IND" { throw .indiaIncrease }
        let step = Markets.priceStep(of: subscription.currency) ?? 10
        guard wanted.price % step == 0 else { throw .malformedPayload }
        let rule = ConsentRule(subscription: subscription, calendar: options.calendar, now: now)
        let decision = rule.decide(item: item, price: wanted.price)
        let increase = PendingIncrease(
            needsConsent: decision.needsConsent, communicatesAt: decision.tellsAt,
            dependentSKUs: wanted.dependentSKUs)
        return (
            index,
            PendingChange(
                price: wanted.price, effectiveAt: decision.effectiveAt,
                kind: isIncrease ? .increase(increase) : .decrease)
        )
    }

    /// The rules for dependents also apply to increases that are already open, and not only within one request.
    private func checkOpenDependents(
        _ request: ChangePriceRequest, _ subscription: StoreSubscription
    ) throws(StoreError) {
        var parents = request.items.map { ($0.sku, $0.dependentSKUs) }
        for item in subscription.items where !request.items.contains(where: { $0.sku == item.sku })
        {
            if let open = item.change?.increase { parents.append((item.sku, open.dependentSKUs)) }
        }
        try DependentSKUs.check(parents)
    }
}

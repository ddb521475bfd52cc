/// Actions of subscribers and servers besides price changes, and their effect on an open increase: the interaction
/// matrix of "Handling subscription price changes".
extension StoreEngine {
    /// The caller has advanced the engine to the instant of the action.
    mutating func act(_ action: OperatorAction) throws(StoreError) -> Answer {
        guard var subscription = subscription(ofTransaction: action.subscription) else {
            throw .transactionNotFound
        }
        guard subscription.isBilledOrWaiting else { throw .subscriptionDoesNotExist }
        switch action.kind {
        case .reactivate(let skus): try reactivate(&subscription, skus)
        case .modify(let retainsCycle, let items, let removed):
            try modify(&subscription, retainsCycle: retainsCycle, items, removed)
        case .rename(let from, let to, let atRenewal):
            try rename(&subscription, [from: to], .metadataUpdate, atRenewal: atRenewal)
        case .migrate(let suffix): try migrate(&subscription, suffix)
        case .consent: try consentNow(&subscription)
        case .turnOff:
            guard subscription.autoRenews else { throw .notEligible }
            turnOffRenewal(&subscription)
        case .turnOn:
            guard !subscription.autoRenews else { throw .notEligible }
            turnOnRenewal(&subscription)
        case .refund(let items):
            try refund(
                &subscription, of: Int64(action.subscription) ?? subscription.transactionID, items)
        case .declineRefund: notify(.refundDeclined, nil, &subscription)
        case .move(let storefront, let prices):
            subscription.nextHome = .init(storefront: storefront, prices: prices)
        }
        let signedAt = sign(&subscription)
        put(subscription)
        return Answer(
            subscription: subscription, signedAt: signedAt,
            consistencyToken: consistencyToken(of: subscription))
    }

    /// The named items return at the higher price, which the payment sheet showed, so that this counts as consent. It
    /// does not raise other items. A subscriber who was not told yet is told on the next eligible date.
    private mutating func reactivate(
        _ subscription: inout StoreSubscription, _ skus: [String]
    ) throws(StoreError) {
        let known = Set(subscription.items.map(\.sku))
        guard known.isSuperset(of: skus) else { throw .notSetToRenew }
        guard !subscription.autoRenews || subscription.items.contains(where: \.isLeaving) else {
            throw .alreadyActive
        }
        let named = skus.isEmpty ? known : Set(skus)
        var consented = false
        for index in subscription.items.indices
        where named.contains(subscription.items[index].sku) {
            subscription.items[index].isLeaving = false
            if subscription.items[index].change?.increase?.status == .pending {
                subscription.items[index].change?.increase?.status = .accepted
                consented = true
            }
        }
        if !subscription.autoRenews { turnOnRenewal(&subscription) }
        if consented {
            touch(&subscription)
            notify(.priceIncrease, .accepted, &subscription)
        }
    }

    private mutating func consentNow(
        _ subscription: inout StoreSubscription
    ) throws(StoreError) {
        var consented = false
        for index in subscription.items.indices
        where subscription.items[index].change?.increase?.status == .pending {
            subscription.items[index].change?.increase?.status = .accepted
            consented = true
        }
        guard consented else { throw .notEligible }
        touch(&subscription)
        notify(.priceIncrease, .accepted, &subscription)
    }

    private mutating func modify(
        _ subscription: inout StoreSubscription, retainsCycle: Bool,
        _ wanted: [OperatorAction.Item], _ removed: [String]
    ) throws(StoreError) {
        guard subscription.status == .active, subscription.autoRenews else { throw .notEligible }
        var next = subscription
        next.keepPeriod()
        for index in next.items.indices where removed.contains(next.items[index].sku) {
            next.items[index].isLeaving = true
        }
        if !retainsCycle {
            // A new cycle begins without increases, except for items that were sent at their higher price. An increase
            // that was not communicated is void even then: that price is then the app's own.
            for index in next.items.indices {
                guard let change = next.items[index].change, let increase = change.increase else {
                    continue
                }
                let sent = wanted.first { $0.sku == next.items[index].sku }?.price
                if sent == change.price {
                    next.items[index].price = change.price
                    if increase.status != .scheduled { next.increasedAt = now }
                }
                next.items[index].change = nil
            }
        }
        for item in wanted { try apply(item, to: &next, retainsCycle: retainsCycle) }
        if !retainsCycle {
            next.items.removeAll(where: \.isLeaving)
            next.anchorDay = Milliseconds.date(of: now).day
            next.expiresAt = options.calendar.end(
                of: next.period, from: now, anchorDay: next.anchorDay)
        }
        guard !next.items.allSatisfy(\.isLeaving) else { throw .notSetToRenew }
        next.renewalCount += 1
        next.purchasedAt = now
        next.lastWasPurchase = true
        subscription = next
        touch(&subscription)
        notify(.didChangeRenewalPref, nil, &subscription)
    }

    private func apply(
        _ wanted: OperatorAction.Item, to subscription: inout StoreSubscription, retainsCycle: Bool
    ) throws(StoreError) {
        guard let current = wanted.currentSKU else {
            guard !subscription.items.contains(where: { $0.sku == wanted.sku }) else {
                throw .productAlreadyExists
            }
            subscription.items.append(
                StoreItem(
                    sku: wanted.sku, displayName: wanted.sku, description: wanted.sku,
                    price: wanted.price ?? 0))
            return
        }
        // An item that was declined or removed is no longer shown.
        guard
            let index = subscription.items.firstIndex(where: {
                $0.sku == current && !$0.isLeaving
            })
        else {
            throw .changeItemNotFound
        }
        if wanted.sku != current {
            // Another product replaces the item; an increase of the old one is void.
            subscription.items[index] = StoreItem(
                sku: wanted.sku, displayName: wanted.sku, description: wanted.sku,
                price: wanted.price ?? subscription.items[index].price)
            return
        }
        let item = subscription.items[index]
        let due = item.change?.increase == nil ? item.price : item.change?.price ?? item.price
        if let price = wanted.price, price != due {
            throw item.change?.increase == nil
                ? .priceChangeThroughModify : .invalidPriceInIncrease
        }
        if let price = wanted.offerPrice {
            let periods = max(1, wanted.offerPeriods ?? 1)
            subscription.items[index].offer = StoreOffer(
                price: price, periodsLeft: periods, periodCount: periods, reason: "RETENTION")
            if retainsCycle { postpone(&subscription, index, periods: periods) }
        } else if retainsCycle, item.change?.increase?.status == .pending {
            // The payment sheet showed the higher price, and the subscriber confirmed it, which is consent.
            subscription.items[index].change?.increase?.status = .accepted
        }
    }

    /// Postpones the increase to the offer's end, where it is communicated again.
    private func postpone(
        _ subscription: inout StoreSubscription, _ index: Int, periods: Int
    ) {
        guard var change = subscription.items[index].change, var increase = change.increase else {
            return
        }
        let movedTo = subscription.renewal(periods, calendar: options.calendar)
        let lead = max(0, change.effectiveAt - increase.communicatesAt)
        change.effectiveAt = max(change.effectiveAt, movedTo)
        increase.communicatesAt = max(now, change.effectiveAt - lead)
        increase.status = .scheduled
        increase.consentsAt = nil
        change.increase = increase
        subscription.items[index].change = change
    }

    private mutating func migrate(
        _ subscription: inout StoreSubscription, _ suffix: String
    ) throws(StoreError) {
        guard !subscription.items.contains(where: { $0.change?.isCommunicated == true }) else {
            throw .migrationAfterCommunication
        }
        let names = subscription.items.map { ($0.sku, $0.sku + suffix) }
        try rename(&subscription, Dictionary(names) { first, _ in first }, .migration)
    }

    private mutating func rename(
        _ subscription: inout StoreSubscription, _ names: [String: String],
        _ kind: StoreEvent.Kind, atRenewal: Bool = false
    ) throws(StoreError) {
        let known = Set(subscription.items.map(\.sku))
        guard names.keys.allSatisfy(known.contains), known.isDisjoint(with: names.values) else {
            throw .changeItemNotFound
        }
        if atRenewal {
            for index in subscription.items.indices {
                subscription.items[index].nextSKU = names[subscription.items[index].sku]
            }
        } else {
            subscription.rename(names)
        }
        touch(&subscription)
        notify(kind, nil, &subscription)
    }
}

extension StoreSubscription {
    /// Renames items. Their increases and dependents keep pointing to them.
    mutating func rename(_ names: [String: String]) {
        guard !names.isEmpty else { return }
        for index in items.indices {
            items[index].sku = names[items[index].sku] ?? items[index].sku
            if var increase = items[index].change?.increase {
                increase.dependentSKUs = increase.dependentSKUs.map { names[$0] ?? $0 }
                items[index].change?.increase = increase
            }
        }
    }

    /// Applies the renames that a metadata change scheduled for this renewal.
    mutating func takeNextNames() {
        var names: [String: String] = [:]
        for index in items.indices {
            names[items[index].sku] = items[index].nextSKU
            items[index].nextSKU = nil
        }
        rename(names)
    }
}

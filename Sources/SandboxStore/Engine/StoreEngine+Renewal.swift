/// Renewals: the items that end, the charge, and its failures.
extension StoreEngine {
    mutating func renew(_ subscription: inout StoreSubscription) {
        let dueAt = subscription.expiresAt
        if let renewalsMax = options.renewalsMax, subscription.renewalCount >= renewalsMax {
            return expire(&subscription, intent: 1, subtype: .voluntary)
        }
        guard subscription.autoRenews else {
            return expire(&subscription, intent: 1, subtype: .voluntary)
        }
        dropDeclinedItems(&subscription, dueAt: dueAt)
        if subscription.renewingItems.isEmpty {
            return expire(&subscription, intent: 3, subtype: .priceIncrease)
        }
        if let trouble = subscription.plan.trouble, trouble.from <= dueAt {
            return failCharge(&subscription, trouble: trouble, dueAt: dueAt)
        }
        charge(&subscription, startsAt: dueAt, recovered: false)
    }

    /// An item whose increase still waits for consent at its renewal ends there, and so do its dependents.
    private func dropDeclinedItems(_ subscription: inout StoreSubscription, dueAt: Int64) {
        var dropped: Set<String> = []
        for item in subscription.items {
            guard item.replacement == nil, let change = item.change, change.effectiveAt <= dueAt,
                let increase = change.increase, increase.status == .pending
            else { continue }
            dropped.insert(item.sku)
            dropped.formUnion(increase.dependentSKUs)
        }
        for index in subscription.items.indices
        where dropped.contains(subscription.items[index].sku)
            || dropped.contains(subscription.items[index].renewalSKU)
        {
            subscription.items[index].isLeaving = true
        }
    }

    private mutating func failCharge(
        _ subscription: inout StoreSubscription, trouble: SubscriberPlan.BillingTrouble,
        dueAt: Int64
    ) {
        subscription.plan.trouble = nil
        subscription.recoversAt = trouble.recoversAfter.map { dueAt + scaled($0) }
        let retryEndsAt = dueAt + scaled(options.retryDays * Milliseconds.day)
        subscription.retryEndsAt = retryEndsAt
        subscription.expirationIntent = 2
        touch(&subscription)
        if trouble.hasGrace {
            subscription.status = .gracePeriod
            subscription.graceEndsAt = dueAt + scaled(options.graceDays * Milliseconds.day)
            notify(.didFailToRenew, .gracePeriod, &subscription)
        } else {
            subscription.status = .billingRetry
            notify(.didFailToRenew, nil, &subscription)
        }
    }

    mutating func endGrace(_ subscription: inout StoreSubscription) {
        subscription.status = .billingRetry
        subscription.graceEndsAt = nil
        touch(&subscription)
        notify(.gracePeriodExpired, nil, &subscription)
    }

    /// A recovery within the grace period keeps the billing date. After it, the new period begins with the payment.
    mutating func recover(_ subscription: inout StoreSubscription) {
        let keepsDate = subscription.status == .gracePeriod
        let startsAt = keepsDate ? subscription.expiresAt : now
        subscription.status = .active
        subscription.graceEndsAt = nil
        subscription.retryEndsAt = nil
        subscription.recoversAt = nil
        subscription.expirationIntent = nil
        if !keepsDate {
            subscription.anchorDay = Milliseconds.date(of: startsAt).day
        }
        charge(&subscription, startsAt: startsAt, recovered: true)
    }

    private mutating func charge(
        _ subscription: inout StoreSubscription, startsAt: Int64, recovered: Bool
    ) {
        let dueAt = subscription.expiresAt
        var increased = false
        subscription.keepPeriod()
        subscription.takeNextNames()
        subscription.items.removeAll { $0.isLeaving }
        for index in subscription.items.indices {
            if let next = subscription.items[index].replacement {
                subscription.items[index] = StoreItem(
                    sku: next.sku, displayName: next.sku, description: next.sku, price: next.price)
            }
            increased = subscription.items[index].beginPeriod(dueAt: dueAt) || increased
        }
        subscription.moveHome()
        if increased { subscription.increasedAt = startsAt }
        subscription.renewalCount += 1
        subscription.lastWasPurchase = nil
        subscription.purchasedAt = startsAt
        subscription.expiresAt = options.calendar.end(
            of: subscription.period, from: startsAt, anchorDay: subscription.anchorDay)
        if startsAt != dueAt { alignChanges(&subscription) }
        touch(&subscription)
        notify(.didRenew, recovered ? .billingRecovery : nil, &subscription)
    }

    /// After a late recovery the renewals are on other days. Each change moves to the first renewal that is not before
    /// its date.
    private func alignChanges(_ subscription: inout StoreSubscription) {
        for index in subscription.items.indices {
            guard var change = subscription.items[index].change else { continue }
            let movedTo = subscription.firstRenewal(
                atOrAfter: change.effectiveAt, calendar: options.calendar)
            if var increase = change.increase, increase.status == .scheduled {
                increase.communicatesAt += movedTo - change.effectiveAt
                change.increase = increase
            }
            change.effectiveAt = movedTo
            subscription.items[index].change = change
        }
    }

    /// A duration in real days, shortened like the periods.
    private func scaled(_ duration: Int64) -> Int64 {
        guard let month = options.calendar.shortMonth else { return duration }
        return max(1, duration / Milliseconds.day * month / 30)
    }
}

extension StoreSubscription {
    /// A move brings other prices in another currency, and drops scheduled changes. It does not count as an increase.
    fileprivate mutating func moveHome() {
        guard let home = nextHome, let market = Markets.byStorefront[home.storefront] else {
            return
        }
        nextHome = nil
        storefront = home.storefront
        currency = market.currency
        for index in items.indices {
            items[index].change = nil
            if let price = home.prices[items[index].sku] { items[index].price = price }
        }
    }
}

extension StoreItem {
    /// Applies what is due at the renewal `dueAt`; true when an increase was charged.
    fileprivate mutating func beginPeriod(dueAt: Int64) -> Bool {
        if var running = offer {
            running.periodsLeft -= 1
            offer = running.periodsLeft < 0 ? nil : running
        }
        guard let due = change, due.effectiveAt <= dueAt else { return false }
        price = due.price
        change = nil
        return due.increase != nil
    }
}

extension StoreEngine {
    /// The limit per customer, across their subscriptions.
    static let extensionsMax = 2
    static let extensionYear = 365 * Milliseconds.day

    /// Extend a Subscription Renewal Date; returns the new one. A repeated request moves nothing.
    mutating func extend(
        originalTransaction text: String, _ terms: ExtensionTerms
    ) throws(StoreError) -> Int64 {
        guard !text.isEmpty, text.utf8.count <= 18,
            text.utf8.allSatisfy({ (48...57).contains($0) }), let id = Int64(text)
        else { throw .invalidOriginalTransactionID }
        guard var subscription = subscriptions[id] else { throw .originalTransactionNotFound }
        let key = "extend \(terms.requestIdentifier)"
        if let answered = subscription.answered[key], let date = Int64(answered) { return date }
        try checkExtension(of: subscription)
        move(&subscription, by: terms.days)
        subscription.answered[key] = String(subscription.expiresAt)
        notify(.renewalExtended, nil, &subscription)
        put(subscription)
        return subscription.expiresAt
    }

    func checkExtension(of subscription: StoreSubscription) throws(StoreError) {
        if subscription.isFamilyShared == true { throw .familySharedExtensionIneligible }
        guard isExtensible(subscription) else { throw .extensionIneligible }
        let recent = subscriptions(ofCustomerOf: subscription).flatMap { $0.extendedAt ?? [] }
            .count { $0 > now - Self.extensionYear }
        if recent >= Self.extensionsMax { throw .maxExtension }
    }

    /// Active, and paid for: not in a free offer, not in billing retry, not in grace beyond its expiry.
    private func isExtensible(_ subscription: StoreSubscription) -> Bool {
        switch subscription.status {
        case .active: subscription.chargedPrice > 0
        case .gracePeriod, .billingRetry, .expired, .revoked: false
        }
    }

    /// Moves the renewal date. A change that was due at a renewal stays due at that renewal, and the communication of
    /// an increase that has not been told yet moves by as much.
    private mutating func move(_ subscription: inout StoreSubscription, by days: Int64) {
        let length =
            options.calendar.shortMonth.map { max(1, days * $0 / 30) } ?? days * Milliseconds.day
        let turns = subscription.items.map { item in
            item.change.map { change in
                (0...400).first {
                    subscription.renewal($0, calendar: options.calendar) >= change.effectiveAt
                } ?? 0
            }
        }
        subscription.expiresAt += length
        subscription.anchorDay = Milliseconds.date(of: subscription.expiresAt).day
        subscription.extendedAt = (subscription.extendedAt ?? []) + [now]
        for (index, turn) in zip(subscription.items.indices, turns) {
            guard let turn, var change = subscription.items[index].change else { continue }
            let movedTo = subscription.renewal(turn, calendar: options.calendar)
            if var increase = change.increase, increase.status == .scheduled {
                increase.communicatesAt += movedTo - change.effectiveAt
                change.increase = increase
            }
            change.effectiveAt = movedTo
            subscription.items[index].change = change
        }
        touch(&subscription)
    }
}

/// Extensions of many subscriptions at once.
extension StoreEngine {
    /// Accepts the request. A repeated identifier changes nothing.
    mutating func extendAll(
        productID: String, storefronts: [String]?, _ terms: ExtensionTerms
    ) {
        guard
            !massExtensions.contains(where: {
                $0.terms.requestIdentifier == terms.requestIdentifier
            })
        else { return }
        let reached = subscriptions.values.filter { subscription in
            subscription.isFamilyShared != true && isExtensible(subscription)
                && storefronts.map { $0.contains(subscription.storefront) } ?? true
        }
        let hours = options.massExtensionHours ?? 6
        let length =
            options.calendar.shortMonth.map { max(1, $0 / 10) } ?? hours * Milliseconds.hour
        let mass = MassExtension(
            terms: terms, productID: productID, storefronts: storefronts, beganAt: now,
            endsAt: now + length, waiting: reached.map(\.originalTransactionID).sorted(by: >),
            total: reached.count)
        massExtensions.append(mass)
        plan(massExtension: massExtensions.count - 1, at: mass.nextAt)
    }

    func massExtension(productID: String, requestIdentifier: String) -> MassExtension? {
        massExtensions.first {
            $0.productID == productID && $0.terms.requestIdentifier == requestIdentifier
        }
    }

    /// Processes the next subscription of a mass extension, or ends it.
    mutating func goOn(with index: Int) {
        guard massExtensions.indices.contains(index) else { return }
        var mass = massExtensions[index]
        guard let id = mass.waiting.popLast() else {
            mass.completedAt = now
            massExtensions[index] = mass
            return notifySummary(of: mass)
        }
        if var subscription = subscriptions[id], isExtended(&subscription, by: mass) {
            mass.succeeded += 1
        } else {
            mass.failed += 1
        }
        massExtensions[index] = mass
        plan(massExtension: index, at: mass.nextAt)
    }

    private mutating func isExtended(
        _ subscription: inout StoreSubscription, by mass: MassExtension
    ) -> Bool {
        var random = SeededRandom(
            seed: options.seed, "mass extension", mass.terms.requestIdentifier, subscription.id)
        let isSpared = !random.chance(Int64(options.massFailurePercent ?? 5))
        let isEligible: Bool
        // Any refusal is a failure of the mass extension.
        do { try checkExtension(of: subscription); isEligible = true } catch { isEligible = false }
        let isDone = isSpared && isEligible
        if isDone { move(&subscription, by: mass.terms.days) }
        notify(
            isDone ? .renewalExtended : .renewalExtension, isDone ? nil : .failure, &subscription)
        put(subscription)
        return isDone
    }

    private mutating func notifySummary(of mass: MassExtension) {
        var random = SeededRandom(
            seed: options.seed, "summary", mass.terms.requestIdentifier)
        outgoing.append(
            StoreEvent(
                notificationUUID: random.uuid(), kind: .renewalExtension, subtype: .summary,
                signedAt: now, consistencyToken: "", subscription: nil, summary: mass.summary))
    }
}

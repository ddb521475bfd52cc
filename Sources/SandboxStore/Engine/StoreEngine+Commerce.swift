/// The other calls of the Advanced Commerce API: names, and the way in from a subscription of another kind.
extension StoreEngine {
    /// Change Subscription Metadata. At once, or shown in the renewal info now and charged under the new names from
    /// the next renewal on.
    mutating func changeMetadata(
        transaction: String, _ order: MetadataOrder
    ) throws(StoreError) -> Answer {
        var subscription = try open(transaction, order.info, order.storefront)
        guard subscription.isPlain != true else { throw .productNotEligible }
        var names: [String: String] = [:]
        for item in order.items {
            let index = subscription.items.firstIndex {
                !$0.isLeaving && $0.renewalSKU == item.currentSKU
            }
            guard let index else { throw .productNotFound }
            if let sku = item.names.sku, sku != item.currentSKU,
                subscription.items.contains(where: { $0.sku == sku || $0.renewalSKU == sku })
            {
                throw .productAlreadyExists
            }
            guard item.isImmediate else {
                subscription.items[index].next = item.names
                continue
            }
            let old = subscription.items[index]
            subscription.items[index].displayName = item.names.displayName ?? old.displayName
            subscription.items[index].description = item.names.description ?? old.description
            names[old.sku] = item.names.sku
        }
        subscription.rename(names)
        if let given = order.descriptors {
            let old = subscription.descriptors ?? StoreNames.usual
            let new = StoreNames(
                displayName: given.displayName ?? old.displayName,
                description: given.description ?? old.description)
            if given.isImmediate { subscription.descriptors = new }
            subscription.nextDescriptors = new
        }
        subscription.taxCode = order.taxCode ?? subscription.taxCode
        return answer(&subscription, order.info) { engine, subscription in
            engine.touch(&subscription)
            engine.notify(.metadataUpdate, nil, &subscription)
        }
    }

    /// Migrate a Subscription to Advanced Commerce. What is charged stays; where it becomes several items, the first
    /// carries the price (an inference: the request has none).
    mutating func migrate(
        transaction: String, _ order: MigrateOrder, productID: String
    ) throws(StoreError) -> Answer {
        var subscription = try open(transaction, order.info, order.storefront)
        guard subscription.isPlain == true else { throw .alreadyMigrated }
        guard order.targetProductID == productID else { throw .invalidTargetProductID }
        guard !order.hasRenewalItems else { throw .pendingChangesMismatch }
        guard !subscription.items.contains(where: { $0.change?.isCommunicated == true }) else {
            throw .migrationAfterCommunication
        }
        guard let old = subscription.items.first else { throw .productNotEligible }
        subscription.items = order.items.enumerated().map { index, item in
            var new =
                index == 0 ? old : StoreItem(sku: "", displayName: "", description: "", price: 0)
            new.sku = item.sku
            new.displayName = item.names.displayName
            new.description = item.names.description
            return new
        }
        subscription.isPlain = nil
        subscription.descriptors = order.descriptors
        subscription.taxCode = order.taxCode
        return answer(&subscription, order.info) { engine, subscription in
            engine.touch(&subscription)
            engine.notify(.migration, nil, &subscription)
        }
    }

    // MARK: What they share

    /// The subscription of a call that may be made once. Apple lists RepeatedRequestReferenceId for these.
    func open(
        _ transaction: String, _ info: RequestInfo, _ storefront: String?
    ) throws(StoreError) -> StoreSubscription {
        let subscription = try called(transaction, info, storefront)
        guard subscription.isBilledOrWaiting else { throw .inactive }
        return subscription
    }

    /// The same, of a subscription in any state.
    func called(
        _ transaction: String, _ info: RequestInfo, _ storefront: String?
    ) throws(StoreError) -> StoreSubscription {
        let subscription = try find(transaction)
        guard subscription.answered[info.referenceID] == nil else {
            throw .repeatedRequestReferenceID
        }
        if let storefront, storefront != subscription.storefront { throw .mismatchedStorefront }
        try checkToken(info, subscription)
        return subscription
    }

    /// Remembers the request, lets its effect happen, and states what the subscription is then.
    mutating func answer(
        _ subscription: inout StoreSubscription, _ info: RequestInfo,
        effect: (inout StoreEngine, inout StoreSubscription) -> Void
    ) -> Answer {
        subscription.answered[info.referenceID] = ""
        effect(&self, &subscription)
        put(subscription)
        return statement(of: &subscription)
    }
}

extension StoreSubscription {
    /// Gives items other SKUs; increases and their dependents go along.
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

    /// What a change of metadata ordered for the next billing cycle.
    mutating func takeNextNames() {
        var names: [String: String] = [:]
        for index in items.indices {
            guard let next = items[index].next else { continue }
            names[items[index].sku] = next.sku
            items[index].displayName = next.displayName ?? items[index].displayName
            items[index].description = next.description ?? items[index].description
            items[index].next = nil
        }
        rename(names)
        descriptors = nextDescriptors ?? descriptors
        nextDescriptors = nil
    }
}

extension SubscriptionState {
    /// Ends changes of dependents whose parent was declined: each ends with its parent, and its reason says so instead
    /// of "declined". If the subscriber left altogether nothing was declined, and each change ends for that reason.
    mutating func dropDependentsOfDecliners(_ reading: Reading) -> [Transition] {
        let decliners = changes.filter { $0.isDeclinedItself && $0.progress.endedAt == reading.at }
        let fallen = Set(decliners.flatMap(\.dependentSKUs))
        var lines: [Transition] = []
        for index in changes.indices
        where fallen.contains(changes[index].sku) && changes[index].progress.endedAt == reading.at
            && changes[index].progress.state != .effective
        {
            changes[index].fallWithParent()
            lines.append(reading.transition(changes[index]))
        }
        return lines
    }

    /// Opens a cancellation for each dependent of a change that was refused by this statement.
    mutating func cancelDependents(_ reading: Reading, _ transitions: [Transition]) {
        let moved = Set(transitions.map(\.changeID))
        for change in changes where moved.contains(change.changeID) && change.isRefused {
            for sku in change.dependentSKUs {
                guard
                    !cancellations.contains(where: {
                        $0.changeID == change.changeID && $0.dependentSKU == sku
                    })
                else { continue }
                let isCrossSubscription = !isOwn(sku, of: change, reading)
                cancellations.append(
                    DependentCancellation(
                        changeID: change.changeID, dependentSKU: sku, parentSKU: change.sku,
                        cause: change.progress.reason ?? change.progress.state.rawValue,
                        price: reading.before.items.first { $0.sku == sku }?.currentPrice,
                        currency: isCrossSubscription ? nil : facts.currency, state: .requested,
                        requestedAt: reading.at,
                        requestedByEvidence: reading.event.key.evidenceID,
                        isCrossSubscription: isCrossSubscription)
                )
            }
        }
    }

    /// Whether the App Store cancels it with its parent on the same subscription: our call named it, or it is set to
    /// renew there. Any other dependent is on another subscription of the customer, even if this one once had it.
    private func isOwn(_ sku: String, of change: TrackedChange, _ reading: Reading) -> Bool {
        guard let isTold = change.isTold(dependent: sku) else { return seenSKUs.contains(sku) }
        return isTold || reading.before.renewingSKUs.contains(sku)
    }

    /// Settles dependents with a proof: the dependent no longer renews, or the subscription is over.
    mutating func settleDependents(_ reading: Reading) {
        let isOver = reading.end != nil || reading.formerEnd != nil
        for index in cancellations.indices
        where cancellations[index].state == .requested && !cancellations[index].isCrossSubscription
        {
            let sku = cancellations[index].dependentSKU
            let isListed = reading.event.renewal?.items.map { items in
                items.contains { $0.sku == sku }
            }
            let isCharged = reading.runningTransaction.map { transaction in
                transaction.items.contains { $0.sku == sku }
                    && (transaction.purchasedAt ?? reading.at) > cancellations[index].requestedAt
            }
            if isOver || isListed == false {
                settle(
                    index, .confirmed, reading,
                    isOver ? "subscription ended" : "gone from the renewal")
            } else if isCharged == true {
                settle(index, .discrepancy, reading, "charged again after the parent was declined")
            }
        }
    }

    private mutating func settle(
        _ index: Int, _ state: DependentCancellation.State, _ reading: Reading, _ detail: String
    ) {
        cancellations[index].state = state
        cancellations[index].settledAt = reading.at
        cancellations[index].settledByEvidence = reading.event.key.evidenceID
        cancellations[index].detail = detail
    }
}

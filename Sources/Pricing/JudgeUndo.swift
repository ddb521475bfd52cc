extension Judge {
    /// Judges an undo of a scheduled change before it is sent. `change.currentPrice` is the scheduled price, and
    /// `change.newPrice` the price that is paid now and should stay.
    ///
    /// It is sent only while the newest facts show the increase as scheduled and the customer was not told. It is not
    /// sent after `sendBy`, when the customer is told.
    package func judgeUndo(
        _ change: StoredChange, sendBy: Instant, effectiveAt: Instant, facts: SubscriptionFacts?
    ) -> SendingVerdict {
        guard let facts else {
            return .ineligible(
                RowFault(
                    .unknownSubscription, "nothing of this subscription can be read",
                    remedy: "read its state with repricer sync"))
        }
        if let fault = fault(ofUndo: change, facts) ?? lateness(sendBy) {
            if fault.code == .noChange, let seen = turn(of: change, effectiveAt, facts) {
                return .wait(until: seen)
            }
            return .ineligible(fault)
        }
        var plan = PlanRow(
            line: 0, originalTransactionID: change.originalTransactionID, sku: change.sku)
        plan.consent = Consent.none
        plan.sendBy = sendBy
        plan.effectiveAt = effectiveAt
        return .send(plan)
    }

    /// When the renewal before a scheduled decrease is over: until then Apple's statements show the price of that renewal, and
    /// not whether the decrease is scheduled. nil where the decrease is due at the coming renewal. An increase is shown from
    /// the call on.
    private func turn(
        of change: StoredChange, _ effectiveAt: Instant, _ facts: SubscriptionFacts
    ) -> Instant? {
        guard change.currentPrice < change.newPrice, let renewalAt = facts.renewalAt,
            facts.isLater(effectiveAt, than: renewalAt)
        else { return nil }
        // The statement of the renewal may come a while after it.
        return max(renewalAt, now).advanced(by: Instant.millisecondsPerDay / 24)
    }

    private func lateness(_ sendBy: Instant) -> RowFault? {
        guard now > sendBy else { return nil }
        return RowFault(
            .alreadyCommunicated, "the customer is told from \(sendBy.text) on",
            remedy: "wait until it took effect, then change the price again")
    }

    private func fault(ofUndo change: StoredChange, _ facts: SubscriptionFacts) -> RowFault? {
        guard let item = facts.items.first(where: { $0.sku == change.sku }),
            facts.renewingSKUs.contains(change.sku)
        else {
            return RowFault(
                .unknownItem, "\(change.sku) is not set to renew", remedy: "nothing is to be undone"
            )
        }
        if facts.currency.map({ $0 != change.currency }) ?? false
            || item.currentPrice != change.newPrice
        {
            return RowFault(
                .drifted,
                "\(PriceText.amount(change.newPrice, change.currency)) is not what is paid now",
                remedy: "submit the price that is wanted")
        }
        if item.increase?.isCommunicated == true {
            return RowFault(
                .alreadyCommunicated, "the customer was told of the increase",
                remedy: "wait until it took effect, then change the price again")
        }
        let wasIncrease = change.currentPrice > change.newPrice
        let scheduled = wasIncrease ? item.increase?.price : item.renewalPrice
        guard scheduled == change.currentPrice else {
            return RowFault(
                .noChange,
                "\(PriceText.amount(change.currentPrice, change.currency)) is no longer scheduled",
                remedy: "nothing is to be undone")
        }
        return standing(facts)
    }

    /// The fault for which the App Store would refuse any change.
    private func standing(_ facts: SubscriptionFacts) -> RowFault? {
        if let holder = facts.holder {
            return RowFault(
                .notActive, "the subscription is \(holder.words)", remedy: "nothing is to be undone"
            )
        }
        let remedy = "nothing can be changed until the subscription renews again"
        switch facts.status {
        case 1: break
        case 3:
            return RowFault(.billingRetry, "the App Store is retrying to charge", remedy: remedy)
        case 4:
            return RowFault(.gracePeriod, "the subscription is in its grace period", remedy: remedy)
        case nil:
            return RowFault(
                .notActive, "no statement tells whether the subscription is active",
                remedy: "read its state with repricer sync")
        case .some: return RowFault(.notActive, "the subscription is not active", remedy: remedy)
        }
        guard facts.autoRenews == false else { return nil }
        return RowFault(
            .autoRenewOff, "the subscriber has turned renewal off", remedy: remedy)
    }
}

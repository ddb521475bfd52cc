extension RowGroup {
    /// The increases that Apple shows and that have not taken effect, but for open changes of ours, whose renewals are
    /// known. The renewals of the others are inferred.
    func shown(besides history: IncreaseHistory) -> [EarlierIncrease] {
        facts.items.compactMap { item in
            guard let increase = item.increase,
                !context.openChanges.contains(where: { $0.sku == item.sku }),
                isRise(item, increase), let renewals
            else { return nil }
            let index = index(of: increase, on: item, renewals, besides: history)
            return EarlierIncrease(
                sku: item.sku, at: renewals.renewal(index), origin: .past(.statement))
        }
    }

    /// The end of an offer is shown as an increase in South Korea, and is none of the price.
    private func isRise(
        _ item: SubscriptionFacts.Item, _ increase: SubscriptionFacts.Increase
    ) -> Bool {
        guard let price = increase.price, let current = item.currentPrice else { return true }
        return price > current
    }

    private func index(
        of increase: SubscriptionFacts.Increase, on item: SubscriptionFacts.Item,
        _ renewals: Renewals, besides history: IncreaseHistory
    ) -> Int {
        switch increase.status {
        case "PENDING": 0
        case "ACCEPTED":
            context.announcedAt[item.sku].map { fourth(after: $0, renewals) } ?? 0
        default:
            scheduledIndex(of: increase, on: item, renewals, besides: history) ?? 0
        }
    }

    /// An increase of a weekly plan that is only announced applies at the fourth renewal that a call was in time for.
    private func fourth(after announced: Instant, _ renewals: Renewals) -> Int {
        guard renewals.period == .week, !renewals.isSandbox else { return 0 }
        let first = (-4...0).first {
            renewals.renewal($0).advanced(by: -Instant.millisecondsPerDay) >= announced
        }
        return max(0, (first ?? 0) + 3)
    }

    /// The renewal that our own dates give to a call at the instant of the statement.
    private func scheduledIndex(
        of increase: SubscriptionFacts.Increase, on item: SubscriptionFacts.Item,
        _ renewals: Renewals, besides history: IncreaseHistory
    ) -> Int? {
        let at = facts.signedAt ?? judge.now
        guard let price = increase.price, let current = item.currentPrice,
            let increase = self.increase(
                of: item.sku, from: current, to: price, currency: facts.currency,
                storefront: facts.storefront, at: at, besides: history)
        else { return nil }
        let search = RenewalSearch(renewals, increase: increase, now: at)
        return renewals.isSandbox
            ? renewals.firstIndex(atOrAfter: at) + 1 : search.reached(by: at)?.index
    }
}

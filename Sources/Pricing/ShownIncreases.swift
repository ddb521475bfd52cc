extension RowGroup {
    /// The increases that Apple shows, or will charge at the renewal, and that have not taken effect. Increases of our
    /// open changes are left out, because their renewals are known; a change that was not sent, or that has another
    /// price, does not explain what Apple shows. The renewals of the others are inferred. Those that are only scheduled
    /// are handled one after the other, because an earlier one may make consent necessary and so move the renewal.
    func shown(besides known: IncreaseHistory) -> [EarlierIncrease] {
        guard let renewals else { return [] }
        let items = facts.items.filter { item in
            item.increase.map { isRise(item, $0) } == true
                && !context.openChanges.contains {
                    $0.sku == item.sku && !$0.isUnsent
                        && (item.increase?.price ?? $0.newPrice) == $0.newPrice
                }
        }
        var history = known
        var shown: [EarlierIncrease] = []
        func add(_ item: SubscriptionFacts.Item, at renewal: Instant) {
            let increase = EarlierIncrease(sku: item.sku, at: renewal, origin: .past(.statement))
            history.add(increase)
            shown.append(increase)
        }
        for item in facts.items where isRaised(item) { add(item, at: renewals.renewal(0)) }
        for item in items where item.increase?.isCommunicated == true {
            add(item, at: renewals.renewal(communicatedIndex(of: item, renewals)))
        }
        var scheduled = items.filter { $0.increase?.isCommunicated == false }
        while !scheduled.isEmpty {
            let dated = scheduled.map { item in
                renewals.renewal(scheduledIndex(of: item, renewals, besides: history) ?? 0)
            }
            guard let earliest = dated.min() else { break }
            let settled = zip(scheduled, dated).filter { $0.1 == earliest }.map(\.0)
            for item in settled { add(item, at: earliest) }
            scheduled.removeAll(where: settled.contains)
        }
        return shown
    }

    /// Whether a higher price renews for which Apple shows no increase, for example one agreed elsewhere. It counts as
    /// an increase once it is charged, so it counts before that too.
    private func isRaised(_ item: SubscriptionFacts.Item) -> Bool {
        guard item.renews, item.increase == nil, item.offer == nil,
            facts.renewalCurrency == nil || facts.renewalCurrency == facts.currency,
            facts.renewalPeriod == nil || facts.renewalPeriod == facts.period,
            let running = item.currentPrice, let renewal = item.renewalPrice, renewal > running
        else { return false }
        return !context.openChanges.contains { $0.sku == item.sku && !$0.isUnsent }
    }

    /// Whether it is an increase of the price. In South Korea the end of an offer is shown as an increase too.
    private func isRise(
        _ item: SubscriptionFacts.Item, _ increase: SubscriptionFacts.Increase
    ) -> Bool {
        guard let price = increase.price, let current = item.currentPrice else { return true }
        return price > current
    }

    /// The renewal of an increase that the subscriber was told of.
    private func communicatedIndex(
        of item: SubscriptionFacts.Item, _ renewals: Renewals
    ) -> Int {
        guard item.increase?.status == "ACCEPTED", let told = context.announcedAt[item.sku] else {
            return 0
        }
        return fourth(after: told, renewals)
    }

    /// The fourth renewal after the notice: an increase of a weekly plan that is only announced applies there. The call
    /// came before the notice, so that a renewal within a day of it counts, too.
    private func fourth(after announced: Instant, _ renewals: Renewals) -> Int {
        guard renewals.period == .week, !renewals.isSandbox else { return 0 }
        return max(0, firstIndex(atOrAfter: announced, renewals) + 3)
    }

    /// The index of the first renewal at or after an instant; negative where that renewal has passed. Since the running
    /// period began there was no renewal, however far its end was moved.
    private func firstIndex(atOrAfter instant: Instant, _ renewals: Renewals) -> Int {
        var index = renewals.firstIndex(atOrAfter: instant)
        if let purchasedAt = facts.purchasedAt, instant > purchasedAt { return index }
        // No increase waits for so many renewals. One that was first shown even earlier should have taken effect, so it
        // is due at the next renewal.
        while index > -8, renewals.renewal(index - 1) >= instant { index -= 1 }
        return index
    }

    /// The renewal that a call of ours would have reached at the instant of the first statement that showed the
    /// increase, counted from the renewal that was next then. An increase that should already have taken effect is due
    /// at the next renewal.
    private func scheduledIndex(
        of item: SubscriptionFacts.Item, _ renewals: Renewals, besides history: IncreaseHistory
    ) -> Int? {
        let at = item.increase?.shownAt ?? facts.signedAt ?? judge.now
        guard let price = item.increase?.price, let current = item.currentPrice,
            let increase = self.increase(
                of: item.sku, from: current, to: price, currency: facts.currency,
                storefront: facts.storefront, at: at, besides: history)
        else { return nil }
        let passed = min(0, firstIndex(atOrAfter: at, renewals))
        let then = renewals.counted(from: passed)
        let index =
            renewals.isSandbox
            ? then.firstIndex(atOrAfter: at) + 1
            : RenewalSearch(then, increase: increase, now: at).reached(by: at)?.index
        return index.map { max(0, $0 + passed) }
    }
}

extension RowGroup {
    /// Open increases of ours that no call was made for. Their renewals move as long as they wait: one that went by, or
    /// that no call can reach any more, saw no increase.
    var waitingIncreases: [JudgeContext.OpenChange] {
        context.openChanges.filter { $0.isUnsent && $0.increasesAt != nil }
    }

    /// The renewal that a call for a waiting increase reaches, made as early as its date allows; nil where Apple has not
    /// said when the subscription renews, or the item costs as much already.
    func renewal(of change: JudgeContext.OpenChange, besides history: IncreaseHistory) -> Instant? {
        guard let due = change.increasesAt else { return nil }
        let item = facts.items.first { $0.sku == change.sku }
        guard let renewals, let current = item?.currentPrice ?? item?.renewalPrice,
            let increase = increase(
                of: change.sku, from: current, to: change.newPrice, currency: facts.currency,
                storefront: facts.storefront, at: judge.now, besides: history)
        else { return due }
        guard current < change.newPrice else { return nil }
        // A renewal may have moved by hours since the date was stored; periods are a week at least.
        let day = due.advanced(by: -Instant.millisecondsPerDay).day
        return RenewalSearch(renewals, increase: increase, now: judge.now)
            .timeline(onOrAfter: day)?.effectiveAt
    }
}

extension JudgeContext.OpenChange {
    /// Whether the App Store can't know of it.
    var isUnsent: Bool { state == .awaitingApproval || state == .queued }

    func increase(at renewal: Instant) -> EarlierIncrease {
        EarlierIncrease(
            sku: sku, at: renewal, origin: changeID.map { .change($0) } ?? .past(.statement))
    }
}

extension RowGroup {
    /// Open increases of ours that no call was made for. Their renewals move as long as they wait, because a renewal
    /// that has passed, or that no call can reach any more, had no increase.
    var waitingIncreases: [JudgeContext.OpenChange] {
        context.openChanges.filter { $0.isUnsent && $0.increasesAt != nil }
    }

    /// The waiting increases that are called before the rows, each at the renewal that it reaches. A row is judged as
    /// if Apple had been told of them. Those that still wait then stay in `waiting`.
    func called(
        of waiting: inout [JudgeContext.OpenChange], besides known: IncreaseHistory
    ) -> IncreaseHistory {
        var history = known
        guard judge.waitingSince < judge.callsFrom else { return history }
        while true {
            let reached = waiting.map { reach(of: $0, besides: history, from: judge.waitingSince) }
            // A call may be sent when its plan allows it, and one without a plan is sent at once.
            let gone = reached.indices.filter {
                (reached[$0]?.sendAfter ?? judge.waitingSince) < judge.callsFrom
            }
            guard let earliest = gone.compactMap({ reached[$0]?.renewal }).min() else { break }
            let settled = gone.filter { reached[$0]?.renewal == earliest }.map { waiting[$0] }
            settled.forEach { history.add($0.increase(at: earliest)) }
            waiting.removeAll(where: settled.contains)
        }
        return history
    }

    /// The renewal that a call for a waiting increase reaches if it is made as early as its date allows; nil where the
    /// item already costs that much.
    func renewal(of change: JudgeContext.OpenChange, besides history: IncreaseHistory) -> Instant? {
        reach(of: change, besides: history, from: judge.callsFrom)?.renewal
    }

    /// The same, with the instant before which the call must not be sent. Where Apple has not said when the
    /// subscription renews, the renewal is the stored one.
    private func reach(
        of change: JudgeContext.OpenChange, besides history: IncreaseHistory, from now: Instant
    ) -> (renewal: Instant, sendAfter: Instant?)? {
        guard let due = change.increasesAt else { return nil }
        let item = facts.items.first { $0.sku == change.sku }
        guard let renewals, let current = item?.currentPrice ?? item?.renewalPrice,
            let increase = increase(
                of: change.sku, from: current, to: change.newPrice, currency: facts.currency,
                storefront: facts.storefront, at: now, besides: history)
        else { return (due, nil) }
        guard current < change.newPrice else { return nil }
        // A renewal may have moved by hours since the date was stored; periods are a week at least.
        let day = due.advanced(by: -Instant.millisecondsPerDay).day
        return RenewalSearch(renewals, increase: increase, now: now).timeline(onOrAfter: day)
            .map { ($0.effectiveAt, $0.sendAfter) }
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

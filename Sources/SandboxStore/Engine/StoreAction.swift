/// What a subscription does next by itself.
struct StoreAction: Hashable, Sendable {
    /// In the order in which they happen at one instant.
    enum Kind: Int, Hashable, Sendable, CaseIterable {
        case consent, cancel, resume, refund, revoke, recover, doing
        case renew, graceEnds, retryEnds
        case communicate
    }

    var at: Int64
    var kind: Kind
}

extension StoreSubscription {
    /// The earliest action; at one instant the earliest in the order of `StoreAction.Kind`.
    func nextAction(calendar: BillingCalendar) -> StoreAction? {
        var candidates: [StoreAction] = []
        func add(_ kind: StoreAction.Kind, _ at: Int64?) {
            if let at { candidates.append(StoreAction(at: at, kind: kind)) }
        }
        add(.doing, plan.doings?.first?.at)
        guard isBilledOrWaiting else { return candidates.first }
        add(.refund, plan.refundedAt)
        add(.revoke, plan.revokedAt)
        if autoRenews, status == .active { add(.cancel, plan.cancelsAt) }
        if !autoRenews, status == .active { add(.resume, plan.resumesAt) }
        for item in items {
            guard let increase = item.change?.increase else { continue }
            switch increase.status {
            case .scheduled: if autoRenews { add(.communicate, increase.communicatesAt) }
            case .pending: if autoRenews { add(.consent, increase.consentsAt) }
            case .accepted: break
            }
        }
        switch status {
        case .active: add(.renew, expiresAt)
        case .gracePeriod:
            add(.recover, recoversAt)
            add(.graceEnds, graceEndsAt)
        case .billingRetry:
            add(.recover, recoversAt)
            add(.retryEnds, retryEndsAt)
        case .expired, .revoked: break
        }
        return candidates.min { ($0.at, $0.kind.rawValue) < ($1.at, $1.kind.rawValue) }
    }
}

extension StoreEngine {
    mutating func perform(_ action: StoreAction, on subscription: inout StoreSubscription) {
        switch action.kind {
        case .consent: consent(&subscription)
        case .cancel: turnOffRenewal(&subscription)
        case .resume: turnOnRenewal(&subscription)
        case .refund: end(&subscription, by: .refund)
        case .revoke: end(&subscription, by: .revoke)
        case .recover: recover(&subscription)
        case .doing: doNext(&subscription)
        case .renew: renew(&subscription)
        case .graceEnds: endGrace(&subscription)
        case .retryEnds: expire(&subscription, intent: 2, subtype: .billingRetry)
        case .communicate: communicate(&subscription)
        }
    }

    mutating func turnOffRenewal(_ subscription: inout StoreSubscription) {
        subscription.autoRenews = false
        subscription.plan.cancelsAt = nil
        touch(&subscription)
        notify(.didChangeRenewalStatus, .autoRenewDisabled, &subscription)
    }

    mutating func turnOnRenewal(_ subscription: inout StoreSubscription) {
        subscription.autoRenews = true
        subscription.plan.resumesAt = nil
        touch(&subscription)
        notify(.didChangeRenewalStatus, .autoRenewEnabled, &subscription)
    }

    private mutating func end(_ subscription: inout StoreSubscription, by kind: StoreEvent.Kind) {
        subscription.status = .revoked
        subscription.autoRenews = false
        subscription.revokedAt = now
        subscription.plan.refundedAt = nil
        subscription.plan.revokedAt = nil
        touch(&subscription)
        notify(kind, nil, &subscription)
        if kind == .refund { setAddedSeats(of: &subscription, areGivenBack: true) }
    }

    mutating func expire(
        _ subscription: inout StoreSubscription, intent: Int, subtype: StoreEvent.Subtype
    ) {
        subscription.status = .expired
        subscription.autoRenews = false
        subscription.expirationIntent = intent
        subscription.graceEndsAt = nil
        subscription.retryEndsAt = nil
        touch(&subscription)
        notify(.expired, subtype, &subscription)
    }
}

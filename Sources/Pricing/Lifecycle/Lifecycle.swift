/// The fold: one signed statement after another, in the order of `SubscriptionEvent.Key`, into facts, states
/// of our changes and cancellations of dependents. A pure function of the set of statements.
///
/// A statement tells three kinds of things, applied in this order:
/// 1. facts: the running period (transaction) and what is set to renew (renewal info);
/// 2. progress of changes: applied, asked, accepted, charged, dropped, ended;
/// 3. dependents: a parent that was not consented to takes them along, and absence proves it.
package enum Lifecycle {
    /// Folds `events` into `state` and returns the lines of history in order.
    ///
    /// The events must be newer than `state.foldedThrough` and sorted by key; a caller that holds an older one
    /// folds all of them from the beginning.
    package static func fold(
        _ events: [SubscriptionEvent], into state: inout SubscriptionState
    ) -> [Transition] {
        var transitions: [Transition] = []
        for event in events {
            transitions += apply(event, to: &state)
        }
        transitions += state.closeSuperseded(at: nil)
        return transitions
    }

    private static func apply(
        _ event: SubscriptionEvent, to state: inout SubscriptionState
    ) -> [Transition] {
        let before = state.facts
        state.facts.overlay(event)
        state.noteSeenSKUs()
        state.noteCharges(of: event)
        state.noteIncreases(of: event, before: before)

        let reading = Reading(event: event, before: before, facts: state.facts)
        var transitions = state.closeSuperseded(at: event.key.signedAt)
        for index in state.changes.indices {
            transitions += state.changes[index].follow(reading)
        }
        transitions += state.dropDependentsOfDecliners(reading)
        state.cancelDependents(reading, transitions)
        state.settleDependents(reading)
        state.foldedThrough = event.key
        return transitions
    }
}

/// One statement, read against the facts before and after it.
struct Reading {
    let event: SubscriptionEvent
    let before: SubscriptionFacts
    let facts: SubscriptionFacts

    var at: Instant { event.key.signedAt }

    /// The transaction, unless it is older than the period already known: a refund of an earlier one, say.
    var runningTransaction: TransactionStatement? {
        guard let transaction = event.transaction, !before.isOlder(transaction) else { return nil }
        return transaction
    }

    var isRevoked: Bool {
        if event.type == "REVOKE" || event.status == 5 { return true }
        return runningTransaction?.revokedAt != nil
    }

    /// Why the subscription is over, if this statement says so.
    var end: SubscriptionEnd? {
        if isRevoked { return .revoked }
        let isOver = event.type == "EXPIRED" || event.status == 2
        guard isOver else { return nil }
        switch event.type == "EXPIRED" ? event.subtype : nil {
        case "VOLUNTARY": return .voluntary
        case "PRICE_INCREASE": return .priceIncrease
        case "BILLING_RETRY": return .billing
        case "PRODUCT_NOT_FOR_SALE": return .product
        case .some, .none: return SubscriptionEnd(expirationIntent: event.renewal?.expirationIntent)
        }
    }

    func transition(_ change: TrackedChange) -> Transition {
        Transition(
            changeID: change.changeID, state: change.progress.state, at: at,
            evidenceKind: event.source, evidenceID: event.key.evidenceID,
            reason: change.progress.reason)
    }
}

enum SubscriptionEnd: Hashable {
    case voluntary, priceIncrease, billing, product, revoked, other

    /// Apple's `expirationIntent`: 1 customer cancelled, 2 billing error, 3 no consent, 4 product, 5 other.
    init(expirationIntent: Int?) {
        switch expirationIntent {
        case 1: self = .voluntary
        case 2: self = .billing
        case 3: self = .priceIncrease
        case 4: self = .product
        case .some, .none: self = .other
        }
    }

    var reason: String {
        switch self {
        case .voluntary: "left_voluntarily"
        case .priceIncrease: "expired_for_price_increase"
        case .billing: "billing_failed"
        case .product: "product_not_for_sale"
        case .revoked: "refunded_or_revoked"
        case .other: "expired"
        }
    }

    func finalState(isIncrease: Bool) -> ChangeState {
        switch self {
        case .voluntary, .revoked: .cancelled
        // A decrease can't be declined: its subscription ended for another item's increase.
        case .priceIncrease: isIncrease ? .declined : .cancelled
        case .billing, .product, .other: .lapsed
        }
    }
}

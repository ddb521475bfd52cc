/// One statement beside the facts before and after it.
struct Reading {
    let event: SubscriptionEvent
    /// The facts before and after. Renamed items have their new names in both.
    let before: SubscriptionFacts
    let facts: SubscriptionFacts
    let renames: [ItemRename]
    /// Whether its renewal is off by a call of ours, for a parent on another subscription.
    let isCancelledByUs: Bool

    var at: Instant { event.key.signedAt }

    /// The transaction, unless it is of an earlier period than the known one (a refund of an earlier period, for
    /// example), or only adds seats.
    var runningTransaction: TransactionStatement? {
        guard let transaction = event.transaction, !before.isOlder(transaction),
            !transaction.addsSeats
        else { return nil }
        return transaction
    }

    /// The transaction, if it is the first statement of its period.
    var newTransaction: TransactionStatement? {
        guard let transaction = runningTransaction else { return nil }
        guard let known = before.purchasedAt, let told = transaction.purchasedAt else {
            return before.purchasedAt == nil ? transaction : nil
        }
        return told > known ? transaction : nil
    }

    /// Whether its transaction was charged in another currency or storefront than the known ones.
    var isMove: Bool {
        isInAnotherCurrency || Self.differs(before.storefront, event.transaction?.storefront)
    }

    /// Whether its transaction is of a period of another length than the known one.
    var isOfAnotherLength: Bool { Self.differs(before.period, event.transaction?.period) }

    /// Whether its transaction was charged in another currency than the known one. The same number is another price then.
    var isInAnotherCurrency: Bool { Self.differs(before.currency, event.transaction?.currency) }

    static func differs(_ old: String?, _ new: String?) -> Bool {
        old != nil && new != nil && old != new
    }

    /// Whether the customer caused what is new, by a modification, a reactivation or an offer, and not a renewal. The
    /// `transactionReason` of a purchase is then PURCHASE.
    var isCustomersDoing: Bool {
        if newTransaction?.reason == "PURCHASE" { return true }
        switch event.type {
        case "DID_CHANGE_RENEWAL_PREF", "OFFER_REDEEMED", "SUBSCRIBED": return true
        case .some, .none: return false
        }
    }

    /// Whether a listed SKU neither ran nor was set to renew before. It may have replaced another.
    var hasNewcomer: Bool {
        let told =
            event.renewal?.items.map { $0.map(\.sku) }
            ?? runningTransaction.map { $0.items.map(\.sku) } ?? []
        let known = Set(before.items.map(\.sku))
        return told.contains { !known.contains($0) }
    }

    /// Whether another item's increase waited for an answer until this statement.
    func wasAnotherAsked(than sku: String) -> Bool {
        before.items.contains { $0.sku != sku && $0.increase?.status == "PENDING" }
    }

    var isRevoked: Bool {
        if event.type == "REFUND_REVERSED" { return false }
        if event.type == "REVOKE" || event.status == 5 { return true }
        // A status counts more than the revocation mark on the transaction, because a part of it may be refunded while
        // the subscription continues. A refund of an expired subscription ends it.
        guard event.status == nil || event.type == "REFUND" && event.status == 2 else {
            return false
        }
        return runningTransaction?.revokedAt != nil
    }

    /// Why the subscription is over, if this statement says so.
    var end: SubscriptionEnd? {
        if isRevoked { return .revoked }
        return isExpired ? toldEnd : nil
    }

    var toldEnd: SubscriptionEnd {
        switch event.type == "EXPIRED" ? event.subtype : nil {
        case "VOLUNTARY": return .voluntary
        case "PRICE_INCREASE": return .priceIncrease
        case "BILLING_RETRY": return .billing
        case "PRODUCT_NOT_FOR_SALE": return .product
        case .some, .none: return SubscriptionEnd(expirationIntent: event.renewal?.expirationIntent)
        }
    }

    var isExpired: Bool { !isFormerEnd && (event.type == "EXPIRED" || event.status == 2) }

    func transition(_ change: TrackedChange) -> Transition {
        Transition(
            changeID: change.changeID, state: change.progress.state, at: at,
            evidenceKind: event.source, evidenceID: event.key.evidenceID,
            reason: change.progress.reason)
    }
}

enum SubscriptionEnd: Hashable {
    case voluntary, priceIncrease, billing, product, revoked, other

    /// Reads Apple's `expirationIntent`: 1 customer cancelled, 2 billing error, 3 no consent, 4 product, 5 other.
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
}

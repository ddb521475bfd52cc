/// Refunds that the developer's server asks for: answered at once, settled a while later by a notification.
extension StoreEngine {
    /// Revoke Subscription: ends it with a refund.
    mutating func revoke(
        transaction: String, _ order: RevokeOrder
    ) throws(StoreError) -> Answer {
        var subscription = try called(transaction, order.info, order.storefront)
        try checkRefundable(subscription)
        guard subscription.isBilledOrWaiting else { throw .revokeOnInactive }
        subscription.pendingRefund = PendingRefund(
            at: now + refundLead, transactionID: subscription.transactionID, items: nil,
            reason: order.reason, type: order.type)
        return answer(&subscription, order.info) { _, _ in }
    }

    /// Request Transaction Refund: of items of one transaction, the running one or an earlier one.
    mutating func requestRefund(
        transaction: String, _ order: RefundOrder
    ) throws(StoreError) -> Answer {
        var subscription = try called(transaction, order.info, order.storefront)
        if let currency = order.currency, currency != subscription.currency {
            throw .invalidCurrency
        }
        try checkRefundable(subscription)
        let number = Int64(transaction) ?? subscription.transactionID
        guard let period = subscription.asOf(transaction: number) else {
            throw .transactionNotFound
        }
        let isLatest = number == subscription.transactionID
        for wanted in order.items {
            guard let item = period.items.first(where: { $0.sku == wanted.sku }) else {
                throw .invalidSKU
            }
            guard item.refund == nil else { throw .alreadyRefunded }
            if wanted.type == RefundWords.prorated, !isLatest { throw .proratedOnlyLatest }
            if let amount = wanted.amount, amount > item.chargedPrice { throw .invalidAmount }
        }
        let revoked = Set(order.items.filter(\.revokes).map(\.sku))
        if isLatest, subscription.items.allSatisfy({ $0.isLeaving || revoked.contains($0.sku) }) {
            throw .removalOfAll
        }
        subscription.pendingRefund = PendingRefund(
            at: now + refundLead, transactionID: number,
            items: order.items.map(PendingRefund.Item.init),
            reason: order.items.first?.reason ?? "", type: "")
        var answer = answer(&subscription, order.info) { _, _ in }
        answer.transactionID = number
        return answer
    }

    private func checkRefundable(_ subscription: StoreSubscription) throws(StoreError) {
        if subscription.status == .revoked { throw .alreadyRefunded }
        if subscription.pendingRefund != nil { throw .pendingRefund }
        if subscription.isPlain == true { throw .productNotEligible }
    }

    /// Between the answer and the notification.
    private var refundLead: Int64 {
        options.calendar.shortMonth.map { max(1, $0 / 720) } ?? Milliseconds.hour
    }

    mutating func settleRefund(_ subscription: inout StoreSubscription) {
        guard let refund = subscription.pendingRefund else { return }
        subscription.pendingRefund = nil
        if refund.reason == RefundWords.decline {
            return notify(.refundDeclined, nil, &subscription, about: refund.transactionID)
        }
        guard let items = refund.items else {
            subscription.plan.refundedAt = now
            return perform(StoreAction(at: now, kind: .refund), on: &subscription)
        }
        let isLatest = refund.transactionID == subscription.transactionID
        for item in items {
            subscription.refund(item, of: refund.transactionID, at: now)
            guard item.revokes, isLatest,
                let index = subscription.items.firstIndex(where: { $0.sku == item.sku })
            else { continue }
            subscription.items[index].isLeaving = true
            subscription.items[index].change = nil
        }
        touch(&subscription)
        notify(.refund, nil, &subscription, about: refund.transactionID)
    }
}

/// A refund that was asked for and is not settled yet.
struct PendingRefund: Codable, Hashable, Sendable {
    struct Item: Codable, Hashable, Sendable {
        var sku: String
        var reason: String
        var type: String
        var revokes: Bool
        var amount: Int64?

        init(_ item: RefundOrder.Item) {
            sku = item.sku
            reason = item.reason
            type = item.type
            revokes = item.revokes
            amount = item.amount
        }
    }

    var at: Int64
    var transactionID: Int64
    /// nil: the whole subscription.
    var items: [Item]?
    var reason: String
    /// Of the whole.
    var type: String
}

/// What an item got back.
struct ItemRefund: Codable, Hashable, Sendable {
    var amount: Int64
    var at: Int64
    var reason: String
    var type: String
    /// Its service ended with it.
    var revokes: Bool
}

/// A period that ended, for the transaction that paid it.
struct PastPeriod: Codable, Hashable, Sendable {
    var number: Int
    var purchasedAt: Int64
    var expiresAt: Int64
    var wasPurchase: Bool?
    var items: [StoreItem]
}

extension StoreSubscription {
    /// The subscription as a transaction of it tells: the period that this one paid.
    func asOf(transaction id: Int64) -> StoreSubscription? {
        if id == transactionID { return self }
        guard let period = past?.first(where: { originalTransactionID + Int64($0.number) == id })
        else { return nil }
        var then = self
        then.renewalCount = period.number
        then.purchasedAt = period.purchasedAt
        then.expiresAt = period.expiresAt
        then.lastWasPurchase = period.wasPurchase
        then.items = period.items
        // A refund of the newest period leaves the earlier ones paid.
        then.revokedAt = nil
        return then
    }

    /// Keeps the running period's transaction before the next one begins.
    mutating func keepPeriod() {
        var paid = items
        for index in items.indices {
            (paid[index].change, paid[index].next) = (nil, nil)
            items[index].refund = nil
        }
        past =
            (past ?? []) + [
                PastPeriod(
                    number: renewalCount, purchasedAt: purchasedAt, expiresAt: expiresAt,
                    wasPurchase: lastWasPurchase, items: paid)
            ]
    }

    mutating func refund(_ refund: PendingRefund.Item, of transaction: Int64, at: Int64) {
        let (left, length) = (max(0, expiresAt - at), max(1, expiresAt - purchasedAt))
        func mark(_ items: inout [StoreItem]) {
            for index in items.indices where items[index].sku == refund.sku {
                let whole = items[index].chargedPrice
                let due = refund.type == RefundWords.prorated ? whole * left / length : whole
                items[index].refund = ItemRefund(
                    amount: refund.amount ?? due, at: at,
                    reason: refund.reason, type: refund.type, revokes: refund.revokes)
            }
        }
        guard transaction != transactionID else { return mark(&items) }
        for index in (past ?? []).indices
        where originalTransactionID + Int64(past?[index].number ?? 0) == transaction {
            var kept = past?[index].items ?? []
            mark(&kept)
            past?[index].items = kept
        }
    }
}

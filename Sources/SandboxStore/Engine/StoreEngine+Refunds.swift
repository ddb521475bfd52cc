/// Refunds of items, of the running period or of an earlier one. A refund of the whole subscription ends it.
extension StoreEngine {
    mutating func refund(
        _ subscription: inout StoreSubscription, of transaction: Int64,
        _ wanted: [OperatorAction.Refund]
    ) throws(StoreError) {
        guard !wanted.isEmpty else {
            subscription.plan.refundedAt = now
            return perform(StoreAction(at: now, kind: .refund), on: &subscription)
        }
        guard let period = subscription.asOf(transaction: transaction) else {
            throw .transactionNotFound
        }
        for one in wanted {
            guard let item = period.items.first(where: { $0.sku == one.sku }) else {
                throw .invalidSKU
            }
            guard item.refund == nil else { throw .alreadyRefunded }
        }
        let isLatest = transaction == subscription.transactionID
        let revoked = Set(wanted.filter(\.revokes).map(\.sku))
        if isLatest, subscription.items.allSatisfy({ $0.isLeaving || revoked.contains($0.sku) }) {
            throw .removalOfAll
        }
        for one in wanted { subscription.refund(one, of: transaction, at: now) }
        for index in subscription.items.indices
        where isLatest && revoked.contains(subscription.items[index].sku) {
            subscription.items[index].isLeaving = true
            subscription.items[index].change = nil
        }
        touch(&subscription)
        notify(.refund, nil, &subscription, about: transaction)
    }
}

/// The refund of an item.
struct ItemRefund: Codable, Hashable, Sendable {
    var amount: Int64
    var at: Int64
    var type: String
    /// Whether the item's service ended with the refund.
    var revokes: Bool
}

/// A past period, for statements about the transaction that paid for it.
struct PastPeriod: Codable, Hashable, Sendable {
    var number: Int
    var purchasedAt: Int64
    var expiresAt: Int64
    var wasPurchase: Bool?
    /// The storefront of the payment; nil: the subscription's current one.
    var storefront: String?
    var currency: String?
    /// How many seats were paid for; nil: one.
    var seatCount: Int?
    /// Whether they were added to those of the running period; nil: they were not.
    var isAddedSeat: Bool?
    var items: [StoreItem]
}

extension StoreSubscription {
    /// The subscription as one of its transactions shows it: with the period that the transaction paid for.
    func asOf(transaction id: Int64) -> StoreSubscription? {
        if id == transactionID { return self }
        guard let period = past?.first(where: { originalTransactionID + Int64($0.number) == id })
        else { return nil }
        var then = self
        then.renewalCount = period.number
        then.purchasedAt = period.purchasedAt
        then.expiresAt = period.expiresAt
        then.lastWasPurchase = period.wasPurchase
        (then.seatCount, then.isAddedSeat) = (period.seatCount, period.isAddedSeat)
        then.items = period.items
        then.storefront = period.storefront ?? storefront
        then.currency = period.currency ?? currency
        // A refund of the newest period leaves the earlier ones paid.
        then.revokedAt = nil
        return then
    }

    /// Keeps the running period's transaction before the next one begins.
    mutating func keepPeriod() {
        var paid = items
        for index in items.indices {
            (paid[index].change, paid[index].nextSKU) = (nil, nil)
            paid[index].replacement = nil
            items[index].refund = nil
        }
        past =
            (past ?? []) + [
                PastPeriod(
                    number: renewalCount, purchasedAt: purchasedAt, expiresAt: expiresAt,
                    wasPurchase: lastWasPurchase, storefront: storefront, currency: currency,
                    seatCount: seatCount, items: paid)
            ]
        seatCount = renewalSeatCount ?? seatCount
        renewalSeatCount = nil
    }

    fileprivate mutating func refund(
        _ refund: OperatorAction.Refund, of transaction: Int64, at: Int64
    ) {
        let (left, length) = (max(0, expiresAt - at), max(1, expiresAt - purchasedAt))
        func mark(_ items: inout [StoreItem], _ seats: Int) {
            for index in items.indices where items[index].sku == refund.sku {
                let whole = items[index].chargedPrice * Int64(seats)
                items[index].refund = ItemRefund(
                    amount: refund.isProrated ? whole * left / length : whole, at: at,
                    type: refund.isProrated ? "PRORATED" : "FULL", revokes: refund.revokes)
            }
        }
        guard transaction != transactionID else { return mark(&items, seats) }
        for index in (past ?? []).indices
        where originalTransactionID + Int64(past?[index].number ?? 0) == transaction {
            var kept = past?[index].items ?? []
            mark(&kept, past?[index].seatCount ?? 1)
            past?[index].items = kept
        }
    }
}

@testable import Pricing

/// A subscription's year, told in statements: the tests below say what each one brings.
struct LifecycleStory {
    static let day: Int64 = 86_400_000
    /// 1 March 2026.
    static let start = Instant(milliseconds: 1_772_323_200_000)
    static let sent = start.advanced(by: 2 * day)
    static let renewal = start.advanced(by: 31 * day)
    static let requestID = "0190aaaa-0000-7000-8000-000000000001"

    /// Instants in days after the start.
    static func at(_ days: Int64) -> Instant { start.advanced(by: days * day) }

    static func change(
        _ sku: String = "A", from old: Int64 = 9990, to new: Int64 = 15990,
        dependents: [String] = [], sentAt: Instant = sent, dueAt: Instant? = renewal,
        id: String = "change-A"
    ) -> TrackedChange {
        let progress = ChangeProgress(state: .sending, dueAt: dueAt, since: sentAt)
        return TrackedChange(
            changeID: id, sku: sku, oldPrice: old, newPrice: new, dependentSKUs: dependents,
            requestReferenceID: requestID, sentAt: sentAt, callProgress: progress,
            progress: progress)
    }

    /// A renewal item; `status` is that of its increase to `to`.
    static func renewing(
        _ sku: String = "A", price: Int64 = 9990, status: String? = nil, to: Int64? = nil
    ) -> StatementItem {
        StatementItem(
            sku: sku, price: price, increaseStatus: status,
            increasePrice: status == nil ? nil : to ?? 15990)
    }

    static func charged(_ sku: String = "A", price: Int64 = 9990) -> StatementItem {
        StatementItem(sku: sku, price: price)
    }

    static func event(
        _ days: Int64, _ type: String? = nil, _ subtype: String? = nil, id: String? = nil,
        source: SubscriptionEvent.Source = .notification, status: Int? = 1, purchasedOn: Int64 = 0,
        charged: [StatementItem]? = nil, renewing: [StatementItem]? = nil,
        autoRenew: Int = 1, intent: Int? = nil, revoked: Bool = false
    ) -> SubscriptionEvent {
        SubscriptionEvent(
            key: .init(
                signedAt: at(days), evidenceID: id ?? "\(days)-\(type ?? "-")-\(subtype ?? "-")"),
            source: source, originalTransactionID: "1", type: type, subtype: subtype,
            status: status,
            transaction: charged.map {
                TransactionStatement(
                    transactionID: "t\(purchasedOn)", purchasedAt: at(purchasedOn),
                    originalPurchaseAt: start, expiresAt: at(purchasedOn + 31),
                    revokedAt: revoked ? at(days) : nil, reason: "RENEWAL", storefront: "USA",
                    currency: "USD", period: "P1M", items: $0)
            },
            renewal: RenewalStatement(
                autoRenewStatus: autoRenew, expirationIntent: intent,
                renewalAt: at(purchasedOn + 31),
                consistencyToken: "token-\(days)", period: "P1M", items: renewing))
    }

    static var bought: SubscriptionEvent {
        event(0, "SUBSCRIBED", "INITIAL_BUY", charged: [charged()], renewing: [renewing()])
    }
    static var priceChange: SubscriptionEvent {
        event(3, "PRICE_CHANGE", charged: [charged()], renewing: [renewing(status: "SCHEDULED")])
    }
    static var pending: SubscriptionEvent {
        event(
            4, "PRICE_INCREASE", "PENDING", charged: [charged()],
            renewing: [renewing(price: 15990, status: "PENDING")])
    }
    static var accepted: SubscriptionEvent {
        event(
            5, "PRICE_INCREASE", "ACCEPTED", charged: [charged()],
            renewing: [renewing(price: 15990, status: "ACCEPTED")])
    }
    static var renewedAtNewPrice: SubscriptionEvent {
        event(
            31, "DID_RENEW", purchasedOn: 31, charged: [charged(price: 15990)],
            renewing: [renewing(price: 15990)])
    }

    static func fold(
        _ events: [SubscriptionEvent], _ changes: [TrackedChange] = [change()]
    ) -> (state: SubscriptionState, lines: [Transition]) {
        var state = SubscriptionState(originalTransactionID: "1", changes: changes)
        let lines = Lifecycle.fold(events.sorted { $0.key < $1.key }, into: &state)
        return (state, lines)
    }

    static func states(_ events: [SubscriptionEvent], _ changes: [TrackedChange] = [change()])
        -> [String]
    {
        fold(events, changes).lines.map { "\($0.changeID) \($0.state.rawValue)" }
    }
}

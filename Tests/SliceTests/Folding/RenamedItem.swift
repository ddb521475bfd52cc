@testable import Pricing

/// Statements of monthly subscriptions whose items are renamed, by the days since the harness began.
enum RenamedItem {
    static func start(_ day: Int64) -> Instant {
        DeliveryHarness.start.advanced(by: day * 86_400_000)
    }

    static func event(
        _ id: String, _ type: String, _ day: Int64, charged: [(String, Int64)]? = nil,
        from: Int64 = 0, to: Int64 = 0, renewing: [(String, Int64)]? = nil
    ) -> SubscriptionEvent {
        func items(_ list: [(String, Int64)]) -> [StatementItem] {
            list.map { StatementItem(sku: $0.0, price: $0.1) }
        }
        let transaction = charged.map {
            TransactionStatement(
                transactionID: "t-\(id)-\(day)", purchasedAt: start(from), expiresAt: start(to),
                reason: "RENEWAL", storefront: "USA", currency: "USD", period: "P1M",
                items: items($0))
        }
        return SubscriptionEvent(
            key: .init(signedAt: start(day).advanced(by: 1000), evidenceID: "\(id)-\(type)-\(day)"),
            source: .notification, originalTransactionID: id, type: type, status: 1,
            transaction: transaction,
            renewal: RenewalStatement(
                autoRenewStatus: 1, renewalAt: charged == nil ? nil : start(to),
                consistencyToken: "t", period: "P1M",
                items: (renewing ?? charged).map(items)))
    }
}

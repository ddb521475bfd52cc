package import Pricing

/// One field in which our facts of a subscription differed from Apple's status.
package struct Drift: Hashable, Sendable {
    /// The name of the field in `repricer.subscriptions`; for a field of an item `items.SKU.…`.
    package var field: String
    /// Its name in `fields`, without the SKU, so that a count by field has few keys.
    package var countedField: String
    package var ours: String
    package var apples: String

    /// The fields that may differ, as they are counted. A field of an item stands as `items.FIELD`, without its SKU.
    package static let fields = [
        "status", "auto_renews", "in_billing_retry", "grace_period_expires_at",
        "expiration_intent", "storefront", "currency", "period", "renewal_period", "product_id",
        "latest_transaction_id", "expires_at", "renewal_at", "items", "items.current_price",
        "items.renewal_price", "items.renews", "items.offer", "items.increase",
    ]

    /// The fields that differ. Tokens and instants of signing are left out, because they change without a change of
    /// facts.
    package static func between(
        _ ours: SubscriptionFacts, _ apples: SubscriptionFacts
    ) -> [Drift] {
        var drifts: [Drift] = []
        func compare<Value: Equatable>(
            _ field: String, countedAs counted: String? = nil, _ left: Value?, _ right: Value?,
            _ text: (Value) -> String
        ) {
            guard left != right else { return }
            drifts.append(
                Drift(
                    field: field, countedField: counted ?? field,
                    ours: left.map(text) ?? "nothing", apples: right.map(text) ?? "nothing"))
        }
        compare("status", ours.status, apples.status) { "\($0)" }
        compare("auto_renews", ours.autoRenews, apples.autoRenews) { "\($0)" }
        compare("in_billing_retry", ours.isInBillingRetry, apples.isInBillingRetry) { "\($0)" }
        compare("grace_period_expires_at", ours.gracePeriodExpiresAt, apples.gracePeriodExpiresAt) {
            $0.text
        }
        compare("expiration_intent", ours.expirationIntent, apples.expirationIntent) { "\($0)" }
        compare("storefront", ours.storefront, apples.storefront) { $0 }
        compare("currency", ours.currency, apples.currency) { $0 }
        compare("period", ours.period, apples.period) { $0 }
        compare("renewal_period", ours.renewalPeriod, apples.renewalPeriod) { $0 }
        compare("product_id", ours.productID, apples.productID) { $0 }
        compare("latest_transaction_id", ours.latestTransactionID, apples.latestTransactionID) {
            $0
        }
        compare("expires_at", ours.expiresAt, apples.expiresAt) { $0.text }
        compare("renewal_at", ours.renewalAt, apples.renewalAt) { $0.text }
        let skus = Set(ours.items.map(\.sku)).union(apples.items.map(\.sku)).sorted()
        for sku in skus {
            let left = ours.items.first { $0.sku == sku }
            let right = apples.items.first { $0.sku == sku }
            guard let left, let right else {
                compare("items.\(sku)", countedAs: "items", left, right) { _ in "listed" }
                continue
            }
            func compareItem<Value: Equatable>(
                _ field: String, _ value: (SubscriptionFacts.Item) -> Value?,
                _ text: (Value) -> String
            ) {
                compare(
                    "items.\(sku).\(field)", countedAs: "items.\(field)", value(left),
                    value(right), text)
            }
            compareItem("current_price", \.currentPrice) { "\($0)" }
            compareItem("renewal_price", \.renewalPrice) { "\($0)" }
            compareItem("renews", \.renews) { "\($0)" }
            compareItem("offer", \.offer, \.text)
            compareItem("increase", \.increase, \.text)
        }
        return drifts
    }
}

extension SubscriptionFacts.Offer {
    fileprivate var text: String {
        let length = [period, periodsLeft.map { "\($0) left" }].compactMap { $0 }
        return ([reason ?? "offer", price.map { "\($0)" }] + length.map { $0 })
            .compactMap { $0 }.joined(separator: " ")
    }
}

extension SubscriptionFacts.Increase {
    fileprivate var text: String {
        [status, price.map { "\($0)" }].compactMap { $0 }.joined(separator: " ")
    }
}

/// The drift of one subscription.
package struct DriftLine: Hashable, Sendable {
    package var originalTransactionID: String
    package var drifts: [Drift]
}

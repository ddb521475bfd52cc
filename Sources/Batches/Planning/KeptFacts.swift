import Pricing
import Synchronization

/// A cache of facts that a plan has read and will need again. In an export the rows of one subscription may be far
/// apart, and reading its facts again would be half of the database's work.
///
/// A million fit, because most subscriptions differ from many others only in their dates. It keeps what the judge
/// needs for a row without dependents. Subscriptions with increases or open changes are read again.
final class KeptFacts: Sendable {
    /// What many subscriptions have in common.
    fileprivate struct Common: Hashable, Sendable {
        var status: Int?
        var autoRenews: Bool?
        var isInBillingRetry: Bool
        var storefront: String?
        var currency: String?
        var period: String?
        var renewalPeriod: String?
        var renewalCurrency: String?
        var ownershipType: String?
        var quantity: Int?
        var items: [SubscriptionFacts.Item]

        /// It hashes the fields that differ most.
        func hash(into hasher: inout Hasher) {
            hasher.combine(storefront)
            hasher.combine(period)
            for item in items {
                hasher.combine(item.sku)
                hasher.combine(item.currentPrice)
            }
        }
    }

    /// The values of one subscription. Instants are milliseconds; `none` stands for a missing one.
    fileprivate struct Kept: Sendable {
        static let none = Int64.min

        var originalPurchaseAt: Int64
        var recentSubscriptionStartAt: Int64
        var purchasedAt: Int64
        var expiresAt: Int64
        var renewalAt: Int64
        var signedAt: Int64
        var knownSince: Int64
        var common: UInt32
    }

    private struct Store: Sendable {
        var keys = SubscriptionKeys()
        var places: [SubscriptionKeys.Key: UInt32] = [:]
        var kept: [Kept] = []
        var commons = Interner<Common>()
    }

    /// The most distinct `Common` values. With more, the subscriptions have too little in common to be cached.
    private static let commonsMax = 65_536
    private let store = Mutex(Store())

    /// Keeps the subscriptions without increases, open changes or other context. Most are like that.
    func keep(_ subscriptions: [PlanQueries.FactRows.Known]) {
        guard !subscriptions.isEmpty else { return }
        store.withLock { store in
            for known in subscriptions where known.context == JudgeContext(increaseHistory: []) {
                guard store.commons.count < Self.commonsMax else { return }
                let facts = known.facts
                let key = store.keys.add(facts.originalTransactionID)
                guard store.places[key] == nil else { continue }
                store.places[key] = UInt32(truncatingIfNeeded: store.kept.count)
                store.kept.append(Kept(facts, common: store.commons.number(of: Common(facts))))
            }
        }
    }

    /// The cached facts of each subscription; nil where there are none.
    func found(_ ids: [String]) -> [PlanQueries.FactRows.Known?] {
        store.withLock { store in
            guard !store.kept.isEmpty else { return ids.map { _ in nil } }
            return ids.map { id in
                guard let key = store.keys.key(of: id), let place = store.places[key] else {
                    return nil
                }
                let kept = store.kept[Int(place)]
                return PlanQueries.FactRows.Known(
                    kept.facts(of: id, store.commons[kept.common]),
                    JudgeContext(increaseHistory: []))
            }
        }
    }
}

extension KeptFacts.Common {
    fileprivate init(_ facts: SubscriptionFacts) {
        status = facts.status
        autoRenews = facts.autoRenews
        isInBillingRetry = facts.isInBillingRetry
        storefront = facts.storefront
        currency = facts.currency
        period = facts.period
        renewalPeriod = facts.renewalPeriod
        renewalCurrency = facts.renewalCurrency
        ownershipType = facts.ownershipType
        quantity = facts.quantity
        items = facts.items
    }
}

extension KeptFacts.Kept {
    fileprivate init(_ facts: SubscriptionFacts, common: UInt32) {
        func number(_ instant: Instant?) -> Int64 { instant?.milliseconds ?? Self.none }
        originalPurchaseAt = number(facts.originalPurchaseAt)
        recentSubscriptionStartAt = number(facts.recentSubscriptionStartAt)
        purchasedAt = number(facts.purchasedAt)
        expiresAt = number(facts.expiresAt)
        renewalAt = number(facts.renewalAt)
        signedAt = number(facts.signedAt)
        knownSince = number(facts.knownSince)
        self.common = common
    }

    fileprivate func facts(of id: String, _ common: KeptFacts.Common) -> SubscriptionFacts {
        func instant(_ number: Int64) -> Instant? {
            number == Self.none ? nil : Instant(milliseconds: number)
        }
        var facts = SubscriptionFacts(originalTransactionID: id)
        facts.status = common.status
        facts.autoRenews = common.autoRenews
        facts.isInBillingRetry = common.isInBillingRetry
        facts.storefront = common.storefront
        facts.currency = common.currency
        facts.period = common.period
        facts.renewalPeriod = common.renewalPeriod
        facts.renewalCurrency = common.renewalCurrency
        facts.ownershipType = common.ownershipType
        facts.quantity = common.quantity
        facts.items = common.items
        facts.originalPurchaseAt = instant(originalPurchaseAt)
        facts.recentSubscriptionStartAt = instant(recentSubscriptionStartAt)
        facts.purchasedAt = instant(purchasedAt)
        facts.expiresAt = instant(expiresAt)
        facts.renewalAt = instant(renewalAt)
        facts.signedAt = instant(signedAt)
        facts.knownSince = instant(knownSince)
        return facts
    }
}

/// All that folding knows of one subscription: the facts, the increases it has seen, our changes and the
/// cancellations of dependents. A fold from the beginning starts at `init(originalTransactionID:changes:)`.
package struct SubscriptionState: Hashable, Sendable {
    package var facts: SubscriptionFacts
    package var increases: [RecordedIncrease]
    /// Every SKU ever seen on this subscription, sorted: tells a dependent that left from one that lives elsewhere.
    package var seenSKUs: [String]
    package var changes: [TrackedChange]
    package var cancellations: [DependentCancellation]
    package var charges: [Charge]
    /// The newest event folded; an older one means folding again from the beginning.
    package var foldedThrough: SubscriptionEvent.Key?

    package init(
        facts: SubscriptionFacts, increases: [RecordedIncrease] = [], seenSKUs: [String] = [],
        changes: [TrackedChange] = [], cancellations: [DependentCancellation] = [],
        charges: [Charge] = [], foldedThrough: SubscriptionEvent.Key? = nil
    ) {
        self.facts = facts
        self.increases = increases
        self.seenSKUs = seenSKUs
        self.changes = changes
        self.cancellations = cancellations
        self.charges = charges
        self.foldedThrough = foldedThrough
    }

    /// Nothing folded yet: each change stands where our own call left it.
    package init(originalTransactionID: String, changes: [TrackedChange]) {
        self.init(
            facts: SubscriptionFacts(originalTransactionID: originalTransactionID),
            changes: changes.map { change in
                var unfolded = change
                unfolded.progress = change.callProgress
                return unfolded
            })
    }
}

/// A price increase that this subscription has had, whoever made it. It counts for the rule of 12 months.
package struct RecordedIncrease: Hashable, Sendable, Codable {
    package var sku: String
    package var price: Int64
    package var communicatedAt: Instant?
    package var effectiveAt: Instant?

    package init(
        sku: String, price: Int64, communicatedAt: Instant? = nil, effectiveAt: Instant? = nil
    ) {
        self.sku = sku
        self.price = price
        self.communicatedAt = communicatedAt
        self.effectiveAt = effectiveAt
    }
}

/// What one purchase or renewal charged for one item, the running offer counted in. Milliunits.
package struct Charge: Hashable, Sendable {
    package var transactionID: String
    package var sku: String
    package var purchasedAt: Instant
    package var price: Int64
    package var currency: String
    package var revokedAt: Instant?

    package init(
        transactionID: String, sku: String, purchasedAt: Instant, price: Int64, currency: String,
        revokedAt: Instant? = nil
    ) {
        self.transactionID = transactionID
        self.sku = sku
        self.purchasedAt = purchasedAt
        self.price = price
        self.currency = currency
        self.revokedAt = revokedAt
    }
}

/// Everything that folding knows of one subscription: the facts, the increases it has seen, our changes, and the
/// cancellations of dependents. A fold from the beginning starts at `init(originalTransactionID:changes:)`.
package struct SubscriptionState: Hashable, Sendable {
    package var facts: SubscriptionFacts
    package var increases: [RecordedIncrease] = []
    /// Every SKU ever seen on this subscription, sorted. It distinguishes a dependent that left from one on another
    /// subscription.
    package var seenSKUs: [String] = []
    package var changes: [TrackedChange]
    package var cancellations: [DependentCancellation] = []
    /// Calls of ours that cancelled the subscription for a parent on another subscription.
    package var ownCancels: [OwnCancel] = []
    /// The charges and refunds in the statements of this fold.
    package var money = MoneyLedger()
    /// The renames in the statements of this fold.
    package var renames: [ToldRename] = []
    /// The paid periods in the statements of this fold, in the order of time. Only a fold of all statements has all of
    /// them.
    package var toldPeriods: [ToldPeriod] = []
    /// The extensions in the statements of this fold.
    package var extensions: [ToldExtension] = []
    /// The newest folded event. An older one makes the subscription fold again from the beginning.
    package var foldedThrough: SubscriptionEvent.Key?

    package init(facts: SubscriptionFacts, changes: [TrackedChange]) {
        self.facts = facts
        self.changes = changes
    }

    /// The state with nothing folded yet. Each change has the state in which our own call left it.
    package init(originalTransactionID: String, changes: [TrackedChange]) {
        self.init(
            facts: SubscriptionFacts(originalTransactionID: originalTransactionID),
            changes: changes.map(\.unfolded))
    }
}

/// A price increase that this subscription has had, whoever made it. It counts for the rule of 12 months.
package struct RecordedIncrease: Hashable, Sendable {
    /// Who made it, where it is not one of our changes.
    package enum Origin: String, Hashable, Sendable {
        /// In South Korea the subscriber is asked before an offer turns into the standard price. That is no increase
        /// of a price, so it does not count for the 12 months (an inference).
        case offerConversion = "offer_conversion"
        /// It was made in App Store Connect, by another program, or before our time.
        case elsewhere
    }

    package var sku: String
    package var price: Int64
    package var communicatedAt: Instant?
    package var effectiveAt: Instant?
    package var origin: Origin?
    /// When the customer was asked. It is kept only where `origin` is set, because a change of ours stores this itself.
    package var consentAskedAt: Instant?
    package var acceptedAt: Instant?
    /// When it was refused. Only conversions keep it: a refused increase never happened and is forgotten.
    package var refusedAt: Instant?

    /// Whether it has been neither charged nor refused yet.
    var isOpen: Bool { effectiveAt == nil && refusedAt == nil }
}

extension RecordedIncrease {
    package init(sku: String, price: Int64) {
        self.sku = sku
        self.price = price
    }
}

import Batches
import Facts
import Pricing

/// A call that was just claimed. It is large and passed on often, so it is a class.
package final class ClaimedCall: Sendable {
    /// What the call contains.
    let intent: PriceChangeIntent
    /// The subscription as the claim read it; nil where the settlement reads it.
    let subscription: ClaimedSubscription?

    init(_ intent: PriceChangeIntent, _ subscription: ClaimedSubscription?) {
        self.intent = intent
        self.subscription = subscription
    }
}

/// A subscription as a claim left it, so that the settlement need not read it again. It is valid until another
/// transaction writes the subscription. Every fold writes it before it moves a change that was called.
struct ClaimedSubscription: Sendable {
    let stored: SubscriptionQueries.Stored
    let version: SubscriptionQueries.Version
    /// The changes that Apple has, had or may have: only those of this call, in the order of their ids.
    let changes: [TrackedChange]

    /// Returns nil where the stored rows hold more than the claim read, because a change was called before or has
    /// dependents.
    init?(
        _ stored: SubscriptionQueries.Stored, _ version: SubscriptionQueries.Version?,
        calling changes: [OpenChangeQueries.OpenChange], by requestReferenceID: String,
        at now: Instant
    ) {
        guard let version, changes.allSatisfy(\.dependentSKUs.isEmpty) else { return nil }
        self.stored = stored
        self.version = version
        self.changes = changes.map {
            $0.called(by: requestReferenceID, at: now, renewalAt: stored.facts.renewalAt)
        }
        .sorted { $0.changeID < $1.changeID }
    }
}

extension OpenChangeQueries.OpenChange {
    /// The change as the claim of its first call leaves its row.
    fileprivate func called(
        by requestReferenceID: String, at now: Instant, renewalAt: Instant?
    ) -> TrackedChange {
        var change = TrackedChange(
            changeID: changeID, sku: sku, oldPrice: currentPrice, newPrice: newPrice,
            progress: ChangeProgress(state: .sending, dueAt: dueEffectiveAt, since: now))
        change.currency = currency
        change.requestReferenceID = requestReferenceID
        change.sentAt = now
        change.sendBy = sendBy
        change.calledRenewalAt = renewalAt
        change.undoes = undoes
        return change
    }
}

import Batches
import Facts
import Pricing

/// A call that was just claimed. It is large and handed on often, so it is shared and not copied.
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

/// A subscription as a claim left it, so that the settlement need not read it again. It is valid until somebody
/// writes the subscription, which every fold does before it moves a change that was called.
struct ClaimedSubscription: Sendable {
    let stored: SubscriptionQueries.Stored
    let version: SubscriptionQueries.Version
    /// The changes that Apple has, had or may have. They are those of this call, in the order of their ids.
    let changes: [TrackedChange]

    /// Returns nil where the rows say more than the claim read: of a change that was called before, or of dependents.
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

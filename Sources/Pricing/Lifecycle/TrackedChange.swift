/// One price change of ours as the fold sees it: what was asked, and how far it has come.
package struct TrackedChange: Hashable, Sendable {
    package var changeID: String
    /// The item's current name. A metadata change may have renamed it since the submission.
    package var sku: String
    package var oldPrice: Int64
    package var newPrice: Int64
    /// The currency of both prices; nil where it is not known. Then the subscription's newest currency stands for it.
    package var currency: String?
    /// The dependents by their current names.
    package var dependentSKUs: [String] = []
    /// The item's name in our last call, where a rename has changed it since. A fold from the beginning starts with
    /// that name.
    package var calledSKU: String?
    package var calledDependentSKUs: [String]?
    /// The dependents that our last call named, by their names in it: those on the parent's own subscription. nil
    /// where that is not known.
    package var toldDependentSKUs: [String]?
    /// Names that the item had since that call and lost again, the oldest first. Charges may bear any of them.
    package var formerSKUs: [String] = []
    /// When the first period began that was charged under a newer name, by the former names that have one. From then on
    /// such a name may be another item's.
    package var formerUntil: [String: Instant] = [:]
    /// The `requestReferenceId` of the last call that carried it.
    package var requestReferenceID: String?
    /// When that call's intent was written. Statements signed before it cannot be about this change.
    package var sentAt: Instant?
    /// The last instant at which that call was in time for its planned renewal; nil where it is not known.
    package var sendBy: Instant?
    /// The renewal date that was known when that call's intent was written: its plan counts from there. nil where it
    /// is not known, or where no call was made.
    package var calledRenewalAt: Instant?
    /// When the first of its calls with a never known outcome was sent. The App Store may still apply that call late.
    /// The change ended, or continued under another id, but later statements that show exactly its price are still
    /// about it.
    package var doubtfulSince: Instant?
    /// The progress after our own calls, before any statement by Apple.
    package var callProgress: ChangeProgress
    package var progress: ChangeProgress
    /// The change that this one undoes. Its price is then the one paid before, and no customer is told.
    package var undoes: String?
    /// Whether it took effect and, by the newest facts, its item does not renew: no further period is charged.
    package var isLeaving = false

    package var isIncrease: Bool { undoes == nil && newPrice > oldPrice }

    /// Whether a person closed it, because the App Store showed another price. Only what is signed later can be about
    /// it.
    package var isClosed: Bool {
        progress.state == .invalidated && progress.reason == closedByPerson
    }

    /// Whether our last call named this dependent; nil where that is not known.
    package func isTold(dependent sku: String) -> Bool? {
        guard let told = toldDependentSKUs, let index = dependentSKUs.firstIndex(of: sku) else {
            return nil
        }
        let called = calledDependentSKUs ?? dependentSKUs
        return called.indices.contains(index) ? told.contains(called[index]) : nil
    }

    /// The change as our call left it: with the names in the call, before any statement.
    package var unfolded: TrackedChange {
        var change = self
        change.sku = calledSKU ?? sku
        change.dependentSKUs = calledDependentSKUs ?? dependentSKUs
        change.calledSKU = nil
        change.calledDependentSKUs = nil
        change.formerSKUs = []
        change.formerUntil = [:]
        change.progress = callProgress
        return change
    }
}

/// The progress of one change, with the instants that reports need.
package struct ChangeProgress: Hashable, Sendable {
    package var state: ChangeState
    package var reason: String?
    package var scheduledAt: Instant?
    package var consentAskedAt: Instant?
    package var acceptedAt: Instant?
    package var acceptance: Acceptance?
    package var effectiveAt: Instant?
    package var endedAt: Instant?
    /// The renewal at which it is due: we planned it, and offers and extensions move it.
    package var dueAt: Instant?
    /// Why it is due, or was charged, later than its call said; nil where it is not.
    package var slip: Slip?
    package var since: Instant
}

/// How an increase was accepted. ACCEPTED alone does not mean consent; only a PENDING before it does.
package enum Acceptance: String, Hashable, Sendable {
    case consented, informed
}

/// One line of a change's history: the state that a statement brought, and the statement.
package struct Transition: Hashable, Sendable {
    package var changeID: String
    package var state: ChangeState
    package var at: Instant
    package var evidenceKind: SubscriptionEvent.Source
    package var evidenceID: String
    package var reason: String?
}

/// The outcome for one dependent SKU after its parent was not consented to.
package struct DependentCancellation: Hashable, Sendable {
    package enum State: String, Hashable, Sendable {
        case requested, confirmed, cancelSent = "cancel_sent", discrepancy, notNeeded = "not_needed"
    }

    package var changeID: String
    package var dependentSKU: String
    package var parentSKU: String
    package var cause: String
    package var price: Int64?
    package var currency: String?
    package var state: State
    package var requestedAt: Instant
    package var requestedByEvidence: String
    package var settledAt: Instant?
    package var settledByEvidence: String?
    package var detail: String?
    /// Whether it is not an item of this subscription. Then the canceller settles it, not the fold.
    package var isCrossSubscription = false
    /// The call that cancels it, where it is on another subscription.
    package var cancelReferenceID: String?
}

// Only the required values are parameters; the others are set later.
extension TrackedChange {
    /// While nothing else is given, it stands where our calls left it.
    package init(
        changeID: String, sku: String, oldPrice: Int64, newPrice: Int64, progress: ChangeProgress
    ) {
        self.changeID = changeID
        self.sku = sku
        self.oldPrice = oldPrice
        self.newPrice = newPrice
        self.callProgress = progress
        self.progress = progress
    }
}

extension ChangeProgress {
    package init(state: ChangeState, dueAt: Instant?, since: Instant) {
        self.state = state
        self.dueAt = dueAt
        self.since = since
    }
}

extension DependentCancellation {
    package init(
        changeID: String, dependentSKU: String, parentSKU: String, cause: String, state: State,
        requestedAt: Instant, requestedByEvidence: String
    ) {
        self.changeID = changeID
        self.dependentSKU = dependentSKU
        self.parentSKU = parentSKU
        self.cause = cause
        self.state = state
        self.requestedAt = requestedAt
        self.requestedByEvidence = requestedByEvidence
    }
}

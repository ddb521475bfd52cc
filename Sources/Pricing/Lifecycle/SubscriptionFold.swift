/// One subscription's fold of newly arrived statements, in whatever order they arrive. It continues from the stored
/// state, or starts again where a new statement is older than what was folded.
package struct SubscriptionFold: Sendable {
    package var state: SubscriptionState
    package var transitions: [Transition]
    /// The changes that this fold moved.
    package var moved: [TrackedChange]
    /// The changes that the answer to their call moved with exactly one history line, which cannot be stored yet.
    package var answered: Set<String>
    /// Those of `answered` that became scheduled and changed in nothing else, so that their former version can be
    /// derived.
    package var scheduled: Set<String>
    /// Changes that had ended and are open again because of a late statement or a reversed refund.
    package var reopened: [TrackedChange]
    /// The cancellations that this fold opened, settled or withdrew.
    package var cancellations: [DependentCancellation]
    /// Cancellations of ours for which this fold changed whether the customer reversed them.
    package var reenabled: [OwnCancel]
    /// Whether it started again, from the beginning or a checkpoint. Its extensions are then complete.
    package var isAnew: Bool
    /// Whether an item is known to have been renamed, now or until now. A charge may then have another name than before.
    package var isRenamed: Bool
    /// Where it then started: nil for the first statement, otherwise the checkpoint that replaces the earlier
    /// statements.
    package var checkpoint: FoldCheckpoint?
    /// The latest new statement; where there is none, the latest statement that was folded again. A `correction` names
    /// it.
    package var latest: SubscriptionEvent?

    /// Whether a fold of these statements must start again. It must if one of them is older than what was folded, or
    /// older than the end of a change that a later call of ours replaced; such an end is dated by that call, which may
    /// be ahead of what was folded. It must also if only earlier statements show what a new one changes in the ledger,
    /// or if a statement is about an earlier period than known, which must be compared with its neighbours.
    package static func isLate(
        _ arrived: [SubscriptionEvent], after folded: SubscriptionEvent.Key?,
        _ changes: [TrackedChange], _ facts: SubscriptionFacts?
    ) -> Bool {
        guard let folded, let first = arrived.map(\.key).min() else { return false }
        if first < folded || arrived.contains(where: \.asksForEarlierMoney) { return true }
        if facts?.hasEarlierPeriods(toldBy: arrived) == true { return true }
        return changes.contains { change in
            change.isSuperseded && change.progress.endedAt.map { first.signedAt < $0 } ?? false
        }
    }

    /// - Parameters:
    ///   - before: What is stored: facts, changes and cancellations. Its money and renames are not used.
    ///   - arrived: The new statements, each once.
    ///   - all: Every stored statement, the new ones included, where `isLate`; otherwise nil.
    ///   - checkpoint: The state that replaces the statements that are no longer stored.
    package init(
        _ before: SubscriptionState, arrived: [SubscriptionEvent], all: [SubscriptionEvent]?,
        since checkpoint: FoldCheckpoint? = nil
    ) {
        var state: SubscriptionState
        isAnew = all != nil
        isRenamed = !before.facts.renames.isEmpty
        self.checkpoint = all == nil ? nil : checkpoint
        if all == nil {
            state = before
            state.money = MoneyLedger()
            state.renames = []
            state.toldPeriods = []
            state.extensions = []
            state.cancellations = before.cancellations.compactMap(\.asToldByStatements)
        } else {
            state = checkpoint?.start(before) ?? before.unfolded
        }
        let start = checkpoint?.before
        let events = (all ?? arrived).filter { event in
            start.map { event.key.signedAt >= $0 } ?? true
        }.sorted { $0.key < $1.key }
        transitions = Lifecycle.fold(events, into: &state)
        if all != nil {
            state.cancellations.keepSettled(of: before.cancellations)
            state.cancellations += before.cancellations.withdrawn(where: state.cancellations)
        }
        for index in state.changes.indices {
            let change = state.changes[index]
            state.changes[index].isLeaving =
                change.progress.state == .effective && !state.facts.isSetToRenew(change.sku)
        }
        let places = Dictionary(
            zip(before.changes.lazy.map(\.changeID), before.changes.indices)
        ) { first, _ in first }
        func former(_ changeID: String) -> TrackedChange? {
            places[changeID].map { before.changes[$0] }
        }
        let moved = state.changes.filter { $0 != former($0.changeID) }
        answered = []
        for line in transitions where all == nil && line.evidenceKind == .response {
            guard let sent = former(line.changeID), sent.progress.state == .sending,
                line.evidenceID == sent.requestReferenceID,
                transitions.count(where: { $0.changeID == line.changeID }) == 1
            else { continue }
            answered.insert(line.changeID)
        }
        let (told, now) = (answered, state.changes)
        scheduled = Set(
            now.lazy.filter { told.contains($0.changeID) }
                .filter { former($0.changeID)?.becomes($0) == true }.map(\.changeID))
        if !state.facts.renames.isEmpty || state.money.isRelisted { isRenamed = true }
        self.state = state
        self.moved = moved
        latest = arrived.max { $0.key < $1.key } ?? events.last
        reopened = moved.filter { change in
            !change.progress.state.isFinal
                && former(change.changeID)?.progress.state.isFinal == true
        }
        reenabled = state.ownCancels.filter { !before.ownCancels.contains($0) }
        cancellations = state.cancellations.filter { !before.cancellations.contains($0) }
    }

    /// Whether figures of reports may change: it has, had or now has a change that ended, or one that was called, of
    /// which they keep what its item brings.
    package var altersFigures: Bool {
        !reopened.isEmpty
            || state.changes.contains { change in
                change.progress.state.isFinal || change.firstSentAt != nil
                    || change.progress.scheduledAt != nil
            }
    }

    /// The reason in the history of a change whose verdict a late statement changed. The former state follows this
    /// text and stays in the history.
    package static let correctionReason = "corrected by a late statement: was "
}

extension SubscriptionFacts {
    /// Whether a statement is about an earlier period than the one that is running by then.
    fileprivate func hasEarlierPeriods(toldBy arrived: [SubscriptionEvent]) -> Bool {
        var running = purchasedAt
        for event in arrived.sorted(by: { $0.key < $1.key }) {
            guard let transaction = event.transaction, !transaction.addsSeats,
                let told = transaction.purchasedAt
            else { continue }
            if let known = running, told < known { return true }
            running = told
        }
        return false
    }
}

extension TrackedChange {
    /// Whether this change was `sending`, and `other` is the same change, only now `scheduled`.
    fileprivate func becomes(_ other: TrackedChange) -> Bool {
        guard progress.state == .sending, other.progress.state == .scheduled, let sentAt,
            progress.since == sentAt, progress.reason == nil, progress.scheduledAt == nil,
            progress.dueAt == callProgress.dueAt
        else { return false }
        var scheduled = self
        scheduled.progress.state = .scheduled
        scheduled.progress.scheduledAt = other.progress.scheduledAt
        scheduled.progress.since = other.progress.since
        return scheduled == other
    }
}

extension [DependentCancellation] {
    /// Keeps what no fold can compute again: the outcomes of dependents on other subscriptions. The fold only computes
    /// why they were requested. If such a dependent was first taken for one of this subscription, an outcome from this
    /// subscription's statements proves nothing and is not kept.
    fileprivate mutating func keepSettled(of before: [DependentCancellation]) {
        for index in indices where self[index].isCrossSubscription {
            let former = before.first {
                $0.changeID == self[index].changeID && $0.dependentSKU == self[index].dependentSKU
            }
            guard let former, former.isCrossSubscription, former.state != .notNeeded else {
                continue
            }
            let told = self[index]
            self[index] = former
            self[index].parentSKU = told.parentSKU
            self[index].cause = told.cause
            self[index].requestedAt = told.requestedAt
            self[index].requestedByEvidence = told.requestedByEvidence
        }
    }

    /// The cancellations that a fold from the beginning no longer produces, as withdrawn.
    fileprivate func withdrawn(where told: [DependentCancellation]) -> [DependentCancellation] {
        compactMap { former in
            let isStillTold = told.contains {
                $0.changeID == former.changeID && $0.dependentSKU == former.dependentSKU
            }
            guard !isStillTold else { return nil }
            var withdrawn = former
            guard former.cancelReferenceID == nil else {
                withdrawn.state = .discrepancy
                withdrawn.detail =
                    "its subscription was cancelled, and a later statement shows that the parent was not declined"
                return withdrawn
            }
            withdrawn.state = .notNeeded
            withdrawn.detail = "a later statement shows that the parent was not declined"
            return withdrawn
        }
    }
}

extension DependentCancellation {
    /// The cancellation as a fold from the beginning would make it: a withdrawn one does not exist, and one that the
    /// canceller abandoned (no statement settled it) still has to be proved.
    fileprivate var asToldByStatements: DependentCancellation? {
        switch state {
        case .notNeeded: return nil
        case .discrepancy where settledByEvidence == nil && !isCrossSubscription:
            var open = self
            open.state = .requested
            open.settledAt = nil
            open.detail = nil
            return open
        case .requested, .confirmed, .cancelSent, .discrepancy: return self
        }
    }
}

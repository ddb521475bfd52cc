/// One subscription's fold of statements that arrived, whatever their order: it goes on from what is stored, or
/// begins again where one that arrived is older than what was folded.
package struct SubscriptionFold: Sendable {
    package var state: SubscriptionState
    package var transitions: [Transition]
    /// Changes that this fold moved.
    package var moved: [TrackedChange]
    /// Of those the ones that the answer to their call moved, by one line: no line of their history can be the same.
    package var answered: Set<String>
    /// Of these again the ones that it scheduled and altered in nothing else: what they were before can be told.
    package var scheduled: Set<String>
    /// Changes that had ended and are open again by a late statement, or by a refund taken back.
    package var reopened: [TrackedChange]
    /// Cancellations that this fold opened, settled or withdrew.
    package var cancellations: [DependentCancellation]
    /// Cancels of ours that the customer was seen to have taken back by this fold, or not to have.
    package var reenabled: [OwnCancel]
    /// Whether it began again: what it tells of extensions then is all that there is.
    package var isAnew: Bool
    /// Where it began then: nil at the first statement, else where the checkpoint ends that stands for the earlier ones.
    package var checkpoint: FoldCheckpoint?
    /// The latest of those that arrived: what a `correction` names.
    package var latest: SubscriptionEvent?

    /// Whether a fold of these must begin again: one is older than what was folded, or than the end that a later
    /// call of ours put to a change. Such an end is dated by that call, which may be ahead of what was folded. So it must
    /// where a refund is taken back: how much it was, earlier statements tell.
    package static func isLate(
        _ arrived: [SubscriptionEvent], after folded: SubscriptionEvent.Key?,
        _ changes: [TrackedChange]
    ) -> Bool {
        guard let folded, let first = arrived.map(\.key).min() else { return false }
        if first < folded || arrived.contains(where: { $0.type == refundReversed }) { return true }
        return changes.contains { change in
            change.isSuperseded && change.progress.endedAt.map { first.signedAt < $0 } ?? false
        }
    }

    /// - Parameters:
    ///   - before: What is stored: facts, changes, cancellations. Its money and renames are not asked.
    ///   - arrived: New statements, each once.
    ///   - all: Every statement kept, those that arrived too, where `isLate`; nil where not.
    ///   - checkpoint: What stands for those that are not kept any more.
    package init(
        _ before: SubscriptionState, arrived: [SubscriptionEvent], all: [SubscriptionEvent]?,
        since checkpoint: FoldCheckpoint? = nil
    ) {
        var state: SubscriptionState
        isAnew = all != nil
        self.checkpoint = all == nil ? nil : checkpoint
        if all == nil {
            state = before
            state.money = MoneyLedger()
            state.renames = []
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
        self.state = state
        self.moved = moved
        latest = arrived.max { $0.key < $1.key }
        reopened = moved.filter { change in
            !change.progress.state.isFinal
                && former(change.changeID)?.progress.state.isFinal == true
        }
        reenabled = state.ownCancels.filter { !before.ownCancels.contains($0) }
        cancellations = state.cancellations.filter { !before.cancellations.contains($0) }
    }

    /// Whether it has, had or now has a change that ended, of which reports keep figures: what it brought may be other
    /// than it was. Or a statement tells of money that moved since the call of one that is open: it has to be explained.
    package var altersFigures: Bool {
        !reopened.isEmpty
            || state.changes.contains { change in
                if change.progress.state.isFinal { return true }
                guard let called = change.firstSentAt ?? change.progress.scheduledAt else {
                    return false
                }
                return state.money.contains { $0.key.occurredAt >= called }
            }
    }

    /// Why a change's newest line of history says its state: a late statement changed the verdict, and the former one,
    /// which follows this text, stays in the history.
    package static let correctionReason = "corrected by a late statement: was "
}

extension TrackedChange {
    /// Whether `other` is this one, whose call was out, scheduled: nothing else of it is different.
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
    /// What became of dependents elsewhere no fold can tell anew. Why they were asked for it tells; and what statements
    /// of this subscription settled, while one was taken for its own, is no proof.
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

    /// Those that a fold from the beginning no longer brings forth.
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
    /// What a fold from the beginning would have made of it: one withdrawn is none, and one that the canceller
    /// gave up (no statement settled it) is still to be proved.
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

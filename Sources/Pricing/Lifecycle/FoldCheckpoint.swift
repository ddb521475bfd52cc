/// The state that replaces all statements about a subscription signed before an instant. A fold that starts from it
/// with the later statements ends as a fold of all statements would. So the earlier ones may be dropped.
///
/// Its size depends on what is open, not on time. Of money it keeps the refunds, and the charges of a year and a month.
/// An earlier charge is final: no statement takes it out of the ledger any more.
package struct FoldCheckpoint: Hashable, Sendable {
    /// The progress of one change at the checkpoint.
    package struct Told: Hashable, Sendable {
        package var changeID: String
        package var sku: String
        package var dependentSKUs: [String]
        package var formerSKUs: [String]
        package var formerUntil: [String: Instant]
        package var progress: ChangeProgress
        /// When its call was sent, or the instant from which statements counted for another reason. A later call makes
        /// this entry void.
        package var calledAt: Instant

        package init(
            changeID: String, sku: String, dependentSKUs: [String], formerSKUs: [String],
            formerUntil: [String: Instant], progress: ChangeProgress, calledAt: Instant
        ) {
            self.changeID = changeID
            self.sku = sku
            self.dependentSKUs = dependentSKUs
            self.formerSKUs = formerSKUs
            self.formerUntil = formerUntil
            self.progress = progress
            self.calledAt = calledAt
        }
    }

    /// Every statement signed before this instant is included, and no other.
    package var before: Instant
    package var facts: SubscriptionFacts
    package var increases: [RecordedIncrease]
    package var seenSKUs: [String]
    package var foldedThrough: SubscriptionEvent.Key?
    package var changes: [Told]
    package var money: [MoneyEntry]
    package var cancellations: [DependentCancellation]
    /// When the customer reversed cancellations of ours, by their ids.
    package var reenabledAt: [String: Instant]
    /// The paid periods that a later statement may be compared with.
    package var toldPeriods: [ToldPeriod]

    /// Charges before this instant are final.
    package var moneySince: Instant { Self.moneySince(before) }

    package static func moneySince(_ before: Instant) -> Instant {
        before.advanced(by: -400 * 86_400_000)
    }

    /// - Parameter reenabledAt: The instants by the ids of the cancellations.
    package init(
        before: Instant, facts: SubscriptionFacts, increases: [RecordedIncrease],
        seenSKUs: [String], foldedThrough: SubscriptionEvent.Key?, changes: [Told],
        money: [MoneyEntry], cancellations: [DependentCancellation],
        reenabledAt: [String: Instant], toldPeriods: [ToldPeriod]
    ) {
        self.before = before
        self.facts = facts
        self.increases = increases
        self.seenSKUs = seenSKUs
        self.foldedThrough = foldedThrough
        self.changes = changes
        self.money = money
        self.cancellations = cancellations
        self.reenabledAt = reenabledAt
        self.toldPeriods = toldPeriods
    }

    /// Folds the statements signed before `before`, from the earlier checkpoint where there is one.
    ///
    /// - Parameters:
    ///   - statements: All statements that are kept. Those signed at `before` or later are left out.
    ///   - stored: The changes and own cancellations of the subscription as they are now.
    package init(
        before: Instant, statements: [SubscriptionEvent], since earlier: FoldCheckpoint?,
        _ stored: SubscriptionState
    ) {
        var state = earlier?.start(stored) ?? stored.unfolded
        let floor = earlier?.before
        let covered = statements.filter { event in
            event.key.signedAt < before && floor.map { event.key.signedAt >= $0 } ?? true
        }
        _ = Lifecycle.fold(covered.sorted { $0.key < $1.key }, into: &state)
        let moneySince = Self.moneySince(before)
        self.init(
            before: before, facts: state.facts, increases: state.increases,
            seenSKUs: state.seenSKUs, foldedThrough: state.foldedThrough,
            changes: state.changes.map(Told.init),
            money: state.money.filter {
                $0.key.kind != .charge || $0.key.occurredAt >= moneySince
            },
            cancellations: state.cancellations,
            reenabledAt: Dictionary(
                state.ownCancels.compactMap { cancel in
                    cancel.reenabledAt.map { (cancel.requestReferenceID, $0) }
                }, uniquingKeysWith: { first, _ in first }),
            toldPeriods: SubscriptionState.kept(state.toldPeriods, before: before))
    }

    /// Whether the statements signed before the instant are complete for their changes. They are not where an earlier
    /// call is still open, or where a later call of ours has ended a change, because a late statement could still be
    /// about that change.
    package static func isPossible(before: Instant, _ stored: SubscriptionState) -> Bool {
        stored.changes.allSatisfy { change in
            if change.isSuperseded, change.progress.endedAt.map({ $0 >= before }) ?? true {
                return false
            }
            guard let at = change.sentAt ?? change.doubtfulSince, at < before else { return true }
            return change.progress.state.isFinal
        }
    }

    /// The state in which a fold of the later statements begins.
    func start(_ stored: SubscriptionState) -> SubscriptionState {
        var state = stored.unfolded
        state.facts = facts
        state.increases = increases
        state.seenSKUs = seenSKUs
        state.foldedThrough = foldedThrough
        state.cancellations = cancellations
        state.toldPeriods = toldPeriods
        for entry in money { state.money.note(entry) }
        let told = Dictionary(changes.map { ($0.changeID, $0) }) { first, _ in first }
        for index in state.changes.indices {
            guard let told = told[state.changes[index].changeID] else { continue }
            state.changes[index].takeUp(told)
        }
        for index in state.ownCancels.indices {
            state.ownCancels[index].reenabledAt =
                reenabledAt[state.ownCancels[index].requestReferenceID]
        }
        return state
    }

    /// Whether a fold of `later` from this checkpoint results in `stored`. Only then may the earlier statements be
    /// dropped.
    package func leads(to stored: SubscriptionState, by later: [SubscriptionEvent]) -> Bool {
        var state = start(stored)
        let events = later.filter { $0.key.signedAt >= before }.sorted { $0.key < $1.key }
        _ = Lifecycle.fold(events, into: &state)
        return state.facts == stored.facts && state.increases == stored.increases
            && state.seenSKUs == stored.seenSKUs && state.foldedThrough == stored.foldedThrough
            && state.changes.allSatisfy { change in
                stored.changes.contains { $0.isTold(as: change) }
            }
    }
}

extension SubscriptionState {
    /// The state in which a fold from the beginning starts, with nothing folded.
    var unfolded: SubscriptionState {
        var state = SubscriptionState(
            originalTransactionID: facts.originalTransactionID, changes: changes)
        state.ownCancels = ownCancels
        for index in state.ownCancels.indices { state.ownCancels[index].reenabledAt = nil }
        return state
    }
}

extension FoldCheckpoint.Told {
    fileprivate init(_ change: TrackedChange) {
        self.init(
            changeID: change.changeID, sku: change.sku, dependentSKUs: change.dependentSKUs,
            formerSKUs: change.formerSKUs, formerUntil: change.formerUntil,
            progress: change.progress, calledAt: change.callProgress.since)
    }
}

extension TrackedChange {
    /// Sets the progress that the statements before the checkpoint had led to. A change that was called again since
    /// then keeps the progress from its call.
    fileprivate mutating func takeUp(_ told: FoldCheckpoint.Told) {
        guard callProgress.since == told.calledAt else { return }
        if told.sku != sku { calledSKU = sku }
        if told.dependentSKUs != dependentSKUs { calledDependentSKUs = dependentSKUs }
        sku = told.sku
        dependentSKUs = told.dependentSKUs
        formerSKUs = told.formerSKUs
        formerUntil = told.formerUntil
        progress = told.progress
    }

    /// Whether it is the same change with the same progress.
    fileprivate func isTold(as other: TrackedChange) -> Bool {
        changeID == other.changeID && sku == other.sku && dependentSKUs == other.dependentSKUs
            && formerSKUs == other.formerSKUs && formerUntil == other.formerUntil
            && progress == other.progress
    }
}

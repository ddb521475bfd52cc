/// What stands for all statements about a subscription that were signed before an instant: a fold of the later ones goes
/// on from it, and ends as a fold of all of them would. So the earlier ones may go.
///
/// It grows with what is open, not with time: of money it keeps what was given back, and the charges of a year and
/// a month. An earlier charge is settled; no statement takes it out of the ledger any more.
package struct FoldCheckpoint: Hashable, Sendable {
    /// How far one change had come.
    package struct Told: Hashable, Sendable {
        package var changeID: String
        package var sku: String
        package var dependentSKUs: [String]
        package var formerSKUs: [String]
        package var progress: ChangeProgress
        /// When its call left, or what else of ours the statements counted from: since another one they say nothing.
        package var calledAt: Instant

        package init(
            changeID: String, sku: String, dependentSKUs: [String], formerSKUs: [String],
            progress: ChangeProgress, calledAt: Instant
        ) {
            self.changeID = changeID
            self.sku = sku
            self.dependentSKUs = dependentSKUs
            self.formerSKUs = formerSKUs
            self.progress = progress
            self.calledAt = calledAt
        }
    }

    /// Every statement signed before it is in here, and none signed then or later.
    package var before: Instant
    package var facts: SubscriptionFacts
    package var increases: [RecordedIncrease]
    package var seenSKUs: [String]
    package var foldedThrough: SubscriptionEvent.Key?
    package var changes: [Told]
    package var money: [MoneyEntry]
    package var cancellations: [DependentCancellation]
    /// Of cancels of ours that the customer took back, by their id.
    package var reenabledAt: [String: Instant]

    /// Charges of before are settled.
    package var moneySince: Instant { Self.moneySince(before) }

    package static func moneySince(_ before: Instant) -> Instant {
        before.advanced(by: -400 * 86_400_000)
    }

    /// - Parameter reenabledAt: As the name says, by the id of the cancel.
    package init(
        before: Instant, facts: SubscriptionFacts, increases: [RecordedIncrease],
        seenSKUs: [String], foldedThrough: SubscriptionEvent.Key?, changes: [Told],
        money: [MoneyEntry], cancellations: [DependentCancellation],
        reenabledAt: [String: Instant]
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
    }

    /// Folds the statements signed before `before`, on from the earlier checkpoint where there is one.
    ///
    /// - Parameters:
    ///   - statements: All that are kept; those signed at `before` or later are left out.
    ///   - stored: The changes and own cancels of the subscription as they are now.
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
                }, uniquingKeysWith: { first, _ in first }))
    }

    /// Whether the statements signed before the instant say all about what they are about: no call of before is still open,
    /// and no later call of ours has ended one of its changes, so that a late statement could be about it yet.
    package static func isPossible(before: Instant, _ stored: SubscriptionState) -> Bool {
        stored.changes.allSatisfy { change in
            if change.isSuperseded, change.progress.endedAt.map({ $0 >= before }) ?? true {
                return false
            }
            guard let at = change.sentAt ?? change.doubtfulSince, at < before else { return true }
            return change.progress.state.isFinal
        }
    }

    /// Where a fold of the later statements begins.
    func start(_ stored: SubscriptionState) -> SubscriptionState {
        var state = stored.unfolded
        state.facts = facts
        state.increases = increases
        state.seenSKUs = seenSKUs
        state.foldedThrough = foldedThrough
        state.cancellations = cancellations
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

    /// Whether a fold of `later` from here on ends as `stored` is: only then may the earlier statements go.
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
    /// Nothing folded: where a fold from the beginning starts.
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
            formerSKUs: change.formerSKUs, progress: change.progress,
            calledAt: change.callProgress.since)
    }
}

extension TrackedChange {
    /// Unfolded, it stands where the statements before the checkpoint had brought it. One that was called anew since
    /// stays where its call left it.
    fileprivate mutating func takeUp(_ told: FoldCheckpoint.Told) {
        guard callProgress.since == told.calledAt else { return }
        if told.sku != sku { calledSKU = sku }
        if told.dependentSKUs != dependentSKUs { calledDependentSKUs = dependentSKUs }
        sku = told.sku
        dependentSKUs = told.dependentSKUs
        formerSKUs = told.formerSKUs
        progress = told.progress
    }

    /// The same change, told alike.
    fileprivate func isTold(as other: TrackedChange) -> Bool {
        changeID == other.changeID && sku == other.sku && dependentSKUs == other.dependentSKUs
            && formerSKUs == other.formerSKUs && progress == other.progress
    }
}

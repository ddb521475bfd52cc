package import Ledger
package import Pricing

/// Folds new statements into stored subscriptions, inside the caller's transaction. The caller holds the
/// subscriptions' locks.
package enum SubscriptionFolder {
    /// Keeps the statements, folds them and writes what changed. Statements older than what is folded already make
    /// their subscription fold again from the beginning, once for all of them: any order of arrival ends the same.
    /// One kept before changes nothing.
    ///
    /// Throws `LedgerError` where a statement names no moment or no subscription that can be stored.
    package static func fold(
        _ told: [SubscriptionEvent], on connection: isolated LedgerConnection
    ) throws {
        guard !told.isEmpty else { return }
        let storable = try told.map { event throws(LedgerError) in
            do { return try event.storable() } catch { throw .unreadable("a statement: \(error)") }
        }
        let arrived = try EventQueries.insert(storable, on: connection)
        guard !arrived.isEmpty else { return }
        let byID = Dictionary(grouping: arrived, by: \.originalTransactionID)
        let ids = byID.keys.sorted()
        let stored = try SubscriptionQueries.load(ids, on: connection)
        let changes = try FoldQueries.sentChanges(ids, on: connection)
        let cancellations = try FoldQueries.cancellations(ids, on: connection)
        let late = ids.filter { id in
            guard let folded = stored[id]?.foldedThrough else { return false }
            return byID[id, default: []].contains { $0.key < folded }
        }
        let everything = late.isEmpty ? [:] : try EventQueries.all(late, on: connection)

        var writes = FoldWrites()
        for id in ids {
            let before = Folding.Before(
                stored: stored[id], changes: changes[id] ?? [],
                cancellations: cancellations[id] ?? [])
            let folding = Folding(
                id: id, before: before, arrived: byID[id, default: []], all: everything[id])
            writes.append(folding.run())
        }
        _ = try connection.pipeline(try writes.statements())
    }
}

/// One subscription's fold: where it starts, and what it reads.
private struct Folding {
    struct Before {
        var stored: SubscriptionQueries.Stored?
        var changes: [TrackedChange]
        var cancellations: [DependentCancellation]
    }

    let id: String
    let before: Before
    let arrived: [SubscriptionEvent]
    /// Every statement kept, where one that arrived is late; the fold then starts at the beginning.
    let all: [SubscriptionEvent]?

    private var start: SubscriptionState {
        guard all == nil else {
            return SubscriptionState(originalTransactionID: id, changes: before.changes)
        }
        return SubscriptionState(
            facts: before.stored?.facts ?? SubscriptionFacts(originalTransactionID: id),
            increases: before.stored?.increases ?? [], seenSKUs: before.stored?.seenSKUs ?? [],
            changes: before.changes,
            cancellations: before.cancellations.compactMap(\.asToldByStatements),
            foldedThrough: before.stored?.foldedThrough)
    }

    func run() -> FoldWrites.Folded {
        var state = start
        var transitions = Lifecycle.fold(all ?? arrived.sorted { $0.key < $1.key }, into: &state)
        if all != nil { state.cancellations += withdrawnCancellations(state) }
        let former = Dictionary(before.changes.map { ($0.changeID, $0) }) { first, _ in first }
        let moved = state.changes.filter { $0 != former[$0.changeID] }
        transitions += moved.compactMap { correction(of: $0, former: former[$0.changeID], state) }
        return FoldWrites.Folded(
            state: state, transitions: transitions, moved: moved,
            reopened: moved.filter { change in
                !change.progress.state.isFinal
                    && former[change.changeID]?.progress.state.isFinal == true
            },
            cancellations: state.cancellations.filter { !before.cancellations.contains($0) })
    }

    /// Cancellations that a fold from the beginning no longer brings forth.
    private func withdrawnCancellations(_ state: SubscriptionState) -> [DependentCancellation] {
        before.cancellations.compactMap { former in
            let isStillTold = state.cancellations.contains {
                $0.changeID == former.changeID && $0.dependentSKU == former.dependentSKU
            }
            guard !isStillTold else { return nil }
            var withdrawn = former
            withdrawn.state = .notNeeded
            withdrawn.detail = "a later statement shows that the parent was not declined"
            return withdrawn
        }
    }

    /// A late statement changed the verdict, and the history holds the former one under the same or a later
    /// instant: a line after it says what holds, so that the newest line of a change is always its state.
    private func correction(
        of change: TrackedChange, former: TrackedChange?, _ state: SubscriptionState
    ) -> Transition? {
        guard all != nil, let former, former.progress.state != change.progress.state,
            former.progress.since >= change.progress.since,
            let latest = arrived.max(by: { $0.key < $1.key })
        else { return nil }
        let after = former.progress.since.advanced(by: 1)
        return Transition(
            changeID: change.changeID, state: change.progress.state,
            at: max(after, state.facts.signedAt ?? after), evidenceKind: latest.source,
            evidenceID: latest.key.evidenceID,
            reason: "corrected by a late statement: was \(former.progress.state.rawValue)")
    }
}

extension DependentCancellation {
    /// What a fold from the beginning would have made of it: one withdrawn is none, and one that the canceller
    /// gave up (no statement settled it) is still to be proved.
    fileprivate var asToldByStatements: DependentCancellation? {
        switch state {
        case .notNeeded: return nil
        case .discrepancy where settledByEvidence == nil:
            var open = self
            open.state = .requested
            open.settledAt = nil
            open.detail = nil
            return open
        case .requested, .confirmed, .cancelSent, .discrepancy: return self
        }
    }
}

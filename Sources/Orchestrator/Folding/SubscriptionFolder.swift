package import Ledger
package import Pricing

/// Folds new statements into stored subscriptions, inside the caller's transaction. The caller holds the
/// subscriptions' locks.
package enum SubscriptionFolder {
    /// Keeps the statements, folds them and writes what changed. A statement older than what is folded already
    /// makes its subscription fold again from the beginning: any order of arrival ends the same.
    package static func fold(
        _ arrived: [SubscriptionEvent], on connection: isolated LedgerConnection
    ) throws {
        guard !arrived.isEmpty else { return }
        let byID = Dictionary(grouping: arrived, by: \.originalTransactionID)
        let ids = byID.keys.sorted()
        _ = try connection.pipeline([try EventQueries.insert(arrived)])
        let stored = try SubscriptionQueries.load(ids, on: connection)
        let changes = try FoldQueries.sentChanges(ids, on: connection)
        let cancellations = try FoldQueries.cancellations(ids, on: connection)
        let late = ids.filter { id in
            guard let folded = stored[id]?.foldedThrough else { return false }
            return byID[id, default: []].contains { $0.key <= folded }
        }
        let everything = late.isEmpty ? [:] : try EventQueries.all(late, on: connection)

        var statements: [LedgerStatement] = []
        for id in ids {
            let known = stored[id]
            let folding =
                if let all = everything[id] {
                    Folding(fromBeginning: id, all, changes[id] ?? [], cancellations[id] ?? [])
                } else {
                    Folding(
                        continuing: id, known, byID[id] ?? [], changes[id] ?? [],
                        cancellations[id] ?? [])
                }
            statements += try folding.run()
        }
        _ = try connection.pipeline(statements)
    }
}

/// One subscription's fold: where it starts, and what it reads.
private struct Folding {
    var state: SubscriptionState
    let events: [SubscriptionEvent]
    /// Cancellations that a fold from the beginning may no longer bring forth.
    let formerCancellations: [DependentCancellation]
    /// Changes that had ended before this fold.
    let formerlyEnded: Set<String>

    init(
        continuing id: String, _ stored: SubscriptionQueries.Stored?,
        _ arrived: [SubscriptionEvent],
        _ changes: [TrackedChange], _ cancellations: [DependentCancellation]
    ) {
        state = SubscriptionState(
            facts: stored?.facts ?? SubscriptionFacts(originalTransactionID: id),
            increases: stored?.increases ?? [], seenSKUs: stored?.seenSKUs ?? [], changes: changes,
            cancellations: cancellations.compactMap(\.asToldByStatements),
            foldedThrough: stored?.foldedThrough)
        events = arrived.sorted { $0.key < $1.key }
        formerCancellations = []
        formerlyEnded = Set(changes.filter(\.progress.state.isFinal).map(\.changeID))
    }

    init(
        fromBeginning id: String, _ all: [SubscriptionEvent], _ changes: [TrackedChange],
        _ cancellations: [DependentCancellation]
    ) {
        formerlyEnded = Set(changes.filter(\.progress.state.isFinal).map(\.changeID))
        state = SubscriptionState(originalTransactionID: id, changes: changes)
        events = all
        formerCancellations = cancellations
    }

    func run() throws -> [LedgerStatement] {
        var state = state
        let transitions = Lifecycle.fold(events, into: &state)
        for former in formerCancellations
        where !state.cancellations.contains(where: {
            $0.changeID == former.changeID && $0.dependentSKU == former.dependentSKU
        }) {
            var withdrawn = former
            withdrawn.state = .notNeeded
            withdrawn.detail = "a later statement shows that the parent was not declined"
            state.cancellations.append(withdrawn)
        }
        let reopened = state.changes.filter { change in
            !change.progress.state.isFinal && formerlyEnded.contains(change.changeID)
        }
        return try FoldQueries.save(state, transitions, reopened: reopened)
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

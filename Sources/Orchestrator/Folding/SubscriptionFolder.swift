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
        let ownCancels = try FoldQueries.ownCancels(ids, on: connection)
        let late = ids.filter { id in
            SubscriptionFold.isLate(
                byID[id, default: []], after: stored[id]?.foldedThrough, changes[id] ?? [])
        }
        let everything = late.isEmpty ? [:] : try EventQueries.all(late, on: connection)

        var writes = FoldWrites()
        for id in ids {
            let known = stored[id]
            let before = SubscriptionState(
                facts: known?.facts ?? SubscriptionFacts(originalTransactionID: id),
                increases: known?.increases ?? [], seenSKUs: known?.seenSKUs ?? [],
                changes: changes[id] ?? [], cancellations: cancellations[id] ?? [],
                ownCancels: ownCancels[id] ?? [], foldedThrough: known?.foldedThrough)
            writes.append(
                SubscriptionFold(before, arrived: byID[id, default: []], all: everything[id]))
        }
        _ = try connection.pipeline(try writes.statements())
    }
}

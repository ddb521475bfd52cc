package import Pricing

/// Folds new statements into stored subscriptions, inside the caller's transaction. The caller holds the
/// subscriptions' locks.
package enum SubscriptionFolder {
    /// Keeps the statements, folds them and writes what changed, at the latest when the transaction commits. Statements older than what is folded already make
    /// their subscription fold again from the beginning, once for all of them: any order of arrival ends the same.
    /// One kept before changes nothing.
    ///
    /// Returns the changes that were ever sent of the subscriptions that it folded, by subscription, as they are now.
    /// Throws `FactsError` where a statement names no moment or no subscription that can be stored.
    ///
    /// - Parameters:
    ///   - areNew: Each statement is told for the first time, by an answer that only the caller has.
    ///   - stored: The subscriptions as they were read under the lock; nil: they are read here.
    ///   - changes: Of some of them those that were ever sent, as under the lock; the others are read here.
    ///   - holdsCalls: Each subscription's one call in flight is the caller's, who settles it.
    @discardableResult
    package static func fold(
        _ told: [SubscriptionEvent], areNew: Bool = false,
        into stored: [String: SubscriptionQueries.Stored]? = nil,
        changes: [String: [TrackedChange]] = [:], holdsCalls: Bool = false,
        on connection: isolated DatabaseConnection
    ) throws -> [String: [TrackedChange]] {
        guard !told.isEmpty else { return [:] }
        let storable = try told.map { event throws(FactsError) in
            do { return try event.storable() } catch { throw .unreadable("a statement: \(error)") }
        }
        let named = Set(storable.map(\.originalTransactionID)).sorted()
        let (arrived, known, loaded) = try connection.ask(
            EventQueries.inserting(storable, areNew: areNew),
            FoldQueries.knowing(of: named, changes: changes),
            stored.map { .answered(($0, [:])) } ?? SubscriptionQueries.loading(named))
        guard !arrived.isEmpty else { return [:] }
        let byID = Dictionary(grouping: arrived, by: \.originalTransactionID)
        let ids = byID.keys.sorted()
        // One that can't be read stops only what it must take in.
        let stored = try SubscriptionQueries.whole(
            (loaded.stored, loaded.unreadable.filter { byID[$0.key] != nil }))
        let late = ids.filter { id in
            SubscriptionFold.isLate(
                byID[id, default: []], after: stored[id]?.foldedThrough, known.changes[id] ?? [])
        }
        let everything = late.isEmpty ? [:] : try EventQueries.all(late, on: connection)

        var writes = FoldWrites()
        var folded: [String: [TrackedChange]] = [:]
        for id in ids {
            let old = stored[id]
            var before = SubscriptionState(
                facts: old?.facts ?? SubscriptionFacts(originalTransactionID: id),
                changes: known.changes[id] ?? [])
            before.increases = old?.increases ?? []
            before.seenSKUs = old?.seenSKUs ?? []
            before.cancellations = known.cancellations[id] ?? []
            before.ownCancels = known.ownCancels[id] ?? []
            before.foldedThrough = old?.foldedThrough
            let fold = SubscriptionFold(
                before, arrived: byID[id, default: []], all: everything[id])
            folded[id] = fold.state.changes
            writes.append(fold)
        }
        try connection.sendLater(writes.statements(holdsCalls: holdsCalls))
        return folded
    }
}

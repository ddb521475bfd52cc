package import Pricing

/// Folds new statements into stored subscriptions, inside the caller's transaction. The caller holds the
/// subscriptions' locks.
package enum SubscriptionFolder {
    /// Stores the statements, folds them and writes what changed, at the latest when the transaction commits. A
    /// statement older than what is folded already makes its subscription fold again from the beginning, once for all
    /// such statements. So any order of arrival ends the same. A statement that was kept before changes nothing.
    ///
    /// Returns those changes of the folded subscriptions that were ever sent, by subscription, as they are now. Throws
    /// `FactsError` where a statement has no instant or subscription that can be stored.
    ///
    /// - Parameters:
    ///   - areNew: Each statement is new, because it comes from an answer that only the caller has.
    ///   - stored: The subscriptions as they were read under the lock; nil has them read here.
    ///   - changes: The changes of some subscriptions that were ever sent, as they were read under the lock. Those
    ///     of the others are read here.
    ///   - holdsCalls: The caller holds, and settles, the one call in flight of each subscription.
    ///   - reread: Subscriptions that lost a statement before this call, so they are folded from the beginning.
    @discardableResult
    package static func fold(
        _ told: [SubscriptionEvent], areNew: Bool = false, reread: Set<String> = [],
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
        var byID = Dictionary(grouping: arrived, by: \.originalTransactionID)
        try noteOverdue(&byID, loaded.stored, on: connection)
        guard !byID.isEmpty else { return [:] }
        // A subscription that cannot be read matters only if it has statements to fold.
        let stored = try SubscriptionQueries.whole(
            (loaded.stored, loaded.unreadable.filter { byID[$0.key] != nil }))
        let late = byID.keys.sorted().filter { id in
            reread.contains(id) || isUnfolded(stored[id])
                || SubscriptionFold.isLate(
                    byID[id, default: []], after: stored[id]?.foldedThrough,
                    known.changes[id] ?? [], stored[id]?.facts)
        }
        return try write(
            byID, all: late.isEmpty ? [:] : try EventQueries.all(late, on: connection),
            into: stored,
            known, holdsCalls: holdsCalls, on: connection)
    }

    /// Removes the statements that were signed before the checkpoint of their subscription from the fold, and notes
    /// them as overdue. A subscription that `reprocess` has marked is folded even if no statement remains.
    private static func noteOverdue(
        _ byID: inout [String: [SubscriptionEvent]],
        _ stored: [String: SubscriptionQueries.Stored], on connection: isolated DatabaseConnection
    ) throws {
        var overdue: [SubscriptionEvent] = []
        for (id, events) in byID {
            guard let checkpoint = stored[id]?.checkpointAt else { continue }
            let old = events.filter { $0.key.signedAt < checkpoint }
            guard !old.isEmpty else { continue }
            overdue += old
            let rest = events.filter { $0.key.signedAt >= checkpoint }
            byID[id] = rest.isEmpty && !isUnfolded(stored[id]) ? nil : rest
        }
        guard !overdue.isEmpty else { return }
        // A report may read from such a statement why an item ended, although no fold reads it.
        let ids = Set(overdue.map(\.originalTransactionID)).sorted()
        _ = try connection.pipeline(
            EventQueries.notingOverdue(overdue) + [VersionQueries.mark(ids)])
    }

    /// Whether `reprocess` wants the subscription folded from the beginning. It marks such a subscription as folded
    /// through 31 December 9999.
    private static func isUnfolded(_ stored: SubscriptionQueries.Stored?) -> Bool {
        (stored?.foldedThrough?.signedAt).map { $0 > unfoldedAfter } ?? false
    }

    /// No statement that is stored is later than this.
    private static let unfoldedAfter = Instant(milliseconds: 253_370_764_800_000)

    /// Folds all statements of these subscriptions once more, because changes were added that no statement was about
    /// before.
    ///
    /// - Parameter isReread: Whether a statement was removed, perhaps the only one. Otherwise a subscription without
    ///   statements is left unchanged.
    @discardableResult
    package static func foldAnew(
        _ ids: [String], isReread: Bool = false, on connection: isolated DatabaseConnection
    ) throws -> [String: [TrackedChange]] {
        let (known, loaded) = try connection.ask(
            FoldQueries.knowing(of: ids), SubscriptionQueries.loading(ids))
        let none = Dictionary(ids.map { ($0, [SubscriptionEvent]()) }) { first, _ in first }
        let all = try EventQueries.all(ids, on: connection)
        return try write(
            none, all: isReread ? all.merging(none) { told, _ in told } : all,
            into: SubscriptionQueries.whole(loaded),
            known,
            holdsCalls: false, on: connection)
    }

    /// Folds and writes each subscription. `arrived` has the new statements of each, and `all` every statement of those
    /// that must be folded from the beginning.
    private static func write(
        _ arrived: [String: [SubscriptionEvent]], all: [String: [SubscriptionEvent]],
        into stored: [String: SubscriptionQueries.Stored], _ known: FoldQueries.Known,
        holdsCalls: Bool, on connection: isolated DatabaseConnection
    ) throws -> [String: [TrackedChange]] {
        let checkpoints = try CheckpointQueries.load(
            all.keys.filter { stored[$0]?.checkpointAt != nil }.sorted(), on: connection)
        var writes = FoldWrites()
        var folded: [String: [TrackedChange]] = [:]
        for id in arrived.keys.sorted() {
            let before = known.state(of: id, stored[id])
            let fold = SubscriptionFold(
                before, arrived: arrived[id, default: []], all: all[id], since: checkpoints[id])
            folded[id] = fold.state.changes
            writes.append(fold)
        }
        try connection.sendLater(writes.statements(holdsCalls: holdsCalls))
        return folded
    }
}

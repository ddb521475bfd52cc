package import Facts
import Postgres
import Pricing

/// Replaces old statements by checkpoints, so that their months can be dropped. It processes subscriptions in the order
/// of their ids, a few at a time, with one transaction for each bucket. After an interruption it continues after the
/// last one.
package struct StatementRetention: Sendable {
    /// The outcomes for subscriptions with statements signed before the instant.
    package struct Counts: Hashable, Sendable {
        /// A checkpoint replaces them.
        package var covered = 0
        /// The whole statements are kept, because an earlier call is still open, because a notification waits to be
        /// folded, or because a fold from a checkpoint would end differently.
        package var carried = 0
        package var isComplete = false

        package init() {}
    }

    /// The subscriptions of one step. They are few, so that a transaction takes milliseconds and delivery waits for
    /// none of them.
    private static let subscriptionsMax = 1000

    /// The beginning of a month, in UTC milliseconds.
    private let before: Int64
    private let pool: DatabasePool

    package init(before: Int64, pool: DatabasePool) {
        self.before = before
        self.pool = pool
    }

    /// - Parameter isTimeUp: Called between two chunks; true ends the run, and the rest is left for the next one.
    package func run(isTimeUp: () -> Bool) async throws -> Counts {
        var counts = Counts()
        var position = try await pool.withTransaction { [before] in
            try StatementRetentionQueries.begin(before: before, on: $0)
        }
        while !isTimeUp() {
            try Task.checkCancellation()
            let after = position
            let ids = try await pool.withTransaction { [before] in
                try StatementRetentionQueries.next(
                    after: after, before: before, limit: Self.subscriptionsMax, on: $0)
            }
            guard let last = ids.last else {
                counts.isComplete = true
                break
            }
            for group in Bucket.groups(ids, of: \.self) {
                let done = try await pool.withTransaction { [before] in
                    try Self.cover(group, before: before, on: $0)
                }
                counts.covered += done.covered
                counts.carried += done.carried
            }
            position = last
            try await pool.withTransaction {
                try StatementRetentionQueries.note(through: last, on: $0)
            }
        }
        return counts
    }

    /// Covers statements that arrived during the run for subscriptions that it had already passed.
    package func coverLateOnes() async throws -> Counts {
        var counts = Counts()
        let ids = try await pool.withTransaction { [before] in
            try StatementRetentionQueries.uncovered(before: before, on: $0)
        }
        for group in Bucket.groups(ids, of: \.self) {
            let done = try await pool.withTransaction { [before] in
                try Self.cover(group, before: before, on: $0)
            }
            counts.covered += done.covered
            counts.carried += done.carried
        }
        return counts
    }

    /// Covers subscriptions of one bucket.
    private static func cover(
        _ ids: [String], before: Int64, on connection: isolated DatabaseConnection
    ) throws -> Counts {
        try SubscriptionQueries.lock(ids, on: connection)
        let (readable, known, waiting) = try connection.ask(
            SubscriptionQueries.loading(ids), FoldQueries.knowing(of: ids),
            CheckpointQueries.waiting(ids, before: before))
        let all = try EventQueries.all(ids, on: connection)
        let earlier = try CheckpointQueries.load(ids, on: connection)
        var covered: [FoldCheckpoint] = []
        var carried: [String] = []
        for id in ids {
            let checkpoint = readable.stored[id].flatMap { stored in
                waiting.contains(id)
                    ? nil
                    : Self.standIn(
                        known.state(of: id, stored), all[id] ?? [], since: earlier[id],
                        before: Instant(milliseconds: before))
            }
            if let checkpoint { covered.append(checkpoint) } else { carried.append(id) }
        }
        let done = covered.map(\.facts.originalTransactionID)
        _ = try connection.pipeline(
            CheckpointQueries.save(covered) + CheckpointQueries.keepMarks(done, before: before)
                + CheckpointQueries.carry(carried, before: before)
                + CheckpointQueries.dropStrays(ids, before: before))
        var counts = Counts()
        counts.covered = done.count
        counts.carried = carried.count
        return counts
    }

    /// The checkpoint of a subscription; nil where the statements must stay.
    private static func standIn(
        _ stored: SubscriptionState, _ statements: [SubscriptionEvent],
        since earlier: FoldCheckpoint?, before: Instant
    ) -> FoldCheckpoint? {
        guard FoldCheckpoint.isPossible(before: before, stored) else { return nil }
        let checkpoint = FoldCheckpoint(
            before: before, statements: statements, since: earlier, stored)
        return checkpoint.leads(to: stored, by: statements) ? checkpoint : nil
    }
}

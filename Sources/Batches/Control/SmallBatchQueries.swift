import Facts
import Postgres

/// Batches with fewer rows than their guard of errors waits for, so that their own guards could never judge them. A
/// common cause would end their rows batch after batch, so they are judged by the answers of all of them within a day.
enum SmallBatchQueries {
    /// The last ones that were approved count: more would tell nothing new.
    private static let batchesMax = 100
    private static let day: Int64 = 24 * 3600 * 1000

    /// What the small batches got together.
    struct Answers: Sendable, Equatable {
        var batches: Int64
        var errors: GuardQueries.Count
    }

    /// The answers of the batches with fewer rows than `least`, of which `batchID` is one; nil where it is none, or where it
    /// has nothing left to hold back.
    ///
    /// - Parameters:
    ///   - since: When a person resumed the batch. What was sent before then no longer counts against it.
    ///   - at: Now, by the business clock. Both are UTC milliseconds.
    static func answers(
        with batchID: String, least: Int, since: Int64?, at: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Answers? {
        let row = try connection.query(
            """
            -- name: smallBatches
            WITH small AS (\(fragment: small(least: least, since: since, at: at)))
            SELECT count(DISTINCT c.batch_id) AS batches, count(*) AS answered,
                count(*) FILTER (WHERE c.state = 'rejected') AS refused,
                coalesce(bool_or(c.batch_id = \(uuid: batchID)), false) AND EXISTS (
                    SELECT 1 FROM repricer.price_changes q
                    WHERE q.batch_id = \(uuid: batchID) AND q.stage = 'queued' AND q.state = 'queued') AS is_one
            FROM small s
            CROSS JOIN LATERAL (
                SELECT batch_id, state FROM repricer.price_changes
                WHERE batch_id = s.batch_id AND \(fragment: GuardQueries.isAnswered) AND sent_at >= s.count_from) c
            """
        ).one()
        guard try row.bool("is_one") else { return nil }
        return try Answers(
            batches: row.int64("batches"),
            errors: GuardQueries.Count(count: row.int64("refused"), all: row.int64("answered")))
    }

    /// A query of the small batches, and of the instant from which each is counted. The parameters are those of
    /// `answers`.
    static func small(least: Int, since: Int64?, at: Int64) -> SQL {
        """
        SELECT batch_id, greatest(guards_count_from, \(timestamp: since)::timestamptz,
            \(timestamp: at - day)::timestamptz) AS count_from
        FROM repricer.batches
        WHERE state IN ('approved', 'aborted') AND row_count * (10000 - holdout_basis_points) / 10000 < \(least)
            AND guards @> '[{"guard": "errors"}]'
        ORDER BY decided_at DESC, batch_id LIMIT \(batchesMax)
        """
    }
}

import Postgres

/// How far retention of statements has come, and whose statements are left.
enum StatementRetentionQueries {
    /// Starts a pass, or continues the pass with the same instant after its last subscription, even if it had ended,
    /// because `uncovered` finds what arrived later for the others. Returns the last finished id.
    static func begin(
        before: Int64, on connection: isolated PostgresConnection
    ) throws -> String {
        try connection.query(
            """
            -- name: beginStatementRetention
            INSERT INTO repricer.retention_progress AS p (covers_before, began_at)
            VALUES (\(timestamp: before), repricer.recording_instant())
            ON CONFLICT (one_row) DO UPDATE SET covers_before = excluded.covers_before,
                began_at = CASE WHEN p.covers_before = excluded.covers_before THEN p.began_at ELSE excluded.began_at END,
                done_through = CASE WHEN p.covers_before = excluded.covers_before THEN p.done_through ELSE '' END
            RETURNING done_through
            """
        ).one().text("done_through")
    }

    static func note(through id: String, on connection: isolated PostgresConnection) throws {
        _ = try connection.execute(
            """
            -- name: noteStatementRetention
            UPDATE repricer.retention_progress SET done_through = \(id)
            """)
    }

    /// The next subscriptions with old statements, in the order of ids, from all buckets. Only their locks and writes
    /// are done bucket by bucket.
    static func next(
        after: String, before: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: nextOldStatements
            SELECT id FROM (
                (SELECT DISTINCT original_transaction_id AS id FROM repricer.subscription_events
                WHERE original_transaction_id > \(after) AND signed_at < \(timestamp: before)
                ORDER BY 1 LIMIT \(limit))
                UNION
                (SELECT DISTINCT original_transaction_id FROM repricer.kept_statements
                WHERE original_transaction_id > \(after) AND statement IS NOT NULL
                    AND signed_at < \(timestamp: before)
                ORDER BY 1 LIMIT \(limit))
            ) old ORDER BY id LIMIT \(limit)
            """
        ).map { try $0.text("id") }
    }

    /// A day before the pass began, because a writer may have started before it and committed after it.
    private static let recordedSince: SQL =
        "(SELECT began_at - interval '1 day' FROM repricer.retention_progress)"

    /// The subscriptions whose old statements arrived during the pass, and are neither covered nor carried.
    static func uncovered(
        before: Int64, on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: uncoveredStatements
            SELECT DISTINCT e.original_transaction_id AS id FROM repricer.subscription_events e
            WHERE e.signed_at < \(timestamp: before) AND e.recorded_at >= \(fragment: recordedSince)
                AND NOT EXISTS (
                    SELECT FROM repricer.subscriptions s
                    WHERE s.original_transaction_id = e.original_transaction_id AND s.bucket = e.bucket
                        AND s.checkpoint_at >= \(timestamp: before))
                AND NOT EXISTS (
                    SELECT FROM repricer.kept_statements k
                    WHERE k.original_transaction_id = e.original_transaction_id AND k.bucket = e.bucket
                        AND k.signed_at = e.signed_at AND k.evidence_id = e.evidence_id
                        AND k.statement IS NOT NULL)
            ORDER BY 1
            """
        ).map { try $0.text("id") }
    }
}

import Facts
package import Postgres
package import Pricing

/// Unsent changes whose renewal moved, so that their dates must be computed again.
package enum RedatingQueries {
    /// The bucket of the subscription that has waited longest; nil where none waits.
    package static func nextBucket(on connection: isolated PostgresConnection) throws -> Int? {
        try connection.query(
            """
            -- name: movedRenewalBucket
            SELECT b.bucket FROM repricer.bucket_turns b, LATERAL (
                SELECT m.moved_at FROM repricer.moved_renewals m WHERE m.bucket = b.bucket
                ORDER BY m.moved_at LIMIT 1) first
            ORDER BY first.moved_at LIMIT 1
            """
        ).oneOrNil()?.int("bucket")
    }

    /// Takes and locks subscriptions of a bucket whose renewal moved. It skips those that another session holds.
    package static func take(
        bucket: Int, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: takeMovedRenewals
            WITH waiting AS (
                SELECT m.original_transaction_id FROM (
                    SELECT original_transaction_id, moved_at FROM repricer.moved_renewals
                    WHERE bucket = \(bucket)::smallint
                        AND \(fragment: ServiceControlQueries.isForNewerPrograms) IS NOT TRUE
                    -- It reads more than are wanted, because another process may have locked some.
                    ORDER BY moved_at, original_transaction_id LIMIT \(2 * limit)
                ) m
                JOIN repricer.subscriptions s
                    ON s.original_transaction_id = m.original_transaction_id
                        AND s.bucket = \(bucket)::smallint
                ORDER BY m.moved_at, m.original_transaction_id LIMIT \(limit)
                FOR UPDATE OF s SKIP LOCKED
            )
            DELETE FROM repricer.moved_renewals m USING waiting w
            WHERE m.original_transaction_id = w.original_transaction_id
                AND m.bucket = \(bucket)::smallint
            RETURNING m.original_transaction_id
            """
        ).map { try $0.text("original_transaction_id") }
    }

    /// Moves the live plan of an unsent change whose renewal was extended. A change that must now wait longer sleeps
    /// again.
    package static func redate(
        _ id: String, _ changeID: String, sendAfter: Instant?, sendBy: Instant,
        effectiveAt: Instant
    ) -> SQL {
        """
        -- name: redateChange
        WITH \(fragment: VersionQueries.ofChanges("repricer.price_changes c WHERE \(fragment: isUnsent(id, changeID))"))
        UPDATE repricer.price_changes c SET recorded_at = \(fragment: VersionQueries.now),
            send_after = \(timestamp: sendAfter?.milliseconds),
            send_by = \(timestamp: sendBy.milliseconds),
            due_effective_at = \(timestamp: effectiveAt.milliseconds),
            moved_before_call = CASE WHEN \(timestamp: effectiveAt.milliseconds)::timestamptz > due_effective_at
                THEN coalesce(moved_before_call, moved_since_call, \(Slip.extension.rawValue)) ELSE moved_before_call END,
            is_ready = CASE WHEN c.state = 'queued' THEN \(sendAfter == nil) ELSE is_ready END
        WHERE \(fragment: isUnsent(id, changeID))
        """
    }

    private static func isUnsent(_ id: String, _ changeID: String) -> SQL {
        """
        c.original_transaction_id = \(id) AND c.change_id = \(uuid: changeID)
            AND \(fragment: Bucket.isThat(of: id, "c.bucket")) AND c.state IN ('awaiting_approval', 'queued')
        """
    }
}

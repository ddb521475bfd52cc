package import Postgres
package import Pricing

/// Unsent changes whose renewal moved: their dates are reckoned anew.
package enum RedatingQueries {
    /// Takes subscriptions whose renewal moved, and locks them; those that somebody else holds wait.
    package static func take(
        limit: Int, on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: takeMovedRenewals
            WITH waiting AS (
                SELECT s.original_transaction_id FROM repricer.moved_renewals m
                JOIN repricer.subscriptions s USING (original_transaction_id)
                ORDER BY m.moved_at, m.original_transaction_id LIMIT \(limit)
                FOR UPDATE OF s, m SKIP LOCKED
            )
            DELETE FROM repricer.moved_renewals m USING waiting w
            WHERE m.original_transaction_id = w.original_transaction_id
            RETURNING m.original_transaction_id
            """
        ).map { try $0.text("original_transaction_id") }
    }

    /// Moves the live plan of an unsent change; one that was to wait longer is parked again.
    package static func redate(
        _ id: String, _ changeID: String, sendAfter: Instant?, sendBy: Instant,
        effectiveAt: Instant
    ) -> SQL {
        """
        -- name: redateChange
        UPDATE repricer.price_changes SET send_after = \(timestamp: sendAfter?.milliseconds),
            send_by = \(timestamp: sendBy.milliseconds),
            due_effective_at = \(timestamp: effectiveAt.milliseconds),
            is_ready = CASE WHEN state = 'queued' THEN \(sendAfter == nil) ELSE is_ready END
        WHERE original_transaction_id = \(id) AND change_id = \(uuid: changeID)
            AND state IN ('awaiting_approval', 'queued')
        """
    }
}

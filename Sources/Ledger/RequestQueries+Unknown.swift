package import Postgres

extension RequestQueries {
    /// Subscriptions with a call of unknown outcome that nobody is busy with, the oldest first.
    package static func unknownOutcomes(
        realNow: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: unknownOutcomes
            SELECT r.original_transaction_id FROM repricer.price_change_requests r
            WHERE \(fragment: isFree(realNow: realNow))
            ORDER BY r.prepared_at LIMIT \(limit)
            """
        ).map { try $0.text("original_transaction_id") }
    }

    /// Takes over the calls of unknown outcome of these subscriptions to look at them, whether their next step
    /// is due or not.
    package static func takeOverUnknown(
        _ ids: [String], owner: String, leaseUntil: Int64, now: Int64, realNow: Int64,
        on connection: isolated PostgresConnection
    ) throws -> [Held] {
        try connection.query(
            """
            -- name: takeOverUnknownRequests
            WITH open AS (
                SELECT r.original_transaction_id, r.request_reference_id, coalesce((
                    SELECT bool_or(\(fragment: isOver(now: now)))
                    FROM repricer.price_changes p
                    JOIN repricer.batches b ON b.batch_id = p.batch_id
                    WHERE p.original_transaction_id = r.original_transaction_id
                        AND p.request_reference_id = r.request_reference_id
                        AND p.state IN ('sending', 'unknown')), false) OR r.is_reopened AS is_over
                FROM repricer.price_change_requests r
                WHERE r.original_transaction_id = ANY (\(ids)::text[])
                    AND \(fragment: isFree(realNow: realNow))
                ORDER BY r.original_transaction_id FOR UPDATE OF r SKIP LOCKED
            )
            UPDATE repricer.price_change_requests r
            SET lease_owner = \(uuid: owner), lease_until = \(timestamp: leaseUntil),
                fence = r.fence + 1, state = 'unknown', next_attempt_at = NULL, next_step = 'look',
                looks = r.looks + 1
            FROM open
            WHERE r.original_transaction_id = open.original_transaction_id
                AND r.request_reference_id = open.request_reference_id
            RETURNING r.*, open.is_over, \(fragment: isInFlight(realNow: realNow))
            """
        ).map { try held($0) }
    }

    /// Its holder is gone, or it waits for its next step. One whose call is on its way has no next attempt.
    private static func isFree(realNow: Int64) -> SQL {
        """
        r.state IN ('sending', 'unknown') AND (r.lease_until <= \(timestamp: realNow)
            OR (r.state = 'unknown' AND r.next_attempt_at IS NOT NULL))
        """
    }
}

package import Postgres

/// Status checks before a call: a known renewal has passed, and no statement of that renewal or of later came. What was
/// not heard may be another price, or the end, and a price change cannot be taken back. So the first call waits until
/// the status is read, though not for ever: the forecast was made on the same facts and is marked `stale`.
package enum UnheardSubscription {
    /// Reason and name of the list of these checks, in `status_checks`.
    package static let checkReason = "silent"
    package static let checkList = "before_call"

    /// Requests the checks of subscriptions of one bucket, also where one was made before a former call.
    package static func want(_ ids: [String], bucket: Int, at: Int64) -> SQL {
        """
        -- name: wantUnheard
        INSERT INTO repricer.status_checks (original_transaction_id, bucket, reason, list_id, requested_at)
        SELECT w.id, \(bucket)::smallint, \(checkReason), \(checkList), \(timestamp: at)
        FROM unnest(\(ids)::text[]) AS w (id)
        ON CONFLICT (original_transaction_id, reason, list_id, bucket) DO UPDATE
            SET requested_at = excluded.requested_at, done_at = NULL, outcome = NULL, detail = NULL,
                next_check_at = NULL, attempts = 0
        """
    }
}

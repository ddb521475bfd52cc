package import Postgres

/// The work that waits for a call of a subscription to be resolved, whatever kind of call it is.
package enum SubjectWork {
    /// The condition that other work of the subject of the call `r` could go on if that call were resolved: a change
    /// that may be sent now, another call of unknown outcome, a dependent to be cancelled, or a requested extension. It
    /// needs the CTE `awaited`, and names the bucket of the call.
    package static func waits(_ bucket: SQL) -> SQL {
        """
        EXISTS (
            SELECT 1 FROM repricer.price_changes q JOIN repricer.batches w ON w.batch_id = q.batch_id
            WHERE q.original_transaction_id = r.subject AND q.bucket = \(fragment: bucket)
                AND (q.state = 'queued' AND q.is_ready AND NOT q.is_held
                    AND w.state = 'approved' AND NOT w.is_paused AND q.wave <= w.released_wave
                    AND NOT w.halted_storefronts ? q.storefront
                    OR q.state IN ('sending', 'unknown') AND q.request_reference_id <> r.call_id))
        OR EXISTS (SELECT 1 FROM awaited a WHERE a.subject = r.subject)
        OR EXISTS (
            SELECT 1 FROM repricer.extension_requests x
            WHERE x.original_transaction_id = r.subject AND x.bucket = \(fragment: bucket) AND x.state = 'queued')
        """
    }

    /// The CTE `awaited`: the subscriptions on which dependents are to be cancelled. A dependent stands in the bucket of
    /// its parent, so no statement of one bucket finds it by the subscription that carries it.
    package static let awaited: SQL = """
        awaited AS MATERIALIZED (
            SELECT d.target_transaction_id AS subject FROM repricer.dependent_cancellations d
            WHERE d.state = 'requested' AND d.is_cross_subscription AND d.target_transaction_id IS NOT NULL)
        """

    /// The CTE `cancelled`: the dependents for which Cancel a Subscription is called, with the subscription and the id of
    /// the call. They stand in the buckets of their parents, too.
    package static let cancelled: SQL = """
        cancelled AS MATERIALIZED (
            SELECT d.target_transaction_id AS subject, d.cancel_reference_id AS call_id, b.is_paused
            FROM repricer.dependent_cancellations d JOIN repricer.batches b ON b.batch_id = d.batch_id
            WHERE d.state = 'cancel_sent' AND d.cancel_reference_id IS NOT NULL)
        """
}

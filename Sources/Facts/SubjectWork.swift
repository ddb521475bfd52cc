package import Postgres

/// The work that waits for a call of a subscription to be resolved, whatever kind of call it is.
package enum SubjectWork {
    /// The condition that other work of the subject of the call `r` could go on if that call were resolved: a change
    /// that may be sent now, another call of unknown outcome, a dependent to be cancelled, or a requested extension.
    package static let waits: SQL = """
        EXISTS (
            SELECT 1 FROM repricer.price_changes q JOIN repricer.batches w ON w.batch_id = q.batch_id
            WHERE q.original_transaction_id = r.subject AND q.bucket = r.bucket
                AND (q.state = 'queued' AND q.is_ready AND NOT q.is_held
                    AND w.state = 'approved' AND NOT w.is_paused AND q.wave <= w.released_wave
                    AND NOT w.halted_storefronts ? q.storefront
                    OR q.state IN ('sending', 'unknown') AND q.request_reference_id <> r.call_id))
        OR EXISTS (
            SELECT 1 FROM repricer.dependent_cancellations d
            WHERE d.target_transaction_id = r.subject AND d.state = 'requested' AND d.is_cross_subscription OFFSET 0)
        OR EXISTS (
            SELECT 1 FROM repricer.extension_requests x
            WHERE x.original_transaction_id = r.subject AND x.bucket = r.bucket AND x.state = 'queued')
        """
}

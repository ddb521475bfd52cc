package import Postgres

/// The work that waits until a call of a subscription is resolved, whatever the kind of call.
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

    /// The CTE `cancelled`: the dependents for which Cancel a Subscription is called, with the subscription and the id
    /// of the call. `is_over` says that a dependent is no longer to be cancelled: a later statement withdrew it, or its
    /// parent renews again. These rows too are in the buckets of the parents.
    package static let cancelled: SQL = """
        cancelled AS MATERIALIZED (
            SELECT d.target_transaction_id AS subject, d.cancel_reference_id AS call_id,
                \(fragment: holdsCancellations("b")) AS is_held,
                d.state <> 'cancel_sent' OR s.auto_renews IS NOT FALSE AND coalesce(s.status IN (1, 3, 4), true)
                    AND coalesce(jsonb_path_exists(s.items, '$[*] ? (@.sku == $sku && @.renews == true)',
                        jsonb_build_object('sku', d.parent_sku)), false) AS is_over
            FROM repricer.dependent_cancellations d
            JOIN repricer.subscriptions s
                ON s.original_transaction_id = d.original_transaction_id AND s.bucket = d.bucket
            JOIN repricer.batches b ON b.batch_id = d.batch_id
            WHERE d.state IN ('cancel_sent', 'discrepancy') AND d.settled_at IS NULL
                AND d.cancel_reference_id IS NOT NULL)
        """

    /// The condition that a person, or a guard, has paused the batch `b`, and with it its cancellations. A halt by a
    /// refused code does not hold them, because the code says nothing about them. Nor does an abort, which cannot be
    /// resumed: changes that Apple has continue, and so must the dependents of those who decline.
    package static func holdsCancellations(_ batch: SQL) -> SQL {
        """
        (\(fragment: batch).is_paused AND \(fragment: batch).probe_at IS NULL AND \(fragment: batch).state = 'approved')
        """
    }
}

package import Postgres

/// Who caused an extension, for the extensions of one bucket.
package enum AttributedExtensionQueries {
    /// The view `attributed_extensions` limited to one bucket, as a subquery for FROM. It names the bucket for each
    /// table that it reads. A query of the view itself would name only the bucket of the extension, and a spread
    /// database could not tell that the other rows lie there too.
    package static func inBucket(_ bucket: SQL) -> SQL {
        """
        (
            SELECT e.*, coalesce(c.extension_id, m.extension_id) AS extension_id, c.extension_id IS NOT NULL AS is_single
            FROM repricer.renewal_extensions e
            LEFT JOIN LATERAL (
                SELECT m.extension_id, m.extend_by_days FROM repricer.mass_extensions m
                WHERE m.product_id = e.product_id AND m.state <> 'refused'
                    AND (m.storefronts IS NULL OR e.storefront = ANY (m.storefronts))
                    AND e.told_at >= m.called_at - interval '5 minutes'
                    AND e.told_at <= coalesce(m.completed_at + interval '1 day', 'infinity')
                    AND NOT EXISTS (
                        SELECT FROM repricer.renewal_extensions p
                        WHERE p.original_transaction_id = e.original_transaction_id AND p.bucket = \(fragment: bucket)
                            AND p.told_at >= m.called_at - interval '5 minutes'
                            AND (p.told_at, p.evidence_id) < (e.told_at, e.evidence_id)
                            AND (p.outcome = 'failed', p.renewal_at) IS DISTINCT FROM (e.outcome = 'failed', e.renewal_at)
                            AND NOT EXISTS (
                                SELECT FROM repricer.extension_requests o
                                WHERE o.original_transaction_id = p.original_transaction_id
                                    AND o.bucket = \(fragment: bucket)
                                    AND o.state = 'extended' AND o.effective_at = p.renewal_at))
                ORDER BY m.called_at DESC LIMIT 1
            ) m ON true
            LEFT JOIN LATERAL (
                SELECT c.extension_id FROM repricer.extension_requests c
                WHERE c.original_transaction_id = e.original_transaction_id AND c.bucket = \(fragment: bucket)
                    AND e.outcome <> 'failed'
                    AND e.told_at >= c.called_at - interval '5 minutes'
                    AND CASE
                        WHEN c.state = 'extended' THEN c.effective_at IS NULL OR c.effective_at = e.renewal_at
                        WHEN c.state IN ('sending', 'unknown') THEN
                            (m.extension_id IS NULL OR m.extension_id = c.mass_extension_id
                                OR NOT c.is_of_sandbox AND m.extend_by_days <> c.extend_by_days)
                            AND (c.is_of_sandbox
                                OR e.renewal_at = e.renewal_before + c.extend_by_days * interval '24 hours')
                        ELSE false END
                ORDER BY c.called_at DESC LIMIT 1
            ) c ON true
            WHERE e.bucket = \(fragment: bucket)
        )
        """
    }
}

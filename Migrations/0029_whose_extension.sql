-- A single extension whose answer was lost took the notification of a mass extension for its own: it counted as extended
-- and was not asked for again. Now an open call has a notification only when nothing else explains it and the days
-- agree; otherwise the call is repeated under its identifier, which Apple answers as the first. And a mass extension
-- tells each subscription one thing: what follows within its window is another program's.
-- Locks: none but the view's.
-- breaking: no

CREATE OR REPLACE VIEW repricer.attributed_extensions AS
SELECT e.*, coalesce(c.extension_id, m.extension_id) AS extension_id, c.extension_id IS NOT NULL AS is_single
FROM repricer.renewal_extensions e
LEFT JOIN LATERAL (
    SELECT m.extension_id FROM repricer.mass_extensions m
    WHERE m.product_id = e.product_id AND m.state <> 'refused'
        AND (m.storefronts IS NULL OR e.storefront = ANY (m.storefronts))
        AND e.told_at >= m.called_at - interval '5 minutes'
        AND e.told_at <= coalesce(m.completed_at + interval '1 day', 'infinity')
        AND NOT EXISTS (
            SELECT FROM repricer.renewal_extensions p
            WHERE p.original_transaction_id = e.original_transaction_id
                AND p.told_at >= m.called_at - interval '5 minutes'
                AND (p.told_at, p.evidence_id) < (e.told_at, e.evidence_id)
                AND (p.outcome = 'failed', p.renewal_at) IS DISTINCT FROM (e.outcome = 'failed', e.renewal_at)
                AND NOT EXISTS (
                    SELECT FROM repricer.extension_calls o
                    WHERE o.original_transaction_id = p.original_transaction_id AND o.state = 'extended'
                        AND o.effective_at = p.renewal_at))
    ORDER BY m.called_at DESC LIMIT 1
) m ON true
LEFT JOIN LATERAL (
    SELECT c.extension_id FROM repricer.extension_calls c
    WHERE c.original_transaction_id = e.original_transaction_id AND e.outcome <> 'failed'
        AND e.told_at >= c.called_at - interval '5 minutes'
        AND CASE
            WHEN c.state = 'extended' THEN c.effective_at IS NULL OR c.effective_at = e.renewal_at
            WHEN c.state IN ('sending', 'unknown') THEN
                -- A mass extension failed for one that is asked for again on its own, so it explains nothing there.
                (m.extension_id IS NULL OR m.extension_id = c.mass_extension_id)
                AND e.renewal_at = e.renewal_before + c.extend_by_days * interval '24 hours'
            ELSE false END
    ORDER BY c.called_at DESC LIMIT 1
) c ON true;

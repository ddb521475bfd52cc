-- Every name that an item had stays known: the one in our call, where the item was renamed before it was sent (a fold
-- from the beginning starts there), and those in between (charges may bear any of them). Without the second, the
-- check effective_without_charge accused every change of a renamed item.
-- Locks: price_changes, for a moment.
-- breaking: no

ALTER TABLE repricer.price_changes
    ADD COLUMN called_sku text,
    ADD COLUMN called_dependent_skus text[],
    ADD COLUMN former_skus text[];
COMMENT ON COLUMN repricer.price_changes.called_sku IS
    'The item''s name in our last call, where it was renamed between submission and call.';
COMMENT ON COLUMN repricer.price_changes.called_dependent_skus IS
    'The dependents'' names in our last call, where one was renamed between submission and call.';
COMMENT ON COLUMN repricer.price_changes.former_skus IS
    'Names that the item had since our call and lost again; a charge may bear any of them.';
GRANT UPDATE (called_sku, called_dependent_skus, former_skus)
    ON repricer.price_changes TO repricer_service;

-- Of those sent already the history tells whether the new name is older than the call.
UPDATE repricer.price_changes c
SET called_sku = c.current_sku, called_dependent_skus = c.current_dependent_skus
WHERE c.sent_at IS NOT NULL AND c.current_sku IS NOT NULL
    AND NOT EXISTS (
        SELECT FROM repricer.price_change_history h
        WHERE h.original_transaction_id = c.original_transaction_id AND h.change_id = c.change_id
            AND h.reason LIKE 'renamed from %' AND h.state NOT IN ('awaiting_approval', 'queued'));

-- Renewals under any of the names count alike.
CREATE OR REPLACE VIEW repricer.charged_renewals AS
SELECT c.batch_id, c.original_transaction_id, c.change_id, h.transaction_id, h.purchased_at,
    c.current_price_milliunits AS old_price_milliunits, h.price_milliunits
FROM repricer.price_changes c
JOIN repricer.charges h
    ON h.original_transaction_id = c.original_transaction_id
    AND (h.sku = c.sku OR h.sku = c.current_sku OR h.sku = ANY (c.former_skus))
    AND h.purchased_at >= c.effective_at AND h.price_milliunits = c.new_price_milliunits
    AND h.currency = c.currency AND h.revoked_at IS NULL
WHERE c.state = 'effective'
    AND NOT EXISTS (
        SELECT FROM repricer.price_changes n
        WHERE n.original_transaction_id = c.original_transaction_id
            AND coalesce(n.current_sku, n.sku) = coalesce(c.current_sku, c.sku)
            AND n.state = 'effective' AND n.effective_at <= h.purchased_at
            AND (n.effective_at, n.change_id) > (c.effective_at, c.change_id));

-- So do the charges and the dependents that the checks look for.
CREATE OR REPLACE VIEW report.reconciliation AS
WITH checks (check_name, is_per_batch, meaning) AS (
    VALUES
        ('rows_add_up', true, 'batches whose changes or refused rows do not add up to the file'),
        ('silent_past_renewal', true,
            'changes that Apple has, a day past their renewal without a word from Apple'),
        ('requests_unknown', true, 'calls with a lost answer that nothing has settled yet'),
        ('effective_without_charge', true, 'effective changes without a charge at the new price'),
        ('dependents_in_discrepancy', true, 'dependents whose cancellation could not be proved'),
        ('dependents_not_recorded', true, 'dependents of declined changes that nobody looks after'),
        ('notifications_not_understood', false, 'notifications stored but not understood'),
        ('inbox_stuck', false, 'notifications with an error, or waiting for more than a day')
), problems (batch_id, check_name, problems) AS (
    SELECT batch_id, 'rows_add_up', count(*) FROM report.batch_summary
        WHERE NOT rows_add_up GROUP BY batch_id
    UNION ALL
    SELECT c.batch_id, 'silent_past_renewal', count(*) FROM repricer.price_changes c
        LEFT JOIN repricer.subscriptions s ON s.original_transaction_id = c.original_transaction_id
        WHERE c.state IN ('scheduled', 'pending_consent', 'accepted')
            AND c.due_effective_at < report.as_of() - interval '1 day'
            AND NOT coalesce(s.in_billing_retry, false) AND coalesce(s.status, 0) NOT IN (3, 4)
        GROUP BY c.batch_id
    UNION ALL
    SELECT c.batch_id, 'requests_unknown', count(DISTINCT r.request_reference_id)
        FROM repricer.price_change_requests r
        JOIN repricer.price_changes c
            ON c.original_transaction_id = r.original_transaction_id
            AND c.change_id = ANY (r.change_ids)
        WHERE r.state = 'unknown' GROUP BY c.batch_id
    UNION ALL
    SELECT c.batch_id, 'effective_without_charge', count(*) FROM repricer.price_changes c
        WHERE c.state = 'effective'
            AND NOT EXISTS (
                SELECT FROM repricer.charges h
                WHERE h.original_transaction_id = c.original_transaction_id
                    AND (h.sku = c.sku OR h.sku = c.current_sku OR h.sku = ANY (c.former_skus))
                    AND h.purchased_at >= c.effective_at
                    AND h.price_milliunits = c.new_price_milliunits)
        GROUP BY c.batch_id
    UNION ALL
    SELECT batch_id, 'dependents_in_discrepancy', count(*) FROM repricer.dependent_cancellations
        WHERE state = 'discrepancy' GROUP BY batch_id
    UNION ALL
    SELECT c.batch_id, 'dependents_not_recorded', count(*)
        FROM repricer.price_changes c
        CROSS JOIN LATERAL
            unnest(coalesce(c.current_dependent_skus, c.dependent_skus)) AS u (sku)
        WHERE c.state = 'declined'
            AND NOT EXISTS (
                SELECT FROM repricer.dependent_cancellations d
                WHERE d.original_transaction_id = c.original_transaction_id
                    AND d.change_id = c.change_id AND d.dependent_sku = u.sku)
        GROUP BY c.batch_id
    UNION ALL
    SELECT NULL, 'notifications_not_understood', count(*) FROM repricer.notifications
        WHERE NOT understood
    UNION ALL
    SELECT NULL, 'inbox_stuck', count(*) FROM repricer.inbox
        WHERE error IS NOT NULL OR received_at < report.as_of() - interval '1 day'
), subjects AS (
    SELECT batch_id, name AS batch_name, true AS is_per_batch FROM repricer.batches
    UNION ALL
    SELECT NULL, NULL, false
)
SELECT s.batch_id, s.batch_name, k.check_name, coalesce(p.problems, 0) AS problems,
    coalesce(p.problems, 0) = 0 AS is_ok, k.meaning
FROM subjects s
JOIN checks k ON k.is_per_batch = s.is_per_batch
LEFT JOIN problems p ON p.check_name = k.check_name AND p.batch_id IS NOT DISTINCT FROM s.batch_id;

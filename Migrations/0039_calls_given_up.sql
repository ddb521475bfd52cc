-- A call of unknown outcome was given up after a few looks, and forgotten: where the App Store applied it late, an increase
-- stood there and the ledger said that the change had ended. The instant of such a call is kept now, and statements that
-- show its price bring the change back. A call is given up only once it can't be on its way any more: in_flight_until.
-- What the App Store has of a change that ended here is counted in report.reconciliation.
-- Locks: price_changes, price_change_requests and report.reconciliation, for a moment; reads both tables once.
-- breaking: no

ALTER TABLE repricer.price_changes ADD COLUMN doubtful_since timestamptz;
COMMENT ON COLUMN repricer.price_changes.doubtful_since IS
    'When the first call of it left that was given up with an unknown outcome: the App Store may have applied it.';
GRANT UPDATE (doubtful_since) ON repricer.price_changes TO repricer_service;

ALTER TABLE repricer.price_change_requests ADD COLUMN in_flight_until timestamptz;
COMMENT ON COLUMN repricer.price_change_requests.in_flight_until IS
    'Of the machine''s clock: later no call of it can be on its way any more.';
UPDATE repricer.price_change_requests SET in_flight_until = clock_timestamp() + interval '2 minutes'
    WHERE settled_at IS NULL;

-- Those given up so far.
UPDATE repricer.price_changes c SET doubtful_since = r.prepared_at
FROM repricer.price_change_requests r
WHERE r.original_transaction_id = c.original_transaction_id AND c.change_id = ANY (r.change_ids)
    AND r.state = 'refused' AND r.error_message IN ('not_sent_in_time', 'stale_token')
    AND c.state IN ('queued', 'ineligible', 'missed', 'aborted') AND c.sent_at IS NULL;

CREATE OR REPLACE VIEW report.reconciliation AS
WITH checks (check_name, is_per_batch, meaning) AS (
    VALUES
        ('rows_add_up', true, 'batches whose changes or refused rows do not add up to the file'),
        ('silent_past_renewal', true,
            'changes that Apple has, a day past their renewal without a word from Apple'),
        ('requests_unknown', true, 'calls with a lost answer that nothing has settled yet'),
        ('effective_without_charge', true, 'effective changes without a charge at the new price'),
        ('ended_yet_applied', true, 'changes that ended here as not applied, while the App Store has their price'),
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
    -- By the newest facts, and by no mark of ours on the call: what is at the App Store counts, whoever lost sight of it.
    SELECT c.batch_id, 'ended_yet_applied', count(*) FROM repricer.price_changes c
        JOIN repricer.subscriptions s ON s.original_transaction_id = c.original_transaction_id
        CROSS JOIN LATERAL (
            SELECT item FROM jsonb_array_elements(s.items) item
            WHERE item ->> 'sku' = coalesce(c.current_sku, c.sku)) i
        WHERE c.state IN ('rejected', 'ineligible', 'missed', 'aborted')
            AND c.request_reference_id IS NOT NULL AND c.undoes_change_id IS NULL
            AND c.new_price_milliunits = CASE WHEN c.direction = 'increase'
                THEN (i.item #>> '{increase,price}')::bigint ELSE (i.item ->> 'renewalPrice')::bigint END
            AND (i.item ->> 'renews')::boolean
            -- A later change of ours to the same price explains it.
            AND NOT EXISTS (
                SELECT FROM repricer.price_changes o
                WHERE o.original_transaction_id = c.original_transaction_id AND o.change_id <> c.change_id
                    AND coalesce(o.current_sku, o.sku) = coalesce(c.current_sku, c.sku)
                    AND o.new_price_milliunits = c.new_price_milliunits AND o.request_reference_id IS NOT NULL
                    AND o.state NOT IN ('awaiting_approval', 'queued', 'rejected', 'ineligible', 'missed', 'aborted'))
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

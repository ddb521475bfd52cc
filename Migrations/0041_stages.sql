-- A claim writes no index entry. Its update of a row moved the row within every index that mentions `state`, and so added
-- an entry to each index that the row stands in: a quarter of all that delivery wrote. What the indexes know of a state
-- is `stage` now, for which a change whose call is out is queued still.
-- Pages of price_changes keep a fifth free, and those of subscriptions a seventh, so that a row that moves stays beside
-- the one that it replaces, and writes no entry for it.
-- Locks: subscriptions, for a moment; price_changes, while it is rewritten and its indexes are built anew.
-- breaking: yes (a service of before looks for what is due without an index: stop it first)

ALTER TABLE repricer.subscriptions SET (fillfactor = 85);
ALTER TABLE repricer.price_changes SET (fillfactor = 80);
ALTER TABLE repricer.price_changes ADD COLUMN stage text NOT NULL
    GENERATED ALWAYS AS (CASE state WHEN 'sending' THEN 'queued' ELSE state END) STORED;
COMMENT ON COLUMN repricer.price_changes.stage IS
    'As indexes know `state`: a change whose call is out is queued here, so that a claim writes no index entry.';

DROP INDEX repricer.price_changes_announced, repricer.price_changes_batch, repricer.price_changes_due,
    repricer.price_changes_heard_of, repricer.price_changes_held, repricer.price_changes_one_open,
    repricer.price_changes_one_undo, repricer.price_changes_parked;
CREATE INDEX price_changes_announced ON repricer.price_changes (forecast_notice_at)
    WHERE stage = 'scheduled' AND forecast_notice_at IS NOT NULL;
CREATE INDEX price_changes_batch ON repricer.price_changes (batch_id, stage);
CREATE INDEX price_changes_due ON repricer.price_changes (bucket, batch_id, wave, send_by)
    WHERE stage = 'queued' AND is_ready AND NOT is_held;
CREATE INDEX price_changes_heard_of ON repricer.price_changes (due_effective_at)
    WHERE stage IN ('scheduled', 'pending_consent', 'accepted');
CREATE INDEX price_changes_held ON repricer.price_changes (batch_id, storefront)
    WHERE stage = 'queued' AND is_held;
CREATE UNIQUE INDEX price_changes_one_open ON repricer.price_changes (original_transaction_id, coalesce(current_sku, sku))
    WHERE stage IN ('awaiting_approval', 'queued', 'unknown', 'scheduled', 'pending_consent', 'accepted')
        AND undoes_change_id IS NULL;
CREATE UNIQUE INDEX price_changes_one_undo ON repricer.price_changes (original_transaction_id, undoes_change_id)
    WHERE undoes_change_id IS NOT NULL AND stage IN ('awaiting_approval', 'queued', 'unknown');
CREATE INDEX price_changes_parked ON repricer.price_changes (send_after)
    WHERE stage = 'queued' AND NOT is_ready AND NOT is_held;

CREATE OR REPLACE FUNCTION repricer.park_halted(p_limit integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_batch batches;
    v_rows bigint;
BEGIN
    SELECT * INTO v_batch FROM batches WHERE is_parking ORDER BY batch_id LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    -- One that somebody holds is being sent; put back, it is left out by the claim itself.
    WITH taken AS (
        SELECT original_transaction_id, change_id FROM price_changes
        WHERE batch_id = v_batch.batch_id AND stage = 'queued' AND state = 'queued' AND NOT is_held
            AND v_batch.halted_storefronts ? storefront
        LIMIT p_limit FOR UPDATE SKIP LOCKED
    )
    UPDATE price_changes c SET is_held = true FROM taken t
        WHERE c.original_transaction_id = t.original_transaction_id AND c.change_id = t.change_id;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows < p_limit THEN
        UPDATE batches SET is_parking = false WHERE batch_id = v_batch.batch_id;
    END IF;
    RETURN v_rows;
END
$$;

CREATE OR REPLACE FUNCTION repricer.set_pause(p_batch_id uuid, p_at timestamp with time zone, p_is_paused boolean, p_reason text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_batch batches;
BEGIN
    PERFORM require_pricing();
    IF p_batch_id IS NULL THEN
        UPDATE service_controls SET is_paused = p_is_paused,
            paused_by = CASE WHEN p_is_paused THEN session_user END,
            paused_at = CASE WHEN p_is_paused THEN p_at END,
            paused_reason = CASE WHEN p_is_paused THEN p_reason END;
    ELSE
        SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
        END IF;
        UPDATE batches SET is_paused = p_is_paused,
                paused_by = CASE WHEN p_is_paused THEN session_user END,
                paused_at = CASE WHEN p_is_paused THEN p_at END,
                paused_reason = CASE WHEN p_is_paused THEN p_reason END,
                halted_by = CASE WHEN p_is_paused THEN halted_by END,
                guards_count_from = CASE WHEN p_is_paused OR halted_by IS NULL THEN guards_count_from ELSE p_at END,
                halted_storefronts = CASE WHEN p_is_paused THEN halted_storefronts ELSE '{}' END,
                is_parking = is_parking AND p_is_paused,
                guard_reading = CASE WHEN p_is_paused OR halted_by IS NULL THEN guard_reading END
            WHERE batch_id = p_batch_id;
        IF NOT p_is_paused THEN
            UPDATE price_changes SET is_held = false
                WHERE batch_id = p_batch_id AND stage = 'queued' AND is_held;
        END IF;
    END IF;
    PERFORM append_audit(session_user::text, p_at, CASE WHEN p_is_paused THEN 'pause' ELSE 'resume' END,
        coalesce('batch:' || p_batch_id, 'everything'),
        json_build_object('reason', p_reason, 'halted_by', v_batch.halted_by, 'halted_storefronts',
            (SELECT string_agg(s, ',' ORDER BY s) FROM jsonb_object_keys(v_batch.halted_storefronts) s)));
END
$$;

CREATE OR REPLACE FUNCTION repricer.withdraw_batch(p_batch_id uuid, p_at timestamp with time zone, p_new_state text, p_reason text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_state text;
    v_rows bigint;
BEGIN
    PERFORM require_pricing();
    SELECT state INTO v_state FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
    END IF;
    IF p_new_state NOT IN ('rejected', 'aborted') THEN
        RAISE EXCEPTION 'a batch is rejected or aborted, not %', p_new_state
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF v_state IN ('rejected', 'aborted') OR (p_new_state = 'rejected' AND v_state <> 'awaiting_approval')
    THEN
        RAISE EXCEPTION 'batch % is % already', p_batch_id, v_state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- Every writer of a subscription's changes locks the subscription first; so does this one. Those with a
    -- call in flight too: its settlement then either queues the change before it is withdrawn here, or finds
    -- the batch withdrawn.
    PERFORM 1 FROM subscriptions s
        WHERE s.original_transaction_id IN (
            SELECT c.original_transaction_id FROM price_changes c
            WHERE c.batch_id = p_batch_id AND c.stage IN ('awaiting_approval', 'queued', 'unknown'))
        ORDER BY s.original_transaction_id FOR UPDATE;
    WITH withdrawn AS (
        UPDATE price_changes SET state = 'aborted', state_since = p_at, ended_at = p_at,
                reason = p_new_state
            WHERE batch_id = p_batch_id AND stage IN ('awaiting_approval', 'queued') AND state <> 'sending'
            RETURNING original_transaction_id, change_id
    ), released AS (
        DELETE FROM dependency_roles d USING withdrawn w
            WHERE d.original_transaction_id = w.original_transaction_id AND d.change_id = w.change_id
    ), told AS (
        INSERT INTO price_change_history
                (original_transaction_id, change_id, occurred_at, state, evidence_kind, evidence_id,
                 reason)
            SELECT original_transaction_id, change_id, p_at, 'aborted', 'decision', session_user,
                p_reason
            FROM withdrawn
    )
    SELECT count(*) INTO v_rows FROM withdrawn;
    UPDATE batches SET state = p_new_state,
            decided_by = CASE WHEN p_new_state = 'rejected' THEN session_user ELSE decided_by END,
            decided_at = CASE WHEN p_new_state = 'rejected' THEN p_at ELSE decided_at END,
            decision_reason = p_reason
        WHERE batch_id = p_batch_id;
    PERFORM append_audit(session_user::text, p_at,
        CASE p_new_state WHEN 'rejected' THEN 'reject' ELSE 'abort' END, 'batch:' || p_batch_id,
        json_build_object('withdrawn', v_rows, 'reason', p_reason));
    RETURN v_rows;
END
$$;

CREATE OR REPLACE VIEW report.batch_summary AS
WITH calls_out AS (
    SELECT c.batch_id, count(*) AS sending
    FROM repricer.price_change_requests r
    JOIN repricer.price_changes c ON c.original_transaction_id = r.original_transaction_id
        AND c.request_reference_id = r.request_reference_id AND c.state = 'sending'
    WHERE r.settled_at IS NULL GROUP BY c.batch_id
), stages AS (
    SELECT batch_id, count(*) AS stored,
        count(*) FILTER (WHERE stage = 'awaiting_approval') AS awaiting_approval,
        count(*) FILTER (WHERE stage = 'queued') AS queued,
        count(*) FILTER (WHERE stage = 'unknown') AS unknown,
        count(*) FILTER (WHERE stage = 'scheduled') AS scheduled,
        count(*) FILTER (WHERE stage = 'pending_consent') AS pending_consent,
        count(*) FILTER (WHERE stage = 'accepted') AS accepted,
        count(*) FILTER (WHERE stage = 'effective') AS effective,
        count(*) FILTER (WHERE stage = 'declined') AS declined,
        count(*) FILTER (WHERE stage = 'cancelled') AS cancelled,
        count(*) FILTER (WHERE stage = 'lapsed') AS lapsed,
        count(*) FILTER (WHERE stage = 'invalidated') AS invalidated,
        count(*) FILTER (WHERE stage = 'rejected') AS rejected,
        count(*) FILTER (WHERE stage = 'ineligible') AS ineligible,
        count(*) FILTER (WHERE stage = 'missed') AS missed,
        count(*) FILTER (WHERE stage = 'aborted') AS aborted
    FROM repricer.price_changes GROUP BY batch_id
), tallies AS (
    -- From the index alone, but for the few that are out.
    SELECT g.batch_id, g.stored, g.awaiting_approval, g.queued - coalesce(o.sending, 0) AS queued,
        coalesce(o.sending, 0) AS sending, g.unknown, g.scheduled, g.pending_consent, g.accepted, g.effective,
        g.declined, g.cancelled, g.lapsed, g.invalidated, g.rejected, g.ineligible, g.missed, g.aborted
    FROM stages g LEFT JOIN calls_out o ON o.batch_id = g.batch_id
), sums AS (
    SELECT t.*,
        t.awaiting_approval + t.queued + t.sending + t.unknown + t.scheduled + t.pending_consent
            + t.accepted AS open,
        t.effective + t.declined + t.cancelled + t.lapsed + t.invalidated + t.rejected + t.ineligible
            + t.missed + t.aborted AS final
    FROM tallies t
), refusals AS (
    SELECT batch_id, count(*) AS stored FROM repricer.batch_rejects GROUP BY batch_id
)
SELECT b.batch_id, b.name AS batch_name, b.state AS batch_state, b.is_paused, b.paused_reason,
    b.submitted_by::text AS submitted_by, b.submitted_at, b.planned_as_of AS planned_at,
    CASE WHEN b.state <> 'rejected' THEN b.decided_by::text END AS approver,
    CASE WHEN b.state <> 'rejected' THEN b.decided_at END AS approved_at,
    CASE WHEN b.state = 'rejected' THEN b.decided_by::text END AS rejected_by,
    b.decision_reason, b.row_count AS rows, b.rejected_row_count AS refused_file_rows,
    coalesce(s.awaiting_approval, 0) AS rows_awaiting_approval, coalesce(s.queued, 0) AS rows_queued,
    coalesce(s.sending, 0) AS rows_sending, coalesce(s.unknown, 0) AS rows_unknown,
    coalesce(s.scheduled, 0) AS rows_scheduled, coalesce(s.pending_consent, 0) AS rows_pending_consent,
    coalesce(s.accepted, 0) AS rows_accepted, coalesce(s.effective, 0) AS rows_effective,
    coalesce(s.declined, 0) AS rows_declined, coalesce(s.cancelled, 0) AS rows_cancelled,
    coalesce(s.lapsed, 0) AS rows_lapsed, coalesce(s.invalidated, 0) AS rows_invalidated,
    coalesce(s.rejected, 0) AS rows_rejected, coalesce(s.ineligible, 0) AS rows_ineligible,
    coalesce(s.missed, 0) AS rows_missed, coalesce(s.aborted, 0) AS rows_aborted,
    coalesce(s.open, 0) AS rows_open, coalesce(s.final, 0) AS rows_final,
    coalesce(s.final, 0) = b.row_count AS is_final,
    coalesce(s.stored, 0) = b.row_count AND coalesce(s.open + s.final, 0) = b.row_count
        AND coalesce(r.stored, 0) = b.rejected_row_count AS rows_add_up, b.undoes_batch_id
FROM repricer.batches b
LEFT JOIN sums s ON s.batch_id = b.batch_id
LEFT JOIN refusals r ON r.batch_id = b.batch_id;

CREATE OR REPLACE VIEW report.pending_consent AS
SELECT c.batch_id, b.name AS batch_name, c.original_transaction_id, c.change_id, c.sku,
    c.storefront, c.period, c.currency, c.current_price_milliunits, c.new_price_milliunits,
    c.dependent_skus, c.consent_asked_at, c.due_effective_at AS consent_due_at,
    c.due_effective_at < report.as_of() AS is_overdue
FROM repricer.price_changes c JOIN repricer.batches b ON b.batch_id = c.batch_id
WHERE c.stage = 'pending_consent';

CREATE OR REPLACE VIEW report.upcoming_effective AS
SELECT c.batch_id, b.name AS batch_name, c.original_transaction_id, c.change_id, c.sku,
    c.storefront, c.period, c.direction, c.currency, c.current_price_milliunits,
    c.new_price_milliunits, c.state, c.due_effective_at,
    c.state = 'accepted' OR (c.direction = 'decrease' AND c.state = 'scheduled') AS is_settled,
    c.due_effective_at < report.as_of() AS is_overdue
FROM repricer.price_changes c JOIN repricer.batches b ON b.batch_id = c.batch_id
WHERE c.stage IN ('queued', 'unknown', 'scheduled', 'pending_consent', 'accepted')
    AND c.undoes_change_id IS NULL;

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
        WHERE c.stage IN ('scheduled', 'pending_consent', 'accepted')
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

CREATE OR REPLACE FUNCTION repricer.undo_candidates(p_batch_id uuid, p_subscription text, p_sku text, p_at timestamp with time zone) RETURNS TABLE(original_transaction_id text, change_id uuid, line bigint, sku text, state text, reason text, told_at timestamp with time zone, obstacle text)
    LANGUAGE sql STABLE
    AS $$
SELECT c.original_transaction_id, c.change_id, c.line, coalesce(c.current_sku, c.sku), c.state, c.reason, t.told_at,
    repricer.undo_obstacle(c.state, c.undoes_change_id IS NOT NULL,
        c.consent_asked_at IS NOT NULL OR c.accepted_at IS NOT NULL, t.told_at, EXISTS (
            SELECT FROM repricer.price_changes u
            WHERE u.original_transaction_id = c.original_transaction_id AND u.undoes_change_id = c.change_id
                AND u.stage IN ('awaiting_approval', 'queued', 'unknown')), p_at)
FROM repricer.price_changes c, LATERAL (
    -- The lead before the renewal stays when the renewal moves.
    SELECT coalesce(c.forecast_notice_at + (c.due_effective_at - c.forecast_effective_at), c.send_by) AS told_at) t
WHERE c.batch_id = p_batch_id AND (p_subscription IS NULL OR c.original_transaction_id = p_subscription)
    AND (p_sku IS NULL OR coalesce(c.current_sku, c.sku) = p_sku)
$$;

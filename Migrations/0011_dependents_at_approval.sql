-- A dependent that is shared or chained is refused by the key of dependency_roles, which a program that writes
-- price_changes alone does not touch. Approval is the gate that every change passes: it now asks that each part
-- which a change gives to its SKUs is recorded. And the forecast counts a declined change as one that was asked.
-- Locks: report.forecast_accuracy, for an instant.
-- breaking: no

CREATE OR REPLACE FUNCTION repricer.approve_batch(p_batch_id uuid, p_at timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    v_rows bigint;
    v_line bigint;
BEGIN
    PERFORM require_pricing();
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
    END IF;
    IF v_batch.state <> 'awaiting_approval' THEN
        RAISE EXCEPTION 'batch % is %, not awaiting approval', p_batch_id, v_batch.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF v_batch.submitted_by = session_user THEN
        RAISE EXCEPTION 'user % submitted this batch; another user must approve it', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT count(*) INTO v_rows FROM price_changes WHERE batch_id = p_batch_id;
    IF v_rows <> v_batch.row_count THEN
        RAISE EXCEPTION 'batch % holds % rows, % were submitted', p_batch_id, v_rows, v_batch.row_count
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    SELECT c.line INTO v_line FROM price_changes c
        WHERE c.batch_id = p_batch_id AND c.state = 'awaiting_approval'
            AND c.dependent_skus <> '{}' AND EXISTS (
                SELECT 1 FROM (
                    SELECT c.sku, 'parent' AS role
                    UNION ALL SELECT unnest(c.dependent_skus), 'dependent') part
                WHERE NOT EXISTS (
                    SELECT 1 FROM dependency_roles d
                    WHERE d.original_transaction_id = c.original_transaction_id
                        AND d.sku = part.sku AND d.role = part.role AND d.change_id = c.change_id))
        ORDER BY c.line LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'line % of batch % names dependents without their part in dependency_roles',
            v_line, p_batch_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    UPDATE batches SET state = 'approved', decided_by = session_user, decided_at = p_at
        WHERE batch_id = p_batch_id;
    -- One that ended while it waited stays ended: an older change of its item turned out to be open.
    WITH queued AS (
        UPDATE price_changes SET state = 'queued', state_since = p_at,
                is_ready = (send_after IS NULL OR send_after <= p_at)
            WHERE batch_id = p_batch_id AND state = 'awaiting_approval'
            RETURNING original_transaction_id, change_id
    )
    INSERT INTO price_change_history
            (original_transaction_id, change_id, occurred_at, state, evidence_kind, evidence_id)
        SELECT original_transaction_id, change_id, p_at, 'queued', 'approval', session_user
        FROM queued;
    INSERT INTO decisions (decided_at, action, batch_id) VALUES (p_at, 'approve', p_batch_id);
    RETURN v_rows;
END
$$;

CREATE OR REPLACE VIEW report.forecast_accuracy AS
WITH outcomes AS (
    SELECT batch_id, direction, forecast_consent, forecast_threshold_source, forecast_reasons,
        CASE
            WHEN consent_asked_at IS NOT NULL OR acceptance = 'consented' THEN 'required'
            -- Nobody declines unasked: the notification that told of the asking was lost. A dependent that fell with
            -- its parent was not asked itself.
            WHEN state = 'declined' AND reason IS DISTINCT FROM 'parent_declined' THEN 'required'
            WHEN acceptance = 'informed' THEN 'not_required'
            WHEN direction = 'decrease' AND coalesce(scheduled_at, effective_at) IS NOT NULL THEN 'none'
        END AS came_consent,
        effective_at, forecast_effective_at
    FROM repricer.price_changes
)
SELECT o.batch_id, b.name AS batch_name, o.direction, o.forecast_consent,
    o.forecast_threshold_source, o.came_consent, count(*) AS changes,
    o.came_consent = o.forecast_consent AS is_as_forecast,
    count(*) FILTER (WHERE o.effective_at IS NOT NULL) AS effective,
    count(*) FILTER (WHERE o.effective_at = o.forecast_effective_at) AS effective_as_forecast,
    o.forecast_reasons,
    count(*) FILTER (WHERE o.effective_at < o.forecast_effective_at) AS effective_earlier,
    count(*) FILTER (WHERE o.effective_at > o.forecast_effective_at) AS effective_later,
    CASE
        WHEN o.came_consent IS NULL THEN 'not_known'
        WHEN o.came_consent = o.forecast_consent THEN 'as_forecast'
        WHEN o.came_consent = 'required' THEN 'missed'
        ELSE 'false_alarm'
    END AS consent_outcome
FROM outcomes o JOIN repricer.batches b ON b.batch_id = o.batch_id
GROUP BY o.batch_id, b.name, o.direction, o.forecast_consent, o.forecast_threshold_source,
    o.came_consent, o.forecast_reasons;

-- What people may do to a batch. Each function runs as its owner and writes session_user: the person who
-- logged in, whatever role is set. Tables stay closed to direct updates.
-- Locks: none on existing tables.
-- breaking: no

CREATE FUNCTION repricer.require_pricing() RETURNS void
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
BEGIN
    IF NOT pg_has_role(session_user, 'repricer_pricing', 'MEMBER') THEN
        RAISE EXCEPTION 'user % is no member of repricer_pricing', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$$;

-- Approves a batch and queues its changes; returns their number.
CREATE FUNCTION repricer.approve_batch(p_batch_id uuid, p_at timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    v_rows bigint;
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

-- Withdraws what has not been sent; returns the number of changes withdrawn. The submitter may, too.
CREATE FUNCTION repricer.withdraw_batch(
    p_batch_id uuid, p_at timestamptz, p_new_state text, p_reason text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
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
            WHERE c.batch_id = p_batch_id AND c.state IN ('awaiting_approval', 'queued', 'sending', 'unknown'))
        ORDER BY s.original_transaction_id FOR UPDATE;
    WITH withdrawn AS (
        UPDATE price_changes SET state = 'aborted', state_since = p_at, ended_at = p_at,
                reason = p_new_state
            WHERE batch_id = p_batch_id AND state IN ('awaiting_approval', 'queued')
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
    INSERT INTO decisions (decided_at, action, batch_id, detail)
        VALUES (p_at, CASE p_new_state WHEN 'rejected' THEN 'reject' ELSE 'abort' END, p_batch_id,
            p_reason);
    RETURN v_rows;
END
$$;

CREATE FUNCTION repricer.set_pause(p_batch_id uuid, p_at timestamptz, p_is_paused boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    PERFORM require_pricing();
    IF p_batch_id IS NULL THEN
        UPDATE service_controls SET is_paused = p_is_paused;
    ELSE
        UPDATE batches SET is_paused = p_is_paused WHERE batch_id = p_batch_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
        END IF;
    END IF;
    INSERT INTO decisions (decided_at, action, batch_id)
        VALUES (p_at, CASE WHEN p_is_paused THEN 'pause' ELSE 'resume' END, p_batch_id);
END
$$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA repricer FROM PUBLIC;
GRANT EXECUTE ON FUNCTION repricer.bucket_of(text) TO repricer_pricing, repricer_service;
GRANT EXECUTE ON FUNCTION repricer.require_pricing(),
    repricer.approve_batch(uuid, timestamptz),
    repricer.withdraw_batch(uuid, timestamptz, text, text),
    repricer.set_pause(uuid, timestamptz, boolean) TO repricer_pricing;

-- repricer_pricing: plans (reads), submits (inserts rows that await approval), decides (functions above).
GRANT SELECT ON repricer.subscriptions, repricer.subscription_events, repricer.charges,
    repricer.notifications, repricer.inbox, repricer.batches, repricer.batch_rejects,
    repricer.price_changes, repricer.dependency_roles, repricer.price_change_requests,
    repricer.price_change_history, repricer.dependent_cancellations, repricer.rate_limits,
    repricer.service_controls, repricer.decisions TO repricer_pricing;
GRANT INSERT (batch_id, name, content_sha256, plan_hash, planned_as_of, row_count,
    rejected_row_count, submitted_at) ON repricer.batches TO repricer_pricing;
GRANT INSERT ON repricer.batch_rejects, repricer.dependency_roles TO repricer_pricing;
GRANT INSERT (original_transaction_id, change_id, batch_id, line, sku, direction, currency,
    storefront, period, current_price_milliunits, new_price_milliunits, dependent_skus,
    expected_price_milliunits, effective_on_or_after, forecast_consent, forecast_reasons,
    forecast_threshold_source, forecast_rules, forecast_renewal_at, forecast_notice_at,
    forecast_effective_at, send_after, send_by, due_effective_at, state_since)
    ON repricer.price_changes TO repricer_pricing;
GRANT INSERT (original_transaction_id, change_id, occurred_at, state, evidence_kind, evidence_id,
    reason) ON repricer.price_change_history TO repricer_pricing;
GRANT INSERT (decided_at, action, batch_id, detail) ON repricer.decisions TO repricer_pricing;

-- repricer_service: delivers and folds; it can't submit or approve.
GRANT SELECT ON ALL TABLES IN SCHEMA repricer TO repricer_service;
GRANT INSERT, UPDATE ON repricer.subscriptions, repricer.charges, repricer.rate_limits,
    repricer.price_change_requests, repricer.dependent_cancellations TO repricer_service;
GRANT INSERT, UPDATE, DELETE ON repricer.inbox TO repricer_service;
GRANT INSERT ON repricer.subscription_events, repricer.notification_ids, repricer.notifications,
    repricer.price_change_history TO repricer_service;
GRANT INSERT, DELETE ON repricer.dependency_roles TO repricer_service;
GRANT UPDATE (send_after, send_by, due_effective_at, is_ready, goes_alone, next_attempt_at,
    request_reference_id, state, reason, sent_at, scheduled_at, consent_asked_at, accepted_at,
    acceptance, effective_at, ended_at, state_since)
    ON repricer.price_changes TO repricer_service;
-- A row lock needs an update right on some column; the person's decision columns stay out of reach.
GRANT UPDATE (paused_reason) ON repricer.batches TO repricer_service;

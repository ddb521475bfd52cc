-- Staged batches, the grouping of calls, and who paused what and why. Claims go queue by queue (bucket, batch, wave),
-- so that rows of a paused batch or of a wave to come are never read, however many they are.
-- Locks: price_changes against writing while its index is built anew, about a second for a million due rows; the
-- others for a moment.
-- breaking: no

ALTER TABLE repricer.batches
    ADD COLUMN grouping text NOT NULL DEFAULT 'announced',
    ADD COLUMN waves jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN released_wave smallint NOT NULL DEFAULT 0,
    ADD COLUMN next_release_at timestamptz,
    ADD COLUMN paused_by text,
    ADD COLUMN paused_at timestamptz,
    ADD CONSTRAINT batches_grouping CHECK (grouping IN ('announced', 'item', 'subscription')),
    ADD CONSTRAINT batches_waves CHECK (jsonb_typeof(waves) = 'array' AND jsonb_array_length(waves) <= 100),
    ADD CONSTRAINT batches_released_wave CHECK (released_wave BETWEEN 0 AND jsonb_array_length(waves));
COMMENT ON COLUMN repricer.batches.grouping IS 'Which items of a subscription share a call: announced (increases without consent share one, decreases one), item (none), subscription (all that can go).';
COMMENT ON COLUMN repricer.batches.waves IS 'In order: label, release (approval, hand, at, after), at, after_ms, and released_at once it was.';
COMMENT ON COLUMN repricer.batches.released_wave IS 'Rows of a later wave are not sent. Without waves every row is of wave 0.';
COMMENT ON COLUMN repricer.batches.next_release_at IS 'When the next wave is released by itself; null: by hand, or none is left.';
CREATE INDEX batches_next_release ON repricer.batches (next_release_at) WHERE next_release_at IS NOT NULL;

ALTER TABLE repricer.price_changes ADD COLUMN wave smallint NOT NULL DEFAULT 0;
DROP INDEX repricer.price_changes_due;
-- Claims: queue by queue, earliest deadline first in each.
CREATE INDEX price_changes_due ON repricer.price_changes (bucket, batch_id, wave, send_by)
    WHERE state = 'queued' AND is_ready;

ALTER TABLE repricer.service_controls
    ADD COLUMN paused_by text,
    ADD COLUMN paused_at timestamptz,
    ADD COLUMN paused_reason text;

GRANT INSERT (grouping, waves) ON repricer.batches TO repricer_pricing;
GRANT INSERT (wave) ON repricer.price_changes TO repricer_pricing;

-- When a wave is released by itself, where the one before it was released at p_at; null: by hand.
CREATE FUNCTION repricer.wave_release_at(p_wave jsonb, p_at timestamptz) RETURNS timestamptz
    LANGUAGE sql STABLE SET search_path = repricer, pg_temp AS $$
SELECT CASE p_wave ->> 'release'
    WHEN 'approval' THEN p_at
    WHEN 'at' THEN (p_wave ->> 'at')::timestamptz
    WHEN 'after' THEN p_at + (p_wave ->> 'after_ms')::bigint * interval '1 millisecond'
    END
$$;

-- Releases the waves of a batch up to p_through. The caller holds the batch's row.
CREATE FUNCTION repricer.release_waves_through(
    p_batch repricer.batches, p_through integer, p_actor text, p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
DECLARE
    v_waves jsonb := p_batch.waves;
    v_wave integer;
BEGIN
    FOR v_wave IN p_batch.released_wave + 1 .. p_through LOOP
        v_waves := jsonb_set(v_waves, ARRAY[(v_wave - 1)::text, 'released_at'], to_jsonb(p_at));
    END LOOP;
    UPDATE batches SET waves = v_waves, released_wave = p_through,
            next_release_at = wave_release_at(v_waves -> p_through, p_at)
        WHERE batch_id = p_batch.batch_id;
    PERFORM append_audit(p_actor, p_at, 'release', 'batch:' || p_batch.batch_id,
        json_build_object('wave', p_through, 'of', jsonb_array_length(v_waves),
            'label', v_waves -> (p_through - 1) ->> 'label'));
END
$$;

-- A person releases the next wave, or all up to p_wave; returns the last one released.
CREATE FUNCTION repricer.release_wave(p_batch_id uuid, p_wave integer, p_at timestamptz) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    v_through integer;
BEGIN
    PERFORM require_pricing();
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
    END IF;
    IF v_batch.state <> 'approved' THEN
        RAISE EXCEPTION 'batch % is %; waves of an approved batch are released', p_batch_id, v_batch.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    v_through := coalesce(p_wave, v_batch.released_wave + 1);
    IF v_through <= v_batch.released_wave OR v_through > jsonb_array_length(v_batch.waves) THEN
        RAISE EXCEPTION 'batch % has % waves, % of them released', p_batch_id,
            jsonb_array_length(v_batch.waves), v_batch.released_wave
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM release_waves_through(v_batch, v_through, session_user::text, p_at);
    RETURN v_through;
END
$$;

-- The service releases the waves whose time has come; a paused batch waits. Returns what it released.
CREATE FUNCTION repricer.release_due_waves(p_at timestamptz)
    RETURNS TABLE (batch_id uuid, name text, wave integer, label text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
BEGIN
    FOR v_batch IN
        SELECT b.* FROM batches b
        WHERE b.next_release_at <= p_at AND b.state = 'approved' AND NOT b.is_paused
        ORDER BY b.next_release_at FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM release_waves_through(v_batch, v_batch.released_wave + 1, session_user::text, p_at);
        batch_id := v_batch.batch_id;
        name := v_batch.name;
        wave := v_batch.released_wave + 1;
        label := v_batch.waves -> v_batch.released_wave::integer ->> 'label';
        RETURN NEXT;
    END LOOP;
END
$$;

CREATE OR REPLACE FUNCTION repricer.approve_batch(p_batch_id uuid, p_at timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    v_rows bigint;
    v_stray bigint;
    v_line bigint;
    v_exceeded text[];
    v_first text;
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
    SELECT count(*), count(*) FILTER (
            WHERE wave NOT BETWEEN least(1, jsonb_array_length(v_batch.waves)) AND jsonb_array_length(v_batch.waves))
        INTO v_rows, v_stray FROM price_changes WHERE batch_id = p_batch_id;
    IF v_rows <> v_batch.row_count THEN
        RAISE EXCEPTION 'batch % holds % rows, % were submitted', p_batch_id, v_rows, v_batch.row_count
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF v_stray > 0 THEN
        RAISE EXCEPTION '% rows of batch % are in none of its waves', v_stray, p_batch_id
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
    -- Limits change rarely; one that changes now waits until this approval is judged by what it was.
    LOCK TABLE approval_limits IN SHARE MODE;
    v_exceeded := approval_shortfall(p_batch_id);
    IF v_exceeded IS NOT NULL THEN
        INSERT INTO first_approvals (batch_id, approver, approved_at, exceeded)
            VALUES (p_batch_id, session_user, p_at, v_exceeded);
        PERFORM append_audit(session_user::text, p_at, 'approve_first', 'batch:' || p_batch_id,
            json_build_object('name', v_batch.name, 'rows', v_rows, 'submitted_by', v_batch.submitted_by,
                'plan_hash', v_batch.plan_hash, 'exceeded', v_exceeded));
        RETURN NULL;
    END IF;
    SELECT string_agg(approver, ', ' ORDER BY approver) INTO v_first
        FROM first_approvals WHERE batch_id = p_batch_id;
    UPDATE batches SET state = 'approved', decided_by = session_user, decided_at = p_at,
            next_release_at = wave_release_at(waves -> 0, p_at)
        WHERE batch_id = p_batch_id RETURNING * INTO v_batch;
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
    PERFORM append_audit(session_user::text, p_at, 'approve', 'batch:' || p_batch_id,
        json_build_object('name', v_batch.name, 'rows', v_rows, 'submitted_by', v_batch.submitted_by,
            'plan_hash', v_batch.plan_hash, 'first_approved_by', v_first,
            'waves', CASE WHEN v_batch.waves <> '[]'
                THEN (SELECT string_agg(w ->> 'label', ',') FROM jsonb_array_elements(v_batch.waves) w) END));
    IF v_batch.waves -> 0 ->> 'release' = 'approval' THEN
        PERFORM release_waves_through(v_batch, 1, session_user::text, p_at);
    END IF;
    RETURN v_rows;
END
$$;

DROP FUNCTION repricer.set_pause(uuid, timestamptz, boolean);
-- Pauses or resumes a batch; without one, everything.
CREATE FUNCTION repricer.set_pause(p_batch_id uuid, p_at timestamptz, p_is_paused boolean, p_reason text)
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    PERFORM require_pricing();
    IF p_batch_id IS NULL THEN
        UPDATE service_controls SET is_paused = p_is_paused,
            paused_by = CASE WHEN p_is_paused THEN session_user END,
            paused_at = CASE WHEN p_is_paused THEN p_at END,
            paused_reason = CASE WHEN p_is_paused THEN p_reason END;
    ELSE
        UPDATE batches SET is_paused = p_is_paused,
                paused_by = CASE WHEN p_is_paused THEN session_user END,
                paused_at = CASE WHEN p_is_paused THEN p_at END,
                paused_reason = CASE WHEN p_is_paused THEN p_reason END
            WHERE batch_id = p_batch_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
        END IF;
    END IF;
    PERFORM append_audit(session_user::text, p_at, CASE WHEN p_is_paused THEN 'pause' ELSE 'resume' END,
        coalesce('batch:' || p_batch_id, 'everything'), json_build_object('reason', p_reason));
END
$$;

REVOKE ALL ON FUNCTION repricer.wave_release_at(jsonb, timestamptz),
    repricer.release_waves_through(repricer.batches, integer, text, timestamptz),
    repricer.release_wave(uuid, integer, timestamptz), repricer.release_due_waves(timestamptz),
    repricer.set_pause(uuid, timestamptz, boolean, text) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION repricer.release_wave(uuid, integer, timestamptz),
    repricer.set_pause(uuid, timestamptz, boolean, text) TO repricer_pricing;
GRANT EXECUTE ON FUNCTION repricer.release_due_waves(timestamptz) TO repricer_service;

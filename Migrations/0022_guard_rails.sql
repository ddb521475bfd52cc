-- What stops a batch, or everything, without a person: guard rails, and refusals that mean the call or the key and
-- not the row. Only a person resumes a batch; a refused key recovers by itself once a call is answered.
-- Locks: batches and service_controls for a moment.
-- breaking: no

ALTER TABLE repricer.batches
    ADD COLUMN guards jsonb NOT NULL DEFAULT '[]',
    ADD COLUMN guards_count_from timestamptz,
    ADD COLUMN halted_by text,
    ADD CONSTRAINT batches_guards CHECK (jsonb_typeof(guards) = 'array'),
    ADD CONSTRAINT batches_halted_is_paused CHECK (halted_by IS NULL OR is_paused);
COMMENT ON COLUMN repricer.batches.guards IS 'Each: guard (errors, declined, auto_renew_off), over (hundredths of a percent), least (changes counted before it judges).';
COMMENT ON COLUMN repricer.batches.guards_count_from IS 'Guards count only changes sent since then: the last time that a person resumed a halted batch.';
COMMENT ON COLUMN repricer.batches.halted_by IS 'What paused it, where no person did: a guard, or the App Store''s code.';
GRANT INSERT (guards) ON repricer.batches TO repricer_pricing;

ALTER TABLE repricer.service_controls
    ADD COLUMN halted_at timestamptz,
    ADD COLUMN halted_reason text;

-- The service pauses a batch. False where it is paused, or ended, already.
CREATE FUNCTION repricer.halt_batch(
    p_batch_id uuid, p_at timestamptz, p_by text, p_reason text, p_details json) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    UPDATE batches SET is_paused = true, halted_by = p_by, paused_by = session_user, paused_at = p_at,
            paused_reason = p_reason
        WHERE batch_id = p_batch_id AND state = 'approved' AND NOT is_paused;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM append_audit(session_user::text, p_at, 'halt', 'batch:' || p_batch_id,
        json_build_object('by', p_by, 'reason', p_reason, 'details', p_details));
    RETURN true;
END
$$;

-- The service stops calling, since no call can succeed. False where it has stopped already.
CREATE FUNCTION repricer.halt_service(p_at timestamptz, p_reason text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    UPDATE service_controls SET halted_at = p_at, halted_reason = p_reason WHERE halted_at IS NULL;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM append_audit(session_user::text, p_at, 'halt', 'everything', json_build_object('reason', p_reason));
    RETURN true;
END
$$;

-- A call was answered again. False where calls had not stopped.
CREATE FUNCTION repricer.recover_service(p_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_reason text;
BEGIN
    SELECT halted_reason INTO v_reason FROM service_controls WHERE halted_at IS NOT NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE service_controls SET halted_at = NULL, halted_reason = NULL;
    PERFORM append_audit(session_user::text, p_at, 'recover', 'everything', json_build_object('halted_for', v_reason));
    RETURN true;
END
$$;

CREATE OR REPLACE FUNCTION repricer.set_pause(
    p_batch_id uuid, p_at timestamptz, p_is_paused boolean, p_reason text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_halted_by text;
BEGIN
    PERFORM require_pricing();
    IF p_batch_id IS NULL THEN
        UPDATE service_controls SET is_paused = p_is_paused,
            paused_by = CASE WHEN p_is_paused THEN session_user END,
            paused_at = CASE WHEN p_is_paused THEN p_at END,
            paused_reason = CASE WHEN p_is_paused THEN p_reason END;
    ELSE
        SELECT halted_by INTO v_halted_by FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
        END IF;
        UPDATE batches SET is_paused = p_is_paused,
                paused_by = CASE WHEN p_is_paused THEN session_user END,
                paused_at = CASE WHEN p_is_paused THEN p_at END,
                paused_reason = CASE WHEN p_is_paused THEN p_reason END,
                halted_by = CASE WHEN p_is_paused THEN halted_by END,
                guards_count_from = CASE WHEN p_is_paused OR halted_by IS NULL THEN guards_count_from ELSE p_at END
            WHERE batch_id = p_batch_id;
    END IF;
    PERFORM append_audit(session_user::text, p_at, CASE WHEN p_is_paused THEN 'pause' ELSE 'resume' END,
        coalesce('batch:' || p_batch_id, 'everything'),
        json_build_object('reason', p_reason, 'halted_by', v_halted_by));
END
$$;

REVOKE ALL ON FUNCTION repricer.halt_batch(uuid, timestamptz, text, text, json),
    repricer.halt_service(timestamptz, text), repricer.recover_service(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION repricer.halt_batch(uuid, timestamptz, text, text, json),
    repricer.halt_service(timestamptz, text), repricer.recover_service(timestamptz) TO repricer_service;

-- A code about one storefront (4000134: the product has no price there) halts that storefront of its batch and no
-- other. Its rows leave the queues until a person resumes the batch, so that they cost the others nothing.
-- And what guard rails have counted is kept, so that a status need not count a million rows anew.
-- Locks: price_changes against writing while its two queues are indexed anew; batches and price_changes for a moment.
-- breaking: no

ALTER TABLE repricer.batches
    ADD COLUMN halted_storefronts jsonb NOT NULL DEFAULT '{}',
    ADD COLUMN is_parking boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT batches_halted_storefronts CHECK (jsonb_typeof(halted_storefronts) = 'object');
COMMENT ON COLUMN repricer.batches.halted_storefronts IS
    'By storefront: by (the App Store''s code), reason, at. Nothing of these is sent until a person resumes the batch.';
COMMENT ON COLUMN repricer.batches.is_parking IS 'Rows of its halted storefronts are still to be taken out of the queues.';

ALTER TABLE repricer.price_changes ADD COLUMN is_held boolean NOT NULL DEFAULT false;
COMMENT ON COLUMN repricer.price_changes.is_held IS
    'Taken out of the queues, since its storefront is halted in its batch. One put back since may lack the mark.';
DROP INDEX repricer.price_changes_due;
CREATE INDEX price_changes_due ON repricer.price_changes (bucket, batch_id, wave, send_by)
    WHERE state = 'queued' AND is_ready AND NOT is_held;
DROP INDEX repricer.price_changes_parked;
CREATE INDEX price_changes_parked ON repricer.price_changes (send_after)
    WHERE state = 'queued' AND NOT is_ready AND NOT is_held;
CREATE INDEX price_changes_held ON repricer.price_changes (batch_id, storefront) WHERE state = 'queued' AND is_held;

ALTER TABLE repricer.batches ADD COLUMN guard_reading jsonb;
COMMENT ON COLUMN repricer.batches.guard_reading IS
    'What its guard rails last counted: figures (guard, count, of), at, counted_ms (the machine''s clock), is_last (nothing of it was open any more). Null: nothing since a person resumed it.';
GRANT UPDATE (guard_reading) ON repricer.batches TO repricer_service;

-- The service halts a storefront of a batch. False where it is halted, or the batch has ended, already.
CREATE FUNCTION repricer.halt_storefront(
    p_batch_id uuid, p_storefront text, p_at timestamptz, p_by text, p_reason text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    UPDATE batches SET is_parking = true, halted_storefronts = halted_storefronts || jsonb_build_object(
            p_storefront, jsonb_build_object('by', p_by, 'reason', p_reason, 'at', p_at))
        WHERE batch_id = p_batch_id AND state = 'approved' AND NOT halted_storefronts ? p_storefront;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM append_audit(session_user::text, p_at, 'halt', 'batch:' || p_batch_id,
        json_build_object('storefront', p_storefront, 'by', p_by, 'reason', p_reason));
    RETURN true;
END
$$;

-- Takes rows of halted storefronts out of the queues, one batch at a time and so many rows at most; returns how many.
CREATE FUNCTION repricer.park_halted(p_limit integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
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
        WHERE batch_id = v_batch.batch_id AND state = 'queued' AND NOT is_held
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

CREATE OR REPLACE FUNCTION repricer.set_pause(
    p_batch_id uuid, p_at timestamptz, p_is_paused boolean, p_reason text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
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
            UPDATE price_changes SET is_held = false WHERE batch_id = p_batch_id AND state = 'queued' AND is_held;
        END IF;
    END IF;
    PERFORM append_audit(session_user::text, p_at, CASE WHEN p_is_paused THEN 'pause' ELSE 'resume' END,
        coalesce('batch:' || p_batch_id, 'everything'),
        json_build_object('reason', p_reason, 'halted_by', v_batch.halted_by, 'halted_storefronts',
            (SELECT string_agg(s, ',' ORDER BY s) FROM jsonb_object_keys(v_batch.halted_storefronts) s)));
END
$$;

REVOKE ALL ON FUNCTION repricer.halt_storefront(uuid, text, timestamptz, text, text), repricer.park_halted(integer)
    FROM PUBLIC;
GRANT EXECUTE ON FUNCTION repricer.halt_storefront(uuid, text, timestamptz, text, text), repricer.park_halted(integer)
    TO repricer_service;

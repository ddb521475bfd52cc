-- What people do with an approved batch: release its waves, pause it, take it back, and close a change that nothing else can
-- end.
-- Locks: none on existing tables.
-- breaking: no

-- Waves and pauses ----------------------------------------------------------------------------------------------------

-- A person releases the next wave, or all up to p_wave. Returns the last one released.
CREATE FUNCTION repricer.release_wave(p_batch_id uuid, p_wave integer, p_at timestamptz) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    v_through integer;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
    END IF;
    IF v_batch.state <> 'approved' THEN
        RAISE EXCEPTION 'batch % is %; waves of an approved batch are released', p_batch_id, v_batch.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF v_batch.waves = '[]' THEN
        RAISE EXCEPTION 'batch % has no waves: its approval released all of it', p_batch_id
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

-- The service releases the waves whose time has come. While the batch, or everything, is paused or halted, or while no price
-- change can leave, they wait: all waves that became due meanwhile would otherwise go at once. Only a halted batch that has no
-- row left to ask with gets its next wave. Returns what it released.
CREATE FUNCTION repricer.release_due_waves(p_at timestamptz)
    RETURNS TABLE (batch_id uuid, name text, wave integer, label text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    -- A replica's clock may be ahead, and nobody may choose the instant: a wave is released at its approved time.
    v_at timestamptz := decision_instant(p_at);
BEGIN
    IF EXISTS (SELECT FROM service_controls
            WHERE is_paused OR halted_at IS NOT NULL OR halted_kinds ? 'price_change' OR throttled_kinds ? 'price_change'
                OR catch_up_since IS NOT NULL
                OR was_just_now((unreached_kinds #>> '{price_change,seen}')::timestamptz))
        -- The App Store asks for a second of silence now and then. An hour of it is another matter.
        OR EXISTS (SELECT FROM rate_limits
            WHERE endpoint = 'change_price' AND blocked_until > v_at + interval '1 minute')
    THEN
        RETURN;
    END IF;
    FOR v_batch IN
        SELECT b.* FROM batches b
        WHERE b.next_release_at <= v_at AND b.state = 'approved'
            AND (NOT b.is_paused OR b.probe_at IS NOT NULL)
        ORDER BY b.next_release_at FOR UPDATE SKIP LOCKED
    LOOP
        -- Citus takes no subquery without a column here.
        CONTINUE WHEN v_batch.is_paused AND EXISTS (
            SELECT 1 FROM price_changes c
            WHERE c.batch_id = v_batch.batch_id AND c.stage IN ('queued', 'unknown')
                AND c.wave <= v_batch.released_wave);
        PERFORM release_waves_through(v_batch, v_batch.released_wave + 1, session_user::text, v_at);
        batch_id := v_batch.batch_id;
        name := v_batch.name;
        wave := v_batch.released_wave + 1;
        label := v_batch.waves -> v_batch.released_wave::integer ->> 'label';
        RETURN NEXT;
    END LOOP;
END
$$;

-- The reason of a pause that a person set, once p_by pauses again. A new reason replaces the old one only if the same person
-- gives it; otherwise the old one stays, and nobody's reason is told as somebody else's.
CREATE FUNCTION repricer.reason_of_pause(p_paused_by text, p_paused_reason text, p_by text, p_reason text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT CASE WHEN p_reason IS NULL THEN p_paused_reason
    WHEN p_by = p_paused_by THEN p_reason
    ELSE coalesce(p_paused_reason, p_by || ': ' || p_reason) END
$$;

-- Pauses what is paused already, everything or one batch. Who paused it first, when and why stays. A halted batch keeps its
-- halt and is paused as well, which ends its probes. Returns whether anything changed.
CREATE FUNCTION repricer.pause_again(p_batch_id uuid, p_at timestamptz, p_by text, p_reason text) RETURNS boolean
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    v_all service_controls;
    v_reason text;
BEGIN
    IF p_batch_id IS NULL THEN
        SELECT * INTO v_all FROM service_controls;
        v_reason := reason_of_pause(v_all.paused_by, v_all.paused_reason, p_by, p_reason);
        UPDATE service_controls SET paused_reason = v_reason;
        RETURN v_reason IS DISTINCT FROM v_all.paused_reason;
    END IF;
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id;
    IF v_batch.halted_by IS NULL THEN
        v_reason := reason_of_pause(v_batch.paused_by, v_batch.paused_reason, p_by, p_reason);
        IF v_reason IS DISTINCT FROM v_batch.paused_reason THEN
            PERFORM keep_batch(p_batch_id);
            UPDATE batches SET paused_reason = v_reason WHERE batch_id = p_batch_id;
        END IF;
        RETURN v_reason IS DISTINCT FROM v_batch.paused_reason;
    END IF;
    v_reason := CASE WHEN v_batch.also_paused_by IS NULL THEN p_reason
        ELSE reason_of_pause(v_batch.also_paused_by, v_batch.also_paused_reason, p_by, p_reason) END;
    UPDATE batches SET also_paused_by = coalesce(also_paused_by, p_by),
            also_paused_at = coalesce(also_paused_at, p_at), also_paused_reason = v_reason, probe_at = NULL
        WHERE batch_id = p_batch_id;
    RETURN v_batch.also_paused_by IS NULL OR v_reason IS DISTINCT FROM v_batch.also_paused_reason;
END
$$;

-- Pauses or resumes a batch; without one, everything. Returns whether a pause changed anything. A batch that a guard
-- halted, or that a person paused while it was halted, resumes only here, by a person. One that a code halted also goes on
-- when a probe is answered.
CREATE FUNCTION repricer.set_pause(p_batch_id uuid, p_at timestamptz, p_is_paused boolean, p_reason text)
    RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    v_is_new boolean := true;
    -- Citus refuses a CASE with session_user in an UPDATE.
    v_by text := CASE WHEN p_is_paused THEN session_user END;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    IF p_batch_id IS NULL THEN
        PERFORM FROM service_controls FOR UPDATE;
        IF p_is_paused AND (SELECT is_paused FROM service_controls) THEN
            v_is_new := pause_again(NULL, p_at, v_by, p_reason);
        ELSE
            UPDATE service_controls SET is_paused = p_is_paused,
                paused_by = v_by,
                paused_at = CASE WHEN p_is_paused THEN p_at END,
                paused_reason = CASE WHEN p_is_paused THEN p_reason END;
        END IF;
    ELSE
        SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
        END IF;
        IF v_batch.state NOT IN ('awaiting_approval', 'approved') THEN
            RAISE EXCEPTION 'batch % is %, nothing of it is sent any more', p_batch_id, v_batch.state
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        IF p_is_paused AND v_batch.is_paused THEN
            v_is_new := pause_again(p_batch_id, p_at, v_by, p_reason);
        ELSIF p_is_paused THEN
            PERFORM keep_batch(p_batch_id);
            UPDATE batches SET is_paused = true, paused_by = v_by, paused_at = p_at, paused_reason = p_reason
                WHERE batch_id = p_batch_id;
        ELSE
            PERFORM resume_batch(p_batch_id, p_at);
        END IF;
    END IF;
    PERFORM append_audit(session_user::text, p_at, CASE WHEN p_is_paused THEN 'pause' ELSE 'resume' END,
        coalesce('batch:' || p_batch_id, 'everything'),
        json_build_object('reason', p_reason, 'halted_by', v_batch.halted_by, 'halted_storefronts',
            (SELECT string_agg(s, ',' ORDER BY s) FROM jsonb_object_keys(v_batch.halted_storefronts) s)));
    RETURN v_is_new;
END
$$;

-- Ends the pause and the halts of a batch. The caller holds the lock on the batch.
CREATE FUNCTION repricer.resume_batch(p_batch_id uuid, p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
BEGIN
    PERFORM keep_batch(p_batch_id);
    UPDATE batches SET is_paused = false, paused_by = NULL, paused_at = NULL, paused_reason = NULL,
            also_paused_by = NULL, also_paused_at = NULL, also_paused_reason = NULL,
            halted_by = NULL,
            probe_at = NULL,
            probe_answer = NULL,
            guards_count_from = CASE WHEN halted_by IS NULL THEN guards_count_from ELSE p_at END,
            is_sampled = is_sampled AND halted_by IS NULL,
            halted_storefronts = '{}',
            is_parking = false,
            guard_reading = CASE WHEN halted_by IS NULL THEN guard_reading END
        WHERE batch_id = p_batch_id;
    UPDATE put_backs SET ended_until = coalesce(ended_until, p_at) WHERE batch_id = p_batch_id;
    -- Parked rows are tried at once, because the cause of their refusals may be repaired by now.
    UPDATE price_changes SET is_held = false,
            next_attempt_at = CASE WHEN parked_reason IS NULL THEN next_attempt_at END
        WHERE batch_id = p_batch_id AND stage = 'queued' AND (is_held OR parked_reason IS NOT NULL);
END
$$;

-- Undo ----------------------------------------------------------------------------------------------------------------

-- A change that Apple has scheduled, and that nobody was told of, can be taken back by an inverse change, in a batch of its
-- own that another person approves. The undone change ends once Apple shows that its price is no longer scheduled.

-- Why a change cannot be undone; null where it can. p_told_at is when Apple tells the customer, or stops taking
-- decreases.
CREATE FUNCTION repricer.undo_obstacle(p_state text, p_is_undo boolean, p_was_told boolean,
    p_told_at timestamptz, p_has_undo boolean, p_at timestamptz) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT CASE
    WHEN p_is_undo THEN 'is_an_undo'
    WHEN p_state IN ('awaiting_approval', 'queued') THEN 'not_sent'
    WHEN p_state IN ('sending', 'unknown') THEN 'in_flight'
    WHEN p_state = 'effective' THEN 'already_effective'
    WHEN p_state IN ('pending_consent', 'accepted') THEN 'already_communicated'
    WHEN p_state <> 'scheduled' THEN 'has_ended'
    WHEN p_was_told OR p_told_at <= p_at THEN 'already_communicated'
    WHEN p_has_undo THEN 'undo_under_way'
END
$$;

-- The changes of a batch, or of one subscription or item of it, each with the obstacle to its undo, if any.
CREATE FUNCTION repricer.undo_candidates(p_batch_id uuid, p_subscription text, p_sku text, p_at timestamptz)
    RETURNS TABLE (original_transaction_id text, change_id uuid, line bigint, sku text, state text, reason text,
        told_at timestamptz, obstacle text)
    LANGUAGE sql STABLE AS $$
SELECT c.original_transaction_id, c.change_id, c.line, coalesce(c.current_sku, c.sku), c.state, c.reason, t.told_at,
    repricer.undo_obstacle(c.state, c.undoes_change_id IS NOT NULL,
        c.consent_asked_at IS NOT NULL OR c.accepted_at IS NOT NULL, t.told_at, EXISTS (
            SELECT FROM repricer.price_changes u
            WHERE u.original_transaction_id = c.original_transaction_id AND u.undoes_change_id = c.change_id
                AND u.stage IN ('awaiting_approval', 'queued', 'unknown')), p_at)
FROM repricer.price_changes c, LATERAL (
    -- When the renewal moves, the lead time before it stays the same.
    SELECT coalesce(c.forecast_notice_at + (c.due_effective_at - c.forecast_effective_at), c.send_by) AS at) n, LATERAL (
    -- Where it is not known whether Apple asks, and the day has passed on which it would have asked, it only announces: 27
    -- days before the renewal.
    SELECT CASE WHEN c.forecast_consent = 'not_known' AND n.at <= p_at
        THEN greatest(n.at, c.due_effective_at - interval '648 hours') ELSE n.at END AS told_at) t
WHERE c.batch_id = p_batch_id AND (p_subscription IS NULL OR c.original_transaction_id = p_subscription)
    AND (p_sku IS NULL OR coalesce(c.current_sku, c.sku) = p_sku)
$$;

-- Stores the inverse of what can be undone as a batch that awaits approval, and returns the number of its rows. Where nothing
-- can be undone it stores nothing and returns 0.
CREATE FUNCTION repricer.undo_batch(
    p_batch_id uuid, p_undo_id uuid, p_name text, p_subscription text, p_sku text, p_at timestamptz)
    RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_batch batches;
    v_rows bigint;
    v_digest text;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
    END IF;
    INSERT INTO batches (batch_id, name, state, content_sha256, plan_hash, planned_as_of, row_count, submitted_at,
            grouping, undoes_batch_id, guards, submitted_by)
        -- The guard that a submitted batch has by default.
        VALUES (p_undo_id, p_name, 'submitting', '', '', p_at, 0, p_at, v_batch.grouping, p_batch_id,
            '[{"guard":"errors","over":500,"least":50}]', v_by);
    INSERT INTO price_changes (original_transaction_id, bucket, change_id, batch_id, line, sku, direction, currency,
            storefront, period, current_price_milliunits, new_price_milliunits, forecast_consent,
            forecast_renewal_at, forecast_effective_at, send_by, due_effective_at, state_since,
            undoes_change_id, submitted_by, forecast_seats)
        SELECT c.original_transaction_id, c.bucket, gen_random_uuid(), p_undo_id, c.line, u.sku,
            CASE c.direction WHEN 'increase' THEN 'decrease' ELSE 'increase' END, c.currency, c.storefront,
            c.period, c.new_price_milliunits, c.current_price_milliunits, 'none', c.due_effective_at,
            c.due_effective_at, u.told_at, c.due_effective_at, p_at, c.change_id, v_by, c.forecast_seats
        FROM undo_candidates(p_batch_id, p_subscription, p_sku, p_at) u
        JOIN price_changes c ON c.original_transaction_id = u.original_transaction_id
            AND c.change_id = u.change_id
        WHERE u.obstacle IS NULL;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows = 0 THEN
        DELETE FROM batches WHERE batch_id = p_undo_id;
        RETURN 0;
    END IF;
    -- The digest holds the id of the undo, so that an undo that came to nothing may be asked for again.
    SELECT encode(sha256(convert_to(p_undo_id || ':' || string_agg(undoes_change_id::text, ','
                ORDER BY undoes_change_id), 'UTF8')), 'hex') INTO v_digest
        FROM price_changes WHERE batch_id = p_undo_id;
    UPDATE batches SET content_sha256 = v_digest WHERE batch_id = p_undo_id;
    PERFORM finish_submission(p_undo_id, v_digest, v_rows, 0);
    RETURN v_rows;
END
$$;

-- Closing a change -----------------------------------------------------------------------------------------------------

-- Ends a change where the App Store shows another price for its item: the change can no longer take effect, and its item is
-- free for another one. A statement signed after that which shows the price of the change brings it back.
CREATE FUNCTION repricer.close_change(p_change_id uuid, p_at timestamptz, p_reason text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_change price_changes;
    v_subscription subscriptions;
    v_recorded_at timestamptz;
    v_price bigint;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_change FROM price_changes WHERE change_id = p_change_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no change %', p_change_id USING ERRCODE = 'no_data_found';
    END IF;
    SELECT * INTO v_subscription FROM subscriptions
        WHERE original_transaction_id = v_change.original_transaction_id AND bucket = v_change.bucket FOR UPDATE;
    SELECT * INTO v_change FROM price_changes
        WHERE original_transaction_id = v_change.original_transaction_id AND bucket = v_change.bucket
            AND change_id = p_change_id;
    IF v_change.state NOT IN ('scheduled', 'pending_consent', 'accepted') THEN
        RAISE EXCEPTION 'change % is %: only one that the App Store has can be closed', p_change_id, v_change.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF EXISTS (SELECT 1 FROM store_calls WHERE subject = v_change.original_transaction_id
        AND bucket = v_change.bucket AND settled_at IS NULL)
    THEN
        RAISE EXCEPTION 'a call of subscription % has no outcome yet: ours may still take effect',
            v_change.original_transaction_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    SELECT coalesce((i.item #>> '{increase,price}')::bigint, (i.item ->> 'renewalPrice')::bigint) INTO v_price
        FROM jsonb_array_elements(v_subscription.items) AS i (item)
        WHERE i.item ->> 'sku' = coalesce(v_change.current_sku, v_change.sku) AND (i.item ->> 'renews')::boolean;
    IF v_price IS NULL THEN
        RAISE EXCEPTION 'the App Store shows no price at which % renews: the change ends by itself',
            coalesce(v_change.current_sku, v_change.sku) USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF v_price = v_change.new_price_milliunits THEN
        RAISE EXCEPTION 'the App Store shows the price of change %: it may still take effect; undo takes it back',
            p_change_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    v_recorded_at := keep_changes(ARRAY[v_change.original_transaction_id], ARRAY[p_change_id]);
    UPDATE price_changes SET state = 'invalidated', reason = 'closed', ended_at = p_at, state_since = p_at,
            doubtful_since = p_at, recorded_at = v_recorded_at
        WHERE original_transaction_id = v_change.original_transaction_id AND bucket = v_change.bucket
            AND change_id = p_change_id;
    DELETE FROM dependency_roles WHERE original_transaction_id = v_change.original_transaction_id
        AND bucket = v_change.bucket AND change_id = p_change_id;
    INSERT INTO price_change_history
            (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id, reason, actor)
        VALUES (v_change.original_transaction_id, v_change.bucket, p_change_id, p_at, 'invalidated', 'decision',
            v_by, 'closed: ' || p_reason, v_by);
    PERFORM append_audit(session_user::text, p_at, 'close', 'change:' || p_change_id,
        json_build_object('subscription', v_change.original_transaction_id, 'shown_price_milliunits', v_price,
            'reason', p_reason));
    RETURN v_price;
END
$$;

-- How the service stops by itself, and how it goes on.
-- A guard, or refusals that are about the call or the key and not about the row, stop a batch or everything without a
-- person. Only a person resumes what a guard halted. What a code halted also goes on once a probe is answered.
-- Locks: none on existing tables.
-- breaking: no

-- What ended by refusals before these turned out to be everybody's ------------------------------------------------------

CREATE FUNCTION repricer.note_put_back(p_kind text, p_batch_id uuid, p_code text, p_from timestamptz,
    p_is_of_guard boolean DEFAULT false) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = repricer, pg_temp
BEGIN ATOMIC
    INSERT INTO repricer.put_backs (kind, batch_id, code, ended_from, is_of_guard)
        SELECT p_kind, p_batch_id, p_code, p_from, p_is_of_guard WHERE p_kind IS NOT NULL AND p_from IS NOT NULL;
END;

-- What was sent before a halt was over counts, though its refusal may stand only later: where an earlier attempt was lost,
-- checks come first, until it can't be on its way any more.

-- Puts changes of approved batches back into their queues. A change whose item has another open change by now stays as it
-- ended. So does one that had its second chance: it was put back before, others succeeded, and it ended by the same code
-- again. While other changes were never called, what is put back waits for p_wait, so that it does not lead them again. Where
-- a guard halted, only changes that ended by its code go back, and each only once, because a person has let the batch go on
-- since. Returns how many went back; null where none did because other sessions have locked some.
CREATE FUNCTION repricer.put_back_changes(p_halt repricer.put_backs, p_at timestamptz, p_now timestamptz, p_limit integer,
    p_wait interval) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_recovered text[] := ARRAY(SELECT 'halt ' || h.put_back_id FROM put_backs h
        WHERE h.kind = 'price_change' AND h.code = p_halt.code AND h.is_recovered);
    v_soon timestamptz := p_now;
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_ids text[];
    v_changes uuid[];
    v_recorded_at timestamptz;
    v_moved bigint;
    v_rows bigint := 0;
    v_bucket smallint;
    v_found text[];
    v_batches uuid[];
    v_open uuid[];
    v_wanted integer;
    v_is_busy boolean := false;
BEGIN
    -- This goes bucket by bucket, because a statement that locks must name one. The rows that are found here are asked for
    -- again by their key, so that the ended changes of a batch are searched only once.
    FOR v_bucket, v_found, v_batches IN
        SELECT c.bucket, array_agg(DISTINCT c.original_transaction_id), array_agg(DISTINCT c.batch_id)
        FROM price_changes c JOIN batches b ON b.batch_id = c.batch_id
        WHERE c.stage = 'rejected' AND b.state = 'approved' AND (p_halt.batch_id IS NULL OR b.batch_id = p_halt.batch_id)
            AND c.reason ~ '^[0-9]{3,} ' AND least(c.ended_at, c.sent_at) <= coalesce(p_halt.ended_until, 'infinity')
            AND c.ended_at >= p_halt.ended_from - interval '1 minute'
        GROUP BY c.bucket ORDER BY c.bucket
    LOOP
        -- A batch that a session is withdrawing at this moment gets nothing back: its withdrawal would not see it.
        SELECT array_agg(met.batch_id) INTO v_open FROM (
            SELECT b.batch_id FROM batches b WHERE b.batch_id = ANY (v_batches) AND b.state = 'approved'
            ORDER BY b.batch_id FOR NO KEY UPDATE SKIP LOCKED
        ) met;
        v_is_busy := v_is_busy OR coalesce(cardinality(v_open), 0) < cardinality(v_batches);
        CONTINUE WHEN v_open IS NULL;
        IF v_soon = p_now AND EXISTS (
            SELECT 1 FROM price_changes c
            WHERE (p_halt.batch_id IS NULL OR c.batch_id = p_halt.batch_id) AND c.stage = 'queued' AND c.state = 'queued'
                AND c.is_ready AND NOT c.is_held AND c.next_attempt_at IS NULL)
        THEN
            v_soon := p_now + p_wait;
        END IF;
        SELECT array_agg(met.original_transaction_id), array_agg(met.change_id), count(*) INTO v_ids, v_changes, v_wanted FROM (
            SELECT c.original_transaction_id, c.change_id
            FROM price_changes c
            WHERE c.batch_id = ANY (v_open) AND c.stage = 'rejected' AND c.bucket = v_bucket
                AND c.original_transaction_id = ANY (v_found)
                AND c.reason ~ '^[0-9]{3,} ' AND least(c.ended_at, c.sent_at) <= coalesce(p_halt.ended_until, 'infinity')
                AND (NOT p_halt.is_of_guard OR starts_with(c.reason, p_halt.code || ' ') AND NOT EXISTS (
                    SELECT FROM price_change_history h
                    WHERE h.original_transaction_id = c.original_transaction_id AND h.bucket = v_bucket
                        AND h.change_id = c.change_id AND starts_with(h.evidence_id, 'halt ')
                        AND h.reason LIKE '%: ' || p_halt.code || ' %'))
                AND (c.ended_at >= p_halt.ended_from OR c.ended_at >= p_halt.ended_from - interval '1 minute'
                    AND starts_with(c.reason, p_halt.code || ' ')
                    AND NOT EXISTS (
                        SELECT FROM price_change_history h
                        WHERE h.original_transaction_id = c.original_transaction_id AND h.bucket = v_bucket
                            AND h.change_id = c.change_id AND h.evidence_id = ANY (v_recovered)))
                AND NOT EXISTS (
                    SELECT FROM price_changes o
                    WHERE o.original_transaction_id = c.original_transaction_id AND o.bucket = v_bucket
                        AND o.change_id <> c.change_id AND o.ended_at IS NULL
                        AND (coalesce(o.current_sku, o.sku) = coalesce(c.current_sku, c.sku) AND c.undoes_change_id IS NULL
                                AND o.undoes_change_id IS NULL
                            OR o.undoes_change_id = c.undoes_change_id))
                AND NOT EXISTS (
                    SELECT FROM dependency_roles r
                    WHERE r.original_transaction_id = c.original_transaction_id AND r.bucket = v_bucket
                        AND c.dependent_skus <> '{}' AND r.sku = ANY (
                            coalesce(c.current_dependent_skus, c.dependent_skus) || coalesce(c.current_sku, c.sku)))
            ORDER BY c.original_transaction_id, c.change_id LIMIT p_limit - v_rows
        ) met;
        CONTINUE WHEN v_ids IS NULL;
        -- A session that has locked the subscription is writing it at this moment; a later check finds it free.
        SELECT array_agg(met.original_transaction_id), array_agg(met.change_id) INTO v_ids, v_changes FROM (
            SELECT c.original_transaction_id, c.change_id
            FROM price_changes c
            JOIN subscriptions s ON s.original_transaction_id = c.original_transaction_id AND s.bucket = v_bucket
            WHERE c.original_transaction_id = ANY (v_ids) AND c.change_id = ANY (v_changes) AND c.bucket = v_bucket
                AND c.stage = 'rejected'
            ORDER BY c.original_transaction_id, c.change_id FOR UPDATE OF s, c SKIP LOCKED
        ) met;
        v_is_busy := v_is_busy OR coalesce(cardinality(v_ids), 0) < v_wanted;
        CONTINUE WHEN v_ids IS NULL;
        v_recorded_at := keep_changes(v_ids, v_changes);
        WITH moved AS (
            UPDATE price_changes c SET state = 'queued', ended_at = NULL, refused_at = coalesce(c.refused_at, c.sent_at), sent_at = NULL,
                state_since = p_at,
                -- They are spread over time, so that others succeed in between, and those that are refused rightly form no
                -- streak.
                next_attempt_at = CASE WHEN v_soon > p_now AND c.send_by > p_at + interval '10 minutes' + (v_rows + met.place) * interval '1 second'
                    THEN v_soon + (v_rows + met.place) * p_wait / 120 ELSE p_now END,
                recorded_at = v_recorded_at
            FROM unnest(v_ids, v_changes) WITH ORDINALITY AS met (id, change_id, place)
            WHERE c.original_transaction_id = met.id AND c.change_id = met.change_id
                AND c.bucket = v_bucket AND c.state = 'rejected'
            RETURNING c.*
        ), roles AS (
            INSERT INTO dependency_roles (original_transaction_id, bucket, sku, role, change_id)
            SELECT m.original_transaction_id, m.bucket, part.sku, part.role, m.change_id
            FROM moved m CROSS JOIN LATERAL (
                SELECT coalesce(m.current_sku, m.sku), 'parent'
                UNION ALL SELECT unnest(coalesce(m.current_dependent_skus, m.dependent_skus)), 'dependent'
            ) AS part (sku, role)
            WHERE m.dependent_skus <> '{}'
            ON CONFLICT DO NOTHING
        ), told AS (
            INSERT INTO price_change_history
                (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id, reason, actor)
            SELECT original_transaction_id, bucket, change_id, p_at, state, 'judgement', 'halt ' || p_halt.put_back_id,
                'put back, others were refused alike: ' || reason, v_by
            FROM moved ON CONFLICT DO NOTHING
        )
        SELECT count(*) INTO v_moved FROM moved;
        v_rows := v_rows + v_moved;
        EXIT WHEN v_rows >= p_limit;
    END LOOP;
    RETURN CASE WHEN v_rows > 0 OR NOT v_is_busy THEN v_rows END;
END
$$;

-- Goes bucket by bucket, as put_back_changes does. Under the lock it checks again that what was found is still refused.
-- What was put back for a code and is refused with it again stays refused; a few that are refused rightly would
-- otherwise halt their kind again and again.
CREATE FUNCTION repricer.put_back_extensions(p_halt repricer.put_backs, p_now timestamptz, p_limit integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_bucket smallint;
    v_found uuid[];
    v_ids text[];
    v_extensions uuid[];
    v_moved bigint;
    v_rows bigint := 0;
    v_is_busy boolean := false;
BEGIN
    FOR v_bucket, v_found IN
        SELECT met.bucket, array_agg(met.extension_id) FROM (
            SELECT DISTINCT ON (e.bucket, e.original_transaction_id) e.bucket, e.extension_id
            FROM extension_requests e
            WHERE e.state = 'refused' AND e.settled_by = 'answer'
                AND e.put_back_for IS DISTINCT FROM coalesce(e.code, e.detail)
                AND least(e.settled_at, e.called_at) <= coalesce(p_halt.ended_until, 'infinity')
                AND e.settled_at >= p_halt.ended_from - interval '1 minute'
                AND NOT EXISTS (SELECT FROM extension_requests o
                    WHERE o.original_transaction_id = e.original_transaction_id AND o.bucket = e.bucket
                        AND o.state IN ('queued', 'sending', 'unknown'))
            ORDER BY e.bucket, e.original_transaction_id, e.settled_at DESC) met
        GROUP BY met.bucket ORDER BY met.bucket
    LOOP
        SELECT array_agg(held.original_transaction_id), array_agg(held.extension_id) INTO v_ids, v_extensions FROM (
            SELECT e.original_transaction_id, e.extension_id
            FROM extension_requests e
            JOIN subscriptions s ON s.original_transaction_id = e.original_transaction_id AND s.bucket = v_bucket
            WHERE e.extension_id = ANY (v_found) AND e.bucket = v_bucket AND e.state = 'refused'
                AND e.settled_by = 'answer' AND e.put_back_for IS DISTINCT FROM coalesce(e.code, e.detail)
                AND least(e.settled_at, e.called_at) <= coalesce(p_halt.ended_until, 'infinity')
                AND e.settled_at >= p_halt.ended_from - interval '1 minute'
            ORDER BY e.original_transaction_id LIMIT p_limit - v_rows FOR UPDATE OF s, e SKIP LOCKED
        ) held;
        v_is_busy := v_is_busy OR coalesce(cardinality(v_ids), 0) < least(cardinality(v_found), p_limit - v_rows);
        CONTINUE WHEN v_ids IS NULL;
        UPDATE extension_requests e SET state = 'queued', call_id = NULL, code = NULL, settled_at = NULL,
            put_back_for = coalesce(e.code, e.detail),
            settled_by = NULL, detail = 'put back, others were refused alike: ' || coalesce(e.code, e.detail),
            effective_at = NULL, called_at = CASE WHEN e.is_doubtful THEN e.called_at END,
            renewal_before = CASE WHEN e.is_doubtful THEN e.renewal_before END, next_attempt_at = p_now
        FROM unnest(v_ids, v_extensions) AS held (id, extension_id)
        WHERE e.original_transaction_id = held.id AND e.extension_id = held.extension_id AND e.bucket = v_bucket
            AND e.state = 'refused'
            -- Another one may have been requested before the lock was taken.
            AND NOT EXISTS (SELECT FROM extension_requests o
                WHERE o.original_transaction_id = e.original_transaction_id AND o.bucket = v_bucket
                    AND o.state IN ('queued', 'sending', 'unknown'));
        GET DIAGNOSTICS v_moved = ROW_COUNT;
        v_rows := v_rows + v_moved;
        EXIT WHEN v_rows >= p_limit;
    END LOOP;
    RETURN CASE WHEN v_rows > 0 OR NOT v_is_busy THEN v_rows END;
END
$$;

-- Puts back cancellations that ended because their call was refused, each once for a code, bucket by bucket. It does not put
-- back those whose status stayed unreadable, because that says something about their subscription.
-- One whose refusal stands only after the halt is over stays refused: Citus can't ask for its call here.
CREATE FUNCTION repricer.put_back_cancellations(p_halt repricer.put_backs, p_now timestamptz, p_limit integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    c_refused CONSTANT text := 'Cancel a Subscription was refused with ';
    v_bucket smallint;
    v_found text[];
    v_ids text[];
    v_changes uuid[];
    v_skus text[];
    v_at timestamptz;
    v_moved bigint;
    v_rows bigint := 0;
    v_is_busy boolean := false;
BEGIN
    FOR v_bucket, v_found IN
        SELECT d.bucket, array_agg(DISTINCT d.original_transaction_id) FROM dependent_cancellations d
        WHERE d.state = 'discrepancy' AND starts_with(d.detail, c_refused)
            AND d.put_back_for IS DISTINCT FROM substr(d.detail, length(c_refused) + 1)
            AND d.settled_at <= coalesce(p_halt.ended_until, 'infinity')
            AND d.settled_at >= p_halt.ended_from - interval '1 minute'
        GROUP BY d.bucket ORDER BY d.bucket
    LOOP
        SELECT array_agg(met.original_transaction_id), array_agg(met.change_id), array_agg(met.dependent_sku)
        INTO v_ids, v_changes, v_skus FROM (
            SELECT d.original_transaction_id, d.change_id, d.dependent_sku
            FROM dependent_cancellations d
            JOIN subscriptions s ON s.original_transaction_id = d.original_transaction_id AND s.bucket = v_bucket
            WHERE d.original_transaction_id = ANY (v_found) AND d.bucket = v_bucket
                AND d.state = 'discrepancy' AND starts_with(d.detail, c_refused)
                AND d.put_back_for IS DISTINCT FROM substr(d.detail, length(c_refused) + 1)
                AND d.settled_at <= coalesce(p_halt.ended_until, 'infinity')
                AND d.settled_at >= p_halt.ended_from - interval '1 minute'
            ORDER BY d.original_transaction_id LIMIT p_limit - v_rows FOR UPDATE OF s, d SKIP LOCKED
        ) met;
        v_is_busy := v_is_busy OR (SELECT count(DISTINCT id) FROM unnest(v_ids) AS id)
            < least(cardinality(v_found), p_limit - v_rows);
        CONTINUE WHEN v_ids IS NULL;
        v_at := recording_instant();
        INSERT INTO dependent_cancellation_versions
            SELECT d.*, v_at FROM unnest(v_ids, v_changes, v_skus) AS met (id, change_id, sku)
            JOIN dependent_cancellations d ON d.original_transaction_id = met.id AND d.bucket = v_bucket
                AND d.change_id = met.change_id AND d.dependent_sku = met.sku
            ON CONFLICT DO NOTHING;
        UPDATE dependent_cancellations d SET recorded_at = v_at, state = 'requested', settled_at = NULL,
            settled_by_evidence = NULL, cancel_reference_id = NULL, next_check_at = p_now,
            put_back_for = substr(d.detail, length(c_refused) + 1),
            detail = substr(d.detail, length(c_refused) + 1) || ' (put back: others were refused alike)', checks = 0
        FROM unnest(v_ids, v_changes, v_skus) AS met (id, change_id, sku)
        WHERE d.original_transaction_id = met.id AND d.bucket = v_bucket
            AND d.change_id = met.change_id AND d.dependent_sku = met.sku AND d.state = 'discrepancy';
        GET DIAGNOSTICS v_moved = ROW_COUNT;
        v_rows := v_rows + v_moved;
        EXIT WHEN v_rows >= p_limit;
    END LOOP;
    RETURN CASE WHEN v_rows > 0 OR NOT v_is_busy THEN v_rows END;
END
$$;

-- Puts back refused mass extensions. Whether its call was refused in this halt is asked for each one by itself, because calls
-- are distributed and mass extensions are not.
CREATE FUNCTION repricer.put_back_mass_extensions(p_halt repricer.put_backs, p_now timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_extension uuid;
    v_subject text;
    v_moved bigint;
    v_rows bigint := 0;
BEGIN
    FOR v_extension, v_subject IN
        SELECT m.extension_id, 'product:' || m.product_id FROM mass_extensions m
        WHERE m.state = 'refused'
            AND m.extension_id = (SELECT max(n.extension_id::text)::uuid FROM mass_extensions n
                WHERE n.product_id = m.product_id AND n.state = 'refused')
            AND NOT EXISTS (SELECT FROM mass_extensions o WHERE o.product_id = m.product_id
                AND o.state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'running'))
        ORDER BY m.extension_id
    LOOP
        CONTINUE WHEN NOT EXISTS (
            SELECT FROM store_calls r
            WHERE r.subject = v_subject AND r.bucket = bucket_of(v_subject)
                AND v_extension = ANY (r.carries) AND r.settled_at >= p_halt.ended_from - interval '1 minute'
                AND r.prepared_at <= coalesce(p_halt.ended_until, 'infinity'));
        UPDATE mass_extensions m SET state = 'queued', code = NULL, detail = NULL, called_at = NULL,
            next_attempt_at = p_now
        WHERE m.extension_id = v_extension AND m.state = 'refused'
            -- Another one may have been submitted since the search began.
            AND NOT EXISTS (SELECT FROM mass_extensions o WHERE o.product_id = m.product_id
                AND o.state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'running'));
        GET DIAGNOSTICS v_moved = ROW_COUNT;
        v_rows := v_rows + v_moved;
    END LOOP;
    RETURN v_rows;
END
$$;

-- Whether a call that was refused before the halt was over is still being checked. A check that is never answered holds up
-- nothing for longer than a call may take.
CREATE FUNCTION repricer.still_checks_refusals(p_halt repricer.put_backs, p_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    RETURN p_at < p_halt.ended_until + interval '10 minutes' AND EXISTS (
        SELECT 1 FROM store_calls r
        WHERE r.kind = p_halt.kind AND r.settled_at IS NULL AND r.error_code IS NOT NULL
            AND r.prepared_at <= p_halt.ended_until);
END
$$;

-- Puts back what ended by refusals that everybody met, at most p_limit rows a halt. Returns for each halt what went back, and
-- how many. p_at is the business clock; p_now and p_wait are real time.
CREATE FUNCTION repricer.put_back_refused(p_at timestamptz, p_now timestamptz, p_limit integer, p_wait interval)
    RETURNS TABLE (kind text, batch_id uuid, code text, rows bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_halt repricer.put_backs;
    v_batch uuid;
BEGIN
    FOR v_halt IN SELECT * FROM put_backs h
        WHERE NOT h.is_done AND (h.next_check_at <= p_now OR h.ended_until IS NOT NULL)
        ORDER BY h.put_back_id FOR UPDATE SKIP LOCKED
    LOOP
        kind := v_halt.kind;
        batch_id := v_halt.batch_id;
        code := v_halt.code;
        rows := CASE kind
            WHEN 'price_change' THEN put_back_changes(v_halt, p_at, p_now, p_limit, p_wait)
            WHEN 'extension' THEN put_back_extensions(v_halt, p_now, p_limit)
            WHEN 'cancel' THEN put_back_cancellations(v_halt, p_now, p_limit)
            ELSE put_back_mass_extensions(v_halt, p_now) END;
        IF rows > 0 THEN
            RETURN NEXT;
        ELSIF rows = 0 AND (v_halt.ended_until IS NOT NULL AND v_halt.checks > 1 AND NOT still_checks_refusals(v_halt, p_at)
            OR EXISTS (SELECT FROM batches b WHERE b.batch_id = v_halt.batch_id AND b.state <> 'approved'))
        THEN
            UPDATE put_backs h SET is_done = true WHERE h.put_back_id = v_halt.put_back_id;
        END IF;
        -- A halt is checked often at first, and later as often as checks of refused calls may end. A check that met locked
        -- rows is not counted.
        UPDATE put_backs h SET checks = checks + CASE WHEN rows IS NULL THEN 0 ELSE 1 END,
                next_check_at = p_now + CASE WHEN rows > 0 OR checks < 20 THEN interval '0' ELSE interval '5 seconds' END
            WHERE h.put_back_id = v_halt.put_back_id;
    END LOOP;
    -- A batch with nothing left to call needs no streak any more, and nothing of it gets a second chance. Each batch is asked
    -- by itself, because Citus joins no local table with a distributed one.
    FOR v_batch IN SELECT r.batch_id FROM refusal_streaks r WHERE r.batch_id IS NOT NULL
        UNION SELECT h.batch_id FROM put_backs h WHERE h.batch_id IS NOT NULL AND h.kind = 'price_change'
        ORDER BY 1
    LOOP
        IF NOT EXISTS (SELECT 1 FROM price_changes c
            WHERE c.batch_id = v_batch AND c.stage IN ('queued', 'unknown'))
        THEN
            DELETE FROM refusal_streaks r WHERE r.batch_id = v_batch;
            DELETE FROM put_backs h WHERE h.batch_id = v_batch AND h.is_done;
            -- Then no change is left that could probe whether its halt is over.
            IF EXISTS (SELECT FROM batches b WHERE b.batch_id = v_batch AND b.state = 'approved')
                AND NOT EXISTS (SELECT FROM put_backs h WHERE h.batch_id = v_batch AND NOT h.is_done AND h.checks < 3)
            THEN
                -- A session that has locked the batch is deciding about it. Other batches do not wait for that.
                PERFORM FROM batches b WHERE b.batch_id = v_batch FOR UPDATE SKIP LOCKED;
                IF FOUND THEN
                    PERFORM recover_batch(v_batch, p_at);
                END IF;
            END IF;
        END IF;
    END LOOP;
    DELETE FROM put_backs h WHERE h.batch_id IS NULL AND h.is_done AND h.kind <> 'price_change';
    IF EXISTS (SELECT FROM put_backs h WHERE h.batch_id IS NULL AND h.is_done AND h.next_check_at <= p_now) THEN
        IF has_changes_to_call() THEN
            UPDATE put_backs h SET next_check_at = p_now + interval '5 seconds' WHERE h.batch_id IS NULL AND h.is_done;
        ELSE
            DELETE FROM put_backs h WHERE h.batch_id IS NULL AND h.is_done;
        END IF;
    END IF;
END
$$;

-- Whether a price change is left to call, or is being called. Each batch is asked by itself, so that an index with its stages
-- answers, and a cluster returns one row.
CREATE FUNCTION repricer.has_changes_to_call() RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch uuid;
BEGIN
    FOR v_batch IN SELECT b.batch_id FROM batches b WHERE b.state = 'approved' ORDER BY b.decided_at DESC LOOP
        PERFORM 1 FROM price_changes c WHERE c.batch_id = v_batch AND c.stage IN ('queued', 'unknown') LIMIT 1;
        IF FOUND THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END
$$;

-- Whether anything of the kind is left to call, or is being called.
CREATE FUNCTION repricer.has_work(p_kind text) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM store_calls r WHERE r.kind = p_kind AND r.settled_at IS NULL) THEN
        RETURN true;
    END IF;
    -- Each statement reads one table.
    IF p_kind = 'price_change' THEN
        RETURN has_changes_to_call();
    ELSIF p_kind = 'extension' THEN
        PERFORM 1 FROM extension_requests e WHERE e.state IN ('queued', 'sending', 'unknown') LIMIT 1;
    ELSIF p_kind = 'cancel' THEN
        PERFORM 1 FROM dependent_cancellations d WHERE d.state = 'requested' AND d.is_cross_subscription LIMIT 1;
    ELSE
        PERFORM 1 FROM mass_extensions m WHERE m.state IN ('queued', 'sending', 'unknown') LIMIT 1;
    END IF;
    RETURN FOUND;
END
$$;

-- Whether none of these kinds has work, and put_back_refused has looked since the latest halt and gives none any back.
CREATE FUNCTION repricer.is_idle(p_kinds text[]) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_kind text;
BEGIN
    FOREACH v_kind IN ARRAY p_kinds LOOP
        IF has_work(v_kind)
            OR EXISTS (SELECT FROM put_backs h WHERE h.kind = v_kind AND NOT h.is_done AND h.checks < 2)
        THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN true;
END
$$;

-- Ends halts and throttles for which no call is left that could probe them: when the last row that could be called ends,
-- nothing asks any more whether calls are answered again. What comes later is judged anew. Returns what has ended, and why it
-- had stood still.
CREATE FUNCTION repricer.end_idle_halts(p_at timestamptz) RETURNS TABLE (what text, reason text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_controls service_controls;
    -- An answered call of any kind shows that our key is good. What else price changes were refused for, only they can show.
    v_asking text[];
    v_kind text;
BEGIN
    SELECT * INTO v_controls FROM service_controls
        WHERE halted_at IS NOT NULL OR halted_kinds <> '{}' OR throttled_kinds <> '{}' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    v_asking := CASE WHEN starts_with(v_controls.halted_reason, '401')
        THEN ARRAY['price_change', 'cancel', 'extension', 'mass_extension'] ELSE ARRAY['price_change'] END;
    IF v_controls.halted_at IS NOT NULL AND is_idle(v_asking) THEN
        what := 'everything';
        reason := v_controls.halted_reason;
        UPDATE service_controls SET halted_at = NULL, halted_reason = NULL, halted_answer = NULL;
        UPDATE put_backs h SET ended_until = coalesce(h.ended_until, p_at) WHERE h.batch_id IS NULL
            AND NOT v_controls.halted_kinds ? h.kind;
        PERFORM append_audit(session_user::text, p_at, 'recover', what,
            json_build_object('halted_for', reason, 'because', 'nothing is left to call'));
        RETURN NEXT;
    END IF;
    FOR v_kind, reason IN SELECT h.key, h.value ->> 'reason' FROM jsonb_each(v_controls.halted_kinds) h LOOP
        CONTINUE WHEN NOT is_idle(ARRAY[v_kind]);
        what := 'calls:' || v_kind;
        UPDATE service_controls SET halted_kinds = halted_kinds - v_kind;
        UPDATE put_backs h SET ended_until = coalesce(h.ended_until, p_at) WHERE h.batch_id IS NULL AND h.kind = v_kind
            AND NOT EXISTS (SELECT FROM service_controls
                WHERE halted_at IS NOT NULL AND (kind = 'price_change' OR starts_with(halted_reason, '401')));
        PERFORM append_audit(session_user::text, p_at, 'recover', what,
            json_build_object('halted_for', reason, 'because', 'nothing is left to call'));
        RETURN NEXT;
    END LOOP;
    FOR v_kind, reason IN SELECT h.key, h.value ->> 'answer' FROM jsonb_each(v_controls.throttled_kinds) h LOOP
        CONTINUE WHEN NOT is_idle(ARRAY[v_kind]);
        what := 'throttle:' || v_kind;
        PERFORM end_throttle(v_kind);
        PERFORM append_audit(session_user::text, p_at, 'recover', what,
            json_build_object('throttled_for', reason, 'because', 'nothing is left to call'));
        RETURN NEXT;
    END LOOP;
END
$$;

-- The service pauses a batch. Returns false where the batch is paused already, or has ended. p_from is the first of the
-- refusals that halted it; null where it was not halted by refusals. p_code is their code, where a guard halts for them.
CREATE FUNCTION repricer.halt_batch(
    p_batch_id uuid, p_at timestamptz, p_by text, p_reason text, p_details json, p_probe_at timestamptz,
    p_from timestamptz DEFAULT NULL, p_code text DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
BEGIN
    PERFORM FROM batches WHERE batch_id = p_batch_id AND state = 'approved' AND NOT is_paused FOR UPDATE;
    IF NOT FOUND THEN
        -- A guard or a person may have been faster. What ended by the code that everybody meets is put back all the same.
        IF (p_probe_at IS NOT NULL OR p_code IS NOT NULL) AND EXISTS (
            SELECT FROM batches WHERE batch_id = p_batch_id AND state = 'approved' AND is_paused)
            AND NOT EXISTS (
                SELECT FROM put_backs WHERE kind = 'price_change' AND batch_id = p_batch_id AND code = coalesce(p_code, p_by)
                    AND ended_until IS NULL)
        THEN
            PERFORM note_put_back('price_change', p_batch_id, coalesce(p_code, p_by), p_from, p_code IS NOT NULL);
        END IF;
        RETURN false;
    END IF;
    PERFORM keep_batch(p_batch_id);
    UPDATE batches SET is_paused = true, halted_by = p_by, probe_at = p_probe_at, probe_answer = NULL, paused_by = v_by, paused_at = p_at,
            paused_reason = p_reason
        WHERE batch_id = p_batch_id;
    PERFORM note_put_back('price_change', p_batch_id, coalesce(p_code, p_by), p_from, p_code IS NOT NULL);
    PERFORM append_audit(session_user::text, p_at, 'halt', 'batch:' || p_batch_id,
        json_build_object('by', p_by, 'reason', p_reason, 'details', p_details));
    RETURN true;
END
$$;

-- Takes the right to make the one probe of a halted batch, until the end of the transaction. p_now is real time.
CREATE FUNCTION repricer.lock_probe(p_batch_id uuid, p_now timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    PERFORM FROM batches WHERE batch_id = p_batch_id AND is_paused AND probe_at <= p_now FOR UPDATE SKIP LOCKED;
    RETURN FOUND;
END
$$;

-- Notes that the probe is made, and that the next one is due at p_next (real time).
CREATE FUNCTION repricer.move_probe(p_batch_id uuid, p_next timestamptz) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = repricer, pg_temp
BEGIN ATOMIC
    UPDATE repricer.batches SET probe_at = p_next WHERE batch_id = p_batch_id AND probe_at IS NOT NULL;
END;

-- Notes that a probe of a batch that a code has halted was refused. The batch stays halted, and says what the latest
-- answer was.
CREATE FUNCTION repricer.note_probe_answer(p_batch_id uuid, p_answer text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = repricer, pg_temp
BEGIN ATOMIC
    UPDATE repricer.batches SET probe_answer = p_answer WHERE batch_id = p_batch_id AND probe_at IS NOT NULL;
END;

-- Lets a batch that a code has halted go on, because a probe of it was answered or nothing of it is left to call. Returns
-- false where a person has paused it, or where it is not halted any more.
CREATE FUNCTION repricer.recover_batch(p_batch_id uuid, p_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
BEGIN
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id AND is_paused AND probe_at IS NOT NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM keep_batch(p_batch_id);
    UPDATE batches SET is_paused = false, halted_by = NULL, probe_at = NULL, probe_answer = NULL, paused_by = NULL,
            paused_at = NULL, paused_reason = NULL
        WHERE batch_id = p_batch_id;
    UPDATE put_backs SET ended_until = coalesce(ended_until, p_at), is_recovered = true WHERE batch_id = p_batch_id;
    PERFORM append_audit(session_user::text, p_at, 'recover', 'batch:' || p_batch_id,
        json_build_object('halted_for', v_batch.paused_reason));
    RETURN true;
END
$$;

-- The service halts a storefront of a batch. Returns false where it is halted already, or the batch has ended.
-- p_probe_at is real time.
CREATE FUNCTION repricer.halt_storefront(
    p_batch_id uuid, p_storefront text, p_at timestamptz, p_by text, p_reason text, p_probe_at timestamptz DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    UPDATE batches SET is_parking = true, halted_storefronts = halted_storefronts || jsonb_build_object(
            p_storefront, jsonb_build_object('by', p_by, 'reason', p_reason, 'at', p_at, 'probe_at', p_probe_at))
        WHERE batch_id = p_batch_id AND state = 'approved' AND NOT halted_storefronts ? p_storefront;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM append_audit(session_user::text, p_at, 'halt', 'batch:' || p_batch_id,
        json_build_object('storefront', p_storefront, 'by', p_by, 'reason', p_reason));
    RETURN true;
END
$$;

-- Takes rows of halted storefronts out of the queues, one batch at a time and at most p_limit rows; returns how many.
-- They stay out until a probe is applied, or a person resumes the batch, so that they cost the other storefronts nothing.
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
    -- A row that another session has locked is being sent. If it comes back into the queue, the claim itself leaves it out.
    WITH taken AS (
        SELECT original_transaction_id, bucket, change_id FROM price_changes
        WHERE batch_id = v_batch.batch_id AND stage = 'queued' AND state = 'queued' AND NOT is_held
            AND v_batch.halted_storefronts ? storefront
            AND change_id::text IS DISTINCT FROM v_batch.halted_storefronts -> storefront ->> 'probe'
        LIMIT p_limit FOR UPDATE SKIP LOCKED
    )
    UPDATE price_changes c SET is_held = true FROM taken t
        WHERE c.original_transaction_id = t.original_transaction_id AND c.change_id = t.change_id
            AND c.bucket = t.bucket;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows < p_limit THEN
        UPDATE batches SET is_parking = false WHERE batch_id = v_batch.batch_id;
    END IF;
    RETURN v_rows;
END
$$;

-- For each halted storefront one row is sent each minute, a different one each time, as a probe for all. A probe without an
-- answer in its minute does not hold up the next one. Once a probe is applied the storefront goes on. Returns what became of
-- probes. p_at is the business clock; p_now and p_next are real time.
CREATE FUNCTION repricer.probe_storefronts(p_at timestamptz, p_now timestamptz, p_next timestamptz)
    RETURNS TABLE (batch_id uuid, storefront text, subscription text, answer text, has_recovered boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    v_halt jsonb;
    v_probe price_changes;
    v_is_locked boolean;
BEGIN
    FOR v_batch IN SELECT b.* FROM batches b
        WHERE b.state = 'approved' AND NOT b.is_paused AND b.halted_storefronts <> '{}'
        ORDER BY b.batch_id FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        FOR storefront, v_halt IN SELECT * FROM jsonb_each(v_batch.halted_storefronts)
        LOOP
            batch_id := v_batch.batch_id;
            SELECT * INTO v_probe FROM price_changes c
                WHERE c.batch_id = v_batch.batch_id AND c.change_id = (v_halt ->> 'probe')::uuid
                    AND c.original_transaction_id = v_halt ->> 'subscription';
            subscription := v_probe.original_transaction_id;
            -- A probe that waits for no further attempt never left, so its reason comes from an earlier attempt. A reason
            -- without a code does not come from the App Store.
            answer := CASE WHEN (v_probe.state <> 'queued' OR v_probe.next_attempt_at IS NOT NULL)
                AND v_probe.reason ~ '^[0-9]{3,} ' THEN v_probe.reason END;
            IF v_probe.stage IN ('scheduled', 'pending_consent', 'accepted', 'effective') THEN
                has_recovered := true;
                UPDATE batches b SET halted_storefronts = b.halted_storefronts - storefront WHERE b.batch_id = v_batch.batch_id;
                UPDATE price_changes c SET is_held = false
                    WHERE c.batch_id = v_batch.batch_id AND c.storefront = probe_storefronts.storefront
                        AND c.stage = 'queued' AND c.is_held;
                PERFORM append_audit(session_user::text, p_at, 'recover', 'batch:' || v_batch.batch_id,
                    json_build_object('storefront', storefront, 'halted_for', v_halt ->> 'reason'));
                RETURN NEXT;
            ELSIF (v_probe.state IN ('sending', 'unknown')
                    OR v_probe.state = 'queued' AND v_probe.next_attempt_at IS NULL AND NOT v_probe.is_held)
                AND (v_halt ->> 'probe_at')::timestamptz > p_now
            THEN
                -- The probe is on its way, or still has a part of its minute to leave.
                CONTINUE;
            ELSIF subscription IS NOT NULL AND v_probe.state NOT IN ('sending', 'unknown') THEN
                -- The probe was refused, has ended, or never left.
                has_recovered := false;
                UPDATE price_changes c SET is_held = true, next_attempt_at = p_now
                    WHERE c.original_transaction_id = v_probe.original_transaction_id AND c.bucket = v_probe.bucket
                        AND c.change_id = v_probe.change_id AND c.state = 'queued';
                UPDATE batches b SET halted_storefronts = jsonb_set(b.halted_storefronts, ARRAY[storefront],
                        v_halt - 'probe' - 'subscription'
                            || jsonb_strip_nulls(jsonb_build_object('answer', answer || ' for ' || subscription)))
                    WHERE b.batch_id = v_batch.batch_id;
                CONTINUE WHEN answer IS NULL;
                RETURN NEXT;
            ELSIF coalesce((v_halt ->> 'probe_at')::timestamptz, '-infinity') <= p_now THEN
                -- There is no probe, or it got no answer in its minute.
                -- A search over all buckets takes no lock on Citus. So what it finds is locked in its bucket, and checked again.
                v_is_locked := false;
                FOR v_probe IN SELECT * FROM price_changes c
                    WHERE c.batch_id = v_batch.batch_id AND c.storefront = probe_storefronts.storefront
                        AND c.stage = 'queued' AND c.state = 'queued' AND c.is_held AND (c.is_ready OR c.send_after <= p_at)
                        AND c.wave <= v_batch.released_wave
                    -- Rows that never probed come first.
                    ORDER BY c.next_attempt_at NULLS FIRST, c.send_by LIMIT 10
                LOOP
                    PERFORM FROM price_changes c
                        WHERE c.original_transaction_id = v_probe.original_transaction_id AND c.bucket = v_probe.bucket
                            AND c.change_id = v_probe.change_id AND c.state = 'queued' AND c.is_held
                            AND (c.is_ready OR c.send_after <= p_at)
                        FOR UPDATE SKIP LOCKED;
                    v_is_locked := FOUND;
                    EXIT WHEN v_is_locked;
                END LOOP;
                IF NOT v_is_locked AND NOT v_batch.is_parking THEN
                    -- A change that a claim held while the others were taken out has come back to the queue since.
                    PERFORM FROM price_changes c
                        WHERE c.batch_id = v_batch.batch_id AND c.storefront = probe_storefronts.storefront
                            AND c.stage = 'queued' AND c.state = 'queued' AND NOT c.is_held LIMIT 1;
                    IF FOUND THEN
                        UPDATE batches b SET is_parking = true WHERE b.batch_id = v_batch.batch_id;
                    ELSE
                        -- No change can probe now, and the search costs too much to repeat it all the time.
                        UPDATE batches b SET halted_storefronts = jsonb_set(b.halted_storefronts, ARRAY[storefront],
                                v_halt || jsonb_build_object('probe_at', p_next))
                            WHERE b.batch_id = v_batch.batch_id;
                    END IF;
                END IF;
                CONTINUE WHEN NOT v_is_locked;
                -- The former probe got no answer, and its own call waits with its storefront.
                IF subscription IS NOT NULL THEN
                    v_halt := v_halt || jsonb_build_object('answer', 'no answer for ' || subscription);
                END IF;
                UPDATE price_changes c SET is_held = false, is_ready = true, next_attempt_at = NULL
                    WHERE c.original_transaction_id = v_probe.original_transaction_id AND c.bucket = v_probe.bucket
                        AND c.change_id = v_probe.change_id;
                UPDATE batches b SET halted_storefronts = jsonb_set(b.halted_storefronts, ARRAY[storefront],
                        v_halt || jsonb_build_object('probe', v_probe.change_id, 'subscription',
                            v_probe.original_transaction_id, 'probe_at', p_next))
                    WHERE b.batch_id = v_batch.batch_id;
            END IF;
        END LOOP;
    END LOOP;
END
$$;

-- The service stops calling, because calls are refused alike. Returns false where it has stopped already. p_kind is
-- the kind of the refused calls, p_from the first of the refusals.
CREATE FUNCTION repricer.halt_service(
    p_at timestamptz, p_reason text, p_kind text DEFAULT NULL, p_from timestamptz DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    -- A refusal of price changes halts them alone. A refused key halts all kinds, also while price changes stand still.
    UPDATE service_controls SET halted_at = p_at, halted_reason = p_reason
        WHERE halted_at IS NULL OR starts_with(p_reason, '401') AND NOT starts_with(halted_reason, '401');
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM note_put_back(p_kind, NULL, split_part(p_reason, ' ', 1), p_from);
    PERFORM append_audit(session_user::text, p_at, 'halt', 'everything', json_build_object('reason', p_reason));
    RETURN true;
END
$$;

-- From now on no call leaves until what the App Store says since p_since has been read. Changes that a lost database may have
-- called since then, or since their submission, are followed: a statement that shows the price of one makes it scheduled.
-- Open calls are checked before they are sent once more. Extensions are sent again under their identifiers. Returns how many
-- changes are followed.
CREATE FUNCTION repricer.begin_catch_up(p_since timestamptz, p_from timestamptz, p_at timestamptz, p_by_person boolean)
    RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_changes bigint;
    v_ids text[];
    v_change_ids uuid[];
    v_sinces timestamptz[];
    v_recorded_at timestamptz;
    -- Citus refuses a CASE with session_user in an UPDATE.
    v_by text := session_user;
BEGIN
    UPDATE service_controls SET catch_up_since = least(catch_up_since, p_since),
        catch_up_from = greatest(catch_up_from, p_from), catch_up_by = CASE WHEN p_by_person THEN v_by ELSE catch_up_by END,
        database_identity = database_identity();
    -- Every writer of a subscription's changes and calls locks the subscription first; lock_subscriptions keeps the order.
    SELECT array_agg(s.original_transaction_id) INTO v_ids FROM subscriptions s
        WHERE EXISTS (SELECT FROM price_changes c
                WHERE c.original_transaction_id = s.original_transaction_id AND c.bucket = s.bucket
                    AND (c.stage IN ('awaiting_approval', 'queued') OR c.ended_at >= p_since))
            OR EXISTS (SELECT FROM store_calls r
                WHERE r.subject = s.original_transaction_id AND r.bucket = s.bucket AND r.settled_at IS NULL)
            OR EXISTS (SELECT FROM extension_requests e
                WHERE e.original_transaction_id = s.original_transaction_id AND e.bucket = s.bucket AND e.state = 'queued');
    PERFORM lock_subscriptions(v_ids);
    SELECT array_agg(c.original_transaction_id), array_agg(c.change_id), array_agg(greatest(p_since, b.submitted_at))
        INTO v_ids, v_change_ids, v_sinces
        FROM price_changes c JOIN batches b ON b.batch_id = c.batch_id
        -- A change that is held out is never called, so the lost database has not called it either.
        WHERE b.state <> 'rejected' AND NOT c.is_held_out
            AND (c.state IN ('awaiting_approval', 'queued')
                OR c.state IN ('rejected', 'ineligible', 'missed', 'aborted') AND c.ended_at >= p_since)
            AND (c.doubtful_since IS NULL OR c.doubtful_since > greatest(p_since, b.submitted_at));
    v_recorded_at := keep_changes(v_ids, v_change_ids);
    UPDATE price_changes c SET doubtful_since = least(c.doubtful_since, t.since), recorded_at = v_recorded_at
        FROM unnest(v_ids, v_change_ids, v_sinces) AS t (id, change_id, since)
        WHERE c.original_transaction_id = t.id AND c.change_id = t.change_id AND c.bucket = bucket_of(t.id);
    -- Changes that are followed already count, too, so that a person who recovers once more is told the same number.
    SELECT count(*) INTO v_changes FROM price_changes c JOIN batches b ON b.batch_id = c.batch_id
        WHERE b.state <> 'rejected' AND NOT c.is_held_out AND c.doubtful_since <= greatest(p_since, b.submitted_at)
            AND (c.state IN ('awaiting_approval', 'queued')
                OR c.state IN ('rejected', 'ineligible', 'missed', 'aborted') AND c.ended_at >= p_since);
    -- The lost database may have sent such a call again, and that attempt may be on its way until p_from.
    UPDATE store_calls SET next_step = 'check', in_flight_until = greatest(in_flight_until, p_from) WHERE settled_at IS NULL;
    -- An extension that waits here is sent under the same identifier, which the App Store answers as it did the first time. It
    -- is not judged, because the extension that it made itself could be in the way.
    UPDATE extension_requests e SET is_doubtful = true, called_at = least(e.called_at, greatest(p_since, e.requested_at)),
            renewal_before = coalesce(e.renewal_before, s.renewal_at)
        FROM subscriptions s
        WHERE e.state = 'queued' AND s.original_transaction_id = e.original_transaction_id AND s.bucket = e.bucket;
    UPDATE mass_extensions SET doubtful_since = least(doubtful_since, greatest(p_since, submitted_at))
        WHERE state IN ('awaiting_approval', 'queued');
    PERFORM append_audit(session_user::text, p_at, 'catch_up', 'everything',
        json_build_object('since', p_since, 'changes', v_changes, 'database', database_identity()));
    RETURN v_changes;
END
$$;

-- Records what a recovery found, so that a person who recovers again is told.
CREATE FUNCTION repricer.note_recovery(p_since timestamptz, p_at timestamptz, p_adopted bigint, p_released bigint,
    p_ended bigint, p_unread bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    PERFORM append_audit(session_user::text, p_at, 'recovered', 'everything',
        json_build_object('since', p_since, 'found', json_build_object('adopted', p_adopted, 'released', p_released,
            'ended', p_ended, 'unread', p_unread)));
END
$$;

-- What the App Store says has been read, so calls go on. p_is_restored: a database was lost, and the history may lack what it
-- did, so statuses are still to be read.
CREATE FUNCTION repricer.end_catch_up(p_is_restored boolean) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
UPDATE service_controls SET catch_up_since = NULL, catch_up_from = NULL, catch_up_by = NULL, catch_up_answer = NULL,
    is_restored = is_restored OR p_is_restored
$$;

-- Notes why the latest reading stopped before its end, while calls wait for it.
CREATE FUNCTION repricer.note_catch_up_answer(p_answer text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
UPDATE service_controls SET catch_up_answer = p_answer
    WHERE catch_up_since IS NOT NULL AND catch_up_answer IS DISTINCT FROM p_answer
$$;

-- Notices that this database is not the one of before. Nothing is lost where the history was never read and nothing was
-- approved. If the history was last read before p_oldest, it is read before any call leaves.
CREATE FUNCTION repricer.note_database(p_at timestamptz, p_from timestamptz, p_oldest timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_former text;
    v_read_through timestamptz;
    v_since timestamptz;
BEGIN
    -- This runs every second, so it locks nothing where there is nothing to note.
    IF EXISTS (SELECT FROM service_controls c, history_reading h
            WHERE c.database_identity = database_identity() AND (h.read_through < p_oldest) IS NOT TRUE) THEN
        RETURN;
    END IF;
    SELECT database_identity INTO v_former FROM service_controls FOR UPDATE;
    SELECT read_through, coalesce(least(read_through, window_start),
            least((SELECT min(decided_at) FROM batches WHERE state = 'approved'),
                (SELECT min(requested_at) FROM extension_requests), (SELECT min(submitted_at) FROM mass_extensions)))
        INTO v_read_through, v_since FROM history_reading;
    IF v_former <> database_identity() AND v_since IS NOT NULL THEN
        PERFORM begin_catch_up(v_since, p_from, p_at, false);
    ELSIF v_former IS DISTINCT FROM database_identity() THEN
        UPDATE service_controls SET database_identity = database_identity();
    END IF;
    IF v_read_through < p_oldest THEN
        UPDATE service_controls SET catch_up_since = least(catch_up_since, v_read_through);
    END IF;
END
$$;

-- Ends the halt of the service, because a call was answered again. Returns false where the service was not halted.
CREATE FUNCTION repricer.recover_service(p_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_reason text;
    v_kinds jsonb;
BEGIN
    SELECT halted_reason, halted_kinds INTO v_reason, v_kinds FROM service_controls WHERE halted_at IS NOT NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE service_controls SET halted_at = NULL, halted_reason = NULL, halted_answer = NULL;
    UPDATE put_backs SET ended_until = coalesce(ended_until, p_at), is_recovered = true WHERE batch_id IS NULL
        AND NOT v_kinds ? kind;
    PERFORM append_audit(session_user::text, p_at, 'recover', 'everything', json_build_object('halted_for', v_reason));
    RETURN true;
END
$$;

-- Halts calls of one kind, because they are refused alike. Returns false where they have stopped already.
CREATE FUNCTION repricer.halt_kind(
    p_kind text, p_at timestamptz, p_reason text, p_from timestamptz DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    UPDATE service_controls SET halted_kinds = halted_kinds
            || jsonb_build_object(p_kind, jsonb_build_object('at', p_at, 'reason', p_reason))
        WHERE NOT halted_kinds ? p_kind;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM note_put_back(p_kind, NULL, split_part(p_reason, ' ', 1), p_from);
    PERFORM append_audit(session_user::text, p_at, 'halt', 'calls:' || p_kind, json_build_object('reason', p_reason));
    RETURN true;
END
$$;

-- Ends the halt of a kind of call, because a call of it was answered. Returns false where the kind was not halted.
CREATE FUNCTION repricer.recover_kind(p_kind text, p_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_halt jsonb;
    v_is_halted boolean;
BEGIN
    -- A refusal of price changes halts them alone; a refused key halts all kinds.
    SELECT halted_kinds -> p_kind, halted_at IS NOT NULL AND (p_kind = 'price_change' OR starts_with(halted_reason, '401'))
        INTO v_halt, v_is_halted FROM service_controls WHERE halted_kinds ? p_kind FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE service_controls SET halted_kinds = halted_kinds - p_kind;
    UPDATE put_backs SET ended_until = coalesce(ended_until, p_at), is_recovered = true
        WHERE batch_id IS NULL AND kind = p_kind AND NOT v_is_halted;
    PERFORM append_audit(session_user::text, p_at, 'recover', 'calls:' || p_kind,
        json_build_object('halted_for', v_halt ->> 'reason'));
    RETURN true;
END
$$;

-- Notes that a probe of the service, or of a kind of call, was refused. The halt stays, and shows the latest answer.
CREATE FUNCTION repricer.note_halt_answer(p_kind text, p_answer text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_answer jsonb := to_jsonb(p_answer);
BEGIN
    UPDATE service_controls SET
        halted_answer = CASE WHEN p_kind IS NULL AND halted_at IS NOT NULL THEN p_answer ELSE halted_answer END,
        halted_kinds = CASE WHEN halted_kinds ? p_kind
            THEN jsonb_set(halted_kinds, ARRAY[p_kind, 'answer'], v_answer) ELSE halted_kinds END;
END
$$;

-- Notes that sessions hold rows since p_since; null: none do any more. p_is_all: changes are due, calls are allowed, and none
-- can be claimed. Where such a session holds this very row, nothing is written, because the note must not wait for it.
CREATE FUNCTION repricer.note_unclaimed(p_since timestamptz, p_sessions text, p_is_all boolean DEFAULT true)
    RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = repricer, pg_temp
BEGIN ATOMIC
    UPDATE repricer.blocking_sessions SET since = p_since, sessions = CASE WHEN p_since IS NOT NULL THEN p_sessions END,
            is_all = p_is_all AND p_since IS NOT NULL, seen_at = clock_timestamp()
        WHERE one_row = (SELECT one_row FROM repricer.blocking_sessions FOR UPDATE SKIP LOCKED);
END;

-- Throttles a kind of call, because the App Store gives no answers: its next call leaves at p_until. Where the kind is
-- throttled already, the earlier beginning stays.
CREATE FUNCTION repricer.throttle_kind(p_kind text, p_at timestamptz, p_until timestamptz, p_answer text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_since jsonb;
BEGIN
    IF NOT isfinite(p_until) OR NOT isfinite(p_at) THEN
        RAISE EXCEPTION 'a throttle begins and ends at an instant' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT coalesce(throttled_kinds #> ARRAY[p_kind, 'since'], to_jsonb(p_at)) INTO v_since
        FROM service_controls FOR UPDATE;
    UPDATE service_controls SET throttled_kinds = throttled_kinds || jsonb_build_object(p_kind,
        jsonb_build_object('since', v_since, 'until', p_until, 'answer', p_answer));
END
$$;

-- Ends the throttle, because the App Store answers again. Returns false where calls of the kind were not throttled.
CREATE FUNCTION repricer.end_throttle(p_kind text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    UPDATE service_controls SET throttled_kinds = throttled_kinds - p_kind WHERE throttled_kinds ? p_kind;
    RETURN FOUND;
END
$$;

-- Notes that no call of the kind can leave. A note that was not repeated for three minutes is of an earlier outage, so the
-- outage begins anew.
CREATE FUNCTION repricer.note_unreached(p_kind text, p_at timestamptz, p_answer text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_former jsonb;
    v_now CONSTANT timestamptz := clock_timestamp();
BEGIN
    IF NOT isfinite(p_at) THEN
        RAISE EXCEPTION 'a call is tried at an instant' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT unreached_kinds -> p_kind INTO v_former FROM service_controls FOR UPDATE;
    IF NOT coalesce(was_just_now((v_former ->> 'seen')::timestamptz), false) THEN
        v_former := jsonb_build_object('since', p_at);
    END IF;
    UPDATE service_controls SET unreached_kinds = unreached_kinds || jsonb_build_object(p_kind,
        v_former || jsonb_build_object('tried', p_at, 'answer', p_answer, 'seen', v_now));
END
$$;

-- Removes that note, because a call of the kind was answered.
CREATE FUNCTION repricer.end_unreached(p_kind text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
UPDATE service_controls SET unreached_kinds = unreached_kinds - p_kind WHERE unreached_kinds ? p_kind
$$;

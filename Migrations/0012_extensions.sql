-- How people request extensions of renewal dates, for one subscription or for all of a product, and which request a told
-- extension belongs to.
-- Locks: none on existing tables.
-- breaking: no

-- Which request of ours an extension belongs to, since no notification names it.
-- * A mass extension tells one thing for each subscription. What follows within its window comes from another program.
-- * A notification belongs to a call for the subscription itself where the answer of that call named its date. A call whose
--   answer was lost gets it only where nothing else explains it and the days agree; in the Sandbox, where a day may be short,
--   any length agrees. Otherwise the call is repeated under its identifier, which Apple answers as it did the first time.
-- Clocks may differ by five minutes, and a notification may be signed up to a day after the summary.
CREATE VIEW repricer.attributed_extensions AS
SELECT e.*, coalesce(c.extension_id, m.extension_id) AS extension_id, c.extension_id IS NOT NULL AS is_single
FROM repricer.renewal_extensions e
LEFT JOIN LATERAL (
    SELECT m.extension_id, m.extend_by_days FROM repricer.mass_extensions m
    WHERE m.product_id = e.product_id AND m.state <> 'refused'
        AND (m.storefronts IS NULL OR e.storefront = ANY (m.storefronts))
        AND e.told_at >= m.called_at - interval '5 minutes'
        AND e.told_at <= coalesce(m.completed_at + interval '1 day', 'infinity')
        AND NOT EXISTS (
            SELECT FROM repricer.renewal_extensions p
            WHERE p.original_transaction_id = e.original_transaction_id AND p.bucket = e.bucket
                AND p.told_at >= m.called_at - interval '5 minutes'
                AND (p.told_at, p.evidence_id) < (e.told_at, e.evidence_id)
                AND (p.outcome = 'failed', p.renewal_at) IS DISTINCT FROM (e.outcome = 'failed', e.renewal_at)
                AND NOT EXISTS (
                    SELECT FROM repricer.extension_requests o
                    WHERE o.original_transaction_id = p.original_transaction_id AND o.bucket = p.bucket
                        AND o.state = 'extended' AND o.effective_at = p.renewal_at))
    ORDER BY m.called_at DESC LIMIT 1
) m ON true
LEFT JOIN LATERAL (
    SELECT c.extension_id FROM repricer.extension_requests c
    WHERE c.original_transaction_id = e.original_transaction_id AND c.bucket = e.bucket AND e.outcome <> 'failed'
        AND e.told_at >= c.called_at - interval '5 minutes'
        AND CASE
            WHEN c.state = 'extended' THEN c.effective_at IS NULL OR c.effective_at = e.renewal_at
            WHEN c.state IN ('sending', 'unknown') THEN
                -- A mass extension that failed for this subscription explains nothing, nor does one of other days; the
                -- subscription is extended by a request of its own.
                (m.extension_id IS NULL OR m.extension_id = c.mass_extension_id
                    OR NOT c.is_of_sandbox AND m.extend_by_days <> c.extend_by_days)
                AND (c.is_of_sandbox OR e.renewal_at = e.renewal_before + c.extend_by_days * interval '24 hours')
            ELSE false END
    ORDER BY c.called_at DESC LIMIT 1
) c ON true;

-- Requests one extension. Returns true where it is new. A second request with the same identifier and the same terms changes
-- nothing.
CREATE FUNCTION repricer.request_extension(
    p_original_transaction_id text, p_extension_id uuid, p_days integer, p_reason integer, p_note text,
    p_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_known extension_requests;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    PERFORM 1 FROM subscriptions WHERE original_transaction_id = p_original_transaction_id
        AND bucket = bucket_of(p_original_transaction_id) FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown_subscription: nothing was ever received of %', p_original_transaction_id
            USING ERRCODE = 'no_data_found';
    END IF;
    SELECT * INTO v_known FROM extension_requests WHERE extension_id = p_extension_id LIMIT 1;
    IF FOUND THEN
        IF (v_known.original_transaction_id, v_known.extend_by_days, v_known.reason_code)
            IS DISTINCT FROM (p_original_transaction_id, p_days, p_reason)
        THEN
            RAISE EXCEPTION 'request % was made with other terms: % by % days, reason %', p_extension_id,
                v_known.original_transaction_id, v_known.extend_by_days, v_known.reason_code
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        RETURN false;
    END IF;
    -- The App Store answers a known identifier as it did the first time, and extends nothing.
    IF EXISTS (SELECT FROM mass_extensions WHERE extension_id = p_extension_id) THEN
        RAISE EXCEPTION 'request % is a mass extension; one of a single subscription needs an identifier of its own',
            p_extension_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF EXISTS (SELECT 1 FROM extension_requests WHERE original_transaction_id = p_original_transaction_id
        AND bucket = bucket_of(p_original_transaction_id) AND state IN ('queued', 'sending', 'unknown'))
    THEN
        RAISE EXCEPTION 'extension_open: another extension of % is under way', p_original_transaction_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO extension_requests (original_transaction_id, bucket, extension_id, extend_by_days, reason_code, note,
            requested_by, requested_at)
        VALUES (p_original_transaction_id, bucket_of(p_original_transaction_id), p_extension_id, p_days, p_reason, p_note, v_by, p_at);
    PERFORM append_audit(session_user::text, p_at, 'extend', 'extension:' || p_extension_id,
        json_build_object('subscription', p_original_transaction_id, 'days', p_days, 'reason', p_reason,
            'note', p_note));
    RETURN true;
END
$$;

-- Requests a mass extension. Returns true where it is new.
CREATE FUNCTION repricer.request_mass_extension(
    p_extension_id uuid, p_product_id text, p_storefronts text[], p_days integer, p_reason integer, p_note text,
    p_eligible bigint, p_ineligible jsonb, p_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_known mass_extensions;
    v_open uuid;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_known FROM mass_extensions WHERE extension_id = p_extension_id FOR UPDATE;
    IF FOUND THEN
        IF (v_known.product_id, v_known.storefronts, v_known.extend_by_days, v_known.reason_code)
            IS DISTINCT FROM (p_product_id, p_storefronts, p_days, p_reason)
        THEN
            RAISE EXCEPTION 'request % was made with other terms', p_extension_id
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        RETURN false;
    END IF;
    IF EXISTS (SELECT 1 FROM extension_requests WHERE extension_id = p_extension_id) THEN
        RAISE EXCEPTION 'request % is an extension of one subscription; a mass extension needs an identifier of its own',
            p_extension_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    SELECT extension_id INTO v_open FROM mass_extensions WHERE product_id = p_product_id
        AND state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'running');
    IF FOUND THEN
        RAISE EXCEPTION 'mass extension % of % is under way; it must be complete before another begins',
            v_open, p_product_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO mass_extensions (extension_id, product_id, storefronts, extend_by_days, reason_code, note,
            eligible_count, ineligible, submitted_by, submitted_at)
        VALUES (p_extension_id, p_product_id, p_storefronts, p_days, p_reason, p_note, p_eligible, p_ineligible,
            v_by, p_at);
    PERFORM append_audit(session_user::text, p_at, 'submit', 'extension:' || p_extension_id,
        json_build_object('product', p_product_id, 'storefronts', p_storefronts, 'days', p_days,
            'reason', p_reason, 'note', p_note, 'eligible', p_eligible, 'ineligible', p_ineligible));
    RETURN true;
END
$$;

-- Whether session_user may approve a mass extension alone, judged as approval_shortfall judges batches: by the number of
-- subscriptions that it may reach according to the facts, not according to its submitter. Nobody pays more, so limits of
-- money and of percent do not apply.
CREATE FUNCTION repricer.extension_shortfall(p_extension_id uuid) RETURNS text[]
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp AS $$
DECLARE
    v_rows bigint;
    v_exceeded text[];
BEGIN
    IF NOT EXISTS (SELECT FROM approval_limits) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM mass_extension_approvals
        WHERE extension_id = p_extension_id AND approver = session_user)
    THEN
        RAISE EXCEPTION 'user % has given the first approval; another approver must give the second', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT count(*) INTO v_rows FROM subscriptions s, mass_extensions m
        WHERE m.extension_id = p_extension_id AND s.product_id = m.product_id
            AND (m.storefronts IS NULL OR s.storefront IS NULL OR s.storefront = ANY (m.storefronts))
            AND coalesce(s.status NOT IN (2, 5), true);
    v_exceeded := approver_shortfall(session_user,
        EXISTS (SELECT FROM mass_extension_approvals a
            WHERE a.extension_id = p_extension_id AND may_approve(a.approver)), v_rows, 0, '{}');
    IF v_exceeded IS NULL THEN
        RAISE EXCEPTION 'user % may not approve: no approval limit names them or a role of theirs', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF v_exceeded = '{}' OR EXISTS (
        SELECT FROM mass_extension_approvals a
        WHERE a.extension_id = p_extension_id AND may_approve(a.approver) AND approver_shortfall(a.approver, true, v_rows, 0, '{}') = '{}')
    THEN
        RETURN NULL;
    END IF;
    RETURN v_exceeded;
END
$$;

-- Approves a mass extension. Returns null where it is approved. Otherwise the approval is recorded as the first, and
-- the result says what exceeds the limits.
CREATE FUNCTION repricer.approve_extension(p_extension_id uuid, p_at timestamptz) RETURNS text[]
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_mass mass_extensions;
    v_exceeded text[];
    v_first text;
    v_details json;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_mass FROM mass_extensions WHERE extension_id = p_extension_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no mass extension %', p_extension_id USING ERRCODE = 'no_data_found';
    END IF;
    IF v_mass.state <> 'awaiting_approval' THEN
        RAISE EXCEPTION 'mass extension % is %, not awaiting approval', p_extension_id, v_mass.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM require_another(v_mass.submitted_by, 'extension');
    LOCK TABLE approval_limits IN SHARE MODE;
    v_exceeded := extension_shortfall(p_extension_id);
    v_details := json_build_object('product', v_mass.product_id, 'storefronts', v_mass.storefronts,
        'days', v_mass.extend_by_days, 'submitted_by', v_mass.submitted_by, 'eligible', v_mass.eligible_count,
        'exceeded', v_exceeded);
    IF v_exceeded IS NOT NULL THEN
        INSERT INTO mass_extension_approvals (extension_id, approver, approved_at, exceeded)
            VALUES (p_extension_id, v_by, p_at, v_exceeded);
        PERFORM append_audit(session_user::text, p_at, 'approve_first', 'extension:' || p_extension_id,
            v_details);
        RETURN v_exceeded;
    END IF;
    UPDATE mass_extensions SET state = 'queued', decided_by = v_by, decided_at = p_at
        WHERE extension_id = p_extension_id;
    SELECT string_agg(approver, ', ' ORDER BY approver) INTO v_first
        FROM mass_extension_approvals WHERE extension_id = p_extension_id;
    PERFORM append_audit(session_user::text, p_at, 'approve', 'extension:' || p_extension_id,
        (v_details::jsonb || jsonb_build_object('first_approved_by', v_first))::json);
    RETURN NULL;
END
$$;

-- Withdraws a request for which no call was made; the submitter may, too. An earlier approval stays on record.
CREATE FUNCTION repricer.reject_extension(p_extension_id uuid, p_reason text, p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_mass mass_extensions;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_mass FROM mass_extensions WHERE extension_id = p_extension_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no mass extension %', p_extension_id USING ERRCODE = 'no_data_found';
    END IF;
    IF v_mass.state NOT IN ('awaiting_approval', 'queued') OR v_mass.called_at IS NOT NULL THEN
        RAISE EXCEPTION 'mass extension % is %: it can''t be taken back', p_extension_id, v_mass.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- It is sent again under its identifier, and the App Store applies an identifier only once.
    IF v_mass.state = 'queued' AND v_mass.doubtful_since IS NOT NULL THEN
        RAISE EXCEPTION 'mass extension % may have been called by the database that is lost: it can''t be taken back',
            p_extension_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    UPDATE mass_extensions SET state = 'rejected', rejected_by = v_by, rejected_at = p_at,
            decision_reason = p_reason
        WHERE extension_id = p_extension_id;
    PERFORM append_audit(session_user::text, p_at, 'reject', 'extension:' || p_extension_id,
        json_build_object('reason', p_reason));
END
$$;

-- Gives up a mass extension that the App Store has lost, or never knew although it had answered. It would stay open for ever,
-- and no other one of its product could begin. This is refused before a day is over, and unless the App Store answers that
-- it knows no such request. What is told of it later still counts. The request for one subscription is given up where no call
-- of it is out: one that the App Store refuses in words that say nothing would be tried again for ever.
CREATE FUNCTION repricer.give_up_extension(p_extension_id uuid, p_reason text, p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_detail text := format('given up by %s: %s', session_user, p_reason);
    v_mass mass_extensions;
    v_call store_calls;
    v_id text;
    v_bucket smallint;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    FOR v_id, v_bucket IN SELECT e.original_transaction_id, e.bucket FROM extension_requests e
        WHERE e.extension_id = p_extension_id ORDER BY e.original_transaction_id
    LOOP
        -- Who calls it, or settles it, holds this lock.
        PERFORM 1 FROM subscriptions s WHERE s.original_transaction_id = v_id AND s.bucket = v_bucket FOR UPDATE;
        UPDATE extension_requests e SET state = 'refused', settled_at = p_at, settled_by = 'judgement', next_attempt_at = NULL,
            detail = v_detail
        WHERE e.original_transaction_id = v_id AND e.bucket = v_bucket AND e.extension_id = p_extension_id
            AND e.state = 'queued';
        IF NOT FOUND THEN
            RAISE EXCEPTION 'extension % is being called, or has ended: only one that waits can be given up',
                p_extension_id USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        PERFORM append_audit(session_user::text, p_at, 'give_up', 'extension:' || p_extension_id,
            json_build_object('reason', p_reason, 'subscription', v_id));
    END LOOP;
    IF FOUND THEN
        RETURN;
    END IF;
    -- The call is locked first, in the order of those who settle it.
    SELECT c.* INTO v_call FROM store_calls c JOIN mass_extensions m
        ON c.subject = 'product:' || m.product_id AND c.bucket = bucket_of('product:' || m.product_id)
    WHERE m.extension_id = p_extension_id AND p_extension_id = ANY (c.carries) AND c.state IN ('sending', 'unknown')
    FOR UPDATE OF c;
    SELECT * INTO v_mass FROM mass_extensions WHERE extension_id = p_extension_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no mass extension %', p_extension_id USING ERRCODE = 'no_data_found';
    END IF;
    -- A call whose last attempt was refused in words that explain nothing counts, after a day, like one that is denied.
    IF v_mass.state NOT IN ('running', 'unknown') THEN
        RAISE EXCEPTION 'mass extension % is %: only one that was called, and has not ended, can be given up',
            p_extension_id, v_mass.state USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF v_mass.code IS DISTINCT FROM 'StatusRequestNotFoundError'
        AND (v_mass.state = 'running' OR v_mass.detail IS NULL OR v_mass.detail !~ '^[0-9]{3,} ')
    THEN
        RAISE EXCEPTION 'the App Store has not denied mass extension %: it is at work', p_extension_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF p_at < v_mass.called_at + interval '1 day' THEN
        RAISE EXCEPTION 'mass extension % was called less than a day ago; the App Store may still learn of it',
            p_extension_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- A repetition that is on its way has no next attempt, and the App Store may apply a request for a while after it left.
    IF v_call.state = 'sending' OR v_call.next_attempt_at IS NULL AND v_call.next_step = 'send'
        OR v_call.in_flight_until > clock_timestamp()
    THEN
        RAISE EXCEPTION 'mass extension % is being called; try again in two minutes', p_extension_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- The call ends, too, so that a process that is checking it writes nothing.
    UPDATE store_calls SET state = 'refused', settled_at = p_at, is_doubtful = true, error_message = 'given_up'
        WHERE subject = 'product:' || v_mass.product_id
            AND bucket = bucket_of('product:' || v_mass.product_id)
            AND p_extension_id = ANY (carries) AND state IN ('sending', 'unknown');
    UPDATE mass_extensions SET state = 'given_up', completed_at = p_at, next_attempt_at = NULL, detail = v_detail
        WHERE extension_id = p_extension_id;
    PERFORM append_audit(session_user::text, p_at, 'give_up', 'extension:' || p_extension_id,
        json_build_object('reason', p_reason, 'code', v_mass.code));
END
$$;

-- The subscriptions for which a mass extension failed, and for which no extension was told or requested since.
CREATE FUNCTION repricer.failed_extensions(p_extension_id uuid) RETURNS SETOF text
    LANGUAGE sql STABLE SET search_path = repricer, pg_temp AS $$
SELECT DISTINCT f.original_transaction_id FROM attributed_extensions f
WHERE f.extension_id = p_extension_id AND f.outcome = 'failed'
    AND NOT EXISTS (
        SELECT FROM renewal_extensions l WHERE l.original_transaction_id = f.original_transaction_id
            AND l.outcome <> 'failed' AND l.told_at > f.told_at)
    AND NOT EXISTS (
        SELECT FROM extension_requests c WHERE c.original_transaction_id = f.original_transaction_id
            AND (c.state IN ('queued', 'sending', 'unknown')
                OR c.mass_extension_id = p_extension_id AND c.state = 'extended'))
$$;

-- Requests the failed extensions of a mass extension again, one by one and on its terms. Returns how many are new.
CREATE FUNCTION repricer.request_retries(
    p_mass_extension_id uuid, p_ids text[], p_extension_ids uuid[], p_at timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_mass mass_extensions;
    v_count bigint;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_mass FROM mass_extensions WHERE extension_id = p_mass_extension_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no mass extension %', p_mass_extension_id USING ERRCODE = 'no_data_found';
    END IF;
    IF v_mass.called_at IS NULL THEN
        RAISE EXCEPTION 'mass extension % is %: nothing of it can have failed', p_mass_extension_id, v_mass.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO extension_requests (original_transaction_id, bucket, extension_id, mass_extension_id, extend_by_days,
            reason_code, requested_by, requested_at)
        SELECT w.id, bucket_of(w.id), w.extension_id, p_mass_extension_id, v_mass.extend_by_days, v_mass.reason_code,
            v_by, p_at
        FROM unnest(p_ids, p_extension_ids) AS w (id, extension_id)
        WHERE w.id IN (SELECT failed_extensions(p_mass_extension_id))
        ORDER BY w.id
        ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count > 0 THEN
        PERFORM append_audit(session_user::text, p_at, 'retry_failed', 'extension:' || p_mass_extension_id,
            json_build_object('subscriptions', v_count));
    END IF;
    RETURN v_count;
END
$$;

-- Renewal-date extensions: what people asked for, each call with its identifier written down before it is made, what
-- the App Store told of each subscription, and the summaries of mass extensions.
-- Locks: subscriptions for an instant, for a column without a default.
-- breaking: no

-- Family members' subscriptions can't be extended by themselves.
ALTER TABLE repricer.subscriptions ADD COLUMN ownership_type text;

-- Extend Subscription Renewal Dates for All Active Subscribers: one row a request. Written by the functions below
-- and, after its approval, by the service.
CREATE TABLE repricer.mass_extensions (
    -- The request identifier: the same again is the same request.
    extension_id uuid NOT NULL,
    product_id text NOT NULL,
    -- Null: all storefronts.
    storefronts text[],
    extend_by_days integer NOT NULL,
    reason_code integer NOT NULL,
    note text,
    -- What the facts said when it was asked for.
    eligible_count bigint NOT NULL,
    ineligible jsonb NOT NULL DEFAULT '{}',
    state text NOT NULL DEFAULT 'awaiting_approval',
    submitted_by text NOT NULL,
    submitted_at timestamptz NOT NULL,
    decided_by text,
    decided_at timestamptz,
    decision_reason text,
    -- The first call, by the business clock.
    called_at timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    -- An earlier attempt may have been taken though its answer was lost.
    may_be_running boolean NOT NULL DEFAULT false,
    -- Real time: a call or a look is due, and the lease of the process that makes it.
    next_attempt_at timestamptz,
    lease_owner uuid,
    leased_until timestamptz,
    code text,
    detail text,
    completed_at timestamptz,
    -- As Get Status of Subscription Renewal Date Extensions counts.
    status_succeeded bigint,
    status_failed bigint,
    -- As the SUMMARY counts.
    summary_evidence text,
    summary_succeeded bigint,
    summary_failed bigint,
    CONSTRAINT mass_extensions_pkey PRIMARY KEY (extension_id),
    CONSTRAINT mass_extensions_days CHECK (extend_by_days BETWEEN 1 AND 90),
    CONSTRAINT mass_extensions_reason CHECK (reason_code BETWEEN 0 AND 3),
    CONSTRAINT mass_extensions_product CHECK (length(product_id) BETWEEN 1 AND 255),
    CONSTRAINT mass_extensions_storefronts CHECK (cardinality(storefronts) > 0),
    CONSTRAINT mass_extensions_second_pair_of_eyes CHECK (
        decided_by IS NULL OR state = 'rejected' OR decided_by <> submitted_by),
    CONSTRAINT mass_extensions_decided CHECK (
        state = 'awaiting_approval' OR (decided_by IS NOT NULL AND decided_at IS NOT NULL)),
    CONSTRAINT mass_extensions_complete CHECK (state <> 'complete' OR completed_at IS NOT NULL),
    CONSTRAINT mass_extensions_state CHECK (state IN (
        'awaiting_approval', 'queued', 'sending', 'unknown', 'running', 'complete', 'refused', 'rejected'))
);
-- One at a time for a product: which of two an extended subscription belongs to could not be told.
CREATE UNIQUE INDEX mass_extensions_one_open ON repricer.mass_extensions (product_id)
    WHERE state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'running');
COMMENT ON TABLE repricer.mass_extensions IS
    'Requests to extend the renewal dates of all subscribers of a product.';

CREATE TABLE repricer.mass_extension_approvals (
    extension_id uuid NOT NULL REFERENCES repricer.mass_extensions,
    approver text NOT NULL,
    approved_at timestamptz NOT NULL,
    exceeded text[] NOT NULL,
    CONSTRAINT mass_extension_approvals_pkey PRIMARY KEY (extension_id, approver)
);
COMMENT ON TABLE repricer.mass_extension_approvals IS
    'Append-only. Who approved a mass extension beyond their limits, as first_approvals of batches.';

-- Extend a Subscription Renewal Date: one row a request, whether asked for by itself or as a retry.
CREATE TABLE repricer.extension_calls (
    original_transaction_id text NOT NULL REFERENCES repricer.subscriptions,
    -- The request identifier.
    extension_id uuid NOT NULL,
    bucket smallint GENERATED ALWAYS AS
        ((hashtextextended(original_transaction_id, 0) & 63)::smallint) STORED,
    -- The mass extension that failed for it.
    mass_extension_id uuid,
    extend_by_days integer NOT NULL,
    reason_code integer NOT NULL,
    note text,
    state text NOT NULL DEFAULT 'queued',
    requested_by text NOT NULL,
    requested_at timestamptz NOT NULL,
    called_at timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    may_be_applied boolean NOT NULL DEFAULT false,
    next_attempt_at timestamptz,
    lease_owner uuid,
    leased_until timestamptz,
    renewal_before timestamptz,
    -- The new renewal date, as the answer, a notification or a status told it.
    effective_at timestamptz,
    settled_at timestamptz,
    settled_by text,
    code text,
    detail text,
    CONSTRAINT extension_calls_pkey PRIMARY KEY (original_transaction_id, extension_id),
    CONSTRAINT extension_calls_days CHECK (extend_by_days BETWEEN 1 AND 90),
    CONSTRAINT extension_calls_reason CHECK (reason_code BETWEEN 0 AND 3),
    CONSTRAINT extension_calls_state CHECK (
        state IN ('queued', 'sending', 'unknown', 'extended', 'refused', 'ineligible')),
    CONSTRAINT extension_calls_settled CHECK (
        (state IN ('extended', 'refused', 'ineligible')) = (settled_at IS NOT NULL)),
    CONSTRAINT extension_calls_settled_by CHECK (
        settled_by IN ('answer', 'notification', 'status', 'judgement'))
);
CREATE UNIQUE INDEX extension_calls_one_open ON repricer.extension_calls (original_transaction_id)
    WHERE state IN ('queued', 'sending', 'unknown');
CREATE INDEX extension_calls_due ON repricer.extension_calls (bucket, next_attempt_at NULLS FIRST)
    WHERE state IN ('queued', 'sending', 'unknown');
CREATE INDEX extension_calls_of_mass ON repricer.extension_calls (mass_extension_id);
CREATE INDEX extension_calls_id ON repricer.extension_calls (extension_id);

-- What the App Store told of each subscription; written by the fold alone.
CREATE TABLE repricer.renewal_extensions (
    original_transaction_id text NOT NULL,
    evidence_id text NOT NULL,
    told_at timestamptz NOT NULL,
    outcome text NOT NULL,
    product_id text,
    storefront text,
    renewal_before timestamptz,
    renewal_at timestamptz,
    CONSTRAINT renewal_extensions_pkey PRIMARY KEY (original_transaction_id, evidence_id),
    CONSTRAINT renewal_extensions_outcome CHECK (outcome IN ('extended', 'failed', 'seen'))
);
CREATE INDEX renewal_extensions_of_product ON repricer.renewal_extensions (product_id, told_at);
COMMENT ON COLUMN repricer.renewal_extensions.outcome IS
    'extended, failed (of a mass extension), seen (by another statement, without its notification).';

-- SUMMARY notifications: they name no subscription, so they have an inbox of their own.
CREATE TABLE repricer.extension_summaries (
    notification_uuid text NOT NULL,
    received_at timestamptz NOT NULL,
    signed_at timestamptz,
    folded_at timestamptz,
    request_identifier text,
    product_id text,
    storefronts text[],
    succeeded bigint,
    failed bigint,
    -- Null for a request that was never made here.
    extension_id uuid,
    detail text,
    CONSTRAINT extension_summaries_pkey PRIMARY KEY (notification_uuid)
);
CREATE INDEX extension_summaries_waiting ON repricer.extension_summaries (received_at)
    WHERE folded_at IS NULL;
INSERT INTO repricer.extension_summaries (notification_uuid, received_at, signed_at)
    SELECT notification_uuid, received_at, signed_at FROM repricer.notifications
    WHERE type = 'RENEWAL_EXTENSION' AND subtype IN ('SUMMARY', 'SUCCESS');

-- Subscriptions with unsent changes whose renewal moved: their dates are to be reckoned anew.
CREATE TABLE repricer.moved_renewals (
    original_transaction_id text NOT NULL,
    moved_at timestamptz NOT NULL,
    CONSTRAINT moved_renewals_pkey PRIMARY KEY (original_transaction_id)
);

-- Which request of ours an extension belongs to: no notification names it. A call of the subscription's own goes
-- before a mass extension of its product. Clocks may differ by five minutes, and a notification may be signed up to a
-- day after the summary.
CREATE VIEW repricer.attributed_extensions AS
SELECT e.*, coalesce(c.extension_id, m.extension_id) AS extension_id, c.extension_id IS NOT NULL AS is_single
FROM repricer.renewal_extensions e
LEFT JOIN LATERAL (
    SELECT c.extension_id FROM repricer.extension_calls c
    WHERE c.original_transaction_id = e.original_transaction_id AND e.outcome <> 'failed'
        AND c.called_at IS NOT NULL AND c.state NOT IN ('refused', 'ineligible')
        AND e.told_at >= c.called_at - interval '5 minutes'
        AND (c.effective_at IS NULL OR c.effective_at = e.renewal_at)
    ORDER BY c.called_at DESC LIMIT 1
) c ON true
LEFT JOIN LATERAL (
    SELECT m.extension_id FROM repricer.mass_extensions m
    WHERE c.extension_id IS NULL AND m.product_id = e.product_id
        AND (m.storefronts IS NULL OR e.storefront = ANY (m.storefronts))
        AND e.told_at >= m.called_at - interval '5 minutes'
        AND e.told_at <= coalesce(m.completed_at + interval '1 day', 'infinity')
    ORDER BY m.called_at DESC LIMIT 1
) m ON true;

-- Asks for one extension; true where it is new. The same identifier again, with the same terms, changes nothing.
CREATE FUNCTION repricer.request_extension(
    p_original_transaction_id text, p_extension_id uuid, p_days integer, p_reason integer, p_note text,
    p_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_known extension_calls;
BEGIN
    PERFORM require_pricing();
    PERFORM 1 FROM subscriptions WHERE original_transaction_id = p_original_transaction_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown_subscription: nothing was ever received of %', p_original_transaction_id
            USING ERRCODE = 'no_data_found';
    END IF;
    SELECT * INTO v_known FROM extension_calls WHERE extension_id = p_extension_id LIMIT 1;
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
    IF EXISTS (SELECT FROM extension_calls WHERE original_transaction_id = p_original_transaction_id
        AND state IN ('queued', 'sending', 'unknown'))
    THEN
        RAISE EXCEPTION 'extension_open: another extension of % is under way', p_original_transaction_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO extension_calls (original_transaction_id, extension_id, extend_by_days, reason_code, note,
            requested_by, requested_at)
        VALUES (p_original_transaction_id, p_extension_id, p_days, p_reason, p_note, session_user, p_at);
    PERFORM append_audit(session_user::text, p_at, 'extend', 'extension:' || p_extension_id,
        json_build_object('subscription', p_original_transaction_id, 'days', p_days, 'reason', p_reason,
            'note', p_note));
    RETURN true;
END
$$;

-- Asks for a mass extension; true where it is new.
CREATE FUNCTION repricer.request_mass_extension(
    p_extension_id uuid, p_product_id text, p_storefronts text[], p_days integer, p_reason integer, p_note text,
    p_eligible bigint, p_ineligible jsonb, p_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_known mass_extensions;
    v_open uuid;
BEGIN
    PERFORM require_pricing();
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
    SELECT extension_id INTO v_open FROM mass_extensions WHERE product_id = p_product_id
        AND state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'running');
    IF FOUND THEN
        RAISE EXCEPTION 'mass extension % of % is under way; it must be complete before another begins',
            v_open, p_product_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO mass_extensions (extension_id, product_id, storefronts, extend_by_days, reason_code, note,
            eligible_count, ineligible, submitted_by, submitted_at)
        VALUES (p_extension_id, p_product_id, p_storefronts, p_days, p_reason, p_note, p_eligible, p_ineligible,
            session_user, p_at);
    PERFORM append_audit(session_user::text, p_at, 'submit', 'extension:' || p_extension_id,
        json_build_object('product', p_product_id, 'storefronts', p_storefronts, 'days', p_days,
            'reason', p_reason, 'note', p_note, 'eligible', p_eligible, 'ineligible', p_ineligible));
    RETURN true;
END
$$;

-- Whether session_user may approve it alone, as approval_shortfall judges batches: by the number of subscriptions
-- that the facts say it may reach, not by what its submitter counted. Nobody pays more, so limits of money and of
-- percent do not apply.
CREATE FUNCTION repricer.extension_shortfall(p_extension_id uuid) RETURNS text[]
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp AS $$
DECLARE
    v_rows bigint;
    v_limit approval_limits;
    v_exceeded text[];
    v_best text[];
    v_has_first boolean;
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
    v_has_first := EXISTS (SELECT FROM mass_extension_approvals WHERE extension_id = p_extension_id);
    SELECT count(*) INTO v_rows FROM subscriptions s, mass_extensions m
        WHERE m.extension_id = p_extension_id AND s.product_id = m.product_id
            AND (m.storefronts IS NULL OR s.storefront IS NULL OR s.storefront = ANY (m.storefronts))
            AND coalesce(s.status NOT IN (2, 5), true);
    FOR v_limit IN
        SELECT l.* FROM approval_limits l
        WHERE l.approver = session_user
            OR NOT EXISTS (SELECT FROM approval_limits o WHERE o.approver = session_user)
                AND EXISTS (SELECT FROM pg_roles r
                    WHERE r.rolname = l.approver AND pg_has_role(session_user, r.oid, 'MEMBER'))
        ORDER BY l.approver
    LOOP
        v_exceeded := limits_exceeded(v_limit, v_rows, 0, '{}');
        IF v_limit.needs_first AND NOT v_has_first THEN
            v_exceeded := v_exceeded || format('%s approves as the second only', v_limit.approver);
        END IF;
        IF cardinality(v_exceeded) = 0 THEN
            RETURN NULL;
        END IF;
        IF v_best IS NULL OR cardinality(v_exceeded) < cardinality(v_best) THEN
            v_best := v_exceeded;
        END IF;
    END LOOP;
    IF v_best IS NULL THEN
        RAISE EXCEPTION 'user % may not approve: no approval limit names them or a role of theirs', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN v_best;
END
$$;

-- Null: approved. Else the approval is recorded as the first, and this is what exceeds the limits.
CREATE FUNCTION repricer.approve_extension(p_extension_id uuid, p_at timestamptz) RETURNS text[]
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_mass mass_extensions;
    v_exceeded text[];
    v_first text;
    v_details json;
BEGIN
    PERFORM require_pricing();
    SELECT * INTO v_mass FROM mass_extensions WHERE extension_id = p_extension_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no mass extension %', p_extension_id USING ERRCODE = 'no_data_found';
    END IF;
    IF v_mass.state <> 'awaiting_approval' THEN
        RAISE EXCEPTION 'mass extension % is %, not awaiting approval', p_extension_id, v_mass.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF v_mass.submitted_by = session_user THEN
        RAISE EXCEPTION 'user % asked for this extension; another user must approve it', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    LOCK TABLE approval_limits IN SHARE MODE;
    v_exceeded := extension_shortfall(p_extension_id);
    v_details := json_build_object('product', v_mass.product_id, 'storefronts', v_mass.storefronts,
        'days', v_mass.extend_by_days, 'submitted_by', v_mass.submitted_by, 'eligible', v_mass.eligible_count,
        'exceeded', v_exceeded);
    IF v_exceeded IS NOT NULL THEN
        INSERT INTO mass_extension_approvals (extension_id, approver, approved_at, exceeded)
            VALUES (p_extension_id, session_user, p_at, v_exceeded);
        PERFORM append_audit(session_user::text, p_at, 'approve_first', 'extension:' || p_extension_id,
            v_details);
        RETURN v_exceeded;
    END IF;
    UPDATE mass_extensions SET state = 'queued', decided_by = session_user, decided_at = p_at
        WHERE extension_id = p_extension_id;
    SELECT string_agg(approver, ', ' ORDER BY approver) INTO v_first
        FROM mass_extension_approvals WHERE extension_id = p_extension_id;
    PERFORM append_audit(session_user::text, p_at, 'approve', 'extension:' || p_extension_id,
        (v_details::jsonb || jsonb_build_object('first_approved_by', v_first))::json);
    RETURN NULL;
END
$$;

-- Withdraws one that no call was made for; the submitter may, too.
CREATE FUNCTION repricer.reject_extension(p_extension_id uuid, p_reason text, p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_mass mass_extensions;
BEGIN
    PERFORM require_pricing();
    SELECT * INTO v_mass FROM mass_extensions WHERE extension_id = p_extension_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no mass extension %', p_extension_id USING ERRCODE = 'no_data_found';
    END IF;
    IF v_mass.state NOT IN ('awaiting_approval', 'queued') OR v_mass.called_at IS NOT NULL THEN
        RAISE EXCEPTION 'mass extension % is %: it can''t be taken back', p_extension_id, v_mass.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    UPDATE mass_extensions SET state = 'rejected', decided_by = session_user, decided_at = p_at,
            decision_reason = p_reason
        WHERE extension_id = p_extension_id;
    PERFORM append_audit(session_user::text, p_at, 'reject', 'extension:' || p_extension_id,
        json_build_object('reason', p_reason));
END
$$;

-- Those for whom a mass extension failed and nothing has extended or is to extend them since.
CREATE FUNCTION repricer.failed_extensions(p_extension_id uuid) RETURNS SETOF text
    LANGUAGE sql STABLE SET search_path = repricer, pg_temp AS $$
SELECT DISTINCT f.original_transaction_id FROM attributed_extensions f
WHERE f.extension_id = p_extension_id AND f.outcome = 'failed'
    AND NOT EXISTS (
        SELECT FROM renewal_extensions l WHERE l.original_transaction_id = f.original_transaction_id
            AND l.outcome <> 'failed' AND l.told_at > f.told_at)
    AND NOT EXISTS (
        SELECT FROM extension_calls c WHERE c.original_transaction_id = f.original_transaction_id
            AND (c.state IN ('queued', 'sending', 'unknown')
                OR c.mass_extension_id = p_extension_id AND c.state = 'extended'))
$$;

-- Asks for the failed ones of a mass extension one by one, on its terms; returns how many are new.
CREATE FUNCTION repricer.request_retries(
    p_mass_extension_id uuid, p_ids text[], p_extension_ids uuid[], p_at timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_mass mass_extensions;
    v_count bigint;
BEGIN
    PERFORM require_pricing();
    SELECT * INTO v_mass FROM mass_extensions WHERE extension_id = p_mass_extension_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no mass extension %', p_mass_extension_id USING ERRCODE = 'no_data_found';
    END IF;
    IF v_mass.called_at IS NULL THEN
        RAISE EXCEPTION 'mass extension % is %: nothing of it can have failed', p_mass_extension_id, v_mass.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO extension_calls (original_transaction_id, extension_id, mass_extension_id, extend_by_days,
            reason_code, requested_by, requested_at)
        SELECT w.id, w.extension_id, p_mass_extension_id, v_mass.extend_by_days, v_mass.reason_code,
            session_user, p_at
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

CREATE VIEW report.renewal_extension AS
WITH told AS (
    SELECT extension_id, original_transaction_id, bool_or(outcome <> 'failed') AS is_extended,
        bool_or(outcome = 'failed') AS is_failed, min(told_at) AS first_told_at, max(told_at) AS last_told_at,
        min(renewal_before) AS renewal_before, max(renewal_at) AS renewal_at
    FROM repricer.attributed_extensions WHERE extension_id IS NOT NULL
    GROUP BY extension_id, original_transaction_id
), tallies AS (
    SELECT extension_id, count(*) FILTER (WHERE is_extended) AS extended,
        count(*) FILTER (WHERE is_failed) AS failed, max(last_told_at) AS last_told_at
    FROM told GROUP BY extension_id
), retries AS (
    SELECT mass_extension_id, count(*) AS asked,
        count(*) FILTER (WHERE state = 'extended') AS extended,
        count(*) FILTER (WHERE state IN ('queued', 'sending', 'unknown')) AS open
    FROM repricer.extension_calls WHERE mass_extension_id IS NOT NULL GROUP BY mass_extension_id
), masses AS (
    SELECT m.*, coalesce(t.extended, 0) AS extended, coalesce(t.failed, 0) AS failed, t.last_told_at,
        coalesce(m.summary_succeeded, m.status_succeeded) AS apple_extended,
        coalesce(m.summary_failed, m.status_failed) AS apple_failed,
        coalesce(r.asked, 0) AS retried, coalesce(r.extended, 0) AS retried_extended
    FROM repricer.mass_extensions m
    LEFT JOIN tallies t USING (extension_id)
    LEFT JOIN retries r ON r.mass_extension_id = m.extension_id
)
SELECT 'all' AS kind, extension_id::text, product_id, storefronts, NULL::text AS original_transaction_id,
    NULL::text AS retry_of, extend_by_days::bigint AS extend_by_days, reason_code::bigint AS reason_code, state,
    submitted_by AS requested_by, submitted_at AS requested_at, decided_by AS approved_by, decided_at AS approved_at,
    called_at, completed_at, eligible_count AS eligible_forecast, extended, failed, apple_extended, apple_failed,
    retried, retried_extended, NULL::timestamptz AS renewal_before_at, NULL::timestamptz AS renewal_at, code,
    CASE WHEN state IN ('rejected', 'refused') THEN 'ended'
        WHEN state <> 'complete' OR apple_extended IS NULL OR apple_failed IS NULL THEN 'open'
        WHEN (extended, failed) = (apple_extended, apple_failed) THEN 'clean' ELSE 'differs' END AS check_result,
    coalesce(CASE WHEN state = 'complete' AND (extended, failed) <> (apple_extended, apple_failed)
            THEN format('%s extended and %s failed were told one by one, the App Store counts %s and %s',
                extended, failed, apple_extended, apple_failed) END, detail) AS detail
FROM masses
UNION ALL
SELECT CASE WHEN c.mass_extension_id IS NULL THEN 'one' ELSE 'retry' END, c.extension_id::text, s.product_id,
    NULL, c.original_transaction_id, c.mass_extension_id::text, c.extend_by_days, c.reason_code, c.state,
    c.requested_by, c.requested_at, NULL, NULL, c.called_at, c.settled_at, NULL,
    CASE WHEN t.is_extended THEN 1 ELSE 0 END, 0, CASE WHEN c.state = 'extended' THEN 1 ELSE 0 END, NULL, NULL, NULL,
    coalesce(c.renewal_before, t.renewal_before), coalesce(t.renewal_at, c.effective_at), c.code,
    CASE WHEN c.state IN ('refused', 'ineligible') THEN 'ended' WHEN c.state <> 'extended' THEN 'open'
        WHEN t.is_extended THEN 'clean' ELSE 'open' END,
    c.detail
FROM repricer.extension_calls c
JOIN repricer.subscriptions s USING (original_transaction_id)
LEFT JOIN told t ON t.extension_id = c.extension_id AND t.original_transaction_id = c.original_transaction_id
UNION ALL
SELECT 'foreign', coalesce(f.request_identifier, f.notification_uuid), f.product_id, f.storefronts, NULL, NULL, NULL,
    NULL, 'complete', NULL, NULL, NULL, NULL, NULL, f.signed_at, NULL, NULL, NULL, f.succeeded, f.failed, NULL, NULL,
    NULL, NULL, NULL, 'differs',
    coalesce(f.detail, 'a summary of a request that was never made here')
FROM repricer.extension_summaries f
WHERE f.folded_at IS NOT NULL AND f.extension_id IS NULL;
COMMENT ON VIEW report.renewal_extension IS
    'Renewal-date extensions: each request, what the App Store told of its subscriptions, and whether the counts agree.';
COMMENT ON COLUMN report.renewal_extension.kind IS
    'all (a mass extension), one, retry (one that a mass extension failed for), foreign (a summary of no request of ours).';
COMMENT ON COLUMN report.renewal_extension.extension_id IS 'The request identifier that the App Store was given.';
COMMENT ON COLUMN report.renewal_extension.product_id IS 'The subscription product.';
COMMENT ON COLUMN report.renewal_extension.storefronts IS 'Of a mass extension; null means all.';
COMMENT ON COLUMN report.renewal_extension.original_transaction_id IS 'Null for a mass extension.';
COMMENT ON COLUMN report.renewal_extension.retry_of IS 'The mass extension that failed for it.';
COMMENT ON COLUMN report.renewal_extension.extend_by_days IS '1 to 90.';
COMMENT ON COLUMN report.renewal_extension.reason_code IS
    '0 undeclared, 1 customer satisfaction, 2 other, 3 service issue or outage.';
COMMENT ON COLUMN report.renewal_extension.state IS
    'awaiting_approval, queued, sending, unknown, running, complete, refused, rejected; of one: queued, sending, '
    'unknown, extended, refused, ineligible.';
COMMENT ON COLUMN report.renewal_extension.requested_by IS 'The database user who asked for it.';
COMMENT ON COLUMN report.renewal_extension.requested_at IS 'When.';
COMMENT ON COLUMN report.renewal_extension.approved_by IS 'The other user who approved or rejected it.';
COMMENT ON COLUMN report.renewal_extension.approved_at IS 'When.';
COMMENT ON COLUMN report.renewal_extension.called_at IS 'The first call to the App Store.';
COMMENT ON COLUMN report.renewal_extension.completed_at IS
    'When the App Store was done; of one: when its outcome was known.';
COMMENT ON COLUMN report.renewal_extension.eligible_forecast IS
    'Subscriptions that the facts held eligible when it was asked for.';
COMMENT ON COLUMN report.renewal_extension.extended IS 'Subscriptions whose extension was told one by one.';
COMMENT ON COLUMN report.renewal_extension.failed IS 'Subscriptions whose failure was told one by one.';
COMMENT ON COLUMN report.renewal_extension.apple_extended IS
    'By the summary, else by the status; of one: by its answer.';
COMMENT ON COLUMN report.renewal_extension.apple_failed IS 'By the summary, else by the status.';
COMMENT ON COLUMN report.renewal_extension.retried IS 'Failed ones that were asked for one by one.';
COMMENT ON COLUMN report.renewal_extension.retried_extended IS 'Of these, extended.';
COMMENT ON COLUMN report.renewal_extension.renewal_before_at IS 'Of one: the renewal before.';
COMMENT ON COLUMN report.renewal_extension.renewal_at IS 'Of one: the renewal since.';
COMMENT ON COLUMN report.renewal_extension.code IS 'Why it was refused or not eligible.';
COMMENT ON COLUMN report.renewal_extension.check_result IS
    'clean (the counts agree), differs, open (not all is told yet), ended (nothing was extended).';
COMMENT ON COLUMN report.renewal_extension.detail IS 'What differs, or what the App Store said.';

REVOKE ALL ON FUNCTION repricer.request_extension(text, uuid, integer, integer, text, timestamptz),
    repricer.request_mass_extension(uuid, text, text[], integer, integer, text, bigint, jsonb, timestamptz),
    repricer.extension_shortfall(uuid), repricer.approve_extension(uuid, timestamptz),
    repricer.reject_extension(uuid, text, timestamptz), repricer.failed_extensions(uuid),
    repricer.request_retries(uuid, text[], uuid[], timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION repricer.request_extension(text, uuid, integer, integer, text, timestamptz),
    repricer.request_mass_extension(uuid, text, text[], integer, integer, text, bigint, jsonb, timestamptz),
    repricer.approve_extension(uuid, timestamptz), repricer.reject_extension(uuid, text, timestamptz),
    repricer.failed_extensions(uuid), repricer.request_retries(uuid, text[], uuid[], timestamptz)
    TO repricer_pricing;
GRANT SELECT ON repricer.mass_extensions, repricer.mass_extension_approvals, repricer.extension_calls,
    repricer.renewal_extensions, repricer.extension_summaries, repricer.moved_renewals,
    repricer.attributed_extensions TO repricer_pricing, repricer_service;
GRANT UPDATE (state, called_at, attempts, may_be_running, next_attempt_at, lease_owner, leased_until, code, detail,
    completed_at, status_succeeded, status_failed, summary_evidence, summary_succeeded, summary_failed)
    ON repricer.mass_extensions TO repricer_service;
GRANT UPDATE (state, called_at, attempts, may_be_applied, next_attempt_at, lease_owner, leased_until,
    renewal_before, effective_at, settled_at, settled_by, code, detail) ON repricer.extension_calls TO repricer_service;
GRANT INSERT, UPDATE, DELETE ON repricer.renewal_extensions TO repricer_service;
GRANT INSERT, UPDATE ON repricer.extension_summaries TO repricer_service;
GRANT INSERT, UPDATE, DELETE ON repricer.moved_renewals TO repricer_service;
GRANT SELECT ON report.renewal_extension TO repricer_finance, repricer_pricing, repricer_service;

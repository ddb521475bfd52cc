-- Who may approve what: limits for each approver, and a second approver where they are exceeded. Without any limit,
-- any member of repricer_pricing but the submitter approves, as before.
-- Locks: none on existing tables.
-- breaking: no

-- Limits hold at once and not from an instant: the instant of an approval is the client's to say.
CREATE TABLE repricer.approval_limits (
    -- A database user, or a role whose members share the limits.
    approver text NOT NULL,
    -- Null: no limit.
    max_rows bigint,
    -- Of one price, up or down, in hundredths of a percent.
    max_basis_points bigint,
    -- By currency, in milliunits: how much all prices together move in a month. Null: no limit. Where there is one,
    -- a currency that it leaves out may not move at all.
    max_monthly_milliunits jsonb,
    -- Approves only what somebody else has approved first.
    needs_first boolean NOT NULL DEFAULT false,
    CONSTRAINT approval_limits_pkey PRIMARY KEY (approver),
    CONSTRAINT approval_limits_name CHECK (length(approver) BETWEEN 1 AND 63),
    CONSTRAINT approval_limits_numbers CHECK (max_rows >= 0 AND max_basis_points >= 0),
    CONSTRAINT approval_limits_money CHECK (jsonb_typeof(max_monthly_milliunits) = 'object')
);
COMMENT ON TABLE repricer.approval_limits IS
    'Who may approve a batch, and up to which size. Written by set_approval_limit and drop_approval_limit.';

-- Approvals by people whose limits a batch exceeds: a second approver is needed.
CREATE TABLE repricer.first_approvals (
    batch_id uuid NOT NULL REFERENCES repricer.batches,
    approver text NOT NULL,
    approved_at timestamptz NOT NULL,
    exceeded text[] NOT NULL,
    CONSTRAINT first_approvals_pkey PRIMARY KEY (batch_id, approver)
);
COMMENT ON TABLE repricer.first_approvals IS
    'Append-only. Who approved a batch beyond their limits, and what exceeded which limit.';

-- How large a batch is: by the facts of its subscriptions, not by what its submitter stored. Money moves up and down
-- apart from each other, so that a decrease hides no increase.
CREATE FUNCTION repricer.batch_measure(
    p_batch_id uuid, OUT rows bigint, OUT basis_points numeric, OUT monthly_milliunits jsonb)
    LANGUAGE sql STABLE SET search_path = repricer, pg_temp AS $$
WITH facts AS (
    SELECT coalesce(s.currency, c.currency) AS currency,
        coalesce(i.price, c.current_price_milliunits)::numeric AS old, c.new_price_milliunits::numeric AS new,
        CASE coalesce(s.period, c.period)
            WHEN 'P1W' THEN 52.0 / 12 WHEN 'P1M' THEN 1 WHEN 'P2M' THEN 1 / 2.0 WHEN 'P3M' THEN 1 / 3.0
            WHEN 'P6M' THEN 1 / 6.0 WHEN 'P1Y' THEN 1 / 12.0
            -- A period that nobody knows counts as the shortest.
            ELSE 52.0 / 12 END AS a_month
    FROM price_changes c
    LEFT JOIN subscriptions s ON s.original_transaction_id = c.original_transaction_id
    LEFT JOIN LATERAL (
        SELECT coalesce(item ->> 'currentPrice', item ->> 'renewalPrice')::bigint AS price
        FROM jsonb_array_elements(s.items) AS item WHERE item ->> 'sku' = c.sku LIMIT 1) i ON true
    WHERE c.batch_id = p_batch_id
), money AS (
    SELECT currency, count(*) AS rows,
        -- From nothing to something is more than any percent.
        max(CASE WHEN old > 0 THEN abs(new - old) * 10000 / old WHEN new <> old THEN 'Infinity' ELSE 0 END)
            AS basis_points,
        ceil(greatest(sum((new - old) * a_month) FILTER (WHERE new > old),
            sum((old - new) * a_month) FILTER (WHERE new < old), 0)) AS monthly
    FROM facts GROUP BY currency
)
SELECT coalesce(sum(m.rows), 0)::bigint, coalesce(max(m.basis_points), 0),
    coalesce(jsonb_object_agg(m.currency, m.monthly), '{}')
FROM money m
$$;

-- What of a batch exceeds a limit, in words; empty when nothing does.
CREATE FUNCTION repricer.limits_exceeded(
    p_limit repricer.approval_limits, p_rows bigint, p_basis_points numeric, p_monthly jsonb) RETURNS text[]
    LANGUAGE sql STABLE SET search_path = repricer, pg_temp AS $$
SELECT coalesce(array_agg(said ORDER BY place, said), '{}') FROM (
    SELECT 1 AS place, format('%s rows, the limit is %s', p_rows, p_limit.max_rows) AS said
        WHERE p_rows > p_limit.max_rows
    UNION ALL
    SELECT 2, format('a change of %s, the limit is %s %%',
            CASE WHEN p_basis_points = 'Infinity' THEN 'a price of 0'
                ELSE trim_scale(ceil(p_basis_points) / 100)::text || ' %' END,
            trim_scale(p_limit.max_basis_points / 100.0))
        WHERE p_basis_points > p_limit.max_basis_points
    UNION ALL
    SELECT 3, format('%s %s a month, the limit is %s', trim_scale(m.value::numeric / 1000), m.key,
            trim_scale(coalesce((p_limit.max_monthly_milliunits ->> m.key)::numeric, 0) / 1000))
        FROM jsonb_each_text(p_monthly) AS m
        WHERE p_limit.max_monthly_milliunits IS NOT NULL
            AND m.value::numeric > coalesce((p_limit.max_monthly_milliunits ->> m.key)::numeric, 0)) AS each
$$;

-- Whether session_user may approve the batch alone: null. Else what a second approver is needed for. Refuses whom no
-- limit names. A person's own limits go before those of their roles; of several roles the most generous counts.
CREATE FUNCTION repricer.approval_shortfall(p_batch_id uuid) RETURNS text[]
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp AS $$
DECLARE
    v_measure record;
    v_limit approval_limits;
    v_exceeded text[];
    v_best text[];
    v_has_first boolean;
BEGIN
    IF NOT EXISTS (SELECT FROM approval_limits) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM first_approvals WHERE batch_id = p_batch_id AND approver = session_user) THEN
        RAISE EXCEPTION 'user % has given the first approval; another approver must give the second', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    v_has_first := EXISTS (SELECT FROM first_approvals WHERE batch_id = p_batch_id);
    SELECT * INTO v_measure FROM batch_measure(p_batch_id);
    FOR v_limit IN
        SELECT l.* FROM approval_limits l
        WHERE l.approver = session_user
            OR NOT EXISTS (SELECT FROM approval_limits o WHERE o.approver = session_user)
                AND EXISTS (SELECT FROM pg_roles r
                    WHERE r.rolname = l.approver AND pg_has_role(session_user, r.oid, 'MEMBER'))
        ORDER BY l.approver
    LOOP
        v_exceeded := limits_exceeded(v_limit, v_measure.rows, v_measure.basis_points,
            v_measure.monthly_milliunits);
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

-- Sets the limits of one approver anew; the owner's alone.
CREATE FUNCTION repricer.set_approval_limit(
    p_approver text, p_max_rows bigint, p_max_basis_points bigint, p_max_monthly_milliunits jsonb,
    p_needs_first boolean, p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_wrong text;
    v_new approval_limits;
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = p_approver) THEN
        RAISE EXCEPTION 'no database user or role %', p_approver USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT key INTO v_wrong FROM jsonb_each(p_max_monthly_milliunits)
        WHERE key !~ '^[A-Z]{3}$'
            OR CASE WHEN jsonb_typeof(value) = 'number' THEN value::text::numeric < 0 ELSE true END
        LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the money limit of % is none', v_wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO approval_limits AS l
            (approver, max_rows, max_basis_points, max_monthly_milliunits, needs_first)
        VALUES (p_approver, p_max_rows, p_max_basis_points, p_max_monthly_milliunits, p_needs_first)
        ON CONFLICT (approver) DO UPDATE SET max_rows = excluded.max_rows,
            max_basis_points = excluded.max_basis_points,
            max_monthly_milliunits = excluded.max_monthly_milliunits, needs_first = excluded.needs_first
        RETURNING * INTO v_new;
    PERFORM append_audit(session_user::text, p_at, 'set_limit', 'approver:' || p_approver,
        json_build_object('max_rows', v_new.max_rows, 'max_basis_points', v_new.max_basis_points,
            'max_monthly_milliunits', v_new.max_monthly_milliunits, 'needs_first', v_new.needs_first));
END
$$;

-- Takes an approver out of the policy. With the last one gone, there is no policy: any other member approves.
CREATE FUNCTION repricer.drop_approval_limit(p_approver text, p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    DELETE FROM approval_limits WHERE approver = p_approver;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no approval limit of %', p_approver USING ERRCODE = 'no_data_found';
    END IF;
    PERFORM append_audit(session_user::text, p_at, 'drop_limit', 'approver:' || p_approver, NULL);
END
$$;

-- Null: the approval is recorded as the first, and a second approver is needed.
CREATE OR REPLACE FUNCTION repricer.approve_batch(p_batch_id uuid, p_at timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    v_rows bigint;
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
    PERFORM append_audit(session_user::text, p_at, 'approve', 'batch:' || p_batch_id,
        json_build_object('name', v_batch.name, 'rows', v_rows, 'submitted_by', v_batch.submitted_by,
            'plan_hash', v_batch.plan_hash, 'first_approved_by', v_first));
    RETURN v_rows;
END
$$;

REVOKE ALL ON FUNCTION repricer.batch_measure(uuid),
    repricer.limits_exceeded(repricer.approval_limits, bigint, numeric, jsonb),
    repricer.approval_shortfall(uuid),
    repricer.set_approval_limit(text, bigint, bigint, jsonb, boolean, timestamptz),
    repricer.drop_approval_limit(text, timestamptz) FROM PUBLIC;
GRANT SELECT ON repricer.approval_limits, repricer.first_approvals TO repricer_pricing, repricer_service;

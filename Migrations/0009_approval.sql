-- Who may approve a batch, by which limits, and what an approval, a rejection and an abort do.
-- Locks: none on existing tables.
-- breaking: no

-- Who may approve what ------------------------------------------------------------------------------------------------

-- Without any limit of approvers, any member of repricer_pricing but the submitter approves, alone up to the default
-- limits. A new limit holds at once.
CREATE TABLE repricer.approval_limits (
    -- A database user, or a role whose members share the limits.
    approver text NOT NULL,
    -- Null is no limit.
    max_rows bigint,
    -- The limit of one price, up or down, in hundredths of a percent.
    max_basis_points bigint,
    -- By currency, in milliunits: how much all prices together may move in a month. Null: no limit. Otherwise a currency
    -- that it leaves out may not move at all.
    max_monthly_milliunits jsonb,
    -- Whether this approver approves only what somebody else has approved first.
    needs_first boolean NOT NULL DEFAULT false,
    CONSTRAINT approval_limits_pkey PRIMARY KEY (approver),
    CONSTRAINT approval_limits_name CHECK (length(approver) BETWEEN 1 AND 63),
    CONSTRAINT approval_limits_numbers CHECK (max_rows >= 0 AND max_basis_points >= 0),
    CONSTRAINT approval_limits_money CHECK (jsonb_typeof(max_monthly_milliunits) = 'object')
);
COMMENT ON TABLE repricer.approval_limits IS
    'Who may approve a batch, and up to which size. Written by set_approval_limit and drop_approval_limit.';

-- The limits beyond which two approvers are needed, whoever they are, unless an approver has a percentage of their own. They
-- are shipped as inserted below; the owner sets others.
CREATE TABLE repricer.default_limits (
    one_row boolean NOT NULL DEFAULT true,
    -- Limits of one price, in hundredths of a percent. Null is no limit.
    max_rise_basis_points numeric,
    max_fall_basis_points numeric,
    is_shipped boolean NOT NULL DEFAULT false,
    CONSTRAINT default_limits_pkey PRIMARY KEY (one_row),
    CONSTRAINT default_limits_one_row CHECK (one_row),
    CONSTRAINT default_limits_numbers CHECK (max_rise_basis_points >= 0 AND max_fall_basis_points >= 0)
);
-- One approval is enough for a price that at most doubles, or falls to a third at least.
INSERT INTO repricer.default_limits (max_rise_basis_points, max_fall_basis_points, is_shipped)
    VALUES (10000, round(20000 / 3.0, 6), true);
COMMENT ON TABLE repricer.default_limits IS
    'What one approver may not approve alone, whoever they are. Written by set_default_limits.';

-- Approvals by people whose limits a batch exceeds: a second approver is needed.
CREATE TABLE repricer.first_approvals (
    batch_id uuid NOT NULL,
    approver text NOT NULL,
    approved_at timestamptz NOT NULL,
    exceeded text[] NOT NULL,
    CONSTRAINT first_approvals_pkey PRIMARY KEY (batch_id, approver),
    CONSTRAINT first_approvals_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES repricer.batches (batch_id)
);
COMMENT ON TABLE repricer.first_approvals IS
    'Append-only. Who approved a batch beyond their limits, and what exceeded which limit.';

-- Replaces the limits of one approver. Only the owner may: nobody else has the right to execute it.
CREATE FUNCTION repricer.set_approval_limit(
    p_approver text, p_max_rows bigint, p_max_basis_points bigint, p_max_monthly_milliunits jsonb,
    p_needs_first boolean, p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_wrong text;
    v_new approval_limits;
BEGIN
    p_at := decision_instant(p_at);
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

-- Removes an approver from the policy. Without any approver there is no policy, and any member but the submitter approves.
CREATE FUNCTION repricer.drop_approval_limit(p_approver text, p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    p_at := decision_instant(p_at);
    DELETE FROM approval_limits WHERE approver = p_approver;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no approval limit of %', p_approver USING ERRCODE = 'no_data_found';
    END IF;
    PERFORM append_audit(session_user::text, p_at, 'drop_limit', 'approver:' || p_approver, NULL);
END
$$;

-- Replaces the default limits, beyond which two approvers are needed. Null is no limit. Only the owner may.
CREATE FUNCTION repricer.set_default_limits(p_max_rise numeric, p_max_fall numeric, p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    p_at := decision_instant(p_at);
    UPDATE default_limits SET max_rise_basis_points = p_max_rise, max_fall_basis_points = p_max_fall,
        is_shipped = false;
    PERFORM append_audit(session_user::text, p_at, 'set_default_limits', 'approver:everyone',
        json_build_object('max_rise_basis_points', p_max_rise, 'max_fall_basis_points', p_max_fall));
END
$$;

-- The size of a batch, by the facts of its subscriptions and not by what its submitter stored. Money that moves up and
-- money that moves down are summed apart, so that a decrease hides no increase. An undo is measured against the price
-- that it takes back; against the current price it would come to nothing. This is PL/pgSQL, because Citus takes no function in
-- plain SQL whose parameters are compared with columns of distributed tables.
CREATE FUNCTION repricer.batch_measure(
    p_batch_id uuid, OUT rows bigint, OUT basis_points numeric, OUT monthly_milliunits jsonb,
    OUT rise_basis_points numeric, OUT fall_basis_points numeric)
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp AS $$
#variable_conflict use_column
BEGIN
WITH changes AS (
    SELECT c.currency, c.period, c.undoes_change_id, c.current_price_milliunits, c.new_price_milliunits,
        s.currency AS known_currency, coalesce(s.renewal_period, s.period) AS known_period, s.renewal_period,
        greatest(s.quantity, 1) AS seats,
        -- A path is used, because Citus distributes no LIMIT within a function.
        jsonb_path_query_first(s.items, '$[*] ? (@.sku == $sku)', jsonb_build_object('sku', c.sku)) AS item
    FROM price_changes c
    LEFT JOIN subscriptions s ON s.original_transaction_id = c.original_transaction_id AND s.bucket = c.bucket
    WHERE c.batch_id = p_batch_id AND NOT c.is_held_out
), facts AS MATERIALIZED (
    -- MATERIALIZED, because a price would otherwise be searched anew for each measure that it is part of.
    SELECT coalesce(c.known_currency, c.currency) AS currency,
        -- The stored price of an undo can be trusted: only undo_batch writes it.
        CASE WHEN c.undoes_change_id IS NOT NULL THEN c.current_price_milliunits
            -- A price of the running period says nothing about a period of another length.
            ELSE coalesce(CASE WHEN c.renewal_period IS NULL THEN (c.item ->> 'currentPrice')::bigint END,
                (c.item ->> 'renewalPrice')::bigint, c.current_price_milliunits) END::numeric AS old,
        c.new_price_milliunits::numeric AS new, c.seats,
        CASE coalesce(c.known_period, c.period)
            WHEN 'P1W' THEN 52.0 / 12 WHEN 'P1M' THEN 1 WHEN 'P2M' THEN 1 / 2.0 WHEN 'P3M' THEN 1 / 3.0
            WHEN 'P6M' THEN 1 / 6.0 WHEN 'P1Y' THEN 1 / 12.0
            -- A period that nobody knows counts as the shortest.
            ELSE 52.0 / 12 END AS a_month
    FROM changes c
), money AS (
    SELECT currency, count(*) AS rows,
        -- An increase from 0 exceeds every percentage.
        coalesce(max(CASE WHEN old > 0 THEN round((new - old) * 10000 / old, 6) ELSE 'Infinity' END)
            FILTER (WHERE new > old), 0) AS rise,
        coalesce(max(round((old - new) * 10000 / old, 6)) FILTER (WHERE new < old), 0) AS fall,
        ceil(greatest(sum((new - old) * seats * a_month) FILTER (WHERE new > old),
            sum((old - new) * seats * a_month) FILTER (WHERE new < old), 0)) AS monthly
    FROM facts GROUP BY currency
)
SELECT coalesce(sum(m.rows), 0)::bigint, coalesce(max(greatest(m.rise, m.fall)), 0),
    coalesce(jsonb_object_agg(m.currency, m.monthly), '{}'), coalesce(max(m.rise), 0), coalesce(max(m.fall), 0)
INTO rows, basis_points, monthly_milliunits, rise_basis_points, fall_basis_points
FROM money m;
END
$$;

-- The limits that a batch exceeds, in words; empty where it exceeds none.
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

-- The default limits that a batch exceeds, in words; empty where it exceeds none.
CREATE FUNCTION repricer.defaults_exceeded(p_rise numeric, p_fall numeric) RETURNS text[]
    LANGUAGE sql STABLE SET search_path = repricer, pg_temp AS $$
SELECT coalesce(array_agg(said ORDER BY place), '{}') FROM (
    SELECT 1 AS place, format('an increase of %s, one approver alone allows %s %%',
            CASE WHEN p_rise = 'Infinity' THEN 'a price of 0'
                ELSE trim_scale(ceil(p_rise) / 100)::text || ' %' END,
            trim_scale(round(max_rise_basis_points / 100, 2))) AS said
        FROM default_limits WHERE p_rise > max_rise_basis_points
    UNION ALL
    SELECT 2, format('a decrease of %s %%, one approver alone allows %s %%', trim_scale(ceil(p_fall) / 100),
            trim_scale(round(max_fall_basis_points / 100, 2)))
        FROM default_limits WHERE p_fall > max_fall_basis_points) AS each
$$;

-- The limits of an approver: those that name them, or else those of their roles.
CREATE FUNCTION repricer.limits_of(p_approver text) RETURNS SETOF repricer.approval_limits
    LANGUAGE sql STABLE SET search_path = repricer, pg_temp AS $$
    SELECT l.* FROM approval_limits l
    WHERE l.approver = p_approver
        OR NOT EXISTS (SELECT FROM approval_limits o WHERE o.approver = p_approver)
            AND EXISTS (SELECT FROM pg_roles r JOIN pg_roles u ON u.rolname = p_approver
                WHERE r.rolname = l.approver AND pg_has_role(u.oid, r.oid, 'MEMBER'))
$$;

-- Whether a person may still approve: a database user who can log in, is a member of repricer_pricing and, where there are
-- limits, is named by one. A first approval counts as long as that is so.
CREATE FUNCTION repricer.may_approve(p_approver text) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
    SELECT EXISTS (SELECT FROM pg_roles u
            WHERE u.rolname = p_approver AND u.rolcanlogin AND pg_has_role(u.oid, 'repricer_pricing', 'MEMBER'))
        AND (NOT EXISTS (SELECT FROM approval_limits) OR EXISTS (SELECT FROM limits_of(p_approver)))
$$;

-- Refuses a decision of session_user on what they submitted themselves, and on what a user submitted who no longer exists:
-- whoever was renamed would otherwise be another person.
CREATE FUNCTION repricer.require_another(p_submitter text, p_what text) RETURNS void
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp AS $$
BEGIN
    IF p_submitter = session_user THEN
        RAISE EXCEPTION 'user % submitted this %; another user must approve it', session_user, p_what
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = p_submitter) THEN
        RAISE EXCEPTION 'user %, who submitted this %, no longer exists, so nobody can tell whether you are another person; reject it, and submit it anew',
            p_submitter, p_what USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$$;

-- Which of an approver's limits these measures exceed; where no limit names the approver, those of their roles count, and of
-- several the one that is exceeded least. Empty: none is exceeded. Null: no limit names them or a role of theirs. Beyond the
-- default limits a second approver is needed, unless the limit has a percentage of its own.
CREATE FUNCTION repricer.approver_shortfall(
    p_approver text, p_has_first boolean, p_rows bigint, p_basis_points numeric, p_monthly jsonb,
    p_rise numeric DEFAULT 0, p_fall numeric DEFAULT 0
) RETURNS text[]
    LANGUAGE sql STABLE SET search_path = repricer, pg_temp AS $$
    SELECT each.exceeded FROM (
        SELECT l.approver, limits_exceeded(l, p_rows, p_basis_points, p_monthly)
            || CASE WHEN l.needs_first AND NOT p_has_first
                THEN ARRAY[format('%s approves as the second only', l.approver)] ELSE '{}' END
            || CASE WHEN l.max_basis_points IS NULL AND NOT p_has_first
                THEN defaults_exceeded(p_rise, p_fall) ELSE '{}' END AS exceeded
        FROM limits_of(p_approver) l) each
    ORDER BY cardinality(each.exceeded), each.approver LIMIT 1
$$;

-- Null where session_user may approve the batch alone, else what a second approver is needed for. Refuses a person
-- whom no limit names. Two approvals that suffice in one order suffice in the other: if the person who may only be the second
-- approver came first, the approval that was to be the first completes both.
CREATE FUNCTION repricer.approval_shortfall(p_batch_id uuid) RETURNS text[]
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp AS $$
DECLARE
    v_measure record;
    v_exceeded text[];
    v_has_first boolean := EXISTS (
        SELECT FROM first_approvals f WHERE f.batch_id = p_batch_id AND may_approve(f.approver));
    v_has_limits boolean := EXISTS (SELECT FROM approval_limits);
BEGIN
    IF NOT v_has_limits AND NOT EXISTS (SELECT FROM default_limits
        WHERE max_rise_basis_points IS NOT NULL OR max_fall_basis_points IS NOT NULL)
    THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM first_approvals WHERE batch_id = p_batch_id AND approver = session_user) THEN
        RAISE EXCEPTION 'user % has given the first approval; another approver must give the second', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT * INTO v_measure FROM batch_measure(p_batch_id);
    IF NOT v_has_limits THEN
        v_exceeded := defaults_exceeded(v_measure.rise_basis_points, v_measure.fall_basis_points);
        RETURN CASE WHEN v_has_first OR v_exceeded = '{}' THEN NULL ELSE v_exceeded END;
    END IF;
    v_exceeded := approver_shortfall(session_user, v_has_first, v_measure.rows, v_measure.basis_points,
        v_measure.monthly_milliunits, v_measure.rise_basis_points, v_measure.fall_basis_points);
    IF v_exceeded IS NULL THEN
        RAISE EXCEPTION 'user % may not approve: no approval limit names them or a role of theirs', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    -- Somebody who may be the second approver has approved already, so this is the first approval that was missing.
    IF v_exceeded = '{}' OR EXISTS (
        SELECT FROM first_approvals f
        WHERE f.batch_id = p_batch_id AND may_approve(f.approver)
            AND approver_shortfall(f.approver, true, v_measure.rows, v_measure.basis_points,
                v_measure.monthly_milliunits) = '{}')
    THEN
        RETURN NULL;
    END IF;
    RETURN v_exceeded;
END
$$;

-- What the policy says about a batch that awaits approval: for each approver whom a limit names, what a second approver is
-- needed for. Where no limit names anybody, there is one row with a null approver.
CREATE FUNCTION repricer.approval_outlook(p_batch_id uuid) RETURNS TABLE (approver text, exceeded text[])
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_measure record;
    v_has_first boolean := EXISTS (
        SELECT FROM first_approvals f WHERE f.batch_id = p_batch_id AND may_approve(f.approver));
BEGIN
    SELECT * INTO v_measure FROM batch_measure(p_batch_id);
    IF NOT EXISTS (SELECT FROM approval_limits) THEN
        RETURN QUERY SELECT NULL::text, CASE WHEN v_has_first THEN '{}'
            ELSE defaults_exceeded(v_measure.rise_basis_points, v_measure.fall_basis_points) END;
    END IF;
    RETURN QUERY SELECT l.approver, approver_shortfall(l.approver, v_has_first, v_measure.rows, v_measure.basis_points,
            v_measure.monthly_milliunits, v_measure.rise_basis_points, v_measure.fall_basis_points)
        FROM approval_limits l ORDER BY l.approver;
END
$$;

-- Approval ------------------------------------------------------------------------------------------------------------

-- Records the dependents that another subscription of the customer carries, by what the row says (SUBSCRIPTION/SKU) or by the
-- facts. A submission does it, so that other plans see them. The approval does it again, by the newest facts.
CREATE FUNCTION repricer.record_dependent_claims(p_batch_id uuid) RETURNS void
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM price_changes WHERE batch_id = p_batch_id AND dependent_skus <> '{}') THEN
        RETURN;
    END IF;
    -- Only one batch at a time records claims, because two side by side would not see each other's. No other writer waits.
    LOCK TABLE dependent_claims IN SHARE UPDATE EXCLUSIVE MODE;
    INSERT INTO dependent_claims (original_transaction_id, bucket, sku, claimed_by, change_id, period)
        SELECT n.place[1], bucket_of(n.place[1]), n.place[2], c.original_transaction_id, c.change_id,
            (SELECT coalesce(s.renewal_period, s.period) FROM subscriptions s
                WHERE s.original_transaction_id = n.place[1] AND s.bucket = bucket_of(n.place[1]))
        FROM price_changes c, unnest(c.dependent_skus) AS name,
            LATERAL (SELECT regexp_match(name, '^([0-9]+)/(.+)$') AS place) n
        WHERE c.batch_id = p_batch_id AND c.dependent_skus <> '{}' AND c.state = 'awaiting_approval'
            AND n.place IS NOT NULL
        ON CONFLICT DO NOTHING;
    WITH named AS MATERIALIZED (
        SELECT DISTINCT c.original_transaction_id AS id, c.change_id, s.app_account_token AS customer,
            n.name AS sku, jsonb_build_array(jsonb_build_object('sku', n.name, 'renews', true)) AS item
        FROM price_changes c
        JOIN subscriptions s ON s.original_transaction_id = c.original_transaction_id AND s.bucket = c.bucket
            AND s.app_account_token IS NOT NULL
        CROSS JOIN LATERAL unnest(c.dependent_skus) AS n (name)
        WHERE c.batch_id = p_batch_id AND c.dependent_skus <> '{}' AND n.name !~ '^[0-9]+/.'
            AND c.state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'scheduled',
                'pending_consent', 'accepted')
            AND NOT s.items @> jsonb_build_array(jsonb_build_object('sku', n.name, 'renews', true))
    )
    INSERT INTO dependent_claims (original_transaction_id, bucket, sku, claimed_by, change_id, period)
        SELECT o.original_transaction_id, o.bucket, n.sku, n.id, n.change_id, coalesce(o.renewal_period, o.period)
        FROM named n JOIN subscriptions o ON o.app_account_token = n.customer AND o.original_transaction_id <> n.id
            AND o.items @> n.item AND o.auto_renews IS NOT FALSE
            AND coalesce(o.status IN (1, 3, 4), true)
        ON CONFLICT DO NOTHING;
END
$$;

-- The first line of a batch that wrongly names an item of another subscription (shared or chained over open changes), in
-- words; null where there is none.
CREATE FUNCTION repricer.cross_subscription_fault(p_batch_id uuid) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp AS $$
BEGIN
IF NOT EXISTS (
    SELECT 1 FROM price_changes c
    WHERE c.batch_id = p_batch_id AND c.state = 'awaiting_approval' AND c.dependent_skus <> '{}')
THEN
    RETURN NULL;
END IF;
-- Claims, the changes that make them, and the roles on the carrying subscriptions are in several buckets, so each is read by
-- itself.
RETURN (WITH ours AS MATERIALIZED (
    SELECT c.line, c.original_transaction_id AS id, c.change_id, c.sku, c.dependent_skus FROM price_changes c
    WHERE c.batch_id = p_batch_id AND c.state = 'awaiting_approval' AND c.dependent_skus <> '{}'
), known AS MATERIALIZED (
    SELECT d.original_transaction_id, d.sku, d.claimed_by, d.change_id FROM dependent_claims d
), claims AS MATERIALIZED (
    SELECT d.*, coalesce(o.current_sku, o.sku) AS parent FROM known d
    JOIN price_changes o ON o.original_transaction_id = d.claimed_by AND o.change_id = d.change_id
        AND o.state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'scheduled', 'pending_consent', 'accepted')
), roles AS MATERIALIZED (
    SELECT r.original_transaction_id, r.change_id, r.sku, r.role FROM dependency_roles r
    WHERE r.original_transaction_id IN (SELECT original_transaction_id FROM claims)
), named AS (
    SELECT c.line, c.id, c.change_id, c.sku AS parent, d.original_transaction_id || '/' || d.sku AS name,
        d.original_transaction_id AS carrier, d.sku
    FROM ours c JOIN claims d ON d.claimed_by = c.id AND d.change_id = c.change_id
), faults AS (
    SELECT p.line, format('%s also depends on an open change of %s', p.name, d.claimed_by) AS said
    FROM named p JOIN claims d ON d.original_transaction_id = p.carrier AND d.sku = p.sku
        AND (d.claimed_by, d.change_id) <> (p.id, p.change_id)
    UNION ALL
    SELECT p.line, CASE r.role
        WHEN 'parent' THEN format('dependents form a chain %s → %s → %s', p.parent, p.name, (
            SELECT min(l.sku) FROM roles l
            WHERE l.original_transaction_id = p.carrier AND l.change_id = r.change_id AND l.role = 'dependent'))
        ELSE format('%s is a %s in an open change of its own subscription', p.name, r.role) END
    FROM named p JOIN roles r ON r.original_transaction_id = p.carrier AND r.sku = p.sku
    UNION ALL
    SELECT c.line, CASE r.role
        WHEN 'parent' THEN format('dependents form a chain %s/%s → %s → %s', d.claimed_by, d.parent, r.sku,
            (SELECT min(n.name) FROM unnest(c.dependent_skus) AS n (name)))
        ELSE format('%s is a %s here and depends on an open change of %s', r.sku, r.role, d.claimed_by) END
    FROM claims d
    JOIN roles r ON r.original_transaction_id = d.original_transaction_id AND r.sku = d.sku
    JOIN ours c ON c.id = r.original_transaction_id AND c.change_id = r.change_id
)
SELECT format('line %s: %s', line, said) FROM faults ORDER BY line, said LIMIT 1);
END
$$;

-- When a wave releases itself, if the one before it, p_before, was released at p_at; null where a person releases it. Where that
-- one was late, because the batch was paused for example, the instants of both keep their distance, so that what the former
-- wave shows can still stop this one.
CREATE FUNCTION repricer.wave_release_at(p_wave jsonb, p_before jsonb, p_at timestamptz) RETURNS timestamptz
    LANGUAGE sql STABLE SET search_path = repricer, pg_temp AS $$
SELECT CASE p_wave ->> 'release'
    WHEN 'approval' THEN p_at
    WHEN 'at' THEN greatest((p_wave ->> 'at')::timestamptz,
        p_at + ((p_wave ->> 'at')::timestamptz - (p_before ->> 'at')::timestamptz))
    WHEN 'after' THEN p_at + (p_wave ->> 'after_ms')::bigint * interval '1 millisecond'
    END
$$;

-- Releases the waves of a batch up to p_through. The caller holds the lock on the batch.
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
            next_release_at = wave_release_at(v_waves -> p_through, v_waves -> (p_through - 1), p_at)
        WHERE batch_id = p_batch.batch_id;
    PERFORM append_audit(p_actor, p_at, 'release', 'batch:' || p_batch.batch_id,
        json_build_object('wave', p_through, 'of', jsonb_array_length(v_waves),
            'label', v_waves -> (p_through - 1) ->> 'label'));
END
$$;

-- Approves a batch, queues its changes and ends those that are held out. Returns the number of the queued ones, or null
-- where this approval is recorded as the first and a second approver is needed. Every change passes here, so this checks
-- again what the submission checked: that all rows are there, that each is in a wave, and that the part which a change gives
-- to each of its SKUs is recorded.
CREATE FUNCTION repricer.approve_batch(p_batch_id uuid, p_at timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_batch batches;
    v_rows bigint;
    v_stray bigint;
    v_line bigint;
    v_held_out bigint;
    v_queued bigint;
    v_recorded_at timestamptz;
    v_exceeded text[];
    v_first text;
    v_fault text;
    v_release_at timestamptz;
    v_ids text[];
    v_changes uuid[];
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
    END IF;
    -- An approval is never earlier than the submission, not even in a rehearsal, where the caller's clock counts.
    p_at := greatest(p_at, v_batch.submitted_at);
    IF v_batch.state <> 'awaiting_approval' THEN
        RAISE EXCEPTION 'batch % is %, not awaiting approval', p_batch_id, v_batch.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM require_another(v_batch.submitted_by, 'batch');
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
            AND c.dependent_skus <> '{}' AND (
                SELECT count(*) FROM dependency_roles d
                WHERE d.original_transaction_id = c.original_transaction_id AND d.bucket = c.bucket
                    AND d.change_id = c.change_id AND (d.role = 'parent' AND d.sku = c.sku
                        OR d.role = 'dependent' AND d.sku = ANY (c.dependent_skus))
            ) < 1 + (SELECT count(DISTINCT n.sku) FROM unnest(c.dependent_skus) AS n (sku))
        ORDER BY c.line LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'line % of batch % names dependents without their part in dependency_roles',
            v_line, p_batch_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM record_dependent_claims(p_batch_id);
    v_fault := cross_subscription_fault(p_batch_id);
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION '% of batch %', v_fault, p_batch_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- The limits must not change while this approval is judged by them. They change rarely, so it is they that wait.
    LOCK TABLE approval_limits, default_limits IN SHARE MODE;
    v_exceeded := approval_shortfall(p_batch_id);
    IF v_exceeded IS NOT NULL THEN
        INSERT INTO first_approvals (batch_id, approver, approved_at, exceeded)
            VALUES (p_batch_id, v_by, p_at, v_exceeded);
        PERFORM append_audit(session_user::text, p_at, 'approve_first', 'batch:' || p_batch_id,
            json_build_object('name', v_batch.name, 'rows', v_rows, 'submitted_by', v_batch.submitted_by,
                'plan_hash', v_batch.plan_hash, 'exceeded', v_exceeded));
        RETURN NULL;
    END IF;
    SELECT string_agg(approver, ', ' ORDER BY approver) INTO v_first
        FROM first_approvals WHERE batch_id = p_batch_id AND may_approve(approver);
    PERFORM keep_batch(p_batch_id);
    -- In an UPDATE of a reference table Citus computes nothing from a column, because each node has the row.
    v_release_at := wave_release_at(v_batch.waves -> 0, NULL, p_at);
    UPDATE batches SET state = 'approved', decided_by = v_by, decided_at = p_at, next_release_at = v_release_at
        WHERE batch_id = p_batch_id RETURNING * INTO v_batch;
    IF v_batch.holdout_basis_points > 0 THEN
        SELECT array_agg(original_transaction_id), array_agg(change_id) INTO v_ids, v_changes FROM price_changes
            WHERE batch_id = p_batch_id AND state = 'awaiting_approval' AND is_held_out;
        v_recorded_at := keep_changes(v_ids, v_changes);
    END IF;
    WITH held_out AS (
        UPDATE price_changes SET state = 'aborted', state_since = p_at, ended_at = p_at, reason = 'held_out',
                recorded_at = v_recorded_at
            WHERE v_batch.holdout_basis_points > 0 AND batch_id = p_batch_id AND state = 'awaiting_approval'
                AND is_held_out
            RETURNING original_transaction_id, bucket, change_id
    ), released AS (
        DELETE FROM dependency_roles d USING held_out h
            WHERE d.original_transaction_id = h.original_transaction_id AND d.change_id = h.change_id
                AND d.bucket = h.bucket
    ), told AS (
        INSERT INTO price_change_history
                (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id, reason,
                 actor)
            SELECT original_transaction_id, bucket, change_id, p_at, 'aborted', 'approval', v_by, 'held_out', v_by
            FROM held_out
    )
    SELECT count(*) INTO v_held_out FROM held_out;
    -- A change that ended while it waited stays ended, because an older change of its item turned out to be open.
    WITH queued AS (
        UPDATE price_changes SET state = 'queued', state_since = p_at,
                is_ready = (send_after IS NULL OR send_after <= p_at)
            WHERE batch_id = p_batch_id AND state = 'awaiting_approval'
            RETURNING original_transaction_id, bucket, change_id
    )
    INSERT INTO price_change_history
            (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id, actor)
        SELECT original_transaction_id, bucket, change_id, p_at, 'queued', 'approval', v_by, v_by
        FROM queued;
    GET DIAGNOSTICS v_queued = ROW_COUNT;
    PERFORM append_audit(session_user::text, p_at, 'approve', 'batch:' || p_batch_id,
        json_build_object('name', v_batch.name, 'rows', v_rows, 'held_out', nullif(v_held_out, 0),
            'ended_before', nullif(v_rows - v_held_out - v_queued, 0),
            'submitted_by', v_batch.submitted_by, 'plan_hash', v_batch.plan_hash, 'first_approved_by', v_first,
            'waves', CASE WHEN v_batch.waves <> '[]'
                THEN (SELECT string_agg(w ->> 'label', ',') FROM jsonb_array_elements(v_batch.waves) w) END));
    IF v_batch.waves -> 0 ->> 'release' = 'approval' THEN
        PERFORM release_waves_through(v_batch, 1, session_user::text, p_at);
    END IF;
    RETURN v_queued;
END
$$;

-- Locks these subscriptions in the order of their buckets and ids, as everybody does who locks several. Each bucket has a
-- statement of its own, because Citus takes the locks of one shard at a time.
CREATE FUNCTION repricer.lock_subscriptions(p_ids text[]) RETURNS void
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
DECLARE
    v_bucket smallint;
    v_ids text[];
BEGIN
    FOR v_bucket, v_ids IN
        SELECT bucket_of(id), array_agg(DISTINCT id) FROM unnest(p_ids) AS id GROUP BY 1 ORDER BY 1
    LOOP
        PERFORM 1 FROM subscriptions s
            WHERE s.bucket = v_bucket AND s.original_transaction_id = ANY (v_ids)
            ORDER BY s.original_transaction_id FOR UPDATE;
    END LOOP;
END
$$;

-- Whether a row of the batch has not ended yet.
CREATE FUNCTION repricer.has_open_rows(p_batch_id uuid) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    -- Citus takes no subquery without a column here.
    RETURN EXISTS (SELECT 1 FROM price_changes
        WHERE batch_id = p_batch_id
            AND stage IN ('awaiting_approval', 'queued', 'unknown', 'scheduled', 'pending_consent', 'accepted'));
END
$$;

-- Withdraws what has not been sent; returns the number of changes withdrawn. The submitter may, too.
CREATE FUNCTION repricer.withdraw_batch(p_batch_id uuid, p_at timestamptz, p_new_state text, p_reason text)
    RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus refuses a CASE with session_user in an UPDATE.
    v_by text := session_user;
    v_state text;
    v_is_paused boolean;
    v_rows bigint;
    v_ids text[];
    v_changes uuid[];
    v_recorded_at timestamptz;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT state, is_paused INTO v_state, v_is_paused FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
    END IF;
    IF p_new_state NOT IN ('rejected', 'aborted') THEN
        RAISE EXCEPTION 'a batch is rejected or aborted, not %', p_new_state
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- Of a paused one, the cancellations of dependents may still wait.
    IF v_state = 'approved' AND NOT v_is_paused AND NOT has_open_rows(p_batch_id) THEN
        RAISE EXCEPTION 'batch % is finished: each of its rows has ended, and nothing can be withdrawn', p_batch_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF v_state IN ('rejected', 'aborted') OR (p_new_state = 'rejected' AND v_state <> 'awaiting_approval')
    THEN
        RAISE EXCEPTION 'batch % is % already', p_batch_id, v_state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- Every writer of a subscription's changes locks the subscription first, and so does this. Subscriptions with a call in
    -- flight are locked, too: the settlement of that call then either queues the change before it is withdrawn here, or
    -- finds the batch withdrawn.
    SELECT array_agg(c.original_transaction_id) INTO v_ids FROM price_changes c
        WHERE c.batch_id = p_batch_id AND c.stage IN ('awaiting_approval', 'queued', 'unknown');
    PERFORM lock_subscriptions(v_ids);
    SELECT array_agg(original_transaction_id), array_agg(change_id) INTO v_ids, v_changes FROM price_changes
        WHERE batch_id = p_batch_id AND stage IN ('awaiting_approval', 'queued') AND state <> 'sending';
    v_recorded_at := keep_changes(v_ids, v_changes);
    WITH withdrawn AS (
        UPDATE price_changes SET state = 'aborted', state_since = p_at, ended_at = p_at,
                reason = p_new_state, recorded_at = v_recorded_at
            WHERE batch_id = p_batch_id AND stage IN ('awaiting_approval', 'queued') AND state <> 'sending'
            RETURNING original_transaction_id, bucket, change_id
    ), released AS (
        DELETE FROM dependency_roles d USING withdrawn w
            WHERE d.original_transaction_id = w.original_transaction_id AND d.change_id = w.change_id
                AND d.bucket = w.bucket
    ), told AS (
        INSERT INTO price_change_history
                (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id,
                 reason, actor)
            SELECT original_transaction_id, bucket, change_id, p_at, 'aborted', 'decision', v_by, p_reason, v_by
            FROM withdrawn
    )
    SELECT count(*) INTO v_rows FROM withdrawn;
    PERFORM keep_batch(p_batch_id);
    UPDATE batches SET state = p_new_state,
            decided_by = CASE WHEN p_new_state = 'rejected' THEN v_by ELSE decided_by END,
            decided_at = CASE WHEN p_new_state = 'rejected' THEN p_at ELSE decided_at END,
            decision_reason = p_reason
        WHERE batch_id = p_batch_id;
    PERFORM append_audit(session_user::text, p_at,
        CASE p_new_state WHEN 'rejected' THEN 'reject' ELSE 'abort' END, 'batch:' || p_batch_id,
        json_build_object('withdrawn', v_rows, 'reason', p_reason));
    RETURN v_rows;
END
$$;

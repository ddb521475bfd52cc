-- Closed months, and what became known of them since.
-- Locks: none on existing tables.
-- breaking: no

-- What finance has signed for a month stays as it was closed. Only close_month writes these two tables.
CREATE TABLE repricer.closed_months (
    month date NOT NULL,
    closed_at timestamptz NOT NULL,
    closed_by name NOT NULL DEFAULT session_user,
    CONSTRAINT closed_months_pkey PRIMARY KEY (month),
    CONSTRAINT closed_months_first_day CHECK (month = date_trunc('month', month))
);
CREATE TABLE repricer.closed_figures (
    month date NOT NULL,
    batch_id uuid,
    currency text NOT NULL,
    kind text NOT NULL,
    milliunits bigint NOT NULL,
    CONSTRAINT closed_figures_once UNIQUE NULLS NOT DISTINCT (month, batch_id, currency, kind),
    CONSTRAINT closed_figures_month FOREIGN KEY (month) REFERENCES repricer.closed_months (month),
    CONSTRAINT closed_figures_kind CHECK (kind IN ('charge', 'refund', 'reversal', 'uplift'))
);
COMMENT ON TABLE repricer.closed_months IS 'Append-only. Which months were closed, when and by whom; a month is one of UTC.';
COMMENT ON TABLE repricer.closed_figures IS 'Append-only. The figures of a closed month as they were known when it was closed.';

-- The money of each closed month as it is known now, by what happened in it. OFFSET 0 makes PostgreSQL read the lines of each
-- month by themselves, and not all there are. Marked subscriptions are counted from the facts, once for all months, and only
-- where a month is closed.
CREATE VIEW repricer.known_figures AS
WITH months AS (
    SELECT month, month::timestamp AT TIME ZONE 'UTC' AS starts_at, (month + interval '1 month') AT TIME ZONE 'UTC' AS ends_at
    FROM repricer.closed_months
)
SELECT f.month, f.batch_id, f.currency, f.kind, sum(f.milliunits) AS milliunits
FROM (
    SELECT m.month, e.batch_id, e.currency, k.kind, k.milliunits
    FROM months m
    CROSS JOIN LATERAL (
        SELECT l.* FROM repricer.money_entries l
        WHERE l.occurred_at >= m.starts_at AND l.occurred_at < m.ends_at
            AND NOT EXISTS (SELECT FROM repricer.marked_subscriptions() s (id) WHERE s.id = l.original_transaction_id)
        OFFSET 0) e
    CROSS JOIN LATERAL (VALUES (e.kind, e.amount_milliunits), ('uplift', e.uplift_milliunits)) AS k (kind, milliunits)
    WHERE k.milliunits IS NOT NULL
    UNION ALL
    SELECT m.month, e.batch_id, e.currency, e.kind, e.amount_milliunits
    FROM (
        SELECT l.* FROM repricer.marked_money l WHERE EXISTS (SELECT FROM repricer.closed_months) OFFSET 0) e
    JOIN months m ON e.occurred_at >= m.starts_at AND e.occurred_at < m.ends_at
    UNION ALL
    -- A renewal has an uplift only where the ledger has a line for its charge.
    SELECT m.month, x.batch_id, x.currency, 'uplift', x.uplift_milliunits
    FROM (
        SELECT DISTINCT s.original_transaction_id FROM repricer.stale_figures s
        WHERE EXISTS (SELECT FROM repricer.closed_months)) s
    CROSS JOIN LATERAL (
        SELECT c.* FROM repricer.explained_charges c
        WHERE c.original_transaction_id = s.original_transaction_id AND c.uplift_milliunits IS NOT NULL OFFSET 0) x
    JOIN months m ON x.purchased_at >= m.starts_at AND x.purchased_at < m.ends_at
    WHERE EXISTS (
        SELECT FROM repricer.money_entries e
        WHERE e.original_transaction_id = x.original_transaction_id AND e.transaction_id = x.transaction_id AND e.sku = x.sku
            AND e.kind = 'charge' AND e.correction = 0 AND e.occurred_at = x.purchased_at AND e.currency = x.currency)) f
GROUP BY f.month, f.batch_id, f.currency, f.kind;
COMMENT ON VIEW repricer.known_figures IS 'The figures of closed months as they are known now.';

CREATE VIEW report.closed_period AS
WITH both_figures AS (
    SELECT month, batch_id, currency, kind, milliunits AS closed, 0::numeric AS known FROM repricer.closed_figures
    UNION ALL
    SELECT month, batch_id, currency, kind, 0, milliunits FROM repricer.known_figures
), sums AS (
    SELECT month, batch_id, currency, kind, sum(closed)::bigint AS closed,
        repricer.figure(sum(known), to_char(month, 'YYYY-MM') || ': lines of ' || currency || ', ' || kind) AS known
    FROM both_figures GROUP BY month, batch_id, currency, kind
)
SELECT s.month, s.currency, s.batch_id, b.name AS batch_name, s.kind, s.closed AS closed_milliunits,
    repricer.figure(s.known::numeric - s.closed, to_char(s.month, 'YYYY-MM') || ': restatements of ' || s.currency)
        AS restated_milliunits, s.known AS known_milliunits, m.closed_at, m.closed_by::text AS closed_by
FROM sums s
JOIN repricer.closed_months m ON m.month = s.month
LEFT JOIN repricer.batches b ON b.batch_id = s.batch_id;
COMMENT ON VIEW report.closed_period IS
    'Closed months: the figures as they were closed, and what statements since then have added to them or taken away.'
    ' No NAME_as_of: what was closed is never changed, and what is restated is about today.';

-- A digest of the figures of a closed month: its line of the audit trail keeps it, and `audit verify` computes it anew.
CREATE FUNCTION repricer.closed_month_sha256(p_month date) RETURNS text LANGUAGE sql STABLE SET search_path = repricer, pg_temp AS $$
SELECT encode(sha256(convert_to(coalesce(string_agg(ROW(batch_id, currency, kind, milliunits)::text, E'\n'
    ORDER BY batch_id NULLS FIRST, currency COLLATE "C", kind COLLATE "C"), ''), 'UTF8')), 'hex')
FROM closed_figures WHERE month = p_month
$$;

-- Closes a month: its figures stay as they are known now. The owner and members of repricer_finance_lead may call it.
CREATE FUNCTION report.close_month(p_month text, p_at timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp SET timezone = 'UTC' SET jit = off
    SET lock_timeout = '2s' AS $$
DECLARE
    v_month date;
    v_figures bigint;
BEGIN
    IF NOT pg_has_role(session_user, 'repricer_finance_lead', 'MEMBER')
        AND NOT pg_has_role(session_user, (SELECT nspowner FROM pg_namespace WHERE nspname = 'report'), 'MEMBER')
    THEN
        RAISE EXCEPTION 'user % may not close a month: it is for the owner of the database and members of '
            'repricer_finance_lead', session_user USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF p_month IS NULL OR p_month !~ '^[0-9]{4}-(0[1-9]|1[0-2])$' OR p_month < '0001' THEN
        RAISE EXCEPTION '% is no month; write it as 2026-10', coalesce(p_month, 'null')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    v_month := (p_month || '-01')::date;
    p_at := decision_instant(p_at);
    IF v_month > p_at THEN
        RAISE EXCEPTION 'month % has not begun', p_month USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF v_month + interval '1 month' > p_at THEN
        RAISE EXCEPTION 'month % is not over: it ends at %', p_month,
            to_char(v_month + interval '1 month', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'a month is closed in a transaction of its own, with isolation READ COMMITTED: an older snapshot does '
            'not show what is known' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- Nobody records money while the month is counted, which takes a second at most for most months. So closed_at separates what
    -- is in the figures from what is told later, and a report as of closed_at says the same. On a Citus cluster nobody waits, so
    -- what is recorded within moments of closed_at may be in the figures or not.
    IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN
        -- A session that then left its transaction open would stop everybody who records.
        IF (SELECT setting::bigint NOT BETWEEN 1 AND 5000 FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout') THEN
            PERFORM set_config('idle_in_transaction_session_timeout', '5s', true);
        END IF;
        BEGIN
            LOCK TABLE subscription_events, charges, money_entries IN SHARE MODE;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            RAISE EXCEPTION 'month % is not closed: a transaction that records what the App Store told stays open; try again, or '
                'end it', p_month USING ERRCODE = 'object_not_in_prerequisite_state';
        END;
    END IF;
    -- A rehearsal whose database has no clock of its own goes by the caller's.
    SELECT greatest(p_at, CASE WHEN NOT k.is_rehearsal OR k.clock_rate IS NOT NULL THEN recording_instant() END) INTO p_at
        FROM service_controls k;
    INSERT INTO closed_months (month, closed_at) VALUES (v_month, p_at) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'month % was closed at % by %', p_month,
            (SELECT to_char(closed_at, 'YYYY-MM-DD"T"HH24:MI:SS"Z"') FROM closed_months WHERE month = v_month),
            (SELECT closed_by FROM closed_months WHERE month = v_month) USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO closed_figures
        SELECT month, batch_id, currency, kind,
            figure(milliunits, 'month ' || p_month || ' cannot be closed: its lines of ' || currency || ', ' || kind)
        FROM known_figures WHERE month = v_month;
    GET DIAGNOSTICS v_figures = ROW_COUNT;
    PERFORM append_audit(session_user::text, p_at, 'close_month', 'month:' || p_month,
        json_build_object('figures', v_figures, 'figures_sha256', closed_month_sha256(v_month), 'sums', (
            SELECT json_agg(json_build_object('currency', s.currency, 'kind', s.kind, 'milliunits', s.milliunits)
                ORDER BY s.currency, s.kind)
            FROM (SELECT currency, kind, sum(milliunits) AS milliunits FROM closed_figures
                WHERE month = v_month GROUP BY currency, kind) s)));
    RETURN v_figures;
END
$$;
COMMENT ON FUNCTION report.close_month(text, timestamptz) IS
    'Closes a month, written as 2026-10, on the server''s clock; returns how many figures it has. In a rehearsal the instant '
    'given is the clock.';

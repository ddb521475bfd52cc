-- What each report said at an instant, row for row.
-- Locks: none on existing tables.
-- breaking: no

-- Each report has a function that is its view over the tables as they were recorded at an instant. So figures of the past are
-- counted like those of today. A report without such a function has a comment that says why.
-- A checkpoint knows the latest period that it stands for, but not when that was told. So the period is read from rows that
-- have the instant at which they were recorded, and retention keeps those (kept_statements, charges).
CREATE FUNCTION repricer.subscriptions_at(p_at timestamptz)
    RETURNS TABLE (original_transaction_id text, bucket smallint, expires_at timestamptz, period text, purchased_at timestamptz)
    LANGUAGE sql STABLE AS $$
SELECT s.original_transaction_id, s.bucket, NULL::timestamptz, s.period, (
    SELECT CASE
        -- If no statement tells of a later period today, none did then, unless a statement has been read anew since.
        WHEN s.purchased_at <= h.at AND NOT EXISTS (
            SELECT FROM repricer.subscription_event_versions v
            WHERE v.original_transaction_id = s.original_transaction_id AND v.recorded_until > p_at) THEN h.at
        -- A period that no charge tells begins after those that charges tell, and no statement tells of it more than 40 days
        -- before it begins. So earlier months need not be opened.
        ELSE greatest(h.at,
            (SELECT timestamptz 'epoch' + max((e.statement #>> '{transaction,purchasedAt}')::bigint) * interval '1 millisecond'
                FROM repricer.subscription_events_at(p_at) e
                WHERE e.original_transaction_id = s.original_transaction_id
                    AND e.statement #>> '{transaction,details,additionalTransactionReason}' IS DISTINCT FROM 'SEAT_ADDITION'
                    AND e.signed_at > coalesce(h.at - repricer.days(40), '-infinity')),
            (SELECT max(coalesce(k.told_period_at,
                    timestamptz 'epoch' + (k.statement #>> '{transaction,purchasedAt}')::bigint * interval '1 millisecond'))
                FROM repricer.kept_statements k
                WHERE k.original_transaction_id = s.original_transaction_id AND k.recorded_at <= p_at
                    AND k.statement #>> '{transaction,details,additionalTransactionReason}' IS DISTINCT FROM 'SEAT_ADDITION')) END
    -- Seats that are added begin no period.
    FROM (SELECT max(c.purchased_at) AS at FROM repricer.charges_at(p_at) c
        WHERE c.original_transaction_id = s.original_transaction_id AND NOT c.is_added_seat) h)
FROM repricer.subscriptions s
$$;
COMMENT ON FUNCTION repricer.subscriptions_at(timestamptz) IS
    'For each subscription, the start of the latest period that a statement had told of. It does not say until when that was '
    'paid; charges do. The length of a period is that of today: a report that must say the same for ever uses one that was '
    'recorded (dependent_claims, dependent_cancellations).';
CREATE FUNCTION repricer.change_figures_at(p_at timestamptz) RETURNS SETOF repricer.change_figures LANGUAGE sql STABLE AS $$
SELECT * FROM repricer.change_figures WHERE false
$$;
CREATE FUNCTION repricer.figure_tallies_at(p_at timestamptz) RETURNS SETOF repricer.figure_tallies LANGUAGE sql STABLE AS $$
SELECT * FROM repricer.figure_tallies WHERE false
$$;


-- Kept figures of which nothing was recorded since the instant are what was known then. Only the rest is counted anew.
CREATE FUNCTION repricer.frozen_figures_at(p_at timestamptz) RETURNS SETOF repricer.change_figures LANGUAGE sql STABLE AS $$
SELECT f.* FROM repricer.change_figures f
WHERE f.counted_at <= p_at AND NOT EXISTS (
    SELECT FROM repricer.marked_subscriptions() s (id) WHERE s.id = f.original_transaction_id)
$$;
-- price_changes_at without the changes whose figures are frozen: nearly all of a batch that is over. They are dropped before
-- their versions are searched.
DO $unfrozen$
DECLARE
    v_text text;
    v_changes CONSTANT text := 'FROM repricer.price_changes c';
BEGIN
    SELECT p.prosrc INTO v_text FROM pg_proc p WHERE p.oid = 'repricer.price_changes_at(timestamptz)'::regprocedure;
    IF v_text !~ (v_changes || '\n') THEN
        RAISE EXCEPTION 'price_changes_at reads no changes';
    END IF;
    EXECUTE format($make$
CREATE FUNCTION repricer.unfrozen_changes_at(p_at timestamptz) RETURNS SETOF repricer.price_changes LANGUAGE sql STABLE AS $body$%s$body$ $make$,
        replace(v_text, v_changes || E'\n', $changes$FROM (
    SELECT c.* FROM repricer.price_changes c
    WHERE NOT EXISTS (
        SELECT FROM repricer.frozen_figures_at(p_at) f
        WHERE f.original_transaction_id = c.original_transaction_id AND f.change_id = c.change_id AND f.batch_id = c.batch_id)) c
$changes$));
END
$unfrozen$;

CREATE FUNCTION report.batch_summary_as_of(p_at timestamptz, batch uuid DEFAULT NULL)
    RETURNS SETOF report.batch_summary LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off SET timezone = UTC AS $$
DECLARE
    p_batch ALIAS FOR batch;
BEGIN
    PERFORM require_past(p_at);
    RETURN QUERY
    WITH changes AS (
        SELECT f.batch_id, f.state, count(*) AS rows FROM frozen_figures_at(p_at) f
        WHERE p_batch IS NULL OR f.batch_id = p_batch GROUP BY f.batch_id, f.state
        UNION ALL
        SELECT c.batch_id, c.state, count(*) FROM unfrozen_changes_at(p_at) c
        WHERE p_batch IS NULL OR c.batch_id = p_batch GROUP BY c.batch_id, c.state
    ), stages AS (
        SELECT c.batch_id, sum(c.rows)::bigint AS stored, coalesce(sum(c.rows) FILTER (WHERE c.state = 'awaiting_approval'), 0)::bigint AS awaiting_approval,
            coalesce(sum(c.rows) FILTER (WHERE c.state = 'queued'), 0)::bigint AS queued, coalesce(sum(c.rows) FILTER (WHERE c.state = 'sending'), 0)::bigint AS sending,
            coalesce(sum(c.rows) FILTER (WHERE c.state = 'unknown'), 0)::bigint AS unknown, coalesce(sum(c.rows) FILTER (WHERE c.state = 'scheduled'), 0)::bigint AS scheduled,
            coalesce(sum(c.rows) FILTER (WHERE c.state = 'pending_consent'), 0)::bigint AS pending_consent,
            coalesce(sum(c.rows) FILTER (WHERE c.state = 'accepted'), 0)::bigint AS accepted,
            coalesce(sum(c.rows) FILTER (WHERE c.state = 'effective'), 0)::bigint AS effective, coalesce(sum(c.rows) FILTER (WHERE c.state = 'declined'), 0)::bigint AS declined,
            coalesce(sum(c.rows) FILTER (WHERE c.state = 'cancelled'), 0)::bigint AS cancelled, coalesce(sum(c.rows) FILTER (WHERE c.state = 'lapsed'), 0)::bigint AS lapsed,
            coalesce(sum(c.rows) FILTER (WHERE c.state = 'invalidated'), 0)::bigint AS invalidated,
            coalesce(sum(c.rows) FILTER (WHERE c.state = 'rejected'), 0)::bigint AS rejected,
            coalesce(sum(c.rows) FILTER (WHERE c.state = 'ineligible'), 0)::bigint AS ineligible, coalesce(sum(c.rows) FILTER (WHERE c.state = 'missed'), 0)::bigint AS missed,
            coalesce(sum(c.rows) FILTER (WHERE c.state = 'aborted'), 0)::bigint AS aborted
        FROM changes c GROUP BY c.batch_id
    ), sums AS (
        SELECT t.*, t.awaiting_approval + t.queued + t.sending + t.unknown + t.scheduled + t.pending_consent + t.accepted AS open,
            t.effective + t.declined + t.cancelled + t.lapsed + t.invalidated + t.rejected + t.ineligible + t.missed
                + t.aborted AS final
        FROM stages t
    )
    SELECT b.batch_id, b.name, b.state, b.is_paused, b.paused_reason, b.submitted_by::text, b.submitted_at,
        b.planned_as_of, CASE WHEN b.state <> 'rejected' THEN b.decided_by::text END,
        CASE WHEN b.state <> 'rejected' THEN b.decided_at END, CASE WHEN b.state = 'rejected' THEN b.decided_by::text END,
        b.decision_reason, b.row_count, b.rejected_row_count, coalesce(s.awaiting_approval, 0), coalesce(s.queued, 0),
        coalesce(s.sending, 0), coalesce(s.unknown, 0), coalesce(s.scheduled, 0), coalesce(s.pending_consent, 0),
        coalesce(s.accepted, 0), coalesce(s.effective, 0), coalesce(s.declined, 0), coalesce(s.cancelled, 0),
        coalesce(s.lapsed, 0), coalesce(s.invalidated, 0), coalesce(s.rejected, 0), coalesce(s.ineligible, 0),
        coalesce(s.missed, 0), coalesce(s.aborted, 0), coalesce(s.open, 0), coalesce(s.final, 0),
        coalesce(s.final, 0) = b.row_count,
        coalesce(s.stored, 0) = b.row_count AND coalesce(s.open + s.final, 0) = b.row_count
            AND (SELECT count(*) FROM batch_rejects r WHERE r.batch_id = b.batch_id) = b.rejected_row_count,
        b.undoes_batch_id
    FROM batches_at(p_at) b LEFT JOIN sums s ON s.batch_id = b.batch_id
    WHERE p_batch IS NULL OR b.batch_id = p_batch;
END
$$;

-- Replaces, in a text, each table of which versions are kept by the same table as it was at p_at. Each must have an alias there.
CREATE FUNCTION repricer.text_at(p_name text, p_text text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    p_text := regexp_replace(p_text, '\mrepricer\.(price_changes|batches|charges|money_entries|told_statements|'
        'subscriptions|dependent_cancellations|dependent_claims|frozen_figures|unfrozen_changes|past_change_figures|missing_renewals|charged_renewals|explained_charges|'
        'paid_changes|silent_open_changes|heard_charges|live_change_figures|live_forecast_outcomes|live_charge_exceptions|untallied_changes|change_tallies|change_figures|figure_tallies|lost_dependents|returned_dependents)\M',
        'repricer.\1_at(p_at)', 'g');
    IF p_text ~ '_at\(p_at\)(\s*(,|\)|WHERE|GROUP|JOIN|LEFT|CROSS)|\s*$)' THEN
        RAISE EXCEPTION '% reads a table without an alias', p_name;
    END IF;
    RETURN p_text;
END
$$;

-- PostgreSQL runs no part of such a query in parallel, because each change leads to searches of its own. So the buckets of a
-- large batch are counted in three shares, each by a call of a function, and these calls run on as many workers as the server
-- lends. On a cluster, whose tables are elsewhere, it lends none (Deploy/citus/gather.sql).
CREATE FUNCTION repricer.is_shared_out(p_batch uuid) RETURNS boolean LANGUAGE sql STABLE AS $$
SELECT current_setting('max_parallel_workers_per_gather')::integer > 0 AND coalesce(sum(b.row_count), 0) >= 4000
FROM repricer.batches b WHERE p_batch IS NULL OR b.batch_id = p_batch
$$;

DO $past$
DECLARE
    v record;
    v_text text;
    v_is_of_batch boolean;
BEGIN
    SELECT repricer.text_at('moves_of', p.prosrc) INTO v_text FROM pg_proc p
        WHERE p.oid = 'repricer.moves_of(text[], timestamptz[], uuid)'::regprocedure;
    EXECUTE format('CREATE FUNCTION repricer.moves_of_at(p_at timestamptz, p_ids text[], p_ats timestamptz[], p_batch uuid) '
        'RETURNS TABLE (id text, at timestamptz, batch_id uuid, month date, currency text, storefront text, opening numeric, '
        'closing numeric, cause text, price_effect numeric) LANGUAGE plpgsql STABLE PARALLEL SAFE COST 10000000 ROWS 10000 '
        'SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off SET timezone = UTC AS $body$%s$body$', v_text);
    SET LOCAL search_path = '';
    FOR v IN SELECT name, is_report FROM (VALUES
            (1, 'charged_renewals', false), (2, 'explained_charges', false), (2, 'heard_charges', false), (2, 'paid_changes', false),
            (3, 'live_change_figures', false), (3, 'live_forecast_outcomes', false),
            (4, 'missing_renewals', false), (4, 'silent_open_changes', false), (4, 'returned_dependents', false), (5, 'lost_dependents', false), (4, 'live_charge_exceptions', false), (5, 'untallied_changes', false), (6, 'change_tallies', false),
            (7, 'price_change', true), (8, 'consent_funnel', true), (9, 'revenue_impact', true), (10, 'pending_consent', true),
            (11, 'upcoming_effective', true), (12, 'dependent_cancellation', true), (13, 'forecast_accuracy', true),
            (14, 'money', true), (15, 'charge_exception', true),
            (16, 'revenue_bridge', true), (17, 'revenue_bridge_total', true), (18, 'revenue_at_risk', true),
            (19, 'holdout', true)) AS n (place, name, is_report) ORDER BY place, name DESC
    LOOP
        v_text := rtrim(pg_get_viewdef(CASE WHEN v.name = 'money' THEN 'repricer.live_money'
            ELSE format('%I.%I', CASE WHEN v.is_report THEN 'report' ELSE 'repricer' END, v.name) END::regclass), ';');
        -- Frozen figures are taken as they are kept, and everything else is counted from the facts.
        v_text := replace(replace(v_text, 'repricer.unkept_change_figures', 'repricer.past_change_figures'),
            'repricer.charge_exceptions', 'repricer.live_charge_exceptions');
        -- The tallies of forecasts are those of today, so for the past each change is counted.
        v_text := replace(v_text, 'repricer.forecast_outcomes', 'repricer.live_forecast_outcomes');
        IF v.name IN ('explained_charges', 'missing_renewals', 'paid_changes', 'silent_open_changes', 'live_change_figures') THEN
            v_text := regexp_replace(v_text, 'repricer\.price_changes c\M', 'repricer.unfrozen_changes c');
            IF v_text !~ 'repricer\.unfrozen_changes c\M' THEN
                RAISE EXCEPTION '% reads no changes', v.name;
            END IF;
        ELSIF v.name = 'price_change' THEN
            v_text := replace(v_text, 'repricer.change_figures', 'repricer.frozen_figures');
        ELSIF v.name = 'live_charge_exceptions' THEN
            v_text := v_text || $frozen$
UNION ALL
SELECT k.batch_id, k.original_transaction_id, k.change_id, k.transaction_id, k.sku, k.exception, k.occurred_at,
    k.amount_milliunits, k.expected_milliunits, k.refunded_milliunits, k.currency, k.storefront, k.bucket
FROM repricer.frozen_figures f
JOIN repricer.kept_exceptions k ON k.original_transaction_id = f.original_transaction_id AND k.change_id = f.change_id
    AND k.batch_id = f.batch_id
UNION ALL
SELECT f.batch_id, f.original_transaction_id, f.change_id, NULL, f.paid_sku, 'missing', f.paid_until, 0,
    f.new_price_milliunits * f.paid_quantity, 0, f.currency, f.storefront, f.bucket
FROM repricer.frozen_figures f
WHERE f.word_due_at < (SELECT d.until FROM repricer.heard_charges d) AND f.paid_sku IS NOT NULL
    AND NOT EXISTS (
        SELECT FROM repricer.kept_exceptions x
        WHERE x.original_transaction_id = f.original_transaction_id AND x.change_id = f.change_id
            AND x.exception = 'missing' AND x.occurred_at = f.paid_until)$frozen$;
        ELSIF v.name = 'money' THEN
            -- The last branch is that of the lines which no change is about.
            v_text := v_text || $frozen$
    AND NOT EXISTS (
        SELECT FROM repricer.frozen_figures f
        WHERE f.original_transaction_id = e.original_transaction_id AND f.change_id = e.change_id)
UNION ALL
SELECT e.original_transaction_id, e.transaction_id, e.sku, e.kind, e.amount_milliunits, e.tax_exclusive_milliunits,
    e.currency, e.storefront, e.occurred_at, e.recorded_at, e.evidence_id, e.change_id, b.batch_id,
    CASE WHEN e.kind = 'charge' THEN e.explained_as ELSE e.kind END, b.name, e.correction > 0
FROM repricer.batches b
-- The outer OFFSET 0 makes PostgreSQL go batch by batch, and not search the batch of each line. The inner one makes it leave out
-- what is marked before the join, from which it expects one row; it would otherwise compare each row with each mark.
CROSS JOIN LATERAL (
    SELECT m.* FROM (SELECT i.* FROM repricer.frozen_figures i WHERE i.batch_id = b.batch_id OFFSET 0) f
    JOIN repricer.money_entries m ON m.original_transaction_id = f.original_transaction_id AND m.change_id = f.change_id
    WHERE m.batch_id = b.batch_id
    OFFSET 0) e$frozen$;
        END IF;
        IF v.name = 'consent_funnel' THEN
            -- The funnel has no money in it, so each change is counted without computing all its figures.
            v_text := replace(v_text, 'repricer.change_tallies t', $funnel$(
        SELECT c.batch_id, c.undoes_change_id IS NOT NULL AS is_undo, c.direction, c.forecast_consent, 1 AS changes,
            (coalesce(c.sent_at, c.scheduled_at, c.consent_asked_at, c.accepted_at, c.effective_at) IS NOT NULL)::integer AS sent,
            (c.consent_asked_at IS NOT NULL OR coalesce(c.acceptance = 'consented', false)
                OR c.state = 'declined' AND c.reason IS DISTINCT FROM 'parent_declined')::integer AS asked_for_consent,
            coalesce(c.acceptance = 'consented', false)::integer AS consented,
            coalesce(c.acceptance = 'informed', false)::integer AS informed,
            (c.state = 'effective')::integer AS effective,
            (c.state = 'declined' AND c.reason IS DISTINCT FROM 'parent_declined')::integer AS declined,
            (c.state = 'cancelled' AND c.reason IS DISTINCT FROM 'parent_declined')::integer AS cancelled,
            (c.state = 'lapsed')::integer AS lapsed,
            (c.state IN ('invalidated', 'rejected', 'ineligible', 'missed', 'aborted'))::integer AS other,
            (c.state IN ('declined', 'cancelled') AND coalesce(c.reason = 'parent_declined', false))::integer AS fell_with_parent
        FROM repricer.price_changes c) t$funnel$);
        END IF;
        v_text := repricer.text_at(v.name, v_text);
        IF v.name = 'consent_funnel' AND v_text ~ 'change_tallies' THEN
            RAISE EXCEPTION 'the consent funnel of the past reads tallies';
        END IF;
        v_text := replace(replace(replace(v_text, 'report.as_of()', 'p_at'), 'repricer.bridge_moves(', 'repricer.bridge_moves_at('),
            'report.revenue_bridge ', 'report.revenue_bridge_as_of(p_at, p_batch) ');
        -- A function that counts a batch in shares must be told which batch.
        v_is_of_batch := v_text ~ 'repricer\.(past_change_figures|untallied_changes|change_tallies)_at\(p_at\)';
        v_text := regexp_replace(v_text, 'repricer\.(past_change_figures|untallied_changes|change_tallies)_at\(p_at\)',
            'repricer.\1_at(p_at, p_batch)', 'g');
        IF v.is_report THEN
            v_text := replace(v_text, 'repricer.live_charge_exceptions_at(p_at)', 'repricer.live_charge_exceptions_of_batch_at(p_at, p_batch)');
        END IF;
        IF NOT v.is_report THEN
            EXECUTE format('CREATE FUNCTION repricer.%I(p_at timestamptz%s) RETURNS SETOF repricer.%I LANGUAGE sql STABLE AS $body$%s$body$',
                v.name || '_at', CASE WHEN v_is_of_batch THEN ', p_batch uuid' ELSE '' END, v.name, E'\n' || v_text || E'\n');
            IF v.name IN ('live_change_figures', 'live_charge_exceptions') THEN
                EXECUTE replace($shares$
CREATE FUNCTION repricer.WHAT_share_at(p_at timestamptz, p_batch uuid, p_first integer, p_last integer)
    RETURNS SETOF repricer.WHAT LANGUAGE plpgsql STABLE PARALLEL SAFE COST 10000000 ROWS 10000
    SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off SET timezone = UTC AS $body$
BEGIN
    RETURN QUERY SELECT w.* FROM repricer.WHAT_at(p_at) w
    WHERE (p_batch IS NULL OR w.batch_id = p_batch) AND w.bucket BETWEEN p_first AND p_last;
END
$body$;
CREATE FUNCTION repricer.WHAT_of_batch_at(p_at timestamptz, p_batch uuid)
    RETURNS SETOF repricer.WHAT LANGUAGE plpgsql STABLE ROWS 10000
    SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off SET timezone = UTC AS $body$
BEGIN
    IF repricer.is_shared_out(p_batch) THEN
        RETURN QUERY
        SELECT * FROM repricer.WHAT_share_at(p_at, p_batch, 0, 20)
        UNION ALL SELECT * FROM repricer.WHAT_share_at(p_at, p_batch, 21, 41)
        UNION ALL SELECT * FROM repricer.WHAT_share_at(p_at, p_batch, 42, 63);
    ELSE
        RETURN QUERY SELECT * FROM repricer.WHAT_share_at(p_at, p_batch, 0, 63);
    END IF;
END
$body$ $shares$, 'WHAT', v.name);
            END IF;
            IF v.name = 'live_change_figures' THEN
                CREATE FUNCTION repricer.past_change_figures_at(p_at timestamptz, p_batch uuid)
                    RETURNS SETOF repricer.live_change_figures LANGUAGE sql STABLE AS $body$
SELECT f.original_transaction_id, f.bucket, f.change_id, f.batch_id, f.is_undo, f.direction, f.forecast_consent, f.currency,
    f.storefront, f.period, f.state, f.is_sent, f.is_asked, f.acceptance, f.is_uncharged, f.current_price_milliunits,
    f.new_price_milliunits, f.renewals, f.first_at, f.old_total_milliunits, f.new_total_milliunits, f.state AS stage,
    true AS is_final, f.is_leaving, f.is_told, f.fell_with_parent, f.others_lost_milliunits, f.taxed_renewals,
    f.taxed_uplift_milliunits, f.paid_until, f.word_due_at, f.paid_sku, f.paid_quantity, f.seats
FROM repricer.frozen_figures_at(p_at) f
UNION ALL
SELECT l.* FROM repricer.live_change_figures_of_batch_at(p_at, p_batch) l
$body$;
            END IF;
            CONTINUE;
        END IF;
        -- It is planned anew for each call, by its values: a plan for any batch would read all of them. It is VOLATILE, so that it
        -- reads what was committed while it waited.
        EXECUTE format($make$
CREATE FUNCTION report.%I(p_at timestamptz, batch uuid DEFAULT NULL) RETURNS SETOF report.%I LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off SET timezone = UTC AS $body$
#variable_conflict use_column
DECLARE
    p_batch ALIAS FOR batch;
BEGIN
    PERFORM repricer.require_past(p_at);
    RETURN QUERY SELECT * FROM (
%s
    ) v WHERE p_batch IS NULL OR v.batch_id = p_batch;
END
$body$ $make$, v.name || '_as_of', v.name, v_text);
    END LOOP;
END
$past$;

-- Only reports about rows and money have a past: what is late, lost on its way or stuck is no fact of the past.
CREATE FUNCTION report.reconciliation_as_of(p_at timestamptz, batch uuid DEFAULT NULL)
    RETURNS SETOF report.reconciliation LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off SET timezone = UTC AS $$
DECLARE
    p_batch ALIAS FOR batch;
BEGIN
    PERFORM require_past(p_at);
    RETURN QUERY
    WITH found AS MATERIALIZED (
        SELECT s.batch_id, 'rows_add_up' AS check_name, count(*) AS problems
        FROM report.batch_summary_as_of(p_at, p_batch) s WHERE NOT s.rows_add_up GROUP BY s.batch_id
        UNION ALL
        SELECT f.batch_id, 'effective_without_charge', count(*) FROM frozen_figures_at(p_at) f
        WHERE f.is_uncharged AND (p_batch IS NULL OR f.batch_id = p_batch) GROUP BY f.batch_id
        UNION ALL
        SELECT c.batch_id, 'effective_without_charge', count(*)
        -- OFFSET 0, twice, makes PostgreSQL search only the charges of changes that are not frozen, instead of reading all there are.
        FROM (
            SELECT u.* FROM unfrozen_changes_at(p_at) u
            WHERE u.state = 'effective' AND (p_batch IS NULL OR u.batch_id = p_batch)
            OFFSET 0) c
        WHERE NOT EXISTS (
            SELECT FROM charges_at(p_at) h
            WHERE h.original_transaction_id = c.original_transaction_id
                AND repricer.is_of_item(h.sku, h.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
                AND h.purchased_at >= c.effective_at AND h.price_milliunits = c.new_price_milliunits
                AND h.currency = c.currency
            OFFSET 0)
        GROUP BY c.batch_id
        UNION ALL
        SELECT x.batch_id, CASE x.exception WHEN 'declined_yet_charged' THEN 'charges_declined'
            ELSE 'charges_' || x.exception END, count(*)
        FROM report.charge_exception_as_of(p_at, p_batch) x GROUP BY 1, 2
        UNION ALL
        SELECT c.batch_id, 'amounts_left_out', count(DISTINCT (t.original_transaction_id, t.signed_at, t.evidence_id))
        FROM told_statements_at(p_at) t
        JOIN price_changes_at(p_at) c ON c.original_transaction_id = t.original_transaction_id
            AND t.signed_at >= coalesce(c.sent_at, c.doubtful_since, c.scheduled_at)
        WHERE t.left_out IS NOT NULL AND lacks_amount(t.left_out) AND (p_batch IS NULL OR c.batch_id = p_batch)
        GROUP BY c.batch_id
    ), problems AS (
        SELECT f.batch_id, f.check_name, sum(f.problems)::bigint AS problems FROM found f GROUP BY f.batch_id, f.check_name
    )
    SELECT b.batch_id, b.name, k.check_name, coalesce(p.problems, 0),
        coalesce(p.problems, 0) = 0 OR k.check_name = 'charges_refunded', k.meaning
    FROM batches_at(p_at) b
    JOIN reconciliation_checks k ON k.is_of_money
    LEFT JOIN problems p ON p.check_name = k.check_name AND p.batch_id = b.batch_id
    WHERE p_batch IS NULL OR b.batch_id = p_batch;
END
$$;

DROP FUNCTION repricer.text_at(text, text);

DO $comments$
DECLARE
    v record;
BEGIN
    FOR v IN SELECT p.oid::regprocedure AS signature, substr(p.proname, 1, length(p.proname) - 6) AS name
        FROM pg_proc p WHERE p.pronamespace = 'report'::regnamespace AND p.proname LIKE '%\_as\_of'
    LOOP
        EXECUTE format('COMMENT ON FUNCTION %s IS %L', v.signature, format(
            'report.%s as it was known at the instant: by what was recorded until then, late news left out.%s', v.name,
            CASE v.name WHEN 'reconciliation' THEN ' Only the checks of rows and of money.' ELSE '' END));
    END LOOP;
END
$comments$;

-- The comment of each column; '*' holds in every view that has no nearer one. A column without a comment is an error.
DO $comments$
DECLARE
    v record;
BEGIN
    CREATE TEMPORARY TABLE words (view_name text, column_name text, word text) ON COMMIT DROP;
    INSERT INTO words VALUES
        ('*', 'batch_id', 'The batch; null where the row is about the whole installation.'),
        ('*', 'batch_name', 'The name that the submitter gave to the batch.'),
        ('*', 'original_transaction_id', 'The subscription, as Apple names it.'),
        ('*', 'change_id', 'The price change; unique within its subscription.'),
        ('*', 'line', 'The line of the submitted file.'),
        ('*', 'sku', 'The item whose price changes.'),
        ('*', 'storefront', 'ISO 3166-1 alpha-3.'),
        ('*', 'period', 'Length of one billing period, ISO 8601: P1W, P1M, P2M, P3M, P6M, P1Y.'),
        ('*', 'direction', 'increase or decrease.'),
        ('*', 'currency', 'ISO 4217: the currency of all money in the row.'),
        ('*', 'current_price_milliunits', 'Price a period before the change, in thousandths of the currency.'),
        ('*', 'new_price_milliunits', 'Price a period after the change, in thousandths of the currency.'),
        ('*', 'dependent_skus', 'Items that are cancelled with this one if its increase is declined.'),
        ('*', 'forecast_consent', 'Consent as forecast: required, not_known, not_required (announced only), none (a decrease).'),
        ('*', 'forecast_threshold_source', 'Where the threshold came from: apple, estimated, unknown.'),
        ('*', 'due_effective_at', 'The renewal at which the change is due to take effect, as planned now.'),
        ('*', 'consent_asked_at', 'When the App Store first asked for consent; null: it has not.'),
        ('*', 'state', 'State of the price change.'),
        ('*', 'is_overdue', 'Whether the due instant lies before report.as_of().'),
        ('*', 'changes', 'Number of price changes.'),
        ('*', 'effective', 'Changes that took effect.'),
        ('*', 'declined',
            'Changes that ended without the consent they needed; those that fell with another item are not among them.'),
        ('*', 'cancelled',
            'Changes whose subscriber left, or was refunded or revoked; those that fell with another item are not among them.'),
        ('*', 'lapsed', 'Changes that ended for billing or product reasons.'),
        ('*', 'is_final', 'Whether nothing more is expected.'),
        ('batch_summary', 'batch_state', 'awaiting_approval, approved, rejected or aborted.'),
        ('batch_summary', 'is_paused', 'Whether sending is paused for the batch.'),
        ('batch_summary', 'paused_reason', 'Why it is paused, where the service paused it.'),
        ('batch_summary', 'submitted_by', 'Database user who submitted the batch.'),
        ('batch_summary', 'submitted_at', 'When the batch was submitted.'),
        ('batch_summary', 'planned_at', 'The instant that the forecast was made for.'),
        ('batch_summary', 'approver', 'Database user who approved; never the submitter; null: nobody has.'),
        ('batch_summary', 'approved_at', 'When the batch was approved.'),
        ('batch_summary', 'rejected_by', 'Database user who rejected the batch.'),
        ('batch_summary', 'decision_reason', 'Why the batch was rejected or aborted.'),
        ('batch_summary', 'rows', 'Rows of the file that became price changes.'),
        ('batch_summary', 'refused_file_rows', 'Rows of the file that were refused at submission.'),
        ('batch_summary', 'rows_awaiting_approval', 'Rows that await approval.'),
        ('batch_summary', 'rows_queued', 'Rows that wait to be sent.'),
        ('batch_summary', 'rows_sending', 'Rows with a call under way.'),
        ('batch_summary', 'rows_unknown', 'Rows with a call whose answer was lost.'),
        ('batch_summary', 'rows_scheduled', 'Rows that the App Store has scheduled.'),
        ('batch_summary', 'rows_pending_consent', 'Rows that wait for the subscriber''s consent.'),
        ('batch_summary', 'rows_accepted', 'Rows consented to or announced, before the renewal.'),
        ('batch_summary', 'rows_effective', 'Rows that took effect.'),
        ('batch_summary', 'rows_declined', 'Rows that ended without the consent they needed.'),
        ('batch_summary', 'rows_cancelled', 'Rows whose subscriber left, or was refunded or revoked.'),
        ('batch_summary', 'rows_lapsed', 'Rows that ended for billing or product reasons.'),
        ('batch_summary', 'rows_invalidated', 'Rows whose item was replaced or whose cycle was reset.'),
        ('batch_summary', 'rows_rejected', 'Rows that the App Store refused.'),
        ('batch_summary', 'rows_ineligible', 'Rows that failed the re-check before sending.'),
        ('batch_summary', 'rows_missed', 'Rows that could not be sent in time for any allowed renewal.'),
        ('batch_summary', 'rows_aborted', 'Rows that were withdrawn unsent.'),
        ('batch_summary', 'rows_open', 'Rows from which more is expected.'),
        ('batch_summary', 'rows_final', 'Rows from which nothing more is expected.'),
        ('batch_summary', 'is_final', 'Whether every row is final.'),
        ('batch_summary', 'rows_add_up',
            'Whether stored changes, their states and the refused rows add up to the file.'),
        ('batch_summary', 'undoes_batch_id',
            'The batch whose scheduled changes this one takes back; null: it is no undo.'),
        ('price_change', 'difference_milliunits', 'New price less old price; negative for a decrease.'),
        ('price_change', 'difference_basis_points',
            'The difference in hundredths of a per cent of the old price, rounded half away from zero; null where'
            ' the old price is 0.'),
        ('price_change', 'effective_on_or_after', 'First day that the submitter allowed; null: any.'),
        ('price_change', 'forecast_reasons', 'Why consent was forecast as required.'),
        ('price_change', 'forecast_renewal_at', 'The next renewal, as known at the forecast.'),
        ('price_change', 'forecast_notice_at', 'When the App Store was forecast to tell the subscriber.'),
        ('price_change', 'forecast_effective_at', 'The renewal at which the change was forecast to take effect.'),
        ('price_change', 'send_after_at', 'First instant to send at; null: at once.'),
        ('price_change', 'send_by_at', 'Last instant to send at.'),
        ('price_change', 'reason', 'Why it is in this state: a row code, an error code of the App Store or a cause.'),
        ('price_change', 'request_reference_id', 'The id of the call, as the App Store knows it.'),
        ('price_change', 'sent_at', 'When the call was made.'),
        ('price_change', 'scheduled_at', 'When the App Store took the change.'),
        ('price_change', 'accepted_at', 'When the increase was consented to or announced.'),
        ('price_change', 'acceptance', 'consented (the subscriber said yes, or was asked and then charged) or informed (told only).'),
        ('price_change', 'effective_at', 'The renewal at which the new price was first charged.'),
        ('price_change', 'ended_at', 'When the change became final.'),
        ('price_change', 'state_since_at', 'Since when it is in this state.'),
        ('price_change', 'charged_renewals',
            'Renewals charged at the new price and not refunded in full. What charge_exception names as double, or as after_end '
            'while the change is in effect, counts until it is given back.'),
        ('price_change', 'first_charged_at', 'The first of these renewals.'),
        ('price_change', 'charged_total_milliunits', 'What these renewals charged, less what was refunded.'),
        ('price_change', 'charged_uplift_milliunits',
            'What these renewals charged more than at the old price; of one that was refunded in part, the share that was kept.'),
        ('price_change', 'undoes_change_id', 'The change that this one takes back; null: it is no undo.'),
        ('consent_funnel', 'sent', 'Changes that were sent to the App Store.'),
        ('consent_funnel', 'asked_for_consent', 'Changes for which the App Store asked for consent, told or not: nobody consents or declines unasked.'),
        ('consent_funnel', 'consented', 'Changes that the subscriber consented to.'),
        ('consent_funnel', 'informed', 'Changes that were announced without a need of consent.'),
        ('consent_funnel', 'fell_with_parent',
            'Changes of dependents that ended since the increase of the item that they hang on was declined.'),
        ('consent_funnel', 'other', 'Changes that were invalidated, rejected, ineligible, missed or aborted.'),
        ('consent_funnel', 'open',
            'Changes from which more is expected. changes = effective + declined + cancelled + lapsed + other + '
            'fell_with_parent + open.'),
        ('consent_funnel', 'consented_basis_points',
            'consented of asked_for_consent, in hundredths of a per cent; null where nobody was asked.'),
        ('consent_funnel', 'declined_basis_points', 'declined of asked_for_consent, likewise.'),
        ('consent_funnel', 'cancelled_basis_points', 'cancelled of sent, likewise.'),
        ('consent_funnel', 'effective_basis_points', 'effective of changes, likewise.'),
        ('revenue_impact', 'charged_changes',
            'Changes with at least one renewal charged at the new price and not refunded in full.'),
        ('revenue_impact', 'charged_renewals',
            'Renewals charged at the new price and not refunded in full. What charge_exception names as double, or as after_end '
            'while the change is in effect, counts until it is given back.'),
        ('revenue_impact', 'old_total_milliunits',
            'What these renewals would have charged at the old prices; of one that was refunded in part, the share that was kept.'),
        ('revenue_impact', 'new_total_milliunits', 'What these renewals charged, less what was refunded.'),
        ('revenue_impact', 'uplift_milliunits',
            'new_total less old_total: collected so far, tax included; negative for decreases.'),
        ('revenue_impact', 'old_per_period_milliunits',
            'Sum of the old prices of those of charged_changes whose items are set to renew and were last charged at them, '
            'but for silent: each change once, times the seats of its last paid period (an inference: as many renew).'),
        ('revenue_impact', 'new_per_period_milliunits',
            'Sum of the new prices of those of charged_changes whose items are set to renew and were last charged at them, or at the '
            'price of a later change, which counts from here on, '
            'but for silent: each change once, times the seats of its last paid period (an inference: as many renew).'),
        ('revenue_impact', 'uplift_per_period_milliunits',
            'new_per_period less old_per_period: what every further period adds, tax included.'),
        ('revenue_impact', 'uplift_per_month_milliunits',
            'uplift_per_period for a month (weekly: times 52/12), rounded once, half away from zero; null for an '
            'unknown period.'),
        ('revenue_impact', 'declined_lost_per_period_milliunits',
            'Sum of the old prices of the declined changes, times their last paid seats. Who came back since is counted too: '
            'revenue_bridge has the return.'),
        ('revenue_impact', 'cancelled_lost_per_period_milliunits',
            'Sum of the old prices of cancelled increases whose customers had been asked or told, times their last paid seats.'),
        ('revenue_impact', 'lapsed_lost_per_period_milliunits',
            'Sum of the old prices of lapsed increases whose customers had been asked or told, times their last paid seats.'),
        ('revenue_impact', 'silent',
            'Of charged_changes set to renew: paid until more than three days before the newest charge of anybody, and nothing was '
            'told since. Whether they go on is not known: they are in no figure of a further period, and charge_exception '
            'names them as missing.'),
        ('revenue_impact', 'silent_per_period_milliunits', 'Sum of the new prices of silent, times their last paid seats.'),
        ('revenue_impact', 'charged_renewals_with_tax', 'Charged renewals of which the App Store has signed the tax.'),
        ('revenue_impact', 'uplift_without_tax_milliunits',
            'Their uplift without tax: what was kept of each without it, less the same share of the old price.'),
        ('revenue_impact', 'other_items_lost_per_period_milliunits',
            'What other items of subscriptions cost that ended as a whole for a declined increase, where nothing else here '
            'counts them.'),
        ('revenue_impact', 'dependents_cancelled',
            'Dependents that fell with a declined item: proved cancelled, or by a change of their own that fell.'),
        ('revenue_impact', 'dependent_lost_per_period_milliunits',
            'Sum of the prices of dependents_cancelled, where known, times their last paid seats; one that is paid in another period is turned'
            ' into this one.'),
        ('revenue_impact', 'lost_per_period_milliunits', 'Sum of the five losses, tax included.'),
        ('revenue_impact', 'lost_per_month_milliunits', 'lost_per_period for a month, rounded like the uplift.'),
        ('pending_consent', 'consent_due_at', 'The renewal at which the item ends if consent is not given.'),
        ('upcoming_effective', 'is_settled',
            'Whether nothing but the renewal is missing: accepted, or a scheduled decrease.'),
        ('dependent_cancellation', 'change_id', 'The declined price change of the parent.'),
        ('dependent_cancellation', 'parent_sku', 'The item whose increase was declined.'),
        ('dependent_cancellation', 'dependent_sku', 'The item to be cancelled with it.'),
        ('dependent_cancellation', 'cause', 'Why the parent ended.'),
        ('dependent_cancellation', 'state',
            'requested, confirmed (proved), cancel_sent, discrepancy (could not be proved) or not_needed.'),
        ('dependent_cancellation', 'price_milliunits',
            'What is lost each period of one seat: the dependent''s price, in thousandths of the currency; null: not known.'),
        ('dependent_cancellation', 'requested_at', 'When the cancellation was recorded.'),
        ('dependent_cancellation', 'requested_by_evidence', 'The signed statement that called for it.'),
        ('dependent_cancellation', 'settled_at', 'When it was proved or given up.'),
        ('dependent_cancellation', 'settled_by_evidence', 'The signed statement that proves it.'),
        ('dependent_cancellation', 'detail', 'What was found, in words.'),
        ('dependent_cancellation', 'is_proved', 'Whether a signed statement shows that the item is gone, and no renewal of it was charged since.'),
        ('dependent_cancellation', 'is_cross_subscription', 'Whether the item is on another subscription of the customer.'),
        ('dependent_cancellation', 'dependent_transaction_id', 'That subscription, once found.'),
        ('dependent_cancellation', 'cancel_reference_id',
            'The requestReferenceId of the call of Cancel a Subscription; null: none was made.'),
        ('dependent_cancellation', 'period',
            'The period that it is paid by, as P1M; on another subscription that one''s. Null: not known.'),
        ('forecast_accuracy', 'came_consent',
            'What came: required, not_required or none; null: not known yet, or it never went so far.'),
        ('forecast_accuracy', 'is_as_forecast', 'Whether consent came as forecast; null: not known, or the forecast did not say.'),
        ('forecast_accuracy', 'effective_as_forecast',
            'Changes that took effect at the renewal of the forecast, or within moments of it.'),
        ('forecast_accuracy', 'forecast_reasons',
            'Why consent was forecast as required, all reasons of the change; empty: it was not.'),
        ('forecast_accuracy', 'effective_earlier', 'Changes that took effect before the renewal of the forecast.'),
        ('forecast_accuracy', 'effective_later', 'Changes that took effect after the renewal of the forecast, and not within moments of it.'),
        ('forecast_accuracy', 'renewals_moved',
            'Changes that were sent, or are to be, for a later renewal than was forecast.'),
        ('forecast_accuracy', 'consent_outcome',
            'as_forecast, missed (the App Store asked, not forecast), false_alarm (forecast, not asked), '
            'was_not_known (the forecast did not say) or not_known (what came).'),
        ('forecast_accuracy', 'forecast_not_known',
            'The rules that had too little to answer where the forecast did not say; else empty.'),
        ('forecast_accuracy', 'forecast_because',
            'Which increase within 12 months the forecast counted: sibling (another row or change of ours), '
            'earlier_increase; null: none.'),
        ('forecast_accuracy', 'missed_by_sibling',
            'Of those missed: another item''s increase, planned after this one, took effect before it. The plan of '
            'that one said so.'),
        ('forecast_accuracy', 'slipped',
            'Changes that took effect, or are due, at a later day than was forecast: the sum of the four reasons. Who is '
            'charged within moments of the renewal counts as in time.'),
        ('forecast_accuracy', 'slipped_by_billing_failure',
            'Of slipped: a charge failed at first, and the next period began late. Of several reasons the first counts.'),
        ('forecast_accuracy', 'slipped_by_late_call',
            'Of slipped: the call left after its send_by. Likewise.'),
        ('forecast_accuracy', 'slipped_by_extension', 'Of slipped: the renewal date was extended. Likewise.'),
        ('forecast_accuracy', 'slipped_by_other',
            'Of slipped: an offer, a new verdict on consent, a later date of the App Store''s own for a call in time, what the '
            'customer did, or what nobody knows. Likewise.'),
        ('*', 'transaction_id', 'The App Store''s transaction.'),
        ('money', 'sku', 'The item that was charged, by its name then.'),
        ('money', 'change_id', 'The price change that the charge belongs to; null: none of ours was called before.'),
        ('money', 'kind', 'charge, refund or reversal (of a refund).'),
        ('money', 'amount_milliunits', 'In thousandths of the currency, tax included; refunds are negative.'),
        ('money', 'tax_exclusive_milliunits',
            'Without tax, as Apple signed it: the item''s share by price; null: it did not.'),
        ('money', 'occurred_at', 'When it was charged, refunded or taken back, by Apple''s clock.'),
        ('money', 'recorded_at', 'When it was recorded here.'),
        ('money', 'evidence_id', 'The signed statement that told it.'),
        ('money', 'explained_as',
            'Of a charge: new_price, old_price (the change had not taken effect), offer, undone, moved (another storefront or currency), '
            'new_purchase (the customer''s own doing, and renewals of it after the change had ended); null: no change was called before, or charge_exception names it.'),
        ('money', 'is_correction', 'Whether it is the difference that a later statement made.'),
        ('charge_exception', 'sku', 'The item that was charged, by its name then.'),
        ('charge_exception', 'change_id', 'The price change that the charge belongs to.'),
        ('charge_exception', 'transaction_id', 'The App Store''s transaction; null: the charge is missing.'),
        ('charge_exception', 'exception',
            'other_price, after_end, declined_yet_charged, missing, double, relisted, wrong_currency or refunded.'),
        ('charge_exception', 'occurred_at', 'When it was charged, or should have been.'),
        ('charge_exception', 'amount_milliunits', 'What was charged, refunds apart; 0: nothing.'),
        ('charge_exception', 'expected_milliunits',
            'What the change would have had charged then: its new price once in effect (of a missing one: once due), else its old one; '
            'null where another currency was charged.'),
        ('charge_exception', 'refunded_milliunits', 'What of it was refunded and not taken back again.'),
        ('revenue_bridge', 'month', 'The calendar month, UTC, by its first day; the running one ends now.'),
        ('revenue_bridge', 'currency', 'ISO 4217: the currency of all money in the row.'),
        ('revenue_bridge', 'opening_milliunits',
            'What the items brought a month at the start of the month; of those called within it, at their call.'),
        ('revenue_bridge', 'price_effect_milliunits',
            'What new prices added that took effect, of each seat that was charged at them first and still pays at the end of the month.'),
        ('revenue_bridge', 'declined_milliunits', 'Items that ended because their increase was declined; losses are negative.'),
        ('revenue_bridge', 'left_milliunits', 'Items whose customer left.'),
        ('revenue_bridge', 'lapsed_milliunits', 'Items that ended for billing or product reasons.'),
        ('revenue_bridge', 'dependents_milliunits', 'Dependents that ended with the declined increase of their parent.'),
        ('revenue_bridge', 'refunds_milliunits',
            'Items that ended by a refund of all, or by a revocation, whatever part of the money it gave back.'),
        ('revenue_bridge', 'other_milliunits',
            'All else: who came back, prices changed elsewhere, items exchanged for another, offers, moves to another storefront, '
            'ends without a word (also after a refund that ended nothing), and rounding.'),
        ('revenue_bridge', 'closing_milliunits', 'What they brought a month at its end.'),
        ('revenue_bridge_total', 'month', 'The calendar month, UTC, by its first day; the running one ends now.'),
        ('revenue_bridge_total', 'currency', 'The reporting currency, ISO 4217.'),
        ('revenue_bridge_total', 'opening_milliunits', 'As in revenue_bridge, converted.'),
        ('revenue_bridge_total', 'price_effect_milliunits', 'Likewise.'),
        ('revenue_bridge_total', 'declined_milliunits', 'Likewise.'),
        ('revenue_bridge_total', 'left_milliunits', 'Likewise.'),
        ('revenue_bridge_total', 'lapsed_milliunits', 'Likewise.'),
        ('revenue_bridge_total', 'dependents_milliunits', 'Likewise.'),
        ('revenue_bridge_total', 'refunds_milliunits', 'Likewise.'),
        ('revenue_bridge_total', 'other_milliunits', 'Likewise.'),
        ('revenue_bridge_total', 'closing_milliunits', 'Likewise.'),
        ('revenue_bridge_total', 'rates_from', 'The day of the oldest rate that it rests on; null: nothing was converted.'),
        ('revenue_bridge_total', 'without_rate', 'Currencies that have no rate: their money is in no figure of the row. If the currency of the row itself is one of them, the figures hold only money in that currency.'),
        ('revenue_bridge_total', 'rates',
            'The rates that were used, each with the day since which it holds: units for one euro, whose own is 1. Money is '
            'divided by the rate of its currency and multiplied by that of the reporting one.'),
        ('revenue_at_risk', 'consent_due_on', 'The day, UTC, of the renewal at which items end if consent is not given.'),
        ('revenue_at_risk', 'changes',
            'Price changes that wait for consent, or may have to; 0: only dependents of some in another currency or period.'),
        ('revenue_at_risk', 'asked', 'Of these: the App Store has asked.'),
        ('revenue_at_risk', 'to_be_asked', 'Of these: forecast as required, and not asked yet.'),
        ('revenue_at_risk', 'not_known', 'Of these: the forecast does not say whether the App Store will ask.'),
        ('revenue_at_risk', 'at_risk_milliunits', 'What a period brings of them and their dependents, as charged at submission.'),
        ('revenue_at_risk', 'at_risk_per_month_milliunits', 'The same a month (weekly: times 52/12), rounded once.'),
        ('holdout', 'sent_subscriptions',
            'Subscriptions that were not held out and whose forecast renewal has passed for a day.'),
        ('holdout', 'never_sent', 'Of these: an item of theirs was never sent, as one that turned out ineligible.'),
        ('holdout', 'sent_left', 'Of these: at least one of the items is not paid for any more.'),
        ('holdout', 'held_out_subscriptions', 'Subscriptions that were held out, likewise.'),
        ('holdout', 'held_out_left', 'Of these: at least one of the items is not paid for any more.'),
        ('holdout', 'not_due', 'Subscriptions of both kinds whose forecast renewal has not passed for a day, or of which nobody has told yet whether they renewed: not counted.'),
        ('holdout', 'sent_left_basis_points', 'sent_left of sent_subscriptions, in hundredths of a per cent.'),
        ('holdout', 'held_out_left_basis_points', 'held_out_left of held_out_subscriptions, likewise.'),
        ('holdout', 'difference_basis_points', 'The first less the second; null: too few.'),
        ('holdout', 'lower_basis_points', 'The lower end of its 95 % interval (Newcombe); null: too few.'),
        ('holdout', 'upper_basis_points', 'The upper end, likewise.'),
        ('holdout', 'answer',
            'more_left or fewer_left (of those sent: the interval leaves 0 out), no_difference_seen, or too_few (fewer than '
            '30 on one side).'),
        ('reconciliation', 'check_name', 'Which check.'),
        ('reconciliation', 'problems', 'How many were found; 0 is well.'),
        ('reconciliation', 'is_ok', 'Whether none was found. Refunds are counted, and are no fault.'),
        ('reconciliation', 'meaning', 'What is counted.'),
        ('closed_period', 'month', 'The month that was closed, by its first day; a month is one of UTC.'),
        ('closed_period', 'batch_id', 'The batch whose change the money belongs to; null: no change was called before.'),
        ('closed_period', 'kind',
            'charge, refund (negative), reversal: what happened in the month; uplift: what its renewals charged more than at '
            'the old prices.'),
        ('closed_period', 'closed_milliunits', 'As it was known when the month was closed.'),
        ('closed_period', 'restated_milliunits', 'What was learnt since: known less closed.'),
        ('closed_period', 'known_milliunits', 'As it is known now.'),
        ('closed_period', 'closed_at', 'When the month was closed.'),
        ('closed_period', 'closed_by', 'Database user who closed it.'),
        ('renewal_extension', 'kind',
            'all (a mass extension), one, retry (one that a mass extension failed for), foreign (a summary of no '
            'request of ours).'),
        ('renewal_extension', 'extension_id', 'The request identifier that the App Store was given.'),
        ('renewal_extension', 'product_id', 'The subscription product.'),
        ('renewal_extension', 'storefronts', 'Of a mass extension; null means all.'),
        ('renewal_extension', 'original_transaction_id', 'Null for a mass extension.'),
        ('renewal_extension', 'retry_of', 'The mass extension that failed for it.'),
        ('renewal_extension', 'extend_by_days', '1 to 90.'),
        ('renewal_extension', 'reason_code',
            '0 undeclared, 1 customer satisfaction, 2 other, 3 service issue or outage.'),
        ('renewal_extension', 'state',
            'awaiting_approval, queued, sending, unknown, running, complete, refused, rejected, given_up; of one:'
            ' queued, sending, unknown, extended, refused, ineligible.'),
        ('renewal_extension', 'requested_by', 'The database user who asked for it.'),
        ('renewal_extension', 'requested_at', 'When.'),
        ('renewal_extension', 'approved_by', 'The other user who approved it.'),
        ('renewal_extension', 'approved_at', 'When.'),
        ('renewal_extension', 'called_at', 'The first call to the App Store.'),
        ('renewal_extension', 'completed_at',
            'When the App Store was done, or it was given up; of one: when its outcome was known.'),
        ('renewal_extension', 'eligible_forecast',
            'Subscriptions that the facts held eligible when it was asked for.'),
        ('renewal_extension', 'extended', 'Subscriptions whose extension was told one by one.'),
        ('renewal_extension', 'failed', 'Subscriptions whose failure was told one by one.'),
        ('renewal_extension', 'apple_extended', 'By the summary, else by the status; of one: by its answer.'),
        ('renewal_extension', 'apple_failed', 'By the summary, else by the status.'),
        ('renewal_extension', 'retried', 'Failed ones that were asked for one by one.'),
        ('renewal_extension', 'retried_extended', 'Of these, extended.'),
        ('renewal_extension', 'renewal_before_at', 'Of one: the renewal before.'),
        ('renewal_extension', 'renewal_at', 'Of one: the renewal since.'),
        ('renewal_extension', 'code',
            'Why it was refused or not eligible, or what the App Store answers when asked about it.'),
        ('renewal_extension', 'check_result',
            'clean (the counts agree), differs, open (not all is told yet), ended (refused, rejected, or given up).'),
        ('renewal_extension', 'detail', 'What differs, or what the App Store said.'),
        ('renewal_extension', 'rejected_by', 'The user who rejected it, approved or not.'),
        ('renewal_extension', 'rejected_at', 'When.'),
        ('notification_health', 'type', 'notificationType as Apple wrote it.'),
        ('notification_health', 'subtype', 'subtype as Apple wrote it; null: none.'),
        ('notification_health', 'notifications', 'Notifications stored, duplicates apart.'),
        ('notification_health', 'first_received_at', 'When the first arrived.'),
        ('notification_health', 'last_received_at', 'When the last arrived.'),
        ('notification_health', 'last_signed_at', 'When Apple signed the newest.'),
        ('notification_health', 'not_understood', 'Stored as evidence, but of no type that the product knows.'),
        ('notification_health', 'waiting', 'In the inbox, not folded yet.'),
        ('notification_health', 'stuck', 'In the inbox with an error.'),
        ('notification_health', 'with_unknown_parts',
            'With something in them that the product does not know; report unknown_part names it.'),
        ('unknown_part', 'kind',
            'type, subtype, field (not documented), value (of an enumeration), shape (another JSON type), body '
            '(missing), or left_out (a value that cannot be meant, as a price below zero: it is in no fact and no sum).'),
        ('unknown_part', 'name', 'Where and what, as in renewal.offerType=5.'),
        ('unknown_part', 'notifications',
            'Notifications that hold it, duplicates apart; of left_out all statements, in answers and statuses too.'),
        ('unknown_part', 'first_received_at', 'When the first arrived.'),
        ('unknown_part', 'last_received_at', 'When the last arrived.');
    FOR v IN
        SELECT c.relname, a.attname, w.word
        FROM pg_class c
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        LEFT JOIN LATERAL (
            SELECT word FROM words
            WHERE column_name = a.attname AND view_name IN (c.relname, '*')
            ORDER BY view_name = '*' LIMIT 1) w ON true
        WHERE c.relnamespace = 'report'::regnamespace AND c.relkind = 'v'
    LOOP
        IF v.word IS NULL THEN
            RAISE EXCEPTION 'no word for report.%.%', v.relname, v.attname;
        END IF;
        EXECUTE format('COMMENT ON COLUMN report.%I.%I IS %L', v.relname, v.attname, v.word);
    END LOOP;
    DROP TABLE words;
END
$comments$;

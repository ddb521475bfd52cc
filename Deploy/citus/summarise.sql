-- summarise_figures for a spread database; gather.sql runs it. It does what that of a plain database does (0015_kept_figures), in
-- another order and in smaller statements, because there is no snapshot over several nodes:
--
-- 1. The marks are deleted first, and the facts are read after that (through schema `gathered`). So the fact of every deleted mark
--    was counted, and a later mark stays.
-- 2. Before the facts are read, every transaction over several nodes that was committing then has ended on each of them. Otherwise
--    a mark could be seen while its fact, on another node, is not.
-- 3. The results are stored once, in tables of the coordinator, and everything that is kept is written from these. The sums lose
--    exactly what was deleted.
\set ON_ERROR_STOP on
SET client_min_messages = warning;
SET citus.enable_ddl_propagation TO off;
BEGIN;
-- Whoever changes the plain one changes this one, too.
DO $same$
DECLARE
    v record;
BEGIN
    FOR v IN SELECT p.proname, md5(p.prosrc) AS was, k.md5 AS known, p.prosrc ~ 'gathered\.' AS is_ours FROM (VALUES
            ('summarise_figures', '7e9dc88fb48637883faa19244bdde070'), ('keep_moves', 'ce609f7cfc4233d5282da93e80f779ca')) AS k (name, md5)
        JOIN pg_proc p ON p.pronamespace = 'repricer'::regnamespace AND p.proname = k.name
    LOOP
        IF NOT v.is_ours AND v.was <> v.known THEN
            RAISE EXCEPTION '% is not the function that this file was made for: make summarise.sql do what it does (md5 %)',
                v.proname, v.was;
        END IF;
    END LOOP;
END
$same$;

DROP VIEW IF EXISTS gathered.tallied_changes;
DROP TABLE IF EXISTS gathered.counted_figures, gathered.former_figures, gathered.counted_outcomes, gathered.counted_charges,
    gathered.counted_instants, gathered.counted_moves, gathered.former_moves;
-- The working tables of one round. Their content between two rounds does not matter: each round starts by emptying them.
CREATE UNLOGGED TABLE gathered.counted_figures AS SELECT * FROM gathered.live_change_figures WITH NO DATA;
CREATE UNLOGGED TABLE gathered.former_figures (LIKE repricer.change_figures);
CREATE UNLOGGED TABLE gathered.counted_outcomes AS SELECT * FROM gathered.live_forecast_outcomes WITH NO DATA;
CREATE UNLOGGED TABLE gathered.counted_charges AS SELECT * FROM gathered.explained_charges WITH NO DATA;
CREATE UNLOGGED TABLE gathered.counted_instants AS SELECT * FROM gathered.moving_instants('{}') WITH NO DATA;
CREATE UNLOGGED TABLE gathered.counted_moves AS
    SELECT id, at, batch_id, month, currency, storefront, cause, opening, closing, price_effect
    FROM gathered.moves_of('{}', '{}', NULL) WITH NO DATA;
CREATE UNLOGGED TABLE gathered.former_moves (LIKE repricer.kept_moves);
-- By how much a round alters the sums: what was kept is subtracted, and what is computed is added.
SELECT format('CREATE VIEW gathered.tallied_changes AS %s', replace(replace(replace(replace(
    pg_get_viewdef('gathered.untallied_changes'::regclass), 'gathered.change_figures', 'gathered.former_figures'),
    'gathered.unkept_change_figures', 'gathered.counted_figures'),
    'gathered.stale_figures', 'gathered.former_figures'),
    -- Silent renewals are in no sum.
    'gathered.heard_charges d', '(SELECT NULL::timestamptz AS until) d'))
FROM (SELECT set_config('search_path', '', true)) s \gexec
SET LOCAL search_path TO DEFAULT;

-- Whether this transaction has read through `gathered` before. Then its snapshot there is an old one.
SELECT format($make$CREATE OR REPLACE FUNCTION gathered.is_reading() RETURNS boolean LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp
    AS 'SELECT EXISTS (SELECT FROM %I.postgres_fdw_get_connections() WHERE server_name = ''gathered'')'$make$, n.nspname)
FROM pg_extension e JOIN pg_namespace n ON n.oid = e.extnamespace WHERE e.extname = 'postgres_fdw' \gexec
CREATE OR REPLACE FUNCTION gathered.prepared_transactions() RETURNS text[] LANGUAGE sql VOLATILE SET search_path = pg_catalog, pg_temp AS $$
SELECT coalesce(array_agg(g), '{}') FROM run_command_on_workers($worker$
    SELECT coalesce(string_agg(gid, ' '), '') FROM pg_prepared_xacts WHERE database = current_database()$worker$) w
CROSS JOIN LATERAL regexp_split_to_table(w.result, ' ') g
WHERE g <> ''
$$;
REVOKE ALL ON FUNCTION gathered.is_reading(), gathered.prepared_transactions() FROM PUBLIC;

CREATE OR REPLACE FUNCTION repricer.summarise_figures(p_limit integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $$
DECLARE
    v_ids text[];
    v_buckets smallint[];
    v_prepared text[];
    v_at timestamptz;
    v_figures change_figures;
    v_moves kept_moves;
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'figures are summarised in one snapshot: the transaction must be REPEATABLE READ'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF gathered.is_reading() THEN
        RAISE EXCEPTION 'on a spread database figures are summarised once in a transaction, and before it asks for a report'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- One session at a time does this. Whoever went before us and has committed since our snapshot makes the first
    -- write below fail, and all is tried again.
    PERFORM FROM figures_turn FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    SELECT array_agg(DISTINCT m.id), array_agg(DISTINCT m.bucket) INTO v_ids, v_buckets
    FROM (SELECT s.original_transaction_id AS id, s.bucket FROM stale_figures s LIMIT p_limit) m;
    IF v_ids IS NULL THEN
        RETURN 0;
    END IF;
    DELETE FROM stale_figures s WHERE s.original_transaction_id = ANY (v_ids) AND s.bucket = ANY (v_buckets);
    v_prepared := gathered.prepared_transactions();
    FOR waits IN 1..100 LOOP
        EXIT WHEN cardinality(v_prepared) = 0;
        PERFORM pg_sleep(0.1);
        v_prepared := ARRAY(SELECT unnest(v_prepared) INTERSECT SELECT unnest(gathered.prepared_transactions()));
    END LOOP;
    IF cardinality(v_prepared) > 0 THEN
        RAISE EXCEPTION 'transactions over several nodes have not come to their end, as of %', v_prepared[1]
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;

    TRUNCATE gathered.counted_figures, gathered.former_figures, gathered.counted_outcomes, gathered.counted_charges,
        gathered.counted_instants, gathered.counted_moves, gathered.former_moves;
    INSERT INTO gathered.counted_figures
        SELECT f.* FROM gathered.live_change_figures f WHERE f.original_transaction_id = ANY (v_ids) AND f.is_final;
    INSERT INTO gathered.counted_outcomes
        SELECT o.* FROM gathered.live_forecast_outcomes o
        WHERE o.original_transaction_id = ANY (v_ids)
            AND o.stage NOT IN ('awaiting_approval', 'queued', 'unknown', 'scheduled', 'pending_consent', 'accepted');
    INSERT INTO gathered.counted_charges
        SELECT x.* FROM gathered.explained_charges x WHERE x.original_transaction_id = ANY (v_ids);
    INSERT INTO gathered.counted_instants SELECT i.* FROM gathered.moving_instants(v_ids) i;
    INSERT INTO gathered.counted_moves
        SELECT m.id, m.at, m.batch_id, m.month, m.currency, m.storefront, m.cause, sum(m.opening), sum(m.closing),
            sum(m.price_effect)
        FROM (SELECT array_agg(i.id) AS ids, array_agg(i.at) AS ats FROM gathered.counted_instants i
            WHERE i.known_after < 'infinity') a
        CROSS JOIN LATERAL gathered.moves_of(a.ids, a.ats, NULL) m
        GROUP BY 1, 2, 3, 4, 5, 6, 7;
    -- Who records after this leaves a mark that stays.
    v_at := recording_instant();

    FOR v_figures IN
        DELETE FROM change_figures f WHERE f.original_transaction_id = ANY (v_ids) AND f.bucket = ANY (v_buckets) RETURNING f.*
    LOOP
        INSERT INTO gathered.former_figures SELECT v_figures.*;
    END LOOP;
    INSERT INTO figure_tallies AS t
        SELECT
            u.batch_id, u.is_undo, u.direction, u.forecast_consent, u.currency, u.storefront, u.period, sum(u.changes),
            sum(u.sent), sum(u.asked_for_consent), sum(u.consented), sum(u.informed), sum(u.effective),
            sum(u.declined), sum(u.cancelled), sum(u.lapsed), sum(u.other), sum(u.uncharged), sum(u.charged_changes),
            sum(u.charged_renewals), sum(u.old_total), sum(u.new_total), sum(u.old_per_period), sum(u.new_per_period),
            sum(u.declined_lost), sum(u.cancelled_lost), sum(u.fell_with_parent), sum(u.fell_lost), sum(u.lapsed_lost),
            sum(u.others_lost), sum(u.taxed_renewals), sum(u.taxed_uplift)
        FROM gathered.tallied_changes u
        GROUP BY 1, 2, 3, 4, 5, 6, 7
        ON CONFLICT ON CONSTRAINT figure_tallies_pkey DO UPDATE SET
            changes = t.changes + EXCLUDED.changes, sent = t.sent + EXCLUDED.sent,
            asked_for_consent = t.asked_for_consent + EXCLUDED.asked_for_consent,
            consented = t.consented + EXCLUDED.consented, informed = t.informed + EXCLUDED.informed,
            effective = t.effective + EXCLUDED.effective, declined = t.declined + EXCLUDED.declined,
            cancelled = t.cancelled + EXCLUDED.cancelled, lapsed = t.lapsed + EXCLUDED.lapsed,
            other = t.other + EXCLUDED.other, uncharged = t.uncharged + EXCLUDED.uncharged,
            charged_changes = t.charged_changes + EXCLUDED.charged_changes,
            charged_renewals = t.charged_renewals + EXCLUDED.charged_renewals,
            old_total = t.old_total + EXCLUDED.old_total, new_total = t.new_total + EXCLUDED.new_total,
            old_per_period = t.old_per_period + EXCLUDED.old_per_period,
            new_per_period = t.new_per_period + EXCLUDED.new_per_period,
            declined_lost = t.declined_lost + EXCLUDED.declined_lost,
            cancelled_lost = t.cancelled_lost + EXCLUDED.cancelled_lost,
            fell_with_parent = t.fell_with_parent + EXCLUDED.fell_with_parent, fell_lost = t.fell_lost + EXCLUDED.fell_lost,
            lapsed_lost = t.lapsed_lost + EXCLUDED.lapsed_lost, others_lost = t.others_lost + EXCLUDED.others_lost,
            taxed_renewals = t.taxed_renewals + EXCLUDED.taxed_renewals, taxed_uplift = t.taxed_uplift + EXCLUDED.taxed_uplift;
    UPDATE forecast_tallies t SET changes = t.changes - f.changes
        FROM (SELECT k.batch_id, k.outcome, count(*) AS changes FROM gathered.former_figures k GROUP BY k.batch_id, k.outcome) f
        WHERE t.batch_id = f.batch_id AND t.outcome = f.outcome;
    INSERT INTO forecast_tallies AS t
        SELECT o.batch_id, o.outcome, o.direction, o.forecast_consent, o.forecast_threshold_source, o.forecast_reasons,
            o.forecast_not_known, o.forecast_because, o.came_consent, o.came, o.has_moved, o.slip, o.is_siblings_doing,
            sum(o.changes)
        FROM gathered.counted_outcomes o GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
        ON CONFLICT ON CONSTRAINT forecast_tallies_pkey DO UPDATE SET changes = t.changes + EXCLUDED.changes;
    INSERT INTO change_figures
        SELECT
            f.original_transaction_id, f.bucket, f.change_id, f.batch_id, f.is_undo, f.direction, f.forecast_consent,
            f.currency, f.storefront, f.period, f.state, f.is_sent, f.is_asked, f.acceptance, f.is_uncharged,
            f.current_price_milliunits, f.new_price_milliunits, f.renewals, f.first_at, f.old_total_milliunits,
            f.new_total_milliunits, f.is_leaving, f.is_told, f.fell_with_parent, f.others_lost_milliunits,
            f.taxed_renewals, f.taxed_uplift_milliunits, f.paid_until, f.word_due_at, f.paid_sku, f.paid_quantity, f.seats, v_at, o.outcome
        FROM gathered.counted_figures f
        LEFT JOIN gathered.counted_outcomes o ON o.original_transaction_id = f.original_transaction_id AND o.change_id = f.change_id;

    WITH charged AS MATERIALIZED (SELECT x.* FROM gathered.counted_charges x)
    UPDATE money_entries e SET change_id = x.change_id, batch_id = x.batch_id, explained_as = x.explained_as,
            uplift_milliunits = CASE WHEN e.kind = 'charge' AND e.correction = 0 AND e.occurred_at = x.purchased_at
                AND e.currency = x.currency THEN x.uplift_milliunits END
        FROM charged x
        WHERE e.original_transaction_id = x.original_transaction_id AND e.bucket = x.bucket
            AND e.transaction_id = x.transaction_id AND e.sku = x.sku
            AND (e.change_id, e.batch_id, e.explained_as, e.uplift_milliunits) IS DISTINCT FROM (x.change_id, x.batch_id,
                x.explained_as, CASE WHEN e.kind = 'charge' AND e.correction = 0 AND e.occurred_at = x.purchased_at
                    AND e.currency = x.currency THEN x.uplift_milliunits END);
    WITH charged AS MATERIALIZED (SELECT x.original_transaction_id, x.transaction_id, x.sku FROM gathered.counted_charges x)
    UPDATE money_entries e SET change_id = NULL, batch_id = NULL, explained_as = NULL, uplift_milliunits = NULL
        WHERE e.original_transaction_id = ANY (v_ids) AND e.bucket = ANY (v_buckets) AND e.change_id IS NOT NULL AND NOT EXISTS (
            SELECT FROM charged x
            WHERE x.original_transaction_id = e.original_transaction_id AND x.transaction_id = e.transaction_id
                AND x.sku = e.sku);
    DELETE FROM kept_exceptions k WHERE k.original_transaction_id = ANY (v_ids) AND k.bucket = ANY (v_buckets);
    INSERT INTO kept_exceptions
        SELECT x.original_transaction_id, x.bucket, x.change_id, x.batch_id, x.transaction_id, x.sku, x.exception,
            x.purchased_at, x.price_milliunits * x.quantity,
            fitting(x.expected_milliunits::numeric * x.quantity, 'the seats of transaction ' || x.transaction_id || ', as expected,'),
            x.refunded_milliunits, x.currency, x.storefront
        FROM gathered.counted_charges x WHERE x.exception IS NOT NULL;
    INSERT INTO kept_exceptions
        SELECT r.original_transaction_id, r.bucket, r.change_id, r.batch_id, NULL, r.sku, 'missing', r.occurred_at, 0,
            r.expected_milliunits, 0, r.currency, r.storefront
        FROM gathered.missing_renewals r WHERE r.original_transaction_id = ANY (v_ids);

    -- What keep_moves does.
    DELETE FROM running_moves r WHERE r.original_transaction_id = ANY (v_ids) AND r.bucket = ANY (v_buckets);
    FOR v_moves IN
        DELETE FROM kept_moves k WHERE k.original_transaction_id = ANY (v_ids) AND k.bucket = ANY (v_buckets) RETURNING k.*
    LOOP
        INSERT INTO gathered.former_moves SELECT v_moves.*;
    END LOOP;
    INSERT INTO move_tallies AS t
        SELECT d.batch_id, d.month, d.currency, d.storefront, d.cause, sum(d.opening), sum(d.closing), sum(d.price_effect)
        FROM (
            SELECT m.batch_id, m.month, m.currency, m.storefront, m.cause, m.opening, m.closing, m.price_effect
            FROM gathered.counted_moves m JOIN gathered.counted_instants i ON i.id = m.id AND i.at = m.at AND i.is_whole
            UNION ALL
            SELECT f.batch_id, u.month, f.currency, f.storefront, u.cause, -u.opening, -u.closing, -u.price_effect
            FROM gathered.former_moves f CROSS JOIN LATERAL unnest(f.months, f.causes, f.openings, f.closings, f.price_effects)
                AS u (month, cause, opening, closing, price_effect)) d
        GROUP BY 1, 2, 3, 4, 5
        HAVING sum(d.opening) <> 0 OR sum(d.closing) <> 0 OR sum(d.price_effect) <> 0
        ON CONFLICT ON CONSTRAINT move_tallies_pkey DO UPDATE SET opening = t.opening + EXCLUDED.opening,
            closing = t.closing + EXCLUDED.closing, price_effect = t.price_effect + EXCLUDED.price_effect;
    INSERT INTO running_moves
        SELECT d.id, bucket_of(d.id), d.batch_id, d.month, d.currency, d.storefront, d.cause, d.from_at, d.at, sum(d.opening),
            sum(d.closing), sum(d.price_effect)
        FROM (
            SELECT i.id, i.from_at, i.at, m.batch_id, m.month, m.currency, m.storefront, m.cause, m.opening, m.closing,
                m.price_effect
            FROM gathered.counted_instants i
            JOIN gathered.counted_moves m ON m.id = i.id AND m.at = i.at
                AND m.month = date_trunc('month', i.at AT TIME ZONE 'UTC')::date
            WHERE NOT i.is_whole
            UNION ALL
            SELECT i.id, i.from_at, i.at, w.batch_id, w.month, w.currency, w.storefront, w.cause, -w.opening, -w.closing,
                -w.price_effect
            FROM gathered.counted_instants i
            JOIN gathered.counted_moves w ON w.id = i.id AND w.month = date_trunc('month', i.at AT TIME ZONE 'UTC')::date
            JOIN gathered.counted_instants a ON a.id = w.id AND a.at = w.at AND a.is_whole
            WHERE NOT i.is_whole) d
        WHERE d.from_at < d.at
        GROUP BY d.id, d.batch_id, d.month, d.currency, d.storefront, d.cause, d.from_at, d.at
        HAVING sum(d.opening) <> 0 OR sum(d.closing) <> 0 OR sum(d.price_effect) <> 0;
    INSERT INTO kept_moves
        SELECT c.id, bucket_of(c.id), c.batch_id, c.known_after, v_at, c.currency, c.storefront, coalesce(l.months, '{}'),
            coalesce(l.causes, '{}'), coalesce(l.openings, '{}'), coalesce(l.closings, '{}'), coalesce(l.price_effects, '{}')
        FROM (
            SELECT DISTINCT i.id, c.batch_id, i.known_after, c.currency, c.storefront
            FROM gathered.counted_instants i
            JOIN gathered.price_changes c ON c.original_transaction_id = i.id
            WHERE i.is_whole AND c.undoes_change_id IS NULL AND c.original_transaction_id = ANY (v_ids)
                AND coalesce(c.sent_at, c.doubtful_since, c.scheduled_at) IS NOT NULL) c
        LEFT JOIN (
            SELECT w.id, w.batch_id, w.currency, w.storefront, array_agg(w.month) AS months, array_agg(w.cause) AS causes,
                array_agg(w.opening) AS openings, array_agg(w.closing) AS closings, array_agg(w.price_effect) AS price_effects
            FROM gathered.counted_moves w JOIN gathered.counted_instants i ON i.id = w.id AND i.at = w.at AND i.is_whole
            GROUP BY w.id, w.batch_id, w.currency, w.storefront) l
            ON l.id = c.id AND l.batch_id = c.batch_id AND l.currency = c.currency AND l.storefront = c.storefront;
    RETURN cardinality(v_ids);
END
$$;
COMMIT;

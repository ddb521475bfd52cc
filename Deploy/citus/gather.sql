-- Makes the reports of a spread database answer on its coordinator, as on a plain one. distribute.sql runs it at its end; run
-- it again, as the owner, after each migration. It can be run as often as wanted.
--
-- Citus refuses most of the reports, which join tables by the subscription, and answers some of their functions without rows.
-- So here they read the tables through what Citus does not see: foreign tables that lead back to this coordinator. Citus is
-- then asked for the rows of one table at a time, with the conditions on its columns, and PostgreSQL does the rest.
--
-- * Schema `gathered` has a view of each spread or reference table, over a foreign table `far_NAME`, and a copy of each view
--   and function of schema `repricer` that reports are made of, which names these views. The originals stay as they are,
--   because the loops use some of them.
-- * The views and functions of schema `report`, and a few that people's commands call, are replaced by themselves, with
--   `gathered` in place of `repricer`. Their rights and comments stay.
-- * summarise_figures is another one here (summarise.sql).
--
-- None of this is sent to the workers. psql variables, each with a default:
--   gathered_host, gathered_port   where the coordinator reaches itself (what pg_dist_node says of it)
--   gathered_password              the owner's password, where the server asks even itself for one
\set ON_ERROR_STOP on
SET client_min_messages = warning;
SET citus.enable_ddl_propagation TO off;
\if :{?gathered_host} \else \set gathered_host '' \endif
\if :{?gathered_port} \else \set gathered_port '' \endif
\if :{?gathered_password} \else \set gathered_password '' \endif
BEGIN;
CREATE EXTENSION IF NOT EXISTS postgres_fdw;
CREATE SCHEMA IF NOT EXISTS gathered;
-- Compiling a report's plan takes longer here than what it would save: estimates of foreign rows are rough.
SELECT format('ALTER DATABASE %I SET jit = off', current_database()) \gexec
-- A parallel worker of a report would read the cluster over its own connection, and so in its own snapshot.
SELECT format('ALTER DATABASE %I SET max_parallel_workers_per_gather = 0', current_database()) \gexec
SELECT set_config('gathered.host', coalesce(nullif(:'gathered_host', ''), (SELECT nodename FROM pg_dist_node WHERE groupid = 0)), true),
    set_config('gathered.port', coalesce(nullif(:'gathered_port', ''), (SELECT nodeport FROM pg_dist_node WHERE groupid = 0)::text), true),
    set_config('gathered.password', :'gathered_password', true) \g /dev/null

-- One server for all tables, and so one connection for each session while it runs a report: what it reads of a node is seen in
-- one snapshot of that node, since it has one connection to each worker, too. It is closed when the report's transaction
-- ends, and can write nothing.
DO $server$
DECLARE
    v record;
    v_options CONSTANT jsonb := jsonb_build_object('host', current_setting('gathered.host'), 'port', current_setting('gathered.port'),
        'dbname', current_database(), 'application_name', 'repricer reports', 'fetch_size', '5000', 'keep_connections', 'off',
        'options', '-c default_transaction_read_only=on -c citus.max_adaptive_executor_pool_size=1');
    v_user jsonb := jsonb_build_object('user', current_user);
BEGIN
    IF current_setting('gathered.host') = '' THEN
        RAISE EXCEPTION 'pg_dist_node does not know the coordinator: citus_set_coordinator_host makes it known';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_foreign_server WHERE srvname = 'gathered') THEN
        CREATE SERVER gathered FOREIGN DATA WRAPPER postgres_fdw;
    END IF;
    FOR v IN SELECT o.key, o.value, s.had FROM jsonb_each_text(v_options) o CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT FROM pg_foreign_server, unnest(srvoptions) x
            WHERE srvname = 'gathered' AND x LIKE o.key || '=%') AS had) s
    LOOP
        EXECUTE format('ALTER SERVER gathered OPTIONS (%s %I %L)', CASE WHEN v.had THEN 'SET' ELSE 'ADD' END, v.key, v.value);
    END LOOP;
    -- The views are the owner's, and PostgreSQL reads what they are made of as the owner, whoever asks.
    IF current_setting('gathered.password') <> '' THEN
        v_user := v_user || jsonb_build_object('password', current_setting('gathered.password'));
    END IF;
    EXECUTE 'DROP USER MAPPING IF EXISTS FOR CURRENT_USER SERVER gathered';
    EXECUTE format('CREATE USER MAPPING FOR CURRENT_USER SERVER gathered OPTIONS (%s)',
        (SELECT string_agg(format('%I %L', key, value), ', ') FROM jsonb_each_text(v_user)));
END
$server$;

-- The tables ----------------------------------------------------------------------------------------------------------
DO $tables$
DECLARE
    t record;
    v record;
    v_condition text;
BEGIN
    FOR t IN SELECT c.oid, c.relname AS name, p.partmethod = 'n' AS is_reference
        FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid
        WHERE c.relnamespace = 'repricer'::regnamespace AND NOT c.relispartition
    LOOP
        IF to_regclass(format('gathered.%I', 'far_' || t.name)) IS NULL THEN
            EXECUTE format('CREATE FOREIGN TABLE gathered.%I () SERVER gathered OPTIONS (schema_name ''repricer'', table_name %L)',
                'far_' || t.name, t.name);
            -- How many rows there are is not known before they are counted (gathered.count_rows). Too few would make
            -- PostgreSQL compare each with each.
            UPDATE pg_class SET reltuples = CASE WHEN t.is_reference THEN 100 ELSE 10000 END,
                relpages = CASE WHEN t.is_reference THEN 10 ELSE 1000 END
            WHERE oid = format('gathered.%I', 'far_' || t.name)::regclass;
        END IF;
        FOR v IN SELECT a.attname, format_type(a.atttypid, a.atttypmod) AS type, a.attnotnull,
                CASE WHEN a.attcollation NOT IN (0, (SELECT typcollation FROM pg_type WHERE oid = a.atttypid))
                    THEN format(' COLLATE %s', a.attcollation::regcollation) ELSE '' END AS coll
            FROM pg_attribute a
            WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped AND NOT EXISTS (
                SELECT FROM pg_attribute f WHERE f.attrelid = to_regclass(format('gathered.%I', 'far_' || t.name))
                    AND f.attname = a.attname AND NOT f.attisdropped)
            ORDER BY a.attnum
        LOOP
            EXECUTE format('ALTER FOREIGN TABLE gathered.%I ADD COLUMN %I %s%s%s', 'far_' || t.name, v.attname, v.type, v.coll,
                CASE WHEN v.attnotnull THEN ' NOT NULL' ELSE '' END);
        END LOOP;
        -- A condition that is always true, and that only PostgreSQL can evaluate. Because of it PostgreSQL sends neither joins nor
        -- sums to Citus, which would refuse some of them.
        SELECT format('f.%I::text COLLATE "C" <> ''''', a.attname) INTO STRICT v_condition FROM pg_attribute a
        WHERE a.attrelid = t.oid AND a.attnum > 0 AND a.attnotnull AND NOT a.attisdropped
            AND a.atttypid <> 'text'::regtype
        ORDER BY a.attname <> 'bucket', a.attnum LIMIT 1;
        EXECUTE format('CREATE OR REPLACE VIEW gathered.%I AS SELECT %s FROM gathered.%I f WHERE %s', t.name,
            (SELECT string_agg(format('f.%I', a.attname), ', ' ORDER BY a.attnum) FROM pg_attribute a
                WHERE a.attrelid = t.oid AND a.attnum > 0 AND NOT a.attisdropped),
            'far_' || t.name, v_condition);
    END LOOP;
END
$tables$;

-- How many rows the nodes hold, by their own statistics, for the plans of reports. Call it now and then (nightly), after a
-- first load above all; it reads no table.
CREATE OR REPLACE FUNCTION gathered.count_rows() RETURNS void LANGUAGE plpgsql SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t record;
    v_rows numeric;
    v_pages numeric;
BEGIN
    FOR t IN SELECT p.logicalrelid, f.oid AS far FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid
        JOIN pg_class f ON f.relnamespace = 'gathered'::regnamespace AND f.relname = 'far_' || c.relname
        WHERE c.relnamespace = 'repricer'::regnamespace AND NOT c.relispartition
    LOOP
        SELECT CASE WHEN p.partmethod = 'n' THEN max(split_part(s.result, ' ', 1)::numeric) ELSE sum(split_part(s.result, ' ', 1)::numeric) END,
            CASE WHEN p.partmethod = 'n' THEN max(split_part(s.result, ' ', 2)::numeric) ELSE sum(split_part(s.result, ' ', 2)::numeric) END
        INTO v_rows, v_pages
        FROM pg_dist_partition p, run_command_on_shards(t.logicalrelid, $shard$
            SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint || ' ' || coalesce(sum(c.relpages), 0)
            FROM pg_class c WHERE c.oid = '%1$s'::regclass
                OR c.oid IN (SELECT relid FROM pg_partition_tree('%1$s') WHERE isleaf)$shard$) s
        WHERE p.logicalrelid = t.logicalrelid AND s.success
        GROUP BY p.partmethod;
        UPDATE pg_class SET reltuples = greatest(v_rows, 1), relpages = greatest(v_pages, 1) WHERE oid = t.far;
    END LOOP;
END
$$;
REVOKE ALL ON FUNCTION gathered.count_rows() FROM PUBLIC;

-- What reports are made of ----------------------------------------------------------------------------------------------
CREATE TEMPORARY TABLE made ON COMMIT DROP AS
WITH RECURSIVE parts AS (
    SELECT c.relname::text AS name, c.oid, 'view' AS kind, pg_get_viewdef(c.oid) AS text
    FROM pg_class c WHERE c.relkind = 'v' AND c.relnamespace = 'repricer'::regnamespace
    UNION ALL
    -- Functions that return rows, and the one that takes a row. Functions that are called for each row stay as they are, and so do
    -- functions that decide.
    SELECT p.proname::text, p.oid, 'function', p.prosrc
    FROM pg_proc p
    WHERE p.pronamespace = 'repricer'::regnamespace AND p.provolatile = 's' AND p.prokind = 'f'
        AND (p.proretset AND p.proname NOT IN ('approval_outlook', 'undo_candidates', 'failed_extensions')
            OR p.proname = 'forecast_rules')
), found AS (
    SELECT c.relname::text AS name, c.oid, 'table' AS kind
    FROM pg_dist_partition p JOIN pg_class c ON c.oid = p.logicalrelid
    WHERE c.relnamespace = 'repricer'::regnamespace AND NOT c.relispartition
    UNION
    SELECT p.name, p.oid, p.kind FROM found f JOIN parts p ON p.text ~ ('\m' || f.name || '\M')
)
SELECT * FROM found;

-- The text of a view or function with `gathered` in place of `repricer`, where that has the name.
CREATE FUNCTION pg_temp.moved(p_text text) RETURNS text LANGUAGE sql AS $$
SELECT replace(regexp_replace(p_text, '\mrepricer\.(' || (SELECT string_agg(DISTINCT name, '|') FROM made) || ')\M', 'gathered.\1', 'g'),
    'SET search_path TO ''repricer'',', 'SET search_path TO ''gathered'', ''repricer'',')
$$;

-- Each as soon as what it names is there.
DO $made$
DECLARE
    v record;
    v_left integer := 0;
    v_before integer;
    v_error text;
BEGIN
    SET LOCAL check_function_bodies = off;
    SET LOCAL search_path = '';
    CREATE TEMPORARY TABLE pending ON COMMIT DROP AS
        SELECT 'gathered.' || quote_ident(m.name) AS name, CASE m.kind
            WHEN 'view' THEN format('CREATE OR REPLACE VIEW gathered.%I AS %s', m.name, pg_temp.moved(pg_get_viewdef(m.oid)))
            ELSE pg_temp.moved(pg_get_functiondef(m.oid)) END AS command
        FROM pg_temp.made m WHERE m.kind <> 'table'
        UNION ALL
        SELECT format('report.%I', c.relname), format('CREATE OR REPLACE VIEW report.%I AS %s', c.relname, pg_temp.moved(pg_get_viewdef(c.oid)))
        FROM pg_class c WHERE c.relkind = 'v' AND c.relnamespace = 'report'::regnamespace
        UNION ALL
        SELECT 'repricer.batch_effects',
            'CREATE OR REPLACE VIEW repricer.batch_effects AS ' || pg_temp.moved(pg_get_viewdef('repricer.batch_effects'::regclass))
        UNION ALL
        SELECT p.oid::regprocedure::text, pg_temp.moved(pg_get_functiondef(p.oid))
        FROM pg_proc p
        WHERE p.prokind = 'f' AND (p.pronamespace = 'report'::regnamespace
            OR p.pronamespace = 'repricer'::regnamespace AND p.proname = 'failed_extensions');
    LOOP
        v_before := v_left;
        FOR v IN SELECT * FROM pg_temp.pending LOOP
            BEGIN
                EXECUTE v.command;
                DELETE FROM pg_temp.pending p WHERE p.name = v.name AND p.command = v.command;
            EXCEPTION WHEN undefined_table OR undefined_function OR undefined_object OR undefined_column THEN
                v_error := v.name || ': ' || SQLERRM;
            END;
        END LOOP;
        SELECT count(*) INTO v_left FROM pg_temp.pending;
        EXIT WHEN v_left = 0;
        IF v_left = v_before THEN
            RAISE EXCEPTION '% views and functions cannot be made, as of %', v_left, v_error;
        END IF;
    END LOOP;
END
$made$;

-- An undo joins these with the changes themselves, and Citus would look into a function in SQL.
DO $undo$
DECLARE
    v_function CONSTANT regprocedure := 'repricer.undo_candidates(uuid, text, text, timestamptz)'::regprocedure;
BEGIN
    EXECUTE (SELECT format('CREATE OR REPLACE FUNCTION repricer.undo_candidates(%s) RETURNS %s LANGUAGE plpgsql STABLE '
            'SET plan_cache_mode = force_custom_plan AS $body$
#variable_conflict use_column
BEGIN
    RETURN QUERY%s;
END
$body$', pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), pg_temp.moved(rtrim(p.prosrc, E' \n')))
        FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang AND l.lanname = 'sql' WHERE p.oid = v_function);
EXCEPTION WHEN null_value_not_allowed THEN
    NULL;  -- It is the one from here.
END
$undo$;

-- The rights are those of the originals.
DO $rights$
DECLARE
    v record;
BEGIN
    REVOKE ALL ON ALL FUNCTIONS IN SCHEMA gathered FROM PUBLIC;
    GRANT USAGE ON SCHEMA gathered TO repricer_pricing, repricer_service;
    FOR v IN SELECT m.name, r.role FROM made m, unnest(ARRAY['repricer_pricing', 'repricer_service', 'repricer_finance']) AS r (role)
        WHERE m.kind <> 'function' AND has_table_privilege(r.role, m.oid, 'SELECT')
    LOOP
        EXECUTE format('GRANT SELECT ON gathered.%I TO %I', v.name, v.role);
    END LOOP;
    FOR v IN SELECT g.oid::regprocedure AS signature, r.role
        FROM made m JOIN pg_proc p ON p.oid = m.oid AND m.kind = 'function'
        JOIN pg_proc g ON g.pronamespace = 'gathered'::regnamespace AND g.proname = p.proname AND g.pronargs = p.pronargs,
            unnest(ARRAY['repricer_pricing', 'repricer_service', 'repricer_finance']) AS r (role)
        WHERE has_function_privilege(r.role, m.oid, 'EXECUTE')
    LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO %I', v.signature, v.role);
    END LOOP;
END
$rights$;

-- Citus refuses a statement of each submission with dependents on other subscriptions, because it reads the period of each
-- of these subscriptions in a subquery. Here they are read one by one. The rows were written by this very transaction, so `gathered`
-- does not show them.
DO $claims$
DECLARE
    v_old CONSTANT text := $old$
    INSERT INTO dependent_claims (original_transaction_id, bucket, sku, claimed_by, change_id, period)
        SELECT n.place[1], bucket_of(n.place[1]), n.place[2], c.original_transaction_id, c.change_id,
            (SELECT coalesce(s.renewal_period, s.period) FROM subscriptions s
                WHERE s.original_transaction_id = n.place[1] AND s.bucket = bucket_of(n.place[1]))
        FROM price_changes c, unnest(c.dependent_skus) AS name,
            LATERAL (SELECT regexp_match(name, '^([0-9]+)/(.+)$') AS place) n
        WHERE c.batch_id = p_batch_id AND c.dependent_skus <> '{}' AND c.state = 'awaiting_approval'
            AND n.place IS NOT NULL
        ON CONFLICT DO NOTHING;
$old$;
    v_new CONSTANT text := $new$
    DECLARE
        v_claim record;
        v_period text;
    BEGIN
        FOR v_claim IN
            SELECT n.place[1] AS id, bucket_of(n.place[1]) AS bucket, n.place[2] AS sku, c.original_transaction_id AS claimed_by,
                c.change_id
            FROM price_changes c, unnest(c.dependent_skus) AS name,
                LATERAL (SELECT regexp_match(name, '^([0-9]+)/(.+)$') AS place) n
            WHERE c.batch_id = p_batch_id AND c.dependent_skus <> '{}' AND c.state = 'awaiting_approval'
                AND n.place IS NOT NULL
        LOOP
            SELECT coalesce(s.renewal_period, s.period) INTO v_period FROM subscriptions s
                WHERE s.original_transaction_id = v_claim.id AND s.bucket = v_claim.bucket;
            INSERT INTO dependent_claims (original_transaction_id, bucket, sku, claimed_by, change_id, period)
                VALUES (v_claim.id, v_claim.bucket, v_claim.sku, v_claim.claimed_by, v_claim.change_id, v_period)
                ON CONFLICT DO NOTHING;
        END LOOP;
    END;
$new$;
    v_text text := pg_get_functiondef('repricer.record_dependent_claims(uuid)'::regprocedure);
BEGIN
    IF strpos(v_text, v_old) = 0 AND strpos(v_text, v_new) = 0 THEN
        RAISE EXCEPTION 'record_dependent_claims is not the function that this file was made for';
    END IF;
    EXECUTE replace(v_text, v_old, v_new);
END
$claims$;
COMMIT;
\ir summarise.sql

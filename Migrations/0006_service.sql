-- What the replicas of the service share, since they share nothing but the database: the rate of calls, what is
-- paused, leases, how far Apple's history was read, which statuses are wanted, and the partitions of the months to
-- come.
-- Locks: none on existing tables.
-- breaking: no

-- Calls a second over all replicas; nothing but this row says who may call when. The rate is a window, not a counter:
-- the row of an endpoint holds the permits of the last window (1.015 s) and those to come (650 ms). With a counter, or a grid
-- of instants, a permit that was missed or given back would be lost, and a fiftieth of a second of the rate with it: a machine
-- whose CPU is busy now and then would use only 85 % of the rate.
CREATE TABLE repricer.rate_limits (
    endpoint text NOT NULL,
    next_permit_micros bigint NOT NULL DEFAULT 0,
    taken_micros bigint[] NOT NULL DEFAULT '{}',
    counted_since_micros bigint NOT NULL DEFAULT 0,
    blocked_until timestamptz,
    CONSTRAINT rate_limits_pkey PRIMARY KEY (endpoint)
);
COMMENT ON COLUMN repricer.rate_limits.next_permit_micros IS
    'The next permit is not earlier than this. Every permit given so far is. Microseconds since 1970.';
COMMENT ON COLUMN repricer.rate_limits.taken_micros IS
    'The permits of the last window and those to come, ascending; empty where the gap between permits alone keeps the rate. '
    'Microseconds since 1970.';
COMMENT ON COLUMN repricer.rate_limits.counted_since_micros IS
    'Earlier permits only fill a window in which nobody called. They stand for no calls, and are not counted as such.';
COMMENT ON COLUMN repricer.rate_limits.blocked_until IS
    'The App Store asked that no process call before this instant.';

-- The one clock that all processes share. The rate reads no other, except in a rehearsal, which passes its own.
CREATE FUNCTION repricer.rate_clock() RETURNS bigint
LANGUAGE sql VOLATILE
RETURN (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;

-- Reserves up to p_wanted permits within p_horizon, none in the past, at least p_gap apart, and never more than
-- p_most in p_window; p_most is 0 where the gap alone keeps the rate. p_missed are permits that the caller had and
-- did not use. p_now is the clock of a rehearsal; null means the clock of the database. All in microseconds. Returns no row
-- where the endpoint has no row yet.
--
-- If the clock was set back, the permits of the row lie far in the future. Nobody reserves that far ahead, so they are
-- dropped. The next permits start one window after the latest instant that a lease can have reached.
CREATE FUNCTION repricer.lease_permits(
    p_endpoint text, p_wanted bigint, p_now bigint, p_horizon bigint, p_gap bigint, p_window bigint, p_most bigint,
    p_missed bigint[]
) RETURNS TABLE (now_micros bigint, permits bigint[], next_micros bigint, blocked_until timestamptz)
    LANGUAGE plpgsql AS $$
DECLARE
    v_now bigint;
    v_floor bigint;
    v_next bigint;
    v_taken bigint[];
    v_counted_since bigint;
    v_blocked timestamptz;
    v_permits bigint[] := '{}';
BEGIN
    SELECT r.next_permit_micros, r.taken_micros, r.blocked_until INTO v_floor, v_taken, v_blocked
    FROM repricer.rate_limits r WHERE r.endpoint = p_endpoint FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    -- The clock is read under the lock: waiting for it must not make permits start in the past.
    v_now := coalesce(p_now, repricer.rate_clock());
    IF extract(epoch FROM v_blocked) * 1000000 <= v_now THEN v_blocked := NULL; END IF;
    IF v_floor > v_now + 2 * (p_horizon + p_gap) THEN
        v_floor := v_now + p_horizon + p_window;
        v_taken := '{}';
    ELSE
        v_floor := greatest(v_floor, v_now);
        v_taken := ARRAY(
            SELECT t FROM unnest(v_taken) AS t WHERE t > v_now - p_window AND t <> ALL (p_missed) ORDER BY t);
    END IF;
    IF p_most > 0 AND v_taken = '{}' THEN
        -- The last window counts as used. Otherwise the calls of each window would leave in its first half.
        v_counted_since := v_floor;
        v_taken := ARRAY(SELECT v_floor - p_window + i * p_window / p_most FROM generate_series(0, p_most - 1) AS i);
    END IF;
    LOOP
        -- The permit p_most places before it, if there is one, must be a whole window earlier.
        v_next := greatest(v_floor, v_taken[cardinality(v_taken) - p_most + 1] + p_window);
        EXIT WHEN v_blocked IS NOT NULL OR cardinality(v_permits) >= p_wanted OR v_next >= v_now + p_horizon;
        v_permits := v_permits || v_next;
        IF p_most > 0 THEN v_taken := v_taken || v_next; END IF;
        v_floor := v_next + p_gap;
    END LOOP;
    UPDATE repricer.rate_limits r SET next_permit_micros = v_floor, taken_micros = v_taken,
        counted_since_micros = coalesce(v_counted_since, r.counted_since_micros)
    WHERE r.endpoint = p_endpoint
        AND (cardinality(v_permits) > 0 OR cardinality(p_missed) > 0 OR r.next_permit_micros > v_floor);
    RETURN QUERY SELECT v_now, v_permits, v_next, v_blocked;
END
$$;

-- Whether a person has paused delivery, whether the service has stopped calling by itself, and whose clock counts.
-- database_identity is the database that the service last saw. If it differs, this database is a copy, restored or failed
-- over to, that may lack calls. While catch_up_since is set no call leaves: first the service, or the person who recovers,
-- reads what the App Store says since then. Reading begins at catch_up_from (real time), when no call of the former
-- database can still be on its way.
CREATE TABLE repricer.service_controls (
    one_row boolean NOT NULL DEFAULT true,
    is_paused boolean NOT NULL DEFAULT false,
    paused_by text,
    paused_at timestamptz,
    paused_reason text,
    halted_at timestamptz,
    halted_reason text,
    halted_answer text,
    -- Kinds of call that are halted, because they are refused alike, and kinds that are throttled, because the App
    -- Store gives no answers.
    halted_kinds jsonb NOT NULL DEFAULT '{}',
    throttled_kinds jsonb NOT NULL DEFAULT '{}',
    -- Kinds of call of which none can leave, as a delivering process saw it last.
    unreached_kinds jsonb NOT NULL DEFAULT '{}',
    database_identity text,
    catch_up_since timestamptz,
    catch_up_from timestamptz,
    catch_up_by text,
    catch_up_answer text,
    is_restored boolean NOT NULL DEFAULT false,
    is_rehearsal boolean NOT NULL DEFAULT false,
    clock_start timestamptz,
    clock_rate double precision,
    clock_origin timestamptz,
    lowest_program integer NOT NULL DEFAULT 0,
    change_price_rate integer,
    CONSTRAINT service_controls_change_price_rate CHECK (change_price_rate > 0),
    CONSTRAINT service_controls_pkey PRIMARY KEY (one_row),
    CONSTRAINT service_controls_one_row CHECK (one_row),
    CONSTRAINT service_controls_halted_kinds CHECK (jsonb_typeof(halted_kinds) = 'object'),
    CONSTRAINT service_controls_clock CHECK (
        clock_rate IS NULL OR (is_rehearsal AND clock_start IS NOT NULL AND clock_origin IS NOT NULL AND clock_rate > 0)),
    CONSTRAINT service_controls_throttled_kinds CHECK (jsonb_typeof(throttled_kinds) = 'object'),
    CONSTRAINT service_controls_unreached_kinds CHECK (jsonb_typeof(unreached_kinds) = 'object')
);
INSERT INTO repricer.service_controls DEFAULT VALUES;
COMMENT ON COLUMN repricer.service_controls.catch_up_answer IS
    'Why the service, when it last read what the App Store says, stopped before the end, while calls wait for that reading.';
COMMENT ON COLUMN repricer.service_controls.is_restored IS
    'Whether this database took the place of one that was lost. A claim then asks whether the status of a subscription that the '
    'lost one may have called is still to be read (list recover/restored).';
COMMENT ON COLUMN repricer.service_controls.halted_answer IS
    'What the latest probe was refused with, and for which subscription. Null: none was refused yet.';
COMMENT ON COLUMN repricer.service_controls.halted_kinds IS
    'By kind of call: at, reason, answer (of the latest probe). One call of the kind a minute probes whether they may go on.';
COMMENT ON COLUMN repricer.service_controls.throttled_kinds IS
    'By kind of call: since, until (when the next call leaves), answer (the latest). It ends when a call is answered.';
COMMENT ON COLUMN repricer.service_controls.unreached_kinds IS
    'By kind of call: since, tried (the latest call), answer (why it did not leave), seen (when that was noted, in real time; '
    'after three minutes it no longer counts). It ends when a call is answered. It holds nothing back.';
COMMENT ON COLUMN repricer.service_controls.change_price_rate IS
    'How many calls the service makes in a thousand seconds at most. Forecasts use it where a person names no rate of their own.';
COMMENT ON COLUMN repricer.service_controls.lowest_program IS
    'A program may make calls and write only if it was written for this schema version or a later one: that of the newest '
    'breaking migration. The migrator sets it.';
COMMENT ON COLUMN repricer.service_controls.clock_rate IS
    'In a rehearsal: the clock shows clock_start at the real instant clock_origin, and runs at this many seconds a second. '
    'What is recorded is dated by it. Null: by the server''s clock.';
COMMENT ON COLUMN repricer.service_controls.is_rehearsal IS
    'Decisions are dated by the instant that the program gives, because it runs on a virtual clock; see decision_instant.';

-- Which sessions hold rows that calls wait for, as a delivering process saw it last. This is a table of its own, because a halt
-- that waits for such a session holds the row of service_controls: nobody could record there who is waited for.
CREATE TABLE repricer.blocking_sessions (
    one_row boolean NOT NULL DEFAULT true,
    since timestamptz,
    sessions text,
    is_all boolean NOT NULL DEFAULT false,
    seen_at timestamptz,
    CONSTRAINT blocking_sessions_pkey PRIMARY KEY (one_row),
    CONSTRAINT blocking_sessions_one_row CHECK (one_row)
);
INSERT INTO repricer.blocking_sessions DEFAULT VALUES;
COMMENT ON COLUMN repricer.blocking_sessions.since IS 'Since when rows are held, in real time; null: none are.';
COMMENT ON COLUMN repricer.blocking_sessions.is_all IS 'Whether nothing that is due can be claimed.';
COMMENT ON COLUMN repricer.blocking_sessions.seen_at IS
    'When this was last seen, in real time. After three minutes it no longer counts.';

-- One row for each halt. What ended by the refusals that caused the halt is put back, because they say nothing about the
-- customer. This goes on for as long as refused calls are checked, and so outlives the transaction that halts. Refusals with
-- the same code count from a minute before ended_from, because another process may have met them.
CREATE TABLE repricer.put_backs (
    put_back_id bigint GENERATED ALWAYS AS IDENTITY,
    kind text NOT NULL,
    -- Null stands for every batch, or for a kind without batches.
    batch_id uuid,
    code text NOT NULL,
    -- When the first of the refusals came, and when the halt ended, by the business clock.
    ended_from timestamptz NOT NULL,
    ended_until timestamptz,
    -- Whether an answered call ended the halt, or the batch that was halted had nothing left to call.
    is_recovered boolean NOT NULL DEFAULT false,
    -- Whether nothing is left to put back. The row stays while changes that it has put back still wait.
    is_done boolean NOT NULL DEFAULT false,
    -- When it is next checked for what to put back, in real time, and how often it was checked.
    next_check_at timestamptz NOT NULL DEFAULT '-infinity',
    checks integer NOT NULL DEFAULT 0,
    -- Whether a guard halted the batch because nearly all refusals had this code. What ended by the code goes back, each row once.
    is_of_guard boolean NOT NULL DEFAULT false,
    CONSTRAINT put_backs_pkey PRIMARY KEY (put_back_id)
);
COMMENT ON TABLE repricer.put_backs IS
    'Halts whose refusals may have ended something; put_back_refused puts that back. A row is deleted once nothing that it put '
    'back still waits.';

-- Refusals in a row, over all replicas and all earlier processes. Each kind of call has one row for everybody. Each batch, and
-- each storefront of a batch, that was refused since a call of its own succeeded has a row, too. A row names no subscription
-- where only changes that had their second chance were refused. Whoever judges a refusal locks the row for everybody, which
-- always exists. So the number of changes that end by what everybody meets does not grow with the number of processes.
CREATE TABLE repricer.refusal_streaks (
    kind text NOT NULL,
    -- Null stands for everybody.
    batch_id uuid,
    storefront text,
    code bigint NOT NULL,
    -- The subscriptions that were refused with this code since another code was met, and those refused with any code.
    alike text[] NOT NULL DEFAULT '{}',
    refused text[] NOT NULL DEFAULT '{}',
    -- The subscriptions that were refused once more as before, although others had succeeded in between. They are in neither of
    -- the two lists above.
    refused_again text[] NOT NULL DEFAULT '{}',
    -- In the row for everybody, some subscriptions of each batch, as pairs.
    of_batches uuid[] NOT NULL DEFAULT '{}',
    of_subscriptions text[] NOT NULL DEFAULT '{}',
    -- When the first of these refusals came, by the business clock.
    since timestamptz NOT NULL,
    -- When these refusals halted something, in real time.
    halted_at timestamptz,
    is_about_key boolean NOT NULL DEFAULT false,
    -- In the row for everybody, the subscriptions that were refused with "done already", and when, in milliseconds of real
    -- time. Such a refusal is not counted until a status shows whether it is true.
    believed_done text[] NOT NULL DEFAULT '{}',
    believed_done_at text[] NOT NULL DEFAULT '{}',
    CONSTRAINT refusal_streaks_scope UNIQUE NULLS NOT DISTINCT (kind, batch_id, storefront),
    CONSTRAINT refusal_streaks_pairs CHECK (cardinality(of_batches) = cardinality(of_subscriptions)
        AND cardinality(believed_done) = cardinality(believed_done_at))
);
INSERT INTO repricer.refusal_streaks (kind, code, since)
    SELECT kind, 0, 'epoch' FROM unnest(ARRAY['price_change', 'cancel', 'extension', 'mass_extension']) AS k (kind);
COMMENT ON TABLE repricer.refusal_streaks IS
    'Refusals in a row since a call succeeded. They show whether a refusal is about one subscription or about all.';

-- Whether p_at, an instant that some process noted, is within the last three minutes of real time. A process that died notes
-- nothing more.
CREATE FUNCTION repricer.was_just_now(p_at timestamptz) RETURNS boolean
LANGUAGE sql VOLATILE
RETURN p_at > clock_timestamp() - interval '3 minutes';

-- Every SQL statement that folds, stores, decides or drops calls this with the schema version that its program was written
-- for. For a program that is older than the newest breaking migration it fails the transaction, so that nothing is half done.
-- Claims read the column itself, because to them an old program is no error.
CREATE FUNCTION repricer.allow_program(p_schema integer) RETURNS boolean
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp AS $$
DECLARE
    v_lowest integer := (SELECT lowest_program FROM service_controls);
BEGIN
    IF v_lowest > p_schema THEN
        RAISE EXCEPTION 'the database is for programs of schema version % or newer, this one is of %; install the release that migrated it',
            v_lowest, p_schema USING ERRCODE = 'RP001';
    END IF;
    RETURN true;
END;
$$;

-- Identifies this database: by the cluster, the timeline, the database, and a table. A restore creates that table anew, even
-- where it puts a dump in the place of dropped schemas. So a restored dump has another identity, and so has a promoted
-- standby. A snapshot of the disk has the same identity, and so have rows that are restored into existing tables.
CREATE FUNCTION repricer.database_identity() RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
SELECT CASE WHEN NOT pg_is_in_recovery() THEN concat_ws('/',
    (SELECT system_identifier FROM pg_control_system()),
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
    (SELECT oid FROM pg_database WHERE datname = current_database()),
    'repricer.service_controls'::regclass::oid) END
$$;

-- A replica that makes calls records its rate here. The replica that started last counts.
CREATE FUNCTION repricer.note_change_price_rate(p_per_thousand_seconds integer) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = repricer, pg_temp
BEGIN ATOMIC
    UPDATE repricer.service_controls SET change_price_rate = p_per_thousand_seconds
    WHERE change_price_rate IS DISTINCT FROM p_per_thousand_seconds;
END;

-- The app that this database is about. The first program that knows it binds the database, and nothing changes that: the same
-- subscriptions, called as those of another app or environment, would be lost or charged wrongly.
CREATE TABLE repricer.app_binding (
    one_row boolean NOT NULL DEFAULT true,
    bundle_id text NOT NULL,
    environment text NOT NULL,
    bound_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    bound_by text NOT NULL DEFAULT session_user,
    CONSTRAINT app_binding_pkey PRIMARY KEY (one_row),
    CONSTRAINT app_binding_one_row CHECK (one_row),
    CONSTRAINT app_binding_size CHECK (length(bundle_id) BETWEEN 1 AND 155 AND length(environment) BETWEEN 1 AND 20)
);

-- Binds the database where nobody has bound it yet.
CREATE FUNCTION repricer.bind_app(p_bundle_id text, p_environment text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = repricer, pg_temp
BEGIN ATOMIC
    INSERT INTO repricer.app_binding (bundle_id, environment) VALUES (p_bundle_id, p_environment)
    ON CONFLICT ON CONSTRAINT app_binding_pkey DO NOTHING;
END;

-- Work that one replica at a time does. A lease is a row and not an advisory lock: it outlives a lost connection for
-- as long as it says and no longer. leased_until is real time, next_run_at the clock of the service.
CREATE TABLE repricer.service_leases (
    name text NOT NULL,
    owner uuid,
    leased_until timestamptz,
    next_run_at timestamptz,
    last_run_at timestamptz,
    CONSTRAINT service_leases_pkey PRIMARY KEY (name),
    CONSTRAINT service_leases_owned_for_a_time CHECK ((owner IS NULL) = (leased_until IS NULL))
);

-- One row: the notification history was read up to read_through without a gap. A window may be under way: first its
-- failures, then everything in it, slice by slice and page by page.
CREATE TABLE repricer.history_reading (
    one_row boolean NOT NULL DEFAULT true,
    read_through timestamptz,
    window_start timestamptz,
    window_end timestamptz,
    pass text,
    slice_start timestamptz,
    page_token text,
    CONSTRAINT history_reading_pkey PRIMARY KEY (one_row),
    CONSTRAINT history_reading_one_row CHECK (one_row),
    CONSTRAINT history_reading_pass CHECK (pass IN ('failures', 'everything')),
    CONSTRAINT history_reading_window CHECK (
        (window_start IS NULL AND window_end IS NULL AND pass IS NULL AND slice_start IS NULL
            AND page_token IS NULL)
        OR (window_start < window_end AND pass IS NOT NULL AND slice_start IS NOT NULL))
);
INSERT INTO repricer.history_reading DEFAULT VALUES;

-- Subscriptions whose status is to be read. Anybody may ask: insert (original_transaction_id, reason, requested_at)
-- with ON CONFLICT DO NOTHING. list_id names a file of ids, and is empty otherwise. next_check_at is real time.
CREATE TABLE repricer.status_checks (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    reason text NOT NULL,
    list_id text NOT NULL DEFAULT '',
    line bigint,
    requested_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    next_check_at timestamptz,
    done_at timestamptz,
    outcome text,
    detail text,
    CONSTRAINT status_checks_pkey PRIMARY KEY (original_transaction_id, reason, list_id, bucket),
    CONSTRAINT status_checks_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id)),
    CONSTRAINT status_checks_id_size CHECK (length(original_transaction_id) BETWEEN 1 AND 64),
    CONSTRAINT status_checks_reason CHECK (reason IN ('sync', 'silent', 'legacy', 'recover')),
    CONSTRAINT status_checks_outcome CHECK (
        outcome IN ('read', 'drifted', 'not_found', 'refused', 'unreadable', 'unanswered')),
    CONSTRAINT status_checks_done CHECK ((done_at IS NULL) = (outcome IS NULL))
);
-- The second condition is always true, and only the query for what is due repeats it (see inbox_waiting).
CREATE INDEX status_checks_due ON repricer.status_checks (reason, list_id, bucket, next_check_at NULLS FIRST)
    WHERE done_at IS NULL AND requested_at > '-infinity';
-- Retention deletes the oldest first, a few at a time.
CREATE INDEX status_checks_done_at ON repricer.status_checks (done_at) WHERE done_at IS NOT NULL;

CREATE VIEW repricer.month_partitions AS
SELECT p.relname::text AS parent, c.relname::text AS partition,
    substring(b.bounds FROM 'FROM \(''([^'']+)''\)')::timestamptz AS starts_at,
    substring(b.bounds FROM 'TO \(''([^'']+)''\)')::timestamptz AS ends_at,
    b.bounds = 'DEFAULT' AS is_default,
    coalesce(pg_total_relation_size(c.oid), 0) AS bytes
FROM pg_inherits i
JOIN pg_class p ON p.oid = i.inhparent
JOIN pg_class c ON c.oid = i.inhrelid
-- OFFSET 0 makes PostgreSQL read the bounds once. A partition that another session has dropped meanwhile has none.
CROSS JOIN LATERAL (SELECT pg_get_expr(c.relpartbound, c.oid) AS bounds OFFSET 0) b
WHERE b.bounds IS NOT NULL AND i.inhparent IN ('repricer.notifications'::regclass, 'repricer.price_change_history'::regclass,
    'repricer.subscription_events'::regclass, 'repricer.subscription_event_versions'::regclass,
    'repricer.charge_versions'::regclass, 'repricer.price_change_versions'::regclass,
    'repricer.dependent_cancellation_versions'::regclass);
COMMENT ON VIEW repricer.month_partitions IS
    'The partitions of the tables that have one for each month. The default partition has no bounds.';

-- What retention has dropped: everything that a rule names from before the instant. Reports as of an earlier instant refuse.
CREATE TABLE repricer.retention_floors (
    rule text NOT NULL,
    dropped_before timestamptz NOT NULL,
    dropped_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    dropped_by text NOT NULL DEFAULT session_user,
    CONSTRAINT retention_floors_pkey PRIMARY KEY (rule)
);
COMMENT ON TABLE repricer.retention_floors IS 'For each rule of retention, the instant before which everything it names was dropped.';

-- How far retention has come with checkpoints. A run for the same instant continues after the subscription at which the last
-- run ended.
CREATE TABLE repricer.retention_progress (
    one_row boolean NOT NULL DEFAULT true,
    covers_before timestamptz NOT NULL,
    began_at timestamptz NOT NULL,
    done_through text NOT NULL DEFAULT '',
    CONSTRAINT retention_progress_pkey PRIMARY KEY (one_row),
    CONSTRAINT retention_progress_one_row CHECK (one_row)
);
COMMENT ON COLUMN repricer.retention_progress.began_at IS
    'By the same clock as recorded_at. The run may have missed what was recorded since.';

-- Makes the partitions of one table for the month of p_at and for p_ahead months after it. Returns how many were
-- missing. Rows that the default partition took in the meantime move to their month. Each call prepares one table, so
-- that the locks on one are never held while those on another are waited for.
CREATE FUNCTION repricer.prepare_months(p_table text, p_at timestamptz, p_ahead integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp
    SET timezone = 'UTC' SET lock_timeout = '2s' AS $$
DECLARE
    v_column text;
    v_storage text := '';
    v_default text := p_table || '_default';
    v_months timestamptz[];
    v_from timestamptz;
    v_to timestamptz;
    v_name text;
    v_has_rows boolean;
    v_made integer := 0;
BEGIN
    CASE p_table
        WHEN 'notifications' THEN
            v_column := 'received_at';
            v_storage := ' WITH (toast_tuple_target = 128)';
        WHEN 'price_change_history' THEN
            v_column := 'occurred_at';
        WHEN 'subscription_events' THEN
            v_column := 'signed_at';
        WHEN 'subscription_event_versions', 'charge_versions', 'price_change_versions',
            'dependent_cancellation_versions' THEN
            v_column := 'recorded_until';
        ELSE
            RAISE EXCEPTION '% is not partitioned by month', p_table USING ERRCODE = 'invalid_parameter_value';
    END CASE;
    IF NOT coalesce(isfinite(p_at) AND p_ahead BETWEEN 0 AND 120, false) THEN
        RAISE EXCEPTION 'months are prepared from an instant on, and 120 ahead at most'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT array_agg(m ORDER BY m) INTO v_months
        FROM generate_series(date_trunc('month', p_at),
            date_trunc('month', p_at) + p_ahead * interval '1 month', interval '1 month') m
        WHERE NOT EXISTS (
            SELECT FROM month_partitions p
            WHERE p.parent = p_table AND p.starts_at <= m AND p.ends_at > m);
    IF v_months IS NULL THEN
        RETURN 0;
    END IF;
    IF p_table <> 'notifications' THEN
        -- Writers here are in the middle of a delivery or a decision. A writer that had already chosen the default
        -- partition would fail once the month exists. So this lock makes writers and readers wait, but does not wait long
        -- for them.
        SET LOCAL lock_timeout = '500ms';
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', p_table);
    ELSE
        -- One session at a time does this; a second one then finds the partitions made. Writers go on, and store again what
        -- fails.
        LOCK TABLE notifications IN SHARE UPDATE EXCLUSIVE MODE;
    END IF;
    EXECUTE format(
        'SELECT EXISTS (SELECT 1 FROM %I WHERE date_trunc(''month'', %I) = ANY ($1))', v_default, v_column)
        INTO v_has_rows USING v_months;
    IF v_has_rows THEN
        -- Rows will move. Readers must wait before they choose partitions: one that had already chosen would find these rows
        -- in none of them. The lock is taken before any partition is attached. Otherwise a session that holds the table and
        -- waits for its default partition could wait for us while we wait for it.
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', p_table);
    END IF;
    FOREACH v_from IN ARRAY v_months LOOP
        v_to := v_from + interval '1 month';
        v_name := p_table || '_' || to_char(v_from, 'YYYY_MM');
        CONTINUE WHEN to_regclass(format('repricer.%I', v_name)) IS NOT NULL;
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)%s', v_name, p_table, v_storage);
        IF v_has_rows THEN
            EXECUTE format(
                'WITH moved AS (DELETE FROM %I WHERE %I >= $1 AND %I < $2 RETURNING *) '
                'INSERT INTO %I SELECT * FROM moved', v_default, v_column, v_column, v_name) USING v_from, v_to;
        END IF;
        IF v_has_rows AND p_table IN ('subscription_events', 'price_change_history') THEN
            -- A reader with an older snapshot finds these rows in neither partition. So the figures that it keeps are
            -- marked, and computed once more.
            EXECUTE format('INSERT INTO stale_figures (original_transaction_id, bucket) '
                'SELECT DISTINCT m.original_transaction_id, m.bucket FROM %I m', v_name);
        END IF;
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
            p_table, v_name, v_from, v_to);
        v_made := v_made + 1;
    END LOOP;
    RETURN v_made;
END
$$;

-- The audit chain, to which every decision of a person adds a line, and the clock that dates decisions. Nobody updates a
-- batch directly: the functions of the files that follow do. Each function runs as its owner, checks who calls it, and
-- records session_user: the person who logged in, whatever role they have set. As its last step it adds a line to the audit
-- chain.
-- Locks: none on existing tables.
-- breaking: no

-- Each line holds the hash of the line before it, so that a line which was edited, removed or moved is found
-- (`repricer audit verify`). README.md says what is hashed. Only functions add lines, never a client.
CREATE TABLE repricer.audit_trail (
    sequence bigint NOT NULL,
    -- The instant of the decision. For what the service does by itself, it is the service's clock.
    occurred_at timestamptz NOT NULL,
    -- The server's own clock.
    recorded_at timestamptz NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    object text NOT NULL,
    -- json and not jsonb: the text is hashed as it stands.
    details json NOT NULL,
    previous_hash text NOT NULL,
    hash text NOT NULL,
    CONSTRAINT audit_trail_pkey PRIMARY KEY (sequence),
    CONSTRAINT audit_trail_hash UNIQUE (hash),
    CONSTRAINT audit_trail_sequence CHECK (sequence > 0),
    CONSTRAINT audit_trail_instants CHECK (
        occurred_at BETWEEN '1970-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z'
        AND recorded_at BETWEEN '1970-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z'),
    CONSTRAINT audit_trail_details_size CHECK (octet_length(details::text) <= 65536)
);
CREATE INDEX audit_trail_object ON repricer.audit_trail (object, sequence);
COMMENT ON TABLE repricer.audit_trail IS
    'Append-only: every decision of a person, hash-chained. README.md says what is hashed.';

-- The end of the chain. Whoever adds a line holds this row, so that the lines have one order without a gap.
CREATE TABLE repricer.audit_head (
    one_row boolean NOT NULL DEFAULT true,
    sequence bigint NOT NULL,
    hash text NOT NULL,
    CONSTRAINT audit_head_pkey PRIMARY KEY (one_row),
    CONSTRAINT audit_head_one_row CHECK (one_row)
);
INSERT INTO repricer.audit_head (sequence, hash) VALUES (0, repeat('0', 64));

-- This refuses a change that the owner makes by mistake. A change made on purpose is found by the chain.
CREATE FUNCTION repricer.refuse_audit_change() RETURNS trigger
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'the audit trail is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;
CREATE TRIGGER audit_trail_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON repricer.audit_trail
    FOR EACH STATEMENT EXECUTE FUNCTION repricer.refuse_audit_change();

-- The hash of a line: SHA-256 over its eight values, each as its length in bytes, a colon, the value, a line feed.
CREATE FUNCTION repricer.audit_hash(
    p_sequence bigint, p_occurred_at timestamptz, p_recorded_at timestamptz, p_actor text, p_action text,
    p_object text, p_details json, p_previous_hash text) RETURNS text
    LANGUAGE sql STABLE SET search_path = repricer, pg_temp AS $$
SELECT encode(sha256(convert_to(string_agg(
        octet_length(convert_to(v.value, 'UTF8')) || ':' || v.value || E'\n', '' ORDER BY v.place), 'UTF8')), 'hex')
FROM unnest(ARRAY[
    p_sequence::text,
    to_char(p_occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    to_char(p_recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    p_actor, p_action, p_object, p_details::text, p_previous_hash]) WITH ORDINALITY AS v (value, place)
$$;

-- Lines of decisions that were made while another session held the end of the chain. The decisions are made all the same.
-- The next decision, or whoever reads the trail, adds these lines to the chain. Nobody but the owner can write here.
CREATE TABLE repricer.audit_waiting (
    waiting_id bigint GENERATED ALWAYS AS IDENTITY,
    occurred_at timestamptz NOT NULL,
    recorded_at timestamptz NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    object text NOT NULL,
    details json NOT NULL,
    CONSTRAINT audit_waiting_pkey PRIMARY KEY (waiting_id),
    CONSTRAINT audit_waiting_details_size CHECK (octet_length(details::text) <= 65536)
);
COMMENT ON TABLE repricer.audit_waiting IS
    'Lines of the audit trail that are still to be chained, because a session held the end of the chain for two seconds.';

-- Takes the lock on the end of the chain until the commit. Returns false where another session keeps it for two seconds: a
-- person who leaves a decision uncommitted must not keep others from theirs, and least of all from a pause.
CREATE FUNCTION repricer.hold_audit_head() RETURNS boolean
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
DECLARE
    v_timeout text := current_setting('lock_timeout');
BEGIN
    PERFORM set_config('lock_timeout', '2s', true);
    PERFORM FROM audit_head FOR UPDATE;
    PERFORM set_config('lock_timeout', v_timeout, true);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;

-- Adds a line at the end of the chain. The caller holds the lock on that end.
CREATE FUNCTION repricer.chain_audit_line(
    p_actor text, p_occurred_at timestamptz, p_recorded_at timestamptz, p_action text, p_object text, p_details json)
    RETURNS bigint
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
DECLARE
    v_head audit_head;
    v_hash text;
BEGIN
    SELECT * INTO STRICT v_head FROM audit_head;
    v_head.sequence := v_head.sequence + 1;
    v_hash := audit_hash(v_head.sequence, p_occurred_at, p_recorded_at, p_actor, p_action, p_object, p_details,
        v_head.hash);
    INSERT INTO audit_trail
            (sequence, occurred_at, recorded_at, actor, action, object, details, previous_hash, hash)
        VALUES (v_head.sequence, p_occurred_at, p_recorded_at, p_actor, p_action, p_object, p_details,
            v_head.hash, v_hash);
    UPDATE audit_head SET sequence = v_head.sequence, hash = v_hash;
    RETURN v_head.sequence;
END
$$;

-- Chains the lines that wait. The caller holds the lock on the end of the chain.
CREATE FUNCTION repricer.chain_waiting_lines() RETURNS void
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
DECLARE
    v_line audit_waiting;
BEGIN
    FOR v_line IN SELECT * FROM audit_waiting ORDER BY waiting_id LOOP
        PERFORM chain_audit_line(v_line.actor, v_line.occurred_at, v_line.recorded_at, v_line.action, v_line.object,
            v_line.details);
        DELETE FROM audit_waiting WHERE waiting_id = v_line.waiting_id;
    END LOOP;
END
$$;

-- Chains the lines that wait, for whoever reads the trail. Returns how many lines still wait.
CREATE FUNCTION repricer.settle_audit() RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM audit_waiting) AND NOT pg_is_in_recovery() AND hold_audit_head() THEN
        PERFORM chain_waiting_lines();
    END IF;
    RETURN (SELECT count(*) FROM audit_waiting);
END
$$;

-- Adds a line; only the functions of this schema call it. They call it last, because it locks the head of the chain until
-- the commit. Returns the number of the line; null where the line has to wait.
CREATE FUNCTION repricer.append_audit(
    p_actor text, p_occurred_at timestamptz, p_action text, p_object text, p_details json) RETURNS bigint
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
DECLARE
    v_details json := json_strip_nulls(coalesce(p_details, '{}'));
BEGIN
    IF NOT hold_audit_head() THEN
        INSERT INTO audit_waiting (occurred_at, recorded_at, actor, action, object, details)
            VALUES (p_occurred_at, clock_timestamp(), p_actor, p_action, p_object, v_details);
        RETURN NULL;
    END IF;
    PERFORM chain_waiting_lines();
    RETURN chain_audit_line(p_actor, p_occurred_at, clock_timestamp(), p_action, p_object, v_details);
END
$$;

-- The clock of decisions ----------------------------------------------------------------------------------------------

-- The instant of a decision: the server's own, whatever instant the client gives, so that nobody can date a decision.
-- A rehearsal has a virtual clock, so there the instant of the client counts.
CREATE FUNCTION repricer.decision_instant(p_given timestamptz) RETURNS timestamptz
    LANGUAGE sql SET search_path = repricer, pg_temp AS $$
SELECT CASE WHEN is_rehearsal THEN p_given ELSE date_trunc('milliseconds', clock_timestamp()) END
FROM service_controls
$$;

-- Makes this the database of a rehearsal, for good. The owner and the service may do it while nothing was submitted yet.
-- A program calls it when it runs on a virtual clock, which it does only against a simulated App Store. With such a database
-- a program refuses to call any other App Store.
CREATE FUNCTION repricer.begin_rehearsal(p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM batches) OR EXISTS (SELECT 1 FROM mass_extensions)
        OR EXISTS (SELECT 1 FROM extension_requests)
    THEN
        RAISE EXCEPTION 'decisions were made here by the server''s clock; a rehearsal needs a database of its own'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    UPDATE service_controls SET is_rehearsal = true WHERE NOT is_rehearsal;
    IF FOUND THEN
        PERFORM append_audit(session_user::text, p_at, 'begin_rehearsal', 'everything', NULL);
    END IF;
END
$$;

-- Makes the database of a rehearsal date what it records by the clock of its programs. Each program tells its clock when it
-- starts; the program that started last counts.
CREATE FUNCTION repricer.follow_clock(p_start timestamptz, p_rate double precision, p_origin timestamptz) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
UPDATE service_controls SET clock_start = p_start, clock_rate = p_rate, clock_origin = p_origin
WHERE is_rehearsal AND (clock_start, clock_rate, clock_origin) IS DISTINCT FROM (p_start, p_rate, p_origin)
$$;

-- How people decide: the audit chain, approval limits, submission, approval, withdrawal, waves, pauses and undo; and
-- where the service stops by itself. Nobody updates a batch directly. Each function runs as its owner, asks who may,
-- and writes session_user: the person who logged in, whatever role is set. Each adds a line to the audit chain, as its
-- last step.
-- Locks: none on existing tables.
-- breaking: no

-- The audit chain -----------------------------------------------------------------------------------------------------

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

-- A mistake of the owner is refused, too. Intent is found by the chain.
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

-- Decisions made while somebody else held the end of the chain: they are made all the same, and the next decision, or
-- who reads the trail, adds their lines. Nobody but the owner can write here.
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

-- Takes the end of the chain until the commit; false where somebody else keeps it for two seconds. A person who leaves
-- a decision uncommitted must not keep others from theirs, and least of all from a pause.
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

-- Adds a line at the end of the chain, which the caller holds.
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

-- Chains the lines that wait; the caller holds the end of the chain.
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

-- The same for who reads the trail. Returns how many lines wait still.
CREATE FUNCTION repricer.settle_audit() RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM audit_waiting) AND NOT pg_is_in_recovery() AND hold_audit_head() THEN
        PERFORM chain_waiting_lines();
    END IF;
    RETURN (SELECT count(*) FROM audit_waiting);
END
$$;

-- Adds a line; only the functions of this schema call it. It is their last step, because the row of the head is held
-- until the commit. Returns the number of the line; null where it waits.
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

-- The instant of a decision: the server's own, whatever instant the client gives, so that nobody dates a decision.
-- In a rehearsal, whose clock is virtual, it is the one given.
CREATE FUNCTION repricer.decision_instant(p_given timestamptz) RETURNS timestamptz
    LANGUAGE sql SET search_path = repricer, pg_temp AS $$
SELECT CASE WHEN is_rehearsal THEN p_given ELSE date_trunc('milliseconds', clock_timestamp()) END
FROM service_controls
$$;

-- Makes the database one of a rehearsal, for good: the owner and the service may, where nothing was submitted yet.
-- The programs ask for it when they run on a virtual clock, which they do against a simulated App Store only; they
-- refuse to call any other one with such a database.
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

-- Has the database of a rehearsal date what it records by the clock of its programs. They tell it when they begin; the
-- latest to do so counts.
CREATE FUNCTION repricer.follow_clock(p_start timestamptz, p_rate double precision, p_origin timestamptz) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
UPDATE service_controls SET clock_start = p_start, clock_rate = p_rate, clock_origin = p_origin
WHERE is_rehearsal AND (clock_start, clock_rate, clock_origin) IS DISTINCT FROM (p_start, p_rate, p_origin)
$$;

-- Submission ----------------------------------------------------------------------------------------------------------

-- One transaction begins a submission, stores its rows and finishes it: before, there is no batch to add rows to, and
-- afterwards none that takes rows. Another transaction of the same person with the same batch meets its primary key.

-- Begins a batch. The instant at which it was planned is the submitter's to say, but not far from the server's clock.
CREATE FUNCTION repricer.begin_submission(
    p_batch_id uuid, p_name text, p_content_sha256 text, p_grouping text, p_waves jsonb, p_guards jsonb,
    p_planned_as_of timestamptz, p_holdout integer DEFAULT 0) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus asks each node for session_user, where another user works for the one who decides.
    v_by text := session_user;
    v_at timestamptz := decision_instant(p_planned_as_of);
BEGIN
    PERFORM require_pricing();
    IF p_planned_as_of NOT BETWEEN v_at - interval '1 day' AND v_at + interval '1 day' THEN
        RAISE EXCEPTION 'planned as of %, but the database''s clock says %: set the clock of this machine, or begin '
            'a rehearsal by migrate, ingest or serve on its virtual clock', p_planned_as_of, v_at
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO batches (batch_id, name, state, content_sha256, plan_hash, planned_as_of, row_count, submitted_by, submitted_at,
            grouping, waves, guards, holdout_basis_points)
        VALUES (p_batch_id, p_name, 'submitting', p_content_sha256, '', p_planned_as_of, 0, v_by, v_at, p_grouping,
            p_waves, p_guards, p_holdout);
    IF EXISTS (SELECT FROM jsonb_array_elements(p_waves) AS w (wave) WHERE wave ->> 'release' = 'at'
        AND (wave ->> 'at')::timestamptz NOT BETWEEN '1970-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z')
    THEN
        RAISE EXCEPTION 'a wave is released at an instant that no calendar has'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

-- Whether a subscription belongs to the share that is not sent. All its items do alike, and nobody chooses: the file and
-- the subscription decide by their hash, so that the same file holds out the same ones, and another file others.
CREATE FUNCTION repricer.is_held_out(p_content_sha256 text, p_original_transaction_id text, p_basis_points integer)
    RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = repricer, pg_temp AS $$
SELECT p_basis_points > 0 AND ('x' || left(encode(
    sha256(convert_to(p_content_sha256 || ':' || p_original_transaction_id, 'UTF8')), 'hex'), 8))::bit(32)::bigint
    * 10000 < p_basis_points * 4294967296
$$;

-- The batch that this user is submitting in this transaction.
CREATE FUNCTION repricer.batch_in_submission(p_batch_id uuid) RETURNS repricer.batches
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
BEGIN
    SELECT * INTO v_batch FROM batches
        WHERE batch_id = p_batch_id AND state = 'submitting' AND submitted_by = session_user;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'user % is not submitting batch % in this transaction', session_user, p_batch_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN v_batch;
END
$$;

-- The id under which a batch keeps answers of consent rules: of their text as it was sent.
CREATE FUNCTION repricer.answers_id(p_answers text) RETURNS uuid
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = repricer, pg_temp AS $$
SELECT left(encode(sha256(convert_to(p_answers, 'UTF8')), 'hex'), 32)::uuid
$$;

-- All answers of the consent rules that a change was approved with, in the order of the rules.
CREATE FUNCTION repricer.forecast_rules(p_change repricer.price_changes) RETURNS jsonb
    LANGUAGE sql STABLE SET search_path = repricer, pg_temp AS $$
SELECT coalesce(jsonb_agg(answer ORDER BY array_position(ARRAY['always_consent_storefront', 'threshold',
    'increase_within_12_months', 'korea_offer_conversion'], answer ->> 'rule')), '[]')
FROM (
    SELECT jsonb_array_elements(p_change.forecast_rules)
    UNION ALL
    SELECT jsonb_array_elements(a.answers) FROM batch_rule_answers a
        WHERE a.batch_id = p_change.batch_id AND a.answers_id = p_change.forecast_answers_id
) AS said (answer)
$$;

-- Stores changes of a batch and the parts that their SKUs play, from columns. Lists of SKUs, of reasons and of rules are
-- the text of an array. Many rows have most in common, so the columns from p_skus to p_threshold_sources and from
-- p_not_known to p_shared_rules may hold each combination once: p_kinds then says which a row takes, by its place
-- from 1 on. Without it they are as long as the others. The last seven may be left out.
CREATE FUNCTION repricer.store_changes(
    p_batch_id uuid, p_ids text[], p_change_ids uuid[], p_lines bigint[], p_waves bigint[], p_skus text[],
    p_dependent_skus text[], p_directions text[], p_currencies text[], p_storefronts text[], p_periods text[],
    p_current_prices bigint[], p_new_prices bigint[], p_expected_prices bigint[], p_effective_on_or_after text[],
    p_consents text[], p_reasons text[], p_threshold_sources text[], p_rules jsonb[], p_renewals timestamptz[],
    p_notices timestamptz[], p_effective timestamptz[], p_send_after timestamptz[], p_send_by timestamptz[],
    p_not_known text[] DEFAULT NULL, p_at_risk bigint[] DEFAULT NULL, p_at_risk_elsewhere jsonb[] DEFAULT NULL,
    p_kinds bigint[] DEFAULT NULL, p_shared_rules text[] DEFAULT NULL, p_stale boolean[] DEFAULT NULL,
    p_seats bigint[] DEFAULT NULL)
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp
    -- The planner underestimates these arrays and would choose nested loops. Where they are forbidden, it takes what is
    -- left for expensive and would compile it (JIT). Both are off.
    SET enable_nestloop = off SET jit = off AS $$
DECLARE
    -- Citus asks each node for session_user, where another user works for the one who decides.
    v_by text := session_user;
    v_batch batches := batch_in_submission(p_batch_id);
    v_at timestamptz := v_batch.submitted_at;
BEGIN
    INSERT INTO batch_rule_answers (batch_id, answers_id, answers)
        SELECT p_batch_id, answers_id(answers), answers::jsonb
        FROM (SELECT DISTINCT unnest(p_shared_rules)) AS said (answers) WHERE answers IS NOT NULL
        ON CONFLICT DO NOTHING;
    INSERT INTO price_changes (original_transaction_id, bucket, change_id, batch_id, submitted_by, line, wave, is_held_out, sku,
            dependent_skus, direction, currency, storefront, period, current_price_milliunits,
            new_price_milliunits, expected_price_milliunits, effective_on_or_after, forecast_consent,
            forecast_reasons, forecast_threshold_source, forecast_rules, forecast_answers_id,
            forecast_renewal_at, forecast_notice_at, forecast_effective_at, send_after, send_by, due_effective_at, state_since,
            forecast_not_known, at_risk_milliunits, at_risk_elsewhere, is_stale, forecast_seats)
        SELECT r.id, bucket_of(r.id), r.change_id, p_batch_id, v_by, r.line, r.wave,
            -- Only a batch with a holdout pays for the call of the function, which takes as long as an index does.
            CASE WHEN v_batch.holdout_basis_points > 0
                THEN is_held_out(v_batch.content_sha256, r.id, v_batch.holdout_basis_points) ELSE false END,
            k.sku, k.dependent_skus,
            k.direction, k.currency, k.storefront, k.period, k.current_price, k.new_price, k.expected_price,
            k.effective_on_or_after, k.consent, k.reasons, k.threshold_source, r.rules, k.answers_id, r.renewal,
            r.notice, r.effective, r.send_after, r.send_by, r.effective, v_at,
            k.not_known, k.at_risk, k.at_risk_elsewhere, k.is_stale, k.seats
        FROM unnest(p_ids, p_change_ids, p_lines, p_waves, p_rules, p_renewals, p_notices, p_effective,
                p_send_after, p_send_by, p_kinds) WITH ORDINALITY
            AS r (id, change_id, line, wave, rules, renewal, notice, effective, send_after, send_by, kind, place)
        LEFT JOIN (
            SELECT k.place, k.sku, k.dependent_skus::text[], k.direction, k.currency, k.storefront, k.period,
                k.current_price, k.new_price, k.expected_price, k.effective_on_or_after::date, k.consent,
                k.reasons::text[], k.threshold_source, coalesce(k.not_known::text[], '{}') AS not_known, k.at_risk,
                k.at_risk_elsewhere, answers_id(k.answers) AS answers_id, coalesce(k.stale, false) AS is_stale,
                coalesce(k.seats, 1) AS seats
            FROM unnest(p_skus, p_dependent_skus, p_directions, p_currencies, p_storefronts, p_periods,
                    p_current_prices, p_new_prices, p_expected_prices, p_effective_on_or_after, p_consents,
                    p_reasons, p_threshold_sources, p_not_known, p_at_risk, p_at_risk_elsewhere,
                    p_shared_rules, p_stale, p_seats) WITH ORDINALITY
                AS k (sku, dependent_skus, direction, currency, storefront, period, current_price, new_price,
                    expected_price, effective_on_or_after, consent, reasons, threshold_source, not_known, at_risk,
                    at_risk_elsewhere, answers, stale, seats, place)
            -- Read once a kind, and not once a row.
            OFFSET 0) k ON k.place = coalesce(r.kind, r.place);
    IF EXISTS (SELECT FROM unnest(p_dependent_skus) AS names WHERE names::text[] <> '{}') THEN
        INSERT INTO dependency_roles (original_transaction_id, bucket, sku, role, change_id)
            SELECT r.id, bucket_of(r.id), part.sku, part.role, r.change_id
            FROM unnest(p_ids, p_change_ids, p_kinds) WITH ORDINALITY AS r (id, change_id, kind, place)
            JOIN unnest(p_skus, p_dependent_skus) WITH ORDINALITY AS k (sku, dependent_skus, place)
                ON k.place = coalesce(r.kind, r.place)
            CROSS JOIN LATERAL (
                SELECT k.sku, 'parent' UNION ALL SELECT unnest(k.dependent_skus::text[]), 'dependent'
            ) AS part (sku, role)
            WHERE k.dependent_skus::text[] <> '{}';
    END IF;
END
$$;

-- Keeps rows of the file that did not become changes.
CREATE FUNCTION repricer.store_rejects(
    p_batch_id uuid, p_lines bigint[], p_ids text[], p_skus text[], p_codes text[], p_messages text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    PERFORM batch_in_submission(p_batch_id);
    INSERT INTO batch_rejects (batch_id, line, original_transaction_id, sku, code, message)
        SELECT p_batch_id, r.* FROM unnest(p_lines, p_ids, p_skus, p_codes, p_messages) AS r;
END
$$;

-- SHA-256 over what a batch asks for: its name, guards, waves, grouping and hold-out, and of each row the item, prices, day,
-- wave and forecast. Names and instants that follow the subscription (current_sku, send_by) are not in it. The audit line of
-- the submission keeps it, and `audit verify` computes it anew. Bucket by bucket, because a spread database sorts each
-- where it is; and without settings of its own, since its nodes know none, so that dates and instants are numbers. The text of a
-- row takes two thirds of the time that JSON takes.
CREATE FUNCTION repricer.batch_sha256(p_batch_id uuid) RETURNS text LANGUAGE plpgsql STABLE
    SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch text;
    v_rows text;
BEGIN
    SELECT json_build_array(b.name, b.content_sha256, b.grouping, b.guards, (
            SELECT jsonb_agg(w.wave - 'released_at' ORDER BY w.number)
            FROM jsonb_array_elements(b.waves) WITH ORDINALITY AS w (wave, number)), b.holdout_basis_points, b.undoes_batch_id)::text
        INTO v_batch FROM batches b WHERE b.batch_id = p_batch_id;
    SELECT string_agg(d.bucket || ':' || d.digest, ',' ORDER BY d.bucket) INTO v_rows FROM (
        SELECT c.bucket, encode(sha256(convert_to(string_agg(ROW(c.original_transaction_id, c.change_id, c.line,
                c.wave, c.is_held_out, c.undoes_change_id, c.sku, c.dependent_skus, c.direction, c.currency, c.storefront, c.period,
                c.current_price_milliunits, c.new_price_milliunits, c.expected_price_milliunits,
                c.effective_on_or_after - date '2000-01-01', c.forecast_consent, extract(epoch FROM c.forecast_effective_at),
                c.forecast_seats)::text, E'\n'
                ORDER BY c.line, c.change_id, c.original_transaction_id COLLATE "C"), 'UTF8')), 'hex') AS digest
        FROM price_changes c WHERE c.batch_id = p_batch_id GROUP BY c.bucket) d;
    RETURN encode(sha256(convert_to(v_batch || E'\n' || coalesce(v_rows, ''), 'UTF8')), 'hex');
END
$$;

-- Ends a submission: counts what is stored, and adds the audit line.
CREATE FUNCTION repricer.finish_submission(
    p_batch_id uuid, p_plan_hash text, p_rows bigint, p_refused_rows bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches := batch_in_submission(p_batch_id);
    v_rows bigint;
    v_refused bigint;
    v_unheard bigint;
BEGIN
    SELECT count(*), count(*) FILTER (WHERE s.original_transaction_id IS NULL) INTO v_rows, v_unheard
        FROM price_changes c
        LEFT JOIN subscriptions s ON s.original_transaction_id = c.original_transaction_id AND s.bucket = c.bucket
        WHERE c.batch_id = p_batch_id;
    SELECT count(*) INTO v_refused FROM batch_rejects WHERE batch_id = p_batch_id;
    IF (v_rows, v_refused) IS DISTINCT FROM (p_rows, p_refused_rows) THEN
        RAISE EXCEPTION 'batch % holds % rows and % refused ones, not % and %', p_batch_id, v_rows, v_refused, p_rows,
            p_refused_rows USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- The programs refuse such a row; stored by hand, it would wait for ever.
    IF v_unheard > 0 THEN
        RAISE EXCEPTION 'batch % holds rows of subscriptions of which nothing is known', p_batch_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    UPDATE batches SET state = 'awaiting_approval', plan_hash = p_plan_hash, row_count = v_rows,
            rejected_row_count = v_refused
        WHERE batch_id = p_batch_id;
    PERFORM record_dependent_claims(p_batch_id);
    PERFORM append_audit(session_user::text, v_batch.submitted_at, 'submit', 'batch:' || p_batch_id,
        json_build_object('name', v_batch.name, 'rows', v_rows, 'refused_rows', v_refused, 'plan_hash', p_plan_hash,
            'content_sha256', v_batch.content_sha256, 'batch_sha256', batch_sha256(p_batch_id), 'undoes', v_batch.undoes_batch_id,
            'holdout_basis_points', nullif(v_batch.holdout_basis_points, 0)));
END
$$;

-- Rules ---------------------------------------------------------------------------------------------------------------

-- Adds rules as the next version, which it returns. `value` is the amount in milliunits, 1 or 0 for whether consent is
-- required, the decimals, or billionths per euro; a rule without an instant holds since ever. A rule that is withdrawn
-- takes back what stands for its key and instant. `p_accepted` is what the person was warned of and took all the same.
CREATE FUNCTION repricer.import_rules(
    p_file text, p_content_sha256 text, p_at timestamptz, p_kinds text[], p_storefronts text[], p_currencies text[],
    p_period_kinds text[], p_valid_from timestamptz[], p_values bigint[], p_sources text[],
    p_withdrawn boolean[] DEFAULT NULL, p_accepted text[] DEFAULT '{}') RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_revision integer;
    v_withdrawn bigint := 0;
    v_rule record;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT coalesce(max(revision), 0) + 1 INTO v_revision FROM rule_imports;
    INSERT INTO rule_imports (revision, imported_at, file, content_sha256)
        VALUES (v_revision, p_at, p_file, p_content_sha256);
    FOR v_rule IN
        SELECT r.kind, r.storefront, r.currency, r.period_kind, coalesce(r.valid_from, '-infinity') AS valid_from,
            coalesce(r.withdrawn, false) AS withdrawn,
            CASE WHEN NOT coalesce(r.withdrawn, false) THEN r.value END AS value,
            CASE WHEN NOT coalesce(r.withdrawn, false) THEN r.source END AS source
        FROM unnest(p_kinds, p_storefronts, p_currencies, p_period_kinds, p_valid_from, p_values, p_sources,
                p_withdrawn)
            AS r (kind, storefront, currency, period_kind, valid_from, value, source, withdrawn)
    LOOP
        v_withdrawn := v_withdrawn + v_rule.withdrawn::integer;
        CASE v_rule.kind
        WHEN 'threshold' THEN
            INSERT INTO consent_thresholds (storefront, currency, period_kind, valid_from, revision, recorded_at,
                    withdrawn, amount_milliunits, source)
                VALUES (v_rule.storefront, v_rule.currency, v_rule.period_kind, v_rule.valid_from, v_revision, p_at,
                    v_rule.withdrawn, v_rule.value, v_rule.source);
        WHEN 'always_consent' THEN
            INSERT INTO always_consent_storefronts (storefront, valid_from, revision, recorded_at, withdrawn,
                    is_required, source)
                VALUES (v_rule.storefront, v_rule.valid_from, v_revision, p_at, v_rule.withdrawn, v_rule.value <> 0,
                    v_rule.source);
        WHEN 'currency' THEN
            INSERT INTO currency_decimals (currency, valid_from, revision, recorded_at, withdrawn, decimals, source)
                VALUES (v_rule.currency, v_rule.valid_from, v_revision, p_at, v_rule.withdrawn, v_rule.value,
                    v_rule.source);
        WHEN 'exchange_rate' THEN
            INSERT INTO exchange_rates (currency, valid_from, revision, recorded_at, withdrawn, billionths_per_euro,
                    source)
                VALUES (v_rule.currency, v_rule.valid_from, v_revision, p_at, v_rule.withdrawn, v_rule.value,
                    v_rule.source);
        END CASE;
    END LOOP;
    PERFORM append_audit(session_user::text, p_at, 'import_rules', 'rules:' || v_revision,
        json_build_object('file', p_file, 'content_sha256', p_content_sha256, 'rules', cardinality(p_kinds),
            'withdrawn', v_withdrawn, 'accepted_implausible', p_accepted));
    RETURN v_revision;
END
$$;

-- Past increases that no notification told of: stores them as the next import, whose number it returns. An increase that
-- is stored already, or lies in the future, is refused with all others.
CREATE FUNCTION repricer.import_history(
    p_file text, p_content_sha256 text, p_at timestamptz, p_ids text[], p_skus text[], p_days date[],
    p_old_prices bigint[], p_new_prices bigint[], p_currencies text[]) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_number integer;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    IF EXISTS (SELECT FROM unnest(p_days) AS day WHERE day > (p_at AT TIME ZONE 'UTC')::date) THEN
        RAISE EXCEPTION 'an increase of the future is none yet' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT coalesce(max(number), 0) + 1 INTO v_number FROM history_imports;
    INSERT INTO history_imports (number, imported_at, file, content_sha256)
        VALUES (v_number, p_at, p_file, p_content_sha256);
    INSERT INTO imported_increases (original_transaction_id, bucket, sku, increased_on, old_price_milliunits,
            new_price_milliunits, currency, number)
        SELECT i.id, bucket_of(i.id), i.sku, i.day, i.old_price, i.new_price, i.currency, v_number
        FROM unnest(p_ids, p_skus, p_days, p_old_prices, p_new_prices, p_currencies)
            AS i (id, sku, day, old_price, new_price, currency);
    PERFORM append_audit(session_user::text, p_at, 'import_history', 'history:' || v_number,
        json_build_object('file', p_file, 'content_sha256', p_content_sha256, 'increases', cardinality(p_ids)));
    RETURN v_number;
END
$$;

-- Who may approve what ------------------------------------------------------------------------------------------------

-- Without any limit of approvers, any member of repricer_pricing approves but the submitter, alone up to the default
-- limits. Limits hold at once.
CREATE TABLE repricer.approval_limits (
    -- A database user, or a role whose members share the limits.
    approver text NOT NULL,
    -- Null is no limit.
    max_rows bigint,
    -- The limit of one price, up or down, in hundredths of a percent.
    max_basis_points bigint,
    -- By currency, in milliunits: how much all prices together move in a month. Null: no limit. Where there is one,
    -- a currency that it leaves out may not move at all.
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

-- What needs two approvers, whoever they are, unless an approver has a percentage of their own. It ships with the
-- limits of the insert below; the owner sets others.
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
-- A price that doubles may go with one approval, and one that falls to a third.
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

-- Sets the limits of one approver anew. Only the owner may: nobody else has the right to execute it.
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

-- Takes an approver out of the policy. Once the last one is gone there is no policy: any other member approves.
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

-- Sets anew what needs two approvers, whoever they are; null is no limit. Only the owner may.
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

-- How large a batch is: by the facts of its subscriptions, not by what its submitter stored. Money that moves up and
-- money that moves down are summed apart, so that a decrease hides no increase. An undo is measured against the price
-- that it takes back: measured against the price that is paid, it would come to nothing. In PL/pgSQL, because Citus takes no
-- function of plain SQL whose parameters meet spread tables.
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
        -- A path and not a search among the elements: Citus spreads no LIMIT of a function.
        jsonb_path_query_first(s.items, '$[*] ? (@.sku == $sku)', jsonb_build_object('sku', c.sku)) AS item
    FROM price_changes c
    LEFT JOIN subscriptions s ON s.original_transaction_id = c.original_transaction_id AND s.bucket = c.bucket
    WHERE c.batch_id = p_batch_id AND NOT c.is_held_out
), facts AS MATERIALIZED (
    -- Else a price is found anew for each measure that it is part of.
    SELECT coalesce(c.known_currency, c.currency) AS currency,
        -- The stored price of an undo can be trusted: only undo_batch writes it.
        CASE WHEN c.undoes_change_id IS NOT NULL THEN c.current_price_milliunits
            -- A price of the running period is none of a period of another length.
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
        -- A price that rises from 0 rises by more than any percentage.
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

-- What of a batch exceeds a limit, in words; empty where nothing does.
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

-- What of a batch exceeds the default limits, in words; empty where nothing does.
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

-- What of these measures is beyond an approver's limits, or their roles' where none names them: of several limits the
-- one that is exceeded least. Empty: nothing; NULL: no limit names them. The default limits ask for a second approver,
-- whoever it is.
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
        FROM approval_limits l
        WHERE l.approver = p_approver
            OR NOT EXISTS (SELECT FROM approval_limits o WHERE o.approver = p_approver)
                AND EXISTS (SELECT FROM pg_roles r JOIN pg_roles u ON u.rolname = p_approver
                    WHERE r.rolname = l.approver AND pg_has_role(u.oid, r.oid, 'MEMBER'))) each
    ORDER BY cardinality(each.exceeded), each.approver LIMIT 1
$$;

-- Whether session_user may approve the batch alone: null. Else what a second approver is needed for. Refuses a person
-- whom no limit names. Two approvals that suffice in one order suffice in the other: where the one who may approve as
-- the second did so before the first, the first approval that follows completes both.
CREATE FUNCTION repricer.approval_shortfall(p_batch_id uuid) RETURNS text[]
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp AS $$
DECLARE
    v_measure record;
    v_exceeded text[];
    v_has_first boolean := EXISTS (SELECT FROM first_approvals WHERE batch_id = p_batch_id);
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
    -- Somebody who may approve it as the second has done so: this is the first approval that was missing.
    IF v_exceeded = '{}' OR EXISTS (
        SELECT FROM first_approvals f
        WHERE f.batch_id = p_batch_id
            AND approver_shortfall(f.approver, true, v_measure.rows, v_measure.basis_points,
                v_measure.monthly_milliunits) = '{}')
    THEN
        RETURN NULL;
    END IF;
    RETURN v_exceeded;
END
$$;

-- What the policy says of a batch that awaits approval: for each whom a limit names (null: for anybody, where none does)
-- what a second approver is needed for.
CREATE FUNCTION repricer.approval_outlook(p_batch_id uuid) RETURNS TABLE (approver text, exceeded text[])
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_measure record;
    v_has_first boolean := EXISTS (SELECT FROM first_approvals f WHERE f.batch_id = p_batch_id);
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

-- Records the dependents that another subscription of the customer carries: by what the row says, as SUBSCRIPTION/SKU,
-- or by the facts. A submission does, so that plans see them; the approval does anew, by the newest facts.
CREATE FUNCTION repricer.record_dependent_claims(p_batch_id uuid) RETURNS void
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM price_changes WHERE batch_id = p_batch_id AND dependent_skus <> '{}') THEN
        RETURN;
    END IF;
    -- One batch at a time records claims: two side by side would not see each other's. This holds up no other writer.
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

-- The first line of a batch that names an item of another subscription wrongly, in words: shared or chained over
-- open changes; null: none.
CREATE FUNCTION repricer.cross_subscription_fault(p_batch_id uuid) RETURNS text
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp AS $$
BEGIN
IF NOT EXISTS (
    SELECT 1 FROM price_changes c
    WHERE c.batch_id = p_batch_id AND c.state = 'awaiting_approval' AND c.dependent_skus <> '{}')
THEN
    RETURN NULL;
END IF;
-- Claims, the changes that make them and the parts of the carriers are in several buckets: each is read by itself.
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

-- When a wave is released by itself, where the one before it was released at p_at; null where a person releases it.
CREATE FUNCTION repricer.wave_release_at(p_wave jsonb, p_at timestamptz) RETURNS timestamptz
    LANGUAGE sql STABLE SET search_path = repricer, pg_temp AS $$
SELECT CASE p_wave ->> 'release'
    WHEN 'approval' THEN p_at
    WHEN 'at' THEN (p_wave ->> 'at')::timestamptz
    WHEN 'after' THEN p_at + (p_wave ->> 'after_ms')::bigint * interval '1 millisecond'
    END
$$;

-- Releases the waves of a batch up to p_through. The caller holds the batch's row.
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
            next_release_at = wave_release_at(v_waves -> p_through, p_at)
        WHERE batch_id = p_batch.batch_id;
    PERFORM append_audit(p_actor, p_at, 'release', 'batch:' || p_batch.batch_id,
        json_build_object('wave', p_through, 'of', jsonb_array_length(v_waves),
            'label', v_waves -> (p_through - 1) ->> 'label'));
END
$$;

-- Approves a batch, queues its changes and ends those that are held out. Returns the number of the others, or null
-- where the approval is recorded as the first and a second approver is needed. Every change passes this gate, so it
-- asks again what the submission asked: that all rows are there, each in a wave, and that each part which a change
-- gives to its SKUs is recorded.
CREATE FUNCTION repricer.approve_batch(p_batch_id uuid, p_at timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus asks each node for session_user, where another user works for the one who decides.
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
    -- Nothing is approved before it was submitted, not even by the clock of a rehearsal, which is the caller's.
    p_at := greatest(p_at, v_batch.submitted_at);
    IF v_batch.state <> 'awaiting_approval' THEN
        RAISE EXCEPTION 'batch % is %, not awaiting approval', p_batch_id, v_batch.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF v_batch.submitted_by = session_user THEN
        RAISE EXCEPTION 'user % submitted this batch; another user must approve it', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
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
    -- Limits change rarely. A change of limits waits until this approval was judged by the limits that it saw.
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
        FROM first_approvals WHERE batch_id = p_batch_id;
    PERFORM keep_batch(p_batch_id);
    -- Citus computes nothing of a column where each node has the row.
    v_release_at := wave_release_at(v_batch.waves -> 0, p_at);
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
    -- A change that ended while it waited stays ended: an older change of its item turned out to be open.
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

-- Locks these subscriptions, in the order of their buckets and ids, as everybody does who locks several. A statement for
-- each bucket, because Citus takes locks of one shard at a time.
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

-- Withdraws what has not been sent; returns the number of changes withdrawn. The submitter may, too.
CREATE FUNCTION repricer.withdraw_batch(p_batch_id uuid, p_at timestamptz, p_new_state text, p_reason text)
    RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus refuses a CASE with session_user in an UPDATE.
    v_by text := session_user;
    v_state text;
    v_rows bigint;
    v_ids text[];
    v_changes uuid[];
    v_recorded_at timestamptz;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT state INTO v_state FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
    END IF;
    IF p_new_state NOT IN ('rejected', 'aborted') THEN
        RAISE EXCEPTION 'a batch is rejected or aborted, not %', p_new_state
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF v_state IN ('rejected', 'aborted') OR (p_new_state = 'rejected' AND v_state <> 'awaiting_approval')
    THEN
        RAISE EXCEPTION 'batch % is % already', p_batch_id, v_state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- Every writer of a subscription's changes locks the subscription first; so does this one. Those with a
    -- call in flight too: its settlement then either queues the change before it is withdrawn here, or finds
    -- the batch withdrawn.
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

-- Waves and pauses ----------------------------------------------------------------------------------------------------

-- A person releases the next wave, or all up to p_wave. Returns the last one released.
CREATE FUNCTION repricer.release_wave(p_batch_id uuid, p_wave integer, p_at timestamptz) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    v_through integer;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
    END IF;
    IF v_batch.state <> 'approved' THEN
        RAISE EXCEPTION 'batch % is %; waves of an approved batch are released', p_batch_id, v_batch.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    v_through := coalesce(p_wave, v_batch.released_wave + 1);
    IF v_through <= v_batch.released_wave OR v_through > jsonb_array_length(v_batch.waves) THEN
        RAISE EXCEPTION 'batch % has % waves, % of them released', p_batch_id,
            jsonb_array_length(v_batch.waves), v_batch.released_wave
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM release_waves_through(v_batch, v_through, session_user::text, p_at);
    RETURN v_through;
END
$$;

-- The service releases the waves whose time has come; a paused batch waits. Returns what it released.
CREATE FUNCTION repricer.release_due_waves(p_at timestamptz)
    RETURNS TABLE (batch_id uuid, name text, wave integer, label text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    -- Not a replica's clock, which may be ahead, and nobody's wish: a wave goes at its approved time.
    v_at timestamptz := decision_instant(p_at);
BEGIN
    FOR v_batch IN
        SELECT b.* FROM batches b
        WHERE b.next_release_at <= v_at AND b.state = 'approved'
            AND (NOT b.is_paused OR b.probe_at IS NOT NULL)
        ORDER BY b.next_release_at FOR UPDATE SKIP LOCKED
    LOOP
        PERFORM release_waves_through(v_batch, v_batch.released_wave + 1, session_user::text, v_at);
        batch_id := v_batch.batch_id;
        name := v_batch.name;
        wave := v_batch.released_wave + 1;
        label := v_batch.waves -> v_batch.released_wave::integer ->> 'label';
        RETURN NEXT;
    END LOOP;
END
$$;

-- Why what a person has paused already stands still, once p_by pauses it again: a reason is not lost, but for a new one
-- of the same person, and nobody's reason is told as somebody else's.
CREATE FUNCTION repricer.reason_of_pause(p_paused_by text, p_paused_reason text, p_by text, p_reason text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT CASE WHEN p_reason IS NULL THEN p_paused_reason
    WHEN p_by = p_paused_by THEN p_reason
    ELSE coalesce(p_paused_reason, p_by || ': ' || p_reason) END
$$;

-- Pauses what is paused already, everything or a batch: who paused it first, when and why stay. A halted batch keeps the
-- halt, and the pause beside it, which ends its probes. Returns whether anything was changed.
CREATE FUNCTION repricer.pause_again(p_batch_id uuid, p_at timestamptz, p_by text, p_reason text) RETURNS boolean
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    v_all service_controls;
    v_reason text;
BEGIN
    IF p_batch_id IS NULL THEN
        SELECT * INTO v_all FROM service_controls;
        v_reason := reason_of_pause(v_all.paused_by, v_all.paused_reason, p_by, p_reason);
        UPDATE service_controls SET paused_reason = v_reason;
        RETURN v_reason IS DISTINCT FROM v_all.paused_reason;
    END IF;
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id;
    IF v_batch.halted_by IS NULL THEN
        v_reason := reason_of_pause(v_batch.paused_by, v_batch.paused_reason, p_by, p_reason);
        IF v_reason IS DISTINCT FROM v_batch.paused_reason THEN
            PERFORM keep_batch(p_batch_id);
            UPDATE batches SET paused_reason = v_reason WHERE batch_id = p_batch_id;
        END IF;
        RETURN v_reason IS DISTINCT FROM v_batch.paused_reason;
    END IF;
    v_reason := CASE WHEN v_batch.also_paused_by IS NULL THEN p_reason
        ELSE reason_of_pause(v_batch.also_paused_by, v_batch.also_paused_reason, p_by, p_reason) END;
    UPDATE batches SET also_paused_by = coalesce(also_paused_by, p_by),
            also_paused_at = coalesce(also_paused_at, p_at), also_paused_reason = v_reason, probe_at = NULL
        WHERE batch_id = p_batch_id;
    RETURN v_batch.also_paused_by IS NULL OR v_reason IS DISTINCT FROM v_batch.also_paused_reason;
END
$$;

-- Pauses or resumes a batch; without one, everything. Returns whether a pause changed anything. A batch that a guard
-- halted, or that a person paused while it was halted, resumes here and nowhere else: by a person. One that a code
-- halted goes on with an answered probe, too.
CREATE FUNCTION repricer.set_pause(p_batch_id uuid, p_at timestamptz, p_is_paused boolean, p_reason text)
    RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    v_is_new boolean := true;
    -- Citus refuses a CASE with session_user in an UPDATE.
    v_by text := CASE WHEN p_is_paused THEN session_user END;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    IF p_batch_id IS NULL THEN
        PERFORM FROM service_controls FOR UPDATE;
        IF p_is_paused AND (SELECT is_paused FROM service_controls) THEN
            v_is_new := pause_again(NULL, p_at, v_by, p_reason);
        ELSE
            UPDATE service_controls SET is_paused = p_is_paused,
                paused_by = v_by,
                paused_at = CASE WHEN p_is_paused THEN p_at END,
                paused_reason = CASE WHEN p_is_paused THEN p_reason END;
        END IF;
    ELSE
        SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
        END IF;
        IF v_batch.state NOT IN ('awaiting_approval', 'approved') THEN
            RAISE EXCEPTION 'batch % is %, nothing of it is sent any more', p_batch_id, v_batch.state
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        IF p_is_paused AND v_batch.is_paused THEN
            v_is_new := pause_again(p_batch_id, p_at, v_by, p_reason);
        ELSIF p_is_paused THEN
            PERFORM keep_batch(p_batch_id);
            UPDATE batches SET is_paused = true, paused_by = v_by, paused_at = p_at, paused_reason = p_reason
                WHERE batch_id = p_batch_id;
        ELSE
            PERFORM resume_batch(p_batch_id, p_at);
        END IF;
    END IF;
    PERFORM append_audit(session_user::text, p_at, CASE WHEN p_is_paused THEN 'pause' ELSE 'resume' END,
        coalesce('batch:' || p_batch_id, 'everything'),
        json_build_object('reason', p_reason, 'halted_by', v_batch.halted_by, 'halted_storefronts',
            (SELECT string_agg(s, ',' ORDER BY s) FROM jsonb_object_keys(v_batch.halted_storefronts) s)));
    RETURN v_is_new;
END
$$;

-- Ends a batch's pause and halts. The caller holds its row.
CREATE FUNCTION repricer.resume_batch(p_batch_id uuid, p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
BEGIN
    PERFORM keep_batch(p_batch_id);
    UPDATE batches SET is_paused = false, paused_by = NULL, paused_at = NULL, paused_reason = NULL,
            also_paused_by = NULL, also_paused_at = NULL, also_paused_reason = NULL,
            halted_by = NULL,
            probe_at = NULL,
            probe_answer = NULL,
            guards_count_from = CASE WHEN halted_by IS NULL THEN guards_count_from ELSE p_at END,
            is_sampled = is_sampled AND halted_by IS NULL,
            halted_storefronts = '{}',
            is_parking = false,
            guard_reading = CASE WHEN halted_by IS NULL THEN guard_reading END
        WHERE batch_id = p_batch_id;
    UPDATE put_backs SET ended_until = coalesce(ended_until, p_at) WHERE batch_id = p_batch_id;
    -- Parked rows are tried at once: what they were refused for may be mended.
    UPDATE price_changes SET is_held = false,
            next_attempt_at = CASE WHEN parked_reason IS NULL THEN next_attempt_at END
        WHERE batch_id = p_batch_id AND stage = 'queued' AND (is_held OR parked_reason IS NOT NULL);
END
$$;

-- Undo ----------------------------------------------------------------------------------------------------------------

-- A change that Apple has scheduled and nobody was told of can be taken back: by an inverse change, in a batch of its
-- own that another person approves. The undone change ends once Apple shows that its price is no longer scheduled.

-- Why a change cannot be undone; null where it can. p_told_at is when Apple tells the customer, or stops taking
-- decreases.
CREATE FUNCTION repricer.undo_obstacle(p_state text, p_is_undo boolean, p_was_told boolean,
    p_told_at timestamptz, p_has_undo boolean, p_at timestamptz) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT CASE
    WHEN p_is_undo THEN 'is_an_undo'
    WHEN p_state IN ('awaiting_approval', 'queued') THEN 'not_sent'
    WHEN p_state IN ('sending', 'unknown') THEN 'in_flight'
    WHEN p_state = 'effective' THEN 'already_effective'
    WHEN p_state IN ('pending_consent', 'accepted') THEN 'already_communicated'
    WHEN p_state <> 'scheduled' THEN 'has_ended'
    WHEN p_was_told OR p_told_at <= p_at THEN 'already_communicated'
    WHEN p_has_undo THEN 'undo_under_way'
END
$$;

-- The changes of a batch, or of one subscription or item of it, each with the obstacle to its undo, if any.
CREATE FUNCTION repricer.undo_candidates(p_batch_id uuid, p_subscription text, p_sku text, p_at timestamptz)
    RETURNS TABLE (original_transaction_id text, change_id uuid, line bigint, sku text, state text, reason text,
        told_at timestamptz, obstacle text)
    LANGUAGE sql STABLE AS $$
SELECT c.original_transaction_id, c.change_id, c.line, coalesce(c.current_sku, c.sku), c.state, c.reason, t.told_at,
    repricer.undo_obstacle(c.state, c.undoes_change_id IS NOT NULL,
        c.consent_asked_at IS NOT NULL OR c.accepted_at IS NOT NULL, t.told_at, EXISTS (
            SELECT FROM repricer.price_changes u
            WHERE u.original_transaction_id = c.original_transaction_id AND u.undoes_change_id = c.change_id
                AND u.stage IN ('awaiting_approval', 'queued', 'unknown')), p_at)
FROM repricer.price_changes c, LATERAL (
    -- When the renewal moves, the lead before it stays the same.
    SELECT coalesce(c.forecast_notice_at + (c.due_effective_at - c.forecast_effective_at), c.send_by) AS told_at) t
WHERE c.batch_id = p_batch_id AND (p_subscription IS NULL OR c.original_transaction_id = p_subscription)
    AND (p_sku IS NULL OR coalesce(c.current_sku, c.sku) = p_sku)
$$;

-- Stores the inverse of what can be undone as a batch that awaits approval; returns its rows, and stores nothing where
-- there is none.
CREATE FUNCTION repricer.undo_batch(
    p_batch_id uuid, p_undo_id uuid, p_name text, p_subscription text, p_sku text, p_at timestamptz)
    RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus asks each node for session_user, where another user works for the one who decides.
    v_by text := session_user;
    v_batch batches;
    v_rows bigint;
    v_digest text;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
    END IF;
    INSERT INTO batches (batch_id, name, state, content_sha256, plan_hash, planned_as_of, row_count, submitted_at,
            grouping, undoes_batch_id, guards, submitted_by)
        -- The guard that a submitted batch has by default.
        VALUES (p_undo_id, p_name, 'submitting', '', '', p_at, 0, p_at, v_batch.grouping, p_batch_id,
            '[{"guard":"errors","over":500,"least":50}]', v_by);
    INSERT INTO price_changes (original_transaction_id, bucket, change_id, batch_id, line, sku, direction, currency,
            storefront, period, current_price_milliunits, new_price_milliunits, forecast_consent,
            forecast_renewal_at, forecast_effective_at, send_by, due_effective_at, state_since,
            undoes_change_id, submitted_by, forecast_seats)
        SELECT c.original_transaction_id, c.bucket, gen_random_uuid(), p_undo_id, c.line, u.sku,
            CASE c.direction WHEN 'increase' THEN 'decrease' ELSE 'increase' END, c.currency, c.storefront,
            c.period, c.new_price_milliunits, c.current_price_milliunits, 'none', c.due_effective_at,
            c.due_effective_at, u.told_at, c.due_effective_at, p_at, c.change_id, v_by, c.forecast_seats
        FROM undo_candidates(p_batch_id, p_subscription, p_sku, p_at) u
        JOIN price_changes c ON c.original_transaction_id = u.original_transaction_id
            AND c.change_id = u.change_id
        WHERE u.obstacle IS NULL;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows = 0 THEN
        DELETE FROM batches WHERE batch_id = p_undo_id;
        RETURN 0;
    END IF;
    -- The digest holds the id of the undo, so that an undo that came to nothing may be asked for again.
    SELECT encode(sha256(convert_to(p_undo_id || ':' || string_agg(undoes_change_id::text, ','
                ORDER BY undoes_change_id), 'UTF8')), 'hex') INTO v_digest
        FROM price_changes WHERE batch_id = p_undo_id;
    UPDATE batches SET content_sha256 = v_digest WHERE batch_id = p_undo_id;
    PERFORM finish_submission(p_undo_id, v_digest, v_rows, 0);
    RETURN v_rows;
END
$$;

-- Where the service stops by itself -----------------------------------------------------------------------------------

-- A guard rail, or refusals that mean the call or the key and not the row, stop a batch or everything without a
-- person. Only a person resumes what a guard halted. What a code halted also goes on once a probe is answered.

-- What ended by refusals before these turned out to be everybody's ------------------------------------------------------

CREATE FUNCTION repricer.note_put_back(p_kind text, p_batch_id uuid, p_code text, p_from timestamptz,
    p_is_of_guard boolean DEFAULT false) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = repricer, pg_temp
BEGIN ATOMIC
    INSERT INTO repricer.put_backs (kind, batch_id, code, ended_from, is_of_guard)
        SELECT p_kind, p_batch_id, p_code, p_from, p_is_of_guard WHERE p_kind IS NOT NULL AND p_from IS NOT NULL;
END;

-- Changes of approved batches go back to their queues. A change whose item has another open change by now stays as it
-- ended. One that was put back before, and ended by the same code once others had succeeded, had its second chance. Where
-- others were never called, what is put back waits for p_wait, so that it does not lead them again. Where a guard halted, only
-- its own code goes back, and each row once, because a person has let the batch go on meanwhile.
CREATE FUNCTION repricer.put_back_changes(p_halt repricer.put_backs, p_at timestamptz, p_now timestamptz, p_limit integer,
    p_wait interval) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_recovered text[] := ARRAY(SELECT 'halt ' || h.put_back_id FROM put_backs h
        WHERE h.kind = 'price_change' AND h.code = p_halt.code AND h.is_recovered);
    v_soon timestamptz := p_now;
    -- Citus asks each node for session_user, where another user works for the one who decides.
    v_by text := session_user;
    v_ids text[];
    v_changes uuid[];
    v_recorded_at timestamptz;
    v_moved bigint;
    v_rows bigint := 0;
    v_bucket smallint;
    v_found text[];
BEGIN
    -- Bucket by bucket, because a statement that locks names one. What is found here is asked again under the lock, and by
    -- its key, so that the ended changes of a batch are gone through once.
    FOR v_bucket, v_found IN
        SELECT c.bucket, array_agg(DISTINCT c.original_transaction_id)
        FROM price_changes c JOIN batches b ON b.batch_id = c.batch_id
        WHERE c.stage = 'rejected' AND b.state = 'approved' AND (p_halt.batch_id IS NULL OR b.batch_id = p_halt.batch_id)
            AND c.reason ~ '^[0-9]{3,} ' AND c.ended_at <= coalesce(p_halt.ended_until, 'infinity')
            AND c.ended_at >= p_halt.ended_from - interval '1 minute'
        GROUP BY c.bucket ORDER BY c.bucket
    LOOP
        IF v_soon = p_now AND EXISTS (
            SELECT 1 FROM price_changes c
            WHERE (p_halt.batch_id IS NULL OR c.batch_id = p_halt.batch_id) AND c.stage = 'queued' AND c.state = 'queued'
                AND c.is_ready AND NOT c.is_held AND c.next_attempt_at IS NULL)
        THEN
            v_soon := p_now + p_wait;
        END IF;
        SELECT array_agg(met.original_transaction_id), array_agg(met.change_id) INTO v_ids, v_changes FROM (
            SELECT c.original_transaction_id, c.change_id
            FROM batches b
            JOIN price_changes c ON c.batch_id = b.batch_id AND c.stage = 'rejected' AND c.bucket = v_bucket
            JOIN subscriptions s ON s.original_transaction_id = c.original_transaction_id AND s.bucket = v_bucket
            WHERE b.state = 'approved' AND (p_halt.batch_id IS NULL OR b.batch_id = p_halt.batch_id)
                AND c.original_transaction_id = ANY (v_found)
                AND c.reason ~ '^[0-9]{3,} ' AND c.ended_at <= coalesce(p_halt.ended_until, 'infinity')
                AND (NOT p_halt.is_of_guard OR starts_with(c.reason, p_halt.code || ' ') AND NOT EXISTS (
                    SELECT FROM price_change_history h
                    WHERE h.original_transaction_id = c.original_transaction_id AND h.bucket = v_bucket
                        AND h.change_id = c.change_id AND starts_with(h.evidence_id, 'halt ')
                        AND h.reason LIKE '%: ' || p_halt.code || ' %'))
                AND (c.ended_at >= p_halt.ended_from OR c.ended_at >= p_halt.ended_from - interval '1 minute'
                    AND starts_with(c.reason, p_halt.code || ' ')
                    AND NOT EXISTS (
                        SELECT FROM price_change_history h
                        WHERE h.original_transaction_id = c.original_transaction_id AND h.bucket = v_bucket
                            AND h.change_id = c.change_id AND h.evidence_id = ANY (v_recovered)))
                AND NOT EXISTS (
                    SELECT FROM price_changes o
                    WHERE o.original_transaction_id = c.original_transaction_id AND o.bucket = v_bucket
                        AND o.change_id <> c.change_id AND o.ended_at IS NULL
                        AND (coalesce(o.current_sku, o.sku) = coalesce(c.current_sku, c.sku) AND c.undoes_change_id IS NULL
                                AND o.undoes_change_id IS NULL
                            OR o.undoes_change_id = c.undoes_change_id))
                AND NOT EXISTS (
                    SELECT FROM dependency_roles r
                    WHERE r.original_transaction_id = c.original_transaction_id AND r.bucket = v_bucket
                        AND c.dependent_skus <> '{}' AND r.sku = ANY (
                            coalesce(c.current_dependent_skus, c.dependent_skus) || coalesce(c.current_sku, c.sku)))
            ORDER BY c.original_transaction_id, c.change_id LIMIT p_limit - v_rows
            -- Whoever has locked the subscription is writing it just now; the next check finds it free.
            FOR UPDATE OF s, c SKIP LOCKED
        ) met;
        CONTINUE WHEN v_ids IS NULL;
        v_recorded_at := keep_changes(v_ids, v_changes);
        WITH moved AS (
            UPDATE price_changes c SET state = 'queued', ended_at = NULL, refused_at = coalesce(c.refused_at, c.sent_at), sent_at = NULL,
                state_since = p_at,
                -- They are spread over time, so that others succeed between them and those that are refused rightly form no streak.
                next_attempt_at = CASE WHEN v_soon > p_now AND c.send_by > p_at + interval '10 minutes' + (v_rows + met.place) * interval '1 second'
                    THEN v_soon + (v_rows + met.place) * p_wait / 120 ELSE p_now END,
                recorded_at = v_recorded_at
            FROM unnest(v_ids, v_changes) WITH ORDINALITY AS met (id, change_id, place)
            WHERE c.original_transaction_id = met.id AND c.change_id = met.change_id
                AND c.bucket = v_bucket AND c.state = 'rejected'
            RETURNING c.*
        ), roles AS (
            INSERT INTO dependency_roles (original_transaction_id, bucket, sku, role, change_id)
            SELECT m.original_transaction_id, m.bucket, part.sku, part.role, m.change_id
            FROM moved m CROSS JOIN LATERAL (
                SELECT coalesce(m.current_sku, m.sku), 'parent'
                UNION ALL SELECT unnest(coalesce(m.current_dependent_skus, m.dependent_skus)), 'dependent'
            ) AS part (sku, role)
            WHERE m.dependent_skus <> '{}'
            ON CONFLICT DO NOTHING
        ), told AS (
            INSERT INTO price_change_history
                (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id, reason, actor)
            SELECT original_transaction_id, bucket, change_id, p_at, state, 'judgement', 'halt ' || p_halt.put_back_id,
                'put back, others were refused alike: ' || reason, v_by
            FROM moved ON CONFLICT DO NOTHING
        )
        SELECT count(*) INTO v_moved FROM moved;
        v_rows := v_rows + v_moved;
        EXIT WHEN v_rows >= p_limit;
    END LOOP;
    RETURN v_rows;
END
$$;

-- Bucket by bucket, as put_back_changes does. Under the lock it is asked again whether what was found is still refused.
CREATE FUNCTION repricer.put_back_extensions(p_halt repricer.put_backs, p_now timestamptz, p_limit integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_bucket smallint;
    v_found uuid[];
    v_ids text[];
    v_extensions uuid[];
    v_moved bigint;
    v_rows bigint := 0;
BEGIN
    FOR v_bucket, v_found IN
        SELECT met.bucket, array_agg(met.extension_id) FROM (
            SELECT DISTINCT ON (e.bucket, e.original_transaction_id) e.bucket, e.extension_id
            FROM extension_requests e
            WHERE e.state = 'refused' AND e.settled_by = 'answer'
                AND e.settled_at <= coalesce(p_halt.ended_until, 'infinity')
                AND e.settled_at >= p_halt.ended_from - interval '1 minute'
                AND NOT EXISTS (SELECT FROM extension_requests o
                    WHERE o.original_transaction_id = e.original_transaction_id AND o.bucket = e.bucket
                        AND o.state IN ('queued', 'sending', 'unknown'))
            ORDER BY e.bucket, e.original_transaction_id, e.settled_at DESC) met
        GROUP BY met.bucket ORDER BY met.bucket
    LOOP
        SELECT array_agg(held.original_transaction_id), array_agg(held.extension_id) INTO v_ids, v_extensions FROM (
            SELECT e.original_transaction_id, e.extension_id
            FROM extension_requests e
            JOIN subscriptions s ON s.original_transaction_id = e.original_transaction_id AND s.bucket = v_bucket
            WHERE e.extension_id = ANY (v_found) AND e.bucket = v_bucket AND e.state = 'refused'
                AND e.settled_by = 'answer' AND e.settled_at <= coalesce(p_halt.ended_until, 'infinity')
                AND e.settled_at >= p_halt.ended_from - interval '1 minute'
            ORDER BY e.original_transaction_id LIMIT p_limit - v_rows FOR UPDATE OF s, e SKIP LOCKED
        ) held;
        CONTINUE WHEN v_ids IS NULL;
        UPDATE extension_requests e SET state = 'queued', call_id = NULL, code = NULL, settled_at = NULL,
            settled_by = NULL, detail = 'put back, others were refused alike: ' || coalesce(e.code, e.detail),
            effective_at = NULL, called_at = CASE WHEN e.is_doubtful THEN e.called_at END,
            renewal_before = CASE WHEN e.is_doubtful THEN e.renewal_before END, next_attempt_at = p_now
        FROM unnest(v_ids, v_extensions) AS held (id, extension_id)
        WHERE e.original_transaction_id = held.id AND e.extension_id = held.extension_id AND e.bucket = v_bucket
            AND e.state = 'refused'
            -- One may have been asked for before the lock was taken.
            AND NOT EXISTS (SELECT FROM extension_requests o
                WHERE o.original_transaction_id = e.original_transaction_id AND o.bucket = v_bucket
                    AND o.state IN ('queued', 'sending', 'unknown'));
        GET DIAGNOSTICS v_moved = ROW_COUNT;
        v_rows := v_rows + v_moved;
        EXIT WHEN v_rows >= p_limit;
    END LOOP;
    RETURN v_rows;
END
$$;

-- Puts back the cancellations whose call alone was refused, bucket by bucket: a status that stays unreadable says
-- something of its subscription.
CREATE FUNCTION repricer.put_back_cancellations(p_halt repricer.put_backs, p_now timestamptz, p_limit integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    c_refused CONSTANT text := 'Cancel a Subscription was refused with ';
    v_bucket smallint;
    v_found text[];
    v_ids text[];
    v_changes uuid[];
    v_skus text[];
    v_at timestamptz;
    v_moved bigint;
    v_rows bigint := 0;
BEGIN
    FOR v_bucket, v_found IN
        SELECT d.bucket, array_agg(DISTINCT d.original_transaction_id) FROM dependent_cancellations d
        WHERE d.state = 'discrepancy' AND starts_with(d.detail, c_refused)
            AND d.settled_at <= coalesce(p_halt.ended_until, 'infinity')
            AND d.settled_at >= p_halt.ended_from - interval '1 minute'
        GROUP BY d.bucket ORDER BY d.bucket
    LOOP
        SELECT array_agg(met.original_transaction_id), array_agg(met.change_id), array_agg(met.dependent_sku)
        INTO v_ids, v_changes, v_skus FROM (
            SELECT d.original_transaction_id, d.change_id, d.dependent_sku
            FROM dependent_cancellations d
            JOIN subscriptions s ON s.original_transaction_id = d.original_transaction_id AND s.bucket = v_bucket
            WHERE d.original_transaction_id = ANY (v_found) AND d.bucket = v_bucket
                AND d.state = 'discrepancy' AND starts_with(d.detail, c_refused)
                AND d.settled_at <= coalesce(p_halt.ended_until, 'infinity')
                AND d.settled_at >= p_halt.ended_from - interval '1 minute'
            ORDER BY d.original_transaction_id LIMIT p_limit - v_rows FOR UPDATE OF s, d SKIP LOCKED
        ) met;
        CONTINUE WHEN v_ids IS NULL;
        v_at := recording_instant();
        INSERT INTO dependent_cancellation_versions
            SELECT d.*, v_at FROM unnest(v_ids, v_changes, v_skus) AS met (id, change_id, sku)
            JOIN dependent_cancellations d ON d.original_transaction_id = met.id AND d.bucket = v_bucket
                AND d.change_id = met.change_id AND d.dependent_sku = met.sku
            ON CONFLICT DO NOTHING;
        UPDATE dependent_cancellations d SET recorded_at = v_at, state = 'requested', settled_at = NULL,
            settled_by_evidence = NULL, cancel_reference_id = NULL, next_check_at = p_now,
            detail = substr(d.detail, length(c_refused) + 1) || ' (put back: others were refused alike)', checks = 0
        FROM unnest(v_ids, v_changes, v_skus) AS met (id, change_id, sku)
        WHERE d.original_transaction_id = met.id AND d.bucket = v_bucket
            AND d.change_id = met.change_id AND d.dependent_sku = met.sku AND d.state = 'discrepancy';
        GET DIAGNOSTICS v_moved = ROW_COUNT;
        v_rows := v_rows + v_moved;
        EXIT WHEN v_rows >= p_limit;
    END LOOP;
    RETURN v_rows;
END
$$;

-- Each is asked by itself whether its call was refused, because the calls are spread and mass extensions are not.
CREATE FUNCTION repricer.put_back_mass_extensions(p_halt repricer.put_backs, p_now timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_extension uuid;
    v_subject text;
    v_moved bigint;
    v_rows bigint := 0;
BEGIN
    FOR v_extension, v_subject IN
        SELECT m.extension_id, 'product:' || m.product_id FROM mass_extensions m
        WHERE m.state = 'refused'
            AND m.extension_id = (SELECT max(n.extension_id::text)::uuid FROM mass_extensions n
                WHERE n.product_id = m.product_id AND n.state = 'refused')
            AND NOT EXISTS (SELECT FROM mass_extensions o WHERE o.product_id = m.product_id
                AND o.state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'running'))
        ORDER BY m.extension_id
    LOOP
        CONTINUE WHEN NOT EXISTS (
            SELECT FROM store_calls r
            WHERE r.subject = v_subject AND r.bucket = bucket_of(v_subject)
                AND v_extension = ANY (r.carries) AND r.settled_at >= p_halt.ended_from - interval '1 minute'
                AND r.settled_at <= coalesce(p_halt.ended_until, 'infinity'));
        UPDATE mass_extensions m SET state = 'queued', code = NULL, detail = NULL, called_at = NULL,
            next_attempt_at = p_now
        WHERE m.extension_id = v_extension AND m.state = 'refused'
            -- One may have been submitted since the search began.
            AND NOT EXISTS (SELECT FROM mass_extensions o WHERE o.product_id = m.product_id
                AND o.state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'running'));
        GET DIAGNOSTICS v_moved = ROW_COUNT;
        v_rows := v_rows + v_moved;
    END LOOP;
    RETURN v_rows;
END
$$;

-- Puts back what ended by refusals that everybody met, so many rows a halt at most. Returns what of, and how many.
-- p_at is the business clock, p_now and p_wait real time.
CREATE FUNCTION repricer.put_back_refused(p_at timestamptz, p_now timestamptz, p_limit integer, p_wait interval)
    RETURNS TABLE (kind text, batch_id uuid, code text, rows bigint)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_halt repricer.put_backs;
    v_batch uuid;
BEGIN
    FOR v_halt IN SELECT * FROM put_backs h
        WHERE NOT h.is_done AND (h.next_check_at <= p_now OR h.ended_until IS NOT NULL)
        ORDER BY h.put_back_id FOR UPDATE SKIP LOCKED
    LOOP
        kind := v_halt.kind;
        batch_id := v_halt.batch_id;
        code := v_halt.code;
        rows := CASE kind
            WHEN 'price_change' THEN put_back_changes(v_halt, p_at, p_now, p_limit, p_wait)
            WHEN 'extension' THEN put_back_extensions(v_halt, p_now, p_limit)
            WHEN 'cancel' THEN put_back_cancellations(v_halt, p_now, p_limit)
            ELSE put_back_mass_extensions(v_halt, p_now) END;
        IF rows > 0 THEN
            RETURN NEXT;
        ELSIF v_halt.ended_until IS NOT NULL AND v_halt.checks > 1
            OR EXISTS (SELECT FROM batches b WHERE b.batch_id = v_halt.batch_id AND b.state <> 'approved')
        THEN
            UPDATE put_backs h SET is_done = true WHERE h.put_back_id = v_halt.put_back_id;
        END IF;
        -- It is checked often at first, and later as often as checks of refused calls may end.
        UPDATE put_backs h SET checks = checks + 1,
                next_check_at = p_now + CASE WHEN rows > 0 OR checks < 20 THEN interval '0' ELSE interval '5 seconds' END
            WHERE h.put_back_id = v_halt.put_back_id;
    END LOOP;
    -- A batch with nothing left to call needs no streak any more, and nothing of it has a second chance. Each is asked by
    -- itself: Citus joins no local table.
    FOR v_batch IN SELECT r.batch_id FROM refusal_streaks r WHERE r.batch_id IS NOT NULL
        UNION SELECT h.batch_id FROM put_backs h WHERE h.batch_id IS NOT NULL AND h.kind = 'price_change'
        ORDER BY 1
    LOOP
        IF NOT EXISTS (SELECT 1 FROM price_changes c
            WHERE c.batch_id = v_batch AND c.stage IN ('queued', 'unknown'))
        THEN
            DELETE FROM refusal_streaks r WHERE r.batch_id = v_batch;
            DELETE FROM put_backs h WHERE h.batch_id = v_batch AND h.is_done;
            -- Nor is anything left that could probe whether its halt is over.
            IF EXISTS (SELECT FROM batches b WHERE b.batch_id = v_batch AND b.state = 'approved')
                AND NOT EXISTS (SELECT FROM put_backs h WHERE h.batch_id = v_batch AND NOT h.is_done AND h.checks < 3)
            THEN
                PERFORM recover_batch(v_batch, p_at);
            END IF;
        END IF;
    END LOOP;
    DELETE FROM put_backs h WHERE h.batch_id IS NULL AND h.is_done AND h.kind <> 'price_change';
    IF EXISTS (SELECT FROM put_backs h WHERE h.batch_id IS NULL AND h.is_done AND h.next_check_at <= p_now) THEN
        IF has_changes_to_call() THEN
            UPDATE put_backs h SET next_check_at = p_now + interval '5 seconds' WHERE h.batch_id IS NULL AND h.is_done;
        ELSE
            DELETE FROM put_backs h WHERE h.batch_id IS NULL AND h.is_done;
        END IF;
    END IF;
END
$$;

-- Whether a price change is left to call, or is being called. Each batch is asked by itself: an index has its stages, and a
-- cluster sends one row.
CREATE FUNCTION repricer.has_changes_to_call() RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch uuid;
BEGIN
    FOR v_batch IN SELECT b.batch_id FROM batches b WHERE b.state = 'approved' ORDER BY b.decided_at DESC LOOP
        PERFORM 1 FROM price_changes c WHERE c.batch_id = v_batch AND c.stage IN ('queued', 'unknown') LIMIT 1;
        IF FOUND THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END
$$;

-- Whether anything of the kind is left to call, or is being called.
CREATE FUNCTION repricer.has_work(p_kind text) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM store_calls r WHERE r.kind = p_kind AND r.settled_at IS NULL) THEN
        RETURN true;
    END IF;
    -- One table in each statement.
    IF p_kind = 'price_change' THEN
        RETURN has_changes_to_call();
    ELSIF p_kind = 'extension' THEN
        PERFORM 1 FROM extension_requests e WHERE e.state IN ('queued', 'sending', 'unknown') LIMIT 1;
    ELSIF p_kind = 'cancel' THEN
        PERFORM 1 FROM dependent_cancellations d WHERE d.state = 'requested' AND d.is_cross_subscription LIMIT 1;
    ELSE
        PERFORM 1 FROM mass_extensions m WHERE m.state IN ('queued', 'sending', 'unknown') LIMIT 1;
    END IF;
    RETURN FOUND;
END
$$;

-- Whether none of these kinds has work, nor gets any back: put_back_refused has looked since the latest halt.
CREATE FUNCTION repricer.is_idle(p_kinds text[]) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_kind text;
BEGIN
    FOREACH v_kind IN ARRAY p_kinds LOOP
        IF has_work(v_kind)
            OR EXISTS (SELECT FROM put_backs h WHERE h.kind = v_kind AND NOT h.is_done AND h.checks < 2)
        THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN true;
END
$$;

-- Ends what stands still and nothing is left to ask for: with the last row that could be called, who asks whether calls are
-- answered again is gone too. What comes later is judged anew. Returns what has ended, and what it had stood still for.
CREATE FUNCTION repricer.end_idle_halts(p_at timestamptz) RETURNS TABLE (what text, reason text)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_controls service_controls;
    -- An answered call of any kind shows that our key is good. What else price changes were refused for, they alone show.
    v_asking text[];
    v_kind text;
BEGIN
    SELECT * INTO v_controls FROM service_controls
        WHERE halted_at IS NOT NULL OR halted_kinds <> '{}' OR throttled_kinds <> '{}' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    v_asking := CASE WHEN starts_with(v_controls.halted_reason, '401')
        THEN ARRAY['price_change', 'cancel', 'extension', 'mass_extension'] ELSE ARRAY['price_change'] END;
    IF v_controls.halted_at IS NOT NULL AND is_idle(v_asking) THEN
        what := 'everything';
        reason := v_controls.halted_reason;
        UPDATE service_controls SET halted_at = NULL, halted_reason = NULL, halted_answer = NULL;
        UPDATE put_backs h SET ended_until = coalesce(h.ended_until, p_at) WHERE h.batch_id IS NULL
            AND NOT v_controls.halted_kinds ? h.kind;
        PERFORM append_audit(session_user::text, p_at, 'recover', what,
            json_build_object('halted_for', reason, 'because', 'nothing is left to call'));
        RETURN NEXT;
    END IF;
    FOR v_kind, reason IN SELECT h.key, h.value ->> 'reason' FROM jsonb_each(v_controls.halted_kinds) h LOOP
        CONTINUE WHEN NOT is_idle(ARRAY[v_kind]);
        what := 'calls:' || v_kind;
        UPDATE service_controls SET halted_kinds = halted_kinds - v_kind;
        UPDATE put_backs h SET ended_until = coalesce(h.ended_until, p_at) WHERE h.batch_id IS NULL AND h.kind = v_kind
            AND NOT EXISTS (SELECT FROM service_controls WHERE halted_at IS NOT NULL);
        PERFORM append_audit(session_user::text, p_at, 'recover', what,
            json_build_object('halted_for', reason, 'because', 'nothing is left to call'));
        RETURN NEXT;
    END LOOP;
    FOR v_kind, reason IN SELECT h.key, h.value ->> 'answer' FROM jsonb_each(v_controls.throttled_kinds) h LOOP
        CONTINUE WHEN NOT is_idle(ARRAY[v_kind]);
        what := 'throttle:' || v_kind;
        PERFORM end_throttle(v_kind);
        PERFORM append_audit(session_user::text, p_at, 'recover', what,
            json_build_object('throttled_for', reason, 'because', 'nothing is left to call'));
        RETURN NEXT;
    END LOOP;
END
$$;

-- The service pauses a batch. Returns false where it is paused, or has ended, already. p_from is the first of the
-- refusals that halted it; null where no refusals did. p_code is their code, where a guard halts for them.
CREATE FUNCTION repricer.halt_batch(
    p_batch_id uuid, p_at timestamptz, p_by text, p_reason text, p_details json, p_probe_at timestamptz,
    p_from timestamptz DEFAULT NULL, p_code text DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus asks each node for session_user, where another user works for the one who decides.
    v_by text := session_user;
BEGIN
    PERFORM FROM batches WHERE batch_id = p_batch_id AND state = 'approved' AND NOT is_paused FOR UPDATE;
    IF NOT FOUND THEN
        -- A guard, or a person, may have been faster: what ended by the code that all meet is put back all the same.
        IF (p_probe_at IS NOT NULL OR p_code IS NOT NULL) AND EXISTS (
            SELECT FROM batches WHERE batch_id = p_batch_id AND state = 'approved' AND is_paused)
            AND NOT EXISTS (
                SELECT FROM put_backs WHERE kind = 'price_change' AND batch_id = p_batch_id AND code = coalesce(p_code, p_by)
                    AND ended_until IS NULL)
        THEN
            PERFORM note_put_back('price_change', p_batch_id, coalesce(p_code, p_by), p_from, p_code IS NOT NULL);
        END IF;
        RETURN false;
    END IF;
    PERFORM keep_batch(p_batch_id);
    UPDATE batches SET is_paused = true, halted_by = p_by, probe_at = p_probe_at, probe_answer = NULL, paused_by = v_by, paused_at = p_at,
            paused_reason = p_reason
        WHERE batch_id = p_batch_id;
    PERFORM note_put_back('price_change', p_batch_id, coalesce(p_code, p_by), p_from, p_code IS NOT NULL);
    PERFORM append_audit(session_user::text, p_at, 'halt', 'batch:' || p_batch_id,
        json_build_object('by', p_by, 'reason', p_reason, 'details', p_details));
    RETURN true;
END
$$;

-- Takes the right to make the one probe of a halted batch, until the transaction ends. p_now is real time.
CREATE FUNCTION repricer.lock_probe(p_batch_id uuid, p_now timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    PERFORM FROM batches WHERE batch_id = p_batch_id AND is_paused AND probe_at <= p_now FOR UPDATE SKIP LOCKED;
    RETURN FOUND;
END
$$;

-- Notes that the probe is made, and that the next one is due at p_next (real time).
CREATE FUNCTION repricer.move_probe(p_batch_id uuid, p_next timestamptz) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = repricer, pg_temp
BEGIN ATOMIC
    UPDATE repricer.batches SET probe_at = p_next WHERE batch_id = p_batch_id AND probe_at IS NOT NULL;
END;

-- Notes that a probe of a batch that a code has halted was refused. The batch stays halted, and says what the latest
-- answer was.
CREATE FUNCTION repricer.note_probe_answer(p_batch_id uuid, p_answer text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = repricer, pg_temp
BEGIN ATOMIC
    UPDATE repricer.batches SET probe_answer = p_answer WHERE batch_id = p_batch_id AND probe_at IS NOT NULL;
END;

-- Lets a batch go on that a code has halted, because a probe of it was answered. Returns false where a person has
-- paused it, or it goes on already.
CREATE FUNCTION repricer.recover_batch(p_batch_id uuid, p_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
BEGIN
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id AND is_paused AND probe_at IS NOT NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM keep_batch(p_batch_id);
    UPDATE batches SET is_paused = false, halted_by = NULL, probe_at = NULL, probe_answer = NULL, paused_by = NULL,
            paused_at = NULL, paused_reason = NULL
        WHERE batch_id = p_batch_id;
    UPDATE put_backs SET ended_until = coalesce(ended_until, p_at), is_recovered = true WHERE batch_id = p_batch_id;
    PERFORM append_audit(session_user::text, p_at, 'recover', 'batch:' || p_batch_id,
        json_build_object('halted_for', v_batch.paused_reason));
    RETURN true;
END
$$;

-- The service halts a storefront of a batch. Returns false where it is halted, or the batch has ended, already.
-- p_probe_at is real time.
CREATE FUNCTION repricer.halt_storefront(
    p_batch_id uuid, p_storefront text, p_at timestamptz, p_by text, p_reason text, p_probe_at timestamptz DEFAULT NULL)
    RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    UPDATE batches SET is_parking = true, halted_storefronts = halted_storefronts || jsonb_build_object(
            p_storefront, jsonb_build_object('by', p_by, 'reason', p_reason, 'at', p_at, 'probe_at', p_probe_at))
        WHERE batch_id = p_batch_id AND state = 'approved' AND NOT halted_storefronts ? p_storefront;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM append_audit(session_user::text, p_at, 'halt', 'batch:' || p_batch_id,
        json_build_object('storefront', p_storefront, 'by', p_by, 'reason', p_reason));
    RETURN true;
END
$$;

-- Takes rows of halted storefronts out of the queues, one batch at a time and so many rows at most; returns how many.
-- They stay out until a probe is answered, or a person resumes the batch, so that they cost the other storefronts nothing.
CREATE FUNCTION repricer.park_halted(p_limit integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    v_rows bigint;
BEGIN
    SELECT * INTO v_batch FROM batches WHERE is_parking ORDER BY batch_id LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    -- A row that somebody has locked is being sent. If it is put back, the claim itself leaves it out.
    WITH taken AS (
        SELECT original_transaction_id, bucket, change_id FROM price_changes
        WHERE batch_id = v_batch.batch_id AND stage = 'queued' AND state = 'queued' AND NOT is_held
            AND v_batch.halted_storefronts ? storefront
            AND change_id::text IS DISTINCT FROM v_batch.halted_storefronts -> storefront ->> 'probe'
        LIMIT p_limit FOR UPDATE SKIP LOCKED
    )
    UPDATE price_changes c SET is_held = true FROM taken t
        WHERE c.original_transaction_id = t.original_transaction_id AND c.change_id = t.change_id
            AND c.bucket = t.bucket;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows < p_limit THEN
        UPDATE batches SET is_parking = false WHERE batch_id = v_batch.batch_id;
    END IF;
    RETURN v_rows;
END
$$;

-- Of each halted storefront one row goes each minute, another one each time, and probes for all; one that got no answer
-- in its minute holds nobody up. Where a probe is applied the storefront goes on. Returns what became of probes. p_at is
-- the business clock, p_now and p_next real time.
CREATE FUNCTION repricer.probe_storefronts(p_at timestamptz, p_now timestamptz, p_next timestamptz)
    RETURNS TABLE (batch_id uuid, storefront text, subscription text, answer text, has_recovered boolean)
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    v_halt jsonb;
    v_probe price_changes;
    v_is_locked boolean;
BEGIN
    FOR v_batch IN SELECT b.* FROM batches b
        WHERE b.state = 'approved' AND NOT b.is_paused AND b.halted_storefronts <> '{}'
        ORDER BY b.batch_id FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        FOR storefront, v_halt IN SELECT * FROM jsonb_each(v_batch.halted_storefronts)
        LOOP
            batch_id := v_batch.batch_id;
            SELECT * INTO v_probe FROM price_changes c
                WHERE c.batch_id = v_batch.batch_id AND c.change_id = (v_halt ->> 'probe')::uuid
                    AND c.original_transaction_id = v_halt ->> 'subscription';
            subscription := v_probe.original_transaction_id;
            answer := v_probe.reason;
            IF v_probe.stage IN ('scheduled', 'pending_consent', 'accepted', 'effective') THEN
                has_recovered := true;
                UPDATE batches b SET halted_storefronts = b.halted_storefronts - storefront WHERE b.batch_id = v_batch.batch_id;
                UPDATE price_changes c SET is_held = false
                    WHERE c.batch_id = v_batch.batch_id AND c.storefront = probe_storefronts.storefront
                        AND c.stage = 'queued' AND c.is_held;
                PERFORM append_audit(session_user::text, p_at, 'recover', 'batch:' || v_batch.batch_id,
                    json_build_object('storefront', storefront, 'halted_for', v_halt ->> 'reason'));
                RETURN NEXT;
            ELSIF (v_probe.state IN ('sending', 'unknown')
                    OR v_probe.state = 'queued' AND v_probe.next_attempt_at IS NULL AND NOT v_probe.is_held)
                AND (v_halt ->> 'probe_at')::timestamptz > p_now
            THEN
                -- It is on its way, or still has a minute to leave.
                CONTINUE;
            ELSIF v_probe.state NOT IN ('sending', 'unknown') THEN
                has_recovered := false;
                UPDATE price_changes c SET is_held = true, next_attempt_at = p_now
                    WHERE c.original_transaction_id = v_probe.original_transaction_id AND c.bucket = v_probe.bucket
                        AND c.change_id = v_probe.change_id AND c.state = 'queued';
                UPDATE batches b SET halted_storefronts = jsonb_set(b.halted_storefronts, ARRAY[storefront],
                        v_halt - 'probe' - 'subscription'
                            || jsonb_strip_nulls(jsonb_build_object('answer', answer || ' for ' || subscription)))
                    WHERE b.batch_id = v_batch.batch_id;
                CONTINUE WHEN answer IS NULL;
                RETURN NEXT;
            ELSIF coalesce((v_halt ->> 'probe_at')::timestamptz, '-infinity') <= p_now THEN
                -- A search over all buckets takes no lock (Citus); what it finds is locked, and asked for again, in its bucket.
                v_is_locked := false;
                FOR v_probe IN SELECT * FROM price_changes c
                    WHERE c.batch_id = v_batch.batch_id AND c.storefront = probe_storefronts.storefront
                        AND c.stage = 'queued' AND c.state = 'queued' AND c.is_held AND c.is_ready
                        AND c.wave <= v_batch.released_wave
                    -- Rows that never probed come first.
                    ORDER BY c.next_attempt_at NULLS FIRST, c.send_by LIMIT 10
                LOOP
                    PERFORM FROM price_changes c
                        WHERE c.original_transaction_id = v_probe.original_transaction_id AND c.bucket = v_probe.bucket
                            AND c.change_id = v_probe.change_id AND c.state = 'queued' AND c.is_held AND c.is_ready
                        FOR UPDATE SKIP LOCKED;
                    v_is_locked := FOUND;
                    EXIT WHEN v_is_locked;
                END LOOP;
                CONTINUE WHEN NOT v_is_locked;
                -- The probe before it got no answer, and its own call waits with its storefront.
                IF subscription IS NOT NULL THEN
                    v_halt := v_halt || jsonb_build_object('answer', 'no answer for ' || subscription);
                END IF;
                UPDATE price_changes c SET is_held = false, next_attempt_at = NULL
                    WHERE c.original_transaction_id = v_probe.original_transaction_id AND c.bucket = v_probe.bucket
                        AND c.change_id = v_probe.change_id;
                UPDATE batches b SET halted_storefronts = jsonb_set(b.halted_storefronts, ARRAY[storefront],
                        v_halt || jsonb_build_object('probe', v_probe.change_id, 'subscription',
                            v_probe.original_transaction_id, 'probe_at', p_next))
                    WHERE b.batch_id = v_batch.batch_id;
            END IF;
        END LOOP;
    END LOOP;
END
$$;

-- Ends a change whose item the App Store shows at another price: nothing of ours can take effect any more, and the item is
-- free. Statements from then on that show its price bring it back.
CREATE FUNCTION repricer.close_change(p_change_id uuid, p_at timestamptz, p_reason text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus asks each node for session_user, where another user works for the one who decides.
    v_by text := session_user;
    v_change price_changes;
    v_subscription subscriptions;
    v_recorded_at timestamptz;
    v_price bigint;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_change FROM price_changes WHERE change_id = p_change_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no change %', p_change_id USING ERRCODE = 'no_data_found';
    END IF;
    SELECT * INTO v_subscription FROM subscriptions
        WHERE original_transaction_id = v_change.original_transaction_id AND bucket = v_change.bucket FOR UPDATE;
    SELECT * INTO v_change FROM price_changes
        WHERE original_transaction_id = v_change.original_transaction_id AND bucket = v_change.bucket
            AND change_id = p_change_id;
    IF v_change.state NOT IN ('scheduled', 'pending_consent', 'accepted') THEN
        RAISE EXCEPTION 'change % is %: only one that the App Store has can be closed', p_change_id, v_change.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF EXISTS (SELECT 1 FROM store_calls WHERE subject = v_change.original_transaction_id
        AND bucket = v_change.bucket AND settled_at IS NULL)
    THEN
        RAISE EXCEPTION 'a call of subscription % has no outcome yet: ours may still take effect',
            v_change.original_transaction_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    SELECT coalesce((i.item #>> '{increase,price}')::bigint, (i.item ->> 'renewalPrice')::bigint) INTO v_price
        FROM jsonb_array_elements(v_subscription.items) AS i (item)
        WHERE i.item ->> 'sku' = coalesce(v_change.current_sku, v_change.sku) AND (i.item ->> 'renews')::boolean;
    IF v_price IS NULL THEN
        RAISE EXCEPTION 'the App Store shows no price at which % renews: the change ends by itself',
            coalesce(v_change.current_sku, v_change.sku) USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF v_price = v_change.new_price_milliunits THEN
        RAISE EXCEPTION 'the App Store shows the price of change %: it may still take effect; undo takes it back',
            p_change_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    v_recorded_at := keep_changes(ARRAY[v_change.original_transaction_id], ARRAY[p_change_id]);
    UPDATE price_changes SET state = 'invalidated', reason = 'closed', ended_at = p_at, state_since = p_at,
            doubtful_since = p_at, recorded_at = v_recorded_at
        WHERE original_transaction_id = v_change.original_transaction_id AND bucket = v_change.bucket
            AND change_id = p_change_id;
    DELETE FROM dependency_roles WHERE original_transaction_id = v_change.original_transaction_id
        AND bucket = v_change.bucket AND change_id = p_change_id;
    INSERT INTO price_change_history
            (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id, reason, actor)
        VALUES (v_change.original_transaction_id, v_change.bucket, p_change_id, p_at, 'invalidated', 'decision',
            v_by, 'closed: ' || p_reason, v_by);
    PERFORM append_audit(session_user::text, p_at, 'close', 'change:' || p_change_id,
        json_build_object('subscription', v_change.original_transaction_id, 'shown_price_milliunits', v_price,
            'reason', p_reason));
    RETURN v_price;
END
$$;

-- The service stops calling, because calls are refused alike. Returns false where it has stopped already. p_kind is
-- the kind of the refused calls, p_from the first of these refusals.
CREATE FUNCTION repricer.halt_service(
    p_at timestamptz, p_reason text, p_kind text DEFAULT NULL, p_from timestamptz DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    -- What price changes are refused for halts them alone; a refused key halts all kinds, also while they stand still.
    UPDATE service_controls SET halted_at = p_at, halted_reason = p_reason
        WHERE halted_at IS NULL OR starts_with(p_reason, '401') AND NOT starts_with(halted_reason, '401');
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM note_put_back(p_kind, NULL, split_part(p_reason, ' ', 1), p_from);
    PERFORM append_audit(session_user::text, p_at, 'halt', 'everything', json_build_object('reason', p_reason));
    RETURN true;
END
$$;

-- No call leaves until what the App Store says since p_since is read. What may have been called since then, by a database
-- that is lost, is followed from then on: a statement that shows its price makes it scheduled. Calls that are open are
-- checked before they are sent once more. Extensions go again under their identifiers. Returns how many changes are followed.
CREATE FUNCTION repricer.begin_catch_up(p_since timestamptz, p_from timestamptz, p_at timestamptz, p_by_person boolean)
    RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_changes bigint;
    v_ids text[];
    v_change_ids uuid[];
    v_recorded_at timestamptz;
    -- Citus refuses a CASE with session_user in an UPDATE.
    v_by text := session_user;
BEGIN
    UPDATE service_controls SET catch_up_since = least(catch_up_since, p_since),
        catch_up_from = greatest(catch_up_from, p_from), catch_up_by = CASE WHEN p_by_person THEN v_by ELSE catch_up_by END,
        database_identity = database_identity();
    -- Every writer of a subscription's changes and calls locks the subscription first, in this order.
    SELECT array_agg(s.original_transaction_id) INTO v_ids FROM subscriptions s
        WHERE EXISTS (SELECT FROM price_changes c
                WHERE c.original_transaction_id = s.original_transaction_id AND c.bucket = s.bucket
                    AND (c.stage IN ('awaiting_approval', 'queued') OR c.ended_at >= p_since))
            OR EXISTS (SELECT FROM store_calls r
                WHERE r.subject = s.original_transaction_id AND r.bucket = s.bucket AND r.settled_at IS NULL)
            OR EXISTS (SELECT FROM extension_requests e
                WHERE e.original_transaction_id = s.original_transaction_id AND e.bucket = s.bucket AND e.state = 'queued');
    PERFORM lock_subscriptions(v_ids);
    SELECT array_agg(c.original_transaction_id), array_agg(c.change_id) INTO v_ids, v_change_ids
        FROM price_changes c JOIN batches b ON b.batch_id = c.batch_id
        -- What is held out is never called, not in the time that is lost either.
        WHERE b.state <> 'rejected' AND NOT c.is_held_out
            AND (c.state IN ('awaiting_approval', 'queued')
                OR c.state IN ('rejected', 'ineligible', 'missed', 'aborted') AND c.ended_at >= p_since)
            AND (c.doubtful_since IS NULL OR c.doubtful_since > p_since);
    v_recorded_at := keep_changes(v_ids, v_change_ids);
    UPDATE price_changes c SET doubtful_since = least(c.doubtful_since, p_since), recorded_at = v_recorded_at
        FROM unnest(v_ids, v_change_ids) AS t (id, change_id)
        WHERE c.original_transaction_id = t.id AND c.change_id = t.change_id AND c.bucket = bucket_of(t.id);
    -- Changes that are followed already count too, so that who recovers once more is told the same as the first time.
    SELECT count(*) INTO v_changes FROM price_changes c JOIN batches b ON b.batch_id = c.batch_id
        WHERE b.state <> 'rejected' AND NOT c.is_held_out AND c.doubtful_since <= p_since
            AND (c.state IN ('awaiting_approval', 'queued')
                OR c.state IN ('rejected', 'ineligible', 'missed', 'aborted') AND c.ended_at >= p_since);
    UPDATE store_calls SET next_step = 'check' WHERE settled_at IS NULL AND next_step = 'send';
    -- An extension that waits here goes under the same identifier, which the App Store answers as it did at first. It is not
    -- judged: its own extension could be in the way.
    UPDATE extension_requests e SET is_doubtful = true, called_at = least(e.called_at, greatest(p_since, e.requested_at)),
            renewal_before = coalesce(e.renewal_before, s.renewal_at)
        FROM subscriptions s
        WHERE e.state = 'queued' AND s.original_transaction_id = e.original_transaction_id AND s.bucket = e.bucket;
    UPDATE mass_extensions SET doubtful_since = least(doubtful_since, greatest(p_since, submitted_at))
        WHERE state IN ('awaiting_approval', 'queued');
    PERFORM append_audit(session_user::text, p_at, 'catch_up', 'everything',
        json_build_object('since', p_since, 'changes', v_changes, 'database', database_identity()));
    RETURN v_changes;
END
$$;

-- Keeps what a recovery found, so that who recovers again is told.
CREATE FUNCTION repricer.note_recovery(p_since timestamptz, p_at timestamptz, p_adopted bigint, p_released bigint,
    p_ended bigint, p_unread bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    PERFORM append_audit(session_user::text, p_at, 'recovered', 'everything',
        json_build_object('since', p_since, 'found', json_build_object('adopted', p_adopted, 'released', p_released,
            'ended', p_ended, 'unread', p_unread)));
END
$$;

-- What the App Store says is read: calls go on. p_is_restored: a database was lost, and the history may lack what it did, so
-- that statuses are still to be read.
CREATE FUNCTION repricer.end_catch_up(p_is_restored boolean) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
UPDATE service_controls SET catch_up_since = NULL, catch_up_from = NULL, catch_up_by = NULL, catch_up_answer = NULL,
    is_restored = is_restored OR p_is_restored
$$;

-- Notes why the latest reading ended before its end, where calls wait for it.
CREATE FUNCTION repricer.note_catch_up_answer(p_answer text) RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
UPDATE service_controls SET catch_up_answer = p_answer
    WHERE catch_up_since IS NOT NULL AND catch_up_answer IS DISTINCT FROM p_answer
$$;

-- Notices a database that is not the one of before. Nothing is lost where the history was never read and nothing was
-- approved. Where the history was last read before p_oldest, it is read first.
CREATE FUNCTION repricer.note_database(p_at timestamptz, p_from timestamptz, p_oldest timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_former text;
    v_read_through timestamptz;
    v_since timestamptz;
BEGIN
    -- Asked every second: nothing is locked where there is nothing to note.
    IF EXISTS (SELECT FROM service_controls c, history_reading h
            WHERE c.database_identity = database_identity() AND (h.read_through < p_oldest) IS NOT TRUE) THEN
        RETURN;
    END IF;
    SELECT database_identity INTO v_former FROM service_controls FOR UPDATE;
    SELECT read_through, coalesce(least(read_through, window_start),
            least((SELECT min(decided_at) FROM batches WHERE state = 'approved'),
                (SELECT min(requested_at) FROM extension_requests), (SELECT min(submitted_at) FROM mass_extensions)))
        INTO v_read_through, v_since FROM history_reading;
    IF v_former <> database_identity() AND v_since IS NOT NULL THEN
        PERFORM begin_catch_up(v_since, p_from, p_at, false);
    ELSIF v_former IS DISTINCT FROM database_identity() THEN
        UPDATE service_controls SET database_identity = database_identity();
    END IF;
    IF v_read_through < p_oldest THEN
        UPDATE service_controls SET catch_up_since = least(catch_up_since, v_read_through);
    END IF;
END
$$;

-- Ends the halt of the service, because a call was answered again. Returns false where calls had not stopped.
CREATE FUNCTION repricer.recover_service(p_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_reason text;
    v_kinds jsonb;
BEGIN
    SELECT halted_reason, halted_kinds INTO v_reason, v_kinds FROM service_controls WHERE halted_at IS NOT NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE service_controls SET halted_at = NULL, halted_reason = NULL, halted_answer = NULL;
    UPDATE put_backs SET ended_until = coalesce(ended_until, p_at), is_recovered = true WHERE batch_id IS NULL
        AND NOT v_kinds ? kind;
    PERFORM append_audit(session_user::text, p_at, 'recover', 'everything', json_build_object('halted_for', v_reason));
    RETURN true;
END
$$;

-- Halts calls of one kind, because they are refused alike. Returns false where they have stopped already.
CREATE FUNCTION repricer.halt_kind(
    p_kind text, p_at timestamptz, p_reason text, p_from timestamptz DEFAULT NULL) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    UPDATE service_controls SET halted_kinds = halted_kinds
            || jsonb_build_object(p_kind, jsonb_build_object('at', p_at, 'reason', p_reason))
        WHERE NOT halted_kinds ? p_kind;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM note_put_back(p_kind, NULL, split_part(p_reason, ' ', 1), p_from);
    PERFORM append_audit(session_user::text, p_at, 'halt', 'calls:' || p_kind, json_build_object('reason', p_reason));
    RETURN true;
END
$$;

-- Ends the halt of a kind, because a call of it was answered. Returns false where they had not stopped.
CREATE FUNCTION repricer.recover_kind(p_kind text, p_at timestamptz) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_halt jsonb;
    v_is_halted boolean;
BEGIN
    SELECT halted_kinds -> p_kind, halted_at IS NOT NULL INTO v_halt, v_is_halted FROM service_controls WHERE halted_kinds ? p_kind FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE service_controls SET halted_kinds = halted_kinds - p_kind;
    UPDATE put_backs SET ended_until = coalesce(ended_until, p_at), is_recovered = true
        WHERE batch_id IS NULL AND kind = p_kind AND NOT v_is_halted;
    PERFORM append_audit(session_user::text, p_at, 'recover', 'calls:' || p_kind,
        json_build_object('halted_for', v_halt ->> 'reason'));
    RETURN true;
END
$$;

-- Notes that a probe of the service, or of a kind of call, was refused. The halt stays, and says what the latest
-- answer was.
CREATE FUNCTION repricer.note_halt_answer(p_kind text, p_answer text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_answer jsonb := to_jsonb(p_answer);
BEGIN
    UPDATE service_controls SET
        halted_answer = CASE WHEN p_kind IS NULL AND halted_at IS NOT NULL THEN p_answer ELSE halted_answer END,
        halted_kinds = CASE WHEN halted_kinds ? p_kind
            THEN jsonb_set(halted_kinds, ARRAY[p_kind, 'answer'], v_answer) ELSE halted_kinds END;
END
$$;

-- Sessions hold rows since p_since; null: none do any more. p_is_all: changes are due, calls are allowed, and none can be
-- claimed. Where they hold this very row nothing is written: who tells of them must not wait for them.
CREATE FUNCTION repricer.note_unclaimed(p_since timestamptz, p_sessions text, p_is_all boolean DEFAULT true)
    RETURNS void
    LANGUAGE sql SECURITY DEFINER SET search_path = repricer, pg_temp
BEGIN ATOMIC
    UPDATE repricer.blocking_sessions SET since = p_since, sessions = CASE WHEN p_since IS NOT NULL THEN p_sessions END,
            is_all = p_is_all AND p_since IS NOT NULL, seen_at = clock_timestamp()
        WHERE one_row = (SELECT one_row FROM repricer.blocking_sessions FOR UPDATE SKIP LOCKED);
END;

-- Throttles a kind of call, because the App Store gives no answers: its next call leaves at p_until. An earlier begin
-- stays.
CREATE FUNCTION repricer.throttle_kind(p_kind text, p_at timestamptz, p_until timestamptz, p_answer text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_since jsonb;
BEGIN
    IF NOT isfinite(p_until) OR NOT isfinite(p_at) THEN
        RAISE EXCEPTION 'a throttle begins and ends at an instant' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT coalesce(throttled_kinds #> ARRAY[p_kind, 'since'], to_jsonb(p_at)) INTO v_since
        FROM service_controls FOR UPDATE;
    UPDATE service_controls SET throttled_kinds = throttled_kinds || jsonb_build_object(p_kind,
        jsonb_build_object('since', v_since, 'until', p_until, 'answer', p_answer));
END
$$;

-- Ends the throttle, because the App Store answers again. Returns false where calls of the kind were not throttled.
CREATE FUNCTION repricer.end_throttle(p_kind text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    UPDATE service_controls SET throttled_kinds = throttled_kinds - p_kind WHERE throttled_kinds ? p_kind;
    RETURN FOUND;
END
$$;

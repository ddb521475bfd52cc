-- What people decided becomes a chain: each line holds the hash of the line before, so that one which was edited,
-- removed or moved is found (`repricer audit verify`; README.md says what is hashed). Lines are added by the
-- functions that decide, never by a client. What `decisions` holds is carried over; the table itself stays for
-- programs of before and goes with a later release.
-- Locks: decisions for an instant, while its rows are read.
-- breaking: no

CREATE TABLE repricer.audit_trail (
    sequence bigint NOT NULL,
    -- The business clock's instant, as the decision was made with.
    occurred_at timestamptz NOT NULL,
    -- The server's own.
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

-- The end of the chain: who adds a line holds this row, so lines have one order without a gap.
CREATE TABLE repricer.audit_head (
    one_row boolean NOT NULL DEFAULT true,
    sequence bigint NOT NULL,
    hash text NOT NULL,
    CONSTRAINT audit_head_pkey PRIMARY KEY (one_row),
    CONSTRAINT audit_head_one_row CHECK (one_row)
);
INSERT INTO repricer.audit_head (sequence, hash) VALUES (0, repeat('0', 64));

-- A mistake of the owner is refused, too; intent is found by the chain.
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

-- Adds a line; for the functions below alone. It is their last step: the row of the head is held to the commit.
CREATE FUNCTION repricer.append_audit(
    p_actor text, p_occurred_at timestamptz, p_action text, p_object text, p_details json) RETURNS bigint
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
DECLARE
    v_head audit_head;
    v_recorded_at timestamptz;
    v_details json := json_strip_nulls(coalesce(p_details, '{}'));
    v_hash text;
BEGIN
    SELECT * INTO STRICT v_head FROM audit_head FOR UPDATE;
    v_recorded_at := clock_timestamp();
    v_head.sequence := v_head.sequence + 1;
    v_hash := audit_hash(v_head.sequence, p_occurred_at, v_recorded_at, p_actor, p_action, p_object, v_details,
        v_head.hash);
    INSERT INTO audit_trail
            (sequence, occurred_at, recorded_at, actor, action, object, details, previous_hash, hash)
        VALUES (v_head.sequence, p_occurred_at, v_recorded_at, p_actor, p_action, p_object, v_details,
            v_head.hash, v_hash);
    UPDATE audit_head SET sequence = v_head.sequence, hash = v_hash;
    RETURN v_head.sequence;
END
$$;

DO $$
DECLARE
    v_line repricer.decisions;
BEGIN
    FOR v_line IN SELECT * FROM repricer.decisions ORDER BY decided_at, decision_id LOOP
        PERFORM repricer.append_audit(v_line.actor::text, v_line.decided_at, v_line.action,
            coalesce('batch:' || v_line.batch_id, 'everything'),
            json_build_object('detail', v_line.detail, 'carried_over', true));
    END LOOP;
END
$$;
COMMENT ON TABLE repricer.decisions IS 'Superseded by audit_trail, which holds its rows, too.';

-- Writes down that a batch was submitted: by its submitter, once, from what is stored of it.
CREATE FUNCTION repricer.record_submission(p_batch_id uuid) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
BEGIN
    PERFORM require_pricing();
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
    END IF;
    IF v_batch.submitted_by <> session_user THEN
        RAISE EXCEPTION 'user % did not submit batch %', session_user, p_batch_id
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF EXISTS (SELECT FROM audit_trail WHERE object = 'batch:' || p_batch_id AND action = 'submit') THEN
        RAISE EXCEPTION 'the submission of batch % is recorded already', p_batch_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM append_audit(session_user::text, v_batch.submitted_at, 'submit', 'batch:' || p_batch_id,
        json_build_object('name', v_batch.name, 'rows', v_batch.row_count,
            'refused_rows', v_batch.rejected_row_count, 'plan_hash', v_batch.plan_hash,
            'content_sha256', v_batch.content_sha256));
END
$$;

-- The same for an import of rules.
CREATE FUNCTION repricer.record_rules_import(p_revision integer) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_import rule_imports;
BEGIN
    SELECT * INTO v_import FROM rule_imports WHERE revision = p_revision;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no version % of the rules', p_revision USING ERRCODE = 'no_data_found';
    END IF;
    IF v_import.imported_by <> session_user THEN
        RAISE EXCEPTION 'user % did not import version % of the rules', session_user, p_revision
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF EXISTS (SELECT FROM audit_trail WHERE object = 'rules:' || p_revision) THEN
        RAISE EXCEPTION 'version % of the rules is recorded already', p_revision
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM append_audit(session_user::text, v_import.imported_at, 'import_rules', 'rules:' || p_revision,
        json_build_object('file', v_import.file, 'content_sha256', v_import.content_sha256));
END
$$;

CREATE OR REPLACE FUNCTION repricer.approve_batch(p_batch_id uuid, p_at timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    v_rows bigint;
    v_line bigint;
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
            'plan_hash', v_batch.plan_hash));
    RETURN v_rows;
END
$$;

-- Withdraws what has not been sent; returns the number of changes withdrawn. The submitter may, too.
CREATE OR REPLACE FUNCTION repricer.withdraw_batch(
    p_batch_id uuid, p_at timestamptz, p_new_state text, p_reason text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_state text;
    v_rows bigint;
BEGIN
    PERFORM require_pricing();
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
    PERFORM 1 FROM subscriptions s
        WHERE s.original_transaction_id IN (
            SELECT c.original_transaction_id FROM price_changes c
            WHERE c.batch_id = p_batch_id AND c.state IN ('awaiting_approval', 'queued', 'sending', 'unknown'))
        ORDER BY s.original_transaction_id FOR UPDATE;
    WITH withdrawn AS (
        UPDATE price_changes SET state = 'aborted', state_since = p_at, ended_at = p_at,
                reason = p_new_state
            WHERE batch_id = p_batch_id AND state IN ('awaiting_approval', 'queued')
            RETURNING original_transaction_id, change_id
    ), released AS (
        DELETE FROM dependency_roles d USING withdrawn w
            WHERE d.original_transaction_id = w.original_transaction_id AND d.change_id = w.change_id
    ), told AS (
        INSERT INTO price_change_history
                (original_transaction_id, change_id, occurred_at, state, evidence_kind, evidence_id,
                 reason)
            SELECT original_transaction_id, change_id, p_at, 'aborted', 'decision', session_user,
                p_reason
            FROM withdrawn
    )
    SELECT count(*) INTO v_rows FROM withdrawn;
    UPDATE batches SET state = p_new_state,
            decided_by = CASE WHEN p_new_state = 'rejected' THEN session_user ELSE decided_by END,
            decided_at = CASE WHEN p_new_state = 'rejected' THEN p_at ELSE decided_at END,
            decision_reason = p_reason
        WHERE batch_id = p_batch_id;
    PERFORM append_audit(session_user::text, p_at,
        CASE p_new_state WHEN 'rejected' THEN 'reject' ELSE 'abort' END, 'batch:' || p_batch_id,
        json_build_object('withdrawn', v_rows, 'reason', p_reason));
    RETURN v_rows;
END
$$;

CREATE OR REPLACE FUNCTION repricer.set_pause(p_batch_id uuid, p_at timestamptz, p_is_paused boolean) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    PERFORM require_pricing();
    IF p_batch_id IS NULL THEN
        UPDATE service_controls SET is_paused = p_is_paused;
    ELSE
        UPDATE batches SET is_paused = p_is_paused WHERE batch_id = p_batch_id;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
        END IF;
    END IF;
    PERFORM append_audit(session_user::text, p_at, CASE WHEN p_is_paused THEN 'pause' ELSE 'resume' END,
        coalesce('batch:' || p_batch_id, 'everything'), NULL);
END
$$;

REVOKE ALL ON FUNCTION repricer.refuse_audit_change(),
    repricer.audit_hash(bigint, timestamptz, timestamptz, text, text, text, json, text),
    repricer.append_audit(text, timestamptz, text, text, json),
    repricer.record_submission(uuid), repricer.record_rules_import(integer) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION repricer.record_submission(uuid), repricer.record_rules_import(integer),
    repricer.audit_hash(bigint, timestamptz, timestamptz, text, text, text, json, text) TO repricer_pricing;
GRANT SELECT ON repricer.audit_trail, repricer.audit_head TO repricer_pricing, repricer_service;

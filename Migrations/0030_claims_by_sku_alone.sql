-- A dependent that is named by its SKU alone may live on another subscription of the customer: its claim stands under
-- the subscription that carries it, as for one that is named SUBSCRIPTION/SKU. The submitter records what the plan
-- found; approval records anew what the newest facts say, so that nobody gets around it by leaving claims out.
-- Locks: none on existing tables.
-- breaking: no

COMMENT ON TABLE repricer.dependent_claims IS
    'Items that a change names as dependents and that another subscription of the customer carries. Counts while the change is open.';

CREATE FUNCTION repricer.record_dependent_claims(p_batch_id uuid) RETURNS void
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
BEGIN
    IF NOT EXISTS (
        SELECT FROM price_changes WHERE batch_id = p_batch_id AND dependent_skus <> '{}') THEN
        RETURN;
    END IF;
    -- One approval at a time: two that record side by side would not see each other's claims.
    PERFORM pg_advisory_xact_lock(hashtextextended('repricer.dependent_claims', 0));
    WITH named AS (
        SELECT DISTINCT c.original_transaction_id AS id, c.change_id, s.app_account_token AS customer,
            n.name AS sku, jsonb_build_array(jsonb_build_object('sku', n.name, 'renews', true)) AS item
        FROM price_changes c
        JOIN subscriptions s ON s.original_transaction_id = c.original_transaction_id
            AND s.app_account_token IS NOT NULL,
            unnest(c.dependent_skus) AS n (name)
        WHERE c.batch_id = p_batch_id AND c.dependent_skus <> '{}' AND n.name !~ '^[0-9]+/.'
            AND c.state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'scheduled',
                'pending_consent', 'accepted')
    )
    INSERT INTO dependent_claims (original_transaction_id, sku, claimed_by, change_id)
        SELECT o.original_transaction_id, n.sku, n.id, n.change_id
        FROM named n JOIN subscriptions s ON s.original_transaction_id = n.id AND NOT s.items @> n.item
        JOIN subscriptions o ON o.app_account_token = n.customer AND o.original_transaction_id <> n.id
            AND o.items @> n.item AND o.auto_renews IS NOT FALSE
            AND coalesce(o.status IN (1, 3, 4), true)
        ON CONFLICT DO NOTHING;
END
$$;
REVOKE ALL ON FUNCTION repricer.record_dependent_claims(uuid) FROM PUBLIC;

-- Those of changes that are still open.
SELECT repricer.record_dependent_claims(b.batch_id) FROM (
    SELECT DISTINCT batch_id FROM repricer.price_changes
    WHERE dependent_skus <> '{}' AND state IN ('awaiting_approval', 'queued', 'sending', 'unknown',
        'scheduled', 'pending_consent', 'accepted')) b;

-- As before, and of items that are named by their SKU alone.
CREATE OR REPLACE FUNCTION repricer.dependents_elsewhere_fault(p_batch_id uuid) RETURNS text
    LANGUAGE sql STABLE SET search_path = repricer, pg_temp AS $$
WITH ours AS (
    SELECT c.line, c.original_transaction_id AS id, c.change_id, c.sku, c.dependent_skus FROM price_changes c
    WHERE c.batch_id = p_batch_id AND c.state = 'awaiting_approval' AND c.dependent_skus <> '{}'
), claims AS (
    SELECT d.*, coalesce(o.current_sku, o.sku) AS parent FROM dependent_claims d
    JOIN price_changes o ON o.original_transaction_id = d.claimed_by AND o.change_id = d.change_id
        AND o.state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'scheduled', 'pending_consent', 'accepted')
), named AS (
    SELECT c.line, c.id, c.change_id, c.sku AS parent, d.original_transaction_id || '/' || d.sku AS name,
        d.original_transaction_id AS carrier, d.sku
    FROM ours c JOIN claims d ON d.claimed_by = c.id AND d.change_id = c.change_id
), faults AS (
    SELECT c.line, format('%s is not recorded in dependent_claims', n.name) AS said
    FROM ours c, unnest(c.dependent_skus) AS n (name)
    WHERE n.name ~ '^[0-9]+/.' AND NOT EXISTS (
        SELECT FROM named d WHERE d.id = c.id AND d.change_id = c.change_id AND d.name = n.name)
    UNION ALL
    SELECT p.line, format('%s also depends on an open change of %s', p.name, d.claimed_by)
    FROM named p JOIN claims d ON d.original_transaction_id = p.carrier AND d.sku = p.sku
        AND (d.claimed_by, d.change_id) <> (p.id, p.change_id)
    UNION ALL
    SELECT p.line, CASE r.role
        WHEN 'parent' THEN format('dependents form a chain %s → %s → %s', p.parent, p.name, (
            SELECT min(l.sku) FROM dependency_roles l
            WHERE l.original_transaction_id = p.carrier AND l.change_id = r.change_id AND l.role = 'dependent'))
        ELSE format('%s is a %s in an open change of its own subscription', p.name, r.role) END
    FROM named p JOIN dependency_roles r ON r.original_transaction_id = p.carrier AND r.sku = p.sku
    UNION ALL
    SELECT c.line, CASE r.role
        WHEN 'parent' THEN format('dependents form a chain %s/%s → %s → %s', d.claimed_by, d.parent, r.sku,
            (SELECT min(n.name) FROM unnest(c.dependent_skus) AS n (name)))
        ELSE format('%s is a %s here and depends on an open change of %s', r.sku, r.role, d.claimed_by) END
    FROM claims d
    JOIN dependency_roles r ON r.original_transaction_id = d.original_transaction_id AND r.sku = d.sku
    JOIN ours c ON c.id = r.original_transaction_id AND c.change_id = r.change_id
)
SELECT format('line %s: %s', line, said) FROM faults ORDER BY line, said LIMIT 1
$$;

CREATE OR REPLACE FUNCTION repricer.approve_batch(p_batch_id uuid, p_at timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    v_rows bigint;
    v_stray bigint;
    v_line bigint;
    v_exceeded text[];
    v_first text;
    v_fault text;
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
    PERFORM record_dependent_claims(p_batch_id);
    v_fault := dependents_elsewhere_fault(p_batch_id);
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION '% of batch %', v_fault, p_batch_id USING ERRCODE = 'object_not_in_prerequisite_state';
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
    UPDATE batches SET state = 'approved', decided_by = session_user, decided_at = p_at,
            next_release_at = wave_release_at(waves -> 0, p_at)
        WHERE batch_id = p_batch_id RETURNING * INTO v_batch;
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
            'plan_hash', v_batch.plan_hash, 'first_approved_by', v_first,
            'waves', CASE WHEN v_batch.waves <> '[]'
                THEN (SELECT string_agg(w ->> 'label', ',') FROM jsonb_array_elements(v_batch.waves) w) END));
    IF v_batch.waves -> 0 ->> 'release' = 'approval' THEN
        PERFORM release_waves_through(v_batch, 1, session_user::text, p_at);
    END IF;
    RETURN v_rows;
END
$$;

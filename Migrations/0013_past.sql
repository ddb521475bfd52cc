-- What was known at an instant.
-- Where a row changes, its former version is kept in a table `…_versions`, with the instant until which it held. So each
-- table can be read as it was recorded at an instant (`NAME_at`), and each report has a function that is its view over these
-- (`report.NAME_as_of`). Versions are only ever added, by the SQL statement that replaces them. That is why the same question
-- always gets the same answer.
-- Locks: none on existing tables.
-- breaking: no

-- The transactions that write what reports read, and that may have begun before p_at. Everybody may see their locks. Who may
-- not see when they began takes them for older. A standby does not see the locks of its primary, but only from which
-- transaction on some had not ended.
CREATE FUNCTION repricer.open_recorders(p_at timestamptz) RETURNS TABLE (id text) LANGUAGE sql VOLATILE
    SET search_path = repricer, pg_temp AS $$
SELECT x::text
FROM pg_current_snapshot() s, generate_series(
    pg_snapshot_xmin(s)::text::bigint, pg_snapshot_xmax(s)::text::bigint - 1) AS x
WHERE pg_is_in_recovery()
UNION ALL
SELECT DISTINCT l.virtualtransaction
FROM pg_locks l
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
LEFT JOIN service_controls k ON k.clock_rate IS NOT NULL
WHERE l.locktype = 'relation' AND l.mode = 'RowExclusiveLock' AND l.granted AND l.pid IS DISTINCT FROM pg_backend_pid()
    AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
    AND l.relation = ANY (ARRAY['batches', 'price_changes', 'charges', 'money_entries', 'subscription_events',
        'dependent_cancellations', 'dependent_claims', 'exchange_rates']::regclass[])
    AND coalesce(CASE WHEN k.clock_rate IS NULL THEN a.xact_start
        ELSE k.clock_start + (a.xact_start - k.clock_origin) * k.clock_rate END <= p_at, true)
$$;

-- Waits until everything that was being recorded at p_at is committed or rolled back, because it may be dated before p_at.
-- What is recorded from now on is dated later, because it is dated under the lock of its table. A reader with one snapshot
-- (REPEATABLE READ) must call this before its snapshot, and then say so (repricer.recorders_awaited), as the program does.
CREATE FUNCTION repricer.await_recorders(p_at timestamptz) RETURNS void LANGUAGE plpgsql VOLATILE
    SET search_path = repricer, pg_temp AS $$
DECLARE
    v_open text[];
    v_until CONSTANT timestamptz := clock_timestamp() + interval '2 minutes';
BEGIN
    IF coalesce(current_setting('repricer.recorders_awaited', true), '') = 'yes' THEN
        RETURN;
    END IF;
    v_open := ARRAY(SELECT r.id FROM open_recorders(p_at) r);
    WHILE cardinality(v_open) > 0 AND clock_timestamp() < v_until LOOP
        PERFORM pg_sleep(0.05);
        PERFORM pg_stat_clear_snapshot();
        v_open := ARRAY(SELECT unnest(v_open) INTERSECT SELECT r.id FROM open_recorders(p_at) r);
    END LOOP;
    IF cardinality(v_open) > 0 THEN
        RAISE EXCEPTION 'a transaction that began before % has been recording for more than 2 minutes, and what was known then is '
            'not certain before its end: try again, or end it', p_at USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

-- What an instant in the future will have known is not known yet: the same question would get another answer later. Nor is
-- what a standby has not replayed yet; its last replayed commit shows how far it is, except on a virtual clock.
CREATE FUNCTION repricer.require_past(p_at timestamptz) RETURNS void LANGUAGE plpgsql VOLATILE
    SET search_path = repricer, pg_temp AS $$
BEGIN
    IF p_at IS NULL OR p_at > recording_instant() THEN
        RAISE EXCEPTION 'the instant % lies ahead of the database''s clock (%)', p_at, recording_instant()
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF EXISTS (SELECT FROM retention_floors WHERE rule = 'versions' AND dropped_before > p_at) THEN
        RAISE EXCEPTION 'what was known at % is not kept any more: retention dropped what was replaced before %', p_at,
            (SELECT dropped_before FROM retention_floors WHERE rule = 'versions')
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF pg_is_in_recovery() AND p_at > coalesce(pg_last_xact_replay_timestamp(), '-infinity')
        AND NOT EXISTS (SELECT FROM service_controls WHERE clock_rate IS NOT NULL)
    THEN
        RAISE EXCEPTION 'this standby has replayed what was committed until %, and does not know what was known at % yet',
            pg_last_xact_replay_timestamp(), p_at USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM await_recorders(p_at);
END
$$;

-- The planner inlines these functions only while each is SQL, STABLE, one SELECT, and without settings.
CREATE FUNCTION repricer.charges_at(p_at timestamptz) RETURNS SETOF repricer.charges LANGUAGE sql STABLE AS $$
SELECT * FROM repricer.charges WHERE recorded_at <= p_at
UNION ALL
SELECT original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at, revoked_at, price_milliunits, quantity,
    currency, storefront, is_offer, is_purchase, is_added_seat, is_relisted, period, refunded_milliunits, recorded_at
FROM repricer.charge_versions WHERE recorded_at <= p_at AND recorded_until > p_at
$$;
CREATE FUNCTION repricer.money_entries_at(p_at timestamptz) RETURNS SETOF repricer.money_entries
    LANGUAGE sql STABLE AS $$
SELECT * FROM repricer.money_entries WHERE recorded_at <= p_at
$$;
CREATE FUNCTION repricer.dependent_claims_at(p_at timestamptz) RETURNS SETOF repricer.dependent_claims
    LANGUAGE sql STABLE AS $$
SELECT * FROM repricer.dependent_claims WHERE recorded_at <= p_at
$$;
CREATE FUNCTION repricer.subscription_events_at(p_at timestamptz) RETURNS SETOF repricer.subscription_events
    LANGUAGE sql STABLE AS $$
SELECT * FROM repricer.subscription_events WHERE recorded_at <= p_at
UNION ALL
SELECT original_transaction_id, bucket, signed_at, evidence_id, source, type, subtype, statement, recorded_at
FROM repricer.subscription_event_versions WHERE recorded_at <= p_at AND recorded_until > p_at
$$;
CREATE FUNCTION repricer.told_statements_at(p_at timestamptz) RETURNS SETOF repricer.told_statements
    LANGUAGE sql STABLE AS $$
SELECT original_transaction_id, bucket, signed_at, evidence_id, source, type, subtype, statement, recorded_at,
    coalesce(repricer.tells_end(statement), false), statement -> 'ignored', statement ->> 'status'
FROM repricer.subscription_events_at(p_at)
UNION ALL
SELECT original_transaction_id, bucket, signed_at, evidence_id, source, type, subtype, coalesce(statement, renewal_told), recorded_at,
    tells_end OR coalesce(repricer.tells_end(statement), false), left_out, coalesce(statement ->> 'status', status)
FROM repricer.kept_statements WHERE recorded_at <= p_at
$$;
CREATE FUNCTION repricer.dependent_cancellations_at(p_at timestamptz) RETURNS SETOF repricer.dependent_cancellations
    LANGUAGE sql STABLE AS $$
SELECT * FROM repricer.dependent_cancellations WHERE recorded_at <= p_at
UNION ALL
SELECT original_transaction_id, bucket, change_id, dependent_sku, parent_sku, batch_id, cause, is_cross_subscription,
    target_transaction_id, target_period, cancel_reference_id, state, price_milliunits, currency, requested_at, requested_by_evidence,
    settled_at, settled_by_evidence, detail, next_check_at, checks, put_back_for, recorded_at
FROM repricer.dependent_cancellation_versions WHERE recorded_at <= p_at AND recorded_until > p_at
$$;

-- The earliest version that held beyond p_at says what was known at p_at; where there is none, the row itself does. If that
-- was recorded later than p_at, the change was then in one of the versions that are not kept (see price_change_versions). Each
-- table of which only some columns are kept has such a function; the other columns never change, or no report reads them.
DO $at$
DECLARE
    v_columns text;
BEGIN
    SELECT string_agg(CASE
        WHEN a.attname = 'stage' THEN 'CASE k.state WHEN ''sending'' THEN ''queued'' ELSE k.state END'
        WHEN a.attname IN ('state', 'state_since') THEN 'k.' || a.attname
        WHEN a.attname IN ('request_reference_id', 'sent_at')
            THEN format('CASE WHEN NOT k.is_unsent THEN CASE WHEN v.state IS NULL THEN c.%1$I ELSE v.%1$I END END', a.attname)
        WHEN a.attname = 'scheduled_at'
            THEN 'CASE WHEN NOT k.is_later THEN CASE WHEN v.state IS NULL THEN c.scheduled_at ELSE v.scheduled_at END END'
        WHEN EXISTS (SELECT FROM pg_attribute o WHERE o.attrelid = 'repricer.price_change_versions'::regclass
                AND o.attname = a.attname AND a.attname NOT IN ('original_transaction_id', 'bucket', 'change_id'))
            THEN format('CASE WHEN v.state IS NULL THEN c.%1$I ELSE v.%1$I END', a.attname)
        ELSE format('c.%I', a.attname) END, E',\n    ' ORDER BY a.attnum) INTO v_columns
    FROM pg_attribute a
    WHERE a.attrelid = 'repricer.price_changes'::regclass AND a.attnum > 0 AND NOT a.attisdropped;
    EXECUTE format($make$
CREATE FUNCTION repricer.price_changes_at(p_at timestamptz) RETURNS SETOF repricer.price_changes LANGUAGE sql STABLE AS $body$
SELECT %s
FROM repricer.price_changes c
JOIN repricer.batches b ON b.batch_id = c.batch_id AND b.submitted_at <= p_at
LEFT JOIN LATERAL (
    -- A row that was not replaced after p_at has no later version, so for most changes nothing is searched.
    SELECT p.* FROM repricer.price_change_versions p
    WHERE c.recorded_at > p_at AND p.original_transaction_id = c.original_transaction_id AND p.change_id = c.change_id
        AND p.recorded_until > p_at
    ORDER BY p.recorded_until LIMIT 1) v ON true
CROSS JOIN LATERAL (
    -- What is known was recorded later than p_at: at p_at the change was called, or not even that.
    SELECT coalesce(CASE WHEN v.state IS NULL THEN c.recorded_at ELSE v.recorded_at END > p_at, false) AS is_later,
        coalesce(CASE WHEN v.state IS NULL THEN c.claim_recorded_at ELSE v.claim_recorded_at END <= p_at, false) AS was_claimed
) e
CROSS JOIN LATERAL (
    SELECT e.is_later, e.is_later AND NOT e.was_claimed AS is_unsent,
        CASE WHEN e.is_later THEN CASE WHEN e.was_claimed THEN 'sending' ELSE 'queued' END ELSE coalesce(v.state, c.state) END
            AS last_state
) l
CROSS JOIN LATERAL (
    -- At p_at the change was not approved yet.
    SELECT l.is_later, l.is_unsent,
        CASE WHEN l.last_state IN ('queued', 'sending') AND coalesce(b.decided_at > p_at, true)
            THEN 'awaiting_approval' ELSE l.last_state END AS state,
        CASE WHEN l.last_state IN ('queued', 'sending') AND coalesce(b.decided_at > p_at, true) THEN b.submitted_at
            WHEN l.is_unsent THEN b.decided_at
            WHEN l.is_later THEN CASE WHEN v.state IS NULL THEN c.sent_at ELSE v.sent_at END
            ELSE coalesce(v.state_since, c.state_since) END AS state_since
) k
$body$ $make$, v_columns);

    SELECT string_agg(CASE WHEN EXISTS (SELECT FROM pg_attribute o WHERE o.attrelid = 'repricer.batch_versions'::regclass
                AND o.attname = a.attname AND a.attname <> 'batch_id')
            THEN format('CASE WHEN v.state IS NULL THEN b.%1$I ELSE v.%1$I END', a.attname)
        ELSE format('b.%I', a.attname) END, E',\n    ' ORDER BY a.attnum) INTO v_columns
    FROM pg_attribute a WHERE a.attrelid = 'repricer.batches'::regclass AND a.attnum > 0 AND NOT a.attisdropped;
    EXECUTE format($make$
CREATE FUNCTION repricer.batches_at(p_at timestamptz) RETURNS SETOF repricer.batches LANGUAGE sql STABLE AS $body$
SELECT %s
FROM repricer.batches b
LEFT JOIN LATERAL (
    SELECT p.* FROM repricer.batch_versions p
    WHERE p.batch_id = b.batch_id AND p.recorded_until > p_at ORDER BY p.recorded_until LIMIT 1) v ON true
WHERE b.submitted_at <= p_at
$body$ $make$, v_columns);
END
$at$;

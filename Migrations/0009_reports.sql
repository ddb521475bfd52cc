-- What finance reads: views over facts and events, never over intentions. Their names and types are a contract. Each
-- view and each column has a comment; the reports show them.
-- Locks: none on existing tables.
-- breaking: no

-- The instant that "late" is judged at. A report sets it for its transaction; psql may SET it, too.
CREATE FUNCTION report.as_of() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    RETURN coalesce(nullif(current_setting('repricer.as_of', true), '')::timestamptz, now());
COMMENT ON FUNCTION report.as_of() IS
    'The instant that lateness is judged at: the setting repricer.as_of, else the server''s clock.';

-- What was known at an instant -----------------------------------------------------------------------------------------
--
-- What changes keeps what it was before: one row a version that something known has replaced, until when it held
-- (`…_versions`, beside their tables). So each table can be read as it was recorded at an instant (`NAME_at`), and each
-- report has a function that is its view over these (`report.NAME_as_of`). Versions are only ever added, by the statement
-- that replaces them, which is why the same question gets the same answer for ever.

-- The transactions that write what reports read, and may have begun before the instant. Everybody may see their locks, and
-- who may not see when they began takes them for older. A standby sees none of its primary's locks, but only from which
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

-- Waits until what was being recorded at the instant is committed or not, because it may bear that instant. What is recorded
-- from now on bears a later one: it is dated under the lock of its table. Whoever reads in one snapshot (REPEATABLE READ) asks
-- before it begins, and then says so (repricer.recorders_awaited), as the program does.
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

-- What is not past yet is not known: the same question would get another answer later. Nor is what a standby has not
-- replayed, which it shows by the last commit that it has; a virtual clock says nothing of that.
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

-- These must stay as they are for the planner to see through them: SQL, STABLE, one SELECT, no settings.
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
    coalesce(repricer.tells_end(statement), false), statement -> 'ignored'
FROM repricer.subscription_events_at(p_at)
UNION ALL
SELECT original_transaction_id, bucket, signed_at, evidence_id, source, type, subtype, statement, recorded_at,
    tells_end OR coalesce(repricer.tells_end(statement), false), left_out
FROM repricer.kept_statements WHERE recorded_at <= p_at
$$;
CREATE FUNCTION repricer.dependent_cancellations_at(p_at timestamptz) RETURNS SETOF repricer.dependent_cancellations
    LANGUAGE sql STABLE AS $$
SELECT * FROM repricer.dependent_cancellations WHERE recorded_at <= p_at
UNION ALL
SELECT original_transaction_id, bucket, change_id, dependent_sku, parent_sku, batch_id, cause, is_cross_subscription,
    target_transaction_id, target_period, cancel_reference_id, state, price_milliunits, currency, requested_at, requested_by_evidence,
    settled_at, settled_by_evidence, detail, next_check_at, checks, recorded_at
FROM repricer.dependent_cancellation_versions WHERE recorded_at <= p_at AND recorded_until > p_at
$$;

-- The earliest version that held beyond the instant says what was known then; where there is none, the row does. Where
-- that was not recorded yet, it was one of the versions that are not kept (price_change_versions). A function for each
-- table of which not every column is kept: the others never change, or no report reads them.
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
    -- What stands since the instant, or longer, has replaced nothing after it: most changes are not searched.
    SELECT p.* FROM repricer.price_change_versions p
    WHERE c.recorded_at > p_at AND p.original_transaction_id = c.original_transaction_id AND p.change_id = c.change_id
        AND p.recorded_until > p_at
    ORDER BY p.recorded_until LIMIT 1) v ON true
CROSS JOIN LATERAL (
    -- It was recorded later than the instant: at the instant it was called, or not even that.
    SELECT coalesce(CASE WHEN v.state IS NULL THEN c.recorded_at ELSE v.recorded_at END > p_at, false) AS is_later,
        coalesce(CASE WHEN v.state IS NULL THEN c.claim_recorded_at ELSE v.claim_recorded_at END <= p_at, false) AS was_claimed
) e
CROSS JOIN LATERAL (
    SELECT e.is_later, e.is_later AND NOT e.was_claimed AS is_unsent,
        CASE WHEN e.is_later THEN CASE WHEN e.was_claimed THEN 'sending' ELSE 'queued' END ELSE coalesce(v.state, c.state) END
            AS last_state
) l
CROSS JOIN LATERAL (
    -- At the instant it was not approved yet.
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

-- Figures kept beside the facts ----------------------------------------------------------------------------------------
--
-- What became of a change that ended is computed once and kept (`change_figures`, `kept_exceptions`), and summed by batch
-- and kind (`figure_tallies`). Who writes a fact that may alter what is kept adds a mark of the subscription
-- (`stale_figures`) in the same transaction: an insert that nobody waits for. A step of the service computes anew what is
-- marked. So a reader who sees a fact sees its mark as well, and counts what is marked, or still open, from the facts
-- themselves: the figures are exact at any moment, whether the service runs or not.
--
-- What somebody else writes into the charges is marked as well: a check that reads kept figures must see what an owner has
-- corrected or lost by hand. The service's own statements mark theirs, and fire no trigger.
CREATE FUNCTION repricer.mark_charges() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    IF TG_OP <> 'DELETE' THEN
        INSERT INTO stale_figures SELECT DISTINCT original_transaction_id, bucket FROM written;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        INSERT INTO stale_figures SELECT DISTINCT original_transaction_id, bucket FROM former;
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER charges_inserted AFTER INSERT ON repricer.charges
    REFERENCING NEW TABLE AS written FOR EACH STATEMENT
    WHEN (current_setting('is_superuser') = 'on' OR NOT pg_has_role(session_user, 'repricer_service', 'MEMBER'))
    EXECUTE FUNCTION repricer.mark_charges();
CREATE TRIGGER charges_updated AFTER UPDATE ON repricer.charges
    REFERENCING OLD TABLE AS former NEW TABLE AS written FOR EACH STATEMENT
    WHEN (current_setting('is_superuser') = 'on' OR NOT pg_has_role(session_user, 'repricer_service', 'MEMBER'))
    EXECUTE FUNCTION repricer.mark_charges();
CREATE TRIGGER charges_deleted AFTER DELETE ON repricer.charges
    REFERENCING OLD TABLE AS former FOR EACH STATEMENT
    WHEN (current_setting('is_superuser') = 'on' OR NOT pg_has_role(session_user, 'repricer_service', 'MEMBER'))
    EXECUTE FUNCTION repricer.mark_charges();

CREATE TABLE repricer.change_figures (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    change_id uuid NOT NULL,
    batch_id uuid NOT NULL,
    is_undo boolean NOT NULL,
    direction text NOT NULL,
    forecast_consent text NOT NULL,
    currency text NOT NULL,
    storefront text NOT NULL,
    period text NOT NULL,
    state text NOT NULL,
    is_sent boolean NOT NULL,
    is_asked boolean NOT NULL,
    acceptance text,
    is_uncharged boolean NOT NULL,
    current_price_milliunits bigint NOT NULL,
    new_price_milliunits bigint NOT NULL,
    renewals bigint NOT NULL,
    first_at timestamptz,
    old_total_milliunits bigint NOT NULL,
    new_total_milliunits bigint NOT NULL,
    is_leaving boolean NOT NULL,
    is_told boolean NOT NULL,
    fell_with_parent boolean NOT NULL,
    others_lost_milliunits bigint NOT NULL,
    taxed_renewals bigint NOT NULL,
    taxed_uplift_milliunits bigint NOT NULL,
    paid_until timestamptz,
    word_due_at timestamptz,
    paid_sku text,
    paid_quantity bigint,
    seats bigint NOT NULL,
    counted_at timestamptz NOT NULL,
    outcome uuid,
    CONSTRAINT change_figures_pkey PRIMARY KEY (original_transaction_id, change_id, bucket),
    CONSTRAINT change_figures_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id))
);
CREATE INDEX change_figures_batch ON repricer.change_figures (batch_id);
CREATE INDEX change_figures_word_due ON repricer.change_figures (batch_id, word_due_at) WHERE word_due_at IS NOT NULL;
COMMENT ON COLUMN repricer.change_figures.paid_until IS
    'Of an effective one whose item is set to renew: until when its last charge is paid. The newest change of the item has '
    'paid_sku and paid_quantity of it, too, unless it was given back as a whole.';
COMMENT ON COLUMN repricer.change_figures.word_due_at IS
    'Likewise: paid_until, or when the longest billing retry, or extension to a day that was not told, ends. Who is silent '
    'after it, is missing.';
COMMENT ON COLUMN repricer.change_figures.outcome IS 'Its row of forecast_tallies; null of an undo, which forecasts nothing.';
COMMENT ON COLUMN repricer.change_figures.seats IS
    'Of the last period that the item was paid for: its prices are of one seat, and a period brings them so many times.';
COMMENT ON COLUMN repricer.change_figures.counted_at IS
    'On the clock of recording. While its subscription bears no mark, nothing was recorded since: it is what was known then, too.';
COMMENT ON TABLE repricer.change_figures IS 'Of each change that ended, what reports count. Only summarise_figures writes it.';
COMMENT ON COLUMN repricer.change_figures.is_uncharged IS 'Effective, without a charge at the new price.';
COMMENT ON COLUMN repricer.change_figures.is_leaving IS
    'It took effect, and its item is not set to renew any more, or was charged at another price last.';
COMMENT ON COLUMN repricer.change_figures.is_told IS 'The customer was asked, or told.';
COMMENT ON COLUMN repricer.change_figures.taxed_renewals IS 'Renewals of which the tax is signed; taxed_uplift_milliunits is theirs, without it.';
COMMENT ON COLUMN repricer.change_figures.others_lost_milliunits IS
    'Of a declined one for which the whole subscription ended: what its other items cost a period. Counted once.';

CREATE TABLE repricer.kept_exceptions (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    change_id uuid NOT NULL,
    batch_id uuid NOT NULL,
    transaction_id text,
    sku text NOT NULL,
    exception text NOT NULL,
    occurred_at timestamptz NOT NULL,
    amount_milliunits bigint NOT NULL,
    -- Null where another currency was charged: it would be in that of the change, beside an amount in another.
    expected_milliunits bigint,
    refunded_milliunits bigint NOT NULL,
    currency text NOT NULL,
    storefront text,
    CONSTRAINT kept_exceptions_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id))
);
CREATE INDEX kept_exceptions_subscription ON repricer.kept_exceptions (original_transaction_id);
CREATE INDEX kept_exceptions_batch ON repricer.kept_exceptions (batch_id, exception);
COMMENT ON TABLE repricer.kept_exceptions IS
    'Charge exceptions of called changes. Only summarise_figures writes it.';

CREATE TABLE repricer.figure_tallies (
    batch_id uuid NOT NULL,
    is_undo boolean NOT NULL,
    direction text NOT NULL,
    forecast_consent text NOT NULL,
    currency text NOT NULL,
    storefront text NOT NULL,
    period text NOT NULL,
    changes bigint NOT NULL,
    sent bigint NOT NULL,
    asked_for_consent bigint NOT NULL,
    consented bigint NOT NULL,
    informed bigint NOT NULL,
    effective bigint NOT NULL,
    declined bigint NOT NULL,
    cancelled bigint NOT NULL,
    lapsed bigint NOT NULL,
    other bigint NOT NULL,
    uncharged bigint NOT NULL,
    charged_changes bigint NOT NULL,
    charged_renewals bigint NOT NULL,
    -- Money is exact, however much there is of it.
    old_total numeric NOT NULL,
    new_total numeric NOT NULL,
    old_per_period numeric NOT NULL,
    new_per_period numeric NOT NULL,
    declined_lost numeric NOT NULL,
    cancelled_lost numeric NOT NULL,
    fell_with_parent bigint NOT NULL,
    fell_lost numeric NOT NULL,
    lapsed_lost numeric NOT NULL,
    others_lost numeric NOT NULL,
    taxed_renewals bigint NOT NULL,
    taxed_uplift numeric NOT NULL,
    CONSTRAINT figure_tallies_pkey PRIMARY KEY
        (batch_id, is_undo, direction, forecast_consent, currency, storefront, period)
);
COMMENT ON TABLE repricer.figure_tallies IS 'Sums of change_figures. Only summarise_figures writes it, one at a time.';

-- Forecasts and what came of them, as alike changes have them: a row a batch and outcome.
CREATE TABLE repricer.forecast_tallies (
    batch_id uuid NOT NULL,
    outcome uuid NOT NULL,
    direction text NOT NULL,
    forecast_consent text NOT NULL,
    forecast_threshold_source text,
    forecast_reasons text[] NOT NULL,
    forecast_not_known text[] NOT NULL,
    forecast_because text,
    came_consent text,
    came text,
    has_moved boolean NOT NULL,
    slip text,
    is_siblings_doing boolean NOT NULL,
    changes bigint NOT NULL,
    CONSTRAINT forecast_tallies_pkey PRIMARY KEY (batch_id, outcome)
);
COMMENT ON TABLE repricer.forecast_tallies IS
    'How many changes of change_figures have which outcome. Only summarise_figures writes it, one at a time.';
COMMENT ON COLUMN repricer.forecast_tallies.outcome IS 'A hash of all columns from direction to is_siblings_doing.';
COMMENT ON COLUMN repricer.forecast_tallies.came IS
    'Whether it took effect earlier or later than forecast, or as_forecast; null: it did not.';

-- A row that only the owner may lock, and not an advisory lock, which any login could take. Never written.
CREATE TABLE repricer.figures_turn (
    one_row boolean NOT NULL DEFAULT true,
    CONSTRAINT figures_turn_pkey PRIMARY KEY (one_row),
    CONSTRAINT figures_turn_one_row CHECK (one_row)
);
INSERT INTO repricer.figures_turn DEFAULT VALUES;
COMMENT ON TABLE repricer.figures_turn IS 'Who summarises figures holds its lock until its transaction ends.';

-- Kept moves: what the bridge counts of each month, of every subscription none of whose calls is out, as one row a
-- subscription and batch, and summed by batch and month (move_tallies). While no fact is added only time moves a figure:
-- a paid period ends. So months are kept to their ends, the coming ones too, and of a month in which a paid period will
-- end, how it stands before that (running_moves). A reader counts what is marked, what is not kept yet, and what is kept
-- since a later instant than it asks for (known_after) from the facts.
CREATE TABLE repricer.kept_moves (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    batch_id uuid NOT NULL,
    known_after timestamptz NOT NULL,
    counted_at timestamptz NOT NULL,
    currency text NOT NULL,
    storefront text NOT NULL,
    -- One element a month and cause.
    months date[] NOT NULL,
    causes text[] NOT NULL,
    openings numeric[] NOT NULL,
    closings numeric[] NOT NULL,
    price_effects numeric[] NOT NULL,
    CONSTRAINT kept_moves_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id))
);
-- No key: one statement takes rows out and puts others in.
CREATE INDEX kept_moves_subscription ON repricer.kept_moves (original_transaction_id);
CREATE INDEX kept_moves_later ON repricer.kept_moves (batch_id, known_after);
COMMENT ON TABLE repricer.kept_moves IS
    'What the revenue bridge counts of a subscription, in twelfths of milliunits. Only summarise_figures writes it.';
COMMENT ON COLUMN repricer.kept_moves.known_after IS
    'It holds for instants after this one, the latest that a fact bears; infinity: it is counted from the facts, as of a '
    'subscription with a call that is out, or with dependents on another one.';

CREATE TABLE repricer.move_tallies (
    batch_id uuid NOT NULL,
    month date NOT NULL,
    currency text NOT NULL,
    storefront text NOT NULL,
    cause text NOT NULL,
    opening numeric NOT NULL,
    closing numeric NOT NULL,
    price_effect numeric NOT NULL,
    CONSTRAINT move_tallies_pkey PRIMARY KEY (batch_id, month, currency, storefront, cause)
);
COMMENT ON TABLE repricer.move_tallies IS 'Sums of kept_moves, each month to its end. Only summarise_figures writes it, one at a time.';

CREATE TABLE repricer.running_moves (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    batch_id uuid NOT NULL,
    month date NOT NULL,
    currency text NOT NULL,
    storefront text NOT NULL,
    cause text NOT NULL,
    from_at timestamptz NOT NULL,
    until_at timestamptz NOT NULL,
    opening numeric NOT NULL,
    closing numeric NOT NULL,
    price_effect numeric NOT NULL,
    CONSTRAINT running_moves_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id))
);
CREATE INDEX running_moves_subscription ON repricer.running_moves (original_transaction_id);
CREATE INDEX running_moves_until ON repricer.running_moves (batch_id, until_at);
COMMENT ON TABLE repricer.running_moves IS
    'What is to be added to the whole month of kept_moves as of an instant within it, after from_at and not after until_at. '
    'Only summarise_figures writes it.';

-- A batch that statistics do not know yet would be taken for one row, however large it is, and reports of the newest batch would
-- compare each row with each. Without statistics of this column every batch is taken for one of two hundred.
ALTER TABLE repricer.price_changes ALTER COLUMN batch_id SET STATISTICS 0;
ALTER TABLE repricer.dependent_cancellations ALTER COLUMN batch_id SET STATISTICS 0;
ALTER TABLE repricer.money_entries ALTER COLUMN batch_id SET STATISTICS 0;
ALTER TABLE repricer.change_figures ALTER COLUMN batch_id SET STATISTICS 0;
ALTER TABLE repricer.kept_exceptions ALTER COLUMN batch_id SET STATISTICS 0;
ALTER TABLE repricer.kept_moves ALTER COLUMN batch_id SET STATISTICS 0;
ALTER TABLE repricer.running_moves ALTER COLUMN batch_id SET STATISTICS 0;

-- What the views count -----------------------------------------------------------------------------------------------

-- The marks, for reports that leave out what is marked. PostgreSQL takes the table of marks for empty, as it nearly always is when
-- statistics of it are made, and would compare each row with each mark while there are many. What a function returns it takes
-- for as many rows as the function says, and makes a hash table of it. With a larger number it would read whole tables in the
-- order of their keys, which takes ten times as long.
CREATE FUNCTION repricer.marked_subscriptions() RETURNS SETOF text LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
    ROWS 2000 SET search_path = repricer, pg_temp AS $$
SELECT original_transaction_id FROM stale_figures
$$;
COMMENT ON FUNCTION repricer.marked_subscriptions() IS 'Subscriptions with a mark, some of them several times.';

-- Says nothing that an equation beside it does not. Its cost makes PostgreSQL join by a hash table or a key, where it takes a batch
-- for a few rows and would compare each with each.
CREATE FUNCTION repricer.is_that(p_one uuid, p_other uuid) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 100
    AS $$
BEGIN
    RETURN p_one = p_other;
END
$$;

-- A sum as a report's bigint. One that is too large is refused by name.
CREATE FUNCTION repricer.figure(p_sum numeric, p_what text) RETURNS bigint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF abs(p_sum) > 9223372036854775807 THEN
        RAISE EXCEPTION '% add up to % milliunits, which is more than a figure can hold', p_what, p_sum
            USING ERRCODE = 'numeric_value_out_of_range', HINT = 'report.money has each line of what was charged, and report.price_change what is at risk.';
    END IF;
    RETURN p_sum;
END
$$;

-- The same for what is computed of each change: nothing is called where it fits.
CREATE FUNCTION repricer.fitting(p_sum numeric, p_what text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN abs(p_sum) > 9223372036854775807 THEN repricer.figure(p_sum, p_what) ELSE p_sum::bigint END;

-- The seats of a paid period, from its charges of one item: those of its renewal, or of what the customer bought in its place
-- last, and those that were added beside that since and not given back. The transaction of a modification has those that were
-- added before it (an inference). Null: none. A period with one charge need not be asked.
CREATE FUNCTION repricer.seats_of(p_charges anyarray) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
SELECT nullif(coalesce(max(o.quantity), 0) + coalesce(sum(k.quantity) FILTER (WHERE k.is_added_seat
        AND (k.refunded_milliunits = 0 OR k.refunded_milliunits < k.price_milliunits * k.quantity)
        AND k.purchased_at >= coalesce(o.purchased_at, '-infinity')), 0), 0)::bigint
FROM unnest(p_charges) AS k
LEFT JOIN (
    SELECT n.quantity, CASE WHEN g.stands THEN n.purchased_at END AS purchased_at
    FROM unnest(p_charges) AS n
    CROSS JOIN LATERAL (SELECT n.revoked_at IS NULL AND (n.refunded_milliunits = 0
        OR n.refunded_milliunits < n.price_milliunits * n.quantity) AS stands) g
    WHERE NOT n.is_added_seat ORDER BY g.stands DESC, n.purchased_at DESC, n.transaction_id DESC LIMIT 1) o ON true
$$;

-- What a charge would have brought at the old price: of one that was refunded in part, the part that was kept.
-- Its body is no text, so that readers of a view need no right to schema repricer.
CREATE FUNCTION repricer.at_old_price(p_old bigint, p_price bigint, p_quantity bigint, p_refunded bigint, p_transaction text)
    RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN p_refunded = 0 AND p_quantity = 1 THEN p_old
        WHEN p_refunded = 0 THEN repricer.fitting(p_old::numeric * p_quantity,
            'the seats of transaction ' || p_transaction || ', at the old price,')
        ELSE repricer.fitting(round(p_old::numeric * (p_price * p_quantity - p_refunded) / p_price),
            'the seats of transaction ' || p_transaction || ', at the old price,') END;

-- Each renewal that was charged at a changed price, under the one change that set the price: the newest in effect then.
-- A later change back to the same price takes the later renewals. Renewals under any name of the item count alike. An undo
-- sets no price of its own: its renewals stay under the change that set it. Of one that was refunded in part the part that
-- was kept counts, at the old price too; one that was refunded in full brought nothing.
CREATE VIEW repricer.charged_renewals AS
SELECT c.batch_id, c.original_transaction_id, c.change_id, h.transaction_id, h.purchased_at,
    repricer.at_old_price(c.current_price_milliunits, h.price_milliunits, h.quantity, h.refunded_milliunits, h.transaction_id)
        AS old_price_milliunits,
    h.price_milliunits * h.quantity - h.refunded_milliunits AS price_milliunits,
    -- What was kept of it without tax; null where not all of that is signed.
    (SELECT CASE WHEN bool_and(e.tax_exclusive_milliunits IS NOT NULL) THEN sum(e.tax_exclusive_milliunits)::bigint END
        FROM repricer.money_entries e
        WHERE e.original_transaction_id = h.original_transaction_id AND e.transaction_id = h.transaction_id
            AND e.sku = h.sku AND e.currency = h.currency) AS tax_exclusive_milliunits
FROM repricer.price_changes c
JOIN repricer.charges h ON h.original_transaction_id = c.original_transaction_id
    AND (h.sku = c.sku OR h.sku = c.current_sku OR h.sku = ANY (c.former_skus))
    AND h.purchased_at >= c.effective_at AND h.price_milliunits = c.new_price_milliunits
    AND h.currency = c.currency
    AND (h.refunded_milliunits = 0 OR h.refunded_milliunits < h.price_milliunits * h.quantity)
WHERE c.state = 'effective' AND c.undoes_change_id IS NULL AND NOT EXISTS (
    SELECT FROM repricer.price_changes n
    WHERE n.original_transaction_id = c.original_transaction_id AND n.change_id <> c.change_id
        AND coalesce(n.current_sku, n.sku) = coalesce(c.current_sku, c.sku)
        AND n.state = 'effective' AND n.undoes_change_id IS NULL AND n.effective_at <= h.purchased_at
        AND (n.effective_at, n.change_id) > (c.effective_at, c.change_id));
COMMENT ON VIEW repricer.charged_renewals IS
    'Charged renewals, each under the one change that set its price.';

-- The same renewals, with one row for each change that was charged.
CREATE VIEW repricer.charged_changes AS
SELECT batch_id, original_transaction_id, change_id, count(*) AS renewals,
    min(purchased_at) AS first_at,
    repricer.fitting(sum(old_price_milliunits), 'the renewals of price change ' || change_id || ', at the old price,')
        AS old_total_milliunits,
    repricer.fitting(sum(price_milliunits), 'the renewals of price change ' || change_id) AS new_total_milliunits
FROM repricer.charged_renewals r
GROUP BY batch_id, original_transaction_id, change_id;
COMMENT ON VIEW repricer.charged_changes IS 'charged_renewals, one row a change.';

-- Each charge of an item since a change of ours was called, under the one change that it is explained by: the newest in
-- effect if that is its price, else the newest that was called. What the App Store never had explains nothing. A charge that
-- is not what it should be has an exception in place of an explanation.
CREATE VIEW repricer.explained_charges AS
SELECT c.original_transaction_id, c.bucket, h.transaction_id, h.sku, h.purchased_at, h.price_milliunits, h.quantity,
    h.currency, h.storefront, h.refunded_milliunits, c.batch_id, c.change_id,
    CASE WHEN h.currency = c.currency THEN CASE WHEN t.is_in_effect THEN c.new_price_milliunits ELSE c.current_price_milliunits END
    END AS expected_milliunits,
    CASE WHEN w.exception IS NULL THEN w.explained_as END AS explained_as, w.exception,
    -- As charged_renewals counts it.
    CASE WHEN t.is_in_effect AND h.currency = c.currency AND h.price_milliunits = c.new_price_milliunits
            AND (h.refunded_milliunits = 0 OR h.refunded_milliunits < h.price_milliunits * h.quantity)
            AND (a.is_alone OR NOT EXISTS (
                SELECT FROM repricer.price_changes n
                WHERE n.original_transaction_id = c.original_transaction_id AND n.change_id <> c.change_id
                    AND coalesce(n.current_sku, n.sku) = coalesce(c.current_sku, c.sku)
                    AND n.state = 'effective' AND n.undoes_change_id IS NULL AND n.effective_at <= h.purchased_at
                    AND (n.effective_at, n.change_id) > (c.effective_at, c.change_id)))
        THEN h.price_milliunits * h.quantity - h.refunded_milliunits - repricer.at_old_price(c.current_price_milliunits,
            h.price_milliunits, h.quantity, h.refunded_milliunits, h.transaction_id) END AS uplift_milliunits
FROM repricer.price_changes c
-- Most changes are the only one of their subscription, and need not be compared with others charge by charge.
CROSS JOIN LATERAL (
    SELECT NOT EXISTS (
        SELECT FROM repricer.price_changes o
        WHERE o.original_transaction_id = c.original_transaction_id AND o.change_id <> c.change_id) AS is_alone
    OFFSET 0) a
-- Its call was refused, and no later one may have been applied.
CROSS JOIN LATERAL (
    SELECT c.state = 'rejected' OR c.refused_at IS NOT NULL AND c.doubtful_since IS NULL
            AND c.state IN ('queued', 'ineligible', 'missed', 'aborted') AS is_refused) r
-- OFFSET 0 makes PostgreSQL go change by change, instead of reading all charges for those of a batch.
CROSS JOIN LATERAL (
    SELECT k.*,
        -- Until when an earlier renewal paid. What a customer buys, an added seat too, does not count as one, and of two the
        -- first may have been given back. What was bought takes the place of what was paid for before it.
        max(k.expires_at) FILTER (WHERE NOT k.is_purchase AND (k.refunded_milliunits = 0
                OR k.refunded_milliunits < k.price_milliunits * k.quantity)) OVER (
            PARTITION BY k.sku, k.bought ORDER BY k.purchased_at, k.transaction_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS renewed_until,
        max(k.expires_at) OVER (PARTITION BY k.sku ORDER BY k.purchased_at, k.transaction_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS paid_before_until,
        (k.expires_at - k.purchased_at) / 2 AS half,
        -- The Sandbox's periods are short.
        least(interval '1 day', (k.expires_at - k.purchased_at) / 10) AS tolerance
    FROM (
        SELECT k.*, count(*) FILTER (WHERE k.is_purchase AND NOT k.is_added_seat AND k.revoked_at IS NULL)
            OVER (PARTITION BY k.sku ORDER BY k.purchased_at, k.transaction_id) AS bought
        FROM repricer.charges k
        WHERE k.original_transaction_id = c.original_transaction_id
            AND (k.sku = c.sku OR k.sku = c.current_sku OR k.sku = ANY (c.former_skus))) k
    OFFSET 0) h
CROSS JOIN LATERAL (
    SELECT c.state = 'effective' AND c.effective_at <= h.purchased_at AS is_in_effect,
        c.currency = h.currency AND (c.storefront = h.storefront OR h.storefront IS NULL) AS is_of_the_place,
        -- Two renewals were charged for one time: this one pays for nothing that follows, or was charged in the middle of the
        -- other. One that the App Store charges up to a day before its period begins is none of these.
        NOT h.is_purchase AND coalesce(h.expires_at <= h.renewed_until AND h.purchased_at < h.renewed_until
            OR h.purchased_at < h.renewed_until - interval '1 minute'
                AND coalesce(h.renewed_until > least(h.purchased_at + interval '1 day', h.purchased_at + h.half)
                    OR h.expires_at < h.renewed_until + h.half, true), false) AS is_double
) t
CROSS JOIN LATERAL (
    SELECT
        CASE
            -- As charged_renewals counts it: in its currency, whatever the storefront, and be it an offer at that very price.
            WHEN t.is_in_effect AND h.currency = c.currency AND h.price_milliunits = c.new_price_milliunits THEN 'new_price'
            WHEN h.is_offer THEN 'offer'
            WHEN NOT t.is_of_the_place THEN 'moved'
            WHEN t.is_in_effect AND u.is_undone THEN 'undone'
            WHEN e.is_back THEN 'new_purchase'
            WHEN NOT t.is_in_effect AND h.price_milliunits = c.current_price_milliunits THEN 'old_price'
            WHEN h.is_purchase THEN 'new_purchase'
        END AS explained_as,
        CASE
            WHEN h.price_milliunits * h.quantity > 0 AND h.refunded_milliunits >= h.price_milliunits * h.quantity
                THEN 'refunded'
            WHEN t.is_double THEN 'double'
            WHEN h.is_relisted THEN 'relisted'
            -- XXX: no statement told its currency, so that its number says nothing.
            WHEN h.currency <> c.currency AND (h.storefront = c.storefront OR h.currency = 'XXX') THEN 'wrong_currency'
            -- Who left may buy again. At the very price of the change it would be in effect, unless it was declined: that has to
            -- be looked at.
            WHEN c.state = 'declined' AND c.reason IS DISTINCT FROM 'parent_declined' AND (h.purchased_at > c.ended_at OR e.is_at_end)
                AND NOT e.is_back THEN 'declined_yet_charged'
            WHEN c.state IN ('declined', 'cancelled', 'lapsed') AND (h.purchased_at > c.ended_at OR e.is_at_end) AND NOT e.is_back
                THEN 'after_end'
            WHEN t.is_in_effect AND e.is_after_end THEN 'after_end'
            -- Above the old price nothing is left to an explanation but ours and an offer's, wherever it was bought, and a part
            -- of our price for a seat that was added.
            WHEN NOT h.is_offer AND h.currency = c.currency AND h.price_milliunits > c.current_price_milliunits
                AND NOT (t.is_in_effect AND (h.price_milliunits = c.new_price_milliunits OR u.is_undone
                    OR h.is_added_seat AND h.price_milliunits < c.new_price_milliunits)) THEN 'other_price'
            WHEN h.is_offer OR NOT t.is_of_the_place OR h.is_purchase OR e.is_back OR (t.is_in_effect AND u.is_undone)
                THEN CASE WHEN h.refunded_milliunits > 0 THEN 'refunded' END
            WHEN h.price_milliunits <> CASE WHEN t.is_in_effect THEN c.new_price_milliunits
                ELSE c.current_price_milliunits END THEN 'other_price'
            WHEN h.refunded_milliunits > 0 THEN 'refunded'
        END AS exception
    FROM (SELECT NOT a.is_alone AND EXISTS (
            SELECT FROM repricer.price_changes u
            WHERE u.original_transaction_id = c.original_transaction_id AND u.undoes_change_id = c.change_id
                AND u.scheduled_at IS NOT NULL AND h.price_milliunits = u.new_price_milliunits) AS is_undone,
        -- A failed charge that is made up for in its grace period keeps the date of its period.
        EXISTS (
            SELECT FROM repricer.told_statements q
            WHERE q.original_transaction_id = c.original_transaction_id
                AND q.type IN ('DID_FAIL_TO_RENEW', 'GRACE_PERIOD_EXPIRED')
                AND q.signed_at > h.purchased_at - h.tolerance AND q.signed_at < h.purchased_at + h.half) AS had_failed) u
    CROSS JOIN LATERAL (
        -- A renewal though the subscription was told to have ended: after a time that nobody paid for, or at the end itself.
        -- Who comes back buys it again. Where no statement told of that purchase, a later one may tell when it began: Apple's
        -- recentSubscriptionStartDate leaves out lapses of 60 days or fewer.
        SELECT t.is_in_effect AND NOT h.is_purchase AND CASE
            WHEN h.paid_before_until < h.purchased_at - interval '1 minute' THEN EXISTS (
                SELECT FROM repricer.told_statements q
                WHERE q.original_transaction_id = c.original_transaction_id AND q.type = 'EXPIRED'
                    AND q.signed_at > h.paid_before_until - interval '1 day' AND q.signed_at < h.purchased_at)
                AND NOT EXISTS (
                SELECT FROM repricer.told_statements q
                WHERE q.original_transaction_id = c.original_transaction_id AND q.signed_at > h.purchased_at - interval '1 day'
                    AND (q.statement #>> '{renewal,recentSubscriptionStartAt}')::numeric
                        BETWEEN extract(epoch FROM h.paid_before_until + interval '1 minute') * 1000
                            AND extract(epoch FROM h.purchased_at) * 1000)
            -- The end of its own period is told at expires_at.
            ELSE coalesce(h.revoked_at > h.purchased_at + h.half, true) AND EXISTS (
                SELECT FROM repricer.told_statements q
                WHERE q.original_transaction_id = c.original_transaction_id AND q.type = 'EXPIRED'
                    AND q.signed_at > h.purchased_at - h.tolerance AND q.signed_at < h.purchased_at + h.half)
                AND NOT u.had_failed
            END AS is_after_end,
        -- The same of a change that ended by it. The end is signed at the former expires_at or later; the period that begins
        -- there is after the end. A refund, and an item that was dropped in mid period, end what had been charged.
        NOT h.is_purchase AND h.purchased_at <= c.ended_at
            AND c.ended_at < h.purchased_at + CASE WHEN c.reason = 'item_missing_at_renewal' THEN h.tolerance ELSE h.half END
            AND c.reason IS DISTINCT FROM 'refunded_or_revoked' AND c.reason IS DISTINCT FROM 'item_refunded'
            AND h.purchased_at >= h.paid_before_until - interval '1 minute' AND coalesce(h.revoked_at > c.ended_at, true)
            AND NOT u.had_failed AS is_at_end,
        -- The customer bought it again after the change had ended, or in effect at the old price or less; or a renewal at that
        -- price. In effect only who had left buys it again: it was told to have ended, or nothing was paid for then. A
        -- modification within a paid period explains no renewal.
        (c.state IN ('declined', 'cancelled', 'lapsed') AND h.purchased_at > c.ended_at
                AND (h.price_milliunits <> c.new_price_milliunits OR h.currency <> c.currency)
            OR t.is_in_effect AND h.price_milliunits <= c.current_price_milliunits)
            AND (h.is_purchase OR EXISTS (
                SELECT FROM repricer.charges b
                WHERE b.original_transaction_id = c.original_transaction_id
                    AND (b.sku = c.sku OR b.sku = c.current_sku OR b.sku = ANY (c.former_skus)) AND b.is_purchase
                    AND NOT b.is_added_seat
                    AND b.purchased_at > CASE WHEN t.is_in_effect THEN c.effective_at ELSE c.ended_at END AND b.purchased_at < h.purchased_at
                    AND b.currency = h.currency AND b.price_milliunits = h.price_milliunits
                    AND (NOT t.is_in_effect OR EXISTS (
                        SELECT FROM repricer.told_statements q
                        WHERE q.original_transaction_id = c.original_transaction_id AND q.type = 'EXPIRED'
                            AND q.signed_at > c.effective_at AND q.signed_at < b.purchased_at) OR NOT EXISTS (
                        SELECT FROM repricer.charges p
                        WHERE p.original_transaction_id = c.original_transaction_id
                            AND (p.sku = c.sku OR p.sku = c.current_sku OR p.sku = ANY (c.former_skus))
                            AND p.purchased_at < b.purchased_at
                            AND coalesce(p.expires_at > b.purchased_at - interval '1 minute', true) AND p.revoked_at IS NULL
                            AND (p.refunded_milliunits = 0
                                OR p.refunded_milliunits < p.price_milliunits * p.quantity))))) AS is_back) e
) w
-- From the first call on that may have reached the App Store.
WHERE h.purchased_at >= coalesce(least(c.sent_at, c.doubtful_since), c.scheduled_at, c.refused_at) AND c.undoes_change_id IS NULL
    AND (c.state NOT IN ('ineligible', 'missed', 'aborted') OR r.is_refused)
    -- What the App Store refused explains nothing. But a renewal above the old price, or at the price that was refused, has to
    -- be looked at where no other change is about it, and the customer has not bought it at that price since.
    AND (NOT r.is_refused OR coalesce(c.sent_at, c.refused_at) IS NOT NULL AND NOT h.is_purchase AND NOT h.is_offer AND t.is_of_the_place
        AND (h.price_milliunits > c.current_price_milliunits
            OR h.price_milliunits = c.new_price_milliunits AND h.price_milliunits < c.current_price_milliunits)
        AND NOT EXISTS (
            SELECT FROM repricer.charges b
            WHERE b.original_transaction_id = c.original_transaction_id
                AND (b.sku = c.sku OR b.sku = c.current_sku OR b.sku = ANY (c.former_skus)) AND b.is_purchase AND NOT b.is_added_seat
                AND b.purchased_at >= coalesce(c.sent_at, c.refused_at) AND b.purchased_at < h.purchased_at
                AND b.currency = h.currency AND b.price_milliunits = h.price_milliunits)
        -- Rows that were refused do not follow a rename, so that the charge's own name decides.
        AND (a.is_alone OR NOT EXISTS (
            SELECT FROM repricer.price_changes n
            WHERE n.original_transaction_id = c.original_transaction_id AND n.change_id <> c.change_id
                AND (h.sku = n.sku OR h.sku = n.current_sku OR h.sku = ANY (n.former_skus))
                AND h.purchased_at >= coalesce(least(n.sent_at, n.doubtful_since), n.scheduled_at, n.refused_at)
                AND CASE WHEN n.state = 'rejected' OR n.refused_at IS NOT NULL AND n.doubtful_since IS NULL
                        AND n.state IN ('queued', 'ineligible', 'missed', 'aborted')
                    THEN (coalesce(n.sent_at, n.refused_at), n.change_id) > (coalesce(c.sent_at, c.refused_at), c.change_id)
                    ELSE n.state NOT IN ('ineligible', 'missed', 'aborted') END
            OFFSET 0)))
    AND (r.is_refused OR a.is_alone OR NOT EXISTS (
        SELECT FROM repricer.price_changes n
        WHERE n.original_transaction_id = c.original_transaction_id AND n.change_id <> c.change_id
            AND coalesce(n.current_sku, n.sku) = coalesce(c.current_sku, c.sku) AND n.undoes_change_id IS NULL
            AND n.state NOT IN ('rejected', 'ineligible', 'missed', 'aborted')
            AND h.purchased_at >= coalesce(least(n.sent_at, n.doubtful_since), n.scheduled_at)
            AND (n.state = 'effective' AND n.effective_at <= h.purchased_at
                    AND n.new_price_milliunits = h.price_milliunits AND n.currency = h.currency
                    AND NOT EXISTS (
                        SELECT FROM repricer.price_changes y
                        WHERE y.original_transaction_id = n.original_transaction_id AND y.state = 'effective'
                            AND y.undoes_change_id IS NULL
                            AND coalesce(y.current_sku, y.sku) = coalesce(n.current_sku, n.sku)
                            AND y.effective_at <= h.purchased_at
                            AND (y.effective_at, y.change_id) > (n.effective_at, n.change_id)),
                coalesce(least(n.sent_at, n.doubtful_since), n.scheduled_at), n.change_id)
                > (t.is_in_effect AND c.new_price_milliunits = h.price_milliunits AND c.currency = h.currency
                    AND NOT EXISTS (
                        SELECT FROM repricer.price_changes y
                        WHERE y.original_transaction_id = c.original_transaction_id AND y.state = 'effective'
                            AND y.undoes_change_id IS NULL
                            AND coalesce(y.current_sku, y.sku) = coalesce(c.current_sku, c.sku)
                            AND y.effective_at <= h.purchased_at
                            AND (y.effective_at, y.change_id) > (c.effective_at, c.change_id)),
                coalesce(least(c.sent_at, c.doubtful_since), c.scheduled_at), c.change_id)
        OFFSET 0));
COMMENT ON VIEW repricer.explained_charges IS
    'Each charge since the call of a change of its item: why it is as it is, or what is wrong with it.';

-- A renewal is missing where a paid period ended, a later one is known, and no statement in between tells why no charge
-- came: a failed charge, say, or an end. Where several periods have passed, each of their renewals is. The Sandbox's short
-- periods count alike. A statement tells it where it is about the paid period of this item. It belongs to the change in
-- effect, else to the newest that had been called by then.
CREATE VIEW repricer.missing_renewals AS
SELECT c.batch_id, c.original_transaction_id, c.change_id, h.sku, missed.at AS occurred_at,
    -- The first charge at the new price may be the one that is missing.
    repricer.fitting(CASE WHEN h.currency <> c.currency THEN NULL
        -- The App Store may date a renewal some moments off.
        WHEN t.is_in_effect OR c.state = 'effective' AND missed.at >= c.due_effective_at - least(interval '1 hour', h.length / 10)
            THEN c.new_price_milliunits
        ELSE c.current_price_milliunits END::numeric * CASE WHEN h.paid_by = 1 AND NOT h.is_added_seat THEN h.quantity ELSE coalesce((
            SELECT repricer.seats_of(array_agg(k)) FROM repricer.charges k
            WHERE k.original_transaction_id = c.original_transaction_id
                AND (k.sku = c.sku OR k.sku = c.current_sku OR k.sku = ANY (c.former_skus))
                AND k.expires_at = h.expires_at), 1) END, 'the seats of price change ' || c.change_id) AS expected_milliunits,
    h.currency, h.storefront, c.bucket
FROM repricer.price_changes c
-- OFFSET 0 has the same reason as in explained_charges. What follows in time is out before anything else is asked of it.
CROSS JOIN LATERAL (
    -- All are charges of one item, whatever it was called. Of two at one instant the first one speaks.
    SELECT k.*, min(k.purchased_at) OVER (ORDER BY k.purchased_at
        RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE GROUP) AS next_at,
        row_number() OVER (PARTITION BY k.purchased_at ORDER BY k.is_purchase, k.transaction_id, k.sku) AS place,
        max(k.expires_at) FILTER (WHERE k.revoked_at IS NULL AND (k.refunded_milliunits = 0
            OR k.refunded_milliunits < k.price_milliunits * k.quantity))
            OVER (PARTITION BY k.bought ORDER BY k.purchased_at) AS kept_until,
        count(*) OVER (PARTITION BY k.expires_at) AS paid_by,
        -- A seat that is added in the middle of a period has no beginning of its own, and no length.
        min(k.purchased_at) OVER (PARTITION BY k.expires_at) AS began_at,
        k.expires_at - min(k.purchased_at) OVER (PARTITION BY k.expires_at) AS length
    FROM (
        SELECT k.*, count(*) FILTER (WHERE k.is_purchase AND NOT k.is_added_seat AND k.revoked_at IS NULL)
            OVER (ORDER BY k.purchased_at) AS bought
        FROM repricer.charges k
        WHERE k.original_transaction_id = c.original_transaction_id
            AND (k.sku = c.sku OR k.sku = c.current_sku OR k.sku = ANY (c.former_skus))) k
    OFFSET 0) h
CROSS JOIN LATERAL (
    SELECT c.state = 'effective' AND h.purchased_at >= c.effective_at AS is_in_effect,
        least(interval '1 day', h.length / 10) AS tolerance,
        -- A seat that was added may bear the end that the period had before it was extended.
        greatest(h.expires_at, h.kept_until) AS ends_at,
        -- What follows an extended period, or one that an offer paid for at once, is as long as the plan of the customer is.
        CASE WHEN h.length < interval '6 days' THEN h.length ELSE CASE coalesce(h.period, c.period)
            WHEN 'P1W' THEN interval '7 days' WHEN 'P2M' THEN interval '2 months' WHEN 'P3M' THEN interval '3 months'
            WHEN 'P6M' THEN interval '6 months' WHEN 'P1Y' THEN interval '1 year' ELSE interval '1 month' END END AS step) t
CROSS JOIN LATERAL (
    -- The next known renewal: that of a charge, or of the running period.
    SELECT least(h.next_at, CASE WHEN p.purchased_at > h.purchased_at THEN p.purchased_at END) AS at
    FROM (SELECT (SELECT s.purchased_at FROM repricer.subscriptions s
        WHERE s.original_transaction_id = c.original_transaction_id) AS purchased_at OFFSET 0) p
    WHERE h.expires_at IS NOT NULL
        AND coalesce(h.next_at > t.ends_at + t.tolerance, true)
    OFFSET 0
) next
CROSS JOIN LATERAL (
    -- Months are added in UTC, whatever the session's zone: to the start of the paid period where that is one step long, so
    -- that a short month does not move what follows it, and else to its end. A charge that was recovered on one of the last
    -- days of a month may so have its further dates up to three days too late.
    SELECT d.at
    FROM generate_series(0, least(400, greatest(0, extract(epoch FROM next.at - t.ends_at)
        / greatest(1, extract(epoch FROM t.step))))::integer) AS n (n)
    CROSS JOIN LATERAL (
        SELECT CASE WHEN h.began_at AT TIME ZONE 'UTC' + t.step = t.ends_at AT TIME ZONE 'UTC'
            THEN h.began_at AT TIME ZONE 'UTC' + (n.n + 1) * t.step
            ELSE t.ends_at AT TIME ZONE 'UTC' + n.n * t.step END AT TIME ZONE 'UTC' AS at) d
    WHERE n.n = 0 OR extract(epoch FROM next.at - d.at) > extract(epoch FROM t.step) / 2
) missed
WHERE h.place = 1 AND c.undoes_change_id IS NULL AND c.state NOT IN ('rejected', 'ineligible', 'missed', 'aborted')
    AND next.at > t.ends_at + t.tolerance
    -- The item was revoked within the period, or all was given back and it was never charged again; and no other charge pays
    -- for the end of the period.
    AND NOT ((h.revoked_at IS NOT NULL AND h.revoked_at <= h.expires_at + interval '1 day'
            OR h.next_at IS NULL AND h.refunded_milliunits > 0 AND h.refunded_milliunits >= h.price_milliunits * h.quantity)
        AND coalesce(h.kept_until < h.expires_at - t.tolerance, true))
    -- Before it is in effect, from its call until its end.
    AND (t.is_in_effect OR missed.at >= coalesce(c.sent_at, c.doubtful_since, c.scheduled_at)
        AND (c.state NOT IN ('declined', 'cancelled', 'lapsed', 'invalidated') OR next.at < c.ended_at)
        AND NOT EXISTS (
            SELECT FROM repricer.price_changes o
            WHERE o.original_transaction_id = c.original_transaction_id AND o.change_id <> c.change_id
                AND o.undoes_change_id IS NULL AND coalesce(o.current_sku, o.sku) = coalesce(c.current_sku, c.sku)
                AND (o.state = 'effective' AND o.effective_at <= h.purchased_at
                    OR o.state NOT IN ('rejected', 'ineligible', 'missed', 'aborted')
                    AND (o.state NOT IN ('declined', 'cancelled', 'lapsed', 'invalidated') OR next.at < o.ended_at)
                    AND coalesce(o.sent_at, o.doubtful_since, o.scheduled_at) <= missed.at
                    AND (coalesce(o.sent_at, o.doubtful_since, o.scheduled_at), o.change_id)
                        > (coalesce(c.sent_at, c.doubtful_since, c.scheduled_at), c.change_id))))
    AND NOT EXISTS (
        SELECT FROM repricer.told_statements e
        WHERE e.original_transaction_id = h.original_transaction_id
            AND (e.type IN ('DID_FAIL_TO_RENEW', 'GRACE_PERIOD_EXPIRED', 'EXPIRED', 'SUBSCRIBED', 'REVOKE',
                    'RENEWAL_EXTENDED', 'OFFER_REDEEMED', 'DID_CHANGE_RENEWAL_PREF')
                -- A charge that is recovered tells that the one before it had failed, wherever the word of that is.
                OR e.type = 'DID_RENEW' AND e.subtype = 'BILLING_RECOVERY'
                    AND missed.at BETWEEN e.signed_at - interval '61 days' AND e.signed_at)
            -- An extension that tells the new end has moved that of the charge: the renewal is due then. Seats come and go
            -- without another plan, and who has just bought it goes on to renew.
            AND (e.type <> 'RENEWAL_EXTENDED' OR NOT e.tells_end)
            AND (e.type <> 'SUBSCRIBED' OR e.signed_at > h.began_at + h.length / 2)
            AND e.signed_at BETWEEN h.began_at AND next.at + interval '1 day'
            -- A failed charge is tried again for 60 days. It proves nothing about a renewal before it, or later than that.
            -- What ends by it may be told only then. An end tells of all that would have come after it.
            AND (e.type <> 'DID_FAIL_TO_RENEW'
                OR missed.at BETWEEN e.signed_at - interval '1 day' AND e.signed_at + interval '61 days')
            AND (e.type <> 'GRACE_PERIOD_EXPIRED'
                OR missed.at BETWEEN e.signed_at - interval '61 days' AND e.signed_at + interval '61 days')
            AND (e.type <> 'EXPIRED' OR missed.at >= e.signed_at - interval '61 days')
            -- Another plan is chosen for the renewals that follow. Without a subtype the choice was taken back; and what the
            -- customer changed by buying this very period is this plan.
            AND (e.type <> 'DID_CHANGE_RENEWAL_PREF' OR e.subtype IN ('UPGRADE', 'DOWNGRADE')
                AND e.signed_at <= missed.at + interval '1 day'
                -- The choice is about another item where this one renews as before.
                AND NOT coalesce((e.statement #> '{renewal,items}' @> jsonb_build_array(jsonb_build_object('sku', h.sku))
                        OR e.statement #> '{renewal,items}'
                            @> jsonb_build_array(jsonb_build_object('sku', coalesce(c.current_sku, c.sku))))
                    AND e.statement #>> '{renewal,period}' = coalesce(h.period, c.period), false)
                AND NOT (h.is_purchase AND NOT h.is_added_seat AND e.signed_at <= h.purchased_at + t.tolerance)
                AND NOT EXISTS (
                    SELECT FROM repricer.told_statements b
                    WHERE b.original_transaction_id = h.original_transaction_id AND b.type = 'DID_CHANGE_RENEWAL_PREF'
                        AND coalesce(b.subtype, '') = ''
                        AND b.signed_at > e.signed_at AND b.signed_at <= missed.at + interval '1 day'
                        -- It may be about other items, while this one stays off the renewal.
                        AND (b.statement #> '{renewal,items}' IS NULL
                            OR b.statement #> '{renewal,items}' @> jsonb_build_array(jsonb_build_object('sku', h.sku))
                            OR b.statement #> '{renewal,items}'
                                @> jsonb_build_array(jsonb_build_object('sku', coalesce(c.current_sku, c.sku)))))))
    -- The item fell, by a later change of its own or as a dependent, and the subscription goes on without it.
    AND NOT EXISTS (
        SELECT FROM repricer.price_changes n
        WHERE n.original_transaction_id = c.original_transaction_id AND n.change_id <> c.change_id
            AND n.state IN ('declined', 'cancelled', 'lapsed') AND coalesce(n.current_sku, n.sku) = coalesce(c.current_sku, c.sku)
            AND n.ended_at BETWEEN h.began_at AND next.at)
    AND NOT EXISTS (
        SELECT FROM repricer.dependent_cancellations d
        WHERE d.original_transaction_id = c.original_transaction_id AND d.dependent_sku = h.sku
            AND NOT d.is_cross_subscription AND d.state = 'confirmed'
            AND d.requested_at BETWEEN h.began_at AND next.at)
    AND NOT EXISTS (
        SELECT FROM repricer.price_changes n
        WHERE n.original_transaction_id = c.original_transaction_id AND n.change_id <> c.change_id
            AND n.state = 'effective' AND n.undoes_change_id IS NULL AND coalesce(n.current_sku, n.sku) = coalesce(c.current_sku, c.sku)
            AND n.effective_at <= h.purchased_at AND (n.effective_at, n.change_id) > (c.effective_at, c.change_id));
COMMENT ON VIEW repricer.missing_renewals IS 'Renewals of called changes that no charge tells of.';

-- Until when an item is paid that took a new price and is set to renew. Where nothing is told after that, its renewals have
-- stopped silently: whether the customer still pays is not known. A failed charge may be tried again for 60 days, and a
-- renewal be put off by 90 where nothing says until when.
CREATE VIEW repricer.paid_changes AS
SELECT c.batch_id, c.original_transaction_id, c.bucket, c.change_id, c.currency, c.storefront, c.new_price_milliunits, h.sku,
    CASE WHEN h.paid_by = 1 AND NOT h.is_added_seat THEN h.quantity ELSE coalesce((
        SELECT repricer.seats_of(array_agg(k)) FROM repricer.charges k
        WHERE k.original_transaction_id = c.original_transaction_id
            AND (k.sku = c.sku OR k.sku = c.current_sku OR k.sku = ANY (c.former_skus))
            AND k.purchased_at >= c.effective_at AND k.expires_at = h.expires_at), 1) END AS quantity,
    h.expires_at AS paid_until, greatest(h.expires_at, e.until) AS word_due_at,
    -- What was given back says nothing of the price that goes on.
    g.is_given_back OR h.is_offer OR h.currency = c.currency AND (h.is_added_seat OR h.price_milliunits = c.new_price_milliunits
        OR coalesce(h.price_milliunits = ANY (n.prices), false)) AS is_at_price,
    n.prices IS NULL AS is_newest, g.is_given_back
FROM repricer.price_changes c
-- OFFSET 0: as explained_charges.
CROSS JOIN LATERAL (
    SELECT k.*, count(*) OVER (PARTITION BY k.expires_at) AS paid_by
    FROM repricer.charges k
    WHERE k.original_transaction_id = c.original_transaction_id
        AND (k.sku = c.sku OR k.sku = c.current_sku OR k.sku = ANY (c.former_skus))
        AND k.purchased_at >= c.effective_at AND k.expires_at IS NOT NULL
    -- A seat that was added, or a second charge, may be given back while the period stays paid.
    -- What a seat costs that was added may be a part of the price, and says nothing of the price that goes on.
    ORDER BY k.expires_at DESC, k.revoked_at IS NOT NULL,
        k.refunded_milliunits > 0 AND k.refunded_milliunits >= k.price_milliunits * k.quantity, k.is_added_seat,
        k.purchased_at DESC, k.transaction_id LIMIT 1) h
CROSS JOIN LATERAL (
    -- It falls silent like any other that is told no more, and then brings nothing in a further period. But no charge of it
    -- is missing: that none came may be what the refund was for.
    SELECT h.refunded_milliunits > 0 AND h.refunded_milliunits >= h.price_milliunits * h.quantity AS is_given_back) g
CROSS JOIN LATERAL (
    SELECT coalesce(bool_or(t.type IN ('EXPIRED', 'REVOKE')), false) AS is_ended,
        -- An extension that tells the new end has moved that of the charge.
        max(t.signed_at + CASE t.type WHEN 'RENEWAL_EXTENDED' THEN interval '90 days' ELSE interval '61 days' END)
            FILTER (WHERE t.type NOT IN ('EXPIRED', 'REVOKE') AND (t.type <> 'RENEWAL_EXTENDED' OR NOT t.tells_end)) AS until
    FROM repricer.told_statements t
    WHERE t.original_transaction_id = c.original_transaction_id AND t.signed_at > h.purchased_at
        AND t.type IN ('EXPIRED', 'REVOKE', 'DID_FAIL_TO_RENEW', 'GRACE_PERIOD_EXPIRED', 'RENEWAL_EXTENDED')) e
-- The prices of changes that took effect after it: what it added stays in them.
CROSS JOIN LATERAL (
    SELECT array_agg(o.new_price_milliunits) AS prices FROM repricer.price_changes o
    WHERE o.original_transaction_id = c.original_transaction_id AND o.change_id <> c.change_id
        AND o.state = 'effective' AND o.undoes_change_id IS NULL
        AND coalesce(o.current_sku, o.sku) = coalesce(c.current_sku, c.sku)
        AND (o.effective_at, o.change_id) > (c.effective_at, c.change_id)) n
WHERE c.state = 'effective' AND NOT c.is_leaving AND c.undoes_change_id IS NULL AND NOT e.is_ended AND h.revoked_at IS NULL;
COMMENT ON VIEW repricer.paid_changes IS
    'Effective changes whose item is set to renew: until when it is paid, whether at the new price or one set since, and by when '
    'something must be told of it. Where the last charge was given back as a whole, until when it paid.';

-- Silence of one tells something only as far as others are heard: until the newest charge of anybody. A notification may
-- come days late.
CREATE VIEW repricer.heard_charges AS
SELECT max(e.occurred_at) - interval '3 days' AS until FROM repricer.money_entries e WHERE e.occurred_at <= report.as_of();
COMMENT ON VIEW repricer.heard_charges IS 'Whose next word was due before it is silent: three days before the newest charge of anybody.';

-- What stops so before its change is in effect: the renewal before it, at the old price; and the one that it is due at, at the
-- new price, where no consent is awaited any more. Else nobody knows whether one was due (silent_past_renewal); nor is one due
-- of an item that is replaced, or not set to renew, or of a charge that is tried again. What is paid for is out at once.
CREATE VIEW repricer.silent_open_changes AS
SELECT c.batch_id, c.original_transaction_id, c.bucket, c.change_id, h.sku, h.expires_at AS occurred_at,
    repricer.fitting(CASE WHEN h.currency <> c.currency THEN NULL
        WHEN t.is_before THEN c.current_price_milliunits ELSE c.new_price_milliunits END::numeric
        * CASE WHEN h.paid_by = 1 AND NOT h.is_added_seat THEN h.quantity ELSE coalesce((
            SELECT repricer.seats_of(array_agg(k)) FROM repricer.charges k
            WHERE k.original_transaction_id = c.original_transaction_id
                AND (k.sku = c.sku OR k.sku = c.current_sku OR k.sku = ANY (c.former_skus))
                AND k.expires_at = h.expires_at), 1) END, 'the seats of price change ' || c.change_id) AS expected_milliunits,
    h.currency, h.storefront
FROM repricer.price_changes c
CROSS JOIN (SELECT d.until FROM repricer.heard_charges d) d
LEFT JOIN repricer.subscriptions s ON s.original_transaction_id = c.original_transaction_id AND s.bucket = c.bucket
-- OFFSET 0 and the order of charges: as paid_changes.
CROSS JOIN LATERAL (
    SELECT k.*, count(*) OVER (PARTITION BY k.expires_at) AS paid_by
    FROM repricer.charges k
    WHERE k.original_transaction_id = c.original_transaction_id
        AND (k.sku = c.sku OR k.sku = c.current_sku OR k.sku = ANY (c.former_skus)) AND k.expires_at IS NOT NULL
    ORDER BY k.expires_at DESC, k.revoked_at IS NOT NULL,
        k.refunded_milliunits > 0 AND k.refunded_milliunits >= k.price_milliunits * k.quantity, k.is_added_seat,
        k.purchased_at DESC, k.transaction_id LIMIT 1) h
CROSS JOIN LATERAL (
    SELECT coalesce(bool_or(t.type IN ('EXPIRED', 'REVOKE')), false) AS is_ended,
        max(t.signed_at + CASE t.type WHEN 'RENEWAL_EXTENDED' THEN interval '90 days' ELSE interval '61 days' END)
            FILTER (WHERE t.type IN ('DID_FAIL_TO_RENEW', 'GRACE_PERIOD_EXPIRED')
                OR t.type = 'RENEWAL_EXTENDED' AND NOT t.tells_end) AS until,
        -- What was told last: a status that was read tells it, too.
        coalesce((array_agg(t.statement #>> '{renewal,autoRenewStatus}' ORDER BY t.signed_at DESC, t.evidence_id DESC)
            FILTER (WHERE t.statement #>> '{renewal,autoRenewStatus}' IS NOT NULL))[1] = '0', false) AS is_off,
        coalesce((array_agg(t.statement #>> '{status}' ORDER BY t.signed_at DESC, t.evidence_id DESC)
            FILTER (WHERE t.statement #>> '{status}' IS NOT NULL))[1] <> '1', false) AS is_in_trouble
    FROM repricer.told_statements t
    WHERE t.original_transaction_id = c.original_transaction_id AND t.signed_at > h.purchased_at) e
-- The App Store may date a renewal some moments off.
CROSS JOIN LATERAL (
    SELECT h.expires_at < c.due_effective_at - least(interval '1 hour', (h.expires_at - h.purchased_at) / 10) AS is_before) t
WHERE c.stage IN ('scheduled', 'pending_consent', 'accepted') AND c.undoes_change_id IS NULL
    AND c.reason IS DISTINCT FROM 'item_replaced' AND coalesce(s.expires_at, '-infinity') < d.until
    AND greatest(h.expires_at, e.until) < d.until AND NOT e.is_ended AND NOT e.is_off
    -- A charge is tried again for 60 days, be it told of by a status alone.
    AND (NOT e.is_in_trouble OR h.expires_at + interval '61 days' < d.until)
    AND h.expires_at >= coalesce(c.sent_at, c.doubtful_since, c.scheduled_at)
    AND (t.is_before OR c.stage = 'accepted' OR c.stage = 'scheduled' AND c.direction = 'decrease')
    AND h.revoked_at IS NULL AND (h.refunded_milliunits = 0 OR h.refunded_milliunits < h.price_milliunits * h.quantity)
    -- Where a later period runs, the renewals until then are those of missing_renewals; and where an earlier change is in effect
    -- it is that one's renewal.
    AND coalesce(s.purchased_at <= h.purchased_at, true)
    AND NOT EXISTS (
        SELECT FROM repricer.price_changes o
        WHERE o.original_transaction_id = c.original_transaction_id AND o.change_id <> c.change_id
            AND o.state = 'effective' AND o.undoes_change_id IS NULL
            AND coalesce(o.current_sku, o.sku) = coalesce(c.current_sku, c.sku) AND o.effective_at <= h.purchased_at);
COMMENT ON VIEW repricer.silent_open_changes IS
    'Renewals that nothing tells of any more, of changes that the App Store has and that are not in effect.';

CREATE VIEW repricer.live_charge_exceptions AS
SELECT x.batch_id, x.original_transaction_id, x.change_id, x.transaction_id, x.sku, x.exception,
    x.purchased_at AS occurred_at, x.price_milliunits * x.quantity AS amount_milliunits,
    repricer.fitting(x.expected_milliunits::numeric * x.quantity, 'the seats of transaction ' || x.transaction_id
        || ', as expected,') AS expected_milliunits, x.refunded_milliunits, x.currency, x.storefront, x.bucket
FROM repricer.explained_charges x WHERE x.exception IS NOT NULL
UNION ALL
SELECT r.batch_id, r.original_transaction_id, r.change_id, NULL, r.sku, 'missing', r.occurred_at, 0,
    r.expected_milliunits, 0, r.currency, r.storefront, r.bucket
FROM repricer.missing_renewals r
UNION ALL
SELECT p.batch_id, p.original_transaction_id, p.change_id, NULL, p.sku, 'missing', p.paid_until, 0,
    repricer.fitting(p.new_price_milliunits::numeric * p.quantity, 'the seats of price change ' || p.change_id), 0, p.currency, p.storefront, p.bucket
FROM repricer.paid_changes p
WHERE p.is_newest AND NOT p.is_given_back AND p.word_due_at < (SELECT d.until FROM repricer.heard_charges d)
    AND NOT EXISTS (
        SELECT FROM repricer.missing_renewals r
        WHERE r.original_transaction_id = p.original_transaction_id AND r.change_id = p.change_id AND r.sku = p.sku
            AND r.occurred_at = p.paid_until)
UNION ALL
SELECT o.batch_id, o.original_transaction_id, o.change_id, NULL, o.sku, 'missing', o.occurred_at, 0, o.expected_milliunits, 0,
    o.currency, o.storefront, o.bucket
FROM repricer.silent_open_changes o;
COMMENT ON VIEW repricer.live_charge_exceptions IS
    'What kept_exceptions keeps, computed from the facts, and who is silent.';

-- The figures of a change, from the facts ---------------------------------------------------------------------------------

CREATE VIEW repricer.live_change_figures AS
SELECT c.original_transaction_id, c.bucket, c.change_id, c.batch_id, c.undoes_change_id IS NOT NULL AS is_undo, c.direction,
    c.forecast_consent, c.currency, c.storefront, c.period, c.state,
    coalesce(c.sent_at, c.scheduled_at, c.consent_asked_at, c.accepted_at, c.effective_at) IS NOT NULL AS is_sent,
    -- Nobody consents or declines unasked: the notification that told of the question was lost.
    c.consent_asked_at IS NOT NULL OR coalesce(c.acceptance = 'consented', false)
        OR c.state = 'declined' AND c.reason IS DISTINCT FROM 'parent_declined' AS is_asked, c.acceptance,
    c.state = 'effective' AND NOT EXISTS (
        SELECT FROM repricer.charges h
        WHERE h.original_transaction_id = c.original_transaction_id
            AND (h.sku = c.sku OR h.sku = c.current_sku OR h.sku = ANY (c.former_skus))
            AND h.purchased_at >= c.effective_at AND h.price_milliunits = c.new_price_milliunits
            AND h.currency = c.currency) AS is_uncharged,
    c.current_price_milliunits, c.new_price_milliunits, coalesce(r.renewals, 0) AS renewals, r.first_at,
    coalesce(r.old_total_milliunits, 0) AS old_total_milliunits, coalesce(r.new_total_milliunits, 0) AS new_total_milliunits,
    c.stage,
    c.stage NOT IN ('awaiting_approval', 'queued', 'unknown', 'scheduled', 'pending_consent', 'accepted') AS is_final,
    -- Who is charged at another price by now brings no more of this one.
    c.is_leaving OR NOT coalesce(p.is_at_price, true) AS is_leaving,
    coalesce(c.consent_asked_at, c.accepted_at) IS NOT NULL AS is_told,
    c.state IN ('declined', 'cancelled') AND coalesce(c.reason = 'parent_declined', false) AS fell_with_parent,
    coalesce(o.lost_milliunits, 0) AS others_lost_milliunits, coalesce(r.taxed_renewals, 0) AS taxed_renewals,
    coalesce(r.taxed_uplift_milliunits, 0) AS taxed_uplift_milliunits, p.paid_until, p.word_due_at, p.sku AS paid_sku,
    p.quantity AS paid_quantity,
    -- Whoever reads it multiplies it by the prices.
    CASE WHEN coalesce(q.seats, c.forecast_seats) = 1 OR repricer.fitting(coalesce(q.seats, c.forecast_seats)
            * greatest(c.current_price_milliunits, c.new_price_milliunits)::numeric,
            'the seats of price change ' || c.change_id) IS NOT NULL
        THEN coalesce(q.seats, c.forecast_seats) END AS seats
FROM repricer.price_changes c
LEFT JOIN LATERAL (
    -- A price is that of one seat, and the last period was charged for so many. That a further period has as many is an
    -- inference.
    SELECT CASE WHEN p.paid_by = 1 THEN p.quantity ELSE coalesce((
        SELECT repricer.seats_of(array_agg(k)) FROM repricer.charges k
        WHERE k.original_transaction_id = c.original_transaction_id
            AND (k.sku = c.sku OR k.sku = c.current_sku OR k.sku = ANY (c.former_skus)) AND k.currency = c.currency
            AND (c.state = 'effective' OR k.purchased_at <= c.ended_at)
            AND coalesce(k.expires_at, k.purchased_at) = p.until), p.quantity) END AS seats
    FROM (
        SELECT coalesce(k.expires_at, k.purchased_at) AS until, count(*) AS paid_by, max(k.quantity) AS quantity
        FROM repricer.charges k
        WHERE k.original_transaction_id = c.original_transaction_id
            AND (k.sku = c.sku OR k.sku = c.current_sku OR k.sku = ANY (c.former_skus)) AND k.currency = c.currency
            AND (c.state = 'effective' OR k.purchased_at <= c.ended_at)
        GROUP BY 1 ORDER BY 1 DESC LIMIT 1) p
) q ON c.state IN ('effective', 'declined', 'cancelled', 'lapsed')
LEFT JOIN LATERAL (
    -- One at most. As a sum it is left out where nobody asks for it.
    SELECT max(k.paid_until) AS paid_until, max(k.word_due_at) AS word_due_at,
        max(k.sku) FILTER (WHERE k.is_newest AND NOT k.is_given_back) AS sku,
        max(k.quantity) FILTER (WHERE k.is_newest AND NOT k.is_given_back) AS quantity,
        bool_and(k.is_at_price) AS is_at_price
    FROM repricer.paid_changes k
    WHERE c.state = 'effective' AND k.original_transaction_id = c.original_transaction_id AND k.change_id = c.change_id
) p ON true
LEFT JOIN LATERAL (
    -- The last charge of each other item, where the period that it paid for was the last one.
    SELECT repricer.fitting(sum(l.price_milliunits::numeric * CASE WHEN l.paid_by = 1 THEN l.quantity ELSE coalesce((
            SELECT repricer.seats_of(array_agg(k)) FROM repricer.charges k
            WHERE k.original_transaction_id = c.original_transaction_id AND k.sku = l.sku AND k.currency = c.currency
                AND k.purchased_at <= c.ended_at
                AND coalesce(k.expires_at, k.purchased_at) = coalesce(l.expires_at, l.purchased_at)), l.quantity) END),
        'the other items that price change ' || c.change_id || ' took along') AS lost_milliunits
    FROM (
        SELECT DISTINCT ON (h.sku) h.sku, h.price_milliunits, h.purchased_at, h.expires_at, count(*) OVER period AS paid_by,
            max(h.quantity) OVER period AS quantity
        FROM repricer.charges h
        WHERE h.original_transaction_id = c.original_transaction_id AND h.purchased_at <= c.ended_at
            AND h.currency = c.currency AND h.sku <> c.sku AND h.sku IS DISTINCT FROM c.current_sku
            AND (c.former_skus IS NULL OR h.sku <> ALL (c.former_skus))
        WINDOW period AS (PARTITION BY h.sku, coalesce(h.expires_at, h.purchased_at))
        ORDER BY h.sku, h.purchased_at DESC, h.transaction_id) l
    WHERE c.state = 'declined' AND c.reason IS DISTINCT FROM 'parent_declined' AND c.undoes_change_id IS NULL
        AND l.expires_at + (l.expires_at - l.purchased_at) / 2 > c.ended_at
        AND EXISTS (
            SELECT FROM repricer.told_statements e
            WHERE e.original_transaction_id = c.original_transaction_id AND e.type = 'EXPIRED'
                AND e.subtype = 'PRICE_INCREASE'
                AND e.signed_at BETWEEN c.ended_at - interval '1 day' AND c.ended_at + interval '1 day')
        -- What is lost by a change of its own, or as a dependent, is counted there; and all of it under one change.
        AND NOT EXISTS (
            SELECT FROM repricer.price_changes n
            WHERE n.original_transaction_id = c.original_transaction_id AND n.undoes_change_id IS NULL
                AND (n.state = 'declined' AND (l.sku = ANY (n.dependent_skus) OR l.sku = ANY (n.current_dependent_skus)
                        OR n.change_id < c.change_id AND n.reason IS DISTINCT FROM 'parent_declined'
                            AND n.ended_at > c.ended_at - interval '1 day')
                    OR l.sku IN (n.sku, n.current_sku) AND (n.state = 'declined' OR n.reason = 'parent_declined'
                        OR n.state = 'cancelled' AND n.direction = 'increase'
                            AND coalesce(n.consent_asked_at, n.accepted_at) IS NOT NULL)))
) o ON c.state = 'declined'
LEFT JOIN LATERAL (
    SELECT count(*) AS renewals, min(h.purchased_at) AS first_at,
        repricer.fitting(sum(h.old_price_milliunits), 'the renewals of price change ' || c.change_id || ', at the old price,')
            AS old_total_milliunits,
        repricer.fitting(sum(h.price_milliunits), 'the renewals of price change ' || c.change_id) AS new_total_milliunits,
        count(h.tax_exclusive_milliunits) AS taxed_renewals,
        repricer.fitting(sum(h.tax_exclusive_milliunits - round(h.old_price_milliunits::numeric * h.tax_exclusive_milliunits
            / nullif(h.price_milliunits, 0))), 'the uplift without tax of price change ' || c.change_id)
            AS taxed_uplift_milliunits
    -- OFFSET 0 makes PostgreSQL search the tax of a renewal once, and not for each of these that name it.
    FROM (
        SELECT n.* FROM repricer.charged_renewals n
        WHERE c.state = 'effective' AND n.original_transaction_id = c.original_transaction_id AND n.change_id = c.change_id
        OFFSET 0) h
) r ON true;
COMMENT ON VIEW repricer.live_change_figures IS 'What change_figures keeps, computed from the facts.';

-- Who asks for a batch counts what is marked of it, and not of all others. OFFSET 0: PostgreSQL goes mark by mark, instead of
-- reading all changes.
CREATE VIEW repricer.marked_batches AS
SELECT DISTINCT s.original_transaction_id, b.batch_id
FROM repricer.stale_figures s
CROSS JOIN LATERAL (
    SELECT c.batch_id FROM repricer.price_changes c WHERE c.original_transaction_id = s.original_transaction_id OFFSET 0) b;
COMMENT ON VIEW repricer.marked_batches IS 'The marked subscriptions, once for each batch that they have a change in.';

-- What was forecast of a change, and what came. Alike ones have one outcome.
CREATE VIEW repricer.live_forecast_outcomes AS
SELECT o.original_transaction_id, o.change_id, o.batch_id, o.stage,
    md5(ROW(o.direction, o.forecast_consent, o.forecast_threshold_source, o.forecast_reasons, o.forecast_not_known,
        o.forecast_because, o.came_consent, o.came, o.has_moved, o.slip, o.is_siblings_doing)::text)::uuid AS outcome,
    o.direction, o.forecast_consent, o.forecast_threshold_source, o.forecast_reasons, o.forecast_not_known, o.forecast_because,
    o.came_consent, o.came, o.has_moved, o.slip, o.is_siblings_doing, 1::bigint AS changes
FROM (
    SELECT c.original_transaction_id, c.change_id, c.batch_id, c.stage, c.direction, c.forecast_consent,
        c.forecast_threshold_source, c.forecast_reasons, came.consent AS came_consent,
        -- Whoever is charged within moments of the renewal is in time, as of what slipped.
        CASE WHEN c.effective_at < c.forecast_effective_at THEN 'earlier'
            WHEN c.effective_at > c.forecast_effective_at + CASE WHEN coalesce(c.moved_before_call, c.moved_since_call) IS NULL
                THEN interval '1 hour' ELSE interval '0' END THEN 'later'
            WHEN c.effective_at IS NOT NULL THEN 'as_forecast' END AS came,
        coalesce(c.planned_effective_at, c.due_effective_at) > c.forecast_effective_at AS has_moved,
        CASE WHEN c.forecast_consent = 'not_known' THEN c.forecast_not_known ELSE '{}' END AS forecast_not_known,
        -- A line of the file or a change of ours, else the instant of an increase from before.
        CASE WHEN 'increase_within_12_months' = ANY (c.forecast_reasons) THEN
            CASE WHEN jsonb_path_exists(c.forecast_rules,
                    '$[*] ? (@.rule == "increase_within_12_months").inputs.because ? (!(@ like_regex "^[0-9]{4}-[0-9]{2}-[0-9]{2}T"))')
                THEN 'sibling' ELSE 'earlier_increase' END
        END AS forecast_because,
        CASE WHEN coalesce(c.effective_at, c.due_effective_at) > c.forecast_effective_at
            THEN coalesce(c.moved_before_call, c.moved_since_call) END AS slip,
        -- What the plan of the later change foresaw: our own increase of another item, which this forecast could not
        -- know.
        CASE WHEN c.forecast_consent = 'not_required' AND came.consent = 'required' THEN EXISTS (
            SELECT FROM repricer.price_changes s
            WHERE s.original_transaction_id = c.original_transaction_id AND s.change_id <> c.change_id
                AND s.direction = 'increase' AND s.undoes_change_id IS NULL
                AND CASE WHEN s.state IN ('scheduled', 'pending_consent', 'accepted') THEN s.due_effective_at
                        ELSE s.effective_at END
                    BETWEEN coalesce(c.sent_at, c.consent_asked_at) - interval '12 months'
                    AND coalesce(c.effective_at, c.due_effective_at) - interval '1 millisecond')
            ELSE false END AS is_siblings_doing
    FROM repricer.price_changes c
    CROSS JOIN LATERAL (SELECT CASE
        WHEN c.consent_asked_at IS NOT NULL OR c.acceptance = 'consented' THEN 'required'
        -- Nobody declines unasked: the notification that told of the request for consent was lost. A dependent
        -- that fell with its parent was not asked itself.
        WHEN c.state = 'declined' AND c.reason IS DISTINCT FROM 'parent_declined' THEN 'required'
        WHEN c.acceptance = 'informed' THEN 'not_required'
        WHEN c.direction = 'decrease' AND coalesce(c.scheduled_at, c.effective_at) IS NOT NULL THEN 'none'
    END AS consent) came
    -- Who was held out is never sent anything: there is nothing that such a forecast could be held against.
    WHERE c.undoes_change_id IS NULL AND NOT c.is_held_out
) o;
COMMENT ON VIEW repricer.live_forecast_outcomes IS
    'What forecast_tallies counts, from the facts: one row a change that is, or was, to be sent.';

-- What is kept and marked is taken out of the tallies, and what is not kept is added to them.
CREATE VIEW repricer.forecast_outcomes AS
SELECT t.batch_id, t.direction, t.forecast_consent, t.forecast_threshold_source, t.forecast_reasons, t.forecast_not_known,
    t.forecast_because, t.came_consent, t.came, t.has_moved, t.slip, t.is_siblings_doing, t.changes
FROM repricer.forecast_tallies t
UNION ALL
SELECT t.batch_id, t.direction, t.forecast_consent, t.forecast_threshold_source, t.forecast_reasons, t.forecast_not_known,
    t.forecast_because, t.came_consent, t.came, t.has_moved, t.slip, t.is_siblings_doing, -1
FROM repricer.change_figures k
JOIN repricer.forecast_tallies t ON t.batch_id = k.batch_id AND t.outcome = k.outcome
WHERE EXISTS (SELECT FROM repricer.stale_figures s WHERE s.original_transaction_id = k.original_transaction_id)
UNION ALL
SELECT o.batch_id, o.direction, o.forecast_consent, o.forecast_threshold_source, o.forecast_reasons, o.forecast_not_known,
    o.forecast_because, o.came_consent, o.came, o.has_moved, o.slip, o.is_siblings_doing, o.changes
FROM repricer.live_forecast_outcomes o
WHERE o.stage IN ('awaiting_approval', 'queued', 'unknown', 'scheduled', 'pending_consent', 'accepted')
UNION ALL
SELECT m.batch_id, o.direction, o.forecast_consent, o.forecast_threshold_source, o.forecast_reasons, o.forecast_not_known,
    o.forecast_because, o.came_consent, o.came, o.has_moved, o.slip, o.is_siblings_doing, o.changes
FROM repricer.marked_batches m
-- OFFSET 0 makes PostgreSQL go subscription by subscription.
CROSS JOIN LATERAL (
    SELECT l.* FROM repricer.live_forecast_outcomes l
    WHERE l.original_transaction_id = m.original_transaction_id AND l.batch_id = m.batch_id
        AND l.stage NOT IN ('awaiting_approval', 'queued', 'unknown', 'scheduled', 'pending_consent', 'accepted')
    OFFSET 0) o;
COMMENT ON VIEW repricer.forecast_outcomes IS 'Of all changes, exact at any moment. Its rows are to be added up.';

-- A change whose figures are not kept, or whose subscription is marked.
CREATE VIEW repricer.unkept_change_figures AS
-- The figures of an open change as live_change_figures has them, of which no charge counts.
SELECT c.original_transaction_id, c.bucket, c.change_id, c.batch_id, c.undoes_change_id IS NOT NULL AS is_undo, c.direction,
    c.forecast_consent, c.currency, c.storefront, c.period, c.state,
    coalesce(c.sent_at, c.scheduled_at, c.consent_asked_at, c.accepted_at, c.effective_at) IS NOT NULL AS is_sent,
    -- None of these has declined.
    c.consent_asked_at IS NOT NULL OR coalesce(c.acceptance = 'consented', false) AS is_asked, c.acceptance,
    false AS is_uncharged, c.current_price_milliunits,
    c.new_price_milliunits, 0::bigint AS renewals, NULL::timestamptz AS first_at, 0::bigint AS old_total_milliunits,
    0::bigint AS new_total_milliunits, c.stage, false AS is_final, c.is_leaving,
    coalesce(c.consent_asked_at, c.accepted_at) IS NOT NULL AS is_told, false AS fell_with_parent,
    0::bigint AS others_lost_milliunits, 0::bigint AS taxed_renewals, 0::bigint AS taxed_uplift_milliunits,
    NULL::timestamptz AS paid_until, NULL::timestamptz AS word_due_at, NULL::text AS paid_sku, NULL::bigint AS paid_quantity,
    1::bigint AS seats
FROM repricer.price_changes c
WHERE c.stage IN ('awaiting_approval', 'queued', 'unknown', 'scheduled', 'pending_consent', 'accepted')
UNION ALL
-- OFFSET 0 makes PostgreSQL go subscription by subscription. The id and the batch are those of the mark, so that who asks for
-- some subscriptions, or a batch, reads only their marks.
SELECT m.original_transaction_id, f.bucket, f.change_id, m.batch_id, f.is_undo, f.direction, f.forecast_consent, f.currency,
    f.storefront, f.period, f.state, f.is_sent, f.is_asked, f.acceptance, f.is_uncharged, f.current_price_milliunits,
    f.new_price_milliunits, f.renewals, f.first_at, f.old_total_milliunits, f.new_total_milliunits, f.stage, f.is_final,
    f.is_leaving, f.is_told, f.fell_with_parent, f.others_lost_milliunits, f.taxed_renewals, f.taxed_uplift_milliunits,
    f.paid_until, f.word_due_at, f.paid_sku, f.paid_quantity, f.seats
FROM repricer.marked_batches m
CROSS JOIN LATERAL (
    SELECT l.* FROM repricer.live_change_figures l
    WHERE l.original_transaction_id = m.original_transaction_id AND l.batch_id = m.batch_id
        AND l.stage NOT IN ('awaiting_approval', 'queued', 'unknown', 'scheduled', 'pending_consent', 'accepted')
    OFFSET 0) f;
COMMENT ON VIEW repricer.unkept_change_figures IS 'The figures of changes that are open, or whose subscription is marked.';

-- What is kept and marked is taken out of the tallies, and what is not kept is added to them.
CREATE VIEW repricer.untallied_changes AS
SELECT
    f.batch_id, f.is_undo, f.direction, f.forecast_consent, f.currency, f.storefront, f.period, f.weight AS changes,
    CASE WHEN f.is_sent THEN f.weight ELSE 0 END AS sent,
    CASE WHEN f.is_asked THEN f.weight ELSE 0 END AS asked_for_consent,
    CASE WHEN f.acceptance = 'consented' THEN f.weight ELSE 0 END AS consented,
    CASE WHEN f.acceptance = 'informed' THEN f.weight ELSE 0 END AS informed,
    CASE WHEN f.state = 'effective' THEN f.weight ELSE 0 END AS effective,
    CASE WHEN f.state = 'declined' AND NOT f.fell_with_parent THEN f.weight ELSE 0 END AS declined,
    CASE WHEN f.state = 'cancelled' AND NOT f.fell_with_parent THEN f.weight ELSE 0 END AS cancelled,
    CASE WHEN f.state = 'lapsed' THEN f.weight ELSE 0 END AS lapsed,
    CASE WHEN f.state IN ('invalidated', 'rejected', 'ineligible', 'missed', 'aborted') THEN f.weight ELSE 0 END AS other,
    CASE WHEN f.is_uncharged THEN f.weight ELSE 0 END AS uncharged,
    CASE WHEN f.renewals > 0 THEN f.weight ELSE 0 END AS charged_changes, f.weight * f.renewals AS charged_renewals,
    f.weight * f.old_total_milliunits AS old_total, f.weight * f.new_total_milliunits AS new_total,
    CASE WHEN f.renewals > 0 AND NOT f.is_leaving THEN f.weight * f.current_price_milliunits ELSE 0 END AS old_per_period,
    CASE WHEN f.renewals > 0 AND NOT f.is_leaving THEN f.weight * f.new_price_milliunits ELSE 0 END AS new_per_period,
    CASE WHEN f.state = 'declined' AND NOT f.fell_with_parent THEN f.weight * f.current_price_milliunits ELSE 0 END
        AS declined_lost,
    -- Who left without having been told of an increase did not leave for it.
    CASE WHEN f.state = 'cancelled' AND NOT f.fell_with_parent AND f.is_told AND f.direction = 'increase'
        THEN f.weight * f.current_price_milliunits ELSE 0 END AS cancelled_lost,
    CASE WHEN f.fell_with_parent THEN f.weight ELSE 0 END AS fell_with_parent,
    CASE WHEN f.fell_with_parent THEN f.weight * f.current_price_milliunits ELSE 0 END AS fell_lost,
    CASE WHEN f.state = 'lapsed' AND f.is_told AND f.direction = 'increase' THEN f.weight * f.current_price_milliunits
        ELSE 0 END AS lapsed_lost,
    f.weight * f.others_lost_milliunits AS others_lost, f.weight * f.taxed_renewals AS taxed_renewals,
    f.weight * f.taxed_uplift_milliunits AS taxed_uplift,
    CASE WHEN f.is_silent THEN f.weight ELSE 0 END AS silent,
    CASE WHEN f.is_silent THEN f.weight * f.current_price_milliunits ELSE 0 END AS silent_old,
    CASE WHEN f.is_silent THEN f.weight * f.new_price_milliunits ELSE 0 END AS silent_new,
    f.original_transaction_id, f.is_final
FROM (
    SELECT
        k.original_transaction_id, k.bucket, k.change_id, k.batch_id, k.is_undo, k.direction, k.forecast_consent,
        k.currency, k.storefront, k.period, k.state, k.is_sent, k.is_asked, k.acceptance, k.is_uncharged,
        k.current_price_milliunits * k.seats AS current_price_milliunits,
        k.new_price_milliunits * k.seats AS new_price_milliunits, k.renewals, k.first_at, k.old_total_milliunits,
        k.new_total_milliunits, k.is_leaving, k.is_told, k.fell_with_parent, k.others_lost_milliunits,
        k.taxed_renewals, k.taxed_uplift_milliunits,
        coalesce(k.renewals > 0 AND NOT k.is_leaving AND k.word_due_at < (SELECT d.until FROM repricer.heard_charges d), false)
            AS is_silent,
        (-1)::bigint AS weight, true AS is_final
    FROM repricer.change_figures k
    WHERE EXISTS (SELECT FROM repricer.stale_figures s WHERE s.original_transaction_id = k.original_transaction_id)
    UNION ALL
    SELECT
        l.original_transaction_id, l.bucket, l.change_id, l.batch_id, l.is_undo, l.direction, l.forecast_consent,
        l.currency, l.storefront, l.period, l.state, l.is_sent, l.is_asked, l.acceptance, l.is_uncharged,
        l.current_price_milliunits * l.seats, l.new_price_milliunits * l.seats, l.renewals, l.first_at, l.old_total_milliunits,
        l.new_total_milliunits, l.is_leaving, l.is_told, l.fell_with_parent, l.others_lost_milliunits,
        l.taxed_renewals, l.taxed_uplift_milliunits,
        coalesce(l.renewals > 0 AND NOT l.is_leaving AND l.word_due_at < (SELECT d.until FROM repricer.heard_charges d), false),
        1, l.is_final
    FROM repricer.unkept_change_figures l
) f;
COMMENT ON VIEW repricer.untallied_changes IS
    'One row a change that is open or marked, by how much it alters the tallies; to be added to them.';

CREATE VIEW repricer.change_tallies AS
SELECT t.*, 0::bigint AS silent, 0::bigint AS silent_old, 0::bigint AS silent_new FROM repricer.figure_tallies t
UNION ALL
-- Of these the tallies count what a further period brings, and it is not known whether there will be one.
SELECT
    k.batch_id, k.is_undo, k.direction, k.forecast_consent, k.currency, k.storefront, k.period, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, k.current_price_milliunits * k.seats,
    k.new_price_milliunits * k.seats
FROM repricer.change_figures k
WHERE k.word_due_at < (SELECT d.until FROM repricer.heard_charges d) AND k.renewals > 0 AND NOT k.is_leaving
UNION ALL
SELECT
    u.batch_id, u.is_undo, u.direction, u.forecast_consent, u.currency, u.storefront, u.period, u.changes, u.sent,
    u.asked_for_consent, u.consented, u.informed, u.effective, u.declined, u.cancelled, u.lapsed, u.other, u.uncharged,
    u.charged_changes, u.charged_renewals, u.old_total, u.new_total, u.old_per_period, u.new_per_period,
    u.declined_lost, u.cancelled_lost, u.fell_with_parent, u.fell_lost, u.lapsed_lost, u.others_lost,
    u.taxed_renewals, u.taxed_uplift, u.silent, u.silent_old, u.silent_new
FROM repricer.untallied_changes u;
COMMENT ON VIEW repricer.change_tallies IS 'Of all changes, exact at any moment. Its rows are to be added up.';

-- Charges that are not as they should be: what is kept, and what is marked as the facts say. Who writes a charge since the
-- call of an open change marks it, too.
CREATE VIEW repricer.charge_exceptions AS
SELECT k.batch_id, k.original_transaction_id, k.change_id, k.transaction_id, k.sku, k.exception, k.occurred_at,
    k.amount_milliunits, k.expected_milliunits, k.refunded_milliunits, k.currency, k.storefront, k.bucket
FROM repricer.kept_exceptions k
WHERE NOT EXISTS (SELECT FROM repricer.marked_subscriptions() s (id) WHERE s.id = k.original_transaction_id)
UNION ALL
SELECT m.batch_id, m.original_transaction_id, x.change_id, x.transaction_id, x.sku, x.exception, x.occurred_at,
    x.amount_milliunits, x.expected_milliunits, x.refunded_milliunits, x.currency, x.storefront, x.bucket
FROM repricer.marked_batches m
-- OFFSET 0 makes PostgreSQL go subscription by subscription.
CROSS JOIN LATERAL (
    SELECT l.* FROM repricer.live_charge_exceptions l
    WHERE l.original_transaction_id = m.original_transaction_id AND l.batch_id = m.batch_id
    OFFSET 0) x
UNION ALL
-- Time alone makes these, and no fact marks their subscription.
SELECT k.batch_id, k.original_transaction_id, k.change_id, NULL, k.paid_sku, 'missing', k.paid_until, 0,
    repricer.fitting(k.new_price_milliunits::numeric * k.paid_quantity, 'the seats of price change ' || k.change_id), 0, k.currency, k.storefront, k.bucket
FROM repricer.change_figures k
WHERE k.word_due_at < (SELECT d.until FROM repricer.heard_charges d) AND k.paid_sku IS NOT NULL
    AND NOT EXISTS (SELECT FROM repricer.marked_subscriptions() s (id) WHERE s.id = k.original_transaction_id)
    AND NOT EXISTS (
        SELECT FROM repricer.kept_exceptions x
        WHERE x.original_transaction_id = k.original_transaction_id AND x.change_id = k.change_id
            AND x.exception = 'missing' AND x.occurred_at = k.paid_until)
UNION ALL
SELECT o.batch_id, o.original_transaction_id, o.change_id, NULL, o.sku, 'missing', o.occurred_at, 0, o.expected_milliunits, 0,
    o.currency, o.storefront, o.bucket
FROM repricer.silent_open_changes o
WHERE NOT EXISTS (SELECT FROM repricer.marked_subscriptions() s (id) WHERE s.id = o.original_transaction_id);
COMMENT ON VIEW repricer.charge_exceptions IS 'Charges that are not as they should be, and renewals that were not charged.';

-- Computes anew the figures of up to p_limit marks; returns how many subscriptions. All of it is seen in one snapshot, so
-- that a mark that goes is of a fact that was counted: a later one stays.
CREATE FUNCTION repricer.summarise_figures(p_limit integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp SET jit = off AS $$
DECLARE
    v_ids text[];
    v_at timestamptz;
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'figures are summarised in one snapshot: the transaction must be REPEATABLE READ'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- The snapshot is older, and who records after it leaves a mark that stays.
    v_at := recording_instant();
    v_ids := ARRAY(SELECT DISTINCT m.id FROM (
        SELECT s.original_transaction_id AS id FROM stale_figures s LIMIT p_limit) m);
    -- One session at a time does this. Whoever went before us and has committed since our snapshot makes the first
    -- write below fail, and all is tried again.
    PERFORM FROM figures_turn FOR UPDATE SKIP LOCKED;
    IF cardinality(v_ids) = 0 OR NOT FOUND THEN
        RETURN 0;
    END IF;
    INSERT INTO figure_tallies AS t
        SELECT
            u.batch_id, u.is_undo, u.direction, u.forecast_consent, u.currency, u.storefront, u.period, sum(u.changes),
            sum(u.sent), sum(u.asked_for_consent), sum(u.consented), sum(u.informed), sum(u.effective),
            sum(u.declined), sum(u.cancelled), sum(u.lapsed), sum(u.other), sum(u.uncharged), sum(u.charged_changes),
            sum(u.charged_renewals), sum(u.old_total), sum(u.new_total), sum(u.old_per_period), sum(u.new_per_period),
            sum(u.declined_lost), sum(u.cancelled_lost), sum(u.fell_with_parent), sum(u.fell_lost), sum(u.lapsed_lost),
            sum(u.others_lost), sum(u.taxed_renewals), sum(u.taxed_uplift)
        FROM untallied_changes u WHERE u.original_transaction_id = ANY (v_ids) AND u.is_final
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
        FROM (
            SELECT k.batch_id, k.outcome, count(*) AS changes FROM change_figures k
            WHERE k.original_transaction_id = ANY (v_ids) GROUP BY k.batch_id, k.outcome) f
        WHERE t.batch_id = f.batch_id AND t.outcome = f.outcome;
    DELETE FROM change_figures f WHERE f.original_transaction_id = ANY (v_ids);
    DELETE FROM kept_exceptions k WHERE k.original_transaction_id = ANY (v_ids);
    WITH outcomes AS MATERIALIZED (
        SELECT o.* FROM live_forecast_outcomes o
        WHERE o.original_transaction_id = ANY (v_ids)
            AND o.stage NOT IN ('awaiting_approval', 'queued', 'unknown', 'scheduled', 'pending_consent', 'accepted')
    ), tallied AS (
        INSERT INTO forecast_tallies AS t
        SELECT o.batch_id, o.outcome, o.direction, o.forecast_consent, o.forecast_threshold_source, o.forecast_reasons,
            o.forecast_not_known, o.forecast_because, o.came_consent, o.came, o.has_moved, o.slip, o.is_siblings_doing,
            sum(o.changes)
        FROM outcomes o GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13
        ON CONFLICT ON CONSTRAINT forecast_tallies_pkey DO UPDATE SET changes = t.changes + EXCLUDED.changes
    )
    INSERT INTO change_figures
        SELECT
            f.original_transaction_id, f.bucket, f.change_id, f.batch_id, f.is_undo, f.direction, f.forecast_consent,
            f.currency, f.storefront, f.period, f.state, f.is_sent, f.is_asked, f.acceptance, f.is_uncharged,
            f.current_price_milliunits, f.new_price_milliunits, f.renewals, f.first_at, f.old_total_milliunits,
            f.new_total_milliunits, f.is_leaving, f.is_told, f.fell_with_parent, f.others_lost_milliunits,
            f.taxed_renewals, f.taxed_uplift_milliunits, f.paid_until, f.word_due_at, f.paid_sku, f.paid_quantity, f.seats, v_at, o.outcome
        FROM live_change_figures f
        LEFT JOIN outcomes o ON o.original_transaction_id = f.original_transaction_id AND o.change_id = f.change_id
        WHERE f.original_transaction_id = ANY (v_ids) AND f.is_final;
    WITH charged AS MATERIALIZED (
        SELECT x.* FROM explained_charges x WHERE x.original_transaction_id = ANY (v_ids)
    ), explained AS (
        UPDATE money_entries e SET change_id = x.change_id, batch_id = x.batch_id, explained_as = x.explained_as,
            uplift_milliunits = CASE WHEN e.kind = 'charge' AND e.correction = 0 AND e.occurred_at = x.purchased_at
                AND e.currency = x.currency THEN x.uplift_milliunits END
        FROM charged x
        WHERE e.original_transaction_id = x.original_transaction_id AND e.bucket = x.bucket
            AND e.transaction_id = x.transaction_id AND e.sku = x.sku
            AND (e.change_id, e.batch_id, e.explained_as, e.uplift_milliunits) IS DISTINCT FROM (x.change_id, x.batch_id,
                x.explained_as, CASE WHEN e.kind = 'charge' AND e.correction = 0 AND e.occurred_at = x.purchased_at
                    AND e.currency = x.currency THEN x.uplift_milliunits END)
    ), forgotten AS (
        UPDATE money_entries e SET change_id = NULL, batch_id = NULL, explained_as = NULL, uplift_milliunits = NULL
        WHERE e.original_transaction_id = ANY (v_ids) AND e.change_id IS NOT NULL AND NOT EXISTS (
            SELECT FROM charged x
            WHERE x.original_transaction_id = e.original_transaction_id AND x.transaction_id = e.transaction_id
                AND x.sku = e.sku)
    )
    INSERT INTO kept_exceptions
        SELECT x.original_transaction_id, x.bucket, x.change_id, x.batch_id, x.transaction_id, x.sku, x.exception,
            x.purchased_at, x.price_milliunits * x.quantity,
            fitting(x.expected_milliunits::numeric * x.quantity, 'the seats of transaction ' || x.transaction_id || ', as expected,'),
            x.refunded_milliunits,
            x.currency, x.storefront
        FROM charged x WHERE x.exception IS NOT NULL
        UNION ALL
        SELECT r.original_transaction_id, r.bucket, r.change_id, r.batch_id, NULL, r.sku, 'missing', r.occurred_at, 0,
            r.expected_milliunits, 0, r.currency, r.storefront
        FROM missing_renewals r WHERE r.original_transaction_id = ANY (v_ids);
    PERFORM keep_moves(v_ids, v_at);
    DELETE FROM stale_figures s WHERE s.original_transaction_id = ANY (v_ids);
    RETURN cardinality(v_ids);
END
$$;

CREATE VIEW report.batch_summary AS
WITH calls_out AS (
    SELECT c.batch_id, count(*) AS sending
    FROM repricer.store_calls r
    JOIN repricer.price_changes c ON c.original_transaction_id = r.subject AND c.bucket = r.bucket
        AND c.request_reference_id = r.call_id AND c.state = 'sending'
    WHERE r.kind = 'price_change' AND r.settled_at IS NULL GROUP BY c.batch_id
), stages AS (
    SELECT c.batch_id, sum(c.rows)::bigint AS stored,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'awaiting_approval'), 0)::bigint AS awaiting_approval,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'queued'), 0)::bigint AS queued,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'unknown'), 0)::bigint AS unknown,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'scheduled'), 0)::bigint AS scheduled,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'pending_consent'), 0)::bigint AS pending_consent,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'accepted'), 0)::bigint AS accepted,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'effective'), 0)::bigint AS effective,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'declined'), 0)::bigint AS declined,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'cancelled'), 0)::bigint AS cancelled,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'lapsed'), 0)::bigint AS lapsed,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'invalidated'), 0)::bigint AS invalidated,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'rejected'), 0)::bigint AS rejected,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'ineligible'), 0)::bigint AS ineligible,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'missed'), 0)::bigint AS missed,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'aborted'), 0)::bigint AS aborted
    -- Counted by stage first, so that no row is compared with each of them.
    FROM (SELECT batch_id, stage, count(*) AS rows FROM repricer.price_changes GROUP BY batch_id, stage) c
    GROUP BY c.batch_id
), tallies AS (
    -- Everything comes from the index alone, except for the few changes whose call is out.
    SELECT g.batch_id, g.stored, g.awaiting_approval, g.queued - coalesce(o.sending, 0) AS queued,
        coalesce(o.sending, 0) AS sending, g.unknown, g.scheduled, g.pending_consent, g.accepted, g.effective,
        g.declined, g.cancelled, g.lapsed, g.invalidated, g.rejected, g.ineligible, g.missed, g.aborted
    FROM stages g LEFT JOIN calls_out o ON o.batch_id = g.batch_id
), sums AS (
    SELECT t.*,
        t.awaiting_approval + t.queued + t.sending + t.unknown + t.scheduled + t.pending_consent
            + t.accepted AS open,
        t.effective + t.declined + t.cancelled + t.lapsed + t.invalidated + t.rejected + t.ineligible
            + t.missed + t.aborted AS final
    FROM tallies t
), refusals AS (
    SELECT batch_id, count(*) AS stored FROM repricer.batch_rejects GROUP BY batch_id
)
SELECT b.batch_id, b.name AS batch_name, b.state AS batch_state, b.is_paused, b.paused_reason,
    b.submitted_by::text AS submitted_by, b.submitted_at, b.planned_as_of AS planned_at,
    CASE WHEN b.state <> 'rejected' THEN b.decided_by::text END AS approver,
    CASE WHEN b.state <> 'rejected' THEN b.decided_at END AS approved_at,
    CASE WHEN b.state = 'rejected' THEN b.decided_by::text END AS rejected_by,
    b.decision_reason, b.row_count AS rows, b.rejected_row_count AS refused_file_rows,
    coalesce(s.awaiting_approval, 0) AS rows_awaiting_approval, coalesce(s.queued, 0) AS rows_queued,
    coalesce(s.sending, 0) AS rows_sending, coalesce(s.unknown, 0) AS rows_unknown,
    coalesce(s.scheduled, 0) AS rows_scheduled, coalesce(s.pending_consent, 0) AS rows_pending_consent,
    coalesce(s.accepted, 0) AS rows_accepted, coalesce(s.effective, 0) AS rows_effective,
    coalesce(s.declined, 0) AS rows_declined, coalesce(s.cancelled, 0) AS rows_cancelled,
    coalesce(s.lapsed, 0) AS rows_lapsed, coalesce(s.invalidated, 0) AS rows_invalidated,
    coalesce(s.rejected, 0) AS rows_rejected, coalesce(s.ineligible, 0) AS rows_ineligible,
    coalesce(s.missed, 0) AS rows_missed, coalesce(s.aborted, 0) AS rows_aborted,
    coalesce(s.open, 0) AS rows_open, coalesce(s.final, 0) AS rows_final,
    coalesce(s.final, 0) = b.row_count AS is_final,
    coalesce(s.stored, 0) = b.row_count AND coalesce(s.open + s.final, 0) = b.row_count
        AND coalesce(r.stored, 0) = b.rejected_row_count AS rows_add_up, b.undoes_batch_id
FROM repricer.batches b
LEFT JOIN sums s ON s.batch_id = b.batch_id
LEFT JOIN refusals r ON r.batch_id = b.batch_id;
COMMENT ON VIEW report.batch_summary IS 'One row a batch: who, when, and its rows by state.';

CREATE VIEW report.price_change AS
SELECT c.batch_id, b.name AS batch_name, c.line, c.original_transaction_id, c.change_id, c.sku,
    c.storefront, c.period, c.direction, c.currency, c.current_price_milliunits,
    c.new_price_milliunits,
    c.new_price_milliunits - c.current_price_milliunits AS difference_milliunits,
    -- One price with some zeros too many must not fail the report of all.
    CASE WHEN c.current_price_milliunits <> 0 THEN least(9223372036854775807, round(
        (c.new_price_milliunits - c.current_price_milliunits)::numeric * 10000 / c.current_price_milliunits))::bigint
        END AS difference_basis_points,
    c.dependent_skus, c.effective_on_or_after, c.forecast_consent, c.forecast_reasons,
    c.forecast_threshold_source, c.forecast_renewal_at, c.forecast_notice_at,
    c.forecast_effective_at, c.send_after AS send_after_at, c.send_by AS send_by_at,
    c.due_effective_at, c.state, c.reason,
    c.state IN ('effective', 'declined', 'cancelled', 'lapsed', 'invalidated', 'rejected',
        'ineligible', 'missed', 'aborted') AS is_final,
    c.request_reference_id, c.sent_at, c.scheduled_at, c.consent_asked_at, c.accepted_at,
    c.acceptance, c.effective_at, c.ended_at, c.state_since AS state_since_at,
    coalesce(f.renewals, r.renewals, 0) AS charged_renewals, coalesce(f.first_at, r.first_at) AS first_charged_at,
    coalesce(f.new_total_milliunits, r.new_total_milliunits, 0) AS charged_total_milliunits,
    coalesce(f.new_total_milliunits - f.old_total_milliunits, r.new_total_milliunits - r.old_total_milliunits, 0)
        AS charged_uplift_milliunits,
    c.undoes_change_id
FROM repricer.price_changes c
JOIN repricer.batches b ON b.batch_id = c.batch_id
LEFT JOIN repricer.change_figures f
    ON f.original_transaction_id = c.original_transaction_id AND f.change_id = c.change_id AND f.batch_id = c.batch_id
    AND repricer.is_that(f.change_id, c.change_id) AND NOT EXISTS (
        SELECT FROM repricer.marked_subscriptions() s (id) WHERE s.id = f.original_transaction_id)
LEFT JOIN LATERAL (
    SELECT count(*) AS renewals, min(h.purchased_at) AS first_at,
        repricer.fitting(sum(h.old_price_milliunits), 'the renewals of price change ' || c.change_id || ', at the old price,')
            AS old_total_milliunits,
        repricer.fitting(sum(h.price_milliunits), 'the renewals of price change ' || c.change_id) AS new_total_milliunits
    FROM repricer.charged_renewals h
    WHERE f.change_id IS NULL AND c.state = 'effective' AND h.original_transaction_id = c.original_transaction_id
        AND h.change_id = c.change_id
) r ON true;
COMMENT ON VIEW report.price_change IS
    'One row a price change: what was forecast and approved, what came, and what was charged.';

-- An undo asks nobody, forecasts nothing and brings nothing: only its change and its batch tell of it.
CREATE VIEW report.consent_funnel AS
WITH funnels AS (
    SELECT t.batch_id, t.direction, t.forecast_consent,
        sum(t.changes)::bigint AS changes, sum(t.sent)::bigint AS sent,
        sum(t.asked_for_consent)::bigint AS asked_for_consent, sum(t.consented)::bigint AS consented,
        sum(t.informed)::bigint AS informed, sum(t.effective)::bigint AS effective,
        sum(t.declined)::bigint AS declined, sum(t.cancelled)::bigint AS cancelled, sum(t.lapsed)::bigint AS lapsed,
        sum(t.other)::bigint AS other, sum(t.fell_with_parent)::bigint AS fell_with_parent
    FROM repricer.change_tallies t WHERE NOT t.is_undo
    GROUP BY t.batch_id, t.direction, t.forecast_consent HAVING sum(t.changes) > 0
)
SELECT f.batch_id, b.name AS batch_name, f.direction, f.forecast_consent, f.changes, f.sent,
    f.asked_for_consent, f.consented, f.informed, f.effective, f.declined, f.cancelled, f.lapsed,
    f.other, f.changes - f.effective - f.declined - f.cancelled - f.lapsed - f.other - f.fell_with_parent AS open,
    round(f.consented::numeric * 10000 / nullif(f.asked_for_consent, 0))::bigint
        AS consented_basis_points,
    round(f.declined::numeric * 10000 / nullif(f.asked_for_consent, 0))::bigint
        AS declined_basis_points,
    round(f.cancelled::numeric * 10000 / nullif(f.sent, 0))::bigint AS cancelled_basis_points,
    round(f.effective::numeric * 10000 / nullif(f.changes, 0))::bigint AS effective_basis_points,
    f.fell_with_parent
FROM funnels f JOIN repricer.batches b ON b.batch_id = f.batch_id;
COMMENT ON VIEW report.consent_funnel IS
    'From changes to renewals, for each batch, direction and forecast of consent.';

-- What a period is of a month, in twelfths: a year has 12 months or 52 weeks. A period that nobody knows counts as a
-- month.
CREATE FUNCTION repricer.twelfths(p_period text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE p_period WHEN 'P1W' THEN 52 WHEN 'P2M' THEN 6 WHEN 'P3M' THEN 4 WHEN 'P6M' THEN 2 WHEN 'P1Y' THEN 1
        ELSE 12 END;

-- Who takes an end back within the paid period goes on to pay: no end is believed against a renewal that was charged since.
-- What the customer bought anew is no renewal, nor is what follows it.
CREATE VIEW repricer.returned_dependents AS
SELECT d.batch_id, d.original_transaction_id, d.bucket, d.change_id, d.dependent_sku
FROM repricer.dependent_cancellations d
CROSS JOIN LATERAL (
    SELECT min(k.purchased_at) FILTER (WHERE NOT k.is_purchase) AS renewed_at,
        min(k.purchased_at) FILTER (WHERE k.is_purchase AND NOT k.is_added_seat) AS bought_at
    FROM repricer.charges k
    WHERE k.original_transaction_id = coalesce(d.target_transaction_id, d.original_transaction_id)
        AND k.sku = CASE WHEN d.is_cross_subscription
            THEN regexp_replace(d.dependent_sku, '^[0-9]+/', '') ELSE d.dependent_sku END
        AND k.purchased_at > d.settled_at
        AND (k.refunded_milliunits = 0 OR k.refunded_milliunits < k.price_milliunits * k.quantity)) k
WHERE d.state = 'confirmed' AND k.renewed_at < coalesce(k.bought_at, 'infinity');
COMMENT ON VIEW repricer.returned_dependents IS 'Dependents that were proved cancelled, and renewed since.';

CREATE VIEW repricer.lost_dependents AS
-- A dependent that has a lost change of its own in the batch is counted with that change.
SELECT d.batch_id, d.original_transaction_id, d.change_id, c.currency, c.storefront, c.period, count(*) AS dependents,
    -- A dependent on another subscription is paid by that one's period: its price is converted to the period of its
    -- parent. A yearly dependent of a monthly parent would count twelve times otherwise.
    -- By the period that it had when it was cancelled: its subscription may have another one since.
    repricer.fitting(sum(round(d.price_milliunits::numeric
        * coalesce(q.seats, CASE WHEN d.is_cross_subscription THEN 1 ELSE c.forecast_seats END) * repricer.twelfths(coalesce(d.target_period, t.period, c.period))
        / repricer.twelfths(c.period))), 'the dependents of price change ' || d.change_id) AS price_milliunits
FROM repricer.dependent_cancellations d
LEFT JOIN LATERAL (
    -- Its price is that of one seat.
    SELECT CASE WHEN p.paid_by = 1 THEN p.quantity ELSE coalesce((
        SELECT repricer.seats_of(array_agg(k)) FROM repricer.charges k
        WHERE k.original_transaction_id = coalesce(d.target_transaction_id, d.original_transaction_id)
            AND k.sku = CASE WHEN d.is_cross_subscription
                THEN regexp_replace(d.dependent_sku, '^[0-9]+/', '') ELSE d.dependent_sku END
            AND k.purchased_at <= coalesce(d.settled_at, d.requested_at)
            AND coalesce(k.expires_at, k.purchased_at) = p.until), p.quantity) END AS seats
    FROM (
        SELECT coalesce(k.expires_at, k.purchased_at) AS until, count(*) AS paid_by, max(k.quantity) AS quantity
        FROM repricer.charges k
        WHERE k.original_transaction_id = coalesce(d.target_transaction_id, d.original_transaction_id)
            AND k.sku = CASE WHEN d.is_cross_subscription
                THEN regexp_replace(d.dependent_sku, '^[0-9]+/', '') ELSE d.dependent_sku END
            AND k.purchased_at <= coalesce(d.settled_at, d.requested_at)
        GROUP BY 1 ORDER BY 1 DESC LIMIT 1) p
) q ON true
JOIN repricer.price_changes c
    ON c.original_transaction_id = d.original_transaction_id AND c.change_id = d.change_id
LEFT JOIN repricer.subscriptions t ON t.original_transaction_id = d.target_transaction_id
WHERE d.state = 'confirmed' AND coalesce(d.currency, c.currency) = c.currency AND c.undoes_change_id IS NULL
    AND NOT EXISTS (
        SELECT FROM repricer.returned_dependents x
        WHERE x.original_transaction_id = d.original_transaction_id AND x.bucket = d.bucket AND x.change_id = d.change_id
            AND x.batch_id = d.batch_id AND x.dependent_sku = d.dependent_sku)
    AND NOT EXISTS (
        SELECT FROM repricer.price_changes o
        WHERE o.original_transaction_id = coalesce(d.target_transaction_id, d.original_transaction_id)
            AND o.batch_id = d.batch_id
            AND CASE WHEN d.is_cross_subscription
                THEN regexp_replace(d.dependent_sku, '^[0-9]+/', '') ELSE d.dependent_sku END IN (o.sku, o.current_sku)
            AND (o.state = 'declined' OR o.reason = 'parent_declined' OR o.state = 'cancelled'
                AND o.direction = 'increase' AND coalesce(o.consent_asked_at, o.accepted_at) IS NOT NULL))
GROUP BY d.batch_id, d.original_transaction_id, d.change_id, c.currency, c.storefront, c.period;
COMMENT ON VIEW repricer.lost_dependents IS
    'How many dependents fell with each change, and what they brought in a period of the change.';

CREATE VIEW report.revenue_impact AS
WITH factors (period, numerator, denominator) AS (
    -- From a period to a month: a year has 12 months or 52 weeks.
    VALUES ('P1W', 13, 3), ('P1M', 1, 1), ('P2M', 1, 2), ('P3M', 1, 3), ('P6M', 1, 6), ('P1Y', 1, 12)
), lost AS (
    SELECT d.batch_id, d.currency, d.storefront, d.period, sum(d.dependents)::bigint AS dependents,
        sum(d.price_milliunits) AS dependent_lost
    FROM repricer.lost_dependents d
    GROUP BY d.batch_id, d.currency, d.storefront, d.period
), sums AS (
    SELECT t.batch_id, t.currency, t.storefront, t.period,
        sum(t.changes)::bigint AS changes, sum(t.effective)::bigint AS effective,
        sum(t.charged_changes)::bigint AS charged_changes, sum(t.charged_renewals)::bigint AS charged_renewals,
        sum(t.old_total) AS old_total, sum(t.new_total) AS new_total,
        sum(t.old_per_period - t.silent_old) AS old_per_period,
        sum(t.new_per_period - t.silent_new) AS new_per_period,
        sum(t.silent)::bigint AS silent, sum(t.silent_new) AS silent_new,
        sum(t.declined)::bigint AS declined, sum(t.declined_lost) AS declined_lost,
        sum(t.cancelled)::bigint AS cancelled, sum(t.cancelled_lost) AS cancelled_lost,
        sum(t.lapsed)::bigint AS lapsed, sum(t.lapsed_lost) AS lapsed_lost,
        sum(t.fell_with_parent)::bigint AS fell_with_parent, sum(t.fell_lost) AS fell_lost,
        sum(t.others_lost) AS others_lost, sum(t.taxed_renewals)::bigint AS taxed_renewals,
        sum(t.taxed_uplift) AS taxed_uplift
    FROM repricer.change_tallies t WHERE NOT t.is_undo
    GROUP BY t.batch_id, t.currency, t.storefront, t.period HAVING sum(t.changes) > 0
), groups AS (
    SELECT s.*, coalesce(l.dependents, 0) + s.fell_with_parent AS dependents,
        coalesce(l.dependent_lost, 0) + s.fell_lost AS dependent_lost,
        s.declined_lost + s.cancelled_lost + s.lapsed_lost + s.others_lost + s.fell_lost + coalesce(l.dependent_lost, 0)
            AS all_lost
    FROM sums s
    LEFT JOIN lost l ON l.batch_id = s.batch_id AND l.currency = s.currency AND l.storefront = s.storefront
        AND l.period = s.period
)
SELECT g.batch_id, b.name AS batch_name, g.currency, g.storefront, g.period, g.changes,
    g.effective, g.charged_changes, g.charged_renewals,
    repricer.figure(g.old_total, w.what || 'old_total' || w.currency) AS old_total_milliunits,
    repricer.figure(g.new_total, w.what || 'new_total' || w.currency) AS new_total_milliunits,
    repricer.figure(g.new_total - g.old_total, w.what || 'uplift' || w.currency) AS uplift_milliunits,
    repricer.figure(g.old_per_period, w.what || 'old_per_period' || w.currency) AS old_per_period_milliunits,
    repricer.figure(g.new_per_period, w.what || 'new_per_period' || w.currency) AS new_per_period_milliunits,
    repricer.figure(g.new_per_period - g.old_per_period, w.what || 'uplift_per_period' || w.currency)
        AS uplift_per_period_milliunits,
    repricer.figure(round((g.new_per_period - g.old_per_period) * f.numerator / f.denominator),
        w.what || 'uplift_per_month' || w.currency) AS uplift_per_month_milliunits,
    g.declined, repricer.figure(g.declined_lost, w.what || 'declined_lost_per_period' || w.currency)
        AS declined_lost_per_period_milliunits,
    g.cancelled, repricer.figure(g.cancelled_lost, w.what || 'cancelled_lost_per_period' || w.currency)
        AS cancelled_lost_per_period_milliunits,
    g.dependents AS dependents_cancelled,
    repricer.figure(g.dependent_lost, w.what || 'dependent_lost_per_period' || w.currency)
        AS dependent_lost_per_period_milliunits,
    repricer.figure(g.all_lost, w.what || 'lost_per_period' || w.currency) AS lost_per_period_milliunits,
    repricer.figure(round(g.all_lost * f.numerator / f.denominator), w.what || 'lost_per_month' || w.currency)
        AS lost_per_month_milliunits,
    g.lapsed, repricer.figure(g.lapsed_lost, w.what || 'lapsed_lost_per_period' || w.currency)
        AS lapsed_lost_per_period_milliunits,
    repricer.figure(g.others_lost, w.what || 'other_items_lost_per_period' || w.currency)
        AS other_items_lost_per_period_milliunits,
    g.taxed_renewals AS charged_renewals_with_tax,
    repricer.figure(g.taxed_uplift, w.what || 'uplift_without_tax' || w.currency) AS uplift_without_tax_milliunits, g.silent,
    repricer.figure(g.silent_new, w.what || 'silent_per_period' || w.currency) AS silent_per_period_milliunits
FROM groups g
JOIN repricer.batches b ON b.batch_id = g.batch_id
LEFT JOIN factors f ON f.period = g.period
CROSS JOIN LATERAL (
    SELECT 'revenue_impact, batch ' || b.name || ': ' AS what, ' of ' || g.currency AS currency) w;
COMMENT ON VIEW report.revenue_impact IS
    'Money, one row a batch, currency, storefront and period, all of it as customers pay it: tax is inside, but for '
    'uplift_without_tax_milliunits. Uplift counts '
    'only where a renewal was charged at the new price, less what was refunded. Never add milliunits of two currencies.';

CREATE VIEW report.pending_consent AS
SELECT c.batch_id, b.name AS batch_name, c.original_transaction_id, c.change_id, c.sku,
    c.storefront, c.period, c.currency, c.current_price_milliunits, c.new_price_milliunits,
    c.dependent_skus, c.consent_asked_at, c.due_effective_at AS consent_due_at,
    c.due_effective_at < report.as_of() AS is_overdue
FROM repricer.price_changes c JOIN repricer.batches b ON b.batch_id = c.batch_id
WHERE c.stage = 'pending_consent';
COMMENT ON VIEW report.pending_consent IS 'Changes that wait for the subscriber''s consent.';

CREATE VIEW report.upcoming_effective AS
SELECT c.batch_id, b.name AS batch_name, c.original_transaction_id, c.change_id, c.sku,
    c.storefront, c.period, c.direction, c.currency, c.current_price_milliunits,
    c.new_price_milliunits, c.state, c.due_effective_at,
    c.state = 'accepted' OR (c.direction = 'decrease' AND c.state = 'scheduled') AS is_settled,
    c.due_effective_at < report.as_of() AS is_overdue
FROM repricer.price_changes c JOIN repricer.batches b ON b.batch_id = c.batch_id
WHERE c.stage IN ('queued', 'unknown', 'scheduled', 'pending_consent', 'accepted')
    AND c.undoes_change_id IS NULL;
COMMENT ON VIEW report.upcoming_effective IS
    'Open changes of approved batches and the renewal they are due at.';

-- It reads kept figures, and the dependents that fell. A page asks it each time that somebody opens it.
CREATE VIEW repricer.batch_effects AS
SELECT g.batch_id, g.currency, sum(g.changes) AS changes,
    sum(round(g.uplift * repricer.twelfths(g.period) / 12)) AS uplift_milliunits,
    sum(round(g.lost * repricer.twelfths(g.period) / 12)) AS lost_milliunits
FROM (
    -- As report.revenue_impact adds up and rounds it.
    SELECT e.batch_id, e.currency, e.period, sum(e.changes) AS changes, sum(e.uplift) AS uplift, sum(e.lost) AS lost
    FROM (
        SELECT t.batch_id, t.currency, t.storefront, t.period, t.changes,
            (t.new_per_period - t.old_per_period)::numeric AS uplift,
            t.declined_lost::numeric + t.cancelled_lost + t.lapsed_lost + t.fell_lost + t.others_lost AS lost
        FROM repricer.figure_tallies t WHERE NOT t.is_undo
        UNION ALL
        -- The tallies count what a further period brings; it is not known whether these have one.
        SELECT k.batch_id, k.currency, k.storefront, k.period, 0,
            (k.current_price_milliunits - k.new_price_milliunits)::numeric * k.seats, 0
        FROM repricer.batches b JOIN repricer.change_figures k ON k.batch_id = b.batch_id
        WHERE k.word_due_at < (SELECT d.until FROM repricer.heard_charges d) AND k.renewals > 0
            AND NOT k.is_leaving AND NOT k.is_undo
        UNION ALL
        SELECT d.batch_id, d.currency, d.storefront, d.period, 0, 0, d.price_milliunits
        FROM repricer.lost_dependents d
    ) e
    GROUP BY e.batch_id, e.currency, e.storefront, e.period
) g
GROUP BY g.batch_id, g.currency HAVING bool_or(g.uplift <> 0 OR g.lost <> 0);
COMMENT ON VIEW repricer.batch_effects IS
    'What each batch brought and lost a month, by currency, of the changes that are summarised.';

CREATE VIEW report.dependent_cancellation AS
SELECT d.batch_id, b.name AS batch_name, d.original_transaction_id, d.change_id, d.parent_sku, d.dependent_sku,
    d.cause, d.state, d.currency, d.price_milliunits, d.requested_at, d.requested_by_evidence, d.settled_at,
    d.settled_by_evidence, d.detail, d.state = 'confirmed' AND NOT EXISTS (
        SELECT FROM repricer.returned_dependents x
        WHERE x.original_transaction_id = d.original_transaction_id AND x.bucket = d.bucket AND x.change_id = d.change_id
            AND x.batch_id = d.batch_id AND x.dependent_sku = d.dependent_sku) AS is_proved, d.is_cross_subscription,
    d.target_transaction_id AS dependent_transaction_id, d.cancel_reference_id,
    CASE WHEN d.is_cross_subscription THEN coalesce(d.target_period, t.period) ELSE c.period END AS period
FROM repricer.dependent_cancellations d
JOIN repricer.batches b ON b.batch_id = d.batch_id
LEFT JOIN repricer.price_changes c
    ON c.original_transaction_id = d.original_transaction_id AND c.change_id = d.change_id
LEFT JOIN repricer.subscriptions t ON t.original_transaction_id = d.target_transaction_id;
COMMENT ON VIEW report.dependent_cancellation IS
    'Each dependent item to be cancelled since its parent''s increase was declined, and the proof.';

-- Each change counts once, under all its reasons together: the rows of a batch add up to its changes that were not
-- held out.
CREATE VIEW report.forecast_accuracy AS
SELECT o.batch_id, b.name AS batch_name, o.direction, o.forecast_consent,
    o.forecast_threshold_source, o.came_consent, o.changes,
    o.came_consent = nullif(o.forecast_consent, 'not_known') AS is_as_forecast,
    o.effective, o.effective_as_forecast, o.forecast_reasons, o.effective_earlier, o.effective_later,
    CASE
        WHEN o.came_consent IS NULL THEN 'not_known'
        WHEN o.forecast_consent = 'not_known' THEN 'was_not_known'
        WHEN o.came_consent = o.forecast_consent THEN 'as_forecast'
        WHEN o.came_consent = 'required' THEN 'missed'
        ELSE 'false_alarm'
    END AS consent_outcome,
    o.renewals_moved, o.forecast_not_known, o.forecast_because, o.missed_by_sibling, o.slipped,
    o.slipped_by_billing_failure, o.slipped_by_late_call, o.slipped_by_extension, o.slipped_by_other
FROM (
    SELECT f.batch_id, f.direction, f.forecast_consent, f.forecast_threshold_source, f.came_consent, f.forecast_reasons,
        f.forecast_not_known, f.forecast_because, sum(f.changes)::bigint AS changes,
        coalesce(sum(f.changes) FILTER (WHERE f.came IS NOT NULL), 0)::bigint AS effective,
        coalesce(sum(f.changes) FILTER (WHERE f.came = 'as_forecast'), 0)::bigint AS effective_as_forecast,
        coalesce(sum(f.changes) FILTER (WHERE f.came = 'earlier'), 0)::bigint AS effective_earlier,
        coalesce(sum(f.changes) FILTER (WHERE f.came = 'later'), 0)::bigint AS effective_later,
        coalesce(sum(f.changes) FILTER (WHERE f.has_moved), 0)::bigint AS renewals_moved,
        coalesce(sum(f.changes) FILTER (WHERE f.is_siblings_doing), 0)::bigint AS missed_by_sibling,
        coalesce(sum(f.changes) FILTER (WHERE f.slip IS NOT NULL), 0)::bigint AS slipped,
        coalesce(sum(f.changes) FILTER (WHERE f.slip = 'billing_failure'), 0)::bigint AS slipped_by_billing_failure,
        coalesce(sum(f.changes) FILTER (WHERE f.slip = 'late_call'), 0)::bigint AS slipped_by_late_call,
        coalesce(sum(f.changes) FILTER (WHERE f.slip = 'extension'), 0)::bigint AS slipped_by_extension,
        coalesce(sum(f.changes) FILTER (WHERE f.slip = 'other'), 0)::bigint AS slipped_by_other
    FROM repricer.forecast_outcomes f
    GROUP BY f.batch_id, f.direction, f.forecast_consent, f.forecast_threshold_source, f.came_consent, f.forecast_reasons,
        f.forecast_not_known, f.forecast_because
    HAVING sum(f.changes) > 0
) o
JOIN repricer.batches b ON b.batch_id = o.batch_id;
COMMENT ON VIEW report.forecast_accuracy IS
    'The forecast of consent and of its day against what the App Store did: a confusion matrix for each '
    'batch, by rule and by the source of the threshold, and why days slipped. Rows that were held out are in no '
    'figure: they are never sent.';

-- The ledger, each line with what explains it.
CREATE VIEW repricer.live_money AS
SELECT x.original_transaction_id, e.transaction_id, e.sku, e.kind, e.amount_milliunits, e.tax_exclusive_milliunits,
    e.currency, e.storefront, e.occurred_at, e.recorded_at, e.evidence_id, x.change_id, x.batch_id,
    CASE WHEN e.kind = 'charge' THEN x.explained_as ELSE e.kind END AS explained_as, b.name AS batch_name,
    e.correction > 0 AS is_correction
FROM repricer.explained_charges x
JOIN repricer.batches b ON b.batch_id = x.batch_id
-- OFFSET 0 has the same reason as in explained_charges.
CROSS JOIN LATERAL (
    SELECT m.* FROM repricer.money_entries m
    WHERE m.original_transaction_id = x.original_transaction_id AND m.transaction_id = x.transaction_id AND m.sku = x.sku
    OFFSET 0) e
UNION ALL
-- The lines that no change of ours is about.
SELECT e.original_transaction_id, e.transaction_id, e.sku, e.kind, e.amount_milliunits, e.tax_exclusive_milliunits,
    e.currency, e.storefront, e.occurred_at, e.recorded_at, e.evidence_id, NULL, NULL,
    CASE WHEN e.kind <> 'charge' THEN e.kind END, NULL, e.correction > 0
FROM repricer.money_entries e
WHERE NOT EXISTS (
    SELECT FROM repricer.explained_charges x
    WHERE x.original_transaction_id = e.original_transaction_id AND x.transaction_id = e.transaction_id AND x.sku = e.sku);
COMMENT ON VIEW repricer.live_money IS 'report.money, computed from the facts.';

-- The lines of the marked, as the facts say.
CREATE VIEW repricer.marked_money AS
SELECT m.original_transaction_id, l.transaction_id, l.sku, l.kind, l.amount_milliunits, l.tax_exclusive_milliunits,
    l.currency, l.storefront, l.occurred_at, l.recorded_at, l.evidence_id, l.change_id, m.batch_id, l.explained_as,
    l.batch_name, l.is_correction
FROM repricer.marked_batches m
-- OFFSET 0 makes PostgreSQL go subscription by subscription.
CROSS JOIN LATERAL (
    SELECT y.* FROM repricer.live_money y
    WHERE y.original_transaction_id = m.original_transaction_id AND y.batch_id = m.batch_id
    OFFSET 0) l
UNION ALL
-- Those that no change of ours is about.
SELECT m.original_transaction_id, l.transaction_id, l.sku, l.kind, l.amount_milliunits, l.tax_exclusive_milliunits,
    l.currency, l.storefront, l.occurred_at, l.recorded_at, l.evidence_id, NULL, NULL, l.explained_as, NULL, l.is_correction
FROM (SELECT DISTINCT s.original_transaction_id FROM repricer.stale_figures s) m
CROSS JOIN LATERAL (
    SELECT y.* FROM repricer.live_money y
    WHERE y.original_transaction_id = m.original_transaction_id AND y.batch_id IS NULL
    OFFSET 0) l;
COMMENT ON VIEW repricer.marked_money IS 'The lines of report.money of subscriptions with a mark.';

CREATE VIEW report.money AS
SELECT e.original_transaction_id, e.transaction_id, e.sku, e.kind, e.amount_milliunits, e.tax_exclusive_milliunits,
    e.currency, e.storefront, e.occurred_at, e.recorded_at, e.evidence_id, e.change_id, e.batch_id,
    CASE WHEN e.kind = 'charge' THEN e.explained_as ELSE e.kind END AS explained_as, b.name AS batch_name,
    e.correction > 0 AS is_correction
FROM repricer.money_entries e
LEFT JOIN repricer.batches b ON b.batch_id = e.batch_id
WHERE NOT EXISTS (SELECT FROM repricer.marked_subscriptions() s (id) WHERE s.id = e.original_transaction_id)
UNION ALL
SELECT l.* FROM repricer.marked_money l;
COMMENT ON VIEW report.money IS
    'Append-only: one line a signed charge, refund or reversal of one item. A line that a later statement makes another is '
    'followed by the difference, so that the sum of what was recorded by an instant is what was known then.';

CREATE VIEW report.charge_exception AS
SELECT f.batch_id, b.name AS batch_name, f.original_transaction_id, f.change_id, f.transaction_id, f.sku, f.exception,
    f.occurred_at, f.amount_milliunits::bigint AS amount_milliunits, f.expected_milliunits, f.refunded_milliunits,
    f.currency, f.storefront
FROM repricer.charge_exceptions f JOIN repricer.batches b ON b.batch_id = f.batch_id;
COMMENT ON VIEW report.charge_exception IS
    'Every charge since a change''s call that is not what it should be, by name, and every renewal that was not charged.';

CREATE VIEW repricer.reconciliation_checks (check_name, is_per_batch, is_of_money, meaning) AS VALUES
    ('rows_add_up', true, true, 'batches whose changes or refused rows do not add up to the file'),
    ('silent_past_renewal', true, false,
        'changes that Apple has, a day past their renewal without a word from Apple'),
    ('requests_unknown', true, false, 'calls with a lost answer that nothing has settled yet'),
    ('effective_without_charge', true, true, 'effective changes without a charge at the new price'),
    ('ended_yet_applied', true, false, 'changes that ended here as not applied, while the App Store has their price'),
    ('charges_other_price', true, true, 'charges since a call that are neither at the old price nor at the new one'),
    ('charges_after_end', true, true, 'renewals charged after the change, or the subscription, had ended'),
    ('charges_declined', true, true, 'renewals charged after the increase was declined'),
    ('charges_missing', true, true, 'renewals since the call of a change that no charge tells of, and nothing tells why'),
    ('charges_double', true, true, 'renewals charged for a time that another one was charged for'),
    ('charges_relisted', true, true,
        'charges whose transaction Apple has signed with another item in their place, at another price'),
    ('charges_wrong_currency', true, true,
        'charges in another currency than the change, in the same storefront, or in one that nobody told (XXX)'),
    ('charges_refunded', true, true, 'charges since a call that were refunded, in part or in full, and have no other name'),
    ('dependents_in_discrepancy', true, false, 'dependents whose cancellation could not be proved, or that renewed since'),
    ('dependents_not_recorded', true, false, 'dependents of declined changes that nobody looks after'),
    ('notifications_not_understood', false, false, 'notifications stored but not understood'),
    ('refunds_without_amount', false, false, 'refund notices that do not say how much was given back, or when'),
    ('amounts_left_out', true, true,
        'statements with an amount, or what it hangs on, that cannot be meant: money that is in no sum, or counts as one seat'),
    ('inbox_stuck', false, false, 'notifications with an error, or waiting for more than a day');
COMMENT ON VIEW repricer.reconciliation_checks IS 'The checks of report.reconciliation, and what each counts.';

-- One that is told in a dropped month, too, stands twice.
CREATE VIEW repricer.statements_without_amounts AS
SELECT DISTINCT t.original_transaction_id, t.signed_at, t.evidence_id
FROM repricer.told_statements t
WHERE t.left_out IS NOT NULL AND repricer.lacks_amount(t.left_out);
COMMENT ON VIEW repricer.statements_without_amounts IS 'Statements of which something was left out that a sum of money hangs on.';

CREATE VIEW report.reconciliation AS
WITH problems (batch_id, check_name, problems) AS (
    SELECT batch_id, 'rows_add_up', count(*) FROM report.batch_summary
        WHERE NOT rows_add_up GROUP BY batch_id
    UNION ALL
    SELECT c.batch_id, 'silent_past_renewal', count(*) FROM repricer.price_changes c
        -- OFFSET 0, here and below, makes PostgreSQL search the few subscriptions, instead of reading all there are.
        LEFT JOIN LATERAL (
            SELECT s.in_billing_retry, s.status FROM repricer.subscriptions s
            WHERE s.original_transaction_id = c.original_transaction_id OFFSET 0) s ON true
        WHERE c.stage IN ('scheduled', 'pending_consent', 'accepted')
            AND c.due_effective_at < report.as_of() - interval '1 day'
            AND NOT coalesce(s.in_billing_retry, false) AND coalesce(s.status, 0) NOT IN (3, 4)
        GROUP BY c.batch_id
    UNION ALL
    SELECT c.batch_id, 'requests_unknown', count(DISTINCT r.call_id)
        FROM repricer.store_calls r
        JOIN repricer.price_changes c
            ON c.original_transaction_id = r.subject AND c.bucket = r.bucket
            AND c.change_id = ANY (r.carries)
        WHERE r.kind = 'price_change' AND r.settled_at IS NULL AND r.state = 'unknown' GROUP BY c.batch_id
    UNION ALL
    SELECT t.batch_id, 'effective_without_charge', sum(t.uncharged)::bigint
        FROM (
            SELECT k.batch_id, k.uncharged FROM repricer.figure_tallies k
            UNION ALL
            SELECT u.batch_id, u.uncharged FROM repricer.untallied_changes u WHERE u.is_final) t
        GROUP BY t.batch_id
    UNION ALL
    -- The newest facts decide, not a mark of ours on the call: what the App Store has counts, whoever lost sight of
    -- it. It has the price where it announces it, and where it has charged it since our call.
    SELECT c.batch_id, 'ended_yet_applied', count(*) FROM repricer.price_changes c
        JOIN repricer.batches b ON b.batch_id = c.batch_id
        WHERE c.stage IN ('rejected', 'ineligible', 'missed', 'aborted')
            AND b.decided_at IS NOT NULL AND b.state <> 'rejected' AND c.undoes_change_id IS NULL
            AND (EXISTS (
                    SELECT FROM repricer.subscriptions s
                    CROSS JOIN LATERAL jsonb_array_elements(s.items) item
                    WHERE s.original_transaction_id = c.original_transaction_id
                        AND item ->> 'sku' = coalesce(c.current_sku, c.sku) AND (item ->> 'renews')::boolean
                        AND c.new_price_milliunits = CASE WHEN c.direction = 'increase'
                            THEN (item #>> '{increase,price}')::bigint ELSE (item ->> 'renewalPrice')::bigint END)
                OR c.sent_at IS NOT NULL AND EXISTS (
                    SELECT FROM repricer.charges k
                    WHERE k.original_transaction_id = c.original_transaction_id
                        AND (k.sku = c.sku OR k.sku = c.current_sku OR k.sku = ANY (c.former_skus))
                        AND k.purchased_at >= c.sent_at AND NOT k.is_offer AND k.currency = c.currency
                        AND k.price_milliunits = c.new_price_milliunits))
            -- A later change of ours to the same price explains it.
            AND NOT EXISTS (
                SELECT FROM repricer.price_changes o
                WHERE o.original_transaction_id = c.original_transaction_id AND o.change_id <> c.change_id
                    AND coalesce(o.current_sku, o.sku) = coalesce(c.current_sku, c.sku)
                    AND o.new_price_milliunits = c.new_price_milliunits
                    AND o.state NOT IN ('awaiting_approval', 'queued', 'rejected', 'ineligible', 'missed', 'aborted'))
        GROUP BY c.batch_id
    UNION ALL
    SELECT batch_id, CASE exception WHEN 'declined_yet_charged' THEN 'charges_declined' ELSE 'charges_' || exception END,
            count(*)
        FROM repricer.charge_exceptions GROUP BY 1, 2
    UNION ALL
    SELECT c.batch_id, 'amounts_left_out', count(DISTINCT (t.original_transaction_id, t.signed_at, t.evidence_id))
    FROM repricer.statements_without_amounts t
    -- The money of a batch begins at its calls.
    JOIN repricer.price_changes c ON c.original_transaction_id = t.original_transaction_id
        AND t.signed_at >= coalesce(c.sent_at, c.doubtful_since, c.scheduled_at)
    GROUP BY c.batch_id
    UNION ALL
    SELECT d.batch_id, 'dependents_in_discrepancy', count(*) FROM (
        SELECT d.batch_id FROM repricer.dependent_cancellations d WHERE d.state = 'discrepancy'
        UNION ALL
        SELECT x.batch_id FROM repricer.returned_dependents x) d
        GROUP BY d.batch_id
    UNION ALL
    SELECT c.batch_id, 'dependents_not_recorded', count(*)
        FROM repricer.price_changes c
        CROSS JOIN LATERAL
            unnest(coalesce(c.current_dependent_skus, c.dependent_skus)) AS u (sku)
        WHERE c.stage = 'declined'
            AND NOT EXISTS (
                SELECT FROM repricer.dependent_cancellations d
                WHERE d.original_transaction_id = c.original_transaction_id
                    AND d.change_id = c.change_id AND d.dependent_sku = u.sku)
        GROUP BY c.batch_id
)
SELECT b.batch_id, b.name AS batch_name, k.check_name, coalesce(p.problems, 0) AS problems,
    coalesce(p.problems, 0) = 0 OR k.check_name = 'charges_refunded' AS is_ok, k.meaning
FROM repricer.batches b
JOIN repricer.reconciliation_checks k ON k.is_per_batch
LEFT JOIN problems p ON p.check_name = k.check_name AND p.batch_id = b.batch_id
UNION ALL
SELECT NULL, NULL, k.check_name, n.problems, n.problems = 0, k.meaning
FROM repricer.reconciliation_checks k
JOIN (
    SELECT 'notifications_not_understood' AS check_name, count(*) AS problems FROM repricer.notifications
    WHERE NOT understood
    UNION ALL
    SELECT 'refunds_without_amount', count(*) FROM (
        SELECT f.notification_uuid FROM repricer.notifications f
        WHERE f.type = 'REFUND' AND f.subtype = 'SEATS' AND f.original_transaction_id IS NOT NULL AND NOT EXISTS (
            SELECT FROM repricer.money_entries e
            WHERE e.original_transaction_id = f.original_transaction_id AND e.kind = 'refund'
                AND e.occurred_at BETWEEN f.signed_at - interval '1 day' AND f.signed_at + interval '1 day')
        UNION
        -- A refund whose amount or date is missing, or cannot be one.
        SELECT f.notification_uuid FROM repricer.notifications f
        WHERE f.unknown IS NOT NULL AND EXISTS (
            SELECT FROM unnest(f.unknown) AS u (part) WHERE u.part ~ '[.]items[.]refunds[.]refund(Amount|Date)[:=]')
    ) AS f
    UNION ALL
    SELECT 'amounts_left_out', count(*) FROM repricer.statements_without_amounts
    UNION ALL
    SELECT 'inbox_stuck', count(*) FROM repricer.inbox
    WHERE error IS NOT NULL OR received_at < report.as_of() - interval '1 day'
) n ON n.check_name = k.check_name;
COMMENT ON VIEW report.reconciliation IS
    'Every check for every batch (batch_id null: the whole installation), also where all is well.';

CREATE VIEW report.renewal_extension AS
WITH told AS (
    SELECT extension_id, original_transaction_id, bool_or(outcome <> 'failed') AS is_extended,
        bool_or(outcome = 'failed') AS is_failed, min(told_at) AS first_told_at, max(told_at) AS last_told_at,
        min(renewal_before) AS renewal_before, max(renewal_at) AS renewal_at
    FROM repricer.attributed_extensions WHERE extension_id IS NOT NULL
    GROUP BY extension_id, original_transaction_id
), tallies AS (
    SELECT extension_id, count(*) FILTER (WHERE is_extended) AS extended,
        count(*) FILTER (WHERE is_failed) AS failed, max(last_told_at) AS last_told_at
    FROM told GROUP BY extension_id
), retries AS (
    SELECT mass_extension_id, count(*) AS asked,
        count(*) FILTER (WHERE state = 'extended') AS extended,
        count(*) FILTER (WHERE state IN ('queued', 'sending', 'unknown')) AS open
    FROM repricer.extension_requests WHERE mass_extension_id IS NOT NULL GROUP BY mass_extension_id
), masses AS (
    SELECT m.*, coalesce(t.extended, 0) AS extended, coalesce(t.failed, 0) AS failed, t.last_told_at,
        coalesce(m.summary_succeeded, m.status_succeeded) AS apple_extended,
        coalesce(m.summary_failed, m.status_failed) AS apple_failed,
        coalesce(r.asked, 0) AS retried, coalesce(r.extended, 0) AS retried_extended
    FROM repricer.mass_extensions m
    LEFT JOIN tallies t USING (extension_id)
    LEFT JOIN retries r ON r.mass_extension_id = m.extension_id
)
SELECT 'all' AS kind, extension_id::text, product_id, storefronts, NULL::text AS original_transaction_id,
    NULL::text AS retry_of, extend_by_days::bigint AS extend_by_days, reason_code::bigint AS reason_code, state,
    submitted_by AS requested_by, submitted_at AS requested_at, decided_by AS approved_by, decided_at AS approved_at,
    called_at, completed_at, eligible_count AS eligible_forecast, extended, failed, apple_extended, apple_failed,
    retried, retried_extended, NULL::timestamptz AS renewal_before_at, NULL::timestamptz AS renewal_at, code,
    CASE WHEN state IN ('rejected', 'refused', 'given_up') THEN 'ended'
        WHEN state <> 'complete' OR apple_extended IS NULL OR apple_failed IS NULL THEN 'open'
        WHEN (extended, failed) = (apple_extended, apple_failed) THEN 'clean' ELSE 'differs' END AS check_result,
    coalesce(CASE WHEN state = 'complete' AND (extended, failed) <> (apple_extended, apple_failed)
            THEN format('%s extended and %s failed were told one by one, the App Store counts %s and %s',
                extended, failed, apple_extended, apple_failed) END, detail) AS detail,
    rejected_by, rejected_at
FROM masses
UNION ALL
SELECT CASE WHEN c.mass_extension_id IS NULL THEN 'one' ELSE 'retry' END, c.extension_id::text, s.product_id,
    NULL, c.original_transaction_id, c.mass_extension_id::text, c.extend_by_days, c.reason_code, c.state,
    c.requested_by, c.requested_at, NULL, NULL, c.called_at, c.settled_at, NULL,
    CASE WHEN t.is_extended THEN 1 ELSE 0 END, 0, CASE WHEN c.state = 'extended' THEN 1 ELSE 0 END, NULL, NULL, NULL,
    coalesce(c.renewal_before, t.renewal_before), coalesce(t.renewal_at, c.effective_at), c.code,
    CASE WHEN c.state IN ('refused', 'ineligible') THEN 'ended' WHEN c.state <> 'extended' THEN 'open'
        WHEN t.is_extended THEN 'clean' ELSE 'open' END,
    c.detail, NULL, NULL
FROM repricer.extension_requests c
JOIN repricer.subscriptions s USING (original_transaction_id)
LEFT JOIN told t ON t.extension_id = c.extension_id AND t.original_transaction_id = c.original_transaction_id
UNION ALL
SELECT 'foreign', coalesce(f.request_identifier, f.notification_uuid), f.product_id, f.storefronts, NULL, NULL, NULL,
    NULL, 'complete', NULL, NULL, NULL, NULL, NULL, f.signed_at, NULL, NULL, NULL, f.succeeded, f.failed, NULL, NULL,
    NULL, NULL, NULL, 'differs',
    coalesce(f.detail, 'a summary of a request that was never made here'), NULL, NULL
FROM repricer.extension_summaries f
WHERE f.folded_at IS NOT NULL AND f.extension_id IS NULL;
COMMENT ON VIEW report.renewal_extension IS
    'Renewal-date extensions: each request, what the App Store told of its subscriptions, and whether the counts agree.'
    ' No NAME_as_of: requests of extensions keep no versions.';

CREATE VIEW report.notification_health AS
SELECT n.type, n.subtype, count(*) AS notifications, min(n.received_at) AS first_received_at,
    max(n.received_at) AS last_received_at, max(n.signed_at) AS last_signed_at,
    count(*) FILTER (WHERE NOT n.understood) AS not_understood,
    count(i.notification_uuid) FILTER (WHERE i.error IS NULL) AS waiting,
    count(i.notification_uuid) FILTER (WHERE i.error IS NOT NULL) AS stuck,
    count(n.unknown) AS with_unknown_parts
FROM repricer.notifications n
LEFT JOIN repricer.inbox i
    ON i.original_transaction_id = n.original_transaction_id
    AND i.notification_uuid = n.notification_uuid
GROUP BY n.type, n.subtype;
COMMENT ON VIEW report.notification_health IS
    'What arrived from the App Store, for each type and subtype.'
    ' No NAME_as_of: it is about today: what arrived and what waits.';

CREATE VIEW report.unknown_part AS
SELECT split_part(u.part, ':', 1) AS kind, substr(u.part, strpos(u.part, ':') + 1) AS name,
    count(*) AS notifications, min(n.received_at) AS first_received_at,
    max(n.received_at) AS last_received_at
FROM repricer.notifications n
CROSS JOIN LATERAL unnest(n.unknown) AS u(part)
WHERE n.unknown IS NOT NULL
GROUP BY u.part
UNION ALL
SELECT 'left_out', u.part, count(DISTINCT (t.original_transaction_id, t.signed_at, t.evidence_id)), min(t.recorded_at),
    max(t.recorded_at)
FROM repricer.told_statements t
CROSS JOIN LATERAL jsonb_array_elements_text(t.left_out) AS u (part)
WHERE t.left_out IS NOT NULL
GROUP BY u.part;
COMMENT ON VIEW report.unknown_part IS
    'What the App Store sent that the product does not know, or left out since it cannot be meant. It is kept, and read anew by '
    '`repricer reprocess` after an upgrade.'
    ' No NAME_as_of: it is about today: reprocess reads anew what was unknown.';

-- Closed months --------------------------------------------------------------------------------------------------------

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
-- month by themselves, and not all there are. Who is marked is counted from the facts: once for all months, and not where none
-- is closed.
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
    -- A renewal brings an uplift where the ledger has a line of its charge.
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

-- Closes a month: its figures, as they are known now, stay. The owner, and who leads finance, may.
CREATE FUNCTION report.close_month(p_month text, p_at timestamptz) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp SET timezone = 'UTC' SET jit = off AS $$
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
        json_build_object('figures', v_figures, 'sums', (
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

-- Whose figures these are, for those who may read this schema alone; no row where no program has bound the database yet.
CREATE FUNCTION report.app() RETURNS TABLE (bundle_id text, environment text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp
BEGIN ATOMIC
    SELECT a.bundle_id, a.environment FROM repricer.app_binding a;
END;
COMMENT ON FUNCTION report.app() IS 'The app and the environment that this database is about.';

-- Bridge, risk, holdout -----------------------------------------------------------------------------------------------

-- What the items of called changes, and their dependents, brought a month: at the start of each calendar month, or at
-- the call where that came within it, and at its end; and what became of the difference. In twelfths of milliunits.
-- What begins or ends at midnight on the first belongs to the month that begins then.
-- An item counts under the newest change that was called before the month ended, so that no two batches count it. What
-- is paid for at an instant is what charges say; before the first one that is known, what the plan knew.
-- Each subscription is asked as of an instant of its own: the same one may be asked for several.
CREATE FUNCTION repricer.moves_of(p_ids text[], p_ats timestamptz[], p_batch uuid) RETURNS TABLE (
        id text, at timestamptz, batch_id uuid, month date, currency text, storefront text, opening numeric, closing numeric,
        cause text, price_effect numeric)
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
WITH subjects AS (
    SELECT u.id, u.at FROM unnest(p_ids, p_ats) AS u (id, at)
), called AS (
    SELECT s.id AS subject, s.at, c.original_transaction_id, c.change_id, c.batch_id, c.currency, c.storefront,
        c.dependents, c.former_dependents, twelfths(c.period) AS twelfths, c.called_at, c.state, c.reason, c.ended_at, c.effective_at,
        c.current_price_milliunits, c.new_price_milliunits, c.forecast_renewal_at, c.forecast_seats, c.names,
        lead(c.called_at) OVER (PARTITION BY s.id, s.at, c.item_sku ORDER BY c.called_at, c.change_id) AS next_called_at
    FROM subjects s
    -- OFFSET 0 makes PostgreSQL go subscription by subscription.
    CROSS JOIN LATERAL (
        SELECT h.original_transaction_id, h.change_id, h.batch_id, h.currency, h.storefront, h.period, h.state, h.reason,
            h.ended_at, h.effective_at, h.current_price_milliunits, h.new_price_milliunits, h.forecast_renewal_at, h.forecast_seats,
            coalesce(h.current_dependent_skus, h.dependent_skus) AS dependents, h.dependent_skus AS former_dependents,
            coalesce(h.sent_at, h.doubtful_since, h.scheduled_at) AS called_at, coalesce(h.current_sku, h.sku) AS item_sku,
            array_remove(ARRAY[h.sku, h.current_sku] || h.former_skus, NULL) AS names
        FROM repricer.price_changes h
        -- What the App Store refused moves nothing.
        WHERE h.original_transaction_id = s.id AND h.undoes_change_id IS NULL
            AND h.state NOT IN ('rejected', 'ineligible', 'missed', 'aborted')
        OFFSET 0) c
    WHERE c.called_at <= s.at
), dependents AS (
    SELECT c.*, w.id, w.name, w.is_cross_subscription,
        -- Its charges bear the name of then: at the submission, or now.
        ARRAY[w.name, u.former] AS item_names,
        CASE WHEN w.is_cross_subscription THEN twelfths(coalesce(d.period, t.period)) ELSE c.twelfths END AS item_twelfths,
        -- A later change of the same parent may not name it: then it goes on to count with this one.
        lead(c.called_at) OVER (PARTITION BY c.subject, c.at, w.id, w.name ORDER BY c.called_at, c.change_id) AS named_next_at
    FROM called c
    CROSS JOIN LATERAL unnest(c.dependents, c.former_dependents) AS u (name, former)
    CROSS JOIN LATERAL (SELECT regexp_match(u.name, '^([0-9]+)/(.+)$') AS place) n
    LEFT JOIN repricer.dependent_claims d ON d.claimed_by = c.original_transaction_id AND d.change_id = c.change_id
        AND d.sku = coalesce(n.place[2], u.name)
    CROSS JOIN LATERAL (
        SELECT coalesce(d.original_transaction_id, n.place[1], c.original_transaction_id) AS id,
            coalesce(n.place[2], u.name) AS name, coalesce(d.original_transaction_id, n.place[1]) IS NOT NULL AS is_cross_subscription) w
    LEFT JOIN repricer.subscriptions t ON t.original_transaction_id = w.id AND w.is_cross_subscription
    WHERE c.dependents <> '{}'
), named AS (
    SELECT c.subject, c.at, c.batch_id, c.original_transaction_id AS id, c.names, false AS is_dependent, c.currency,
        c.storefront, c.twelfths, false AS is_cross_subscription, c.called_at, c.next_called_at, c.state, c.reason, c.ended_at, c.effective_at,
        c.current_price_milliunits AS old_price, c.new_price_milliunits AS new_price, c.forecast_renewal_at, c.forecast_seats
    FROM called c
    -- Written as an equation, PostgreSQL takes it for one row of 200, and searches what follows row by row.
    WHERE p_batch IS NULL OR nullif(c.batch_id = p_batch, false) IS NOT NULL
    UNION ALL
    SELECT d.subject, d.at, d.batch_id, d.id, d.item_names, true, d.currency, d.storefront, d.item_twelfths, d.is_cross_subscription, d.called_at,
        least(d.named_next_at, o.later_at), d.state, d.reason, d.ended_at, NULL, NULL, NULL, NULL, NULL
    FROM dependents d
    -- From the call of a change of its own on, an item counts with that change.
    CROSS JOIN LATERAL (
        SELECT min(o.called_at) AS first_at, min(o.called_at) FILTER (WHERE o.called_at > d.called_at) AS later_at
        FROM (
            SELECT coalesce(h.sent_at, h.doubtful_since, h.scheduled_at) AS called_at FROM repricer.price_changes h
            WHERE h.original_transaction_id = d.id AND d.name IN (h.sku, h.current_sku) AND h.undoes_change_id IS NULL
                AND h.state NOT IN ('rejected', 'ineligible', 'missed', 'aborted')) o
        WHERE o.called_at <= d.at) o
    WHERE (p_batch IS NULL OR nullif(d.batch_id = p_batch, false) IS NOT NULL) AND coalesce(o.first_at > d.called_at, true)
), items AS MATERIALIZED (
    -- The instants are in UTC without a zone, so that months can be added and cut off.
    SELECT row_number() OVER () AS item, i.*, i.called_at AT TIME ZONE 'UTC' AS begins,
        CASE WHEN i.next_called_at < i.at THEN date_trunc('month', i.next_called_at AT TIME ZONE 'UTC')
            ELSE i.at AT TIME ZONE 'UTC' END AS ends
    FROM named i
), runs AS (
    -- The periods that were paid for. A renewal ends the one before it, and so does a modification in mid period, whose
    -- transaction has all items and seats anew (an inference); a seat that is added comes beside, and ends with it.
    SELECT h.original_transaction_id AS id, s.at, h.sku, h.currency, h.price_milliunits::numeric * h.quantity AS milliunits,
        h.quantity, h.purchased_at,
        h.purchased_at AT TIME ZONE 'UTC' AS begins,
        -- An offer may be paid for once and last longer, or shorter, than a period of the plan.
        CASE WHEN h.is_offer THEN extract(epoch FROM h.expires_at - h.purchased_at) / 86400 END AS offer_days,
        extract(epoch FROM h.expires_at - h.purchased_at) / 86400 AS days, h.period,
        least(h.expires_at, g.given_back_at,
            -- The customer chose another item in mid period. Only who bought something later is searched for that.
            CASE WHEN h.bought_at > h.purchased_at THEN (
                SELECT min(n.purchased_at) FROM repricer.charges n
                WHERE n.original_transaction_id = h.original_transaction_id AND n.is_purchase AND n.purchased_at <= s.at
                    AND n.purchased_at > h.purchased_at AND n.purchased_at < h.expires_at
                    AND NOT EXISTS (
                        SELECT FROM repricer.charges o
                        WHERE o.original_transaction_id = n.original_transaction_id AND o.transaction_id = n.transaction_id
                            AND o.sku = h.sku)
                    -- An item that is charged again was not the one that was exchanged.
                    AND NOT EXISTS (
                        SELECT FROM repricer.charges g
                        WHERE g.original_transaction_id = n.original_transaction_id AND g.sku = h.sku
                            AND g.purchased_at > n.purchased_at AND g.purchased_at <= s.at)
                    AND EXISTS (
                        SELECT FROM repricer.told_statements e
                        WHERE e.original_transaction_id = h.original_transaction_id AND e.subtype = 'UPGRADE'
                            AND e.type IN ('DID_CHANGE_RENEWAL_PREF', 'OFFER_REDEEMED')
                            AND e.signed_at > n.purchased_at - interval '1 day'
                            AND e.signed_at < n.purchased_at + interval '1 day')) END) AT TIME ZONE 'UTC' AS ends,
        g.given_back_at AT TIME ZONE 'UTC' AS given_back_at, h.expires_at AT TIME ZONE 'UTC' AS expires,
        -- One that was given back in full, or revoked, ends no other: it may have been charged twice.
        h.revoked_at IS NULL
            AND (h.refunded_milliunits < h.price_milliunits::numeric * h.quantity OR h.price_milliunits = 0) AS stands,
        h.is_added_seat, h.transaction_id
    FROM (SELECT DISTINCT i.id, i.at FROM items i) s
    CROSS JOIN LATERAL (
        SELECT k.*, max(k.purchased_at) FILTER (WHERE k.is_purchase) OVER () AS bought_at
        FROM repricer.charges k WHERE k.original_transaction_id = s.id AND k.purchased_at <= s.at OFFSET 0) h
    CROSS JOIN LATERAL (
        SELECT least(h.revoked_at,
            CASE WHEN h.refunded_milliunits > 0 AND h.refunded_milliunits >= h.price_milliunits::numeric * h.quantity THEN (
                SELECT max(e.occurred_at) FROM repricer.money_entries e
                WHERE e.original_transaction_id = h.original_transaction_id AND e.transaction_id = h.transaction_id
                    AND e.sku = h.sku AND e.kind = 'refund') END) AS given_back_at) g
), paid AS MATERIALIZED (
    SELECT i.item, i.begins, i.ends,
        -- A period of the plan has 365.25 / twelfths days. Those of the Sandbox last minutes, and are left alone.
        w.twelfths * CASE WHEN r.offer_days * w.twelfths >= 1.5 * 365.25
                THEN floor(r.milliunits / round(r.offer_days * w.twelfths / 365.25))
            WHEN r.offer_days >= 6 AND r.offer_days * w.twelfths <= 365.25 / 1.5
                THEN r.milliunits * round(365.25 / (r.offer_days * w.twelfths))
            ELSE r.milliunits END AS milliunits,
        r.begins AS run_begins, r.ends AS run_ends, r.stands, r.is_added_seat,
        NOT r.stands AND NOT r.is_added_seat AS is_spare,
        coalesce(r.given_back_at = r.ends, false) AS is_cut,
        -- A dependent may renew once more before its cancellation ends it.
        coalesce(r.begins > i.ended_at AT TIME ZONE 'UTC'
            + CASE WHEN i.is_dependent THEN interval '31 days' ELSE interval '0' END, false) AS is_return
    FROM items i
    JOIN (
        -- Of an item, whatever it was called. What an added seat costs may be a part of the price; from the renewal on it costs
        -- what each seat beside it does.
        SELECT r.item, CASE WHEN r.is_added_seat THEN coalesce(r.quantity * (
                SELECT CASE WHEN NOT o.is_offer THEN o.price_milliunits::numeric END FROM repricer.charges o
                WHERE o.original_transaction_id = r.id AND o.sku = ANY (r.names) AND NOT o.is_added_seat
                    AND o.currency = r.currency AND o.purchased_at <= r.purchased_at AND o.expires_at > r.purchased_at
                ORDER BY o.purchased_at DESC, o.transaction_id DESC LIMIT 1), r.milliunits) ELSE r.milliunits END AS milliunits,
            r.offer_days, r.days, r.period, r.currency, r.begins, r.given_back_at, r.stands, r.is_added_seat,
            -- The App Store may date a renewal some moments off: they are no gap.
            CASE WHEN r.ends < r.next_begins AND r.ends = r.expires
                    AND r.next_begins <= r.ends + least(interval '1 hour', (r.ends - r.begins) / 10)
                THEN r.next_begins ELSE least(r.ends, r.next_begins) END AS ends
        FROM (
            SELECT n.item, n.names, r.*, min(r.begins) FILTER (WHERE r.stands AND NOT r.is_added_seat) OVER (
                PARTITION BY n.item ORDER BY r.begins DESC, r.is_added_seat DESC, r.transaction_id DESC
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS next_begins
            FROM items n JOIN runs r ON r.id = n.id AND r.at = n.at AND r.sku = ANY (n.names)) r) r
        ON r.item = i.item AND r.currency = i.currency AND r.begins < i.ends AND r.ends >= i.begins
    -- The customer may have changed the length of the period since the call: each charge is by that which was signed with it.
    -- Where none was, a dependent elsewhere is by its days. What has been put off has none of these lengths, and is by that
    -- of the call.
    CROSS JOIN LATERAL (SELECT CASE WHEN r.period IS NOT NULL THEN twelfths(r.period) WHEN NOT i.is_cross_subscription THEN i.twelfths
        WHEN r.days BETWEEN 6.9 AND 7.1 THEN 52 WHEN r.days BETWEEN 27.9 AND 31.1 THEN 12 WHEN r.days BETWEEN 58.9 AND 62.1 THEN 6
        WHEN r.days BETWEEN 88.9 AND 92.1 THEN 4 WHEN r.days BETWEEN 180.9 AND 184.1 THEN 2
        WHEN r.days BETWEEN 364.9 AND 366.1 THEN 1 ELSE i.twelfths END AS twelfths) w
), turns AS (
    -- When what was given back ended what was paid for, until when the rest was paid, and when the customer bought the item
    -- again after its change had ended.
    SELECT p.item, array_agg(p.run_ends) FILTER (WHERE p.is_cut) AS cut_at,
        array_agg(p.run_ends) FILTER (WHERE NOT p.is_cut) AS uncut_until, min(p.run_begins) FILTER (WHERE p.is_return) AS back_at
    FROM paid p GROUP BY p.item HAVING bool_or(p.is_cut OR p.is_return)
), kept AS MATERIALIZED (
    -- What paid for an item of which something else was given back.
    SELECT p.item, array_agg(p.run_begins) FILTER (WHERE p.stands AND NOT p.is_added_seat) AS begins,
        array_agg(p.run_ends) FILTER (WHERE p.stands AND NOT p.is_added_seat) AS ends
    FROM paid p GROUP BY p.item HAVING bool_or(p.is_spare)
), points AS MATERIALIZED (
    -- What was paid for at the call, at the start of each month since, and at the end.
    SELECT p.item, p.at, p.begins, p.ends, sum(p.milliunits) AS milliunits
    FROM (
        SELECT item, begins AS at, begins, ends, milliunits, is_spare FROM paid WHERE run_begins < begins
        UNION ALL
        SELECT item, generate_series(date_trunc('month', greatest(run_begins, begins)) + interval '1 month',
            least(run_ends, ends), interval '1 month'), begins, ends, milliunits, is_spare FROM paid
        UNION ALL
        SELECT item, ends, begins, ends, milliunits, is_spare FROM paid
        WHERE ends <= run_ends AND ends <> date_trunc('month', ends) AND begins < ends) p
    LEFT JOIN kept k ON k.item = p.item AND p.is_spare
    -- Where two charges cover the same time and one was given back later, only the other one counts.
    WHERE k.item IS NULL OR NOT EXISTS (
        SELECT FROM unnest(k.begins, k.ends) AS u (begins, ends) WHERE u.begins < p.at AND u.ends >= p.at)
    GROUP BY p.item, p.at, p.begins, p.ends
), unpaid AS MATERIALIZED (
    -- Before the first known charge, it is what the plan knew: the price of each seat.
    SELECT i.item, i.begins, i.ends, i.twelfths * i.old_price::numeric * i.forecast_seats AS old_price,
        -- Until the first charge, where that is moments late.
        CASE WHEN f.at <= w.renews + f.moments THEN greatest(w.renews, f.at) ELSE w.renews END AS renews
    FROM items i
    CROSS JOIN LATERAL (SELECT i.forecast_renewal_at AT TIME ZONE 'UTC' AS renews) w
    LEFT JOIN (
        SELECT DISTINCT ON (p.item) p.item, p.run_begins AS at, least(interval '1 hour', (p.run_ends - p.run_begins) / 10) AS moments
        FROM paid p WHERE p.stands AND NOT p.is_added_seat ORDER BY p.item, p.run_begins) f
        ON f.item = i.item
    WHERE i.old_price IS NOT NULL AND NOT EXISTS (SELECT FROM points k WHERE k.item = i.item AND k.at = i.begins)
), known AS (
    SELECT p.item, p.at, p.begins, p.ends, p.milliunits FROM points p
    UNION ALL
    SELECT u.item, u.at, u.begins, u.ends, u.old_price
    FROM (
        SELECT item, begins AS at, begins, ends, old_price, renews FROM unpaid
        UNION ALL
        SELECT item, generate_series(date_trunc('month', begins) + interval '1 month', least(renews, ends),
            interval '1 month'), begins, ends, old_price, renews FROM unpaid
        UNION ALL
        SELECT item, ends, begins, ends, old_price, renews FROM unpaid
        WHERE ends <> date_trunc('month', ends) AND begins < ends) u
    WHERE u.at <= u.renews AND NOT EXISTS (SELECT FROM points k WHERE k.item = u.item AND k.at = u.at)
), months AS (
    SELECT e.item, e.month, sum(e.opens) AS opens, sum(e.closes) AS closes
    FROM (
        SELECT k.item, date_trunc('month', k.at) AS month, k.milliunits AS opens, 0 AS closes FROM known k WHERE k.at < k.ends
        UNION ALL
        SELECT k.item, date_trunc('month', k.at - interval '1 microsecond'), 0, k.milliunits FROM known k WHERE k.at > k.begins
    ) e
    GROUP BY e.item, e.month
), moves AS (
    SELECT i.*, m.month::date AS month, greatest(m.month AT TIME ZONE 'UTC', i.called_at) AS from_at,
        least((m.month + interval '1 month') AT TIME ZONE 'UTC', i.at) AS to_at,
        m.opens, m.closes,
        -- What was given back ended some of what was paid for, and the rest goes on: an added seat, say. Or it ended all of it,
        -- whatever failed to renew later in the month, unless the change itself ended then: that says more.
        m.closes < m.opens AND EXISTS (
            SELECT FROM unnest(t.cut_at) AS c (at)
            WHERE c.at >= greatest(m.month, i.begins)
                AND c.at < least(m.month + interval '1 month', i.at AT TIME ZONE 'UTC')
                AND (m.closes > 0 OR NOT EXISTS (
                    SELECT FROM unnest(t.uncut_until) AS u (at)
                    WHERE u.at > c.at AND u.at < m.month + interval '1 month'))) AS is_cut,
        -- Why the change ended is why the item did, unless it was bought again since: then the statements of that end say it.
        coalesce(i.ended_at < least((m.month + interval '1 month') AT TIME ZONE 'UTC', i.at) + interval '1 day'
            AND coalesce(t.back_at >= least(m.month + interval '1 month', i.at AT TIME ZONE 'UTC'), true), false) AS is_end
    FROM months m JOIN items i ON i.item = m.item LEFT JOIN turns t ON t.item = m.item
    WHERE m.opens > 0 OR m.closes > 0
)
SELECT m.subject, m.at, m.batch_id, m.month, m.currency, m.storefront, m.opens, m.closes,
    CASE
        WHEN m.is_cut AND m.closes > 0 THEN 'refunds'
        WHEN m.opens = 0 OR m.closes > 0 THEN 'other'
        WHEN m.is_end AND m.state = 'declined'
            THEN CASE WHEN m.is_dependent OR m.reason = 'parent_declined' THEN 'dependents' ELSE 'declined' END
        -- A dependent goes on where its parent alone was given back.
        WHEN m.is_end AND m.state = 'cancelled' AND NOT (m.is_dependent AND m.reason = 'item_refunded') THEN CASE m.reason
            WHEN 'refunded_or_revoked' THEN 'refunds' WHEN 'item_refunded' THEN 'refunds'
            WHEN 'parent_declined' THEN 'dependents'
            -- The whole subscription ended for the increase of another item.
            WHEN 'expired_for_another_increase' THEN 'declined' WHEN 'expired_for_price_increase' THEN 'declined'
            ELSE 'left' END
        WHEN m.is_end AND m.state = 'lapsed' THEN 'lapsed'
        WHEN m.is_cut THEN 'refunds'
        ELSE coalesce((
            SELECT CASE
                    WHEN e.type IN ('REFUND', 'REVOKE') THEN 'refunds'
                    WHEN e.subtype = 'VOLUNTARY' THEN 'left'
                    WHEN e.subtype = 'PRICE_INCREASE' THEN 'declined'
                    ELSE 'lapsed' END
            FROM repricer.told_statements e
            WHERE e.original_transaction_id = m.id AND e.signed_at > m.from_at - interval '1 day'
                AND e.signed_at < m.to_at + interval '1 day'
                AND (e.type IN ('EXPIRED', 'REVOKE', 'DID_FAIL_TO_RENEW', 'GRACE_PERIOD_EXPIRED')
                    -- A refund ended it only where it revoked this item, or gave back all of a period before its end. Who got
                    -- a part back and then fell silent did not leave by the refund.
                    OR e.type = 'REFUND' AND (EXISTS (
                        SELECT FROM repricer.charges h
                        WHERE h.original_transaction_id = m.id AND h.sku = ANY (m.names)
                            AND h.revoked_at > m.from_at - interval '1 day' AND h.revoked_at < m.to_at + interval '1 day'
                            AND h.revoked_at < coalesce(h.expires_at, 'infinity')) OR EXISTS (
                        SELECT FROM repricer.charges h
                        JOIN repricer.money_entries r ON r.original_transaction_id = h.original_transaction_id
                            AND r.transaction_id = h.transaction_id AND r.sku = h.sku AND r.kind = 'refund'
                        WHERE h.original_transaction_id = m.id AND h.sku = ANY (m.names)
                            AND h.refunded_milliunits >= h.price_milliunits::numeric * h.quantity
                            AND r.occurred_at > m.from_at - interval '1 day' AND r.occurred_at < m.to_at + interval '1 day'
                            AND r.occurred_at < coalesce(h.expires_at, 'infinity'))))
            ORDER BY e.signed_at DESC, e.evidence_id LIMIT 1), 'other')
    END,
    -- Where nothing was paid for before, the old price comes back with it: that is other.
    CASE WHEN m.closes > 0 AND m.effective_at >= m.from_at AND m.effective_at < m.to_at
        -- Of every seat that was charged at the new price first.
        THEN m.twelfths * (m.new_price - m.old_price)::numeric * coalesce((
            SELECT h.quantity FROM repricer.charges h
            WHERE h.original_transaction_id = m.id AND h.sku = ANY (m.names) AND h.purchased_at >= m.effective_at
                AND h.price_milliunits = m.new_price AND h.currency = m.currency
            ORDER BY h.purchased_at, h.transaction_id LIMIT 1), 1) ELSE 0 END
FROM moves m;
END
$$;

-- The same of all subscriptions, or of a batch, from the facts alone: what kept moves are compared with.
CREATE FUNCTION repricer.revenue_moves(p_at timestamptz, p_batch uuid DEFAULT NULL) RETURNS TABLE (
        batch_id uuid, month date, currency text, storefront text, opening numeric, closing numeric, cause text,
        price_effect numeric)
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $$
DECLARE
    v_ids text[] := ARRAY(SELECT DISTINCT c.original_transaction_id FROM repricer.price_changes c
        WHERE p_batch IS NULL OR c.batch_id = p_batch);
BEGIN
    RETURN QUERY SELECT m.batch_id, m.month, m.currency, m.storefront, m.opening, m.closing, m.cause, m.price_effect
        FROM moves_of(v_ids, array_fill(p_at, ARRAY[cardinality(v_ids)]), p_batch) m;
END
$$;

-- The instants of a subscription for which its moves are kept: the end of all, which is the start of a month, and each end
-- of a paid period that comes after the latest fact, with the instant from which on nothing else moves.
CREATE FUNCTION repricer.moving_instants(p_ids text[]) RETURNS TABLE (
        id text, known_after timestamptz, from_at timestamptz, at timestamptz, is_whole boolean)
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $$
#variable_conflict use_column
BEGIN
RETURN QUERY
WITH changes AS (
    SELECT c.original_transaction_id AS id,
        max(greatest(c.sent_at, c.doubtful_since, c.scheduled_at, c.effective_at, c.ended_at)) AS latest_at,
        bool_or(c.stage IN ('awaiting_approval', 'queued', 'unknown')
            OR array_to_string(coalesce(c.current_dependent_skus, c.dependent_skus), ' ') ~ '(^| )[0-9]+/'
            OR EXISTS (SELECT FROM repricer.dependent_claims d WHERE d.claimed_by = c.original_transaction_id
                AND d.change_id = c.change_id)) AS is_unkept
    FROM unnest(p_ids) AS u (id)
    JOIN repricer.price_changes c ON c.original_transaction_id = u.id
    WHERE c.undoes_change_id IS NULL AND coalesce(c.sent_at, c.doubtful_since, c.scheduled_at) IS NOT NULL
    GROUP BY 1
), known AS MATERIALIZED (
    SELECT c.id, c.is_unkept, greatest(m.latest_at, (
        SELECT max(e.signed_at) FROM repricer.told_statements e
        WHERE e.original_transaction_id = c.id AND e.signed_at > m.latest_at
            AND e.type IN ('EXPIRED', 'REFUND', 'REVOKE', 'DID_FAIL_TO_RENEW', 'GRACE_PERIOD_EXPIRED'))) AS latest_at
    FROM changes c
    CROSS JOIN LATERAL (
        SELECT greatest(c.latest_at, (SELECT max(e.occurred_at) FROM repricer.money_entries e
                WHERE e.original_transaction_id = c.id),
            (SELECT max(greatest(h.purchased_at, h.revoked_at)) FROM repricer.charges h
                WHERE h.original_transaction_id = c.id)) AS latest_at
        OFFSET 0) m
), ends AS MATERIALIZED (
    -- Of an item whose charges are not known, what was paid for at the call ends with the renewal that was forecast for it.
    SELECT k.id, k.latest_at, c.forecast_renewal_at AS at FROM known k
    JOIN repricer.price_changes c ON c.original_transaction_id = k.id AND c.forecast_renewal_at > k.latest_at
    WHERE c.undoes_change_id IS NULL AND coalesce(c.sent_at, c.doubtful_since, c.scheduled_at) IS NOT NULL
    UNION
    SELECT k.id, k.latest_at, h.expires_at FROM known k
    JOIN repricer.charges h ON h.original_transaction_id = k.id AND h.expires_at > k.latest_at
), horizons AS (
    -- What is paid for longer than anybody can pay ahead would have months without end.
    SELECT k.id, k.latest_at, k.is_unkept OR coalesce(max(e.at) > k.latest_at + interval '3 years', false) AS is_unkept,
        (date_trunc('month', least(greatest(k.latest_at, max(e.at)), k.latest_at + interval '3 years') AT TIME ZONE 'UTC')
            + interval '2 months') AT TIME ZONE 'UTC' AS at
    FROM known k LEFT JOIN ends e ON e.id = k.id GROUP BY k.id, k.latest_at, k.is_unkept
)
SELECT h.id, CASE WHEN h.is_unkept THEN 'infinity' ELSE h.latest_at END, NULL::timestamptz, h.at, true FROM horizons h
UNION ALL
SELECT e.id, h.latest_at, greatest(
        lag(e.at, 1, e.latest_at) OVER (PARTITION BY e.id ORDER BY e.at),
        date_trunc('month', e.at AT TIME ZONE 'UTC') AT TIME ZONE 'UTC'), e.at, false
FROM ends e JOIN horizons h ON h.id = e.id AND NOT h.is_unkept;
END
$$;

-- Keeps the moves of subscriptions: in one snapshot, by summarise_figures alone.
CREATE FUNCTION repricer.keep_moves(p_ids text[], p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $$
BEGIN
    DELETE FROM running_moves r WHERE r.original_transaction_id = ANY (p_ids);
    WITH instants AS MATERIALIZED (
        SELECT * FROM moving_instants(p_ids)
    ), asked AS MATERIALIZED (
        SELECT array_agg(i.id) AS ids, array_agg(i.at) AS ats FROM instants i WHERE i.known_after < 'infinity'
    ), moves AS MATERIALIZED (
        SELECT m.id, m.at, m.batch_id, m.month, m.currency, m.storefront, m.cause, sum(m.opening) AS opening,
            sum(m.closing) AS closing, sum(m.price_effect) AS price_effect
        FROM asked a CROSS JOIN LATERAL moves_of(a.ids, a.ats, NULL) m
        GROUP BY 1, 2, 3, 4, 5, 6, 7
    ), whole AS MATERIALIZED (
        SELECT m.* FROM moves m JOIN instants i ON i.id = m.id AND i.at = m.at AND i.is_whole
    ), former AS (
        DELETE FROM kept_moves k WHERE k.original_transaction_id = ANY (p_ids)
        RETURNING k.batch_id, k.currency, k.storefront, k.months, k.causes, k.openings, k.closings, k.price_effects
    ), tallied AS (
        INSERT INTO move_tallies AS t
        SELECT d.batch_id, d.month, d.currency, d.storefront, d.cause, sum(d.opening), sum(d.closing), sum(d.price_effect)
        FROM (
            SELECT w.batch_id, w.month, w.currency, w.storefront, w.cause, w.opening, w.closing, w.price_effect FROM whole w
            UNION ALL
            SELECT f.batch_id, u.month, f.currency, f.storefront, u.cause, -u.opening, -u.closing, -u.price_effect
            FROM former f CROSS JOIN LATERAL unnest(f.months, f.causes, f.openings, f.closings, f.price_effects)
                AS u (month, cause, opening, closing, price_effect)) d
        GROUP BY 1, 2, 3, 4, 5
        HAVING sum(d.opening) <> 0 OR sum(d.closing) <> 0 OR sum(d.price_effect) <> 0
        ON CONFLICT ON CONSTRAINT move_tallies_pkey DO UPDATE SET opening = t.opening + EXCLUDED.opening,
            closing = t.closing + EXCLUDED.closing, price_effect = t.price_effect + EXCLUDED.price_effect
    ), running AS (
        INSERT INTO running_moves
        SELECT d.id, bucket_of(d.id), d.batch_id, d.month, d.currency, d.storefront, d.cause, d.from_at, d.at, sum(d.opening),
            sum(d.closing), sum(d.price_effect)
        FROM (
            SELECT i.id, i.from_at, i.at, m.batch_id, m.month, m.currency, m.storefront, m.cause, m.opening, m.closing,
                m.price_effect
            FROM instants i
            JOIN moves m ON m.id = i.id AND m.at = i.at
                AND m.month = date_trunc('month', i.at AT TIME ZONE 'UTC')::date
            WHERE NOT i.is_whole
            UNION ALL
            SELECT i.id, i.from_at, i.at, w.batch_id, w.month, w.currency, w.storefront, w.cause, -w.opening, -w.closing,
                -w.price_effect
            FROM instants i
            JOIN whole w ON w.id = i.id AND w.month = date_trunc('month', i.at AT TIME ZONE 'UTC')::date
            WHERE NOT i.is_whole) d
        WHERE d.from_at < d.at
        GROUP BY d.id, d.batch_id, d.month, d.currency, d.storefront, d.cause, d.from_at, d.at
        HAVING sum(d.opening) <> 0 OR sum(d.closing) <> 0 OR sum(d.price_effect) <> 0
    ), called AS (
        SELECT DISTINCT i.id, c.batch_id, i.known_after, c.currency, c.storefront
        FROM instants i
        JOIN price_changes c ON c.original_transaction_id = i.id AND c.bucket = bucket_of(i.id)
        WHERE i.is_whole AND c.undoes_change_id IS NULL
            AND coalesce(c.sent_at, c.doubtful_since, c.scheduled_at) IS NOT NULL
    ), lists AS (
        SELECT w.id, w.batch_id, w.currency, w.storefront, array_agg(w.month) AS months, array_agg(w.cause) AS causes,
            array_agg(w.opening) AS openings, array_agg(w.closing) AS closings, array_agg(w.price_effect) AS price_effects
        FROM whole w GROUP BY w.id, w.batch_id, w.currency, w.storefront
    )
    INSERT INTO kept_moves
        SELECT c.id, bucket_of(c.id), c.batch_id, c.known_after, p_at, c.currency, c.storefront, coalesce(l.months, '{}'),
            coalesce(l.causes, '{}'), coalesce(l.openings, '{}'), coalesce(l.closings, '{}'), coalesce(l.price_effects, '{}')
        FROM called c
        LEFT JOIN lists l ON l.id = c.id AND l.batch_id = c.batch_id AND l.currency = c.currency
            AND l.storefront = c.storefront;
END
$$;

-- revenue_moves of a batch: what is kept, and the rest from the facts.
CREATE FUNCTION repricer.bridge_moves(p_at timestamptz, p_batch uuid) RETURNS TABLE (
        batch_id uuid, month date, currency text, storefront text, opening numeric, closing numeric, cause text,
        price_effect numeric)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan
    SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_ids text[] := ARRAY(
        -- What the App Store has is kept from its first statement on; until then its call has marked it, or nothing is kept.
        SELECT c.original_transaction_id FROM price_changes c
        WHERE c.batch_id = p_batch AND c.stage IN ('queued', 'unknown', 'scheduled', 'pending_consent', 'accepted')
            AND coalesce(c.sent_at, c.doubtful_since, c.scheduled_at) IS NOT NULL
            AND (c.stage IN ('queued', 'unknown') OR NOT EXISTS (
                SELECT FROM kept_moves k
                WHERE k.original_transaction_id = c.original_transaction_id AND k.batch_id = p_batch))
        UNION
        SELECT c.original_transaction_id FROM (SELECT DISTINCT s.original_transaction_id AS id FROM stale_figures s) s
        JOIN price_changes c ON c.original_transaction_id = s.id AND c.batch_id = p_batch
        UNION
        SELECT k.original_transaction_id FROM kept_moves k WHERE k.batch_id = p_batch AND k.known_after >= p_at);
BEGIN
    RETURN QUERY
    SELECT t.batch_id, t.month, t.currency, t.storefront, t.opening, t.closing, t.cause, t.price_effect
    FROM move_tallies t WHERE t.batch_id = p_batch AND t.month::timestamp < p_at AT TIME ZONE 'UTC'
    UNION ALL
    SELECT r.batch_id, r.month, r.currency, r.storefront, sum(r.opening), sum(r.closing), r.cause, sum(r.price_effect)
    FROM running_moves r
    WHERE r.batch_id = p_batch AND r.until_at >= p_at AND r.from_at < p_at AND r.original_transaction_id <> ALL (v_ids)
    GROUP BY r.batch_id, r.month, r.currency, r.storefront, r.cause;
    IF cardinality(v_ids) = 0 THEN
        RETURN;
    END IF;
    RETURN QUERY
    SELECT k.batch_id, u.month, k.currency, k.storefront, -u.opening, -u.closing, u.cause, -u.price_effect
    FROM unnest(v_ids) AS s (id)
    JOIN kept_moves k ON k.original_transaction_id = s.id AND k.batch_id = p_batch
    CROSS JOIN LATERAL unnest(k.months, k.causes, k.openings, k.closings, k.price_effects)
        AS u (month, cause, opening, closing, price_effect)
    WHERE u.month::timestamp < p_at AT TIME ZONE 'UTC'
    UNION ALL
    SELECT m.batch_id, m.month, m.currency, m.storefront, m.opening, m.closing, m.cause, m.price_effect
    FROM moves_of(v_ids, array_fill(p_at, ARRAY[cardinality(v_ids)]), p_batch) m;
END
$$;
COMMENT ON FUNCTION repricer.bridge_moves(timestamptz, uuid) IS 'revenue_moves of a batch, from what is kept as far as it is.';

-- As it was known at the instant: from what is kept where nothing was recorded since.
CREATE FUNCTION repricer.bridge_moves_at(p_at timestamptz, p_batch uuid) RETURNS TABLE (
        batch_id uuid, month date, currency text, storefront text, opening numeric, closing numeric, cause text,
        price_effect numeric)
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $$
#variable_conflict use_column
DECLARE
    v_ids text[] := ARRAY(
        SELECT DISTINCT c.original_transaction_id FROM price_changes c
        WHERE c.batch_id = p_batch AND NOT EXISTS (
            SELECT FROM kept_moves k
            WHERE k.original_transaction_id = c.original_transaction_id AND k.batch_id = p_batch AND k.counted_at <= p_at
                AND k.known_after < p_at AND NOT EXISTS (
                    SELECT FROM marked_subscriptions() s (id) WHERE s.id = k.original_transaction_id)));
    v_count integer := cardinality(v_ids);
    -- Where two of the three shares end (is_shared_out).
    v_first integer := v_count / 3;
    v_second integer := v_count - v_count / 3;
BEGIN
    RETURN QUERY
    SELECT k.batch_id, u.month, k.currency, k.storefront, sum(u.opening), sum(u.closing), u.cause, sum(u.price_effect)
    FROM kept_moves k
    CROSS JOIN LATERAL unnest(k.months, k.causes, k.openings, k.closings, k.price_effects)
        AS u (month, cause, opening, closing, price_effect)
    WHERE k.batch_id = p_batch AND k.original_transaction_id <> ALL (v_ids) AND u.month::timestamp < p_at AT TIME ZONE 'UTC'
    GROUP BY k.batch_id, u.month, k.currency, k.storefront, u.cause
    UNION ALL
    SELECT r.batch_id, r.month, r.currency, r.storefront, sum(r.opening), sum(r.closing), r.cause, sum(r.price_effect)
    FROM running_moves r
    WHERE r.batch_id = p_batch AND r.until_at >= p_at AND r.from_at < p_at AND r.original_transaction_id <> ALL (v_ids)
    GROUP BY r.batch_id, r.month, r.currency, r.storefront, r.cause;
    IF v_count < 4000 OR NOT is_shared_out(p_batch) THEN
        RETURN QUERY
        SELECT m.batch_id, m.month, m.currency, m.storefront, m.opening, m.closing, m.cause, m.price_effect
        FROM moves_of_at(p_at, v_ids, array_fill(p_at, ARRAY[v_count]), p_batch) m;
        RETURN;
    END IF;
    RETURN QUERY
    SELECT m.batch_id, m.month, m.currency, m.storefront, m.opening, m.closing, m.cause, m.price_effect
    FROM (
        SELECT * FROM moves_of_at(p_at, v_ids[:v_first], array_fill(p_at, ARRAY[v_first]), p_batch)
        UNION ALL
        SELECT * FROM moves_of_at(p_at, v_ids[v_first + 1:v_second], array_fill(p_at, ARRAY[v_second - v_first]), p_batch)
        UNION ALL
        SELECT * FROM moves_of_at(p_at, v_ids[v_second + 1:], array_fill(p_at, ARRAY[v_count - v_second]), p_batch)) m;
END
$$;

CREATE VIEW report.revenue_bridge AS
WITH sums AS (
    SELECT b.batch_id, m.month, m.currency, m.storefront, round(sum(opening) / 12) AS opening,
        round(sum(price_effect) / 12) AS price_effect,
        round(sum(closing - opening) FILTER (WHERE cause = 'declined') / 12) AS declined,
        round(sum(closing - opening) FILTER (WHERE cause = 'left') / 12) AS "left",
        round(sum(closing - opening) FILTER (WHERE cause = 'lapsed') / 12) AS lapsed,
        round(sum(closing - opening) FILTER (WHERE cause = 'dependents') / 12) AS dependents,
        -- Where a part is left, the price of that may have changed.
        round(sum(closing - opening - price_effect) FILTER (WHERE cause = 'refunds') / 12) AS refunds,
        round(sum(closing) / 12) AS closing
    FROM repricer.batches b
    -- Batch by batch, so that who asks for one reads its changes alone.
    CROSS JOIN LATERAL repricer.bridge_moves(report.as_of(), b.batch_id) m
    GROUP BY b.batch_id, m.month, m.currency, m.storefront
    -- What was kept and taken out again has left zeros.
    HAVING round(sum(opening) / 12) <> 0 OR round(sum(closing) / 12) <> 0
)
SELECT s.batch_id, b.name AS batch_name, s.month, s.currency, s.storefront,
    repricer.figure(s.opening, w.what || 'opening' || w.currency) AS opening_milliunits,
    repricer.figure(s.price_effect, w.what || 'price_effect' || w.currency) AS price_effect_milliunits,
    repricer.figure(coalesce(s.declined, 0), w.what || 'declined' || w.currency) AS declined_milliunits,
    repricer.figure(coalesce(s."left", 0), w.what || 'left' || w.currency) AS left_milliunits,
    repricer.figure(coalesce(s.lapsed, 0), w.what || 'lapsed' || w.currency) AS lapsed_milliunits,
    repricer.figure(coalesce(s.dependents, 0), w.what || 'dependents' || w.currency) AS dependents_milliunits,
    repricer.figure(coalesce(s.refunds, 0), w.what || 'refunds' || w.currency) AS refunds_milliunits,
    repricer.figure(s.closing - s.opening - s.price_effect - coalesce(s.declined, 0) - coalesce(s."left", 0)
        - coalesce(s.lapsed, 0) - coalesce(s.dependents, 0) - coalesce(s.refunds, 0), w.what || 'other' || w.currency)
        AS other_milliunits,
    repricer.figure(s.closing, w.what || 'closing' || w.currency) AS closing_milliunits
FROM sums s
JOIN repricer.batches b ON b.batch_id = s.batch_id
CROSS JOIN LATERAL (SELECT 'revenue_bridge, batch ' || b.name || ': ' AS what, ' of ' || s.currency AS currency) w;

COMMENT ON VIEW report.revenue_bridge IS
    'What the called changes and their dependents brought a month, from the start of each month (or the call) to its end, '
    'and why it differs: closing = opening + all between. An item that a second batch called within the month is in the second '
    'one alone, from that call on: what happened to it in that month before is in no row.';

-- Converts to one currency at the newest rates: that of the setting repricer.reporting_currency, or else US dollars.
CREATE VIEW report.revenue_bridge_total AS
WITH imported AS (
    SELECT DISTINCT ON (r.currency) r.currency, r.billionths_per_euro::numeric AS per_euro, r.valid_from
    FROM (
        -- The newest revision of an instant counts; one that withdraws it leaves none.
        SELECT DISTINCT ON (e.currency, e.valid_from) e.currency, e.valid_from, e.billionths_per_euro
        FROM repricer.exchange_rates e
        WHERE e.valid_from <= report.as_of() AND e.recorded_at <= report.as_of()
        ORDER BY e.currency, e.valid_from, e.revision DESC) r
    WHERE r.billionths_per_euro IS NOT NULL
    ORDER BY r.currency, r.valid_from DESC
), rates AS (
    SELECT i.currency, i.per_euro, i.valid_from FROM imported i
    UNION ALL
    -- Rates are units for one euro, so the euro itself needs none.
    SELECT 'EUR', 1000000000::numeric, NULL::timestamptz WHERE NOT EXISTS (SELECT FROM imported i WHERE i.currency = 'EUR')
), target AS (
    SELECT t.currency, r.per_euro, r.valid_from
    FROM (SELECT coalesce(nullif(current_setting('repricer.reporting_currency', true), ''), 'USD') AS currency) t
    LEFT JOIN rates r ON r.currency = t.currency
), converted AS (
    SELECT b.*, t.currency AS reporting_currency,
        CASE WHEN b.currency = t.currency THEN 1 ELSE t.per_euro / r.per_euro END AS rate,
        CASE WHEN b.currency <> t.currency AND t.per_euro / r.per_euro IS NOT NULL THEN least(t.valid_from, r.valid_from) END
            AS valid_from,
        -- By what a sum was converted, so that it can be done again by hand.
        CASE WHEN b.currency <> t.currency AND t.per_euro / r.per_euro IS NOT NULL THEN r.currency || ' '
            || trim_scale(r.per_euro / 1000000000) || ' for EUR 1 since ' || (r.valid_from AT TIME ZONE 'UTC')::date END AS rate_used,
        CASE WHEN b.currency <> t.currency AND t.per_euro / r.per_euro IS NOT NULL THEN t.currency || ' '
            || trim_scale(t.per_euro / 1000000000) || ' for EUR 1 since ' || (t.valid_from AT TIME ZONE 'UTC')::date END AS target_used,
        CASE WHEN b.currency <> t.currency THEN ARRAY[CASE WHEN r.per_euro IS NULL THEN b.currency END,
            CASE WHEN t.per_euro IS NULL THEN t.currency END] END AS lacking
    FROM report.revenue_bridge b CROSS JOIN target t LEFT JOIN rates r ON r.currency = b.currency
), sums AS (
    SELECT batch_id, batch_name, month, reporting_currency,
        round(sum(opening_milliunits * rate)) AS opening,
        round(sum(price_effect_milliunits * rate)) AS price_effect,
        round(sum(declined_milliunits * rate)) AS declined,
        round(sum(left_milliunits * rate)) AS "left",
        round(sum(lapsed_milliunits * rate)) AS lapsed,
        round(sum(dependents_milliunits * rate)) AS dependents,
        round(sum(refunds_milliunits * rate)) AS refunds,
        round(sum(closing_milliunits * rate)) AS closing,
        (min(valid_from) AT TIME ZONE 'UTC')::date AS rates_from,
        (SELECT array_agg(DISTINCT u.currency ORDER BY u.currency)
            FROM unnest(array_agg(lacking) FILTER (WHERE lacking IS NOT NULL)) AS u (currency) WHERE u.currency IS NOT NULL)
            AS without_rate,
        -- The null of the euro, whose rate is nobody's, is in no list.
        (SELECT array_agg(u.used ORDER BY u.used)
            FROM (SELECT unnest(array_agg(DISTINCT rate_used) || max(target_used)) AS used) u WHERE u.used IS NOT NULL) AS rates
    FROM converted GROUP BY batch_id, batch_name, month, reporting_currency
)
SELECT batch_id, batch_name, month, reporting_currency AS currency,
    repricer.figure(opening, what || 'opening' || in_currency) AS opening_milliunits,
    repricer.figure(price_effect, what || 'price_effect' || in_currency) AS price_effect_milliunits,
    repricer.figure(declined, what || 'declined' || in_currency) AS declined_milliunits,
    repricer.figure("left", what || 'left' || in_currency) AS left_milliunits,
    repricer.figure(lapsed, what || 'lapsed' || in_currency) AS lapsed_milliunits,
    repricer.figure(dependents, what || 'dependents' || in_currency) AS dependents_milliunits,
    repricer.figure(refunds, what || 'refunds' || in_currency) AS refunds_milliunits,
    repricer.figure(closing - opening - price_effect - declined - "left" - lapsed - dependents - refunds,
        what || 'other' || in_currency) AS other_milliunits,
    repricer.figure(closing, what || 'closing' || in_currency) AS closing_milliunits, rates_from, without_rate, rates
FROM (
    SELECT n.*, 'revenue_bridge_total, batch ' || n.batch_name || ': ' AS what, ' in ' || n.reporting_currency AS in_currency
    FROM sums n) s;
COMMENT ON VIEW report.revenue_bridge_total IS
    'revenue_bridge in one currency: the setting repricer.reporting_currency, else USD, at the newest imported rates.';

-- What the App Store has been given or is to be given, and no customer has agreed to yet.
CREATE VIEW report.revenue_at_risk AS
WITH open AS (
    SELECT c.batch_id, c.change_id, c.state, c.forecast_consent,
        (c.due_effective_at AT TIME ZONE 'UTC')::date AS consent_due_on, r.currency, r.storefront, r.period, r.milliunits,
        r.is_own
    FROM repricer.price_changes c
    CROSS JOIN LATERAL (
        SELECT c.currency, c.storefront, c.period, coalesce(c.at_risk_milliunits, c.current_price_milliunits::numeric * c.forecast_seats) AS milliunits,
            true AS is_own
        UNION ALL
        SELECT e ->> 'currency', e ->> 'storefront', e ->> 'period', (e ->> 'milliunits')::bigint, false
        FROM jsonb_array_elements(c.at_risk_elsewhere) AS e
        UNION ALL
        -- A dependent that has a change of its own in the batch counts with that one, on whatever subscription it is.
        SELECT k.currency, k.storefront, k.period, -o.milliunits, false
        FROM (
            SELECT c.original_transaction_id, c.bucket, name AS sku FROM unnest(c.dependent_skus) AS name
            UNION
            SELECT d.original_transaction_id, d.bucket, d.sku FROM repricer.dependent_claims d
            WHERE d.claimed_by = c.original_transaction_id AND d.change_id = c.change_id) d
        CROSS JOIN LATERAL (
            SELECT o.currency, o.storefront, o.period, o.current_price_milliunits::numeric * o.forecast_seats AS milliunits
            FROM repricer.price_changes o
            WHERE o.original_transaction_id = d.original_transaction_id AND o.bucket = d.bucket
                AND o.batch_id = c.batch_id AND o.sku = d.sku AND o.change_id <> c.change_id
                AND o.at_risk_milliunits IS NOT NULL AND o.undoes_change_id IS NULL
                AND o.stage IN ('queued', 'unknown', 'scheduled', 'pending_consent')
                AND (o.state = 'pending_consent' OR o.forecast_consent IN ('required', 'not_known'))
            -- Each is found by its key, and not the whole batch for each row.
            OFFSET 0) o
        CROSS JOIN LATERAL (
            SELECT c.currency, c.storefront, c.period WHERE (o.currency, o.period) = (c.currency, c.period)
            UNION ALL
            SELECT o.currency, o.storefront, o.period WHERE (o.currency, o.period) <> (c.currency, c.period)) k
        WHERE c.dependent_skus <> '{}' AND c.at_risk_milliunits IS NOT NULL) r
    WHERE c.stage IN ('queued', 'unknown', 'scheduled', 'pending_consent') AND c.undoes_change_id IS NULL
        AND (c.state = 'pending_consent' OR c.forecast_consent IN ('required', 'not_known'))
)
SELECT o.batch_id, b.name AS batch_name, o.consent_due_on, o.currency, o.storefront, o.period,
    count(*) FILTER (WHERE o.is_own) AS changes,
    count(*) FILTER (WHERE o.is_own AND o.state = 'pending_consent') AS asked,
    count(*) FILTER (WHERE o.is_own AND o.state <> 'pending_consent' AND o.forecast_consent = 'required') AS to_be_asked,
    count(*) FILTER (WHERE o.is_own AND o.state <> 'pending_consent' AND o.forecast_consent <> 'required') AS not_known,
    repricer.figure(sum(o.milliunits), 'revenue_at_risk, batch ' || b.name || ': at_risk of ' || o.currency)
        AS at_risk_milliunits,
    repricer.figure(round(sum(o.milliunits) * repricer.twelfths(o.period) / 12),
        'revenue_at_risk, batch ' || b.name || ': at_risk_per_month of ' || o.currency) AS at_risk_per_month_milliunits
FROM open o JOIN repricer.batches b ON b.batch_id = o.batch_id
GROUP BY o.batch_id, b.name, o.consent_due_on, o.currency, o.storefront, o.period
HAVING count(*) FILTER (WHERE o.is_own) > 0 OR sum(o.milliunits) <> 0;
COMMENT ON VIEW report.revenue_at_risk IS
    'What every period loses where the customers who must consent, or may have to, do not: by the day it is due.';

-- Sent against held out. Both are asked alike: of the subscriptions whose forecast renewal has passed for a day, how many
-- do not pay for every item of theirs any more? Rows that were never sent, though not held out, count among the sent:
-- among those held out there are such customers, too. The interval of the difference is Newcombe's, of two of Wilson's.
CREATE FUNCTION repricer.wilson_bound(p_share numeric, p_of numeric, p_sign integer) RETURNS numeric
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (p_share + 3.841459 / (2 * p_of) + p_sign * 1.959964
        * sqrt(p_share * (1 - p_share) / p_of + 3.841459 / (4 * p_of * p_of))) / (1 + 3.841459 / p_of);

CREATE VIEW report.holdout AS
WITH rows AS (
    SELECT b.batch_id, c.forecast_consent, c.original_transaction_id, c.is_held_out, c.is_as_meant, c.is_due, c.has_left
    FROM repricer.batches b
    -- OFFSET 0 makes PostgreSQL read the changes of such batches alone.
    CROSS JOIN LATERAL (
        SELECT c.forecast_consent, c.original_transaction_id, c.is_held_out,
            c.is_held_out OR coalesce(c.sent_at, c.doubtful_since, c.scheduled_at) IS NOT NULL AS is_as_meant,
            c.forecast_effective_at + interval '1 day' < report.as_of() AS is_due,
            NOT EXISTS (
                SELECT FROM repricer.charges h
                WHERE h.original_transaction_id = c.original_transaction_id
                    AND (h.sku = c.sku OR h.sku = c.current_sku OR h.sku = ANY (c.former_skus))
                    AND h.purchased_at <= report.as_of()
                    AND coalesce(h.expires_at, 'infinity') + interval '1 day' > report.as_of()
                    -- A revocation ends it on its day, whatever part of the money it gave back.
                    AND coalesce(h.revoked_at, 'infinity') > report.as_of()
                    AND (h.refunded_milliunits = 0 OR h.refunded_milliunits < h.price_milliunits * h.quantity)) AS has_left
        FROM repricer.price_changes c
        WHERE c.batch_id = b.batch_id AND c.undoes_change_id IS NULL
        OFFSET 0) c
    WHERE b.holdout_basis_points > 0 AND b.decided_at <= report.as_of() AND b.state <> 'rejected'
), subscriptions AS (
    SELECT batch_id, forecast_consent, original_transaction_id, is_held_out, bool_and(is_as_meant) AS is_as_meant,
        bool_and(is_due) AS is_due, bool_or(has_left) AS has_left
    FROM rows GROUP BY batch_id, forecast_consent, original_transaction_id, is_held_out
), counts AS (
    SELECT batch_id, forecast_consent,
        count(*) FILTER (WHERE is_due AND NOT is_held_out) AS sent,
        count(*) FILTER (WHERE is_due AND NOT is_held_out AND NOT is_as_meant) AS never_sent,
        count(*) FILTER (WHERE is_due AND NOT is_held_out AND has_left) AS sent_left,
        count(*) FILTER (WHERE is_due AND is_held_out) AS held_out,
        count(*) FILTER (WHERE is_due AND is_held_out AND has_left) AS held_out_left,
        count(*) FILTER (WHERE NOT is_due) AS not_due
    FROM subscriptions GROUP BY batch_id, forecast_consent
), shares AS (
    SELECT c.*, sent_left::numeric / nullif(sent, 0) AS p, held_out_left::numeric / nullif(held_out, 0) AS q,
        least(sent, held_out) >= 30 AS is_enough
    FROM counts c
), intervals AS (
    SELECT s.*,
        p - q - sqrt((p - repricer.wilson_bound(p, sent, -1)) ^ 2 + (repricer.wilson_bound(q, held_out, 1) - q) ^ 2) AS lower,
        p - q + sqrt((repricer.wilson_bound(p, sent, 1) - p) ^ 2 + (q - repricer.wilson_bound(q, held_out, -1)) ^ 2) AS upper
    FROM shares s
)
SELECT i.batch_id, b.name AS batch_name, i.forecast_consent, i.sent AS sent_subscriptions, i.never_sent, i.sent_left,
    i.held_out AS held_out_subscriptions, i.held_out_left, i.not_due,
    round(i.p * 10000)::bigint AS sent_left_basis_points, round(i.q * 10000)::bigint AS held_out_left_basis_points,
    CASE WHEN i.is_enough THEN round((i.p - i.q) * 10000)::bigint END AS difference_basis_points,
    CASE WHEN i.is_enough THEN round(i.lower * 10000)::bigint END AS lower_basis_points,
    CASE WHEN i.is_enough THEN round(i.upper * 10000)::bigint END AS upper_basis_points,
    CASE WHEN NOT i.is_enough THEN 'too_few' WHEN i.lower > 0 THEN 'more_left' WHEN i.upper < 0 THEN 'fewer_left'
        ELSE 'no_difference_seen' END AS answer
FROM intervals i JOIN repricer.batches b ON b.batch_id = i.batch_id;
COMMENT ON VIEW report.holdout IS
    'Batches that hold subscriptions out: who left among those sent and among those held out, for each forecast of consent, '
    'with a 95 % interval of the difference.';

-- Each view as of an instant: itself, over the tables as they were recorded then. So a figure of the past is counted as
-- one of today is, and a report that says nothing of the past has a comment that says why.
-- A checkpoint has the latest period that it stands for, and not when that was told: so the period is read from what bears
-- the instant of its recording, and retention keeps that (kept_statements, charges).
CREATE FUNCTION repricer.subscriptions_at(p_at timestamptz)
    RETURNS TABLE (original_transaction_id text, bucket smallint, expires_at timestamptz, period text, purchased_at timestamptz)
    LANGUAGE sql STABLE AS $$
SELECT s.original_transaction_id, s.bucket, NULL::timestamptz, s.period, greatest(
    (SELECT max(h.purchased_at) FROM repricer.charges_at(p_at) h
        WHERE h.original_transaction_id = s.original_transaction_id),
    (SELECT timestamptz 'epoch' + max((e.statement #>> '{transaction,purchasedAt}')::bigint) * interval '1 millisecond'
        FROM repricer.subscription_events_at(p_at) e WHERE e.original_transaction_id = s.original_transaction_id),
    (SELECT max(coalesce(k.told_period_at,
            timestamptz 'epoch' + (k.statement #>> '{transaction,purchasedAt}')::bigint * interval '1 millisecond'))
        FROM repricer.kept_statements k
        WHERE k.original_transaction_id = s.original_transaction_id AND k.recorded_at <= p_at))
FROM repricer.subscriptions s
$$;
COMMENT ON FUNCTION repricer.subscriptions_at(timestamptz) IS
    'Of each subscription the latest period that a statement had told of; not until when that was paid, which its charges '
    'say. The length of its periods is that of today: what must say the same for ever asks for one that was recorded (dependent_claims, dependent_cancellations).';
CREATE FUNCTION repricer.change_figures_at(p_at timestamptz) RETURNS SETOF repricer.change_figures LANGUAGE sql STABLE AS $$
SELECT * FROM repricer.change_figures WHERE false
$$;
CREATE FUNCTION repricer.figure_tallies_at(p_at timestamptz) RETURNS SETOF repricer.figure_tallies LANGUAGE sql STABLE AS $$
SELECT * FROM repricer.figure_tallies WHERE false
$$;


-- Kept figures of which nothing was recorded since the instant are what was known then: only the rest is counted anew.
CREATE FUNCTION repricer.frozen_figures_at(p_at timestamptz) RETURNS SETOF repricer.change_figures LANGUAGE sql STABLE AS $$
SELECT f.* FROM repricer.change_figures f
WHERE f.counted_at <= p_at AND NOT EXISTS (
    SELECT FROM repricer.marked_subscriptions() s (id) WHERE s.id = f.original_transaction_id)
$$;
-- price_changes_at without what is frozen, which goes before its versions are searched: nearly all of a batch that is over.
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
    SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $$
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

-- The tables that versions are kept of, in a text, as they were at p_at. Each must have an alias there.
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

-- PostgreSQL runs no part of such a query side by side, since each change leads to searches of its own. So the buckets of a
-- large batch are counted in three shares, each a call of a function, and as many workers take these as the server lends. On
-- a cluster, whose tables lie elsewhere, it lends none (Deploy/citus/gather.sql).
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
        'SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $body$%s$body$', v_text);
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
        -- What is frozen is taken as it is kept, and all else counted from the facts.
        v_text := replace(replace(v_text, 'repricer.unkept_change_figures', 'repricer.past_change_figures'),
            'repricer.charge_exceptions', 'repricer.live_charge_exceptions');
        -- The tallies of forecasts are of today: of the past each change is counted.
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
-- OFFSET 0 makes PostgreSQL go batch by batch, and not search the batch of each line; the inner one makes it leave out the marked
-- before the join, of which it expects one row, and would compare each with each mark.
CROSS JOIN LATERAL (
    SELECT m.* FROM (SELECT i.* FROM repricer.frozen_figures i WHERE i.batch_id = b.batch_id OFFSET 0) f
    JOIN repricer.money_entries m ON m.original_transaction_id = f.original_transaction_id AND m.change_id = f.change_id
    WHERE m.batch_id = b.batch_id
    OFFSET 0) e$frozen$;
        END IF;
        IF v.name = 'consent_funnel' THEN
            -- It asks for no money, and the tallies of the past are all the figures of each change.
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
        -- What is counted in shares of a batch must be told which batch.
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
    SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $body$
BEGIN
    RETURN QUERY SELECT w.* FROM repricer.WHAT_at(p_at) w
    WHERE (p_batch IS NULL OR w.batch_id = p_batch) AND w.bucket BETWEEN p_first AND p_last;
END
$body$;
CREATE FUNCTION repricer.WHAT_of_batch_at(p_at timestamptz, p_batch uuid)
    RETURNS SETOF repricer.WHAT LANGUAGE plpgsql STABLE ROWS 10000
    SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $body$
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
        -- Planned anew each time, by the values: a plan for any batch would read all of them. VOLATILE, so that it reads what was
        -- committed while it waited.
        EXECUTE format($make$
CREATE FUNCTION report.%I(p_at timestamptz, batch uuid DEFAULT NULL) RETURNS SETOF report.%I LANGUAGE plpgsql VOLATILE SECURITY DEFINER
    SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $body$
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
    SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $$
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
        -- OFFSET 0, twice, makes PostgreSQL ask for the charges of what is not frozen alone, instead of reading all there are.
        FROM (
            SELECT u.* FROM unfrozen_changes_at(p_at) u
            WHERE u.state = 'effective' AND (p_batch IS NULL OR u.batch_id = p_batch)
            OFFSET 0) c
        WHERE NOT EXISTS (
            SELECT FROM charges_at(p_at) h
            WHERE h.original_transaction_id = c.original_transaction_id
                AND (h.sku = c.sku OR h.sku = c.current_sku OR h.sku = ANY (c.former_skus))
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
        ('price_change', 'charged_total_milliunits', 'What these renewals charged.'),
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
        ('revenue_impact', 'declined_lost_per_period_milliunits', 'Sum of the old prices of the declined changes, times their last paid seats.'),
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
        ('holdout', 'not_due', 'Subscriptions of both kinds whose forecast renewal has not passed for a day: not counted.'),
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

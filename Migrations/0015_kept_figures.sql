-- Figures kept beside the facts.
-- What became of a change that ended is computed once and kept (`change_figures`, `kept_exceptions`), and summed by batch
-- and kind (`figure_tallies`). Whoever writes a fact that may alter what is kept adds a mark for the subscription
-- (`stale_figures`) in the same transaction: an insert that nobody waits for. A step of the service computes anew what is
-- marked. So a reader who sees a fact sees its mark as well, and counts what is marked, or still open, from the facts
-- themselves. The figures are exact at any moment, whether the service runs or not.
-- Locks: none on existing tables.
-- breaking: no

-- Charges that somebody other than the service writes are marked as well, because a check that reads kept figures must see
-- what an owner has corrected or deleted by hand. The service's own SQL statements add their marks, and fire no trigger.
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
    'For an effective change whose item is set to renew: until when its last charge pays. The newest change of the item also '
    'has paid_sku and paid_quantity of that charge, unless it was refunded as a whole.';
COMMENT ON COLUMN repricer.change_figures.word_due_at IS
    'For the same change: paid_until, or the end of the longest billing retry, or of an extension to a day that was not told. '
    'If the subscription is silent after that, a renewal is missing.';
COMMENT ON COLUMN repricer.change_figures.outcome IS
    'Its row of forecast_tallies. Null for an undo and for a change that is held out: they count in no forecast.';
COMMENT ON COLUMN repricer.change_figures.seats IS
    'The seats of the last period that the item was paid for. Prices are for one seat, so a period brings them this many times.';
COMMENT ON COLUMN repricer.change_figures.counted_at IS
    'By the clock of recorded_at. While its subscription has no mark, nothing was recorded since, so this is also what was known '
    'at that instant.';
COMMENT ON TABLE repricer.change_figures IS 'What reports count of each change that has ended. Only summarise_figures writes it.';
COMMENT ON COLUMN repricer.change_figures.is_uncharged IS 'Effective, without a charge at the new price.';
COMMENT ON COLUMN repricer.change_figures.is_leaving IS
    'It took effect, and its item is not set to renew any more, or was last charged at another price.';
COMMENT ON COLUMN repricer.change_figures.is_told IS 'The customer was asked, or told.';
COMMENT ON COLUMN repricer.change_figures.taxed_renewals IS
    'Renewals whose tax is signed. taxed_uplift_milliunits is their uplift without tax.';
COMMENT ON COLUMN repricer.change_figures.others_lost_milliunits IS
    'For a declined change with which the whole subscription ended: what its other items cost a period, counted under one change '
    'only.';

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
    -- Null where another currency was charged, because this would be in the currency of the change and the amount in another.
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
COMMENT ON TABLE repricer.figure_tallies IS 'Sums of change_figures. Only summarise_figures writes it, one session at a time.';

-- Forecasts and what came of them: one row for each batch and outcome, with the number of changes that share it.
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
    'How many changes of change_figures have which outcome. Only summarise_figures writes it, one session at a time.';
COMMENT ON COLUMN repricer.forecast_tallies.outcome IS 'A hash of all columns from direction to is_siblings_doing.';
COMMENT ON COLUMN repricer.forecast_tallies.came IS
    'Whether it took effect earlier or later than forecast, or as_forecast; null: it did not.';

-- A lock: a row that only the owner may lock, because any login could take an advisory lock. It is never written.
CREATE TABLE repricer.figures_turn (
    one_row boolean NOT NULL DEFAULT true,
    CONSTRAINT figures_turn_pkey PRIMARY KEY (one_row),
    CONSTRAINT figures_turn_one_row CHECK (one_row)
);
INSERT INTO repricer.figures_turn DEFAULT VALUES;
COMMENT ON TABLE repricer.figures_turn IS 'A session that summarises figures locks its row until the end of its transaction.';

-- Kept moves: what the bridge counts of each month, as one row a subscription and batch, for every subscription none of
-- whose calls is out. They are summed by batch and month (move_tallies). While no fact is added, only time moves a figure,
-- because a paid period ends. So months are kept to their ends, the coming ones too. For a month in which a paid period
-- will end, running_moves has how it stands before that. A reader counts from the facts what is marked, what is not kept
-- yet, and what is kept since a later instant than it asks for (known_after).
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
-- There is no key, because one SQL statement deletes and inserts rows.
CREATE INDEX kept_moves_subscription ON repricer.kept_moves (original_transaction_id);
CREATE INDEX kept_moves_later ON repricer.kept_moves (batch_id, known_after);
COMMENT ON TABLE repricer.kept_moves IS
    'What the revenue bridge counts of a subscription, in twelfths of milliunits. Only summarise_figures writes it.';
COMMENT ON COLUMN repricer.kept_moves.known_after IS
    'The row holds for instants after this one, the latest instant of a fact. infinity: the moves are counted from the facts, '
    'for a subscription with a call that is out, or with dependents on another one.';

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
COMMENT ON TABLE repricer.move_tallies IS
    'Sums of kept_moves, each month to its end. Only summarise_figures writes it, one session at a time.';

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
    'What must be added to a whole month of kept_moves to have it as of an instant within the month, after from_at and not after '
    'until_at. Only summarise_figures writes it.';

-- PostgreSQL would expect one row of a batch that its statistics do not know yet, however large it is, and reports of the newest
-- batch would compare each row with each. Without statistics of this column it takes every batch for one of two hundred.
ALTER TABLE repricer.price_changes ALTER COLUMN batch_id SET STATISTICS 0;
ALTER TABLE repricer.dependent_cancellations ALTER COLUMN batch_id SET STATISTICS 0;
ALTER TABLE repricer.money_entries ALTER COLUMN batch_id SET STATISTICS 0;
ALTER TABLE repricer.change_figures ALTER COLUMN batch_id SET STATISTICS 0;
ALTER TABLE repricer.kept_exceptions ALTER COLUMN batch_id SET STATISTICS 0;
ALTER TABLE repricer.kept_moves ALTER COLUMN batch_id SET STATISTICS 0;
ALTER TABLE repricer.running_moves ALTER COLUMN batch_id SET STATISTICS 0;

-- The marked subscriptions, for reports that leave them out. The statistics of the table of marks nearly always describe an
-- empty table, so PostgreSQL would compare each row with each mark while there are many. From a function it expects as many
-- rows as the function says, and makes a hash table of them. With a larger number it would read whole tables in the order of
-- their keys, which takes ten times as long.
CREATE FUNCTION repricer.marked_subscriptions() RETURNS SETOF text LANGUAGE sql STABLE SECURITY DEFINER PARALLEL SAFE
    ROWS 2000 SET search_path = repricer, pg_temp AS $$
SELECT original_transaction_id FROM stale_figures
$$;
COMMENT ON FUNCTION repricer.marked_subscriptions() IS 'Subscriptions with a mark, some of them several times.';

-- Says the same as the equation that stands beside it. Its cost makes PostgreSQL join by a hash table or a key where it expects
-- a few rows of a batch and would compare each with each. After `OR` it is not even called where the equation holds.
CREATE FUNCTION repricer.is_that(p_one uuid, p_other uuid) RETURNS boolean LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE COST 100
    AS $$
BEGIN
    RETURN p_one = p_other;
END
$$;

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
            AND repricer.is_of_item(h.sku, h.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
            AND h.purchased_at >= c.effective_at AND h.price_milliunits = c.new_price_milliunits
            AND h.currency = c.currency) AS is_uncharged,
    c.current_price_milliunits, c.new_price_milliunits, coalesce(r.renewals, 0) AS renewals, r.first_at,
    coalesce(r.old_total_milliunits, 0) AS old_total_milliunits, coalesce(r.new_total_milliunits, 0) AS new_total_milliunits,
    c.stage,
    c.stage NOT IN ('awaiting_approval', 'queued', 'unknown', 'scheduled', 'pending_consent', 'accepted') AS is_final,
    -- An item that is charged at another price by now brings nothing more of this change.
    c.is_leaving OR NOT coalesce(p.is_at_price, true) AS is_leaving,
    coalesce(c.consent_asked_at, c.accepted_at) IS NOT NULL AS is_told,
    c.state IN ('declined', 'cancelled') AND coalesce(c.reason = 'parent_declined', false) AS fell_with_parent,
    coalesce(o.lost_milliunits, 0) AS others_lost_milliunits, coalesce(r.taxed_renewals, 0) AS taxed_renewals,
    coalesce(r.taxed_uplift_milliunits, 0) AS taxed_uplift_milliunits, p.paid_until, p.word_due_at, p.sku AS paid_sku,
    p.quantity AS paid_quantity,
    -- Readers multiply the seats by the prices, so this checks that the product fits.
    CASE WHEN coalesce(q.seats, c.forecast_seats) = 1 OR repricer.fitting(coalesce(q.seats, c.forecast_seats)
            * greatest(c.current_price_milliunits, c.new_price_milliunits)::numeric,
            'the seats of price change ' || c.change_id) IS NOT NULL
        THEN coalesce(q.seats, c.forecast_seats) END AS seats
FROM repricer.price_changes c
LEFT JOIN LATERAL (
    -- Prices are for one seat, and these are the seats of the last period. That a further period has as many is an
    -- inference.
    SELECT CASE WHEN p.paid_by = 1 THEN p.quantity ELSE coalesce((
        SELECT repricer.seats_of(array_agg(k)) FROM repricer.charges k
        WHERE k.original_transaction_id = c.original_transaction_id
            AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
            AND k.currency = c.currency
            AND (c.state = 'effective' OR k.purchased_at <= c.ended_at)
            AND coalesce(k.expires_at, k.purchased_at) = p.until), p.quantity) END AS seats
    FROM (
        SELECT coalesce(k.expires_at, k.purchased_at) AS until, count(*) AS paid_by, max(k.quantity) AS quantity
        FROM repricer.charges k
        WHERE k.original_transaction_id = c.original_transaction_id
            AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
            AND k.currency = c.currency
            AND (c.state = 'effective' OR k.purchased_at <= c.ended_at)
        GROUP BY 1 ORDER BY 1 DESC LIMIT 1) p
) q ON c.state IN ('effective', 'declined', 'cancelled', 'lapsed')
LEFT JOIN LATERAL (
    -- There is one at most. As an aggregate it is not computed where nobody asks for it.
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
            AND h.currency = c.currency
                AND NOT repricer.is_of_item(h.sku, h.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
        WINDOW period AS (PARTITION BY h.sku, coalesce(h.expires_at, h.purchased_at))
        ORDER BY h.sku, h.purchased_at DESC, h.transaction_id) l
    WHERE c.state = 'declined' AND c.reason IS DISTINCT FROM 'parent_declined' AND c.undoes_change_id IS NULL
        AND l.expires_at + repricer.span(l.purchased_at, l.expires_at) / 2 > c.ended_at
        AND EXISTS (
            SELECT FROM repricer.told_statements e
            WHERE e.original_transaction_id = c.original_transaction_id AND e.type = 'EXPIRED'
                AND e.subtype = 'PRICE_INCREASE'
                AND e.signed_at BETWEEN c.ended_at - repricer.days(1) AND c.ended_at + repricer.days(1))
        -- What is lost by a change of its own, or as a dependent, is counted there; and all of it under one change.
        AND NOT EXISTS (
            SELECT FROM repricer.price_changes n
            WHERE n.original_transaction_id = c.original_transaction_id AND n.undoes_change_id IS NULL
                AND (n.state = 'declined' AND (l.sku = ANY (n.dependent_skus) OR l.sku = ANY (n.current_dependent_skus)
                        OR n.change_id < c.change_id AND n.reason IS DISTINCT FROM 'parent_declined'
                            AND n.ended_at > c.ended_at - repricer.days(1))
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
    -- OFFSET 0 makes PostgreSQL search the tax of a renewal once, and not once for each expression that uses it.
    FROM (
        SELECT n.* FROM repricer.charged_renewals n
        WHERE c.state = 'effective' AND n.original_transaction_id = c.original_transaction_id AND n.change_id = c.change_id
        OFFSET 0) h
) r ON true;
COMMENT ON VIEW repricer.live_change_figures IS 'What change_figures keeps, computed from the facts.';

-- A report about one batch counts only what is marked of that batch. OFFSET 0 makes PostgreSQL go mark by mark, instead of
-- reading all changes.
CREATE VIEW repricer.marked_batches AS
SELECT DISTINCT s.original_transaction_id, b.batch_id
FROM repricer.stale_figures s
CROSS JOIN LATERAL (
    SELECT c.batch_id FROM repricer.price_changes c WHERE c.original_transaction_id = s.original_transaction_id OFFSET 0) b;
COMMENT ON VIEW repricer.marked_batches IS 'The marked subscriptions, once for each batch that they have a change in.';

-- What was forecast of a change, and what came. Changes that are alike share one outcome.
CREATE VIEW repricer.live_forecast_outcomes AS
SELECT o.original_transaction_id, o.change_id, o.batch_id, o.stage,
    md5(ROW(o.direction, o.forecast_consent, o.forecast_threshold_source, o.forecast_reasons, o.forecast_not_known,
        o.forecast_because, o.came_consent, o.came, o.has_moved, o.slip, o.is_siblings_doing)::text)::uuid AS outcome,
    o.direction, o.forecast_consent, o.forecast_threshold_source, o.forecast_reasons, o.forecast_not_known, o.forecast_because,
    o.came_consent, o.came, o.has_moved, o.slip, o.is_siblings_doing, 1::bigint AS changes
FROM (
    SELECT c.original_transaction_id, c.change_id, c.batch_id, c.stage, c.direction, c.forecast_consent,
        c.forecast_threshold_source, c.forecast_reasons, came.consent AS came_consent,
        -- A change that nothing has moved is in time if it is charged within an hour of its renewal.
        CASE WHEN c.effective_at < c.forecast_effective_at THEN 'earlier'
            WHEN c.effective_at > c.forecast_effective_at + CASE WHEN coalesce(c.moved_before_call, c.moved_since_call) IS NULL
                THEN interval '1 hour' ELSE interval '0' END THEN 'later'
            WHEN c.effective_at IS NOT NULL THEN 'as_forecast' END AS came,
        coalesce(c.planned_effective_at, c.due_effective_at) > c.forecast_effective_at AS has_moved,
        CASE WHEN c.forecast_consent = 'not_known' THEN c.forecast_not_known ELSE '{}' END AS forecast_not_known,
        -- The reason names a line of the file or a change of ours; otherwise it is the instant of an earlier increase.
        CASE WHEN 'increase_within_12_months' = ANY (c.forecast_reasons) THEN
            CASE WHEN jsonb_path_exists(c.forecast_rules,
                    '$[*] ? (@.rule == "increase_within_12_months").inputs.because ? (!(@ like_regex "^[0-9]{4}-[0-9]{2}-[0-9]{2}T"))')
                THEN 'sibling' ELSE 'earlier_increase' END
        END AS forecast_because,
        CASE WHEN coalesce(c.effective_at, c.due_effective_at) > c.forecast_effective_at
            THEN coalesce(c.moved_before_call, c.moved_since_call) END AS slip,
        -- Whether consent was asked because of our own increase of another item, which this forecast could not know. The plan
        -- of that later change foresaw it.
        CASE WHEN c.forecast_consent = 'not_required' AND came.consent = 'required' THEN EXISTS (
            SELECT FROM repricer.price_changes s
            WHERE s.original_transaction_id = c.original_transaction_id AND s.change_id <> c.change_id
                AND s.direction = 'increase' AND s.undoes_change_id IS NULL
                AND CASE WHEN s.state IN ('scheduled', 'pending_consent', 'accepted') THEN s.due_effective_at
                        ELSE s.effective_at END
                    BETWEEN ((coalesce(c.sent_at, c.consent_asked_at) AT TIME ZONE 'UTC' - interval '12 months') AT TIME ZONE 'UTC')
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
    -- A change that is held out is never sent, so there is nothing to compare its forecast with.
    WHERE c.undoes_change_id IS NULL AND NOT c.is_held_out
) o;
COMMENT ON VIEW repricer.live_forecast_outcomes IS
    'What forecast_tallies counts, from the facts: one row a change that is, or was, to be sent.';

-- The tallies, less what is kept and marked, plus what is not kept.
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
COMMENT ON VIEW repricer.forecast_outcomes IS 'The outcomes of all changes, exact at any moment. Its rows must be added up.';

-- A change whose figures are not kept, or whose subscription is marked.
CREATE VIEW repricer.unkept_change_figures AS
-- An open change has the figures of live_change_figures. No charge of it counts.
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
-- OFFSET 0 makes PostgreSQL go subscription by subscription. The id and the batch are those of the mark, so that a query for
-- some subscriptions, or for a batch, reads only their marks.
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

-- What is added to the tallies: what is not kept, less what is kept and marked.
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
    -- A customer who left without having been told of an increase did not leave because of it.
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
    'What must be added to the tallies for changes that are open or marked: what the facts say, less what is kept of them.';

CREATE VIEW repricer.change_tallies AS
SELECT t.*, 0::bigint AS silent, 0::bigint AS silent_old, 0::bigint AS silent_new FROM repricer.figure_tallies t
UNION ALL
-- The tallies count what a further period of these brings, but it is not known whether there will be one.
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
COMMENT ON VIEW repricer.change_tallies IS 'The figures of all changes, exact at any moment. Its rows must be added up.';

-- live_charge_exceptions names each month of statements a dozen times. PostgreSQL would plan a search of each for every query,
-- also where nothing is marked. A function is planned when it is first called. A condition on the batch reaches the marks
-- through it; a condition on the subscription does not.
CREATE FUNCTION repricer.exceptions_of(p_batch uuid, p_ids text[])
    -- The columns are listed, because Citus refuses a view as circular if it calls a function that returns rows of another view.
    RETURNS TABLE (original_transaction_id text, change_id uuid, transaction_id text, sku text, exception text,
        occurred_at timestamptz, amount_milliunits bigint, expected_milliunits bigint, refunded_milliunits bigint, currency text,
        storefront text, bucket smallint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER ROWS 1000
    SET search_path = repricer, pg_temp SET plan_cache_mode = force_generic_plan SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY
    SELECT x.original_transaction_id, x.change_id, x.transaction_id, x.sku, x.exception, x.occurred_at, x.amount_milliunits,
        x.expected_milliunits, x.refunded_milliunits, x.currency, x.storefront, x.bucket
    FROM unnest(p_ids) AS m (id)
    -- OFFSET 0 makes PostgreSQL go subscription by subscription.
    CROSS JOIN LATERAL (
        SELECT l.* FROM live_charge_exceptions l WHERE l.original_transaction_id = m.id AND l.batch_id = p_batch
        OFFSET 0) x;
END
$$;
COMMENT ON FUNCTION repricer.exceptions_of(uuid, text[]) IS 'What live_charge_exceptions says of these subscriptions in one batch.';

-- Charges that are not as they should be: those that are kept, and for marked subscriptions those that the facts show. A
-- charge since the call of an open change marks its subscription, too.
CREATE VIEW repricer.charge_exceptions AS
SELECT k.batch_id, k.original_transaction_id, k.change_id, k.transaction_id, k.sku, k.exception, k.occurred_at,
    k.amount_milliunits, k.expected_milliunits, k.refunded_milliunits, k.currency, k.storefront, k.bucket
FROM repricer.kept_exceptions k
WHERE NOT EXISTS (SELECT FROM repricer.marked_subscriptions() s (id) WHERE s.id = k.original_transaction_id)
UNION ALL
SELECT m.batch_id, x.original_transaction_id, x.change_id, x.transaction_id, x.sku, x.exception, x.occurred_at,
    x.amount_milliunits, x.expected_milliunits, x.refunded_milliunits, x.currency, x.storefront, x.bucket
FROM (SELECT b.batch_id, array_agg(b.original_transaction_id) AS ids FROM repricer.marked_batches b GROUP BY b.batch_id) m
CROSS JOIN LATERAL repricer.exceptions_of(m.batch_id, m.ids) x
UNION ALL
-- Time alone makes these: no fact marks their subscription. PostgreSQL expects one or two of them, and would compare each with
-- each mark; for NOT IN it keeps the marks in a hash table.
SELECT k.batch_id, k.original_transaction_id, k.change_id, NULL, k.paid_sku, 'missing', k.paid_until, 0,
    repricer.fitting(k.new_price_milliunits::numeric * k.paid_quantity, 'the seats of price change ' || k.change_id), 0, k.currency, k.storefront, k.bucket
FROM repricer.change_figures k
WHERE k.word_due_at < (SELECT d.until FROM repricer.heard_charges d) AND k.paid_sku IS NOT NULL
    AND k.original_transaction_id NOT IN (SELECT s.id FROM repricer.marked_subscriptions() s (id))
    AND NOT EXISTS (
        SELECT FROM repricer.kept_exceptions x
        WHERE x.original_transaction_id = k.original_transaction_id AND x.change_id = k.change_id
            AND x.exception = 'missing' AND x.occurred_at = k.paid_until)
UNION ALL
SELECT o.batch_id, o.original_transaction_id, o.change_id, NULL, o.sku, 'missing', o.occurred_at, 0, o.expected_milliunits, 0,
    o.currency, o.storefront, o.bucket
FROM repricer.silent_open_changes o
WHERE o.original_transaction_id NOT IN (SELECT s.id FROM repricer.marked_subscriptions() s (id));
COMMENT ON VIEW repricer.charge_exceptions IS 'Charges that are not as they should be, and renewals that were not charged.';

-- Computes anew the figures of up to p_limit marks; returns the number of subscriptions. Everything is read in one snapshot, so
-- that only marks of facts that were counted are deleted. A later mark stays.
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

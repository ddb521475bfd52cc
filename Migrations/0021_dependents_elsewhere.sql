-- A dependent on another subscription of the same customer is cancelled by a call of its own: the intent is a row
-- before the call, as for price changes. And every step of a dependent's cancellation is an event for other
-- programs: a row of the outbox, written with the step, read by Debezium or delivered by webhook.
-- Locks: dependent_cancellations, report.dependent_cancellation, report.revenue_impact, for a moment.
-- breaking: no

ALTER TABLE repricer.dependent_cancellations
    ADD COLUMN is_elsewhere boolean NOT NULL DEFAULT false,
    ADD COLUMN target_transaction_id text,
    ADD COLUMN cancel_reference_id uuid;
COMMENT ON COLUMN repricer.dependent_cancellations.is_elsewhere IS
    'Whether the item is none of this subscription: the App Store drops it for nobody, so Cancel a Subscription is called.';
COMMENT ON COLUMN repricer.dependent_cancellations.target_transaction_id IS
    'The subscription that carries it, once found.';
COMMENT ON COLUMN repricer.dependent_cancellations.cancel_reference_id IS
    'The requestReferenceId of the call that cancels it.';
CREATE INDEX dependent_cancellations_falling ON repricer.dependent_cancellations (target_transaction_id)
    WHERE state = 'requested' AND is_elsewhere;

-- One row a call of Cancel a Subscription, written before the call. The key names the subscription that is cancelled;
-- the dependents that it is cancelled for belong to the subscriptions of `parents`.
CREATE TABLE repricer.cancel_requests (
    original_transaction_id text NOT NULL,
    request_reference_id uuid NOT NULL,
    parents text[] NOT NULL,
    transaction_id text NOT NULL,
    call jsonb NOT NULL,
    state text NOT NULL DEFAULT 'sending',
    next_step text NOT NULL DEFAULT 'send',
    attempts integer NOT NULL DEFAULT 1,
    looks integer NOT NULL DEFAULT 0,
    lease_owner uuid NOT NULL,
    lease_until timestamptz NOT NULL,
    fence bigint NOT NULL DEFAULT 1,
    next_attempt_at timestamptz,
    prepared_at timestamptz NOT NULL,
    settled_at timestamptz,
    http_status integer,
    error_code bigint,
    error_message text,
    answer text,
    CONSTRAINT cancel_requests_pkey PRIMARY KEY (original_transaction_id, request_reference_id),
    CONSTRAINT cancel_requests_state CHECK (state IN ('sending', 'unknown', 'answered', 'refused')),
    CONSTRAINT cancel_requests_next_step CHECK (next_step IN ('send', 'look')),
    CONSTRAINT cancel_requests_settled
        CHECK ((state IN ('answered', 'refused')) = (settled_at IS NOT NULL))
);
CREATE UNIQUE INDEX cancel_requests_one_in_flight
    ON repricer.cancel_requests (original_transaction_id) WHERE state IN ('sending', 'unknown');
CREATE INDEX cancel_requests_open ON repricer.cancel_requests (lease_until)
    WHERE state IN ('sending', 'unknown');

-- The columns of Debezium's outbox event router, which sends `payload` to the topic of `aggregatetype` under the key
-- `aggregateid`. `position` orders the events of one aggregate; writers hold its subscription's lock.
CREATE TABLE repricer.outbox (
    aggregateid text NOT NULL,
    position bigint NOT NULL,
    id uuid NOT NULL DEFAULT gen_random_uuid(),
    aggregatetype text NOT NULL,
    type text NOT NULL,
    payload jsonb NOT NULL,
    "timestamp" timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT outbox_pkey PRIMARY KEY (aggregateid, position)
);
CREATE INDEX outbox_by_time ON repricer.outbox ("timestamp");
COMMENT ON TABLE repricer.outbox IS
    'Events for other programs, written in the transaction of what they tell; never updated, deleted after their retention.';
COMMENT ON COLUMN repricer.outbox.aggregateid IS 'The subscription: its events are in order.';
COMMENT ON COLUMN repricer.outbox.position IS 'Grows within an aggregate; has gaps.';
COMMENT ON COLUMN repricer.outbox.id IS 'Names the event for ever: a receiver that knows it has it already.';
COMMENT ON COLUMN repricer.outbox."timestamp" IS 'When it was written, by the machine''s clock; payload has the business instants.';

-- How far each event came as a webhook. Apart from the outbox, so that its rows are only ever inserted.
CREATE TABLE repricer.webhook_deliveries (
    aggregateid text NOT NULL,
    position bigint NOT NULL,
    state text NOT NULL DEFAULT 'pending',
    attempts integer NOT NULL DEFAULT 0,
    -- By the machine's clock: three days count from here, and anew from a replay.
    due_since timestamptz NOT NULL DEFAULT now(),
    next_attempt_at timestamptz,
    lease_until timestamptz,
    fence bigint NOT NULL DEFAULT 0,
    settled_at timestamptz,
    last_error text,
    CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (aggregateid, position),
    CONSTRAINT webhook_deliveries_event FOREIGN KEY (aggregateid, position)
        REFERENCES repricer.outbox (aggregateid, position) ON DELETE CASCADE,
    CONSTRAINT webhook_deliveries_state CHECK (state IN ('pending', 'delivered', 'given_up'))
);
CREATE INDEX webhook_deliveries_pending ON repricer.webhook_deliveries (aggregateid, position)
    WHERE state = 'pending';
CREATE INDEX webhook_deliveries_due ON repricer.webhook_deliveries (next_attempt_at)
    WHERE state = 'pending';

GRANT SELECT, INSERT, UPDATE ON repricer.cancel_requests TO repricer_service;
GRANT SELECT, INSERT, DELETE ON repricer.outbox TO repricer_service;
-- The cascade of a deletion needs no right of its own.
GRANT SELECT, INSERT, UPDATE ON repricer.webhook_deliveries TO repricer_service;
GRANT SELECT ON repricer.cancel_requests, repricer.outbox, repricer.webhook_deliveries
    TO repricer_pricing;

CREATE OR REPLACE VIEW report.dependent_cancellation AS
SELECT d.batch_id, b.name AS batch_name, d.original_transaction_id, d.change_id, d.parent_sku,
    d.dependent_sku, d.cause, d.state, d.currency, d.price_milliunits, d.requested_at,
    d.requested_by_evidence, d.settled_at, d.settled_by_evidence, d.detail,
    d.state = 'confirmed' AS is_proved, d.is_elsewhere,
    d.target_transaction_id AS dependent_transaction_id, d.cancel_reference_id
FROM repricer.dependent_cancellations d JOIN repricer.batches b ON b.batch_id = d.batch_id;
COMMENT ON COLUMN report.dependent_cancellation.is_elsewhere IS
    'Whether the item is on another subscription of the customer.';
COMMENT ON COLUMN report.dependent_cancellation.dependent_transaction_id IS
    'That subscription, once found.';
COMMENT ON COLUMN report.dependent_cancellation.cancel_reference_id IS
    'The requestReferenceId of the call of Cancel a Subscription; null: none was made.';

CREATE OR REPLACE VIEW report.revenue_impact AS
WITH lost_dependents AS (
    -- A dependent with a lost change of its own in the batch is counted there.
    SELECT d.batch_id, d.original_transaction_id, d.change_id, count(*) AS dependents,
        sum(d.price_milliunits)::bigint AS price_milliunits
    FROM repricer.dependent_cancellations d
    JOIN repricer.price_changes c
        ON c.original_transaction_id = d.original_transaction_id AND c.change_id = d.change_id
    WHERE d.state = 'confirmed' AND coalesce(d.currency, c.currency) = c.currency
        AND NOT EXISTS (
            SELECT FROM repricer.price_changes o
            WHERE o.original_transaction_id
                    = coalesce(d.target_transaction_id, d.original_transaction_id)
                AND o.batch_id = d.batch_id
                AND o.sku = CASE WHEN d.is_elsewhere
                    THEN regexp_replace(d.dependent_sku, '^[0-9]+/', '') ELSE d.dependent_sku END
                AND o.state IN ('declined', 'cancelled'))
    GROUP BY d.batch_id, d.original_transaction_id, d.change_id
), groups AS (
    SELECT c.batch_id, c.currency, c.storefront, c.period, count(*) AS changes,
        count(*) FILTER (WHERE c.state = 'effective') AS effective,
        count(r.change_id) AS charged_changes,
        coalesce(sum(r.renewals), 0)::bigint AS charged_renewals,
        coalesce(sum(r.old_total_milliunits), 0)::bigint AS old_total,
        coalesce(sum(r.new_total_milliunits), 0)::bigint AS new_total,
        coalesce(sum(c.current_price_milliunits) FILTER (WHERE r.change_id IS NOT NULL), 0)::bigint
            AS old_per_period,
        coalesce(sum(c.new_price_milliunits) FILTER (WHERE r.change_id IS NOT NULL), 0)::bigint
            AS new_per_period,
        count(*) FILTER (WHERE c.state = 'declined') AS declined,
        coalesce(sum(c.current_price_milliunits) FILTER (WHERE c.state = 'declined'), 0)::bigint
            AS declined_lost,
        count(*) FILTER (WHERE c.state = 'cancelled') AS cancelled,
        coalesce(sum(c.current_price_milliunits) FILTER (WHERE c.state = 'cancelled'), 0)::bigint
            AS cancelled_lost,
        coalesce(sum(d.dependents), 0)::bigint AS dependents,
        coalesce(sum(d.price_milliunits), 0)::bigint AS dependent_lost
    FROM repricer.price_changes c
    LEFT JOIN repricer.charged_changes r
        ON r.batch_id = c.batch_id AND r.original_transaction_id = c.original_transaction_id
        AND r.change_id = c.change_id
    LEFT JOIN lost_dependents d
        ON d.batch_id = c.batch_id AND d.original_transaction_id = c.original_transaction_id
        AND d.change_id = c.change_id
    GROUP BY c.batch_id, c.currency, c.storefront, c.period
), factors (period, numerator, denominator) AS (
    -- To a month: a year is 12 months or 52 weeks.
    VALUES ('P1W', 13, 3), ('P1M', 1, 1), ('P2M', 1, 2), ('P3M', 1, 3), ('P6M', 1, 6), ('P1Y', 1, 12)
)
SELECT g.batch_id, b.name AS batch_name, g.currency, g.storefront, g.period, g.changes,
    g.effective, g.charged_changes, g.charged_renewals, g.old_total AS old_total_milliunits,
    g.new_total AS new_total_milliunits, g.new_total - g.old_total AS uplift_milliunits,
    g.old_per_period AS old_per_period_milliunits, g.new_per_period AS new_per_period_milliunits,
    g.new_per_period - g.old_per_period AS uplift_per_period_milliunits,
    round((g.new_per_period - g.old_per_period)::numeric * f.numerator / f.denominator)::bigint
        AS uplift_per_month_milliunits,
    g.declined, g.declined_lost AS declined_lost_per_period_milliunits,
    g.cancelled, g.cancelled_lost AS cancelled_lost_per_period_milliunits,
    g.dependents AS dependents_cancelled,
    g.dependent_lost AS dependent_lost_per_period_milliunits,
    g.declined_lost + g.cancelled_lost + g.dependent_lost AS lost_per_period_milliunits,
    round((g.declined_lost + g.cancelled_lost + g.dependent_lost)::numeric * f.numerator
        / f.denominator)::bigint AS lost_per_month_milliunits
FROM groups g
JOIN repricer.batches b ON b.batch_id = g.batch_id
LEFT JOIN factors f ON f.period = g.period;

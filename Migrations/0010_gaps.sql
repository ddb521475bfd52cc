-- What closes gaps in what we were told: how far the notification history was read, which subscriptions are to
-- be looked at, and which replica does it.
-- Locks: price_changes and notification_ids while an index is built.
-- breaking: no

-- Work that one replica at a time does. A row and not an advisory lock: it outlives a lost connection for as long
-- as it says and no longer. leased_until is real time, next_run_at the service's clock.
CREATE TABLE repricer.service_leases (
    name text NOT NULL,
    owner uuid,
    leased_until timestamptz,
    next_run_at timestamptz,
    last_run_at timestamptz,
    CONSTRAINT service_leases_pkey PRIMARY KEY (name),
    CONSTRAINT service_leases_owned_for_a_time CHECK ((owner IS NULL) = (leased_until IS NULL))
);

-- One row: the notification history was read up to read_through without a gap; a window may be under way, first
-- its failures, then everything in it, slice by slice and page by page.
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

-- Subscriptions whose status somebody wants read. Anybody may ask: insert (original_transaction_id, reason,
-- requested_at) with ON CONFLICT DO NOTHING. list_id names a file of ids, else it is empty. next_look_at is real time.
CREATE TABLE repricer.status_looks (
    original_transaction_id text NOT NULL,
    reason text NOT NULL,
    list_id text NOT NULL DEFAULT '',
    bucket smallint GENERATED ALWAYS AS
        ((hashtextextended(original_transaction_id, 0) & 63)::smallint) STORED,
    line bigint,
    requested_at timestamptz NOT NULL,
    attempts integer NOT NULL DEFAULT 0,
    next_look_at timestamptz,
    done_at timestamptz,
    outcome text,
    detail text,
    CONSTRAINT status_looks_pkey PRIMARY KEY (original_transaction_id, reason, list_id),
    CONSTRAINT status_looks_id_size CHECK (length(original_transaction_id) BETWEEN 1 AND 64),
    CONSTRAINT status_looks_reason CHECK (reason IN ('sync', 'silent', 'legacy')),
    CONSTRAINT status_looks_outcome CHECK (
        outcome IN ('read', 'drifted', 'not_found', 'refused', 'unreadable', 'unanswered')),
    CONSTRAINT status_looks_done CHECK ((done_at IS NULL) = (outcome IS NULL))
);
CREATE INDEX status_looks_due ON repricer.status_looks (reason, list_id, bucket, next_look_at NULLS FIRST)
    WHERE done_at IS NULL;

-- Open changes of which something should have been heard.
CREATE INDEX price_changes_heard_of ON repricer.price_changes (due_effective_at)
    WHERE state IN ('scheduled', 'pending_consent', 'accepted');
CREATE INDEX price_changes_announced ON repricer.price_changes (forecast_notice_at)
    WHERE state = 'scheduled' AND forecast_notice_at IS NOT NULL;
-- The newest arrival, asked for every few seconds.
CREATE INDEX notification_ids_received ON repricer.notification_ids (received_at);

GRANT SELECT, INSERT, UPDATE ON repricer.service_leases TO repricer_service;
GRANT SELECT, UPDATE ON repricer.history_reading TO repricer_service;
GRANT SELECT, INSERT, UPDATE, DELETE ON repricer.status_looks TO repricer_service;
GRANT SELECT ON repricer.service_leases, repricer.history_reading, repricer.status_looks,
    repricer.notification_ids TO repricer_pricing;

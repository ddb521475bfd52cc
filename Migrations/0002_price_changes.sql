-- Batches, price changes, the calls that carry them, and what became of dependents.
-- Locks: none on existing tables.
-- breaking: no

CREATE TABLE repricer.batches (
    batch_id uuid NOT NULL,
    name text NOT NULL,
    state text NOT NULL DEFAULT 'awaiting_approval',
    content_sha256 text NOT NULL,
    plan_hash text NOT NULL,
    planned_as_of timestamptz NOT NULL,
    row_count bigint NOT NULL,
    rejected_row_count bigint NOT NULL DEFAULT 0,
    submitted_by name NOT NULL DEFAULT session_user,
    submitted_at timestamptz NOT NULL,
    decided_by name,
    decided_at timestamptz,
    decision_reason text,
    is_paused boolean NOT NULL DEFAULT false,
    paused_reason text,
    CONSTRAINT batches_pkey PRIMARY KEY (batch_id),
    CONSTRAINT batches_name_size CHECK (length(name) BETWEEN 1 AND 200),
    CONSTRAINT batches_state
        CHECK (state IN ('awaiting_approval', 'approved', 'rejected', 'aborted')),
    CONSTRAINT batches_have_rows CHECK (row_count > 0 AND rejected_row_count >= 0),
    -- The second pair of eyes: no function and no client can get past this one.
    CONSTRAINT batches_second_pair_of_eyes
        CHECK (state <> 'approved' OR decided_by <> submitted_by),
    CONSTRAINT batches_decision_is_signed
        CHECK (state NOT IN ('approved', 'rejected')
            OR (decided_by IS NOT NULL AND decided_at IS NOT NULL))
);
-- The same file again is the same batch, unless the first was withdrawn.
CREATE UNIQUE INDEX batches_same_content ON repricer.batches (content_sha256)
    WHERE state IN ('awaiting_approval', 'approved');

-- Rows of the file that never became a change: kept, so that no row disappears.
CREATE TABLE repricer.batch_rejects (
    batch_id uuid NOT NULL REFERENCES repricer.batches,
    line bigint NOT NULL,
    original_transaction_id text,
    sku text,
    code text NOT NULL,
    message text NOT NULL,
    CONSTRAINT batch_rejects_pkey PRIMARY KEY (batch_id, line)
);

CREATE TABLE repricer.price_changes (
    original_transaction_id text NOT NULL,
    change_id uuid NOT NULL,
    batch_id uuid NOT NULL REFERENCES repricer.batches,
    line bigint NOT NULL,
    bucket smallint GENERATED ALWAYS AS
        ((hashtextextended(original_transaction_id, 0) & 63)::smallint) STORED,
    sku text NOT NULL,
    direction text NOT NULL,
    currency text NOT NULL,
    storefront text NOT NULL,
    period text NOT NULL,
    current_price_milliunits bigint NOT NULL,
    new_price_milliunits bigint NOT NULL,
    dependent_skus text[] NOT NULL DEFAULT '{}',
    expected_price_milliunits bigint,
    effective_on_or_after date,
    -- The forecast as approved; never rewritten.
    forecast_consent text NOT NULL,
    forecast_reasons text[] NOT NULL DEFAULT '{}',
    forecast_threshold_source text,
    forecast_rules jsonb NOT NULL DEFAULT '[]',
    forecast_renewal_at timestamptz,
    forecast_notice_at timestamptz,
    forecast_effective_at timestamptz NOT NULL,
    -- The live plan: moves when a renewal is missed.
    send_after timestamptz,
    send_by timestamptz NOT NULL,
    due_effective_at timestamptz NOT NULL,
    is_ready boolean NOT NULL DEFAULT false,
    goes_alone boolean NOT NULL DEFAULT false,
    next_attempt_at timestamptz,
    request_reference_id uuid,
    state text NOT NULL DEFAULT 'awaiting_approval',
    reason text,
    sent_at timestamptz,
    scheduled_at timestamptz,
    consent_asked_at timestamptz,
    accepted_at timestamptz,
    acceptance text,
    effective_at timestamptz,
    ended_at timestamptz,
    state_since timestamptz NOT NULL,
    CONSTRAINT price_changes_pkey PRIMARY KEY (original_transaction_id, change_id),
    CONSTRAINT price_changes_line UNIQUE (original_transaction_id, batch_id, line),
    CONSTRAINT price_changes_sku_size CHECK (length(sku) BETWEEN 1 AND 128),
    CONSTRAINT price_changes_price CHECK (new_price_milliunits > 0),
    CONSTRAINT price_changes_direction CHECK (
        (direction = 'increase' AND new_price_milliunits > current_price_milliunits)
        OR (direction = 'decrease' AND new_price_milliunits < current_price_milliunits)),
    CONSTRAINT price_changes_not_india CHECK (direction = 'decrease' OR storefront <> 'IND'),
    CONSTRAINT price_changes_consent CHECK (
        (direction = 'increase' AND forecast_consent IN ('required', 'not_required'))
        OR (direction = 'decrease' AND forecast_consent = 'none')),
    CONSTRAINT price_changes_not_its_own_dependent CHECK (sku <> ALL (dependent_skus)),
    CONSTRAINT price_changes_acceptance
        CHECK (acceptance IS NULL OR acceptance IN ('consented', 'informed')),
    CONSTRAINT price_changes_effective
        CHECK (state <> 'effective' OR effective_at IS NOT NULL),
    CONSTRAINT price_changes_sent_with_an_id CHECK (
        state NOT IN ('sending', 'unknown') OR request_reference_id IS NOT NULL),
    CONSTRAINT price_changes_state CHECK (state IN (
        'awaiting_approval', 'queued', 'sending', 'unknown', 'scheduled', 'pending_consent',
        'accepted', 'effective', 'declined', 'cancelled', 'lapsed', 'invalidated', 'rejected',
        'ineligible', 'missed', 'aborted'))
);
-- One open change an item: what plan calls conflict_open_change, the database refuses.
CREATE UNIQUE INDEX price_changes_one_open ON repricer.price_changes (original_transaction_id, sku)
    WHERE state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'scheduled',
        'pending_consent', 'accepted');
CREATE INDEX price_changes_batch ON repricer.price_changes (batch_id, state);
-- Claims: earliest deadline first within a bucket.
CREATE INDEX price_changes_due ON repricer.price_changes (bucket, send_by)
    WHERE state = 'queued' AND is_ready;
-- Parked rows cost nothing until their instant comes.
CREATE INDEX price_changes_parked ON repricer.price_changes (send_after)
    WHERE state = 'queued' AND NOT is_ready;

-- Each SKU of a subscription plays one part among the open changes: parent or dependent. This one key
-- refuses a dependent of itself, a shared one and a chain, over all batches.
CREATE TABLE repricer.dependency_roles (
    original_transaction_id text NOT NULL,
    sku text NOT NULL,
    role text NOT NULL,
    change_id uuid NOT NULL,
    CONSTRAINT dependency_roles_one_part PRIMARY KEY (original_transaction_id, sku),
    CONSTRAINT dependency_roles_role CHECK (role IN ('parent', 'dependent')),
    CONSTRAINT dependency_roles_change FOREIGN KEY (original_transaction_id, change_id)
        REFERENCES repricer.price_changes (original_transaction_id, change_id)
);
CREATE INDEX dependency_roles_change ON repricer.dependency_roles
    (original_transaction_id, change_id);

-- One row a call to the App Store, written before the call: the intent and its requestReferenceId.
CREATE TABLE repricer.price_change_requests (
    original_transaction_id text NOT NULL,
    request_reference_id uuid NOT NULL,
    bucket smallint GENERATED ALWAYS AS
        ((hashtextextended(original_transaction_id, 0) & 63)::smallint) STORED,
    change_ids uuid[] NOT NULL,
    transaction_id text NOT NULL,
    call jsonb NOT NULL,
    state text NOT NULL DEFAULT 'sending',
    lease_owner uuid NOT NULL,
    lease_until timestamptz NOT NULL,
    fence bigint NOT NULL DEFAULT 1,
    attempts integer NOT NULL DEFAULT 1,
    looks integer NOT NULL DEFAULT 0,
    next_step text NOT NULL DEFAULT 'send',
    next_attempt_at timestamptz,
    prepared_at timestamptz NOT NULL,
    settled_at timestamptz,
    http_status integer,
    error_code bigint,
    error_message text,
    answer text COMPRESSION lz4,
    CONSTRAINT price_change_requests_pkey
        PRIMARY KEY (original_transaction_id, request_reference_id),
    CONSTRAINT price_change_requests_carry_a_change CHECK (cardinality(change_ids) > 0),
    CONSTRAINT price_change_requests_state CHECK (state IN ('sending', 'unknown', 'answered', 'refused')),
    CONSTRAINT price_change_requests_next_step CHECK (next_step IN ('send', 'look')),
    CONSTRAINT price_change_requests_settled
        CHECK ((state IN ('answered', 'refused')) = (settled_at IS NOT NULL))
);
-- One call in flight a subscription.
CREATE UNIQUE INDEX price_change_requests_one_in_flight
    ON repricer.price_change_requests (original_transaction_id)
    WHERE state IN ('sending', 'unknown');
CREATE INDEX price_change_requests_open ON repricer.price_change_requests (bucket, lease_until)
    WHERE state IN ('sending', 'unknown');

-- The history of each change: append-only. The evidence makes a line unique, so a repeated fold adds none.
CREATE TABLE repricer.price_change_history (
    original_transaction_id text NOT NULL,
    change_id uuid NOT NULL,
    occurred_at timestamptz NOT NULL,
    state text NOT NULL,
    evidence_kind text NOT NULL,
    evidence_id text NOT NULL,
    reason text,
    actor name NOT NULL DEFAULT session_user,
    CONSTRAINT price_change_history_pkey
        PRIMARY KEY (original_transaction_id, change_id, occurred_at, state, evidence_id)
) PARTITION BY RANGE (occurred_at);
CREATE TABLE repricer.price_change_history_default
    PARTITION OF repricer.price_change_history DEFAULT;

CREATE TABLE repricer.dependent_cancellations (
    original_transaction_id text NOT NULL,
    change_id uuid NOT NULL,
    dependent_sku text NOT NULL,
    parent_sku text NOT NULL,
    batch_id uuid NOT NULL,
    cause text NOT NULL,
    state text NOT NULL DEFAULT 'requested',
    price_milliunits bigint,
    currency text,
    requested_at timestamptz NOT NULL,
    requested_by_evidence text NOT NULL,
    settled_at timestamptz,
    settled_by_evidence text,
    detail text,
    next_look_at timestamptz,
    looks integer NOT NULL DEFAULT 0,
    CONSTRAINT dependent_cancellations_pkey
        PRIMARY KEY (original_transaction_id, change_id, dependent_sku),
    CONSTRAINT dependent_cancellations_change FOREIGN KEY (original_transaction_id, change_id)
        REFERENCES repricer.price_changes (original_transaction_id, change_id),
    CONSTRAINT dependent_cancellations_state
        CHECK (state IN ('requested', 'confirmed', 'cancel_sent', 'discrepancy', 'not_needed')),
    CONSTRAINT dependent_cancellations_proof
        CHECK (state <> 'confirmed' OR settled_by_evidence IS NOT NULL)
);
CREATE INDEX dependent_cancellations_open ON repricer.dependent_cancellations (requested_at)
    WHERE state = 'requested';

-- Calls a second over all replicas: tokens are leased in blocks from one row an endpoint.
CREATE TABLE repricer.rate_limits (
    endpoint text NOT NULL,
    micro_tokens bigint NOT NULL,
    refilled_at timestamptz NOT NULL,
    blocked_until timestamptz,
    CONSTRAINT rate_limits_pkey PRIMARY KEY (endpoint),
    CONSTRAINT rate_limits_never_overdrawn CHECK (micro_tokens >= 0)
);

CREATE TABLE repricer.service_controls (
    one_row boolean NOT NULL DEFAULT true,
    is_paused boolean NOT NULL DEFAULT false,
    CONSTRAINT service_controls_pkey PRIMARY KEY (one_row),
    CONSTRAINT service_controls_one_row CHECK (one_row)
);
INSERT INTO repricer.service_controls DEFAULT VALUES;

-- What people decided: append-only.
CREATE TABLE repricer.decisions (
    decision_id uuid NOT NULL DEFAULT gen_random_uuid(),
    decided_at timestamptz NOT NULL,
    actor name NOT NULL DEFAULT session_user,
    action text NOT NULL,
    batch_id uuid,
    detail text,
    CONSTRAINT decisions_pkey PRIMARY KEY (decision_id)
);
CREATE INDEX decisions_batch ON repricer.decisions (batch_id, decided_at);

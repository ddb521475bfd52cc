-- Calls to the App Store. Each is a row before it is made: the intent with the identifier that the call carries. What
-- people ask of extensions stands in 0008, since its functions need what comes before.
-- Locks: none on existing tables.
-- breaking: no

-- Change Subscription Price: one row a call.
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
    -- A call is given up only once it can't be on its way any more.
    in_flight_until timestamptz,
    -- A statement had settled the call, and a later one showed that it was about another. Its change is judged anew
    -- afterwards: what was true when the call was written may be long past.
    is_reopened boolean NOT NULL DEFAULT false,
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
-- Open calls are found in the order of their leases, so that a reader of days, whose snapshot keeps the entries of
-- closed calls alive, does not slow this down. The index above can't serve both questions: the planner would read it
-- from end to end for each subscription.
CREATE INDEX price_change_requests_open ON repricer.price_change_requests (lease_until) WHERE settled_at IS NULL;
COMMENT ON COLUMN repricer.price_change_requests.in_flight_until IS
    'Of the machine''s clock: later no call of it can be on its way any more.';
COMMENT ON COLUMN repricer.price_change_requests.is_reopened IS
    'A late statement took its proof away: from then on it is looked at and never sent.';

-- Cancel a Subscription: one row a call. The key names the subscription that is cancelled; the dependents that it is
-- cancelled for belong to the subscriptions of `parents`.
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
    -- Apple calls an end that we caused ourselves voluntary, too. It is the customer's own only after this instant.
    reenabled_at timestamptz,
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
COMMENT ON COLUMN repricer.cancel_requests.reenabled_at IS
    'When the customer was seen to have turned the renewal on again: a later end is their own.';

-- Extend Subscription Renewal Dates for All Active Subscribers: one row a request. Functions of 0008 write it, and the
-- service after its approval.
CREATE TABLE repricer.mass_extensions (
    -- The request identifier: the same again is the same request.
    extension_id uuid NOT NULL,
    product_id text NOT NULL,
    -- Null: all storefronts.
    storefronts text[],
    extend_by_days integer NOT NULL,
    reason_code integer NOT NULL,
    note text,
    -- What the facts said when it was asked for.
    eligible_count bigint NOT NULL,
    ineligible jsonb NOT NULL DEFAULT '{}',
    state text NOT NULL DEFAULT 'awaiting_approval',
    submitted_by text NOT NULL,
    submitted_at timestamptz NOT NULL,
    decided_by text,
    decided_at timestamptz,
    decision_reason text,
    -- The first call, by the business clock.
    called_at timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    -- An earlier attempt may have been taken though its answer was lost.
    may_be_running boolean NOT NULL DEFAULT false,
    -- Real time: when a call or a check of the status is due, and the lease of the process that makes it.
    next_attempt_at timestamptz,
    lease_owner uuid,
    leased_until timestamptz,
    code text,
    detail text,
    completed_at timestamptz,
    -- As Get Status of Subscription Renewal Date Extensions counts.
    status_succeeded bigint,
    status_failed bigint,
    -- As the SUMMARY counts.
    summary_evidence text,
    summary_succeeded bigint,
    summary_failed bigint,
    -- Beside who approved it: an approved one may still be rejected before its call.
    rejected_by text,
    rejected_at timestamptz,
    CONSTRAINT mass_extensions_pkey PRIMARY KEY (extension_id),
    CONSTRAINT mass_extensions_days CHECK (extend_by_days BETWEEN 1 AND 90),
    CONSTRAINT mass_extensions_reason CHECK (reason_code BETWEEN 0 AND 3),
    CONSTRAINT mass_extensions_product CHECK (length(product_id) BETWEEN 1 AND 255),
    CONSTRAINT mass_extensions_storefronts CHECK (cardinality(storefronts) > 0),
    CONSTRAINT mass_extensions_second_pair_of_eyes CHECK (
        decided_by IS NULL OR state = 'rejected' OR decided_by <> submitted_by),
    CONSTRAINT mass_extensions_decided CHECK (
        state = 'awaiting_approval' OR (state = 'rejected' AND rejected_by IS NOT NULL AND rejected_at IS NOT NULL)
        OR (decided_by IS NOT NULL AND decided_at IS NOT NULL)),
    CONSTRAINT mass_extensions_complete CHECK (state <> 'complete' OR completed_at IS NOT NULL),
    CONSTRAINT mass_extensions_state CHECK (state IN ('awaiting_approval', 'queued', 'sending', 'unknown',
        'running', 'complete', 'refused', 'rejected', 'given_up'))
);
-- One at a time for a product: which of two an extended subscription belongs to could not be told.
CREATE UNIQUE INDEX mass_extensions_one_open ON repricer.mass_extensions (product_id)
    WHERE state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'running');
COMMENT ON TABLE repricer.mass_extensions IS
    'Requests to extend the renewal dates of all subscribers of a product.';
COMMENT ON COLUMN repricer.mass_extensions.decided_by IS 'Who approved it.';

CREATE TABLE repricer.mass_extension_approvals (
    extension_id uuid NOT NULL,
    approver text NOT NULL,
    approved_at timestamptz NOT NULL,
    exceeded text[] NOT NULL,
    CONSTRAINT mass_extension_approvals_pkey PRIMARY KEY (extension_id, approver),
    CONSTRAINT mass_extension_approvals_extension_id_fkey FOREIGN KEY (extension_id)
        REFERENCES repricer.mass_extensions (extension_id)
);
COMMENT ON TABLE repricer.mass_extension_approvals IS
    'Append-only. Who approved a mass extension beyond their limits, as first_approvals of batches.';

-- Extend a Subscription Renewal Date: one row a request, whether asked for by itself or as a retry.
CREATE TABLE repricer.extension_calls (
    original_transaction_id text NOT NULL,
    -- The request identifier.
    extension_id uuid NOT NULL,
    bucket smallint GENERATED ALWAYS AS
        ((hashtextextended(original_transaction_id, 0) & 63)::smallint) STORED,
    -- The mass extension that failed for it.
    mass_extension_id uuid,
    extend_by_days integer NOT NULL,
    reason_code integer NOT NULL,
    note text,
    state text NOT NULL DEFAULT 'queued',
    requested_by text NOT NULL,
    requested_at timestamptz NOT NULL,
    called_at timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    may_be_applied boolean NOT NULL DEFAULT false,
    next_attempt_at timestamptz,
    lease_owner uuid,
    leased_until timestamptz,
    renewal_before timestamptz,
    -- The new renewal date, as the answer, a notification or a status told it.
    effective_at timestamptz,
    settled_at timestamptz,
    settled_by text,
    code text,
    detail text,
    CONSTRAINT extension_calls_pkey PRIMARY KEY (original_transaction_id, extension_id),
    CONSTRAINT extension_calls_original_transaction_id_fkey FOREIGN KEY (original_transaction_id)
        REFERENCES repricer.subscriptions (original_transaction_id),
    CONSTRAINT extension_calls_days CHECK (extend_by_days BETWEEN 1 AND 90),
    CONSTRAINT extension_calls_reason CHECK (reason_code BETWEEN 0 AND 3),
    CONSTRAINT extension_calls_state CHECK (
        state IN ('queued', 'sending', 'unknown', 'extended', 'refused', 'ineligible')),
    CONSTRAINT extension_calls_settled CHECK (
        (state IN ('extended', 'refused', 'ineligible')) = (settled_at IS NOT NULL)),
    CONSTRAINT extension_calls_settled_by CHECK (
        settled_by IN ('answer', 'notification', 'status', 'judgement'))
);
CREATE UNIQUE INDEX extension_calls_one_open ON repricer.extension_calls (original_transaction_id)
    WHERE state IN ('queued', 'sending', 'unknown');
CREATE INDEX extension_calls_due ON repricer.extension_calls (bucket, next_attempt_at NULLS FIRST)
    WHERE state IN ('queued', 'sending', 'unknown');
CREATE INDEX extension_calls_of_mass ON repricer.extension_calls (mass_extension_id);
CREATE INDEX extension_calls_id ON repricer.extension_calls (extension_id);

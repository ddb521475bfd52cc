-- Calls to the App Store. Each is a row before it is made: the intent, with the identifier that the call carries. One table
-- holds every kind, so that one index allows only one call in flight a subscription. The requests for extensions are here,
-- too. Their functions are in 0012, because they need the audit trail and the approval limits.
-- Locks: none on existing tables.
-- breaking: no

CREATE TABLE repricer.store_calls (
    bucket smallint NOT NULL,
    subject text NOT NULL,
    call_id uuid NOT NULL,
    kind text NOT NULL,
    carries uuid[] NOT NULL DEFAULT '{}',
    parents text[] NOT NULL DEFAULT '{}',
    -- What the call contains. A repetition sends the very same content.
    intent jsonb NOT NULL,
    state text NOT NULL DEFAULT 'sending',
    next_step text NOT NULL DEFAULT 'send',
    attempts integer NOT NULL DEFAULT 1,
    checks integer NOT NULL DEFAULT 0,
    -- The lease of the process that holds the call, in real time. Each takeover raises the fence; a process with an
    -- older fence writes nothing.
    fence bigint NOT NULL DEFAULT 1,
    lease_owner uuid NOT NULL,
    lease_until timestamptz NOT NULL,
    in_flight_until timestamptz NOT NULL,
    -- It is null while an attempt is out.
    next_attempt_at timestamptz,
    prepared_at timestamptz NOT NULL,
    settled_at timestamptz,
    http_status integer,
    error_code bigint,
    error_message text,
    -- The answer to the byte: packed as evidence is, and whole where it holds nothing signed.
    answer text COMPRESSION lz4,
    packed bytea COMPRESSION lz4,
    header_digests bytea,
    is_reopened boolean NOT NULL DEFAULT false,
    is_doubtful boolean NOT NULL DEFAULT false,
    reenabled_at timestamptz,
    CONSTRAINT store_calls_pkey PRIMARY KEY (subject, call_id, bucket),
    CONSTRAINT store_calls_bucket CHECK (bucket = repricer.bucket_of(subject)),
    CONSTRAINT store_calls_kind CHECK (kind IN ('price_change', 'cancel', 'extension', 'mass_extension')),
    CONSTRAINT store_calls_carry_something CHECK (kind = 'cancel' OR cardinality(carries) > 0),
    CONSTRAINT store_calls_next_step CHECK (next_step IN ('send', 'check')),
    CONSTRAINT store_calls_state CHECK (state IN ('sending', 'unknown', 'answered', 'refused')),
    CONSTRAINT store_calls_packed CHECK ((packed IS NULL) = (header_digests IS NULL)),
    CONSTRAINT store_calls_settled CHECK ((state IN ('answered', 'refused')) = (settled_at IS NOT NULL))
);
-- This index allows one call in flight a subscription, whatever its kind.
CREATE UNIQUE INDEX store_calls_one_in_flight ON repricer.store_calls (subject, bucket)
    WHERE state IN ('sending', 'unknown');
-- Open calls are found in the order of their leases. So a snapshot that is open for days, and keeps the entries of closed
-- calls alive, does not slow the search. The index above can't answer both questions, because the planner would read it from
-- end to end for each subscription.
CREATE INDEX store_calls_open ON repricer.store_calls (kind, lease_until) WHERE settled_at IS NULL;
-- Retention deletes the oldest first, a few at a time.
CREATE INDEX store_calls_settled ON repricer.store_calls (settled_at)
    WHERE kind IN ('price_change', 'extension') AND NOT is_doubtful AND settled_at IS NOT NULL;
COMMENT ON TABLE repricer.store_calls IS
    'Every call to the App Store that changes something: written before it is made, fenced by its lease, settled once.';
COMMENT ON COLUMN repricer.store_calls.subject IS
    'The original transaction id of the subscription that it changes; for a mass extension, product: and the product.';
COMMENT ON COLUMN repricer.store_calls.call_id IS
    'For a price change and a cancellation, the requestReferenceId that Apple is told.';
COMMENT ON COLUMN repricer.store_calls.carries IS
    'What waits for its outcome: price changes, or the request of an extension.';
COMMENT ON COLUMN repricer.store_calls.parents IS
    'For a cancellation: the subscriptions with the declined changes whose dependents it cancels.';
COMMENT ON COLUMN repricer.store_calls.in_flight_until IS
    'By the machine''s clock. After this instant no attempt of it can still be on its way.';
COMMENT ON COLUMN repricer.store_calls.is_reopened IS
    'A late statement disproved its outcome. Since then it is only checked, and never sent.';
COMMENT ON COLUMN repricer.store_calls.is_doubtful IS
    'Closed as not applied because no check showed it, although that is not certain.';
COMMENT ON COLUMN repricer.store_calls.reenabled_at IS
    'For a cancellation: when the customer was seen to have turned renewal on again. A later end is the customer''s own doing.';

-- Claims of one bucket are made one at a time. A claim that finds the row of a bucket locked goes on to another bucket,
-- because it would take longer to skip all rows that the other claim has locked. The lock is a row behind a grant, because
-- any login could take an advisory lock.
CREATE TABLE repricer.bucket_turns (
    bucket smallint NOT NULL,
    CONSTRAINT bucket_turns_pkey PRIMARY KEY (bucket)
);
INSERT INTO repricer.bucket_turns SELECT generate_series(0, 63);
COMMENT ON TABLE repricer.bucket_turns IS 'One row a bucket; a claim holds its lock until its transaction ends.';

-- Extend Subscription Renewal Dates for All Active Subscribers: one row a request. Functions of 0012 write it, and after the
-- approval the service does.
CREATE TABLE repricer.mass_extensions (
    -- The request identifier. The same identifier again is the same request.
    extension_id uuid NOT NULL,
    product_id text NOT NULL,
    -- Null stands for all storefronts.
    storefronts text[],
    extend_by_days integer NOT NULL,
    reason_code integer NOT NULL,
    note text,
    -- What the facts said when it was requested.
    eligible_count bigint NOT NULL,
    ineligible jsonb NOT NULL DEFAULT '{}',
    state text NOT NULL DEFAULT 'awaiting_approval',
    submitted_by text NOT NULL,
    submitted_at timestamptz NOT NULL,
    decided_by text,
    decided_at timestamptz,
    decision_reason text,
    -- When the first call was made, by the business clock.
    called_at timestamptz,
    -- Since when a database that was lost may have called it.
    doubtful_since timestamptz,
    -- When the call of an approved request is due, in real time.
    next_attempt_at timestamptz,
    code text,
    detail text,
    completed_at timestamptz,
    -- The counts of Get Status of Subscription Renewal Date Extensions.
    status_succeeded bigint,
    status_failed bigint,
    -- The counts of the SUMMARY.
    summary_evidence text,
    summary_succeeded bigint,
    summary_failed bigint,
    -- Kept apart from the approver, because an approved request may still be rejected before its call.
    rejected_by text,
    rejected_at timestamptz,
    CONSTRAINT mass_extensions_pkey PRIMARY KEY (extension_id),
    CONSTRAINT mass_extensions_days CHECK (extend_by_days BETWEEN 1 AND 90),
    CONSTRAINT mass_extensions_reason CHECK (reason_code BETWEEN 0 AND 3),
    CONSTRAINT mass_extensions_forecast CHECK (
        eligible_count >= 0 AND jsonb_typeof(ineligible) = 'object'
        AND NOT ineligible @? '$.* ? (@.type() != "number")'),
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
-- One at a time for a product, because nobody could tell to which of two an extended subscription belongs.
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
    'Append-only. Who approved a mass extension that exceeds their limits, as first_approvals says for batches.';

-- The requests of Extend a Subscription Renewal Date, one row each, whether made by themselves or as a retry.
CREATE TABLE repricer.extension_requests (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    -- The request identifier.
    extension_id uuid NOT NULL,
    -- The mass extension that failed for the subscription.
    mass_extension_id uuid,
    extend_by_days integer NOT NULL,
    reason_code integer NOT NULL,
    note text,
    state text NOT NULL DEFAULT 'queued',
    requested_by text NOT NULL,
    requested_at timestamptz NOT NULL,
    -- The call that carries it.
    call_id uuid,
    called_at timestamptz,
    -- Whether the call went to the Sandbox, where renewals come quickly. No page says how long a day of an extension is there.
    is_of_sandbox boolean NOT NULL DEFAULT false,
    -- Whether an earlier call may have been applied, although no check showed it or because a lost database may have made it.
    is_doubtful boolean NOT NULL DEFAULT false,
    next_attempt_at timestamptz,
    renewal_before timestamptz,
    -- The new renewal date that the answer, a notification or a status told.
    effective_at timestamptz,
    settled_at timestamptz,
    settled_by text,
    code text,
    detail text,
    -- The code with which it was refused before a halt put it back. If it is refused with that code again, it stays refused.
    put_back_for text,
    CONSTRAINT extension_requests_pkey PRIMARY KEY (original_transaction_id, extension_id, bucket),
    CONSTRAINT extension_requests_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id)),
    CONSTRAINT extension_requests_original_transaction_id_fkey FOREIGN KEY (original_transaction_id, bucket)
        REFERENCES repricer.subscriptions (original_transaction_id, bucket),
    CONSTRAINT extension_requests_days CHECK (extend_by_days BETWEEN 1 AND 90),
    CONSTRAINT extension_requests_reason CHECK (reason_code BETWEEN 0 AND 3),
    CONSTRAINT extension_requests_state CHECK (
        state IN ('queued', 'sending', 'unknown', 'extended', 'refused', 'ineligible')),
    CONSTRAINT extension_requests_settled CHECK (
        (state IN ('extended', 'refused', 'ineligible')) = (settled_at IS NOT NULL)),
    CONSTRAINT extension_requests_settled_by CHECK (
        settled_by IN ('answer', 'notification', 'status', 'judgement'))
);
CREATE UNIQUE INDEX extension_requests_one_open ON repricer.extension_requests (original_transaction_id, bucket)
    WHERE state IN ('queued', 'sending', 'unknown');
-- The second condition is always true, and only the query for what is due repeats it (see inbox_waiting).
CREATE INDEX extension_requests_due ON repricer.extension_requests (bucket, next_attempt_at NULLS FIRST)
    WHERE state = 'queued' AND requested_at > '-infinity';
CREATE INDEX extension_requests_of_mass ON repricer.extension_requests (mass_extension_id);
CREATE INDEX extension_requests_id ON repricer.extension_requests (extension_id);

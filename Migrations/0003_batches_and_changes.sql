-- What people ask for: a batch, its price changes, and the rows that were refused. Also the parts that items play as parents
-- and dependents, the history of each change, and what became of the dependents of declined changes.
-- Locks: none on existing tables.
-- breaking: no

CREATE TABLE repricer.batches (
    batch_id uuid NOT NULL,
    name text NOT NULL,
    undoes_batch_id uuid,
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
    -- How the batch is sent.
    grouping text NOT NULL DEFAULT 'announced',
    waves jsonb NOT NULL DEFAULT '[]',
    released_wave smallint NOT NULL DEFAULT 0,
    next_release_at timestamptz,
    holdout_basis_points integer NOT NULL DEFAULT 0,
    -- Who paused it. A guard rail, or a code of the App Store, pauses as the service's database user.
    is_paused boolean NOT NULL DEFAULT false,
    paused_by text,
    paused_at timestamptz,
    paused_reason text,
    -- What stops it without a person.
    guards jsonb NOT NULL DEFAULT '[]',
    guards_count_from timestamptz,
    -- Whether the guard of errors has seen enough answers. Until then claims are limited, so that a fault that all rows share
    -- shows after a few calls.
    is_sampled boolean NOT NULL DEFAULT false,
    -- These figures are kept, so that a status need not count a million rows again.
    guard_reading jsonb,
    halted_by text,
    -- A person paused the batch while it was halted. This pause holds however the halt ends, and what halted the batch, and
    -- why, stays recorded.
    also_paused_by text,
    also_paused_at timestamptz,
    also_paused_reason text,
    -- When (real time) the next call may probe whether a batch that a code has halted can go on.
    probe_at timestamptz,
    probe_answer text,
    -- A code about one storefront (4000134: the product has no price there) halts that storefront and no other.
    halted_storefronts jsonb NOT NULL DEFAULT '{}',
    is_parking boolean NOT NULL DEFAULT false,
    CONSTRAINT batches_pkey PRIMARY KEY (batch_id),
    -- A change refers to its batch together with its submitter.
    CONSTRAINT batches_submitter UNIQUE (batch_id, submitted_by),
    CONSTRAINT batches_name_size CHECK (length(name) BETWEEN 1 AND 200),
    CONSTRAINT batches_state
        CHECK (state IN ('submitting', 'awaiting_approval', 'approved', 'rejected', 'aborted')),
    CONSTRAINT batches_have_rows
        CHECK ((row_count > 0 OR state = 'submitting') AND rejected_row_count >= 0),
    -- The second pair of eyes: no function and no client can get past this constraint.
    CONSTRAINT batches_second_pair_of_eyes
        CHECK (state <> 'approved' OR decided_by <> submitted_by),
    CONSTRAINT batches_decision_is_signed
        CHECK (state NOT IN ('approved', 'rejected')
            OR (decided_by IS NOT NULL AND decided_at IS NOT NULL)),
    CONSTRAINT batches_grouping CHECK (grouping IN ('announced', 'item', 'subscription')),
    -- Programs must be able to read it: one malformed value would stop the work on every batch.
    CONSTRAINT batches_waves CHECK (jsonb_typeof(waves) = 'array' AND jsonb_array_length(waves) <= 100
        AND NOT waves @? 'strict $[*] ? (@.type() != "object")'
        AND NOT waves @? '$[*] ? (!(@.type() == "object" && @.label.type() == "string" && (
            @.release == "approval" || @.release == "hand" || @.release == "at" && @.at.type() == "string"
            || @.release == "after" && @.after_ms.type() == "number" && @.after_ms >= 0
                && @.after_ms <= 8640000000000 && @.after_ms.floor() == @.after_ms)))'),
    CONSTRAINT batches_released_wave CHECK (released_wave BETWEEN 0 AND jsonb_array_length(waves)),
    CONSTRAINT batches_holdout CHECK (holdout_basis_points BETWEEN 0 AND 5000),
    CONSTRAINT batches_guards CHECK (jsonb_typeof(guards) = 'array'
        AND NOT guards @? 'strict $[*] ? (@.type() != "object")'
        AND NOT guards @? '$[*] ? (!(@.type() == "object" && (@.guard == "errors" || @.guard == "declined"
            || @.guard == "auto_renew_off" || @.guard == "moved")
            && @.over.type() == "number" && @.over >= 0 && @.over <= 10000 && @.over.floor() == @.over
            && @.least.type() == "number" && @.least >= 1 && @.least <= 1000000000
            && @.least.floor() == @.least))'),
    CONSTRAINT batches_halted_is_paused CHECK (halted_by IS NULL OR is_paused),
    CONSTRAINT batches_probed_is_halted CHECK (probe_at IS NULL OR halted_by IS NOT NULL),
    -- A probe is a call that changes something, so a person's pause stops probes, too.
    CONSTRAINT batches_also_paused_is_halted
        CHECK (also_paused_by IS NULL OR (halted_by IS NOT NULL AND probe_at IS NULL)),
    CONSTRAINT batches_halted_storefronts CHECK (jsonb_typeof(halted_storefronts) = 'object')
);
-- The same file again is the same batch, unless the first was withdrawn.
CREATE UNIQUE INDEX batches_same_content ON repricer.batches (content_sha256)
    WHERE state IN ('awaiting_approval', 'approved');
CREATE INDEX batches_next_release ON repricer.batches (next_release_at) WHERE next_release_at IS NOT NULL;
-- Rows are stored while their batch is `submitting`. finish_submission counts them, adds the audit line and ends that state.
-- This trigger refuses to commit a batch in that state, so no other transaction sees it, and nobody can add rows later.
CREATE FUNCTION repricer.refuse_unfinished_submission() RETURNS trigger
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT FROM batches WHERE batch_id = NEW.batch_id AND state = 'submitting') THEN
        RAISE EXCEPTION 'the submission of batch % was not finished', NEW.batch_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN NULL;
END
$$;
CREATE CONSTRAINT TRIGGER batches_are_finished AFTER INSERT OR UPDATE ON repricer.batches
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN (NEW.state = 'submitting')
    EXECUTE FUNCTION repricer.refuse_unfinished_submission();
COMMENT ON COLUMN repricer.batches.undoes_batch_id IS 'The batch whose scheduled changes this one takes back.';
COMMENT ON COLUMN repricer.batches.grouping IS
    'Which items of a subscription share a call: announced (increases without consent share one, decreases one), '
    'item (none), subscription (all that can go).';
COMMENT ON COLUMN repricer.batches.waves IS
    'In order, each: label, release (approval, hand, at, after), at, after_ms, and released_at once it was released.';
COMMENT ON COLUMN repricer.batches.released_wave IS
    'Rows of a later wave are not sent. Without waves every row is of wave 0.';
COMMENT ON COLUMN repricer.batches.next_release_at IS
    'When the service releases the next wave. Null: a person releases it, or none is left.';
COMMENT ON COLUMN repricer.batches.holdout_basis_points IS
    'The share of subscriptions that is never sent, in hundredths of a percent. report.holdout compares them with the others. '
    '0: none.';
COMMENT ON COLUMN repricer.batches.guards IS
    'Each: guard (errors, declined, auto_renew_off, moved), over (hundredths of a percent), least (changes counted '
    'before it judges).';
COMMENT ON COLUMN repricer.batches.guards_count_from IS
    'When a person last resumed the halted batch. Guards count only changes sent since then.';
COMMENT ON COLUMN repricer.batches.is_sampled IS
    'Whether the guard of errors has seen, since guards_count_from, as many answers as it waits for, with errors within its '
    'limit.';
COMMENT ON COLUMN repricer.batches.guard_reading IS
    'What its guards last counted: figures (guard, count, of), at, counted_ms (by the machine''s clock), is_settled (nothing had '
    'to be held back and no call was out), is_last (no change of it was open any more). Null: nothing since a person resumed it.';
COMMENT ON COLUMN repricer.batches.halted_by IS
    'What paused it where no person did: a guard, or a code of the App Store.';
COMMENT ON COLUMN repricer.batches.also_paused_by IS
    'The person who paused it while it was halted. Only a person''s resume lets it go on, and no call probes.';
COMMENT ON COLUMN repricer.batches.probe_answer IS
    'What the latest probe was refused with, and for which subscription. Null: none was refused yet.';
COMMENT ON COLUMN repricer.batches.halted_storefronts IS
    'By storefront: by (the App Store''s code), reason, at, probe_at (real time), probe and subscription (the change that '
    'probes now), answer (of the latest probe). No other change of a halted storefront is sent until a probe is applied, or a '
    'person resumes the batch.';
COMMENT ON COLUMN repricer.batches.is_parking IS
    'Whether rows of its halted storefronts still have to be taken out of the queues.';

CREATE TABLE repricer.batch_versions (
    batch_id uuid NOT NULL,
    recorded_until timestamptz NOT NULL,
    state text NOT NULL,
    decided_by name,
    decided_at timestamptz,
    decision_reason text,
    is_paused boolean NOT NULL,
    paused_reason text,
    CONSTRAINT batch_versions_pkey PRIMARY KEY (batch_id, recorded_until)
);
COMMENT ON TABLE repricer.batch_versions IS
    'Append-only. What a batch was until recorded_until, when a decision or a halt replaced it.';

-- Stores what the batch is before a function changes it. The caller holds the row's lock.
CREATE FUNCTION repricer.keep_batch(p_batch_id uuid) RETURNS void
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
BEGIN
    INSERT INTO batch_versions
        SELECT batch_id, recording_instant(), state, decided_by, decided_at, decision_reason, is_paused, paused_reason
        FROM batches WHERE batch_id = p_batch_id
        -- It was replaced twice within a microsecond, and nobody saw what it was in between.
        ON CONFLICT DO NOTHING;
END
$$;

-- Rows of the file that never became a change. They are kept, so that no row disappears.
CREATE TABLE repricer.batch_rejects (
    batch_id uuid NOT NULL,
    line bigint NOT NULL,
    original_transaction_id text,
    sku text,
    code text NOT NULL,
    message text NOT NULL,
    CONSTRAINT batch_rejects_pkey PRIMARY KEY (batch_id, line),
    CONSTRAINT batch_rejects_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES repricer.batches (batch_id)
);

-- Answers of the consent rules that many rows of a batch share. They are stored once, and not in each row, which is
-- written again whenever it moves. The id is the beginning of the SHA-256 of the answers, so that pieces of a batch that
-- are planned at the same time give the same answers the same id.
CREATE TABLE repricer.batch_rule_answers (
    batch_id uuid NOT NULL,
    answers_id uuid NOT NULL,
    answers jsonb NOT NULL,
    CONSTRAINT batch_rule_answers_pkey PRIMARY KEY (batch_id, answers_id),
    CONSTRAINT batch_rule_answers_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES repricer.batches (batch_id)
);

-- Pages keep a fifth free, so that a new version of a row fits beside the old one, and no index gets an entry.
CREATE TABLE repricer.price_changes (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    change_id uuid NOT NULL,
    batch_id uuid NOT NULL,
    -- The database fills it in, and the key refuses a row in another person's batch.
    submitted_by text NOT NULL DEFAULT session_user,
    line bigint NOT NULL,
    wave smallint NOT NULL DEFAULT 0,
    is_held_out boolean NOT NULL DEFAULT false,
    undoes_change_id uuid,
    -- The item under the name that was submitted, and every other name that it had: in our call, since, and today. A
    -- fold from the beginning starts with the name in the call.
    sku text NOT NULL,
    current_sku text,
    called_sku text,
    former_skus text[],
    former_until timestamptz[],
    dependent_skus text[] NOT NULL DEFAULT '{}',
    current_dependent_skus text[],
    called_dependent_skus text[],
    -- What the change alters.
    direction text NOT NULL,
    currency text NOT NULL,
    storefront text NOT NULL,
    period text NOT NULL,
    current_price_milliunits bigint NOT NULL,
    new_price_milliunits bigint NOT NULL,
    expected_price_milliunits bigint,
    effective_on_or_after date,
    -- The forecast as it was approved. It is never rewritten.
    forecast_consent text NOT NULL,
    forecast_reasons text[] NOT NULL DEFAULT '{}',
    forecast_not_known text[] NOT NULL DEFAULT '{}',
    forecast_threshold_source text,
    -- Those answers of the rules, with their inputs, that contain an instant and so concern this row alone. The others are in
    -- batch_rule_answers. A foreign key to it would cost each row a search, and only store_changes writes both.
    forecast_rules jsonb NOT NULL DEFAULT '[]',
    forecast_answers_id uuid,
    forecast_renewal_at timestamptz,
    forecast_notice_at timestamptz,
    forecast_effective_at timestamptz NOT NULL,
    at_risk_milliunits bigint,
    at_risk_elsewhere jsonb,
    is_stale boolean NOT NULL DEFAULT false,
    -- Prices are for one seat. What is at risk is for all of them.
    forecast_seats bigint NOT NULL DEFAULT 1,
    -- The live plan, which moves when a renewal is missed.
    send_after timestamptz,
    send_by timestamptz NOT NULL,
    due_effective_at timestamptz NOT NULL,
    planned_effective_at timestamptz,
    -- Why due_effective_at is later than forecast_effective_at: the first reason before the call, and the first one after it.
    moved_before_call text,
    moved_since_call text,
    called_renewal_at timestamptz,
    is_ready boolean NOT NULL DEFAULT false,
    is_held boolean NOT NULL DEFAULT false,
    goes_alone boolean NOT NULL DEFAULT false,
    -- Why it waits by itself, longer each time: its call was refused while others succeed, and the refusal says nothing about
    -- the customer.
    parked_reason text,
    parks smallint NOT NULL DEFAULT 0,
    -- How often in a row its token was refused. From two on the next call goes without a token.
    stale_tokens smallint NOT NULL DEFAULT 0,
    next_attempt_at timestamptz,
    request_reference_id uuid,
    -- How far it has come.
    state text NOT NULL DEFAULT 'awaiting_approval',
    stage text NOT NULL
        GENERATED ALWAYS AS (CASE state WHEN 'sending' THEN 'queued' ELSE state END) STORED,
    state_since timestamptz NOT NULL,
    reason text,
    doubtful_since timestamptz,
    refused_at timestamptz,
    sent_at timestamptz,
    scheduled_at timestamptz,
    consent_asked_at timestamptz,
    accepted_at timestamptz,
    acceptance text,
    effective_at timestamptz,
    ended_at timestamptz,
    is_leaving boolean NOT NULL DEFAULT false,
    -- These two serve reports of the past.
    recorded_at timestamptz,
    claim_recorded_at timestamptz,
    CONSTRAINT price_changes_pkey PRIMARY KEY (original_transaction_id, change_id, bucket),
    CONSTRAINT price_changes_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id)),
    CONSTRAINT price_changes_batch_id_fkey FOREIGN KEY (batch_id, submitted_by)
        REFERENCES repricer.batches (batch_id, submitted_by),
    CONSTRAINT price_changes_undoes FOREIGN KEY (original_transaction_id, undoes_change_id, bucket)
        REFERENCES repricer.price_changes (original_transaction_id, change_id, bucket),
    CONSTRAINT price_changes_sku_size CHECK (length(sku) BETWEEN 1 AND 128),
    CONSTRAINT price_changes_current_sku_size CHECK (length(current_sku) BETWEEN 1 AND 128),
    -- At most a thousand billion of any currency, as for signed prices, so that no single odd row makes a sum of a report
    -- exceed 64 bits.
    CONSTRAINT price_changes_price CHECK (new_price_milliunits > 0 AND new_price_milliunits <= 1000000000000000
        AND current_price_milliunits BETWEEN 0 AND 1000000000000000
        AND at_risk_milliunits BETWEEN 0 AND 100000000000000000
        AND forecast_seats BETWEEN 1 AND 1000000),
    CONSTRAINT price_changes_direction CHECK (
        (direction = 'increase' AND new_price_milliunits > current_price_milliunits)
        OR (direction = 'decrease' AND new_price_milliunits < current_price_milliunits)),
    -- An undo that restores the price that is paid is no increase.
    CONSTRAINT price_changes_not_india CHECK (
        direction = 'decrease' OR storefront <> 'IND' OR undoes_change_id IS NOT NULL),
    CONSTRAINT price_changes_consent CHECK (
        CASE WHEN undoes_change_id IS NOT NULL OR direction = 'decrease' THEN forecast_consent = 'none'
            ELSE forecast_consent IN ('required', 'not_known', 'not_required') END),
    CONSTRAINT price_changes_not_its_own_dependent CHECK (sku <> ALL (dependent_skus)),
    CONSTRAINT price_changes_acceptance
        CHECK (acceptance IS NULL OR acceptance IN ('consented', 'informed')),
    CONSTRAINT price_changes_forecast CHECK (
        jsonb_typeof(forecast_rules) = 'array' AND jsonb_typeof(at_risk_elsewhere) = 'array'
        AND NOT at_risk_elsewhere @? '$[*] ? (!(@.milliunits.type() == "number" && @.milliunits >= 0
            && @.milliunits <= 100000000000000000 && @.milliunits.floor() == @.milliunits))'),
    -- No program reads an instant beyond its calendar, or infinity: one such row would hold up the claims of all.
    CONSTRAINT price_changes_instants CHECK (
        forecast_renewal_at BETWEEN '1970-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z'
        AND forecast_notice_at BETWEEN '1970-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z'
        AND forecast_effective_at BETWEEN '1970-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z'
        AND send_after BETWEEN '1970-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z'
        AND send_by BETWEEN '1970-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z'
        AND due_effective_at BETWEEN '1970-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z'
        AND effective_on_or_after BETWEEN '1970-01-01' AND '9999-12-31'),
    CONSTRAINT price_changes_effective
        CHECK (state <> 'effective' OR effective_at IS NOT NULL),
    CONSTRAINT price_changes_moved_by CHECK (
        moved_before_call IN ('billing_failure', 'late_call', 'extension', 'other')
        AND moved_since_call IN ('billing_failure', 'late_call', 'extension', 'other')),
    CONSTRAINT price_changes_sent_with_an_id CHECK (
        state NOT IN ('sending', 'unknown') OR request_reference_id IS NOT NULL),
    CONSTRAINT price_changes_state CHECK (state IN (
        'awaiting_approval', 'queued', 'sending', 'unknown', 'scheduled', 'pending_consent',
        'accepted', 'effective', 'declined', 'cancelled', 'lapsed', 'invalidated', 'rejected',
        'ineligible', 'missed', 'aborted'))
) WITH (fillfactor = 80);

-- A claim writes no index entry. Indexes know `stage` and not `state`: a claim moves the state of a row from queued to
-- sending, and its stage stays the same. Entries for the state were a quarter of all that delivery wrote.
CREATE INDEX price_changes_batch ON repricer.price_changes (batch_id, stage);
-- Submission and approval search a batch for dependents on other subscriptions. Few rows have dependents.
CREATE INDEX price_changes_with_dependents ON repricer.price_changes (batch_id) WHERE dependent_skus <> '{}';
-- The fold of a charge asks whether a change of its subscription was refused and put back. Few ever were.
CREATE INDEX price_changes_put_back ON repricer.price_changes (original_transaction_id) WHERE refused_at IS NOT NULL;
-- Claims go queue by queue (bucket, batch, wave), and take the earliest deadline first in each. So rows of a paused
-- batch or of a wave to come are never read, however many they are.
CREATE INDEX price_changes_due ON repricer.price_changes (bucket, batch_id, wave, send_by)
    WHERE stage = 'queued' AND is_ready AND NOT is_held;
-- Sleeping rows cost nothing until their instant comes.
CREATE INDEX price_changes_sleeping ON repricer.price_changes (send_after)
    WHERE stage = 'queued' AND NOT is_ready AND NOT is_held;
CREATE INDEX price_changes_held ON repricer.price_changes (batch_id, storefront)
    WHERE stage = 'queued' AND is_held;
-- Rows that wait by themselves after a refusal. They are few, and every status names them.
CREATE INDEX price_changes_refused ON repricer.price_changes (batch_id, parked_reason)
    WHERE stage IN ('queued', 'unknown') AND parked_reason IS NOT NULL;
-- Open changes by the renewal that they are due at, to find those that nothing was heard of. The home page counts what is due
-- by this index alone.
CREATE INDEX price_changes_heard_of ON repricer.price_changes (due_effective_at) INCLUDE (batch_id, stage, undoes_change_id)
    WHERE stage IN ('scheduled', 'pending_consent', 'accepted');
-- Calls that still have to leave. The home page counts them by this index alone. A claim changes neither column.
CREATE INDEX price_changes_to_call ON repricer.price_changes (batch_id, send_by)
    WHERE stage IN ('awaiting_approval', 'queued') AND NOT is_held_out;
CREATE INDEX price_changes_announced ON repricer.price_changes (forecast_notice_at)
    WHERE stage = 'scheduled' AND forecast_notice_at IS NOT NULL;
-- One open change an item, whatever its name is today: this refuses what plan calls conflict_open_change. It also refuses a
-- second row for one line of the file. A change that is being undone stays open beside its undo until Apple has accepted the
-- undo.
CREATE UNIQUE INDEX price_changes_one_open
    ON repricer.price_changes (original_transaction_id, coalesce(current_sku, sku), bucket)
    WHERE stage IN ('awaiting_approval', 'queued', 'unknown', 'scheduled', 'pending_consent', 'accepted')
        AND undoes_change_id IS NULL;
-- Once Apple has accepted an undo, only its proof by the next charge is missing, so a new change may follow.
CREATE UNIQUE INDEX price_changes_one_undo
    ON repricer.price_changes (original_transaction_id, undoes_change_id, bucket)
    WHERE undoes_change_id IS NOT NULL AND stage IN ('awaiting_approval', 'queued', 'unknown');

COMMENT ON COLUMN repricer.price_changes.is_held_out IS
    'Never sent, so that its customer can be compared with those who were sent a change. The approval ends it as aborted.';
COMMENT ON COLUMN repricer.price_changes.undoes_change_id IS
    'The change that this one takes back: current_price_milliunits is then the price that was scheduled. Only '
    'undo_batch writes it.';
COMMENT ON COLUMN repricer.price_changes.current_sku IS
    'The item''s name today, where it was renamed after submission; sku stays the submitted one.';
COMMENT ON COLUMN repricer.price_changes.called_sku IS
    'The item''s name in our last call, where it was renamed between submission and call.';
COMMENT ON COLUMN repricer.price_changes.former_skus IS
    'Names that the item had since our call and lost again; a charge may bear any of them.';
COMMENT ON COLUMN repricer.price_changes.former_until IS
    'When the first period began that was charged under a newer name, for each of former_skus: from then on that name is another '
    'item''s. Null: not yet.';
COMMENT ON COLUMN repricer.price_changes.current_dependent_skus IS
    'The dependents'' names today, where one was renamed after submission.';
COMMENT ON COLUMN repricer.price_changes.called_dependent_skus IS
    'The dependents'' names in our last call, where one was renamed between submission and call.';
COMMENT ON COLUMN repricer.price_changes.forecast_not_known IS
    'The rules that leave open whether the subscriber must consent.';
COMMENT ON COLUMN repricer.price_changes.at_risk_milliunits IS
    'What a period loses when the customer does not consent: the item and its dependents, as charged at submission. Null '
    'for a decrease.';
COMMENT ON COLUMN repricer.price_changes.at_risk_elsewhere IS
    'Dependents in another currency or period, each: currency, storefront, period, milliunits. Null: none.';
COMMENT ON COLUMN repricer.price_changes.is_stale IS
    'Whether it was planned on facts older than a known renewal.';
COMMENT ON COLUMN repricer.price_changes.forecast_seats IS
    'How many seats the period that ran at submission was charged for. Prices are for one seat.';
COMMENT ON COLUMN repricer.price_changes.planned_effective_at IS
    'The renewal that was due at the call, where an offer or an extension has moved due_effective_at since.';
COMMENT ON COLUMN repricer.price_changes.moved_before_call IS
    'What first moved it to a later renewal before its call left: billing_failure, late_call, extension, other. Null: '
    'nothing did.';
COMMENT ON COLUMN repricer.price_changes.moved_since_call IS
    'Like moved_before_call, but since the call left. It follows from statements, so a fold from the beginning sets it again.';
COMMENT ON COLUMN repricer.price_changes.called_renewal_at IS
    'The renewal date that was known at the last call. If an extension of that date is told later, it moves the change, even '
    'where it happened before the call.';
COMMENT ON COLUMN repricer.price_changes.is_held IS
    'Taken out of the queues, because its storefront is halted in its batch. A change that was put back since then may lack '
    'the mark.';
COMMENT ON COLUMN repricer.price_changes.stage IS
    'The state as indexes know it: a change whose call is out is still queued here, so that a claim writes no index entry.';
COMMENT ON COLUMN repricer.price_changes.refused_at IS
    'When the first of its calls left that were refused, if the change was put back since. A later renewal above the old price '
    'is examined, although no call is known to have been applied.';
COMMENT ON COLUMN repricer.price_changes.doubtful_since IS
    'Since when the App Store may have its price without our knowledge: the first call that was abandoned with an unknown '
    'outcome, a call that a lost database may have made, or the instant at which a person closed the change.';

COMMENT ON COLUMN repricer.price_changes.is_leaving IS
    'It took effect, and its item is not set to renew any more: no further period is charged.';
COMMENT ON COLUMN repricer.price_changes.recorded_at IS
    'When what stands here was recorded. Null: since its submission only the approval and a claim have changed it.';
COMMENT ON COLUMN repricer.price_changes.claim_recorded_at IS 'When its latest claim was recorded. Null: it had none.';

-- Former versions of changes, for reports of the past: the columns that reports read and that change. The SQL statement that
-- replaces a version writes it here. Three versions are not kept, because nearly every change has them and they can be
-- derived: waiting for approval; queued and never called; and called, where the answer scheduled the change and altered
-- nothing else. The approval of the batch, and claim_recorded_at and recorded_at of the next version, say when these ended.
CREATE TABLE repricer.price_change_versions (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    change_id uuid NOT NULL,
    recorded_at timestamptz,
    recorded_until timestamptz NOT NULL,
    claim_recorded_at timestamptz,
    current_sku text,
    former_skus text[],
    former_until timestamptz[],
    current_dependent_skus text[],
    send_after timestamptz,
    send_by timestamptz NOT NULL,
    due_effective_at timestamptz NOT NULL,
    planned_effective_at timestamptz,
    moved_before_call text,
    moved_since_call text,
    request_reference_id uuid,
    state text NOT NULL,
    state_since timestamptz NOT NULL,
    reason text,
    doubtful_since timestamptz,
    refused_at timestamptz,
    sent_at timestamptz,
    scheduled_at timestamptz,
    consent_asked_at timestamptz,
    accepted_at timestamptz,
    acceptance text,
    effective_at timestamptz,
    ended_at timestamptz,
    is_leaving boolean NOT NULL,
    CONSTRAINT price_change_versions_pkey PRIMARY KEY (original_transaction_id, change_id, recorded_until, bucket),
    CONSTRAINT price_change_versions_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id))
) PARTITION BY RANGE (recorded_until);
CREATE TABLE repricer.price_change_versions_default PARTITION OF repricer.price_change_versions DEFAULT;
COMMENT ON TABLE repricer.price_change_versions IS
    'Append-only. What a price change was until recorded_until, when something newer replaced it.';

-- Marks: the subscriptions with a new fact that may alter the figures which are kept for reports.
CREATE TABLE repricer.stale_figures (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    CONSTRAINT stale_figures_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id))
);
CREATE INDEX stale_figures_subscription ON repricer.stale_figures (original_transaction_id);
COMMENT ON TABLE repricer.stale_figures IS
    'Subscriptions whose kept figures are to be computed anew. One row a writer, so that nobody waits for another one''s mark.';

-- Every function calls this before it alters changes. It keeps their present versions, marks their subscriptions, and returns
-- the instant for their new recorded_at. The caller holds the locks of the subscriptions or of the rows.
CREATE FUNCTION repricer.keep_changes(p_ids text[], p_change_ids uuid[]) RETURNS timestamptz
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
DECLARE
    v_at timestamptz := recording_instant();
BEGIN
    INSERT INTO price_change_versions (original_transaction_id, bucket, change_id, recorded_at, recorded_until,
            claim_recorded_at, current_sku, former_skus, former_until, current_dependent_skus, send_after, send_by, due_effective_at,
            planned_effective_at, moved_before_call, moved_since_call, request_reference_id, state, state_since, reason,
            doubtful_since, refused_at, sent_at, scheduled_at, consent_asked_at, accepted_at, acceptance, effective_at, ended_at,
            is_leaving)
        SELECT c.original_transaction_id, c.bucket, c.change_id, c.recorded_at, v_at,
            c.claim_recorded_at, c.current_sku, c.former_skus, c.former_until, c.current_dependent_skus, c.send_after, c.send_by, c.due_effective_at,
            c.planned_effective_at, c.moved_before_call, c.moved_since_call, c.request_reference_id, c.state, c.state_since, c.reason,
            c.doubtful_since, c.refused_at, c.sent_at, c.scheduled_at, c.consent_asked_at, c.accepted_at, c.acceptance, c.effective_at, c.ended_at,
            c.is_leaving
        FROM unnest(p_ids, p_change_ids) AS t (id, change_id)
        JOIN price_changes c ON c.original_transaction_id = t.id AND c.change_id = t.change_id
            AND c.bucket = bucket_of(t.id)
        ON CONFLICT DO NOTHING;
    INSERT INTO stale_figures SELECT DISTINCT id, bucket_of(id) FROM unnest(p_ids) AS id;
    RETURN v_at;
END
$$;

-- Each SKU of a subscription plays one part among the open changes: parent or dependent. This one key refuses a
-- dependent of itself, a shared one and a chain, over all batches. The rows of a change are deleted when it ends.
CREATE TABLE repricer.dependency_roles (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    sku text NOT NULL,
    role text NOT NULL,
    change_id uuid NOT NULL,
    CONSTRAINT dependency_roles_one_part PRIMARY KEY (original_transaction_id, sku, bucket),
    CONSTRAINT dependency_roles_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id)),
    CONSTRAINT dependency_roles_role CHECK (role IN ('parent', 'dependent')),
    CONSTRAINT dependency_roles_change FOREIGN KEY (original_transaction_id, change_id, bucket)
        REFERENCES repricer.price_changes (original_transaction_id, change_id, bucket)
);
CREATE INDEX dependency_roles_change ON repricer.dependency_roles (original_transaction_id, change_id);

-- dependency_roles is kept by subscription, so its key can't see a dependent that lives on another subscription of the
-- customer. The claim of such a dependent stands under the subscription that carries it, whether the row named it as
-- SUBSCRIPTION/SKU or by its SKU alone. So plan and approval see who else names it, and what dependents it has itself.
CREATE TABLE repricer.dependent_claims (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    sku text NOT NULL,
    claimed_by text NOT NULL,
    change_id uuid NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT repricer.recording_instant(),
    period text,
    CONSTRAINT dependent_claims_pkey PRIMARY KEY (original_transaction_id, sku, claimed_by, change_id, bucket),
    CONSTRAINT dependent_claims_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id))
);
CREATE INDEX dependent_claims_by ON repricer.dependent_claims (claimed_by, change_id);
COMMENT ON TABLE repricer.dependent_claims IS
    'Items that a change names as dependents and that another subscription of the customer carries. A claim counts while its '
    'change is open.';
COMMENT ON COLUMN repricer.dependent_claims.original_transaction_id IS 'The subscription that carries the item.';
COMMENT ON COLUMN repricer.dependent_claims.claimed_by IS 'The subscription of the change that names it.';
COMMENT ON COLUMN repricer.dependent_claims.period IS
    'How long the periods of the carrying subscription are from its next renewal on, as the claim found it; null: not known.';

-- The history of each change: append-only, by month. The evidence makes a line unique, so that a repeated fold adds
-- none. A history begins with the approval, because the batch says once for all its changes when and by whom they were
-- submitted.
CREATE TABLE repricer.price_change_history (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    change_id uuid NOT NULL,
    occurred_at timestamptz NOT NULL,
    state text NOT NULL,
    evidence_kind text NOT NULL,
    evidence_id text NOT NULL,
    reason text,
    actor name NOT NULL DEFAULT session_user,
    recorded_at timestamptz NOT NULL DEFAULT repricer.recording_instant(),
    CONSTRAINT price_change_history_pkey
        PRIMARY KEY (original_transaction_id, change_id, occurred_at, state, evidence_id, bucket),
    CONSTRAINT price_change_history_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id))
) PARTITION BY RANGE (occurred_at);
-- The default partition takes rows of months that have none of their own; prepare_months moves them once the month has one.
CREATE TABLE repricer.price_change_history_default PARTITION OF repricer.price_change_history DEFAULT;

-- What became of each dependent of a declined increase. The App Store drops one of the same subscription by itself;
-- one on another subscription of the customer is cancelled by a call of ours.
CREATE TABLE repricer.dependent_cancellations (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    change_id uuid NOT NULL,
    dependent_sku text NOT NULL,
    parent_sku text NOT NULL,
    batch_id uuid NOT NULL,
    cause text NOT NULL,
    is_cross_subscription boolean NOT NULL DEFAULT false,
    target_transaction_id text,
    target_period text,
    cancel_reference_id uuid,
    state text NOT NULL DEFAULT 'requested',
    price_milliunits bigint,
    currency text,
    requested_at timestamptz NOT NULL,
    requested_by_evidence text NOT NULL,
    settled_at timestamptz,
    settled_by_evidence text,
    detail text,
    next_check_at timestamptz,
    checks integer NOT NULL DEFAULT 0,
    -- The code with which its call was refused before a halt put it back. If it is refused with that code again, it stays a
    -- discrepancy.
    put_back_for text,
    recorded_at timestamptz NOT NULL DEFAULT repricer.recording_instant(),
    CONSTRAINT dependent_cancellations_pkey
        PRIMARY KEY (original_transaction_id, change_id, dependent_sku, bucket),
    CONSTRAINT dependent_cancellations_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id)),
    CONSTRAINT dependent_cancellations_change FOREIGN KEY (original_transaction_id, change_id, bucket)
        REFERENCES repricer.price_changes (original_transaction_id, change_id, bucket),
    CONSTRAINT dependent_cancellations_state
        CHECK (state IN ('requested', 'confirmed', 'cancel_sent', 'discrepancy', 'not_needed')),
    CONSTRAINT dependent_cancellations_proof
        CHECK (state <> 'confirmed' OR settled_by_evidence IS NOT NULL)
);
-- The second condition is always true, and only the query for what is due repeats it (see inbox_waiting).
CREATE INDEX dependent_cancellations_open ON repricer.dependent_cancellations (bucket, requested_at)
    WHERE state = 'requested' AND requested_at > '-infinity';
CREATE INDEX dependent_cancellations_falling ON repricer.dependent_cancellations (target_transaction_id)
    WHERE state = 'requested' AND is_cross_subscription;
-- Whether a call is held back, or ends, depends on all its parents, which are in other buckets.
CREATE INDEX dependent_cancellations_sent ON repricer.dependent_cancellations (cancel_reference_id)
    WHERE state IN ('cancel_sent', 'discrepancy') AND settled_at IS NULL AND cancel_reference_id IS NOT NULL;
COMMENT ON COLUMN repricer.dependent_cancellations.is_cross_subscription IS
    'Whether the item is on another subscription of the customer. The App Store does not drop it, so Cancel a Subscription is '
    'called.';
COMMENT ON COLUMN repricer.dependent_cancellations.recorded_at IS
    'When it was recorded as it stands here. What was known before is in dependent_cancellation_versions.';
COMMENT ON COLUMN repricer.dependent_cancellations.target_transaction_id IS
    'The subscription that carries the item, once it is found.';
COMMENT ON COLUMN repricer.dependent_cancellations.target_period IS
    'The period that the carrying subscription had when it was found; price_milliunits is for that period. Events about the '
    'dependent name it, and that subscription may be in another bucket.';
COMMENT ON COLUMN repricer.dependent_cancellations.cancel_reference_id IS
    'The requestReferenceId of the call that cancels it.';

-- The SQL statement that replaces a cancellation writes its former version here. Nearly no cancellation has more than two, so
-- the whole row is kept.
CREATE TABLE repricer.dependent_cancellation_versions (
    LIKE repricer.dependent_cancellations,
    recorded_until timestamptz NOT NULL,
    CONSTRAINT dependent_cancellation_versions_pkey
        PRIMARY KEY (original_transaction_id, change_id, dependent_sku, recorded_until, bucket),
    CONSTRAINT dependent_cancellation_versions_bucket CHECK (bucket = repricer.bucket_of(original_transaction_id))
) PARTITION BY RANGE (recorded_until);
CREATE TABLE repricer.dependent_cancellation_versions_default PARTITION OF repricer.dependent_cancellation_versions DEFAULT;
COMMENT ON TABLE repricer.dependent_cancellation_versions IS
    'Append-only. What a dependent''s cancellation was, from recorded_at until recorded_until.';

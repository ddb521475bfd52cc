
CREATE SCHEMA report;

COMMENT ON SCHEMA report IS 'Views that finance may rely on: names and types are a contract.';

CREATE SCHEMA repricer;

COMMENT ON SCHEMA repricer IS 'The product''s tables. Programs only; finance reads schema report.';

CREATE TABLE repricer.app_binding (
    one_row boolean DEFAULT true NOT NULL,
    bundle_id text NOT NULL,
    environment text NOT NULL,
    bound_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    bound_by text DEFAULT SESSION_USER NOT NULL,
    CONSTRAINT app_binding_one_row CHECK (one_row),
    CONSTRAINT app_binding_size CHECK ((((length(bundle_id) >= 1) AND (length(bundle_id) <= 155)) AND ((length(environment) >= 1) AND (length(environment) <= 20))))
);

CREATE FUNCTION report.app() RETURNS TABLE(bundle_id text, environment text)
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    BEGIN ATOMIC
 SELECT a.bundle_id,
     a.environment
    FROM repricer.app_binding a;
END;

COMMENT ON FUNCTION report.app() IS 'The app and the environment that this database is about.';

CREATE FUNCTION report.as_of() RETURNS timestamp with time zone
    LANGUAGE sql STABLE PARALLEL SAFE
    RETURN COALESCE((NULLIF(current_setting('repricer.as_of'::text, true), ''::text))::timestamp with time zone, now());

COMMENT ON FUNCTION report.as_of() IS 'The instant that lateness is judged at: the setting repricer.as_of, else the server''s clock.';

CREATE FUNCTION repricer.bucket_of(original_transaction_id text) RETURNS smallint
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    RETURN ((hashtextextended(original_transaction_id, (0)::bigint) & (63)::bigint))::smallint;

CREATE TABLE repricer.batch_rejects (
    batch_id uuid NOT NULL,
    line bigint NOT NULL,
    original_transaction_id text,
    sku text,
    code text NOT NULL,
    message text NOT NULL
);

CREATE TABLE repricer.batches (
    batch_id uuid NOT NULL,
    name text NOT NULL,
    undoes_batch_id uuid,
    state text DEFAULT 'awaiting_approval'::text NOT NULL,
    content_sha256 text NOT NULL,
    plan_hash text NOT NULL,
    planned_as_of timestamp with time zone NOT NULL,
    row_count bigint NOT NULL,
    rejected_row_count bigint DEFAULT 0 NOT NULL,
    submitted_by name DEFAULT SESSION_USER NOT NULL,
    submitted_at timestamp with time zone NOT NULL,
    decided_by name,
    decided_at timestamp with time zone,
    decision_reason text,
    "grouping" text DEFAULT 'announced'::text NOT NULL,
    waves jsonb DEFAULT '[]'::jsonb NOT NULL,
    released_wave smallint DEFAULT 0 NOT NULL,
    next_release_at timestamp with time zone,
    holdout_basis_points integer DEFAULT 0 NOT NULL,
    is_paused boolean DEFAULT false NOT NULL,
    paused_by text,
    paused_at timestamp with time zone,
    paused_reason text,
    guards jsonb DEFAULT '[]'::jsonb NOT NULL,
    guards_count_from timestamp with time zone,
    is_sampled boolean DEFAULT false NOT NULL,
    guard_reading jsonb,
    halted_by text,
    also_paused_by text,
    also_paused_at timestamp with time zone,
    also_paused_reason text,
    probe_at timestamp with time zone,
    probe_answer text,
    halted_storefronts jsonb DEFAULT '{}'::jsonb NOT NULL,
    is_parking boolean DEFAULT false NOT NULL,
    CONSTRAINT batches_also_paused_is_halted CHECK (((also_paused_by IS NULL) OR ((halted_by IS NOT NULL) AND (probe_at IS NULL)))),
    CONSTRAINT batches_decision_is_signed CHECK (((state <> ALL (ARRAY['approved'::text, 'rejected'::text])) OR ((decided_by IS NOT NULL) AND (decided_at IS NOT NULL)))),
    CONSTRAINT batches_grouping CHECK (("grouping" = ANY (ARRAY['announced'::text, 'item'::text, 'subscription'::text]))),
    CONSTRAINT batches_guards CHECK (((jsonb_typeof(guards) = 'array'::text) AND (NOT (guards @? 'strict $[*]?(@.type() != "object")'::jsonpath)) AND (NOT (guards @? '$[*]?(!(((((((((@.type() == "object" && (((@."guard" == "errors" || @."guard" == "declined") || @."guard" == "auto_renew_off") || @."guard" == "moved")) && @."over".type() == "number") && @."over" >= 0) && @."over" <= 10000) && @."over".floor() == @."over") && @."least".type() == "number") && @."least" >= 1) && @."least" <= 1000000000) && @."least".floor() == @."least"))'::jsonpath)))),
    CONSTRAINT batches_halted_is_paused CHECK (((halted_by IS NULL) OR is_paused)),
    CONSTRAINT batches_halted_storefronts CHECK ((jsonb_typeof(halted_storefronts) = 'object'::text)),
    CONSTRAINT batches_have_rows CHECK ((((row_count > 0) OR (state = 'submitting'::text)) AND (rejected_row_count >= 0))),
    CONSTRAINT batches_holdout CHECK (((holdout_basis_points >= 0) AND (holdout_basis_points <= 5000))),
    CONSTRAINT batches_name_size CHECK (((length(name) >= 1) AND (length(name) <= 200))),
    CONSTRAINT batches_probed_is_halted CHECK (((probe_at IS NULL) OR (halted_by IS NOT NULL))),
    CONSTRAINT batches_released_wave CHECK (((released_wave >= 0) AND (released_wave <= jsonb_array_length(waves)))),
    CONSTRAINT batches_second_pair_of_eyes CHECK (((state <> 'approved'::text) OR (decided_by <> submitted_by))),
    CONSTRAINT batches_state CHECK ((state = ANY (ARRAY['submitting'::text, 'awaiting_approval'::text, 'approved'::text, 'rejected'::text, 'aborted'::text]))),
    CONSTRAINT batches_waves CHECK (((jsonb_typeof(waves) = 'array'::text) AND (jsonb_array_length(waves) <= 100) AND (NOT (waves @? 'strict $[*]?(@.type() != "object")'::jsonpath)) AND (NOT (waves @? '$[*]?(!((@.type() == "object" && @."label".type() == "string") && (((@."release" == "approval" || @."release" == "hand") || @."release" == "at" && @."at".type() == "string") || (((@."release" == "after" && @."after_ms".type() == "number") && @."after_ms" >= 0) && @."after_ms" <= 8640000000000) && @."after_ms".floor() == @."after_ms")))'::jsonpath))))
);

COMMENT ON COLUMN repricer.batches.undoes_batch_id IS 'The batch whose scheduled changes this one takes back.';

COMMENT ON COLUMN repricer.batches."grouping" IS 'Which items of a subscription share a call: announced (increases without consent share one, decreases one), item (none), subscription (all that can go).';

COMMENT ON COLUMN repricer.batches.waves IS 'In order, each: label, release (approval, hand, at, after), at, after_ms, and released_at once it was released.';

COMMENT ON COLUMN repricer.batches.released_wave IS 'Rows of a later wave are not sent. Without waves every row is of wave 0.';

COMMENT ON COLUMN repricer.batches.next_release_at IS 'When the service releases the next wave. Null: a person releases it, or none is left.';

COMMENT ON COLUMN repricer.batches.holdout_basis_points IS 'The share of subscriptions that is never sent, in hundredths of a percent. report.holdout compares them with the others. 0: none.';

COMMENT ON COLUMN repricer.batches.guards IS 'Each: guard (errors, declined, auto_renew_off, moved), over (hundredths of a percent), least (changes counted before it judges).';

COMMENT ON COLUMN repricer.batches.guards_count_from IS 'When a person last resumed the halted batch. Guards count only changes sent since then.';

COMMENT ON COLUMN repricer.batches.is_sampled IS 'Whether the guard of errors has seen, since guards_count_from, as many answers as it waits for, with errors within its limit.';

COMMENT ON COLUMN repricer.batches.guard_reading IS 'What its guards last counted: figures (guard, count, of), at, counted_ms (by the machine''s clock), is_settled (nothing had to be held back and no call was out), is_last (no change of it was open any more). Null: nothing since a person resumed it.';

COMMENT ON COLUMN repricer.batches.halted_by IS 'What paused it where no person did: a guard, or a code of the App Store.';

COMMENT ON COLUMN repricer.batches.also_paused_by IS 'The person who paused it while it was halted. Only a person''s resume lets it go on, and no call probes.';

COMMENT ON COLUMN repricer.batches.probe_answer IS 'What the latest probe was refused with, and for which subscription. Null: none was refused yet.';

COMMENT ON COLUMN repricer.batches.halted_storefronts IS 'By storefront: by (the App Store''s code), reason, at, probe_at (real time), probe and subscription (the change that probes now), answer (of the latest probe). No other change of a halted storefront is sent until a probe is applied, or a person resumes the batch.';

COMMENT ON COLUMN repricer.batches.is_parking IS 'Whether rows of its halted storefronts still have to be taken out of the queues.';

CREATE TABLE repricer.price_changes (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    change_id uuid NOT NULL,
    batch_id uuid NOT NULL,
    submitted_by text DEFAULT SESSION_USER NOT NULL,
    line bigint NOT NULL,
    wave smallint DEFAULT 0 NOT NULL,
    is_held_out boolean DEFAULT false NOT NULL,
    undoes_change_id uuid,
    sku text NOT NULL,
    current_sku text,
    called_sku text,
    former_skus text[],
    former_until timestamp with time zone[],
    dependent_skus text[] DEFAULT '{}'::text[] NOT NULL,
    current_dependent_skus text[],
    called_dependent_skus text[],
    direction text NOT NULL,
    currency text NOT NULL,
    storefront text NOT NULL,
    period text NOT NULL,
    current_price_milliunits bigint NOT NULL,
    new_price_milliunits bigint NOT NULL,
    expected_price_milliunits bigint,
    effective_on_or_after date,
    forecast_consent text NOT NULL,
    forecast_reasons text[] DEFAULT '{}'::text[] NOT NULL,
    forecast_not_known text[] DEFAULT '{}'::text[] NOT NULL,
    forecast_threshold_source text,
    forecast_rules jsonb DEFAULT '[]'::jsonb NOT NULL,
    forecast_answers_id uuid,
    forecast_renewal_at timestamp with time zone,
    forecast_notice_at timestamp with time zone,
    forecast_effective_at timestamp with time zone NOT NULL,
    at_risk_milliunits bigint,
    at_risk_elsewhere jsonb,
    is_stale boolean DEFAULT false NOT NULL,
    forecast_seats bigint DEFAULT 1 NOT NULL,
    send_after timestamp with time zone,
    send_by timestamp with time zone NOT NULL,
    due_effective_at timestamp with time zone NOT NULL,
    planned_effective_at timestamp with time zone,
    moved_before_call text,
    moved_since_call text,
    called_renewal_at timestamp with time zone,
    is_ready boolean DEFAULT false NOT NULL,
    is_held boolean DEFAULT false NOT NULL,
    goes_alone boolean DEFAULT false NOT NULL,
    parked_reason text,
    parks smallint DEFAULT 0 NOT NULL,
    stale_tokens smallint DEFAULT 0 NOT NULL,
    next_attempt_at timestamp with time zone,
    request_reference_id uuid,
    state text DEFAULT 'awaiting_approval'::text NOT NULL,
    stage text GENERATED ALWAYS AS (
CASE state
    WHEN 'sending'::text THEN 'queued'::text
    ELSE state
END) STORED NOT NULL,
    state_since timestamp with time zone NOT NULL,
    reason text,
    doubtful_since timestamp with time zone,
    refused_at timestamp with time zone,
    sent_at timestamp with time zone,
    scheduled_at timestamp with time zone,
    consent_asked_at timestamp with time zone,
    accepted_at timestamp with time zone,
    acceptance text,
    effective_at timestamp with time zone,
    ended_at timestamp with time zone,
    is_leaving boolean DEFAULT false NOT NULL,
    recorded_at timestamp with time zone,
    claim_recorded_at timestamp with time zone,
    CONSTRAINT price_changes_acceptance CHECK (((acceptance IS NULL) OR (acceptance = ANY (ARRAY['consented'::text, 'informed'::text])))),
    CONSTRAINT price_changes_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id))),
    CONSTRAINT price_changes_consent CHECK (
CASE
    WHEN ((undoes_change_id IS NOT NULL) OR (direction = 'decrease'::text)) THEN (forecast_consent = 'none'::text)
    ELSE (forecast_consent = ANY (ARRAY['required'::text, 'not_known'::text, 'not_required'::text]))
END),
    CONSTRAINT price_changes_current_sku_size CHECK (((length(current_sku) >= 1) AND (length(current_sku) <= 128))),
    CONSTRAINT price_changes_direction CHECK ((((direction = 'increase'::text) AND (new_price_milliunits > current_price_milliunits)) OR ((direction = 'decrease'::text) AND (new_price_milliunits < current_price_milliunits)))),
    CONSTRAINT price_changes_effective CHECK (((state <> 'effective'::text) OR (effective_at IS NOT NULL))),
    CONSTRAINT price_changes_forecast CHECK (((jsonb_typeof(forecast_rules) = 'array'::text) AND (jsonb_typeof(at_risk_elsewhere) = 'array'::text) AND (NOT (at_risk_elsewhere @? '$[*]?(!(((@."milliunits".type() == "number" && @."milliunits" >= 0) && @."milliunits" <= 100000000000000000) && @."milliunits".floor() == @."milliunits"))'::jsonpath)))),
    CONSTRAINT price_changes_instants CHECK ((((forecast_renewal_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (forecast_renewal_at <= '9999-12-31 00:00:00+00'::timestamp with time zone)) AND ((forecast_notice_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (forecast_notice_at <= '9999-12-31 00:00:00+00'::timestamp with time zone)) AND ((forecast_effective_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (forecast_effective_at <= '9999-12-31 00:00:00+00'::timestamp with time zone)) AND ((send_after >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (send_after <= '9999-12-31 00:00:00+00'::timestamp with time zone)) AND ((send_by >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (send_by <= '9999-12-31 00:00:00+00'::timestamp with time zone)) AND ((due_effective_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (due_effective_at <= '9999-12-31 00:00:00+00'::timestamp with time zone)) AND ((effective_on_or_after >= '1970-01-01'::date) AND (effective_on_or_after <= '9999-12-31'::date)))),
    CONSTRAINT price_changes_moved_by CHECK (((moved_before_call = ANY (ARRAY['billing_failure'::text, 'late_call'::text, 'extension'::text, 'other'::text])) AND (moved_since_call = ANY (ARRAY['billing_failure'::text, 'late_call'::text, 'extension'::text, 'other'::text])))),
    CONSTRAINT price_changes_not_india CHECK (((direction = 'decrease'::text) OR (storefront <> 'IND'::text) OR (undoes_change_id IS NOT NULL))),
    CONSTRAINT price_changes_not_its_own_dependent CHECK ((sku <> ALL (dependent_skus))),
    CONSTRAINT price_changes_price CHECK (((new_price_milliunits > 0) AND (new_price_milliunits <= '1000000000000000'::bigint) AND ((current_price_milliunits >= 0) AND (current_price_milliunits <= '1000000000000000'::bigint)) AND ((at_risk_milliunits >= 0) AND (at_risk_milliunits <= '100000000000000000'::bigint)) AND ((forecast_seats >= 1) AND (forecast_seats <= 1000000)))),
    CONSTRAINT price_changes_sent_with_an_id CHECK (((state <> ALL (ARRAY['sending'::text, 'unknown'::text])) OR (request_reference_id IS NOT NULL))),
    CONSTRAINT price_changes_sku_size CHECK (((length(sku) >= 1) AND (length(sku) <= 128))),
    CONSTRAINT price_changes_state CHECK ((state = ANY (ARRAY['awaiting_approval'::text, 'queued'::text, 'sending'::text, 'unknown'::text, 'scheduled'::text, 'pending_consent'::text, 'accepted'::text, 'effective'::text, 'declined'::text, 'cancelled'::text, 'lapsed'::text, 'invalidated'::text, 'rejected'::text, 'ineligible'::text, 'missed'::text, 'aborted'::text])))
)
WITH (fillfactor='80');
ALTER TABLE ONLY repricer.price_changes ALTER COLUMN batch_id SET STATISTICS 0;

COMMENT ON COLUMN repricer.price_changes.is_held_out IS 'Never sent, so that its customer can be compared with those who were sent a change. The approval ends it as aborted.';

COMMENT ON COLUMN repricer.price_changes.undoes_change_id IS 'The change that this one takes back: current_price_milliunits is then the price that was scheduled. Only undo_batch writes it.';

COMMENT ON COLUMN repricer.price_changes.current_sku IS 'The item''s name today, where it was renamed after submission; sku stays the submitted one.';

COMMENT ON COLUMN repricer.price_changes.called_sku IS 'The item''s name in our last call, where it was renamed between submission and call.';

COMMENT ON COLUMN repricer.price_changes.former_skus IS 'Names that the item had since our call and lost again; a charge may bear any of them.';

COMMENT ON COLUMN repricer.price_changes.former_until IS 'When the first period began that was charged under a newer name, for each of former_skus: from then on that name is another item''s. Null: not yet.';

COMMENT ON COLUMN repricer.price_changes.current_dependent_skus IS 'The dependents'' names today, where one was renamed after submission.';

COMMENT ON COLUMN repricer.price_changes.called_dependent_skus IS 'The dependents'' names in our last call, where one was renamed between submission and call.';

COMMENT ON COLUMN repricer.price_changes.forecast_not_known IS 'The rules that leave open whether the subscriber must consent.';

COMMENT ON COLUMN repricer.price_changes.at_risk_milliunits IS 'What a period loses when the customer does not consent: the item and its dependents, as charged at submission. Null for a decrease.';

COMMENT ON COLUMN repricer.price_changes.at_risk_elsewhere IS 'Dependents in another currency or period, each: currency, storefront, period, milliunits. Null: none.';

COMMENT ON COLUMN repricer.price_changes.is_stale IS 'Whether it was planned on facts older than a known renewal.';

COMMENT ON COLUMN repricer.price_changes.forecast_seats IS 'How many seats the period that ran at submission was charged for. Prices are for one seat.';

COMMENT ON COLUMN repricer.price_changes.planned_effective_at IS 'The renewal that was due at the call, where an offer or an extension has moved due_effective_at since.';

COMMENT ON COLUMN repricer.price_changes.moved_before_call IS 'What first moved it to a later renewal before its call left: billing_failure, late_call, extension, other. Null: nothing did.';

COMMENT ON COLUMN repricer.price_changes.moved_since_call IS 'Like moved_before_call, but since the call left. It follows from statements, so a fold from the beginning sets it again.';

COMMENT ON COLUMN repricer.price_changes.called_renewal_at IS 'The renewal date that was known at the last call. If an extension of that date is told later, it moves the change, even where it happened before the call.';

COMMENT ON COLUMN repricer.price_changes.is_held IS 'Taken out of the queues, because its storefront is halted in its batch. A change that was put back since then may lack the mark.';

COMMENT ON COLUMN repricer.price_changes.stage IS 'The state as indexes know it: a change whose call is out is still queued here, so that a claim writes no index entry.';

COMMENT ON COLUMN repricer.price_changes.doubtful_since IS 'Since when the App Store may have its price without our knowledge: the first call that was abandoned with an unknown outcome, a call that a lost database may have made, or the instant at which a person closed the change.';

COMMENT ON COLUMN repricer.price_changes.refused_at IS 'When the first of its calls left that were refused, if the change was put back since. A later renewal above the old price is examined, although no call is known to have been applied.';

COMMENT ON COLUMN repricer.price_changes.is_leaving IS 'It took effect, and its item is not set to renew any more: no further period is charged.';

COMMENT ON COLUMN repricer.price_changes.recorded_at IS 'When what stands here was recorded. Null: since its submission only the approval and a claim have changed it.';

COMMENT ON COLUMN repricer.price_changes.claim_recorded_at IS 'When its latest claim was recorded. Null: it had none.';

CREATE TABLE repricer.store_calls (
    bucket smallint NOT NULL,
    subject text NOT NULL,
    call_id uuid NOT NULL,
    kind text NOT NULL,
    carries uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    parents text[] DEFAULT '{}'::text[] NOT NULL,
    intent jsonb NOT NULL,
    state text DEFAULT 'sending'::text NOT NULL,
    next_step text DEFAULT 'send'::text NOT NULL,
    attempts integer DEFAULT 1 NOT NULL,
    checks integer DEFAULT 0 NOT NULL,
    fence bigint DEFAULT 1 NOT NULL,
    lease_owner uuid NOT NULL,
    lease_until timestamp with time zone NOT NULL,
    in_flight_until timestamp with time zone NOT NULL,
    next_attempt_at timestamp with time zone,
    prepared_at timestamp with time zone NOT NULL,
    settled_at timestamp with time zone,
    http_status integer,
    error_code bigint,
    error_message text,
    answer text,
    packed bytea,
    header_digests bytea,
    is_reopened boolean DEFAULT false NOT NULL,
    is_doubtful boolean DEFAULT false NOT NULL,
    reenabled_at timestamp with time zone,
    CONSTRAINT store_calls_bucket CHECK ((bucket = repricer.bucket_of(subject))),
    CONSTRAINT store_calls_carry_something CHECK (((kind = 'cancel'::text) OR (cardinality(carries) > 0))),
    CONSTRAINT store_calls_kind CHECK ((kind = ANY (ARRAY['price_change'::text, 'cancel'::text, 'extension'::text, 'mass_extension'::text]))),
    CONSTRAINT store_calls_next_step CHECK ((next_step = ANY (ARRAY['send'::text, 'check'::text]))),
    CONSTRAINT store_calls_packed CHECK (((packed IS NULL) = (header_digests IS NULL))),
    CONSTRAINT store_calls_settled CHECK (((state = ANY (ARRAY['answered'::text, 'refused'::text])) = (settled_at IS NOT NULL))),
    CONSTRAINT store_calls_state CHECK ((state = ANY (ARRAY['sending'::text, 'unknown'::text, 'answered'::text, 'refused'::text])))
);
ALTER TABLE ONLY repricer.store_calls ALTER COLUMN answer SET COMPRESSION lz4;
ALTER TABLE ONLY repricer.store_calls ALTER COLUMN packed SET COMPRESSION lz4;

COMMENT ON TABLE repricer.store_calls IS 'Every call to the App Store that changes something: written before it is made, fenced by its lease, settled once.';

COMMENT ON COLUMN repricer.store_calls.subject IS 'The original transaction id of the subscription that it changes; for a mass extension, product: and the product.';

COMMENT ON COLUMN repricer.store_calls.call_id IS 'For a price change and a cancellation, the requestReferenceId that Apple is told.';

COMMENT ON COLUMN repricer.store_calls.carries IS 'What waits for its outcome: price changes, or the request of an extension.';

COMMENT ON COLUMN repricer.store_calls.parents IS 'For a cancellation: the subscriptions with the declined changes whose dependents it cancels.';

COMMENT ON COLUMN repricer.store_calls.in_flight_until IS 'By the machine''s clock. After this instant no attempt of it can still be on its way.';

COMMENT ON COLUMN repricer.store_calls.is_reopened IS 'A late statement disproved its outcome. Since then it is only checked, and never sent.';

COMMENT ON COLUMN repricer.store_calls.is_doubtful IS 'Closed as not applied because no check showed it, although that is not certain.';

COMMENT ON COLUMN repricer.store_calls.reenabled_at IS 'For a cancellation: when the customer was seen to have turned renewal on again. A later end is the customer''s own doing.';

CREATE VIEW report.batch_summary AS
 WITH calls_out AS (
         SELECT c.batch_id,
            count(*) AS sending
           FROM (repricer.store_calls r_1
             JOIN repricer.price_changes c ON (((c.original_transaction_id = r_1.subject) AND (c.bucket = r_1.bucket) AND (c.request_reference_id = r_1.call_id) AND (c.state = 'sending'::text))))
          WHERE ((r_1.kind = 'price_change'::text) AND (r_1.settled_at IS NULL))
          GROUP BY c.batch_id
        ), stages AS (
         SELECT c.batch_id,
            (sum(c.rows))::bigint AS stored,
            (COALESCE(sum(c.rows) FILTER (WHERE (c.stage = 'awaiting_approval'::text)), (0)::numeric))::bigint AS awaiting_approval,
            (COALESCE(sum(c.rows) FILTER (WHERE (c.stage = 'queued'::text)), (0)::numeric))::bigint AS queued,
            (COALESCE(sum(c.rows) FILTER (WHERE (c.stage = 'unknown'::text)), (0)::numeric))::bigint AS unknown,
            (COALESCE(sum(c.rows) FILTER (WHERE (c.stage = 'scheduled'::text)), (0)::numeric))::bigint AS scheduled,
            (COALESCE(sum(c.rows) FILTER (WHERE (c.stage = 'pending_consent'::text)), (0)::numeric))::bigint AS pending_consent,
            (COALESCE(sum(c.rows) FILTER (WHERE (c.stage = 'accepted'::text)), (0)::numeric))::bigint AS accepted,
            (COALESCE(sum(c.rows) FILTER (WHERE (c.stage = 'effective'::text)), (0)::numeric))::bigint AS effective,
            (COALESCE(sum(c.rows) FILTER (WHERE (c.stage = 'declined'::text)), (0)::numeric))::bigint AS declined,
            (COALESCE(sum(c.rows) FILTER (WHERE (c.stage = 'cancelled'::text)), (0)::numeric))::bigint AS cancelled,
            (COALESCE(sum(c.rows) FILTER (WHERE (c.stage = 'lapsed'::text)), (0)::numeric))::bigint AS lapsed,
            (COALESCE(sum(c.rows) FILTER (WHERE (c.stage = 'invalidated'::text)), (0)::numeric))::bigint AS invalidated,
            (COALESCE(sum(c.rows) FILTER (WHERE (c.stage = 'rejected'::text)), (0)::numeric))::bigint AS rejected,
            (COALESCE(sum(c.rows) FILTER (WHERE (c.stage = 'ineligible'::text)), (0)::numeric))::bigint AS ineligible,
            (COALESCE(sum(c.rows) FILTER (WHERE (c.stage = 'missed'::text)), (0)::numeric))::bigint AS missed,
            (COALESCE(sum(c.rows) FILTER (WHERE (c.stage = 'aborted'::text)), (0)::numeric))::bigint AS aborted
           FROM ( SELECT price_changes.batch_id,
                    price_changes.stage,
                    count(*) AS rows
                   FROM repricer.price_changes
                  GROUP BY price_changes.batch_id, price_changes.stage) c
          GROUP BY c.batch_id
        ), tallies AS (
         SELECT g.batch_id,
            g.stored,
            g.awaiting_approval,
            (g.queued - COALESCE(o.sending, (0)::bigint)) AS queued,
            COALESCE(o.sending, (0)::bigint) AS sending,
            g.unknown,
            g.scheduled,
            g.pending_consent,
            g.accepted,
            g.effective,
            g.declined,
            g.cancelled,
            g.lapsed,
            g.invalidated,
            g.rejected,
            g.ineligible,
            g.missed,
            g.aborted
           FROM (stages g
             LEFT JOIN calls_out o ON ((o.batch_id = g.batch_id)))
        ), sums AS (
         SELECT t.batch_id,
            t.stored,
            t.awaiting_approval,
            t.queued,
            t.sending,
            t.unknown,
            t.scheduled,
            t.pending_consent,
            t.accepted,
            t.effective,
            t.declined,
            t.cancelled,
            t.lapsed,
            t.invalidated,
            t.rejected,
            t.ineligible,
            t.missed,
            t.aborted,
            ((((((t.awaiting_approval + t.queued) + t.sending) + t.unknown) + t.scheduled) + t.pending_consent) + t.accepted) AS open,
            ((((((((t.effective + t.declined) + t.cancelled) + t.lapsed) + t.invalidated) + t.rejected) + t.ineligible) + t.missed) + t.aborted) AS final
           FROM tallies t
        ), refusals AS (
         SELECT batch_rejects.batch_id,
            count(*) AS stored
           FROM repricer.batch_rejects
          GROUP BY batch_rejects.batch_id
        )
 SELECT b.batch_id,
    b.name AS batch_name,
    b.state AS batch_state,
    b.is_paused,
    b.paused_reason,
    (b.submitted_by)::text AS submitted_by,
    b.submitted_at,
    b.planned_as_of AS planned_at,
        CASE
            WHEN (b.state <> 'rejected'::text) THEN (b.decided_by)::text
            ELSE NULL::text
        END AS approver,
        CASE
            WHEN (b.state <> 'rejected'::text) THEN b.decided_at
            ELSE NULL::timestamp with time zone
        END AS approved_at,
        CASE
            WHEN (b.state = 'rejected'::text) THEN (b.decided_by)::text
            ELSE NULL::text
        END AS rejected_by,
    b.decision_reason,
    b.row_count AS rows,
    b.rejected_row_count AS refused_file_rows,
    COALESCE(s.awaiting_approval, (0)::bigint) AS rows_awaiting_approval,
    COALESCE(s.queued, (0)::bigint) AS rows_queued,
    COALESCE(s.sending, (0)::bigint) AS rows_sending,
    COALESCE(s.unknown, (0)::bigint) AS rows_unknown,
    COALESCE(s.scheduled, (0)::bigint) AS rows_scheduled,
    COALESCE(s.pending_consent, (0)::bigint) AS rows_pending_consent,
    COALESCE(s.accepted, (0)::bigint) AS rows_accepted,
    COALESCE(s.effective, (0)::bigint) AS rows_effective,
    COALESCE(s.declined, (0)::bigint) AS rows_declined,
    COALESCE(s.cancelled, (0)::bigint) AS rows_cancelled,
    COALESCE(s.lapsed, (0)::bigint) AS rows_lapsed,
    COALESCE(s.invalidated, (0)::bigint) AS rows_invalidated,
    COALESCE(s.rejected, (0)::bigint) AS rows_rejected,
    COALESCE(s.ineligible, (0)::bigint) AS rows_ineligible,
    COALESCE(s.missed, (0)::bigint) AS rows_missed,
    COALESCE(s.aborted, (0)::bigint) AS rows_aborted,
    COALESCE(s.open, (0)::bigint) AS rows_open,
    COALESCE(s.final, (0)::bigint) AS rows_final,
    (COALESCE(s.final, (0)::bigint) = b.row_count) AS is_final,
    ((COALESCE(s.stored, (0)::bigint) = b.row_count) AND (COALESCE((s.open + s.final), (0)::bigint) = b.row_count) AND (COALESCE(r.stored, (0)::bigint) = b.rejected_row_count)) AS rows_add_up,
    b.undoes_batch_id
   FROM ((repricer.batches b
     LEFT JOIN sums s ON ((s.batch_id = b.batch_id)))
     LEFT JOIN refusals r ON ((r.batch_id = b.batch_id)));

COMMENT ON VIEW report.batch_summary IS 'One row a batch: who, when, and its rows by state.';

COMMENT ON COLUMN report.batch_summary.batch_id IS 'The batch; null where the row is about the whole installation.';

COMMENT ON COLUMN report.batch_summary.batch_name IS 'The name that the submitter gave to the batch.';

COMMENT ON COLUMN report.batch_summary.batch_state IS 'awaiting_approval, approved, rejected or aborted.';

COMMENT ON COLUMN report.batch_summary.is_paused IS 'Whether sending is paused for the batch.';

COMMENT ON COLUMN report.batch_summary.paused_reason IS 'Why it is paused, where the service paused it.';

COMMENT ON COLUMN report.batch_summary.submitted_by IS 'Database user who submitted the batch.';

COMMENT ON COLUMN report.batch_summary.submitted_at IS 'When the batch was submitted.';

COMMENT ON COLUMN report.batch_summary.planned_at IS 'The instant that the forecast was made for.';

COMMENT ON COLUMN report.batch_summary.approver IS 'Database user who approved; never the submitter; null: nobody has.';

COMMENT ON COLUMN report.batch_summary.approved_at IS 'When the batch was approved.';

COMMENT ON COLUMN report.batch_summary.rejected_by IS 'Database user who rejected the batch.';

COMMENT ON COLUMN report.batch_summary.decision_reason IS 'Why the batch was rejected or aborted.';

COMMENT ON COLUMN report.batch_summary.rows IS 'Rows of the file that became price changes.';

COMMENT ON COLUMN report.batch_summary.refused_file_rows IS 'Rows of the file that were refused at submission.';

COMMENT ON COLUMN report.batch_summary.rows_awaiting_approval IS 'Rows that await approval.';

COMMENT ON COLUMN report.batch_summary.rows_queued IS 'Rows that wait to be sent.';

COMMENT ON COLUMN report.batch_summary.rows_sending IS 'Rows with a call under way.';

COMMENT ON COLUMN report.batch_summary.rows_unknown IS 'Rows with a call whose answer was lost.';

COMMENT ON COLUMN report.batch_summary.rows_scheduled IS 'Rows that the App Store has scheduled.';

COMMENT ON COLUMN report.batch_summary.rows_pending_consent IS 'Rows that wait for the subscriber''s consent.';

COMMENT ON COLUMN report.batch_summary.rows_accepted IS 'Rows consented to or announced, before the renewal.';

COMMENT ON COLUMN report.batch_summary.rows_effective IS 'Rows that took effect.';

COMMENT ON COLUMN report.batch_summary.rows_declined IS 'Rows that ended without the consent they needed.';

COMMENT ON COLUMN report.batch_summary.rows_cancelled IS 'Rows whose subscriber left, or was refunded or revoked.';

COMMENT ON COLUMN report.batch_summary.rows_lapsed IS 'Rows that ended for billing or product reasons.';

COMMENT ON COLUMN report.batch_summary.rows_invalidated IS 'Rows whose item was replaced or whose cycle was reset.';

COMMENT ON COLUMN report.batch_summary.rows_rejected IS 'Rows that the App Store refused.';

COMMENT ON COLUMN report.batch_summary.rows_ineligible IS 'Rows that failed the re-check before sending.';

COMMENT ON COLUMN report.batch_summary.rows_missed IS 'Rows that could not be sent in time for any allowed renewal.';

COMMENT ON COLUMN report.batch_summary.rows_aborted IS 'Rows that were withdrawn unsent.';

COMMENT ON COLUMN report.batch_summary.rows_open IS 'Rows from which more is expected.';

COMMENT ON COLUMN report.batch_summary.rows_final IS 'Rows from which nothing more is expected.';

COMMENT ON COLUMN report.batch_summary.is_final IS 'Whether every row is final.';

COMMENT ON COLUMN report.batch_summary.rows_add_up IS 'Whether stored changes, their states and the refused rows add up to the file.';

COMMENT ON COLUMN report.batch_summary.undoes_batch_id IS 'The batch whose scheduled changes this one takes back; null: it is no undo.';

CREATE FUNCTION report.batch_summary_as_of(p_at timestamp with time zone, batch uuid DEFAULT NULL::uuid) RETURNS SETOF report.batch_summary
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
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

COMMENT ON FUNCTION report.batch_summary_as_of(p_at timestamp with time zone, batch uuid) IS 'report.batch_summary as it was known at the instant: by what was recorded until then, late news left out.';

CREATE FUNCTION repricer.days(p_count integer) RETURNS interval
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ((p_count)::double precision * '24:00:00'::interval);

CREATE FUNCTION repricer.exceptions_of(p_batch uuid, p_ids text[]) RETURNS TABLE(original_transaction_id text, change_id uuid, transaction_id text, sku text, exception text, occurred_at timestamp with time zone, amount_milliunits bigint, expected_milliunits bigint, refunded_milliunits bigint, currency text, storefront text, bucket smallint)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_generic_plan'
    SET jit TO 'off'
    AS $$
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

COMMENT ON FUNCTION repricer.exceptions_of(p_batch uuid, p_ids text[]) IS 'What live_charge_exceptions says of these subscriptions in one batch.';

CREATE FUNCTION repricer.figure(p_sum numeric, p_what text) RETURNS bigint
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
BEGIN
    IF abs(p_sum) > 9223372036854775807 THEN
        RAISE EXCEPTION '% add up to % milliunits, which is more than a figure can hold', p_what, p_sum
            USING ERRCODE = 'numeric_value_out_of_range', HINT = 'report.money has each line of what was charged, and report.price_change what is at risk.';
    END IF;
    RETURN p_sum;
END
$$;

CREATE FUNCTION repricer.fitting(p_sum numeric, p_what text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN (abs(p_sum) > ('9223372036854775807'::bigint)::numeric) THEN repricer.figure(p_sum, p_what) ELSE (p_sum)::bigint END;

CREATE FUNCTION repricer.is_of_item(p_charged text, p_at timestamp with time zone, p_sku text, p_current_sku text, p_former_skus text[], p_former_until timestamp with time zone[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ((p_charged = COALESCE(p_current_sku, p_sku)) OR COALESCE((p_at < (p_former_until)[array_position(p_former_skus, p_charged)]), ((p_charged = p_sku) OR (p_charged = ANY (p_former_skus))), false));

CREATE FUNCTION repricer.marked_subscriptions() RETURNS SETOF text
    LANGUAGE sql STABLE SECURITY DEFINER ROWS 2000 PARALLEL SAFE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
SELECT original_transaction_id FROM stale_figures
$$;

COMMENT ON FUNCTION repricer.marked_subscriptions() IS 'Subscriptions with a mark, some of them several times.';

CREATE FUNCTION repricer.recording_instant() RETURNS timestamp with time zone
    LANGUAGE plpgsql PARALLEL SAFE
    AS $$
DECLARE
    v_at timestamptz;
BEGIN
    SELECT c.clock_start + (clock_timestamp() - c.clock_origin) * c.clock_rate INTO v_at
        FROM repricer.service_controls c WHERE c.clock_rate IS NOT NULL;
    RETURN coalesce(v_at, clock_timestamp());
END
$$;

CREATE FUNCTION repricer.seats_of(p_charges anyarray) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
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

CREATE FUNCTION repricer.tells_end(p_statement jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (p_statement @? '$."transaction"."expiresAt"?(@ != null)'::jsonpath);

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
    first_at timestamp with time zone,
    old_total_milliunits bigint NOT NULL,
    new_total_milliunits bigint NOT NULL,
    is_leaving boolean NOT NULL,
    is_told boolean NOT NULL,
    fell_with_parent boolean NOT NULL,
    others_lost_milliunits bigint NOT NULL,
    taxed_renewals bigint NOT NULL,
    taxed_uplift_milliunits bigint NOT NULL,
    paid_until timestamp with time zone,
    word_due_at timestamp with time zone,
    paid_sku text,
    paid_quantity bigint,
    seats bigint NOT NULL,
    counted_at timestamp with time zone NOT NULL,
    outcome uuid,
    CONSTRAINT change_figures_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
);
ALTER TABLE ONLY repricer.change_figures ALTER COLUMN batch_id SET STATISTICS 0;

COMMENT ON TABLE repricer.change_figures IS 'What reports count of each change that has ended. Only summarise_figures writes it.';

COMMENT ON COLUMN repricer.change_figures.is_uncharged IS 'Effective, without a charge at the new price.';

COMMENT ON COLUMN repricer.change_figures.is_leaving IS 'It took effect, and its item is not set to renew any more, or was last charged at another price.';

COMMENT ON COLUMN repricer.change_figures.is_told IS 'The customer was asked, or told.';

COMMENT ON COLUMN repricer.change_figures.others_lost_milliunits IS 'For a declined change with which the whole subscription ended: what its other items cost a period, counted under one change only.';

COMMENT ON COLUMN repricer.change_figures.taxed_renewals IS 'Renewals whose tax is signed. taxed_uplift_milliunits is their uplift without tax.';

COMMENT ON COLUMN repricer.change_figures.paid_until IS 'For an effective change whose item is set to renew: until when its last charge pays. The newest change of the item also has paid_sku and paid_quantity of that charge, unless it was refunded as a whole.';

COMMENT ON COLUMN repricer.change_figures.word_due_at IS 'For the same change: paid_until, or the end of the longest billing retry, or of an extension to a day that was not told. If the subscription is silent after that, a renewal is missing.';

COMMENT ON COLUMN repricer.change_figures.seats IS 'The seats of the last period that the item was paid for. Prices are for one seat, so a period brings them this many times.';

COMMENT ON COLUMN repricer.change_figures.counted_at IS 'By the clock of recorded_at. While its subscription has no mark, nothing was recorded since, so this is also what was known at that instant.';

COMMENT ON COLUMN repricer.change_figures.outcome IS 'Its row of forecast_tallies. Null for an undo and for a change that is held out: they count in no forecast.';

CREATE TABLE repricer.charges (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    transaction_id text NOT NULL,
    sku text NOT NULL,
    purchased_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    price_milliunits bigint NOT NULL,
    quantity bigint DEFAULT 1 NOT NULL,
    currency text NOT NULL,
    storefront text,
    is_offer boolean DEFAULT false NOT NULL,
    is_purchase boolean DEFAULT false NOT NULL,
    is_added_seat boolean DEFAULT false NOT NULL,
    is_relisted boolean DEFAULT false NOT NULL,
    period text,
    refunded_milliunits bigint DEFAULT 0 NOT NULL,
    recorded_at timestamp with time zone DEFAULT repricer.recording_instant() NOT NULL,
    CONSTRAINT charges_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id))),
    CONSTRAINT charges_quantity CHECK ((quantity >= 1))
);

COMMENT ON COLUMN repricer.charges.expires_at IS 'When the period that it pays for ends. Null: no statement told.';

COMMENT ON COLUMN repricer.charges.revoked_at IS 'When the item was revoked, whatever part of the money was refunded. Null: it was not, or the revocation was reversed.';

COMMENT ON COLUMN repricer.charges.price_milliunits IS 'Of one seat; price times quantity was charged.';

COMMENT ON COLUMN repricer.charges.is_offer IS 'Charged at the price of an offer.';

COMMENT ON COLUMN repricer.charges.is_purchase IS 'The customer bought it: a purchase, a modification or an added seat. It is no renewal.';

COMMENT ON COLUMN repricer.charges.is_added_seat IS 'A purchase of seats that are added to those of the period. Any other charge takes the place of the charge before it.';

COMMENT ON COLUMN repricer.charges.is_relisted IS 'A later statement of its transaction lists another item in place of this one, at another price. The two count as one charge, with what the newest statement says, under the name that the item had first.';

COMMENT ON COLUMN repricer.charges.period IS 'The length of the plan''s period that it pays, as signed: P1W, P1M, P2M, P3M, P6M or P1Y; null: no statement says it.';

COMMENT ON COLUMN repricer.charges.refunded_milliunits IS 'How much was refunded and not reversed, as money_entries say.';

COMMENT ON COLUMN repricer.charges.recorded_at IS 'When it was recorded as it stands here. What was known before is in charge_versions.';

CREATE TABLE repricer.money_entries (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    transaction_id text NOT NULL,
    sku text NOT NULL,
    kind text NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    number integer NOT NULL,
    correction integer NOT NULL,
    amount_milliunits bigint NOT NULL,
    tax_exclusive_milliunits bigint,
    currency text NOT NULL,
    storefront text,
    evidence_id text NOT NULL,
    recorded_at timestamp with time zone DEFAULT repricer.recording_instant() NOT NULL,
    change_id uuid,
    batch_id uuid,
    explained_as text,
    uplift_milliunits bigint,
    CONSTRAINT money_entries_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id))),
    CONSTRAINT money_entries_kind CHECK ((kind = ANY (ARRAY['charge'::text, 'refund'::text, 'reversal'::text])))
);
ALTER TABLE ONLY repricer.money_entries ALTER COLUMN batch_id SET STATISTICS 0;

COMMENT ON TABLE repricer.money_entries IS 'Append-only, except for the columns that say what explains a line. What the App Store signed as charged, refunded or reversed, for each item of a transaction by itself.';

COMMENT ON COLUMN repricer.money_entries.number IS 'Numbers the refunds of one item at one instant, from 0 on.';

COMMENT ON COLUMN repricer.money_entries.correction IS '0: the amount as it was first told. Higher numbers are differences. All of them together add up to what is known.';

COMMENT ON COLUMN repricer.money_entries.explained_as IS 'Why the charge is as it is; null: it has an exception, or no change of ours is about it.';

COMMENT ON COLUMN repricer.money_entries.uplift_milliunits IS 'How much more the renewal brought than at the old price. Only the first line of a charge at the price of its change has it.';

CREATE VIEW repricer.heard_charges AS
 SELECT (max(e.occurred_at) - repricer.days(3)) AS until
   FROM repricer.money_entries e
  WHERE ((e.kind = 'charge'::text) AND (e.occurred_at <= report.as_of()));

COMMENT ON VIEW repricer.heard_charges IS 'Three days before the newest charge of anybody. A subscription of which a statement was due before that is silent.';

CREATE TABLE repricer.kept_exceptions (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    change_id uuid NOT NULL,
    batch_id uuid NOT NULL,
    transaction_id text,
    sku text NOT NULL,
    exception text NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    amount_milliunits bigint NOT NULL,
    expected_milliunits bigint,
    refunded_milliunits bigint NOT NULL,
    currency text NOT NULL,
    storefront text,
    CONSTRAINT kept_exceptions_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
);
ALTER TABLE ONLY repricer.kept_exceptions ALTER COLUMN batch_id SET STATISTICS 0;

COMMENT ON TABLE repricer.kept_exceptions IS 'Charge exceptions of called changes. Only summarise_figures writes it.';

CREATE TABLE repricer.kept_statements (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    signed_at timestamp with time zone NOT NULL,
    evidence_id text NOT NULL,
    source text NOT NULL,
    type text,
    subtype text,
    statement jsonb,
    recorded_at timestamp with time zone NOT NULL,
    told_period_at timestamp with time zone,
    tells_end boolean DEFAULT false NOT NULL,
    left_out jsonb,
    status text,
    renewal_told jsonb,
    CONSTRAINT kept_statements_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
);

COMMENT ON TABLE repricer.kept_statements IS 'What is left of dropped months of subscription_events: the statements that a fold still needs, and what reports ask for of the others.';

COMMENT ON COLUMN repricer.kept_statements.told_period_at IS 'Start of the paid period that the statement told of before any charge did. Null: a charge tells it, or the column statement does.';

COMMENT ON COLUMN repricer.kept_statements.tells_end IS 'Whether the statement told when the paid period ends. Where the column statement is kept, that column says it.';

COMMENT ON COLUMN repricer.kept_statements.left_out IS 'The names of the parts that were left out because they make no sense. Null: nothing was left out.';

COMMENT ON COLUMN repricer.kept_statements.status IS 'The status that Apple told of the subscription. Null: the statement told none, or the column statement says it.';

COMMENT ON COLUMN repricer.kept_statements.renewal_told IS 'What the statement told of the renewal, in the form of the column statement, as far as reports ask for it. Null: nothing, or the column statement says it.';

CREATE TABLE repricer.stale_figures (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    CONSTRAINT stale_figures_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
);

COMMENT ON TABLE repricer.stale_figures IS 'Subscriptions whose kept figures are to be computed anew. One row a writer, so that nobody waits for another one''s mark.';

CREATE VIEW repricer.marked_batches AS
 SELECT DISTINCT s.original_transaction_id,
    b.batch_id
   FROM (repricer.stale_figures s
     CROSS JOIN LATERAL ( SELECT c.batch_id
           FROM repricer.price_changes c
          WHERE (c.original_transaction_id = s.original_transaction_id)
         OFFSET 0) b);

COMMENT ON VIEW repricer.marked_batches IS 'The marked subscriptions, once for each batch that they have a change in.';

CREATE TABLE repricer.subscription_events (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    signed_at timestamp with time zone NOT NULL,
    evidence_id text NOT NULL,
    source text NOT NULL,
    type text,
    subtype text,
    statement jsonb NOT NULL,
    recorded_at timestamp with time zone DEFAULT repricer.recording_instant() NOT NULL,
    CONSTRAINT subscription_events_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id))),
    CONSTRAINT subscription_events_source CHECK ((source = ANY (ARRAY['notification'::text, 'response'::text, 'status'::text, 'legacy'::text])))
)
PARTITION BY RANGE (signed_at);

COMMENT ON TABLE repricer.subscription_events IS 'Append-only, except for a statement that reprocess reads anew from its evidence. evidence_id is the notificationUUID, the requestReferenceId or the digest of a status. Retention drops old months, once subscription_checkpoints stands for them.';

CREATE TABLE repricer.subscriptions (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    status integer,
    auto_renews boolean,
    in_billing_retry boolean DEFAULT false NOT NULL,
    grace_period_expires_at timestamp with time zone,
    expiration_intent integer,
    storefront text,
    currency text,
    period text,
    renewal_period text,
    product_id text,
    app_account_token text,
    ownership_type text,
    offer_discount_type text,
    offer_type integer,
    quantity integer,
    transaction_reason text,
    app_transaction_id text,
    auto_renew_product_id text,
    renewal_price_milliunits bigint,
    renewal_currency text,
    renewal_offer_type integer,
    signed_details jsonb,
    latest_transaction_id text,
    original_purchase_at timestamp with time zone,
    recent_subscription_start_at timestamp with time zone,
    purchased_at timestamp with time zone,
    expires_at timestamp with time zone,
    renewal_at timestamp with time zone,
    consistency_token text,
    items jsonb DEFAULT '[]'::jsonb NOT NULL,
    increases jsonb DEFAULT '[]'::jsonb NOT NULL,
    renames jsonb,
    seen_skus text[] DEFAULT '{}'::text[] NOT NULL,
    signed_at timestamp with time zone,
    known_since timestamp with time zone,
    folded_signed_at timestamp with time zone,
    folded_evidence_id text,
    checkpoint_at timestamp with time zone,
    CONSTRAINT subscriptions_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id))),
    CONSTRAINT subscriptions_id_size CHECK (((length(original_transaction_id) >= 1) AND (length(original_transaction_id) <= 64))),
    CONSTRAINT subscriptions_increases_are_a_list CHECK ((jsonb_typeof(increases) = 'array'::text)),
    CONSTRAINT subscriptions_items_are_a_list CHECK ((jsonb_typeof(items) = 'array'::text))
)
WITH (fillfactor='85');

COMMENT ON TABLE repricer.subscriptions IS 'The newest facts of each subscription, folded from subscription_events in the order of signed_at.';

COMMENT ON COLUMN repricer.subscriptions.renewal_period IS 'The length of the periods from the next renewal on, where the customer chose another one. Null: they stay as long as period says, which is about the running one.';

COMMENT ON COLUMN repricer.subscriptions.offer_discount_type IS 'Of the running period of an ordinary subscription: FREE_TRIAL, PAY_AS_YOU_GO, PAY_UP_FRONT, ONE_TIME; null: no offer.';

COMMENT ON COLUMN repricer.subscriptions.offer_type IS 'Of the running period: 1 introductory, 2 promotional, 3 offer code, 4 win-back; null: no offer.';

COMMENT ON COLUMN repricer.subscriptions.quantity IS 'Of the running period: how many were bought, or how many seats, including those added during the period.';

COMMENT ON COLUMN repricer.subscriptions.transaction_reason IS 'Why the running period was charged: PURCHASE (the customer bought it) or RENEWAL.';

COMMENT ON COLUMN repricer.subscriptions.app_transaction_id IS 'The download of the app that it was bought in: the same for all purchases of one Apple account in the app.';

COMMENT ON COLUMN repricer.subscriptions.auto_renew_product_id IS 'The product that the subscription renews to. Where it differs from product_id, the customer chose it for the next period.';

COMMENT ON COLUMN repricer.subscriptions.renewal_price_milliunits IS 'What the whole next period costs, in thousandths of renewal_currency; where there are several seats, the average price of one. Null where the newest renewal info does not say.';

COMMENT ON COLUMN repricer.subscriptions.renewal_currency IS 'ISO 4217: in which the next period is charged.';

COMMENT ON COLUMN repricer.subscriptions.renewal_offer_type IS 'As offer_type, of the next period; null: no offer.';

COMMENT ON COLUMN repricer.subscriptions.signed_details IS 'What else was signed, under Apple''s own names and only what is there. transaction, of the running period: offerIdentifier, offerPeriod, revocationDate (UTC milliseconds), revocationReason, revocationType, revocationPercentage, isUpgraded, billingPlanType, additionalTransactionReason. renewal, of the newest renewal info: offerIdentifier, offerPeriod, offerDiscountType, eligibleWinBackOfferIds, priceIncreaseStatus, renewalBillingPlanType, renewalQuantity. addedSeats, of the running period: the quantity of its own transaction and each transaction that added seats. Null: none of it.';

COMMENT ON COLUMN repricer.subscriptions.renames IS 'Former names of items: what an item was called, until when, and the transaction of the period that ran then. isDoubtful: the only evidence is that this transaction lists the new name, at another price. isOfItsTransaction: the rename concerns this transaction alone. Null: nothing was renamed lately.';

COMMENT ON COLUMN repricer.subscriptions.known_since IS 'Start of the period since which no increase can have gone unseen: statements tell of every later period, or of prices that can be compared with those of the period told before.';

COMMENT ON COLUMN repricer.subscriptions.checkpoint_at IS 'subscription_checkpoints stands for the statements signed before it; one that arrives later goes to overdue_statements. Null: all statements are kept.';

CREATE VIEW repricer.told_statements AS
 SELECT subscription_events.original_transaction_id,
    subscription_events.bucket,
    subscription_events.signed_at,
    subscription_events.evidence_id,
    subscription_events.source,
    subscription_events.type,
    subscription_events.subtype,
    subscription_events.statement,
    subscription_events.recorded_at,
    COALESCE(repricer.tells_end(subscription_events.statement), false) AS tells_end,
    (subscription_events.statement -> 'ignored'::text) AS left_out,
    (subscription_events.statement ->> 'status'::text) AS status
   FROM repricer.subscription_events
UNION ALL
 SELECT kept_statements.original_transaction_id,
    kept_statements.bucket,
    kept_statements.signed_at,
    kept_statements.evidence_id,
    kept_statements.source,
    kept_statements.type,
    kept_statements.subtype,
    COALESCE(kept_statements.statement, kept_statements.renewal_told) AS statement,
    kept_statements.recorded_at,
    (kept_statements.tells_end OR COALESCE(repricer.tells_end(kept_statements.statement), false)) AS tells_end,
    kept_statements.left_out,
    COALESCE((kept_statements.statement ->> 'status'::text), kept_statements.status) AS status
   FROM repricer.kept_statements;

COMMENT ON VIEW repricer.told_statements IS 'All statements, together with what retention kept of dropped months. A statement may appear twice until its month is dropped.';

CREATE VIEW repricer.silent_open_changes AS
 SELECT c.batch_id,
    c.original_transaction_id,
    c.bucket,
    c.change_id,
    h.sku,
    h.expires_at AS occurred_at,
    repricer.fitting(((
        CASE
            WHEN (h.currency <> c.currency) THEN NULL::bigint
            WHEN t.is_before THEN c.current_price_milliunits
            ELSE c.new_price_milliunits
        END)::numeric * (
        CASE
            WHEN ((h.paid_by = 1) AND (NOT h.is_added_seat)) THEN h.quantity
            ELSE COALESCE(( SELECT repricer.seats_of(array_agg(k.*)) AS seats_of
               FROM repricer.charges k
              WHERE ((k.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (k.expires_at = h.expires_at))), (1)::bigint)
        END)::numeric), ('the seats of price change '::text || c.change_id)) AS expected_milliunits,
    h.currency,
    h.storefront
   FROM (((((repricer.price_changes c
     CROSS JOIN ( SELECT d_1.until
           FROM repricer.heard_charges d_1) d)
     LEFT JOIN repricer.subscriptions s ON (((s.original_transaction_id = c.original_transaction_id) AND (s.bucket = c.bucket))))
     CROSS JOIN LATERAL ( SELECT k.original_transaction_id,
            k.bucket,
            k.transaction_id,
            k.sku,
            k.purchased_at,
            k.expires_at,
            k.revoked_at,
            k.price_milliunits,
            k.quantity,
            k.currency,
            k.storefront,
            k.is_offer,
            k.is_purchase,
            k.is_added_seat,
            k.is_relisted,
            k.period,
            k.refunded_milliunits,
            k.recorded_at,
            count(*) OVER (PARTITION BY k.expires_at) AS paid_by
           FROM repricer.charges k
          WHERE ((k.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (k.expires_at IS NOT NULL))
          ORDER BY k.expires_at DESC, (k.revoked_at IS NOT NULL), ((k.refunded_milliunits > 0) AND (k.refunded_milliunits >= (k.price_milliunits * k.quantity))), k.is_added_seat, k.purchased_at DESC, k.transaction_id, (k.sku = COALESCE(c.current_sku, c.sku)) DESC, k.sku
         LIMIT 1) h)
     CROSS JOIN LATERAL ( SELECT COALESCE(bool_or((t_1.type = ANY (ARRAY['EXPIRED'::text, 'REVOKE'::text]))), false) AS is_ended,
            max((t_1.signed_at +
                CASE t_1.type
                    WHEN 'RENEWAL_EXTENDED'::text THEN repricer.days(90)
                    ELSE repricer.days(61)
                END)) FILTER (WHERE ((t_1.type = ANY (ARRAY['DID_FAIL_TO_RENEW'::text, 'GRACE_PERIOD_EXPIRED'::text])) OR ((t_1.type = 'RENEWAL_EXTENDED'::text) AND (NOT t_1.tells_end)))) AS until,
            COALESCE(((array_agg((t_1.statement #>> '{renewal,autoRenewStatus}'::text[]) ORDER BY t_1.signed_at DESC, t_1.evidence_id DESC) FILTER (WHERE ((t_1.statement #>> '{renewal,autoRenewStatus}'::text[]) IS NOT NULL)))[1] = '0'::text), false) AS is_off,
            COALESCE(((array_agg(t_1.status ORDER BY t_1.signed_at DESC, t_1.evidence_id DESC) FILTER (WHERE (t_1.status IS NOT NULL)))[1] <> '1'::text), false) AS is_in_trouble
           FROM repricer.told_statements t_1
          WHERE ((t_1.original_transaction_id = c.original_transaction_id) AND (t_1.signed_at > h.purchased_at))) e)
     CROSS JOIN LATERAL ( SELECT (h.expires_at < (c.due_effective_at - LEAST('01:00:00'::interval, ((h.expires_at - h.purchased_at) / (10)::double precision)))) AS is_before) t)
  WHERE ((c.stage = ANY (ARRAY['scheduled'::text, 'pending_consent'::text, 'accepted'::text])) AND (c.undoes_change_id IS NULL) AND (c.reason IS DISTINCT FROM 'item_replaced'::text) AND (COALESCE(s.expires_at, '-infinity'::timestamp with time zone) < d.until) AND (GREATEST(h.expires_at, e.until) < d.until) AND (NOT e.is_ended) AND (NOT e.is_off) AND ((NOT e.is_in_trouble) OR ((h.expires_at + repricer.days(61)) < d.until)) AND (h.expires_at >= COALESCE(c.sent_at, c.doubtful_since, c.scheduled_at)) AND (t.is_before OR (c.stage = 'accepted'::text) OR ((c.stage = 'scheduled'::text) AND (c.direction = 'decrease'::text))) AND (h.revoked_at IS NULL) AND ((h.refunded_milliunits = 0) OR (h.refunded_milliunits < (h.price_milliunits * h.quantity))) AND COALESCE((s.purchased_at <= h.purchased_at), true) AND (NOT (EXISTS ( SELECT
           FROM repricer.price_changes o
          WHERE ((o.original_transaction_id = c.original_transaction_id) AND (o.change_id <> c.change_id) AND (o.state = 'effective'::text) AND (o.undoes_change_id IS NULL) AND (COALESCE(o.current_sku, o.sku) = COALESCE(c.current_sku, c.sku)) AND (o.effective_at <= h.purchased_at))))));

COMMENT ON VIEW repricer.silent_open_changes IS 'Renewals that stopped silently, of changes that the App Store has and that are not in effect.';

CREATE VIEW repricer.charge_exceptions AS
 SELECT k.batch_id,
    k.original_transaction_id,
    k.change_id,
    k.transaction_id,
    k.sku,
    k.exception,
    k.occurred_at,
    k.amount_milliunits,
    k.expected_milliunits,
    k.refunded_milliunits,
    k.currency,
    k.storefront,
    k.bucket
   FROM repricer.kept_exceptions k
  WHERE (NOT (EXISTS ( SELECT
           FROM repricer.marked_subscriptions() s(id)
          WHERE (s.id = k.original_transaction_id))))
UNION ALL
 SELECT m.batch_id,
    x.original_transaction_id,
    x.change_id,
    x.transaction_id,
    x.sku,
    x.exception,
    x.occurred_at,
    x.amount_milliunits,
    x.expected_milliunits,
    x.refunded_milliunits,
    x.currency,
    x.storefront,
    x.bucket
   FROM (( SELECT b.batch_id,
            array_agg(b.original_transaction_id) AS ids
           FROM repricer.marked_batches b
          GROUP BY b.batch_id) m
     CROSS JOIN LATERAL repricer.exceptions_of(m.batch_id, m.ids) x(original_transaction_id, change_id, transaction_id, sku, exception, occurred_at, amount_milliunits, expected_milliunits, refunded_milliunits, currency, storefront, bucket))
UNION ALL
 SELECT k.batch_id,
    k.original_transaction_id,
    k.change_id,
    NULL::text AS transaction_id,
    k.paid_sku AS sku,
    'missing'::text AS exception,
    k.paid_until AS occurred_at,
    0 AS amount_milliunits,
    repricer.fitting(((k.new_price_milliunits)::numeric * (k.paid_quantity)::numeric), ('the seats of price change '::text || k.change_id)) AS expected_milliunits,
    0 AS refunded_milliunits,
    k.currency,
    k.storefront,
    k.bucket
   FROM repricer.change_figures k
  WHERE ((k.word_due_at < ( SELECT d.until
           FROM repricer.heard_charges d)) AND (k.paid_sku IS NOT NULL) AND (NOT (k.original_transaction_id IN ( SELECT s.id
           FROM repricer.marked_subscriptions() s(id)))) AND (NOT (EXISTS ( SELECT
           FROM repricer.kept_exceptions x
          WHERE ((x.original_transaction_id = k.original_transaction_id) AND (x.change_id = k.change_id) AND (x.exception = 'missing'::text) AND (x.occurred_at = k.paid_until))))))
UNION ALL
 SELECT o.batch_id,
    o.original_transaction_id,
    o.change_id,
    NULL::text AS transaction_id,
    o.sku,
    'missing'::text AS exception,
    o.occurred_at,
    0 AS amount_milliunits,
    o.expected_milliunits,
    0 AS refunded_milliunits,
    o.currency,
    o.storefront,
    o.bucket
   FROM repricer.silent_open_changes o
  WHERE (NOT (o.original_transaction_id IN ( SELECT s.id
           FROM repricer.marked_subscriptions() s(id))));

COMMENT ON VIEW repricer.charge_exceptions IS 'Charges that are not as they should be, and renewals that were not charged.';

CREATE VIEW report.charge_exception AS
 SELECT f.batch_id,
    b.name AS batch_name,
    f.original_transaction_id,
    f.change_id,
    f.transaction_id,
    f.sku,
    f.exception,
    f.occurred_at,
    f.amount_milliunits,
    f.expected_milliunits,
    f.refunded_milliunits,
    f.currency,
    f.storefront
   FROM (repricer.charge_exceptions f
     JOIN repricer.batches b ON ((b.batch_id = f.batch_id)));

COMMENT ON VIEW report.charge_exception IS 'Every charge since a change''s call that is not what it should be, by name, and every renewal that was not charged.';

COMMENT ON COLUMN report.charge_exception.batch_id IS 'The batch; null where the row is about the whole installation.';

COMMENT ON COLUMN report.charge_exception.batch_name IS 'The name that the submitter gave to the batch.';

COMMENT ON COLUMN report.charge_exception.original_transaction_id IS 'The subscription, as Apple names it.';

COMMENT ON COLUMN report.charge_exception.change_id IS 'The price change that the charge belongs to.';

COMMENT ON COLUMN report.charge_exception.transaction_id IS 'The App Store''s transaction; null: the charge is missing.';

COMMENT ON COLUMN report.charge_exception.sku IS 'The item that was charged, by its name then.';

COMMENT ON COLUMN report.charge_exception.exception IS 'other_price, after_end, declined_yet_charged, missing, double, relisted, wrong_currency or refunded.';

COMMENT ON COLUMN report.charge_exception.occurred_at IS 'When it was charged, or should have been.';

COMMENT ON COLUMN report.charge_exception.amount_milliunits IS 'What was charged, refunds apart; 0: nothing.';

COMMENT ON COLUMN report.charge_exception.expected_milliunits IS 'What the change would have had charged then: its new price once in effect (of a missing one: once due), else its old one; null where another currency was charged.';

COMMENT ON COLUMN report.charge_exception.refunded_milliunits IS 'What of it was refunded and not taken back again.';

COMMENT ON COLUMN report.charge_exception.currency IS 'ISO 4217: the currency of all money in the row.';

COMMENT ON COLUMN report.charge_exception.storefront IS 'ISO 3166-1 alpha-3.';

CREATE FUNCTION report.charge_exception_as_of(p_at timestamp with time zone, batch uuid DEFAULT NULL::uuid) RETURNS SETOF report.charge_exception
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
#variable_conflict use_column
DECLARE
    p_batch ALIAS FOR batch;
BEGIN
    PERFORM repricer.require_past(p_at);
    RETURN QUERY SELECT * FROM (
 SELECT f.batch_id,
    b.name AS batch_name,
    f.original_transaction_id,
    f.change_id,
    f.transaction_id,
    f.sku,
    f.exception,
    f.occurred_at,
    f.amount_milliunits,
    f.expected_milliunits,
    f.refunded_milliunits,
    f.currency,
    f.storefront
   FROM (repricer.live_charge_exceptions_of_batch_at(p_at, p_batch) f
     JOIN repricer.batches_at(p_at) b ON ((b.batch_id = f.batch_id)))
    ) v WHERE p_batch IS NULL OR v.batch_id = p_batch;
END
$$;

COMMENT ON FUNCTION report.charge_exception_as_of(p_at timestamp with time zone, batch uuid) IS 'report.charge_exception as it was known at the instant: by what was recorded until then, late news left out.';

CREATE FUNCTION report.close_month(p_month text, p_at timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET jit TO 'off'
    SET lock_timeout TO '2s'
    AS $_$
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
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION 'a month is closed in a transaction of its own, with isolation READ COMMITTED: an older snapshot does '
            'not show what is known' USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- Nobody records money while the month is counted, which takes a second at most for most months. So closed_at separates what
    -- is in the figures from what is told later, and a report as of closed_at says the same. On a Citus cluster nobody waits, so
    -- what is recorded within moments of closed_at may be in the figures or not.
    IF NOT EXISTS (SELECT FROM pg_extension WHERE extname = 'citus') THEN
        -- A session that then left its transaction open would stop everybody who records.
        IF (SELECT setting::bigint NOT BETWEEN 1 AND 5000 FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout') THEN
            PERFORM set_config('idle_in_transaction_session_timeout', '5s', true);
        END IF;
        BEGIN
            LOCK TABLE subscription_events, charges, money_entries IN SHARE MODE;
        EXCEPTION WHEN lock_not_available OR deadlock_detected THEN
            RAISE EXCEPTION 'month % is not closed: a transaction that records what the App Store told stays open; try again, or '
                'end it', p_month USING ERRCODE = 'object_not_in_prerequisite_state';
        END;
    END IF;
    -- A rehearsal whose database has no clock of its own goes by the caller's.
    SELECT greatest(p_at, CASE WHEN NOT k.is_rehearsal OR k.clock_rate IS NOT NULL THEN recording_instant() END) INTO p_at
        FROM service_controls k;
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
        json_build_object('figures', v_figures, 'figures_sha256', closed_month_sha256(v_month), 'sums', (
            SELECT json_agg(json_build_object('currency', s.currency, 'kind', s.kind, 'milliunits', s.milliunits)
                ORDER BY s.currency, s.kind)
            FROM (SELECT currency, kind, sum(milliunits) AS milliunits FROM closed_figures
                WHERE month = v_month GROUP BY currency, kind) s)));
    RETURN v_figures;
END
$_$;

COMMENT ON FUNCTION report.close_month(p_month text, p_at timestamp with time zone) IS 'Closes a month, written as 2026-10, on the server''s clock; returns how many figures it has. In a rehearsal the instant given is the clock.';

CREATE FUNCTION repricer.at_old_price(p_old bigint, p_price bigint, p_quantity bigint, p_refunded bigint, p_transaction text) RETURNS bigint
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN ((p_refunded = 0) AND (p_quantity = 1)) THEN p_old WHEN (p_refunded = 0) THEN repricer.fitting(((p_old)::numeric * (p_quantity)::numeric), (('the seats of transaction '::text || p_transaction) || ', at the old price,'::text)) ELSE repricer.fitting(round((((p_old)::numeric * (((p_price * p_quantity) - p_refunded))::numeric) / (p_price)::numeric)), (('the seats of transaction '::text || p_transaction) || ', at the old price,'::text)) END;

CREATE FUNCTION repricer.span(p_from timestamp with time zone, p_until timestamp with time zone) RETURNS interval
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN make_interval(secs => (EXTRACT(epoch FROM (p_until - p_from)))::double precision);

CREATE VIEW repricer.charged_renewals AS
 SELECT c.batch_id,
    c.original_transaction_id,
    c.change_id,
    h.transaction_id,
    h.purchased_at,
    repricer.at_old_price(c.current_price_milliunits, h.price_milliunits, h.quantity, h.refunded_milliunits, h.transaction_id) AS old_price_milliunits,
    ((h.price_milliunits * h.quantity) - h.refunded_milliunits) AS price_milliunits,
    ( SELECT
                CASE
                    WHEN bool_and((k.tax_exclusive IS NOT NULL)) THEN (sum(k.tax_exclusive))::bigint
                    ELSE NULL::bigint
                END AS "case"
           FROM ( SELECT
                        CASE
                            WHEN (sum(e.amount_milliunits) = (0)::numeric) THEN (0)::numeric
                            ELSE NULLIF(sum(e.tax_exclusive_milliunits), (0)::numeric)
                        END AS tax_exclusive
                   FROM repricer.money_entries e
                  WHERE ((e.original_transaction_id = h.original_transaction_id) AND (e.transaction_id = h.transaction_id) AND (e.sku = h.sku) AND (e.currency = h.currency))
                  GROUP BY e.kind, e.occurred_at, e.number) k) AS tax_exclusive_milliunits
   FROM (repricer.price_changes c
     JOIN repricer.charges h ON (((h.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(h.sku, h.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (h.purchased_at >= c.effective_at) AND (h.price_milliunits = c.new_price_milliunits) AND (h.currency = c.currency) AND ((h.refunded_milliunits = 0) OR (h.refunded_milliunits < (h.price_milliunits * h.quantity))))))
  WHERE ((c.state = 'effective'::text) AND (c.undoes_change_id IS NULL) AND (NOT (EXISTS ( SELECT
           FROM repricer.price_changes n
          WHERE ((n.original_transaction_id = c.original_transaction_id) AND (n.change_id <> c.change_id) AND (COALESCE(n.current_sku, n.sku) = COALESCE(c.current_sku, c.sku)) AND (n.state = 'effective'::text) AND (n.undoes_change_id IS NULL) AND (n.effective_at <= h.purchased_at) AND (ROW(n.effective_at, n.change_id) > ROW(c.effective_at, c.change_id)))))));

COMMENT ON VIEW repricer.charged_renewals IS 'Charged renewals, each under the one change that set its price.';

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
    taxed_uplift numeric NOT NULL
);

COMMENT ON TABLE repricer.figure_tallies IS 'Sums of change_figures. Only summarise_figures writes it, one session at a time.';

CREATE VIEW repricer.paid_changes AS
 SELECT c.batch_id,
    c.original_transaction_id,
    c.bucket,
    c.change_id,
    c.currency,
    c.storefront,
    c.new_price_milliunits,
    h.sku,
        CASE
            WHEN ((h.paid_by = 1) AND (NOT h.is_added_seat)) THEN h.quantity
            ELSE COALESCE(( SELECT repricer.seats_of(array_agg(k.*)) AS seats_of
               FROM repricer.charges k
              WHERE ((k.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (k.purchased_at >= c.effective_at) AND (k.expires_at = h.expires_at))), (1)::bigint)
        END AS quantity,
    h.expires_at AS paid_until,
    GREATEST(h.expires_at, e.until) AS word_due_at,
    (g.is_given_back OR h.is_offer OR ((h.currency = c.currency) AND (h.is_added_seat OR (h.price_milliunits = c.new_price_milliunits) OR COALESCE((h.price_milliunits = ANY (n.prices)), false)))) AS is_at_price,
    (n.prices IS NULL) AS is_newest,
    g.is_given_back
   FROM ((((repricer.price_changes c
     CROSS JOIN LATERAL ( SELECT k.original_transaction_id,
            k.bucket,
            k.transaction_id,
            k.sku,
            k.purchased_at,
            k.expires_at,
            k.revoked_at,
            k.price_milliunits,
            k.quantity,
            k.currency,
            k.storefront,
            k.is_offer,
            k.is_purchase,
            k.is_added_seat,
            k.is_relisted,
            k.period,
            k.refunded_milliunits,
            k.recorded_at,
            count(*) OVER (PARTITION BY k.expires_at) AS paid_by
           FROM repricer.charges k
          WHERE ((k.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (k.purchased_at >= c.effective_at) AND (k.expires_at IS NOT NULL))
          ORDER BY k.expires_at DESC, (k.revoked_at IS NOT NULL), ((k.refunded_milliunits > 0) AND (k.refunded_milliunits >= (k.price_milliunits * k.quantity))), k.is_added_seat, k.purchased_at DESC, k.transaction_id, (k.sku = COALESCE(c.current_sku, c.sku)) DESC, k.sku
         LIMIT 1) h)
     CROSS JOIN LATERAL ( SELECT ((h.refunded_milliunits > 0) AND (h.refunded_milliunits >= (h.price_milliunits * h.quantity))) AS is_given_back) g)
     CROSS JOIN LATERAL ( SELECT COALESCE(bool_or((t.type = ANY (ARRAY['EXPIRED'::text, 'REVOKE'::text]))), false) AS is_ended,
            max((t.signed_at +
                CASE t.type
                    WHEN 'RENEWAL_EXTENDED'::text THEN repricer.days(90)
                    ELSE repricer.days(61)
                END)) FILTER (WHERE ((t.type <> ALL (ARRAY['EXPIRED'::text, 'REVOKE'::text])) AND ((t.type <> 'RENEWAL_EXTENDED'::text) OR (NOT t.tells_end)))) AS until
           FROM repricer.told_statements t
          WHERE ((t.original_transaction_id = c.original_transaction_id) AND (t.signed_at > h.purchased_at) AND (t.type = ANY (ARRAY['EXPIRED'::text, 'REVOKE'::text, 'DID_FAIL_TO_RENEW'::text, 'GRACE_PERIOD_EXPIRED'::text, 'RENEWAL_EXTENDED'::text])))) e)
     CROSS JOIN LATERAL ( SELECT array_agg(o.new_price_milliunits) AS prices
           FROM repricer.price_changes o
          WHERE ((o.original_transaction_id = c.original_transaction_id) AND (o.change_id <> c.change_id) AND (o.state = 'effective'::text) AND (o.undoes_change_id IS NULL) AND (COALESCE(o.current_sku, o.sku) = COALESCE(c.current_sku, c.sku)) AND (ROW(o.effective_at, o.change_id) > ROW(c.effective_at, c.change_id)))) n)
  WHERE ((c.state = 'effective'::text) AND (NOT c.is_leaving) AND (c.undoes_change_id IS NULL) AND (NOT e.is_ended) AND (h.revoked_at IS NULL));

COMMENT ON VIEW repricer.paid_changes IS 'Effective changes whose item is set to renew: until when it is paid, whether at the new price or one set since, and by when a statement about it is due. Where the last charge was refunded as a whole, until when that charge paid.';

CREATE VIEW repricer.live_change_figures AS
 SELECT c.original_transaction_id,
    c.bucket,
    c.change_id,
    c.batch_id,
    (c.undoes_change_id IS NOT NULL) AS is_undo,
    c.direction,
    c.forecast_consent,
    c.currency,
    c.storefront,
    c.period,
    c.state,
    (COALESCE(c.sent_at, c.scheduled_at, c.consent_asked_at, c.accepted_at, c.effective_at) IS NOT NULL) AS is_sent,
    ((c.consent_asked_at IS NOT NULL) OR COALESCE((c.acceptance = 'consented'::text), false) OR ((c.state = 'declined'::text) AND (c.reason IS DISTINCT FROM 'parent_declined'::text))) AS is_asked,
    c.acceptance,
    ((c.state = 'effective'::text) AND (NOT (EXISTS ( SELECT
           FROM repricer.charges h
          WHERE ((h.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(h.sku, h.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (h.purchased_at >= c.effective_at) AND (h.price_milliunits = c.new_price_milliunits) AND (h.currency = c.currency)))))) AS is_uncharged,
    c.current_price_milliunits,
    c.new_price_milliunits,
    COALESCE(r.renewals, (0)::bigint) AS renewals,
    r.first_at,
    COALESCE(r.old_total_milliunits, (0)::bigint) AS old_total_milliunits,
    COALESCE(r.new_total_milliunits, (0)::bigint) AS new_total_milliunits,
    c.stage,
    (c.stage <> ALL (ARRAY['awaiting_approval'::text, 'queued'::text, 'unknown'::text, 'scheduled'::text, 'pending_consent'::text, 'accepted'::text])) AS is_final,
    (c.is_leaving OR (NOT COALESCE(p.is_at_price, true))) AS is_leaving,
    (COALESCE(c.consent_asked_at, c.accepted_at) IS NOT NULL) AS is_told,
    ((c.state = ANY (ARRAY['declined'::text, 'cancelled'::text])) AND COALESCE((c.reason = 'parent_declined'::text), false)) AS fell_with_parent,
    COALESCE(o.lost_milliunits, (0)::bigint) AS others_lost_milliunits,
    COALESCE(r.taxed_renewals, (0)::bigint) AS taxed_renewals,
    COALESCE(r.taxed_uplift_milliunits, (0)::bigint) AS taxed_uplift_milliunits,
    p.paid_until,
    p.word_due_at,
    p.sku AS paid_sku,
    p.quantity AS paid_quantity,
        CASE
            WHEN ((COALESCE(q.seats, c.forecast_seats) = 1) OR (repricer.fitting(((COALESCE(q.seats, c.forecast_seats))::numeric * (GREATEST(c.current_price_milliunits, c.new_price_milliunits))::numeric), ('the seats of price change '::text || c.change_id)) IS NOT NULL)) THEN COALESCE(q.seats, c.forecast_seats)
            ELSE NULL::bigint
        END AS seats
   FROM ((((repricer.price_changes c
     LEFT JOIN LATERAL ( SELECT
                CASE
                    WHEN (p_1.paid_by = 1) THEN p_1.quantity
                    ELSE COALESCE(( SELECT repricer.seats_of(array_agg(k.*)) AS seats_of
                       FROM repricer.charges k
                      WHERE ((k.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (k.currency = c.currency) AND ((c.state = 'effective'::text) OR (k.purchased_at <= c.ended_at)) AND (COALESCE(k.expires_at, k.purchased_at) = p_1.until))), p_1.quantity)
                END AS seats
           FROM ( SELECT COALESCE(k.expires_at, k.purchased_at) AS until,
                    count(*) AS paid_by,
                    max(k.quantity) AS quantity
                   FROM repricer.charges k
                  WHERE ((k.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (k.currency = c.currency) AND ((c.state = 'effective'::text) OR (k.purchased_at <= c.ended_at)))
                  GROUP BY COALESCE(k.expires_at, k.purchased_at)
                  ORDER BY COALESCE(k.expires_at, k.purchased_at) DESC
                 LIMIT 1) p_1) q ON ((c.state = ANY (ARRAY['effective'::text, 'declined'::text, 'cancelled'::text, 'lapsed'::text]))))
     LEFT JOIN LATERAL ( SELECT max(k.paid_until) AS paid_until,
            max(k.word_due_at) AS word_due_at,
            max(k.sku) FILTER (WHERE (k.is_newest AND (NOT k.is_given_back))) AS sku,
            max(k.quantity) FILTER (WHERE (k.is_newest AND (NOT k.is_given_back))) AS quantity,
            bool_and(k.is_at_price) AS is_at_price
           FROM repricer.paid_changes k
          WHERE ((c.state = 'effective'::text) AND (k.original_transaction_id = c.original_transaction_id) AND (k.change_id = c.change_id))) p ON (true))
     LEFT JOIN LATERAL ( SELECT repricer.fitting(sum(((l.price_milliunits)::numeric * (
                CASE
                    WHEN (l.paid_by = 1) THEN l.quantity
                    ELSE COALESCE(( SELECT repricer.seats_of(array_agg(k.*)) AS seats_of
                       FROM repricer.charges k
                      WHERE ((k.original_transaction_id = c.original_transaction_id) AND (k.sku = l.sku) AND (k.currency = c.currency) AND (k.purchased_at <= c.ended_at) AND (COALESCE(k.expires_at, k.purchased_at) = COALESCE(l.expires_at, l.purchased_at)))), l.quantity)
                END)::numeric)), (('the other items that price change '::text || c.change_id) || ' took along'::text)) AS lost_milliunits
           FROM ( SELECT DISTINCT ON (h.sku) h.sku,
                    h.price_milliunits,
                    h.purchased_at,
                    h.expires_at,
                    count(*) OVER period AS paid_by,
                    max(h.quantity) OVER period AS quantity
                   FROM repricer.charges h
                  WHERE ((h.original_transaction_id = c.original_transaction_id) AND (h.purchased_at <= c.ended_at) AND (h.currency = c.currency) AND (NOT repricer.is_of_item(h.sku, h.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)))
                  WINDOW period AS (PARTITION BY h.sku, COALESCE(h.expires_at, h.purchased_at))
                  ORDER BY h.sku, h.purchased_at DESC, h.transaction_id) l
          WHERE ((c.state = 'declined'::text) AND (c.reason IS DISTINCT FROM 'parent_declined'::text) AND (c.undoes_change_id IS NULL) AND ((l.expires_at + (repricer.span(l.purchased_at, l.expires_at) / (2)::double precision)) > c.ended_at) AND (EXISTS ( SELECT
                   FROM repricer.told_statements e
                  WHERE ((e.original_transaction_id = c.original_transaction_id) AND (e.type = 'EXPIRED'::text) AND (e.subtype = 'PRICE_INCREASE'::text) AND ((e.signed_at >= (c.ended_at - repricer.days(1))) AND (e.signed_at <= (c.ended_at + repricer.days(1))))))) AND (NOT (EXISTS ( SELECT
                   FROM repricer.price_changes n
                  WHERE ((n.original_transaction_id = c.original_transaction_id) AND (n.undoes_change_id IS NULL) AND (((n.state = 'declined'::text) AND ((l.sku = ANY (n.dependent_skus)) OR (l.sku = ANY (n.current_dependent_skus)) OR ((n.change_id < c.change_id) AND (n.reason IS DISTINCT FROM 'parent_declined'::text) AND (n.ended_at > (c.ended_at - repricer.days(1)))))) OR (((l.sku = n.sku) OR (l.sku = n.current_sku)) AND ((n.state = 'declined'::text) OR (n.reason = 'parent_declined'::text) OR ((n.state = 'cancelled'::text) AND (n.direction = 'increase'::text) AND (COALESCE(n.consent_asked_at, n.accepted_at) IS NOT NULL))))))))))) o ON ((c.state = 'declined'::text)))
     LEFT JOIN LATERAL ( SELECT count(*) AS renewals,
            min(h.purchased_at) AS first_at,
            repricer.fitting(sum(h.old_price_milliunits), (('the renewals of price change '::text || c.change_id) || ', at the old price,'::text)) AS old_total_milliunits,
            repricer.fitting(sum(h.price_milliunits), ('the renewals of price change '::text || c.change_id)) AS new_total_milliunits,
            count(h.tax_exclusive_milliunits) AS taxed_renewals,
            repricer.fitting(sum(((h.tax_exclusive_milliunits)::numeric - round((((h.old_price_milliunits)::numeric * (h.tax_exclusive_milliunits)::numeric) / (NULLIF(h.price_milliunits, 0))::numeric)))), ('the uplift without tax of price change '::text || c.change_id)) AS taxed_uplift_milliunits
           FROM ( SELECT n.batch_id,
                    n.original_transaction_id,
                    n.change_id,
                    n.transaction_id,
                    n.purchased_at,
                    n.old_price_milliunits,
                    n.price_milliunits,
                    n.tax_exclusive_milliunits
                   FROM repricer.charged_renewals n
                  WHERE ((c.state = 'effective'::text) AND (n.original_transaction_id = c.original_transaction_id) AND (n.change_id = c.change_id))
                 OFFSET 0) h) r ON (true));

COMMENT ON VIEW repricer.live_change_figures IS 'What change_figures keeps, computed from the facts.';

CREATE VIEW repricer.unkept_change_figures AS
 SELECT c.original_transaction_id,
    c.bucket,
    c.change_id,
    c.batch_id,
    (c.undoes_change_id IS NOT NULL) AS is_undo,
    c.direction,
    c.forecast_consent,
    c.currency,
    c.storefront,
    c.period,
    c.state,
    (COALESCE(c.sent_at, c.scheduled_at, c.consent_asked_at, c.accepted_at, c.effective_at) IS NOT NULL) AS is_sent,
    ((c.consent_asked_at IS NOT NULL) OR COALESCE((c.acceptance = 'consented'::text), false)) AS is_asked,
    c.acceptance,
    false AS is_uncharged,
    c.current_price_milliunits,
    c.new_price_milliunits,
    (0)::bigint AS renewals,
    NULL::timestamp with time zone AS first_at,
    (0)::bigint AS old_total_milliunits,
    (0)::bigint AS new_total_milliunits,
    c.stage,
    false AS is_final,
    c.is_leaving,
    (COALESCE(c.consent_asked_at, c.accepted_at) IS NOT NULL) AS is_told,
    false AS fell_with_parent,
    (0)::bigint AS others_lost_milliunits,
    (0)::bigint AS taxed_renewals,
    (0)::bigint AS taxed_uplift_milliunits,
    NULL::timestamp with time zone AS paid_until,
    NULL::timestamp with time zone AS word_due_at,
    NULL::text AS paid_sku,
    NULL::bigint AS paid_quantity,
    (1)::bigint AS seats
   FROM repricer.price_changes c
  WHERE (c.stage = ANY (ARRAY['awaiting_approval'::text, 'queued'::text, 'unknown'::text, 'scheduled'::text, 'pending_consent'::text, 'accepted'::text]))
UNION ALL
 SELECT m.original_transaction_id,
    f.bucket,
    f.change_id,
    m.batch_id,
    f.is_undo,
    f.direction,
    f.forecast_consent,
    f.currency,
    f.storefront,
    f.period,
    f.state,
    f.is_sent,
    f.is_asked,
    f.acceptance,
    f.is_uncharged,
    f.current_price_milliunits,
    f.new_price_milliunits,
    f.renewals,
    f.first_at,
    f.old_total_milliunits,
    f.new_total_milliunits,
    f.stage,
    f.is_final,
    f.is_leaving,
    f.is_told,
    f.fell_with_parent,
    f.others_lost_milliunits,
    f.taxed_renewals,
    f.taxed_uplift_milliunits,
    f.paid_until,
    f.word_due_at,
    f.paid_sku,
    f.paid_quantity,
    f.seats
   FROM (repricer.marked_batches m
     CROSS JOIN LATERAL ( SELECT l.original_transaction_id,
            l.bucket,
            l.change_id,
            l.batch_id,
            l.is_undo,
            l.direction,
            l.forecast_consent,
            l.currency,
            l.storefront,
            l.period,
            l.state,
            l.is_sent,
            l.is_asked,
            l.acceptance,
            l.is_uncharged,
            l.current_price_milliunits,
            l.new_price_milliunits,
            l.renewals,
            l.first_at,
            l.old_total_milliunits,
            l.new_total_milliunits,
            l.stage,
            l.is_final,
            l.is_leaving,
            l.is_told,
            l.fell_with_parent,
            l.others_lost_milliunits,
            l.taxed_renewals,
            l.taxed_uplift_milliunits,
            l.paid_until,
            l.word_due_at,
            l.paid_sku,
            l.paid_quantity,
            l.seats
           FROM repricer.live_change_figures l
          WHERE ((l.original_transaction_id = m.original_transaction_id) AND (l.batch_id = m.batch_id) AND (l.stage <> ALL (ARRAY['awaiting_approval'::text, 'queued'::text, 'unknown'::text, 'scheduled'::text, 'pending_consent'::text, 'accepted'::text])))
         OFFSET 0) f);

COMMENT ON VIEW repricer.unkept_change_figures IS 'The figures of changes that are open, or whose subscription is marked.';

CREATE VIEW repricer.untallied_changes AS
 SELECT f.batch_id,
    f.is_undo,
    f.direction,
    f.forecast_consent,
    f.currency,
    f.storefront,
    f.period,
    f.weight AS changes,
        CASE
            WHEN f.is_sent THEN f.weight
            ELSE (0)::bigint
        END AS sent,
        CASE
            WHEN f.is_asked THEN f.weight
            ELSE (0)::bigint
        END AS asked_for_consent,
        CASE
            WHEN (f.acceptance = 'consented'::text) THEN f.weight
            ELSE (0)::bigint
        END AS consented,
        CASE
            WHEN (f.acceptance = 'informed'::text) THEN f.weight
            ELSE (0)::bigint
        END AS informed,
        CASE
            WHEN (f.state = 'effective'::text) THEN f.weight
            ELSE (0)::bigint
        END AS effective,
        CASE
            WHEN ((f.state = 'declined'::text) AND (NOT f.fell_with_parent)) THEN f.weight
            ELSE (0)::bigint
        END AS declined,
        CASE
            WHEN ((f.state = 'cancelled'::text) AND (NOT f.fell_with_parent)) THEN f.weight
            ELSE (0)::bigint
        END AS cancelled,
        CASE
            WHEN (f.state = 'lapsed'::text) THEN f.weight
            ELSE (0)::bigint
        END AS lapsed,
        CASE
            WHEN (f.state = ANY (ARRAY['invalidated'::text, 'rejected'::text, 'ineligible'::text, 'missed'::text, 'aborted'::text])) THEN f.weight
            ELSE (0)::bigint
        END AS other,
        CASE
            WHEN f.is_uncharged THEN f.weight
            ELSE (0)::bigint
        END AS uncharged,
        CASE
            WHEN (f.renewals > 0) THEN f.weight
            ELSE (0)::bigint
        END AS charged_changes,
    (f.weight * f.renewals) AS charged_renewals,
    (f.weight * f.old_total_milliunits) AS old_total,
    (f.weight * f.new_total_milliunits) AS new_total,
        CASE
            WHEN ((f.renewals > 0) AND (NOT f.is_leaving)) THEN (f.weight * f.current_price_milliunits)
            ELSE (0)::bigint
        END AS old_per_period,
        CASE
            WHEN ((f.renewals > 0) AND (NOT f.is_leaving)) THEN (f.weight * f.new_price_milliunits)
            ELSE (0)::bigint
        END AS new_per_period,
        CASE
            WHEN ((f.state = 'declined'::text) AND (NOT f.fell_with_parent)) THEN (f.weight * f.current_price_milliunits)
            ELSE (0)::bigint
        END AS declined_lost,
        CASE
            WHEN ((f.state = 'cancelled'::text) AND (NOT f.fell_with_parent) AND f.is_told AND (f.direction = 'increase'::text)) THEN (f.weight * f.current_price_milliunits)
            ELSE (0)::bigint
        END AS cancelled_lost,
        CASE
            WHEN f.fell_with_parent THEN f.weight
            ELSE (0)::bigint
        END AS fell_with_parent,
        CASE
            WHEN f.fell_with_parent THEN (f.weight * f.current_price_milliunits)
            ELSE (0)::bigint
        END AS fell_lost,
        CASE
            WHEN ((f.state = 'lapsed'::text) AND f.is_told AND (f.direction = 'increase'::text)) THEN (f.weight * f.current_price_milliunits)
            ELSE (0)::bigint
        END AS lapsed_lost,
    (f.weight * f.others_lost_milliunits) AS others_lost,
    (f.weight * f.taxed_renewals) AS taxed_renewals,
    (f.weight * f.taxed_uplift_milliunits) AS taxed_uplift,
        CASE
            WHEN f.is_silent THEN f.weight
            ELSE (0)::bigint
        END AS silent,
        CASE
            WHEN f.is_silent THEN (f.weight * f.current_price_milliunits)
            ELSE (0)::bigint
        END AS silent_old,
        CASE
            WHEN f.is_silent THEN (f.weight * f.new_price_milliunits)
            ELSE (0)::bigint
        END AS silent_new,
    f.original_transaction_id,
    f.is_final
   FROM ( SELECT k.original_transaction_id,
            k.bucket,
            k.change_id,
            k.batch_id,
            k.is_undo,
            k.direction,
            k.forecast_consent,
            k.currency,
            k.storefront,
            k.period,
            k.state,
            k.is_sent,
            k.is_asked,
            k.acceptance,
            k.is_uncharged,
            (k.current_price_milliunits * k.seats) AS current_price_milliunits,
            (k.new_price_milliunits * k.seats) AS new_price_milliunits,
            k.renewals,
            k.first_at,
            k.old_total_milliunits,
            k.new_total_milliunits,
            k.is_leaving,
            k.is_told,
            k.fell_with_parent,
            k.others_lost_milliunits,
            k.taxed_renewals,
            k.taxed_uplift_milliunits,
            COALESCE(((k.renewals > 0) AND (NOT k.is_leaving) AND (k.word_due_at < ( SELECT d.until
                   FROM repricer.heard_charges d))), false) AS is_silent,
            ('-1'::integer)::bigint AS weight,
            true AS is_final
           FROM repricer.change_figures k
          WHERE (EXISTS ( SELECT
                   FROM repricer.stale_figures s
                  WHERE (s.original_transaction_id = k.original_transaction_id)))
        UNION ALL
         SELECT l.original_transaction_id,
            l.bucket,
            l.change_id,
            l.batch_id,
            l.is_undo,
            l.direction,
            l.forecast_consent,
            l.currency,
            l.storefront,
            l.period,
            l.state,
            l.is_sent,
            l.is_asked,
            l.acceptance,
            l.is_uncharged,
            (l.current_price_milliunits * l.seats),
            (l.new_price_milliunits * l.seats),
            l.renewals,
            l.first_at,
            l.old_total_milliunits,
            l.new_total_milliunits,
            l.is_leaving,
            l.is_told,
            l.fell_with_parent,
            l.others_lost_milliunits,
            l.taxed_renewals,
            l.taxed_uplift_milliunits,
            COALESCE(((l.renewals > 0) AND (NOT l.is_leaving) AND (l.word_due_at < ( SELECT d.until
                   FROM repricer.heard_charges d))), false) AS "coalesce",
            1,
            l.is_final
           FROM repricer.unkept_change_figures l) f;

COMMENT ON VIEW repricer.untallied_changes IS 'What must be added to the tallies for changes that are open or marked: what the facts say, less what is kept of them.';

CREATE VIEW repricer.change_tallies AS
 SELECT t.batch_id,
    t.is_undo,
    t.direction,
    t.forecast_consent,
    t.currency,
    t.storefront,
    t.period,
    t.changes,
    t.sent,
    t.asked_for_consent,
    t.consented,
    t.informed,
    t.effective,
    t.declined,
    t.cancelled,
    t.lapsed,
    t.other,
    t.uncharged,
    t.charged_changes,
    t.charged_renewals,
    t.old_total,
    t.new_total,
    t.old_per_period,
    t.new_per_period,
    t.declined_lost,
    t.cancelled_lost,
    t.fell_with_parent,
    t.fell_lost,
    t.lapsed_lost,
    t.others_lost,
    t.taxed_renewals,
    t.taxed_uplift,
    (0)::bigint AS silent,
    (0)::bigint AS silent_old,
    (0)::bigint AS silent_new
   FROM repricer.figure_tallies t
UNION ALL
 SELECT k.batch_id,
    k.is_undo,
    k.direction,
    k.forecast_consent,
    k.currency,
    k.storefront,
    k.period,
    0 AS changes,
    0 AS sent,
    0 AS asked_for_consent,
    0 AS consented,
    0 AS informed,
    0 AS effective,
    0 AS declined,
    0 AS cancelled,
    0 AS lapsed,
    0 AS other,
    0 AS uncharged,
    0 AS charged_changes,
    0 AS charged_renewals,
    0 AS old_total,
    0 AS new_total,
    0 AS old_per_period,
    0 AS new_per_period,
    0 AS declined_lost,
    0 AS cancelled_lost,
    0 AS fell_with_parent,
    0 AS fell_lost,
    0 AS lapsed_lost,
    0 AS others_lost,
    0 AS taxed_renewals,
    0 AS taxed_uplift,
    1 AS silent,
    (k.current_price_milliunits * k.seats) AS silent_old,
    (k.new_price_milliunits * k.seats) AS silent_new
   FROM repricer.change_figures k
  WHERE ((k.word_due_at < ( SELECT d.until
           FROM repricer.heard_charges d)) AND (k.renewals > 0) AND (NOT k.is_leaving))
UNION ALL
 SELECT u.batch_id,
    u.is_undo,
    u.direction,
    u.forecast_consent,
    u.currency,
    u.storefront,
    u.period,
    u.changes,
    u.sent,
    u.asked_for_consent,
    u.consented,
    u.informed,
    u.effective,
    u.declined,
    u.cancelled,
    u.lapsed,
    u.other,
    u.uncharged,
    u.charged_changes,
    u.charged_renewals,
    u.old_total,
    u.new_total,
    u.old_per_period,
    u.new_per_period,
    u.declined_lost,
    u.cancelled_lost,
    u.fell_with_parent,
    u.fell_lost,
    u.lapsed_lost,
    u.others_lost,
    u.taxed_renewals,
    u.taxed_uplift,
    u.silent,
    u.silent_old,
    u.silent_new
   FROM repricer.untallied_changes u;

COMMENT ON VIEW repricer.change_tallies IS 'The figures of all changes, exact at any moment. Its rows must be added up.';

CREATE VIEW report.consent_funnel AS
 WITH funnels AS (
         SELECT t.batch_id,
            t.direction,
            t.forecast_consent,
            (sum(t.changes))::bigint AS changes,
            (sum(t.sent))::bigint AS sent,
            (sum(t.asked_for_consent))::bigint AS asked_for_consent,
            (sum(t.consented))::bigint AS consented,
            (sum(t.informed))::bigint AS informed,
            (sum(t.effective))::bigint AS effective,
            (sum(t.declined))::bigint AS declined,
            (sum(t.cancelled))::bigint AS cancelled,
            (sum(t.lapsed))::bigint AS lapsed,
            (sum(t.other))::bigint AS other,
            (sum(t.fell_with_parent))::bigint AS fell_with_parent
           FROM repricer.change_tallies t
          WHERE (NOT t.is_undo)
          GROUP BY t.batch_id, t.direction, t.forecast_consent
         HAVING (sum(t.changes) > (0)::numeric)
        )
 SELECT f.batch_id,
    b.name AS batch_name,
    f.direction,
    f.forecast_consent,
    f.changes,
    f.sent,
    f.asked_for_consent,
    f.consented,
    f.informed,
    f.effective,
    f.declined,
    f.cancelled,
    f.lapsed,
    f.other,
    ((((((f.changes - f.effective) - f.declined) - f.cancelled) - f.lapsed) - f.other) - f.fell_with_parent) AS open,
    (round((((f.consented)::numeric * (10000)::numeric) / (NULLIF(f.asked_for_consent, 0))::numeric)))::bigint AS consented_basis_points,
    (round((((f.declined)::numeric * (10000)::numeric) / (NULLIF(f.asked_for_consent, 0))::numeric)))::bigint AS declined_basis_points,
    (round((((f.cancelled)::numeric * (10000)::numeric) / (NULLIF(f.sent, 0))::numeric)))::bigint AS cancelled_basis_points,
    (round((((f.effective)::numeric * (10000)::numeric) / (NULLIF(f.changes, 0))::numeric)))::bigint AS effective_basis_points,
    f.fell_with_parent
   FROM (funnels f
     JOIN repricer.batches b ON ((b.batch_id = f.batch_id)));

COMMENT ON VIEW report.consent_funnel IS 'From changes to renewals, for each batch, direction and forecast of consent.';

COMMENT ON COLUMN report.consent_funnel.batch_id IS 'The batch; null where the row is about the whole installation.';

COMMENT ON COLUMN report.consent_funnel.batch_name IS 'The name that the submitter gave to the batch.';

COMMENT ON COLUMN report.consent_funnel.direction IS 'increase or decrease.';

COMMENT ON COLUMN report.consent_funnel.forecast_consent IS 'Consent as forecast: required, not_known, not_required (announced only), none (a decrease).';

COMMENT ON COLUMN report.consent_funnel.changes IS 'Number of price changes.';

COMMENT ON COLUMN report.consent_funnel.sent IS 'Changes that were sent to the App Store.';

COMMENT ON COLUMN report.consent_funnel.asked_for_consent IS 'Changes for which the App Store asked for consent, told or not: nobody consents or declines unasked.';

COMMENT ON COLUMN report.consent_funnel.consented IS 'Changes that the subscriber consented to.';

COMMENT ON COLUMN report.consent_funnel.informed IS 'Changes that were announced without a need of consent.';

COMMENT ON COLUMN report.consent_funnel.effective IS 'Changes that took effect.';

COMMENT ON COLUMN report.consent_funnel.declined IS 'Changes that ended without the consent they needed; those that fell with another item are not among them.';

COMMENT ON COLUMN report.consent_funnel.cancelled IS 'Changes whose subscriber left, or was refunded or revoked; those that fell with another item are not among them.';

COMMENT ON COLUMN report.consent_funnel.lapsed IS 'Changes that ended for billing or product reasons.';

COMMENT ON COLUMN report.consent_funnel.other IS 'Changes that were invalidated, rejected, ineligible, missed or aborted.';

COMMENT ON COLUMN report.consent_funnel.open IS 'Changes from which more is expected. changes = effective + declined + cancelled + lapsed + other + fell_with_parent + open.';

COMMENT ON COLUMN report.consent_funnel.consented_basis_points IS 'consented of asked_for_consent, in hundredths of a per cent; null where nobody was asked.';

COMMENT ON COLUMN report.consent_funnel.declined_basis_points IS 'declined of asked_for_consent, likewise.';

COMMENT ON COLUMN report.consent_funnel.cancelled_basis_points IS 'cancelled of sent, likewise.';

COMMENT ON COLUMN report.consent_funnel.effective_basis_points IS 'effective of changes, likewise.';

COMMENT ON COLUMN report.consent_funnel.fell_with_parent IS 'Changes of dependents that ended since the increase of the item that they hang on was declined.';

CREATE FUNCTION report.consent_funnel_as_of(p_at timestamp with time zone, batch uuid DEFAULT NULL::uuid) RETURNS SETOF report.consent_funnel
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
#variable_conflict use_column
DECLARE
    p_batch ALIAS FOR batch;
BEGIN
    PERFORM repricer.require_past(p_at);
    RETURN QUERY SELECT * FROM (
 WITH funnels AS (
         SELECT t.batch_id,
            t.direction,
            t.forecast_consent,
            (sum(t.changes))::bigint AS changes,
            (sum(t.sent))::bigint AS sent,
            (sum(t.asked_for_consent))::bigint AS asked_for_consent,
            (sum(t.consented))::bigint AS consented,
            (sum(t.informed))::bigint AS informed,
            (sum(t.effective))::bigint AS effective,
            (sum(t.declined))::bigint AS declined,
            (sum(t.cancelled))::bigint AS cancelled,
            (sum(t.lapsed))::bigint AS lapsed,
            (sum(t.other))::bigint AS other,
            (sum(t.fell_with_parent))::bigint AS fell_with_parent
           FROM (
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
        FROM repricer.price_changes_at(p_at) c) t
          WHERE (NOT t.is_undo)
          GROUP BY t.batch_id, t.direction, t.forecast_consent
         HAVING (sum(t.changes) > (0)::numeric)
        )
 SELECT f.batch_id,
    b.name AS batch_name,
    f.direction,
    f.forecast_consent,
    f.changes,
    f.sent,
    f.asked_for_consent,
    f.consented,
    f.informed,
    f.effective,
    f.declined,
    f.cancelled,
    f.lapsed,
    f.other,
    ((((((f.changes - f.effective) - f.declined) - f.cancelled) - f.lapsed) - f.other) - f.fell_with_parent) AS open,
    (round((((f.consented)::numeric * (10000)::numeric) / (NULLIF(f.asked_for_consent, 0))::numeric)))::bigint AS consented_basis_points,
    (round((((f.declined)::numeric * (10000)::numeric) / (NULLIF(f.asked_for_consent, 0))::numeric)))::bigint AS declined_basis_points,
    (round((((f.cancelled)::numeric * (10000)::numeric) / (NULLIF(f.sent, 0))::numeric)))::bigint AS cancelled_basis_points,
    (round((((f.effective)::numeric * (10000)::numeric) / (NULLIF(f.changes, 0))::numeric)))::bigint AS effective_basis_points,
    f.fell_with_parent
   FROM (funnels f
     JOIN repricer.batches_at(p_at) b ON ((b.batch_id = f.batch_id)))
    ) v WHERE p_batch IS NULL OR v.batch_id = p_batch;
END
$$;

COMMENT ON FUNCTION report.consent_funnel_as_of(p_at timestamp with time zone, batch uuid) IS 'report.consent_funnel as it was known at the instant: by what was recorded until then, late news left out.';

CREATE TABLE repricer.dependent_cancellations (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    change_id uuid NOT NULL,
    dependent_sku text NOT NULL,
    parent_sku text NOT NULL,
    batch_id uuid NOT NULL,
    cause text NOT NULL,
    is_cross_subscription boolean DEFAULT false NOT NULL,
    target_transaction_id text,
    target_period text,
    cancel_reference_id uuid,
    state text DEFAULT 'requested'::text NOT NULL,
    price_milliunits bigint,
    currency text,
    requested_at timestamp with time zone NOT NULL,
    requested_by_evidence text NOT NULL,
    settled_at timestamp with time zone,
    settled_by_evidence text,
    detail text,
    next_check_at timestamp with time zone,
    checks integer DEFAULT 0 NOT NULL,
    put_back_for text,
    recorded_at timestamp with time zone DEFAULT repricer.recording_instant() NOT NULL,
    CONSTRAINT dependent_cancellations_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id))),
    CONSTRAINT dependent_cancellations_proof CHECK (((state <> 'confirmed'::text) OR (settled_by_evidence IS NOT NULL))),
    CONSTRAINT dependent_cancellations_state CHECK ((state = ANY (ARRAY['requested'::text, 'confirmed'::text, 'cancel_sent'::text, 'discrepancy'::text, 'not_needed'::text])))
);
ALTER TABLE ONLY repricer.dependent_cancellations ALTER COLUMN batch_id SET STATISTICS 0;

COMMENT ON COLUMN repricer.dependent_cancellations.is_cross_subscription IS 'Whether the item is on another subscription of the customer. The App Store does not drop it, so Cancel a Subscription is called.';

COMMENT ON COLUMN repricer.dependent_cancellations.target_transaction_id IS 'The subscription that carries the item, once it is found.';

COMMENT ON COLUMN repricer.dependent_cancellations.target_period IS 'The period that the carrying subscription had when it was found; price_milliunits is for that period. Events about the dependent name it, and that subscription may be in another bucket.';

COMMENT ON COLUMN repricer.dependent_cancellations.cancel_reference_id IS 'The requestReferenceId of the call that cancels it.';

COMMENT ON COLUMN repricer.dependent_cancellations.recorded_at IS 'When it was recorded as it stands here. What was known before is in dependent_cancellation_versions.';

CREATE VIEW repricer.returned_dependents AS
 SELECT d.batch_id,
    d.original_transaction_id,
    d.bucket,
    d.change_id,
    d.dependent_sku
   FROM (repricer.dependent_cancellations d
     CROSS JOIN LATERAL ( SELECT min(k_1.purchased_at) FILTER (WHERE (NOT k_1.is_purchase)) AS renewed_at,
            min(k_1.purchased_at) FILTER (WHERE (k_1.is_purchase AND (NOT k_1.is_added_seat))) AS bought_at
           FROM repricer.charges k_1
          WHERE ((k_1.original_transaction_id = COALESCE(d.target_transaction_id, d.original_transaction_id)) AND (k_1.sku =
                CASE
                    WHEN d.is_cross_subscription THEN regexp_replace(d.dependent_sku, '^[0-9]+/'::text, ''::text)
                    ELSE d.dependent_sku
                END) AND (k_1.purchased_at > d.settled_at) AND ((k_1.refunded_milliunits = 0) OR (k_1.refunded_milliunits < (k_1.price_milliunits * k_1.quantity))))) k)
  WHERE ((d.state = 'confirmed'::text) AND (k.renewed_at < COALESCE(k.bought_at, 'infinity'::timestamp with time zone)));

COMMENT ON VIEW repricer.returned_dependents IS 'Dependents that were proved cancelled, and renewed since.';

CREATE VIEW report.dependent_cancellation AS
 SELECT d.batch_id,
    b.name AS batch_name,
    d.original_transaction_id,
    d.change_id,
    d.parent_sku,
    d.dependent_sku,
    d.cause,
    d.state,
    d.currency,
    d.price_milliunits,
    d.requested_at,
    d.requested_by_evidence,
    d.settled_at,
    d.settled_by_evidence,
    d.detail,
    ((d.state = 'confirmed'::text) AND (NOT (EXISTS ( SELECT
           FROM repricer.returned_dependents x
          WHERE ((x.original_transaction_id = d.original_transaction_id) AND (x.bucket = d.bucket) AND (x.change_id = d.change_id) AND (x.batch_id = d.batch_id) AND (x.dependent_sku = d.dependent_sku)))))) AS is_proved,
    d.is_cross_subscription,
    d.target_transaction_id AS dependent_transaction_id,
    d.cancel_reference_id,
        CASE
            WHEN d.is_cross_subscription THEN COALESCE(d.target_period, t.period)
            ELSE c.period
        END AS period
   FROM (((repricer.dependent_cancellations d
     JOIN repricer.batches b ON ((b.batch_id = d.batch_id)))
     LEFT JOIN repricer.price_changes c ON (((c.original_transaction_id = d.original_transaction_id) AND (c.change_id = d.change_id))))
     LEFT JOIN repricer.subscriptions t ON ((t.original_transaction_id = d.target_transaction_id)));

COMMENT ON VIEW report.dependent_cancellation IS 'Each dependent item to be cancelled since its parent''s increase was declined, and the proof.';

COMMENT ON COLUMN report.dependent_cancellation.batch_id IS 'The batch; null where the row is about the whole installation.';

COMMENT ON COLUMN report.dependent_cancellation.batch_name IS 'The name that the submitter gave to the batch.';

COMMENT ON COLUMN report.dependent_cancellation.original_transaction_id IS 'The subscription, as Apple names it.';

COMMENT ON COLUMN report.dependent_cancellation.change_id IS 'The declined price change of the parent.';

COMMENT ON COLUMN report.dependent_cancellation.parent_sku IS 'The item whose increase was declined.';

COMMENT ON COLUMN report.dependent_cancellation.dependent_sku IS 'The item to be cancelled with it.';

COMMENT ON COLUMN report.dependent_cancellation.cause IS 'Why the parent ended.';

COMMENT ON COLUMN report.dependent_cancellation.state IS 'requested, confirmed (proved), cancel_sent, discrepancy (could not be proved) or not_needed.';

COMMENT ON COLUMN report.dependent_cancellation.currency IS 'ISO 4217: the currency of all money in the row.';

COMMENT ON COLUMN report.dependent_cancellation.price_milliunits IS 'What is lost each period of one seat: the dependent''s price, in thousandths of the currency; null: not known.';

COMMENT ON COLUMN report.dependent_cancellation.requested_at IS 'When the cancellation was recorded.';

COMMENT ON COLUMN report.dependent_cancellation.requested_by_evidence IS 'The signed statement that called for it.';

COMMENT ON COLUMN report.dependent_cancellation.settled_at IS 'When it was proved or given up.';

COMMENT ON COLUMN report.dependent_cancellation.settled_by_evidence IS 'The signed statement that proves it.';

COMMENT ON COLUMN report.dependent_cancellation.detail IS 'What was found, in words.';

COMMENT ON COLUMN report.dependent_cancellation.is_proved IS 'Whether a signed statement shows that the item is gone, and no renewal of it was charged since.';

COMMENT ON COLUMN report.dependent_cancellation.is_cross_subscription IS 'Whether the item is on another subscription of the customer.';

COMMENT ON COLUMN report.dependent_cancellation.dependent_transaction_id IS 'That subscription, once found.';

COMMENT ON COLUMN report.dependent_cancellation.cancel_reference_id IS 'The requestReferenceId of the call of Cancel a Subscription; null: none was made.';

COMMENT ON COLUMN report.dependent_cancellation.period IS 'The period that it is paid by, as P1M; on another subscription that one''s. Null: not known.';

CREATE FUNCTION report.dependent_cancellation_as_of(p_at timestamp with time zone, batch uuid DEFAULT NULL::uuid) RETURNS SETOF report.dependent_cancellation
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
#variable_conflict use_column
DECLARE
    p_batch ALIAS FOR batch;
BEGIN
    PERFORM repricer.require_past(p_at);
    RETURN QUERY SELECT * FROM (
 SELECT d.batch_id,
    b.name AS batch_name,
    d.original_transaction_id,
    d.change_id,
    d.parent_sku,
    d.dependent_sku,
    d.cause,
    d.state,
    d.currency,
    d.price_milliunits,
    d.requested_at,
    d.requested_by_evidence,
    d.settled_at,
    d.settled_by_evidence,
    d.detail,
    ((d.state = 'confirmed'::text) AND (NOT (EXISTS ( SELECT
           FROM repricer.returned_dependents_at(p_at) x
          WHERE ((x.original_transaction_id = d.original_transaction_id) AND (x.bucket = d.bucket) AND (x.change_id = d.change_id) AND (x.batch_id = d.batch_id) AND (x.dependent_sku = d.dependent_sku)))))) AS is_proved,
    d.is_cross_subscription,
    d.target_transaction_id AS dependent_transaction_id,
    d.cancel_reference_id,
        CASE
            WHEN d.is_cross_subscription THEN COALESCE(d.target_period, t.period)
            ELSE c.period
        END AS period
   FROM (((repricer.dependent_cancellations_at(p_at) d
     JOIN repricer.batches_at(p_at) b ON ((b.batch_id = d.batch_id)))
     LEFT JOIN repricer.price_changes_at(p_at) c ON (((c.original_transaction_id = d.original_transaction_id) AND (c.change_id = d.change_id))))
     LEFT JOIN repricer.subscriptions_at(p_at) t ON ((t.original_transaction_id = d.target_transaction_id)))
    ) v WHERE p_batch IS NULL OR v.batch_id = p_batch;
END
$$;

COMMENT ON FUNCTION report.dependent_cancellation_as_of(p_at timestamp with time zone, batch uuid) IS 'report.dependent_cancellation as it was known at the instant: by what was recorded until then, late news left out.';

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
    changes bigint NOT NULL
);

COMMENT ON TABLE repricer.forecast_tallies IS 'How many changes of change_figures have which outcome. Only summarise_figures writes it, one session at a time.';

COMMENT ON COLUMN repricer.forecast_tallies.outcome IS 'A hash of all columns from direction to is_siblings_doing.';

COMMENT ON COLUMN repricer.forecast_tallies.came IS 'Whether it took effect earlier or later than forecast, or as_forecast; null: it did not.';

CREATE VIEW repricer.live_forecast_outcomes AS
 SELECT o.original_transaction_id,
    o.change_id,
    o.batch_id,
    o.stage,
    (md5((ROW(o.direction, o.forecast_consent, o.forecast_threshold_source, o.forecast_reasons, o.forecast_not_known, o.forecast_because, o.came_consent, o.came, o.has_moved, o.slip, o.is_siblings_doing))::text))::uuid AS outcome,
    o.direction,
    o.forecast_consent,
    o.forecast_threshold_source,
    o.forecast_reasons,
    o.forecast_not_known,
    o.forecast_because,
    o.came_consent,
    o.came,
    o.has_moved,
    o.slip,
    o.is_siblings_doing,
    (1)::bigint AS changes
   FROM ( SELECT c.original_transaction_id,
            c.change_id,
            c.batch_id,
            c.stage,
            c.direction,
            c.forecast_consent,
            c.forecast_threshold_source,
            c.forecast_reasons,
            came.consent AS came_consent,
                CASE
                    WHEN (c.effective_at < c.forecast_effective_at) THEN 'earlier'::text
                    WHEN (c.effective_at > (c.forecast_effective_at +
                    CASE
                        WHEN (COALESCE(c.moved_before_call, c.moved_since_call) IS NULL) THEN '01:00:00'::interval
                        ELSE '00:00:00'::interval
                    END)) THEN 'later'::text
                    WHEN (c.effective_at IS NOT NULL) THEN 'as_forecast'::text
                    ELSE NULL::text
                END AS came,
            (COALESCE(c.planned_effective_at, c.due_effective_at) > c.forecast_effective_at) AS has_moved,
                CASE
                    WHEN (c.forecast_consent = 'not_known'::text) THEN c.forecast_not_known
                    ELSE '{}'::text[]
                END AS forecast_not_known,
                CASE
                    WHEN ('increase_within_12_months'::text = ANY (c.forecast_reasons)) THEN
                    CASE
                        WHEN jsonb_path_exists(c.forecast_rules, '$[*]?(@."rule" == "increase_within_12_months")."inputs"."because"?(!(@ like_regex "^[0-9]{4}-[0-9]{2}-[0-9]{2}T"))'::jsonpath) THEN 'sibling'::text
                        ELSE 'earlier_increase'::text
                    END
                    ELSE NULL::text
                END AS forecast_because,
                CASE
                    WHEN (COALESCE(c.effective_at, c.due_effective_at) > c.forecast_effective_at) THEN COALESCE(c.moved_before_call, c.moved_since_call)
                    ELSE NULL::text
                END AS slip,
                CASE
                    WHEN ((c.forecast_consent = 'not_required'::text) AND (came.consent = 'required'::text)) THEN (EXISTS ( SELECT
                       FROM repricer.price_changes s
                      WHERE ((s.original_transaction_id = c.original_transaction_id) AND (s.change_id <> c.change_id) AND (s.direction = 'increase'::text) AND (s.undoes_change_id IS NULL) AND ((
                            CASE
                                WHEN (s.state = ANY (ARRAY['scheduled'::text, 'pending_consent'::text, 'accepted'::text])) THEN s.due_effective_at
                                ELSE s.effective_at
                            END >= (((COALESCE(c.sent_at, c.consent_asked_at) AT TIME ZONE 'UTC'::text) - '1 year'::interval) AT TIME ZONE 'UTC'::text)) AND (
                            CASE
                                WHEN (s.state = ANY (ARRAY['scheduled'::text, 'pending_consent'::text, 'accepted'::text])) THEN s.due_effective_at
                                ELSE s.effective_at
                            END <= (COALESCE(c.effective_at, c.due_effective_at) - '00:00:00.001'::interval))))))
                    ELSE false
                END AS is_siblings_doing
           FROM (repricer.price_changes c
             CROSS JOIN LATERAL ( SELECT
                        CASE
                            WHEN ((c.consent_asked_at IS NOT NULL) OR (c.acceptance = 'consented'::text)) THEN 'required'::text
                            WHEN ((c.state = 'declined'::text) AND (c.reason IS DISTINCT FROM 'parent_declined'::text)) THEN 'required'::text
                            WHEN (c.acceptance = 'informed'::text) THEN 'not_required'::text
                            WHEN ((c.direction = 'decrease'::text) AND (COALESCE(c.scheduled_at, c.effective_at) IS NOT NULL)) THEN 'none'::text
                            ELSE NULL::text
                        END AS consent) came)
          WHERE ((c.undoes_change_id IS NULL) AND (NOT c.is_held_out))) o;

COMMENT ON VIEW repricer.live_forecast_outcomes IS 'What forecast_tallies counts, from the facts: one row a change that is, or was, to be sent.';

CREATE VIEW repricer.forecast_outcomes AS
 SELECT t.batch_id,
    t.direction,
    t.forecast_consent,
    t.forecast_threshold_source,
    t.forecast_reasons,
    t.forecast_not_known,
    t.forecast_because,
    t.came_consent,
    t.came,
    t.has_moved,
    t.slip,
    t.is_siblings_doing,
    t.changes
   FROM repricer.forecast_tallies t
UNION ALL
 SELECT t.batch_id,
    t.direction,
    t.forecast_consent,
    t.forecast_threshold_source,
    t.forecast_reasons,
    t.forecast_not_known,
    t.forecast_because,
    t.came_consent,
    t.came,
    t.has_moved,
    t.slip,
    t.is_siblings_doing,
    '-1'::integer AS changes
   FROM (repricer.change_figures k
     JOIN repricer.forecast_tallies t ON (((t.batch_id = k.batch_id) AND (t.outcome = k.outcome))))
  WHERE (EXISTS ( SELECT
           FROM repricer.stale_figures s
          WHERE (s.original_transaction_id = k.original_transaction_id)))
UNION ALL
 SELECT o.batch_id,
    o.direction,
    o.forecast_consent,
    o.forecast_threshold_source,
    o.forecast_reasons,
    o.forecast_not_known,
    o.forecast_because,
    o.came_consent,
    o.came,
    o.has_moved,
    o.slip,
    o.is_siblings_doing,
    o.changes
   FROM repricer.live_forecast_outcomes o
  WHERE (o.stage = ANY (ARRAY['awaiting_approval'::text, 'queued'::text, 'unknown'::text, 'scheduled'::text, 'pending_consent'::text, 'accepted'::text]))
UNION ALL
 SELECT m.batch_id,
    o.direction,
    o.forecast_consent,
    o.forecast_threshold_source,
    o.forecast_reasons,
    o.forecast_not_known,
    o.forecast_because,
    o.came_consent,
    o.came,
    o.has_moved,
    o.slip,
    o.is_siblings_doing,
    o.changes
   FROM (repricer.marked_batches m
     CROSS JOIN LATERAL ( SELECT l.original_transaction_id,
            l.change_id,
            l.batch_id,
            l.stage,
            l.outcome,
            l.direction,
            l.forecast_consent,
            l.forecast_threshold_source,
            l.forecast_reasons,
            l.forecast_not_known,
            l.forecast_because,
            l.came_consent,
            l.came,
            l.has_moved,
            l.slip,
            l.is_siblings_doing,
            l.changes
           FROM repricer.live_forecast_outcomes l
          WHERE ((l.original_transaction_id = m.original_transaction_id) AND (l.batch_id = m.batch_id) AND (l.stage <> ALL (ARRAY['awaiting_approval'::text, 'queued'::text, 'unknown'::text, 'scheduled'::text, 'pending_consent'::text, 'accepted'::text])))
         OFFSET 0) o);

COMMENT ON VIEW repricer.forecast_outcomes IS 'The outcomes of all changes, exact at any moment. Its rows must be added up.';

CREATE VIEW report.forecast_accuracy AS
 SELECT o.batch_id,
    b.name AS batch_name,
    o.direction,
    o.forecast_consent,
    o.forecast_threshold_source,
    o.came_consent,
    o.changes,
    (o.came_consent = NULLIF(o.forecast_consent, 'not_known'::text)) AS is_as_forecast,
    o.effective,
    o.effective_as_forecast,
    o.forecast_reasons,
    o.effective_earlier,
    o.effective_later,
        CASE
            WHEN (o.came_consent IS NULL) THEN 'not_known'::text
            WHEN (o.forecast_consent = 'not_known'::text) THEN 'was_not_known'::text
            WHEN (o.came_consent = o.forecast_consent) THEN 'as_forecast'::text
            WHEN (o.came_consent = 'required'::text) THEN 'missed'::text
            ELSE 'false_alarm'::text
        END AS consent_outcome,
    o.renewals_moved,
    o.forecast_not_known,
    o.forecast_because,
    o.missed_by_sibling,
    o.slipped,
    o.slipped_by_billing_failure,
    o.slipped_by_late_call,
    o.slipped_by_extension,
    o.slipped_by_other
   FROM (( SELECT f.batch_id,
            f.direction,
            f.forecast_consent,
            f.forecast_threshold_source,
            f.came_consent,
            f.forecast_reasons,
            f.forecast_not_known,
            f.forecast_because,
            (sum(f.changes))::bigint AS changes,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.came IS NOT NULL)), (0)::numeric))::bigint AS effective,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.came = 'as_forecast'::text)), (0)::numeric))::bigint AS effective_as_forecast,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.came = 'earlier'::text)), (0)::numeric))::bigint AS effective_earlier,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.came = 'later'::text)), (0)::numeric))::bigint AS effective_later,
            (COALESCE(sum(f.changes) FILTER (WHERE f.has_moved), (0)::numeric))::bigint AS renewals_moved,
            (COALESCE(sum(f.changes) FILTER (WHERE f.is_siblings_doing), (0)::numeric))::bigint AS missed_by_sibling,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.slip IS NOT NULL)), (0)::numeric))::bigint AS slipped,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.slip = 'billing_failure'::text)), (0)::numeric))::bigint AS slipped_by_billing_failure,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.slip = 'late_call'::text)), (0)::numeric))::bigint AS slipped_by_late_call,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.slip = 'extension'::text)), (0)::numeric))::bigint AS slipped_by_extension,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.slip = 'other'::text)), (0)::numeric))::bigint AS slipped_by_other
           FROM repricer.forecast_outcomes f
          GROUP BY f.batch_id, f.direction, f.forecast_consent, f.forecast_threshold_source, f.came_consent, f.forecast_reasons, f.forecast_not_known, f.forecast_because
         HAVING (sum(f.changes) > (0)::numeric)) o
     JOIN repricer.batches b ON ((b.batch_id = o.batch_id)));

COMMENT ON VIEW report.forecast_accuracy IS 'The forecast of consent and of its day against what the App Store did: a confusion matrix for each batch, by rule and by the source of the threshold, and why days slipped. Rows that were held out are in no figure: they are never sent.';

COMMENT ON COLUMN report.forecast_accuracy.batch_id IS 'The batch; null where the row is about the whole installation.';

COMMENT ON COLUMN report.forecast_accuracy.batch_name IS 'The name that the submitter gave to the batch.';

COMMENT ON COLUMN report.forecast_accuracy.direction IS 'increase or decrease.';

COMMENT ON COLUMN report.forecast_accuracy.forecast_consent IS 'Consent as forecast: required, not_known, not_required (announced only), none (a decrease).';

COMMENT ON COLUMN report.forecast_accuracy.forecast_threshold_source IS 'Where the threshold came from: apple, estimated, unknown.';

COMMENT ON COLUMN report.forecast_accuracy.came_consent IS 'What came: required, not_required or none; null: not known yet, or it never went so far.';

COMMENT ON COLUMN report.forecast_accuracy.changes IS 'Number of price changes.';

COMMENT ON COLUMN report.forecast_accuracy.is_as_forecast IS 'Whether consent came as forecast; null: not known, or the forecast did not say.';

COMMENT ON COLUMN report.forecast_accuracy.effective IS 'Changes that took effect.';

COMMENT ON COLUMN report.forecast_accuracy.effective_as_forecast IS 'Changes that took effect at the renewal of the forecast, or within moments of it.';

COMMENT ON COLUMN report.forecast_accuracy.forecast_reasons IS 'Why consent was forecast as required, all reasons of the change; empty: it was not.';

COMMENT ON COLUMN report.forecast_accuracy.effective_earlier IS 'Changes that took effect before the renewal of the forecast.';

COMMENT ON COLUMN report.forecast_accuracy.effective_later IS 'Changes that took effect after the renewal of the forecast, and not within moments of it.';

COMMENT ON COLUMN report.forecast_accuracy.consent_outcome IS 'as_forecast, missed (the App Store asked, not forecast), false_alarm (forecast, not asked), was_not_known (the forecast did not say) or not_known (what came).';

COMMENT ON COLUMN report.forecast_accuracy.renewals_moved IS 'Changes that were sent, or are to be, for a later renewal than was forecast.';

COMMENT ON COLUMN report.forecast_accuracy.forecast_not_known IS 'The rules that had too little to answer where the forecast did not say; else empty.';

COMMENT ON COLUMN report.forecast_accuracy.forecast_because IS 'Which increase within 12 months the forecast counted: sibling (another row or change of ours), earlier_increase; null: none.';

COMMENT ON COLUMN report.forecast_accuracy.missed_by_sibling IS 'Of those missed: another item''s increase, planned after this one, took effect before it. The plan of that one said so.';

COMMENT ON COLUMN report.forecast_accuracy.slipped IS 'Changes that took effect, or are due, at a later day than was forecast: the sum of the four reasons. Who is charged within moments of the renewal counts as in time.';

COMMENT ON COLUMN report.forecast_accuracy.slipped_by_billing_failure IS 'Of slipped: a charge failed at first, and the next period began late. Of several reasons the first counts.';

COMMENT ON COLUMN report.forecast_accuracy.slipped_by_late_call IS 'Of slipped: the call left after its send_by. Likewise.';

COMMENT ON COLUMN report.forecast_accuracy.slipped_by_extension IS 'Of slipped: the renewal date was extended. Likewise.';

COMMENT ON COLUMN report.forecast_accuracy.slipped_by_other IS 'Of slipped: an offer, a new verdict on consent, a later date of the App Store''s own for a call in time, what the customer did, or what nobody knows. Likewise.';

CREATE FUNCTION report.forecast_accuracy_as_of(p_at timestamp with time zone, batch uuid DEFAULT NULL::uuid) RETURNS SETOF report.forecast_accuracy
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
#variable_conflict use_column
DECLARE
    p_batch ALIAS FOR batch;
BEGIN
    PERFORM repricer.require_past(p_at);
    RETURN QUERY SELECT * FROM (
 SELECT o.batch_id,
    b.name AS batch_name,
    o.direction,
    o.forecast_consent,
    o.forecast_threshold_source,
    o.came_consent,
    o.changes,
    (o.came_consent = NULLIF(o.forecast_consent, 'not_known'::text)) AS is_as_forecast,
    o.effective,
    o.effective_as_forecast,
    o.forecast_reasons,
    o.effective_earlier,
    o.effective_later,
        CASE
            WHEN (o.came_consent IS NULL) THEN 'not_known'::text
            WHEN (o.forecast_consent = 'not_known'::text) THEN 'was_not_known'::text
            WHEN (o.came_consent = o.forecast_consent) THEN 'as_forecast'::text
            WHEN (o.came_consent = 'required'::text) THEN 'missed'::text
            ELSE 'false_alarm'::text
        END AS consent_outcome,
    o.renewals_moved,
    o.forecast_not_known,
    o.forecast_because,
    o.missed_by_sibling,
    o.slipped,
    o.slipped_by_billing_failure,
    o.slipped_by_late_call,
    o.slipped_by_extension,
    o.slipped_by_other
   FROM (( SELECT f.batch_id,
            f.direction,
            f.forecast_consent,
            f.forecast_threshold_source,
            f.came_consent,
            f.forecast_reasons,
            f.forecast_not_known,
            f.forecast_because,
            (sum(f.changes))::bigint AS changes,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.came IS NOT NULL)), (0)::numeric))::bigint AS effective,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.came = 'as_forecast'::text)), (0)::numeric))::bigint AS effective_as_forecast,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.came = 'earlier'::text)), (0)::numeric))::bigint AS effective_earlier,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.came = 'later'::text)), (0)::numeric))::bigint AS effective_later,
            (COALESCE(sum(f.changes) FILTER (WHERE f.has_moved), (0)::numeric))::bigint AS renewals_moved,
            (COALESCE(sum(f.changes) FILTER (WHERE f.is_siblings_doing), (0)::numeric))::bigint AS missed_by_sibling,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.slip IS NOT NULL)), (0)::numeric))::bigint AS slipped,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.slip = 'billing_failure'::text)), (0)::numeric))::bigint AS slipped_by_billing_failure,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.slip = 'late_call'::text)), (0)::numeric))::bigint AS slipped_by_late_call,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.slip = 'extension'::text)), (0)::numeric))::bigint AS slipped_by_extension,
            (COALESCE(sum(f.changes) FILTER (WHERE (f.slip = 'other'::text)), (0)::numeric))::bigint AS slipped_by_other
           FROM repricer.live_forecast_outcomes_at(p_at) f
          GROUP BY f.batch_id, f.direction, f.forecast_consent, f.forecast_threshold_source, f.came_consent, f.forecast_reasons, f.forecast_not_known, f.forecast_because
         HAVING (sum(f.changes) > (0)::numeric)) o
     JOIN repricer.batches_at(p_at) b ON ((b.batch_id = o.batch_id)))
    ) v WHERE p_batch IS NULL OR v.batch_id = p_batch;
END
$$;

COMMENT ON FUNCTION report.forecast_accuracy_as_of(p_at timestamp with time zone, batch uuid) IS 'report.forecast_accuracy as it was known at the instant: by what was recorded until then, late news left out.';

CREATE FUNCTION repricer.wilson_bound(p_share numeric, p_of numeric, p_sign integer) RETURNS numeric
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (((p_share + (3.841459 / ((2)::numeric * p_of))) + (((p_sign)::numeric * 1.959964) * sqrt((((p_share * ((1)::numeric - p_share)) / p_of) + (3.841459 / (((4)::numeric * p_of) * p_of)))))) / ((1)::numeric + (3.841459 / p_of)));

CREATE VIEW report.holdout AS
 WITH rows AS (
         SELECT b_1.batch_id,
            c.forecast_consent,
            c.original_transaction_id,
            c.is_held_out,
            c.is_as_meant,
            c.is_due,
            c.has_left
           FROM ((repricer.batches b_1
             CROSS JOIN ( SELECT h.until
                   FROM repricer.heard_charges h) d)
             CROSS JOIN LATERAL ( SELECT c_1.forecast_consent,
                    c_1.original_transaction_id,
                    c_1.is_held_out,
                    (c_1.is_held_out OR (COALESCE(c_1.sent_at, c_1.doubtful_since, c_1.scheduled_at) IS NOT NULL)) AS is_as_meant,
                    (((c_1.forecast_effective_at + repricer.days(1)) < report.as_of()) AND (((p.paid_until + repricer.days(1)) > report.as_of()) OR
                        CASE
                            WHEN (p.paid_until = '-infinity'::timestamp with time zone) THEN p.is_told
                            ELSE ((p.paid_until < d.until) OR (EXISTS ( SELECT
                               FROM repricer.charges g
                              WHERE ((g.original_transaction_id = c_1.original_transaction_id) AND (g.purchased_at <= report.as_of()) AND (g.purchased_at > (p.paid_until - repricer.days(1)))))) OR (EXISTS ( SELECT
                               FROM repricer.told_statements t
                              WHERE ((t.original_transaction_id = c_1.original_transaction_id) AND (t.type = ANY (ARRAY['EXPIRED'::text, 'REVOKE'::text])) AND (t.signed_at > (p.paid_until - repricer.days(1))) AND (t.signed_at <= report.as_of())))))
                        END)) AS is_due,
                    ((p.paid_until + repricer.days(1)) <= report.as_of()) AS has_left
                   FROM (repricer.price_changes c_1
                     CROSS JOIN LATERAL ( SELECT COALESCE(max(COALESCE(h.expires_at, 'infinity'::timestamp with time zone)) FILTER (WHERE ((COALESCE(h.revoked_at, 'infinity'::timestamp with time zone) > report.as_of()) AND ((h.refunded_milliunits = 0) OR (h.refunded_milliunits < (h.price_milliunits * h.quantity))))), '-infinity'::timestamp with time zone) AS paid_until,
                            (count(*) > 0) AS is_told
                           FROM repricer.charges h
                          WHERE ((h.original_transaction_id = c_1.original_transaction_id) AND repricer.is_of_item(h.sku, h.purchased_at, c_1.sku, c_1.current_sku, c_1.former_skus, c_1.former_until) AND (h.purchased_at <= report.as_of()))) p)
                  WHERE ((c_1.batch_id = b_1.batch_id) AND (c_1.undoes_change_id IS NULL))
                 OFFSET 0) c)
          WHERE ((b_1.holdout_basis_points > 0) AND (b_1.decided_at <= report.as_of()) AND (b_1.state <> 'rejected'::text))
        ), subscriptions AS (
         SELECT rows.batch_id,
            rows.forecast_consent,
            rows.original_transaction_id,
            rows.is_held_out,
            bool_and(rows.is_as_meant) AS is_as_meant,
            bool_and(rows.is_due) AS is_due,
            bool_or(rows.has_left) AS has_left
           FROM rows
          GROUP BY rows.batch_id, rows.forecast_consent, rows.original_transaction_id, rows.is_held_out
        ), counts AS (
         SELECT subscriptions.batch_id,
            subscriptions.forecast_consent,
            count(*) FILTER (WHERE (subscriptions.is_due AND (NOT subscriptions.is_held_out))) AS sent,
            count(*) FILTER (WHERE (subscriptions.is_due AND (NOT subscriptions.is_held_out) AND (NOT subscriptions.is_as_meant))) AS never_sent,
            count(*) FILTER (WHERE (subscriptions.is_due AND (NOT subscriptions.is_held_out) AND subscriptions.has_left)) AS sent_left,
            count(*) FILTER (WHERE (subscriptions.is_due AND subscriptions.is_held_out)) AS held_out,
            count(*) FILTER (WHERE (subscriptions.is_due AND subscriptions.is_held_out AND subscriptions.has_left)) AS held_out_left,
            count(*) FILTER (WHERE (NOT subscriptions.is_due)) AS not_due
           FROM subscriptions
          GROUP BY subscriptions.batch_id, subscriptions.forecast_consent
        ), shares AS (
         SELECT c.batch_id,
            c.forecast_consent,
            c.sent,
            c.never_sent,
            c.sent_left,
            c.held_out,
            c.held_out_left,
            c.not_due,
            ((c.sent_left)::numeric / (NULLIF(c.sent, 0))::numeric) AS p,
            ((c.held_out_left)::numeric / (NULLIF(c.held_out, 0))::numeric) AS q,
            (LEAST(c.sent, c.held_out) >= 30) AS is_enough
           FROM counts c
        ), intervals AS (
         SELECT s.batch_id,
            s.forecast_consent,
            s.sent,
            s.never_sent,
            s.sent_left,
            s.held_out,
            s.held_out_left,
            s.not_due,
            s.p,
            s.q,
            s.is_enough,
            ((s.p - s.q) - sqrt((((s.p - repricer.wilson_bound(s.p, (s.sent)::numeric, '-1'::integer)) ^ (2)::numeric) + ((repricer.wilson_bound(s.q, (s.held_out)::numeric, 1) - s.q) ^ (2)::numeric)))) AS lower,
            ((s.p - s.q) + sqrt((((repricer.wilson_bound(s.p, (s.sent)::numeric, 1) - s.p) ^ (2)::numeric) + ((s.q - repricer.wilson_bound(s.q, (s.held_out)::numeric, '-1'::integer)) ^ (2)::numeric)))) AS upper
           FROM shares s
        )
 SELECT i.batch_id,
    b.name AS batch_name,
    i.forecast_consent,
    i.sent AS sent_subscriptions,
    i.never_sent,
    i.sent_left,
    i.held_out AS held_out_subscriptions,
    i.held_out_left,
    i.not_due,
    (round((i.p * (10000)::numeric)))::bigint AS sent_left_basis_points,
    (round((i.q * (10000)::numeric)))::bigint AS held_out_left_basis_points,
        CASE
            WHEN i.is_enough THEN (round(((i.p - i.q) * (10000)::numeric)))::bigint
            ELSE NULL::bigint
        END AS difference_basis_points,
        CASE
            WHEN i.is_enough THEN (round((i.lower * (10000)::numeric)))::bigint
            ELSE NULL::bigint
        END AS lower_basis_points,
        CASE
            WHEN i.is_enough THEN (round((i.upper * (10000)::numeric)))::bigint
            ELSE NULL::bigint
        END AS upper_basis_points,
        CASE
            WHEN (NOT i.is_enough) THEN 'too_few'::text
            WHEN (i.lower > (0)::numeric) THEN 'more_left'::text
            WHEN (i.upper < (0)::numeric) THEN 'fewer_left'::text
            ELSE 'no_difference_seen'::text
        END AS answer
   FROM (intervals i
     JOIN repricer.batches b ON ((b.batch_id = i.batch_id)));

COMMENT ON VIEW report.holdout IS 'Batches that hold subscriptions out: who left among those sent and among those held out, for each forecast of consent, with a 95 % interval of the difference.';

COMMENT ON COLUMN report.holdout.batch_id IS 'The batch; null where the row is about the whole installation.';

COMMENT ON COLUMN report.holdout.batch_name IS 'The name that the submitter gave to the batch.';

COMMENT ON COLUMN report.holdout.forecast_consent IS 'Consent as forecast: required, not_known, not_required (announced only), none (a decrease).';

COMMENT ON COLUMN report.holdout.sent_subscriptions IS 'Subscriptions that were not held out and whose forecast renewal has passed for a day.';

COMMENT ON COLUMN report.holdout.never_sent IS 'Of these: an item of theirs was never sent, as one that turned out ineligible.';

COMMENT ON COLUMN report.holdout.sent_left IS 'Of these: at least one of the items is not paid for any more.';

COMMENT ON COLUMN report.holdout.held_out_subscriptions IS 'Subscriptions that were held out, likewise.';

COMMENT ON COLUMN report.holdout.held_out_left IS 'Of these: at least one of the items is not paid for any more.';

COMMENT ON COLUMN report.holdout.not_due IS 'Subscriptions of both kinds whose forecast renewal has not passed for a day, or of which nobody has told yet whether they renewed: not counted.';

COMMENT ON COLUMN report.holdout.sent_left_basis_points IS 'sent_left of sent_subscriptions, in hundredths of a per cent.';

COMMENT ON COLUMN report.holdout.held_out_left_basis_points IS 'held_out_left of held_out_subscriptions, likewise.';

COMMENT ON COLUMN report.holdout.difference_basis_points IS 'The first less the second; null: too few.';

COMMENT ON COLUMN report.holdout.lower_basis_points IS 'The lower end of its 95 % interval (Newcombe); null: too few.';

COMMENT ON COLUMN report.holdout.upper_basis_points IS 'The upper end, likewise.';

COMMENT ON COLUMN report.holdout.answer IS 'more_left or fewer_left (of those sent: the interval leaves 0 out), no_difference_seen, or too_few (fewer than 30 on one side).';

CREATE FUNCTION report.holdout_as_of(p_at timestamp with time zone, batch uuid DEFAULT NULL::uuid) RETURNS SETOF report.holdout
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
#variable_conflict use_column
DECLARE
    p_batch ALIAS FOR batch;
BEGIN
    PERFORM repricer.require_past(p_at);
    RETURN QUERY SELECT * FROM (
 WITH rows AS (
         SELECT b_1.batch_id,
            c.forecast_consent,
            c.original_transaction_id,
            c.is_held_out,
            c.is_as_meant,
            c.is_due,
            c.has_left
           FROM ((repricer.batches_at(p_at) b_1
             CROSS JOIN ( SELECT h.until
                   FROM repricer.heard_charges_at(p_at) h) d)
             CROSS JOIN LATERAL ( SELECT c_1.forecast_consent,
                    c_1.original_transaction_id,
                    c_1.is_held_out,
                    (c_1.is_held_out OR (COALESCE(c_1.sent_at, c_1.doubtful_since, c_1.scheduled_at) IS NOT NULL)) AS is_as_meant,
                    (((c_1.forecast_effective_at + repricer.days(1)) < p_at) AND (((p.paid_until + repricer.days(1)) > p_at) OR
                        CASE
                            WHEN (p.paid_until = '-infinity'::timestamp with time zone) THEN p.is_told
                            ELSE ((p.paid_until < d.until) OR (EXISTS ( SELECT
                               FROM repricer.charges_at(p_at) g
                              WHERE ((g.original_transaction_id = c_1.original_transaction_id) AND (g.purchased_at <= p_at) AND (g.purchased_at > (p.paid_until - repricer.days(1)))))) OR (EXISTS ( SELECT
                               FROM repricer.told_statements_at(p_at) t
                              WHERE ((t.original_transaction_id = c_1.original_transaction_id) AND (t.type = ANY (ARRAY['EXPIRED'::text, 'REVOKE'::text])) AND (t.signed_at > (p.paid_until - repricer.days(1))) AND (t.signed_at <= p_at)))))
                        END)) AS is_due,
                    ((p.paid_until + repricer.days(1)) <= p_at) AS has_left
                   FROM (repricer.price_changes_at(p_at) c_1
                     CROSS JOIN LATERAL ( SELECT COALESCE(max(COALESCE(h.expires_at, 'infinity'::timestamp with time zone)) FILTER (WHERE ((COALESCE(h.revoked_at, 'infinity'::timestamp with time zone) > p_at) AND ((h.refunded_milliunits = 0) OR (h.refunded_milliunits < (h.price_milliunits * h.quantity))))), '-infinity'::timestamp with time zone) AS paid_until,
                            (count(*) > 0) AS is_told
                           FROM repricer.charges_at(p_at) h
                          WHERE ((h.original_transaction_id = c_1.original_transaction_id) AND repricer.is_of_item(h.sku, h.purchased_at, c_1.sku, c_1.current_sku, c_1.former_skus, c_1.former_until) AND (h.purchased_at <= p_at))) p)
                  WHERE ((c_1.batch_id = b_1.batch_id) AND (c_1.undoes_change_id IS NULL))
                 OFFSET 0) c)
          WHERE ((b_1.holdout_basis_points > 0) AND (b_1.decided_at <= p_at) AND (b_1.state <> 'rejected'::text))
        ), subscriptions AS (
         SELECT rows.batch_id,
            rows.forecast_consent,
            rows.original_transaction_id,
            rows.is_held_out,
            bool_and(rows.is_as_meant) AS is_as_meant,
            bool_and(rows.is_due) AS is_due,
            bool_or(rows.has_left) AS has_left
           FROM rows
          GROUP BY rows.batch_id, rows.forecast_consent, rows.original_transaction_id, rows.is_held_out
        ), counts AS (
         SELECT subscriptions.batch_id,
            subscriptions.forecast_consent,
            count(*) FILTER (WHERE (subscriptions.is_due AND (NOT subscriptions.is_held_out))) AS sent,
            count(*) FILTER (WHERE (subscriptions.is_due AND (NOT subscriptions.is_held_out) AND (NOT subscriptions.is_as_meant))) AS never_sent,
            count(*) FILTER (WHERE (subscriptions.is_due AND (NOT subscriptions.is_held_out) AND subscriptions.has_left)) AS sent_left,
            count(*) FILTER (WHERE (subscriptions.is_due AND subscriptions.is_held_out)) AS held_out,
            count(*) FILTER (WHERE (subscriptions.is_due AND subscriptions.is_held_out AND subscriptions.has_left)) AS held_out_left,
            count(*) FILTER (WHERE (NOT subscriptions.is_due)) AS not_due
           FROM subscriptions
          GROUP BY subscriptions.batch_id, subscriptions.forecast_consent
        ), shares AS (
         SELECT c.batch_id,
            c.forecast_consent,
            c.sent,
            c.never_sent,
            c.sent_left,
            c.held_out,
            c.held_out_left,
            c.not_due,
            ((c.sent_left)::numeric / (NULLIF(c.sent, 0))::numeric) AS p,
            ((c.held_out_left)::numeric / (NULLIF(c.held_out, 0))::numeric) AS q,
            (LEAST(c.sent, c.held_out) >= 30) AS is_enough
           FROM counts c
        ), intervals AS (
         SELECT s.batch_id,
            s.forecast_consent,
            s.sent,
            s.never_sent,
            s.sent_left,
            s.held_out,
            s.held_out_left,
            s.not_due,
            s.p,
            s.q,
            s.is_enough,
            ((s.p - s.q) - sqrt((((s.p - repricer.wilson_bound(s.p, (s.sent)::numeric, '-1'::integer)) ^ (2)::numeric) + ((repricer.wilson_bound(s.q, (s.held_out)::numeric, 1) - s.q) ^ (2)::numeric)))) AS lower,
            ((s.p - s.q) + sqrt((((repricer.wilson_bound(s.p, (s.sent)::numeric, 1) - s.p) ^ (2)::numeric) + ((s.q - repricer.wilson_bound(s.q, (s.held_out)::numeric, '-1'::integer)) ^ (2)::numeric)))) AS upper
           FROM shares s
        )
 SELECT i.batch_id,
    b.name AS batch_name,
    i.forecast_consent,
    i.sent AS sent_subscriptions,
    i.never_sent,
    i.sent_left,
    i.held_out AS held_out_subscriptions,
    i.held_out_left,
    i.not_due,
    (round((i.p * (10000)::numeric)))::bigint AS sent_left_basis_points,
    (round((i.q * (10000)::numeric)))::bigint AS held_out_left_basis_points,
        CASE
            WHEN i.is_enough THEN (round(((i.p - i.q) * (10000)::numeric)))::bigint
            ELSE NULL::bigint
        END AS difference_basis_points,
        CASE
            WHEN i.is_enough THEN (round((i.lower * (10000)::numeric)))::bigint
            ELSE NULL::bigint
        END AS lower_basis_points,
        CASE
            WHEN i.is_enough THEN (round((i.upper * (10000)::numeric)))::bigint
            ELSE NULL::bigint
        END AS upper_basis_points,
        CASE
            WHEN (NOT i.is_enough) THEN 'too_few'::text
            WHEN (i.lower > (0)::numeric) THEN 'more_left'::text
            WHEN (i.upper < (0)::numeric) THEN 'fewer_left'::text
            ELSE 'no_difference_seen'::text
        END AS answer
   FROM (intervals i
     JOIN repricer.batches_at(p_at) b ON ((b.batch_id = i.batch_id)))
    ) v WHERE p_batch IS NULL OR v.batch_id = p_batch;
END
$$;

COMMENT ON FUNCTION report.holdout_as_of(p_at timestamp with time zone, batch uuid) IS 'report.holdout as it was known at the instant: by what was recorded until then, late news left out.';

CREATE FUNCTION repricer.is_refused(p_state text, p_refused_at timestamp with time zone, p_doubtful_since timestamp with time zone) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ((p_state = 'rejected'::text) OR ((p_refused_at IS NOT NULL) AND (p_doubtful_since IS NULL) AND (p_state = ANY (ARRAY['queued'::text, 'ineligible'::text, 'missed'::text, 'aborted'::text]))));

CREATE VIEW repricer.explained_charges AS
 SELECT c.original_transaction_id,
    c.bucket,
    h.transaction_id,
    h.sku,
    h.purchased_at,
    h.price_milliunits,
    h.quantity,
    h.currency,
    h.storefront,
    h.refunded_milliunits,
    c.batch_id,
    c.change_id,
        CASE
            WHEN (h.currency = c.currency) THEN
            CASE
                WHEN t.is_in_effect THEN c.new_price_milliunits
                ELSE c.current_price_milliunits
            END
            ELSE NULL::bigint
        END AS expected_milliunits,
        CASE
            WHEN (w.exception IS NULL) THEN w.explained_as
            ELSE NULL::text
        END AS explained_as,
    w.exception,
        CASE
            WHEN (t.is_in_effect AND (h.currency = c.currency) AND (h.price_milliunits = c.new_price_milliunits) AND ((h.refunded_milliunits = 0) OR (h.refunded_milliunits < (h.price_milliunits * h.quantity))) AND (a.is_alone OR (NOT (EXISTS ( SELECT
               FROM repricer.price_changes n
              WHERE ((n.original_transaction_id = c.original_transaction_id) AND (n.change_id <> c.change_id) AND (COALESCE(n.current_sku, n.sku) = COALESCE(c.current_sku, c.sku)) AND (n.state = 'effective'::text) AND (n.undoes_change_id IS NULL) AND (n.effective_at <= h.purchased_at) AND (ROW(n.effective_at, n.change_id) > ROW(c.effective_at, c.change_id)))))))) THEN (((h.price_milliunits * h.quantity) - h.refunded_milliunits) - repricer.at_old_price(c.current_price_milliunits, h.price_milliunits, h.quantity, h.refunded_milliunits, h.transaction_id))
            ELSE NULL::bigint
        END AS uplift_milliunits
   FROM (((((repricer.price_changes c
     CROSS JOIN LATERAL ( SELECT (NOT (EXISTS ( SELECT
                   FROM repricer.price_changes o
                  WHERE ((o.original_transaction_id = c.original_transaction_id) AND (o.change_id <> c.change_id))))) AS is_alone
         OFFSET 0) a)
     CROSS JOIN LATERAL ( SELECT repricer.is_refused(c.state, c.refused_at, c.doubtful_since) AS is_refused) r)
     CROSS JOIN LATERAL ( SELECT k.original_transaction_id,
            k.bucket,
            k.transaction_id,
            k.sku,
            k.purchased_at,
            k.expires_at,
            k.revoked_at,
            k.price_milliunits,
            k.quantity,
            k.currency,
            k.storefront,
            k.is_offer,
            k.is_purchase,
            k.is_added_seat,
            k.is_relisted,
            k.period,
            k.refunded_milliunits,
            k.recorded_at,
            k.bought,
            max(k.expires_at) FILTER (WHERE ((NOT k.is_added_seat) AND ((NOT k.is_purchase) OR (k.revoked_at IS NULL)) AND ((k.refunded_milliunits = 0) OR (k.refunded_milliunits < (k.price_milliunits * k.quantity))))) OVER (PARTITION BY k.sku, k.bought ORDER BY k.purchased_at, k.transaction_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS kept_before_until,
            max(k.expires_at) OVER (PARTITION BY k.sku ORDER BY k.purchased_at, k.transaction_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS paid_before_until,
            (repricer.span(k.purchased_at, k.expires_at) / (2)::double precision) AS half,
            LEAST(repricer.days(1), (repricer.span(k.purchased_at, k.expires_at) / (10)::double precision)) AS tolerance
           FROM ( SELECT k_1.original_transaction_id,
                    k_1.bucket,
                    k_1.transaction_id,
                    k_1.sku,
                    k_1.purchased_at,
                    k_1.expires_at,
                    k_1.revoked_at,
                    k_1.price_milliunits,
                    k_1.quantity,
                    k_1.currency,
                    k_1.storefront,
                    k_1.is_offer,
                    k_1.is_purchase,
                    k_1.is_added_seat,
                    k_1.is_relisted,
                    k_1.period,
                    k_1.refunded_milliunits,
                    k_1.recorded_at,
                    count(*) FILTER (WHERE (k_1.is_purchase AND (NOT k_1.is_added_seat) AND (k_1.revoked_at IS NULL))) OVER (PARTITION BY k_1.sku ORDER BY k_1.purchased_at, k_1.transaction_id) AS bought
                   FROM repricer.charges k_1
                  WHERE ((k_1.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k_1.sku, k_1.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until))) k
         OFFSET 0) h)
     CROSS JOIN LATERAL ( SELECT ((c.state = 'effective'::text) AND (c.effective_at <= h.purchased_at)) AS is_in_effect,
            ((c.currency = h.currency) AND ((c.storefront = h.storefront) OR (h.storefront IS NULL))) AS is_of_the_place,
            ((NOT h.is_purchase) AND COALESCE((((h.expires_at <= h.kept_before_until) AND (h.purchased_at < h.kept_before_until)) OR ((h.purchased_at < (h.kept_before_until - '00:01:00'::interval)) AND COALESCE(((h.kept_before_until > LEAST((h.purchased_at + repricer.days(1)), (h.purchased_at + h.half))) OR (h.expires_at < (h.kept_before_until + h.half))), true))), false)) AS is_double) t)
     CROSS JOIN LATERAL ( SELECT
                CASE
                    WHEN (t.is_in_effect AND (h.currency = c.currency) AND (h.price_milliunits = c.new_price_milliunits)) THEN 'new_price'::text
                    WHEN h.is_offer THEN 'offer'::text
                    WHEN (NOT t.is_of_the_place) THEN 'moved'::text
                    WHEN (t.is_in_effect AND u.is_undone) THEN 'undone'::text
                    WHEN e.is_back THEN 'new_purchase'::text
                    WHEN ((NOT t.is_in_effect) AND (h.price_milliunits = c.current_price_milliunits)) THEN 'old_price'::text
                    WHEN h.is_purchase THEN 'new_purchase'::text
                    ELSE NULL::text
                END AS explained_as,
                CASE
                    WHEN (((h.price_milliunits * h.quantity) > 0) AND (h.refunded_milliunits >= (h.price_milliunits * h.quantity))) THEN 'refunded'::text
                    WHEN t.is_double THEN 'double'::text
                    WHEN h.is_relisted THEN 'relisted'::text
                    WHEN ((h.currency <> c.currency) AND ((h.storefront = c.storefront) OR (h.currency = 'XXX'::text))) THEN 'wrong_currency'::text
                    WHEN ((c.state = 'declined'::text) AND (c.reason IS DISTINCT FROM 'parent_declined'::text) AND ((h.purchased_at > c.ended_at) OR e.is_at_end) AND (NOT e.is_back)) THEN 'declined_yet_charged'::text
                    WHEN ((c.state = ANY (ARRAY['declined'::text, 'cancelled'::text, 'lapsed'::text])) AND ((h.purchased_at > c.ended_at) OR e.is_at_end) AND (NOT e.is_back)) THEN 'after_end'::text
                    WHEN (t.is_in_effect AND e.is_after_end) THEN 'after_end'::text
                    WHEN ((NOT h.is_offer) AND (h.currency = c.currency) AND (h.price_milliunits > c.current_price_milliunits) AND (NOT (t.is_in_effect AND ((h.price_milliunits = c.new_price_milliunits) OR u.is_undone OR (h.is_added_seat AND (h.price_milliunits < c.new_price_milliunits)))))) THEN 'other_price'::text
                    WHEN (h.is_offer OR (NOT t.is_of_the_place) OR h.is_purchase OR e.is_back OR (t.is_in_effect AND u.is_undone)) THEN
                    CASE
                        WHEN (h.refunded_milliunits > 0) THEN 'refunded'::text
                        ELSE NULL::text
                    END
                    WHEN (h.price_milliunits <>
                    CASE
                        WHEN t.is_in_effect THEN c.new_price_milliunits
                        ELSE c.current_price_milliunits
                    END) THEN 'other_price'::text
                    WHEN (h.refunded_milliunits > 0) THEN 'refunded'::text
                    ELSE NULL::text
                END AS exception
           FROM (( SELECT ((NOT a.is_alone) AND (EXISTS ( SELECT
                           FROM repricer.price_changes u_1
                          WHERE ((u_1.original_transaction_id = c.original_transaction_id) AND (u_1.undoes_change_id = c.change_id) AND (u_1.scheduled_at IS NOT NULL) AND (h.price_milliunits = u_1.new_price_milliunits))))) AS is_undone,
                    (EXISTS ( SELECT
                           FROM repricer.told_statements q
                          WHERE ((q.original_transaction_id = c.original_transaction_id) AND (q.type = ANY (ARRAY['DID_FAIL_TO_RENEW'::text, 'GRACE_PERIOD_EXPIRED'::text])) AND (q.signed_at > (h.purchased_at - h.tolerance)) AND (q.signed_at < (h.purchased_at + h.half))))) AS had_failed) u
             CROSS JOIN LATERAL ( SELECT ((t.is_in_effect AND (NOT h.is_purchase) AND
                        CASE
                            WHEN (h.paid_before_until < (h.purchased_at - '00:01:00'::interval)) THEN ((EXISTS ( SELECT
                               FROM repricer.told_statements q
                              WHERE ((q.original_transaction_id = c.original_transaction_id) AND (q.type = 'EXPIRED'::text) AND (q.signed_at > (h.paid_before_until - repricer.days(1))) AND (q.signed_at < h.purchased_at)))) AND (NOT (EXISTS ( SELECT
                               FROM repricer.told_statements q
                              WHERE ((q.original_transaction_id = c.original_transaction_id) AND (q.signed_at >= h.paid_before_until) AND ((((q.statement #>> '{renewal,recentSubscriptionStartAt}'::text[]))::numeric >= (EXTRACT(epoch FROM (h.paid_before_until + '00:01:00'::interval)) * (1000)::numeric)) AND (((q.statement #>> '{renewal,recentSubscriptionStartAt}'::text[]))::numeric <= (EXTRACT(epoch FROM h.purchased_at) * (1000)::numeric))))))))
                            ELSE (COALESCE((h.revoked_at > (h.purchased_at + h.half)), true) AND (EXISTS ( SELECT
                               FROM repricer.told_statements q
                              WHERE ((q.original_transaction_id = c.original_transaction_id) AND (q.type = 'EXPIRED'::text) AND (q.signed_at > (h.purchased_at - h.tolerance)) AND (q.signed_at < (h.purchased_at + h.half))))) AND (NOT u.had_failed))
                        END) OR (t.is_in_effect AND (NOT h.is_purchase) AND (EXISTS ( SELECT
                           FROM repricer.told_statements q
                          WHERE ((q.original_transaction_id = c.original_transaction_id) AND (q.type = ANY (ARRAY['REFUND'::text, 'REVOKE'::text])) AND (q.status = '5'::text) AND (q.signed_at >= c.effective_at) AND (q.signed_at < h.purchased_at) AND (NOT (EXISTS ( SELECT
                                   FROM repricer.charges b
                                  WHERE ((b.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(b.sku, b.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (b.purchased_at > q.signed_at) AND (b.purchased_at < h.purchased_at))))) AND (NOT (EXISTS ( SELECT
                                   FROM repricer.told_statements r_1
                                  WHERE ((r_1.original_transaction_id = c.original_transaction_id) AND (r_1.signed_at > q.signed_at) AND (((r_1.type = ANY (ARRAY['SUBSCRIBED'::text, 'REFUND_REVERSED'::text])) AND (r_1.signed_at < (h.purchased_at + h.half))) OR ((((r_1.statement #>> '{renewal,recentSubscriptionStartAt}'::text[]))::numeric >= (EXTRACT(epoch FROM q.signed_at) * (1000)::numeric)) AND (((r_1.statement #>> '{renewal,recentSubscriptionStartAt}'::text[]))::numeric <= (EXTRACT(epoch FROM h.purchased_at) * (1000)::numeric))))))))))))) AS is_after_end,
                    ((NOT h.is_purchase) AND (h.purchased_at <= c.ended_at) AND (c.ended_at < (h.purchased_at +
                        CASE
                            WHEN (c.reason = 'item_missing_at_renewal'::text) THEN h.tolerance
                            ELSE h.half
                        END)) AND (c.reason IS DISTINCT FROM 'refunded_or_revoked'::text) AND (c.reason IS DISTINCT FROM 'item_refunded'::text) AND (h.purchased_at >= (h.paid_before_until - '00:01:00'::interval)) AND COALESCE((h.revoked_at > c.ended_at), true) AND (NOT u.had_failed)) AS is_at_end,
                    ((((c.state = ANY (ARRAY['declined'::text, 'cancelled'::text, 'lapsed'::text])) AND ((h.purchased_at > c.ended_at) OR (h.is_purchase AND (h.purchased_at = c.ended_at))) AND ((h.price_milliunits <> c.new_price_milliunits) OR (h.currency <> c.currency))) OR (t.is_in_effect AND (h.price_milliunits <= c.current_price_milliunits))) AND (h.is_purchase OR (EXISTS ( SELECT
                           FROM repricer.charges b
                          WHERE ((b.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(b.sku, b.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND b.is_purchase AND (NOT b.is_added_seat) AND
                                CASE
                                    WHEN t.is_in_effect THEN (b.purchased_at > c.effective_at)
                                    ELSE (b.purchased_at >= c.ended_at)
                                END AND (b.purchased_at < h.purchased_at) AND (((b.currency = h.currency) AND ((b.price_milliunits = h.price_milliunits) OR (b.is_offer AND (h.price_milliunits <= c.current_price_milliunits)))) OR (b.storefront <> h.storefront)) AND ((NOT t.is_in_effect) OR (EXISTS ( SELECT
                                   FROM repricer.told_statements q
                                  WHERE ((q.original_transaction_id = c.original_transaction_id) AND (q.type = 'EXPIRED'::text) AND (q.signed_at > c.effective_at) AND (q.signed_at < b.purchased_at)))) OR (NOT (EXISTS ( SELECT
                                   FROM repricer.charges p
                                  WHERE ((p.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(p.sku, p.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (p.purchased_at < b.purchased_at) AND COALESCE((p.expires_at > (b.purchased_at - '00:01:00'::interval)), true) AND (p.revoked_at IS NULL) AND ((p.refunded_milliunits = 0) OR (p.refunded_milliunits < (p.price_milliunits * p.quantity))))))))))))) AS is_back) e)) w)
  WHERE ((h.purchased_at >= COALESCE(LEAST(c.sent_at, c.doubtful_since), c.scheduled_at, c.refused_at)) AND (c.undoes_change_id IS NULL) AND ((c.state <> ALL (ARRAY['ineligible'::text, 'missed'::text, 'aborted'::text])) OR r.is_refused) AND ((NOT r.is_refused) OR ((COALESCE(c.sent_at, c.refused_at) IS NOT NULL) AND (NOT h.is_purchase) AND (NOT h.is_offer) AND t.is_of_the_place AND ((h.price_milliunits > c.current_price_milliunits) OR ((h.price_milliunits = c.new_price_milliunits) AND (h.price_milliunits < c.current_price_milliunits))) AND (NOT (EXISTS ( SELECT
           FROM repricer.charges b
          WHERE ((b.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(b.sku, b.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND b.is_purchase AND (NOT b.is_added_seat) AND (b.purchased_at >= COALESCE(c.sent_at, c.refused_at)) AND (b.purchased_at < h.purchased_at) AND (b.currency = h.currency) AND (b.price_milliunits = h.price_milliunits))))) AND (a.is_alone OR (NOT (EXISTS ( SELECT
           FROM repricer.price_changes n
          WHERE ((n.original_transaction_id = c.original_transaction_id) AND (n.change_id <> c.change_id) AND repricer.is_of_item(h.sku, h.purchased_at, n.sku, n.current_sku, n.former_skus, n.former_until) AND (h.purchased_at >= COALESCE(LEAST(n.sent_at, n.doubtful_since), n.scheduled_at, n.refused_at)) AND
                CASE
                    WHEN repricer.is_refused(n.state, n.refused_at, n.doubtful_since) THEN (ROW(COALESCE(n.sent_at, n.refused_at), n.change_id) > ROW(COALESCE(c.sent_at, c.refused_at), c.change_id))
                    ELSE (n.state <> ALL (ARRAY['ineligible'::text, 'missed'::text, 'aborted'::text]))
                END)
         OFFSET 0)))))) AND (r.is_refused OR a.is_alone OR (NOT (EXISTS ( SELECT
           FROM repricer.price_changes n
          WHERE ((n.original_transaction_id = c.original_transaction_id) AND (n.change_id <> c.change_id) AND (COALESCE(n.current_sku, n.sku) = COALESCE(c.current_sku, c.sku)) AND (n.undoes_change_id IS NULL) AND (n.state <> ALL (ARRAY['rejected'::text, 'ineligible'::text, 'missed'::text, 'aborted'::text])) AND (h.purchased_at >= COALESCE(LEAST(n.sent_at, n.doubtful_since), n.scheduled_at)) AND (ROW(((n.state = 'effective'::text) AND (n.effective_at <= h.purchased_at) AND (n.new_price_milliunits = h.price_milliunits) AND (n.currency = h.currency) AND (NOT (EXISTS ( SELECT
                   FROM repricer.price_changes y
                  WHERE ((y.original_transaction_id = n.original_transaction_id) AND (y.state = 'effective'::text) AND (y.undoes_change_id IS NULL) AND (COALESCE(y.current_sku, y.sku) = COALESCE(n.current_sku, n.sku)) AND (y.effective_at <= h.purchased_at) AND (ROW(y.effective_at, y.change_id) > ROW(n.effective_at, n.change_id))))))), COALESCE(LEAST(n.sent_at, n.doubtful_since), n.scheduled_at), n.change_id) > ROW((t.is_in_effect AND (c.new_price_milliunits = h.price_milliunits) AND (c.currency = h.currency) AND (NOT (EXISTS ( SELECT
                   FROM repricer.price_changes y
                  WHERE ((y.original_transaction_id = c.original_transaction_id) AND (y.state = 'effective'::text) AND (y.undoes_change_id IS NULL) AND (COALESCE(y.current_sku, y.sku) = COALESCE(c.current_sku, c.sku)) AND (y.effective_at <= h.purchased_at) AND (ROW(y.effective_at, y.change_id) > ROW(c.effective_at, c.change_id))))))), COALESCE(LEAST(c.sent_at, c.doubtful_since), c.scheduled_at), c.change_id)))
         OFFSET 0)))));

COMMENT ON VIEW repricer.explained_charges IS 'Each charge since the call of a change of its item: why it is as it is, or what is wrong with it.';

CREATE VIEW repricer.live_money AS
 SELECT x.original_transaction_id,
    e.transaction_id,
    e.sku,
    e.kind,
    e.amount_milliunits,
    e.tax_exclusive_milliunits,
    e.currency,
    e.storefront,
    e.occurred_at,
    e.recorded_at,
    e.evidence_id,
    x.change_id,
    x.batch_id,
        CASE
            WHEN (e.kind = 'charge'::text) THEN x.explained_as
            ELSE e.kind
        END AS explained_as,
    b.name AS batch_name,
    (e.correction > 0) AS is_correction
   FROM ((repricer.explained_charges x
     JOIN repricer.batches b ON ((b.batch_id = x.batch_id)))
     CROSS JOIN LATERAL ( SELECT m.original_transaction_id,
            m.bucket,
            m.transaction_id,
            m.sku,
            m.kind,
            m.occurred_at,
            m.number,
            m.correction,
            m.amount_milliunits,
            m.tax_exclusive_milliunits,
            m.currency,
            m.storefront,
            m.evidence_id,
            m.recorded_at,
            m.change_id,
            m.batch_id,
            m.explained_as,
            m.uplift_milliunits
           FROM repricer.money_entries m
          WHERE ((m.original_transaction_id = x.original_transaction_id) AND (m.transaction_id = x.transaction_id) AND (m.sku = x.sku))
         OFFSET 0) e)
UNION ALL
 SELECT e.original_transaction_id,
    e.transaction_id,
    e.sku,
    e.kind,
    e.amount_milliunits,
    e.tax_exclusive_milliunits,
    e.currency,
    e.storefront,
    e.occurred_at,
    e.recorded_at,
    e.evidence_id,
    NULL::uuid AS change_id,
    NULL::uuid AS batch_id,
        CASE
            WHEN (e.kind <> 'charge'::text) THEN e.kind
            ELSE NULL::text
        END AS explained_as,
    NULL::text AS batch_name,
    (e.correction > 0) AS is_correction
   FROM repricer.money_entries e
  WHERE (NOT (EXISTS ( SELECT
           FROM repricer.explained_charges x
          WHERE ((x.original_transaction_id = e.original_transaction_id) AND (x.transaction_id = e.transaction_id) AND (x.sku = e.sku)))));

COMMENT ON VIEW repricer.live_money IS 'report.money, computed from the facts.';

CREATE VIEW repricer.marked_money AS
 SELECT m.original_transaction_id,
    l.transaction_id,
    l.sku,
    l.kind,
    l.amount_milliunits,
    l.tax_exclusive_milliunits,
    l.currency,
    l.storefront,
    l.occurred_at,
    l.recorded_at,
    l.evidence_id,
    l.change_id,
    m.batch_id,
    l.explained_as,
    l.batch_name,
    l.is_correction
   FROM (repricer.marked_batches m
     CROSS JOIN LATERAL ( SELECT y.original_transaction_id,
            y.transaction_id,
            y.sku,
            y.kind,
            y.amount_milliunits,
            y.tax_exclusive_milliunits,
            y.currency,
            y.storefront,
            y.occurred_at,
            y.recorded_at,
            y.evidence_id,
            y.change_id,
            y.batch_id,
            y.explained_as,
            y.batch_name,
            y.is_correction
           FROM repricer.live_money y
          WHERE ((y.original_transaction_id = m.original_transaction_id) AND (y.batch_id = m.batch_id))
         OFFSET 0) l)
UNION ALL
 SELECT m.original_transaction_id,
    l.transaction_id,
    l.sku,
    l.kind,
    l.amount_milliunits,
    l.tax_exclusive_milliunits,
    l.currency,
    l.storefront,
    l.occurred_at,
    l.recorded_at,
    l.evidence_id,
    NULL::uuid AS change_id,
    NULL::uuid AS batch_id,
    l.explained_as,
    NULL::text AS batch_name,
    l.is_correction
   FROM (( SELECT DISTINCT s.original_transaction_id
           FROM repricer.stale_figures s) m
     CROSS JOIN LATERAL ( SELECT y.original_transaction_id,
            y.transaction_id,
            y.sku,
            y.kind,
            y.amount_milliunits,
            y.tax_exclusive_milliunits,
            y.currency,
            y.storefront,
            y.occurred_at,
            y.recorded_at,
            y.evidence_id,
            y.change_id,
            y.batch_id,
            y.explained_as,
            y.batch_name,
            y.is_correction
           FROM repricer.live_money y
          WHERE ((y.original_transaction_id = m.original_transaction_id) AND (y.batch_id IS NULL))
         OFFSET 0) l);

COMMENT ON VIEW repricer.marked_money IS 'The lines of report.money of subscriptions with a mark.';

CREATE VIEW report.money AS
 SELECT e.original_transaction_id,
    e.transaction_id,
    e.sku,
    e.kind,
    e.amount_milliunits,
    e.tax_exclusive_milliunits,
    e.currency,
    e.storefront,
    e.occurred_at,
    e.recorded_at,
    e.evidence_id,
    e.change_id,
    e.batch_id,
        CASE
            WHEN (e.kind = 'charge'::text) THEN e.explained_as
            ELSE e.kind
        END AS explained_as,
    b.name AS batch_name,
    (e.correction > 0) AS is_correction
   FROM (repricer.money_entries e
     LEFT JOIN repricer.batches b ON ((b.batch_id = e.batch_id)))
  WHERE (NOT (EXISTS ( SELECT
           FROM repricer.marked_subscriptions() s(id)
          WHERE (s.id = e.original_transaction_id))))
UNION ALL
 SELECT l.original_transaction_id,
    l.transaction_id,
    l.sku,
    l.kind,
    l.amount_milliunits,
    l.tax_exclusive_milliunits,
    l.currency,
    l.storefront,
    l.occurred_at,
    l.recorded_at,
    l.evidence_id,
    l.change_id,
    l.batch_id,
    l.explained_as,
    l.batch_name,
    l.is_correction
   FROM repricer.marked_money l;

COMMENT ON VIEW report.money IS 'Append-only: one line a signed charge, refund or reversal of one item. A line that a later statement makes another is followed by the difference, so that the sum of what was recorded by an instant is what was known then.';

COMMENT ON COLUMN report.money.original_transaction_id IS 'The subscription, as Apple names it.';

COMMENT ON COLUMN report.money.transaction_id IS 'The App Store''s transaction.';

COMMENT ON COLUMN report.money.sku IS 'The item that was charged, by its name then.';

COMMENT ON COLUMN report.money.kind IS 'charge, refund or reversal (of a refund).';

COMMENT ON COLUMN report.money.amount_milliunits IS 'In thousandths of the currency, tax included; refunds are negative.';

COMMENT ON COLUMN report.money.tax_exclusive_milliunits IS 'Without tax, as Apple signed it: the item''s share by price; null: it did not.';

COMMENT ON COLUMN report.money.currency IS 'ISO 4217: the currency of all money in the row.';

COMMENT ON COLUMN report.money.storefront IS 'ISO 3166-1 alpha-3.';

COMMENT ON COLUMN report.money.occurred_at IS 'When it was charged, refunded or taken back, by Apple''s clock.';

COMMENT ON COLUMN report.money.recorded_at IS 'When it was recorded here.';

COMMENT ON COLUMN report.money.evidence_id IS 'The signed statement that told it.';

COMMENT ON COLUMN report.money.change_id IS 'The price change that the charge belongs to; null: none of ours was called before.';

COMMENT ON COLUMN report.money.batch_id IS 'The batch; null where the row is about the whole installation.';

COMMENT ON COLUMN report.money.explained_as IS 'Of a charge: new_price, old_price (the change had not taken effect), offer, undone, moved (another storefront or currency), new_purchase (the customer''s own doing, and renewals of it after the change had ended); null: no change was called before, or charge_exception names it.';

COMMENT ON COLUMN report.money.batch_name IS 'The name that the submitter gave to the batch.';

COMMENT ON COLUMN report.money.is_correction IS 'Whether it is the difference that a later statement made.';

CREATE FUNCTION report.money_as_of(p_at timestamp with time zone, batch uuid DEFAULT NULL::uuid) RETURNS SETOF report.money
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
#variable_conflict use_column
DECLARE
    p_batch ALIAS FOR batch;
BEGIN
    PERFORM repricer.require_past(p_at);
    RETURN QUERY SELECT * FROM (
 SELECT x.original_transaction_id,
    e.transaction_id,
    e.sku,
    e.kind,
    e.amount_milliunits,
    e.tax_exclusive_milliunits,
    e.currency,
    e.storefront,
    e.occurred_at,
    e.recorded_at,
    e.evidence_id,
    x.change_id,
    x.batch_id,
        CASE
            WHEN (e.kind = 'charge'::text) THEN x.explained_as
            ELSE e.kind
        END AS explained_as,
    b.name AS batch_name,
    (e.correction > 0) AS is_correction
   FROM ((repricer.explained_charges_at(p_at) x
     JOIN repricer.batches_at(p_at) b ON ((b.batch_id = x.batch_id)))
     CROSS JOIN LATERAL ( SELECT m.original_transaction_id,
            m.bucket,
            m.transaction_id,
            m.sku,
            m.kind,
            m.occurred_at,
            m.number,
            m.correction,
            m.amount_milliunits,
            m.tax_exclusive_milliunits,
            m.currency,
            m.storefront,
            m.evidence_id,
            m.recorded_at,
            m.change_id,
            m.batch_id,
            m.explained_as,
            m.uplift_milliunits
           FROM repricer.money_entries_at(p_at) m
          WHERE ((m.original_transaction_id = x.original_transaction_id) AND (m.transaction_id = x.transaction_id) AND (m.sku = x.sku))
         OFFSET 0) e)
UNION ALL
 SELECT e.original_transaction_id,
    e.transaction_id,
    e.sku,
    e.kind,
    e.amount_milliunits,
    e.tax_exclusive_milliunits,
    e.currency,
    e.storefront,
    e.occurred_at,
    e.recorded_at,
    e.evidence_id,
    NULL::uuid AS change_id,
    NULL::uuid AS batch_id,
        CASE
            WHEN (e.kind <> 'charge'::text) THEN e.kind
            ELSE NULL::text
        END AS explained_as,
    NULL::text AS batch_name,
    (e.correction > 0) AS is_correction
   FROM repricer.money_entries_at(p_at) e
  WHERE (NOT (EXISTS ( SELECT
           FROM repricer.explained_charges_at(p_at) x
          WHERE ((x.original_transaction_id = e.original_transaction_id) AND (x.transaction_id = e.transaction_id) AND (x.sku = e.sku)))))
    AND NOT EXISTS (
        SELECT FROM repricer.frozen_figures_at(p_at) f
        WHERE f.original_transaction_id = e.original_transaction_id AND f.change_id = e.change_id)
UNION ALL
SELECT e.original_transaction_id, e.transaction_id, e.sku, e.kind, e.amount_milliunits, e.tax_exclusive_milliunits,
    e.currency, e.storefront, e.occurred_at, e.recorded_at, e.evidence_id, e.change_id, b.batch_id,
    CASE WHEN e.kind = 'charge' THEN e.explained_as ELSE e.kind END, b.name, e.correction > 0
FROM repricer.batches_at(p_at) b
CROSS JOIN LATERAL (
    SELECT m.* FROM (SELECT i.* FROM repricer.frozen_figures_at(p_at) i WHERE i.batch_id = b.batch_id OFFSET 0) f
    JOIN repricer.money_entries_at(p_at) m ON m.original_transaction_id = f.original_transaction_id AND m.change_id = f.change_id
    WHERE m.batch_id = b.batch_id
    OFFSET 0) e
    ) v WHERE p_batch IS NULL OR v.batch_id = p_batch;
END
$$;

COMMENT ON FUNCTION report.money_as_of(p_at timestamp with time zone, batch uuid) IS 'report.money as it was known at the instant: by what was recorded until then, late news left out.';

CREATE VIEW report.pending_consent AS
 SELECT c.batch_id,
    b.name AS batch_name,
    c.original_transaction_id,
    c.change_id,
    c.sku,
    c.storefront,
    c.period,
    c.currency,
    c.current_price_milliunits,
    c.new_price_milliunits,
    c.dependent_skus,
    c.consent_asked_at,
    c.due_effective_at AS consent_due_at,
    (c.due_effective_at < report.as_of()) AS is_overdue
   FROM (repricer.price_changes c
     JOIN repricer.batches b ON ((b.batch_id = c.batch_id)))
  WHERE (c.stage = 'pending_consent'::text);

COMMENT ON VIEW report.pending_consent IS 'Changes that wait for the subscriber''s consent.';

COMMENT ON COLUMN report.pending_consent.batch_id IS 'The batch; null where the row is about the whole installation.';

COMMENT ON COLUMN report.pending_consent.batch_name IS 'The name that the submitter gave to the batch.';

COMMENT ON COLUMN report.pending_consent.original_transaction_id IS 'The subscription, as Apple names it.';

COMMENT ON COLUMN report.pending_consent.change_id IS 'The price change; unique within its subscription.';

COMMENT ON COLUMN report.pending_consent.sku IS 'The item whose price changes.';

COMMENT ON COLUMN report.pending_consent.storefront IS 'ISO 3166-1 alpha-3.';

COMMENT ON COLUMN report.pending_consent.period IS 'Length of one billing period, ISO 8601: P1W, P1M, P2M, P3M, P6M, P1Y.';

COMMENT ON COLUMN report.pending_consent.currency IS 'ISO 4217: the currency of all money in the row.';

COMMENT ON COLUMN report.pending_consent.current_price_milliunits IS 'Price a period before the change, in thousandths of the currency.';

COMMENT ON COLUMN report.pending_consent.new_price_milliunits IS 'Price a period after the change, in thousandths of the currency.';

COMMENT ON COLUMN report.pending_consent.dependent_skus IS 'Items that are cancelled with this one if its increase is declined.';

COMMENT ON COLUMN report.pending_consent.consent_asked_at IS 'When the App Store first asked for consent; null: it has not.';

COMMENT ON COLUMN report.pending_consent.consent_due_at IS 'The renewal at which the item ends if consent is not given.';

COMMENT ON COLUMN report.pending_consent.is_overdue IS 'Whether the due instant lies before report.as_of().';

CREATE FUNCTION report.pending_consent_as_of(p_at timestamp with time zone, batch uuid DEFAULT NULL::uuid) RETURNS SETOF report.pending_consent
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
#variable_conflict use_column
DECLARE
    p_batch ALIAS FOR batch;
BEGIN
    PERFORM repricer.require_past(p_at);
    RETURN QUERY SELECT * FROM (
 SELECT c.batch_id,
    b.name AS batch_name,
    c.original_transaction_id,
    c.change_id,
    c.sku,
    c.storefront,
    c.period,
    c.currency,
    c.current_price_milliunits,
    c.new_price_milliunits,
    c.dependent_skus,
    c.consent_asked_at,
    c.due_effective_at AS consent_due_at,
    (c.due_effective_at < p_at) AS is_overdue
   FROM (repricer.price_changes_at(p_at) c
     JOIN repricer.batches_at(p_at) b ON ((b.batch_id = c.batch_id)))
  WHERE (c.stage = 'pending_consent'::text)
    ) v WHERE p_batch IS NULL OR v.batch_id = p_batch;
END
$$;

COMMENT ON FUNCTION report.pending_consent_as_of(p_at timestamp with time zone, batch uuid) IS 'report.pending_consent as it was known at the instant: by what was recorded until then, late news left out.';

CREATE FUNCTION repricer.is_that(p_one uuid, p_other uuid) RETURNS boolean
    LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE
    AS $$
BEGIN
    RETURN p_one = p_other;
END
$$;

CREATE VIEW report.price_change AS
 SELECT c.batch_id,
    b.name AS batch_name,
    c.line,
    c.original_transaction_id,
    c.change_id,
    c.sku,
    c.storefront,
    c.period,
    c.direction,
    c.currency,
    c.current_price_milliunits,
    c.new_price_milliunits,
    (c.new_price_milliunits - c.current_price_milliunits) AS difference_milliunits,
        CASE
            WHEN (c.current_price_milliunits = 0) THEN NULL::bigint
            WHEN (GREATEST(c.current_price_milliunits, c.new_price_milliunits) < '100000000000000'::bigint) THEN ((((c.new_price_milliunits - c.current_price_milliunits) * 20000) + ((sign(((c.new_price_milliunits - c.current_price_milliunits))::double precision))::bigint * c.current_price_milliunits)) / (c.current_price_milliunits * 2))
            ELSE (LEAST(('9223372036854775807'::bigint)::numeric, round(((((c.new_price_milliunits - c.current_price_milliunits))::numeric * (10000)::numeric) / (c.current_price_milliunits)::numeric))))::bigint
        END AS difference_basis_points,
    c.dependent_skus,
    c.effective_on_or_after,
    c.forecast_consent,
    c.forecast_reasons,
    c.forecast_threshold_source,
    c.forecast_renewal_at,
    c.forecast_notice_at,
    c.forecast_effective_at,
    c.send_after AS send_after_at,
    c.send_by AS send_by_at,
    c.due_effective_at,
    c.state,
    c.reason,
    (c.state = ANY (ARRAY['effective'::text, 'declined'::text, 'cancelled'::text, 'lapsed'::text, 'invalidated'::text, 'rejected'::text, 'ineligible'::text, 'missed'::text, 'aborted'::text])) AS is_final,
    c.request_reference_id,
    c.sent_at,
    c.scheduled_at,
    c.consent_asked_at,
    c.accepted_at,
    c.acceptance,
    c.effective_at,
    c.ended_at,
    c.state_since AS state_since_at,
    COALESCE(f.renewals, r.renewals, (0)::bigint) AS charged_renewals,
    COALESCE(f.first_at, r.first_at) AS first_charged_at,
    COALESCE(f.new_total_milliunits, r.new_total_milliunits, (0)::bigint) AS charged_total_milliunits,
    COALESCE((f.new_total_milliunits - f.old_total_milliunits), (r.new_total_milliunits - r.old_total_milliunits), (0)::bigint) AS charged_uplift_milliunits,
    c.undoes_change_id
   FROM (((repricer.price_changes c
     JOIN repricer.batches b ON ((b.batch_id = c.batch_id)))
     LEFT JOIN repricer.change_figures f ON (((f.original_transaction_id = c.original_transaction_id) AND (f.change_id = c.change_id) AND (f.batch_id = c.batch_id) AND ((f.change_id = c.change_id) OR repricer.is_that(f.change_id, c.change_id)) AND (NOT (EXISTS ( SELECT
           FROM repricer.marked_subscriptions() s(id)
          WHERE (s.id = f.original_transaction_id)))))))
     LEFT JOIN LATERAL ( SELECT h.renewals,
            h.first_at,
            h.old_total_milliunits,
            h.new_total_milliunits
           FROM (( SELECT 1 AS one
                  WHERE ((f.change_id IS NULL) AND (c.state = 'effective'::text))
                 OFFSET 0) unkept
             CROSS JOIN LATERAL ( SELECT count(*) AS renewals,
                    min(h_1.purchased_at) AS first_at,
                    repricer.fitting(sum(h_1.old_price_milliunits), (('the renewals of price change '::text || c.change_id) || ', at the old price,'::text)) AS old_total_milliunits,
                    repricer.fitting(sum(h_1.price_milliunits), ('the renewals of price change '::text || c.change_id)) AS new_total_milliunits
                   FROM repricer.charged_renewals h_1
                  WHERE ((h_1.original_transaction_id = c.original_transaction_id) AND (h_1.change_id = c.change_id))) h)) r ON (true));

COMMENT ON VIEW report.price_change IS 'One row a price change: what was forecast and approved, what came, and what was charged.';

COMMENT ON COLUMN report.price_change.batch_id IS 'The batch; null where the row is about the whole installation.';

COMMENT ON COLUMN report.price_change.batch_name IS 'The name that the submitter gave to the batch.';

COMMENT ON COLUMN report.price_change.line IS 'The line of the submitted file.';

COMMENT ON COLUMN report.price_change.original_transaction_id IS 'The subscription, as Apple names it.';

COMMENT ON COLUMN report.price_change.change_id IS 'The price change; unique within its subscription.';

COMMENT ON COLUMN report.price_change.sku IS 'The item whose price changes.';

COMMENT ON COLUMN report.price_change.storefront IS 'ISO 3166-1 alpha-3.';

COMMENT ON COLUMN report.price_change.period IS 'Length of one billing period, ISO 8601: P1W, P1M, P2M, P3M, P6M, P1Y.';

COMMENT ON COLUMN report.price_change.direction IS 'increase or decrease.';

COMMENT ON COLUMN report.price_change.currency IS 'ISO 4217: the currency of all money in the row.';

COMMENT ON COLUMN report.price_change.current_price_milliunits IS 'Price a period before the change, in thousandths of the currency.';

COMMENT ON COLUMN report.price_change.new_price_milliunits IS 'Price a period after the change, in thousandths of the currency.';

COMMENT ON COLUMN report.price_change.difference_milliunits IS 'New price less old price; negative for a decrease.';

COMMENT ON COLUMN report.price_change.difference_basis_points IS 'The difference in hundredths of a per cent of the old price, rounded half away from zero; null where the old price is 0.';

COMMENT ON COLUMN report.price_change.dependent_skus IS 'Items that are cancelled with this one if its increase is declined.';

COMMENT ON COLUMN report.price_change.effective_on_or_after IS 'First day that the submitter allowed; null: any.';

COMMENT ON COLUMN report.price_change.forecast_consent IS 'Consent as forecast: required, not_known, not_required (announced only), none (a decrease).';

COMMENT ON COLUMN report.price_change.forecast_reasons IS 'Why consent was forecast as required.';

COMMENT ON COLUMN report.price_change.forecast_threshold_source IS 'Where the threshold came from: apple, estimated, unknown.';

COMMENT ON COLUMN report.price_change.forecast_renewal_at IS 'The next renewal, as known at the forecast.';

COMMENT ON COLUMN report.price_change.forecast_notice_at IS 'When the App Store was forecast to tell the subscriber.';

COMMENT ON COLUMN report.price_change.forecast_effective_at IS 'The renewal at which the change was forecast to take effect.';

COMMENT ON COLUMN report.price_change.send_after_at IS 'First instant to send at; null: at once.';

COMMENT ON COLUMN report.price_change.send_by_at IS 'Last instant to send at.';

COMMENT ON COLUMN report.price_change.due_effective_at IS 'The renewal at which the change is due to take effect, as planned now.';

COMMENT ON COLUMN report.price_change.state IS 'State of the price change.';

COMMENT ON COLUMN report.price_change.reason IS 'Why it is in this state: a row code, an error code of the App Store or a cause.';

COMMENT ON COLUMN report.price_change.is_final IS 'Whether nothing more is expected.';

COMMENT ON COLUMN report.price_change.request_reference_id IS 'The id of the call, as the App Store knows it.';

COMMENT ON COLUMN report.price_change.sent_at IS 'When the call was made.';

COMMENT ON COLUMN report.price_change.scheduled_at IS 'When the App Store took the change.';

COMMENT ON COLUMN report.price_change.consent_asked_at IS 'When the App Store first asked for consent; null: it has not.';

COMMENT ON COLUMN report.price_change.accepted_at IS 'When the increase was consented to or announced.';

COMMENT ON COLUMN report.price_change.acceptance IS 'consented (the subscriber said yes, or was asked and then charged) or informed (told only).';

COMMENT ON COLUMN report.price_change.effective_at IS 'The renewal at which the new price was first charged.';

COMMENT ON COLUMN report.price_change.ended_at IS 'When the change became final.';

COMMENT ON COLUMN report.price_change.state_since_at IS 'Since when it is in this state.';

COMMENT ON COLUMN report.price_change.charged_renewals IS 'Renewals charged at the new price and not refunded in full. What charge_exception names as double, or as after_end while the change is in effect, counts until it is given back.';

COMMENT ON COLUMN report.price_change.first_charged_at IS 'The first of these renewals.';

COMMENT ON COLUMN report.price_change.charged_total_milliunits IS 'What these renewals charged, less what was refunded.';

COMMENT ON COLUMN report.price_change.charged_uplift_milliunits IS 'What these renewals charged more than at the old price; of one that was refunded in part, the share that was kept.';

COMMENT ON COLUMN report.price_change.undoes_change_id IS 'The change that this one takes back; null: it is no undo.';

CREATE FUNCTION report.price_change_as_of(p_at timestamp with time zone, batch uuid DEFAULT NULL::uuid) RETURNS SETOF report.price_change
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
#variable_conflict use_column
DECLARE
    p_batch ALIAS FOR batch;
BEGIN
    PERFORM repricer.require_past(p_at);
    RETURN QUERY SELECT * FROM (
 SELECT c.batch_id,
    b.name AS batch_name,
    c.line,
    c.original_transaction_id,
    c.change_id,
    c.sku,
    c.storefront,
    c.period,
    c.direction,
    c.currency,
    c.current_price_milliunits,
    c.new_price_milliunits,
    (c.new_price_milliunits - c.current_price_milliunits) AS difference_milliunits,
        CASE
            WHEN (c.current_price_milliunits = 0) THEN NULL::bigint
            WHEN (GREATEST(c.current_price_milliunits, c.new_price_milliunits) < '100000000000000'::bigint) THEN ((((c.new_price_milliunits - c.current_price_milliunits) * 20000) + ((sign(((c.new_price_milliunits - c.current_price_milliunits))::double precision))::bigint * c.current_price_milliunits)) / (c.current_price_milliunits * 2))
            ELSE (LEAST(('9223372036854775807'::bigint)::numeric, round(((((c.new_price_milliunits - c.current_price_milliunits))::numeric * (10000)::numeric) / (c.current_price_milliunits)::numeric))))::bigint
        END AS difference_basis_points,
    c.dependent_skus,
    c.effective_on_or_after,
    c.forecast_consent,
    c.forecast_reasons,
    c.forecast_threshold_source,
    c.forecast_renewal_at,
    c.forecast_notice_at,
    c.forecast_effective_at,
    c.send_after AS send_after_at,
    c.send_by AS send_by_at,
    c.due_effective_at,
    c.state,
    c.reason,
    (c.state = ANY (ARRAY['effective'::text, 'declined'::text, 'cancelled'::text, 'lapsed'::text, 'invalidated'::text, 'rejected'::text, 'ineligible'::text, 'missed'::text, 'aborted'::text])) AS is_final,
    c.request_reference_id,
    c.sent_at,
    c.scheduled_at,
    c.consent_asked_at,
    c.accepted_at,
    c.acceptance,
    c.effective_at,
    c.ended_at,
    c.state_since AS state_since_at,
    COALESCE(f.renewals, r.renewals, (0)::bigint) AS charged_renewals,
    COALESCE(f.first_at, r.first_at) AS first_charged_at,
    COALESCE(f.new_total_milliunits, r.new_total_milliunits, (0)::bigint) AS charged_total_milliunits,
    COALESCE((f.new_total_milliunits - f.old_total_milliunits), (r.new_total_milliunits - r.old_total_milliunits), (0)::bigint) AS charged_uplift_milliunits,
    c.undoes_change_id
   FROM (((repricer.price_changes_at(p_at) c
     JOIN repricer.batches_at(p_at) b ON ((b.batch_id = c.batch_id)))
     LEFT JOIN repricer.frozen_figures_at(p_at) f ON (((f.original_transaction_id = c.original_transaction_id) AND (f.change_id = c.change_id) AND (f.batch_id = c.batch_id) AND ((f.change_id = c.change_id) OR repricer.is_that(f.change_id, c.change_id)) AND (NOT (EXISTS ( SELECT
           FROM repricer.marked_subscriptions() s(id)
          WHERE (s.id = f.original_transaction_id)))))))
     LEFT JOIN LATERAL ( SELECT h.renewals,
            h.first_at,
            h.old_total_milliunits,
            h.new_total_milliunits
           FROM (( SELECT 1 AS one
                  WHERE ((f.change_id IS NULL) AND (c.state = 'effective'::text))
                 OFFSET 0) unkept
             CROSS JOIN LATERAL ( SELECT count(*) AS renewals,
                    min(h_1.purchased_at) AS first_at,
                    repricer.fitting(sum(h_1.old_price_milliunits), (('the renewals of price change '::text || c.change_id) || ', at the old price,'::text)) AS old_total_milliunits,
                    repricer.fitting(sum(h_1.price_milliunits), ('the renewals of price change '::text || c.change_id)) AS new_total_milliunits
                   FROM repricer.charged_renewals_at(p_at) h_1
                  WHERE ((h_1.original_transaction_id = c.original_transaction_id) AND (h_1.change_id = c.change_id))) h)) r ON (true))
    ) v WHERE p_batch IS NULL OR v.batch_id = p_batch;
END
$$;

COMMENT ON FUNCTION report.price_change_as_of(p_at timestamp with time zone, batch uuid) IS 'report.price_change as it was known at the instant: by what was recorded until then, late news left out.';

CREATE FUNCTION repricer.lacks_amount(p_left_out jsonb) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (p_left_out @? '$[*]?(@ like_regex "^transaction[.](transactionId|purchaseDate|quantity|currency|taxExclusivePrice|revocation(Date|Type|Percentage)|items|items[.](price|offer[.]price|refunds|revocationDate))$")'::jsonpath);

CREATE TABLE repricer.inbox (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    notification_uuid text NOT NULL,
    received_at timestamp with time zone NOT NULL,
    signed_at timestamp with time zone,
    error text,
    is_reread boolean DEFAULT false NOT NULL,
    CONSTRAINT inbox_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
);

COMMENT ON COLUMN repricer.inbox.is_reread IS 'Whether the notification was folded before. Its fold then replaces the statement that was read from it. Until then that statement stays, so that no fold misses a part of the history.';

CREATE TABLE repricer.notifications (
    notification_uuid text NOT NULL,
    received_at timestamp with time zone NOT NULL,
    signed_at timestamp with time zone,
    type text,
    subtype text,
    original_transaction_id text,
    understood boolean NOT NULL,
    unknown text[],
    signed_payload text,
    packed bytea,
    header_digests bytea,
    CONSTRAINT notifications_whole_or_packed CHECK ((((signed_payload IS NULL) = (packed IS NOT NULL)) AND ((packed IS NULL) = (header_digests IS NULL)) AND ((octet_length(header_digests) % 32) = 0)))
)
PARTITION BY RANGE (received_at);
ALTER TABLE ONLY repricer.notifications ALTER COLUMN signed_payload SET COMPRESSION lz4;
ALTER TABLE ONLY repricer.notifications ALTER COLUMN packed SET COMPRESSION lz4;

COMMENT ON COLUMN repricer.notifications.unknown IS 'The parts that the product did not know when it read the notification, each as kind:name. Null: none.';

COMMENT ON COLUMN repricer.notifications.signed_payload IS 'The whole payload, where it could not be restored to the byte from packed.';

COMMENT ON COLUMN repricer.notifications.packed IS 'The payload without its headers, decoded; `repricer evidence` prints it as it was signed.';

COMMENT ON COLUMN repricer.notifications.header_digests IS 'SHA-256 of each header of the payload, 32 bytes each, in the order in which packed numbers them.';

CREATE TABLE repricer.overdue_statements (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    signed_at timestamp with time zone NOT NULL,
    evidence_id text NOT NULL,
    type text,
    subtype text,
    recorded_at timestamp with time zone DEFAULT repricer.recording_instant() NOT NULL,
    CONSTRAINT overdue_statements_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
);

COMMENT ON TABLE repricer.overdue_statements IS 'Statements that arrived after a checkpoint of their subscription, and were signed before it. They were not folded.';

CREATE VIEW repricer.reconciliation_checks AS
 SELECT "*VALUES*".column1 AS check_name,
    "*VALUES*".column2 AS is_per_batch,
    "*VALUES*".column3 AS is_of_money,
    "*VALUES*".column4 AS meaning
   FROM (VALUES ('rows_add_up'::text,true,true,'batches whose changes or refused rows do not add up to the file'::text), ('silent_past_renewal'::text,true,false,'changes that Apple has, a day past their renewal without a word from Apple'::text), ('requests_unknown'::text,true,false,'calls whose outcome is not known and that nothing has settled yet'::text), ('effective_without_charge'::text,true,true,'effective changes without a charge at the new price'::text), ('ended_yet_applied'::text,true,false,'changes that ended here as not applied, while the App Store has their price'::text), ('charges_other_price'::text,true,true,'charges since a call that are neither at the old price nor at the new one'::text), ('charges_after_end'::text,true,true,'renewals charged after the change, or the subscription, had ended'::text), ('charges_declined'::text,true,true,'renewals charged after the increase was declined'::text), ('charges_missing'::text,true,true,'renewals since the call of a change that no charge tells of, and nothing tells why'::text), ('charges_double'::text,true,true,'renewals charged for a time that another charge had paid for'::text), ('charges_relisted'::text,true,true,'charges whose transaction Apple has signed with another item in their place, at another price'::text), ('charges_wrong_currency'::text,true,true,'charges in another currency than the change, in the same storefront, or in one that nobody told (XXX)'::text), ('charges_refunded'::text,true,true,'charges since a call that were refunded, in part or in full, and have no other name'::text), ('dependents_in_discrepancy'::text,true,false,'dependents whose cancellation could not be proved, or that renewed since'::text), ('dependents_not_recorded'::text,true,false,'dependents of declined changes that nobody looks after'::text), ('notifications_not_understood'::text,false,false,'notifications stored but not understood'::text), ('refunds_without_amount'::text,false,false,'refund notices that do not say how much was given back, or when'::text), ('amounts_left_out'::text,true,true,'statements with an amount, or what it hangs on, that cannot be meant, or of a charged item without a price: money that is in no sum, or counts as one seat'::text), ('overdue_money'::text,false,false,'charges and refunds that were told after retention had compacted their time, and that no earlier statement told: money that is in no sum'::text), ('inbox_stuck'::text,false,false,'notifications with an error, or waiting for more than a day'::text)) "*VALUES*";

COMMENT ON VIEW repricer.reconciliation_checks IS 'The checks of report.reconciliation, and what each counts.';

CREATE VIEW repricer.statements_without_amounts AS
 SELECT DISTINCT t.original_transaction_id,
    t.signed_at,
    t.evidence_id
   FROM repricer.told_statements t
  WHERE ((t.left_out IS NOT NULL) AND repricer.lacks_amount(t.left_out));

COMMENT ON VIEW repricer.statements_without_amounts IS 'Statements of which something was left out that a sum of money hangs on.';

CREATE VIEW report.reconciliation AS
 WITH problems(batch_id, check_name, problems) AS (
         SELECT batch_summary.batch_id,
            'rows_add_up'::text AS "?column?",
            count(*) AS count
           FROM report.batch_summary
          WHERE (NOT batch_summary.rows_add_up)
          GROUP BY batch_summary.batch_id
        UNION ALL
         SELECT c.batch_id,
            'silent_past_renewal'::text,
            count(*) AS count
           FROM (repricer.price_changes c
             LEFT JOIN LATERAL ( SELECT s_1.in_billing_retry,
                    s_1.status
                   FROM repricer.subscriptions s_1
                  WHERE (s_1.original_transaction_id = c.original_transaction_id)
                 OFFSET 0) s ON (true))
          WHERE ((c.stage = ANY (ARRAY['scheduled'::text, 'pending_consent'::text, 'accepted'::text])) AND (c.due_effective_at < (report.as_of() - repricer.days(1))) AND (NOT COALESCE(s.in_billing_retry, false)) AND (COALESCE(s.status, 0) <> ALL (ARRAY[3, 4])))
          GROUP BY c.batch_id
        UNION ALL
         SELECT c.batch_id,
            'requests_unknown'::text,
            count(DISTINCT r.call_id) AS count
           FROM (repricer.store_calls r
             JOIN repricer.price_changes c ON (((c.original_transaction_id = r.subject) AND (c.bucket = r.bucket) AND (c.change_id = ANY (r.carries)))))
          WHERE ((r.kind = 'price_change'::text) AND (r.settled_at IS NULL) AND (r.state = 'unknown'::text))
          GROUP BY c.batch_id
        UNION ALL
         SELECT t.batch_id,
            'effective_without_charge'::text,
            (sum(t.uncharged))::bigint AS sum
           FROM ( SELECT k.batch_id,
                    k.uncharged
                   FROM repricer.figure_tallies k
                UNION ALL
                 SELECT u.batch_id,
                    u.uncharged
                   FROM repricer.untallied_changes u
                  WHERE u.is_final) t
          GROUP BY t.batch_id
        UNION ALL
         SELECT c.batch_id,
            'ended_yet_applied'::text,
            count(*) AS count
           FROM (repricer.price_changes c
             JOIN repricer.batches b ON ((b.batch_id = c.batch_id)))
          WHERE ((c.stage = ANY (ARRAY['rejected'::text, 'ineligible'::text, 'missed'::text, 'aborted'::text])) AND (b.decided_at IS NOT NULL) AND (b.state <> 'rejected'::text) AND (c.undoes_change_id IS NULL) AND ((EXISTS ( SELECT
                   FROM (repricer.subscriptions s
                     CROSS JOIN LATERAL jsonb_array_elements(s.items) item(value))
                  WHERE ((s.original_transaction_id = c.original_transaction_id) AND ((item.value ->> 'sku'::text) = COALESCE(c.current_sku, c.sku)) AND ((item.value ->> 'renews'::text))::boolean AND (c.new_price_milliunits =
                        CASE
                            WHEN (c.direction = 'increase'::text) THEN ((item.value #>> '{increase,price}'::text[]))::bigint
                            ELSE ((item.value ->> 'renewalPrice'::text))::bigint
                        END)))) OR ((c.sent_at IS NOT NULL) AND (EXISTS ( SELECT
                   FROM repricer.charges k
                  WHERE ((k.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (k.purchased_at >= c.sent_at) AND (NOT k.is_offer) AND (k.currency = c.currency) AND (k.price_milliunits = c.new_price_milliunits)))))) AND (NOT (EXISTS ( SELECT
                   FROM repricer.price_changes o
                  WHERE ((o.original_transaction_id = c.original_transaction_id) AND (o.change_id <> c.change_id) AND (COALESCE(o.current_sku, o.sku) = COALESCE(c.current_sku, c.sku)) AND (o.new_price_milliunits = c.new_price_milliunits) AND (o.state <> ALL (ARRAY['awaiting_approval'::text, 'queued'::text, 'rejected'::text, 'ineligible'::text, 'missed'::text, 'aborted'::text])))))))
          GROUP BY c.batch_id
        UNION ALL
         SELECT charge_exceptions.batch_id,
                CASE charge_exceptions.exception
                    WHEN 'declined_yet_charged'::text THEN 'charges_declined'::text
                    ELSE ('charges_'::text || charge_exceptions.exception)
                END AS "case",
            count(*) AS count
           FROM repricer.charge_exceptions
          GROUP BY charge_exceptions.batch_id,
                CASE charge_exceptions.exception
                    WHEN 'declined_yet_charged'::text THEN 'charges_declined'::text
                    ELSE ('charges_'::text || charge_exceptions.exception)
                END
        UNION ALL
         SELECT c.batch_id,
            'amounts_left_out'::text,
            count(DISTINCT ROW(t.original_transaction_id, t.signed_at, t.evidence_id)) AS count
           FROM (repricer.statements_without_amounts t
             JOIN repricer.price_changes c ON (((c.original_transaction_id = t.original_transaction_id) AND (t.signed_at >= COALESCE(c.sent_at, c.doubtful_since, c.scheduled_at)))))
          GROUP BY c.batch_id
        UNION ALL
         SELECT d.batch_id,
            'dependents_in_discrepancy'::text,
            count(*) AS count
           FROM ( SELECT d_1.batch_id
                   FROM repricer.dependent_cancellations d_1
                  WHERE (d_1.state = 'discrepancy'::text)
                UNION ALL
                 SELECT x.batch_id
                   FROM repricer.returned_dependents x) d
          GROUP BY d.batch_id
        UNION ALL
         SELECT c.batch_id,
            'dependents_not_recorded'::text,
            count(*) AS count
           FROM (repricer.price_changes c
             CROSS JOIN LATERAL unnest(COALESCE(c.current_dependent_skus, c.dependent_skus)) u(sku))
          WHERE ((c.stage = 'declined'::text) AND (NOT (EXISTS ( SELECT
                   FROM repricer.dependent_cancellations d
                  WHERE ((d.original_transaction_id = c.original_transaction_id) AND (d.change_id = c.change_id) AND (d.dependent_sku = u.sku))))))
          GROUP BY c.batch_id
        )
 SELECT b.batch_id,
    b.name AS batch_name,
    k.check_name,
    COALESCE(p.problems, (0)::bigint) AS problems,
    ((COALESCE(p.problems, (0)::bigint) = 0) OR (k.check_name = 'charges_refunded'::text)) AS is_ok,
    k.meaning
   FROM ((repricer.batches b
     JOIN repricer.reconciliation_checks k ON (k.is_per_batch))
     LEFT JOIN problems p ON (((p.check_name = k.check_name) AND (p.batch_id = b.batch_id))))
UNION ALL
 SELECT NULL::uuid AS batch_id,
    NULL::text AS batch_name,
    k.check_name,
    n.problems,
    (n.problems = 0) AS is_ok,
    k.meaning
   FROM (repricer.reconciliation_checks k
     JOIN ( SELECT 'notifications_not_understood'::text AS check_name,
            count(*) AS problems
           FROM repricer.notifications
          WHERE (NOT notifications.understood)
        UNION ALL
         SELECT 'refunds_without_amount'::text,
            count(*) AS count
           FROM ( SELECT f_1.notification_uuid
                   FROM repricer.notifications f_1
                  WHERE ((f_1.type = 'REFUND'::text) AND (f_1.original_transaction_id IS NOT NULL) AND (NOT (EXISTS ( SELECT
                           FROM repricer.money_entries e
                          WHERE ((e.original_transaction_id = f_1.original_transaction_id) AND (e.kind = 'refund'::text) AND ((e.occurred_at >= (f_1.signed_at - repricer.days(1))) AND (e.occurred_at <= (f_1.signed_at + repricer.days(1)))))))) AND ((f_1.subtype = 'SEATS'::text) OR (EXISTS ( SELECT
                           FROM repricer.subscription_events t
                          WHERE ((t.original_transaction_id = f_1.original_transaction_id) AND (t.signed_at = f_1.signed_at) AND (t.evidence_id = f_1.notification_uuid) AND (NOT (t.statement @? '$."transaction"."revokedAt"'::jsonpath)) AND (NOT (t.statement @? '$."transaction"."items"[*]?(exists (@."revokedAt") || exists (@."refunds"))'::jsonpath)))))))
                UNION
                 SELECT f_1.notification_uuid
                   FROM repricer.notifications f_1
                  WHERE ((f_1.unknown IS NOT NULL) AND (EXISTS ( SELECT
                           FROM unnest(f_1.unknown) u(part)
                          WHERE (u.part ~ '[.]items[.]refunds[.]refund(Amount|Date)[:=]'::text))))) f
        UNION ALL
         SELECT 'overdue_money'::text,
            count(*) AS count
           FROM repricer.overdue_statements o
          WHERE ((o.type = ANY (ARRAY['SUBSCRIBED'::text, 'DID_RENEW'::text, 'ONE_TIME_CHARGE'::text, 'OFFER_REDEEMED'::text, 'REFUND'::text, 'REFUND_REVERSED'::text, 'REVOKE'::text])) AND (NOT (EXISTS ( SELECT
                   FROM repricer.money_entries e
                  WHERE ((e.original_transaction_id = o.original_transaction_id) AND (e.bucket = o.bucket) AND (e.kind =
                        CASE o.type
                            WHEN 'REFUND'::text THEN 'refund'::text
                            WHEN 'REVOKE'::text THEN 'refund'::text
                            WHEN 'REFUND_REVERSED'::text THEN 'reversal'::text
                            ELSE 'charge'::text
                        END) AND ((e.occurred_at >= (o.signed_at - repricer.days(2))) AND (e.occurred_at <= (o.signed_at + repricer.days(2)))))))))
        UNION ALL
         SELECT 'amounts_left_out'::text,
            count(*) AS count
           FROM repricer.statements_without_amounts
        UNION ALL
         SELECT 'inbox_stuck'::text,
            count(*) AS count
           FROM repricer.inbox
          WHERE ((inbox.error IS NOT NULL) OR (inbox.received_at < (report.as_of() - repricer.days(1))))) n ON ((n.check_name = k.check_name)));

COMMENT ON VIEW report.reconciliation IS 'Every check for every batch (batch_id null: the whole installation), also where all is well.';

COMMENT ON COLUMN report.reconciliation.batch_id IS 'The batch; null where the row is about the whole installation.';

COMMENT ON COLUMN report.reconciliation.batch_name IS 'The name that the submitter gave to the batch.';

COMMENT ON COLUMN report.reconciliation.check_name IS 'Which check.';

COMMENT ON COLUMN report.reconciliation.problems IS 'How many were found; 0 is well.';

COMMENT ON COLUMN report.reconciliation.is_ok IS 'Whether none was found. Refunds are counted, and are no fault.';

COMMENT ON COLUMN report.reconciliation.meaning IS 'What is counted.';

CREATE FUNCTION report.reconciliation_as_of(p_at timestamp with time zone, batch uuid DEFAULT NULL::uuid) RETURNS SETOF report.reconciliation
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
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
        -- OFFSET 0, twice, makes PostgreSQL search only the charges of changes that are not frozen, instead of reading all there are.
        FROM (
            SELECT u.* FROM unfrozen_changes_at(p_at) u
            WHERE u.state = 'effective' AND (p_batch IS NULL OR u.batch_id = p_batch)
            OFFSET 0) c
        WHERE NOT EXISTS (
            SELECT FROM charges_at(p_at) h
            WHERE h.original_transaction_id = c.original_transaction_id
                AND repricer.is_of_item(h.sku, h.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
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

COMMENT ON FUNCTION report.reconciliation_as_of(p_at timestamp with time zone, batch uuid) IS 'report.reconciliation as it was known at the instant: by what was recorded until then, late news left out. Only the checks of rows and of money.';

CREATE FUNCTION repricer.twelfths(p_period text) RETURNS integer
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE p_period WHEN 'P1W'::text THEN 52 WHEN 'P2M'::text THEN 6 WHEN 'P3M'::text THEN 4 WHEN 'P6M'::text THEN 2 WHEN 'P1Y'::text THEN 1 ELSE 12 END;

CREATE TABLE repricer.dependent_claims (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    sku text NOT NULL,
    claimed_by text NOT NULL,
    change_id uuid NOT NULL,
    recorded_at timestamp with time zone DEFAULT repricer.recording_instant() NOT NULL,
    period text,
    CONSTRAINT dependent_claims_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
);

COMMENT ON TABLE repricer.dependent_claims IS 'Items that a change names as dependents and that another subscription of the customer carries. A claim counts while its change is open.';

COMMENT ON COLUMN repricer.dependent_claims.original_transaction_id IS 'The subscription that carries the item.';

COMMENT ON COLUMN repricer.dependent_claims.claimed_by IS 'The subscription of the change that names it.';

COMMENT ON COLUMN repricer.dependent_claims.period IS 'How long the periods of the carrying subscription are from its next renewal on, as the claim found it; null: not known.';

CREATE VIEW report.revenue_at_risk AS
 WITH open AS (
         SELECT c.batch_id,
            c.change_id,
            c.state,
            c.forecast_consent,
            ((c.due_effective_at AT TIME ZONE 'UTC'::text))::date AS consent_due_on,
            r.currency,
            r.storefront,
            r.period,
            r.milliunits,
            r.is_own
           FROM (repricer.price_changes c
             CROSS JOIN LATERAL ( SELECT c.currency,
                    c.storefront,
                    c.period,
                    COALESCE((c.at_risk_milliunits)::numeric, ((c.current_price_milliunits)::numeric * (c.forecast_seats)::numeric)) AS milliunits,
                    true AS is_own
                UNION ALL
                 SELECT (e.value ->> 'currency'::text),
                    (e.value ->> 'storefront'::text),
                    (e.value ->> 'period'::text),
                    ((e.value ->> 'milliunits'::text))::bigint AS int8,
                    false
                   FROM jsonb_array_elements(c.at_risk_elsewhere) e(value)
                UNION ALL
                 SELECT k.currency,
                    k.storefront,
                    k.period,
                    (- o_1.milliunits),
                    false
                   FROM ((( SELECT c.original_transaction_id,
                            c.bucket,
                            name.name AS sku
                           FROM unnest(c.dependent_skus) name(name)
                        UNION
                         SELECT d_1.original_transaction_id,
                            d_1.bucket,
                            d_1.sku
                           FROM repricer.dependent_claims d_1
                          WHERE ((d_1.claimed_by = c.original_transaction_id) AND (d_1.change_id = c.change_id))) d
                     CROSS JOIN LATERAL ( SELECT o_2.currency,
                            o_2.storefront,
                            o_2.period,
                            ((o_2.current_price_milliunits)::numeric * (o_2.forecast_seats)::numeric) AS milliunits
                           FROM repricer.price_changes o_2
                          WHERE ((o_2.original_transaction_id = d.original_transaction_id) AND (o_2.bucket = d.bucket) AND (o_2.sku = d.sku) AND (o_2.change_id <> c.change_id) AND (o_2.at_risk_milliunits IS NOT NULL) AND (o_2.undoes_change_id IS NULL) AND (o_2.stage = ANY (ARRAY['queued'::text, 'unknown'::text, 'scheduled'::text, 'pending_consent'::text])) AND ((o_2.state = 'pending_consent'::text) OR (o_2.forecast_consent = ANY (ARRAY['required'::text, 'not_known'::text]))))
                         OFFSET 0) o_1)
                     CROSS JOIN LATERAL ( SELECT c.currency,
                            c.storefront,
                            c.period
                          WHERE ((o_1.currency = c.currency) AND (o_1.period = c.period))
                        UNION ALL
                         SELECT o_1.currency,
                            o_1.storefront,
                            o_1.period
                          WHERE ((o_1.currency <> c.currency) OR (o_1.period <> c.period))) k)
                  WHERE ((c.dependent_skus <> '{}'::text[]) AND (c.at_risk_milliunits IS NOT NULL))) r)
          WHERE ((c.stage = ANY (ARRAY['queued'::text, 'unknown'::text, 'scheduled'::text, 'pending_consent'::text])) AND (c.undoes_change_id IS NULL) AND ((c.state = 'pending_consent'::text) OR (c.forecast_consent = ANY (ARRAY['required'::text, 'not_known'::text]))))
        )
 SELECT o.batch_id,
    b.name AS batch_name,
    o.consent_due_on,
    o.currency,
    o.storefront,
    o.period,
    count(*) FILTER (WHERE o.is_own) AS changes,
    count(*) FILTER (WHERE (o.is_own AND (o.state = 'pending_consent'::text))) AS asked,
    count(*) FILTER (WHERE (o.is_own AND (o.state <> 'pending_consent'::text) AND (o.forecast_consent = 'required'::text))) AS to_be_asked,
    count(*) FILTER (WHERE (o.is_own AND (o.state <> 'pending_consent'::text) AND (o.forecast_consent <> 'required'::text))) AS not_known,
    repricer.figure(sum(o.milliunits), ((('revenue_at_risk, batch '::text || b.name) || ': at_risk of '::text) || o.currency)) AS at_risk_milliunits,
    repricer.figure(round(((sum(o.milliunits) * (repricer.twelfths(o.period))::numeric) / (12)::numeric)), ((('revenue_at_risk, batch '::text || b.name) || ': at_risk_per_month of '::text) || o.currency)) AS at_risk_per_month_milliunits
   FROM (open o
     JOIN repricer.batches b ON ((b.batch_id = o.batch_id)))
  GROUP BY o.batch_id, b.name, o.consent_due_on, o.currency, o.storefront, o.period
 HAVING ((count(*) FILTER (WHERE o.is_own) > 0) OR (sum(o.milliunits) <> (0)::numeric));

COMMENT ON VIEW report.revenue_at_risk IS 'What every period loses where the customers who must consent, or may have to, do not: by the day it is due.';

COMMENT ON COLUMN report.revenue_at_risk.batch_id IS 'The batch; null where the row is about the whole installation.';

COMMENT ON COLUMN report.revenue_at_risk.batch_name IS 'The name that the submitter gave to the batch.';

COMMENT ON COLUMN report.revenue_at_risk.consent_due_on IS 'The day, UTC, of the renewal at which items end if consent is not given.';

COMMENT ON COLUMN report.revenue_at_risk.currency IS 'ISO 4217: the currency of all money in the row.';

COMMENT ON COLUMN report.revenue_at_risk.storefront IS 'ISO 3166-1 alpha-3.';

COMMENT ON COLUMN report.revenue_at_risk.period IS 'Length of one billing period, ISO 8601: P1W, P1M, P2M, P3M, P6M, P1Y.';

COMMENT ON COLUMN report.revenue_at_risk.changes IS 'Price changes that wait for consent, or may have to; 0: only dependents of some in another currency or period.';

COMMENT ON COLUMN report.revenue_at_risk.asked IS 'Of these: the App Store has asked.';

COMMENT ON COLUMN report.revenue_at_risk.to_be_asked IS 'Of these: forecast as required, and not asked yet.';

COMMENT ON COLUMN report.revenue_at_risk.not_known IS 'Of these: the forecast does not say whether the App Store will ask.';

COMMENT ON COLUMN report.revenue_at_risk.at_risk_milliunits IS 'What a period brings of them and their dependents, as charged at submission.';

COMMENT ON COLUMN report.revenue_at_risk.at_risk_per_month_milliunits IS 'The same a month (weekly: times 52/12), rounded once.';

CREATE FUNCTION report.revenue_at_risk_as_of(p_at timestamp with time zone, batch uuid DEFAULT NULL::uuid) RETURNS SETOF report.revenue_at_risk
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
#variable_conflict use_column
DECLARE
    p_batch ALIAS FOR batch;
BEGIN
    PERFORM repricer.require_past(p_at);
    RETURN QUERY SELECT * FROM (
 WITH open AS (
         SELECT c.batch_id,
            c.change_id,
            c.state,
            c.forecast_consent,
            ((c.due_effective_at AT TIME ZONE 'UTC'::text))::date AS consent_due_on,
            r.currency,
            r.storefront,
            r.period,
            r.milliunits,
            r.is_own
           FROM (repricer.price_changes_at(p_at) c
             CROSS JOIN LATERAL ( SELECT c.currency,
                    c.storefront,
                    c.period,
                    COALESCE((c.at_risk_milliunits)::numeric, ((c.current_price_milliunits)::numeric * (c.forecast_seats)::numeric)) AS milliunits,
                    true AS is_own
                UNION ALL
                 SELECT (e.value ->> 'currency'::text),
                    (e.value ->> 'storefront'::text),
                    (e.value ->> 'period'::text),
                    ((e.value ->> 'milliunits'::text))::bigint AS int8,
                    false
                   FROM jsonb_array_elements(c.at_risk_elsewhere) e(value)
                UNION ALL
                 SELECT k.currency,
                    k.storefront,
                    k.period,
                    (- o_1.milliunits),
                    false
                   FROM ((( SELECT c.original_transaction_id,
                            c.bucket,
                            name.name AS sku
                           FROM unnest(c.dependent_skus) name(name)
                        UNION
                         SELECT d_1.original_transaction_id,
                            d_1.bucket,
                            d_1.sku
                           FROM repricer.dependent_claims_at(p_at) d_1
                          WHERE ((d_1.claimed_by = c.original_transaction_id) AND (d_1.change_id = c.change_id))) d
                     CROSS JOIN LATERAL ( SELECT o_2.currency,
                            o_2.storefront,
                            o_2.period,
                            ((o_2.current_price_milliunits)::numeric * (o_2.forecast_seats)::numeric) AS milliunits
                           FROM repricer.price_changes_at(p_at) o_2
                          WHERE ((o_2.original_transaction_id = d.original_transaction_id) AND (o_2.bucket = d.bucket) AND (o_2.sku = d.sku) AND (o_2.change_id <> c.change_id) AND (o_2.at_risk_milliunits IS NOT NULL) AND (o_2.undoes_change_id IS NULL) AND (o_2.stage = ANY (ARRAY['queued'::text, 'unknown'::text, 'scheduled'::text, 'pending_consent'::text])) AND ((o_2.state = 'pending_consent'::text) OR (o_2.forecast_consent = ANY (ARRAY['required'::text, 'not_known'::text]))))
                         OFFSET 0) o_1)
                     CROSS JOIN LATERAL ( SELECT c.currency,
                            c.storefront,
                            c.period
                          WHERE ((o_1.currency = c.currency) AND (o_1.period = c.period))
                        UNION ALL
                         SELECT o_1.currency,
                            o_1.storefront,
                            o_1.period
                          WHERE ((o_1.currency <> c.currency) OR (o_1.period <> c.period))) k)
                  WHERE ((c.dependent_skus <> '{}'::text[]) AND (c.at_risk_milliunits IS NOT NULL))) r)
          WHERE ((c.stage = ANY (ARRAY['queued'::text, 'unknown'::text, 'scheduled'::text, 'pending_consent'::text])) AND (c.undoes_change_id IS NULL) AND ((c.state = 'pending_consent'::text) OR (c.forecast_consent = ANY (ARRAY['required'::text, 'not_known'::text]))))
        )
 SELECT o.batch_id,
    b.name AS batch_name,
    o.consent_due_on,
    o.currency,
    o.storefront,
    o.period,
    count(*) FILTER (WHERE o.is_own) AS changes,
    count(*) FILTER (WHERE (o.is_own AND (o.state = 'pending_consent'::text))) AS asked,
    count(*) FILTER (WHERE (o.is_own AND (o.state <> 'pending_consent'::text) AND (o.forecast_consent = 'required'::text))) AS to_be_asked,
    count(*) FILTER (WHERE (o.is_own AND (o.state <> 'pending_consent'::text) AND (o.forecast_consent <> 'required'::text))) AS not_known,
    repricer.figure(sum(o.milliunits), ((('revenue_at_risk, batch '::text || b.name) || ': at_risk of '::text) || o.currency)) AS at_risk_milliunits,
    repricer.figure(round(((sum(o.milliunits) * (repricer.twelfths(o.period))::numeric) / (12)::numeric)), ((('revenue_at_risk, batch '::text || b.name) || ': at_risk_per_month of '::text) || o.currency)) AS at_risk_per_month_milliunits
   FROM (open o
     JOIN repricer.batches_at(p_at) b ON ((b.batch_id = o.batch_id)))
  GROUP BY o.batch_id, b.name, o.consent_due_on, o.currency, o.storefront, o.period
 HAVING ((count(*) FILTER (WHERE o.is_own) > 0) OR (sum(o.milliunits) <> (0)::numeric))
    ) v WHERE p_batch IS NULL OR v.batch_id = p_batch;
END
$$;

COMMENT ON FUNCTION report.revenue_at_risk_as_of(p_at timestamp with time zone, batch uuid) IS 'report.revenue_at_risk as it was known at the instant: by what was recorded until then, late news left out.';

CREATE FUNCTION repricer.bridge_moves(p_at timestamp with time zone, p_batch uuid) RETURNS TABLE(batch_id uuid, month date, currency text, storefront text, opening numeric, closing numeric, cause text, price_effect numeric)
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    AS $$
#variable_conflict use_column
DECLARE
    v_ids text[] := ARRAY(
        -- A change that the App Store has is kept from its first statement on. Until then its call has marked it, or nothing is
        -- kept of it.
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

COMMENT ON FUNCTION repricer.bridge_moves(p_at timestamp with time zone, p_batch uuid) IS 'revenue_moves of a batch, from what is kept as far as it is.';

CREATE VIEW report.revenue_bridge AS
 WITH sums AS (
         SELECT b_1.batch_id,
            m.month,
            m.currency,
            m.storefront,
            round((sum(m.opening) / (12)::numeric)) AS opening,
            round((sum(m.price_effect) / (12)::numeric)) AS price_effect,
            round((sum((m.closing - m.opening)) FILTER (WHERE (m.cause = 'declined'::text)) / (12)::numeric)) AS declined,
            round((sum((m.closing - m.opening)) FILTER (WHERE (m.cause = 'left'::text)) / (12)::numeric)) AS "left",
            round((sum((m.closing - m.opening)) FILTER (WHERE (m.cause = 'lapsed'::text)) / (12)::numeric)) AS lapsed,
            round((sum((m.closing - m.opening)) FILTER (WHERE (m.cause = 'dependents'::text)) / (12)::numeric)) AS dependents,
            round((sum(((m.closing - m.opening) - m.price_effect)) FILTER (WHERE (m.cause = 'refunds'::text)) / (12)::numeric)) AS refunds,
            round((sum(m.closing) / (12)::numeric)) AS closing
           FROM (repricer.batches b_1
             CROSS JOIN LATERAL repricer.bridge_moves(report.as_of(), b_1.batch_id) m(batch_id, month, currency, storefront, opening, closing, cause, price_effect))
          GROUP BY b_1.batch_id, m.month, m.currency, m.storefront
         HAVING ((round((sum(m.opening) / (12)::numeric)) <> (0)::numeric) OR (round((sum(m.closing) / (12)::numeric)) <> (0)::numeric))
        )
 SELECT s.batch_id,
    b.name AS batch_name,
    s.month,
    s.currency,
    s.storefront,
    repricer.figure(s.opening, ((w.what || 'opening'::text) || w.currency)) AS opening_milliunits,
    repricer.figure(s.price_effect, ((w.what || 'price_effect'::text) || w.currency)) AS price_effect_milliunits,
    repricer.figure(COALESCE(s.declined, (0)::numeric), ((w.what || 'declined'::text) || w.currency)) AS declined_milliunits,
    repricer.figure(COALESCE(s."left", (0)::numeric), ((w.what || 'left'::text) || w.currency)) AS left_milliunits,
    repricer.figure(COALESCE(s.lapsed, (0)::numeric), ((w.what || 'lapsed'::text) || w.currency)) AS lapsed_milliunits,
    repricer.figure(COALESCE(s.dependents, (0)::numeric), ((w.what || 'dependents'::text) || w.currency)) AS dependents_milliunits,
    repricer.figure(COALESCE(s.refunds, (0)::numeric), ((w.what || 'refunds'::text) || w.currency)) AS refunds_milliunits,
    repricer.figure((((((((s.closing - s.opening) - s.price_effect) - COALESCE(s.declined, (0)::numeric)) - COALESCE(s."left", (0)::numeric)) - COALESCE(s.lapsed, (0)::numeric)) - COALESCE(s.dependents, (0)::numeric)) - COALESCE(s.refunds, (0)::numeric)), ((w.what || 'other'::text) || w.currency)) AS other_milliunits,
    repricer.figure(s.closing, ((w.what || 'closing'::text) || w.currency)) AS closing_milliunits
   FROM ((sums s
     JOIN repricer.batches b ON ((b.batch_id = s.batch_id)))
     CROSS JOIN LATERAL ( SELECT (('revenue_bridge, batch '::text || b.name) || ': '::text) AS what,
            (' of '::text || s.currency) AS currency) w);

COMMENT ON VIEW report.revenue_bridge IS 'What the called changes and their dependents brought a month, from the start of each month (or the call) to its end, and why it differs: closing = opening + all between. An item that a second batch called within the month is in the second one alone, from that call on: what happened to it in that month before is in no row.';

COMMENT ON COLUMN report.revenue_bridge.batch_id IS 'The batch; null where the row is about the whole installation.';

COMMENT ON COLUMN report.revenue_bridge.batch_name IS 'The name that the submitter gave to the batch.';

COMMENT ON COLUMN report.revenue_bridge.month IS 'The calendar month, UTC, by its first day; the running one ends now.';

COMMENT ON COLUMN report.revenue_bridge.currency IS 'ISO 4217: the currency of all money in the row.';

COMMENT ON COLUMN report.revenue_bridge.storefront IS 'ISO 3166-1 alpha-3.';

COMMENT ON COLUMN report.revenue_bridge.opening_milliunits IS 'What the items brought a month at the start of the month; of those called within it, at their call.';

COMMENT ON COLUMN report.revenue_bridge.price_effect_milliunits IS 'What new prices added that took effect, of each seat that was charged at them first and still pays at the end of the month.';

COMMENT ON COLUMN report.revenue_bridge.declined_milliunits IS 'Items that ended because their increase was declined; losses are negative.';

COMMENT ON COLUMN report.revenue_bridge.left_milliunits IS 'Items whose customer left.';

COMMENT ON COLUMN report.revenue_bridge.lapsed_milliunits IS 'Items that ended for billing or product reasons.';

COMMENT ON COLUMN report.revenue_bridge.dependents_milliunits IS 'Dependents that ended with the declined increase of their parent.';

COMMENT ON COLUMN report.revenue_bridge.refunds_milliunits IS 'Items that ended by a refund of all, or by a revocation, whatever part of the money it gave back.';

COMMENT ON COLUMN report.revenue_bridge.other_milliunits IS 'All else: who came back, prices changed elsewhere, items exchanged for another, offers, moves to another storefront, ends without a word (also after a refund that ended nothing), and rounding.';

COMMENT ON COLUMN report.revenue_bridge.closing_milliunits IS 'What they brought a month at its end.';

CREATE FUNCTION report.revenue_bridge_as_of(p_at timestamp with time zone, batch uuid DEFAULT NULL::uuid) RETURNS SETOF report.revenue_bridge
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
#variable_conflict use_column
DECLARE
    p_batch ALIAS FOR batch;
BEGIN
    PERFORM repricer.require_past(p_at);
    RETURN QUERY SELECT * FROM (
 WITH sums AS (
         SELECT b_1.batch_id,
            m.month,
            m.currency,
            m.storefront,
            round((sum(m.opening) / (12)::numeric)) AS opening,
            round((sum(m.price_effect) / (12)::numeric)) AS price_effect,
            round((sum((m.closing - m.opening)) FILTER (WHERE (m.cause = 'declined'::text)) / (12)::numeric)) AS declined,
            round((sum((m.closing - m.opening)) FILTER (WHERE (m.cause = 'left'::text)) / (12)::numeric)) AS "left",
            round((sum((m.closing - m.opening)) FILTER (WHERE (m.cause = 'lapsed'::text)) / (12)::numeric)) AS lapsed,
            round((sum((m.closing - m.opening)) FILTER (WHERE (m.cause = 'dependents'::text)) / (12)::numeric)) AS dependents,
            round((sum(((m.closing - m.opening) - m.price_effect)) FILTER (WHERE (m.cause = 'refunds'::text)) / (12)::numeric)) AS refunds,
            round((sum(m.closing) / (12)::numeric)) AS closing
           FROM (repricer.batches_at(p_at) b_1
             CROSS JOIN LATERAL repricer.bridge_moves_at(p_at, b_1.batch_id) m(batch_id, month, currency, storefront, opening, closing, cause, price_effect))
          GROUP BY b_1.batch_id, m.month, m.currency, m.storefront
         HAVING ((round((sum(m.opening) / (12)::numeric)) <> (0)::numeric) OR (round((sum(m.closing) / (12)::numeric)) <> (0)::numeric))
        )
 SELECT s.batch_id,
    b.name AS batch_name,
    s.month,
    s.currency,
    s.storefront,
    repricer.figure(s.opening, ((w.what || 'opening'::text) || w.currency)) AS opening_milliunits,
    repricer.figure(s.price_effect, ((w.what || 'price_effect'::text) || w.currency)) AS price_effect_milliunits,
    repricer.figure(COALESCE(s.declined, (0)::numeric), ((w.what || 'declined'::text) || w.currency)) AS declined_milliunits,
    repricer.figure(COALESCE(s."left", (0)::numeric), ((w.what || 'left'::text) || w.currency)) AS left_milliunits,
    repricer.figure(COALESCE(s.lapsed, (0)::numeric), ((w.what || 'lapsed'::text) || w.currency)) AS lapsed_milliunits,
    repricer.figure(COALESCE(s.dependents, (0)::numeric), ((w.what || 'dependents'::text) || w.currency)) AS dependents_milliunits,
    repricer.figure(COALESCE(s.refunds, (0)::numeric), ((w.what || 'refunds'::text) || w.currency)) AS refunds_milliunits,
    repricer.figure((((((((s.closing - s.opening) - s.price_effect) - COALESCE(s.declined, (0)::numeric)) - COALESCE(s."left", (0)::numeric)) - COALESCE(s.lapsed, (0)::numeric)) - COALESCE(s.dependents, (0)::numeric)) - COALESCE(s.refunds, (0)::numeric)), ((w.what || 'other'::text) || w.currency)) AS other_milliunits,
    repricer.figure(s.closing, ((w.what || 'closing'::text) || w.currency)) AS closing_milliunits
   FROM ((sums s
     JOIN repricer.batches_at(p_at) b ON ((b.batch_id = s.batch_id)))
     CROSS JOIN LATERAL ( SELECT (('revenue_bridge, batch '::text || b.name) || ': '::text) AS what,
            (' of '::text || s.currency) AS currency) w)
    ) v WHERE p_batch IS NULL OR v.batch_id = p_batch;
END
$$;

COMMENT ON FUNCTION report.revenue_bridge_as_of(p_at timestamp with time zone, batch uuid) IS 'report.revenue_bridge as it was known at the instant: by what was recorded until then, late news left out.';

CREATE TABLE repricer.exchange_rates (
    currency text NOT NULL,
    valid_from timestamp with time zone NOT NULL,
    revision integer NOT NULL,
    imported_by text DEFAULT SESSION_USER NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    withdrawn boolean DEFAULT false NOT NULL,
    billionths_per_euro bigint,
    source text,
    CONSTRAINT exchange_rates_currency CHECK ((currency ~ '^[A-Z]{3}$'::text)),
    CONSTRAINT exchange_rates_positive CHECK ((billionths_per_euro > 0)),
    CONSTRAINT exchange_rates_says CHECK (((withdrawn = (billionths_per_euro IS NULL)) AND (withdrawn = (source IS NULL)))),
    CONSTRAINT exchange_rates_source_size CHECK (((length(source) >= 1) AND (length(source) <= 64))),
    CONSTRAINT exchange_rates_valid_from CHECK (((valid_from = '-infinity'::timestamp with time zone) OR ((valid_from >= '0001-01-01 00:00:00+00'::timestamp with time zone) AND (valid_from <= '9999-12-31 00:00:00+00'::timestamp with time zone))))
);

COMMENT ON TABLE repricer.exchange_rates IS 'Append-only. What one euro costs, in billionths of the currency: to estimate thresholds, and to convert sums into one currency.';

CREATE VIEW report.revenue_bridge_total AS
 WITH imported AS (
         SELECT DISTINCT ON (r.currency) r.currency,
            (r.billionths_per_euro)::numeric AS per_euro,
            r.valid_from
           FROM ( SELECT DISTINCT ON (e.currency, e.valid_from) e.currency,
                    e.valid_from,
                    e.billionths_per_euro
                   FROM repricer.exchange_rates e
                  WHERE ((e.valid_from <= report.as_of()) AND (e.recorded_at <= report.as_of()))
                  ORDER BY e.currency, e.valid_from, e.revision DESC) r
          WHERE (r.billionths_per_euro IS NOT NULL)
          ORDER BY r.currency, r.valid_from DESC
        ), rates AS (
         SELECT i.currency,
            i.per_euro,
            i.valid_from
           FROM imported i
        UNION ALL
         SELECT 'EUR'::text,
            (1000000000)::numeric AS "numeric",
            NULL::timestamp with time zone AS timestamptz
          WHERE (NOT (EXISTS ( SELECT
                   FROM imported i
                  WHERE (i.currency = 'EUR'::text))))
        ), target AS (
         SELECT t.currency,
            r.per_euro,
            r.valid_from
           FROM (( SELECT COALESCE(NULLIF(current_setting('repricer.reporting_currency'::text, true), ''::text), 'USD'::text) AS currency) t
             LEFT JOIN rates r ON ((r.currency = t.currency)))
        ), converted AS (
         SELECT b.batch_id,
            b.batch_name,
            b.month,
            b.currency,
            b.storefront,
            b.opening_milliunits,
            b.price_effect_milliunits,
            b.declined_milliunits,
            b.left_milliunits,
            b.lapsed_milliunits,
            b.dependents_milliunits,
            b.refunds_milliunits,
            b.other_milliunits,
            b.closing_milliunits,
            t.currency AS reporting_currency,
                CASE
                    WHEN (b.currency = t.currency) THEN (1)::numeric
                    ELSE (t.per_euro / r.per_euro)
                END AS rate,
                CASE
                    WHEN ((b.currency <> t.currency) AND ((t.per_euro / r.per_euro) IS NOT NULL)) THEN LEAST(t.valid_from, r.valid_from)
                    ELSE NULL::timestamp with time zone
                END AS valid_from,
                CASE
                    WHEN ((b.currency <> t.currency) AND ((t.per_euro / r.per_euro) IS NOT NULL)) THEN ((((r.currency || ' '::text) || trim_scale((r.per_euro / (1000000000)::numeric))) || ' for EUR 1 since '::text) || to_char((r.valid_from AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD'::text))
                    ELSE NULL::text
                END AS rate_used,
                CASE
                    WHEN ((b.currency <> t.currency) AND ((t.per_euro / r.per_euro) IS NOT NULL)) THEN ((((t.currency || ' '::text) || trim_scale((t.per_euro / (1000000000)::numeric))) || ' for EUR 1 since '::text) || to_char((t.valid_from AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD'::text))
                    ELSE NULL::text
                END AS target_used,
                CASE
                    WHEN (b.currency <> t.currency) THEN ARRAY[
                    CASE
                        WHEN (r.per_euro IS NULL) THEN b.currency
                        ELSE NULL::text
                    END,
                    CASE
                        WHEN (t.per_euro IS NULL) THEN t.currency
                        ELSE NULL::text
                    END]
                    ELSE NULL::text[]
                END AS lacking
           FROM ((report.revenue_bridge b
             CROSS JOIN target t)
             LEFT JOIN rates r ON ((r.currency = b.currency)))
        ), sums AS (
         SELECT converted.batch_id,
            converted.batch_name,
            converted.month,
            converted.reporting_currency,
            round(sum(((converted.opening_milliunits)::numeric * converted.rate))) AS opening,
            round(sum(((converted.price_effect_milliunits)::numeric * converted.rate))) AS price_effect,
            round(sum(((converted.declined_milliunits)::numeric * converted.rate))) AS declined,
            round(sum(((converted.left_milliunits)::numeric * converted.rate))) AS "left",
            round(sum(((converted.lapsed_milliunits)::numeric * converted.rate))) AS lapsed,
            round(sum(((converted.dependents_milliunits)::numeric * converted.rate))) AS dependents,
            round(sum(((converted.refunds_milliunits)::numeric * converted.rate))) AS refunds,
            round(sum(((converted.closing_milliunits)::numeric * converted.rate))) AS closing,
            ((min(converted.valid_from) AT TIME ZONE 'UTC'::text))::date AS rates_from,
            ( SELECT array_agg(DISTINCT u.currency ORDER BY u.currency) AS array_agg
                   FROM unnest(array_agg(converted.lacking) FILTER (WHERE (converted.lacking IS NOT NULL))) u(currency)
                  WHERE (u.currency IS NOT NULL)) AS without_rate,
            ( SELECT array_agg(u.used ORDER BY (u.used COLLATE "C")) AS array_agg
                   FROM ( SELECT unnest((array_agg(DISTINCT converted.rate_used) || max(converted.target_used))) AS used) u
                  WHERE (u.used IS NOT NULL)) AS rates
           FROM converted
          GROUP BY converted.batch_id, converted.batch_name, converted.month, converted.reporting_currency
        )
 SELECT s.batch_id,
    s.batch_name,
    s.month,
    s.reporting_currency AS currency,
    repricer.figure(s.opening, ((s.what || 'opening'::text) || s.in_currency)) AS opening_milliunits,
    repricer.figure(s.price_effect, ((s.what || 'price_effect'::text) || s.in_currency)) AS price_effect_milliunits,
    repricer.figure(s.declined, ((s.what || 'declined'::text) || s.in_currency)) AS declined_milliunits,
    repricer.figure(s."left", ((s.what || 'left'::text) || s.in_currency)) AS left_milliunits,
    repricer.figure(s.lapsed, ((s.what || 'lapsed'::text) || s.in_currency)) AS lapsed_milliunits,
    repricer.figure(s.dependents, ((s.what || 'dependents'::text) || s.in_currency)) AS dependents_milliunits,
    repricer.figure(s.refunds, ((s.what || 'refunds'::text) || s.in_currency)) AS refunds_milliunits,
    repricer.figure((((((((s.closing - s.opening) - s.price_effect) - s.declined) - s."left") - s.lapsed) - s.dependents) - s.refunds), ((s.what || 'other'::text) || s.in_currency)) AS other_milliunits,
    repricer.figure(s.closing, ((s.what || 'closing'::text) || s.in_currency)) AS closing_milliunits,
    s.rates_from,
    s.without_rate,
    s.rates
   FROM ( SELECT n.batch_id,
            n.batch_name,
            n.month,
            n.reporting_currency,
            n.opening,
            n.price_effect,
            n.declined,
            n."left",
            n.lapsed,
            n.dependents,
            n.refunds,
            n.closing,
            n.rates_from,
            n.without_rate,
            n.rates,
            (('revenue_bridge_total, batch '::text || n.batch_name) || ': '::text) AS what,
            (' in '::text || n.reporting_currency) AS in_currency
           FROM sums n) s;

COMMENT ON VIEW report.revenue_bridge_total IS 'revenue_bridge in one currency: the setting repricer.reporting_currency, else USD, at the newest imported rates.';

COMMENT ON COLUMN report.revenue_bridge_total.batch_id IS 'The batch; null where the row is about the whole installation.';

COMMENT ON COLUMN report.revenue_bridge_total.batch_name IS 'The name that the submitter gave to the batch.';

COMMENT ON COLUMN report.revenue_bridge_total.month IS 'The calendar month, UTC, by its first day; the running one ends now.';

COMMENT ON COLUMN report.revenue_bridge_total.currency IS 'The reporting currency, ISO 4217.';

COMMENT ON COLUMN report.revenue_bridge_total.opening_milliunits IS 'As in revenue_bridge, converted.';

COMMENT ON COLUMN report.revenue_bridge_total.price_effect_milliunits IS 'Likewise.';

COMMENT ON COLUMN report.revenue_bridge_total.declined_milliunits IS 'Likewise.';

COMMENT ON COLUMN report.revenue_bridge_total.left_milliunits IS 'Likewise.';

COMMENT ON COLUMN report.revenue_bridge_total.lapsed_milliunits IS 'Likewise.';

COMMENT ON COLUMN report.revenue_bridge_total.dependents_milliunits IS 'Likewise.';

COMMENT ON COLUMN report.revenue_bridge_total.refunds_milliunits IS 'Likewise.';

COMMENT ON COLUMN report.revenue_bridge_total.other_milliunits IS 'Likewise.';

COMMENT ON COLUMN report.revenue_bridge_total.closing_milliunits IS 'Likewise.';

COMMENT ON COLUMN report.revenue_bridge_total.rates_from IS 'The day of the oldest rate that it rests on; null: nothing was converted.';

COMMENT ON COLUMN report.revenue_bridge_total.without_rate IS 'Currencies that have no rate: their money is in no figure of the row. If the currency of the row itself is one of them, the figures hold only money in that currency.';

COMMENT ON COLUMN report.revenue_bridge_total.rates IS 'The rates that were used, each with the day since which it holds: units for one euro, whose own is 1. Money is divided by the rate of its currency and multiplied by that of the reporting one.';

CREATE FUNCTION report.revenue_bridge_total_as_of(p_at timestamp with time zone, batch uuid DEFAULT NULL::uuid) RETURNS SETOF report.revenue_bridge_total
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
#variable_conflict use_column
DECLARE
    p_batch ALIAS FOR batch;
BEGIN
    PERFORM repricer.require_past(p_at);
    RETURN QUERY SELECT * FROM (
 WITH imported AS (
         SELECT DISTINCT ON (r.currency) r.currency,
            (r.billionths_per_euro)::numeric AS per_euro,
            r.valid_from
           FROM ( SELECT DISTINCT ON (e.currency, e.valid_from) e.currency,
                    e.valid_from,
                    e.billionths_per_euro
                   FROM repricer.exchange_rates e
                  WHERE ((e.valid_from <= p_at) AND (e.recorded_at <= p_at))
                  ORDER BY e.currency, e.valid_from, e.revision DESC) r
          WHERE (r.billionths_per_euro IS NOT NULL)
          ORDER BY r.currency, r.valid_from DESC
        ), rates AS (
         SELECT i.currency,
            i.per_euro,
            i.valid_from
           FROM imported i
        UNION ALL
         SELECT 'EUR'::text,
            (1000000000)::numeric AS "numeric",
            NULL::timestamp with time zone AS timestamptz
          WHERE (NOT (EXISTS ( SELECT
                   FROM imported i
                  WHERE (i.currency = 'EUR'::text))))
        ), target AS (
         SELECT t.currency,
            r.per_euro,
            r.valid_from
           FROM (( SELECT COALESCE(NULLIF(current_setting('repricer.reporting_currency'::text, true), ''::text), 'USD'::text) AS currency) t
             LEFT JOIN rates r ON ((r.currency = t.currency)))
        ), converted AS (
         SELECT b.batch_id,
            b.batch_name,
            b.month,
            b.currency,
            b.storefront,
            b.opening_milliunits,
            b.price_effect_milliunits,
            b.declined_milliunits,
            b.left_milliunits,
            b.lapsed_milliunits,
            b.dependents_milliunits,
            b.refunds_milliunits,
            b.other_milliunits,
            b.closing_milliunits,
            t.currency AS reporting_currency,
                CASE
                    WHEN (b.currency = t.currency) THEN (1)::numeric
                    ELSE (t.per_euro / r.per_euro)
                END AS rate,
                CASE
                    WHEN ((b.currency <> t.currency) AND ((t.per_euro / r.per_euro) IS NOT NULL)) THEN LEAST(t.valid_from, r.valid_from)
                    ELSE NULL::timestamp with time zone
                END AS valid_from,
                CASE
                    WHEN ((b.currency <> t.currency) AND ((t.per_euro / r.per_euro) IS NOT NULL)) THEN ((((r.currency || ' '::text) || trim_scale((r.per_euro / (1000000000)::numeric))) || ' for EUR 1 since '::text) || to_char((r.valid_from AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD'::text))
                    ELSE NULL::text
                END AS rate_used,
                CASE
                    WHEN ((b.currency <> t.currency) AND ((t.per_euro / r.per_euro) IS NOT NULL)) THEN ((((t.currency || ' '::text) || trim_scale((t.per_euro / (1000000000)::numeric))) || ' for EUR 1 since '::text) || to_char((t.valid_from AT TIME ZONE 'UTC'::text), 'YYYY-MM-DD'::text))
                    ELSE NULL::text
                END AS target_used,
                CASE
                    WHEN (b.currency <> t.currency) THEN ARRAY[
                    CASE
                        WHEN (r.per_euro IS NULL) THEN b.currency
                        ELSE NULL::text
                    END,
                    CASE
                        WHEN (t.per_euro IS NULL) THEN t.currency
                        ELSE NULL::text
                    END]
                    ELSE NULL::text[]
                END AS lacking
           FROM ((report.revenue_bridge_as_of(p_at, p_batch) b
             CROSS JOIN target t)
             LEFT JOIN rates r ON ((r.currency = b.currency)))
        ), sums AS (
         SELECT converted.batch_id,
            converted.batch_name,
            converted.month,
            converted.reporting_currency,
            round(sum(((converted.opening_milliunits)::numeric * converted.rate))) AS opening,
            round(sum(((converted.price_effect_milliunits)::numeric * converted.rate))) AS price_effect,
            round(sum(((converted.declined_milliunits)::numeric * converted.rate))) AS declined,
            round(sum(((converted.left_milliunits)::numeric * converted.rate))) AS "left",
            round(sum(((converted.lapsed_milliunits)::numeric * converted.rate))) AS lapsed,
            round(sum(((converted.dependents_milliunits)::numeric * converted.rate))) AS dependents,
            round(sum(((converted.refunds_milliunits)::numeric * converted.rate))) AS refunds,
            round(sum(((converted.closing_milliunits)::numeric * converted.rate))) AS closing,
            ((min(converted.valid_from) AT TIME ZONE 'UTC'::text))::date AS rates_from,
            ( SELECT array_agg(DISTINCT u.currency ORDER BY u.currency) AS array_agg
                   FROM unnest(array_agg(converted.lacking) FILTER (WHERE (converted.lacking IS NOT NULL))) u(currency)
                  WHERE (u.currency IS NOT NULL)) AS without_rate,
            ( SELECT array_agg(u.used ORDER BY (u.used COLLATE "C")) AS array_agg
                   FROM ( SELECT unnest((array_agg(DISTINCT converted.rate_used) || max(converted.target_used))) AS used) u
                  WHERE (u.used IS NOT NULL)) AS rates
           FROM converted
          GROUP BY converted.batch_id, converted.batch_name, converted.month, converted.reporting_currency
        )
 SELECT s.batch_id,
    s.batch_name,
    s.month,
    s.reporting_currency AS currency,
    repricer.figure(s.opening, ((s.what || 'opening'::text) || s.in_currency)) AS opening_milliunits,
    repricer.figure(s.price_effect, ((s.what || 'price_effect'::text) || s.in_currency)) AS price_effect_milliunits,
    repricer.figure(s.declined, ((s.what || 'declined'::text) || s.in_currency)) AS declined_milliunits,
    repricer.figure(s."left", ((s.what || 'left'::text) || s.in_currency)) AS left_milliunits,
    repricer.figure(s.lapsed, ((s.what || 'lapsed'::text) || s.in_currency)) AS lapsed_milliunits,
    repricer.figure(s.dependents, ((s.what || 'dependents'::text) || s.in_currency)) AS dependents_milliunits,
    repricer.figure(s.refunds, ((s.what || 'refunds'::text) || s.in_currency)) AS refunds_milliunits,
    repricer.figure((((((((s.closing - s.opening) - s.price_effect) - s.declined) - s."left") - s.lapsed) - s.dependents) - s.refunds), ((s.what || 'other'::text) || s.in_currency)) AS other_milliunits,
    repricer.figure(s.closing, ((s.what || 'closing'::text) || s.in_currency)) AS closing_milliunits,
    s.rates_from,
    s.without_rate,
    s.rates
   FROM ( SELECT n.batch_id,
            n.batch_name,
            n.month,
            n.reporting_currency,
            n.opening,
            n.price_effect,
            n.declined,
            n."left",
            n.lapsed,
            n.dependents,
            n.refunds,
            n.closing,
            n.rates_from,
            n.without_rate,
            n.rates,
            (('revenue_bridge_total, batch '::text || n.batch_name) || ': '::text) AS what,
            (' in '::text || n.reporting_currency) AS in_currency
           FROM sums n) s
    ) v WHERE p_batch IS NULL OR v.batch_id = p_batch;
END
$$;

COMMENT ON FUNCTION report.revenue_bridge_total_as_of(p_at timestamp with time zone, batch uuid) IS 'report.revenue_bridge_total as it was known at the instant: by what was recorded until then, late news left out.';

CREATE VIEW repricer.lost_dependents AS
 SELECT d.batch_id,
    d.original_transaction_id,
    d.change_id,
    c.currency,
    c.storefront,
    c.period,
    count(*) AS dependents,
    repricer.fitting(sum(round(((((d.price_milliunits)::numeric * (COALESCE(q.seats,
        CASE
            WHEN d.is_cross_subscription THEN (1)::bigint
            ELSE c.forecast_seats
        END))::numeric) * (repricer.twelfths(COALESCE(d.target_period, t.period, c.period)))::numeric) / (repricer.twelfths(c.period))::numeric))) FILTER (WHERE (COALESCE(d.currency, c.currency) = c.currency)), ('the dependents of price change '::text || d.change_id)) AS price_milliunits
   FROM (((repricer.dependent_cancellations d
     LEFT JOIN LATERAL ( SELECT
                CASE
                    WHEN (p.paid_by = 1) THEN p.quantity
                    ELSE COALESCE(( SELECT repricer.seats_of(array_agg(k.*)) AS seats_of
                       FROM repricer.charges k
                      WHERE ((k.original_transaction_id = COALESCE(d.target_transaction_id, d.original_transaction_id)) AND (k.sku =
                            CASE
                                WHEN d.is_cross_subscription THEN regexp_replace(d.dependent_sku, '^[0-9]+/'::text, ''::text)
                                ELSE d.dependent_sku
                            END) AND (k.purchased_at <= COALESCE(d.settled_at, d.requested_at)) AND (COALESCE(k.expires_at, k.purchased_at) = p.until))), p.quantity)
                END AS seats
           FROM ( SELECT COALESCE(k.expires_at, k.purchased_at) AS until,
                    count(*) AS paid_by,
                    max(k.quantity) AS quantity
                   FROM repricer.charges k
                  WHERE ((k.original_transaction_id = COALESCE(d.target_transaction_id, d.original_transaction_id)) AND (k.sku =
                        CASE
                            WHEN d.is_cross_subscription THEN regexp_replace(d.dependent_sku, '^[0-9]+/'::text, ''::text)
                            ELSE d.dependent_sku
                        END) AND (k.purchased_at <= COALESCE(d.settled_at, d.requested_at)))
                  GROUP BY COALESCE(k.expires_at, k.purchased_at)
                  ORDER BY COALESCE(k.expires_at, k.purchased_at) DESC
                 LIMIT 1) p) q ON (true))
     JOIN repricer.price_changes c ON (((c.original_transaction_id = d.original_transaction_id) AND (c.change_id = d.change_id))))
     LEFT JOIN repricer.subscriptions t ON ((t.original_transaction_id = d.target_transaction_id)))
  WHERE ((d.state = 'confirmed'::text) AND (c.undoes_change_id IS NULL) AND (NOT (EXISTS ( SELECT
           FROM repricer.returned_dependents x
          WHERE ((x.original_transaction_id = d.original_transaction_id) AND (x.bucket = d.bucket) AND (x.change_id = d.change_id) AND (x.batch_id = d.batch_id) AND (x.dependent_sku = d.dependent_sku))))) AND (NOT (EXISTS ( SELECT
           FROM repricer.price_changes o
          WHERE ((o.original_transaction_id = COALESCE(d.target_transaction_id, d.original_transaction_id)) AND ((
                CASE
                    WHEN d.is_cross_subscription THEN regexp_replace(d.dependent_sku, '^[0-9]+/'::text, ''::text)
                    ELSE d.dependent_sku
                END = o.sku) OR (
                CASE
                    WHEN d.is_cross_subscription THEN regexp_replace(d.dependent_sku, '^[0-9]+/'::text, ''::text)
                    ELSE d.dependent_sku
                END = o.current_sku)) AND ((o.state = 'declined'::text) OR (o.reason = 'parent_declined'::text) OR ((o.state = 'cancelled'::text) AND (o.direction = 'increase'::text) AND (COALESCE(o.consent_asked_at, o.accepted_at) IS NOT NULL))))))))
  GROUP BY d.batch_id, d.original_transaction_id, d.change_id, c.currency, c.storefront, c.period;

COMMENT ON VIEW repricer.lost_dependents IS 'How many dependents fell with each change, and what they brought in a period of the change.';

CREATE VIEW report.revenue_impact AS
 WITH factors(period, numerator, denominator) AS (
         VALUES ('P1W'::text,13,3), ('P1M'::text,1,1), ('P2M'::text,1,2), ('P3M'::text,1,3), ('P6M'::text,1,6), ('P1Y'::text,1,12)
        ), lost AS (
         SELECT d.batch_id,
            d.currency,
            d.storefront,
            d.period,
            (sum(d.dependents))::bigint AS dependents,
            sum(d.price_milliunits) AS dependent_lost
           FROM repricer.lost_dependents d
          GROUP BY d.batch_id, d.currency, d.storefront, d.period
        ), sums AS (
         SELECT t.batch_id,
            t.currency,
            t.storefront,
            t.period,
            (sum(t.changes))::bigint AS changes,
            (sum(t.effective))::bigint AS effective,
            (sum(t.charged_changes))::bigint AS charged_changes,
            (sum(t.charged_renewals))::bigint AS charged_renewals,
            sum(t.old_total) AS old_total,
            sum(t.new_total) AS new_total,
            sum((t.old_per_period - (t.silent_old)::numeric)) AS old_per_period,
            sum((t.new_per_period - (t.silent_new)::numeric)) AS new_per_period,
            (sum(t.silent))::bigint AS silent,
            sum(t.silent_new) AS silent_new,
            (sum(t.declined))::bigint AS declined,
            sum(t.declined_lost) AS declined_lost,
            (sum(t.cancelled))::bigint AS cancelled,
            sum(t.cancelled_lost) AS cancelled_lost,
            (sum(t.lapsed))::bigint AS lapsed,
            sum(t.lapsed_lost) AS lapsed_lost,
            (sum(t.fell_with_parent))::bigint AS fell_with_parent,
            sum(t.fell_lost) AS fell_lost,
            sum(t.others_lost) AS others_lost,
            (sum(t.taxed_renewals))::bigint AS taxed_renewals,
            sum(t.taxed_uplift) AS taxed_uplift
           FROM repricer.change_tallies t
          WHERE (NOT t.is_undo)
          GROUP BY t.batch_id, t.currency, t.storefront, t.period
         HAVING (sum(t.changes) > (0)::numeric)
        ), groups AS (
         SELECT s.batch_id,
            s.currency,
            s.storefront,
            s.period,
            s.changes,
            s.effective,
            s.charged_changes,
            s.charged_renewals,
            s.old_total,
            s.new_total,
            s.old_per_period,
            s.new_per_period,
            s.silent,
            s.silent_new,
            s.declined,
            s.declined_lost,
            s.cancelled,
            s.cancelled_lost,
            s.lapsed,
            s.lapsed_lost,
            s.fell_with_parent,
            s.fell_lost,
            s.others_lost,
            s.taxed_renewals,
            s.taxed_uplift,
            (COALESCE(l.dependents, (0)::bigint) + s.fell_with_parent) AS dependents,
            (COALESCE(l.dependent_lost, (0)::numeric) + s.fell_lost) AS dependent_lost,
            (((((s.declined_lost + s.cancelled_lost) + s.lapsed_lost) + s.others_lost) + s.fell_lost) + COALESCE(l.dependent_lost, (0)::numeric)) AS all_lost
           FROM (sums s
             LEFT JOIN lost l ON (((l.batch_id = s.batch_id) AND (l.currency = s.currency) AND (l.storefront = s.storefront) AND (l.period = s.period))))
        )
 SELECT g.batch_id,
    b.name AS batch_name,
    g.currency,
    g.storefront,
    g.period,
    g.changes,
    g.effective,
    g.charged_changes,
    g.charged_renewals,
    repricer.figure(g.old_total, ((w.what || 'old_total'::text) || w.currency)) AS old_total_milliunits,
    repricer.figure(g.new_total, ((w.what || 'new_total'::text) || w.currency)) AS new_total_milliunits,
    repricer.figure((g.new_total - g.old_total), ((w.what || 'uplift'::text) || w.currency)) AS uplift_milliunits,
    repricer.figure(g.old_per_period, ((w.what || 'old_per_period'::text) || w.currency)) AS old_per_period_milliunits,
    repricer.figure(g.new_per_period, ((w.what || 'new_per_period'::text) || w.currency)) AS new_per_period_milliunits,
    repricer.figure((g.new_per_period - g.old_per_period), ((w.what || 'uplift_per_period'::text) || w.currency)) AS uplift_per_period_milliunits,
    repricer.figure(round((((g.new_per_period - g.old_per_period) * (f.numerator)::numeric) / (f.denominator)::numeric)), ((w.what || 'uplift_per_month'::text) || w.currency)) AS uplift_per_month_milliunits,
    g.declined,
    repricer.figure(g.declined_lost, ((w.what || 'declined_lost_per_period'::text) || w.currency)) AS declined_lost_per_period_milliunits,
    g.cancelled,
    repricer.figure(g.cancelled_lost, ((w.what || 'cancelled_lost_per_period'::text) || w.currency)) AS cancelled_lost_per_period_milliunits,
    g.dependents AS dependents_cancelled,
    repricer.figure(g.dependent_lost, ((w.what || 'dependent_lost_per_period'::text) || w.currency)) AS dependent_lost_per_period_milliunits,
    repricer.figure(g.all_lost, ((w.what || 'lost_per_period'::text) || w.currency)) AS lost_per_period_milliunits,
    repricer.figure(round(((g.all_lost * (f.numerator)::numeric) / (f.denominator)::numeric)), ((w.what || 'lost_per_month'::text) || w.currency)) AS lost_per_month_milliunits,
    g.lapsed,
    repricer.figure(g.lapsed_lost, ((w.what || 'lapsed_lost_per_period'::text) || w.currency)) AS lapsed_lost_per_period_milliunits,
    repricer.figure(g.others_lost, ((w.what || 'other_items_lost_per_period'::text) || w.currency)) AS other_items_lost_per_period_milliunits,
    g.taxed_renewals AS charged_renewals_with_tax,
    repricer.figure(g.taxed_uplift, ((w.what || 'uplift_without_tax'::text) || w.currency)) AS uplift_without_tax_milliunits,
    g.silent,
    repricer.figure(g.silent_new, ((w.what || 'silent_per_period'::text) || w.currency)) AS silent_per_period_milliunits
   FROM (((groups g
     JOIN repricer.batches b ON ((b.batch_id = g.batch_id)))
     LEFT JOIN factors f ON ((f.period = g.period)))
     CROSS JOIN LATERAL ( SELECT (('revenue_impact, batch '::text || b.name) || ': '::text) AS what,
            (' of '::text || g.currency) AS currency) w);

COMMENT ON VIEW report.revenue_impact IS 'Money, one row a batch, currency, storefront and period, all of it as customers pay it: tax is inside, but for uplift_without_tax_milliunits. Uplift counts only where a renewal was charged at the new price, less what was refunded. Never add milliunits of two currencies.';

COMMENT ON COLUMN report.revenue_impact.batch_id IS 'The batch; null where the row is about the whole installation.';

COMMENT ON COLUMN report.revenue_impact.batch_name IS 'The name that the submitter gave to the batch.';

COMMENT ON COLUMN report.revenue_impact.currency IS 'ISO 4217: the currency of all money in the row.';

COMMENT ON COLUMN report.revenue_impact.storefront IS 'ISO 3166-1 alpha-3.';

COMMENT ON COLUMN report.revenue_impact.period IS 'Length of one billing period, ISO 8601: P1W, P1M, P2M, P3M, P6M, P1Y.';

COMMENT ON COLUMN report.revenue_impact.changes IS 'Number of price changes.';

COMMENT ON COLUMN report.revenue_impact.effective IS 'Changes that took effect.';

COMMENT ON COLUMN report.revenue_impact.charged_changes IS 'Changes with at least one renewal charged at the new price and not refunded in full.';

COMMENT ON COLUMN report.revenue_impact.charged_renewals IS 'Renewals charged at the new price and not refunded in full. What charge_exception names as double, or as after_end while the change is in effect, counts until it is given back.';

COMMENT ON COLUMN report.revenue_impact.old_total_milliunits IS 'What these renewals would have charged at the old prices; of one that was refunded in part, the share that was kept.';

COMMENT ON COLUMN report.revenue_impact.new_total_milliunits IS 'What these renewals charged, less what was refunded.';

COMMENT ON COLUMN report.revenue_impact.uplift_milliunits IS 'new_total less old_total: collected so far, tax included; negative for decreases.';

COMMENT ON COLUMN report.revenue_impact.old_per_period_milliunits IS 'Sum of the old prices of those of charged_changes whose items are set to renew and were last charged at them, but for silent: each change once, times the seats of its last paid period (an inference: as many renew).';

COMMENT ON COLUMN report.revenue_impact.new_per_period_milliunits IS 'Sum of the new prices of those of charged_changes whose items are set to renew and were last charged at them, or at the price of a later change, which counts from here on, but for silent: each change once, times the seats of its last paid period (an inference: as many renew).';

COMMENT ON COLUMN report.revenue_impact.uplift_per_period_milliunits IS 'new_per_period less old_per_period: what every further period adds, tax included.';

COMMENT ON COLUMN report.revenue_impact.uplift_per_month_milliunits IS 'uplift_per_period for a month (weekly: times 52/12), rounded once, half away from zero; null for an unknown period.';

COMMENT ON COLUMN report.revenue_impact.declined IS 'Changes that ended without the consent they needed; those that fell with another item are not among them.';

COMMENT ON COLUMN report.revenue_impact.declined_lost_per_period_milliunits IS 'Sum of the old prices of the declined changes, times their last paid seats. Who came back since is counted too: revenue_bridge has the return.';

COMMENT ON COLUMN report.revenue_impact.cancelled IS 'Changes whose subscriber left, or was refunded or revoked; those that fell with another item are not among them.';

COMMENT ON COLUMN report.revenue_impact.cancelled_lost_per_period_milliunits IS 'Sum of the old prices of cancelled increases whose customers had been asked or told, times their last paid seats.';

COMMENT ON COLUMN report.revenue_impact.dependents_cancelled IS 'Dependents that fell with a declined item: proved cancelled, or by a change of their own that fell.';

COMMENT ON COLUMN report.revenue_impact.dependent_lost_per_period_milliunits IS 'Sum of the prices of dependents_cancelled, where known, times their last paid seats; one that is paid in another period is turned into this one.';

COMMENT ON COLUMN report.revenue_impact.lost_per_period_milliunits IS 'Sum of the five losses, tax included.';

COMMENT ON COLUMN report.revenue_impact.lost_per_month_milliunits IS 'lost_per_period for a month, rounded like the uplift.';

COMMENT ON COLUMN report.revenue_impact.lapsed IS 'Changes that ended for billing or product reasons.';

COMMENT ON COLUMN report.revenue_impact.lapsed_lost_per_period_milliunits IS 'Sum of the old prices of lapsed increases whose customers had been asked or told, times their last paid seats.';

COMMENT ON COLUMN report.revenue_impact.other_items_lost_per_period_milliunits IS 'What other items of subscriptions cost that ended as a whole for a declined increase, where nothing else here counts them.';

COMMENT ON COLUMN report.revenue_impact.charged_renewals_with_tax IS 'Charged renewals of which the App Store has signed the tax.';

COMMENT ON COLUMN report.revenue_impact.uplift_without_tax_milliunits IS 'Their uplift without tax: what was kept of each without it, less the same share of the old price.';

COMMENT ON COLUMN report.revenue_impact.silent IS 'Of charged_changes set to renew: paid until more than three days before the newest charge of anybody, and nothing was told since. Whether they go on is not known: they are in no figure of a further period, and charge_exception names them as missing.';

COMMENT ON COLUMN report.revenue_impact.silent_per_period_milliunits IS 'Sum of the new prices of silent, times their last paid seats.';

CREATE FUNCTION report.revenue_impact_as_of(p_at timestamp with time zone, batch uuid DEFAULT NULL::uuid) RETURNS SETOF report.revenue_impact
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
#variable_conflict use_column
DECLARE
    p_batch ALIAS FOR batch;
BEGIN
    PERFORM repricer.require_past(p_at);
    RETURN QUERY SELECT * FROM (
 WITH factors(period, numerator, denominator) AS (
         VALUES ('P1W'::text,13,3), ('P1M'::text,1,1), ('P2M'::text,1,2), ('P3M'::text,1,3), ('P6M'::text,1,6), ('P1Y'::text,1,12)
        ), lost AS (
         SELECT d.batch_id,
            d.currency,
            d.storefront,
            d.period,
            (sum(d.dependents))::bigint AS dependents,
            sum(d.price_milliunits) AS dependent_lost
           FROM repricer.lost_dependents_at(p_at) d
          GROUP BY d.batch_id, d.currency, d.storefront, d.period
        ), sums AS (
         SELECT t.batch_id,
            t.currency,
            t.storefront,
            t.period,
            (sum(t.changes))::bigint AS changes,
            (sum(t.effective))::bigint AS effective,
            (sum(t.charged_changes))::bigint AS charged_changes,
            (sum(t.charged_renewals))::bigint AS charged_renewals,
            sum(t.old_total) AS old_total,
            sum(t.new_total) AS new_total,
            sum((t.old_per_period - (t.silent_old)::numeric)) AS old_per_period,
            sum((t.new_per_period - (t.silent_new)::numeric)) AS new_per_period,
            (sum(t.silent))::bigint AS silent,
            sum(t.silent_new) AS silent_new,
            (sum(t.declined))::bigint AS declined,
            sum(t.declined_lost) AS declined_lost,
            (sum(t.cancelled))::bigint AS cancelled,
            sum(t.cancelled_lost) AS cancelled_lost,
            (sum(t.lapsed))::bigint AS lapsed,
            sum(t.lapsed_lost) AS lapsed_lost,
            (sum(t.fell_with_parent))::bigint AS fell_with_parent,
            sum(t.fell_lost) AS fell_lost,
            sum(t.others_lost) AS others_lost,
            (sum(t.taxed_renewals))::bigint AS taxed_renewals,
            sum(t.taxed_uplift) AS taxed_uplift
           FROM repricer.change_tallies_at(p_at, p_batch) t
          WHERE (NOT t.is_undo)
          GROUP BY t.batch_id, t.currency, t.storefront, t.period
         HAVING (sum(t.changes) > (0)::numeric)
        ), groups AS (
         SELECT s.batch_id,
            s.currency,
            s.storefront,
            s.period,
            s.changes,
            s.effective,
            s.charged_changes,
            s.charged_renewals,
            s.old_total,
            s.new_total,
            s.old_per_period,
            s.new_per_period,
            s.silent,
            s.silent_new,
            s.declined,
            s.declined_lost,
            s.cancelled,
            s.cancelled_lost,
            s.lapsed,
            s.lapsed_lost,
            s.fell_with_parent,
            s.fell_lost,
            s.others_lost,
            s.taxed_renewals,
            s.taxed_uplift,
            (COALESCE(l.dependents, (0)::bigint) + s.fell_with_parent) AS dependents,
            (COALESCE(l.dependent_lost, (0)::numeric) + s.fell_lost) AS dependent_lost,
            (((((s.declined_lost + s.cancelled_lost) + s.lapsed_lost) + s.others_lost) + s.fell_lost) + COALESCE(l.dependent_lost, (0)::numeric)) AS all_lost
           FROM (sums s
             LEFT JOIN lost l ON (((l.batch_id = s.batch_id) AND (l.currency = s.currency) AND (l.storefront = s.storefront) AND (l.period = s.period))))
        )
 SELECT g.batch_id,
    b.name AS batch_name,
    g.currency,
    g.storefront,
    g.period,
    g.changes,
    g.effective,
    g.charged_changes,
    g.charged_renewals,
    repricer.figure(g.old_total, ((w.what || 'old_total'::text) || w.currency)) AS old_total_milliunits,
    repricer.figure(g.new_total, ((w.what || 'new_total'::text) || w.currency)) AS new_total_milliunits,
    repricer.figure((g.new_total - g.old_total), ((w.what || 'uplift'::text) || w.currency)) AS uplift_milliunits,
    repricer.figure(g.old_per_period, ((w.what || 'old_per_period'::text) || w.currency)) AS old_per_period_milliunits,
    repricer.figure(g.new_per_period, ((w.what || 'new_per_period'::text) || w.currency)) AS new_per_period_milliunits,
    repricer.figure((g.new_per_period - g.old_per_period), ((w.what || 'uplift_per_period'::text) || w.currency)) AS uplift_per_period_milliunits,
    repricer.figure(round((((g.new_per_period - g.old_per_period) * (f.numerator)::numeric) / (f.denominator)::numeric)), ((w.what || 'uplift_per_month'::text) || w.currency)) AS uplift_per_month_milliunits,
    g.declined,
    repricer.figure(g.declined_lost, ((w.what || 'declined_lost_per_period'::text) || w.currency)) AS declined_lost_per_period_milliunits,
    g.cancelled,
    repricer.figure(g.cancelled_lost, ((w.what || 'cancelled_lost_per_period'::text) || w.currency)) AS cancelled_lost_per_period_milliunits,
    g.dependents AS dependents_cancelled,
    repricer.figure(g.dependent_lost, ((w.what || 'dependent_lost_per_period'::text) || w.currency)) AS dependent_lost_per_period_milliunits,
    repricer.figure(g.all_lost, ((w.what || 'lost_per_period'::text) || w.currency)) AS lost_per_period_milliunits,
    repricer.figure(round(((g.all_lost * (f.numerator)::numeric) / (f.denominator)::numeric)), ((w.what || 'lost_per_month'::text) || w.currency)) AS lost_per_month_milliunits,
    g.lapsed,
    repricer.figure(g.lapsed_lost, ((w.what || 'lapsed_lost_per_period'::text) || w.currency)) AS lapsed_lost_per_period_milliunits,
    repricer.figure(g.others_lost, ((w.what || 'other_items_lost_per_period'::text) || w.currency)) AS other_items_lost_per_period_milliunits,
    g.taxed_renewals AS charged_renewals_with_tax,
    repricer.figure(g.taxed_uplift, ((w.what || 'uplift_without_tax'::text) || w.currency)) AS uplift_without_tax_milliunits,
    g.silent,
    repricer.figure(g.silent_new, ((w.what || 'silent_per_period'::text) || w.currency)) AS silent_per_period_milliunits
   FROM (((groups g
     JOIN repricer.batches_at(p_at) b ON ((b.batch_id = g.batch_id)))
     LEFT JOIN factors f ON ((f.period = g.period)))
     CROSS JOIN LATERAL ( SELECT (('revenue_impact, batch '::text || b.name) || ': '::text) AS what,
            (' of '::text || g.currency) AS currency) w)
    ) v WHERE p_batch IS NULL OR v.batch_id = p_batch;
END
$$;

COMMENT ON FUNCTION report.revenue_impact_as_of(p_at timestamp with time zone, batch uuid) IS 'report.revenue_impact as it was known at the instant: by what was recorded until then, late news left out.';

CREATE VIEW report.upcoming_effective AS
 SELECT c.batch_id,
    b.name AS batch_name,
    c.original_transaction_id,
    c.change_id,
    c.sku,
    c.storefront,
    c.period,
    c.direction,
    c.currency,
    c.current_price_milliunits,
    c.new_price_milliunits,
    c.state,
    c.due_effective_at,
    ((c.state = 'accepted'::text) OR ((c.direction = 'decrease'::text) AND (c.state = 'scheduled'::text))) AS is_settled,
    (c.due_effective_at < report.as_of()) AS is_overdue
   FROM (repricer.price_changes c
     JOIN repricer.batches b ON ((b.batch_id = c.batch_id)))
  WHERE ((c.stage = ANY (ARRAY['queued'::text, 'unknown'::text, 'scheduled'::text, 'pending_consent'::text, 'accepted'::text])) AND (c.undoes_change_id IS NULL));

COMMENT ON VIEW report.upcoming_effective IS 'Open changes of approved batches and the renewal they are due at.';

COMMENT ON COLUMN report.upcoming_effective.batch_id IS 'The batch; null where the row is about the whole installation.';

COMMENT ON COLUMN report.upcoming_effective.batch_name IS 'The name that the submitter gave to the batch.';

COMMENT ON COLUMN report.upcoming_effective.original_transaction_id IS 'The subscription, as Apple names it.';

COMMENT ON COLUMN report.upcoming_effective.change_id IS 'The price change; unique within its subscription.';

COMMENT ON COLUMN report.upcoming_effective.sku IS 'The item whose price changes.';

COMMENT ON COLUMN report.upcoming_effective.storefront IS 'ISO 3166-1 alpha-3.';

COMMENT ON COLUMN report.upcoming_effective.period IS 'Length of one billing period, ISO 8601: P1W, P1M, P2M, P3M, P6M, P1Y.';

COMMENT ON COLUMN report.upcoming_effective.direction IS 'increase or decrease.';

COMMENT ON COLUMN report.upcoming_effective.currency IS 'ISO 4217: the currency of all money in the row.';

COMMENT ON COLUMN report.upcoming_effective.current_price_milliunits IS 'Price a period before the change, in thousandths of the currency.';

COMMENT ON COLUMN report.upcoming_effective.new_price_milliunits IS 'Price a period after the change, in thousandths of the currency.';

COMMENT ON COLUMN report.upcoming_effective.state IS 'State of the price change.';

COMMENT ON COLUMN report.upcoming_effective.due_effective_at IS 'The renewal at which the change is due to take effect, as planned now.';

COMMENT ON COLUMN report.upcoming_effective.is_settled IS 'Whether nothing but the renewal is missing: accepted, or a scheduled decrease.';

COMMENT ON COLUMN report.upcoming_effective.is_overdue IS 'Whether the due instant lies before report.as_of().';

CREATE FUNCTION report.upcoming_effective_as_of(p_at timestamp with time zone, batch uuid DEFAULT NULL::uuid) RETURNS SETOF report.upcoming_effective
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
#variable_conflict use_column
DECLARE
    p_batch ALIAS FOR batch;
BEGIN
    PERFORM repricer.require_past(p_at);
    RETURN QUERY SELECT * FROM (
 SELECT c.batch_id,
    b.name AS batch_name,
    c.original_transaction_id,
    c.change_id,
    c.sku,
    c.storefront,
    c.period,
    c.direction,
    c.currency,
    c.current_price_milliunits,
    c.new_price_milliunits,
    c.state,
    c.due_effective_at,
    ((c.state = 'accepted'::text) OR ((c.direction = 'decrease'::text) AND (c.state = 'scheduled'::text))) AS is_settled,
    (c.due_effective_at < p_at) AS is_overdue
   FROM (repricer.price_changes_at(p_at) c
     JOIN repricer.batches_at(p_at) b ON ((b.batch_id = c.batch_id)))
  WHERE ((c.stage = ANY (ARRAY['queued'::text, 'unknown'::text, 'scheduled'::text, 'pending_consent'::text, 'accepted'::text])) AND (c.undoes_change_id IS NULL))
    ) v WHERE p_batch IS NULL OR v.batch_id = p_batch;
END
$$;

COMMENT ON FUNCTION report.upcoming_effective_as_of(p_at timestamp with time zone, batch uuid) IS 'report.upcoming_effective as it was known at the instant: by what was recorded until then, late news left out.';

CREATE FUNCTION repricer.allow_program(p_schema integer) RETURNS boolean
    LANGUAGE plpgsql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_lowest integer := (SELECT lowest_program FROM service_controls);
BEGIN
    IF v_lowest > p_schema THEN
        RAISE EXCEPTION 'the database is for programs of schema version % or newer, this one is of %; install the release that migrated it',
            v_lowest, p_schema USING ERRCODE = 'RP001';
    END IF;
    RETURN true;
END;
$$;

CREATE FUNCTION repricer.answers_id(p_answers text) RETURNS uuid
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
SELECT left(encode(sha256(convert_to(p_answers, 'UTF8')), 'hex'), 32)::uuid
$$;

CREATE FUNCTION repricer.append_audit(p_actor text, p_occurred_at timestamp with time zone, p_action text, p_object text, p_details json) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_details json := json_strip_nulls(coalesce(p_details, '{}'));
BEGIN
    IF NOT hold_audit_head() THEN
        INSERT INTO audit_waiting (occurred_at, recorded_at, actor, action, object, details)
            VALUES (p_occurred_at, clock_timestamp(), p_actor, p_action, p_object, v_details);
        RETURN NULL;
    END IF;
    PERFORM chain_waiting_lines();
    RETURN chain_audit_line(p_actor, p_occurred_at, clock_timestamp(), p_action, p_object, v_details);
END
$$;

CREATE FUNCTION repricer.approval_outlook(p_batch_id uuid) RETURNS TABLE(approver text, exceeded text[])
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_measure record;
    v_has_first boolean := EXISTS (
        SELECT FROM first_approvals f WHERE f.batch_id = p_batch_id AND may_approve(f.approver));
BEGIN
    SELECT * INTO v_measure FROM batch_measure(p_batch_id);
    IF NOT EXISTS (SELECT FROM approval_limits) THEN
        RETURN QUERY SELECT NULL::text, CASE WHEN v_has_first THEN '{}'
            ELSE defaults_exceeded(v_measure.rise_basis_points, v_measure.fall_basis_points) END;
    END IF;
    RETURN QUERY SELECT l.approver, approver_shortfall(l.approver, v_has_first, v_measure.rows, v_measure.basis_points,
            v_measure.monthly_milliunits, v_measure.rise_basis_points, v_measure.fall_basis_points)
        FROM approval_limits l ORDER BY l.approver;
END
$$;

CREATE FUNCTION repricer.approval_shortfall(p_batch_id uuid) RETURNS text[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_measure record;
    v_exceeded text[];
    v_has_first boolean := EXISTS (
        SELECT FROM first_approvals f WHERE f.batch_id = p_batch_id AND may_approve(f.approver));
    v_has_limits boolean := EXISTS (SELECT FROM approval_limits);
BEGIN
    IF NOT v_has_limits AND NOT EXISTS (SELECT FROM default_limits
        WHERE max_rise_basis_points IS NOT NULL OR max_fall_basis_points IS NOT NULL)
    THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM first_approvals WHERE batch_id = p_batch_id AND approver = session_user) THEN
        RAISE EXCEPTION 'user % has given the first approval; another approver must give the second', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT * INTO v_measure FROM batch_measure(p_batch_id);
    IF NOT v_has_limits THEN
        v_exceeded := defaults_exceeded(v_measure.rise_basis_points, v_measure.fall_basis_points);
        RETURN CASE WHEN v_has_first OR v_exceeded = '{}' THEN NULL ELSE v_exceeded END;
    END IF;
    v_exceeded := approver_shortfall(session_user, v_has_first, v_measure.rows, v_measure.basis_points,
        v_measure.monthly_milliunits, v_measure.rise_basis_points, v_measure.fall_basis_points);
    IF v_exceeded IS NULL THEN
        RAISE EXCEPTION 'user % may not approve: no approval limit names them or a role of theirs', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    -- Somebody who may be the second approver has approved already, so this is the first approval that was missing.
    IF v_exceeded = '{}' OR EXISTS (
        SELECT FROM first_approvals f
        WHERE f.batch_id = p_batch_id AND may_approve(f.approver)
            AND approver_shortfall(f.approver, true, v_measure.rows, v_measure.basis_points,
                v_measure.monthly_milliunits) = '{}')
    THEN
        RETURN NULL;
    END IF;
    RETURN v_exceeded;
END
$$;

CREATE FUNCTION repricer.approve_batch(p_batch_id uuid, p_at timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_batch batches;
    v_rows bigint;
    v_stray bigint;
    v_line bigint;
    v_held_out bigint;
    v_queued bigint;
    v_recorded_at timestamptz;
    v_exceeded text[];
    v_first text;
    v_fault text;
    v_release_at timestamptz;
    v_ids text[];
    v_changes uuid[];
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
    END IF;
    -- An approval is never earlier than the submission, not even in a rehearsal, where the caller's clock counts.
    p_at := greatest(p_at, v_batch.submitted_at);
    IF v_batch.state <> 'awaiting_approval' THEN
        RAISE EXCEPTION 'batch % is %, not awaiting approval', p_batch_id, v_batch.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM require_another(v_batch.submitted_by, 'batch');
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
            AND c.dependent_skus <> '{}' AND (
                SELECT count(*) FROM dependency_roles d
                WHERE d.original_transaction_id = c.original_transaction_id AND d.bucket = c.bucket
                    AND d.change_id = c.change_id AND (d.role = 'parent' AND d.sku = c.sku
                        OR d.role = 'dependent' AND d.sku = ANY (c.dependent_skus))
            ) < 1 + (SELECT count(DISTINCT n.sku) FROM unnest(c.dependent_skus) AS n (sku))
        ORDER BY c.line LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'line % of batch % names dependents without their part in dependency_roles',
            v_line, p_batch_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM record_dependent_claims(p_batch_id);
    v_fault := cross_subscription_fault(p_batch_id);
    IF v_fault IS NOT NULL THEN
        RAISE EXCEPTION '% of batch %', v_fault, p_batch_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- The limits must not change while this approval is judged by them. They change rarely, so it is they that wait.
    LOCK TABLE approval_limits, default_limits IN SHARE MODE;
    v_exceeded := approval_shortfall(p_batch_id);
    IF v_exceeded IS NOT NULL THEN
        INSERT INTO first_approvals (batch_id, approver, approved_at, exceeded)
            VALUES (p_batch_id, v_by, p_at, v_exceeded);
        PERFORM append_audit(session_user::text, p_at, 'approve_first', 'batch:' || p_batch_id,
            json_build_object('name', v_batch.name, 'rows', v_rows, 'submitted_by', v_batch.submitted_by,
                'plan_hash', v_batch.plan_hash, 'exceeded', v_exceeded));
        RETURN NULL;
    END IF;
    SELECT string_agg(approver, ', ' ORDER BY approver) INTO v_first
        FROM first_approvals WHERE batch_id = p_batch_id AND may_approve(approver);
    PERFORM keep_batch(p_batch_id);
    -- In an UPDATE of a reference table Citus computes nothing from a column, because each node has the row.
    v_release_at := wave_release_at(v_batch.waves -> 0, NULL, p_at);
    UPDATE batches SET state = 'approved', decided_by = v_by, decided_at = p_at, next_release_at = v_release_at
        WHERE batch_id = p_batch_id RETURNING * INTO v_batch;
    IF v_batch.holdout_basis_points > 0 THEN
        SELECT array_agg(original_transaction_id), array_agg(change_id) INTO v_ids, v_changes FROM price_changes
            WHERE batch_id = p_batch_id AND state = 'awaiting_approval' AND is_held_out;
        v_recorded_at := keep_changes(v_ids, v_changes);
    END IF;
    WITH held_out AS (
        UPDATE price_changes SET state = 'aborted', state_since = p_at, ended_at = p_at, reason = 'held_out',
                recorded_at = v_recorded_at
            WHERE v_batch.holdout_basis_points > 0 AND batch_id = p_batch_id AND state = 'awaiting_approval'
                AND is_held_out
            RETURNING original_transaction_id, bucket, change_id
    ), released AS (
        DELETE FROM dependency_roles d USING held_out h
            WHERE d.original_transaction_id = h.original_transaction_id AND d.change_id = h.change_id
                AND d.bucket = h.bucket
    ), told AS (
        INSERT INTO price_change_history
                (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id, reason,
                 actor)
            SELECT original_transaction_id, bucket, change_id, p_at, 'aborted', 'approval', v_by, 'held_out', v_by
            FROM held_out
    )
    SELECT count(*) INTO v_held_out FROM held_out;
    -- A change that ended while it waited stays ended, because an older change of its item turned out to be open.
    WITH queued AS (
        UPDATE price_changes SET state = 'queued', state_since = p_at,
                is_ready = (send_after IS NULL OR send_after <= p_at)
            WHERE batch_id = p_batch_id AND state = 'awaiting_approval'
            RETURNING original_transaction_id, bucket, change_id
    )
    INSERT INTO price_change_history
            (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id, actor)
        SELECT original_transaction_id, bucket, change_id, p_at, 'queued', 'approval', v_by, v_by
        FROM queued;
    GET DIAGNOSTICS v_queued = ROW_COUNT;
    PERFORM append_audit(session_user::text, p_at, 'approve', 'batch:' || p_batch_id,
        json_build_object('name', v_batch.name, 'rows', v_rows, 'held_out', nullif(v_held_out, 0),
            'ended_before', nullif(v_rows - v_held_out - v_queued, 0),
            'submitted_by', v_batch.submitted_by, 'plan_hash', v_batch.plan_hash, 'first_approved_by', v_first,
            'waves', CASE WHEN v_batch.waves <> '[]'
                THEN (SELECT string_agg(w ->> 'label', ',') FROM jsonb_array_elements(v_batch.waves) w) END));
    IF v_batch.waves -> 0 ->> 'release' = 'approval' THEN
        PERFORM release_waves_through(v_batch, 1, session_user::text, p_at);
    END IF;
    RETURN v_queued;
END
$$;

CREATE FUNCTION repricer.approve_extension(p_extension_id uuid, p_at timestamp with time zone) RETURNS text[]
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_mass mass_extensions;
    v_exceeded text[];
    v_first text;
    v_details json;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_mass FROM mass_extensions WHERE extension_id = p_extension_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no mass extension %', p_extension_id USING ERRCODE = 'no_data_found';
    END IF;
    IF v_mass.state <> 'awaiting_approval' THEN
        RAISE EXCEPTION 'mass extension % is %, not awaiting approval', p_extension_id, v_mass.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM require_another(v_mass.submitted_by, 'extension');
    LOCK TABLE approval_limits IN SHARE MODE;
    v_exceeded := extension_shortfall(p_extension_id);
    v_details := json_build_object('product', v_mass.product_id, 'storefronts', v_mass.storefronts,
        'days', v_mass.extend_by_days, 'submitted_by', v_mass.submitted_by, 'eligible', v_mass.eligible_count,
        'exceeded', v_exceeded);
    IF v_exceeded IS NOT NULL THEN
        INSERT INTO mass_extension_approvals (extension_id, approver, approved_at, exceeded)
            VALUES (p_extension_id, v_by, p_at, v_exceeded);
        PERFORM append_audit(session_user::text, p_at, 'approve_first', 'extension:' || p_extension_id,
            v_details);
        RETURN v_exceeded;
    END IF;
    UPDATE mass_extensions SET state = 'queued', decided_by = v_by, decided_at = p_at
        WHERE extension_id = p_extension_id;
    SELECT string_agg(approver, ', ' ORDER BY approver) INTO v_first
        FROM mass_extension_approvals WHERE extension_id = p_extension_id;
    PERFORM append_audit(session_user::text, p_at, 'approve', 'extension:' || p_extension_id,
        (v_details::jsonb || jsonb_build_object('first_approved_by', v_first))::json);
    RETURN NULL;
END
$$;

CREATE FUNCTION repricer.approver_shortfall(p_approver text, p_has_first boolean, p_rows bigint, p_basis_points numeric, p_monthly jsonb, p_rise numeric DEFAULT 0, p_fall numeric DEFAULT 0) RETURNS text[]
    LANGUAGE sql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
    SELECT each.exceeded FROM (
        SELECT l.approver, limits_exceeded(l, p_rows, p_basis_points, p_monthly)
            || CASE WHEN l.needs_first AND NOT p_has_first
                THEN ARRAY[format('%s approves as the second only', l.approver)] ELSE '{}' END
            || CASE WHEN l.max_basis_points IS NULL AND NOT p_has_first
                THEN defaults_exceeded(p_rise, p_fall) ELSE '{}' END AS exceeded
        FROM limits_of(p_approver) l) each
    ORDER BY cardinality(each.exceeded), each.approver LIMIT 1
$$;

CREATE FUNCTION repricer.audit_hash(p_sequence bigint, p_occurred_at timestamp with time zone, p_recorded_at timestamp with time zone, p_actor text, p_action text, p_object text, p_details json, p_previous_hash text) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
SELECT encode(sha256(convert_to(string_agg(
        octet_length(convert_to(v.value, 'UTF8')) || ':' || v.value || E'\n', '' ORDER BY v.place), 'UTF8')), 'hex')
FROM unnest(ARRAY[
    p_sequence::text,
    to_char(p_occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    to_char(p_recorded_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    p_actor, p_action, p_object, p_details::text, p_previous_hash]) WITH ORDINALITY AS v (value, place)
$$;

CREATE FUNCTION repricer.await_recorders(p_at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
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

CREATE FUNCTION repricer.batch_in_submission(p_batch_id uuid) RETURNS repricer.batches
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_batch batches;
BEGIN
    SELECT * INTO v_batch FROM batches
        WHERE batch_id = p_batch_id AND state = 'submitting' AND submitted_by = session_user;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'user % is not submitting batch % in this transaction', session_user, p_batch_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN v_batch;
END
$$;

CREATE FUNCTION repricer.batch_measure(p_batch_id uuid, OUT rows bigint, OUT basis_points numeric, OUT monthly_milliunits jsonb, OUT rise_basis_points numeric, OUT fall_basis_points numeric) RETURNS record
    LANGUAGE plpgsql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $_$
#variable_conflict use_column
BEGIN
WITH changes AS (
    SELECT c.currency, c.period, c.undoes_change_id, c.current_price_milliunits, c.new_price_milliunits,
        s.currency AS known_currency, coalesce(s.renewal_period, s.period) AS known_period, s.renewal_period,
        greatest(s.quantity, 1) AS seats,
        -- A path is used, because Citus distributes no LIMIT within a function.
        jsonb_path_query_first(s.items, '$[*] ? (@.sku == $sku)', jsonb_build_object('sku', c.sku)) AS item
    FROM price_changes c
    LEFT JOIN subscriptions s ON s.original_transaction_id = c.original_transaction_id AND s.bucket = c.bucket
    WHERE c.batch_id = p_batch_id AND NOT c.is_held_out
), facts AS MATERIALIZED (
    -- MATERIALIZED, because a price would otherwise be searched anew for each measure that it is part of.
    SELECT coalesce(c.known_currency, c.currency) AS currency,
        -- The stored price of an undo can be trusted: only undo_batch writes it.
        CASE WHEN c.undoes_change_id IS NOT NULL THEN c.current_price_milliunits
            -- A price of the running period says nothing about a period of another length.
            ELSE coalesce(CASE WHEN c.renewal_period IS NULL THEN (c.item ->> 'currentPrice')::bigint END,
                (c.item ->> 'renewalPrice')::bigint, c.current_price_milliunits) END::numeric AS old,
        c.new_price_milliunits::numeric AS new, c.seats,
        CASE coalesce(c.known_period, c.period)
            WHEN 'P1W' THEN 52.0 / 12 WHEN 'P1M' THEN 1 WHEN 'P2M' THEN 1 / 2.0 WHEN 'P3M' THEN 1 / 3.0
            WHEN 'P6M' THEN 1 / 6.0 WHEN 'P1Y' THEN 1 / 12.0
            -- A period that nobody knows counts as the shortest.
            ELSE 52.0 / 12 END AS a_month
    FROM changes c
), money AS (
    SELECT currency, count(*) AS rows,
        -- An increase from 0 exceeds every percentage.
        coalesce(max(CASE WHEN old > 0 THEN round((new - old) * 10000 / old, 6) ELSE 'Infinity' END)
            FILTER (WHERE new > old), 0) AS rise,
        coalesce(max(round((old - new) * 10000 / old, 6)) FILTER (WHERE new < old), 0) AS fall,
        ceil(greatest(sum((new - old) * seats * a_month) FILTER (WHERE new > old),
            sum((old - new) * seats * a_month) FILTER (WHERE new < old), 0)) AS monthly
    FROM facts GROUP BY currency
)
SELECT coalesce(sum(m.rows), 0)::bigint, coalesce(max(greatest(m.rise, m.fall)), 0),
    coalesce(jsonb_object_agg(m.currency, m.monthly), '{}'), coalesce(max(m.rise), 0), coalesce(max(m.fall), 0)
INTO rows, basis_points, monthly_milliunits, rise_basis_points, fall_basis_points
FROM money m;
END
$_$;

CREATE FUNCTION repricer.batch_sha256(p_batch_id uuid) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_batch text;
    v_rows text;
BEGIN
    SELECT json_build_array(b.name, b.content_sha256, b.grouping, b.guards, (
            SELECT jsonb_agg(w.wave - 'released_at' ORDER BY w.number)
            FROM jsonb_array_elements(b.waves) WITH ORDINALITY AS w (wave, number)), b.holdout_basis_points, b.undoes_batch_id)::text
        INTO v_batch FROM batches b WHERE b.batch_id = p_batch_id;
    SELECT string_agg(d.bucket || ':' || d.digest, ',' ORDER BY d.bucket) INTO v_rows FROM (
        SELECT c.bucket, encode(sha256(convert_to(string_agg(ROW(c.original_transaction_id, c.change_id, c.line,
                c.wave, c.is_held_out, c.undoes_change_id, c.sku, c.dependent_skus, c.direction, c.currency, c.storefront, c.period,
                c.current_price_milliunits, c.new_price_milliunits, c.expected_price_milliunits,
                c.effective_on_or_after - date '2000-01-01', c.forecast_consent, extract(epoch FROM c.forecast_effective_at),
                c.forecast_seats)::text, E'\n'
                ORDER BY c.line, c.change_id, c.original_transaction_id COLLATE "C"), 'UTF8')), 'hex') AS digest
        FROM price_changes c WHERE c.batch_id = p_batch_id GROUP BY c.bucket) d;
    RETURN encode(sha256(convert_to(v_batch || E'\n' || coalesce(v_rows, ''), 'UTF8')), 'hex');
END
$$;

CREATE FUNCTION repricer.batches_at(p_at timestamp with time zone) RETURNS SETOF repricer.batches
    LANGUAGE sql STABLE
    AS $$
SELECT b.batch_id,
    b.name,
    b.undoes_batch_id,
    CASE WHEN v.state IS NULL THEN b.state ELSE v.state END,
    b.content_sha256,
    b.plan_hash,
    b.planned_as_of,
    b.row_count,
    b.rejected_row_count,
    b.submitted_by,
    b.submitted_at,
    CASE WHEN v.state IS NULL THEN b.decided_by ELSE v.decided_by END,
    CASE WHEN v.state IS NULL THEN b.decided_at ELSE v.decided_at END,
    CASE WHEN v.state IS NULL THEN b.decision_reason ELSE v.decision_reason END,
    b."grouping",
    b.waves,
    b.released_wave,
    b.next_release_at,
    b.holdout_basis_points,
    CASE WHEN v.state IS NULL THEN b.is_paused ELSE v.is_paused END,
    b.paused_by,
    b.paused_at,
    CASE WHEN v.state IS NULL THEN b.paused_reason ELSE v.paused_reason END,
    b.guards,
    b.guards_count_from,
    b.is_sampled,
    b.guard_reading,
    b.halted_by,
    b.also_paused_by,
    b.also_paused_at,
    b.also_paused_reason,
    b.probe_at,
    b.probe_answer,
    b.halted_storefronts,
    b.is_parking
FROM repricer.batches b
LEFT JOIN LATERAL (
    SELECT p.* FROM repricer.batch_versions p
    WHERE p.batch_id = b.batch_id AND p.recorded_until > p_at ORDER BY p.recorded_until LIMIT 1) v ON true
WHERE b.submitted_at <= p_at
$$;

CREATE FUNCTION repricer.begin_catch_up(p_since timestamp with time zone, p_from timestamp with time zone, p_at timestamp with time zone, p_by_person boolean) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_changes bigint;
    v_ids text[];
    v_change_ids uuid[];
    v_sinces timestamptz[];
    v_recorded_at timestamptz;
    -- Citus refuses a CASE with session_user in an UPDATE.
    v_by text := session_user;
BEGIN
    UPDATE service_controls SET catch_up_since = least(catch_up_since, p_since),
        catch_up_from = greatest(catch_up_from, p_from), catch_up_by = CASE WHEN p_by_person THEN v_by ELSE catch_up_by END,
        database_identity = database_identity();
    -- Every writer of a subscription's changes and calls locks the subscription first; lock_subscriptions keeps the order.
    SELECT array_agg(s.original_transaction_id) INTO v_ids FROM subscriptions s
        WHERE EXISTS (SELECT FROM price_changes c
                WHERE c.original_transaction_id = s.original_transaction_id AND c.bucket = s.bucket
                    AND (c.stage IN ('awaiting_approval', 'queued') OR c.ended_at >= p_since))
            OR EXISTS (SELECT FROM store_calls r
                WHERE r.subject = s.original_transaction_id AND r.bucket = s.bucket AND r.settled_at IS NULL)
            OR EXISTS (SELECT FROM extension_requests e
                WHERE e.original_transaction_id = s.original_transaction_id AND e.bucket = s.bucket AND e.state = 'queued');
    PERFORM lock_subscriptions(v_ids);
    SELECT array_agg(c.original_transaction_id), array_agg(c.change_id), array_agg(greatest(p_since, b.submitted_at))
        INTO v_ids, v_change_ids, v_sinces
        FROM price_changes c JOIN batches b ON b.batch_id = c.batch_id
        -- A change that is held out is never called, so the lost database has not called it either.
        WHERE b.state <> 'rejected' AND NOT c.is_held_out
            AND (c.state IN ('awaiting_approval', 'queued')
                OR c.state IN ('rejected', 'ineligible', 'missed', 'aborted') AND c.ended_at >= p_since)
            AND (c.doubtful_since IS NULL OR c.doubtful_since > greatest(p_since, b.submitted_at));
    v_recorded_at := keep_changes(v_ids, v_change_ids);
    UPDATE price_changes c SET doubtful_since = least(c.doubtful_since, t.since), recorded_at = v_recorded_at
        FROM unnest(v_ids, v_change_ids, v_sinces) AS t (id, change_id, since)
        WHERE c.original_transaction_id = t.id AND c.change_id = t.change_id AND c.bucket = bucket_of(t.id);
    -- Changes that are followed already count, too, so that a person who recovers once more is told the same number.
    SELECT count(*) INTO v_changes FROM price_changes c JOIN batches b ON b.batch_id = c.batch_id
        WHERE b.state <> 'rejected' AND NOT c.is_held_out AND c.doubtful_since <= greatest(p_since, b.submitted_at)
            AND (c.state IN ('awaiting_approval', 'queued')
                OR c.state IN ('rejected', 'ineligible', 'missed', 'aborted') AND c.ended_at >= p_since);
    -- The lost database may have sent such a call again, and that attempt may be on its way until p_from.
    UPDATE store_calls SET next_step = 'check', in_flight_until = greatest(in_flight_until, p_from) WHERE settled_at IS NULL;
    -- An extension that waits here is sent under the same identifier, which the App Store answers as it did the first time. It
    -- is not judged, because the extension that it made itself could be in the way.
    UPDATE extension_requests e SET is_doubtful = true, called_at = least(e.called_at, greatest(p_since, e.requested_at)),
            renewal_before = coalesce(e.renewal_before, s.renewal_at)
        FROM subscriptions s
        WHERE e.state = 'queued' AND s.original_transaction_id = e.original_transaction_id AND s.bucket = e.bucket;
    UPDATE mass_extensions SET doubtful_since = least(doubtful_since, greatest(p_since, submitted_at))
        WHERE state IN ('awaiting_approval', 'queued');
    PERFORM append_audit(session_user::text, p_at, 'catch_up', 'everything',
        json_build_object('since', p_since, 'changes', v_changes, 'database', database_identity()));
    RETURN v_changes;
END
$$;

CREATE FUNCTION repricer.begin_rehearsal(p_at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM batches) OR EXISTS (SELECT 1 FROM mass_extensions)
        OR EXISTS (SELECT 1 FROM extension_requests)
    THEN
        RAISE EXCEPTION 'decisions were made here by the server''s clock; a rehearsal needs a database of its own'
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    UPDATE service_controls SET is_rehearsal = true WHERE NOT is_rehearsal;
    IF FOUND THEN
        PERFORM append_audit(session_user::text, p_at, 'begin_rehearsal', 'everything', NULL);
    END IF;
END
$$;

CREATE FUNCTION repricer.begin_submission(p_batch_id uuid, p_name text, p_content_sha256 text, p_grouping text, p_waves jsonb, p_guards jsonb, p_planned_as_of timestamp with time zone, p_holdout integer DEFAULT 0) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_at timestamptz := decision_instant(p_planned_as_of);
BEGIN
    PERFORM require_pricing();
    IF p_planned_as_of NOT BETWEEN v_at - interval '1 day' AND v_at + interval '1 day' THEN
        RAISE EXCEPTION 'planned as of %, but the database''s clock says %: set the clock of this machine, or begin '
            'a rehearsal by migrate, ingest or serve on its virtual clock', p_planned_as_of, v_at
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO batches (batch_id, name, state, content_sha256, plan_hash, planned_as_of, row_count, submitted_by, submitted_at,
            grouping, waves, guards, holdout_basis_points)
        VALUES (p_batch_id, p_name, 'submitting', p_content_sha256, '', p_planned_as_of, 0, v_by, v_at, p_grouping,
            p_waves, p_guards, p_holdout);
    IF EXISTS (SELECT FROM jsonb_array_elements(p_waves) AS w (wave) WHERE wave ->> 'release' = 'at'
        AND (wave ->> 'at')::timestamptz NOT BETWEEN '1970-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z')
    THEN
        RAISE EXCEPTION 'a wave is released at an instant that no calendar has'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

CREATE FUNCTION repricer.bridge_moves_at(p_at timestamp with time zone, p_batch uuid) RETURNS TABLE(batch_id uuid, month date, currency text, storefront text, opening numeric, closing numeric, cause text, price_effect numeric)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    AS $$
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

CREATE FUNCTION repricer.chain_audit_line(p_actor text, p_occurred_at timestamp with time zone, p_recorded_at timestamp with time zone, p_action text, p_object text, p_details json) RETURNS bigint
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_head audit_head;
    v_hash text;
BEGIN
    SELECT * INTO STRICT v_head FROM audit_head;
    v_head.sequence := v_head.sequence + 1;
    v_hash := audit_hash(v_head.sequence, p_occurred_at, p_recorded_at, p_actor, p_action, p_object, p_details,
        v_head.hash);
    INSERT INTO audit_trail
            (sequence, occurred_at, recorded_at, actor, action, object, details, previous_hash, hash)
        VALUES (v_head.sequence, p_occurred_at, p_recorded_at, p_actor, p_action, p_object, p_details,
            v_head.hash, v_hash);
    UPDATE audit_head SET sequence = v_head.sequence, hash = v_hash;
    RETURN v_head.sequence;
END
$$;

CREATE FUNCTION repricer.chain_waiting_lines() RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_line audit_waiting;
BEGIN
    FOR v_line IN SELECT * FROM audit_waiting ORDER BY waiting_id LOOP
        PERFORM chain_audit_line(v_line.actor, v_line.occurred_at, v_line.recorded_at, v_line.action, v_line.object,
            v_line.details);
        DELETE FROM audit_waiting WHERE waiting_id = v_line.waiting_id;
    END LOOP;
END
$$;

CREATE FUNCTION repricer.change_figures_at(p_at timestamp with time zone) RETURNS SETOF repricer.change_figures
    LANGUAGE sql STABLE
    AS $$
SELECT * FROM repricer.change_figures WHERE false
$$;

CREATE FUNCTION repricer.change_tallies_at(p_at timestamp with time zone, p_batch uuid) RETURNS SETOF repricer.change_tallies
    LANGUAGE sql STABLE
    AS $$
 SELECT t.batch_id,
    t.is_undo,
    t.direction,
    t.forecast_consent,
    t.currency,
    t.storefront,
    t.period,
    t.changes,
    t.sent,
    t.asked_for_consent,
    t.consented,
    t.informed,
    t.effective,
    t.declined,
    t.cancelled,
    t.lapsed,
    t.other,
    t.uncharged,
    t.charged_changes,
    t.charged_renewals,
    t.old_total,
    t.new_total,
    t.old_per_period,
    t.new_per_period,
    t.declined_lost,
    t.cancelled_lost,
    t.fell_with_parent,
    t.fell_lost,
    t.lapsed_lost,
    t.others_lost,
    t.taxed_renewals,
    t.taxed_uplift,
    (0)::bigint AS silent,
    (0)::bigint AS silent_old,
    (0)::bigint AS silent_new
   FROM repricer.figure_tallies_at(p_at) t
UNION ALL
 SELECT k.batch_id,
    k.is_undo,
    k.direction,
    k.forecast_consent,
    k.currency,
    k.storefront,
    k.period,
    0 AS changes,
    0 AS sent,
    0 AS asked_for_consent,
    0 AS consented,
    0 AS informed,
    0 AS effective,
    0 AS declined,
    0 AS cancelled,
    0 AS lapsed,
    0 AS other,
    0 AS uncharged,
    0 AS charged_changes,
    0 AS charged_renewals,
    0 AS old_total,
    0 AS new_total,
    0 AS old_per_period,
    0 AS new_per_period,
    0 AS declined_lost,
    0 AS cancelled_lost,
    0 AS fell_with_parent,
    0 AS fell_lost,
    0 AS lapsed_lost,
    0 AS others_lost,
    0 AS taxed_renewals,
    0 AS taxed_uplift,
    1 AS silent,
    (k.current_price_milliunits * k.seats) AS silent_old,
    (k.new_price_milliunits * k.seats) AS silent_new
   FROM repricer.change_figures_at(p_at) k
  WHERE ((k.word_due_at < ( SELECT d.until
           FROM repricer.heard_charges_at(p_at) d)) AND (k.renewals > 0) AND (NOT k.is_leaving))
UNION ALL
 SELECT u.batch_id,
    u.is_undo,
    u.direction,
    u.forecast_consent,
    u.currency,
    u.storefront,
    u.period,
    u.changes,
    u.sent,
    u.asked_for_consent,
    u.consented,
    u.informed,
    u.effective,
    u.declined,
    u.cancelled,
    u.lapsed,
    u.other,
    u.uncharged,
    u.charged_changes,
    u.charged_renewals,
    u.old_total,
    u.new_total,
    u.old_per_period,
    u.new_per_period,
    u.declined_lost,
    u.cancelled_lost,
    u.fell_with_parent,
    u.fell_lost,
    u.lapsed_lost,
    u.others_lost,
    u.taxed_renewals,
    u.taxed_uplift,
    u.silent,
    u.silent_old,
    u.silent_new
   FROM repricer.untallied_changes_at(p_at, p_batch) u
$$;

CREATE FUNCTION repricer.charged_renewals_at(p_at timestamp with time zone) RETURNS SETOF repricer.charged_renewals
    LANGUAGE sql STABLE
    AS $$
 SELECT c.batch_id,
    c.original_transaction_id,
    c.change_id,
    h.transaction_id,
    h.purchased_at,
    repricer.at_old_price(c.current_price_milliunits, h.price_milliunits, h.quantity, h.refunded_milliunits, h.transaction_id) AS old_price_milliunits,
    ((h.price_milliunits * h.quantity) - h.refunded_milliunits) AS price_milliunits,
    ( SELECT
                CASE
                    WHEN bool_and((k.tax_exclusive IS NOT NULL)) THEN (sum(k.tax_exclusive))::bigint
                    ELSE NULL::bigint
                END AS "case"
           FROM ( SELECT
                        CASE
                            WHEN (sum(e.amount_milliunits) = (0)::numeric) THEN (0)::numeric
                            ELSE NULLIF(sum(e.tax_exclusive_milliunits), (0)::numeric)
                        END AS tax_exclusive
                   FROM repricer.money_entries_at(p_at) e
                  WHERE ((e.original_transaction_id = h.original_transaction_id) AND (e.transaction_id = h.transaction_id) AND (e.sku = h.sku) AND (e.currency = h.currency))
                  GROUP BY e.kind, e.occurred_at, e.number) k) AS tax_exclusive_milliunits
   FROM (repricer.price_changes_at(p_at) c
     JOIN repricer.charges_at(p_at) h ON (((h.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(h.sku, h.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (h.purchased_at >= c.effective_at) AND (h.price_milliunits = c.new_price_milliunits) AND (h.currency = c.currency) AND ((h.refunded_milliunits = 0) OR (h.refunded_milliunits < (h.price_milliunits * h.quantity))))))
  WHERE ((c.state = 'effective'::text) AND (c.undoes_change_id IS NULL) AND (NOT (EXISTS ( SELECT
           FROM repricer.price_changes_at(p_at) n
          WHERE ((n.original_transaction_id = c.original_transaction_id) AND (n.change_id <> c.change_id) AND (COALESCE(n.current_sku, n.sku) = COALESCE(c.current_sku, c.sku)) AND (n.state = 'effective'::text) AND (n.undoes_change_id IS NULL) AND (n.effective_at <= h.purchased_at) AND (ROW(n.effective_at, n.change_id) > ROW(c.effective_at, c.change_id)))))))
$$;

CREATE FUNCTION repricer.charges_at(p_at timestamp with time zone) RETURNS SETOF repricer.charges
    LANGUAGE sql STABLE
    AS $$
SELECT * FROM repricer.charges WHERE recorded_at <= p_at
UNION ALL
SELECT original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at, revoked_at, price_milliunits, quantity,
    currency, storefront, is_offer, is_purchase, is_added_seat, is_relisted, period, refunded_milliunits, recorded_at
FROM repricer.charge_versions WHERE recorded_at <= p_at AND recorded_until > p_at
$$;

CREATE FUNCTION repricer.close_change(p_change_id uuid, p_at timestamp with time zone, p_reason text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_change price_changes;
    v_subscription subscriptions;
    v_recorded_at timestamptz;
    v_price bigint;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_change FROM price_changes WHERE change_id = p_change_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no change %', p_change_id USING ERRCODE = 'no_data_found';
    END IF;
    SELECT * INTO v_subscription FROM subscriptions
        WHERE original_transaction_id = v_change.original_transaction_id AND bucket = v_change.bucket FOR UPDATE;
    SELECT * INTO v_change FROM price_changes
        WHERE original_transaction_id = v_change.original_transaction_id AND bucket = v_change.bucket
            AND change_id = p_change_id;
    IF v_change.state NOT IN ('scheduled', 'pending_consent', 'accepted') THEN
        RAISE EXCEPTION 'change % is %: only one that the App Store has can be closed', p_change_id, v_change.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF EXISTS (SELECT 1 FROM store_calls WHERE subject = v_change.original_transaction_id
        AND bucket = v_change.bucket AND settled_at IS NULL)
    THEN
        RAISE EXCEPTION 'a call of subscription % has no outcome yet: ours may still take effect',
            v_change.original_transaction_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    SELECT coalesce((i.item #>> '{increase,price}')::bigint, (i.item ->> 'renewalPrice')::bigint) INTO v_price
        FROM jsonb_array_elements(v_subscription.items) AS i (item)
        WHERE i.item ->> 'sku' = coalesce(v_change.current_sku, v_change.sku) AND (i.item ->> 'renews')::boolean;
    IF v_price IS NULL THEN
        RAISE EXCEPTION 'the App Store shows no price at which % renews: the change ends by itself',
            coalesce(v_change.current_sku, v_change.sku) USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF v_price = v_change.new_price_milliunits THEN
        RAISE EXCEPTION 'the App Store shows the price of change %: it may still take effect; undo takes it back',
            p_change_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    v_recorded_at := keep_changes(ARRAY[v_change.original_transaction_id], ARRAY[p_change_id]);
    UPDATE price_changes SET state = 'invalidated', reason = 'closed', ended_at = p_at, state_since = p_at,
            doubtful_since = p_at, recorded_at = v_recorded_at
        WHERE original_transaction_id = v_change.original_transaction_id AND bucket = v_change.bucket
            AND change_id = p_change_id;
    DELETE FROM dependency_roles WHERE original_transaction_id = v_change.original_transaction_id
        AND bucket = v_change.bucket AND change_id = p_change_id;
    INSERT INTO price_change_history
            (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id, reason, actor)
        VALUES (v_change.original_transaction_id, v_change.bucket, p_change_id, p_at, 'invalidated', 'decision',
            v_by, 'closed: ' || p_reason, v_by);
    PERFORM append_audit(session_user::text, p_at, 'close', 'change:' || p_change_id,
        json_build_object('subscription', v_change.original_transaction_id, 'shown_price_milliunits', v_price,
            'reason', p_reason));
    RETURN v_price;
END
$$;

CREATE FUNCTION repricer.closed_month_sha256(p_month date) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
SELECT encode(sha256(convert_to(coalesce(string_agg(ROW(batch_id, currency, kind, milliunits)::text, E'\n'
    ORDER BY batch_id NULLS FIRST, currency COLLATE "C", kind COLLATE "C"), ''), 'UTF8')), 'hex')
FROM closed_figures WHERE month = p_month
$$;

CREATE FUNCTION repricer.cross_subscription_fault(p_batch_id uuid) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
IF NOT EXISTS (
    SELECT 1 FROM price_changes c
    WHERE c.batch_id = p_batch_id AND c.state = 'awaiting_approval' AND c.dependent_skus <> '{}')
THEN
    RETURN NULL;
END IF;
RETURN (WITH ours AS MATERIALIZED (
    SELECT c.line, c.original_transaction_id AS id, c.change_id, c.sku, c.dependent_skus FROM price_changes c
    WHERE c.batch_id = p_batch_id AND c.state = 'awaiting_approval' AND c.dependent_skus <> '{}'
), known AS MATERIALIZED (
    SELECT d.original_transaction_id, d.sku, d.claimed_by, d.change_id FROM dependent_claims d
), claims AS MATERIALIZED (
    SELECT d.*, coalesce(o.current_sku, o.sku) AS parent FROM known d
    JOIN price_changes o ON o.original_transaction_id = d.claimed_by AND o.change_id = d.change_id
        AND o.state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'scheduled', 'pending_consent', 'accepted')
), roles AS MATERIALIZED (
    SELECT r.original_transaction_id, r.change_id, r.sku, r.role FROM dependency_roles r
    WHERE r.original_transaction_id IN (SELECT original_transaction_id FROM claims)
), named AS (
    SELECT c.line, c.id, c.change_id, c.sku AS parent, d.original_transaction_id || '/' || d.sku AS name,
        d.original_transaction_id AS carrier, d.sku
    FROM ours c JOIN claims d ON d.claimed_by = c.id AND d.change_id = c.change_id
), faults AS (
    SELECT p.line, format('%s also depends on an open change of %s', p.name, d.claimed_by) AS said
    FROM named p JOIN claims d ON d.original_transaction_id = p.carrier AND d.sku = p.sku
        AND (d.claimed_by, d.change_id) <> (p.id, p.change_id)
    UNION ALL
    SELECT p.line, CASE r.role
        WHEN 'parent' THEN format('dependents form a chain %s → %s → %s', p.parent, p.name, (
            SELECT min(l.sku) FROM roles l
            WHERE l.original_transaction_id = p.carrier AND l.change_id = r.change_id AND l.role = 'dependent'))
        ELSE format('%s is a %s in an open change of its own subscription', p.name, r.role) END
    FROM named p JOIN roles r ON r.original_transaction_id = p.carrier AND r.sku = p.sku
    UNION ALL
    SELECT c.line, CASE r.role
        WHEN 'parent' THEN format('dependents form a chain %s/%s → %s → %s', d.claimed_by, d.parent, r.sku,
            (SELECT min(n.name) FROM unnest(c.dependent_skus) AS n (name)))
        ELSE format('%s is a %s here and depends on an open change of %s', r.sku, r.role, d.claimed_by) END
    FROM claims d
    JOIN roles r ON r.original_transaction_id = d.original_transaction_id AND r.sku = d.sku
    JOIN ours c ON c.id = r.original_transaction_id AND c.change_id = r.change_id
)
SELECT format('line %s: %s', line, said) FROM faults ORDER BY line, said LIMIT 1);
END
$$;

CREATE FUNCTION repricer.database_identity() RETURNS text
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
SELECT CASE WHEN NOT pg_is_in_recovery() THEN concat_ws('/',
    (SELECT system_identifier FROM pg_control_system()),
    left(pg_walfile_name(pg_current_wal_insert_lsn()), 8),
    (SELECT oid FROM pg_database WHERE datname = current_database()),
    'repricer.service_controls'::regclass::oid) END
$$;

CREATE FUNCTION repricer.decision_instant(p_given timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
SELECT CASE WHEN is_rehearsal THEN p_given ELSE date_trunc('milliseconds', clock_timestamp()) END
FROM service_controls
$$;

CREATE FUNCTION repricer.defaults_exceeded(p_rise numeric, p_fall numeric) RETURNS text[]
    LANGUAGE sql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
SELECT coalesce(array_agg(said ORDER BY place), '{}') FROM (
    SELECT 1 AS place, format('an increase of %s, one approver alone allows %s %%',
            CASE WHEN p_rise = 'Infinity' THEN 'a price of 0'
                ELSE trim_scale(ceil(p_rise) / 100)::text || ' %' END,
            trim_scale(round(max_rise_basis_points / 100, 2))) AS said
        FROM default_limits WHERE p_rise > max_rise_basis_points
    UNION ALL
    SELECT 2, format('a decrease of %s %%, one approver alone allows %s %%', trim_scale(ceil(p_fall) / 100),
            trim_scale(round(max_fall_basis_points / 100, 2)))
        FROM default_limits WHERE p_fall > max_fall_basis_points) AS each
$$;

CREATE FUNCTION repricer.dependent_cancellations_at(p_at timestamp with time zone) RETURNS SETOF repricer.dependent_cancellations
    LANGUAGE sql STABLE
    AS $$
SELECT * FROM repricer.dependent_cancellations WHERE recorded_at <= p_at
UNION ALL
SELECT original_transaction_id, bucket, change_id, dependent_sku, parent_sku, batch_id, cause, is_cross_subscription,
    target_transaction_id, target_period, cancel_reference_id, state, price_milliunits, currency, requested_at, requested_by_evidence,
    settled_at, settled_by_evidence, detail, next_check_at, checks, put_back_for, recorded_at
FROM repricer.dependent_cancellation_versions WHERE recorded_at <= p_at AND recorded_until > p_at
$$;

CREATE FUNCTION repricer.dependent_claims_at(p_at timestamp with time zone) RETURNS SETOF repricer.dependent_claims
    LANGUAGE sql STABLE
    AS $$
SELECT * FROM repricer.dependent_claims WHERE recorded_at <= p_at
$$;

CREATE FUNCTION repricer.drop_approval_limit(p_approver text, p_at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    p_at := decision_instant(p_at);
    DELETE FROM approval_limits WHERE approver = p_approver;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no approval limit of %', p_approver USING ERRCODE = 'no_data_found';
    END IF;
    PERFORM append_audit(session_user::text, p_at, 'drop_limit', 'approver:' || p_approver, NULL);
END
$$;

CREATE FUNCTION repricer.end_catch_up(p_is_restored boolean) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
UPDATE service_controls SET catch_up_since = NULL, catch_up_from = NULL, catch_up_by = NULL, catch_up_answer = NULL,
    is_restored = is_restored OR p_is_restored
$$;

CREATE FUNCTION repricer.end_idle_halts(p_at timestamp with time zone) RETURNS TABLE(what text, reason text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_controls service_controls;
    -- An answered call of any kind shows that our key is good. What else price changes were refused for, only they can show.
    v_asking text[];
    v_kind text;
BEGIN
    SELECT * INTO v_controls FROM service_controls
        WHERE halted_at IS NOT NULL OR halted_kinds <> '{}' OR throttled_kinds <> '{}' FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    v_asking := CASE WHEN starts_with(v_controls.halted_reason, '401')
        THEN ARRAY['price_change', 'cancel', 'extension', 'mass_extension'] ELSE ARRAY['price_change'] END;
    IF v_controls.halted_at IS NOT NULL AND is_idle(v_asking) THEN
        what := 'everything';
        reason := v_controls.halted_reason;
        UPDATE service_controls SET halted_at = NULL, halted_reason = NULL, halted_answer = NULL;
        UPDATE put_backs h SET ended_until = coalesce(h.ended_until, p_at) WHERE h.batch_id IS NULL
            AND NOT v_controls.halted_kinds ? h.kind;
        PERFORM append_audit(session_user::text, p_at, 'recover', what,
            json_build_object('halted_for', reason, 'because', 'nothing is left to call'));
        RETURN NEXT;
    END IF;
    FOR v_kind, reason IN SELECT h.key, h.value ->> 'reason' FROM jsonb_each(v_controls.halted_kinds) h LOOP
        CONTINUE WHEN NOT is_idle(ARRAY[v_kind]);
        what := 'calls:' || v_kind;
        UPDATE service_controls SET halted_kinds = halted_kinds - v_kind;
        UPDATE put_backs h SET ended_until = coalesce(h.ended_until, p_at) WHERE h.batch_id IS NULL AND h.kind = v_kind
            AND NOT EXISTS (SELECT FROM service_controls
                WHERE halted_at IS NOT NULL AND (kind = 'price_change' OR starts_with(halted_reason, '401')));
        PERFORM append_audit(session_user::text, p_at, 'recover', what,
            json_build_object('halted_for', reason, 'because', 'nothing is left to call'));
        RETURN NEXT;
    END LOOP;
    FOR v_kind, reason IN SELECT h.key, h.value ->> 'answer' FROM jsonb_each(v_controls.throttled_kinds) h LOOP
        CONTINUE WHEN NOT is_idle(ARRAY[v_kind]);
        what := 'throttle:' || v_kind;
        PERFORM end_throttle(v_kind);
        PERFORM append_audit(session_user::text, p_at, 'recover', what,
            json_build_object('throttled_for', reason, 'because', 'nothing is left to call'));
        RETURN NEXT;
    END LOOP;
END
$$;

CREATE FUNCTION repricer.end_throttle(p_kind text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    UPDATE service_controls SET throttled_kinds = throttled_kinds - p_kind WHERE throttled_kinds ? p_kind;
    RETURN FOUND;
END
$$;

CREATE FUNCTION repricer.end_unreached(p_kind text) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
UPDATE service_controls SET unreached_kinds = unreached_kinds - p_kind WHERE unreached_kinds ? p_kind
$$;

CREATE FUNCTION repricer.explained_charges_at(p_at timestamp with time zone) RETURNS SETOF repricer.explained_charges
    LANGUAGE sql STABLE
    AS $$
 SELECT c.original_transaction_id,
    c.bucket,
    h.transaction_id,
    h.sku,
    h.purchased_at,
    h.price_milliunits,
    h.quantity,
    h.currency,
    h.storefront,
    h.refunded_milliunits,
    c.batch_id,
    c.change_id,
        CASE
            WHEN (h.currency = c.currency) THEN
            CASE
                WHEN t.is_in_effect THEN c.new_price_milliunits
                ELSE c.current_price_milliunits
            END
            ELSE NULL::bigint
        END AS expected_milliunits,
        CASE
            WHEN (w.exception IS NULL) THEN w.explained_as
            ELSE NULL::text
        END AS explained_as,
    w.exception,
        CASE
            WHEN (t.is_in_effect AND (h.currency = c.currency) AND (h.price_milliunits = c.new_price_milliunits) AND ((h.refunded_milliunits = 0) OR (h.refunded_milliunits < (h.price_milliunits * h.quantity))) AND (a.is_alone OR (NOT (EXISTS ( SELECT
               FROM repricer.price_changes_at(p_at) n
              WHERE ((n.original_transaction_id = c.original_transaction_id) AND (n.change_id <> c.change_id) AND (COALESCE(n.current_sku, n.sku) = COALESCE(c.current_sku, c.sku)) AND (n.state = 'effective'::text) AND (n.undoes_change_id IS NULL) AND (n.effective_at <= h.purchased_at) AND (ROW(n.effective_at, n.change_id) > ROW(c.effective_at, c.change_id)))))))) THEN (((h.price_milliunits * h.quantity) - h.refunded_milliunits) - repricer.at_old_price(c.current_price_milliunits, h.price_milliunits, h.quantity, h.refunded_milliunits, h.transaction_id))
            ELSE NULL::bigint
        END AS uplift_milliunits
   FROM (((((repricer.unfrozen_changes_at(p_at) c
     CROSS JOIN LATERAL ( SELECT (NOT (EXISTS ( SELECT
                   FROM repricer.price_changes_at(p_at) o
                  WHERE ((o.original_transaction_id = c.original_transaction_id) AND (o.change_id <> c.change_id))))) AS is_alone
         OFFSET 0) a)
     CROSS JOIN LATERAL ( SELECT repricer.is_refused(c.state, c.refused_at, c.doubtful_since) AS is_refused) r)
     CROSS JOIN LATERAL ( SELECT k.original_transaction_id,
            k.bucket,
            k.transaction_id,
            k.sku,
            k.purchased_at,
            k.expires_at,
            k.revoked_at,
            k.price_milliunits,
            k.quantity,
            k.currency,
            k.storefront,
            k.is_offer,
            k.is_purchase,
            k.is_added_seat,
            k.is_relisted,
            k.period,
            k.refunded_milliunits,
            k.recorded_at,
            k.bought,
            max(k.expires_at) FILTER (WHERE ((NOT k.is_added_seat) AND ((NOT k.is_purchase) OR (k.revoked_at IS NULL)) AND ((k.refunded_milliunits = 0) OR (k.refunded_milliunits < (k.price_milliunits * k.quantity))))) OVER (PARTITION BY k.sku, k.bought ORDER BY k.purchased_at, k.transaction_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS kept_before_until,
            max(k.expires_at) OVER (PARTITION BY k.sku ORDER BY k.purchased_at, k.transaction_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS paid_before_until,
            (repricer.span(k.purchased_at, k.expires_at) / (2)::double precision) AS half,
            LEAST(repricer.days(1), (repricer.span(k.purchased_at, k.expires_at) / (10)::double precision)) AS tolerance
           FROM ( SELECT k_1.original_transaction_id,
                    k_1.bucket,
                    k_1.transaction_id,
                    k_1.sku,
                    k_1.purchased_at,
                    k_1.expires_at,
                    k_1.revoked_at,
                    k_1.price_milliunits,
                    k_1.quantity,
                    k_1.currency,
                    k_1.storefront,
                    k_1.is_offer,
                    k_1.is_purchase,
                    k_1.is_added_seat,
                    k_1.is_relisted,
                    k_1.period,
                    k_1.refunded_milliunits,
                    k_1.recorded_at,
                    count(*) FILTER (WHERE (k_1.is_purchase AND (NOT k_1.is_added_seat) AND (k_1.revoked_at IS NULL))) OVER (PARTITION BY k_1.sku ORDER BY k_1.purchased_at, k_1.transaction_id) AS bought
                   FROM repricer.charges_at(p_at) k_1
                  WHERE ((k_1.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k_1.sku, k_1.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until))) k
         OFFSET 0) h)
     CROSS JOIN LATERAL ( SELECT ((c.state = 'effective'::text) AND (c.effective_at <= h.purchased_at)) AS is_in_effect,
            ((c.currency = h.currency) AND ((c.storefront = h.storefront) OR (h.storefront IS NULL))) AS is_of_the_place,
            ((NOT h.is_purchase) AND COALESCE((((h.expires_at <= h.kept_before_until) AND (h.purchased_at < h.kept_before_until)) OR ((h.purchased_at < (h.kept_before_until - 'PT1M'::interval)) AND COALESCE(((h.kept_before_until > LEAST((h.purchased_at + repricer.days(1)), (h.purchased_at + h.half))) OR (h.expires_at < (h.kept_before_until + h.half))), true))), false)) AS is_double) t)
     CROSS JOIN LATERAL ( SELECT
                CASE
                    WHEN (t.is_in_effect AND (h.currency = c.currency) AND (h.price_milliunits = c.new_price_milliunits)) THEN 'new_price'::text
                    WHEN h.is_offer THEN 'offer'::text
                    WHEN (NOT t.is_of_the_place) THEN 'moved'::text
                    WHEN (t.is_in_effect AND u.is_undone) THEN 'undone'::text
                    WHEN e.is_back THEN 'new_purchase'::text
                    WHEN ((NOT t.is_in_effect) AND (h.price_milliunits = c.current_price_milliunits)) THEN 'old_price'::text
                    WHEN h.is_purchase THEN 'new_purchase'::text
                    ELSE NULL::text
                END AS explained_as,
                CASE
                    WHEN (((h.price_milliunits * h.quantity) > 0) AND (h.refunded_milliunits >= (h.price_milliunits * h.quantity))) THEN 'refunded'::text
                    WHEN t.is_double THEN 'double'::text
                    WHEN h.is_relisted THEN 'relisted'::text
                    WHEN ((h.currency <> c.currency) AND ((h.storefront = c.storefront) OR (h.currency = 'XXX'::text))) THEN 'wrong_currency'::text
                    WHEN ((c.state = 'declined'::text) AND (c.reason IS DISTINCT FROM 'parent_declined'::text) AND ((h.purchased_at > c.ended_at) OR e.is_at_end) AND (NOT e.is_back)) THEN 'declined_yet_charged'::text
                    WHEN ((c.state = ANY (ARRAY['declined'::text, 'cancelled'::text, 'lapsed'::text])) AND ((h.purchased_at > c.ended_at) OR e.is_at_end) AND (NOT e.is_back)) THEN 'after_end'::text
                    WHEN (t.is_in_effect AND e.is_after_end) THEN 'after_end'::text
                    WHEN ((NOT h.is_offer) AND (h.currency = c.currency) AND (h.price_milliunits > c.current_price_milliunits) AND (NOT (t.is_in_effect AND ((h.price_milliunits = c.new_price_milliunits) OR u.is_undone OR (h.is_added_seat AND (h.price_milliunits < c.new_price_milliunits)))))) THEN 'other_price'::text
                    WHEN (h.is_offer OR (NOT t.is_of_the_place) OR h.is_purchase OR e.is_back OR (t.is_in_effect AND u.is_undone)) THEN
                    CASE
                        WHEN (h.refunded_milliunits > 0) THEN 'refunded'::text
                        ELSE NULL::text
                    END
                    WHEN (h.price_milliunits <>
                    CASE
                        WHEN t.is_in_effect THEN c.new_price_milliunits
                        ELSE c.current_price_milliunits
                    END) THEN 'other_price'::text
                    WHEN (h.refunded_milliunits > 0) THEN 'refunded'::text
                    ELSE NULL::text
                END AS exception
           FROM (( SELECT ((NOT a.is_alone) AND (EXISTS ( SELECT
                           FROM repricer.price_changes_at(p_at) u_1
                          WHERE ((u_1.original_transaction_id = c.original_transaction_id) AND (u_1.undoes_change_id = c.change_id) AND (u_1.scheduled_at IS NOT NULL) AND (h.price_milliunits = u_1.new_price_milliunits))))) AS is_undone,
                    (EXISTS ( SELECT
                           FROM repricer.told_statements_at(p_at) q
                          WHERE ((q.original_transaction_id = c.original_transaction_id) AND (q.type = ANY (ARRAY['DID_FAIL_TO_RENEW'::text, 'GRACE_PERIOD_EXPIRED'::text])) AND (q.signed_at > (h.purchased_at - h.tolerance)) AND (q.signed_at < (h.purchased_at + h.half))))) AS had_failed) u
             CROSS JOIN LATERAL ( SELECT ((t.is_in_effect AND (NOT h.is_purchase) AND
                        CASE
                            WHEN (h.paid_before_until < (h.purchased_at - 'PT1M'::interval)) THEN ((EXISTS ( SELECT
                               FROM repricer.told_statements_at(p_at) q
                              WHERE ((q.original_transaction_id = c.original_transaction_id) AND (q.type = 'EXPIRED'::text) AND (q.signed_at > (h.paid_before_until - repricer.days(1))) AND (q.signed_at < h.purchased_at)))) AND (NOT (EXISTS ( SELECT
                               FROM repricer.told_statements_at(p_at) q
                              WHERE ((q.original_transaction_id = c.original_transaction_id) AND (q.signed_at >= h.paid_before_until) AND ((((q.statement #>> '{renewal,recentSubscriptionStartAt}'::text[]))::numeric >= (EXTRACT(epoch FROM (h.paid_before_until + 'PT1M'::interval)) * (1000)::numeric)) AND (((q.statement #>> '{renewal,recentSubscriptionStartAt}'::text[]))::numeric <= (EXTRACT(epoch FROM h.purchased_at) * (1000)::numeric))))))))
                            ELSE (COALESCE((h.revoked_at > (h.purchased_at + h.half)), true) AND (EXISTS ( SELECT
                               FROM repricer.told_statements_at(p_at) q
                              WHERE ((q.original_transaction_id = c.original_transaction_id) AND (q.type = 'EXPIRED'::text) AND (q.signed_at > (h.purchased_at - h.tolerance)) AND (q.signed_at < (h.purchased_at + h.half))))) AND (NOT u.had_failed))
                        END) OR (t.is_in_effect AND (NOT h.is_purchase) AND (EXISTS ( SELECT
                           FROM repricer.told_statements_at(p_at) q
                          WHERE ((q.original_transaction_id = c.original_transaction_id) AND (q.type = ANY (ARRAY['REFUND'::text, 'REVOKE'::text])) AND (q.status = '5'::text) AND (q.signed_at >= c.effective_at) AND (q.signed_at < h.purchased_at) AND (NOT (EXISTS ( SELECT
                                   FROM repricer.charges_at(p_at) b
                                  WHERE ((b.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(b.sku, b.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (b.purchased_at > q.signed_at) AND (b.purchased_at < h.purchased_at))))) AND (NOT (EXISTS ( SELECT
                                   FROM repricer.told_statements_at(p_at) r_1
                                  WHERE ((r_1.original_transaction_id = c.original_transaction_id) AND (r_1.signed_at > q.signed_at) AND (((r_1.type = ANY (ARRAY['SUBSCRIBED'::text, 'REFUND_REVERSED'::text])) AND (r_1.signed_at < (h.purchased_at + h.half))) OR ((((r_1.statement #>> '{renewal,recentSubscriptionStartAt}'::text[]))::numeric >= (EXTRACT(epoch FROM q.signed_at) * (1000)::numeric)) AND (((r_1.statement #>> '{renewal,recentSubscriptionStartAt}'::text[]))::numeric <= (EXTRACT(epoch FROM h.purchased_at) * (1000)::numeric))))))))))))) AS is_after_end,
                    ((NOT h.is_purchase) AND (h.purchased_at <= c.ended_at) AND (c.ended_at < (h.purchased_at +
                        CASE
                            WHEN (c.reason = 'item_missing_at_renewal'::text) THEN h.tolerance
                            ELSE h.half
                        END)) AND (c.reason IS DISTINCT FROM 'refunded_or_revoked'::text) AND (c.reason IS DISTINCT FROM 'item_refunded'::text) AND (h.purchased_at >= (h.paid_before_until - 'PT1M'::interval)) AND COALESCE((h.revoked_at > c.ended_at), true) AND (NOT u.had_failed)) AS is_at_end,
                    ((((c.state = ANY (ARRAY['declined'::text, 'cancelled'::text, 'lapsed'::text])) AND ((h.purchased_at > c.ended_at) OR (h.is_purchase AND (h.purchased_at = c.ended_at))) AND ((h.price_milliunits <> c.new_price_milliunits) OR (h.currency <> c.currency))) OR (t.is_in_effect AND (h.price_milliunits <= c.current_price_milliunits))) AND (h.is_purchase OR (EXISTS ( SELECT
                           FROM repricer.charges_at(p_at) b
                          WHERE ((b.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(b.sku, b.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND b.is_purchase AND (NOT b.is_added_seat) AND
                                CASE
                                    WHEN t.is_in_effect THEN (b.purchased_at > c.effective_at)
                                    ELSE (b.purchased_at >= c.ended_at)
                                END AND (b.purchased_at < h.purchased_at) AND (((b.currency = h.currency) AND ((b.price_milliunits = h.price_milliunits) OR (b.is_offer AND (h.price_milliunits <= c.current_price_milliunits)))) OR (b.storefront <> h.storefront)) AND ((NOT t.is_in_effect) OR (EXISTS ( SELECT
                                   FROM repricer.told_statements_at(p_at) q
                                  WHERE ((q.original_transaction_id = c.original_transaction_id) AND (q.type = 'EXPIRED'::text) AND (q.signed_at > c.effective_at) AND (q.signed_at < b.purchased_at)))) OR (NOT (EXISTS ( SELECT
                                   FROM repricer.charges_at(p_at) p
                                  WHERE ((p.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(p.sku, p.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (p.purchased_at < b.purchased_at) AND COALESCE((p.expires_at > (b.purchased_at - 'PT1M'::interval)), true) AND (p.revoked_at IS NULL) AND ((p.refunded_milliunits = 0) OR (p.refunded_milliunits < (p.price_milliunits * p.quantity))))))))))))) AS is_back) e)) w)
  WHERE ((h.purchased_at >= COALESCE(LEAST(c.sent_at, c.doubtful_since), c.scheduled_at, c.refused_at)) AND (c.undoes_change_id IS NULL) AND ((c.state <> ALL (ARRAY['ineligible'::text, 'missed'::text, 'aborted'::text])) OR r.is_refused) AND ((NOT r.is_refused) OR ((COALESCE(c.sent_at, c.refused_at) IS NOT NULL) AND (NOT h.is_purchase) AND (NOT h.is_offer) AND t.is_of_the_place AND ((h.price_milliunits > c.current_price_milliunits) OR ((h.price_milliunits = c.new_price_milliunits) AND (h.price_milliunits < c.current_price_milliunits))) AND (NOT (EXISTS ( SELECT
           FROM repricer.charges_at(p_at) b
          WHERE ((b.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(b.sku, b.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND b.is_purchase AND (NOT b.is_added_seat) AND (b.purchased_at >= COALESCE(c.sent_at, c.refused_at)) AND (b.purchased_at < h.purchased_at) AND (b.currency = h.currency) AND (b.price_milliunits = h.price_milliunits))))) AND (a.is_alone OR (NOT (EXISTS ( SELECT
           FROM repricer.price_changes_at(p_at) n
          WHERE ((n.original_transaction_id = c.original_transaction_id) AND (n.change_id <> c.change_id) AND repricer.is_of_item(h.sku, h.purchased_at, n.sku, n.current_sku, n.former_skus, n.former_until) AND (h.purchased_at >= COALESCE(LEAST(n.sent_at, n.doubtful_since), n.scheduled_at, n.refused_at)) AND
                CASE
                    WHEN repricer.is_refused(n.state, n.refused_at, n.doubtful_since) THEN (ROW(COALESCE(n.sent_at, n.refused_at), n.change_id) > ROW(COALESCE(c.sent_at, c.refused_at), c.change_id))
                    ELSE (n.state <> ALL (ARRAY['ineligible'::text, 'missed'::text, 'aborted'::text]))
                END)
         OFFSET 0)))))) AND (r.is_refused OR a.is_alone OR (NOT (EXISTS ( SELECT
           FROM repricer.price_changes_at(p_at) n
          WHERE ((n.original_transaction_id = c.original_transaction_id) AND (n.change_id <> c.change_id) AND (COALESCE(n.current_sku, n.sku) = COALESCE(c.current_sku, c.sku)) AND (n.undoes_change_id IS NULL) AND (n.state <> ALL (ARRAY['rejected'::text, 'ineligible'::text, 'missed'::text, 'aborted'::text])) AND (h.purchased_at >= COALESCE(LEAST(n.sent_at, n.doubtful_since), n.scheduled_at)) AND (ROW(((n.state = 'effective'::text) AND (n.effective_at <= h.purchased_at) AND (n.new_price_milliunits = h.price_milliunits) AND (n.currency = h.currency) AND (NOT (EXISTS ( SELECT
                   FROM repricer.price_changes_at(p_at) y
                  WHERE ((y.original_transaction_id = n.original_transaction_id) AND (y.state = 'effective'::text) AND (y.undoes_change_id IS NULL) AND (COALESCE(y.current_sku, y.sku) = COALESCE(n.current_sku, n.sku)) AND (y.effective_at <= h.purchased_at) AND (ROW(y.effective_at, y.change_id) > ROW(n.effective_at, n.change_id))))))), COALESCE(LEAST(n.sent_at, n.doubtful_since), n.scheduled_at), n.change_id) > ROW((t.is_in_effect AND (c.new_price_milliunits = h.price_milliunits) AND (c.currency = h.currency) AND (NOT (EXISTS ( SELECT
                   FROM repricer.price_changes_at(p_at) y
                  WHERE ((y.original_transaction_id = c.original_transaction_id) AND (y.state = 'effective'::text) AND (y.undoes_change_id IS NULL) AND (COALESCE(y.current_sku, y.sku) = COALESCE(c.current_sku, c.sku)) AND (y.effective_at <= h.purchased_at) AND (ROW(y.effective_at, y.change_id) > ROW(c.effective_at, c.change_id))))))), COALESCE(LEAST(c.sent_at, c.doubtful_since), c.scheduled_at), c.change_id)))
         OFFSET 0)))))
$$;

CREATE FUNCTION repricer.extension_shortfall(p_extension_id uuid) RETURNS text[]
    LANGUAGE plpgsql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_rows bigint;
    v_exceeded text[];
BEGIN
    IF NOT EXISTS (SELECT FROM approval_limits) THEN
        RETURN NULL;
    END IF;
    IF EXISTS (SELECT FROM mass_extension_approvals
        WHERE extension_id = p_extension_id AND approver = session_user)
    THEN
        RAISE EXCEPTION 'user % has given the first approval; another approver must give the second', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    SELECT count(*) INTO v_rows FROM subscriptions s, mass_extensions m
        WHERE m.extension_id = p_extension_id AND s.product_id = m.product_id
            AND (m.storefronts IS NULL OR s.storefront IS NULL OR s.storefront = ANY (m.storefronts))
            AND coalesce(s.status NOT IN (2, 5), true);
    v_exceeded := approver_shortfall(session_user,
        EXISTS (SELECT FROM mass_extension_approvals a
            WHERE a.extension_id = p_extension_id AND may_approve(a.approver)), v_rows, 0, '{}');
    IF v_exceeded IS NULL THEN
        RAISE EXCEPTION 'user % may not approve: no approval limit names them or a role of theirs', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF v_exceeded = '{}' OR EXISTS (
        SELECT FROM mass_extension_approvals a
        WHERE a.extension_id = p_extension_id AND may_approve(a.approver) AND approver_shortfall(a.approver, true, v_rows, 0, '{}') = '{}')
    THEN
        RETURN NULL;
    END IF;
    RETURN v_exceeded;
END
$$;

CREATE FUNCTION repricer.failed_extensions(p_extension_id uuid) RETURNS SETOF text
    LANGUAGE sql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
SELECT DISTINCT f.original_transaction_id FROM attributed_extensions f
WHERE f.extension_id = p_extension_id AND f.outcome = 'failed'
    AND NOT EXISTS (
        SELECT FROM renewal_extensions l WHERE l.original_transaction_id = f.original_transaction_id
            AND l.outcome <> 'failed' AND l.told_at > f.told_at)
    AND NOT EXISTS (
        SELECT FROM extension_requests c WHERE c.original_transaction_id = f.original_transaction_id
            AND (c.state IN ('queued', 'sending', 'unknown')
                OR c.mass_extension_id = p_extension_id AND c.state = 'extended'))
$$;

CREATE FUNCTION repricer.figure_tallies_at(p_at timestamp with time zone) RETURNS SETOF repricer.figure_tallies
    LANGUAGE sql STABLE
    AS $$
SELECT * FROM repricer.figure_tallies WHERE false
$$;

CREATE FUNCTION repricer.finish_submission(p_batch_id uuid, p_plan_hash text, p_rows bigint, p_refused_rows bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_batch batches := batch_in_submission(p_batch_id);
    v_rows bigint;
    v_refused bigint;
    v_unheard bigint;
BEGIN
    SELECT count(*), count(*) FILTER (WHERE s.original_transaction_id IS NULL) INTO v_rows, v_unheard
        FROM price_changes c
        LEFT JOIN subscriptions s ON s.original_transaction_id = c.original_transaction_id AND s.bucket = c.bucket
        WHERE c.batch_id = p_batch_id;
    SELECT count(*) INTO v_refused FROM batch_rejects WHERE batch_id = p_batch_id;
    IF (v_rows, v_refused) IS DISTINCT FROM (p_rows, p_refused_rows) THEN
        RAISE EXCEPTION 'batch % holds % rows and % refused ones, not % and %', p_batch_id, v_rows, v_refused, p_rows,
            p_refused_rows USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- The programs refuse such a row. If it were stored by hand, it would wait for ever.
    IF v_unheard > 0 THEN
        RAISE EXCEPTION 'batch % holds rows of subscriptions of which nothing is known', p_batch_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    UPDATE batches SET state = 'awaiting_approval', plan_hash = p_plan_hash, row_count = v_rows,
            rejected_row_count = v_refused
        WHERE batch_id = p_batch_id;
    PERFORM record_dependent_claims(p_batch_id);
    PERFORM append_audit(session_user::text, v_batch.submitted_at, 'submit', 'batch:' || p_batch_id,
        json_build_object('name', v_batch.name, 'rows', v_rows, 'refused_rows', v_refused, 'plan_hash', p_plan_hash,
            'content_sha256', v_batch.content_sha256, 'batch_sha256', batch_sha256(p_batch_id), 'undoes', v_batch.undoes_batch_id,
            'holdout_basis_points', nullif(v_batch.holdout_basis_points, 0)));
END
$$;

CREATE FUNCTION repricer.follow_clock(p_start timestamp with time zone, p_rate double precision, p_origin timestamp with time zone) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
UPDATE service_controls SET clock_start = p_start, clock_rate = p_rate, clock_origin = p_origin
WHERE is_rehearsal AND (clock_start, clock_rate, clock_origin) IS DISTINCT FROM (p_start, p_rate, p_origin)
$$;

CREATE FUNCTION repricer.forecast_rules(p_change repricer.price_changes) RETURNS jsonb
    LANGUAGE sql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
SELECT coalesce(jsonb_agg(answer ORDER BY array_position(ARRAY['always_consent_storefront', 'threshold',
    'increase_within_12_months', 'korea_offer_conversion'], answer ->> 'rule')), '[]')
FROM (
    SELECT jsonb_array_elements(p_change.forecast_rules)
    UNION ALL
    SELECT jsonb_array_elements(a.answers) FROM batch_rule_answers a
        WHERE a.batch_id = p_change.batch_id AND a.answers_id = p_change.forecast_answers_id
) AS said (answer)
$$;

CREATE FUNCTION repricer.frozen_figures_at(p_at timestamp with time zone) RETURNS SETOF repricer.change_figures
    LANGUAGE sql STABLE
    AS $$
SELECT f.* FROM repricer.change_figures f
WHERE f.counted_at <= p_at AND NOT EXISTS (
    SELECT FROM repricer.marked_subscriptions() s (id) WHERE s.id = f.original_transaction_id)
$$;

CREATE FUNCTION repricer.give_up_extension(p_extension_id uuid, p_reason text, p_at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_detail text := format('given up by %s: %s', session_user, p_reason);
    v_mass mass_extensions;
    v_call store_calls;
    v_id text;
    v_bucket smallint;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    FOR v_id, v_bucket IN SELECT e.original_transaction_id, e.bucket FROM extension_requests e
        WHERE e.extension_id = p_extension_id ORDER BY e.original_transaction_id
    LOOP
        -- Who calls it, or settles it, holds this lock.
        PERFORM 1 FROM subscriptions s WHERE s.original_transaction_id = v_id AND s.bucket = v_bucket FOR UPDATE;
        UPDATE extension_requests e SET state = 'refused', settled_at = p_at, settled_by = 'judgement', next_attempt_at = NULL,
            detail = v_detail
        WHERE e.original_transaction_id = v_id AND e.bucket = v_bucket AND e.extension_id = p_extension_id
            AND e.state = 'queued';
        IF NOT FOUND THEN
            RAISE EXCEPTION 'extension % is being called, or has ended: only one that waits can be given up',
                p_extension_id USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        PERFORM append_audit(session_user::text, p_at, 'give_up', 'extension:' || p_extension_id,
            json_build_object('reason', p_reason, 'subscription', v_id));
    END LOOP;
    IF FOUND THEN
        RETURN;
    END IF;
    -- The call is locked first, in the order of those who settle it.
    SELECT c.* INTO v_call FROM store_calls c JOIN mass_extensions m
        ON c.subject = 'product:' || m.product_id AND c.bucket = bucket_of('product:' || m.product_id)
    WHERE m.extension_id = p_extension_id AND p_extension_id = ANY (c.carries) AND c.state IN ('sending', 'unknown')
    FOR UPDATE OF c;
    SELECT * INTO v_mass FROM mass_extensions WHERE extension_id = p_extension_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no mass extension %', p_extension_id USING ERRCODE = 'no_data_found';
    END IF;
    -- A call whose last attempt was refused in words that explain nothing counts, after a day, like one that is denied.
    IF v_mass.state NOT IN ('running', 'unknown') THEN
        RAISE EXCEPTION 'mass extension % is %: only one that was called, and has not ended, can be given up',
            p_extension_id, v_mass.state USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF v_mass.code IS DISTINCT FROM 'StatusRequestNotFoundError'
        AND (v_mass.state = 'running' OR v_mass.detail IS NULL OR v_mass.detail !~ '^[0-9]{3,} ')
    THEN
        RAISE EXCEPTION 'the App Store has not denied mass extension %: it is at work', p_extension_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF p_at < v_mass.called_at + interval '1 day' THEN
        RAISE EXCEPTION 'mass extension % was called less than a day ago; the App Store may still learn of it',
            p_extension_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- A repetition that is on its way has no next attempt, and the App Store may apply a request for a while after it left.
    IF v_call.state = 'sending' OR v_call.next_attempt_at IS NULL AND v_call.next_step = 'send'
        OR v_call.in_flight_until > clock_timestamp()
    THEN
        RAISE EXCEPTION 'mass extension % is being called; try again in two minutes', p_extension_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- The call ends, too, so that a process that is checking it writes nothing.
    UPDATE store_calls SET state = 'refused', settled_at = p_at, is_doubtful = true, error_message = 'given_up'
        WHERE subject = 'product:' || v_mass.product_id
            AND bucket = bucket_of('product:' || v_mass.product_id)
            AND p_extension_id = ANY (carries) AND state IN ('sending', 'unknown');
    UPDATE mass_extensions SET state = 'given_up', completed_at = p_at, next_attempt_at = NULL, detail = v_detail
        WHERE extension_id = p_extension_id;
    PERFORM append_audit(session_user::text, p_at, 'give_up', 'extension:' || p_extension_id,
        json_build_object('reason', p_reason, 'code', v_mass.code));
END
$$;

CREATE FUNCTION repricer.halt_batch(p_batch_id uuid, p_at timestamp with time zone, p_by text, p_reason text, p_details json, p_probe_at timestamp with time zone, p_from timestamp with time zone DEFAULT NULL::timestamp with time zone, p_code text DEFAULT NULL::text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
BEGIN
    PERFORM FROM batches WHERE batch_id = p_batch_id AND state = 'approved' AND NOT is_paused FOR UPDATE;
    IF NOT FOUND THEN
        -- A guard or a person may have been faster. What ended by the code that everybody meets is put back all the same.
        IF (p_probe_at IS NOT NULL OR p_code IS NOT NULL) AND EXISTS (
            SELECT FROM batches WHERE batch_id = p_batch_id AND state = 'approved' AND is_paused)
            AND NOT EXISTS (
                SELECT FROM put_backs WHERE kind = 'price_change' AND batch_id = p_batch_id AND code = coalesce(p_code, p_by)
                    AND ended_until IS NULL)
        THEN
            PERFORM note_put_back('price_change', p_batch_id, coalesce(p_code, p_by), p_from, p_code IS NOT NULL);
        END IF;
        RETURN false;
    END IF;
    PERFORM keep_batch(p_batch_id);
    UPDATE batches SET is_paused = true, halted_by = p_by, probe_at = p_probe_at, probe_answer = NULL, paused_by = v_by, paused_at = p_at,
            paused_reason = p_reason
        WHERE batch_id = p_batch_id;
    PERFORM note_put_back('price_change', p_batch_id, coalesce(p_code, p_by), p_from, p_code IS NOT NULL);
    PERFORM append_audit(session_user::text, p_at, 'halt', 'batch:' || p_batch_id,
        json_build_object('by', p_by, 'reason', p_reason, 'details', p_details));
    RETURN true;
END
$$;

CREATE FUNCTION repricer.halt_kind(p_kind text, p_at timestamp with time zone, p_reason text, p_from timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    UPDATE service_controls SET halted_kinds = halted_kinds
            || jsonb_build_object(p_kind, jsonb_build_object('at', p_at, 'reason', p_reason))
        WHERE NOT halted_kinds ? p_kind;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM note_put_back(p_kind, NULL, split_part(p_reason, ' ', 1), p_from);
    PERFORM append_audit(session_user::text, p_at, 'halt', 'calls:' || p_kind, json_build_object('reason', p_reason));
    RETURN true;
END
$$;

CREATE FUNCTION repricer.halt_service(p_at timestamp with time zone, p_reason text, p_kind text DEFAULT NULL::text, p_from timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    -- A refusal of price changes halts them alone. A refused key halts all kinds, also while price changes stand still.
    UPDATE service_controls SET halted_at = p_at, halted_reason = p_reason
        WHERE halted_at IS NULL OR starts_with(p_reason, '401') AND NOT starts_with(halted_reason, '401');
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM note_put_back(p_kind, NULL, split_part(p_reason, ' ', 1), p_from);
    PERFORM append_audit(session_user::text, p_at, 'halt', 'everything', json_build_object('reason', p_reason));
    RETURN true;
END
$$;

CREATE FUNCTION repricer.halt_storefront(p_batch_id uuid, p_storefront text, p_at timestamp with time zone, p_by text, p_reason text, p_probe_at timestamp with time zone DEFAULT NULL::timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    UPDATE batches SET is_parking = true, halted_storefronts = halted_storefronts || jsonb_build_object(
            p_storefront, jsonb_build_object('by', p_by, 'reason', p_reason, 'at', p_at, 'probe_at', p_probe_at))
        WHERE batch_id = p_batch_id AND state = 'approved' AND NOT halted_storefronts ? p_storefront;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM append_audit(session_user::text, p_at, 'halt', 'batch:' || p_batch_id,
        json_build_object('storefront', p_storefront, 'by', p_by, 'reason', p_reason));
    RETURN true;
END
$$;

CREATE FUNCTION repricer.has_changes_to_call() RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_batch uuid;
BEGIN
    FOR v_batch IN SELECT b.batch_id FROM batches b WHERE b.state = 'approved' ORDER BY b.decided_at DESC LOOP
        PERFORM 1 FROM price_changes c WHERE c.batch_id = v_batch AND c.stage IN ('queued', 'unknown') LIMIT 1;
        IF FOUND THEN
            RETURN true;
        END IF;
    END LOOP;
    RETURN false;
END
$$;

CREATE FUNCTION repricer.has_open_rows(p_batch_id uuid) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    -- Citus takes no subquery without a column here.
    RETURN EXISTS (SELECT 1 FROM price_changes
        WHERE batch_id = p_batch_id
            AND stage IN ('awaiting_approval', 'queued', 'unknown', 'scheduled', 'pending_consent', 'accepted'));
END
$$;

CREATE FUNCTION repricer.has_work(p_kind text) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM store_calls r WHERE r.kind = p_kind AND r.settled_at IS NULL) THEN
        RETURN true;
    END IF;
    -- Each statement reads one table.
    IF p_kind = 'price_change' THEN
        RETURN has_changes_to_call();
    ELSIF p_kind = 'extension' THEN
        PERFORM 1 FROM extension_requests e WHERE e.state IN ('queued', 'sending', 'unknown') LIMIT 1;
    ELSIF p_kind = 'cancel' THEN
        PERFORM 1 FROM dependent_cancellations d WHERE d.state = 'requested' AND d.is_cross_subscription LIMIT 1;
    ELSE
        PERFORM 1 FROM mass_extensions m WHERE m.state IN ('queued', 'sending', 'unknown') LIMIT 1;
    END IF;
    RETURN FOUND;
END
$$;

CREATE FUNCTION repricer.heard_charges_at(p_at timestamp with time zone) RETURNS SETOF repricer.heard_charges
    LANGUAGE sql STABLE
    AS $$
 SELECT (max(e.occurred_at) - repricer.days(3)) AS until
   FROM repricer.money_entries_at(p_at) e
  WHERE ((e.kind = 'charge'::text) AND (e.occurred_at <= p_at))
$$;

CREATE FUNCTION repricer.history_sha256(p_number integer) RETURNS text
    LANGUAGE plpgsql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_rows text;
BEGIN
    SELECT string_agg(d.bucket || ':' || d.digest, ',' ORDER BY d.bucket) INTO v_rows FROM (
        SELECT i.bucket, encode(sha256(convert_to(string_agg(ROW(i.original_transaction_id, i.sku,
                i.increased_on - date '2000-01-01', i.old_price_milliunits, i.new_price_milliunits, i.currency)::text, E'\n'
                ORDER BY i.original_transaction_id COLLATE "C", i.sku COLLATE "C", i.increased_on), 'UTF8')), 'hex') AS digest
        FROM imported_increases i WHERE i.number = p_number GROUP BY i.bucket) d;
    RETURN encode(sha256(convert_to(coalesce(v_rows, ''), 'UTF8')), 'hex');
END
$$;

CREATE FUNCTION repricer.hold_audit_head() RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_timeout text := current_setting('lock_timeout');
BEGIN
    PERFORM set_config('lock_timeout', '2s', true);
    PERFORM FROM audit_head FOR UPDATE;
    PERFORM set_config('lock_timeout', v_timeout, true);
    RETURN true;
EXCEPTION WHEN lock_not_available THEN
    RETURN false;
END
$$;

CREATE FUNCTION repricer.import_history(p_file text, p_content_sha256 text, p_at timestamp with time zone, p_ids text[], p_skus text[], p_days date[], p_old_prices bigint[], p_new_prices bigint[], p_currencies text[]) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_number integer;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    IF EXISTS (SELECT FROM unnest(p_days) AS day WHERE day > (p_at AT TIME ZONE 'UTC')::date) THEN
        RAISE EXCEPTION 'an increase of the future is none yet' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT coalesce(max(number), 0) + 1 INTO v_number FROM history_imports;
    INSERT INTO history_imports (number, imported_at, file, content_sha256)
        VALUES (v_number, p_at, p_file, p_content_sha256);
    INSERT INTO imported_increases (original_transaction_id, bucket, sku, increased_on, old_price_milliunits,
            new_price_milliunits, currency, number)
        SELECT i.id, bucket_of(i.id), i.sku, i.day, i.old_price, i.new_price, i.currency, v_number
        FROM unnest(p_ids, p_skus, p_days, p_old_prices, p_new_prices, p_currencies)
            AS i (id, sku, day, old_price, new_price, currency);
    PERFORM append_audit(session_user::text, p_at, 'import_history', 'history:' || v_number,
        json_build_object('file', p_file, 'content_sha256', p_content_sha256, 'increases', cardinality(p_ids),
            'history_sha256', history_sha256(v_number)));
    RETURN v_number;
END
$$;

CREATE FUNCTION repricer.import_rules(p_file text, p_content_sha256 text, p_at timestamp with time zone, p_kinds text[], p_storefronts text[], p_currencies text[], p_period_kinds text[], p_valid_from timestamp with time zone[], p_values bigint[], p_sources text[], p_withdrawn boolean[] DEFAULT NULL::boolean[], p_accepted text[] DEFAULT '{}'::text[]) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_revision integer;
    v_withdrawn bigint := 0;
    v_rule record;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT coalesce(max(revision), 0) + 1 INTO v_revision FROM rule_imports;
    INSERT INTO rule_imports (revision, imported_at, file, content_sha256)
        VALUES (v_revision, p_at, p_file, p_content_sha256);
    FOR v_rule IN
        SELECT r.kind, r.storefront, r.currency, r.period_kind, coalesce(r.valid_from, '-infinity') AS valid_from,
            coalesce(r.withdrawn, false) AS withdrawn,
            CASE WHEN NOT coalesce(r.withdrawn, false) THEN r.value END AS value,
            CASE WHEN NOT coalesce(r.withdrawn, false) THEN r.source END AS source
        FROM unnest(p_kinds, p_storefronts, p_currencies, p_period_kinds, p_valid_from, p_values, p_sources,
                p_withdrawn)
            AS r (kind, storefront, currency, period_kind, valid_from, value, source, withdrawn)
    LOOP
        v_withdrawn := v_withdrawn + v_rule.withdrawn::integer;
        CASE v_rule.kind
        WHEN 'threshold' THEN
            INSERT INTO consent_thresholds (storefront, currency, period_kind, valid_from, revision, recorded_at,
                    withdrawn, amount_milliunits, source)
                VALUES (v_rule.storefront, v_rule.currency, v_rule.period_kind, v_rule.valid_from, v_revision, p_at,
                    v_rule.withdrawn, v_rule.value, v_rule.source);
        WHEN 'always_consent' THEN
            INSERT INTO always_consent_storefronts (storefront, valid_from, revision, recorded_at, withdrawn,
                    is_required, source)
                VALUES (v_rule.storefront, v_rule.valid_from, v_revision, p_at, v_rule.withdrawn, v_rule.value <> 0,
                    v_rule.source);
        WHEN 'currency' THEN
            INSERT INTO currency_decimals (currency, valid_from, revision, recorded_at, withdrawn, decimals, source)
                VALUES (v_rule.currency, v_rule.valid_from, v_revision, p_at, v_rule.withdrawn, v_rule.value,
                    v_rule.source);
        WHEN 'exchange_rate' THEN
            INSERT INTO exchange_rates (currency, valid_from, revision, recorded_at, withdrawn, billionths_per_euro,
                    source)
                VALUES (v_rule.currency, v_rule.valid_from, v_revision, p_at, v_rule.withdrawn, v_rule.value,
                    v_rule.source);
        END CASE;
    END LOOP;
    PERFORM append_audit(session_user::text, p_at, 'import_rules', 'rules:' || v_revision,
        json_build_object('file', p_file, 'content_sha256', p_content_sha256, 'rules', cardinality(p_kinds),
            'withdrawn', v_withdrawn, 'rules_sha256', rules_sha256(v_revision), 'accepted_implausible', p_accepted));
    RETURN v_revision;
END
$$;

CREATE FUNCTION repricer.is_held_out(p_content_sha256 text, p_original_transaction_id text, p_basis_points integer) RETURNS boolean
    LANGUAGE sql IMMUTABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
SELECT p_basis_points > 0 AND ('x' || left(encode(
    sha256(convert_to(p_content_sha256 || ':' || p_original_transaction_id, 'UTF8')), 'hex'), 8))::bit(32)::bigint
    * 10000 < p_basis_points * 4294967296
$$;

CREATE FUNCTION repricer.is_idle(p_kinds text[]) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_kind text;
BEGIN
    FOREACH v_kind IN ARRAY p_kinds LOOP
        IF has_work(v_kind)
            OR EXISTS (SELECT FROM put_backs h WHERE h.kind = v_kind AND NOT h.is_done AND h.checks < 2)
        THEN
            RETURN false;
        END IF;
    END LOOP;
    RETURN true;
END
$$;

CREATE FUNCTION repricer.is_of_item(p_charged text, p_at timestamp with time zone, p_names text[], p_former_skus text[], p_former_until timestamp with time zone[]) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN ((p_charged = (p_names)[1]) OR COALESCE((p_at < (p_former_until)[array_position(p_former_skus, p_charged)]), (p_charged = ANY (p_names))));

CREATE FUNCTION repricer.is_shared_out(p_batch uuid) RETURNS boolean
    LANGUAGE sql STABLE
    AS $$
SELECT current_setting('max_parallel_workers_per_gather')::integer > 0 AND coalesce(sum(b.row_count), 0) >= 4000
FROM repricer.batches b WHERE p_batch IS NULL OR b.batch_id = p_batch
$$;

CREATE FUNCTION repricer.keep_batch(p_batch_id uuid) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    INSERT INTO batch_versions
        SELECT batch_id, recording_instant(), state, decided_by, decided_at, decision_reason, is_paused, paused_reason
        FROM batches WHERE batch_id = p_batch_id
        -- It was replaced twice within a microsecond, and nobody saw what it was in between.
        ON CONFLICT DO NOTHING;
END
$$;

CREATE FUNCTION repricer.keep_changes(p_ids text[], p_change_ids uuid[]) RETURNS timestamp with time zone
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
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

CREATE FUNCTION repricer.keep_moves(p_ids text[], p_at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    AS $$
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

CREATE FUNCTION repricer.lease_permits(p_endpoint text, p_wanted bigint, p_now bigint, p_horizon bigint, p_gap bigint, p_window bigint, p_most bigint, p_missed bigint[]) RETURNS TABLE(now_micros bigint, permits bigint[], next_micros bigint, blocked_until timestamp with time zone)
    LANGUAGE plpgsql
    AS $$
DECLARE
    v_now bigint;
    v_floor bigint;
    v_next bigint;
    v_taken bigint[];
    v_counted_since bigint;
    v_blocked timestamptz;
    v_permits bigint[] := '{}';
BEGIN
    SELECT r.next_permit_micros, r.taken_micros, r.blocked_until INTO v_floor, v_taken, v_blocked
    FROM repricer.rate_limits r WHERE r.endpoint = p_endpoint FOR UPDATE;
    IF NOT FOUND THEN RETURN; END IF;
    -- The clock is read under the lock: waiting for it must not make permits start in the past.
    v_now := coalesce(p_now, repricer.rate_clock());
    IF extract(epoch FROM v_blocked) * 1000000 <= v_now THEN v_blocked := NULL; END IF;
    IF v_floor > v_now + 2 * (p_horizon + p_gap) THEN
        v_floor := v_now + p_horizon + p_window;
        v_taken := '{}';
    ELSE
        v_floor := greatest(v_floor, v_now);
        v_taken := ARRAY(
            SELECT t FROM unnest(v_taken) AS t WHERE t > v_now - p_window AND t <> ALL (p_missed) ORDER BY t);
    END IF;
    IF p_most > 0 AND v_taken = '{}' THEN
        -- The last window counts as used. Otherwise the calls of each window would leave in its first half.
        v_counted_since := v_floor;
        v_taken := ARRAY(SELECT v_floor - p_window + i * p_window / p_most FROM generate_series(0, p_most - 1) AS i);
    END IF;
    LOOP
        -- The permit p_most places before it, if there is one, must be a whole window earlier.
        v_next := greatest(v_floor, v_taken[cardinality(v_taken) - p_most + 1] + p_window);
        EXIT WHEN v_blocked IS NOT NULL OR cardinality(v_permits) >= p_wanted OR v_next >= v_now + p_horizon;
        v_permits := v_permits || v_next;
        IF p_most > 0 THEN v_taken := v_taken || v_next; END IF;
        v_floor := v_next + p_gap;
    END LOOP;
    UPDATE repricer.rate_limits r SET next_permit_micros = v_floor, taken_micros = v_taken,
        counted_since_micros = coalesce(v_counted_since, r.counted_since_micros)
    WHERE r.endpoint = p_endpoint
        AND (cardinality(v_permits) > 0 OR cardinality(p_missed) > 0 OR r.next_permit_micros > v_floor);
    RETURN QUERY SELECT v_now, v_permits, v_next, v_blocked;
END
$$;

CREATE TABLE repricer.approval_limits (
    approver text NOT NULL,
    max_rows bigint,
    max_basis_points bigint,
    max_monthly_milliunits jsonb,
    needs_first boolean DEFAULT false NOT NULL,
    CONSTRAINT approval_limits_money CHECK ((jsonb_typeof(max_monthly_milliunits) = 'object'::text)),
    CONSTRAINT approval_limits_name CHECK (((length(approver) >= 1) AND (length(approver) <= 63))),
    CONSTRAINT approval_limits_numbers CHECK (((max_rows >= 0) AND (max_basis_points >= 0)))
);

COMMENT ON TABLE repricer.approval_limits IS 'Who may approve a batch, and up to which size. Written by set_approval_limit and drop_approval_limit.';

CREATE FUNCTION repricer.limits_exceeded(p_limit repricer.approval_limits, p_rows bigint, p_basis_points numeric, p_monthly jsonb) RETURNS text[]
    LANGUAGE sql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
SELECT coalesce(array_agg(said ORDER BY place, said), '{}') FROM (
    SELECT 1 AS place, format('%s rows, the limit is %s', p_rows, p_limit.max_rows) AS said
        WHERE p_rows > p_limit.max_rows
    UNION ALL
    SELECT 2, format('a change of %s, the limit is %s %%',
            CASE WHEN p_basis_points = 'Infinity' THEN 'a price of 0'
                ELSE trim_scale(ceil(p_basis_points) / 100)::text || ' %' END,
            trim_scale(p_limit.max_basis_points / 100.0))
        WHERE p_basis_points > p_limit.max_basis_points
    UNION ALL
    SELECT 3, format('%s %s a month, the limit is %s', trim_scale(m.value::numeric / 1000), m.key,
            trim_scale(coalesce((p_limit.max_monthly_milliunits ->> m.key)::numeric, 0) / 1000))
        FROM jsonb_each_text(p_monthly) AS m
        WHERE p_limit.max_monthly_milliunits IS NOT NULL
            AND m.value::numeric > coalesce((p_limit.max_monthly_milliunits ->> m.key)::numeric, 0)) AS each
$$;

CREATE FUNCTION repricer.limits_of(p_approver text) RETURNS SETOF repricer.approval_limits
    LANGUAGE sql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
    SELECT l.* FROM approval_limits l
    WHERE l.approver = p_approver
        OR NOT EXISTS (SELECT FROM approval_limits o WHERE o.approver = p_approver)
            AND EXISTS (SELECT FROM pg_roles r JOIN pg_roles u ON u.rolname = p_approver
                WHERE r.rolname = l.approver AND pg_has_role(u.oid, r.oid, 'MEMBER'))
$$;

CREATE FUNCTION repricer.live_change_figures_at(p_at timestamp with time zone) RETURNS SETOF repricer.live_change_figures
    LANGUAGE sql STABLE
    AS $$
 SELECT c.original_transaction_id,
    c.bucket,
    c.change_id,
    c.batch_id,
    (c.undoes_change_id IS NOT NULL) AS is_undo,
    c.direction,
    c.forecast_consent,
    c.currency,
    c.storefront,
    c.period,
    c.state,
    (COALESCE(c.sent_at, c.scheduled_at, c.consent_asked_at, c.accepted_at, c.effective_at) IS NOT NULL) AS is_sent,
    ((c.consent_asked_at IS NOT NULL) OR COALESCE((c.acceptance = 'consented'::text), false) OR ((c.state = 'declined'::text) AND (c.reason IS DISTINCT FROM 'parent_declined'::text))) AS is_asked,
    c.acceptance,
    ((c.state = 'effective'::text) AND (NOT (EXISTS ( SELECT
           FROM repricer.charges_at(p_at) h
          WHERE ((h.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(h.sku, h.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (h.purchased_at >= c.effective_at) AND (h.price_milliunits = c.new_price_milliunits) AND (h.currency = c.currency)))))) AS is_uncharged,
    c.current_price_milliunits,
    c.new_price_milliunits,
    COALESCE(r.renewals, (0)::bigint) AS renewals,
    r.first_at,
    COALESCE(r.old_total_milliunits, (0)::bigint) AS old_total_milliunits,
    COALESCE(r.new_total_milliunits, (0)::bigint) AS new_total_milliunits,
    c.stage,
    (c.stage <> ALL (ARRAY['awaiting_approval'::text, 'queued'::text, 'unknown'::text, 'scheduled'::text, 'pending_consent'::text, 'accepted'::text])) AS is_final,
    (c.is_leaving OR (NOT COALESCE(p.is_at_price, true))) AS is_leaving,
    (COALESCE(c.consent_asked_at, c.accepted_at) IS NOT NULL) AS is_told,
    ((c.state = ANY (ARRAY['declined'::text, 'cancelled'::text])) AND COALESCE((c.reason = 'parent_declined'::text), false)) AS fell_with_parent,
    COALESCE(o.lost_milliunits, (0)::bigint) AS others_lost_milliunits,
    COALESCE(r.taxed_renewals, (0)::bigint) AS taxed_renewals,
    COALESCE(r.taxed_uplift_milliunits, (0)::bigint) AS taxed_uplift_milliunits,
    p.paid_until,
    p.word_due_at,
    p.sku AS paid_sku,
    p.quantity AS paid_quantity,
        CASE
            WHEN ((COALESCE(q.seats, c.forecast_seats) = 1) OR (repricer.fitting(((COALESCE(q.seats, c.forecast_seats))::numeric * (GREATEST(c.current_price_milliunits, c.new_price_milliunits))::numeric), ('the seats of price change '::text || c.change_id)) IS NOT NULL)) THEN COALESCE(q.seats, c.forecast_seats)
            ELSE NULL::bigint
        END AS seats
   FROM ((((repricer.unfrozen_changes_at(p_at) c
     LEFT JOIN LATERAL ( SELECT
                CASE
                    WHEN (p_1.paid_by = 1) THEN p_1.quantity
                    ELSE COALESCE(( SELECT repricer.seats_of(array_agg(k.*)) AS seats_of
                       FROM repricer.charges_at(p_at) k
                      WHERE ((k.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (k.currency = c.currency) AND ((c.state = 'effective'::text) OR (k.purchased_at <= c.ended_at)) AND (COALESCE(k.expires_at, k.purchased_at) = p_1.until))), p_1.quantity)
                END AS seats
           FROM ( SELECT COALESCE(k.expires_at, k.purchased_at) AS until,
                    count(*) AS paid_by,
                    max(k.quantity) AS quantity
                   FROM repricer.charges_at(p_at) k
                  WHERE ((k.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (k.currency = c.currency) AND ((c.state = 'effective'::text) OR (k.purchased_at <= c.ended_at)))
                  GROUP BY COALESCE(k.expires_at, k.purchased_at)
                  ORDER BY COALESCE(k.expires_at, k.purchased_at) DESC
                 LIMIT 1) p_1) q ON ((c.state = ANY (ARRAY['effective'::text, 'declined'::text, 'cancelled'::text, 'lapsed'::text]))))
     LEFT JOIN LATERAL ( SELECT max(k.paid_until) AS paid_until,
            max(k.word_due_at) AS word_due_at,
            max(k.sku) FILTER (WHERE (k.is_newest AND (NOT k.is_given_back))) AS sku,
            max(k.quantity) FILTER (WHERE (k.is_newest AND (NOT k.is_given_back))) AS quantity,
            bool_and(k.is_at_price) AS is_at_price
           FROM repricer.paid_changes_at(p_at) k
          WHERE ((c.state = 'effective'::text) AND (k.original_transaction_id = c.original_transaction_id) AND (k.change_id = c.change_id))) p ON (true))
     LEFT JOIN LATERAL ( SELECT repricer.fitting(sum(((l.price_milliunits)::numeric * (
                CASE
                    WHEN (l.paid_by = 1) THEN l.quantity
                    ELSE COALESCE(( SELECT repricer.seats_of(array_agg(k.*)) AS seats_of
                       FROM repricer.charges_at(p_at) k
                      WHERE ((k.original_transaction_id = c.original_transaction_id) AND (k.sku = l.sku) AND (k.currency = c.currency) AND (k.purchased_at <= c.ended_at) AND (COALESCE(k.expires_at, k.purchased_at) = COALESCE(l.expires_at, l.purchased_at)))), l.quantity)
                END)::numeric)), (('the other items that price change '::text || c.change_id) || ' took along'::text)) AS lost_milliunits
           FROM ( SELECT DISTINCT ON (h.sku) h.sku,
                    h.price_milliunits,
                    h.purchased_at,
                    h.expires_at,
                    count(*) OVER period AS paid_by,
                    max(h.quantity) OVER period AS quantity
                   FROM repricer.charges_at(p_at) h
                  WHERE ((h.original_transaction_id = c.original_transaction_id) AND (h.purchased_at <= c.ended_at) AND (h.currency = c.currency) AND (NOT repricer.is_of_item(h.sku, h.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)))
                  WINDOW period AS (PARTITION BY h.sku, COALESCE(h.expires_at, h.purchased_at))
                  ORDER BY h.sku, h.purchased_at DESC, h.transaction_id) l
          WHERE ((c.state = 'declined'::text) AND (c.reason IS DISTINCT FROM 'parent_declined'::text) AND (c.undoes_change_id IS NULL) AND ((l.expires_at + (repricer.span(l.purchased_at, l.expires_at) / (2)::double precision)) > c.ended_at) AND (EXISTS ( SELECT
                   FROM repricer.told_statements_at(p_at) e
                  WHERE ((e.original_transaction_id = c.original_transaction_id) AND (e.type = 'EXPIRED'::text) AND (e.subtype = 'PRICE_INCREASE'::text) AND ((e.signed_at >= (c.ended_at - repricer.days(1))) AND (e.signed_at <= (c.ended_at + repricer.days(1))))))) AND (NOT (EXISTS ( SELECT
                   FROM repricer.price_changes_at(p_at) n
                  WHERE ((n.original_transaction_id = c.original_transaction_id) AND (n.undoes_change_id IS NULL) AND (((n.state = 'declined'::text) AND ((l.sku = ANY (n.dependent_skus)) OR (l.sku = ANY (n.current_dependent_skus)) OR ((n.change_id < c.change_id) AND (n.reason IS DISTINCT FROM 'parent_declined'::text) AND (n.ended_at > (c.ended_at - repricer.days(1)))))) OR (((l.sku = n.sku) OR (l.sku = n.current_sku)) AND ((n.state = 'declined'::text) OR (n.reason = 'parent_declined'::text) OR ((n.state = 'cancelled'::text) AND (n.direction = 'increase'::text) AND (COALESCE(n.consent_asked_at, n.accepted_at) IS NOT NULL))))))))))) o ON ((c.state = 'declined'::text)))
     LEFT JOIN LATERAL ( SELECT count(*) AS renewals,
            min(h.purchased_at) AS first_at,
            repricer.fitting(sum(h.old_price_milliunits), (('the renewals of price change '::text || c.change_id) || ', at the old price,'::text)) AS old_total_milliunits,
            repricer.fitting(sum(h.price_milliunits), ('the renewals of price change '::text || c.change_id)) AS new_total_milliunits,
            count(h.tax_exclusive_milliunits) AS taxed_renewals,
            repricer.fitting(sum(((h.tax_exclusive_milliunits)::numeric - round((((h.old_price_milliunits)::numeric * (h.tax_exclusive_milliunits)::numeric) / (NULLIF(h.price_milliunits, 0))::numeric)))), ('the uplift without tax of price change '::text || c.change_id)) AS taxed_uplift_milliunits
           FROM ( SELECT n.batch_id,
                    n.original_transaction_id,
                    n.change_id,
                    n.transaction_id,
                    n.purchased_at,
                    n.old_price_milliunits,
                    n.price_milliunits,
                    n.tax_exclusive_milliunits
                   FROM repricer.charged_renewals_at(p_at) n
                  WHERE ((c.state = 'effective'::text) AND (n.original_transaction_id = c.original_transaction_id) AND (n.change_id = c.change_id))
                 OFFSET 0) h) r ON (true))
$$;

CREATE FUNCTION repricer.live_change_figures_of_batch_at(p_at timestamp with time zone, p_batch uuid) RETURNS SETOF repricer.live_change_figures
    LANGUAGE plpgsql STABLE ROWS 10000
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
BEGIN
    IF repricer.is_shared_out(p_batch) THEN
        RETURN QUERY
        SELECT * FROM repricer.live_change_figures_share_at(p_at, p_batch, 0, 20)
        UNION ALL SELECT * FROM repricer.live_change_figures_share_at(p_at, p_batch, 21, 41)
        UNION ALL SELECT * FROM repricer.live_change_figures_share_at(p_at, p_batch, 42, 63);
    ELSE
        RETURN QUERY SELECT * FROM repricer.live_change_figures_share_at(p_at, p_batch, 0, 63);
    END IF;
END
$$;

CREATE FUNCTION repricer.live_change_figures_share_at(p_at timestamp with time zone, p_batch uuid, p_first integer, p_last integer) RETURNS SETOF repricer.live_change_figures
    LANGUAGE plpgsql STABLE COST 1e+07 ROWS 10000 PARALLEL SAFE
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
BEGIN
    RETURN QUERY SELECT w.* FROM repricer.live_change_figures_at(p_at) w
    WHERE (p_batch IS NULL OR w.batch_id = p_batch) AND w.bucket BETWEEN p_first AND p_last;
END
$$;

CREATE VIEW repricer.missing_renewals AS
 SELECT c.batch_id,
    c.original_transaction_id,
    c.change_id,
    h.sku,
    missed.at AS occurred_at,
    repricer.fitting(((
        CASE
            WHEN (h.currency <> c.currency) THEN NULL::bigint
            WHEN (t.is_in_effect OR ((c.state = 'effective'::text) AND (missed.at >= (c.due_effective_at - LEAST('01:00:00'::interval, (h.length / (10)::double precision)))))) THEN c.new_price_milliunits
            ELSE c.current_price_milliunits
        END)::numeric * (
        CASE
            WHEN ((h.paid_by = 1) AND (NOT h.is_added_seat)) THEN h.quantity
            ELSE COALESCE(( SELECT repricer.seats_of(array_agg(k.*)) AS seats_of
               FROM repricer.charges k
              WHERE ((k.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (k.expires_at = h.expires_at))), (1)::bigint)
        END)::numeric), ('the seats of price change '::text || c.change_id)) AS expected_milliunits,
    h.currency,
    h.storefront,
    c.bucket
   FROM ((((repricer.price_changes c
     CROSS JOIN LATERAL ( SELECT k.original_transaction_id,
            k.bucket,
            k.transaction_id,
            k.sku,
            k.purchased_at,
            k.expires_at,
            k.revoked_at,
            k.price_milliunits,
            k.quantity,
            k.currency,
            k.storefront,
            k.is_offer,
            k.is_purchase,
            k.is_added_seat,
            k.is_relisted,
            k.period,
            k.refunded_milliunits,
            k.recorded_at,
            k.bought,
            min(k.purchased_at) OVER (ORDER BY k.purchased_at RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE GROUP) AS next_at,
            row_number() OVER (PARTITION BY k.purchased_at ORDER BY k.is_purchase, k.transaction_id, k.sku) AS place,
            max(k.expires_at) FILTER (WHERE ((k.revoked_at IS NULL) AND ((k.refunded_milliunits = 0) OR (k.refunded_milliunits < (k.price_milliunits * k.quantity))))) OVER (PARTITION BY k.bought ORDER BY k.purchased_at) AS kept_until,
            count(*) OVER (PARTITION BY k.expires_at) AS paid_by,
            min(k.purchased_at) OVER (PARTITION BY k.expires_at) AS began_at,
            repricer.span(min(k.purchased_at) OVER (PARTITION BY k.expires_at), k.expires_at) AS length
           FROM ( SELECT k_1.original_transaction_id,
                    k_1.bucket,
                    k_1.transaction_id,
                    k_1.sku,
                    k_1.purchased_at,
                    k_1.expires_at,
                    k_1.revoked_at,
                    k_1.price_milliunits,
                    k_1.quantity,
                    k_1.currency,
                    k_1.storefront,
                    k_1.is_offer,
                    k_1.is_purchase,
                    k_1.is_added_seat,
                    k_1.is_relisted,
                    k_1.period,
                    k_1.refunded_milliunits,
                    k_1.recorded_at,
                    count(*) FILTER (WHERE (k_1.is_purchase AND (NOT k_1.is_added_seat) AND (k_1.revoked_at IS NULL))) OVER (ORDER BY k_1.purchased_at) AS bought
                   FROM repricer.charges k_1
                  WHERE ((k_1.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k_1.sku, k_1.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until))) k
         OFFSET 0) h)
     CROSS JOIN LATERAL ( SELECT ((c.state = 'effective'::text) AND (h.purchased_at >= c.effective_at)) AS is_in_effect,
            LEAST(repricer.days(1), (h.length / (10)::double precision)) AS tolerance,
            GREATEST(h.expires_at, h.kept_until) AS ends_at,
                CASE
                    WHEN (h.length < repricer.days(6)) THEN h.length
                    ELSE
                    CASE COALESCE(h.period, c.period)
                        WHEN 'P1W'::text THEN '7 days'::interval
                        WHEN 'P2M'::text THEN '2 mons'::interval
                        WHEN 'P3M'::text THEN '3 mons'::interval
                        WHEN 'P6M'::text THEN '6 mons'::interval
                        WHEN 'P1Y'::text THEN '1 year'::interval
                        ELSE '1 mon'::interval
                    END
                END AS step) t)
     CROSS JOIN LATERAL ( SELECT LEAST(h.next_at,
                CASE
                    WHEN (p.purchased_at > h.purchased_at) THEN p.purchased_at
                    ELSE NULL::timestamp with time zone
                END) AS at
           FROM ( SELECT ( SELECT s.purchased_at
                           FROM repricer.subscriptions s
                          WHERE (s.original_transaction_id = c.original_transaction_id)) AS purchased_at
                 OFFSET 0) p
          WHERE ((h.expires_at IS NOT NULL) AND COALESCE((h.next_at > (t.ends_at + t.tolerance)), true))
         OFFSET 0) next)
     CROSS JOIN LATERAL ( SELECT d.at,
            n.n AS place
           FROM (generate_series(0, (LEAST((400)::numeric, GREATEST((0)::numeric, (EXTRACT(epoch FROM (next.at - t.ends_at)) / GREATEST((1)::numeric, EXTRACT(epoch FROM t.step))))))::integer) n(n)
             CROSS JOIN LATERAL ( SELECT (
                        CASE
                            WHEN (((h.began_at AT TIME ZONE 'UTC'::text) + t.step) = (t.ends_at AT TIME ZONE 'UTC'::text)) THEN ((h.began_at AT TIME ZONE 'UTC'::text) + (((n.n + 1))::double precision * t.step))
                            ELSE ((t.ends_at AT TIME ZONE 'UTC'::text) + ((n.n)::double precision * t.step))
                        END AT TIME ZONE 'UTC'::text) AS at) d)
          WHERE ((n.n = 0) OR (EXTRACT(epoch FROM (next.at - d.at)) > (EXTRACT(epoch FROM t.step) / (2)::numeric)))) missed)
  WHERE ((h.place = 1) AND (c.undoes_change_id IS NULL) AND (c.state <> ALL (ARRAY['rejected'::text, 'ineligible'::text, 'missed'::text, 'aborted'::text])) AND (next.at > (t.ends_at + t.tolerance)) AND ((NOT c.is_leaving) OR (h.next_at IS NOT NULL) OR ((missed.place = 0) AND (NOT (EXISTS ( SELECT
           FROM repricer.told_statements q
          WHERE ((q.original_transaction_id = c.original_transaction_id) AND (q.type = 'PRICE_INCREASE'::text) AND (q.subtype = 'PENDING'::text) AND ((q.signed_at >= h.began_at) AND (q.signed_at <= (missed.at + t.tolerance))))))))) AND (NOT ((((h.revoked_at IS NOT NULL) AND (h.revoked_at <= (h.expires_at + repricer.days(1)))) OR ((h.next_at IS NULL) AND (h.refunded_milliunits > 0) AND (h.refunded_milliunits >= (h.price_milliunits * h.quantity)))) AND COALESCE((h.kept_until < (h.expires_at - t.tolerance)), true))) AND (t.is_in_effect OR ((missed.at >= COALESCE(c.sent_at, c.doubtful_since, c.scheduled_at)) AND ((c.state <> ALL (ARRAY['declined'::text, 'cancelled'::text, 'lapsed'::text, 'invalidated'::text])) OR (next.at < c.ended_at)) AND (NOT (EXISTS ( SELECT
           FROM repricer.price_changes o
          WHERE ((o.original_transaction_id = c.original_transaction_id) AND (o.change_id <> c.change_id) AND (o.undoes_change_id IS NULL) AND (COALESCE(o.current_sku, o.sku) = COALESCE(c.current_sku, c.sku)) AND (((o.state = 'effective'::text) AND (o.effective_at <= h.purchased_at)) OR ((o.state <> ALL (ARRAY['rejected'::text, 'ineligible'::text, 'missed'::text, 'aborted'::text])) AND ((o.state <> ALL (ARRAY['declined'::text, 'cancelled'::text, 'lapsed'::text, 'invalidated'::text])) OR (next.at < o.ended_at)) AND (COALESCE(o.sent_at, o.doubtful_since, o.scheduled_at) <= missed.at) AND (ROW(COALESCE(o.sent_at, o.doubtful_since, o.scheduled_at), o.change_id) > ROW(COALESCE(c.sent_at, c.doubtful_since, c.scheduled_at), c.change_id)))))))))) AND (NOT (EXISTS ( SELECT
           FROM repricer.told_statements e
          WHERE ((e.original_transaction_id = h.original_transaction_id) AND ((e.type = ANY (ARRAY['DID_FAIL_TO_RENEW'::text, 'GRACE_PERIOD_EXPIRED'::text, 'EXPIRED'::text, 'SUBSCRIBED'::text, 'REVOKE'::text, 'RENEWAL_EXTENDED'::text, 'OFFER_REDEEMED'::text, 'DID_CHANGE_RENEWAL_PREF'::text])) OR ((e.type = 'DID_RENEW'::text) AND (e.subtype = 'BILLING_RECOVERY'::text) AND ((missed.at >= (e.signed_at - repricer.days(61))) AND (missed.at <= e.signed_at)))) AND ((e.type <> 'RENEWAL_EXTENDED'::text) OR (NOT e.tells_end)) AND ((e.type <> 'SUBSCRIBED'::text) OR (e.signed_at > (h.began_at + (h.length / (2)::double precision)))) AND ((e.signed_at >= h.began_at) AND (e.signed_at <= (next.at + repricer.days(1)))) AND ((e.type <> 'DID_FAIL_TO_RENEW'::text) OR ((missed.at >= (e.signed_at - repricer.days(1))) AND (missed.at <= (e.signed_at + repricer.days(61))))) AND ((e.type <> 'GRACE_PERIOD_EXPIRED'::text) OR ((missed.at >= (e.signed_at - repricer.days(61))) AND (missed.at <= (e.signed_at + repricer.days(61))))) AND ((e.type <> 'EXPIRED'::text) OR (missed.at >= (e.signed_at - repricer.days(61)))) AND ((e.type <> 'DID_CHANGE_RENEWAL_PREF'::text) OR (((e.subtype = ANY (ARRAY['UPGRADE'::text, 'DOWNGRADE'::text])) OR ((e.statement #> '{renewal,items,0}'::text[]) IS NOT NULL)) AND (e.signed_at <= (missed.at + repricer.days(1))) AND (NOT COALESCE(((((e.statement #> '{renewal,items}'::text[]) @> jsonb_build_array(jsonb_build_object('sku', h.sku))) OR ((e.statement #> '{renewal,items}'::text[]) @> jsonb_build_array(jsonb_build_object('sku', COALESCE(c.current_sku, c.sku))))) AND ((e.statement #>> '{renewal,period}'::text[]) = COALESCE(h.period, c.period))), false)) AND (NOT (h.is_purchase AND (NOT h.is_added_seat) AND (e.signed_at <= (h.purchased_at + t.tolerance)))) AND (NOT (EXISTS ( SELECT
                   FROM repricer.told_statements b
                  WHERE ((b.original_transaction_id = h.original_transaction_id) AND (b.type = 'DID_CHANGE_RENEWAL_PREF'::text) AND (COALESCE(b.subtype, ''::text) = ''::text) AND (b.signed_at > e.signed_at) AND (b.signed_at <= (missed.at + repricer.days(1))) AND (((b.statement #> '{renewal,items}'::text[]) IS NULL) OR ((b.statement #> '{renewal,items}'::text[]) @> jsonb_build_array(jsonb_build_object('sku', h.sku))) OR ((b.statement #> '{renewal,items}'::text[]) @> jsonb_build_array(jsonb_build_object('sku', COALESCE(c.current_sku, c.sku))))))))))))))) AND (NOT (EXISTS ( SELECT
           FROM repricer.price_changes n
          WHERE ((n.original_transaction_id = c.original_transaction_id) AND (n.change_id <> c.change_id) AND (n.state = ANY (ARRAY['declined'::text, 'cancelled'::text, 'lapsed'::text])) AND (COALESCE(n.current_sku, n.sku) = COALESCE(c.current_sku, c.sku)) AND ((n.ended_at >= h.began_at) AND (n.ended_at <= next.at)))))) AND (NOT (EXISTS ( SELECT
           FROM repricer.dependent_cancellations d
          WHERE ((d.original_transaction_id = c.original_transaction_id) AND (d.dependent_sku = h.sku) AND (NOT d.is_cross_subscription) AND (d.state = 'confirmed'::text) AND ((d.requested_at >= h.began_at) AND (d.requested_at <= next.at)))))) AND (NOT (EXISTS ( SELECT
           FROM repricer.price_changes n
          WHERE ((n.original_transaction_id = c.original_transaction_id) AND (n.change_id <> c.change_id) AND (n.state = 'effective'::text) AND (n.undoes_change_id IS NULL) AND (COALESCE(n.current_sku, n.sku) = COALESCE(c.current_sku, c.sku)) AND (n.effective_at <= h.purchased_at) AND (ROW(n.effective_at, n.change_id) > ROW(c.effective_at, c.change_id)))))));

COMMENT ON VIEW repricer.missing_renewals IS 'Renewals of called changes that no charge tells of.';

CREATE VIEW repricer.live_charge_exceptions AS
 SELECT x.batch_id,
    x.original_transaction_id,
    x.change_id,
    x.transaction_id,
    x.sku,
    x.exception,
    x.purchased_at AS occurred_at,
    (x.price_milliunits * x.quantity) AS amount_milliunits,
    repricer.fitting(((x.expected_milliunits)::numeric * (x.quantity)::numeric), (('the seats of transaction '::text || x.transaction_id) || ', as expected,'::text)) AS expected_milliunits,
    x.refunded_milliunits,
    x.currency,
    x.storefront,
    x.bucket
   FROM repricer.explained_charges x
  WHERE (x.exception IS NOT NULL)
UNION ALL
 SELECT r.batch_id,
    r.original_transaction_id,
    r.change_id,
    NULL::text AS transaction_id,
    r.sku,
    'missing'::text AS exception,
    r.occurred_at,
    0 AS amount_milliunits,
    r.expected_milliunits,
    0 AS refunded_milliunits,
    r.currency,
    r.storefront,
    r.bucket
   FROM repricer.missing_renewals r
UNION ALL
 SELECT p.batch_id,
    p.original_transaction_id,
    p.change_id,
    NULL::text AS transaction_id,
    p.sku,
    'missing'::text AS exception,
    p.paid_until AS occurred_at,
    0 AS amount_milliunits,
    repricer.fitting(((p.new_price_milliunits)::numeric * (p.quantity)::numeric), ('the seats of price change '::text || p.change_id)) AS expected_milliunits,
    0 AS refunded_milliunits,
    p.currency,
    p.storefront,
    p.bucket
   FROM repricer.paid_changes p
  WHERE (p.is_newest AND (NOT p.is_given_back) AND (p.word_due_at < ( SELECT d.until
           FROM repricer.heard_charges d)) AND (NOT (EXISTS ( SELECT
           FROM repricer.missing_renewals r
          WHERE ((r.original_transaction_id = p.original_transaction_id) AND (r.change_id = p.change_id) AND (r.sku = p.sku) AND (r.occurred_at = p.paid_until))))))
UNION ALL
 SELECT o.batch_id,
    o.original_transaction_id,
    o.change_id,
    NULL::text AS transaction_id,
    o.sku,
    'missing'::text AS exception,
    o.occurred_at,
    0 AS amount_milliunits,
    o.expected_milliunits,
    0 AS refunded_milliunits,
    o.currency,
    o.storefront,
    o.bucket
   FROM repricer.silent_open_changes o;

COMMENT ON VIEW repricer.live_charge_exceptions IS 'What kept_exceptions keeps, computed from the facts, and renewals that stopped silently.';

CREATE FUNCTION repricer.live_charge_exceptions_at(p_at timestamp with time zone) RETURNS SETOF repricer.live_charge_exceptions
    LANGUAGE sql STABLE
    AS $$
 SELECT x.batch_id,
    x.original_transaction_id,
    x.change_id,
    x.transaction_id,
    x.sku,
    x.exception,
    x.purchased_at AS occurred_at,
    (x.price_milliunits * x.quantity) AS amount_milliunits,
    repricer.fitting(((x.expected_milliunits)::numeric * (x.quantity)::numeric), (('the seats of transaction '::text || x.transaction_id) || ', as expected,'::text)) AS expected_milliunits,
    x.refunded_milliunits,
    x.currency,
    x.storefront,
    x.bucket
   FROM repricer.explained_charges_at(p_at) x
  WHERE (x.exception IS NOT NULL)
UNION ALL
 SELECT r.batch_id,
    r.original_transaction_id,
    r.change_id,
    NULL::text AS transaction_id,
    r.sku,
    'missing'::text AS exception,
    r.occurred_at,
    0 AS amount_milliunits,
    r.expected_milliunits,
    0 AS refunded_milliunits,
    r.currency,
    r.storefront,
    r.bucket
   FROM repricer.missing_renewals_at(p_at) r
UNION ALL
 SELECT p.batch_id,
    p.original_transaction_id,
    p.change_id,
    NULL::text AS transaction_id,
    p.sku,
    'missing'::text AS exception,
    p.paid_until AS occurred_at,
    0 AS amount_milliunits,
    repricer.fitting(((p.new_price_milliunits)::numeric * (p.quantity)::numeric), ('the seats of price change '::text || p.change_id)) AS expected_milliunits,
    0 AS refunded_milliunits,
    p.currency,
    p.storefront,
    p.bucket
   FROM repricer.paid_changes_at(p_at) p
  WHERE (p.is_newest AND (NOT p.is_given_back) AND (p.word_due_at < ( SELECT d.until
           FROM repricer.heard_charges_at(p_at) d)) AND (NOT (EXISTS ( SELECT
           FROM repricer.missing_renewals_at(p_at) r
          WHERE ((r.original_transaction_id = p.original_transaction_id) AND (r.change_id = p.change_id) AND (r.sku = p.sku) AND (r.occurred_at = p.paid_until))))))
UNION ALL
 SELECT o.batch_id,
    o.original_transaction_id,
    o.change_id,
    NULL::text AS transaction_id,
    o.sku,
    'missing'::text AS exception,
    o.occurred_at,
    0 AS amount_milliunits,
    o.expected_milliunits,
    0 AS refunded_milliunits,
    o.currency,
    o.storefront,
    o.bucket
   FROM repricer.silent_open_changes_at(p_at) o
UNION ALL
SELECT k.batch_id, k.original_transaction_id, k.change_id, k.transaction_id, k.sku, k.exception, k.occurred_at,
    k.amount_milliunits, k.expected_milliunits, k.refunded_milliunits, k.currency, k.storefront, k.bucket
FROM repricer.frozen_figures_at(p_at) f
JOIN repricer.kept_exceptions k ON k.original_transaction_id = f.original_transaction_id AND k.change_id = f.change_id
    AND k.batch_id = f.batch_id
UNION ALL
SELECT f.batch_id, f.original_transaction_id, f.change_id, NULL, f.paid_sku, 'missing', f.paid_until, 0,
    f.new_price_milliunits * f.paid_quantity, 0, f.currency, f.storefront, f.bucket
FROM repricer.frozen_figures_at(p_at) f
WHERE f.word_due_at < (SELECT d.until FROM repricer.heard_charges_at(p_at) d) AND f.paid_sku IS NOT NULL
    AND NOT EXISTS (
        SELECT FROM repricer.kept_exceptions x
        WHERE x.original_transaction_id = f.original_transaction_id AND x.change_id = f.change_id
            AND x.exception = 'missing' AND x.occurred_at = f.paid_until)
$$;

CREATE FUNCTION repricer.live_charge_exceptions_of_batch_at(p_at timestamp with time zone, p_batch uuid) RETURNS SETOF repricer.live_charge_exceptions
    LANGUAGE plpgsql STABLE ROWS 10000
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
BEGIN
    IF repricer.is_shared_out(p_batch) THEN
        RETURN QUERY
        SELECT * FROM repricer.live_charge_exceptions_share_at(p_at, p_batch, 0, 20)
        UNION ALL SELECT * FROM repricer.live_charge_exceptions_share_at(p_at, p_batch, 21, 41)
        UNION ALL SELECT * FROM repricer.live_charge_exceptions_share_at(p_at, p_batch, 42, 63);
    ELSE
        RETURN QUERY SELECT * FROM repricer.live_charge_exceptions_share_at(p_at, p_batch, 0, 63);
    END IF;
END
$$;

CREATE FUNCTION repricer.live_charge_exceptions_share_at(p_at timestamp with time zone, p_batch uuid, p_first integer, p_last integer) RETURNS SETOF repricer.live_charge_exceptions
    LANGUAGE plpgsql STABLE COST 1e+07 ROWS 10000 PARALLEL SAFE
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $$
BEGIN
    RETURN QUERY SELECT w.* FROM repricer.live_charge_exceptions_at(p_at) w
    WHERE (p_batch IS NULL OR w.batch_id = p_batch) AND w.bucket BETWEEN p_first AND p_last;
END
$$;

CREATE FUNCTION repricer.live_forecast_outcomes_at(p_at timestamp with time zone) RETURNS SETOF repricer.live_forecast_outcomes
    LANGUAGE sql STABLE
    AS $_$
 SELECT o.original_transaction_id,
    o.change_id,
    o.batch_id,
    o.stage,
    (md5((ROW(o.direction, o.forecast_consent, o.forecast_threshold_source, o.forecast_reasons, o.forecast_not_known, o.forecast_because, o.came_consent, o.came, o.has_moved, o.slip, o.is_siblings_doing))::text))::uuid AS outcome,
    o.direction,
    o.forecast_consent,
    o.forecast_threshold_source,
    o.forecast_reasons,
    o.forecast_not_known,
    o.forecast_because,
    o.came_consent,
    o.came,
    o.has_moved,
    o.slip,
    o.is_siblings_doing,
    (1)::bigint AS changes
   FROM ( SELECT c.original_transaction_id,
            c.change_id,
            c.batch_id,
            c.stage,
            c.direction,
            c.forecast_consent,
            c.forecast_threshold_source,
            c.forecast_reasons,
            came.consent AS came_consent,
                CASE
                    WHEN (c.effective_at < c.forecast_effective_at) THEN 'earlier'::text
                    WHEN (c.effective_at > (c.forecast_effective_at +
                    CASE
                        WHEN (COALESCE(c.moved_before_call, c.moved_since_call) IS NULL) THEN 'PT1H'::interval
                        ELSE 'PT0S'::interval
                    END)) THEN 'later'::text
                    WHEN (c.effective_at IS NOT NULL) THEN 'as_forecast'::text
                    ELSE NULL::text
                END AS came,
            (COALESCE(c.planned_effective_at, c.due_effective_at) > c.forecast_effective_at) AS has_moved,
                CASE
                    WHEN (c.forecast_consent = 'not_known'::text) THEN c.forecast_not_known
                    ELSE '{}'::text[]
                END AS forecast_not_known,
                CASE
                    WHEN ('increase_within_12_months'::text = ANY (c.forecast_reasons)) THEN
                    CASE
                        WHEN jsonb_path_exists(c.forecast_rules, '$[*]?(@."rule" == "increase_within_12_months")."inputs"."because"?(!(@ like_regex "^[0-9]{4}-[0-9]{2}-[0-9]{2}T"))'::jsonpath) THEN 'sibling'::text
                        ELSE 'earlier_increase'::text
                    END
                    ELSE NULL::text
                END AS forecast_because,
                CASE
                    WHEN (COALESCE(c.effective_at, c.due_effective_at) > c.forecast_effective_at) THEN COALESCE(c.moved_before_call, c.moved_since_call)
                    ELSE NULL::text
                END AS slip,
                CASE
                    WHEN ((c.forecast_consent = 'not_required'::text) AND (came.consent = 'required'::text)) THEN (EXISTS ( SELECT
                       FROM repricer.price_changes_at(p_at) s
                      WHERE ((s.original_transaction_id = c.original_transaction_id) AND (s.change_id <> c.change_id) AND (s.direction = 'increase'::text) AND (s.undoes_change_id IS NULL) AND ((
                            CASE
                                WHEN (s.state = ANY (ARRAY['scheduled'::text, 'pending_consent'::text, 'accepted'::text])) THEN s.due_effective_at
                                ELSE s.effective_at
                            END >= (((COALESCE(c.sent_at, c.consent_asked_at) AT TIME ZONE 'UTC'::text) - 'P1Y'::interval) AT TIME ZONE 'UTC'::text)) AND (
                            CASE
                                WHEN (s.state = ANY (ARRAY['scheduled'::text, 'pending_consent'::text, 'accepted'::text])) THEN s.due_effective_at
                                ELSE s.effective_at
                            END <= (COALESCE(c.effective_at, c.due_effective_at) - 'PT0.001S'::interval))))))
                    ELSE false
                END AS is_siblings_doing
           FROM (repricer.price_changes_at(p_at) c
             CROSS JOIN LATERAL ( SELECT
                        CASE
                            WHEN ((c.consent_asked_at IS NOT NULL) OR (c.acceptance = 'consented'::text)) THEN 'required'::text
                            WHEN ((c.state = 'declined'::text) AND (c.reason IS DISTINCT FROM 'parent_declined'::text)) THEN 'required'::text
                            WHEN (c.acceptance = 'informed'::text) THEN 'not_required'::text
                            WHEN ((c.direction = 'decrease'::text) AND (COALESCE(c.scheduled_at, c.effective_at) IS NOT NULL)) THEN 'none'::text
                            ELSE NULL::text
                        END AS consent) came)
          WHERE ((c.undoes_change_id IS NULL) AND (NOT c.is_held_out))) o
$_$;

CREATE FUNCTION repricer.lock_probe(p_batch_id uuid, p_now timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    PERFORM FROM batches WHERE batch_id = p_batch_id AND is_paused AND probe_at <= p_now FOR UPDATE SKIP LOCKED;
    RETURN FOUND;
END
$$;

CREATE FUNCTION repricer.lock_subscriptions(p_ids text[]) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_bucket smallint;
    v_ids text[];
BEGIN
    FOR v_bucket, v_ids IN
        SELECT bucket_of(id), array_agg(DISTINCT id) FROM unnest(p_ids) AS id GROUP BY 1 ORDER BY 1
    LOOP
        PERFORM 1 FROM subscriptions s
            WHERE s.bucket = v_bucket AND s.original_transaction_id = ANY (v_ids)
            ORDER BY s.original_transaction_id FOR UPDATE;
    END LOOP;
END
$$;

CREATE FUNCTION repricer.lost_dependents_at(p_at timestamp with time zone) RETURNS SETOF repricer.lost_dependents
    LANGUAGE sql STABLE
    AS $$
 SELECT d.batch_id,
    d.original_transaction_id,
    d.change_id,
    c.currency,
    c.storefront,
    c.period,
    count(*) AS dependents,
    repricer.fitting(sum(round(((((d.price_milliunits)::numeric * (COALESCE(q.seats,
        CASE
            WHEN d.is_cross_subscription THEN (1)::bigint
            ELSE c.forecast_seats
        END))::numeric) * (repricer.twelfths(COALESCE(d.target_period, t.period, c.period)))::numeric) / (repricer.twelfths(c.period))::numeric))) FILTER (WHERE (COALESCE(d.currency, c.currency) = c.currency)), ('the dependents of price change '::text || d.change_id)) AS price_milliunits
   FROM (((repricer.dependent_cancellations_at(p_at) d
     LEFT JOIN LATERAL ( SELECT
                CASE
                    WHEN (p.paid_by = 1) THEN p.quantity
                    ELSE COALESCE(( SELECT repricer.seats_of(array_agg(k.*)) AS seats_of
                       FROM repricer.charges_at(p_at) k
                      WHERE ((k.original_transaction_id = COALESCE(d.target_transaction_id, d.original_transaction_id)) AND (k.sku =
                            CASE
                                WHEN d.is_cross_subscription THEN regexp_replace(d.dependent_sku, '^[0-9]+/'::text, ''::text)
                                ELSE d.dependent_sku
                            END) AND (k.purchased_at <= COALESCE(d.settled_at, d.requested_at)) AND (COALESCE(k.expires_at, k.purchased_at) = p.until))), p.quantity)
                END AS seats
           FROM ( SELECT COALESCE(k.expires_at, k.purchased_at) AS until,
                    count(*) AS paid_by,
                    max(k.quantity) AS quantity
                   FROM repricer.charges_at(p_at) k
                  WHERE ((k.original_transaction_id = COALESCE(d.target_transaction_id, d.original_transaction_id)) AND (k.sku =
                        CASE
                            WHEN d.is_cross_subscription THEN regexp_replace(d.dependent_sku, '^[0-9]+/'::text, ''::text)
                            ELSE d.dependent_sku
                        END) AND (k.purchased_at <= COALESCE(d.settled_at, d.requested_at)))
                  GROUP BY COALESCE(k.expires_at, k.purchased_at)
                  ORDER BY COALESCE(k.expires_at, k.purchased_at) DESC
                 LIMIT 1) p) q ON (true))
     JOIN repricer.price_changes_at(p_at) c ON (((c.original_transaction_id = d.original_transaction_id) AND (c.change_id = d.change_id))))
     LEFT JOIN repricer.subscriptions_at(p_at) t ON ((t.original_transaction_id = d.target_transaction_id)))
  WHERE ((d.state = 'confirmed'::text) AND (c.undoes_change_id IS NULL) AND (NOT (EXISTS ( SELECT
           FROM repricer.returned_dependents_at(p_at) x
          WHERE ((x.original_transaction_id = d.original_transaction_id) AND (x.bucket = d.bucket) AND (x.change_id = d.change_id) AND (x.batch_id = d.batch_id) AND (x.dependent_sku = d.dependent_sku))))) AND (NOT (EXISTS ( SELECT
           FROM repricer.price_changes_at(p_at) o
          WHERE ((o.original_transaction_id = COALESCE(d.target_transaction_id, d.original_transaction_id)) AND ((
                CASE
                    WHEN d.is_cross_subscription THEN regexp_replace(d.dependent_sku, '^[0-9]+/'::text, ''::text)
                    ELSE d.dependent_sku
                END = o.sku) OR (
                CASE
                    WHEN d.is_cross_subscription THEN regexp_replace(d.dependent_sku, '^[0-9]+/'::text, ''::text)
                    ELSE d.dependent_sku
                END = o.current_sku)) AND ((o.state = 'declined'::text) OR (o.reason = 'parent_declined'::text) OR ((o.state = 'cancelled'::text) AND (o.direction = 'increase'::text) AND (COALESCE(o.consent_asked_at, o.accepted_at) IS NOT NULL))))))))
  GROUP BY d.batch_id, d.original_transaction_id, d.change_id, c.currency, c.storefront, c.period
$$;

CREATE FUNCTION repricer.mark_charges() RETURNS trigger
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
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

CREATE FUNCTION repricer.may_approve(p_approver text) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
    SELECT EXISTS (SELECT FROM pg_roles u
            WHERE u.rolname = p_approver AND u.rolcanlogin AND pg_has_role(u.oid, 'repricer_pricing', 'MEMBER'))
        AND (NOT EXISTS (SELECT FROM approval_limits) OR EXISTS (SELECT FROM limits_of(p_approver)))
$$;

CREATE FUNCTION repricer.missing_renewals_at(p_at timestamp with time zone) RETURNS SETOF repricer.missing_renewals
    LANGUAGE sql STABLE
    AS $$
 SELECT c.batch_id,
    c.original_transaction_id,
    c.change_id,
    h.sku,
    missed.at AS occurred_at,
    repricer.fitting(((
        CASE
            WHEN (h.currency <> c.currency) THEN NULL::bigint
            WHEN (t.is_in_effect OR ((c.state = 'effective'::text) AND (missed.at >= (c.due_effective_at - LEAST('PT1H'::interval, (h.length / (10)::double precision)))))) THEN c.new_price_milliunits
            ELSE c.current_price_milliunits
        END)::numeric * (
        CASE
            WHEN ((h.paid_by = 1) AND (NOT h.is_added_seat)) THEN h.quantity
            ELSE COALESCE(( SELECT repricer.seats_of(array_agg(k.*)) AS seats_of
               FROM repricer.charges_at(p_at) k
              WHERE ((k.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (k.expires_at = h.expires_at))), (1)::bigint)
        END)::numeric), ('the seats of price change '::text || c.change_id)) AS expected_milliunits,
    h.currency,
    h.storefront,
    c.bucket
   FROM ((((repricer.unfrozen_changes_at(p_at) c
     CROSS JOIN LATERAL ( SELECT k.original_transaction_id,
            k.bucket,
            k.transaction_id,
            k.sku,
            k.purchased_at,
            k.expires_at,
            k.revoked_at,
            k.price_milliunits,
            k.quantity,
            k.currency,
            k.storefront,
            k.is_offer,
            k.is_purchase,
            k.is_added_seat,
            k.is_relisted,
            k.period,
            k.refunded_milliunits,
            k.recorded_at,
            k.bought,
            min(k.purchased_at) OVER (ORDER BY k.purchased_at RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE GROUP) AS next_at,
            row_number() OVER (PARTITION BY k.purchased_at ORDER BY k.is_purchase, k.transaction_id, k.sku) AS place,
            max(k.expires_at) FILTER (WHERE ((k.revoked_at IS NULL) AND ((k.refunded_milliunits = 0) OR (k.refunded_milliunits < (k.price_milliunits * k.quantity))))) OVER (PARTITION BY k.bought ORDER BY k.purchased_at) AS kept_until,
            count(*) OVER (PARTITION BY k.expires_at) AS paid_by,
            min(k.purchased_at) OVER (PARTITION BY k.expires_at) AS began_at,
            repricer.span(min(k.purchased_at) OVER (PARTITION BY k.expires_at), k.expires_at) AS length
           FROM ( SELECT k_1.original_transaction_id,
                    k_1.bucket,
                    k_1.transaction_id,
                    k_1.sku,
                    k_1.purchased_at,
                    k_1.expires_at,
                    k_1.revoked_at,
                    k_1.price_milliunits,
                    k_1.quantity,
                    k_1.currency,
                    k_1.storefront,
                    k_1.is_offer,
                    k_1.is_purchase,
                    k_1.is_added_seat,
                    k_1.is_relisted,
                    k_1.period,
                    k_1.refunded_milliunits,
                    k_1.recorded_at,
                    count(*) FILTER (WHERE (k_1.is_purchase AND (NOT k_1.is_added_seat) AND (k_1.revoked_at IS NULL))) OVER (ORDER BY k_1.purchased_at) AS bought
                   FROM repricer.charges_at(p_at) k_1
                  WHERE ((k_1.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k_1.sku, k_1.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until))) k
         OFFSET 0) h)
     CROSS JOIN LATERAL ( SELECT ((c.state = 'effective'::text) AND (h.purchased_at >= c.effective_at)) AS is_in_effect,
            LEAST(repricer.days(1), (h.length / (10)::double precision)) AS tolerance,
            GREATEST(h.expires_at, h.kept_until) AS ends_at,
                CASE
                    WHEN (h.length < repricer.days(6)) THEN h.length
                    ELSE
                    CASE COALESCE(h.period, c.period)
                        WHEN 'P1W'::text THEN 'P7D'::interval
                        WHEN 'P2M'::text THEN 'P2M'::interval
                        WHEN 'P3M'::text THEN 'P3M'::interval
                        WHEN 'P6M'::text THEN 'P6M'::interval
                        WHEN 'P1Y'::text THEN 'P1Y'::interval
                        ELSE 'P1M'::interval
                    END
                END AS step) t)
     CROSS JOIN LATERAL ( SELECT LEAST(h.next_at,
                CASE
                    WHEN (p.purchased_at > h.purchased_at) THEN p.purchased_at
                    ELSE NULL::timestamp with time zone
                END) AS at
           FROM ( SELECT ( SELECT s.purchased_at
                           FROM repricer.subscriptions_at(p_at) s
                          WHERE (s.original_transaction_id = c.original_transaction_id)) AS purchased_at
                 OFFSET 0) p
          WHERE ((h.expires_at IS NOT NULL) AND COALESCE((h.next_at > (t.ends_at + t.tolerance)), true))
         OFFSET 0) next)
     CROSS JOIN LATERAL ( SELECT d.at,
            n.n AS place
           FROM (generate_series(0, (LEAST((400)::numeric, GREATEST((0)::numeric, (EXTRACT(epoch FROM (next.at - t.ends_at)) / GREATEST((1)::numeric, EXTRACT(epoch FROM t.step))))))::integer) n(n)
             CROSS JOIN LATERAL ( SELECT (
                        CASE
                            WHEN (((h.began_at AT TIME ZONE 'UTC'::text) + t.step) = (t.ends_at AT TIME ZONE 'UTC'::text)) THEN ((h.began_at AT TIME ZONE 'UTC'::text) + (((n.n + 1))::double precision * t.step))
                            ELSE ((t.ends_at AT TIME ZONE 'UTC'::text) + ((n.n)::double precision * t.step))
                        END AT TIME ZONE 'UTC'::text) AS at) d)
          WHERE ((n.n = 0) OR (EXTRACT(epoch FROM (next.at - d.at)) > (EXTRACT(epoch FROM t.step) / (2)::numeric)))) missed)
  WHERE ((h.place = 1) AND (c.undoes_change_id IS NULL) AND (c.state <> ALL (ARRAY['rejected'::text, 'ineligible'::text, 'missed'::text, 'aborted'::text])) AND (next.at > (t.ends_at + t.tolerance)) AND ((NOT c.is_leaving) OR (h.next_at IS NOT NULL) OR ((missed.place = 0) AND (NOT (EXISTS ( SELECT
           FROM repricer.told_statements_at(p_at) q
          WHERE ((q.original_transaction_id = c.original_transaction_id) AND (q.type = 'PRICE_INCREASE'::text) AND (q.subtype = 'PENDING'::text) AND ((q.signed_at >= h.began_at) AND (q.signed_at <= (missed.at + t.tolerance))))))))) AND (NOT ((((h.revoked_at IS NOT NULL) AND (h.revoked_at <= (h.expires_at + repricer.days(1)))) OR ((h.next_at IS NULL) AND (h.refunded_milliunits > 0) AND (h.refunded_milliunits >= (h.price_milliunits * h.quantity)))) AND COALESCE((h.kept_until < (h.expires_at - t.tolerance)), true))) AND (t.is_in_effect OR ((missed.at >= COALESCE(c.sent_at, c.doubtful_since, c.scheduled_at)) AND ((c.state <> ALL (ARRAY['declined'::text, 'cancelled'::text, 'lapsed'::text, 'invalidated'::text])) OR (next.at < c.ended_at)) AND (NOT (EXISTS ( SELECT
           FROM repricer.price_changes_at(p_at) o
          WHERE ((o.original_transaction_id = c.original_transaction_id) AND (o.change_id <> c.change_id) AND (o.undoes_change_id IS NULL) AND (COALESCE(o.current_sku, o.sku) = COALESCE(c.current_sku, c.sku)) AND (((o.state = 'effective'::text) AND (o.effective_at <= h.purchased_at)) OR ((o.state <> ALL (ARRAY['rejected'::text, 'ineligible'::text, 'missed'::text, 'aborted'::text])) AND ((o.state <> ALL (ARRAY['declined'::text, 'cancelled'::text, 'lapsed'::text, 'invalidated'::text])) OR (next.at < o.ended_at)) AND (COALESCE(o.sent_at, o.doubtful_since, o.scheduled_at) <= missed.at) AND (ROW(COALESCE(o.sent_at, o.doubtful_since, o.scheduled_at), o.change_id) > ROW(COALESCE(c.sent_at, c.doubtful_since, c.scheduled_at), c.change_id)))))))))) AND (NOT (EXISTS ( SELECT
           FROM repricer.told_statements_at(p_at) e
          WHERE ((e.original_transaction_id = h.original_transaction_id) AND ((e.type = ANY (ARRAY['DID_FAIL_TO_RENEW'::text, 'GRACE_PERIOD_EXPIRED'::text, 'EXPIRED'::text, 'SUBSCRIBED'::text, 'REVOKE'::text, 'RENEWAL_EXTENDED'::text, 'OFFER_REDEEMED'::text, 'DID_CHANGE_RENEWAL_PREF'::text])) OR ((e.type = 'DID_RENEW'::text) AND (e.subtype = 'BILLING_RECOVERY'::text) AND ((missed.at >= (e.signed_at - repricer.days(61))) AND (missed.at <= e.signed_at)))) AND ((e.type <> 'RENEWAL_EXTENDED'::text) OR (NOT e.tells_end)) AND ((e.type <> 'SUBSCRIBED'::text) OR (e.signed_at > (h.began_at + (h.length / (2)::double precision)))) AND ((e.signed_at >= h.began_at) AND (e.signed_at <= (next.at + repricer.days(1)))) AND ((e.type <> 'DID_FAIL_TO_RENEW'::text) OR ((missed.at >= (e.signed_at - repricer.days(1))) AND (missed.at <= (e.signed_at + repricer.days(61))))) AND ((e.type <> 'GRACE_PERIOD_EXPIRED'::text) OR ((missed.at >= (e.signed_at - repricer.days(61))) AND (missed.at <= (e.signed_at + repricer.days(61))))) AND ((e.type <> 'EXPIRED'::text) OR (missed.at >= (e.signed_at - repricer.days(61)))) AND ((e.type <> 'DID_CHANGE_RENEWAL_PREF'::text) OR (((e.subtype = ANY (ARRAY['UPGRADE'::text, 'DOWNGRADE'::text])) OR ((e.statement #> '{renewal,items,0}'::text[]) IS NOT NULL)) AND (e.signed_at <= (missed.at + repricer.days(1))) AND (NOT COALESCE(((((e.statement #> '{renewal,items}'::text[]) @> jsonb_build_array(jsonb_build_object('sku', h.sku))) OR ((e.statement #> '{renewal,items}'::text[]) @> jsonb_build_array(jsonb_build_object('sku', COALESCE(c.current_sku, c.sku))))) AND ((e.statement #>> '{renewal,period}'::text[]) = COALESCE(h.period, c.period))), false)) AND (NOT (h.is_purchase AND (NOT h.is_added_seat) AND (e.signed_at <= (h.purchased_at + t.tolerance)))) AND (NOT (EXISTS ( SELECT
                   FROM repricer.told_statements_at(p_at) b
                  WHERE ((b.original_transaction_id = h.original_transaction_id) AND (b.type = 'DID_CHANGE_RENEWAL_PREF'::text) AND (COALESCE(b.subtype, ''::text) = ''::text) AND (b.signed_at > e.signed_at) AND (b.signed_at <= (missed.at + repricer.days(1))) AND (((b.statement #> '{renewal,items}'::text[]) IS NULL) OR ((b.statement #> '{renewal,items}'::text[]) @> jsonb_build_array(jsonb_build_object('sku', h.sku))) OR ((b.statement #> '{renewal,items}'::text[]) @> jsonb_build_array(jsonb_build_object('sku', COALESCE(c.current_sku, c.sku))))))))))))))) AND (NOT (EXISTS ( SELECT
           FROM repricer.price_changes_at(p_at) n
          WHERE ((n.original_transaction_id = c.original_transaction_id) AND (n.change_id <> c.change_id) AND (n.state = ANY (ARRAY['declined'::text, 'cancelled'::text, 'lapsed'::text])) AND (COALESCE(n.current_sku, n.sku) = COALESCE(c.current_sku, c.sku)) AND ((n.ended_at >= h.began_at) AND (n.ended_at <= next.at)))))) AND (NOT (EXISTS ( SELECT
           FROM repricer.dependent_cancellations_at(p_at) d
          WHERE ((d.original_transaction_id = c.original_transaction_id) AND (d.dependent_sku = h.sku) AND (NOT d.is_cross_subscription) AND (d.state = 'confirmed'::text) AND ((d.requested_at >= h.began_at) AND (d.requested_at <= next.at)))))) AND (NOT (EXISTS ( SELECT
           FROM repricer.price_changes_at(p_at) n
          WHERE ((n.original_transaction_id = c.original_transaction_id) AND (n.change_id <> c.change_id) AND (n.state = 'effective'::text) AND (n.undoes_change_id IS NULL) AND (COALESCE(n.current_sku, n.sku) = COALESCE(c.current_sku, c.sku)) AND (n.effective_at <= h.purchased_at) AND (ROW(n.effective_at, n.change_id) > ROW(c.effective_at, c.change_id)))))))
$$;

CREATE FUNCTION repricer.money_entries_at(p_at timestamp with time zone) RETURNS SETOF repricer.money_entries
    LANGUAGE sql STABLE
    AS $$
SELECT * FROM repricer.money_entries WHERE recorded_at <= p_at
$$;

CREATE FUNCTION repricer.move_probe(p_batch_id uuid, p_next timestamp with time zone) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    BEGIN ATOMIC
 UPDATE repricer.batches SET probe_at = move_probe.p_next
   WHERE ((batches.batch_id = move_probe.p_batch_id) AND (batches.probe_at IS NOT NULL));
END;

CREATE FUNCTION repricer.moves_of(p_ids text[], p_ats timestamp with time zone[], p_batch uuid) RETURNS TABLE(id text, at timestamp with time zone, batch_id uuid, month date, currency text, storefront text, opening numeric, closing numeric, cause text, price_effect numeric)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    AS $_$
#variable_conflict use_column
BEGIN
RETURN QUERY
WITH subjects AS (
    SELECT u.id, u.at FROM unnest(p_ids, p_ats) AS u (id, at)
), called AS (
    SELECT s.id AS subject, s.at, c.original_transaction_id, c.change_id, c.batch_id, c.currency, c.storefront,
        c.dependents, c.former_dependents, twelfths(c.period) AS twelfths, c.called_at, c.state, c.reason, c.ended_at, c.effective_at,
        c.current_price_milliunits, c.new_price_milliunits, c.forecast_renewal_at, c.forecast_seats, c.names, c.former_skus, c.former_until,
        lead(c.called_at) OVER (PARTITION BY s.id, s.at, c.item_sku ORDER BY c.called_at, c.change_id) AS next_called_at
    FROM subjects s
    -- OFFSET 0 makes PostgreSQL go subscription by subscription.
    CROSS JOIN LATERAL (
        SELECT h.original_transaction_id, h.change_id, h.batch_id, h.currency, h.storefront, h.period, h.state, h.reason,
            h.ended_at, h.effective_at, h.current_price_milliunits, h.new_price_milliunits, h.forecast_renewal_at, h.forecast_seats,
            coalesce(h.current_dependent_skus, h.dependent_skus) AS dependents, h.dependent_skus AS former_dependents,
            coalesce(h.sent_at, h.doubtful_since, h.scheduled_at) AS called_at, coalesce(h.current_sku, h.sku) AS item_sku,
            -- The name of today comes first.
            array_remove(ARRAY[h.current_sku, h.sku] || h.former_skus, NULL) AS names, h.former_skus, h.former_until
        FROM repricer.price_changes h
        -- A change that the App Store never had moves nothing.
        WHERE h.original_transaction_id = s.id AND h.undoes_change_id IS NULL
            AND h.state NOT IN ('rejected', 'ineligible', 'missed', 'aborted')
        OFFSET 0) c
    WHERE c.called_at <= s.at
), dependents AS (
    SELECT c.*, w.id, w.name, w.is_cross_subscription,
        -- Its charges bear the name that it had then: that of the submission, or that of today.
        ARRAY[w.name, u.former] AS item_names,
        CASE WHEN w.is_cross_subscription THEN twelfths(coalesce(d.period, t.period)) ELSE c.twelfths END AS item_twelfths,
        -- If a later change of the same parent does not name it, it goes on counting with this one.
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
    SELECT c.subject, c.at, c.batch_id, c.original_transaction_id AS id, c.names, c.former_skus, c.former_until, false AS is_dependent, c.currency,
        c.storefront, c.twelfths, false AS is_cross_subscription, c.called_at, c.next_called_at, c.state, c.reason, c.ended_at, c.effective_at,
        c.current_price_milliunits AS old_price, c.new_price_milliunits AS new_price, c.forecast_renewal_at, c.forecast_seats
    FROM called c
    -- With a plain equation PostgreSQL would expect one row of 200, and search what follows row by row.
    WHERE p_batch IS NULL OR nullif(c.batch_id = p_batch, false) IS NOT NULL
    UNION ALL
    SELECT d.subject, d.at, d.batch_id, d.id, d.item_names, NULL, NULL, true, d.currency, d.storefront, d.item_twelfths, d.is_cross_subscription, d.called_at,
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
            -- The customer chose another item in mid period. This is searched only where something was bought later.
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
                            AND e.signed_at > n.purchased_at - repricer.days(1)
                            AND e.signed_at < n.purchased_at + repricer.days(1))) END) AT TIME ZONE 'UTC' AS ends,
        g.given_back_at AT TIME ZONE 'UTC' AS given_back_at, h.expires_at AT TIME ZONE 'UTC' AS expires,
        -- A charge that was refunded in full, or revoked, ends no other: it may have been a second charge for the same time.
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
            + CASE WHEN i.is_dependent THEN repricer.days(31) ELSE interval '0' END, false) AS is_return
    FROM items i
    JOIN (
        -- The charges of an item under any of its names. An added seat may cost only a part of the price; from the renewal on it
        -- costs what each other seat does.
        SELECT r.item, CASE WHEN r.is_added_seat THEN coalesce(r.quantity * (
                SELECT CASE WHEN NOT o.is_offer THEN o.price_milliunits::numeric END FROM repricer.charges o
                WHERE o.original_transaction_id = r.id
                    AND repricer.is_of_item(o.sku, o.purchased_at, r.names, r.former_skus, r.former_until)
                    AND NOT o.is_added_seat
                    AND o.currency = r.currency AND o.purchased_at <= r.purchased_at AND o.expires_at > r.purchased_at
                ORDER BY o.purchased_at DESC, o.transaction_id DESC LIMIT 1), r.milliunits) ELSE r.milliunits END AS milliunits,
            r.offer_days, r.days, r.period, r.currency, r.begins, r.given_back_at, r.stands, r.is_added_seat,
            -- The App Store may date a renewal some moments off. These moments are no gap.
            CASE WHEN r.ends < r.next_begins AND r.ends = r.expires
                    AND r.next_begins <= r.ends + least(interval '1 hour', (r.ends - r.begins) / 10)
                THEN r.next_begins ELSE least(r.ends, r.next_begins) END AS ends
        FROM (
            SELECT n.item, n.names, n.former_skus, n.former_until, r.*, min(r.begins) FILTER (WHERE r.stands AND NOT r.is_added_seat) OVER (
                PARTITION BY n.item ORDER BY r.begins DESC, r.is_added_seat DESC,
                    -- Another item may have taken a former name.
                    r.sku = n.names[1] DESC, r.transaction_id DESC, r.sku DESC
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS next_begins
            FROM items n JOIN runs r ON r.id = n.id AND r.at = n.at
                AND repricer.is_of_item(r.sku, r.purchased_at, n.names, n.former_skus, n.former_until)) r) r
        ON r.item = i.item AND r.currency = i.currency AND r.begins < i.ends AND r.ends >= i.begins
    -- The customer may have changed the length of the period since the call, so each charge counts by the length that was signed
    -- with it. Where none was signed, a dependent on another subscription counts by its days. A period that was extended has none
    -- of these lengths, and counts by the length at the call.
    CROSS JOIN LATERAL (SELECT CASE WHEN r.period IS NOT NULL THEN twelfths(r.period) WHEN NOT i.is_cross_subscription THEN i.twelfths
        WHEN r.days BETWEEN 6.9 AND 7.1 THEN 52 WHEN r.days BETWEEN 27.9 AND 31.1 THEN 12 WHEN r.days BETWEEN 58.9 AND 62.1 THEN 6
        WHEN r.days BETWEEN 88.9 AND 92.1 THEN 4 WHEN r.days BETWEEN 180.9 AND 184.1 THEN 2
        WHEN r.days BETWEEN 364.9 AND 366.1 THEN 1 ELSE i.twelfths END AS twelfths) w
), turns AS (
    -- When a refund or a revocation ended what was paid for, until when the rest was paid, and when the customer bought the item
    -- again after its change had ended.
    SELECT p.item, array_agg(p.run_ends) FILTER (WHERE p.is_cut) AS cut_at,
        array_agg(p.run_ends) FILTER (WHERE NOT p.is_cut) AS uncut_until, min(p.run_begins) FILTER (WHERE p.is_return) AS back_at
    FROM paid p GROUP BY p.item HAVING bool_or(p.is_cut OR p.is_return)
), kept AS MATERIALIZED (
    -- The charges that stand, of items of which another charge was refunded.
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
    -- Where two charges cover the same time and one was refunded later, only the other one counts.
    WHERE k.item IS NULL OR NOT EXISTS (
        SELECT FROM unnest(k.begins, k.ends) AS u (begins, ends) WHERE u.begins < p.at AND u.ends >= p.at)
    GROUP BY p.item, p.at, p.begins, p.ends
), unpaid AS MATERIALIZED (
    -- Before the first known charge, what the plan knew counts: the price of each seat. Nothing was paid for where, since the last
    -- charge, a statement told that a charge had failed or that the subscription had ended.
    SELECT i.item, i.begins, i.ends, i.twelfths * i.old_price::numeric * i.forecast_seats AS old_price,
        -- It lasts until the first charge, where that comes moments late.
        CASE WHEN f.at <= w.renews + f.moments THEN greatest(w.renews, f.at) ELSE w.renews END AS renews
    -- OFFSET 0 makes PostgreSQL ask the rest only for these few.
    FROM (SELECT i.* FROM items i
        WHERE i.old_price IS NOT NULL AND NOT EXISTS (SELECT FROM points k WHERE k.item = i.item AND k.at = i.begins) OFFSET 0) i
    CROSS JOIN LATERAL (SELECT i.forecast_renewal_at AT TIME ZONE 'UTC' AS renews) w
    LEFT JOIN (
        SELECT DISTINCT ON (p.item) p.item, p.run_begins AS at, least(interval '1 hour', (p.run_ends - p.run_begins) / 10) AS moments
        FROM paid p WHERE p.stands AND NOT p.is_added_seat ORDER BY p.item, p.run_begins) f
        ON f.item = i.item
    WHERE NOT EXISTS (
        SELECT FROM repricer.told_statements q
        WHERE q.original_transaction_id = i.id AND q.signed_at < i.called_at
            AND q.type IN ('DID_FAIL_TO_RENEW', 'GRACE_PERIOD_EXPIRED', 'EXPIRED')
            AND q.signed_at > (SELECT max(h.expires_at) FROM repricer.charges h
                WHERE h.original_transaction_id = i.id
                    AND repricer.is_of_item(h.sku, h.purchased_at, i.names, i.former_skus, i.former_until)
                    AND h.purchased_at < i.called_at) - repricer.days(1))
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
        -- A refund or a revocation ended a part of what was paid for, an added seat for instance, and the rest goes on. Or it ended
        -- all of it, whatever failed to renew later in the month; but if the change itself ended then, that explains more.
        m.closes < m.opens AND EXISTS (
            SELECT FROM unnest(t.cut_at) AS c (at)
            WHERE c.at >= greatest(m.month, i.begins)
                AND c.at < least(m.month + interval '1 month', i.at AT TIME ZONE 'UTC')
                AND (m.closes > 0 OR NOT EXISTS (
                    SELECT FROM unnest(t.uncut_until) AS u (at)
                    WHERE u.at > c.at AND u.at < m.month + interval '1 month'))) AS is_cut,
        -- The item ended for the reason for which the change ended, unless it was bought again since. Then the statements about
        -- that later end give the reason.
        coalesce(i.ended_at < least((m.month + interval '1 month') AT TIME ZONE 'UTC', i.at) + repricer.days(1)
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
        -- A dependent goes on where only its parent was refunded.
        WHEN m.is_end AND m.state = 'cancelled' AND NOT (m.is_dependent AND m.reason = 'item_refunded') THEN CASE m.reason
            WHEN 'refunded_or_revoked' THEN 'refunds' WHEN 'item_refunded' THEN 'refunds'
            WHEN 'parent_declined' THEN 'dependents'
            -- The whole subscription ended for the increase of another item.
            WHEN 'expired_for_another_increase' THEN 'declined' WHEN 'expired_for_price_increase' THEN 'declined'
            ELSE 'left' END
        WHEN m.is_end AND m.state = 'lapsed' THEN 'lapsed'
        -- An item that counts with a change of its own falls with its declined parent all the same.
        WHEN EXISTS (
            SELECT FROM dependents d
            WHERE d.subject = m.subject AND d.at = m.at AND d.id = m.id AND d.name = ANY (m.names) AND d.state = 'declined'
                AND d.ended_at > m.from_at - repricer.days(31) AND d.ended_at < m.to_at + repricer.days(1)) THEN 'dependents'
        WHEN m.is_cut THEN 'refunds'
        ELSE coalesce((
            SELECT CASE
                    WHEN e.type IN ('REFUND', 'REVOKE') THEN 'refunds'
                    WHEN e.subtype = 'VOLUNTARY' THEN 'left'
                    WHEN e.subtype = 'PRICE_INCREASE' THEN 'declined'
                    ELSE 'lapsed' END
            FROM repricer.told_statements e
            WHERE e.original_transaction_id = m.id AND e.signed_at > m.from_at - repricer.days(1)
                AND e.signed_at < m.to_at + repricer.days(1)
                -- What was recovered, or followed by another charge, ended nothing.
                AND NOT EXISTS (
                    SELECT FROM repricer.charges h
                    WHERE h.original_transaction_id = m.id
                        AND repricer.is_of_item(h.sku, h.purchased_at, m.names, m.former_skus, m.former_until)
                        AND h.revoked_at IS NULL
                        AND h.purchased_at > e.signed_at AND h.purchased_at < m.to_at)
                AND (e.type NOT IN ('DID_FAIL_TO_RENEW', 'GRACE_PERIOD_EXPIRED') OR NOT EXISTS (
                    SELECT FROM repricer.told_statements q
                    WHERE q.original_transaction_id = m.id AND q.type = 'DID_RENEW' AND q.subtype = 'BILLING_RECOVERY'
                        AND q.signed_at > e.signed_at AND q.signed_at < m.to_at))
                AND (e.type IN ('EXPIRED', 'REVOKE', 'DID_FAIL_TO_RENEW', 'GRACE_PERIOD_EXPIRED')
                    -- A refund ended the item only where it revoked it, or gave back all of a period before its end. A customer who
                    -- got a part back and then fell silent did not leave because of the refund.
                    OR e.type = 'REFUND' AND (EXISTS (
                        SELECT FROM repricer.charges h
                        WHERE h.original_transaction_id = m.id
                            AND repricer.is_of_item(h.sku, h.purchased_at, m.names, m.former_skus, m.former_until)
                            AND h.revoked_at > m.from_at - repricer.days(1) AND h.revoked_at < m.to_at + repricer.days(1)
                            AND h.revoked_at < coalesce(h.expires_at, 'infinity')) OR EXISTS (
                        SELECT FROM repricer.charges h
                        JOIN repricer.money_entries r ON r.original_transaction_id = h.original_transaction_id
                            AND r.transaction_id = h.transaction_id AND r.sku = h.sku AND r.kind = 'refund'
                        WHERE h.original_transaction_id = m.id
                            AND repricer.is_of_item(h.sku, h.purchased_at, m.names, m.former_skus, m.former_until)
                            AND h.refunded_milliunits >= h.price_milliunits::numeric * h.quantity
                            AND r.occurred_at > m.from_at - repricer.days(1) AND r.occurred_at < m.to_at + repricer.days(1)
                            AND r.occurred_at < coalesce(h.expires_at, 'infinity'))))
            ORDER BY e.signed_at DESC, e.evidence_id LIMIT 1), 'other')
    END,
    -- Where nothing was paid for before, the old price comes back together with the new one; that part counts as other.
    CASE WHEN m.closes > 0 AND m.effective_at >= m.from_at AND m.effective_at < m.to_at
        -- For every seat of the first charge at the new price.
        THEN m.twelfths * (m.new_price - m.old_price)::numeric * coalesce((
            SELECT h.quantity FROM repricer.charges h
            WHERE h.original_transaction_id = m.id
                AND repricer.is_of_item(h.sku, h.purchased_at, m.names, m.former_skus, m.former_until)
                AND h.purchased_at >= m.effective_at
                AND h.price_milliunits = m.new_price AND h.currency = m.currency
            ORDER BY h.purchased_at, h.transaction_id LIMIT 1), 1) ELSE 0 END
FROM moves m;
END
$_$;

CREATE FUNCTION repricer.moves_of_at(p_at timestamp with time zone, p_ids text[], p_ats timestamp with time zone[], p_batch uuid) RETURNS TABLE(id text, at timestamp with time zone, batch_id uuid, month date, currency text, storefront text, opening numeric, closing numeric, cause text, price_effect numeric)
    LANGUAGE plpgsql STABLE COST 1e+07 ROWS 10000 PARALLEL SAFE
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    SET "TimeZone" TO 'utc'
    AS $_$
#variable_conflict use_column
BEGIN
RETURN QUERY
WITH subjects AS (
    SELECT u.id, u.at FROM unnest(p_ids, p_ats) AS u (id, at)
), called AS (
    SELECT s.id AS subject, s.at, c.original_transaction_id, c.change_id, c.batch_id, c.currency, c.storefront,
        c.dependents, c.former_dependents, twelfths(c.period) AS twelfths, c.called_at, c.state, c.reason, c.ended_at, c.effective_at,
        c.current_price_milliunits, c.new_price_milliunits, c.forecast_renewal_at, c.forecast_seats, c.names, c.former_skus, c.former_until,
        lead(c.called_at) OVER (PARTITION BY s.id, s.at, c.item_sku ORDER BY c.called_at, c.change_id) AS next_called_at
    FROM subjects s
    -- OFFSET 0 makes PostgreSQL go subscription by subscription.
    CROSS JOIN LATERAL (
        SELECT h.original_transaction_id, h.change_id, h.batch_id, h.currency, h.storefront, h.period, h.state, h.reason,
            h.ended_at, h.effective_at, h.current_price_milliunits, h.new_price_milliunits, h.forecast_renewal_at, h.forecast_seats,
            coalesce(h.current_dependent_skus, h.dependent_skus) AS dependents, h.dependent_skus AS former_dependents,
            coalesce(h.sent_at, h.doubtful_since, h.scheduled_at) AS called_at, coalesce(h.current_sku, h.sku) AS item_sku,
            -- The name of today comes first.
            array_remove(ARRAY[h.current_sku, h.sku] || h.former_skus, NULL) AS names, h.former_skus, h.former_until
        FROM repricer.price_changes_at(p_at) h
        -- A change that the App Store never had moves nothing.
        WHERE h.original_transaction_id = s.id AND h.undoes_change_id IS NULL
            AND h.state NOT IN ('rejected', 'ineligible', 'missed', 'aborted')
        OFFSET 0) c
    WHERE c.called_at <= s.at
), dependents AS (
    SELECT c.*, w.id, w.name, w.is_cross_subscription,
        -- Its charges bear the name that it had then: that of the submission, or that of today.
        ARRAY[w.name, u.former] AS item_names,
        CASE WHEN w.is_cross_subscription THEN twelfths(coalesce(d.period, t.period)) ELSE c.twelfths END AS item_twelfths,
        -- If a later change of the same parent does not name it, it goes on counting with this one.
        lead(c.called_at) OVER (PARTITION BY c.subject, c.at, w.id, w.name ORDER BY c.called_at, c.change_id) AS named_next_at
    FROM called c
    CROSS JOIN LATERAL unnest(c.dependents, c.former_dependents) AS u (name, former)
    CROSS JOIN LATERAL (SELECT regexp_match(u.name, '^([0-9]+)/(.+)$') AS place) n
    LEFT JOIN repricer.dependent_claims_at(p_at) d ON d.claimed_by = c.original_transaction_id AND d.change_id = c.change_id
        AND d.sku = coalesce(n.place[2], u.name)
    CROSS JOIN LATERAL (
        SELECT coalesce(d.original_transaction_id, n.place[1], c.original_transaction_id) AS id,
            coalesce(n.place[2], u.name) AS name, coalesce(d.original_transaction_id, n.place[1]) IS NOT NULL AS is_cross_subscription) w
    LEFT JOIN repricer.subscriptions_at(p_at) t ON t.original_transaction_id = w.id AND w.is_cross_subscription
    WHERE c.dependents <> '{}'
), named AS (
    SELECT c.subject, c.at, c.batch_id, c.original_transaction_id AS id, c.names, c.former_skus, c.former_until, false AS is_dependent, c.currency,
        c.storefront, c.twelfths, false AS is_cross_subscription, c.called_at, c.next_called_at, c.state, c.reason, c.ended_at, c.effective_at,
        c.current_price_milliunits AS old_price, c.new_price_milliunits AS new_price, c.forecast_renewal_at, c.forecast_seats
    FROM called c
    -- With a plain equation PostgreSQL would expect one row of 200, and search what follows row by row.
    WHERE p_batch IS NULL OR nullif(c.batch_id = p_batch, false) IS NOT NULL
    UNION ALL
    SELECT d.subject, d.at, d.batch_id, d.id, d.item_names, NULL, NULL, true, d.currency, d.storefront, d.item_twelfths, d.is_cross_subscription, d.called_at,
        least(d.named_next_at, o.later_at), d.state, d.reason, d.ended_at, NULL, NULL, NULL, NULL, NULL
    FROM dependents d
    -- From the call of a change of its own on, an item counts with that change.
    CROSS JOIN LATERAL (
        SELECT min(o.called_at) AS first_at, min(o.called_at) FILTER (WHERE o.called_at > d.called_at) AS later_at
        FROM (
            SELECT coalesce(h.sent_at, h.doubtful_since, h.scheduled_at) AS called_at FROM repricer.price_changes_at(p_at) h
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
            -- The customer chose another item in mid period. This is searched only where something was bought later.
            CASE WHEN h.bought_at > h.purchased_at THEN (
                SELECT min(n.purchased_at) FROM repricer.charges_at(p_at) n
                WHERE n.original_transaction_id = h.original_transaction_id AND n.is_purchase AND n.purchased_at <= s.at
                    AND n.purchased_at > h.purchased_at AND n.purchased_at < h.expires_at
                    AND NOT EXISTS (
                        SELECT FROM repricer.charges_at(p_at) o
                        WHERE o.original_transaction_id = n.original_transaction_id AND o.transaction_id = n.transaction_id
                            AND o.sku = h.sku)
                    -- An item that is charged again was not the one that was exchanged.
                    AND NOT EXISTS (
                        SELECT FROM repricer.charges_at(p_at) g
                        WHERE g.original_transaction_id = n.original_transaction_id AND g.sku = h.sku
                            AND g.purchased_at > n.purchased_at AND g.purchased_at <= s.at)
                    AND EXISTS (
                        SELECT FROM repricer.told_statements_at(p_at) e
                        WHERE e.original_transaction_id = h.original_transaction_id AND e.subtype = 'UPGRADE'
                            AND e.type IN ('DID_CHANGE_RENEWAL_PREF', 'OFFER_REDEEMED')
                            AND e.signed_at > n.purchased_at - repricer.days(1)
                            AND e.signed_at < n.purchased_at + repricer.days(1))) END) AT TIME ZONE 'UTC' AS ends,
        g.given_back_at AT TIME ZONE 'UTC' AS given_back_at, h.expires_at AT TIME ZONE 'UTC' AS expires,
        -- A charge that was refunded in full, or revoked, ends no other: it may have been a second charge for the same time.
        h.revoked_at IS NULL
            AND (h.refunded_milliunits < h.price_milliunits::numeric * h.quantity OR h.price_milliunits = 0) AS stands,
        h.is_added_seat, h.transaction_id
    FROM (SELECT DISTINCT i.id, i.at FROM items i) s
    CROSS JOIN LATERAL (
        SELECT k.*, max(k.purchased_at) FILTER (WHERE k.is_purchase) OVER () AS bought_at
        FROM repricer.charges_at(p_at) k WHERE k.original_transaction_id = s.id AND k.purchased_at <= s.at OFFSET 0) h
    CROSS JOIN LATERAL (
        SELECT least(h.revoked_at,
            CASE WHEN h.refunded_milliunits > 0 AND h.refunded_milliunits >= h.price_milliunits::numeric * h.quantity THEN (
                SELECT max(e.occurred_at) FROM repricer.money_entries_at(p_at) e
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
            + CASE WHEN i.is_dependent THEN repricer.days(31) ELSE interval '0' END, false) AS is_return
    FROM items i
    JOIN (
        -- The charges of an item under any of its names. An added seat may cost only a part of the price; from the renewal on it
        -- costs what each other seat does.
        SELECT r.item, CASE WHEN r.is_added_seat THEN coalesce(r.quantity * (
                SELECT CASE WHEN NOT o.is_offer THEN o.price_milliunits::numeric END FROM repricer.charges_at(p_at) o
                WHERE o.original_transaction_id = r.id
                    AND repricer.is_of_item(o.sku, o.purchased_at, r.names, r.former_skus, r.former_until)
                    AND NOT o.is_added_seat
                    AND o.currency = r.currency AND o.purchased_at <= r.purchased_at AND o.expires_at > r.purchased_at
                ORDER BY o.purchased_at DESC, o.transaction_id DESC LIMIT 1), r.milliunits) ELSE r.milliunits END AS milliunits,
            r.offer_days, r.days, r.period, r.currency, r.begins, r.given_back_at, r.stands, r.is_added_seat,
            -- The App Store may date a renewal some moments off. These moments are no gap.
            CASE WHEN r.ends < r.next_begins AND r.ends = r.expires
                    AND r.next_begins <= r.ends + least(interval '1 hour', (r.ends - r.begins) / 10)
                THEN r.next_begins ELSE least(r.ends, r.next_begins) END AS ends
        FROM (
            SELECT n.item, n.names, n.former_skus, n.former_until, r.*, min(r.begins) FILTER (WHERE r.stands AND NOT r.is_added_seat) OVER (
                PARTITION BY n.item ORDER BY r.begins DESC, r.is_added_seat DESC,
                    -- Another item may have taken a former name.
                    r.sku = n.names[1] DESC, r.transaction_id DESC, r.sku DESC
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS next_begins
            FROM items n JOIN runs r ON r.id = n.id AND r.at = n.at
                AND repricer.is_of_item(r.sku, r.purchased_at, n.names, n.former_skus, n.former_until)) r) r
        ON r.item = i.item AND r.currency = i.currency AND r.begins < i.ends AND r.ends >= i.begins
    -- The customer may have changed the length of the period since the call, so each charge counts by the length that was signed
    -- with it. Where none was signed, a dependent on another subscription counts by its days. A period that was extended has none
    -- of these lengths, and counts by the length at the call.
    CROSS JOIN LATERAL (SELECT CASE WHEN r.period IS NOT NULL THEN twelfths(r.period) WHEN NOT i.is_cross_subscription THEN i.twelfths
        WHEN r.days BETWEEN 6.9 AND 7.1 THEN 52 WHEN r.days BETWEEN 27.9 AND 31.1 THEN 12 WHEN r.days BETWEEN 58.9 AND 62.1 THEN 6
        WHEN r.days BETWEEN 88.9 AND 92.1 THEN 4 WHEN r.days BETWEEN 180.9 AND 184.1 THEN 2
        WHEN r.days BETWEEN 364.9 AND 366.1 THEN 1 ELSE i.twelfths END AS twelfths) w
), turns AS (
    -- When a refund or a revocation ended what was paid for, until when the rest was paid, and when the customer bought the item
    -- again after its change had ended.
    SELECT p.item, array_agg(p.run_ends) FILTER (WHERE p.is_cut) AS cut_at,
        array_agg(p.run_ends) FILTER (WHERE NOT p.is_cut) AS uncut_until, min(p.run_begins) FILTER (WHERE p.is_return) AS back_at
    FROM paid p GROUP BY p.item HAVING bool_or(p.is_cut OR p.is_return)
), kept AS MATERIALIZED (
    -- The charges that stand, of items of which another charge was refunded.
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
    -- Where two charges cover the same time and one was refunded later, only the other one counts.
    WHERE k.item IS NULL OR NOT EXISTS (
        SELECT FROM unnest(k.begins, k.ends) AS u (begins, ends) WHERE u.begins < p.at AND u.ends >= p.at)
    GROUP BY p.item, p.at, p.begins, p.ends
), unpaid AS MATERIALIZED (
    -- Before the first known charge, what the plan knew counts: the price of each seat. Nothing was paid for where, since the last
    -- charge, a statement told that a charge had failed or that the subscription had ended.
    SELECT i.item, i.begins, i.ends, i.twelfths * i.old_price::numeric * i.forecast_seats AS old_price,
        -- It lasts until the first charge, where that comes moments late.
        CASE WHEN f.at <= w.renews + f.moments THEN greatest(w.renews, f.at) ELSE w.renews END AS renews
    -- OFFSET 0 makes PostgreSQL ask the rest only for these few.
    FROM (SELECT i.* FROM items i
        WHERE i.old_price IS NOT NULL AND NOT EXISTS (SELECT FROM points k WHERE k.item = i.item AND k.at = i.begins) OFFSET 0) i
    CROSS JOIN LATERAL (SELECT i.forecast_renewal_at AT TIME ZONE 'UTC' AS renews) w
    LEFT JOIN (
        SELECT DISTINCT ON (p.item) p.item, p.run_begins AS at, least(interval '1 hour', (p.run_ends - p.run_begins) / 10) AS moments
        FROM paid p WHERE p.stands AND NOT p.is_added_seat ORDER BY p.item, p.run_begins) f
        ON f.item = i.item
    WHERE NOT EXISTS (
        SELECT FROM repricer.told_statements_at(p_at) q
        WHERE q.original_transaction_id = i.id AND q.signed_at < i.called_at
            AND q.type IN ('DID_FAIL_TO_RENEW', 'GRACE_PERIOD_EXPIRED', 'EXPIRED')
            AND q.signed_at > (SELECT max(h.expires_at) FROM repricer.charges_at(p_at) h
                WHERE h.original_transaction_id = i.id
                    AND repricer.is_of_item(h.sku, h.purchased_at, i.names, i.former_skus, i.former_until)
                    AND h.purchased_at < i.called_at) - repricer.days(1))
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
        -- A refund or a revocation ended a part of what was paid for, an added seat for instance, and the rest goes on. Or it ended
        -- all of it, whatever failed to renew later in the month; but if the change itself ended then, that explains more.
        m.closes < m.opens AND EXISTS (
            SELECT FROM unnest(t.cut_at) AS c (at)
            WHERE c.at >= greatest(m.month, i.begins)
                AND c.at < least(m.month + interval '1 month', i.at AT TIME ZONE 'UTC')
                AND (m.closes > 0 OR NOT EXISTS (
                    SELECT FROM unnest(t.uncut_until) AS u (at)
                    WHERE u.at > c.at AND u.at < m.month + interval '1 month'))) AS is_cut,
        -- The item ended for the reason for which the change ended, unless it was bought again since. Then the statements about
        -- that later end give the reason.
        coalesce(i.ended_at < least((m.month + interval '1 month') AT TIME ZONE 'UTC', i.at) + repricer.days(1)
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
        -- A dependent goes on where only its parent was refunded.
        WHEN m.is_end AND m.state = 'cancelled' AND NOT (m.is_dependent AND m.reason = 'item_refunded') THEN CASE m.reason
            WHEN 'refunded_or_revoked' THEN 'refunds' WHEN 'item_refunded' THEN 'refunds'
            WHEN 'parent_declined' THEN 'dependents'
            -- The whole subscription ended for the increase of another item.
            WHEN 'expired_for_another_increase' THEN 'declined' WHEN 'expired_for_price_increase' THEN 'declined'
            ELSE 'left' END
        WHEN m.is_end AND m.state = 'lapsed' THEN 'lapsed'
        -- An item that counts with a change of its own falls with its declined parent all the same.
        WHEN EXISTS (
            SELECT FROM dependents d
            WHERE d.subject = m.subject AND d.at = m.at AND d.id = m.id AND d.name = ANY (m.names) AND d.state = 'declined'
                AND d.ended_at > m.from_at - repricer.days(31) AND d.ended_at < m.to_at + repricer.days(1)) THEN 'dependents'
        WHEN m.is_cut THEN 'refunds'
        ELSE coalesce((
            SELECT CASE
                    WHEN e.type IN ('REFUND', 'REVOKE') THEN 'refunds'
                    WHEN e.subtype = 'VOLUNTARY' THEN 'left'
                    WHEN e.subtype = 'PRICE_INCREASE' THEN 'declined'
                    ELSE 'lapsed' END
            FROM repricer.told_statements_at(p_at) e
            WHERE e.original_transaction_id = m.id AND e.signed_at > m.from_at - repricer.days(1)
                AND e.signed_at < m.to_at + repricer.days(1)
                -- What was recovered, or followed by another charge, ended nothing.
                AND NOT EXISTS (
                    SELECT FROM repricer.charges_at(p_at) h
                    WHERE h.original_transaction_id = m.id
                        AND repricer.is_of_item(h.sku, h.purchased_at, m.names, m.former_skus, m.former_until)
                        AND h.revoked_at IS NULL
                        AND h.purchased_at > e.signed_at AND h.purchased_at < m.to_at)
                AND (e.type NOT IN ('DID_FAIL_TO_RENEW', 'GRACE_PERIOD_EXPIRED') OR NOT EXISTS (
                    SELECT FROM repricer.told_statements_at(p_at) q
                    WHERE q.original_transaction_id = m.id AND q.type = 'DID_RENEW' AND q.subtype = 'BILLING_RECOVERY'
                        AND q.signed_at > e.signed_at AND q.signed_at < m.to_at))
                AND (e.type IN ('EXPIRED', 'REVOKE', 'DID_FAIL_TO_RENEW', 'GRACE_PERIOD_EXPIRED')
                    -- A refund ended the item only where it revoked it, or gave back all of a period before its end. A customer who
                    -- got a part back and then fell silent did not leave because of the refund.
                    OR e.type = 'REFUND' AND (EXISTS (
                        SELECT FROM repricer.charges_at(p_at) h
                        WHERE h.original_transaction_id = m.id
                            AND repricer.is_of_item(h.sku, h.purchased_at, m.names, m.former_skus, m.former_until)
                            AND h.revoked_at > m.from_at - repricer.days(1) AND h.revoked_at < m.to_at + repricer.days(1)
                            AND h.revoked_at < coalesce(h.expires_at, 'infinity')) OR EXISTS (
                        SELECT FROM repricer.charges_at(p_at) h
                        JOIN repricer.money_entries_at(p_at) r ON r.original_transaction_id = h.original_transaction_id
                            AND r.transaction_id = h.transaction_id AND r.sku = h.sku AND r.kind = 'refund'
                        WHERE h.original_transaction_id = m.id
                            AND repricer.is_of_item(h.sku, h.purchased_at, m.names, m.former_skus, m.former_until)
                            AND h.refunded_milliunits >= h.price_milliunits::numeric * h.quantity
                            AND r.occurred_at > m.from_at - repricer.days(1) AND r.occurred_at < m.to_at + repricer.days(1)
                            AND r.occurred_at < coalesce(h.expires_at, 'infinity'))))
            ORDER BY e.signed_at DESC, e.evidence_id LIMIT 1), 'other')
    END,
    -- Where nothing was paid for before, the old price comes back together with the new one; that part counts as other.
    CASE WHEN m.closes > 0 AND m.effective_at >= m.from_at AND m.effective_at < m.to_at
        -- For every seat of the first charge at the new price.
        THEN m.twelfths * (m.new_price - m.old_price)::numeric * coalesce((
            SELECT h.quantity FROM repricer.charges_at(p_at) h
            WHERE h.original_transaction_id = m.id
                AND repricer.is_of_item(h.sku, h.purchased_at, m.names, m.former_skus, m.former_until)
                AND h.purchased_at >= m.effective_at
                AND h.price_milliunits = m.new_price AND h.currency = m.currency
            ORDER BY h.purchased_at, h.transaction_id LIMIT 1), 1) ELSE 0 END
FROM moves m;
END
$_$;

CREATE FUNCTION repricer.moving_instants(p_ids text[]) RETURNS TABLE(id text, known_after timestamp with time zone, from_at timestamp with time zone, at timestamp with time zone, is_whole boolean)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    AS $$
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
    -- A subscription that is paid for longer than anybody can pay ahead would have endless months, so its moves are not kept.
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

CREATE FUNCTION repricer.note_catch_up_answer(p_answer text) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
UPDATE service_controls SET catch_up_answer = p_answer
    WHERE catch_up_since IS NOT NULL AND catch_up_answer IS DISTINCT FROM p_answer
$$;

CREATE TABLE repricer.service_controls (
    one_row boolean DEFAULT true NOT NULL,
    is_paused boolean DEFAULT false NOT NULL,
    paused_by text,
    paused_at timestamp with time zone,
    paused_reason text,
    halted_at timestamp with time zone,
    halted_reason text,
    halted_answer text,
    halted_kinds jsonb DEFAULT '{}'::jsonb NOT NULL,
    throttled_kinds jsonb DEFAULT '{}'::jsonb NOT NULL,
    unreached_kinds jsonb DEFAULT '{}'::jsonb NOT NULL,
    database_identity text,
    catch_up_since timestamp with time zone,
    catch_up_from timestamp with time zone,
    catch_up_by text,
    catch_up_answer text,
    is_restored boolean DEFAULT false NOT NULL,
    is_rehearsal boolean DEFAULT false NOT NULL,
    clock_start timestamp with time zone,
    clock_rate double precision,
    clock_origin timestamp with time zone,
    lowest_program integer DEFAULT 0 NOT NULL,
    change_price_rate integer,
    CONSTRAINT service_controls_change_price_rate CHECK ((change_price_rate > 0)),
    CONSTRAINT service_controls_clock CHECK (((clock_rate IS NULL) OR (is_rehearsal AND (clock_start IS NOT NULL) AND (clock_origin IS NOT NULL) AND (clock_rate > (0)::double precision)))),
    CONSTRAINT service_controls_halted_kinds CHECK ((jsonb_typeof(halted_kinds) = 'object'::text)),
    CONSTRAINT service_controls_one_row CHECK (one_row),
    CONSTRAINT service_controls_throttled_kinds CHECK ((jsonb_typeof(throttled_kinds) = 'object'::text)),
    CONSTRAINT service_controls_unreached_kinds CHECK ((jsonb_typeof(unreached_kinds) = 'object'::text))
);

COMMENT ON COLUMN repricer.service_controls.halted_answer IS 'What the latest probe was refused with, and for which subscription. Null: none was refused yet.';

COMMENT ON COLUMN repricer.service_controls.halted_kinds IS 'By kind of call: at, reason, answer (of the latest probe). One call of the kind a minute probes whether they may go on.';

COMMENT ON COLUMN repricer.service_controls.throttled_kinds IS 'By kind of call: since, until (when the next call leaves), answer (the latest). It ends when a call is answered.';

COMMENT ON COLUMN repricer.service_controls.unreached_kinds IS 'By kind of call: since, tried (the latest call), answer (why it did not leave), seen (when that was noted, in real time; after three minutes it no longer counts). It ends when a call is answered. It holds nothing back.';

COMMENT ON COLUMN repricer.service_controls.catch_up_answer IS 'Why the service, when it last read what the App Store says, stopped before the end, while calls wait for that reading.';

COMMENT ON COLUMN repricer.service_controls.is_restored IS 'Whether this database took the place of one that was lost. A claim then asks whether the status of a subscription that the lost one may have called is still to be read (list recover/restored).';

COMMENT ON COLUMN repricer.service_controls.is_rehearsal IS 'Decisions are dated by the instant that the program gives, because it runs on a virtual clock; see decision_instant.';

COMMENT ON COLUMN repricer.service_controls.clock_rate IS 'In a rehearsal: the clock shows clock_start at the real instant clock_origin, and runs at this many seconds a second. What is recorded is dated by it. Null: by the server''s clock.';

COMMENT ON COLUMN repricer.service_controls.lowest_program IS 'A program may make calls and write only if it was written for this schema version or a later one: that of the newest breaking migration. The migrator sets it.';

COMMENT ON COLUMN repricer.service_controls.change_price_rate IS 'How many calls the service makes in a thousand seconds at most. Forecasts use it where a person names no rate of their own.';

CREATE FUNCTION repricer.note_change_price_rate(p_per_thousand_seconds integer) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    BEGIN ATOMIC
 UPDATE repricer.service_controls SET change_price_rate = note_change_price_rate.p_per_thousand_seconds
   WHERE (service_controls.change_price_rate IS DISTINCT FROM note_change_price_rate.p_per_thousand_seconds);
END;

CREATE FUNCTION repricer.note_database(p_at timestamp with time zone, p_from timestamp with time zone, p_oldest timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_former text;
    v_read_through timestamptz;
    v_since timestamptz;
BEGIN
    -- This runs every second, so it locks nothing where there is nothing to note.
    IF EXISTS (SELECT FROM service_controls c, history_reading h
            WHERE c.database_identity = database_identity() AND (h.read_through < p_oldest) IS NOT TRUE) THEN
        RETURN;
    END IF;
    SELECT database_identity INTO v_former FROM service_controls FOR UPDATE;
    SELECT read_through, coalesce(least(read_through, window_start),
            least((SELECT min(decided_at) FROM batches WHERE state = 'approved'),
                (SELECT min(requested_at) FROM extension_requests), (SELECT min(submitted_at) FROM mass_extensions)))
        INTO v_read_through, v_since FROM history_reading;
    IF v_former <> database_identity() AND v_since IS NOT NULL THEN
        PERFORM begin_catch_up(v_since, p_from, p_at, false);
    ELSIF v_former IS DISTINCT FROM database_identity() THEN
        UPDATE service_controls SET database_identity = database_identity();
    END IF;
    IF v_read_through < p_oldest THEN
        UPDATE service_controls SET catch_up_since = least(catch_up_since, v_read_through);
    END IF;
END
$$;

CREATE FUNCTION repricer.note_halt_answer(p_kind text, p_answer text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_answer jsonb := to_jsonb(p_answer);
BEGIN
    UPDATE service_controls SET
        halted_answer = CASE WHEN p_kind IS NULL AND halted_at IS NOT NULL THEN p_answer ELSE halted_answer END,
        halted_kinds = CASE WHEN halted_kinds ? p_kind
            THEN jsonb_set(halted_kinds, ARRAY[p_kind, 'answer'], v_answer) ELSE halted_kinds END;
END
$$;

CREATE FUNCTION repricer.note_probe_answer(p_batch_id uuid, p_answer text) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    BEGIN ATOMIC
 UPDATE repricer.batches SET probe_answer = note_probe_answer.p_answer
   WHERE ((batches.batch_id = note_probe_answer.p_batch_id) AND (batches.probe_at IS NOT NULL));
END;

CREATE TABLE repricer.put_backs (
    put_back_id bigint NOT NULL,
    kind text NOT NULL,
    batch_id uuid,
    code text NOT NULL,
    ended_from timestamp with time zone NOT NULL,
    ended_until timestamp with time zone,
    is_recovered boolean DEFAULT false NOT NULL,
    is_done boolean DEFAULT false NOT NULL,
    next_check_at timestamp with time zone DEFAULT '-infinity'::timestamp with time zone NOT NULL,
    checks integer DEFAULT 0 NOT NULL,
    is_of_guard boolean DEFAULT false NOT NULL
);

COMMENT ON TABLE repricer.put_backs IS 'Halts whose refusals may have ended something; put_back_refused puts that back. A row is deleted once nothing that it put back still waits.';

CREATE FUNCTION repricer.note_put_back(p_kind text, p_batch_id uuid, p_code text, p_from timestamp with time zone, p_is_of_guard boolean DEFAULT false) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    BEGIN ATOMIC
 INSERT INTO repricer.put_backs (kind, batch_id, code, ended_from, is_of_guard)  SELECT note_put_back.p_kind AS p_kind,
             note_put_back.p_batch_id AS p_batch_id,
             note_put_back.p_code AS p_code,
             note_put_back.p_from AS p_from,
             note_put_back.p_is_of_guard AS p_is_of_guard
           WHERE ((note_put_back.p_kind IS NOT NULL) AND (note_put_back.p_from IS NOT NULL));
END;

CREATE FUNCTION repricer.note_recovery(p_since timestamp with time zone, p_at timestamp with time zone, p_adopted bigint, p_released bigint, p_ended bigint, p_unread bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    PERFORM append_audit(session_user::text, p_at, 'recovered', 'everything',
        json_build_object('since', p_since, 'found', json_build_object('adopted', p_adopted, 'released', p_released,
            'ended', p_ended, 'unread', p_unread)));
END
$$;

CREATE TABLE repricer.blocking_sessions (
    one_row boolean DEFAULT true NOT NULL,
    since timestamp with time zone,
    sessions text,
    is_all boolean DEFAULT false NOT NULL,
    seen_at timestamp with time zone,
    CONSTRAINT blocking_sessions_one_row CHECK (one_row)
);

COMMENT ON COLUMN repricer.blocking_sessions.since IS 'Since when rows are held, in real time; null: none are.';

COMMENT ON COLUMN repricer.blocking_sessions.is_all IS 'Whether nothing that is due can be claimed.';

COMMENT ON COLUMN repricer.blocking_sessions.seen_at IS 'When this was last seen, in real time. After three minutes it no longer counts.';

CREATE FUNCTION repricer.note_unclaimed(p_since timestamp with time zone, p_sessions text, p_is_all boolean DEFAULT true) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    BEGIN ATOMIC
 UPDATE repricer.blocking_sessions SET since = note_unclaimed.p_since, sessions =
         CASE
             WHEN (note_unclaimed.p_since IS NOT NULL) THEN note_unclaimed.p_sessions
             ELSE NULL::text
         END, is_all = (note_unclaimed.p_is_all AND (note_unclaimed.p_since IS NOT NULL)), seen_at = clock_timestamp()
   WHERE (blocking_sessions.one_row = ( SELECT blocking_sessions_1.one_row
            FROM repricer.blocking_sessions blocking_sessions_1
          FOR UPDATE OF blocking_sessions_1 SKIP LOCKED));
END;

CREATE FUNCTION repricer.note_unreached(p_kind text, p_at timestamp with time zone, p_answer text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_former jsonb;
    v_now CONSTANT timestamptz := clock_timestamp();
BEGIN
    IF NOT isfinite(p_at) THEN
        RAISE EXCEPTION 'a call is tried at an instant' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT unreached_kinds -> p_kind INTO v_former FROM service_controls FOR UPDATE;
    IF NOT coalesce(was_just_now((v_former ->> 'seen')::timestamptz), false) THEN
        v_former := jsonb_build_object('since', p_at);
    END IF;
    UPDATE service_controls SET unreached_kinds = unreached_kinds || jsonb_build_object(p_kind,
        v_former || jsonb_build_object('tried', p_at, 'answer', p_answer, 'seen', v_now));
END
$$;

CREATE FUNCTION repricer.open_recorders(p_at timestamp with time zone) RETURNS TABLE(id text)
    LANGUAGE sql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
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

CREATE FUNCTION repricer.paid_changes_at(p_at timestamp with time zone) RETURNS SETOF repricer.paid_changes
    LANGUAGE sql STABLE
    AS $$
 SELECT c.batch_id,
    c.original_transaction_id,
    c.bucket,
    c.change_id,
    c.currency,
    c.storefront,
    c.new_price_milliunits,
    h.sku,
        CASE
            WHEN ((h.paid_by = 1) AND (NOT h.is_added_seat)) THEN h.quantity
            ELSE COALESCE(( SELECT repricer.seats_of(array_agg(k.*)) AS seats_of
               FROM repricer.charges_at(p_at) k
              WHERE ((k.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (k.purchased_at >= c.effective_at) AND (k.expires_at = h.expires_at))), (1)::bigint)
        END AS quantity,
    h.expires_at AS paid_until,
    GREATEST(h.expires_at, e.until) AS word_due_at,
    (g.is_given_back OR h.is_offer OR ((h.currency = c.currency) AND (h.is_added_seat OR (h.price_milliunits = c.new_price_milliunits) OR COALESCE((h.price_milliunits = ANY (n.prices)), false)))) AS is_at_price,
    (n.prices IS NULL) AS is_newest,
    g.is_given_back
   FROM ((((repricer.unfrozen_changes_at(p_at) c
     CROSS JOIN LATERAL ( SELECT k.original_transaction_id,
            k.bucket,
            k.transaction_id,
            k.sku,
            k.purchased_at,
            k.expires_at,
            k.revoked_at,
            k.price_milliunits,
            k.quantity,
            k.currency,
            k.storefront,
            k.is_offer,
            k.is_purchase,
            k.is_added_seat,
            k.is_relisted,
            k.period,
            k.refunded_milliunits,
            k.recorded_at,
            count(*) OVER (PARTITION BY k.expires_at) AS paid_by
           FROM repricer.charges_at(p_at) k
          WHERE ((k.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (k.purchased_at >= c.effective_at) AND (k.expires_at IS NOT NULL))
          ORDER BY k.expires_at DESC, (k.revoked_at IS NOT NULL), ((k.refunded_milliunits > 0) AND (k.refunded_milliunits >= (k.price_milliunits * k.quantity))), k.is_added_seat, k.purchased_at DESC, k.transaction_id, (k.sku = COALESCE(c.current_sku, c.sku)) DESC, k.sku
         LIMIT 1) h)
     CROSS JOIN LATERAL ( SELECT ((h.refunded_milliunits > 0) AND (h.refunded_milliunits >= (h.price_milliunits * h.quantity))) AS is_given_back) g)
     CROSS JOIN LATERAL ( SELECT COALESCE(bool_or((t.type = ANY (ARRAY['EXPIRED'::text, 'REVOKE'::text]))), false) AS is_ended,
            max((t.signed_at +
                CASE t.type
                    WHEN 'RENEWAL_EXTENDED'::text THEN repricer.days(90)
                    ELSE repricer.days(61)
                END)) FILTER (WHERE ((t.type <> ALL (ARRAY['EXPIRED'::text, 'REVOKE'::text])) AND ((t.type <> 'RENEWAL_EXTENDED'::text) OR (NOT t.tells_end)))) AS until
           FROM repricer.told_statements_at(p_at) t
          WHERE ((t.original_transaction_id = c.original_transaction_id) AND (t.signed_at > h.purchased_at) AND (t.type = ANY (ARRAY['EXPIRED'::text, 'REVOKE'::text, 'DID_FAIL_TO_RENEW'::text, 'GRACE_PERIOD_EXPIRED'::text, 'RENEWAL_EXTENDED'::text])))) e)
     CROSS JOIN LATERAL ( SELECT array_agg(o.new_price_milliunits) AS prices
           FROM repricer.price_changes_at(p_at) o
          WHERE ((o.original_transaction_id = c.original_transaction_id) AND (o.change_id <> c.change_id) AND (o.state = 'effective'::text) AND (o.undoes_change_id IS NULL) AND (COALESCE(o.current_sku, o.sku) = COALESCE(c.current_sku, c.sku)) AND (ROW(o.effective_at, o.change_id) > ROW(c.effective_at, c.change_id)))) n)
  WHERE ((c.state = 'effective'::text) AND (NOT c.is_leaving) AND (c.undoes_change_id IS NULL) AND (NOT e.is_ended) AND (h.revoked_at IS NULL))
$$;

CREATE FUNCTION repricer.park_halted(p_limit integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_batch batches;
    v_rows bigint;
BEGIN
    SELECT * INTO v_batch FROM batches WHERE is_parking ORDER BY batch_id LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    -- A row that another session has locked is being sent. If it comes back into the queue, the claim itself leaves it out.
    WITH taken AS (
        SELECT original_transaction_id, bucket, change_id FROM price_changes
        WHERE batch_id = v_batch.batch_id AND stage = 'queued' AND state = 'queued' AND NOT is_held
            AND v_batch.halted_storefronts ? storefront
            AND change_id::text IS DISTINCT FROM v_batch.halted_storefronts -> storefront ->> 'probe'
        LIMIT p_limit FOR UPDATE SKIP LOCKED
    )
    UPDATE price_changes c SET is_held = true FROM taken t
        WHERE c.original_transaction_id = t.original_transaction_id AND c.change_id = t.change_id
            AND c.bucket = t.bucket;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows < p_limit THEN
        UPDATE batches SET is_parking = false WHERE batch_id = v_batch.batch_id;
    END IF;
    RETURN v_rows;
END
$$;

CREATE FUNCTION repricer.past_change_figures_at(p_at timestamp with time zone, p_batch uuid) RETURNS SETOF repricer.live_change_figures
    LANGUAGE sql STABLE
    AS $$
SELECT f.original_transaction_id, f.bucket, f.change_id, f.batch_id, f.is_undo, f.direction, f.forecast_consent, f.currency,
    f.storefront, f.period, f.state, f.is_sent, f.is_asked, f.acceptance, f.is_uncharged, f.current_price_milliunits,
    f.new_price_milliunits, f.renewals, f.first_at, f.old_total_milliunits, f.new_total_milliunits, f.state AS stage,
    true AS is_final, f.is_leaving, f.is_told, f.fell_with_parent, f.others_lost_milliunits, f.taxed_renewals,
    f.taxed_uplift_milliunits, f.paid_until, f.word_due_at, f.paid_sku, f.paid_quantity, f.seats
FROM repricer.frozen_figures_at(p_at) f
UNION ALL
SELECT l.* FROM repricer.live_change_figures_of_batch_at(p_at, p_batch) l
$$;

CREATE FUNCTION repricer.pause_again(p_batch_id uuid, p_at timestamp with time zone, p_by text, p_reason text) RETURNS boolean
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_batch batches;
    v_all service_controls;
    v_reason text;
BEGIN
    IF p_batch_id IS NULL THEN
        SELECT * INTO v_all FROM service_controls;
        v_reason := reason_of_pause(v_all.paused_by, v_all.paused_reason, p_by, p_reason);
        UPDATE service_controls SET paused_reason = v_reason;
        RETURN v_reason IS DISTINCT FROM v_all.paused_reason;
    END IF;
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id;
    IF v_batch.halted_by IS NULL THEN
        v_reason := reason_of_pause(v_batch.paused_by, v_batch.paused_reason, p_by, p_reason);
        IF v_reason IS DISTINCT FROM v_batch.paused_reason THEN
            PERFORM keep_batch(p_batch_id);
            UPDATE batches SET paused_reason = v_reason WHERE batch_id = p_batch_id;
        END IF;
        RETURN v_reason IS DISTINCT FROM v_batch.paused_reason;
    END IF;
    v_reason := CASE WHEN v_batch.also_paused_by IS NULL THEN p_reason
        ELSE reason_of_pause(v_batch.also_paused_by, v_batch.also_paused_reason, p_by, p_reason) END;
    UPDATE batches SET also_paused_by = coalesce(also_paused_by, p_by),
            also_paused_at = coalesce(also_paused_at, p_at), also_paused_reason = v_reason, probe_at = NULL
        WHERE batch_id = p_batch_id;
    RETURN v_batch.also_paused_by IS NULL OR v_reason IS DISTINCT FROM v_batch.also_paused_reason;
END
$$;

CREATE FUNCTION repricer.prepare_months(p_table text, p_at timestamp with time zone, p_ahead integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET "TimeZone" TO 'UTC'
    SET lock_timeout TO '2s'
    AS $_$
DECLARE
    v_column text;
    v_storage text := '';
    v_default text := p_table || '_default';
    v_months timestamptz[];
    v_from timestamptz;
    v_to timestamptz;
    v_name text;
    v_has_rows boolean;
    v_made integer := 0;
BEGIN
    CASE p_table
        WHEN 'notifications' THEN
            v_column := 'received_at';
            v_storage := ' WITH (toast_tuple_target = 128)';
        WHEN 'price_change_history' THEN
            v_column := 'occurred_at';
        WHEN 'subscription_events' THEN
            v_column := 'signed_at';
        WHEN 'subscription_event_versions', 'charge_versions', 'price_change_versions',
            'dependent_cancellation_versions' THEN
            v_column := 'recorded_until';
        ELSE
            RAISE EXCEPTION '% is not partitioned by month', p_table USING ERRCODE = 'invalid_parameter_value';
    END CASE;
    IF NOT coalesce(isfinite(p_at) AND p_ahead BETWEEN 0 AND 120, false) THEN
        RAISE EXCEPTION 'months are prepared from an instant on, and 120 ahead at most'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT array_agg(m ORDER BY m) INTO v_months
        FROM generate_series(date_trunc('month', p_at),
            date_trunc('month', p_at) + p_ahead * interval '1 month', interval '1 month') m
        WHERE NOT EXISTS (
            SELECT FROM month_partitions p
            WHERE p.parent = p_table AND p.starts_at <= m AND p.ends_at > m);
    IF v_months IS NULL THEN
        RETURN 0;
    END IF;
    IF p_table <> 'notifications' THEN
        -- Writers here are in the middle of a delivery or a decision. A writer that had already chosen the default
        -- partition would fail once the month exists. So this lock makes writers and readers wait, but does not wait long
        -- for them.
        SET LOCAL lock_timeout = '500ms';
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', p_table);
    ELSE
        -- One session at a time does this; a second one then finds the partitions made. Writers go on, and store again what
        -- fails.
        LOCK TABLE notifications IN SHARE UPDATE EXCLUSIVE MODE;
    END IF;
    EXECUTE format(
        'SELECT EXISTS (SELECT 1 FROM %I WHERE date_trunc(''month'', %I) = ANY ($1))', v_default, v_column)
        INTO v_has_rows USING v_months;
    IF v_has_rows THEN
        -- Rows will move. Readers must wait before they choose partitions: one that had already chosen would find these rows
        -- in none of them. The lock is taken before any partition is attached. Otherwise a session that holds the table and
        -- waits for its default partition could wait for us while we wait for it.
        EXECUTE format('LOCK TABLE %I IN ACCESS EXCLUSIVE MODE', p_table);
    END IF;
    FOREACH v_from IN ARRAY v_months LOOP
        v_to := v_from + interval '1 month';
        v_name := p_table || '_' || to_char(v_from, 'YYYY_MM');
        CONTINUE WHEN to_regclass(format('repricer.%I', v_name)) IS NOT NULL;
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)%s', v_name, p_table, v_storage);
        IF v_has_rows THEN
            EXECUTE format(
                'WITH moved AS (DELETE FROM %I WHERE %I >= $1 AND %I < $2 RETURNING *) '
                'INSERT INTO %I SELECT * FROM moved', v_default, v_column, v_column, v_name) USING v_from, v_to;
        END IF;
        IF v_has_rows AND p_table IN ('subscription_events', 'price_change_history') THEN
            -- A reader with an older snapshot finds these rows in neither partition. So the figures that it keeps are
            -- marked, and computed once more.
            EXECUTE format('INSERT INTO stale_figures (original_transaction_id, bucket) '
                'SELECT DISTINCT m.original_transaction_id, m.bucket FROM %I m', v_name);
        END IF;
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
            p_table, v_name, v_from, v_to);
        v_made := v_made + 1;
    END LOOP;
    RETURN v_made;
END
$_$;

CREATE FUNCTION repricer.price_changes_at(p_at timestamp with time zone) RETURNS SETOF repricer.price_changes
    LANGUAGE sql STABLE
    AS $$
SELECT c.original_transaction_id,
    c.bucket,
    c.change_id,
    c.batch_id,
    c.submitted_by,
    c.line,
    c.wave,
    c.is_held_out,
    c.undoes_change_id,
    c.sku,
    CASE WHEN v.state IS NULL THEN c.current_sku ELSE v.current_sku END,
    c.called_sku,
    CASE WHEN v.state IS NULL THEN c.former_skus ELSE v.former_skus END,
    CASE WHEN v.state IS NULL THEN c.former_until ELSE v.former_until END,
    c.dependent_skus,
    CASE WHEN v.state IS NULL THEN c.current_dependent_skus ELSE v.current_dependent_skus END,
    c.called_dependent_skus,
    c.direction,
    c.currency,
    c.storefront,
    c.period,
    c.current_price_milliunits,
    c.new_price_milliunits,
    c.expected_price_milliunits,
    c.effective_on_or_after,
    c.forecast_consent,
    c.forecast_reasons,
    c.forecast_not_known,
    c.forecast_threshold_source,
    c.forecast_rules,
    c.forecast_answers_id,
    c.forecast_renewal_at,
    c.forecast_notice_at,
    c.forecast_effective_at,
    c.at_risk_milliunits,
    c.at_risk_elsewhere,
    c.is_stale,
    c.forecast_seats,
    CASE WHEN v.state IS NULL THEN c.send_after ELSE v.send_after END,
    CASE WHEN v.state IS NULL THEN c.send_by ELSE v.send_by END,
    CASE WHEN v.state IS NULL THEN c.due_effective_at ELSE v.due_effective_at END,
    CASE WHEN v.state IS NULL THEN c.planned_effective_at ELSE v.planned_effective_at END,
    CASE WHEN v.state IS NULL THEN c.moved_before_call ELSE v.moved_before_call END,
    CASE WHEN v.state IS NULL THEN c.moved_since_call ELSE v.moved_since_call END,
    c.called_renewal_at,
    c.is_ready,
    c.is_held,
    c.goes_alone,
    c.parked_reason,
    c.parks,
    c.stale_tokens,
    c.next_attempt_at,
    CASE WHEN NOT k.is_unsent THEN CASE WHEN v.state IS NULL THEN c.request_reference_id ELSE v.request_reference_id END END,
    k.state,
    CASE k.state WHEN 'sending' THEN 'queued' ELSE k.state END,
    k.state_since,
    CASE WHEN v.state IS NULL THEN c.reason ELSE v.reason END,
    CASE WHEN v.state IS NULL THEN c.doubtful_since ELSE v.doubtful_since END,
    CASE WHEN v.state IS NULL THEN c.refused_at ELSE v.refused_at END,
    CASE WHEN NOT k.is_unsent THEN CASE WHEN v.state IS NULL THEN c.sent_at ELSE v.sent_at END END,
    CASE WHEN NOT k.is_later THEN CASE WHEN v.state IS NULL THEN c.scheduled_at ELSE v.scheduled_at END END,
    CASE WHEN v.state IS NULL THEN c.consent_asked_at ELSE v.consent_asked_at END,
    CASE WHEN v.state IS NULL THEN c.accepted_at ELSE v.accepted_at END,
    CASE WHEN v.state IS NULL THEN c.acceptance ELSE v.acceptance END,
    CASE WHEN v.state IS NULL THEN c.effective_at ELSE v.effective_at END,
    CASE WHEN v.state IS NULL THEN c.ended_at ELSE v.ended_at END,
    CASE WHEN v.state IS NULL THEN c.is_leaving ELSE v.is_leaving END,
    CASE WHEN v.state IS NULL THEN c.recorded_at ELSE v.recorded_at END,
    CASE WHEN v.state IS NULL THEN c.claim_recorded_at ELSE v.claim_recorded_at END
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
$$;

CREATE FUNCTION repricer.probe_storefronts(p_at timestamp with time zone, p_now timestamp with time zone, p_next timestamp with time zone) RETURNS TABLE(batch_id uuid, storefront text, subscription text, answer text, has_recovered boolean)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_batch batches;
    v_halt jsonb;
    v_probe price_changes;
    v_is_locked boolean;
BEGIN
    FOR v_batch IN SELECT b.* FROM batches b
        WHERE b.state = 'approved' AND NOT b.is_paused AND b.halted_storefronts <> '{}'
        ORDER BY b.batch_id FOR NO KEY UPDATE SKIP LOCKED
    LOOP
        FOR storefront, v_halt IN SELECT * FROM jsonb_each(v_batch.halted_storefronts)
        LOOP
            batch_id := v_batch.batch_id;
            SELECT * INTO v_probe FROM price_changes c
                WHERE c.batch_id = v_batch.batch_id AND c.change_id = (v_halt ->> 'probe')::uuid
                    AND c.original_transaction_id = v_halt ->> 'subscription';
            subscription := v_probe.original_transaction_id;
            -- A probe that waits for no further attempt never left, so its reason comes from an earlier attempt. A reason
            -- without a code does not come from the App Store.
            answer := CASE WHEN (v_probe.state <> 'queued' OR v_probe.next_attempt_at IS NOT NULL)
                AND v_probe.reason ~ '^[0-9]{3,} ' THEN v_probe.reason END;
            IF v_probe.stage IN ('scheduled', 'pending_consent', 'accepted', 'effective') THEN
                has_recovered := true;
                UPDATE batches b SET halted_storefronts = b.halted_storefronts - storefront WHERE b.batch_id = v_batch.batch_id;
                UPDATE price_changes c SET is_held = false
                    WHERE c.batch_id = v_batch.batch_id AND c.storefront = probe_storefronts.storefront
                        AND c.stage = 'queued' AND c.is_held;
                PERFORM append_audit(session_user::text, p_at, 'recover', 'batch:' || v_batch.batch_id,
                    json_build_object('storefront', storefront, 'halted_for', v_halt ->> 'reason'));
                RETURN NEXT;
            ELSIF (v_probe.state IN ('sending', 'unknown')
                    OR v_probe.state = 'queued' AND v_probe.next_attempt_at IS NULL AND NOT v_probe.is_held)
                AND (v_halt ->> 'probe_at')::timestamptz > p_now
            THEN
                -- The probe is on its way, or still has a part of its minute to leave.
                CONTINUE;
            ELSIF subscription IS NOT NULL AND v_probe.state NOT IN ('sending', 'unknown') THEN
                -- The probe was refused, has ended, or never left.
                has_recovered := false;
                UPDATE price_changes c SET is_held = true, next_attempt_at = p_now
                    WHERE c.original_transaction_id = v_probe.original_transaction_id AND c.bucket = v_probe.bucket
                        AND c.change_id = v_probe.change_id AND c.state = 'queued';
                UPDATE batches b SET halted_storefronts = jsonb_set(b.halted_storefronts, ARRAY[storefront],
                        v_halt - 'probe' - 'subscription'
                            || jsonb_strip_nulls(jsonb_build_object('answer', answer || ' for ' || subscription)))
                    WHERE b.batch_id = v_batch.batch_id;
                CONTINUE WHEN answer IS NULL;
                RETURN NEXT;
            ELSIF coalesce((v_halt ->> 'probe_at')::timestamptz, '-infinity') <= p_now THEN
                -- There is no probe, or it got no answer in its minute.
                -- A search over all buckets takes no lock on Citus. So what it finds is locked in its bucket, and checked again.
                v_is_locked := false;
                FOR v_probe IN SELECT * FROM price_changes c
                    WHERE c.batch_id = v_batch.batch_id AND c.storefront = probe_storefronts.storefront
                        AND c.stage = 'queued' AND c.state = 'queued' AND c.is_held AND (c.is_ready OR c.send_after <= p_at)
                        AND c.wave <= v_batch.released_wave
                    -- Rows that never probed come first.
                    ORDER BY c.next_attempt_at NULLS FIRST, c.send_by LIMIT 10
                LOOP
                    PERFORM FROM price_changes c
                        WHERE c.original_transaction_id = v_probe.original_transaction_id AND c.bucket = v_probe.bucket
                            AND c.change_id = v_probe.change_id AND c.state = 'queued' AND c.is_held
                            AND (c.is_ready OR c.send_after <= p_at)
                        FOR UPDATE SKIP LOCKED;
                    v_is_locked := FOUND;
                    EXIT WHEN v_is_locked;
                END LOOP;
                IF NOT v_is_locked AND NOT v_batch.is_parking THEN
                    -- A change that a claim held while the others were taken out has come back to the queue since.
                    PERFORM FROM price_changes c
                        WHERE c.batch_id = v_batch.batch_id AND c.storefront = probe_storefronts.storefront
                            AND c.stage = 'queued' AND c.state = 'queued' AND NOT c.is_held LIMIT 1;
                    IF FOUND THEN
                        UPDATE batches b SET is_parking = true WHERE b.batch_id = v_batch.batch_id;
                    ELSE
                        -- No change can probe now, and the search costs too much to repeat it all the time.
                        UPDATE batches b SET halted_storefronts = jsonb_set(b.halted_storefronts, ARRAY[storefront],
                                v_halt || jsonb_build_object('probe_at', p_next))
                            WHERE b.batch_id = v_batch.batch_id;
                    END IF;
                END IF;
                CONTINUE WHEN NOT v_is_locked;
                -- The former probe got no answer, and its own call waits with its storefront.
                IF subscription IS NOT NULL THEN
                    v_halt := v_halt || jsonb_build_object('answer', 'no answer for ' || subscription);
                END IF;
                UPDATE price_changes c SET is_held = false, is_ready = true, next_attempt_at = NULL
                    WHERE c.original_transaction_id = v_probe.original_transaction_id AND c.bucket = v_probe.bucket
                        AND c.change_id = v_probe.change_id;
                UPDATE batches b SET halted_storefronts = jsonb_set(b.halted_storefronts, ARRAY[storefront],
                        v_halt || jsonb_build_object('probe', v_probe.change_id, 'subscription',
                            v_probe.original_transaction_id, 'probe_at', p_next))
                    WHERE b.batch_id = v_batch.batch_id;
            END IF;
        END LOOP;
    END LOOP;
END
$$;

CREATE FUNCTION repricer.put_back_cancellations(p_halt repricer.put_backs, p_now timestamp with time zone, p_limit integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    c_refused CONSTANT text := 'Cancel a Subscription was refused with ';
    v_bucket smallint;
    v_found text[];
    v_ids text[];
    v_changes uuid[];
    v_skus text[];
    v_at timestamptz;
    v_moved bigint;
    v_rows bigint := 0;
    v_is_busy boolean := false;
BEGIN
    FOR v_bucket, v_found IN
        SELECT d.bucket, array_agg(DISTINCT d.original_transaction_id) FROM dependent_cancellations d
        WHERE d.state = 'discrepancy' AND starts_with(d.detail, c_refused)
            AND d.put_back_for IS DISTINCT FROM substr(d.detail, length(c_refused) + 1)
            AND d.settled_at <= coalesce(p_halt.ended_until, 'infinity')
            AND d.settled_at >= p_halt.ended_from - interval '1 minute'
        GROUP BY d.bucket ORDER BY d.bucket
    LOOP
        SELECT array_agg(met.original_transaction_id), array_agg(met.change_id), array_agg(met.dependent_sku)
        INTO v_ids, v_changes, v_skus FROM (
            SELECT d.original_transaction_id, d.change_id, d.dependent_sku
            FROM dependent_cancellations d
            JOIN subscriptions s ON s.original_transaction_id = d.original_transaction_id AND s.bucket = v_bucket
            WHERE d.original_transaction_id = ANY (v_found) AND d.bucket = v_bucket
                AND d.state = 'discrepancy' AND starts_with(d.detail, c_refused)
                AND d.put_back_for IS DISTINCT FROM substr(d.detail, length(c_refused) + 1)
                AND d.settled_at <= coalesce(p_halt.ended_until, 'infinity')
                AND d.settled_at >= p_halt.ended_from - interval '1 minute'
            ORDER BY d.original_transaction_id LIMIT p_limit - v_rows FOR UPDATE OF s, d SKIP LOCKED
        ) met;
        v_is_busy := v_is_busy OR (SELECT count(DISTINCT id) FROM unnest(v_ids) AS id)
            < least(cardinality(v_found), p_limit - v_rows);
        CONTINUE WHEN v_ids IS NULL;
        v_at := recording_instant();
        INSERT INTO dependent_cancellation_versions
            SELECT d.*, v_at FROM unnest(v_ids, v_changes, v_skus) AS met (id, change_id, sku)
            JOIN dependent_cancellations d ON d.original_transaction_id = met.id AND d.bucket = v_bucket
                AND d.change_id = met.change_id AND d.dependent_sku = met.sku
            ON CONFLICT DO NOTHING;
        UPDATE dependent_cancellations d SET recorded_at = v_at, state = 'requested', settled_at = NULL,
            settled_by_evidence = NULL, cancel_reference_id = NULL, next_check_at = p_now,
            put_back_for = substr(d.detail, length(c_refused) + 1),
            detail = substr(d.detail, length(c_refused) + 1) || ' (put back: others were refused alike)', checks = 0
        FROM unnest(v_ids, v_changes, v_skus) AS met (id, change_id, sku)
        WHERE d.original_transaction_id = met.id AND d.bucket = v_bucket
            AND d.change_id = met.change_id AND d.dependent_sku = met.sku AND d.state = 'discrepancy';
        GET DIAGNOSTICS v_moved = ROW_COUNT;
        v_rows := v_rows + v_moved;
        EXIT WHEN v_rows >= p_limit;
    END LOOP;
    RETURN CASE WHEN v_rows > 0 OR NOT v_is_busy THEN v_rows END;
END
$$;

CREATE FUNCTION repricer.put_back_changes(p_halt repricer.put_backs, p_at timestamp with time zone, p_now timestamp with time zone, p_limit integer, p_wait interval) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_recovered text[] := ARRAY(SELECT 'halt ' || h.put_back_id FROM put_backs h
        WHERE h.kind = 'price_change' AND h.code = p_halt.code AND h.is_recovered);
    v_soon timestamptz := p_now;
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_ids text[];
    v_changes uuid[];
    v_recorded_at timestamptz;
    v_moved bigint;
    v_rows bigint := 0;
    v_bucket smallint;
    v_found text[];
    v_batches uuid[];
    v_open uuid[];
    v_wanted integer;
    v_is_busy boolean := false;
BEGIN
    -- This goes bucket by bucket, because a statement that locks must name one. The rows that are found here are asked for
    -- again by their key, so that the ended changes of a batch are searched only once.
    FOR v_bucket, v_found, v_batches IN
        SELECT c.bucket, array_agg(DISTINCT c.original_transaction_id), array_agg(DISTINCT c.batch_id)
        FROM price_changes c JOIN batches b ON b.batch_id = c.batch_id
        WHERE c.stage = 'rejected' AND b.state = 'approved' AND (p_halt.batch_id IS NULL OR b.batch_id = p_halt.batch_id)
            AND c.reason ~ '^[0-9]{3,} ' AND least(c.ended_at, c.sent_at) <= coalesce(p_halt.ended_until, 'infinity')
            AND c.ended_at >= p_halt.ended_from - interval '1 minute'
        GROUP BY c.bucket ORDER BY c.bucket
    LOOP
        -- A batch that a session is withdrawing at this moment gets nothing back: its withdrawal would not see it.
        SELECT array_agg(met.batch_id) INTO v_open FROM (
            SELECT b.batch_id FROM batches b WHERE b.batch_id = ANY (v_batches) AND b.state = 'approved'
            ORDER BY b.batch_id FOR NO KEY UPDATE SKIP LOCKED
        ) met;
        v_is_busy := v_is_busy OR coalesce(cardinality(v_open), 0) < cardinality(v_batches);
        CONTINUE WHEN v_open IS NULL;
        IF v_soon = p_now AND EXISTS (
            SELECT 1 FROM price_changes c
            WHERE (p_halt.batch_id IS NULL OR c.batch_id = p_halt.batch_id) AND c.stage = 'queued' AND c.state = 'queued'
                AND c.is_ready AND NOT c.is_held AND c.next_attempt_at IS NULL)
        THEN
            v_soon := p_now + p_wait;
        END IF;
        SELECT array_agg(met.original_transaction_id), array_agg(met.change_id), count(*) INTO v_ids, v_changes, v_wanted FROM (
            SELECT c.original_transaction_id, c.change_id
            FROM price_changes c
            WHERE c.batch_id = ANY (v_open) AND c.stage = 'rejected' AND c.bucket = v_bucket
                AND c.original_transaction_id = ANY (v_found)
                AND c.reason ~ '^[0-9]{3,} ' AND least(c.ended_at, c.sent_at) <= coalesce(p_halt.ended_until, 'infinity')
                AND (NOT p_halt.is_of_guard OR starts_with(c.reason, p_halt.code || ' ') AND NOT EXISTS (
                    SELECT FROM price_change_history h
                    WHERE h.original_transaction_id = c.original_transaction_id AND h.bucket = v_bucket
                        AND h.change_id = c.change_id AND starts_with(h.evidence_id, 'halt ')
                        AND h.reason LIKE '%: ' || p_halt.code || ' %'))
                AND (c.ended_at >= p_halt.ended_from OR c.ended_at >= p_halt.ended_from - interval '1 minute'
                    AND starts_with(c.reason, p_halt.code || ' ')
                    AND NOT EXISTS (
                        SELECT FROM price_change_history h
                        WHERE h.original_transaction_id = c.original_transaction_id AND h.bucket = v_bucket
                            AND h.change_id = c.change_id AND h.evidence_id = ANY (v_recovered)))
                AND NOT EXISTS (
                    SELECT FROM price_changes o
                    WHERE o.original_transaction_id = c.original_transaction_id AND o.bucket = v_bucket
                        AND o.change_id <> c.change_id AND o.ended_at IS NULL
                        AND (coalesce(o.current_sku, o.sku) = coalesce(c.current_sku, c.sku) AND c.undoes_change_id IS NULL
                                AND o.undoes_change_id IS NULL
                            OR o.undoes_change_id = c.undoes_change_id))
                AND NOT EXISTS (
                    SELECT FROM dependency_roles r
                    WHERE r.original_transaction_id = c.original_transaction_id AND r.bucket = v_bucket
                        AND c.dependent_skus <> '{}' AND r.sku = ANY (
                            coalesce(c.current_dependent_skus, c.dependent_skus) || coalesce(c.current_sku, c.sku)))
            ORDER BY c.original_transaction_id, c.change_id LIMIT p_limit - v_rows
        ) met;
        CONTINUE WHEN v_ids IS NULL;
        -- A session that has locked the subscription is writing it at this moment; a later check finds it free.
        SELECT array_agg(met.original_transaction_id), array_agg(met.change_id) INTO v_ids, v_changes FROM (
            SELECT c.original_transaction_id, c.change_id
            FROM price_changes c
            JOIN subscriptions s ON s.original_transaction_id = c.original_transaction_id AND s.bucket = v_bucket
            WHERE c.original_transaction_id = ANY (v_ids) AND c.change_id = ANY (v_changes) AND c.bucket = v_bucket
                AND c.stage = 'rejected'
            ORDER BY c.original_transaction_id, c.change_id FOR UPDATE OF s, c SKIP LOCKED
        ) met;
        v_is_busy := v_is_busy OR coalesce(cardinality(v_ids), 0) < v_wanted;
        CONTINUE WHEN v_ids IS NULL;
        v_recorded_at := keep_changes(v_ids, v_changes);
        WITH moved AS (
            UPDATE price_changes c SET state = 'queued', ended_at = NULL, refused_at = coalesce(c.refused_at, c.sent_at), sent_at = NULL,
                state_since = p_at,
                -- They are spread over time, so that others succeed in between, and those that are refused rightly form no
                -- streak.
                next_attempt_at = CASE WHEN v_soon > p_now AND c.send_by > p_at + interval '10 minutes' + (v_rows + met.place) * interval '1 second'
                    THEN v_soon + (v_rows + met.place) * p_wait / 120 ELSE p_now END,
                recorded_at = v_recorded_at
            FROM unnest(v_ids, v_changes) WITH ORDINALITY AS met (id, change_id, place)
            WHERE c.original_transaction_id = met.id AND c.change_id = met.change_id
                AND c.bucket = v_bucket AND c.state = 'rejected'
            RETURNING c.*
        ), roles AS (
            INSERT INTO dependency_roles (original_transaction_id, bucket, sku, role, change_id)
            SELECT m.original_transaction_id, m.bucket, part.sku, part.role, m.change_id
            FROM moved m CROSS JOIN LATERAL (
                SELECT coalesce(m.current_sku, m.sku), 'parent'
                UNION ALL SELECT unnest(coalesce(m.current_dependent_skus, m.dependent_skus)), 'dependent'
            ) AS part (sku, role)
            WHERE m.dependent_skus <> '{}'
            ON CONFLICT DO NOTHING
        ), told AS (
            INSERT INTO price_change_history
                (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id, reason, actor)
            SELECT original_transaction_id, bucket, change_id, p_at, state, 'judgement', 'halt ' || p_halt.put_back_id,
                'put back, others were refused alike: ' || reason, v_by
            FROM moved ON CONFLICT DO NOTHING
        )
        SELECT count(*) INTO v_moved FROM moved;
        v_rows := v_rows + v_moved;
        EXIT WHEN v_rows >= p_limit;
    END LOOP;
    RETURN CASE WHEN v_rows > 0 OR NOT v_is_busy THEN v_rows END;
END
$$;

CREATE FUNCTION repricer.put_back_extensions(p_halt repricer.put_backs, p_now timestamp with time zone, p_limit integer) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_bucket smallint;
    v_found uuid[];
    v_ids text[];
    v_extensions uuid[];
    v_moved bigint;
    v_rows bigint := 0;
    v_is_busy boolean := false;
BEGIN
    FOR v_bucket, v_found IN
        SELECT met.bucket, array_agg(met.extension_id) FROM (
            SELECT DISTINCT ON (e.bucket, e.original_transaction_id) e.bucket, e.extension_id
            FROM extension_requests e
            WHERE e.state = 'refused' AND e.settled_by = 'answer'
                AND e.put_back_for IS DISTINCT FROM coalesce(e.code, e.detail)
                AND least(e.settled_at, e.called_at) <= coalesce(p_halt.ended_until, 'infinity')
                AND e.settled_at >= p_halt.ended_from - interval '1 minute'
                AND NOT EXISTS (SELECT FROM extension_requests o
                    WHERE o.original_transaction_id = e.original_transaction_id AND o.bucket = e.bucket
                        AND o.state IN ('queued', 'sending', 'unknown'))
            ORDER BY e.bucket, e.original_transaction_id, e.settled_at DESC) met
        GROUP BY met.bucket ORDER BY met.bucket
    LOOP
        SELECT array_agg(held.original_transaction_id), array_agg(held.extension_id) INTO v_ids, v_extensions FROM (
            SELECT e.original_transaction_id, e.extension_id
            FROM extension_requests e
            JOIN subscriptions s ON s.original_transaction_id = e.original_transaction_id AND s.bucket = v_bucket
            WHERE e.extension_id = ANY (v_found) AND e.bucket = v_bucket AND e.state = 'refused'
                AND e.settled_by = 'answer' AND e.put_back_for IS DISTINCT FROM coalesce(e.code, e.detail)
                AND least(e.settled_at, e.called_at) <= coalesce(p_halt.ended_until, 'infinity')
                AND e.settled_at >= p_halt.ended_from - interval '1 minute'
            ORDER BY e.original_transaction_id LIMIT p_limit - v_rows FOR UPDATE OF s, e SKIP LOCKED
        ) held;
        v_is_busy := v_is_busy OR coalesce(cardinality(v_ids), 0) < least(cardinality(v_found), p_limit - v_rows);
        CONTINUE WHEN v_ids IS NULL;
        UPDATE extension_requests e SET state = 'queued', call_id = NULL, code = NULL, settled_at = NULL,
            put_back_for = coalesce(e.code, e.detail),
            settled_by = NULL, detail = 'put back, others were refused alike: ' || coalesce(e.code, e.detail),
            effective_at = NULL, called_at = CASE WHEN e.is_doubtful THEN e.called_at END,
            renewal_before = CASE WHEN e.is_doubtful THEN e.renewal_before END, next_attempt_at = p_now
        FROM unnest(v_ids, v_extensions) AS held (id, extension_id)
        WHERE e.original_transaction_id = held.id AND e.extension_id = held.extension_id AND e.bucket = v_bucket
            AND e.state = 'refused'
            -- Another one may have been requested before the lock was taken.
            AND NOT EXISTS (SELECT FROM extension_requests o
                WHERE o.original_transaction_id = e.original_transaction_id AND o.bucket = v_bucket
                    AND o.state IN ('queued', 'sending', 'unknown'));
        GET DIAGNOSTICS v_moved = ROW_COUNT;
        v_rows := v_rows + v_moved;
        EXIT WHEN v_rows >= p_limit;
    END LOOP;
    RETURN CASE WHEN v_rows > 0 OR NOT v_is_busy THEN v_rows END;
END
$$;

CREATE FUNCTION repricer.put_back_mass_extensions(p_halt repricer.put_backs, p_now timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_extension uuid;
    v_subject text;
    v_moved bigint;
    v_rows bigint := 0;
BEGIN
    FOR v_extension, v_subject IN
        SELECT m.extension_id, 'product:' || m.product_id FROM mass_extensions m
        WHERE m.state = 'refused'
            AND m.extension_id = (SELECT max(n.extension_id::text)::uuid FROM mass_extensions n
                WHERE n.product_id = m.product_id AND n.state = 'refused')
            AND NOT EXISTS (SELECT FROM mass_extensions o WHERE o.product_id = m.product_id
                AND o.state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'running'))
        ORDER BY m.extension_id
    LOOP
        CONTINUE WHEN NOT EXISTS (
            SELECT FROM store_calls r
            WHERE r.subject = v_subject AND r.bucket = bucket_of(v_subject)
                AND v_extension = ANY (r.carries) AND r.settled_at >= p_halt.ended_from - interval '1 minute'
                AND r.prepared_at <= coalesce(p_halt.ended_until, 'infinity'));
        UPDATE mass_extensions m SET state = 'queued', code = NULL, detail = NULL, called_at = NULL,
            next_attempt_at = p_now
        WHERE m.extension_id = v_extension AND m.state = 'refused'
            -- Another one may have been submitted since the search began.
            AND NOT EXISTS (SELECT FROM mass_extensions o WHERE o.product_id = m.product_id
                AND o.state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'running'));
        GET DIAGNOSTICS v_moved = ROW_COUNT;
        v_rows := v_rows + v_moved;
    END LOOP;
    RETURN v_rows;
END
$$;

CREATE FUNCTION repricer.put_back_refused(p_at timestamp with time zone, p_now timestamp with time zone, p_limit integer, p_wait interval) RETURNS TABLE(kind text, batch_id uuid, code text, rows bigint)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_halt repricer.put_backs;
    v_batch uuid;
BEGIN
    FOR v_halt IN SELECT * FROM put_backs h
        WHERE NOT h.is_done AND (h.next_check_at <= p_now OR h.ended_until IS NOT NULL)
        ORDER BY h.put_back_id FOR UPDATE SKIP LOCKED
    LOOP
        kind := v_halt.kind;
        batch_id := v_halt.batch_id;
        code := v_halt.code;
        rows := CASE kind
            WHEN 'price_change' THEN put_back_changes(v_halt, p_at, p_now, p_limit, p_wait)
            WHEN 'extension' THEN put_back_extensions(v_halt, p_now, p_limit)
            WHEN 'cancel' THEN put_back_cancellations(v_halt, p_now, p_limit)
            ELSE put_back_mass_extensions(v_halt, p_now) END;
        IF rows > 0 THEN
            RETURN NEXT;
        ELSIF rows = 0 AND (v_halt.ended_until IS NOT NULL AND v_halt.checks > 1 AND NOT still_checks_refusals(v_halt, p_at)
            OR EXISTS (SELECT FROM batches b WHERE b.batch_id = v_halt.batch_id AND b.state <> 'approved'))
        THEN
            UPDATE put_backs h SET is_done = true WHERE h.put_back_id = v_halt.put_back_id;
        END IF;
        -- A halt is checked often at first, and later as often as checks of refused calls may end. A check that met locked
        -- rows is not counted.
        UPDATE put_backs h SET checks = checks + CASE WHEN rows IS NULL THEN 0 ELSE 1 END,
                next_check_at = p_now + CASE WHEN rows > 0 OR checks < 20 THEN interval '0' ELSE interval '5 seconds' END
            WHERE h.put_back_id = v_halt.put_back_id;
    END LOOP;
    -- A batch with nothing left to call needs no streak any more, and nothing of it gets a second chance. Each batch is asked
    -- by itself, because Citus joins no local table with a distributed one.
    FOR v_batch IN SELECT r.batch_id FROM refusal_streaks r WHERE r.batch_id IS NOT NULL
        UNION SELECT h.batch_id FROM put_backs h WHERE h.batch_id IS NOT NULL AND h.kind = 'price_change'
        ORDER BY 1
    LOOP
        IF NOT EXISTS (SELECT 1 FROM price_changes c
            WHERE c.batch_id = v_batch AND c.stage IN ('queued', 'unknown'))
        THEN
            DELETE FROM refusal_streaks r WHERE r.batch_id = v_batch;
            DELETE FROM put_backs h WHERE h.batch_id = v_batch AND h.is_done;
            -- Then no change is left that could probe whether its halt is over.
            IF EXISTS (SELECT FROM batches b WHERE b.batch_id = v_batch AND b.state = 'approved')
                AND NOT EXISTS (SELECT FROM put_backs h WHERE h.batch_id = v_batch AND NOT h.is_done AND h.checks < 3)
            THEN
                -- A session that has locked the batch is deciding about it. Other batches do not wait for that.
                PERFORM FROM batches b WHERE b.batch_id = v_batch FOR UPDATE SKIP LOCKED;
                IF FOUND THEN
                    PERFORM recover_batch(v_batch, p_at);
                END IF;
            END IF;
        END IF;
    END LOOP;
    DELETE FROM put_backs h WHERE h.batch_id IS NULL AND h.is_done AND h.kind <> 'price_change';
    IF EXISTS (SELECT FROM put_backs h WHERE h.batch_id IS NULL AND h.is_done AND h.next_check_at <= p_now) THEN
        IF has_changes_to_call() THEN
            UPDATE put_backs h SET next_check_at = p_now + interval '5 seconds' WHERE h.batch_id IS NULL AND h.is_done;
        ELSE
            DELETE FROM put_backs h WHERE h.batch_id IS NULL AND h.is_done;
        END IF;
    END IF;
END
$$;

CREATE FUNCTION repricer.rate_clock() RETURNS bigint
    LANGUAGE sql
    RETURN ((EXTRACT(epoch FROM clock_timestamp()) * (1000000)::numeric))::bigint;

CREATE FUNCTION repricer.reason_of_pause(p_paused_by text, p_paused_reason text, p_by text, p_reason text) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
SELECT CASE WHEN p_reason IS NULL THEN p_paused_reason
    WHEN p_by = p_paused_by THEN p_reason
    ELSE coalesce(p_paused_reason, p_by || ': ' || p_reason) END
$$;

CREATE FUNCTION repricer.record_dependent_claims(p_batch_id uuid) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    AS $_$
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM price_changes WHERE batch_id = p_batch_id AND dependent_skus <> '{}') THEN
        RETURN;
    END IF;
    -- Only one batch at a time records claims, because two side by side would not see each other's. No other writer waits.
    LOCK TABLE dependent_claims IN SHARE UPDATE EXCLUSIVE MODE;
    INSERT INTO dependent_claims (original_transaction_id, bucket, sku, claimed_by, change_id, period)
        SELECT n.place[1], bucket_of(n.place[1]), n.place[2], c.original_transaction_id, c.change_id,
            (SELECT coalesce(s.renewal_period, s.period) FROM subscriptions s
                WHERE s.original_transaction_id = n.place[1] AND s.bucket = bucket_of(n.place[1]))
        FROM price_changes c, unnest(c.dependent_skus) AS name,
            LATERAL (SELECT regexp_match(name, '^([0-9]+)/(.+)$') AS place) n
        WHERE c.batch_id = p_batch_id AND c.dependent_skus <> '{}' AND c.state = 'awaiting_approval'
            AND n.place IS NOT NULL
        ON CONFLICT DO NOTHING;
    WITH named AS MATERIALIZED (
        SELECT DISTINCT c.original_transaction_id AS id, c.change_id, s.app_account_token AS customer,
            n.name AS sku, jsonb_build_array(jsonb_build_object('sku', n.name, 'renews', true)) AS item
        FROM price_changes c
        JOIN subscriptions s ON s.original_transaction_id = c.original_transaction_id AND s.bucket = c.bucket
            AND s.app_account_token IS NOT NULL
        CROSS JOIN LATERAL unnest(c.dependent_skus) AS n (name)
        WHERE c.batch_id = p_batch_id AND c.dependent_skus <> '{}' AND n.name !~ '^[0-9]+/.'
            AND c.state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'scheduled',
                'pending_consent', 'accepted')
            AND NOT s.items @> jsonb_build_array(jsonb_build_object('sku', n.name, 'renews', true))
    )
    INSERT INTO dependent_claims (original_transaction_id, bucket, sku, claimed_by, change_id, period)
        SELECT o.original_transaction_id, o.bucket, n.sku, n.id, n.change_id, coalesce(o.renewal_period, o.period)
        FROM named n JOIN subscriptions o ON o.app_account_token = n.customer AND o.original_transaction_id <> n.id
            AND o.items @> n.item AND o.auto_renews IS NOT FALSE
            AND coalesce(o.status IN (1, 3, 4), true)
        ON CONFLICT DO NOTHING;
END
$_$;

CREATE FUNCTION repricer.recover_batch(p_batch_id uuid, p_at timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_batch batches;
BEGIN
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id AND is_paused AND probe_at IS NOT NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    PERFORM keep_batch(p_batch_id);
    UPDATE batches SET is_paused = false, halted_by = NULL, probe_at = NULL, probe_answer = NULL, paused_by = NULL,
            paused_at = NULL, paused_reason = NULL
        WHERE batch_id = p_batch_id;
    UPDATE put_backs SET ended_until = coalesce(ended_until, p_at), is_recovered = true WHERE batch_id = p_batch_id;
    PERFORM append_audit(session_user::text, p_at, 'recover', 'batch:' || p_batch_id,
        json_build_object('halted_for', v_batch.paused_reason));
    RETURN true;
END
$$;

CREATE FUNCTION repricer.recover_kind(p_kind text, p_at timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_halt jsonb;
    v_is_halted boolean;
BEGIN
    -- A refusal of price changes halts them alone; a refused key halts all kinds.
    SELECT halted_kinds -> p_kind, halted_at IS NOT NULL AND (p_kind = 'price_change' OR starts_with(halted_reason, '401'))
        INTO v_halt, v_is_halted FROM service_controls WHERE halted_kinds ? p_kind FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE service_controls SET halted_kinds = halted_kinds - p_kind;
    UPDATE put_backs SET ended_until = coalesce(ended_until, p_at), is_recovered = true
        WHERE batch_id IS NULL AND kind = p_kind AND NOT v_is_halted;
    PERFORM append_audit(session_user::text, p_at, 'recover', 'calls:' || p_kind,
        json_build_object('halted_for', v_halt ->> 'reason'));
    RETURN true;
END
$$;

CREATE FUNCTION repricer.recover_service(p_at timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_reason text;
    v_kinds jsonb;
BEGIN
    SELECT halted_reason, halted_kinds INTO v_reason, v_kinds FROM service_controls WHERE halted_at IS NOT NULL FOR UPDATE;
    IF NOT FOUND THEN
        RETURN false;
    END IF;
    UPDATE service_controls SET halted_at = NULL, halted_reason = NULL, halted_answer = NULL;
    UPDATE put_backs SET ended_until = coalesce(ended_until, p_at), is_recovered = true WHERE batch_id IS NULL
        AND NOT v_kinds ? kind;
    PERFORM append_audit(session_user::text, p_at, 'recover', 'everything', json_build_object('halted_for', v_reason));
    RETURN true;
END
$$;

CREATE FUNCTION repricer.refuse_audit_change() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    RAISE EXCEPTION 'the audit trail is append-only' USING ERRCODE = 'insufficient_privilege';
END
$$;

CREATE FUNCTION repricer.refuse_unfinished_submission() RETURNS trigger
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT FROM batches WHERE batch_id = NEW.batch_id AND state = 'submitting') THEN
        RAISE EXCEPTION 'the submission of batch % was not finished', NEW.batch_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN NULL;
END
$$;

CREATE FUNCTION repricer.reject_extension(p_extension_id uuid, p_reason text, p_at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_mass mass_extensions;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_mass FROM mass_extensions WHERE extension_id = p_extension_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no mass extension %', p_extension_id USING ERRCODE = 'no_data_found';
    END IF;
    IF v_mass.state NOT IN ('awaiting_approval', 'queued') OR v_mass.called_at IS NOT NULL THEN
        RAISE EXCEPTION 'mass extension % is %: it can''t be taken back', p_extension_id, v_mass.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- It is sent again under its identifier, and the App Store applies an identifier only once.
    IF v_mass.state = 'queued' AND v_mass.doubtful_since IS NOT NULL THEN
        RAISE EXCEPTION 'mass extension % may have been called by the database that is lost: it can''t be taken back',
            p_extension_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    UPDATE mass_extensions SET state = 'rejected', rejected_by = v_by, rejected_at = p_at,
            decision_reason = p_reason
        WHERE extension_id = p_extension_id;
    PERFORM append_audit(session_user::text, p_at, 'reject', 'extension:' || p_extension_id,
        json_build_object('reason', p_reason));
END
$$;

CREATE FUNCTION repricer.release_due_waves(p_at timestamp with time zone) RETURNS TABLE(batch_id uuid, name text, wave integer, label text)
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_batch batches;
    -- A replica's clock may be ahead, and nobody may choose the instant: a wave is released at its approved time.
    v_at timestamptz := decision_instant(p_at);
BEGIN
    IF EXISTS (SELECT FROM service_controls
            WHERE is_paused OR halted_at IS NOT NULL OR halted_kinds ? 'price_change' OR throttled_kinds ? 'price_change'
                OR catch_up_since IS NOT NULL
                OR was_just_now((unreached_kinds #>> '{price_change,seen}')::timestamptz))
        -- The App Store asks for a second of silence now and then. An hour of it is another matter.
        OR EXISTS (SELECT FROM rate_limits
            WHERE endpoint = 'change_price' AND blocked_until > v_at + interval '1 minute')
    THEN
        RETURN;
    END IF;
    FOR v_batch IN
        SELECT b.* FROM batches b
        WHERE b.next_release_at <= v_at AND b.state = 'approved'
            AND (NOT b.is_paused OR b.probe_at IS NOT NULL)
        ORDER BY b.next_release_at FOR UPDATE SKIP LOCKED
    LOOP
        -- Citus takes no subquery without a column here.
        CONTINUE WHEN v_batch.is_paused AND EXISTS (
            SELECT 1 FROM price_changes c
            WHERE c.batch_id = v_batch.batch_id AND c.stage IN ('queued', 'unknown')
                AND c.wave <= v_batch.released_wave);
        PERFORM release_waves_through(v_batch, v_batch.released_wave + 1, session_user::text, v_at);
        batch_id := v_batch.batch_id;
        name := v_batch.name;
        wave := v_batch.released_wave + 1;
        label := v_batch.waves -> v_batch.released_wave::integer ->> 'label';
        RETURN NEXT;
    END LOOP;
END
$$;

CREATE FUNCTION repricer.release_wave(p_batch_id uuid, p_wave integer, p_at timestamp with time zone) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_batch batches;
    v_through integer;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
    END IF;
    IF v_batch.state <> 'approved' THEN
        RAISE EXCEPTION 'batch % is %; waves of an approved batch are released', p_batch_id, v_batch.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF v_batch.waves = '[]' THEN
        RAISE EXCEPTION 'batch % has no waves: its approval released all of it', p_batch_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    v_through := coalesce(p_wave, v_batch.released_wave + 1);
    IF v_through <= v_batch.released_wave OR v_through > jsonb_array_length(v_batch.waves) THEN
        RAISE EXCEPTION 'batch % has % waves, % of them released', p_batch_id,
            jsonb_array_length(v_batch.waves), v_batch.released_wave
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    PERFORM release_waves_through(v_batch, v_through, session_user::text, p_at);
    RETURN v_through;
END
$$;

CREATE FUNCTION repricer.release_waves_through(p_batch repricer.batches, p_through integer, p_actor text, p_at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_waves jsonb := p_batch.waves;
    v_wave integer;
BEGIN
    FOR v_wave IN p_batch.released_wave + 1 .. p_through LOOP
        v_waves := jsonb_set(v_waves, ARRAY[(v_wave - 1)::text, 'released_at'], to_jsonb(p_at));
    END LOOP;
    UPDATE batches SET waves = v_waves, released_wave = p_through,
            next_release_at = wave_release_at(v_waves -> p_through, v_waves -> (p_through - 1), p_at)
        WHERE batch_id = p_batch.batch_id;
    PERFORM append_audit(p_actor, p_at, 'release', 'batch:' || p_batch.batch_id,
        json_build_object('wave', p_through, 'of', jsonb_array_length(v_waves),
            'label', v_waves -> (p_through - 1) ->> 'label'));
END
$$;

CREATE FUNCTION repricer.renewal_told(p_statement jsonb) RETURNS jsonb
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN (jsonb_typeof((p_statement -> 'renewal'::text)) = 'object'::text) THEN jsonb_build_object('renewal', jsonb_strip_nulls(jsonb_build_object('period', (p_statement #> '{renewal,period}'::text[]), 'autoRenewStatus', (p_statement #> '{renewal,autoRenewStatus}'::text[]), 'recentSubscriptionStartAt', (p_statement #> '{renewal,recentSubscriptionStartAt}'::text[]), 'items', CASE WHEN (jsonb_typeof((p_statement #> '{renewal,items}'::text[])) = 'array'::text) THEN COALESCE((SELECT jsonb_agg(jsonb_build_object('sku', (i.value -> 'sku'::text))) AS jsonb_agg FROM jsonb_array_elements((renewal_told.p_statement #> '{renewal,items}'::text[])) i(value)), '[]'::jsonb) ELSE NULL::jsonb END))) ELSE NULL::jsonb END;

CREATE FUNCTION repricer.request_extension(p_original_transaction_id text, p_extension_id uuid, p_days integer, p_reason integer, p_note text, p_at timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_known extension_requests;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    PERFORM 1 FROM subscriptions WHERE original_transaction_id = p_original_transaction_id
        AND bucket = bucket_of(p_original_transaction_id) FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'unknown_subscription: nothing was ever received of %', p_original_transaction_id
            USING ERRCODE = 'no_data_found';
    END IF;
    SELECT * INTO v_known FROM extension_requests WHERE extension_id = p_extension_id LIMIT 1;
    IF FOUND THEN
        IF (v_known.original_transaction_id, v_known.extend_by_days, v_known.reason_code)
            IS DISTINCT FROM (p_original_transaction_id, p_days, p_reason)
        THEN
            RAISE EXCEPTION 'request % was made with other terms: % by % days, reason %', p_extension_id,
                v_known.original_transaction_id, v_known.extend_by_days, v_known.reason_code
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        RETURN false;
    END IF;
    -- The App Store answers a known identifier as it did the first time, and extends nothing.
    IF EXISTS (SELECT FROM mass_extensions WHERE extension_id = p_extension_id) THEN
        RAISE EXCEPTION 'request % is a mass extension; one of a single subscription needs an identifier of its own',
            p_extension_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF EXISTS (SELECT 1 FROM extension_requests WHERE original_transaction_id = p_original_transaction_id
        AND bucket = bucket_of(p_original_transaction_id) AND state IN ('queued', 'sending', 'unknown'))
    THEN
        RAISE EXCEPTION 'extension_open: another extension of % is under way', p_original_transaction_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO extension_requests (original_transaction_id, bucket, extension_id, extend_by_days, reason_code, note,
            requested_by, requested_at)
        VALUES (p_original_transaction_id, bucket_of(p_original_transaction_id), p_extension_id, p_days, p_reason, p_note, v_by, p_at);
    PERFORM append_audit(session_user::text, p_at, 'extend', 'extension:' || p_extension_id,
        json_build_object('subscription', p_original_transaction_id, 'days', p_days, 'reason', p_reason,
            'note', p_note));
    RETURN true;
END
$$;

CREATE FUNCTION repricer.request_mass_extension(p_extension_id uuid, p_product_id text, p_storefronts text[], p_days integer, p_reason integer, p_note text, p_eligible bigint, p_ineligible jsonb, p_at timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_known mass_extensions;
    v_open uuid;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_known FROM mass_extensions WHERE extension_id = p_extension_id FOR UPDATE;
    IF FOUND THEN
        IF (v_known.product_id, v_known.storefronts, v_known.extend_by_days, v_known.reason_code)
            IS DISTINCT FROM (p_product_id, p_storefronts, p_days, p_reason)
        THEN
            RAISE EXCEPTION 'request % was made with other terms', p_extension_id
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        RETURN false;
    END IF;
    IF EXISTS (SELECT 1 FROM extension_requests WHERE extension_id = p_extension_id) THEN
        RAISE EXCEPTION 'request % is an extension of one subscription; a mass extension needs an identifier of its own',
            p_extension_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    SELECT extension_id INTO v_open FROM mass_extensions WHERE product_id = p_product_id
        AND state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'running');
    IF FOUND THEN
        RAISE EXCEPTION 'mass extension % of % is under way; it must be complete before another begins',
            v_open, p_product_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO mass_extensions (extension_id, product_id, storefronts, extend_by_days, reason_code, note,
            eligible_count, ineligible, submitted_by, submitted_at)
        VALUES (p_extension_id, p_product_id, p_storefronts, p_days, p_reason, p_note, p_eligible, p_ineligible,
            v_by, p_at);
    PERFORM append_audit(session_user::text, p_at, 'submit', 'extension:' || p_extension_id,
        json_build_object('product', p_product_id, 'storefronts', p_storefronts, 'days', p_days,
            'reason', p_reason, 'note', p_note, 'eligible', p_eligible, 'ineligible', p_ineligible));
    RETURN true;
END
$$;

CREATE FUNCTION repricer.request_retries(p_mass_extension_id uuid, p_ids text[], p_extension_ids uuid[], p_at timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_mass mass_extensions;
    v_count bigint;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_mass FROM mass_extensions WHERE extension_id = p_mass_extension_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no mass extension %', p_mass_extension_id USING ERRCODE = 'no_data_found';
    END IF;
    IF v_mass.called_at IS NULL THEN
        RAISE EXCEPTION 'mass extension % is %: nothing of it can have failed', p_mass_extension_id, v_mass.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    INSERT INTO extension_requests (original_transaction_id, bucket, extension_id, mass_extension_id, extend_by_days,
            reason_code, requested_by, requested_at)
        SELECT w.id, bucket_of(w.id), w.extension_id, p_mass_extension_id, v_mass.extend_by_days, v_mass.reason_code,
            v_by, p_at
        FROM unnest(p_ids, p_extension_ids) AS w (id, extension_id)
        WHERE w.id IN (SELECT failed_extensions(p_mass_extension_id))
        ORDER BY w.id
        ON CONFLICT DO NOTHING;
    GET DIAGNOSTICS v_count = ROW_COUNT;
    IF v_count > 0 THEN
        PERFORM append_audit(session_user::text, p_at, 'retry_failed', 'extension:' || p_mass_extension_id,
            json_build_object('subscriptions', v_count));
    END IF;
    RETURN v_count;
END
$$;

CREATE FUNCTION repricer.require_another(p_submitter text, p_what text) RETURNS void
    LANGUAGE plpgsql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    IF p_submitter = session_user THEN
        RAISE EXCEPTION 'user % submitted this %; another user must approve it', session_user, p_what
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = p_submitter) THEN
        RAISE EXCEPTION 'user %, who submitted this %, no longer exists, so nobody can tell whether you are another person; reject it, and submit it anew',
            p_submitter, p_what USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$$;

CREATE FUNCTION repricer.require_past(p_at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
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

CREATE FUNCTION repricer.require_pricing() RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    IF NOT pg_has_role(session_user, 'repricer_pricing', 'MEMBER') THEN
        RAISE EXCEPTION 'user % is no member of repricer_pricing', session_user
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    -- The rows of a decision stay locked until the transaction ends. If the session then idles, the server ends it, so that
    -- it holds up neither calls nor folds. The timeout holds for this transaction; a shorter one stays as it is.
    IF (SELECT setting::bigint NOT BETWEEN 1 AND 60000 FROM pg_settings
        WHERE name = 'idle_in_transaction_session_timeout')
    THEN
        PERFORM set_config('idle_in_transaction_session_timeout', '60s', true);
    END IF;
    -- A session that goes on with something else must not hold them up either. Each further statement may take ten
    -- minutes, far more than a decision about a million rows needs. The statement that runs now is not cut off.
    IF (SELECT setting::bigint NOT BETWEEN 1 AND 600000 FROM pg_settings WHERE name = 'statement_timeout') THEN
        PERFORM set_config('statement_timeout', '10min', true);
    END IF;
END
$$;

CREATE FUNCTION repricer.resume_batch(p_batch_id uuid, p_at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    PERFORM keep_batch(p_batch_id);
    UPDATE batches SET is_paused = false, paused_by = NULL, paused_at = NULL, paused_reason = NULL,
            also_paused_by = NULL, also_paused_at = NULL, also_paused_reason = NULL,
            halted_by = NULL,
            probe_at = NULL,
            probe_answer = NULL,
            guards_count_from = CASE WHEN halted_by IS NULL THEN guards_count_from ELSE p_at END,
            is_sampled = is_sampled AND halted_by IS NULL,
            halted_storefronts = '{}',
            is_parking = false,
            guard_reading = CASE WHEN halted_by IS NULL THEN guard_reading END
        WHERE batch_id = p_batch_id;
    UPDATE put_backs SET ended_until = coalesce(ended_until, p_at) WHERE batch_id = p_batch_id;
    -- Parked rows are tried at once, because the cause of their refusals may be repaired by now.
    UPDATE price_changes SET is_held = false,
            next_attempt_at = CASE WHEN parked_reason IS NULL THEN next_attempt_at END
        WHERE batch_id = p_batch_id AND stage = 'queued' AND (is_held OR parked_reason IS NOT NULL);
END
$$;

CREATE FUNCTION repricer.returned_dependents_at(p_at timestamp with time zone) RETURNS SETOF repricer.returned_dependents
    LANGUAGE sql STABLE
    AS $$
 SELECT d.batch_id,
    d.original_transaction_id,
    d.bucket,
    d.change_id,
    d.dependent_sku
   FROM (repricer.dependent_cancellations_at(p_at) d
     CROSS JOIN LATERAL ( SELECT min(k_1.purchased_at) FILTER (WHERE (NOT k_1.is_purchase)) AS renewed_at,
            min(k_1.purchased_at) FILTER (WHERE (k_1.is_purchase AND (NOT k_1.is_added_seat))) AS bought_at
           FROM repricer.charges_at(p_at) k_1
          WHERE ((k_1.original_transaction_id = COALESCE(d.target_transaction_id, d.original_transaction_id)) AND (k_1.sku =
                CASE
                    WHEN d.is_cross_subscription THEN regexp_replace(d.dependent_sku, '^[0-9]+/'::text, ''::text)
                    ELSE d.dependent_sku
                END) AND (k_1.purchased_at > d.settled_at) AND ((k_1.refunded_milliunits = 0) OR (k_1.refunded_milliunits < (k_1.price_milliunits * k_1.quantity))))) k)
  WHERE ((d.state = 'confirmed'::text) AND (k.renewed_at < COALESCE(k.bought_at, 'infinity'::timestamp with time zone)))
$$;

CREATE FUNCTION repricer.revenue_moves(p_at timestamp with time zone, p_batch uuid DEFAULT NULL::uuid) RETURNS TABLE(batch_id uuid, month date, currency text, storefront text, opening numeric, closing numeric, cause text, price_effect numeric)
    LANGUAGE plpgsql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    SET plan_cache_mode TO 'force_custom_plan'
    SET jit TO 'off'
    AS $$
DECLARE
    v_ids text[] := ARRAY(SELECT DISTINCT c.original_transaction_id FROM repricer.price_changes c
        WHERE p_batch IS NULL OR c.batch_id = p_batch);
BEGIN
    RETURN QUERY SELECT m.batch_id, m.month, m.currency, m.storefront, m.opening, m.closing, m.cause, m.price_effect
        FROM moves_of(v_ids, array_fill(p_at, ARRAY[cardinality(v_ids)]), p_batch) m;
END
$$;

CREATE FUNCTION repricer.rules_sha256(p_revision integer) RETURNS text
    LANGUAGE sql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
SELECT encode(sha256(convert_to(coalesce(string_agg(r.rule, E'\n' ORDER BY r.rule COLLATE "C"), ''), 'UTF8')), 'hex')
FROM (
    SELECT json_build_array('threshold', storefront, currency, period_kind, extract(epoch FROM valid_from)::text, withdrawn,
        amount_milliunits, source)::text AS rule FROM consent_thresholds WHERE revision = p_revision
    UNION ALL
    SELECT json_build_array('always_consent', storefront, extract(epoch FROM valid_from)::text, withdrawn, is_required, source)::text
    FROM always_consent_storefronts WHERE revision = p_revision
    UNION ALL
    SELECT json_build_array('currency', currency, extract(epoch FROM valid_from)::text, withdrawn, decimals, source)::text
    FROM currency_decimals WHERE revision = p_revision
    UNION ALL
    SELECT json_build_array('exchange_rate', currency, extract(epoch FROM valid_from)::text, withdrawn, billionths_per_euro,
        source)::text
    FROM exchange_rates WHERE revision = p_revision) r
$$;

CREATE FUNCTION repricer.set_approval_limit(p_approver text, p_max_rows bigint, p_max_basis_points bigint, p_max_monthly_milliunits jsonb, p_needs_first boolean, p_at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $_$
DECLARE
    v_wrong text;
    v_new approval_limits;
BEGIN
    p_at := decision_instant(p_at);
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = p_approver) THEN
        RAISE EXCEPTION 'no database user or role %', p_approver USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT key INTO v_wrong FROM jsonb_each(p_max_monthly_milliunits)
        WHERE key !~ '^[A-Z]{3}$'
            OR CASE WHEN jsonb_typeof(value) = 'number' THEN value::text::numeric < 0 ELSE true END
        LIMIT 1;
    IF FOUND THEN
        RAISE EXCEPTION 'the money limit of % is none', v_wrong USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO approval_limits AS l
            (approver, max_rows, max_basis_points, max_monthly_milliunits, needs_first)
        VALUES (p_approver, p_max_rows, p_max_basis_points, p_max_monthly_milliunits, p_needs_first)
        ON CONFLICT (approver) DO UPDATE SET max_rows = excluded.max_rows,
            max_basis_points = excluded.max_basis_points,
            max_monthly_milliunits = excluded.max_monthly_milliunits, needs_first = excluded.needs_first
        RETURNING * INTO v_new;
    PERFORM append_audit(session_user::text, p_at, 'set_limit', 'approver:' || p_approver,
        json_build_object('max_rows', v_new.max_rows, 'max_basis_points', v_new.max_basis_points,
            'max_monthly_milliunits', v_new.max_monthly_milliunits, 'needs_first', v_new.needs_first));
END
$_$;

CREATE FUNCTION repricer.set_default_limits(p_max_rise numeric, p_max_fall numeric, p_at timestamp with time zone) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    p_at := decision_instant(p_at);
    UPDATE default_limits SET max_rise_basis_points = p_max_rise, max_fall_basis_points = p_max_fall,
        is_shipped = false;
    PERFORM append_audit(session_user::text, p_at, 'set_default_limits', 'approver:everyone',
        json_build_object('max_rise_basis_points', p_max_rise, 'max_fall_basis_points', p_max_fall));
END
$$;

CREATE FUNCTION repricer.set_pause(p_batch_id uuid, p_at timestamp with time zone, p_is_paused boolean, p_reason text) RETURNS boolean
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_batch batches;
    v_is_new boolean := true;
    -- Citus refuses a CASE with session_user in an UPDATE.
    v_by text := CASE WHEN p_is_paused THEN session_user END;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    IF p_batch_id IS NULL THEN
        PERFORM FROM service_controls FOR UPDATE;
        IF p_is_paused AND (SELECT is_paused FROM service_controls) THEN
            v_is_new := pause_again(NULL, p_at, v_by, p_reason);
        ELSE
            UPDATE service_controls SET is_paused = p_is_paused,
                paused_by = v_by,
                paused_at = CASE WHEN p_is_paused THEN p_at END,
                paused_reason = CASE WHEN p_is_paused THEN p_reason END;
        END IF;
    ELSE
        SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
        END IF;
        IF v_batch.state NOT IN ('awaiting_approval', 'approved') THEN
            RAISE EXCEPTION 'batch % is %, nothing of it is sent any more', p_batch_id, v_batch.state
                USING ERRCODE = 'object_not_in_prerequisite_state';
        END IF;
        IF p_is_paused AND v_batch.is_paused THEN
            v_is_new := pause_again(p_batch_id, p_at, v_by, p_reason);
        ELSIF p_is_paused THEN
            PERFORM keep_batch(p_batch_id);
            UPDATE batches SET is_paused = true, paused_by = v_by, paused_at = p_at, paused_reason = p_reason
                WHERE batch_id = p_batch_id;
        ELSE
            PERFORM resume_batch(p_batch_id, p_at);
        END IF;
    END IF;
    PERFORM append_audit(session_user::text, p_at, CASE WHEN p_is_paused THEN 'pause' ELSE 'resume' END,
        coalesce('batch:' || p_batch_id, 'everything'),
        json_build_object('reason', p_reason, 'halted_by', v_batch.halted_by, 'halted_storefronts',
            (SELECT string_agg(s, ',' ORDER BY s) FROM jsonb_object_keys(v_batch.halted_storefronts) s)));
    RETURN v_is_new;
END
$$;

CREATE FUNCTION repricer.settle_audit() RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    IF EXISTS (SELECT FROM audit_waiting) AND NOT pg_is_in_recovery() AND hold_audit_head() THEN
        PERFORM chain_waiting_lines();
    END IF;
    RETURN (SELECT count(*) FROM audit_waiting);
END
$$;

CREATE FUNCTION repricer.silent_open_changes_at(p_at timestamp with time zone) RETURNS SETOF repricer.silent_open_changes
    LANGUAGE sql STABLE
    AS $$
 SELECT c.batch_id,
    c.original_transaction_id,
    c.bucket,
    c.change_id,
    h.sku,
    h.expires_at AS occurred_at,
    repricer.fitting(((
        CASE
            WHEN (h.currency <> c.currency) THEN NULL::bigint
            WHEN t.is_before THEN c.current_price_milliunits
            ELSE c.new_price_milliunits
        END)::numeric * (
        CASE
            WHEN ((h.paid_by = 1) AND (NOT h.is_added_seat)) THEN h.quantity
            ELSE COALESCE(( SELECT repricer.seats_of(array_agg(k.*)) AS seats_of
               FROM repricer.charges_at(p_at) k
              WHERE ((k.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (k.expires_at = h.expires_at))), (1)::bigint)
        END)::numeric), ('the seats of price change '::text || c.change_id)) AS expected_milliunits,
    h.currency,
    h.storefront
   FROM (((((repricer.unfrozen_changes_at(p_at) c
     CROSS JOIN ( SELECT d_1.until
           FROM repricer.heard_charges_at(p_at) d_1) d)
     LEFT JOIN repricer.subscriptions_at(p_at) s ON (((s.original_transaction_id = c.original_transaction_id) AND (s.bucket = c.bucket))))
     CROSS JOIN LATERAL ( SELECT k.original_transaction_id,
            k.bucket,
            k.transaction_id,
            k.sku,
            k.purchased_at,
            k.expires_at,
            k.revoked_at,
            k.price_milliunits,
            k.quantity,
            k.currency,
            k.storefront,
            k.is_offer,
            k.is_purchase,
            k.is_added_seat,
            k.is_relisted,
            k.period,
            k.refunded_milliunits,
            k.recorded_at,
            count(*) OVER (PARTITION BY k.expires_at) AS paid_by
           FROM repricer.charges_at(p_at) k
          WHERE ((k.original_transaction_id = c.original_transaction_id) AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until) AND (k.expires_at IS NOT NULL))
          ORDER BY k.expires_at DESC, (k.revoked_at IS NOT NULL), ((k.refunded_milliunits > 0) AND (k.refunded_milliunits >= (k.price_milliunits * k.quantity))), k.is_added_seat, k.purchased_at DESC, k.transaction_id, (k.sku = COALESCE(c.current_sku, c.sku)) DESC, k.sku
         LIMIT 1) h)
     CROSS JOIN LATERAL ( SELECT COALESCE(bool_or((t_1.type = ANY (ARRAY['EXPIRED'::text, 'REVOKE'::text]))), false) AS is_ended,
            max((t_1.signed_at +
                CASE t_1.type
                    WHEN 'RENEWAL_EXTENDED'::text THEN repricer.days(90)
                    ELSE repricer.days(61)
                END)) FILTER (WHERE ((t_1.type = ANY (ARRAY['DID_FAIL_TO_RENEW'::text, 'GRACE_PERIOD_EXPIRED'::text])) OR ((t_1.type = 'RENEWAL_EXTENDED'::text) AND (NOT t_1.tells_end)))) AS until,
            COALESCE(((array_agg((t_1.statement #>> '{renewal,autoRenewStatus}'::text[]) ORDER BY t_1.signed_at DESC, t_1.evidence_id DESC) FILTER (WHERE ((t_1.statement #>> '{renewal,autoRenewStatus}'::text[]) IS NOT NULL)))[1] = '0'::text), false) AS is_off,
            COALESCE(((array_agg(t_1.status ORDER BY t_1.signed_at DESC, t_1.evidence_id DESC) FILTER (WHERE (t_1.status IS NOT NULL)))[1] <> '1'::text), false) AS is_in_trouble
           FROM repricer.told_statements_at(p_at) t_1
          WHERE ((t_1.original_transaction_id = c.original_transaction_id) AND (t_1.signed_at > h.purchased_at))) e)
     CROSS JOIN LATERAL ( SELECT (h.expires_at < (c.due_effective_at - LEAST('PT1H'::interval, ((h.expires_at - h.purchased_at) / (10)::double precision)))) AS is_before) t)
  WHERE ((c.stage = ANY (ARRAY['scheduled'::text, 'pending_consent'::text, 'accepted'::text])) AND (c.undoes_change_id IS NULL) AND (c.reason IS DISTINCT FROM 'item_replaced'::text) AND (COALESCE(s.expires_at, '-infinity'::timestamp with time zone) < d.until) AND (GREATEST(h.expires_at, e.until) < d.until) AND (NOT e.is_ended) AND (NOT e.is_off) AND ((NOT e.is_in_trouble) OR ((h.expires_at + repricer.days(61)) < d.until)) AND (h.expires_at >= COALESCE(c.sent_at, c.doubtful_since, c.scheduled_at)) AND (t.is_before OR (c.stage = 'accepted'::text) OR ((c.stage = 'scheduled'::text) AND (c.direction = 'decrease'::text))) AND (h.revoked_at IS NULL) AND ((h.refunded_milliunits = 0) OR (h.refunded_milliunits < (h.price_milliunits * h.quantity))) AND COALESCE((s.purchased_at <= h.purchased_at), true) AND (NOT (EXISTS ( SELECT
           FROM repricer.price_changes_at(p_at) o
          WHERE ((o.original_transaction_id = c.original_transaction_id) AND (o.change_id <> c.change_id) AND (o.state = 'effective'::text) AND (o.undoes_change_id IS NULL) AND (COALESCE(o.current_sku, o.sku) = COALESCE(c.current_sku, c.sku)) AND (o.effective_at <= h.purchased_at))))))
$$;

CREATE FUNCTION repricer.still_checks_refusals(p_halt repricer.put_backs, p_at timestamp with time zone) RETURNS boolean
    LANGUAGE plpgsql STABLE SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    RETURN p_at < p_halt.ended_until + interval '10 minutes' AND EXISTS (
        SELECT 1 FROM store_calls r
        WHERE r.kind = p_halt.kind AND r.settled_at IS NULL AND r.error_code IS NOT NULL
            AND r.prepared_at <= p_halt.ended_until);
END
$$;

CREATE FUNCTION repricer.store_changes(p_batch_id uuid, p_ids text[], p_change_ids uuid[], p_lines bigint[], p_waves bigint[], p_skus text[], p_dependent_skus text[], p_directions text[], p_currencies text[], p_storefronts text[], p_periods text[], p_current_prices bigint[], p_new_prices bigint[], p_expected_prices bigint[], p_effective_on_or_after text[], p_consents text[], p_reasons text[], p_threshold_sources text[], p_rules jsonb[], p_renewals timestamp with time zone[], p_notices timestamp with time zone[], p_effective timestamp with time zone[], p_send_after timestamp with time zone[], p_send_by timestamp with time zone[], p_not_known text[] DEFAULT NULL::text[], p_at_risk bigint[] DEFAULT NULL::bigint[], p_at_risk_elsewhere jsonb[] DEFAULT NULL::jsonb[], p_kinds bigint[] DEFAULT NULL::bigint[], p_shared_rules text[] DEFAULT NULL::text[], p_stale boolean[] DEFAULT NULL::boolean[], p_seats bigint[] DEFAULT NULL::bigint[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET enable_nestloop TO 'off'
    SET jit TO 'off'
    AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_batch batches := batch_in_submission(p_batch_id);
    v_at timestamptz := v_batch.submitted_at;
BEGIN
    INSERT INTO batch_rule_answers (batch_id, answers_id, answers)
        SELECT p_batch_id, answers_id(answers), answers::jsonb
        FROM (SELECT DISTINCT unnest(p_shared_rules)) AS said (answers) WHERE answers IS NOT NULL
        ON CONFLICT DO NOTHING;
    INSERT INTO price_changes (original_transaction_id, bucket, change_id, batch_id, submitted_by, line, wave, is_held_out, sku,
            dependent_skus, direction, currency, storefront, period, current_price_milliunits,
            new_price_milliunits, expected_price_milliunits, effective_on_or_after, forecast_consent,
            forecast_reasons, forecast_threshold_source, forecast_rules, forecast_answers_id,
            forecast_renewal_at, forecast_notice_at, forecast_effective_at, send_after, send_by, due_effective_at, state_since,
            forecast_not_known, at_risk_milliunits, at_risk_elsewhere, is_stale, forecast_seats)
        SELECT r.id, bucket_of(r.id), r.change_id, p_batch_id, v_by, r.line, r.wave,
            -- The function takes as long as an index does, so only a batch with a holdout calls it.
            CASE WHEN v_batch.holdout_basis_points > 0
                THEN is_held_out(v_batch.content_sha256, r.id, v_batch.holdout_basis_points) ELSE false END,
            k.sku, k.dependent_skus,
            k.direction, k.currency, k.storefront, k.period, k.current_price, k.new_price, k.expected_price,
            k.effective_on_or_after, k.consent, k.reasons, k.threshold_source, r.rules, k.answers_id, r.renewal,
            r.notice, r.effective, r.send_after, r.send_by, r.effective, v_at,
            k.not_known, k.at_risk, k.at_risk_elsewhere, k.is_stale, k.seats
        FROM unnest(p_ids, p_change_ids, p_lines, p_waves, p_rules, p_renewals, p_notices, p_effective,
                p_send_after, p_send_by, p_kinds) WITH ORDINALITY
            AS r (id, change_id, line, wave, rules, renewal, notice, effective, send_after, send_by, kind, place)
        LEFT JOIN (
            SELECT k.place, k.sku, k.dependent_skus::text[], k.direction, k.currency, k.storefront, k.period,
                k.current_price, k.new_price, k.expected_price, k.effective_on_or_after::date, k.consent,
                k.reasons::text[], k.threshold_source, coalesce(k.not_known::text[], '{}') AS not_known, k.at_risk,
                k.at_risk_elsewhere, answers_id(k.answers) AS answers_id, coalesce(k.stale, false) AS is_stale,
                coalesce(k.seats, 1) AS seats
            FROM unnest(p_skus, p_dependent_skus, p_directions, p_currencies, p_storefronts, p_periods,
                    p_current_prices, p_new_prices, p_expected_prices, p_effective_on_or_after, p_consents,
                    p_reasons, p_threshold_sources, p_not_known, p_at_risk, p_at_risk_elsewhere,
                    p_shared_rules, p_stale, p_seats) WITH ORDINALITY
                AS k (sku, dependent_skus, direction, currency, storefront, period, current_price, new_price,
                    expected_price, effective_on_or_after, consent, reasons, threshold_source, not_known, at_risk,
                    at_risk_elsewhere, answers, stale, seats, place)
            -- OFFSET 0 makes PostgreSQL read this once a kind, and not once a row.
            OFFSET 0) k ON k.place = coalesce(r.kind, r.place);
    IF EXISTS (SELECT FROM unnest(p_dependent_skus) AS names WHERE names::text[] <> '{}') THEN
        INSERT INTO dependency_roles (original_transaction_id, bucket, sku, role, change_id)
            SELECT r.id, bucket_of(r.id), part.sku, part.role, r.change_id
            FROM unnest(p_ids, p_change_ids, p_kinds) WITH ORDINALITY AS r (id, change_id, kind, place)
            JOIN unnest(p_skus, p_dependent_skus) WITH ORDINALITY AS k (sku, dependent_skus, place)
                ON k.place = coalesce(r.kind, r.place)
            CROSS JOIN LATERAL (
                SELECT k.sku, 'parent' UNION ALL SELECT unnest(k.dependent_skus::text[]), 'dependent'
            ) AS part (sku, role)
            WHERE k.dependent_skus::text[] <> '{}';
    END IF;
END
$$;

CREATE FUNCTION repricer.store_rejects(p_batch_id uuid, p_lines bigint[], p_ids text[], p_skus text[], p_codes text[], p_messages text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
BEGIN
    PERFORM batch_in_submission(p_batch_id);
    INSERT INTO batch_rejects (batch_id, line, original_transaction_id, sku, code, message)
        SELECT p_batch_id, r.* FROM unnest(p_lines, p_ids, p_skus, p_codes, p_messages) AS r;
END
$$;

CREATE FUNCTION repricer.subscription_events_at(p_at timestamp with time zone) RETURNS SETOF repricer.subscription_events
    LANGUAGE sql STABLE
    AS $$
SELECT * FROM repricer.subscription_events WHERE recorded_at <= p_at
UNION ALL
SELECT original_transaction_id, bucket, signed_at, evidence_id, source, type, subtype, statement, recorded_at
FROM repricer.subscription_event_versions WHERE recorded_at <= p_at AND recorded_until > p_at
$$;

CREATE FUNCTION repricer.subscriptions_at(p_at timestamp with time zone) RETURNS TABLE(original_transaction_id text, bucket smallint, expires_at timestamp with time zone, period text, purchased_at timestamp with time zone)
    LANGUAGE sql STABLE
    AS $$
SELECT s.original_transaction_id, s.bucket, NULL::timestamptz, s.period, (
    SELECT CASE
        -- If no statement tells of a later period today, none did then, unless a statement has been read anew since.
        WHEN s.purchased_at <= h.at AND NOT EXISTS (
            SELECT FROM repricer.subscription_event_versions v
            WHERE v.original_transaction_id = s.original_transaction_id AND v.recorded_until > p_at) THEN h.at
        -- A period that no charge tells begins after those that charges tell, and no statement tells of it more than 40 days
        -- before it begins. So earlier months need not be opened.
        ELSE greatest(h.at,
            (SELECT timestamptz 'epoch' + max((e.statement #>> '{transaction,purchasedAt}')::bigint) * interval '1 millisecond'
                FROM repricer.subscription_events_at(p_at) e
                WHERE e.original_transaction_id = s.original_transaction_id
                    AND e.statement #>> '{transaction,details,additionalTransactionReason}' IS DISTINCT FROM 'SEAT_ADDITION'
                    AND e.signed_at > coalesce(h.at - repricer.days(40), '-infinity')),
            (SELECT max(coalesce(k.told_period_at,
                    timestamptz 'epoch' + (k.statement #>> '{transaction,purchasedAt}')::bigint * interval '1 millisecond'))
                FROM repricer.kept_statements k
                WHERE k.original_transaction_id = s.original_transaction_id AND k.recorded_at <= p_at
                    AND k.statement #>> '{transaction,details,additionalTransactionReason}' IS DISTINCT FROM 'SEAT_ADDITION')) END
    -- Seats that are added begin no period.
    FROM (SELECT max(c.purchased_at) AS at FROM repricer.charges_at(p_at) c
        WHERE c.original_transaction_id = s.original_transaction_id AND NOT c.is_added_seat) h)
FROM repricer.subscriptions s
$$;

COMMENT ON FUNCTION repricer.subscriptions_at(p_at timestamp with time zone) IS 'For each subscription, the start of the latest period that a statement had told of. It does not say until when that was paid; charges do. The length of a period is that of today: a report that must say the same for ever uses one that was recorded (dependent_claims, dependent_cancellations).';

CREATE FUNCTION repricer.summarise_figures(p_limit integer) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    SET jit TO 'off'
    AS $$
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

CREATE FUNCTION repricer.throttle_kind(p_kind text, p_at timestamp with time zone, p_until timestamp with time zone, p_answer text) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    v_since jsonb;
BEGIN
    IF NOT isfinite(p_until) OR NOT isfinite(p_at) THEN
        RAISE EXCEPTION 'a throttle begins and ends at an instant' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT coalesce(throttled_kinds #> ARRAY[p_kind, 'since'], to_jsonb(p_at)) INTO v_since
        FROM service_controls FOR UPDATE;
    UPDATE service_controls SET throttled_kinds = throttled_kinds || jsonb_build_object(p_kind,
        jsonb_build_object('since', v_since, 'until', p_until, 'answer', p_answer));
END
$$;

CREATE FUNCTION repricer.told_statements_at(p_at timestamp with time zone) RETURNS SETOF repricer.told_statements
    LANGUAGE sql STABLE
    AS $$
SELECT original_transaction_id, bucket, signed_at, evidence_id, source, type, subtype, statement, recorded_at,
    coalesce(repricer.tells_end(statement), false), statement -> 'ignored', statement ->> 'status'
FROM repricer.subscription_events_at(p_at)
UNION ALL
SELECT original_transaction_id, bucket, signed_at, evidence_id, source, type, subtype, coalesce(statement, renewal_told), recorded_at,
    tells_end OR coalesce(repricer.tells_end(statement), false), left_out, coalesce(statement ->> 'status', status)
FROM repricer.kept_statements WHERE recorded_at <= p_at
$$;

CREATE FUNCTION repricer.undo_batch(p_batch_id uuid, p_undo_id uuid, p_name text, p_subscription text, p_sku text, p_at timestamp with time zone) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_batch batches;
    v_rows bigint;
    v_digest text;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
    END IF;
    INSERT INTO batches (batch_id, name, state, content_sha256, plan_hash, planned_as_of, row_count, submitted_at,
            grouping, undoes_batch_id, guards, submitted_by)
        -- The guard that a submitted batch has by default.
        VALUES (p_undo_id, p_name, 'submitting', '', '', p_at, 0, p_at, v_batch.grouping, p_batch_id,
            '[{"guard":"errors","over":500,"least":50}]', v_by);
    INSERT INTO price_changes (original_transaction_id, bucket, change_id, batch_id, line, sku, direction, currency,
            storefront, period, current_price_milliunits, new_price_milliunits, forecast_consent,
            forecast_renewal_at, forecast_effective_at, send_by, due_effective_at, state_since,
            undoes_change_id, submitted_by, forecast_seats)
        SELECT c.original_transaction_id, c.bucket, gen_random_uuid(), p_undo_id, c.line, u.sku,
            CASE c.direction WHEN 'increase' THEN 'decrease' ELSE 'increase' END, c.currency, c.storefront,
            c.period, c.new_price_milliunits, c.current_price_milliunits, 'none', c.due_effective_at,
            c.due_effective_at, u.told_at, c.due_effective_at, p_at, c.change_id, v_by, c.forecast_seats
        FROM undo_candidates(p_batch_id, p_subscription, p_sku, p_at) u
        JOIN price_changes c ON c.original_transaction_id = u.original_transaction_id
            AND c.change_id = u.change_id
        WHERE u.obstacle IS NULL;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows = 0 THEN
        DELETE FROM batches WHERE batch_id = p_undo_id;
        RETURN 0;
    END IF;
    -- The digest holds the id of the undo, so that an undo that came to nothing may be asked for again.
    SELECT encode(sha256(convert_to(p_undo_id || ':' || string_agg(undoes_change_id::text, ','
                ORDER BY undoes_change_id), 'UTF8')), 'hex') INTO v_digest
        FROM price_changes WHERE batch_id = p_undo_id;
    UPDATE batches SET content_sha256 = v_digest WHERE batch_id = p_undo_id;
    PERFORM finish_submission(p_undo_id, v_digest, v_rows, 0);
    RETURN v_rows;
END
$$;

CREATE FUNCTION repricer.undo_candidates(p_batch_id uuid, p_subscription text, p_sku text, p_at timestamp with time zone) RETURNS TABLE(original_transaction_id text, change_id uuid, line bigint, sku text, state text, reason text, told_at timestamp with time zone, obstacle text)
    LANGUAGE sql STABLE
    AS $$
SELECT c.original_transaction_id, c.change_id, c.line, coalesce(c.current_sku, c.sku), c.state, c.reason, t.told_at,
    repricer.undo_obstacle(c.state, c.undoes_change_id IS NOT NULL,
        c.consent_asked_at IS NOT NULL OR c.accepted_at IS NOT NULL, t.told_at, EXISTS (
            SELECT FROM repricer.price_changes u
            WHERE u.original_transaction_id = c.original_transaction_id AND u.undoes_change_id = c.change_id
                AND u.stage IN ('awaiting_approval', 'queued', 'unknown')), p_at)
FROM repricer.price_changes c, LATERAL (
    -- When the renewal moves, the lead time before it stays the same.
    SELECT coalesce(c.forecast_notice_at + (c.due_effective_at - c.forecast_effective_at), c.send_by) AS at) n, LATERAL (
    -- Where it is not known whether Apple asks, and the day has passed on which it would have asked, it only announces: 27
    -- days before the renewal.
    SELECT CASE WHEN c.forecast_consent = 'not_known' AND n.at <= p_at
        THEN greatest(n.at, c.due_effective_at - interval '648 hours') ELSE n.at END AS told_at) t
WHERE c.batch_id = p_batch_id AND (p_subscription IS NULL OR c.original_transaction_id = p_subscription)
    AND (p_sku IS NULL OR coalesce(c.current_sku, c.sku) = p_sku)
$$;

CREATE FUNCTION repricer.undo_obstacle(p_state text, p_is_undo boolean, p_was_told boolean, p_told_at timestamp with time zone, p_has_undo boolean, p_at timestamp with time zone) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    AS $$
SELECT CASE
    WHEN p_is_undo THEN 'is_an_undo'
    WHEN p_state IN ('awaiting_approval', 'queued') THEN 'not_sent'
    WHEN p_state IN ('sending', 'unknown') THEN 'in_flight'
    WHEN p_state = 'effective' THEN 'already_effective'
    WHEN p_state IN ('pending_consent', 'accepted') THEN 'already_communicated'
    WHEN p_state <> 'scheduled' THEN 'has_ended'
    WHEN p_was_told OR p_told_at <= p_at THEN 'already_communicated'
    WHEN p_has_undo THEN 'undo_under_way'
END
$$;

CREATE FUNCTION repricer.unfrozen_changes_at(p_at timestamp with time zone) RETURNS SETOF repricer.price_changes
    LANGUAGE sql STABLE
    AS $$
SELECT c.original_transaction_id,
    c.bucket,
    c.change_id,
    c.batch_id,
    c.submitted_by,
    c.line,
    c.wave,
    c.is_held_out,
    c.undoes_change_id,
    c.sku,
    CASE WHEN v.state IS NULL THEN c.current_sku ELSE v.current_sku END,
    c.called_sku,
    CASE WHEN v.state IS NULL THEN c.former_skus ELSE v.former_skus END,
    CASE WHEN v.state IS NULL THEN c.former_until ELSE v.former_until END,
    c.dependent_skus,
    CASE WHEN v.state IS NULL THEN c.current_dependent_skus ELSE v.current_dependent_skus END,
    c.called_dependent_skus,
    c.direction,
    c.currency,
    c.storefront,
    c.period,
    c.current_price_milliunits,
    c.new_price_milliunits,
    c.expected_price_milliunits,
    c.effective_on_or_after,
    c.forecast_consent,
    c.forecast_reasons,
    c.forecast_not_known,
    c.forecast_threshold_source,
    c.forecast_rules,
    c.forecast_answers_id,
    c.forecast_renewal_at,
    c.forecast_notice_at,
    c.forecast_effective_at,
    c.at_risk_milliunits,
    c.at_risk_elsewhere,
    c.is_stale,
    c.forecast_seats,
    CASE WHEN v.state IS NULL THEN c.send_after ELSE v.send_after END,
    CASE WHEN v.state IS NULL THEN c.send_by ELSE v.send_by END,
    CASE WHEN v.state IS NULL THEN c.due_effective_at ELSE v.due_effective_at END,
    CASE WHEN v.state IS NULL THEN c.planned_effective_at ELSE v.planned_effective_at END,
    CASE WHEN v.state IS NULL THEN c.moved_before_call ELSE v.moved_before_call END,
    CASE WHEN v.state IS NULL THEN c.moved_since_call ELSE v.moved_since_call END,
    c.called_renewal_at,
    c.is_ready,
    c.is_held,
    c.goes_alone,
    c.parked_reason,
    c.parks,
    c.stale_tokens,
    c.next_attempt_at,
    CASE WHEN NOT k.is_unsent THEN CASE WHEN v.state IS NULL THEN c.request_reference_id ELSE v.request_reference_id END END,
    k.state,
    CASE k.state WHEN 'sending' THEN 'queued' ELSE k.state END,
    k.state_since,
    CASE WHEN v.state IS NULL THEN c.reason ELSE v.reason END,
    CASE WHEN v.state IS NULL THEN c.doubtful_since ELSE v.doubtful_since END,
    CASE WHEN v.state IS NULL THEN c.refused_at ELSE v.refused_at END,
    CASE WHEN NOT k.is_unsent THEN CASE WHEN v.state IS NULL THEN c.sent_at ELSE v.sent_at END END,
    CASE WHEN NOT k.is_later THEN CASE WHEN v.state IS NULL THEN c.scheduled_at ELSE v.scheduled_at END END,
    CASE WHEN v.state IS NULL THEN c.consent_asked_at ELSE v.consent_asked_at END,
    CASE WHEN v.state IS NULL THEN c.accepted_at ELSE v.accepted_at END,
    CASE WHEN v.state IS NULL THEN c.acceptance ELSE v.acceptance END,
    CASE WHEN v.state IS NULL THEN c.effective_at ELSE v.effective_at END,
    CASE WHEN v.state IS NULL THEN c.ended_at ELSE v.ended_at END,
    CASE WHEN v.state IS NULL THEN c.is_leaving ELSE v.is_leaving END,
    CASE WHEN v.state IS NULL THEN c.recorded_at ELSE v.recorded_at END,
    CASE WHEN v.state IS NULL THEN c.claim_recorded_at ELSE v.claim_recorded_at END
FROM (
    SELECT c.* FROM repricer.price_changes c
    WHERE NOT EXISTS (
        SELECT FROM repricer.frozen_figures_at(p_at) f
        WHERE f.original_transaction_id = c.original_transaction_id AND f.change_id = c.change_id AND f.batch_id = c.batch_id)) c
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
$$;

CREATE FUNCTION repricer.untallied_changes_at(p_at timestamp with time zone, p_batch uuid) RETURNS SETOF repricer.untallied_changes
    LANGUAGE sql STABLE
    AS $$
 SELECT f.batch_id,
    f.is_undo,
    f.direction,
    f.forecast_consent,
    f.currency,
    f.storefront,
    f.period,
    f.weight AS changes,
        CASE
            WHEN f.is_sent THEN f.weight
            ELSE (0)::bigint
        END AS sent,
        CASE
            WHEN f.is_asked THEN f.weight
            ELSE (0)::bigint
        END AS asked_for_consent,
        CASE
            WHEN (f.acceptance = 'consented'::text) THEN f.weight
            ELSE (0)::bigint
        END AS consented,
        CASE
            WHEN (f.acceptance = 'informed'::text) THEN f.weight
            ELSE (0)::bigint
        END AS informed,
        CASE
            WHEN (f.state = 'effective'::text) THEN f.weight
            ELSE (0)::bigint
        END AS effective,
        CASE
            WHEN ((f.state = 'declined'::text) AND (NOT f.fell_with_parent)) THEN f.weight
            ELSE (0)::bigint
        END AS declined,
        CASE
            WHEN ((f.state = 'cancelled'::text) AND (NOT f.fell_with_parent)) THEN f.weight
            ELSE (0)::bigint
        END AS cancelled,
        CASE
            WHEN (f.state = 'lapsed'::text) THEN f.weight
            ELSE (0)::bigint
        END AS lapsed,
        CASE
            WHEN (f.state = ANY (ARRAY['invalidated'::text, 'rejected'::text, 'ineligible'::text, 'missed'::text, 'aborted'::text])) THEN f.weight
            ELSE (0)::bigint
        END AS other,
        CASE
            WHEN f.is_uncharged THEN f.weight
            ELSE (0)::bigint
        END AS uncharged,
        CASE
            WHEN (f.renewals > 0) THEN f.weight
            ELSE (0)::bigint
        END AS charged_changes,
    (f.weight * f.renewals) AS charged_renewals,
    (f.weight * f.old_total_milliunits) AS old_total,
    (f.weight * f.new_total_milliunits) AS new_total,
        CASE
            WHEN ((f.renewals > 0) AND (NOT f.is_leaving)) THEN (f.weight * f.current_price_milliunits)
            ELSE (0)::bigint
        END AS old_per_period,
        CASE
            WHEN ((f.renewals > 0) AND (NOT f.is_leaving)) THEN (f.weight * f.new_price_milliunits)
            ELSE (0)::bigint
        END AS new_per_period,
        CASE
            WHEN ((f.state = 'declined'::text) AND (NOT f.fell_with_parent)) THEN (f.weight * f.current_price_milliunits)
            ELSE (0)::bigint
        END AS declined_lost,
        CASE
            WHEN ((f.state = 'cancelled'::text) AND (NOT f.fell_with_parent) AND f.is_told AND (f.direction = 'increase'::text)) THEN (f.weight * f.current_price_milliunits)
            ELSE (0)::bigint
        END AS cancelled_lost,
        CASE
            WHEN f.fell_with_parent THEN f.weight
            ELSE (0)::bigint
        END AS fell_with_parent,
        CASE
            WHEN f.fell_with_parent THEN (f.weight * f.current_price_milliunits)
            ELSE (0)::bigint
        END AS fell_lost,
        CASE
            WHEN ((f.state = 'lapsed'::text) AND f.is_told AND (f.direction = 'increase'::text)) THEN (f.weight * f.current_price_milliunits)
            ELSE (0)::bigint
        END AS lapsed_lost,
    (f.weight * f.others_lost_milliunits) AS others_lost,
    (f.weight * f.taxed_renewals) AS taxed_renewals,
    (f.weight * f.taxed_uplift_milliunits) AS taxed_uplift,
        CASE
            WHEN f.is_silent THEN f.weight
            ELSE (0)::bigint
        END AS silent,
        CASE
            WHEN f.is_silent THEN (f.weight * f.current_price_milliunits)
            ELSE (0)::bigint
        END AS silent_old,
        CASE
            WHEN f.is_silent THEN (f.weight * f.new_price_milliunits)
            ELSE (0)::bigint
        END AS silent_new,
    f.original_transaction_id,
    f.is_final
   FROM ( SELECT k.original_transaction_id,
            k.bucket,
            k.change_id,
            k.batch_id,
            k.is_undo,
            k.direction,
            k.forecast_consent,
            k.currency,
            k.storefront,
            k.period,
            k.state,
            k.is_sent,
            k.is_asked,
            k.acceptance,
            k.is_uncharged,
            (k.current_price_milliunits * k.seats) AS current_price_milliunits,
            (k.new_price_milliunits * k.seats) AS new_price_milliunits,
            k.renewals,
            k.first_at,
            k.old_total_milliunits,
            k.new_total_milliunits,
            k.is_leaving,
            k.is_told,
            k.fell_with_parent,
            k.others_lost_milliunits,
            k.taxed_renewals,
            k.taxed_uplift_milliunits,
            COALESCE(((k.renewals > 0) AND (NOT k.is_leaving) AND (k.word_due_at < ( SELECT d.until
                   FROM repricer.heard_charges_at(p_at) d))), false) AS is_silent,
            ('-1'::integer)::bigint AS weight,
            true AS is_final
           FROM repricer.change_figures_at(p_at) k
          WHERE (EXISTS ( SELECT
                   FROM repricer.stale_figures s
                  WHERE (s.original_transaction_id = k.original_transaction_id)))
        UNION ALL
         SELECT l.original_transaction_id,
            l.bucket,
            l.change_id,
            l.batch_id,
            l.is_undo,
            l.direction,
            l.forecast_consent,
            l.currency,
            l.storefront,
            l.period,
            l.state,
            l.is_sent,
            l.is_asked,
            l.acceptance,
            l.is_uncharged,
            (l.current_price_milliunits * l.seats),
            (l.new_price_milliunits * l.seats),
            l.renewals,
            l.first_at,
            l.old_total_milliunits,
            l.new_total_milliunits,
            l.is_leaving,
            l.is_told,
            l.fell_with_parent,
            l.others_lost_milliunits,
            l.taxed_renewals,
            l.taxed_uplift_milliunits,
            COALESCE(((l.renewals > 0) AND (NOT l.is_leaving) AND (l.word_due_at < ( SELECT d.until
                   FROM repricer.heard_charges_at(p_at) d))), false) AS "coalesce",
            1,
            l.is_final
           FROM repricer.past_change_figures_at(p_at, p_batch) l) f
$$;

CREATE FUNCTION repricer.was_just_now(p_at timestamp with time zone) RETURNS boolean
    LANGUAGE sql
    RETURN (p_at > (clock_timestamp() - '00:03:00'::interval));

CREATE FUNCTION repricer.wave_release_at(p_wave jsonb, p_before jsonb, p_at timestamp with time zone) RETURNS timestamp with time zone
    LANGUAGE sql STABLE
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
SELECT CASE p_wave ->> 'release'
    WHEN 'approval' THEN p_at
    WHEN 'at' THEN greatest((p_wave ->> 'at')::timestamptz,
        p_at + ((p_wave ->> 'at')::timestamptz - (p_before ->> 'at')::timestamptz))
    WHEN 'after' THEN p_at + (p_wave ->> 'after_ms')::bigint * interval '1 millisecond'
    END
$$;

CREATE FUNCTION repricer.withdraw_batch(p_batch_id uuid, p_at timestamp with time zone, p_new_state text, p_reason text) RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    AS $$
DECLARE
    -- Citus refuses a CASE with session_user in an UPDATE.
    v_by text := session_user;
    v_state text;
    v_is_paused boolean;
    v_rows bigint;
    v_ids text[];
    v_changes uuid[];
    v_recorded_at timestamptz;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT state, is_paused INTO v_state, v_is_paused FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
    END IF;
    IF p_new_state NOT IN ('rejected', 'aborted') THEN
        RAISE EXCEPTION 'a batch is rejected or aborted, not %', p_new_state
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- Of a paused one, the cancellations of dependents may still wait.
    IF v_state = 'approved' AND NOT v_is_paused AND NOT has_open_rows(p_batch_id) THEN
        RAISE EXCEPTION 'batch % is finished: each of its rows has ended, and nothing can be withdrawn', p_batch_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF v_state IN ('rejected', 'aborted') OR (p_new_state = 'rejected' AND v_state <> 'awaiting_approval')
    THEN
        RAISE EXCEPTION 'batch % is % already', p_batch_id, v_state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- Every writer of a subscription's changes locks the subscription first, and so does this. Subscriptions with a call in
    -- flight are locked, too: the settlement of that call then either queues the change before it is withdrawn here, or
    -- finds the batch withdrawn.
    SELECT array_agg(c.original_transaction_id) INTO v_ids FROM price_changes c
        WHERE c.batch_id = p_batch_id AND c.stage IN ('awaiting_approval', 'queued', 'unknown');
    PERFORM lock_subscriptions(v_ids);
    SELECT array_agg(original_transaction_id), array_agg(change_id) INTO v_ids, v_changes FROM price_changes
        WHERE batch_id = p_batch_id AND stage IN ('awaiting_approval', 'queued') AND state <> 'sending';
    v_recorded_at := keep_changes(v_ids, v_changes);
    WITH withdrawn AS (
        UPDATE price_changes SET state = 'aborted', state_since = p_at, ended_at = p_at,
                reason = p_new_state, recorded_at = v_recorded_at
            WHERE batch_id = p_batch_id AND stage IN ('awaiting_approval', 'queued') AND state <> 'sending'
            RETURNING original_transaction_id, bucket, change_id
    ), released AS (
        DELETE FROM dependency_roles d USING withdrawn w
            WHERE d.original_transaction_id = w.original_transaction_id AND d.change_id = w.change_id
                AND d.bucket = w.bucket
    ), told AS (
        INSERT INTO price_change_history
                (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id,
                 reason, actor)
            SELECT original_transaction_id, bucket, change_id, p_at, 'aborted', 'decision', v_by, p_reason, v_by
            FROM withdrawn
    )
    SELECT count(*) INTO v_rows FROM withdrawn;
    PERFORM keep_batch(p_batch_id);
    UPDATE batches SET state = p_new_state,
            decided_by = CASE WHEN p_new_state = 'rejected' THEN v_by ELSE decided_by END,
            decided_at = CASE WHEN p_new_state = 'rejected' THEN p_at ELSE decided_at END,
            decision_reason = p_reason
        WHERE batch_id = p_batch_id;
    PERFORM append_audit(session_user::text, p_at,
        CASE p_new_state WHEN 'rejected' THEN 'reject' ELSE 'abort' END, 'batch:' || p_batch_id,
        json_build_object('withdrawn', v_rows, 'reason', p_reason));
    RETURN v_rows;
END
$$;

CREATE TABLE repricer.closed_figures (
    month date NOT NULL,
    batch_id uuid,
    currency text NOT NULL,
    kind text NOT NULL,
    milliunits bigint NOT NULL,
    CONSTRAINT closed_figures_kind CHECK ((kind = ANY (ARRAY['charge'::text, 'refund'::text, 'reversal'::text, 'uplift'::text])))
);

COMMENT ON TABLE repricer.closed_figures IS 'Append-only. The figures of a closed month as they were known when it was closed.';

CREATE TABLE repricer.closed_months (
    month date NOT NULL,
    closed_at timestamp with time zone NOT NULL,
    closed_by name DEFAULT SESSION_USER NOT NULL,
    CONSTRAINT closed_months_first_day CHECK ((month = date_trunc('month'::text, (month)::timestamp with time zone)))
);

COMMENT ON TABLE repricer.closed_months IS 'Append-only. Which months were closed, when and by whom; a month is one of UTC.';

CREATE VIEW repricer.known_figures AS
 WITH months AS (
         SELECT closed_months.month,
            ((closed_months.month)::timestamp without time zone AT TIME ZONE 'UTC'::text) AS starts_at,
            ((closed_months.month + '1 mon'::interval) AT TIME ZONE 'UTC'::text) AS ends_at
           FROM repricer.closed_months
        )
 SELECT f.month,
    f.batch_id,
    f.currency,
    f.kind,
    sum(f.milliunits) AS milliunits
   FROM ( SELECT m.month,
            e.batch_id,
            e.currency,
            k.kind,
            k.milliunits
           FROM ((months m
             CROSS JOIN LATERAL ( SELECT l.original_transaction_id,
                    l.bucket,
                    l.transaction_id,
                    l.sku,
                    l.kind,
                    l.occurred_at,
                    l.number,
                    l.correction,
                    l.amount_milliunits,
                    l.tax_exclusive_milliunits,
                    l.currency,
                    l.storefront,
                    l.evidence_id,
                    l.recorded_at,
                    l.change_id,
                    l.batch_id,
                    l.explained_as,
                    l.uplift_milliunits
                   FROM repricer.money_entries l
                  WHERE ((l.occurred_at >= m.starts_at) AND (l.occurred_at < m.ends_at) AND (NOT (EXISTS ( SELECT
                           FROM repricer.marked_subscriptions() s(id)
                          WHERE (s.id = l.original_transaction_id)))))
                 OFFSET 0) e)
             CROSS JOIN LATERAL ( VALUES (e.kind,e.amount_milliunits), ('uplift'::text,e.uplift_milliunits)) k(kind, milliunits))
          WHERE (k.milliunits IS NOT NULL)
        UNION ALL
         SELECT m.month,
            e.batch_id,
            e.currency,
            e.kind,
            e.amount_milliunits
           FROM (( SELECT l.original_transaction_id,
                    l.transaction_id,
                    l.sku,
                    l.kind,
                    l.amount_milliunits,
                    l.tax_exclusive_milliunits,
                    l.currency,
                    l.storefront,
                    l.occurred_at,
                    l.recorded_at,
                    l.evidence_id,
                    l.change_id,
                    l.batch_id,
                    l.explained_as,
                    l.batch_name,
                    l.is_correction
                   FROM repricer.marked_money l
                  WHERE (EXISTS ( SELECT
                           FROM repricer.closed_months))
                 OFFSET 0) e
             JOIN months m ON (((e.occurred_at >= m.starts_at) AND (e.occurred_at < m.ends_at))))
        UNION ALL
         SELECT m.month,
            x.batch_id,
            x.currency,
            'uplift'::text,
            x.uplift_milliunits
           FROM ((( SELECT DISTINCT s_1.original_transaction_id
                   FROM repricer.stale_figures s_1
                  WHERE (EXISTS ( SELECT
                           FROM repricer.closed_months))) s
             CROSS JOIN LATERAL ( SELECT c.original_transaction_id,
                    c.bucket,
                    c.transaction_id,
                    c.sku,
                    c.purchased_at,
                    c.price_milliunits,
                    c.quantity,
                    c.currency,
                    c.storefront,
                    c.refunded_milliunits,
                    c.batch_id,
                    c.change_id,
                    c.expected_milliunits,
                    c.explained_as,
                    c.exception,
                    c.uplift_milliunits
                   FROM repricer.explained_charges c
                  WHERE ((c.original_transaction_id = s.original_transaction_id) AND (c.uplift_milliunits IS NOT NULL))
                 OFFSET 0) x)
             JOIN months m ON (((x.purchased_at >= m.starts_at) AND (x.purchased_at < m.ends_at))))
          WHERE (EXISTS ( SELECT
                   FROM repricer.money_entries e
                  WHERE ((e.original_transaction_id = x.original_transaction_id) AND (e.transaction_id = x.transaction_id) AND (e.sku = x.sku) AND (e.kind = 'charge'::text) AND (e.correction = 0) AND (e.occurred_at = x.purchased_at) AND (e.currency = x.currency))))) f
  GROUP BY f.month, f.batch_id, f.currency, f.kind;

COMMENT ON VIEW repricer.known_figures IS 'The figures of closed months as they are known now.';

CREATE VIEW report.closed_period AS
 WITH both_figures AS (
         SELECT closed_figures.month,
            closed_figures.batch_id,
            closed_figures.currency,
            closed_figures.kind,
            closed_figures.milliunits AS closed,
            (0)::numeric AS known
           FROM repricer.closed_figures
        UNION ALL
         SELECT known_figures.month,
            known_figures.batch_id,
            known_figures.currency,
            known_figures.kind,
            0,
            known_figures.milliunits
           FROM repricer.known_figures
        ), sums AS (
         SELECT both_figures.month,
            both_figures.batch_id,
            both_figures.currency,
            both_figures.kind,
            (sum(both_figures.closed))::bigint AS closed,
            repricer.figure(sum(both_figures.known), ((((to_char((both_figures.month)::timestamp with time zone, 'YYYY-MM'::text) || ': lines of '::text) || both_figures.currency) || ', '::text) || both_figures.kind)) AS known
           FROM both_figures
          GROUP BY both_figures.month, both_figures.batch_id, both_figures.currency, both_figures.kind
        )
 SELECT s.month,
    s.currency,
    s.batch_id,
    b.name AS batch_name,
    s.kind,
    s.closed AS closed_milliunits,
    repricer.figure(((s.known)::numeric - (s.closed)::numeric), ((to_char((s.month)::timestamp with time zone, 'YYYY-MM'::text) || ': restatements of '::text) || s.currency)) AS restated_milliunits,
    s.known AS known_milliunits,
    m.closed_at,
    (m.closed_by)::text AS closed_by
   FROM ((sums s
     JOIN repricer.closed_months m ON ((m.month = s.month)))
     LEFT JOIN repricer.batches b ON ((b.batch_id = s.batch_id)));

COMMENT ON VIEW report.closed_period IS 'Closed months: the figures as they were closed, and what statements since then have added to them or taken away. No NAME_as_of: what was closed is never changed, and what is restated is about today.';

COMMENT ON COLUMN report.closed_period.month IS 'The month that was closed, by its first day; a month is one of UTC.';

COMMENT ON COLUMN report.closed_period.currency IS 'ISO 4217: the currency of all money in the row.';

COMMENT ON COLUMN report.closed_period.batch_id IS 'The batch whose change the money belongs to; null: no change was called before.';

COMMENT ON COLUMN report.closed_period.batch_name IS 'The name that the submitter gave to the batch.';

COMMENT ON COLUMN report.closed_period.kind IS 'charge, refund (negative), reversal: what happened in the month; uplift: what its renewals charged more than at the old prices.';

COMMENT ON COLUMN report.closed_period.closed_milliunits IS 'As it was known when the month was closed.';

COMMENT ON COLUMN report.closed_period.restated_milliunits IS 'What was learnt since: known less closed.';

COMMENT ON COLUMN report.closed_period.known_milliunits IS 'As it is known now.';

COMMENT ON COLUMN report.closed_period.closed_at IS 'When the month was closed.';

COMMENT ON COLUMN report.closed_period.closed_by IS 'Database user who closed it.';

CREATE VIEW report.notification_health AS
 SELECT n.type,
    n.subtype,
    count(*) AS notifications,
    min(n.received_at) AS first_received_at,
    max(n.received_at) AS last_received_at,
    max(n.signed_at) AS last_signed_at,
    count(*) FILTER (WHERE (NOT n.understood)) AS not_understood,
    count(i.notification_uuid) FILTER (WHERE (i.error IS NULL)) AS waiting,
    count(i.notification_uuid) FILTER (WHERE (i.error IS NOT NULL)) AS stuck,
    count(n.unknown) AS with_unknown_parts
   FROM (repricer.notifications n
     LEFT JOIN repricer.inbox i ON (((i.original_transaction_id = n.original_transaction_id) AND (i.notification_uuid = n.notification_uuid))))
  GROUP BY n.type, n.subtype;

COMMENT ON VIEW report.notification_health IS 'What arrived from the App Store, for each type and subtype. No NAME_as_of: it is about today: what arrived and what waits.';

COMMENT ON COLUMN report.notification_health.type IS 'notificationType as Apple wrote it.';

COMMENT ON COLUMN report.notification_health.subtype IS 'subtype as Apple wrote it; null: none.';

COMMENT ON COLUMN report.notification_health.notifications IS 'Notifications stored, duplicates apart.';

COMMENT ON COLUMN report.notification_health.first_received_at IS 'When the first arrived.';

COMMENT ON COLUMN report.notification_health.last_received_at IS 'When the last arrived.';

COMMENT ON COLUMN report.notification_health.last_signed_at IS 'When Apple signed the newest.';

COMMENT ON COLUMN report.notification_health.not_understood IS 'Stored as evidence, but of no type that the product knows.';

COMMENT ON COLUMN report.notification_health.waiting IS 'In the inbox, not folded yet.';

COMMENT ON COLUMN report.notification_health.stuck IS 'In the inbox with an error.';

COMMENT ON COLUMN report.notification_health.with_unknown_parts IS 'With something in them that the product does not know; report unknown_part names it.';

CREATE TABLE repricer.extension_requests (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    extension_id uuid NOT NULL,
    mass_extension_id uuid,
    extend_by_days integer NOT NULL,
    reason_code integer NOT NULL,
    note text,
    state text DEFAULT 'queued'::text NOT NULL,
    requested_by text NOT NULL,
    requested_at timestamp with time zone NOT NULL,
    call_id uuid,
    called_at timestamp with time zone,
    is_of_sandbox boolean DEFAULT false NOT NULL,
    is_doubtful boolean DEFAULT false NOT NULL,
    next_attempt_at timestamp with time zone,
    renewal_before timestamp with time zone,
    effective_at timestamp with time zone,
    settled_at timestamp with time zone,
    settled_by text,
    code text,
    detail text,
    put_back_for text,
    CONSTRAINT extension_requests_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id))),
    CONSTRAINT extension_requests_days CHECK (((extend_by_days >= 1) AND (extend_by_days <= 90))),
    CONSTRAINT extension_requests_reason CHECK (((reason_code >= 0) AND (reason_code <= 3))),
    CONSTRAINT extension_requests_settled CHECK (((state = ANY (ARRAY['extended'::text, 'refused'::text, 'ineligible'::text])) = (settled_at IS NOT NULL))),
    CONSTRAINT extension_requests_settled_by CHECK ((settled_by = ANY (ARRAY['answer'::text, 'notification'::text, 'status'::text, 'judgement'::text]))),
    CONSTRAINT extension_requests_state CHECK ((state = ANY (ARRAY['queued'::text, 'sending'::text, 'unknown'::text, 'extended'::text, 'refused'::text, 'ineligible'::text])))
);

CREATE TABLE repricer.mass_extensions (
    extension_id uuid NOT NULL,
    product_id text NOT NULL,
    storefronts text[],
    extend_by_days integer NOT NULL,
    reason_code integer NOT NULL,
    note text,
    eligible_count bigint NOT NULL,
    ineligible jsonb DEFAULT '{}'::jsonb NOT NULL,
    state text DEFAULT 'awaiting_approval'::text NOT NULL,
    submitted_by text NOT NULL,
    submitted_at timestamp with time zone NOT NULL,
    decided_by text,
    decided_at timestamp with time zone,
    decision_reason text,
    called_at timestamp with time zone,
    doubtful_since timestamp with time zone,
    next_attempt_at timestamp with time zone,
    code text,
    detail text,
    completed_at timestamp with time zone,
    status_succeeded bigint,
    status_failed bigint,
    summary_evidence text,
    summary_succeeded bigint,
    summary_failed bigint,
    rejected_by text,
    rejected_at timestamp with time zone,
    CONSTRAINT mass_extensions_complete CHECK (((state <> 'complete'::text) OR (completed_at IS NOT NULL))),
    CONSTRAINT mass_extensions_days CHECK (((extend_by_days >= 1) AND (extend_by_days <= 90))),
    CONSTRAINT mass_extensions_decided CHECK (((state = 'awaiting_approval'::text) OR ((state = 'rejected'::text) AND (rejected_by IS NOT NULL) AND (rejected_at IS NOT NULL)) OR ((decided_by IS NOT NULL) AND (decided_at IS NOT NULL)))),
    CONSTRAINT mass_extensions_forecast CHECK (((eligible_count >= 0) AND (jsonb_typeof(ineligible) = 'object'::text) AND (NOT (ineligible @? '$.*?(@.type() != "number")'::jsonpath)))),
    CONSTRAINT mass_extensions_product CHECK (((length(product_id) >= 1) AND (length(product_id) <= 255))),
    CONSTRAINT mass_extensions_reason CHECK (((reason_code >= 0) AND (reason_code <= 3))),
    CONSTRAINT mass_extensions_second_pair_of_eyes CHECK (((decided_by IS NULL) OR (state = 'rejected'::text) OR (decided_by <> submitted_by))),
    CONSTRAINT mass_extensions_state CHECK ((state = ANY (ARRAY['awaiting_approval'::text, 'queued'::text, 'sending'::text, 'unknown'::text, 'running'::text, 'complete'::text, 'refused'::text, 'rejected'::text, 'given_up'::text]))),
    CONSTRAINT mass_extensions_storefronts CHECK ((cardinality(storefronts) > 0))
);

COMMENT ON TABLE repricer.mass_extensions IS 'Requests to extend the renewal dates of all subscribers of a product.';

COMMENT ON COLUMN repricer.mass_extensions.decided_by IS 'Who approved it.';

CREATE TABLE repricer.renewal_extensions (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    evidence_id text NOT NULL,
    told_at timestamp with time zone NOT NULL,
    outcome text NOT NULL,
    product_id text,
    storefront text,
    renewal_before timestamp with time zone,
    renewal_at timestamp with time zone,
    CONSTRAINT renewal_extensions_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id))),
    CONSTRAINT renewal_extensions_outcome CHECK ((outcome = ANY (ARRAY['extended'::text, 'failed'::text, 'seen'::text])))
);

COMMENT ON COLUMN repricer.renewal_extensions.outcome IS 'extended, failed (of a mass extension), seen (by another statement, without its notification).';

CREATE VIEW repricer.attributed_extensions AS
 SELECT e.original_transaction_id,
    e.bucket,
    e.evidence_id,
    e.told_at,
    e.outcome,
    e.product_id,
    e.storefront,
    e.renewal_before,
    e.renewal_at,
    COALESCE(c.extension_id, m.extension_id) AS extension_id,
    (c.extension_id IS NOT NULL) AS is_single
   FROM ((repricer.renewal_extensions e
     LEFT JOIN LATERAL ( SELECT m_1.extension_id,
            m_1.extend_by_days
           FROM repricer.mass_extensions m_1
          WHERE ((m_1.product_id = e.product_id) AND (m_1.state <> 'refused'::text) AND ((m_1.storefronts IS NULL) OR (e.storefront = ANY (m_1.storefronts))) AND (e.told_at >= (m_1.called_at - '00:05:00'::interval)) AND (e.told_at <= COALESCE((m_1.completed_at + '1 day'::interval), 'infinity'::timestamp with time zone)) AND (NOT (EXISTS ( SELECT
                   FROM repricer.renewal_extensions p
                  WHERE ((p.original_transaction_id = e.original_transaction_id) AND (p.bucket = e.bucket) AND (p.told_at >= (m_1.called_at - '00:05:00'::interval)) AND (ROW(p.told_at, p.evidence_id) < ROW(e.told_at, e.evidence_id)) AND (((p.outcome = 'failed'::text) IS DISTINCT FROM (e.outcome = 'failed'::text)) OR (p.renewal_at IS DISTINCT FROM e.renewal_at)) AND (NOT (EXISTS ( SELECT
                           FROM repricer.extension_requests o
                          WHERE ((o.original_transaction_id = p.original_transaction_id) AND (o.bucket = p.bucket) AND (o.state = 'extended'::text) AND (o.effective_at = p.renewal_at))))))))))
          ORDER BY m_1.called_at DESC
         LIMIT 1) m ON (true))
     LEFT JOIN LATERAL ( SELECT c_1.extension_id
           FROM repricer.extension_requests c_1
          WHERE ((c_1.original_transaction_id = e.original_transaction_id) AND (c_1.bucket = e.bucket) AND (e.outcome <> 'failed'::text) AND (e.told_at >= (c_1.called_at - '00:05:00'::interval)) AND
                CASE
                    WHEN (c_1.state = 'extended'::text) THEN ((c_1.effective_at IS NULL) OR (c_1.effective_at = e.renewal_at))
                    WHEN (c_1.state = ANY (ARRAY['sending'::text, 'unknown'::text])) THEN (((m.extension_id IS NULL) OR (m.extension_id = c_1.mass_extension_id) OR ((NOT c_1.is_of_sandbox) AND (m.extend_by_days <> c_1.extend_by_days))) AND (c_1.is_of_sandbox OR (e.renewal_at = (e.renewal_before + ((c_1.extend_by_days)::double precision * '24:00:00'::interval)))))
                    ELSE false
                END)
          ORDER BY c_1.called_at DESC
         LIMIT 1) c ON (true));

CREATE TABLE repricer.extension_summaries (
    notification_uuid text NOT NULL,
    received_at timestamp with time zone NOT NULL,
    signed_at timestamp with time zone,
    folded_at timestamp with time zone,
    request_identifier text,
    product_id text,
    storefronts text[],
    succeeded bigint,
    failed bigint,
    extension_id uuid,
    detail text
);

CREATE VIEW report.renewal_extension AS
 WITH told AS (
         SELECT attributed_extensions.extension_id,
            attributed_extensions.original_transaction_id,
            bool_or((attributed_extensions.outcome <> 'failed'::text)) AS is_extended,
            bool_or((attributed_extensions.outcome = 'failed'::text)) AS is_failed,
            min(attributed_extensions.told_at) AS first_told_at,
            max(attributed_extensions.told_at) AS last_told_at,
            min(attributed_extensions.renewal_before) AS renewal_before,
            max(attributed_extensions.renewal_at) AS renewal_at
           FROM repricer.attributed_extensions
          WHERE (attributed_extensions.extension_id IS NOT NULL)
          GROUP BY attributed_extensions.extension_id, attributed_extensions.original_transaction_id
        ), tallies AS (
         SELECT told.extension_id,
            count(*) FILTER (WHERE told.is_extended) AS extended,
            count(*) FILTER (WHERE told.is_failed) AS failed,
            max(told.last_told_at) AS last_told_at
           FROM told
          GROUP BY told.extension_id
        ), retries AS (
         SELECT extension_requests.mass_extension_id,
            count(*) AS asked,
            count(*) FILTER (WHERE (extension_requests.state = 'extended'::text)) AS extended,
            count(*) FILTER (WHERE (extension_requests.state = ANY (ARRAY['queued'::text, 'sending'::text, 'unknown'::text]))) AS open
           FROM repricer.extension_requests
          WHERE (extension_requests.mass_extension_id IS NOT NULL)
          GROUP BY extension_requests.mass_extension_id
        ), masses AS (
         SELECT m.extension_id,
            m.product_id,
            m.storefronts,
            m.extend_by_days,
            m.reason_code,
            m.note,
            m.eligible_count,
            m.ineligible,
            m.state,
            m.submitted_by,
            m.submitted_at,
            m.decided_by,
            m.decided_at,
            m.decision_reason,
            m.called_at,
            m.doubtful_since,
            m.next_attempt_at,
            m.code,
            m.detail,
            m.completed_at,
            m.status_succeeded,
            m.status_failed,
            m.summary_evidence,
            m.summary_succeeded,
            m.summary_failed,
            m.rejected_by,
            m.rejected_at,
            COALESCE(t.extended, (0)::bigint) AS extended,
            COALESCE(t.failed, (0)::bigint) AS failed,
            t.last_told_at,
            COALESCE(m.summary_succeeded, m.status_succeeded) AS apple_extended,
            COALESCE(m.summary_failed, m.status_failed) AS apple_failed,
            COALESCE(r.asked, (0)::bigint) AS retried,
            COALESCE(r.extended, (0)::bigint) AS retried_extended
           FROM ((repricer.mass_extensions m
             LEFT JOIN tallies t USING (extension_id))
             LEFT JOIN retries r ON ((r.mass_extension_id = m.extension_id)))
        )
 SELECT 'all'::text AS kind,
    (masses.extension_id)::text AS extension_id,
    masses.product_id,
    masses.storefronts,
    NULL::text AS original_transaction_id,
    NULL::text AS retry_of,
    (masses.extend_by_days)::bigint AS extend_by_days,
    (masses.reason_code)::bigint AS reason_code,
    masses.state,
    masses.submitted_by AS requested_by,
    masses.submitted_at AS requested_at,
    masses.decided_by AS approved_by,
    masses.decided_at AS approved_at,
    masses.called_at,
    masses.completed_at,
    masses.eligible_count AS eligible_forecast,
    masses.extended,
    masses.failed,
    masses.apple_extended,
    masses.apple_failed,
    masses.retried,
    masses.retried_extended,
    NULL::timestamp with time zone AS renewal_before_at,
    NULL::timestamp with time zone AS renewal_at,
    masses.code,
        CASE
            WHEN (masses.state = ANY (ARRAY['rejected'::text, 'refused'::text, 'given_up'::text])) THEN 'ended'::text
            WHEN ((masses.state <> 'complete'::text) OR (masses.apple_extended IS NULL) OR (masses.apple_failed IS NULL)) THEN 'open'::text
            WHEN ((masses.extended = masses.apple_extended) AND (masses.failed = masses.apple_failed)) THEN 'clean'::text
            ELSE 'differs'::text
        END AS check_result,
    COALESCE(
        CASE
            WHEN ((masses.state = 'complete'::text) AND ((masses.extended <> masses.apple_extended) OR (masses.failed <> masses.apple_failed))) THEN format('%s extended and %s failed were told one by one, the App Store counts %s and %s'::text, masses.extended, masses.failed, masses.apple_extended, masses.apple_failed)
            ELSE NULL::text
        END, masses.detail) AS detail,
    masses.rejected_by,
    masses.rejected_at
   FROM masses
UNION ALL
 SELECT
        CASE
            WHEN (c.mass_extension_id IS NULL) THEN 'one'::text
            ELSE 'retry'::text
        END AS kind,
    (c.extension_id)::text AS extension_id,
    s.product_id,
    NULL::text[] AS storefronts,
    c.original_transaction_id,
    (c.mass_extension_id)::text AS retry_of,
    c.extend_by_days,
    c.reason_code,
    c.state,
    c.requested_by,
    c.requested_at,
    NULL::text AS approved_by,
    NULL::timestamp with time zone AS approved_at,
    c.called_at,
    c.settled_at AS completed_at,
    NULL::bigint AS eligible_forecast,
        CASE
            WHEN t.is_extended THEN 1
            ELSE 0
        END AS extended,
    0 AS failed,
        CASE
            WHEN (c.state = 'extended'::text) THEN 1
            ELSE 0
        END AS apple_extended,
    NULL::bigint AS apple_failed,
    NULL::bigint AS retried,
    NULL::bigint AS retried_extended,
    COALESCE(c.renewal_before, t.renewal_before) AS renewal_before_at,
    COALESCE(t.renewal_at, c.effective_at) AS renewal_at,
    c.code,
        CASE
            WHEN (c.state = ANY (ARRAY['refused'::text, 'ineligible'::text])) THEN 'ended'::text
            WHEN (c.state <> 'extended'::text) THEN 'open'::text
            WHEN t.is_extended THEN 'clean'::text
            ELSE 'open'::text
        END AS check_result,
    c.detail,
    NULL::text AS rejected_by,
    NULL::timestamp with time zone AS rejected_at
   FROM ((repricer.extension_requests c
     JOIN repricer.subscriptions s USING (original_transaction_id))
     LEFT JOIN told t ON (((t.extension_id = c.extension_id) AND (t.original_transaction_id = c.original_transaction_id))))
UNION ALL
 SELECT 'foreign'::text AS kind,
    COALESCE(f.request_identifier, f.notification_uuid) AS extension_id,
    f.product_id,
    f.storefronts,
    NULL::text AS original_transaction_id,
    NULL::text AS retry_of,
    NULL::bigint AS extend_by_days,
    NULL::bigint AS reason_code,
    'complete'::text AS state,
    NULL::text AS requested_by,
    NULL::timestamp with time zone AS requested_at,
    NULL::text AS approved_by,
    NULL::timestamp with time zone AS approved_at,
    NULL::timestamp with time zone AS called_at,
    f.signed_at AS completed_at,
    NULL::bigint AS eligible_forecast,
    NULL::bigint AS extended,
    NULL::bigint AS failed,
    f.succeeded AS apple_extended,
    f.failed AS apple_failed,
    NULL::bigint AS retried,
    NULL::bigint AS retried_extended,
    NULL::timestamp with time zone AS renewal_before_at,
    NULL::timestamp with time zone AS renewal_at,
    NULL::text AS code,
    'differs'::text AS check_result,
    COALESCE(f.detail, 'a summary of a request that was never made here'::text) AS detail,
    NULL::text AS rejected_by,
    NULL::timestamp with time zone AS rejected_at
   FROM repricer.extension_summaries f
  WHERE ((f.folded_at IS NOT NULL) AND (f.extension_id IS NULL));

COMMENT ON VIEW report.renewal_extension IS 'Renewal-date extensions: each request, what the App Store told of its subscriptions, and whether the counts agree. No NAME_as_of: requests of extensions keep no versions.';

COMMENT ON COLUMN report.renewal_extension.kind IS 'all (a mass extension), one, retry (one that a mass extension failed for), foreign (a summary of no request of ours).';

COMMENT ON COLUMN report.renewal_extension.extension_id IS 'The request identifier that the App Store was given.';

COMMENT ON COLUMN report.renewal_extension.product_id IS 'The subscription product.';

COMMENT ON COLUMN report.renewal_extension.storefronts IS 'Of a mass extension; null means all.';

COMMENT ON COLUMN report.renewal_extension.original_transaction_id IS 'Null for a mass extension.';

COMMENT ON COLUMN report.renewal_extension.retry_of IS 'The mass extension that failed for it.';

COMMENT ON COLUMN report.renewal_extension.extend_by_days IS '1 to 90.';

COMMENT ON COLUMN report.renewal_extension.reason_code IS '0 undeclared, 1 customer satisfaction, 2 other, 3 service issue or outage.';

COMMENT ON COLUMN report.renewal_extension.state IS 'awaiting_approval, queued, sending, unknown, running, complete, refused, rejected, given_up; of one: queued, sending, unknown, extended, refused, ineligible.';

COMMENT ON COLUMN report.renewal_extension.requested_by IS 'The database user who asked for it.';

COMMENT ON COLUMN report.renewal_extension.requested_at IS 'When.';

COMMENT ON COLUMN report.renewal_extension.approved_by IS 'The other user who approved it.';

COMMENT ON COLUMN report.renewal_extension.approved_at IS 'When.';

COMMENT ON COLUMN report.renewal_extension.called_at IS 'The first call to the App Store.';

COMMENT ON COLUMN report.renewal_extension.completed_at IS 'When the App Store was done, or it was given up; of one: when its outcome was known.';

COMMENT ON COLUMN report.renewal_extension.eligible_forecast IS 'Subscriptions that the facts held eligible when it was asked for.';

COMMENT ON COLUMN report.renewal_extension.extended IS 'Subscriptions whose extension was told one by one.';

COMMENT ON COLUMN report.renewal_extension.failed IS 'Subscriptions whose failure was told one by one.';

COMMENT ON COLUMN report.renewal_extension.apple_extended IS 'By the summary, else by the status; of one: by its answer.';

COMMENT ON COLUMN report.renewal_extension.apple_failed IS 'By the summary, else by the status.';

COMMENT ON COLUMN report.renewal_extension.retried IS 'Failed ones that were asked for one by one.';

COMMENT ON COLUMN report.renewal_extension.retried_extended IS 'Of these, extended.';

COMMENT ON COLUMN report.renewal_extension.renewal_before_at IS 'Of one: the renewal before.';

COMMENT ON COLUMN report.renewal_extension.renewal_at IS 'Of one: the renewal since.';

COMMENT ON COLUMN report.renewal_extension.code IS 'Why it was refused or not eligible, or what the App Store answers when asked about it.';

COMMENT ON COLUMN report.renewal_extension.check_result IS 'clean (the counts agree), differs, open (not all is told yet), ended (refused, rejected, or given up).';

COMMENT ON COLUMN report.renewal_extension.detail IS 'What differs, or what the App Store said.';

COMMENT ON COLUMN report.renewal_extension.rejected_by IS 'The user who rejected it, approved or not.';

COMMENT ON COLUMN report.renewal_extension.rejected_at IS 'When.';

CREATE VIEW report.unknown_part AS
 SELECT split_part(u.part, ':'::text, 1) AS kind,
    substr(u.part, (strpos(u.part, ':'::text) + 1)) AS name,
    count(*) AS notifications,
    min(n.received_at) AS first_received_at,
    max(n.received_at) AS last_received_at
   FROM (repricer.notifications n
     CROSS JOIN LATERAL unnest(n.unknown) u(part))
  WHERE (n.unknown IS NOT NULL)
  GROUP BY u.part
UNION ALL
 SELECT 'left_out'::text AS kind,
    u.part AS name,
    count(DISTINCT ROW(t.original_transaction_id, t.signed_at, t.evidence_id)) AS notifications,
    min(t.recorded_at) AS first_received_at,
    max(t.recorded_at) AS last_received_at
   FROM (repricer.told_statements t
     CROSS JOIN LATERAL jsonb_array_elements_text(t.left_out) u(part))
  WHERE (t.left_out IS NOT NULL)
  GROUP BY u.part;

COMMENT ON VIEW report.unknown_part IS 'What the App Store sent that the product does not know, or left out since it cannot be meant. It is kept, and read anew by `repricer reprocess` after an upgrade. No NAME_as_of: it is about today: reprocess reads anew what was unknown.';

COMMENT ON COLUMN report.unknown_part.kind IS 'type, subtype, field (not documented), value (of an enumeration), shape (another JSON type), body (missing), or left_out (a value that cannot be meant, as a price below zero: it is in no fact and no sum).';

COMMENT ON COLUMN report.unknown_part.name IS 'Where and what, as in renewal.offerType=5.';

COMMENT ON COLUMN report.unknown_part.notifications IS 'Notifications that hold it, duplicates apart; of left_out all statements, in answers and statuses too.';

COMMENT ON COLUMN report.unknown_part.first_received_at IS 'When the first arrived.';

COMMENT ON COLUMN report.unknown_part.last_received_at IS 'When the last arrived.';

CREATE TABLE repricer.always_consent_storefronts (
    storefront text NOT NULL,
    valid_from timestamp with time zone NOT NULL,
    revision integer NOT NULL,
    imported_by text DEFAULT SESSION_USER NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    withdrawn boolean DEFAULT false NOT NULL,
    is_required boolean,
    source text,
    CONSTRAINT always_consent_storefronts_says CHECK (((withdrawn = (is_required IS NULL)) AND (withdrawn = (source IS NULL)))),
    CONSTRAINT always_consent_storefronts_source CHECK ((source = ANY (ARRAY['apple'::text, 'estimated'::text]))),
    CONSTRAINT always_consent_storefronts_storefront CHECK ((storefront ~ '^[A-Z]{3}$'::text)),
    CONSTRAINT always_consent_storefronts_valid_from CHECK (((valid_from = '-infinity'::timestamp with time zone) OR ((valid_from >= '0001-01-01 00:00:00+00'::timestamp with time zone) AND (valid_from <= '9999-12-31 00:00:00+00'::timestamp with time zone))))
);

COMMENT ON TABLE repricer.always_consent_storefronts IS 'Append-only. Storefronts where every increase needs consent, or (is_required false) no longer does.';

CREATE TABLE repricer.audit_head (
    one_row boolean DEFAULT true NOT NULL,
    sequence bigint NOT NULL,
    hash text NOT NULL,
    CONSTRAINT audit_head_one_row CHECK (one_row)
);

CREATE TABLE repricer.audit_trail (
    sequence bigint NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    object text NOT NULL,
    details json NOT NULL,
    previous_hash text NOT NULL,
    hash text NOT NULL,
    CONSTRAINT audit_trail_details_size CHECK ((octet_length((details)::text) <= 65536)),
    CONSTRAINT audit_trail_instants CHECK ((((occurred_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (occurred_at <= '9999-12-31 00:00:00+00'::timestamp with time zone)) AND ((recorded_at >= '1970-01-01 00:00:00+00'::timestamp with time zone) AND (recorded_at <= '9999-12-31 00:00:00+00'::timestamp with time zone)))),
    CONSTRAINT audit_trail_sequence CHECK ((sequence > 0))
);

COMMENT ON TABLE repricer.audit_trail IS 'Append-only: every decision of a person, hash-chained. README.md says what is hashed.';

CREATE TABLE repricer.audit_waiting (
    waiting_id bigint NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    actor text NOT NULL,
    action text NOT NULL,
    object text NOT NULL,
    details json NOT NULL,
    CONSTRAINT audit_waiting_details_size CHECK ((octet_length((details)::text) <= 65536))
);

COMMENT ON TABLE repricer.audit_waiting IS 'Lines of the audit trail that are still to be chained, because a session held the end of the chain for two seconds.';

ALTER TABLE repricer.audit_waiting ALTER COLUMN waiting_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME repricer.audit_waiting_waiting_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE VIEW repricer.batch_effects AS
 SELECT g.batch_id,
    g.currency,
    sum(g.changes) AS changes,
    sum(round(((g.uplift * (repricer.twelfths(g.period))::numeric) / (12)::numeric))) AS uplift_milliunits,
    sum(round(((g.lost * (repricer.twelfths(g.period))::numeric) / (12)::numeric))) AS lost_milliunits
   FROM ( SELECT e.batch_id,
            e.currency,
            e.period,
            sum(e.changes) AS changes,
            sum(e.uplift) AS uplift,
            sum(e.lost) AS lost
           FROM ( SELECT t.batch_id,
                    t.currency,
                    t.storefront,
                    t.period,
                    t.changes,
                    (t.new_per_period - t.old_per_period) AS uplift,
                    ((((t.declined_lost + t.cancelled_lost) + t.lapsed_lost) + t.fell_lost) + t.others_lost) AS lost
                   FROM repricer.figure_tallies t
                  WHERE (NOT t.is_undo)
                UNION ALL
                 SELECT k.batch_id,
                    k.currency,
                    k.storefront,
                    k.period,
                    0,
                    (((k.current_price_milliunits - k.new_price_milliunits))::numeric * (k.seats)::numeric),
                    0
                   FROM (repricer.batches b
                     JOIN repricer.change_figures k ON ((k.batch_id = b.batch_id)))
                  WHERE ((k.word_due_at < ( SELECT d.until
                           FROM repricer.heard_charges d)) AND (k.renewals > 0) AND (NOT k.is_leaving) AND (NOT k.is_undo))
                UNION ALL
                 SELECT d.batch_id,
                    d.currency,
                    d.storefront,
                    d.period,
                    0,
                    0,
                    d.price_milliunits
                   FROM repricer.lost_dependents d) e
          GROUP BY e.batch_id, e.currency, e.storefront, e.period) g
  GROUP BY g.batch_id, g.currency
 HAVING bool_or(((g.uplift <> (0)::numeric) OR (g.lost <> (0)::numeric)));

COMMENT ON VIEW repricer.batch_effects IS 'What each batch brought and lost a month, by currency, of the changes that are summarised.';

CREATE TABLE repricer.batch_rule_answers (
    batch_id uuid NOT NULL,
    answers_id uuid NOT NULL,
    answers jsonb NOT NULL
);

CREATE TABLE repricer.batch_versions (
    batch_id uuid NOT NULL,
    recorded_until timestamp with time zone NOT NULL,
    state text NOT NULL,
    decided_by name,
    decided_at timestamp with time zone,
    decision_reason text,
    is_paused boolean NOT NULL,
    paused_reason text
);

COMMENT ON TABLE repricer.batch_versions IS 'Append-only. What a batch was until recorded_until, when a decision or a halt replaced it.';

CREATE TABLE repricer.bucket_turns (
    bucket smallint NOT NULL
);

COMMENT ON TABLE repricer.bucket_turns IS 'One row a bucket; a claim holds its lock until its transaction ends.';

CREATE TABLE repricer.charge_versions (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    transaction_id text NOT NULL,
    sku text NOT NULL,
    purchased_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    price_milliunits bigint NOT NULL,
    quantity bigint NOT NULL,
    currency text NOT NULL,
    storefront text,
    is_offer boolean NOT NULL,
    is_purchase boolean NOT NULL,
    is_added_seat boolean NOT NULL,
    is_relisted boolean NOT NULL,
    period text,
    refunded_milliunits bigint NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    recorded_until timestamp with time zone NOT NULL,
    CONSTRAINT charge_versions_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
)
PARTITION BY RANGE (recorded_until);

COMMENT ON TABLE repricer.charge_versions IS 'Append-only. What a charge was, from recorded_at until recorded_until.';

CREATE TABLE repricer.charge_versions_default (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    transaction_id text NOT NULL,
    sku text NOT NULL,
    purchased_at timestamp with time zone NOT NULL,
    expires_at timestamp with time zone,
    revoked_at timestamp with time zone,
    price_milliunits bigint NOT NULL,
    quantity bigint NOT NULL,
    currency text NOT NULL,
    storefront text,
    is_offer boolean NOT NULL,
    is_purchase boolean NOT NULL,
    is_added_seat boolean NOT NULL,
    is_relisted boolean NOT NULL,
    period text,
    refunded_milliunits bigint NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    recorded_until timestamp with time zone NOT NULL,
    CONSTRAINT charge_versions_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
);

CREATE VIEW repricer.charged_changes AS
 SELECT r.batch_id,
    r.original_transaction_id,
    r.change_id,
    count(*) AS renewals,
    min(r.purchased_at) AS first_at,
    repricer.fitting(sum(r.old_price_milliunits), (('the renewals of price change '::text || r.change_id) || ', at the old price,'::text)) AS old_total_milliunits,
    repricer.fitting(sum(r.price_milliunits), ('the renewals of price change '::text || r.change_id)) AS new_total_milliunits
   FROM repricer.charged_renewals r
  GROUP BY r.batch_id, r.original_transaction_id, r.change_id;

COMMENT ON VIEW repricer.charged_changes IS 'charged_renewals, one row a change.';

CREATE TABLE repricer.consent_thresholds (
    storefront text NOT NULL,
    currency text NOT NULL,
    period_kind text NOT NULL,
    valid_from timestamp with time zone NOT NULL,
    revision integer NOT NULL,
    imported_by text DEFAULT SESSION_USER NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    withdrawn boolean DEFAULT false NOT NULL,
    amount_milliunits bigint,
    source text,
    CONSTRAINT consent_thresholds_amount CHECK ((amount_milliunits >= 0)),
    CONSTRAINT consent_thresholds_amount_max CHECK ((amount_milliunits <= '1000000000000000'::bigint)),
    CONSTRAINT consent_thresholds_currency CHECK ((currency ~ '^[A-Z]{3}$'::text)),
    CONSTRAINT consent_thresholds_kind CHECK ((period_kind = ANY (ARRAY['annual'::text, 'nonannual'::text]))),
    CONSTRAINT consent_thresholds_says CHECK (((withdrawn = (amount_milliunits IS NULL)) AND (withdrawn = (source IS NULL)))),
    CONSTRAINT consent_thresholds_source CHECK ((source = ANY (ARRAY['apple'::text, 'estimated'::text]))),
    CONSTRAINT consent_thresholds_storefront CHECK ((storefront ~ '^[A-Z]{3}$'::text)),
    CONSTRAINT consent_thresholds_valid_from CHECK (((valid_from = '-infinity'::timestamp with time zone) OR ((valid_from >= '0001-01-01 00:00:00+00'::timestamp with time zone) AND (valid_from <= '9999-12-31 00:00:00+00'::timestamp with time zone))))
);

COMMENT ON TABLE repricer.consent_thresholds IS 'Append-only. An increase above 50 % that also exceeds the amount needs consent. The newest valid_from at an instant is in force then; of equal ones, the highest revision. -infinity: it has always held. A withdrawn row takes back what earlier revisions say for its key and valid_from.';

CREATE TABLE repricer.currency_decimals (
    currency text NOT NULL,
    valid_from timestamp with time zone NOT NULL,
    revision integer NOT NULL,
    imported_by text DEFAULT SESSION_USER NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    withdrawn boolean DEFAULT false NOT NULL,
    decimals integer,
    source text,
    CONSTRAINT currency_decimals_currency CHECK ((currency ~ '^[A-Z]{3}$'::text)),
    CONSTRAINT currency_decimals_range CHECK (((decimals >= 0) AND (decimals <= 3))),
    CONSTRAINT currency_decimals_says CHECK (((withdrawn = (decimals IS NULL)) AND (withdrawn = (source IS NULL)))),
    CONSTRAINT currency_decimals_source CHECK ((source = ANY (ARRAY['apple'::text, 'estimated'::text]))),
    CONSTRAINT currency_decimals_valid_from CHECK (((valid_from = '-infinity'::timestamp with time zone) OR ((valid_from >= '0001-01-01 00:00:00+00'::timestamp with time zone) AND (valid_from <= '9999-12-31 00:00:00+00'::timestamp with time zone))))
);

COMMENT ON TABLE repricer.currency_decimals IS 'Append-only. The currencies that Apple prices in, with the decimals that its prices have.';

CREATE TABLE repricer.default_limits (
    one_row boolean DEFAULT true NOT NULL,
    max_rise_basis_points numeric,
    max_fall_basis_points numeric,
    is_shipped boolean DEFAULT false NOT NULL,
    CONSTRAINT default_limits_numbers CHECK (((max_rise_basis_points >= (0)::numeric) AND (max_fall_basis_points >= (0)::numeric))),
    CONSTRAINT default_limits_one_row CHECK (one_row)
);

COMMENT ON TABLE repricer.default_limits IS 'What one approver may not approve alone, whoever they are. Written by set_default_limits.';

CREATE TABLE repricer.dependency_roles (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    sku text NOT NULL,
    role text NOT NULL,
    change_id uuid NOT NULL,
    CONSTRAINT dependency_roles_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id))),
    CONSTRAINT dependency_roles_role CHECK ((role = ANY (ARRAY['parent'::text, 'dependent'::text])))
);

CREATE TABLE repricer.dependent_cancellation_versions (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    change_id uuid NOT NULL,
    dependent_sku text NOT NULL,
    parent_sku text NOT NULL,
    batch_id uuid NOT NULL,
    cause text NOT NULL,
    is_cross_subscription boolean NOT NULL,
    target_transaction_id text,
    target_period text,
    cancel_reference_id uuid,
    state text NOT NULL,
    price_milliunits bigint,
    currency text,
    requested_at timestamp with time zone NOT NULL,
    requested_by_evidence text NOT NULL,
    settled_at timestamp with time zone,
    settled_by_evidence text,
    detail text,
    next_check_at timestamp with time zone,
    checks integer NOT NULL,
    put_back_for text,
    recorded_at timestamp with time zone NOT NULL,
    recorded_until timestamp with time zone NOT NULL,
    CONSTRAINT dependent_cancellation_versions_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
)
PARTITION BY RANGE (recorded_until);

COMMENT ON TABLE repricer.dependent_cancellation_versions IS 'Append-only. What a dependent''s cancellation was, from recorded_at until recorded_until.';

CREATE TABLE repricer.dependent_cancellation_versions_default (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    change_id uuid NOT NULL,
    dependent_sku text NOT NULL,
    parent_sku text NOT NULL,
    batch_id uuid NOT NULL,
    cause text NOT NULL,
    is_cross_subscription boolean NOT NULL,
    target_transaction_id text,
    target_period text,
    cancel_reference_id uuid,
    state text NOT NULL,
    price_milliunits bigint,
    currency text,
    requested_at timestamp with time zone NOT NULL,
    requested_by_evidence text NOT NULL,
    settled_at timestamp with time zone,
    settled_by_evidence text,
    detail text,
    next_check_at timestamp with time zone,
    checks integer NOT NULL,
    put_back_for text,
    recorded_at timestamp with time zone NOT NULL,
    recorded_until timestamp with time zone NOT NULL,
    CONSTRAINT dependent_cancellation_versions_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
);

CREATE TABLE repricer.notification_ids (
    notification_uuid text NOT NULL,
    received_at timestamp with time zone NOT NULL
);

CREATE TABLE repricer.signing_headers (
    digest bytea NOT NULL,
    header bytea NOT NULL,
    CONSTRAINT signing_headers_digest_size CHECK ((octet_length(digest) = 32))
);

COMMENT ON TABLE repricer.signing_headers IS 'The header of each signing chain, as sent, under its SHA-256. Rows are never deleted: a chain takes a few kilobytes, and evidence cannot be rebuilt without it.';

CREATE VIEW repricer.evidence_size AS
 SELECT n.notifications,
    s.bytes,
    (s.bytes / NULLIF(n.notifications, 0)) AS bytes_per_notification
   FROM (( SELECT count(*) AS notifications
           FROM repricer.notifications) n
     CROSS JOIN ( SELECT (sum(pg_total_relation_size(t.relation)))::bigint AS bytes
           FROM ( SELECT pg_partition_tree.relid AS relation
                   FROM pg_partition_tree('repricer.notifications'::regclass) pg_partition_tree(relid, parentrelid, isleaf, level)
                UNION ALL
                 SELECT 'repricer.notification_ids'::regclass AS regclass
                UNION ALL
                 SELECT 'repricer.signing_headers'::regclass AS regclass) t) s);

COMMENT ON VIEW repricer.evidence_size IS 'How much disk the raw evidence takes, with all its tables and indexes.';

CREATE TABLE repricer.figures_turn (
    one_row boolean DEFAULT true NOT NULL,
    CONSTRAINT figures_turn_one_row CHECK (one_row)
);

COMMENT ON TABLE repricer.figures_turn IS 'A session that summarises figures locks its row until the end of its transaction.';

CREATE TABLE repricer.first_approvals (
    batch_id uuid NOT NULL,
    approver text NOT NULL,
    approved_at timestamp with time zone NOT NULL,
    exceeded text[] NOT NULL
);

COMMENT ON TABLE repricer.first_approvals IS 'Append-only. Who approved a batch beyond their limits, and what exceeded which limit.';

CREATE TABLE repricer.history_imports (
    number integer NOT NULL,
    imported_at timestamp with time zone NOT NULL,
    imported_by text DEFAULT SESSION_USER NOT NULL,
    file text NOT NULL,
    content_sha256 text NOT NULL,
    CONSTRAINT history_imports_file_size CHECK (((length(file) >= 1) AND (length(file) <= 4096))),
    CONSTRAINT history_imports_number CHECK ((number > 0))
);

COMMENT ON TABLE repricer.history_imports IS 'Append-only. Who imported past increases, when and from which file.';

CREATE TABLE repricer.history_reading (
    one_row boolean DEFAULT true NOT NULL,
    read_through timestamp with time zone,
    window_start timestamp with time zone,
    window_end timestamp with time zone,
    pass text,
    slice_start timestamp with time zone,
    page_token text,
    CONSTRAINT history_reading_one_row CHECK (one_row),
    CONSTRAINT history_reading_pass CHECK ((pass = ANY (ARRAY['failures'::text, 'everything'::text]))),
    CONSTRAINT history_reading_window CHECK ((((window_start IS NULL) AND (window_end IS NULL) AND (pass IS NULL) AND (slice_start IS NULL) AND (page_token IS NULL)) OR ((window_start < window_end) AND (pass IS NOT NULL) AND (slice_start IS NOT NULL))))
);

CREATE TABLE repricer.imported_increases (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    sku text NOT NULL,
    increased_on date NOT NULL,
    old_price_milliunits bigint NOT NULL,
    new_price_milliunits bigint NOT NULL,
    currency text NOT NULL,
    number integer NOT NULL,
    CONSTRAINT imported_increases_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id))),
    CONSTRAINT imported_increases_currency CHECK ((currency ~ '^[A-Z]{3}$'::text)),
    CONSTRAINT imported_increases_day CHECK (((increased_on >= '1970-01-01'::date) AND (increased_on <= '9999-12-31'::date))),
    CONSTRAINT imported_increases_id_size CHECK (((length(original_transaction_id) >= 1) AND (length(original_transaction_id) <= 64))),
    CONSTRAINT imported_increases_rise CHECK (((0 < old_price_milliunits) AND (old_price_milliunits < new_price_milliunits))),
    CONSTRAINT imported_increases_sku_size CHECK (((length(sku) >= 1) AND (length(sku) <= 128)))
);

COMMENT ON TABLE repricer.imported_increases IS 'Append-only. Increases from before the time that statements cover. A day begins at 00:00 UTC. The subscription need not be known.';

CREATE TABLE repricer.kept_moves (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    batch_id uuid NOT NULL,
    known_after timestamp with time zone NOT NULL,
    counted_at timestamp with time zone NOT NULL,
    currency text NOT NULL,
    storefront text NOT NULL,
    months date[] NOT NULL,
    causes text[] NOT NULL,
    openings numeric[] NOT NULL,
    closings numeric[] NOT NULL,
    price_effects numeric[] NOT NULL,
    CONSTRAINT kept_moves_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
);
ALTER TABLE ONLY repricer.kept_moves ALTER COLUMN batch_id SET STATISTICS 0;

COMMENT ON TABLE repricer.kept_moves IS 'What the revenue bridge counts of a subscription, in twelfths of milliunits. Only summarise_figures writes it.';

COMMENT ON COLUMN repricer.kept_moves.known_after IS 'The row holds for instants after this one, the latest instant of a fact. infinity: the moves are counted from the facts, for a subscription with a call that is out, or with dependents on another one.';

CREATE TABLE repricer.mass_extension_approvals (
    extension_id uuid NOT NULL,
    approver text NOT NULL,
    approved_at timestamp with time zone NOT NULL,
    exceeded text[] NOT NULL
);

COMMENT ON TABLE repricer.mass_extension_approvals IS 'Append-only. Who approved a mass extension that exceeds their limits, as first_approvals says for batches.';

CREATE TABLE repricer.migration_steps (
    version integer NOT NULL,
    step integer NOT NULL,
    bucket smallint NOT NULL,
    changed_rows bigint NOT NULL,
    is_done boolean NOT NULL
);

COMMENT ON TABLE repricer.migration_steps IS 'How far the steps of a migration have come. bucket: the one to go on with, of a step that goes through them.';

CREATE TABLE repricer.price_change_history (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    change_id uuid NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    state text NOT NULL,
    evidence_kind text NOT NULL,
    evidence_id text NOT NULL,
    reason text,
    actor name DEFAULT SESSION_USER NOT NULL,
    recorded_at timestamp with time zone DEFAULT repricer.recording_instant() NOT NULL,
    CONSTRAINT price_change_history_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
)
PARTITION BY RANGE (occurred_at);

CREATE TABLE repricer.price_change_versions (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    change_id uuid NOT NULL,
    recorded_at timestamp with time zone,
    recorded_until timestamp with time zone NOT NULL,
    claim_recorded_at timestamp with time zone,
    current_sku text,
    former_skus text[],
    former_until timestamp with time zone[],
    current_dependent_skus text[],
    send_after timestamp with time zone,
    send_by timestamp with time zone NOT NULL,
    due_effective_at timestamp with time zone NOT NULL,
    planned_effective_at timestamp with time zone,
    moved_before_call text,
    moved_since_call text,
    request_reference_id uuid,
    state text NOT NULL,
    state_since timestamp with time zone NOT NULL,
    reason text,
    doubtful_since timestamp with time zone,
    refused_at timestamp with time zone,
    sent_at timestamp with time zone,
    scheduled_at timestamp with time zone,
    consent_asked_at timestamp with time zone,
    accepted_at timestamp with time zone,
    acceptance text,
    effective_at timestamp with time zone,
    ended_at timestamp with time zone,
    is_leaving boolean NOT NULL,
    CONSTRAINT price_change_versions_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
)
PARTITION BY RANGE (recorded_until);

COMMENT ON TABLE repricer.price_change_versions IS 'Append-only. What a price change was until recorded_until, when something newer replaced it.';

CREATE TABLE repricer.subscription_event_versions (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    signed_at timestamp with time zone NOT NULL,
    evidence_id text NOT NULL,
    source text NOT NULL,
    type text,
    subtype text,
    statement jsonb NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    recorded_until timestamp with time zone NOT NULL,
    CONSTRAINT subscription_event_versions_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
)
PARTITION BY RANGE (recorded_until);

COMMENT ON TABLE repricer.subscription_event_versions IS 'Append-only. Statements that reprocess read anew, as they were read before.';

CREATE VIEW repricer.month_partitions AS
 SELECT (p.relname)::text AS parent,
    (c.relname)::text AS partition,
    ("substring"(b.bounds, 'FROM \(''([^'']+)''\)'::text))::timestamp with time zone AS starts_at,
    ("substring"(b.bounds, 'TO \(''([^'']+)''\)'::text))::timestamp with time zone AS ends_at,
    (b.bounds = 'DEFAULT'::text) AS is_default,
    COALESCE(pg_total_relation_size((c.oid)::regclass), (0)::bigint) AS bytes
   FROM (((pg_inherits i
     JOIN pg_class p ON ((p.oid = i.inhparent)))
     JOIN pg_class c ON ((c.oid = i.inhrelid)))
     CROSS JOIN LATERAL ( SELECT pg_get_expr(c.relpartbound, c.oid) AS bounds
         OFFSET 0) b)
  WHERE ((b.bounds IS NOT NULL) AND (i.inhparent = ANY (ARRAY[('repricer.notifications'::regclass)::oid, ('repricer.price_change_history'::regclass)::oid, ('repricer.subscription_events'::regclass)::oid, ('repricer.subscription_event_versions'::regclass)::oid, ('repricer.charge_versions'::regclass)::oid, ('repricer.price_change_versions'::regclass)::oid, ('repricer.dependent_cancellation_versions'::regclass)::oid])));

COMMENT ON VIEW repricer.month_partitions IS 'The partitions of the tables that have one for each month. The default partition has no bounds.';

CREATE TABLE repricer.move_tallies (
    batch_id uuid NOT NULL,
    month date NOT NULL,
    currency text NOT NULL,
    storefront text NOT NULL,
    cause text NOT NULL,
    opening numeric NOT NULL,
    closing numeric NOT NULL,
    price_effect numeric NOT NULL
);

COMMENT ON TABLE repricer.move_tallies IS 'Sums of kept_moves, each month to its end. Only summarise_figures writes it, one session at a time.';

CREATE TABLE repricer.moved_renewals (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    moved_at timestamp with time zone NOT NULL,
    CONSTRAINT moved_renewals_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
);

CREATE TABLE repricer.notifications_default (
    notification_uuid text NOT NULL,
    received_at timestamp with time zone NOT NULL,
    signed_at timestamp with time zone,
    type text,
    subtype text,
    original_transaction_id text,
    understood boolean NOT NULL,
    unknown text[],
    signed_payload text,
    packed bytea,
    header_digests bytea,
    CONSTRAINT notifications_whole_or_packed CHECK ((((signed_payload IS NULL) = (packed IS NOT NULL)) AND ((packed IS NULL) = (header_digests IS NULL)) AND ((octet_length(header_digests) % 32) = 0)))
)
WITH (toast_tuple_target='128');
ALTER TABLE ONLY repricer.notifications_default ALTER COLUMN signed_payload SET COMPRESSION lz4;
ALTER TABLE ONLY repricer.notifications_default ALTER COLUMN packed SET COMPRESSION lz4;

CREATE TABLE repricer.outbox (
    aggregateid text NOT NULL,
    bucket smallint NOT NULL,
    "position" bigint NOT NULL,
    id uuid DEFAULT gen_random_uuid() NOT NULL,
    aggregatetype text NOT NULL,
    type text NOT NULL,
    payload jsonb NOT NULL,
    "timestamp" timestamp with time zone DEFAULT now() NOT NULL,
    CONSTRAINT outbox_bucket CHECK ((bucket = repricer.bucket_of(aggregateid)))
);

COMMENT ON TABLE repricer.outbox IS 'Events for other programs. An event is written in the transaction that changes what it reports, is never updated, and is deleted when its retention ends.';

COMMENT ON COLUMN repricer.outbox.aggregateid IS 'The subscription. Its events are in order.';

COMMENT ON COLUMN repricer.outbox."position" IS 'Grows within an aggregate; has gaps.';

COMMENT ON COLUMN repricer.outbox.id IS 'Identifies the event for ever. A receiver that knows this id has the event already.';

COMMENT ON COLUMN repricer.outbox."timestamp" IS 'When it was written, by the machine''s clock; payload has the business instants.';

CREATE TABLE repricer.price_change_history_default (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    change_id uuid NOT NULL,
    occurred_at timestamp with time zone NOT NULL,
    state text NOT NULL,
    evidence_kind text NOT NULL,
    evidence_id text NOT NULL,
    reason text,
    actor name DEFAULT SESSION_USER NOT NULL,
    recorded_at timestamp with time zone DEFAULT repricer.recording_instant() NOT NULL,
    CONSTRAINT price_change_history_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
);

CREATE TABLE repricer.price_change_versions_default (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    change_id uuid NOT NULL,
    recorded_at timestamp with time zone,
    recorded_until timestamp with time zone NOT NULL,
    claim_recorded_at timestamp with time zone,
    current_sku text,
    former_skus text[],
    former_until timestamp with time zone[],
    current_dependent_skus text[],
    send_after timestamp with time zone,
    send_by timestamp with time zone NOT NULL,
    due_effective_at timestamp with time zone NOT NULL,
    planned_effective_at timestamp with time zone,
    moved_before_call text,
    moved_since_call text,
    request_reference_id uuid,
    state text NOT NULL,
    state_since timestamp with time zone NOT NULL,
    reason text,
    doubtful_since timestamp with time zone,
    refused_at timestamp with time zone,
    sent_at timestamp with time zone,
    scheduled_at timestamp with time zone,
    consent_asked_at timestamp with time zone,
    accepted_at timestamp with time zone,
    acceptance text,
    effective_at timestamp with time zone,
    ended_at timestamp with time zone,
    is_leaving boolean NOT NULL,
    CONSTRAINT price_change_versions_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
);

ALTER TABLE repricer.put_backs ALTER COLUMN put_back_id ADD GENERATED ALWAYS AS IDENTITY (
    SEQUENCE NAME repricer.put_backs_put_back_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1
);

CREATE TABLE repricer.rate_limits (
    endpoint text NOT NULL,
    next_permit_micros bigint DEFAULT 0 NOT NULL,
    taken_micros bigint[] DEFAULT '{}'::bigint[] NOT NULL,
    counted_since_micros bigint DEFAULT 0 NOT NULL,
    blocked_until timestamp with time zone
);

COMMENT ON COLUMN repricer.rate_limits.next_permit_micros IS 'The next permit is not earlier than this. Every permit given so far is. Microseconds since 1970.';

COMMENT ON COLUMN repricer.rate_limits.taken_micros IS 'The permits of the last window and those to come, ascending; empty where the gap between permits alone keeps the rate. Microseconds since 1970.';

COMMENT ON COLUMN repricer.rate_limits.counted_since_micros IS 'Earlier permits only fill a window in which nobody called. They stand for no calls, and are not counted as such.';

COMMENT ON COLUMN repricer.rate_limits.blocked_until IS 'The App Store asked that no process call before this instant.';

CREATE TABLE repricer.refusal_streaks (
    kind text NOT NULL,
    batch_id uuid,
    storefront text,
    code bigint NOT NULL,
    alike text[] DEFAULT '{}'::text[] NOT NULL,
    refused text[] DEFAULT '{}'::text[] NOT NULL,
    refused_again text[] DEFAULT '{}'::text[] NOT NULL,
    of_batches uuid[] DEFAULT '{}'::uuid[] NOT NULL,
    of_subscriptions text[] DEFAULT '{}'::text[] NOT NULL,
    since timestamp with time zone NOT NULL,
    halted_at timestamp with time zone,
    is_about_key boolean DEFAULT false NOT NULL,
    believed_done text[] DEFAULT '{}'::text[] NOT NULL,
    believed_done_at text[] DEFAULT '{}'::text[] NOT NULL,
    CONSTRAINT refusal_streaks_pairs CHECK (((cardinality(of_batches) = cardinality(of_subscriptions)) AND (cardinality(believed_done) = cardinality(believed_done_at))))
);

COMMENT ON TABLE repricer.refusal_streaks IS 'Refusals in a row since a call succeeded. They show whether a refusal is about one subscription or about all.';

CREATE TABLE repricer.retention_floors (
    rule text NOT NULL,
    dropped_before timestamp with time zone NOT NULL,
    dropped_at timestamp with time zone DEFAULT clock_timestamp() NOT NULL,
    dropped_by text DEFAULT SESSION_USER NOT NULL
);

COMMENT ON TABLE repricer.retention_floors IS 'For each rule of retention, the instant before which everything it names was dropped.';

CREATE TABLE repricer.retention_progress (
    one_row boolean DEFAULT true NOT NULL,
    covers_before timestamp with time zone NOT NULL,
    began_at timestamp with time zone NOT NULL,
    done_through text DEFAULT ''::text NOT NULL,
    CONSTRAINT retention_progress_one_row CHECK (one_row)
);

COMMENT ON COLUMN repricer.retention_progress.began_at IS 'By the same clock as recorded_at. The run may have missed what was recorded since.';

CREATE TABLE repricer.rule_imports (
    revision integer NOT NULL,
    imported_at timestamp with time zone NOT NULL,
    imported_by text DEFAULT SESSION_USER NOT NULL,
    file text NOT NULL,
    content_sha256 text,
    CONSTRAINT rule_imports_file_size CHECK (((length(file) >= 1) AND (length(file) <= 4096))),
    CONSTRAINT rule_imports_revision CHECK ((revision > 0))
);

COMMENT ON TABLE repricer.rule_imports IS 'Who changed the rules, when and from which file. The highest revision is the version of the rules.';

CREATE TABLE repricer.running_moves (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    batch_id uuid NOT NULL,
    month date NOT NULL,
    currency text NOT NULL,
    storefront text NOT NULL,
    cause text NOT NULL,
    from_at timestamp with time zone NOT NULL,
    until_at timestamp with time zone NOT NULL,
    opening numeric NOT NULL,
    closing numeric NOT NULL,
    price_effect numeric NOT NULL,
    CONSTRAINT running_moves_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
);
ALTER TABLE ONLY repricer.running_moves ALTER COLUMN batch_id SET STATISTICS 0;

COMMENT ON TABLE repricer.running_moves IS 'What must be added to a whole month of kept_moves to have it as of an instant within the month, after from_at and not after until_at. Only summarise_figures writes it.';

CREATE TABLE repricer.schema_migrations (
    version integer NOT NULL,
    name text NOT NULL,
    checksum text NOT NULL,
    is_breaking boolean NOT NULL,
    applied_at timestamp with time zone NOT NULL,
    finished_at timestamp with time zone
);

COMMENT ON TABLE repricer.schema_migrations IS 'Which files of Migrations/ were applied, with the SHA-256 of their text.';

COMMENT ON COLUMN repricer.schema_migrations.is_breaking IS 'Programs of an older schema may not run from the moment that the row is there.';

COMMENT ON COLUMN repricer.schema_migrations.finished_at IS 'Null: some steps are still to be done.';

CREATE TABLE repricer.service_leases (
    name text NOT NULL,
    owner uuid,
    leased_until timestamp with time zone,
    next_run_at timestamp with time zone,
    last_run_at timestamp with time zone,
    CONSTRAINT service_leases_owned_for_a_time CHECK (((owner IS NULL) = (leased_until IS NULL)))
);

CREATE TABLE repricer.status_checks (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    reason text NOT NULL,
    list_id text DEFAULT ''::text NOT NULL,
    line bigint,
    requested_at timestamp with time zone NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    next_check_at timestamp with time zone,
    done_at timestamp with time zone,
    outcome text,
    detail text,
    CONSTRAINT status_checks_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id))),
    CONSTRAINT status_checks_done CHECK (((done_at IS NULL) = (outcome IS NULL))),
    CONSTRAINT status_checks_id_size CHECK (((length(original_transaction_id) >= 1) AND (length(original_transaction_id) <= 64))),
    CONSTRAINT status_checks_outcome CHECK ((outcome = ANY (ARRAY['read'::text, 'drifted'::text, 'not_found'::text, 'refused'::text, 'unreadable'::text, 'unanswered'::text]))),
    CONSTRAINT status_checks_reason CHECK ((reason = ANY (ARRAY['sync'::text, 'silent'::text, 'legacy'::text, 'recover'::text])))
);

CREATE TABLE repricer.subscription_checkpoints (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    status integer,
    auto_renews boolean,
    in_billing_retry boolean DEFAULT false NOT NULL,
    grace_period_expires_at timestamp with time zone,
    expiration_intent integer,
    storefront text,
    currency text,
    period text,
    renewal_period text,
    product_id text,
    app_account_token text,
    ownership_type text,
    offer_discount_type text,
    offer_type integer,
    quantity integer,
    transaction_reason text,
    app_transaction_id text,
    auto_renew_product_id text,
    renewal_price_milliunits bigint,
    renewal_currency text,
    renewal_offer_type integer,
    signed_details jsonb,
    latest_transaction_id text,
    original_purchase_at timestamp with time zone,
    recent_subscription_start_at timestamp with time zone,
    purchased_at timestamp with time zone,
    expires_at timestamp with time zone,
    renewal_at timestamp with time zone,
    consistency_token text,
    items jsonb DEFAULT '[]'::jsonb NOT NULL,
    increases jsonb DEFAULT '[]'::jsonb NOT NULL,
    renames jsonb,
    seen_skus text[] DEFAULT '{}'::text[] NOT NULL,
    signed_at timestamp with time zone,
    known_since timestamp with time zone,
    folded_signed_at timestamp with time zone,
    folded_evidence_id text,
    checkpoint_at timestamp with time zone,
    covers_before timestamp with time zone NOT NULL,
    rest jsonb DEFAULT '{}'::jsonb NOT NULL,
    CONSTRAINT subscription_checkpoints_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
);

COMMENT ON TABLE repricer.subscription_checkpoints IS 'The state of a subscription after all statements signed before covers_before. One row a subscription; the next checkpoint replaces it.';

CREATE TABLE repricer.subscription_event_versions_default (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    signed_at timestamp with time zone NOT NULL,
    evidence_id text NOT NULL,
    source text NOT NULL,
    type text,
    subtype text,
    statement jsonb NOT NULL,
    recorded_at timestamp with time zone NOT NULL,
    recorded_until timestamp with time zone NOT NULL,
    CONSTRAINT subscription_event_versions_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id)))
);

CREATE TABLE repricer.subscription_events_default (
    original_transaction_id text NOT NULL,
    bucket smallint NOT NULL,
    signed_at timestamp with time zone NOT NULL,
    evidence_id text NOT NULL,
    source text NOT NULL,
    type text,
    subtype text,
    statement jsonb NOT NULL,
    recorded_at timestamp with time zone DEFAULT repricer.recording_instant() NOT NULL,
    CONSTRAINT subscription_events_bucket CHECK ((bucket = repricer.bucket_of(original_transaction_id))),
    CONSTRAINT subscription_events_source CHECK ((source = ANY (ARRAY['notification'::text, 'response'::text, 'status'::text, 'legacy'::text])))
);

CREATE TABLE repricer.webhook_deliveries (
    aggregateid text NOT NULL,
    bucket smallint NOT NULL,
    "position" bigint NOT NULL,
    state text DEFAULT 'pending'::text NOT NULL,
    attempts integer DEFAULT 0 NOT NULL,
    due_since timestamp with time zone DEFAULT now() NOT NULL,
    next_attempt_at timestamp with time zone,
    lease_until timestamp with time zone,
    fence bigint DEFAULT 0 NOT NULL,
    settled_at timestamp with time zone,
    last_error text,
    CONSTRAINT webhook_deliveries_bucket CHECK ((bucket = repricer.bucket_of(aggregateid))),
    CONSTRAINT webhook_deliveries_state CHECK ((state = ANY (ARRAY['pending'::text, 'delivered'::text, 'given_up'::text])))
);

ALTER TABLE ONLY repricer.charge_versions ATTACH PARTITION repricer.charge_versions_default DEFAULT;

ALTER TABLE ONLY repricer.dependent_cancellation_versions ATTACH PARTITION repricer.dependent_cancellation_versions_default DEFAULT;

ALTER TABLE ONLY repricer.notifications ATTACH PARTITION repricer.notifications_default DEFAULT;

ALTER TABLE ONLY repricer.price_change_history ATTACH PARTITION repricer.price_change_history_default DEFAULT;

ALTER TABLE ONLY repricer.price_change_versions ATTACH PARTITION repricer.price_change_versions_default DEFAULT;

ALTER TABLE ONLY repricer.subscription_event_versions ATTACH PARTITION repricer.subscription_event_versions_default DEFAULT;

ALTER TABLE ONLY repricer.subscription_events ATTACH PARTITION repricer.subscription_events_default DEFAULT;

ALTER TABLE ONLY repricer.app_binding
    ADD CONSTRAINT app_binding_pkey PRIMARY KEY (one_row);

CREATE FUNCTION repricer.bind_app(p_bundle_id text, p_environment text) RETURNS void
    LANGUAGE sql SECURITY DEFINER
    SET search_path TO 'repricer', 'pg_temp'
    BEGIN ATOMIC
 INSERT INTO repricer.app_binding (bundle_id, environment)
   VALUES (bind_app.p_bundle_id, bind_app.p_environment) ON CONFLICT ON CONSTRAINT app_binding_pkey DO NOTHING;
END;

ALTER TABLE ONLY repricer.always_consent_storefronts
    ADD CONSTRAINT always_consent_storefronts_pkey PRIMARY KEY (storefront, valid_from, revision);

ALTER TABLE ONLY repricer.approval_limits
    ADD CONSTRAINT approval_limits_pkey PRIMARY KEY (approver);

ALTER TABLE ONLY repricer.audit_head
    ADD CONSTRAINT audit_head_pkey PRIMARY KEY (one_row);

ALTER TABLE ONLY repricer.audit_trail
    ADD CONSTRAINT audit_trail_hash UNIQUE (hash);

ALTER TABLE ONLY repricer.audit_trail
    ADD CONSTRAINT audit_trail_pkey PRIMARY KEY (sequence);

ALTER TABLE ONLY repricer.audit_waiting
    ADD CONSTRAINT audit_waiting_pkey PRIMARY KEY (waiting_id);

ALTER TABLE ONLY repricer.batch_rejects
    ADD CONSTRAINT batch_rejects_pkey PRIMARY KEY (batch_id, line);

ALTER TABLE ONLY repricer.batch_rule_answers
    ADD CONSTRAINT batch_rule_answers_pkey PRIMARY KEY (batch_id, answers_id);

ALTER TABLE ONLY repricer.batch_versions
    ADD CONSTRAINT batch_versions_pkey PRIMARY KEY (batch_id, recorded_until);

ALTER TABLE ONLY repricer.batches
    ADD CONSTRAINT batches_pkey PRIMARY KEY (batch_id);

ALTER TABLE ONLY repricer.batches
    ADD CONSTRAINT batches_submitter UNIQUE (batch_id, submitted_by);

ALTER TABLE ONLY repricer.blocking_sessions
    ADD CONSTRAINT blocking_sessions_pkey PRIMARY KEY (one_row);

ALTER TABLE ONLY repricer.bucket_turns
    ADD CONSTRAINT bucket_turns_pkey PRIMARY KEY (bucket);

ALTER TABLE ONLY repricer.change_figures
    ADD CONSTRAINT change_figures_pkey PRIMARY KEY (original_transaction_id, change_id, bucket);

ALTER TABLE ONLY repricer.charge_versions
    ADD CONSTRAINT charge_versions_pkey PRIMARY KEY (original_transaction_id, transaction_id, sku, recorded_until, bucket);

ALTER TABLE ONLY repricer.charge_versions_default
    ADD CONSTRAINT charge_versions_default_pkey PRIMARY KEY (original_transaction_id, transaction_id, sku, recorded_until, bucket);

ALTER TABLE ONLY repricer.charges
    ADD CONSTRAINT charges_pkey PRIMARY KEY (original_transaction_id, transaction_id, sku, bucket);

ALTER TABLE ONLY repricer.closed_figures
    ADD CONSTRAINT closed_figures_once UNIQUE NULLS NOT DISTINCT (month, batch_id, currency, kind);

ALTER TABLE ONLY repricer.closed_months
    ADD CONSTRAINT closed_months_pkey PRIMARY KEY (month);

ALTER TABLE ONLY repricer.consent_thresholds
    ADD CONSTRAINT consent_thresholds_pkey PRIMARY KEY (storefront, currency, period_kind, valid_from, revision);

ALTER TABLE ONLY repricer.currency_decimals
    ADD CONSTRAINT currency_decimals_pkey PRIMARY KEY (currency, valid_from, revision);

ALTER TABLE ONLY repricer.default_limits
    ADD CONSTRAINT default_limits_pkey PRIMARY KEY (one_row);

ALTER TABLE ONLY repricer.dependency_roles
    ADD CONSTRAINT dependency_roles_one_part PRIMARY KEY (original_transaction_id, sku, bucket);

ALTER TABLE ONLY repricer.dependent_cancellation_versions
    ADD CONSTRAINT dependent_cancellation_versions_pkey PRIMARY KEY (original_transaction_id, change_id, dependent_sku, recorded_until, bucket);

ALTER TABLE ONLY repricer.dependent_cancellation_versions_default
    ADD CONSTRAINT dependent_cancellation_versions_default_pkey PRIMARY KEY (original_transaction_id, change_id, dependent_sku, recorded_until, bucket);

ALTER TABLE ONLY repricer.dependent_cancellations
    ADD CONSTRAINT dependent_cancellations_pkey PRIMARY KEY (original_transaction_id, change_id, dependent_sku, bucket);

ALTER TABLE ONLY repricer.dependent_claims
    ADD CONSTRAINT dependent_claims_pkey PRIMARY KEY (original_transaction_id, sku, claimed_by, change_id, bucket);

ALTER TABLE ONLY repricer.exchange_rates
    ADD CONSTRAINT exchange_rates_pkey PRIMARY KEY (currency, valid_from, revision);

ALTER TABLE ONLY repricer.extension_requests
    ADD CONSTRAINT extension_requests_pkey PRIMARY KEY (original_transaction_id, extension_id, bucket);

ALTER TABLE ONLY repricer.extension_summaries
    ADD CONSTRAINT extension_summaries_pkey PRIMARY KEY (notification_uuid);

ALTER TABLE ONLY repricer.figure_tallies
    ADD CONSTRAINT figure_tallies_pkey PRIMARY KEY (batch_id, is_undo, direction, forecast_consent, currency, storefront, period);

ALTER TABLE ONLY repricer.figures_turn
    ADD CONSTRAINT figures_turn_pkey PRIMARY KEY (one_row);

ALTER TABLE ONLY repricer.first_approvals
    ADD CONSTRAINT first_approvals_pkey PRIMARY KEY (batch_id, approver);

ALTER TABLE ONLY repricer.forecast_tallies
    ADD CONSTRAINT forecast_tallies_pkey PRIMARY KEY (batch_id, outcome);

ALTER TABLE ONLY repricer.history_imports
    ADD CONSTRAINT history_imports_pkey PRIMARY KEY (number);

ALTER TABLE ONLY repricer.history_reading
    ADD CONSTRAINT history_reading_pkey PRIMARY KEY (one_row);

ALTER TABLE ONLY repricer.imported_increases
    ADD CONSTRAINT imported_increases_pkey PRIMARY KEY (original_transaction_id, sku, increased_on, bucket);

ALTER TABLE ONLY repricer.inbox
    ADD CONSTRAINT inbox_pkey PRIMARY KEY (original_transaction_id, notification_uuid, bucket);

ALTER TABLE ONLY repricer.kept_statements
    ADD CONSTRAINT kept_statements_pkey PRIMARY KEY (original_transaction_id, signed_at, evidence_id, bucket);

ALTER TABLE ONLY repricer.mass_extension_approvals
    ADD CONSTRAINT mass_extension_approvals_pkey PRIMARY KEY (extension_id, approver);

ALTER TABLE ONLY repricer.mass_extensions
    ADD CONSTRAINT mass_extensions_pkey PRIMARY KEY (extension_id);

ALTER TABLE ONLY repricer.migration_steps
    ADD CONSTRAINT migration_steps_pkey PRIMARY KEY (version, step);

ALTER TABLE ONLY repricer.money_entries
    ADD CONSTRAINT money_entries_pkey PRIMARY KEY (original_transaction_id, transaction_id, sku, kind, occurred_at, number, currency, correction, bucket);

ALTER TABLE ONLY repricer.move_tallies
    ADD CONSTRAINT move_tallies_pkey PRIMARY KEY (batch_id, month, currency, storefront, cause);

ALTER TABLE ONLY repricer.moved_renewals
    ADD CONSTRAINT moved_renewals_pkey PRIMARY KEY (original_transaction_id, bucket);

ALTER TABLE ONLY repricer.notification_ids
    ADD CONSTRAINT notification_ids_pkey PRIMARY KEY (notification_uuid);

ALTER TABLE ONLY repricer.notifications
    ADD CONSTRAINT notifications_pkey PRIMARY KEY (notification_uuid, received_at);

ALTER TABLE ONLY repricer.notifications_default
    ADD CONSTRAINT notifications_default_pkey PRIMARY KEY (notification_uuid, received_at);

ALTER TABLE ONLY repricer.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (aggregateid, "position", bucket);

ALTER TABLE ONLY repricer.overdue_statements
    ADD CONSTRAINT overdue_statements_pkey PRIMARY KEY (original_transaction_id, signed_at, evidence_id, bucket);

ALTER TABLE ONLY repricer.price_change_history
    ADD CONSTRAINT price_change_history_pkey PRIMARY KEY (original_transaction_id, change_id, occurred_at, state, evidence_id, bucket);

ALTER TABLE ONLY repricer.price_change_history_default
    ADD CONSTRAINT price_change_history_default_pkey PRIMARY KEY (original_transaction_id, change_id, occurred_at, state, evidence_id, bucket);

ALTER TABLE ONLY repricer.price_change_versions
    ADD CONSTRAINT price_change_versions_pkey PRIMARY KEY (original_transaction_id, change_id, recorded_until, bucket);

ALTER TABLE ONLY repricer.price_change_versions_default
    ADD CONSTRAINT price_change_versions_default_pkey PRIMARY KEY (original_transaction_id, change_id, recorded_until, bucket);

ALTER TABLE ONLY repricer.price_changes
    ADD CONSTRAINT price_changes_pkey PRIMARY KEY (original_transaction_id, change_id, bucket);

ALTER TABLE ONLY repricer.put_backs
    ADD CONSTRAINT put_backs_pkey PRIMARY KEY (put_back_id);

ALTER TABLE ONLY repricer.rate_limits
    ADD CONSTRAINT rate_limits_pkey PRIMARY KEY (endpoint);

ALTER TABLE ONLY repricer.refusal_streaks
    ADD CONSTRAINT refusal_streaks_scope UNIQUE NULLS NOT DISTINCT (kind, batch_id, storefront);

ALTER TABLE ONLY repricer.renewal_extensions
    ADD CONSTRAINT renewal_extensions_pkey PRIMARY KEY (original_transaction_id, evidence_id, bucket);

ALTER TABLE ONLY repricer.retention_floors
    ADD CONSTRAINT retention_floors_pkey PRIMARY KEY (rule);

ALTER TABLE ONLY repricer.retention_progress
    ADD CONSTRAINT retention_progress_pkey PRIMARY KEY (one_row);

ALTER TABLE ONLY repricer.rule_imports
    ADD CONSTRAINT rule_imports_person UNIQUE (revision, imported_by, imported_at);

ALTER TABLE ONLY repricer.rule_imports
    ADD CONSTRAINT rule_imports_pkey PRIMARY KEY (revision);

ALTER TABLE ONLY repricer.schema_migrations
    ADD CONSTRAINT schema_migrations_pkey PRIMARY KEY (version);

ALTER TABLE ONLY repricer.service_controls
    ADD CONSTRAINT service_controls_pkey PRIMARY KEY (one_row);

ALTER TABLE ONLY repricer.service_leases
    ADD CONSTRAINT service_leases_pkey PRIMARY KEY (name);

ALTER TABLE ONLY repricer.signing_headers
    ADD CONSTRAINT signing_headers_pkey PRIMARY KEY (digest);

ALTER TABLE ONLY repricer.status_checks
    ADD CONSTRAINT status_checks_pkey PRIMARY KEY (original_transaction_id, reason, list_id, bucket);

ALTER TABLE ONLY repricer.store_calls
    ADD CONSTRAINT store_calls_pkey PRIMARY KEY (subject, call_id, bucket);

ALTER TABLE ONLY repricer.subscription_checkpoints
    ADD CONSTRAINT subscription_checkpoints_pkey PRIMARY KEY (original_transaction_id, bucket);

ALTER TABLE ONLY repricer.subscription_event_versions
    ADD CONSTRAINT subscription_event_versions_pkey PRIMARY KEY (original_transaction_id, signed_at, evidence_id, recorded_until, bucket);

ALTER TABLE ONLY repricer.subscription_event_versions_default
    ADD CONSTRAINT subscription_event_versions_default_pkey PRIMARY KEY (original_transaction_id, signed_at, evidence_id, recorded_until, bucket);

ALTER TABLE ONLY repricer.subscription_events
    ADD CONSTRAINT subscription_events_pkey PRIMARY KEY (original_transaction_id, signed_at, evidence_id, bucket);

ALTER TABLE ONLY repricer.subscription_events_default
    ADD CONSTRAINT subscription_events_default_pkey PRIMARY KEY (original_transaction_id, signed_at, evidence_id, bucket);

ALTER TABLE ONLY repricer.subscriptions
    ADD CONSTRAINT subscriptions_pkey PRIMARY KEY (original_transaction_id, bucket);

ALTER TABLE ONLY repricer.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_pkey PRIMARY KEY (aggregateid, "position", bucket);

CREATE INDEX audit_trail_object ON repricer.audit_trail USING btree (object, sequence);

CREATE INDEX batches_next_release ON repricer.batches USING btree (next_release_at) WHERE (next_release_at IS NOT NULL);

CREATE UNIQUE INDEX batches_same_content ON repricer.batches USING btree (content_sha256) WHERE (state = ANY (ARRAY['awaiting_approval'::text, 'approved'::text]));

CREATE INDEX change_figures_batch ON repricer.change_figures USING btree (batch_id);

CREATE INDEX change_figures_word_due ON repricer.change_figures USING btree (batch_id, word_due_at) WHERE (word_due_at IS NOT NULL);

CREATE INDEX dependency_roles_change ON repricer.dependency_roles USING btree (original_transaction_id, change_id);

CREATE INDEX dependent_cancellations_falling ON repricer.dependent_cancellations USING btree (target_transaction_id) WHERE ((state = 'requested'::text) AND is_cross_subscription);

CREATE INDEX dependent_cancellations_open ON repricer.dependent_cancellations USING btree (bucket, requested_at) WHERE ((state = 'requested'::text) AND (requested_at > '-infinity'::timestamp with time zone));

CREATE INDEX dependent_cancellations_sent ON repricer.dependent_cancellations USING btree (cancel_reference_id) WHERE ((state = ANY (ARRAY['cancel_sent'::text, 'discrepancy'::text])) AND (settled_at IS NULL) AND (cancel_reference_id IS NOT NULL));

CREATE INDEX dependent_claims_by ON repricer.dependent_claims USING btree (claimed_by, change_id);

CREATE INDEX extension_requests_due ON repricer.extension_requests USING btree (bucket, next_attempt_at NULLS FIRST) WHERE ((state = 'queued'::text) AND (requested_at > '-infinity'::timestamp with time zone));

CREATE INDEX extension_requests_id ON repricer.extension_requests USING btree (extension_id);

CREATE INDEX extension_requests_of_mass ON repricer.extension_requests USING btree (mass_extension_id);

CREATE UNIQUE INDEX extension_requests_one_open ON repricer.extension_requests USING btree (original_transaction_id, bucket) WHERE (state = ANY (ARRAY['queued'::text, 'sending'::text, 'unknown'::text]));

CREATE INDEX extension_summaries_waiting ON repricer.extension_summaries USING btree (received_at) WHERE (folded_at IS NULL);

CREATE INDEX inbox_of_subscription ON repricer.inbox USING btree (original_transaction_id, signed_at) WHERE (error IS NULL);

CREATE INDEX inbox_waiting ON repricer.inbox USING btree (bucket, received_at) WHERE ((error IS NULL) AND (received_at > '-infinity'::timestamp with time zone));

CREATE INDEX kept_exceptions_batch ON repricer.kept_exceptions USING btree (batch_id, exception);

CREATE INDEX kept_exceptions_subscription ON repricer.kept_exceptions USING btree (original_transaction_id);

CREATE INDEX kept_moves_later ON repricer.kept_moves USING btree (batch_id, known_after);

CREATE INDEX kept_moves_subscription ON repricer.kept_moves USING btree (original_transaction_id);

CREATE INDEX kept_statements_left_out ON repricer.kept_statements USING btree (original_transaction_id) WHERE (left_out IS NOT NULL);

CREATE INDEX kept_statements_whole ON repricer.kept_statements USING btree (original_transaction_id) WHERE (statement IS NOT NULL);

CREATE UNIQUE INDEX mass_extensions_one_open ON repricer.mass_extensions USING btree (product_id) WHERE (state = ANY (ARRAY['awaiting_approval'::text, 'queued'::text, 'sending'::text, 'unknown'::text, 'running'::text]));

CREATE INDEX money_entries_batch ON repricer.money_entries USING btree (batch_id) WHERE (batch_id IS NOT NULL);

CREATE INDEX money_entries_time ON repricer.money_entries USING btree (occurred_at);

CREATE INDEX moved_renewals_waiting ON repricer.moved_renewals USING btree (bucket, moved_at);

CREATE INDEX notification_ids_received ON repricer.notification_ids USING btree (received_at);

CREATE INDEX notifications_to_reprocess ON ONLY repricer.notifications USING btree (received_at, notification_uuid) WHERE ((NOT understood) OR (unknown IS NOT NULL));

CREATE INDEX notifications_default_received_at_notification_uuid_idx ON repricer.notifications_default USING btree (received_at, notification_uuid) WHERE ((NOT understood) OR (unknown IS NOT NULL));

CREATE INDEX notifications_type ON ONLY repricer.notifications USING btree (type, subtype);

CREATE INDEX notifications_default_type_subtype_idx ON repricer.notifications_default USING btree (type, subtype);

CREATE INDEX notifications_not_understood ON ONLY repricer.notifications USING btree (type, subtype) WHERE (NOT understood);

CREATE INDEX notifications_default_type_subtype_idx1 ON repricer.notifications_default USING btree (type, subtype) WHERE (NOT understood);

CREATE INDEX outbox_by_time ON repricer.outbox USING btree ("timestamp");

CREATE INDEX overdue_statements_recorded ON repricer.overdue_statements USING btree (recorded_at);

CREATE INDEX price_changes_announced ON repricer.price_changes USING btree (forecast_notice_at) WHERE ((stage = 'scheduled'::text) AND (forecast_notice_at IS NOT NULL));

CREATE INDEX price_changes_batch ON repricer.price_changes USING btree (batch_id, stage);

CREATE INDEX price_changes_due ON repricer.price_changes USING btree (bucket, batch_id, wave, send_by) WHERE ((stage = 'queued'::text) AND is_ready AND (NOT is_held));

CREATE INDEX price_changes_heard_of ON repricer.price_changes USING btree (due_effective_at) INCLUDE (batch_id, stage, undoes_change_id) WHERE (stage = ANY (ARRAY['scheduled'::text, 'pending_consent'::text, 'accepted'::text]));

CREATE INDEX price_changes_held ON repricer.price_changes USING btree (batch_id, storefront) WHERE ((stage = 'queued'::text) AND is_held);

CREATE UNIQUE INDEX price_changes_one_open ON repricer.price_changes USING btree (original_transaction_id, COALESCE(current_sku, sku), bucket) WHERE ((stage = ANY (ARRAY['awaiting_approval'::text, 'queued'::text, 'unknown'::text, 'scheduled'::text, 'pending_consent'::text, 'accepted'::text])) AND (undoes_change_id IS NULL));

CREATE UNIQUE INDEX price_changes_one_undo ON repricer.price_changes USING btree (original_transaction_id, undoes_change_id, bucket) WHERE ((undoes_change_id IS NOT NULL) AND (stage = ANY (ARRAY['awaiting_approval'::text, 'queued'::text, 'unknown'::text])));

CREATE INDEX price_changes_put_back ON repricer.price_changes USING btree (original_transaction_id) WHERE (refused_at IS NOT NULL);

CREATE INDEX price_changes_refused ON repricer.price_changes USING btree (batch_id, parked_reason) WHERE ((stage = ANY (ARRAY['queued'::text, 'unknown'::text])) AND (parked_reason IS NOT NULL));

CREATE INDEX price_changes_sleeping ON repricer.price_changes USING btree (send_after) WHERE ((stage = 'queued'::text) AND (NOT is_ready) AND (NOT is_held));

CREATE INDEX price_changes_to_call ON repricer.price_changes USING btree (batch_id, send_by) WHERE ((stage = ANY (ARRAY['awaiting_approval'::text, 'queued'::text])) AND (NOT is_held_out));

CREATE INDEX price_changes_with_dependents ON repricer.price_changes USING btree (batch_id) WHERE (dependent_skus <> '{}'::text[]);

CREATE INDEX renewal_extensions_of_product ON repricer.renewal_extensions USING btree (product_id, told_at);

CREATE INDEX running_moves_subscription ON repricer.running_moves USING btree (original_transaction_id);

CREATE INDEX running_moves_until ON repricer.running_moves USING btree (batch_id, until_at);

CREATE INDEX stale_figures_subscription ON repricer.stale_figures USING btree (original_transaction_id);

CREATE INDEX status_checks_done_at ON repricer.status_checks USING btree (done_at) WHERE (done_at IS NOT NULL);

CREATE INDEX status_checks_due ON repricer.status_checks USING btree (reason, list_id, bucket, next_check_at NULLS FIRST) WHERE ((done_at IS NULL) AND (requested_at > '-infinity'::timestamp with time zone));

CREATE UNIQUE INDEX store_calls_one_in_flight ON repricer.store_calls USING btree (subject, bucket) WHERE (state = ANY (ARRAY['sending'::text, 'unknown'::text]));

CREATE INDEX store_calls_open ON repricer.store_calls USING btree (kind, lease_until) WHERE (settled_at IS NULL);

CREATE INDEX store_calls_settled ON repricer.store_calls USING btree (settled_at) WHERE ((kind = ANY (ARRAY['price_change'::text, 'extension'::text])) AND (NOT is_doubtful) AND (settled_at IS NOT NULL));

CREATE INDEX subscription_events_left_out ON ONLY repricer.subscription_events USING btree (original_transaction_id) WHERE ((statement -> 'ignored'::text) IS NOT NULL);

CREATE INDEX subscription_events_default_original_transaction_id_idx ON repricer.subscription_events_default USING btree (original_transaction_id) WHERE ((statement -> 'ignored'::text) IS NOT NULL);

CREATE INDEX subscription_events_recorded ON ONLY repricer.subscription_events USING brin (recorded_at);

CREATE INDEX subscription_events_default_recorded_at_idx ON repricer.subscription_events_default USING brin (recorded_at);

CREATE INDEX subscriptions_customer ON repricer.subscriptions USING btree (app_account_token) WHERE (app_account_token IS NOT NULL);

CREATE INDEX webhook_deliveries_due ON repricer.webhook_deliveries USING btree (COALESCE(next_attempt_at, '-infinity'::timestamp with time zone), "position") WHERE (state = 'pending'::text);

CREATE INDEX webhook_deliveries_given_up ON repricer.webhook_deliveries USING btree (settled_at) WHERE ((state = 'given_up'::text) AND (last_error <> 'no webhook was configured'::text));

CREATE INDEX webhook_deliveries_pending ON repricer.webhook_deliveries USING btree (aggregateid, "position") WHERE (state = 'pending'::text);

ALTER INDEX repricer.charge_versions_pkey ATTACH PARTITION repricer.charge_versions_default_pkey;

ALTER INDEX repricer.dependent_cancellation_versions_pkey ATTACH PARTITION repricer.dependent_cancellation_versions_default_pkey;

ALTER INDEX repricer.notifications_pkey ATTACH PARTITION repricer.notifications_default_pkey;

ALTER INDEX repricer.notifications_to_reprocess ATTACH PARTITION repricer.notifications_default_received_at_notification_uuid_idx;

ALTER INDEX repricer.notifications_type ATTACH PARTITION repricer.notifications_default_type_subtype_idx;

ALTER INDEX repricer.notifications_not_understood ATTACH PARTITION repricer.notifications_default_type_subtype_idx1;

ALTER INDEX repricer.price_change_history_pkey ATTACH PARTITION repricer.price_change_history_default_pkey;

ALTER INDEX repricer.price_change_versions_pkey ATTACH PARTITION repricer.price_change_versions_default_pkey;

ALTER INDEX repricer.subscription_event_versions_pkey ATTACH PARTITION repricer.subscription_event_versions_default_pkey;

ALTER INDEX repricer.subscription_events_left_out ATTACH PARTITION repricer.subscription_events_default_original_transaction_id_idx;

ALTER INDEX repricer.subscription_events_pkey ATTACH PARTITION repricer.subscription_events_default_pkey;

ALTER INDEX repricer.subscription_events_recorded ATTACH PARTITION repricer.subscription_events_default_recorded_at_idx;

CREATE TRIGGER audit_trail_append_only BEFORE DELETE OR UPDATE OR TRUNCATE ON repricer.audit_trail FOR EACH STATEMENT EXECUTE FUNCTION repricer.refuse_audit_change();

CREATE CONSTRAINT TRIGGER batches_are_finished AFTER INSERT OR UPDATE ON repricer.batches DEFERRABLE INITIALLY DEFERRED FOR EACH ROW WHEN ((new.state = 'submitting'::text)) EXECUTE FUNCTION repricer.refuse_unfinished_submission();

CREATE TRIGGER charges_deleted AFTER DELETE ON repricer.charges REFERENCING OLD TABLE AS former FOR EACH STATEMENT WHEN (((current_setting('is_superuser'::text) = 'on'::text) OR (NOT pg_has_role(SESSION_USER, 'repricer_service'::name, 'MEMBER'::text)))) EXECUTE FUNCTION repricer.mark_charges();

CREATE TRIGGER charges_inserted AFTER INSERT ON repricer.charges REFERENCING NEW TABLE AS written FOR EACH STATEMENT WHEN (((current_setting('is_superuser'::text) = 'on'::text) OR (NOT pg_has_role(SESSION_USER, 'repricer_service'::name, 'MEMBER'::text)))) EXECUTE FUNCTION repricer.mark_charges();

CREATE TRIGGER charges_updated AFTER UPDATE ON repricer.charges REFERENCING OLD TABLE AS former NEW TABLE AS written FOR EACH STATEMENT WHEN (((current_setting('is_superuser'::text) = 'on'::text) OR (NOT pg_has_role(SESSION_USER, 'repricer_service'::name, 'MEMBER'::text)))) EXECUTE FUNCTION repricer.mark_charges();

ALTER TABLE ONLY repricer.always_consent_storefronts
    ADD CONSTRAINT always_consent_storefronts_import FOREIGN KEY (revision, imported_by, recorded_at) REFERENCES repricer.rule_imports(revision, imported_by, imported_at);

ALTER TABLE ONLY repricer.batch_rejects
    ADD CONSTRAINT batch_rejects_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES repricer.batches(batch_id);

ALTER TABLE ONLY repricer.batch_rule_answers
    ADD CONSTRAINT batch_rule_answers_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES repricer.batches(batch_id);

ALTER TABLE ONLY repricer.closed_figures
    ADD CONSTRAINT closed_figures_month FOREIGN KEY (month) REFERENCES repricer.closed_months(month);

ALTER TABLE ONLY repricer.consent_thresholds
    ADD CONSTRAINT consent_thresholds_import FOREIGN KEY (revision, imported_by, recorded_at) REFERENCES repricer.rule_imports(revision, imported_by, imported_at);

ALTER TABLE ONLY repricer.currency_decimals
    ADD CONSTRAINT currency_decimals_import FOREIGN KEY (revision, imported_by, recorded_at) REFERENCES repricer.rule_imports(revision, imported_by, imported_at);

ALTER TABLE ONLY repricer.dependency_roles
    ADD CONSTRAINT dependency_roles_change FOREIGN KEY (original_transaction_id, change_id, bucket) REFERENCES repricer.price_changes(original_transaction_id, change_id, bucket);

ALTER TABLE ONLY repricer.dependent_cancellations
    ADD CONSTRAINT dependent_cancellations_change FOREIGN KEY (original_transaction_id, change_id, bucket) REFERENCES repricer.price_changes(original_transaction_id, change_id, bucket);

ALTER TABLE ONLY repricer.exchange_rates
    ADD CONSTRAINT exchange_rates_import FOREIGN KEY (revision, imported_by, recorded_at) REFERENCES repricer.rule_imports(revision, imported_by, imported_at);

ALTER TABLE ONLY repricer.extension_requests
    ADD CONSTRAINT extension_requests_original_transaction_id_fkey FOREIGN KEY (original_transaction_id, bucket) REFERENCES repricer.subscriptions(original_transaction_id, bucket);

ALTER TABLE ONLY repricer.first_approvals
    ADD CONSTRAINT first_approvals_batch_id_fkey FOREIGN KEY (batch_id) REFERENCES repricer.batches(batch_id);

ALTER TABLE ONLY repricer.imported_increases
    ADD CONSTRAINT imported_increases_import FOREIGN KEY (number) REFERENCES repricer.history_imports(number);

ALTER TABLE ONLY repricer.mass_extension_approvals
    ADD CONSTRAINT mass_extension_approvals_extension_id_fkey FOREIGN KEY (extension_id) REFERENCES repricer.mass_extensions(extension_id);

ALTER TABLE ONLY repricer.price_changes
    ADD CONSTRAINT price_changes_batch_id_fkey FOREIGN KEY (batch_id, submitted_by) REFERENCES repricer.batches(batch_id, submitted_by);

ALTER TABLE ONLY repricer.price_changes
    ADD CONSTRAINT price_changes_undoes FOREIGN KEY (original_transaction_id, undoes_change_id, bucket) REFERENCES repricer.price_changes(original_transaction_id, change_id, bucket);

ALTER TABLE ONLY repricer.webhook_deliveries
    ADD CONSTRAINT webhook_deliveries_event FOREIGN KEY (aggregateid, "position", bucket) REFERENCES repricer.outbox(aggregateid, "position", bucket) ON DELETE CASCADE;

GRANT USAGE ON SCHEMA report TO repricer_pricing;
GRANT USAGE ON SCHEMA report TO repricer_service;
GRANT USAGE ON SCHEMA report TO repricer_finance;

GRANT USAGE ON SCHEMA repricer TO repricer_pricing;
GRANT USAGE ON SCHEMA repricer TO repricer_service;

GRANT SELECT ON TABLE repricer.app_binding TO repricer_service;
GRANT SELECT ON TABLE repricer.app_binding TO repricer_pricing;

REVOKE ALL ON FUNCTION report.app() FROM PUBLIC;
GRANT ALL ON FUNCTION report.app() TO repricer_finance;
GRANT ALL ON FUNCTION report.app() TO repricer_pricing;
GRANT ALL ON FUNCTION report.app() TO repricer_service;

REVOKE ALL ON FUNCTION report.as_of() FROM PUBLIC;
GRANT ALL ON FUNCTION report.as_of() TO repricer_finance;
GRANT ALL ON FUNCTION report.as_of() TO repricer_pricing;
GRANT ALL ON FUNCTION report.as_of() TO repricer_service;

REVOKE ALL ON FUNCTION repricer.bucket_of(original_transaction_id text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.bucket_of(original_transaction_id text) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.bucket_of(original_transaction_id text) TO repricer_service;

GRANT SELECT ON TABLE repricer.batch_rejects TO repricer_pricing;
GRANT SELECT ON TABLE repricer.batch_rejects TO repricer_service;

GRANT SELECT ON TABLE repricer.batches TO repricer_pricing;
GRANT SELECT ON TABLE repricer.batches TO repricer_service;

GRANT UPDATE(paused_reason) ON TABLE repricer.batches TO repricer_service;

GRANT UPDATE(is_sampled) ON TABLE repricer.batches TO repricer_service;

GRANT UPDATE(guard_reading) ON TABLE repricer.batches TO repricer_service;

GRANT SELECT ON TABLE repricer.price_changes TO repricer_pricing;
GRANT SELECT ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(current_sku) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(called_sku) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(former_skus) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(former_until) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(current_dependent_skus) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(called_dependent_skus) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(send_after) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(send_by) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(due_effective_at) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(planned_effective_at) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(moved_before_call) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(moved_since_call) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(called_renewal_at) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(is_ready) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(goes_alone) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(parked_reason) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(parks) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(stale_tokens) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(next_attempt_at) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(request_reference_id) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(state) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(state_since) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(reason) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(doubtful_since) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(refused_at) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(sent_at) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(scheduled_at) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(consent_asked_at) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(accepted_at) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(acceptance) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(effective_at) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(ended_at) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(is_leaving) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(recorded_at) ON TABLE repricer.price_changes TO repricer_service;

GRANT UPDATE(claim_recorded_at) ON TABLE repricer.price_changes TO repricer_service;

GRANT SELECT ON TABLE repricer.store_calls TO repricer_pricing;
GRANT SELECT,INSERT,UPDATE ON TABLE repricer.store_calls TO repricer_service;

GRANT SELECT ON TABLE report.batch_summary TO repricer_finance;
GRANT SELECT ON TABLE report.batch_summary TO repricer_pricing;
GRANT SELECT ON TABLE report.batch_summary TO repricer_service;

REVOKE ALL ON FUNCTION report.batch_summary_as_of(p_at timestamp with time zone, batch uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION report.batch_summary_as_of(p_at timestamp with time zone, batch uuid) TO repricer_finance;
GRANT ALL ON FUNCTION report.batch_summary_as_of(p_at timestamp with time zone, batch uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION report.batch_summary_as_of(p_at timestamp with time zone, batch uuid) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.days(p_count integer) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.days(p_count integer) TO repricer_finance;
GRANT ALL ON FUNCTION repricer.days(p_count integer) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.days(p_count integer) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.exceptions_of(p_batch uuid, p_ids text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.exceptions_of(p_batch uuid, p_ids text[]) TO repricer_finance;
GRANT ALL ON FUNCTION repricer.exceptions_of(p_batch uuid, p_ids text[]) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.exceptions_of(p_batch uuid, p_ids text[]) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.figure(p_sum numeric, p_what text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.figure(p_sum numeric, p_what text) TO repricer_finance;
GRANT ALL ON FUNCTION repricer.figure(p_sum numeric, p_what text) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.figure(p_sum numeric, p_what text) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.fitting(p_sum numeric, p_what text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.fitting(p_sum numeric, p_what text) TO repricer_finance;
GRANT ALL ON FUNCTION repricer.fitting(p_sum numeric, p_what text) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.fitting(p_sum numeric, p_what text) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.is_of_item(p_charged text, p_at timestamp with time zone, p_sku text, p_current_sku text, p_former_skus text[], p_former_until timestamp with time zone[]) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.is_of_item(p_charged text, p_at timestamp with time zone, p_sku text, p_current_sku text, p_former_skus text[], p_former_until timestamp with time zone[]) TO repricer_finance;
GRANT ALL ON FUNCTION repricer.is_of_item(p_charged text, p_at timestamp with time zone, p_sku text, p_current_sku text, p_former_skus text[], p_former_until timestamp with time zone[]) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.is_of_item(p_charged text, p_at timestamp with time zone, p_sku text, p_current_sku text, p_former_skus text[], p_former_until timestamp with time zone[]) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.marked_subscriptions() FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.marked_subscriptions() TO repricer_finance;
GRANT ALL ON FUNCTION repricer.marked_subscriptions() TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.marked_subscriptions() TO repricer_service;

REVOKE ALL ON FUNCTION repricer.recording_instant() FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.recording_instant() TO repricer_service;

REVOKE ALL ON FUNCTION repricer.seats_of(p_charges anyarray) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.seats_of(p_charges anyarray) TO repricer_finance;
GRANT ALL ON FUNCTION repricer.seats_of(p_charges anyarray) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.seats_of(p_charges anyarray) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.tells_end(p_statement jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.tells_end(p_statement jsonb) TO repricer_finance;
GRANT ALL ON FUNCTION repricer.tells_end(p_statement jsonb) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.tells_end(p_statement jsonb) TO repricer_service;

GRANT SELECT ON TABLE repricer.change_figures TO repricer_service;

GRANT SELECT ON TABLE repricer.charges TO repricer_pricing;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE repricer.charges TO repricer_service;

GRANT SELECT ON TABLE repricer.money_entries TO repricer_pricing;
GRANT SELECT,INSERT ON TABLE repricer.money_entries TO repricer_service;

GRANT SELECT ON TABLE repricer.heard_charges TO repricer_service;

GRANT SELECT ON TABLE repricer.kept_exceptions TO repricer_service;

GRANT SELECT ON TABLE repricer.kept_statements TO repricer_pricing;
GRANT SELECT ON TABLE repricer.kept_statements TO repricer_service;

GRANT SELECT,INSERT ON TABLE repricer.stale_figures TO repricer_service;

GRANT SELECT ON TABLE repricer.marked_batches TO repricer_service;

GRANT SELECT ON TABLE repricer.subscription_events TO repricer_pricing;
GRANT SELECT,INSERT,DELETE ON TABLE repricer.subscription_events TO repricer_service;

GRANT SELECT ON TABLE repricer.subscriptions TO repricer_pricing;
GRANT SELECT,INSERT,UPDATE ON TABLE repricer.subscriptions TO repricer_service;

GRANT SELECT ON TABLE repricer.told_statements TO repricer_pricing;
GRANT SELECT ON TABLE repricer.told_statements TO repricer_service;

GRANT SELECT ON TABLE repricer.silent_open_changes TO repricer_service;

GRANT SELECT ON TABLE repricer.charge_exceptions TO repricer_service;

GRANT SELECT ON TABLE report.charge_exception TO repricer_finance;
GRANT SELECT ON TABLE report.charge_exception TO repricer_pricing;
GRANT SELECT ON TABLE report.charge_exception TO repricer_service;

REVOKE ALL ON FUNCTION report.charge_exception_as_of(p_at timestamp with time zone, batch uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION report.charge_exception_as_of(p_at timestamp with time zone, batch uuid) TO repricer_finance;
GRANT ALL ON FUNCTION report.charge_exception_as_of(p_at timestamp with time zone, batch uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION report.charge_exception_as_of(p_at timestamp with time zone, batch uuid) TO repricer_service;

REVOKE ALL ON FUNCTION report.close_month(p_month text, p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION report.close_month(p_month text, p_at timestamp with time zone) TO repricer_finance;
GRANT ALL ON FUNCTION report.close_month(p_month text, p_at timestamp with time zone) TO repricer_pricing;
GRANT ALL ON FUNCTION report.close_month(p_month text, p_at timestamp with time zone) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.at_old_price(p_old bigint, p_price bigint, p_quantity bigint, p_refunded bigint, p_transaction text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.at_old_price(p_old bigint, p_price bigint, p_quantity bigint, p_refunded bigint, p_transaction text) TO repricer_finance;
GRANT ALL ON FUNCTION repricer.at_old_price(p_old bigint, p_price bigint, p_quantity bigint, p_refunded bigint, p_transaction text) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.at_old_price(p_old bigint, p_price bigint, p_quantity bigint, p_refunded bigint, p_transaction text) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.span(p_from timestamp with time zone, p_until timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.span(p_from timestamp with time zone, p_until timestamp with time zone) TO repricer_finance;
GRANT ALL ON FUNCTION repricer.span(p_from timestamp with time zone, p_until timestamp with time zone) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.span(p_from timestamp with time zone, p_until timestamp with time zone) TO repricer_service;

GRANT SELECT ON TABLE repricer.charged_renewals TO repricer_pricing;
GRANT SELECT ON TABLE repricer.charged_renewals TO repricer_service;

GRANT SELECT ON TABLE repricer.figure_tallies TO repricer_service;

GRANT SELECT ON TABLE repricer.paid_changes TO repricer_service;

GRANT SELECT ON TABLE repricer.live_change_figures TO repricer_service;

GRANT SELECT ON TABLE repricer.unkept_change_figures TO repricer_service;

GRANT SELECT ON TABLE repricer.untallied_changes TO repricer_service;

GRANT SELECT ON TABLE repricer.change_tallies TO repricer_service;

GRANT SELECT ON TABLE report.consent_funnel TO repricer_finance;
GRANT SELECT ON TABLE report.consent_funnel TO repricer_pricing;
GRANT SELECT ON TABLE report.consent_funnel TO repricer_service;

REVOKE ALL ON FUNCTION report.consent_funnel_as_of(p_at timestamp with time zone, batch uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION report.consent_funnel_as_of(p_at timestamp with time zone, batch uuid) TO repricer_finance;
GRANT ALL ON FUNCTION report.consent_funnel_as_of(p_at timestamp with time zone, batch uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION report.consent_funnel_as_of(p_at timestamp with time zone, batch uuid) TO repricer_service;

GRANT SELECT ON TABLE repricer.dependent_cancellations TO repricer_pricing;
GRANT SELECT,INSERT,UPDATE ON TABLE repricer.dependent_cancellations TO repricer_service;

GRANT SELECT ON TABLE repricer.returned_dependents TO repricer_service;

GRANT SELECT ON TABLE report.dependent_cancellation TO repricer_finance;
GRANT SELECT ON TABLE report.dependent_cancellation TO repricer_pricing;
GRANT SELECT ON TABLE report.dependent_cancellation TO repricer_service;

REVOKE ALL ON FUNCTION report.dependent_cancellation_as_of(p_at timestamp with time zone, batch uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION report.dependent_cancellation_as_of(p_at timestamp with time zone, batch uuid) TO repricer_finance;
GRANT ALL ON FUNCTION report.dependent_cancellation_as_of(p_at timestamp with time zone, batch uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION report.dependent_cancellation_as_of(p_at timestamp with time zone, batch uuid) TO repricer_service;

GRANT SELECT ON TABLE repricer.forecast_tallies TO repricer_service;

GRANT SELECT ON TABLE repricer.live_forecast_outcomes TO repricer_service;

GRANT SELECT ON TABLE repricer.forecast_outcomes TO repricer_service;

GRANT SELECT ON TABLE report.forecast_accuracy TO repricer_finance;
GRANT SELECT ON TABLE report.forecast_accuracy TO repricer_pricing;
GRANT SELECT ON TABLE report.forecast_accuracy TO repricer_service;

REVOKE ALL ON FUNCTION report.forecast_accuracy_as_of(p_at timestamp with time zone, batch uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION report.forecast_accuracy_as_of(p_at timestamp with time zone, batch uuid) TO repricer_finance;
GRANT ALL ON FUNCTION report.forecast_accuracy_as_of(p_at timestamp with time zone, batch uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION report.forecast_accuracy_as_of(p_at timestamp with time zone, batch uuid) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.wilson_bound(p_share numeric, p_of numeric, p_sign integer) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.wilson_bound(p_share numeric, p_of numeric, p_sign integer) TO repricer_finance;
GRANT ALL ON FUNCTION repricer.wilson_bound(p_share numeric, p_of numeric, p_sign integer) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.wilson_bound(p_share numeric, p_of numeric, p_sign integer) TO repricer_service;

GRANT SELECT ON TABLE report.holdout TO repricer_finance;
GRANT SELECT ON TABLE report.holdout TO repricer_pricing;
GRANT SELECT ON TABLE report.holdout TO repricer_service;

REVOKE ALL ON FUNCTION report.holdout_as_of(p_at timestamp with time zone, batch uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION report.holdout_as_of(p_at timestamp with time zone, batch uuid) TO repricer_finance;
GRANT ALL ON FUNCTION report.holdout_as_of(p_at timestamp with time zone, batch uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION report.holdout_as_of(p_at timestamp with time zone, batch uuid) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.is_refused(p_state text, p_refused_at timestamp with time zone, p_doubtful_since timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.is_refused(p_state text, p_refused_at timestamp with time zone, p_doubtful_since timestamp with time zone) TO repricer_finance;
GRANT ALL ON FUNCTION repricer.is_refused(p_state text, p_refused_at timestamp with time zone, p_doubtful_since timestamp with time zone) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.is_refused(p_state text, p_refused_at timestamp with time zone, p_doubtful_since timestamp with time zone) TO repricer_service;

GRANT SELECT ON TABLE repricer.explained_charges TO repricer_service;

GRANT SELECT ON TABLE repricer.live_money TO repricer_service;

GRANT SELECT ON TABLE repricer.marked_money TO repricer_service;

GRANT SELECT ON TABLE report.money TO repricer_finance;
GRANT SELECT ON TABLE report.money TO repricer_pricing;
GRANT SELECT ON TABLE report.money TO repricer_service;

REVOKE ALL ON FUNCTION report.money_as_of(p_at timestamp with time zone, batch uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION report.money_as_of(p_at timestamp with time zone, batch uuid) TO repricer_finance;
GRANT ALL ON FUNCTION report.money_as_of(p_at timestamp with time zone, batch uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION report.money_as_of(p_at timestamp with time zone, batch uuid) TO repricer_service;

GRANT SELECT ON TABLE report.pending_consent TO repricer_finance;
GRANT SELECT ON TABLE report.pending_consent TO repricer_pricing;
GRANT SELECT ON TABLE report.pending_consent TO repricer_service;

REVOKE ALL ON FUNCTION report.pending_consent_as_of(p_at timestamp with time zone, batch uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION report.pending_consent_as_of(p_at timestamp with time zone, batch uuid) TO repricer_finance;
GRANT ALL ON FUNCTION report.pending_consent_as_of(p_at timestamp with time zone, batch uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION report.pending_consent_as_of(p_at timestamp with time zone, batch uuid) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.is_that(p_one uuid, p_other uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.is_that(p_one uuid, p_other uuid) TO repricer_finance;
GRANT ALL ON FUNCTION repricer.is_that(p_one uuid, p_other uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.is_that(p_one uuid, p_other uuid) TO repricer_service;

GRANT SELECT ON TABLE report.price_change TO repricer_finance;
GRANT SELECT ON TABLE report.price_change TO repricer_pricing;
GRANT SELECT ON TABLE report.price_change TO repricer_service;

REVOKE ALL ON FUNCTION report.price_change_as_of(p_at timestamp with time zone, batch uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION report.price_change_as_of(p_at timestamp with time zone, batch uuid) TO repricer_finance;
GRANT ALL ON FUNCTION report.price_change_as_of(p_at timestamp with time zone, batch uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION report.price_change_as_of(p_at timestamp with time zone, batch uuid) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.lacks_amount(p_left_out jsonb) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.lacks_amount(p_left_out jsonb) TO repricer_finance;
GRANT ALL ON FUNCTION repricer.lacks_amount(p_left_out jsonb) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.lacks_amount(p_left_out jsonb) TO repricer_service;

GRANT SELECT ON TABLE repricer.inbox TO repricer_pricing;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE repricer.inbox TO repricer_service;

GRANT SELECT ON TABLE repricer.notifications TO repricer_pricing;
GRANT SELECT,INSERT ON TABLE repricer.notifications TO repricer_service;

GRANT UPDATE(signed_at) ON TABLE repricer.notifications TO repricer_service;

GRANT UPDATE(type) ON TABLE repricer.notifications TO repricer_service;

GRANT UPDATE(subtype) ON TABLE repricer.notifications TO repricer_service;

GRANT UPDATE(original_transaction_id) ON TABLE repricer.notifications TO repricer_service;

GRANT UPDATE(understood) ON TABLE repricer.notifications TO repricer_service;

GRANT UPDATE(unknown) ON TABLE repricer.notifications TO repricer_service;

GRANT SELECT ON TABLE repricer.overdue_statements TO repricer_pricing;
GRANT SELECT,INSERT ON TABLE repricer.overdue_statements TO repricer_service;

GRANT SELECT ON TABLE repricer.reconciliation_checks TO repricer_service;

GRANT SELECT ON TABLE repricer.statements_without_amounts TO repricer_service;

GRANT SELECT ON TABLE report.reconciliation TO repricer_finance;
GRANT SELECT ON TABLE report.reconciliation TO repricer_pricing;
GRANT SELECT ON TABLE report.reconciliation TO repricer_service;

REVOKE ALL ON FUNCTION report.reconciliation_as_of(p_at timestamp with time zone, batch uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION report.reconciliation_as_of(p_at timestamp with time zone, batch uuid) TO repricer_finance;
GRANT ALL ON FUNCTION report.reconciliation_as_of(p_at timestamp with time zone, batch uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION report.reconciliation_as_of(p_at timestamp with time zone, batch uuid) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.twelfths(p_period text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.twelfths(p_period text) TO repricer_finance;
GRANT ALL ON FUNCTION repricer.twelfths(p_period text) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.twelfths(p_period text) TO repricer_service;

GRANT SELECT ON TABLE repricer.dependent_claims TO repricer_pricing;
GRANT SELECT,INSERT ON TABLE repricer.dependent_claims TO repricer_service;

GRANT SELECT ON TABLE report.revenue_at_risk TO repricer_finance;
GRANT SELECT ON TABLE report.revenue_at_risk TO repricer_pricing;
GRANT SELECT ON TABLE report.revenue_at_risk TO repricer_service;

REVOKE ALL ON FUNCTION report.revenue_at_risk_as_of(p_at timestamp with time zone, batch uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION report.revenue_at_risk_as_of(p_at timestamp with time zone, batch uuid) TO repricer_finance;
GRANT ALL ON FUNCTION report.revenue_at_risk_as_of(p_at timestamp with time zone, batch uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION report.revenue_at_risk_as_of(p_at timestamp with time zone, batch uuid) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.bridge_moves(p_at timestamp with time zone, p_batch uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.bridge_moves(p_at timestamp with time zone, p_batch uuid) TO repricer_finance;
GRANT ALL ON FUNCTION repricer.bridge_moves(p_at timestamp with time zone, p_batch uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.bridge_moves(p_at timestamp with time zone, p_batch uuid) TO repricer_service;

GRANT SELECT ON TABLE report.revenue_bridge TO repricer_finance;
GRANT SELECT ON TABLE report.revenue_bridge TO repricer_pricing;
GRANT SELECT ON TABLE report.revenue_bridge TO repricer_service;

REVOKE ALL ON FUNCTION report.revenue_bridge_as_of(p_at timestamp with time zone, batch uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION report.revenue_bridge_as_of(p_at timestamp with time zone, batch uuid) TO repricer_finance;
GRANT ALL ON FUNCTION report.revenue_bridge_as_of(p_at timestamp with time zone, batch uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION report.revenue_bridge_as_of(p_at timestamp with time zone, batch uuid) TO repricer_service;

GRANT SELECT ON TABLE repricer.exchange_rates TO repricer_pricing;
GRANT SELECT ON TABLE repricer.exchange_rates TO repricer_service;

GRANT SELECT ON TABLE report.revenue_bridge_total TO repricer_finance;
GRANT SELECT ON TABLE report.revenue_bridge_total TO repricer_pricing;
GRANT SELECT ON TABLE report.revenue_bridge_total TO repricer_service;

REVOKE ALL ON FUNCTION report.revenue_bridge_total_as_of(p_at timestamp with time zone, batch uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION report.revenue_bridge_total_as_of(p_at timestamp with time zone, batch uuid) TO repricer_finance;
GRANT ALL ON FUNCTION report.revenue_bridge_total_as_of(p_at timestamp with time zone, batch uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION report.revenue_bridge_total_as_of(p_at timestamp with time zone, batch uuid) TO repricer_service;

GRANT SELECT ON TABLE repricer.lost_dependents TO repricer_service;

GRANT SELECT ON TABLE report.revenue_impact TO repricer_finance;
GRANT SELECT ON TABLE report.revenue_impact TO repricer_pricing;
GRANT SELECT ON TABLE report.revenue_impact TO repricer_service;

REVOKE ALL ON FUNCTION report.revenue_impact_as_of(p_at timestamp with time zone, batch uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION report.revenue_impact_as_of(p_at timestamp with time zone, batch uuid) TO repricer_finance;
GRANT ALL ON FUNCTION report.revenue_impact_as_of(p_at timestamp with time zone, batch uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION report.revenue_impact_as_of(p_at timestamp with time zone, batch uuid) TO repricer_service;

GRANT SELECT ON TABLE report.upcoming_effective TO repricer_finance;
GRANT SELECT ON TABLE report.upcoming_effective TO repricer_pricing;
GRANT SELECT ON TABLE report.upcoming_effective TO repricer_service;

REVOKE ALL ON FUNCTION report.upcoming_effective_as_of(p_at timestamp with time zone, batch uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION report.upcoming_effective_as_of(p_at timestamp with time zone, batch uuid) TO repricer_finance;
GRANT ALL ON FUNCTION report.upcoming_effective_as_of(p_at timestamp with time zone, batch uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION report.upcoming_effective_as_of(p_at timestamp with time zone, batch uuid) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.allow_program(p_schema integer) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.allow_program(p_schema integer) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.allow_program(p_schema integer) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.answers_id(p_answers text) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.append_audit(p_actor text, p_occurred_at timestamp with time zone, p_action text, p_object text, p_details json) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.approval_outlook(p_batch_id uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.approval_outlook(p_batch_id uuid) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.approval_outlook(p_batch_id uuid) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.approval_shortfall(p_batch_id uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.approve_batch(p_batch_id uuid, p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.approve_batch(p_batch_id uuid, p_at timestamp with time zone) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.approve_extension(p_extension_id uuid, p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.approve_extension(p_extension_id uuid, p_at timestamp with time zone) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.approver_shortfall(p_approver text, p_has_first boolean, p_rows bigint, p_basis_points numeric, p_monthly jsonb, p_rise numeric, p_fall numeric) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.audit_hash(p_sequence bigint, p_occurred_at timestamp with time zone, p_recorded_at timestamp with time zone, p_actor text, p_action text, p_object text, p_details json, p_previous_hash text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.audit_hash(p_sequence bigint, p_occurred_at timestamp with time zone, p_recorded_at timestamp with time zone, p_actor text, p_action text, p_object text, p_details json, p_previous_hash text) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.await_recorders(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.batch_in_submission(p_batch_id uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.batch_measure(p_batch_id uuid, OUT rows bigint, OUT basis_points numeric, OUT monthly_milliunits jsonb, OUT rise_basis_points numeric, OUT fall_basis_points numeric) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.batch_sha256(p_batch_id uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.batch_sha256(p_batch_id uuid) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.batches_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.begin_catch_up(p_since timestamp with time zone, p_from timestamp with time zone, p_at timestamp with time zone, p_by_person boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.begin_catch_up(p_since timestamp with time zone, p_from timestamp with time zone, p_at timestamp with time zone, p_by_person boolean) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.begin_rehearsal(p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.begin_rehearsal(p_at timestamp with time zone) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.begin_submission(p_batch_id uuid, p_name text, p_content_sha256 text, p_grouping text, p_waves jsonb, p_guards jsonb, p_planned_as_of timestamp with time zone, p_holdout integer) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.begin_submission(p_batch_id uuid, p_name text, p_content_sha256 text, p_grouping text, p_waves jsonb, p_guards jsonb, p_planned_as_of timestamp with time zone, p_holdout integer) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.bridge_moves_at(p_at timestamp with time zone, p_batch uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.chain_audit_line(p_actor text, p_occurred_at timestamp with time zone, p_recorded_at timestamp with time zone, p_action text, p_object text, p_details json) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.chain_waiting_lines() FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.change_figures_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.change_tallies_at(p_at timestamp with time zone, p_batch uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.charged_renewals_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.charges_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.close_change(p_change_id uuid, p_at timestamp with time zone, p_reason text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.close_change(p_change_id uuid, p_at timestamp with time zone, p_reason text) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.closed_month_sha256(p_month date) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.closed_month_sha256(p_month date) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.cross_subscription_fault(p_batch_id uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.database_identity() FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.database_identity() TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.database_identity() TO repricer_service;

REVOKE ALL ON FUNCTION repricer.decision_instant(p_given timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.defaults_exceeded(p_rise numeric, p_fall numeric) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.dependent_cancellations_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.dependent_claims_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.drop_approval_limit(p_approver text, p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.end_catch_up(p_is_restored boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.end_catch_up(p_is_restored boolean) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.end_idle_halts(p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.end_idle_halts(p_at timestamp with time zone) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.end_throttle(p_kind text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.end_throttle(p_kind text) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.end_unreached(p_kind text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.end_unreached(p_kind text) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.explained_charges_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.extension_shortfall(p_extension_id uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.failed_extensions(p_extension_id uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.failed_extensions(p_extension_id uuid) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.figure_tallies_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.finish_submission(p_batch_id uuid, p_plan_hash text, p_rows bigint, p_refused_rows bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.finish_submission(p_batch_id uuid, p_plan_hash text, p_rows bigint, p_refused_rows bigint) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.follow_clock(p_start timestamp with time zone, p_rate double precision, p_origin timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.follow_clock(p_start timestamp with time zone, p_rate double precision, p_origin timestamp with time zone) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.forecast_rules(p_change repricer.price_changes) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.forecast_rules(p_change repricer.price_changes) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.frozen_figures_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.give_up_extension(p_extension_id uuid, p_reason text, p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.give_up_extension(p_extension_id uuid, p_reason text, p_at timestamp with time zone) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.halt_batch(p_batch_id uuid, p_at timestamp with time zone, p_by text, p_reason text, p_details json, p_probe_at timestamp with time zone, p_from timestamp with time zone, p_code text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.halt_batch(p_batch_id uuid, p_at timestamp with time zone, p_by text, p_reason text, p_details json, p_probe_at timestamp with time zone, p_from timestamp with time zone, p_code text) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.halt_kind(p_kind text, p_at timestamp with time zone, p_reason text, p_from timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.halt_kind(p_kind text, p_at timestamp with time zone, p_reason text, p_from timestamp with time zone) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.halt_service(p_at timestamp with time zone, p_reason text, p_kind text, p_from timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.halt_service(p_at timestamp with time zone, p_reason text, p_kind text, p_from timestamp with time zone) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.halt_storefront(p_batch_id uuid, p_storefront text, p_at timestamp with time zone, p_by text, p_reason text, p_probe_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.halt_storefront(p_batch_id uuid, p_storefront text, p_at timestamp with time zone, p_by text, p_reason text, p_probe_at timestamp with time zone) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.has_changes_to_call() FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.has_open_rows(p_batch_id uuid) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.has_open_rows(p_batch_id uuid) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.has_work(p_kind text) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.heard_charges_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.history_sha256(p_number integer) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.history_sha256(p_number integer) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.hold_audit_head() FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.import_history(p_file text, p_content_sha256 text, p_at timestamp with time zone, p_ids text[], p_skus text[], p_days date[], p_old_prices bigint[], p_new_prices bigint[], p_currencies text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.import_history(p_file text, p_content_sha256 text, p_at timestamp with time zone, p_ids text[], p_skus text[], p_days date[], p_old_prices bigint[], p_new_prices bigint[], p_currencies text[]) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.import_rules(p_file text, p_content_sha256 text, p_at timestamp with time zone, p_kinds text[], p_storefronts text[], p_currencies text[], p_period_kinds text[], p_valid_from timestamp with time zone[], p_values bigint[], p_sources text[], p_withdrawn boolean[], p_accepted text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.import_rules(p_file text, p_content_sha256 text, p_at timestamp with time zone, p_kinds text[], p_storefronts text[], p_currencies text[], p_period_kinds text[], p_valid_from timestamp with time zone[], p_values bigint[], p_sources text[], p_withdrawn boolean[], p_accepted text[]) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.is_held_out(p_content_sha256 text, p_original_transaction_id text, p_basis_points integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.is_idle(p_kinds text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.is_of_item(p_charged text, p_at timestamp with time zone, p_names text[], p_former_skus text[], p_former_until timestamp with time zone[]) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.is_of_item(p_charged text, p_at timestamp with time zone, p_names text[], p_former_skus text[], p_former_until timestamp with time zone[]) TO repricer_finance;
GRANT ALL ON FUNCTION repricer.is_of_item(p_charged text, p_at timestamp with time zone, p_names text[], p_former_skus text[], p_former_until timestamp with time zone[]) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.is_of_item(p_charged text, p_at timestamp with time zone, p_names text[], p_former_skus text[], p_former_until timestamp with time zone[]) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.is_shared_out(p_batch uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.keep_batch(p_batch_id uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.keep_changes(p_ids text[], p_change_ids uuid[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.keep_moves(p_ids text[], p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.lease_permits(p_endpoint text, p_wanted bigint, p_now bigint, p_horizon bigint, p_gap bigint, p_window bigint, p_most bigint, p_missed bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.lease_permits(p_endpoint text, p_wanted bigint, p_now bigint, p_horizon bigint, p_gap bigint, p_window bigint, p_most bigint, p_missed bigint[]) TO repricer_service;

GRANT SELECT ON TABLE repricer.approval_limits TO repricer_pricing;
GRANT SELECT ON TABLE repricer.approval_limits TO repricer_service;

REVOKE ALL ON FUNCTION repricer.limits_exceeded(p_limit repricer.approval_limits, p_rows bigint, p_basis_points numeric, p_monthly jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.limits_of(p_approver text) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.live_change_figures_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.live_change_figures_of_batch_at(p_at timestamp with time zone, p_batch uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.live_change_figures_share_at(p_at timestamp with time zone, p_batch uuid, p_first integer, p_last integer) FROM PUBLIC;

GRANT SELECT ON TABLE repricer.missing_renewals TO repricer_service;

GRANT SELECT ON TABLE repricer.live_charge_exceptions TO repricer_service;

REVOKE ALL ON FUNCTION repricer.live_charge_exceptions_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.live_charge_exceptions_of_batch_at(p_at timestamp with time zone, p_batch uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.live_charge_exceptions_share_at(p_at timestamp with time zone, p_batch uuid, p_first integer, p_last integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.live_forecast_outcomes_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.lock_probe(p_batch_id uuid, p_now timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.lock_probe(p_batch_id uuid, p_now timestamp with time zone) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.lock_subscriptions(p_ids text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.lost_dependents_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.mark_charges() FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.may_approve(p_approver text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.may_approve(p_approver text) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.may_approve(p_approver text) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.missing_renewals_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.money_entries_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.move_probe(p_batch_id uuid, p_next timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.move_probe(p_batch_id uuid, p_next timestamp with time zone) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.moves_of(p_ids text[], p_ats timestamp with time zone[], p_batch uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.moves_of_at(p_at timestamp with time zone, p_ids text[], p_ats timestamp with time zone[], p_batch uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.moving_instants(p_ids text[]) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.note_catch_up_answer(p_answer text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.note_catch_up_answer(p_answer text) TO repricer_service;

GRANT SELECT ON TABLE repricer.service_controls TO repricer_pricing;
GRANT SELECT ON TABLE repricer.service_controls TO repricer_service;

REVOKE ALL ON FUNCTION repricer.note_change_price_rate(p_per_thousand_seconds integer) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.note_change_price_rate(p_per_thousand_seconds integer) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.note_database(p_at timestamp with time zone, p_from timestamp with time zone, p_oldest timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.note_database(p_at timestamp with time zone, p_from timestamp with time zone, p_oldest timestamp with time zone) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.note_halt_answer(p_kind text, p_answer text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.note_halt_answer(p_kind text, p_answer text) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.note_probe_answer(p_batch_id uuid, p_answer text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.note_probe_answer(p_batch_id uuid, p_answer text) TO repricer_service;

GRANT SELECT ON TABLE repricer.put_backs TO repricer_service;

REVOKE ALL ON FUNCTION repricer.note_put_back(p_kind text, p_batch_id uuid, p_code text, p_from timestamp with time zone, p_is_of_guard boolean) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.note_recovery(p_since timestamp with time zone, p_at timestamp with time zone, p_adopted bigint, p_released bigint, p_ended bigint, p_unread bigint) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.note_recovery(p_since timestamp with time zone, p_at timestamp with time zone, p_adopted bigint, p_released bigint, p_ended bigint, p_unread bigint) TO repricer_service;

GRANT SELECT ON TABLE repricer.blocking_sessions TO repricer_pricing;
GRANT SELECT ON TABLE repricer.blocking_sessions TO repricer_service;

REVOKE ALL ON FUNCTION repricer.note_unclaimed(p_since timestamp with time zone, p_sessions text, p_is_all boolean) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.note_unclaimed(p_since timestamp with time zone, p_sessions text, p_is_all boolean) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.note_unreached(p_kind text, p_at timestamp with time zone, p_answer text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.note_unreached(p_kind text, p_at timestamp with time zone, p_answer text) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.open_recorders(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.paid_changes_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.park_halted(p_limit integer) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.park_halted(p_limit integer) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.past_change_figures_at(p_at timestamp with time zone, p_batch uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.pause_again(p_batch_id uuid, p_at timestamp with time zone, p_by text, p_reason text) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.prepare_months(p_table text, p_at timestamp with time zone, p_ahead integer) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.prepare_months(p_table text, p_at timestamp with time zone, p_ahead integer) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.price_changes_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.probe_storefronts(p_at timestamp with time zone, p_now timestamp with time zone, p_next timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.probe_storefronts(p_at timestamp with time zone, p_now timestamp with time zone, p_next timestamp with time zone) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.put_back_cancellations(p_halt repricer.put_backs, p_now timestamp with time zone, p_limit integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.put_back_changes(p_halt repricer.put_backs, p_at timestamp with time zone, p_now timestamp with time zone, p_limit integer, p_wait interval) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.put_back_extensions(p_halt repricer.put_backs, p_now timestamp with time zone, p_limit integer) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.put_back_mass_extensions(p_halt repricer.put_backs, p_now timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.put_back_refused(p_at timestamp with time zone, p_now timestamp with time zone, p_limit integer, p_wait interval) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.put_back_refused(p_at timestamp with time zone, p_now timestamp with time zone, p_limit integer, p_wait interval) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.rate_clock() FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.rate_clock() TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.rate_clock() TO repricer_service;

REVOKE ALL ON FUNCTION repricer.reason_of_pause(p_paused_by text, p_paused_reason text, p_by text, p_reason text) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.record_dependent_claims(p_batch_id uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.recover_batch(p_batch_id uuid, p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.recover_batch(p_batch_id uuid, p_at timestamp with time zone) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.recover_kind(p_kind text, p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.recover_kind(p_kind text, p_at timestamp with time zone) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.recover_service(p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.recover_service(p_at timestamp with time zone) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.refuse_audit_change() FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.refuse_unfinished_submission() FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.reject_extension(p_extension_id uuid, p_reason text, p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.reject_extension(p_extension_id uuid, p_reason text, p_at timestamp with time zone) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.release_due_waves(p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.release_due_waves(p_at timestamp with time zone) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.release_wave(p_batch_id uuid, p_wave integer, p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.release_wave(p_batch_id uuid, p_wave integer, p_at timestamp with time zone) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.release_waves_through(p_batch repricer.batches, p_through integer, p_actor text, p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.renewal_told(p_statement jsonb) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.request_extension(p_original_transaction_id text, p_extension_id uuid, p_days integer, p_reason integer, p_note text, p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.request_extension(p_original_transaction_id text, p_extension_id uuid, p_days integer, p_reason integer, p_note text, p_at timestamp with time zone) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.request_mass_extension(p_extension_id uuid, p_product_id text, p_storefronts text[], p_days integer, p_reason integer, p_note text, p_eligible bigint, p_ineligible jsonb, p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.request_mass_extension(p_extension_id uuid, p_product_id text, p_storefronts text[], p_days integer, p_reason integer, p_note text, p_eligible bigint, p_ineligible jsonb, p_at timestamp with time zone) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.request_retries(p_mass_extension_id uuid, p_ids text[], p_extension_ids uuid[], p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.request_retries(p_mass_extension_id uuid, p_ids text[], p_extension_ids uuid[], p_at timestamp with time zone) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.require_another(p_submitter text, p_what text) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.require_past(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.require_pricing() FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.require_pricing() TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.resume_batch(p_batch_id uuid, p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.returned_dependents_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.revenue_moves(p_at timestamp with time zone, p_batch uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.rules_sha256(p_revision integer) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.rules_sha256(p_revision integer) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.set_approval_limit(p_approver text, p_max_rows bigint, p_max_basis_points bigint, p_max_monthly_milliunits jsonb, p_needs_first boolean, p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.set_default_limits(p_max_rise numeric, p_max_fall numeric, p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.set_pause(p_batch_id uuid, p_at timestamp with time zone, p_is_paused boolean, p_reason text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.set_pause(p_batch_id uuid, p_at timestamp with time zone, p_is_paused boolean, p_reason text) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.settle_audit() FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.settle_audit() TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.settle_audit() TO repricer_service;

REVOKE ALL ON FUNCTION repricer.silent_open_changes_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.still_checks_refusals(p_halt repricer.put_backs, p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.store_changes(p_batch_id uuid, p_ids text[], p_change_ids uuid[], p_lines bigint[], p_waves bigint[], p_skus text[], p_dependent_skus text[], p_directions text[], p_currencies text[], p_storefronts text[], p_periods text[], p_current_prices bigint[], p_new_prices bigint[], p_expected_prices bigint[], p_effective_on_or_after text[], p_consents text[], p_reasons text[], p_threshold_sources text[], p_rules jsonb[], p_renewals timestamp with time zone[], p_notices timestamp with time zone[], p_effective timestamp with time zone[], p_send_after timestamp with time zone[], p_send_by timestamp with time zone[], p_not_known text[], p_at_risk bigint[], p_at_risk_elsewhere jsonb[], p_kinds bigint[], p_shared_rules text[], p_stale boolean[], p_seats bigint[]) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.store_changes(p_batch_id uuid, p_ids text[], p_change_ids uuid[], p_lines bigint[], p_waves bigint[], p_skus text[], p_dependent_skus text[], p_directions text[], p_currencies text[], p_storefronts text[], p_periods text[], p_current_prices bigint[], p_new_prices bigint[], p_expected_prices bigint[], p_effective_on_or_after text[], p_consents text[], p_reasons text[], p_threshold_sources text[], p_rules jsonb[], p_renewals timestamp with time zone[], p_notices timestamp with time zone[], p_effective timestamp with time zone[], p_send_after timestamp with time zone[], p_send_by timestamp with time zone[], p_not_known text[], p_at_risk bigint[], p_at_risk_elsewhere jsonb[], p_kinds bigint[], p_shared_rules text[], p_stale boolean[], p_seats bigint[]) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.store_rejects(p_batch_id uuid, p_lines bigint[], p_ids text[], p_skus text[], p_codes text[], p_messages text[]) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.store_rejects(p_batch_id uuid, p_lines bigint[], p_ids text[], p_skus text[], p_codes text[], p_messages text[]) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.subscription_events_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.subscriptions_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.summarise_figures(p_limit integer) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.summarise_figures(p_limit integer) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.throttle_kind(p_kind text, p_at timestamp with time zone, p_until timestamp with time zone, p_answer text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.throttle_kind(p_kind text, p_at timestamp with time zone, p_until timestamp with time zone, p_answer text) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.told_statements_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.undo_batch(p_batch_id uuid, p_undo_id uuid, p_name text, p_subscription text, p_sku text, p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.undo_batch(p_batch_id uuid, p_undo_id uuid, p_name text, p_subscription text, p_sku text, p_at timestamp with time zone) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.undo_candidates(p_batch_id uuid, p_subscription text, p_sku text, p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.undo_candidates(p_batch_id uuid, p_subscription text, p_sku text, p_at timestamp with time zone) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.undo_obstacle(p_state text, p_is_undo boolean, p_was_told boolean, p_told_at timestamp with time zone, p_has_undo boolean, p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.undo_obstacle(p_state text, p_is_undo boolean, p_was_told boolean, p_told_at timestamp with time zone, p_has_undo boolean, p_at timestamp with time zone) TO repricer_pricing;

REVOKE ALL ON FUNCTION repricer.unfrozen_changes_at(p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.untallied_changes_at(p_at timestamp with time zone, p_batch uuid) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.was_just_now(p_at timestamp with time zone) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.was_just_now(p_at timestamp with time zone) TO repricer_pricing;
GRANT ALL ON FUNCTION repricer.was_just_now(p_at timestamp with time zone) TO repricer_service;

REVOKE ALL ON FUNCTION repricer.wave_release_at(p_wave jsonb, p_before jsonb, p_at timestamp with time zone) FROM PUBLIC;

REVOKE ALL ON FUNCTION repricer.withdraw_batch(p_batch_id uuid, p_at timestamp with time zone, p_new_state text, p_reason text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.withdraw_batch(p_batch_id uuid, p_at timestamp with time zone, p_new_state text, p_reason text) TO repricer_pricing;

GRANT SELECT ON TABLE repricer.closed_figures TO repricer_pricing;
GRANT SELECT ON TABLE repricer.closed_figures TO repricer_service;

GRANT SELECT ON TABLE repricer.closed_months TO repricer_pricing;
GRANT SELECT ON TABLE repricer.closed_months TO repricer_service;

GRANT SELECT ON TABLE repricer.known_figures TO repricer_service;

GRANT SELECT ON TABLE report.closed_period TO repricer_finance;
GRANT SELECT ON TABLE report.closed_period TO repricer_pricing;
GRANT SELECT ON TABLE report.closed_period TO repricer_service;

GRANT SELECT ON TABLE report.notification_health TO repricer_finance;
GRANT SELECT ON TABLE report.notification_health TO repricer_pricing;
GRANT SELECT ON TABLE report.notification_health TO repricer_service;

GRANT SELECT ON TABLE repricer.extension_requests TO repricer_pricing;
GRANT SELECT ON TABLE repricer.extension_requests TO repricer_service;

GRANT UPDATE(state) ON TABLE repricer.extension_requests TO repricer_service;

GRANT UPDATE(call_id) ON TABLE repricer.extension_requests TO repricer_service;

GRANT UPDATE(called_at) ON TABLE repricer.extension_requests TO repricer_service;

GRANT UPDATE(is_of_sandbox) ON TABLE repricer.extension_requests TO repricer_service;

GRANT UPDATE(is_doubtful) ON TABLE repricer.extension_requests TO repricer_service;

GRANT UPDATE(next_attempt_at) ON TABLE repricer.extension_requests TO repricer_service;

GRANT UPDATE(renewal_before) ON TABLE repricer.extension_requests TO repricer_service;

GRANT UPDATE(effective_at) ON TABLE repricer.extension_requests TO repricer_service;

GRANT UPDATE(settled_at) ON TABLE repricer.extension_requests TO repricer_service;

GRANT UPDATE(settled_by) ON TABLE repricer.extension_requests TO repricer_service;

GRANT UPDATE(code) ON TABLE repricer.extension_requests TO repricer_service;

GRANT UPDATE(detail) ON TABLE repricer.extension_requests TO repricer_service;

GRANT SELECT ON TABLE repricer.mass_extensions TO repricer_pricing;
GRANT SELECT ON TABLE repricer.mass_extensions TO repricer_service;

GRANT UPDATE(state) ON TABLE repricer.mass_extensions TO repricer_service;

GRANT UPDATE(called_at) ON TABLE repricer.mass_extensions TO repricer_service;

GRANT UPDATE(next_attempt_at) ON TABLE repricer.mass_extensions TO repricer_service;

GRANT UPDATE(code) ON TABLE repricer.mass_extensions TO repricer_service;

GRANT UPDATE(detail) ON TABLE repricer.mass_extensions TO repricer_service;

GRANT UPDATE(completed_at) ON TABLE repricer.mass_extensions TO repricer_service;

GRANT UPDATE(status_succeeded) ON TABLE repricer.mass_extensions TO repricer_service;

GRANT UPDATE(status_failed) ON TABLE repricer.mass_extensions TO repricer_service;

GRANT UPDATE(summary_evidence) ON TABLE repricer.mass_extensions TO repricer_service;

GRANT UPDATE(summary_succeeded) ON TABLE repricer.mass_extensions TO repricer_service;

GRANT UPDATE(summary_failed) ON TABLE repricer.mass_extensions TO repricer_service;

GRANT SELECT ON TABLE repricer.renewal_extensions TO repricer_pricing;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE repricer.renewal_extensions TO repricer_service;

GRANT SELECT ON TABLE repricer.attributed_extensions TO repricer_pricing;
GRANT SELECT ON TABLE repricer.attributed_extensions TO repricer_service;

GRANT SELECT ON TABLE repricer.extension_summaries TO repricer_pricing;
GRANT SELECT,INSERT,UPDATE ON TABLE repricer.extension_summaries TO repricer_service;

GRANT SELECT ON TABLE report.renewal_extension TO repricer_finance;
GRANT SELECT ON TABLE report.renewal_extension TO repricer_pricing;
GRANT SELECT ON TABLE report.renewal_extension TO repricer_service;

GRANT SELECT ON TABLE report.unknown_part TO repricer_finance;
GRANT SELECT ON TABLE report.unknown_part TO repricer_pricing;
GRANT SELECT ON TABLE report.unknown_part TO repricer_service;

GRANT SELECT ON TABLE repricer.always_consent_storefronts TO repricer_pricing;
GRANT SELECT ON TABLE repricer.always_consent_storefronts TO repricer_service;

GRANT SELECT ON TABLE repricer.audit_head TO repricer_pricing;
GRANT SELECT ON TABLE repricer.audit_head TO repricer_service;

GRANT SELECT ON TABLE repricer.audit_trail TO repricer_pricing;
GRANT SELECT ON TABLE repricer.audit_trail TO repricer_service;

GRANT SELECT ON TABLE repricer.audit_waiting TO repricer_pricing;
GRANT SELECT ON TABLE repricer.audit_waiting TO repricer_service;

GRANT SELECT ON TABLE repricer.batch_effects TO repricer_service;

GRANT SELECT ON TABLE repricer.batch_rule_answers TO repricer_pricing;
GRANT SELECT ON TABLE repricer.batch_rule_answers TO repricer_service;

GRANT SELECT ON TABLE repricer.batch_versions TO repricer_service;

GRANT SELECT,UPDATE ON TABLE repricer.bucket_turns TO repricer_service;

GRANT SELECT,INSERT ON TABLE repricer.charge_versions TO repricer_service;

GRANT SELECT ON TABLE repricer.charge_versions_default TO repricer_service;

GRANT SELECT ON TABLE repricer.charged_changes TO repricer_pricing;
GRANT SELECT ON TABLE repricer.charged_changes TO repricer_service;

GRANT SELECT ON TABLE repricer.consent_thresholds TO repricer_pricing;
GRANT SELECT ON TABLE repricer.consent_thresholds TO repricer_service;

GRANT SELECT ON TABLE repricer.currency_decimals TO repricer_pricing;
GRANT SELECT ON TABLE repricer.currency_decimals TO repricer_service;

GRANT SELECT ON TABLE repricer.default_limits TO repricer_pricing;
GRANT SELECT ON TABLE repricer.default_limits TO repricer_service;

GRANT SELECT ON TABLE repricer.dependency_roles TO repricer_pricing;
GRANT SELECT,INSERT,DELETE ON TABLE repricer.dependency_roles TO repricer_service;

GRANT SELECT,INSERT ON TABLE repricer.dependent_cancellation_versions TO repricer_service;

GRANT SELECT ON TABLE repricer.dependent_cancellation_versions_default TO repricer_service;

GRANT SELECT ON TABLE repricer.notification_ids TO repricer_pricing;
GRANT SELECT,INSERT ON TABLE repricer.notification_ids TO repricer_service;

GRANT SELECT ON TABLE repricer.signing_headers TO repricer_pricing;
GRANT SELECT,INSERT ON TABLE repricer.signing_headers TO repricer_service;

GRANT SELECT ON TABLE repricer.evidence_size TO repricer_service;

GRANT SELECT ON TABLE repricer.figures_turn TO repricer_service;

GRANT SELECT ON TABLE repricer.first_approvals TO repricer_pricing;
GRANT SELECT ON TABLE repricer.first_approvals TO repricer_service;

GRANT SELECT ON TABLE repricer.history_imports TO repricer_pricing;
GRANT SELECT ON TABLE repricer.history_imports TO repricer_service;

GRANT SELECT ON TABLE repricer.history_reading TO repricer_pricing;
GRANT SELECT,UPDATE ON TABLE repricer.history_reading TO repricer_service;

GRANT SELECT ON TABLE repricer.imported_increases TO repricer_pricing;
GRANT SELECT ON TABLE repricer.imported_increases TO repricer_service;

GRANT SELECT ON TABLE repricer.kept_moves TO repricer_service;

GRANT SELECT ON TABLE repricer.mass_extension_approvals TO repricer_pricing;
GRANT SELECT ON TABLE repricer.mass_extension_approvals TO repricer_service;

GRANT SELECT ON TABLE repricer.migration_steps TO PUBLIC;
GRANT SELECT ON TABLE repricer.migration_steps TO repricer_service;

GRANT SELECT ON TABLE repricer.price_change_history TO repricer_pricing;
GRANT SELECT,INSERT ON TABLE repricer.price_change_history TO repricer_service;

GRANT SELECT,INSERT ON TABLE repricer.price_change_versions TO repricer_service;

GRANT SELECT,INSERT ON TABLE repricer.subscription_event_versions TO repricer_service;

GRANT SELECT ON TABLE repricer.month_partitions TO repricer_pricing;
GRANT SELECT ON TABLE repricer.month_partitions TO repricer_service;

GRANT SELECT ON TABLE repricer.move_tallies TO repricer_service;

GRANT SELECT ON TABLE repricer.moved_renewals TO repricer_pricing;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE repricer.moved_renewals TO repricer_service;

GRANT SELECT ON TABLE repricer.notifications_default TO repricer_service;

GRANT SELECT ON TABLE repricer.outbox TO repricer_pricing;
GRANT SELECT,INSERT,DELETE ON TABLE repricer.outbox TO repricer_service;

GRANT SELECT ON TABLE repricer.price_change_history_default TO repricer_service;

GRANT SELECT ON TABLE repricer.price_change_versions_default TO repricer_service;

GRANT SELECT ON TABLE repricer.rate_limits TO repricer_pricing;
GRANT SELECT,INSERT,UPDATE ON TABLE repricer.rate_limits TO repricer_service;

GRANT SELECT ON TABLE repricer.refusal_streaks TO repricer_pricing;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE repricer.refusal_streaks TO repricer_service;

GRANT SELECT ON TABLE repricer.retention_floors TO repricer_pricing;
GRANT SELECT ON TABLE repricer.retention_floors TO repricer_service;

GRANT SELECT ON TABLE repricer.retention_progress TO repricer_service;

GRANT SELECT ON TABLE repricer.rule_imports TO repricer_pricing;
GRANT SELECT ON TABLE repricer.rule_imports TO repricer_service;

GRANT SELECT ON TABLE repricer.running_moves TO repricer_service;

GRANT SELECT ON TABLE repricer.schema_migrations TO PUBLIC;
GRANT SELECT ON TABLE repricer.schema_migrations TO repricer_service;

GRANT SELECT ON TABLE repricer.service_leases TO repricer_pricing;
GRANT SELECT,INSERT,UPDATE ON TABLE repricer.service_leases TO repricer_service;

GRANT SELECT ON TABLE repricer.status_checks TO repricer_pricing;
GRANT SELECT,INSERT,DELETE,UPDATE ON TABLE repricer.status_checks TO repricer_service;

GRANT SELECT ON TABLE repricer.subscription_checkpoints TO repricer_service;

GRANT SELECT ON TABLE repricer.subscription_event_versions_default TO repricer_service;

GRANT SELECT ON TABLE repricer.subscription_events_default TO repricer_service;

GRANT SELECT ON TABLE repricer.webhook_deliveries TO repricer_pricing;
GRANT SELECT,INSERT,UPDATE ON TABLE repricer.webhook_deliveries TO repricer_service;

REVOKE ALL ON FUNCTION repricer.bind_app(p_bundle_id text, p_environment text) FROM PUBLIC;
GRANT ALL ON FUNCTION repricer.bind_app(p_bundle_id text, p_environment text) TO repricer_service;


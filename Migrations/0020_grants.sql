-- Who may do what, role by role. Roles can't log in: they are granted to people and to the service's user. From here
-- on, a migration that makes a table, a view or a function contains the grants for it.
-- Locks: none.
-- breaking: no

-- PostgreSQL lets PUBLIC execute every new function. The functions that finance calls are granted below.
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA repricer FROM PUBLIC;
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA report FROM PUBLIC;

-- Besides the owner and superusers, only members of the three roles may connect. Only the owner and superusers may make
-- temporary tables, which could fill the disk. These rights belong to the database and not to its schema, like the setting
-- below: no dump carries them, and a copy of the database lacks them.
DO $connect$
BEGIN
    EXECUTE format('REVOKE CONNECT, TEMPORARY ON DATABASE %I FROM PUBLIC', current_database());
    EXECUTE format('GRANT CONNECT ON DATABASE %I TO repricer_pricing, repricer_service, repricer_finance',
        current_database());
    -- With JIT, PostgreSQL would compile a report for seconds (on a database without statistics for half a minute) that takes
    -- milliseconds without it. The setting is the database's, because people also read reports by plain SQL.
    IF pg_has_role(current_user, (SELECT datdba FROM pg_database WHERE datname = current_database()), 'USAGE') THEN
        EXECUTE format('ALTER DATABASE %I SET jit = off', current_database());
    END IF;
END
$connect$;

GRANT USAGE ON SCHEMA report TO repricer_pricing, repricer_service, repricer_finance;
GRANT USAGE ON SCHEMA repricer TO repricer_pricing, repricer_service;

-- Finance reads schema report, and so do the others.
GRANT SELECT ON ALL TABLES IN SCHEMA report TO repricer_finance, repricer_pricing, repricer_service;
GRANT repricer_finance TO repricer_finance_lead;
GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA report TO repricer_finance, repricer_pricing, repricer_service;
-- These limits hold where somebody lets the role itself log in. A member has settings of their own, which `repricer init`
-- writes and `config check` asks for. Where the owner may not alter the role, it stays as it is.
DO $limits$
BEGIN
    IF NOT EXISTS (
        SELECT FROM pg_roles WHERE rolname = 'repricer_finance' AND rolconnlimit >= 0 AND rolconfig IS NOT NULL)
    THEN
        ALTER ROLE repricer_finance CONNECTION LIMIT 10;
        ALTER ROLE repricer_finance SET statement_timeout = '5min';
    END IF;
EXCEPTION WHEN insufficient_privilege THEN
    RAISE NOTICE 'repricer_finance keeps its limits: %', SQLERRM;
END
$limits$;
-- PostgreSQL asks the reader of a view for the right to what the view calls. Finance cannot name the functions of
-- schema repricer.
GRANT EXECUTE ON FUNCTION repricer.twelfths(text), repricer.figure(numeric, text), repricer.fitting(numeric, text),
    repricer.at_old_price(bigint, bigint, bigint, bigint, text), repricer.is_refused(text, timestamptz, timestamptz),
    repricer.is_of_item(text, timestamptz, text, text, text[], timestamptz[]),
    repricer.is_of_item(text, timestamptz, text[], text[], timestamptz[]),
    repricer.seats_of(anyarray), repricer.wilson_bound(numeric, numeric, integer),
    repricer.lacks_amount(jsonb), repricer.tells_end(jsonb), repricer.days(integer), repricer.span(timestamptz, timestamptz),
    repricer.bridge_moves(timestamptz, uuid), repricer.marked_subscriptions(), repricer.exceptions_of(uuid, text[]),
    repricer.is_that(uuid, uuid)
    TO repricer_finance, repricer_pricing, repricer_service;

-- repricer_pricing plans: it reads.
GRANT SELECT ON repricer.subscriptions, repricer.subscription_events, repricer.kept_statements, repricer.told_statements,
    repricer.overdue_statements, repricer.retention_floors, repricer.month_partitions, repricer.charges, repricer.money_entries,
    repricer.notification_ids, repricer.notifications, repricer.signing_headers, repricer.inbox,
    repricer.renewal_extensions, repricer.extension_summaries, repricer.moved_renewals,
    repricer.outbox, repricer.webhook_deliveries,
    repricer.batches, repricer.batch_rejects, repricer.batch_rule_answers, repricer.price_changes,
    repricer.dependency_roles,
    repricer.dependent_claims, repricer.price_change_history, repricer.dependent_cancellations,
    repricer.store_calls, repricer.mass_extensions,
    repricer.mass_extension_approvals, repricer.extension_requests, repricer.attributed_extensions,
    repricer.rule_imports, repricer.consent_thresholds, repricer.always_consent_storefronts,
    repricer.currency_decimals, repricer.exchange_rates, repricer.history_imports, repricer.imported_increases,
    repricer.rate_limits, repricer.refusal_streaks, repricer.service_controls, repricer.blocking_sessions,
    repricer.service_leases,
    repricer.history_reading,
    repricer.status_checks,
    repricer.audit_trail, repricer.audit_head, repricer.audit_waiting, repricer.approval_limits, repricer.default_limits,
    repricer.first_approvals, repricer.closed_months, repricer.closed_figures,
    repricer.charged_renewals, repricer.charged_changes TO repricer_pricing;
-- It submits, imports rules and decides, all through functions: it may write no table. The approval limits are the
-- owner's.
GRANT EXECUTE ON FUNCTION repricer.bucket_of(text), repricer.rate_clock(), repricer.database_identity(), repricer.was_just_now(timestamptz),
    repricer.require_pricing(),
    repricer.begin_submission(uuid, text, text, text, jsonb, jsonb, timestamptz, integer),
    repricer.store_changes(uuid, text[], uuid[], bigint[], bigint[], text[], text[], text[], text[], text[], text[],
        bigint[], bigint[], bigint[], text[], text[], text[], text[], jsonb[], timestamptz[], timestamptz[],
        timestamptz[], timestamptz[], timestamptz[], text[], bigint[], jsonb[], bigint[], text[],
        boolean[], bigint[]),
    repricer.forecast_rules(repricer.price_changes),
    repricer.store_rejects(uuid, bigint[], text[], text[], text[], text[]),
    repricer.finish_submission(uuid, text, bigint, bigint), repricer.batch_sha256(uuid), repricer.rules_sha256(integer),
    repricer.history_sha256(integer), repricer.closed_month_sha256(date),
    repricer.import_rules(text, text, timestamptz, text[], text[], text[], text[], timestamptz[], bigint[], text[],
        boolean[], text[]),
    repricer.import_history(text, text, timestamptz, text[], text[], date[], bigint[], bigint[], text[]),
    repricer.close_change(uuid, timestamptz, text),
    repricer.approval_outlook(uuid), repricer.may_approve(text), repricer.has_open_rows(uuid), repricer.approve_batch(uuid, timestamptz), repricer.withdraw_batch(uuid, timestamptz, text, text),
    repricer.release_wave(uuid, integer, timestamptz), repricer.set_pause(uuid, timestamptz, boolean, text),
    repricer.undo_obstacle(text, boolean, boolean, timestamptz, boolean, timestamptz),
    repricer.undo_candidates(uuid, text, text, timestamptz),
    repricer.undo_batch(uuid, uuid, text, text, text, timestamptz),
    repricer.request_extension(text, uuid, integer, integer, text, timestamptz),
    repricer.request_mass_extension(uuid, text, text[], integer, integer, text, bigint, jsonb, timestamptz),
    repricer.approve_extension(uuid, timestamptz), repricer.reject_extension(uuid, text, timestamptz),
    repricer.give_up_extension(uuid, text, timestamptz), repricer.failed_extensions(uuid),
    repricer.request_retries(uuid, text[], uuid[], timestamptz),
    repricer.audit_hash(bigint, timestamptz, timestamptz, text, text, text, json, text), repricer.settle_audit()
    TO repricer_pricing;

-- repricer_service takes notifications in, folds, delivers and settles. It can't submit or approve, and it can't drop
-- evidence.
GRANT SELECT ON ALL TABLES IN SCHEMA repricer TO repricer_service;
GRANT INSERT, UPDATE ON repricer.subscriptions, repricer.charges, repricer.extension_summaries,
    repricer.dependent_cancellations, repricer.store_calls,
    repricer.rate_limits, repricer.service_leases TO repricer_service;
GRANT INSERT, UPDATE, DELETE ON repricer.inbox, repricer.renewal_extensions, repricer.moved_renewals,
    repricer.status_checks TO repricer_service;
GRANT INSERT ON repricer.charge_versions, repricer.subscription_event_versions, repricer.price_change_versions,
    repricer.dependent_cancellation_versions, repricer.stale_figures, repricer.overdue_statements TO repricer_service;
GRANT INSERT ON repricer.money_entries, repricer.notification_ids, repricer.notifications, repricer.signing_headers,
    repricer.dependent_claims, repricer.price_change_history TO repricer_service;
GRANT DELETE ON repricer.charges TO repricer_service;
GRANT INSERT, DELETE ON repricer.subscription_events, repricer.dependency_roles, repricer.outbox
    TO repricer_service;
-- The cascade of a deletion from the outbox needs no right of its own.
GRANT INSERT, UPDATE ON repricer.webhook_deliveries TO repricer_service;
GRANT UPDATE ON repricer.history_reading TO repricer_service;
-- Reprocessing corrects what was read of a notification, never the evidence.
GRANT UPDATE (signed_at, type, subtype, original_transaction_id, understood, unknown)
    ON repricer.notifications TO repricer_service;
-- A row lock needs a right to update some column. The columns of a person's decision stay out of reach.
GRANT UPDATE (paused_reason, guard_reading, is_sampled) ON repricer.batches TO repricer_service;
GRANT UPDATE (current_sku, called_sku, former_skus, former_until, current_dependent_skus, called_dependent_skus,
    send_after, send_by, due_effective_at, planned_effective_at, called_renewal_at,
    moved_before_call, moved_since_call, is_ready, goes_alone, parked_reason, parks, stale_tokens,
    next_attempt_at,
    request_reference_id, state, state_since, reason, doubtful_since, refused_at, sent_at, scheduled_at,
    consent_asked_at, accepted_at, acceptance, effective_at, ended_at, is_leaving, recorded_at,
    claim_recorded_at)
    ON repricer.price_changes TO repricer_service;
GRANT UPDATE (state, called_at, next_attempt_at, code, detail, completed_at, status_succeeded, status_failed, summary_evidence, summary_succeeded,
    summary_failed) ON repricer.mass_extensions TO repricer_service;
GRANT UPDATE (state, call_id, called_at, is_of_sandbox, is_doubtful, next_attempt_at, renewal_before, effective_at,
    settled_at, settled_by, code, detail) ON repricer.extension_requests TO repricer_service;
-- Claims take turns on this table.
GRANT UPDATE ON repricer.bucket_turns TO repricer_service;
-- Every replica judges refusals by what all have met.
GRANT INSERT, UPDATE, DELETE ON repricer.refusal_streaks TO repricer_service;
GRANT SELECT ON repricer.app_binding TO repricer_service, repricer_pricing;
-- A person who decides with a program that is older than the newest breaking migration is told so.
GRANT EXECUTE ON FUNCTION repricer.allow_program(integer) TO repricer_pricing;
-- The service's pages show what the approval policy says about a batch.
GRANT EXECUTE ON FUNCTION repricer.approval_outlook(uuid), repricer.may_approve(text) TO repricer_service;
GRANT EXECUTE ON FUNCTION repricer.bind_app(text, text), repricer.begin_rehearsal(timestamptz), repricer.summarise_figures(integer),
    repricer.follow_clock(timestamptz, double precision, timestamptz), repricer.recording_instant(),
    repricer.bucket_of(text), repricer.rate_clock(), repricer.allow_program(integer), repricer.database_identity(),
    repricer.was_just_now(timestamptz),
    repricer.note_change_price_rate(integer), repricer.settle_audit(), repricer.lease_permits(text, bigint, bigint, bigint, bigint, bigint, bigint, bigint[]),
    repricer.prepare_months(text, timestamptz, integer),
    repricer.release_due_waves(timestamptz), repricer.park_halted(integer),
    repricer.halt_batch(uuid, timestamptz, text, text, json, timestamptz, timestamptz, text),
    repricer.lock_probe(uuid, timestamptz), repricer.move_probe(uuid, timestamptz), repricer.recover_batch(uuid, timestamptz),
    repricer.halt_storefront(uuid, text, timestamptz, text, text, timestamptz),
    repricer.probe_storefronts(timestamptz, timestamptz, timestamptz),
    repricer.put_back_refused(timestamptz, timestamptz, integer, interval), repricer.end_idle_halts(timestamptz),
    repricer.halt_service(timestamptz, text, text, timestamptz), repricer.recover_service(timestamptz),
    repricer.halt_kind(text, timestamptz, text, timestamptz), repricer.recover_kind(text, timestamptz),
    repricer.note_unclaimed(timestamptz, text, boolean), repricer.note_probe_answer(uuid, text), repricer.note_halt_answer(text, text),
    repricer.throttle_kind(text, timestamptz, timestamptz, text), repricer.end_throttle(text),
    repricer.note_unreached(text, timestamptz, text), repricer.end_unreached(text),
    repricer.note_database(timestamptz, timestamptz, timestamptz), repricer.end_catch_up(boolean),
    repricer.note_catch_up_answer(text),
    repricer.begin_catch_up(timestamptz, timestamptz, timestamptz, boolean),
    repricer.note_recovery(timestamptz, timestamptz, bigint, bigint, bigint, bigint)
    TO repricer_service;

-- A mass extension that the App Store has lost, or never knew though it had answered, ran for ever here and let no
-- other of its product begin. A person may give it up now: not before a day is over, and only while the App Store
-- answers that it knows no such request. Whatever is told of it later still counts.
-- Locks: mass_extensions and report.renewal_extension, for a moment.
-- breaking: no

ALTER TABLE repricer.mass_extensions
    DROP CONSTRAINT mass_extensions_state,
    ADD CONSTRAINT mass_extensions_state CHECK (state IN ('awaiting_approval', 'queued', 'sending', 'unknown',
        'running', 'complete', 'refused', 'rejected', 'given_up'));

CREATE FUNCTION repricer.give_up_extension(p_extension_id uuid, p_reason text, p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_mass mass_extensions;
BEGIN
    PERFORM require_pricing();
    SELECT * INTO v_mass FROM mass_extensions WHERE extension_id = p_extension_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no mass extension %', p_extension_id USING ERRCODE = 'no_data_found';
    END IF;
    IF v_mass.state <> 'running' THEN
        RAISE EXCEPTION 'mass extension % is %: only a running one can be given up', p_extension_id, v_mass.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF v_mass.code IS DISTINCT FROM 'StatusRequestNotFoundError' THEN
        RAISE EXCEPTION 'the App Store has not denied mass extension %: it is at work', p_extension_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    IF p_at < v_mass.called_at + interval '1 day' THEN
        RAISE EXCEPTION 'mass extension % was called less than a day ago; the App Store may still learn of it',
            p_extension_id USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- Without its lease, nobody who holds it now writes anything but that it is complete.
    UPDATE mass_extensions SET state = 'given_up', completed_at = p_at, lease_owner = NULL, leased_until = NULL,
            next_attempt_at = NULL, detail = format('given up by %s: %s', session_user, p_reason)
        WHERE extension_id = p_extension_id;
    PERFORM append_audit(session_user::text, p_at, 'give_up', 'extension:' || p_extension_id,
        json_build_object('reason', p_reason, 'code', v_mass.code));
END
$$;
REVOKE ALL ON FUNCTION repricer.give_up_extension(uuid, text, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION repricer.give_up_extension(uuid, text, timestamptz) TO repricer_pricing;

CREATE OR REPLACE VIEW report.renewal_extension AS
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
    FROM repricer.extension_calls WHERE mass_extension_id IS NOT NULL GROUP BY mass_extension_id
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
FROM repricer.extension_calls c
JOIN repricer.subscriptions s USING (original_transaction_id)
LEFT JOIN told t ON t.extension_id = c.extension_id AND t.original_transaction_id = c.original_transaction_id
UNION ALL
SELECT 'foreign', coalesce(f.request_identifier, f.notification_uuid), f.product_id, f.storefronts, NULL, NULL, NULL,
    NULL, 'complete', NULL, NULL, NULL, NULL, NULL, f.signed_at, NULL, NULL, NULL, f.succeeded, f.failed, NULL, NULL,
    NULL, NULL, NULL, 'differs',
    coalesce(f.detail, 'a summary of a request that was never made here'), NULL, NULL
FROM repricer.extension_summaries f
WHERE f.folded_at IS NOT NULL AND f.extension_id IS NULL;
COMMENT ON COLUMN report.renewal_extension.state IS
    'awaiting_approval, queued, sending, unknown, running, complete, refused, rejected, given_up; of one: queued, '
    'sending, unknown, extended, refused, ineligible.';
COMMENT ON COLUMN report.renewal_extension.completed_at IS
    'When the App Store was done, or it was given up; of one: when its outcome was known.';
COMMENT ON COLUMN report.renewal_extension.code IS
    'Why it was refused or not eligible, or what the App Store answers when asked about it.';
COMMENT ON COLUMN report.renewal_extension.check_result IS
    'clean (the counts agree), differs, open (not all is told yet), ended (refused, rejected, or given up).';

-- A mass extension that was approved and then rejected before its call: who approved it stays, and who rejected it is
-- told beside it. Until now the one overwrote the other.
-- Locks: mass_extensions and report.renewal_extension, for a moment.
-- breaking: no

ALTER TABLE repricer.mass_extensions
    ADD COLUMN rejected_by text,
    ADD COLUMN rejected_at timestamptz,
    DROP CONSTRAINT mass_extensions_decided;
COMMENT ON COLUMN repricer.mass_extensions.decided_by IS 'Who approved it.';
-- Who had approved what was then rejected, the audit trail knows.
UPDATE repricer.mass_extensions m SET rejected_by = m.decided_by, rejected_at = m.decided_at,
        decided_by = a.actor, decided_at = a.occurred_at
    FROM repricer.mass_extensions r LEFT JOIN repricer.audit_trail a
        ON a.action = 'approve' AND a.object = 'extension:' || r.extension_id
    WHERE m.extension_id = r.extension_id AND m.state = 'rejected';
ALTER TABLE repricer.mass_extensions ADD CONSTRAINT mass_extensions_decided CHECK (
    state = 'awaiting_approval' OR (state = 'rejected' AND rejected_by IS NOT NULL AND rejected_at IS NOT NULL)
    OR (decided_by IS NOT NULL AND decided_at IS NOT NULL));

-- Withdraws one that no call was made for; the submitter may, too.
CREATE OR REPLACE FUNCTION repricer.reject_extension(p_extension_id uuid, p_reason text, p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_mass mass_extensions;
BEGIN
    PERFORM require_pricing();
    SELECT * INTO v_mass FROM mass_extensions WHERE extension_id = p_extension_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no mass extension %', p_extension_id USING ERRCODE = 'no_data_found';
    END IF;
    IF v_mass.state NOT IN ('awaiting_approval', 'queued') OR v_mass.called_at IS NOT NULL THEN
        RAISE EXCEPTION 'mass extension % is %: it can''t be taken back', p_extension_id, v_mass.state
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    UPDATE mass_extensions SET state = 'rejected', rejected_by = session_user, rejected_at = p_at,
            decision_reason = p_reason
        WHERE extension_id = p_extension_id;
    PERFORM append_audit(session_user::text, p_at, 'reject', 'extension:' || p_extension_id,
        json_build_object('reason', p_reason));
END
$$;

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
    CASE WHEN state IN ('rejected', 'refused') THEN 'ended'
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
COMMENT ON COLUMN report.renewal_extension.approved_by IS 'The other user who approved it.';
COMMENT ON COLUMN report.renewal_extension.rejected_by IS 'The user who rejected it, approved or not.';
COMMENT ON COLUMN report.renewal_extension.rejected_at IS 'When.';

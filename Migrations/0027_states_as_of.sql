-- The states of changes as they were at an instant; and what a change on a subscription that we cancelled ourselves
-- ends as: not "the customer left", though Apple's word for it is voluntary.
-- Locks: cancel_requests for a moment.
-- breaking: no

ALTER TABLE repricer.cancel_requests ADD COLUMN reenabled_at timestamptz;
COMMENT ON COLUMN repricer.cancel_requests.reenabled_at IS
    'When the customer was seen to have turned the renewal on again: a later end is their own.';

-- Valid time: what was so at the instant, as it is known today, late statements included. From the instant of its
-- present state on a change has that state; before, the last line of its history until then says it; a change without
-- a line waited for approval.
CREATE FUNCTION report.price_change_as_of(p_at timestamptz) RETURNS TABLE (
        batch_id uuid, batch_name text, line bigint, original_transaction_id text, change_id uuid, sku text,
        storefront text, period text, direction text, currency text, current_price_milliunits bigint,
        new_price_milliunits bigint, difference_milliunits bigint, forecast_consent text,
        forecast_effective_at timestamptz, state text, reason text, is_final boolean, state_since_at timestamptz,
        evidence_kind text, evidence_id text, sent_at timestamptz, scheduled_at timestamptz,
        consent_asked_at timestamptz, accepted_at timestamptz, acceptance text, effective_at timestamptz,
        ended_at timestamptz, charged_renewals bigint, charged_total_milliunits bigint,
        charged_uplift_milliunits bigint, undoes_change_id uuid)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
SELECT c.batch_id, b.name, c.line, c.original_transaction_id, c.change_id, c.sku, c.storefront, c.period, c.direction,
    c.currency, c.current_price_milliunits, c.new_price_milliunits,
    c.new_price_milliunits - c.current_price_milliunits, c.forecast_consent, c.forecast_effective_at,
    s.state, s.reason,
    s.state IN ('effective', 'declined', 'cancelled', 'lapsed', 'invalidated', 'rejected', 'ineligible', 'missed',
        'aborted'),
    s.since, h.evidence_kind, h.evidence_id, CASE WHEN c.sent_at <= p_at THEN c.sent_at END,
    CASE WHEN c.scheduled_at <= p_at THEN c.scheduled_at END,
    CASE WHEN c.consent_asked_at <= p_at THEN c.consent_asked_at END,
    CASE WHEN c.accepted_at <= p_at THEN c.accepted_at END,
    CASE WHEN c.accepted_at <= p_at THEN c.acceptance END,
    CASE WHEN c.effective_at <= p_at THEN c.effective_at END,
    CASE WHEN c.ended_at <= p_at THEN c.ended_at END,
    coalesce(r.renewals, 0), coalesce(r.total, 0), coalesce(r.total - r.old_total, 0), c.undoes_change_id
FROM price_changes c
JOIN batches b ON b.batch_id = c.batch_id AND b.submitted_at <= p_at
LEFT JOIN LATERAL (
    SELECT l.state, l.reason, l.occurred_at, l.evidence_kind, l.evidence_id FROM price_change_history l
    WHERE l.original_transaction_id = c.original_transaction_id AND l.change_id = c.change_id
        AND l.occurred_at <= p_at
    -- Of one instant the one furthest along the road.
    ORDER BY l.occurred_at DESC, array_position(ARRAY['awaiting_approval', 'queued', 'sending', 'unknown',
        'scheduled', 'pending_consent', 'accepted'], l.state) DESC NULLS FIRST, l.state LIMIT 1) h ON true
CROSS JOIN LATERAL (
    SELECT CASE WHEN c.state_since <= p_at THEN c.state ELSE coalesce(h.state, 'awaiting_approval') END AS state,
        CASE WHEN c.state_since <= p_at THEN c.reason ELSE h.reason END AS reason,
        CASE WHEN c.state_since <= p_at THEN c.state_since ELSE coalesce(h.occurred_at, b.submitted_at) END AS since) s
LEFT JOIN LATERAL (
    SELECT count(*) AS renewals, sum(price_milliunits)::bigint AS total,
        sum(old_price_milliunits)::bigint AS old_total
    FROM charged_renewals r
    WHERE r.original_transaction_id = c.original_transaction_id AND r.change_id = c.change_id
        AND r.purchased_at <= p_at) r ON true
$$;
COMMENT ON FUNCTION report.price_change_as_of(timestamptz) IS
    'One row a change that was submitted by the instant, with its state then, as it is known today; the columns are those of report.price_change, none of them later than the instant. evidence_kind and evidence_id: what brought the state.';
REVOKE ALL ON FUNCTION report.price_change_as_of(timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION report.price_change_as_of(timestamptz)
    TO repricer_finance, repricer_pricing, repricer_service;

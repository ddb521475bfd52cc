-- What finance reads: views over facts and events, never over intentions. Their names and types are a contract. Each
-- view and each column has a comment; the reports show them.
-- Locks: none on existing tables.
-- breaking: no

CREATE VIEW report.batch_summary AS
WITH calls_out AS (
    SELECT c.batch_id, count(*) AS sending
    FROM repricer.store_calls r
    JOIN repricer.price_changes c ON c.original_transaction_id = r.subject AND c.bucket = r.bucket
        AND c.request_reference_id = r.call_id AND c.state = 'sending'
    WHERE r.kind = 'price_change' AND r.settled_at IS NULL GROUP BY c.batch_id
), stages AS (
    SELECT c.batch_id, sum(c.rows)::bigint AS stored,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'awaiting_approval'), 0)::bigint AS awaiting_approval,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'queued'), 0)::bigint AS queued,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'unknown'), 0)::bigint AS unknown,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'scheduled'), 0)::bigint AS scheduled,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'pending_consent'), 0)::bigint AS pending_consent,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'accepted'), 0)::bigint AS accepted,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'effective'), 0)::bigint AS effective,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'declined'), 0)::bigint AS declined,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'cancelled'), 0)::bigint AS cancelled,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'lapsed'), 0)::bigint AS lapsed,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'invalidated'), 0)::bigint AS invalidated,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'rejected'), 0)::bigint AS rejected,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'ineligible'), 0)::bigint AS ineligible,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'missed'), 0)::bigint AS missed,
        coalesce(sum(c.rows) FILTER (WHERE c.stage = 'aborted'), 0)::bigint AS aborted
    -- Counted by stage first, so that no row is compared with each of them.
    FROM (SELECT batch_id, stage, count(*) AS rows FROM repricer.price_changes GROUP BY batch_id, stage) c
    GROUP BY c.batch_id
), tallies AS (
    -- Everything comes from the index alone, except for the few changes whose call is out.
    SELECT g.batch_id, g.stored, g.awaiting_approval, g.queued - coalesce(o.sending, 0) AS queued,
        coalesce(o.sending, 0) AS sending, g.unknown, g.scheduled, g.pending_consent, g.accepted, g.effective,
        g.declined, g.cancelled, g.lapsed, g.invalidated, g.rejected, g.ineligible, g.missed, g.aborted
    FROM stages g LEFT JOIN calls_out o ON o.batch_id = g.batch_id
), sums AS (
    SELECT t.*,
        t.awaiting_approval + t.queued + t.sending + t.unknown + t.scheduled + t.pending_consent
            + t.accepted AS open,
        t.effective + t.declined + t.cancelled + t.lapsed + t.invalidated + t.rejected + t.ineligible
            + t.missed + t.aborted AS final
    FROM tallies t
), refusals AS (
    SELECT batch_id, count(*) AS stored FROM repricer.batch_rejects GROUP BY batch_id
)
SELECT b.batch_id, b.name AS batch_name, b.state AS batch_state, b.is_paused, b.paused_reason,
    b.submitted_by::text AS submitted_by, b.submitted_at, b.planned_as_of AS planned_at,
    CASE WHEN b.state <> 'rejected' THEN b.decided_by::text END AS approver,
    CASE WHEN b.state <> 'rejected' THEN b.decided_at END AS approved_at,
    CASE WHEN b.state = 'rejected' THEN b.decided_by::text END AS rejected_by,
    b.decision_reason, b.row_count AS rows, b.rejected_row_count AS refused_file_rows,
    coalesce(s.awaiting_approval, 0) AS rows_awaiting_approval, coalesce(s.queued, 0) AS rows_queued,
    coalesce(s.sending, 0) AS rows_sending, coalesce(s.unknown, 0) AS rows_unknown,
    coalesce(s.scheduled, 0) AS rows_scheduled, coalesce(s.pending_consent, 0) AS rows_pending_consent,
    coalesce(s.accepted, 0) AS rows_accepted, coalesce(s.effective, 0) AS rows_effective,
    coalesce(s.declined, 0) AS rows_declined, coalesce(s.cancelled, 0) AS rows_cancelled,
    coalesce(s.lapsed, 0) AS rows_lapsed, coalesce(s.invalidated, 0) AS rows_invalidated,
    coalesce(s.rejected, 0) AS rows_rejected, coalesce(s.ineligible, 0) AS rows_ineligible,
    coalesce(s.missed, 0) AS rows_missed, coalesce(s.aborted, 0) AS rows_aborted,
    coalesce(s.open, 0) AS rows_open, coalesce(s.final, 0) AS rows_final,
    coalesce(s.final, 0) = b.row_count AS is_final,
    coalesce(s.stored, 0) = b.row_count AND coalesce(s.open + s.final, 0) = b.row_count
        AND coalesce(r.stored, 0) = b.rejected_row_count AS rows_add_up, b.undoes_batch_id
FROM repricer.batches b
LEFT JOIN sums s ON s.batch_id = b.batch_id
LEFT JOIN refusals r ON r.batch_id = b.batch_id;
COMMENT ON VIEW report.batch_summary IS 'One row a batch: who, when, and its rows by state.';

CREATE VIEW report.price_change AS
SELECT c.batch_id, b.name AS batch_name, c.line, c.original_transaction_id, c.change_id, c.sku,
    c.storefront, c.period, c.direction, c.currency, c.current_price_milliunits,
    c.new_price_milliunits,
    c.new_price_milliunits - c.current_price_milliunits AS difference_milliunits,
    CASE WHEN c.current_price_milliunits = 0 THEN NULL
        -- The same as below without numerics. Integer division rounds towards zero, so half is added first.
        WHEN greatest(c.current_price_milliunits, c.new_price_milliunits) < 100000000000000
            THEN ((c.new_price_milliunits - c.current_price_milliunits) * 20000
                + sign(c.new_price_milliunits - c.current_price_milliunits)::bigint * c.current_price_milliunits)
                / (c.current_price_milliunits * 2)
        -- One price with some zeros too many must not fail the report of all.
        ELSE least(9223372036854775807, round((c.new_price_milliunits - c.current_price_milliunits)::numeric * 10000
            / c.current_price_milliunits))::bigint END AS difference_basis_points,
    c.dependent_skus, c.effective_on_or_after, c.forecast_consent, c.forecast_reasons,
    c.forecast_threshold_source, c.forecast_renewal_at, c.forecast_notice_at,
    c.forecast_effective_at, c.send_after AS send_after_at, c.send_by AS send_by_at,
    c.due_effective_at, c.state, c.reason,
    c.state IN ('effective', 'declined', 'cancelled', 'lapsed', 'invalidated', 'rejected',
        'ineligible', 'missed', 'aborted') AS is_final,
    c.request_reference_id, c.sent_at, c.scheduled_at, c.consent_asked_at, c.accepted_at,
    c.acceptance, c.effective_at, c.ended_at, c.state_since AS state_since_at,
    coalesce(f.renewals, r.renewals, 0) AS charged_renewals, coalesce(f.first_at, r.first_at) AS first_charged_at,
    coalesce(f.new_total_milliunits, r.new_total_milliunits, 0) AS charged_total_milliunits,
    coalesce(f.new_total_milliunits - f.old_total_milliunits, r.new_total_milliunits - r.old_total_milliunits, 0)
        AS charged_uplift_milliunits,
    c.undoes_change_id
FROM repricer.price_changes c
JOIN repricer.batches b ON b.batch_id = c.batch_id
LEFT JOIN repricer.change_figures f
    ON f.original_transaction_id = c.original_transaction_id AND f.change_id = c.change_id AND f.batch_id = c.batch_id
    AND (f.change_id = c.change_id OR repricer.is_that(f.change_id, c.change_id)) AND NOT EXISTS (
        SELECT FROM repricer.marked_subscriptions() s (id) WHERE s.id = f.original_transaction_id)
LEFT JOIN LATERAL (
    SELECT h.renewals, h.first_at, h.old_total_milliunits, h.new_total_milliunits
    -- OFFSET 0 makes PostgreSQL check this first, and add up nothing for the many changes whose figures are kept.
    FROM (SELECT 1 AS one WHERE f.change_id IS NULL AND c.state = 'effective' OFFSET 0) unkept
    CROSS JOIN LATERAL (
        SELECT count(*) AS renewals, min(h.purchased_at) AS first_at,
            repricer.fitting(sum(h.old_price_milliunits), 'the renewals of price change ' || c.change_id || ', at the old price,')
                AS old_total_milliunits,
            repricer.fitting(sum(h.price_milliunits), 'the renewals of price change ' || c.change_id) AS new_total_milliunits
        FROM repricer.charged_renewals h
        WHERE h.original_transaction_id = c.original_transaction_id AND h.change_id = c.change_id) h
) r ON true;
COMMENT ON VIEW report.price_change IS
    'One row a price change: what was forecast and approved, what came, and what was charged.';

-- An undo asks nobody, forecasts nothing and brings nothing: only its change and its batch tell of it.
CREATE VIEW report.consent_funnel AS
WITH funnels AS (
    SELECT t.batch_id, t.direction, t.forecast_consent,
        sum(t.changes)::bigint AS changes, sum(t.sent)::bigint AS sent,
        sum(t.asked_for_consent)::bigint AS asked_for_consent, sum(t.consented)::bigint AS consented,
        sum(t.informed)::bigint AS informed, sum(t.effective)::bigint AS effective,
        sum(t.declined)::bigint AS declined, sum(t.cancelled)::bigint AS cancelled, sum(t.lapsed)::bigint AS lapsed,
        sum(t.other)::bigint AS other, sum(t.fell_with_parent)::bigint AS fell_with_parent
    FROM repricer.change_tallies t WHERE NOT t.is_undo
    GROUP BY t.batch_id, t.direction, t.forecast_consent HAVING sum(t.changes) > 0
)
SELECT f.batch_id, b.name AS batch_name, f.direction, f.forecast_consent, f.changes, f.sent,
    f.asked_for_consent, f.consented, f.informed, f.effective, f.declined, f.cancelled, f.lapsed,
    f.other, f.changes - f.effective - f.declined - f.cancelled - f.lapsed - f.other - f.fell_with_parent AS open,
    round(f.consented::numeric * 10000 / nullif(f.asked_for_consent, 0))::bigint
        AS consented_basis_points,
    round(f.declined::numeric * 10000 / nullif(f.asked_for_consent, 0))::bigint
        AS declined_basis_points,
    round(f.cancelled::numeric * 10000 / nullif(f.sent, 0))::bigint AS cancelled_basis_points,
    round(f.effective::numeric * 10000 / nullif(f.changes, 0))::bigint AS effective_basis_points,
    f.fell_with_parent
FROM funnels f JOIN repricer.batches b ON b.batch_id = f.batch_id;
COMMENT ON VIEW report.consent_funnel IS
    'From changes to renewals, for each batch, direction and forecast of consent.';

-- How many periods a month has, in twelfths: a year has 12 months or 52 weeks. An unknown period counts as a month.
CREATE FUNCTION repricer.twelfths(p_period text) RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE p_period WHEN 'P1W' THEN 52 WHEN 'P2M' THEN 6 WHEN 'P3M' THEN 4 WHEN 'P6M' THEN 2 WHEN 'P1Y' THEN 1
        ELSE 12 END;

-- A customer who reverses an end within the paid period goes on paying. So a proved end is not believed if a renewal was charged
-- after it. What the customer bought anew is no renewal, nor is what follows it.
CREATE VIEW repricer.returned_dependents AS
SELECT d.batch_id, d.original_transaction_id, d.bucket, d.change_id, d.dependent_sku
FROM repricer.dependent_cancellations d
CROSS JOIN LATERAL (
    SELECT min(k.purchased_at) FILTER (WHERE NOT k.is_purchase) AS renewed_at,
        min(k.purchased_at) FILTER (WHERE k.is_purchase AND NOT k.is_added_seat) AS bought_at
    FROM repricer.charges k
    WHERE k.original_transaction_id = coalesce(d.target_transaction_id, d.original_transaction_id)
        AND k.sku = CASE WHEN d.is_cross_subscription
            THEN regexp_replace(d.dependent_sku, '^[0-9]+/', '') ELSE d.dependent_sku END
        AND k.purchased_at > d.settled_at
        AND (k.refunded_milliunits = 0 OR k.refunded_milliunits < k.price_milliunits * k.quantity)) k
WHERE d.state = 'confirmed' AND k.renewed_at < coalesce(k.bought_at, 'infinity');
COMMENT ON VIEW repricer.returned_dependents IS 'Dependents that were proved cancelled, and renewed since.';

CREATE VIEW repricer.lost_dependents AS
-- A dependent that has a lost change of its own, in whatever batch, is counted with that change.
SELECT d.batch_id, d.original_transaction_id, d.change_id, c.currency, c.storefront, c.period, count(*) AS dependents,
    -- One that is paid in another currency is counted, and its price is in no sum of this one.
    -- A dependent on another subscription is paid by that one's period: its price is converted to the period of its
    -- parent. A yearly dependent of a monthly parent would count twelve times otherwise.
    -- By the period that it had when it was cancelled: its subscription may have another one since.
    repricer.fitting(sum(round(d.price_milliunits::numeric
        * coalesce(q.seats, CASE WHEN d.is_cross_subscription THEN 1 ELSE c.forecast_seats END) * repricer.twelfths(coalesce(d.target_period, t.period, c.period))
        / repricer.twelfths(c.period))) FILTER (WHERE coalesce(d.currency, c.currency) = c.currency),
        'the dependents of price change ' || d.change_id) AS price_milliunits
FROM repricer.dependent_cancellations d
LEFT JOIN LATERAL (
    -- Its price is that of one seat.
    SELECT CASE WHEN p.paid_by = 1 THEN p.quantity ELSE coalesce((
        SELECT repricer.seats_of(array_agg(k)) FROM repricer.charges k
        WHERE k.original_transaction_id = coalesce(d.target_transaction_id, d.original_transaction_id)
            AND k.sku = CASE WHEN d.is_cross_subscription
                THEN regexp_replace(d.dependent_sku, '^[0-9]+/', '') ELSE d.dependent_sku END
            AND k.purchased_at <= coalesce(d.settled_at, d.requested_at)
            AND coalesce(k.expires_at, k.purchased_at) = p.until), p.quantity) END AS seats
    FROM (
        SELECT coalesce(k.expires_at, k.purchased_at) AS until, count(*) AS paid_by, max(k.quantity) AS quantity
        FROM repricer.charges k
        WHERE k.original_transaction_id = coalesce(d.target_transaction_id, d.original_transaction_id)
            AND k.sku = CASE WHEN d.is_cross_subscription
                THEN regexp_replace(d.dependent_sku, '^[0-9]+/', '') ELSE d.dependent_sku END
            AND k.purchased_at <= coalesce(d.settled_at, d.requested_at)
        GROUP BY 1 ORDER BY 1 DESC LIMIT 1) p
) q ON true
JOIN repricer.price_changes c
    ON c.original_transaction_id = d.original_transaction_id AND c.change_id = d.change_id
LEFT JOIN repricer.subscriptions t ON t.original_transaction_id = d.target_transaction_id
WHERE d.state = 'confirmed' AND c.undoes_change_id IS NULL
    AND NOT EXISTS (
        SELECT FROM repricer.returned_dependents x
        WHERE x.original_transaction_id = d.original_transaction_id AND x.bucket = d.bucket AND x.change_id = d.change_id
            AND x.batch_id = d.batch_id AND x.dependent_sku = d.dependent_sku)
    AND NOT EXISTS (
        SELECT FROM repricer.price_changes o
        WHERE o.original_transaction_id = coalesce(d.target_transaction_id, d.original_transaction_id)
            AND CASE WHEN d.is_cross_subscription
                THEN regexp_replace(d.dependent_sku, '^[0-9]+/', '') ELSE d.dependent_sku END IN (o.sku, o.current_sku)
            AND (o.state = 'declined' OR o.reason = 'parent_declined' OR o.state = 'cancelled'
                AND o.direction = 'increase' AND coalesce(o.consent_asked_at, o.accepted_at) IS NOT NULL))
GROUP BY d.batch_id, d.original_transaction_id, d.change_id, c.currency, c.storefront, c.period;
COMMENT ON VIEW repricer.lost_dependents IS
    'How many dependents fell with each change, and what they brought in a period of the change.';

CREATE VIEW report.revenue_impact AS
WITH factors (period, numerator, denominator) AS (
    -- From a period to a month: a year has 12 months or 52 weeks.
    VALUES ('P1W', 13, 3), ('P1M', 1, 1), ('P2M', 1, 2), ('P3M', 1, 3), ('P6M', 1, 6), ('P1Y', 1, 12)
), lost AS (
    SELECT d.batch_id, d.currency, d.storefront, d.period, sum(d.dependents)::bigint AS dependents,
        sum(d.price_milliunits) AS dependent_lost
    FROM repricer.lost_dependents d
    GROUP BY d.batch_id, d.currency, d.storefront, d.period
), sums AS (
    SELECT t.batch_id, t.currency, t.storefront, t.period,
        sum(t.changes)::bigint AS changes, sum(t.effective)::bigint AS effective,
        sum(t.charged_changes)::bigint AS charged_changes, sum(t.charged_renewals)::bigint AS charged_renewals,
        sum(t.old_total) AS old_total, sum(t.new_total) AS new_total,
        sum(t.old_per_period - t.silent_old) AS old_per_period,
        sum(t.new_per_period - t.silent_new) AS new_per_period,
        sum(t.silent)::bigint AS silent, sum(t.silent_new) AS silent_new,
        sum(t.declined)::bigint AS declined, sum(t.declined_lost) AS declined_lost,
        sum(t.cancelled)::bigint AS cancelled, sum(t.cancelled_lost) AS cancelled_lost,
        sum(t.lapsed)::bigint AS lapsed, sum(t.lapsed_lost) AS lapsed_lost,
        sum(t.fell_with_parent)::bigint AS fell_with_parent, sum(t.fell_lost) AS fell_lost,
        sum(t.others_lost) AS others_lost, sum(t.taxed_renewals)::bigint AS taxed_renewals,
        sum(t.taxed_uplift) AS taxed_uplift
    FROM repricer.change_tallies t WHERE NOT t.is_undo
    GROUP BY t.batch_id, t.currency, t.storefront, t.period HAVING sum(t.changes) > 0
), groups AS (
    SELECT s.*, coalesce(l.dependents, 0) + s.fell_with_parent AS dependents,
        coalesce(l.dependent_lost, 0) + s.fell_lost AS dependent_lost,
        s.declined_lost + s.cancelled_lost + s.lapsed_lost + s.others_lost + s.fell_lost + coalesce(l.dependent_lost, 0)
            AS all_lost
    FROM sums s
    LEFT JOIN lost l ON l.batch_id = s.batch_id AND l.currency = s.currency AND l.storefront = s.storefront
        AND l.period = s.period
)
SELECT g.batch_id, b.name AS batch_name, g.currency, g.storefront, g.period, g.changes,
    g.effective, g.charged_changes, g.charged_renewals,
    repricer.figure(g.old_total, w.what || 'old_total' || w.currency) AS old_total_milliunits,
    repricer.figure(g.new_total, w.what || 'new_total' || w.currency) AS new_total_milliunits,
    repricer.figure(g.new_total - g.old_total, w.what || 'uplift' || w.currency) AS uplift_milliunits,
    repricer.figure(g.old_per_period, w.what || 'old_per_period' || w.currency) AS old_per_period_milliunits,
    repricer.figure(g.new_per_period, w.what || 'new_per_period' || w.currency) AS new_per_period_milliunits,
    repricer.figure(g.new_per_period - g.old_per_period, w.what || 'uplift_per_period' || w.currency)
        AS uplift_per_period_milliunits,
    repricer.figure(round((g.new_per_period - g.old_per_period) * f.numerator / f.denominator),
        w.what || 'uplift_per_month' || w.currency) AS uplift_per_month_milliunits,
    g.declined, repricer.figure(g.declined_lost, w.what || 'declined_lost_per_period' || w.currency)
        AS declined_lost_per_period_milliunits,
    g.cancelled, repricer.figure(g.cancelled_lost, w.what || 'cancelled_lost_per_period' || w.currency)
        AS cancelled_lost_per_period_milliunits,
    g.dependents AS dependents_cancelled,
    repricer.figure(g.dependent_lost, w.what || 'dependent_lost_per_period' || w.currency)
        AS dependent_lost_per_period_milliunits,
    repricer.figure(g.all_lost, w.what || 'lost_per_period' || w.currency) AS lost_per_period_milliunits,
    repricer.figure(round(g.all_lost * f.numerator / f.denominator), w.what || 'lost_per_month' || w.currency)
        AS lost_per_month_milliunits,
    g.lapsed, repricer.figure(g.lapsed_lost, w.what || 'lapsed_lost_per_period' || w.currency)
        AS lapsed_lost_per_period_milliunits,
    repricer.figure(g.others_lost, w.what || 'other_items_lost_per_period' || w.currency)
        AS other_items_lost_per_period_milliunits,
    g.taxed_renewals AS charged_renewals_with_tax,
    repricer.figure(g.taxed_uplift, w.what || 'uplift_without_tax' || w.currency) AS uplift_without_tax_milliunits, g.silent,
    repricer.figure(g.silent_new, w.what || 'silent_per_period' || w.currency) AS silent_per_period_milliunits
FROM groups g
JOIN repricer.batches b ON b.batch_id = g.batch_id
LEFT JOIN factors f ON f.period = g.period
CROSS JOIN LATERAL (
    SELECT 'revenue_impact, batch ' || b.name || ': ' AS what, ' of ' || g.currency AS currency) w;
COMMENT ON VIEW report.revenue_impact IS
    'Money, one row a batch, currency, storefront and period, all of it as customers pay it: tax is inside, but for '
    'uplift_without_tax_milliunits. Uplift counts '
    'only where a renewal was charged at the new price, less what was refunded. Never add milliunits of two currencies.';

CREATE VIEW report.pending_consent AS
SELECT c.batch_id, b.name AS batch_name, c.original_transaction_id, c.change_id, c.sku,
    c.storefront, c.period, c.currency, c.current_price_milliunits, c.new_price_milliunits,
    c.dependent_skus, c.consent_asked_at, c.due_effective_at AS consent_due_at,
    c.due_effective_at < report.as_of() AS is_overdue
FROM repricer.price_changes c JOIN repricer.batches b ON b.batch_id = c.batch_id
WHERE c.stage = 'pending_consent';
COMMENT ON VIEW report.pending_consent IS 'Changes that wait for the subscriber''s consent.';

CREATE VIEW report.upcoming_effective AS
SELECT c.batch_id, b.name AS batch_name, c.original_transaction_id, c.change_id, c.sku,
    c.storefront, c.period, c.direction, c.currency, c.current_price_milliunits,
    c.new_price_milliunits, c.state, c.due_effective_at,
    c.state = 'accepted' OR (c.direction = 'decrease' AND c.state = 'scheduled') AS is_settled,
    c.due_effective_at < report.as_of() AS is_overdue
FROM repricer.price_changes c JOIN repricer.batches b ON b.batch_id = c.batch_id
WHERE c.stage IN ('queued', 'unknown', 'scheduled', 'pending_consent', 'accepted')
    AND c.undoes_change_id IS NULL;
COMMENT ON VIEW report.upcoming_effective IS
    'Open changes of approved batches and the renewal they are due at.';

-- This reads only kept figures and the dependents that fell, because a page asks for it whenever somebody opens it.
CREATE VIEW repricer.batch_effects AS
SELECT g.batch_id, g.currency, sum(g.changes) AS changes,
    sum(round(g.uplift * repricer.twelfths(g.period) / 12)) AS uplift_milliunits,
    sum(round(g.lost * repricer.twelfths(g.period) / 12)) AS lost_milliunits
FROM (
    -- As report.revenue_impact adds up and rounds it.
    SELECT e.batch_id, e.currency, e.period, sum(e.changes) AS changes, sum(e.uplift) AS uplift, sum(e.lost) AS lost
    FROM (
        SELECT t.batch_id, t.currency, t.storefront, t.period, t.changes,
            (t.new_per_period - t.old_per_period)::numeric AS uplift,
            t.declined_lost::numeric + t.cancelled_lost + t.lapsed_lost + t.fell_lost + t.others_lost AS lost
        FROM repricer.figure_tallies t WHERE NOT t.is_undo
        UNION ALL
        -- The tallies count what a further period brings; it is not known whether these have one.
        SELECT k.batch_id, k.currency, k.storefront, k.period, 0,
            (k.current_price_milliunits - k.new_price_milliunits)::numeric * k.seats, 0
        FROM repricer.batches b JOIN repricer.change_figures k ON k.batch_id = b.batch_id
        WHERE k.word_due_at < (SELECT d.until FROM repricer.heard_charges d) AND k.renewals > 0
            AND NOT k.is_leaving AND NOT k.is_undo
        UNION ALL
        SELECT d.batch_id, d.currency, d.storefront, d.period, 0, 0, d.price_milliunits
        FROM repricer.lost_dependents d
    ) e
    GROUP BY e.batch_id, e.currency, e.storefront, e.period
) g
GROUP BY g.batch_id, g.currency HAVING bool_or(g.uplift <> 0 OR g.lost <> 0);
COMMENT ON VIEW repricer.batch_effects IS
    'What each batch brought and lost a month, by currency, of the changes that are summarised.';

CREATE VIEW report.dependent_cancellation AS
SELECT d.batch_id, b.name AS batch_name, d.original_transaction_id, d.change_id, d.parent_sku, d.dependent_sku,
    d.cause, d.state, d.currency, d.price_milliunits, d.requested_at, d.requested_by_evidence, d.settled_at,
    d.settled_by_evidence, d.detail, d.state = 'confirmed' AND NOT EXISTS (
        SELECT FROM repricer.returned_dependents x
        WHERE x.original_transaction_id = d.original_transaction_id AND x.bucket = d.bucket AND x.change_id = d.change_id
            AND x.batch_id = d.batch_id AND x.dependent_sku = d.dependent_sku) AS is_proved, d.is_cross_subscription,
    d.target_transaction_id AS dependent_transaction_id, d.cancel_reference_id,
    CASE WHEN d.is_cross_subscription THEN coalesce(d.target_period, t.period) ELSE c.period END AS period
FROM repricer.dependent_cancellations d
JOIN repricer.batches b ON b.batch_id = d.batch_id
LEFT JOIN repricer.price_changes c
    ON c.original_transaction_id = d.original_transaction_id AND c.change_id = d.change_id
LEFT JOIN repricer.subscriptions t ON t.original_transaction_id = d.target_transaction_id;
COMMENT ON VIEW report.dependent_cancellation IS
    'Each dependent item to be cancelled since its parent''s increase was declined, and the proof.';

-- Each change counts once, under all its reasons together: the rows of a batch add up to its changes that were not
-- held out.
CREATE VIEW report.forecast_accuracy AS
SELECT o.batch_id, b.name AS batch_name, o.direction, o.forecast_consent,
    o.forecast_threshold_source, o.came_consent, o.changes,
    o.came_consent = nullif(o.forecast_consent, 'not_known') AS is_as_forecast,
    o.effective, o.effective_as_forecast, o.forecast_reasons, o.effective_earlier, o.effective_later,
    CASE
        WHEN o.came_consent IS NULL THEN 'not_known'
        WHEN o.forecast_consent = 'not_known' THEN 'was_not_known'
        WHEN o.came_consent = o.forecast_consent THEN 'as_forecast'
        WHEN o.came_consent = 'required' THEN 'missed'
        ELSE 'false_alarm'
    END AS consent_outcome,
    o.renewals_moved, o.forecast_not_known, o.forecast_because, o.missed_by_sibling, o.slipped,
    o.slipped_by_billing_failure, o.slipped_by_late_call, o.slipped_by_extension, o.slipped_by_other
FROM (
    SELECT f.batch_id, f.direction, f.forecast_consent, f.forecast_threshold_source, f.came_consent, f.forecast_reasons,
        f.forecast_not_known, f.forecast_because, sum(f.changes)::bigint AS changes,
        coalesce(sum(f.changes) FILTER (WHERE f.came IS NOT NULL), 0)::bigint AS effective,
        coalesce(sum(f.changes) FILTER (WHERE f.came = 'as_forecast'), 0)::bigint AS effective_as_forecast,
        coalesce(sum(f.changes) FILTER (WHERE f.came = 'earlier'), 0)::bigint AS effective_earlier,
        coalesce(sum(f.changes) FILTER (WHERE f.came = 'later'), 0)::bigint AS effective_later,
        coalesce(sum(f.changes) FILTER (WHERE f.has_moved), 0)::bigint AS renewals_moved,
        coalesce(sum(f.changes) FILTER (WHERE f.is_siblings_doing), 0)::bigint AS missed_by_sibling,
        coalesce(sum(f.changes) FILTER (WHERE f.slip IS NOT NULL), 0)::bigint AS slipped,
        coalesce(sum(f.changes) FILTER (WHERE f.slip = 'billing_failure'), 0)::bigint AS slipped_by_billing_failure,
        coalesce(sum(f.changes) FILTER (WHERE f.slip = 'late_call'), 0)::bigint AS slipped_by_late_call,
        coalesce(sum(f.changes) FILTER (WHERE f.slip = 'extension'), 0)::bigint AS slipped_by_extension,
        coalesce(sum(f.changes) FILTER (WHERE f.slip = 'other'), 0)::bigint AS slipped_by_other
    FROM repricer.forecast_outcomes f
    GROUP BY f.batch_id, f.direction, f.forecast_consent, f.forecast_threshold_source, f.came_consent, f.forecast_reasons,
        f.forecast_not_known, f.forecast_because
    HAVING sum(f.changes) > 0
) o
JOIN repricer.batches b ON b.batch_id = o.batch_id;
COMMENT ON VIEW report.forecast_accuracy IS
    'The forecast of consent and of its day against what the App Store did: a confusion matrix for each '
    'batch, by rule and by the source of the threshold, and why days slipped. Rows that were held out are in no '
    'figure: they are never sent.';

-- The ledger, each line with what explains it.
CREATE VIEW repricer.live_money AS
SELECT x.original_transaction_id, e.transaction_id, e.sku, e.kind, e.amount_milliunits, e.tax_exclusive_milliunits,
    e.currency, e.storefront, e.occurred_at, e.recorded_at, e.evidence_id, x.change_id, x.batch_id,
    CASE WHEN e.kind = 'charge' THEN x.explained_as ELSE e.kind END AS explained_as, b.name AS batch_name,
    e.correction > 0 AS is_correction
FROM repricer.explained_charges x
JOIN repricer.batches b ON b.batch_id = x.batch_id
-- OFFSET 0 has the same reason as in explained_charges.
CROSS JOIN LATERAL (
    SELECT m.* FROM repricer.money_entries m
    WHERE m.original_transaction_id = x.original_transaction_id AND m.transaction_id = x.transaction_id AND m.sku = x.sku
    OFFSET 0) e
UNION ALL
-- The lines that no change of ours is about.
SELECT e.original_transaction_id, e.transaction_id, e.sku, e.kind, e.amount_milliunits, e.tax_exclusive_milliunits,
    e.currency, e.storefront, e.occurred_at, e.recorded_at, e.evidence_id, NULL, NULL,
    CASE WHEN e.kind <> 'charge' THEN e.kind END, NULL, e.correction > 0
FROM repricer.money_entries e
WHERE NOT EXISTS (
    SELECT FROM repricer.explained_charges x
    WHERE x.original_transaction_id = e.original_transaction_id AND x.transaction_id = e.transaction_id AND x.sku = e.sku);
COMMENT ON VIEW repricer.live_money IS 'report.money, computed from the facts.';

-- The lines of marked subscriptions, computed from the facts.
CREATE VIEW repricer.marked_money AS
SELECT m.original_transaction_id, l.transaction_id, l.sku, l.kind, l.amount_milliunits, l.tax_exclusive_milliunits,
    l.currency, l.storefront, l.occurred_at, l.recorded_at, l.evidence_id, l.change_id, m.batch_id, l.explained_as,
    l.batch_name, l.is_correction
FROM repricer.marked_batches m
-- OFFSET 0 makes PostgreSQL go subscription by subscription.
CROSS JOIN LATERAL (
    SELECT y.* FROM repricer.live_money y
    WHERE y.original_transaction_id = m.original_transaction_id AND y.batch_id = m.batch_id
    OFFSET 0) l
UNION ALL
-- Those that no change of ours is about.
SELECT m.original_transaction_id, l.transaction_id, l.sku, l.kind, l.amount_milliunits, l.tax_exclusive_milliunits,
    l.currency, l.storefront, l.occurred_at, l.recorded_at, l.evidence_id, NULL, NULL, l.explained_as, NULL, l.is_correction
FROM (SELECT DISTINCT s.original_transaction_id FROM repricer.stale_figures s) m
CROSS JOIN LATERAL (
    SELECT y.* FROM repricer.live_money y
    WHERE y.original_transaction_id = m.original_transaction_id AND y.batch_id IS NULL
    OFFSET 0) l;
COMMENT ON VIEW repricer.marked_money IS 'The lines of report.money of subscriptions with a mark.';

CREATE VIEW report.money AS
SELECT e.original_transaction_id, e.transaction_id, e.sku, e.kind, e.amount_milliunits, e.tax_exclusive_milliunits,
    e.currency, e.storefront, e.occurred_at, e.recorded_at, e.evidence_id, e.change_id, e.batch_id,
    CASE WHEN e.kind = 'charge' THEN e.explained_as ELSE e.kind END AS explained_as, b.name AS batch_name,
    e.correction > 0 AS is_correction
FROM repricer.money_entries e
LEFT JOIN repricer.batches b ON b.batch_id = e.batch_id
WHERE NOT EXISTS (SELECT FROM repricer.marked_subscriptions() s (id) WHERE s.id = e.original_transaction_id)
UNION ALL
SELECT l.* FROM repricer.marked_money l;
COMMENT ON VIEW report.money IS
    'Append-only: one line a signed charge, refund or reversal of one item. A line that a later statement makes another is '
    'followed by the difference, so that the sum of what was recorded by an instant is what was known then.';

CREATE VIEW report.charge_exception AS
SELECT f.batch_id, b.name AS batch_name, f.original_transaction_id, f.change_id, f.transaction_id, f.sku, f.exception,
    f.occurred_at, f.amount_milliunits::bigint AS amount_milliunits, f.expected_milliunits, f.refunded_milliunits,
    f.currency, f.storefront
FROM repricer.charge_exceptions f JOIN repricer.batches b ON b.batch_id = f.batch_id;
COMMENT ON VIEW report.charge_exception IS
    'Every charge since a change''s call that is not what it should be, by name, and every renewal that was not charged.';

CREATE VIEW repricer.reconciliation_checks (check_name, is_per_batch, is_of_money, meaning) AS VALUES
    ('rows_add_up', true, true, 'batches whose changes or refused rows do not add up to the file'),
    ('silent_past_renewal', true, false,
        'changes that Apple has, a day past their renewal without a word from Apple'),
    ('requests_unknown', true, false, 'calls whose outcome is not known and that nothing has settled yet'),
    ('effective_without_charge', true, true, 'effective changes without a charge at the new price'),
    ('ended_yet_applied', true, false, 'changes that ended here as not applied, while the App Store has their price'),
    ('charges_other_price', true, true, 'charges since a call that are neither at the old price nor at the new one'),
    ('charges_after_end', true, true, 'renewals charged after the change, or the subscription, had ended'),
    ('charges_declined', true, true, 'renewals charged after the increase was declined'),
    ('charges_missing', true, true, 'renewals since the call of a change that no charge tells of, and nothing tells why'),
    ('charges_double', true, true, 'renewals charged for a time that another charge had paid for'),
    ('charges_relisted', true, true,
        'charges whose transaction Apple has signed with another item in their place, at another price'),
    ('charges_wrong_currency', true, true,
        'charges in another currency than the change, in the same storefront, or in one that nobody told (XXX)'),
    ('charges_refunded', true, true, 'charges since a call that were refunded, in part or in full, and have no other name'),
    ('dependents_in_discrepancy', true, false, 'dependents whose cancellation could not be proved, or that renewed since'),
    ('dependents_not_recorded', true, false, 'dependents of declined changes that nobody looks after'),
    ('notifications_not_understood', false, false, 'notifications stored but not understood'),
    ('refunds_without_amount', false, false, 'refund notices that do not say how much was given back, or when'),
    ('amounts_left_out', true, true,
        'statements with an amount, or what it hangs on, that cannot be meant, or of a charged item without a price: money that is '
        'in no sum, or counts as one seat'),
    ('overdue_money', false, false,
        'charges and refunds that were told after retention had compacted their time, and that no earlier statement told: money '
        'that is in no sum'),
    ('inbox_stuck', false, false, 'notifications with an error, or waiting for more than a day');
COMMENT ON VIEW repricer.reconciliation_checks IS 'The checks of report.reconciliation, and what each counts.';

-- DISTINCT, because a statement that is also kept from a dropped month may appear twice.
CREATE VIEW repricer.statements_without_amounts AS
SELECT DISTINCT t.original_transaction_id, t.signed_at, t.evidence_id
FROM repricer.told_statements t
WHERE t.left_out IS NOT NULL AND repricer.lacks_amount(t.left_out);
COMMENT ON VIEW repricer.statements_without_amounts IS 'Statements of which something was left out that a sum of money hangs on.';

CREATE VIEW report.reconciliation AS
WITH problems (batch_id, check_name, problems) AS (
    SELECT batch_id, 'rows_add_up', count(*) FROM report.batch_summary
        WHERE NOT rows_add_up GROUP BY batch_id
    UNION ALL
    SELECT c.batch_id, 'silent_past_renewal', count(*) FROM repricer.price_changes c
        -- OFFSET 0, here and below, makes PostgreSQL search the few subscriptions, instead of reading all there are.
        LEFT JOIN LATERAL (
            SELECT s.in_billing_retry, s.status FROM repricer.subscriptions s
            WHERE s.original_transaction_id = c.original_transaction_id OFFSET 0) s ON true
        WHERE c.stage IN ('scheduled', 'pending_consent', 'accepted')
            AND c.due_effective_at < report.as_of() - repricer.days(1)
            AND NOT coalesce(s.in_billing_retry, false) AND coalesce(s.status, 0) NOT IN (3, 4)
        GROUP BY c.batch_id
    UNION ALL
    SELECT c.batch_id, 'requests_unknown', count(DISTINCT r.call_id)
        FROM repricer.store_calls r
        JOIN repricer.price_changes c
            ON c.original_transaction_id = r.subject AND c.bucket = r.bucket
            AND c.change_id = ANY (r.carries)
        WHERE r.kind = 'price_change' AND r.settled_at IS NULL AND r.state = 'unknown' GROUP BY c.batch_id
    UNION ALL
    SELECT t.batch_id, 'effective_without_charge', sum(t.uncharged)::bigint
        FROM (
            SELECT k.batch_id, k.uncharged FROM repricer.figure_tallies k
            UNION ALL
            SELECT u.batch_id, u.uncharged FROM repricer.untallied_changes u WHERE u.is_final) t
        GROUP BY t.batch_id
    UNION ALL
    -- The newest facts decide, and not what we noted about the call. The App Store has the price where it announces it, or
    -- has charged it since our call.
    SELECT c.batch_id, 'ended_yet_applied', count(*) FROM repricer.price_changes c
        JOIN repricer.batches b ON b.batch_id = c.batch_id
        WHERE c.stage IN ('rejected', 'ineligible', 'missed', 'aborted')
            AND b.decided_at IS NOT NULL AND b.state <> 'rejected' AND c.undoes_change_id IS NULL
            AND (EXISTS (
                    SELECT FROM repricer.subscriptions s
                    CROSS JOIN LATERAL jsonb_array_elements(s.items) item
                    WHERE s.original_transaction_id = c.original_transaction_id
                        AND item ->> 'sku' = coalesce(c.current_sku, c.sku) AND (item ->> 'renews')::boolean
                        AND c.new_price_milliunits = CASE WHEN c.direction = 'increase'
                            THEN (item #>> '{increase,price}')::bigint ELSE (item ->> 'renewalPrice')::bigint END)
                OR c.sent_at IS NOT NULL AND EXISTS (
                    SELECT FROM repricer.charges k
                    WHERE k.original_transaction_id = c.original_transaction_id
                        AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
                        AND k.purchased_at >= c.sent_at AND NOT k.is_offer AND k.currency = c.currency
                        AND k.price_milliunits = c.new_price_milliunits))
            -- A later change of ours to the same price explains it.
            AND NOT EXISTS (
                SELECT FROM repricer.price_changes o
                WHERE o.original_transaction_id = c.original_transaction_id AND o.change_id <> c.change_id
                    AND coalesce(o.current_sku, o.sku) = coalesce(c.current_sku, c.sku)
                    AND o.new_price_milliunits = c.new_price_milliunits
                    AND o.state NOT IN ('awaiting_approval', 'queued', 'rejected', 'ineligible', 'missed', 'aborted'))
        GROUP BY c.batch_id
    UNION ALL
    SELECT batch_id, CASE exception WHEN 'declined_yet_charged' THEN 'charges_declined' ELSE 'charges_' || exception END,
            count(*)
        FROM repricer.charge_exceptions GROUP BY 1, 2
    UNION ALL
    SELECT c.batch_id, 'amounts_left_out', count(DISTINCT (t.original_transaction_id, t.signed_at, t.evidence_id))
    FROM repricer.statements_without_amounts t
    -- The money of a batch begins at its calls.
    JOIN repricer.price_changes c ON c.original_transaction_id = t.original_transaction_id
        AND t.signed_at >= coalesce(c.sent_at, c.doubtful_since, c.scheduled_at)
    GROUP BY c.batch_id
    UNION ALL
    SELECT d.batch_id, 'dependents_in_discrepancy', count(*) FROM (
        SELECT d.batch_id FROM repricer.dependent_cancellations d WHERE d.state = 'discrepancy'
        UNION ALL
        SELECT x.batch_id FROM repricer.returned_dependents x) d
        GROUP BY d.batch_id
    UNION ALL
    SELECT c.batch_id, 'dependents_not_recorded', count(*)
        FROM repricer.price_changes c
        CROSS JOIN LATERAL
            unnest(coalesce(c.current_dependent_skus, c.dependent_skus)) AS u (sku)
        WHERE c.stage = 'declined'
            AND NOT EXISTS (
                SELECT FROM repricer.dependent_cancellations d
                WHERE d.original_transaction_id = c.original_transaction_id
                    AND d.change_id = c.change_id AND d.dependent_sku = u.sku)
        GROUP BY c.batch_id
)
SELECT b.batch_id, b.name AS batch_name, k.check_name, coalesce(p.problems, 0) AS problems,
    coalesce(p.problems, 0) = 0 OR k.check_name = 'charges_refunded' AS is_ok, k.meaning
FROM repricer.batches b
JOIN repricer.reconciliation_checks k ON k.is_per_batch
LEFT JOIN problems p ON p.check_name = k.check_name AND p.batch_id = b.batch_id
UNION ALL
SELECT NULL, NULL, k.check_name, n.problems, n.problems = 0, k.meaning
FROM repricer.reconciliation_checks k
JOIN (
    SELECT 'notifications_not_understood' AS check_name, count(*) AS problems FROM repricer.notifications
    WHERE NOT understood
    UNION ALL
    SELECT 'refunds_without_amount', count(*) FROM (
        SELECT f.notification_uuid FROM repricer.notifications f
        WHERE f.type = 'REFUND' AND f.original_transaction_id IS NOT NULL AND NOT EXISTS (
            SELECT FROM repricer.money_entries e
            WHERE e.original_transaction_id = f.original_transaction_id AND e.kind = 'refund'
                AND e.occurred_at BETWEEN f.signed_at - repricer.days(1) AND f.signed_at + repricer.days(1))
            -- A refund that is not of seats revokes, or lists what it gives back, and may be signed long after that.
            AND (f.subtype = 'SEATS' OR EXISTS (
                SELECT FROM repricer.subscription_events t
                WHERE t.original_transaction_id = f.original_transaction_id AND t.signed_at = f.signed_at
                    AND t.evidence_id = f.notification_uuid
                    AND NOT t.statement @? '$.transaction.revokedAt'
                    AND NOT t.statement @? '$.transaction.items[*] ? (exists (@.revokedAt) || exists (@.refunds))'))
        UNION
        -- A refund whose amount or date is missing, or cannot be one.
        SELECT f.notification_uuid FROM repricer.notifications f
        WHERE f.unknown IS NOT NULL AND EXISTS (
            SELECT FROM unnest(f.unknown) AS u (part) WHERE u.part ~ '[.]items[.]refunds[.]refund(Amount|Date)[:=]')
    ) AS f
    UNION ALL
    SELECT 'overdue_money', count(*) FROM repricer.overdue_statements o
    WHERE o.type IN ('SUBSCRIBED', 'DID_RENEW', 'ONE_TIME_CHARGE', 'OFFER_REDEEMED', 'REFUND', 'REFUND_REVERSED', 'REVOKE') AND NOT EXISTS (
        SELECT FROM repricer.money_entries e
        WHERE e.original_transaction_id = o.original_transaction_id AND e.bucket = o.bucket
            AND e.kind = CASE o.type WHEN 'REFUND' THEN 'refund' WHEN 'REVOKE' THEN 'refund' WHEN 'REFUND_REVERSED' THEN 'reversal'
                ELSE 'charge' END
            AND e.occurred_at BETWEEN o.signed_at - repricer.days(2) AND o.signed_at + repricer.days(2))
    UNION ALL
    SELECT 'amounts_left_out', count(*) FROM repricer.statements_without_amounts
    UNION ALL
    SELECT 'inbox_stuck', count(*) FROM repricer.inbox
    WHERE error IS NOT NULL OR received_at < report.as_of() - repricer.days(1)
) n ON n.check_name = k.check_name;
COMMENT ON VIEW report.reconciliation IS
    'Every check for every batch (batch_id null: the whole installation), also where all is well.';

CREATE VIEW report.renewal_extension AS
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
    FROM repricer.extension_requests WHERE mass_extension_id IS NOT NULL GROUP BY mass_extension_id
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
FROM repricer.extension_requests c
JOIN repricer.subscriptions s USING (original_transaction_id)
LEFT JOIN told t ON t.extension_id = c.extension_id AND t.original_transaction_id = c.original_transaction_id
UNION ALL
SELECT 'foreign', coalesce(f.request_identifier, f.notification_uuid), f.product_id, f.storefronts, NULL, NULL, NULL,
    NULL, 'complete', NULL, NULL, NULL, NULL, NULL, f.signed_at, NULL, NULL, NULL, f.succeeded, f.failed, NULL, NULL,
    NULL, NULL, NULL, 'differs',
    coalesce(f.detail, 'a summary of a request that was never made here'), NULL, NULL
FROM repricer.extension_summaries f
WHERE f.folded_at IS NOT NULL AND f.extension_id IS NULL;
COMMENT ON VIEW report.renewal_extension IS
    'Renewal-date extensions: each request, what the App Store told of its subscriptions, and whether the counts agree.'
    ' No NAME_as_of: requests of extensions keep no versions.';

CREATE VIEW report.notification_health AS
SELECT n.type, n.subtype, count(*) AS notifications, min(n.received_at) AS first_received_at,
    max(n.received_at) AS last_received_at, max(n.signed_at) AS last_signed_at,
    count(*) FILTER (WHERE NOT n.understood) AS not_understood,
    count(i.notification_uuid) FILTER (WHERE i.error IS NULL) AS waiting,
    count(i.notification_uuid) FILTER (WHERE i.error IS NOT NULL) AS stuck,
    count(n.unknown) AS with_unknown_parts
FROM repricer.notifications n
LEFT JOIN repricer.inbox i
    ON i.original_transaction_id = n.original_transaction_id
    AND i.notification_uuid = n.notification_uuid
GROUP BY n.type, n.subtype;
COMMENT ON VIEW report.notification_health IS
    'What arrived from the App Store, for each type and subtype.'
    ' No NAME_as_of: it is about today: what arrived and what waits.';

CREATE VIEW report.unknown_part AS
SELECT split_part(u.part, ':', 1) AS kind, substr(u.part, strpos(u.part, ':') + 1) AS name,
    count(*) AS notifications, min(n.received_at) AS first_received_at,
    max(n.received_at) AS last_received_at
FROM repricer.notifications n
CROSS JOIN LATERAL unnest(n.unknown) AS u(part)
WHERE n.unknown IS NOT NULL
GROUP BY u.part
UNION ALL
SELECT 'left_out', u.part, count(DISTINCT (t.original_transaction_id, t.signed_at, t.evidence_id)), min(t.recorded_at),
    max(t.recorded_at)
FROM repricer.told_statements t
CROSS JOIN LATERAL jsonb_array_elements_text(t.left_out) AS u (part)
WHERE t.left_out IS NOT NULL
GROUP BY u.part;
COMMENT ON VIEW report.unknown_part IS
    'What the App Store sent that the product does not know, or left out since it cannot be meant. It is kept, and read anew by '
    '`repricer reprocess` after an upgrade.'
    ' No NAME_as_of: it is about today: reprocess reads anew what was unknown.';

-- Which app these figures are about, for those who may read only this schema. No row before a program has bound the database.
CREATE FUNCTION report.app() RETURNS TABLE (bundle_id text, environment text)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp
BEGIN ATOMIC
    SELECT a.bundle_id, a.environment FROM repricer.app_binding a;
END;
COMMENT ON FUNCTION report.app() IS 'The app and the environment that this database is about.';

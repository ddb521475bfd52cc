-- The price of a dependent on another subscription was added to its parent's as if both were paid equally often: a yearly
-- one beside a monthly parent counted as twelve times what is lost.
-- Locks: none but the view's.
-- breaking: no

CREATE OR REPLACE VIEW report.revenue_impact AS
WITH factors (period, numerator, denominator) AS (
    -- To a month: a year is 12 months or 52 weeks.
    VALUES ('P1W', 13, 3), ('P1M', 1, 1), ('P2M', 1, 2), ('P3M', 1, 3), ('P6M', 1, 6), ('P1Y', 1, 12)
), lost_dependents AS (
    -- A dependent with a lost change of its own in the batch is counted there.
    SELECT d.batch_id, d.original_transaction_id, d.change_id, count(*) AS dependents,
        -- One on another subscription is paid at that one's pace: turned into the pace of its parent's.
        sum(round(d.price_milliunits * coalesce(
            theirs.numerator::numeric * own.denominator / (theirs.denominator * own.numerator), 1)))::bigint
            AS price_milliunits
    FROM repricer.dependent_cancellations d
    JOIN repricer.price_changes c
        ON c.original_transaction_id = d.original_transaction_id AND c.change_id = d.change_id
    LEFT JOIN factors own ON own.period = c.period
    LEFT JOIN repricer.subscriptions t ON t.original_transaction_id = d.target_transaction_id
    LEFT JOIN factors theirs ON theirs.period = t.period
    WHERE d.state = 'confirmed' AND coalesce(d.currency, c.currency) = c.currency
        AND NOT EXISTS (
            SELECT FROM repricer.price_changes o
            WHERE o.original_transaction_id
                    = coalesce(d.target_transaction_id, d.original_transaction_id)
                AND o.batch_id = d.batch_id
                AND o.sku = CASE WHEN d.is_elsewhere
                    THEN regexp_replace(d.dependent_sku, '^[0-9]+/', '') ELSE d.dependent_sku END
                AND o.state IN ('declined', 'cancelled'))
    GROUP BY d.batch_id, d.original_transaction_id, d.change_id
), groups AS (
    SELECT c.batch_id, c.currency, c.storefront, c.period, count(*) AS changes,
        count(*) FILTER (WHERE c.state = 'effective') AS effective,
        count(r.change_id) AS charged_changes,
        coalesce(sum(r.renewals), 0)::bigint AS charged_renewals,
        coalesce(sum(r.old_total_milliunits), 0)::bigint AS old_total,
        coalesce(sum(r.new_total_milliunits), 0)::bigint AS new_total,
        coalesce(sum(c.current_price_milliunits) FILTER (WHERE r.change_id IS NOT NULL), 0)::bigint
            AS old_per_period,
        coalesce(sum(c.new_price_milliunits) FILTER (WHERE r.change_id IS NOT NULL), 0)::bigint
            AS new_per_period,
        count(*) FILTER (WHERE c.state = 'declined') AS declined,
        coalesce(sum(c.current_price_milliunits) FILTER (WHERE c.state = 'declined'), 0)::bigint
            AS declined_lost,
        count(*) FILTER (WHERE c.state = 'cancelled') AS cancelled,
        coalesce(sum(c.current_price_milliunits) FILTER (WHERE c.state = 'cancelled'), 0)::bigint
            AS cancelled_lost,
        coalesce(sum(d.dependents), 0)::bigint AS dependents,
        coalesce(sum(d.price_milliunits), 0)::bigint AS dependent_lost
    FROM repricer.price_changes c
    LEFT JOIN repricer.charged_changes r
        ON r.batch_id = c.batch_id AND r.original_transaction_id = c.original_transaction_id
        AND r.change_id = c.change_id
    LEFT JOIN lost_dependents d
        ON d.batch_id = c.batch_id AND d.original_transaction_id = c.original_transaction_id
        AND d.change_id = c.change_id
    WHERE c.undoes_change_id IS NULL
    GROUP BY c.batch_id, c.currency, c.storefront, c.period
)
SELECT g.batch_id, b.name AS batch_name, g.currency, g.storefront, g.period, g.changes,
    g.effective, g.charged_changes, g.charged_renewals, g.old_total AS old_total_milliunits,
    g.new_total AS new_total_milliunits, g.new_total - g.old_total AS uplift_milliunits,
    g.old_per_period AS old_per_period_milliunits, g.new_per_period AS new_per_period_milliunits,
    g.new_per_period - g.old_per_period AS uplift_per_period_milliunits,
    round((g.new_per_period - g.old_per_period)::numeric * f.numerator / f.denominator)::bigint
        AS uplift_per_month_milliunits,
    g.declined, g.declined_lost AS declined_lost_per_period_milliunits,
    g.cancelled, g.cancelled_lost AS cancelled_lost_per_period_milliunits,
    g.dependents AS dependents_cancelled,
    g.dependent_lost AS dependent_lost_per_period_milliunits,
    g.declined_lost + g.cancelled_lost + g.dependent_lost AS lost_per_period_milliunits,
    round((g.declined_lost + g.cancelled_lost + g.dependent_lost)::numeric * f.numerator
        / f.denominator)::bigint AS lost_per_month_milliunits
FROM groups g
JOIN repricer.batches b ON b.batch_id = g.batch_id
LEFT JOIN factors f ON f.period = g.period;
COMMENT ON COLUMN report.revenue_impact.dependent_lost_per_period_milliunits IS
    'Sum of the prices of dependents_cancelled, where known; one that is paid in another period is turned into this one.';

import Foundation
package import Postgres

/// The reports as they were before any figure was kept: each counts all facts anew. What is kept is compared with them.
/// Every test database has them.
package enum FormerViews {
    private static let names = [
        "price_change", "consent_funnel", "revenue_impact", "charge_exception", "reconciliation",
        "forecast_accuracy",
    ]

    private static let priceChange = #"""
        CREATE VIEW former.price_change AS
        SELECT c.batch_id, b.name AS batch_name, c.line, c.original_transaction_id, c.change_id, c.sku,
            c.storefront, c.period, c.direction, c.currency, c.current_price_milliunits,
            c.new_price_milliunits,
            c.new_price_milliunits - c.current_price_milliunits AS difference_milliunits,
            round((c.new_price_milliunits - c.current_price_milliunits)::numeric * 10000
                / nullif(c.current_price_milliunits, 0))::bigint AS difference_basis_points,
            c.dependent_skus, c.effective_on_or_after, c.forecast_consent, c.forecast_reasons,
            c.forecast_threshold_source, c.forecast_renewal_at, c.forecast_notice_at,
            c.forecast_effective_at, c.send_after AS send_after_at, c.send_by AS send_by_at,
            c.due_effective_at, c.state, c.reason,
            c.state IN ('effective', 'declined', 'cancelled', 'lapsed', 'invalidated', 'rejected',
                'ineligible', 'missed', 'aborted') AS is_final,
            c.request_reference_id, c.sent_at, c.scheduled_at, c.consent_asked_at, c.accepted_at,
            c.acceptance, c.effective_at, c.ended_at, c.state_since AS state_since_at,
            coalesce(r.renewals, 0) AS charged_renewals, r.first_at AS first_charged_at,
            coalesce(r.new_total_milliunits, 0) AS charged_total_milliunits,
            coalesce(r.new_total_milliunits - r.old_total_milliunits, 0) AS charged_uplift_milliunits,
            c.undoes_change_id
        FROM repricer.price_changes c
        JOIN repricer.batches b ON b.batch_id = c.batch_id
        LEFT JOIN repricer.charged_changes r
            ON r.batch_id = c.batch_id AND r.original_transaction_id = c.original_transaction_id
            AND r.change_id = c.change_id;

        """#

    private static let consentFunnel = #"""
        CREATE VIEW former.consent_funnel AS
        WITH funnels AS (
            SELECT batch_id, direction, forecast_consent, count(*) AS changes,
                count(*) FILTER (WHERE coalesce(sent_at, scheduled_at, consent_asked_at, accepted_at,
                    effective_at) IS NOT NULL) AS sent,
                count(*) FILTER (WHERE consent_asked_at IS NOT NULL OR acceptance = 'consented'
                    OR state = 'declined' AND reason IS DISTINCT FROM 'parent_declined') AS asked_for_consent,
                count(*) FILTER (WHERE acceptance = 'consented') AS consented,
                count(*) FILTER (WHERE acceptance = 'informed') AS informed,
                count(*) FILTER (WHERE state = 'effective') AS effective,
                count(*) FILTER (WHERE state = 'declined' AND reason IS DISTINCT FROM 'parent_declined') AS declined,
                count(*) FILTER (WHERE state = 'cancelled' AND reason IS DISTINCT FROM 'parent_declined') AS cancelled,
                count(*) FILTER (WHERE state IN ('declined', 'cancelled') AND reason = 'parent_declined')
                    AS fell_with_parent,
                count(*) FILTER (WHERE state = 'lapsed') AS lapsed,
                count(*) FILTER (WHERE state IN ('invalidated', 'rejected', 'ineligible', 'missed',
                    'aborted')) AS other
            FROM repricer.price_changes WHERE undoes_change_id IS NULL
            GROUP BY batch_id, direction, forecast_consent
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

        """#

    private static let revenueImpact = #"""
        CREATE VIEW former.revenue_impact AS
        WITH factors (period, numerator, denominator) AS (
            -- From a period to a month: a year has 12 months or 52 weeks.
            VALUES ('P1W', 13, 3), ('P1M', 1, 1), ('P2M', 1, 2), ('P3M', 1, 3), ('P6M', 1, 6), ('P1Y', 1, 12)
        ), lost_dependents AS (
            -- A dependent that has a lost change of its own in the batch is counted with that change.
            SELECT d.batch_id, d.original_transaction_id, d.change_id, count(*) AS dependents,
                -- A dependent on another subscription is paid by that one's period: its price is converted to the period of
                -- its parent. A yearly dependent of a monthly parent would count twelve times otherwise.
                sum(round(d.price_milliunits * coalesce((
                    SELECT coalesce(nullif(sum(CASE WHEN k.is_added_seat AND k.refunded_milliunits > 0
                            AND k.refunded_milliunits >= k.price_milliunits * k.quantity THEN 0 WHEN k.is_added_seat THEN k.quantity
                            ELSE 0 END) FILTER (WHERE NOT EXISTS (
                                SELECT FROM repricer.charges n
                                WHERE n.original_transaction_id = k.original_transaction_id AND n.sku = k.sku
                                    AND n.expires_at = k.expires_at AND NOT n.is_added_seat AND n.purchased_at > k.purchased_at
                                    AND n.revoked_at IS NULL AND (n.refunded_milliunits = 0
                                        OR n.refunded_milliunits < n.price_milliunits * n.quantity)))
                        + coalesce((array_agg(k.quantity ORDER BY k.revoked_at IS NOT NULL OR k.refunded_milliunits > 0
                                AND k.refunded_milliunits >= k.price_milliunits * k.quantity, k.purchased_at DESC,
                            k.transaction_id DESC) FILTER (WHERE NOT k.is_added_seat))[1], 0), 0), max(k.quantity))
                    FROM repricer.charges k
                    WHERE k.original_transaction_id = coalesce(d.target_transaction_id, d.original_transaction_id)
                        AND k.sku = regexp_replace(d.dependent_sku, '^[0-9]+/', '')
                        AND k.purchased_at <= coalesce(d.settled_at, d.requested_at)
                    GROUP BY k.expires_at ORDER BY k.expires_at DESC LIMIT 1), 1) * coalesce(
                    theirs.numerator::numeric * own.denominator / (theirs.denominator * own.numerator), 1)))
                    FILTER (WHERE coalesce(d.currency, c.currency) = c.currency)::bigint AS price_milliunits
            FROM repricer.dependent_cancellations d
            JOIN repricer.price_changes c
                ON c.original_transaction_id = d.original_transaction_id AND c.change_id = d.change_id
            LEFT JOIN factors own ON own.period = c.period
            LEFT JOIN repricer.subscriptions t ON t.original_transaction_id = d.target_transaction_id
            LEFT JOIN factors theirs ON theirs.period = coalesce(d.target_period, t.period)
            WHERE d.state = 'confirmed'
                AND NOT EXISTS (
                    SELECT FROM repricer.charges k
                    WHERE k.original_transaction_id = coalesce(d.target_transaction_id, d.original_transaction_id)
                        AND k.sku = regexp_replace(d.dependent_sku, '^[0-9]+/', '') AND k.purchased_at > d.settled_at
                        AND NOT k.is_purchase
                        AND (k.refunded_milliunits = 0 OR k.refunded_milliunits < k.price_milliunits * k.quantity)
                        AND NOT EXISTS (
                            SELECT FROM repricer.charges p
                            WHERE p.original_transaction_id = k.original_transaction_id AND p.sku = k.sku AND p.is_purchase AND NOT p.is_added_seat
                                AND p.purchased_at > d.settled_at AND p.purchased_at <= k.purchased_at
                                AND (p.refunded_milliunits = 0 OR p.refunded_milliunits < p.price_milliunits * p.quantity)))
                AND NOT EXISTS (
                    SELECT FROM repricer.price_changes o
                    WHERE o.original_transaction_id
                            = coalesce(d.target_transaction_id, d.original_transaction_id)
                        AND o.sku = CASE WHEN d.is_cross_subscription
                            THEN regexp_replace(d.dependent_sku, '^[0-9]+/', '') ELSE d.dependent_sku END
                        AND (o.state = 'declined' OR o.reason = 'parent_declined' OR o.state = 'cancelled'
                            AND o.direction = 'increase' AND coalesce(o.consent_asked_at, o.accepted_at) IS NOT NULL))
            GROUP BY d.batch_id, d.original_transaction_id, d.change_id
        ), groups AS (
            SELECT c.batch_id, c.currency, c.storefront, c.period, count(*) AS changes,
                count(*) FILTER (WHERE c.state = 'effective') AS effective,
                count(r.change_id) AS charged_changes,
                coalesce(sum(r.renewals), 0)::bigint AS charged_renewals,
                coalesce(sum(r.old_total_milliunits), 0)::bigint AS old_total,
                coalesce(sum(r.new_total_milliunits), 0)::bigint AS new_total,
                coalesce(sum(c.current_price_milliunits * x.seats) FILTER (WHERE r.change_id IS NOT NULL AND NOT x.is_leaving
                    AND NOT w.is_silent), 0)::bigint AS old_per_period,
                coalesce(sum(c.new_price_milliunits * x.seats) FILTER (WHERE r.change_id IS NOT NULL AND NOT x.is_leaving
                    AND NOT w.is_silent), 0)::bigint AS new_per_period,
                count(*) FILTER (WHERE r.change_id IS NOT NULL AND w.is_silent) AS silent,
                coalesce(sum(c.new_price_milliunits * x.seats) FILTER (WHERE r.change_id IS NOT NULL AND w.is_silent), 0)::bigint
                    AS silent_new,
                count(*) FILTER (WHERE c.state = 'declined' AND c.reason IS DISTINCT FROM 'parent_declined') AS declined,
                coalesce(sum(c.current_price_milliunits * x.seats) FILTER (WHERE c.state = 'declined'
                    AND c.reason IS DISTINCT FROM 'parent_declined'), 0)::bigint AS declined_lost,
                count(*) FILTER (WHERE c.state = 'cancelled' AND c.reason IS DISTINCT FROM 'parent_declined') AS cancelled,
                coalesce(sum(c.current_price_milliunits * x.seats) FILTER (WHERE c.state = 'cancelled' AND c.direction = 'increase'
                    AND c.reason IS DISTINCT FROM 'parent_declined'
                    AND coalesce(c.consent_asked_at, c.accepted_at) IS NOT NULL), 0)::bigint AS cancelled_lost,
                count(*) FILTER (WHERE c.state = 'lapsed') AS lapsed,
                coalesce(sum(c.current_price_milliunits * x.seats) FILTER (WHERE c.state = 'lapsed' AND c.direction = 'increase'
                    AND coalesce(c.consent_asked_at, c.accepted_at) IS NOT NULL), 0)::bigint AS lapsed_lost,
                coalesce(sum(x.others_lost_milliunits), 0)::bigint AS others_lost,
                coalesce(sum(x.taxed_renewals), 0)::bigint AS taxed_renewals,
                coalesce(sum(x.taxed_uplift_milliunits), 0)::bigint AS taxed_uplift,
                coalesce(sum(d.dependents), 0)::bigint + count(*) FILTER (WHERE c.reason = 'parent_declined'
                    AND c.state IN ('declined', 'cancelled')) AS dependents,
                coalesce(sum(d.price_milliunits), 0)::bigint
                    + coalesce(sum(c.current_price_milliunits * x.seats) FILTER (WHERE c.reason = 'parent_declined'
                        AND c.state IN ('declined', 'cancelled')), 0)::bigint AS dependent_lost
            FROM repricer.price_changes c
            LEFT JOIN repricer.charged_changes r
                ON r.batch_id = c.batch_id AND r.original_transaction_id = c.original_transaction_id
                AND r.change_id = c.change_id
            LEFT JOIN lost_dependents d
                ON d.batch_id = c.batch_id AND d.original_transaction_id = c.original_transaction_id
                AND d.change_id = c.change_id
            LEFT JOIN repricer.live_change_figures x
                ON x.original_transaction_id = c.original_transaction_id AND x.change_id = c.change_id
            CROSS JOIN LATERAL (SELECT coalesce(x.word_due_at + interval '3 days' < (
                SELECT max(m.occurred_at) FROM repricer.money_entries m WHERE m.occurred_at <= report.as_of()), false)
                AND NOT x.is_leaving AS is_silent) w
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
            g.declined_lost + g.cancelled_lost + g.lapsed_lost + g.others_lost + g.dependent_lost
                AS lost_per_period_milliunits,
            round((g.declined_lost + g.cancelled_lost + g.lapsed_lost + g.others_lost + g.dependent_lost)::numeric
                * f.numerator / f.denominator)::bigint AS lost_per_month_milliunits,
            g.lapsed, g.lapsed_lost AS lapsed_lost_per_period_milliunits,
            g.others_lost AS other_items_lost_per_period_milliunits,
            g.taxed_renewals AS charged_renewals_with_tax, g.taxed_uplift AS uplift_without_tax_milliunits,
            g.silent, g.silent_new AS silent_per_period_milliunits
        FROM groups g
        JOIN repricer.batches b ON b.batch_id = g.batch_id
        LEFT JOIN factors f ON f.period = g.period;

        """#

    private static let chargeException = #"""
        CREATE VIEW former.charge_exception AS
        WITH found AS (
            SELECT x.batch_id, x.original_transaction_id, x.change_id, x.transaction_id, x.sku, x.exception,
                x.purchased_at AS occurred_at, x.price_milliunits * x.quantity AS amount_milliunits,
                x.expected_milliunits * x.quantity AS expected_milliunits, x.refunded_milliunits, x.currency, x.storefront
            FROM repricer.explained_charges x WHERE x.exception IS NOT NULL
            UNION ALL
            SELECT c.batch_id, c.original_transaction_id, c.change_id, NULL, h.sku, 'missing', gap.at, 0,
                CASE WHEN c.is_on OR c.state = 'effective' AND gap.at >= c.due_effective_at THEN c.new_price_milliunits
                    ELSE c.current_price_milliunits END * (
                    SELECT coalesce((array_agg(q.quantity ORDER BY q.revoked_at IS NOT NULL OR q.refunded_milliunits > 0
                                AND q.refunded_milliunits >= q.price_milliunits * q.quantity, q.purchased_at DESC,
                            q.transaction_id DESC) FILTER (WHERE NOT q.is_added_seat))[1], 0)
                        + coalesce(sum(q.quantity) FILTER (WHERE q.is_added_seat AND NOT EXISTS (
                            SELECT FROM repricer.charges n
                            WHERE n.original_transaction_id = q.original_transaction_id AND n.sku = ANY (names.skus)
                                AND n.expires_at = q.expires_at AND NOT n.is_added_seat AND n.purchased_at > q.purchased_at
                                AND n.revoked_at IS NULL AND (n.refunded_milliunits = 0
                                    OR n.refunded_milliunits < n.price_milliunits * n.quantity))), 0)
                    FROM repricer.charges q
                    WHERE q.original_transaction_id = h.original_transaction_id AND q.sku = ANY (names.skus)
                        AND q.expires_at = h.expires_at AND (q.refunded_milliunits < q.price_milliunits * q.quantity
                            OR q.refunded_milliunits = 0 OR NOT q.is_added_seat))::bigint, 0, h.currency, h.storefront
            FROM repricer.charges h
            JOIN repricer.subscriptions s ON s.original_transaction_id = h.original_transaction_id
            -- All that the item was called.
            CROSS JOIN LATERAL (
                SELECT array_agg(u.sku) AS skus FROM repricer.price_changes p
                CROSS JOIN LATERAL (SELECT ARRAY[p.sku, p.current_sku] || p.former_skus AS skus) a
                CROSS JOIN LATERAL unnest(a.skus) AS u (sku)
                WHERE p.original_transaction_id = h.original_transaction_id AND h.sku = ANY (a.skus)) names
            CROSS JOIN LATERAL (
                -- The next renewal that is known: of a charge, or of the running period.
                SELECT least(
                    (SELECT min(n.purchased_at) FROM repricer.charges n
                        WHERE n.original_transaction_id = h.original_transaction_id AND n.purchased_at > h.purchased_at
                            AND n.sku = ANY (names.skus)),
                    CASE WHEN s.purchased_at > h.purchased_at THEN s.purchased_at END) AS at
            ) next
            CROSS JOIN LATERAL (
                -- The period of an added seat began before it.
                SELECT min(n.purchased_at) AS began_at FROM repricer.charges n
                WHERE n.original_transaction_id = h.original_transaction_id AND n.sku = ANY (names.skus)
                    AND n.expires_at = h.expires_at
            ) span
            CROSS JOIN LATERAL (
                -- Until when it is paid, by this charge or an earlier one that was not taken back.
                SELECT max(n.expires_at) AS at FROM repricer.charges n
                WHERE n.original_transaction_id = h.original_transaction_id AND n.purchased_at <= h.purchased_at
                    AND n.sku = ANY (names.skus)
                    AND (n.revoked_at IS NULL AND (n.refunded_milliunits < n.price_milliunits * n.quantity
                        OR n.refunded_milliunits = 0) OR (n.transaction_id, n.sku) = (h.transaction_id, h.sku))
            ) paid
            CROSS JOIN LATERAL (
                -- Each renewal of the gap, as long as half a period is left until the next one.
                SELECT t.at, n FROM generate_series(0, CASE WHEN next.at > paid.at THEN 400 ELSE 0 END) n, LATERAL (
                    SELECT CASE WHEN h.expires_at - span.began_at < interval '6 days'
                        THEN paid.at + n * (h.expires_at - span.began_at)
                        ELSE (paid.at AT TIME ZONE 'UTC' + n * (
                            SELECT CASE coalesce(h.period, max(p.period))
                                WHEN 'P1W' THEN interval '1 week' WHEN 'P2M' THEN interval '2 months'
                                WHEN 'P3M' THEN interval '3 months' WHEN 'P6M' THEN interval '6 months'
                                WHEN 'P1Y' THEN interval '12 months' ELSE interval '1 month' END
                            FROM repricer.price_changes p
                            WHERE p.original_transaction_id = h.original_transaction_id)) AT TIME ZONE 'UTC'
                        END AS at) t
                WHERE n = 0 OR t.at < next.at - CASE
                    WHEN h.expires_at - span.began_at < interval '6 days' THEN (h.expires_at - span.began_at) / 2
                    ELSE (SELECT CASE coalesce(h.period, max(p.period))
                            WHEN 'P1W' THEN 84 WHEN 'P2M' THEN 720 WHEN 'P3M' THEN 1080 WHEN 'P6M' THEN 2160
                            WHEN 'P1Y' THEN 4383 ELSE 360 END
                        FROM repricer.price_changes p
                        WHERE p.original_transaction_id = h.original_transaction_id) * interval '1 hour' END
            ) gap
            -- The change that had set the price, else the newest that had been called.
            CROSS JOIN LATERAL (
                SELECT p.*, u.is_on FROM repricer.price_changes p
                CROSS JOIN LATERAL (SELECT p.state = 'effective' AND p.effective_at <= h.purchased_at AS is_on,
                    coalesce(p.sent_at, p.doubtful_since, p.scheduled_at) AS called_at) u
                WHERE p.original_transaction_id = h.original_transaction_id AND p.undoes_change_id IS NULL
                    AND h.sku IN (SELECT unnest(ARRAY[p.sku, p.current_sku] || p.former_skus))
                    AND p.state NOT IN ('rejected', 'ineligible', 'missed', 'aborted')
                    AND (u.is_on OR u.called_at <= gap.at AND (p.state NOT IN ('declined', 'cancelled', 'lapsed', 'invalidated')
                        OR p.ended_at > next.at))
                ORDER BY u.is_on DESC, CASE WHEN u.is_on THEN p.effective_at ELSE u.called_at END DESC, p.change_id DESC
                LIMIT 1) c
            WHERE h.expires_at IS NOT NULL
                AND NOT EXISTS (
                    SELECT FROM repricer.charges n
                    WHERE n.original_transaction_id = h.original_transaction_id AND n.sku = ANY (names.skus)
                        AND n.purchased_at = h.purchased_at
                        AND (n.is_purchase, n.transaction_id, n.sku) < (h.is_purchase, h.transaction_id, h.sku))
                AND next.at > paid.at + least(interval '1 day', (h.expires_at - span.began_at) / 10)
                -- Of an item that others renew without, and that is not set to, the first; none where a consent was asked for.
                AND (NOT c.is_leaving OR EXISTS (
                        SELECT FROM repricer.charges n
                        WHERE n.original_transaction_id = h.original_transaction_id AND n.sku = ANY (names.skus)
                            AND n.purchased_at > h.purchased_at)
                    OR gap.n = 0 AND NOT EXISTS (
                        SELECT FROM repricer.subscription_events e
                        WHERE e.original_transaction_id = h.original_transaction_id
                            AND (e.type, e.subtype) = ('PRICE_INCREASE', 'PENDING') AND e.signed_at >= span.began_at
                            AND e.signed_at - gap.at <= least(interval '1 day', (h.expires_at - span.began_at) / 10)))
                AND (coalesce(h.revoked_at > h.expires_at + interval '1 day', true)
                    AND (h.refunded_milliunits = 0 OR h.refunded_milliunits < h.price_milliunits * h.quantity OR EXISTS (
                        SELECT FROM repricer.charges n
                        WHERE n.original_transaction_id = h.original_transaction_id AND n.sku = ANY (names.skus)
                            AND n.purchased_at > h.purchased_at)) OR EXISTS (
                    SELECT FROM repricer.charges n
                    WHERE n.original_transaction_id = h.original_transaction_id AND n.sku = ANY (names.skus)
                        AND n.purchased_at <= h.purchased_at AND n.revoked_at IS NULL
                        AND (n.refunded_milliunits = 0 OR n.refunded_milliunits < n.price_milliunits * n.quantity)
                        AND n.expires_at >= h.expires_at - least(interval '1 day', (h.expires_at - span.began_at) / 10)))
                AND NOT EXISTS (
                    SELECT FROM repricer.subscription_events e
                    WHERE e.original_transaction_id = h.original_transaction_id
                        AND (e.type IN ('REVOKE', 'OFFER_REDEEMED')
                            OR e.type = 'EXPIRED' AND e.signed_at <= gap.at + interval '61 days'
                            OR e.type = 'DID_FAIL_TO_RENEW'
                                AND e.signed_at - gap.at BETWEEN interval '-61 days' AND interval '1 day'
                            OR e.type = 'GRACE_PERIOD_EXPIRED'
                                AND e.signed_at - gap.at BETWEEN interval '-61 days' AND interval '61 days'
                            OR e.type = 'DID_RENEW' AND e.subtype = 'BILLING_RECOVERY'
                                AND e.signed_at - gap.at BETWEEN interval '0' AND interval '61 days'
                            OR e.subtype IN ('UPGRADE', 'DOWNGRADE') AND e.type = 'DID_CHANGE_RENEWAL_PREF'
                                AND (e.statement #>> '{renewal,period}' IS DISTINCT FROM coalesce(h.period, c.period)
                                    OR e.statement #> '{renewal,items}' IS NULL OR NOT EXISTS (
                                        SELECT FROM jsonb_array_elements(e.statement #> '{renewal,items}') i
                                        WHERE i ->> 'sku' IN (h.sku, coalesce(c.current_sku, c.sku))))
                                AND e.signed_at <= gap.at + interval '1 day'
                                AND NOT (h.is_purchase AND NOT h.is_added_seat AND e.signed_at - h.purchased_at
                                    <= least(interval '1 day', (h.expires_at - span.began_at) / 10))
                                AND e.signed_at >= coalesce((
                                    SELECT max(b.signed_at) FROM repricer.subscription_events b
                                    WHERE b.original_transaction_id = e.original_transaction_id
                                        AND b.type = 'DID_CHANGE_RENEWAL_PREF' AND b.subtype IS NULL
                                        AND (b.statement #> '{renewal,items}' IS NULL OR EXISTS (
                                            SELECT FROM jsonb_array_elements(b.statement #> '{renewal,items}') i
                                            WHERE i ->> 'sku' IN (h.sku, coalesce(c.current_sku, c.sku))))
                                        AND b.signed_at <= gap.at + interval '1 day'), '-infinity')
                            OR e.type = 'RENEWAL_EXTENDED' AND e.statement #>> '{transaction,expiresAt}' IS NULL
                            OR e.type = 'SUBSCRIBED' AND e.signed_at - span.began_at > h.expires_at - e.signed_at)
                        AND e.signed_at BETWEEN span.began_at AND next.at + interval '1 day')
                AND NOT EXISTS (
                    SELECT FROM repricer.price_changes n
                    WHERE n.original_transaction_id = c.original_transaction_id AND n.change_id <> c.change_id
                        AND n.state IN ('declined', 'cancelled', 'lapsed')
                        AND coalesce(n.current_sku, n.sku) = coalesce(c.current_sku, c.sku)
                        AND n.ended_at BETWEEN span.began_at AND next.at)
                AND NOT EXISTS (
                    SELECT FROM repricer.dependent_cancellations d
                    WHERE d.original_transaction_id = c.original_transaction_id AND d.dependent_sku = h.sku
                        AND NOT d.is_cross_subscription AND d.state = 'confirmed'
                        AND d.requested_at BETWEEN span.began_at AND next.at)
        ), silent AS (
            SELECT p.batch_id, p.original_transaction_id, p.change_id, NULL::text, p.sku, 'missing', p.paid_until, 0::bigint,
                p.new_price_milliunits * p.quantity, 0::bigint, p.currency, p.storefront
            FROM repricer.paid_changes p
            WHERE NOT p.is_given_back AND p.word_due_at + interval '3 days' < (
                    SELECT max(m.occurred_at) FROM repricer.money_entries m WHERE m.occurred_at <= report.as_of())
                AND NOT EXISTS (
                    SELECT FROM found f WHERE f.change_id = p.change_id AND f.exception = 'missing' AND f.occurred_at = p.paid_until)
            UNION ALL
            SELECT o.batch_id, o.original_transaction_id, o.change_id, NULL, o.sku, 'missing', o.occurred_at, 0,
                o.expected_milliunits, 0, o.currency, o.storefront
            FROM repricer.silent_open_changes o
        )
        SELECT f.batch_id, b.name AS batch_name, f.original_transaction_id, f.change_id, f.transaction_id, f.sku, f.exception,
            f.occurred_at, f.amount_milliunits::bigint AS amount_milliunits, f.expected_milliunits, f.refunded_milliunits,
            f.currency, f.storefront
        FROM (SELECT * FROM found UNION ALL SELECT * FROM silent) f JOIN repricer.batches b ON b.batch_id = f.batch_id;

        """#

    private static let reconciliation = #"""
        CREATE TABLE former.found_exceptions AS SELECT * FROM former.charge_exception WITH NO DATA;
        CREATE VIEW former.reconciliation AS
        WITH checks (check_name, is_per_batch, meaning) AS (
            VALUES
                ('rows_add_up', true, 'batches whose changes or refused rows do not add up to the file'),
                ('silent_past_renewal', true,
                    'changes that Apple has, a day past their renewal without a word from Apple'),
                ('requests_unknown', true, 'calls whose outcome is not known and that nothing has settled yet'),
                ('effective_without_charge', true, 'effective changes without a charge at the new price'),
                ('ended_yet_applied', true, 'changes that ended here as not applied, while the App Store has their price'),
                ('charges_other_price', true, 'charges since a call that are neither at the old price nor at the new one'),
                ('charges_after_end', true, 'renewals charged after the change, or the subscription, had ended'),
                ('charges_declined', true, 'renewals charged after the increase was declined'),
                ('charges_missing', true, 'renewals since the call of a change that no charge tells of, and nothing tells why'),
                ('charges_double', true, 'renewals charged for a time that another charge had paid for'),
                ('charges_relisted', true,
                    'charges whose transaction Apple has signed with another item in their place, at another price'),
                ('charges_wrong_currency', true,
                    'charges in another currency than the change, in the same storefront, or in one that nobody told (XXX)'),
                ('charges_refunded', true, 'charges since a call that were refunded, in part or in full, and have no other name'),
                ('dependents_in_discrepancy', true, 'dependents whose cancellation could not be proved, or that renewed since'),
                ('dependents_not_recorded', true, 'dependents of declined changes that nobody looks after'),
                ('notifications_not_understood', false, 'notifications stored but not understood'),
                ('refunds_without_amount', false,
                    'refund notices that do not say how much was given back, or when'),
                ('amounts_left_out', true,
                    'statements with an amount, or what it hangs on, that cannot be meant, or of a charged item without a price: money that is in no sum, or counts as one seat'),
                ('overdue_money', false,
                    'charges and refunds that were told after retention had compacted their time, and that no earlier statement told: money that is in no sum'),
                ('inbox_stuck', false, 'notifications with an error, or waiting for more than a day')
        ), problems (batch_id, check_name, problems) AS (
            SELECT batch_id, 'rows_add_up', count(*) FROM report.batch_summary
                WHERE NOT rows_add_up GROUP BY batch_id
            UNION ALL
            SELECT c.batch_id, 'silent_past_renewal', count(*) FROM repricer.price_changes c
                LEFT JOIN repricer.subscriptions s ON s.original_transaction_id = c.original_transaction_id
                WHERE c.stage IN ('scheduled', 'pending_consent', 'accepted')
                    AND c.due_effective_at < report.as_of() - interval '1 day'
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
            SELECT c.batch_id, 'effective_without_charge', count(*) FROM repricer.price_changes c
                WHERE c.state = 'effective'
                    AND NOT EXISTS (
                        SELECT FROM repricer.charges h
                        WHERE h.original_transaction_id = c.original_transaction_id
                            AND (h.sku = c.sku OR h.sku = c.current_sku OR h.sku = ANY (c.former_skus))
                            AND h.purchased_at >= c.effective_at
                            AND h.price_milliunits = c.new_price_milliunits AND h.currency = c.currency)
                GROUP BY c.batch_id
            UNION ALL
            -- The newest facts decide, not a mark of ours on the call: what the App Store has counts, whoever lost sight of
            -- it.
            SELECT c.batch_id, 'ended_yet_applied', count(*) FROM repricer.price_changes c
                JOIN repricer.batches b ON b.batch_id = c.batch_id
                LEFT JOIN repricer.subscriptions s ON s.original_transaction_id = c.original_transaction_id
                LEFT JOIN LATERAL (
                    SELECT item FROM jsonb_array_elements(s.items) item
                    WHERE item ->> 'sku' = coalesce(c.current_sku, c.sku)) i ON true
                WHERE c.state IN ('rejected', 'ineligible', 'missed', 'aborted')
                    AND b.decided_at IS NOT NULL AND b.state <> 'rejected' AND c.undoes_change_id IS NULL
                    AND (c.new_price_milliunits = CASE WHEN c.direction = 'increase'
                            THEN (i.item #>> '{increase,price}')::bigint ELSE (i.item ->> 'renewalPrice')::bigint END
                        AND (i.item ->> 'renews')::boolean
                        OR (c.new_price_milliunits, c.currency) IN (
                            SELECT k.price_milliunits, k.currency FROM repricer.charges k
                            WHERE k.original_transaction_id = c.original_transaction_id AND NOT k.is_offer
                                AND k.sku = ANY (ARRAY[c.sku, c.current_sku] || c.former_skus) AND k.purchased_at >= c.sent_at))
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
                FROM former.found_exceptions GROUP BY 1, 2
            UNION ALL
            SELECT d.batch_id, 'dependents_in_discrepancy', count(*) FROM repricer.dependent_cancellations d
                WHERE d.state = 'discrepancy' OR EXISTS (
                    SELECT FROM repricer.returned_dependents x
                    WHERE x.original_transaction_id = d.original_transaction_id AND x.change_id = d.change_id
                        AND x.dependent_sku = d.dependent_sku)
                GROUP BY d.batch_id
            UNION ALL
            SELECT c.batch_id, 'dependents_not_recorded', count(*)
                FROM repricer.price_changes c
                CROSS JOIN LATERAL
                    unnest(coalesce(c.current_dependent_skus, c.dependent_skus)) AS u (sku)
                WHERE c.state = 'declined'
                    AND NOT EXISTS (
                        SELECT FROM repricer.dependent_cancellations d
                        WHERE d.original_transaction_id = c.original_transaction_id
                            AND d.change_id = c.change_id AND d.dependent_sku = u.sku)
                GROUP BY c.batch_id
            UNION ALL
            SELECT b.batch_id, 'amounts_left_out', count(*)
                FROM (SELECT batch_id FROM repricer.batches UNION ALL SELECT NULL) b
                JOIN repricer.subscription_events e ON b.batch_id IS NULL OR EXISTS (
                    SELECT FROM repricer.price_changes c WHERE c.batch_id = b.batch_id
                        AND c.original_transaction_id = e.original_transaction_id
                        AND coalesce(c.sent_at, c.doubtful_since, c.scheduled_at) <= e.signed_at)
                WHERE EXISTS (
                    SELECT FROM jsonb_array_elements_text(e.statement -> 'ignored') AS u (part)
                    WHERE u.part = ANY ('{transaction.transactionId, transaction.purchaseDate, transaction.quantity,
                        transaction.currency, transaction.taxExclusivePrice, transaction.revocationDate,
                        transaction.revocationType, transaction.revocationPercentage, transaction.items,
                        transaction.items.price, transaction.items.offer.price, transaction.items.refunds,
                        transaction.items.revocationDate}'::text[]))
                GROUP BY b.batch_id
            UNION ALL
            SELECT NULL, 'notifications_not_understood', count(*) FROM repricer.notifications
                WHERE NOT understood
            UNION ALL
            SELECT NULL, 'overdue_money', count(*) FROM repricer.overdue_statements o
                WHERE o.type IN ('SUBSCRIBED', 'DID_RENEW', 'ONE_TIME_CHARGE', 'OFFER_REDEEMED', 'REFUND', 'REFUND_REVERSED', 'REVOKE')
                    AND NOT EXISTS (
                        SELECT FROM repricer.money_entries e WHERE e.original_transaction_id = o.original_transaction_id
                            AND e.kind = CASE WHEN o.type IN ('REFUND', 'REVOKE') THEN 'refund'
                                WHEN o.type = 'REFUND_REVERSED' THEN 'reversal' ELSE 'charge' END
                            AND abs(extract(epoch FROM e.occurred_at - o.signed_at)) <= 172800)
            UNION ALL
            SELECT NULL, 'inbox_stuck', count(*) FROM repricer.inbox
                WHERE error IS NOT NULL OR received_at < report.as_of() - interval '1 day'
        ), subjects AS (
            SELECT batch_id, name AS batch_name, true AS is_per_batch FROM repricer.batches
            UNION ALL
            SELECT NULL, NULL, false
        )
        SELECT s.batch_id, s.batch_name, k.check_name, coalesce(p.problems, 0) AS problems,
            coalesce(p.problems, 0) = 0 OR k.check_name = 'charges_refunded' AS is_ok, k.meaning
        FROM subjects s
        JOIN checks k ON k.is_per_batch = s.is_per_batch OR k.check_name = 'amounts_left_out'
        LEFT JOIN problems p ON p.check_name = k.check_name AND p.batch_id IS NOT DISTINCT FROM s.batch_id;

        """#

    private static let forecastAccuracy = #"""
        CREATE VIEW former.forecast_accuracy AS
        WITH outcomes AS (
            SELECT c.batch_id, c.direction, c.forecast_consent, c.forecast_threshold_source, c.forecast_reasons,
                came.consent AS came_consent, c.effective_at, c.forecast_effective_at,
                coalesce(c.planned_effective_at, c.due_effective_at) > c.forecast_effective_at AS has_moved,
                CASE WHEN c.forecast_consent = 'not_known' THEN c.forecast_not_known ELSE '{}' END AS forecast_not_known,
                -- A line of the file or a change of ours, else the instant of an increase from before.
                CASE WHEN 'increase_within_12_months' = ANY (c.forecast_reasons) THEN
                    CASE WHEN jsonb_path_exists(c.forecast_rules,
                            '$[*] ? (@.rule == "increase_within_12_months").inputs.because ? (!(@ like_regex "^[0-9]{4}-[0-9]{2}-[0-9]{2}T"))')
                        THEN 'sibling' ELSE 'earlier_increase' END
                END AS forecast_because,
                CASE WHEN coalesce(c.effective_at, c.due_effective_at) > c.forecast_effective_at
                    THEN coalesce(c.moved_before_call, c.moved_since_call) END AS slip,
                -- What the plan of the later change foresaw: our own increase of another item, which this forecast could not
                -- know.
                CASE WHEN c.forecast_consent = 'not_required' AND came.consent = 'required' THEN EXISTS (
                    SELECT FROM repricer.price_changes s
                    WHERE s.original_transaction_id = c.original_transaction_id AND s.change_id <> c.change_id
                        AND s.direction = 'increase' AND s.undoes_change_id IS NULL
                        AND CASE WHEN s.state IN ('scheduled', 'pending_consent', 'accepted') THEN s.due_effective_at
                                ELSE s.effective_at END
                            BETWEEN coalesce(c.sent_at, c.consent_asked_at) - interval '12 months'
                            AND coalesce(c.effective_at, c.due_effective_at) - interval '1 millisecond')
                    ELSE false END AS is_siblings_doing
            FROM repricer.price_changes c
            CROSS JOIN LATERAL (SELECT CASE
                WHEN c.consent_asked_at IS NOT NULL OR c.acceptance = 'consented' THEN 'required'
                -- Nobody declines unasked: the notification that told of the request for consent was lost. A dependent
                -- that fell with its parent was not asked itself.
                WHEN c.state = 'declined' AND c.reason IS DISTINCT FROM 'parent_declined' THEN 'required'
                WHEN c.acceptance = 'informed' THEN 'not_required'
                WHEN c.direction = 'decrease' AND coalesce(c.scheduled_at, c.effective_at) IS NOT NULL THEN 'none'
            END AS consent) came
            WHERE c.undoes_change_id IS NULL AND NOT c.is_held_out
        )
        SELECT o.batch_id, b.name AS batch_name, o.direction, o.forecast_consent,
            o.forecast_threshold_source, o.came_consent, count(*) AS changes,
            o.came_consent = nullif(o.forecast_consent, 'not_known') AS is_as_forecast,
            count(*) FILTER (WHERE o.effective_at IS NOT NULL) AS effective,
            count(*) FILTER (WHERE o.effective_at = o.forecast_effective_at
                OR o.slip IS NULL AND o.effective_at > o.forecast_effective_at
                    AND o.effective_at <= o.forecast_effective_at + interval '1 hour') AS effective_as_forecast,
            o.forecast_reasons,
            count(*) FILTER (WHERE o.effective_at < o.forecast_effective_at) AS effective_earlier,
            count(*) FILTER (WHERE o.effective_at > o.forecast_effective_at AND (o.slip IS NOT NULL
                OR o.effective_at > o.forecast_effective_at + interval '1 hour')) AS effective_later,
            CASE
                WHEN o.came_consent IS NULL THEN 'not_known'
                WHEN o.forecast_consent = 'not_known' THEN 'was_not_known'
                WHEN o.came_consent = o.forecast_consent THEN 'as_forecast'
                WHEN o.came_consent = 'required' THEN 'missed'
                ELSE 'false_alarm'
            END AS consent_outcome,
            count(*) FILTER (WHERE o.has_moved) AS renewals_moved,
            o.forecast_not_known, o.forecast_because,
            count(*) FILTER (WHERE o.is_siblings_doing) AS missed_by_sibling,
            count(o.slip) AS slipped,
            count(*) FILTER (WHERE o.slip = 'billing_failure') AS slipped_by_billing_failure,
            count(*) FILTER (WHERE o.slip = 'late_call') AS slipped_by_late_call,
            count(*) FILTER (WHERE o.slip = 'extension') AS slipped_by_extension,
            count(*) FILTER (WHERE o.slip = 'other') AS slipped_by_other
        FROM outcomes o JOIN repricer.batches b ON b.batch_id = o.batch_id
        GROUP BY o.batch_id, b.name, o.direction, o.forecast_consent, o.forecast_threshold_source,
            o.came_consent, o.forecast_reasons, o.forecast_not_known, o.forecast_because;

        """#

    private static let knownFigures = #"""
        CREATE VIEW former.known_figures AS
        WITH months AS (
            SELECT month, month::timestamp AT TIME ZONE 'UTC' AS starts_at,
                (month + interval '1 month') AT TIME ZONE 'UTC' AS ends_at
            FROM repricer.closed_months
        )
        SELECT m.month, e.batch_id, e.currency, e.kind, sum(e.amount_milliunits) AS milliunits
        FROM months m JOIN repricer.live_money e ON e.occurred_at >= m.starts_at AND e.occurred_at < m.ends_at
        GROUP BY m.month, e.batch_id, e.currency, e.kind
        UNION ALL
        SELECT m.month, r.batch_id, c.currency, 'uplift', sum(r.price_milliunits - r.old_price_milliunits)
        FROM months m
        JOIN repricer.charged_renewals r ON r.purchased_at >= m.starts_at AND r.purchased_at < m.ends_at
        JOIN repricer.price_changes c
            ON c.original_transaction_id = r.original_transaction_id AND c.change_id = r.change_id
        -- What somebody wrote into the charges by hand is not in the ledger.
        WHERE EXISTS (
            SELECT FROM repricer.money_entries e
            WHERE e.original_transaction_id = r.original_transaction_id AND e.transaction_id = r.transaction_id
                AND e.kind = 'charge' AND e.occurred_at = r.purchased_at)
        GROUP BY m.month, r.batch_id, c.currency;

        """#

    /// The charges, where an item that took the former name of a renamed one has a name that nothing else has.
    private static let charges = #"""
        CREATE VIEW former.charges AS
        SELECT h.original_transaction_id, h.transaction_id,
            CASE WHEN EXISTS (
                    SELECT FROM repricer.price_changes p
                    CROSS JOIN LATERAL unnest(p.former_skus, p.former_until) AS f (sku, until)
                    WHERE p.original_transaction_id = h.original_transaction_id AND f.sku = h.sku
                        AND f.sku <> coalesce(p.current_sku, p.sku) AND f.until <= h.purchased_at)
                THEN h.sku || ' of another item' ELSE h.sku END AS sku,
            h.purchased_at, h.expires_at, h.revoked_at, h.price_milliunits, h.quantity, h.currency, h.storefront, h.is_offer,
            h.is_purchase, h.is_added_seat, h.is_relisted, h.period, h.refunded_milliunits
        FROM repricer.charges h;

        """#

    static let all =
        "CREATE SCHEMA former;" + charges
        + (priceChange + consentFunnel + revenueImpact + chargeException + reconciliation
        + forecastAccuracy + knownFigures)
        .replacingOccurrences(of: "repricer.charges ", with: "former.charges ")

    /// Statistics of large tables alone, without which a view of thousands of rows is read row by row. Those of the small
    /// ones and of the catalogue take longer than many a test.
    package static let statistics = """
        DO $$
        DECLARE v_large regclass;
        BEGIN
            FOR v_large IN SELECT oid FROM pg_class WHERE relnamespace = 'repricer'::regnamespace
                AND relkind = 'r' AND pg_relation_size(oid) > 65536
            LOOP
                EXECUTE format('ANALYZE %s', v_large);
            END LOOP;
        END $$;
        """

    /// Rows that only one of a report and its former view has, and moves of so many instants.
    package static func differences(
        on owner: PostgresConnection, instants: Int = 13
    ) async throws -> [String] {
        var found: [String] = []
        // They are found once: planning takes most of the time.
        try await owner.script(
            """
            DELETE FROM former.found_exceptions;
            INSERT INTO former.found_exceptions SELECT * FROM former.charge_exception
            """)
        var compared = names.map {
            ($0, "report", $0 == "charge_exception" ? "found_exceptions" : $0)
        }
        // Where no month is closed there is nothing to compare.
        if try await !owner.query("SELECT FROM repricer.closed_months LIMIT 1").isEmpty {
            compared.append(("known_figures", "repricer", "known_figures"))
        }
        for (name, schema, former) in compared {
            found += try await owner.query(
                """
                SELECT coalesce('now ' || n.row, 'former ' || f.row) AS row
                FROM (SELECT v::text AS row FROM \(unsafe: schema).\(unsafe: name) v) n
                FULL JOIN (SELECT v::text AS row FROM former.\(unsafe: former) v) f ON f.row = n.row
                WHERE n.row IS NULL OR f.row IS NULL ORDER BY 1 LIMIT 3
                """
            ).map { "\(name): \(try $0.text("row"))" }
        }
        return found + (try await moveDifferences(on: owner, instants: instants))
    }

    /// What the revenue bridge counts otherwise from kept moves than from the facts: as of instants at which something that
    /// was paid for ends, and others, before and after what is known.
    package static func moveDifferences(
        on owner: PostgresConnection, instants: Int = 13
    ) async throws -> [String] {
        try await owner.query(
            """
            WITH instants AS MATERIALIZED (
                SELECT at FROM (
                    (SELECT at FROM (
                        SELECT expires_at AS at FROM repricer.charges UNION SELECT purchased_at FROM repricer.charges
                        UNION SELECT expires_at + interval '1 microsecond' FROM repricer.charges
                        UNION SELECT purchased_at + interval '40 days' FROM repricer.charges
                        UNION SELECT ended_at + interval '1 hour' FROM repricer.price_changes
                        UNION SELECT date_trunc('month', purchased_at, 'UTC') FROM repricer.charges) t
                    WHERE at IS NOT NULL ORDER BY md5(at::text) LIMIT 3)
                    -- Both sides of both ends of what is kept: also where an end itself is wrong by a microsecond.
                    UNION SELECT e.at + n * interval '1 microsecond'
                    FROM (SELECT r.from_at, r.until_at FROM repricer.running_moves r
                            ORDER BY md5(r.original_transaction_id || r.until_at) LIMIT 2) r,
                        LATERAL (VALUES (r.from_at), (r.until_at)) e (at), generate_series(0, 1) AS n
                    UNION SELECT now() UNION SELECT timestamptz '2100-01-01 12:00Z') t
                -- Of a few, now is one, and any others may be the rest.
                ORDER BY at <> now(), md5('few' || at::text) LIMIT \(instants)
            ), kept AS (
                SELECT i.at, m.batch_id, m.month, m.currency, m.storefront, m.cause, sum(m.opening) AS opening,
                    sum(m.closing) AS closing, sum(m.price_effect) AS effect
                FROM instants i, repricer.batches b, repricer.bridge_moves(i.at, b.batch_id) m GROUP BY 1, 2, 3, 4, 5, 6
            ), plain AS (
                SELECT i.at, m.batch_id, m.month, m.currency, m.storefront, m.cause, sum(m.opening) AS opening,
                    sum(m.closing) AS closing, sum(m.price_effect) AS effect
                FROM instants i, repricer.revenue_moves(i.at) m GROUP BY 1, 2, 3, 4, 5, 6
            )
            SELECT concat_ws(' ', coalesce(k.at, p.at), coalesce(k.batch_id, p.batch_id), coalesce(k.month, p.month),
                coalesce(k.cause, p.cause), 'kept', k.opening, k.closing, k.effect, 'facts', p.opening, p.closing, p.effect) AS row
            FROM kept k FULL JOIN plain p ON p.at = k.at AND p.batch_id = k.batch_id AND p.month = k.month
                AND p.currency = k.currency AND p.storefront = k.storefront AND p.cause = k.cause
            WHERE (coalesce(k.opening, 0), coalesce(k.closing, 0), coalesce(k.effect, 0))
                <> (coalesce(p.opening, 0), coalesce(p.closing, 0), coalesce(p.effect, 0))
            ORDER BY 1 LIMIT 3
            """
        ).map { "moves: \(try $0.text("row"))" }
    }

    package static let past = [
        "batch_summary", "price_change", "consent_funnel", "revenue_impact", "charge_exception",
        "money", "reconciliation",
        "revenue_bridge", "forecast_accuracy",
    ]

    /// What reports of the past say otherwise from kept figures, where nothing was recorded since, than from the facts:
    /// before the later half of the charges was recorded, and now.
    package static func pastDifferences(
        after plant: SQL? = nil, in names: [String] = past, on owner: PostgresConnection
    ) async throws -> [String] {
        let instants = try await owner.query(
            """
            SELECT at::text AS at FROM (
                SELECT percentile_disc(0.5) WITHIN GROUP (ORDER BY recorded_at) AS at FROM repricer.charges
                UNION ALL SELECT clock_timestamp()) t
            """
        ).map { try $0.text("at") }
        _ = try await owner.execute("BEGIN")
        if let plant { _ = try await owner.execute(plant) }
        var kept: Set<String> = []
        var plain: Set<String> = []
        for isKept in [true, false] {
            for name in names {
                for at in instants {
                    let rows = try await owner.query(
                        "SELECT v::text AS row FROM report.\(unsafe: name)_as_of('\(unsafe: at)') v"
                    )
                    let lines = try rows.map { "\(name) \(at) \(try $0.text("row"))" }
                    if isKept { kept.formUnion(lines) } else { plain.formUnion(lines) }
                }
            }
            _ = try await owner.execute(
                """
                INSERT INTO repricer.stale_figures SELECT original_transaction_id, bucket FROM repricer.subscriptions
                """)
        }
        _ = try await owner.execute("ROLLBACK")
        return kept.subtracting(plain).map { "kept \($0)" }.sorted()
            + plain.subtracting(kept).map { "facts \($0)" }.sorted()
    }
}

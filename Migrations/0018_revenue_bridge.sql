-- What revenue a month opened and closed with, and why; what is at risk; and what became of those who were held out.
-- Locks: none on existing tables.
-- breaking: no

-- What the items of called changes, and their dependents, brought a month: at the start of each calendar month, or at
-- the call where that came within it, and at its end; and what became of the difference. In twelfths of milliunits.
-- What begins or ends at midnight on the first belongs to the month that begins then.
-- An item counts under the newest change that was called before the month ended, so that no two batches count it. Charges
-- say what is paid for at an instant; before the first known charge, what the plan knew counts.
-- Each subscription is counted as of an instant of its own, and can be named with several instants.
CREATE FUNCTION repricer.moves_of(p_ids text[], p_ats timestamptz[], p_batch uuid) RETURNS TABLE (
        id text, at timestamptz, batch_id uuid, month date, currency text, storefront text, opening numeric, closing numeric,
        cause text, price_effect numeric)
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $$
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
$$;

-- The same for all subscriptions, or for those of a batch, from the facts alone. Kept moves are compared with it.
CREATE FUNCTION repricer.revenue_moves(p_at timestamptz, p_batch uuid DEFAULT NULL) RETURNS TABLE (
        batch_id uuid, month date, currency text, storefront text, opening numeric, closing numeric, cause text,
        price_effect numeric)
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $$
DECLARE
    v_ids text[] := ARRAY(SELECT DISTINCT c.original_transaction_id FROM repricer.price_changes c
        WHERE p_batch IS NULL OR c.batch_id = p_batch);
BEGIN
    RETURN QUERY SELECT m.batch_id, m.month, m.currency, m.storefront, m.opening, m.closing, m.cause, m.price_effect
        FROM moves_of(v_ids, array_fill(p_at, ARRAY[cardinality(v_ids)]), p_batch) m;
END
$$;

-- The instants for which the moves of a subscription are kept: the end of all, which is the start of a month, and each end
-- of a paid period after the latest fact, with the instant since which nothing else moves.
CREATE FUNCTION repricer.moving_instants(p_ids text[]) RETURNS TABLE (
        id text, known_after timestamptz, from_at timestamptz, at timestamptz, is_whole boolean)
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $$
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

-- Keeps the moves of subscriptions. Only summarise_figures calls it, in one snapshot.
CREATE FUNCTION repricer.keep_moves(p_ids text[], p_at timestamptz) RETURNS void
    LANGUAGE plpgsql SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $$
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

-- revenue_moves of a batch: what is kept, and the rest from the facts.
CREATE FUNCTION repricer.bridge_moves(p_at timestamptz, p_batch uuid) RETURNS TABLE (
        batch_id uuid, month date, currency text, storefront text, opening numeric, closing numeric, cause text,
        price_effect numeric)
    LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan
    SET jit = off AS $$
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
COMMENT ON FUNCTION repricer.bridge_moves(timestamptz, uuid) IS 'revenue_moves of a batch, from what is kept as far as it is.';

-- The same as it was known at p_at: from what is kept where nothing was recorded since.
CREATE FUNCTION repricer.bridge_moves_at(p_at timestamptz, p_batch uuid) RETURNS TABLE (
        batch_id uuid, month date, currency text, storefront text, opening numeric, closing numeric, cause text,
        price_effect numeric)
    LANGUAGE plpgsql STABLE SET search_path = repricer, pg_temp SET plan_cache_mode = force_custom_plan SET jit = off AS $$
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

CREATE VIEW report.revenue_bridge AS
WITH sums AS (
    SELECT b.batch_id, m.month, m.currency, m.storefront, round(sum(opening) / 12) AS opening,
        round(sum(price_effect) / 12) AS price_effect,
        round(sum(closing - opening) FILTER (WHERE cause = 'declined') / 12) AS declined,
        round(sum(closing - opening) FILTER (WHERE cause = 'left') / 12) AS "left",
        round(sum(closing - opening) FILTER (WHERE cause = 'lapsed') / 12) AS lapsed,
        round(sum(closing - opening) FILTER (WHERE cause = 'dependents') / 12) AS dependents,
        -- Where a part goes on, its price may have changed.
        round(sum(closing - opening - price_effect) FILTER (WHERE cause = 'refunds') / 12) AS refunds,
        round(sum(closing) / 12) AS closing
    FROM repricer.batches b
    -- It goes batch by batch, so that a query for one batch reads only its changes.
    CROSS JOIN LATERAL repricer.bridge_moves(report.as_of(), b.batch_id) m
    GROUP BY b.batch_id, m.month, m.currency, m.storefront
    -- Moves that were kept and taken out again leave zeros.
    HAVING round(sum(opening) / 12) <> 0 OR round(sum(closing) / 12) <> 0
)
SELECT s.batch_id, b.name AS batch_name, s.month, s.currency, s.storefront,
    repricer.figure(s.opening, w.what || 'opening' || w.currency) AS opening_milliunits,
    repricer.figure(s.price_effect, w.what || 'price_effect' || w.currency) AS price_effect_milliunits,
    repricer.figure(coalesce(s.declined, 0), w.what || 'declined' || w.currency) AS declined_milliunits,
    repricer.figure(coalesce(s."left", 0), w.what || 'left' || w.currency) AS left_milliunits,
    repricer.figure(coalesce(s.lapsed, 0), w.what || 'lapsed' || w.currency) AS lapsed_milliunits,
    repricer.figure(coalesce(s.dependents, 0), w.what || 'dependents' || w.currency) AS dependents_milliunits,
    repricer.figure(coalesce(s.refunds, 0), w.what || 'refunds' || w.currency) AS refunds_milliunits,
    repricer.figure(s.closing - s.opening - s.price_effect - coalesce(s.declined, 0) - coalesce(s."left", 0)
        - coalesce(s.lapsed, 0) - coalesce(s.dependents, 0) - coalesce(s.refunds, 0), w.what || 'other' || w.currency)
        AS other_milliunits,
    repricer.figure(s.closing, w.what || 'closing' || w.currency) AS closing_milliunits
FROM sums s
JOIN repricer.batches b ON b.batch_id = s.batch_id
CROSS JOIN LATERAL (SELECT 'revenue_bridge, batch ' || b.name || ': ' AS what, ' of ' || s.currency AS currency) w;

COMMENT ON VIEW report.revenue_bridge IS
    'What the called changes and their dependents brought a month, from the start of each month (or the call) to its end, '
    'and why it differs: closing = opening + all between. An item that a second batch called within the month is in the second '
    'one alone, from that call on: what happened to it in that month before is in no row.';

-- Converts to one currency at the newest rates: to that of the setting repricer.reporting_currency, or else to US dollars.
CREATE VIEW report.revenue_bridge_total AS
WITH imported AS (
    SELECT DISTINCT ON (r.currency) r.currency, r.billionths_per_euro::numeric AS per_euro, r.valid_from
    FROM (
        -- The newest revision of an instant counts; one that withdraws it leaves none.
        SELECT DISTINCT ON (e.currency, e.valid_from) e.currency, e.valid_from, e.billionths_per_euro
        FROM repricer.exchange_rates e
        WHERE e.valid_from <= report.as_of() AND e.recorded_at <= report.as_of()
        ORDER BY e.currency, e.valid_from, e.revision DESC) r
    WHERE r.billionths_per_euro IS NOT NULL
    ORDER BY r.currency, r.valid_from DESC
), rates AS (
    SELECT i.currency, i.per_euro, i.valid_from FROM imported i
    UNION ALL
    -- Rates are units for one euro, so the euro itself needs none.
    SELECT 'EUR', 1000000000::numeric, NULL::timestamptz WHERE NOT EXISTS (SELECT FROM imported i WHERE i.currency = 'EUR')
), target AS (
    SELECT t.currency, r.per_euro, r.valid_from
    FROM (SELECT coalesce(nullif(current_setting('repricer.reporting_currency', true), ''), 'USD') AS currency) t
    LEFT JOIN rates r ON r.currency = t.currency
), converted AS (
    SELECT b.*, t.currency AS reporting_currency,
        CASE WHEN b.currency = t.currency THEN 1 ELSE t.per_euro / r.per_euro END AS rate,
        CASE WHEN b.currency <> t.currency AND t.per_euro / r.per_euro IS NOT NULL THEN least(t.valid_from, r.valid_from) END
            AS valid_from,
        -- The rate by which a sum was converted, so that the conversion can be repeated by hand.
        CASE WHEN b.currency <> t.currency AND t.per_euro / r.per_euro IS NOT NULL THEN r.currency || ' '
            || trim_scale(r.per_euro / 1000000000) || ' for EUR 1 since ' || to_char(r.valid_from AT TIME ZONE 'UTC', 'YYYY-MM-DD') END AS rate_used,
        CASE WHEN b.currency <> t.currency AND t.per_euro / r.per_euro IS NOT NULL THEN t.currency || ' '
            || trim_scale(t.per_euro / 1000000000) || ' for EUR 1 since ' || to_char(t.valid_from AT TIME ZONE 'UTC', 'YYYY-MM-DD') END AS target_used,
        CASE WHEN b.currency <> t.currency THEN ARRAY[CASE WHEN r.per_euro IS NULL THEN b.currency END,
            CASE WHEN t.per_euro IS NULL THEN t.currency END] END AS lacking
    FROM report.revenue_bridge b CROSS JOIN target t LEFT JOIN rates r ON r.currency = b.currency
), sums AS (
    SELECT batch_id, batch_name, month, reporting_currency,
        round(sum(opening_milliunits * rate)) AS opening,
        round(sum(price_effect_milliunits * rate)) AS price_effect,
        round(sum(declined_milliunits * rate)) AS declined,
        round(sum(left_milliunits * rate)) AS "left",
        round(sum(lapsed_milliunits * rate)) AS lapsed,
        round(sum(dependents_milliunits * rate)) AS dependents,
        round(sum(refunds_milliunits * rate)) AS refunds,
        round(sum(closing_milliunits * rate)) AS closing,
        (min(valid_from) AT TIME ZONE 'UTC')::date AS rates_from,
        (SELECT array_agg(DISTINCT u.currency ORDER BY u.currency)
            FROM unnest(array_agg(lacking) FILTER (WHERE lacking IS NOT NULL)) AS u (currency) WHERE u.currency IS NOT NULL)
            AS without_rate,
        -- The euro has no imported rate, so its null is left out of the list.
        (SELECT array_agg(u.used ORDER BY u.used COLLATE "C")
            FROM (SELECT unnest(array_agg(DISTINCT rate_used) || max(target_used)) AS used) u WHERE u.used IS NOT NULL) AS rates
    FROM converted GROUP BY batch_id, batch_name, month, reporting_currency
)
SELECT batch_id, batch_name, month, reporting_currency AS currency,
    repricer.figure(opening, what || 'opening' || in_currency) AS opening_milliunits,
    repricer.figure(price_effect, what || 'price_effect' || in_currency) AS price_effect_milliunits,
    repricer.figure(declined, what || 'declined' || in_currency) AS declined_milliunits,
    repricer.figure("left", what || 'left' || in_currency) AS left_milliunits,
    repricer.figure(lapsed, what || 'lapsed' || in_currency) AS lapsed_milliunits,
    repricer.figure(dependents, what || 'dependents' || in_currency) AS dependents_milliunits,
    repricer.figure(refunds, what || 'refunds' || in_currency) AS refunds_milliunits,
    repricer.figure(closing - opening - price_effect - declined - "left" - lapsed - dependents - refunds,
        what || 'other' || in_currency) AS other_milliunits,
    repricer.figure(closing, what || 'closing' || in_currency) AS closing_milliunits, rates_from, without_rate, rates
FROM (
    SELECT n.*, 'revenue_bridge_total, batch ' || n.batch_name || ': ' AS what, ' in ' || n.reporting_currency AS in_currency
    FROM sums n) s;
COMMENT ON VIEW report.revenue_bridge_total IS
    'revenue_bridge in one currency: the setting repricer.reporting_currency, else USD, at the newest imported rates.';

-- What the App Store has been given or is to be given, and no customer has agreed to yet.
CREATE VIEW report.revenue_at_risk AS
WITH open AS (
    SELECT c.batch_id, c.change_id, c.state, c.forecast_consent,
        (c.due_effective_at AT TIME ZONE 'UTC')::date AS consent_due_on, r.currency, r.storefront, r.period, r.milliunits,
        r.is_own
    FROM repricer.price_changes c
    CROSS JOIN LATERAL (
        SELECT c.currency, c.storefront, c.period, coalesce(c.at_risk_milliunits, c.current_price_milliunits::numeric * c.forecast_seats) AS milliunits,
            true AS is_own
        UNION ALL
        SELECT e ->> 'currency', e ->> 'storefront', e ->> 'period', (e ->> 'milliunits')::bigint, false
        FROM jsonb_array_elements(c.at_risk_elsewhere) AS e
        UNION ALL
        -- A dependent that has a change of its own counts with that one, in whatever batch and on whatever subscription it is.
        SELECT k.currency, k.storefront, k.period, -o.milliunits, false
        FROM (
            SELECT c.original_transaction_id, c.bucket, name AS sku FROM unnest(c.dependent_skus) AS name
            UNION
            SELECT d.original_transaction_id, d.bucket, d.sku FROM repricer.dependent_claims d
            WHERE d.claimed_by = c.original_transaction_id AND d.change_id = c.change_id) d
        CROSS JOIN LATERAL (
            SELECT o.currency, o.storefront, o.period, o.current_price_milliunits::numeric * o.forecast_seats AS milliunits
            FROM repricer.price_changes o
            WHERE o.original_transaction_id = d.original_transaction_id AND o.bucket = d.bucket
                AND o.sku = d.sku AND o.change_id <> c.change_id
                AND o.at_risk_milliunits IS NOT NULL AND o.undoes_change_id IS NULL
                AND o.stage IN ('queued', 'unknown', 'scheduled', 'pending_consent')
                AND (o.state = 'pending_consent' OR o.forecast_consent IN ('required', 'not_known'))
            -- OFFSET 0 makes PostgreSQL find each by its key, instead of reading the whole batch for each row.
            OFFSET 0) o
        CROSS JOIN LATERAL (
            SELECT c.currency, c.storefront, c.period WHERE (o.currency, o.period) = (c.currency, c.period)
            UNION ALL
            SELECT o.currency, o.storefront, o.period WHERE (o.currency, o.period) <> (c.currency, c.period)) k
        WHERE c.dependent_skus <> '{}' AND c.at_risk_milliunits IS NOT NULL) r
    WHERE c.stage IN ('queued', 'unknown', 'scheduled', 'pending_consent') AND c.undoes_change_id IS NULL
        AND (c.state = 'pending_consent' OR c.forecast_consent IN ('required', 'not_known'))
)
SELECT o.batch_id, b.name AS batch_name, o.consent_due_on, o.currency, o.storefront, o.period,
    count(*) FILTER (WHERE o.is_own) AS changes,
    count(*) FILTER (WHERE o.is_own AND o.state = 'pending_consent') AS asked,
    count(*) FILTER (WHERE o.is_own AND o.state <> 'pending_consent' AND o.forecast_consent = 'required') AS to_be_asked,
    count(*) FILTER (WHERE o.is_own AND o.state <> 'pending_consent' AND o.forecast_consent <> 'required') AS not_known,
    repricer.figure(sum(o.milliunits), 'revenue_at_risk, batch ' || b.name || ': at_risk of ' || o.currency)
        AS at_risk_milliunits,
    repricer.figure(round(sum(o.milliunits) * repricer.twelfths(o.period) / 12),
        'revenue_at_risk, batch ' || b.name || ': at_risk_per_month of ' || o.currency) AS at_risk_per_month_milliunits
FROM open o JOIN repricer.batches b ON b.batch_id = o.batch_id
GROUP BY o.batch_id, b.name, o.consent_due_on, o.currency, o.storefront, o.period
HAVING count(*) FILTER (WHERE o.is_own) > 0 OR sum(o.milliunits) <> 0;
COMMENT ON VIEW report.revenue_at_risk IS
    'What every period loses where the customers who must consent, or may have to, do not: by the day it is due.';

-- Sent against held out. For both the question is the same: of the subscriptions whose forecast renewal passed more than a day
-- ago, and of which it was told whether they renewed, how many do not pay for every item of theirs any more? Rows that were never sent, though not held out, count among the
-- sent, because among those held out there are such customers, too. The interval of the difference is Newcombe's, from two of
-- Wilson's.
CREATE FUNCTION repricer.wilson_bound(p_share numeric, p_of numeric, p_sign integer) RETURNS numeric
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN (p_share + 3.841459 / (2 * p_of) + p_sign * 1.959964
        * sqrt(p_share * (1 - p_share) / p_of + 3.841459 / (4 * p_of * p_of))) / (1 + 3.841459 / p_of);

CREATE VIEW report.holdout AS
WITH rows AS (
    SELECT b.batch_id, c.forecast_consent, c.original_transaction_id, c.is_held_out, c.is_as_meant, c.is_due, c.has_left
    FROM repricer.batches b
    CROSS JOIN (SELECT h.until FROM repricer.heard_charges h) d
    -- OFFSET 0 makes PostgreSQL read the changes of such batches alone.
    CROSS JOIN LATERAL (
        SELECT c.forecast_consent, c.original_transaction_id, c.is_held_out,
            c.is_held_out OR coalesce(c.sent_at, c.doubtful_since, c.scheduled_at) IS NOT NULL AS is_as_meant,
            c.forecast_effective_at + repricer.days(1) < report.as_of() AND (p.paid_until + repricer.days(1) > report.as_of()
                -- Nobody has told whether it goes on: its end is later than all that was heard of anybody, or no charge was told.
                OR CASE WHEN p.paid_until = '-infinity' THEN p.is_told ELSE p.paid_until < d.until
                    OR EXISTS (
                        SELECT FROM repricer.charges g
                        WHERE g.original_transaction_id = c.original_transaction_id AND g.purchased_at <= report.as_of()
                            AND g.purchased_at > p.paid_until - repricer.days(1))
                    OR EXISTS (
                        SELECT FROM repricer.told_statements t
                        WHERE t.original_transaction_id = c.original_transaction_id AND t.type IN ('EXPIRED', 'REVOKE')
                            AND t.signed_at > p.paid_until - repricer.days(1) AND t.signed_at <= report.as_of()) END) AS is_due,
            p.paid_until + repricer.days(1) <= report.as_of() AS has_left
        FROM repricer.price_changes c
        CROSS JOIN LATERAL (
            SELECT coalesce(max(coalesce(h.expires_at, 'infinity')) FILTER (
                    -- A revocation ends it on its day, whatever part of the money it gave back.
                    WHERE coalesce(h.revoked_at, 'infinity') > report.as_of()
                        AND (h.refunded_milliunits = 0 OR h.refunded_milliunits < h.price_milliunits * h.quantity)),
                '-infinity') AS paid_until, count(*) > 0 AS is_told
            FROM repricer.charges h
            WHERE h.original_transaction_id = c.original_transaction_id
                AND repricer.is_of_item(h.sku, h.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
                AND h.purchased_at <= report.as_of()) p
        WHERE c.batch_id = b.batch_id AND c.undoes_change_id IS NULL
        OFFSET 0) c
    WHERE b.holdout_basis_points > 0 AND b.decided_at <= report.as_of() AND b.state <> 'rejected'
), subscriptions AS (
    SELECT batch_id, forecast_consent, original_transaction_id, is_held_out, bool_and(is_as_meant) AS is_as_meant,
        bool_and(is_due) AS is_due, bool_or(has_left) AS has_left
    FROM rows GROUP BY batch_id, forecast_consent, original_transaction_id, is_held_out
), counts AS (
    SELECT batch_id, forecast_consent,
        count(*) FILTER (WHERE is_due AND NOT is_held_out) AS sent,
        count(*) FILTER (WHERE is_due AND NOT is_held_out AND NOT is_as_meant) AS never_sent,
        count(*) FILTER (WHERE is_due AND NOT is_held_out AND has_left) AS sent_left,
        count(*) FILTER (WHERE is_due AND is_held_out) AS held_out,
        count(*) FILTER (WHERE is_due AND is_held_out AND has_left) AS held_out_left,
        count(*) FILTER (WHERE NOT is_due) AS not_due
    FROM subscriptions GROUP BY batch_id, forecast_consent
), shares AS (
    SELECT c.*, sent_left::numeric / nullif(sent, 0) AS p, held_out_left::numeric / nullif(held_out, 0) AS q,
        least(sent, held_out) >= 30 AS is_enough
    FROM counts c
), intervals AS (
    SELECT s.*,
        p - q - sqrt((p - repricer.wilson_bound(p, sent, -1)) ^ 2 + (repricer.wilson_bound(q, held_out, 1) - q) ^ 2) AS lower,
        p - q + sqrt((repricer.wilson_bound(p, sent, 1) - p) ^ 2 + (q - repricer.wilson_bound(q, held_out, -1)) ^ 2) AS upper
    FROM shares s
)
SELECT i.batch_id, b.name AS batch_name, i.forecast_consent, i.sent AS sent_subscriptions, i.never_sent, i.sent_left,
    i.held_out AS held_out_subscriptions, i.held_out_left, i.not_due,
    round(i.p * 10000)::bigint AS sent_left_basis_points, round(i.q * 10000)::bigint AS held_out_left_basis_points,
    CASE WHEN i.is_enough THEN round((i.p - i.q) * 10000)::bigint END AS difference_basis_points,
    CASE WHEN i.is_enough THEN round(i.lower * 10000)::bigint END AS lower_basis_points,
    CASE WHEN i.is_enough THEN round(i.upper * 10000)::bigint END AS upper_basis_points,
    CASE WHEN NOT i.is_enough THEN 'too_few' WHEN i.lower > 0 THEN 'more_left' WHEN i.upper < 0 THEN 'fewer_left'
        ELSE 'no_difference_seen' END AS answer
FROM intervals i JOIN repricer.batches b ON b.batch_id = i.batch_id;
COMMENT ON VIEW report.holdout IS
    'Batches that hold subscriptions out: who left among those sent and among those held out, for each forecast of consent, '
    'with a 95 % interval of the difference.';

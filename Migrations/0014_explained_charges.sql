-- Views over facts, from which reports count: which change explains each charge, and what is wrong with charges that no
-- change explains.
-- Locks: none on existing tables.
-- breaking: no

-- The instant that "late" is judged at. A report sets it for its transaction; psql may SET it, too.
CREATE FUNCTION report.as_of() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
    RETURN coalesce(nullif(current_setting('repricer.as_of', true), '')::timestamptz, now());
COMMENT ON FUNCTION report.as_of() IS
    'The instant that lateness is judged at: the setting repricer.as_of, else the server''s clock.';

-- Days of 24 hours. A session in a time zone with summer time would count an interval of days by its own calendar, and find other
-- figures than everybody else.
CREATE FUNCTION repricer.days(p_count integer) RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN p_count * interval '24 hours';

-- The time between two instants in hours, for the same reason: a difference of instants is an interval of days.
CREATE FUNCTION repricer.span(p_from timestamptz, p_until timestamptz) RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN make_interval(secs => extract(epoch FROM p_until - p_from)::double precision);

-- A sum as a report's bigint. One that is too large is refused by name.
CREATE FUNCTION repricer.figure(p_sum numeric, p_what text) RETURNS bigint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
    IF abs(p_sum) > 9223372036854775807 THEN
        RAISE EXCEPTION '% add up to % milliunits, which is more than a figure can hold', p_what, p_sum
            USING ERRCODE = 'numeric_value_out_of_range', HINT = 'report.money has each line of what was charged, and report.price_change what is at risk.';
    END IF;
    RETURN p_sum;
END
$$;

-- The same for what is computed for each change. Where the sum fits, no other function is called.
CREATE FUNCTION repricer.fitting(p_sum numeric, p_what text) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN abs(p_sum) > 9223372036854775807 THEN repricer.figure(p_sum, p_what) ELSE p_sum::bigint END;

-- The seats of a paid period of one item, from its charges: those of its renewal, or of the latest purchase that took its
-- place, and those that were added since then and not refunded. The transaction of a modification contains the seats that
-- were added before it (an inference). Null: none. For a period with one charge this need not be called.
CREATE FUNCTION repricer.seats_of(p_charges anyarray) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
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

-- What a charge would have brought at the old price; for a partly refunded charge, only for the part that was kept.
-- Its body is parsed SQL and no text, so that readers of a view need no right to schema repricer.
CREATE FUNCTION repricer.at_old_price(p_old bigint, p_price bigint, p_quantity bigint, p_refunded bigint, p_transaction text)
    RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN CASE WHEN p_refunded = 0 AND p_quantity = 1 THEN p_old
        WHEN p_refunded = 0 THEN repricer.fitting(p_old::numeric * p_quantity,
            'the seats of transaction ' || p_transaction || ', at the old price,')
        ELSE repricer.fitting(round(p_old::numeric * (p_price * p_quantity - p_refunded) / p_price),
            'the seats of transaction ' || p_transaction || ', at the old price,') END;

-- Whether the call of a change was refused, and no later one may have been applied. Its body is no text: see at_old_price.
CREATE FUNCTION repricer.is_refused(p_state text, p_refused_at timestamptz, p_doubtful_since timestamptz) RETURNS boolean
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN p_state = 'rejected' OR p_refused_at IS NOT NULL AND p_doubtful_since IS NULL
        AND p_state IN ('queued', 'ineligible', 'missed', 'aborted');

-- Whether a charge is one of a change's item, under any of its names. Once the item was charged under a newer name, a former one is
-- another item's.
CREATE FUNCTION repricer.is_of_item(p_charged text, p_at timestamptz, p_sku text, p_current_sku text, p_former_skus text[],
    p_former_until timestamptz[]) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN p_charged = coalesce(p_current_sku, p_sku)
        OR coalesce(p_at < p_former_until[array_position(p_former_skus, p_charged)], p_charged = p_sku OR p_charged = ANY (p_former_skus), false);

-- The same for the names of an item, that of today first and the submitted one next.
CREATE FUNCTION repricer.is_of_item(p_charged text, p_at timestamptz, p_names text[], p_former_skus text[],
    p_former_until timestamptz[]) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
    RETURN p_charged = p_names[1]
        OR coalesce(p_at < p_former_until[array_position(p_former_skus, p_charged)], p_charged = ANY (p_names));

-- Each renewal that was charged at a changed price, under the one change that set the price: the newest in effect then.
-- A later change back to the same price takes the later renewals. Renewals under any name of the item count alike. An undo
-- sets no price of its own: its renewals stay under the change that set it. A partly refunded renewal counts with the part
-- that was kept, in the old price as well. A renewal that was refunded in full is left out.
CREATE VIEW repricer.charged_renewals AS
SELECT c.batch_id, c.original_transaction_id, c.change_id, h.transaction_id, h.purchased_at,
    repricer.at_old_price(c.current_price_milliunits, h.price_milliunits, h.quantity, h.refunded_milliunits, h.transaction_id)
        AS old_price_milliunits,
    h.price_milliunits * h.quantity - h.refunded_milliunits AS price_milliunits,
    -- What was kept of it without tax; null where not all of that is signed.
    (SELECT CASE WHEN bool_and(k.tax_exclusive IS NOT NULL) THEN sum(k.tax_exclusive)::bigint END FROM (
        -- A charge or refund with its corrections. Nothing but zero without tax was signed of money, so a zero is what corrections
        -- have left where the newest amount has no tax.
        SELECT CASE WHEN sum(e.amount_milliunits) = 0 THEN 0 ELSE nullif(sum(e.tax_exclusive_milliunits), 0) END AS tax_exclusive
        FROM repricer.money_entries e
        WHERE e.original_transaction_id = h.original_transaction_id AND e.transaction_id = h.transaction_id
            AND e.sku = h.sku AND e.currency = h.currency
        GROUP BY e.kind, e.occurred_at, e.number) k) AS tax_exclusive_milliunits
FROM repricer.price_changes c
JOIN repricer.charges h ON h.original_transaction_id = c.original_transaction_id
    AND repricer.is_of_item(h.sku, h.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
    AND h.purchased_at >= c.effective_at AND h.price_milliunits = c.new_price_milliunits
    AND h.currency = c.currency
    AND (h.refunded_milliunits = 0 OR h.refunded_milliunits < h.price_milliunits * h.quantity)
WHERE c.state = 'effective' AND c.undoes_change_id IS NULL AND NOT EXISTS (
    SELECT FROM repricer.price_changes n
    WHERE n.original_transaction_id = c.original_transaction_id AND n.change_id <> c.change_id
        AND coalesce(n.current_sku, n.sku) = coalesce(c.current_sku, c.sku)
        AND n.state = 'effective' AND n.undoes_change_id IS NULL AND n.effective_at <= h.purchased_at
        AND (n.effective_at, n.change_id) > (c.effective_at, c.change_id));
COMMENT ON VIEW repricer.charged_renewals IS
    'Charged renewals, each under the one change that set its price.';

-- The same renewals, with one row for each change that was charged.
CREATE VIEW repricer.charged_changes AS
SELECT batch_id, original_transaction_id, change_id, count(*) AS renewals,
    min(purchased_at) AS first_at,
    repricer.fitting(sum(old_price_milliunits), 'the renewals of price change ' || change_id || ', at the old price,')
        AS old_total_milliunits,
    repricer.fitting(sum(price_milliunits), 'the renewals of price change ' || change_id) AS new_total_milliunits
FROM repricer.charged_renewals r
GROUP BY batch_id, original_transaction_id, change_id;
COMMENT ON VIEW repricer.charged_changes IS 'charged_renewals, one row a change.';

-- Each charge of an item since a change of ours was called, under the one change that explains it: the newest change in
-- effect if the charge has its price, else the newest that was called. A change that the App Store never had explains
-- nothing. A charge that is not as it should be has an exception in place of an explanation.
CREATE VIEW repricer.explained_charges AS
SELECT c.original_transaction_id, c.bucket, h.transaction_id, h.sku, h.purchased_at, h.price_milliunits, h.quantity,
    h.currency, h.storefront, h.refunded_milliunits, c.batch_id, c.change_id,
    CASE WHEN h.currency = c.currency THEN CASE WHEN t.is_in_effect THEN c.new_price_milliunits ELSE c.current_price_milliunits END
    END AS expected_milliunits,
    CASE WHEN w.exception IS NULL THEN w.explained_as END AS explained_as, w.exception,
    -- As charged_renewals counts it.
    CASE WHEN t.is_in_effect AND h.currency = c.currency AND h.price_milliunits = c.new_price_milliunits
            AND (h.refunded_milliunits = 0 OR h.refunded_milliunits < h.price_milliunits * h.quantity)
            AND (a.is_alone OR NOT EXISTS (
                SELECT FROM repricer.price_changes n
                WHERE n.original_transaction_id = c.original_transaction_id AND n.change_id <> c.change_id
                    AND coalesce(n.current_sku, n.sku) = coalesce(c.current_sku, c.sku)
                    AND n.state = 'effective' AND n.undoes_change_id IS NULL AND n.effective_at <= h.purchased_at
                    AND (n.effective_at, n.change_id) > (c.effective_at, c.change_id)))
        THEN h.price_milliunits * h.quantity - h.refunded_milliunits - repricer.at_old_price(c.current_price_milliunits,
            h.price_milliunits, h.quantity, h.refunded_milliunits, h.transaction_id) END AS uplift_milliunits
FROM repricer.price_changes c
-- Most changes are the only one of their subscription, and need not be compared with others charge by charge.
CROSS JOIN LATERAL (
    SELECT NOT EXISTS (
        SELECT FROM repricer.price_changes o
        WHERE o.original_transaction_id = c.original_transaction_id AND o.change_id <> c.change_id) AS is_alone
    OFFSET 0) a
CROSS JOIN LATERAL (SELECT repricer.is_refused(c.state, c.refused_at, c.doubtful_since) AS is_refused) r
-- OFFSET 0 makes PostgreSQL go change by change, instead of reading all charges for those of a batch.
CROSS JOIN LATERAL (
    SELECT k.*,
        -- Until when earlier charges paid. Added seats and refunded charges do not count. A purchase takes the place of what was
        -- paid for before it.
        max(k.expires_at) FILTER (WHERE NOT k.is_added_seat AND (NOT k.is_purchase OR k.revoked_at IS NULL)
            AND (k.refunded_milliunits = 0 OR k.refunded_milliunits < k.price_milliunits * k.quantity)) OVER (
            PARTITION BY k.sku, k.bought ORDER BY k.purchased_at, k.transaction_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS kept_before_until,
        max(k.expires_at) OVER (PARTITION BY k.sku ORDER BY k.purchased_at, k.transaction_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS paid_before_until,
        repricer.span(k.purchased_at, k.expires_at) / 2 AS half,
        -- The Sandbox's periods are short.
        least(repricer.days(1), repricer.span(k.purchased_at, k.expires_at) / 10) AS tolerance
    FROM (
        SELECT k.*, count(*) FILTER (WHERE k.is_purchase AND NOT k.is_added_seat AND k.revoked_at IS NULL)
            OVER (PARTITION BY k.sku ORDER BY k.purchased_at, k.transaction_id) AS bought
        FROM repricer.charges k
        WHERE k.original_transaction_id = c.original_transaction_id
            AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)) k
    OFFSET 0) h
CROSS JOIN LATERAL (
    SELECT c.state = 'effective' AND c.effective_at <= h.purchased_at AS is_in_effect,
        c.currency = h.currency AND (c.storefront = h.storefront OR h.storefront IS NULL) AS is_of_the_place,
        -- A double charge is a renewal for a time that was paid for already: it pays for nothing beyond that time, or was charged
        -- in the middle of it. A renewal that the App Store charges up to a day before its period begins is not double.
        NOT h.is_purchase AND coalesce(h.expires_at <= h.kept_before_until AND h.purchased_at < h.kept_before_until
            OR h.purchased_at < h.kept_before_until - interval '1 minute'
                AND coalesce(h.kept_before_until > least(h.purchased_at + repricer.days(1), h.purchased_at + h.half)
                    OR h.expires_at < h.kept_before_until + h.half, true), false) AS is_double
) t
CROSS JOIN LATERAL (
    SELECT
        CASE
            -- Counted as in charged_renewals: in the currency of the change, in any storefront, even as an offer at that price.
            WHEN t.is_in_effect AND h.currency = c.currency AND h.price_milliunits = c.new_price_milliunits THEN 'new_price'
            WHEN h.is_offer THEN 'offer'
            WHEN NOT t.is_of_the_place THEN 'moved'
            WHEN t.is_in_effect AND u.is_undone THEN 'undone'
            WHEN e.is_back THEN 'new_purchase'
            WHEN NOT t.is_in_effect AND h.price_milliunits = c.current_price_milliunits THEN 'old_price'
            WHEN h.is_purchase THEN 'new_purchase'
        END AS explained_as,
        CASE
            WHEN h.price_milliunits * h.quantity > 0 AND h.refunded_milliunits >= h.price_milliunits * h.quantity
                THEN 'refunded'
            WHEN t.is_double THEN 'double'
            WHEN h.is_relisted THEN 'relisted'
            -- The currency XXX means that no statement told it, so the amount says nothing.
            WHEN h.currency <> c.currency AND (h.storefront = c.storefront OR h.currency = 'XXX') THEN 'wrong_currency'
            -- A customer who left may buy again. A purchase at exactly the price of the change would put it into effect, unless
            -- it was declined; that must be examined.
            WHEN c.state = 'declined' AND c.reason IS DISTINCT FROM 'parent_declined' AND (h.purchased_at > c.ended_at OR e.is_at_end)
                AND NOT e.is_back THEN 'declined_yet_charged'
            WHEN c.state IN ('declined', 'cancelled', 'lapsed') AND (h.purchased_at > c.ended_at OR e.is_at_end) AND NOT e.is_back
                THEN 'after_end'
            WHEN t.is_in_effect AND e.is_after_end THEN 'after_end'
            -- Above the old price only these explain a charge, wherever it was bought: an offer, our new price, an undo of it,
            -- or a part of our price for an added seat.
            WHEN NOT h.is_offer AND h.currency = c.currency AND h.price_milliunits > c.current_price_milliunits
                AND NOT (t.is_in_effect AND (h.price_milliunits = c.new_price_milliunits OR u.is_undone
                    OR h.is_added_seat AND h.price_milliunits < c.new_price_milliunits)) THEN 'other_price'
            WHEN h.is_offer OR NOT t.is_of_the_place OR h.is_purchase OR e.is_back OR (t.is_in_effect AND u.is_undone)
                THEN CASE WHEN h.refunded_milliunits > 0 THEN 'refunded' END
            WHEN h.price_milliunits <> CASE WHEN t.is_in_effect THEN c.new_price_milliunits
                ELSE c.current_price_milliunits END THEN 'other_price'
            WHEN h.refunded_milliunits > 0 THEN 'refunded'
        END AS exception
    FROM (SELECT NOT a.is_alone AND EXISTS (
            SELECT FROM repricer.price_changes u
            WHERE u.original_transaction_id = c.original_transaction_id AND u.undoes_change_id = c.change_id
                AND u.scheduled_at IS NOT NULL AND h.price_milliunits = u.new_price_milliunits) AS is_undone,
        -- A failed charge that is recovered in its grace period keeps the date of its period.
        EXISTS (
            SELECT FROM repricer.told_statements q
            WHERE q.original_transaction_id = c.original_transaction_id
                AND q.type IN ('DID_FAIL_TO_RENEW', 'GRACE_PERIOD_EXPIRED')
                AND q.signed_at > h.purchased_at - h.tolerance AND q.signed_at < h.purchased_at + h.half) AS had_failed) u
    CROSS JOIN LATERAL (
        -- A renewal although a statement told that the subscription had ended: after a time that nobody paid for, or at the end
        -- itself. A customer who comes back buys it again. Where no statement told of that purchase, a later one may tell when
        -- the subscription began anew. Apple's recentSubscriptionStartDate ignores lapses of 60 days or fewer.
        SELECT t.is_in_effect AND NOT h.is_purchase AND CASE
            WHEN h.paid_before_until < h.purchased_at - interval '1 minute' THEN EXISTS (
                SELECT FROM repricer.told_statements q
                WHERE q.original_transaction_id = c.original_transaction_id AND q.type = 'EXPIRED'
                    AND q.signed_at > h.paid_before_until - repricer.days(1) AND q.signed_at < h.purchased_at)
                AND NOT EXISTS (
                SELECT FROM repricer.told_statements q
                WHERE q.original_transaction_id = c.original_transaction_id AND q.signed_at >= h.paid_before_until
                    AND (q.statement #>> '{renewal,recentSubscriptionStartAt}')::numeric
                        BETWEEN extract(epoch FROM h.paid_before_until + interval '1 minute') * 1000
                            AND extract(epoch FROM h.purchased_at) * 1000)
            -- The end of its own period is told at expires_at.
            ELSE coalesce(h.revoked_at > h.purchased_at + h.half, true) AND EXISTS (
                SELECT FROM repricer.told_statements q
                WHERE q.original_transaction_id = c.original_transaction_id AND q.type = 'EXPIRED'
                    AND q.signed_at > h.purchased_at - h.tolerance AND q.signed_at < h.purchased_at + h.half)
                AND NOT u.had_failed
            END OR t.is_in_effect AND NOT h.is_purchase AND EXISTS (
                -- Or a statement told that it was revoked, and this is the next charge.
                SELECT FROM repricer.told_statements q
                WHERE q.original_transaction_id = c.original_transaction_id AND q.type IN ('REFUND', 'REVOKE') AND q.status = '5'
                    AND q.signed_at >= c.effective_at AND q.signed_at < h.purchased_at
                    AND NOT EXISTS (
                        SELECT FROM repricer.charges b
                        WHERE b.original_transaction_id = c.original_transaction_id
                            AND repricer.is_of_item(b.sku, b.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
                            AND b.purchased_at > q.signed_at AND b.purchased_at < h.purchased_at)
                    AND NOT EXISTS (
                        SELECT FROM repricer.told_statements r
                        WHERE r.original_transaction_id = c.original_transaction_id AND r.signed_at > q.signed_at
                            AND (r.type IN ('SUBSCRIBED', 'REFUND_REVERSED') AND r.signed_at < h.purchased_at + h.half
                                OR (r.statement #>> '{renewal,recentSubscriptionStartAt}')::numeric
                                    BETWEEN extract(epoch FROM q.signed_at) * 1000 AND extract(epoch FROM h.purchased_at) * 1000)))
            AS is_after_end,
        -- The same for a change that this end has ended. The end is signed at the former expires_at or later, so the period that
        -- begins there is after the end. A refund, or an item that is dropped within a period, ends a period that was charged.
        NOT h.is_purchase AND h.purchased_at <= c.ended_at
            AND c.ended_at < h.purchased_at + CASE WHEN c.reason = 'item_missing_at_renewal' THEN h.tolerance ELSE h.half END
            AND c.reason IS DISTINCT FROM 'refunded_or_revoked' AND c.reason IS DISTINCT FROM 'item_refunded'
            AND h.purchased_at >= h.paid_before_until - interval '1 minute' AND coalesce(h.revoked_at > c.ended_at, true)
            AND NOT u.had_failed AS is_at_end,
        -- The customer bought it again: after the change had ended or, while it is in effect, at the old price or less. Or it is
        -- a renewal at that price. While a change is in effect, only a customer who had left buys the item again: a statement
        -- told of the end, or nothing was paid for then. A modification within a paid period explains no renewal.
        -- The App Store may date a purchase at the very instant of the end.
        (c.state IN ('declined', 'cancelled', 'lapsed') AND (h.purchased_at > c.ended_at OR h.is_purchase AND h.purchased_at = c.ended_at)
                AND (h.price_milliunits <> c.new_price_milliunits OR h.currency <> c.currency)
            OR t.is_in_effect AND h.price_milliunits <= c.current_price_milliunits)
            AND (h.is_purchase OR EXISTS (
                SELECT FROM repricer.charges b
                WHERE b.original_transaction_id = c.original_transaction_id
                    AND repricer.is_of_item(b.sku, b.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
                    AND b.is_purchase
                    AND NOT b.is_added_seat
                    AND CASE WHEN t.is_in_effect THEN b.purchased_at > c.effective_at ELSE b.purchased_at >= c.ended_at END
                    AND b.purchased_at < h.purchased_at
                    -- An offer by which the customer came back says nothing of the price that follows it. Nor does a price in
                    -- the storefront where the customer came back of one in a storefront to which the customer moved afterwards.
                    AND (b.currency = h.currency AND (b.price_milliunits = h.price_milliunits
                            OR b.is_offer AND h.price_milliunits <= c.current_price_milliunits)
                        OR b.storefront <> h.storefront)
                    AND (NOT t.is_in_effect OR EXISTS (
                        SELECT FROM repricer.told_statements q
                        WHERE q.original_transaction_id = c.original_transaction_id AND q.type = 'EXPIRED'
                            AND q.signed_at > c.effective_at AND q.signed_at < b.purchased_at) OR NOT EXISTS (
                        SELECT FROM repricer.charges p
                        WHERE p.original_transaction_id = c.original_transaction_id
                            AND repricer.is_of_item(p.sku, p.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
                            AND p.purchased_at < b.purchased_at
                            AND coalesce(p.expires_at > b.purchased_at - interval '1 minute', true) AND p.revoked_at IS NULL
                            AND (p.refunded_milliunits = 0
                                OR p.refunded_milliunits < p.price_milliunits * p.quantity))))) AS is_back) e
) w
-- Charges count from the first call that may have reached the App Store.
WHERE h.purchased_at >= coalesce(least(c.sent_at, c.doubtful_since), c.scheduled_at, c.refused_at) AND c.undoes_change_id IS NULL
    AND (c.state NOT IN ('ineligible', 'missed', 'aborted') OR r.is_refused)
    -- A refused change explains nothing. But a renewal above the old price, or at the refused price, must be examined where
    -- no other change is about it, and where the customer has not bought it at that price since.
    AND (NOT r.is_refused OR coalesce(c.sent_at, c.refused_at) IS NOT NULL AND NOT h.is_purchase AND NOT h.is_offer AND t.is_of_the_place
        AND (h.price_milliunits > c.current_price_milliunits
            OR h.price_milliunits = c.new_price_milliunits AND h.price_milliunits < c.current_price_milliunits)
        AND NOT EXISTS (
            SELECT FROM repricer.charges b
            WHERE b.original_transaction_id = c.original_transaction_id
                AND repricer.is_of_item(b.sku, b.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
                AND b.is_purchase AND NOT b.is_added_seat
                AND b.purchased_at >= coalesce(c.sent_at, c.refused_at) AND b.purchased_at < h.purchased_at
                AND b.currency = h.currency AND b.price_milliunits = h.price_milliunits)
        -- Rows that were refused do not follow a rename, so that the charge's own name decides.
        AND (a.is_alone OR NOT EXISTS (
            SELECT FROM repricer.price_changes n
            WHERE n.original_transaction_id = c.original_transaction_id AND n.change_id <> c.change_id
                AND repricer.is_of_item(h.sku, h.purchased_at, n.sku, n.current_sku, n.former_skus, n.former_until)
                AND h.purchased_at >= coalesce(least(n.sent_at, n.doubtful_since), n.scheduled_at, n.refused_at)
                AND CASE WHEN repricer.is_refused(n.state, n.refused_at, n.doubtful_since)
                    THEN (coalesce(n.sent_at, n.refused_at), n.change_id) > (coalesce(c.sent_at, c.refused_at), c.change_id)
                    ELSE n.state NOT IN ('ineligible', 'missed', 'aborted') END
            OFFSET 0)))
    AND (r.is_refused OR a.is_alone OR NOT EXISTS (
        SELECT FROM repricer.price_changes n
        WHERE n.original_transaction_id = c.original_transaction_id AND n.change_id <> c.change_id
            AND coalesce(n.current_sku, n.sku) = coalesce(c.current_sku, c.sku) AND n.undoes_change_id IS NULL
            AND n.state NOT IN ('rejected', 'ineligible', 'missed', 'aborted')
            AND h.purchased_at >= coalesce(least(n.sent_at, n.doubtful_since), n.scheduled_at)
            AND (n.state = 'effective' AND n.effective_at <= h.purchased_at
                    AND n.new_price_milliunits = h.price_milliunits AND n.currency = h.currency
                    AND NOT EXISTS (
                        SELECT FROM repricer.price_changes y
                        WHERE y.original_transaction_id = n.original_transaction_id AND y.state = 'effective'
                            AND y.undoes_change_id IS NULL
                            AND coalesce(y.current_sku, y.sku) = coalesce(n.current_sku, n.sku)
                            AND y.effective_at <= h.purchased_at
                            AND (y.effective_at, y.change_id) > (n.effective_at, n.change_id)),
                coalesce(least(n.sent_at, n.doubtful_since), n.scheduled_at), n.change_id)
                > (t.is_in_effect AND c.new_price_milliunits = h.price_milliunits AND c.currency = h.currency
                    AND NOT EXISTS (
                        SELECT FROM repricer.price_changes y
                        WHERE y.original_transaction_id = c.original_transaction_id AND y.state = 'effective'
                            AND y.undoes_change_id IS NULL
                            AND coalesce(y.current_sku, y.sku) = coalesce(c.current_sku, c.sku)
                            AND y.effective_at <= h.purchased_at
                            AND (y.effective_at, y.change_id) > (c.effective_at, c.change_id)),
                coalesce(least(c.sent_at, c.doubtful_since), c.scheduled_at), c.change_id)
        OFFSET 0));
COMMENT ON VIEW repricer.explained_charges IS
    'Each charge since the call of a change of its item: why it is as it is, or what is wrong with it.';

-- A renewal is missing where a paid period ended, a later one is known, and no statement in between tells why no charge
-- came: of a failed charge, say, or of an end. A statement counts where it is about the paid period of this item. Where
-- several periods have passed, each of their renewals is missing. This holds for the Sandbox's short periods, too. A missing
-- renewal belongs to the change in effect, else to the newest that had been called by then.
CREATE VIEW repricer.missing_renewals AS
SELECT c.batch_id, c.original_transaction_id, c.change_id, h.sku, missed.at AS occurred_at,
    -- The first charge at the new price may be the one that is missing.
    repricer.fitting(CASE WHEN h.currency <> c.currency THEN NULL
        -- The App Store may date a renewal some moments off.
        WHEN t.is_in_effect OR c.state = 'effective' AND missed.at >= c.due_effective_at - least(interval '1 hour', h.length / 10)
            THEN c.new_price_milliunits
        ELSE c.current_price_milliunits END::numeric * CASE WHEN h.paid_by = 1 AND NOT h.is_added_seat THEN h.quantity ELSE coalesce((
            SELECT repricer.seats_of(array_agg(k)) FROM repricer.charges k
            WHERE k.original_transaction_id = c.original_transaction_id
                AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
                AND k.expires_at = h.expires_at), 1) END, 'the seats of price change ' || c.change_id) AS expected_milliunits,
    h.currency, h.storefront, c.bucket
FROM repricer.price_changes c
-- OFFSET 0 has the same reason as in explained_charges. Periods that were followed in time are dropped before anything else is
-- asked of them.
CROSS JOIN LATERAL (
    -- All are charges of one item, whatever it was called. Of two charges at one instant only the first counts.
    SELECT k.*, min(k.purchased_at) OVER (ORDER BY k.purchased_at
        RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING EXCLUDE GROUP) AS next_at,
        row_number() OVER (PARTITION BY k.purchased_at ORDER BY k.is_purchase, k.transaction_id, k.sku) AS place,
        max(k.expires_at) FILTER (WHERE k.revoked_at IS NULL AND (k.refunded_milliunits = 0
            OR k.refunded_milliunits < k.price_milliunits * k.quantity))
            OVER (PARTITION BY k.bought ORDER BY k.purchased_at) AS kept_until,
        count(*) OVER (PARTITION BY k.expires_at) AS paid_by,
        -- A seat that is added in the middle of a period has no beginning of its own, and no length.
        min(k.purchased_at) OVER (PARTITION BY k.expires_at) AS began_at,
        repricer.span(min(k.purchased_at) OVER (PARTITION BY k.expires_at), k.expires_at) AS length
    FROM (
        SELECT k.*, count(*) FILTER (WHERE k.is_purchase AND NOT k.is_added_seat AND k.revoked_at IS NULL)
            OVER (ORDER BY k.purchased_at) AS bought
        FROM repricer.charges k
        WHERE k.original_transaction_id = c.original_transaction_id
            AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)) k
    OFFSET 0) h
CROSS JOIN LATERAL (
    SELECT c.state = 'effective' AND h.purchased_at >= c.effective_at AS is_in_effect,
        least(repricer.days(1), h.length / 10) AS tolerance,
        -- A seat that was added may bear the end that the period had before it was extended.
        greatest(h.expires_at, h.kept_until) AS ends_at,
        -- A period that follows an extended one, or one that an offer paid for as a whole, is as long as the customer's plan says.
        CASE WHEN h.length < repricer.days(6) THEN h.length ELSE CASE coalesce(h.period, c.period)
            WHEN 'P1W' THEN interval '7 days' WHEN 'P2M' THEN interval '2 months' WHEN 'P3M' THEN interval '3 months'
            WHEN 'P6M' THEN interval '6 months' WHEN 'P1Y' THEN interval '1 year' ELSE interval '1 month' END END AS step) t
CROSS JOIN LATERAL (
    -- The next known renewal: that of a charge, or of the running period.
    SELECT least(h.next_at, CASE WHEN p.purchased_at > h.purchased_at THEN p.purchased_at END) AS at
    FROM (SELECT (SELECT s.purchased_at FROM repricer.subscriptions s
        WHERE s.original_transaction_id = c.original_transaction_id) AS purchased_at OFFSET 0) p
    WHERE h.expires_at IS NOT NULL
        AND coalesce(h.next_at > t.ends_at + t.tolerance, true)
    OFFSET 0
) next
CROSS JOIN LATERAL (
    -- Months are added in UTC, whatever the zone of the session. They are added to the start of the paid period where that is
    -- one step long, so that a short month does not move what follows it, and otherwise to its end. If a charge was recovered
    -- on one of the last days of a month, the dates after it may be up to three days late.
    SELECT d.at, n.n AS place
    FROM generate_series(0, least(400, greatest(0, extract(epoch FROM next.at - t.ends_at)
        / greatest(1, extract(epoch FROM t.step))))::integer) AS n (n)
    CROSS JOIN LATERAL (
        SELECT CASE WHEN h.began_at AT TIME ZONE 'UTC' + t.step = t.ends_at AT TIME ZONE 'UTC'
            THEN h.began_at AT TIME ZONE 'UTC' + (n.n + 1) * t.step
            ELSE t.ends_at AT TIME ZONE 'UTC' + n.n * t.step END AT TIME ZONE 'UTC' AS at) d
    WHERE n.n = 0 OR extract(epoch FROM next.at - d.at) > extract(epoch FROM t.step) / 2
) missed
WHERE h.place = 1 AND c.undoes_change_id IS NULL AND c.state NOT IN ('rejected', 'ineligible', 'missed', 'aborted')
    AND next.at > t.ends_at + t.tolerance
    -- An item that is not set to renew, while others do. Its first renewal that did not come is reported, because no statement
    -- told that it would not; but not where an increase had asked for consent, without which the App Store drops the item.
    AND (NOT c.is_leaving OR h.next_at IS NOT NULL OR missed.place = 0 AND NOT EXISTS (
        SELECT FROM repricer.told_statements q
        WHERE q.original_transaction_id = c.original_transaction_id AND q.type = 'PRICE_INCREASE' AND q.subtype = 'PENDING'
            AND q.signed_at BETWEEN h.began_at AND missed.at + t.tolerance))
    -- Left out: the item was revoked within the period, or all of it was refunded and it was never charged again, and no other
    -- charge pays for the end of the period.
    AND NOT ((h.revoked_at IS NOT NULL AND h.revoked_at <= h.expires_at + repricer.days(1)
            OR h.next_at IS NULL AND h.refunded_milliunits > 0 AND h.refunded_milliunits >= h.price_milliunits * h.quantity)
        AND coalesce(h.kept_until < h.expires_at - t.tolerance, true))
    -- Before the change is in effect, renewals count from its call until its end.
    AND (t.is_in_effect OR missed.at >= coalesce(c.sent_at, c.doubtful_since, c.scheduled_at)
        AND (c.state NOT IN ('declined', 'cancelled', 'lapsed', 'invalidated') OR next.at < c.ended_at)
        AND NOT EXISTS (
            SELECT FROM repricer.price_changes o
            WHERE o.original_transaction_id = c.original_transaction_id AND o.change_id <> c.change_id
                AND o.undoes_change_id IS NULL AND coalesce(o.current_sku, o.sku) = coalesce(c.current_sku, c.sku)
                AND (o.state = 'effective' AND o.effective_at <= h.purchased_at
                    OR o.state NOT IN ('rejected', 'ineligible', 'missed', 'aborted')
                    AND (o.state NOT IN ('declined', 'cancelled', 'lapsed', 'invalidated') OR next.at < o.ended_at)
                    AND coalesce(o.sent_at, o.doubtful_since, o.scheduled_at) <= missed.at
                    AND (coalesce(o.sent_at, o.doubtful_since, o.scheduled_at), o.change_id)
                        > (coalesce(c.sent_at, c.doubtful_since, c.scheduled_at), c.change_id))))
    AND NOT EXISTS (
        SELECT FROM repricer.told_statements e
        WHERE e.original_transaction_id = h.original_transaction_id
            AND (e.type IN ('DID_FAIL_TO_RENEW', 'GRACE_PERIOD_EXPIRED', 'EXPIRED', 'SUBSCRIBED', 'REVOKE',
                    'RENEWAL_EXTENDED', 'OFFER_REDEEMED', 'DID_CHANGE_RENEWAL_PREF')
                -- A recovered charge shows that the charge before it had failed, even where no statement of that failure is known.
                OR e.type = 'DID_RENEW' AND e.subtype = 'BILLING_RECOVERY'
                    AND missed.at BETWEEN e.signed_at - repricer.days(61) AND e.signed_at)
            -- An extension that tells the new end has moved the end of the charge, so the renewal is due then. Seats come and go
            -- without another plan, and a customer who has just bought the item goes on to renew.
            AND (e.type <> 'RENEWAL_EXTENDED' OR NOT e.tells_end)
            AND (e.type <> 'SUBSCRIBED' OR e.signed_at > h.began_at + h.length / 2)
            AND e.signed_at BETWEEN h.began_at AND next.at + repricer.days(1)
            -- A failed charge is tried again for 60 days. It proves nothing about a renewal before it, or later than that.
            -- What ends by it may be told only then. An end tells of all that would have come after it.
            AND (e.type <> 'DID_FAIL_TO_RENEW'
                OR missed.at BETWEEN e.signed_at - repricer.days(1) AND e.signed_at + repricer.days(61))
            AND (e.type <> 'GRACE_PERIOD_EXPIRED'
                OR missed.at BETWEEN e.signed_at - repricer.days(61) AND e.signed_at + repricer.days(61))
            AND (e.type <> 'EXPIRED' OR missed.at >= e.signed_at - repricer.days(61))
            -- Another plan was chosen for the renewals that follow. A statement without a subtype takes the choice back, unless
            -- it lists what renews, and this item is not among it. What the customer changed by buying this very period is this
            -- plan already.
            AND (e.type <> 'DID_CHANGE_RENEWAL_PREF'
                OR (e.subtype IN ('UPGRADE', 'DOWNGRADE') OR e.statement #> '{renewal,items,0}' IS NOT NULL)
                AND e.signed_at <= missed.at + repricer.days(1)
                -- The choice is about another item where this one renews as before.
                AND NOT coalesce((e.statement #> '{renewal,items}' @> jsonb_build_array(jsonb_build_object('sku', h.sku))
                        OR e.statement #> '{renewal,items}'
                            @> jsonb_build_array(jsonb_build_object('sku', coalesce(c.current_sku, c.sku))))
                    AND e.statement #>> '{renewal,period}' = coalesce(h.period, c.period), false)
                AND NOT (h.is_purchase AND NOT h.is_added_seat AND e.signed_at <= h.purchased_at + t.tolerance)
                AND NOT EXISTS (
                    SELECT FROM repricer.told_statements b
                    WHERE b.original_transaction_id = h.original_transaction_id AND b.type = 'DID_CHANGE_RENEWAL_PREF'
                        AND coalesce(b.subtype, '') = ''
                        AND b.signed_at > e.signed_at AND b.signed_at <= missed.at + repricer.days(1)
                        -- It may be about other items, while this one stays off the renewal.
                        AND (b.statement #> '{renewal,items}' IS NULL
                            OR b.statement #> '{renewal,items}' @> jsonb_build_array(jsonb_build_object('sku', h.sku))
                            OR b.statement #> '{renewal,items}'
                                @> jsonb_build_array(jsonb_build_object('sku', coalesce(c.current_sku, c.sku)))))))
    -- The item fell, by a later change of its own or as a dependent, and the subscription goes on without it.
    AND NOT EXISTS (
        SELECT FROM repricer.price_changes n
        WHERE n.original_transaction_id = c.original_transaction_id AND n.change_id <> c.change_id
            AND n.state IN ('declined', 'cancelled', 'lapsed') AND coalesce(n.current_sku, n.sku) = coalesce(c.current_sku, c.sku)
            AND n.ended_at BETWEEN h.began_at AND next.at)
    AND NOT EXISTS (
        SELECT FROM repricer.dependent_cancellations d
        WHERE d.original_transaction_id = c.original_transaction_id AND d.dependent_sku = h.sku
            AND NOT d.is_cross_subscription AND d.state = 'confirmed'
            AND d.requested_at BETWEEN h.began_at AND next.at)
    AND NOT EXISTS (
        SELECT FROM repricer.price_changes n
        WHERE n.original_transaction_id = c.original_transaction_id AND n.change_id <> c.change_id
            AND n.state = 'effective' AND n.undoes_change_id IS NULL AND coalesce(n.current_sku, n.sku) = coalesce(c.current_sku, c.sku)
            AND n.effective_at <= h.purchased_at AND (n.effective_at, n.change_id) > (c.effective_at, c.change_id));
COMMENT ON VIEW repricer.missing_renewals IS 'Renewals of called changes that no charge tells of.';

-- For an item that took a new price and is set to renew: until when it is paid. Where no statement follows, its renewals have
-- stopped silently, and it is not known whether the customer still pays. A failed charge may be tried again for 60 days, and a
-- renewal may be postponed by 90 days where no statement says until when.
CREATE VIEW repricer.paid_changes AS
SELECT c.batch_id, c.original_transaction_id, c.bucket, c.change_id, c.currency, c.storefront, c.new_price_milliunits, h.sku,
    CASE WHEN h.paid_by = 1 AND NOT h.is_added_seat THEN h.quantity ELSE coalesce((
        SELECT repricer.seats_of(array_agg(k)) FROM repricer.charges k
        WHERE k.original_transaction_id = c.original_transaction_id
            AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
            AND k.purchased_at >= c.effective_at AND k.expires_at = h.expires_at), 1) END AS quantity,
    h.expires_at AS paid_until, greatest(h.expires_at, e.until) AS word_due_at,
    -- A refunded charge says nothing about the price of later renewals.
    g.is_given_back OR h.is_offer OR h.currency = c.currency AND (h.is_added_seat OR h.price_milliunits = c.new_price_milliunits
        OR coalesce(h.price_milliunits = ANY (n.prices), false)) AS is_at_price,
    n.prices IS NULL AS is_newest, g.is_given_back
FROM repricer.price_changes c
-- OFFSET 0: as explained_charges.
CROSS JOIN LATERAL (
    SELECT k.*, count(*) OVER (PARTITION BY k.expires_at) AS paid_by
    FROM repricer.charges k
    WHERE k.original_transaction_id = c.original_transaction_id
        AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
        AND k.purchased_at >= c.effective_at AND k.expires_at IS NOT NULL
    -- An added seat, or a second charge, may be refunded while the period stays paid. An added seat may cost only a part of the
    -- price, so it says nothing about the price of later renewals. After a rename, another item may have taken the former name.
    ORDER BY k.expires_at DESC, k.revoked_at IS NOT NULL,
        k.refunded_milliunits > 0 AND k.refunded_milliunits >= k.price_milliunits * k.quantity, k.is_added_seat,
        k.purchased_at DESC, k.transaction_id, k.sku = coalesce(c.current_sku, c.sku) DESC, k.sku LIMIT 1) h
CROSS JOIN LATERAL (
    -- Such an item falls silent like any other of which no statement tells any more, and then brings nothing in a further
    -- period. But none of its charges is missing: the refund may be the reason why none came.
    SELECT h.refunded_milliunits > 0 AND h.refunded_milliunits >= h.price_milliunits * h.quantity AS is_given_back) g
CROSS JOIN LATERAL (
    SELECT coalesce(bool_or(t.type IN ('EXPIRED', 'REVOKE')), false) AS is_ended,
        -- An extension that tells the new end has moved that of the charge.
        max(t.signed_at + CASE t.type WHEN 'RENEWAL_EXTENDED' THEN repricer.days(90) ELSE repricer.days(61) END)
            FILTER (WHERE t.type NOT IN ('EXPIRED', 'REVOKE') AND (t.type <> 'RENEWAL_EXTENDED' OR NOT t.tells_end)) AS until
    FROM repricer.told_statements t
    WHERE t.original_transaction_id = c.original_transaction_id AND t.signed_at > h.purchased_at
        AND t.type IN ('EXPIRED', 'REVOKE', 'DID_FAIL_TO_RENEW', 'GRACE_PERIOD_EXPIRED', 'RENEWAL_EXTENDED')) e
-- The prices of changes that took effect after this one. They contain what it added.
CROSS JOIN LATERAL (
    SELECT array_agg(o.new_price_milliunits) AS prices FROM repricer.price_changes o
    WHERE o.original_transaction_id = c.original_transaction_id AND o.change_id <> c.change_id
        AND o.state = 'effective' AND o.undoes_change_id IS NULL
        AND coalesce(o.current_sku, o.sku) = coalesce(c.current_sku, c.sku)
        AND (o.effective_at, o.change_id) > (c.effective_at, c.change_id)) n
WHERE c.state = 'effective' AND NOT c.is_leaving AND c.undoes_change_id IS NULL AND NOT e.is_ended AND h.revoked_at IS NULL;
COMMENT ON VIEW repricer.paid_changes IS
    'Effective changes whose item is set to renew: until when it is paid, whether at the new price or one set since, and by when '
    'a statement about it is due. Where the last charge was refunded as a whole, until when that charge paid.';

-- That one subscription is silent means something only as long as others are heard: up to the newest charge of anybody, less
-- three days, because a notification may come late.
CREATE VIEW repricer.heard_charges AS
SELECT max(e.occurred_at) - repricer.days(3) AS until FROM repricer.money_entries e WHERE e.kind = 'charge' AND e.occurred_at <= report.as_of();
COMMENT ON VIEW repricer.heard_charges IS
    'Three days before the newest charge of anybody. A subscription of which a statement was due before that is silent.';

-- Renewals that stopped silently before their change was in effect: the renewal before it, at the old price; and the renewal
-- at which it is due, at the new price, where no consent is awaited any more. Otherwise nobody knows whether one was due
-- (silent_past_renewal). None is due for an item that is replaced or not set to renew, or while a charge is tried again. A
-- period that is still paid for is excluded first.
CREATE VIEW repricer.silent_open_changes AS
SELECT c.batch_id, c.original_transaction_id, c.bucket, c.change_id, h.sku, h.expires_at AS occurred_at,
    repricer.fitting(CASE WHEN h.currency <> c.currency THEN NULL
        WHEN t.is_before THEN c.current_price_milliunits ELSE c.new_price_milliunits END::numeric
        * CASE WHEN h.paid_by = 1 AND NOT h.is_added_seat THEN h.quantity ELSE coalesce((
            SELECT repricer.seats_of(array_agg(k)) FROM repricer.charges k
            WHERE k.original_transaction_id = c.original_transaction_id
                AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
                AND k.expires_at = h.expires_at), 1) END, 'the seats of price change ' || c.change_id) AS expected_milliunits,
    h.currency, h.storefront
FROM repricer.price_changes c
CROSS JOIN (SELECT d.until FROM repricer.heard_charges d) d
LEFT JOIN repricer.subscriptions s ON s.original_transaction_id = c.original_transaction_id AND s.bucket = c.bucket
-- OFFSET 0 and the order of charges: as paid_changes.
CROSS JOIN LATERAL (
    SELECT k.*, count(*) OVER (PARTITION BY k.expires_at) AS paid_by
    FROM repricer.charges k
    WHERE k.original_transaction_id = c.original_transaction_id
        AND repricer.is_of_item(k.sku, k.purchased_at, c.sku, c.current_sku, c.former_skus, c.former_until)
        AND k.expires_at IS NOT NULL
    ORDER BY k.expires_at DESC, k.revoked_at IS NOT NULL,
        k.refunded_milliunits > 0 AND k.refunded_milliunits >= k.price_milliunits * k.quantity, k.is_added_seat,
        k.purchased_at DESC, k.transaction_id, k.sku = coalesce(c.current_sku, c.sku) DESC, k.sku LIMIT 1) h
CROSS JOIN LATERAL (
    SELECT coalesce(bool_or(t.type IN ('EXPIRED', 'REVOKE')), false) AS is_ended,
        max(t.signed_at + CASE t.type WHEN 'RENEWAL_EXTENDED' THEN repricer.days(90) ELSE repricer.days(61) END)
            FILTER (WHERE t.type IN ('DID_FAIL_TO_RENEW', 'GRACE_PERIOD_EXPIRED')
                OR t.type = 'RENEWAL_EXTENDED' AND NOT t.tells_end) AS until,
        -- The latest that was told. A status that was read counts, too.
        coalesce((array_agg(t.statement #>> '{renewal,autoRenewStatus}' ORDER BY t.signed_at DESC, t.evidence_id DESC)
            FILTER (WHERE t.statement #>> '{renewal,autoRenewStatus}' IS NOT NULL))[1] = '0', false) AS is_off,
        coalesce((array_agg(t.status ORDER BY t.signed_at DESC, t.evidence_id DESC)
            FILTER (WHERE t.status IS NOT NULL))[1] <> '1', false) AS is_in_trouble
    FROM repricer.told_statements t
    WHERE t.original_transaction_id = c.original_transaction_id AND t.signed_at > h.purchased_at) e
-- The App Store may date a renewal some moments off.
CROSS JOIN LATERAL (
    SELECT h.expires_at < c.due_effective_at - least(interval '1 hour', (h.expires_at - h.purchased_at) / 10) AS is_before) t
WHERE c.stage IN ('scheduled', 'pending_consent', 'accepted') AND c.undoes_change_id IS NULL
    AND c.reason IS DISTINCT FROM 'item_replaced' AND coalesce(s.expires_at, '-infinity') < d.until
    AND greatest(h.expires_at, e.until) < d.until AND NOT e.is_ended AND NOT e.is_off
    -- A charge is tried again for 60 days, also where only a status told of it.
    AND (NOT e.is_in_trouble OR h.expires_at + repricer.days(61) < d.until)
    AND h.expires_at >= coalesce(c.sent_at, c.doubtful_since, c.scheduled_at)
    AND (t.is_before OR c.stage = 'accepted' OR c.stage = 'scheduled' AND c.direction = 'decrease')
    AND h.revoked_at IS NULL AND (h.refunded_milliunits = 0 OR h.refunded_milliunits < h.price_milliunits * h.quantity)
    -- Where a later period runs, missing_renewals has the renewals until then. Where an earlier change is in effect, the renewal
    -- belongs to that one.
    AND coalesce(s.purchased_at <= h.purchased_at, true)
    AND NOT EXISTS (
        SELECT FROM repricer.price_changes o
        WHERE o.original_transaction_id = c.original_transaction_id AND o.change_id <> c.change_id
            AND o.state = 'effective' AND o.undoes_change_id IS NULL
            AND coalesce(o.current_sku, o.sku) = coalesce(c.current_sku, c.sku) AND o.effective_at <= h.purchased_at);
COMMENT ON VIEW repricer.silent_open_changes IS
    'Renewals that stopped silently, of changes that the App Store has and that are not in effect.';

CREATE VIEW repricer.live_charge_exceptions AS
SELECT x.batch_id, x.original_transaction_id, x.change_id, x.transaction_id, x.sku, x.exception,
    x.purchased_at AS occurred_at, x.price_milliunits * x.quantity AS amount_milliunits,
    repricer.fitting(x.expected_milliunits::numeric * x.quantity, 'the seats of transaction ' || x.transaction_id
        || ', as expected,') AS expected_milliunits, x.refunded_milliunits, x.currency, x.storefront, x.bucket
FROM repricer.explained_charges x WHERE x.exception IS NOT NULL
UNION ALL
SELECT r.batch_id, r.original_transaction_id, r.change_id, NULL, r.sku, 'missing', r.occurred_at, 0,
    r.expected_milliunits, 0, r.currency, r.storefront, r.bucket
FROM repricer.missing_renewals r
UNION ALL
SELECT p.batch_id, p.original_transaction_id, p.change_id, NULL, p.sku, 'missing', p.paid_until, 0,
    repricer.fitting(p.new_price_milliunits::numeric * p.quantity, 'the seats of price change ' || p.change_id), 0, p.currency, p.storefront, p.bucket
FROM repricer.paid_changes p
WHERE p.is_newest AND NOT p.is_given_back AND p.word_due_at < (SELECT d.until FROM repricer.heard_charges d)
    AND NOT EXISTS (
        SELECT FROM repricer.missing_renewals r
        WHERE r.original_transaction_id = p.original_transaction_id AND r.change_id = p.change_id AND r.sku = p.sku
            AND r.occurred_at = p.paid_until)
UNION ALL
SELECT o.batch_id, o.original_transaction_id, o.change_id, NULL, o.sku, 'missing', o.occurred_at, 0, o.expected_milliunits, 0,
    o.currency, o.storefront, o.bucket
FROM repricer.silent_open_changes o;
COMMENT ON VIEW repricer.live_charge_exceptions IS
    'What kept_exceptions keeps, computed from the facts, and renewals that stopped silently.';

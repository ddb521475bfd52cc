-- Undo of changes that Apple has scheduled and nobody was told of: an inverse change, in a batch of its own that
-- another person approves. The undone change ends once Apple shows that its price is no longer scheduled.
-- Locks: price_changes against writing while a unique index is built anew, seconds for some million open changes.
-- breaking: no

ALTER TABLE repricer.batches ADD COLUMN undoes_batch_id uuid;
COMMENT ON COLUMN repricer.batches.undoes_batch_id IS 'The batch whose scheduled changes this one takes back.';

ALTER TABLE repricer.price_changes
    ADD COLUMN undoes_change_id uuid,
    ADD CONSTRAINT price_changes_undoes FOREIGN KEY (original_transaction_id, undoes_change_id)
        REFERENCES repricer.price_changes (original_transaction_id, change_id),
    DROP CONSTRAINT price_changes_consent,
    ADD CONSTRAINT price_changes_consent CHECK (
        CASE WHEN undoes_change_id IS NOT NULL OR direction = 'decrease' THEN forecast_consent = 'none'
            ELSE forecast_consent IN ('required', 'not_required') END),
    DROP CONSTRAINT price_changes_not_india,
    -- To restore the price that is paid is no increase.
    ADD CONSTRAINT price_changes_not_india CHECK (
        direction = 'decrease' OR storefront <> 'IND' OR undoes_change_id IS NOT NULL);
COMMENT ON COLUMN repricer.price_changes.undoes_change_id IS 'The change that this one takes back: current_price_milliunits is then the price that was scheduled. Only undo_batch writes it.';

-- The undone change stays open beside its undo until Apple has taken that one.
DROP INDEX repricer.price_changes_one_open;
CREATE UNIQUE INDEX price_changes_one_open ON repricer.price_changes
    (original_transaction_id, coalesce(current_sku, sku))
    WHERE state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'scheduled', 'pending_consent', 'accepted')
        AND undoes_change_id IS NULL;
-- Once Apple has taken an undo nothing of it is open but the proof by the next charge: a new change may follow.
CREATE UNIQUE INDEX price_changes_one_undo ON repricer.price_changes (original_transaction_id, undoes_change_id)
    WHERE undoes_change_id IS NOT NULL AND state IN ('awaiting_approval', 'queued', 'sending', 'unknown');

-- An undo sets no price of its own: renewals stay under the change that set it.
CREATE OR REPLACE VIEW repricer.charged_renewals AS
SELECT c.batch_id, c.original_transaction_id, c.change_id, h.transaction_id, h.purchased_at,
    c.current_price_milliunits AS old_price_milliunits, h.price_milliunits
FROM repricer.price_changes c
JOIN repricer.charges h ON h.original_transaction_id = c.original_transaction_id
    AND (h.sku = c.sku OR h.sku = c.current_sku OR h.sku = ANY (c.former_skus))
    AND h.purchased_at >= c.effective_at AND h.price_milliunits = c.new_price_milliunits
    AND h.currency = c.currency AND h.revoked_at IS NULL
WHERE c.state = 'effective' AND c.undoes_change_id IS NULL AND NOT EXISTS (
    SELECT FROM repricer.price_changes n
    WHERE n.original_transaction_id = c.original_transaction_id
        AND coalesce(n.current_sku, n.sku) = coalesce(c.current_sku, c.sku)
        AND n.state = 'effective' AND n.undoes_change_id IS NULL AND n.effective_at <= h.purchased_at
        AND (n.effective_at, n.change_id) > (c.effective_at, c.change_id));

-- Why a change can't be undone; null: it can. `p_told_at` is when Apple tells the customer, or takes no decrease more.
CREATE FUNCTION repricer.undo_obstacle(p_state text, p_is_undo boolean, p_was_told boolean,
    p_told_at timestamptz, p_has_undo boolean, p_at timestamptz) RETURNS text
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
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

-- What an undo of a batch, or of one subscription or item of it, meets: each change with the obstacle, if any.
CREATE FUNCTION repricer.undo_candidates(p_batch_id uuid, p_subscription text, p_sku text, p_at timestamptz)
    RETURNS TABLE (original_transaction_id text, change_id uuid, line bigint, sku text, state text, reason text,
        told_at timestamptz, obstacle text)
    LANGUAGE sql STABLE AS $$
SELECT c.original_transaction_id, c.change_id, c.line, coalesce(c.current_sku, c.sku), c.state, c.reason, t.told_at,
    repricer.undo_obstacle(c.state, c.undoes_change_id IS NOT NULL,
        c.consent_asked_at IS NOT NULL OR c.accepted_at IS NOT NULL, t.told_at, EXISTS (
            SELECT FROM repricer.price_changes u
            WHERE u.original_transaction_id = c.original_transaction_id AND u.undoes_change_id = c.change_id
                AND u.state IN ('awaiting_approval', 'queued', 'sending', 'unknown')), p_at)
FROM repricer.price_changes c, LATERAL (
    -- The lead before the renewal stays when the renewal moves.
    SELECT coalesce(c.forecast_notice_at + (c.due_effective_at - c.forecast_effective_at), c.send_by) AS told_at) t
WHERE c.batch_id = p_batch_id AND (p_subscription IS NULL OR c.original_transaction_id = p_subscription)
    AND (p_sku IS NULL OR coalesce(c.current_sku, c.sku) = p_sku)
$$;

-- Stores the inverse of what can be undone as a batch that awaits approval; returns its rows, and stores nothing where
-- there is none.
CREATE FUNCTION repricer.undo_batch(
    p_batch_id uuid, p_undo_id uuid, p_name text, p_subscription text, p_sku text, p_at timestamptz)
    RETURNS bigint
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
    v_rows bigint;
    v_digest text;
BEGIN
    PERFORM require_pricing();
    SELECT * INTO v_batch FROM batches WHERE batch_id = p_batch_id FOR UPDATE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'no batch %', p_batch_id USING ERRCODE = 'no_data_found';
    END IF;
    SET CONSTRAINTS price_changes_batch_id_fkey DEFERRED;
    INSERT INTO price_changes (original_transaction_id, change_id, batch_id, line, sku, direction, currency,
            storefront, period, current_price_milliunits, new_price_milliunits, forecast_consent,
            forecast_renewal_at, forecast_effective_at, send_by, due_effective_at, state_since,
            undoes_change_id)
        SELECT c.original_transaction_id, gen_random_uuid(), p_undo_id, c.line, u.sku,
            CASE c.direction WHEN 'increase' THEN 'decrease' ELSE 'increase' END, c.currency, c.storefront,
            c.period, c.new_price_milliunits, c.current_price_milliunits, 'none', c.due_effective_at,
            c.due_effective_at, u.told_at, c.due_effective_at, p_at, c.change_id
        FROM undo_candidates(p_batch_id, p_subscription, p_sku, p_at) u
        JOIN price_changes c ON c.original_transaction_id = u.original_transaction_id
            AND c.change_id = u.change_id
        WHERE u.obstacle IS NULL;
    GET DIAGNOSTICS v_rows = ROW_COUNT;
    IF v_rows = 0 THEN
        RETURN 0;
    END IF;
    -- An undo that came to nothing may be asked for again: its content is its own.
    SELECT encode(sha256(convert_to(p_undo_id || ':' || string_agg(undoes_change_id::text, ','
                ORDER BY undoes_change_id), 'UTF8')), 'hex') INTO v_digest
        FROM price_changes WHERE batch_id = p_undo_id;
    INSERT INTO batches (batch_id, name, content_sha256, plan_hash, planned_as_of, row_count, submitted_at,
            grouping, undoes_batch_id)
        VALUES (p_undo_id, p_name, v_digest, v_digest, p_at, v_rows, p_at, v_batch.grouping, p_batch_id);
    PERFORM append_audit(session_user::text, p_at, 'submit', 'batch:' || p_undo_id,
        json_build_object('name', p_name, 'rows', v_rows, 'plan_hash', v_digest, 'undoes', p_batch_id));
    RETURN v_rows;
END
$$;
REVOKE ALL ON FUNCTION repricer.undo_batch(uuid, uuid, text, text, text, timestamptz),
    repricer.undo_candidates(uuid, text, text, timestamptz),
    repricer.undo_obstacle(text, boolean, boolean, timestamptz, boolean, timestamptz) FROM PUBLIC;
GRANT EXECUTE ON FUNCTION repricer.undo_batch(uuid, uuid, text, text, text, timestamptz),
    repricer.undo_candidates(uuid, text, text, timestamptz),
    repricer.undo_obstacle(text, boolean, boolean, timestamptz, boolean, timestamptz) TO repricer_pricing;

-- Approval measures an undo against the price that it takes back: the price that is paid would make it nothing.
CREATE OR REPLACE FUNCTION repricer.batch_measure(
    p_batch_id uuid, OUT rows bigint, OUT basis_points numeric, OUT monthly_milliunits jsonb)
    LANGUAGE sql STABLE SET search_path = repricer, pg_temp AS $$
WITH facts AS (
    SELECT coalesce(s.currency, c.currency) AS currency,
        -- Of an undo only undo_batch wrote it.
        CASE WHEN c.undoes_change_id IS NOT NULL THEN c.current_price_milliunits
            ELSE coalesce(i.price, c.current_price_milliunits) END::numeric AS old,
        c.new_price_milliunits::numeric AS new,
        CASE coalesce(s.period, c.period)
            WHEN 'P1W' THEN 52.0 / 12 WHEN 'P1M' THEN 1 WHEN 'P2M' THEN 1 / 2.0 WHEN 'P3M' THEN 1 / 3.0
            WHEN 'P6M' THEN 1 / 6.0 WHEN 'P1Y' THEN 1 / 12.0
            -- A period that nobody knows counts as the shortest.
            ELSE 52.0 / 12 END AS a_month
    FROM price_changes c
    LEFT JOIN subscriptions s ON s.original_transaction_id = c.original_transaction_id
    LEFT JOIN LATERAL (
        SELECT coalesce(item ->> 'currentPrice', item ->> 'renewalPrice')::bigint AS price
        FROM jsonb_array_elements(s.items) AS item WHERE item ->> 'sku' = c.sku LIMIT 1) i ON true
    WHERE c.batch_id = p_batch_id
), money AS (
    SELECT currency, count(*) AS rows,
        -- From nothing to something is more than any percent.
        max(CASE WHEN old > 0 THEN abs(new - old) * 10000 / old WHEN new <> old THEN 'Infinity' ELSE 0 END)
            AS basis_points,
        ceil(greatest(sum((new - old) * a_month) FILTER (WHERE new > old),
            sum((old - new) * a_month) FILTER (WHERE new < old), 0)) AS monthly
    FROM facts GROUP BY currency
)
SELECT coalesce(sum(m.rows), 0)::bigint, coalesce(max(m.basis_points), 0),
    coalesce(jsonb_object_agg(m.currency, m.monthly), '{}')
FROM money m
$$;

-- An undo asks nobody, forecasts nothing and brings nothing: it is told by its change and its batch alone.
CREATE OR REPLACE VIEW report.batch_summary AS
WITH tallies AS (
    SELECT batch_id, count(*) AS stored,
        count(*) FILTER (WHERE state = 'awaiting_approval') AS awaiting_approval,
        count(*) FILTER (WHERE state = 'queued') AS queued,
        count(*) FILTER (WHERE state = 'sending') AS sending,
        count(*) FILTER (WHERE state = 'unknown') AS unknown,
        count(*) FILTER (WHERE state = 'scheduled') AS scheduled,
        count(*) FILTER (WHERE state = 'pending_consent') AS pending_consent,
        count(*) FILTER (WHERE state = 'accepted') AS accepted,
        count(*) FILTER (WHERE state = 'effective') AS effective,
        count(*) FILTER (WHERE state = 'declined') AS declined,
        count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
        count(*) FILTER (WHERE state = 'lapsed') AS lapsed,
        count(*) FILTER (WHERE state = 'invalidated') AS invalidated,
        count(*) FILTER (WHERE state = 'rejected') AS rejected,
        count(*) FILTER (WHERE state = 'ineligible') AS ineligible,
        count(*) FILTER (WHERE state = 'missed') AS missed,
        count(*) FILTER (WHERE state = 'aborted') AS aborted
    FROM repricer.price_changes GROUP BY batch_id
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
COMMENT ON COLUMN report.batch_summary.undoes_batch_id IS 'The batch whose scheduled changes this one takes back; null: it is no undo.';

CREATE OR REPLACE VIEW report.price_change AS
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
COMMENT ON COLUMN report.price_change.undoes_change_id IS 'The change that this one takes back; null: it is no undo.';

CREATE OR REPLACE VIEW report.consent_funnel AS
WITH funnels AS (
    SELECT batch_id, direction, forecast_consent, count(*) AS changes,
        count(*) FILTER (WHERE coalesce(sent_at, scheduled_at, consent_asked_at, accepted_at,
            effective_at) IS NOT NULL) AS sent,
        count(*) FILTER (WHERE consent_asked_at IS NOT NULL) AS asked_for_consent,
        count(*) FILTER (WHERE acceptance = 'consented') AS consented,
        count(*) FILTER (WHERE acceptance = 'informed') AS informed,
        count(*) FILTER (WHERE state = 'effective') AS effective,
        count(*) FILTER (WHERE state = 'declined') AS declined,
        count(*) FILTER (WHERE state = 'cancelled') AS cancelled,
        count(*) FILTER (WHERE state = 'lapsed') AS lapsed,
        count(*) FILTER (WHERE state IN ('invalidated', 'rejected', 'ineligible', 'missed',
            'aborted')) AS other
    FROM repricer.price_changes WHERE undoes_change_id IS NULL
    GROUP BY batch_id, direction, forecast_consent
)
SELECT f.batch_id, b.name AS batch_name, f.direction, f.forecast_consent, f.changes, f.sent,
    f.asked_for_consent, f.consented, f.informed, f.effective, f.declined, f.cancelled, f.lapsed,
    f.other, f.changes - f.effective - f.declined - f.cancelled - f.lapsed - f.other AS open,
    round(f.consented::numeric * 10000 / nullif(f.asked_for_consent, 0))::bigint
        AS consented_basis_points,
    round(f.declined::numeric * 10000 / nullif(f.asked_for_consent, 0))::bigint
        AS declined_basis_points,
    round(f.cancelled::numeric * 10000 / nullif(f.sent, 0))::bigint AS cancelled_basis_points,
    round(f.effective::numeric * 10000 / nullif(f.changes, 0))::bigint AS effective_basis_points
FROM funnels f JOIN repricer.batches b ON b.batch_id = f.batch_id;

CREATE OR REPLACE VIEW report.upcoming_effective AS
SELECT c.batch_id, b.name AS batch_name, c.original_transaction_id, c.change_id, c.sku,
    c.storefront, c.period, c.direction, c.currency, c.current_price_milliunits,
    c.new_price_milliunits, c.state, c.due_effective_at,
    c.state = 'accepted' OR (c.direction = 'decrease' AND c.state = 'scheduled') AS is_settled,
    c.due_effective_at < report.as_of() AS is_overdue
FROM repricer.price_changes c JOIN repricer.batches b ON b.batch_id = c.batch_id
WHERE c.state IN ('queued', 'sending', 'unknown', 'scheduled', 'pending_consent', 'accepted')
    AND c.undoes_change_id IS NULL;

CREATE OR REPLACE VIEW report.forecast_accuracy AS
WITH outcomes AS (
    SELECT batch_id, direction, forecast_consent, forecast_threshold_source, forecast_reasons,
        CASE
            WHEN consent_asked_at IS NOT NULL OR acceptance = 'consented' THEN 'required'
            -- Nobody declines unasked: the notification that told of the asking was lost. A dependent that fell with
            -- its parent was not asked itself.
            WHEN state = 'declined' AND reason IS DISTINCT FROM 'parent_declined' THEN 'required'
            WHEN acceptance = 'informed' THEN 'not_required'
            WHEN direction = 'decrease' AND coalesce(scheduled_at, effective_at) IS NOT NULL THEN 'none'
        END AS came_consent,
        effective_at, forecast_effective_at
    FROM repricer.price_changes WHERE undoes_change_id IS NULL
)
SELECT o.batch_id, b.name AS batch_name, o.direction, o.forecast_consent,
    o.forecast_threshold_source, o.came_consent, count(*) AS changes,
    o.came_consent = o.forecast_consent AS is_as_forecast,
    count(*) FILTER (WHERE o.effective_at IS NOT NULL) AS effective,
    count(*) FILTER (WHERE o.effective_at = o.forecast_effective_at) AS effective_as_forecast,
    o.forecast_reasons,
    count(*) FILTER (WHERE o.effective_at < o.forecast_effective_at) AS effective_earlier,
    count(*) FILTER (WHERE o.effective_at > o.forecast_effective_at) AS effective_later,
    CASE
        WHEN o.came_consent IS NULL THEN 'not_known'
        WHEN o.came_consent = o.forecast_consent THEN 'as_forecast'
        WHEN o.came_consent = 'required' THEN 'missed'
        ELSE 'false_alarm'
    END AS consent_outcome
FROM outcomes o JOIN repricer.batches b ON b.batch_id = o.batch_id
GROUP BY o.batch_id, b.name, o.direction, o.forecast_consent, o.forecast_threshold_source,
    o.came_consent, o.forecast_reasons;

CREATE OR REPLACE VIEW report.revenue_impact AS
WITH lost_dependents AS (
    -- A dependent with a lost change of its own in the batch is counted there.
    SELECT d.batch_id, d.original_transaction_id, d.change_id, count(*) AS dependents,
        sum(d.price_milliunits)::bigint AS price_milliunits
    FROM repricer.dependent_cancellations d
    JOIN repricer.price_changes c
        ON c.original_transaction_id = d.original_transaction_id AND c.change_id = d.change_id
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
), factors (period, numerator, denominator) AS (
    -- To a month: a year is 12 months or 52 weeks.
    VALUES ('P1W', 13, 3), ('P1M', 1, 1), ('P2M', 1, 2), ('P3M', 1, 3), ('P6M', 1, 6), ('P1Y', 1, 12)
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

-- How people hand something in: a batch with its rows, a version of the rules, and increases of the past.
-- Locks: none on existing tables.
-- breaking: no

-- Submission ----------------------------------------------------------------------------------------------------------

-- One transaction begins a submission, stores its rows and finishes it. Before that no batch exists to add rows to, and
-- afterwards the batch takes no more. A second transaction of the same person with the same batch fails at its primary key.

-- Begins a batch. The submitter says at which instant it was planned, but it must lie within a day of the server's clock.
CREATE FUNCTION repricer.begin_submission(
    p_batch_id uuid, p_name text, p_content_sha256 text, p_grouping text, p_waves jsonb, p_guards jsonb,
    p_planned_as_of timestamptz, p_holdout integer DEFAULT 0) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_at timestamptz := decision_instant(p_planned_as_of);
BEGIN
    PERFORM require_pricing();
    IF p_planned_as_of NOT BETWEEN v_at - interval '1 day' AND v_at + interval '1 day' THEN
        RAISE EXCEPTION 'planned as of %, but the database''s clock says %: set the clock of this machine, or begin '
            'a rehearsal by migrate, ingest or serve on its virtual clock', p_planned_as_of, v_at
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    INSERT INTO batches (batch_id, name, state, content_sha256, plan_hash, planned_as_of, row_count, submitted_by, submitted_at,
            grouping, waves, guards, holdout_basis_points)
        VALUES (p_batch_id, p_name, 'submitting', p_content_sha256, '', p_planned_as_of, 0, v_by, v_at, p_grouping,
            p_waves, p_guards, p_holdout);
    IF EXISTS (SELECT FROM jsonb_array_elements(p_waves) AS w (wave) WHERE wave ->> 'release' = 'at'
        AND (wave ->> 'at')::timestamptz NOT BETWEEN '1970-01-01 00:00:00Z' AND '9999-12-31 00:00:00Z')
    THEN
        RAISE EXCEPTION 'a wave is released at an instant that no calendar has'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$$;

-- Whether a subscription belongs to the share that is not sent. This holds for all its items, and nobody chooses it: a hash of
-- the file and the subscription decides, so that the same file always holds out the same subscriptions, another file others.
CREATE FUNCTION repricer.is_held_out(p_content_sha256 text, p_original_transaction_id text, p_basis_points integer)
    RETURNS boolean
    LANGUAGE sql IMMUTABLE SET search_path = repricer, pg_temp AS $$
SELECT p_basis_points > 0 AND ('x' || left(encode(
    sha256(convert_to(p_content_sha256 || ':' || p_original_transaction_id, 'UTF8')), 'hex'), 8))::bit(32)::bigint
    * 10000 < p_basis_points * 4294967296
$$;

-- The batch that this user is submitting in this transaction.
CREATE FUNCTION repricer.batch_in_submission(p_batch_id uuid) RETURNS repricer.batches
    LANGUAGE plpgsql SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches;
BEGIN
    SELECT * INTO v_batch FROM batches
        WHERE batch_id = p_batch_id AND state = 'submitting' AND submitted_by = session_user;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'user % is not submitting batch % in this transaction', session_user, p_batch_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    RETURN v_batch;
END
$$;

-- The id under which a batch keeps answers of consent rules: a hash of their text as it was sent.
CREATE FUNCTION repricer.answers_id(p_answers text) RETURNS uuid
    LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE SET search_path = repricer, pg_temp AS $$
SELECT left(encode(sha256(convert_to(p_answers, 'UTF8')), 'hex'), 32)::uuid
$$;

-- All answers of the consent rules with which a change was approved, in the order of the rules.
CREATE FUNCTION repricer.forecast_rules(p_change repricer.price_changes) RETURNS jsonb
    LANGUAGE sql STABLE SET search_path = repricer, pg_temp AS $$
SELECT coalesce(jsonb_agg(answer ORDER BY array_position(ARRAY['always_consent_storefront', 'threshold',
    'increase_within_12_months', 'korea_offer_conversion'], answer ->> 'rule')), '[]')
FROM (
    SELECT jsonb_array_elements(p_change.forecast_rules)
    UNION ALL
    SELECT jsonb_array_elements(a.answers) FROM batch_rule_answers a
        WHERE a.batch_id = p_change.batch_id AND a.answers_id = p_change.forecast_answers_id
) AS said (answer)
$$;

-- Stores changes of a batch, and the parts that their SKUs play, from columns. Lists of SKUs, of reasons and of rules are
-- passed as the text of an array. Because many rows have most in common, the columns from p_skus to p_threshold_sources and
-- from p_not_known to p_shared_rules may hold each combination once. p_kinds then gives for each row the place of its
-- combination, from 1 on. Without p_kinds these columns are as long as the others. The last seven may be left out.
CREATE FUNCTION repricer.store_changes(
    p_batch_id uuid, p_ids text[], p_change_ids uuid[], p_lines bigint[], p_waves bigint[], p_skus text[],
    p_dependent_skus text[], p_directions text[], p_currencies text[], p_storefronts text[], p_periods text[],
    p_current_prices bigint[], p_new_prices bigint[], p_expected_prices bigint[], p_effective_on_or_after text[],
    p_consents text[], p_reasons text[], p_threshold_sources text[], p_rules jsonb[], p_renewals timestamptz[],
    p_notices timestamptz[], p_effective timestamptz[], p_send_after timestamptz[], p_send_by timestamptz[],
    p_not_known text[] DEFAULT NULL, p_at_risk bigint[] DEFAULT NULL, p_at_risk_elsewhere jsonb[] DEFAULT NULL,
    p_kinds bigint[] DEFAULT NULL, p_shared_rules text[] DEFAULT NULL, p_stale boolean[] DEFAULT NULL,
    p_seats bigint[] DEFAULT NULL)
    RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp
    -- The planner underestimates these arrays and would choose nested loops. With nested loops forbidden, it takes the rest
    -- for expensive and would compile it (JIT). So both are off.
    SET enable_nestloop = off SET jit = off AS $$
DECLARE
    -- Citus would ask each node for session_user, and there another user works on behalf of the person who decides.
    v_by text := session_user;
    v_batch batches := batch_in_submission(p_batch_id);
    v_at timestamptz := v_batch.submitted_at;
BEGIN
    INSERT INTO batch_rule_answers (batch_id, answers_id, answers)
        SELECT p_batch_id, answers_id(answers), answers::jsonb
        FROM (SELECT DISTINCT unnest(p_shared_rules)) AS said (answers) WHERE answers IS NOT NULL
        ON CONFLICT DO NOTHING;
    INSERT INTO price_changes (original_transaction_id, bucket, change_id, batch_id, submitted_by, line, wave, is_held_out, sku,
            dependent_skus, direction, currency, storefront, period, current_price_milliunits,
            new_price_milliunits, expected_price_milliunits, effective_on_or_after, forecast_consent,
            forecast_reasons, forecast_threshold_source, forecast_rules, forecast_answers_id,
            forecast_renewal_at, forecast_notice_at, forecast_effective_at, send_after, send_by, due_effective_at, state_since,
            forecast_not_known, at_risk_milliunits, at_risk_elsewhere, is_stale, forecast_seats)
        SELECT r.id, bucket_of(r.id), r.change_id, p_batch_id, v_by, r.line, r.wave,
            -- The function takes as long as an index does, so only a batch with a holdout calls it.
            CASE WHEN v_batch.holdout_basis_points > 0
                THEN is_held_out(v_batch.content_sha256, r.id, v_batch.holdout_basis_points) ELSE false END,
            k.sku, k.dependent_skus,
            k.direction, k.currency, k.storefront, k.period, k.current_price, k.new_price, k.expected_price,
            k.effective_on_or_after, k.consent, k.reasons, k.threshold_source, r.rules, k.answers_id, r.renewal,
            r.notice, r.effective, r.send_after, r.send_by, r.effective, v_at,
            k.not_known, k.at_risk, k.at_risk_elsewhere, k.is_stale, k.seats
        FROM unnest(p_ids, p_change_ids, p_lines, p_waves, p_rules, p_renewals, p_notices, p_effective,
                p_send_after, p_send_by, p_kinds) WITH ORDINALITY
            AS r (id, change_id, line, wave, rules, renewal, notice, effective, send_after, send_by, kind, place)
        LEFT JOIN (
            SELECT k.place, k.sku, k.dependent_skus::text[], k.direction, k.currency, k.storefront, k.period,
                k.current_price, k.new_price, k.expected_price, k.effective_on_or_after::date, k.consent,
                k.reasons::text[], k.threshold_source, coalesce(k.not_known::text[], '{}') AS not_known, k.at_risk,
                k.at_risk_elsewhere, answers_id(k.answers) AS answers_id, coalesce(k.stale, false) AS is_stale,
                coalesce(k.seats, 1) AS seats
            FROM unnest(p_skus, p_dependent_skus, p_directions, p_currencies, p_storefronts, p_periods,
                    p_current_prices, p_new_prices, p_expected_prices, p_effective_on_or_after, p_consents,
                    p_reasons, p_threshold_sources, p_not_known, p_at_risk, p_at_risk_elsewhere,
                    p_shared_rules, p_stale, p_seats) WITH ORDINALITY
                AS k (sku, dependent_skus, direction, currency, storefront, period, current_price, new_price,
                    expected_price, effective_on_or_after, consent, reasons, threshold_source, not_known, at_risk,
                    at_risk_elsewhere, answers, stale, seats, place)
            -- OFFSET 0 makes PostgreSQL read this once a kind, and not once a row.
            OFFSET 0) k ON k.place = coalesce(r.kind, r.place);
    IF EXISTS (SELECT FROM unnest(p_dependent_skus) AS names WHERE names::text[] <> '{}') THEN
        INSERT INTO dependency_roles (original_transaction_id, bucket, sku, role, change_id)
            SELECT r.id, bucket_of(r.id), part.sku, part.role, r.change_id
            FROM unnest(p_ids, p_change_ids, p_kinds) WITH ORDINALITY AS r (id, change_id, kind, place)
            JOIN unnest(p_skus, p_dependent_skus) WITH ORDINALITY AS k (sku, dependent_skus, place)
                ON k.place = coalesce(r.kind, r.place)
            CROSS JOIN LATERAL (
                SELECT k.sku, 'parent' UNION ALL SELECT unnest(k.dependent_skus::text[]), 'dependent'
            ) AS part (sku, role)
            WHERE k.dependent_skus::text[] <> '{}';
    END IF;
END
$$;

-- Stores the rows of the file that did not become changes.
CREATE FUNCTION repricer.store_rejects(
    p_batch_id uuid, p_lines bigint[], p_ids text[], p_skus text[], p_codes text[], p_messages text[]) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
BEGIN
    PERFORM batch_in_submission(p_batch_id);
    INSERT INTO batch_rejects (batch_id, line, original_transaction_id, sku, code, message)
        SELECT p_batch_id, r.* FROM unnest(p_lines, p_ids, p_skus, p_codes, p_messages) AS r;
END
$$;

-- SHA-256 over what a batch asks for: its name, guards, waves, grouping and holdout, and for each row the item, prices, day,
-- wave and forecast. What follows the subscription later (current_sku, send_by) is not in it. The audit line of the
-- submission keeps it, and `audit verify` computes it anew. It is computed bucket by bucket, because a distributed database
-- sorts each bucket where it is. It depends on no settings, because those of its nodes differ; so dates and instants are
-- numbers. A row is hashed as text, which takes a third less time than JSON.
CREATE FUNCTION repricer.batch_sha256(p_batch_id uuid) RETURNS text LANGUAGE plpgsql STABLE
    SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch text;
    v_rows text;
BEGIN
    SELECT json_build_array(b.name, b.content_sha256, b.grouping, b.guards, (
            SELECT jsonb_agg(w.wave - 'released_at' ORDER BY w.number)
            FROM jsonb_array_elements(b.waves) WITH ORDINALITY AS w (wave, number)), b.holdout_basis_points, b.undoes_batch_id)::text
        INTO v_batch FROM batches b WHERE b.batch_id = p_batch_id;
    SELECT string_agg(d.bucket || ':' || d.digest, ',' ORDER BY d.bucket) INTO v_rows FROM (
        SELECT c.bucket, encode(sha256(convert_to(string_agg(ROW(c.original_transaction_id, c.change_id, c.line,
                c.wave, c.is_held_out, c.undoes_change_id, c.sku, c.dependent_skus, c.direction, c.currency, c.storefront, c.period,
                c.current_price_milliunits, c.new_price_milliunits, c.expected_price_milliunits,
                c.effective_on_or_after - date '2000-01-01', c.forecast_consent, extract(epoch FROM c.forecast_effective_at),
                c.forecast_seats)::text, E'\n'
                ORDER BY c.line, c.change_id, c.original_transaction_id COLLATE "C"), 'UTF8')), 'hex') AS digest
        FROM price_changes c WHERE c.batch_id = p_batch_id GROUP BY c.bucket) d;
    RETURN encode(sha256(convert_to(v_batch || E'\n' || coalesce(v_rows, ''), 'UTF8')), 'hex');
END
$$;

-- Ends a submission: counts what is stored, and adds the audit line.
CREATE FUNCTION repricer.finish_submission(
    p_batch_id uuid, p_plan_hash text, p_rows bigint, p_refused_rows bigint) RETURNS void
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_batch batches := batch_in_submission(p_batch_id);
    v_rows bigint;
    v_refused bigint;
    v_unheard bigint;
BEGIN
    SELECT count(*), count(*) FILTER (WHERE s.original_transaction_id IS NULL) INTO v_rows, v_unheard
        FROM price_changes c
        LEFT JOIN subscriptions s ON s.original_transaction_id = c.original_transaction_id AND s.bucket = c.bucket
        WHERE c.batch_id = p_batch_id;
    SELECT count(*) INTO v_refused FROM batch_rejects WHERE batch_id = p_batch_id;
    IF (v_rows, v_refused) IS DISTINCT FROM (p_rows, p_refused_rows) THEN
        RAISE EXCEPTION 'batch % holds % rows and % refused ones, not % and %', p_batch_id, v_rows, v_refused, p_rows,
            p_refused_rows USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    -- The programs refuse such a row. If it were stored by hand, it would wait for ever.
    IF v_unheard > 0 THEN
        RAISE EXCEPTION 'batch % holds rows of subscriptions of which nothing is known', p_batch_id
            USING ERRCODE = 'object_not_in_prerequisite_state';
    END IF;
    UPDATE batches SET state = 'awaiting_approval', plan_hash = p_plan_hash, row_count = v_rows,
            rejected_row_count = v_refused
        WHERE batch_id = p_batch_id;
    PERFORM record_dependent_claims(p_batch_id);
    PERFORM append_audit(session_user::text, v_batch.submitted_at, 'submit', 'batch:' || p_batch_id,
        json_build_object('name', v_batch.name, 'rows', v_rows, 'refused_rows', v_refused, 'plan_hash', p_plan_hash,
            'content_sha256', v_batch.content_sha256, 'batch_sha256', batch_sha256(p_batch_id), 'undoes', v_batch.undoes_batch_id,
            'holdout_basis_points', nullif(v_batch.holdout_basis_points, 0)));
END
$$;

-- Rules ---------------------------------------------------------------------------------------------------------------

-- A digest of what a version of the rules holds. The audit line of its import keeps it, and `audit verify` computes it anew.
CREATE FUNCTION repricer.rules_sha256(p_revision integer) RETURNS text LANGUAGE sql STABLE
    SET search_path = repricer, pg_temp AS $$
SELECT encode(sha256(convert_to(coalesce(string_agg(r.rule, E'\n' ORDER BY r.rule COLLATE "C"), ''), 'UTF8')), 'hex')
FROM (
    SELECT json_build_array('threshold', storefront, currency, period_kind, extract(epoch FROM valid_from)::text, withdrawn,
        amount_milliunits, source)::text AS rule FROM consent_thresholds WHERE revision = p_revision
    UNION ALL
    SELECT json_build_array('always_consent', storefront, extract(epoch FROM valid_from)::text, withdrawn, is_required, source)::text
    FROM always_consent_storefronts WHERE revision = p_revision
    UNION ALL
    SELECT json_build_array('currency', currency, extract(epoch FROM valid_from)::text, withdrawn, decimals, source)::text
    FROM currency_decimals WHERE revision = p_revision
    UNION ALL
    SELECT json_build_array('exchange_rate', currency, extract(epoch FROM valid_from)::text, withdrawn, billionths_per_euro,
        source)::text
    FROM exchange_rates WHERE revision = p_revision) r
$$;

-- Adds rules as the next version, and returns its number. `value` is the amount in milliunits, 1 or 0 for whether consent is
-- required, the decimals, or billionths per euro. A rule without an instant has always held. A withdrawn rule takes back what
-- is recorded for its key and instant. `p_accepted` is what the person was warned of and accepted.
CREATE FUNCTION repricer.import_rules(
    p_file text, p_content_sha256 text, p_at timestamptz, p_kinds text[], p_storefronts text[], p_currencies text[],
    p_period_kinds text[], p_valid_from timestamptz[], p_values bigint[], p_sources text[],
    p_withdrawn boolean[] DEFAULT NULL, p_accepted text[] DEFAULT '{}') RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_revision integer;
    v_withdrawn bigint := 0;
    v_rule record;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    SELECT coalesce(max(revision), 0) + 1 INTO v_revision FROM rule_imports;
    INSERT INTO rule_imports (revision, imported_at, file, content_sha256)
        VALUES (v_revision, p_at, p_file, p_content_sha256);
    FOR v_rule IN
        SELECT r.kind, r.storefront, r.currency, r.period_kind, coalesce(r.valid_from, '-infinity') AS valid_from,
            coalesce(r.withdrawn, false) AS withdrawn,
            CASE WHEN NOT coalesce(r.withdrawn, false) THEN r.value END AS value,
            CASE WHEN NOT coalesce(r.withdrawn, false) THEN r.source END AS source
        FROM unnest(p_kinds, p_storefronts, p_currencies, p_period_kinds, p_valid_from, p_values, p_sources,
                p_withdrawn)
            AS r (kind, storefront, currency, period_kind, valid_from, value, source, withdrawn)
    LOOP
        v_withdrawn := v_withdrawn + v_rule.withdrawn::integer;
        CASE v_rule.kind
        WHEN 'threshold' THEN
            INSERT INTO consent_thresholds (storefront, currency, period_kind, valid_from, revision, recorded_at,
                    withdrawn, amount_milliunits, source)
                VALUES (v_rule.storefront, v_rule.currency, v_rule.period_kind, v_rule.valid_from, v_revision, p_at,
                    v_rule.withdrawn, v_rule.value, v_rule.source);
        WHEN 'always_consent' THEN
            INSERT INTO always_consent_storefronts (storefront, valid_from, revision, recorded_at, withdrawn,
                    is_required, source)
                VALUES (v_rule.storefront, v_rule.valid_from, v_revision, p_at, v_rule.withdrawn, v_rule.value <> 0,
                    v_rule.source);
        WHEN 'currency' THEN
            INSERT INTO currency_decimals (currency, valid_from, revision, recorded_at, withdrawn, decimals, source)
                VALUES (v_rule.currency, v_rule.valid_from, v_revision, p_at, v_rule.withdrawn, v_rule.value,
                    v_rule.source);
        WHEN 'exchange_rate' THEN
            INSERT INTO exchange_rates (currency, valid_from, revision, recorded_at, withdrawn, billionths_per_euro,
                    source)
                VALUES (v_rule.currency, v_rule.valid_from, v_revision, p_at, v_rule.withdrawn, v_rule.value,
                    v_rule.source);
        END CASE;
    END LOOP;
    PERFORM append_audit(session_user::text, p_at, 'import_rules', 'rules:' || v_revision,
        json_build_object('file', p_file, 'content_sha256', p_content_sha256, 'rules', cardinality(p_kinds),
            'withdrawn', v_withdrawn, 'rules_sha256', rules_sha256(v_revision), 'accepted_implausible', p_accepted));
    RETURN v_revision;
END
$$;

-- A digest of an import of past increases, computed bucket by bucket like batch_sha256.
CREATE FUNCTION repricer.history_sha256(p_number integer) RETURNS text LANGUAGE plpgsql STABLE
    SET search_path = repricer, pg_temp AS $$
DECLARE
    v_rows text;
BEGIN
    SELECT string_agg(d.bucket || ':' || d.digest, ',' ORDER BY d.bucket) INTO v_rows FROM (
        SELECT i.bucket, encode(sha256(convert_to(string_agg(ROW(i.original_transaction_id, i.sku,
                i.increased_on - date '2000-01-01', i.old_price_milliunits, i.new_price_milliunits, i.currency)::text, E'\n'
                ORDER BY i.original_transaction_id COLLATE "C", i.sku COLLATE "C", i.increased_on), 'UTF8')), 'hex') AS digest
        FROM imported_increases i WHERE i.number = p_number GROUP BY i.bucket) d;
    RETURN encode(sha256(convert_to(coalesce(v_rows, ''), 'UTF8')), 'hex');
END
$$;

-- Stores past increases that no notification told of as the next import, and returns its number. Where one of them is stored
-- already, or lies in the future, the whole import is refused.
CREATE FUNCTION repricer.import_history(
    p_file text, p_content_sha256 text, p_at timestamptz, p_ids text[], p_skus text[], p_days date[],
    p_old_prices bigint[], p_new_prices bigint[], p_currencies text[]) RETURNS integer
    LANGUAGE plpgsql SECURITY DEFINER SET search_path = repricer, pg_temp AS $$
DECLARE
    v_number integer;
BEGIN
    PERFORM require_pricing();
    p_at := decision_instant(p_at);
    IF EXISTS (SELECT FROM unnest(p_days) AS day WHERE day > (p_at AT TIME ZONE 'UTC')::date) THEN
        RAISE EXCEPTION 'an increase of the future is none yet' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    SELECT coalesce(max(number), 0) + 1 INTO v_number FROM history_imports;
    INSERT INTO history_imports (number, imported_at, file, content_sha256)
        VALUES (v_number, p_at, p_file, p_content_sha256);
    INSERT INTO imported_increases (original_transaction_id, bucket, sku, increased_on, old_price_milliunits,
            new_price_milliunits, currency, number)
        SELECT i.id, bucket_of(i.id), i.sku, i.day, i.old_price, i.new_price, i.currency, v_number
        FROM unnest(p_ids, p_skus, p_days, p_old_prices, p_new_prices, p_currencies)
            AS i (id, sku, day, old_price, new_price, currency);
    PERFORM append_audit(session_user::text, p_at, 'import_history', 'history:' || v_number,
        json_build_object('file', p_file, 'content_sha256', p_content_sha256, 'increases', cardinality(p_ids),
            'history_sha256', history_sha256(v_number)));
    RETURN v_number;
END
$$;

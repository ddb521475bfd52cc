import Postgres

/// A small database with batches in each state, and text that wants to be markup wherever text is stored.
package enum PagesFixture {
    /// 2026-04-01T00:00:00Z.
    package static let now: Int64 = 1_775_001_600_000
    package static let script = "<script>alert(1)</script>"

    package static func batch(_ number: Int) -> String {
        "00000000-0000-7000-8000-00000000000\(number)"
    }

    package static let waiting = batch(1)
    package static let underWay = batch(2)
    package static let finished = batch(3)
    package static let halted = batch(4)
    package static let token = "5d1b7a52-3c0c-4c55-8f4f-1f6f0f2a9b11"
    package static let subscription = "2000000000000101"

    package static func fill() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(batches + changes + facts)
        try await connection.transaction(.repeatableRead) { connection in
            _ = try connection.query(
                """
                -- name: summarise
                SELECT repricer.summarise_figures(1000) AS n
                """)
        }
        await connection.close()
    }

    private static let batches = """
        INSERT INTO repricer.batches (batch_id, name, state, content_sha256, plan_hash, planned_as_of, row_count,
            rejected_row_count, submitted_by, submitted_at, decided_by, decided_at, waves, released_wave, guards,
            is_paused, paused_by, paused_at, paused_reason, halted_by, probe_at, halted_storefronts)
        VALUES
        ('\(waiting)', 'autumn \(script)', 'awaiting_approval', 'c1', 'h1', '2026-03-30Z', 20, 1, 'ana', '2026-03-30Z',
            NULL, NULL, '[]', 0, '[{"guard": "errors", "over": 500, "least": 50}]', false, NULL, NULL, NULL, NULL, NULL, '{}'),
        ('\(underWay)', 'spring', 'approved', 'c2', 'h2', '2026-02-01Z', 60, 0, 'ana', '2026-02-01Z', 'ben', '2026-02-02Z',
            '[{"label": "10%", "release": "approval", "released_at": "2026-02-02T00:00:00Z"},
              {"label": "rest", "release": "hand"}]', 1,
            '[{"guard": "declined", "over": 1000, "least": 10}]', false, NULL, NULL, NULL, NULL, NULL,
            '{"MEX": {"by": "4000134", "reason": "no price there \(script)", "at": "2026-03-20T00:00:00Z"}}'),
        ('\(finished)', 'winter', 'approved', 'c3', 'h3', '2025-11-01Z', 20, 0, 'ana', '2025-11-01Z', 'ben', '2025-11-02Z',
            '[]', 0, '[]', false, NULL, NULL, NULL, NULL, NULL, '{}'),
        ('\(halted)', 'halted one', 'approved', 'c4', 'h4', '2026-03-01Z', 20, 0, 'ana', '2026-03-01Z', 'ben', '2026-03-02Z',
            '[]', 0, '[]', true, 'repricerd', '2026-03-03Z', 'refused with \(script)', '4030000', '2026-04-01Z', '{}');
        INSERT INTO repricer.batch_rejects VALUES ('\(waiting)', 99, '9', 'PLAN', 'bad_sku', 'm');

        """

    /// Twenty changes for each twenty rows, in the states that the batch is in.
    private static let changes = """
        INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status, auto_renews, storefront, currency,
            period, product_id, app_account_token, purchased_at, expires_at, renewal_at, items, signed_at)
        SELECT id, repricer.bucket_of(id), 1, true, p.storefront, p.currency, 'P1M', 'com.example.bundle',
            CASE WHEN n < 3 THEN '\(token)' END, '2026-03-10Z', '2026-04-10Z', '2026-04-10Z',
            jsonb_build_array(jsonb_build_object('sku', p.sku, 'currentPrice', 9990, 'renewalPrice', 9990, 'renews', true)),
            '2026-03-10Z'
        FROM generate_series(1, 120) n,
            LATERAL (SELECT (2000000000000100 + n)::text AS id,
                (ARRAY['USA', 'DEU', 'JPN', 'MEX'])[n % 4 + 1] AS storefront,
                (ARRAY['USD', 'EUR', 'JPY', 'MXN'])[n % 4 + 1] AS currency,
                CASE n WHEN 7 THEN '\(script)' ELSE 'PLAN' END AS sku) p;
        INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, submitted_by, line, wave,
            sku, direction, currency, storefront, period, current_price_milliunits, new_price_milliunits,
            forecast_consent, forecast_reasons, forecast_not_known, forecast_effective_at, at_risk_milliunits, send_by,
            due_effective_at, parked_reason, request_reference_id, state, state_since, reason, sent_at, scheduled_at,
            consent_asked_at, accepted_at, acceptance, effective_at, ended_at)
        SELECT id, repricer.bucket_of(id), md5(id)::uuid, b.batch, 'ana', n + 1,
            CASE WHEN b.batch = '\(underWay)' THEN 1 + n % 2 ELSE 0 END, CASE n WHEN 7 THEN '\(script)' ELSE 'PLAN' END,
            CASE WHEN new > old THEN 'increase' ELSE 'decrease' END, p.currency, p.storefront, 'P1M', old, new,
            CASE WHEN new < old THEN 'none' WHEN n % 3 = 0 THEN 'required' WHEN n % 3 = 1 THEN 'not_known' ELSE 'not_required' END,
            CASE WHEN new > old AND n % 3 = 0 THEN '{threshold}' ELSE '{}' END::text[],
            CASE WHEN new > old AND n % 3 = 1 THEN '{increase_within_12_months}' ELSE '{}' END::text[],
            b.effective + n % 20 * interval '1 day', old, b.effective - interval '30 days' + n % 20 * interval '1 day',
            b.effective + n % 20 * interval '1 day',
            CASE WHEN s.state = 'queued' AND n % 4 = 2 THEN '4000000 odd \(script)' END, md5(id)::uuid, s.state, b.effective,
            CASE s.state WHEN 'declined' THEN 'expired_for_price_increase' WHEN 'ineligible' THEN 'drifted' END,
            CASE WHEN s.is_sent THEN '2026-02-03Z'::timestamptz END, CASE WHEN s.is_sent THEN '2026-02-03Z'::timestamptz END,
            CASE WHEN s.state IN ('pending_consent', 'declined') THEN '2026-02-10Z'::timestamptz END,
            CASE WHEN s.state IN ('accepted', 'effective') THEN '2026-02-12Z'::timestamptz END,
            CASE WHEN s.state IN ('accepted', 'effective') THEN 'informed' END,
            CASE WHEN s.state = 'effective' THEN b.effective + n % 20 * interval '1 day' END,
            CASE WHEN s.is_final THEN b.effective END
        FROM generate_series(1, 120) n,
            LATERAL (SELECT (2000000000000100 + n)::text AS id, 9990 AS old,
                CASE WHEN n % 10 = 0 THEN 7990 ELSE 12990 END AS new,
                (ARRAY['USA', 'DEU', 'JPN', 'MEX'])[n % 4 + 1] AS storefront,
                (ARRAY['USD', 'EUR', 'JPY', 'MXN'])[n % 4 + 1] AS currency) p,
            LATERAL (SELECT CASE WHEN n <= 20 THEN '\(waiting)' WHEN n <= 80 THEN '\(underWay)'
                    WHEN n <= 100 THEN '\(finished)' ELSE '\(halted)' END::uuid AS batch,
                CASE WHEN n <= 20 THEN timestamptz '2026-05-03Z' WHEN n <= 80 THEN '2026-03-25Z' WHEN n <= 100 THEN '2025-12-10Z'
                    ELSE '2026-05-01Z' END AS effective) b,
            LATERAL (SELECT v.state, v.state NOT IN ('awaiting_approval', 'queued', 'ineligible') AS is_sent,
                    v.state IN ('effective', 'declined', 'cancelled', 'ineligible') AS is_final
                FROM (SELECT CASE WHEN n <= 20 THEN 'awaiting_approval' WHEN n > 100 THEN 'queued'
                    WHEN n > 80 THEN (ARRAY['effective', 'effective', 'effective', 'declined', 'ineligible'])[n % 5 + 1]
                    ELSE (ARRAY['queued', 'scheduled', 'pending_consent', 'accepted', 'effective', 'declined'])[n % 6 + 1]
                    END AS state) v) s;

        """

    private static let facts = """
        INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
            price_milliunits, currency, storefront)
        SELECT c.original_transaction_id, c.bucket, c.original_transaction_id || '-1', c.sku, c.effective_at,
            c.effective_at + interval '1 month', c.new_price_milliunits, c.currency, c.storefront
        FROM repricer.price_changes c WHERE c.state = 'effective';
        INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at, number,
            correction, amount_milliunits, currency, storefront, evidence_id)
        SELECT h.original_transaction_id, h.bucket, h.transaction_id, h.sku, 'charge', h.purchased_at, 0, 0,
            h.price_milliunits, h.currency, h.storefront, 'e-1' FROM repricer.charges h;
        INSERT INTO repricer.price_change_history (original_transaction_id, bucket, change_id, occurred_at, state,
            evidence_kind, evidence_id, reason)
        SELECT original_transaction_id, bucket, change_id, '2026-02-03Z', state, 'response', 'e-2', '\(script)'
        FROM repricer.price_changes;
        INSERT INTO repricer.dependent_cancellations (original_transaction_id, bucket, change_id, dependent_sku, parent_sku,
            batch_id, cause, state, price_milliunits, currency, requested_at, requested_by_evidence, detail)
        SELECT original_transaction_id, bucket, change_id, 'EXTRA', sku, batch_id, 'declined', 'discrepancy', 1990, currency,
            '2026-03-20Z', 'e-3', '\(script)'
        FROM repricer.price_changes WHERE state = 'declined' AND batch_id = '\(underWay)' LIMIT 2;
        """
}

import Postgres

/// Batches that pages are seldom made for: stopped, withdrawn, tiny, of names that a person would not give.
extension PagesFixture {
    package static let longName = hostileName(of: 200)
    package static let manySubscription = "4000000000000101"

    package static func odd(_ number: Int) -> String {
        "00000000-0000-7000-9000-0000000000\(number < 10 ? "0" : "")\(number)"
    }

    /// Markup, both directions of writing, a mark that turns them, pictures, and a word without an end.
    private static func hostileName(of length: Int) -> String {
        let start = "\(script)\"' \u{202E}שלום عيد مبارك\u{202C} 👩🏽‍🚀🇩🇪 &amp; ../"
        return start + String(repeating: "W", count: length - start.unicodeScalars.count)
    }

    package static func fillOdd() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(oddBatches + oddChanges + manyFacts)
        try await connection.transaction(.repeatableRead) { connection in
            _ = try connection.query(
                """
                -- name: summariseOdd
                SELECT repricer.summarise_figures(1000) AS n
                """)
        }
        await connection.close()
    }

    /// Everything stands still.
    package static func stopEverything() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            UPDATE repricer.service_controls SET is_paused = true, paused_by = 'ana', paused_at = '2026-03-31Z',
                paused_reason = 'incident 7 \(script)', halted_at = '2026-03-31T01:00:00Z', halted_reason = 'the key was refused',
                halted_answer = '4010001', halted_kinds = '{"cancel": {"at": "2026-03-31T02:00:00Z", "reason": "refused"}}'
            """)
        await connection.close()
    }

    /// Batches of three rows, of which the first is the oldest.
    package static func fillMany(_ count: Int) async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            INSERT INTO repricer.batches (batch_id, name, state, content_sha256, plan_hash, planned_as_of, row_count,
                submitted_by, submitted_at, decided_by, decided_at)
            SELECT md5('many' || b)::uuid, 'Prices of region ' || b, 'approved', 'm' || b, 'm' || b, at, 3, 'ana', at, 'ben', at
            FROM generate_series(1, \(count)) b, LATERAL (SELECT '2025-06-01Z'::timestamptz + b * interval '1 day' AS at) a;
            INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, submitted_by, line, sku,
                direction, currency, storefront, period, current_price_milliunits, new_price_milliunits, forecast_consent,
                forecast_effective_at, send_by, due_effective_at, request_reference_id, state, state_since, sent_at,
                scheduled_at)
            SELECT id, repricer.bucket_of(id), md5(id)::uuid, md5('many' || b)::uuid, 'ana', l, 'PLAN', 'increase', 'EUR', 'DEU',
                'P1M', 9990, 12990, 'not_required', '2026-05-01Z', '2026-04-20Z', '2026-05-01Z', md5(id)::uuid,
                'scheduled', '2026-03-01Z', '2026-03-01Z', '2026-03-01Z'
            FROM generate_series(1, \(count)) b, generate_series(1, 3) l,
                LATERAL (SELECT (5000000000000000 + b * 10 + l)::text AS id) i;
            """)
        await connection.close()
    }

    private static let oddBatches = """
        INSERT INTO repricer.batches (batch_id, name, undoes_batch_id, state, content_sha256, plan_hash, planned_as_of,
            row_count, rejected_row_count, submitted_by, submitted_at, decided_by, decided_at, decision_reason, is_paused,
            paused_by, paused_at, paused_reason, halted_by, probe_at, probe_answer)
        VALUES
        ('\(odd(1))', 'paused one', NULL, 'approved', 'o1', 'p1', '2026-03-01Z', 12, 0, 'ana', '2026-03-01Z', 'ben',
            '2026-03-02Z', NULL, true, 'ana', '2026-03-03Z', 'legal asks \(script)', NULL, NULL, NULL),
        ('\(odd(2))', '\(longName.quoted)', NULL, 'approved', 'o2', 'p2', '2026-03-02Z', 11, 0, 'ana', '2026-03-02Z', 'ben',
            '2026-03-02Z', NULL, true, 'repricerd', '2026-03-03Z', 'errors: 6 of 55', 'errors', '2026-04-01Z', '4030010'),
        ('\(odd(3))', 'aborted one', NULL, 'aborted', 'o3', 'p3', '2026-03-03Z', 9, 0, 'ana', '2026-03-03Z', 'ben',
            '2026-03-03Z', NULL, false, NULL, NULL, NULL, NULL, NULL, NULL),
        ('\(odd(4))', 'undone one', NULL, 'approved', 'o4', 'p4', '2026-03-04Z', 8, 0, 'ana', '2026-03-04Z', 'ben',
            '2026-03-04Z', NULL, false, NULL, NULL, NULL, NULL, NULL, NULL),
        ('\(odd(5))', 'undo of undone one', '\(odd(4))', 'approved', 'o5', 'p5', '2026-03-05Z', 8, 0, 'ben', '2026-03-05Z',
            'ana', '2026-03-05Z', NULL, false, NULL, NULL, NULL, NULL, NULL, NULL),
        ('\(odd(6))', 'rejected one', NULL, 'rejected', 'o6', 'p6', '2026-03-06Z', 7, 0, 'ana', '2026-03-06Z', 'ben',
            '2026-03-06Z', 'too much for Italy', false, NULL, NULL, NULL, NULL, NULL, NULL),
        ('\(odd(7))', 'one row, and none that could go', NULL, 'approved', 'o7', 'p7', '2026-03-07Z', 1, 3000, 'ana',
            '2026-03-07Z', 'ben', '2026-03-07Z', NULL, false, NULL, NULL, NULL, NULL, NULL, NULL),
        ('\(odd(8))', 'one row to approve \(String(longName.prefix(120)).quoted)', NULL, 'awaiting_approval', 'o8', 'p8', '2026-03-08Z',
            1, 2, 'ana', '2026-03-08Z', NULL, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL, NULL),
        ('\(odd(9))', 'every currency, huge prices', NULL, 'awaiting_approval', 'o9', 'p9', '2026-03-30Z', 44, 0, 'ana',
            '2026-03-30Z', NULL, NULL, NULL, false, NULL, NULL, NULL, NULL, NULL, NULL);
        INSERT INTO repricer.batch_rejects
        SELECT '\(odd(7))', n, n::text, 'PLAN', (ARRAY['unknown_subscription', 'auto_renew_off', 'no_change'])[n % 3 + 1], 'm'
        FROM generate_series(1, 3000) n;
        INSERT INTO repricer.batch_rejects VALUES ('\(odd(8))', 3, '\(longName.quoted)', 'PLAN', 'bad_transaction_id', 'm'),
            ('\(odd(8))', 4, '4', 'PLAN', 'india_increase', 'm');

        """

    private static let oddChanges = """
        CREATE TEMPORARY TABLE odd_rows AS
        SELECT (4000000000000000 + n + 100 * CASE WHEN b.undoes_batch_id IS NULL THEN right(b.batch_id::text, 2)::int
                ELSE right(b.undoes_batch_id::text, 2)::int END)::text AS id, b.batch_id, b.submitted_by, n,
            b.undoes_batch_id IS NOT NULL AS is_undo,
            CASE b.batch_id
                WHEN '\(odd(1))' THEN CASE WHEN n > 8 THEN 'scheduled' ELSE 'queued' END
                WHEN '\(odd(2))' THEN CASE WHEN n > 5 THEN 'rejected' ELSE 'queued' END
                WHEN '\(odd(3))' THEN 'aborted' WHEN '\(odd(4))' THEN 'invalidated' WHEN '\(odd(5))' THEN 'effective'
                WHEN '\(odd(6))' THEN 'aborted' WHEN '\(odd(7))' THEN 'ineligible' ELSE 'awaiting_approval'
            END AS state
        FROM repricer.batches b, generate_series(1, b.row_count) n
        WHERE b.batch_id::text LIKE '%-9000-%';
        INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status, auto_renews, storefront, currency,
            period, product_id, purchased_at, expires_at, renewal_at, items, signed_at)
        SELECT id, repricer.bucket_of(id), 1, true, 'USA', 'USD', 'P1M', 'com.example.bundle', '2026-03-10Z', '2026-04-10Z',
            '2026-04-10Z', '[{"sku": "PLAN", "renews": true, "currentPrice": 9990, "renewalPrice": 9990}]', '2026-03-10Z'
        FROM odd_rows WHERE NOT is_undo;
        INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, undoes_change_id, batch_id,
            submitted_by, line, sku, direction, currency, storefront, period, current_price_milliunits,
            new_price_milliunits, forecast_consent, forecast_not_known, forecast_effective_at, at_risk_milliunits, send_by,
            due_effective_at, request_reference_id, state, state_since, reason, sent_at, scheduled_at, effective_at, ended_at)
        SELECT id, repricer.bucket_of(id), md5(id || is_undo)::uuid,
            CASE WHEN is_undo THEN md5(id || false)::uuid END, batch_id, submitted_by, n + 1,
            CASE WHEN n = 3 THEN left(repeat('A_SKU_WITHOUT_AN_END_', 7), 128) ELSE 'PLAN' END,
            CASE WHEN is_undo THEN 'decrease' ELSE 'increase' END, p.currency, p.storefront, 'P1M',
            CASE WHEN is_undo THEN p.new ELSE p.old END, CASE WHEN is_undo THEN p.old ELSE p.new END,
            CASE WHEN is_undo THEN 'none' WHEN n % 2 = 0 THEN 'required' ELSE 'not_known' END,
            CASE WHEN NOT is_undo AND n % 2 = 1 THEN '{always_consent_storefront,threshold,increase_within_12_months}'
                ELSE '{}' END::text[],
            '2026-05-01Z'::timestamptz + n * interval '11 days', p.old, '2026-04-02Z', '2026-05-01Z', md5(id)::uuid, state,
            '2026-03-10Z', CASE state WHEN 'rejected' THEN '4030010' WHEN 'ineligible' THEN 'drifted'
                WHEN 'invalidated' THEN 'undone' WHEN 'aborted' THEN 'withdrawn' END,
            CASE WHEN state IN ('scheduled', 'rejected', 'invalidated', 'effective') THEN '2026-03-10Z'::timestamptz END,
            CASE WHEN state IN ('scheduled', 'invalidated', 'effective') THEN '2026-03-10Z'::timestamptz END,
            CASE WHEN state = 'effective' THEN '2026-03-20Z'::timestamptz END,
            CASE WHEN state IN ('rejected', 'aborted', 'invalidated', 'effective', 'ineligible') THEN '2026-03-20Z'::timestamptz END
        FROM odd_rows, LATERAL (SELECT
            CASE WHEN batch_id = '\(odd(9))' THEN (ARRAY['USD', 'EUR', 'JPY', 'CHF', 'GBP', 'IDR', 'VND', 'KRW', 'TRY', 'BRL',
                'PLN'])[n % 11 + 1] ELSE 'USD' END AS currency,
            CASE WHEN batch_id = '\(odd(9))' THEN (ARRAY['USA', 'DEU', 'JPN', 'CHE', 'GBR', 'IDN', 'VNM', 'KOR', 'TUR', 'BRA',
                'POL'])[n % 11 + 1] ELSE 'USA' END AS storefront,
            CASE WHEN batch_id = '\(odd(9))' THEN 1234567890000 + n ELSE 9990 END AS old,
            CASE WHEN batch_id = '\(odd(9))' THEN 9876543210000 * (1 + n % 3) ELSE 12990 END AS new) p;

        """

    /// One subscription of which more is known than a page shows.
    private static let manyFacts = """
        INSERT INTO repricer.price_change_history (original_transaction_id, bucket, change_id, occurred_at, state,
            evidence_kind, evidence_id, reason)
        SELECT c.original_transaction_id, c.bucket, c.change_id, '2026-02-03Z'::timestamptz + n * interval '1 hour', 'queued',
            'response', md5('evidence' || n), 'rate_limited'
        FROM repricer.price_changes c, generate_series(1, 700) n
        WHERE c.original_transaction_id = '\(manySubscription)';
        INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at, number,
            correction, amount_milliunits, currency, storefront, evidence_id)
        SELECT '\(manySubscription)', repricer.bucket_of('\(manySubscription)'), 't-' || n, 'PLAN', 'charge',
            '2025-02-03Z'::timestamptz + n * interval '1 day', 0, 0, 1000, 'USD', 'USA', 'e-' || n
        FROM generate_series(1, 250) n;
        """
}

extension String {
    /// As a literal of SQL is written.
    fileprivate var quoted: String { replacing("'", with: "''") }
}

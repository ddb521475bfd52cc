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
        try await connection.script(batches + states + changes + facts)
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
        ('\(waiting)', 'autumn \(script)', 'awaiting_approval', 'c1', 'h1', '2026-03-30Z', 20, 7, 'ana', '2026-03-30Z',
            NULL, NULL, '[]', 0, '[{"guard": "errors", "over": 500, "least": 50}]', false, NULL, NULL, NULL, NULL, NULL, '{}'),
        ('\(underWay)', 'spring', 'approved', 'c2', 'h2', '2026-02-01Z', 60, 0, 'ana', '2026-02-01Z', 'ben', '2026-02-02Z',
            '[{"label": "10%", "release": "approval", "released_at": "2026-02-02T00:00:00Z"},
              {"label": "rest", "release": "hand"}]', 1,
            '[{"guard": "declined", "over": 1000, "least": 10}]', false, NULL, NULL, NULL, NULL, NULL,
            '{"MEX": {"by": "4000134", "reason": "no price there \(script)", "at": "2026-03-20T00:00:00Z"}}'),
        ('\(finished)', 'winter', 'approved', 'c3', 'h3', '2025-11-01Z', 23, 0, 'ana', '2025-11-01Z', 'ben', '2025-11-02Z',
            '[]', 0, '[]', false, NULL, NULL, NULL, NULL, NULL, '{}'),
        ('\(halted)', 'halted one', 'approved', 'c4', 'h4', '2026-03-01Z', 17, 0, 'ana', '2026-03-01Z', 'ben', '2026-03-02Z',
            '[]', 0, '[]', true, 'repricerd', '2026-03-03Z', 'refused with \(script)', '4030000', '2026-04-01Z', '{}');
        UPDATE repricer.batches SET guard_reading = '{"at": "2026-03-31T00:00:00Z", "counted_ms": 0, "is_last": false,
            "figures": [{"guard": "declined", "count": 5, "of": 22}]}' WHERE batch_id = '\(underWay)';
        INSERT INTO repricer.batch_rejects
        SELECT '\(waiting)', 90 + n, n::text, 'PLAN', CASE n WHEN 1 THEN 'bad_sku' ELSE 'unknown_item' END, 'm'
        FROM generate_series(1, 7) n;

        """

    /// No count of a page is another one's: what shows one in place of another shows a wrong number. The rows of a batch are
    /// in these states, in this order: how many of each, and of those accepted or in effect how many agreed.
    private static let states = """
        CREATE TEMPORARY TABLE runs AS
        SELECT v.batch::uuid, v.state, v.agreed, v.effective::timestamptz, v.first, v.first + v.rows - 1 AS last
        FROM (SELECT *, sum(rows) OVER (ORDER BY place) - rows + 1 AS first
            FROM (VALUES
                (1, '\(waiting)', 'awaiting_approval', 20, 0, '2026-05-03Z'),
                (2, '\(underWay)', 'queued', 14, 0, '2026-03-25Z'), (3, '\(underWay)', 'unknown', 1, 0, '2026-03-25Z'),
                (4, '\(underWay)', 'scheduled', 9, 0, '2026-03-25Z'),
                (5, '\(underWay)', 'pending_consent', 11, 0, '2026-03-25Z'),
                (6, '\(underWay)', 'accepted', 7, 4, '2026-03-25Z'), (7, '\(underWay)', 'effective', 8, 2, '2026-03-25Z'),
                (8, '\(underWay)', 'declined', 5, 0, '2026-03-25Z'), (9, '\(underWay)', 'cancelled', 3, 0, '2026-03-25Z'),
                (10, '\(underWay)', 'lapsed', 2, 0, '2026-03-25Z'),
                (11, '\(finished)', 'effective', 12, 5, '2025-12-10Z'), (12, '\(finished)', 'declined', 6, 0, '2025-12-10Z'),
                (13, '\(finished)', 'cancelled', 4, 0, '2025-12-10Z'), (14, '\(finished)', 'ineligible', 1, 0, '2025-12-10Z'),
                (15, '\(halted)', 'queued', 10, 0, '2026-05-01Z'), (16, '\(halted)', 'scheduled', 5, 0, '2026-05-01Z'),
                (17, '\(halted)', 'missed', 2, 0, '2026-05-01Z')
            ) AS v (place, batch, state, rows, agreed, effective)) v;
        CREATE TEMPORARY TABLE cast_of AS
        SELECT n, (2000000000000100 + n)::text AS id, r.*, n - r.first < r.agreed AS has_agreed, p.*, m.*,
            CASE n WHEN 7 THEN '\(script)' ELSE 'PLAN' END AS sku, r.effective + n * 7 % 20 * interval '1 day'
                - (r.state = 'effective')::int * interval '20 days' AS due,
            CASE WHEN n % 10 = 0 THEN 'none' WHEN n % 20 IN (3, 6, 9, 12, 15) THEN 'required'
                WHEN n % 20 IN (11, 14, 17, 18) THEN 'not_required' ELSE 'not_known' END AS consent
        FROM generate_series(1, 120) n JOIN runs r ON n BETWEEN r.first AND r.last,
            LATERAL (SELECT
                (ARRAY['USA', 'DEU', 'JPN', 'MEX', 'USA', 'USA', 'DEU', 'USA', 'JPN', 'DEU'])[n % 10 + 1] AS storefront,
                (ARRAY['USD', 'EUR', 'JPY', 'MXN', 'USD', 'USD', 'EUR', 'USD', 'JPY', 'EUR'])[n % 10 + 1] AS currency) p,
            LATERAL (SELECT u * 999 AS old, CASE WHEN n % 10 = 0 THEN u * 799 ELSE u * 1299 END AS new
                FROM (SELECT CASE WHEN p.currency IN ('JPY', 'MXN') THEN 1000 ELSE 10 END AS u) u) m;

        """

    private static let changes = """
        INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status, auto_renews, storefront, currency,
            period, product_id, app_account_token, purchased_at, expires_at, renewal_at, items, signed_at)
        SELECT id, repricer.bucket_of(id), 1, true, storefront, currency, 'P1M', 'com.example.bundle',
            CASE WHEN n < 3 THEN '\(token)' END, '2026-03-10Z', '2026-04-10Z', '2026-04-10Z',
            jsonb_build_array(jsonb_build_object('sku', sku, 'currentPrice', old, 'renews', true,
                'renewalPrice', CASE state WHEN 'effective' THEN new ELSE old END)), '2026-03-10Z'
        FROM cast_of;
        INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, submitted_by, line, wave,
            sku, direction, currency, storefront, period, current_price_milliunits, new_price_milliunits,
            forecast_consent, forecast_reasons, forecast_not_known, forecast_effective_at, at_risk_milliunits, send_by,
            due_effective_at, parked_reason, request_reference_id, state, state_since, reason, sent_at, scheduled_at,
            consent_asked_at, accepted_at, acceptance, effective_at, ended_at)
        SELECT id, repricer.bucket_of(id), md5(id)::uuid, batch, 'ana', n + 1,
            CASE WHEN batch = '\(underWay)' THEN 1 + (n % 5 < 3)::int ELSE 0 END, sku,
            CASE WHEN new > old THEN 'increase' ELSE 'decrease' END, currency, storefront, 'P1M', old, new, consent,
            CASE WHEN consent <> 'required' THEN '{}' WHEN n % 20 = 3 THEN '{always_consent_storefront}'
                ELSE '{threshold}' END::text[],
            CASE WHEN consent <> 'not_known' THEN '{}' WHEN n % 20 = 4 THEN '{threshold,increase_within_12_months}'
                WHEN n % 20 IN (5, 8) THEN '{threshold}' ELSE '{increase_within_12_months}' END::text[],
            due + (ARRAY[0, 0, -1, -1, 2, 0, 0, -1, -1, 0])[n % 10 + 1] * interval '1 day', old,
            due - interval '30 days' + (n BETWEEN 31 AND 34)::int * interval '25 days', due,
            CASE WHEN state <> 'queued' OR batch <> '\(underWay)' THEN NULL WHEN n - first < 3 THEN '4000000 odd \(script)'
                WHEN n - first = 3 THEN 'its status could not be read' END,
            md5(id)::uuid, state, effective,
            CASE state WHEN 'declined' THEN 'expired_for_price_increase' WHEN 'ineligible' THEN 'drifted' END,
            CASE WHEN is_sent THEN '2026-02-03Z'::timestamptz END, CASE WHEN is_sent THEN '2026-02-03Z'::timestamptz END,
            CASE WHEN state IN ('pending_consent', 'declined') OR has_agreed THEN '2026-02-10Z'::timestamptz END,
            CASE WHEN state IN ('accepted', 'effective') THEN '2026-02-12Z'::timestamptz END,
            CASE WHEN has_agreed THEN 'consented' WHEN state IN ('accepted', 'effective') THEN 'informed' END,
            CASE WHEN state = 'effective' THEN due END,
            CASE WHEN state IN ('effective', 'declined', 'cancelled', 'lapsed', 'ineligible', 'missed') THEN effective END
        FROM cast_of, LATERAL (
            SELECT state NOT IN ('awaiting_approval', 'queued', 'ineligible', 'missed') AS is_sent) s;

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
            batch_id, cause, state, price_milliunits, currency, requested_at, requested_by_evidence, settled_at,
            settled_by_evidence, detail)
        SELECT original_transaction_id, bucket, change_id, 'EXTRA', sku, batch_id, 'declined',
            CASE WHEN line < 74 THEN 'discrepancy' ELSE 'confirmed' END, 1990, currency, '2026-03-20Z', 'e-3',
            CASE WHEN line < 74 THEN NULL ELSE '2026-03-21Z'::timestamptz END, CASE WHEN line < 74 THEN NULL ELSE 'e-4' END,
            '\(script)'
        FROM repricer.price_changes WHERE state = 'declined' AND batch_id = '\(underWay)';
        """

    /// What the page of health counts.
    package static func fillQueues() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(queues)
        await connection.close()
    }

    private static let queues = """
        CREATE TEMPORARY TABLE queue AS SELECT n, (3000000000000000 + n)::text AS id,
            repricer.bucket_of((3000000000000000 + n)::text) AS bucket FROM generate_series(1, 40) n;
        INSERT INTO repricer.inbox (original_transaction_id, bucket, notification_uuid, received_at, error)
        SELECT id, bucket, 'waits-' || n, '2026-03-31Z'::timestamptz + n * interval '1 minute',
            CASE WHEN n <= 3 THEN 'broken' END FROM queue WHERE n <= 16;
        INSERT INTO repricer.notification_ids VALUES ('newest', '2026-03-31T22:00:00Z');
        INSERT INTO repricer.notifications (notification_uuid, received_at, understood, signed_payload)
        SELECT 'odd-' || n, '2026-03-31Z', false, 'x' FROM queue WHERE n <= 4;
        UPDATE repricer.history_reading SET read_through = '2026-03-30Z';
        INSERT INTO repricer.status_checks (original_transaction_id, bucket, reason, requested_at)
        SELECT id, bucket, 'sync', '2026-03-31Z' FROM queue WHERE n <= 7;
        INSERT INTO repricer.outbox (aggregateid, bucket, "position", aggregatetype, type, payload)
        SELECT id, bucket, 1, 'subscription', 'test', '{}' FROM queue WHERE n <= 5;
        INSERT INTO repricer.webhook_deliveries (aggregateid, bucket, "position", due_since)
        SELECT id, bucket, 1, '2026-03-31Z' FROM queue WHERE n <= 5;
        INSERT INTO repricer.stale_figures SELECT id, bucket FROM queue WHERE n <= 12;
        INSERT INTO repricer.store_calls (bucket, subject, call_id, kind, carries, intent, state, lease_owner, lease_until,
            in_flight_until, prepared_at)
        SELECT bucket, id, md5(id)::uuid, CASE WHEN n <= 2 THEN 'price_change' ELSE 'cancel' END, ARRAY[md5(id)::uuid], '{}',
            CASE WHEN n <= 2 THEN 'unknown' ELSE 'sending' END, md5(id)::uuid, '2026-04-01Z', '2026-04-01Z',
            CASE WHEN n <= 2 THEN '2026-03-29Z' ELSE '2026-03-28Z' END::timestamptz FROM queue WHERE n <= 8;
        INSERT INTO repricer.rate_limits (endpoint, taken_micros, blocked_until) VALUES
        ('change_price', ARRAY(SELECT 1775001600000000 - n * 1000 FROM generate_series(1, 11) n), '2026-04-01T00:05:00Z'),
        ('status', ARRAY[1775001599999000], NULL)
        ON CONFLICT (endpoint) DO UPDATE
        SET taken_micros = EXCLUDED.taken_micros, blocked_until = EXCLUDED.blocked_until;
        """
}

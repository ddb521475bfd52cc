import Postgres
import TestSupport
import Testing

@testable import Pages

/// The home page is asked for all day, over all batches: it must not read a row of a change to count it.
@Suite(.database) struct HomeCostTests {
    private static let rows: Int64 = 3000

    private static func fill(_ owner: PostgresConnection) async throws {
        try await owner.script(
            """
            SET session_replication_role = replica;
            INSERT INTO repricer.batches (batch_id, name, state, content_sha256, plan_hash, planned_as_of, row_count, submitted_by,
                submitted_at, decided_by, decided_at)
            VALUES ('00000000-0000-7000-8000-00000000000a', 'due', 'approved', 'c', 'h', '2026-01-01Z', \(2 * rows), 'alice',
                '2026-01-01Z', 'bob', '2026-01-02Z');
            INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, line, sku, direction, currency,
                storefront, period, current_price_milliunits, new_price_milliunits, forecast_consent, forecast_effective_at,
                send_by, due_effective_at, state, state_since, submitted_by, is_held_out)
            SELECT n::text, repricer.bucket_of(n::text), gen_random_uuid(), '00000000-0000-7000-8000-00000000000a', n, 'PLAN',
                'increase', 'USD', 'USA', 'P1M', 9990, 12990, 'not_required', at, at, at,
                CASE WHEN n <= \(rows) THEN 'queued' ELSE 'scheduled' END, '2026-01-02Z', 'alice', n = 1
            FROM generate_series(1, \(2 * rows)) AS n,
                (SELECT timestamptz 'epoch' + \(PagesFixture.now) * interval '1 millisecond' + interval '2 days' AS at) t;
            """)
        try await owner.script("VACUUM ANALYZE repricer.price_changes")
    }

    @Test func deadlines_ofManyRowsThatAreDue_readIndexesAlone() async throws {
        let owner = try await TestDatabase.connect()
        try await Self.fill(owner)
        let pool = PostgresPool(
            conninfo: TestDatabase.url, applicationName: "home", size: 1)

        let (deadlines, blocks) = try await pool.withTransaction { connection in
            // So few rows are read as fast without an index.
            try connection.script(
                "SET LOCAL enable_seqscan = off; SET LOCAL enable_bitmapscan = off")
            let deadlines = try HomeQueries.deadlines(
                now: PagesFixture.now, until: PagesFixture.now + 7 * 86_400_000, on: connection)
            let blocks = try connection.query(
                "SELECT pg_stat_get_xact_blocks_fetched('repricer.price_changes'::regclass) AS blocks"
            ).one().int64("blocks")
            return (deadlines, blocks)
        }

        #expect(deadlines.map(\.rows).sorted() == [Self.rows - 1, Self.rows])
        #expect(blocks < Self.rows / 30)
        await pool.close()
        await owner.close()
    }
}

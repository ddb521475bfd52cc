import Postgres
import TestSupport
import Testing

/// What is kept of changes under way says at each instant to come what the facts say.
@Suite(.database) struct KeptMovesTests {
    /// Two items of one subscription, called on 20 and 21 January, of which no charge is known. What was paid for ends with
    /// the renewal that was forecast for each: 10 February, and 12 March.
    private static func fill(_ owner: PostgresConnection, second state: String) async throws {
        try await owner.script(
            ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 2)
                + """
                INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, line, sku, direction,
                    currency, storefront, period, current_price_milliunits, new_price_milliunits, forecast_consent,
                    forecast_renewal_at, forecast_effective_at, send_by, due_effective_at, state, state_since, sent_at,
                    submitted_by)
                SELECT '1', repricer.bucket_of('1'), gen_random_uuid(), '\(ReportFixture.batch)', n.line, n.sku, 'increase',
                    'USD', 'USA', 'P1M', 9990, 12990, 'required', n.renewal_at, '2026-06-01Z', '2026-05-01Z', '2026-06-01Z',
                    n.state, '2026-01-21Z', n.sent_at, 'alice'
                FROM (VALUES (1, 'A', '2026-02-10Z'::timestamptz, '2026-01-20Z'::timestamptz, 'scheduled'),
                    (2, 'B', '2026-03-12Z', '2026-01-21Z', '\(state)')) AS n (line, sku, renewal_at, sent_at, state);
                INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status)
                    VALUES ('1', repricer.bucket_of('1'), 1);
                INSERT INTO repricer.stale_figures VALUES ('1', repricer.bucket_of('1'));
                """)
        try await owner.script(
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT repricer.summarise_figures(100); COMMIT")
    }

    @Test(arguments: ["scheduled", "pending_consent", "accepted"])
    func items_thatAreForecastToRenewOnOtherDays_endEachOnItsOwn(state: String) async throws {
        let owner = try await TestDatabase.connect()
        try await Self.fill(owner, second: state)
        let kept = try await owner.query(
            "SELECT FROM repricer.kept_moves WHERE known_after < 'infinity'")

        #expect(kept.count == 1)
        var told: Set<String> = []
        for instant in [
            "2026-01-25Z", "2026-02-05Z", "2026-02-10T00:00:00.000001Z", "2026-02-20Z",
            "2026-03-05Z", "2026-03-12Z", "2026-03-20Z", "2026-05-01Z",
        ] {
            let facts = try await ReportFixture.moves("revenue_moves", at: instant, on: owner)
            #expect(
                try await ReportFixture.moves("bridge_moves", at: instant, on: owner) == facts,
                "\(instant)")
            told.insert(facts)
        }
        #expect(told.count >= 4)
        await owner.close()
    }

    /// A row that was followed before its approval is called by and by: it is counted from the facts.
    @Test func subscription_withARowThatMayHaveBeenCalled_isNotKept() async throws {
        let owner = try await TestDatabase.connect()
        try await Self.fill(owner, second: "awaiting_approval")

        let kept = try await owner.query(
            "SELECT FROM repricer.kept_moves WHERE known_after < 'infinity'")

        #expect(kept.isEmpty)
        let facts = try await ReportFixture.moves("revenue_moves", at: "2026-02-05Z", on: owner)
        #expect(
            try await ReportFixture.moves("bridge_moves", at: "2026-02-05Z", on: owner) == facts)
        await owner.close()
    }
}

import Postgres
import TestSupport
import Testing

/// Indexes know the stage of a change and not its state: one whose call is out is queued there.
@Suite(.database) struct ChangeStageTests {
    private static let changeWithItsCallOut = """
        INSERT INTO repricer.batches (batch_id, name, content_sha256, plan_hash, planned_as_of, row_count,
            submitted_at)
        VALUES ('00000000-0000-7000-8000-000000000001', 'b', 'c', 'p', '2026-01-01Z', 1, '2026-01-01Z');
        INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, line, sku,
            direction, currency, storefront, period, current_price_milliunits, new_price_milliunits,
            forecast_consent, forecast_effective_at, send_by, due_effective_at, state_since, state, sent_at,
            request_reference_id)
        VALUES ('1', repricer.bucket_of('1'), '00000000-0000-7000-8000-000000000002',
            '00000000-0000-7000-8000-000000000001', 2, 'A', 'increase', 'USD', 'USA', 'P1M', 1, 2, 'required', '2026-02-01Z', '2026-01-31Z',
            '2026-02-01Z', '2026-01-01Z', 'sending', '2026-01-02Z',
            '00000000-0000-7000-8000-000000000003');
        """

    @Test func change_whileItsCallIsOut_isQueuedForIndexesAndKeepsItsItem() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(Self.changeWithItsCallOut)

        let change = try await connection.query(
            "SELECT state || ' ' || stage AS line FROM repricer.price_changes"
        ).one()
        let again = await #expect(throws: PostgresError.self) {
            try await connection.script(
                """
                INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, line, sku,
                    direction, currency, storefront, period, current_price_milliunits, new_price_milliunits,
                    forecast_consent, forecast_effective_at, send_by, due_effective_at, state_since)
                SELECT original_transaction_id, bucket, '00000000-0000-7000-8000-000000000009', batch_id, 3, sku,
                    direction, currency, storefront, period, current_price_milliunits, new_price_milliunits,
                    forecast_consent, forecast_effective_at, send_by, due_effective_at, state_since
                FROM repricer.price_changes
                """)
        }

        #expect(try change.text("line") == "sending queued")
        #expect(again?.constraint == "price_changes_one_open")
        await connection.close()
    }
}

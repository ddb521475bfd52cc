import Ledger
import Postgres
import TestSupport
import Testing

/// What later migrations make of the rows that a database held before them.
@Suite(.database) struct CarriedOverTests {
    /// 1 names FAR, which 2 of the same customer carries, and B, which is its own; 3 is another customer's.
    private static let openChange = """
        INSERT INTO repricer.subscriptions (original_transaction_id, status, auto_renews,
            app_account_token, items)
        SELECT id, 1, true, customer, items::jsonb FROM (VALUES
            ('1', 'one', '[{"sku":"A","renews":true},{"sku":"B","renews":true}]'),
            ('2', 'one', '[{"sku":"FAR","renews":true},{"sku":"B","renews":true}]'),
            ('3', 'two', '[{"sku":"FAR","renews":true}]')) AS v (id, customer, items);
        INSERT INTO repricer.batches (batch_id, name, content_sha256, plan_hash, planned_as_of, row_count,
            submitted_at)
        VALUES ('00000000-0000-7000-8000-000000000001', 'old', 'c', 'p', '2026-01-01Z', 1,
            '2026-01-01Z');
        INSERT INTO repricer.price_changes (original_transaction_id, change_id, batch_id, line, sku,
            direction, currency, storefront, period, current_price_milliunits, new_price_milliunits,
            dependent_skus, forecast_consent, forecast_effective_at, send_by, due_effective_at,
            state_since)
        VALUES ('1', '00000000-0000-7000-8000-000000000002', '00000000-0000-7000-8000-000000000001', 2,
            'A', 'increase', 'USD', 'USA', 'P1M', 1, 2, '{FAR,B}', 'required', '2026-02-01Z',
            '2026-01-31Z', '2026-02-01Z', '2026-01-01Z');
        """

    @Test func migrate_withOpenDependentsNamedBySKUAlone_recordsWhereTheyLive() async throws {
        let connection = try await PackedEvidenceMigrationTests.migrated(
            before: "0030", after: Self.openChange)

        let claims = try await connection.query(
            """
            SELECT original_transaction_id || '/' || sku || ' by ' || claimed_by AS line
            FROM repricer.dependent_claims
            """)

        #expect(try claims.map { try $0.text("line") } == ["2/FAR by 1"])
        await connection.close()
    }

    private static let rejected = """
        INSERT INTO repricer.mass_extensions (extension_id, product_id, extend_by_days, reason_code,
            eligible_count, state, submitted_by, submitted_at, decided_by, decided_at)
        SELECT id::uuid, 'generic', 7, 3, 1, 'rejected', 'ana', '2026-01-01Z', 'carol', '2026-01-03Z'
        FROM (VALUES ('00000000-0000-7000-8000-000000000001'),
            ('00000000-0000-7000-8000-000000000002')) AS v (id);
        SELECT repricer.append_audit('ben', '2026-01-02Z', 'approve',
            'extension:00000000-0000-7000-8000-000000000001', '{}');
        """

    @Test func migrate_withExtensionsRejectedAfterTheirApproval_restoresTheApprover() async throws {
        let connection = try await PackedEvidenceMigrationTests.migrated(
            before: "0032", after: Self.rejected)

        let rows = try await connection.query(
            """
            SELECT coalesce(approved_by, '-') || ' ' || coalesce(approved_at::date::text, '-') || ' '
                || rejected_by || ' ' || rejected_at::date AS line
            FROM report.renewal_extension ORDER BY extension_id
            """)

        #expect(
            try rows.map { try $0.text("line") } == [
                "ben 2026-01-02 carol 2026-01-03", "- - carol 2026-01-03",
            ])
        await connection.close()
    }
}

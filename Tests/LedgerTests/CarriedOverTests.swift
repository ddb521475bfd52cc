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

    @Test func migrate_whileACallIsOut_keepsItsChangeSendingAndItsItemTaken() async throws {
        let connection = try await PackedEvidenceMigrationTests.migrated(
            before: "0041",
            after: Self.openChange
                + """
                UPDATE repricer.price_changes SET state = 'sending', sent_at = '2026-01-02Z',
                    request_reference_id = '00000000-0000-7000-8000-000000000003';
                INSERT INTO repricer.price_change_requests (original_transaction_id, request_reference_id,
                    change_ids, transaction_id, call, lease_owner, lease_until, prepared_at)
                SELECT original_transaction_id, request_reference_id, ARRAY[change_id], '1', '{}',
                    request_reference_id, '2026-01-02Z', '2026-01-02Z' FROM repricer.price_changes;
                """)

        let change = try await connection.query(
            """
            SELECT c.state || ' ' || c.stage || ' ' || b.rows_queued || ' ' || b.rows_sending AS line
            FROM repricer.price_changes c JOIN report.batch_summary b ON b.batch_id = c.batch_id
            """
        ).one()
        let again = await #expect(throws: PostgresError.self) {
            try await connection.script(
                """
                INSERT INTO repricer.price_changes (original_transaction_id, change_id, batch_id, line, sku,
                    direction, currency, storefront, period, current_price_milliunits, new_price_milliunits,
                    forecast_consent, forecast_effective_at, send_by, due_effective_at, state_since)
                SELECT original_transaction_id, '00000000-0000-7000-8000-000000000009', batch_id, 3, sku,
                    direction, currency, storefront, period, current_price_milliunits, new_price_milliunits,
                    forecast_consent, forecast_effective_at, send_by, due_effective_at, state_since
                FROM repricer.price_changes
                """)
        }

        #expect(try change.text("line") == "sending queued 0 1")
        #expect("\(again.map { "\($0)" } ?? "")".contains("price_changes_one_open"))
        await connection.close()
    }
}

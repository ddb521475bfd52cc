import Ledger
import Postgres
import TestSupport
import Testing

/// What a database held before decisions were chained and rows knew their submitter.
@Suite(.database) struct AuditMigrationTests {
    private static let before = """
        INSERT INTO repricer.batches (batch_id, name, content_sha256, plan_hash, planned_as_of, row_count,
            submitted_by, submitted_at)
        VALUES ('00000000-0000-7000-8000-000000000001', 'old', 'c', 'p', '2026-01-01Z', 1, 'ana',
            '2026-01-01Z');
        INSERT INTO repricer.price_changes (original_transaction_id, change_id, batch_id, line, sku,
            direction, currency, storefront, period, current_price_milliunits, new_price_milliunits,
            forecast_consent, forecast_effective_at, send_by, due_effective_at, state_since)
        VALUES ('1', '00000000-0000-7000-8000-000000000002', '00000000-0000-7000-8000-000000000001', 2,
            'PLAN', 'decrease', 'USD', 'USA', 'P1M', 2, 1, 'none', '2026-02-01Z', '2026-01-31Z',
            '2026-02-01Z', '2026-01-01Z');
        INSERT INTO repricer.decisions (decided_at, actor, action, batch_id, detail) VALUES
            ('2026-01-03Z', 'cleo', 'pause', NULL, NULL),
            ('2026-01-01Z', 'ana', 'submit', '00000000-0000-7000-8000-000000000001', 'p'),
            ('2026-01-02Z', 'ben', 'reject', '00000000-0000-7000-8000-000000000001', 'no "yes"');
        """

    @Test func migrate_withDecisionsOfBefore_chainsThemInTheirOrder() async throws {
        let connection = try await PackedEvidenceMigrationTests.migrated(
            before: "0014", after: Self.before)

        let lines = try await connection.read { try AuditQueries.page(after: 0, on: $0) }
        let chain = try await connection.read { try AuditQueries.verify(kept: nil, on: $0) }

        #expect(lines.map(\.actor) == ["ana", "ben", "cleo"])
        #expect(
            lines.map(\.object) == [
                "batch:00000000-0000-7000-8000-000000000001",
                "batch:00000000-0000-7000-8000-000000000001", "everything",
            ])
        #expect(
            lines.map(\.details) == [
                #"{"detail":"p","carried_over":true}"#,
                #"{"detail":"no \"yes\"","carried_over":true}"#,
                #"{"carried_over":true}"#,
            ])
        #expect(chain.findings.isEmpty)
        #expect(chain.head.sequence == 3)
        await connection.close()
    }

    @Test func migrate_withRowsOfBefore_givesThemTheirSubmitter() async throws {
        let connection = try await PackedEvidenceMigrationTests.migrated(
            before: "0014", after: Self.before)

        let rows = try await connection.query("SELECT submitted_by FROM repricer.price_changes")

        #expect(try rows.map { try $0.text("submitted_by") } == ["ana"])
        await connection.close()
    }
}

import Postgres
import TestSupport
import Testing

@testable import Reports

/// `report.price_change_as_of`: what was so at an instant, as it is known today.
@Suite(.database) struct PriceChangeAsOfTests {
    private static let history = """
        UPDATE repricer.price_changes SET state_since = '2026-03-01Z', sent_at = '2026-01-03Z',
                accepted_at = '2026-01-20Z'
            WHERE original_transaction_id = '1';
        INSERT INTO repricer.price_change_history
            (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id)
        SELECT '1', repricer.bucket_of('1'), change_id, at::timestamptz, h.state, kind, 'e-' || h.state
        FROM repricer.price_changes, (VALUES ('2026-01-02Z', 'queued', 'approval'),
            ('2026-01-03Z', 'sending', 'request'), ('2026-01-03Z', 'scheduled', 'response'),
            ('2026-01-10Z', 'pending_consent', 'notification'), ('2026-01-20Z', 'accepted', 'notification'),
            ('2026-03-01Z', 'effective', 'notification')) AS h (at, state, kind)
        WHERE original_transaction_id = '1';
        """

    private struct State: Equatable {
        var text: String
        var renewals: Int64
    }

    private static func state(_ at: String, _ conninfo: String) async throws -> State? {
        let connection = try await PostgresConnection.connect(conninfo, applicationName: "test")
        let row = try await connection.query(
            """
            SELECT state || coalesce(' ' || evidence_id, '') || coalesce(' ' || acceptance, '') AS text,
                charged_renewals
            FROM report.price_change_as_of(\(at)::timestamptz) WHERE original_transaction_id = '1'
            """
        ).first
        let state = try row.map {
            State(text: try $0.text("text"), renewals: try $0.int64("charged_renewals"))
        }
        await connection.close()
        return state
    }

    @Test(arguments: [
        ("2025-12-31T23:59:59Z", nil, 0), ("2026-01-01T12:00:00Z", "awaiting_approval", 0),
        ("2026-01-02T12:00:00Z", "queued e-queued", 0),
        ("2026-01-03T00:00:00Z", "scheduled e-scheduled", 0),
        ("2026-01-15T00:00:00Z", "pending_consent e-pending_consent", 0),
        ("2026-02-01T00:00:00Z", "accepted e-accepted consented", 0),
        ("2026-03-15T00:00:00Z", "effective e-effective consented", 1),
        // The third charge was revoked.
        ("2026-06-01T00:00:00Z", "effective e-effective consented", 2),
    ])
    func priceChangeAsOf_anInstant_saysWhatWasSoThen(at: String, text: String?, renewals: Int64)
        async throws
    {
        let owner = try await TestDatabase.connect()
        try await owner.script(ReportFixture.everyState + Self.history)
        await owner.close()
        let finance = try await TestDatabase.login("fiona", memberOf: ["repricer_finance"])

        let found = try await Self.state(at, finance)

        #expect(found == text.map { State(text: $0, renewals: renewals) })
    }

    @Test func priceChangeAsOf_nowForEveryChange_isTheReportOfNow() async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(ReportFixture.everyState + Self.history)
        let differing = try await owner.query(
            """
            SELECT original_transaction_id, state, reason, charged_renewals, charged_uplift_milliunits
            FROM report.price_change_as_of('2026-06-01Z')
            EXCEPT
            SELECT original_transaction_id, state, reason, charged_renewals, charged_uplift_milliunits
            FROM report.price_change
            """)
        let count = try await owner.query("SELECT 1 FROM report.price_change_as_of('2026-06-01Z')")
            .count

        #expect(differing.isEmpty)
        #expect(count == 8)
        await owner.close()
    }
}

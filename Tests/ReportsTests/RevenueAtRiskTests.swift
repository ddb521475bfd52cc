import Postgres
import TestSupport
import Testing

/// What is lost where customers do not consent, by the day it is due.
@Suite(.database) struct RevenueAtRiskTests {
    @Test func openChangesThatMayNeedConsent_countByTheirDay_withDependents() async throws {
        func change(
            _ line: Int, _ consent: String, _ state: String, due: String = "2026-03-01T15:00Z"
        ) -> String {
            ReportFixture.Change(
                subscription: "\(line)", line: line, old: 9990, new: 12990, consent: consent,
                state: state, due: due
            ).sql
        }
        let connection = try await TestDatabase.connect()
        try await connection.script(
            ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 9)
                + change(2, "required", "pending_consent") + change(3, "required", "scheduled")
                + change(4, "not_known", "queued") + change(5, "not_required", "pending_consent")
                + change(6, "not_required", "scheduled") + change(7, "required", "accepted")
                + change(8, "required", "awaiting_approval")
                + change(9, "required", "scheduled", due: "2026-03-02T00:00Z")
                    + """
                    UPDATE repricer.price_changes SET at_risk_milliunits = 11990,
                        at_risk_elsewhere = '[{"currency":"USD","storefront":"USA","period":"P1Y","milliunits":24000}]'
                    WHERE line = 2;
                    """)
        let rows = try await connection.query(
            """
            SELECT concat_ws(' ', consent_due_on, period, changes, asked, to_be_asked, not_known, at_risk_milliunits,
                at_risk_per_month_milliunits) AS line
            FROM report.revenue_at_risk ORDER BY consent_due_on, period
            """
        ).map { try $0.text("line") }
        await connection.close()

        #expect(
            rows == [
                "2026-03-01 P1M 4 2 1 1 41960 41960", "2026-03-01 P1Y 0 0 0 0 24000 2000",
                "2026-03-02 P1M 1 0 1 0 9990 9990",
            ])
    }
}

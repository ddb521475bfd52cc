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

    /// PLAN of one batch has ADD as its dependent, and ADD a change of its own in another batch: it is at risk, and lost, once. A
    /// dependent that is paid in another currency is counted, and its price is in no sum of this one.
    @Test func dependent_withAChangeOfAnotherBatch_countsOnce_andInAnotherCurrencyWithoutItsPrice()
        async throws
    {
        func changes(_ subscription: String, _ line: Int, _ state: String) -> String {
            var own = ReportFixture.Change(
                subscription: subscription, batch: ReportFixture.otherBatch, line: line + 1,
                old: 4990, new: 5990,
                consent: "required", state: state)
            own.asked = "2026-02-01Z"
            var parent = ReportFixture.Change(
                subscription: subscription, line: line, old: 9990, new: 12_990, consent: "required",
                state: state,
                dependents: "{ADD}")
            parent.asked = "2026-02-01Z"
            return parent.sql
                + own.sql.replacing("'PLAN',", with: "'ADD',")
        }
        let connection = try await TestDatabase.connect()
        try await connection.script(
            ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 2)
                + ReportFixture.batchSQL(ReportFixture.otherBatch, name: "summer", rows: 2)
                + changes("1", 2, "pending_consent") + changes("2", 12, "declined")
                    + """
                    UPDATE repricer.price_changes SET at_risk_milliunits = current_price_milliunits
                        + CASE WHEN dependent_skus <> '{}' THEN 4990 ELSE 0 END;
                    UPDATE repricer.price_changes SET ended_at = '2026-03-01Z' WHERE state = 'declined';
                    UPDATE repricer.price_changes SET reason = 'parent_declined' WHERE state = 'declined' AND sku = 'ADD';
                    INSERT INTO repricer.dependent_cancellations (original_transaction_id, bucket, change_id, dependent_sku,
                        parent_sku, batch_id, cause, price_milliunits, currency, state, requested_at, requested_by_evidence,
                        settled_at, settled_by_evidence)
                    SELECT c.original_transaction_id, c.bucket, c.change_id, d.sku, 'PLAN', c.batch_id, 'declined', 4990,
                        d.currency, 'confirmed', '2026-03-01Z', 'e', '2026-03-01Z', 'e'
                    FROM repricer.price_changes c, (VALUES ('ADD', 'USD'), ('FAR', 'EUR')) AS d (sku, currency)
                    WHERE c.state = 'declined' AND c.sku = 'PLAN';
                    """)
        let atRisk = try await connection.query(
            "SELECT concat_ws(' ', batch_name, at_risk_milliunits) AS line FROM report.revenue_at_risk ORDER BY 1"
        ).map { try $0.text("line") }
        let lost = try await connection.query(
            """
            SELECT concat_ws(' ', b.name, d.dependents, coalesce(d.price_milliunits::text, '-')) AS line
            FROM repricer.lost_dependents d JOIN repricer.batches b USING (batch_id)
            """
        ).map { try $0.text("line") }
        await connection.close()

        #expect(atRisk == ["spring 9990", "summer 4990"])
        #expect(lost == ["spring 1 -"])
    }

    /// Each change has so many dependents elsewhere, of the most that a price may be.
    private static func elsewhere(_ period: String, _ count: Int) -> String {
        """
        UPDATE repricer.price_changes SET at_risk_milliunits = 0, at_risk_elsewhere = (
            SELECT jsonb_agg(jsonb_build_object('currency', 'USD', 'storefront', 'USA', 'period', '\(period)',
                'milliunits', 100000000000000000)) FROM generate_series(1, \(count)));
        """
    }

    /// The first change took effect, to a price of which two renewals are too many.
    private static let absurd = """
        UPDATE repricer.price_changes SET state = 'effective', effective_at = '2026-03-01Z', new_price_milliunits = 1e15
        WHERE line = 2;
        INSERT INTO repricer.stale_figures VALUES ('2', repricer.bucket_of('2'));
        """
    private static func absurdCharge(
        _ day: String, price: Int = 1_000_000_000_000_000, seats: Int = 9000
    ) -> String {
        """
        INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, price_milliunits,
            quantity, currency, storefront)
        VALUES ('2', repricer.bucket_of('2'), '\(day)', 'PLAN', '\(day)', \(price), \(seats), 'USD', 'USA');
        """
    }

    /// A sum that is too large is refused by its name, in each report that adds up money; its month alone may be, too.
    @Test(arguments: [
        (
            "revenue_at_risk", "revenue_at_risk, batch spring: at_risk of USD",
            elsewhere("P1M", 60)
        ),
        (
            "revenue_at_risk", "revenue_at_risk, batch spring: at_risk_per_month of USD",
            elsewhere("P1W", 30)
        ),
        (
            "revenue_impact", "revenue_impact, batch spring: new_total of USD",
            """
            INSERT INTO repricer.figure_tallies
            SELECT BATCH, false, 'increase', 'required', 'USD', 'USA', 'P1M', 1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0, 1e19,
                0, 0, 0, 0, 0, 0, 0, 0, 0, 0;
            """
        ),
        (
            "revenue_impact", "revenue_impact, batch spring: uplift_per_month of USD",
            """
            INSERT INTO repricer.figure_tallies
            SELECT BATCH, false, 'increase', 'required', 'USD', 'USA', 'P1W', 1, 1, 1, 1, 0, 1, 0, 0, 0, 0, 0, 1, 1, 0, 0,
                0, 4e18, 0, 0, 0, 0, 0, 0, 0, 0;
            """
        ),
        (
            "price_change", "the renewals of price change 00000000-0000-7000-8000-000000000002",
            absurd + absurdCharge("2026-03-01Z") + absurdCharge("2026-04-01Z")
        ),
        (
            "revenue_impact", "the renewals of price change 00000000-0000-7000-8000-000000000002",
            absurd + absurdCharge("2026-03-01Z") + absurdCharge("2026-04-01Z")
        ),
        (
            "revenue_impact", "the seats of transaction 2026-03-01Z, at the old price,",
            absurd + absurdCharge("2026-03-01Z", price: 1, seats: 10_000)
                + """
                UPDATE repricer.price_changes SET current_price_milliunits = 1e15, new_price_milliunits = 1,
                    direction = 'decrease', forecast_consent = 'none' WHERE line = 2;
                """
        ),
        (
            "revenue_impact", "the dependents of price change 00000000-0000-7000-8000-000000000002",
            """
            INSERT INTO repricer.dependent_cancellations (original_transaction_id, bucket, change_id, dependent_sku,
                parent_sku, batch_id, cause, state, price_milliunits, currency, requested_at, requested_by_evidence,
                settled_at, settled_by_evidence)
            SELECT '2', repricer.bucket_of('2'), change_id, v.sku, 'PLAN', batch_id, 'declined', 'confirmed', 9e18,
                'USD', '2026-04-15Z', 'e1', '2026-04-16Z', 'e2'
            FROM repricer.price_changes CROSS JOIN (VALUES ('D1'), ('D2')) AS v (sku) WHERE line = 2;
            """
        ),
        (
            "revenue_bridge", "revenue_bridge, batch spring: other of USD",
            "INSERT INTO repricer.move_tallies VALUES (BATCH, '2026-02-01', 'USD', 'USA', 'other', 0, 2e20, 0);"
        ),
        (
            "revenue_bridge_total", "revenue_bridge_total, batch spring: other in EUR",
            """
            SET repricer.reporting_currency = 'EUR';
            INSERT INTO repricer.move_tallies VALUES (BATCH, '2026-02-01', 'EUR', 'DEU', 'other', 0, 1e20, 0),
                (BATCH, '2026-02-01', 'EUR', 'FRA', 'other', 0, 1e20, 0);
            """
        ),
    ])
    func aSumThatNoFigureHolds_isRefusedByItsName(
        report: String, name: String, more: String
    ) async throws {
        let changes = (2...3).map { line in
            ReportFixture.Change(
                subscription: "\(line)", line: line, old: 9990, new: 12990, consent: "required",
                state: "pending_consent"
            ).sql
        }
        let connection = try await TestDatabase.connect()
        try await connection.script(
            ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 2) + changes.joined()
                + more.replacing("BATCH", with: "'\(ReportFixture.batch)'"))
        let error = await #expect(throws: PostgresError.self) {
            _ = try await connection.query("SELECT * FROM report.\(unsafe: report)")
        }
        await connection.close()

        #expect(error?.message?.hasPrefix(name + " add up to ") == true, "\(error?.message ?? "-")")
    }
}

import Postgres
import TestSupport
import Testing

/// Under which cause the bridge shows an item that counts with a change of its own, and one that was not paid for when its
/// change was called.
@Suite(.database) struct BridgeCauseTests {
    private static func charge(_ sku: String, _ day: String, _ price: Int, until: String) -> String
    {
        """
        INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at, expires_at,
            price_milliunits, currency, storefront)
        VALUES ('1', repricer.bucket_of('1'), '\(day)', '\(sku)', '\(day)', '\(until)', \(price), 'USD', 'USA');
        """
    }

    private static func paid(_ sku: String, _ price: Int) -> String {
        (1...4).map { charge(sku, "2026-0\($0)-01Z", price, until: "2026-0\($0 + 1)-01Z") }.joined()
    }

    /// `batch month opening declined dependents other closing`.
    private func bridge(_ sql: String, asOf: String) async throws -> [String] {
        let connection = try await TestDatabase.connect()
        try await connection.script(sql + "SET repricer.as_of = '\(asOf)';")
        let rows = try await connection.query(
            """
            SELECT concat_ws(' ', batch_name, to_char(month, 'MM'), opening_milliunits, declined_milliunits,
                dependents_milliunits, other_milliunits, closing_milliunits) AS line
            FROM report.revenue_bridge ORDER BY month, batch_name
            """
        ).map { try $0.text("line") }
        await connection.close()
        return rows
    }

    /// Its parent is declined in another batch, and it falls with it.
    @Test func aDependentWithAChangeOfItsOwn_fallsWithItsDeclinedParent() async throws {
        let own = ReportFixture.Change(
            subscription: "1", line: 2, old: 2000, new: 3000, consent: "not_required",
            state: "effective", effective: "2026-02-01Z")
        let parent = ReportFixture.Change(
            subscription: "1", batch: ReportFixture.otherBatch, line: 9, old: 9990, new: 14990,
            consent: "required", state: "declined", dependents: "{EXTRA}")

        let rows = try await bridge(
            ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 1)
                + ReportFixture.batchSQL(ReportFixture.otherBatch, name: "summer", rows: 1)
                + own.sql + parent.sql
                    + """
                    UPDATE repricer.price_changes SET sku = 'EXTRA' WHERE line = 2;
                    UPDATE repricer.price_changes SET sent_at = '2026-04-10Z', ended_at = '2026-05-01Z' WHERE line = 9;
                    """ + Self.paid("EXTRA", 3000) + Self.paid("PLAN", 9990), asOf: "2026-06-20Z")

        #expect(
            rows.suffix(2) == ["spring 05 3000 0 -3000 0 0", "summer 05 9990 -9990 0 0 0"],
            "\(rows)")
    }

    /// The last charge covers no more than December. Whether it was renewed is not known, unless a failure or an end was told.
    @Test(arguments: [
        (nil, ["spring 01 9990 0 0 0 9990"]), ("DID_FAIL_TO_RENEW", []), ("EXPIRED", []),
        ("PRICE_INCREASE", ["spring 01 9990 0 0 0 9990"]),
    ])
    func aChangeCalledWhereNothingIsPaid_opensWithNothing(
        told: String?, lines: [String]
    ) async throws {
        let change = ReportFixture.Change(
            subscription: "1", line: 2, old: 9990, new: 12990, consent: "required",
            state: "scheduled")
        let event = told.map {
            """
            INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
                statement)
            VALUES ('1', repricer.bucket_of('1'), '2026-01-01T00:00:05Z', 'e', 'notification', '\($0)', '{}');
            """
        }

        let rows = try await bridge(
            ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 1) + change.sql
                + "UPDATE repricer.price_changes SET forecast_renewal_at = '2026-12-01Z';"
                + Self.charge("PLAN", "2025-12-01Z", 9990, until: "2026-01-01Z") + (event ?? ""),
            asOf: "2026-01-20Z")

        #expect(rows == lines)
    }

    /// A charge failed, and the item was paid for after that. What ended it then is not the failure.
    @Test(arguments: [
        ("recovered", ["spring 02 8623 0 0 -8623 0"]),
        ("charged after it", ["spring 02 8623 0 0 -8623 0"]),
        ("given up", ["spring 02 8623 0 0 0 0"]),
        ("recovered in the next month", ["spring 02 8623 0 0 0 0"]),
    ])
    func aFailureThatWasMadeUpFor_endsNothing(story: String, lines: [String]) async throws {
        let change = ReportFixture.Change(
            subscription: "1", line: 2, old: 1990, new: 2190, consent: "not_required",
            place: "('USD', 'USA', 'P1W')", state: "scheduled", due: "2026-05-01Z")
        func event(_ day: String, _ type: String, _ subtype: String? = nil) -> String {
            """
            INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id, source, type,
                subtype, statement)
            VALUES ('1', repricer.bucket_of('1'), '\(day)', '\(day)', 'notification', '\(type)',
                \(subtype.map { "'\($0)'" } ?? "NULL"), '{}');
            """
        }
        let fails = event("2026-02-05T00:00:10Z", "DID_FAIL_TO_RENEW")
        let paid = Self.charge("PLAN", "2026-01-29Z", 1990, until: "2026-02-05Z")
        let story =
            switch story {
            case "recovered":
                Self.charge("PLAN", "2026-02-05Z", 1990, until: "2026-02-12Z")
                    + event("2026-02-08Z", "DID_RENEW", "BILLING_RECOVERY")
            case "recovered in the next month":
                Self.charge("PLAN", "2026-03-01T05:00:00Z", 1990, until: "2026-03-08Z")
                    + event("2026-03-01T05:00:00Z", "DID_RENEW", "BILLING_RECOVERY")
            case "charged after it":
                Self.charge("PLAN", "2026-02-05Z", 1990, until: "2026-02-12Z")
                    + Self.charge("PLAN", "2026-02-12Z", 1990, until: "2026-02-19Z")
            default: ""
            }

        let rows = try await bridge(
            ReportFixture.batchSQL(ReportFixture.batch, name: "spring", rows: 1) + change.sql
                + "UPDATE repricer.price_changes SET sent_at = '2026-01-30Z';" + paid + fails
                + story,
            asOf: "2026-03-20Z")

        #expect(rows.filter { $0.hasPrefix("spring 02") } == lines, "\(rows)")
    }
}

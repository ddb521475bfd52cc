import Foundation
import Postgres
import TestSupport
import Testing

@testable import RepricerCommands

/// A customer chose another length of the period from the renewal on, or Apple tells the renewal in another currency: what
/// cannot be compared is compared nowhere, from the stored facts to the limits of approvers.
@Suite(.database) struct ComingPeriodCommandTests {
    private let ana: [String: String]
    private let scratch: ScratchFolder

    /// One from a month to a year, and one whose renewal is told in euros.
    init() async throws {
        let team = try await PricingTeam(
            subscriptions: """
                SELECT id, repricer.bucket_of(id), 1, true, 'USA', 'USD', 'P1M', 'generic',
                    '2024-06-01Z', NULL, '2024-06-01Z', '2026-03-01Z', '2026-04-01Z', '2026-04-01Z',
                    jsonb_build_array(jsonb_build_object('sku', 'PLAN', 'currentPrice', 9990,
                        'renewalPrice', CASE i WHEN 1 THEN 99990 ELSE 8990 END, 'renews', true)),
                    '2026-03-01Z', '2026-03-01Z', 'n-1', '2024-06-01Z'::timestamptz,
                    CASE i WHEN 1 THEN 'P1Y' END, CASE i WHEN 1 THEN 'USD' ELSE 'EUR' END
                FROM generate_series(1, 2) AS i, LATERAL (SELECT (1000000000000000 + i)::text AS id) AS t
                """, further: ", renewal_period, renewal_currency")
        (ana, scratch) = (team.ana, team.scratch)
    }

    @Test func plan_scenarioAndLimits_goByWhatRenews() async throws {
        let file = try scratch.file(
            "batch.csv",
            """
            original_transaction_id,sku,price,currency
            1000000000000001,PLAN,109.99,USD
            1000000000000002,PLAN,10.99,USD

            """)

        let plan = await run(
            "plan", file, "--as-of", "2026-03-02T00:00:00Z", "--rows", "-", environment: ana)
        let rows = try plan.output.split(separator: "\n").map {
            try #require(
                JSONSerialization.jsonObject(with: Data($0.utf8)) as? [String: Any],
                "\(plan.messages)")
        }
        #expect(rows.map { $0["code"] as? String } == [nil, nil])
        #expect(rows.map { $0["current_price_milliunits"] as? Int } == [99_990, 9990])
        #expect(rows.map { $0["period"] as? String } == ["P1Y", "P1M"])
        #expect(rows.map { $0["at_risk_milliunits"] as? Int } == [99_990, 9990])

        let out = "\(scratch.path)/yearly.csv"
        _ = await run(
            "scenario", "--sku", "PLAN", "--period", "P1Y", "--rule", "+10%", "--out", out,
            environment: ana)
        let written = try String(contentsOfFile: out, encoding: .utf8)
        #expect(written.contains("1000000000000001") && !written.contains("1000000000000002"))
        #expect(written.contains(",99.99"), "\(written)")

        let submitted = await run("submit", file, "--name", "spring", environment: ana)
        let batch = submitted.output.trimmingCharacters(in: .whitespacesAndNewlines)
        let connection = try await TestDatabase.connect()
        let measured = try await connection.query(
            """
            SELECT round(rise_basis_points)::int AS rise, (monthly_milliunits ->> 'USD')::int AS monthly
            FROM repricer.batch_measure(\(batch)::uuid)
            """
        ).one()
        // 9.99 to 10.99 a month, and 99.99 to 109.99 a year.
        #expect(try measured.int64("rise") == 1001)
        #expect(try measured.int64("monthly") == 1000 + 834)
        await connection.close()
    }
}

import Batches
import Foundation
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import Pages
@testable import RepricerCommands

/// A price is that of one seat. Every sum of money, and every limit of one, is of all seats of a subscription.
@Suite(.database) struct SeatsTests {
    private let ana: [String: String]
    private let ben: [String: String]
    private let scratch: ScratchFolder

    /// Three subscriptions: of five seats with a dependent item, of one seat, and of one where nothing was said.
    init() async throws {
        let team = try await PricingTeam(
            subscriptions: """
                SELECT id, repricer.bucket_of(id), 1, true, 'USA', 'USD', 'P1M', 'generic',
                    '2024-06-01Z', NULL, '2024-06-01Z', '2026-01-01Z', '2026-04-01Z', '2026-04-01Z',
                    '[{"sku":"PLAN","currentPrice":10000,"renewalPrice":10000,"renews":true},
                        {"sku":"ADD","currentPrice":2000,"renewalPrice":2000,"renews":true}]',
                    '2026-01-01Z', '2026-01-01Z', 'n-1', '2024-06-01Z'::timestamptz,
                    CASE i WHEN 1 THEN 5 WHEN 2 THEN 1 END
                FROM generate_series(1, 3) AS i, LATERAL (SELECT (1000000000000000 + i)::text AS id) AS t
                """, further: ", quantity")
        (ana, ben, scratch) = (team.ana, team.ben, team.scratch)
    }

    private func file(_ rows: String) throws -> String {
        try scratch.file(
            "batch.csv", "original_transaction_id,sku,price,currency,dependent_skus\n" + rows)
    }

    private func object(_ outcome: Outcome) throws -> [String: Any] {
        try #require(
            JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any],
            "\(outcome.messages)")
    }

    /// What a period costs now and then, and what of it is at risk.
    private func sums(_ outcome: Outcome) throws -> [Int?] {
        let money = try object(outcome)["money"] as? [[String: Any]] ?? []
        #expect(money.count == 1)
        return ["now", "then", "at_risk"].map {
            money.first?["\($0)_per_period_milliunits"] as? Int
        }
    }

    @Test func sums_countEachSeat_inPlanShowPageAndReport() async throws {
        let file = try file(
            """
            1000000000000001,PLAN,20,USD,ADD
            1000000000000001,ADD,20,USD,
            1000000000000002,PLAN,20,USD,
            1000000000000003,PLAN,11,USD,

            """)
        // The item that falls with another one counts once in what is at risk.
        let now = 5 * 10_000 + 5 * 2000 + 10_000 + 10_000
        let then = 5 * 20_000 + 5 * 20_000 + 20_000 + 11_000
        let expected = [now, then, 5 * 10_000 + 5 * 2000 + 10_000]

        let plan = await run("plan", file, "--json", environment: ana)
        let rows = await run("plan", file, "--rows", "-", environment: ana)
        let submitted = await run("submit", file, "--name", "spring", environment: ana)
        let show = await run("show", "spring", "--json", environment: ana)
        let site = Site(
            pool: PostgresPool(conninfo: TestDatabase.url, applicationName: "test", size: 4),
            clock: ManualClock(1_767_571_200_000),
            about: .init(
                version: "1", bundleID: "b", environment: "Production",
                callsPerThousandSeconds: 50_000), log: .silent)
        let id = submitted.output.trimmingCharacters(in: .whitespacesAndNewlines)
        let page = try await site.pool.withTransaction(.repeatableRead) { connection in
            let batch = try #require(
                try BatchQueries.all(on: connection).first { $0.batchID == id })
            return try ApprovalFacts.read(batch, now: 1_767_571_200_000, in: "USD", on: connection)
        }
        _ = await run("approve", "spring", "--yes", environment: ben)
        let connection = try await TestDatabase.connect()
        let reported = try await connection.query(
            "SELECT sum(at_risk_milliunits)::bigint AS at_risk FROM report.revenue_at_risk"
        ).one().int("at_risk")
        await connection.close()

        #expect(try sums(plan) == expected)
        #expect(try sums(show) == expected)
        #expect(
            page.figures.money.values.map {
                [$0.now, $0.then, $0.atRisk].map(\.milliunits)
            } == [expected.map(Int64.init)])
        #expect(reported == expected.last)
        // The price of a row is that of one seat, and what is at risk is that of all.
        #expect(
            rows.output.contains(
                #""current_price_milliunits":10000,"new_price_milliunits":20000,"seats":5"#))
        #expect(rows.output.contains(#""at_risk_milliunits":60000"#))
        for figures in [try object(plan), try object(show)] {
            let warnings = figures["warnings"] as? [[String: Any]] ?? []
            let seats = warnings.first { $0["warning"] as? String == "several_seats" }
            #expect(seats?["rows"] as? Int == 2, "\(warnings)")
        }
    }

    @Test func scenario_countsEachSeat() async throws {
        let outcome = await run(
            "scenario", "--sku", "PLAN", "--rule", "=11", "--json", environment: ana)

        // Seven seats: five, one, and the one of which nothing was said.
        #expect(outcome.output.contains(#""now_per_month_milliunits":70000"#), "\(outcome.output)")
        #expect(outcome.output.contains(#""then_per_month_milliunits":77000"#))
    }

    /// A limit of money binds what all seats move together.
    @Test func limitOfMoney_countsEachSeat() async throws {
        let owner = PricingTeam.environment(TestDatabase.url)
        let file = try file("1000000000000001,PLAN,11,USD,\n")
        _ = await run(
            "policy", "set", TestDatabase.loginName("ben"), "--monthly", "USD=4.99",
            environment: owner)
        _ = await run("submit", file, "--name", "spring", environment: ana)

        let outcome = await run("approve", "spring", "--yes", environment: ben)

        #expect(outcome.code == .approvalNeededOrRefused, "\(outcome.output)")
        #expect(
            (outcome.output + outcome.messages).contains("5 USD a month, the limit is 4.99"),
            "\(outcome.output)\(outcome.messages)")
    }
}

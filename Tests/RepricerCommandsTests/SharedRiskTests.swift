import Batches
import Foundation
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import Pages
@testable import RepricerCommands

/// What is at risk counts each item of each subscription once, in `plan`, `show`, on the approval page and in
/// `report.revenue_at_risk`; and what is printed as a change is what a reader finds who subtracts.
@Suite(.database) struct SharedRiskTests {
    private let ana: [String: String]
    private let ben: [String: String]
    private let scratch: ScratchFolder

    /// Pairs of subscriptions of one customer: the first of each names an item of the second. The fourth pair is one
    /// subscription that names its own item by its id, the fifth one that names it twice.
    init() async throws {
        let team = try await PricingTeam(
            subscriptions: """
                SELECT id, repricer.bucket_of(id), 1, true, 'USA', 'USD', CASE WHEN i = 6 THEN 'P1Y' ELSE 'P1M' END, 'generic',
                    '2024-06-01Z', 'customer ' || (i + 1) / 2, '2024-06-01Z', '2026-01-01Z', '2026-04-01Z', '2026-04-01Z',
                    CASE i WHEN 4 THEN '[{"sku":"EXTRA","currentPrice":4990,"renewalPrice":4990,"renews":true}]'
                        WHEN 6 THEN '[{"sku":"PLAN","currentPrice":100000,"renewalPrice":100000,"renews":true}]'
                        ELSE '[{"sku":"PLAN","currentPrice":9990,"renewalPrice":9990,"renews":true},
                            {"sku":"ADD","currentPrice":1990,"renewalPrice":1990,"renews":true}]' END::jsonb,
                    '2026-01-01Z', '2026-01-01Z', 'n-1', CASE WHEN i <> 10 THEN '2024-06-01Z'::timestamptz END
                FROM generate_series(1, 10) AS i, LATERAL (SELECT (1000000000000000 + i)::text AS id) AS t
                """)
        (ana, ben, scratch) = (team.ana, team.ben, team.scratch)
    }

    private static func row(
        _ number: Int, _ price: String, _ dependents: String = "", sku: String = "PLAN"
    ) -> String {
        "\(1_000_000_000_000_000 + number),\(sku),\(price),USD,\(dependents)\n"
    }

    private func file(_ rows: [String]) throws -> String {
        let header = "original_transaction_id,sku,price,currency,dependent_skus\n"
        return try scratch.file("batch.csv", header + rows.joined())
    }

    private func object(_ outcome: Outcome) throws -> [String: Any] {
        try #require(
            JSONSerialization.jsonObject(with: Data(outcome.output.utf8)) as? [String: Any],
            "\(outcome.messages)")
    }

    /// By period: what needs consent and what may, in milliunits.
    private func atRisk(_ figures: [String: Any]) -> [String: [Int]] {
        let lines = figures["money"] as? [[String: Any]] ?? []
        return Dictionary(
            uniqueKeysWithValues: lines.map { line in
                (
                    line["period"] as? String ?? "",
                    ["at_risk_per_period_milliunits", "not_known_per_period_milliunits"].map {
                        line[$0] as? Int ?? -1
                    }
                )
            })
    }

    @Test func itemsOfOneCustomer_countOnce_inPlanShowPageAndReport() async throws {
        let id = 1_000_000_000_000_000
        let file = try file([
            Self.row(2, "29.99"), Self.row(1, "29.99", "\(id + 2)/PLAN"),
            Self.row(3, "29.99", "EXTRA"), Self.row(4, "14.99", sku: "EXTRA"),
            Self.row(5, "29.99", "\(id + 6)/PLAN"), Self.row(6, "299.99"),
            Self.row(7, "29.99", "\(id + 7)/ADD"), Self.row(7, "8.99", sku: "ADD"),
            Self.row(8, "29.99", "ADD;\(id + 8)/ADD"),
            Self.row(9, "29.99", "\(id + 10)/PLAN"), Self.row(10, "10.99"),
        ])
        // Eight times PLAN, EXTRA, twice ADD; and PLAN of the annual subscription.
        let monthly = 8 * 9990 + 4990 + 2 * 1990
        let expected = ["P1M": [monthly, 0], "P1Y": [100_000, 0]]

        let plan = await run("plan", file, "--json", environment: ana)
        let submitted = await run("submit", file, "--name", "spring", environment: ana)
        let show = await run("show", "spring", "--json", environment: ana)
        let site = Site(
            pool: PostgresPool(conninfo: TestDatabase.url, applicationName: "test", size: 4),
            clock: ManualClock(1_767_571_200_000),
            about: .init(
                version: "1", bundleID: "b", environment: "Production",
                callsPerThousandSeconds: 50_000), log: .silent)
        let batchID = submitted.output.trimmingCharacters(in: .whitespacesAndNewlines)
        let facts = try await site.pool.withTransaction(.repeatableRead) { connection in
            let batch = try #require(
                try BatchQueries.all(on: connection).first { $0.batchID == batchID })
            return try ApprovalFacts.read(batch, now: 1_767_571_200_000, in: "USD", on: connection)
        }
        _ = await run("approve", "spring", "--yes", environment: ben)
        let connection = try await TestDatabase.connect()
        let reported = try await connection.query(
            """
            SELECT concat_ws(' ', period, sum(changes)::bigint, sum(at_risk_milliunits)::bigint) AS line
            FROM report.revenue_at_risk GROUP BY period ORDER BY period
            """
        ).map { try $0.text("line") }
        let past = try await connection.query(
            """
            SELECT concat_ws(' ', period, sum(changes)::bigint, sum(at_risk_milliunits)::bigint) AS line
            FROM report.revenue_at_risk_as_of(clock_timestamp()) GROUP BY period ORDER BY period
            """
        ).map { try $0.text("line") }
        await connection.close()

        #expect(plan.code == .done, "\(plan.messages)")
        #expect(atRisk(try object(plan)) == expected)
        #expect(atRisk(try object(show)) == expected)
        #expect(
            Dictionary(
                uniqueKeysWithValues: facts.figures.money.map {
                    ($0.period, [$1.atRisk.milliunits, $1.maybeAtRisk.milliunits])
                }) == expected.mapValues { $0.map(Int64.init) })
        #expect(reported == ["P1M 10 \(monthly)", "P1Y 1 100000"])
        #expect(past == reported)
    }

    /// A month of 100.00 a year is 8.33, and of 104.00 it is 8.67: a reader who subtracts finds 0.34.
    @Test func change_isWhatNowAndThenDifferByAsTheyAreShown() async throws {
        let file = try file([Self.row(6, "104.00")])

        let plan = await run("plan", file, environment: ana)
        let submitted = await run("submit", file, "--name", "spring", environment: ana)
        let show = await run("show", "spring", environment: ana)
        let batchID = submitted.output.trimmingCharacters(in: .whitespacesAndNewlines)
        let site = Site(
            pool: PostgresPool(conninfo: TestDatabase.url, applicationName: "test", size: 4),
            clock: ManualClock(1_767_571_200_000),
            about: .init(
                version: "1", bundleID: "b", environment: "Production",
                callsPerThousandSeconds: 50_000), log: .silent)
        let page = try await site.approvalPage(batchID, currency: "USD")

        for text in [plan.output, show.output] {
            let line = try #require(text.split(separator: "\n").first { $0.hasPrefix("USD ") })
            #expect(
                line.split(separator: " ").prefix(5) == ["USD", "1", "8.33", "8.67", "+0.34"],
                "\(text)")
        }
        #expect("\(page.body)".contains("+0.34 USD"))
        #expect(!"\(page.body)".contains("+0.33 USD"))
    }

    /// Sums that are too wide lose their decimals: 500,000,000,000.50 and 500,000,000,001.40 are then shown alike.
    @Test func change_ofSumsInWholeUnits_isWhatTheyDifferByAsTheyAreShown() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            UPDATE repricer.subscriptions SET items =
                '[{"sku":"PLAN","currentPrice":500000000000500,"renewalPrice":500000000000500,"renews":true}]'
            WHERE original_transaction_id = '1000000000000001'
            """)
        await connection.close()

        let plan = await run("plan", try file([Self.row(1, "500000000001.40")]), environment: ana)

        let line = try #require(plan.output.split(separator: "\n").first { $0.hasPrefix("USD ") })
        #expect(
            line.split(separator: " ").prefix(5)
                == ["USD", "1", "500,000,000,001", "500,000,000,001", "0"], "\(plan.output)")
    }
}

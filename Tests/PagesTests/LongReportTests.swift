import Foundation
import HTTP
import Postgres
import TestSupport
import Testing

@testable import Pages

/// Reports that grow with every charge, shown page by page.
@Suite(.database) struct LongReportTests {
    private static let lines = 2503

    /// Five lines of each instant, so that a page ends between lines of one.
    private static func fill() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            INSERT INTO repricer.money_entries (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at, number,
                correction, amount_milliunits, currency, storefront, evidence_id)
            SELECT i, repricer.bucket_of(i), 'T' || n, 'PLAN', 'charge', '2025-01-01Z'::timestamptz + n / 5 * interval '1 hour',
                0, 0, 1000 + n, CASE WHEN n % 10 = 0 THEN 'EUR' ELSE 'USD' END, 'USA', 'e'
            FROM generate_series(1, \(lines)) n, LATERAL (SELECT (7000000000000000 + n)::text AS i) i
            """)
        await connection.close()
    }

    @Test(arguments: [("", lines), ("currency=EUR", lines / 10)])
    func money_ofManyLines_isShownPageByPageAndEachLineOnce(
        _ chosen: String, _ all: Int
    ) async throws {
        try await Self.fill()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            var address: String? = "/reports/money?\(chosen)"
            var seen: [String] = []
            var pages = 0
            var files: [String] = []
            while let target = address, pages < 10 {
                let answer = try await ask("GET", target, [:])
                #expect(answer.status == 200)
                seen += answer.text.matches(of: /<td>(?<id>T[0-9]+)<\/td>/).map { String($0.id) }
                let file = try #require(
                    answer.text.firstMatch(of: /href="(?<file>[^"]*)">These rows as CSV/))
                let beside = String(file.file).replacing("&amp;", with: "&")
                let rows = try await ask("GET", beside, [:])
                #expect(rows.status == 200, "\(beside)")
                files += rows.text.matches(of: /,(?<id>T[0-9]+),/).map { String($0.id) }
                #expect(answer.text.contains(", which prints all "))
                #expect(answer.text.contains("<tfoot") == (all < Site.moneyLines))
                address = answer.text.firstMatch(of: /href="(?<next>[^"]*)">Older lines/).map {
                    String($0.next).replacing("&amp;", with: "&")
                }
                pages += 1
            }

            #expect(pages == (all > Site.moneyLines ? 3 : 1))
            #expect(seen.count == all)
            // The file beside each page has its rows, and no others.
            #expect(files.count == all)
            #expect(Set(files) == Set(seen))
            #expect(Set(seen).count == all)
            // The newest first, where there are several pages.
            #expect(seen.first == (pages > 1 ? "T\(Self.lines)" : "T10"))
        }
    }

    @Test func money_onAPage_isReadByItsIndexAlone() async throws {
        try await Self.fill()
        let connection = try await TestDatabase.connect()
        try await connection.script("ANALYZE repricer.money_entries; SET enable_seqscan = off")
        let plan = try await connection.transaction { connection in
            try connection.query(
                """
                -- name: planOfMoneyPage
                EXPLAIN (COSTS OFF) SELECT * FROM report.money
                WHERE occurred_at >= '2025-01-04Z' AND occurred_at < '2025-01-05Z'
                """
            ).map { try $0.text("QUERY PLAN") }.joined(separator: "\n")
        }
        await connection.close()

        #expect(plan.contains("money_entries_time"), "\(plan)")
    }

    @Test func changes_ofAllBatches_areRefusedWhereTheyAreNoPage() async throws {
        try await PagesFixture.fill()
        let connection = try await TestDatabase.connect()
        try await connection.script("UPDATE repricer.batches SET row_count = 80000")
        await connection.close()
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            for format in ["", "?format=csv"] {
                let all = try await ask("GET", "/reports/price_change\(format)", [:])
                #expect(all.status == 400)
                #expect(all.text.contains("320,000 rows, too many for a page"))
                #expect(all.text.contains("<select id=\"batch\""))
            }
            let one = try await ask(
                "GET", "/reports/price_change?batch=\(PagesFixture.finished)", [:])
            #expect(one.status == 200)
        }
    }

    @Test func page_ofAReportWithoutPages_isRefused() async throws {
        try await PagesHarness.withPages(conninfo: TestDatabase.url) { ask, _ in
            for (target, words) in [
                ("/reports/reconciliation?before=2026-01-01", "has no pages"),
                ("/reports/money?before=soon", "This is no instant"),
            ] {
                let answer = try await ask("GET", target, [:])
                #expect(answer.status == 400)
                #expect(answer.text.contains(words))
            }
        }
    }
}

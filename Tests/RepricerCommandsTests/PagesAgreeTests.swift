import Foundation
import HTTP
import Postgres
import Reports
import ServiceKit
import TestSupport
import Testing

@testable import Pages
@testable import RepricerCommands

/// A page and a command that are asked the same say the same, figure by figure.
@Suite(.database) struct PagesAgreeTests {
    private static let batches = [
        PagesFixture.waiting, PagesFixture.underWay, PagesFixture.finished, PagesFixture.halted,
    ]

    private let environment: [String: String]
    private let site: Site

    init() async throws {
        try await PagesFixture.fill()
        environment = [
            "REPRICER_DATABASE_URL": TestDatabase.url, "REPRICER_ENVIRONMENT": "Production",
        ]
        site = Site(
            pool: PostgresPool(conninfo: TestDatabase.url, applicationName: "test", size: 4),
            clock: ManualClock(PagesFixture.now),
            about: .init(
                version: "1", bundleID: "b", environment: "Production",
                callsPerThousandSeconds: 50_000), log: .silent)
    }

    /// The page, once its first counts are there.
    private func page(_ target: String) async throws -> String {
        var text = ""
        try await eventually("the counts of \(target)") {
            let answer = await site.page(of: HTTPRequest(method: "GET", target: target)).answer()
            text = String(decoding: answer.body, as: UTF8.self)
            return !text.contains("are being counted") && !text.contains("Still counted:")
        }
        return text
    }

    private func told(_ arguments: String...) async throws -> [String: Any] {
        let outcome = await run(arguments + ["--json"], environment: environment) {
            $0.realClock = ManualClock(PagesFixture.now)
        }
        try #require(outcome.code == .done, "\(outcome.messages)")
        let value = try JSONSerialization.jsonObject(with: Data(outcome.output.utf8))
        return try #require(value as? [String: Any])
    }

    private static func number(_ value: Any?) -> Int64 { (value as? NSNumber)?.int64Value ?? 0 }

    @Test(arguments: batches)
    func batchPage_andStatus_countTheSameRows(_ batch: String) async throws {
        let tables = PageTables(try await page("/batches/\(batch)"))
        let home = PageTables(try await page("/"))
        let status = try await told("status", batch)

        let states = try #require(status["states"] as? [String: Any])
        let shown = tables["Rows by state"].filter { $0.count == 4 && $0[0] != "State" }
        #expect(
            Dictionary(uniqueKeysWithValues: shown.map { ($0[0], $0[2]) })
                == Dictionary(
                    uniqueKeysWithValues: states.map {
                        (spaced($0.key), counted(Self.number($0.value)))
                    } + [("All rows", counted(Self.number(status["rows"])))]))

        let name = try #require(status["name"] as? String)
        let row = try #require(home["Batches"].first { $0.first == name })
        let pending = Self.number(states["pending_consent"])
        let final = Self.number(status["final_rows"])
        let rows = Self.number(status["rows"])
        #expect(row[3] == counted(rows))
        #expect(row[6].hasSuffix(share(final, of: rows)))
        #expect(row[8] == counted(Self.number(states["declined"])))
        #expect(row[9] == counted(pending))
    }

    @Test(arguments: [
        ("autumn", "awaiting approval"), ("halted one", "approved, halted"),
        ("spring", "approved, under way"), ("winter", "approved, finished"),
    ])
    func batch_isCalledTheSameOnThePageAndTheScreen(_ name: String, _ state: String) async throws {
        let home = PageTables(try await page("/"))
        let all = await run("status", environment: environment) {
            $0.realClock = ManualClock(PagesFixture.now)
        }

        let row = try #require(home["Batches"].first { $0.first?.hasPrefix(name) == true })
        #expect(row[1].hasPrefix(state), "\(row)")
        let line = all.output.split(separator: "\n").last { $0.contains("  \(name)") }
        #expect(line?.contains("  \(state)  ") == true, "\(all.output)")

        // A program reads the same words.
        let batches = try #require(try await told("status")["batches"] as? [[String: Any]])
        let read = try #require(
            batches.first { ($0["name"] as? String)?.hasPrefix(name) == true })
        let words = [read["state"], read["standing"]].compactMap { $0 as? String }
        #expect(words.map(spaced).joined(separator: ", ") == state)
        let alone = try await told("status", try #require(read["batch_id"] as? String))
        #expect([alone["state"], alone["standing"]].compactMap { $0 as? String } == words)
    }

    @Test func status_ofAll_listsTheNewestBatchFirst_asTheHomePageDoes() async throws {
        let home = PageTables(try await page("/"))
        let batches = try #require(try await told("status")["batches"] as? [[String: Any]])

        let names = batches.map { $0["name"] as? String ?? "" }
        #expect(names == home.rows("Batches").map { $0.first ?? "" })
        #expect(names.last == "winter")
    }

    /// The page asks for a batch, too.
    @Test(arguments: ["table", "html"])
    func report_ofAllRowsThatAreTooMany_asksForABatchOrCSV(_ format: String) async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(
            "UPDATE repricer.batches SET row_count = 199940 WHERE name = 'winter'")
        await owner.close()

        let all = await run("report", "price_change", "-o", format, environment: environment)
        let one = await run(
            "report", "price_change", "-o", format, "--batch", "spring", environment: environment)
        let csv = await run("report", "price_change", "-o", "csv", environment: environment)

        #expect(all.code == .usage)
        #expect(
            all.messages.contains("all batches together have 200,037 rows")
                && all.messages.contains("--batch") && all.messages.contains("--format csv"),
            "\(all.messages)")
        #expect(all.output.isEmpty)
        #expect(one.code == .done && csv.code == .done)
    }

    /// Nine changes of the batch under way were due by the day before, and no notification told of them.
    @Test func status_ofOneBatch_countsItsOwnSilentChanges() async throws {
        var counts: [Int64] = [Self.number(try await told("status")["silent_changes"])]
        for batch in Self.batches {
            counts.append(Self.number(try await told("status", batch)["silent_changes"]))
        }

        #expect(counts == [9, 0, 9, 0, 0])
    }

    @Test(arguments: batches)
    func batchPage_andReport_sayTheSameMoney(_ batch: String) async throws {
        let tables = PageTables(try await page("/batches/\(batch)"))
        let outcome = await run(
            "report", "revenue_impact", "--batch", batch, "--format", "json",
            environment: environment
        ) { $0.realClock = ManualClock(PagesFixture.now) }
        let report = try JSONSerialization.jsonObject(with: Data(outcome.output.utf8))
        let rows = try #require((report as? [String: Any])?["rows"] as? [[String: Any]])

        let expected = Dictionary(grouping: rows) { $0["currency"] as? String ?? "" }.map {
            currency, rows -> [String] in
            let sum = { (key: String) in rows.reduce(Int64(0)) { $0 + Self.number($1[key]) } }
            let (uplift, lost) = (
                sum("uplift_per_month_milliunits"), sum("lost_per_month_milliunits")
            )
            return [
                currency, counted(sum("changes")), counted(sum("charged_renewals")),
                amount(sum("old_total_milliunits"), currency),
                amount(sum("new_total_milliunits"), currency), difference(uplift, currency),
                difference(-lost, currency), difference(uplift - lost, currency),
            ]
        }
        let shown = tables["Money by currency"].dropFirst().filter { $0.count == 9 }.map {
            // What was charged more so far is no column of the report.
            Array($0[...4] + $0[6...])
        }
        #expect(Set(shown) == Set(expected))
        #expect(shown.count == expected.count)
    }

    @Test(arguments: batches)
    func approvalPage_andShow_sayTheSame(_ batch: String) async throws {
        let text = try await page("/batches/\(batch)/approval")
        let tables = PageTables(text)
        let show = try await told("show", batch)

        let money = try #require(show["money_a_month"] as? [String: Any])
        let currencies = try #require(money["by_currency"] as? [[String: Any]])
        let expected = currencies.map { line -> [String] in
            let currency = line["currency"] as? String ?? ""
            let sum = { (key: String) in Self.number(line["\(key)_per_month_milliunits"]) }
            return [
                currency, counted(Self.number(line["rows"])), amount(sum("now"), currency),
                amount(sum("then"), currency), difference(sum("change"), currency),
                amount(sum("at_risk"), currency), amount(sum("not_known"), currency),
            ]
        }
        let shown = tables["Money a month by currency"].dropFirst()
        #expect(Array(shown.prefix(expected.count)) == expected)

        let refused = try #require(show["rejected_rows"] as? [String: Any])
        let codes = tables["Rows that were refused"].dropFirst()
        // A code stands behind its words: `words (code)`.
        let shownCodes = try codes.map { row in
            let words = try #require(row.first)
            return (
                String(words.dropLast().split(separator: "(").last ?? ""), try #require(row.last)
            )
        }
        #expect(
            Dictionary(uniqueKeysWithValues: shownCodes)
                == refused.mapValues { counted(Self.number($0)) })

        let consent = try #require(show["consent"] as? [String: Any])
        let rows = Self.number(show["rows"])
        for (kind, words) in [
            ("required", "Consent required"), ("not_known", "Consent not known"),
        ] {
            let said = text.firstMatch(
                of: try Regex(
                    "<span class=\"name\">\(words)</span><span class=\"value\">([0-9,]+)</span>"))
            #expect(
                said?[1].substring.map(String.init) == counted(Self.number(consent[kind])),
                "\(kind) of \(rows)")
        }
    }

    @Test func subscriptionPage_andTimeline_haveTheSameLines() async throws {
        let id = "2000000000000181"
        let tables = PageTables(try await page("/subscriptions/\(id)"))
        let events = try #require(try await told("timeline", id)["events"] as? [[String: Any]])

        let shown = tables["Timeline"].dropFirst().map { [$0[2], $0[4]] }
        #expect(
            Array(shown)
                == events.map { [$0["sku"] as? String ?? "", $0["evidence_id"] as? String ?? ""] })
        #expect(shown.count > 1)
    }

    /// What is saved from a page is what the command writes.
    @Test(arguments: ReportName.allCases.map(\.rawValue))
    func savedReport_isTheCommandsToTheByte(_ name: String) async throws {
        let saved = try await page("/reports/\(name)?format=csv")

        // Else the command takes the server's clock, and its reports tell of another day.
        let clock = [
            "REPRICER_CLOCK": "2026-04-01T00:00:00Z@1@\(PagesFixture.now)",
            "REPRICER_API_BASE_URL": "https://127.0.0.1:9",
        ]
        let outcome = await run(
            "report", name, "--format", "csv",
            environment: environment.merging(clock) { $1 }
        ) { $0.realClock = ManualClock(PagesFixture.now) }

        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(saved == outcome.output)
    }
}

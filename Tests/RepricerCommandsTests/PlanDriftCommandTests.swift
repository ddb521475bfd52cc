import Foundation
import Postgres
import TestSupport
import Testing

@testable import RepricerCommands

/// Plan and apply: what was planned is what is stored, or nothing is.
@Suite(.database) struct PlanDriftCommandTests {
    private struct Desk {
        let environment: [String: String]
        private let scratch: ScratchFolder
        var folder: String { scratch.path }

        init(subscriptions: Int = 3) async throws {
            let connection = try await TestDatabase.connect()
            _ = try await connection.execute(
                """
                INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status, auto_renews,
                    storefront, currency, period, original_purchase_at, recent_subscription_start_at,
                    purchased_at, expires_at, renewal_at, items, signed_at, folded_signed_at,
                    folded_evidence_id, known_since)
                SELECT i::text, repricer.bucket_of(i::text), 1, true, 'USA', 'USD', 'P1M', '2025-06-01Z', '2025-06-01Z',
                    '2026-01-01Z', '2026-02-10Z', '2026-02-10Z',
                    '[{"sku":"A","currentPrice":9990,"renewalPrice":9990,"renews":true},
                      {"sku":"B","currentPrice":4990,"renewalPrice":4990,"renews":true}]',
                    '2026-01-01Z', '2026-01-01Z', 'n-1', '2025-06-01Z'
                FROM generate_series(1, \(subscriptions)::integer) AS i
                """)
            await connection.close()
            let url = try await TestDatabase.login("ana", memberOf: ["repricer_pricing"])
            environment = ["REPRICER_DATABASE_URL": url, "REPRICER_ENVIRONMENT": "Production"]
            scratch = try ScratchFolder()
        }

        func file(_ rows: [String]) throws -> String {
            let path = "\(folder)/batch.csv"
            let text = "original_transaction_id,sku,price,currency\n"
            try (text + rows.joined(separator: "\n") + "\n")
                .write(toFile: path, atomically: true, encoding: .utf8)
            return path
        }

        /// Plans and returns the hash; the rows go to `rows.ndjson`.
        func plan(_ file: String) async throws -> String {
            let outcome = await run(
                "plan", file, "--json", "--rows", "\(folder)/rows.ndjson",
                environment: environment)
            let hash = outcome.output.dropFirst(#"{"plan_hash":""#.count).prefix(64)
            return String(hash)
        }

        func change(_ sql: String) async throws {
            let connection = try await TestDatabase.connect()
            try await connection.script(sql)
            await connection.close()
        }

        func storedRows() async throws -> Int {
            let connection = try await TestDatabase.connect()
            let rows = try await connection.query(
                """
                SELECT (SELECT count(*) FROM repricer.price_changes)
                    + (SELECT count(*) FROM repricer.batches)
                    + (SELECT count(*) FROM repricer.price_change_history)
                    + (SELECT count(*) FROM repricer.dependency_roles) AS rows
                """
            ).one().int("rows")
            await connection.close()
            return rows
        }
    }

    private static let rows = ["1,A,12.99,USD", "2,A,12.99,USD", "3,A,12.99,USD"]

    @Test func submit_withTheHashOfAnUnchangedPlan_stores() async throws {
        let desk = try await Desk()
        let file = try desk.file(Self.rows)
        let hash = try await desk.plan(file)

        let outcome = await run(
            "submit", file, "--name", "n", "--plan-hash", hash.uppercased(), "--plan-rows",
            "\(desk.folder)/rows.ndjson", "--json", environment: desk.environment)

        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(outcome.output.contains("\"plan_hash\":\"\(hash)\""))
        #expect(try await desk.storedRows() == 4)
    }

    @Test func submit_whenFactsDrifted_storesNothingAndNamesTheRows() async throws {
        let desk = try await Desk()
        let file = try desk.file(Self.rows)
        let hash = try await desk.plan(file)
        try await desk.change(
            """
            UPDATE repricer.subscriptions SET items = jsonb_set(
                jsonb_set(items, '{0,currentPrice}', '10990'), '{0,renewalPrice}', '10990')
            WHERE original_transaction_id = '2'
            """)

        let outcome = await run(
            "submit", file, "--name", "n", "--plan-hash", hash, "--plan-rows",
            "\(desk.folder)/rows.ndjson", environment: desk.environment)

        #expect(outcome.code == .conflict)
        #expect(outcome.output.isEmpty)
        let said = outcome.messages.split(separator: "\n")
        #expect(said.count == 2)
        #expect(
            said.first.map(String.init)
                == "\(file):3: drifted: current_price_milliunits was 9990, is 10990, "
                + "at_risk_milliunits was 9990, is 10990")
        #expect(said.last?.contains("; 1 row differs; run `repricer plan` and look again") == true)
        #expect(try await desk.storedRows() == 0)
    }

    @Test func submit_whenRowsCameAndWent_namesThem() async throws {
        let desk = try await Desk()
        let hash = try await desk.plan(try desk.file(Self.rows))
        let file = try desk.file(["1,A,12.99,USD", "", "3,A,12.99,USD", "3,B,5.99,USD"])

        let outcome = await run(
            "submit", file, "--name", "n", "--plan-hash", hash, "--plan-rows",
            "\(desk.folder)/rows.ndjson", "--accept-valid", environment: desk.environment)

        #expect(outcome.code == .conflict)
        #expect(outcome.messages.contains("\(file):3: drifted: "))
        #expect(outcome.messages.contains("\(file):5: drifted: was not in the plan\n"))
        #expect(try await desk.storedRows() == 0)
    }

    @Test func submit_whenDriftedWithoutRows_saysHowToSeeThem() async throws {
        let desk = try await Desk()

        let outcome = await run(
            "submit", try desk.file(Self.rows), "--name", "n", "--plan-hash",
            String(repeating: "abcd", count: 16), environment: desk.environment)

        #expect(outcome.code == .conflict)
        #expect(outcome.messages.contains("give --plan-rows with the file of plan --rows"))
    }

    @Test func submit_withAFileThatHoldsNoPlan_exits3() async throws {
        let desk = try await Desk()
        let file = try desk.file(Self.rows)

        let outcome = await run(
            "submit", file, "--name", "n", "--plan-rows", file, environment: desk.environment)

        #expect(outcome.code == .inputRejected)
        #expect(outcome.messages.contains("give the NDJSON file that plan --rows wrote"))
        #expect(try await desk.storedRows() == 0)
    }

    @Test(arguments: ["--rows", "--rejects"])
    func plan_whoseOutputIsItsInput_exits2AndKeepsTheFile(option: String) async throws {
        let desk = try await Desk()
        let file = try desk.file(Self.rows)
        let link = "\(desk.folder)/link.csv"
        try FileManager.default.createSymbolicLink(atPath: link, withDestinationPath: file)
        let before = try String(contentsOfFile: file, encoding: .utf8)

        let same = await run("plan", file, option, file, environment: desk.environment)
        let linked = await run("plan", file, option, link, environment: desk.environment)

        #expect(same.code == .usage)
        #expect(same.messages.contains("is named twice; give the output a file of its own"))
        #expect(linked.code == .usage)
        #expect(linked.messages.contains("are the same file; give the output a file of its own"))
        #expect(try String(contentsOfFile: file, encoding: .utf8) == before)
    }

    @Test(arguments: ["out", "-"])
    func plan_whoseTwoOutputsAreOne_exits2(name: String) async throws {
        let desk = try await Desk()
        let path = name == "-" ? name : "\(desk.folder)/\(name)"

        let outcome = await run(
            "plan", try desk.file(Self.rows), "--rows", path, "--rejects", path,
            environment: desk.environment)

        #expect(outcome.code == .usage)
        #expect(outcome.output.isEmpty)
    }

    @Test func submit_whoseRejectsWouldReplaceThePlansRows_exits2AndKeepsThem() async throws {
        let desk = try await Desk()
        let file = try desk.file(Self.rows)
        _ = try await desk.plan(file)
        let rows = "\(desk.folder)/rows.ndjson"
        let before = try String(contentsOfFile: rows, encoding: .utf8)

        let outcome = await run(
            "submit", file, "--name", "n", "--plan-rows", rows, "--rejects", rows,
            environment: desk.environment)

        #expect(outcome.code == .usage)
        #expect(try String(contentsOfFile: rows, encoding: .utf8) == before)
        #expect(try await desk.storedRows() == 0)
    }

    /// More rows than fit one piece, so that rows of one subscription are judged in different ones.
    @Test func plan_ofRowsFarApart_judgesThemTogetherAndTwiceTheSame() async throws {
        let desk = try await Desk(subscriptions: 5000)
        let rows = (1...5000).map { "\($0),A,12.99,USD" } + ["1,A,13.99,USD", "2,B,5.99,USD"]
        let file = try desk.file(rows)

        let first = await run(
            "plan", file, "--rows", "\(desk.folder)/first", environment: desk.environment)
        let second = await run(
            "plan", file, "--rows", "\(desk.folder)/second", environment: desk.environment)

        #expect(first == second)
        #expect(
            first.messages
                == "\(file):2: duplicate_row: A of this subscription is also on line 5002; keep one "
                + "of the rows\n\(file):5002: duplicate_row: A of this subscription is also on line "
                + "2; keep one of the rows\n")
        let written = try String(contentsOfFile: "\(desk.folder)/first", encoding: .utf8)
        #expect(try written == String(contentsOfFile: "\(desk.folder)/second", encoding: .utf8))
        let lines = written.split(separator: "\n").map { $0.dropFirst(8).prefix { $0 != "," } }
        #expect(lines == (2...5003).map { Substring("\($0)") })
        // Two notices of subscription 2 share a call; the two refused rows need none.
        #expect(first.output.contains("; 4,999 calls at 50 a second: 1 min 40 s"))
    }

    @Test func submit_ofSeveralPieces_storesEachRowOnceUnderItsBatch() async throws {
        let desk = try await Desk(subscriptions: 5000)
        let file = try desk.file((1...5000).map { "\($0),A,12.99,USD" })

        let outcome = await run(
            "submit", file, "--name", "n", "--json", environment: desk.environment)

        #expect(outcome.output.contains("\"is_new\":true,\"rows\":5000,\"refused\":0"))
        #expect(try await desk.storedRows() == 5001)
    }

    @Test func submit_whenTheLastRowIsRefused_leavesNothing() async throws {
        let desk = try await Desk(subscriptions: 5000)
        let file = try desk.file((1...5001).map { "\($0),A,12.99,USD" })

        let outcome = await run("submit", file, "--name", "n", environment: desk.environment)

        #expect(outcome.code == .inputRejected)
        #expect(outcome.messages.contains("nothing stored: 1 of 5,001 rows is refused"))
        #expect(try await desk.storedRows() == 0)
    }
}

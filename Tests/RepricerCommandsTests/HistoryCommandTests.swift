import Foundation
import Postgres
import TestSupport
import Testing

@testable import RepricerCommands

/// Past increases from a file to a verdict, as the database users who type the commands.
@Suite(.database) struct HistoryCommandTests {
    private static let header =
        "original_transaction_id,sku,increased_on,old_price,new_price,currency\n"

    /// Ana, and one subscription in the USA of which statements tell from 1 December 2025 on; it is 5 January 2026.
    private struct Office {
        let ana: [String: String]
        let service: [String: String]
        let folder: ScratchFolder

        init(knownSince: String = "2025-12-01Z") async throws {
            let connection = try await TestDatabase.connect()
            try await connection.script(
                """
                INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status, auto_renews,
                    storefront, currency, period, original_purchase_at,
                    recent_subscription_start_at, purchased_at, expires_at, renewal_at, items,
                    signed_at, folded_signed_at, folded_evidence_id, known_since)
                VALUES ('1000000000000001', repricer.bucket_of('1000000000000001'),
                    1, true, 'USA', 'USD', 'P1M', '2024-06-01Z',
                    '2024-06-01Z', '2026-01-01Z', '2026-02-01Z', '2026-02-01Z',
                    '[{"sku":"PLAN","currentPrice":10000,"renewalPrice":10000,"renews":true}]',
                    '2026-01-01Z', '2026-01-01Z', 'n-1', '\(knownSince)');
                """)
            await connection.close()
            ana = Self.environment(
                try await TestDatabase.login("ana", memberOf: ["repricer_pricing"]))
            service = Self.environment(
                try await TestDatabase.login("serge", memberOf: ["repricer_service"]))
            folder = try ScratchFolder()
        }

        private static func environment(_ url: String) -> [String: String] {
            ["REPRICER_DATABASE_URL": url, "REPRICER_ENVIRONMENT": "Production"]
        }

        func file(_ rows: String) throws -> String {
            try folder.file("history.csv", HistoryCommandTests.header + rows)
        }

        func explain(_ price: String = "11") async -> Outcome {
            await run(
                "explain", "1000000000000001", "PLAN", price, "--json", environment: ana)
        }
    }

    private static let row = "1000000000000001,PLAN,2025-09-01,8.00,10.00,USD\n"

    @Test func import_ofAnIncrease_countsForTwelveMonthsAndSaysSo() async throws {
        let office = try await Office()
        let file = try office.file(Self.row)

        let before = await office.explain()
        let dry = await run("history", "import", file, "--dry-run", environment: office.ana)
        let outcome = await run("history", "import", file, environment: office.ana)
        let after = await office.explain()
        let words = await run(
            "explain", "1000000000000001", "PLAN", "11", environment: office.ana)

        let history = #""rule":"increase_within_12_months","answer":"#
        #expect(before.output.contains(history + "null"))
        #expect(dry.output == "1 increase would be added; nothing was stored.\n")
        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(outcome.output == "1 increase added as history:1.\n")
        #expect(after.output.contains(history + "true"))
        #expect(
            after.output.contains(
                #""because":"2025-09-01T00:00:00Z","increase_source":"imported","last_increase_sku":"PLAN""#
            ))
        #expect(after.output.contains(#""known_since":"2025-12-01T00:00:00Z""#))
        #expect(
            words.output.contains(
                "PLAN rose at 2025-09-01T00:00:00Z (imported); counts until 2026-09-03T00:00:00Z"))
    }

    @Test func import_ofAnOldIncrease_doesNotMakeTheTimeSinceKnown() async throws {
        let office = try await Office()
        let file = try office.file("1000000000000001,PLAN,2024-08-01,8.00,10.00,USD\n")

        let outcome = await run("history", "import", file, environment: office.ana)
        let after = await office.explain()

        #expect(outcome.code == .done)
        #expect(after.output.contains(#""rule":"increase_within_12_months","answer":null"#))
    }

    @Test func plan_afterAnImport_hasAnotherHash() async throws {
        let office = try await Office()
        let batch = try office.folder.file(
            "batch.csv",
            "original_transaction_id,sku,price,currency\n1000000000000001,PLAN,11,USD\n")

        let before = await run("plan", batch, "--json", environment: office.ana)
        _ = await run("history", "import", try office.file(Self.row), environment: office.ana)
        let after = await run("plan", batch, "--json", environment: office.ana)

        #expect(before.output.contains(#""consent":{"not_known":1}"#))
        #expect(after.output.contains(#""consent":{"required":1}"#))
        #expect(before.output.prefix(90) != after.output.prefix(90))
    }

    @Test func planAsOfADayBeforeTheImport_doesNotKnowIt() async throws {
        let office = try await Office()
        let batch = try office.folder.file(
            "batch.csv",
            "original_transaction_id,sku,price,currency\n1000000000000001,PLAN,11,USD\n")
        func consents(_ asOf: String...) async -> [String] {
            var seen: [String] = []
            for command in [
                ["plan", batch, "--json"],
                ["scenario", "--sku", "PLAN", "--rule", "=11", "--json"],
                ["explain", "1000000000000001", "PLAN", "11", "--json"],
            ] {
                let outcome = await run(command + asOf, environment: office.ana)
                let consent = outcome.output.firstMatch(of: /"consent":(\{[^}]*\}|"[a-z_]*")/)
                seen.append(consent.map { String($0.1) } ?? outcome.messages)
            }
            return seen
        }

        _ = await run("history", "import", try office.file(Self.row), environment: office.ana)

        #expect(
            await consents("--as-of", "2026-01-04T00:00:00Z")
                == [#"{"not_known":1}"#, #"{"not_known":1}"#, #""not_known""#])
        #expect(
            await consents("--as-of", "2026-01-06T00:00:00Z")
                == [#"{"required":1}"#, #"{"required":1}"#, #""required""#])
    }

    @Test func import_ofTheSameFileAgain_addsNothing() async throws {
        let office = try await Office()
        let file = try office.file(Self.row + "1000000000000009,PLAN,2025-09-01,8,10,USD\n")

        let first = await run("history", "import", file, "--json", environment: office.ana)
        let again = await run("history", "import", file, environment: office.ana)
        let json = await run("history", "import", file, "--json", environment: office.ana)
        let audit = await run("audit", "show", "--json", environment: office.ana)
        try await TestDatabase.shipDefaultLimits()
        let verified = await run("audit", "verify", environment: office.ana)

        #expect(
            first.output.hasSuffix(
                #""import":1,"added":2,"unchanged":0,"subscriptions":2,"unknown_subscriptions":1,"#
                    + #""unknown_item_lines":[],"dry_run":false}"# + "\n"))
        #expect(again.code == .done)
        #expect(again.output.hasSuffix("adds nothing: all 2 increases are stored already.\n"))
        #expect(json.output.contains(#""import":null,"added":0,"unchanged":2"#))
        #expect(audit.output.components(separatedBy: "import_history").count == 2)
        #expect(verified.code == .done)
    }

    @Test func import_withWrongRows_storesNoneAndNamesAllFaults() async throws {
        let office = try await Office()
        let file = try office.file(
            """
            1000000000000001,PLAN,2025-09-01,8.00,10.00,USD
            1.0E+15,PLAN,2025-09-01,8.00,10.00,USD
            1000000000000001,,2025-09-31,8.005,x,QQQ
            1000000000000001,PLAN,2026-01-06,8.00,10.00,USD
            1000000000000001,PLAN,2025-08-01,10.00,10.00,USD
            1000000000000001,PLAN,2025-07-01,0,10.00,USD
            1000000000000001,PLAN,2025-06-01,800.50,900,JPY
            1000000000000001,PLAN,2025-09-01,8.00,10.00,USD
            1000000000000001,PLAN

            """)

        let outcome = await run("history", "import", file, environment: office.ana)
        let after = await office.explain()

        let codes = outcome.messages.split(separator: "\n").compactMap { line -> String? in
            let parts = line.dropFirst(file.count + 1).split(separator: ":")
            guard line.hasPrefix(file), parts.count > 2 else { return nil }
            return "\(parts[0])\(parts[1])"
        }
        #expect(outcome.code == .inputRejected)
        #expect(
            codes == [
                "3 bad_transaction_id", "4 bad_sku", "4 bad_date", "4 unknown_currency",
                "4 bad_price", "5 future_date", "6 no_increase", "7 bad_price", "8 price_decimals",
                "9 duplicate_row", "10 malformed_row",
            ])
        #expect(outcome.messages.contains("nothing imported: 8 rows of"))
        #expect(after.output.contains(#""rule":"increase_within_12_months","answer":null"#))
    }

    /// An item that left before the first statement is rare, and a wrong SKU or id is not. Nothing can be taken back, so
    /// `--dry-run` says it, too.
    @Test func import_ofAnItemThatTheSubscriptionNeverHad_isNamedWithItsLine() async throws {
        let office = try await Office()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at,
                price_milliunits, currency)
            VALUES ('1000000000000001', repricer.bucket_of('1000000000000001'), 't', 'LEFT', '2025-06-01Z', 1000, 'USD')
            """)
        await connection.close()
        let file = try office.file(
            """
            1000000000000001,PLAN,2025-09-01,8.00,10.00,USD
            1000000000000001,PLANET,2025-08-01,8.00,10.00,USD
            1000000000000001,LEFT,2025-07-01,0.50,1.00,USD
            1000000000000009,OTHER,2025-08-01,8.00,10.00,USD

            """)

        let dry = await run("history", "import", file, "--dry-run", environment: office.ana)
        let json = await run("history", "import", file, "--json", environment: office.ana)

        let named =
            "1 increase of an item that nothing tells the subscription had, as PLANET of 1000000000000001: check line 3.\n"
        #expect(dry.output.hasSuffix(named), "\(dry.output)\(dry.messages)")
        #expect(json.code == .done)
        #expect(json.output.contains(#""added":4,"#))
        #expect(json.output.contains(#""unknown_item_lines":[3],"#))
    }

    @Test func import_ofOtherPricesForAStoredDay_isRefused() async throws {
        let office = try await Office()
        _ = await run("history", "import", try office.file(Self.row), environment: office.ana)

        let outcome = await run(
            "history", "import",
            try office.file("1000000000000001,PLAN,2025-09-01,9.00,10.00,USD\n"),
            environment: office.ana)

        #expect(outcome.code == .inputRejected)
        #expect(
            outcome.messages.contains("conflicting_row: PLAN of 1000000000000001 on 2025-09-01 "))
        #expect(outcome.messages.contains("is stored as 8.00 -> 10.00 USD"))
    }

    @Test func import_asTheService_isRefused() async throws {
        let office = try await Office()

        let outcome = await run(
            "history", "import", try office.file(Self.row), environment: office.service)

        #expect(outcome.code == .approvalNeededOrRefused)
        #expect(outcome.messages.contains("permission denied for function import_history"))
    }

    @Test(arguments: [
        "INSERT INTO repricer.imported_increases SELECT '1', repricer.bucket_of('1'), 'A', '2025-01-01', 1, 2, 'USD', 1",
        "UPDATE repricer.imported_increases SET old_price_milliunits = 1",
        "DELETE FROM repricer.history_imports",
    ])
    func pricing_whenItWritesHistoryItself_isRefused(statement: String) async throws {
        let person = try await TestDatabase.login("paula", memberOf: ["repricer_pricing"])
        let connection = try await PostgresConnection.connect(person, applicationName: "test")

        await #expect {
            try await connection.script(statement)
        } throws: {
            ($0 as? PostgresError)?.sqlState == .insufficientPrivilege
        }
        await connection.close()
    }

    @Test func timeline_ofAnImportedIncrease_showsWhoImportedIt() async throws {
        let office = try await Office()
        _ = await run("history", "import", try office.file(Self.row), environment: office.ana)

        let outcome = await run(
            "timeline", "1000000000000001", "--json", environment: office.ana)

        #expect(
            outcome.output.contains(
                #"{"at":"2025-09-01T00:00:00Z","kind":"increase","what":"increase imported","#
                    + #""sku":"PLAN","detail":"8.00 → 10.00 USD; by ana_"#))
        #expect(outcome.output.contains(#""evidence_id":"history:1""#))
    }
}

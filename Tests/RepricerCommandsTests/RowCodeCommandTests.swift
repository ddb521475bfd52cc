import Foundation
import Pricing
import TestSupport
import Testing

@testable import RepricerCommands

/// Every row code of the contract, through `plan` on a file: `FILE:LINE: CODE: what is wrong; what to do`.
@Suite(.database) struct RowCodeCommandTests {
    /// A row of the file and what `plan` must say of it, from its code to the end of its line.
    private struct Case {
        let row: String
        let message: String
    }

    private static let header =
        "original_transaction_id,sku,price,currency,storefront,dependent_skus,expected_price\n"

    /// In the order of the codes. The subscriptions 1 to 20 are those of `subscriptions`.
    private static let cases: [Case] = [
        Case(
            row: "1,A,12.99,USD,,",
            message: "malformed_row: the row has 6 cells, the header 7; give each column one cell"),
        Case(
            row: "2.0E+15,A,12.99,USD,,,",
            message:
                "bad_transaction_id: a spreadsheet has turned the id into the number '2.0E+15'; "
                + "format the column as text before pasting the ids, and export again"),
        Case(row: "1,,12.99,USD,,,", message: "bad_sku: sku is empty; name the item"),
        Case(
            row: "1,A,12 99,USD,,,",
            message: "bad_price: '12 99' is not a plain decimal number; write it like 12.99"),
        Case(
            row: "1,A,12.995,USD,,,",
            message: "price_decimals: 12.995 has more decimals than the 2 that USD has; round the "
                + "price; if the point separates thousands, leave it out"),
        Case(
            row: "1,A,12.99,XXX,,,",
            message: "unknown_currency: 'XXX' is not a currency of the App Store; use the "
                + "subscription's own, such as USD, in capitals"),
        Case(
            row: "20,A,12.99,EUR,,,",
            message:
                "currency_mismatch: the subscription is charged in USD, not EUR; give the price "
                + "in USD"),
        Case(
            row: "2,A,12.99,USD,CAN,,",
            message: "storefront_mismatch: the subscription belongs to storefront USA, not CAN; "
                + "correct the storefront, or leave it out"),
        Case(
            row: "99,A,12.99,USD,,,",
            message:
                "unknown_subscription: nothing is known of this subscription; "
                + "let repricer sync FILE read it from the App Store (this file will do), or correct the id"
        ),
        Case(
            row: "3,Z,12.99,USD,,,",
            message:
                "unknown_item: Z is not set to renew on this subscription; use one of A, B, C, D"
        ),
        Case(
            row: "4,A,12.99,USD,,,",
            message:
                "duplicate_row: A of this subscription is also on line 35; keep one of the rows"
        ),
        Case(
            row: "5,A,9.99,USD,,,",
            message: "no_change: A already costs 9.99 USD; remove the row"),
        Case(
            row: "6,A,12.99,USD,,,8.99",
            message: "drifted: A costs 9.99 USD, not 8.99 USD as expected; check the new price "
                + "against the current one and correct expected_price"),
        Case(
            row: "7,A,12.99,USD,,,",
            message: "conflict_open_change: an increase of A that was not made here is SCHEDULED; "
                + "wait until it took effect"),
        Case(
            row: "8,A,12.99,USD,,A,",
            message: "dependent_self: A names itself as its dependent; remove it from "
                + "dependent_skus"),
        Case(
            row: "9,A,12.99,USD,,Z,",
            message:
                "dependent_unknown: the customer has no subscription on which Z is set to renew; "
                + "remove it from dependent_skus, or ingest that subscription's notifications"),
        Case(
            row: "10,A,12.99,USD,,C,",
            message: "dependent_shared: C depends on A and B; let it depend on one of them only"),
        Case(
            row: "11,A,12.99,USD,,B,",
            message:
                "dependent_chained: dependents form a chain A → B → C → D; a dependent may not "
                + "have dependents of its own"),
        Case(
            row: "12,A,12.99,USD,,,",
            message: "not_active: the subscription is not active (status 2); remove the row"),
        Case(
            row: "13,A,12.99,USD,,,",
            message: "auto_renew_off: the subscriber has turned renewal off; remove the row"),
        Case(
            row: "14,A,12.99,USD,,,",
            message: "billing_retry: the App Store is retrying to charge the subscriber; try again "
                + "when the subscription has recovered"),
        Case(
            row: "15,A,12.99,USD,,,",
            message: "grace_period: the subscription is in its grace period; try again when the "
                + "subscription has recovered"),
        Case(
            row: "16,A,12.99,USD,,,",
            message: "item_in_offer: A is in an offer (ACQUISITION); try again when the offer has "
                + "ended"),
        Case(
            row: "17,A,1299,INR,,,",
            message: "india_increase: Apple does not support price increases in India; remove the "
                + "row"),
        Case(
            row: "18,A,12.99,USD,,,",
            message: "already_communicated: the subscriber was already told of an increase of A to "
                + "11.99 USD; wait until it took effect"),
        // The others of the groups carry their code too, far from their first row.
        Case(
            row: "10,B,12.99,USD,,C,",
            message: "dependent_shared: C depends on A and B; let it depend on one of them only"),
        Case(
            row: "11,C,12.99,USD,,D,",
            message:
                "dependent_chained: dependents form a chain A → B → C → D; a dependent may not "
                + "have dependents of its own"),
        Case(
            row: "11,B,12.99,USD,,C,",
            message:
                "dependent_chained: dependents form a chain A → B → C → D; a dependent may not "
                + "have dependents of its own"),
    ]

    private static let subscriptions = """
        INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status, auto_renews,
            storefront, currency, period, original_purchase_at, recent_subscription_start_at,
            purchased_at, expires_at, renewal_at, items, signed_at, folded_signed_at,
            folded_evidence_id, known_since)
        SELECT i::text, repricer.bucket_of(i::text), 1, true, 'USA', 'USD', 'P1M', '2025-06-01Z', '2025-06-01Z', '2026-01-01Z',
            '2026-02-01Z', '2026-02-01Z',
            (SELECT jsonb_agg(jsonb_build_object('sku', sku, 'currentPrice', 9990, 'renewalPrice',
                9990, 'renews', true)) FROM unnest(ARRAY['A', 'B', 'C', 'D']) AS sku),
            '2026-01-01Z', '2026-01-01Z', 'n-1', '2025-06-01Z'
        FROM generate_series(1, 20) AS i;
        UPDATE repricer.subscriptions SET items = jsonb_set(items, '{0,increase}',
            '{"status":"SCHEDULED","price":11990,"dependentSKUs":[]}')
            WHERE original_transaction_id = '7';
        UPDATE repricer.subscriptions SET status = 2 WHERE original_transaction_id = '12';
        UPDATE repricer.subscriptions SET auto_renews = false WHERE original_transaction_id = '13';
        UPDATE repricer.subscriptions SET status = 3 WHERE original_transaction_id = '14';
        UPDATE repricer.subscriptions SET status = 4 WHERE original_transaction_id = '15';
        UPDATE repricer.subscriptions SET items = jsonb_set(items, '{0,offer}',
            '{"reason":"ACQUISITION","isRunning":true}') WHERE original_transaction_id = '16';
        UPDATE repricer.subscriptions SET storefront = 'IND', currency = 'INR'
            WHERE original_transaction_id = '17';
        UPDATE repricer.subscriptions SET items = jsonb_set(items, '{0,increase}',
            '{"status":"PENDING","price":11990,"dependentSKUs":[]}')
            WHERE original_transaction_id = '18';
        """

    /// Rows of one subscription that can go, then every case, then the second of the duplicates.
    private static var rows: [String] {
        let good = ["A", "B", "C", "D"].map { "19,\($0),10.99,USD,,," }
        return good + cases.map(\.row) + ["19,X,1.99,USD,,,", "4,A,13.99,USD,,,"]
    }

    @Test func plan_ofAFileWithEveryCode_namesLineCodeAndRemedyInTheOrderOfTheFile() async throws {
        let (environment, scratch) = try await office()
        let file = "\(scratch.path)/batch.csv"
        try (Self.header + Self.rows.joined(separator: "\n") + "\n")
            .write(toFile: file, atomically: true, encoding: .utf8)

        let outcome = await run("plan", file, "--json", environment: environment)

        #expect(outcome.code == .inputRejected)
        let said = outcome.messages.split(separator: "\n").map(String.init)
        let expected =
            Self.cases.enumerated().map { "\(file):\($0 + 6): \($1.message)" }
            + [
                "\(file):34: unknown_item: X is not set to renew on this subscription; use one of "
                    + "A, B, C, D",
                "\(file):35: duplicate_row: A of this subscription is also on line 16; keep one of "
                    + "the rows",
            ]
        #expect(said == expected)
        let codes = Set(Self.cases.map { String($0.message.prefix { $0 != ":" }) })
        #expect(codes == Set(RowCode.allCases.map(\.rawValue)))
        #expect(outcome.output.contains("\"rows\":34,\"can_go\":4,\"refused\":30"))
    }

    @Test func rejects_whenImportedAgain_areTheSameRowsAndWhenMendedGo() async throws {
        let (environment, scratch) = try await office()
        let file = "\(scratch.path)/batch.csv"
        let (rejects, again) = ("\(scratch.path)/rejects.csv", "\(scratch.path)/again.csv")
        try (Self.header + Self.rows.joined(separator: "\n") + "\n")
            .write(toFile: file, atomically: true, encoding: .utf8)

        _ = await run("plan", file, "--rejects", rejects, environment: environment)
        let second = await run(
            "plan", rejects, "--rejects", again, "--json", environment: environment)

        #expect(second.output.contains("\"rows\":30,\"can_go\":0,\"refused\":30"))
        let (first, copy) = (try cells(rejects), try cells(again))
        // The reason of a duplicate names a line, and of a row that lacked a cell nothing is lacking now.
        #expect(first.map { $0.prefix(7) } == copy.map { $0.prefix(7) })
        #expect(first.dropFirst(2).map { $0[7] } == copy.dropFirst(2).map { $0[7] })

        let mended = try String(contentsOfFile: rejects, encoding: .utf8)
            .split(separator: "\r\n")
            .filter { $0.hasPrefix("original") || $0.contains("12 99") }
            .map { $0.replacing("12 99", with: "12.99") }
        try (mended.joined(separator: "\r\n") + "\r\n")
            .write(toFile: again, atomically: true, encoding: .utf8)
        let stored = await run("submit", again, "--name", "mended", environment: environment)
        #expect(stored.code == .done, "\(stored.messages)")
    }

    @Test func plan_whenADependentsSubscriptionEndedOrIsOff_isDependentUnknown() async throws {
        let (environment, scratch) = try await office()
        let file = "\(scratch.path)/batch.csv"
        let connection = try await TestDatabase.connect()
        // 12 has expired, 13 has its renewal off, 15 is in its grace period.
        try await connection.script(
            """
            UPDATE repricer.subscriptions SET app_account_token = 'customer';
            UPDATE repricer.subscriptions SET items = jsonb_build_array(jsonb_build_object('sku',
                'X' || original_transaction_id, 'currentPrice', 990, 'renewalPrice', 990,
                'renews', true)) WHERE original_transaction_id IN ('12', '13', '15')
            """)
        await connection.close()
        let rows = ["1,A,12.99,USD,,X12,", "2,A,12.99,USD,,X13,", "3,A,12.99,USD,,X15,"]
        try (Self.header + rows.joined(separator: "\n") + "\n")
            .write(toFile: file, atomically: true, encoding: .utf8)

        let outcome = await run("plan", file, environment: environment)

        let said = outcome.messages.split(separator: "\n").map { $0.dropFirst(file.count + 1) }
        #expect(
            said.map { String($0.prefix { $0 != ";" }) } == [
                "2: dependent_unknown: the customer has no subscription on which X12 is set to renew",
                "3: dependent_unknown: the customer has no subscription on which X13 is set to renew",
            ])
    }

    @Test func plan_ofDependentsThatOtherSubscriptionsName_namesEachLineAndWhatToDo() async throws {
        let (environment, scratch) = try await office()
        let file = "\(scratch.path)/batch.csv"
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            UPDATE repricer.subscriptions SET app_account_token =
                CASE original_transaction_id WHEN '18' THEN 'another' ELSE 'customer' END
            """)
        await connection.close()
        let rows = [
            "1,A,12.99,USD,,19/B,", "2,A,12.99,USD,,19/B,", "3,A,12.99,USD,,19/C,",
            "19,C,12.99,USD,,D,", "19,A,12.99,USD,,18/A,",
        ]
        try (Self.header + rows.joined(separator: "\n") + "\n")
            .write(toFile: file, atomically: true, encoding: .utf8)

        let planned = await run("plan", file, environment: environment)
        let submitted = await run("submit", file, "--name", "n", environment: environment)

        let one = "let it depend on one of them only"
        let none = "a dependent may not have dependents of its own"
        let expected = [
            "2: dependent_shared: 19/B also depends on 2/A (line 3); \(one)",
            "3: dependent_shared: 19/B also depends on 1/A (line 2); \(one)",
            "4: dependent_chained: dependents form a chain A → 19/C → D; \(none)",
            "5: dependent_chained: dependents form a chain 3/A (line 4) → C → D; \(none)",
            "6: dependent_unknown: 18/A is on the subscription of another customer; "
                + "remove it from dependent_skus",
        ]
        #expect(
            planned.messages.split(separator: "\n").map { String($0.dropFirst(file.count + 1)) }
                == expected)
        #expect(planned.code == .inputRejected)
        #expect(submitted.code == .inputRejected)
        #expect(submitted.messages.contains("\(file):\(expected[0])"))
    }

    /// What the file shows by itself comes before what is known of a subscription, which is nothing here.
    @Test func plan_ofDependentsOfUnknownSubscriptions_saysFirstWhatTheFileShows() async throws {
        let (environment, scratch) = try await office()
        let file = "\(scratch.path)/batch.csv"
        let rows = [
            "901,A,12.99,USD,,902/B,", "902,B,12.99,USD,,C,", "903,A,12.99,USD,,1/D,",
            "904,A,12.99,USD,,1/D,", "905,A,12.99,USD,,1/A,", "1,A,12.99,USD,,B,",
            "906,A,12.99,USD,,B,",
        ]
        try (Self.header + rows.joined(separator: "\n") + "\n")
            .write(toFile: file, atomically: true, encoding: .utf8)

        let planned = await run("plan", file, environment: environment)

        let one = "let it depend on one of them only"
        let none = "a dependent may not have dependents of its own"
        let said = planned.messages.split(separator: "\n").map {
            String($0.dropFirst(file.count + 1))
        }
        #expect(
            said.dropLast() == [
                "2: dependent_chained: dependents form a chain A → 902/B → C; \(none)",
                "3: dependent_chained: dependents form a chain 901/A (line 2) → B → C; \(none)",
                "4: dependent_shared: 1/D also depends on 904/A (line 5); \(one)",
                "5: dependent_shared: 1/D also depends on 903/A (line 4); \(one)",
                "6: dependent_chained: dependents form a chain A → 1/A → B; \(none)",
                "7: dependent_chained: dependents form a chain 905/A (line 6) → A → B; \(none)",
            ])
        #expect(said.last?.hasPrefix("8: unknown_subscription: ") == true)
    }

    @Test func plan_ofAChainOverSubscriptionsNamedBySKUAlone_refusesItInABatchAndOverOpenChanges()
        async throws
    {
        let (environment, scratch) = try await office()
        let file = "\(scratch.path)/batch.csv"
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            UPDATE repricer.subscriptions SET app_account_token = 'customer'
                WHERE original_transaction_id IN ('1', '19');
            UPDATE repricer.subscriptions SET items = replace(replace(items::text,
                '"A"', '"P"'), '"B"', '"Q"')::jsonb WHERE original_transaction_id = '19'
            """)
        await connection.close()
        let rows = ["1,A,12.99,USD,,P,", "19,P,12.99,USD,,Q,"]
        func run(_ rows: [String], _ arguments: String...) async throws -> (ExitCode, [String]) {
            try (Self.header + rows.joined(separator: "\n") + "\n")
                .write(toFile: file, atomically: true, encoding: .utf8)
            let outcome = await RepricerCommandsTests.run(
                [arguments[0], file] + arguments.dropFirst(), environment: environment)
            return (
                outcome.code,
                outcome.messages.split(separator: "\n").map {
                    String($0.dropFirst(file.count + 1))
                }
            )
        }

        let planned = try await run(rows, "plan")
        let opened = try await run([rows[0]], "submit", "--name", "open")
        let overOpen = try await run([rows[1]], "submit", "--name", "chain")

        let none = "a dependent may not have dependents of its own"
        #expect(
            planned.1 == [
                "2: dependent_chained: dependents form a chain A → P → Q; \(none)",
                "3: dependent_chained: dependents form a chain 1/A (line 2) → P → Q; \(none)",
            ])
        #expect(opened.0 == .done)
        #expect(overOpen.0 == .inputRejected)
        #expect(
            overOpen.1.first
                == "2: dependent_chained: dependents form a chain 1/A (an open change) → P → Q; \(none)"
        )
    }

    private func cells(_ path: String) throws -> [[String]] {
        try String(contentsOfFile: path, encoding: .utf8).split(separator: "\r\n")
            .map { $0.split(separator: ",", omittingEmptySubsequences: false).map(String.init) }
    }

    private func office() async throws -> (environment: [String: String], scratch: ScratchFolder) {
        let connection = try await TestDatabase.connect()
        try await connection.script(Self.subscriptions)
        await connection.close()
        let url = try await TestDatabase.login("ana", memberOf: ["repricer_pricing"])
        return (
            ["REPRICER_DATABASE_URL": url, "REPRICER_ENVIRONMENT": "Production"],
            try ScratchFolder()
        )
    }
}

import Foundation
import Postgres
import TestSupport
import Testing

@testable import RepricerCommands

/// `submit --holdout`: a share of the subscriptions is stored, never sent, and in no figure of what is.
@Suite(.database) struct HoldoutCommandTests {
    private struct Office {
        let ana: [String: String]
        let ben: [String: String]
        private let scratch: ScratchFolder
        let file: String
        static let subscriptions = 200

        /// Each with two items, which renew on 1 February.
        init() async throws {
            let connection = try await TestDatabase.connect()
            try await connection.script(
                """
                INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status, auto_renews,
                    storefront, currency, period, product_id, original_purchase_at,
                    recent_subscription_start_at, purchased_at, expires_at, renewal_at, items,
                    signed_at, folded_signed_at, folded_evidence_id, known_since)
                SELECT id, repricer.bucket_of(id), 1, true, 'USA', 'USD', 'P1M', 'generic', '2025-06-01Z',
                    '2025-06-01Z', '2026-01-01Z', '2026-02-01Z', '2026-02-01Z',
                    '[{"sku":"PLAN","currentPrice":9990,"renewalPrice":9990,"renews":true},
                      {"sku":"MORE","currentPrice":4990,"renewalPrice":4990,"renews":true}]',
                    '2026-01-01Z', '2026-01-01Z', 'n-1', '2025-06-01Z'
                FROM (SELECT (1000000000000000 + n)::text AS id FROM generate_series(1, \(Self.subscriptions)) n) AS s;
                """)
            await connection.close()
            func environment(_ url: String) -> [String: String] {
                ["REPRICER_DATABASE_URL": url, "REPRICER_ENVIRONMENT": "Production"]
            }
            ana = environment(try await TestDatabase.login("ana", memberOf: ["repricer_pricing"]))
            ben = environment(try await TestDatabase.login("ben", memberOf: ["repricer_pricing"]))
            scratch = try ScratchFolder()
            file = "\(scratch.path)/batch.csv"
            let rows = (1...Self.subscriptions).flatMap { number in
                [
                    "\(1_000_000_000_000_000 + number),PLAN,8.99,USD\n",
                    "\(1_000_000_000_000_000 + number),MORE,3.99,USD\n",
                ]
            }
            try ("original_transaction_id,sku,price,currency\n" + rows.joined()).write(
                toFile: file, atomically: true, encoding: .utf8)
        }

        func write(_ name: String, _ content: String) throws -> String {
            let path = "\(scratch.path)/\(name)"
            try content.write(toFile: path, atomically: true, encoding: .utf8)
            return path
        }

        func submit(_ options: String...) async -> Outcome {
            await run(["submit", file, "--name", "spring"] + options, environment: ana)
        }
    }

    private static func counts() async throws -> [String: Int64] {
        let connection = try await TestDatabase.connect()
        let rows = try await connection.query(
            """
            SELECT concat_ws(' ', state, reason, is_held_out) AS name, count(*) AS rows
            FROM repricer.price_changes GROUP BY 1
            """)
        let mixed = try await connection.query(
            """
            SELECT original_transaction_id AS id FROM repricer.price_changes
            GROUP BY 1 HAVING count(DISTINCT is_held_out) > 1
            """)
        #expect(mixed.isEmpty, "all items of a subscription are held out alike")
        await connection.close()
        return try Dictionary(
            uniqueKeysWithValues: rows.map { (try $0.text("name"), try $0.int64("rows")) })
    }

    @Test func heldOut_endWithTheApproval_andTheOthersAreQueued() async throws {
        let office = try await Office()

        let submitted = await office.submit("--holdout", "10")
        let before = try await Self.counts()
        let held = try #require(before["awaiting_approval t"])
        let shown = await run("show", "spring", environment: office.ben)
        let json = await run("show", "spring", "--json", environment: office.ben)
        let approved = await run("approve", "spring", "--yes", environment: office.ben)
        let after = try await Self.counts()
        try await TestDatabase.shipDefaultLimits()
        let audit = await run("audit", "verify", environment: office.ana)

        #expect(submitted.code == .done, "\(submitted.messages)")
        // Of 400 rows 40 are meant; by a hash so many that chance hardly goes further.
        #expect((16...70).contains(held))
        let sent = 400 - held
        #expect(
            submitted.messages.contains(
                "stored 400 changes, \(held) of them held out; they wait for another user's approval"
            ))
        #expect(shown.output.contains("held out"))
        #expect(shown.output.contains("\(held) rows (10% of the subscriptions): never sent"))
        #expect(shown.output.contains("of \(sent) rows may go at once"))
        #expect(json.output.contains(#""holdout_percent":"10%","held_out":\#(held),"#))
        #expect(json.output.contains(#""direction":{"decrease":\#(sent)}"#))
        #expect(approved.output.hasSuffix("approved \(sent) changes of spring\n"))
        #expect(after == ["aborted held_out t": held, "queued f": sent])
        #expect(audit.code == .done, "\(audit.messages)")
    }

    /// A limit is about what is sent.
    @Test func heldOut_countInNoLimitOfAnApprover() async throws {
        let office = try await Office()
        _ = await office.submit("--holdout", "50")
        let connection = try await TestDatabase.connect()

        let measured = try await connection.query(
            """
            SELECT m.rows, m.monthly_milliunits ->> 'USD' AS monthly,
                (SELECT count(*) FROM repricer.price_changes c WHERE NOT c.is_held_out) AS sent
            FROM repricer.batches b CROSS JOIN LATERAL repricer.batch_measure(b.batch_id) AS m
            """
        ).one()
        await connection.close()

        let sent = try measured.int64("sent")
        #expect((1..<400).contains(sent))
        #expect(try measured.int64("rows") == sent)
        #expect(try measured.text("monthly") == "\(sent * 1000)")
    }

    /// It ends with the approval, so its price never rises; what is sent does.
    @Test func heldOut_countsForNoOtherItemsConsent() async throws {
        let office = try await Office()
        let ids = [1, 2, 3, 4, 5, 6, 7, 8].map { "100000000000000\($0)" }
        let header = "original_transaction_id,sku,price,currency,effective_on_or_after\n"
        let first = try office.write(
            "first.csv", header + ids.map { "\($0),PLAN,10.49,USD,\n" }.joined())
        let second = try office.write(
            "second.csv", header + ids.map { "\($0),MORE,5.19,USD,2026-04-01\n" }.joined())
        _ = await run(
            "submit", first, "--name", "first", "--holdout", "50", environment: office.ana)
        let connection = try await TestDatabase.connect()
        let held = Set(
            try await connection.query(
                "SELECT original_transaction_id AS id FROM repricer.price_changes WHERE is_held_out"
            ).map { try $0.text("id") })
        await connection.close()

        let plan = await run("plan", second, "--rows", "-", environment: office.ana)

        #expect((1..<8).contains(held.count), "\(held)")
        for id in ids {
            let line = plan.output.split(separator: "\n").first { $0.contains(id) } ?? ""
            #expect(
                line.contains(
                    "\"consent\":\"\(held.contains(id) ? "not_required" : "required")\""), "\(line)"
            )
        }
    }

    @Test func sameFile_holdsOutTheSameOnes_andWithAnotherShareIsRefused() async throws {
        let office = try await Office()
        _ = await office.submit("--holdout", "10")

        let again = await office.submit("--holdout", "10%")
        let other = await office.submit("--holdout", "20")
        let none = await office.submit()

        #expect(again.code == .done)
        for outcome in [other, none] {
            #expect(outcome.code == .conflict)
            #expect(outcome.messages.contains("with other --holdout"))
        }
    }

    /// A share of one file holds out others than the same share of another.
    @Test func fileAndSubscription_decideAlone() async throws {
        let connection = try await TestDatabase.connect()
        let row = try await connection.query(
            """
            SELECT count(*) FILTER (WHERE a) AS held, count(*) FILTER (WHERE a AND NOT wider) AS lost,
                count(*) FILTER (WHERE a AND b) AS held_by_both, count(*) FILTER (WHERE never) AS never
            FROM (SELECT repricer.is_held_out('file', n::text, 1000) AS a,
                    repricer.is_held_out('file', n::text, 2000) AS wider,
                    repricer.is_held_out('other', n::text, 1000) AS b,
                    repricer.is_held_out('file', n::text, 0) AS never
                FROM generate_series(1, 20000) n) AS d
            """
        ).one()
        await connection.close()

        #expect((1830...2170).contains(try row.int64("held")))
        #expect(try row.int64("lost") == 0)
        #expect((140...260).contains(try row.int64("held_by_both")))
        #expect(try row.int64("never") == 0)
    }

    @Test(arguments: ["0", "51", "50.01", "-5", "5 %", "x", "", "5.555", "1e1", "100"])
    func anotherShare_isRefused(share: String) async throws {
        let office = try await Office()

        let outcome = await office.submit("--holdout", share)

        #expect(outcome.code == .usage, "\(outcome.messages)")
        #expect(outcome.messages.contains("--holdout"))
    }
}

import Foundation
import Postgres
import TestSupport
import Testing

@testable import RepricerCommands

/// The road of a batch through the commands, each as the database user who types it.
@Suite(.database) struct BatchCommandTests {
    static let good = "1000000000000001,PLAN,12.99,USD\n"
    static let unknown = "1000000000000009,PLAN,12.99,USD\n"

    /// Ana submits, Ben approves; one subscription renews on 1 February at 9.99 USD.
    struct Office {
        let ana: [String: String]
        let ben: [String: String]
        private let scratch: ScratchFolder
        var folder: String { scratch.path }

        init() async throws {
            let connection = try await TestDatabase.connect()
            try await connection.script(
                """
                INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status, auto_renews,
                    storefront, currency, period, product_id, original_purchase_at,
                    recent_subscription_start_at, purchased_at, expires_at, renewal_at, items,
                    signed_at, folded_signed_at, folded_evidence_id, known_since)
                VALUES ('1000000000000001', repricer.bucket_of('1000000000000001'),
                    1, true, 'USA', 'USD', 'P1M', 'generic', '2025-06-01Z',
                    '2025-06-01Z', '2026-01-01Z', '2026-02-01Z', '2026-02-01Z',
                    '[{"sku":"PLAN","currentPrice":9990,"renewalPrice":9990,"renews":true}]',
                    '2026-01-01Z', '2026-01-01Z', 'n-1', '2025-06-01Z');
                """)
            await connection.close()
            ana = Self.environment(
                try await TestDatabase.login("ana", memberOf: ["repricer_pricing"]))
            ben = Self.environment(
                try await TestDatabase.login("ben", memberOf: ["repricer_pricing"]))
            scratch = try ScratchFolder()
        }

        private static func environment(_ url: String) -> [String: String] {
            ["REPRICER_DATABASE_URL": url, "REPRICER_ENVIRONMENT": "Production"]
        }

        func file(_ rows: String, name: String = "batch.csv") throws -> String {
            let path = "\(folder)/\(name)"
            let header = "original_transaction_id,sku,price,currency\n"
            try (header + rows).write(toFile: path, atomically: true, encoding: .utf8)
            return path
        }

        func text(_ name: String) throws -> String {
            try String(contentsOfFile: "\(folder)/\(name)", encoding: .utf8)
        }

        /// Stores a batch as Ana and returns its id.
        func submit(_ options: String...) async throws -> String {
            let outcome = await run(
                ["submit", try file(BatchCommandTests.good), "--name", "spring"] + options,
                environment: ana)
            #expect(outcome.code == .done, "\(outcome.messages)")
            return String(outcome.output.dropLast())
        }
    }

    @Test func plan_ofRowsThatCanGo_forecastsAndExits0() async throws {
        let office = try await Office()

        let first = await run(
            "plan", try office.file(Self.good), "--json", "--rows", "\(office.folder)/rows",
            environment: office.ana)
        let second = await run(
            "plan", try office.file(Self.good), "--json", environment: office.ana)

        #expect(first.code == .done)
        #expect(first.messages.isEmpty)
        #expect(first.output == second.output)
        #expect(first.output.contains(#""rows":1,"can_go":1,"refused":0,"rejected_rows":{}"#))
        #expect(
            try office.text("rows").contains(
                #""line":2,"original_transaction_id":"1000000000000001""#))
    }

    /// One notification of a customer since June: an increase before it may be unknown.
    @Test func plan_ofACustomerSeenOnce_saysFirstThatConsentIsNotKnown_andStoresIt() async throws {
        let office = try await Office()
        let connection = try await TestDatabase.connect()
        try await connection.script("UPDATE repricer.subscriptions SET known_since = '2026-01-01Z'")

        let text = await run(
            "plan", try office.file(Self.good), "--rows", "\(office.folder)/rows",
            environment: office.ana)
        let json = await run("plan", try office.file(Self.good), "--json", environment: office.ana)
        _ = try await office.submit()
        let stored = try await connection.query(
            """
            SELECT forecast_consent, forecast_reasons::text AS reasons, forecast_not_known::text AS open,
                repricer.forecast_rules(c) = \(json: try office.text("rows"))::jsonb -> 'rules' AS is_as_planned
            FROM repricer.price_changes c
            """
        ).one()
        await connection.close()

        let lines = text.output.split(separator: "\n")
        #expect(lines.contains("not known     1  dated and sent as if required"))
        #expect(
            lines.contains {
                $0.hasSuffix("1 increase_within_12_months: ingest or reconcile 12 months")
            })
        #expect(json.output.contains(#""consent":{"not_known":1},"reasons":{},"not_known":[{"#))
        #expect(try stored.text("forecast_consent") == "not_known")
        #expect(try stored.text("reasons") == "{}")
        #expect(try stored.text("open") == "{increase_within_12_months}")
        #expect(try stored.bool("is_as_planned"))
    }

    /// The database knows which of Apple's environments it is about.
    @Test func plan_withTheDatabaseAlone_judgesByItsApp() async throws {
        let office = try await Office()
        let database = ["REPRICER_DATABASE_URL": office.ana["REPRICER_DATABASE_URL"] ?? ""]
        let file = try office.file(Self.good)

        let before = await run("plan", file, environment: database)
        let connection = try await TestDatabase.connect()
        try await connection.script(
            "INSERT INTO repricer.app_binding (bundle_id, environment, bound_at) VALUES ('a.b', 'Sandbox', '2026-01-01Z')"
        )
        await connection.close()
        let after = await run("plan", file, environment: database)
        let known = await run("plan", file, environment: office.ana)

        #expect(before.code == .failed)
        #expect(before.messages.contains("REPRICER_ENVIRONMENT: is not set"))
        #expect(after.code == .done, "\(after.messages)")
        #expect(after.output.contains("(Sandbox)"))
        #expect(after.output.contains(" at 5 a second"))
        #expect(known.code == .conflict)
    }

    /// Who names no rate reckons with the one at which the service calls.
    @Test func plan_withoutARate_takesTheServices() async throws {
        let office = try await Office()
        let file = try office.file(Self.good)
        let before = await run("plan", file, "--json", environment: office.ana)
        let owner = try await TestDatabase.connect()
        try await owner.script("SELECT repricer.note_change_price_rate(10)")
        await owner.close()

        let after = await run("plan", file, "--json", environment: office.ana)
        let own = await run(
            "plan", file, "--json",
            environment: office.ana.merging(["REPRICER_CHANGE_PRICE_RATE": "7"]) { _, new in new })

        #expect(before.output.contains(#""calls_per_thousand_seconds":50000"#))
        #expect(after.output.contains(#""calls_per_thousand_seconds":10,"#))
        #expect(own.output.contains(#""calls_per_thousand_seconds":7000"#))
    }

    @Test(arguments: ["plan", "status", "show", "approve"])
    func command_withARateThatIsNone_reckonsWithNoOther(verb: String) async throws {
        let office = try await Office()
        let file = try office.file(Self.good)
        _ = await run("submit", file, "--name", "spring", environment: office.ana)

        let outcome = await run(
            verb, verb == "plan" ? file : "spring",
            environment: office.ana.merging(["REPRICER_CHANGE_PRICE_RATE": "fast"]) { _, new in new
            })

        #expect(outcome.code == .failed)
        #expect(outcome.messages.contains("REPRICER_CHANGE_PRICE_RATE: \"fast\" is no number"))
    }

    @Test func undo_beforeTheApproval_saysOnceWhatHoldsForAll() async throws {
        let office = try await Office()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status, auto_renews, storefront, currency,
                period, product_id, original_purchase_at, recent_subscription_start_at, purchased_at, expires_at,
                renewal_at, items, signed_at, folded_signed_at, folded_evidence_id, known_since)
            SELECT n::text, repricer.bucket_of(n::text), status, auto_renews, storefront, currency, period, product_id,
                original_purchase_at, recent_subscription_start_at, purchased_at, expires_at, renewal_at, items,
                signed_at, folded_signed_at, folded_evidence_id, known_since
            FROM repricer.subscriptions, generate_series(1000000000000011, 1000000000000040) n
            """)
        await connection.close()
        let rows = (1_000_000_000_000_011...1_000_000_000_000_040).map { "\($0),PLAN,12.99,USD\n" }
        let submitted = await run(
            "submit", try office.file(Self.good + rows.joined()), "--name", "spring",
            environment: office.ana)
        let id = String(submitted.output.dropLast())

        let outcome = await run("undo", id, environment: office.ana)

        #expect(outcome.code == .inputRejected)
        let lines = outcome.messages.split(separator: "\n")
        #expect(lines.count == 2, "\(outcome.messages)")
        #expect(
            lines.first
                == "31 changes are not with Apple yet: awaiting approval (not_sent); withdraw them with repricer abort"
        )
    }

    @Test func plan_whenRowsAreRefused_namesEachAndWritesThemBack() async throws {
        let office = try await Office()
        let file = try office.file(Self.unknown + Self.good + "x,PLAN,12.99,USD\n")

        let outcome = await run(
            "plan", file, "--rejects", "\(office.folder)/rejects.csv", environment: office.ana)

        #expect(outcome.code == .inputRejected)
        let lines = outcome.messages.split(separator: "\n")
        #expect(lines.count == 2)
        #expect(lines.first?.hasPrefix("\(file):2: unknown_subscription: ") == true)
        #expect(lines.last?.hasPrefix("\(file):4: bad_transaction_id: ") == true)
        let rejects = try office.text("rejects.csv").split(separator: "\r\n")
        #expect(rejects.count == 3)
        #expect(rejects.last?.hasPrefix("x,PLAN,12.99,USD,bad_transaction_id,") == true)
    }

    @Test func plan_withRowsOnOutput_keepsTheSummaryOffIt() async throws {
        let office = try await Office()

        let outcome = await run(
            "plan", try office.file(Self.good), "--rows", "-", environment: office.ana)

        #expect(outcome.output.split(separator: "\n").count == 1)
        #expect(outcome.output.hasPrefix("{\"line\":2,"))
        #expect(outcome.messages.contains("plan hash"))
    }

    @Test(arguments: [
        ("", ["empty_file"]), ("sku,price,currency\n", ["missing_column"]),
        (
            "original_transaction_id,sku,price,price_milliunits,foo,currency,sku\n",
            ["unknown_column", "duplicate_column", "price_columns"]
        ),
        ("nonsense,sku\n", ["unknown_column", "missing_column", "price_columns"]),
    ])
    func plan_ofAnUnusableFile_exits3_andNamesAllFaults(
        _ content: String, _ codes: [String]
    ) async throws {
        let office = try await Office()
        let path = "\(office.folder)/bad.csv"
        try content.write(toFile: path, atomically: true, encoding: .utf8)

        let outcome = await run("plan", path, environment: office.ana)

        #expect(outcome.code == .inputRejected)
        let lines = outcome.messages.split(separator: "\n")
        #expect(lines.count == codes.count, "\(lines)")
        for (line, code) in zip(lines, codes) {
            #expect(line.hasPrefix("\(path):"))
            #expect(line.contains(" \(code): "))
        }
    }

    @Test func plan_ofAHeaderAlone_exits3() async throws {
        let office = try await Office()

        let outcome = await run("plan", try office.file(""), environment: office.ana)

        #expect(outcome.code == .inputRejected)
        #expect(outcome.messages.contains("empty_file: the file has no rows"))
    }

    @Test(arguments: [[], ["--json"], ["--quiet"]])
    func submit_withRejectsOnOutput_printsTheIdBesideIt(options: [String]) async throws {
        let office = try await Office()
        let file = try office.file(Self.unknown + Self.good)
        let command = [
            "submit", file, "--name", "spring", "--accept-valid", "--rejects", "-",
        ]

        let outcome = await run(command + options, environment: office.ana)
        let again = await run(command + options, environment: office.ana)

        let lines = outcome.output.split(separator: "\r\n")
        #expect(outcome.code == .done)
        #expect(lines.count == 2)
        #expect(lines.last?.contains(",unknown_subscription,") == true)
        let told = await run(Array(command.dropLast(2)), environment: office.ana)
        let id = String(told.output.dropLast())
        #expect(id.count == 36)
        #expect(outcome.messages.contains(id))
        // What was refused was told when it was stored.
        #expect(again.output.isEmpty)
        #expect(again.messages.contains(id))
    }

    @Test func submit_ofTheSameFileAgain_makesNoNewChangeAndSaysSo() async throws {
        let office = try await Office()
        let id = try await office.submit()

        let again = await run(
            "submit", try office.file(Self.good), "--name", "spring", environment: office.ana)

        #expect(again.code == .done)
        #expect(again.output == id + "\n")
        #expect(again.messages == "repricer: this file is a batch already: no new change\n")
    }

    @Test func submit_ofTheSameFileWithOtherTerms_isAConflictThatNamesThem() async throws {
        let office = try await Office()
        let id = try await office.submit()
        let file = try office.file(Self.good)

        for (options, names) in [
            (["--name", "other"], "--name (spring)"),
            (["--name", "spring", "--waves", "1%,rest"], "--waves (none)"),
            (["--name", "spring", "--halt-if", "none"], "--halt-if (errors>5%)"),
            (
                ["--name", "other", "--grouping", "item"],
                "--name (spring), --grouping (announced)"
            ),
        ] {
            let again = await run(["submit", file] + options, environment: office.ana)
            #expect(again.code == .conflict)
            #expect(again.messages.contains("is batch \(id) already, with other \(names);"))
        }
        let same = await run(
            "submit", file, "--name", "spring", "--halt-if", "errors>5%/50",
            environment: office.ana)
        #expect(same.code == .done)
    }

    /// A plan hash is a guard, too. The stored plan's own is none of another.
    @Test func submit_ofAKnownFileWithAPlanHash_comparesItWithTheStoredPlan() async throws {
        let office = try await Office()
        let file = try office.file(Self.good)
        let plan = await run("plan", file, "--json", environment: office.ana)
        let hash = String(
            try #require(plan.output.firstMatch(of: /"plan_hash":"(?<hash>[^"]+)"/)).hash)
        let id = try await office.submit("--plan-hash", hash)

        let same = await run(
            "submit", file, "--name", "spring", "--plan-hash", hash.uppercased(), "--plan-rows",
            "rows", environment: office.ana)
        let other = await run(
            "submit", file, "--name", "spring", "--plan-hash", String(hash.reversed()),
            environment: office.ana)

        #expect(same.code == .done, "\(same.messages)")
        #expect(
            same.messages
                == "repricer: this file is a batch already: no new change, and --plan-rows was not compared\n"
        )
        #expect(other.code == .conflict)
        #expect(other.output.isEmpty)
        #expect(
            other.messages.contains("is batch \(id) already, with other --plan-hash (\(hash));"))
    }

    /// What was withdrawn is released by nobody.
    @Test(arguments: [
        ["abort", "spring", "--reason", "no"], ["reject", "spring", "--reason", "no"],
    ])
    func status_ofAWithdrawnBatch_asksForNoRelease(_ command: [String]) async throws {
        let office = try await Office()
        _ = try await office.submit("--waves", "50%,rest@hand")
        let before = await run("status", "spring", environment: office.ana)
        let withdrawn = await run(
            command, environment: command[0] == "abort" ? office.ana : office.ben)
        let status = await run("status", "spring", environment: office.ana)
        let show = await run("show", "spring", environment: office.ana)

        #expect(before.output.contains("by hand: `repricer release BATCH`"))
        #expect(withdrawn.code == .done, "\(withdrawn.messages)")
        for outcome in [status, show] {
            #expect(!outcome.output.contains("repricer release"), "\(outcome.output)")
            #expect(!outcome.output.contains("with the approval"), "\(outcome.output)")
            #expect(outcome.output.contains("never, the batch is withdrawn"), "\(outcome.output)")
        }
    }

    /// The release of a wave is none of the terms that somebody gives.
    @Test func submit_ofTheSameFileAfterItsFirstWave_isTheSameBatch() async throws {
        let office = try await Office()
        let options = ["--name", "spring", "--waves", "50%,rest@hand"]
        let id = try await office.submit("--waves", "50%,rest@hand")
        _ = await run("approve", id, "--yes", environment: office.ben)
        let file = try office.file(Self.good)

        let same = await run(["submit", file] + options, environment: office.ana)
        let other = await run(
            "submit", file, "--name", "spring", "--waves", "50%,rest@+2d", environment: office.ana)

        #expect(same.code == .done, "\(same.messages)")
        #expect(other.code == .conflict)
        #expect(other.messages.contains("with other --waves (50%,rest);"))
    }

    /// What was not paused is not said to be resumed, and no line of the audit trail says so.
    @Test func resume_ofWhatIsNotPaused_saysSoAndDecidesNothing() async throws {
        let office = try await Office()
        let id = try await office.submit()

        let early = await run("resume", id, environment: office.ana)
        let all = await run("resume", "--all", environment: office.ana)
        let json = await run("resume", id, "--json", environment: office.ana)
        _ = await run("pause", id, environment: office.ana)
        let real = await run("resume", id, environment: office.ana)
        let audit = await run("audit", "show", environment: office.ana)

        #expect(early.code == .done)
        #expect(early.output == "spring is not paused: nothing to resume\n")
        #expect(all.output == "everything is not paused: nothing to resume\n")
        #expect(json.output.contains("\"changed\":false"))
        #expect(real.output == "resumed spring\n")
        #expect(audit.output.split(separator: "\n").count { $0.contains("resume") } == 1)
    }

    @Test func resume_ofAnAbortedBatch_isAConflict() async throws {
        let office = try await Office()
        let id = try await office.submit()
        _ = await run("abort", id, environment: office.ana)

        let outcome = await run("resume", id, environment: office.ana)

        #expect(outcome.code == .conflict)
        #expect(outcome.messages.contains("is aborted, nothing of it is sent any more"))
    }

    @Test func submit_withAnotherPlanHash_isAConflict() async throws {
        let office = try await Office()

        let outcome = await run(
            "submit", try office.file(Self.good), "--name", "n", "--plan-hash",
            String(repeating: "abcd", count: 16), environment: office.ana)

        #expect(outcome.code == .conflict)
        #expect(outcome.output.isEmpty)
    }

    @Test func submit_withRefusedRows_storesNothingUnlessToldTo() async throws {
        let office = try await Office()
        let file = try office.file(Self.good + Self.unknown)

        let strict = await run("submit", file, "--name", "n", environment: office.ana)
        let before = await run("status", "--json", environment: office.ana)
        let lenient = await run(
            "submit", file, "--name", "n", "--accept-valid", "--json", environment: office.ana)

        #expect(strict.code == .inputRejected)
        #expect(strict.output.isEmpty)
        #expect(before.output.contains(#""rows":0"#))
        #expect(lenient.code == .done)
        #expect(lenient.output.contains(#""is_new":true,"rows":1,"refused":1"#))
    }

    @Test func approve_byTheSubmitter_isRefusedByTheDatabase() async throws {
        let office = try await Office()
        let id = try await office.submit()

        let own = await run("approve", id, "--yes", environment: office.ana)
        let other = await run("approve", "spring", "--yes", environment: office.ben)
        let twice = await run("approve", id, "--yes", environment: office.ben)

        #expect(own.code == .approvalNeededOrRefused)
        #expect(own.messages.contains("submitted this batch; another user must approve it"))
        #expect(other.code == .done)
        #expect(other.output.hasPrefix("batch      spring, \(id)\n"))
        #expect(other.output.hasSuffix("\n\napproved 1 change of spring\n"))
        #expect(twice.code == .conflict)
    }

    @Test func submit_byAUserWithoutTheRole_isRefused() async throws {
        let office = try await Office()
        let url = try await TestDatabase.login("eve", memberOf: ["repricer_finance"])
        let eve = ["REPRICER_DATABASE_URL": url, "REPRICER_ENVIRONMENT": "Production"]

        let outcome = await run(
            "submit", try office.file(Self.good), "--name", "n", environment: eve)

        #expect(outcome.code != .done)
        #expect(outcome.output.isEmpty)
    }

    @Test func reject_ofAWaitingBatch_withdrawsItsChanges() async throws {
        let office = try await Office()
        let id = try await office.submit()

        let outcome = await run(
            "reject", id, "--reason", "too early", "--json", environment: office.ben)
        let status = await run("status", id, "--json", environment: office.ben)

        #expect(
            outcome.output
                == "{\"batch_id\":\"\(id)\",\"state\":\"rejected\",\"withdrawn\":1,"
                + "\"undo\":{\"rows\":0,\"first_until\":null,\"last_until\":null,\"items\":[]},"
                + "\"past_recall\":{},\"communicated_on\":[]}\n"
        )
        #expect(status.output.contains(#""is_final":true,"states":{"aborted":1}"#))
    }

    @Test func pauseAndResume_ofOneBatchAndOfAll_showInTheStatus() async throws {
        let office = try await Office()
        let id = try await office.submit()

        let paused = await run("pause", id, environment: office.ana)
        let shown = await run("status", id, "--json", environment: office.ana)
        let all = await run("pause", "--all", environment: office.ana)
        let resumed = await run("resume", id, environment: office.ana)
        let stillPaused = await run("status", id, environment: office.ana)

        #expect(paused.output == "paused spring\n")
        #expect(shown.output.contains(#""paused":true"#))
        #expect(all.output == "paused everything\n")
        #expect(resumed.output == "resumed spring\n")
        #expect(stillPaused.output.contains("`repricer resume --all`"))
    }

    @Test func status_ofEverything_namesABatchThatAPersonPaused() async throws {
        let office = try await Office()
        let id = try await office.submit()
        _ = await run("approve", id, "--yes", environment: office.ben)
        _ = await run("pause", id, "--reason", "wrong prices", environment: office.ana)

        let status = await run("status", environment: office.ana)

        #expect(
            status.output.contains(/PAUSED +batch spring since \S+\s+by\s+\S+\s+wrong\s+prices/),
            "\(status.output)")
    }

    @Test func status_ofARefusedRow_namesTheSubscriptionTheCodeAndTheNextTry() async throws {
        let office = try await Office()
        let id = try await office.submit()
        _ = await run("approve", id, "--yes", environment: office.ben)
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.price_changes SET parked_reason = '4040010 TransactionIdNotFoundError', parks = 1,
                next_attempt_at = '2026-03-01T00:02:00Z'
            """)
        let parked = await run("status", id, environment: office.ana)
        let json = await run("status", id, "--json", environment: office.ana)
        try await owner.script(
            """
            UPDATE repricer.price_changes SET state = 'rejected', reason = '4030010 SubscriptionNotEligibleError',
                parked_reason = NULL, ended_at = now(), sent_at = now(), request_reference_id = gen_random_uuid()
            """)
        let rejected = await run("status", id, environment: office.ana)
        await owner.close()

        let row = parked.output.split(separator: "\n").first { $0.contains("4040010") } ?? ""
        #expect(row.contains("parked") && row.contains("2026-03-01T00:02:00"))
        #expect(json.output.contains(#""state":"parked","reason":"4040010 TransactionId"#))
        #expect(rejected.output.contains("rejected  4030010 SubscriptionNotEligibleError"))
    }

    @Test func abort_afterApproval_withdrawsWhatIsUnsent() async throws {
        let office = try await Office()
        let id = try await office.submit()
        _ = await run("approve", id, "--yes", environment: office.ben)

        let outcome = await run("abort", id, environment: office.ana)

        #expect(
            outcome
                == Outcome(
                    code: .done, output: "aborted spring: 1 change withdrawn\n", messages: ""))
    }

    /// Apple has it, and tells the customer 27 days before the renewal.
    private static func schedule(renewal: String, notice: String) async throws {
        let connection = try await TestDatabase.connect()
        // The renewal has moved since the forecast.
        try await connection.script(
            """
            UPDATE repricer.price_changes SET state = 'scheduled', sent_at = '2025-12-05Z',
                scheduled_at = '2025-12-05Z', forecast_effective_at = '2026-01-01Z',
                forecast_notice_at = timestamptz '\(notice)' - (timestamptz '\(renewal)' - '2026-01-01Z'),
                due_effective_at = '\(renewal)'
            """)
        await connection.close()
    }

    @Test func abort_ofWhatUndoCanTakeBack_namesUndoAndUntilWhen() async throws {
        let office = try await Office()
        let id = try await office.submit()
        _ = await run("approve", id, "--yes", environment: office.ben)
        try await Self.schedule(renewal: "2026-03-01Z", notice: "2026-02-02Z")

        let rehearsed = await run("undo", id, "--dry-run", environment: office.ana)
        let json = await run("undo", id, "--dry-run", "--json", environment: office.ana)
        let onAScreen = await run("undo", id, "--dry-run", environment: office.ana) {
            $0.isOutputTerminal = true
            $0.environment["NO_COLOR"] = "1"
        }
        let status = await run("status", "--json", environment: office.ana)
        let outcome = await run("abort", id, environment: office.ana)
        let undone = await run("undo", id, environment: office.ana)

        #expect(
            rehearsed.output == """
                1 of 1 change of spring can be taken back, until 2026-02-02T00:00:00Z
                ITEM  CURRENCY  ROWS  ALL UNTIL             THE LAST UNTIL
                PLAN  USD          1  2026-02-02T00:00:00Z  2026-02-02T00:00:00Z

                """)
        #expect(rehearsed.messages.isEmpty)
        // Items have long names: a screen keeps room for them.
        #expect(
            onAScreen.output.hasSuffix(
                "ITEM  CURRENCY  ROWS  ALL UNTIL          THE LAST UNTIL\n"
                    + "PLAN  USD          1  2026-02-02T00:00Z  2026-02-02T00:00Z\n"))
        #expect(
            json.output.hasPrefix(
                #"{"dry_run":true,"undoes_batch_id":"\#(id)","rows":1,"refused":{},"#))
        #expect(json.output.contains(#""undo":{"rows":1,"first_until":"2026-02-02T00:00:00Z""#))
        #expect(!status.output.contains("undo of spring"), "nothing is stored")
        #expect(
            outcome.output == """
                aborted spring: 0 changes withdrawn
                can be taken back: 1 scheduled, with `repricer undo \(id.prefix(8))` until 2026-02-02T00:00:00Z

                """)
        #expect(undone.code == .done)
    }

    @Test func abort_ofWhatTheCustomerWasToldOf_saysThatItIsPastRecall() async throws {
        let office = try await Office()
        let id = try await office.submit()
        _ = await run("approve", id, "--yes", environment: office.ben)
        try await Self.schedule(renewal: "2026-01-20Z", notice: "2026-01-04Z")

        let rehearsed = await run("undo", id, "--dry-run", environment: office.ana)
        let outcome = await run("abort", id, environment: office.ana)

        #expect(rehearsed.code == .inputRejected)
        #expect(rehearsed.messages.contains("can be undone"))
        #expect(rehearsed.messages.contains("already_communicated: "), "\(rehearsed.messages)")
        #expect(
            outcome.output == """
                aborted spring: 0 changes withdrawn
                past recall: 1 scheduled, the customer was to be told on 2026-01-04

                """)
    }

    @Test(arguments: ["approve", "abort", "status", "pause"])
    func command_onAnUnknownBatch_exits3(_ verb: String) async throws {
        let office = try await Office()

        let outcome = await run(verb, "nothing", environment: office.ana)

        #expect(outcome.code == .inputRejected)
        #expect(
            outcome.messages == "repricer: no batch \"nothing\"; `repricer status` lists them\n")
    }

    /// An id may be an extension's as well.
    @Test func approve_onAnUnknownID_namesBothLists() async throws {
        let office = try await Office()
        let id = "019a0000-0000-7000-8000-000000000001"

        let outcome = await run("approve", id, "--yes", environment: office.ana)

        #expect(outcome.code == .inputRejected)
        #expect(
            outcome.messages
                == "repricer: no batch \"\(id)\": `repricer status` lists them, and "
                + "`repricer extend status` the extensions\n")
    }

    @Test func statusWatch_whenAllIsFinal_endsByItself() async throws {
        let office = try await Office()
        let id = try await office.submit()
        _ = await run("reject", id, "--reason", "r", environment: office.ben)

        let outcome = await run("status", id, "--watch", "--json", environment: office.ana)

        #expect(outcome.code == .done)
        #expect(outcome.output.split(separator: "\n").count == 1)
    }

    @Test func statusWatch_onASignal_isInterrupted() async throws {
        let office = try await Office()
        let id = try await office.submit()

        let outcome = await run("status", id, "--watch", environment: office.ana) { harness in
            harness.terminations = { AsyncStream { $0.yield(2) } }
        }

        #expect(outcome.code == .interrupted)
    }

    @Test func explain_ofAnIncrease_showsRulesAndDates() async throws {
        let office = try await Office()

        let text = await run(
            "explain", "1000000000000001", "PLAN", "14.99", environment: office.ana)
        let json = await run(
            "explain", "1000000000000001", "PLAN", "14.99", "--json", environment: office.ana)

        #expect(text.code == .done)
        #expect(text.output.contains("9.99 USD -> 14.99 USD"))
        #expect(text.output.contains("\nthreshold "))
        #expect(
            json.output.hasPrefix("{\"line\":null,\"original_transaction_id\":\"1000000000000001\"")
        )
    }

    @Test(arguments: [
        ("1000000000000009", "PLAN", "12.99", "unknown_subscription"),
        ("1000000000000001", "OTHER", "12.99", "unknown_item"),
        ("1000000000000001", "PLAN", "12.999", "price_decimals"),
        ("1000000000000001", "PLAN", "9.99", "no_change"),
        ("1000000000000001", "PLAN", "a\",\"b", "bad_price"),
    ])
    func explain_ofAChangeThatCannotGo_exits3(
        _ id: String, _ sku: String, _ price: String, _ code: String
    ) async throws {
        let office = try await Office()

        let outcome = await run("explain", id, sku, price, environment: office.ana)

        #expect(outcome.code == .inputRejected)
        #expect(outcome.messages.hasPrefix("repricer: \(code): "), "\(outcome.messages)")
    }

    @Test func timeline_namesEachStepWithItsEvidence() async throws {
        let office = try await Office()
        let id = try await office.submit()

        let known = await run("timeline", "1000000000000001", "--json", environment: office.ana)
        let unknown = await run("timeline", "1", environment: office.ana)

        #expect(known.output.contains("\"evidence_id\":\"\(id)\""))
        #expect(unknown.code == .inputRejected)
    }

    @Test func report_asFinance_readsTheViewsAlone() async throws {
        let office = try await Office()
        _ = try await office.submit()
        let url = try await TestDatabase.login("fin", memberOf: ["repricer_finance"])

        let csv = await run(
            "report", "batch-summary", "--format", "csv",
            environment: ["REPRICER_DATABASE_URL": url])
        let unknown = await run(
            "report", "batch_summary", "--batch", "x", environment: ["REPRICER_DATABASE_URL": url])

        #expect(csv.code == .done, "\(csv.messages)")
        #expect(csv.output.split(separator: "\r\n").count == 2)
        #expect(unknown.code == .inputRejected)
    }

    @Test(arguments: [
        ("2026-13", ExitCode.usage), ("October", .usage), ("2026-10-01", .usage),
        // The harness's clock shows January 2026.
        ("2026-10", .conflict), ("2025-12", .done),
    ])
    func closeMonth_asTheLeadOfFinance_saysWhatIsWrong(month: String, code: ExitCode) async throws {
        _ = try await Office()
        let url = try await TestDatabase.login("lea", memberOf: ["repricer_finance_lead"])

        let closed = await run("close-month", month, environment: ["REPRICER_DATABASE_URL": url])

        #expect(closed.code == code, "\(closed.messages)")
        #expect(closed.messages.isEmpty == (code == .done))
    }

    @Test func report_asOf_whereNobodyKnowsThePast_isAMistakeOfUse() async throws {
        let office = try await Office()

        let refused = await run(
            "report", "notification_health", "--as-of", "2026-01-05", environment: office.ana)

        #expect(refused.code == .usage)
        #expect(
            refused.messages.contains(
                "report notification_health can't tell what was known at an instant; leave --as-of out, or ask one of "
                    + "batch_summary, "))
    }

    @Test func report_ofABatchByItsName_isThatOfItsID() async throws {
        let office = try await Office()
        let id = try await office.submit()

        let named = await run(
            "report", "price_change", "--batch", "spring", "--as-of", "2026-01-05", "--json",
            environment: office.ana)
        let byID = await run(
            "report", "price_change", "--batch", id, "--as-of", "2026-01-05", "--json",
            environment: office.ana)
        let unknown = await run(
            "report", "price_change", "--batch", "autumn", environment: office.ana)

        #expect(named.code == .done)
        #expect(named == byID)
        #expect(named.output.contains("\"sku\":\"PLAN\""))
        #expect(unknown.code == .inputRejected)
        #expect(unknown.messages.hasPrefix("repricer: no batch \"autumn\"; give the name"))
    }
}

import Foundation
import Postgres
import TestSupport
import Testing

@testable import RepricerCommands

/// Waves, grouping, pauses: as people type them.
@Suite(.database) struct ControlCommandTests {
    /// Ana submits, Ben approves; three subscriptions renew on 1 February at 9.99. Their points are 6804, 8831, 1362
    /// of 10,000: only the third is in the first half.
    private struct Office {
        let ana: [String: String]
        let ben: [String: String]
        let scratch: ScratchFolder
        let file: String

        init() async throws {
            let connection = try await TestDatabase.connect()
            try await connection.script(
                """
                INSERT INTO repricer.subscriptions (original_transaction_id, bucket, status, auto_renews,
                    storefront, currency, period, product_id, original_purchase_at,
                    recent_subscription_start_at, purchased_at, expires_at, renewal_at, items,
                    signed_at, folded_signed_at, folded_evidence_id, known_since)
                SELECT s.id, repricer.bucket_of(s.id), 1, true, s.storefront, s.currency, 'P1M', 'generic', '2025-06-01Z',
                    '2025-06-01Z', '2026-01-01Z', '2026-02-01Z', '2026-02-01Z',
                    '[{"sku":"PLAN","currentPrice":9990,"renewalPrice":9990,"renews":true}]',
                    '2026-01-01Z', '2026-01-01Z', 'n-1', '2025-06-01Z'
                FROM (VALUES ('2000000000000001', 'USA', 'USD'), ('2000000000000002', 'GBR', 'GBP'),
                    ('2000000000000003', 'USA', 'USD')) AS s (id, storefront, currency);
                """)
            await connection.close()
            ana = Self.environment(
                try await TestDatabase.login("ana", memberOf: ["repricer_pricing"]))
            ben = Self.environment(
                try await TestDatabase.login("ben", memberOf: ["repricer_pricing"]))
            scratch = try ScratchFolder()
            file = try scratch.file(
                "batch.csv",
                """
                original_transaction_id,sku,price,currency
                2000000000000001,PLAN,12.99,USD
                2000000000000002,PLAN,12.99,GBP
                2000000000000003,PLAN,12.99,USD

                """)
        }

        private static func environment(_ url: String) -> [String: String] {
            ["REPRICER_DATABASE_URL": url, "REPRICER_ENVIRONMENT": "Production"]
        }

        func submit(_ options: String...) async -> Outcome {
            await run(["submit", file, "--name", "spring"] + options, environment: ana)
        }
    }

    /// Nothing of Apple's rate is used before the first call, and all of it while the App Store asks for silence.
    @Test func status_beforeTheFirstCall_hasTheWholeRateLeft() async throws {
        let office = try await Office()

        let before = await run("status", environment: office.ana)
        let json = await run("status", "--json", environment: office.ana)
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            INSERT INTO repricer.rate_limits (endpoint, next_permit_micros, blocked_until)
            VALUES ('change_price', 0, '2100-01-01Z')
            ON CONFLICT (endpoint) DO UPDATE SET blocked_until = excluded.blocked_until;
            """)
        await connection.close()
        let silent = await run("status", environment: office.ana)

        #expect(before.output.contains("50 of 50 price changes this second"), "\(before.output)")
        #expect(json.output.contains("\"quota_left\":50"), "\(json.output)")
        #expect(silent.output.contains(" 0 of 50 price changes this second"), "\(silent.output)")
    }

    /// It would wait in silence for as long as the other session lives.
    @Test func decision_onWhatAnotherSessionHolds_isRefusedInTheEnd_andSaysWhereToLook()
        async throws
    {
        let office = try await Office()
        _ = await office.submit()
        let other = try await TestDatabase.connect()
        try await other.script("BEGIN; SELECT FROM repricer.batches FOR UPDATE")

        let refused = await run(
            "approve", "spring", "--yes", environment: office.ben
        ) { $0.lockWait = .milliseconds(300) }
        try await other.script("ROLLBACK")
        let done = await run("approve", "spring", "--yes", environment: office.ben)

        #expect(refused.code == .conflict, "\(refused.messages)")
        #expect(refused.messages.contains("another session holds what this needs"))
        #expect(done.code == .done, "\(done.messages)")
        await other.close()
    }

    @Test func plan_withWaves_countsThemAndNamesEachRowsOwn() async throws {
        let office = try await Office()

        let summary = await run(
            "plan", office.file, "--waves", "50%,rest", "--grouping", "item", "--json",
            environment: office.ana)
        let rows = await run(
            "plan", office.file, "--waves", "USA,rest", "--rows", "-", environment: office.ana)
        let text = await run(
            "plan", office.file, "--waves", "USA,rest", "--details", environment: office.ana)

        #expect(
            summary.output.contains(
                #""grouping":"item","waves":[{"wave":1,"label":"50%","rows":1},{"wave":2,"label":"rest","rows":2}]"#
            ))
        #expect(
            rows.output.split(separator: "\n").map { $0.suffix(10) } == [
                #","wave":1}"#, #","wave":2}"#, #","wave":1}"#,
            ])
        #expect(
            text.output.contains("WAVE  ROWS OF  ROWS\n1     USA         2\n2     rest        1\n"))
    }

    /// Neither before the approval nor after it may a row go whose wave waits for a person.
    @Test func show_ofAFirstWaveThatWaits_saysThatNoRowMayGo() async throws {
        let office = try await Office()
        _ = await office.submit("--waves", "50%@hand,rest@+1d")

        let before = await run("show", "spring", environment: office.ben)
        _ = await run("approve", "spring", "--yes", environment: office.ben)
        let after = await run("show", "spring", environment: office.ben)

        for shown in [before, after] {
            #expect(
                shown.output.replacing("\n  ", with: " ").contains(
                    "due: 0 of 3 rows may go at once; 3 rows wait for the release of their wave"),
                "\(shown.output)")
        }
    }

    @Test(arguments: [
        (
            "50%,rest@2025-12-01",
            "wave 2 (rest) is to be released at 2025-12-01T00:00:00Z, which has passed"
        ),
        ("50%@2029-12-05,rest@2029-12-01", "before wave 1"),
        ("USB,rest", "the App Store has no storefront USB"),
    ])
    func waves_thatNobodyMeans_areRefused(waves: String, said: String) async throws {
        let office = try await Office()

        for outcome in [
            await office.submit("--waves", waves),
            await run("plan", office.file, "--waves", waves, environment: office.ana),
        ] {
            #expect(outcome.code == .usage, "\(outcome)")
            #expect(outcome.messages.contains(said), "\(outcome.messages)")
        }
    }

    /// A finished batch stays what it is: charged, and not aborted.
    @Test func fileOfAFinishedBatch_isNoNewBatch_andTheBatchCanNotBeAborted() async throws {
        let office = try await Office()
        _ = await office.submit()
        _ = await run("approve", "spring", "--yes", environment: office.ben)
        let connection = try await TestDatabase.connect()
        try await connection.script(
            "UPDATE repricer.price_changes SET state = 'effective', effective_at = now(), ended_at = now()"
        )
        await connection.close()

        let again = await office.submit()
        let named = await run("submit", office.file, "--name", "summer", environment: office.ana)
        let aborted = await run("abort", "spring", environment: office.ana)
        let shown = await run("status", "spring", "--json", environment: office.ana)

        #expect(again.code == .done)
        #expect(
            again.messages.contains(
                "no new change. That batch is finished. A file that differs, if only in the order of its rows, is a batch of "
                    + "its own"), "\(again.messages)")
        #expect(named.code == .conflict)
        #expect(named.messages.contains("that batch is finished. A file that differs"), "\(named)")
        #expect(aborted.code == .conflict)
        #expect(aborted.messages.contains("is finished: each of its rows has ended"), "\(aborted)")
        #expect(shown.output.contains(#""state":"approved""#), "\(shown.output)")
    }

    @Test func release_ofABatchWithoutWaves_saysThatAllWent() async throws {
        let office = try await Office()
        _ = await office.submit()
        _ = await run("approve", "spring", "--yes", environment: office.ben)

        let outcome = await run("release", "spring", environment: office.ana)

        #expect(outcome.code == .conflict)
        #expect(
            outcome.messages.contains("has no waves: its approval released all of it"),
            "\(outcome.messages)")
    }

    /// A month is closed for good, so whoever closes it sees what is open, and may look first.
    @Test func closeMonth_namesTheChecksThatAreNotOK_andMayOnlyLook() async throws {
        _ = try await Office()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            INSERT INTO repricer.inbox (original_transaction_id, bucket, notification_uuid, received_at, error)
            VALUES ('1', repricer.bucket_of('1'), 'n', '2025-12-05Z', 'why')
            """)
        await connection.close()
        let lead = [
            "REPRICER_DATABASE_URL": try await TestDatabase.login(
                "lea", memberOf: ["repricer_finance_lead"])
        ]

        let looked = await run("close-month", "2025-12", "--dry-run", environment: lead)
        let closed = await run("close-month", "2025-12", "--json", environment: lead)
        let again = await run("close-month", "2025-12", "--dry-run", environment: lead)

        #expect(looked.code == .done)
        #expect(
            looked.output == "2025-12 has no figures: no money is known of it; nothing was closed\n"
        )
        #expect(
            looked.messages
                == "repricer: checks that are not OK: inbox_stuck 1; see `repricer report reconciliation`\n"
        )
        #expect(
            closed.output
                == #"{"month":"2025-12","figures":0,"is_closed":true,"checks_not_ok":[{"check":"inbox_stuck","problems":1}]}"#
                + "\n")
        #expect(again.code == .conflict)
    }

    /// As `plan` says it: what is wrong with the row says nothing of the subscription.
    @Test func explain_ofARowWithAFaultOfItsOwn_showsTheSubscription() async throws {
        let office = try await Office()

        let outcome = await run(
            "explain", "2000000000000001", "PLAN", "12.999", "--json", environment: office.ana)

        #expect(outcome.code == .inputRejected)
        for fact in [
            #""storefront":"USA""#, #""period":"P1M""#, #""current_price_milliunits":9990"#,
            #""renewal_at":"2026-02-01T00:00:00Z""#,
        ] {
            #expect(outcome.output.contains(fact), "\(fact): \(outcome.output)")
        }
    }

    @Test func waves_fromSubmissionToTheLast_showInTheStatus() async throws {
        let office = try await Office()
        let submitted = await office.submit("--waves", "USA,GBR,rest@+1d")
        #expect(submitted.code == .done, "\(submitted.messages)")

        let before = await run("status", "spring", environment: office.ana)
        let early = await run("release", "spring", environment: office.ana)
        let shown = await run("show", "spring", environment: office.ben)
        _ = await run("approve", "spring", "--yes", environment: office.ben)
        let second = await run("release", "spring", environment: office.ana)
        let json = await run("status", "spring", "--json", environment: office.ana)
        let last = await run("release", "spring", "--wave", "3", "--json", environment: office.ben)
        let tooMany = await run("release", "spring", environment: office.ana)
        let nonsense = await run("release", "spring", "--wave", "x", environment: office.ana)

        #expect(
            before.output.contains(
                """
                WAVE  ROWS OF  ROWS  UNSENT  RELEASED
                1     USA         2       2  with the approval
                2     GBR         1       1  by hand: `repricer release BATCH`
                3     rest        0       0  1 day after the one before
                """))
        #expect(early.code == .conflict)
        #expect(
            shown.output.replacing("\n  ", with: " ").contains(
                "due: 2 of 3 rows may go at once; 1 row waits for the release of its wave; the first of all must go by"
            ),
            "\(shown.output)")
        #expect(second.output == "released wave 2 of 3 of spring\n")
        #expect(json.output.contains(#""grouping":"announced","next_release_at":""#))
        #expect(
            json.output.contains(
                #""wave":2,"label":"GBR","rows":1,"unsent":1,"states":{"queued":1}"#))
        #expect(last.output.contains(#""released_wave":3,"#))
        #expect(tooMany.code == .conflict)
        #expect(tooMany.messages.contains("has 3 waves, 3 of them released"))
        #expect(nonsense.code == .usage)
    }

    @Test func twoPeopleReleasingAtOnce_releaseOneWave() async throws {
        let office = try await Office()
        _ = await office.submit("--waves", "USA,GBR,rest")
        _ = await run("approve", "spring", "--yes", environment: office.ben)
        let holder = try await TestDatabase.connect()
        try await holder.script("BEGIN; SELECT 1 FROM repricer.batches FOR UPDATE")

        async let one = run("release", "spring", environment: office.ana)
        async let other = run("release", "spring", environment: office.ben)
        let observer = try await TestDatabase.connect()
        while try await observer.query(
            """
            SELECT count(*) AS n FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%release_wave%'
            """
        ).one().int("n") < 2 { await Task.yield() }
        try await holder.script("COMMIT")
        let outcomes = await [one, other]

        #expect(outcomes.map(\.output).sorted() == ["", "released wave 2 of 3 of spring\n"])
        #expect(
            outcomes.contains {
                $0.code == .conflict && $0.messages.contains("has 3 waves, 2 of them released")
            })
        await observer.close()
        await holder.close()
    }

    @Test(arguments: [
        (["--waves", "1%"], "--waves: some rows would be in no wave; end with rest"),
        (["--waves", "USA,10%,rest"], "--waves: waves are either shares or storefronts, not both"),
        (["--grouping", "bundle"], "--grouping cannot be"),
    ])
    func submit_withTermsThatMakeNoSense_isAUsageError(options: [String], message: String)
        async throws
    {
        let office = try await Office()

        let outcome = await run(
            ["submit", office.file, "--name", "n"] + options, environment: office.ana)

        #expect(outcome.code == .usage)
        #expect(outcome.messages.contains(message), "\(outcome.messages)")
    }

    @Test func approve_whenARowIsInNoWave_isRefused() async throws {
        let office = try await Office()
        _ = await office.submit("--waves", "USA,rest")
        let connection = try await TestDatabase.connect()
        try await connection.script("UPDATE repricer.price_changes SET wave = 0 WHERE line = 2")
        await connection.close()

        let outcome = await run("approve", "spring", "--yes", environment: office.ben)

        #expect(outcome.code == .conflict)
        #expect(outcome.messages.contains("1 rows of batch"))
    }

    @Test func killSwitch_whenThrown_isTheFirstLineOfTheStatusWithWhoAndWhy() async throws {
        let office = try await Office()
        _ = await office.submit()

        _ = await run(
            "pause", "--all", "--reason", "wrong prices", environment: office.ben)
        let text = await run("status", environment: office.ana)
        let json = await run("status", "--json", environment: office.ana)
        _ = await run("resume", "--all", "--reason", "mended", environment: office.ana)
        let after = await run("status", "--json", environment: office.ana)
        let trail = await run("audit", "show", environment: office.ana)

        let ben = TestDatabase.loginName("ben")
        #expect(text.output.hasPrefix("PAUSED"))
        #expect(
            text.output.split(separator: "\n").first?.contains(" by \(ben): wrong prices") == true)
        #expect(
            json.output.contains(#""everything":{"paused":true,"pause":{"by":"\#(ben)","at":""#))
        #expect(
            json.output.contains(
                #""reason":"wrong prices","halted_by":null,"probe_at":null,"probe_answer":null,"also_paused":null}"#
            ))
        #expect(
            after.output.contains(
                #""everything":{"paused":false,"pause":null,"halted":false,"halt":null,"catching_up_since":null,"#
            ))
        #expect(trail.output.contains("wrong prices"))
        #expect(trail.output.contains("mended"))
    }

    @Test func statusWhileCatchingUp_saysWhyTheReadingStopped() async throws {
        let office = try await Office()
        _ = await office.submit()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            UPDATE repricer.service_controls SET catch_up_since = '2026-01-04 00:00Z',
                catch_up_answer = 'the App Store refuses our key'
            """)
        await connection.close()

        let text = await run("status", environment: office.ana)
        let json = await run("status", "--json", environment: office.ana)

        let line = text.output.split(separator: "\n").first { $0.hasPrefix("CATCHING UP") }
        #expect(
            line?.hasSuffix(
                "the service reads them; the latest reading stopped: the App Store refuses our key")
                == true, "\(text.output)")
        #expect(
            json.output.contains(#""catching_up_answer":"the App Store refuses our key""#))
    }

    @Test func haltedStorefront_showsInTheStatusUntilItIsResumed() async throws {
        let office = try await Office()
        _ = await office.submit()
        _ = await run("approve", "spring", "--yes", environment: office.ben)
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            SELECT repricer.halt_storefront(batch_id, 'GBR', '2026-01-05T00:00:00Z', '4000134',
                'the App Store refused a call') FROM repricer.batches;
            SELECT repricer.park_halted(100);
            """)
        await connection.close()

        let text = await run("status", "spring", environment: office.ana)
        let json = await run("status", "spring", "--json", environment: office.ana)
        _ = await run("resume", "spring", environment: office.ben)
        let after = await run("status", "spring", "--json", environment: office.ana)

        #expect(
            text.output.contains(
                "GBR since 2026-01-05T00:00:00Z: the App Store refused a call; `repricer resume BATCH`"
            ))
        #expect(
            json.output.contains(
                #""storefront":"GBR","halted_by":"4000134""#))
        #expect(json.output.contains(#""paused":false"#))
        #expect(after.output.contains(#""halted_storefronts":[]"#))
    }

    @Test func pause_ofABatch_saysWhoAndWhy() async throws {
        let office = try await Office()
        _ = await office.submit()

        _ = await run("pause", "spring", "--reason", "ask legal", environment: office.ben)
        let text = await run("status", "spring", environment: office.ana)

        #expect(text.output.contains("paused since "))
        #expect(text.output.contains(" by \(TestDatabase.loginName("ben")): ask legal\n"))
    }

    /// Who reads why it stands still must read what halted it, also after a person paused it, too: and that pause outlasts
    /// the halt.
    @Test func pause_ofAHaltedBatch_keepsWhatHaltedIt_andHolds() async throws {
        let office = try await Office()
        _ = await office.submit()
        _ = await run("approve", "spring", "--yes", environment: office.ben)
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            SELECT repricer.halt_batch(batch_id, '2026-01-05T00:00:00Z', '4000999', 'refused with 4000999', NULL,
                '2026-01-05T00:01:00Z') FROM repricer.batches;
            """)

        let paused = await run("pause", "spring", "--reason", "ask legal", environment: office.ben)
        let json = await run("status", "spring", "--json", environment: office.ana)
        let text = await run("status", "spring", environment: office.ana)
        let recovered = try await connection.query(
            "SELECT repricer.recover_batch(batch_id, '2026-01-05T00:02:00Z') AS answer FROM repricer.batches"
        ).one().bool("answer")
        let again = await run("pause", "spring", "--json", environment: office.ana)
        let still = await run("status", "spring", environment: office.ana)
        _ = await run("resume", "spring", environment: office.ana)
        let after = await run("status", "spring", "--json", environment: office.ana)
        await connection.close()

        let ben = TestDatabase.loginName("ben")
        #expect(
            paused.output.hasPrefix("spring is halted since 2026-01-05T00:00:00Z"),
            "\(paused.output)")
        for said in [text, still] {
            let halted =
                said.output.split(separator: "\n").first { $0.contains("halted since") } ?? ""
            #expect(halted.contains(": refused with 4000999; also paused since "), "\(said.output)")
            #expect(halted.contains(" by \(ben): ask legal"), "\(said.output)")
            #expect(!halted.contains("asks at"), "\(said.output)")
        }
        #expect(json.output.contains(#""reason":"refused with 4000999","halted_by":"4000999","#))
        #expect(json.output.contains(#""also_paused":{"by":"\#(ben)","at":""#), "\(json.output)")
        #expect(!recovered)
        #expect(again.output.contains(#""paused":true,"changed":false"#), "\(again.output)")
        #expect(after.output.contains(#""pause":null"#), "\(after.output)")
    }

    /// Who paused first, when and why stays told, and nobody's reason is told as somebody else's.
    @Test func pause_ofWhatIsPausedAlready_keepsWhoAndWhy_andSaysSo() async throws {
        let office = try await Office()
        _ = await office.submit()
        let (ana, ben) = (TestDatabase.loginName("ana"), TestDatabase.loginName("ben"))

        for subject in ["spring", "--all"] {
            let first = await run(
                "pause", subject, "--reason", "incident 7", "--json", environment: office.ben)
            let again = await run("pause", subject, environment: office.ana)
            let json = await run(
                "pause", subject, "--reason", "prices", "--json", environment: office.ana)
            let more = await run(
                "pause", subject, "--reason", "incident 8", "--json", environment: office.ben)
            let text = await run("status", "spring", environment: office.ana)

            #expect(first.output.contains(#""changed":true"#), "\(first.output)")
            let name = subject == "spring" ? "spring" : "everything"
            #expect(again.output.hasPrefix("\(name) is paused already since "), "\(again.output)")
            #expect(again.output.hasSuffix(" by \(ben): incident 7\n"), "\(again.output)")
            #expect(json.output.contains(#""changed":false"#), "\(json.output)")
            #expect(more.output.contains(#""changed":true"#), "\(more.output)")
            #expect(text.output.contains(" by \(ben): incident 8"), "\(text.output)")
        }
        for subject in ["spring", "--all"] {
            _ = await run("resume", subject, environment: office.ana)
            _ = await run("pause", subject, environment: office.ben)
            let reason = await run(
                "pause", subject, "--reason", "prices", environment: office.ana)
            #expect(reason.output.hasSuffix(" by \(ben): \(ana): prices\n"), "\(reason.output)")
        }
    }

    @Test func numbersOfAStatusAndAQuestion_areWrittenAsPeopleWriteThem() async throws {
        let office = try await Office()
        _ = await office.submit()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            INSERT INTO repricer.batch_rejects (batch_id, line, original_transaction_id, sku, code, message)
            SELECT batch_id, 100 + n, n::text, 'PLAN', 'unknown_item', 'm' FROM repricer.batches, generate_series(1, 1234) n;
            UPDATE repricer.batches SET row_count = 2000000;
            """)
        await connection.close()

        let status = await run("status", "spring", environment: office.ana)
        let asked = await run("approve", "spring", environment: office.ben) {
            $0.isInputTerminal = true
            $0.readAnswer = { "n" }
        }

        #expect(status.output.contains(/refused rows +1,234\n/), "\(status.output)")
        #expect(
            asked.messages.contains("approve these 2,000,000 changes of spring?"),
            "\(asked.messages)")
    }

    /// Increases that are only announced must leave by 5 January, which is now: each call after the first is late.
    @Test func lateRows_withOtherOpenBatches_areToldByPlanSubmitApproveAndStatus() async throws {
        let office = try await Office()
        let header = "original_transaction_id,sku,price,currency\n"
        let other = try office.scratch.file(
            "other.csv", header + "2000000000000003,PLAN,12.99,USD\n")
        let mine = try office.scratch.file(
            "mine.csv",
            header + "2000000000000001,PLAN,12.99,USD\n2000000000000002,PLAN,12.99,GBP\n")
        let alone = await run("plan", mine, "--json", environment: office.ana)
        // Rows due at one time are called in the order in which they were submitted.
        _ = await run("submit", other, "--name", "other", environment: office.ana) {
            $0.realClock = ManualClock(1_767_571_140_000)
        }
        _ = await run("approve", "other", "--yes", environment: office.ben)

        let plan = await run("plan", mine, environment: office.ana)
        let submitted = await run("submit", mine, "--name", "mine", environment: office.ana)
        let again = await run("submit", mine, "--name", "mine", "--json", environment: office.ana)
        let approved = await run("approve", "mine", "--yes", environment: office.ben)
        let status = await run("status", "mine", environment: office.ana)
        let json = await run("status", "mine", "--json", environment: office.ana)
        let all = await run("status", environment: office.ana)

        let warning =
            "2 rows would miss their renewal at the allowed rate, other open batches counted"
        #expect(alone.output.contains(#""late_row_count":1,"#))
        #expect(plan.code == .done)
        #expect(
            plan.output.contains(
                "late: 2 rows would miss their renewal; "))
        #expect(plan.output.contains("batches counted\n"))
        #expect(submitted.code == .done)
        #expect(submitted.messages.contains("late: \(warning)\n"), "\(submitted.messages)")
        #expect(again.output.contains(#""late_rows":2"#))
        #expect(approved.messages.contains("late: \(warning)\n"), "\(approved.messages)")
        #expect(status.output.contains(warning))
        #expect(json.output.contains(#""late_rows":2,"#))
        #expect(all.output.contains("\(warning): 2 of batch mine"), "\(all.output)")
    }

    @Test func status_ofRowsThatMovedParkedOrDrifted_saysSo() async throws {
        let office = try await Office()
        _ = await office.submit("--halt-if", "moved>5%")
        _ = await run("approve", "spring", "--yes", environment: office.ben)
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            UPDATE repricer.price_changes SET due_effective_at = '2026-03-01Z' WHERE line = 2;
            UPDATE repricer.price_changes SET parked_reason = '4000001 X', is_ready = false,
                send_by = '2026-01-04Z' WHERE line = 3;
            UPDATE repricer.price_changes SET state = 'ineligible', reason = 'drifted',
                ended_at = '2026-01-05Z' WHERE line = 4;
            """)
        let reported = try await connection.query(
            "SELECT sum(renewals_moved)::bigint AS moved FROM report.forecast_accuracy"
        ).one().int64("moved")
        await connection.close()

        let text = await run("status", "spring", environment: office.ana)
        let json = await run("status", "spring", "--json", environment: office.ana)
        let all = await run("status", environment: office.ana)

        for line in [
            "1 row takes effect at a later renewal than was approved",
            "1 row is not sent, and the planned renewal can't be made any more",
            "1 row waits alone after a refusal",
            "1 row ended unsent, since the facts had changed",
        ] {
            #expect(text.output.contains(line), "\(text.output)")
            #expect(all.output.contains(line), "\(all.output)")
        }
        #expect(
            text.output.contains(
                "2000000000000001  PLAN  queued  2026-02-01T00:00:00Z  2026-03-01T00:00:00Z\n"),
            "\(text.output)")
        #expect(text.output.contains("moved>5%    1   2  now"), "\(text.output)")
        #expect(
            json.output.contains(
                #""moved_rows":1,"moved":[{"original_transaction_id":"2000000000000001","sku":"PLAN""#
            ))
        #expect(
            json.output.contains(
                #""overdue_rows":1,"late_rows":0,"parked_rows":1,"drifted_rows":1,"#),
            "\(json.output)")
        #expect(reported == 1)
    }

    /// A row is overdue or late, and never both: status, show and the approval page count the same. What is held out, or
    /// was sent in time and waits for its answer, is neither.
    @Test func overdueRows_areCountedAlike_andNotAsLate() async throws {
        let office = try await Office()
        _ = await office.submit()
        _ = await run("approve", "spring", "--yes", environment: office.ben)
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            UPDATE repricer.price_changes SET send_by = '2026-01-04Z' WHERE line IN (2, 3);
            UPDATE repricer.price_changes SET state = 'sending', request_reference_id = gen_random_uuid(),
                sent_at = '2026-01-04Z' WHERE line = 3;
            """)

        let before = await run("status", "spring", "--json", environment: office.ana)
        let show = await run("show", "spring", "--json", environment: office.ana)
        try await connection.script(
            "UPDATE repricer.price_changes SET is_held_out = true, state = 'queued' WHERE line = 2")
        let heldOut = await run("status", "spring", "--json", environment: office.ana)
        let showHeldOut = await run("show", "spring", "--json", environment: office.ana)
        await connection.close()

        #expect(before.output.contains(#""overdue_rows":1,"late_rows":0,"#), "\(before.output)")
        #expect(show.output.contains(#""unsent":2,"#), "\(show.output)")
        #expect(show.output.contains(#""overdue":1,"#), "\(show.output)")
        #expect(heldOut.output.contains(#""overdue_rows":0,"late_rows":0,"#), "\(heldOut.output)")
        #expect(showHeldOut.output.contains(#""overdue":0,"#), "\(showHeldOut.output)")
    }

    /// One call carries what goes at the same time, and a row that is held for a later renewal goes by itself.
    @Test func rowsOfOneSubscriptionAtTwoInstants_areTwoCalls_andNoneIsLate() async throws {
        let office = try await Office()
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            UPDATE repricer.subscriptions SET items = items
                || '[{"sku":"MORE","currentPrice":4990,"renewalPrice":4990,"renews":true}]'
            """)
        await connection.close()
        let file = try office.scratch.file(
            "two.csv",
            """
            original_transaction_id,sku,price,currency,effective_on_or_after
            2000000000000001,PLAN,8.99,USD,
            2000000000000001,MORE,3.99,USD,2026-04-01

            """)
        let submitted = await run(
            "submit", file, "--name", "two", "--grouping", "subscription", environment: office.ana)

        let show = await run("show", "two", "--json", environment: office.ana)
        let status = await run("status", "two", "--json", environment: office.ana)

        #expect(submitted.code == .done, "\(submitted.messages)")
        #expect(show.output.contains(#""warnings":[]"#), "\(show.output)")
        #expect(status.output.contains(#""late_rows":0,"#), "\(status.output)")
    }

    @Test func status_ofAWaveThatWaitsPastItsDates_saysForWhat() async throws {
        let office = try await Office()
        let batchID = await office.submit("--waves", "USA,GBR,rest").output
            .trimmingCharacters(in: .whitespacesAndNewlines)
        _ = await run("approve", "spring", "--yes", environment: office.ben)

        let text = await run("status", "spring", environment: office.ana)
        let json = await run("status", "--json", environment: office.ana)

        #expect(
            text.output.contains(
                "wave 2 (GBR) waits for `repricer release \(batchID)`; 1 row must be sent within a day, the first by 2026-01-05T00:00:00Z"
            ), "\(text.output)")
        #expect(
            json.output.contains(
                "\"wave\":2,\"label\":\"GBR\",\"waits_for\":\"`repricer release \(batchID)`\",\"due_rows\":1,"
            ))
    }
}

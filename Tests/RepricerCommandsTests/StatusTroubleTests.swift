import Batches
import Postgres
import Reports
import TestSupport
import Testing

@testable import RepricerCommands

/// What stands still is said by `status` of another process than `serve`: what, since when, why, and when it goes on.
@Suite(.database) struct StatusTroubleTests {
    private static func office() async throws -> (ana: [String: String], PostgresConnection) {
        let url = try await TestDatabase.login("ana", memberOf: ["repricer_pricing"])
        return (
            ["REPRICER_DATABASE_URL": url, "REPRICER_ENVIRONMENT": "Production"],
            try await TestDatabase.connect()
        )
    }

    private static let batch = "6d9b7c1e-0000-4000-8000-000000000001"

    /// A batch of one row a reason, of subscriptions "1", "2" …
    private static func parked(
        _ reasons: [String], _ owner: PostgresConnection
    ) async throws {
        try await owner.script(
            """
            INSERT INTO repricer.batches (batch_id, name, state, content_sha256, plan_hash, planned_as_of, row_count,
                submitted_at, grouping, submitted_by, decided_by, decided_at)
            VALUES ('\(batch)', 'spring', 'approved', 'x', 'y', '2026-01-01Z', \(reasons.count), '2026-01-01Z',
                'announced', 'ana', 'ben', '2026-01-01Z')
            """)
        for (number, reason) in reasons.enumerated() {
            let id = "\(number + 1)"
            let isUnknown = reason.hasPrefix("no answer")
            try await owner.script(
                """
                INSERT INTO repricer.subscriptions (original_transaction_id, bucket)
                VALUES ('\(id)', repricer.bucket_of('\(id)'));
                INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, submitted_by,
                    line, sku, direction, currency, storefront, period, current_price_milliunits,
                    new_price_milliunits, forecast_consent, forecast_renewal_at, forecast_effective_at, send_by,
                    due_effective_at, state_since, state, parked_reason, next_attempt_at)
                VALUES ('\(id)', repricer.bucket_of('\(id)'), gen_random_uuid(), '\(batch)', 'ana', \(number + 2), 'A',
                    'increase', 'USD', 'USA', 'P1M', 9990, 10990, 'required', '2026-02-01Z', '2026-02-01Z', '2026-01-20Z',
                    '2026-02-01Z', '2026-01-01Z', 'queued', '\(reason)', '2026-01-02T00:00:0\(number)Z')
                """)
            guard isUnknown else { continue }
            try await owner.script(
                """
                UPDATE repricer.price_changes SET state = 'unknown', next_attempt_at = NULL, sent_at = '2026-01-01Z',
                    request_reference_id = '\(batch)' WHERE original_transaction_id = '\(id)';
                INSERT INTO repricer.store_calls (bucket, subject, call_id, kind, carries, intent, state, lease_owner,
                    lease_until, in_flight_until, prepared_at, next_attempt_at)
                SELECT bucket, '\(id)', '\(batch)', 'price_change', ARRAY[change_id], '{}', 'unknown',
                    gen_random_uuid(), now(), now(), now(), '2026-01-02T00:00:0\(number)Z'
                FROM repricer.price_changes WHERE original_transaction_id = '\(id)'
                """)
        }
    }

    /// What moved in a batch that is over is news no more, and is told where that batch is asked for.
    @Test func status_ofAll_tellsWhatMovedInOpenBatchesAlone() async throws {
        let (ana, owner) = try await Self.office()
        try await Self.parked(["403 Forbidden"], owner)
        try await owner.script(
            """
            UPDATE repricer.price_changes SET parked_reason = NULL, planned_effective_at = '2026-03-01Z'
            """)
        let open = await run("status", environment: ana)
        try await owner.script(
            """
            UPDATE repricer.price_changes SET state = 'effective', effective_at = '2026-03-01Z', ended_at = '2026-03-01Z',
                sent_at = '2026-01-01Z', scheduled_at = '2026-01-01Z', next_attempt_at = NULL
            """)
        await owner.close()
        let over = await run("status", environment: ana)
        let own = await run("status", "spring", environment: ana)

        #expect(open.output.contains("moved"), "\(open.output)")
        #expect(!over.output.contains("moved"), "\(over.output)")
        #expect(own.output.contains("were moved"), "\(own.output)")
    }

    /// What ended unsent is told for a day after its batch is over, as the runbook says, and then where it is asked for.
    @Test func unsentRows_ofABatchThatIsOver_areToldForADay() async throws {
        let (_, owner) = try await Self.office()
        try await Self.parked(["403 Forbidden", "403 Forbidden"], owner)
        try await owner.script(
            """
            UPDATE repricer.price_changes SET parked_reason = NULL, next_attempt_at = NULL, state_since = '2026-01-05Z',
                ended_at = '2026-01-05Z', state = CASE original_transaction_id WHEN '1' THEN 'missed' ELSE 'ineligible' END,
                reason = CASE original_transaction_id WHEN '1' THEN 'missed' ELSE 'drifted' END
            """)
        func told(_ batchID: String?, days: Int64) async throws -> [Int64] {
            let trouble = try await StatusQueries.tally(
                batchID: batchID, now: 1_767_571_200_000 + days * 86_400_000, on: owner
            ).outlook.trouble
            return [trouble.missed, trouble.drifted]
        }

        #expect(try await told(nil, days: 1) == [1, 1])
        #expect(try await told(nil, days: 2) == [0, 0])
        #expect(try await told(Self.batch, days: 2) == [1, 1])
        await owner.close()
    }

    /// What Apple has is delivered, although nothing is final for weeks; and a batch that stands still says so.
    @Test func watch_onATerminal_showsDeliveryAndWhatStandsStill() async throws {
        let (ana, owner) = try await Self.office()
        try await Self.parked(["403 Forbidden", "403 Forbidden"], owner)
        try await owner.script(
            """
            UPDATE repricer.price_changes SET state = 'scheduled', parked_reason = NULL, next_attempt_at = NULL,
                sent_at = '2026-01-01Z', scheduled_at = '2026-01-01Z' WHERE original_transaction_id = '1'
            """)
        await owner.close()
        let why = "too many complaints on the phone since this morning, says the support"
        _ = await run("pause", "spring", "--reason", why, environment: ana)
        let (signals, continuation) = AsyncStream.makeStream(of: Int32.self)
        let drawn = OutputMemory()

        let outcome = await run("status", "spring", "--watch", environment: ana) {
            $0.isMessagesTerminal = true
            $0.terminalSize = { (60, 24) }
            $0.terminations = { signals }
            $0.messages = OutputSink { bytes throws(OutputError) in
                try drawn.sink.write(String(decoding: bytes, as: UTF8.self))
                // Somebody who has seen enough.
                continuation.yield(2)
            }
        }

        #expect(outcome.code == .interrupted)
        let lines = drawn.text.split { "\n\r".contains($0) }.map {
            $0.replacing("\u{1B}[J", with: "")
        }
        #expect(lines.allSatisfy { $0.count < 60 }, "\(lines)")
        #expect(lines.contains { $0.hasSuffix(" 50 %  1 of 2 delivered") }, "\(lines)")
        #expect(lines.contains { $0.hasSuffix("  0 %  0 of 2 final") })
        let said = lines.joined(separator: " ")
        #expect(said.contains("PAUSED: this batch since ") && said.contains(why), "\(lines)")
    }

    /// Who reads lines, or gives them to a program, must hear of a batch that stops, although no row moves with it.
    @Test(arguments: [["spring"], ["spring", "--json"], []])
    func watch_elsewhere_tellsAPause(words: [String]) async throws {
        let (ana, owner) = try await Self.office()
        try await Self.parked(["403 Forbidden"], owner)
        await owner.close()
        let (signals, continuation) = AsyncStream.makeStream(of: Int32.self)
        let said = OutputMemory()
        let lines = { said.text.split(separator: "\n") }

        async let ended = run(["status"] + words + ["--watch"], environment: ana) {
            $0.terminations = { signals }
            ($0.output, $0.messages) = (said.sink, said.sink)
        }
        do {
            try await eventually("a first line") { lines().count == 1 }
            _ = await run("pause", "spring", "--reason", "complaints", environment: ana)
            try await eventually("a line of the pause") { lines().count == 2 }
        } catch {
            Issue.record(error)
        }
        continuation.yield(2)

        #expect(await ended.code == .interrupted)
        let last = lines().last ?? ""
        #expect(last.contains("complaints"), "\(last)")
    }

    /// A count that ticks is no change, and would print a line a second.
    @Test func standing_isOfStates_andOfWhatStops_butOfNoCountOrInstant() async throws {
        let (_, owner) = try await Self.office()
        try await Self.parked(["403 Forbidden", "403 Forbidden"], owner)
        let pool = PostgresPool(conninfo: TestDatabase.url, applicationName: "test", size: 1)
        func read() async throws -> StatusFacts.Standing {
            try await StatusFacts.read(
                batchID: Self.batch, now: 1_767_571_200_000, silentAfter: .seconds(86_400),
                rate: nil,
                pool: pool
            ).standing
        }

        let first = try await read()
        // One of two is tried again, and is parked no more.
        try await owner.script(
            "UPDATE repricer.price_changes SET parked_reason = NULL WHERE original_transaction_id = '1'"
        )
        let counted = try await read()
        try await owner.script(
            """
            SELECT repricer.throttle_kind('price_change', '2026-01-01T10:00:00Z', '2026-01-01T10:00:01Z', '500 first')
            """)
        let throttled = try await read()
        try await owner.script(
            """
            SELECT repricer.throttle_kind('price_change', '2026-01-01T10:00:01Z', '2026-01-01T10:01:00Z', '503 last')
            """)
        let again = try await read()
        await owner.close()
        await pool.close()

        #expect(counted == first)
        #expect(throttled != counted)
        #expect(again == throttled)
    }

    /// Who chains the next command behind it does not want to press q.
    @Test func watch_endsByItself_withoutThePager() async throws {
        let (ana, owner) = try await Self.office()
        try await Self.parked(["403 Forbidden"], owner)
        // Nothing is left to watch.
        try await owner.script("DELETE FROM repricer.price_changes")
        await owner.close()
        let paged = OutputMemory()

        let outcome = await run("status", "spring", "--watch", environment: ana) {
            ($0.isOutputTerminal, $0.isMessagesTerminal) = (true, true)
            $0.terminalSize = { (80, 10) }
            $0.page = { _, text in
                try? paged.sink.write(text)
                return true
            }
        }

        #expect(outcome.code == .done, "\(outcome.messages)")
        #expect(paged.text.isEmpty)
        #expect(outcome.output.contains("\nstate "), "\(outcome.output)")
    }

    /// What needs a person is red or yellow there, as it is in a table.
    @Test(arguments: [("always", true), ("never", false)])
    func watch_isColouredAsTablesAre(_ when: String, _ isColoured: Bool) async throws {
        let (ana, owner) = try await Self.office()
        try await Self.parked(["403 Forbidden"], owner)
        await owner.close()
        let (signals, continuation) = AsyncStream.makeStream(of: Int32.self)
        let drawn = OutputMemory()

        _ = await run(["status", "spring", "--watch", "--color", when], environment: ana) {
            $0.isMessagesTerminal = true
            $0.terminations = { signals }
            $0.messages = OutputSink { bytes throws(OutputError) in
                try drawn.sink.write(String(decoding: bytes, as: UTF8.self))
                continuation.yield(2)
            }
        }

        #expect(drawn.text.contains("\u{1B}[33mparked\u{1B}[0m: 1 row waits") == isColoured)
        #expect(drawn.text.contains("parked: 1 row waits") == !isColoured, "\(drawn.text)")
    }

    /// Two windows side by side are told apart, and one that stands still from one that reads on.
    @Test(arguments: ["spring", ""])
    func watch_onATerminal_namesTheBatch_theInstant_andWhatAwaitsApproval(
        name: String
    ) async throws {
        let (ana, owner) = try await Self.office()
        try await Self.parked(["403 Forbidden"], owner)
        try await owner.script(
            """
            UPDATE repricer.price_changes SET state = 'awaiting_approval', parked_reason = NULL, next_attempt_at = NULL;
            UPDATE repricer.batches SET state = 'awaiting_approval', decided_by = NULL, decided_at = NULL
            """)
        await owner.close()
        let (signals, continuation) = AsyncStream.makeStream(of: Int32.self)
        let drawn = OutputMemory()

        let words = ["status"] + (name.isEmpty ? [] : [name]) + ["--watch"]
        let outcome = await run(words, environment: ana) {
            $0.isMessagesTerminal = true
            $0.terminations = { signals }
            $0.messages = OutputSink { bytes throws(OutputError) in
                try drawn.sink.write(String(decoding: bytes, as: UTF8.self))
                continuation.yield(2)
            }
        }

        #expect(outcome.code == .interrupted)
        let lines = drawn.text.split { "\n\r".contains($0) }.map {
            $0.replacing("\u{1B}[J", with: "")
        }
        let head = name.isEmpty ? "all batches" : "batch spring"
        #expect(lines.contains("\(head), 2026-01-05T00:00:00Z"), "\(lines)")
        let what = name.isEmpty ? "batch spring" : "this batch"
        #expect(
            try lines.joined(separator: " ").contains(
                Regex("APPROVE: \(what): 1 row waits for approval, `repricer approve [0-9a-f]{8}`")),
            "\(lines)")
    }

    /// What is overdue can't be sent within a day any more.
    @Test(arguments: [
        (3, 0, "3 rows must be sent within a day, the first by 2026-01-05T00:00:00Z"),
        (1, 1, "1 row is overdue, the first since 2026-01-05T00:00:00Z"),
        (
            59, 12,
            "12 rows are overdue, the first since 2026-01-05T00:00:00Z, and 47 rows must be sent within a day"
        ),
    ])
    func waitingWave_tellsApart_whatIsOverdue(due: Int64, overdue: Int64, words: String) {
        let said = waveDueWords(due: due, overdue: overdue)

        #expect(said.before + "2026-01-05T00:00:00Z" + said.after == words)
    }

    /// Every reason for which a row waits by itself.
    @Test func parkedRows_areNamedWithSubscriptionCodeAndNextTry() async throws {
        let (ana, owner) = try await Self.office()
        let reasons = [
            "4010000 UnauthorizedError", "403 Forbidden", "4000173 InvalidRequest",
            "4040010 TransactionIdNotFoundError", "4000134 PriceNotFound",
            "4000082 InvalidConsistencyTokenError", "4000999 code_4000999",
            "its status could not be read by recover", "no answer: 500",
        ]
        try await Self.parked(reasons, owner)

        let text = await run("status", "spring", environment: ana)
        let json = await run("status", "spring", "--json", environment: ana)
        await owner.close()

        for (number, reason) in reasons.enumerated() {
            let line = text.output.split(separator: "\n").first { $0.contains(reason) } ?? ""
            #expect(line.hasPrefix("\(number + 1) "), "\(reason)")
            #expect(line.contains("parked") && line.contains("2026-01-02T00:00:0\(number)"))
            #expect(
                json.output.contains(
                    #""original_transaction_id":"\#(number + 1)","sku":"A","state":"parked","reason":"\#(reason)","next_attempt_at":"2026-01-02T00:00:0\#(number)"#
                ), "\(reason)")
        }
        #expect(text.output.contains("9 rows wait alone"))
        #expect(json.output.contains(#""parked_rows":9"#))
    }

    /// Who looks without knowing the batch finds all that stands still.
    @Test func statusOfAll_namesWhatIsParked_halted_andBlocked() async throws {
        let (ana, owner) = try await Self.office()
        try await Self.parked(["4000999 code_4000999", "no answer: 500"], owner)
        try await owner.script(
            """
            SELECT repricer.halt_storefront('\(Self.batch)', 'CAN', '2026-01-01T11:00:00Z', '4000134', 'no price',
                '2026-01-01T11:01:00Z');
            UPDATE repricer.batches SET halted_storefronts = jsonb_set(halted_storefronts, '{CAN,answer}', '"4000134 X for 8"');
            SELECT repricer.halt_batch('\(Self.batch)', '2026-01-01T12:00:00Z', '4000999', 'refused with 4000999', NULL,
                '2026-01-01T12:01:00Z');
            SELECT repricer.note_unclaimed('2026-01-01T13:00:00Z', 'pid 7 of eve (psql)')
            """)

        let text = await run("status", environment: ana)
        let json = await run("status", "--json", environment: ana)
        try await owner.script(
            """
            UPDATE repricer.batches SET halted_storefronts = jsonb_set(halted_storefronts, '{CAN,answer}', '"no answer for 9"')
            """)
        let unanswered = await run("status", environment: ana)
        try await owner.script(
            "SELECT repricer.note_unclaimed('2026-01-01T13:00:00Z', 'pid 8 of ana (psql)', false)")
        let partly = await run("status", environment: ana)
        try await owner.script("SELECT repricer.note_unclaimed(NULL, NULL)")
        let after = await run("status", environment: ana)
        await owner.close()

        let lines = text.output.split(separator: "\n")
        func line(_ part: String) -> Substring { lines.first { $0.contains(part) } ?? "" }
        #expect(line("BLOCKED").contains("2026-01-01T13:00:00"))
        #expect(line("BLOCKED").contains("pid 7 of eve (psql)"))
        #expect(partly.output.contains("held since 2026-01-01T13:00:00"))
        #expect(partly.output.contains("by pid 8 of ana (psql); what concerns them waits"))
        #expect(line("batch spring since 2026-01-01T12:00:00").contains("refused with 4000999"))
        #expect(line("CAN of batch spring").contains("was refused with 4000134 X for 8"))
        #expect(unanswered.output.contains("the latest row that asked got no answer for 9;"))
        #expect(line("CAN of batch spring").contains("asks at 2026-01-01T11:01:00"))
        #expect(line("4000999 code_4000999").hasPrefix("1 "))
        #expect(line("4000999 code_4000999").contains("2026-01-01T00:00:00"))
        #expect(line("no answer: 500").hasPrefix("2 "))
        #expect(json.output.contains(#""due_unclaimed_since":"2026-01-01T13:00:00"#))
        #expect(json.output.contains(#""since":"2026-01-01T00:00:00Z","batch":"spring""#))
        #expect(!after.output.contains("BLOCKED"))
    }

    @Test func breaker_isSaid_withItsBeginningItsLastAnswerAndTheNextCall() async throws {
        let (ana, owner) = try await Self.office()
        try await owner.script(
            """
            SELECT repricer.throttle_kind('price_change', '2026-01-01T10:00:00Z', '2026-01-01T10:00:01Z', '500 first');
            SELECT repricer.throttle_kind('price_change', '2026-01-01T10:00:01Z', '2026-01-01T10:01:00Z', '503 last')
            """)

        let text = await run("status", environment: ana)
        let json = await run("status", "--json", environment: ana)
        try await owner.script("SELECT repricer.end_throttle('price_change')")
        let after = await run("status", environment: ana)
        await owner.close()

        let line = text.output.split(separator: "\n").first ?? ""
        #expect(line.hasPrefix("THROTTLED"))
        for word in [
            "price changes since 2026-01-01T10:00:00", "503 last", "2026-01-01T10:01:00",
        ] { #expect(line.contains(word)) }
        #expect(
            json.output.contains(
                #""throttled_kinds":[{"kind":"price_change","since":"2026-01-01T10:00:00"#))
        #expect(!after.output.contains("THROTTLED"))
    }

    /// What nobody has seen for minutes is told no more: the process that saw it may be dead.
    @Test func callsThatCannotLeave_areSaid_withTheLatestTryAndWhy_whileItIsSeen() async throws {
        let (ana, owner) = try await Self.office()
        try await owner.script(
            """
            SELECT repricer.note_unreached('price_change', '2026-01-01T10:00:00Z', 'connection reset');
            SELECT repricer.note_unreached('price_change', '2026-01-01T10:01:00Z', 'connection refused')
            """)

        let text = await run("status", environment: ana)
        let json = await run("status", "--json", environment: ana)
        try await owner.script(
            """
            UPDATE repricer.service_controls SET unreached_kinds = jsonb_set(unreached_kinds, '{price_change,seen}',
                to_jsonb(clock_timestamp() - interval '4 minutes'))
            """)
        let later = await run("status", environment: ana)
        try await owner.script(
            "SELECT repricer.note_unreached('price_change', '2026-01-01T11:00:00Z', 'no route')")
        let again = await run("status", environment: ana)
        try await owner.script("SELECT repricer.end_unreached('price_change')")
        let after = await run("status", environment: ana)
        await owner.close()

        let line = text.output.split(separator: "\n").first ?? ""
        #expect(line.hasPrefix("UNREACHABLE"))
        for word in [
            "price changes since 2026-01-01T10:00:00", "the latest try was at 2026-01-01T10:01:00",
            "connection refused",
        ] { #expect(line.contains(word)) }
        #expect(
            json.output.contains(
                #""unreached_kinds":[{"kind":"price_change","since":"2026-01-01T10:00:00"#))
        #expect(again.output.contains("price changes since 2026-01-01T11:00:00"))
        for outcome in [later, after] { #expect(!outcome.output.contains("UNREACHABLE")) }
    }

    @Test func halts_areSaid_withTheLatestAnswerAndTheNextProbe() async throws {
        let (ana, owner) = try await Self.office()
        try await Self.parked(["4000999 code_4000999"], owner)
        try await owner.script(
            """
            SELECT repricer.halt_service('2026-01-01T10:00:00Z', '4010000 UnauthorizedError: refused alike');
            SELECT repricer.note_halt_answer(NULL, '4030010 X for 7');
            SELECT repricer.halt_kind('extension', '2026-01-01T11:00:00Z', '4030005 Y: refused alike');
            SELECT repricer.note_halt_answer('extension', '4030006 Z for 8');
            SELECT repricer.halt_batch('\(Self.batch)', '2026-01-01T12:00:00Z', '4000999', 'refused with 4000999', NULL,
                '2026-01-01T12:01:00Z');
            SELECT repricer.note_probe_answer('\(Self.batch)', '4030010 X for 9')
            """)

        let text = await run("status", "spring", environment: ana)
        let json = await run("status", "spring", "--json", environment: ana)
        try await owner.script(
            """
            SELECT repricer.recover_service('2026-01-01T13:00:00Z');
            SELECT repricer.recover_kind('extension', '2026-01-01T13:00:00Z');
            SELECT repricer.recover_batch('\(Self.batch)', '2026-01-01T13:00:00Z')
            """)
        let after = await run("status", "spring", environment: ana)
        await owner.close()

        let lines = text.output.split(separator: "\n")
        func line(_ part: String) -> Substring { lines.first { $0.contains(part) } ?? "" }
        #expect(line("everything since").contains("was refused with 4030010 X for 7"))
        #expect(line("extensions since").contains("4030005 Y: refused alike"))
        #expect(line("extensions since").contains("was refused with 4030006 Z for 8"))
        #expect(line("halted since").contains("was refused with 4030010 X for 9"))
        #expect(line("halted since").contains("asks at 2026-01-01T12:01:00"))
        for part in [
            "; 1 row was refused or not sent any more, and waits",
            "`repricer resume \(Self.batch.prefix(8))`",
            "`repricer abort \(Self.batch.prefix(8))`",
        ] { #expect(line("halted since").contains(part)) }
        #expect(json.output.contains(#""put_back_rows":1"#))
        #expect(
            json.output.contains(#""halted_kinds":[{"kind":"extension","at":"2026-01-01T11:00:00"#))
        #expect(json.output.contains(#""probe_answer":"4030010 X for 9""#))
        #expect(!after.output.contains("HALTED") && !after.output.contains("paused"))
    }
}

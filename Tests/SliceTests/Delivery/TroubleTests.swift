import Batches
import Facts
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import Pricing

/// Rows that come later than was approved, or wait past their dates: somebody is told.
@Suite(.database) struct TroubleTests {
    private typealias Harness = DeliveryHarness

    private static func watch(
        _ harness: Harness, _ lines: LogLines, _ metrics: Metrics = Metrics()
    ) -> BatchWatch {
        BatchWatch(
            pool: harness.service, clock: harness.clock, realClock: harness.realClock,
            log: lines.log(.warning), metrics: metrics)
    }

    private static func rows(_ harness: Harness, _ count: Int) async throws -> [BatchRow] {
        var rows: [BatchRow] = []
        for number in 1...count {
            try await harness.subscribe("\(number)")
            rows.append(Harness.row("\(number)", line: number + 1))
        }
        return rows
    }

    /// The subscriptions renew in 40 days: an announced increase sent after day 13 takes effect a month later.
    @Test func renewals_thatWereMissed_areOneLineABatchAndAFigure() async throws {
        let harness = try await Harness.make()
        let batchID = try await harness.submitAndApprove(try await Self.rows(harness, 4))
        let (lines, metrics) = (LogLines(), Metrics())
        let watch = Self.watch(harness, lines, metrics)
        try await watch.round()
        #expect(lines.about("rows need attention").isEmpty)

        harness.clock.advance(by: .seconds(20 * 86_400))
        harness.realClock.advance(by: .seconds(300))
        try await watch.round()
        try await harness.deliver(harness.scheduler())
        harness.realClock.advance(by: .seconds(300))
        try await watch.round()
        harness.realClock.advance(by: .seconds(300))
        try await watch.round()

        let told = lines.about("rows need attention")
        #expect(told.count == 2, "\(told)")
        #expect(told.first?.contains("moved=0 overdue=4") == true, "\(told)")
        #expect(told.last?.contains("moved=4 overdue=0") == true, "\(told)")
        #expect(told.last?.contains("batch=\(batchID)") == true)
        #expect(metrics.render().contains("repricer_changes_moved 4"))
        // What ended without taking effect is at no later renewal.
        try await harness.write(
            "UPDATE repricer.price_changes SET state = 'ineligible', reason = 'drifted', ended_at = '2026-04-01Z' WHERE original_transaction_id = '1'"
        )
        harness.realClock.advance(by: .seconds(300))
        try await watch.round()
        #expect(metrics.render().contains("repricer_changes_moved 3"))
        await harness.close()
    }

    @Test func guard_whenTooManyRenewalsWereMissed_haltsTheBatch() async throws {
        let harness = try await Harness.make()
        let rows = try await Self.rows(harness, 12)
        let guards = try GuardRail.list("moved>20%/5")
        try await harness.submitAndApprove(rows, terms: BatchTerms(guards: guards))
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.price_changes SET state = 'scheduled', sent_at = '2026-03-01Z',
                request_reference_id = gen_random_uuid(),
                due_effective_at = due_effective_at + interval '1 month',
                -- An offer moved one after its call, which was in time.
                planned_effective_at = CASE line WHEN 2 THEN due_effective_at END
            WHERE line BETWEEN 2 AND 5
            """)
        let watch = Self.watch(harness, LogLines())

        try await watch.round()

        let text = try await owner.query("SELECT paused_reason FROM repricer.batches").one()
            .textOrNil("paused_reason")
        #expect(text == "moved>20%/5: 3 of 12")
        await owner.close()
        await harness.close()
    }

    /// Rows of waves to come can't have missed a renewal, so they say nothing of the first wave.
    @Test func guardOfMovedRows_ofTheFirstWave_isNotDilutedByWavesToCome() async throws {
        let harness = try await Harness.make()
        let rows = try await Self.rows(harness, 40)
        try await harness.submitAndApprove(
            rows,
            terms: BatchTerms(
                waves: try WavePlan("20%,rest"), guards: try GuardRail.list("moved>20%/5")))
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.price_changes SET wave = CASE WHEN line <= 9 THEN 1 ELSE 2 END;
            UPDATE repricer.price_changes SET state = 'scheduled', sent_at = '2026-03-01Z',
                request_reference_id = gen_random_uuid(),
                due_effective_at = due_effective_at + interval '1 month'
            WHERE line <= 7
            """)

        try await Self.watch(harness, LogLines()).round()

        let text = try await owner.query("SELECT paused_reason FROM repricer.batches").one()
            .textOrNil("paused_reason")
        #expect(text == "moved>20%/5: 6 of 8")
        await owner.close()
        await harness.close()
    }

    /// What is overdue when its wave is released can only go to a later renewal: it counts before it is sent, and not while the
    /// wave waits.
    @Test func guard_whenAnOverdueWaveIsReleased_haltsTheBatchBeforeItsCalls() async throws {
        let harness = try await Harness.make()
        let rows = try await Self.rows(harness, 12)
        let guards = try GuardRail.list("moved>20%/4")
        try await harness.submitAndApprove(
            rows, terms: BatchTerms(waves: try WavePlan("50%@hand,rest@hand"), guards: guards))
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.price_changes SET wave = CASE WHEN line <= 5 THEN 2 ELSE 1 END,
                send_by = CASE WHEN line <= 5 THEN timestamptz '2026-02-20Z' ELSE send_by END;
            UPDATE repricer.batches SET released_wave = 1
            """)
        let watch = Self.watch(harness, LogLines())
        func reason() async throws -> String? {
            harness.realClock.advance(by: .seconds(600))
            try await watch.round()
            return try await owner.query("SELECT paused_reason FROM repricer.batches").one()
                .textOrNil("paused_reason")
        }

        #expect(try await reason() == nil)
        // Once a person has resumed it after a halt, only what is sent since counts, and what is released since.
        try await owner.script(
            "UPDATE repricer.batches SET released_wave = 2, guards_count_from = '2026-02-25Z'")
        #expect(try await reason() == nil)
        try await owner.script(
            "UPDATE repricer.batches SET waves = jsonb_set(waves, '{1,released_at}', '\"2026-02-26T00:00:00Z\"')"
        )
        #expect(try await reason() == "moved>20%/4: 4 of 4")
        try await owner.script(
            "UPDATE repricer.batches SET is_paused = false, halted_by = NULL, paused_reason = NULL, paused_at = NULL, "
                + "guards_count_from = NULL")
        #expect(try await reason() == "moved>20%/4: 4 of 12")
        await owner.close()
        await harness.close()
    }

    /// What a person is paged for must not go unseen because a step before it fails.
    @Test func roundThatFails_tellsAllTheSameWhatStandsStill() async throws {
        let harness = try await Harness.make()
        // Something is left to call, so that the halt does not end by itself.
        try await harness.submitRows(1...1)
        let metrics = Metrics()
        let watch = Self.watch(harness, LogLines(), metrics)
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.service_controls SET halted_at = now(), halted_reason = '401';
            ALTER FUNCTION repricer.release_due_waves(timestamptz) RENAME TO gone;
            """)

        harness.realClock.advance(by: .seconds(60))

        await #expect(throws: PostgresError.self) { try await watch.round() }

        #expect(metrics.render().contains("\nrepricer_service_halted 1\n"))
        #expect(Self.readAt(metrics) == Double(harness.realClock.nowMilliseconds()) / 1000)
        try await owner.script(
            """
            ALTER FUNCTION repricer.gone(timestamptz) RENAME TO release_due_waves;
            UPDATE repricer.service_controls SET halted_at = NULL, halted_reason = NULL;
            """)
        await owner.close()
        await harness.close()
    }

    /// When the gauges of pauses, halts and what needs a person's eye were read.
    private static func readAt(_ metrics: Metrics) -> Double? {
        let name = #"repricer_figures_read_timestamp_seconds{group="controls"} "#
        return metrics.render().split(separator: "\n").first { $0.hasPrefix(name) }
            .flatMap { Double($0.dropFirst(name.count)) }
    }

    /// Either reading that fails, each time, leaves gauges as they were: their group grows old, and an alert says so.
    @Test(arguments: ["blocking_sessions", "extension_requests"])
    func controls_thatAreNotRead_growOld(_ table: String) async throws {
        let harness = try await Harness.make()
        let metrics = Metrics()
        let watch = Self.watch(harness, LogLines(), metrics)
        let start = Self.readAt(metrics)
        let owner = try await TestDatabase.connect()
        try await owner.script("ALTER TABLE repricer.\(table) RENAME TO elsewhere")
        harness.realClock.advance(by: .seconds(60))

        await #expect(throws: PostgresError.self) { try await watch.round() }
        let failed = Self.readAt(metrics)
        try await owner.script("ALTER TABLE repricer.elsewhere RENAME TO \(table)")
        try await watch.round()

        #expect(start != nil && failed == start, "the start counts, so that it is noticed")
        #expect(Self.readAt(metrics) == start.map { $0 + 60 })
        await owner.close()
        await harness.close()
    }

    /// Rules were imported between submission and approval. All rows end at their first claim, before anybody looked.
    @Test func rowsThatEndUnsentAtOnce_areTold_thoughTheirBatchIsThrough() async throws {
        let harness = try await Harness.make()
        let (lines, metrics) = (LogLines(), Metrics())
        let watch = Self.watch(harness, lines, metrics)
        try await watch.round()
        let batchID = try await harness.submitAndApprove(try await Self.rows(harness, 20))
        try await harness.askEverybody()

        try await harness.deliver(harness.scheduler())
        let ended = try await harness.changes()
        for _ in 0..<3 {
            harness.clock.advance(by: .seconds(61))
            harness.realClock.advance(by: .seconds(61))
            try await watch.round()
        }

        #expect(ended == Array(repeating: "A ineligible drifted", count: 20))
        let told = lines.about("rows need attention")
        #expect(told.count == 1, "\(told)")
        #expect(told.first?.contains("drifted=20") == true, "\(told)")
        #expect(told.first?.contains("batch=\(batchID)") == true)
        #expect(metrics.render().contains("repricer_changes_drifted 20"))
        await harness.close()
    }

    /// A batch waited past its dates, and most of its customers had turned renewal off meanwhile: no renewal is left.
    @Test func rowsThatEndMissed_areTold_asTheyLeaveTheOverdue() async throws {
        let harness = try await Harness.make()
        let batchID = try await harness.submitAndApprove(try await Self.rows(harness, 12))
        let (lines, metrics) = (LogLines(), Metrics())
        let watch = Self.watch(harness, lines, metrics)
        try await watch.round()
        try await harness.write(
            """
            UPDATE repricer.price_changes SET state = 'missed', reason = 'no_renewal_left',
                ended_at = '2026-03-01T00:00:10Z' WHERE line BETWEEN 2 AND 6
            """)

        harness.realClock.advance(by: .seconds(300))
        try await watch.round()

        let told = lines.about("rows need attention")
        #expect(told.count == 1, "\(told)")
        #expect(told.first?.contains("missed=5") == true, "\(told)")
        #expect(told.first?.contains("batch=\(batchID)") == true)
        #expect(metrics.render().contains("repricer_changes_missed 5"))
        await harness.close(isTamperedWith: true)
    }

    /// At one call in a thousand seconds most rows come too late.
    @Test func rowsThatTheRateMakesLate_areToldInTheLog_withTheirBatch() async throws {
        let harness = try await Harness.make()
        let batchID = try await harness.submitAndApprove(try await Self.rows(harness, 6))
        try await harness.write("SELECT repricer.note_change_price_rate(1)")
        try await harness.write(
            "UPDATE repricer.price_changes SET send_by = '2026-03-01T00:20:00Z'")
        let lines = LogLines()
        let watch = Self.watch(harness, lines)

        try await watch.round()

        let told = lines.about("rows need attention")
        #expect(told.count == 1, "\(told)")
        #expect(told.first?.contains("batch=\(batchID)") == true)
        #expect(told.first?.contains("late=4") == true, "\(told)")
        await harness.close(isTamperedWith: true)
    }

    /// The calls of the new batch go first, since its deadlines are earlier.
    @Test func rowsOfAnotherBatch_thatTheNewOneMakesLate_areFoundWithTheirBatch() async throws {
        let harness = try await Harness.make()
        let rows = try await Self.rows(harness, 5)
        let first = try await harness.submit(Array(rows.prefix(3)), content: "first")
        try await harness.approve(first)
        let second = try await harness.submit(Array(rows.suffix(2)), content: "second")
        try await harness.write(
            "UPDATE repricer.price_changes SET send_by = '2026-03-01T00:04:00Z' WHERE line <= 4")
        try await harness.write(
            "UPDATE repricer.price_changes SET send_by = '2026-03-01T00:02:00Z' WHERE line > 4")
        let now = harness.now.milliseconds

        let late = try await harness.submitter.withTransaction {
            (
                try OpenCallQueries.lateRowCounts(
                    callsPerThousandSeconds: 10, now: now, on: $0),
                try OpenCallQueries.lateRowCounts(
                    becauseOf: second, callsPerThousandSeconds: 10, now: now, on: $0)
            )
        }

        // A call each hundred seconds: all three of the first are in time, and two more calls leave time for one of them.
        #expect(late.0.isEmpty)
        #expect(late.1 == [.init(batchID: first, name: "first", rows: 2)])
        await harness.close(isTamperedWith: true)
    }

    @Test func wave_thatWaitsPastItsDates_saysForWhatAndHowMany() async throws {
        let harness = try await Harness.make()
        let rows = try await Self.rows(harness, 20)
        let batchID = try await harness.submitAndApprove(
            rows, terms: BatchTerms(waves: try WavePlan("50%,rest")))
        try await harness.deliver(harness.scheduler())
        let waiting = try await harness.changes().count { $0.hasSuffix("queued") }
        #expect((1..<20).contains(waiting))
        let (lines, metrics) = (LogLines(), Metrics())
        let watch = Self.watch(harness, lines, metrics)
        try await watch.round()
        #expect(lines.about("a wave waits").isEmpty)

        harness.clock.advance(by: .milliseconds(12 * 86_400_000 + 3_600_000))
        harness.realClock.advance(by: .seconds(300))
        try await watch.round()
        #expect(
            lines.about("a wave waits").first?.contains(
                "batch=\(batchID) name=content wave=2 label=rest waits_for=\"`repricer release \(batchID)`\" due=\(waiting) overdue=0"
            ) == true, "\(lines.about("wave"))")
        #expect(metrics.render().contains("repricer_waves_waiting 1"))
        harness.clock.advance(by: .seconds(86_400))
        harness.realClock.advance(by: .seconds(300))
        try await harness.setPause(batchID, true)
        try await watch.round()

        #expect(lines.about("overdue=\(waiting) first").count == 1)
        #expect(
            lines.about(
                "`repricer resume \(batchID)` and `repricer release \(batchID)`: its batch is paused"
            ).count == 1)
        await harness.close()
    }
}

extension DeliveryHarness {
    /// From now on every customer must be asked.
    fileprivate func askEverybody() async throws {
        let at = now
        try await submitter.withTransaction { connection in
            _ = try RuleQueries.add(
                [.init(rule: .alwaysConsent("USA", validFrom: at))],
                file: "rules.csv", contentSHA256: "", at: at.milliseconds, on: connection)
        }
    }
}

import Batches
import Calls
import Facts
import Foundation
import Postgres
import ServiceKit
import Synchronization
import TestSupport
import Testing

@testable import PriceChanges
@testable import Pricing

/// Changes that are due while another session holds their buckets are told of, and no others.
@Suite(.database) struct UnclaimedTests {
    private typealias Harness = DeliveryHarness

    private static let metric = "repricer_changes_due_unclaimed_seconds"

    @Test func dueChange_ofABucketThatIsHeld_isTold_untilItIsClaimed() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let metrics = Metrics()
        let scheduler = Scheduler(
            harness.engine(metrics: metrics), store: harness.store, wait: { _ in })
        let holder = try await TestDatabase.connect()
        try await holder.script("BEGIN; SELECT 1 FROM repricer.bucket_turns FOR UPDATE")

        for _ in 0..<2 { _ = try await scheduler.round() }
        #expect(harness.store.calls.isEmpty)
        #expect(!metrics.render().contains("\n\(Self.metric) 0\n"))

        try await holder.script("ROLLBACK")
        try await harness.deliver(scheduler)
        #expect(harness.store.calls.count == 1)
        #expect(metrics.render().contains("\n\(Self.metric) 0\n"))
        await holder.close()
        await harness.close()
    }

    /// A person's open transaction costs the others nothing, and is named; who waits behind it is not.
    @Test func changeThatIsHeld_keepsNoOtherWaiting_andItsHolderIsNamed() async throws {
        let harness = try await Harness.make()
        for id in ["1", "2"] { try await harness.subscribe(id) }
        try await harness.submitAndApprove([Harness.row("1"), Harness.row("2", line: 3)])
        let login = try await TestDatabase.login("impatient", memberOf: ["repricer_service"])
        let impatient = DatabasePool(
            conninfo: login + (login.contains("?") ? "&" : "?")
                + "options=-c%20lock_timeout%3D300ms", applicationName: "impatient", size: 4)
        let (holder, behind) = try await (TestDatabase.connect(), TestDatabase.connect())
        try await holder.script(
            "BEGIN; SELECT FROM repricer.price_changes WHERE original_transaction_id = '1' FOR UPDATE"
        )
        let pid = try await holder.query("SELECT pg_backend_pid() AS pid").one().int("pid")
        let waiter = Task {
            try await behind.script(
                """
                BEGIN; SELECT FROM repricer.audit_head FOR UPDATE;
                UPDATE repricer.price_changes SET line = line WHERE original_transaction_id = '1'
                """)
        }
        let scheduler = harness.scheduler(pool: impatient)

        for _ in 0..<3 { _ = try await scheduler.round() }
        var sessions: [BlockerQueries.Session] = []
        while sessions.count < 2 {
            sessions = try await harness.service.read {
                try BlockerQueries.sessions(holdingChanges: true, on: $0)
            }
        }

        #expect(harness.store.calls.map(\.transactionID) == ["2"])
        #expect(sessions.filter(\.isInTheWay).map(\.pid) == [pid])
        try await holder.script("ROLLBACK")
        try await waiter.value
        try await behind.script("ROLLBACK")
        try await harness.deliver(harness.scheduler())
        #expect(try await harness.changes() == ["A scheduled", "A scheduled"])
        for connection in [holder, behind] { await connection.close() }
        await impatient.close()
        await harness.close()
    }

    /// Whoever holds them is named, so that they can be asked, or ended.
    @Test func dueChange_heldByAPerson_namesTheSession() async throws {
        let harness = try await Harness.make()
        let lines = LogLines()
        let watch = UnclaimedWatch(
            pool: harness.service, realClock: harness.realClock,
            log: lines.log(),
            metrics: Metrics())
        let holder = try await TestDatabase.connect()
        try await holder.script("BEGIN; SELECT 1 FROM repricer.bucket_turns FOR UPDATE")
        let pid = try await holder.query("SELECT pg_backend_pid() AS pid").one().int("pid")

        let start = ContinuousClock.now
        watch.note(isStuck: true, now: start)
        try await watch.check(now: start)
        watch.note(isStuck: true, now: start + .seconds(61))
        try await watch.check(now: start + .seconds(61))

        #expect(lines.all.count == 1)
        #expect(lines.all.first?.contains("pid \(pid) of ") == true)
        try await holder.script("ROLLBACK")
        await holder.close()
        await harness.close()
    }

    /// A database that is too far away lets every claim take so long that no call may leave after it.
    @Test func dueChanges_whoseClaimsTakeTooLong_areSaid() async throws {
        let harness = try await Harness.make()
        let lines = LogLines()
        let watch = UnclaimedWatch(
            pool: harness.service, realClock: harness.realClock, log: lines.log(),
            metrics: Metrics())
        let start = ContinuousClock.now

        watch.note(isStuck: true, claimsTook: .milliseconds(900), now: start)
        watch.noteNothingDue(now: start + .seconds(1))
        watch.note(isStuck: true, claimsTook: .milliseconds(800), now: start + .seconds(61))
        try await watch.check(now: start + .seconds(61))

        #expect(lines.all.count == 1)
        #expect(lines.all.first?.contains("claims take 900 ms") == true, "\(lines.all)")

        // What is never due again, because it was withdrawn, is not told of for ever.
        watch.noteNothingDue(now: start + .seconds(67))
        watch.note(isStuck: true, now: start + .seconds(68))
        try await watch.check(now: start + .seconds(69))
        #expect(lines.all.count == 1)
        try await watch.check(now: start + .seconds(129))
        #expect(lines.all.count == 2)
        await harness.close()
    }

    /// Calls that leave too late are held back and claimed again for ever, so such a claim is no progress.
    @Test func claimsThatTakeTooLong_areNoProgress() {
        func progress(_ claims: (judged: Int, calls: Int, milliseconds: Int64)...) -> RoundProgress
        {
            var progress = RoundProgress(leavesWithin: .milliseconds(500))
            for claim in claims {
                progress.note(
                    judged: claim.judged, calls: claim.calls,
                    took: .milliseconds(claim.milliseconds))
            }
            return progress
        }

        let slow = progress((3, 2, 500), (1, 1, 900), (4, 3, 700))
        #expect(slow.judged == 8)
        #expect(slow.useful == 0)
        #expect(slow.slowest == .milliseconds(900))

        let mixed = progress((3, 2, 499), (4, 3, 700))
        #expect(mixed.useful == 3)
        #expect(mixed.slowest == .milliseconds(700))

        // Changes that are refused or put off without a call are done, however long it took.
        let withoutCalls = progress((3, 0, 900))
        #expect(withoutCalls.useful == 3)
        #expect(withoutCalls.slowest == .zero)
    }

    @Test func roundWhoseClaimTakesTooLong_isStuck() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            CREATE FUNCTION repricer.slow_down() RETURNS trigger LANGUAGE plpgsql AS
                'BEGIN PERFORM pg_sleep(0.3); RETURN NEW; END';
            CREATE TRIGGER slow_down BEFORE INSERT ON repricer.store_calls
                FOR EACH ROW EXECUTE FUNCTION repricer.slow_down();
            """)
        let metrics = Metrics()
        var limits = CallEngine.Limits()
        limits.failureWait = .zero
        limits.leavesWithin = .milliseconds(250)
        let scheduler = Scheduler(
            harness.engine(limits, metrics: metrics), store: harness.store,
            limits: Scheduler.Limits(), wait: { _ in })

        // The change is put back for a moment, in which nothing is due.
        for _ in 0..<2 { _ = try await scheduler.round() }
        #expect(harness.store.calls.isEmpty)
        #expect(!metrics.render().contains("\n\(Self.metric) 0\n"))

        try await owner.script("DROP TRIGGER slow_down ON repricer.store_calls")
        harness.realClock.advance(by: .seconds(2))
        try await harness.deliver(scheduler)
        #expect(harness.store.calls.count == 1)
        #expect(metrics.render().contains("\n\(Self.metric) 0\n"))
        await owner.close()
        await harness.close()
    }

    /// What nobody delivers is said, but not where it was just decided, is held back, or was asked for a moment ago.
    @Test func dueChanges_withoutAnyProcess_areSaid() async throws {
        let harness = try await Harness.make()
        for id in ["1", "2"] { try await harness.subscribe(id) }
        let owner = try await TestDatabase.connect()
        func found(after wait: Int64 = 0) async throws -> UndeliveredQueries.Undelivered? {
            let now = harness.clock.nowMilliseconds() + wait
            return try await harness.service.read { try UndeliveredQueries.find(now: now, on: $0) }
        }
        func passTwoMinutes() async throws {
            try await owner.script(
                """
                ALTER TABLE repricer.audit_trail DISABLE TRIGGER ALL;
                UPDATE repricer.audit_trail SET recorded_at = recorded_at - interval '2 minutes';
                ALTER TABLE repricer.audit_trail ENABLE TRIGGER ALL;
                """)
        }

        #expect(try await found() == nil)
        try await harness.submitAndApprove([Harness.row("1")])
        #expect(try await found() == nil)
        try await passTwoMinutes()
        let never = try await found()
        #expect(never != nil)
        #expect(never?.askedAt == nil)
        try await harness.deliver(harness.scheduler())
        #expect(try await found(after: 200_000) == nil)
        try await harness.approve(try await harness.submit([Harness.row("2")], content: "2"))
        try await passTwoMinutes()
        #expect(try await found(after: 60_000) == nil)
        #expect(try await found(after: 200_000)?.askedAt != nil)
        try await owner.script("UPDATE repricer.service_controls SET is_paused = true")
        #expect(try await found(after: 200_000) == nil)
        await owner.close()
        await harness.close()
    }

    /// Every decision, in a transaction that stays open: what it is about waits, and nobody else does. `BATCH` is the held
    /// one, of subscription 1.
    private static let decisions = [
        "withdraw_batch('BATCH', now(), 'aborted', NULL)",
        "set_pause('BATCH', now(), true, NULL)", "set_pause('BATCH', now(), false, NULL)",
        "set_pause(NULL, now(), true, NULL)", "set_pause(NULL, now(), false, NULL)",
        "release_wave('WAVES', 2, now())", "approve_batch('WAITING', now())",
        "withdraw_batch('WAITING', now(), 'rejected', 'no')",
        "undo_batch('APPLIED', gen_random_uuid(), 'undo', NULL, NULL, now())",
        "request_extension('1', gen_random_uuid(), 30, 1, NULL, now())",
        "import_rules('f', 'x', now(), '{currency}', '{NULL}', '{USD}', '{NULL}', '{NULL}', '{2}', '{apple}')",
        "begin_submission(gen_random_uuid(), 'n', 'c', 'announced', '[]', '[]', now())",
    ]

    @Test(arguments: decisions)
    func decision_inATransactionThatStaysOpen_holdsUpNobodyElse(decision: String) async throws {
        let harness = try await Harness.make()
        for id in ["1", "2", "3", "4", "5"] { try await harness.subscribe(id) }
        let applied = try await harness.submitAndApprove([Harness.row("4")])
        try await harness.deliver(harness.scheduler())
        let guards = BatchTerms(guards: try GuardRail.list("errors>5%/1"))
        let waves = BatchTerms(waves: try WavePlan("50%,50%"))
        let batches = [
            ("BATCH", try await harness.submit([Harness.row("1")], content: "1", terms: guards)),
            ("WAVES", try await harness.submit([Harness.row("3")], content: "3", terms: waves)),
            ("WAITING", try await harness.submit([Harness.row("5")], content: "5")),
            ("APPLIED", applied),
        ]
        let other = try await harness.submit([Harness.row("2")], content: "2", terms: guards)
        for batchID in [batches[0].1, batches[1].1, other] { try await harness.approve(batchID) }
        let holder = try await PostgresConnection.connect(
            try await TestDatabase.login("holder", memberOf: ["repricer_pricing"]),
            applicationName: "psql")
        try await holder.script("BEGIN")
        let statement = batches.reduce(decision) {
            $0.replacingOccurrences(of: $1.0, with: $1.1)
        }
        _ = try await holder.query(SQL(unsafe: "SELECT repricer.\(statement)"))

        let watch = BatchWatch(
            pool: harness.service, clock: harness.clock, realClock: harness.realClock,
            log: .silent, metrics: Metrics())
        let isDone = Mutex(false)
        let work = Task {
            try await watch.round()
            try await harness.deliver(harness.scheduler())
            try await harness.tell(Harness.scheduled("2", status: "PENDING"))
            isDone.withLock { $0 = true }
        }
        // The server ends the holder after a minute: what needs that long has waited for it.
        try await eventually("the work of others", within: .seconds(30)) {
            isDone.withLock { $0 }
        }
        try await work.value

        #expect(harness.store.calls.contains { $0.transactionID == "2" })
        #expect(try await harness.changes().contains("A pending_consent"))
        try await holder.script("ROLLBACK")
        await holder.close()
        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.contains { $0.transactionID == "1" })
        await harness.close()
    }

    /// Others go on, so that nothing is stuck; who holds rows is named all the same, and forgotten once that is over.
    @Test func session_thatHoldsRowsWhileOthersGoOn_isNamed_untilItLetsGo() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let batchID = try await harness.submitAndApprove([Harness.row("1")])
        let lines = LogLines()
        let metrics = Metrics()
        let watch = UnclaimedWatch(
            pool: harness.service, realClock: harness.realClock,
            log: lines.log(), metrics: metrics)
        let holder = try await PostgresConnection.connect(
            try await TestDatabase.login("holder", memberOf: ["repricer_pricing"]),
            applicationName: "psql")
        let pid = try await holder.query("SELECT pg_backend_pid() AS pid").one().int("pid")
        let start = ContinuousClock.now
        func held() async throws -> ServiceControlQueries.Everything {
            try await harness.service.read { try ServiceControlQueries.everything(on: $0) }
        }

        // One that ends in time is nobody's affair, and neither is the next one of the same session.
        for second in stride(from: 0, to: 45, by: 15) {
            try await holder.script("BEGIN")
            _ = try await holder.query(
                "SELECT repricer.set_pause(\(uuid: batchID), now(), true, NULL)")
            watch.note(isStuck: false, now: start + .seconds(second))
            try await watch.check(now: start + .seconds(second))
            try await holder.script("ROLLBACK")
        }
        let quiet = lines.all
        try await holder.script("BEGIN")
        _ = try await holder.query(
            "SELECT repricer.withdraw_batch(\(uuid: batchID), now(), 'aborted', NULL)")
        for second in [60, 75, 90] {
            watch.note(isStuck: false, now: start + .seconds(second))
            try await watch.check(now: start + .seconds(second))
        }
        let found = try await held()
        let gauge = metrics.render()
        try await holder.script("ROLLBACK")
        watch.note(isStuck: false, now: start + .seconds(105))
        try await watch.check(now: start + .seconds(105))

        #expect(quiet.isEmpty)
        #expect(lines.all.count == 1)
        #expect(lines.all.first?.contains("pid \(pid) of ") == true)
        #expect(lines.all.first?.contains("level=warning") == true)
        #expect(found.heldBy?.contains("pid \(pid) of ") == true && !found.heldIsAll)
        #expect(gauge.contains("\nrepricer_sessions_holding_rows 1\n"))
        #expect(try await held().heldSince == nil)
        #expect(metrics.render().contains("\nrepricer_sessions_holding_rows 0\n"))
        await holder.close()
        await harness.close()
    }

    /// A person who holds the row that tells of them is not waited for.
    @Test func session_thatHoldsTheSwitch_isNamedWithoutWaitingForIt() async throws {
        let harness = try await Harness.make()
        let lines = LogLines()
        let watch = UnclaimedWatch(
            pool: harness.service, realClock: harness.realClock,
            log: lines.log(), metrics: Metrics())
        let holder = try await TestDatabase.connect()
        try await holder.script("BEGIN; SELECT repricer.set_pause(NULL, now(), true, NULL)")

        let start = ContinuousClock.now
        for second in [0, 15, 30] {
            watch.note(isStuck: false, now: start + .seconds(second))
            try await watch.check(now: start + .seconds(second))
        }

        #expect(ContinuousClock.now - start < .seconds(10))
        #expect(lines.all.count == 1)
        try await holder.script("ROLLBACK")
        await holder.close()
        await harness.close()
    }

    /// The halt holds the row of controls while it waits for the head of the audit trail.
    @Test func session_thatAHaltWaitsFor_isNamedInStatus() async throws {
        let harness = try await Harness.make()
        let watch = UnclaimedWatch(
            pool: harness.service, realClock: harness.realClock,
            log: Log(component: "test", sink: { _ in }), metrics: Metrics())
        let holder = try await TestDatabase.connect()
        try await holder.script("BEGIN; SELECT 1 FROM repricer.audit_head FOR UPDATE")
        let pid = try await holder.query("SELECT pg_backend_pid() AS pid").one().int("pid")
        let halt = Task {
            try await harness.service.withTransaction { connection in
                try ServiceControlQueries.haltService(
                    reason: "4030010", at: harness.now.milliseconds, by: .priceChange, since: nil,
                    on: connection)
            }
        }
        // A transaction sees one state of all sessions until it ends.
        let observer = try await TestDatabase.connect()
        while try await observer.query(
            "SELECT count(*) AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%halt_service%'"
        ).one().int("n") == 0 { await Task.yield() }

        let start = ContinuousClock.now
        for second in [0, 15] { try await watch.check(now: start + .seconds(second)) }

        let found = try await harness.service.read { try ServiceControlQueries.everything(on: $0) }
        #expect(found.heldBy?.contains("pid \(pid) of ") == true)
        try await holder.script("ROLLBACK")
        // It took the row, or its wait was over before.
        _ = try? await halt.value
        await observer.close()
        await holder.close()
        await harness.close()
    }

    /// People have no right that locks a row, or a table against those who write.
    @Test(arguments: ["repricer_pricing", "repricer_finance"])
    func person_mayLockNothing(role: String) async throws {
        let owner = try await TestDatabase.connect()
        let tables = try await owner.query(
            """
            SELECT c.oid::regclass::text AS name FROM pg_class c
            WHERE c.relnamespace IN ('repricer'::regnamespace, 'report'::regnamespace)
                AND c.relkind IN ('r', 'p', 'v')
            """
        ).map { try $0.text("name") }
        await owner.close()
        let person = try await PostgresConnection.connect(
            try await TestDatabase.login("person", memberOf: [role]), applicationName: "psql")

        var locked: [String] = []
        for table in tables {
            for text in [
                "SELECT FROM \(table) FOR UPDATE", "SELECT FROM \(table) FOR SHARE",
                "SELECT FROM \(table) FOR KEY SHARE", "LOCK TABLE \(table) IN ROW SHARE MODE",
                "LOCK TABLE \(table) IN ROW EXCLUSIVE MODE", "LOCK TABLE \(table) IN SHARE MODE",
                "LOCK TABLE \(table)",
            ] {
                try await person.script("BEGIN")
                do {
                    try await person.script(text)
                    locked.append(text)
                } catch {
                    // Not theirs; or a view that has no rows of a table to lock.
                    let states = [
                        SQLState.insufficientPrivilege, SQLState("42809"), SQLState("0A000"),
                    ]
                    #expect(states.contains { $0 == error.sqlState }, "\(text): \(error)")
                }
                try await person.script("ROLLBACK")
            }
        }

        #expect(tables.count > 60)
        #expect(locked.isEmpty)
        await person.close()
    }

    /// A person who decides and then leaves the transaction open is ended by the server after a minute; a statement that
    /// follows is cancelled after ten.
    @Test(arguments: [
        ("idle_in_transaction_session_timeout", "1min"), ("statement_timeout", "10min"),
    ])
    func decision_inATransactionThatStaysOpen_isBound(setting: String, bound: String) async throws {
        let harness = try await Harness.make()
        let ask = "SELECT current_setting('\(setting)') AS text"
        func decided(_ session: String) async throws -> [String] {
            try await harness.approver.withConnection { connection in
                try await connection.script(session)
                try await connection.script("BEGIN")
                let before = try await connection.query(SQL(unsafe: ask)).one().text("text")
                _ = try await connection.query(
                    "SELECT repricer.set_pause(NULL, now(), true, NULL)")
                let inside = try await connection.query(SQL(unsafe: ask)).one().text("text")
                try await connection.script("COMMIT")
                let after = try await connection.query(SQL(unsafe: ask)).one().text("text")
                return [before, inside, after]
            }
        }

        let unlimited = try await decided("SET \(setting) = 0")
        let longer = try await decided("SET \(setting) = '1h'")
        let shorter = try await decided("SET \(setting) = '5s'")

        #expect(unlimited == ["0", bound, "0"])
        #expect(longer == ["1h", bound, "1h"])
        #expect(shorter == ["5s", "5s", "5s"])
        await harness.close()
    }
}

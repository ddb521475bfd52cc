import Batches
import Postgres
import PriceChanges
import Pricing
import Reports
import ServiceKit
import TestSupport
import Testing

/// What stops a batch or the service without a person: guard rails, and codes that are not about the change.
@Suite(.database) struct HaltTests {
    private typealias World = DeliveryWorld

    private static func watch(_ world: World, _ metrics: Metrics = Metrics()) -> BatchWatch {
        BatchWatch(
            pool: world.service, clock: world.clock, realClock: world.realClock, log: .silent,
            metrics: metrics)
    }

    /// One row a subscription, 1 … count; returns the batch.
    private static func submit(
        _ world: World, _ count: Int, _ guards: String
    ) async throws -> String {
        var rows: [BatchRow] = []
        for number in 1...count {
            try await world.subscribe("\(number)")
            rows.append(World.row("\(number)", line: number + 1))
        }
        return try await world.submitAndApprove(
            rows, terms: BatchTerms(guards: try GuardRail.list(guards)))
    }

    private static func text(_ world: World, _ sql: String) async throws -> String? {
        try await world.service.withConnection { connection in
            try await connection.query(SQL(unsafe: sql)).first?.textOrNil("text")
        }
    }

    private static let pause =
        "SELECT is_paused || ' ' || coalesce(halted_by, '-') || ' ' || coalesce(paused_reason, '-') AS text FROM repricer.batches"

    private static func set(_ world: World, _ assignments: String, lines: ClosedRange<Int>)
        async throws
    {
        let owner = try await TestDatabase.connect()
        try await owner.script(
            "UPDATE repricer.price_changes SET \(assignments) WHERE line - 1 BETWEEN \(lines.lowerBound) AND \(lines.upperBound)"
        )
        await owner.close()
    }

    /// 4 of 10 were refused, 2 wait: beyond 30 % of at least 10.
    @Test func batch_whenTooManyAreRefused_isHaltedAndSaysWhy() async throws {
        let world = try await World.make()
        let batchID = try await Self.submit(world, 12, "errors>30%/10,declined>50%")
        let sent = "sent_at = '2026-03-01Z', request_reference_id = gen_random_uuid()"
        try await Self.set(
            world, "state = 'scheduled', scheduled_at = '2026-03-01Z', \(sent)", lines: 1...6)
        try await Self.set(
            world, "state = 'rejected', ended_at = '2026-03-01Z', \(sent)", lines: 7...10)
        let metrics = Metrics()

        try await Self.watch(world, metrics).round()
        try await world.deliver(world.scheduler())

        #expect(try await Self.text(world, Self.pause) == "true errors errors>30%/10: 4 of 10")
        #expect(world.store.calls.isEmpty)
        #expect(metrics.render().contains(#"repricer_batch_halts_total{by="errors"} 1"#))
        #expect(metrics.render().contains("repricer_batches_halted 1"))
        #expect(
            try await Self.text(
                world,
                "SELECT object || ' ' || (details ->> 'reason') AS text FROM repricer.audit_trail WHERE action = 'halt'"
            ) == "batch:\(batchID) errors>30%/10: 4 of 10")
        await world.close()
    }

    @Test func batch_resumedByAPerson_isJudgedByWhatIsSentSince() async throws {
        let world = try await World.make()
        let batchID = try await Self.submit(world, 12, "errors>30%/3")
        let sent = "request_reference_id = gen_random_uuid()"
        try await Self.set(
            world, "state = 'rejected', ended_at = '2026-03-01Z', sent_at = '2026-02-28Z', \(sent)",
            lines: 1...3)
        let watch = Self.watch(world)
        try await watch.round()
        #expect(try await Self.text(world, Self.pause)?.hasPrefix("true errors") == true)

        world.realClock.advance(by: .seconds(60))
        try await world.setPause(batchID, false)
        try await watch.round()
        #expect(try await Self.text(world, Self.pause) == "false - -")
        try await Self.set(
            world, "state = 'rejected', ended_at = '2026-03-02Z', sent_at = '2026-03-02Z', \(sent)",
            lines: 4...6)
        world.realClock.advance(by: .seconds(60))
        try await watch.round()

        #expect(try await Self.text(world, Self.pause)?.hasPrefix("true errors") == true)
        await world.close()
    }

    /// One row waits, so that there is something to hold back.
    @Test(arguments: [
        (
            "declined>25%/4",
            "state = 'declined', consent_asked_at = '2026-03-01Z', ended_at = '2026-03-01Z'",
            "true declined declined>25%/4: 2 of 4"
        ),
        // Dependents of a decliner fall without being asked.
        ("declined>25%/4", "state = 'declined', ended_at = '2026-03-01Z'", "false - -"),
        (
            "auto_renew_off>25%/4",
            "state = 'cancelled', reason = 'left_voluntarily', consent_asked_at = '2026-03-01Z', ended_at = '2026-03-01Z'",
            "true auto_renew_off auto_renew_off>25%/4: 2 of 4"
        ),
        (
            "auto_renew_off>25%/4",
            "state = 'cancelled', reason = 'refunded_or_revoked', consent_asked_at = '2026-03-01Z', ended_at = '2026-03-01Z'",
            "false - -"
        ),
    ])
    func guards_countCustomers_ofThoseWhoWereAskedOrTold(
        rails: String, bad: String, expected: String
    ) async throws {
        let world = try await World.make()
        _ = try await Self.submit(world, 7, rails)
        let sent = "sent_at = '2026-03-01Z', request_reference_id = gen_random_uuid()"
        try await Self.set(world, "\(bad), \(sent)", lines: 1...2)
        try await Self.set(
            world, "state = 'pending_consent', consent_asked_at = '2026-03-01Z', \(sent)",
            lines: 3...4)
        try await Self.set(world, "state = 'scheduled', \(sent)", lines: 5...6)

        try await Self.watch(world).round()

        #expect(try await Self.text(world, Self.pause) == expected)
        await world.close()
    }

    @Test func autoRenewOff_ofACustomerWhoWasTold_counts() async throws {
        let world = try await World.make()
        _ = try await Self.submit(world, 3, "auto_renew_off>40%/2")
        try await Self.set(
            world,
            "state = 'accepted', accepted_at = '2026-03-01Z', sent_at = '2026-03-01Z', request_reference_id = gen_random_uuid()",
            lines: 1...2)
        try await world.tell(
            SubscriptionEvent(
                key: .init(signedAt: world.now, evidenceID: "off"), source: .notification,
                originalTransactionID: "1", type: "DID_CHANGE_RENEWAL_STATUS", status: 1,
                renewal: RenewalStatement(autoRenewStatus: 0)))

        try await Self.watch(world).round()

        #expect(
            try await Self.text(world, Self.pause)
                == "true auto_renew_off auto_renew_off>40%/2: 1 of 2")
        await world.close()
    }

    @Test func guards_onTwoReplicas_areJudgedByOneAtATime() async throws {
        let world = try await World.make()
        _ = try await Self.submit(world, 3, "errors>1%/1")
        try await Self.watch(world).round()
        try await Self.set(
            world,
            "state = 'rejected', ended_at = '2026-03-01Z', sent_at = '2026-03-01Z', request_reference_id = gen_random_uuid()",
            lines: 1...1)
        let other = Self.watch(world)

        try await other.round()
        #expect(try await Self.text(world, Self.pause) == "false - -")
        world.realClock.advance(by: .seconds(3))
        try await other.round()

        #expect(try await Self.text(world, Self.pause)?.hasPrefix("true errors") == true)
        await world.close()
    }

    // MARK: What was counted

    private static func reading(_ world: World, _ batchID: String) async throws
        -> GuardQueries.Reading?
    {
        try await world.service.withTransaction { try GuardQueries.reading(of: batchID, on: $0) }
    }

    @Test func reading_isKeptAsJudged_andGoneWithTheResume() async throws {
        let world = try await World.make()
        let batchID = try await Self.submit(world, 6, "errors>30%/3,declined>5%")
        let sent =
            "state = 'rejected', ended_at = '2026-03-01Z', sent_at = '2026-03-01Z', request_reference_id = gen_random_uuid()"
        let watch = Self.watch(world)
        #expect(try await Self.reading(world, batchID) == nil)

        try await Self.set(world, sent, lines: 1...2)
        try await watch.round()
        let first = try await Self.reading(world, batchID)
        try await Self.set(world, sent, lines: 3...3)
        #expect(try await Self.reading(world, batchID) == first, "not counted anew by who looks")
        world.realClock.advance(by: .seconds(3))
        world.clock.advance(by: .seconds(3))
        try await watch.round()
        let second = try await Self.reading(world, batchID)
        try await world.setPause(batchID, false)

        #expect(
            first?.counts.mapValues { [$0.count, $0.all] } == [
                .errors: [2, 2], .declined: [0, 0],
            ])
        #expect(first?.at == World.start.milliseconds)
        #expect(second?.counts[.errors].map { [$0.count, $0.all] } == [3, 3])
        #expect(second.map { $0.at - World.start.milliseconds } == 3000)
        #expect(try await Self.text(world, Self.pause) == "false - -")
        #expect(try await Self.reading(world, batchID) == nil)
        await world.close()
    }

    /// Nothing is left to hold back: it is counted every five minutes until all have ended, and once more then.
    @Test func reading_ofABatchThatIsAllSent_goesOnUntilAllHaveEnded() async throws {
        let world = try await World.make()
        let batchID = try await Self.submit(world, 2, "declined>5%/1")
        let watch = Self.watch(world)
        let sent = "sent_at = '2026-03-01Z', request_reference_id = gen_random_uuid()"
        func declinedAfter(_ seconds: Int64) async throws -> [Int64]? {
            world.realClock.advance(by: .seconds(seconds))
            try await watch.round()
            return try await Self.reading(world, batchID)?.counts[.declined].map {
                [$0.count, $0.all]
            }
        }
        try await Self.set(
            world, "state = 'pending_consent', consent_asked_at = '2026-03-01Z', \(sent)",
            lines: 1...2)

        #expect(try await declinedAfter(3) == [0, 2])
        try await Self.set(
            world, "state = 'declined', ended_at = '2026-03-02Z', \(sent)", lines: 1...2)
        #expect(try await declinedAfter(3) == [0, 2])
        #expect(try await declinedAfter(301) == [2, 2])
        #expect(
            try await Self.text(
                world, "SELECT guard_reading ->> 'is_last' AS text FROM repricer.batches")
                == "true")
        #expect(try await Self.text(world, Self.pause) == "false - -")
        await world.close()
    }

    // MARK: Codes

    @Test func code_ofAWrongCall_haltsTheBatchAndKeepsTheRow() async throws {
        let world = try await World.make([.refused(.haltBatch, code: 4_000_173)])
        try await world.subscribe("1")
        let batchID = try await world.submitAndApprove([World.row("1")])
        let scheduler = world.scheduler()

        try await world.deliver(scheduler)

        #expect(try await world.changes() == ["A queued code_4000173"])
        #expect(
            try await Self.text(world, Self.pause)
                == "true 4000173 the App Store refused a call with 4000173 code_4000173; 1")
        #expect(world.store.calls.count == 1)

        try await world.setPause(batchID, false)
        try await world.deliver(scheduler)

        #expect(try await world.changes() == ["A scheduled"])
        #expect(Set(world.store.calls.map(\.requestReferenceID)).count == 2)
        await world.close()
    }

    @Test func code_ofAWrongCall_metAgainAfterTheResume_endsTheRow() async throws {
        let refusal = ScriptedStore.Reply.refused(.haltBatch, code: 4_000_173)
        let world = try await World.make([refusal, refusal])
        try await world.subscribe("1")
        let batchID = try await world.submitAndApprove([World.row("1")])
        let scheduler = world.scheduler()
        try await world.deliver(scheduler)

        try await world.setPause(batchID, false)
        try await world.deliver(scheduler)

        #expect(try await world.changes() == ["A rejected 4000173 code_4000173"])
        #expect(try await Self.text(world, Self.pause)?.hasPrefix("true 4000173") == true)
        await world.close()
    }

    private static let halted =
        "SELECT string_agg(h.key || ' ' || (h.value ->> 'by'), ',' ORDER BY h.key) AS text"
        + " FROM repricer.batches, jsonb_each(halted_storefronts) h"
    private static let held =
        "SELECT string_agg(line::text, ',' ORDER BY line) AS text FROM repricer.price_changes WHERE is_held"

    /// Lines 2 and 3 of Canada, where the product has no price; line 4 of the USA.
    private static func unpriced(_ world: World) async throws -> String {
        for id in ["1", "2"] { try await world.subscribe(id, storefront: "CAN") }
        try await world.subscribe("3")
        world.store.setUnpriced(["CAN"])
        return try await world.submitAndApprove(
            ["1", "2", "3"].enumerated().map { World.row($1, line: $0 + 2) })
    }

    @Test func code_ofOneStorefront_haltsThatStorefrontUntilAPersonResumes() async throws {
        let world = try await World.make()
        let batchID = try await Self.unpriced(world)
        let scheduler = world.scheduler()
        let metrics = Metrics()

        try await world.deliver(scheduler)
        let refused = world.store.calls.count { $0.storefront == "CAN" }
        try await Self.watch(world, metrics).round()
        try await world.deliver(scheduler)

        #expect(try await world.changes().last == "A scheduled")
        #expect(try await world.changes().dropLast().allSatisfy { $0.hasPrefix("A queued") })
        #expect(try await Self.text(world, Self.pause) == "false - -")
        #expect(try await Self.text(world, Self.halted) == "CAN 4000134")
        #expect(try await Self.text(world, Self.held) == "2,3")
        #expect(world.store.calls.count { $0.storefront == "CAN" } == refused)
        #expect(metrics.render().contains("repricer_storefronts_halted 1"))
        #expect(
            try await Self.text(
                world,
                "SELECT object || ' ' || (details ->> 'storefront') AS text FROM repricer.audit_trail WHERE action = 'halt'"
            ) == "batch:\(batchID) CAN")

        world.store.setUnpriced([])
        try await world.setPause(batchID, false)
        try await world.deliver(scheduler)

        #expect(try await Self.text(world, Self.halted) == nil)
        #expect(try await Self.text(world, Self.held) == nil)
        #expect(try await world.changes() == ["A scheduled", "A scheduled", "A scheduled"])
        await world.close()
    }

    /// Before the watch has taken them out of the queues the claim passes them over.
    @Test func haltedStorefront_beforeItsRowsAreParked_isNotClaimed() async throws {
        let world = try await World.make()
        _ = try await Self.unpriced(world)
        let scheduler = world.scheduler()

        try await world.deliver(scheduler)
        let before = world.store.calls.count
        world.store.setUnpriced([])
        try await world.deliver(scheduler)

        #expect(world.store.calls.count == before)
        #expect(try await Self.text(world, Self.held) == nil)
        await world.close()
    }

    @Test func code_ofOneStorefront_metAgainAfterTheResume_endsTheRow() async throws {
        let world = try await World.make()
        try await world.subscribe("1", storefront: "CAN")
        world.store.setUnpriced(["CAN"])
        let batchID = try await world.submitAndApprove([World.row("1")])
        let scheduler = world.scheduler()
        try await world.deliver(scheduler)

        try await world.setPause(batchID, false)
        try await world.deliver(scheduler)

        #expect(try await world.changes() == ["A rejected 4000134 code_4000134"])
        #expect(try await Self.text(world, Self.halted) == "CAN 4000134")
        await world.close()
    }

    @Test func haltedStorefront_whenTheBatchIsAborted_isWithdrawnWithIt() async throws {
        let world = try await World.make()
        let batchID = try await Self.unpriced(world)
        try await world.deliver(world.scheduler())
        try await Self.watch(world).round()

        try await world.abort(batchID)

        #expect(
            try await world.changes() == ["A aborted aborted", "A aborted aborted", "A scheduled"])
        await world.close()
    }

    @Test func refusedKey_haltsTheServiceUntilACallIsAnswered() async throws {
        let refusal = ScriptedStore.Reply.refused(.haltService, code: 4_010_000)
        let world = try await World.make([refusal, refusal])
        for id in ["1", "2", "3"] { try await world.subscribe(id) }
        try await world.submitAndApprove(
            ["1", "2", "3"].enumerated().map { World.row($1, line: $0 + 2) })
        let scheduler = world.scheduler()
        let halted =
            "SELECT halted_reason AS text FROM repricer.service_controls"

        try await world.deliver(scheduler)
        #expect(try await Self.text(world, halted) == "4010000 code_4010000")
        let before = world.store.calls.count
        try await world.deliver(scheduler)
        #expect(world.store.calls.count == before)

        for _ in 0..<6 {
            world.clock.advance(by: .seconds(61))
            world.realClock.advance(by: .seconds(61))
            try await world.deliver(scheduler)
        }

        #expect(try await Self.text(world, halted) == nil)
        #expect(try await world.changes() == ["A scheduled", "A scheduled", "A scheduled"])
        let actions = try await world.service.withConnection { connection in
            try await connection.query(
                "SELECT action FROM repricer.audit_trail WHERE object = 'everything' ORDER BY sequence"
            ).map { try $0.text("action") }
        }
        #expect(actions == ["halt", "recover"])
        await world.close()
    }

    @Test(arguments: [50, nil])
    func refusedKey_howeverFastCallsMayGo_isProbedByOneCall(perSecond: Int?) async throws {
        let refusal = ScriptedStore.Reply.refused(.haltService, code: 4_010_000)
        let world = try await World.make(Array(repeating: refusal, count: 100))
        let ids = try await world.idsOfOneBucket(12)
        for id in ids { try await world.subscribe(id) }
        try await world.submitAndApprove(
            ids.enumerated().map { World.row($1, line: $0 + 2) })
        try await world.deliver(world.scheduler())
        world.clock.advance(by: .seconds(61))
        world.realClock.advance(by: .seconds(61))

        let store = SilentStore(to: Set(ids), others: world.store)
        let scheduler = world.scheduler(calls: store, perSecond: perSecond)
        let round = Task { try await scheduler.round() }
        while store.asked == 0 { await Task.yield() }
        let out = try await Self.text(
            world,
            "SELECT count(*)::text AS text FROM repricer.store_calls WHERE state = 'sending'"
        )
        store.answer()
        _ = try await round.value

        #expect(out == "1")
        #expect(store.asked == 1)
        await world.close()
    }

    @Test func pause_ofEverything_isAskedByTheClaimItself() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        try await world.setPause(nil, true)
        let realNow = world.realClock.nowMilliseconds()

        let (due, locked) = try await world.service.withTransaction { connection in
            let due = try connection.ask(DueQueries.earliest(realNow: realNow))
            let locked = try connection.ask(
                DueQueries.locking(due, until: nil, limit: 25, realNow: realNow)
            ).ids
            return (due, locked)
        }

        #expect(due.count == 1)
        #expect(locked.isEmpty)
        await world.close()
    }
}

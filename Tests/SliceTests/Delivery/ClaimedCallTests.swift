import Calls
import Facts
import Postgres
import Pricing
import ServiceKit
import TestSupport
import Testing

@testable import PriceChanges

/// What a claim hands to the settlement of its call, so that nothing is read twice.
@Suite(.database) struct ClaimedCallTests {
    private typealias World = DeliveryWorld

    @Test(arguments: [
        [World.row("1")], [World.row("1", to: 8990)],
        [World.row("1"), World.row("1", "B", to: 11990, line: 3)],
    ])
    func claim_handsOverWhatASettlementWouldRead(rows: [BatchRow]) async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submitAndApprove(rows)

        let claim = try await world.claim()

        let claimed = try #require(claim.claimed.values.first?.subscription)
        let (stored, versions, known) = try await world.service.withTransaction { connection in
            (
                try SubscriptionQueries.load(["1"], on: connection),
                try connection.ask(SubscriptionQueries.lockingVersions(["1"])),
                try connection.ask(FoldQueries.knowing(of: ["1"]))
            )
        }
        #expect(claimed.changes == known.changes["1"])
        #expect(claimed.changes.count == rows.count)
        #expect(claimed.stored.facts == stored["1"]?.facts)
        #expect(claimed.stored.foldedThrough == stored["1"]?.foldedThrough)
        #expect(claimed.version == versions["1"])
        await world.close()
    }

    @Test func claim_ofAnItemThatWasRenamed_handsOverItsNameOfToday() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        _ = try await world.service.withConnection { connection in
            try await connection.execute(
                "UPDATE repricer.price_changes SET current_sku = 'B', former_skus = '{C}'")
        }

        let claim = try await world.claim()

        let known = try await world.service.read {
            try $0.ask(FoldQueries.knowing(of: ["1"]))
        }
        let claimed = try #require(claim.claimed.values.first?.subscription)
        #expect(claimed.changes.map(\.sku) == ["B"])
        #expect(claimed.changes == known.changes["1"])
        await world.close()
    }

    @Test func claim_ofASubscriptionWithMoreToRead_handsOverNothing() async throws {
        let world = try await World.make()
        for id in ["1", "2", "3"] { try await world.subscribe(id) }
        try await world.submitAndApprove([World.row("1")])
        try await world.deliver(world.scheduler())
        let batch = try await world.submit(
            [
                World.row("1", "B"), World.row("2", line: 3, dependents: ["B"]),
                World.row("3", line: 4),
            ], content: "second")
        try await world.approve(batch)
        _ = try await world.service.withConnection { connection in
            try await connection.execute(
                """
                UPDATE repricer.price_changes SET doubtful_since = \(timestamp: world.now.milliseconds)
                WHERE original_transaction_id = '3'
                """)
        }

        var claims: [Claimer.Claim] = []
        for _ in 0..<3 { claims.append(try await world.claim()) }

        #expect(claims.flatMap(\.calls).count == 3)
        #expect(claims.flatMap(\.claimed.values).allSatisfy { $0.subscription == nil })
        await world.close()
    }

    /// Else the answer would be folded into facts of before, and what came meanwhile would be lost.
    @Test(arguments: [false, true])
    func settlement_afterAStatementThatCameMeanwhile_goesOnFromThere(waits: Bool) async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        let claim = try await world.claim()
        let token = "7e3fb204-2a5c-4a5f-8f57-2f0a7d0fb3c1"
        let told = SubscriptionEvent(
            key: .init(signedAt: world.now.advanced(by: 10), evidenceID: "meanwhile"),
            source: .notification, originalTransactionID: "1", type: "DID_CHANGE_RENEWAL_PREF",
            status: 1, transaction: TransactionStatement(appAccountToken: token, items: []))
        world.pass(.seconds(1))

        if waits {
            let settlement = try await world.service.withTransaction { connection in
                try SubscriptionQueries.lock(["1"], on: connection)
                let settlement = Task { try await world.settle(claim) }
                let waiters: SQL = """
                    SELECT 1 FROM pg_locks
                    WHERE transactionid = pg_current_xact_id()::xid AND NOT granted
                    """
                while try connection.query(waiters).isEmpty { await Task.yield() }
                try SubscriptionFolder.fold([told], on: connection)
                return settlement
            }
            try await settlement.value
        } else {
            try await world.tell(told)
            try await world.settle(claim)
        }

        let stored = try await world.service.read {
            try SubscriptionQueries.load(["1"], on: $0)
        }
        let facts = stored["1"]?.facts
        #expect(facts?.appAccountToken == token)
        #expect(facts?.consistencyToken == "answer")
        #expect(try await world.changes() == ["A scheduled"])
        #expect(try await world.requestStates() == ["answered"])
        #expect(try await world.history() == ["queued", "sending", "scheduled"])
        await world.close()
    }

    /// A statement tells it first, then the answer does: nothing is told twice.
    @Test func settlement_ofWhatANotificationToldBefore_addsNoLine() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        let claim = try await world.claim()
        try await world.tell(World.scheduled("1", at: world.now.advanced(by: 5)))

        world.pass(.seconds(1))
        try await world.settle(claim)

        #expect(try await world.changes() == ["A scheduled"])
        #expect(try await world.requestStates() == ["answered"])
        #expect(try await world.history() == ["queued", "sending", "scheduled"])
        await world.close()
    }

    /// Apple's clock may be behind ours: then the answer's line stands before that of the call, and one more says the state.
    @Test func answer_signedBeforeItsCall_isToldByTheNewestLine() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        let claim = try await world.claim()

        try await world.settle(claim, signedAt: world.now.advanced(by: -500))

        let newest = try await world.service.withConnection { connection in
            try await connection.query(
                "SELECT state FROM repricer.price_change_history ORDER BY occurred_at DESC LIMIT 1"
            ).one().text("state")
        }
        #expect(try await world.changes() == ["A \(newest)"])
        await world.close()
    }

    @Test func claim_writesNoIndexEntry() async throws {
        let world = try await World.make()
        for id in ["1", "2"] { try await world.subscribe(id) }
        try await world.submitAndApprove(["1", "2"].map { World.row($0) })

        let written = try await world.service.withTransaction { connection in
            let calls = try connection.query(
                """
                SELECT original_transaction_id AS id, bucket, change_id FROM repricer.price_changes
                """
            ).map { row in
                StoreCall(
                    .priceChange, subject: try row.text("id"), callID: try row.text("change_id"),
                    bucket: try row.int("bucket"), carries: [try row.text("change_id")],
                    intent: "{}")
            }
            for call in calls {
                _ = try connection.pipeline(
                    PriceCallQueries.claim([call], now: world.now.milliseconds))
            }
            let row = try connection.query(
                """
                SELECT pg_stat_get_xact_tuples_updated('repricer.price_changes'::regclass) AS rows,
                    pg_stat_get_xact_tuples_hot_updated('repricer.price_changes'::regclass) AS free
                """
            ).one()
            return [try row.int("rows"), try row.int("free")]
        }

        #expect(written == [2, 2])
        #expect(try await world.changes() == ["A sending", "A sending"])
        await world.close()
    }

    @Test func changeWhoseCallIsOut_countsAsSending() async throws {
        let world = try await World.make()
        for id in ["1", "2"] { try await world.subscribe(id) }
        try await world.submitAndApprove(["1", "2"].map { World.row($0) })
        _ = try await world.claim()

        let row = try await world.service.withConnection { connection in
            try await connection.query(
                "SELECT rows_queued, rows_sending, rows_open, rows_add_up FROM report.batch_summary"
            ).one()
        }

        #expect(try row.int("rows_queued") == 1)
        #expect(try row.int("rows_sending") == 1)
        #expect(try row.int("rows_open") == 2)
        #expect(try row.bool("rows_add_up"))
        await world.close()
    }

    /// It stays in the queue until it is settled, and nobody takes it twice.
    @Test func changeWhoseCallIsOut_isNotDue() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        let claim = try await world.claim()

        let due = try await world.service.read { connection in
            try connection.ask(
                DueQueries.earliest(realNow: world.realClock.nowMilliseconds()))
        }

        #expect(claim.calls.count == 1)
        #expect(due.isEmpty)
        await world.close()
    }

    /// Replicas that reach for the same queue would else read over each other's rows: each takes a queue of its own.
    @Test func claim_besideAnotherOfItsBucket_takesNothingAndDoesNotWait() async throws {
        let world = try await World.make()
        let neighbour = try await world.service.read { connection in
            try connection.query(
                """
                SELECT i::text AS id FROM generate_series(2, 10000) i
                WHERE hashtextextended(i::text, 0) & 63 = hashtextextended('1', 0) & 63 LIMIT 1
                """
            ).one().text("id")
        }
        for id in ["1", neighbour] { try await world.subscribe(id) }
        try await world.submitAndApprove([World.row("1"), World.row(neighbour, line: 3)])
        let realNow = world.realClock.nowMilliseconds()

        let (first, second) = try await world.service.withTransaction { connection in
            let due = try connection.ask(DueQueries.earliest(realNow: realNow))
            let locked = try connection.ask(
                DueQueries.locking(due, until: nil, limit: 1, realNow: realNow))
            return (locked.ids, try await world.claim().calls)
        }
        let third = try await world.claim().calls

        #expect(first.count == 1)
        #expect(second.isEmpty)
        #expect(third.count == 2)
        await world.close()
    }
}

extension DeliveryWorld {
    private var claimer: Claimer { Claimer(engine: engine()) }

    /// How calls of price changes are carried by this world.
    func priceKind(_ pool: LedgerPool? = nil) -> PriceChangeKind {
        let engine = engine(pool: pool)
        let budget = CallBudget.statuses(engine, perSecond: 50, wait: { _ in })
        return PriceChangeKind(
            store: store, budget: budget, checkBudget: budget,
            policy: CallPolicy(retry: Backoff(first: .seconds(1), max: .seconds(1))),
            halts: BatchHalts(
                pool: engine.pool, clock: clock, log: .silent, metrics: Metrics()))
    }

    /// Of the first bucket with something due.
    func claim() async throws -> Claimer.Claim {
        let realNow = realClock.nowMilliseconds()
        let due = try await service.read {
            try $0.ask(DueQueries.earliest(realNow: realNow))
        }
        let turn = try #require(
            DueOrder.turns(due, now: now.milliseconds, place: 0).first, "something is due")
        return try await claimer.claim(turn, limit: 10)
    }

    enum End { case applied, refused, lost }

    /// Settles the only call: its item is scheduled, or was refused, or nobody knows.
    func settle(
        _ claim: Claimer.Claim, _ sku: String = "A", _ end: End = .applied,
        signedAt: Instant? = nil
    ) async throws {
        let call = try #require(claim.calls.first)
        let settlement = CallSettlement(pool: service, kind: priceKind(), log: .silent)
        let ours = try await settlement.settle(
            [
                Attempt(
                    call, answer(to: call, sku, end, signedAt: signedAt ?? now),
                    claimed: claim.claimed[call.callID])
            ], now: now, realNow: realClock.nowMilliseconds())
        #expect(ours == [call.callID])
    }

    private func answer(
        to call: StoreCall, _ sku: String, _ end: End, signedAt: Instant
    ) -> StoreAnswer {
        switch end {
        case .applied:
            var answer = Self.scheduled("1", sku, at: signedAt)
            answer.source = .response
            answer.key.evidenceID = call.callID
            answer.renewal?.consistencyToken = "answer"
            return .answered([answer], StoreReply(httpStatus: 200))
        case .refused:
            let refusal = StoreRefusal(
                code: 4_000_001, name: "code_4000001", message: "no", meaning: .reject)
            return .refused(refusal, StoreReply(httpStatus: 400))
        case .lost: return .unknown(reason: "timed out", StoreReply())
        }
    }
}

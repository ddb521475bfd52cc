import AppStore
import Calls
import Facts
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import PriceChanges
@testable import Pricing

/// What a claim hands to the settlement of its call, so that nothing is read twice.
@Suite(.database) struct ClaimedCallTests {
    private typealias Harness = DeliveryHarness

    @Test(arguments: [
        [Harness.row("1")], [Harness.row("1", to: 8990)],
        [Harness.row("1"), Harness.row("1", "B", to: 11990, line: 3)],
    ])
    func claim_handsOverWhatASettlementWouldRead(rows: [BatchRow]) async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove(rows)

        let claim = try await harness.claim()

        let claimed = try #require(claim.claimed.values.first?.subscription)
        let (stored, versions, known) = try await harness.service.withTransaction { connection in
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
        await harness.close()
    }

    @Test func claim_ofAnItemThatWasRenamed_handsOverItsNameOfToday() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.write(
            "UPDATE repricer.price_changes SET current_sku = 'B', former_skus = '{C}'")

        let claim = try await harness.claim()

        let known = try await harness.service.read {
            try $0.ask(FoldQueries.knowing(of: ["1"]))
        }
        let claimed = try #require(claim.claimed.values.first?.subscription)
        #expect(claimed.changes.map(\.sku) == ["B"])
        #expect(claimed.changes == known.changes["1"])
        await harness.close()
    }

    @Test func claim_ofASubscriptionWithMoreToRead_handsOverNothing() async throws {
        let harness = try await Harness.make()
        for id in ["1", "2", "3"] { try await harness.subscribe(id) }
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        let batch = try await harness.submit(
            [
                Harness.row("1", "B"), Harness.row("2", line: 3, dependents: ["B"]),
                Harness.row("3", line: 4),
            ], content: "second")
        try await harness.approve(batch)
        try await harness.write(
            """
            UPDATE repricer.price_changes SET doubtful_since = \(timestamp: harness.now.milliseconds)
            WHERE original_transaction_id = '3'
            """)

        var claims: [Claimer.Claim] = []
        for _ in 0..<3 { claims.append(try await harness.claim()) }

        #expect(claims.flatMap(\.calls).count == 3)
        #expect(claims.flatMap(\.claimed.values).allSatisfy { $0.subscription == nil })
        await harness.close()
    }

    /// Else the answer would be folded into facts of before, and what came meanwhile would be lost.
    @Test(arguments: [false, true])
    func settlement_afterAStatementThatCameMeanwhile_goesOnFromThere(waits: Bool) async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let claim = try await harness.claim()
        let token = "7e3fb204-2a5c-4a5f-8f57-2f0a7d0fb3c1"
        let told = SubscriptionEvent(
            key: .init(signedAt: harness.now.advanced(by: 10), evidenceID: "meanwhile"),
            source: .notification, originalTransactionID: "1", type: "DID_CHANGE_RENEWAL_PREF",
            status: 1, transaction: TransactionStatement(appAccountToken: token, items: []))
        harness.pass(.seconds(1))

        if waits {
            let settlement = try await harness.service.withTransaction { connection in
                try SubscriptionQueries.lock(["1"], on: connection)
                let settlement = Task { try await harness.settle(claim) }
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
            try await harness.tell(told)
            try await harness.settle(claim)
        }

        let stored = try await harness.service.read {
            try SubscriptionQueries.load(["1"], on: $0)
        }
        let facts = stored["1"]?.facts
        #expect(facts?.appAccountToken == token)
        #expect(facts?.consistencyToken == "answer")
        #expect(try await harness.changes() == ["A scheduled"])
        #expect(try await harness.requestStates() == ["answered"])
        #expect(try await harness.history() == ["queued", "sending", "scheduled"])
        await harness.close()
    }

    /// The App Store took the call for the renewal that it had moved.
    @Test(arguments: [true, false])
    func extension_beforeTheClaimAndToldAfterIt_movesTheChange(isToldBeforeTheAnswer: Bool)
        async throws
    {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let before = try await harness.dueEffectiveAt()
        let stored = try await harness.service.read {
            try SubscriptionQueries.load(["1"], on: $0)
        }
        let renewal = try #require(stored["1"]?.facts.renewalAt)
        let days = 4 * Instant.millisecondsPerDay
        let extended = SubscriptionEvent(
            key: .init(signedAt: harness.now.advanced(by: -10), evidenceID: "extended"),
            source: .notification, originalTransactionID: "1", type: "RENEWAL_EXTENDED", status: 1,
            renewal: RenewalStatement(
                autoRenewStatus: 1, renewalAt: renewal.advanced(by: days), period: "P1M"))
        harness.pass(.seconds(1))
        let claim = try await harness.claim()

        if isToldBeforeTheAnswer { try await harness.tell(extended) }
        harness.pass(.seconds(1))
        try await harness.settle(claim)
        if !isToldBeforeTheAnswer { try await harness.tell(extended) }

        #expect(try await harness.dueEffectiveAt() == before + days)
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    /// A statement tells it first, then the answer does: nothing is told twice.
    @Test func settlement_ofWhatANotificationToldBefore_addsNoLine() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let claim = try await harness.claim()
        try await harness.tell(Harness.scheduled("1", at: harness.now.advanced(by: 5)))

        harness.pass(.seconds(1))
        try await harness.settle(claim)

        #expect(try await harness.changes() == ["A scheduled"])
        #expect(try await harness.requestStates() == ["answered"])
        #expect(try await harness.history() == ["queued", "sending", "scheduled"])
        await harness.close()
    }

    /// Apple's clock may be behind ours: then the answer's line stands before that of the call, and one more says the state.
    @Test func answer_signedBeforeItsCall_isToldByTheNewestLine() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let claim = try await harness.claim()

        try await harness.settle(claim, signedAt: harness.now.advanced(by: -500))

        let newest = try await harness.service.withConnection { connection in
            try await connection.query(
                "SELECT state FROM repricer.price_change_history ORDER BY occurred_at DESC LIMIT 1"
            ).one().text("state")
        }
        #expect(try await harness.changes() == ["A \(newest)"])
        await harness.close()
    }

    @Test func claim_writesNoIndexEntry() async throws {
        let harness = try await Harness.make()
        for id in ["1", "2"] { try await harness.subscribe(id) }
        try await harness.submitAndApprove(["1", "2"].map { Harness.row($0) })

        let written = try await harness.service.withTransaction { connection in
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
                    PriceCallQueries.claim(
                        [call], planned: [:], again: [], called: [],
                        now: harness.now.milliseconds))
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
        #expect(try await harness.changes() == ["A sending", "A sending"])
        await harness.close()
    }

    @Test func changeWhoseCallIsOut_countsAsSending() async throws {
        let harness = try await Harness.make()
        for id in ["1", "2"] { try await harness.subscribe(id) }
        try await harness.submitAndApprove(["1", "2"].map { Harness.row($0) })
        _ = try await harness.claim()

        let row = try await harness.service.withConnection { connection in
            try await connection.query(
                "SELECT rows_queued, rows_sending, rows_open, rows_add_up FROM report.batch_summary"
            ).one()
        }

        #expect(try row.int("rows_queued") == 1)
        #expect(try row.int("rows_sending") == 1)
        #expect(try row.int("rows_open") == 2)
        #expect(try row.bool("rows_add_up"))
        await harness.close()
    }

    /// It stays in the queue until it is settled, and nobody takes it twice.
    @Test func changeWhoseCallIsOut_isNotDue() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let claim = try await harness.claim()

        let due = try await harness.service.read { connection in
            try connection.ask(
                DueQueries.earliest(realNow: harness.realClock.nowMilliseconds()))
        }

        #expect(claim.calls.count == 1)
        #expect(due.isEmpty)
        await harness.close()
    }

    /// Replicas that reach for the same queue would else read over each other's rows: each takes a queue of its own.
    @Test func claim_besideAnotherOfItsBucket_takesNothingAndDoesNotWait() async throws {
        let harness = try await Harness.make()
        let neighbour = try await harness.service.read { connection in
            try connection.query(
                """
                SELECT i::text AS id FROM generate_series(2, 10000) i
                WHERE hashtextextended(i::text, 0) & 63 = hashtextextended('1', 0) & 63 LIMIT 1
                """
            ).one().text("id")
        }
        for id in ["1", neighbour] { try await harness.subscribe(id) }
        try await harness.submitAndApprove([
            Harness.row("1"), Harness.row(neighbour, line: 3),
        ])
        let realNow = harness.realClock.nowMilliseconds()

        let (first, second) = try await harness.service.withTransaction { connection in
            let due = try connection.ask(DueQueries.earliest(realNow: realNow))
            let locked = try connection.ask(
                DueQueries.locking(due, until: nil, limit: 1, realNow: realNow))
            return (locked.ids, try await harness.claim().calls)
        }
        let third = try await harness.claim().calls

        #expect(first.count == 1)
        #expect(second.isEmpty)
        #expect(third.count == 2)
        await harness.close()
    }
}

extension DeliveryHarness {
    private var claimer: Claimer { Claimer(engine: engine()) }

    /// How calls of price changes are carried by this harness.
    func priceKind(_ pool: DatabasePool? = nil) -> PriceChangeKind {
        let engine = engine(pool: pool)
        let permitSource = CallPermitSource.statuses(engine, perSecond: 50, wait: { _ in })
        return PriceChangeKind(
            store: store, permitSource: permitSource, checkPermitSource: permitSource,
            policy: CallPolicy(retry: Backoff(first: .seconds(1), max: .seconds(1))),
            halts: BatchHalts(
                pool: engine.pool, clock: clock, realClock: realClock, log: .silent,
                metrics: Metrics(), probes: ProbePace(spread: .zero)))
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
        let settlement = engine(pool: service).settlement(of: priceKind())
        let settled = try await settlement.settle(
            [
                Attempt(
                    call, answer(to: call, sku, end, signedAt: signedAt ?? now),
                    claimed: claim.claimed[call.callID])
            ], now: now, realNow: realClock.nowMilliseconds())
        #expect(settled.ours == [call.callID])
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

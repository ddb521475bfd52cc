import Batches
import Calls
import Postgres
import PriceChanges
import Pricing
import ServiceKit
import TestSupport
import Testing

@Suite(.database) struct DeliveryTests {
    private typealias World = DeliveryWorld

    /// Else a claim that waited would seem to be older than the one that it waited for.
    @Test func claim_afterWaitingForItsLocks_isOfTheInstantThatItGotThem() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        let scheduler = world.scheduler()

        let delivery = try await world.service.withTransaction { connection in
            try connection.script("LOCK TABLE repricer.subscriptions IN ACCESS EXCLUSIVE MODE")
            let delivery = Task { try await scheduler.round() }
            let waiters: SQL = """
                SELECT 1 FROM pg_locks
                WHERE relation = 'repricer.subscriptions'::regclass AND NOT granted
                """
            while try connection.query(waiters).isEmpty { await Task.yield() }
            world.pass(.seconds(3))
            return delivery
        }
        _ = try await delivery.value

        let preparedAt = try await world.service.withConnection { connection in
            try await connection.query("SELECT prepared_at FROM repricer.store_calls")
                .one()
                .milliseconds("prepared_at")
        }
        #expect(preparedAt == world.now.milliseconds)
        await world.close()
    }

    @Test func delivery_approvedChange_isSentOnceAndScheduled() async throws {
        let world = try await World.make()
        try await world.subscribe("1")

        try await world.submitAndApprove([World.row("1")])
        try await world.deliver(world.scheduler())
        try await world.deliver(world.scheduler())

        #expect(try await world.changes() == ["A scheduled"])
        #expect(world.store.calls.count == 1)
        #expect(world.store.calls.first?.consistencyToken == "first")
        #expect(try await world.requestStates() == ["answered"])
        await world.close()
    }

    @Test func delivery_unapprovedOrPausedOrAborted_isNeverSent() async throws {
        let world = try await World.make()
        for id in ["1", "2", "3"] { try await world.subscribe(id) }
        try await world.submit([World.row("1")], content: "unapproved")
        let paused = try await world.submit([World.row("2", line: 3)], content: "paused")
        try await world.approve(paused)
        let aborted = try await world.submit([World.row("3", line: 4)], content: "aborted")
        try await world.approve(aborted)
        let at = world.now.milliseconds
        try await world.approver.withTransaction { connection in
            try ControlQueries.setPause(
                paused, isPaused: true, reason: nil, at: at, on: connection)
            _ = try BatchQueries.withdraw(
                aborted, newState: "aborted", reason: nil, at: at, on: connection)
        }

        try await world.deliver(world.scheduler())

        #expect(world.store.calls.isEmpty)
        #expect(
            try await world.changes() == ["A awaiting_approval", "A queued", "A aborted aborted"])
        await world.close()
    }

    @Test(arguments: [ScriptedStore.Reply.lost, .unavailable])
    func delivery_answerLost_isRetriedWithTheSameIDAndNoOther(first: ScriptedStore.Reply)
        async throws
    {
        let world = try await World.make([first])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        let scheduler = world.scheduler()

        try await world.deliver(scheduler)
        #expect(try await world.changes().first?.hasPrefix("A unknown") == true)
        world.realClock.advance(by: .seconds(5))
        try await world.deliver(scheduler)

        #expect(try await world.changes() == ["A scheduled"])
        #expect(world.store.calls.count == 2)
        #expect(Set(world.store.calls.map(\.requestReferenceID)).count == 1)
        await world.close()
    }

    @Test func delivery_noAnswerThreeTimes_looksBeforeSendingAgain() async throws {
        let world = try await World.make([.unavailable, .unavailable, .lost])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        let scheduler = world.scheduler()

        for _ in 0..<6 {
            try await world.deliver(scheduler)
            world.realClock.advance(by: .seconds(5))
            world.clock.advance(by: .seconds(5))
        }

        #expect(world.store.calls.count == 3)
        #expect(world.store.looks == 1)
        #expect(try await world.changes() == ["A scheduled"])
        await world.close()
    }

    /// Sent in vain nine times: what the next answer asks for does not wait as long as a tenth would.
    @Test(arguments: [
        // Refused, so a look; looked at and not applied, so a call.
        ("send", ScriptedStore.Reply.refused(.refresh, code: 4_000_082), "check"),
        ("check", .unavailable, "send"),
    ])
    func delivery_answeredAfterManyAttempts_goesOnSoon(
        step: String, reply: ScriptedStore.Reply, next: String
    ) async throws {
        let world = try await World.make([.unavailable, reply])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        let scheduler = world.scheduler(
            retry: Backoff(first: .seconds(1), max: .seconds(600), jitter: 0))
        try await world.deliver(scheduler)
        try await world.service.withConnection { connection in
            _ = try await connection.execute(
                "UPDATE repricer.store_calls SET attempts = 9, next_step = \(step)")
        }

        world.realClock.advance(by: .seconds(2))
        try await world.deliver(scheduler)

        let until = world.realClock.nowMilliseconds() + 1000
        let left = try await world.service.withConnection { connection in
            try await connection.query(
                """
                SELECT next_step, next_attempt_at <= \(timestamp: until) AS is_soon
                FROM repricer.store_calls
                """
            ).one()
        }
        #expect(try left.text("next_step") == next)
        #expect(try left.bool("is_soon"))
        await world.close()
    }

    @Test func delivery_refusedOnARetry_looksAndFindsItApplied() async throws {
        let world = try await World.make([.lost, .refused(.look, code: 4_000_205)])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        let scheduler = world.scheduler()

        for _ in 0..<4 {
            try await world.deliver(scheduler)
            world.realClock.advance(by: .seconds(5))
        }

        #expect(try await world.changes() == ["A scheduled"])
        #expect(world.store.applied.count == 1)
        await world.close()
    }

    @Test func delivery_processDiedWithACallInFlight_anotherTakesOverWithTheSameID() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        let dying = DyingStore(world.store)
        // It lives on here, and would renew a lease of seconds while the test's clock jumps.
        let victim = Task {
            try await world.scheduler(calls: dying, leaseFor: .seconds(3600)).round()
        }
        await dying.waitForCall()

        #expect(try await world.scheduler().round() == 0)
        world.realClock.advance(by: .seconds(3601))
        try await world.deliver(world.scheduler())
        await dying.comeBack()
        _ = try await victim.value

        #expect(try await world.changes() == ["A scheduled"])
        #expect(world.store.calls.count == 1)
        #expect(world.store.calls.map(\.requestReferenceID) == [await dying.requestID])
        await world.close()
    }

    @Test func delivery_refused_endsWithTheCode() async throws {
        let world = try await World.make([.refused(.reject, code: 4_000_220)])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])

        try await world.deliver(world.scheduler())

        #expect(try await world.changes() == ["A rejected 4000220 code_4000220"])
        await world.close()
    }

    @Test func delivery_groupRefused_eachItemIsTriedByItself() async throws {
        let world = try await World.make([.refused(.reject, code: 4_000_220)])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1"), World.row("1", "B", line: 3)])

        try await world.deliver(world.scheduler())

        #expect(world.store.calls.map(\.items.count) == [2, 1, 1])
        #expect(try await world.changes() == ["A scheduled", "B scheduled"])
        await world.close()
    }

    @Test func delivery_staleToken_isJudgedAgainWithANewID() async throws {
        let world = try await World.make([.refused(.refresh, code: 4_000_082)])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        let scheduler = world.scheduler()

        try await world.deliver(scheduler)
        world.realClock.advance(by: .seconds(5))
        try await world.deliver(scheduler)

        #expect(try await world.changes() == ["A scheduled"])
        #expect(Set(world.store.calls.map(\.requestReferenceID)).count == 2)
        #expect(try await world.requestStates() == ["refused", "answered"])
        await world.close()
    }

    @Test func delivery_throttled_everyReplicaWaitsForTheInstant() async throws {
        let until = World.start.advanced(by: 3_600_000)
        let world = try await World.make([.throttled(until: until)])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])

        try await world.deliver(world.scheduler())
        try await world.deliver(world.scheduler())
        #expect(world.store.calls.count == 1)
        #expect(try await world.changes().first?.hasPrefix("A queued") == true)
        world.clock.set(until.milliseconds)
        try await world.deliver(world.scheduler())

        #expect(world.store.calls.count == 2)
        #expect(try await world.changes() == ["A scheduled"])
        await world.close()
    }

    @Test func delivery_keyRefused_everyReplicaWaitsAMinuteAndNothingIsLost() async throws {
        let world = try await World.make([.refused(.haltService, code: 4_010_000)])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])

        try await world.deliver(world.scheduler())
        world.realClock.advance(by: .seconds(5))
        try await world.deliver(world.scheduler())
        #expect(world.store.calls.count == 1)
        world.clock.advance(by: .seconds(60))
        try await world.deliver(world.scheduler())

        #expect(world.store.calls.count == 2)
        #expect(try await world.changes() == ["A scheduled"])
        await world.close()
    }

    @Test func delivery_rulesImportedSinceTheSubmission_judgeAtOnce() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.subscribe("2")
        let scheduler = world.scheduler()
        try await world.submitAndApprove([World.row("1")])
        try await world.deliver(scheduler)
        try await world.approve(
            try await world.submit([World.row("2", line: 3)], content: "second"))
        let at = world.now
        try await world.submitter.withTransaction { connection in
            try RuleQueries.add(
                RuleSet(
                    thresholds: [],
                    alwaysConsent: [.init(storefront: "USA", validFrom: at, source: .apple)],
                    currencies: []),
                as: RuleQueries.NewImport(
                    revision: 2, importedAt: at.milliseconds, file: "rules.csv",
                    contentSHA256: ""), on: connection)
        }
        try await world.deliver(scheduler)

        #expect(try await world.changes() == ["A scheduled", "A ineligible drifted"])
        await world.close()
    }

    @Test func delivery_factsChangedSinceTheSubmission_endsIneligible() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        try await world.tell(
            SubscriptionEvent(
                key: .init(signedAt: World.start, evidenceID: "off"), source: .notification,
                originalTransactionID: "1", type: "DID_CHANGE_RENEWAL_STATUS",
                subtype: "AUTO_RENEW_DISABLED", status: 1,
                renewal: RenewalStatement(autoRenewStatus: 0)))

        try await world.deliver(world.scheduler())

        #expect(try await world.changes() == ["A ineligible auto_renew_off"])
        #expect(world.store.calls.isEmpty)
        await world.close()
    }

    @Test func delivery_twoConsentItemsOfOneSubscription_areTwoRequestsNeverAtOnce() async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submitAndApprove([
            World.row("1", to: 19990), World.row("1", "B", to: 19990, line: 3),
        ])

        let store = SilentStore(to: ["1"], others: world.store)
        let first = world.scheduler(calls: store)
        let round = Task { try await first.round() }
        while store.asked == 0 { await Task.yield() }
        #expect(try await world.scheduler(calls: store).round() == 0)
        #expect(store.asked == 1)
        store.answer()
        _ = try await round.value
        try await world.deliver(world.scheduler())

        #expect(world.store.calls.map { $0.items.count } == [1, 1])
        #expect(world.store.calls.last?.consistencyToken == "next")
        await world.close()
    }

    @Test func delivery_fourLanes_sendEachChangeOnceAndWithinTheRate() async throws {
        let world = try await World.make()
        let ids = (1...60).map { String($0) }
        for id in ids { try await world.subscribe(id) }
        try await world.submitAndApprove(
            ids.enumerated().map { World.row($0.element, line: $0.offset + 2) })

        try await withThrowingTaskGroup(of: Void.self) { group in
            for place in 0..<4 {
                let scheduler = world.scheduler()
                group.addTask {
                    for _ in 0..<100 where try await scheduler.round(place: place) == 0 { return }
                }
            }
            try await group.waitForAll()
        }
        // All replicas together have spent one second's calls, and the clock stands still.
        // Slots that one lane reserved before it found its changes taken are lost.
        #expect(world.store.calls.count <= 50)
        #expect(world.store.calls.count > 25)
        world.clock.advance(by: .seconds(1))
        try await world.deliver(world.scheduler())

        #expect(world.store.calls.map(\.originalTransactionID).sorted() == ids.sorted())
        #expect(try await world.changes().allSatisfy { $0 == "A scheduled" })
        await world.close()
    }
}

/// A process that dies after it wrote the intent: its call never returns until somebody else is done.
private actor DyingStore: StoreCalls {
    private let store: ScriptedStore
    private(set) var requestID: String?
    private var called: CheckedContinuation<Void, Never>?
    private var resurrection: CheckedContinuation<Void, Never>?

    init(_ store: ScriptedStore) { self.store = store }

    func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        requestID = intent.requestReferenceID
        called?.resume()
        called = nil
        await withCheckedContinuation { resurrection = $0 }
        return .unknown(reason: "died", StoreReply())
    }

    func look(transactionID: String) async -> StoreAnswer {
        await store.look(transactionID: transactionID)
    }

    func waitForCall() async {
        guard requestID == nil else { return }
        await withCheckedContinuation { called = $0 }
    }

    func comeBack() { resurrection?.resume() }
}

import AppStore
import Batches
import Calls
import Postgres
import PriceChanges
import ServiceKit
import TestSupport
import Testing

@testable import Pricing

@Suite(.database) struct DeliveryTests {
    private typealias Harness = DeliveryHarness

    /// Else a claim that waited would seem to be older than the one that it waited for.
    @Test func claim_afterWaitingForItsLocks_isOfTheInstantThatItGotThem() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let scheduler = harness.scheduler()

        let delivery = try await harness.service.withTransaction { connection in
            try connection.script("LOCK TABLE repricer.subscriptions IN ACCESS EXCLUSIVE MODE")
            let delivery = Task { try await scheduler.round() }
            let waiters: SQL = """
                SELECT 1 FROM pg_locks
                WHERE relation = 'repricer.subscriptions'::regclass AND NOT granted
                """
            while try connection.query(waiters).isEmpty { await Task.yield() }
            harness.pass(.seconds(3))
            return delivery
        }
        _ = try await delivery.value

        let preparedAt = try await harness.service.withConnection { connection in
            try await connection.query("SELECT prepared_at FROM repricer.store_calls")
                .one()
                .milliseconds("prepared_at")
        }
        #expect(preparedAt == harness.now.milliseconds)
        await harness.close()
    }

    @Test func delivery_approvedChange_isSentOnceAndScheduled() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")

        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        try await harness.deliver(harness.scheduler())

        #expect(try await harness.changes() == ["A scheduled"])
        #expect(harness.store.calls.count == 1)
        #expect(harness.store.calls.first?.consistencyToken == "first")
        #expect(try await harness.requestStates() == ["answered"])
        await harness.close()
    }

    @Test func delivery_unapprovedOrPausedOrAborted_isNeverSent() async throws {
        let harness = try await Harness.make()
        for id in ["1", "2", "3"] { try await harness.subscribe(id) }
        try await harness.submit([Harness.row("1")], content: "unapproved")
        let paused = try await harness.submit([Harness.row("2", line: 3)], content: "paused")
        try await harness.approve(paused)
        let aborted = try await harness.submit([Harness.row("3", line: 4)], content: "aborted")
        try await harness.approve(aborted)
        let at = harness.now.milliseconds
        try await harness.approver.withTransaction { connection in
            try ControlQueries.setPause(
                paused, isPaused: true, reason: nil, at: at, on: connection)
            _ = try BatchQueries.withdraw(
                aborted, newState: "aborted", reason: nil, at: at, on: connection)
        }

        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.isEmpty)
        #expect(
            try await harness.changes() == ["A awaiting_approval", "A queued", "A aborted aborted"])
        await harness.close()
    }

    @Test(arguments: [ScriptedStore.Reply.lost, .unavailable])
    func delivery_answerLost_isRetriedWithTheSameIDAndNoOther(first: ScriptedStore.Reply)
        async throws
    {
        let harness = try await Harness.make([first])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        #expect(try await harness.changes().first?.hasPrefix("A unknown") == true)
        harness.realClock.advance(by: .seconds(5))
        try await harness.deliver(scheduler)

        #expect(try await harness.changes() == ["A scheduled"])
        #expect(harness.store.calls.count == 2)
        #expect(Set(harness.store.calls.map(\.requestReferenceID)).count == 1)
        await harness.close()
    }

    @Test func delivery_noAnswerThreeTimes_checksBeforeSendingAgain() async throws {
        let harness = try await Harness.make([.unavailable, .unavailable, .lost])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let scheduler = harness.scheduler()

        for _ in 0..<6 {
            try await harness.deliver(scheduler)
            harness.realClock.advance(by: .seconds(5))
            harness.clock.advance(by: .seconds(5))
        }

        #expect(harness.store.calls.count == 3)
        #expect(harness.store.checks == 1)
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    /// Refused, so a check; checked and not applied, so a call. After nine in vain the check does not wait as long as a
    /// tenth would, and the tenth waits for it.
    @Test(arguments: [
        ("send", 9, ScriptedStore.Reply.refused(.refresh, code: 4_000_082), "check", true),
        ("check", 3, .unavailable, "send", true), ("check", 9, .unavailable, "send", false),
    ])
    func delivery_answeredAfterManyAttempts_checksSoon_andSendsLater(
        step: String, attempts: Int, reply: ScriptedStore.Reply, next: String, isSoon: Bool
    ) async throws {
        let harness = try await Harness.make([.unavailable, reply])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let scheduler = harness.scheduler(
            retry: Backoff(first: .seconds(1), max: .seconds(600), jitter: 0))
        try await harness.deliver(scheduler)
        try await harness.service.withConnection { connection in
            _ = try await connection.execute(
                "UPDATE repricer.store_calls SET attempts = \(attempts), next_step = \(step)")
        }

        harness.realClock.advance(by: .seconds(2))
        try await harness.deliver(scheduler)

        let until = harness.realClock.nowMilliseconds() + 1000
        let left = try await harness.service.withConnection { connection in
            try await connection.query(
                """
                SELECT next_step, next_attempt_at <= \(timestamp: until) AS is_soon
                FROM repricer.store_calls
                """
            ).one()
        }
        #expect(try left.text("next_step") == next)
        #expect(try left.bool("is_soon") == isSoon)
        await harness.close()
    }

    @Test func delivery_refusedOnARetry_checksAndFindsItApplied() async throws {
        let harness = try await Harness.make([.lost, .refused(.checkStatus, code: 4_000_205)])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let scheduler = harness.scheduler()

        for _ in 0..<4 {
            try await harness.deliver(scheduler)
            harness.realClock.advance(by: .seconds(5))
        }

        #expect(try await harness.changes() == ["A scheduled"])
        #expect(harness.store.applied.count == 1)
        await harness.close()
    }

    @Test func delivery_processDiedWithACallInFlight_anotherTakesOverWithTheSameID() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let dying = DyingStore(harness.store)
        // It lives on here, and would renew a lease of seconds while the test's clock jumps.
        let victim = Task {
            try await harness.scheduler(calls: dying, leaseFor: .seconds(3600)).round()
        }
        await dying.waitForCall()

        #expect(try await harness.scheduler().round() == 0)
        harness.realClock.advance(by: .seconds(3601))
        try await harness.deliver(harness.scheduler())
        await dying.comeBack()
        _ = try await victim.value

        #expect(try await harness.changes() == ["A scheduled"])
        #expect(harness.store.calls.count == 1)
        #expect(harness.store.calls.map(\.requestReferenceID) == [await dying.requestID])
        await harness.close()
    }

    @Test func delivery_refused_endsWithTheCode() async throws {
        let harness = try await Harness.make([.refused(.reject, code: 4_000_220)])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])

        try await harness.deliver(harness.scheduler())

        #expect(try await harness.changes() == ["A rejected 4000220 code_4000220"])
        await harness.close()
    }

    @Test func delivery_groupRefused_eachItemIsTriedByItself() async throws {
        let harness = try await Harness.make([.refused(.reject, code: 4_000_220)])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([
            Harness.row("1"), Harness.row("1", "B", line: 3),
        ])

        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.map(\.items.count) == [2, 1, 1])
        #expect(try await harness.changes() == ["A scheduled", "B scheduled"])
        await harness.close()
    }

    @Test func delivery_staleToken_isJudgedAgainWithANewID() async throws {
        let harness = try await Harness.make([.refused(.refresh, code: 4_000_082)])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        harness.realClock.advance(by: .seconds(5))
        try await harness.deliver(scheduler)

        #expect(try await harness.changes() == ["A scheduled"])
        #expect(Set(harness.store.calls.map(\.requestReferenceID)).count == 2)
        #expect(try await harness.requestStates() == ["refused", "answered"])
        await harness.close()
    }

    @Test func delivery_throttled_everyReplicaWaitsForTheInstant() async throws {
        let until = Harness.start.advanced(by: 3_600_000)
        let harness = try await Harness.make([.throttled(until: until)])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])

        try await harness.deliver(harness.scheduler())
        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.count == 1)
        #expect(try await harness.changes().first?.hasPrefix("A queued") == true)
        harness.clock.set(until.milliseconds)
        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.count == 2)
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    @Test func delivery_rulesImportedSinceTheSubmission_judgeAtOnce() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.subscribe("2")
        let scheduler = harness.scheduler()
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(scheduler)
        try await harness.approve(
            try await harness.submit([Harness.row("2", line: 3)], content: "second"))
        try await Self.alwaysAsk(harness)
        try await harness.deliver(scheduler)

        #expect(try await harness.changes() == ["A scheduled", "A ineligible drifted"])
        await harness.close()
    }

    @Test func delivery_historyImportedSinceTheSubmission_judgesAtOnce() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let at = harness.now
        try await harness.submitter.withTransaction { connection in
            _ = try IncreaseQueries.add(
                [
                    ImportedIncrease(
                        originalTransactionID: "1", sku: "B",
                        increasedOn: at.advanced(by: -30 * 86_400_000).day, oldPrice: 5000,
                        newPrice: 6000, currency: "USD")
                ], file: "history.csv", contentSHA256: "", at: at.milliseconds, on: connection)
        }
        try await harness.deliver(harness.scheduler())

        #expect(try await harness.changes() == ["A ineligible drifted"])
        await harness.close()
    }

    @Test func delivery_whatWasNotKnownAndTurnsOutRequired_isSent() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let connection = try await TestDatabase.connect()
        try await connection.script("UPDATE repricer.subscriptions SET known_since = NULL")
        try await harness.submitAndApprove([Harness.row("1")])
        let forecast = try await connection.query(
            "SELECT forecast_consent FROM repricer.price_changes"
        ).one().text("forecast_consent")
        await connection.close()
        try await Self.alwaysAsk(harness)
        try await harness.deliver(harness.scheduler())

        #expect(forecast == "not_known")
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    /// Imports that every increase in the USA needs consent from now on.
    private static func alwaysAsk(_ harness: Harness) async throws {
        let at = harness.now
        try await harness.submitter.withTransaction { connection in
            _ = try RuleQueries.add(
                [.init(rule: .alwaysConsent("USA", validFrom: at))],
                file: "rules.csv", contentSHA256: "", at: at.milliseconds, on: connection)
        }
    }

    @Test func delivery_factsChangedSinceTheSubmission_endsIneligible() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.tell(
            SubscriptionEvent(
                key: .init(signedAt: Harness.start, evidenceID: "off"), source: .notification,
                originalTransactionID: "1", type: "DID_CHANGE_RENEWAL_STATUS",
                subtype: "AUTO_RENEW_DISABLED", status: 1,
                renewal: RenewalStatement(autoRenewStatus: 0)))

        try await harness.deliver(harness.scheduler())

        #expect(try await harness.changes() == ["A ineligible auto_renew_off"])
        #expect(harness.store.calls.isEmpty)
        await harness.close()
    }

    @Test func delivery_twoConsentItemsOfOneSubscription_areTwoRequestsNeverAtOnce() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([
            Harness.row("1", to: 19990), Harness.row("1", "B", to: 19990, line: 3),
        ])

        let store = SilentStore(to: ["1"], others: harness.store)
        let first = harness.scheduler(calls: store)
        let round = Task { try await first.round() }
        while store.asked == 0 { await Task.yield() }
        #expect(try await harness.scheduler(calls: store).round() == 0)
        #expect(store.asked == 1)
        store.answer()
        _ = try await round.value
        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.map { $0.items.count } == [1, 1])
        #expect(harness.store.calls.last?.consistencyToken == "next")
        await harness.close()
    }

    @Test func delivery_fourLanes_sendEachChangeOnceAndWithinTheRate() async throws {
        let harness = try await Harness.make()
        let ids = (1...60).map { String($0) }
        for id in ids { try await harness.subscribe(id) }
        try await harness.submitAndApprove(
            ids.enumerated().map { Harness.row($0.element, line: $0.offset + 2) })

        try await withThrowingTaskGroup(of: Void.self) { group in
            for place in 0..<4 {
                let scheduler = harness.scheduler()
                group.addTask {
                    for _ in 0..<100 where try await scheduler.round(place: place) == 0 { return }
                }
            }
            try await group.waitForAll()
        }
        // All replicas together have spent one second's calls, and the clock stands still.
        // Permits that one lane reserved before it found its changes taken are lost.
        #expect(harness.store.calls.count <= 50)
        #expect(harness.store.calls.count > 25)
        harness.clock.advance(by: .seconds(1))
        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.map(\.transactionID).sorted() == ids.sorted())
        #expect(try await harness.changes().allSatisfy { $0 == "A scheduled" })
        await harness.close()
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

    func checkStatus(transactionID: String) async -> StoreAnswer {
        await store.checkStatus(transactionID: transactionID)
    }

    func waitForCall() async {
        guard requestID == nil else { return }
        await withCheckedContinuation { called = $0 }
    }

    func comeBack() { resurrection?.resume() }
}

import AppStore
import Calls
import Postgres
import PriceChanges
import Pricing
import Synchronization
import TestSupport
import Testing

/// What happens between a claim and its settlement: people decide, notifications arrive, Apple is slow.
@Suite(.database) struct InterruptionTests {
    private typealias Harness = DeliveryHarness

    @Test(arguments: [
        ScriptedStore.Reply.notSent, .throttled(until: Harness.start),
        .refused(.refresh, code: 4_000_082),
    ])
    func delivery_abortedWhileInFlight_isNotSentAgain(reply: ScriptedStore.Reply) async throws {
        let harness = try await Harness.make([reply])
        try await harness.subscribe("1")
        let batchID = try await harness.submitAndApprove([Harness.row("1", dependents: ["B"])])
        let interrupted = InterruptedStore(harness.store) { try await harness.abort(batchID) }

        _ = try await harness.scheduler(calls: interrupted).round()
        harness.realClock.advance(by: .seconds(5))
        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.count == 1)
        #expect(try await harness.changes() == ["A aborted aborted"])
        #expect(try await harness.count("dependency_roles") == 0)
        await harness.close()
    }

    @Test func delivery_abortedWhileUnknown_checksAndNeverSendsAgain() async throws {
        let harness = try await Harness.make([.unavailable])
        try await harness.subscribe("1")
        let batchID = try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        try await harness.abort(batchID)

        for _ in 0..<5 {
            harness.realClock.advance(by: .seconds(50))
            try await harness.deliver(harness.scheduler())
        }

        #expect(harness.store.calls.count == 1)
        #expect(harness.store.checks == 3)
        #expect(try await harness.changes() == ["A aborted aborted"])
        await harness.close()
    }

    @Test func delivery_abortedWhileUnknownButApplied_staysWithApple() async throws {
        let harness = try await Harness.make([.lost])
        try await harness.subscribe("1")
        let batchID = try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        try await harness.abort(batchID)

        harness.realClock.advance(by: .seconds(5))
        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.count == 1)
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    @Test(arguments: ["batch", "all"])
    func delivery_pausedWhileUnknown_isNotSentUntilResumed(what: String) async throws {
        let harness = try await Harness.make([.unavailable])
        try await harness.subscribe("1")
        let batchID = try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        let paused = what == "all" ? nil : batchID
        try await harness.setPause(paused, true)

        harness.realClock.advance(by: .seconds(5))
        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.count == 1)
        try await harness.setPause(paused, false)
        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.count == 2)
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    /// Each round asks the database: the pause holds from the next one on, on every replica and after a restart.
    @Test(arguments: ["batch", "all"])
    func delivery_pausedOnTwoReplicas_stopsBothUntilResumed(what: String) async throws {
        let harness = try await Harness.make()
        // More than two claims take.
        let ids = (1...60).map(String.init)
        for id in ids { try await harness.subscribe(id) }
        let batchID = try await harness.submitAndApprove(
            ids.enumerated().map { Harness.row($0.element, line: $0.offset + 2) })
        let replicas = [harness.scheduler(), harness.scheduler()]
        for replica in replicas { _ = try await replica.round() }
        let sent = harness.store.calls.count
        #expect((2..<60).contains(sent))

        let paused = what == "all" ? nil : batchID
        try await harness.setPause(paused, true)
        for replica in replicas + [harness.scheduler()] { try await harness.deliver(replica) }
        #expect(harness.store.calls.count == sent)
        try await harness.setPause(paused, false)
        // The first second's calls are made.
        harness.clock.advance(by: .seconds(2))
        for replica in replicas { try await harness.deliver(replica) }

        #expect(harness.store.calls.count == 60)
        #expect(try await harness.changes() == [String](repeating: "A scheduled", count: 60))
        await harness.close()
    }

    @Test func delivery_retries_waitForTheRateAndForSilence() async throws {
        let until = Harness.start.advanced(by: 60_000)
        let harness = try await Harness.make([.unavailable, .throttled(until: until)])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        harness.realClock.advance(by: .seconds(5))
        try await harness.deliver(harness.scheduler())
        harness.realClock.advance(by: .seconds(5))
        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.count == 2)

        harness.clock.set(until.milliseconds)
        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.count == 3)
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    @Test func delivery_notificationBeforeALostAnswer_needsNoFurtherCall() async throws {
        let harness = try await Harness.make([.lost])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let interrupted = InterruptedStore(harness.store) {
            try await harness.tell(Harness.scheduled("1"))
        }

        _ = try await harness.scheduler(calls: interrupted).round()
        harness.realClock.advance(by: .seconds(5))
        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.count == 1)
        #expect(try await harness.changes() == ["A scheduled"])
        #expect(try await harness.requestStates() == ["answered"])
        #expect(try await harness.history() == ["queued", "sending", "scheduled"])
        await harness.close()
    }

    @Test func delivery_notificationDuringARetry_leavesTheOneCallInFlight() async throws {
        let harness = try await Harness.make([.unavailable])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([
            Harness.row("1", to: 19990), Harness.row("1", "B", to: 19990, line: 3),
        ])
        try await harness.deliver(harness.scheduler())
        harness.realClock.advance(by: .seconds(5))
        let sku = harness.store.calls[0].items[0].sku
        let interrupted = InterruptedStore(harness.store) {
            try await harness.tell(Harness.scheduled("1", sku, to: 19990))
            _ = try await harness.scheduler().round()
            #expect(harness.store.calls.count == 1, "the retry has not come back yet")
        }

        _ = try await harness.scheduler(calls: interrupted).round()

        #expect(harness.store.calls.count >= 2)
        await harness.close()
    }

    @Test func delivery_staleToken_isSentAgainWithTheTokenOfTheStatus() async throws {
        let harness = try await Harness.make([.refused(.refresh, code: 4_000_082)])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        harness.realClock.advance(by: .seconds(5))
        try await harness.deliver(harness.scheduler())

        #expect(harness.store.checks == 1)
        #expect(harness.store.calls.map(\.consistencyToken) == ["first", "of the status"])
        await harness.close()
    }

    @Test func delivery_staleTokenWhileChecksAreSilenced_isStoredWithoutWaitingItOut() async throws
    {
        let until = Harness.start.advanced(by: 3_600_000)
        let harness = try await Harness.make([.refused(.refresh, code: 4_000_082)])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let checks = CallPermitSource(
            pool: harness.service, endpoint: "status", perSecond: 50, clock: harness.clock)
        // Its row is made by the first lease.
        _ = try await checks.lease(1)
        try await checks.block(until: until)
        let clock = harness.clock

        _ = try await harness.scheduler(wait: { clock.advance(by: $0) }).round()

        #expect(harness.store.checks == 0)
        #expect(harness.now < until)
        #expect(try await harness.changes().first?.hasPrefix("A queued") == true)
        await harness.close()
    }

    /// What was changed meanwhile is not known: a call without a token would change it again, or over somebody's price.
    @Test(arguments: [
        StoreAnswer.throttled(
            until: Harness.start.advanced(by: 600_000), StoreReply(httpStatus: 429)),
        .unknown(reason: "503", StoreReply(httpStatus: 503)),
        .unknown(reason: "timed out", StoreReply()),
        .answered([], StoreReply(httpStatus: 200)),
        Harness.refusal(.haltService, 403),
    ])
    func delivery_staleTokenAndNoStatus_isNotSentWithoutAToken(answer: StoreAnswer) async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        harness.store.setValidToken("newer")
        harness.store.answerChecks(answer)
        let scheduler = harness.scheduler()
        func pass(_ halfMinutes: Int) async throws {
            for _ in 0..<halfMinutes {
                try await harness.deliver(scheduler)
                harness.clock.advance(by: .seconds(30))
                harness.realClock.advance(by: .seconds(30))
            }
        }

        try await pass(20)
        let unread = harness.store.calls.map(\.consistencyToken)
        let parked = try await harness.texts(
            "SELECT parked_reason AS text FROM repricer.price_changes")
        harness.store.answerChecks(nil)
        try await pass(130)

        #expect(Set(unread) == ["first"])
        #expect((2...4).contains(unread.count))
        #expect(parked == ["4000082 code_4000082"])
        #expect(harness.store.calls.last?.consistencyToken == "newer")
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    @Test func delivery_staleTokenAndAStatusThatAsksToWait_silencesTheChecksOfEveryReplica()
        async throws
    {
        let harness = try await Harness.make([.refused(.refresh, code: 4_000_082)])
        harness.store.answerChecks(
            .unknown(reason: "503", StoreReply(httpStatus: 503, retryAfter: .seconds(30))))
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])

        try await harness.deliver(harness.scheduler())

        let checks = CallPermitSource(
            pool: harness.service, endpoint: "status", perSecond: 50, clock: harness.clock)
        #expect(
            try await checks.lease(1).lease.blockedUntil
                == Harness.start.advanced(by: 30_000).milliseconds)
        await harness.close()
    }

    /// Each open call would ask by itself otherwise.
    @Test func delivery_checkThatIsToldToWait_silencesTheChecksOfEveryReplica() async throws {
        let harness = try await Harness.make([.unavailable, .unavailable, .unavailable])
        harness.store.answerChecks(
            .unknown(reason: "503", StoreReply(httpStatus: 503, retryAfter: .seconds(30))))
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])

        let scheduler = harness.scheduler()
        for _ in 0..<60 where harness.store.checks == 0 {
            try await harness.deliver(scheduler)
            harness.clock.advance(by: .seconds(2))
            harness.realClock.advance(by: .seconds(2))
        }

        let checks = CallPermitSource(
            pool: harness.service, endpoint: "status", perSecond: 50, clock: harness.clock)
        #expect(harness.store.checks == 1)
        #expect(try await checks.lease(1).lease.blockedUntil != nil)
        await harness.close()
    }

    @Test func service_toldToStop_putsBackWhatHasNotLeft() async throws {
        let harness = try await Harness.make()
        let ids = (1...20).map(String.init)
        for id in ids { try await harness.subscribe(id) }
        try await harness.submitAndApprove(
            ids.enumerated().map { Harness.row($0.element, line: $0.offset + 2) })
        let running = Mutex<Task<Void, any Error>?>(nil)
        // The first call that waits for its permit finds the service told to stop. Permits are so far apart that a slow
        // machine waits for one, too.
        let scheduler = harness.scheduler(
            perSecond: 5,
            wait: { _ in
                while running.withLock({ $0 == nil }) { await Task.yield() }
                running.withLock { $0?.cancel() }
            })
        let task = Task { try await scheduler.run() }
        running.withLock { $0 = task }

        try await task.value

        let called = harness.store.calls.count
        #expect(called < 5)
        #expect(try await harness.changes().count { $0.hasPrefix("A queued") } == 20 - called)
        await harness.close()
    }

    @Test func delivery_staleTokenAndACheckThrottled_silencesTheChecksOfEveryReplica() async throws
    {
        let until = Harness.start.advanced(by: 3_600_000)
        let harness = try await Harness.make([.refused(.refresh, code: 4_000_082)])
        harness.store.throttleChecks(until: until)
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])

        try await harness.deliver(harness.scheduler())

        let checks = CallPermitSource(
            pool: harness.service, endpoint: "status", perSecond: 50, clock: harness.clock)
        #expect(harness.store.checks == 1)
        #expect(try await checks.lease(1).lease.blockedUntil == until.milliseconds)
        #expect(try await harness.changes().first?.hasPrefix("A queued") == true)
        await harness.close()
    }
}

/// Lets something happen while the first call, or the first check, is on its way.
actor InterruptedStore: StoreCalls {
    private let store: any StoreCalls
    private var meanwhile: (@Sendable () async throws -> Void)?

    init(_ store: any StoreCalls, _ meanwhile: @escaping @Sendable () async throws -> Void) {
        self.store = store
        self.meanwhile = meanwhile
    }

    func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        await interrupt()
        return await store.changePrice(intent, leavingBefore: leavingBefore)
    }

    func checkStatus(transactionID: String) async -> StoreAnswer {
        await interrupt()
        return await store.checkStatus(transactionID: transactionID)
    }

    private func interrupt() async {
        let action = meanwhile
        meanwhile = nil
        do { try await action?() } catch { Issue.record(error) }
    }
}

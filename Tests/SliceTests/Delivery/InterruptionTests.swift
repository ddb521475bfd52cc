import Calls
import Postgres
import PriceChanges
import Pricing
import Synchronization
import TestSupport
import Testing

/// What happens between a claim and its settlement: people decide, notifications arrive, Apple is slow.
@Suite(.database) struct InterruptionTests {
    private typealias World = DeliveryWorld

    @Test(arguments: [
        ScriptedStore.Reply.notSent, .throttled(until: World.start),
        .refused(.refresh, code: 4_000_082),
    ])
    func delivery_abortedWhileInFlight_isNotSentAgain(reply: ScriptedStore.Reply) async throws {
        let world = try await World.make([reply])
        try await world.subscribe("1")
        let batchID = try await world.submitAndApprove([World.row("1", dependents: ["B"])])
        let interrupted = InterruptedStore(world.store) { try await world.abort(batchID) }

        _ = try await world.scheduler(calls: interrupted).round()
        world.realClock.advance(by: .seconds(5))
        try await world.deliver(world.scheduler())

        #expect(world.store.calls.count == 1)
        #expect(try await world.changes() == ["A aborted aborted"])
        #expect(try await world.count("dependency_roles") == 0)
        await world.close()
    }

    @Test func delivery_abortedWhileUnknown_looksAndNeverSendsAgain() async throws {
        let world = try await World.make([.unavailable])
        try await world.subscribe("1")
        let batchID = try await world.submitAndApprove([World.row("1")])
        try await world.deliver(world.scheduler())
        try await world.abort(batchID)

        for _ in 0..<5 {
            world.realClock.advance(by: .seconds(50))
            try await world.deliver(world.scheduler())
        }

        #expect(world.store.calls.count == 1)
        #expect(world.store.looks == 3)
        #expect(try await world.changes() == ["A aborted aborted"])
        await world.close()
    }

    @Test func delivery_abortedWhileUnknownButApplied_staysWithApple() async throws {
        let world = try await World.make([.lost])
        try await world.subscribe("1")
        let batchID = try await world.submitAndApprove([World.row("1")])
        try await world.deliver(world.scheduler())
        try await world.abort(batchID)

        world.realClock.advance(by: .seconds(5))
        try await world.deliver(world.scheduler())

        #expect(world.store.calls.count == 1)
        #expect(try await world.changes() == ["A scheduled"])
        await world.close()
    }

    @Test(arguments: ["batch", "all"])
    func delivery_pausedWhileUnknown_isNotSentUntilResumed(what: String) async throws {
        let world = try await World.make([.unavailable])
        try await world.subscribe("1")
        let batchID = try await world.submitAndApprove([World.row("1")])
        try await world.deliver(world.scheduler())
        let paused = what == "all" ? nil : batchID
        try await world.setPause(paused, true)

        world.realClock.advance(by: .seconds(5))
        try await world.deliver(world.scheduler())
        #expect(world.store.calls.count == 1)
        try await world.setPause(paused, false)
        try await world.deliver(world.scheduler())

        #expect(world.store.calls.count == 2)
        #expect(try await world.changes() == ["A scheduled"])
        await world.close()
    }

    /// Each round asks the database: the pause holds from the next one on, on every replica and after a restart.
    @Test(arguments: ["batch", "all"])
    func delivery_pausedOnTwoReplicas_stopsBothUntilResumed(what: String) async throws {
        let world = try await World.make()
        // More than two claims take.
        let ids = (1...60).map(String.init)
        for id in ids { try await world.subscribe(id) }
        let batchID = try await world.submitAndApprove(
            ids.enumerated().map { World.row($0.element, line: $0.offset + 2) })
        let replicas = [world.scheduler(), world.scheduler()]
        for replica in replicas { _ = try await replica.round() }
        let sent = world.store.calls.count
        #expect((2..<60).contains(sent))

        let paused = what == "all" ? nil : batchID
        try await world.setPause(paused, true)
        for replica in replicas + [world.scheduler()] { try await world.deliver(replica) }
        #expect(world.store.calls.count == sent)
        try await world.setPause(paused, false)
        // The first second's calls are made.
        world.clock.advance(by: .seconds(2))
        for replica in replicas { try await world.deliver(replica) }

        #expect(world.store.calls.count == 60)
        #expect(try await world.changes() == [String](repeating: "A scheduled", count: 60))
        await world.close()
    }

    @Test func delivery_retries_waitForTheRateAndForSilence() async throws {
        let until = World.start.advanced(by: 60_000)
        let world = try await World.make([.unavailable, .throttled(until: until)])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        try await world.deliver(world.scheduler())
        world.realClock.advance(by: .seconds(5))
        try await world.deliver(world.scheduler())
        world.realClock.advance(by: .seconds(5))
        try await world.deliver(world.scheduler())
        #expect(world.store.calls.count == 2)

        world.clock.set(until.milliseconds)
        try await world.deliver(world.scheduler())

        #expect(world.store.calls.count == 3)
        #expect(try await world.changes() == ["A scheduled"])
        await world.close()
    }

    @Test func delivery_notificationBeforeALostAnswer_needsNoFurtherCall() async throws {
        let world = try await World.make([.lost])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        let interrupted = InterruptedStore(world.store) {
            try await world.tell(World.scheduled("1"))
        }

        _ = try await world.scheduler(calls: interrupted).round()
        world.realClock.advance(by: .seconds(5))
        try await world.deliver(world.scheduler())

        #expect(world.store.calls.count == 1)
        #expect(try await world.changes() == ["A scheduled"])
        #expect(try await world.requestStates() == ["answered"])
        #expect(try await world.history() == ["queued", "sending", "scheduled"])
        await world.close()
    }

    @Test func delivery_notificationDuringARetry_leavesTheOneCallInFlight() async throws {
        let world = try await World.make([.unavailable])
        try await world.subscribe("1")
        try await world.submitAndApprove([
            World.row("1", to: 19990), World.row("1", "B", to: 19990, line: 3),
        ])
        try await world.deliver(world.scheduler())
        world.realClock.advance(by: .seconds(5))
        let sku = world.store.calls[0].items[0].sku
        let interrupted = InterruptedStore(world.store) {
            try await world.tell(World.scheduled("1", sku, to: 19990))
            _ = try await world.scheduler().round()
            #expect(world.store.calls.count == 1, "the retry has not come back yet")
        }

        _ = try await world.scheduler(calls: interrupted).round()

        #expect(world.store.calls.count >= 2)
        await world.close()
    }

    @Test func delivery_staleToken_isSentAgainWithTheTokenOfTheStatus() async throws {
        let world = try await World.make([.refused(.refresh, code: 4_000_082)])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        try await world.deliver(world.scheduler())
        world.realClock.advance(by: .seconds(5))
        try await world.deliver(world.scheduler())

        #expect(world.store.looks == 1)
        #expect(world.store.calls.map(\.consistencyToken) == ["first", "of the status"])
        await world.close()
    }

    @Test func delivery_staleTokenWhileLooksAreSilenced_isStoredWithoutWaitingItOut() async throws {
        let until = World.start.advanced(by: 3_600_000)
        let world = try await World.make([.refused(.refresh, code: 4_000_082)])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        let looks = CallBudget(
            pool: world.service, endpoint: "status", perSecond: 50, clock: world.clock)
        // Its row is made by the first lease.
        _ = try await looks.lease(1)
        try await looks.block(until: until)
        let clock = world.clock

        _ = try await world.scheduler(wait: { clock.advance(by: $0) }).round()

        #expect(world.store.looks == 0)
        #expect(world.now < until)
        #expect(try await world.changes().first?.hasPrefix("A queued") == true)
        await world.close()
    }

    @Test func service_toldToStop_putsBackWhatHasNotLeft() async throws {
        let world = try await World.make()
        let ids = (1...20).map(String.init)
        for id in ids { try await world.subscribe(id) }
        try await world.submitAndApprove(
            ids.enumerated().map { World.row($0.element, line: $0.offset + 2) })
        let running = Mutex<Task<Void, any Error>?>(nil)
        // The first call that waits for its slot finds the service told to stop.
        let scheduler = world.scheduler(wait: { _ in
            while running.withLock({ $0 == nil }) { await Task.yield() }
            running.withLock { $0?.cancel() }
        })
        let task = Task { try await scheduler.run() }
        running.withLock { $0 = task }

        try await task.value

        let called = world.store.calls.count
        #expect(called < 5)
        #expect(try await world.changes().count { $0.hasPrefix("A queued") } == 20 - called)
        await world.close()
    }

    @Test func delivery_staleTokenAndALookThrottled_silencesTheLooksOfEveryReplica() async throws {
        let until = World.start.advanced(by: 3_600_000)
        let world = try await World.make([.refused(.refresh, code: 4_000_082)])
        world.store.throttleLooks(until: until)
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])

        try await world.deliver(world.scheduler())

        let looks = CallBudget(
            pool: world.service, endpoint: "status", perSecond: 50, clock: world.clock)
        #expect(world.store.looks == 1)
        #expect(try await looks.lease(1).lease.blockedUntil == until.milliseconds)
        #expect(try await world.changes().first?.hasPrefix("A queued") == true)
        await world.close()
    }
}

/// Lets something happen while the first call, or the first look, is on its way.
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

    func look(transactionID: String) async -> StoreAnswer {
        await interrupt()
        return await store.look(transactionID: transactionID)
    }

    private func interrupt() async {
        let action = meanwhile
        meanwhile = nil
        do { try await action?() } catch { Issue.record(error) }
    }
}

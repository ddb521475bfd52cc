import AppStore
import Calls
import Extensions
import Postgres
import Pricing
import ServiceKit
import TestSupport
import Testing

/// Lets something happen while the first extension is on its way.
private actor InterruptedExtensions: ExtensionCalls {
    private let calls: ScriptedExtensions
    private var meanwhile: (@Sendable () async throws -> Void)?

    init(_ calls: ScriptedExtensions, _ meanwhile: @escaping @Sendable () async throws -> Void) {
        self.calls = calls
        self.meanwhile = meanwhile
    }

    private func interrupt() async {
        let action = meanwhile
        meanwhile = nil
        do { try await action?() } catch { Issue.record(error) }
    }

    func extend(
        originalTransactionID: String, _ request: ExtensionRequest,
        leavingBefore: ContinuousClock.Instant?
    ) async -> CallOutcome<ExtensionAnswer> {
        await interrupt()
        return await calls.extend(
            originalTransactionID: originalTransactionID, request, leavingBefore: leavingBefore)
    }

    func extendAll(
        _ request: MassExtensionRequest, leavingBefore: ContinuousClock.Instant?
    ) async -> CallOutcome<String> {
        await interrupt()
        return await calls.extendAll(request, leavingBefore: leavingBefore)
    }

    func extensionStatus(
        productID: String, requestIdentifier: String
    ) async -> CallOutcome<MassExtensionStatus> {
        await calls.extensionStatus(productID: productID, requestIdentifier: requestIdentifier)
    }
}

/// Extensions that a pause, a slow slot or the end of the service overtakes: none leaves late, and none is lost.
@Suite(.database) struct ExtensionPauseTests {
    /// One request each for so many subscriptions, of different buckets.
    private func world(
        _ count: Int, _ replies: [ScriptedExtensions.Reply] = []
    ) async throws -> ExtensionWorld {
        let world = try await ExtensionWorld.make(replies)
        for number in 1...count {
            try await world.subscribe(String(number))
            try await world.requestOne(String(number), number)
        }
        let buckets = try await world.delivery.service.withConnection { connection in
            try await connection.read {
                try ExtensionCallQueries.dueBuckets(realNow: .max / 1_000_000, on: $0)
            }
        }
        try #require(buckets.count == count)
        return world
    }

    /// `STATE attempts`, and whether it counts as called, of every call for one subscription.
    private func calls(_ world: ExtensionWorld) async throws -> [String] {
        try await world.delivery.service.withConnection { connection in
            try await connection.query(
                """
                SELECT concat_ws(' ', q.state, coalesce(c.attempts, 0),
                    CASE WHEN q.called_at IS NOT NULL THEN 'called' END,
                    CASE WHEN c.call_id IS NOT NULL AND c.settled_at IS NULL AND c.next_attempt_at IS NULL
                        THEN 'held' END) AS said
                FROM repricer.extension_requests q
                LEFT JOIN repricer.store_calls c
                    ON c.subject = q.original_transaction_id AND c.call_id = q.call_id
                ORDER BY q.extension_id
                """
            ).map { try $0.text("said") }
        }
    }

    private func masses(_ world: ExtensionWorld) async throws -> [String] {
        try await world.delivery.service.withConnection { connection in
            try await connection.query(
                """
                SELECT concat_ws(' ', m.state, coalesce(c.attempts, 0),
                    CASE WHEN m.called_at IS NOT NULL THEN 'called' END) AS said
                FROM repricer.mass_extensions m
                LEFT JOIN repricer.store_calls c ON m.extension_id = ANY (c.carries)
                    AND c.settled_at IS NULL
                """
            ).map { try $0.text("said") }
        }
    }

    @Test func everythingPaused_whileACallIsOut_holdsWhatIsNotClaimedYet() async throws {
        let world = try await world(1)
        let slow = InterruptedExtensions(world.calls) {
            try await world.delivery.setPause(nil, true)
        }

        _ = try await world.extender(calls: slow).round()
        for number in 2...4 {
            try await world.subscribe(String(number))
            try await world.requestOne(String(number), number)
        }
        try await world.work(world.extender())
        let whilePaused = world.calls.calls.count
        try await world.delivery.setPause(nil, false)
        try await world.work(world.extender())

        #expect(whilePaused == 1)
        #expect(world.calls.calls.count == 4)
        #expect(try await calls(world) == Array(repeating: "extended 1 called", count: 4))
        await world.delivery.close()
    }

    @Test func massExtension_inASilence_isNotClaimed_andAPauseMeanwhileHoldsIt() async throws {
        let world = try await ExtensionWorld.make()
        try await world.subscribe("1")
        try await world.requestAll()
        let budget = CallBudget(
            pool: world.delivery.service, endpoint: "extend_all", perSecond: 1,
            clock: world.delivery.clock)
        // Its row is made by the first lease.
        _ = try await budget.lease(1)
        try await budget.block(until: world.delivery.now.advanced(by: 25_000))

        try await world.work(world.extender())
        #expect(try await masses(world) == ["queued 0"])
        try await world.delivery.setPause(nil, true)
        world.pass(.seconds(30))
        try await world.work(world.extender())
        let whilePaused = world.calls.calls.count
        try await world.delivery.setPause(nil, false)
        try await world.work(world.extender())

        #expect(whilePaused == 0)
        #expect(world.calls.calls.count == 1)
        #expect(try await masses(world) == ["running 1 called"])
        await world.delivery.close()
    }

    @Test func call_withoutASlotInTime_countsAsNotMade() async throws {
        let world = try await world(1)
        try await world.requestAll()

        try await world.work(world.extender(leavesWithin: .zero))
        #expect(world.calls.calls.isEmpty)
        #expect(try await calls(world) == ["queued 0"])
        #expect(try await masses(world) == ["queued 0"])
        world.pass(.seconds(2))
        try await world.work(world.extender())

        #expect(Set(world.calls.identifiers) == [ExtensionWorld.id(1), ExtensionWorld.id(9)])
        #expect(world.calls.calls.count == 2)
        await world.delivery.close()
    }

    @Test func retry_withoutASlotInTime_staysUnknownUnderItsIdentifier() async throws {
        let world = try await world(1, [.lost, .lost])
        try await world.requestAll()
        try await world.work(world.extender())
        #expect(world.calls.calls.count == 2)

        world.pass(.seconds(2))
        try await world.work(world.extender(leavesWithin: .zero))
        #expect(world.calls.calls.count == 2)
        #expect(try await calls(world) == ["unknown 1 called"])
        #expect(try await masses(world) == ["unknown 1 called"])
        world.pass(.seconds(2))
        try await world.work(world.extender())

        #expect(world.calls.calls.count == 4)
        #expect(Set(world.calls.identifiers) == [ExtensionWorld.id(1), ExtensionWorld.id(9)])
        await world.delivery.close()
    }

    @Test func refusalOfARetry_whileLooksAreSilenced_isStoredWithoutWaitingItOut() async throws {
        let world = try await world(1, [.lost, .refused(4_030_005)])
        try await world.work(world.extender())
        let until = world.delivery.now.advanced(by: 3_600_000)
        let looks = CallBudget(
            pool: world.delivery.service, endpoint: "status", perSecond: 50,
            clock: world.delivery.clock)
        // Its row is made by the first lease.
        _ = try await looks.lease(1)
        try await looks.block(until: until)
        world.pass(.seconds(2))

        try await world.work(world.extender())

        #expect(world.delivery.now < until)
        #expect(world.delivery.store.looks == 0)
        #expect(try await calls(world) == ["unknown 2 called"])
        await world.delivery.close()
    }

    @Test func service_toldToStop_settlesTheCallThatIsOutAndBeginsNoOther() async throws {
        let world = try await world(3)
        let held = HeldExtensions()
        let extender = world.extender(calls: held)
        let running = Task { try await extender.run() }
        for await _ in held.arrived { break }

        running.cancel()
        held.letGo()
        try await running.value

        let begun = held.count
        #expect(
            try await calls(world).sorted()
                == Array(repeating: "queued 0", count: 3 - begun)
                + Array(repeating: "unknown 1 called", count: begun))
        await world.delivery.close()
    }

    @Test(arguments: ["one", "all"])
    func service_toldToStopWithACallOut_endsWithoutItsAnswer(what: String) async throws {
        let world = try await ExtensionWorld.make()
        try await world.subscribe("1")
        if what == "one" { try await world.requestOne("1") } else { try await world.requestAll() }
        let held = HeldExtensions()
        let pool = try await world.delivery.mortalPool()
        let group = ServiceGroup(
            [world.extender(calls: held, pool: pool, drainFor: .milliseconds(20))], log: .silent,
            stopDeadline: .seconds(5))
        let (stop, continuation) = AsyncStream.makeStream(of: Void.self)
        let running = Task { try await group.run(until: stop) }
        for await _ in held.arrived { break }

        continuation.yield()
        try await running.value
        await pool.close()
        held.letGo()

        // Its lease brings it to another.
        world.pass(.seconds(28))
        try await world.work(world.extender())
        #expect(world.calls.identifiers == [ExtensionWorld.id(what == "one" ? 1 : 9)])
        await world.delivery.close()
    }
}

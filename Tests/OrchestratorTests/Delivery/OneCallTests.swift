import Ledger
import Orchestrator
import Pricing
import TestSupport
import Testing

/// Calls of different kinds that change one subscription: never two in flight, and none waits for ever.
@Suite(.database) struct OneCallTests {
    private typealias World = DeliveryWorld

    private static func extensionWorld(
        _ changes: [ScriptedStore.Reply] = [], extensions: [ScriptedExtensions.Reply] = []
    ) async throws -> ExtensionWorld {
        let world = ExtensionWorld(
            delivery: try await World.make(changes), calls: ScriptedExtensions(extensions))
        try await world.subscribe("1")
        return world
    }

    // MARK: New calls

    @Test(arguments: OpenCall.all(besides: .change, in: [.out, .unknown]))
    func change_whileAnotherCallIsOpen_waitsForIt(open: OpenCall) async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        try await world.leave(open, of: "1")

        try await world.deliver(world.scheduler())
        let meanwhile = (world.store.calls.count, try await world.changes())
        try await world.close(open)
        try await world.deliver(world.scheduler())

        #expect(meanwhile == (0, ["A queued"]))
        #expect(world.store.calls.count == 1)
        #expect(try await world.changes() == ["A scheduled"])
        await world.close()
    }

    /// The claim's first statement may begin before another process commits its intent.
    @Test(arguments: OpenCall.all(besides: .change, in: [.out, .unknown]))
    func openChanges_readUnderTheLock_leaveOutOneWithAnotherCall(open: OpenCall) async throws {
        let world = try await World.make()
        for id in ["1", "2"] { try await world.subscribe(id) }
        try await world.submitAndApprove([World.row("1"), World.row("2", line: 3)])
        try await world.leave(open, of: "1")
        let realNow = world.realClock.nowMilliseconds()

        let found = try await world.service.withTransaction { connection in
            try connection.ask(
                DispatchQueries.claimable(["1", "2"], withoutCallsAt: realNow))
        }

        #expect(Array(found.keys) == ["2"])
        await world.close()
    }

    @Test(arguments: OpenCall.all(besides: .renewalExtension, in: [.out, .unknown]))
    func extension_whileAnotherCallIsOpen_waitsForIt(open: OpenCall) async throws {
        let world = try await Self.extensionWorld()
        try await world.requestOne("1")
        try await world.delivery.leave(open, of: "1")

        try await world.work(world.extender())
        let meanwhile = world.calls.calls
        try await world.delivery.close(open)
        try await world.work(world.extender())

        #expect(meanwhile == [])
        #expect(try await world.callStates() == ["extended by answer"])
        await world.delivery.close()
    }

    @Test(arguments: OpenCall.all(besides: .cancel, in: [.out, .unknown]))
    func cancel_whileAnotherCallIsOpen_waitsForIt(open: OpenCall) async throws {
        let world = try await World.declined()
        let store = world.cancellingStore()
        try await world.leave(open, of: "2")

        try await world.run(world.canceller(store))
        let meanwhile = store.calls
        try await world.close(open)
        try await world.run(world.canceller(store), rounds: 2)

        #expect(meanwhile == [])
        #expect(try await world.dependents() == ["2/FAR confirmed"])
        await world.close()
    }

    /// As that of a paused batch does.
    @Test(arguments: OpenCall.all(besides: .change, in: [.forgotten]))
    func change_besideACallThatNobodyGoesOnWith_goes(open: OpenCall) async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        try await world.leave(open, of: "1")

        try await world.deliver(world.scheduler())

        #expect(try await world.changes() == ["A scheduled"])
        await world.close()
    }

    // MARK: The same call once more

    /// Whether a change of unknown outcome is sent once more beside this call.
    @Test(arguments: [
        (OpenCall(kind: .cancel, stage: .out, began: 1), false),
        (OpenCall(kind: .renewalExtension, stage: .out, began: 1), false),
        (OpenCall(kind: .cancel, stage: .unknown, began: -1), false),
        (OpenCall(kind: .renewalExtension, stage: .unknown, began: -1), false),
        (OpenCall(kind: .cancel, stage: .unknown, began: 1), true),
        (OpenCall(kind: .renewalExtension, stage: .unknown, began: 0), true),
    ])
    func unknownChange_waitsForCallsThatAreOutOrBeganEarlier(open: OpenCall, goes: Bool)
        async throws
    {
        let world = try await World.make([.unavailable])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        _ = try await world.scheduler().round()
        #expect(try await world.changes().first?.hasPrefix("A unknown") == true)
        try await world.leave(open, of: "1")
        world.pass(.seconds(2))

        try await world.deliver(world.scheduler())
        let meanwhile = world.store.calls.count
        try await world.close(open)
        try await world.deliver(world.scheduler())

        #expect(meanwhile == (goes ? 2 : 1))
        #expect(Set(world.store.calls.map(\.requestReferenceID)).count == 1)
        #expect(try await world.changes() == ["A scheduled"])
        await world.close()
    }

    @Test(arguments: [
        (OpenCall(kind: .change, stage: .out, began: 1), false),
        (OpenCall(kind: .change, stage: .unknown, began: 0), false),
        (OpenCall(kind: .cancel, stage: .unknown, began: 1), true),
    ])
    func unknownExtension_waitsForCallsThatAreOutOrBeganEarlier(open: OpenCall, goes: Bool)
        async throws
    {
        let world = try await Self.extensionWorld(extensions: [.unavailable])
        try await world.requestOne("1")
        // Its slot takes time, and the call begins thereafter.
        try await world.work(world.extender())
        #expect(try await world.callStates() == ["unknown"])
        let called = try await world.calledAt()
        var open = open
        open.began += called - world.delivery.now.milliseconds
        try await world.delivery.leave(open, of: "1")
        world.pass(.seconds(2))

        try await world.work(world.extender())
        let meanwhile = world.calls.calls.count
        try await world.delivery.close(open)
        try await world.work(world.extender())

        #expect(meanwhile == (goes ? 2 : 1))
        #expect(try await world.callStates() == ["extended by answer"])
        await world.delivery.close()
    }

    @Test(arguments: [
        (OpenCall(kind: .change, stage: .out, began: 1), false),
        (OpenCall(kind: .change, stage: .unknown, began: -2000), false),
        (OpenCall(kind: .renewalExtension, stage: .unknown, began: 1), true),
    ])
    func unknownCancel_waitsForCallsThatAreOutOrBeganEarlier(open: OpenCall, goes: Bool)
        async throws
    {
        let world = try await World.declined()
        let store = world.cancellingStore([.unavailable])
        try await world.run(world.canceller(store))
        #expect(try await world.dependents() == ["2/FAR cancel_sent"])
        try await world.leave(open, of: "2")

        _ = try await world.canceller(store).round()
        let meanwhile = store.calls.count
        try await world.close(open)
        try await world.run(world.canceller(store), rounds: 2)

        #expect(meanwhile == (goes ? 2 : 1))
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 1)
        #expect(try await world.dependents() == ["2/FAR confirmed"])
        await world.close()
    }

    // MARK: Two of unknown outcome

    /// A pause holds the change back until nobody waits for it; so both become unknown.
    @Test func unknownChangeAndUnknownExtension_bothEnd_changeFirst() async throws {
        let world = try await Self.extensionWorld([.unavailable], extensions: [.unavailable])
        let delivery = world.delivery
        let (scheduler, extender) = (delivery.scheduler(), world.extender())
        let batchID = try await delivery.submitAndApprove([World.row("1")])
        _ = try await scheduler.round()
        try await world.requestOne("1")
        try await world.work(extender)
        #expect(world.calls.calls == [])
        try await delivery.setPause(batchID, true)
        world.pass(.seconds(130))
        try await world.work(extender)
        #expect(try await world.callStates() == ["unknown"])
        try await delivery.setPause(batchID, false)

        for _ in 0..<4 {
            world.pass(.seconds(2))
            _ = try await extender.round()
            _ = try await scheduler.round()
        }

        #expect(try await world.callStates() == ["extended by answer"])
        #expect(try await delivery.changes() == ["A scheduled"])
        await delivery.close()
    }

    @Test func unknownExtensionAndUnknownChange_bothEnd_extensionFirst() async throws {
        let world = try await Self.extensionWorld([.unavailable], extensions: [.unavailable])
        let delivery = world.delivery
        let (scheduler, extender) = (delivery.scheduler(), world.extender())
        try await world.requestOne("1")
        try await world.work(extender)
        #expect(try await world.callStates() == ["unknown"])
        try await delivery.submitAndApprove([World.row("1")])
        _ = try await scheduler.round()
        #expect(try await delivery.changes() == ["A queued"])
        world.pass(.seconds(130))
        _ = try await scheduler.round()
        #expect(try await delivery.changes().first?.hasPrefix("A unknown") == true)

        for _ in 0..<4 {
            world.pass(.seconds(2))
            _ = try await scheduler.round()
            _ = try await extender.round()
        }

        #expect(try await world.callStates() == ["extended by answer"])
        #expect(try await delivery.changes() == ["A scheduled"])
        await delivery.close()
    }

    private static func unavailableOnce(_ world: World) -> ScriptedStore {
        ScriptedStore([.unavailable]) { [clock = world.clock] in
            Instant(milliseconds: clock.nowMilliseconds())
        }
    }

    private static func expectBothEnded(
        _ world: World, _ prices: ScriptedStore, _ store: CancellingStore
    ) async throws {
        #expect(try await world.dependents() == ["2/FAR confirmed"])
        #expect(try await world.changes().last == "FAR scheduled")
        #expect(Set(prices.calls.map(\.requestReferenceID)).count == 1)
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 1)
    }

    /// A pause holds the change back until the cancellation waits for it no more.
    @Test func unknownChangeAndUnknownCancel_bothEnd_changeFirst() async throws {
        let world = try await World.declined()
        let prices = Self.unavailableOnce(world)
        let store = world.cancellingStore([.unavailable])
        let (scheduler, canceller) = (world.scheduler(calls: prices), world.canceller(store))
        let batchID = try await world.submit([World.row("2", "FAR")], content: "another")
        try await world.approve(batchID)
        _ = try await scheduler.round()
        #expect(try await world.changes().last?.hasPrefix("FAR unknown") == true)
        _ = try await canceller.round()
        #expect(store.calls == [])
        try await world.setPause(batchID, true)
        world.pass(.seconds(130))
        _ = try await canceller.round()
        #expect(try await world.dependents() == ["2/FAR cancel_sent"])
        try await world.setPause(batchID, false)

        for _ in 0..<6 {
            world.pass(.seconds(6))
            _ = try await canceller.round()
            _ = try await scheduler.round()
        }

        try await Self.expectBothEnded(world, prices, store)
        await world.close()
    }

    @Test func unknownCancelAndUnknownChange_bothEnd_cancelFirst() async throws {
        let world = try await World.declined()
        let prices = Self.unavailableOnce(world)
        let store = world.cancellingStore([.unavailable])
        let (scheduler, canceller) = (world.scheduler(calls: prices), world.canceller(store))
        _ = try await canceller.round()
        #expect(try await world.dependents() == ["2/FAR cancel_sent"])
        try await world.approve(world.submit([World.row("2", "FAR")], content: "another"))
        _ = try await scheduler.round()
        #expect(try await world.changes().last == "FAR queued")
        world.pass(.seconds(130))
        _ = try await scheduler.round()
        #expect(try await world.changes().last?.hasPrefix("FAR unknown") == true)

        for _ in 0..<6 {
            world.pass(.seconds(6))
            _ = try await scheduler.round()
            _ = try await canceller.round()
        }

        try await Self.expectBothEnded(world, prices, store)
        await world.close()
    }

    /// Whoever began first.
    @Test(arguments: [-100_000 as Int64, 100_000])
    func unknownCancelAndUnknownExtension_bothEnd(began: Int64) async throws {
        let delivery = try await World.declined()
        let world = ExtensionWorld(delivery: delivery, calls: ScriptedExtensions([.unavailable]))
        let store = delivery.cancellingStore([.unavailable, .unavailable])
        let (canceller, extender) = (delivery.canceller(store), world.extender())
        _ = try await canceller.round()
        try await delivery.leave(
            OpenCall(kind: .renewalExtension, stage: .unknown, began: began), of: "2")

        for _ in 0..<6 {
            delivery.pass(.seconds(6))
            _ = try await extender.round()
            _ = try await canceller.round()
        }

        #expect(try await world.callStates() == ["extended by answer"])
        #expect(try await delivery.dependents() == ["2/FAR confirmed"])
        await delivery.close()
    }
}

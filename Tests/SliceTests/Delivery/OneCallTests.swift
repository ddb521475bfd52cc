import Batches
import Calls
import Postgres
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

    @Test(arguments: OpenCall.all(besides: .change, in: OpenCall.Stage.allCases))
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
    @Test(arguments: OpenCall.all(besides: .change, in: OpenCall.Stage.allCases))
    func openChanges_readUnderTheLock_leaveOutOneWithAnotherCall(open: OpenCall) async throws {
        let world = try await World.make()
        for id in ["1", "2"] { try await world.subscribe(id) }
        try await world.submitAndApprove([World.row("1"), World.row("2", line: 3)])
        try await world.leave(open, of: "1")

        let found = try await world.service.withTransaction { connection in
            try ["1", "2"].filter { id in
                let bucket = try connection.query(
                    "SELECT repricer.bucket_of(\(id)) AS bucket"
                ).one().int("bucket")
                return try !connection.ask(
                    OpenChangeQueries.claimable([id], bucket: bucket)
                ).isEmpty
            }
        }

        #expect(found == ["2"])
        await world.close()
    }

    @Test(arguments: OpenCall.all(besides: .renewalExtension, in: OpenCall.Stage.allCases))
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

    @Test(arguments: OpenCall.all(besides: .cancel, in: OpenCall.Stage.allCases))
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

    /// One index says it, for all kinds.
    @Test(arguments: OpenCall.Kind.allCases, OpenCall.Kind.allCases)
    func secondCall_ofASubscription_isRefusedByTheDatabase(
        first: OpenCall.Kind, second: OpenCall.Kind
    ) async throws {
        let world = try await World.make()
        try await world.leave(OpenCall(kind: first, stage: .unknown), of: "1")

        await #expect(throws: PostgresError.self) {
            try await world.leave(
                OpenCall(kind: second, stage: .out, id: "019a0000-0000-7000-8000-00000000bbbb"),
                of: "1")
        }

        #expect(try await world.count("store_calls") == 1)
        await world.close()
    }

    // MARK: None waits for ever

    /// Lets a call be checked until it can't be on its way any more.
    private static func passUntilChecked(
        _ world: World, _ step: () async throws -> Void
    ) async throws {
        for _ in 0..<8 {
            world.pass(.seconds(15))
            try await step()
        }
    }

    /// The batch of a change of unknown outcome is paused: for the extension that waits it is resolved by checks.
    @Test func unknownChange_ofAPausedBatch_isResolvedWhereAnExtensionWaits() async throws {
        let world = try await Self.extensionWorld([.unavailable])
        let delivery = world.delivery
        let (scheduler, extender) = (delivery.scheduler(), world.extender())
        let batchID = try await delivery.submitAndApprove([World.row("1")])
        _ = try await scheduler.round()
        try await delivery.setPause(batchID, true)
        try await world.requestOne("1")
        try await world.work(extender)
        #expect(world.calls.calls == [])

        try await Self.passUntilChecked(delivery) {
            _ = try await scheduler.round()
            _ = try await extender.round()
        }
        #expect(try await world.callStates() == ["extended by answer"])
        #expect(delivery.store.calls.count == 1)
        try await delivery.setPause(batchID, false)
        try await delivery.deliver(scheduler)

        #expect(try await delivery.changes() == ["A scheduled"])
        await delivery.close()
    }

    /// The same where the call was applied, and only its answer was lost.
    @Test func lostAnswer_ofAPausedBatch_isFoundWhereAnExtensionWaits() async throws {
        let world = try await Self.extensionWorld([.lost])
        let delivery = world.delivery
        let (scheduler, extender) = (delivery.scheduler(), world.extender())
        let batchID = try await delivery.submitAndApprove([World.row("1")])
        _ = try await scheduler.round()
        try await delivery.setPause(batchID, true)
        try await world.requestOne("1")

        for _ in 0..<3 {
            delivery.pass(.seconds(2))
            _ = try await scheduler.round()
            _ = try await extender.round()
        }

        #expect(try await delivery.changes() == ["A scheduled"])
        #expect(delivery.store.calls.count == 1)
        #expect(try await world.callStates() == ["extended by answer"])
        await delivery.close()
    }

    /// Nobody else waits: the same id is the safest thing to send, and the pause is short.
    @Test func unknownChange_ofAPausedBatch_waitsUncheckedWhereNobodyWaits() async throws {
        let world = try await World.make([.unavailable])
        try await world.subscribe("1")
        let scheduler = world.scheduler()
        let batchID = try await world.submitAndApprove([World.row("1")])
        _ = try await scheduler.round()
        try await world.setPause(batchID, true)

        try await Self.passUntilChecked(world) { _ = try await scheduler.round() }
        let looks = world.store.looks
        try await world.setPause(batchID, false)
        try await world.deliver(scheduler)

        #expect(looks == 0)
        #expect(Set(world.store.calls.map(\.requestReferenceID)).count == 1)
        #expect(try await world.changes() == ["A scheduled"])
        await world.close()
    }

    /// The endpoint of an extension of unknown outcome is silent for an hour: the change that waits goes meanwhile.
    @Test func unknownExtension_ofASilentEndpoint_isResolvedWhereAChangeWaits() async throws {
        let world = try await Self.extensionWorld(extensions: [.unavailable])
        let delivery = world.delivery
        let (scheduler, extender) = (delivery.scheduler(), world.extender())
        try await world.requestOne("1")
        try await world.work(extender)
        #expect(try await world.callStates() == ["unknown"])
        let until = delivery.now.advanced(by: 3_600_000)
        try await CallBudget(
            pool: delivery.service, endpoint: "extend", perSecond: 20, clock: delivery.clock
        ).block(until: until)
        try await delivery.submitAndApprove([World.row("1")])
        _ = try await scheduler.round()
        #expect(try await delivery.changes() == ["A queued"])

        try await Self.passUntilChecked(delivery) {
            _ = try await extender.round()
            _ = try await scheduler.round()
        }
        #expect(try await delivery.changes() == ["A scheduled"])
        #expect(world.calls.calls.count == 1)
        delivery.pass(.seconds(3600))
        try await world.work(extender)

        // Judged anew, and called under the same identifier: Apple answers it as it answered the first.
        #expect(Set(world.calls.identifiers).count == 1)
        #expect(try await world.callStates() == ["extended by answer"])
        await delivery.close()
    }

    /// A cancellation of unknown outcome that its paused batch holds back.
    @Test func unknownCancel_ofAPausedBatch_isResolvedWhereAChangeWaits() async throws {
        let world = try await World.declined()
        let store = world.cancellingStore([.unavailable])
        let (scheduler, canceller) = (world.scheduler(), world.canceller(store))
        _ = try await canceller.round()
        #expect(try await world.dependents() == ["2/FAR cancel_sent"])
        let first = try await world.service.withConnection { connection in
            try await connection.query("SELECT batch_id::text FROM repricer.batches").one()
                .text("batch_id")
        }
        try await world.setPause(first, true)
        try await world.approve(world.submit([World.row("2", "FAR")], content: "another"))
        _ = try await scheduler.round()
        #expect(try await world.changes().last == "FAR queued")

        try await Self.passUntilChecked(world) {
            _ = try await canceller.round()
            _ = try await scheduler.round()
        }

        #expect(store.calls.count == 1)
        #expect(try await world.changes().last == "FAR scheduled")
        await world.close()
    }
}

import Batches
import Calls
import Postgres
import Pricing
import TestSupport
import Testing

/// Calls of different kinds that change one subscription: never two in flight, and none waits for ever.
@Suite(.database) struct OneCallTests {
    private typealias Harness = DeliveryHarness

    private static func extensionHarness(
        _ changes: [ScriptedStore.Reply] = [], extensions: [ScriptedExtensions.Reply] = []
    ) async throws -> ExtensionHarness {
        let harness = ExtensionHarness(
            delivery: try await Harness.make(changes), calls: ScriptedExtensions(extensions))
        try await harness.subscribe("1")
        return harness
    }

    // MARK: New calls

    @Test(arguments: OpenCall.all(besides: .change, in: OpenCall.Stage.allCases))
    func change_whileAnotherCallIsOpen_waitsForIt(open: OpenCall) async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.leave(open, of: "1")

        try await harness.deliver(harness.scheduler())
        let meanwhile = (harness.store.calls.count, try await harness.changes())
        try await harness.close(open)
        try await harness.deliver(harness.scheduler())

        #expect(meanwhile == (0, ["A queued"]))
        #expect(harness.store.calls.count == 1)
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    /// The claim's first statement may begin before another process commits its intent.
    @Test(arguments: OpenCall.all(besides: .change, in: OpenCall.Stage.allCases))
    func openChanges_readUnderTheLock_leaveOutOneWithAnotherCall(open: OpenCall) async throws {
        let harness = try await Harness.make()
        for id in ["1", "2"] { try await harness.subscribe(id) }
        try await harness.submitAndApprove([Harness.row("1"), Harness.row("2", line: 3)])
        try await harness.leave(open, of: "1")

        let found = try await harness.service.withTransaction { connection in
            try ["1", "2"].filter { id in
                let bucket = try connection.query(
                    "SELECT repricer.bucket_of(\(id)) AS bucket"
                ).one().int("bucket")
                return try !connection.ask(
                    OpenChangeQueries.claimable([id], bucket: bucket, realNow: 0)
                ).isEmpty
            }
        }

        #expect(found == ["2"])
        await harness.close()
    }

    @Test(arguments: OpenCall.all(besides: .renewalExtension, in: OpenCall.Stage.allCases))
    func extension_whileAnotherCallIsOpen_waitsForIt(open: OpenCall) async throws {
        let harness = try await Self.extensionHarness()
        try await harness.requestOne("1")
        try await harness.delivery.leave(open, of: "1")

        try await harness.work(harness.extender())
        let meanwhile = harness.calls.calls
        try await harness.delivery.close(open)
        try await harness.work(harness.extender())

        #expect(meanwhile == [])
        #expect(try await harness.callStates() == ["extended by answer"])
        await harness.delivery.close()
    }

    @Test(arguments: OpenCall.all(besides: .cancel, in: OpenCall.Stage.allCases))
    func cancel_whileAnotherCallIsOpen_waitsForIt(open: OpenCall) async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore()
        try await harness.leave(open, of: "2")

        try await harness.run(harness.canceller(store))
        let meanwhile = store.calls
        try await harness.close(open)
        try await harness.run(harness.canceller(store), rounds: 2)

        #expect(meanwhile == [])
        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        await harness.close()
    }

    /// One index says it, for all kinds.
    @Test(arguments: OpenCall.Kind.allCases, OpenCall.Kind.allCases)
    func secondCall_ofASubscription_isRefusedByTheDatabase(
        first: OpenCall.Kind, second: OpenCall.Kind
    ) async throws {
        let harness = try await Harness.make()
        try await harness.leave(OpenCall(kind: first, stage: .unknown), of: "1")

        await #expect(throws: PostgresError.self) {
            try await harness.leave(
                OpenCall(kind: second, stage: .out, id: "019a0000-0000-7000-8000-00000000bbbb"),
                of: "1")
        }

        #expect(try await harness.count("store_calls") == 1)
        await harness.close()
    }

    // MARK: None waits for ever

    /// Lets a call be checked until it can't be on its way any more.
    private static func passUntilChecked(
        _ harness: Harness, _ step: () async throws -> Void
    ) async throws {
        for _ in 0..<8 {
            harness.pass(.seconds(15))
            try await step()
        }
    }

    /// The batch of a change of unknown outcome is paused: for the extension that waits it is resolved by checks.
    @Test func unknownChange_ofAPausedBatch_isResolvedWhereAnExtensionWaits() async throws {
        let harness = try await Self.extensionHarness([.unavailable])
        let delivery = harness.delivery
        let (scheduler, extender) = (delivery.scheduler(), harness.extender())
        let batchID = try await delivery.submitAndApprove([Harness.row("1")])
        _ = try await scheduler.round()
        try await delivery.setPause(batchID, true)
        try await harness.requestOne("1")
        try await harness.work(extender)
        #expect(harness.calls.calls == [])

        try await Self.passUntilChecked(delivery) {
            _ = try await scheduler.round()
            _ = try await extender.round()
        }
        #expect(try await harness.callStates() == ["extended by answer"])
        #expect(delivery.store.calls.count == 1)
        try await delivery.setPause(batchID, false)
        try await delivery.deliver(scheduler)

        #expect(try await delivery.changes() == ["A scheduled"])
        await delivery.close()
    }

    /// The same where the call was applied, and only its answer was lost.
    @Test func lostAnswer_ofAPausedBatch_isFoundWhereAnExtensionWaits() async throws {
        let harness = try await Self.extensionHarness([.lost])
        let delivery = harness.delivery
        let (scheduler, extender) = (delivery.scheduler(), harness.extender())
        let batchID = try await delivery.submitAndApprove([Harness.row("1")])
        _ = try await scheduler.round()
        try await delivery.setPause(batchID, true)
        try await harness.requestOne("1")

        for _ in 0..<3 {
            delivery.pass(.seconds(2))
            _ = try await scheduler.round()
            _ = try await extender.round()
        }

        #expect(try await delivery.changes() == ["A scheduled"])
        #expect(delivery.store.calls.count == 1)
        #expect(try await harness.callStates() == ["extended by answer"])
        await delivery.close()
    }

    /// Nobody else waits: the same id is the safest thing to send, and the pause is short.
    @Test func unknownChange_ofAPausedBatch_waitsUncheckedWhereNobodyWaits() async throws {
        let harness = try await Harness.make([.unavailable])
        try await harness.subscribe("1")
        let scheduler = harness.scheduler()
        let batchID = try await harness.submitAndApprove([Harness.row("1")])
        _ = try await scheduler.round()
        try await harness.setPause(batchID, true)

        try await Self.passUntilChecked(harness) { _ = try await scheduler.round() }
        let checks = harness.store.checks
        try await harness.setPause(batchID, false)
        try await harness.deliver(scheduler)

        #expect(checks == 0)
        #expect(Set(harness.store.calls.map(\.requestReferenceID)).count == 1)
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    /// The endpoint of an extension of unknown outcome is silent for an hour: the change that waits goes meanwhile.
    @Test func unknownExtension_ofASilentEndpoint_isResolvedWhereAChangeWaits() async throws {
        let harness = try await Self.extensionHarness(extensions: [.unavailable])
        let delivery = harness.delivery
        let (scheduler, extender) = (delivery.scheduler(), harness.extender())
        try await harness.requestOne("1")
        try await harness.work(extender)
        #expect(try await harness.callStates() == ["unknown"])
        let until = delivery.now.advanced(by: 3_600_000)
        try await CallPermitSource(
            pool: delivery.service, endpoint: "extend", perSecond: 20, clock: delivery.clock
        ).block(until: until)
        try await delivery.submitAndApprove([Harness.row("1")])
        _ = try await scheduler.round()
        #expect(try await delivery.changes() == ["A queued"])

        try await Self.passUntilChecked(delivery) {
            _ = try await extender.round()
            _ = try await scheduler.round()
        }
        #expect(try await delivery.changes() == ["A scheduled"])
        #expect(harness.calls.calls.count == 1)
        delivery.pass(.seconds(3600))
        try await harness.work(extender)

        // Judged anew, and called under the same identifier: Apple answers it as it answered the first.
        #expect(Set(harness.calls.identifiers).count == 1)
        #expect(try await harness.callStates() == ["extended by answer"])
        await delivery.close()
    }

    /// A cancellation of unknown outcome that its paused batch holds back.
    @Test func unknownCancel_ofAPausedBatch_isResolvedWhereAChangeWaits() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore([.unavailable])
        let (scheduler, canceller) = (harness.scheduler(), harness.canceller(store))
        _ = try await canceller.round()
        #expect(try await harness.dependents() == ["2/FAR cancel_sent"])
        let first = try await harness.service.withConnection { connection in
            try await connection.query("SELECT batch_id::text FROM repricer.batches").one()
                .text("batch_id")
        }
        try await harness.setPause(first, true)
        try await harness.approve(
            harness.submit([Harness.row("2", "FAR")], content: "another"))
        _ = try await scheduler.round()
        #expect(try await harness.changes().last == "FAR queued")

        try await Self.passUntilChecked(harness) {
            _ = try await canceller.round()
            _ = try await scheduler.round()
        }

        #expect(store.calls.count == 1)
        #expect(try await harness.changes().last == "FAR scheduled")
        await harness.close()
    }
}

import Calls
import Postgres
import Pricing
import ServiceKit
import TestSupport
import Testing

/// Cancels that a pause, a slow slot or the end of the service overtakes: none leaves late, and none is lost.
@Suite(.database) struct CancelPauseTests {
    private typealias World = DeliveryWorld

    /// Two dependents of one customer, each on a subscription of its own; their parent's increase was declined.
    private func twoDependents() async throws -> World {
        let world = try await World.make()
        try await world.subscribe("1", items: ["A", "B"])
        try await world.subscribe("2", items: ["FAR"])
        try await world.subscribe("3", items: ["NEAR"])
        try await world.raise(dependents: ["2/FAR", "3/NEAR"])
        world.run(to: 13)
        try await world.tellIncrease("PENDING", on: 13)
        world.run(to: 40)
        try await world.tellRenewal(items: ["B"])
        world.run(to: 41)
        return world
    }

    /// `NEXT_STEP attempts/looks` of every intent that is open.
    private func open(_ world: World) async throws -> [String] {
        try await world.service.withConnection { connection in
            try await connection.query(
                """
                SELECT next_step || ' ' || attempts || '/' || checks AS said
                FROM repricer.store_calls WHERE kind = 'cancel' AND settled_at IS NULL ORDER BY 1
                """
            ).map { try $0.text("said") }
        }
    }

    @Test(arguments: ["batch", "all"])
    func cancel_pausedWhileAnotherIsLookedAt_isNotSentUntilResumed(what: String) async throws {
        let world = try await twoDependents()
        // One is to be looked at, the other to be sent once more.
        let store = world.cancellingStore(
            [.hollow, .unavailable], items: ["1": ["B"], "2": ["FAR"], "3": ["NEAR"]])
        try await world.run(world.canceller(store))
        #expect(try await open(world) == ["check 1/0", "send 1/0"])
        let batch = try await world.service.withConnection { connection in
            try await connection.query("SELECT batch_id::text FROM repricer.batches").one()
                .text("batch_id")
        }
        let paused = what == "all" ? nil : batch
        let slow = InterruptedStore(store) { try await world.setPause(paused, true) }

        // The permit of the other one comes late: by then everything waits.
        try await world.run(world.canceller(store, looks: slow, leavesWithin: .zero))
        try await world.run(world.canceller(store), rounds: 2)
        let whilePaused = store.calls
        try await world.setPause(paused, false)
        try await world.run(world.canceller(store), rounds: 2)

        #expect(whilePaused.count == 2)
        #expect(store.calls.count == 3)
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 2)
        await world.close()
    }

    @Test func cancel_withoutASlotInTime_isJudgedAnew() async throws {
        let world = try await World.declined()
        let store = world.cancellingStore()

        try await world.run(world.canceller(store, leavesWithin: .zero))
        #expect(store.calls.isEmpty)
        #expect(try await world.dependents() == ["2/FAR requested"])
        try await world.run(world.canceller(store), rounds: 2)

        #expect(store.calls.count == 1)
        #expect(try await world.dependents() == ["2/FAR confirmed"])
        await world.close()
    }

    @Test func retryOfACancel_withoutASlotInTime_countsAsNotMadeAndKeepsItsID() async throws {
        let world = try await World.declined()
        let store = world.cancellingStore([.unavailable])
        try await world.run(world.canceller(store))

        try await world.run(world.canceller(store, leavesWithin: .zero), rounds: 3)
        #expect(store.calls.count == 1)
        #expect(try await open(world) == ["send 1/0"])
        try await world.run(world.canceller(store), rounds: 2)

        #expect(store.calls.count == 2)
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 1)
        #expect(try await world.dependents() == ["2/FAR confirmed"])
        await world.close()
    }

    @Test func limits_ofCallsThatChange_letNoneLeaveASecondAfterItsClaim() {
        #expect(CallEngine.Limits().leavesWithin <= .milliseconds(750))
    }

    @Test func service_toldToStopWithACallOut_endsWithoutItsAnswer() async throws {
        let world = try await World.declined()
        let store = world.cancellingStore([.dies])
        let pool = try await world.mortalPool()
        let group = ServiceGroup(
            [world.canceller(store, pool: pool, drainFor: .milliseconds(20))], log: .silent,
            stopDeadline: .seconds(5))
        let (stop, continuation) = AsyncStream.makeStream(of: Void.self)
        let running = Task { try await group.run(until: stop) }
        while store.calls.isEmpty { await Task.yield() }

        continuation.yield()
        try await running.value
        await pool.close()

        // Its lease brings it to another.
        world.realClock.advance(by: .seconds(11))
        try await world.run(world.canceller(store), rounds: 2)
        #expect(try await world.dependents() == ["2/FAR confirmed"])
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 1)
        await world.close()
    }
}

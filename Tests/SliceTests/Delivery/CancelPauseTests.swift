import Calls
import Postgres
import Pricing
import ServiceKit
import TestSupport
import Testing

/// Cancels that a pause, a slow permit or the end of the service overtakes: none leaves late, and none is lost.
@Suite(.database) struct CancelPauseTests {
    private typealias Harness = DeliveryHarness

    /// Two dependents of one customer, each on a subscription of its own; their parent's increase was declined.
    private func twoDependents() async throws -> Harness {
        let harness = try await Harness.make()
        try await harness.subscribe("1", items: ["A", "B"])
        try await harness.subscribe("2", items: ["FAR"])
        try await harness.subscribe("3", items: ["NEAR"])
        try await harness.raise(dependents: ["2/FAR", "3/NEAR"])
        harness.run(to: 13)
        try await harness.tellIncrease("PENDING", on: 13)
        harness.run(to: 40)
        try await harness.tellRenewal(items: ["B"])
        harness.run(to: 41)
        return harness
    }

    /// `NEXT_STEP attempts/checks` of every intent that is open.
    private func open(_ harness: Harness) async throws -> [String] {
        try await harness.service.withConnection { connection in
            try await connection.query(
                """
                SELECT next_step || ' ' || attempts || '/' || checks AS said
                FROM repricer.store_calls WHERE kind = 'cancel' AND settled_at IS NULL ORDER BY 1
                """
            ).map { try $0.text("said") }
        }
    }

    @Test(arguments: ["batch", "all"])
    func cancel_pausedWhileAnotherIsChecked_isNotSentUntilResumed(what: String) async throws {
        let harness = try await twoDependents()
        // Both are to be checked; one of them may then be sent once more.
        let store = harness.cancellingStore(
            [.hollow, .unavailable], items: ["1": ["B"], "2": ["FAR"], "3": ["NEAR"]])
        try await harness.run(harness.canceller(store))
        #expect(try await open(harness) == ["check 1/0", "check 1/0"])
        let batch = try await harness.service.withConnection { connection in
            try await connection.query("SELECT batch_id::text FROM repricer.batches").one()
                .text("batch_id")
        }
        let paused = what == "all" ? nil : batch
        let slow = InterruptedStore(store) { try await harness.setPause(paused, true) }

        // The permit of the other one comes late: by then everything waits.
        try await harness.run(harness.canceller(store, checks: slow, leavesWithin: .zero))
        try await harness.run(harness.canceller(store), rounds: 2)
        let whilePaused = store.calls
        try await harness.setPause(paused, false)
        try await harness.run(harness.canceller(store), rounds: 2)

        #expect(whilePaused.count == 2)
        #expect(store.calls.count == 3)
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 2)
        await harness.close()
    }

    @Test func cancel_withoutAPermitInTime_isJudgedAnew() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore()

        try await harness.run(harness.canceller(store, leavesWithin: .zero))
        #expect(store.calls.isEmpty)
        #expect(try await harness.dependents() == ["2/FAR requested"])
        try await harness.run(harness.canceller(store), rounds: 2)

        #expect(store.calls.count == 1)
        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        await harness.close()
    }

    @Test func retryOfACancel_withoutAPermitInTime_countsAsNotMadeAndKeepsItsID() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore([.unavailable])
        try await harness.run(harness.canceller(store))

        try await harness.run(harness.canceller(store, leavesWithin: .zero), rounds: 3)
        #expect(store.calls.count == 1)
        // However often it was checked, it was sent once.
        #expect(try await open(harness).map { $0.contains(" 1/") } == [true])
        try await harness.run(harness.canceller(store), rounds: 2)

        #expect(store.calls.count == 2)
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 1)
        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        await harness.close()
    }

    @Test func limits_ofCallsThatChange_letNoneLeaveASecondAfterItsClaim() {
        #expect(CallEngine.Limits().leavesWithin <= .milliseconds(750))
    }

    @Test func service_toldToStopWithACallOut_endsWithoutItsAnswer() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore([.dies])
        let pool = try await harness.mortalPool()
        let group = ServiceGroup(
            [harness.canceller(store, pool: pool, drainFor: .milliseconds(20))], log: .silent,
            stopDeadline: .seconds(5))
        let (stop, continuation) = AsyncStream.makeStream(of: Void.self)
        let running = Task { try await group.run(until: stop) }
        while store.calls.isEmpty { await Task.yield() }

        continuation.yield()
        try await running.value
        await pool.close()

        // Its lease brings it to another.
        harness.realClock.advance(by: .seconds(11))
        try await harness.run(harness.canceller(store), rounds: 2)
        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 1)
        await harness.close()
    }
}

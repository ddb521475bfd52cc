import Facts
import Postgres
import PriceChanges
import ServiceKit
import TestSupport
import Testing

@testable import Calls

/// An answer whose rows another session holds, for longer than the service waits for a lock, is neither lost nor asked for
/// again.
@Suite(.database) struct HeldRowsTests {
    private typealias Harness = DeliveryHarness

    /// What is held: the subscription, which its settlement writes, and the batch, which a halt writes.
    @Test(arguments: [
        "SELECT 1 FROM repricer.subscriptions WHERE original_transaction_id = '1' FOR UPDATE",
        "SELECT 1 FROM repricer.batches FOR UPDATE",
    ])
    func answers_whoseRowsAreHeld_areStoredOnceThoseAreFree(lock: String) async throws {
        let harness = try await Harness.make()
        let ids = (1...8).map(String.init)
        for id in ids { try await harness.subscribe(id) }
        try await harness.submitAndApprove(
            ids.enumerated().map { Harness.row($1, line: $0 + 2) })
        harness.store.setAnswers(ids.dropFirst(), .refused(.haltBatch, code: 4_000_173))
        let impatient = DatabasePool(
            conninfo: try await TestDatabase.login("impatient", memberOf: ["repricer_service"]),
            applicationName: "impatient", size: 8,
            options: .init(lockTimeout: .milliseconds(100)))
        let lines = LogLines()
        var limits = CallEngine.Limits()
        limits.leavesWithin = .seconds(60)
        limits.settleEvery = .milliseconds(50)
        let store = SilentStore(to: Set(ids), others: harness.store)
        let scheduler = Scheduler(
            harness.engine(
                limits, pool: impatient, log: lines.log()),
            store: store, wait: { _ in })
        let holder = try await TestDatabase.connect()

        let round = Task { try await scheduler.round() }
        try await eventually("all calls out", within: .seconds(30)) { store.asked == 8 }
        try await holder.script("BEGIN; \(lock)")
        store.answer()
        try await eventually("the log says so", within: .seconds(30)) {
            lines.all.contains { $0.contains("another session holds what an answer changes") }
        }
        try await holder.script("ROLLBACK")
        _ = try await round.value

        let states = try await harness.changes()
        #expect(states.count { $0 == "A scheduled" } == 1)
        #expect(states.count { $0.hasPrefix("A queued") } == 7)
        #expect(harness.store.calls.count == 8)
        #expect(
            try await harness.requestStates().allSatisfy { $0 == "answered" || $0 == "refused" })
        await holder.close()
        await impatient.close()
        await harness.close()
    }
}

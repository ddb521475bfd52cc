import Postgres
import PriceChanges
import TestSupport
import Testing

@testable import Dependents
@testable import Pricing

/// A cancellation cannot be taken back: it leaves only while everything that it is for still asks for it, and what a person
/// holds back holds up nothing else.
@Suite(.database) struct CancelJudgedAnewTests {
    private typealias Harness = DeliveryHarness

    private func batchID(_ harness: Harness) async throws -> String {
        try await harness.texts("SELECT batch_id::text AS text FROM repricer.batches").first ?? ""
    }

    /// What the App Store has goes on after an abort, so its dependents do.
    @Test func pausedBatch_thatIsAborted_cancelsTheDependentsOfThoseWhoDecline() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore()
        let batchID = try await batchID(harness)
        try await harness.setPause(batchID, true)
        try await harness.run(harness.canceller(store), rounds: 2)
        #expect(store.calls.isEmpty)

        try await harness.abort(batchID)
        try await harness.run(harness.canceller(store), rounds: 2)

        #expect(store.calls.map(\.transactionID) == ["2"])
        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        await harness.close()
    }

    /// Where nothing tells of it, the status of the parent does, which is read before each repetition.
    @Test(arguments: [true, false])
    func cancel_whoseParentIsBoughtAgainMeanwhile_isNotSentOnceMore(isTold: Bool) async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore(
            [.unavailable], items: ["1": ["B"], "2": ["FAR"]])
        let canceller = harness.canceller(store)
        try await harness.run(canceller)
        #expect(store.calls.count == 1)
        if isTold { try await harness.tellBoughtBack(on: 42) }
        harness.run(to: 43)
        let later = harness.cancellingStore(items: ["1": ["A", "B"], "2": ["FAR"]])

        try await harness.run(harness.canceller(later), rounds: 12)

        #expect(later.calls.isEmpty)
        #expect(try await harness.dependents() == ["2/FAR discrepancy"])
        #expect(
            try await harness.dependentDetail()
                == "the customer has its parent A again, which renews; not cancelled")
        await harness.close()
    }

    /// It may tell that the customer has the parent again.
    @Test(arguments: ["1", "2"])
    func cancel_waitsForWhatIsStoredAndNotFolded(id: String) async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore()
        try await harness.receive("unread", of: id)

        try await harness.run(harness.canceller(store), rounds: 3)
        let meanwhile = (store.calls.count, store.checks.count)
        try await harness.write("DELETE FROM repricer.inbox")
        try await harness.run(harness.canceller(store), rounds: 2)

        #expect(meanwhile == (0, 0))
        #expect(store.calls.count == 1)
        await harness.close()
    }

    /// Many of a paused batch wait, and none of another batch waits behind them, or pays for them with a status.
    @Test func dependentsOfAPausedBatch_holdUpNoOthers() async throws {
        let harness = try await Harness.make()
        for id in ["1", "4"] { try await harness.subscribe(id, items: ["A", "B"]) }
        for id in ["2", "3", "5"] { try await harness.subscribe(id, items: ["FAR\(id)"]) }
        try await harness.raise(dependents: ["2/FAR2", "3/FAR3"])
        let paused = try await batchID(harness)
        try await harness.approve(
            harness.submit([Harness.row("4", dependents: ["5/FAR5"])], content: "other"))
        try await harness.deliver(harness.scheduler())
        for id in ["1", "4"] {
            try await harness.tellIncrease("PENDING", on: 13, id: id)
            try await harness.tellRenewal(id, items: ["B"])
        }
        harness.run(to: 41)
        try await harness.setPause(paused, true)
        let store = harness.cancellingStore(
            items: [
                "1": ["B"], "4": ["B"], "2": ["FAR2"], "3": ["FAR3"], "5": ["FAR5"],
            ])

        try await harness.run(harness.canceller(store, perRound: 1), rounds: 2)

        #expect(store.calls.map(\.transactionID) == ["5"])
        #expect(Set(store.checks) == ["4", "5"])
        #expect(
            try await harness.dependents()
                == ["2/FAR2 requested", "3/FAR3 requested", "5/FAR5 confirmed"])
        await harness.close()
    }

    /// One call would end both.
    @Test func dependentOfAPausedBatch_isNotEndedByTheCallOfAnother() async throws {
        let harness = try await Harness.make()
        for id in ["1", "4"] { try await harness.subscribe(id, items: ["A", "B"]) }
        try await harness.subscribe("2", items: ["FAR", "NEAR"])
        try await harness.raise(dependents: ["2/FAR"])
        let paused = try await batchID(harness)
        try await harness.approve(
            harness.submit([Harness.row("4", dependents: ["2/NEAR"])], content: "other"))
        try await harness.deliver(harness.scheduler())
        for id in ["1", "4"] {
            try await harness.tellIncrease("PENDING", on: 13, id: id)
            try await harness.tellRenewal(id, items: ["B"])
        }
        harness.run(to: 41)
        let store = harness.cancellingStore(
            items: ["1": ["B"], "4": ["B"], "2": ["FAR", "NEAR"]])
        let canceller = harness.canceller(store)
        // Both are placed, and the call of neither leaves.
        try await harness.setPause(nil, true)
        try await harness.write(
            "UPDATE repricer.dependent_cancellations SET target_transaction_id = '2', recorded_at = recorded_at"
        )
        try await harness.setPause(paused, true)
        try await harness.setPause(nil, false)

        try await harness.run(canceller, rounds: 3)
        let whilePaused = store.calls.count + store.checks.count
        try await harness.setPause(paused, false)
        try await harness.run(canceller, rounds: 3)

        #expect(whilePaused == 0)
        #expect(store.calls.count == 1)
        #expect(try await harness.dependents() == ["2/FAR confirmed", "2/NEAR confirmed"])
        await harness.close(isTamperedWith: true)
    }
}

import Postgres
import PriceChanges
import Pricing
import ServiceKit
import TestSupport
import Testing

/// Changes of two batches on one subscription, where a call has no answer and one batch is held back.
@Suite(.database) struct SharedCallTests {
    private typealias Harness = DeliveryHarness

    /// How the first batch is held back.
    enum Hold: CaseIterable { case pause, haltedStorefront }

    private static func setHold(
        _ hold: Hold, _ isHeld: Bool, of batchID: String, _ harness: Harness
    ) async throws {
        switch hold {
        case .pause: try await harness.setPause(batchID, isHeld)
        case .haltedStorefront:
            let owner = try await TestDatabase.connect()
            let halted = isHeld ? #"{"USA": "no price"}"# : "{}"
            _ = try await owner.execute(
                """
                UPDATE repricer.batches SET halted_storefronts = \(json: halted)
                WHERE batch_id = \(uuid: batchID)
                """)
            await owner.close()
        }
    }

    /// A of one batch and B of another: in one call, or B's row comes once A's call is out.
    private static func twoBatches(
        _ harness: Harness, inOneCall: Bool, _ scheduler: Scheduler
    ) async throws -> String {
        try await harness.subscribe("1")
        let first = try await harness.submit([Harness.row("1")], content: "1")
        let second = try await harness.submit([Harness.row("1", "B", line: 3)], content: "2")
        try await harness.approve(first)
        if inOneCall { try await harness.approve(second) }
        _ = try await scheduler.round()
        if !inOneCall { try await harness.approve(second) }
        #expect(harness.store.calls.map(\.items.count) == [inOneCall ? 2 : 1])
        return first
    }

    private static func run(_ harness: Harness, _ scheduler: Scheduler, minutes: Int = 8)
        async throws
    {
        for _ in 0..<minutes {
            harness.pass(.seconds(60))
            try await harness.deliver(scheduler)
        }
    }

    @Test(arguments: Hold.allCases, [true, false])
    func unknownCall_ofABatchHeldBack_isSettledByChecks_whereAnotherBatchWaits(
        hold: Hold, inOneCall: Bool
    ) async throws {
        let harness = try await Harness.make([.unavailable])
        let scheduler = harness.scheduler()
        let held = try await Self.twoBatches(harness, inOneCall: inOneCall, scheduler)

        try await Self.setHold(hold, true, of: held, harness)
        try await Self.run(harness, scheduler)
        let during = try await harness.changes().map { String($0.prefix(11)) }
        let sent = harness.store.calls.map { $0.items.map(\.sku).sorted() }
        try await Self.setHold(hold, false, of: held, harness)
        try await Self.run(harness, scheduler)

        #expect(during == ["A queued no", "B scheduled"])
        #expect(sent == [inOneCall ? ["A", "B"] : ["A"], ["B"]])
        #expect(try await harness.changes() == ["A scheduled", "B scheduled"])
        #expect(harness.store.calls.count == 3)
        #expect(harness.store.checks >= 3)
        await harness.close()
    }

    /// One bad item refuses a whole call, also where checks come first: the answer of the first attempt was lost, or the
    /// code says that the price is set already.
    @Test(arguments: [
        [ScriptedStore.Reply.unavailable, .refused(.reject, code: 4_000_220)],
        [.refused(.checkStatus, code: 4_000_205)], [.refused(.checkStatus, code: 4_000_097)],
    ])
    func refusalOfASharedCall_thatIsCheckedFirst_endsNoItem_andEachIsTriedAlone(
        replies: [ScriptedStore.Reply]
    ) async throws {
        let harness = try await Harness.make(replies)
        let scheduler = harness.scheduler()
        _ = try await Self.twoBatches(harness, inOneCall: true, scheduler)

        try await Self.run(harness, scheduler)

        #expect(try await harness.changes() == ["A scheduled", "B scheduled"])
        let calls = harness.store.calls
        #expect(
            calls.suffix(2).map { $0.items.map(\.sku) }.sorted { $0[0] < $1[0] } == [["A"], ["B"]])
        #expect(calls.count == replies.count + 2)
        #expect(Set(calls.map(\.requestReferenceID)).count == 3)
        await harness.close()
    }

    /// A call that was applied is seen by the first check, and never sent again.
    @Test func lostAnswer_ofABatchHeldBack_isSettledByACheck_whereAnotherBatchWaits() async throws {
        let harness = try await Harness.make([.lost])
        let scheduler = harness.scheduler()
        let held = try await Self.twoBatches(harness, inOneCall: true, scheduler)
        try await harness.setPause(held, true)

        try await Self.run(harness, scheduler, minutes: 1)

        #expect(try await harness.changes() == ["A scheduled", "B scheduled"])
        #expect(harness.store.calls.count == 1)
        await harness.close()
    }

    /// Nobody waits for it: its id is kept for when the batch goes on.
    @Test func unknownCall_ofABatchHeldBack_waits_whereNobodyElseDoes() async throws {
        let harness = try await Harness.make([.unavailable])
        try await harness.subscribe("1")
        let scheduler = harness.scheduler()
        let batchID = try await harness.submitAndApprove([Harness.row("1")])
        _ = try await scheduler.round()
        try await harness.setPause(batchID, true)

        try await Self.run(harness, scheduler)
        let checks = harness.store.checks
        try await harness.setPause(batchID, false)
        try await Self.run(harness, scheduler, minutes: 1)

        #expect(checks == 0)
        #expect(harness.store.calls.count == 2)
        #expect(Set(harness.store.calls.map(\.requestReferenceID)).count == 1)
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    /// Everything stands still: there is nobody whom it could hold up.
    @Test func unknownCall_whileEverythingIsPaused_keepsItsID() async throws {
        let harness = try await Harness.make([.unavailable])
        let scheduler = harness.scheduler()
        let held = try await Self.twoBatches(harness, inOneCall: false, scheduler)
        try await harness.setPause(held, true)
        try await harness.setPause(nil, true)

        try await Self.run(harness, scheduler)

        #expect(harness.store.checks == 0)
        #expect(try await harness.changes().last == "B queued")
        await harness.close()
    }
}

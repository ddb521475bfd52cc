import Postgres
import PriceChanges
import Pricing
import ServiceKit
import TestSupport
import Testing

/// Changes of two batches on one subscription, where a call has no answer and one batch is held back.
@Suite(.database) struct CompanyTests {
    private typealias World = DeliveryWorld

    /// How the first batch is held back.
    enum Hold: CaseIterable { case pause, haltedStorefront }

    private static func setHold(
        _ hold: Hold, _ isHeld: Bool, of batchID: String, _ world: World
    ) async throws {
        switch hold {
        case .pause: try await world.setPause(batchID, isHeld)
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
        _ world: World, inOneCall: Bool, _ scheduler: Scheduler
    ) async throws -> String {
        try await world.subscribe("1")
        let first = try await world.submit([World.row("1")], content: "1")
        let second = try await world.submit([World.row("1", "B", line: 3)], content: "2")
        try await world.approve(first)
        if inOneCall { try await world.approve(second) }
        _ = try await scheduler.round()
        if !inOneCall { try await world.approve(second) }
        #expect(world.store.calls.map(\.items.count) == [inOneCall ? 2 : 1])
        return first
    }

    private static func run(_ world: World, _ scheduler: Scheduler, minutes: Int = 8) async throws {
        for _ in 0..<minutes {
            world.pass(.seconds(60))
            try await world.deliver(scheduler)
        }
    }

    @Test(arguments: Hold.allCases, [true, false])
    func unknownCall_ofABatchHeldBack_isSettledByLooks_whereAnotherBatchWaits(
        hold: Hold, inOneCall: Bool
    ) async throws {
        let world = try await World.make([.unavailable])
        let scheduler = world.scheduler()
        let held = try await Self.twoBatches(world, inOneCall: inOneCall, scheduler)

        try await Self.setHold(hold, true, of: held, world)
        try await Self.run(world, scheduler)
        let during = try await world.changes().map { String($0.prefix(11)) }
        let sent = world.store.calls.map { $0.items.map(\.sku).sorted() }
        try await Self.setHold(hold, false, of: held, world)
        try await Self.run(world, scheduler)

        #expect(during == ["A queued no", "B scheduled"])
        #expect(sent == [inOneCall ? ["A", "B"] : ["A"], ["B"]])
        #expect(try await world.changes() == ["A scheduled", "B scheduled"])
        #expect(world.store.calls.count == 3)
        #expect(world.store.looks >= 3)
        await world.close()
    }

    /// A call that was applied is seen by the first look, and never sent again.
    @Test func lostAnswer_ofABatchHeldBack_isSettledByALook_whereAnotherBatchWaits() async throws {
        let world = try await World.make([.lost])
        let scheduler = world.scheduler()
        let held = try await Self.twoBatches(world, inOneCall: true, scheduler)
        try await world.setPause(held, true)

        try await Self.run(world, scheduler, minutes: 1)

        #expect(try await world.changes() == ["A scheduled", "B scheduled"])
        #expect(world.store.calls.count == 1)
        await world.close()
    }

    /// Nobody waits for it: its id is kept for when the batch goes on.
    @Test func unknownCall_ofABatchHeldBack_waits_whereNobodyElseDoes() async throws {
        let world = try await World.make([.unavailable])
        try await world.subscribe("1")
        let scheduler = world.scheduler()
        let batchID = try await world.submitAndApprove([World.row("1")])
        _ = try await scheduler.round()
        try await world.setPause(batchID, true)

        try await Self.run(world, scheduler)
        let looks = world.store.looks
        try await world.setPause(batchID, false)
        try await Self.run(world, scheduler, minutes: 1)

        #expect(looks == 0)
        #expect(world.store.calls.count == 2)
        #expect(Set(world.store.calls.map(\.requestReferenceID)).count == 1)
        #expect(try await world.changes() == ["A scheduled"])
        await world.close()
    }

    /// Everything stands still: there is nobody whom it could hold up.
    @Test func unknownCall_whileEverythingIsPaused_keepsItsID() async throws {
        let world = try await World.make([.unavailable])
        let scheduler = world.scheduler()
        let held = try await Self.twoBatches(world, inOneCall: false, scheduler)
        try await world.setPause(held, true)
        try await world.setPause(nil, true)

        try await Self.run(world, scheduler)

        #expect(world.store.looks == 0)
        #expect(try await world.changes().last == "B queued")
        await world.close()
    }
}

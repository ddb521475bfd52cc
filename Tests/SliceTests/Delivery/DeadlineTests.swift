import Pricing
import TestSupport
import Testing

/// Changes whose renewal went by, and what is most urgent.
@Suite(.database) struct DeadlineTests {
    private typealias World = DeliveryWorld

    @Test(arguments: [
        (days: 1, end: "A ineligible not_active"), (days: 60, end: "A missed not_active"),
    ])
    func change_ofAnEndedSubscription_isMissedOnlyAfterItsDeadline(
        days: Int64, end: String
    ) async throws {
        let world = try await World.make()
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        world.clock.advance(by: .seconds(days * 86_400))
        try await world.tell(
            SubscriptionEvent(
                key: .init(signedAt: world.now, evidenceID: "ended"), source: .notification,
                originalTransactionID: "1", type: "EXPIRED", subtype: "VOLUNTARY", status: 2))

        try await world.deliver(world.scheduler())

        #expect(try await world.changes() == [end])
        #expect(world.store.calls.isEmpty)
        await world.close()
    }

    /// Sent once more, it would take effect a renewal later than the ledger says.
    @Test func retry_pastTheLastInstant_isLookedAtAndJudgedAnewForTheNextRenewal() async throws {
        let world = try await World.make([.unavailable])
        try await world.subscribe("1")
        try await world.submitAndApprove([World.row("1")])
        try await world.deliver(world.scheduler())
        let first = try #require(world.store.calls.first?.requestReferenceID)
        let due = try await world.dueEffectiveAt()
        world.clock.advance(by: .seconds(14 * 86_400))

        for _ in 0..<8 {
            world.realClock.advance(by: .seconds(70))
            world.clock.advance(by: .seconds(1))
            try await world.deliver(world.scheduler())
        }

        #expect(world.store.calls.count { $0.requestReferenceID == first } == 1)
        #expect(world.store.calls.count == 2)
        #expect(world.store.looks >= 3, "not given up before it was looked for")
        #expect(try await world.changes() == ["A scheduled"])
        let later = try await world.dueEffectiveAt()
        #expect(later > due)
        await world.close()
    }

    @Test func changes_ofAPausedBatch_holdUpNoOther() async throws {
        let world = try await World.make()
        for id in ["1", "2"] { try await world.subscribe(id) }
        let paused = try await world.submitAndApprove([World.row("1")])
        try await world.setPause(paused, true)
        let other = try await world.submit([World.row("2")], content: "other")
        try await world.approve(other)

        try await world.deliver(world.scheduler())

        #expect(world.store.calls.map(\.originalTransactionID) == ["2"])
        await world.close()
    }

    @Test func answers_ofOneLane_areStoredTogetherEachByItsOwnMeaning() async throws {
        let world = try await World.make([
            .applied, .refused(.reject, code: 4_000_006), .unavailable, .notSent,
        ])
        for id in 1...8 { try await world.subscribe("\(id)") }
        try await world.submitAndApprove((1...8).map { World.row("\($0)", line: $0 + 1) })
        try await world.deliver(world.scheduler())
        let states = try await world.changes().map { $0.split(separator: " ")[1] }
        let first = Dictionary(grouping: states) { String($0) }.mapValues(\.count)

        for _ in 0..<3 {
            world.realClock.advance(by: .seconds(5))
            try await world.deliver(world.scheduler())
        }

        #expect(first["rejected"] == 1)
        #expect(first["unknown"] == 1)
        #expect(first["queued", default: 0] + first["scheduled", default: 0] == 6)
        let last = try await world.changes().map { $0.split(separator: " ")[1] }
        #expect(last.count { $0 == "scheduled" } == 7)
        #expect(world.store.applied.count == 7, "each applied once")
        await world.close()
    }
}

import TestSupport
import Testing

@testable import Pricing

/// Changes whose renewal went by, and what is most urgent.
@Suite(.database) struct DeadlineTests {
    private typealias Harness = DeliveryHarness

    @Test(arguments: [
        (days: 1, end: "A ineligible not_active"), (days: 60, end: "A missed not_active"),
    ])
    func change_ofAnEndedSubscription_isMissedOnlyAfterItsDeadline(
        days: Int64, end: String
    ) async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        harness.clock.advance(by: .seconds(days * 86_400))
        try await harness.tell(
            SubscriptionEvent(
                key: .init(signedAt: harness.now, evidenceID: "ended"), source: .notification,
                originalTransactionID: "1", type: "EXPIRED", subtype: "VOLUNTARY", status: 2))

        try await harness.deliver(harness.scheduler())

        #expect(try await harness.changes() == [end])
        #expect(harness.store.calls.isEmpty)
        await harness.close()
    }

    /// Sent once more, it would take effect a renewal later than the ledger says.
    @Test func retry_pastTheLastInstant_isCheckedAndJudgedAnewForTheNextRenewal() async throws {
        let harness = try await Harness.make([.unavailable])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        let first = try #require(harness.store.calls.first?.requestReferenceID)
        let due = try await harness.dueEffectiveAt()
        harness.clock.advance(by: .seconds(14 * 86_400))

        for _ in 0..<8 {
            harness.realClock.advance(by: .seconds(70))
            harness.clock.advance(by: .seconds(1))
            try await harness.deliver(harness.scheduler())
        }

        #expect(harness.store.calls.count { $0.requestReferenceID == first } == 1)
        #expect(harness.store.calls.count == 2)
        #expect(harness.store.checks >= 3, "not given up before it was looked for")
        #expect(try await harness.changes() == ["A scheduled"])
        let later = try await harness.dueEffectiveAt()
        #expect(later > due)
        await harness.close()
    }

    /// Another verdict on consent may leave the renewal as it was, and move the last instant for it alone. The call keeps its
    /// own: a retry goes by it, and so does whoever asks later whether the call was late.
    @Test func call_whoseVerdictMovesItsLastInstantAlone_keepsItsOwn() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let due = try await harness.dueEffectiveAt()
        try await harness.write(
            "UPDATE repricer.price_changes SET send_by = send_by - interval '5 days'")

        try await harness.deliver(harness.scheduler())

        let owner = try await TestDatabase.connect()
        let row = try await owner.query(
            "SELECT forecast_effective_at - send_by = interval '27 days' AS is_own, moved_before_call FROM repricer.price_changes"
        ).one()
        #expect(try row.bool("is_own"))
        #expect(try row.textOrNil("moved_before_call") == nil)
        await owner.close()
        #expect(try await harness.dueEffectiveAt() == due)
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close(isTamperedWith: true)
    }

    @Test func changes_ofAPausedBatch_holdUpNoOther() async throws {
        let harness = try await Harness.make()
        for id in ["1", "2"] { try await harness.subscribe(id) }
        let paused = try await harness.submitAndApprove([Harness.row("1")])
        try await harness.setPause(paused, true)
        let other = try await harness.submit([Harness.row("2")], content: "other")
        try await harness.approve(other)

        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.map(\.transactionID) == ["2"])
        await harness.close()
    }

    @Test func answers_ofOneLane_areStoredTogetherEachByItsOwnMeaning() async throws {
        let harness = try await Harness.make([
            .applied, .refused(.reject, code: 4_000_006), .unavailable, .notSent,
        ])
        for id in 1...8 { try await harness.subscribe("\(id)") }
        try await harness.submitAndApprove((1...8).map { Harness.row("\($0)", line: $0 + 1) })
        try await harness.deliver(harness.scheduler())
        let states = try await harness.changes().map { $0.split(separator: " ")[1] }
        let first = Dictionary(grouping: states) { String($0) }.mapValues(\.count)

        for _ in 0..<3 {
            harness.realClock.advance(by: .seconds(5))
            try await harness.deliver(harness.scheduler())
        }

        #expect(first["rejected"] == 1)
        #expect(first["unknown"] == 1)
        #expect(first["queued", default: 0] + first["scheduled", default: 0] == 6)
        let last = try await harness.changes().map { $0.split(separator: " ")[1] }
        #expect(last.count { $0 == "scheduled" } == 7)
        #expect(harness.store.applied.count == 7, "each applied once")
        await harness.close()
    }
}

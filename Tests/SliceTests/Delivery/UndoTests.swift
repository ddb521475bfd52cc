import Batches
import Postgres
import PriceChanges
import ServiceKit
import TestSupport
import Testing

@testable import Pricing

/// Taking back what Apple has scheduled and nobody was told of.
@Suite(.database) struct UndoTests {
    private typealias Harness = DeliveryHarness

    /// A harness in which Apple has an increase of A with B as dependent, and the scheduler that sent it.
    private static func scheduled(
        _ replies: [ScriptedStore.Reply] = []
    ) async throws -> (Harness, Scheduler, batchID: String) {
        let harness = try await Harness.make([.applied] + replies)
        try await harness.subscribe("1")
        let batchID = try await harness.submitAndApprove([Harness.row("1", dependents: ["B"])])
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        harness.clock.advance(by: .seconds(3600))
        harness.realClock.advance(by: .seconds(3600))
        return (harness, scheduler, batchID)
    }

    /// Submits the undo as the submitter; returns its batch.
    private static func undo(_ harness: Harness, _ batchID: String, sku: String? = nil)
        async throws -> String
    {
        let at = harness.now.milliseconds
        var random = SystemRandomNumberGenerator()
        let undoID = UUIDv7.make(nowMilliseconds: at, random: &random)
        let rows = try await harness.submitter.withTransaction {
            try UndoQueries.store(
                UndoQueries.Scope(batchID: batchID, sku: sku), as: undoID, name: "undo", at: at,
                on: $0)
        }
        if rows == 0 { throw NothingUndone() }
        return undoID
    }

    private struct NothingUndone: Error {}

    /// Why the changes of a batch can't be undone now.
    private static func obstacles(_ harness: Harness, _ batchID: String) async throws
        -> [UndoObstacle]
    {
        let at = harness.now.milliseconds
        return try await harness.submitter.withTransaction { connection in
            try UndoQueries.refused(
                UndoQueries.Scope(batchID: batchID), by: batchID, at: at, limit: 100, on: connection
            ).map(\.obstacle)
        }
    }

    /// `state reason` of the change and of its undo.
    private static func states(_ harness: Harness) async throws -> [String] {
        try await harness.service.withConnection { connection in
            try await connection.query(
                """
                SELECT state || coalesce(' ' || reason, '') AS text FROM repricer.price_changes
                ORDER BY undoes_change_id IS NOT NULL, state_since, state
                """
            ).map { try $0.text("text") }
        }
    }

    @Test func undo_whenAppleTakesIt_endsTheChangeAndFreesItsItems() async throws {
        let (harness, scheduler, batchID) = try await Self.scheduled()

        let undoID = try await Self.undo(harness, batchID)
        try await harness.deliver(scheduler)
        #expect(try await Self.states(harness) == ["scheduled", "awaiting_approval"])
        try await harness.approve(undoID)
        try await harness.deliver(scheduler)

        #expect(try await Self.states(harness) == ["invalidated undone", "scheduled"])
        let call = try #require(harness.store.calls.last)
        #expect(call.items.map(\.price) == [9990])
        #expect(call.items.allSatisfy { $0.sku == "A" && $0.dependentSKUs.isEmpty })
        #expect(call.consistencyToken == "next")
        #expect(try await harness.count("dependency_roles") == 0)
        await harness.close()
    }

    @Test func undo_hasTheGuardThatABatchHasByDefault() async throws {
        let (harness, _, batchID) = try await Self.scheduled()

        let undoID = try await Self.undo(harness, batchID)

        let (rails, _) = try await harness.service.read {
            try GuardQueries.rails(of: undoID, on: $0)
        }
        #expect(rails == GuardRail.byDefault)
        await harness.close()
    }

    @Test func undone_item_takesANewChangeAtOnce() async throws {
        let (harness, scheduler, batchID) = try await Self.scheduled()
        try await harness.approve(try await Self.undo(harness, batchID))
        try await harness.deliver(scheduler)
        harness.clock.advance(by: .seconds(3600))

        let next = try await harness.submit([Harness.row("1", to: 11_990)], content: "again")
        try await harness.approve(next)
        try await harness.deliver(scheduler)

        #expect(harness.store.calls.map { $0.items.map(\.price) } == [[10_990], [9990], [11_990]])
        #expect(
            try await Self.states(harness) == [
                "invalidated undone", "scheduled", "invalidated replaced_by_a_later_change",
            ])
        await harness.close()
    }

    @Test func undo_whenTheCustomerWasToldMeanwhile_isNotSent() async throws {
        let (harness, scheduler, batchID) = try await Self.scheduled()
        let undoID = try await Self.undo(harness, batchID)
        try await harness.tell(Harness.scheduled("1", status: "ACCEPTED", at: harness.now))

        try await harness.approve(undoID)
        try await harness.deliver(scheduler)

        #expect(try await Self.states(harness) == ["accepted", "ineligible already_communicated"])
        #expect(harness.store.calls.count == 1)
        await harness.close()
    }

    @Test func undo_whenAppleRefuses_isRejectedAndTheChangeGoesOn() async throws {
        let (harness, scheduler, batchID) = try await Self.scheduled([
            .refused(.reject, code: 4_000_205)
        ])

        try await harness.approve(try await Self.undo(harness, batchID))
        try await harness.deliver(scheduler)

        #expect(
            try await Self.states(harness) == ["scheduled", "rejected 4000205 code_4000205"])
        await harness.close()
    }

    @Test func undo_whenAppleAnswersAndChangesNothing_isRejected() async throws {
        let (harness, scheduler, batchID) = try await Self.scheduled([.ignored])

        try await harness.approve(try await Self.undo(harness, batchID))
        try await harness.deliver(scheduler)

        #expect(try await Self.states(harness) == ["scheduled", "rejected still_scheduled"])
        await harness.close()
    }

    @Test func undo_whenItsAnswerIsLost_endsTheChangeOnceItIsSeenApplied() async throws {
        let (harness, scheduler, batchID) = try await Self.scheduled([.lost])

        try await harness.approve(try await Self.undo(harness, batchID))
        try await harness.deliver(scheduler)
        #expect(try await Self.states(harness) == ["scheduled", "unknown timed out"])
        harness.realClock.advance(by: .seconds(5))
        try await harness.deliver(scheduler)

        #expect(try await Self.states(harness) == ["invalidated undone", "scheduled"])
        #expect(Set(harness.store.calls.map(\.requestReferenceID)).count == 2)
        await harness.close()
    }

    /// The notification of the first call arrives after the undo's answer: the fold begins again and ends the same.
    @Test func undone_change_staysSoWhateverArrivesLate() async throws {
        let (harness, scheduler, batchID) = try await Self.scheduled()
        let toldAt = harness.now.advanced(by: -1_800_000)
        try await harness.approve(try await Self.undo(harness, batchID))
        try await harness.deliver(scheduler)

        try await harness.tell(Harness.scheduled("1", at: toldAt))

        #expect(try await Self.states(harness) == ["invalidated undone", "scheduled"])
        await harness.close()
    }

    @Test func undo_provedByACharge_isEffectiveAndEarnsNothing() async throws {
        let (harness, scheduler, batchID) = try await Self.scheduled()
        try await harness.approve(try await Self.undo(harness, batchID))
        try await harness.deliver(scheduler)
        let renewedAt = Harness.start.advanced(by: 40 * 86_400_000)

        try await harness.tell(
            SubscriptionEvent(
                key: .init(signedAt: renewedAt, evidenceID: "renewed"), source: .notification,
                originalTransactionID: "1", type: "DID_RENEW", status: 1,
                transaction: TransactionStatement(
                    transactionID: "t-2", purchasedAt: renewedAt, storefront: "USA",
                    currency: "USD",
                    period: "P1M",
                    items: ["A", "B"].map { StatementItem(sku: $0, price: 9990) }),
                renewal: RenewalStatement(
                    autoRenewStatus: 1,
                    items: ["A", "B"].map { StatementItem(sku: $0, price: 9990) })))

        #expect(try await Self.states(harness) == ["invalidated undone", "effective"])
        #expect(try await harness.count("charged_renewals") == 0)
        await harness.close()
    }

    @Test func undo_ofNothingOrTwiceOrByItsApprover_isRefused() async throws {
        let (harness, _, batchID) = try await Self.scheduled()

        await #expect(throws: NothingUndone.self) {
            try await Self.undo(harness, batchID, sku: "B")
        }
        let undoID = try await Self.undo(harness, batchID)
        await #expect(throws: NothingUndone.self) { try await Self.undo(harness, batchID) }
        #expect(try await Self.obstacles(harness, batchID) == [.undoUnderWay])
        #expect(try await Self.obstacles(harness, undoID) == [.isAnUndo])
        let at = harness.now.milliseconds
        await #expect(throws: (any Error).self) {
            try await harness.submitter.withTransaction {
                try BatchQueries.approve(undoID, at: at, on: $0)
            }
        }
        try await harness.abort(undoID)
        _ = try await Self.undo(harness, batchID)

        #expect(
            try await Self.states(harness) == ["scheduled", "aborted aborted", "awaiting_approval"])
        await harness.close()
    }

    @Test func undo_afterTheCustomerIsTold_takesNothing() async throws {
        let (harness, _, batchID) = try await Self.scheduled()
        // Announced 27 days before the renewal in 40 days.
        harness.clock.advance(by: .seconds(13 * 86_400))

        await #expect(throws: NothingUndone.self) { try await Self.undo(harness, batchID) }
        #expect(try await Self.obstacles(harness, batchID) == [.alreadyCommunicated])
        #expect(try await harness.count("batches") == 1)
        await harness.close()
    }

    /// Where it is not known whether Apple asks, the day on which it would have asked passes without a word if it only
    /// announces. Then it can be stopped until 27 days before the renewal.
    @Test func undo_ofWhatAppleDidNotAskFor_isPossibleUntilItAnnounces() async throws {
        let (harness, _, batchID) = try await Self.scheduled()
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.price_changes SET forecast_consent = 'not_known', recorded_at = recorded_at,
                forecast_notice_at = due_effective_at - interval '60 days'
            """)
        func until() async throws -> Int64? {
            try await harness.submitter.withTransaction {
                try UndoQueries.takeable(
                    .init(batchID: batchID), at: harness.now.milliseconds, on: $0
                ).first?.firstUntil
            }
        }

        #expect(try await until() == Harness.start.milliseconds + 13 * 86_400_000)
        harness.clock.advance(by: .seconds(13 * 86_400))
        #expect(try await Self.obstacles(harness, batchID) == [.alreadyCommunicated])
        await owner.close()
        await harness.close()
    }

    /// Whoever stops a batch wants to know since when customers have heard of it, and not when they were to hear of it.
    @Test func changeThatWasAnnounced_isPastRecall_sinceTheDayOfTheAnnouncement() async throws {
        let (harness, _, batchID) = try await Self.scheduled()
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.price_changes
            SET state = 'accepted', accepted_at = '2026-03-03T12:00:00Z', recorded_at = recorded_at
            """)

        let beyond = try await harness.submitter.withTransaction {
            try UndoQueries.beyond(
                .init(batchID: batchID), at: harness.now.milliseconds, on: $0)
        }

        #expect(beyond.map(\.day) == ["2026-03-03"])
        #expect(beyond.map(\.state) == ["accepted"])
        await owner.close()
        await harness.close()
    }

    @Test func undo_beforeTheCallAndAfterTheEnd_saysWhyNot() async throws {
        let harness = try await Harness.make([])
        try await harness.subscribe("1")
        let batchID = try await harness.submitAndApprove([Harness.row("1")])

        #expect(try await Self.obstacles(harness, batchID) == [.notSent])
        try await harness.abort(batchID)

        #expect(try await Self.obstacles(harness, batchID) == [.hasEnded])
        await #expect(throws: NothingUndone.self) { try await Self.undo(harness, batchID) }
        await harness.close()
    }

    /// Approval limits are measured against the price that is taken back, not against the one that is paid.
    @Test func undo_aboveTheApproversPercent_needsASecondApprover() async throws {
        let (harness, _, batchID) = try await Self.scheduled()
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            INSERT INTO repricer.approval_limits (approver, max_basis_points)
                SELECT rolname, 500 FROM pg_roles
                WHERE rolname = '\(TestDatabase.loginName("approver"))'
            """)
        await owner.close()
        let undoID = try await Self.undo(harness, batchID)
        let at = harness.now.milliseconds

        let queued = try await harness.approver.withTransaction {
            try BatchQueries.approve(undoID, at: at, on: $0)
        }

        #expect(queued == nil)
        await harness.close()
    }

    @Test func undo_whenTheRenewalIsExtended_keepsItsDistance() async throws {
        let harness = try await ExtensionHarness.make()
        try await harness.subscribe("1")
        let batchID = try await harness.delivery.submitAndApprove([Harness.row("1")])
        try await harness.delivery.deliver(harness.delivery.scheduler())
        harness.pass(.seconds(3600))
        _ = try await Self.undo(harness.delivery, batchID)
        let lead =
            "SELECT due_effective_at - send_by = interval '27 days' AS lead, due_effective_at AS due"
            + " FROM repricer.price_changes ORDER BY undoes_change_id IS NOT NULL"
        func dates() async throws -> [Int64] {
            try await harness.delivery.service.withConnection { connection in
                try await connection.query("\(unsafe: lead)").map { try $0.milliseconds("due") }
            }
        }
        let before = try await dates()

        try await harness.tellExtended("1", days: 20, at: 4_000_000)
        harness.pass(.seconds(5))
        try await harness.work(harness.extender())

        #expect(try await dates() == before.map { $0 + 20 * 86_400_000 })
        #expect(
            try await harness.delivery.service.withConnection { connection in
                try await connection.query("\(unsafe: lead)").last?.bool("lead")
            } == true)
        await harness.delivery.close()
    }
}

import Batches
import Postgres
import PriceChanges
import Pricing
import ServiceKit
import TestSupport
import Testing

/// Taking back what Apple has scheduled and nobody was told of.
@Suite(.database) struct UndoTests {
    private typealias World = DeliveryWorld

    /// A world in which Apple has an increase of A with B as dependent, and the scheduler that sent it.
    private static func scheduled(
        _ replies: [ScriptedStore.Reply] = []
    ) async throws -> (World, Scheduler, batchID: String) {
        let world = try await World.make([.applied] + replies)
        try await world.subscribe("1")
        let batchID = try await world.submitAndApprove([World.row("1", dependents: ["B"])])
        let scheduler = world.scheduler()
        try await world.deliver(scheduler)
        world.clock.advance(by: .seconds(3600))
        world.realClock.advance(by: .seconds(3600))
        return (world, scheduler, batchID)
    }

    /// Submits the undo as the submitter; returns its batch.
    private static func undo(_ world: World, _ batchID: String, sku: String? = nil)
        async throws -> String
    {
        let at = world.now.milliseconds
        var random = SystemRandomNumberGenerator()
        let undoID = UUIDv7.make(nowMilliseconds: at, random: &random)
        let rows = try await world.submitter.withTransaction {
            try UndoQueries.store(
                UndoQueries.Scope(batchID: batchID, sku: sku), as: undoID, name: "undo", at: at,
                on: $0)
        }
        if rows == 0 { throw NothingUndone() }
        return undoID
    }

    private struct NothingUndone: Error {}

    /// Why the changes of a batch can't be undone now.
    private static func obstacles(_ world: World, _ batchID: String) async throws -> [UndoObstacle]
    {
        let at = world.now.milliseconds
        return try await world.submitter.withTransaction { connection in
            try UndoQueries.refused(
                UndoQueries.Scope(batchID: batchID), by: batchID, at: at, limit: 100, on: connection
            ).map(\.obstacle)
        }
    }

    /// `state reason` of the change and of its undo.
    private static func states(_ world: World) async throws -> [String] {
        try await world.service.withConnection { connection in
            try await connection.query(
                """
                SELECT state || coalesce(' ' || reason, '') AS text FROM repricer.price_changes
                ORDER BY undoes_change_id IS NOT NULL, state_since, state
                """
            ).map { try $0.text("text") }
        }
    }

    @Test func undo_whenAppleTakesIt_endsTheChangeAndFreesItsItems() async throws {
        let (world, scheduler, batchID) = try await Self.scheduled()

        let undoID = try await Self.undo(world, batchID)
        try await world.deliver(scheduler)
        #expect(try await Self.states(world) == ["scheduled", "awaiting_approval"])
        try await world.approve(undoID)
        try await world.deliver(scheduler)

        #expect(try await Self.states(world) == ["invalidated undone", "scheduled"])
        let call = try #require(world.store.calls.last)
        #expect(call.items.map(\.price) == [9990])
        #expect(call.items.allSatisfy { $0.sku == "A" && $0.dependentSKUs.isEmpty })
        #expect(call.consistencyToken == "next")
        #expect(try await world.count("dependency_roles") == 0)
        await world.close()
    }

    @Test func undone_item_takesANewChangeAtOnce() async throws {
        let (world, scheduler, batchID) = try await Self.scheduled()
        try await world.approve(try await Self.undo(world, batchID))
        try await world.deliver(scheduler)
        world.clock.advance(by: .seconds(3600))

        let next = try await world.submit([World.row("1", to: 11_990)], content: "again")
        try await world.approve(next)
        try await world.deliver(scheduler)

        #expect(world.store.calls.map { $0.items.map(\.price) } == [[10_990], [9990], [11_990]])
        #expect(
            try await Self.states(world) == [
                "invalidated undone", "scheduled", "invalidated replaced_by_a_later_change",
            ])
        await world.close()
    }

    @Test func undo_whenTheCustomerWasToldMeanwhile_isNotSent() async throws {
        let (world, scheduler, batchID) = try await Self.scheduled()
        let undoID = try await Self.undo(world, batchID)
        try await world.tell(World.scheduled("1", status: "ACCEPTED", at: world.now))

        try await world.approve(undoID)
        try await world.deliver(scheduler)

        #expect(try await Self.states(world) == ["accepted", "ineligible already_communicated"])
        #expect(world.store.calls.count == 1)
        await world.close()
    }

    @Test func undo_whenAppleRefuses_isRejectedAndTheChangeGoesOn() async throws {
        let (world, scheduler, batchID) = try await Self.scheduled([
            .refused(.reject, code: 4_000_205)
        ])

        try await world.approve(try await Self.undo(world, batchID))
        try await world.deliver(scheduler)

        #expect(
            try await Self.states(world) == ["scheduled", "rejected 4000205 code_4000205"])
        await world.close()
    }

    @Test func undo_whenAppleAnswersAndChangesNothing_isRejected() async throws {
        let (world, scheduler, batchID) = try await Self.scheduled([.ignored])

        try await world.approve(try await Self.undo(world, batchID))
        try await world.deliver(scheduler)

        #expect(try await Self.states(world) == ["scheduled", "rejected still_scheduled"])
        await world.close()
    }

    @Test func undo_whenItsAnswerIsLost_endsTheChangeOnceItIsSeenApplied() async throws {
        let (world, scheduler, batchID) = try await Self.scheduled([.lost])

        try await world.approve(try await Self.undo(world, batchID))
        try await world.deliver(scheduler)
        #expect(try await Self.states(world) == ["scheduled", "unknown timed out"])
        world.realClock.advance(by: .seconds(5))
        try await world.deliver(scheduler)

        #expect(try await Self.states(world) == ["invalidated undone", "scheduled"])
        #expect(Set(world.store.calls.map(\.requestReferenceID)).count == 2)
        await world.close()
    }

    /// The notification of the first call arrives after the undo's answer: the fold begins again and ends the same.
    @Test func undone_change_staysSoWhateverArrivesLate() async throws {
        let (world, scheduler, batchID) = try await Self.scheduled()
        let toldAt = world.now.advanced(by: -1_800_000)
        try await world.approve(try await Self.undo(world, batchID))
        try await world.deliver(scheduler)

        try await world.tell(World.scheduled("1", at: toldAt))

        #expect(try await Self.states(world) == ["invalidated undone", "scheduled"])
        await world.close()
    }

    @Test func undo_provedByACharge_isEffectiveAndEarnsNothing() async throws {
        let (world, scheduler, batchID) = try await Self.scheduled()
        try await world.approve(try await Self.undo(world, batchID))
        try await world.deliver(scheduler)
        let renewedAt = World.start.advanced(by: 40 * 86_400_000)

        try await world.tell(
            SubscriptionEvent(
                key: .init(signedAt: renewedAt, evidenceID: "renewed"), source: .notification,
                originalTransactionID: "1", type: "DID_RENEW", status: 1,
                transaction: TransactionStatement(
                    transactionID: "t-2", purchasedAt: renewedAt, storefront: "USA",
                    currency: "USD",
                    period: "P1M",
                    items: ["A", "B"].map { TransactionStatement.Item(sku: $0, price: 9990) }),
                renewal: RenewalStatement(
                    autoRenewStatus: 1,
                    items: ["A", "B"].map { RenewalStatement.Item(sku: $0, price: 9990) })))

        #expect(try await Self.states(world) == ["invalidated undone", "effective"])
        #expect(try await world.count("charged_renewals") == 0)
        await world.close()
    }

    @Test func undo_ofNothingOrTwiceOrByItsApprover_isRefused() async throws {
        let (world, _, batchID) = try await Self.scheduled()

        await #expect(throws: NothingUndone.self) {
            try await Self.undo(world, batchID, sku: "B")
        }
        let undoID = try await Self.undo(world, batchID)
        await #expect(throws: NothingUndone.self) { try await Self.undo(world, batchID) }
        #expect(try await Self.obstacles(world, batchID) == [.undoUnderWay])
        #expect(try await Self.obstacles(world, undoID) == [.isAnUndo])
        let at = world.now.milliseconds
        await #expect(throws: (any Error).self) {
            try await world.submitter.withTransaction {
                try BatchQueries.approve(undoID, at: at, on: $0)
            }
        }
        try await world.abort(undoID)
        _ = try await Self.undo(world, batchID)

        #expect(
            try await Self.states(world) == ["scheduled", "aborted aborted", "awaiting_approval"])
        await world.close()
    }

    @Test func undo_afterTheCustomerIsTold_takesNothing() async throws {
        let (world, _, batchID) = try await Self.scheduled()
        // Announced 27 days before the renewal in 40 days.
        world.clock.advance(by: .seconds(13 * 86_400))

        await #expect(throws: NothingUndone.self) { try await Self.undo(world, batchID) }
        #expect(try await Self.obstacles(world, batchID) == [.alreadyCommunicated])
        #expect(try await world.count("batches") == 1)
        await world.close()
    }

    @Test func undo_beforeTheCallAndAfterTheEnd_saysWhyNot() async throws {
        let world = try await World.make([])
        try await world.subscribe("1")
        let batchID = try await world.submitAndApprove([World.row("1")])

        #expect(try await Self.obstacles(world, batchID) == [.notSent])
        try await world.abort(batchID)

        #expect(try await Self.obstacles(world, batchID) == [.hasEnded])
        await #expect(throws: NothingUndone.self) { try await Self.undo(world, batchID) }
        await world.close()
    }

    /// Approval limits are measured against the price that is taken back, not against the one that is paid.
    @Test func undo_aboveTheApproversPercent_needsASecondApprover() async throws {
        let (world, _, batchID) = try await Self.scheduled()
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            INSERT INTO repricer.approval_limits (approver, max_basis_points)
                SELECT rolname, 500 FROM pg_roles
                WHERE rolname = '\(TestDatabase.loginName("approver"))'
            """)
        await owner.close()
        let undoID = try await Self.undo(world, batchID)
        let at = world.now.milliseconds

        let queued = try await world.approver.withTransaction {
            try BatchQueries.approve(undoID, at: at, on: $0)
        }

        #expect(queued == nil)
        await world.close()
    }

    @Test func undo_whenTheRenewalIsExtended_keepsItsDistance() async throws {
        let world = try await ExtensionWorld.make()
        try await world.subscribe("1")
        let batchID = try await world.delivery.submitAndApprove([World.row("1")])
        try await world.delivery.deliver(world.delivery.scheduler())
        world.pass(.seconds(3600))
        _ = try await Self.undo(world.delivery, batchID)
        let lead =
            "SELECT due_effective_at - send_by = interval '27 days' AS lead, due_effective_at AS due"
            + " FROM repricer.price_changes ORDER BY undoes_change_id IS NOT NULL"
        func dates() async throws -> [Int64] {
            try await world.delivery.service.withConnection { connection in
                try await connection.query("\(unsafe: lead)").map { try $0.milliseconds("due") }
            }
        }
        let before = try await dates()

        try await world.tellExtended("1", days: 20, at: 4_000_000)
        world.pass(.seconds(5))
        try await world.work(world.extender())

        #expect(try await dates() == before.map { $0 + 20 * 86_400_000 })
        #expect(
            try await world.delivery.service.withConnection { connection in
                try await connection.query("\(unsafe: lead)").last?.bool("lead")
            } == true)
        await world.delivery.close()
    }
}

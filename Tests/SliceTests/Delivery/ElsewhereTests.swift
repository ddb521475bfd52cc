import Batches
import Dependents
import Postgres
import Pricing
import TestSupport
import Testing

/// Dependents on another subscription of the customer, told month by month: what Apple says first, then the clock.
@Suite(.database) struct ElsewhereTests {
    private typealias World = DeliveryWorld

    @Test(arguments: ["2/FAR", "FAR"])
    func elsewhere_parentDeclined_isCancelledOnceAndProvedByTheAnswer(name: String) async throws {
        let world = try await World.make()
        let store = world.cancellingStore()
        let canceller = world.canceller(store)
        try await world.subscribe("1", items: ["A", "B"])
        try await world.subscribe("2", items: ["FAR"])

        try await world.raise(dependents: [name])
        try await world.run(canceller)
        #expect(try await world.dependents() == [])
        try await world.tellIncrease("PENDING", on: 13)
        world.run(to: 14)
        try await world.run(canceller)
        #expect(try await world.dependents() == [])
        try await world.tellRenewal(items: ["B"])
        #expect(try await world.dependents() == ["\(name) requested"])
        world.run(to: 41)
        try await world.run(canceller, rounds: 5)

        #expect(try await world.dependents() == ["\(name) confirmed"])
        #expect(store.calls.map(\.transactionID) == ["2"])
        #expect(store.calls.first?.consistencyToken == "token-false")
        #expect(world.store.calls.flatMap { $0.items.flatMap(\.dependentSKUs) } == [])
        #expect(try await world.told() == ["requested", "cancel_sent", "confirmed"])
        let row = try await world.service.withConnection { connection in
            try await connection.query("SELECT * FROM report.dependent_cancellation").one()
        }
        #expect(try row.int64("price_milliunits") == 4990)
        #expect(try row.text("currency") == "USD")
        #expect(try row.text("period") == "P1M")
        let periods = try await world.service.withConnection { connection in
            try await connection.query(
                "SELECT payload ->> 'period' AS period FROM repricer.outbox ORDER BY position"
            ).map { try $0.textOrNil("period") }
        }
        // Where it lives was not known at first, nor how it is paid.
        #expect(periods == [nil, "P1M", "P1M"])
        #expect(try row.text("cause") == "item_missing_at_renewal")
        #expect(try row.text("dependent_transaction_id") == "2")
        #expect(try row.text("cancel_reference_id") == store.calls[0].requestReferenceID)
        #expect(try row.text("settled_by_evidence") == store.calls[0].requestReferenceID)
        await world.close()
    }

    @Test func elsewhere_consentGivenLate_isNeverAskedFor() async throws {
        let world = try await World.make()
        let store = world.cancellingStore()
        try await world.subscribe("1", items: ["A", "B"])
        try await world.subscribe("2", items: ["FAR"])
        try await world.raise(dependents: ["2/FAR"])

        try await world.tellIncrease("PENDING", on: 13)
        try await world.tellIncrease("ACCEPTED", on: 39)
        world.run(to: 41)
        try await world.tellRenewal(items: ["A", "B"])
        try await world.run(world.canceller(store), rounds: 3)

        #expect(try await world.dependents() == [])
        #expect(store.calls == [])
        await world.close()
    }

    @Test func elsewhere_lateStatementOfConsent_stopsWhatWasNotSent() async throws {
        let world = try await World.declined()
        let store = world.cancellingStore()
        #expect(try await world.dependents() == ["2/FAR requested"])

        // The consent of day 39 is told after the renewal: that one charged B alone, so A left by itself.
        try await world.tellIncrease("ACCEPTED", on: 39)
        #expect(try await world.dependents() == ["2/FAR not_needed"])
        try await world.run(world.canceller(store), rounds: 3)

        #expect(store.calls == [])
        #expect(try await world.told() == ["requested", "not_needed"])
        await world.close()
    }

    @Test func elsewhere_lateStatementOfConsent_afterTheCall_isForAPerson() async throws {
        let world = try await World.declined()
        let store = world.cancellingStore()
        try await world.run(world.canceller(store), rounds: 2)
        #expect(try await world.dependents() == ["2/FAR confirmed"])

        try await world.tellIncrease("ACCEPTED", on: 39)

        #expect(try await world.dependents() == ["2/FAR discrepancy"])
        await world.close()
    }

    @Test func elsewhere_somethingElseLivesThere_isForAPerson_andNothingIsCalled() async throws {
        let world = try await World.declined(far: ["FAR", "OTHER"])
        let store = world.cancellingStore(items: ["2": ["FAR", "OTHER"]])

        try await world.run(world.canceller(store), rounds: 3)

        #expect(try await world.dependents() == ["2/FAR discrepancy"])
        #expect(
            try await world.dependentDetail()
                == "its subscription also carries OTHER; not cancelled")
        #expect(store.calls == [])
        await world.close()
    }

    /// Also where their turns come one by one: what waits for its turn is no company.
    @Test(arguments: [25, 1])
    func elsewhere_twoOfOneSubscription_fallByOneCall(perRound: Int) async throws {
        let world = try await World.declined(
            dependents: ["2/FAR", "2/FARTHER"], far: ["FAR", "FARTHER"])
        let store = world.cancellingStore(items: ["2": ["FAR", "FARTHER"]])

        try await world.run(world.canceller(store, perRound: perRound), rounds: 8)

        #expect(try await world.dependents() == ["2/FAR confirmed", "2/FARTHER confirmed"])
        #expect(store.calls.count == 1)
        await world.close()
    }

    /// The parent's own subscription had an item of that name once: our call named it no more.
    @Test func elsewhere_onceSeenBesideItsParent_isCancelledWhereItLives() async throws {
        let world = try await World.make()
        try await world.subscribe("1", items: ["A", "B", "FAR"])
        try await world.tellRenewal(items: ["A", "B"], on: 0)
        try await world.subscribe("2", items: ["FAR"])
        try await world.raise(dependents: ["FAR"])
        world.run(to: 13)
        try await world.tellIncrease("PENDING", on: 13)
        world.run(to: 40)
        try await world.tellRenewal(items: ["B"])
        world.run(to: 41)
        let store = world.cancellingStore()

        #expect(try await world.dependents() == ["FAR requested"])
        try await world.run(world.canceller(store), rounds: 5)

        #expect(try await world.dependents() == ["FAR confirmed"])
        #expect(store.calls.map(\.transactionID) == ["2"])
        await world.close()
    }

    /// FAR goes on under another name: it is neither gone nor, for certain, what the batch meant. Also once a renewal
    /// charged it under the new one.
    @Test(arguments: ["2/FAR", "FAR"], [false, true])
    func elsewhere_renamedMeanwhile_isAPersons(name: String, hasRenewed: Bool) async throws {
        let world = try await World.make()
        try await world.subscribe("1", items: ["A", "B"])
        try await world.subscribe("2", items: ["FAR"])
        // Had one of that name once, and was heard of later.
        try await world.subscribe("3", items: ["FAR", "OTHER"])
        try await world.tellRenewal("3", items: ["OTHER"], on: 0)
        try await world.raise(dependents: [name])
        try await world.rename("2", "FAR", to: "FAR2", on: 5)
        if hasRenewed { try await world.tellRenewal("2", items: ["FAR2"], on: 12) }
        world.run(to: 13)
        try await world.tellIncrease("PENDING", on: 13)
        try await world.tellRenewal("3", items: ["OTHER"], on: 30)
        world.run(to: 39)
        try await world.tellRenewal(items: ["B"], on: 39)
        let store = world.cancellingStore(
            items: ["1": ["B"], "2": ["FAR2"], "3": ["OTHER"]])

        try await world.run(world.canceller(store), rounds: 2)

        #expect(try await world.dependents() == ["\(name) discrepancy"])
        #expect(
            try await world.dependentDetail()
                == "it is called FAR2 now and goes on renewing; not cancelled")
        let lost = try await world.service.withConnection { connection in
            try await connection.query("SELECT * FROM report.dependent_cancellation").one()
        }
        #expect(try lost.text("dependent_transaction_id") == "2")
        #expect(try lost.int64("price_milliunits") == 4990)
        #expect(store.calls.isEmpty)
        await world.close()
    }

    /// FAR leaves the parent's own subscription when the call is made, and renews on the other one: that one is meant.
    @Test func elsewhere_leavingBesideItsParent_isCancelledWhereItRenews() async throws {
        let world = try await World.make()
        try await world.subscribe("1", items: ["A", "B", "FAR"])
        try await world.subscribe("2", items: ["FAR"])
        try await world.tell(
            SubscriptionEvent(
                key: .init(signedAt: World.start.advanced(by: -500), evidenceID: "leaves"),
                source: .notification, originalTransactionID: "1",
                type: "DID_CHANGE_RENEWAL_PREF", status: 1,
                renewal: RenewalStatement(
                    autoRenewStatus: 1,
                    items: ["A", "B"].map { RenewalStatement.Item(sku: $0, price: 4990) })))
        try await world.raise(dependents: ["FAR"])
        #expect(world.store.calls.flatMap { $0.items.flatMap(\.dependentSKUs) } == [])
        world.run(to: 13)
        try await world.tellIncrease("PENDING", on: 13)
        world.run(to: 40)
        try await world.tellRenewal(items: ["B"])
        world.run(to: 41)
        let store = world.cancellingStore()

        try await world.run(world.canceller(store), rounds: 5)

        #expect(try await world.dependents() == ["FAR confirmed"])
        #expect(store.calls.map(\.transactionID) == ["2"])
        await world.close()
    }

    @Test func elsewhere_renewalOffAlready_isConfirmedWithoutACall() async throws {
        let world = try await World.declined()
        let store = world.cancellingStore()
        _ = await store.cancel(
            CancelIntent(
                transactionID: "2", requestReferenceID: "by-hand", consistencyToken: nil,
                storefront: nil), leavingBefore: .now + .seconds(9))

        try await world.run(world.canceller(store), rounds: 2)

        #expect(try await world.dependents() == ["2/FAR confirmed"])
        #expect(store.calls.map(\.requestReferenceID) == ["by-hand"])
        await world.close()
    }

    @Test func elsewhere_aloneThere_withItsOwnAcceptedIncrease_fallsWithItsParent() async throws {
        let world = try await World.make()
        let store = world.cancellingStore()
        try await world.subscribe("1", items: ["A", "B"])
        try await world.subscribe("2", items: ["FAR"])
        try await world.submitAndApprove([
            World.row("1", dependents: ["2/FAR"]), World.row("2", "FAR", line: 3),
        ])
        try await world.deliver(world.scheduler())
        try await world.tellIncrease("PENDING", on: 13)
        try await world.tellIncrease("PENDING", on: 13, of: "FAR", id: "2", items: ["FAR"])
        try await world.tellIncrease("ACCEPTED", on: 14, of: "FAR", id: "2", items: ["FAR"])
        world.run(to: 40)
        try await world.tellRenewal(items: ["B"])
        world.run(to: 41)

        try await world.run(world.canceller(store), rounds: 2)

        #expect(try await world.dependents() == ["2/FAR confirmed"])
        #expect(store.calls.count == 1)
        await world.close()
    }

    /// FAR's own increase was accepted; its subscription was then cancelled by us, for A on the other one.
    private func cancelledByUs() async throws -> World {
        let world = try await World.make()
        try await world.subscribe("1", items: ["A", "B"])
        try await world.subscribe("2", items: ["FAR"])
        try await world.submitAndApprove([
            World.row("1", dependents: ["2/FAR"]), World.row("2", "FAR", line: 3),
        ])
        try await world.deliver(world.scheduler())
        try await world.tellIncrease("PENDING", on: 13)
        try await world.tellIncrease("PENDING", on: 13, of: "FAR", id: "2", items: ["FAR"])
        try await world.tellIncrease("ACCEPTED", on: 14, of: "FAR", id: "2", items: ["FAR"])
        world.run(to: 40)
        try await world.tellRenewal(items: ["B"])
        world.run(to: 41)
        try await world.run(world.canceller(world.cancellingStore()), rounds: 4)
        #expect(try await world.dependents() == ["2/FAR confirmed"])
        return world
    }

    private func tell(
        _ world: World, _ type: String, _ subtype: String, on day: Int64, renews: Int,
        status: Int = 1
    ) async throws {
        try await world.tell(
            SubscriptionEvent(
                key: .init(signedAt: world.at(day), evidenceID: "2-\(subtype)-\(day)"),
                source: .notification, originalTransactionID: "2", type: type, subtype: subtype,
                status: status,
                renewal: RenewalStatement(autoRenewStatus: renews)))
    }

    @Test func ownChange_onASubscriptionThatWeCancelled_fellWithItsParent() async throws {
        let world = try await cancelledByUs()

        try await tell(world, "EXPIRED", "VOLUNTARY", on: 70, renews: 0, status: 2)

        let expected = ["A declined item_missing_at_renewal", "FAR declined parent_declined"]
        #expect(try await world.changes() == expected)
        // A statement that arrives late folds from the beginning, to the same end.
        try await tell(world, "DID_CHANGE_RENEWAL_STATUS", "LATE", on: 50, renews: 0)
        #expect(try await world.changes() == expected)
        let reason = try await world.service.withConnection { connection in
            try await connection.query(
                """
                SELECT reason FROM repricer.price_change_history
                WHERE original_transaction_id = '2' ORDER BY occurred_at DESC LIMIT 1
                """
            ).one().textOrNil("reason")
        }
        #expect(reason == "parent_declined")
        await world.close()
    }

    @Test func ownChange_whoseCustomerTookOurCancelBackAndLeftLater_isTheirOwnEnd() async throws {
        let world = try await cancelledByUs()

        try await tell(
            world, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED", on: 50, renews: 1)
        try await tell(
            world, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", on: 60, renews: 0)
        try await tell(world, "EXPIRED", "VOLUNTARY", on: 70, renews: 0, status: 2)

        let expected = ["A declined item_missing_at_renewal", "FAR cancelled left_voluntarily"]
        #expect(try await world.changes() == expected)
        try await tell(world, "DID_CHANGE_RENEWAL_STATUS", "LATE", on: 45, renews: 0)
        #expect(try await world.changes() == expected)
        await world.close()
    }

    @Test func elsewhere_foreignCustomersSubscription_isRefusedInThePlan_andNeverCalled()
        async throws
    {
        let world = try await World.make()
        try await world.subscribe("1", items: ["A", "B"])
        try await world.subscribe("2", items: ["FAR"], customer: "another")

        let planned = try await Planner(
            pool: world.submitter, rules: .shipped, environment: .production
        ).plan(rows: [World.row("1", dependents: ["2/FAR"])], asOf: world.now)
        #expect(planned.compactMap(\.fault).map(\.code) == [.dependentUnknown])
        #expect(
            planned[0].fault?.message == "2/FAR is on the subscription of another customer")
        await world.close()
    }

    @Test func elsewhere_subscriptionChangedHands_isForAPerson() async throws {
        // Planned while nobody knew whose it is; its token came since.
        let world = try await World.declined(customer: nil)
        let store = world.cancellingStore()
        try await world.subscribe("3", items: ["X"])
        try await world.service.withTransaction { connection in
            _ = try connection.execute(
                """
                UPDATE repricer.subscriptions SET app_account_token = 'another'
                WHERE original_transaction_id = '2'
                """)
        }

        try await world.run(world.canceller(store), rounds: 2)

        #expect(try await world.dependents() == ["2/FAR discrepancy"])
        #expect(try await world.dependentDetail()?.contains("another customer's") == true)
        #expect(store.calls == [])
        await world.close()
    }

    @Test func elsewhere_itemHasDependentsOfItsOwn_isRefusedAsAChain() async throws {
        let world = try await World.make()
        try await world.subscribe("1", items: ["A", "B"])
        try await world.subscribe("2", items: ["FAR", "FARTHER"])
        func codes(_ rows: [BatchRow]) async throws -> [RowCode?] {
            try await Planner(pool: world.submitter, rules: .shipped, environment: .production)
                .plan(rows: rows, asOf: world.now).map(\.fault?.code)
        }
        let first = World.row("1", dependents: ["2/FAR"])

        #expect(
            try await codes([first, World.row("2", "FAR", line: 3, dependents: ["FARTHER"])])
                == [.dependentChained, .dependentChained])
        // Through a change that is open already.
        try await world.submitAndApprove([World.row("2", "FAR", dependents: ["FARTHER"])])
        #expect(try await codes([first]) == [.dependentChained])
        #expect(try await codes([World.row("1", dependents: ["2/FARTHER"])]) == [.dependentShared])
        await world.close()
    }
}

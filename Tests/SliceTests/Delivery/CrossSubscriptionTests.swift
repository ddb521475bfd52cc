import Batches
import Dependents
import Postgres
import TestSupport
import Testing

@testable import Pricing

/// Dependents on another subscription of the customer, told month by month: what Apple says first, then the clock.
@Suite(.database) struct CrossSubscriptionTests {
    private typealias Harness = DeliveryHarness

    @Test(arguments: ["2/FAR", "FAR"])
    func elsewhere_parentDeclined_isCancelledOnceAndProvedByTheAnswer(name: String) async throws {
        let harness = try await Harness.make()
        let store = harness.cancellingStore()
        let canceller = harness.canceller(store)
        try await harness.subscribe("1", items: ["A", "B"])
        try await harness.subscribe("2", items: ["FAR"])

        try await harness.raise(dependents: [name])
        try await harness.run(canceller)
        #expect(try await harness.dependents() == [])
        try await harness.tellIncrease("PENDING", on: 13)
        harness.run(to: 14)
        try await harness.run(canceller)
        #expect(try await harness.dependents() == [])
        try await harness.tellRenewal(items: ["B"])
        #expect(try await harness.dependents() == ["\(name) requested"])
        harness.run(to: 41)
        try await harness.run(canceller, rounds: 5)

        #expect(try await harness.dependents() == ["\(name) confirmed"])
        #expect(store.calls.map(\.transactionID) == ["2"])
        #expect(store.calls.first?.consistencyToken == "token-false")
        #expect(harness.store.calls.flatMap { $0.items.flatMap(\.dependentSKUs) } == [])
        #expect(try await harness.told() == ["requested", "cancel_sent", "confirmed"])
        let row = try await harness.service.withConnection { connection in
            try await connection.query("SELECT * FROM report.dependent_cancellation").one()
        }
        #expect(try row.int64("price_milliunits") == 4990)
        #expect(try row.text("currency") == "USD")
        #expect(try row.text("period") == "P1M")
        let periods = try await harness.service.withConnection { connection in
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
        await harness.close()
    }

    /// Whoever has the parent again may keep what depends on it, so that no program ends it.
    @Test(arguments: [4990, 10990])
    func elsewhere_parentBoughtAgainBeforeTheCall_isAPersons(price: Int64) async throws {
        let harness = try await Harness.make()
        let store = harness.cancellingStore(items: ["1": ["A", "B"], "2": ["FAR"]])
        let canceller = harness.canceller(store)
        try await harness.subscribe("1", items: ["A", "B"])
        try await harness.subscribe("2", items: ["FAR"])
        try await harness.raise(dependents: ["2/FAR"])
        try await harness.tellIncrease("PENDING", on: 13)
        try await harness.tellRenewal(items: ["B"])
        #expect(try await harness.dependents() == ["2/FAR requested"])
        try await harness.tellBoughtBack(on: 41, price: price)
        harness.run(to: 42)

        try await harness.run(canceller, rounds: 3)

        #expect(store.calls.isEmpty)
        #expect(try await harness.dependents() == ["2/FAR discrepancy"])
        #expect(
            try await harness.dependentDetail()
                == "the customer has its parent A again, which renews; not cancelled")
        await harness.close()
    }

    /// No notification told that the customer has the parent again: its status does, which is read before the call.
    @Test func elsewhere_parentBoughtAgainUntold_isAPersons() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore(items: ["1": ["A", "B"], "2": ["FAR"]])

        try await harness.run(harness.canceller(store), rounds: 3)

        #expect(store.calls.isEmpty)
        #expect(try await harness.dependents() == ["2/FAR discrepancy"])
        await harness.close()
    }

    @Test func elsewhere_consentGivenLate_isNeverAskedFor() async throws {
        let harness = try await Harness.make()
        let store = harness.cancellingStore()
        try await harness.subscribe("1", items: ["A", "B"])
        try await harness.subscribe("2", items: ["FAR"])
        try await harness.raise(dependents: ["2/FAR"])

        try await harness.tellIncrease("PENDING", on: 13)
        try await harness.tellIncrease("ACCEPTED", on: 39)
        harness.run(to: 41)
        try await harness.tellRenewal(items: ["A", "B"])
        try await harness.run(harness.canceller(store), rounds: 3)

        #expect(try await harness.dependents() == [])
        #expect(store.calls == [])
        await harness.close()
    }

    @Test func elsewhere_lateStatementOfConsent_stopsWhatWasNotSent() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore()
        #expect(try await harness.dependents() == ["2/FAR requested"])

        // The consent of day 39 is told after the renewal: that one charged B alone, so A left by itself.
        try await harness.tellIncrease("ACCEPTED", on: 39)
        #expect(try await harness.dependents() == ["2/FAR not_needed"])
        try await harness.run(harness.canceller(store), rounds: 3)

        #expect(store.calls == [])
        #expect(try await harness.told() == ["requested", "not_needed"])
        await harness.close()
    }

    @Test func elsewhere_lateStatementOfConsent_afterTheCall_isForAPerson() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore()
        try await harness.run(harness.canceller(store), rounds: 2)
        #expect(try await harness.dependents() == ["2/FAR confirmed"])

        try await harness.tellIncrease("ACCEPTED", on: 39)

        #expect(try await harness.dependents() == ["2/FAR discrepancy"])
        await harness.close()
    }

    @Test func elsewhere_somethingElseLivesThere_isForAPerson_andNothingIsCalled() async throws {
        let harness = try await Harness.declined(far: ["FAR", "OTHER"])
        let store = harness.cancellingStore(items: ["2": ["FAR", "OTHER"]])

        try await harness.run(harness.canceller(store), rounds: 3)

        #expect(try await harness.dependents() == ["2/FAR discrepancy"])
        #expect(
            try await harness.dependentDetail()
                == "its subscription also carries OTHER; not cancelled")
        #expect(store.calls == [])
        await harness.close()
    }

    /// The same holds where their turns come one by one: a dependent that waits for its turn does not keep the
    /// subscription.
    @Test(arguments: [25, 1])
    func elsewhere_twoOfOneSubscription_fallByOneCall(perRound: Int) async throws {
        let harness = try await Harness.declined(
            dependents: ["2/FAR", "2/FARTHER"], far: ["FAR", "FARTHER"])
        let store = harness.cancellingStore(items: ["2": ["FAR", "FARTHER"]])

        try await harness.run(harness.canceller(store, perRound: perRound), rounds: 8)

        #expect(try await harness.dependents() == ["2/FAR confirmed", "2/FARTHER confirmed"])
        #expect(store.calls.count == 1)
        await harness.close()
    }

    /// The parent's own subscription had an item of that name once: our call named it no more.
    @Test func elsewhere_onceSeenBesideItsParent_isCancelledWhereItLives() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1", items: ["A", "B", "FAR"])
        try await harness.tellRenewal(items: ["A", "B"], on: 0)
        try await harness.subscribe("2", items: ["FAR"])
        try await harness.raise(dependents: ["FAR"])
        harness.run(to: 13)
        try await harness.tellIncrease("PENDING", on: 13)
        harness.run(to: 40)
        try await harness.tellRenewal(items: ["B"])
        harness.run(to: 41)
        let store = harness.cancellingStore()

        #expect(try await harness.dependents() == ["FAR requested"])
        try await harness.run(harness.canceller(store), rounds: 5)

        #expect(try await harness.dependents() == ["FAR confirmed"])
        #expect(store.calls.map(\.transactionID) == ["2"])
        await harness.close()
    }

    /// FAR goes on under another name: it is neither gone nor, for certain, what the batch meant. Also once a renewal
    /// charged it under the new one.
    @Test(arguments: ["2/FAR", "FAR"], [false, true])
    func elsewhere_renamedMeanwhile_isAPersons(name: String, hasRenewed: Bool) async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1", items: ["A", "B"])
        try await harness.subscribe("2", items: ["FAR"])
        // Had one of that name once, and was heard of later.
        try await harness.subscribe("3", items: ["FAR", "OTHER"])
        try await harness.tellRenewal("3", items: ["OTHER"], on: 0)
        try await harness.raise(dependents: [name])
        try await harness.rename("2", "FAR", to: "FAR2", on: 5)
        if hasRenewed { try await harness.tellRenewal("2", items: ["FAR2"], on: 12) }
        harness.run(to: 13)
        try await harness.tellIncrease("PENDING", on: 13)
        try await harness.tellRenewal("3", items: ["OTHER"], on: 30)
        harness.run(to: 39)
        try await harness.tellRenewal(items: ["B"], on: 39)
        let store = harness.cancellingStore(
            items: ["1": ["B"], "2": ["FAR2"], "3": ["OTHER"]])

        try await harness.run(harness.canceller(store), rounds: 2)

        #expect(try await harness.dependents() == ["\(name) discrepancy"])
        #expect(
            try await harness.dependentDetail()
                == "it is called FAR2 now and goes on renewing; not cancelled")
        let lost = try await harness.service.withConnection { connection in
            try await connection.query("SELECT * FROM report.dependent_cancellation").one()
        }
        #expect(try lost.text("dependent_transaction_id") == "2")
        #expect(try lost.int64("price_milliunits") == 4990)
        #expect(store.calls.isEmpty)
        await harness.close()
    }

    /// FAR leaves the parent's own subscription when the call is made, and renews on the other one: that one is meant.
    @Test func elsewhere_leavingBesideItsParent_isCancelledWhereItRenews() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1", items: ["A", "B", "FAR"])
        try await harness.subscribe("2", items: ["FAR"])
        try await harness.tell(
            SubscriptionEvent(
                key: .init(signedAt: Harness.start.advanced(by: -500), evidenceID: "leaves"),
                source: .notification, originalTransactionID: "1",
                type: "DID_CHANGE_RENEWAL_PREF", status: 1,
                renewal: RenewalStatement(
                    autoRenewStatus: 1,
                    items: ["A", "B"].map { StatementItem(sku: $0, price: 4990) })))
        try await harness.raise(dependents: ["FAR"])
        #expect(harness.store.calls.flatMap { $0.items.flatMap(\.dependentSKUs) } == [])
        harness.run(to: 13)
        try await harness.tellIncrease("PENDING", on: 13)
        harness.run(to: 40)
        try await harness.tellRenewal(items: ["B"])
        harness.run(to: 41)
        let store = harness.cancellingStore()

        try await harness.run(harness.canceller(store), rounds: 5)

        #expect(try await harness.dependents() == ["FAR confirmed"])
        #expect(store.calls.map(\.transactionID) == ["2"])
        await harness.close()
    }

    @Test func elsewhere_renewalOffAlready_isConfirmedWithoutACall() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore()
        _ = await store.cancel(
            CancelIntent(
                transactionID: "2", requestReferenceID: "by-hand", consistencyToken: nil,
                storefront: nil), leavingBefore: .now + .seconds(9))

        try await harness.run(harness.canceller(store), rounds: 2)

        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        #expect(store.calls.map(\.requestReferenceID) == ["by-hand"])
        await harness.close()
    }

    @Test func elsewhere_aloneThere_withItsOwnAcceptedIncrease_fallsWithItsParent() async throws {
        let harness = try await Harness.make()
        let store = harness.cancellingStore()
        try await harness.subscribe("1", items: ["A", "B"])
        try await harness.subscribe("2", items: ["FAR"])
        try await harness.submitAndApprove([
            Harness.row("1", dependents: ["2/FAR"]), Harness.row("2", "FAR", line: 3),
        ])
        try await harness.deliver(harness.scheduler())
        try await harness.tellIncrease("PENDING", on: 13)
        try await harness.tellIncrease("PENDING", on: 13, of: "FAR", id: "2", items: ["FAR"])
        try await harness.tellIncrease("ACCEPTED", on: 14, of: "FAR", id: "2", items: ["FAR"])
        harness.run(to: 40)
        try await harness.tellRenewal(items: ["B"])
        harness.run(to: 41)

        try await harness.run(harness.canceller(store), rounds: 2)

        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        #expect(store.calls.count == 1)
        await harness.close()
    }

    /// FAR's own increase was accepted; its subscription was then cancelled by us, for A on the other one.
    private func cancelledByUs() async throws -> Harness {
        let harness = try await Harness.make()
        try await harness.subscribe("1", items: ["A", "B"])
        try await harness.subscribe("2", items: ["FAR"])
        try await harness.submitAndApprove([
            Harness.row("1", dependents: ["2/FAR"]), Harness.row("2", "FAR", line: 3),
        ])
        try await harness.deliver(harness.scheduler())
        try await harness.tellIncrease("PENDING", on: 13)
        try await harness.tellIncrease("PENDING", on: 13, of: "FAR", id: "2", items: ["FAR"])
        try await harness.tellIncrease("ACCEPTED", on: 14, of: "FAR", id: "2", items: ["FAR"])
        harness.run(to: 40)
        try await harness.tellRenewal(items: ["B"])
        harness.run(to: 41)
        try await harness.run(harness.canceller(harness.cancellingStore()), rounds: 4)
        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        return harness
    }

    private func tell(
        _ harness: Harness, _ type: String, _ subtype: String, on day: Int64, renews: Int,
        status: Int = 1
    ) async throws {
        try await harness.tell(
            SubscriptionEvent(
                key: .init(signedAt: harness.at(day), evidenceID: "2-\(subtype)-\(day)"),
                source: .notification, originalTransactionID: "2", type: type, subtype: subtype,
                status: status,
                renewal: RenewalStatement(autoRenewStatus: renews)))
    }

    @Test func ownChange_onASubscriptionThatWeCancelled_fellWithItsParent() async throws {
        let harness = try await cancelledByUs()

        try await tell(harness, "EXPIRED", "VOLUNTARY", on: 70, renews: 0, status: 2)

        let expected = ["A declined item_missing_at_renewal", "FAR declined parent_declined"]
        #expect(try await harness.changes() == expected)
        // A statement that arrives late folds from the beginning, to the same end.
        try await tell(harness, "DID_CHANGE_RENEWAL_STATUS", "LATE", on: 50, renews: 0)
        #expect(try await harness.changes() == expected)
        let reason = try await harness.service.withConnection { connection in
            try await connection.query(
                """
                SELECT reason FROM repricer.price_change_history
                WHERE original_transaction_id = '2' ORDER BY occurred_at DESC LIMIT 1
                """
            ).one().textOrNil("reason")
        }
        #expect(reason == "parent_declined")
        await harness.close()
    }

    @Test func ownChange_whoseCustomerTookOurCancelBackAndLeftLater_isTheirOwnEnd() async throws {
        let harness = try await cancelledByUs()

        try await tell(
            harness, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_ENABLED", on: 50, renews: 1)
        try await tell(
            harness, "DID_CHANGE_RENEWAL_STATUS", "AUTO_RENEW_DISABLED", on: 60, renews: 0)
        try await tell(harness, "EXPIRED", "VOLUNTARY", on: 70, renews: 0, status: 2)

        let expected = ["A declined item_missing_at_renewal", "FAR cancelled left_voluntarily"]
        #expect(try await harness.changes() == expected)
        try await tell(harness, "DID_CHANGE_RENEWAL_STATUS", "LATE", on: 45, renews: 0)
        #expect(try await harness.changes() == expected)
        await harness.close()
    }

    @Test func elsewhere_foreignCustomersSubscription_isRefusedInThePlan_andNeverCalled()
        async throws
    {
        let harness = try await Harness.make()
        try await harness.subscribe("1", items: ["A", "B"])
        try await harness.subscribe("2", items: ["FAR"], customer: "another")

        let planned = try await Planner(
            pool: harness.submitter, rules: .shipped, environment: .production
        ).plan(rows: [Harness.row("1", dependents: ["2/FAR"])], asOf: harness.now)
        #expect(planned.compactMap(\.fault).map(\.code) == [.dependentUnknown])
        #expect(
            planned[0].fault?.message == "2/FAR is on the subscription of another customer")
        await harness.close()
    }

    @Test func elsewhere_subscriptionChangedHands_isForAPerson() async throws {
        // Planned while nobody knew whose it is; its token came since.
        let harness = try await Harness.declined(customer: nil)
        let store = harness.cancellingStore()
        try await harness.subscribe("3", items: ["X"])
        try await harness.service.withTransaction { connection in
            _ = try connection.execute(
                """
                UPDATE repricer.subscriptions SET app_account_token = 'another'
                WHERE original_transaction_id = '2'
                """)
        }

        try await harness.run(harness.canceller(store), rounds: 2)

        #expect(try await harness.dependents() == ["2/FAR discrepancy"])
        #expect(try await harness.dependentDetail()?.contains("another customer's") == true)
        #expect(store.calls == [])
        await harness.close()
    }

    @Test func elsewhere_itemHasDependentsOfItsOwn_isRefusedAsAChain() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1", items: ["A", "B"])
        try await harness.subscribe("2", items: ["FAR", "FARTHER"])
        func codes(_ rows: [BatchRow]) async throws -> [RowCode?] {
            try await Planner(pool: harness.submitter, rules: .shipped, environment: .production)
                .plan(rows: rows, asOf: harness.now).map(\.fault?.code)
        }
        let first = Harness.row("1", dependents: ["2/FAR"])

        #expect(
            try await codes([first, Harness.row("2", "FAR", line: 3, dependents: ["FARTHER"])])
                == [.dependentChained, .dependentChained])
        // Through a change that is open already.
        try await harness.submitAndApprove([Harness.row("2", "FAR", dependents: ["FARTHER"])])
        #expect(try await codes([first]) == [.dependentChained])
        #expect(
            try await codes([Harness.row("1", dependents: ["2/FARTHER"])]) == [
                .dependentShared
            ])
        await harness.close()
    }

    /// Rows of one subscription may name an item of another by its SKU alone, or with its subscription.
    @Test func elsewhere_itemIsNamedInTwoWaysByOneSubscription_isShared() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1", items: ["A", "B"])
        try await harness.subscribe("2", items: ["FAR", "FARTHER"])
        func codes(_ rows: [BatchRow]) async throws -> [RowCode?] {
            try await Planner(pool: harness.submitter, rules: .shipped, environment: .production)
                .plan(rows: rows, asOf: harness.now).map(\.fault?.code)
        }
        let first = Harness.row("1", dependents: ["2/FAR"])
        let second = Harness.row("1", "B", line: 3, dependents: ["FAR"])

        #expect(try await codes([first, second]) == [.dependentShared, .dependentShared])
        // Shared is told before chained.
        let chain = Harness.row("2", "FAR", line: 4, dependents: ["X"])
        let owner = Harness.row("2", "FARTHER", line: 5, dependents: ["FAR"])
        #expect(try await codes([first, chain, owner]).first == .dependentShared)
        // By a change that is open already.
        try await harness.submitAndApprove([second])
        #expect(try await codes([first]) == [.dependentShared])
        await harness.close()
    }
}

import Postgres
import Pricing
import TestSupport
import Testing

/// Dependents that several subscriptions name, in a batch and over open changes.
@Suite(.database) struct ClaimTests {
    private typealias Harness = DeliveryHarness

    private static let shared = "dependent_shared: 3/FAR also depends on "

    @Test func dependent_namedByTwoSubscriptionsOfABatch_refusesBoth() async throws {
        let harness = try await Harness.household()

        let faults = try await harness.faults([
            Harness.row("1", dependents: ["3/FAR"]),
            Harness.row("2", line: 3, dependents: ["3/FAR"]),
        ])

        #expect(faults == [Self.shared + "2/A (line 3)", Self.shared + "1/A (line 2)"])
        await harness.close()
    }

    @Test func ownDependent_claimedByAnotherSubscriptionOfTheBatch_refusesBoth() async throws {
        let harness = try await Harness.household()

        let faults = try await harness.faults([
            Harness.row("1", dependents: ["3/NEAR"]),
            Harness.row("3", "FAR", line: 3, dependents: ["NEAR"]),
        ])

        #expect(
            faults == [
                "dependent_shared: 3/NEAR depends on an item of its own subscription already",
                "dependent_shared: NEAR also depends on 1/A (line 2)",
            ])
        await harness.close()
    }

    @Test func chain_overTwoSubscriptionsOfABatch_refusesBoth() async throws {
        let harness = try await Harness.household()

        let faults = try await harness.faults([
            Harness.row("1", dependents: ["3/FAR"]),
            Harness.row("3", "FAR", line: 3, dependents: ["NEAR"]),
        ])

        #expect(
            faults == [
                "dependent_chained: dependents form a chain A → 3/FAR → NEAR",
                "dependent_chained: dependents form a chain 1/A (line 2) → FAR → NEAR",
            ])
        await harness.close()
    }

    @Test func dependents_claimedByAnOpenChangeElsewhere_areRefusedUntilItEnds() async throws {
        let harness = try await Harness.household()
        let open = try await harness.submit([Harness.row("1", dependents: ["3/FAR"])])
        let second = [Harness.row("2", dependents: ["3/FAR"])]
        let chain = [Harness.row("3", "FAR", dependents: ["NEAR"])]
        let own = [Harness.row("3", "NEAR", dependents: ["FAR"])]

        #expect(try await harness.faults(second) == [Self.shared + "1/A (an open change)"])
        #expect(
            try await harness.faults(chain) == [
                "dependent_chained: dependents form a chain 1/A (an open change) → FAR → NEAR"
            ])
        #expect(
            try await harness.faults(own) == [
                "dependent_shared: FAR also depends on 1/A (an open change)"
            ])
        // Its own increase is no fault: it falls with its parent all the same.
        #expect(try await harness.faults([Harness.row("3", "FAR")]) == [""])

        try await harness.abort(open)
        for rows in [second, chain, own] { #expect(try await harness.faults(rows) == [""]) }
        await harness.close()
    }

    @Test func chain_throughAnOpenChangeOfTheCarrier_isRefused() async throws {
        let harness = try await Harness.household()
        try await harness.submit([Harness.row("3", "FAR", dependents: ["NEAR"])])

        let faults = try await harness.faults([Harness.row("1", dependents: ["3/FAR"])])

        #expect(
            faults == ["dependent_chained: dependents form a chain A → 3/FAR → NEAR"])
        await harness.close()
    }

    @Test func dependent_onAForeignCustomersSubscription_isRefused() async throws {
        let harness = try await Harness.household()
        try await harness.subscribe("4", items: ["FAR"], customer: "another")

        let faults = try await harness.faults([Harness.row("1", dependents: ["4/FAR"])])

        #expect(
            faults == ["dependent_unknown: 4/FAR is on the subscription of another customer"])
        await harness.close()
    }

    /// The stranger's row is refused, and takes FAR from nobody.
    @Test func dependent_thatAForeignCustomersRowNames_isStillItsOwners() async throws {
        let harness = try await Harness.household()
        try await harness.subscribe("4", items: ["A"], customer: "another")
        let theirs = Harness.row("4", line: 3, dependents: ["3/FAR"])

        for ours in [
            Harness.row("1", dependents: ["3/FAR"]),
            Harness.row("3", "NEAR", dependents: ["FAR"]),
            Harness.row("3", "FAR", dependents: ["NEAR"]),
        ] {
            #expect(
                try await harness.faults([ours, theirs]) == [
                    "", "dependent_unknown: 3/FAR is on the subscription of another customer",
                ])
        }
        await harness.close()
    }

    /// Whoever names FAR in an open change means the same item under its new name.
    @Test func dependent_renamedWhereItLives_isStillClaimed() async throws {
        let harness = try await Harness.household()
        try await harness.submit([Harness.row("1", dependents: ["3/FAR"])])
        try await harness.rename("3", "FAR", to: "FAR2", besides: ["NEAR"], on: 5)

        #expect(
            try await harness.faults([Harness.row("2", dependents: ["3/FAR2"])]) == [
                "dependent_shared: 3/FAR2 also depends on 1/A (an open change)"
            ])
        #expect(
            try await harness.faults([Harness.row("3", "FAR2", dependents: ["NEAR"])]) == [
                "dependent_chained: dependents form a chain 1/A (an open change) → FAR2 → NEAR"
            ])
        await harness.close()
    }

    // MARK: What the database refuses

    /// Two people plan at the same moment: neither plan knows of the other.
    @Test func approval_ofAnItemThatTwoBatchesName_isRefusedUntilOneIsGone() async throws {
        let harness = try await Harness.household()
        let first = try await harness.planned([Harness.row("1", dependents: ["3/FAR"])])
        let second = try await harness.planned([Harness.row("2", dependents: ["3/FAR"])])
        let batches = [
            try await harness.store(first, "first"), try await harness.store(second, "second"),
        ]

        #expect(
            try await harness.refusal(batches[0])?.hasPrefix(
                "line 2: 3/FAR also depends on an open change of 2") == true)
        try await harness.abort(batches[1])

        #expect(try await harness.refusal(batches[0]) == nil)
        await harness.close()
    }

    @Test func approval_ofAChainOverTwoBatches_isRefusedFromEitherSide() async throws {
        let harness = try await Harness.household()
        let far = try await harness.planned([Harness.row("1", dependents: ["3/FAR"])])
        let near = try await harness.planned([Harness.row("3", "FAR", dependents: ["NEAR"])])
        let batches = [try await harness.store(far, "far"), try await harness.store(near, "near")]

        #expect(
            try await harness.refusal(batches[0])?.hasPrefix(
                "line 2: dependents form a chain A → 3/FAR → NEAR") == true)
        #expect(
            try await harness.refusal(batches[1])?.hasPrefix(
                "line 2: dependents form a chain 1/A → FAR → NEAR") == true)
        await harness.close()
    }

    @Test func approval_ofADependentWhoseClaimIsMissing_recordsIt() async throws {
        let harness = try await Harness.household()
        let batchID = try await harness.submit([Harness.row("1", dependents: ["3/FAR"])])
        let owner = try await TestDatabase.connect()
        try await owner.script("DELETE FROM repricer.dependent_claims")

        let refusal = try await harness.refusal(batchID)
        let claims = try await owner.query(
            "SELECT original_transaction_id || '/' || sku AS name FROM repricer.dependent_claims"
        ).map { try $0.text("name") }

        #expect(refusal == nil)
        #expect(claims == ["3/FAR"])
        await owner.close()
        await harness.close()
    }
}

import Postgres
import Pricing
import TestSupport
import Testing

/// Dependents that live on another subscription of the customer and are named by their SKU alone.
@Suite(.database) struct ClaimBySKUTests {
    private typealias Harness = DeliveryHarness

    /// One customer: 1 and 2 carry A and B, 3 carries FAR and NEAR. Another: 4 carries FAR.
    private func customer() async throws -> Harness {
        let harness = try await Harness.household()
        try await harness.subscribe("4", items: ["FAR"], customer: "another")
        return harness
    }

    /// The same rows in both orders of a file, by their subscription.
    private func faultsInBothOrders(
        _ harness: Harness, _ rows: [BatchRow]
    ) async throws -> [[String]] {
        let backward = zip(rows.map(\.line), rows.reversed()).map { line, row in
            var row = row
            row.line = line
            return row
        }
        return [
            try await harness.faults(rows), try await harness.faults(backward).reversed(),
        ]
    }

    // MARK: One batch

    @Test func chain_overTwoSubscriptionsOfABatch_refusesBothInAnyOrder() async throws {
        let harness = try await customer()

        let faults = try await faultsInBothOrders(
            harness,
            [
                Harness.row("1", dependents: ["FAR"]),
                Harness.row("3", "FAR", line: 3, dependents: ["NEAR"]),
            ])

        for (order, line) in zip(faults, [2, 3]) {
            #expect(
                order == [
                    "dependent_chained: dependents form a chain A → FAR → NEAR",
                    "dependent_chained: dependents form a chain 1/A (line \(line)) → FAR → NEAR",
                ])
        }
        await harness.close()
    }

    @Test func dependent_namedByTwoSubscriptionsOfABatch_refusesBothHoweverItIsNamed() async throws
    {
        let harness = try await customer()

        let names = [("FAR", "FAR"), ("3/FAR", "FAR"), ("FAR", "3/FAR")]
        for (first, second) in names {
            let faults = try await harness.faults([
                Harness.row("1", dependents: [first]),
                Harness.row("2", line: 3, dependents: [second]),
            ])
            #expect(
                faults == [
                    "dependent_shared: \(first) also depends on 2/A (line 3)",
                    "dependent_shared: \(second) also depends on 1/A (line 2)",
                ])
        }
        await harness.close()
    }

    @Test func ownDependent_namedByAnotherSubscriptionOfTheBatch_refusesBoth() async throws {
        let harness = try await customer()

        let faults = try await harness.faults([
            Harness.row("1", dependents: ["NEAR"]),
            Harness.row("3", "FAR", line: 3, dependents: ["NEAR"]),
        ])

        #expect(
            faults == [
                "dependent_shared: NEAR depends on an item of its own subscription already",
                "dependent_shared: NEAR also depends on 1/A (line 2)",
            ])
        await harness.close()
    }

    /// 1 and 2 both have a B of their own, and FAR of the other customer is nobody's here.
    @Test func sameNames_ofDifferentItems_areNoFault() async throws {
        let harness = try await customer()

        let faults = try await harness.faults([
            Harness.row("1", dependents: ["B"]),
            Harness.row("2", line: 3, dependents: ["B"]),
            Harness.row("3", "NEAR", line: 4, dependents: ["FAR"]),
            Harness.row("4", "FAR", line: 5),
        ])

        #expect(faults == ["", "", "", ""])
        await harness.close()
    }

    // MARK: Open changes

    @Test func dependents_claimedByAnOpenChangeElsewhere_areRefusedUntilItEnds() async throws {
        let harness = try await customer()
        let open = try await harness.submit([Harness.row("1", dependents: ["FAR"])])
        let cases = [
            (
                Harness.row("3", "FAR", dependents: ["NEAR"]),
                "dependent_chained: dependents form a chain 1/A (an open change) → FAR → NEAR"
            ),
            (
                Harness.row("3", "NEAR", dependents: ["FAR"]),
                "dependent_shared: FAR also depends on 1/A (an open change)"
            ),
            (
                Harness.row("2", dependents: ["FAR"]),
                "dependent_shared: FAR also depends on 1/A (an open change)"
            ),
            (
                Harness.row("2", dependents: ["3/FAR"]),
                "dependent_shared: 3/FAR also depends on 1/A (an open change)"
            ),
        ]

        for (row, fault) in cases { #expect(try await harness.faults([row]) == [fault]) }
        #expect(try await harness.faults([Harness.row("3", "FAR")]) == [""])
        try await harness.abort(open)

        for (row, _) in cases { #expect(try await harness.faults([row]) == [""]) }
        await harness.close()
    }

    @Test func chain_throughAnOpenChangeOfTheCarrier_isRefused() async throws {
        let harness = try await customer()
        try await harness.submit([Harness.row("3", "FAR", dependents: ["NEAR"])])

        #expect(
            try await harness.faults([Harness.row("1", dependents: ["FAR"])]) == [
                "dependent_chained: dependents form a chain A → FAR → NEAR"
            ])
        #expect(
            try await harness.faults([Harness.row("1", dependents: ["NEAR"])]) == [
                "dependent_shared: NEAR depends on an item of its own subscription already"
            ])
        await harness.close()
    }

    // MARK: What the database refuses

    /// Two people plan at the same moment: neither plan knows of the other.
    @Test func approval_ofAChainOverTwoBatches_isRefusedUntilOneIsGone() async throws {
        let harness = try await customer()
        let far = try await harness.planned([Harness.row("1", dependents: ["FAR"])])
        let near = try await harness.planned([Harness.row("3", "FAR", dependents: ["NEAR"])])
        let batches = [try await harness.store(far, "far"), try await harness.store(near, "near")]

        #expect(
            try await harness.refusal(batches[0])?.hasPrefix(
                "line 2: dependents form a chain A → 3/FAR → NEAR") == true)
        #expect(
            try await harness.refusal(batches[1])?.hasPrefix(
                "line 2: dependents form a chain 1/A → FAR → NEAR") == true)
        try await harness.abort(batches[1])

        #expect(try await harness.refusal(batches[0]) == nil)
        await harness.close()
    }

    /// By SQL, without the program: rows whose claims nobody recorded.
    @Test func approval_ofRowsWithoutClaims_recordsThemAndRefusesChainAndShare() async throws {
        let harness = try await customer()
        let owner = try await TestDatabase.connect()
        var batches: [String] = []
        for (content, row) in [
            ("first", Harness.row("1", dependents: ["FAR"])),
            ("second", Harness.row("2", dependents: ["FAR"])),
            ("third", Harness.row("3", "FAR", dependents: ["NEAR"])),
        ] {
            batches.append(try await harness.store(try await harness.planned([row]), content))
            try await owner.script("DELETE FROM repricer.dependent_claims")
        }

        // Alone in its claims, but a chain with the third; once that one is gone nothing is known against it.
        #expect(
            try await harness.refusal(batches[0])?.hasPrefix("line 2: dependents form a chain")
                == true)
        try await harness.abort(batches[2])
        #expect(try await harness.refusal(batches[0]) == nil)
        #expect(
            try await harness.refusal(batches[1])?.hasPrefix(
                "line 2: 3/FAR also depends on an open change of 1") == true)
        await owner.close()
        await harness.close()
    }
}

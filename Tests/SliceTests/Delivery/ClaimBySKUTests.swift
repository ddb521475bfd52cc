import Postgres
import Pricing
import TestSupport
import Testing

/// Dependents that live on another subscription of the customer and are named by their SKU alone.
@Suite(.database) struct ClaimBySKUTests {
    private typealias World = DeliveryWorld

    /// One customer: 1 and 2 carry A and B, 3 carries FAR and NEAR. Another: 4 carries FAR.
    private func customer() async throws -> World {
        let world = try await World.household()
        try await world.subscribe("4", items: ["FAR"], customer: "another")
        return world
    }

    /// The same rows in both orders of a file, by their subscription.
    private func faultsInBothOrders(
        _ world: World, _ rows: [BatchRow]
    ) async throws -> [[String]] {
        let backward = zip(rows.map(\.line), rows.reversed()).map { line, row in
            var row = row
            row.line = line
            return row
        }
        return [
            try await world.faults(rows), try await world.faults(backward).reversed(),
        ]
    }

    // MARK: One batch

    @Test func chain_overTwoSubscriptionsOfABatch_refusesBothInAnyOrder() async throws {
        let world = try await customer()

        let faults = try await faultsInBothOrders(
            world,
            [
                World.row("1", dependents: ["FAR"]),
                World.row("3", "FAR", line: 3, dependents: ["NEAR"]),
            ])

        for (order, line) in zip(faults, [2, 3]) {
            #expect(
                order == [
                    "dependent_chained: dependents form a chain A → FAR → NEAR",
                    "dependent_chained: dependents form a chain 1/A (line \(line)) → FAR → NEAR",
                ])
        }
        await world.close()
    }

    @Test func dependent_namedByTwoSubscriptionsOfABatch_refusesBothHoweverItIsNamed() async throws
    {
        let world = try await customer()

        let names = [("FAR", "FAR"), ("3/FAR", "FAR"), ("FAR", "3/FAR")]
        for (first, second) in names {
            let faults = try await world.faults([
                World.row("1", dependents: [first]),
                World.row("2", line: 3, dependents: [second]),
            ])
            #expect(
                faults == [
                    "dependent_shared: \(first) also depends on 2/A (line 3)",
                    "dependent_shared: \(second) also depends on 1/A (line 2)",
                ])
        }
        await world.close()
    }

    @Test func ownDependent_namedByAnotherSubscriptionOfTheBatch_refusesBoth() async throws {
        let world = try await customer()

        let faults = try await world.faults([
            World.row("1", dependents: ["NEAR"]),
            World.row("3", "FAR", line: 3, dependents: ["NEAR"]),
        ])

        #expect(
            faults == [
                "dependent_shared: NEAR depends on an item of its own subscription already",
                "dependent_shared: NEAR also depends on 1/A (line 2)",
            ])
        await world.close()
    }

    /// 1 and 2 both have a B of their own, and FAR of the other customer is nobody's here.
    @Test func sameNames_ofDifferentItems_areNoFault() async throws {
        let world = try await customer()

        let faults = try await world.faults([
            World.row("1", dependents: ["B"]), World.row("2", line: 3, dependents: ["B"]),
            World.row("3", "NEAR", line: 4, dependents: ["FAR"]),
            World.row("4", "FAR", line: 5),
        ])

        #expect(faults == ["", "", "", ""])
        await world.close()
    }

    // MARK: Open changes

    @Test func dependents_claimedByAnOpenChangeElsewhere_areRefusedUntilItEnds() async throws {
        let world = try await customer()
        let open = try await world.submit([World.row("1", dependents: ["FAR"])])
        let cases = [
            (
                World.row("3", "FAR", dependents: ["NEAR"]),
                "dependent_chained: dependents form a chain 1/A (an open change) → FAR → NEAR"
            ),
            (
                World.row("3", "NEAR", dependents: ["FAR"]),
                "dependent_shared: FAR also depends on 1/A (an open change)"
            ),
            (
                World.row("2", dependents: ["FAR"]),
                "dependent_shared: FAR also depends on 1/A (an open change)"
            ),
            (
                World.row("2", dependents: ["3/FAR"]),
                "dependent_shared: 3/FAR also depends on 1/A (an open change)"
            ),
        ]

        for (row, fault) in cases { #expect(try await world.faults([row]) == [fault]) }
        #expect(try await world.faults([World.row("3", "FAR")]) == [""])
        try await world.abort(open)

        for (row, _) in cases { #expect(try await world.faults([row]) == [""]) }
        await world.close()
    }

    @Test func chain_throughAnOpenChangeOfTheCarrier_isRefused() async throws {
        let world = try await customer()
        try await world.submit([World.row("3", "FAR", dependents: ["NEAR"])])

        #expect(
            try await world.faults([World.row("1", dependents: ["FAR"])]) == [
                "dependent_chained: dependents form a chain A → FAR → NEAR"
            ])
        #expect(
            try await world.faults([World.row("1", dependents: ["NEAR"])]) == [
                "dependent_shared: NEAR depends on an item of its own subscription already"
            ])
        await world.close()
    }

    // MARK: What the database refuses

    /// Two people plan at the same moment: neither plan knows of the other.
    @Test func approval_ofAChainOverTwoBatches_isRefusedUntilOneIsGone() async throws {
        let world = try await customer()
        let far = try await world.planned([World.row("1", dependents: ["FAR"])])
        let near = try await world.planned([World.row("3", "FAR", dependents: ["NEAR"])])
        let batches = [try await world.store(far, "far"), try await world.store(near, "near")]

        #expect(
            try await world.refusal(batches[0])?.hasPrefix(
                "line 2: dependents form a chain A → 3/FAR → NEAR") == true)
        #expect(
            try await world.refusal(batches[1])?.hasPrefix(
                "line 2: dependents form a chain 1/A → FAR → NEAR") == true)
        try await world.abort(batches[1])

        #expect(try await world.refusal(batches[0]) == nil)
        await world.close()
    }

    /// By SQL, without the program: rows whose claims nobody recorded.
    @Test func approval_ofRowsWithoutClaims_recordsThemAndRefusesChainAndShare() async throws {
        let world = try await customer()
        let owner = try await TestDatabase.connect()
        var batches: [String] = []
        for (content, row) in [
            ("first", World.row("1", dependents: ["FAR"])),
            ("second", World.row("2", dependents: ["FAR"])),
            ("third", World.row("3", "FAR", dependents: ["NEAR"])),
        ] {
            batches.append(try await world.store(try await world.planned([row]), content))
            try await owner.script("DELETE FROM repricer.dependent_claims")
        }

        // Alone in its claims, but a chain with the third; once that one is gone nothing is known against it.
        #expect(
            try await world.refusal(batches[0])?.hasPrefix("line 2: dependents form a chain")
                == true)
        try await world.abort(batches[2])
        #expect(try await world.refusal(batches[0]) == nil)
        #expect(
            try await world.refusal(batches[1])?.hasPrefix(
                "line 2: 3/FAR also depends on an open change of 1") == true)
        await owner.close()
        await world.close()
    }
}

import Facts
import Postgres
import Pricing
import TestSupport
import Testing

/// The stored ledger is what all statements say, also where one of them says less than before.
@Suite(.database) struct MoneyLedgerDatabaseTests {
    @Test func statementThatIsReadAnewWithoutItsCharge_isTakenOutByALineOfItsOwn() async throws {
        let harness = try await DeliveryHarness.make()
        try await harness.tell(
            DeliveryHarness.renewed("1", at: DeliveryHarness.start, items: ["A"]))
        let owner = try await TestDatabase.connect()
        func lines() async throws -> [String] {
            try await owner.query(
                "SELECT kind || ' ' || amount_milliunits AS line FROM repricer.money_entries ORDER BY correction"
            ).map { try $0.text("line") }
        }
        let told = try await lines()

        _ = try await owner.execute(
            "UPDATE repricer.subscription_events SET statement = statement - 'transaction'")
        for _ in 0..<2 {
            try await harness.service.withTransaction { connection in
                try SubscriptionQueries.lock(["1"], on: connection)
                try SubscriptionFolder.foldAnew(["1"], on: connection)
            }
        }

        #expect(told == ["charge 9990"])
        #expect(try await lines() == ["charge 9990", "charge -9990"])
        await owner.close()
        await harness.close()
    }

    /// Each statement is folded by itself: what the first signed of the tax holds until another amount is told.
    @Test func taxThatALaterStatementLeavesOut_staysInTheLedger() async throws {
        let harness = try await DeliveryHarness.make()
        var charge = DeliveryHarness.renewed("1", at: DeliveryHarness.start, items: ["A"])
        charge.transaction?.taxExclusivePrice = 9227
        var repeated = DeliveryHarness.renewed("1", at: DeliveryHarness.start, items: ["A"])
        repeated.key = .init(
            signedAt: charge.key.signedAt.advanced(by: 60_000), evidenceID: "the charge once more")

        try await harness.tell(charge)
        try await harness.tell(repeated)

        let owner = try await TestDatabase.connect()
        let lines = try await owner.query(
            """
            SELECT concat_ws(' ', kind, amount_milliunits, tax_exclusive_milliunits) AS line FROM repricer.money_entries
            ORDER BY correction
            """
        ).map { try $0.text("line") }
        #expect(lines == ["charge 9990 9227"])
        await owner.close()
        await harness.close()
    }
}

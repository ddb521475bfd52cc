import Facts
import Postgres
import TestSupport
import Testing

@testable import Pricing

/// A family member's subscription, and a seat that was assigned, have no price of their own: Apple refuses any call for them.
@Suite(.database) struct FamilyMemberTests {
    private typealias Harness = DeliveryHarness

    /// Apple says so in the transaction, here in one signed later than the first.
    private static func tellOwnership(
        _ id: String, _ harness: Harness, is type: String = "FAMILY_SHARED"
    ) async throws {
        try await harness.tell(
            SubscriptionEvent(
                key: .init(signedAt: harness.now, evidenceID: "family-\(id)"), source: .status,
                originalTransactionID: id, status: 1,
                transaction: TransactionStatement(
                    transactionID: "t-\(id)", ownershipType: type,
                    expiresAt: Harness.start.advanced(by: 40 * 86_400_000), storefront: "USA",
                    currency: "USD", period: "P1M",
                    items: ["A", "B"].map { StatementItem(sku: $0, price: 9990) })))
    }

    @Test(arguments: ["FAMILY_SHARED", "ASSIGNED"])
    func row_ofWhatProvesAnothersToPay_endsWithoutACall(type: String) async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await Self.tellOwnership("1", harness, is: type)

        try await harness.deliver(harness.scheduler())

        #expect(try await harness.changes() == ["A ineligible not_active"])
        #expect(harness.store.calls.isEmpty)
        await harness.close()
    }

    @Test func dependent_onAFamilyMembersSubscription_isNoneThatRenews() async throws {
        let harness = try await Harness.make()
        for id in ["1", "2"] { try await harness.subscribe(id) }
        try await Self.tellOwnership("2", harness)

        let renewing = try await harness.service.withConnection { connection in
            try await connection.read { connection in
                try SubscriptionQueries.carriers(["1", "2"], on: connection)
                    .mapValues { $0.renewing.sorted() }
            }
        }

        #expect(renewing == ["1": ["A", "B"], "2": []])
        await harness.close()
    }
}

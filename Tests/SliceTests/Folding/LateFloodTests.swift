import Facts
import TestSupport
import Testing

@testable import Pricing

/// Thousands of statements on one subscription, each piece older than all before: the worst order that there is.
@Suite(.database) struct LateFloodTests {
    private static let count = 2000
    private static let piece = 1000

    @Test(.timeLimit(.minutes(5)))
    func folder_thousandsOfLateStatements_endAsInOrderWithinBounds() async throws {
        let harness = try await DeliveryHarness.make()
        let events = (0..<Self.count).map(Self.statement)
        var ordered = SubscriptionState(originalTransactionID: "1", changes: [])
        _ = Lifecycle.fold(events, into: &ordered)

        for start in stride(from: Self.count - Self.piece, through: 0, by: -Self.piece) {
            try await Self.tell(Array(events[start..<(start + Self.piece)]), harness)
        }
        // Singles after that: each reads all the others anew.
        for late in [7, 1500] { try await Self.tell([Self.again(events[late])], harness) }

        let stored = try await harness.service.withTransaction {
            try SubscriptionQueries.load(["1"], on: $0)["1"]
        }
        #expect(stored?.facts == ordered.facts)
        #expect(stored?.foldedThrough == ordered.foldedThrough)
        #expect(try await harness.count("subscription_events") == Self.count + 2)
        #expect(
            try await harness.count("charges") == ordered.money.count { $0.key.kind == .charge })
        await harness.close()
    }

    private static func tell(
        _ events: [SubscriptionEvent], _ harness: DeliveryHarness
    ) async throws {
        try await harness.service.withTransaction { connection in
            try SubscriptionQueries.create(["1"], on: connection)
            try SubscriptionQueries.lock(["1"], on: connection)
            try SubscriptionFolder.fold(events, on: connection)
        }
    }

    /// Renewal switched on and off ten times a period.
    private static func statement(_ number: Int) -> SubscriptionEvent {
        let at = DeliveryHarness.start.advanced(by: Int64(number) * 86_400_000)
        let bought = DeliveryHarness.start.advanced(by: Int64(number / 10 * 10) * 86_400_000)
        return SubscriptionEvent(
            key: .init(signedAt: at, evidenceID: "n\(number)"), source: .notification,
            originalTransactionID: "1",
            type: number.isMultiple(of: 10) ? "DID_RENEW" : "DID_CHANGE_RENEWAL_STATUS", status: 1,
            transaction: TransactionStatement(
                transactionID: "t\(number / 10)", purchasedAt: bought,
                expiresAt: bought.advanced(by: 10 * 86_400_000), storefront: "USA",
                currency: "USD", period: "P1M",
                items: ["A", "B"].map { StatementItem(sku: $0, price: 9990) }),
            renewal: RenewalStatement(
                autoRenewStatus: number.isMultiple(of: 2) ? 1 : 0,
                renewalAt: bought.advanced(by: 10 * 86_400_000), period: "P1M",
                items: ["A", "B"].map { StatementItem(sku: $0, price: 9990) }))
    }

    /// The same, told once more under another id.
    private static func again(_ event: SubscriptionEvent) -> SubscriptionEvent {
        var event = event
        event.key.evidenceID += "-again"
        return event
    }
}

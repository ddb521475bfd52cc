import Facts
import PriceChanges
import TestSupport
import Testing

@testable import Pricing

/// Two items of one subscription are raised, one after the other: the second is not killed by the first.
@Suite(.database) struct SiblingDeliveryTests {
    private typealias Harness = DeliveryHarness

    private static let day: Int64 = 86_400_000
    /// 10 April 2026.
    private static let firstRenewal = Harness.start.advanced(by: 40 * day)
    /// 10 June 2026.
    private static let june = firstRenewal.advanced(byMonths: 2)

    private static func row(_ sku: String, line: Int, onOrAfter: String? = nil) -> BatchRow {
        var row = Harness.row("1", sku, line: line)
        row.effectiveOnOrAfter = onOrAfter.flatMap { CivilDate($0) }
        return row
    }

    /// A renewal charges A at a price, and B as before.
    private static func charged(_ price: Int64, at: Instant) -> SubscriptionEvent {
        let next = at.advanced(byMonths: 1)
        let prices = [("A", price), ("B", 9990)] as [(String, Int64)]
        return SubscriptionEvent(
            key: .init(signedAt: at.advanced(by: 1000), evidenceID: "renewed-\(at.text)"),
            source: .notification, originalTransactionID: "1", type: "DID_RENEW", status: 1,
            transaction: TransactionStatement(
                transactionID: "t-\(at.milliseconds)", purchasedAt: at,
                originalPurchaseAt: Harness.start.advanced(by: -1000), expiresAt: next,
                storefront: "USA", currency: "USD", period: "P1M",
                items: prices.map { StatementItem(sku: $0, price: $1) }),
            renewal: RenewalStatement(
                autoRenewStatus: 1, renewalAt: next, consistencyToken: "later", period: "P1M",
                items: prices.map { StatementItem(sku: $0, price: $1) }))
    }

    private func forecasts(_ harness: Harness) async throws -> [String] {
        try await harness.service.withConnection { connection in
            try await connection.query(
                "SELECT sku, forecast_consent FROM repricer.price_changes ORDER BY sku"
            ).map { "\(try $0.text("sku")) \(try $0.text("forecast_consent"))" }
        }
    }

    /// What the history of B says beside its call.
    private func remarks(_ harness: Harness) async throws -> [String] {
        try await harness.service.withConnection { connection in
            try await connection.query(
                """
                SELECT coalesce(h.reason, '') AS reason FROM repricer.price_change_history h
                JOIN repricer.price_changes c USING (original_transaction_id, change_id)
                WHERE h.state = 'sending' AND c.sku = 'B'
                """
            ).map { try $0.text("reason") }
        }
    }

    /// The clock goes to 6 May, when the call for June may leave, and the second row is judged anew.
    private func deliverTheSecond(_ harness: Harness) async throws {
        harness.clock.advance(by: .milliseconds(66 * Self.day))
        try await harness.deliver(harness.scheduler())
    }

    @Test func rowsOfOneBatch_planTheConsentThatTheFirstBrings_andBothGo() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([
            Self.row("A", line: 2), Self.row("B", line: 3, onOrAfter: "2026-06-01"),
        ])
        #expect(try await forecasts(harness) == ["A not_required", "B required"])
        try await harness.deliver(harness.scheduler())
        try await harness.tell(Harness.scheduled("1"))
        try await harness.tell(Self.charged(10_990, at: Self.firstRenewal))

        try await deliverTheSecond(harness)

        #expect(harness.store.calls.map { $0.items.map(\.sku) } == [["A"], ["B"]])
        #expect(try await remarks(harness) == [""])
        #expect(try await harness.changes().first == "A effective")
        #expect(try await harness.changes().last?.hasPrefix("B ineligible") == false)
        await harness.close()
    }

    @Test func rowOfALaterBatch_thatComesFirst_killsNoneThatWaits() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let waiting = try await harness.submit(
            [Self.row("B", line: 2, onOrAfter: "2026-06-01")], content: "first")
        try await harness.approve(waiting)
        let later = try await harness.submit([Self.row("A", line: 2)], content: "second")
        try await harness.approve(later)
        #expect(try await forecasts(harness) == ["A not_required", "B not_required"])
        try await harness.deliver(harness.scheduler())
        try await harness.tell(Harness.scheduled("1"))
        try await harness.tell(Self.charged(10_990, at: Self.firstRenewal))

        try await deliverTheSecond(harness)

        #expect(harness.store.calls.map { $0.items.map(\.sku) } == [["A"], ["B"]])
        // Its customer is asked, and no plan of B said so.
        #expect(
            try await remarks(harness) == [
                "needs consent now because A rose at 2026-04-10T00:00:00Z, which its plan did not foresee"
            ])
        await harness.close()
    }

    @Test func increaseThatWasMadeElsewhere_isADriftAsEver() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Self.row("B", line: 2, onOrAfter: "2026-06-01")])
        try await harness.tell(Self.charged(10_990, at: Self.firstRenewal))

        try await deliverTheSecond(harness)

        #expect(harness.store.calls.isEmpty)
        #expect(try await harness.changes() == ["B ineligible drifted"])
        await harness.close()
    }

    @Test func siblingsInCallsOfTheirOwn_ofOneRenewal_bothGo() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        var terms = BatchTerms()
        terms.grouping = .item
        try await harness.submitAndApprove(
            [Self.row("A", line: 2), Self.row("B", line: 3)], terms: terms)
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        // The first is announced before the second is called.
        try await harness.tell(
            Harness.scheduled("1", status: "ACCEPTED", at: Harness.start.advanced(by: 2000)))
        harness.clock.advance(by: .seconds(60))
        try await harness.deliver(scheduler)

        #expect(harness.store.calls.count == 2)
        #expect(try await harness.changes().allSatisfy { !$0.contains("ineligible") })
        await harness.close()
    }
}

import Batches
import Postgres
import Pricing
import TestSupport
import Testing

/// The forecast of consent against what came, by rule: from the plan of a real batch through what Apple says of it.
@Suite(.database) struct ForecastRuleTests {
    private typealias Harness = DeliveryHarness

    /// One line a row of the report, without those of which nothing came.
    private static func outcomes(_ harness: Harness) async throws -> [String] {
        let owner = try await TestDatabase.connect()
        let lines = try await owner.query(
            """
            SELECT concat_ws(' ', forecast_consent, consent_outcome, forecast_threshold_source,
                'yes:' || array_to_string(forecast_reasons, '+'),
                'null:' || array_to_string(forecast_not_known, '+'),
                'because:' || forecast_because, 'sibling:' || nullif(missed_by_sibling, 0)) AS line
            FROM report.forecast_accuracy WHERE came_consent IS NOT NULL ORDER BY line
            """
        ).map { try $0.text("line") }
        await owner.close()
        await harness.close()
        return lines
    }

    /// What happens on a day: calls that are due leave, then Apple asks about an item.
    private static func ask(
        _ harness: Harness, _ sku: String = "A", to price: Int64 = 10990, on day: Int64 = 0
    ) async throws {
        if day > 0 { harness.run(to: day) }
        try await harness.deliver(harness.scheduler())
        try await harness.tell(
            Harness.scheduled(
                "1", sku, to: price, status: "PENDING", at: harness.at(day).advanced(by: 60_000)))
    }

    /// B is not to rise before May, and goes after day 13.
    private static let later: BatchRow = {
        var row = Harness.row("1", "B", line: 3)
        row.effectiveOnOrAfter = CivilDate("2026-05-01")
        return row
    }()

    @Test func threshold_exceededAndAsked_isAsForecast() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1", to: 19990)])

        try await Self.ask(harness, to: 19990)

        #expect(
            try await Self.outcomes(harness) == ["required as_forecast apple yes:threshold null:"])
    }

    @Test func noRule_yetAsked_isMissed() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])

        try await Self.ask(harness)

        #expect(try await Self.outcomes(harness) == ["not_required missed apple yes: null:"])
    }

    /// Nothing tells what it was charged before March.
    @Test func historyNotKnown_andAsked_wasNotKnown() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.tell(Self.period(-20, price: 9990, since: -500))
        try await harness.submitAndApprove([Harness.row("1")])

        try await Self.ask(harness)

        #expect(
            try await Self.outcomes(harness) == [
                "not_known was_not_known apple yes: null:increase_within_12_months"
            ])
    }

    @Test func earlierIncrease_andAsked_isAsForecast() async throws {
        let harness = try await Harness.make()
        try await harness.tell(Self.period(-50, price: 7990, since: -50))
        try await harness.tell(Self.period(-20, price: 9990, since: -50))
        try await harness.submitAndApprove([Harness.row("1")])

        try await Self.ask(harness)

        #expect(
            try await Self.outcomes(harness) == [
                "required as_forecast apple yes:increase_within_12_months null: because:earlier_increase"
            ])
    }

    /// A takes effect in April, B in May: the plan says that B then needs consent, so its asking is no drift.
    @Test func siblingOfTheSameFile_andAsked_isAsForecast() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1"), Self.later])

        try await Self.ask(harness, "B", on: 14)

        #expect(
            try await Self.outcomes(harness) == [
                "required as_forecast apple yes:increase_within_12_months null: because:sibling"
            ])
    }

    /// The batch with A came later. Its plan could say what it does to B; the plan of B could not.
    @Test func siblingOfALaterBatch_andAsked_isMissedByTheSibling() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Self.later])
        let second = try await harness.submit([Harness.row("1")], content: "second")
        try await harness.approve(second)

        try await harness.deliver(harness.scheduler())
        harness.run(to: 14)
        try await harness.deliver(harness.scheduler())
        // Nobody is asked earlier than 27 days before the renewal in May.
        try await Self.ask(harness, "B", on: 44)

        #expect(
            try await Self.outcomes(harness) == [
                "not_required missed apple yes: null: sibling:1"
            ])
    }

    /// A period of item A and B that began on a day; the subscription is a customer's since another.
    private static func period(_ day: Int64, price: Int64, since: Int64) -> SubscriptionEvent {
        let began = Harness.start.advanced(by: day * Harness.day)
        let expiry = Harness.start.advanced(by: (day == -20 ? 40 : day + 30) * Harness.day)
        var transaction = TransactionStatement(
            items: ["A", "B"].map { Self.item($0, price) })
        transaction.transactionID = "t\(day)"
        transaction.purchasedAt = began
        transaction.originalPurchaseAt = Harness.start.advanced(by: since * Harness.day)
        transaction.expiresAt = expiry
        transaction.storefront = "USA"
        transaction.currency = "USD"
        transaction.period = "P1M"
        var renewal = RenewalStatement(items: ["A", "B"].map { Self.item($0, price) })
        renewal.autoRenewStatus = 1
        renewal.renewalAt = expiry
        renewal.recentSubscriptionStartAt = transaction.originalPurchaseAt
        renewal.consistencyToken = "period"
        renewal.period = "P1M"
        var event = SubscriptionEvent(
            key: .init(signedAt: began, evidenceID: "period\(day)"), source: .notification,
            originalTransactionID: "1")
        event.type = "DID_RENEW"
        event.status = 1
        event.transaction = transaction
        event.renewal = renewal
        return event
    }

    private static func item(_ sku: String, _ price: Int64) -> StatementItem {
        var item = StatementItem(sku: sku)
        item.price = price
        return item
    }
}

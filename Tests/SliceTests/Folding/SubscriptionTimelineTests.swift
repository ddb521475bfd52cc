import Reports
import TestSupport
import Testing

@testable import Pricing

@Suite(.database) struct SubscriptionTimelineTests {
    @Test func timeline_valuesLeftOut_areNamedBesideTheirEvidence() async throws {
        let harness = try await DeliveryHarness.make()
        try await harness.subscribe("1")
        var odd = DeliveryHarness.scheduled("1", to: -5)
        odd.transaction = TransactionStatement(
            transactionID: "t2", expiresAt: Instant(milliseconds: -1),
            items: [StatementItem(sku: "A", price: -1)])

        try await harness.tell(odd)

        let lines = try await Self.lines(harness)
        #expect(
            lines.filter { $0.detail != nil && $0.evidenceID == odd.key.evidenceID }.map(\.detail)
                == [
                    "missing, or left out as meaningless: transaction.expiresDate, transaction.items.price, "
                        + "renewal.items.priceIncreaseInfo.price"
                ])
        #expect(
            lines.filter { $0.kind == "notification" && $0.evidenceID != odd.key.evidenceID }
                .map(\.detail) == [nil])
        await harness.close()
    }

    @Test(arguments: [
        ("KOR", Int64(4990), "offer turns into the standard price: "),
        ("USA", 9990, "increase from elsewhere: "),
    ])
    func timeline_increaseThatIsNotOurs_isToldFromAskingToCharge(
        storefront: String, charged: Int64, kind: String
    ) async throws {
        let harness = try await DeliveryHarness.make()
        let isConversion = storefront == "KOR"
        let price: Int64 = isConversion ? 9990 : 12990
        try await harness.tell(Self.told("SUBSCRIBED", 0, storefront, offer: isConversion))
        try await harness.tell(
            Self.told("PRICE_INCREASE", 1, storefront, offer: isConversion, "PENDING", price))
        try await harness.tell(
            Self.told("PRICE_INCREASE", 2, storefront, offer: isConversion, "ACCEPTED", price))
        try await harness.tell(Self.told("DID_RENEW", 31, storefront, offer: false, at: price))

        let lines = try await Self.lines(harness).filter { $0.kind == "increase" }

        #expect(lines.map(\.what) == ["customer asked", "accepted", "charged"].map { kind + $0 })
        #expect(lines.map(\.evidenceID) == ["told-1", "told-2", "told-31"])
        #expect(Set(lines.map(\.detail)) == [isConversion ? "9.99 USD" : "12.99 USD"])
        #expect(Set(lines.map(\.sku)) == ["A"])
        // What told of the charge is the evidence, which `evidence` prints; its transaction stands in the detail.
        let charge = try #require(
            try await Self.lines(harness).last { $0.kind == "charge" })
        #expect(charge.evidenceID == "told-31")
        #expect(charge.detail?.hasSuffix(" USD; transaction t31") == true)
        await harness.close()
    }

    @Test func timeline_conversionRefused_saysSo() async throws {
        let harness = try await DeliveryHarness.make()
        try await harness.tell(Self.told("SUBSCRIBED", 0, "KOR", offer: true))
        try await harness.tell(Self.told("PRICE_INCREASE", 1, "KOR", offer: true, "PENDING", 9990))
        var expired = Self.told("EXPIRED", 31, "KOR", offer: true)
        expired.status = 2
        expired.transaction = nil

        try await harness.tell(expired)

        let lines = try await Self.lines(harness).filter { $0.kind == "increase" }
        #expect(
            lines.map(\.what)
                == ["customer asked", "refused"].map {
                    "offer turns into the standard price: " + $0
                })
        #expect(lines.map(\.evidenceID) == ["told-1", "told-31"])
        await harness.close()
    }

    @Test func timeline_increaseOfOurs_isToldByItsChangeAlone() async throws {
        let harness = try await DeliveryHarness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([DeliveryHarness.row("1", to: 14990)])
        try await harness.deliver(harness.scheduler())

        try await harness.tell(
            DeliveryHarness.scheduled(
                "1", to: 14990, status: "PENDING", at: DeliveryHarness.start.advanced(by: 9000)))

        let lines = try await Self.lines(harness)
        #expect(lines.map(\.what).contains("change is pending_consent"))
        #expect(lines.filter { $0.kind == "increase" } == [])
        await harness.close()
    }

    /// A status may be read every day. What happened would drown among those that say nothing new.
    @Test func timeline_statusesThatSayNothingNew_areOneLine() async throws {
        let harness = try await DeliveryHarness.make()
        try await harness.tell(Self.told("SUBSCRIBED", 0, "USA", offer: false))
        for day in Int64(1)...3 { try await harness.tell(Self.read(day)) }
        try await harness.tell(Self.read(4, status: "PENDING", 12990))
        try await harness.tell(Self.read(5, status: "PENDING", 12990))

        let lines = try await Self.lines(harness)
        let folded = lines.withIdleReadsFolded.filter { $0.kind == "status" }

        #expect(lines.count { $0.kind == "status" && $0.what == "answer" } == 5)
        #expect(
            folded.map(\.words) == [
                "status read 3 times, nothing new", "status read", "status read, nothing new",
            ])
        let until = DeliveryHarness.start.advanced(by: 3 * 86_400_000).milliseconds
        #expect(folded.map(\.until) == [until, nil, nil])
        #expect(folded.map(\.evidenceID) == ["told-1", "told-4", "told-5"])
        await harness.close()
    }

    private static func read(
        _ day: Int64, status: String? = nil, _ increase: Int64? = nil
    ) -> SubscriptionEvent {
        var event = told("", day, "USA", offer: false, status, increase)
        event.source = .status
        event.type = nil
        return event
    }

    private static func lines(_ harness: DeliveryHarness) async throws -> [TimelineQueries
        .Line]
    {
        try await harness.service.withTransaction { try TimelineQueries.lines(of: "1", on: $0) }
    }

    private static func told(
        _ type: String, _ day: Int64, _ storefront: String, offer isInOffer: Bool,
        _ status: String? = nil, _ increase: Int64? = nil, at price: Int64 = 9990
    ) -> SubscriptionEvent {
        let at = DeliveryHarness.start.advanced(by: day * 86_400_000)
        let bought = day < 31 ? DeliveryHarness.start : at
        return SubscriptionEvent(
            key: .init(signedAt: at, evidenceID: "told-\(day)"), source: .notification,
            originalTransactionID: "1", type: type, status: 1,
            transaction: TransactionStatement(
                transactionID: day < 31 ? "t0" : "t\(day)", purchasedAt: bought,
                expiresAt: bought.advanced(by: 31 * 86_400_000), storefront: storefront,
                currency: "USD", period: "P1M",
                items: [
                    StatementItem(
                        sku: "A", price: price, offerPrice: isInOffer ? 990 : nil,
                        offerReason: isInOffer ? "ACQUISITION" : nil)
                ]),
            renewal: RenewalStatement(
                autoRenewStatus: 1, renewalAt: bought.advanced(by: 31 * 86_400_000), period: "P1M",
                items: [
                    StatementItem(
                        sku: "A", price: increase ?? price, increaseStatus: status,
                        increasePrice: increase)
                ]))
    }
}

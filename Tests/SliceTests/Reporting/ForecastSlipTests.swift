import Batches
import Postgres
import PriceChanges
import TestSupport
import Testing

@testable import Pricing

/// Why a change took effect, or is due, later than was forecast: one reason each, from signed statements and our own calls.
///
/// The subscription renews on day 40; an announced increase sent by day 13 takes effect then.
@Suite(.database) struct ForecastSlipTests {
    private typealias Harness = DeliveryHarness

    private enum Reason: String, CaseIterable {
        case billingFailure = "billing_failure"
        case lateCall = "late_call"
        case `extension`
        case other
    }

    /// What Apple says on a day of the items A and B. Without `purchasedOn` of the first period.
    private static func told(
        _ day: Int64, _ type: String, _ subtype: String? = nil, status: Int = 1,
        purchasedOn: Int64? = nil, moments: Int64 = 0, expiresOn: Int64? = nil,
        reason: String? = nil,
        charged: Int64 = 9990, increase: String? = "SCHEDULED", offerPeriods: Int? = nil
    ) -> SubscriptionEvent {
        let bought = purchasedOn.map { Harness.start.advanced(by: $0 * Harness.day + moments) }
        let expiry = Harness.start.advanced(
            by: (expiresOn ?? purchasedOn.map { $0 + 30 } ?? 40) * Harness.day)
        return SubscriptionEvent(
            key: .init(
                signedAt: Harness.start.advanced(by: day * Harness.day + moments + 1),
                evidenceID: "\(type)-\(day)"),
            source: .notification, originalTransactionID: "1", type: type, subtype: subtype,
            status: status,
            transaction: TransactionStatement(
                transactionID: "t-1-\(purchasedOn ?? 0)",
                purchasedAt: bought ?? Harness.start.advanced(by: -1000), expiresAt: expiry,
                reason: reason ?? (purchasedOn == nil ? "PURCHASE" : "RENEWAL"), storefront: "USA",
                currency: "USD", period: "P1M",
                items: [
                    StatementItem(sku: "A", price: charged), StatementItem(sku: "B", price: 9990),
                ]),
            renewal: RenewalStatement(
                autoRenewStatus: 1, isInBillingRetry: status == 3 ? true : nil, renewalAt: expiry,
                consistencyToken: "told", period: "P1M",
                items: [
                    StatementItem(
                        sku: "A", price: increase == "ACCEPTED" ? 10990 : charged,
                        offerPrice: offerPeriods == nil ? nil : 4990,
                        offerPeriod: offerPeriods == nil ? nil : "P1M",
                        offerPeriodCount: offerPeriods, increaseStatus: increase,
                        increasePrice: increase == nil ? nil : 10990),
                    StatementItem(sku: "B", price: 9990),
                ]))
    }

    private static let failed = told(40, "DID_FAIL_TO_RENEW", status: 3, increase: "ACCEPTED")
    private static let recovered = told(
        45, "DID_RENEW", "BILLING_RECOVERY", purchasedOn: 45, charged: 10990, increase: nil)
    private static let recoveredAtTheOldPrice = told(
        45, "DID_RENEW", "BILLING_RECOVERY", purchasedOn: 45, increase: "ACCEPTED")
    private static let extended = told(5, "RENEWAL_EXTENDED", expiresOn: 50)

    /// A batch of one row, approved on a day, after these statements; then more statements.
    private static func harness(
        approvedOn day: Int64 = 0, notBefore: String? = nil, after early: [SubscriptionEvent] = [],
        isRedated: Bool = false, then late: [SubscriptionEvent] = []
    ) async throws -> Harness {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        var row = Harness.row("1")
        row.effectiveOnOrAfter = notBefore.flatMap { CivilDate($0) }
        let batchID = try await harness.submit([row])
        for event in early { try await harness.tell(event) }
        if day > 0 { harness.clock.set(Harness.start.milliseconds + day * Harness.day) }
        try await harness.approve(batchID)
        if isRedated { _ = try await Redater(engine: harness.engine()).round() }
        try await harness.deliver(harness.scheduler())
        for event in late { try await harness.tell(event) }
        return harness
    }

    /// What the report counts: `slipped` and each reason that is not 0.
    private static func slips(_ harness: Harness) async throws -> [String: Int64] {
        let owner = try await TestDatabase.connect()
        let row = try await owner.query(
            """
            SELECT sum(slipped)::bigint AS slipped,
                sum(slipped_by_billing_failure)::bigint AS billing_failure,
                sum(slipped_by_late_call)::bigint AS late_call,
                sum(slipped_by_extension)::bigint AS extension, sum(slipped_by_other)::bigint AS other
            FROM report.forecast_accuracy
            """
        ).one()
        await owner.close()
        await harness.close()
        let reasons = try Reason.allCases.map { ($0.rawValue, try row.int64($0.rawValue)) }
        #expect(reasons.reduce(0) { $0 + $1.1 } == (try row.int64("slipped")))
        return Dictionary(reasons.filter { $0.1 != 0 }, uniquingKeysWith: +)
    }

    // MARK: A charge that failed

    @Test func change_chargedAtLastAtTheNewPrice_slippedByBillingFailure() async throws {
        let harness = try await Self.harness(then: [Self.failed, Self.recovered])

        #expect(try await harness.changes() == ["A effective"])
        #expect(try await Self.slips(harness) == ["billing_failure": 1])
    }

    @Test func change_recoveredAtTheOldPrice_slippedByBillingFailure() async throws {
        let harness = try await Self.harness(then: [Self.failed, Self.recoveredAtTheOldPrice])

        #expect(try await Self.slips(harness) == ["billing_failure": 1])
    }

    @Test func change_whoseStatementsComeInAnyOrder_slippedByTheSame() async throws {
        let harness = try await Self.harness(
            then: [Self.recovered, Self.failed, Self.told(1, "PRICE_CHANGE")])

        #expect(try await harness.changes() == ["A effective"])
        #expect(try await Self.slips(harness) == ["billing_failure": 1])
    }

    /// The renewals fall on other days before the call, which is in time.
    @Test func change_whoseChargeFailedBeforeItsCall_slippedByBillingFailure() async throws {
        let harness = try await Self.harness(
            approvedOn: 42, notBefore: "2026-05-01",
            after: [
                Self.told(40, "DID_FAIL_TO_RENEW", status: 3, increase: nil),
                Self.told(
                    41, "DID_RENEW", "BILLING_RECOVERY", purchasedOn: 41, increase: nil),
            ])

        #expect(try await Self.slips(harness) == ["billing_failure": 1])
    }

    // MARK: A call too late

    @Test func change_approvedAfterItsDeadline_slippedByLateCall() async throws {
        let harness = try await Self.harness(approvedOn: 20)

        #expect(try await Self.slips(harness) == ["late_call": 1])
    }

    /// The call left by its own last instant, and the App Store renewed at the old price all the same: it was not late.
    @Test func change_calledInTime_thatAppleAppliesLater_slippedByOther() async throws {
        let harness = try await Self.harness(
            then: [Self.told(40, "DID_RENEW", purchasedOn: 40)])

        #expect(try await Self.slips(harness) == ["other": 1])
    }

    // MARK: An extension

    @Test(arguments: [false, true])
    func change_extendedBeforeItsCall_slippedByExtension(isRedated: Bool) async throws {
        let extended = Self.told(0, "RENEWAL_EXTENDED", expiresOn: 50, increase: nil)
        let harness = try await Self.harness(after: [extended], isRedated: isRedated)

        #expect(try await Self.slips(harness) == ["extension": 1])
    }

    @Test func change_extendedSinceItsCall_slippedByExtension() async throws {
        let harness = try await Self.harness(then: [Self.extended])

        #expect(try await Self.slips(harness) == ["extension": 1])
    }

    /// Of several reasons the first counts.
    @Test func change_extendedAndThenChargedLate_slippedByExtension() async throws {
        let recovered = Self.told(
            55, "DID_RENEW", "BILLING_RECOVERY", purchasedOn: 55, charged: 10990, increase: nil)
        let harness = try await Self.harness(then: [recovered, Self.extended])

        #expect(try await harness.changes() == ["A effective"])
        #expect(try await Self.slips(harness) == ["extension": 1])
    }

    // MARK: Others

    @Test func change_postponedByAnOffer_slippedByOther() async throws {
        let harness = try await Self.harness(then: [
            Self.told(1, "PRICE_CHANGE"), Self.told(6, "OFFER_REDEEMED", offerPeriods: 2),
        ])

        #expect(try await Self.slips(harness) == ["other": 1])
    }

    /// A period that the customer bought begins on another day, and no charge failed.
    @Test func change_whoseCustomerBeganANewPeriod_slippedByOther() async throws {
        let harness = try await Self.harness(
            approvedOn: 42, notBefore: "2026-05-01",
            after: [
                Self.told(
                    41, "SUBSCRIBED", "RESUBSCRIBE", purchasedOn: 41, reason: "PURCHASE",
                    increase: nil)
            ])

        #expect(try await Self.slips(harness) == ["other": 1])
    }

    /// Neither our call nor a charge is to blame for what the customer buys since the call.
    @Test func change_whoseCustomerBeganANewPeriodSince_slippedByOther() async throws {
        let harness = try await Self.harness(then: [
            Self.told(
                43, "DID_CHANGE_RENEWAL_PREF", "UPGRADE", purchasedOn: 43, reason: "PURCHASE")
        ])

        #expect(try await harness.changes() == ["A scheduled"])
        #expect(try await Self.slips(harness) == ["other": 1])
    }

    // MARK: In time

    /// The App Store charges moments after the renewal.
    @Test(arguments: [0, 2000, 1_800_000] as [Int64])
    func change_chargedWithinMoments_isInTime(moments: Int64) async throws {
        let harness = try await Self.harness(then: [
            Self.told(
                40, "DID_RENEW", purchasedOn: 40, moments: moments, charged: 10990, increase: nil)
        ])

        #expect(try await harness.changes() == ["A effective"])
        let owner = try await TestDatabase.connect()
        let row = try await owner.query(
            "SELECT effective_as_forecast, effective_later FROM report.forecast_accuracy"
        ).one()
        await owner.close()
        #expect(try row.int64("effective_as_forecast") == 1)
        #expect(try row.int64("effective_later") == 0)
        #expect(try await Self.slips(harness) == [:])
    }

    @Test func change_notCalledYet_isInTime() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])

        #expect(try await Self.slips(harness) == [:])
    }
}

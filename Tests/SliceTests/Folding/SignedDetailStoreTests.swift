import Notifications
import Postgres
import ServiceKit
import TestSupport
import Testing

/// What Apple signs beside prices and dates is kept in the facts: from the payload through the inbox to the columns.
@Suite(.database) struct SignedDetailStoreTests {
    private typealias Harness = DeliveryHarness

    private static let transaction = """
        "appTransactionId":"704","quantity":2,"transactionReason":"PURCHASE","offerType":2,
        "offerIdentifier":"spring","offerPeriod":"P1M","billingPlanType":"MONTHLY",
        """
    private static let renewal = """
        "autoRenewProductId":"large","renewalPrice":12990,"currency":"USD","offerType":4,
        "offerIdentifier":"back","offerDiscountType":"FREE_TRIAL","eligibleWinBackOfferIds":["back","again"],
        "priceIncreaseStatus":0,"renewalQuantity":3
        """

    private static func fold(_ harness: Harness) async throws -> Int {
        try await Projector(pool: harness.service, log: .silent, metrics: Metrics()).foldOnce()
    }

    private static func facts(_ harness: Harness) async throws -> [String] {
        try await harness.service.withConnection { connection in
            try await connection.query(
                """
                SELECT concat_ws(' ', app_transaction_id, quantity, transaction_reason, offer_type,
                    auto_renew_product_id, renewal_price_milliunits, renewal_currency,
                    renewal_offer_type) AS columns,
                    signed_details -> 'transaction' AS transaction, signed_details -> 'renewal' AS renewal
                FROM repricer.subscriptions
                """
            ).flatMap { row in
                ["columns", "transaction", "renewal"].map { (try? row.text($0)) ?? "-" }
            }
        }
    }

    private static let first = [
        "704 2 PURCHASE 2 large 12990 USD 4",
        #"{"offerPeriod": "P1M", "billingPlanType": "MONTHLY", "offerIdentifier": "spring"}"#,
        #"{"offerIdentifier": "back", "renewalQuantity": 3, "offerDiscountType": "FREE_TRIAL", "#
            + #""priceIncreaseStatus": 0, "eligibleWinBackOfferIds": ["back", "again"]}"#,
    ]

    @Test func notification_folded_leavesWhatItSigned() async throws {
        let harness = try await Harness.make()
        try await harness.receive(
            "n", of: "1", transaction: Self.transaction, renewal: Self.renewal)

        #expect(try await Self.fold(harness) == 1)

        #expect(try await Self.facts(harness) == Self.first)
        await harness.close()
    }

    @Test func plainNotification_folded_leavesNothing() async throws {
        let harness = try await Harness.make()
        try await harness.receive("n", of: "1")

        #expect(try await Self.fold(harness) == 1)

        #expect(try await Self.facts(harness) == ["", "-", "-"])
        await harness.close()
    }

    @Test(arguments: [false, true])
    func newestStatement_whateverCameFirst_wins(isLateFirst: Bool) async throws {
        let harness = try await Harness.make()
        let older: () async throws -> Void = {
            try await harness.receive(
                "older", of: "1", at: 1,
                transaction: "\"quantity\":9,\"offerType\":1,\"revocationReason\":1,",
                renewal: "\"autoRenewProductId\":\"small\",\"renewalPrice\":1,\"currency\":\"EUR\"")
            _ = try await Self.fold(harness)
        }
        let newer: () async throws -> Void = {
            try await harness.receive(
                "newer", of: "1", at: 2, transaction: Self.transaction, renewal: Self.renewal)
            _ = try await Self.fold(harness)
        }

        for step in isLateFirst ? [newer, older] : [older, newer] { try await step() }

        #expect(try await Self.facts(harness) == Self.first)
        await harness.close()
    }

    /// A version that did not know these fields has left neither the statement's nor the facts'.
    @Test func oldEvidence_afterReprocess_fillsThem() async throws {
        let harness = try await Harness.make()
        try await harness.receive(
            "n", of: "1", transaction: Self.transaction, renewal: Self.renewal)
        #expect(try await Self.fold(harness) == 1)
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.subscription_events SET statement = statement #- '{transaction,details}'
                #- '{transaction,quantity}' #- '{transaction,offerType}' #- '{transaction,appTransactionID}'
                #- '{renewal,details}' #- '{renewal,price}' #- '{renewal,offerType}'
                #- '{renewal,autoRenewProductID}';
            UPDATE repricer.subscriptions SET app_transaction_id = NULL, quantity = NULL, offer_type = NULL,
                transaction_reason = NULL, auto_renew_product_id = NULL, renewal_price_milliunits = NULL,
                renewal_currency = NULL, renewal_offer_type = NULL, signed_details = NULL;
            """)
        await owner.close()

        _ = try await Reprocessor(pool: harness.service, log: .silent).run(since: 0, all: true)
        #expect(try await Self.fold(harness) == 1)

        #expect(try await Self.facts(harness) == Self.first)
        await harness.close()
    }
}

import AppStore
import Calls
import Postgres
import Reconciliation
import ServiceKit
import TestSupport
import Testing

@testable import PriceChanges
@testable import Pricing

/// A price change cannot be taken back. Where the last known renewal has passed and nothing was heard since, the status
/// is read before the call.
@Suite(.database) struct UnheardTests {
    private typealias Harness = DeliveryHarness

    /// The subscription "1", approved two days after a renewal of which nothing was heard.
    private static func approved() async throws -> Harness {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        pass(harness, .seconds(42 * 86_400))
        try await harness.submitAndApprove([Harness.row("1")])
        return harness
    }

    private static func pass(_ harness: Harness, _ duration: Duration) {
        harness.clock.advance(by: duration)
        harness.realClock.advance(by: duration)
    }

    private static func readStatuses(_ harness: Harness) async throws {
        let reconciler = harness.reconciler(
            ScriptedHistory(), ScriptedIntake(), store: harness.store)
        try await StatusCheckService(reconciler, .unheard, every: .seconds(1)).step()
    }

    @Test func call_waitsUntilTheStatusIsRead() async throws {
        let harness = try await Self.approved()

        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.isEmpty)
        #expect(try await harness.changes() == ["A queued status_awaited"])

        try await Self.readStatuses(harness)
        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.map(\.transactionID) == ["1"])
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    /// What was not heard is another program's price, which Apple already charges.
    @Test func call_thatTheStatusShowsToBeNeedless_isNotMade() async throws {
        let harness = try await Self.approved()
        let renewedAt = Harness.start.advanced(by: 40 * 86_400_000)
        let next = renewedAt.advanced(by: 31 * 86_400_000)
        let items = ["A", "B"].map { StatementItem(sku: $0, price: $0 == "A" ? 10_990 : 9990) }
        let status = SubscriptionEvent(
            key: .init(signedAt: harness.now, evidenceID: "status:1"), source: .status,
            originalTransactionID: "1", status: 1,
            transaction: TransactionStatement(
                transactionID: "t-2", purchasedAt: renewedAt, expiresAt: next, reason: "RENEWAL",
                storefront: "USA", currency: "USD", period: "P1M", items: items),
            renewal: RenewalStatement(
                autoRenewStatus: 1, renewalAt: next, period: "P1M", items: items))
        harness.store.answerChecks(.answered([status], StoreReply(httpStatus: 200)))

        try await harness.deliver(harness.scheduler())
        try await Self.readStatuses(harness)
        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.isEmpty)
        #expect(try await harness.changes() == ["A ineligible no_change"])
        await harness.close()
    }

    /// A status that shows nothing newer, or cannot be read, holds the call back no longer, and is asked for once.
    @Test(arguments: [
        StoreAnswer.answered([], StoreReply(httpStatus: 200)),
        .answered(
            [Harness.scheduled("2", "NONE", at: Harness.start)], StoreReply(httpStatus: 200)),
        .unknown(reason: "no such subscription", StoreReply(httpStatus: 404)),
    ])
    func call_whoseStatusTellsNothing_goesAllTheSame(answer: StoreAnswer) async throws {
        let harness = try await Self.approved()
        harness.store.answerChecks(answer)

        for _ in 0..<4 {
            try await harness.deliver(harness.scheduler())
            if harness.store.calls.isEmpty { try await Self.readStatuses(harness) }
            Self.pass(harness, .seconds(30))
        }

        #expect(harness.store.calls.map(\.transactionID) == ["1"])
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    /// Nobody reads statuses, or the App Store answers none for an hour.
    @Test func call_waitsForAnHourAtTheMost() async throws {
        let harness = try await Self.approved()

        try await harness.deliver(harness.scheduler())
        Self.pass(harness, .seconds(3599))
        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.isEmpty)

        Self.pass(harness, .seconds(1))
        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.map(\.transactionID) == ["1"])
        await harness.close()
    }

    @Test(arguments: [(7200, true), (7201, false)])
    func call_thatMustLeaveSoon_doesNotWait(left: Int64, goes: Bool) async throws {
        let harness = try await Self.approved()
        let last = try await harness.service.withTransaction { connection in
            try connection.query("SELECT send_by FROM repricer.price_changes").one()
                .milliseconds("send_by")
        }
        Self.pass(harness, .milliseconds(last - left * 1000 - harness.now.milliseconds))

        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.isEmpty == !goes)
        await harness.close()
    }

    /// Of a day that a notification may take, and of a subscription that was heard of since, no status is read.
    @Test(arguments: [true, false])
    func call_ofASubscriptionThatWasHeardOf_goesAtOnce(isToldSince: Bool) async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let renewal = Harness.start.advanced(by: 40 * 86_400_000)
        Self.pass(harness, .seconds(isToldSince ? 42 * 86_400 : 41 * 86_400))
        if isToldSince {
            try await harness.tell(
                SubscriptionEvent(
                    key: .init(signedAt: renewal, evidenceID: "told"), source: .notification,
                    originalTransactionID: "1", type: "REFUND_DECLINED", status: 1))
        }
        try await harness.submitAndApprove([Harness.row("1")])

        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.map(\.transactionID) == ["1"])
        await harness.close()
    }
}

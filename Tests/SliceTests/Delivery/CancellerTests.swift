import AppStore
import Batches
import Calls
import Dependents
import Postgres
import PriceChanges
import ServiceKit
import TestSupport
import Testing

@testable import Facts
@testable import Pricing

@Suite(.database) struct CancellerTests {
    private typealias Harness = DeliveryHarness

    @Test(arguments: [
        StoreAnswer.notSent(reason: "away"), .throttled(until: Harness.start, StoreReply()),
        .unknown(reason: "500", StoreReply()),
    ])
    func canceller_statusNeverAnswered_saysNothingOfTheDependent(answer: StoreAnswer) async throws {
        let harness = try await Harness.declined()
        let canceller = harness.canceller(CheckingStore { _ in answer })

        var waiting: [Int64?] = []
        for _ in 0..<11 {
            _ = try await canceller.round()
            harness.realClock.advance(by: .seconds(31))
            waiting.append(
                try await harness.service.withTransaction {
                    try ParkedWorkQueries.counts(on: $0)["cancel"]
                })
        }
        let named = try await harness.service.withTransaction {
            try StatusQueries.refused(of: nil, limit: 5, on: $0).map(\.reason)
        }

        #expect(try await harness.cancellations() == ["B requested"])
        // After minutes a person is told.
        #expect(waiting == Array(repeating: 0, count: 9) + [1, 1])
        #expect(named == ["its status is refused, or gets no answer"])
        await harness.close()
    }

    /// A refusal of every status says nothing of one subscription.
    @Test func canceller_statusesRefusedAlike_endNothing_untilOneIsAnswered() async throws {
        let harness = try await Harness.declined()
        let refused = StoreAnswer.refused(
            StoreRefusal(code: 4_040_010, name: "none", message: "", meaning: .suspect),
            StoreReply())
        let engine = harness.engine()
        let store = CheckingStore { _ in refused }
        let canceller = Canceller(engine, store: store, cancels: store, wait: { _ in })
        func heed(_ answer: StoreAnswer, of subject: String) async throws {
            try await engine.heed(
                answer, of: subject, for: .cancel, .statuses(engine, perSecond: 50, wait: { _ in }),
                harness.service.withTransaction { try ServiceControlQueries.everything(on: $0) })
        }
        func rounds(_ count: Int) async throws {
            for _ in 0..<count {
                _ = try await canceller.round()
                harness.realClock.advance(by: .seconds(31))
            }
        }

        for other in ["7", "8", "9"] { try await heed(refused, of: other) }
        try await rounds(12)
        let whileAlike = try await harness.cancellations()
        try await heed(.answered([], StoreReply()), of: "7")
        try await rounds(1)

        #expect(whileAlike == ["B requested"])
        #expect(try await harness.cancellations() == ["B discrepancy"])
        await harness.close()
    }

    @Test func canceller_throttled_isSilentUntilTheInstant() async throws {
        let harness = try await Harness.declined()
        let until = Instant(milliseconds: harness.clock.nowMilliseconds() + 60_000)
        let canceller = harness.canceller(
            CheckingStore { _ in .throttled(until: until, StoreReply(httpStatus: 429)) })

        #expect(try await canceller.round() == 1)
        harness.realClock.advance(by: .seconds(31))
        #expect(try await canceller.round() == 0)
        harness.clock.set(until.milliseconds)
        #expect(try await canceller.round() == 1)
        await harness.close()
    }

    @Test func canceller_stillListed_isADiscrepancy_untilALaterStatementProvesIt() async throws {
        let harness = try await Harness.declined()
        let canceller = harness.canceller(
            CheckingStore { id in
                .answered(
                    [Harness.listing(id, ["B"], at: harness.now)], StoreReply(httpStatus: 200))
            })
        for _ in 0..<5 {
            _ = try await canceller.round()
            harness.realClock.advance(by: .seconds(31))
            harness.clock.advance(by: .seconds(31))
        }
        #expect(try await harness.cancellations() == ["B discrepancy"])

        try await harness.tell(Harness.listing("1", ["B"], at: harness.now))
        #expect(try await harness.cancellations() == ["B discrepancy"])
        harness.clock.advance(by: .seconds(1))
        try await harness.tell(Harness.listing("1", ["C"], at: harness.now))

        #expect(try await harness.cancellations() == ["B confirmed"])
        await harness.close()
    }
}

/// Only checks, as the test says.
private struct CheckingStore: StoreCalls, CancelCalls {
    let answer: @Sendable (String) -> StoreAnswer

    func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        .notSent(reason: "the canceller changes no price")
    }

    func checkStatus(transactionID: String) async -> StoreAnswer { answer(transactionID) }

    func cancel(
        _ intent: CancelIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        .notSent(reason: "nothing lives elsewhere")
    }
}

extension DeliveryHarness {
    /// A subscription whose item A was declined; whether its dependent B is gone, nobody said.
    fileprivate static func declined() async throws -> DeliveryHarness {
        let harness = try await make()
        let renewal = start.advanced(by: 40 * 86_400_000)
        try await harness.subscribe("1")
        try await harness.submitAndApprove([row("1", dependents: ["B"])])
        try await harness.deliver(harness.scheduler())
        try await harness.tell(
            scheduled("1", status: "PENDING", at: start.advanced(by: 86_400_000)))
        var renewed = renewed("1", at: renewal, items: ["B"])
        renewed.renewal = nil
        try await harness.tell(renewed)
        harness.clock.set(renewal.milliseconds + 1000)
        #expect(try await harness.cancellations() == ["B requested"])
        return harness
    }

    /// A status that lists what is set to renew.
    fileprivate static func listing(
        _ id: String, _ skus: [String], at: Instant
    ) -> SubscriptionEvent {
        SubscriptionEvent(
            key: .init(signedAt: at, evidenceID: "listing-\(at.milliseconds)"), source: .status,
            originalTransactionID: id, status: 1,
            renewal: RenewalStatement(
                autoRenewStatus: 1,
                items: skus.map { StatementItem(sku: $0, price: 9990) }))
    }

    fileprivate func canceller(_ store: CheckingStore) -> Canceller {
        Canceller(engine(), store: store, cancels: store, wait: { _ in })
    }

    fileprivate func cancellations() async throws -> [String] {
        try await service.withConnection { connection in
            try await connection.query(
                """
                SELECT dependent_sku, state FROM repricer.dependent_cancellations
                ORDER BY dependent_sku
                """
            ).map { "\(try $0.text("dependent_sku")) \(try $0.text("state"))" }
        }
    }
}

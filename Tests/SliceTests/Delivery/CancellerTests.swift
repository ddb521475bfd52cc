import Calls
import Dependents
import Postgres
import PriceChanges
import Pricing
import ServiceKit
import TestSupport
import Testing

@Suite(.database) struct CancellerTests {
    private typealias World = DeliveryWorld

    @Test(arguments: [
        StoreAnswer.notSent(reason: "away"), .throttled(until: World.start, StoreReply()),
        .unknown(reason: "500", StoreReply()),
    ])
    func canceller_statusNeverAnswered_saysNothingOfTheDependent(answer: StoreAnswer) async throws {
        let world = try await World.declined()
        let canceller = world.canceller(LookingStore { _ in answer })

        for _ in 0..<8 {
            _ = try await canceller.round()
            world.realClock.advance(by: .seconds(31))
        }

        #expect(try await world.cancellations() == ["B requested"])
        await world.close()
    }

    @Test func canceller_throttled_isSilentUntilTheInstant() async throws {
        let world = try await World.declined()
        let until = Instant(milliseconds: world.clock.nowMilliseconds() + 60_000)
        let canceller = world.canceller(
            LookingStore { _ in .throttled(until: until, StoreReply(httpStatus: 429)) })

        #expect(try await canceller.round() == 1)
        world.realClock.advance(by: .seconds(31))
        #expect(try await canceller.round() == 0)
        world.clock.set(until.milliseconds)
        #expect(try await canceller.round() == 1)
        await world.close()
    }

    @Test func canceller_stillListed_isADiscrepancy_untilALaterStatementProvesIt() async throws {
        let world = try await World.declined()
        let canceller = world.canceller(
            LookingStore { id in
                .answered([World.listing(id, ["B"], at: world.now)], StoreReply(httpStatus: 200))
            })
        for _ in 0..<5 {
            _ = try await canceller.round()
            world.realClock.advance(by: .seconds(31))
            world.clock.advance(by: .seconds(31))
        }
        #expect(try await world.cancellations() == ["B discrepancy"])

        try await world.tell(World.listing("1", ["B"], at: world.now))
        #expect(try await world.cancellations() == ["B discrepancy"])
        world.clock.advance(by: .seconds(1))
        try await world.tell(World.listing("1", ["C"], at: world.now))

        #expect(try await world.cancellations() == ["B confirmed"])
        await world.close()
    }
}

/// Only looks, as the test says.
private struct LookingStore: StoreCalls, CancelCalls {
    let answer: @Sendable (String) -> StoreAnswer

    func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        .notSent(reason: "the canceller changes no price")
    }

    func look(transactionID: String) async -> StoreAnswer { answer(transactionID) }

    func cancel(
        _ intent: CancelIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        .notSent(reason: "nothing lives elsewhere")
    }
}

extension DeliveryWorld {
    /// A subscription whose item A was declined; whether its dependent B is gone, nobody said.
    fileprivate static func declined() async throws -> DeliveryWorld {
        let world = try await make()
        let renewal = start.advanced(by: 40 * 86_400_000)
        try await world.subscribe("1")
        try await world.submitAndApprove([row("1", dependents: ["B"])])
        try await world.deliver(world.scheduler())
        try await world.tell(scheduled("1", status: "PENDING", at: start.advanced(by: 86_400_000)))
        var renewed = renewed("1", at: renewal, items: ["B"])
        renewed.renewal = nil
        try await world.tell(renewed)
        world.clock.set(renewal.milliseconds + 1000)
        #expect(try await world.cancellations() == ["B requested"])
        return world
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
                items: skus.map { RenewalStatement.Item(sku: $0, price: 9990) }))
    }

    fileprivate func canceller(_ store: LookingStore) -> Canceller {
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

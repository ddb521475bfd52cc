import Postgres
import Pricing
import TestSupport
import Testing

/// Cancels of dependents whose answers don't come or mean nothing, and processes that die amid them.
@Suite(.database) struct CancelTroubleTests {
    private typealias World = DeliveryWorld

    @Test(arguments: [
        [CancellingStore.Reply.lost], [.unavailable], [.unavailable, .lost],
        [.unavailable, .unavailable, .unavailable, .unavailable],
    ])
    func cancel_outcomeUnknown_keepsItsIDUntilProved(replies: [CancellingStore.Reply]) async throws
    {
        let world = try await World.declined()
        let store = world.cancellingStore(replies)

        try await world.run(world.canceller(store), rounds: 12)

        #expect(try await world.dependents() == ["2/FAR confirmed"])
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 1)
        #expect(store.applied.count == 1)
        #expect(try await world.count("store_calls WHERE kind = 'cancel'") == 1)
        await world.close()
    }

    @Test(arguments: [
        CancellingStore.Reply.notSent, .throttled(until: World.start),
        .refused(.refresh, code: 4_000_082), .refused(.haltService, code: 4_010_000),
    ])
    func cancel_certainlyNotApplied_isJudgedAnewUnderANewID(reply: CancellingStore.Reply)
        async throws
    {
        let world = try await World.declined()
        let store = world.cancellingStore([reply])
        let canceller = world.canceller(store)

        for _ in 0..<4 {
            try await world.run(canceller)
            // A refused key silences for a minute.
            world.clock.advance(by: .seconds(61))
        }

        #expect(try await world.dependents() == ["2/FAR confirmed"])
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 2)
        #expect(store.applied.count == 1)
        #expect(
            try await world.told() == [
                "requested", "cancel_sent", "requested", "cancel_sent", "confirmed",
            ])
        await world.close()
    }

    @Test func refusedKey_ofACancel_haltsTheServiceUntilACallIsHeard() async throws {
        let world = try await World.declined()
        let canceller = world.canceller(
            world.cancellingStore([.refused(.haltService, code: 4_010_000)]))
        func halt() async throws -> String? {
            try await world.service.withConnection { connection in
                try await connection.query("SELECT halted_reason FROM repricer.service_controls")
                    .one().textOrNil("halted_reason")
            }
        }

        try await world.run(canceller)
        #expect(try await halt() == "4010000 code_4010000")
        world.clock.advance(by: .seconds(61))
        try await world.run(canceller, rounds: 2)

        #expect(try await halt() == nil)
        #expect(try await world.dependents() == ["2/FAR confirmed"])
        await world.close()
    }

    /// Its first attempt had no answer, and the subscription changed before the second: nothing for a person yet.
    @Test func cancel_staleTokenOnARetry_isLookedAt_thenJudgedAnewUnderANewID() async throws {
        let world = try await World.declined()
        let store = world.cancellingStore([.unavailable, .refused(.refresh, code: 4_000_082)])

        try await world.run(world.canceller(store), rounds: 16)

        #expect(try await world.dependents() == ["2/FAR confirmed"])
        #expect(store.calls.count == 3)
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 2)
        #expect(store.applied.count == 1)
        #expect(store.looks.count >= 4)
        await world.close()
    }

    @Test func cancel_refused_isLookedAtBeforeItIsBelieved_thenForAPerson() async throws {
        let world = try await World.declined()
        let store = world.cancellingStore(
            Array(repeating: .refused(.reject, code: 4_030_010), count: 9))

        try await world.run(world.canceller(store), rounds: 8)

        #expect(try await world.dependents() == ["2/FAR discrepancy"])
        #expect(
            try await world.dependentDetail() == "Cancel a Subscription was refused with 4030010")
        #expect(store.calls.count == 1)
        #expect(store.looks.count >= 4)
        await world.close()
    }

    @Test func cancel_answeredButStillRenewing_isForAPerson_andNotCalledAgain() async throws {
        let world = try await World.declined()
        let store = world.cancellingStore([.hollow])

        try await world.run(world.canceller(store), rounds: 8)

        #expect(try await world.dependents() == ["2/FAR discrepancy"])
        #expect(store.calls.count == 1)
        await world.close()
    }

    @Test(arguments: [CancellingStore.Reply.diesBefore, .dies])
    func cancel_processDies_anotherCarriesOnWithTheSameID(reply: CancellingStore.Reply) async throws
    {
        let world = try await World.declined()
        let store = world.cancellingStore([reply])
        let pool = try await world.mortalPool()
        let dying = world.canceller(store, pool: pool)
        let abandoned = Task { try await dying.round() }
        while store.calls.isEmpty { await Task.yield() }
        #expect(try await world.dependents() == ["2/FAR cancel_sent"])
        await pool.close()

        // Its lease holds: nobody else calls.
        let heir = world.canceller(store)
        _ = try await heir.round()
        #expect(store.calls.count == 1)
        world.realClock.advance(by: .seconds(11))
        try await world.run(heir, rounds: 2)

        #expect(try await world.dependents() == ["2/FAR confirmed"])
        #expect(store.calls.count == 2)
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 1)
        #expect(store.applied.count == 1)
        abandoned.cancel()
    }

    /// The App Store does not know the subscription any more, or never did: neither called on nor looked at for ever.
    @Test(arguments: ["2/FAR", "B"])
    func look_refusedForGood_isForAPerson(name: String) async throws {
        let world = try await World.make()
        try await world.subscribe("1", items: ["A", "B"])
        try await world.subscribe("2", items: ["FAR"])
        try await world.raise(dependents: [name])
        try await world.tellIncrease("PENDING", on: 13)
        world.run(to: 40)
        // Without renewal info, so that B's end is not proved yet.
        try await world.tell(
            SubscriptionEvent(
                key: .init(signedAt: world.at(40), evidenceID: "renewed"), source: .notification,
                originalTransactionID: "1", type: "DID_RENEW", status: 1,
                transaction: TransactionStatement(
                    transactionID: "t2-1", purchasedAt: world.at(40), expiresAt: world.at(70),
                    reason: "RENEWAL", storefront: "USA", currency: "USD", period: "P1M",
                    items: [TransactionStatement.Item(sku: "OTHER", price: 4990)])))
        #expect(try await world.dependents() == ["\(name) requested"])
        let store = world.cancellingStore()
        store.refuseLooks(4_040_010)

        try await world.run(world.canceller(store), rounds: 9)
        let early = try await world.dependents()
        try await world.run(world.canceller(store), rounds: 5)

        #expect(early == ["\(name) requested"])
        #expect(try await world.dependents() == ["\(name) discrepancy"])
        #expect(
            try await world.dependentDetail()?.contains(
                "refused with 4040010 TransactionIdNotFoundError") == true)
        #expect(store.looks.count == 10)
        #expect(store.calls.isEmpty)
        await world.close()
    }

    @Test func cancel_unansweredAndLooksRefusedForGood_isForAPerson() async throws {
        let world = try await World.declined()
        let store = world.cancellingStore([.lost, .unavailable, .unavailable])
        let canceller = world.canceller(store)

        try await world.run(canceller, rounds: 3)
        #expect(try await world.dependents() == ["2/FAR cancel_sent"])
        store.refuseLooks(4_040_010)
        try await world.run(canceller, rounds: 20)

        #expect(try await world.dependents() == ["2/FAR discrepancy"])
        #expect(
            try await world.dependentDetail()?.hasPrefix(
                "whether Cancel a Subscription was applied is unknown") == true)
        await world.close()
    }

    @Test func cancel_everythingPaused_waits() async throws {
        let world = try await World.declined()
        let store = world.cancellingStore()
        let canceller = world.canceller(store)
        try await world.setPause(nil, true)

        try await world.run(canceller, rounds: 3)
        #expect(store.calls == [])
        #expect(try await world.dependents() == ["2/FAR requested"])
        try await world.setPause(nil, false)
        try await world.run(canceller, rounds: 2)

        #expect(try await world.dependents() == ["2/FAR confirmed"])
        await world.close()
    }

    @Test func cancel_twoReplicasAtOnce_callOnce() async throws {
        let world = try await World.declined()
        let store = world.cancellingStore()
        let (left, right) = (world.canceller(store), world.canceller(store))

        for _ in 0..<3 {
            async let first = left.round()
            async let second = right.round()
            _ = try await (first, second)
            world.realClock.advance(by: .seconds(31))
        }

        #expect(try await world.dependents() == ["2/FAR confirmed"])
        #expect(store.calls.count == 1)
        await world.close()
    }
}

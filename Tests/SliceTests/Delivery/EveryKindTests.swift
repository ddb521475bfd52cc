import Facts
import Pricing
import ServiceKit
import TestSupport
import Testing

/// What the one engine promises for calls of every kind. Each of these once held for price changes alone.
@Suite(.database) struct EveryKindTests {
    private typealias World = DeliveryWorld

    // MARK: A call that may still land is not abandoned

    /// The first attempt is lost, the retry refused, and checks show nothing; then the first one lands.
    @Test func cancel_refusedWhileItsFirstAttemptMayLand_isCheckedUntilItDoes() async throws {
        let world = try await World.declined()
        let store = world.cancellingStore([.unavailable, .refused(.reject, code: 4_000_135)])
        let canceller = world.canceller(store)

        for _ in 0..<12 {
            _ = try await canceller.round()
            world.pass(.seconds(5))
        }
        let meanwhile = try await world.dependents()
        store.applyLate()
        try await world.run(canceller, rounds: 2)

        #expect(meanwhile == ["2/FAR cancel_sent"])
        #expect(try await world.dependents() == ["2/FAR confirmed"])
        #expect(store.calls.count == 2)
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 1)
        await world.close()
    }

    /// Nobody knows for sure: should it land after all, the renewal is off by us and not by the customer.
    @Test func cancel_abandonedWithoutProof_isStillOneOfOurs() async throws {
        let world = try await World.declined()
        let store = world.cancellingStore([.unavailable, .refused(.reject, code: 4_000_135)])
        let canceller = world.canceller(store)

        for _ in 0..<30 {
            _ = try await canceller.round()
            world.pass(.seconds(10))
        }

        #expect(try await world.dependents() == ["2/FAR discrepancy"])
        let known = try await world.service.read {
            try $0.ask(FoldQueries.knowing(of: ["2"]))
        }
        #expect(
            known.ownCancels["2"]?.map(\.requestReferenceID) == [store.calls[0].requestReferenceID])
        await world.close()
    }

    // MARK: An answer that can't be stored is quarantined

    @Test func cancel_whoseAnswerCantBeStored_isCheckedAndNeverSentAgain() async throws {
        let world = try await World.declined()
        let store = world.cancellingStore()
        let poisoned = PoisonedCancels(store)
        let canceller = world.canceller(store, looks: poisoned, cancels: poisoned)

        try await world.run(canceller, rounds: 6)
        let open = try await callSteps(world)
        poisoned.heal()
        try await world.run(canceller, rounds: 6)

        #expect(store.calls.count == 1)
        #expect(open == ["check"])
        #expect(try await world.dependents() == ["2/FAR confirmed"])
        await world.close()
    }

    @Test func extension_whoseStatusCantBeStored_isCheckedAndNeverSentAgain() async throws {
        let world = ExtensionWorld(
            delivery: try await World.make(),
            calls: ScriptedExtensions([.lost, .refused(4_030_005)]))
        try await world.subscribe("1")
        try await world.requestOne("1")
        let poisoned = PoisonedCancels(world.delivery.store)
        let extender = world.extender(statuses: poisoned)

        try await world.passUntilChecked(extender)
        let (calls, open) = (world.calls.calls.count, try await callSteps(world.delivery))
        poisoned.heal()
        try await world.passUntilChecked(extender)

        #expect(calls == 2)
        #expect(open == ["check"])
        #expect(world.calls.calls.count == 2)
        #expect(
            try await world.callStates() == ["refused by answer SubscriptionMaxExtensionError"])
        await world.delivery.close()
    }

    /// The next step of every call that is open.
    private func callSteps(_ world: World) async throws -> [String] {
        try await world.service.withConnection { connection in
            try await connection.query(
                "SELECT next_step FROM repricer.store_calls WHERE settled_at IS NULL"
            ).map { try $0.text("next_step") }
        }
    }

    // MARK: After a 429 nothing leaves by the permits of before

    @Test func extensions_claimedTogether_areSilentOnceOneIsThrottled() async throws {
        let until = World.start.advanced(by: 600_000)
        let world = ExtensionWorld(
            delivery: try await World.make(),
            calls: ScriptedExtensions([.throttled(until: until)]))
        let ids = try await neighbours(world.delivery, 5)
        for (number, id) in ids.enumerated() {
            try await world.subscribe(id)
            try await world.requestOne(id, number)
        }
        // Each permit but the first comes once a call was answered.
        let isFirst = ManualClock(0)
        let extender = world.extender(wait: { [calls = world.calls] _ in
            isFirst.advance(by: .milliseconds(1))
            guard isFirst.nowMilliseconds() > 1 else { return }
            while calls.calls.isEmpty { await Task.yield() }
            for _ in 0..<1000 { await Task.yield() }
        })

        _ = try await extender.round()

        #expect(world.calls.calls.count == 1)
        #expect(try await world.callStates() == Array(repeating: "queued", count: 5))
        await world.delivery.close()
    }

    /// Subscription ids of one bucket.
    private func neighbours(_ world: World, _ count: Int) async throws -> [String] {
        try await world.service.withConnection { connection in
            try await connection.query(
                """
                SELECT i::text AS id FROM generate_series(1, 100000) i
                WHERE repricer.bucket_of(i::text) = 7 LIMIT \(count)
                """
            ).map { try $0.text("id") }
        }
    }
}

import Facts
import Pricing
import ServiceKit
import TestSupport
import Testing

/// What the one engine promises for calls of every kind. Each of these once held for price changes alone.
@Suite(.database) struct EveryKindTests {
    private typealias Harness = DeliveryHarness

    // MARK: A call that may still land is not abandoned

    /// The first attempt is lost, the retry refused, and checks show nothing; then the first one lands.
    @Test func cancel_refusedWhileItsFirstAttemptMayLand_isCheckedUntilItDoes() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore([.unavailable, .refused(.reject, code: 4_000_135)])
        let canceller = harness.canceller(store)

        for _ in 0..<12 {
            _ = try await canceller.round()
            harness.pass(.seconds(5))
        }
        let meanwhile = try await harness.dependents()
        store.applyLate()
        try await harness.run(canceller, rounds: 2)

        #expect(meanwhile == ["2/FAR cancel_sent"])
        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        #expect(store.calls.count == 2)
        #expect(Set(store.calls.map(\.requestReferenceID)).count == 1)
        await harness.close()
    }

    /// Nobody knows for sure: should it land after all, the renewal is off by us and not by the customer.
    @Test func cancel_abandonedWithoutProof_isStillOneOfOurs() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore([.unavailable, .refused(.reject, code: 4_000_135)])
        let canceller = harness.canceller(store)

        for _ in 0..<30 {
            _ = try await canceller.round()
            harness.pass(.seconds(10))
        }

        #expect(try await harness.dependents() == ["2/FAR discrepancy"])
        let known = try await harness.service.read {
            try $0.ask(FoldQueries.knowing(of: ["2"]))
        }
        #expect(
            known.ownCancels["2"]?.map(\.requestReferenceID) == [store.calls[0].requestReferenceID])
        await harness.close()
    }

    /// A hundred seconds after the last attempt (ten of its lease, thirty of the request, sixty of Apple's) nothing is on its way
    /// any more: then it is checked for the last time, and not at the next doubling.
    @Test func extension_ofUnknownOutcome_isSettledOnceItsCallCantBeOnItsWay() async throws {
        let harness = ExtensionHarness(
            delivery: try await Harness.make(),
            calls: ScriptedExtensions([.unavailable, .refused(4_030_005)]))
        try await harness.subscribe("1")
        try await harness.requestOne("1")
        let extender = harness.extender(
            retry: Backoff(first: .seconds(2), max: .seconds(300), jitter: 0))
        var (sent, settled) = (0, 0)

        for second in 0..<200 where settled == 0 {
            let before = harness.calls.calls.count
            try await harness.work(extender)
            if harness.calls.calls.count > before { sent = second }
            if try await harness.callStates().contains(where: { $0.hasPrefix("refused") }) {
                settled = second
            }
            harness.pass(.seconds(1))
        }

        #expect(harness.calls.calls.count == 2)
        #expect((100...103).contains(settled - sent))
        await harness.delivery.close()
    }

    // MARK: An answer that can't be stored is quarantined

    @Test func cancel_whoseAnswerCantBeStored_isCheckedAndNeverSentAgain() async throws {
        let harness = try await Harness.declined()
        let store = harness.cancellingStore()
        let poisoned = PoisonedCancels(store)
        let canceller = harness.canceller(store, checks: poisoned, cancels: poisoned)

        try await harness.run(canceller, rounds: 6)
        let open = try await callSteps(harness)
        poisoned.heal()
        try await harness.run(canceller, rounds: 6)

        #expect(store.calls.count == 1)
        #expect(open == ["check"])
        #expect(try await harness.dependents() == ["2/FAR confirmed"])
        await harness.close()
    }

    @Test func extension_whoseStatusCantBeStored_isCheckedAndNeverSentAgain() async throws {
        let harness = ExtensionHarness(
            delivery: try await Harness.make(),
            calls: ScriptedExtensions([.lost, .refused(4_030_005)]))
        try await harness.subscribe("1")
        try await harness.requestOne("1")
        let poisoned = PoisonedCancels(harness.delivery.store)
        let extender = harness.extender(statuses: poisoned)

        try await harness.passUntilChecked(extender)
        let (calls, open) = (harness.calls.calls.count, try await callSteps(harness.delivery))
        poisoned.heal()
        try await harness.passUntilChecked(extender)

        #expect(calls == 2)
        #expect(open == ["check"])
        #expect(harness.calls.calls.count == 2)
        #expect(
            try await harness.callStates() == ["refused by answer SubscriptionMaxExtensionError"])
        await harness.delivery.close()
    }

    /// The next step of every call that is open.
    private func callSteps(_ harness: Harness) async throws -> [String] {
        try await harness.service.withConnection { connection in
            try await connection.query(
                "SELECT next_step FROM repricer.store_calls WHERE settled_at IS NULL"
            ).map { try $0.text("next_step") }
        }
    }

    // MARK: After a 429 nothing leaves by the permits of before

    @Test func extensions_claimedTogether_areSilentOnceOneIsThrottled() async throws {
        let until = Harness.start.advanced(by: 600_000)
        let harness = ExtensionHarness(
            delivery: try await Harness.make(),
            calls: ScriptedExtensions([.throttled(until: until)]))
        let ids = try await neighbours(harness.delivery, 5)
        for (number, id) in ids.enumerated() {
            try await harness.subscribe(id)
            try await harness.requestOne(id, number)
        }
        // Each permit but the first comes once a call was answered.
        let isFirst = ManualClock(0)
        let extender = harness.extender(wait: { [calls = harness.calls] _ in
            isFirst.advance(by: .milliseconds(1))
            guard isFirst.nowMilliseconds() > 1 else { return }
            while calls.calls.isEmpty { await Task.yield() }
            for _ in 0..<1000 { await Task.yield() }
        })

        _ = try await extender.round()

        #expect(harness.calls.calls.count == 1)
        #expect(try await harness.callStates() == Array(repeating: "queued", count: 5))
        await harness.delivery.close()
    }

    /// Subscription ids of one bucket.
    private func neighbours(_ harness: Harness, _ count: Int) async throws -> [String] {
        try await harness.service.withConnection { connection in
            try await connection.query(
                """
                SELECT i::text AS id FROM generate_series(1, 100000) i
                WHERE repricer.bucket_of(i::text) = 7 LIMIT \(count)
                """
            ).map { try $0.text("id") }
        }
    }
}

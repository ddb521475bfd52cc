import Batches
import Facts
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import PriceChanges
@testable import Pricing

/// Whether the App Store takes calls again, one subscription after another asks: none twice while one is left that has not.
@Suite(.database) struct ProbeTests {
    private typealias Harness = DeliveryHarness

    /// Those who asked, a minute after another.
    private static func ask(
        _ minutes: Int, _ harness: Harness, _ scheduler: Scheduler
    ) async throws -> [String] {
        let before = harness.store.calls.count
        for _ in 0..<minutes {
            harness.clock.advance(by: .seconds(61))
            harness.realClock.advance(by: .seconds(61))
            try await harness.deliver(scheduler)
            try await harness.watch().round()
        }
        return harness.store.calls.dropFirst(before).map(\.transactionID)
    }

    @Test(arguments: [
        // The batch, the service, a breaker.
        ScriptedStore.Reply.refused(.reject, code: 4_030_010),
        .refused(.suspect, code: 4_000_999), .refused(.refresh, code: 4_000_082),
        .refused(.haltService, code: 4_010_000), .unavailable,
        .overloaded(retryAfter: .seconds(30)),
    ])
    func probes_areOfSubscriptionsThatDidNotAskYet(answer: ScriptedStore.Reply) async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...50)
        harness.store.setAnswers([], nil, all: answer)
        // The token that is refused.
        harness.store.setToken("first")
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        try await harness.watch().round()
        let met = Set(harness.store.calls.map(\.transactionID))

        let left = 50 - met.count
        let probes = try await Self.ask(left, harness, scheduler)

        #expect(met.count < 50)
        #expect(probes.count >= left / 2)
        #expect(Set(probes).count == probes.count)
        #expect(Set(probes).isDisjoint(with: met))
        let later = try await Self.ask(60, harness, scheduler)
        // All have asked: now they take turns.
        #expect(Set(later).count > 20)
        await harness.close()
    }

    /// What is overdue beside it would only be judged anew, and nobody would ask.
    @Test func probe_whileOthersAreOverdue_isTheOneInTime() async throws {
        let harness = try await Harness.make()
        let ids = (1...1000).map { "\($0)" }.filter { Bucket.of($0) == Bucket.of("1") }.prefix(3)
        for id in ids { try await harness.subscribe(id) }
        try await harness.submitAndApprove(
            ids.enumerated().map { Harness.row($1, line: $0 + 2) })
        let (now, realNow) = (harness.now.milliseconds, harness.realClock.nowMilliseconds())
        try await harness.write(
            """
            UPDATE repricer.price_changes SET send_by = \(timestamp: now)::timestamptz - interval '1 hour' WHERE line < 4
            """)

        let locked = try await harness.service.withTransaction { connection in
            let due = try connection.ask(
                DueQueries.earliest(now: now, realNow: realNow, isProbing: true))
            return try connection.ask(
                DueQueries.locking(due, until: nil, limit: 1, realNow: realNow)
            ).ids
        }

        #expect(locked == ids.suffix(1))
        await harness.close(isTamperedWith: true)
    }

    /// Rows that a poisoned answer makes wait come after those of whom nobody knows.
    @Test func probe_findsTheOneThatIsAnswered() async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...40)
        harness.store.setAnswers((1...40).map(String.init), .unavailable)
        harness.store.setAnswers(["40"], nil)
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        _ = try await Self.ask(45, harness, scheduler)

        #expect(
            try await harness.texts(
                "SELECT state AS text FROM repricer.price_changes WHERE original_transaction_id = '40'"
            ) == ["scheduled"])
        await harness.close()
    }

    /// An answer to a change of another batch says nothing of what halted this one.
    @Test func probeOfAHaltedBatch_isACallOfThatBatch() async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...50)
        harness.store.setAnswers([], nil, all: .refused(.reject, code: 4_030_010))
        try await harness.deliver(harness.scheduler())
        try await harness.watch().round()
        // Others of the same subscriptions are more urgent.
        try await harness.submitAndApprove(
            (1...50).map { Harness.row("\($0)", "B", line: $0 + 1) })
        try await harness.write(
            "UPDATE repricer.price_changes SET send_by = send_by - interval '1 hour' WHERE sku = 'B'"
        )
        harness.clock.advance(by: .seconds(61))
        harness.realClock.advance(by: .seconds(61))
        let (now, realNow) = (harness.now.milliseconds, harness.realClock.nowMilliseconds())

        let due = try await harness.service.read {
            try $0.ask(DueQueries.earliest(now: now, realNow: realNow))
        }
        let turn = try #require(
            DueOrder.turns(due, now: now, place: 0).first { $0.due.first?.haltedBy != nil })
        let claim = try await Claimer(engine: harness.engine()).claim(turn, limit: 1)

        let call = try #require(claim.calls.first)
        #expect(
            try await harness.texts(
                "SELECT sku AS text FROM repricer.price_changes WHERE change_id = '\(call.carries.joined())'"
            ) == ["A"])
        await harness.close(isTamperedWith: true)
    }

    // MARK: Storefronts

    @Test func haltedStorefront_isAskedForByOneRowAMinute_andGoesOnByItself() async throws {
        let harness = try await Harness.make()
        let ids = (1...30).map(String.init)
        for id in ids { try await harness.subscribe(id, storefront: "CAN") }
        try await harness.subscribe("31")
        harness.store.setUnpriced(["CAN"])
        try await harness.submitAndApprove(
            (ids + ["31"]).enumerated().map { Harness.row($1, line: $0 + 2) })
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        try await harness.watch().round()
        let met = Set(harness.store.calls.map(\.transactionID))

        let probes = try await Self.ask(20, harness, scheduler)
        let said = try await harness.texts(
            "SELECT halted_storefronts -> 'CAN' ->> 'answer' AS text FROM repricer.batches")

        #expect((8...20).contains(probes.count))
        #expect(Set(probes).count == probes.count)
        #expect(Set(probes).isDisjoint(with: met))
        #expect(said.first?.hasPrefix("4000134 code_4000134 for ") == true)
        harness.store.setUnpriced([])
        _ = try await Self.ask(10, harness, scheduler)
        #expect(
            try await harness.texts(
                "SELECT halted_storefronts::text AS text FROM repricer.batches")
                == ["{}"])
        #expect(try await harness.changes() == Array(repeating: "A scheduled", count: 31))
        #expect(
            try await harness.texts(
                "SELECT action AS text FROM repricer.audit_trail WHERE action IN ('halt', 'recover') ORDER BY sequence"
            ) == ["halt", "recover"])
        await harness.close()
    }

    /// A row that asks for its storefront and gets no answer holds up neither the rows that ask after it, nor the end of
    /// the halt.
    @Test func haltedStorefront_whoseProbeGetsNoAnswer_isAskedForByOthers() async throws {
        let harness = try await Harness.make()
        let ids = (1...30).map(String.init)
        for id in ids { try await harness.subscribe(id, storefront: "CAN") }
        harness.store.setUnpriced(["CAN"])
        try await harness.submitAndApprove(ids.enumerated().map { Harness.row($1, line: $0 + 2) })
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        try await harness.watch().round()
        let met = Set(harness.store.calls.map(\.transactionID))
        harness.store.setAnswers(Set(ids).subtracting(met), .unavailable)
        var odd: Set<String> = []
        for _ in 0..<12 where odd.isEmpty {
            odd = Set(try await Self.ask(1, harness, scheduler))
        }
        harness.store.setAnswers(Set(ids).subtracting(odd), nil)

        harness.realClock.advance(by: .seconds(76))
        try await harness.watch().round()
        let said = try await harness.texts(
            "SELECT halted_storefronts -> 'CAN' ->> 'answer' AS text FROM repricer.batches")
        let probes = Set(try await Self.ask(12, harness, scheduler)).subtracting(odd)

        #expect(odd.count == 1)
        #expect(said == odd.map { "no answer for \($0)" })
        #expect(probes.count >= 4)
        harness.store.setUnpriced([])
        _ = try await Self.ask(10, harness, scheduler)
        #expect(
            try await harness.texts(
                "SELECT halted_storefronts::text AS text FROM repricer.batches") == ["{}"])
        #expect(try await harness.stateCounts() == ["scheduled": 29, "unknown": 1])
        harness.store.setAnswers(odd, nil)
        _ = try await Self.ask(20, harness, scheduler)
        #expect(try await harness.stateCounts() == ["scheduled": 30])
        #expect(harness.store.applied.count == 30)
        await harness.close()
    }

    /// What kept a row waiting before it was asked to probe says nothing of the storefront.
    @Test func storefrontProbe_thatNeverLeaves_isNoAnswer() async throws {
        let harness = try await Harness.make()
        let ids = (1...30).map(String.init)
        for id in ids { try await harness.subscribe(id, storefront: "CAN") }
        harness.store.setUnpriced(["CAN"])
        try await harness.submitAndApprove(ids.enumerated().map { Harness.row($1, line: $0 + 2) })
        try await harness.deliver(harness.scheduler())
        harness.realClock.advance(by: .seconds(61))
        try await harness.watch().round()
        func halted(_ key: String) async throws -> [String] {
            try await harness.texts(
                """
                SELECT halted_storefronts -> 'CAN' ->> '\(key)' AS text FROM repricer.batches
                WHERE halted_storefronts -> 'CAN' ? '\(key)'
                """)
        }
        let probe = try await halted("subscription")
        try await harness.write(
            "UPDATE repricer.price_changes SET reason = 'halted' WHERE original_transaction_id = \(probe.first ?? "")::text"
        )

        harness.realClock.advance(by: .seconds(61))
        try await harness.watch().round()
        let after = try await (halted("subscription"), halted("answer"))
        try await harness.watch().round()
        let next = try await halted("subscription")

        #expect(probe.count == 1)
        #expect(after.0.isEmpty && after.1.isEmpty)
        #expect(next.count == 1 && next != probe)
        await harness.close(isTamperedWith: true)
    }

    // MARK: A silence that is asked for

    /// Each permit but the first comes once a call was answered, as it does where calls follow one another.
    @Test(arguments: [
        (ScriptedStore.Reply.overloaded(retryAfter: .seconds(30)), "asked_to_wait"),
        (.throttled(until: Harness.start.advanced(by: 30_000)), "rate_limited"),
    ])
    func callsThatAreClaimed_areSilent_andNoneLeavesTooEarly(
        answer: ScriptedStore.Reply, reason: String
    ) async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...25)
        harness.store.setAnswers([], nil, all: answer)
        let permits = ManualClock(0)
        let scheduler = harness.scheduler(wait: { [store = harness.store] _ in
            permits.advance(by: .milliseconds(1))
            guard permits.nowMilliseconds() > 1 else { return }
            while store.calls.isEmpty { await Task.yield() }
            for _ in 0..<1000 { await Task.yield() }
        })

        try await harness.deliver(scheduler)
        let atOnce = harness.store.calls.count
        let reasons = try await harness.texts(
            "SELECT DISTINCT reason AS text FROM repricer.price_changes WHERE state = 'queued'"
                + " AND reason IS NOT NULL")
        harness.clock.advance(by: .milliseconds(29_900))
        harness.realClock.advance(by: .milliseconds(29_900))
        for _ in 0..<3 { try await harness.deliver(scheduler) }
        let early = harness.store.calls.count - atOnce
        harness.store.setAnswers([], nil)
        for _ in 0..<5 {
            harness.clock.advance(by: .milliseconds(2000))
            harness.realClock.advance(by: .milliseconds(2000))
            try await harness.deliver(scheduler)
        }

        #expect(atOnce <= 3)
        #expect(reasons.isEmpty || reasons == [reason])
        #expect(early == 0)
        #expect(harness.store.applied.count == 25)
        await harness.close()
    }

    /// Who alone is told to wait for long waits for long alone.
    @Test func oneSubscriptionThatIsToldToWaitForHours_silencesTheOthersForAMinute() async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...40)
        harness.store.setAnswers(["1"], .overloaded(retryAfter: .seconds(7200)))
        let scheduler = harness.scheduler()

        for _ in 0..<10 {
            try await harness.deliver(scheduler)
            harness.clock.advance(by: .seconds(31))
            harness.realClock.advance(by: .seconds(31))
        }

        #expect(
            try await harness.texts(
                "SELECT state || ' ' || count(*) AS text FROM repricer.price_changes GROUP BY state ORDER BY 1"
            ) == ["scheduled 39", "unknown 1"])
        #expect(harness.store.calls.count { $0.transactionID == "1" } == 1)
        await harness.close()
    }

    /// Where the next one is told so too, it is meant for all.
    @Test func subscriptionsThatAreToldToWaitForHours_areAskedForNoneMeanwhile() async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...40)
        harness.store.setAnswers([], nil, all: .overloaded(retryAfter: .seconds(7200)))
        let scheduler = harness.scheduler()
        func pass(_ seconds: Int) async throws {
            harness.clock.advance(by: .seconds(seconds))
            harness.realClock.advance(by: .seconds(seconds))
            try await harness.deliver(scheduler)
        }

        try await harness.deliver(scheduler)
        let first = harness.store.calls.count
        for _ in 0..<60 { try await pass(61) }
        let early = harness.store.calls.count
        harness.store.setAnswers([], nil)
        for _ in 0..<10 { try await pass(3600) }

        #expect(early <= first + 1)
        #expect(harness.store.applied.count == 40)
        await harness.close()
    }

    /// It is told so each time, and others are answered: it waits by itself.
    @Test func oneSubscriptionThatIsToldToWait_silencesTheOthersOnce() async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...12)
        harness.store.setAnswers(["1"], .overloaded(retryAfter: .seconds(30)))
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        _ = try await Self.ask(3, harness, scheduler)
        let before = harness.store.calls.count { $0.transactionID == "1" }

        for number in 101...115 {
            harness.clock.advance(by: .seconds(45))
            harness.realClock.advance(by: .seconds(45))
            try await harness.deliver(scheduler)
            try await harness.submitRows(number...number)
            try await harness.deliver(scheduler)
            #expect(harness.store.calls.contains { $0.transactionID == "\(number)" })
        }

        #expect(harness.store.calls.count { $0.transactionID == "1" } > before)
        #expect(
            try await harness.texts(
                "SELECT DISTINCT state AS text FROM repricer.price_changes ORDER BY 1"
            ) == ["scheduled", "unknown"])
        await harness.close()
    }
}

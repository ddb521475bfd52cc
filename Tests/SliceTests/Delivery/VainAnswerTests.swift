import Calls
import PriceChanges
import Testing

@testable import Pricing

/// Answers of HTTP 200 that show no effect: one odd subscription, all of them, and answers that are merely behind.
@Suite(.database) struct VainAnswerTests {
    private typealias Harness = DeliveryHarness

    private static let parked = """
        SELECT original_transaction_id || ' ' || parked_reason AS text FROM repricer.price_changes
        WHERE parked_reason IS NOT NULL AND stage IN ('queued', 'unknown')
        """

    private static func distinctIDs(_ harness: Harness) -> Int {
        Set(harness.store.calls.map(\.requestReferenceID)).count
    }

    /// The calls stop after a few, as after refusals, and no probe that is answered so lets them go on.
    @Test func answersWithoutEffect_toEverybody_haltTheirBatch() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...200)
        harness.store.setAnswers([], nil, all: .ignored)
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        let atOnce = Self.distinctIDs(harness)
        try await harness.pass(minutes: 3, scheduler)

        #expect(try await harness.halts() == ["200", "-"])
        #expect(atOnce < 100)
        #expect(Self.distinctIDs(harness) <= atOnce + 3)
        let states = try await harness.stateCounts()
        #expect(states["scheduled"] == nil && states["rejected"] == nil)
        #expect(states["unknown"] == Self.distinctIDs(harness))
        let reason = try await harness.texts("SELECT paused_reason AS text FROM repricer.batches")
        #expect(
            reason.first?.contains(
                "subscriptions in a row were answered with HTTP 200 without effect, the last")
                == true, "\(reason)")

        harness.store.setAnswers([], nil)
        try await harness.pass(minutes: 40, scheduler)

        #expect(try await harness.halts() == ["-", "-"])
        #expect(try await harness.stateCounts() == ["scheduled": 200])
        #expect(Self.distinctIDs(harness) == 200)
        await harness.close()
    }

    /// Where every batch meets them, the service halts, and goes on with the first effect.
    @Test func answersWithoutEffect_inEveryBatch_haltTheService() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...60)
        _ = try await harness.submitRows(61...120)
        harness.store.setAnswers([], nil, all: .ignored)
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        try await harness.pass(minutes: 3, scheduler)

        let reason = try await harness.halts().last
        #expect(reason?.hasPrefix("200 no_effect: ") == true, "\(reason ?? "")")
        #expect(reason?.contains("were answered with HTTP 200 without effect") == true)
        #expect(Self.distinctIDs(harness) < 110)

        harness.store.setAnswers([], nil)
        for _ in 0..<40 {
            try await harness.pass(minutes: 1, scheduler)
            try await harness.watch().round()
        }
        #expect(try await harness.halts() == ["-", "-", "-"])
        #expect(try await harness.stateCounts() == ["scheduled": 120])
        #expect(Self.distinctIDs(harness) == 120)
        await harness.close()
    }

    /// Where statuses show what the answers do not show yet, nothing halts, and no call goes twice.
    @Test func answersThatAreBehind_haltNothing() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...200)
        harness.store.setAnswers([], nil, all: .behind)
        let scheduler = harness.scheduler(perSecond: 1000, statusPerSecond: 1000)

        for _ in 0..<12 {
            try await harness.deliver(scheduler)
            harness.clock.advance(by: .seconds(10))
            harness.realClock.advance(by: .seconds(10))
        }

        #expect(try await harness.halts() == ["-", "-"])
        #expect(try await harness.stateCounts() == ["scheduled": 200])
        #expect(harness.store.calls.count == 200)
        await harness.close()
    }

    /// Statuses are behind as well, so the calls halt at first; the first status that shows an effect ends that.
    @Test func answersAndStatusesThatAreBehind_endTheirHaltThemselves() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...60)
        harness.store.setAnswers([], nil, all: .ignored)
        let scheduler = harness.scheduler(perSecond: 1000, statusPerSecond: 1000)
        try await harness.deliver(scheduler)
        #expect(try await harness.halts().contains { $0.hasPrefix("200") })

        for _ in 0..<30 {
            harness.store.applyLate()
            try await harness.pass(minutes: 1, scheduler)
        }

        #expect(try await harness.halts() == ["-", "-"])
        #expect(try await harness.stateCounts() == ["scheduled": 60])
        #expect(Self.distinctIDs(harness) == 60)
        await harness.close()
    }

    /// A person hears of one that keeps being answered without effect, and the others go on.
    @Test func answersWithoutEffect_toOne_parkItAndHaltNothing() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...30)
        harness.store.setAnswers(["7"], .ignored)
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        try await harness.pass(minutes: 30, scheduler)

        #expect(try await harness.halts() == ["-", "-"])
        #expect(try await harness.stateCounts() == ["scheduled": 29, "unknown": 1])
        #expect(try await harness.texts(Self.parked) == ["7 answered, and no effect shows"])
        #expect(Self.distinctIDs(harness) == 30)
        #expect((4...14).contains(harness.store.calls.count { $0.transactionID == "7" }))

        harness.store.setAnswers(["7"], nil)
        try await harness.pass(minutes: 20, scheduler)
        #expect(try await harness.stateCounts() == ["scheduled": 30])
        #expect(try await harness.texts(Self.parked).isEmpty)
        await harness.close()
    }

    /// The service was halted for refusals. An answer without effect is no sign that it takes calls again.
    @Test func answerWithoutEffect_toAProbe_endsNoHalt() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...40)
        harness.store.setAnswers([], nil, all: .refused(.reject, code: 4_030_010))
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        let halted = try await harness.halts()
        #expect(halted.contains { $0.hasPrefix("4030010") })

        harness.store.setAnswers([], nil, all: .ignored)
        try await harness.pass(minutes: 4, scheduler)
        #expect(try await harness.halts().contains { $0.hasPrefix("4030010") })

        harness.store.setAnswers([], nil)
        for _ in 0..<30 {
            try await harness.pass(minutes: 1, scheduler)
            try await harness.watch().round()
        }
        #expect(try await harness.halts() == ["-", "-"])
        #expect(try await harness.stateCounts() == ["scheduled": 40])
        await harness.close()
    }

    /// The key was refused, and is good again: an answer shows that, with or without an effect. What halts then is named
    /// for what it is.
    @Test func answerWithoutEffect_toAProbe_showsThatTheKeyIsGood() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...60)
        harness.store.setAnswers([], nil, all: .refused(.haltService, code: 4_010_000))
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        #expect(try await harness.halts().contains { $0.hasPrefix("4010000") })

        harness.store.setAnswers([], nil, all: .ignored)
        try await harness.pass(minutes: 8, scheduler)

        let halts = try await harness.halts()
        #expect(!halts.contains { $0.hasPrefix("4010000") }, "\(halts)")
        #expect(halts.contains { $0.hasPrefix("200") }, "\(halts)")
        #expect(try await harness.stateCounts()["scheduled"] == nil)

        harness.store.setAnswers([], nil)
        for _ in 0..<40 {
            try await harness.pass(minutes: 1, scheduler)
            try await harness.watch().round()
        }
        #expect(try await harness.halts() == ["-", "-"])
        #expect(try await harness.stateCounts() == ["scheduled": 60])
        await harness.close()
    }

    /// Called less than 24 hours before a renewal, a decrease is due at the one after it. Renewal info tells the price of the
    /// next renewal alone, so no answer and no status can show the decrease before that renewal.
    @Test func decreasesCalledInTheLastDay_areScheduled_andHaltNothing() async throws {
        let harness = try await Harness.make()
        let ids = (1...30).map(String.init)
        for id in ids {
            try await harness.subscribe(id)
            harness.store.setRenewal(id, at: Harness.start.advanced(by: 40 * 86_400_000))
        }
        harness.clock.advance(by: .seconds(39 * 86_400 + 43_200))
        let batchID = try await harness.submit(
            ids.enumerated().map { Harness.row($1, to: 7990, line: $0 + 2) })
        try await harness.approve(batchID)
        let asBefore = ["A", "B"].map { StatementItem(sku: $0, price: 9990) }
        harness.store.setAnswers([], nil, all: .contradicted(asBefore))
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        try await harness.pass(minutes: 5, scheduler)

        #expect(try await harness.halts() == ["-", "-"])
        #expect(try await harness.stateCounts() == ["scheduled": 30])
        #expect(harness.store.calls.count == 30)
        #expect(try await harness.texts(Self.parked).isEmpty)
        await harness.close()
    }
}

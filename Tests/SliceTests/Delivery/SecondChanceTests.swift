import Batches
import Postgres
import PriceChanges
import ServiceKit
import TestSupport
import Testing

@testable import Pricing

/// A few rows that are refused rightly, with the earliest deadlines of their batch: they do not halt it again and again.
@Suite(.database) struct SecondChanceTests {
    private typealias Harness = DeliveryHarness

    private static func pass(
        _ harness: Harness, _ scheduler: Scheduler, by duration: Duration = .seconds(61),
        leading lines: ClosedRange<Int>? = nil
    ) async throws {
        if let lines { try await lead(harness, lines: lines) }
        for _ in 0..<3 {
            try await harness.deliver(scheduler)
            try await harness.watch().round()
        }
        harness.clock.advance(by: duration)
        harness.realClock.advance(by: duration)
    }

    /// Gives these lines an earlier deadline than the others have. A call dates them anew.
    private static func lead(_ harness: Harness, lines: ClosedRange<Int>) async throws {
        try await harness.write(
            """
            UPDATE repricer.price_changes SET send_by = '2026-03-04Z'
            WHERE stage = 'queued' AND state = 'queued'
                AND line BETWEEN \(lines.lowerBound)::integer AND \(lines.upperBound)::integer
            """)
    }

    private static func stories(_ harness: Harness, of ids: [String]) async throws -> [String] {
        try await harness.texts(
            """
            SELECT concat_ws(' ', original_transaction_id, occurred_at, state, reason, evidence_id) AS text
            FROM repricer.price_change_history ORDER BY original_transaction_id, recorded_at, occurred_at
            """
        ).filter { line in ids.contains { line.hasPrefix("\($0) ") } }
    }

    private static let halts =
        "SELECT object AS text FROM repricer.audit_trail WHERE action = 'halt'"

    @Test(arguments: [4_030_010, 4_000_205])
    func fewRowsThatAreRefusedRightly_atTheHead_stopOthersForMinutesAtMost(
        code: Int
    ) async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...150)
        try await Self.lead(harness, lines: 2...25)
        let odd = (1...24).map(String.init)
        harness.store.setAnswers(
            odd, .refused(code == 4_000_205 ? .checkStatus : .reject, code: code))
        let scheduler = harness.scheduler()
        // What is refused right after a halt has ended is refused later than that.
        harness.clock.tick()

        for _ in 0..<20 { try await Self.pass(harness, scheduler, leading: 2...25) }

        #expect(try await harness.stateCounts() == ["rejected": 24, "scheduled": 126])
        let halts = try await harness.texts(Self.halts).count
        #expect((1...3).contains(halts))
        // One call at first, and one after each halt at most.
        let calls = Dictionary(harness.store.calls.map { ($0.transactionID, 1) }) { $0 + $1 }
        let often = odd.filter { !(1...1 + halts).contains(calls[$0] ?? 0) }
        let stories = try await Self.stories(harness, of: often)
        #expect(often.isEmpty, "\(halts): \(stories)")
        // Nothing remembers them once the batch is through.
        #expect(try await harness.count("put_backs") == 0)
        await harness.close()
    }

    /// More than may be refused a second time in a row: they come back one after another, between others that succeed.
    @Test func manyRowsThatAreRefusedRightly_atTheHead_doNotHaltTheirBatchForGood() async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...260)
        try await Self.lead(harness, lines: 2...61)
        let odd = (1...60).map(String.init)
        harness.store.setAnswers(odd, .refused(.reject, code: 4_030_010))
        let scheduler = harness.scheduler()

        for _ in 0..<24 { try await Self.pass(harness, scheduler, leading: 2...61) }

        #expect(try await harness.stateCounts() == ["rejected": 60, "scheduled": 200])
        // Ten that were never called halt it each time.
        #expect(try await (1...8).contains(harness.texts(Self.halts).count))
        await harness.close()
    }

    /// Rows that are refused for ever, and nobody knows what for. After each halt as many more again may be odd, so the halts
    /// are few however many stand together, and the others go.
    @Test(arguments: [
        (ScriptedStore.Reply.refused(.haltService, code: 403), 30),
        (.refused(.suspect, code: 4_000_999), 60),
    ])
    func oddRows_atTheHead_areParkedWithinMinutes(
        answer: ScriptedStore.Reply, count: Int
    ) async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...count + 90)
        let odd = (1...count).map(String.init)
        harness.store.setAnswers(odd, answer)
        let scheduler = harness.scheduler()

        // A minute of the story has fifty calls.
        for _ in 0..<(count / 10 + 2) {
            try await Self.pass(harness, scheduler, leading: 2...count + 1)
        }

        let states = try await harness.stateCounts()
        // After an answer without a code, the outcome is unknown until the status has been read.
        #expect(states["queued", default: 0] + states["unknown", default: 0] == count, "\(states)")
        #expect(states["scheduled"] == 90)
        let halts = try await harness.texts(Self.allHalts)
        #expect((1...count / 20 + 2).contains(halts.count), "\(halts)")
        await harness.close()
    }

    private static let allHalts =
        "SELECT object AS text FROM repricer.audit_trail WHERE action LIKE '%halt%'"

    /// What had its second chance ends with the others where all are refused anew, and goes back with them.
    @Test(arguments: [1, 2])
    func secondRefusal_whereAllAreRefusedAgain_isPutBackWithTheOthers(batches: Int) async throws {
        let harness = try await Harness.make()
        for batch in 0..<batches {
            let count = 60 / batches
            try await harness.submitRows(batch * count + 1...(batch + 1) * count)
        }
        try await Self.lead(harness, lines: 2...7)
        harness.store.setAnswers([], nil, all: .refused(.reject, code: 4_030_010))
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        try await harness.watch().round()
        // One probe is answered.
        harness.store.setAnswers([], nil)
        harness.clock.advance(by: .seconds(61))
        harness.realClock.advance(by: .seconds(61))
        _ = try await harness.scheduler(perSecond: 1).round()
        #expect(try await harness.stateCounts()["scheduled"] == 1)
        harness.store.setAnswers([], nil, all: .refused(.reject, code: 4_030_010))

        harness.clock.advance(by: .seconds(300))
        harness.realClock.advance(by: .seconds(300))
        try await Self.lead(harness, lines: 2...7)
        // Their second refusals come some minutes before the first ones that are counted.
        let slow = harness.scheduler(perSecond: 1)
        for refused in 1...5 {
            _ = try await slow.round()
            #expect(try await harness.stateCounts()["rejected"] == refused)
            harness.clock.advance(by: .seconds(61))
            harness.realClock.advance(by: .seconds(61))
        }
        try await harness.deliver(scheduler)
        for _ in 0..<3 { try await harness.watch().round() }

        #expect(try await harness.stateCounts()["rejected"] == nil)
        harness.store.setAnswers([], nil)
        for _ in 0..<15 { try await Self.pass(harness, scheduler) }
        #expect(try await harness.stateCounts() == ["scheduled": 60])
        await harness.close()
    }

    /// What is put back stands behind what was never called, though its deadline is earlier.
    @Test func rowsThatWerePutBack_goBehindThoseThatWereNeverCalled() async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...80)
        try await Self.lead(harness, lines: 2...13)
        harness.store.setAnswers((1...12).map(String.init), .refused(.reject, code: 4_030_010))
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        for _ in 0..<2 { try await harness.watch().round() }
        let before = harness.store.calls.count
        let putBack = Set(
            try await harness.texts(
                """
                SELECT original_transaction_id AS text FROM repricer.price_change_history
                WHERE evidence_id LIKE 'halt %'
                """))
        harness.clock.advance(by: .seconds(61))
        harness.realClock.advance(by: .seconds(61))

        try await harness.deliver(scheduler)

        let next = harness.store.calls.dropFirst(before).map(\.transactionID)
        #expect(putBack.count >= 9)
        // They come back one a second, so that others succeed between them.
        #expect(
            try await harness.texts(
                """
                SELECT count(*)::text AS text FROM (
                    SELECT next_attempt_at - lag(next_attempt_at) OVER (ORDER BY next_attempt_at) AS apart
                    FROM repricer.price_changes WHERE original_transaction_id IN (
                        SELECT original_transaction_id FROM repricer.price_change_history
                        WHERE evidence_id LIKE 'halt %')
                ) gaps WHERE apart = interval '1 second'
                """) == ["\(putBack.count - 1)"])
        #expect(next.count >= 40)
        #expect(!next.contains { putBack.contains($0) }, "\(next)")
        await harness.close()
    }
}

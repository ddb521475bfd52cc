import Batches
import Calls
import Facts
import Postgres
import PriceChanges
import ServiceKit
import TestSupport
import Testing

@testable import Pricing

/// While nobody succeeds few rows meet what is wrong, and hardly any ends by it, however the App Store words it and however
/// long it takes.
@Suite(.database) struct OutageTests {
    private typealias Harness = DeliveryHarness

    // MARK: Stale tokens

    @Test func staleTokenOfAll_haltsTheBatch_parksNobody_andGoesOnByItself() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...80)
        harness.store.setAnswers([], nil, all: .refused(.refresh, code: 4_000_082))
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        let before = harness.store.calls.count
        let met = try #require(harness.store.calls.first)
        let call = StoreCall(
            .priceChange, subject: met.transactionID, callID: met.requestReferenceID,
            bucket: Bucket.of(met.transactionID), intent: "{}")
        // What another process reads of a call that it has out.
        let concerned = try await harness.service.read {
            try GuardQueries.batches(of: [call], on: $0)[call.callID]
        }
        #expect(
            concerned?.map { [$0.isHalted, $0.staleTokens == 1, $0.wasParked] } == [
                [true, true, false]
            ])
        try await harness.pass(minutes: 4, scheduler)

        #expect(try await harness.halts() == ["4000082", "-"])
        #expect(Set(harness.store.calls.map(\.transactionID)).count < 50)
        #expect((3...4).contains(harness.store.calls.count - before))
        #expect(try await harness.stateCounts() == ["queued": 80])

        harness.store.setAnswers([], nil)
        try await harness.pass(minutes: 30, scheduler)
        #expect(try await harness.halts() == ["-", "-"])
        #expect(try await harness.stateCounts() == ["scheduled": 80])
        await harness.close()
    }

    /// Our tokens are old and the statuses show good ones: a call of one who was asked proves it for all.
    @Test func staleTokensThatTheStatusesRenew_costTheBatchAMinute() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...80)
        harness.store.setValidToken("of today")
        let scheduler = harness.scheduler()

        for _ in 0..<100 {
            try await harness.deliver(scheduler)
            harness.clock.advance(by: .seconds(2))
            harness.realClock.advance(by: .seconds(2))
        }

        #expect(try await harness.stateCounts() == ["scheduled": 80])
        #expect(
            try await harness.texts(
                "SELECT action AS text FROM repricer.audit_trail WHERE action = 'halt'"
            ).count <= 1)
        await harness.close()
    }

    // MARK: Another refusal each time

    private static let wordings: [ScriptedStore.Reply] = [
        .refused(.reject, code: 4_030_010), .refused(.suspect, code: 4_040_010),
        .refused(.reject, code: 4_030_011), .refused(.haltBatch, code: 4_000_173),
        .refused(.reject, code: 4_000_131), .refused(.refresh, code: 4_000_082),
        .refused(.reject, code: 4_030_012),
    ]

    /// An hour of it, by two replicas, of one batch or of several: the first minute's rows have ended, and no other.
    @Test(arguments: [[1...200], [1...70, 71...140, 141...210]])
    func refusalsInChangingWords_endFewRowsHoweverLongTheyLast(batches: [ClosedRange<Int>])
        async throws
    {
        let replies = (0..<2000).map { Self.wordings[$0 % Self.wordings.count] }
        let harness = try await Harness.make(replies)
        for numbers in batches { _ = try await harness.submitRows(numbers) }
        let (one, other) = (harness.scheduler(), harness.scheduler())

        try await harness.deliver(one)
        try await harness.deliver(other)
        try await harness.pass(minutes: 60, one, other)

        let rows = batches.map(\.count).reduce(0, +)
        let ended = try await harness.stateCounts()["rejected"] ?? 0
        #expect(ended < 50)
        #expect(
            try await harness.texts(
                "SELECT action AS text FROM repricer.audit_trail WHERE action = 'recover'"
            )
            .isEmpty)

        harness.store.setAnswers([], nil, all: .applied)
        try await harness.pass(minutes: 90, one, other)
        #expect(try await harness.stateCounts() == ["scheduled": rows - ended, "rejected": ended])
        await harness.close()
    }

    @Test func haltedBatch_whoseProbeIsRefusedOtherwise_saysSoAndStaysHalted() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...40)
        harness.store.setAnswers([], nil, all: .refused(.suspect, code: 4_000_999))
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)

        harness.store.setAnswers([], nil, all: .refused(.reject, code: 4_030_010))
        try await harness.pass(minutes: 2, scheduler)

        #expect(try await harness.halts() == ["4000999", "-"])
        #expect(try await harness.stateCounts() == ["queued": 40])
        let last = harness.store.calls.last?.transactionID ?? "-"
        #expect(
            try await harness.texts("SELECT probe_answer AS text FROM repricer.batches")
                == ["4030010 code_4030010 for \(last)"])
        await harness.close()
    }

    /// A probe is a call that changes something. What halted it stays told.
    @Test func haltedBatch_thatAPersonPauses_asksNoMore_andKeepsWhatHaltedIt() async throws {
        let harness = try await Harness.make()
        let batchID = try await harness.submitRows(1...40)
        harness.store.setAnswers([], nil, all: .refused(.suspect, code: 4_000_999))
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        let reason = "SELECT paused_reason AS text FROM repricer.batches"
        let halted = try await harness.texts(reason)

        try await harness.setPause(batchID, true)
        let calls = harness.store.calls.count
        harness.store.setAnswers([], nil, all: .applied)
        try await harness.pass(minutes: 5, scheduler)

        #expect(harness.store.calls.count == calls)
        #expect(try await harness.halts() == ["4000999", "-"])
        #expect(try await harness.texts(reason) == halted)
        #expect(halted.first?.isEmpty == false)

        try await harness.setPause(batchID, false)
        try await harness.pass(minutes: 90, scheduler)
        #expect(try await harness.stateCounts() == ["scheduled": 40])
        await harness.close()
    }

    @Test func haltedService_whoseProbeIsRefusedOtherwise_saysSoAndStaysHalted() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...20)
        _ = try await harness.submitRows(21...40)
        harness.store.setAnswers([], nil, all: .refused(.haltService, code: 4_010_000))
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)

        harness.store.setAnswers([], nil, all: .refused(.reject, code: 4_030_010))
        try await harness.pass(minutes: 3, scheduler)

        #expect(try await harness.stateCounts() == ["queued": 40])
        let last = harness.store.calls.last?.transactionID ?? "-"
        #expect(
            try await harness.texts(
                "SELECT halted_answer AS text FROM repricer.service_controls")
                == ["4030010 code_4030010 for \(last)"])
        await harness.close()
    }

    // MARK: No answer for anybody

    /// What one process has found stands in the database: a status can say it, and another process calls no more often.
    @Test func noAnswersForAnybody_isWrittenDown_andKeptByAnotherProcess() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...60)
        harness.store.setAnswers([], nil, all: .unavailable)
        try await harness.deliver(harness.scheduler())
        func throttled() async throws -> [ServiceControlQueries.KindThrottle] {
            try await harness.service.read { try ServiceControlQueries.everything(on: $0) }
                .throttledKinds
        }
        let first = try #require(try await throttled().first)
        let before = harness.store.calls.count
        #expect(before < 40)
        #expect(first.kind == "price_change" && first.answer == "500")
        #expect(first.since == Harness.start.milliseconds && first.until > first.since)

        let other = harness.scheduler()
        harness.clock.advance(by: .seconds(61))
        harness.realClock.advance(by: .seconds(61))
        try await harness.deliver(other)
        let second = try #require(try await throttled().first)
        #expect(harness.store.calls.count == before + 1)
        #expect(second.since == first.since && second.until > first.until)

        harness.store.setAnswers([], nil)
        try await harness.pass(minutes: 10, other)
        #expect(try await throttled().isEmpty)
        #expect(try await harness.stateCounts() == ["scheduled": 60])
        await harness.close()
    }

    /// Where no call can leave, none becomes unknown, and nothing is throttled. Once it lasts it stands in the
    /// database, told once a minute, until a call is answered.
    @Test func callsThatCannotLeave_areWrittenDown_untilOneIsAnswered() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...12)
        harness.store.setAnswers([], nil, all: .notSent)
        let scheduler = harness.scheduler()
        func controls() async throws -> ServiceControlQueries.Everything {
            try await harness.service.read { try ServiceControlQueries.everything(on: $0) }
        }
        func tryAfter(_ seconds: Int64) async throws
            -> [ServiceControlQueries.KindUnreached]
        {
            harness.clock.advance(by: .seconds(seconds))
            harness.realClock.advance(by: .seconds(seconds))
            _ = try await scheduler.round()
            return try await controls().unreachedKinds
        }

        var seen: [[ServiceControlQueries.KindUnreached]] = []
        for seconds in [0, 4, 4, 10, 61] as [Int64] { seen.append(try await tryAfter(seconds)) }

        #expect(seen.prefix(2).flatMap { $0 }.isEmpty)
        let first = try #require(seen[2].first)
        #expect(first.kind == "price_change" && first.answer == "connection refused")
        #expect(first.since == Harness.start.advanced(by: 8000).milliseconds)
        #expect(first.tried == first.since)
        #expect(seen[3] == [first])
        #expect(seen[4].first.map { [$0.since, $0.tried] } == [first.since, first.since + 71_000])
        #expect(try await controls().throttledKinds.isEmpty)
        #expect(try await harness.stateCounts() == ["queued": 12])

        harness.store.setAnswers([], nil)
        try await harness.pass(minutes: 2, scheduler)
        #expect(try await controls().unreachedKinds.isEmpty)
        #expect(try await harness.stateCounts() == ["scheduled": 12])
        await harness.close()
    }

    // MARK: No answer for one subscription

    @Test func oneSubscriptionWithoutAnswers_isAskedLaterAndLater_andNamed() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...12)
        harness.store.setAnswers(["1"], .unavailable)
        let scheduler = harness.scheduler()

        for _ in 0..<900 {
            try await harness.deliver(scheduler)
            harness.clock.advance(by: .seconds(1))
            harness.realClock.advance(by: .seconds(1))
        }

        let calls = harness.store.calls.filter { $0.transactionID == "1" }
        #expect((5...14).contains(calls.count))
        #expect(Set(calls.map(\.requestReferenceID)).count == 1)
        #expect(try await harness.stateCounts() == ["unknown": 1, "scheduled": 11])
        #expect(
            try await harness.texts(
                """
                SELECT original_transaction_id || ' ' || parked_reason AS text FROM repricer.price_changes
                WHERE stage = 'unknown' AND parked_reason IS NOT NULL
                """) == ["1 no answer: 500"])

        harness.store.setAnswers(["1"], nil)
        try await harness.pass(minutes: 16, scheduler)
        #expect(try await harness.stateCounts() == ["scheduled": 12])
        #expect(harness.store.applied.count == 12)
        await harness.close()
    }

    /// The wait would go past the last instant for its renewal: it is tried once more before that.
    @Test func waitOfOneWithoutAnswers_endsBeforeItsDeadline() async throws {
        let harness = try await Harness.make()
        _ = try await harness.submitRows(1...12)
        harness.store.setAnswers(["1"], .unavailable)
        let deadline = Harness.start.advanced(by: 400_000)
        let scheduler = harness.scheduler()
        // A claim writes the deadline that its judgement gives, so another one is set afterwards.
        try await harness.deliver(scheduler)
        let owner = try await TestDatabase.connect()
        try await owner.script(
            "UPDATE repricer.price_changes SET send_by = '\(deadline.text)' WHERE original_transaction_id = '1'"
        )
        await owner.close()

        var last = Harness.start
        for _ in 0..<420 {
            let before = harness.store.calls.count { $0.transactionID == "1" }
            try await harness.deliver(scheduler)
            if harness.store.calls.count(where: { $0.transactionID == "1" }) > before {
                last = harness.now
            }
            harness.clock.advance(by: .seconds(1))
            harness.realClock.advance(by: .seconds(1))
        }

        #expect(last <= deadline)
        #expect(last > deadline.advanced(by: -60_000))
        await harness.close()
    }
}

import Batches
import Postgres
import PriceChanges
import ServiceKit
import TestSupport
import Testing

@testable import Pricing

/// What ended by a refusal before it turned out to be everybody's goes again, whatever the code and the kind of call.
@Suite(.database) struct PutBackTests {
    private typealias Harness = DeliveryHarness

    private static func pass(
        _ seconds: Int64, times: Int = 1, _ harness: Harness, _ scheduler: Scheduler
    ) async throws {
        for _ in 0..<times {
            harness.clock.advance(by: .seconds(seconds))
            harness.realClock.advance(by: .seconds(seconds))
            try await harness.deliver(scheduler)
            try await harness.watch().round()
        }
    }

    @Test(arguments: [4_030_010, 4_000_121, 4_030_015])
    func rowsThatEnded_beforeTheirBatchHalted_goAgain(code: Int) async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...60)
        harness.store.setAnswers([], nil, all: .refused(.reject, code: code))
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        let ended = try await harness.stateCounts()["rejected"] ?? 0
        try await harness.watch().round()

        #expect((1..<50).contains(ended))
        #expect(try await harness.stateCounts() == ["queued": 60])
        #expect(
            try await harness.texts(
                "SELECT DISTINCT reason AS text FROM repricer.price_change_history WHERE evidence_id LIKE 'halt %'"
            ) == ["put back, others were refused alike: \(code) code_\(code)"])
        #expect(
            try await harness.texts(
                """
                SELECT count(*)::text AS text FROM repricer.price_changes c
                WHERE c.refused_at IS NOT NULL AND c.sent_at IS NULL AND EXISTS (
                    SELECT FROM repricer.price_change_history h
                    WHERE h.change_id = c.change_id AND h.evidence_id LIKE 'halt %')
                """) == ["\(ended)"], "charges since then are looked at")
        harness.store.setAnswers([], nil)
        try await Self.pass(61, times: 15, harness, scheduler)
        #expect(try await harness.stateCounts() == ["scheduled": 60])
        #expect(try await harness.count("put_backs") == 0)
        await harness.close()
    }

    /// A guard may halt the batch before the code does that all meet. Only a person resumes it then; what the code ended
    /// goes again all the same.
    @Test func rowsThatEnded_whereAGuardHaltedFirst_goAgain() async throws {
        let harness = try await Harness.make()
        let batchID = try await harness.submitRows(1...60)
        let service = try await harness.service.withConnection { connection in
            try await connection.query(
                """
                SELECT repricer.halt_batch(\(uuid: batchID), now(), 'errors>5%/50', 'guard', NULL, NULL) AS guard,
                    repricer.halt_batch(\(uuid: batchID), now(), '4030010', 'alike', NULL, now(), now()) AS code,
                    repricer.halt_batch(\(uuid: batchID), now(), '4030010', 'alike', NULL, now(), now()) AS again
                """
            ).one()
        }

        #expect(try service.bool("guard"))
        #expect(try !service.bool("code"))
        #expect(
            try await harness.texts("SELECT code AS text FROM repricer.put_backs") == ["4030010"])
        await harness.close()
    }

    /// A person may pause the batch before the code halts it. What the code ended goes again once it is resumed.
    @Test func rowsThatEnded_whereAPersonPausedFirst_goAgain() async throws {
        let harness = try await Harness.make()
        let batchID = try await harness.submitRows(1...60)
        let owner = try await TestDatabase.connect()
        _ = try await owner.execute(
            "UPDATE repricer.batches SET is_paused = true, paused_by = 'ana', paused_at = now(), paused_reason = 'why'"
        )
        await owner.close()

        let isHalted = try await harness.service.withConnection { connection in
            try await connection.query(
                """
                SELECT repricer.halt_batch(\(uuid: batchID), now(), '4030010', 'alike', NULL, now(), now()) AS code
                """
            ).one().bool("code")
        }

        #expect(!isHalted)
        #expect(
            try await harness.texts("SELECT code AS text FROM repricer.put_backs") == ["4030010"])
        #expect(
            try await harness.texts("SELECT coalesce(halted_by, '-') AS text FROM repricer.batches")
                == ["-"])
        await harness.close()
    }

    /// Their first attempt was lost, so checks come before the refusal of the second counts, and end only once the halt is
    /// over. They were among those by whose refusals it halted.
    @Test func rowsRefusedOnARetry_thatEndAfterTheHaltIsOver_goAgain() async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...30)
        let scheduler = harness.scheduler()
        harness.store.setAnswers(["1", "2", "3"], nil, all: .unavailable)
        _ = try await scheduler.round()
        let lost = try await harness.stateCounts()["unknown"] ?? 0
        harness.store.setAnswers([], nil, all: .refused(.reject, code: 4_030_010))
        try await Self.pass(2, times: 3, harness, scheduler)
        let halts = try await harness.count("put_backs")
        harness.store.setAnswers([], nil)

        try await Self.pass(61, times: 1, harness, scheduler)
        let unsettled = try await harness.stateCounts()["unknown"] ?? 0
        try await Self.pass(61, times: 15, harness, scheduler)

        #expect(lost > 0 && halts == 1 && unsettled > 0)
        #expect(try await harness.stateCounts() == ["scheduled": 30])
        #expect(try await harness.count("put_backs") == 0)
        await harness.close()
    }

    /// They are read before they are believed, and so end when their batch has halted.
    @Test func rowsThatEnd_afterTheirBatchHalted_goAgain() async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...40)
        harness.store.setAnswers([], nil, all: .refused(.checkStatus, code: 4_000_205))
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        try await Self.pass(6, times: 30, harness, scheduler)

        #expect(try await harness.stateCounts()["rejected"] == nil)
        harness.store.setAnswers([], nil)
        try await Self.pass(61, times: 20, harness, scheduler)
        #expect(try await harness.stateCounts() == ["scheduled": 40])
        await harness.close()
    }

    /// Their answers were lost, so "done already" is what the calls before have done. A status shows it.
    @Test(arguments: [4_000_097, 4_000_205])
    func rowsWhoseAnswersWereLost_andThatAreDoneWhenSentAgain_haltNothing(code: Int) async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...30)
        harness.store.setAnswers([], nil, all: .lost)
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        for _ in 0..<12 { try await Self.pass(20, harness, scheduler) }
        let lost = try await harness.texts(
            "SELECT original_transaction_id AS text FROM repricer.price_changes WHERE state = 'unknown'"
        )

        harness.store.setAnswers(
            Set(lost), .refused(.checkStatus, code: code), all: .unavailable)
        for _ in 0..<3 { try await Self.pass(20, harness, scheduler) }
        harness.store.setAnswers([], nil)
        try await Self.pass(61, times: 30, harness, scheduler)

        #expect(lost.count > 10)
        #expect(
            try await harness.texts(
                "SELECT details ->> 'reason' AS text FROM repricer.audit_trail WHERE action = 'halt'"
            ).isEmpty)
        #expect(try await harness.stateCounts() == ["scheduled": 30])
        await harness.close()
    }

    @Test func rowsOfSeveralBatches_goAgain_whereEverythingHalted() async throws {
        let harness = try await Harness.make()
        for first in [1, 21, 41] { try await harness.submitRows(first...(first + 19)) }
        harness.store.setAnswers([], nil, all: .refused(.reject, code: 4_030_010))
        let scheduler = harness.scheduler()

        try await harness.deliver(scheduler)
        try await harness.watch().round()

        #expect(harness.store.calls.count < 60)
        #expect(try await harness.stateCounts() == ["queued": 60])
        harness.store.setAnswers([], nil)
        try await Self.pass(61, times: 20, harness, scheduler)
        #expect(try await harness.stateCounts() == ["scheduled": 60])
        await harness.close()
    }

    /// A process that dies remembers nothing; the one after it meets the same.
    @Test func rowsThatEnded_byAProcessThatDied_goAgain() async throws {
        let harness = try await Harness.make()
        for number in 0..<3 { try await harness.submitRows((number * 9 + 1)...(number * 9 + 9)) }
        try await harness.submitRows(28...60)
        harness.store.setAnswers([], nil, all: .refused(.reject, code: 4_030_010))

        for _ in 0..<2 { _ = try await harness.scheduler().round() }
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        try await Self.pass(61, harness, scheduler)

        #expect(try await harness.stateCounts()["rejected"] == nil)
        await harness.close()
    }

    /// A customer refused while others succeeded, an hour before: that was about the customer.
    @Test func rowThatEndedByItself_staysAsItEnded() async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...12)
        harness.store.setAnswers(["5"], .refused(.reject, code: 4_030_010))
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        try await Self.pass(3600, harness, scheduler)
        try await harness.submitRows(13...40)
        harness.store.setAnswers([], nil, all: .refused(.reject, code: 4_030_010))

        try await harness.deliver(scheduler)
        try await Self.pass(1, times: 3, harness, scheduler)

        #expect(
            try await harness.stateCounts() == ["rejected": 1, "scheduled": 11, "queued": 28])
        await harness.close()
    }

    /// Its item has a new change by now: the earlier one would stand in its way.
    @Test func rowWhoseItemHasAnotherChange_staysAsItEnded() async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...30)
        harness.store.setAnswers([], nil, all: .refused(.reject, code: 4_030_010))
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        let ended = try await harness.texts(
            "SELECT original_transaction_id AS text FROM repricer.price_changes WHERE state = 'rejected'"
        )
        let id = try #require(ended.first)
        try await harness.submit([Harness.row(id, to: 11990)], content: "again")

        try await harness.watch().round()

        #expect(
            try await harness.texts(
                "SELECT original_transaction_id AS text FROM repricer.price_changes WHERE state = 'rejected'"
            ) == [id])
        await harness.close()
    }

    /// A batch of which every row is refused rightly never ends by itself: it says what ends it, and an abort does.
    @Test func batchRefusedRightly_saysSo_andEndsWithAnAbort() async throws {
        let harness = try await Harness.make()
        let batchID = try await harness.submitRows(1...30)
        // Two had no answer before they were refused, and one was applied by such a call.
        harness.store.setAnswers(["1", "2"], .unavailable)
        harness.store.setAnswers(["3"], .lost, all: .notSent)
        let scheduler = harness.scheduler()
        try await harness.deliver(scheduler)
        harness.store.setAnswers(
            ["1", "2", "3"], .refused(.reject, code: 4_000_023),
            all: .refused(.reject, code: 4_000_023))
        try await Self.pass(61, times: 5, harness, scheduler)
        let halted = try await harness.texts(
            "SELECT paused_reason AS text FROM repricer.batches")
        let called = harness.store.calls.count
        let before = try await harness.stateCounts()

        try await harness.abort(batchID)
        try await Self.pass(61, times: 12, harness, scheduler)

        let counted = halted[0].firstMatch(
            of:
                /([0-9]+) subscriptions in a row were refused with 4000023 code_4000023 \("no"\), the last/
        )
        // Ten halt it; others of the same claim may be refused before it is written down.
        #expect((10...called).contains(counted.flatMap { Int($0.1) } ?? 0), "\(halted)")
        #expect(before["rejected"] == nil)
        #expect(harness.store.calls.count == called)
        let after = try await harness.stateCounts()
        #expect(after == ["aborted": 29, "scheduled": 1], "\(before) then \(after)")
        #expect(try await harness.count("put_backs") == 0)
        await harness.close()
    }

    // MARK: Other kinds

    @Test func extensionsThatEnded_beforeTheirKindHalted_goAgain() async throws {
        let harness = try await ExtensionHarness.make(
            Array(repeating: .refused(4_030_005), count: 40))
        for number in 1...30 {
            try await harness.subscribe("\(number)")
            try await harness.requestOne("\(number)", number)
        }
        let extender = harness.extender()
        for _ in 0..<5 { try await harness.work(extender) }
        let ended = try await harness.callStates().count { $0.hasPrefix("refused") }
        try await harness.delivery.watch().round()

        #expect((1..<15).contains(ended))
        #expect(try await harness.callStates() == Array(repeating: "queued", count: 30))
        for _ in 0..<90 {
            harness.pass(.seconds(61))
            try await harness.work(extender)
            try await harness.delivery.watch().round()
        }
        #expect(try await harness.callStates() == Array(repeating: "extended by answer", count: 30))
        await harness.delivery.close()
    }

    /// One a product. The first one had no answer a long time before it was refused: it ended by that all the same.
    @Test func massExtensionsThatEnded_beforeTheirKindHalted_goAgain() async throws {
        let harness = try await ExtensionHarness.make(
            [.unavailable] + Array(repeating: .refused(4_030_005), count: 20))
        let extender = harness.extender()
        let numbers = 11...24
        try await harness.requestAll(11, of: "product11")
        _ = try await extender.round()
        harness.pass(.seconds(300))
        for number in numbers.dropFirst() {
            try await harness.requestAll(number, of: "product\(number)")
        }

        var ended = 0
        for _ in 0..<40 {
            harness.pass(.seconds(1))
            try await harness.work(extender)
            let refused = try await harness.massStates().count { $0 == "refused" }
            ended = max(ended, refused)
        }
        try await harness.delivery.watch().round()

        #expect((1..<numbers.count).contains(ended))
        #expect(try await harness.massStates().allSatisfy { $0 != "refused" })
        for _ in 0..<90 {
            harness.pass(.seconds(61))
            try await harness.work(extender)
            try await harness.delivery.watch().round()
        }
        #expect(
            try await harness.massStates() == Array(repeating: "running", count: numbers.count))
        #expect(harness.calls.taken.values.allSatisfy { $0 == 1 })
        await harness.delivery.close()
    }

    /// A newer one of its product is open: it stays as it ended.
    @Test func massExtensionThatWasAskedForAgain_staysAsItEnded() async throws {
        let harness = try await ExtensionHarness.make(
            Array(repeating: .refused(4_030_005), count: 20))
        let extender = harness.extender()
        for number in 11...24 { try await harness.requestAll(number, of: "product\(number)") }
        for _ in 0..<15 {
            harness.pass(.seconds(1))
            try await harness.work(extender)
        }
        let states = try await harness.massStates()
        let number = 11 + (try #require(states.firstIndex(of: "refused")))
        try await harness.requestAll(99, of: "product\(number)", isApproved: false)

        try await harness.delivery.watch().round()

        #expect(try await harness.massStates().count { $0 == "refused" } == 1)
        await harness.delivery.close()
    }

    @Test func cancelsThatEnded_beforeTheirKindHalted_goAgain() async throws {
        let harness = try await Harness.make()
        let targets = (2...31).map(String.init)
        try await harness.subscribe("1", items: ["A", "B"])
        for id in targets { try await harness.subscribe(id, items: ["FAR\(id)"]) }
        try await harness.raise(dependents: targets.map { "\($0)/FAR\($0)" })
        harness.run(to: 13)
        try await harness.tellIncrease("PENDING", on: 13)
        harness.run(to: 40)
        try await harness.tellRenewal(items: ["B"])
        harness.run(to: 41)
        let store = harness.cancellingStore(
            Array(repeating: .refused(.reject, code: 4_030_010), count: 25),
            items: Dictionary(
                uniqueKeysWithValues: [("1", ["B"])] + targets.map { ($0, ["FAR\($0)"]) }))
        let canceller = harness.canceller(store)

        for _ in 0..<100 {
            try await harness.run(canceller)
            try await harness.watch().round()
            harness.clock.advance(by: .seconds(61))
            harness.realClock.advance(by: .seconds(61))
        }

        #expect(try await harness.dependents().allSatisfy { $0.hasSuffix("confirmed") })
        await harness.close()
    }
}

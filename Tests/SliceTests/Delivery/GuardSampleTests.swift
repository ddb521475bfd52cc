import Batches
import Calls
import Facts
import PriceChanges
import ServiceKit
import Synchronization
import TestSupport
import Testing

@testable import Pricing

/// A guard that waits for fifty answers stops its batch close to fifty, whatever the rate and however many replicas claim;
/// one that has seen them, and was content, costs nothing.
@Suite(.database) struct GuardSampleTests {
    private typealias Harness = DeliveryHarness

    private static let rejected = ScriptedStore.Reply.refused(.reject, code: 4_030_010)

    private static func approved(
        _ count: Int, guards: [GuardRail] = GuardRail.byDefault
    ) async throws -> (Harness, String) {
        let harness = try await Harness.make()
        var rows: [BatchRow] = []
        for number in 1...count {
            try await harness.subscribe("\(number)")
            rows.append(Harness.row("\(number)", line: number + 1))
        }
        let batchID = try await harness.submitAndApprove(
            rows, terms: BatchTerms(guards: guards))
        return (harness, batchID)
    }

    private static func ids(_ count: Int, every step: Int) -> [String] {
        stride(from: 1, through: count, by: step).map { "\($0)" }
    }

    private static func batch(_ harness: Harness) async throws -> (halted: String?, sampled: Bool) {
        try await harness.service.withConnection { connection in
            let row = try await connection.query(
                "SELECT halted_by, is_sampled FROM repricer.batches"
            ).one()
            return (try row.textOrNil("halted_by"), try row.bool("is_sampled"))
        }
    }

    /// A quarter is refused, among successes: no two alike in a row say anything of all.
    @Test func refusalsAmongSuccesses_haltCloseToTheSample_overReplicas() async throws {
        let (harness, _) = try await Self.approved(100)
        harness.store.setAnswers(Self.ids(100, every: 4), Self.rejected)
        let replicas = (0..<3).map { _ in harness.scheduler(perSecond: nil) }

        await withTaskGroup(of: Void.self) { group in
            for (place, replica) in replicas.enumerated() {
                group.addTask {
                    do {
                        for _ in 0..<10 { _ = try await replica.round(place: place * 20) }
                    } catch {
                        Issue.record(error)
                    }
                }
            }
        }

        #expect(harness.store.calls.count >= 50)
        #expect(harness.store.calls.count <= 55)
        // Where the last answers of the sample are no refusals, the watch judges it a few seconds later.
        try await harness.watch().round()
        #expect(try await Self.batch(harness).halted == "errors")
        await harness.close()
    }

    @Test func healthyBatch_isCountedUntilItsSampleIsFull_andThenNoMore() async throws {
        let (harness, _) = try await Self.approved(90)
        let gate = GatedStore(harness.store)
        let (first, second) = (
            harness.scheduler(calls: gate, perSecond: nil),
            harness.scheduler(calls: gate, perSecond: nil)
        )

        async let served = first.round()
        await gate.isReached(55)
        _ = try await second.round(place: 32)
        #expect(gate.waiting == 55)
        #expect(try await !Self.batch(harness).sampled)
        gate.open()
        _ = try await served
        try await harness.deliver(second)

        #expect(harness.store.calls.count == 90)
        #expect(try await Self.batch(harness).sampled)
        await harness.close()
    }

    /// What is refused later is judged with the answers that bring it, not at the next look.
    @Test func refusalsAfterTheSample_haltAtOnce() async throws {
        let (harness, _) = try await Self.approved(130)
        let scheduler = harness.scheduler()
        for _ in 0..<4 {
            _ = try await scheduler.round()
            harness.clock.advance(by: .seconds(1))
        }
        let healthy = harness.store.calls.count
        #expect(try await Self.batch(harness).sampled)
        harness.store.setAnswers(Self.ids(130, every: 2), Self.rejected)

        for _ in 0..<15 {
            harness.clock.advance(by: .seconds(1))
            _ = try await scheduler.round()
        }

        // One claim of 25 was out when it came about.
        #expect(harness.store.calls.count <= healthy + 25)
        #expect(try await Self.batch(harness).halted == "errors")
        await harness.close()
    }

    @Test func batchThatAPersonResumed_isCountedAnew() async throws {
        let (harness, batchID) = try await Self.approved(130)
        harness.store.setAnswers(Self.ids(130, every: 4), Self.rejected)
        let scheduler = harness.scheduler(perSecond: nil)
        try await harness.deliver(scheduler)
        let first = harness.store.calls.count
        harness.clock.advance(by: .seconds(1))
        try await harness.setPause(batchID, false)

        try await harness.deliver(scheduler)
        // Where the last answers to be stored are no refusals, the watch of batches judges the sample.
        try await harness.watch().round()

        #expect(harness.store.calls.count <= first + 55)
        #expect(try await Self.batch(harness).halted == "errors")
        await harness.close()
    }

    /// Nobody waits for an answer that does not come.
    @Test func callsWithoutAnAnswer_keepNoOtherFromGoing() async throws {
        let (harness, _) = try await Self.approved(70)
        harness.store.setAnswers((1...6).map { "\($0)" }, .lost)

        try await harness.deliver(harness.scheduler(perSecond: nil))

        #expect(Set(harness.store.calls.map(\.transactionID)).count == 70)
        await harness.close()
    }

    /// Fewer rows than the guard waits for are no measure, and none of them waits.
    @Test(arguments: [[GuardRail(figure: .declined, over: 500)], []])
    func batchWithoutAGuardOfErrors_isNotCounted(guards: [GuardRail]) async throws {
        let (harness, _) = try await Self.approved(60, guards: guards)

        _ = try await harness.scheduler(perSecond: nil).round()

        #expect(harness.store.calls.count == 60)
        await harness.close()
    }

    /// Eight batches of thirty rows, none of which a guard of fifty answers could judge. Three fifths of all are refused.
    @Test func smallBatches_areJudgedTogether() async throws {
        let harness = try await Harness.make()
        for first in stride(from: 1, through: 211, by: 30) {
            try await harness.submitRows(first...(first + 29), guards: GuardRail.byDefault)
        }
        harness.store.setAnswers((1...240).filter { $0 % 5 < 3 }.map { "\($0)" }, Self.rejected)
        let scheduler = harness.scheduler()
        for _ in 0..<40 {
            _ = try await scheduler.round()
            harness.clock.advance(by: .seconds(1))
        }
        try await harness.watch().round()

        let ended = try await harness.stateCounts()["rejected", default: 0]
        #expect(ended > 25)
        #expect(ended <= 50)
        let halted = try await harness.texts(
            "SELECT paused_reason AS text FROM repricer.batches WHERE halted_by = 'errors'")
        #expect(halted.count == 8)
        #expect(halted.allSatisfy { $0.contains(" batches with fewer rows each") })
        await harness.close()
    }

    /// Twelve batches of forty rows. Each seventh call succeeds, so no refusals in a row tell of it, and yet the others say
    /// nothing of their customers.
    @Test func smallBatches_refusedAlikeButForAFew_goBack() async throws {
        let harness = try await Harness.make()
        for first in stride(from: 1, through: 441, by: 40) {
            try await harness.submitRows(first...(first + 39), guards: GuardRail.byDefault)
        }
        harness.store.setAnswers((1...480).filter { $0 % 7 != 0 }.map { "\($0)" }, Self.rejected)

        let most = try await Self.mostRejected(harness, harness.scheduler())

        #expect((10...50).contains(most))
        #expect(try await harness.stateCounts()["rejected"] == nil)
        let halted = try await harness.texts(
            "SELECT paused_reason AS text FROM repricer.batches WHERE is_paused")
        #expect(halted.contains { $0.contains("nearly all with 4030010") }, "\(halted)")
        #expect(Set(try await Self.putBack(harness)).count >= 10)
        await harness.close()
    }

    /// Twelve batches of four to fifteen rows, one of which is through before the others. What is refused once more, after
    /// a person has let all go on and others have succeeded, is refused for good.
    @Test func rowsThatAGuardPutBack_areBelievedWhenRefusedAgain() async throws {
        let harness = try await Harness.make()
        let guards = [GuardRail(figure: .errors, over: 500, least: 20)]
        try await harness.submitRows(1...4, guards: guards)
        for first in stride(from: 5, through: 155, by: 15) {
            try await harness.submitRows(first...(first + 14), guards: guards)
        }
        let all = (1...169).map { "\($0)" }
        harness.store.setAnswers(all.filter { !$0.hasSuffix("7") }, Self.rejected)
        // As few are out when the twentieth is answered that their second refusals are few, too.
        let scheduler = harness.scheduler(perClaim: 3)
        _ = try await Self.mostRejected(harness, scheduler)
        let first = Set(try await Self.putBack(harness))
        #expect((10...30).contains(first.count))

        harness.store.setAnswers(all, nil)
        harness.store.setAnswers(first, Self.rejected)
        for _ in 0..<8 {
            try await Self.resumeAll(harness)
            harness.clock.advance(by: .seconds(200))
            harness.realClock.advance(by: .seconds(200))
            try await harness.deliver(scheduler)
            try await harness.watch().round()
        }

        let rejected = try await harness.texts(
            "SELECT original_transaction_id AS text FROM repricer.price_changes WHERE state = 'rejected'"
        )
        #expect(Set(rejected) == first)
        #expect(try await harness.stateCounts()["scheduled"] == 169 - first.count)
        #expect(try await Self.putBack(harness).count == first.count)
        await harness.close()
    }

    /// The most rows that stood rejected at any moment.
    private static func mostRejected(
        _ harness: Harness, _ scheduler: Scheduler
    ) async throws -> Int {
        var most = 0
        for _ in 0..<60 {
            _ = try await scheduler.round()
            most = max(most, try await harness.stateCounts()["rejected", default: 0])
            harness.clock.advance(by: .seconds(1))
        }
        try await harness.watch().round()
        return most
    }

    private static func putBack(_ harness: Harness) async throws -> [String] {
        try await harness.texts(
            """
            SELECT original_transaction_id AS text FROM repricer.price_change_history
            WHERE reason LIKE 'put back, others were refused alike: 4030010 %'
            """)
    }

    private static func resumeAll(_ harness: Harness) async throws {
        for id in try await harness.texts("SELECT batch_id::text AS text FROM repricer.batches") {
            try await harness.setPause(id, false)
        }
    }

    /// Of what ended, only the code goes back that nearly everybody met, also in a batch that a person has paused.
    @Test func otherCodes_stayAsTheyEnded_andAPausedBatchGetsItsRowsBack() async throws {
        let harness = try await Harness.make()
        let ids = [
            try await harness.submitRows(1...3, guards: GuardRail.byDefault),
            try await harness.submitRows(4...6, guards: GuardRail.byDefault),
        ]
        harness.store.setAnswers(["1", "2", "4", "5"], Self.rejected)
        harness.store.setAnswers(["3"], .refused(.reject, code: 4_030_015))
        try await harness.deliver(harness.scheduler())
        try await harness.setPause(ids[1], true)

        for id in ids {
            _ = try await harness.service.withTransaction {
                try GuardQueries.halt(
                    id, by: "errors", reason: "guard", details: nil,
                    at: harness.now.milliseconds, since: 1, code: "4030010", on: $0)
            }
        }
        try await harness.watch().round()

        #expect(
            try await harness.texts(
                """
                SELECT original_transaction_id || ' ' || state AS text FROM repricer.price_changes
                ORDER BY 1
                """) == [
                    "1 queued", "2 queued", "3 rejected", "4 queued", "5 queued", "6 scheduled",
                ]
        )
        await harness.close()
    }

    /// Odd rows of two small batches, of at least fifty answers, are not what everybody meets.
    @Test func smallBatchesWithAnOddRow_goOn() async throws {
        let harness = try await Harness.make()
        for first in stride(from: 1, through: 101, by: 25) {
            try await harness.submitRows(first...(first + 24), guards: GuardRail.byDefault)
        }
        harness.store.setAnswers(["3", "30"], Self.rejected)

        try await harness.deliver(harness.scheduler(perSecond: nil))
        try await harness.watch().round()

        #expect(try await harness.stateCounts()["rejected"] == 2)
        #expect(harness.store.calls.count == 125)
        await harness.close()
    }

    /// Sixty batches of one row each: no guard has anything to hold back, and yet all fare alike.
    @Test func batchesOfOneRow_refusedAlike_haltTheService() async throws {
        let harness = try await Harness.make()
        for number in 1...60 {
            try await harness.submitRows(number...number, guards: GuardRail.byDefault)
        }
        harness.store.setAnswers((1...60).map { "\($0)" }, Self.rejected)
        let scheduler = harness.scheduler()

        for _ in 0..<20 {
            _ = try await scheduler.round()
            harness.clock.advance(by: .seconds(1))
        }

        #expect(try await harness.stateCounts()["rejected", default: 0] <= 50)
        #expect(harness.store.calls.count <= 50)
        #expect(try await harness.stateCounts()["queued", default: 0] >= 10)
        await harness.close()
    }

    /// A batch of one row that was refused has nothing to hold back, however badly the other small ones fare.
    @Test func smallBatchWithNothingLeftToSend_isNotHalted() async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...40, guards: GuardRail.byDefault)
        try await harness.submitRows(41...80, guards: GuardRail.byDefault)
        harness.store.setAnswers((1...81).filter { $0 % 2 == 1 }.map { "\($0)" }, Self.rejected)
        // So few are out at once that refusals and successes alternate whatever the machine does: many refusals in a row would
        // be taken for one of everything.
        let scheduler = harness.scheduler(perClaim: 2)
        for _ in 0..<40 {
            _ = try await scheduler.round()
            harness.clock.advance(by: .seconds(1))
        }
        let last = try await harness.submitRows(81...81, guards: GuardRail.byDefault)
        for _ in 0..<5 {
            _ = try await scheduler.round()
            harness.clock.advance(by: .seconds(1))
        }
        try await harness.watch().round()

        let batches = try await harness.texts(
            """
            SELECT coalesce(halted_by, 'goes on') AS text FROM repricer.batches
            ORDER BY batch_id = '\(last)', submitted_at, batch_id
            """)
        let everything = try await harness.texts(
            "SELECT coalesce(halted_reason, '-') AS text FROM repricer.service_controls")
        #expect(batches == ["errors", "errors", "goes on"], "everything: \(everything)")
        #expect(
            try await harness.texts(
                "SELECT state AS text FROM repricer.price_changes WHERE batch_id = '\(last)'")
                == ["rejected"])
        await harness.close()
    }

    /// Whom a person has let go on has a sample of its own before it is halted again.
    @Test func smallBatchThatAPersonResumed_isCountedAnew() async throws {
        let harness = try await Harness.make()
        let first = try await harness.submitRows(1...40, guards: GuardRail.byDefault)
        try await harness.submitRows(41...80, guards: GuardRail.byDefault)
        harness.store.setAnswers((1...80).filter { $0 % 2 == 0 }.map { "\($0)" }, Self.rejected)
        let scheduler = harness.scheduler()
        for _ in 0..<20 {
            _ = try await scheduler.round()
            harness.clock.advance(by: .seconds(1))
        }
        try await harness.watch().round()
        let before = harness.store.calls.count
        #expect(before < 80)
        try await harness.setPause(first, false)

        for _ in 0..<20 {
            _ = try await scheduler.round()
            harness.clock.advance(by: .seconds(1))
        }

        let left = try await harness.texts(
            "SELECT state AS text FROM repricer.price_changes WHERE batch_id = '\(first)' AND state = 'queued'"
        )
        #expect(left.isEmpty)
        #expect(harness.store.calls.count > before)
        await harness.close()
    }

    /// Only the batch that is counted waits.
    @Test func anotherBatch_goesOnMeanwhile() async throws {
        let (harness, _) = try await Self.approved(70)
        for number in 101...120 { try await harness.subscribe("\(number)") }
        let other = try await harness.submit(
            (101...120).map { Harness.row("\($0)", line: $0) }, content: "other")
        try await harness.approve(other)
        let gate = GatedStore(harness.store)
        let scheduler = harness.scheduler(calls: gate, perSecond: nil)

        async let served = scheduler.round()

        await gate.isReached(75)
        gate.open()
        _ = try await served
        await harness.close()
    }
}

/// Answers nothing until it is opened.
private final class GatedStore: StoreCalls {
    private let inner: ScriptedStore
    private let state = Mutex((isOpen: false, waiting: [CheckedContinuation<Void, Never>]()))

    init(_ inner: ScriptedStore) { self.inner = inner }

    var waiting: Int { state.withLock { $0.waiting.count } }

    /// Waits until so many calls are out; opens where they never are, so that nobody waits on.
    func isReached(_ calls: Int) async {
        do {
            try await eventually("\(calls) calls out", within: .seconds(30)) { waiting == calls }
        } catch {
            Issue.record("\(waiting) calls are out: \(error)")
            open()
        }
    }

    func open() {
        let waiting = state.withLock { state in
            state.isOpen = true
            return state.waiting
        }
        for one in waiting { one.resume() }
    }

    func changePrice(
        _ intent: PriceChangeIntent, leavingBefore: ContinuousClock.Instant
    ) async -> StoreAnswer {
        await withCheckedContinuation { continuation in
            let isOpen = state.withLock { state in
                if !state.isOpen { state.waiting.append(continuation) }
                return state.isOpen
            }
            if isOpen { continuation.resume() }
        }
        return await inner.changePrice(intent, leavingBefore: leavingBefore)
    }

    func checkStatus(transactionID: String) async -> StoreAnswer {
        await inner.checkStatus(transactionID: transactionID)
    }
}

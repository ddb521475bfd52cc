import Batches
import Postgres
import PriceChanges
import ServiceKit
import TestSupport
import Testing

@testable import Calls
@testable import Pricing

/// What is refused to all ends few rows, however many processes meet it, and however short each of them lives.
@Suite(.database) struct ReplicaJudgementTests {
    private typealias Harness = DeliveryHarness

    private static func count(_ harness: Harness, _ sql: String) async throws -> Int {
        try await harness.service.withConnection { connection in
            try await connection.query(SQL(unsafe: "SELECT count(*) AS n \(sql)")).one().int("n")
        }
    }

    private static func rejected(_ harness: Harness) async throws -> Int {
        try await count(harness, "FROM repricer.price_changes WHERE state = 'rejected'")
    }

    private static func pass(_ harness: Harness, _ duration: Duration = .seconds(1)) {
        harness.clock.advance(by: duration)
        harness.realClock.advance(by: duration)
    }

    /// Each process calls twice and dies, as a container without memory does.
    @Test(arguments: [4_030_010, 4_000_121])
    func refusalOfAll_metByManyShortLivedProcesses_endsFewRows(code: Int) async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...80)
        harness.store.setAnswers([], nil, all: .refused(.reject, code: code))

        for _ in 0..<60 {
            _ = try await harness.scheduler(perSecond: 2).round()
            Self.pass(harness)
        }
        let ended = try await Self.rejected(harness)
        let called = harness.store.calls.count
        try await harness.watch().round()

        #expect((1..<15).contains(ended))
        #expect(called < 20)
        #expect(try await Self.rejected(harness) == 0)
        harness.store.setAnswers([], nil)
        for _ in 0..<20 {
            Self.pass(harness, .seconds(61))
            try await harness.deliver(harness.scheduler())
            try await harness.watch().round()
        }
        #expect(try await harness.changes() == Array(repeating: "A scheduled", count: 80))
        await harness.close()
    }

    /// Another code each time, and three processes at once.
    @Test func refusalsOfEveryKind_metByThreeReplicas_endFewRows() async throws {
        let harness = try await Harness.make()
        for first in [1, 41, 81] { try await harness.submitRows(first...(first + 39)) }
        for number in 1...120 {
            harness.store.setAnswers(
                ["\(number)"], .refused(.reject, code: 4_030_001 + number % 14))
        }
        let replicas = (0..<3).map { _ in harness.scheduler(perSecond: 6) }

        for _ in 0..<30 {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for replica in replicas { group.addTask { _ = try await replica.round() } }
                try await group.waitForAll()
            }
            Self.pass(harness)
        }

        #expect(try await Self.rejected(harness) < 50)
        #expect(
            try await Self.count(harness, "FROM repricer.batches WHERE is_paused")
                + Self.count(
                    harness, "FROM repricer.service_controls WHERE halted_at IS NOT NULL") > 0)
        #expect(harness.store.calls.count < 60)
        await harness.close()
    }

    /// Halted again and again: each time what ended goes back, so the sum does not grow.
    @Test func refusalsOfAll_afterEachProbeThatSucceeds_endFewRowsInAll() async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...90)
        harness.store.setAnswers([], nil, all: .refused(.reject, code: 4_030_010))
        var most = 0
        for round in 0..<40 {
            // One call of each fifth minute is answered, and then all are refused once more.
            let isGood = round % 5 == 4
            harness.store.setAnswers(
                [], nil, all: isGood ? nil : .refused(.reject, code: 4_030_010))
            _ = try await harness.scheduler(perSecond: isGood ? 1 : 50).round()
            most = max(most, try await Self.rejected(harness))
            try await harness.watch().round()
            Self.pass(harness, .seconds(61))
        }

        #expect(most < 50)
        #expect(try await Self.rejected(harness) < 15)
        #expect(try await Self.count(harness, "FROM repricer.batches WHERE is_paused") <= 1)
        await harness.close()
    }

    /// What one process was refused before another one succeeded was odd by itself, also to a third.
    @Test func success_ofAnotherProcess_endsTheStreak() async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...8)
        harness.store.setAnswers([], nil, all: .refused(.reject, code: 4_030_010))
        try await harness.deliver(harness.scheduler())
        #expect(
            try await Self.count(
                harness, "FROM repricer.refusal_streaks WHERE cardinality(refused) = 8") == 2)
        harness.store.setAnswers([], nil)
        try await harness.submitRows(9...12)
        try await harness.deliver(harness.scheduler())
        #expect(
            try await Self.count(
                harness, "FROM repricer.refusal_streaks WHERE batch_id IS NULL AND refused <> '{}'")
                == 0)
        harness.store.setAnswers([], nil, all: .refused(.reject, code: 4_030_010))
        try await harness.submitRows(13...20)

        try await harness.deliver(harness.scheduler())
        try await harness.watch().round()

        #expect(try await Self.rejected(harness) == 16)
        // Batches with nothing left to call say nothing any more.
        #expect(
            try await Self.count(
                harness, "FROM repricer.refusal_streaks WHERE batch_id IS NOT NULL") == 0)
        await harness.close()
    }

    /// Each replica has seen one price that was there already. Then the App Store says so of all, and none is there.
    @Test func pricesThatAreNotOurs_afterEachReplicaSawOneThatWas_endFewRows() async throws {
        let harness = try await Harness.make()
        let replicas = (0..<4).map { _ in harness.scheduler() }
        for (number, replica) in replicas.enumerated() {
            try await harness.submitRows((number + 1)...(number + 1))
            harness.store.setAnswers([], nil, all: .refused(.checkStatus, code: 4_000_205))
            for _ in 0..<3 {
                try await harness.deliver(replica)
                harness.store.applyLate()
                Self.pass(harness, .seconds(10))
            }
        }
        #expect(try await harness.changes() == Array(repeating: "A scheduled", count: 4))
        try await harness.submitRows(5...254)

        var most = 0
        for _ in 0..<40 {
            try await withThrowingTaskGroup(of: Void.self) { group in
                for replica in replicas { group.addTask { _ = try await replica.round() } }
                try await group.waitForAll()
            }
            most = max(most, try await Self.rejected(harness))
            Self.pass(harness)
        }

        #expect(most < 50)
        for _ in 0..<3 { try await harness.watch().round() }
        #expect(try await Self.rejected(harness) == 0)
        await harness.close()
    }

    @Test func extensionsRefusedAlike_metByManyShortLivedProcesses_endFew() async throws {
        let harness = try await ExtensionHarness.make(
            Array(repeating: .refused(4_030_005), count: 80))
        for number in 1...60 {
            try await harness.subscribe("\(number)")
            try await harness.requestOne("\(number)", number)
        }

        for _ in 0..<40 {
            _ = try await harness.extender(perSecond: 2).round()
            harness.pass(.seconds(1))
        }

        let ended = try await harness.callStates().count { $0.hasPrefix("refused") }
        #expect((1..<15).contains(ended))
        #expect(harness.calls.calls.count < 20)
        await harness.delivery.close()
    }

    /// The first try alone was refused: its end says so, and a statement that shows the price brings it back.
    @Test func priceThatMayBeOurs_refusedAndNotSeen_endsByItsCode() async throws {
        let harness = try await Harness.make()
        try await harness.submitRows(1...1)
        harness.store.setAnswers(["1"], .refused(.checkStatus, code: 4_000_205))
        let scheduler = harness.scheduler()

        for _ in 0..<12 {
            try await harness.deliver(scheduler)
            Self.pass(harness, .seconds(10))
        }
        let ended = try await harness.changes()
        try await harness.tell(Harness.scheduled("1", at: harness.now))

        #expect(
            ended == ["A rejected 4000205 PriceChangeCannotBeIssuedWhenAlreadyCommunicatedError"])
        #expect(try await harness.changes() == ["A scheduled applied_after_all"])
        #expect(harness.store.calls.count == 1)
        await harness.close()
    }
}

import Batches
import Facts
import Postgres
import PriceChanges
import ServiceKit
import TestSupport
import Testing

@testable import Pricing

/// What is late is told by the second where seconds count, and what is called too late is said of no other call.
@Suite(.database) struct DeadlineSecondsTests {
    private typealias Harness = DeliveryHarness

    private static func approved(_ count: Int) async throws -> (Harness, batchID: String) {
        let harness = try await Harness.make()
        let ids = (1...count).map { "\($0)" }
        for id in ids { try await harness.subscribe(id) }
        // A decrease needs no consent, so it may be called until shortly before its renewal.
        return (
            harness,
            try await harness.submitAndApprove(ids.map { Harness.row($0, to: 8990) })
        )
    }

    /// Sixty calls at one a second, the first of them now: at whatever second the minute ends, as many are late as do not
    /// fit.
    @Test(arguments: [(40_600, 19), (20_600, 39), (58_900, 1), (60_100, 0)])
    func lateRows_areCountedByTheSecond(milliseconds: Int64, late: Int) async throws {
        let (harness, _) = try await Self.approved(60)
        let now = harness.now.milliseconds
        try await harness.write(
            "UPDATE repricer.price_changes SET send_by = \(timestamp: now + milliseconds)")

        let found = try await harness.service.withTransaction {
            try OpenCallQueries.lateRowCounts(
                callsPerThousandSeconds: 1000, now: now, on: $0)
        }

        #expect(found.map(\.rows) == (late == 0 ? [] : [late]))
        await harness.close()
    }

    /// A call takes some seconds to be applied.
    @Test(arguments: [(4, true), (6, false)])
    func call_fewSecondsBeforeItsDeadline_isLate_andNoEarlierOne(
        seconds: Int64, isLate: Bool
    ) async throws {
        let (harness, _) = try await Self.approved(1)
        let sendBy = try await harness.service.withConnection {
            try await $0.query("SELECT send_by FROM repricer.price_changes").one()
                .milliseconds("send_by")
        }
        harness.clock.set(sendBy - seconds * 1000)

        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.count == 1)
        #expect(
            try await harness.texts(
                "SELECT coalesce(moved_before_call, '-') AS text FROM repricer.price_changes")
                == [isLate ? "late_call" : "-"])
        await harness.close()
    }

    /// Half of the rows have missed their renewal. The search of a spread database finds what the one search finds.
    @Test func overdueQueues_foundBucketByBucket_areThoseOfOneSearch() async throws {
        let (harness, _) = try await Self.approved(40)
        let now = harness.now.milliseconds
        try await harness.write(
            """
            UPDATE repricer.price_changes
            SET send_by = \(timestamp: now)::timestamptz
                + (CASE WHEN original_transaction_id::integer % 2 = 0 THEN -1 ELSE 1 END)
                    * (1 + original_transaction_id::integer) * interval '1 second'
            """)
        let realNow = harness.realClock.nowMilliseconds()

        let (all, each, listed) = try await harness.service.withTransaction { connection in
            let busy = try connection.ask(DueQueries.busyBuckets)
            let all = try connection.ask(DueQueries.earliest(now: now, realNow: realNow))
            let queues = Set(all.map(\.queue)).map { (queue: $0, floor: Int64?.none) }
            return (
                all,
                try connection.ask(
                    DueQueries.earliest(inEach: busy, now: now, realNow: realNow)),
                try connection.ask(DueQueries.earliest(queues, now: now, realNow: realNow))
            )
        }

        #expect(Set(all) == Set(each))
        #expect(Set(all) == Set(listed))
        for found in [all, each, listed] {
            #expect(found.contains { $0.sendBy < now } && found.contains { $0.sendBy > now })
            let firstOverdue = try #require(found.firstIndex { $0.sendBy < now })
            #expect(found[firstOverdue...].allSatisfy { $0.sendBy < now })
        }
        await harness.close()
    }
}

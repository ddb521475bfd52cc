import Batches
import Calls
import Facts
import Postgres
import Pricing
import TestSupport
import Testing

@testable import PriceChanges

/// Over several machines some questions are asked bucket by bucket. They find what one statement finds.
@Suite(.database) struct SpreadTests {
    private typealias Harness = DeliveryHarness

    /// Eight subscriptions: of some the call is open, others are due, the rest waits for its instant.
    private static func make() async throws -> Harness {
        let harness = try await Harness.make([.lost, .unavailable, .notSent])
        for id in 1...8 { try await harness.subscribe("\(id)") }
        try await harness.submitAndApprove((1...3).map { Harness.row("\($0)", line: $0 + 1) })
        try await harness.deliver(harness.scheduler())
        let waits = try await harness.submit(
            (4...8).map { Harness.row("\($0)", line: $0 + 1) }, content: "more")
        try await harness.approve(waits)
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            UPDATE repricer.price_changes SET is_ready = false, send_after = send_by - interval '3 days'
            WHERE original_transaction_id IN ('6', '7', '8')
            """)
        await owner.close()
        harness.realClock.advance(by: .seconds(100))
        return harness
    }

    private static func gate(_ harness: Harness) -> CallGate {
        PriceCallQueries.gate(endpoint: "change_price", now: harness.clock.nowMilliseconds())
    }

    @Test func dueQueues_askedBucketByBucket_areThoseOfOneStatement() async throws {
        let harness = try await Self.make()
        let realNow = harness.realClock.nowMilliseconds()

        let (whole, parts) = try await harness.service.read { connection in
            try connection.ask(
                DueQueries.earliest(realNow: realNow),
                DueQueries.earliest(realNow: realNow, isSpread: true))
        }

        #expect(whole.count >= 2)
        #expect(Set(parts) == Set(whole))
        #expect(parts.map(\.sendBy) == whole.map(\.sendBy))
        await harness.close()
    }

    @Test func openCalls_askedBucketByBucket_areThoseOfOneStatement() async throws {
        let harness = try await Self.make()
        let (gate, realNow) = (Self.gate(harness), harness.realClock.nowMilliseconds())

        let (whole, parts) = try await harness.service.read { connection in
            try connection.ask(
                StoreCallQueries.waiting(gate, from: nil, realNow: realNow),
                StoreCallQueries.waiting(gate, from: nil, realNow: realNow, isSpread: true))
        }

        #expect(whole.sends.count + whole.checks.count >= 2)
        #expect(parts.sends == whole.sends)
        #expect(parts.checks == whole.checks)
        #expect(parts.firstLease == whole.firstLease)
        #expect(parts.firstLease != nil)
        await harness.close()
    }

    @Test func parkedChanges_wokenBucketByBucket_areAllThatAreDue_onlyOnce() async throws {
        let harness = try await Self.make()
        let far = harness.clock.nowMilliseconds() + 3000 * Instant.millisecondsPerDay

        let (found, woken, again) = try await harness.service.read { connection in
            let found = try connection.ask(DueQueries.bucketsToWake(from: nil, now: far, limit: 10))
            let woken = try connection.ask(
                DueQueries.waking(found, from: nil, now: far, limit: 10))
            return (
                found, woken,
                try connection.ask(DueQueries.waking(found, from: nil, now: far, limit: 10))
            )
        }

        #expect(Set(found) == Set(["6", "7", "8"].map { Bucket.of($0) }))
        #expect(woken == 3)
        #expect(again == 0)
        await harness.close()
    }

    @Test func plainDatabase_isNotSpread() async throws {
        let harness = try await Harness.make()
        #expect(try await harness.service.read { try SpreadQueries.isSpread($0) } == false)
        await harness.close()
    }
}

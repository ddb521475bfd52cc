import ServiceKit
import TestSupport
import Testing

@testable import PriceChanges

/// Changes that are due while another session holds their buckets are told of, and no others.
@Suite(.database) struct UnclaimedTests {
    private typealias Harness = DeliveryHarness

    private static let metric = "repricer_changes_due_unclaimed_seconds"

    @Test func dueChange_ofABucketThatIsHeld_isTold_untilItIsClaimed() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        let metrics = Metrics()
        let scheduler = Scheduler(
            harness.engine(metrics: metrics), store: harness.store, wait: { _ in })
        let holder = try await TestDatabase.connect()
        try await holder.script("BEGIN; SELECT 1 FROM repricer.bucket_turns FOR UPDATE")

        for _ in 0..<2 { _ = try await scheduler.round() }
        #expect(harness.store.calls.isEmpty)
        #expect(!metrics.render().contains("\n\(Self.metric) 0\n"))

        try await holder.script("ROLLBACK")
        try await harness.deliver(scheduler)
        #expect(harness.store.calls.count == 1)
        #expect(metrics.render().contains("\n\(Self.metric) 0\n"))
        await holder.close()
        await harness.close()
    }
}

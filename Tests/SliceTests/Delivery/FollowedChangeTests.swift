import Batches
import Facts
import PriceChanges
import ServiceKit
import TestSupport
import Testing

@testable import Calls

/// The log at `debug` leads from a batch to a change, its call and what came of it: "Follow one change" of the runbook.
@Suite(.database) struct FollowedChangeTests {
    @Test func change_atDebug_isFollowedFromItsBatchToItsCallAndResult() async throws {
        let harness = try await DeliveryHarness.make()
        let batchID = try await harness.submitRows(1...1)
        let lines = LogLines()
        var limits = CallEngine.Limits()
        limits.leavesWithin = .seconds(60)
        let scheduler = Scheduler(
            harness.engine(limits, log: lines.log(.debug)), store: harness.store,
            limits: Scheduler.Limits(), wait: { _ in })

        try await harness.deliver(scheduler)

        let claimed = lines.about("change claimed")
        #expect(claimed.count == 1, "\(claimed)")
        let line = try #require(claimed.first)
        let change = try #require(line.firstMatch(of: /change=(\S+)/)).1
        let call = try #require(line.firstMatch(of: /call=(\S+)/)).1
        let settled = lines.about("call settled")
        #expect(line.contains("batch=\(batchID)") && line.contains("subject=1"))
        #expect(settled.count == 1, "\(settled)")
        for part in [
            "kind=price_change", "call=\(call)", "changes=\(change)", "subject=1", "attempt=1",
            "status=200",
        ] {
            #expect(settled.first?.contains(part) == true, "\(part): \(settled)")
        }
        await harness.close()
    }
}

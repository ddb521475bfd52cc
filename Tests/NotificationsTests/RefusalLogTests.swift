import HTTP
import ServiceKit
import TestSupport
import Testing

@testable import Notifications

@Suite struct RefusalLogTests {
    private let refusal = NotificationRefusal(.forbidden, code: "jws_chain", message: "forged")

    @Test func note_whenFlooded_writesFewLinesAndCountsTheRest() {
        let lines = LogLines()
        let refusals = RefusalLog(log: lines.log())
        let start = ContinuousClock.now

        for index in 0..<1000 { refusals.note(refusal, now: start + .milliseconds(index)) }
        #expect(lines.all.count == RefusalLog.linesMax)
        #expect(lines.all.allSatisfy { $0.contains("code=jws_chain") })

        refusals.note(refusal, now: start + .seconds(61))
        refusals.note(refusal, now: start + .seconds(61))
        #expect(lines.all.count == RefusalLog.linesMax + 2)
        #expect(
            lines.all[RefusalLog.linesMax].contains(
                "suppressed_before=\(1000 - RefusalLog.linesMax)"))
        #expect(lines.all[RefusalLog.linesMax + 1].contains("suppressed_before=0"))
    }

    @Test func post_whenForgeriesFlood_countsAllAndStoresNone() async throws {
        let metrics = Metrics()
        let store = MemoryStore()

        try await ReceiverHarness.run(intake: makeIntake(store, metrics: metrics), metrics: metrics)
        {
            harness in
            for _ in 0..<50 {
                let status = try await harness.post(#"{"signedPayload":"forged"}"#).status
                #expect(status == 403)
            }
        }

        #expect(metrics.render().contains("outcome=\"bad_signature\"} 50"))
        #expect(store.state.withLock { $0.ids.isEmpty })
    }
}

import Facts
import Pricing
import ServiceKit
import TestSupport
import Testing

@testable import Calls

/// A silence that one process is asked for is everybody's, whatever permits the others hold.
@Suite(.database) struct SharedSilenceTests {
    @Test func silence_thatAnotherProcessMet_keepsCallsThatHoldTheirPermit() async throws {
        let harness = try await DeliveryHarness.make()
        let (ours, others) = (Self.source(harness), Self.source(harness))
        // The next permit is fifty seconds away: so long the process listens.
        let permits = try await ours.lease(1)
        #expect(permits.granted == 1)
        let ear = Task { await ours.heedOthers(while: permits) }
        #expect(ours.silenced == nil)

        let until = Instant(milliseconds: SystemClock().nowMilliseconds() + 600_000)
        try await others.block(until: until)

        try await eventually("the silence is known", within: .seconds(30)) {
            ours.silenced == .silenced
        }
        let mayLeave = try await ours.take(from: permits, before: .now + .seconds(60))
        #expect(!mayLeave)
        ear.cancel()
        await ear.value
        await harness.close()
    }

    private static func source(_ harness: DeliveryHarness) -> CallPermitSource {
        CallPermitSource(
            pool: harness.service, endpoint: "change_price", perSecond: 0.02, clock: SystemClock(),
            wait: { _ in })
    }
}

import AppStore
import Facts
import Pricing
import Reconciliation
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
        let watch = Task { await ours.watchSilences(while: permits) }
        #expect(ours.silenced == nil)

        let until = Instant(milliseconds: SystemClock().nowMilliseconds() + 600_000)
        try await others.block(until: until)

        try await eventually("the silence is known", within: .seconds(30)) {
            ours.silenced == .silenced
        }
        let mayLeave = try await ours.take(from: permits, before: .now + .seconds(60))
        #expect(!mayLeave)
        watch.cancel()
        await watch.value
        await harness.close()
    }

    /// A permit of before says nothing once the App Store has asked for silence.
    @Test func permitOfBefore_isNotUsedWithinASilence() async throws {
        let harness = try await DeliveryHarness.make()
        let clock = harness.clock
        let statuses = CallPermitSource(
            pool: harness.service, endpoint: "status", perSecond: 50, clock: clock,
            wait: { clock.advance(by: $0) })
        let permits = try await statuses.lease(2)
        try await statuses.take(from: permits)
        let until = harness.now.advanced(by: 30_000)

        try await statuses.block(until: until)
        try await statuses.take(from: permits)

        #expect(harness.now >= until)
        await harness.close()
    }

    /// Told to one subscription alone it may be about that one. Told to the next as well it is meant for all.
    @Test func statusThatAsksToWait_silencesEveryReplica() async throws {
        let harness = try await DeliveryHarness.make()
        func statuses() -> CallPermitSource {
            CallPermitSource(
                pool: harness.service, endpoint: "status", perSecond: 50, clock: harness.clock,
                wait: { _ in })
        }
        let (ours, others) = (statuses(), statuses())
        _ = try await ours.lease(1)
        func left() async throws -> Duration? { try await others.silenceLeft() }
        let away = StoreAnswer.unknown(
            reason: "503", StoreReply(httpStatus: 503, retryAfter: .seconds(7200)))

        try await ours.heed(.unknown(reason: "500", StoreReply(httpStatus: 500)), of: "1")
        #expect(try await left() == nil)
        try await ours.heed(away, of: "1")
        #expect(try await left() == .seconds(60))
        #expect(ours.silenced == .askedToWait)
        try await ours.heed(away, of: "1")
        #expect(try await left() == .seconds(60))
        try await ours.heed(away, of: "2")
        #expect(try await left() == .seconds(7200))
        await harness.close()
    }

    /// A list of a million statuses takes all permits of the moments to come, and not those beyond.
    @Test func bulkReads_leavePermitsToWhatSomebodyWaitsFor() async throws {
        let harness = try await DeliveryHarness.make()
        func statuses(_ horizon: Duration) -> CallPermitSource {
            CallPermitSource(
                pool: harness.service, endpoint: "status", perSecond: 2, clock: SystemClock(),
                horizon: horizon, wait: { _ in })
        }
        // Permits of half a second each: so slow a machine as takes a minute for it finds the same.
        let (bulk, urgent) = (statuses(.seconds(60)), statuses(.seconds(180)))

        let first = try await bulk.lease(1_000)
        let further = try await urgent.lease(5)
        let rest = try await bulk.lease(1_000)

        #expect((110...121).contains(first.granted))
        #expect(further.granted == 5)
        #expect(rest.granted < first.granted / 2, "what passed meanwhile, if anything")
        #expect(CallPermitSource.bulkHorizon * 2 < CallPermitSource.horizon)
        await harness.close()
    }

    /// Whoever reads a list reserves no further ahead, whatever permits it was given.
    @Test func list_reservesAsBulkDoes() async throws {
        let harness = try await DeliveryHarness.make()
        let permits = CallPermitSource(
            pool: harness.service, endpoint: "status", perSecond: 1000, clock: SystemClock())

        let list = StatusCheckRunner(
            pool: harness.service, store: harness.store, permitSource: permits,
            clock: harness.clock, realClock: harness.realClock, log: .silent)

        #expect(permits.permitsAhead == 650)
        #expect(list.permitSource.permitsAhead == 250)
        await harness.close()
    }

    private static func source(_ harness: DeliveryHarness) -> CallPermitSource {
        CallPermitSource(
            pool: harness.service, endpoint: "change_price", perSecond: 0.02, clock: SystemClock(),
            wait: { _ in })
    }
}

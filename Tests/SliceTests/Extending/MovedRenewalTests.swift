import Postgres
import Pricing
import Reports
import TestSupport
import Testing

/// What an extension does to open price changes.
@Suite(.database) struct MovedRenewalTests {
    private struct Dates: Equatable {
        var sendBy: Int64
        var effectiveAt: Int64
        var isReady: Bool
    }

    private func dates(_ harness: ExtensionHarness) async throws -> Dates {
        try await harness.delivery.service.withConnection { connection in
            let row = try await connection.query(
                "SELECT send_by, due_effective_at, is_ready FROM repricer.price_changes"
            ).one()
            return Dates(
                sendBy: try row.milliseconds("send_by"),
                effectiveAt: try row.milliseconds("due_effective_at"),
                isReady: try row.bool("is_ready"))
        }
    }

    private static let day: Int64 = 86_400_000

    @Test func unsentChange_whenRenewalIsExtended_isDatedAnew() async throws {
        let harness = try await ExtensionHarness.make()
        try await harness.subscribe("1")
        try await harness.delivery.submitAndApprove([DeliveryHarness.row("1")])
        let before = try await dates(harness)

        try await harness.tellExtended("1", days: 20, at: 1000)
        harness.pass(.seconds(5))
        try await harness.work(harness.extender())

        let after = try await dates(harness)
        #expect(before.effectiveAt == ExtensionHarness.renewal.milliseconds)
        #expect(after.effectiveAt == before.effectiveAt + 20 * Self.day)
        #expect(after.sendBy == before.sendBy + 20 * Self.day)
        #expect(after.isReady)
        #expect(try await harness.delivery.count("moved_renewals") == 0)
        #expect(
            try await harness.delivery.service.withConnection { connection in
                try await connection.query(
                    "SELECT 1 FROM repricer.price_change_history WHERE reason LIKE 'renewal_extended%'"
                ).count
            } == 1)
        await harness.delivery.close()
    }

    /// An extension does not bring forward what waits for a later wave.
    @Test func changeOfALaterWave_whenRenewalIsExtended_isDatedFromItsReleaseOn() async throws {
        let harness = try await ExtensionHarness.make()
        let ids = (1...20).map { "\($0)" }
        for id in ids { try await harness.subscribe(id) }
        let release = DeliveryHarness.start.advanced(by: 70 * Self.day)
        let waves = try WavePlan("50%,rest@\(release.text)")
        let late = try #require(
            ids.first { waves.wave(ofSubscription: $0, storefront: "USA") == 2 })
        try await harness.delivery.submitAndApprove(
            [DeliveryHarness.row(late)], terms: BatchTerms(waves: waves))
        let before = try await dates(harness)

        try await harness.tellExtended(late, days: 2, at: 1000)
        harness.pass(.seconds(5))
        try await harness.work(harness.extender())

        let after = try await dates(harness)
        #expect(before.sendBy >= release.milliseconds)
        #expect(after.sendBy == before.sendBy + 2 * Self.day)
        #expect(after.effectiveAt == before.effectiveAt + 2 * Self.day)
        // The release alone holds it back: a person may release the wave before its time.
        #expect(before.isReady && after.isReady)
        await harness.delivery.close()
    }

    /// Without a token only the name says on which subscription the dependent lives.
    @Test func unsentChange_withADependentOnAnotherSubscription_isDatedAnew() async throws {
        let harness = try await ExtensionHarness.make()
        for id in ["1", "2"] { try await harness.subscribe(id) }
        try await harness.delivery.submitAndApprove([
            DeliveryHarness.row("1", dependents: ["2/B"])
        ])
        let before = try await dates(harness)

        try await harness.tellExtended("1", days: 20, at: 1000)
        harness.pass(.seconds(5))
        try await harness.work(harness.extender())

        let after = try await dates(harness)
        #expect(after.effectiveAt == before.effectiveAt + 20 * Self.day)
        #expect(after.sendBy == before.sendBy + 20 * Self.day)
        await harness.delivery.close()
    }

    @Test func sentChange_whenRenewalIsExtended_movesWithIt() async throws {
        let harness = try await ExtensionHarness.make()
        try await harness.subscribe("1")
        try await harness.delivery.submitAndApprove([DeliveryHarness.row("1")])
        try await harness.delivery.deliver(harness.delivery.scheduler())
        try await harness.delivery.tell(
            DeliveryHarness.scheduled("1", at: DeliveryHarness.start.advanced(by: 500)))

        try await harness.tellExtended("1", days: 45, at: 1000)

        let after = try await dates(harness)
        #expect(after.effectiveAt == ExtensionHarness.renewal.milliseconds + 45 * Self.day)
        let lines = try await harness.delivery.service.withTransaction {
            try TimelineQueries.lines(of: "1", on: $0)
        }
        #expect(lines.contains { $0.what == "renewal extended" })
        #expect(lines.contains { $0.detail?.contains("renewal_extended") == true })
        await harness.delivery.close()
    }

    @Test func planOfANewBatch_afterAnExtension_knowsTheNewRenewal() async throws {
        let harness = try await ExtensionHarness.make()
        try await harness.subscribe("1")
        try await harness.tellExtended("1", days: 7, at: 1000)
        harness.pass(.seconds(5))

        try await harness.delivery.submitAndApprove([DeliveryHarness.row("1")])

        let after = try await dates(harness)
        #expect(after.effectiveAt == ExtensionHarness.renewal.milliseconds + 7 * Self.day)
        await harness.delivery.close()
    }
}

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

    private func dates(_ world: ExtensionWorld) async throws -> Dates {
        try await world.delivery.service.withConnection { connection in
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
        let world = try await ExtensionWorld.make()
        try await world.subscribe("1")
        try await world.delivery.submitAndApprove([DeliveryWorld.row("1")])
        let before = try await dates(world)

        try await world.tellExtended("1", days: 20, at: 1000)
        world.pass(.seconds(5))
        try await world.work(world.extender())

        let after = try await dates(world)
        #expect(before.effectiveAt == ExtensionWorld.renewal.milliseconds)
        #expect(after.effectiveAt == before.effectiveAt + 20 * Self.day)
        #expect(after.sendBy == before.sendBy + 20 * Self.day)
        #expect(after.isReady)
        #expect(try await world.delivery.count("moved_renewals") == 0)
        #expect(
            try await world.delivery.service.withConnection { connection in
                try await connection.query(
                    "SELECT 1 FROM repricer.price_change_history WHERE reason LIKE 'renewal_extended%'"
                ).count
            } == 1)
        await world.delivery.close()
    }

    @Test func sentChange_whenRenewalIsExtended_movesWithIt() async throws {
        let world = try await ExtensionWorld.make()
        try await world.subscribe("1")
        try await world.delivery.submitAndApprove([DeliveryWorld.row("1")])
        try await world.delivery.deliver(world.delivery.scheduler())
        try await world.delivery.tell(
            DeliveryWorld.scheduled("1", at: DeliveryWorld.start.advanced(by: 500)))

        try await world.tellExtended("1", days: 45, at: 1000)

        let after = try await dates(world)
        #expect(after.effectiveAt == ExtensionWorld.renewal.milliseconds + 45 * Self.day)
        let lines = try await world.delivery.service.withTransaction {
            try TimelineQueries.lines(of: "1", on: $0)
        }
        #expect(lines.contains { $0.what == "renewal extended" })
        #expect(lines.contains { $0.detail?.contains("renewal_extended") == true })
        await world.delivery.close()
    }

    @Test func planOfANewBatch_afterAnExtension_knowsTheNewRenewal() async throws {
        let world = try await ExtensionWorld.make()
        try await world.subscribe("1")
        try await world.tellExtended("1", days: 7, at: 1000)
        world.pass(.seconds(5))

        try await world.delivery.submitAndApprove([DeliveryWorld.row("1")])

        let after = try await dates(world)
        #expect(after.effectiveAt == ExtensionWorld.renewal.milliseconds + 7 * Self.day)
        await world.delivery.close()
    }
}

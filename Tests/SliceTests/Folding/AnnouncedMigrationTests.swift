import Facts
import ServiceKit
import TestSupport
import Testing

@testable import Notifications

/// A breaking migration is announced: programs of before fold nothing more, for they would fold into another schema.
@Suite(.database) struct AnnouncedMigrationTests {
    private typealias Harness = DeliveryHarness

    private static func announce(_ lowest: Int) async throws {
        let owner = try await TestDatabase.connect()
        _ = try await owner.execute(
            "UPDATE repricer.service_controls SET lowest_program = \(lowest)")
        await owner.close()
    }

    @Test func projector_afterTheAnnouncement_foldsNothing_untilItIsWithdrawn() async throws {
        let harness = try await Harness.make()
        try await harness.receive("n", of: "1")
        let projector = Projector(pool: harness.service, log: .silent, metrics: Metrics())
        try await Self.announce(expectedSchemaVersion + 1)

        #expect(try await projector.foldOnce() == 0)
        // Nor does a fold that knew before which subscriptions have work.
        let waiting = try await harness.service.withTransaction {
            try EventQueries.waiting(["1"], on: $0).count
        }
        #expect(waiting == 0)
        #expect(try await harness.count("inbox") == 1)

        try await Self.announce(expectedSchemaVersion)
        #expect(try await projector.foldOnce() == 1)
        #expect(try await harness.count("inbox") == 0)
        await harness.close()
    }
}

import Facts
import Postgres
import Reconciliation
import ServiceKit
import TestSupport
import Testing

@testable import AppStore
@testable import Pricing

/// A database that was restored has forgotten extensions that the App Store has: they go again under their identifiers,
/// and nothing that it has is disowned.
@Suite(.database) struct ExtensionRecoveryTests {
    /// As a service finds itself in a restored database, and has read a history that says nothing.
    private static func restore(_ harness: ExtensionHarness) async throws {
        let catchUp = CatchUp(
            harness.delivery.reconciler(ScriptedHistory(), ScriptedIntake()), lagMax: nil,
            flightTime: .seconds(100))
        try await catchUp.prepare()
        let connection = try await TestDatabase.connect()
        _ = try await connection.query(
            "UPDATE repricer.service_controls SET database_identity = 'another'")
        await connection.close()
        #expect(try await catchUp.step())
        harness.pass(.seconds(101))
        #expect(try await catchUp.step())
    }

    /// Its own extension, which the restored database forgot, is the second of two within a year.
    private static func forgotten(
        _ replies: [ScriptedExtensions.Reply] = []
    ) async throws -> ExtensionHarness {
        let harness = try await ExtensionHarness.make(replies)
        try await harness.subscribe("1")
        try await harness.tellExtended("1", days: 5, at: 1000)
        harness.pass(.seconds(60))
        try await harness.requestOne("1")
        try await restore(harness)
        try await harness.tellExtended("1", days: 35, at: 70_000)
        return harness
    }

    @Test func forgottenExtension_goesAgainUnderItsIdentifier_andIsNotJudged() async throws {
        let harness = try await Self.forgotten()

        try await harness.work(harness.extender())

        #expect(harness.calls.identifiers == [ExtensionHarness.id(1)])
        #expect(try await harness.callStates() == ["extended by answer"])
        await harness.delivery.close()
    }

    /// It goes again under its identifier. Another one of the product would extend everybody twice.
    @Test func forgottenMassExtension_cannotBeRejected() async throws {
        let harness = try await ExtensionHarness.make([])
        try await harness.subscribe("1")
        try await harness.requestAll()
        try await Self.restore(harness)

        let error = await #expect(throws: DatabaseServerError.self) {
            try await harness.delivery.approver.withConnection { connection in
                _ = try await connection.query(
                    "SELECT repricer.reject_extension(extension_id, 'no', now()) FROM repricer.mass_extensions"
                )
            }
        }

        #expect(
            error?.description.contains("may have been called by the database that is lost") == true
        )
        #expect(try await harness.massStates() == ["queued"])
        await harness.delivery.close()
    }

    /// The second extension of the customer may be the very one that was forgotten.
    @Test func forgottenExtension_whenRefused_isTakenForWhatItsNotificationSays() async throws {
        let harness = try await Self.forgotten([.refused(4_030_004)])
        let extender = harness.extender()

        try await harness.work(extender)
        try await harness.passUntilChecked(extender)

        #expect(harness.calls.identifiers == [ExtensionHarness.id(1)])
        #expect(try await harness.callStates() == ["extended by notification"])
        await harness.delivery.close()
    }

    /// Nobody called it before: the App Store's refusal counts once statuses show nothing.
    @Test func extensionOfARestoredDatabase_whenRefused_endsAfterItsChecks() async throws {
        let harness = try await ExtensionHarness.make([.refused(4_030_004)])
        try await harness.subscribe("1")
        try await harness.requestOne("1")
        try await Self.restore(harness)
        let extender = harness.extender()

        try await harness.work(extender)
        try await harness.passUntilChecked(extender)

        #expect(
            try await harness.callStates() == [
                "refused by answer SubscriptionExtensionIneligibleError"
            ])
        await harness.delivery.close()
    }

    // MARK: All of a product

    private static func forgottenMass(
        _ replies: [ScriptedExtensions.Reply] = []
    ) async throws -> ExtensionHarness {
        let harness = try await ExtensionHarness.make(replies)
        for id in ["1", "2"] { try await harness.subscribe(id) }
        harness.pass(.seconds(1))
        try await harness.requestAll()
        try await restore(harness)
        try await harness.tellExtended("1", days: 30, at: 50_000)
        try await harness.tellFailed("2", at: 50_000)
        return harness
    }

    @Test(arguments: [false, true])
    func forgottenMassExtension_isKnownByItsStatus(isRefused: Bool) async throws {
        let harness = try await Self.forgottenMass(isRefused ? [.refused(4_030_004)] : [])
        harness.calls.with {
            $0.massStatus = MassExtensionStatus(
                isComplete: true,
                completedAt: DeliveryHarness.start.advanced(by: 60_000), succeeded: 1, failed: 1)
        }
        let extender = harness.extender()

        try await harness.work(extender)
        for _ in 0..<3 {
            harness.pass(.seconds(900))
            try await harness.work(extender)
        }

        #expect(harness.calls.identifiers == [ExtensionHarness.id(9)])
        #expect(try await harness.report() == ["all complete 1/1 1/1 clean"])
        await harness.delivery.close()
    }

    @Test func forgottenMassExtension_whoseSummaryComesFirst_isComplete_andNotCalled() async throws
    {
        let harness = try await Self.forgottenMass()
        try await harness.receiveSummary(9, succeeded: 1, failed: 1)

        try await harness.work(harness.extender())

        #expect(harness.calls.calls.isEmpty)
        #expect(try await harness.report() == ["all complete 1/1 1/1 clean"])
        await harness.delivery.close()
    }
}

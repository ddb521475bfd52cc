import TestSupport
import Testing

/// The whole road through the real programs: the simulated App Store with months of seconds, `repricer serve`, people
/// at the command line, and a receiver of webhooks. A's increase is never answered, so its dependent on the other
/// subscription of the customer is cancelled by a call.
@Suite(.database) struct ElsewhereProcessTests {
    @Test func dependentElsewhere_parentIgnored_isCancelledAndTold() async throws {
        let world = try await ProcessWorld.open()
        defer { world.close() }
        try await world.raise()

        try await world.until(
            "SELECT state = 'confirmed' AS done FROM repricer.dependent_cancellations")

        #expect(try await world.calls("cancel") == [200])
        #expect(try await world.stateOfChange() == "declined")
        try await world.until(
            "SELECT count(*) = 0 AS done FROM repricer.webhook_deliveries WHERE state = 'pending'"
        )
        // A crowded machine misses its slot now and then: the call is put back, and asked for again.
        let told = world.hooks.accepted.compactMap(\.type)
        #expect(told.first == "dependent_cancellation.requested")
        #expect(
            told.suffix(2) == [
                "dependent_cancellation.cancel_sent", "dependent_cancellation.confirmed",
            ])
    }

    /// `drop_before`: killed between the intent and the call's effect. `drop_after`: killed after it.
    @Test(arguments: ["drop_before", "drop_after"])
    func dependentElsewhere_serviceKilledDuringTheCall_isCancelledOnce(fault: String) async throws {
        let world = try await ProcessWorld.open()
        defer { world.close() }
        try await world.order(fault: fault)
        try await world.raise()

        try await world.until(
            "SELECT state = 'cancel_sent' AS done FROM repricer.dependent_cancellations")
        try await world.until(calls: 1)
        try await world.kill()
        try await world.serve()
        try await world.until(
            "SELECT state = 'confirmed' AS done FROM repricer.dependent_cancellations")

        #expect(try await world.references("cancel").count == 1)
        #expect(try await world.number("cancelledTwice") == 0)
        #expect(try await world.number("appliedCancels") == 1)
    }
}

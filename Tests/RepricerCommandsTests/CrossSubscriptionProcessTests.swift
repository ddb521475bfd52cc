import TestSupport
import Testing

/// The whole road through the real programs: the simulated App Store with months of seconds, `repricer serve`, people
/// at the command line, and a receiver of webhooks. A's increase is never answered, so its dependent on the other
/// subscription of the customer is cancelled by a call.
@Suite(.database) struct CrossSubscriptionProcessTests {
    @Test func dependentElsewhere_parentIgnored_isCancelledAndTold() async throws {
        let harness = try await ProcessHarness.open()
        defer { harness.close() }
        try await harness.raise()

        try await harness.until(
            "SELECT state = 'confirmed' AS done FROM repricer.dependent_cancellations")

        #expect(try await harness.calls("cancel") == [200])
        #expect(try await harness.stateOfChange() == "declined")
        try await harness.until(
            "SELECT count(*) = 0 AS done FROM repricer.webhook_deliveries WHERE state = 'pending'"
        )
        // A crowded machine misses its permit now and then: the call is put back, and asked for again.
        let told = harness.hooks.accepted.compactMap(\.type)
        #expect(told.first == "dependent_cancellation.requested")
        #expect(
            told.suffix(2) == [
                "dependent_cancellation.cancel_sent", "dependent_cancellation.confirmed",
            ])
    }

    /// `drop_before`: killed between the intent and the call's effect. `drop_after`: killed after it.
    @Test(arguments: ["drop_before", "drop_after"])
    func dependentElsewhere_serviceKilledDuringTheCall_isCancelledOnce(fault: String) async throws {
        // The dependent's year, twelve months, must not end before the killed call is made again: a slow machine
        // takes long.
        let harness = try await ProcessHarness.open(ProcessHarness.Seed(month: 10))
        defer { harness.close() }
        try await harness.order(fault: fault)
        try await harness.raise()

        try await harness.until(
            "SELECT state = 'cancel_sent' AS done FROM repricer.dependent_cancellations")
        try await harness.until(calls: 1)
        try await harness.kill()
        try await harness.serve()
        try await harness.until(
            "SELECT state = 'confirmed' AS done FROM repricer.dependent_cancellations")

        #expect(try await harness.references("cancel").count == 1)
        #expect(try await harness.number("cancelledTwice") == 0)
        #expect(try await harness.number("appliedCancels") == 1)
    }
}

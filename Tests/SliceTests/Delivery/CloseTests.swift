import Batches
import Postgres
import Pricing
import ServiceKit
import TestSupport
import Testing

/// A change whose item Apple shows at another price can be closed by a person, and only such a one.
@Suite(.database) struct CloseTests {
    private typealias Harness = DeliveryHarness

    /// The only change is scheduled, and a minute later Apple shows its item at a price, without an increase unless it
    /// is the change's.
    private static func overtaken(by price: Int64) async throws -> Harness {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        harness.clock.advance(by: .seconds(60))
        try await harness.tell(
            price == 10990
                ? Harness.scheduled("1", at: harness.now) : Self.withoutIncrease(at: harness.now))
        harness.clock.advance(by: .seconds(60))
        return harness
    }

    /// The increase is announced no more; until the renewal it may be again, so that it ends by itself only then.
    private static func withoutIncrease(at: Instant) -> SubscriptionEvent {
        Harness.scheduled("1", "NONE", at: at)
    }

    private static func close(_ harness: Harness) async throws -> Int64 {
        let at = harness.now.milliseconds
        return try await harness.submitter.withTransaction { connection in
            let id = try connection.query("SELECT change_id FROM repricer.price_changes").one()
                .text("change_id")
            let shown = try ControlQueries.close(
                id, reason: "changed in another tool", at: at, on: connection)
            #expect(shown.currency == "USD")
            return shown.milliunits
        }
    }

    @Test func closed_endsAndFreesItsItem_andAuditNamesIt() async throws {
        let harness = try await Self.overtaken(by: 9990)

        #expect(try await Self.close(harness) == 9990)

        #expect(try await harness.changes() == ["A invalidated closed"])
        let audited = try await harness.service.withConnection { connection in
            try await connection.query(
                "SELECT details ->> 'reason' AS reason FROM repricer.audit_trail WHERE action = 'close'"
            ).map { try $0.text("reason") }
        }
        #expect(audited == ["changed in another tool"])
        // A late statement folds all anew, and the change stays closed.
        try await harness.tell(
            Self.withoutIncrease(at: harness.now.advanced(by: -90_000)))
        let changes = try await harness.changes()
        #expect(changes == ["A invalidated closed"])
        await harness.close()
    }

    @Test func ownPriceStillShown_isRefused() async throws {
        let harness = try await Self.overtaken(by: 10990)

        let error = await #expect(throws: PostgresError.self) { try await Self.close(harness) }

        #expect(
            error?.message?.contains("it may still take effect") == true,
            "\(String(describing: error))")
        #expect(try await harness.changes() == ["A scheduled"])
        await harness.close()
    }

    @Test func unsentChange_isRefused() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])

        await #expect(throws: PostgresError.self) { try await Self.close(harness) }
        #expect(try await harness.changes() == ["A queued"])
        await harness.close()
    }

    @Test func priceShownAfterClosing_bringsTheChangeBack() async throws {
        let harness = try await Self.overtaken(by: 9990)
        _ = try await Self.close(harness)
        harness.clock.advance(by: .seconds(60))

        try await harness.tell(Harness.scheduled("1", at: harness.now))

        #expect(try await harness.changes() == ["A scheduled applied_after_all"])
        await harness.close()
    }
}

import Batches
import Facts
import Postgres
import TestSupport
import Testing

private typealias Harness = DeliveryHarness

/// One person's open transaction keeps nobody else from deciding, and no decision from the trail.
@Suite(.database)
struct AuditWaitingTests {
    private func login(_ name: String) async throws -> PostgresConnection {
        try await PostgresConnection.connect(
            try await TestDatabase.login(name, memberOf: ["repricer_pricing"]),
            applicationName: "psql")
    }

    @Test func decision_whileAnotherIsOpen_isMade_andItsLineFollows() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        let batch = try await harness.submitAndApprove([Harness.row("1")])
        let (holder, other) = (try await login("holder"), try await login("other"))
        try await holder.script("BEGIN")
        _ = try await holder.query(
            SQL(unsafe: "SELECT repricer.set_pause('\(batch)', now(), true, 'left open')"))

        _ = try await other.query("SELECT repricer.set_pause(NULL, now(), true, 'fire')")

        let controls = try await harness.service.withTransaction {
            try ServiceControlQueries.everything(on: $0)
        }
        #expect(controls.isPaused)
        let owner = try await TestDatabase.connect()
        #expect(try await owner.transaction { try AuditQueries.settle(on: $0) } == 1)
        try await holder.script("COMMIT")
        #expect(try await owner.transaction { try AuditQueries.settle(on: $0) } == 0)
        try await TestDatabase.shipDefaultLimits()
        let chain = try await owner.read { try AuditQueries.verify(kept: nil, on: $0) }
        #expect(chain.findings == [])
        let lines = try await owner.read { try AuditQueries.page(after: 0, on: $0) }
        #expect(lines.suffix(2).map(\.object) == ["batch:\(batch)", "everything"])
        for connection in [holder, other, owner] { await connection.close() }
        await harness.close()
    }
}

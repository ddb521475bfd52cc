import Facts
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import RepricerCommands

/// Whose clock decisions bear: the server's, unless the database is a rehearsal's.
@Suite(.database) struct RehearsalTests {
    private static func settings(store: String?, clock: String? = nil) throws -> Configuration {
        var values = ["REPRICER_ENVIRONMENT": "Production"]
        values["REPRICER_API_BASE_URL"] = store
        values["REPRICER_CLOCK"] = clock
        return Configuration(settings: try Settings.load(environment: values, envFile: nil))
    }

    /// A database as `migrate` leaves it, and the service's connection to it.
    private static func connect() async throws -> PostgresConnection {
        let owner = try await TestDatabase.connect()
        try await owner.script("UPDATE repricer.service_controls SET is_rehearsal = false")
        await owner.close()
        return try await PostgresConnection.connect(
            await TestDatabase.login("service", memberOf: ["repricer_service"]),
            applicationName: "test")
    }

    private static func isRehearsal(_ connection: PostgresConnection) async throws -> Bool {
        try await connection.read { try AppBindingQueries.isRehearsal(on: $0) }
    }

    @Test func database_ofAVirtualClock_isARehearsalsForGood() async throws {
        let connection = try await Self.connect()
        let local = "http://127.0.0.1:9"
        let rehearsal = try Self.settings(store: local, clock: "2026-01-05T00:00:00Z@60")

        try await AppCheck.bind(Self.settings(store: local), on: connection)
        let before = try await Self.isRehearsal(connection)
        try await AppCheck.bind(rehearsal, on: connection)
        try await AppCheck.bind(rehearsal, on: connection)
        try await AppCheck.bind(Self.settings(store: local), on: connection)

        #expect(!before)
        #expect(try await Self.isRehearsal(connection))
        #expect(
            try await connection.query("SELECT action FROM repricer.audit_trail").map {
                try $0.text("action")
            } == ["begin_rehearsal"])
        await connection.close()
    }

    @Test func service_ofARealStore_refusesARehearsal() async throws {
        let connection = try await Self.connect()
        let real = try Self.settings(store: nil)

        try await AppCheck.checkStore(real, on: connection)
        try await AppCheck.bind(
            Self.settings(store: "http://127.0.0.1:9", clock: "2026-01-05T00:00:00Z@60"),
            on: connection)
        let refusal = await #expect(throws: CommandFailure.self) {
            try await AppCheck.checkStore(real, on: connection)
        }

        #expect(refusal?.code == .conflict)
        await connection.close()
    }

    @Test func rehearsal_whereSomethingWasSubmitted_isRefused() async throws {
        let connection = try await Self.connect()
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            INSERT INTO repricer.batches (batch_id, name, content_sha256, plan_hash, planned_as_of, row_count,
                submitted_at)
            VALUES (gen_random_uuid(), 'spring', 'c', 'p', '2026-01-05Z', 1, '2026-01-05Z')
            """)
        await owner.close()

        let refusal = await #expect(throws: PostgresError.self) {
            try await AppCheck.bind(
                Self.settings(store: "http://127.0.0.1:9", clock: "2026-01-05T00:00:00Z@60"),
                on: connection)
        }

        #expect(refusal?.sqlState?.code == "55000")
        #expect(try await !Self.isRehearsal(connection))
        await connection.close()
    }
}

import Facts
import Postgres
import ServiceKit

/// A private PostgreSQL that `Deploy/simulate` starts; each world has a database of its own in it.
package struct SimulationDatabase: Sendable {
    static let template = "simulation_template"
    let socket: String
    let name: String

    func url(_ user: String = "postgres") -> String {
        "postgresql:///\(name)?host=\(socket)&port=5432&user=\(user)"
    }

    private static func administer(_ socket: String, _ statements: String...) async throws {
        let owner = SimulationDatabase(socket: socket, name: "postgres")
        let connection = try await PostgresConnection.connect(
            owner.url(), applicationName: "simulation")
        for statement in statements { try await connection.script(statement) }
        await connection.close()
    }

    /// Made once: a rehearsal's schema, in which decisions are dated by the caller, without limits of approval.
    package static func prepare(_ socket: String, migrations: String) async throws {
        try await administer(
            socket, "DROP DATABASE IF EXISTS \(template)", "CREATE DATABASE \(template)")
        let made = SimulationDatabase(socket: socket, name: template)
        let connection = try await PostgresConnection.connect(
            made.url(), applicationName: "simulation")
        try await Migrator(directory: migrations).migrate(connection, at: World.start)
        try await connection.script(
            """
            UPDATE repricer.service_controls SET is_rehearsal = true;
            UPDATE repricer.default_limits SET max_rise_basis_points = NULL, max_fall_basis_points = NULL;
            """)
        await connection.close()
    }

    static func make(_ socket: String, seed: UInt64) async throws -> SimulationDatabase {
        let name = "world_\(seed)"
        let people = [
            "service": "repricer_service", "submitter": "repricer_pricing",
            "approver": "repricer_pricing",
        ]
        try await administer(
            socket, "DROP DATABASE IF EXISTS \(name) WITH (FORCE)",
            "CREATE DATABASE \(name) TEMPLATE \(template) STRATEGY FILE_COPY")
        for (person, role) in people {
            try await administer(
                socket,
                """
                DO $$ BEGIN CREATE ROLE \(name)_\(person) LOGIN IN ROLE \(role);
                EXCEPTION WHEN duplicate_object THEN NULL; END $$
                """)
        }
        return SimulationDatabase(socket: socket, name: name)
    }

    func pool(_ person: String, size: Int) -> DatabasePool {
        DatabasePool(
            conninfo: url("\(name)_\(person)"), applicationName: person, size: size,
            waitMax: .seconds(120))
    }

    /// Ends every session of the service, as a failover would.
    func cut() async throws {
        try await Self.administer(
            socket,
            """
            SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = '\(name)' AND application_name = 'service'
            """)
    }

    func drop() async throws {
        try await Self.administer(
            socket, "DROP DATABASE \(name) WITH (FORCE)",
            "DROP ROLE \(name)_service, \(name)_submitter, \(name)_approver")
    }
}

import Batches
import Facts
import Postgres
import Pricing

extension Invocation {
    /// Lends one connection to a command, and closes it when `body` is done. Here as for each pool, a person at a
    /// terminal sees what takes long.
    func withConnection<Result: Sendable>(
        _ configuration: Configuration, name: String = "repricer",
        _ body: @Sendable (PostgresConnection) async throws -> Result
    ) async throws -> Result {
        let connection = try await PostgresConnection.connect(
            configuration.databaseConninfo, applicationName: name)
        do {
            let result = try await waiting.watch { try await body(connection) }
            await connection.close()
            return result
        } catch {
            await connection.close()
            throw error
        }
    }

    /// Lends the database, with the instant of the command by the product's clock in UTC milliseconds.
    func withDatabase<Result: Sendable>(
        _ body: @Sendable (PostgresPool, Int64) async throws -> Result
    ) async throws -> Result {
        let configuration = try configuration()
        let now = try await now(configuration).milliseconds
        return try await withPool(configuration) { try await body($0, now) }
    }

    /// Lends a pool to a command that reads and writes. Throws on a database whose schema does not fit.
    func withPool<Result: Sendable>(
        _ configuration: Configuration, size: Int = 2,
        _ body: @Sendable (PostgresPool) async throws -> Result
    ) async throws -> Result {
        try await withUncheckedPool(configuration, name: "repricer", size: size) { pool in
            try await pool.withConnection { connection in
                try SchemaCheck.check(try await schemaState(connection))
                try await AppCheck.check(configuration, on: connection)
            }
            return try await body(pool)
        }
    }

    /// Lends a pool to a reader of reports, who may not even read the schema version. Throws where the settings name
    /// another app than the database's and, as for every command, where the database refuses the login.
    func withReportPool<Result: Sendable>(
        _ configuration: Configuration, name: String,
        _ body: (PostgresPool) async throws -> Result
    ) async throws -> Result {
        try await withUncheckedPool(configuration, name: name, size: 1) { pool in
            try await pool.withConnection { try await AppCheck.checkReader(configuration, on: $0) }
            return try await body(pool)
        }
    }

    private func withUncheckedPool<Result: Sendable>(
        _ configuration: Configuration, name: String, size: Int,
        _ body: (PostgresPool) async throws -> Result
    ) async throws -> Result {
        let pool = PostgresPool(
            conninfo: configuration.databaseConninfo, applicationName: name, size: size,
            options: .init(lockTimeout: dependencies.lockWait))
        do {
            let result = try await waiting.watch { try await body(pool) }
            await pool.close()
            return result
        } catch {
            await pool.close()
            throw error
        }
    }
}

extension PostgresPool {
    /// The rules that judge at an instant. A command reads one set, so that all its rows are judged alike. `known`: the
    /// rules as they were known then; nil stands for now.
    func rules(at now: Instant, knownAt known: Instant?) async throws -> RuleSet {
        try await withTransaction { try RuleQueries.load(.from, now, knownAt: known, on: $0) }
    }
}

/// Whether program and database fit together.
enum SchemaCheck {
    /// `version 11, newer than this program's 10`
    static func words(_ schema: SchemaState) -> String {
        let version = "version \(schema.version)"
        return schema.version > expectedSchemaVersion
            ? "\(version), newer than this program's \(expectedSchemaVersion)" : version
    }

    static func check(_ schema: SchemaState) throws {
        guard let problem = problem(schema) else { return }
        throw CommandFailure(.failed, problem.description)
    }

    static func problem(_ schema: SchemaState) -> ConfigurationProblem? {
        guard let misfit = schema.misfit(), let wrong = schema.obstacle() else { return nil }
        let remedy =
            switch misfit {
            case .notMigrated, .isBehind: "run `repricer migrate` as the owner of the database"
            case .isPastUs: "install the release that migrated it"
            }
        return ConfigurationProblem("schema", wrong, remedy: remedy)
    }
}

import Facts
package import Postgres
import Synchronization
package import Testing

/// A database of one test: a clone of the migrated template in the private cluster.
package struct TestDatabase: Sendable {
    let name: String
    let socketFolder: String

    @TaskLocal static var current: TestDatabase?

    var url: String { url(user: "postgres") }

    func url(user: String) -> String {
        "postgresql:///\(name)?host=\(socketFolder)&port=5432&user=\(user)"
    }

    static var required: TestDatabase {
        guard let current else {
            preconditionFailure("a test asks for a database outside @Suite(.database)")
        }
        return current
    }

    /// The connection string of this test's database, as its owner. Only in `@Suite(.database)`.
    package static var url: String { required.url }

    /// A connection as the database's owner.
    package static func connect() async throws -> PostgresConnection {
        try await PostgresConnection.connect(url, applicationName: "test")
    }

    /// Creates a person: a role that can log in, with the given roles; returns its connection
    /// string.
    ///
    /// Roles belong to the whole cluster and tests run side by side, so the role's real name is
    /// `loginName(name)`.
    package static func login(_ name: String, memberOf roles: [String]) async throws -> String {
        let database = required
        let login = loginName(name)
        var script = "CREATE ROLE \"\(login)\" LOGIN"
        if !roles.isEmpty {
            script += " IN ROLE " + roles.map { "\"\($0)\"" }.joined(separator: ", ")
        }
        // As who sets them up is told to: `config check` names each that is not, of whatever test.
        if roles.contains(where: { $0.hasPrefix("repricer_finance") }) {
            script +=
                " CONNECTION LIMIT 20; ALTER ROLE \"\(login)\" SET statement_timeout = '10min'"
        }
        try await TestCluster.shared.administer { [script] in try await $0.script(script) }
        return database.url(user: login)
    }

    /// From now on two must approve what the product as it ships asks two for.
    package static func shipDefaultLimits() async throws {
        let connection = try await connect()
        try await connection.script(
            """
            DELETE FROM repricer.default_limits;
            INSERT INTO repricer.default_limits SELECT * FROM test_support.shipped_limits
            """)
        await connection.close()
    }

    /// The folder of the cluster's socket, for what makes databases of its own.
    package static var socket: String { required.socketFolder }

    /// What `session_user` is for a person made by `login`.
    package static func loginName(_ name: String) -> String { "\(name)_\(required.name)" }

    /// An empty database beside this test's one, for migrators; it is gone with the cluster.
    package static func makeEmptyDatabase() async throws -> String {
        let empty = TestDatabase(
            name: "\(required.name)_empty", socketFolder: required.socketFolder)
        try await TestCluster.shared.administer {
            try await $0.script("CREATE DATABASE \(empty.name)")
        }
        return empty.url
    }

    /// A template of the schema that another folder of migrations makes; it is gone with the cluster.
    package static func makeTemplate(by migrations: String) async throws -> String {
        let template = TestDatabase(
            name: "\(required.name)_template", socketFolder: required.socketFolder)
        try await TestCluster.shared.administer {
            try await $0.script("CREATE DATABASE \(template.name)")
        }
        let connection = try await PostgresConnection.connect(
            template.url, applicationName: "test")
        try await migrate(connection, by: migrations)
        await connection.close()
        return template.name
    }

    /// Makes a template of what `fill` writes into a fresh database; it is gone with the cluster.
    package static func makeTemplate(
        _ fill: @Sendable (PostgresConnection) async throws -> Void
    ) async throws -> String {
        let template = try await TestCluster.shared.clone()
        let connection = try await PostgresConnection.connect(
            template.url, applicationName: "test")
        do {
            try await fill(connection)
        } catch {
            await connection.close()
            throw error
        }
        await connection.close()
        return template.name
    }

    /// Makes a rehearsal's schema by a folder of migrations: tests decide at instants of their own, and alone.
    static func migrate(_ connection: PostgresConnection, by folder: String) async throws {
        try await Migrator(directory: folder).migrate(connection, at: 1_767_571_200_000)
        // Stories raise prices as far as they like with one approver; who tests the limits asks for them.
        try await connection.script(
            """
            UPDATE repricer.service_controls SET is_rehearsal = true;
            DROP SCHEMA IF EXISTS test_support CASCADE;
            DROP SCHEMA IF EXISTS former CASCADE;
            CREATE SCHEMA test_support;
            CREATE TABLE test_support.shipped_limits AS SELECT * FROM repricer.default_limits;
            UPDATE repricer.default_limits SET max_rise_basis_points = NULL, max_fall_basis_points = NULL;
            """ + Keeping.byHand + FormerViews.all)
    }

    /// Runs `body` with another fresh database, which everything here then means: for what is to be tried anew.
    package static func withAnother<T: Sendable>(
        of template: String = TestCluster.template, _ body: @Sendable () async throws -> T
    ) async throws -> T {
        let database = try await TestCluster.shared.clone(of: template)
        let outcome: Result<T, any Error>
        do {
            outcome = .success(try await $current.withValue(database) { try await body() })
        } catch {
            outcome = .failure(error)
        }
        try await TestCluster.shared.drop(database)
        return try outcome.get()
    }

    /// Runs `body` in a transaction that is rolled back afterwards.
    package static func withRollback<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) async throws -> T
    ) async throws -> T {
        let connection = try await connect()
        let value: T
        do {
            try await connection.script("BEGIN")
            value = try await body(connection)
            try await connection.script("ROLLBACK")
        } catch {
            await connection.close()
            throw error
        }
        await connection.close()
        return value
    }
}

/// Gives each test of the suite its own database.
///
/// A missing PostgreSQL is a failure, never a skip. With `KEEP_FAILED=1` the database of a test that
/// threw or recorded an issue is kept, and how to connect is printed.
package struct DatabaseTrait: SuiteTrait, TestTrait, TestScoping {
    package var isRecursive: Bool { true }

    package func provideScope(
        for test: Test, testCase: Test.Case?, performing function: @Sendable () async throws -> Void
    ) async throws {
        let database = try await TestCluster.shared.makeDatabase()
        let hasFailed = Flag()
        let watcher = IssueHandlingTrait.compactMapIssues { issue in
            hasFailed.set()
            return issue
        }
        let outcome: Result<Void, any Error>
        do {
            try await TestDatabase.$current.withValue(database) {
                try await watcher.provideScope(for: test, testCase: testCase, performing: function)
            }
            outcome = .success(())
        } catch {
            hasFailed.set()
            outcome = .failure(error)
        }
        if hasFailed.isSet, environmentFlag("KEEP_FAILED") {
            await TestCluster.shared.keepDatabase(database)
        } else {
            try await TestCluster.shared.dropDatabase(database)
        }
        try outcome.get()
    }
}

/// Set once, from any thread.
private final class Flag: Sendable {
    private let value = Mutex(false)

    var isSet: Bool { value.withLock { $0 } }

    func set() {
        value.withLock { $0 = true }
    }
}

extension Trait where Self == DatabaseTrait {
    /// A database of its own for each test.
    package static var database: DatabaseTrait { DatabaseTrait() }
}

import Facts
import Postgres
import TestSupport
import Testing

@Suite(.database)
struct MigratorTests {
    private static let instant: Int64 = 1_767_571_200_123

    private let first = ("0001_first.sql", "CREATE TABLE repricer.a (n int);")
    private let second = ("0002_second.sql", "CREATE TABLE repricer.b (n int);")

    private func connectToEmptyDatabase() async throws -> PostgresConnection {
        try await PostgresConnection.connect(
            TestDatabase.makeEmptyDatabase(), applicationName: "test")
    }

    private func tables(_ connection: PostgresConnection) async throws -> [String] {
        try await connection.query(
            """
            SELECT tablename FROM pg_tables
            WHERE schemaname = 'repricer' AND tablename NOT IN ('schema_migrations', 'migration_steps') ORDER BY 1
            """
        ).map { try $0.text("tablename") }
    }

    @Test func migrate_whenEmpty_appliesAllOnceInOrder() async throws {
        let connection = try await connectToEmptyDatabase()
        try await MigrationFolder.with(second, first, ("README.md", "#"), ("schema.sql", "x")) {
            let migrator = try Migrator(directory: $0)
            let before = try await migrator.status(connection)

            let applied = try await migrator.migrate(connection, at: Self.instant)
            let again = try await migrator.migrate(connection, at: Self.instant + 1)

            let after = try await migrator.status(connection)
            #expect(before.pending.map(\.file) == ["0001_first.sql", "0002_second.sql"])
            #expect(applied == before.pending)
            #expect(again == [])
            #expect(after.pending == [])
            #expect(after.applied.map(\.name) == ["first", "second"])
            #expect(after.applied.map(\.appliedAt) == [Self.instant, Self.instant])
            #expect(try await tables(connection) == ["a", "b"])
            #expect(try await schemaState(connection).version == 2)
        }
    }

    @Test func status_whenNothingWasApplied_changesNothing() async throws {
        let connection = try await connectToEmptyDatabase()
        try await MigrationFolder.with(first) { folder in
            _ = try await Migrator(directory: folder).status(connection)

            let schemas = try await connection.query(
                "SELECT 1 FROM pg_namespace WHERE nspname = 'repricer'")
            #expect(schemas.isEmpty)
            #expect(try await schemaState(connection).version == 0)
        }
    }

    @Test func migrate_whenOneFileFails_keepsThoseBeforeAndNothingOfIt() async throws {
        let connection = try await connectToEmptyDatabase()
        let broken = ("0002_broken.sql", "CREATE TABLE repricer.b (n int); SELECT 1/0;")
        try await MigrationFolder.with(first, broken) { folder in
            let error = await #expect(throws: MigrationError.self) {
                try await Migrator(directory: folder).migrate(connection, at: Self.instant)
            }

            guard case .failed(2, "0002_broken.sql", let cause) = error else {
                Issue.record("unexpected: \(String(describing: error))")
                return
            }
            #expect(cause.sqlState?.isDataException == true)
        }
        #expect(try await tables(connection) == ["a"])
        #expect(try await schemaState(connection).version == 1)
        try await MigrationFolder.with(first, second) { folder in
            try await Migrator(directory: folder).migrate(connection, at: Self.instant)
        }
        #expect(try await tables(connection) == ["a", "b"])
    }

    @Test func migrate_whenAFileEndsItsTransaction_isRefused() async throws {
        let connection = try await connectToEmptyDatabase()
        try await MigrationFolder.with(("0001_commits.sql", "COMMIT;")) { folder in
            let error = await #expect(throws: MigrationError.self) {
                try await Migrator(directory: folder).migrate(connection, at: Self.instant)
            }

            guard case .failed(1, _, let cause) = error else {
                Issue.record("unexpected: \(String(describing: error))")
                return
            }
            #expect(cause.code == .transactionMisused)
        }
    }

    @Test func migrate_whenAnAppliedFileWasEdited_appliesNothing() async throws {
        let connection = try await connectToEmptyDatabase()
        try await MigrationFolder.with(first) { folder in
            try await Migrator(directory: folder).migrate(connection, at: Self.instant)
        }
        try await MigrationFolder.with((first.0, first.1 + " "), second) { folder in
            let migrator = try Migrator(directory: folder)
            let edited = MigrationError.editedAfterApply(version: 1, file: first.0)

            await #expect(throws: edited) { try await migrator.status(connection) }
            await #expect(throws: edited) {
                try await migrator.migrate(connection, at: Self.instant)
            }
        }
        #expect(try await tables(connection) == ["a"])
    }

    @Test func migrate_whenTheDatabaseIsNewer_isRefused() async throws {
        let connection = try await connectToEmptyDatabase()
        try await MigrationFolder.with(first, second) { folder in
            try await Migrator(directory: folder).migrate(connection, at: Self.instant)
        }
        try await MigrationFolder.with(first) { folder in
            await #expect(throws: MigrationError.databaseIsNewer(version: 2, name: "second")) {
                try await Migrator(directory: folder).migrate(connection, at: Self.instant)
            }
        }
    }

    @Test func migrate_whenManyRunAtOnce_appliesEachFileOnce() async throws {
        let url = try await TestDatabase.makeEmptyDatabase()
        try await MigrationFolder.with(first, second) { folder in
            let migrator = try Migrator(directory: folder)

            let applied = try await withThrowingTaskGroup(of: [Migration].self) { group in
                for _ in 0..<6 {
                    group.addTask {
                        let connection = try await PostgresConnection.connect(
                            url, applicationName: "test")
                        return try await migrator.migrate(connection, at: Self.instant)
                    }
                }
                return try await group.reduce([], +)
            }

            #expect(applied.map(\.version).sorted() == [1, 2])
        }
    }

    @Test func schemaVersion_ofTheTemplate_isTheExpectedAndReadableByTheService() async throws {
        let files = try Migration.read(directory: RepositoryFiles.path("Migrations"))
        let service = try await PostgresConnection.connect(
            TestDatabase.login("service", memberOf: ["repricer_service"]), applicationName: "test")

        let version = try await schemaState(service).version

        #expect(version == expectedSchemaVersion)
        #expect(files.last?.version == expectedSchemaVersion)
    }
}

@Suite
struct MigrationFileTests {
    @Test(arguments: [
        (["0001_a.sql", "0003_b.sql"], MigrationError.missingVersion(2)),
        (["0002_a.sql"], .missingVersion(1)),
        (["0000_a.sql", "0001_b.sql"], .missingVersion(1)),
        (
            ["0001_a.sql", "0001_b.sql"],
            .duplicateVersion(1, files: ["0001_a.sql", "0001_b.sql"])
        ),
        (["0001_a.sql", "2_b.sql"], .badFileName("2_b.sql")),
        (["0001_a.sql", "0002-b.sql"], .badFileName("0002-b.sql")),
        (["0001_A.sql"], .badFileName("0001_A.sql")),
    ])
    func read_whenNumbersOrNamesAreWrong_saysWhich(
        _ names: [String], _ expected: MigrationError
    ) async throws {
        try await MigrationFolder.with(names.map { ($0, "SELECT 1;") }) { folder in
            #expect(throws: expected) { try Migration.read(directory: folder) }
        }
    }

    @Test func read_whenDirectoryIsEmptyOrAbsent_saysSo() async throws {
        try await MigrationFolder.with([("README.md", "")]) { folder in
            #expect(throws: MigrationError.noMigrations(path: folder)) {
                try Migration.read(directory: folder)
            }
        }
        #expect(throws: MigrationError.directoryUnreadable(path: "/nonexistent")) {
            try Migration.read(directory: "/nonexistent")
        }
    }

    @Test func read_whenAFileHoldsNul_saysWhich() async throws {
        try await MigrationFolder.with([("0001_a.sql", "SELECT\0 1")]) { folder in
            #expect(throws: MigrationError.notText(file: "0001_a.sql")) {
                try Migration.read(directory: folder)
            }
        }
    }
}

/// A folder of migrations for the time of one closure.
private enum MigrationFolder {
    static func with(
        _ files: (String, String)..., body: (String) async throws -> Void
    ) async throws {
        try await with(files, body: body)
    }

    static func with(
        _ files: [(String, String)], body: (String) async throws -> Void
    ) async throws {
        let folder = try ScratchFolder()
        for (name, text) in files {
            let isMarked = text.contains("-- breaking:") || !name.hasSuffix(".sql")
            _ = try folder.file(name, (isMarked ? "" : "-- breaking: no\n") + text)
        }
        // The folder lives until its last use, which must not be before the body ends.
        defer { withExtendedLifetime(folder) {} }
        try await body(folder.path)
    }
}

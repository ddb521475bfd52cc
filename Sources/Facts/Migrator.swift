package import Postgres

/// Brings a database to the schema of a directory of migrations, one transaction a file.
///
/// Each transaction takes the same advisory lock and looks again at what is applied, so that two
/// migrators at once apply each file once. The row is recorded before the file runs: a file that
/// fails leaves neither.
package struct Migrator: Sendable {
    package let migrations: [Migration]

    /// Throws when the directory is unreadable or its numbers are not 1, 2, 3 …
    package init(directory: String) throws(MigrationError) {
        migrations = try Migration.read(directory: directory)
    }

    /// What the database has and what it lacks.
    package struct Status: Sendable, Equatable {
        package struct Applied: Sendable, Equatable {
            package let version: Int
            package let name: String
            /// UTC milliseconds.
            package let appliedAt: Int64
        }

        package let applied: [Applied]
        package let pending: [Migration]
    }

    /// Compares without changing anything. Throws `editedAfterApply` and `databaseIsNewer`.
    package func status(
        _ connection: PostgresConnection
    ) async throws(MigrationError) -> Status {
        do {
            return try await inspect(connection)
        } catch let error as MigrationError {
            throw error
        } catch {
            throw Self.wrap(error)
        }
    }

    /// Applies what is pending; returns the files applied by this call.
    ///
    /// - Parameter instant: recorded as `applied_at`, UTC milliseconds.
    @discardableResult
    package func migrate(
        _ connection: PostgresConnection, at instant: Int64
    ) async throws(MigrationError) -> [Migration] {
        do {
            // Editing is found out before anything is applied.
            let pending = try await inspect(connection).pending
            guard !pending.isEmpty else { return [] }
            try await checkRights(connection, makingRoles: pending.count == migrations.count)
            try await prepare(connection)
            var applied: [Migration] = []
            for migration in pending where try await apply(migration, connection, at: instant) {
                applied.append(migration)
            }
            return applied
        } catch let error as MigrationError {
            throw error
        } catch {
            throw Self.wrap(error)
        }
    }

    private static func wrap(_ error: any Error) -> MigrationError {
        let unexpected = PostgresError(.wrongCall, "unexpected error: \(error)")
        return .database(error as? PostgresError ?? unexpected)
    }

    private func inspect(_ connection: isolated PostgresConnection) throws -> Status {
        let presence = try connection.query(SchemaQueries.tablePresence).one()
        guard try presence.bool("is_present") else {
            return Status(applied: [], pending: migrations)
        }
        var applied: [Status.Applied] = []
        for row in try connection.query(SchemaQueries.applied) {
            let version = try row.int("version")
            let name = try row.text("name")
            guard migrations.indices.contains(version - 1) else {
                throw MigrationError.databaseIsNewer(version: version, name: name)
            }
            let migration = migrations[version - 1]
            guard try row.text("checksum") == checksum(of: migration, connection) else {
                throw MigrationError.editedAfterApply(version: version, file: migration.file)
            }
            let appliedAt = try row.milliseconds("applied_at")
            applied.append(.init(version: version, name: name, appliedAt: appliedAt))
        }
        let versions = Set(applied.map(\.version))
        return Status(
            applied: applied, pending: migrations.filter { !versions.contains($0.version) })
    }

    private func checksum(
        of migration: Migration, _ connection: isolated PostgresConnection
    ) throws -> String {
        try connection.query(SchemaQueries.checksum(of: migration.text)).one().text("checksum")
    }

    /// All that is missing at once: the files would fail at the first, or warn and leave the database open to everybody.
    private func checkRights(
        _ connection: PostgresConnection, makingRoles: Bool
    ) async throws {
        let rights = SchemaQueries.missingRights(makingRoles: makingRoles)
        let missing = try await connection.query(rights).map { row in
            MissingRight(
                missing: try row.text("missing"), statement: try row.text("statement"))
        }
        guard missing.isEmpty else { throw MigrationError.lacksRights(missing) }
    }

    /// The table that records migrations; it cannot come from a migration itself.
    private func prepare(_ connection: PostgresConnection) async throws {
        try await connection.transaction { connection in
            _ = try connection.query(SchemaQueries.lock)
            let presence = try connection.query(SchemaQueries.tablePresence).one()
            // Asked first, because CREATE SCHEMA IF NOT EXISTS needs rights on the database even
            // when there is nothing to create.
            guard try !presence.bool("is_present") else { return }
            try connection.script(SchemaQueries.createTable)
        }
    }

    /// False when another migrator was faster.
    private func apply(
        _ migration: Migration, _ connection: PostgresConnection, at instant: Int64
    ) async throws -> Bool {
        do {
            return try await connection.transaction { connection in
                _ = try connection.query(SchemaQueries.lock)
                let applied = try connection.query(SchemaQueries.applied).map {
                    try $0.int("version")
                }
                guard !applied.contains(migration.version) else { return false }
                let checksum = try checksum(of: migration, connection)
                try connection.execute(
                    SchemaQueries.record(migration, checksum: checksum, at: instant))
                try connection.script(migration.text)
                return true
            }
        } catch let error as PostgresError {
            throw MigrationError.failed(
                version: migration.version, file: migration.file, error)
        }
    }
}

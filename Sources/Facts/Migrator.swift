package import Postgres
package import ServiceKit
import Synchronization

/// Brings a database to the schema of a directory of migrations.
///
/// A file's first step is one transaction that also records the file's row: where it fails, neither is there. Further
/// steps are recorded when they are done, so that an interrupted migration can be resumed. Each transaction locks the
/// table of the record and reads again what is done, so that two migrators at once do each step once. It waits only
/// briefly for a lock on another table and tries again later, because all others who want the table wait behind it.
package struct Migrator: Sendable {
    package struct Limits: Sendable {
        /// How long one attempt waits for a lock. Everybody who wants the same table waits behind it.
        package var lockTimeout: Duration = .seconds(1)
        /// The wait between two attempts.
        package var wait = Backoff(first: .milliseconds(500), max: .seconds(10))
        /// The limit of all attempts of one transaction together.
        package var patience: Duration = .seconds(600)
        /// How long older programs may take to finish their work.
        package var programsWait: Duration = .seconds(60)
        package var programsPoll: Duration = .milliseconds(200)

        package init() {}
    }

    /// What a person is told while the migrator works.
    package enum Progress: Sendable, Equatable {
        case waitsForLock(file: String, holders: [String])
        case waitsForPrograms(file: String, sessions: Int, calls: Int)
        /// Programs that are connected and idle, and can make no call any more.
        case passedOver(file: String, sessions: Int)
        case step(file: String, what: String)
        case batch(file: String, what: String, bucket: Int?, rows: Int)
        case analyzes(table: String)
    }

    package let migrations: [Migration]
    package var limits = Limits()
    /// Called between steps, batches and attempts; true stops the migrator.
    package var isStopped: @Sendable () -> Bool = { false }
    package var report: @Sendable (Progress) -> Void = { _ in }

    /// Throws when the directory is unreadable or its numbers are not 1, 2, 3 …
    package init(directory: String) throws(MigrationError) {
        migrations = try Migration.read(directory: directory)
    }

    /// What the database has and what it lacks.
    package struct Status: Sendable, Equatable {
        package struct Applied: Sendable, Equatable {
            package let version: Int
            package let name: String
            /// When it was applied, in UTC milliseconds.
            package let appliedAt: Int64
        }

        package let applied: [Applied]
        /// What is not applied yet. The first of them may have begun.
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

    /// Applies what is pending; returns the files finished by this call.
    ///
    /// - Parameter instant: The instant that is recorded as `applied_at`, in UTC milliseconds.
    @discardableResult
    package func migrate(
        _ connection: PostgresConnection, at instant: Int64
    ) async throws(MigrationError) -> [Migration] {
        do {
            // An edited file is found before anything is applied.
            let pending = try await inspectAsOwner(connection).pending
            guard !pending.isEmpty else { return [] }
            try await checkRights(connection, makingRoles: pending.count == migrations.count)
            try await prepare(connection)
            var applied: [Migration] = []
            for migration in pending {
                let run = MigrationRun(migrator: self, migration: migration, instant: instant)
                if try await run.finish(connection) { applied.append(migration) }
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

    /// A user who may not even read the record lacks other rights too, so the error lists all of them.
    private func inspectAsOwner(_ connection: PostgresConnection) async throws -> Status {
        do {
            return try await inspect(connection)
        } catch let error as PostgresError where error.sqlState == .insufficientPrivilege {
            try await checkRights(connection, makingRoles: false)
            throw error
        }
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
            guard try row.text("checksum") == Self.checksum(of: migration, connection) else {
                throw MigrationError.editedAfterApply(version: version, file: migration.file)
            }
            guard try row.bool("is_finished") else { continue }
            let appliedAt = try row.milliseconds("applied_at")
            applied.append(.init(version: version, name: name, appliedAt: appliedAt))
        }
        let versions = Set(applied.map(\.version))
        return Status(
            applied: applied, pending: migrations.filter { !versions.contains($0.version) })
    }

    static func checksum(
        of migration: Migration, _ connection: isolated PostgresConnection
    ) throws -> String {
        try connection.query(SchemaQueries.checksum(of: migration.text)).one().text("checksum")
    }

    /// Throws `lacksRights` with every missing right. Without this check a file would fail at the first one, or only
    /// warn and leave the database open to everybody.
    private func checkRights(
        _ connection: PostgresConnection, makingRoles: Bool
    ) async throws {
        let rights = SchemaQueries.missingRights(makingRoles: makingRoles)
        let missing = try await connection.query(rights).map { row in
            MissingRight(
                missing: try row.text("missing"), statement: try row.textOrNil("statement"))
        }
        guard missing.isEmpty else { throw MigrationError.lacksRights(missing) }
    }

    /// Creates the tables that record migrations, because no migration can create them.
    private func prepare(_ connection: PostgresConnection) async throws {
        for attempt in 1... {
            do {
                return try await connection.transaction { connection in
                    let presence = try connection.query(SchemaQueries.tablePresence).one()
                    // It asks first, because CREATE SCHEMA IF NOT EXISTS needs rights on the database even where
                    // there is nothing to create.
                    guard try !presence.bool("is_present") else { return }
                    try connection.script(SchemaQueries.createTable)
                }
            } catch let error as PostgresError
                where error.sqlState?.isIntegrityConstraintViolation == true && attempt < 10
            {
                // Another migrator is creating them at this moment.
            }
        }
    }
}

package import Postgres

/// The schema that this program was written for: the highest number in `Migrations/`.
///
/// The program also runs on a newer schema, if none of the further migrations is breaking.
package let expectedSchemaVersion = 20

/// The schema of a database, and who may use it.
package struct SchemaState: Sendable, Equatable {
    /// The highest finished migration; 0 where there is none.
    package var version: Int
    /// The schema of the oldest program that may run: that of the newest breaking migration, from its announcement
    /// on.
    package var lowestProgram: Int = 0

    package enum Misfit: Sendable, Equatable {
        case notMigrated
        /// The database lacks migrations that the program needs.
        case isBehind
        /// A breaking migration that the program does not know was applied or is about to be.
        case isPastUs
    }

    /// Why a program of that schema cannot use it; nil where it can.
    package func misfit(of program: Int = expectedSchemaVersion) -> Misfit? {
        if version == 0 { return .notMigrated }
        if lowestProgram > program { return .isPastUs }
        return version < program ? .isBehind : nil
    }

    /// The misfit in words, without a remedy.
    package func obstacle(to program: Int = expectedSchemaVersion) -> String? {
        switch misfit(of: program) {
        case nil: nil
        case .notMigrated: "the database is not migrated"
        case .isBehind:
            "the database has schema version \(version), this program needs \(program)"
        case .isPastUs:
            "the database is for programs of schema version \(lowestProgram) or newer, this one is of \(program)"
        }
    }
}

package func schemaState(
    _ connection: PostgresConnection
) async throws(PostgresError) -> SchemaState {
    let presence = try await connection.query(SchemaQueries.tablePresence).one()
    guard try presence.bool("is_present") else { return SchemaState(version: 0) }
    let row = try await connection.query(SchemaQueries.state).one()
    return SchemaState(
        version: try row.int("version"), lowestProgram: try row.int("lowest_program"))
}

/// A table that the service writes and this database user may not write; nil for a member of `repricer_service`.
package func tableClosedToService(
    _ connection: PostgresConnection
) async throws(PostgresError) -> String? {
    try await connection.query(SchemaQueries.closedTable).first?.text("name")
}

/// Whether the database takes no writes, because it is a standby or was set so.
package func isReadOnly(
    _ connection: PostgresConnection
) async throws(PostgresError) -> Bool {
    try await connection.query(SchemaQueries.isReadOnly).one().bool("is_read_only")
}

/// Whether this database user may read the reports.
package func reportsAreOpen(
    _ connection: PostgresConnection
) async throws(PostgresError) -> Bool {
    try await connection.query(SchemaQueries.reportsAreOpen).one().bool("are_open")
}

package import Postgres

/// The schema that this program was written for: the highest number in `Migrations/`.
///
/// The service refuses to start on any other.
package let expectedSchemaVersion = 10

/// The highest migration that was applied to the database; 0 when none was.
package func schemaVersion(
    _ connection: PostgresConnection
) async throws(PostgresError) -> Int {
    let presence = try await connection.query(SchemaQueries.tablePresence).one()
    guard try presence.bool("is_present") else { return 0 }
    return try await connection.query(SchemaQueries.version).one().int("version")
}

/// A table that the service writes and this database user may not; nil for a member of
/// `repricer_service`.
package func tableClosedToService(
    _ connection: PostgresConnection
) async throws(PostgresError) -> String? {
    try await connection.query(SchemaQueries.closedTable).first?.text("name")
}

/// Whether the database takes no writes: a standby, or one that was set so.
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

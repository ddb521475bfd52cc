import Facts
import Notifications
import ServiceKit

extension Commands {
    static let migrationsFolder = ValueOption(
        "migrations", "DIR", "the folder of NNNN_what.sql; found beside the program when left out")

    static let migrate = Command(
        "migrate", "bring the database to this program's schema", options: [migrationsFolder],
        discussion: """
            Applies each pending file of Migrations/ in a transaction of its own. Run it as the owner of the \
            database; several at once do no harm. Where the \
            settings name an app, the database is bound to it. The service refuses to start on another schema version.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let (migrator, folder) = try migrator(invocation, configuration)
        // The machine's clock: a schema has no part in a rehearsal's time.
        let now = invocation.dependencies.realClock.nowMilliseconds()
        let applied = try await invocation.withConnection(configuration) { connection in
            let applied = try await migrator.migrate(connection, at: now)
            if try await schemaVersion(connection) == expectedSchemaVersion {
                // Those of a rehearsal's time are made by `serve`, on its clock.
                _ = try await connection.read {
                    try MonthPartitions.prepareAll(
                        now: now, monthsAhead: MonthsAhead.count, on: $0)
                }
                try await AppCheck.bind(configuration, on: connection)
            }
            return applied
        }
        let version = migrator.migrations.count
        try invocation.print(
            json: [
                "applied": applied.map(\.file), "schema_version": version, "migrations": folder,
            ], applied.map { "applied \($0.file)\n" }.joined())
        if !invocation.isJSON {
            let shown = "schema version \(version), as \(harmless(folder)) has it"
            invocation.note(applied.isEmpty ? "nothing to do: \(shown)" : shown)
        }
        return .done
    }

    /// And the folder that was taken.
    static func migrator(
        _ invocation: Invocation, _ configuration: Configuration
    ) throws -> (Migrator, folder: String) {
        let folder = try MigrationsFolder.find(
            option: invocation.arguments[migrationsFolder], configuration: configuration,
            dependencies: invocation.dependencies)
        return (try Migrator(directory: folder), folder)
    }
}

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
            database; several at once do no harm. The service refuses to start on another schema version.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let (migrator, folder) = try migrator(invocation, configuration)
        // The machine's clock: a schema has no part in a rehearsal's time.
        let now = invocation.world.realClock.nowMilliseconds()
        let applied = try await invocation.withConnection(configuration) { connection in
            let applied = try await migrator.migrate(connection, at: now)
            if try await schemaVersion(connection) == expectedSchemaVersion {
                // Those of a rehearsal's time are made by `serve`, on its clock.
                _ = try await connection.read {
                    try MonthPartitions.prepareAll(
                        now: now, monthsAhead: MonthsAhead.count, on: $0)
                }
            }
            return applied
        }
        if invocation.isJSON {
            let files = applied.map { JSONValue.string($0.file) }
            try invocation.print(
                .object([
                    "applied": .array(files),
                    "schema_version": .integer(Int64(migrator.migrations.count)),
                    "migrations": .string(folder),
                ]))
        } else {
            for migration in applied { try invocation.print("applied \(migration.file)\n") }
            let version =
                "schema version \(migrator.migrations.count), as \(harmless(folder)) has it"
            invocation.note(applied.isEmpty ? "nothing to do: \(version)" : version)
        }
        return .done
    }

    /// And the folder that was taken.
    static func migrator(
        _ invocation: Invocation, _ configuration: Configuration
    ) throws -> (Migrator, folder: String) {
        let folder = try MigrationsFolder.find(
            option: invocation.arguments[migrationsFolder], configuration: configuration,
            world: invocation.world)
        return (try Migrator(directory: folder), folder)
    }
}

import Facts
import ServiceKit

extension Commands {
    static let migrateStatus = Command(
        "migrate status", "show which migrations are applied", options: [migrationsFolder],
        discussion: "Exits 1 while a migration is pending."
    ) { invocation in
        let configuration = try invocation.configuration()
        let (migrator, folder) = try migrator(invocation, configuration)
        let status = try await invocation.withConnection(configuration) { connection in
            try await migrator.status(connection)
        }
        let files: [(version: Int, name: String, appliedAt: Int64?)] =
            status.applied.map { ($0.version, $0.name, $0.appliedAt) }
            + status.pending.map { ($0.version, $0.name, nil) }
        try invocation.print(
            json: [
                "applied": status.applied.json([
                    .key("version") { $0.version }, .key("name") { $0.name },
                    .key("applied_at") { $0.appliedAt.instantText },
                ]),
                "pending": status.pending.json([
                    .key("version") { $0.version }, .key("name") { $0.name },
                ]), "migrations": folder,
            ],
            files.table(
                [
                    .shown(.right("VERSION")) { "\($0.version)" },
                    .shown(.left("NAME")) { $0.name },
                    .shown(.left("APPLIED")) { $0.appliedAt?.instantText ?? "pending" },
                ], isShownEmpty: true))
        if !invocation.isJSON { invocation.note("files: \(harmless(folder))") }
        return status.pending.isEmpty ? .done : .failed
    }
}

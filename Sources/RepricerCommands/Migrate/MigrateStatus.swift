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
        if invocation.isJSON {
            try invocation.print(json(status, folder))
        } else {
            var table = Table([.right("VERSION"), .left("NAME"), .left("APPLIED")])
            for applied in status.applied {
                table.add(["\(applied.version)", applied.name, RFC3339.format(applied.appliedAt)])
            }
            for pending in status.pending {
                table.add(["\(pending.version)", pending.name, "pending"])
            }
            try invocation.print(table.text)
            invocation.note("files: \(harmless(folder))")
        }
        return status.pending.isEmpty ? .done : .failed
    }

    private static func json(_ status: Migrator.Status, _ folder: String) -> JSONValue {
        let applied = status.applied.map { applied in
            JSONValue.object([
                "version": .integer(Int64(applied.version)), "name": .string(applied.name),
                "applied_at": .string(RFC3339.format(applied.appliedAt)),
            ])
        }
        let pending = status.pending.map { pending in
            JSONValue.object([
                "version": .integer(Int64(pending.version)), "name": .string(pending.name),
            ])
        }
        return .object([
            "applied": .array(applied), "pending": .array(pending), "migrations": .string(folder),
        ])
    }
}

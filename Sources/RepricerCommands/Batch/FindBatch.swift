import Batches
import Postgres

extension Commands {
    static let batch = Positional("BATCH", "the batch's id or its name")
    static let everything = Flag("all", "everything, whatever the batch")
}

/// Batches by id, or by name where only one has it.
enum BatchFinder {
    /// nil where none was named.
    static func find(_ text: String?, pool: PostgresPool) async throws -> BatchQueries.Batch? {
        if let text { try await find(text, pool: pool) as BatchQueries.Batch } else { nil }
    }

    static func find(_ text: String, pool: PostgresPool) async throws -> BatchQueries.Batch {
        let all = try await pool.withTransaction { try BatchQueries.all(on: $0) }
        if let found = all.first(where: { $0.batchID == text.lowercased() }) { return found }
        let named = all.filter { $0.name == text }
        guard let only = named.first else {
            let lists = "`repricer status` lists them"
            throw CommandFailure(
                .inputRejected,
                ExtensionArguments.isUUID(text)
                    ? "no batch \(quoted(text)): \(lists), and `repricer extend status` the extensions"
                    : "no batch \(quoted(text)); \(lists)")
        }
        // A name that was withdrawn and used again means the live one.
        let live = named.filter { $0.state != "aborted" && $0.state != "rejected" }
        guard named.count == 1 || live.count == 1 else {
            throw CommandFailure(
                .conflict, "\(named.count) batches are called \(quoted(text)); give the id")
        }
        return live.first ?? only
    }
}

import Batches
import Postgres
import ServiceKit

extension Commands {
    static let batch = Positional("BATCH", BatchFinder.meaning, noun: .batches)
    static let everything = Flag("all", "everything, whatever the batch")
}

/// Finds batches by id, by name, or by the beginning of an id that only one has.
enum BatchFinder {
    static let meaning = "the batch's name, its id, or the beginning of its id"
    private static let candidatesMax = 10

    /// Finds the batch; nil where none was named.
    static func find(_ text: String?, pool: PostgresPool) async throws -> BatchQueries.Batch? {
        if let text { try await find(text, pool: pool) as BatchQueries.Batch } else { nil }
    }

    static func find(_ text: String, pool: PostgresPool) async throws -> BatchQueries.Batch {
        try choose(text, among: try await pool.withTransaction { try BatchQueries.all(on: $0) })
    }

    static func choose(
        _ text: String, among all: [BatchQueries.Batch]
    ) throws(CommandFailure) -> BatchQueries.Batch {
        let id = text.lowercased()
        if let found = all.first(where: { $0.batchID == id }) { return found }
        let named = all.filter { $0.name == text }
        // A name that was withdrawn and used again stands for the live batch.
        let live = named.filter { $0.state != "aborted" && $0.state != "rejected" }
        let begun = all.filter { !id.isEmpty && $0.batchID.hasPrefix(id) && $0.name != text }
        // A name that is also the beginning of another batch's id stands for neither.
        let candidates = (live.isEmpty ? named : live) + begun
        guard let only = candidates.first else {
            let lists = "`repricer status` lists them"
            throw CommandFailure(
                .inputRejected,
                text.isUUID
                    ? "no batch \(quoted(text)): \(lists), and `repricer extend status` the extensions"
                    : "no batch \(quoted(text)); \(lists)")
        }
        guard candidates.count == 1 else {
            let shown = candidates.prefix(candidatesMax).map {
                "\($0.batchID) (\(harmless($0.name)), \($0.state))"
            }
            let more = candidates.count - shown.count
            throw CommandFailure(
                .conflict,
                named.isEmpty
                    ? "\(candidates.count) batches begin with \(quoted(text)); give more of the id: "
                        + shown.joined(separator: ", ") + (more > 0 ? " and \(more) more" : "")
                    : "\(candidates.count) batches are called \(quoted(text))"
                        + (begun.isEmpty ? "" : ", or begin with it") + "; give the id: "
                        + shown.joined(separator: ", ") + (more > 0 ? " and \(more) more" : ""))
        }
        return only
    }
}

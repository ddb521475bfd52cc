import Batches
import Postgres
import Reports
import ServiceKit

extension Commands {
    static let batch = Positional("BATCH", BatchFinder.meaning, noun: .batches)
    static let everything = Flag("all", "everything, whatever the batch")
}

/// Finds batches by id, by name, or by a unique beginning of an id.
enum BatchFinder {
    static let meaning = "the batch's name, its id, or the beginning of its id"

    /// Finds the batch; nil where none was named.
    static func find(_ text: String?, pool: PostgresPool) async throws -> BatchQueries.Batch? {
        if let text { try await find(text, pool: pool) as BatchQueries.Batch } else { nil }
    }

    static func find(_ text: String, pool: PostgresPool) async throws -> BatchQueries.Batch {
        try choose(text, among: try await pool.withTransaction { try BatchQueries.all(on: $0) })
    }

    /// Whether the text names one batch, or several.
    static func isNamed(_ text: String, pool: PostgresPool) async throws -> Bool {
        do {
            _ = try await find(text, pool: pool) as BatchQueries.Batch
            return true
        } catch let failure as CommandFailure {
            guard failure.code == .inputRejected else { throw failure }
            return false
        }
    }

    /// How a person types the batch.
    static func word(for batchID: String, pool: PostgresPool) async throws -> String {
        let all = try await pool.withTransaction { try BatchQueries.all(on: $0) }
        return NamedBatch.word(for: batchID, among: all.map(\.named))
    }

    private static func choose(
        _ text: String, among all: [BatchQueries.Batch]
    ) throws(CommandFailure) -> BatchQueries.Batch {
        let chosen: NamedBatch
        do {
            chosen = try NamedBatch.choose(
                text,
                among: all.map(\.named))
        } catch {
            throw failure(error, text)
        }
        guard let found = all.first(where: { $0.batchID == chosen.batchID }) else {
            throw failure(.unknown, text)
        }
        return found
    }

    private static func failure(_ fault: NamedBatch.Fault, _ text: String) -> CommandFailure {
        switch fault {
        case .ambiguous(let sentence): return CommandFailure(.conflict, sentence)
        case .unknown:
            let lists = "`repricer status` lists them"
            return CommandFailure(
                .inputRejected,
                mayBeID(text)
                    ? "no batch \(quoted(text)): \(lists), and `repricer extend status` the extensions"
                    : "no batch \(quoted(text)); \(lists)")
        }
    }

    /// Whether the text is an id, or looks too much like part of one to be a batch's name.
    private static func mayBeID(_ text: String) -> Bool {
        text.isUUID
            || text.count >= 8 && text.allSatisfy { $0.isASCII && ($0.isHexDigit || $0 == "-") }
    }
}

extension BatchQueries.Batch {
    var named: NamedBatch { NamedBatch(batchID: batchID, name: name, state: state) }
}

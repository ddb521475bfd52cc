import Extensions
import Postgres
import ServiceKit

/// Finds extensions by their id, or by a unique beginning of an id.
enum ExtensionFinder {
    static let meaning = "the extension's id, or the beginning of its id"

    private static let shownMax = 10

    /// The id of the extension that `text` stands for. A whole id is not looked up, because the following statement
    /// reports whether it exists.
    static func find(_ text: String, pool: PostgresPool) async throws -> String {
        if text.isUUID { return text.lowercased() }
        guard let found = try await begun(text, isMass: false, pool: pool) else {
            throw CommandFailure(
                .inputRejected,
                "no extension \(quoted(text)); `repricer extend status` lists them")
        }
        return found
    }

    /// The only id with this beginning; nil where there is none, or the text cannot begin an id. Throws where there are
    /// several.
    static func begun(_ text: String, isMass: Bool, pool: PostgresPool) async throws -> String? {
        guard let range = range(of: text) else { return nil }
        let ids = try await pool.withTransaction {
            try ExtensionQueries.ids(
                from: range.first, to: range.last, isMass: isMass, limit: shownMax + 1, on: $0)
        }
        guard ids.count > 1 else { return ids.first }
        let shown = ids.prefix(shownMax).joined(separator: ", ")
        throw CommandFailure(
            .conflict,
            "several extensions begin with \(quoted(text)); give more of the id: \(shown)"
                + (ids.count > shownMax ? " and more" : ""))
    }

    /// The smallest and the largest id with this beginning.
    private static func range(of text: String) -> (first: String, last: String)? {
        let begun = text.lowercased()
        let least = "00000000-0000-0000-0000-000000000000"
        guard !begun.isEmpty, begun.count < least.count else { return nil }
        let first = begun + least.dropFirst(begun.count)
        let last = begun + least.replacing("0", with: "f").dropFirst(begun.count)
        return first.isUUID && last.isUUID ? (first, last) : nil
    }
}

/// A batch as people name it: by its name, its id, or a unique beginning of its id.
package struct NamedBatch: Sendable, Hashable {
    package var batchID: String
    package var name: String
    package var state: String

    package init(batchID: String, name: String, state: String) {
        self.batchID = batchID
        self.name = name
        self.state = state
    }

    private var isLive: Bool { state != "aborted" && state != "rejected" }

    /// Why a text does not name exactly one batch.
    package enum Fault: Error, Hashable, Sendable {
        case unknown
        /// The text lists them.
        case ambiguous(String)
    }

    private static let shownMax = 10
    /// Fewer letters of an id say little, and the next batch would take them.
    private static let shortest = 8

    /// How a printed command names the batch: by the shortest unique beginning of its id. The whole 36 letters would
    /// break the line of a terminal or a phone. A name is not safe: a withdrawn batch frees its name, so the same
    /// command typed later could decide about another batch.
    package static func word(for batchID: String, among all: [NamedBatch]) -> String {
        for length in shortest..<max(shortest, batchID.count) {
            let beginning = String(batchID.prefix(length))
            if !beginning.hasSuffix("-"), stands(beginning, for: batchID, among: all) {
                return beginning
            }
        }
        return batchID
    }

    private static func stands(_ text: String, for id: String, among all: [NamedBatch]) -> Bool {
        // Words that stand for several batches, or for none, are none of this one.
        (try? choose(text, among: all))?.batchID == id
    }

    /// The batch that `text` stands for. Every command and every report uses this, so that the same text never stands
    /// for two batches.
    package static func choose(
        _ text: String, among all: [NamedBatch]
    ) throws(Fault) -> NamedBatch {
        let id = text.lowercased()
        if let found = all.first(where: { $0.batchID == id }) { return found }
        let named = all.filter { $0.name == text }
        // A name that a withdrawn batch had and a new one uses again stands for the live batch.
        let live = named.filter(\.isLive)
        let begun = all.filter { !id.isEmpty && $0.batchID.hasPrefix(id) && $0.name != text }
        // A name that is also the beginning of another batch's id stands for neither.
        let candidates = (live.isEmpty ? named : live) + begun
        guard let only = candidates.first else { throw .unknown }
        guard candidates.count == 1 else {
            throw .ambiguous(
                sentence(text, candidates, isName: !named.isEmpty, isBeginning: !begun.isEmpty))
        }
        return only
    }

    private static func sentence(
        _ text: String, _ candidates: [NamedBatch], isName: Bool, isBeginning: Bool
    ) -> String {
        let shown = candidates.prefix(shownMax).map {
            "\($0.batchID) (\(withoutControls($0.name)), \($0.state))"
        }
        let more = candidates.count - shown.count
        let what =
            isName
            ? "are called \(quotedText(text))\(isBeginning ? ", or begin with it" : ""); give the id"
            : "begin with \(quotedText(text)); give more of the id"
        return "\(candidates.count) batches \(what): \(shown.joined(separator: ", "))"
            + (more > 0 ? " and \(more) more" : "")
    }
}

/// The text in quotation marks, with control characters made visible, because it came from outside.
package func quotedText(_ text: String) -> String {
    var result = "\""
    for scalar in text.unicodeScalars {
        switch scalar {
        case "\"": result += "\\\""
        case "\\": result += "\\\\"
        case "\u{0}"..."\u{1F}", "\u{7F}"..."\u{9F}":
            result += "\\u{\(String(scalar.value, radix: 16))}"
        case let plain: result.unicodeScalars.append(plain)
        }
    }
    return result + "\""
}

/// One JSON text (RFC 8259), checked from end to end and indexed, but not yet copied into values.
///
/// There are two rules where the RFC leaves a choice. Where an object repeats a name, the last value counts, as in
/// `JSON.parse`, PostgreSQL's `jsonb` and the App Store's own libraries. A lone surrogate (`\uD800`) is valid grammar
/// but not valid text, so only the value that holds it reads as absent.
package final class JSONDocument: Sendable {
    /// The limits of one text. The index takes 16 bytes per value, so `valuesMax` bounds its memory.
    package struct Limits: Sendable {
        /// The most bytes. It is itself at most `UInt32.max`, because the index keeps 32-bit offsets.
        package var bytesMax: Int
        /// The deepest nesting of arrays and objects.
        package var depthMax: Int
        /// The most values, counting each member's name as one.
        package var valuesMax: Int

        package init(
            bytesMax: Int = 16 << 20, depthMax: Int = 64, valuesMax: Int = 1 << 20
        ) {
            self.bytesMax = min(bytesMax, Int(UInt32.max))
            self.depthMax = depthMax
            self.valuesMax = valuesMax
        }
    }

    let bytes: [UInt8]
    let entries: [JSONEntry]

    /// Reads the whole text. Only blanks may follow its one value.
    package init(_ bytes: [UInt8], limits: Limits = Limits()) throws(JSONFault) {
        self.bytes = bytes
        entries = try JSONScanner.entries(bytes, limits: limits)
    }

    package var root: JSONNode { JSONNode(document: self, index: 0) }

    /// The value of one text; nil where it is not JSON.
    package static func read(_ bytes: [UInt8], limits: Limits = Limits()) -> JSONNode? {
        // The error is dropped: a caller that needs the place of the fault calls `init`.
        try? JSONDocument(bytes, limits: limits).root
    }
}

/// Why a text is refused. It is safe to show, because it quotes nothing of the text.
package struct JSONFault: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: String, Hashable, Sendable {
        case tooLarge, tooDeep, tooMany, cutShort, unexpectedByte, badNumber, badEscape, badUTF8
    }

    package let code: Code
    /// The number of bytes before the fault.
    package let offset: Int

    package init(code: Code, offset: Int) {
        self.code = code
        self.offset = offset
    }

    package var description: String {
        let what =
            switch code {
            case .tooLarge: "too long a text"
            case .tooDeep: "too many lists and objects within each other"
            case .tooMany: "too many values"
            case .cutShort: "the text ends early"
            case .unexpectedByte: "an unexpected character"
            case .badNumber: "a number that JSON does not have"
            case .badEscape: "an escape that JSON does not have"
            case .badUTF8: "no UTF-8"
            }
        return "\(what), at byte \(offset)"
    }
}

/// One value, or the name of a member, by its place in the text.
struct JSONEntry {
    enum Kind: UInt8 {
        case null, `true`, `false`, number, text, escapedText, array, object
    }

    var kind: Kind
    /// The value's first byte; for a text the first one within the quotes.
    var start: UInt32
    /// The byte after the last one; for a text the closing quote.
    var end: UInt32
    /// The index of the entry that follows this value and everything in it. While a container is still open, the index
    /// of its own container.
    var next: UInt32
}

/// One JSON text (RFC 8259), checked from end to end and indexed, but not yet copied into values.
///
/// There are two rules where the RFC leaves a choice. A name that an object holds twice has its last value, as
/// `JSON.parse`, PostgreSQL's `jsonb` and the App Store's own libraries read it. A lone surrogate (`\uD800`) is
/// grammar but no text, so only the value that holds it reads as absent.
package final class JSONDocument: Sendable {
    /// What a text may cost. The index takes 16 bytes a value, so `valuesMax` bounds the memory.
    package struct Limits: Sendable {
        /// The most bytes, at most `UInt32.max`, because the index keeps offsets of 32 bits.
        package var bytesMax: Int
        /// The most arrays and objects within one another.
        package var depthMax: Int
        /// The most values and names of members.
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

    /// The value of one text, nil where it is no JSON.
    package static func read(_ bytes: [UInt8], limits: Limits = Limits()) -> JSONNode? {
        // The caller only asks whether it is JSON; who needs the place of the fault calls `init`.
        try? JSONDocument(bytes, limits: limits).root
    }
}

/// Why a text is refused. It is safe to show, because nothing of the text is in it.
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
    /// The entry after this value and everything that it holds. While a container is still open, it is the one that
    /// holds it.
    var next: UInt32
}

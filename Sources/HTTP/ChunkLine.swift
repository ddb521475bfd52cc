import ServiceKit

/// The line before a chunk: its size and extensions (RFC 9112, section 7.1).
enum ChunkLine {
    /// The size, and how many bytes the extensions took; nil when it is not exactly a line of that grammar.
    ///
    /// Readers that skip unknown extensions disagree about where the line ends. So the grammar is checked, although no
    /// extension has a meaning here.
    static func parse(_ line: ArraySlice<UInt8>) -> (size: Int, extensionBytes: Int)? {
        let digits = line.prefix { Hex.value(of: $0) != nil }
        guard let size = MessageHead.hexadecimal(digits) else { return nil }
        var rest = line[digits.endIndex...]
        let extensionBytes = rest.count
        while !rest.isEmpty {
            skipBlanks(&rest)
            guard rest.popFirst() == UInt8(ascii: ";") else { return nil }
            skipBlanks(&rest)
            guard skipToken(&rest) else { return nil }
            var value = rest
            skipBlanks(&value)
            guard value.first == UInt8(ascii: "=") else { continue }
            value = value.dropFirst()
            skipBlanks(&value)
            guard skipQuoted(&value) || skipToken(&value) else { return nil }
            rest = value
        }
        return (size, extensionBytes)
    }

    private static func skipBlanks(_ rest: inout ArraySlice<UInt8>) {
        rest = rest.drop { $0 == 0x20 || $0 == 0x09 }
    }

    private static func skipToken(_ rest: inout ArraySlice<UInt8>) -> Bool {
        let end = rest.firstIndex { !HTTPCharacters.isToken($0) } ?? rest.endIndex
        defer { rest = rest[end...] }
        return end > rest.startIndex
    }

    private static func skipQuoted(_ rest: inout ArraySlice<UInt8>) -> Bool {
        guard rest.first == UInt8(ascii: "\"") else { return false }
        var text = rest.dropFirst()
        while let byte = text.popFirst() {
            if byte == UInt8(ascii: "\"") {
                rest = text
                return true
            }
            let character = byte == UInt8(ascii: "\\") ? text.popFirst() : byte
            guard let character, HTTPCharacters.isFieldValue(character) else { return false }
        }
        return false
    }
}

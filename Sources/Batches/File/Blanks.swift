/// Whether the byte is a space or a tab. They have no meaning around cells, headers, list elements and the texts of
/// NDJSON.
func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

extension ArraySlice<UInt8> {
    /// The text without the blanks at its ends.
    var withoutBlanks: ArraySlice<UInt8> {
        var slice = self
        while let first = slice.first, isBlank(first) { slice.removeFirst() }
        while let last = slice.last, isBlank(last) { slice.removeLast() }
        return slice
    }
}

extension [UInt8] {
    /// The bytes as text, without the blanks at its ends.
    var textWithoutBlanks: String { String(decoding: self[...].withoutBlanks, as: UTF8.self) }
}

extension String {
    /// The text without the blanks at its ends.
    var withoutBlanks: String {
        guard let first = utf8.first, let last = utf8.last, isBlank(first) || isBlank(last) else {
            return self
        }
        return Array(utf8).textWithoutBlanks
    }
}

extension BatchCell {
    /// The cell with each of its texts freed of the blanks at its ends.
    var withoutBlanks: BatchCell {
        switch self {
        case .text(let text): .text(text.withoutBlanks)
        case .texts(let texts): .texts(texts.map(\.withoutBlanks))
        case .number, .flag: self
        }
    }
}

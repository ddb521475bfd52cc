/// Spaces and tabs: around cells, headers, list elements and the texts of NDJSON they say nothing.
func isBlank(_ byte: UInt8) -> Bool { byte == 0x20 || byte == 0x09 }

extension ArraySlice<UInt8> {
    /// Without the blanks at its ends.
    var withoutBlanks: ArraySlice<UInt8> {
        var slice = self
        while let first = slice.first, isBlank(first) { slice.removeFirst() }
        while let last = slice.last, isBlank(last) { slice.removeLast() }
        return slice
    }
}

extension String {
    /// Without the blanks at its ends.
    var withoutBlanks: String {
        guard let first = utf8.first, let last = utf8.last, isBlank(first) || isBlank(last) else {
            return self
        }
        return trimmed(self)
    }
}

extension BatchCell {
    /// With each text without the blanks at its ends.
    var withoutBlanks: BatchCell {
        switch self {
        case .text(let text): .text(text.withoutBlanks)
        case .texts(let texts): .texts(texts.map(\.withoutBlanks))
        case .number, .flag: self
        }
    }
}

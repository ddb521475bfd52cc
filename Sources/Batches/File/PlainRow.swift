/// The fast path for rows of plain cells, which nearly all rows are. It parses them in place.
enum PlainRow {
    /// The cells without the blanks around them. Returns nil where the row needs the full parser: it has a `'`, bytes
    /// beyond ASCII, a quote that is not around a whole cell, another number of cells than the header, or nothing but
    /// separators.
    static func cells(
        of line: UnsafeBufferPointer<UInt8>, _ header: [BatchColumn]
    ) -> BatchCells? {
        guard line.allSatisfy({ $0 < 0x80 && $0 != UInt8(ascii: "'") }) else { return nil }
        var cells = BatchCells()
        // The position of the separator before the cell.
        var end = -1
        var isEmpty = true
        for column in header {
            guard end < line.count else { return nil }
            guard let (content, next) = cell(line, from: end + 1) else { return nil }
            let text = withoutBlanks(line[content])
            isEmpty = isEmpty && text.isEmpty
            if !column.isIgnored {
                cells[column] = .text(String(decoding: text, as: UTF8.self))
            }
            end = next
        }
        return isEmpty || end < line.count ? nil : cells
    }

    /// The position of the cell that begins at a place, and of the separator or the end of the line after it.
    private static func cell(
        _ bytes: UnsafeBufferPointer<UInt8>, from start: Int
    ) -> (content: Range<Int>, end: Int)? {
        let quote = UInt8(ascii: "\"")
        var end = start
        if start < bytes.count, bytes[start] == quote {
            end += 1
            while end < bytes.count, bytes[end] != quote { end += 1 }
            let isWhole =
                end < bytes.count
                && (end + 1 == bytes.count || bytes[end + 1] == CSVRecord.comma)
            return isWhole ? ((start + 1)..<end, end + 1) : nil
        }
        while end < bytes.count, bytes[end] != CSVRecord.comma {
            guard bytes[end] != quote else { return nil }
            end += 1
        }
        return (start..<end, end)
    }

    private static func withoutBlanks(
        _ bytes: Slice<UnsafeBufferPointer<UInt8>>
    ) -> UnsafeBufferPointer<UInt8> {
        var (first, last) = (bytes.startIndex, bytes.endIndex)
        while first < last, isBlank(bytes[first]) { first += 1 }
        while last > first, isBlank(bytes[last - 1]) { last -= 1 }
        return UnsafeBufferPointer(rebasing: bytes[first..<last])
    }
}

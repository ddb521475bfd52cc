/// One record of RFC 4180, from the bytes of one or more physical lines. Spaces and tabs before an opening quote and
/// after a closing one are no part of the cell.
enum CSVRecord: Hashable {
    case cells([[UInt8]])
    /// A quoted cell continues in the next line.
    case open
    case malformed(String)

    private static let quote = UInt8(ascii: "\"")
    static let comma = UInt8(ascii: ",")

    init(_ bytes: [UInt8], separator: UInt8 = comma) {
        var cells: [[UInt8]] = []
        var position = 0
        while true {
            var cell: [UInt8] = []
            let start = CSVRecord.afterBlanks(bytes, from: position, separator)
            if start < bytes.count, bytes[start] == CSVRecord.quote {
                guard let end = CSVRecord.quoted(bytes, from: start + 1, into: &cell) else {
                    self = .open
                    return
                }
                position = CSVRecord.afterBlanks(bytes, from: end, separator)
                guard position == bytes.count || bytes[position] == separator else {
                    self = .malformed("cell \(cells.count + 1) goes on after its closing quote")
                    return
                }
            } else {
                let end = bytes[position...].firstIndex(of: separator) ?? bytes.count
                cell = Array(bytes[position..<end])
                if cell.contains(CSVRecord.quote) {
                    self = .malformed("cell \(cells.count + 1) has a quote in its middle")
                    return
                }
                position = end
            }
            cells.append(cell)
            guard position < bytes.count else { break }
            position += 1
        }
        self = .cells(cells)
    }

    /// The position of the first byte that is neither a space nor a tab. A tab that separates cells is no blank.
    private static func afterBlanks(
        _ bytes: [UInt8], from start: Int, _ separator: UInt8
    ) -> Int {
        bytes[start...].firstIndex { !isBlank($0) || $0 == separator } ?? bytes.count
    }

    /// Reads up to the closing quote and returns the position after it; nil where there is none.
    private static func quoted(
        _ bytes: [UInt8], from start: Int, into cell: inout [UInt8]
    ) -> Int? {
        var position = start
        while position < bytes.count {
            guard let end = bytes[position...].firstIndex(of: quote) else { return nil }
            cell += bytes[position..<end]
            guard end + 1 < bytes.count, bytes[end + 1] == quote else { return end + 1 }
            cell.append(quote)
            position = end + 2
        }
        return nil
    }
}

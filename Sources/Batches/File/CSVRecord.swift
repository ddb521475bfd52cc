/// One record of RFC 4180, from the bytes of one or more physical lines.
enum CSVRecord: Hashable {
    case cells([[UInt8]])
    /// A quoted cell goes on in the next line.
    case open
    case malformed(String)

    private static let quote = UInt8(ascii: "\"")
    private static let comma = UInt8(ascii: ",")

    init(_ bytes: [UInt8]) {
        var cells: [[UInt8]] = []
        var position = 0
        while true {
            var cell: [UInt8] = []
            if position < bytes.count, bytes[position] == CSVRecord.quote {
                guard let end = CSVRecord.quoted(bytes, from: position + 1, into: &cell) else {
                    self = .open
                    return
                }
                position = end
                guard position == bytes.count || bytes[position] == CSVRecord.comma else {
                    self = .malformed("cell \(cells.count + 1) goes on after its closing quote")
                    return
                }
            } else {
                let end = bytes[position...].firstIndex(of: CSVRecord.comma) ?? bytes.count
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

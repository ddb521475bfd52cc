import ServiceKit

/// RFC 4180: CRLF, and quotes only where needed. NULL is an empty cell, and an empty text is `""`. It works on bytes,
/// because there are millions of cells.
struct CSVRows {
    private let areTexts: [Bool]
    private var bytes: [UInt8] = []
    private var field = 0

    /// - Parameter columns: In text columns, a `'` is put before what a spreadsheet would run as a formula.
    private init(_ columns: [ReportColumn], rows: Int) {
        areTexts = columns.map { $0.kind == .text }
        // As much as the rows of most reports have.
        bytes.reserveCapacity(rows * 512)
    }

    static func header(_ columns: [ReportColumn]) -> String {
        var rows = CSVRows([], rows: 1)
        rows.append(columns.map(\.name))
        return rows.text
    }

    static func text(_ page: ReportPage, _ columns: [ReportColumn]) -> String {
        var rows = CSVRows(columns, rows: page.count)
        page.forEach(cell: { rows.append($0) }, endOfRow: { rows.endRow() })
        return rows.text
    }

    static func text(_ cells: [[String?]], _ columns: [ReportColumn]) -> String {
        var rows = CSVRows(columns, rows: cells.count)
        for row in cells { rows.append(row) }
        return rows.text
    }

    private var text: String { String(decoding: bytes, as: UTF8.self) }

    private mutating func append(_ row: [String?]) {
        for cell in row {
            guard var cell else {
                append(nil as UnsafeBufferPointer<UInt8>?)
                continue
            }
            cell.withUTF8 { append($0) }
        }
        endRow()
    }

    private mutating func append(_ cell: UnsafeBufferPointer<UInt8>?) {
        if field > 0 { bytes.append(UInt8(ascii: ",")) }
        let isText = field < areTexts.count && areTexts[field]
        field += 1
        guard let cell else { return }
        let isEscaped = isText && SpreadsheetText.wouldRun(cell)
        let quote = UInt8(ascii: "\"")
        let needsQuotes =
            cell.isEmpty || cell.last == UInt8(ascii: " ")
            || !isEscaped && cell.first == UInt8(ascii: " ")
            || cell.contains { $0 == quote || $0 == UInt8(ascii: ",") || $0 == 13 || $0 == 10 }
        if needsQuotes { bytes.append(quote) }
        if isEscaped { bytes.append(UInt8(ascii: "'")) }
        guard needsQuotes else { return bytes.append(contentsOf: cell) }
        for byte in cell {
            if byte == quote { bytes.append(quote) }
            bytes.append(byte)
        }
        bytes.append(quote)
    }

    private mutating func endRow() {
        bytes.append(13)
        bytes.append(10)
        field = 0
    }
}

import Postgres

/// Some rows of a report, as the server sent them. There may be millions of cells, so writers read their bytes, and
/// only code that keeps cells makes texts of them.
package struct ReportPage: Sendable {
    private let rows: Rows
    private let areInstants: [Bool]

    init(_ rows: Rows, columns: [ReportColumn]) {
        self.rows = rows
        areInstants = columns.map { $0.kind == .instant }
    }

    package var count: Int { rows.count }

    /// The cells of all rows, in the order of the columns; nil for NULL.
    package var texts: [[String?]] {
        rows.map { row in
            var cells: [String?] = []
            cells.reserveCapacity(areInstants.count)
            forEachCell(of: row) { cells.append($0.map { String(decoding: $0, as: UTF8.self) }) }
            return cells
        }
    }

    /// Calls `cell` with each cell of each row, as UTF-8 that is valid only during the call, or nil for NULL; and
    /// `endOfRow` after each row.
    func forEach(cell: (UnsafeBufferPointer<UInt8>?) -> Void, endOfRow: () -> Void) {
        for row in rows {
            forEachCell(of: row, cell)
            endOfRow()
        }
    }

    private func forEachCell(of row: Row, _ body: (UnsafeBufferPointer<UInt8>?) -> Void) {
        row.forEachCell { field, bytes in
            guard let bytes, field < areInstants.count, areInstants[field] else {
                return body(bytes)
            }
            withInstant(bytes, body)
        }
    }
}

/// Converts an instant as PostgreSQL writes it in UTC to `2026-12-01T00:00:00.500Z`, with three or six digits of a
/// second where needed. The server would take five times as long. Any other text, such as `infinity`, stays.
func withInstant(
    _ text: UnsafeBufferPointer<UInt8>, _ body: (UnsafeBufferPointer<UInt8>) -> Void
) {
    let zone: StaticString = "+00"
    // PostgreSQL writes at most 32 bytes.
    guard text.count > zone.utf8CodeUnitCount, text.count <= 40,
        text.suffix(zone.utf8CodeUnitCount).elementsEqual(zone.description.utf8)
    else { return body(text) }
    withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 48) { cell in
        let count = instantBytes(text.dropLast(zone.utf8CodeUnitCount), to: cell)
        body(UnsafeBufferPointer(rebasing: cell.prefix(count)))
    }
}

/// Writes the local time of an instant as RFC 3339 has it, and returns how many bytes that are: at most eight more.
private func instantBytes(
    _ local: Slice<UnsafeBufferPointer<UInt8>>, to cell: UnsafeMutableBufferPointer<UInt8>
) -> Int {
    var count = 0
    func append(_ byte: UInt8) {
        cell[count] = byte
        count += 1
    }
    // PostgreSQL writes no zeros at the end, and at most six digits.
    var digits: Int?
    for byte in local {
        append(byte == UInt8(ascii: " ") ? UInt8(ascii: "T") : byte)
        digits = byte == UInt8(ascii: ".") ? 0 : digits.map { $0 + 1 }
    }
    if let digits, digits <= 6 {
        for _ in digits..<(digits > 3 ? 6 : 3) { append(UInt8(ascii: "0")) }
    }
    append(UInt8(ascii: "Z"))
    return count
}

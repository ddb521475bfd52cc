package import Pricing

/// Reads original transaction ids: one a line, or the column of that name of a CSV file. It never holds more than one
/// line.
package struct IdentifierFile {
    package enum Line: Sendable {
        case id(String, line: Int)
        case fault(RowFault, line: Int)
    }

    private static let column = BatchColumn.originalTransactionID.rawValue

    private let file: String
    private var scanner: LineScanner
    /// The place of the ids in a CSV file; nil where each line is an id.
    private var place: Int?
    private var columns = 1
    private var isBegun = false

    package init(_ source: any BatchByteSource, file: String) {
        self.file = file
        scanner = LineScanner(source)
    }

    /// The next line that is not blank; nil at the end.
    package mutating func next() throws(BatchFileError) -> Line? {
        while var line = try scanner.next() {
            if line.number == 1 { try line.stripMark(file) }
            guard line.bytes.contains(where: { $0 != 0x20 && $0 != 0x09 }) else { continue }
            if !isBegun {
                isBegun = true
                if isHeader(line) { continue }
            }
            do throws(RowFault) {
                return .id(try id(line), line: line.number)
            } catch {
                return .fault(error, line: line.number)
            }
        }
        return nil
    }

    private mutating func isHeader(_ line: PhysicalLine) -> Bool {
        guard !line.isTooLong, case .cells(let cells) = CSVRecord(line.bytes) else { return false }
        let names = cells.map { $0.textWithoutBlanks }
        guard let found = names.firstIndex(of: Self.column) else { return false }
        place = found
        columns = names.count
        return true
    }

    private func id(_ line: PhysicalLine) throws(RowFault) -> String {
        guard !line.isTooLong else {
            throw RowFault(
                .malformedRow, "the line is longer than \(LineScanner.lineBytesMax) bytes",
                remedy: "write one id a line")
        }
        guard let place else {
            return try BatchRowBuilder.checkedTransactionID(line.bytes.textWithoutBlanks)
        }
        guard case .cells(let cells) = CSVRecord(line.bytes), cells.count == columns else {
            throw RowFault(
                .malformedRow, "the row does not have the \(columns) cells of the header",
                remedy: "mend the row; a cell may not go on in the next line")
        }
        return try BatchRowBuilder.checkedTransactionID(cells[place].textWithoutBlanks)
    }
}

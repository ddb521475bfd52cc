/// The lines of a small CSV file, cut into cells. Commas, semicolons or tabs separate them, whichever the header has
/// most of.
///
/// A byte order mark, carriage returns and empty lines are passed over. So are lines that hold only separators, which
/// spreadsheets leave behind.
struct TableLines {
    struct Line: Hashable {
        var number: Int
        var cells: [String]
    }

    let header: HeaderRow
    private var written: [Line] = []
    private let hasDecimalCommas: Bool
    /// The faults of lines that are no record, in their order.
    private(set) var faults: [RuleFault] = []

    /// Reads a whole file. Throws where it cannot be read, has no header or more than `limit` lines.
    init(
        _ source: any BatchByteSource, file: String, limit: Int
    ) throws(BatchFileError) {
        var scanner = LineScanner(source)
        let first = try scanner.firstLine(of: file)
        let separator = TableLines.separator(of: first.bytes)
        hasDecimalCommas = separator != CSVRecord.comma
        header = try HeaderRow(first, file, separator: separator)
        while let line = try scanner.next() {
            if line.bytes.isEmpty { continue }
            guard line.number <= limit else {
                throw BatchFileError(
                    code: .badHeader, file: file, line: line.number,
                    message: "the file has more than \(limit) lines", remedy: "split it")
            }
            switch TableLines.cells(line, separator) {
            case .success(let cells):
                guard cells.contains(where: { !$0.isEmpty }) || cells.count == 1 else { continue }
                written.append(Line(number: line.number, cells: cells))
            case .failure(let fault): faults.append(fault)
            }
        }
    }

    /// The lines. Where commas do not separate cells, a comma in a column of decimal numbers is the decimal sign,
    /// unless exactly three digits follow it.
    func lines(decimalsIn isDecimal: (_ column: Int) -> Bool) -> [Line] {
        guard hasDecimalCommas else { return written }
        return written.map { line in
            var line = line
            for column in line.cells.indices where isDecimal(column) {
                line.cells[column] = TableLines.withDecimalPoint(line.cells[column])
            }
            return line
        }
    }

    /// The lines, with decimal numbers in some of the columns that the header names.
    func lines<Column: Hashable>(_ columns: [Column], decimals: Set<Column>) -> [Line] {
        lines { columns.indices.contains($0) && decimals.contains(columns[$0]) }
    }

    /// Throws where no row follows the header. Call it once the header has been checked.
    func refuseEmpty(_ file: String) throws(BatchFileError) {
        guard written.isEmpty, faults.isEmpty else { return }
        throw BatchFileError(
            code: .emptyFile, file: file, line: nil, message: "the file has no rows",
            remedy: "write a row below the header")
    }

    /// A column name as it is compared: in small letters, with `_` for whatever is neither letter nor digit.
    static func normalized(_ name: String) -> String {
        name.lowercased().split { !$0.isLetter && !$0.isNumber }.joined(separator: "_")
    }

    private static func separator(of bytes: [UInt8]) -> UInt8 {
        // For equal counts the first candidate wins, so it is the comma where there is no separator at all.
        [UInt8(ascii: ";"), UInt8(ascii: "\t")].reduce(CSVRecord.comma) { most, candidate in
            bytes.count { $0 == candidate } > bytes.count { $0 == most } ? candidate : most
        }
    }

    /// Spreadsheets that do not separate cells with commas write numbers with a decimal comma. Three digits after a
    /// comma could be thousands, so such a cell stays as it is.
    private static func withDecimalPoint(_ cell: String) -> String {
        guard let number = cell.wholeMatch(of: /(\d+),(\d{1,2}|\d{4,})/) else { return cell }
        return "\(number.1).\(number.2)"
    }

    private static func cells(
        _ line: PhysicalLine, _ separator: UInt8
    ) -> Result<[String], RuleFault> {
        func failure(_ message: String, _ remedy: String) -> Result<[String], RuleFault> {
            .failure(RuleFault(line.number, .malformedRow, message, remedy: remedy))
        }
        guard !line.isTooLong else {
            return failure(
                "the line is longer than \(LineScanner.lineBytesMax) bytes", "shorten it")
        }
        switch CSVRecord(line.bytes, separator: separator) {
        case .open: return failure("a quote is not closed", "close it on the same line")
        case .malformed(let what): return failure(what, "write the row as CSV")
        case .cells(let cells):
            let texts = cells.compactMap { String(validating: $0, as: UTF8.self) }
            guard texts.count == cells.count, !line.bytes.contains(0) else {
                return failure("the row is not plain UTF-8 text", "save the file as UTF-8")
            }
            return .success(texts.map(\.withoutBlanks))
        }
    }
}

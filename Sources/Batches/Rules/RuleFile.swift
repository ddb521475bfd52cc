package import Pricing

/// A file of rules that was read: our own columns, or the European Central Bank's reference rates.
package struct RuleFile: Hashable, Sendable {
    package struct Row: Hashable, Sendable {
        package var line: Int
        package var rule: RuleRow
        /// Whether the file itself says from when the row holds.
        package var isDated: Bool
    }

    package enum Form: Hashable, Sendable {
        case own
        /// `days` is the number of days that the file has rates of.
        case europeanCentralBank(days: Int)
    }

    /// More lines than the bank's history will have in this century.
    static let linesMax = 100_000

    package let form: Form
    package private(set) var rows: [Row] = []
    /// In the order of lines; a file with any is not imported at all.
    package private(set) var faults: [RuleFault] = []

    /// Reads all of a file. A bad row is a fault; a file that can't be read as rules throws.
    package init(source: any BatchByteSource, file: String) throws(BatchFileError) {
        var scanner = LineScanner(source)
        let header = try RuleFileHeader.read(&scanner, file: file)
        var lines: [(line: Int, cells: [String])] = []
        while let line = try scanner.next() {
            if line.bytes.isEmpty { continue }
            guard line.number <= RuleFile.linesMax else {
                throw BatchFileError(
                    code: .badHeader, file: file, line: line.number,
                    message: "the file has more than \(RuleFile.linesMax) lines",
                    remedy: "split it")
            }
            switch RuleFile.cells(line) {
            case .success(let cells): lines.append((line.number, cells))
            case .failure(let fault): faults.append(fault)
            }
        }
        guard !lines.isEmpty || !faults.isEmpty else {
            throw BatchFileError(
                code: .emptyFile, file: file, line: nil, message: "the file has no rows",
                remedy: "add a row for each rule")
        }
        switch header {
        case .own(let columns):
            form = .own
            let builder = RuleRowBuilder(columns: columns)
            for (line, cells) in lines {
                add { () throws(RuleFault) in [try builder.row(line: line, cells)] }
            }
        case .europeanCentralBank(let currencies):
            form = .europeanCentralBank(days: lines.count)
            for (line, cells) in lines {
                add { () throws(RuleFault) in
                    try EuropeanCentralBankFile.rows(line: line, cells, currencies)
                }
            }
        }
        faults += RuleFile.duplicates(of: rows, undated: "the import")
        faults.sort { $0.line < $1.line }
    }

    /// The same rows in force from another instant on.
    package func with(validFrom: Instant) -> RuleFile {
        var file = self
        for index in file.rows.indices {
            file.rows[index].rule.validFrom = validFrom
            file.rows[index].isDated = false
        }
        return file
    }

    private mutating func add(_ make: () throws(RuleFault) -> [Row]) {
        do throws(RuleFault) {
            rows += try make()
        } catch {
            faults.append(error)
        }
    }

    private static func cells(_ line: PhysicalLine) -> Result<[String], RuleFault> {
        func failure(_ message: String, _ remedy: String) -> Result<[String], RuleFault> {
            .failure(RuleFault(line.number, .malformedRow, message, remedy: remedy))
        }
        guard !line.isTooLong else {
            return failure(
                "the line is longer than \(LineScanner.lineBytesMax) bytes", "shorten it")
        }
        switch CSVRecord(line.bytes) {
        case .open: return failure("a quote is not closed", "close it on the same line")
        case .malformed(let what): return failure(what, "write the row as CSV")
        case .cells(let cells):
            let texts = cells.compactMap { String(validating: $0, as: UTF8.self) }
            guard texts.count == cells.count, !line.bytes.contains(0) else {
                return failure("the row is not plain UTF-8 text", "save the file as UTF-8")
            }
            return .success(texts.map(trimmed))
        }
    }

    /// The same rule twice from the same instant on would leave it to chance which one holds.
    static func duplicates(of rows: [Row], undated: String) -> [RuleFault] {
        var lines: [String: Int] = [:]
        return rows.compactMap { row in
            let name = "\(row.rule.key) from \(row.rule.validFrom?.text ?? undated)"
            guard let line = lines[name] else {
                lines[name] = row.line
                return nil
            }
            return RuleFault(
                row.line, .duplicateRow, "\(name) is also on line \(line)",
                remedy: "keep one of the rows")
        }
    }
}

/// Without the blanks around it.
func trimmed(_ text: String) -> String {
    let isBlank: (Character) -> Bool = { $0 == " " || $0 == "\t" }
    guard let first = text.firstIndex(where: { !isBlank($0) }),
        let last = text.lastIndex(where: { !isBlank($0) })
    else { return "" }
    return String(text[first...last])
}

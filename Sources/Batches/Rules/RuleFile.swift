package import Pricing

/// A file of rules that was read: our own columns, Apple's table of thresholds, or the European Central Bank's rates.
package struct RuleFile: Hashable, Sendable {
    package struct Row: Hashable, Sendable {
        package var line: Int
        package var rule: Rule
        /// Whether the file itself says from when the row holds.
        package var isDated: Bool
    }

    /// A row that withdraws an earlier row.
    package struct Withdrawal: Hashable, Sendable {
        package var line: Int
        package var key: Rule.Key
        /// From when the withdrawn row holds; nil where it has always held.
        package var validFrom: Instant?
    }

    package enum Form: Hashable, Sendable {
        case own
        case appleTable
        /// `days` is the number of days for which the file has rates.
        case europeanCentralBank(days: Int)
    }

    /// The most lines. The bank's history will not have as many in this century.
    static let linesMax = 100_000

    package let form: Form
    package private(set) var rows: [Row] = []
    package private(set) var withdrawals: [Withdrawal] = []
    /// The faults in the order of lines. A file with a fault is not imported at all.
    package private(set) var faults: [RuleFault] = []

    /// Reads a whole file. A bad row is a fault; a file that cannot be read as rules throws.
    package init(source: any BatchByteSource, file: String) throws(BatchFileError) {
        let table = try TableLines(source, file: file, limit: RuleFile.linesMax)
        let header = try RuleFileHeader(table.header)
        try table.refuseEmpty(file)
        faults = table.faults
        switch header {
        case .own(let columns):
            form = .own
            for line in table.lines(columns, decimals: [.amount, .perEuro]) {
                add(RuleRowBuilder.read(line.number, line.cells, columns))
            }
        case .appleTable(let columns):
            form = .appleTable
            for line in table.lines(columns, decimals: [.nonannual, .annual]) {
                add(AppleThresholdTable.read(line.number, line.cells, columns))
            }
        case .europeanCentralBank(let currencies):
            let lines = table.lines { $0 > 0 }
            form = .europeanCentralBank(days: lines.count)
            for line in lines {
                do throws(RuleFault) {
                    rows += try EuropeanCentralBankFile.rows(
                        line: line.number, line.cells, currencies)
                } catch {
                    faults.append(error)
                }
            }
        }
        faults += RuleFile.duplicates(of: rows, withdrawals, undated: "the import")
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

    /// The content of one line, and all that is wrong with it.
    struct ReadLine {
        var rows: [Row] = []
        var withdrawal: Withdrawal?
        var faults: [RuleFault] = []
    }

    private mutating func add(_ line: ReadLine) {
        faults += line.faults
        guard line.faults.isEmpty else { return }
        rows += line.rows
        if let withdrawal = line.withdrawal { withdrawals.append(withdrawal) }
    }

    /// The faults of rules that a file gives twice for the same instant. Which one holds would be arbitrary.
    static func duplicates(
        of rows: [Row], _ withdrawals: [Withdrawal], undated: String
    ) -> [RuleFault] {
        let said =
            rows.map {
                (
                    line: $0.line,
                    name: "\($0.rule.key.text) from \($0.rule.validFrom?.text ?? undated)"
                )
            }
            + withdrawals.map {
                (line: $0.line, name: "\($0.key.text) from \($0.validFrom?.text ?? "ever")")
            }
        var lines: [String: Int] = [:]
        return said.compactMap { line, name in
            guard let first = lines[name] else {
                lines[name] = line
                return nil
            }
            return RuleFault(
                line, .duplicateRow, "\(name) is also on line \(first)",
                remedy: "keep one of the rows")
        }
    }
}

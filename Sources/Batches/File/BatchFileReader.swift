package import Pricing
import ServiceKit

/// A row that the file itself spoiled, with what it held.
package struct SpoiledRow: Hashable, Sendable {
    /// Enough to find the row again; a file may be one long line.
    static let uncutBytesMax = 1000

    /// The physical line on which the row begins.
    package var line: Int
    /// The first, in the order of `RowCode`.
    package var fault: RowFault
    package var otherFaults: [RowFault] = []
    /// What the file says in each column, as far as it could be cut into cells.
    package var cells: [BatchColumn: String]
    /// The beginning of the row as it stands, where it could not be cut into cells; else empty.
    package var uncut = ""
    /// The item that it speaks of, where its cells say one: no other row may.
    package var item: BatchItem?

    package var faults: [RowFault] { [fault] + otherFaults }

    /// The row of a plan for it.
    package var plan: PlanRow {
        var plan = PlanRow(
            line: line, originalTransactionID: cells[.originalTransactionID] ?? "",
            sku: cells[.sku] ?? "", fault: fault)
        for fault in faults where !plan.cellFaults.contains(fault.code) {
            plan.cellFaults.append(fault.code)
        }
        return plan
    }
}

/// One item of one subscription, as a row names it.
package struct BatchItem: Hashable, Sendable {
    package var originalTransactionID: String
    package var sku: String
    /// Those that could be read.
    package var dependentSKUs: [String]
}

package enum BatchFileEntry: Hashable, Sendable {
    case row(BatchRow)
    case spoiled(SpoiledRow)
}

/// Reads a batch file, CSV or NDJSON, one row at a time and in bounded memory.
///
/// The form is told by the first character: `{` begins NDJSON. Each line of the file ends up in exactly one
/// entry; an unclosed quote costs its own line alone, because the lines that it swallowed are read again.
package struct BatchFileReader {
    /// A quoted cell over more lines than this was never closed.
    static let recordLinesMax = 100

    /// The file's columns in its order, without those of an earlier rejects file.
    package private(set) var columns: [BatchColumn]
    package let priceUnit: BatchPriceUnit

    private let file: String
    private let builder: BatchRowBuilder
    private var scanner: LineScanner
    /// The header's columns; nil for NDJSON.
    private let header: [BatchColumn]?

    /// Reads the header from a source; `file` is its name in messages.
    package init(
        source: any BatchByteSource, file: String, rules: RulesInForce
    ) throws(BatchFileError) {
        self.file = file
        scanner = LineScanner(source)
        let start = try BatchHeader.read(&scanner, file: file)
        switch start {
        case .csv(let csv):
            header = csv.columns
            columns = csv.columns.filter { !$0.isIgnored }
            priceUnit = csv.unit
        case .ndjson(let unit):
            header = nil
            priceUnit = unit
            columns = BatchColumn.allCases.filter {
                !$0.isIgnored && ($0 == unit.column || ($0 != .price && $0 != .priceMilliunits))
            }
        }
        builder = BatchRowBuilder(rules: rules, unit: priceUnit, isTyped: header == nil)
    }

    /// The next row, good or spoiled; nil at the end of the file.
    package mutating func next() throws(BatchFileError) -> BatchFileEntry? {
        while let line = try scanner.next() {
            if line.isTooLong {
                return uncut(
                    line, "the line is longer than \(LineScanner.lineBytesMax) bytes",
                    remedy: "split it, or look for a missing line break")
            }
            if line.bytes.allSatisfy(isBlank) { continue }
            guard let header else { return object(line) }
            if let cells = PlainRow.cells(of: line.bytes, header) {
                return builder.row(line: line.number, cells)
            }
            if let entry = try record(line, header) { return entry }
        }
        return nil
    }

    /// Nil for a line of separators alone: spreadsheets write them below the last row.
    private mutating func record(
        _ first: PhysicalLine, _ header: [BatchColumn]
    ) throws(BatchFileError) -> BatchFileEntry? {
        var lines = [first]
        var bytes = first.bytes
        while true {
            let reason: String
            switch CSVRecord(bytes) {
            case .cells(let cells):
                return cells.allSatisfy { $0.allSatisfy(isBlank) }
                    ? nil : row(first.number, cells, header)
            case .malformed(let message): reason = message
            case .open:
                if lines.count < BatchFileReader.recordLinesMax,
                    bytes.count <= LineScanner.lineBytesMax, let line = try scanner.next()
                {
                    lines.append(line)
                    if !line.isTooLong {
                        bytes += [UInt8(ascii: "\n")] + line.bytes
                        continue
                    }
                }
                reason = "a quoted cell is not closed"
            }
            scanner.putBack(lines.dropFirst())
            return uncut(first, reason, remedy: "close each quote, and double those inside")
        }
    }

    private func row(
        _ line: Int, _ cells: [[UInt8]], _ header: [BatchColumn]
    ) -> BatchFileEntry {
        var texts = BatchCells()
        var isUTF8 = true
        for (column, bytes) in zip(header, cells) {
            let text = String(validating: bytes[...].withoutBlanks, as: UTF8.self)
            if text == nil { isUTF8 = false }
            if !column.isIgnored {
                texts[column] = .text(SpreadsheetText.text(text ?? "").withoutBlanks)
            }
        }
        let extra = cells.dropFirst(header.count).map { String(validating: $0, as: UTF8.self) }
        guard isUTF8, extra.allSatisfy({ $0 != nil }) else {
            return spoiled(
                line, "the row is not UTF-8", remedy: "save the file as UTF-8", texts)
        }
        guard cells.count == header.count else {
            let rest = extra.compactMap { $0 }.joined(separator: ",")
            let note = rest.isEmpty ? "" : " (too many: \(rest.prefix(200)))"
            return spoiled(
                line, "the row has \(cells.count) cells, the header \(header.count)\(note)",
                remedy: "give each column one cell", texts)
        }
        return builder.row(line: line, texts)
    }

    private func object(_ line: PhysicalLine) -> BatchFileEntry {
        let members: [String: BatchCell]
        do throws(JSONLine.Malformed) {
            members = try JSONLine.members(line.bytes)
        } catch {
            return uncut(line, error.message, remedy: "write one JSON object a line")
        }
        var cells = BatchCells()
        var unknown: [String] = []
        for (name, cell) in members {
            guard let column = BatchColumn(rawValue: name) else {
                unknown.append(name)
                continue
            }
            if !column.isIgnored { cells[column] = cell }
        }
        var faults: [RowFault] = []
        if let name = unknown.min() {
            faults.append(
                RowFault(
                    .malformedRow, "there is no column \(shownInMessage(name))",
                    remedy: "use the columns of a batch file"))
        }
        let wrongUnit: BatchColumn = priceUnit == .decimal ? .priceMilliunits : .price
        if cells[wrongUnit] != nil {
            faults.append(
                RowFault(
                    .malformedRow, "the file's first row gives \(priceUnit.column.rawValue)",
                    remedy: "use the same one in each row"))
        }
        return builder.row(line: line.number, cells, besides: faults)
    }

    private func uncut(
        _ line: PhysicalLine, _ message: String, remedy: String
    ) -> BatchFileEntry {
        let fault = RowFault(.malformedRow, message, remedy: remedy)
        let text = String(decoding: line.bytes.prefix(SpoiledRow.uncutBytesMax), as: UTF8.self)
        return .spoiled(SpoiledRow(line: line.number, fault: fault, cells: [:], uncut: text))
    }

    private func spoiled(
        _ line: Int, _ message: String, remedy: String, _ cells: BatchCells
    ) -> BatchFileEntry {
        var row = SpoiledRow(
            line: line, fault: RowFault(.malformedRow, message, remedy: remedy),
            cells: cells.written)
        row.item = builder.item(cells)
        return .spoiled(row)
    }
}

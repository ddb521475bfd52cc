package import Pricing
import ServiceKit

/// A row that the file itself spoiled, with what it held.
package struct SpoiledRow: Hashable, Sendable {
    /// Enough to find the row again; a file may be one long line.
    static let uncutBytesMax = 1000

    /// The physical line on which the row begins.
    package var line: Int
    package var fault: RowFault
    /// What the file says in each column, as far as it could be cut into cells.
    package var cells: [BatchColumn: String]
    /// The beginning of the row as it stands, where it could not be cut into cells; else empty.
    package var uncut = ""

    /// The row of a plan for it.
    package var plan: PlanRow {
        PlanRow(
            line: line, originalTransactionID: cells[.originalTransactionID] ?? "",
            sku: cells[.sku] ?? "", fault: fault)
    }
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
            if line.bytes.allSatisfy({ header == nil && $0 == 0x20 }) { continue }
            guard let header else { return object(line) }
            return try record(line, header)
        }
        return nil
    }

    private mutating func record(
        _ first: PhysicalLine, _ header: [BatchColumn]
    ) throws(BatchFileError) -> BatchFileEntry {
        var lines = [first]
        var bytes = first.bytes
        while true {
            let reason: String
            switch CSVRecord(bytes) {
            case .cells(let cells): return row(first.number, cells, header)
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
            let text = String(validating: bytes, as: UTF8.self)
            if text == nil { isUTF8 = false }
            if !column.isIgnored { texts[column] = .text(SpreadsheetText.text(text ?? "")) }
        }
        let extra = cells.dropFirst(header.count).map { String(validating: $0, as: UTF8.self) }
        guard isUTF8, extra.allSatisfy({ $0 != nil }) else {
            return spoiled(
                line, "the row is not UTF-8", remedy: "save the file as UTF-8",
                cells: texts.written)
        }
        guard cells.count == header.count else {
            let rest = extra.compactMap { $0 }.joined(separator: ",")
            let note = rest.isEmpty ? "" : " (too many: \(rest.prefix(200)))"
            return spoiled(
                line, "the row has \(cells.count) cells, the header \(header.count)\(note)",
                remedy: "give each column one cell", cells: texts.written)
        }
        return build(line, texts)
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
        let written = cells.written
        let wrongUnit: BatchColumn = priceUnit == .decimal ? .priceMilliunits : .price
        if let name = unknown.min() {
            return spoiled(
                line.number, "there is no column \(shownInMessage(name))",
                remedy: "use the columns of a batch file", cells: written)
        }
        if cells[wrongUnit] != nil {
            return spoiled(
                line.number, "the file's first row gives \(priceUnit.column.rawValue)",
                remedy: "use the same one in each row", cells: written)
        }
        let required = BatchColumn.required + [priceUnit.column]
        if let missing = required.first(where: { cells[$0] == nil }) {
            return spoiled(
                line.number, "\(missing.rawValue) is missing", remedy: "add it", cells: written)
        }
        return build(line.number, cells)
    }

    private func build(_ line: Int, _ cells: BatchCells) -> BatchFileEntry {
        do throws(RowFault) {
            return .row(try builder.row(line: line, cells))
        } catch {
            return .spoiled(SpoiledRow(line: line, fault: error, cells: cells.written))
        }
    }

    private func uncut(
        _ line: PhysicalLine, _ message: String, remedy: String
    ) -> BatchFileEntry {
        let fault = RowFault(.malformedRow, message, remedy: remedy)
        let text = String(decoding: line.bytes.prefix(SpoiledRow.uncutBytesMax), as: UTF8.self)
        return .spoiled(SpoiledRow(line: line.number, fault: fault, cells: [:], uncut: text))
    }

    private func spoiled(
        _ line: Int, _ message: String, remedy: String, cells: [BatchColumn: String] = [:]
    ) -> BatchFileEntry {
        .spoiled(
            SpoiledRow(
                line: line, fault: RowFault(.malformedRow, message, remedy: remedy), cells: cells))
    }
}

import Pricing
import ServiceKit

/// Parses lines into rows. It is pure, so that pieces of one file can be read in parallel.
struct BatchRowParser: Sendable {
    /// What a line is.
    enum Result {
        case entry(BatchFileEntry)
        /// It has nothing but blanks or separators. Spreadsheets write such lines below the last row.
        case nothing
        /// The line is not a valid record of CSV, for this reason.
        case malformed(String)
    }

    /// The header's columns; nil for NDJSON.
    private let header: [BatchColumn]?
    private let priceUnit: BatchPriceUnit
    private let builder: BatchRowBuilder

    init(header: [BatchColumn]?, unit: BatchPriceUnit, rules: RulesInForce) {
        self.header = header
        priceUnit = unit
        builder = BatchRowBuilder(rules: rules, unit: unit, isTyped: header == nil)
    }

    /// Reads one line that is not too long, without its line feed.
    func read(_ line: UnsafeBufferPointer<UInt8>, _ number: Int) -> Result {
        if line.allSatisfy(isBlank) { return .nothing }
        guard let header else { return .entry(object(Array(line), number)) }
        if let cells = PlainRow.cells(of: line, header) {
            return .entry(builder.row(line: number, cells))
        }
        switch CSVRecord(Array(line)) {
        case .cells(let cells):
            return cells.allSatisfy { $0.allSatisfy(isBlank) }
                ? .nothing : .entry(row(number, cells, header))
        case .malformed(let reason): return .malformed(reason)
        case .open: return .malformed("a quoted cell is not closed on its line")
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

    private func object(_ line: [UInt8], _ number: Int) -> BatchFileEntry {
        let members: [String: BatchCell]
        do throws(JSONLine.Malformed) {
            members = try JSONLine.members(line)
        } catch {
            return uncut(line, number, error.message, remedy: "write one JSON object a line")
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
        return builder.row(line: number, cells, besides: faults)
    }

    /// The spoiled row of a line whose quotes are wrong.
    func misquoted(_ line: [UInt8], _ number: Int, _ reason: String) -> BatchFileEntry {
        uncut(
            line, number, reason,
            remedy: "close each quote, double those inside, and put no line break into a cell")
    }

    /// The spoiled row of a line that could not be cut into cells.
    func uncut(
        _ line: [UInt8], _ number: Int, _ message: String, remedy: String
    ) -> BatchFileEntry {
        let fault = RowFault(.malformedRow, message, remedy: remedy)
        let text = String(decoding: line.prefix(SpoiledRow.uncutBytesMax), as: UTF8.self)
        return .spoiled(SpoiledRow(line: number, fault: fault, cells: [:], uncut: text))
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

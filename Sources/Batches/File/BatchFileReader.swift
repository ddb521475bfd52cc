package import Pricing
import ServiceKit

/// A row whose own cells make it unusable, with its content.
package struct SpoiledRow: Hashable, Sendable {
    /// How many bytes of an uncut row are kept: enough to find it again, since a file may be one long line.
    static let uncutBytesMax = 1000

    /// The physical line on which the row begins.
    package var line: Int
    /// The first fault, in the order of `RowCode`.
    package var fault: RowFault
    package var otherFaults: [RowFault] = []
    /// The content of each column, as far as the row could be cut into cells.
    package var cells: [BatchColumn: String]
    /// The beginning of the row as it stands in the file, where it could not be cut into cells; otherwise empty.
    package var uncut = ""
    /// The item that its cells name. No other row may name that item.
    package var item: BatchItem?
    /// The new price in its cell, in milliunits; nil where there is none.
    package var newPrice: Int64?

    package var faults: [RowFault] { [fault] + otherFaults }

    /// The same row, with the faults that the environment adds.
    package func judged(in environment: StoreEnvironment) -> SpoiledRow {
        guard environment == .sandbox, fault.code != .malformedRow,
            cells[.effectiveOnOrAfter]?.withoutBlanks.isEmpty == false
        else { return self }
        var row = self
        // The code of a date is the first of all.
        (row.fault, row.otherFaults) = (.dateInSandbox, faults)
        return row
    }

    /// The row of the plan that refuses it.
    package var plan: PlanRow {
        var plan = PlanRow(
            line: line, originalTransactionID: cells[.originalTransactionID] ?? "",
            sku: cells[.sku] ?? "", fault: fault)
        plan.currency = content(of: .currency, unless: [.malformedRow, .unknownCurrency])
        plan.storefront = content(of: .storefront, unless: [.malformedRow])
        plan.newPrice = newPrice
        for fault in faults where !plan.cellFaults.contains(fault.code) {
            plan.cellFaults.append(fault.code)
        }
        return plan
    }
}

extension SpoiledRow {
    /// What a cell says that has no fault of its own.
    private func content(of column: BatchColumn, unless codes: Set<RowCode>) -> String? {
        guard !faults.contains(where: { codes.contains($0.code) }),
            let text = cells[column]?.withoutBlanks, !text.isEmpty
        else { return nil }
        return text
    }
}

/// One item of one subscription, as a row names it.
package struct BatchItem: Hashable, Sendable {
    package var originalTransactionID: String
    package var sku: String
    /// The dependents that could be read.
    package var dependentSKUs: [String]
}

package enum BatchFileEntry: Hashable, Sendable {
    case row(BatchRow)
    case spoiled(SpoiledRow)

    /// The row; nil for a spoiled one.
    var row: BatchRow? {
        switch self {
        case .row(let row): row
        case .spoiled: nil
        }
    }

    var isSpoiled: Bool { row == nil }

    /// The entry; a spoiled row with the faults that the environment adds.
    func judged(in environment: StoreEnvironment) -> BatchFileEntry {
        switch self {
        case .row: self
        case .spoiled(let row): .spoiled(row.judged(in: environment))
        }
    }
}

/// Reads a batch file, CSV or NDJSON, one row or one piece at a time and in bounded memory.
///
/// The first character decides the format: `{` begins NDJSON. Each line that is not blank ends up in exactly one entry.
/// No column of a batch file needs a line break, so none is read in a quoted cell, although RFC 4180 allows it: a stray
/// quote would otherwise swallow all rows up to the next one.
package struct BatchFileReader {
    /// The file's columns in its order, without those of an earlier rejects file.
    package private(set) var columns: [BatchColumn]
    package let priceUnit: BatchPriceUnit

    private let parser: BatchRowParser
    private var scanner: LineScanner

    /// Reads the header from a source; `file` is its name in messages.
    package init(
        source: any BatchByteSource, file: String, rules: RulesInForce
    ) throws(BatchFileError) {
        scanner = LineScanner(source)
        let header: [BatchColumn]?
        switch try BatchHeader.read(&scanner, file: file) {
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
        parser = BatchRowParser(header: header, unit: priceUnit, rules: rules)
    }

    /// The next row, good or spoiled; nil at the end of the file.
    package mutating func next() throws(BatchFileError) -> BatchFileEntry? {
        while let line = try scanner.next() {
            if line.isTooLong {
                return parser.uncut(
                    line.bytes, line.number,
                    "the line is longer than \(LineScanner.lineBytesMax) bytes",
                    remedy: "split it, or look for a missing line break")
            }
            switch line.bytes.withUnsafeBufferPointer({ parser.read($0, line.number) }) {
            case .nothing: continue
            case .entry(let entry): return entry
            case .malformed(let reason): return parser.misquoted(line.bytes, line.number, reason)
            }
        }
        return nil
    }

    /// About `rowsMax` rows, most of which are not parsed into cells yet; nil at the end of the file.
    package mutating func nextPiece(rowsMax: Int) throws(BatchFileError) -> BatchPiece? {
        var piece = BatchPiece(parser: parser)
        var rows = 0
        while rows < rowsMax {
            if let block = try scanner.block(linesMax: rowsMax - rows) {
                piece.parts.append(.lines(block))
                rows += block.count
            } else if let entry = try next() {
                piece.parts.append(.entry(entry))
                rows += 1
            } else {
                break
            }
        }
        return rows > 0 ? piece : nil
    }
}

/// A part of a batch file. Its rows can be read on any thread.
package struct BatchPiece: Sendable {
    fileprivate enum Part: Sendable {
        case lines(LineBlock)
        case entry(BatchFileEntry)
    }

    fileprivate let parser: BatchRowParser
    fileprivate var parts: [Part] = []

    /// Its rows, in their order; empty where its lines are.
    package func entries() -> [BatchFileEntry] {
        var entries: [BatchFileEntry] = []
        for part in parts {
            switch part {
            case .entry(let entry): entries.append(entry)
            case .lines(let block):
                entries.reserveCapacity(entries.count + block.count)
                block.forEach { line, number in
                    switch parser.read(line, number) {
                    case .nothing: break
                    case .entry(let entry): entries.append(entry)
                    case .malformed(let reason):
                        entries.append(parser.misquoted(Array(line), number, reason))
                    }
                }
            }
        }
        return entries
    }
}

package import Pricing
import ServiceKit

/// Writes refused rows as CSV with the file's own columns, to be mended and submitted again: the two columns
/// with code and reason at the end are skipped when the file comes back, and a `'` before what a spreadsheet would run.
package struct RejectsWriter {
    private let columns: [BatchColumn]
    private let unit: BatchPriceUnit

    /// For the columns of a reader.
    package init(columns: [BatchColumn], priceUnit: BatchPriceUnit) {
        self.columns = columns
        unit = priceUnit
    }

    /// The header row, with its line break.
    package var header: String {
        record(columns.map(\.rawValue) + ["reject_code", "reject_reason"])
    }

    /// A row that the file itself spoiled, as it stood there; one that could not be cut into cells stands as a
    /// whole in the first, where it can be mended and is refused until it is.
    package func line(_ row: SpoiledRow) -> String {
        var cells = columns.map { row.cells[$0] ?? "" }
        if !row.uncut.isEmpty, !cells.isEmpty { cells[0] = row.uncut }
        return record(cells + reason(row.fault))
    }

    /// A well-formed row that was refused.
    package func line(_ row: BatchRow, _ fault: RowFault) -> String {
        record(columns.map { cell(row, $0) } + reason(fault))
    }

    private func reason(_ fault: RowFault) -> [String] {
        [fault.code.rawValue, "\(fault.message); \(fault.remedy)"]
    }

    private func cell(_ row: BatchRow, _ column: BatchColumn) -> String {
        switch column {
        case .originalTransactionID: row.originalTransactionID
        case .sku: row.sku
        case .price, .priceMilliunits: price(row.newPrice)
        case .currency: row.currency
        case .storefront: row.storefront ?? ""
        case .dependentSKUs: row.dependentSKUs.joined(separator: ";")
        case .expectedPrice: row.expectedPrice.map(price) ?? ""
        case .effectiveOnOrAfter: row.effectiveOnOrAfter?.text ?? ""
        case .rejectCode, .rejectReason: ""
        }
    }

    private func price(_ milliunits: Int64) -> String {
        switch unit {
        case .decimal: PriceText.decimal(milliunits, decimals: milliunits % 1000 == 0 ? 0 : 2)
        case .milliunits: "\(milliunits)"
        }
    }

    private func record(_ cells: [String]) -> String {
        cells.map { quoted(isNumber($0) ? $0 : SpreadsheetText.cell($0)) }.joined(separator: ",")
            + "\r\n"
    }

    /// A wrong price, such as -5, is no formula.
    private func isNumber(_ cell: String) -> Bool {
        guard cell.hasPrefix("-") || cell.hasPrefix("+") else { return false }
        let digits = cell.utf8.dropFirst()
        return !digits.isEmpty
            && digits.allSatisfy { (0x30...0x39).contains($0) || $0 == UInt8(ascii: ".") }
    }

    private func quoted(_ cell: String) -> String {
        let needsQuotes = cell.utf8.contains { byte in
            byte == UInt8(ascii: "\"") || byte == UInt8(ascii: ",") || byte == UInt8(ascii: "\n")
                || byte == UInt8(ascii: "\r")
        }
        guard needsQuotes else { return cell }
        return "\""
            + cell.split(separator: "\"", omittingEmptySubsequences: false)
            .joined(separator: "\"\"") + "\""
    }
}

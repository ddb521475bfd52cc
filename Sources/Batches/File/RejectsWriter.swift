package import Pricing
import ServiceKit

/// Writes refused rows as CSV with the file's own columns, so that they can be corrected and submitted again. Three
/// columns at the end hold the code, the reason and all faults. The reader skips them, and also the `'` before what a
/// spreadsheet would run as a formula.
package struct RejectsWriter {
    private let columns: [BatchColumn]
    private let unit: BatchPriceUnit

    /// A writer for the columns of a reader.
    package init(columns: [BatchColumn], priceUnit: BatchPriceUnit) {
        self.columns = columns
        unit = priceUnit
    }

    /// The header row with its line break.
    package var header: String {
        CSVText.record(columns.map(\.rawValue) + ["reject_code", "reject_reason", "faults"])
    }

    /// The line for a row whose own cells make it unusable, with its content from the file. A row that could not be
    /// parsed into cells is written whole in the first column, and is refused until a person corrects it.
    package func line(_ row: SpoiledRow) -> String {
        var cells = columns.map { row.cells[$0] ?? "" }
        if !row.uncut.isEmpty, !cells.isEmpty { cells[0] = row.uncut }
        return CSVText.record(cells + reasons(row.faults))
    }

    /// The line for a well-formed row that was refused.
    package func line(_ row: BatchRow, _ fault: RowFault) -> String {
        CSVText.record(columns.map { cell(row, $0) } + reasons([fault]))
    }

    private func reasons(_ faults: [RowFault]) -> [String] {
        let codes = faults.map(\.code.rawValue)
        let distinct = codes.enumerated().filter { !codes.prefix($0).contains($1) }.map(\.element)
        return [
            distinct.first ?? "",
            faults.map { "\($0.message); \($0.remedy)" }.joined(separator: " | "),
            distinct.joined(separator: " "),
        ]
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
        case .rejectCode, .rejectReason, .faults: ""
        }
    }

    private func price(_ milliunits: Int64) -> String {
        switch unit {
        case .decimal: PriceText.decimal(milliunits, decimals: milliunits % 1000 == 0 ? 0 : 2)
        case .milliunits: "\(milliunits)"
        }
    }
}

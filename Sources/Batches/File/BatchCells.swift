/// The cells of one row by column. It is an array, because a dictionary of a dozen cells costs more than the rest of
/// the row's parsing.
struct BatchCells: Hashable {
    private var cells = [BatchCell?](repeating: nil, count: BatchColumn.allCases.count)

    subscript(column: BatchColumn) -> BatchCell? {
        get { cells[column.place] }
        set { cells[column.place] = newValue }
    }

    /// The cells in the order of the columns; nil where there is none.
    var all: [BatchCell?] { cells }

    /// The cells as they would stand in a CSV file.
    var written: [BatchColumn: String] {
        var written: [BatchColumn: String] = [:]
        for column in BatchColumn.allCases { written[column] = self[column]?.written }
        return written
    }
}

extension BatchColumn {
    /// The place of the column's cell.
    fileprivate var place: Int {
        switch self {
        case .originalTransactionID: 0
        case .sku: 1
        case .price: 2
        case .priceMilliunits: 3
        case .currency: 4
        case .storefront: 5
        case .dependentSKUs: 6
        case .expectedPrice: 7
        case .effectiveOnOrAfter: 8
        case .rejectCode: 9
        case .rejectReason: 10
        case .faults: 11
        }
    }
}

extension BatchCell {
    fileprivate var written: String {
        switch self {
        case .text(let text), .number(let text): text
        case .texts(let texts): texts.joined(separator: ";")
        case .flag: ""
        }
    }
}

/// The past increases that a file adds to the stored ones.
package struct IncreaseImport: Hashable, Sendable {
    package private(set) var addedRows: [IncreaseFile.Row] = []
    /// The rows that are stored already, with the same prices.
    package private(set) var unchangedCount = 0
    /// The rows that cannot be taken, in the order of lines.
    package private(set) var faults: [IncreaseFault] = []

    package var added: [ImportedIncrease] { addedRows.map(\.increase) }

    package init(_ file: IncreaseFile, stored: [ImportedIncrease]) {
        let known = Dictionary(stored.map { ($0.key, $0) }) { first, _ in first }
        faults = file.faults
        for row in file.rows {
            guard let old = known[row.increase.key] else {
                addedRows.append(row)
                continue
            }
            if old == row.increase {
                unchangedCount += 1
            } else {
                faults.append(
                    IncreaseFault(
                        row.line, .conflictingRow,
                        "\(old.sku) of \(old.originalTransactionID) on \(old.increasedOn.text) is stored as "
                            + old.prices, remedy: "correct the row, or leave it out"))
            }
        }
        faults.sort { $0.line < $1.line }
    }
}

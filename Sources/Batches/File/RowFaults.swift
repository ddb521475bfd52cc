import Pricing

/// The faults of the cells of one row, gathered cell by cell.
struct RowFaults {
    private var faults: [RowFault]

    init(_ known: [RowFault]) {
        faults = known
    }

    var isEmpty: Bool { faults.isEmpty }

    mutating func add(_ fault: RowFault) { faults.append(fault) }

    /// Returns what `read` reads; nil where it finds a fault, which is kept.
    @discardableResult
    mutating func check<Value>(_ read: () throws(RowFault) -> Value) -> Value? {
        do throws(RowFault) {
            return try read()
        } catch {
            faults.append(error)
            return nil
        }
    }

    /// The spoiled row with these faults, of which the first in the order of `RowCode` leads. `price` is what its cell
    /// says, in milliunits; a price that is at fault itself is none.
    func row(
        _ line: Int, _ cells: [BatchColumn: String], _ item: BatchItem?, price: Int64?
    ) -> SpoiledRow {
        let ordered = RowCode.allCases.flatMap { code in faults.filter { $0.code == code } }
        let first =
            ordered.first ?? RowFault(.malformedRow, "the row is no row", remedy: "mend it")
        return SpoiledRow(
            line: line, fault: first, otherFaults: Array(ordered.dropFirst()), cells: cells,
            item: item,
            newPrice: faults.contains { $0.code == .priceDecimals } ? nil : price)
    }
}

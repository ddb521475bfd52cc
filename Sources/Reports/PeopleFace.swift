import Pricing

// What people see: names without units, money in the currency's decimals, rates in per cent.

extension ReportColumn {
    var isMoney: Bool { kind == .integer && name.hasSuffix("_milliunits") }
    var isRate: Bool { kind == .integer && name.hasSuffix("_basis_points") }

    /// The name without its unit.
    var heading: String {
        for unit in ["_milliunits", "_basis_points"] where name.hasSuffix(unit) {
            return String(name.dropLast(unit.count)) + (isRate ? "_%" : "")
        }
        return name
    }
}

extension ReportTable {
    /// The columns of a table for people, as indexes.
    var shownColumns: [Int] {
        columns.indices.filter { !name.hiddenFromPeople.contains(columns[$0].name) }
    }

    /// A cell as people read it; empty for NULL.
    func shown(_ row: [String?], _ index: Int) -> String {
        guard index < row.count, let cell = row[index] else { return "" }
        let column = columns[index]
        if column.isRate, let points = Int64(cell) {
            return PriceText.decimal(points.multipliedClamped(by: 10))
        }
        if column.isMoney, let milliunits = Int64(cell) {
            return money(milliunits, currency: self.cell(row, "currency"))
        }
        if column.kind == .boolean { return cell == "true" ? "yes" : "no" }
        return cell
    }
}

/// `12.99`, `310` for a currency without decimals; three decimals where nobody knows the currency.
func money(_ milliunits: Int64, currency: String?) -> String {
    PriceText.decimal(milliunits, decimals: currency.flatMap { appleDecimals[$0] } ?? 3)
}

private let appleDecimals: [String: Int] = Dictionary(
    Currency.apple.map { ($0.code, $0.decimals) }, uniquingKeysWith: { first, _ in first })

extension Int64 {
    func multipliedClamped(by factor: Int64) -> Int64 {
        let (product, isOver) = multipliedReportingOverflow(by: factor)
        return isOver ? (signum() * factor.signum() < 0 ? .min : .max) : product
    }

    func addedClamped(_ other: Int64) -> Int64 {
        let (sum, isOver) = addingReportingOverflow(other)
        return isOver ? (other < 0 ? .min : .max) : sum
    }
}

/// `2026-12-01T00:00:00Z`.
func instantText(_ milliseconds: Int64) -> String {
    Instant(milliseconds: milliseconds).text
}

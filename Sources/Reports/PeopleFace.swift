import Postgres
package import Pricing

// How reports are shown to people: names without units, money in the currency's decimals, rates in per cent.

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

    /// The sums of each currency, or of all rows where there is no currency. It is empty where a report has nothing to
    /// add up, or only one row for each.
    var totals: [[String?]] {
        let summed = columns.map { name.totals.contains($0.name) && $0.kind == .integer }
        guard summed.contains(true), let labelled = shownColumns.first else { return [] }
        let byCurrency = Dictionary(grouping: rows) { cell($0, "currency") ?? "" }
        guard byCurrency.values.contains(where: { $0.count > 1 }) else { return [] }
        return byCurrency.sorted { $0.key < $1.key }.map { currency, rows in
            columns.indices.map { index -> String? in
                if index == labelled { return "total" }
                if columns[index].name == "currency" { return currency }
                guard summed[index] else { return nil }
                // The sum is exact: there can never be enough 64-bit values to exceed 128 bits.
                return String(
                    rows.reduce(Int128(0)) { sum, row in
                        sum + (index < row.count ? row[index].flatMap { Int128($0) } ?? 0 : 0)
                    })
            }
        }
    }

    /// A cell as people read it; empty for NULL.
    func shown(_ row: [String?], _ index: Int) -> String {
        guard index < row.count, let cell = row[index] else { return "" }
        let column = columns[index]
        if column.isRate, let points = Int64(cell) {
            return PriceText.decimal(points.multipliedClamped(by: 10))
        }
        if column.isMoney, let milliunits = Int128(cell) {
            return money(milliunits, currency: self.cell(row, "currency"))
        }
        return switch column.kind {
        case .boolean: cell == "true" ? "yes" : "no"
        case .list: listElements(cell).joined(separator: ";")
        case .instant: shownInstant(cell)
        case .text, .id, .integer, .day: cell
        }
    }
}

/// The texts of a cell that holds an array; NULL among them is an empty text.
func listElements(_ cell: String) -> [String] {
    ArrayText.parse(cell)?.map { $0 ?? "" } ?? [cell]
}

/// An instant to the millisecond; empty for `infinity`.
private func shownInstant(_ cell: String) -> String {
    guard !cell.hasSuffix("infinity") else { return "" }
    guard let dot = cell.lastIndex(of: "."), cell.hasSuffix("Z") else { return cell }
    let digits = cell[dot...].dropFirst().dropLast().prefix(3)
    return cell[..<dot] + (digits.allSatisfy { $0 == "0" } ? "" : ".\(digits)") + "Z"
}

/// An amount such as `1,290.50`, or `138,092` for a currency without decimals. It is rounded half away from zero to
/// the currency's decimals, so that a sum of fractions reads as money. An unknown currency has three decimals.
package func money(_ milliunits: some BinaryInteger, currency: String?) -> String {
    let decimals = currency.flatMap { appleDecimals[$0] } ?? 3
    let step = UInt128(smallestShown(currency))
    // It never exceeds 128 bits, because a magnitude is at most half of their range.
    let rounded = (Int128(clamping: milliunits).magnitude + step / 2) / step * step
    let whole = groupedByThousands(rounded / 1000)
    let rest = String(String(rounded % 1000 + 1000).dropFirst().prefix(decimals))
    return (milliunits < 0 && rounded > 0 ? "-" : "") + whole + (rest.isEmpty ? "" : "." + rest)
}

/// The smallest amount that `money` shows, in milliunits.
package func smallestShown(_ currency: String?) -> UInt64 {
    let decimals = currency.flatMap { appleDecimals[$0] } ?? 3
    return [1000, 100, 10, 1][min(max(decimals, 0), 3)]
}

/// The difference of two sums as shown: both are first rounded, half away from zero, to multiples of `step` milliunits.
/// So a reader who subtracts the shown sums gets the same number.
package func shownDifference(from now: MoneySum, to then: MoneySum, roundedTo step: UInt64)
    -> MoneySum
{
    guard let step = Int64(exactly: step), step > 0 else { return then - now }
    return then.rounded(to: step) - now.rounded(to: step)
}

/// `1,290.50`: a price as it is, never rounded; with three decimals where it has more than its currency.
package func price(_ milliunits: Int64, currency: String) -> String {
    let text = PriceText.decimal(milliunits, decimals: appleDecimals[currency] ?? 2)
    let decimals = text.firstIndex(of: ".").map { text[$0...] } ?? ""
    return (milliunits < 0 ? "-" : "") + groupedByThousands(milliunits.magnitude / 1000) + decimals
}

func groupedByThousands(_ number: some BinaryInteger) -> String {
    let (rest, last) = number.quotientAndRemainder(dividingBy: 1000)
    guard rest > 0 else { return String(last) }
    return groupedByThousands(rest) + "," + String(last + 1000).dropFirst()
}

private let appleDecimals: [String: Int] = Dictionary(
    Currency.apple.map { ($0.code, $0.decimals) }, uniquingKeysWith: { first, _ in first })

extension Int64 {
    func multipliedClamped(by factor: Int64) -> Int64 {
        let (product, isOver) = multipliedReportingOverflow(by: factor)
        return isOver ? (signum() * factor.signum() < 0 ? .min : .max) : product
    }

    package func addedClamped(_ other: Int64) -> Int64 {
        let (sum, isOver) = addingReportingOverflow(other)
        return isOver ? (other < 0 ? .min : .max) : sum
    }
}

/// `2026-12-01T00:00:00Z`.
package func instantText(_ milliseconds: Int64) -> String {
    Instant(milliseconds: milliseconds).text
}

import Pricing
import Reports

extension FiguresText {
    private typealias Line = (name: String, currency: String, money: BatchFigures.Money)

    private static let currenciesMax = 6

    /// What sums are counted in, the finest first.
    private enum SumUnit: Int64, CaseIterable {
        case exact = 1
        case whole = 1_000
        case thousand = 1_000_000
        case million = 1_000_000_000

        var note: String {
            switch self {
            case .exact: ""
            case .whole: "sums in whole units: --details has them in full\n"
            case .thousand: "sums in thousands: --details has them in full\n"
            case .million: "sums in millions: --details has them in full\n"
            }
        }

        /// Rounded half away from zero.
        func text(_ sum: MoneySum, currency: String, isSigned: Bool = false) -> String {
            guard let milliunits = sum.milliunits else { return shownSum(sum, currency: currency) }
            let sign = isSigned && milliunits > 0 ? "+" : ""
            guard self != .exact else {
                return sign + Reports.money(milliunits, currency: currency)
            }
            let (whole, rest) = milliunits.quotientAndRemainder(dividingBy: rawValue)
            let isUp = rest.magnitude >= rawValue.magnitude / 2
            return sign + counted(isUp ? whole + milliunits.signum() : whole)
        }
    }

    var moneyText: String {
        guard !money.lines.isEmpty else { return moneyNotes }
        let most = money.lines.sorted {
            ($1.money.rows, $0.currency) < ($0.money.rows, $1.currency)
        }
        let shown = money.lines.filter { most.prefix(Self.currenciesMax).contains($0) }
        let others = money.lines.count - shown.count
        var lines: [Line] = shown.map { ($0.currency, $0.currency, $0.money) }
        let isAlone = money.lines.count == 1 && money.lines.first?.currency == currency
        if !isAlone, money.hasTotal { lines.append((money.totalName, currency, money.total)) }
        return moneyTable(lines) + (others > 0 ? "and \(others) currencies more: --details\n" : "")
            + moneyNotes
    }

    /// The sums of many rows are wider than a screen: then they lose their decimals, and more where that is not enough.
    private func moneyTable(_ lines: [Line]) -> String {
        let unit = SumUnit.allCases.first { unit in
            let natural = Screen.$columns.withValue(nil) {
                Screen.$isColoured.withValue(false) { moneyTable(lines, in: unit) }
            }
            return natural.split(separator: "\n").allSatisfy { $0.count <= Self.columns }
        }
        return moneyTable(lines, in: unit ?? .million)
    }

    private func moneyTable(_ lines: [Line], in unit: SumUnit) -> String {
        func column(
            _ heading: String, isSigned: Bool = false,
            _ sum: @escaping @Sendable (BatchFigures.Money) -> MoneySum
        ) -> Column<Line> {
            .shown(.right(heading)) {
                unit.text(sum($0.money), currency: $0.currency, isSigned: isSigned)
            }
        }
        return lines.table([
            .shown(.left("A MONTH")) { $0.name },
            .shown(.right("ROWS")) { counted($0.money.rows) },
            column("NOW") { $0.now }, column("THEN") { $0.then },
            column("CHANGE", isSigned: true) { $0.change }, column("AT RISK") { $0.atRisk },
            column("NOT KNOWN") { $0.maybeAtRisk },
        ]) + unit.note
    }

    private var currency: String { money.reportingCurrency }

    private var moneyNotes: String {
        var notes = ""
        if !money.rates.isEmpty {
            let rates = money.rates.map { "\(shownRate($0.rate)) \($0.currency)" }
            notes += wrapped("1 \(currency) = \(rates.joined(separator: ", ")) (\(rateSources))")
        }
        if let lack = money.lack { notes += wrapped(lack) }
        if money.isTooLarge { notes += wrapped(sumTooLarge) }
        if money.rowsWithoutMonth > 0 {
            notes += "\(counted(money.rowsWithoutMonth, "row")) of an unknown period: in no sum\n"
        }
        return notes
    }

    /// `ecb, of 2026-11-20`; two days where the rates are of several.
    private var rateSources: String {
        let sources = Set(money.rates.map(\.source)).sorted().joined(separator: ", ")
        let days = Set(money.rates.compactMap { $0.validFrom?.day }).sorted()
        guard let first = days.first, let last = days.last else { return sources }
        return "\(sources), of \(first.text)" + (first == last ? "" : " to \(last.text)")
    }
}

/// Four digits after the point, or as many as it takes to be more than 0.
private func shownRate(_ rate: Rate) -> String {
    let parts = rate.text.split(separator: ".")
    guard let whole = parts.first, parts.count == 2, let fraction = parts.last else {
        return rate.text
    }
    let zeros = whole == "0" ? fraction.prefix { $0 == "0" }.count : 0
    return "\(whole).\(fraction.prefix(zeros + 4))"
}

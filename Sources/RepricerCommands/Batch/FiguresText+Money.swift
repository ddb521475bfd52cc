import Pricing
import Reports

extension FiguresText {
    private typealias Line = (name: String, currency: String, money: BatchFigures.Money)

    private var currenciesMax: Int { density >= .short ? 2 : 6 }

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

        /// What NOW and THEN differ by as they are shown.
        func change(_ money: BatchFigures.Money, currency: String) -> String {
            guard !money.change.isTooLarge else {
                return shownSum(money.change, currency: currency)
            }
            let step = self == .exact ? smallestShown(currency) : rawValue.magnitude
            return text(
                shownDifference(from: money.now, to: money.then, roundedTo: step),
                currency: currency, isSigned: true)
        }
    }

    var moneyText: String {
        guard !money.lines.isEmpty else { return moneyNotes }
        let most = money.lines.sorted {
            ($1.money.rows, $0.currency) < ($0.money.rows, $1.currency)
        }
        let shown = money.lines.filter { most.prefix(currenciesMax).contains($0) }
        let others = money.lines.count - shown.count
        var lines: [Line] = shown.map { ($0.currency, $0.currency, $0.money) }
        let isAlone = money.lines.count == 1 && money.lines.first?.currency == currency
        if !isAlone, money.hasTotal { lines.append((money.totalName, currency, money.total)) }
        let more = others == 1 ? "1 currency more" : "\(others) currencies more"
        return moneyTable(lines) + (others > 0 ? "and \(more): --details\n" : "") + moneyNotes
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
            _ heading: String, _ sum: @escaping @Sendable (BatchFigures.Money) -> MoneySum
        ) -> Column<Line> {
            .shown(.right(heading)) { unit.text(sum($0.money), currency: $0.currency) }
        }
        return lines.table([
            .shown(.left("A MONTH")) { $0.name },
            .shown(.right("ROWS")) { counted($0.money.rows) },
            column("NOW") { $0.now }, column("THEN") { $0.then },
            .shown(.right("CHANGE")) { unit.change($0.money, currency: $0.currency) },
            column("AT RISK") { $0.atRisk },
            column("NOT KNOWN") { $0.maybeAtRisk },
        ]) + unit.note
    }

    private var currency: String { money.reportingCurrency }

    private var moneyNotes: String {
        var notes = ""
        if !money.rates.isEmpty {
            let rates = money.rates.map(\.words)
            let (begin, end) = ("1 \(currency) = ", " (\(money.rateSources))")
            let room = Self.columns - begin.count - end.count
            notes +=
                density >= .short
                ? begin + fitted(rates, separator: ", ", columns: room) + end + "\n"
                : wrapped(begin + rates.joined(separator: ", ") + end)
        }
        if let lack = money.lack { notes += density >= .short ? shortLack : wrapped(lack) }
        if money.isTooLarge { notes += wrapped(sumTooLarge) }
        if money.rowsWithoutMonth > 0 {
            notes += "\(counted(money.rowsWithoutMonth, "row")) of an unknown period: in no sum\n"
        }
        return notes
    }

    /// How many rows the sum lacks, on one line.
    private var shortLack: String {
        let rows = money.withoutRate.reduce(0) { $0 + $1.money.rows }
        let what =
            money.hasTotal
            ? "That part lacks \(counted(rows, "row"))"
            : "No sum in \(currency) of \(counted(rows, "row"))"
        let begin = what + "; rates to import: "
        return begin
            + fitted(money.missingRates, separator: " ", columns: Self.columns - begin.count) + "\n"
    }
}

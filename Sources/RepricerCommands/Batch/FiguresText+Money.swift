import Pricing
import Reports

extension FiguresText {
    private typealias Line = (name: String, currency: String, money: BatchFigures.Money)

    private var currenciesMax: Int { density >= .short ? 2 : 6 }

    /// The unit of the sums in a line, the finest first.
    private enum SumUnit: Int64, CaseIterable {
        case exact = 1
        case whole = 1_000
        case thousand = 1_000_000
        case million = 1_000_000_000

        /// The text after the name of the line.
        var suffix: String {
            switch self {
            case .exact, .whole: ""
            case .thousand: " k"
            case .million: " m"
            }
        }

        var coarser: SumUnit? {
            SumUnit.allCases.first { $0.rawValue > rawValue }
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

        /// The difference of NOW and THEN as shown.
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

    /// If the sums are too wide for the screen, the widest line loses its decimals, and more digits where that is not
    /// enough. A currency with large numbers does not shorten another currency's line.
    private func moneyTable(_ lines: [Line]) -> String {
        var units = [SumUnit](repeating: .exact, count: lines.count)
        func isWide() -> Bool {
            let natural = Screen.$columns.withValue(nil) {
                Screen.$isColoured.withValue(false) { moneyTable(lines, in: units) }
            }
            return natural.split(separator: "\n").contains { $0.count > Self.columns }
        }
        while isWide() {
            let wide = lines.indices.filter { units[$0].coarser != nil }
            guard
                let widest = wide.max(by: {
                    width(lines[$0], units[$0]) < width(lines[$1], units[$1])
                }),
                let coarser = units[widest].coarser
            else { break }
            units[widest] = coarser
        }
        return moneyTable(lines, in: units) + Self.note(units)
    }

    private static func note(_ units: [SumUnit]) -> String {
        let coarsest = units.max { $0.rawValue < $1.rawValue } ?? .exact
        switch coarsest {
        case .exact: return ""
        case .whole: return "large sums in whole units: --details has them in full\n"
        case .thousand, .million:
            return "large sums are rounded (k thousands, m millions): --details has them in full\n"
        }
    }

    private func width(_ line: Line, _ unit: SumUnit) -> Int {
        let sums = [line.money.now, line.money.then, line.money.atRisk, line.money.maybeAtRisk]
        return unit.change(line.money, currency: line.currency).count
            + sums.reduce(0) { $0 + unit.text($1, currency: line.currency).count }
    }

    private func moneyTable(_ lines: [Line], in units: [SumUnit]) -> String {
        typealias Shown = (line: Line, unit: SumUnit)
        func column(
            _ heading: String, _ sum: @escaping @Sendable (BatchFigures.Money) -> MoneySum
        ) -> Column<Shown> {
            .shown(.right(heading)) { $0.unit.text(sum($0.line.money), currency: $0.line.currency) }
        }
        let shown: [Shown] = zip(lines, units).map { ($0, $1) }
        return shown.table([
            .shown(.left("A MONTH")) { $0.line.name + $0.unit.suffix },
            .shown(.right("ROWS")) { counted($0.line.money.rows) },
            column("NOW") { $0.now }, column("THEN") { $0.then },
            .shown(.right("CHANGE")) { $0.unit.change($0.line.money, currency: $0.line.currency) },
            column("AT RISK") { $0.atRisk },
            column("NOT KNOWN") { $0.maybeAtRisk },
        ])
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

/// What a batch gains and puts at risk a month, by currency, and converted to one currency by the loaded exchange
/// rates.
package struct MoneyAMonth: Sendable, Equatable {
    package struct Line: Sendable, Equatable {
        package var currency: String
        /// The money in milliunits a month.
        package var money: BatchFigures.Money
    }

    /// What one unit of the reporting currency costs in another currency.
    package struct UsedRate: Sendable, Equatable {
        package var currency: String
        package var rate: Rate
        /// Since when the older of the two rates behind it is in force; nil where it always was.
        package var validFrom: Instant?
        /// Who publishes it, such as `ecb`.
        package var source: String
    }

    /// The lines in the order of currencies.
    package private(set) var lines: [Line] = []
    /// The ISO 4217 code.
    package let reportingCurrency: String
    /// The sum of all lines that could be converted, in milliunits of the reporting currency a month.
    package private(set) var total = BatchFigures.Money()
    package private(set) var rates: [UsedRate] = []
    /// The lines that `total` lacks: no rate is loaded for their currency, or for the reporting one, or the rates are
    /// absurd.
    package private(set) var withoutRate: [Line] = []
    /// The currencies whose rate is missing, the reporting one included.
    package private(set) var missingRates: [String] = []
    /// The rows whose period is no number of days or months. No line holds them.
    package private(set) var rowsWithoutMonth = 0

    package init(
        _ money: [BatchFigures.MoneyKey: BatchFigures.Money], in reportingCurrency: String,
        by rules: RulesInForce
    ) {
        self.reportingCurrency = reportingCurrency
        var sums: [String: BatchFigures.Money] = [:]
        for (key, sum) in money {
            guard let aMonth = sum.converted({ Period(key.period).perMonth($0) }) else {
                rowsWithoutMonth += sum.rows
                continue
            }
            sums[key.currency, default: .init()].add(aMonth)
        }
        lines = sums.map { Line(currency: $0, money: $1) }.sorted { $0.currency < $1.currency }
        for line in lines { add(line, rules) }
        guard !withoutRate.isEmpty else { return }
        let needed = withoutRate.map(\.currency) + [reportingCurrency]
        let missing = Set(needed).filter { rules.exchangeRate($0) == nil }
        missingRates = (missing.isEmpty ? Set(withoutRate.map(\.currency)) : missing).sorted()
    }

    /// Whether a sum is too large.
    package var isTooLarge: Bool {
        total.isTooLarge || lines.contains { $0.money.isTooLarge }
    }

    private mutating func add(_ line: Line, _ rules: RulesInForce) {
        guard line.currency != reportingCurrency else { return total.add(line.money) }
        guard let reporting = ReportingCurrency(reportingCurrency, rules: rules),
            let target = rules.exchangeRate(reportingCurrency),
            let own = rules.exchangeRate(line.currency),
            let money = line.money.converted({ reporting.converted($0, from: line.currency) }),
            let rate = own.perEuro.divided(by: target.perEuro)
        else {
            withoutRate.append(line)
            return
        }
        total.add(money)
        rates.append(
            UsedRate(
                currency: line.currency, rate: rate,
                validFrom: [own.validFrom, target.validFrom].compactMap { $0 }.min(),
                source: line.currency == "EUR" ? target.source : own.source))
    }
}

import Pricing

extension PlanSummary {
    /// For a person; on a terminal the weeks have bars.
    func text(isTerminal: Bool) -> String {
        let tables = [
            overview, countTable("DIRECTION", directions), countTable("CONSENT", consents),
            countTable("REASON", reasons), weekTable(isTerminal: isTerminal), waveTable, quotaText,
            moneyTable, largestTable, uncertainText, countTable("REFUSED", codes),
        ]
        return tables.filter { !$0.isEmpty }.joined(separator: "\n")
    }

    private var overview: String {
        definitionList([
            ("file", shownFile), ("as of", "\(asOf.text) (\(environment.rawValue))"),
            (
                "rows",
                "\(forecast.rowCount): \(forecast.canGoCount) can go, \(refusedCount) refused"
            ),
            ("send by", forecast.firstSendBy.map { "\($0.text), the earliest" } ?? "-"),
            ("effective", forecast.lastEffectiveAt.map { "\($0.text), the last" } ?? "-"),
            ("plan hash", hash),
        ])
    }

    private func countTable(_ heading: String, _ counts: [(String, Int)]) -> String {
        guard !counts.isEmpty else { return "" }
        var table = Table([.left(heading), .right("ROWS")])
        for (name, rows) in counts { table.add([name, "\(rows)"]) }
        return table.text
    }

    private func weekTable(isTerminal: Bool) -> String {
        guard !weeks.isEmpty else { return "" }
        var columns: [Table.Column] = [
            .left("EFFECTIVE IN THE WEEK OF"), .right("INCREASES"), .right("DECREASES"),
        ]
        if isTerminal { columns.append(.left("")) }
        var table = Table(columns)
        let most = weeks.map(\.week.rows).max() ?? 1
        for (monday, week) in weeks {
            let bar = String(repeating: "█", count: max(1, week.rows * 30 / max(1, most)))
            let cells = [monday.text, "\(week.increases)", "\(week.decreases)"]
            table.add(isTerminal ? cells + [bar] : cells)
        }
        return table.text
    }

    private var waveTable: String {
        guard !waves.isEmpty else { return "" }
        var table = Table([.left("WAVE"), .left("ROWS OF"), .right("ROWS")])
        for (index, wave) in waves.enumerated() {
            table.add(["\(index + 1)", wave.label, "\(wave.rows)"])
        }
        return table.text
    }

    private var quotaText: String {
        guard quota.calls > 0 else { return "" }
        let rate = Self.perSecond(quota.callsPerThousandSeconds)
        var text = definitionList([
            ("calls", "\(quota.calls), after grouping"),
            ("time", "\(Self.duration(quota.seconds)) at \(rate) calls a second"),
            ("late", quota.lateRowCount == 0 ? "none, when it starts now" : lateText),
        ])
        guard !quota.lateRows.isEmpty else { return text }
        var table = Table([.right("LINE"), .left("SUBSCRIPTION"), .left("SKU"), .left("SEND BY")])
        for row in quota.lateRows.prefix(Self.lateRowsShown) {
            table.add(["\(row.line)", row.originalTransactionID, row.sku, row.sendBy.text])
        }
        text += table.text
        let others = quota.lateRowCount - min(quota.lateRows.count, Self.lateRowsShown)
        if others > 0 { text += "and \(others) more; --json names \(Self.lateRowsMax)\n" }
        return text
    }

    private var lateText: String {
        "\(quota.lateRowCount) rows would miss their renewal at this rate"
    }

    /// `0.5`, `50`.
    private static func perSecond(_ perThousandSeconds: Int) -> String {
        let (whole, rest) = perThousandSeconds.quotientAndRemainder(dividingBy: 1000)
        guard rest > 0 else { return "\(whole)" }
        let digits = String(String(rest + 1000).dropFirst())
        return
            "\(whole).\(digits.reversed().drop { $0 == "0" }.reversed().map(String.init).joined())"
    }

    /// `5 h 33 min`, `2 min 5 s`.
    private static func duration(_ seconds: Int64) -> String {
        if seconds >= 3600 { return "\(seconds / 3600) h \(seconds / 60 % 60) min" }
        return seconds >= 60 ? "\(seconds / 60) min \(seconds % 60) s" : "\(seconds) s"
    }

    private var moneyTable: String {
        guard !money.isEmpty else { return "" }
        var table = Table([
            .left("CURRENCY"), .left("STOREFRONT"), .left("PERIOD"), .right("ROWS"),
            .right("NOW A PERIOD"), .right("THEN"), .right("NOW A MONTH"), .right("THEN"),
            .right("NEEDS CONSENT, A MONTH"),
        ])
        for (key, sum) in money {
            let period = Period(key.period)
            func shown(_ amount: Int64?) -> String {
                amount.map { shownPrice($0, currency: key.currency) } ?? "-"
            }
            table.add([
                key.currency, key.storefront, key.period, "\(sum.rows)", shown(sum.now),
                shown(sum.then), shownMonth(period.perMonth(sum.now), key),
                shownMonth(period.perMonth(sum.then), key),
                shownMonth(period.perMonth(sum.atRisk), key),
            ])
        }
        return table.text
    }

    /// A month's part of a period may have thousandths: they are rounded to what the currency has.
    private func shownMonth(_ amount: Int64?, _ key: BatchForecast.MoneyKey) -> String {
        guard let amount else { return "-" }
        let decimals = Currency.apple.first { $0.code == key.currency }?.decimals ?? 2
        let step = Currency(code: key.currency, decimals: decimals).smallestStep
        let rounded = (amount.addingReportingOverflow(step / 2).partialValue / step) * step
        return shownPrice(rounded, currency: key.currency)
    }

    private var largestTable: String {
        guard !forecast.largest.isEmpty else { return "" }
        var table = Table([
            .right("LARGEST INCREASES"), .right("LINE"), .left("SUBSCRIPTION"), .left("SKU"),
            .right("NOW"), .right("THEN"), .left(""),
        ])
        for increase in forecast.largest {
            table.add([
                "+\(increase.permille / 10).\(increase.permille % 10) %", "\(increase.line)",
                increase.originalTransactionID, increase.sku,
                shownPrice(increase.currentPrice, currency: increase.currency),
                shownPrice(increase.newPrice, currency: increase.currency), increase.currency,
            ])
        }
        return table.text
    }

    /// Verdicts that would change with a figure that Apple has not published.
    private var uncertainText: String {
        guard !uncertain.isEmpty else { return "" }
        var table = Table([.left("THRESHOLD ABOVE 50 %"), .right("ROWS"), .left("FIRST LINES")])
        for (source, rows) in uncertain {
            table.add([
                source.rawValue, "\(rows.rows)",
                rows.lines.map(String.init).joined(separator: ", "),
            ])
        }
        return table.text
    }
}

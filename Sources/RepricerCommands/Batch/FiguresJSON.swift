import Pricing

/// The figures of a batch for a program: `plan --json` and `show --json` name them alike.
struct FiguresJSON {
    let figures: BatchFigures
    let money: MoneyAMonth

    var consent: JSONValue { counts(Consent.allCases, figures.consents) }
    var directions: JSONValue { counts(PlanRow.Direction.allCases, figures.directions) }
    var reasons: JSONValue { counts(ConsentReason.allCases, figures.reasons) }
    var refused: JSONValue { counts(RowCode.allCases, figures.codes) }
    var notKnown: JSONValue { figures.notKnownRules.json(BatchFigures.notKnownColumns) }
    var weeks: JSONValue { figures.sortedWeeks.json(BatchFigures.weekColumns) }
    var months: JSONValue {
        figures.months.sorted { $0.key < $1.key }.json([
            .key("month") { String($0.key.text.prefix(7)) }, .key("rows") { $0.value.rows },
            .key("increases") { $0.value.increases }, .key("decreases") { $0.value.decreases },
        ])
    }

    /// By currency, storefront and period.
    var moneyLines: JSONValue { figures.moneyLines.json(MoneyLine.columns) }

    var moneyAMonth: JSONValue {
        [
            "by_currency": money.lines.map { sums($0.currency, $0.money) },
            "in_reporting_currency": sums(currency, money.total),
            "rates": JSONValue.array(
                money.rates.map { rate in
                    [
                        "currency": rate.currency, "per_unit": rate.rate.text,
                        "valid_from": rate.validFrom, "source": rate.source,
                    ]
                }),
            "no_rate_for": money.missingRates,
            "rows_without_rate": money.withoutRate.reduce(0) { $0 + $1.money.rows },
            "rows_of_unknown_period": money.rowsWithoutMonth,
        ]
    }

    var increases: JSONValue { figures.increases.moves.json(FiguresText.moveColumns) }
    var decreases: JSONValue { figures.decreases.moves.json(FiguresText.moveColumns) }

    var warnings: JSONValue {
        .array(
            BatchWarning.allCases.compactMap { warning in
                figures.warnings[warning].map { rows in
                    [
                        "warning": warning.rawValue, "rows": rows.count,
                        "first_lines": rows.lines,
                    ]
                }
            })
    }

    private var currency: String { money.reportingCurrency }

    private func sums(_ currency: String, _ money: BatchFigures.Money) -> JSONValue {
        [
            "currency": currency, "rows": money.rows,
            "now_per_month_milliunits": money.now.milliunits,
            "then_per_month_milliunits": money.then.milliunits,
            "change_per_month_milliunits": money.change.milliunits,
            "at_risk_per_month_milliunits": money.atRisk.milliunits,
            "not_known_per_month_milliunits": money.maybeAtRisk.milliunits,
            "too_large": money.isTooLarge,
        ]
    }

    private func counts<Key: RawRepresentable<String> & Hashable>(
        _ order: [Key], _ counts: [Key: Int]
    ) -> JSONValue {
        .counts(order.compactMap { key in counts[key].map { (key.rawValue, Int64($0)) } })
    }
}

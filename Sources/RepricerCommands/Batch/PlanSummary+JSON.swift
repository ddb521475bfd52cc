import Pricing

extension PlanSummary {
    /// One object; its keys are described in `Sources/README.md`.
    var json: JSONValue {
        .object([
            "plan_hash": .string(hash), "as_of": .string(asOf.text),
            "environment": .string(environment.rawValue),
            "rows": .integer(forecast.rowCount), "can_go": .integer(forecast.canGoCount),
            "refused": .integer(refusedCount), "rejected_rows": .counts(codes),
            "direction": .counts(directions), "consent": .counts(consents),
            "reasons": .counts(reasons), "weeks": .array(weeks.map(Self.week)),
            "quota": quotaJSON, "money": .array(money.map(Self.money)),
            "largest_increases": .array(forecast.largest.map(Self.increase)),
            "uncertain_thresholds": .array(uncertain.map(Self.uncertain)),
            "first_send_by": .text(forecast.firstSendBy?.text),
            "last_effective_at": .text(forecast.lastEffectiveAt?.text),
            "grouping": .string(forecast.terms.grouping.rawValue),
            "waves": .array(
                waves.enumerated().map { index, wave in
                    .object([
                        "wave": .integer(index + 1), "label": .string(wave.label),
                        "rows": .integer(wave.rows),
                    ])
                }),
        ])
    }

    private static func week(
        _ entry: (monday: CivilDate, week: BatchForecast.Week)
    ) -> JSONValue {
        .object([
            "week_of": .string(entry.monday.text), "rows": .integer(entry.week.rows),
            "increases": .integer(entry.week.increases),
            "decreases": .integer(entry.week.decreases),
        ])
    }

    private var quotaJSON: JSONValue {
        .object([
            "calls": .integer(quota.calls),
            "calls_per_thousand_seconds": .integer(quota.callsPerThousandSeconds),
            "seconds": .integer(quota.seconds), "late_calls": .integer(quota.lateCalls),
            "late_row_count": .integer(quota.lateRowCount),
            "late_rows": .array(
                quota.lateRows.map { row in
                    .object([
                        "line": .integer(row.line),
                        "original_transaction_id": .string(row.originalTransactionID),
                        "sku": .string(row.sku), "send_by": .string(row.sendBy.text),
                    ])
                }),
        ])
    }

    private static func money(
        _ entry: (key: BatchForecast.MoneyKey, sum: BatchForecast.Money)
    ) -> JSONValue {
        let (key, sum) = entry
        let period = Period(key.period)
        return .object([
            "currency": .string(key.currency), "storefront": .string(key.storefront),
            "period": .string(key.period), "rows": .integer(sum.rows),
            "now_per_period_milliunits": .integer(sum.now),
            "then_per_period_milliunits": .integer(sum.then),
            "at_risk_per_period_milliunits": .integer(sum.atRisk),
            "now_per_month_milliunits": .number(period.perMonth(sum.now)),
            "then_per_month_milliunits": .number(period.perMonth(sum.then)),
            "at_risk_per_month_milliunits": .number(period.perMonth(sum.atRisk)),
        ])
    }

    private static func increase(_ increase: BatchForecast.Increase) -> JSONValue {
        .object([
            "line": .integer(increase.line),
            "original_transaction_id": .string(increase.originalTransactionID),
            "sku": .string(increase.sku), "currency": .string(increase.currency),
            "current_price_milliunits": .integer(increase.currentPrice),
            "new_price_milliunits": .integer(increase.newPrice),
            "permille": .integer(increase.permille),
        ])
    }

    private static func uncertain(
        _ entry: (source: RuleSource, rows: BatchForecast.Uncertain)
    ) -> JSONValue {
        .object([
            "threshold_source": .string(entry.source.rawValue), "rows": .integer(entry.rows.rows),
            "first_lines": .array(entry.rows.lines.map { .integer($0) }),
        ])
    }
}

import Pricing

extension PlanSummary {
    static let planWaveColumns: [Column<(number: Int, label: String, rows: Int)>] = [
        .shown(.left("WAVE")) { "\($0.number)" }, .key("wave") { $0.number },
        .text("ROWS OF", "label") { $0.label }, .count("ROWS", "rows") { $0.rows },
    ]

    static let lateColumns: [Column<CallList.LateRow>] = [
        .number("LINE", "line") { $0.line },
        .text("SUBSCRIPTION", "original_transaction_id") { $0.originalTransactionID },
        .text("SKU", "sku") { $0.sku }, .text("SEND BY", "send_by") { $0.sendBy.text },
    ]

    /// Verdicts that would change with a figure that Apple has not published.
    static let uncertainColumns: [Column<(source: RuleSource, rows: BatchFigures.Uncertain)>] = [
        .text("THRESHOLD ABOVE 50 %", "threshold_source") { $0.source.rawValue },
        .count("ROWS", "rows") { $0.rows.rows },
        .shown(.left("FIRST LINES")) { $0.rows.lines.map(String.init).joined(separator: ", ") },
        .key("first_lines") { $0.rows.lines },
    ]

    /// One object. `Deploy/docs/FEATURES.md` describes the keys that do not explain themselves.
    var json: JSONValue {
        let all = FiguresJSON(figures: figures, money: money)
        return [
            "plan_hash": hash, "notifications_waiting": notificationsWaiting,
            "as_of": asOf, "environment": environment.rawValue,
            "rows": forecast.rowCount, "can_go": forecast.canGoCount, "refused": refusedCount,
            "rejected_rows": all.refused, "direction": all.directions, "consent": all.consent,
            "reasons": all.reasons, "not_known": all.notKnown, "stale": forecast.staleCount,
            "money_a_month": all.moneyAMonth, "weeks": all.weeks, "months": all.months,
            "quota": [
                "calls": quota.calls, "calls_per_thousand_seconds": quota.callsPerThousandSeconds,
                "seconds": quota.seconds, "late_calls": quota.lateCalls,
                "late_row_count": quota.lateRowCount,
                "late_rows": quota.lateRows.json(Self.lateColumns),
            ] as JSONValue, "money": all.moneyLines, "largest_increases": all.increases,
            "largest_decreases": all.decreases, "warnings": all.warnings,
            "uncertain_thresholds": uncertain.json(Self.uncertainColumns),
            "first_send_by": forecast.firstSendBy, "last_effective_at": forecast.lastEffectiveAt,
            "grouping": forecast.terms.grouping.rawValue,
            "waves": waves.json(Self.planWaveColumns),
        ]
    }
}

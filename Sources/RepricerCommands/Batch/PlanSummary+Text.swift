import Pricing

/// The lists of a plan, for a person and for a program.
extension PlanSummary {
    private static let weekColumns: [Column<(monday: CivilDate, week: BatchForecast.Week)>] = [
        .text("EFFECTIVE IN THE WEEK OF", "week_of") { $0.monday.text },
        .key("rows") { $0.week.rows }, .number("INCREASES", "increases") { $0.week.increases },
        .number("DECREASES", "decreases") { $0.week.decreases },
    ]

    private static let planWaveColumns: [Column<(number: Int, label: String, rows: Int)>] = [
        .shown(.left("WAVE")) { "\($0.number)" }, .key("wave") { $0.number },
        .text("ROWS OF", "label") { $0.label }, .number("ROWS", "rows") { $0.rows },
    ]

    private static let lateColumns: [Column<CallList.LateRow>] = [
        .number("LINE", "line") { $0.line },
        .text("SUBSCRIPTION", "original_transaction_id") { $0.originalTransactionID },
        .text("SKU", "sku") { $0.sku }, .text("SEND BY", "send_by") { $0.sendBy.text },
    ]

    private static let largestColumns: [Column<BatchForecast.Increase>] = [
        .shown(.right("LARGEST INCREASES")) { "+\($0.permille / 10).\($0.permille % 10) %" },
        .number("LINE", "line") { $0.line },
        .text("SUBSCRIPTION", "original_transaction_id") { $0.originalTransactionID },
        .text("SKU", "sku") { $0.sku },
        .shown(.right("NOW")) { shownPrice($0.currentPrice, currency: $0.currency) },
        .shown(.right("THEN")) { shownPrice($0.newPrice, currency: $0.currency) },
        .text("", "currency") { $0.currency },
        .key("current_price_milliunits") { $0.currentPrice },
        .key("new_price_milliunits") { $0.newPrice }, .key("permille") { $0.permille },
    ]

    /// Verdicts that would change with a figure that Apple has not published.
    private static let uncertainColumns:
        [Column<(source: RuleSource, rows: BatchForecast.Uncertain)>] = [
            .text("THRESHOLD ABOVE 50 %", "threshold_source") { $0.source.rawValue },
            .number("ROWS", "rows") { $0.rows.rows },
            .shown(.left("FIRST LINES")) {
                $0.rows.lines.map(String.init).joined(separator: ", ")
            },
            .key("first_lines") { $0.rows.lines },
        ]

    private static let notKnownColumns:
        [Column<(rule: ConsentReason, rows: BatchForecast.NotKnown)>] = [
            .text("CONSENT NOT KNOWN FOR", "rule") { $0.rule.rawValue },
            .number("ROWS", "rows") { $0.rows.rows },
            .shown(.left("STOREFRONTS")) { shownList($0.rows.storefronts.sorted()) },
            .key("storefronts") { $0.rows.storefronts.sorted() },
            .text("WHAT HELPS", "remedy") { $0.rule.whenNotKnown },
        ]

    private static let moneyColumns: [Column<MoneyLine>] = [
        .text("CURRENCY", "currency") { $0.key.currency },
        .text("STOREFRONT", "storefront") { $0.key.storefront },
        .text("PERIOD", "period") { $0.key.period }, .number("ROWS", "rows") { $0.sum.rows },
        .shown(.right("NOW A PERIOD")) { $0.shown($0.sum.now) },
        .shown(.right("THEN")) { $0.shown($0.sum.then) },
        .shown(.right("NOW A MONTH")) { $0.shownMonth($0.sum.now) },
        .shown(.right("THEN")) { $0.shownMonth($0.sum.then) },
        .shown(.right("NEEDS CONSENT, A MONTH")) { $0.shownMonth($0.sum.atRisk) },
        .shown(.right("NOT KNOWN, A MONTH")) { $0.shownMonth($0.sum.maybeAtRisk) },
        .key("now_per_period_milliunits") { $0.sum.now },
        .key("then_per_period_milliunits") { $0.sum.then },
        .key("at_risk_per_period_milliunits") { $0.sum.atRisk },
        .key("not_known_per_period_milliunits") { $0.sum.maybeAtRisk },
        .key("now_per_month_milliunits") { $0.perMonth($0.sum.now) },
        .key("then_per_month_milliunits") { $0.perMonth($0.sum.then) },
        .key("at_risk_per_month_milliunits") { $0.perMonth($0.sum.atRisk) },
        .key("not_known_per_month_milliunits") { $0.perMonth($0.sum.maybeAtRisk) },
    ]

    /// One object; its keys are described in `Sources/README.md`.
    var json: JSONValue {
        [
            "plan_hash": hash, "as_of": asOf, "environment": environment.rawValue,
            "rows": forecast.rowCount, "can_go": forecast.canGoCount, "refused": refusedCount,
            "rejected_rows": JSONValue.counts(codes), "direction": JSONValue.counts(directions),
            "consent": JSONValue.counts(consents), "reasons": JSONValue.counts(reasons),
            "not_known": notKnown.json(Self.notKnownColumns), "stale": forecast.staleCount,
            "weeks": weeks.json(Self.weekColumns),
            "quota": [
                "calls": quota.calls, "calls_per_thousand_seconds": quota.callsPerThousandSeconds,
                "seconds": quota.seconds, "late_calls": quota.lateCalls,
                "late_row_count": quota.lateRowCount,
                "late_rows": quota.lateRows.json(Self.lateColumns),
            ] as JSONValue, "money": money.json(Self.moneyColumns),
            "largest_increases": forecast.largest.json(Self.largestColumns),
            "uncertain_thresholds": uncertain.json(Self.uncertainColumns),
            "first_send_by": forecast.firstSendBy, "last_effective_at": forecast.lastEffectiveAt,
            "grouping": forecast.terms.grouping.rawValue,
            "waves": waves.json(Self.planWaveColumns),
        ]
    }

    /// For a person; on a terminal the weeks have bars.
    func text(isTerminal: Bool) -> String {
        let most = weeks.map(\.week.rows).max() ?? 1
        let bar: Column<(monday: CivilDate, week: BatchForecast.Week)> = .shown(.left("")) {
            String(repeating: "█", count: max(1, $0.week.rows * 30 / max(1, most)))
        }
        let tables = [
            overview, countTable("DIRECTION", directions), countTable("CONSENT", consents),
            countTable("REASON", reasons), notKnown.table(Self.notKnownColumns),
            weeks.table(Self.weekColumns + (isTerminal ? [bar] : [])),
            waves.table(Self.planWaveColumns), quotaText, money.table(Self.moneyColumns),
            forecast.largest.table(Self.largestColumns), uncertain.table(Self.uncertainColumns),
            countTable("REFUSED", codes),
        ]
        return tables.filter { !$0.isEmpty }.joined(separator: "\n")
    }

    private var overview: String {
        let consent = consents.map { "\($0.1) \($0.0.replacing("_", with: " "))" }
        var lines = [
            (name: "file", value: shownFile),
            ("as of", "\(asOf.text) (\(environment.rawValue))"),
            (
                "rows",
                "\(forecast.rowCount): \(forecast.canGoCount) can go, \(refusedCount) refused"
            ), ("consent", consent.isEmpty ? "-" : consent.joined(separator: ", ")),
        ]
        if forecast.staleCount > 0 {
            lines.append(
                (
                    "stale",
                    "\(forecast.staleCount) rows can go on facts older than a renewal that is known; "
                        + "repricer sync or reconcile brings newer ones"
                ))
        }
        lines += [
            ("send by", forecast.firstSendBy.map { "\($0.text), the earliest" } ?? "-"),
            ("effective", forecast.lastEffectiveAt.map { "\($0.text), the last" } ?? "-"),
            ("plan hash", hash),
        ]
        return definitionList(lines)
    }

    private var quotaText: String {
        guard quota.calls > 0 else { return "" }
        let rate = Self.perSecond(quota.callsPerThousandSeconds)
        let late = "\(quota.lateRowCount) rows would miss their renewal at this rate"
        let text = definitionList([
            ("calls", "\(quota.calls), after grouping"),
            ("time", "\(Self.duration(quota.seconds)) at \(rate) calls a second"),
            (
                "late",
                (quota.lateRowCount == 0 ? "none, when it starts now" : late)
                    + "; other open batches are counted"
            ),
        ])
        let shown = quota.lateRows.prefix(Self.lateRowsShown)
        let others = quota.lateRowCount - shown.count
        return text + shown.table(Self.lateColumns)
            + (others > 0 && !shown.isEmpty
                ? "and \(others) more; --json names \(Self.lateRowsMax)\n" : "")
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
}

extension ConsentReason {
    /// What makes its answer known.
    fileprivate var whenNotKnown: String {
        switch self {
        case .alwaysConsentStorefront:
            "repricer rules import, rows of always_consent: Apple's amount or answer is known for others only"
        case .threshold: "repricer rules import, rows of threshold or exchange_rate"
        case .increaseWithin12Months:
            "repricer reconcile --since, or ingest: their notifications of 12 months, or of their first period"
        case .koreaOfferConversion: "-"
        }
    }
}

/// The first ten; the others are counted.
private func shownList(_ values: [String]) -> String {
    let shown = values.prefix(10).joined(separator: " ")
    return values.count > 10 ? "\(shown) and \(values.count - 10) more" : shown
}

/// What a currency, storefront and period bring.
struct MoneyLine {
    let key: BatchForecast.MoneyKey
    let sum: BatchForecast.Money

    func perMonth(_ amount: Int64) -> Int64? { Period(key.period).perMonth(amount) }

    fileprivate func shown(_ amount: Int64) -> String {
        shownPrice(amount, currency: key.currency)
    }

    /// A month's part of a period may have thousandths: they are rounded to what the currency has.
    fileprivate func shownMonth(_ ofPeriod: Int64) -> String {
        guard let amount = perMonth(ofPeriod) else { return "-" }
        let decimals = Currency.apple.first { $0.code == key.currency }?.decimals ?? 2
        let step = Currency(code: key.currency, decimals: decimals).smallestStep
        return shown((amount.addingReportingOverflow(step / 2).partialValue / step) * step)
    }
}

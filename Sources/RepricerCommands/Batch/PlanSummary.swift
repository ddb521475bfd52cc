import Pricing

/// The forecast of a whole batch, to print: the same plan gives the same bytes.
struct PlanSummary: Sendable {
    /// The most late rows in the JSON.
    static let lateRowsMax = 10_000

    let hash: String
    let asOf: Instant
    let environment: StoreEnvironment
    let shownFile: String
    let notificationsWaiting: Int64
    let forecast: BatchForecast
    /// The figures of the forecast, with the warning of late rows.
    let figures: BatchFigures
    let money: MoneyAMonth
    let quota: CallList.Quota

    init(
        _ session: PlanSession, _ finished: PlanOutput.Finished, rate: Configuration.CallRate,
        besides others: [CallList.Stored], reportingCurrency: String
    ) {
        (hash, forecast) = (finished.hash, finished.forecast)
        (asOf, environment) = (session.asOf, session.environment)
        shownFile = session.shownFile
        notificationsWaiting = session.notificationsWaiting
        quota = forecast.calls.quota(
            callsPerThousandSeconds: rate.perThousandSeconds, now: asOf,
            besides: others, lateRowsMax: Self.lateRowsMax)
        var figures = forecast.figures
        if quota.lateRowCount > 0 {
            let lines = quota.lateRows.prefix(BatchFigures.examplesMax).map(\.line)
            figures.warnings[.late] = .init(count: quota.lateRowCount, lines: lines)
        }
        self.figures = figures
        money = MoneyAMonth(figures.money, in: reportingCurrency, by: session.rulesInForce)
    }

    var refusedCount: Int { forecast.refusedCount }

    /// The waves in order, with the number of rows of each that can be sent.
    var waves: [(number: Int, label: String, rows: Int)] {
        zip(forecast.terms.waves?.waves ?? [], forecast.waves).enumerated()
            .map { ($0 + 1, $1.0.label, $1.1) }
    }
    var uncertain: [(source: RuleSource, rows: BatchFigures.Uncertain)] {
        RuleSource.allCases.compactMap { source in
            forecast.uncertain[source].map { (source: source, rows: $0) }
        }
    }
}

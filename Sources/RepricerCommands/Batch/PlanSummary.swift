import Pricing

/// The forecast of a whole batch, to print: the same plan gives the same bytes.
struct PlanSummary: Sendable {
    /// Late rows named to a program, and to a person.
    static let lateRowsMax = 10_000
    static let lateRowsShown = 20

    let hash: String
    let asOf: Instant
    let environment: StoreEnvironment
    let shownFile: String
    let forecast: BatchForecast
    let quota: CallList.Quota

    init(
        _ session: PlanSession, _ finished: PlanOutput.Finished, rate: Configuration.CallRate,
        besides others: [CallList.Stored]
    ) {
        (hash, forecast) = (finished.hash, finished.forecast)
        (asOf, environment) = (session.asOf, session.environment)
        shownFile = session.shownFile
        quota = forecast.calls.quota(
            callsPerThousandSeconds: rate.perThousandSeconds, now: asOf,
            besides: others, lateRowsMax: Self.lateRowsMax)
    }

    var refusedCount: Int { forecast.refusedCount }

    /// The codes that occur, in the order of the contract; the same for what follows.
    var codes: [(String, Int64)] { counts(RowCode.allCases, forecast.codes) }
    var directions: [(String, Int64)] { counts(PlanRow.Direction.allCases, forecast.directions) }
    var consents: [(String, Int64)] { counts(Consent.allCases, forecast.consents) }
    var reasons: [(String, Int64)] { counts(ConsentReason.allCases, forecast.reasons) }
    /// What leaves consent open, and what helps.
    var notKnown: [(rule: ConsentReason, rows: BatchForecast.NotKnown)] {
        ConsentReason.allCases.compactMap { rule in
            forecast.notKnown[rule].map { (rule: rule, rows: $0) }
        }
    }
    /// The waves in order, with their rows that can go.
    var waves: [(number: Int, label: String, rows: Int)] {
        zip(forecast.terms.waves?.waves ?? [], forecast.waves).enumerated()
            .map { ($0 + 1, $1.0.label, $1.1) }
    }
    var weeks: [(monday: CivilDate, week: BatchForecast.Week)] {
        forecast.weeks.sorted { $0.key < $1.key }.map { (monday: $0.key, week: $0.value) }
    }
    var money: [MoneyLine] {
        forecast.money.sorted { $0.key < $1.key }.map { MoneyLine(key: $0.key, sum: $0.value) }
    }
    var uncertain: [(source: RuleSource, rows: BatchForecast.Uncertain)] {
        RuleSource.allCases.compactMap { source in
            forecast.uncertain[source].map { (source: source, rows: $0) }
        }
    }

    private func counts<Key: RawRepresentable<String> & Hashable>(
        _ order: [Key], _ counts: [Key: Int]
    ) -> [(String, Int64)] {
        order.compactMap { key in counts[key].map { (key.rawValue, Int64($0)) } }
    }
}

/// A price in its currency's own decimals.
func shownPrice(_ milliunits: Int64, currency: String) -> String {
    let decimals = Currency.apple.first { $0.code == currency }?.decimals ?? 2
    return PriceText.decimal(milliunits, decimals: decimals)
}

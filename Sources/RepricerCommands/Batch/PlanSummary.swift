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
        _ session: PlanSession, _ finished: PlanOutput.Finished, rate: Configuration.CallRate
    ) {
        self.init(
            hash: finished.hash, asOf: session.asOf, environment: session.environment,
            shownFile: session.shownFile, forecast: finished.forecast,
            callsPerThousandSeconds: rate.perThousandSeconds)
    }

    init(
        hash: String, asOf: Instant, environment: StoreEnvironment, shownFile: String,
        forecast: BatchForecast, callsPerThousandSeconds: Int
    ) {
        self.hash = hash
        self.asOf = asOf
        self.environment = environment
        self.shownFile = shownFile
        self.forecast = forecast
        quota = forecast.calls.quota(
            callsPerThousandSeconds: callsPerThousandSeconds, now: asOf,
            lateRowsMax: Self.lateRowsMax)
    }

    var refusedCount: Int { forecast.refusedCount }

    /// The codes that occur, in the order of the contract; the same for what follows.
    var codes: [(String, Int)] { counts(RowCode.allCases, forecast.codes) }
    var directions: [(String, Int)] {
        counts(PlanRow.Direction.allCases, forecast.directions)
    }
    var consents: [(String, Int)] { counts(Consent.allCases, forecast.consents) }
    var reasons: [(String, Int)] { counts(ConsentReason.allCases, forecast.reasons) }
    /// The waves in order, with their rows that can go.
    var waves: [(label: String, rows: Int)] {
        zip(forecast.terms.waves?.waves ?? [], forecast.waves).map { ($0.label, $1) }
    }
    var weeks: [(monday: CivilDate, week: BatchForecast.Week)] {
        forecast.weeks.sorted { $0.key < $1.key }.map { (monday: $0.key, week: $0.value) }
    }
    var money: [(key: BatchForecast.MoneyKey, sum: BatchForecast.Money)] {
        forecast.money.sorted { $0.key < $1.key }.map { (key: $0.key, sum: $0.value) }
    }
    var uncertain: [(source: RuleSource, rows: BatchForecast.Uncertain)] {
        RuleSource.allCases.compactMap { source in
            forecast.uncertain[source].map { (source: source, rows: $0) }
        }
    }

    private func counts<Key: RawRepresentable<String> & Hashable>(
        _ order: [Key], _ counts: [Key: Int]
    ) -> [(String, Int)] {
        order.compactMap { key in counts[key].map { (key.rawValue, $0) } }
    }
}

extension JSONValue {
    static func counts(_ pairs: [(String, Int)]) -> JSONValue {
        .object(pairs.map { Member(name: $0.0, value: .integer(Int64($0.1))) })
    }

    static func counts(_ counts: [String: Int64]) -> JSONValue {
        .object(
            counts.sorted { $0.key < $1.key }
                .map { Member(name: $0.key, value: .integer($0.value)) })
    }

    static func integer(_ value: Int) -> JSONValue { .integer(Int64(value)) }
}

/// A price in its currency's own decimals.
func shownPrice(_ milliunits: Int64, currency: String) -> String {
    let decimals = Currency.apple.first { $0.code == currency }?.decimals ?? 2
    return PriceText.decimal(milliunits, decimals: decimals)
}

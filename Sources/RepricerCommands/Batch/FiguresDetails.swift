import Pricing
import Reports

/// The text of `--details`, with every list in full.
extension BatchFigures {
    typealias WeekLine = (monday: CivilDate, week: Dates)
    typealias NotKnownLine = (rule: ConsentReason, rows: NotKnown)

    var notKnownRules: [NotKnownLine] {
        ConsentReason.allCases.compactMap { rule in
            notKnown[rule].map { (rule: rule, rows: $0) }
        }
    }

    var sortedWeeks: [WeekLine] {
        weeks.sorted { $0.key < $1.key }.map { (monday: $0.key, week: $0.value) }
    }

    var moneyLines: [MoneyLine] {
        money.sorted { $0.key < $1.key }.map { MoneyLine(key: $0.key, sum: $0.value) }
    }

    static let weekColumns: [Column<WeekLine>] = [
        .text("EFFECTIVE IN THE WEEK OF", "week_of") { $0.monday.text },
        .count("ROWS", "rows") { $0.week.rows },
        .count("INCREASES", "increases") { $0.week.increases },
        .count("DECREASES", "decreases") { $0.week.decreases },
    ]

    static let notKnownColumns: [Column<NotKnownLine>] = [
        .text("CONSENT NOT KNOWN FOR", "rule") { $0.rule.rawValue },
        .count("ROWS", "rows") { $0.rows.rows },
        .shown(.left("STOREFRONTS")) { $0.rows.storefronts.sorted().joined(separator: " ") },
        .key("storefronts") { $0.rows.storefronts.sorted() },
        .text("WHAT HELPS", "remedy") { $0.rule.whenNotKnown },
    ]

    /// The codes of refused rows with their meanings.
    var refusedCodes: String {
        refusedTable(codes.map { ($0.key.rawValue, Int64($0.value)) })
    }

    var detailTables: [String] {
        [
            notKnownRules.table(Self.notKnownColumns), moneyLines.table(MoneyLine.columns),
            sortedWeeks.table(Self.weekColumns),
            increases.moves.table(FiguresText.moveColumns),
            decreases.moves.table(FiguresText.moveColumns),
            refusedCodes,
        ]
    }
}

/// The money of one currency, storefront and period.
struct MoneyLine {
    let key: BatchFigures.MoneyKey
    let sum: BatchFigures.Money

    static let columns: [Column<MoneyLine>] = [
        .text("CURRENCY", "currency") { $0.key.currency },
        .text("STOREFRONT", "storefront") { $0.key.storefront },
        .text("PERIOD", "period") { $0.key.period }, .count("ROWS", "rows") { $0.sum.rows },
        .shown(.right("NOW A PERIOD")) { $0.shown($0.sum.now) },
        .shown(.right("THEN")) { $0.shown($0.sum.then) },
        .shown(.right("NOW A MONTH")) { $0.shownMonth($0.sum.now) },
        .shown(.right("THEN")) { $0.shownMonth($0.sum.then) },
        .shown(.right("NEEDS CONSENT, A MONTH")) { $0.shownMonth($0.sum.atRisk) },
        .shown(.right("NOT KNOWN, A MONTH")) { $0.shownMonth($0.sum.maybeAtRisk) },
        .key("now_per_period_milliunits") { $0.sum.now.milliunits },
        .key("then_per_period_milliunits") { $0.sum.then.milliunits },
        .key("at_risk_per_period_milliunits") { $0.sum.atRisk.milliunits },
        .key("not_known_per_period_milliunits") { $0.sum.maybeAtRisk.milliunits },
        .key("now_per_month_milliunits") { $0.perMonth($0.sum.now) },
        .key("then_per_month_milliunits") { $0.perMonth($0.sum.then) },
        .key("at_risk_per_month_milliunits") { $0.perMonth($0.sum.atRisk) },
        .key("not_known_per_month_milliunits") { $0.perMonth($0.sum.maybeAtRisk) },
        .key("too_large") { $0.sum.isTooLarge },
    ]

    private func perMonth(_ sum: MoneySum) -> Int64? {
        Period(key.period).perMonth(sum)?.milliunits
    }

    private func shown(_ sum: MoneySum) -> String {
        sum.milliunits.map { price($0, currency: key.currency) } ?? "too large"
    }

    private func shownMonth(_ ofPeriod: MoneySum) -> String {
        Period(key.period).perMonth(ofPeriod).map { shownSum($0, currency: key.currency) } ?? "-"
    }
}

extension ConsentReason {
    /// When its answer will be known.
    fileprivate var whenNotKnown: String {
        switch self {
        case .alwaysConsentStorefront:
            "repricer rules import, rows of always_consent: Apple's amount or answer is known for others only"
        case .threshold:
            "repricer rules import, rows of threshold or exchange_rate: none is known, or an estimate is close to the line"
        case .increaseWithin12Months:
            "repricer reconcile --since, or ingest: their notifications of 12 months, or of their first period"
        case .koreaOfferConversion:
            "repricer sync: when another item's offer ends can't be read"
        }
    }
}

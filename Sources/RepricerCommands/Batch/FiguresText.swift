import Pricing
import Reports

/// The figures of a batch on one screen of 80 columns, each section the answer to one question. An empty section
/// is an empty text.
struct FiguresText {
    static var columns: Int { min(80, Screen.columns ?? 80) }
    private static let currenciesMax = 6
    private static let movesMax = 2
    private static let barMax = 30
    /// The most weeks that fit beside everything else. More are shown by months.
    private static let weeksMax = 6
    private static let monthsMax = 13

    let figures: BatchFigures
    let money: MoneyAMonth
    let isTerminal: Bool

    /// Joins the sections in their order, with an empty line between them.
    static func joined(_ sections: [String]) -> String {
        sections.filter { !$0.isEmpty }.joined(separator: "\n")
    }

    private struct ConsentLine {
        let name: String
        let rows: Int?
        let why: String
    }

    var consentText: String {
        var lines: [ConsentLine] = []
        func add(_ consent: Consent, _ name: String, _ why: String) {
            guard let rows = figures.consents[consent] else { return }
            lines.append(ConsentLine(name: name, rows: rows, why: why))
        }
        let reasons = ConsentReason.allCases.compactMap { reason in
            figures.reasons[reason].map { "\(reason.rawValue) \($0)" }
        }
        add(.required, "required", fitted(reasons, separator: ", ", columns: Self.whyColumns))
        add(.notKnown, "not known", "dated and sent as if required")
        for line in notKnownLines where figures.consents[.notKnown] != nil { lines.append(line) }
        add(.notRequired, "not required", "customers are told, and not asked")
        add(.none, "decrease", "")
        return lines.table([
            .shown(.left("CONSENT")) { $0.name },
            .shown(.right("ROWS")) { $0.rows.map(String.init) ?? "" },
            .shown(.left("WHY")) { $0.why },
        ])
    }

    /// How much of a line is left beside the name and the number.
    private static var whyColumns: Int { max(20, columns - 20) }

    /// A line for each rule that gives no answer: how many rows, and what would make the answer known.
    private var notKnownLines: [ConsentLine] {
        ConsentReason.allCases.compactMap { rule in
            figures.notKnown[rule].map { open in
                let what = "\(open.rows) \(rule.rawValue): \(rule.shortRemedy)"
                let places =
                    rule.isOfStorefront
                    ? fitted(
                        open.storefronts.sorted(), separator: " ",
                        columns: Self.whyColumns - what.count - 1) : ""
                return ConsentLine(
                    name: "", rows: nil, why: places.isEmpty ? what : "\(what) \(places)")
            }
        }
    }

    var moneyText: String {
        guard !money.lines.isEmpty else { return moneyNotes }
        let most = money.lines.sorted {
            ($1.money.rows, $0.currency) < ($0.money.rows, $1.currency)
        }
        let shown = money.lines.filter { most.prefix(Self.currenciesMax).contains($0) }
        let others = money.lines.count - shown.count
        var lines = shown.map { (name: $0.currency, currency: $0.currency, money: $0.money) }
        let isAlone = money.lines.count == 1 && money.lines.first?.currency == currency
        if !isAlone, money.withoutRate.count < money.lines.count {
            lines.append((name: "in \(currency)", currency: currency, money: money.total))
        }
        return lines.table([
            .shown(.left("A MONTH")) { $0.name },
            .shown(.right("ROWS")) { "\($0.money.rows)" },
            .shown(.right("NOW")) { shownSum($0.money.now, currency: $0.currency) },
            .shown(.right("THEN")) { shownSum($0.money.then, currency: $0.currency) },
            .shown(.right("CHANGE")) {
                ($0.money.change.milliunits.map { $0 > 0 } == true ? "+" : "")
                    + shownSum($0.money.change, currency: $0.currency)
            }, .shown(.right("AT RISK")) { shownSum($0.money.atRisk, currency: $0.currency) },
            .shown(.right("NOT KNOWN")) {
                shownSum($0.money.maybeAtRisk, currency: $0.currency)
            },
        ]) + (others > 0 ? "and \(others) currencies more: --details\n" : "") + moneyNotes
    }

    private var currency: String { money.reportingCurrency }

    private var moneyNotes: String {
        var notes = ""
        if !money.rates.isEmpty {
            let rates = money.rates.map { "\(shownRate($0.rate)) \($0.currency)" }
            notes += wrapped("1 \(currency) = \(rates.joined(separator: ", ")) (\(rateSources))")
        }
        if !money.withoutRate.isEmpty {
            let rows = money.withoutRate.reduce(0) { $0 + $1.money.rows }
            notes += wrapped(
                "no rate for \(money.missingRates.joined(separator: " ")): "
                    + "\(rows) \(rows == 1 ? "row is" : "rows are") not in that sum; "
                    + "`repricer rules import` takes rates")
        }
        if money.isTooLarge { notes += wrapped(sumTooLarge) }
        if money.rowsWithoutMonth > 0 {
            notes += "\(money.rowsWithoutMonth) rows of an unknown period: in no sum\n"
        }
        return notes
    }

    /// `ecb, of 2026-11-20`; two days where the rates are of several.
    private var rateSources: String {
        let sources = Set(money.rates.map(\.source)).sorted().joined(separator: ", ")
        let days = Set(money.rates.compactMap { $0.validFrom?.day }).sorted()
        guard let first = days.first, let last = days.last else { return sources }
        return "\(sources), of \(first.text)" + (first == last ? "" : " to \(last.text)")
    }

    var datesText: String {
        let isByWeek = figures.weeks.count <= Self.weeksMax
        let all = (isByWeek ? figures.weeks : figures.months).sorted { $0.key < $1.key }
        let most = all.map(\.value.rows).max() ?? 1
        let shown = all.prefix(Self.monthsMax)
        let later = all.dropFirst(Self.monthsMax).reduce(0) { $0 + $1.value.rows }
        let mark = isTerminal ? "█" : "#"
        return shown.table([
            .shown(.left(isByWeek ? "EFFECTIVE, WEEK OF" : "EFFECTIVE, MONTH")) {
                isByWeek ? $0.key.text : String($0.key.text.prefix(7))
            },
            .shown(.right("UP")) { "\($0.value.increases)" },
            .shown(.right("DOWN")) { "\($0.value.decreases)" },
            .shown(.left("")) {
                String(repeating: mark, count: max(1, $0.value.rows * Self.barMax / max(1, most)))
            },
        ]) + (later > 0 ? "and \(later) rows later: --details\n" : "")
    }

    var movesText: String {
        (figures.increases.moves.prefix(Self.movesMax)
            + figures.decreases.moves.prefix(Self.movesMax)).table(Self.moveColumns)
    }

    static let moveColumns: [Column<PriceMove>] = [
        .shown(.right("LARGEST")) { $0.shownPercent }, .number("LINE", "line") { $0.line },
        .text("SUBSCRIPTION", "original_transaction_id") { $0.originalTransactionID },
        .shown(.left("ITEM")) { $0.sku.count > 20 ? $0.sku.prefix(19) + "…" : $0.sku },
        .key("sku") { $0.sku },
        .shown(.right("NOW")) { shownPrice($0.currentPrice, currency: $0.currency) },
        .shown(.right("THEN")) { shownPrice($0.newPrice, currency: $0.currency) },
        .text("", "currency") { $0.currency },
        .key("current_price_milliunits") { $0.currentPrice },
        .key("new_price_milliunits") { $0.newPrice }, .key("permille") { $0.permille },
    ]

    var warningsText: String {
        BatchWarning.allCases.compactMap { warning in
            figures.warnings[warning].map { rows in
                let said =
                    "warning: \(warning.said): \(counted(rows.count, warning.noun))"
                guard !rows.lines.isEmpty else { return said + "\n" }
                let begin = said + (rows.count == 1 ? ", line " : ", lines ")
                return begin
                    + fitted(
                        rows.lines.map(String.init), separator: ", ", of: rows.count,
                        columns: Self.columns - begin.count) + "\n"
            }
        }.joined()
    }

    /// The codes, the most frequent first.
    var refusedText: String {
        let codes = RowCode.allCases.compactMap { code in
            figures.codes[code].map { (name: code.rawValue, rows: $0) }
        }
        guard !codes.isEmpty else { return "" }
        let most = codes.sorted { ($1.rows, $0.name) < ($0.rows, $1.name) }
        return wrapped("refused: " + most.map { "\($0.name) \($0.rows)" }.joined(separator: ", "))
    }
}

extension PriceMove {
    /// The percentage, such as `+25.0 %`, `-50.0 %` or `from 0`; empty where none makes sense.
    var shownPercent: String {
        guard let permille else { return currentPrice <= 0 ? "from 0" : "beyond reason" }
        guard permille.magnitude < 10_000_000 else { return "beyond reason" }
        return "\(permille < 0 ? "-" : "+")\(permille.magnitude / 10).\(permille.magnitude % 10) %"
    }
}

extension ConsentReason {
    /// What makes its answer known, in a few words.
    fileprivate var shortRemedy: String {
        switch self {
        case .alwaysConsentStorefront: "import"
        case .threshold: "import rows for"
        case .increaseWithin12Months: "ingest or reconcile 12 months"
        case .koreaOfferConversion: "sync"
        }
    }

    /// Whether a row of rules for the storefront makes its answer known.
    fileprivate var isOfStorefront: Bool {
        switch self {
        case .alwaysConsentStorefront, .threshold: true
        case .increaseWithin12Months, .koreaOfferConversion: false
        }
    }
}

extension BatchWarning {
    /// What its number counts.
    fileprivate var noun: String {
        switch self {
        case .makesOthersAsk: "open change"
        case .moreThanThreefold, .lessThanAThird, .farAhead, .idsEndInZero, .stale, .turns, .late:
            "row"
        }
    }

    fileprivate var said: String {
        switch self {
        case .moreThanThreefold: "more than 3 times today's price"
        case .lessThanAThird: "less than a third of today's price"
        case .farAhead: "effective in more than two years"
        case .idsEndInZero: "every id ends in 0, did a spreadsheet round them"
        case .stale: "facts older than a known renewal, sync them"
        case .turns: "consent turns before the last day to send"
        case .late: "late at the allowed rate"
        case .makesOthersAsk: "makes open changes of other batches need consent"
        }
    }
}

/// `1 row`, `2 rows`.
func counted(_ count: Int, _ noun: String) -> String {
    "\(count) \(noun)\(count == 1 ? "" : "s")"
}

/// As many of the texts as fit, and how many are left out.
func fitted(
    _ texts: [String], separator: String, of count: Int? = nil, columns: Int
) -> String {
    let count = count ?? texts.count
    var shown = ""
    for (index, text) in texts.enumerated() {
        let next = shown.isEmpty ? text : shown + separator + text
        let rest = count - index - 1
        let end = rest > 0 ? " and \(rest) more" : ""
        if !shown.isEmpty, (next + end).count > columns {
            return shown + " and \(count - index) more"
        }
        shown = next
    }
    return texts.count < count ? shown + " and \(count - texts.count) more" : shown
}

/// The text in lines of the screen's width, cut at blanks, the second and those after it indented.
func wrapped(_ text: String) -> String {
    var lines: [String] = []
    var line = ""
    for word in text.split(separator: " ") {
        if !line.isEmpty, line.count + 1 + word.count > FiguresText.columns {
            lines.append(line)
            line = "  "
        }
        line += line.isEmpty || line == "  " ? word : " " + word
    }
    return (lines + [line]).map { $0 + "\n" }.joined()
}

/// A price in its currency's own decimals.
func shownPrice(_ milliunits: Int64, currency: String) -> String {
    PriceText.decimal(milliunits, decimals: decimals(of: currency))
}

/// A sum, rounded to the currency's decimals: a month's part of a period may have thousandths.
func shownAmount(_ milliunits: Int64, currency: String) -> String {
    let step = Currency(code: currency, decimals: decimals(of: currency)).smallestStep
    let half = milliunits < 0 ? -step / 2 : step / 2
    let (sum, overflow) = milliunits.addingReportingOverflow(half)
    return shownPrice((overflow ? milliunits : sum) / step * step, currency: currency)
}

/// A sum, or the words that it is too large.
func shownSum(_ sum: MoneySum, currency: String) -> String {
    sum.milliunits.map { shownAmount($0, currency: currency) } ?? "too large"
}

/// What `too large` means, and what to do about it.
let sumTooLarge =
    "too large: a sum of more than \(PriceText.decimal(.max, decimals: 3)), which is not shown; "
    + "check the prices of these rows"

private func decimals(of currency: String) -> Int {
    Currency.apple.first { $0.code == currency }?.decimals ?? 2
}

/// The rate with four digits after the point, or as many as it takes to be more than 0.
private func shownRate(_ rate: Rate) -> String {
    let parts = rate.text.split(separator: ".")
    guard let whole = parts.first, parts.count == 2, let fraction = parts.last else {
        return rate.text
    }
    let zeros = whole == "0" ? fraction.prefix { $0 == "0" }.count : 0
    return "\(whole).\(fraction.prefix(zeros + 4))"
}

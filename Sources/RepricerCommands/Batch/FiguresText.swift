import Pricing
import Reports

/// The figures of a batch on one screen of 80 columns. Each section answers one question; an empty section is an empty
/// text.
struct FiguresText {
    static var columns: Int { min(80, Screen.columns ?? 80) }
    private static let barMax = 30
    /// The most weeks that fit beside everything else. More are shown by months.
    private static let weeksMax = 6
    private static let monthsMax = 13

    let figures: BatchFigures
    let money: MoneyAMonth
    let isTerminal: Bool
    var density = Density.full
    /// Whether the batch takes changes back that nobody was told of, so that its increases need no consent either.
    var isUndo = false

    private var movesMax: Int { density >= .short ? 1 : 2 }

    /// Joins the sections in their order, with an empty line between them where there is room.
    static func joined(_ sections: [String], _ density: Density) -> String {
        sections.filter { !$0.isEmpty }.joined(separator: density == .full ? "\n" : "")
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
            figures.reasons[reason].map { "\(reason.rawValue) \(counted($0))" }
        }
        add(.required, "required", fitted(reasons, separator: ", ", columns: Self.whyColumns))
        if density == .shortest {
            add(.notKnown, "not known", notKnownRules)
        } else {
            add(.notKnown, "not known", "dated and sent as if required")
            for line in notKnownLines where figures.consents[.notKnown] != nil {
                lines.append(line)
            }
        }
        add(.notRequired, "not required", "customers are told, and not asked")
        add(
            .none, isUndo ? "none" : "decrease",
            isUndo ? "nobody was told of what is taken back" : "")
        return lines.table([
            .shown(.left("CONSENT")) { $0.name },
            .shown(.right("ROWS")) { $0.rows.map { counted($0) } ?? "" },
            .shown(.left("WHY")) { $0.why },
        ])
    }

    /// How many columns of a line are left beside the name and the number.
    private static var whyColumns: Int { max(20, columns - 20) }

    /// A line for each rule without an answer: how many rows it concerns, and what would give the answer.
    private var notKnownLines: [ConsentLine] {
        ConsentReason.allCases.compactMap { rule in
            figures.notKnown[rule].map { open in
                let what = "\(counted(open.rows)) \(rule.rawValue): \(rule.shortRemedy)"
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

    /// The rules that give no answer, on one line.
    private var notKnownRules: String {
        let rules = ConsentReason.allCases.compactMap { rule in
            figures.notKnown[rule].map { "\(rule.rawValue) \(counted($0.rows))" }
        }
        return fitted(rules, separator: ", ", columns: Self.whyColumns)
    }

    var datesText: String {
        let isByWeek = figures.weeks.count <= Self.weeksMax
        let all = (isByWeek ? figures.weeks : figures.months).sorted { $0.key < $1.key }
        guard density != .shortest else {
            let begin = isByWeek ? "effective, week of: " : "effective: "
            let texts = all.map { key, dates in
                "\(isByWeek ? key.text : String(key.text.prefix(7))) \(counted(dates.rows))"
            }
            guard !texts.isEmpty else { return "" }
            return begin
                + fitted(texts, separator: ", ", columns: Self.columns - begin.count) + "\n"
        }
        let most = all.map(\.value.rows).max() ?? 1
        let shown = all.prefix(Self.monthsMax)
        let later = all.dropFirst(Self.monthsMax).reduce(0) { $0 + $1.value.rows }
        let mark = isTerminal ? "█" : "#"
        return shown.table([
            .shown(.left(isByWeek ? "EFFECTIVE, WEEK OF" : "EFFECTIVE, MONTH")) {
                isByWeek ? $0.key.text : String($0.key.text.prefix(7))
            },
            .shown(.right("UP")) { counted($0.value.increases) },
            .shown(.right("DOWN")) { counted($0.value.decreases) },
            .shown(.left("")) {
                String(repeating: mark, count: max(1, $0.value.rows * Self.barMax / max(1, most)))
            },
        ]) + (later > 0 ? "and \(counted(later, "row")) later: --details\n" : "")
    }

    var movesText: String {
        (figures.increases.moves.prefix(movesMax) + figures.decreases.moves.prefix(movesMax))
            .table(Self.moveColumns)
    }

    static let moveColumns: [Column<PriceMove>] = [
        .shown(.right("LARGEST")) { $0.words }, .number("LINE", "line") { $0.line },
        .text("SUBSCRIPTION", "original_transaction_id") { $0.originalTransactionID },
        .shown(.left("ITEM")) { $0.sku.count > 20 ? $0.sku.prefix(19) + "…" : $0.sku },
        .key("sku") { $0.sku },
        .shown(.right("NOW")) { price($0.currentPrice, currency: $0.currency) },
        .shown(.right("THEN")) { price($0.newPrice, currency: $0.currency) },
        .text("", "currency") { $0.currency },
        .key("current_price_milliunits") { $0.currentPrice },
        .key("new_price_milliunits") { $0.newPrice }, .key("permille") { $0.permille },
        .key("basis_points") { $0.basisPoints },
    ]

    var warningsText: String {
        if density == .shortest { return shortWarnings }
        return BatchWarning.allCases.compactMap { warning in
            figures.warnings[warning].map { rows in
                let said =
                    "warning: \(warning.words): \(counted(rows.count, warning.noun))"
                guard !rows.lines.isEmpty else { return wrapped(said) }
                let begin = said + (rows.count == 1 ? ", line " : ", lines ")
                return wrapped(
                    begin
                        + fitted(
                            rows.lines.map(String.init), separator: ", ", of: rows.count,
                            columns: Self.columns - begin.count))
            }
        }.joined()
    }

    /// All warnings in one sentence, without their lines.
    private var shortWarnings: String {
        let said = BatchWarning.allCases.compactMap { warning in
            figures.warnings[warning].map { rows in
                "\(warning.words): \(counted(rows.count, warning.noun))"
            }
        }
        guard !said.isEmpty else { return "" }
        return wrapped(
            (said.count == 1 ? "warning: " : "warnings: ") + said.joined(separator: "; "))
    }

    /// Why rows were refused, the most frequent reason first; on a small screen on one line.
    var refusedText: String {
        guard density >= .short else { return figures.refusedCodes }
        let codes = figures.codes.map { (code: $0.key, rows: $0.value) }.sorted {
            ($1.rows, $0.code.rawValue) < ($0.rows, $1.code.rawValue)
        }
        guard !codes.isEmpty else { return "" }
        let begin = "refused: "
        return begin
            + fitted(
                codes.map { "\(counted($0.rows)) \($0.code.words)" }, separator: ", ",
                columns: Self.columns - begin.count) + "\n"
    }
}

extension ConsentReason {
    /// What would give its answer, in a few words.
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

/// A sentence: on a terminal broken between its words, elsewhere one line.
func sentence(_ text: String) -> String {
    guard let columns = Screen.columns else { return text + "\n" }
    return broken(text, columns: columns) + "\n"
}

/// A sum, or the text that it is too large.
func shownSum(_ sum: MoneySum, currency: String) -> String {
    sum.milliunits.map { money($0, currency: currency) } ?? "too large"
}

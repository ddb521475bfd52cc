import Pricing
import Reports

/// Scenarios beside one another, a column each.
struct ScenarioTable {
    private struct Line {
        var label: String
        var cells: [String]
        /// A heading over the lines that follow.
        var isHeading = false
    }

    private static let monthsShown = 13
    private static let waitingDaysShown = [1, 2, 3, 7, 14, 30]

    private let wish: Commands.ScenarioWish
    private let forecasts: [ScenarioForecast]
    private let asOf: Instant
    private let decline: Commands.ScenarioWish.Decline
    private let reporting: ReportingCurrency?
    /// Of each scenario.
    private let sums: [Sums]

    /// The monthly prices of one scenario's rows and its gain in 12 months, by currency and converted to one.
    private struct Sums {
        var byCurrency: [String: Amounts] = [:]
        /// Nil where a currency has no rate.
        var total: Amounts?
    }

    private struct Amounts {
        var aMonth = BatchFigures.Money()
        var effect = ScenarioForecast.Effect.none
    }

    init(
        _ wish: Commands.ScenarioWish, _ forecasts: [ScenarioForecast], rules: RulesInForce,
        asOf: Instant, decline: Commands.ScenarioWish.Decline
    ) {
        self.wish = wish
        self.forecasts = forecasts
        self.asOf = asOf
        self.decline = decline
        let reporting = ReportingCurrency(wish.reportingCurrency, rules: rules)
        self.reporting = reporting
        sums = forecasts.map { Self.sums($0, wish.reportingCurrency, reporting, rules) }
    }

    private static func sums(
        _ forecast: ScenarioForecast, _ currency: String, _ reporting: ReportingCurrency?,
        _ rules: RulesInForce
    ) -> Sums {
        let aMonth = MoneyAMonth(forecast.money, in: currency, by: rules)
        var sums = Sums()
        for line in aMonth.lines {
            sums.byCurrency[line.currency, default: .init()].aMonth = line.money
        }
        var total: Amounts? = Amounts(aMonth: aMonth.total)
        for (code, effect) in forecast.effects {
            sums.byCurrency[code, default: .init()].effect = effect
            let converted =
                code == currency
                ? effect : effect.converted { reporting?.converted($0, from: code) }
            guard let converted else {
                total = nil
                continue
            }
            total = total.map { Amounts(aMonth: $0.aMonth, effect: $0.effect + converted) }
        }
        sums.total = aMonth.withoutRate.isEmpty ? total : nil
        return sums
    }

    /// The values of options that no subscription of the cohort has.
    private var nobodys: [(option: String, values: [String])] {
        let seen = forecasts.reduce(into: ScenarioForecast.Seen()) { $0.formUnion($1.seen) }
        return [
            ("sku", wish.cohort.skus.filter { !seen.skus.contains($0) }),
            ("storefront", wish.cohort.storefronts.filter { !seen.storefronts.contains($0) }),
            ("dependents", wish.cohort.dependents.filter { !seen.dependents.contains($0) }),
        ].filter { !$0.1.isEmpty }
    }

    var warnings: [String] {
        guard !forecasts.allSatisfy({ $0.rows == 0 }) else {
            return [
                "nobody is in the cohort: no active subscription renews "
                    + "\(wish.cohort.skus.joined(separator: " or ")) and fits the other options"
            ]
        }
        return nobodys.map { option, values in
            "warning: nobody in the cohort has --\(option) \(values.joined(separator: ", "))"
        }
    }

    private var currencies: [String] { Set(sums.flatMap(\.byCurrency.keys)).sorted() }

    private var withoutRate: [String] {
        guard let reporting else { return currencies.filter { $0 != wish.reportingCurrency } }
        return currencies.filter { reporting.converted(.zero, from: $0) == nil }
    }
}

// MARK: For a person

extension ScenarioTable {
    var text: String {
        var table = Table([.left("SCENARIO")] + wish.labels.map { .right($0) })
        for line in lines {
            table.add([line.isHeading ? line.label : "  \(line.label)"] + line.cells)
        }
        return ([table.text] + notes.map(sentence)).joined(separator: "")
    }

    private var lines: [Line] {
        counts + consent + months + waiting + money
    }

    private func line(_ label: String, _ cell: (ScenarioForecast) -> String) -> Line {
        Line(label: label, cells: forecasts.map(cell))
    }

    private func heading(_ label: String) -> Line {
        Line(label: label, cells: [], isHeading: true)
    }

    private var counts: [Line] {
        let codes = RowCode.allCases.filter { code in
            forecasts.contains { $0.codes[code] != nil }
        }
        let withoutPrice = ScenarioForecast.NoPrice.allCases.filter { why in
            forecasts.contains { $0.withoutPrice[why] != nil }
        }
        return [
            Line(label: "rows", cells: forecasts.map { counted($0.rows) }, isHeading: true),
            line("can go") { counted($0.canGo) },
        ] + codes.map { code in line(code.words) { counted($0.codes[code] ?? 0) } }
            + withoutPrice.map { why in line(why.words) { counted($0.withoutPrice[why] ?? 0) } }
    }

    private var consent: [Line] {
        let seen = Consent.allCases.filter { consent in
            forecasts.contains { $0.consents[consent] != nil }
        }
        return [heading("consent")]
            + seen.map { consent in
                line(consent == .none ? "none (a decrease)" : consent.words) {
                    counted($0.consents[consent] ?? 0)
                }
            }
            + (forecasts.contains { $0.stale > 0 }
                ? [line("of these stale") { counted($0.stale) }] : [])
    }

    private var months: [Line] {
        let seen = Set(forecasts.flatMap(\.months.keys)).sorted()
        let shown = seen.prefix(Self.monthsShown)
        let later = seen.dropFirst(Self.monthsShown)
        var lines = [heading("take effect in")]
        lines += shown.map { month in
            line(Self.name(ofMonth: month)) { counted($0.months[month] ?? 0) }
        }
        if !later.isEmpty {
            lines.append(
                line("later") { forecast in
                    counted(later.reduce(0) { $0 + (forecast.months[$1] ?? 0) })
                })
        }
        return lines
    }

    private static func name(ofMonth month: Int) -> String {
        let number = month % 12 + 1
        return "\(month / 12)-\(number < 10 ? "0" : "")\(number)"
    }

    private var waiting: [Line] {
        let shown = Self.waitingDaysShown.map { days in
            line("\(days) \(days == 1 ? "day" : "days")") {
                counted($0.slips.prefix(days).reduce(0, +))
            }
        }
        return [heading("slip a renewal after")] + shown
    }

    private var money: [Line] {
        let several = currencies.count > 1 || currencies.first != wish.reportingCurrency
        var lines: [Line] = []
        func add(_ label: String, _ amount: (Amounts) -> MoneySum) {
            lines.append(heading(label))
            for code in currencies {
                lines.append(
                    line(code) {
                        $0.byCurrency[code].map { shownSum(amount($0), currency: code) } ?? "-"
                    })
            }
            guard several, withoutRate.isEmpty else { return }
            lines.append(
                line("all, in \(wish.reportingCurrency)") {
                    $0.total.map { shownSum(amount($0), currency: wish.reportingCurrency) } ?? "-"
                })
        }
        let rate = percent(decline.basisPoints)
        add("12 months, \(rate) declining") {
            $0.effect.effect(declining: decline.basisPoints)
        }
        add("at risk a month") { $0.aMonth.atRisk }
        add("at risk a month, not known") { $0.aMonth.maybeAtRisk }
        lines.append(heading("break-even decline rate"))
        for code in currencies {
            lines.append(line(code) { breakEven($0.byCurrency[code]) })
        }
        if several, withoutRate.isEmpty {
            lines.append(line("all, in \(wish.reportingCurrency)") { breakEven($0.total) })
        }
        return lines
    }

    private func line(_ label: String, _ cell: (Sums) -> String) -> Line {
        Line(label: label, cells: sums.map(cell))
    }

    private func breakEven(_ amounts: Amounts?) -> String {
        guard let amounts, amounts.aMonth.rows > 0, amounts.effect != .none else { return "-" }
        if let points = amounts.effect.breakEvenBasisPoints { return percent(points) }
        return amounts.effect.gain.isNegative ? "loses at any" : "gains at any"
    }

    private var isTooLarge: Bool {
        sums.contains { sums in
            (Array(sums.byCurrency.values) + [sums.total].compactMap { $0 }).contains(
                where: isTooLarge)
        }
    }

    private func isTooLarge(_ amounts: Amounts) -> Bool {
        let effect = amounts.effect
        return amounts.aMonth.isTooLarge
            || [effect.gain, effect.loss, effect.effect(declining: decline.basisPoints)]
                .contains(where: \.isTooLarge)
    }

    private var notes: [String] {
        var notes: [String] = []
        switch decline.asked {
        case nil: break
        case 0?:
            notes.append(
                "Nobody was ever asked about these items: 0 % declining is no forecast. Give --decline-rate."
            )
        case let asked?:
            notes.append(
                "\(percent(decline.basisPoints)) declining: seen on \(counted(asked, "row")) of your batches."
            )
        }
        if !withoutRate.isEmpty {
            notes.append(
                "No sum in \(wish.reportingCurrency): no exchange rate for "
                    + "\(withoutRate.joined(separator: ", ")); load one with repricer rules import."
            )
        } else if let day = reporting?.ratesFrom(currencies) {
            notes.append("Sums in \(wish.reportingCurrency) by the exchange rates of \(day.text).")
        }
        if isTooLarge { notes.append("\(sumTooLarge).") }
        if let stale = forecasts.map(\.stale).max(), stale > 0 {
            notes.append(
                "\(counted(stale, "stale row")): a known renewal has passed and no notification told of it. "
                    + "Run repricer sync or reconcile first: what was not heard may change who must consent."
            )
        }
        return notes
    }

    private func percent(_ basisPoints: Int64) -> String {
        "\(PriceText.decimal(basisPoints * 10, decimals: basisPoints % 100 == 0 ? 0 : 2)) %"
    }
}

extension Consent {
    fileprivate var words: String { rawValue.replacing("_", with: " ") }
}

// MARK: For a program, and as a page

extension ScenarioTable {
    var json: JSONValue {
        [
            "as_of": asOf, "skus": JSONValue.array(wish.cohort.skus.map { .string($0) }),
            "decline_rate_basis_points": decline.basisPoints,
            "decline_rate_rows": decline.asked,
            "reporting_currency": wish.reportingCurrency,
            "rates_from": reporting?.ratesFrom(currencies)?.text,
            "currencies_without_rate": JSONValue.array(withoutRate.map { .string($0) }),
            "nobody_has": JSONValue.object(
                nobodys.map { .init(name: $0.option, value: $0.values.json) }),
            "scenarios": JSONValue.array(
                zip(zip(wish.scenarios, wish.labels), zip(forecasts, sums))
                    .map { json($0.0, $0.1, $1.0, $1.1) }),
        ]
    }

    private func json(
        _ scenario: Scenario, _ label: String, _ forecast: ScenarioForecast, _ sums: Sums
    ) -> JSONValue {
        let months = forecast.months.sorted { $0.key < $1.key }
        return [
            "scenario": label, "rule": scenario.rule.text, "sent_at": scenario.sentAt,
            "rows": forecast.rows, "can_go": forecast.canGo, "refused": forecast.refused,
            "rejected_rows": JSONValue.counts(
                RowCode.allCases.compactMap { code in
                    forecast.codes[code].map { (code.rawValue, Int64($0)) }
                }),
            "without_price": JSONValue.counts(
                ScenarioForecast.NoPrice.allCases.compactMap { why in
                    forecast.withoutPrice[why].map { (why.rawValue, Int64($0)) }
                }),
            "consent": JSONValue.counts(
                Consent.allCases.compactMap { consent in
                    forecast.consents[consent].map { (consent.rawValue, Int64($0)) }
                }),
            "stale": forecast.stale,
            "months": JSONValue.counts(
                months.map { (Self.name(ofMonth: $0.key), Int64($0.value)) }),
            "slips_by_day": JSONValue.array(forecast.slips.map { .integer(Int64($0)) }),
            "money": JSONValue.object(
                currencies.compactMap { code in
                    sums.byCurrency[code].map { .init(name: code, value: json($0)) }
                }),
            "total": sums.total.map(json),
        ]
    }

    private func json(_ amounts: Amounts) -> JSONValue {
        let (aMonth, effect) = (amounts.aMonth, amounts.effect)
        return [
            "rows": aMonth.rows, "now_per_month_milliunits": aMonth.now.milliunits,
            "then_per_month_milliunits": aMonth.then.milliunits,
            "effect_12_months_milliunits":
                effect.effect(declining: decline.basisPoints).milliunits,
            "effect_12_months_nobody_declines_milliunits": effect.gain.milliunits,
            "lost_12_months_all_decline_milliunits": effect.loss.milliunits,
            "at_risk_per_month_milliunits": aMonth.atRisk.milliunits,
            "not_known_per_month_milliunits": aMonth.maybeAtRisk.milliunits,
            "break_even_basis_points": effect.breakEvenBasisPoints,
            "too_large": isTooLarge(amounts),
        ]
    }

    /// One page that needs nothing else.
    var page: String {
        var rows = ""
        for line in lines {
            let cells = line.cells.map { "<td class=\"number\">\(escapeHTML($0))</td>" }.joined()
            let empty = line.cells.isEmpty ? "<td colspan=\"\(forecasts.count)\"></td>" : ""
            rows +=
                "<tr\(line.isHeading ? " class=\"part\"" : "")><th scope=\"row\">"
                + "\(escapeHTML(line.label))</th>\(cells)\(empty)</tr>\n"
        }
        let head = wish.labels.map { "<th scope=\"col\" class=\"number\">\(escapeHTML($0))</th>" }
            .joined()
        return htmlDocument(
            title: "What if: \(wish.cohort.skus.joined(separator: ", "))", asOf: asOf.milliseconds,
            body: """
                <div class="scroll"><table><thead><tr><th></th>\(head)</tr></thead><tbody>
                \(rows)</tbody></table></div>
                \(notes.map { "<p>\(escapeHTML($0))</p>" }.joined(separator: "\n"))

                """)
    }
}

extension ScenarioForecast.NoPrice {
    fileprivate var words: String {
        switch self {
        case .alwaysAsked: "any increase may need consent"
        case .notANumber: "the rule gives no price"
        }
    }
}

import Batches
import Pricing
import Reports

/// The lower half of a batch's page.
extension BatchView {
    private static let currenciesOfAChart = 5

    var tables: HTML {
        section("Money by currency, tax included", moneyTable, after: moneyNotes)
            + section("What stops it, and what waits", control)
            + (isUnsent ? .none : section("Forecast against fact", accuracy))
            + section("Rows by state", states)
            + section("What was refused or ended otherwise", refusals)
            + section("Reports of this batch", reports)
    }

    private var moneyTable: HTMLTable {
        let rows = currencies.map { line -> [HTML] in
            let money = { (value: Int128) in HTML(amount(value, line.currency)) }
            return [
                HTML(line.currency), HTML(counted(line.changes)), HTML(counted(line.renewals)),
                money(line.before), money(line.charged),
                HTML(difference(line.charged - line.before, line.currency)),
                HTML(difference(line.uplift, line.currency)),
                HTML(difference(-line.lost, line.currency)),
                HTML(net(line)),
            ]
        }
        return HTMLTable(
            "Money by currency, tax included",
            [
                .text("Currency"), .number("Changes"), .number("Renewals at the new price"),
                .number("At the old price"), .number("Charged"), .number("More so far"),
                .number("More a month"), .number("Lost a month"), .number("Net a month"),
            ], rows)
    }

    /// The net amount a month: the difference of the gain and the loss as shown.
    private func net(_ line: CurrencyLine) -> String {
        guard let more = MoneySum(String(line.uplift)), let lost = MoneySum(String(line.lost)),
            let net = shownDifference(
                from: lost, to: more, roundedTo: smallestShown(line.currency)
            ).milliunits
        else { return difference(line.net, line.currency) }
        return difference(net, line.currency)
    }

    private var moneyNotes: HTML {
        let note: HTML = """
            <p class="note">More counts only where a renewal was charged at the new price, less refunds. Lost is what
            customers paid who declined an increase, or left once they were asked or told of it, and their dependents.</p>

            """
        // The chart is shown separately, and would otherwise appear twice.
        let chart = facts.money.chart
        // Two bars for each of many currencies would not be readable.
        return note
            + (currencies.count > Self.currenciesOfAChart
                ? folded("The same as a chart", chart) : chart)
            + folded(
                "By storefront and period, with the sum of each currency",
                facts.money.html(isCharted: false))
    }

    // MARK: Guards, waves, parked rows

    private var control: HTML {
        guards + waves + parked + moved
    }

    private var guards: HTML {
        guard !facts.rails.isEmpty else {
            return "<p>No guard stops this batch by itself.</p>\n"
        }
        let rows = facts.rails.map { rail -> [HTML] in
            let count = facts.reading?.counts[rail.figure]
            let seen: HTML =
                count.map {
                    "\(counted($0.count)) of \(counted($0.all)) (\(share($0.count, of: $0.all)))"
                }
                ?? "not counted yet"
            return [
                HTML(rail.figure.words),
                HTML("more than \(WavePlan.percent(rail.over)) of at least \(rail.least)"),
                seen, .time(count == nil ? nil : facts.reading?.at),
            ]
        }
        return HTMLTable(
            "Guards: what halts the batch by itself",
            [.text("Guard"), .text("Halts at"), .text("Now"), .text("Counted")], rows
        ).html
    }

    private var waves: HTML {
        let rows = facts.waves.map { wave -> [HTML] in
            let all = wave.states.values.reduce(0, +)
            let unsent = ["awaiting_approval", "queued"].map { wave.states[$0, default: 0] }
                .reduce(0, +)
            return [
                HTML("\(wave.number)"), HTML(wave.label), HTML(counted(all)),
                HTML(counted(unsent)), wave.releaseText(of: batch, named: word),
            ]
        }
        return HTMLTable(
            "Waves",
            [
                .text("Wave"), .text("Rows of"), .number("Rows"), .number("Not sent"),
                .text("Released"),
            ], rows
        ).html
    }

    private var parked: HTML {
        let rows = facts.parked.map { parked in
            [
                HTML(parked.reason), HTML(counted(parked.rows)),
                subscriptionLink(parked.subscription),
            ]
        }
        return HTMLTable(
            "Parked rows by reason: each waits by itself and is tried again",
            [.text("Reason"), .number("Rows"), .text("One of them")], rows
        ).html
    }

    private var moved: HTML {
        let rows = facts.moved.map { moved in
            [
                subscriptionLink(moved.originalTransactionID), HTML(moved.sku),
                HTML(spaced(moved.state)), .time(moved.from), .time(moved.to),
            ]
        }
        let total = facts.outlook.trouble.moved
        let which = total > Int64(rows.count) ? ", the first \(rows.count)" : ""
        return HTMLTable(
            "Moved: \(counted(total, "row")) at a later renewal than was approved\(which)",
            [
                .text("Subscription"), .text("Item"), .text("State"), .text("Approved for"),
                .text("Now"),
            ],
            rows
        ).html
    }

    // MARK: Forecast

    private var accuracy: HTMLTable {
        let table = facts.accuracy
        let groups = Dictionary(grouping: table.rows) { table.cell($0, "forecast_consent") ?? "" }
        let order: [Consent] = [.required, .notKnown, .notRequired, .none]
        let rows = order.compactMap { consent -> [HTML]? in
            guard let rows = groups[consent.rawValue] else { return nil }
            let came = { (name: String?) in
                table.sum("changes", of: rows.filter { table.cell($0, "came_consent") == name })
            }
            let all = table.sum("changes", of: rows)
            let agreed = came(consent.rawValue)
            let numbers = [
                all, came("required"), came("not_required") + came("none"), came(nil),
                table.sum("effective_as_forecast", of: rows),
                table.sum("effective_earlier", of: rows), table.sum("effective_later", of: rows),
            ].map { HTML(counted($0)) }
            let right =
                consent == .notKnown ? "–" : share(agreed, of: all - came(nil))
            return [HTML(consent.forecastWords())] + numbers + [HTML(right)]
        }
        return HTMLTable(
            "Forecast against fact",
            [
                .text("Forecast of consent"), .number("Changes"), .number("Were asked"),
                .number("Were not asked"),
                .number(isOpen ? "Not known yet" : "Never known"), .number("On the day forecast"),
                .number("Earlier"), .number("Later"), .number("Consent as forecast"),
            ], rows)
    }

    // MARK: States

    private var states: HTMLTable {
        let rows = ChangeState.allCases.compactMap { state -> [HTML]? in
            guard let count = facts.states[state.rawValue], count > 0 else { return nil }
            return [
                HTML(spaced(state.rawValue)), HTML(state.words), HTML(counted(count)),
                Reports.progress(count, of: batch.rowCount),
            ]
        }
        return HTMLTable(
            "Rows by state",
            [.text("State"), .text("What it means"), .number("Rows"), .text("Part")],
            rows, totals: [["All rows", "", HTML(counted(batch.rowCount)), ""]])
    }

    private var refusals: HTML {
        let ended = facts.ended.map { ended in
            [HTML(spaced(ended.state)), HTML(reasonWords(ended.reason)), HTML(counted(ended.rows))]
        }
        let refused = facts.refused.sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map {
            [HTML("\(reasonWords($0.key)) (\($0.key))"), HTML(counted($0.value))]
        }
        let dependents = facts.dependents.sorted { $0.key < $1.key }.map {
            [HTML(spaced($0.key)), HTML(counted($0.value))]
        }
        let exceptions = facts.exceptions.map {
            [HTML(spaced($0.name)), HTML(counted($0.charges))]
        }
        return HTMLTable(
            "Changes that ended otherwise than in effect",
            [.text("State"), .text("Reason"), .number("Rows")], ended, isStacked: true
        ).html
            + HTMLTable(
                "Rows of the file that were refused at the submission",
                [.text("Why"), .number("Rows")], refused
            ).html
            + HTMLTable(
                "Dependents of who declined: their cancellations",
                [.text("State"), .number("Items")], dependents
            ).html
            + HTMLTable(
                "Charges that are not as they should be",
                [.text("What is wrong"), .number("Charges")], exceptions
            ).html
                + """
                <p class="note"><a href="/reports/charge_exception?batch=\(batch.batchID)">The report of charge exceptions</a> \
                names each of them, and the charges that are missing.</p>

                """
    }

    private var reports: HTML {
        let links = ReportName.allCases.filter(\.hasBatches).map { name -> HTML in
            let address = "/reports/\(name.rawValue)?batch=\(batch.batchID)"
            return
                "<li><a href=\"\(address)\">\(name.title)</a> (<a href=\"\(address)&amp;format=csv\">CSV</a>)</li>\n"
        }
        return "<ul>\n\(links)</ul>\n"
    }
}

extension GuardRail.Figure {
    var words: String {
        switch self {
        case .errors: "Refused by the App Store, of those that it answered"
        case .declined: "Declined, of the customers who were asked"
        case .autoRenewOff: "Renewal turned off or left, of the customers who were told"
        case .moved: "At a later renewal than approved, of those queued or sent"
        }
    }
}

extension ControlQueries.Wave {
    func releaseText(of batch: BatchQueries.Batch, named word: String) -> HTML {
        if let releasedAt { return .time(releasedAt) }
        if batch.isWithdrawn { return "never, the batch is withdrawn" }
        switch release {
        case "approval": return "with the approval"
        case "at": return plannedAt.map { "at \(.time($0))" } ?? "–"
        case "after":
            return "\(waitText) after the one before"
        default: return "by hand: \(HTML.command("repricer release \(word)"))"
        }
    }
}

extension Consent {
    /// The forecast in words. An undo takes back what nobody was told of, so that even its increases ask nobody.
    func forecastWords(isUndo: Bool = false) -> String {
        switch self {
        case .required: "Required: the customer must agree"
        case .notKnown: "Not known: sent as if required"
        case .notRequired: "Not required: the customer is told"
        case .none: isUndo ? "Undo: nobody is asked" : "Decrease: nobody is asked"
        }
    }
}

extension ChangeState {
    /// What the state means to somebody who reads it for the first time.
    var words: String {
        switch self {
        case .awaitingApproval: "waits for a second person"
        case .queued: "approved, its call has not left"
        case .sending: "its call is on its way"
        case .unknown: "the outcome of its call is not known, and is being settled"
        case .scheduled: "the App Store has it"
        case .pendingConsent: "the customer was asked and has not answered"
        case .accepted: "the customer agreed or was informed"
        case .effective: "in effect: a renewal was or will be charged the new price"
        case .declined: "the customer did not agree, to it or to its parent item"
        case .cancelled: "the customer left, or was refunded"
        case .lapsed: "ended for billing or product reasons"
        case .invalidated: "the item was replaced, or has another price now"
        case .rejected: "the App Store refused it"
        case .ineligible: "not sent: the facts had changed"
        case .missed: "not sent in time for any renewal"
        case .aborted: "withdrawn, or held out, before it was sent"
        }
    }
}

import Batches
import Facts
import Pricing
import Reports
import ServiceKit

extension Site {
    func batchPage(_ text: String) async throws -> Page {
        guard text.isUUID else { throw PageFault.noBatch(text) }
        let id = text.lowercased()
        // A decision or a pause must be shown at once, however long counting the rows takes.
        let (all, everything, storefronts) = try await pool.read { connection in
            (
                try BatchQueries.all(on: connection),
                try ServiceControlQueries.everything(on: connection),
                try ControlQueries.haltedStorefronts(of: id, on: connection)
            )
        }
        guard let batch = all.first(where: { $0.batchID == id }) else {
            throw PageFault.noBatch(id)
        }
        let now = clock.nowMilliseconds()
        guard var facts = try await batches.soon(id) else {
            return Page(
                title: batch.name, lead: batch.lead(isFinal: nil),
                body: (everything.notices + [Notice.counting(batch)]).html, asOf: now,
                isLive: true, refreshSeconds: Self.firstCountSeconds)
        }
        // The page reloads until its figures are newer than the decision.
        let isOvertaken = facts.batch.state != batch.state
        facts.batch = batch
        facts.storefronts = storefronts
        let page = BatchView(
            facts: facts, word: NamedBatch.word(for: id, among: all.map(\.named)), now: now)
        let notices = (page.isOpen ? everything.notices : []) + page.notices
        return Page(
            title: batch.name, lead: batch.lead(isFinal: facts.isFinal),
            body: notices.html + page.glance + page.tables, asOf: facts.countedAt,
            isLive: page.isOpen || isOvertaken)
    }
}

extension BatchQueries.Batch {
    /// `isFinal`: nothing of it is open any more; nil before its rows were counted.
    fileprivate func lead(isFinal: Bool?) -> HTML {
        var parts: [HTML] = [
            isFinal.map(badge) ?? unknownBadge,
            "price changes of \(counted(rowCount, "row")), submitted by \(submittedBy) on \(.time(submittedAt))",
        ]
        if let by = decidedBy, let at = decidedAt {
            parts.append(
                "\(state == "rejected" ? "rejected" : "approved") by \(by) on \(.time(at))")
        }
        if let undone = undoesBatchID {
            parts.append("takes back \(HTML.link(batchAddress(undone), "another batch"))")
        }
        parts.append("<a href=\"\(batchAddress(batchID))/approval\">what was submitted</a>")
        return "<p class=\"lead\">\(parts.joined(by: " · "))</p>\n"
    }
}

/// The page of one batch: the story first, then the tables.
struct BatchView {
    let facts: BatchFacts
    /// How a command names the batch.
    let word: String
    let now: Int64

    var batch: BatchQueries.Batch { facts.batch }
    /// An aborted batch is open too, while the App Store has changes of it.
    var isOpen: Bool { batch.state != "rejected" && !facts.isFinal }

    var notices: [Notice] {
        var notices: [Notice] = []
        if batch.state == "awaiting_approval" {
            notices.append(
                Notice(
                    .warn, "To approve:",
                    "a second person has to. <a href=\"\(batchAddress(batch.batchID))/approval\">What was submitted, and the "
                        + "command to type</a>."))
        }
        if isOpen, !batch.isWithdrawn, let stop = batch.stopNotice(word) { notices.append(stop) }
        notices += [aborted, silence, unsent].compactMap(\.self)
        notices += facts.storefronts.map { $0.notice(inBatch: [batch]) }
        notices += facts.waitingWaves.map(\.notice)
        if !facts.parked.isEmpty { notices.append(facts.parked.notice(of: batch)) }
        let trouble = facts.outlook.trouble
        if trouble.overdue > 0, batch.state == "approved" {
            notices.append(
                Notice(
                    .alarm, "Overdue:",
                    "\(counted(trouble.overdue, "row")) not sent, and the renewal that was planned can't be made any more."
                ))
        }
        if trouble.drifted > 0 {
            notices.append(
                Notice(
                    .calm, "Drifted:",
                    "\(counted(trouble.drifted, "row")) ended unsent, since the facts had changed after the submission; plan them again."
                ))
        }
        return notices
    }

    private var aborted: Notice? {
        let open = facts.open.values.reduce(0, +)
        guard batch.state == "aborted", open > 0 else { return nil }
        return Notice(
            .warn, "Aborted:",
            "\(counted(open, "row")) had been called before and \(open == 1 ? "goes" : "go") on. "
                + "\(HTML.command("repricer undo \(word)")) takes back what no customer has been told yet."
        )
    }

    private var silence: Notice? {
        guard facts.silent > 0 else { return nil }
        return Notice(
            .warn, "Silence:",
            "of \(counted(facts.silent, "change")) nothing was heard when it was due. What became of "
                + "\(facts.silent == 1 ? "it" : "them") is not known. "
                + "\(facts.silent == 1 ? "It counts" : "They count") as open, and in no uplift.")
    }

    private var unsent: Notice? {
        guard batch.state == "approved", facts.isFinal, facts.called == 0, batch.rowCount > 0 else {
            return nil
        }
        return Notice(
            .warn, "Nothing was sent:",
            "each of its \(counted(batch.rowCount, "row")) ended without a call; the reasons are below."
        )
    }

    // MARK: At a glance

    /// Whether it was rejected, or withdrawn as a whole, so that nothing was delivered or answered.
    var isUnsent: Bool {
        ["rejected", "aborted"].contains(batch.state) && facts.states["aborted"] == batch.rowCount
    }

    var glance: HTML {
        guard !isUnsent else {
            let why = batch.decisionReason.map { "\(batch.state): \($0)" }
            return cards([
                card(
                    "Never sent", HTML(counted(batch.rowCount, "row")),
                    HTML(why ?? "nothing of it can be sent any more")),
                refusedCard,
            ])
        }
        let progress = facts.progress
        let shares = [
            (
                "Delivered", progress.delivered,
                batch.isWithdrawn
                    ? "the App Store has answered; the others were not called"
                    : "the App Store has answered, or no call is needed"
            ),
            (
                "Answered", progress.answered,
                batch.isWithdrawn
                    ? "of those called: agreed, informed, or ended" : "agreed, informed, or ended"
            ),
            ("Final", progress.final, "nothing more is expected"),
        ].map { name, part, meaning in
            card(
                name, HTML(share(part, of: progress.rows)),
                "\(progressBar(part, of: progress.rows))\(counted(part)) of \(counted(progress.rows)); \(meaning)"
            )
        }
        return cards(shares + [effectCard, nextCard]) + charts
    }

    private var effectCard: HTML {
        let moved = currencies.filter(\.hasMoved)
            .sorted { ($1.changes, $0.currency) < ($0.changes, $1.currency) }
        let lines = moved.map { signed($0.net, $0.currency) }
        if lines.count > 1, let total = facts.total {
            return card(
                "Effect a month", signed(total, HomeFigures.reportingCurrency),
                "of \(lines.count) currencies at the newest rates; tax included")
        }
        return card(
            "Effect a month",
            lines.isEmpty ? "–" : lines.prefix(3).map { $0 }.joined(by: "<br>"),
            lines.isEmpty
                ? "nothing was charged at a new price yet"
                : lines.count > 3
                    ? "those of most changes, and \(moreCurrencies(lines.count - 3)); tax included"
                    : "tax included")
    }

    private var nextCard: HTML {
        if let sendBy = facts.outlook.nextSendBy {
            return sendBy < now
                ? card(
                    "A call was due by", .time(sendBy),
                    "it has not left, and goes to a later renewal")
                : card("Next call by", .time(sendBy), "the first queued row must have left")
        }
        guard isOpen, let last = facts.outlook.lastDueEffectiveAt else {
            return refusedCard
        }
        return last < now
            ? card("Was to end", .time(last), "the last open change was due to take effect")
            : card("Ends", .time(last), "the last open change is due to take effect")
    }

    private var refusedCard: HTML {
        let count = batch.rejectedRowCount
        return card(
            "Refused in the file", HTML(counted(count)),
            count == 1
                ? "row that was never stored as a change" : "rows that were never stored as changes"
        )
    }

    private var charts: HTML {
        let funnel = section("From the batch to the charge", facts.funnel.chart)
        let curve = section("When new prices take effect", curve.html)
        guard !funnel.isEmpty, !curve.isEmpty else { return funnel + curve }
        return "<div class=\"two\">\n\(funnel)\(curve)</div>\n"
    }

    private var curve: Curve {
        var sums = (forecast: Int64(0), effective: Int64(0))
        let forecast = facts.days.filter { $0.forecast > 0 }.map { day in
            sums.forecast += day.forecast
            return (day: day.day, value: sums.forecast)
        }
        let effective = facts.days.filter { $0.effective > 0 }.map { day in
            sums.effective += day.effective
            return (day: day.day, value: sums.effective)
        }
        // The due line continues where the facts end.
        var sum = sums.effective
        var due = effective.last.map { [$0] } ?? []
        for day in facts.days where day.due > 0 {
            sum += day.due
            due.append((day: max(day.day, effective.last?.day ?? day.day), value: sum))
        }
        return Curve(
            "Changes in effect, summed up day by day", unit: "price changes",
            [
                .init("As approved", .forecast, forecast), .init("In effect", .fact, effective),
                .init(
                    "Due, if all agree", .due, due.count > (effective.isEmpty ? 0 : 1) ? due : []),
            ], now: Instant(milliseconds: now))
    }

    // MARK: Money

    struct CurrencyLine {
        var currency: String
        var changes: Int64
        var renewals: Int64
        var before: Int128
        var charged: Int128
        var uplift: Int128
        var lost: Int128
        var net: Int128 { uplift - lost }
        /// Whether something was charged at a new price, or lost.
        var hasMoved: Bool { uplift != 0 || lost != 0 }
    }

    var currencies: [CurrencyLine] { Self.currencies(of: facts.money) }

    /// The money of each currency, with its storefronts and periods added up.
    static func currencies(of money: ReportTable) -> [CurrencyLine] {
        let groups = Dictionary(grouping: money.rows) {
            money.cell($0, "currency") ?? ""
        }
        return groups.keys.sorted().map { currency in
            let rows = groups[currency] ?? []
            let sum = { money.exactSum($0, of: rows) }
            return CurrencyLine(
                currency: currency, changes: money.sum("changes", of: rows),
                renewals: money.sum("charged_renewals", of: rows),
                before: sum("old_total_milliunits"), charged: sum("new_total_milliunits"),
                uplift: sum("uplift_per_month_milliunits"), lost: sum("lost_per_month_milliunits"))
        }
    }
}

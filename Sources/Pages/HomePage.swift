import Batches
import Facts
import Pricing
import Reports

extension Site {
    /// The most batches on the page. The report has them all.
    private static let batchesMax = 500
    private static let waitingExtensionsMax = 20

    func homePage() async throws -> Page {
        let now = clock.nowMilliseconds()
        let figures = try await home.soon("") ?? HomeFigures()
        let (batches, everything, storefronts, extensions, undelivered) = try await pool.read {
            connection in
            (
                try BatchQueries.all(on: connection),
                try ServiceControlQueries.everything(on: connection),
                try ControlQueries.haltedStorefronts(of: nil, on: connection),
                try HomeQueries.waitingExtensions(limit: Self.waitingExtensionsMax, on: connection),
                try UndeliveredQueries.find(now: now, on: connection)
            )
        }
        let newest = Array(batches.reversed())
        let home = Home(
            batches: newest, figures: figures, everything: everything, storefronts: storefronts,
            extensions: extensions, undelivered: undelivered, now: now)
        let shown = newest.prefix(Self.batchesMax)
        let rest = newest.count - shown.count
        var body = home.notices.html + home.deadlineSection
        body +=
            newest.isEmpty
            ? section(
                "Batches",
                """
                <p>No batch was submitted yet. <code>repricer plan FILE</code> forecasts one, and
                <code>repricer submit FILE --name NAME</code> stores it.</p>

                """)
            : section("Batches", home.table(Array(shown)), after: home.notes(hidden: rest))
        return Page(
            title: "Price-change batches", lead: home.lead, body: body, asOf: now,
            isLive: true, refreshSeconds: home.isCounted ? nil : Self.firstCountSeconds)
    }
}

/// The batches, and what needs a person.
private struct Home {
    let batches: [BatchQueries.Batch]
    let figures: HomeFigures
    let everything: ServiceControlQueries.Everything
    let storefronts: [ControlQueries.HaltedStorefront]
    let extensions: [HomeQueries.WaitingExtension]
    let undelivered: UndeliveredQueries.Undelivered?
    let now: Int64

    /// nil where the batch was submitted after the figures were counted.
    private func progress(_ batch: BatchQueries.Batch) -> Progress? {
        figures.open[batch.batchID].map { Progress(rows: batch.rowCount, open: $0) }
    }

    /// Whether the figures are of all batches.
    var isCounted: Bool {
        figures.isCounted && batches.allSatisfy { figures.open[$0.batchID] != nil }
    }

    private func isFinal(_ batch: BatchQueries.Batch) -> Bool { progress(batch)?.isFinal ?? false }

    private func isUnderWay(_ batch: BatchQueries.Batch) -> Bool {
        batch.state == "approved" && !isFinal(batch)
    }

    /// It is counted in real time, because a rehearsal's clock is faster.
    private var isOld: Bool { figures.isCounted && .now - figures.readAt > .seconds(60) }

    var lead: HTML {
        let underWay = Int64(batches.count { isUnderWay($0) })
        let waiting = Int64(batches.count { $0.state == "awaiting_approval" })
        let total = counted(Int64(batches.count), "batch", plural: "batches")
        guard figures.isCounted else {
            return "<p class=\"lead\">\(total), \(counted(waiting)) awaiting approval. "
                + "Their rows are being counted, and the page shows them when it is loaded again.</p>\n"
        }
        return
            "<p class=\"lead\">\(total): \(counted(underWay)) under way, \(counted(waiting)) awaiting approval.</p>\n"
    }

    // MARK: What needs somebody

    /// Pauses and halts come before what waits for a decision.
    var notices: [Notice] {
        let all =
            [undelivered?.notice].compactMap(\.self) + everything.notices
            + batches.flatMap(notices)
            + extensions.map(\.notice)
            + storefronts.map { $0.notice(inBatch: batches) }
            + figures.waitingWaves.map(\.notice)
        return all.filter { $0.kind == .alarm } + all.filter { $0.kind != .alarm }
    }

    private func notices(_ batch: BatchQueries.Batch) -> [Notice] {
        var notices: [Notice] = []
        if batch.state == "awaiting_approval" { notices.append(approval(batch)) }
        if batch.state == "approved", !isFinal(batch), let stop = batch.stopNotice(word(batch)) {
            notices.append(stop)
        }
        let parked = figures.parked.filter { $0.batchID == batch.batchID }
        if !parked.isEmpty { notices.append(parked.notice(of: batch)) }
        let overdue = overdue(batch)
        if overdue > 0, batch.state == "approved" {
            notices.append(
                Notice(
                    .alarm, "Overdue:",
                    "\(counted(overdue, "row")) of \(link(batch)) \(overdue == 1 ? "is" : "are") not sent, and the renewal "
                        + "that was planned can't be made any more."))
        }
        if let left = figures.discrepancies[batch.batchID], left > 0 {
            notices.append(
                Notice(
                    .warn, "Dependents:",
                    "\(counted(left, "cancellation")) of \(link(batch)) could not be proved and "
                        + "\(left == 1 ? "is" : "are") left to a person: "
                        + "<a href=\"/reports/dependent_cancellation?batch=\(batch.batchID)\">which ones</a>."
                ))
        }
        return notices
    }

    /// How a command names it.
    private func word(_ batch: BatchQueries.Batch) -> String {
        NamedBatch.word(for: batch.batchID, among: batches.map(\.named))
    }

    private func approval(_ batch: BatchQueries.Batch) -> Notice {
        let due = figures.deadlines.first { $0.batchID == batch.batchID && $0.kind == .call }
        let overdue = due?.overdue ?? 0
        let late: HTML =
            overdue > 0
            ? "; \(counted(overdue)) \(overdue == 1 ? "is" : "are") overdue, and can only take effect at a later renewal"
            : .none
        let first: HTML =
            (due?.firstAt).map {
                "; the first call\(overdue > 0 ? " of the others" : "") must leave by \(.time($0))"
            } ?? .none
        return Notice(
            .warn, "To approve:",
            "<a href=\"\(batchAddress(batch.batchID))/approval\">\(batch.name)</a>, "
                + "\(counted(batch.rowCount, "row")), submitted by \(batch.submittedBy)\(late)\(first)."
        )
    }

    private func link(_ batch: BatchQueries.Batch) -> HTML {
        .link(batchAddress(batch.batchID), batch.name)
    }

    var deadlineSection: HTML {
        let names = Dictionary(
            batches.map { ($0.batchID, $0) }, uniquingKeysWith: { first, _ in first })
        let rows = figures.deadlines.compactMap { due -> [HTML]? in
            guard let first = due.firstAt else { return nil }
            return [
                .time(first), names[due.batchID].map(link) ?? HTML(due.batchID),
                HTML(due.kind.words), HTML(counted(due.rows)),
            ]
        }
        return section(
            "Deadlines this week",
            HTMLTable(
                "Deadlines this week",
                [.text("First"), .text("Batch"), .text("What is due"), .number("Rows")], rows,
                isStacked: true))
    }

    // MARK: The table

    func table(_ shown: [BatchQueries.Batch]) -> HTMLTable {
        HTMLTable(
            "Batches, the newest first",
            [
                .text("Batch"), .text("State"), .text("Submitted"), .number("Rows"),
                .text("Delivered"), .text("Answered"), .text("Final"),
                .number("Agreed or informed"), .number("Declined"), .number("No answer yet"),
                .number("Effect a month"),
            ], shown.map(row), isStacked: true)
    }

    private func row(_ batch: BatchQueries.Batch) -> [HTML] {
        guard let progress = progress(batch) else {
            let cells: [HTML] = [link(batch), batch.unknownBadge, .day(batch.submittedAt)]
            let open = [HTML](repeating: "…", count: 7)
            return cells + [HTML(counted(batch.rowCount))] + open
        }
        let isWithdrawn = ["rejected", "aborted"].contains(batch.state)
        let called = figures.called[batch.batchID] ?? 0
        let isDead = isWithdrawn && called == 0
        let shown = isWithdrawn ? progress.withoutWithdrawn(called: called) : progress
        let bars =
            isDead && progress.isFinal
            ? [HTML.none, .none, .none]
            : [shown.delivered, shown.answered, shown.final].map {
                Reports.progress($0, of: progress.rows)
            }
        let ended = figures.consents[batch.batchID] ?? .init()
        let open = figures.open[batch.batchID] ?? [:]
        let consent = [
            ended.agreed + ended.informed + open["accepted", default: 0], ended.declined,
            open["pending_consent", default: 0],
        ].map { HTML(isDead && $0 == 0 ? "" : counted($0)) }
        return [
            link(batch), "\(batch.badge(isFinal: progress.isFinal))\(troubles(batch))",
            .day(batch.submittedAt),
            HTML(counted(batch.rowCount)),
        ] + bars + consent + [effect(batch)]
    }

    /// The troubles of the batch that need a person, one word each.
    private func troubles(_ batch: BatchQueries.Batch) -> HTML {
        let parked = figures.parked.filter { $0.batchID == batch.batchID }
            .reduce(0) { $0 + $1.rows }
        let overdue = batch.state == "approved" ? overdue(batch) : 0
        let waves = Int64(figures.waitingWaves.count { $0.batchID == batch.batchID })
        let dependents = figures.discrepancies[batch.batchID] ?? 0
        return [
            (overdue, "alarm", "overdue"), (parked, "warn", "parked"),
            (waves, "warn", waves == 1 ? "wave waits" : "waves wait"),
            (dependents, "warn", dependents == 1 ? "dependent" : "dependents"),
        ].filter { $0.0 > 0 }.map {
            " <span class=\"badge \($0.1)\">\(counted($0.0)) \($0.2)</span>" as HTML
        }.joined(by: "")
    }

    private func overdue(_ batch: BatchQueries.Batch) -> Int64 {
        figures.deadlines.first { $0.batchID == batch.batchID && $0.kind == .call }?.overdue ?? 0
    }

    /// The effect in one currency where rates are known. Otherwise the effect in the currency with most changes, with
    /// the number of other currencies, because it would else be taken for the whole effect.
    private func effect(_ batch: BatchQueries.Batch) -> HTML {
        let lines = figures.effects[batch.batchID] ?? []
        if lines.count > 1, let total = figures.totals[batch.batchID] {
            return """
                \(signed(total, HomeFigures.reportingCurrency))\
                <span class="sub">of \(lines.count) currencies</span>
                """
        }
        guard let first = lines.first else { return .none }
        let shown = signed(first.net, first.currency)
        guard lines.count > 1 else { return shown }
        let more = lines.count - 1
        return """
            <span class="line">\(shown), <a href="\(batchAddress(batch.batchID))" \
            aria-label="\(moreCurrencies(more))">\(counted(Int64(more))) more</a></span>
            """
    }

    private var rates: HTML {
        figures.totals.isEmpty
            ? .none
            : "; several currencies are added up in \(HomeFigures.reportingCurrency) at the newest rates"
    }

    func notes(hidden: Int) -> HTML {
        var notes: HTML = """
            <p class="note">Delivered: the App Store has answered, or no call is needed any more. Answered: the customer has
            agreed or was informed, or the change has ended. Rows of an aborted batch that were never called are final, and
            neither delivered nor answered. Declined: who did not agree, without the items that fell with
            their parent item. Effect a month: what renewals at the new price were charged more
            than before, less what is gone with customers who declined or left, tax included\(rates).</p>

            """
        if figures.unsummed > 0 {
            let many =
                figures.unsummed >= HomeFigures.unsummedMax
                ? "more than \(counted(Int64(HomeFigures.unsummedMax))) subscriptions"
                : counted(figures.unsummed, "subscription")
            notes += """
                <p class="note">The newest facts of \(many) are still being added to consent and effect.</p>

                """
        }
        if isOld {
            notes +=
                "<p class=\"note\">Counted at \(.time(figures.countedAt)); a newer count is under way.</p>\n"
        }
        if hidden > 0 {
            notes += """
                <p class="note">\(counted(Int64(hidden))) older batches:
                <a href="/reports/batch_summary">report of all batches</a>.</p>

                """
        }
        return notes
    }
}

/// `1 more currency`, `2 more currencies`.
func moreCurrencies(_ count: Int) -> String {
    counted(count, "more currency", plural: "more currencies")
}

/// A difference of amounts, with its sign and a colour.
func signed(_ milliunits: some BinaryInteger, _ currency: String) -> HTML {
    let kind = milliunits < 0 ? "loss" : milliunits > 0 ? "gain" : "even"
    return "<span class=\"\(kind)\">\(difference(milliunits, currency))</span>"
}

extension HomeQueries.Deadline.Kind {
    fileprivate var words: String {
        switch self {
        case .call: "calls must leave"
        case .answer: "customers must have answered"
        case .effect: "new prices take effect"
        }
    }
}

extension HomeQueries.WaitingExtension {
    private var place: HTML {
        guard !storefronts.isEmpty else { return " in all storefronts" }
        let more = storefronts.count - Self.storefrontsMax
        let listed = storefronts.prefix(Self.storefrontsMax).joined(separator: ", ")
        return " in \(listed)\(more > 0 ? " and \(more) more" : "")"
    }

    private static let storefrontsMax = 12

    private var why: HTML { note.map { " (\($0))" } ?? .none }

    fileprivate var notice: Notice {
        Notice(
            .warn, "To approve:",
            "the extension of \(counted(subscriptions, "subscription")) of \(productID)\(place) by "
                + "\(counted(days, "day")), requested by \(requestedBy)\(why): "
                + "\(HTML.command("repricer approve \(extensionID)")).")
    }
}

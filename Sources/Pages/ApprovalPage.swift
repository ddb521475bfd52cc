import Batches
import Facts
import Pricing
import Reports
import ServiceKit

extension ApprovalFacts {
    fileprivate var mayBeLate: Bool { batch.awaitsApproval || batch.state == "approved" }
}

extension Site {
    func approvalPage(_ text: String, currency: String) async throws -> Page {
        guard text.isUUID else { throw PageFault.noBatch(text) }
        let now = clock.nowMilliseconds()
        let id = text.lowercased()
        let (all, terms) = try await pool.withTransaction(.repeatableRead) { connection in
            let all = try BatchQueries.all(on: connection)
            guard let batch = all.first(where: { $0.batchID == id }) else {
                throw PageFault.noBatch(id)
            }
            return (all, try ApprovalFacts.Terms.read(batch, now: now, on: connection))
        }
        let key = ApprovalKey(
            batchID: id, awaitsApproval: terms.batch.awaitsApproval, state: terms.batch.state,
            releasedWave: terms.batch.releasedWave, firstApprovers: terms.terms.firstApprovers)
        async let plan = plans.soon(id)
        async let outlook = outlooks.soon(key)
        guard let figures = try await plan, let outlook = try await outlook else {
            return uncounted(terms.batch, asOf: now)
        }
        var facts = ApprovalFacts(terms, figures, outlook, in: currency)
        if facts.mayBeLate {
            facts.note(lateRows: try await lateRows.soon(id))
        }
        let view = ApprovalView(
            facts: facts, word: NamedBatch.word(for: id, among: all.map(\.named)), now: now)
        let name = facts.batch.name
        let isCounting = facts.mayBeLate && facts.lateRows == nil
        return Page(
            title: "\(Self.title(facts.batch)): \(name)",
            lead: view.lead, body: view.body, asOf: now,
            isLive: isCounting || view.awaits,
            refreshSeconds: isCounting ? nil : Self.waitingSeconds)
    }

    private static func title(_ batch: BatchQueries.Batch) -> String {
        batch.awaitsApproval ? "To approve" : "What was submitted"
    }

    /// The page before the rows were counted for the first time.
    private func uncounted(_ batch: BatchQueries.Batch, asOf now: Int64) -> Page {
        Page(
            title: "\(Self.title(batch)): \(batch.name)", lead: batch.submissionLead,
            body: [Notice.counting(batch)].html, asOf: now, isLive: true,
            refreshSeconds: Self.firstCountSeconds)
    }

    /// A person who leaves the page open must not decide again what a colleague has decided meanwhile.
    private static let waitingSeconds = 60
}

extension BatchQueries.Batch {
    /// The decision. What happened since is on the batch's own page.
    fileprivate var decisionBadge: HTML {
        awaitsApproval
            ? badge(isFinal: false) : "<span class=\"badge\">\(spaced(state))</span>"
    }

    fileprivate var submissionLead: HTML {
        """
        <p class="lead">\(decisionBadge) · \(counted(rowCount, "row")) submitted by \
        \(submittedBy) on \(.time(submittedAt)), \(counted(rejectedRowCount)) refused · \
        <a href="\(batchAddress(batchID))">what became of it</a></p>

        """
    }
}

extension Notice {
    static func counting(_ batch: BatchQueries.Batch) -> Notice {
        Notice(
            .calm, "Not counted yet:",
            "\(counted(batch.rowCount, "row")) are being counted. The page shows the figures when it is loaded again."
        )
    }
}

/// What a second person needs to see before approving.
private struct ApprovalView {
    let facts: ApprovalFacts
    /// How a command names the batch.
    let word: String
    /// UTC milliseconds.
    let now: Int64

    var batch: BatchQueries.Batch { facts.batch }
    var figures: BatchFigures { facts.figures }
    var awaits: Bool { batch.awaitsApproval }

    var lead: HTML { batch.submissionLead }

    var body: HTML {
        (decision + warnings).html + glance + age
            + section("To decide", command)
            + section("Money a month by currency", money, after: moneyNotes)
            + section("The largest increases and decreases", moves)
            + section("Consent", consent)
            + section("When it takes effect", dates)
            + section("How it is sent", terms)
            + section(
                "Rows that were refused", refused,
                after:
                    "<p class=\"note\">They are stored beside the batch, and are in no figure above.</p>\n"
            )
    }

    // MARK: Above all else

    private var decision: [Notice] {
        if awaits {
            return facts.terms.firstApprovers.map {
                Notice(.calm, "Approved first", "by \($0); a second approval is missing.")
            }
        }
        guard let by = batch.decidedBy, let at = batch.decidedAt else { return [] }
        let reason: HTML = batch.decisionReason.map { ": \($0)" } ?? .none
        let why: HTML = batch.state == "rejected" ? ", and is rejected\(reason)" : ""
        return [
            Notice(
                .calm, "Decided", "by \(by) on \(.time(at))\(why). Nothing is left to decide here.")
        ]
    }

    private var warnings: [Notice] {
        stillCounted + undoing + outOfDate + told
    }

    private var undoing: [Notice] {
        guard let undone = batch.undoesBatchID else { return [] }
        return [
            Notice(
                .calm, "Takes back:",
                "\(HTML.link(batchAddress(undone), "another batch")), before its prices are charged. Now is the price that is "
                    + "scheduled, and then the one that customers pay today. Nobody is asked.")
        ]
    }

    /// The notice that every renewal in the plan has passed.
    private var outOfDate: [Notice] {
        guard facts.isOutOfDate else { return [] }
        return [
            Notice(
                .alarm, "Out of date:",
                "planned on \(.time(facts.terms.plannedAsOf)), and every renewal that it counts on has passed. Reject it, "
                    + "and submit it anew.")
        ]
    }

    private var stillCounted: [Notice] {
        guard facts.mayBeLate, facts.lateRows == nil else { return [] }
        return [
            Notice(
                .calm, "Still counted:",
                "rows that would be late, for the calls of all other batches count for them. The page shows them when it is loaded again."
            )
        ]
    }

    private var told: [Notice] {
        BatchWarning.allCases.compactMap { warning in
            figures.warnings[warning].map { rows in
                let shown = rows.lines.map(String.init).joined(separator: ", ")
                let more = rows.count - rows.lines.count
                let lines: HTML =
                    rows.lines.isEmpty
                    ? .none
                    : "; line\(rows.count == 1 ? "" : "s") \(shown)\(more > 0 ? " and \(more) more" : "")"
                return Notice(
                    .warn, "Look at this:",
                    "\(warning.words): \(counted(Int64(rows.count), warning.noun))\(lines).")
            }
        }
    }

    private var glance: HTML {
        // With a single currency its sum is the total, and no rate is needed.
        let alone =
            facts.money.withoutRate.count == 1 && facts.money.lines.count == 1
            ? facts.money.lines.first : nil
        let total = alone?.money ?? facts.money.total
        let reporting = alone?.currency ?? facts.money.reportingCurrency
        let unknown = figures.consents[.notKnown] ?? 0
        let isWhole = alone != nil || facts.money.withoutRate.isEmpty
        let summed = (alone?.money ?? facts.money.total).rows
        let part: HTML =
            summed < figures.canGoCount
            ? "\(counted(Int64(summed))) of \(counted(Int64(figures.canGoCount), "row")) are in it"
            : .none
        let hasSum = isWhole || facts.money.hasTotal
        let noSum: HTML = "no sum in \(reporting): rates are missing; the table has each currency"
        return cards([
            card(
                "Change a month",
                hasSum ? HTML(change(total, reporting)) : "–",
                !hasSum
                    ? noSum
                    : "if everybody stays\(part.isEmpty ? ", in \(reporting)" as HTML : "; \(part)")"
            ),
            card(
                "At risk a month", hasSum ? HTML(atRisk(total, reporting)) : "–",
                hasSum
                    ? "\(riskWords(total)); dependents counted in\(part.isEmpty ? "" : "; \(part)" as HTML)"
                    : noSum),
            card(
                "Consent required", HTML(counted(Int64(figures.consents[.required] ?? 0))),
                "of \(counted(Int64(figures.canGoCount), "row"))"),
            card(
                "Consent not known", HTML(counted(Int64(unknown))),
                unknown == 0
                    ? "every row is known" : "rows that may have to agree; sent as if required"),
            card(
                "First call by",
                facts.due.firstSendBy.map { .time($0) } ?? "–",
                dueWords),
        ])
    }

    /// The amount at risk, and the amount if all customers whose consent is not known must consent too.
    private func atRisk(_ money: BatchFigures.Money, _ currency: String) -> String {
        let least = sum(money.atRisk, currency)
        return money.maybeAtRisk == .zero
            ? least : "\(least) to \(sum(money.atRisk + money.maybeAtRisk, currency))"
    }

    private func riskWords(_ money: BatchFigures.Money) -> HTML {
        money.maybeAtRisk == .zero
            ? "if nobody agrees who must"
            : "if nobody agrees who must, and who may have to"
    }

    private var dueWords: HTML {
        let due = facts.due
        guard due.unsent > 0 else { return "everything was sent or has ended" }
        let overdue: HTML =
            due.overdue > 0 ? "\(counted(due.overdue)) overdue, to a later renewal; " : .none
        return overdue
            + "\(counted(due.withinADay)) must leave within a day, \(counted(due.withinAWeek)) within a week"
    }

    /// The age of the figures that change with time; the others are from the submission.
    private var age: HTML {
        guard now - facts.countedAt >= 1000 else { return .none }
        return """
            <p class="note">What is due, the waves, who may approve and which earlier batches are affected were counted at \(.time(facts.countedAt)).</p>

            """
    }

    // MARK: To decide

    private var command: HTML {
        guard awaits else { return .none }
        let first = facts.terms.firstApprovers
        let others = ([batch.submittedBy] + first).map { HTML($0) }.joined(by: " or ")
        // A person who has approved it already cannot be the second one.
        var lines = facts.approvers.filter { $0.name.map { !first.contains($0) } ?? true }.map {
            approver -> HTML in
            let who: HTML =
                approver.name.map { "<strong>\($0)</strong>" }
                ?? "Any \(first.isEmpty ? "" : "one more ")member of repricer_pricing other than \(others)"
            guard first.isEmpty else {
                let why = facts.terms.firstExceeded.joined(separator: "; ")
                return "<li>\(who) may give the second approval: \(why).</li>\n"
            }
            guard !approver.exceeded.isEmpty else {
                return "<li>\(who) may approve it alone.</li>\n"
            }
            return """
                <li>\(who) may approve it together with a second person: \
                \(approver.exceeded.joined(separator: "; ")).</li>

                """
        }
        lines.append("<li>\(batch.submittedBy) submitted it, and cannot approve it.</li>\n")
        return """
            <h3>What the policy says</h3>
            <ul>\(lines)</ul>
            <h3>What to type</h3>
            <pre><code>repricer approve \(word)</code></pre>
            <p>or, to send it back:</p>
            <pre><code>repricer reject \(word) --reason 'WHY'</code></pre>
            <p class="note">These pages decide nothing: the database knows who approves by who runs the command.</p>

            """
    }

    // MARK: Money

    private var money: HTMLTable {
        let lines = facts.money.lines.map { moneyRow($0.currency, $0.currency, $0.money) }
        let reporting = facts.money.reportingCurrency
        let isAlone =
            facts.money.lines.count == 1 && facts.money.lines.first?.currency == reporting
        let hasTotal = !isAlone && facts.money.hasTotal
        return HTMLTable(
            "Money a month by currency",
            [
                .text("Currency"), .number("Rows"), .number("Now"), .number("Then"),
                .number("Change"), .number("At risk"), .number("Not known"),
            ], lines,
            totals: hasTotal
                ? [moneyRow(facts.money.totalName, reporting, facts.money.total)] : [])
    }

    private func moneyRow(
        _ name: String, _ currency: String, _ money: BatchFigures.Money
    ) -> [HTML] {
        [
            HTML(name), HTML(counted(Int64(money.rows))), HTML(sum(money.now, currency)),
            HTML(sum(money.then, currency)), HTML(change(money, currency)),
            HTML(sum(money.atRisk, currency)), HTML(sum(money.maybeAtRisk, currency)),
        ]
    }

    private var moneyNotes: HTML {
        var notes: HTML = """
            <p class="note">Then: if everybody stays. At risk: what ends if nobody agrees who must. Not known: the same of
            customers of whom it is not known whether they must. Dependents are counted in, tax is included.</p>

            """
        if !facts.money.rates.isEmpty {
            let rates = facts.money.rates.map(\.words).joined(separator: ", ")
            notes += """
                <p class="note">1 \(facts.money.reportingCurrency) = \(rates) (\(facts.money.rateSources)).</p>

                """
        }
        if let lack = facts.money.lack { notes += "<p class=\"note\">\(lack)</p>\n" }
        if facts.money.isTooLarge { notes += "<p class=\"note\">\(sumTooLarge)</p>\n" }
        if facts.money.rowsWithoutMonth > 0 {
            notes += """
                <p class="note">\(counted(Int64(facts.money.rowsWithoutMonth), "row")) of an unknown period are in no sum.</p>

                """
        }
        return notes
    }

    private func sum(_ sum: MoneySum, _ currency: String) -> String {
        sum.milliunits.map { amount($0, currency) } ?? "too large"
    }

    /// The difference of the two sums as shown.
    private func change(_ money: BatchFigures.Money, _ currency: String) -> String {
        shownDifference(from: money.now, to: money.then, roundedTo: smallestShown(currency))
            .milliunits.map { difference($0, currency) } ?? "too large"
    }

    // MARK: Moves, consent, dates

    private var moves: HTML {
        let table = { (name: String, moves: [PriceMove]) in
            HTMLTable(
                name,
                [
                    .number("By"), .number("Line"), .text("Subscription"), .text("Item"),
                    .number("Now"), .number("Then"),
                ],
                moves.map { move in
                    [
                        HTML(move.words), HTML("\(move.line)"),
                        subscriptionLink(move.originalTransactionID), HTML(move.sku),
                        HTML(amount(move.currentPrice, move.currency)),
                        HTML(amount(move.newPrice, move.currency)),
                    ]
                }
            ).html
        }
        return table("The largest increases", figures.increases.moves)
            + table("The largest decreases", figures.decreases.moves)
    }

    private var consent: HTML {
        let full = Int64(figures.canGoCount)
        let bars = Consent.allCases.compactMap { consent in
            figures.consents[consent].map { rows in
                Bar(
                    consent.forecastWords(isUndo: batch.undoesBatchID != nil), Int64(rows),
                    "\(counted(Int64(rows))) (\(share(Int64(rows), of: full)))", full: full,
                    kind: consent == .required || consent == .notKnown ? .open : .plain)
            }
        }
        let reasons = ConsentReason.allCases.compactMap { reason in
            figures.reasons[reason].map { [HTML(reason.words), HTML(counted(Int64($0)))] }
        }
        let unknown = ConsentReason.allCases.compactMap { reason in
            figures.notKnown[reason].map { open in
                [
                    HTML(reason.words), HTML(counted(Int64(open.rows))),
                    "<span class=\"long\">\(open.storefronts.sorted().joined(separator: " "))</span>",
                    reason.remedy,
                ]
            }
        }
        return barChart("Forecast of consent", unit: "rows", bars)
            + HTMLTable("Why consent is required", [.text("Rule"), .number("Rows")], reasons).html
            + HTMLTable(
                "Why it is not known",
                [
                    .text("Rule"), .number("Rows"), .text("Storefronts"),
                    .text("What makes it known"),
                ],
                unknown
            ).html
    }

    private var dates: HTML {
        let all = figures.months.sorted { $0.key < $1.key }
        let most = Int64(all.map(\.value.rows).max() ?? 0)
        let bars = all.map { month, dates in
            Bar(
                String(readable(day: month).dropFirst(2)), Int64(dates.rows),
                "\(counted(Int64(dates.increases))) up, \(counted(Int64(dates.decreases))) down",
                full: most)
        }
        let due = facts.due
        let text: HTML =
            due.unsent == 0
            ? "<p>Everything was sent, or has ended.</p>\n"
            : """
            <p>\(counted(due.ready)) of \(counted(due.unsent, "row")) may go at once\
            \(due.nextAt.map { ", the next from \(.time($0)) on" } ?? .none)\
            \(due.waiting > 0 ? "; \(counted(due.waiting)) wait for the release of their wave" : .none). \
            \(due.firstSendBy.map { "The first must go by \(.time($0))." } ?? .none)</p>

            """
        return barChart("New prices take effect", unit: "rows by month", bars) + text
    }

    private var terms: HTML {
        let waves = facts.waves.map { wave -> [HTML] in
            [
                HTML("\(wave.number)"), HTML(wave.label),
                HTML(counted(wave.states.values.reduce(0, +))),
                wave.releaseText(of: batch, named: word),
            ]
        }
        return definitions([
            ("Planned", "as of \(.time(facts.terms.plannedAsOf))"),
            ("Grouping", HTML(batch.grouping)),
            (
                "Halts if",
                HTML(
                    facts.guards.isEmpty
                        ? "never" : facts.guards.map(\.text).joined(separator: ", "))
            ),
            (
                "Held out",
                facts.terms.holdout == 0
                    ? "nobody"
                    : "\(counted(facts.terms.heldOut, "row")), \(WavePlan.percent(facts.terms.holdout)) of the subscriptions: never sent, and in no figure here"
            ), ("Plan hash", "<code>\(facts.terms.planHash)</code>"),
            ("Batch id", "<code>\(batch.batchID)</code>"),
        ])
            + HTMLTable(
                "Waves",
                [.text("Wave"), .text("Rows of"), .number("Rows"), .text("Released")], waves
            ).html
            + (waves.isEmpty ? .none : "<p class=\"note\">Waves: \(WavePlan.datesNote).</p>\n")
    }

    private var refused: HTMLTable {
        let codes = RowCode.allCases.compactMap { code in
            figures.codes[code].map { (code: code, rows: $0) }
        }.sorted { ($1.rows, $0.code.rawValue) < ($0.rows, $1.code.rawValue) }
        return HTMLTable(
            "Rows that were refused",
            [.text("Why"), .number("Rows")],
            codes.map {
                [HTML("\($0.code.words) (\($0.code.rawValue))"), HTML(counted(Int64($0.rows)))]
            })
    }
}

extension ConsentReason {
    var words: String {
        switch self {
        case .alwaysConsentStorefront: "The storefront always asks"
        case .threshold: "Over 50 % and over the storefront's threshold"
        case .increaseWithin12Months: "Another increase within 12 months"
        case .koreaOfferConversion: "An offer ends in South Korea"
        }
    }

    fileprivate var remedy: HTML {
        switch self {
        case .alwaysConsentStorefront, .threshold: "<code>repricer rules import</code>"
        case .increaseWithin12Months:
            "<code>repricer reconcile --since</code> or <code>repricer ingest</code>, back to 12 months"
        case .koreaOfferConversion: "<code>repricer sync</code>"
        }
    }
}

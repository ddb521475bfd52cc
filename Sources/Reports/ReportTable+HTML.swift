import Pricing

/// The most rows of one table on a page. A larger report says so, and names the format that holds all rows.
package let htmlRowsMax = 2000

/// A table with more columns is set smaller in print, so that no column is lost.
private let columnsOfAPage = 9

extension ReportTable {
    /// The report as HTML: its chart, its rows with their sums, and the meaning of its columns. `link` returns the
    /// address of a batch's page from its id, and `subscriptionLink` that of a subscription's.
    package func html(
        link: ((String) -> String)? = nil, subscriptionLink: ((String) -> String)? = nil,
        isCharted: Bool = true, isSummed: Bool = true
    ) -> HTML {
        guard !rows.isEmpty else { return "<p>There are no rows.</p>\n" }
        var body = isCharted ? chart : .none
        if rows.count > htmlRowsMax {
            body += """
                <p class="note">The first \(counted(Int64(htmlRowsMax))) rows; CSV holds all of them.</p>

                """
        }
        let links = Links(batch: link, subscription: subscriptionLink)
        if name.isInRecords {
            body += HTML(markup: rows.prefix(htmlRowsMax).map { record($0, links).markup }.joined())
        } else {
            body += grid(links, isSummed: isSummed)
        }
        return body + dictionary
    }

    private struct Links {
        var batch: ((String) -> String)?
        var subscription: ((String) -> String)?
    }

    private func grid(_ links: Links, isSummed: Bool) -> HTML {
        let shown = shownColumns
        var table = HTMLTable(
            name.title,
            shown.map {
                .init(heading: columns[$0].title, isNumber: columns[$0].kind == .integer)
            }, rows.prefix(htmlRowsMax).map { row in shown.map { cell(row, $0, links) } })
        // There are no sums of a truncated table.
        if isSummed, rows.count <= htmlRowsMax {
            table.totals = totals.map { row in shown.map { cell(row, $0, Links()) } }
        }
        table.isNamedAbove = true
        table.isStacked = false
        table.isSideways = true
        table.isMany = shown.count > columnsOfAPage
        return table.html
    }

    private func record(_ row: [String?], _ links: Links) -> HTML {
        let lines = shownColumns.map { index in
            (name: columns[index].title, value: cell(row, index, links))
        }
        let title = cell(row, columns.firstIndex { $0.name == "batch_name" } ?? 0, links)
        return "<h3>\(title)</h3>\n\(definitions(lines))"
    }

    private func cell(_ row: [String?], _ index: Int, _ links: Links) -> HTML {
        guard index < row.count, let value = row[index] else { return .none }
        let column = columns[index]
        let text = shown(row, index)
        if column.name == "batch_name", let link = links.batch, let id = self.cell(row, "batch_id")
        {
            return .link(link(id), text)
        }
        if column.name == "original_transaction_id", let link = links.subscription {
            return "<a class=\"id\" href=\"\(link(value))\">\(text)</a>"
        }
        switch column.kind {
        case .instant: return Instant(text).map { .time($0.milliseconds) } ?? HTML(text)
        case .day:
            guard let day = CivilDate(value) else { return HTML(text) }
            return column.name == "month" ? .month(day) : .day(day)
        case .integer:
            if column.isMoney, let currency = self.cell(row, "currency") {
                return HTML("\(text) \(currency)")
            }
            guard !column.isMoney, !column.isRate else { return HTML(text) }
            return HTML(Int64(value).map { counted($0) } ?? text)
        case .list:
            return "<span class=\"long\">\(listElements(value).joined(separator: "; "))</span>"
        case .boolean, .id: return HTML(text)
        case .text: return HTML(ReportColumn.ofWords.contains(column.name) ? spaced(text) : text)
        }
    }

    /// What each column says, in the database's own words.
    private var dictionary: HTML {
        let lines = shownColumns.map { index in
            (name: columns[index].title, value: HTML(columns[index].meaning))
        }
        let body = definitions(lines)
        guard !body.isEmpty else { return .none }
        return
            "<details class=\"screen\"><summary>What the columns say</summary>\n\(body)</details>\n"
    }
}

extension ReportDescription {
    /// The report's description, without the part that is only for readers of SQL.
    package var lead: String {
        guard let end = meaning.firstRange(of: "No NAME_as_of") else { return meaning }
        let lead = meaning[..<end.lowerBound]
        return lead.lastIndex { $0 != " " }.map { String(lead[...$0]) } ?? meaning
    }
}

extension ReportColumn {
    /// Columns whose texts are our own codes, not items or names.
    fileprivate static let ofWords: Set = [
        "acceptance", "answer", "batch_state", "came_consent", "cause", "check_name",
        "check_result", "consent_outcome", "exception", "explained_as", "forecast_because",
        "forecast_consent", "forecast_threshold_source", "kind", "reason", "state",
    ]

    /// The title, such as `Uplift per month`. The unit stands in the cells.
    package var title: String {
        let words =
            switch name {
            case "original_transaction_id": "subscription"
            case "sku": "item"
            case "dependent_sku": "dependent"
            case "parent_sku": "parent"
            default: spaced(heading)
            }
        return words.prefix(1).uppercased() + words.dropFirst()
    }
}

// Charts of reports -----------------------------------------------------------------------------------------------------

extension ReportTable {
    /// The chart that belongs to the report; empty where there is none, or nothing to draw.
    package var chart: HTML {
        switch name {
        case .consentFunnel:
            barChart("Consent funnel", unit: "price changes that reached each step", funnelBars)
        case .revenueImpact:
            barChart(
                "Effect on revenue a month",
                unit: "what was charged, tax included; each currency has a scale of its own",
                revenueBars)
        case .batchSummary, .priceChange, .pendingConsent, .upcomingEffective,
            .dependentCancellation,
            .money, .chargeException, .closedPeriod, .revenueBridge, .revenueBridgeTotal,
            .revenueAtRisk, .holdout, .forecastAccuracy, .reconciliation, .notificationHealth,
            .unknownPart, .renewalExtension:
            .none
        }
    }

    private var funnelBars: [Bar] {
        let steps: [(column: String, label: String, kind: Bar.Kind)] = [
            ("changes", "In the batch", .plain), ("sent", "Sent to the App Store", .plain),
            ("asked_for_consent", "Customer asked to agree", .plain),
            ("consented", "Agreed", .gain), ("informed", "Informed, need not agree", .plain),
            ("effective", "Charged the new price", .gain), ("declined", "Did not agree", .loss),
            ("fell_with_parent", "Fell with their parent item", .loss),
            ("cancelled", "Left", .loss), ("lapsed", "Lapsed: billing or product", .loss),
            ("other", "Not applied", .open), ("open", "Still open", .open),
        ]
        let full = sum("changes")
        return steps.compactMap { step in
            let count = sum(step.column)
            guard count > 0 else { return nil }
            return Bar(
                step.label, count, "\(counted(count)) (\(share(count, of: full)))", full: full,
                kind: step.kind)
        }
    }

    private var revenueBars: [Bar] {
        let groups = Dictionary(grouping: rows) { cell($0, "currency") ?? "" }
        return groups.keys.sorted().flatMap { currency -> [Bar] in
            let rows = groups[currency] ?? []
            let uplift = exactSum("uplift_per_month_milliunits", of: rows)
            let lost = exactSum("lost_per_month_milliunits", of: rows)
            let full = Int64(clamping: max(uplift.magnitude, lost.magnitude))
            guard full > 0 else { return [] }
            let bars = [
                Bar(
                    "\(currency): at the new prices", Int64(clamping: uplift),
                    difference(uplift, currency),
                    full: full, kind: uplift < 0 ? .loss : .gain),
                Bar(
                    "\(currency): gone with who left", Int64(clamping: lost),
                    difference(-lost, currency),
                    full: full,
                    kind: .loss),
            ]
            return bars.filter { $0.value != 0 }
        }
    }

    private func sum(_ column: String) -> Int64 { sum(column, of: rows) }

    /// A sum of counts.
    package func sum(_ column: String, of rows: [[String?]]) -> Int64 {
        Int64(clamping: exactSum(column, of: rows))
    }

    /// A sum of money, which may exceed 64 bits and must not saturate silently.
    package func exactSum(_ column: String, of rows: [[String?]]) -> Int128 {
        rows.reduce(Int128(0)) { $0 + Int128(number($1, column)) }
    }
}

/// A bar with its name and its value in words: the chart says nothing by colour or length alone.
struct Bar {
    var label: String
    var value: Int64
    var shown: String
    /// What the full width stands for; bars of one scale can be compared.
    var full: Int64
    var kind = "bar"
}

/// The chart that belongs to a report; empty where there is none or nothing to draw.
func chart(of table: ReportTable) -> String {
    switch table.name {
    case .consentFunnel:
        svg(
            "Consent funnel", "Price changes that reached each step, by forecast of consent.",
            funnelBars(table))
    case .revenueImpact:
        svg(
            "Revenue a month",
            "Uplift charged and revenue lost a month, tax included, in each currency's own units; each currency has a "
                + "scale of its own.",
            revenueBars(table))
    case .batchSummary, .priceChange, .pendingConsent, .upcomingEffective, .dependentCancellation,
        .money, .chargeException, .closedPeriod, .revenueBridge, .revenueBridgeTotal,
        .revenueAtRisk, .holdout,
        .forecastAccuracy, .reconciliation, .notificationHealth, .unknownPart,
        .renewalExtension:
        ""
    }
}

private func funnelBars(_ table: ReportTable) -> [Bar] {
    let steps = [
        "changes", "sent", "asked_for_consent", "consented", "informed", "effective", "declined",
        "cancelled", "fell_with_parent", "lapsed", "other", "open",
    ]
    let groups = Dictionary(grouping: table.rows) { row in
        let direction = table.cell(row, "direction") ?? ""
        let consent = table.cell(row, "forecast_consent") ?? ""
        return direction == "decrease" ? "decrease" : "\(direction), consent \(consent)"
    }
    let sums = groups.mapValues { rows in steps.map { sum($0, of: rows, in: table) } }
    let full = sums.values.compactMap { $0.first }.max() ?? 0
    return sums.keys.sorted(by: >).flatMap { group in
        zip(steps, sums[group] ?? []).filter { $0.1 > 0 }.map { step, count in
            let isLoss = ["declined", "cancelled", "fell_with_parent", "lapsed"].contains(step)
            return Bar(
                label: "\(group): \(step)".spaced, value: count, shown: String(count), full: full,
                kind: isLoss ? "loss" : "bar")
        }
    }
}

private func revenueBars(_ table: ReportTable) -> [Bar] {
    let groups = Dictionary(grouping: table.rows) { table.cell($0, "currency") ?? "" }
    return groups.keys.sorted().flatMap { currency in
        let rows = groups[currency] ?? []
        let uplift = sum("uplift_per_month_milliunits", of: rows, in: table)
        let lost = sum("lost_per_month_milliunits", of: rows, in: table)
        let full = Int64(clamping: max(uplift.magnitude, lost.magnitude))
        guard full > 0 else { return [Bar]() }
        return [
            Bar(
                label: "\(currency) uplift", value: uplift,
                shown: "\(money(uplift, currency: currency)) \(currency)", full: full,
                kind: uplift < 0 ? "loss" : "gain"),
            Bar(
                label: "\(currency) lost", value: lost,
                shown: "\(money(lost, currency: currency)) \(currency)", full: full, kind: "loss"),
        ]
    }
}

private func sum(_ column: String, of rows: [[String?]], in table: ReportTable) -> Int64 {
    rows.reduce(Int64(0)) { $0.addedClamped(table.number($1, column)) }
}

private func svg(_ title: String, _ description: String, _ bars: [Bar]) -> String {
    guard !bars.isEmpty else { return "" }
    let (labelWidth, barWidth, rowHeight) = (340, 420, 22)
    let height = bars.count * rowHeight + 8
    var text = """
        <figure><figcaption><strong>\(escapeHTML(title))</strong>. \(escapeHTML(description))</figcaption>
        <svg role="img" viewBox="0 0 900 \(height)" width="900" height="\(height)">
        <title>\(escapeHTML(title))</title><desc>\(escapeHTML(description))</desc>

        """
    for (row, bar) in bars.enumerated() {
        let top = row * rowHeight + 4
        let width = length(bar.value, of: bar.full, in: barWidth)
        text += """
            <text x="\(labelWidth - 8)" y="\(top + 14)" text-anchor="end">\
            \(escapeHTML(bar.label))</text>
            <rect class="\(bar.kind)" x="\(labelWidth)" y="\(top)" width="\(width)" height="16"/>
            <text x="\(labelWidth + width + 6)" y="\(top + 14)">\(escapeHTML(bar.shown))</text>

            """
    }
    return text + "</svg></figure>\n"
}

/// Pixels, at least one for any value but 0.
private func length(_ value: Int64, of full: Int64, in width: Int) -> Int {
    guard value != 0, full > 0 else { return 0 }
    let share = value.magnitude.multipliedFullWidth(by: UInt64(width))
    let whole = full.magnitude
    // The high word is below `whole` whenever |value| ≤ full, which every caller's scale ensures.
    guard share.high < whole else { return width }
    return max(1, min(width, Int(whole.dividingFullWidth(share).quotient)))
}

extension String {
    fileprivate var spaced: String { String(map { $0 == "_" ? " " : $0 }) }
}

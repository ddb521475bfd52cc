import Pricing

/// Rows of one table on a page; a report of more says so and names the format that holds all.
package let htmlRowsMax = 2000

/// One self-contained page: tables, and a chart for the funnel and the revenue. Everything from the
/// database is escaped; there is no script, and nothing is fetched from elsewhere.
///
/// `asOf` is UTC milliseconds. `link` makes the address of a batch's own page from its id.
package func htmlPage(
    title: String, asOf: Int64?, tables: [ReportTable], link: ((String) -> String)? = nil
) -> String {
    var body = ""
    for table in tables { body += section(table, isAlone: tables.count == 1, link: link) }
    return htmlDocument(title: title, asOf: asOf, body: body)
}

/// A page around HTML that is finished; the title is text.
package func htmlDocument(title: String, asOf: Int64?, body: String) -> String {
    var page = """
        <!DOCTYPE html>
        <html lang="en"><head><meta charset="utf-8">
        <meta name="viewport" content="width=device-width, initial-scale=1">
        <title>\(escapeHTML(title)) · repricer</title>
        <style>\(style)</style></head><body><main>
        <h1>\(escapeHTML(title))</h1>

        """
    if let asOf { page += "<p>As of <time>\(escapeHTML(instantText(asOf)))</time>.</p>\n" }
    return page + body + "</main></body></html>\n"
}

private func section(
    _ table: ReportTable, isAlone: Bool, link: ((String) -> String)?
) -> String {
    var text = "<section>\n"
    if !isAlone { text += "<h2>\(escapeHTML(table.name.title))</h2>\n" }
    text += chart(of: table)
    guard !table.rows.isEmpty else { return text + "<p>No rows.</p>\n</section>\n" }
    if table.rows.count > htmlRowsMax {
        text += "<p>The first \(htmlRowsMax) of \(table.rows.count) rows; "
        text += "<code>--format csv</code> holds all.</p>\n"
    }
    text += table.name.isInRecords ? records(table, link) : grid(table, link)
    return text + "</section>\n"
}

private func grid(_ table: ReportTable, _ link: ((String) -> String)?) -> String {
    let shown = table.shownColumns
    var text = "<div class=\"scroll\"><table><thead><tr>"
    for index in shown {
        text += "<th scope=\"col\"\(hint(table, index))>\(heading(table, index))</th>"
    }
    text += "</tr></thead><tbody>\n"
    for row in table.rows.prefix(htmlRowsMax) {
        text += "<tr>" + shown.map { cell(table, row, $0, link) }.joined() + "</tr>\n"
    }
    text += "</tbody>"
    let totals = table.totals
    if !totals.isEmpty {
        text += "<tfoot>\n"
        for row in totals {
            text += "<tr>" + shown.map { cell(table, row, $0, nil) }.joined() + "</tr>\n"
        }
        text += "</tfoot>"
    }
    return text + "</table></div>\n"
}

private func records(_ table: ReportTable, _ link: ((String) -> String)?) -> String {
    table.rows.prefix(htmlRowsMax).map { row in
        let lines = table.shownColumns.map { index in
            "<tr><th scope=\"row\"\(hint(table, index))>\(heading(table, index))</th>"
                + "\(cell(table, row, index, link))</tr>\n"
        }
        return "<div class=\"scroll\"><table><tbody>\n\(lines.joined())</tbody></table></div>\n"
    }.joined()
}

private func heading(_ table: ReportTable, _ index: Int) -> String {
    escapeHTML(String(table.columns[index].heading.map { $0 == "_" ? " " : $0 }))
}

private func hint(_ table: ReportTable, _ index: Int) -> String {
    let meaning = table.columns[index].meaning
    return meaning.isEmpty ? "" : " title=\"\(escapeHTML(meaning))\""
}

private func cell(
    _ table: ReportTable, _ row: [String?], _ index: Int, _ link: ((String) -> String)?
) -> String {
    let text = escapeHTML(table.shown(row, index))
    let column = table.columns[index]
    if column.name == "batch_name", let link, let batchID = table.cell(row, "batch_id") {
        return "<td><a href=\"\(escapeHTML(link(batchID)))\">\(text)</a></td>"
    }
    return column.kind == .integer ? "<td class=\"number\">\(text)</td>" : "<td>\(text)</td>"
}

/// Text as HTML shows it, in an element or in a quoted attribute.
package func escapeHTML(_ text: String) -> String {
    var escaped = ""
    for scalar in text.unicodeScalars {
        switch scalar {
        case "&": escaped += "&amp;"
        case "<": escaped += "&lt;"
        case ">": escaped += "&gt;"
        case "\"": escaped += "&quot;"
        case "'": escaped += "&#39;"
        case "\u{0}"..."\u{8}", "\u{B}", "\u{C}", "\u{E}"..."\u{1F}", "\u{7F}":
            escaped += "\u{FFFD}"
        default: escaped.unicodeScalars.append(scalar)
        }
    }
    return escaped
}

private let style = """
    :root{color-scheme:light dark;--line:#8886;--gain:#1a7f4b;--loss:#b3372b;--bar:#3b6fb5}
    body{font:15px/1.5 system-ui,sans-serif;margin:0}
    main{max-width:78rem;margin:0 auto;padding:1rem}
    h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem}.scroll{overflow-x:auto}
    table{border-collapse:collapse;margin:.5rem 0}
    th,td{padding:.2rem .6rem;border-bottom:1px solid var(--line);text-align:left;
    vertical-align:top;white-space:nowrap}
    th.number{text-align:right}tr.part th{padding-top:.8rem}
    td.number{text-align:right;font-variant-numeric:tabular-nums}
    svg{max-width:100%;height:auto;font:13px system-ui,sans-serif}svg text{fill:currentColor}
    tfoot td{font-weight:600;border-bottom:0;border-top:1px solid}
    figure{margin:1rem 0}figcaption{margin-bottom:.3rem}
    @media print{@page{size:A4 landscape;margin:10mm}body{font-size:7pt}main{max-width:none;padding:0}
    .scroll{overflow:visible}th,td{white-space:normal;overflow-wrap:anywhere;padding:.1rem .25rem}}
    .bar{fill:var(--bar)}.gain{fill:var(--gain)}.loss{fill:var(--loss)}
    """

/// A table of a page: its name, its columns, its rows. The first cell of a row names the row.
package struct HTMLTable: Sendable {
    package struct Column: Sendable {
        package var heading: String
        package var isNumber: Bool

        package static func text(_ heading: String) -> Column {
            Column(heading: heading, isNumber: false)
        }

        package static func number(_ heading: String) -> Column {
            Column(heading: heading, isNumber: true)
        }
    }

    package var caption: String
    package var columns: [Column]
    package var rows: [[HTML]]
    /// The sums below the rows.
    package var totals: [[HTML]] = []
    /// Whether each row becomes a block on a narrow screen, with each cell after its heading.
    package var isStacked: Bool
    /// Whether the heading above it says the same, so that the caption is only for screen readers.
    package var isNamedAbove = false
    /// Whether it has too many columns to be blocks, and is scrolled sideways on a narrow screen.
    package var isSideways = false
    /// Whether it has many columns, and is set smaller in print.
    package var isMany = false

    private static let columnsOfANarrowScreen = 3
    /// A table with more columns becomes blocks on the screen of a tablet, too.
    private static let columnsOfATablet = 5

    package init(
        _ caption: String, _ columns: [Column], _ rows: [[HTML]], totals: [[HTML]] = [],
        isStacked: Bool? = nil
    ) {
        self.caption = caption
        self.columns = columns
        self.rows = rows
        self.totals = totals
        self.isStacked = isStacked ?? (columns.count > Self.columnsOfANarrowScreen)
    }

    /// The markup; empty where there is no row.
    package var html: HTML {
        guard !rows.isEmpty else { return .none }
        let head = columns.map { column -> HTML in
            "<th scope=\"col\"\(Self.mark(column))\(role("columnheader"))>\(column.heading)</th>"
        }
        // In print it is only on the last page (tfoot in the style sheet), because it is not the sum of one page.
        let foot: HTML =
            totals.isEmpty
            ? .none : "<tfoot\(role("rowgroup"))>\(totals.map(row))</tfoot>"
        return """
            <div class="scroll" role="region" aria-label="\(caption)" tabindex="0">
            \(hint)<table\(kind)\(role("table"))\(name.label)>
            \(name.caption)
            <thead\(role("rowgroup"))><tr\(role("row"))>\(head)</tr></thead>
            <tbody\(role("rowgroup"))>
            \(rows.map(row))</tbody>\(foot)</table></div>

            """
    }

    /// Only the browser knows whether the table is wider than its space, so the style sheet shows or hides the hint.
    private var hint: HTML {
        isSideways
            ? "<p class=\"hint\">\(counted(Int64(columns.count), "column")): scroll sideways, or save the CSV.</p>\n"
            : .none
    }

    private var name: (label: HTML, caption: HTML) {
        isNamedAbove
            ? (" aria-label=\"\(caption)\"", .none) : (.none, "<caption>\(caption)</caption>")
    }

    private var kind: HTML {
        let isBroad = isStacked && columns.count > Self.columnsOfATablet
        let classes = [
            (isStacked, "stacked"), (isBroad, "broad"), (isSideways, "sideways"), (isMany, "many"),
        ].filter(\.0).map(\.1)
        return classes.isEmpty ? "" : " class=\"\(classes.joined(separator: " "))\""
    }

    private func row(_ cells: [HTML]) -> HTML {
        let shown = columns.indices.map { index -> HTML in
            let cell = index < cells.count ? cells[index] : .none
            let label: HTML = isStacked ? " data-label=\"\(columns[index].heading)\"" : ""
            guard index == 0 else {
                return "<td\(Self.mark(columns[index]))\(label)\(role("cell"))>\(cell)</td>"
            }
            return
                "<th scope=\"row\"\(Self.mark(columns[index]))\(role("rowheader"))>\(cell)</th>"
        }
        return "<tr\(role("row"))>\(shown)</tr>\n"
    }

    /// Screen readers read blocks as a table only if the markup has these roles.
    private func role(_ name: String) -> HTML { isStacked ? " role=\"\(name)\"" : "" }

    private static func mark(_ column: Column) -> HTML {
        column.isNumber ? " class=\"number\"" : ""
    }
}

/// Names and values, such as the facts of a batch. Lines without a value are left out.
package func definitions(_ lines: [(name: String, value: HTML)]) -> HTML {
    let shown = lines.filter { !$0.value.isEmpty }
    guard !shown.isEmpty else { return .none }
    let items = shown.map { line -> HTML in
        "<div><dt>\(line.name)</dt><dd>\(line.value)</dd></div>\n"
    }
    return "<dl class=\"facts\">\n\(items)</dl>\n"
}

/// A part that can be opened, for lists that few readers need.
package func folded(_ title: String, _ body: HTML) -> HTML {
    body.isEmpty ? .none : "<details><summary>\(title)</summary>\n\(body)</details>\n"
}

/// A part of a page that is one table, named by the heading.
package func section(_ title: String, _ table: HTMLTable, after: HTML = .none) -> HTML {
    guard !table.rows.isEmpty else { return .none }
    var table = table
    table.isNamedAbove = true
    return section(title, table.html + after)
}

/// A part of a page under a heading of the second level; empty where its body is.
package func section(_ title: String, _ body: HTML) -> HTML {
    guard !body.isEmpty else { return .none }
    let id = String(title.lowercased().map { $0.isASCII && $0.isLetter ? $0 : "-" })
    return """
        <section aria-labelledby="\(id)">
        <h2 id="\(id)">\(title)</h2>
        \(body)</section>

        """
}

import Facts

/// How a report is written.
package enum ReportFormat: String, Hashable, Sendable, CaseIterable {
    /// For people: money in the currency's own decimals, and only the columns that matter to them.
    case table
    /// RFC 4180 with every column, and money in milliunits. `\copy … CSV HEADER` reads it back unchanged: instants to
    /// the microsecond, arrays in PostgreSQL's format. The only exception is a text that a spreadsheet would run as a
    /// formula, which gets a `'` in front.
    case csv
    /// One object with every column. `bigint` is a JSON number, and money is in milliunits.
    case json
    /// One page without scripts or external links, with a chart where the report has one.
    case html
}

/// Converts the columns and rows of one report to text, piece by piece. CSV and JSON are written while rows arrive; a
/// table and a page need all rows first.
package struct ReportRenderer: Sendable {
    private let query: ReportQuery
    private let format: ReportFormat
    private var json: JSONRows
    private var gathered: ReportTable

    package init(_ query: ReportQuery, format: ReportFormat) {
        self.query = query
        self.format = format
        json = JSONRows(query)
        gathered = ReportTable(name: query.name, columns: [], rows: [])
    }

    /// Begins the text. It is called once, before any rows.
    package mutating func begin(_ columns: [ReportColumn]) -> String {
        gathered.columns = columns
        return switch format {
        case .csv: CSVRows.header(columns)
        case .json: json.opening
        case .table, .html: ""
        }
    }

    package mutating func add(_ page: ReportPage) -> String {
        format == .csv ? CSVRows.text(page, gathered.columns) : add(page.texts)
    }

    package mutating func add(_ rows: [[String?]]) -> String {
        switch format {
        case .csv: return CSVRows.text(rows, gathered.columns)
        case .json: return json.objects(rows, columns: gathered.columns)
        case .table, .html:
            gathered.rows += rows
            return ""
        }
    }

    package func end() -> String {
        switch format {
        case .csv: ""
        case .json: json.closing
        case .table: gathered.text
        case .html:
            htmlDocument(
                title: gathered.name.title, asOf: query.asOf,
                body: "<section>\(gathered.html().markup)</section>\n")
        }
    }
}

/// A whole report, for people, who do not read a million rows.
package struct ReportTable: Hashable, Sendable {
    package var name: ReportName
    package var columns: [ReportColumn]
    /// Cells in the order of `columns`; nil for NULL.
    package var rows: [[String?]]

    package init(name: ReportName, columns: [ReportColumn] = [], rows: [[String?]] = []) {
        self.name = name
        self.columns = columns
        self.rows = rows
    }

    /// The cell of a column, or nil: NULL, or no such column.
    package func cell(_ row: [String?], _ column: String) -> String? {
        guard let index = columns.firstIndex(where: { $0.name == column }), index < row.count else {
            return nil
        }
        return row[index]
    }

    /// The number of a cell, or 0. The views never leave a count out.
    package func number(_ row: [String?], _ column: String) -> Int64 {
        cell(row, column).flatMap { Int64($0) } ?? 0
    }
}

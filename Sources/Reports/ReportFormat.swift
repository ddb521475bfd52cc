import Facts

/// How a report is written.
package enum ReportFormat: String, Hashable, Sendable, CaseIterable {
    /// For people: money in the currency's own decimals, the columns that matter.
    case table
    /// RFC 4180, every column, money in milliunits. Cells are facts, never formulas to be mended:
    /// ids and names are written as they are, so a spreadsheet should import them as text.
    case csv
    /// One object; every column; `bigint` as a JSON number, money in milliunits.
    case json
    /// One page without scripts or links to elsewhere, with a chart where there is one to draw.
    case html
}

/// Turns the columns and rows of one report into text, piece by piece. CSV and JSON are written as
/// the rows come; a table and a page need all rows first.
package struct ReportRenderer: Sendable {
    private enum Writer: Sendable {
        case csv(CSVWriter)
        case json(JSONRows)
        case people(ReportFormat)
    }

    private let query: ReportQuery
    private var writer: Writer
    private var gathered: ReportTable

    package init(_ query: ReportQuery, format: ReportFormat) {
        self.query = query
        gathered = ReportTable(name: query.name, columns: [], rows: [])
        switch format {
        case .csv: writer = .csv(CSVWriter())
        case .json: writer = .json(JSONRows(query))
        case .table, .html: writer = .people(format)
        }
    }

    /// To be called once, before any rows.
    package mutating func begin(_ columns: [ReportColumn]) -> String {
        gathered.columns = columns
        switch writer {
        case .csv(let csv): return csv.header(columns)
        case .json(let json): return json.opening
        case .people: return ""
        }
    }

    package mutating func add(_ rows: [[String?]]) -> String {
        switch writer {
        case .csv(let csv): return csv.lines(rows)
        case .json(var json):
            defer { writer = .json(json) }
            return json.objects(rows, columns: gathered.columns)
        case .people:
            gathered.rows += rows
            return ""
        }
    }

    package mutating func end() -> String {
        switch writer {
        case .csv: ""
        case .json(let json): json.closing
        case .people(let format):
            format == .html
                ? htmlPage(title: gathered.name.title, asOf: query.asOf, tables: [gathered])
                : TextTable(gathered).text
        }
    }
}

/// A report read as a whole: for people, who do not read a million rows.
package struct ReportTable: Hashable, Sendable {
    package var name: ReportName
    package var columns: [ReportColumn]
    /// Cells in the order of `columns`; nil for NULL.
    package var rows: [[String?]]

    package init(name: ReportName, columns: [ReportColumn], rows: [[String?]]) {
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

    /// A number, or 0: the views never leave a count out.
    func number(_ row: [String?], _ column: String) -> Int64 {
        cell(row, column).flatMap { Int64($0) } ?? 0
    }
}

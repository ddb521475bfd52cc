import Facts
import ServiceKit

/// How a report is written.
package enum ReportFormat: String, Hashable, Sendable, CaseIterable {
    /// For people: money in the currency's own decimals, the columns that matter.
    case table
    /// RFC 4180, every column, money in milliunits. A text that a spreadsheet would run as a formula begins with `'`.
    case csv
    /// One object; every column; `bigint` as a JSON number, money in milliunits.
    case json
    /// One page without scripts or links to elsewhere, with a chart where there is one to draw.
    case html
}

/// Turns the columns and rows of one report into text, piece by piece. CSV and JSON are written as
/// the rows come; a table and a page need all rows first.
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

    /// To be called once, before any rows.
    package mutating func begin(_ columns: [ReportColumn]) -> String {
        gathered.columns = columns
        return switch format {
        case .csv: csvLine(columns.map(\.name))
        case .json: json.opening
        case .table, .html: ""
        }
    }

    package mutating func add(_ rows: [[String?]]) -> String {
        switch format {
        case .csv:
            let areTexts = gathered.columns.map { $0.kind == .text || $0.kind == .list }
            return rows.map { row in
                csvLine(zip(row, areTexts).map { $1 ? $0.map(SpreadsheetText.cell) : $0 })
            }.joined()
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

/// RFC 4180: CRLF, quotes only where needed. NULL is an empty cell, an empty text is `""`.
private func csvLine(_ cells: [String?]) -> String {
    cells.map { $0.map(csvField) ?? "" }.joined(separator: ",") + "\r\n"
}

private func csvField(_ cell: String) -> String {
    let needsQuotes =
        cell.isEmpty || cell.hasPrefix(" ") || cell.hasSuffix(" ")
        || cell.unicodeScalars.contains { "\",\r\n".unicodeScalars.contains($0) }
    guard needsQuotes else { return cell }
    // By scalars: a quote before a combining mark is part of another Character.
    var quoted = "\"".unicodeScalars
    for scalar in cell.unicodeScalars {
        if scalar == "\"" { quoted.append(scalar) }
        quoted.append(scalar)
    }
    return String(quoted) + "\""
}

/// A report read as a whole: for people, who do not read a million rows.
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

    /// A number, or 0: the views never leave a count out.
    package func number(_ row: [String?], _ column: String) -> Int64 {
        cell(row, column).flatMap { Int64($0) } ?? 0
    }
}

import Facts
import JSON
import Pricing

/// `{"report":…,"batch_id":…,"as_of":…,"rows":[{…},…]}`, one row a line.
struct JSONRows: Sendable {
    let opening: String
    let closing = "\n]}\n"
    private var isFirst = true

    init(_ query: ReportQuery) {
        let head = JSONWriter.object {
            $0.text("report", query.name.rawValue)
            $0.member("batch_id", query.batchID?.lowercased())
            $0.member("as_of", query.asOfText)
        }
        opening = "\(head.dropLast()),\"rows\":["
    }

    mutating func objects(_ rows: [[String?]], columns: [ReportColumn]) -> String {
        var text = ""
        for row in rows {
            text += isFirst ? "\n" : ",\n"
            isFirst = false
            text += JSONWriter.object { json in
                for (column, cell) in zip(columns, row) {
                    json.label(column.name)
                    write(cell, column.kind, &json)
                }
            }
        }
        return text
    }

    private func write(_ cell: String?, _ kind: ReportColumn.Kind, _ json: inout JSONWriter) {
        guard let cell else { return json.finished("null") }
        switch kind {
        case .integer, .boolean: json.finished(cell)
        case .instant where cell.hasSuffix("infinity"): json.finished("null")
        case .text, .id, .instant, .day: json.value(cell)
        case .list: json.list(listElements(cell)) { $1.value($0) }
        }
    }
}

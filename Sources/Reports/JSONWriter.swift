import Ledger
import Pricing

/// `{"report":…,"batch_id":…,"as_of":…,"rows":[{…},…]}`, one row a line.
struct JSONWriter: Sendable {
    let opening: String
    let closing = "\n]}\n"
    private var isFirst = true

    init(_ query: ReportQuery) {
        let batch = query.batchID.map { jsonString($0.lowercased()) } ?? "null"
        let asOf = query.asOf.map { jsonString(instantText($0)) } ?? "null"
        opening =
            "{\"report\":\(jsonString(query.name.rawValue)),\"batch_id\":\(batch),"
            + "\"as_of\":\(asOf),\"rows\":["
    }

    mutating func objects(_ rows: [[String?]], columns: [ReportColumn]) -> String {
        var text = ""
        for row in rows {
            text += isFirst ? "\n{" : ",\n{"
            isFirst = false
            text += zip(columns, row).map { column, cell in
                "\(jsonString(column.name)):\(value(cell, column.kind))"
            }.joined(separator: ",")
            text += "}"
        }
        return text
    }

    private func value(_ cell: String?, _ kind: ReportColumn.Kind) -> String {
        guard let cell else { return "null" }
        switch kind {
        case .integer, .boolean: return cell
        case .text, .instant, .day: return jsonString(cell)
        case .list:
            return "["
                + cell.unicodeScalars.split(separator: ";").map { jsonString(String($0)) }
                .joined(separator: ",") + "]"
        }
    }
}

/// A JSON string with its quotes.
package func jsonString(_ text: String) -> String {
    var quoted = "\""
    for scalar in text.unicodeScalars {
        switch scalar {
        case "\"": quoted += "\\\""
        case "\\": quoted += "\\\\"
        case "\n": quoted += "\\n"
        case "\r": quoted += "\\r"
        case "\t": quoted += "\\t"
        case "\u{0}"..."\u{1F}", "\u{7F}":
            let digits = String(scalar.value, radix: 16)
            quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
        default: quoted.unicodeScalars.append(scalar)
        }
    }
    return quoted + "\""
}

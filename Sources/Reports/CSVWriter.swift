/// RFC 4180: CRLF, a header row, quotes only where needed. NULL is an empty cell, an empty text is
/// `""`.
struct CSVWriter: Sendable {
    func header(_ columns: [ReportColumn]) -> String {
        line(columns.map(\.name))
    }

    func lines(_ rows: [[String?]]) -> String {
        rows.map(line).joined()
    }

    private func line(_ cells: [String?]) -> String {
        cells.map(field).joined(separator: ",") + "\r\n"
    }

    private func field(_ cell: String?) -> String {
        guard let cell else { return "" }
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
}

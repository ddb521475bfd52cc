/// A table for a terminal: numbers to the right, no character that could steer the terminal.
struct TextTable {
    private let table: ReportTable

    init(_ table: ReportTable) {
        self.table = table
    }

    var text: String {
        guard !table.rows.isEmpty else { return "\(table.name.title): no rows\n" }
        return table.name.isInRecords ? records : grid
    }

    private var grid: String {
        let shown = table.shownColumns
        let headings = shown.map { table.columns[$0].heading }
        let lines = table.rows.map { row in shown.map { harmless(table.shown(row, $0)) } }
        let widths = shown.indices.map { place in
            lines.reduce(headings[place].count) { max($0, $1[place].count) }
        }
        var text = join(headings, widths, shown)
        text += join(widths.map { String(repeating: "-", count: $0) }, widths, shown)
        for line in lines { text += join(line, widths, shown) }
        return text
    }

    private var records: String {
        let shown = table.shownColumns
        let width = shown.map { table.columns[$0].heading.count }.max() ?? 0
        return table.rows.map { row in
            shown.map { index in
                let line = pad(table.columns[index].heading, to: width)
                return "\(line)  \(harmless(table.shown(row, index)))".trimmedEnd + "\n"
            }.joined()
        }.joined(separator: "\n")
    }

    private func join(_ cells: [String], _ widths: [Int], _ shown: [Int]) -> String {
        let parts = cells.indices.map { place in
            let isNumber = table.columns[shown[place]].kind == .integer
            return pad(cells[place], to: widths[place], isRight: isNumber)
        }
        return parts.joined(separator: "  ").trimmedEnd + "\n"
    }

    private func pad(_ text: String, to width: Int, isRight: Bool = false) -> String {
        let blanks = String(repeating: " ", count: max(0, width - text.count))
        return isRight ? blanks + text : text + blanks
    }

    private func harmless(_ text: String) -> String {
        let scalars = text.unicodeScalars.map { scalar in
            scalar.properties.generalCategory == .control ? "\u{FFFD}" : scalar
        }
        return String(String.UnicodeScalarView(scalars))
    }
}

extension String {
    fileprivate var trimmedEnd: String {
        String(self[..<(lastIndex { $0 != " " }.map { index(after: $0) } ?? startIndex)])
    }
}

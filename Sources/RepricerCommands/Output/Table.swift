/// Aligned columns for a person.
struct Table {
    enum Alignment {
        case left, right
    }

    struct Column {
        let heading: String
        let alignment: Alignment

        static func left(_ heading: String) -> Column { Column(heading: heading, alignment: .left) }

        static func right(_ heading: String) -> Column {
            Column(heading: heading, alignment: .right)
        }
    }

    private let columns: [Column]
    private var rows: [[String]] = []

    init(_ columns: [Column]) {
        self.columns = columns
    }

    /// One cell a column; missing cells are empty, extra ones are a programmer's error.
    mutating func add(_ cells: [String]) {
        precondition(
            cells.count <= columns.count, "a row has more cells than the table has columns")
        rows.append(cells.map(harmless))
    }

    var isEmpty: Bool { rows.isEmpty }

    /// The heading and the rows; no trailing blanks, so that output can be compared.
    var text: String {
        let lines = [columns.map(\.heading)] + rows
        let widths = columns.indices.map { column in
            lines.map { column < $0.count ? $0[column].count : 0 }.max() ?? 0
        }
        return lines.map { cells in
            let padded = columns.indices.map { column in
                let cell = column < cells.count ? cells[column] : ""
                let blanks = String(repeating: " ", count: widths[column] - cell.count)
                return switch columns[column].alignment {
                case .left: cell + blanks
                case .right: blanks + cell
                }
            }
            return padded.joined(separator: "  ").trimmedAtEnd + "\n"
        }.joined()
    }
}

/// Names and values, one a line.
func definitionList(_ lines: [(name: String, value: String)]) -> String {
    let width = lines.map(\.name.count).max() ?? 0
    return lines.map { name, value in
        (name + String(repeating: " ", count: width - name.count + 2) + harmless(value))
            .trimmedAtEnd
            + "\n"
    }.joined()
}

/// Stored text may come from anybody: no character of it steers the terminal.
func harmless(_ text: String) -> String {
    let isClean = text.unicodeScalars.allSatisfy { $0.properties.generalCategory != .control }
    if isClean { return text }
    let scalars = text.unicodeScalars.map { scalar in
        scalar.properties.generalCategory == .control ? "\u{FFFD}" : scalar
    }
    return String(String.UnicodeScalarView(scalars))
}

extension String {
    var trimmedAtEnd: String {
        guard let last = lastIndex(where: { $0 != " " }) else { return "" }
        return String(self[...last])
    }
}

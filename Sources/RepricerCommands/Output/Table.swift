import Reports

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

    /// The heading and the rows.
    var text: String {
        aligned(
            [columns.map(\.heading)] + rows, isRight: columns.map { $0.alignment == .right })
    }
}

/// Names and values, one a line.
func definitionList(_ lines: [(name: String, value: String)]) -> String { namesAndValues(lines) }

/// Stored text without control characters, because it may come from anybody and must not control the terminal.
func harmless(_ text: String) -> String { withoutControls(text) }

import Reports

/// One column of a list of facts: a heading for people, a key for programs, and the cells.
struct Column<Row>: Sendable {
    /// The heading; nil for a column that only programs read.
    let heading: Table.Column?
    /// The key; nil for a column that only people read.
    let key: String?
    let cell: @Sendable (Row) -> String
    let value: @Sendable (Row) -> (any JSONConvertible)?

    /// A column of texts. `none` stands in the table where there is no text.
    static func text(
        _ heading: String, _ key: String, none: String = "",
        _ read: @escaping @Sendable (Row) -> String?
    ) -> Column {
        Column(heading: .left(heading), key: key, cell: { read($0) ?? none }, value: read)
    }

    static func instant(
        _ heading: String, _ key: String, _ read: @escaping @Sendable (Row) -> Int64?
    ) -> Column {
        text(heading, key) { read($0)?.instantText }
    }

    static func number(
        _ heading: String, _ key: String, none: String = "",
        _ read: @escaping @Sendable (Row) -> Int64?
    ) -> Column {
        Column(
            heading: .right(heading), key: key, cell: { read($0).map { "\($0)" } ?? none },
            value: read)
    }

    static func number(
        _ heading: String, _ key: String, _ read: @escaping @Sendable (Row) -> Int
    ) -> Column {
        number(heading, key) { Int64(read($0)) }
    }

    /// A number of rows, the thousands apart for people.
    static func count(
        _ heading: String, _ key: String, _ read: @escaping @Sendable (Row) -> Int64
    ) -> Column {
        Column(heading: .right(heading), key: key, cell: { counted(read($0)) }, value: read)
    }

    static func count(
        _ heading: String, _ key: String, _ read: @escaping @Sendable (Row) -> Int
    ) -> Column {
        count(heading, key) { Int64(read($0)) }
    }

    static func shown(
        _ heading: Table.Column, _ read: @escaping @Sendable (Row) -> String
    ) -> Column {
        Column(heading: heading, key: nil, cell: read, value: { _ in nil })
    }

    static func key(
        _ key: String, _ read: @escaping @Sendable (Row) -> (any JSONConvertible)?
    ) -> Column {
        Column(heading: nil, key: key, cell: { _ in "" }, value: read)
    }
}

extension Sequence {
    /// A table for a person; empty where there are no rows, unless `isShownEmpty`.
    func table(_ columns: [Column<Element>], isShownEmpty: Bool = false) -> String {
        var table = Table(columns.compactMap(\.heading))
        for row in self { table.add(columns.filter { $0.heading != nil }.map { $0.cell(row) }) }
        return table.isEmpty && !isShownEmpty ? "" : table.text
    }

    /// A list of objects for a program.
    func json(_ columns: [Column<Element>]) -> JSONValue {
        .array(
            map { row in
                .object(
                    columns.compactMap { column in
                        column.key.map { .init(name: $0, value: column.value(row)?.json ?? .null) }
                    })
            })
    }
}

/// Names with their numbers, under a heading; empty where there are none.
func countTable(_ heading: String, _ counts: [(String, Int64)]) -> String {
    counts.table([.shown(.left(heading)) { $0.0 }, .shown(.right("ROWS")) { counted($0.1) }])
}

/// The same for codes, each with what it means.
func codeTable(
    _ heading: String, _ counts: [(String, Int64)], _ words: @escaping @Sendable (String) -> String
) -> String {
    counts.table([
        .shown(.left(heading)) { $0.0 }, .shown(.right("ROWS")) { counted($0.1) },
        .shown(.left("WHY")) { words($0.0) },
    ])
}

/// Refused rows by code, the most frequent first.
func refusedTable(_ counts: [(String, Int64)]) -> String {
    codeTable("REFUSED", counts.sorted { ($1.1, $0.0) < ($0.1, $1.0) }, reasonWords)
}

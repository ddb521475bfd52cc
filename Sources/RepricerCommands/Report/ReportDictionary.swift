import Reports

extension Commands {
    /// Prints the database's comments on one report, or on all: `report --describe`.
    static func printDictionary(
        of name: ReportName?, _ configuration: Configuration, _ invocation: Invocation
    ) async throws -> ExitCode {
        try await invocation.withReportPool(configuration, name: "repricer report") {
            pool in
            let reports = try await ReportStore(pool: pool)
                .describe(name.map { [$0] } ?? ReportName.allCases)
            try invocation.print(
                json: ["reports": JSONValue.array(reports.map(\.json))],
                reports.map(\.text).joined(separator: "\n"))
            return .done
        }
    }
}

extension ReportDescription {
    fileprivate var text: String {
        let words = columns.map { column in
            "  \(column.name) (\(column.kind.word))\n" + indented(column.meaning, by: 6)
        }
        let head = wrapped("\(name.rawValue): \(name.title)", width: 80)
            .joined(separator: "\n  ")
        return head + "\n" + indented(meaning, by: 2) + words.joined()
    }

    private func indented(_ text: String, by blanks: Int) -> String {
        let indent = String(repeating: " ", count: blanks)
        return wrapped(text, width: 80 - blanks).map { indent + $0 + "\n" }
            .joined()
    }

    fileprivate var json: JSONValue {
        [
            "name": name.rawValue, "title": name.title, "meaning": meaning,
            "columns": JSONValue.array(
                columns.map { column in
                    ["name": column.name, "type": column.kind.word, "meaning": column.meaning]
                }),
        ]
    }
}

extension ReportColumn.Kind {
    fileprivate var word: String {
        switch self {
        case .text, .id: "text"
        case .integer: "number"
        case .boolean: "true or false"
        case .instant: "instant"
        case .day: "day"
        case .list: "list"
        }
    }
}

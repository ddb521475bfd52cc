import Reports

extension Commands {
    private static let reportName = Positional("NAME", "the report", choices: [])
    private static let reportBatch = ValueOption(
        "batch", "B", "only this batch, by its id or its name")
    private static let reportAsOf = ValueOption(
        "as-of", "INSTANT", "what was known at this instant, late news left out")
    private static let format = ValueOption(
        "format", "FORMAT", "how to write it; table when left out",
        choices: ReportFormat.allCases.map(\.rawValue))

    static let report = Command(
        "report", "print a finance report", positionals: [reportName],
        options: [reportBatch, reportAsOf, format],
        discussion: "Reports: \(ReportName.allCases.map(\.rawValue).joined(separator: ", "))."
    ) { invocation in
        let typed = try invocation.arguments.required(reportName)
        guard let name = ReportName(argument: typed) else {
            throw unknownReport(typed)
        }
        let configuration = try invocation.configuration()
        var query = ReportQuery(name)
        query.asOf = try invocation.arguments.instant(reportAsOf)
        if query.asOf != nil, !name.hasPast { throw ReportError.hasNoPast(name) }
        if query.asOf == nil, configuration.clock != nil {
            query.judgedAt = try await invocation.now(configuration).milliseconds
        }
        let chosen = invocation.arguments[format].flatMap(ReportFormat.init(rawValue:))
        // A reader of reports may read schema report alone, so the schema version is not asked for.
        return try await invocation.withUncheckedPool(
            configuration, name: "repricer report", size: 1
        ) { pool in
            let reports = ReportStore(pool: pool)
            if let batch = invocation.arguments[reportBatch] {
                query.batchID = try await reports.batchID(batch, of: name)
            }
            try await writeReport(
                query, format: chosen ?? (invocation.isJSON ? .json : .table), from: reports
            ) { try invocation.print($0) }
            return .done
        }
    }

    private static func unknownReport(_ typed: String) -> UsageError {
        let names = ReportName.allCases.map(\.rawValue)
        let hint = nearest(to: typed, among: names).map { "; did you mean \(quoted($0))?" }
        return UsageError(
            "unknown report \(quoted(typed))"
                + (hint ?? "; it is one of \(names.joined(separator: ", "))"))
    }
}

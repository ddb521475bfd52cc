import Reports
import ServiceKit

extension Commands {
    private static let reportName = Positional(
        "NAME", "the report; needed unless --describe is given", isRequired: false, noun: .reports)
    private static let reportBatch = ValueOption(
        "batch", "B", "only this batch, by its name, its id or the beginning of its id",
        noun: .batches)
    private static let reportAsOf = ValueOption(
        "as-of", "INSTANT", "what was known at this instant, late news left out")
    private static let format = ValueOption(
        "format", "FORMAT", "how to write it; table when left out",
        choices: ReportFormat.allCases.map(\.rawValue), short: "o")

    private static let reportingCurrency = ValueOption(
        "reporting-currency", "CODE",
        "of revenue_bridge_total: convert to this one; USD when left out")
    private static let describe = Flag(
        "describe", "print what the report, or every report, and its columns say")

    static let report = Command(
        "report", "print a finance report", positionals: [reportName],
        options: [reportBatch, reportAsOf, format, reportingCurrency, describe],
        discussion: "Reports: \(ReportName.allCases.map(\.rawValue).joined(separator: ", "))."
    ) { invocation in
        let configuration = try invocation.configuration()
        let name = try chosenReport(invocation.arguments)
        if invocation.arguments[describe] {
            try refuseBesideDescribe(invocation.arguments)
            return try await printDictionary(of: name, configuration, invocation)
        }
        guard let name else { throw UsageError("name a report, or give --describe") }
        var query = ReportQuery(name)
        query.reportingCurrency = try reportingCurrency(of: name, invocation.arguments)
        query.asOf = try invocation.arguments.instant(reportAsOf)
        query.asOfMicroseconds =
            invocation.arguments[reportAsOf].map(RFC3339.microseconds(beyondMillisecondsOf:)) ?? 0
        if query.asOf != nil, !name.hasPast { throw ReportError.hasNoPast(name) }
        if query.asOf == nil, configuration.clock != nil {
            query.judgedAt = try await invocation.now(configuration).milliseconds
        }
        let chosen = invocation.arguments[format].flatMap(ReportFormat.init(rawValue:))
        let written = chosen ?? (invocation.isJSON ? .json : .table)
        // A reader of reports may read only schema `report`, so the app is checked, but not the schema version.
        return try await invocation.withReportPool(
            configuration, name: "repricer report"
        ) { pool in
            let reports = ReportStore(pool: pool)
            if let batch = invocation.arguments[reportBatch] {
                query.batchID = try await reports.batchID(batch, of: name)
            }
            try await refuseEndless(query, written, reports)
            let told = "report \(name.rawValue)"
            invocation.waiting.tell(told)
            try await writeReport(
                query, format: written, from: reports,
                reporting: { rows in
                    invocation.waiting.tell("\(told), \(counted(rows, "row")) read")
                }
            ) { piece in
                // CSV and JSON come in pieces and are for programs, while a pager needs the whole text.
                let isInPieces = written == .csv || written == .json
                try isInPieces ? invocation.print(piece) : invocation.page(piece)
            }
            return .done
        }
    }

    /// More rows are not shown as a table: the column widths are known only at the end, and nobody reads that many.
    private static let tableRowsMax: Int64 = 200_000

    /// Refuses a table of more rows before they are read, and suggests a batch or CSV.
    private static func refuseEndless(
        _ query: ReportQuery, _ written: ReportFormat, _ reports: ReportStore
    ) async throws {
        switch written {
        case .csv, .json: return
        case .table, .html: break
        }
        guard query.name == .priceChange else { return }
        let rows = try await reports.rows(ofBatch: query.batchID)
        guard rows > tableRowsMax else { return }
        let isOfAll = query.batchID == nil
        throw CommandFailure(
            .usage,
            "\(isOfAll ? "all batches together have" : "the batch has") \(counted(rows)) rows, too many for "
                + "\(written == .html ? "a page" : "a table"); \(isOfAll ? "choose one with --batch, or " : "")"
                + "write them as they are read with --format csv")
    }

    /// `--describe` does not depend on rows, so an option that selects rows is a mistake.
    private static func refuseBesideDescribe(_ arguments: ParsedArguments) throws(UsageError) {
        let others = [reportBatch, reportAsOf, reportingCurrency].filter { arguments[$0] != nil }
            .map(\.name)
        let written = arguments[format].flatMap {
            ["csv", "html"].contains($0) ? format.name : nil
        }
        guard let other = others.first ?? written else { return }
        throw UsageError(
            "--describe tells what the columns say, and takes no --\(other); leave one of them out")
    }

    private static func chosenReport(
        _ arguments: ParsedArguments
    ) throws(UsageError) -> ReportName? {
        guard let typed = arguments[reportName] else { return nil }
        guard let name = ReportName(argument: typed) else { throw unknownReport(typed) }
        return name
    }

    private static func reportingCurrency(
        of name: ReportName, _ arguments: ParsedArguments
    ) throws(UsageError) -> String? {
        guard let code = arguments[reportingCurrency] else { return nil }
        guard name == .revenueBridgeTotal else {
            throw UsageError("--reporting-currency is for report revenue_bridge_total alone")
        }
        guard code.utf8.count == 3, code.utf8.allSatisfy({ (65...90).contains($0) }) else {
            throw UsageError(
                "--reporting-currency: \(quoted(code)) is no currency; write USD or EUR")
        }
        return code
    }

    private static func unknownReport(_ typed: String) -> UsageError {
        let names = ReportName.allCases.map(\.rawValue)
        let hint = nearest(to: typed, among: names).map { "; did you mean \(quoted($0))?" }
        return UsageError(
            "unknown report \(quoted(typed))"
                + (hint ?? "; it is one of \(names.joined(separator: ", "))"))
    }
}

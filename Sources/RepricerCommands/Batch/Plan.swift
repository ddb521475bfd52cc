import Batches
import Pricing

extension Commands {
    static let batchFile = Positional("FILE", "the batch, CSV or NDJSON; - is standard input")
    static let asOf = ValueOption(
        "as-of", "INSTANT", "judge at this instant instead of now, as 2026-12-01T00:00:00Z")
    private static let rowsFile = ValueOption(
        "rows", "OUT",
        "write a JSON object a row to OUT, CSV where it ends in .csv; - is standard output")
    static let rejectsFile = ValueOption(
        "rejects", "OUT", "write refused rows to OUT as CSV, to mend and submit again")
    static let summaryCurrency = ValueOption(
        "reporting-currency", "CODE", "sum all money in this currency too, instead of USD")
    static let details = Flag("details", "every list as a whole, after the summary")

    static let plan = Command(
        "plan", "forecast a batch: what can go, who must consent, when it takes effect",
        positionals: [batchFile],
        options: [asOf, rowsFile, rejectsFile, summaryCurrency, details] + BatchTermOptions.all,
        discussion: """
            Writes nothing to the database and calls nobody. Exits 3 when a row is refused. The plan hash is the \
            same for the same rows, facts and rules; `submit --plan-hash` stores only that plan, and with the file \
            of --rows says what has changed since. Where standard output carries rows, the summary goes to \
            standard error, with --json as one line of JSON.
            """ + " " + BatchTermOptions.discussion
    ) { invocation in
        let configuration = try invocation.configuration()
        let file = try invocation.arguments.required(batchFile)
        let known = try invocation.known(asOf)
        let asOf = try await invocation.instant(asOf, configuration)
        let terms = try BatchTermOptions.terms(invocation.arguments)
        let currency = try invocation.arguments.reportingCurrency()
        let summary = try await invocation.withPool(configuration) { pool in
            let configuration = try await configuration.completed(by: pool)
            let environment = try configuration.knownEnvironment()
            let rate = try configuration.required(configuration.changePriceRate, .changePriceRate)
            let session = try await invocation.telling("reading the batch") {
                try await PlanSession(
                    path: file, asOf: asOf, knownAt: known, environment: environment, terms: terms,
                    pool: pool)
            }
            let output = try PlanOutput(
                .init(
                    rows: invocation.arguments[rowsFile],
                    rejects: invocation.arguments[rejectsFile]), of: session,
                dependencies: invocation.dependencies, isQuiet: invocation.isQuiet)
            try await session.plan(into: output)
            let others = try await pool.withTransaction {
                try OpenCallQueries.open(of: nil, now: session.asOf.milliseconds, on: $0).others
            }
            return PlanSummary(
                session, try await output.finish(), rate: rate, besides: others,
                reportingCurrency: currency)
        }
        let withDetails = invocation.arguments[details]
        if [rowsFile, rejectsFile].contains(where: { invocation.arguments[$0] == "-" }) {
            invocation.printAside(
                json: summary.json,
                summary.text(
                    isTerminal: invocation.dependencies.isMessagesTerminal,
                    withDetails: withDetails, rows: nil))
        } else {
            try invocation.print(
                json: summary.json,
                summary.text(
                    isTerminal: invocation.dependencies.isOutputTerminal,
                    withDetails: withDetails, rows: invocation.screenRows))
        }
        suggestAfterPlan(summary, file, invocation)
        return summary.refusedCount == 0 ? .done : .inputRejected
    }
}

extension Commands {
    private static func suggestAfterPlan(
        _ summary: PlanSummary, _ file: String, _ invocation: Invocation
    ) {
        // They are not in the plan's hash, so a submission without them would be accepted without a warning.
        let terms = BatchTermOptions.all.compactMap { $0 as? ValueOption }.compactMap { option in
            invocation.arguments[option].map { " --\(option.name) \(ShellWord.quoted($0))" }
        }.joined()
        // Standard input cannot be read again, so the suggestion names FILE.
        let file = file == "-" ? "FILE" : ShellWord.quoted(file)
        if summary.figures.codes[.unknownSubscription, default: 0] > 0 {
            // A pricing analyst has no App Store key.
            let hasKey = (try? invocation.configuration().keyFile) != nil
            hasKey
                ? invocation.suggest("sync \(file)")
                : invocation.suggest("sync \(file)", by: "with the settings of the service")
        }
        if summary.refusedCount > 0, invocation.arguments[rejectsFile] == nil {
            invocation.suggest("plan \(file) --rejects mend.csv\(terms)")
        }
        guard summary.refusedCount < summary.forecast.rowCount else { return }
        let valid = summary.refusedCount > 0 ? " --accept-valid" : ""
        invocation.suggest("submit \(file) --name NAME --plan-hash \(summary.hash)\(terms)\(valid)")
    }
}

extension Invocation {
    /// The instant to judge at: `option`, or now by the product's clock.
    func instant(
        _ option: ValueOption, _ configuration: Configuration
    ) async throws -> Instant {
        if let milliseconds = try arguments.instant(option) {
            return Instant(milliseconds: milliseconds)
        }
        return try await now(configuration)
    }

    /// The instant by which rules must have been recorded: `option`, or nil for all rules. It does not default to this
    /// machine's clock, which may be behind the clock that recorded an import a moment ago.
    func known(_ option: ValueOption) throws -> Instant? {
        try arguments.instant(option).map(Instant.init(milliseconds:))
    }
}

extension ParsedArguments {
    /// The reporting currency: USD where none is given.
    func reportingCurrency() throws(UsageError) -> String {
        guard let code = self[Commands.summaryCurrency] else { return "USD" }
        guard code.utf8.count == 3, code.utf8.allSatisfy({ (65...90).contains($0) }) else {
            throw UsageError(
                "--reporting-currency cannot be \(quoted(code)); write an ISO 4217 code, as EUR")
        }
        return code
    }
}

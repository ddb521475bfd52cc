import Batches
import Pricing

extension Commands {
    static let batchFile = Positional("FILE", "the batch, CSV or NDJSON; - is standard input")
    static let asOf = ValueOption(
        "as-of", "INSTANT", "judge at this instant instead of now, as 2026-12-01T00:00:00Z")
    private static let rowsFile = ValueOption(
        "rows", "OUT", "write one JSON object a row to OUT; - is standard output")
    static let rejectsFile = ValueOption(
        "rejects", "OUT", "write refused rows to OUT as CSV, to mend and submit again")

    static let plan = Command(
        "plan", "forecast a batch: what can go, who must consent, when it takes effect",
        positionals: [batchFile], options: [asOf, rowsFile, rejectsFile] + BatchTermOptions.all,
        discussion: """
            Writes nothing to the database and calls nobody. Exits 3 when a row is refused. The plan hash is the \
            same for the same rows, facts and rules; `submit --plan-hash` stores only that plan, and with the file \
            of --rows says what has changed since.
            """ + " " + BatchTermOptions.discussion
    ) { invocation in
        let configuration = try invocation.configuration()
        let file = try invocation.arguments.required(batchFile)
        let asOf = try await invocation.instant(asOf, configuration)
        let environment = try configuration.required(configuration.environment, .environment)
        let terms = try BatchTermOptions.terms(invocation.arguments)
        let rate = try configuration.required(configuration.changePriceRate, .changePriceRate)
        let summary = try await invocation.withPool(configuration) { pool in
            let session = try await PlanSession(
                path: file, asOf: asOf, environment: environment, terms: terms, pool: pool)
            let output = try PlanOutput(
                .init(
                    rows: invocation.arguments[rowsFile],
                    rejects: invocation.arguments[rejectsFile]), of: session,
                dependencies: invocation.dependencies)
            try await session.plan(into: output)
            let others = try await pool.withTransaction {
                try OpenCallQueries.open(of: nil, on: $0).others
            }
            return PlanSummary(session, try await output.finish(), rate: rate, besides: others)
        }
        let rowsAreOnOutput = invocation.arguments[rowsFile] == "-"
        if rowsAreOnOutput {
            // Standard output carries rows only: a program reads it.
            let isTerminal = invocation.dependencies.isMessagesTerminal
            if !invocation.isQuiet {
                invocation.dependencies.sayPlainly(summary.text(isTerminal: isTerminal))
            }
        } else {
            try invocation.print(
                json: summary.json,
                summary.text(isTerminal: invocation.dependencies.isOutputTerminal))
        }
        return summary.refusedCount == 0 ? .done : .inputRejected
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

    func now(_ configuration: Configuration) async throws -> Instant {
        let clock = try await configuration.makeClock(dependencies: dependencies)
        return Instant(milliseconds: clock.nowMilliseconds())
    }
}

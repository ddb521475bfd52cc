import Orchestrator
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
        positionals: [batchFile], options: [asOf, rowsFile, rejectsFile],
        discussion: """
            Writes nothing to the database and calls nobody. Exits 3 when a row is refused. The plan hash is the \
            same for the same rows, facts and rules; `submit --plan-hash` stores only that plan.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let file = try invocation.arguments.required(batchFile)
        let asOf = try await invocation.instant(asOf, configuration)
        let environment = try configuration.required(configuration.environment, .environment)
        let batch = try await invocation.withPool(configuration) { pool in
            let rules = try await pool.rules(at: asOf)
            let content = try BatchFileContent(path: file, rules: rules.inForce(at: asOf))
            return try await PlannedBatch.plan(
                content, asOf: asOf, rules: rules, environment: environment, pool: pool)
        }
        batch.sayFaults(invocation.world)
        try writeFiles(batch, invocation)
        let summary = PlanSummary(batch)
        let rowsAreOnOutput = invocation.arguments[rowsFile] == "-"
        if rowsAreOnOutput {
            // Standard output carries rows only: a program reads it.
            if !invocation.isQuiet { invocation.world.sayPlainly(summary.text) }
        } else if invocation.isJSON {
            try invocation.print(summary.json)
        } else {
            try invocation.print(summary.text)
        }
        return batch.refused.isEmpty ? .done : .inputRejected
    }

    private static func writeFiles(_ batch: PlannedBatch, _ invocation: Invocation) throws {
        if let path = invocation.arguments[rowsFile] {
            let output = try OutputFile(path: path, world: invocation.world)
            for row in batch.rows { try output.write(row.json + "\n") }
            try output.flush()
        }
        try writeRejects(batch, invocation)
    }

    /// The refused rows in the order of the file, under the file's own columns.
    static func writeRejects(_ batch: PlannedBatch, _ invocation: Invocation) throws {
        guard let path = invocation.arguments[rejectsFile] else { return }
        let output = try OutputFile(path: path, world: invocation.world)
        let writer = RejectsWriter(
            columns: batch.content.columns, priceUnit: batch.content.priceUnit)
        var rows: [Int: BatchRow] = [:]
        for row in batch.content.rows { rows[row.line] = row }
        var spoiled: [Int: SpoiledRow] = [:]
        for row in batch.content.spoiled { spoiled[row.line] = row }
        try output.write(writer.header)
        for refused in batch.refused {
            if let row = spoiled[refused.line] {
                try output.write(writer.line(row))
            } else if let row = rows[refused.line], let fault = refused.fault {
                try output.write(writer.line(row, fault))
            }
        }
        try output.flush()
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
        let clock = try await configuration.makeClock(world: world)
        return Instant(milliseconds: clock.nowMilliseconds())
    }
}

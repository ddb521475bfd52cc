import Batches
import Postgres
import Pricing
import Reports

extension Commands {
    private static let batchName = ValueOption(
        "name", "NAME", "what people will call the batch", isRequired: true)
    private static let planHash = ValueOption(
        "plan-hash", "H", "store only when the plan is still this one")
    private static let planRows = ValueOption(
        "plan-rows", "ROWS", "the file of plan --rows: says which rows differ from that plan")
    private static let acceptValid = Flag(
        "accept-valid", "store the rows that can go, although others are refused")

    static let submit = Command(
        "submit", "store a batch for approval and print its id", positionals: [batchFile],
        options: [batchName, planHash, planRows, acceptValid, rejectsFile]
            + BatchTermOptions.all + [BatchTermOptions.haltIf, BatchTermOptions.holdout],
        discussion: """
            All rows or none, unless --accept-valid. The same file again makes no new change and prints the id it \
            has; with other options, or the hash of another plan, it exits 5. A plan is stored nowhere: with --plan-hash alone a plan that has drifted is refused, with \
            --plan-rows its rows are compared too. Where standard output carries the rejects, the id goes to standard \
            error. You are the database user of REPRICER_DATABASE_URL; another one has to approve.
            """ + "\n" + BatchTermOptions.discussion + "\n" + BatchTermOptions.haltDiscussion + "\n"
                + BatchTermOptions.holdoutDiscussion
    ) { invocation in
        let configuration = try invocation.configuration()
        let file = try invocation.arguments.required(batchFile)
        let name = try BatchName.checked(invocation.arguments.required(batchName))
        try checkForm(invocation.arguments)
        let terms = try BatchTermOptions.terms(invocation.arguments)
        let now = try await invocation.now(configuration)
        return try await invocation.withPool(configuration) { pool in
            let configuration = try await configuration.completed(by: pool)
            let environment = try configuration.knownEnvironment()
            let rate = try configuration.required(configuration.changePriceRate, .changePriceRate)
            let session = try await invocation.telling("reading the batch") {
                try await PlanSession(
                    path: file, asOf: now, environment: environment, terms: terms, pool: pool)
            }
            // This comes before the plan, which would only report an open change for each row.
            let known = try await pool.withTransaction { connection in
                try BatchQueries.batchID(ofContent: session.outline.sha256, on: connection)
            }
            if let known {
                try await refuseOtherTerms(known, name, terms, pool, invocation)
                return try await told(known, nil, rate, now, pool, invocation)
            }
            let output = try PlanOutput(
                .init(
                    rejects: invocation.arguments[rejectsFile],
                    earlierRows: invocation.arguments[planRows]), of: session,
                dependencies: invocation.dependencies, isQuiet: invocation.isQuiet)
            let outcome = try await Submission.store(
                name: name, contentSHA256: session.outline.sha256, asOf: now, terms: terms,
                storesRefused: invocation.arguments[acceptValid], pool: pool, reportingTo: output
            ) { sink in
                try await session.plan(into: sink)
                let finished = try await output.finish()
                try check(finished, session, invocation)
                let forecast = finished.forecast
                return (finished.hash, forecast.canGoCount, forecast.refusedCount)
            }
            if !outcome.isNew {
                try await refuseOtherTerms(outcome.batchID, name, terms, pool, invocation)
            }
            return try await told(
                outcome.batchID, outcome.isNew ? await output.finished : nil, rate, now, pool,
                invocation)
        }
    }

    /// The same file counts as the same batch only with the same terms. Otherwise a person could rely on a guard that
    /// was dropped.
    private static func refuseOtherTerms(
        _ batchID: String, _ name: String, _ terms: BatchTerms, _ pool: PostgresPool,
        _ invocation: Invocation
    ) async throws {
        let hash = invocation.arguments[planHash]?.lowercased()
        let others = try await pool.withTransaction { connection in
            try BatchQueries.differences(
                of: batchID, name: name, terms: terms, planHash: hash,
                takesRefused: invocation.arguments[acceptValid], on: connection)
        }
        guard !others.isEmpty else { return }
        let said = others.map { "\($0.option) (\(harmless($0.stored)))" }
        let isFinished = try await pool.withTransaction {
            try BatchQueries.isFinished(batchID, on: $0)
        }
        throw CommandFailure(
            .conflict,
            "nothing stored: this file is batch \(batchID) already, with other "
                + "\(said.joined(separator: ", ")); "
                + (isFinished
                    ? "that batch is finished. \(anotherFile)"
                    : "give the same ones, or abort that batch first"))
    }

    /// How the rows of a finished batch are submitted once more.
    private static let anotherFile =
        "A file that differs, if only in the order of its rows, is a batch of its own"

    /// A hash that was cut while copying would be refused as that of another plan, and only after all rows were judged.
    private static func checkForm(_ arguments: ParsedArguments) throws(UsageError) {
        guard let text = arguments[planHash] else { return }
        guard text.utf8.count == 64, text.allSatisfy({ $0.isASCII && $0.isHexDigit }) else {
            throw UsageError(
                "--plan-hash cannot be \(quoted(text)); give the 64 digits that `repricer plan` printed"
            )
        }
    }

    /// Checks whether the batch may be stored. If it throws, the transaction is rolled back.
    private static func check(
        _ finished: PlanOutput.Finished, _ session: PlanSession, _ invocation: Invocation
    ) throws {
        try checkHash(finished, session, invocation)
        let (rows, refused) = (finished.forecast.rowCount, finished.forecast.refusedCount)
        guard refused > 0 else { return }
        guard finished.forecast.canGoCount > 0 else {
            throw CommandFailure(
                .inputRejected,
                rows == 1
                    ? "nothing stored: the only row cannot go"
                    : "nothing stored: none of the \(rows) rows can go")
        }
        guard invocation.arguments[acceptValid] else {
            throw CommandFailure(
                .inputRejected,
                "nothing stored: \(refused) of \(counted(rows, "row")) \(refused == 1 ? "is" : "are") refused; mend \(refused == 1 ? "it" : "them"), or "
                    + "give --accept-valid to store the others")
        }
    }

    private static func checkHash(
        _ finished: PlanOutput.Finished, _ session: PlanSession, _ invocation: Invocation
    ) throws {
        let expected = invocation.arguments[planHash]?.lowercased() ?? finished.hash
        let hasDrifted = finished.driftCount.map { $0 > 0 } ?? false
        guard expected != finished.hash || hasDrifted else { return }
        let lines = finished.drift.map { harmless("\(session.input.path):\($0)") + "\n" }
        invocation.dependencies.sayPlainly(lines.joined())
        let what =
            switch finished.driftCount {
            case nil: "; give --plan-rows with the file of plan --rows to see which rows differ"
            case 0: "; no row differs, so it is the rules or the environment"
            case let count?: "; \(counted(count, "row")) \(count == 1 ? "differs" : "differ")"
            }
        throw CommandFailure(
            .conflict,
            "nothing stored: the plan has changed since: it is \(finished.hash) now\(what); run "
                + "`repricer plan` and look again")
    }

    /// `finished` is nil where the batch was stored before.
    private static func told(
        _ batchID: String, _ finished: PlanOutput.Finished?, _ rate: Configuration.CallRate,
        _ now: Instant, _ pool: PostgresPool, _ invocation: Invocation
    ) async throws -> ExitCode {
        let forecast = finished?.forecast
        let late = try await invocation.warnOfLateRows(
            of: batchID, planned: forecast?.calls, rate, now: now.milliseconds, pool)
        let heldOut = try await pool.withTransaction {
            try ShowQueries.terms(of: batchID, on: $0).heldOut
        }
        let facts: JSONValue = [
            "batch_id": batchID, "is_new": finished != nil, "rows": forecast?.canGoCount,
            "refused": forecast?.refusedCount, "plan_hash": finished?.hash, "late_rows": late,
            "held_out": heldOut,
        ]
        let text = invocation.isJSON ? facts.text : batchID
        if invocation.arguments[rejectsFile] == "-" {
            // Standard output has only the rejects here. The id cannot be requested again, so `--quiet` does not
            // suppress it.
            invocation.dependencies.sayPlainly(text + "\n")
        } else {
            try invocation.print(text + "\n")
        }
        let held = heldOut > 0 ? ", \(counted(heldOut)) of them held out" : ""
        if let forecast {
            let waiting = forecast.canGoCount == 1 ? "it waits" : "they wait"
            invocation.note(
                "stored \(counted(forecast.canGoCount, "change"))\(held); \(waiting) for another user's approval"
            )
            invocation.suggest("show \(try await BatchFinder.word(for: batchID, pool: pool))")
        } else {
            let plan =
                invocation.arguments[planRows] == nil ? "" : ", and --plan-rows was not compared"
            let isFinished = try await pool.withTransaction {
                try BatchQueries.isFinished(batchID, on: $0)
            }
            let ended = isFinished ? ". That batch is finished. \(anotherFile)" : ""
            invocation.note("this file is a batch already: no new change\(plan)\(ended)")
        }
        return .done
    }
}

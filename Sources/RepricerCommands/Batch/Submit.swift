import Batches
import Postgres
import Pricing

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
            + BatchTermOptions.all + [BatchTermOptions.haltIf],
        discussion: """
            All rows or none, unless --accept-valid. The same file again makes no new change and prints the id it \
            has. A plan is stored nowhere: with --plan-hash alone a plan that has drifted is refused, with \
            --plan-rows its rows are compared too. You are the database user of REPRICER_DATABASE_URL; another one \
            has to approve.
            """ + " " + BatchTermOptions.discussion + " " + BatchTermOptions.haltDiscussion
    ) { invocation in
        let configuration = try invocation.configuration()
        let file = try invocation.arguments.required(batchFile)
        let name = try invocation.arguments.required(batchName)
        let terms = try BatchTermOptions.terms(invocation.arguments)
        let now = try await invocation.now(configuration)
        let environment = try configuration.required(configuration.environment, .environment)
        return try await invocation.withPool(configuration) { pool in
            let session = try await PlanSession(
                path: file, asOf: now, environment: environment, terms: terms, pool: pool)
            // Asked before the plan: its rows would only be told that they have an open change.
            if let known = try await knownBatch(session.outline.sha256, pool: pool) {
                return try told(.sameAsBefore(batchID: known), nil, invocation)
            }
            let forecast = Kept()
            let outcome = try await Submission.store(
                name: name, contentSHA256: session.outline.sha256, asOf: now, terms: terms,
                pool: pool
            ) { writer in
                let finished = try await plan(session, writer, invocation)
                try check(finished, session, invocation)
                await forecast.keep(finished)
                return Submission.Totals(
                    planHash: finished.hash, changes: finished.forecast.canGoCount,
                    rejects: finished.forecast.refusedCount)
            }
            return try told(outcome, await forecast.finished, invocation)
        }
    }

    private actor Kept {
        private(set) var finished: PlanOutput.Finished?
        func keep(_ finished: PlanOutput.Finished) { self.finished = finished }
    }

    private static func knownBatch(_ sha256: String, pool: PostgresPool) async throws -> String? {
        try await pool.withTransaction { connection in
            try BatchQueries.batchID(ofContent: sha256, on: connection)
        }
    }

    private static func plan(
        _ session: PlanSession, _ writer: SubmissionWriter, _ invocation: Invocation
    ) async throws -> PlanOutput.Finished {
        let output = try PlanOutput(
            PlanOutput.Wishes(
                batch: session.input.path, shownFile: session.shownFile,
                rejects: invocation.arguments[rejectsFile],
                earlierRows: invocation.arguments[planRows]),
            outline: session.outline, hash: session.emptyHash, terms: session.terms,
            world: invocation.world, submission: writer,
            storesRefused: invocation.arguments[acceptValid])
        return try await session.plan(into: output)
    }

    /// Whether the batch may be stored; what it throws takes everything back.
    private static func check(
        _ finished: PlanOutput.Finished, _ session: PlanSession, _ invocation: Invocation
    ) throws {
        try checkHash(finished, session, invocation)
        let (rows, refused) = (finished.forecast.rowCount, finished.forecast.refusedCount)
        guard refused > 0 else { return }
        guard finished.forecast.canGoCount > 0 else {
            throw CommandFailure(
                .inputRejected, "nothing stored: none of the \(rows) rows can go")
        }
        guard invocation.arguments[acceptValid] else {
            throw CommandFailure(
                .inputRejected,
                "nothing stored: \(refused) of \(rows) rows are refused; mend them, or "
                    + "give --accept-valid to store the others")
        }
    }

    private static func checkHash(
        _ finished: PlanOutput.Finished, _ session: PlanSession, _ invocation: Invocation
    ) throws {
        let expected = invocation.arguments[planHash]?.lowercased() ?? finished.hash
        let hasDrifted = finished.driftCount.map { $0 > 0 } ?? false
        guard expected != finished.hash || hasDrifted else { return }
        let lines = finished.drift.map { harmless("\(session.shownFile):\($0)") + "\n" }
        invocation.world.sayPlainly(lines.joined())
        let what =
            switch finished.driftCount {
            case nil: "; give --plan-rows with the file of plan --rows to see which rows differ"
            case 0: "; no row differs, so it is the rules or the environment"
            case let count?: "; \(count) rows differ"
            }
        throw CommandFailure(
            .conflict,
            "nothing stored: the plan has changed since: it is \(finished.hash) now\(what); run "
                + "`repricer plan` and look again")
    }

    private static func told(
        _ outcome: Submission.Outcome, _ finished: PlanOutput.Finished?, _ invocation: Invocation
    ) throws -> ExitCode {
        let (batchID, isNew) =
            switch outcome {
            case .stored(let id): (id, true)
            case .sameAsBefore(let id): (id, false)
            }
        let forecast = finished?.forecast
        if invocation.isJSON {
            try invocation.print(
                .object([
                    "batch_id": .string(batchID), "is_new": .bool(isNew),
                    "rows": .number((forecast?.canGoCount).map(Int64.init)),
                    "refused": .number((forecast?.refusedCount).map(Int64.init)),
                    "plan_hash": .text(finished?.hash),
                ]))
        } else {
            try invocation.print(batchID + "\n")
        }
        if isNew {
            invocation.note(
                "stored \(forecast?.canGoCount ?? 0) changes; they wait for another user's approval"
            )
        } else {
            invocation.note("this file is a batch already: no new change")
        }
        return .done
    }
}

import Ledger
import Orchestrator
import Postgres
import Pricing

extension Commands {
    private static let batchName = ValueOption(
        "name", "NAME", "what people will call the batch", isRequired: true)
    private static let planHash = ValueOption(
        "plan-hash", "H", "store only when the plan is still this one")
    private static let acceptValid = Flag(
        "accept-valid", "store the rows that can go, although others are refused")

    static let submit = Command(
        "submit", "store a batch for approval and print its id", positionals: [batchFile],
        options: [batchName, planHash, acceptValid, rejectsFile],
        discussion: """
            All rows or none, unless --accept-valid. The same file again makes no new change and prints the id it \
            has. You are the database user of REPRICER_DATABASE_URL; another one has to approve.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let file = try invocation.arguments.required(batchFile)
        let name = try invocation.arguments.required(batchName)
        let now = try await invocation.now(configuration)
        let environment = try configuration.required(configuration.environment, .environment)
        return try await invocation.withPool(configuration) { pool in
            let rules = try await pool.rules(at: now)
            let content = try BatchFileContent(path: file, rules: rules.inForce(at: now))
            // Asked before the plan: its rows would only be told that they have an open change.
            if let known = try await knownBatch(content, pool: pool) {
                return try told(.sameAsBefore(batchID: known), nil, invocation)
            }
            let batch = try await PlannedBatch.plan(
                content, asOf: now, rules: rules, environment: environment, pool: pool)
            try check(batch, invocation)
            let outcome = try await Submission.store(
                batch.rows, name: name, contentSHA256: content.sha256, planHash: batch.hash,
                asOf: now, pool: pool)
            return try told(outcome, batch, invocation)
        }
    }

    private static func knownBatch(
        _ content: BatchFileContent, pool: PostgresPool
    ) async throws -> String? {
        try await pool.withTransaction { connection in
            try BatchQueries.batchID(ofContent: content.sha256, on: connection)
        }
    }

    private static func check(_ batch: PlannedBatch, _ invocation: Invocation) throws {
        if let expected = invocation.arguments[planHash], expected.lowercased() != batch.hash {
            throw CommandFailure(
                .conflict,
                "the plan has changed since: it is \(batch.hash) now; run `repricer plan` and look "
                    + "again")
        }
        guard !batch.refused.isEmpty else { return }
        batch.sayFaults(invocation.world)
        try writeRejects(batch, invocation)
        let count = batch.refused.count
        guard batch.canGoCount > 0 else {
            throw CommandFailure(
                .inputRejected, "nothing stored: none of the \(batch.rows.count) rows can go")
        }
        guard invocation.arguments[acceptValid] else {
            throw CommandFailure(
                .inputRejected,
                "nothing stored: \(count) of \(batch.rows.count) rows are refused; mend them, or "
                    + "give --accept-valid to store the others")
        }
    }

    private static func told(
        _ outcome: Submission.Outcome, _ batch: PlannedBatch?, _ invocation: Invocation
    ) throws -> ExitCode {
        let (batchID, isNew) =
            switch outcome {
            case .stored(let id): (id, true)
            case .sameAsBefore(let id): (id, false)
            }
        if invocation.isJSON {
            try invocation.print(
                .object([
                    "batch_id": .string(batchID), "is_new": .bool(isNew),
                    "rows": .number((batch?.canGoCount).map(Int64.init)),
                    "refused": .number((batch?.refused.count).map(Int64.init)),
                    "plan_hash": .text(batch?.hash),
                ]))
        } else {
            try invocation.print(batchID + "\n")
        }
        if isNew {
            invocation.note(
                "stored \(batch?.canGoCount ?? 0) changes; they wait for another user's approval")
        } else {
            invocation.note("this file is a batch already: no new change")
        }
        return .done
    }
}

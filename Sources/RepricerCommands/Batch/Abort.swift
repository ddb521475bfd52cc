import Batches
import Extensions
import Postgres
import Pricing

extension Commands {
    private static let reason = ValueOption("reason", "TEXT", "why; kept with the batch")
    private static let requiredReason = ValueOption(
        "reason", "TEXT", "why; kept with the batch", isRequired: true)

    static let abort = Command(
        "abort", "withdraw what has not been sent", positionals: [batch], options: [reason],
        discussion: """
            Changes that the App Store has, or may have, cannot be called back; they are counted by the UTC day on \
            which Apple tells the customer. Their consent and renewals go on being followed.
            """
    ) { try await withdraw($0, newState: "aborted") }

    static let reject = Command(
        "reject", "refuse a batch that waits for approval", positionals: [batch],
        options: [requiredReason], discussion: "None of its changes will be sent."
    ) { try await withdraw($0, newState: "rejected") }

    /// Withdraws the unsent changes of a batch, and tells what is past recall.
    private static func withdraw(
        _ invocation: Invocation, newState: String
    ) async throws -> ExitCode {
        let name = try invocation.arguments.required(batch)
        let why = invocation.arguments[reason]
        return try await invocation.withDatabase { pool, now in
            if let id = try await massExtension(name, pool: pool)?.extensionID {
                try await pool.withTransaction {
                    try ExtensionQueries.reject(id, reason: why, at: now, on: $0)
                }
                try invocation.print(
                    json: ["extension_id": id, "state": "rejected"],
                    "rejected \(id): nothing was extended\n")
                return .done
            }
            let batch = try await BatchFinder.find(name, pool: pool)
            let (count, states, told) = try await pool.withTransaction { connection in
                let count = try BatchQueries.withdraw(
                    batch.batchID, newState: newState, reason: why, at: now, on: connection)
                let states = try StatusQueries.tally(
                    batchID: batch.batchID, now: now, on: connection
                ).states
                let past = states.filter { ChangeState(rawValue: $0.key)?.isWithApple ?? true }
                let told = try BatchQueries.toldOn(
                    batchID: batch.batchID, states: past.keys.sorted(), on: connection)
                return (count, past, told)
            }
            let lines = told.map { line in
                let day = line.day.map { "the customer is told on \($0)" } ?? "nobody is told"
                return "past recall: \(line.rows) \(line.state), \(day)\n"
            }
            try invocation.print(
                json: [
                    "batch_id": batch.batchID, "state": newState, "withdrawn": count,
                    "past_recall": states,
                    "communicated_on": told.json([
                        .key("day") { $0.day }, .key("state") { $0.state },
                        .key("rows") { $0.rows },
                    ]),
                ],
                "\(newState) \(harmless(batch.name)): \(count) changes withdrawn\n"
                    + lines.joined())
            return .done
        }
    }
}

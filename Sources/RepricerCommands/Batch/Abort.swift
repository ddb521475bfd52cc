import Ledger
import Pricing

extension Commands {
    private static let reason = ValueOption("reason", "TEXT", "why; kept with the batch")

    static let abort = Command(
        "abort", "withdraw what has not been sent", positionals: [batch], options: [reason],
        discussion: """
            Changes that the App Store has, or may have, cannot be called back; they are counted. Their consent and \
            renewals go on being followed.
            """
    ) { invocation in
        try await withdraw(
            invocation, newState: "aborted", reason: invocation.arguments[reason])
    }

    /// Withdraws the unsent changes of a batch, and tells what is past recall.
    static func withdraw(
        _ invocation: Invocation, newState: String, reason: String?
    ) async throws -> ExitCode {
        let configuration = try invocation.configuration()
        let now = try await invocation.now(configuration)
        let name = try invocation.arguments.required(batch)
        return try await invocation.withPool(configuration) { pool in
            let batch = try await BatchFinder.find(name, pool: pool)
            let (count, states) = try await pool.withTransaction { connection in
                let count = try BatchQueries.withdraw(
                    batch.batchID, newState: newState, reason: reason, at: now.milliseconds,
                    on: connection)
                return (
                    count, try BatchQueries.stateCounts(batchID: batch.batchID, on: connection)
                )
            }
            let past = states.filter { ChangeState(rawValue: $0.key)?.isWithApple ?? true }
            if invocation.isJSON {
                try invocation.print(
                    .object([
                        "batch_id": .string(batch.batchID), "state": .string(newState),
                        "withdrawn": .integer(count), "past_recall": .counts(past),
                    ]))
            } else {
                try invocation.print(
                    "\(newState) \(harmless(batch.name)): \(count) changes withdrawn\n")
                for (state, rows) in past.sorted(by: { $0.key < $1.key }) {
                    try invocation.print("past recall: \(rows) \(state)\n")
                }
            }
            return .done
        }
    }
}

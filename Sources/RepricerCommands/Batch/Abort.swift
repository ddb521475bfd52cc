import Batches
import Pricing

extension Commands {
    private static let reason = ValueOption("reason", "TEXT", "why; kept with the batch")

    static let abort = Command(
        "abort", "withdraw what has not been sent", positionals: [batch], options: [reason],
        discussion: """
            Changes that the App Store has, or may have, cannot be called back; they are counted by the UTC day on \
            which Apple tells the customer. Their consent and renewals go on being followed.
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
            if let mass = try await ExtensionDecision.find(name, pool: pool) {
                return try await ExtensionDecision.reject(
                    mass, reason: reason, invocation, now: now, pool: pool)
            }
            let batch = try await BatchFinder.find(name, pool: pool)
            let (count, states, told) = try await pool.withTransaction { connection in
                let count = try BatchQueries.withdraw(
                    batch.batchID, newState: newState, reason: reason, at: now.milliseconds,
                    on: connection)
                let states = try BatchQueries.stateCounts(batchID: batch.batchID, on: connection)
                let past = states.filter { ChangeState(rawValue: $0.key)?.isWithApple ?? true }
                return (
                    count, past,
                    try BatchQueries.toldOn(
                        batchID: batch.batchID, states: past.keys.sorted(), on: connection)
                )
            }
            if invocation.isJSON {
                try invocation.print(
                    .object([
                        "batch_id": .string(batch.batchID), "state": .string(newState),
                        "withdrawn": .integer(count), "past_recall": .counts(states),
                        "communicated_on": .array(
                            told.map { line in
                                .object([
                                    "day": .text(line.day), "state": .string(line.state),
                                    "rows": .integer(line.rows),
                                ])
                            }),
                    ]))
            } else {
                try invocation.print(
                    "\(newState) \(harmless(batch.name)): \(count) changes withdrawn\n")
                for line in told {
                    let day = line.day.map { "the customer is told on \($0)" } ?? "nobody is told"
                    try invocation.print("past recall: \(line.rows) \(line.state), \(day)\n")
                }
            }
            return .done
        }
    }
}

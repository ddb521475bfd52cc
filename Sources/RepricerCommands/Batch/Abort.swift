import Batches
import Extensions
import Postgres
import Pricing
import Reports

extension Commands {
    private static let reason = ValueOption("reason", "TEXT", "why; kept with the batch")
    private static let requiredReason = ValueOption(
        "reason", "TEXT", "why; kept with the batch", isRequired: true)

    static let abort = Command(
        "abort", "withdraw what has not been sent", positionals: [batch], options: [reason],
        discussion: """
            Of the changes that the App Store has it counts those that `undo BATCH` can still take back, and until \
            when; then those that are past recall, by the UTC day on which Apple tells the customer. Their consent and \
            renewals go on being followed.
            """
    ) { try await withdraw($0, newState: "aborted") }

    static let reject = Command(
        "reject", "refuse a batch that waits for approval", positionals: [batch],
        options: [requiredReason], discussion: "None of its changes will be sent."
    ) { try await withdraw($0, newState: "rejected") }

    /// What to do about changes that a lost database may have called before they were withdrawn.
    static func doubt(_ rows: Int64) -> String {
        "the database was restored, or failed over with loss, and until its statuses are read nobody knows whether the "
            + "App Store has \(rows) of them; `repricer recover --lost-since TIME` adopts what it has, then `undo` can take "
            + "it back"
    }

    /// Withdraws the unsent changes of a batch, and prints which sent changes can still be undone and which cannot.
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
            let (count, recall, inDoubt) = try await invocation.telling(
                "withdrawing what was not sent"
            ) {
                let count = try await pool.withTransaction {
                    try BatchQueries.withdraw(
                        batch.batchID, newState: newState, reason: why, at: now, on: $0)
                }
                // In a spread database a transaction cannot read what a function of the owner has written in it.
                return try await pool.withTransaction { connection in
                    let scope = UndoQueries.Scope(batchID: batch.batchID)
                    return (
                        count,
                        Recall(
                            takeable: try UndoQueries.takeable(scope, at: now, on: connection),
                            beyond: try UndoQueries.beyond(scope, at: now, on: connection),
                            now: Instant(milliseconds: now)),
                        try UndoQueries.inDoubt(batch.batchID, on: connection)
                    )
                }
            }
            let word = try await BatchFinder.word(for: batch.batchID, pool: pool)
            let undo =
                recall.rows == 0
                ? ""
                : sentence(
                    "can be taken back: \(counted(recall.rows)) scheduled, with `repricer undo "
                        + "\(word)` \(recall.untilText)")
            try invocation.print(
                json: ["batch_id": batch.batchID, "state": newState, "withdrawn": count]
                    + (inDoubt > 0 ? ["in_doubt": inDoubt] : [:]) + recall.json,
                "\(newState) \(harmless(batch.name)): \(counted(count, "change")) withdrawn\n"
                    + (inDoubt > 0 ? sentence("in doubt: " + doubt(inDoubt)) : "") + undo
                    + recall.beyondText)
            if recall.rows > 0 { invocation.suggest("undo \(word) --dry-run") }
            return .done
        }
    }
}

import Batches

extension Commands {
    private static let pausedBatch = Positional(
        "BATCH", BatchFinder.meaning, isRequired: false, noun: .batches)
    private static let reason = ValueOption(
        "reason", "TEXT", "why; shown by status and kept in the audit trail")

    static let pause = Command(
        "pause", "send nothing more until resumed", positionals: [pausedBatch],
        options: [everything, reason],
        discussion: """
            Durable: it holds for every replica within a second, and over restarts. Calls in flight finish; \
            notifications are still taken in and statuses read. --all stops every call that changes anything.
            """
    ) { invocation in
        try await setPause(invocation, isPaused: true)
    }

    static let resume = Command(
        "resume", "go on sending", positionals: [pausedBatch], options: [everything, reason],
        discussion: """
            Of a batch also the storefronts that a code has halted; its parked rows are tried at once.
            """
    ) { invocation in
        try await setPause(invocation, isPaused: false)
    }

    private static func setPause(_ invocation: Invocation, isPaused: Bool) async throws -> ExitCode
    {
        let named = invocation.arguments[pausedBatch]
        guard (named != nil) != invocation.arguments[everything] else {
            throw UsageError("give either BATCH or --all")
        }
        return try await invocation.withDatabase { pool, now in
            let found = try await BatchFinder.find(named, pool: pool)
            let isNew = try await pool.withTransaction { connection in
                guard
                    try isPaused || ControlQueries.isHeldBack(found?.batchID, on: connection)
                else { return false }
                try ControlQueries.setPause(
                    found?.batchID, isPaused: isPaused, reason: invocation.arguments[reason],
                    at: now, on: connection)
                return true
            }
            let subject = found.map { harmless($0.name) } ?? "everything"
            let said =
                isPaused
                ? "paused \(subject)"
                : isNew ? "resumed \(subject)" : "\(subject) is not paused: nothing to resume"
            try invocation.print(
                json: ["batch_id": found?.batchID, "paused": isPaused, "changed": isNew],
                said + "\n")
            let id = found?.batchID
            invocation.suggest(
                isPaused ? "resume \(id ?? "--all")" : id.map { "status \($0)" } ?? "status")
            return .done
        }
    }
}

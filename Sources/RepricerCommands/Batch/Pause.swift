import Ledger

extension Commands {
    private static let pausedBatch = Positional(
        "BATCH", "the batch's id or its name", isRequired: false)

    static let pause = Command(
        "pause", "send nothing more until resumed", positionals: [pausedBatch],
        options: [everything],
        discussion: "Durable: it holds for every replica and over restarts. Calls in flight finish."
    ) { invocation in
        try await setPause(invocation, isPaused: true)
    }

    static let resume = Command(
        "resume", "go on sending", positionals: [pausedBatch], options: [everything]
    ) { invocation in
        try await setPause(invocation, isPaused: false)
    }

    private static func setPause(_ invocation: Invocation, isPaused: Bool) async throws -> ExitCode
    {
        let named = invocation.arguments[pausedBatch]
        guard (named != nil) != invocation.arguments[everything] else {
            throw UsageError("give either BATCH or --all")
        }
        let configuration = try invocation.configuration()
        let now = try await invocation.now(configuration)
        return try await invocation.withPool(configuration) { pool in
            var batch: BatchQueries.Batch?
            if let named { batch = try await BatchFinder.find(named, pool: pool) }
            let found = batch
            try await pool.withTransaction { connection in
                try BatchQueries.setPause(
                    found?.batchID, isPaused: isPaused, at: now.milliseconds, on: connection)
            }
            let subject = found.map { harmless($0.name) } ?? "everything"
            if invocation.isJSON {
                try invocation.print(
                    .object(["batch_id": .text(found?.batchID), "paused": .bool(isPaused)]))
            } else {
                try invocation.print("\(isPaused ? "paused" : "resumed") \(subject)\n")
            }
            return .done
        }
    }
}

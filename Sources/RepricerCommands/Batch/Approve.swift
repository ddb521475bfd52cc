import Ledger

extension Commands {
    static let approve = Command(
        "approve", "release a batch for delivery: the second pair of eyes", positionals: [batch],
        discussion: "The database refuses the submitter's own approval (exit code 4)."
    ) { invocation in
        let configuration = try invocation.configuration()
        let now = try await invocation.now(configuration)
        let name = try invocation.arguments.required(batch)
        return try await invocation.withPool(configuration) { pool in
            let batch = try await BatchFinder.find(name, pool: pool)
            let count = try await pool.withTransaction { connection in
                try BatchQueries.approve(batch.batchID, at: now.milliseconds, on: connection)
            }
            if invocation.isJSON {
                try invocation.print(
                    .object([
                        "batch_id": .string(batch.batchID), "state": "approved",
                        "rows": .integer(count),
                    ]))
            } else {
                try invocation.print("approved \(count) changes of \(harmless(batch.name))\n")
            }
            return .done
        }
    }
}

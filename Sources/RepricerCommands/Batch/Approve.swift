import Batches

extension Commands {
    static let approve = Command(
        "approve", "release a batch for delivery: the second pair of eyes", positionals: [batch],
        discussion: """
            The database refuses the submitter's own approval (exit code 4). Where the batch exceeds your limits \
            (`policy show`), your approval is recorded as the first, and another approver has to give the second \
            (exit code 4, too). A mass extension (`extend all`) is approved by its id in the same way.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let now = try await invocation.now(configuration)
        let name = try invocation.arguments.required(batch)
        return try await invocation.withPool(configuration) { pool in
            if let mass = try await ExtensionDecision.find(name, pool: pool) {
                return try await ExtensionDecision.approve(mass, invocation, now: now, pool: pool)
            }
            let batch = try await BatchFinder.find(name, pool: pool)
            let (count, exceeded) = try await pool.withTransaction { connection in
                let count = try BatchQueries.approve(
                    batch.batchID, at: now.milliseconds, on: connection)
                return (
                    count,
                    count == nil
                        ? try PolicyQueries.ownShortfall(batch.batchID, on: connection) : []
                )
            }
            if invocation.isJSON {
                try invocation.print(
                    .object([
                        "batch_id": .string(batch.batchID),
                        "state": .string(count == nil ? batch.state : "approved"),
                        "rows": .number(count),
                        "needs_second_approver": .bool(count == nil),
                        "exceeded": .array(exceeded.map(JSONValue.string)),
                    ]))
            } else if let count {
                try invocation.print("approved \(count) changes of \(harmless(batch.name))\n")
            }
            guard count == nil else { return .done }
            throw CommandFailure(
                .approvalNeededOrRefused,
                "your approval of \(harmless(batch.name)) is recorded as the first; a second approver is "
                    + "needed: \(harmless(exceeded.joined(separator: "; ")))")
        }
    }
}

import Batches

extension Commands {
    private static let wave = ValueOption(
        "wave", "N", "release all waves up to this one, counted from 1")

    static let release = Command(
        "release", "let the next wave of an approved batch go", positionals: [batch],
        options: [wave],
        discussion: """
            The approval covered all waves; any member of repricer_pricing may release one. Rows whose renewal went \
            by meanwhile move to the next one that their plan allows, or end missed.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        let now = try await invocation.now(configuration)
        let name = try invocation.arguments.required(batch)
        let through = try invocation.arguments[wave].map { text throws(UsageError) in
            guard let number = Int(text), (1...Int(Int16.max)).contains(number) else {
                throw UsageError("--wave cannot be \(quoted(text)); write a number from 1")
            }
            return number
        }
        return try await invocation.withPool(configuration) { pool in
            let batch = try await BatchFinder.find(name, pool: pool)
            let (released, waves) = try await pool.withTransaction { connection in
                let released = try ControlQueries.release(
                    batch.batchID, through: through, at: now.milliseconds, on: connection)
                return (released, try ControlQueries.waves(of: batch.batchID, on: connection))
            }
            if invocation.isJSON {
                try invocation.print(
                    .object([
                        "batch_id": .string(batch.batchID), "released_wave": .integer(released),
                        "waves": .array(waves.map(\.json)),
                    ]))
            } else {
                try invocation.print(
                    "released wave \(released) of \(waves.count) of \(harmless(batch.name))\n")
            }
            return .done
        }
    }
}

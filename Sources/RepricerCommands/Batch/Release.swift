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
        let name = try invocation.arguments.required(batch)
        let through = try invocation.arguments[wave].map { text throws(UsageError) in
            guard let number = Int(text), (1...Int(Int16.max)).contains(number) else {
                throw UsageError("--wave cannot be \(quoted(text)); write a number from 1")
            }
            return number
        }
        return try await invocation.withDatabase { pool, now in
            let batch = try await BatchFinder.find(name, pool: pool)
            let (released, waves) = try await pool.withTransaction { connection in
                // The wave that the caller saw to be next: of two people who release it at once, one is refused.
                let released = try ControlQueries.release(
                    batch.batchID, through: through ?? batch.releasedWave + 1, at: now,
                    on: connection)
                return (released, try ControlQueries.waves(of: batch.batchID, on: connection))
            }
            try invocation.print(
                json: [
                    "batch_id": batch.batchID, "released_wave": released,
                    "waves": waves.json(waveColumns(of: batch)),
                ], "released wave \(released) of \(waves.count) of \(harmless(batch.name))\n")
            return .done
        }
    }
}

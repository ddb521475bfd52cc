import Facts
package import Postgres

/// Batches: what is submitted, decided and shown.
package enum BatchQueries {
    package struct Batch: Sendable, Equatable {
        package var batchID: String
        package var name: String
        package var state: String
        package var rowCount: Int64
        package var rejectedRowCount: Int64
        package var submittedBy: String
        package var submittedAt: Int64
        package var decidedBy: String?
        package var decidedAt: Int64?
        /// Why it was rejected or aborted.
        package var decisionReason: String?
        package var isPaused: Bool
        package var pausedBy: String?
        package var pausedAt: Int64?
        package var pausedReason: String?
        /// What halted it, where no person paused it: a guard, or the App Store's code.
        package var haltedBy: String?
        /// The person who paused it while it was halted, with the time and the reason. The halt and its reason are kept
        /// beside them.
        package var alsoPausedBy: String?
        package var alsoPausedAt: Int64?
        package var alsoPausedReason: String?
        /// When the next probe of a batch that a code has halted may be sent, in UTC milliseconds of real time.
        package var probeAt: Int64?
        /// The answer with which the latest probe was refused, and its subscription.
        package var probeAnswer: String?
        package var grouping: String
        /// The number of waves; 0 for a batch without waves.
        package var waveCount: Int
        package var releasedWave: Int
        /// When the next wave is released; nil where a person releases it, or none is left.
        package var nextReleaseAt: Int64?
        /// The batch whose scheduled changes this one takes back.
        package var undoesBatchID: String?

        package var awaitsApproval: Bool { state == "awaiting_approval" }

        /// Whether it was rejected or aborted, so that none of its changes is sent any more.
        package var isWithdrawn: Bool { state == "rejected" || state == "aborted" }

        /// What the stored state alone does not show: `under_way` or `finished`, `paused` or `halted`; nil where there
        /// is nothing to add. `isFinal` says that no row of it is open any more.
        package func standing(isFinal: Bool) -> String? {
            let stop = haltedBy == nil ? "paused" : "halted"
            return switch state {
            case "approved" where isFinal: "finished"
            case "approved": isPaused ? stop : "under_way"
            case "awaiting_approval": isPaused ? stop : nil
            default: nil
            }
        }

        /// Its state for people, the same in the CLI and on the pages: the stored state, and what `standing` adds.
        package func stateWords(isFinal: Bool) -> String {
            [state, standing(isFinal: isFinal)].compactMap(\.self).joined(separator: ", ")
                .replacing("_", with: " ")
        }
    }

    /// The live batch with the same content; nil where there is none.
    package static func batchID(
        ofContent sha256: String, on connection: isolated PostgresConnection
    ) throws -> String? {
        try connection.query(
            """
            -- name: batchOfContent
            SELECT batch_id FROM repricer.batches
            WHERE content_sha256 = \(sha256) AND state IN ('awaiting_approval', 'approved')
            """
        ).oneOrNil().map { try $0.text("batch_id") }
    }

    /// Whether a batch was approved, and each of its rows has ended.
    package static func isFinished(
        _ batchID: String, on connection: isolated PostgresConnection
    ) throws -> Bool {
        let state = try connection.query(
            """
            -- name: stateOfBatch
            SELECT state FROM repricer.batches WHERE batch_id = \(uuid: batchID)
            """
        ).one().text("state")
        guard state == "approved" else { return false }
        return try !connection.query(
            """
            -- name: hasOpenRows
            SELECT repricer.has_open_rows(\(uuid: batchID)) AS has_open
            """
        ).one().bool("has_open")
    }

    package static func all(on connection: isolated PostgresConnection) throws -> [Batch] {
        try connection.query(
            """
            -- name: allBatches
            SELECT *, jsonb_array_length(waves) AS wave_count FROM repricer.batches
            ORDER BY submitted_at, batch_id
            """
        ).map(read)
    }

    private static func read(_ row: Row) throws -> Batch {
        try Batch(
            batchID: row.text("batch_id"), name: row.text("name"), state: row.text("state"),
            rowCount: row.int64("row_count"), rejectedRowCount: row.int64("rejected_row_count"),
            submittedBy: row.text("submitted_by"), submittedAt: row.milliseconds("submitted_at"),
            decidedBy: row.textOrNil("decided_by"), decidedAt: row.millisecondsOrNil("decided_at"),
            decisionReason: row.textOrNil("decision_reason"), isPaused: row.bool("is_paused"),
            pausedBy: row.textOrNil("paused_by"), pausedAt: row.millisecondsOrNil("paused_at"),
            pausedReason: row.textOrNil("paused_reason"), haltedBy: row.textOrNil("halted_by"),
            alsoPausedBy: row.textOrNil("also_paused_by"),
            alsoPausedAt: row.millisecondsOrNil("also_paused_at"),
            alsoPausedReason: row.textOrNil("also_paused_reason"),
            probeAt: row.millisecondsOrNil("probe_at"), probeAnswer: row.textOrNil("probe_answer"),
            grouping: row.text("grouping"), waveCount: row.int("wave_count"),
            releasedWave: row.int("released_wave"),
            nextReleaseAt: row.millisecondsOrNil("next_release_at"),
            undoesBatchID: row.textOrNil("undoes_batch_id"))
    }

    /// Approves, and returns how many changes were queued. Returns nil where the batch exceeds this user's limits:
    /// the approval was then recorded as the first of two.
    package static func approve(
        _ batchID: String, at: Int64, on connection: isolated PostgresConnection
    ) throws -> Int64? {
        try connection.decide(
            "approveBatch", "repricer.approve_batch(\(uuid: batchID), \(timestamp: at))"
        ).int64OrNil("answer")
    }

    /// Withdraws a batch and returns how many changes were withdrawn. `newState` is `rejected` or `aborted`.
    package static func withdraw(
        _ batchID: String, newState: String, reason: String?, at: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Int64 {
        try connection.decide(
            "withdrawBatch",
            """
            repricer.withdraw_batch(\(uuid: batchID), \(timestamp: at), \(newState)::text,
                \(reason)::text)
            """, onlyHoldsBack: true
        ).int64("answer")
    }

    /// The refused rows of a batch, counted by row code.
    package static func rejectCounts(
        batchID: String?, on connection: isolated PostgresConnection
    ) throws -> [String: Int64] {
        try counts("rejectCounts", of: "batch_rejects", by: "code", batchID, on: connection)
    }

    /// The dependents' cancellations of a batch, counted by state.
    package static func dependentCounts(
        batchID: String?, on connection: isolated PostgresConnection
    ) throws -> [String: Int64] {
        try counts(
            "dependentCounts", of: "dependent_cancellations", by: "state", batchID, on: connection)
    }

    private static func counts(
        _ name: String, of table: String, by column: String, _ batchID: String?,
        on connection: isolated PostgresConnection
    ) throws -> [String: Int64] {
        let rows = try connection.query(
            """
            -- name: \(unsafe: name)
            SELECT \(unsafe: column) AS name, count(*) AS rows FROM repricer.\(unsafe: table)
            WHERE \(uuid: batchID)::uuid IS NULL OR batch_id = \(uuid: batchID)::uuid
            GROUP BY 1
            """)
        return try Dictionary(
            uniqueKeysWithValues: rows.map { (try $0.text("name"), try $0.int64("rows")) })
    }
}

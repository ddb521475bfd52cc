package import Facts
package import Pricing
import ServiceKit

/// Stores a planned batch, all of it or nothing.
package enum Submission {
    package enum Outcome: Sendable, Equatable {
        case stored(batchID: String)
        /// The same content is a live batch already: nothing was written.
        case sameAsBefore(batchID: String)
    }

    /// What is known of a batch once all its rows were handed over.
    package struct Totals: Sendable {
        package var planHash: String
        package var changes: Int
        package var rejects: Int

        package init(planHash: String, changes: Int, rejects: Int) {
            self.planHash = planHash
            self.changes = changes
            self.rejects = rejects
        }
    }

    /// Runs `rows`, which hands rows to the writer while it plans, then stores the batch itself. All of it is one
    /// transaction: when `rows` throws, or a key of the database refuses a row, nothing was stored.
    package static func store(
        name: String, contentSHA256: String, asOf now: Instant, terms: BatchTerms = BatchTerms(),
        pool: LedgerPool,
        rows: @escaping @Sendable (SubmissionWriter) async throws -> Totals
    ) async throws -> Outcome {
        var random = SystemRandomNumberGenerator()
        let batchID = UUIDv7.make(nowMilliseconds: now.milliseconds, random: &random)
        return try await pool.withTransaction { connection in
            if let known = try BatchQueries.batchID(ofContent: contentSHA256, on: connection) {
                return .sameAsBefore(batchID: known)
            }
            try SubmissionQueries.batchComesLast(on: connection)
            let writer = SubmissionWriter(
                batchID: batchID, asOf: now, waves: terms.waves, connection: connection)
            let totals = try await rows(writer)
            let batch = BatchQueries.NewBatch(
                batchID: batchID, name: name, contentSHA256: contentSHA256,
                planHash: totals.planHash, asOf: now.milliseconds, rowCount: totals.changes,
                rejectedRowCount: totals.rejects, terms: terms)
            _ = try connection.pipeline([
                BatchQueries.insert(batch), BatchQueries.recordSubmission(batch),
            ])
            return .stored(batchID: batchID)
        }
    }

    /// Stores rows that are in memory already: those that can go as changes, the refused ones beside them.
    package static func store(
        _ planned: [PlanRow], name: String, contentSHA256: String, planHash: String,
        asOf now: Instant, terms: BatchTerms = BatchTerms(), pool: LedgerPool
    ) async throws -> Outcome {
        try await store(
            name: name, contentSHA256: contentSHA256, asOf: now, terms: terms, pool: pool
        ) { writer in
            try await writer.write(try writer.prepare(planned))
            let changes = planned.count { $0.fault == nil }
            return Totals(
                planHash: planHash, changes: changes, rejects: planned.count - changes)
        }
    }
}

/// Writes the rows of one submission.
package struct SubmissionWriter: Sendable {
    fileprivate let batchID: String
    fileprivate let asOf: Instant
    fileprivate let waves: WavePlan?
    fileprivate let connection: LedgerConnection

    /// Forms rows for the database, on any thread.
    package func prepare(_ rows: [PlanRow]) throws -> SubmissionCopy {
        // Seeded from the system for each piece: a call of the system for each id costs more than the id.
        var random = SeededRandom(seed: .random(in: .min ... .max))
        var copy = SubmissionCopy(batchID: batchID, at: asOf, waves: waves)
        for row in rows {
            let changeID = UUIDv7.make(nowMilliseconds: asOf.milliseconds, random: &random)
            try copy.add(row, changeID: changeID)
        }
        return copy
    }

    /// Stores them, inside the submission's transaction.
    package func write(_ rows: SubmissionCopy) async throws {
        try await connection.read { try SubmissionQueries.store(rows, on: $0) }
    }
}

package import Ledger
package import Pricing
import ServiceKit

/// Stores a planned batch, all of it or nothing.
package enum Submission {
    package enum Outcome: Sendable, Equatable {
        case stored(batchID: String)
        /// The same content is a live batch already: nothing was written.
        case sameAsBefore(batchID: String)
    }

    /// Changes a statement.
    static let changesPerInsert = 1000

    /// Stores the rows that can go and keeps the refused ones beside them. The caller has decided that refused
    /// rows are acceptable, and that there is at least one row that can go.
    package static func store(
        _ planned: [PlanRow], name: String, contentSHA256: String, planHash: String,
        asOf now: Instant,
        pool: LedgerPool
    ) async throws -> Outcome {
        var random = SystemRandomNumberGenerator()
        let batchID = UUIDv7.make(nowMilliseconds: now.milliseconds, random: &random)
        var changes: [SubmissionQueries.NewChange] = []
        for row in planned {
            let changeID = UUIDv7.make(nowMilliseconds: now.milliseconds, random: &random)
            if let change = SubmissionQueries.NewChange(row, changeID: changeID) {
                changes.append(change)
            }
        }
        let batch = BatchQueries.NewBatch(
            batchID: batchID, name: name, contentSHA256: contentSHA256, planHash: planHash,
            asOf: now.milliseconds, rowCount: changes.count,
            rejectedRowCount: planned.count - changes.count)
        let stored = changes
        return try await pool.withTransaction { connection in
            if let known = try BatchQueries.batchID(ofContent: contentSHA256, on: connection) {
                return .sameAsBefore(batchID: known)
            }
            _ = try connection.pipeline([
                BatchQueries.insert(batch), BatchQueries.recordSubmission(batch),
                SubmissionQueries.insertRejects(planned, batchID: batchID),
            ])
            for start in stride(from: 0, to: stored.count, by: changesPerInsert) {
                let chunk = Array(stored[start..<min(start + changesPerInsert, stored.count)])
                _ = try connection.pipeline(
                    try SubmissionQueries.insert(chunk, batchID: batchID, at: now))
            }
            return .stored(batchID: batchID)
        }
    }
}

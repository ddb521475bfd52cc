import Batches
import Postgres
import Pricing
import Reports

/// Rows of a stored batch that would miss their renewal at the allowed rate, the calls of other open batches counted.
enum LateRows {
    static func count(
        of batchID: String, _ rate: Configuration.CallRate, now: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Int {
        try OpenCallQueries.lateRowCount(
            of: batchID, callsPerThousandSeconds: rate.perThousandSeconds, now: now, on: connection)
    }

    /// The late rows of a batch that was just planned and stored, whose calls are at hand.
    static func count(
        of calls: CallList, _ rate: Configuration.CallRate, now: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Int {
        let others = try OpenCallQueries.open(of: nil, now: now, on: connection).others
        return calls.quota(
            callsPerThousandSeconds: rate.perThousandSeconds, now: Instant(milliseconds: now),
            besides: others, lateRowsMax: 0
        ).lateRowCount
    }

    static func sentence(_ count: some BinaryInteger) -> String {
        "\(counted(count, "row")) would miss \(count == 1 ? "its" : "their") renewal at the allowed rate, "
            + "other open batches counted"
    }
}

extension Invocation {
    /// Reads how many are late and warns a person of them. `planned` are the batch's calls where they are at hand.
    func warnOfLateRows(
        of batchID: String, planned: CallList? = nil, _ rate: Configuration.CallRate, now: Int64,
        _ pool: PostgresPool
    ) async throws -> Int {
        let count = try await telling("counting the rows that would be late") {
            try await pool.withTransaction { connection in
                if let planned {
                    return try LateRows.count(of: planned, rate, now: now, on: connection)
                }
                return try LateRows.count(of: batchID, rate, now: now, on: connection)
            }
        }
        if count > 0 { note("late: \(LateRows.sentence(count))") }
        return count
    }
}

extension ApprovalFacts {
    /// All of one snapshot, the late rows too where the allowed rate is known.
    static func read(
        _ batch: BatchQueries.Batch, now: Int64, in reportingCurrency: String,
        _ rate: Configuration.CallRate?, _ pool: PostgresPool
    ) async throws -> ApprovalFacts {
        try await pool.withTransaction(.repeatableRead) { connection in
            var facts = try read(batch, now: now, in: reportingCurrency, on: connection)
            facts.note(
                lateRows: try rate.map {
                    try LateRows.count(of: batch.batchID, $0, now: now, on: connection)
                })
            return facts
        }
    }
}

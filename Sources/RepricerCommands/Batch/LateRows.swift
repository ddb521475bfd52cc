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

    /// The late rows of the batch, or without one of each approved batch.
    static func counts(
        of batchID: String?, _ rate: Configuration.CallRate, now: Int64,
        on connection: isolated PostgresConnection
    ) throws -> [OpenCallQueries.Late] {
        guard let batchID else {
            return try OpenCallQueries.lateRowCounts(
                callsPerThousandSeconds: rate.perThousandSeconds, now: now, on: connection)
        }
        let rows = try count(of: batchID, rate, now: now, on: connection)
        return rows > 0 ? [.init(batchID: batchID, name: "", rows: rows)] : []
    }

    /// The late rows of a batch that was just planned and stored, from the calls of its plan.
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
    /// Counts the late rows of the batch, and the rows of other batches that it makes late, and warns a person of both.
    /// `planned` are the batch's calls where they are known.
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
        let others = try await pool.withTransaction {
            try OpenCallQueries.lateRowCounts(
                becauseOf: batchID, callsPerThousandSeconds: rate.perThousandSeconds, now: now,
                on: $0)
        }
        for other in others {
            note(
                "late: \(counted(other.rows, "row")) of batch \(harmless(other.name)) would miss "
                    + "\(other.rows == 1 ? "its" : "their") renewal because of this one")
        }
        return count
    }
}

extension ApprovalFacts {
    /// Reads everything in one snapshot, the late rows too where the allowed rate is known.
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

import Batches
import Postgres
import Pricing

/// Rows of a stored batch that would miss their renewal at the allowed rate, the calls of other open batches counted.
enum LateRows {
    static func count(
        of batchID: String, _ rate: Configuration.CallRate, now: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Int {
        let open = try OpenCallQueries.open(of: batchID, on: connection)
        return CallList.lateRowCount(
            of: open.own, besides: open.others, callsPerThousandSeconds: rate.perThousandSeconds,
            now: Instant(milliseconds: now))
    }

    static let meaning =
        "rows would miss their renewal at the allowed rate, other open batches counted"
}

extension Invocation {
    /// Reads how many are late and warns a person of them.
    func warnOfLateRows(
        of batchID: String, _ rate: Configuration.CallRate, now: Int64, _ pool: PostgresPool
    ) async throws -> Int {
        let count = try await pool.withTransaction {
            try LateRows.count(of: batchID, rate, now: now, on: $0)
        }
        if count > 0 { note("late: \(count) \(LateRows.meaning)") }
        return count
    }
}

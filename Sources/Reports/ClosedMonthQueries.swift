package import Postgres

/// Months whose figures finance has signed.
package enum ClosedMonthQueries {
    /// Closes a month, written as `2026-10`; returns how many figures it has. Throws where it is not over or was closed,
    /// and where the user may not. `at` is UTC milliseconds, and counts in a rehearsal alone: else the server's clock does.
    package static func close(
        _ month: String, at: Int64, on connection: isolated PostgresConnection
    ) throws -> Int64 {
        try connection.query(
            """
            -- name: closeMonth
            SELECT report.close_month(\(month), \(timestamp: at)) AS figures
            """
        ).one().int64("figures")
    }
}

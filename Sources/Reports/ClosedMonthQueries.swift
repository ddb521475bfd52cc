package import Postgres

/// The months whose figures finance has signed.
package enum ClosedMonthQueries {
    /// Closes a month, written as `2026-10`, and returns how many figures it has. Throws where the month is not over
    /// or is closed already, and where the user may not close it. `at` is UTC milliseconds and counts only in a
    /// rehearsal; otherwise the server's clock does.
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

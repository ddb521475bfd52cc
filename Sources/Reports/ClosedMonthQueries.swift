package import Postgres
import ServiceKit

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

    /// A check of the reconciliation that is not OK, with its problems over all batches.
    package struct FailedCheck: Sendable {
        package var name: String
        package var problems: Int64
    }

    /// `judgedAt` is the instant of a virtual clock in UTC milliseconds, as in `ReportQuery`; nil: the server's clock.
    package static func failedChecks(
        judgedAt: Int64?, on connection: isolated PostgresConnection
    ) throws -> [FailedCheck] {
        if let judgedAt {
            _ = try connection.query(
                """
                -- name: setCheckInstant
                SELECT set_config('repricer.as_of', \(RFC3339.format(judgedAt)), true)
                """)
        }
        return try connection.query(
            """
            -- name: failedChecks
            SELECT check_name, sum(problems)::bigint AS problems FROM report.reconciliation WHERE NOT is_ok
            GROUP BY check_name ORDER BY check_name
            """
        ).map { try FailedCheck(name: $0.text("check_name"), problems: $0.int64("problems")) }
    }
}

import Postgres
import Reports

/// Which part of a long report a page reads, because the ledger grows without limit.
enum ReportPageQueries {
    /// The span of the newest lines of money before `before`: how far back `limit` of them reach.
    struct Window: Sendable, Equatable {
        /// UTC milliseconds; the earliest instant that is shown. nil: all lines are.
        var from: Int64?
    }

    /// An index has them in order, so only these lines are read.
    static func moneyWindow(
        before: Int64?, currency: String?, storefront: String?, limit: Int,
        on connection: isolated PostgresConnection
    ) throws -> Window {
        let row = try connection.query(
            """
            -- name: moneyWindow
            SELECT min(w.occurred_at) AS first_at, count(*) AS rows
            FROM (SELECT occurred_at FROM repricer.money_entries
                WHERE (\(timestamp: before)::timestamptz IS NULL OR occurred_at < \(timestamp: before)::timestamptz)
                    AND (\(currency)::text IS NULL OR currency = \(currency)::text)
                    AND (\(storefront)::text IS NULL OR storefront = \(storefront)::text)
                ORDER BY occurred_at DESC LIMIT \(limit)) w
            """
        ).one()
        let rows = Int(clamping: try row.int64("rows"))
        return Window(from: rows < limit ? nil : try row.millisecondsOrNil("first_at"))
    }
}

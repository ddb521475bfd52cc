package import Postgres
import Pricing

/// The months of the tables that grow for ever: made ahead, dropped whole.
package enum MonthPartitions {
    /// A table that has a partition for each month.
    package enum Table: String, CaseIterable, Sendable {
        /// The evidence, by the instant it was received.
        case notifications
        /// The history of changes, by the instant of each line.
        case history = "price_change_history"
        /// The decoded statements, by the instant they were signed.
        case statements = "subscription_events"
        /// What was before, by the instant until which it held.
        case statementVersions = "subscription_event_versions"
        case chargeVersions = "charge_versions"
        case changeVersions = "price_change_versions"
        case cancellationVersions = "dependent_cancellation_versions"

        /// Months before the running one that are made as well: Apple tells what it signed in the last 180 days again.
        var monthsBehind: Int { self == .statements ? 7 : 0 }
    }

    /// One partition of a table.
    package struct Partition: Hashable, Sendable {
        package var name: String
        /// UTC milliseconds, the end itself outside; nil for the default partition, which takes what no month
        /// does.
        package var months: Range<Int64>?
        /// On disk, indexes included.
        package var bytes: Int64
    }

    /// Makes the partitions of the month of `now` (UTC milliseconds) and of so many months after it;
    /// returns how many were missing. What the default partition took meanwhile moves over.
    ///
    /// Writers and readers of notifications are not held up, but by that move; those of the history wait for the
    /// moment of the making. Throws when the lock is not to be had in two seconds, half a second for the history;
    /// nothing is lost without the partition.
    @discardableResult
    package static func prepare(
        _ table: Table, now: Int64, monthsAhead: Int, on connection: isolated PostgresConnection
    ) throws -> Int {
        try connection.query(
            """
            -- name: prepareMonths
            SELECT repricer.prepare_months(\(table.rawValue), \(timestamp: now),
                \(Int32(clamping: monthsAhead))) AS made
            """
        ).one().int("made")
    }

    /// The same for every table. Each is prepared by itself: to be called outside a transaction, so that no lock
    /// on one table is held while another one's is waited for.
    @discardableResult
    package static func prepareAll(
        now: Int64, monthsAhead: Int, on connection: isolated PostgresConnection
    ) throws -> Int {
        try Table.allCases.reduce(0) { made, table in
            let first = Instant(milliseconds: now).advanced(byMonths: -table.monthsBehind)
            return try made
                + prepare(
                    table, now: first.milliseconds,
                    monthsAhead: monthsAhead + table.monthsBehind, on: connection)
        }
    }

    /// Its name for a statement; nil where it is gone, or takes what no month does.
    static func quoted(
        _ partition: Partition, of table: Table, on connection: isolated PostgresConnection
    ) throws -> String? {
        try connection.query(
            """
            -- name: quotePartition
            SELECT quote_ident(partition) AS name FROM repricer.month_partitions
            WHERE parent = \(table.rawValue) AND partition = \(partition.name) AND NOT is_default
            """
        ).oneOrNil()?.text("name")
    }

    /// Oldest first, the default partition last.
    package static func all(
        of table: Table, on connection: isolated PostgresConnection
    ) throws -> [Partition] {
        try connection.query(
            """
            -- name: monthPartitions
            SELECT partition, starts_at, ends_at, is_default, bytes
            FROM repricer.month_partitions WHERE parent = \(table.rawValue)
            ORDER BY is_default, ends_at
            """
        ).map { row in
            let isDefault = try row.bool("is_default")
            return Partition(
                name: try row.text("partition"),
                months: isDefault
                    ? nil : try row.milliseconds("starts_at")..<row.milliseconds("ends_at"),
                bytes: try row.int64("bytes"))
        }
    }
}

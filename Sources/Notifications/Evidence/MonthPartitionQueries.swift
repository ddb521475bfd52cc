package import Postgres
import Pricing

/// The monthly partitions of tables that only grow. They are made ahead, and dropped whole.
package enum MonthPartitions {
    /// A table that has a partition for each month.
    package enum Table: String, CaseIterable, Sendable {
        /// The evidence, by the instant it was received.
        case notifications
        /// The history of changes, by the instant of each line.
        case history = "price_change_history"
        /// The decoded statements, by the instant they were signed.
        case statements = "subscription_events"
        /// The former versions of statements, by the instant at which they were replaced.
        case statementVersions = "subscription_event_versions"
        case chargeVersions = "charge_versions"
        case changeVersions = "price_change_versions"
        case cancellationVersions = "dependent_cancellation_versions"

        /// How many months before the current one are made as well, because Apple sends again what it signed in the
        /// last 180 days.
        var monthsBehind: Int { self == .statements ? 7 : 0 }
    }

    /// One partition of a table.
    package struct Partition: Hashable, Sendable {
        package var name: String
        /// Its span in UTC milliseconds, the end excluded; nil for the default partition, which takes rows whose month
        /// has no partition.
        package var months: Range<Int64>?
        /// Its size on disk, indexes included.
        package var bytes: Int64
    }

    /// Makes the missing partitions of the month of `now` (UTC milliseconds) and of the months after it, and returns
    /// how many these were. Rows that the default partition had taken meanwhile move into them.
    ///
    /// Writers and readers of notifications wait only for that move. Those of the history wait while the partition is
    /// made. Throws when the lock is not free within two seconds, or half a second for the history. No data is lost
    /// without the partition.
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

    /// Does the same for every table. It must be called outside a transaction: each table then has its own, and no lock
    /// on one table is held while the next waits.
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

    /// The partition's name for a statement; nil where it is gone, or is the default partition.
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

    /// All partitions, the oldest first and the default partition last.
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
            return try Partition(
                name: row.text("partition"),
                months: isDefault
                    ? nil : row.milliseconds("starts_at")..<row.milliseconds("ends_at"),
                bytes: row.int64("bytes"))
        }
    }
}

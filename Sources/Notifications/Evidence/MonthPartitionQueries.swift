package import Postgres

/// The months of the tables that grow for ever: made ahead, dropped whole.
package enum MonthPartitions {
    /// A table that has a partition for each month.
    package enum Table: String, CaseIterable, Sendable {
        /// The evidence, by the instant it was received.
        case notifications
        /// The history of changes, by the instant of each line.
        case history = "price_change_history"
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
            try made + prepare(table, now: now, monthsAhead: monthsAhead, on: connection)
        }
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

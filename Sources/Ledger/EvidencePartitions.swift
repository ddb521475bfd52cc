package import Postgres

/// The months of evidence: made ahead, dropped whole.
package enum EvidencePartitions {
    /// One partition of the notifications.
    package struct Partition: Hashable, Sendable {
        package var name: String
        /// UTC milliseconds; nil without a lower bound.
        package var startsAt: Int64?
        /// UTC milliseconds, itself outside; nil for the default partition.
        package var endsAt: Int64?
        /// Takes what no month does.
        package var isDefault: Bool
        /// On disk, indexes included.
        package var bytes: Int64
    }

    /// Makes the partitions of the month of `now` (UTC milliseconds) and of so many months after it;
    /// returns how many were missing. What the default partition took meanwhile moves over.
    ///
    /// Writers and readers are not held up, but by that move. Throws when the lock is not to be had in two
    /// seconds; nothing is lost without the partition.
    @discardableResult
    package static func prepare(
        now: Int64, monthsAhead: Int, on connection: isolated PostgresConnection
    ) throws -> Int {
        try connection.query(
            """
            -- name: prepareNotificationMonths
            SELECT repricer.prepare_notification_months(\(timestamp: now), \(Int32(clamping: monthsAhead)))
                AS made
            """
        ).one().int("made")
    }

    /// Oldest first, the default partition last.
    package static func all(on connection: isolated PostgresConnection) throws -> [Partition] {
        try connection.query(
            """
            -- name: notificationPartitions
            SELECT partition, starts_at, ends_at, is_default, bytes
            FROM repricer.notification_partitions ORDER BY is_default, ends_at
            """
        ).map { row in
            Partition(
                name: try row.text("partition"), startsAt: try row.millisecondsOrNil("starts_at"),
                endsAt: try row.millisecondsOrNil("ends_at"),
                isDefault: try row.bool("is_default"), bytes: try row.int64("bytes"))
        }
    }
}

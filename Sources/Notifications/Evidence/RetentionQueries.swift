import Facts
package import Postgres

/// Drops old evidence by whole partitions. Only the owner of the tables may do that.
///
/// What was folded from it stays: `subscription_events` holds the decoded statements, so that a fold from the
/// beginning never needs the evidence.
package enum EvidenceRetention {
    /// One partition whose notifications are all older than the horizon.
    package struct Candidate: Hashable, Sendable {
        package var partition: String
        /// Its span in UTC milliseconds, the end excluded.
        package var months: Range<Int64>
        package var notifications: Int
        /// The notifications that were stored and never understood. Once they are gone, no upgrade can fold them.
        package var notUnderstood: Int
        /// The notifications that are not folded yet, or are quarantined. Their partition stays.
        package var waiting: Int
        package var bytes: Int64
    }

    /// The rows of one month in the default partition.
    package struct Stray: Hashable, Sendable {
        /// The first instant of the month, in UTC milliseconds.
        package var month: Int64
        package var notifications: Int
    }

    /// The partitions that end at `horizon` (UTC milliseconds) or before, the oldest first.
    package static func candidates(
        before horizon: Int64, on connection: isolated PostgresConnection
    ) throws -> [Candidate] {
        let partitions = try MonthPartitions.all(of: .notifications, on: connection)
        return try partitions.compactMap { partition in
            guard let months = partition.months, months.upperBound <= horizon else { return nil }
            let counts = try connection.query(
                """
                -- name: countEvidence
                SELECT count(*) AS notifications,
                    count(*) FILTER (WHERE NOT understood) AS not_understood
                FROM repricer.notifications
                WHERE received_at >= \(timestamp: months.lowerBound)
                    AND received_at < \(timestamp: months.upperBound)
                """
            ).one()
            return try Candidate(
                partition: partition.name, months: months,
                notifications: counts.int("notifications"),
                notUnderstood: counts.int("not_understood"),
                waiting: waiting(in: months, on: connection), bytes: partition.bytes)
        }
    }

    /// The rows that the default partition took because their month had no partition.
    package static func strays(on connection: isolated PostgresConnection) throws -> [Stray] {
        try connection.query(
            """
            -- name: strayEvidence
            SELECT date_trunc('month', received_at, 'UTC') AS month, count(*) AS notifications
            FROM repricer.notifications_default GROUP BY 1 ORDER BY 1
            """
        ).map { row in
            try Stray(month: row.milliseconds("month"), notifications: row.int("notifications"))
        }
    }

    /// Drops the partition, in the caller's transaction. Returns false where a notification in it still waits for its
    /// fold.
    ///
    /// A lock keeps writers and readers out while it checks and drops. It waits half a second for the lock (then throws
    /// `lockNotAvailable`), because writers and readers queue behind the wait.
    package static func drop(
        _ candidate: Candidate, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.script(
            """
            SET LOCAL lock_timeout = '500ms';
            LOCK TABLE repricer.notifications IN ACCESS EXCLUSIVE MODE;
            \(ServiceControlQueries.allowingThisProgram)
            """)
        // It checks again under the lock, because `reprocess` may have put notifications back meanwhile.
        let waiting = try waiting(in: candidate.months, on: connection)
        guard waiting == 0 else { return false }
        let name = try connection.query(
            """
            -- name: quotePartition
            SELECT quote_ident(partition) AS name FROM repricer.month_partitions
            WHERE parent = 'notifications' AND partition = \(candidate.partition) AND NOT is_default
            """
        ).oneOrNil()?.text("name")
        // Another process may have dropped it already.
        guard let name else { return true }
        try connection.script("DROP TABLE repricer.\(name)")
        return true
    }

    /// The spans before `horizon` (UTC milliseconds) whose partitions have all been dropped, the oldest first.
    package static func goneRanges(
        before horizon: Int64, on connection: isolated PostgresConnection
    ) throws -> [Range<Int64>] {
        let standing = try MonthPartitions.all(of: .notifications, on: connection)
            .compactMap(\.months).sorted { $0.lowerBound < $1.lowerBound }
        var gone: [Range<Int64>] = []
        var from: Int64 = 0
        for month in standing + [horizon..<horizon] where from < horizon {
            let until = min(month.lowerBound, horizon)
            if from < until { gone.append(from..<until) }
            from = max(from, month.upperBound)
        }
        return gone
    }

    /// Deletes about `limit` ids of the notifications that were received in the span and whose evidence is gone. The
    /// next step starts after them, so dead index entries are read only once.
    ///
    /// If such a notification comes again, it is stored again but changes nothing, because its statement is in
    /// `subscription_events` under the same id and instant.
    package static func forgetIDs(
        of span: Range<Int64>, limit: Int, on connection: isolated PostgresConnection
    ) throws -> DeletedSpan {
        let last = try connection.query(
            """
            -- name: lastNotificationID
            SELECT received_at FROM repricer.notification_ids
            WHERE received_at >= \(timestamp: span.lowerBound) AND received_at < \(timestamp: span.upperBound)
            ORDER BY received_at OFFSET \(limit - 1) LIMIT 1
            """
        ).oneOrNil()?.milliseconds("received_at")
        let (step, left) = DeletedSpan.split(span, afterMillisecond: last)
        let count = try connection.execute(
            """
            -- name: forgetNotificationIDs
            DELETE FROM repricer.notification_ids i
            WHERE i.received_at >= \(timestamp: step.lowerBound) AND i.received_at < \(timestamp: step.upperBound)
                AND NOT EXISTS (
                    SELECT FROM repricer.notifications n
                    WHERE n.notification_uuid = i.notification_uuid
                        AND n.received_at = i.received_at)
                AND \(fragment: ServiceControlQueries.allowsThisProgram)
            """)
        return DeletedSpan(count: count, left: left)
    }

    private static func waiting(
        in months: Range<Int64>, on connection: isolated PostgresConnection
    ) throws -> Int {
        try connection.query(
            """
            -- name: countWaitingEvidence
            SELECT count(*) AS waiting FROM repricer.inbox
            WHERE received_at >= \(timestamp: months.lowerBound)
                AND received_at < \(timestamp: months.upperBound)
            """
        ).one().int("waiting")
    }
}

/// One of many steps that delete old rows in the order of their instants.
package struct DeletedSpan: Sendable {
    package var count: Int
    /// What is still to be done (UTC milliseconds); nil where nothing is.
    package var left: Range<Int64>?

    /// Splits off a step that ends with the given millisecond. A row may lie within that millisecond, so the rest
    /// starts after it, and the next step cannot find the same row again.
    static func split(
        _ span: Range<Int64>, afterMillisecond last: Int64?
    ) -> (step: Range<Int64>, left: Range<Int64>?) {
        guard let last else { return (span, nil) }
        let cut = min(max(last, span.lowerBound) + 1, span.upperBound)
        return (span.lowerBound..<cut, cut < span.upperBound ? cut..<span.upperBound : nil)
    }
}

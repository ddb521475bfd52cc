package import Postgres

/// Queries for the metrics of queues that all replicas share. Each statement reads only open rows.
package enum GaugeQueries {
    /// A queue with the number of its members, and since when the oldest of them is in it (UTC milliseconds).
    package struct Queue: Sendable, Equatable {
        package var labels: [String]
        package var count: Int64
        package var oldestAt: Int64?
    }

    private static func queues(_ rows: Rows, _ labels: [String]) throws -> [Queue] {
        try rows.map { row in
            Queue(
                labels: try labels.map { try row.text($0) }, count: try row.int64("members"),
                oldestAt: try row.millisecondsOrNil("oldest"))
        }
    }

    /// The open changes by state. It needs one index search for each batch.
    package static func openChanges(
        on connection: isolated PostgresConnection
    ) throws -> [Queue] {
        let batches = try connection.query(
            """
            -- name: gaugedBatches
            SELECT batch_id FROM repricer.batches
            """
        ).map { try $0.text("batch_id") }
        return try queues(
            connection.query(
                """
                -- name: gaugeOpenChanges
                SELECT state, count(*) AS members, min(state_since) AS oldest FROM repricer.price_changes
                WHERE batch_id = ANY (\(uuids: batches)::uuid[]) AND stage IN (
                    'awaiting_approval', 'queued', 'unknown', 'scheduled', 'pending_consent', 'accepted')
                GROUP BY state
                """), ["state"])
    }

    /// The open calls by kind and state.
    package static func openCalls(on connection: isolated PostgresConnection) throws -> [Queue] {
        try queues(
            connection.query(
                """
                -- name: gaugeOpenCalls
                SELECT kind, state, count(*) AS members, min(prepared_at) AS oldest
                FROM repricer.store_calls WHERE settled_at IS NULL GROUP BY kind, state
                """), ["kind", "state"])
    }

    /// The most rows of a queue that are counted.
    package static let countedMax = 100_000

    package struct Backlogs: Sendable, Equatable {
        package var inboxWaiting: Int64
        package var inboxQuarantined: Int64
        package var webhooksPending: Int64
        package var webhooksSince: Int64?
        package var webhooksGivenUp: Int64
        package var staleFigures: Int64
        package var isCatchingUp: Bool
    }

    /// What waits to be folded, to be sent as a webhook, and to be summed up.
    package static func backlogs(on connection: isolated PostgresConnection) throws -> Backlogs {
        let row = try connection.query(
            """
            -- name: gaugeBacklogs
            SELECT (SELECT count(*) FROM (SELECT 1 FROM repricer.inbox WHERE error IS NULL
                    LIMIT \(countedMax)) i) AS waiting,
                (SELECT count(*) FROM (SELECT 1 FROM repricer.inbox WHERE error IS NOT NULL
                    LIMIT \(countedMax)) i) AS quarantined,
                (SELECT count(*) FROM (SELECT 1 FROM repricer.webhook_deliveries WHERE state = 'pending'
                    LIMIT \(countedMax)) w) AS webhooks,
                (SELECT min(due_since) FROM (SELECT due_since FROM repricer.webhook_deliveries
                    WHERE state = 'pending' LIMIT \(countedMax)) w) AS since,
                (SELECT count(*) FROM (SELECT 1 FROM repricer.webhook_deliveries
                    WHERE state = 'given_up' AND last_error <> 'no webhook was configured' LIMIT \(countedMax)) w) AS given_up,
                (SELECT count(*) FROM (SELECT 1 FROM repricer.stale_figures LIMIT \(countedMax)) s) AS unsummed,
                (SELECT catch_up_since IS NOT NULL FROM repricer.service_controls) AS catching_up
            """
        ).one()
        return try Backlogs(
            inboxWaiting: row.int64("waiting"), inboxQuarantined: row.int64("quarantined"),
            webhooksPending: row.int64("webhooks"), webhooksSince: row.millisecondsOrNil("since"),
            webhooksGivenUp: row.int64("given_up"), staleFigures: row.int64("unsummed"),
            isCatchingUp: row.bool("catching_up"))
    }

    package struct Rate: Sendable, Equatable {
        package var endpoint: String
        /// The calls of the last second; nil where permits are not remembered.
        package var lastSecond: Int64?
        /// How long the App Store still asks for silence.
        package var silenceMilliseconds: Int64
    }

    /// The rates of these endpoints and of all that were ever called, by the clock that permits use. `now` is a
    /// rehearsal's clock; nil asks the database's.
    ///
    /// Instants before `counted_since_micros` are placeholders for a free window, not calls.
    package static func rates(
        of endpoints: [String], now: Int64?, on connection: isolated PostgresConnection
    ) throws -> [Rate] {
        try connection.query(
            """
            -- name: gaugeRates
            SELECT endpoint, CASE WHEN r.endpoint IS NULL THEN 0 WHEN taken_micros <> '{}' THEN (
                    SELECT count(*) FROM unnest(taken_micros) t
                    WHERE t <= c.now AND t > c.now - 1000000 AND t >= counted_since_micros) END AS last_second,
                greatest(0, coalesce((extract(epoch FROM blocked_until) * 1000000 - c.now) / 1000, 0))::bigint AS silence
            FROM unnest(\(endpoints)::text[]) e (endpoint)
            FULL JOIN repricer.rate_limits r USING (endpoint)
            CROSS JOIN (SELECT coalesce(\(now)::bigint * 1000, repricer.rate_clock()) AS now) c
            """
        ).map { row in
            try Rate(
                endpoint: row.text("endpoint"), lastSecond: row.int64OrNil("last_second"),
                silenceMilliseconds: row.int64("silence"))
        }
    }

    package struct Storage: Sendable, Equatable {
        package struct Table: Sendable, Equatable {
            package var name: String
            /// The oldest month that is kept, and the end of the months that are prepared, in UTC milliseconds.
            package var keptSince: Int64?
            package var preparedUntil: Int64?
            package var bytes: Int64
        }

        package var databaseBytes: Int64
        package var tables: [Table]
    }

    /// How much is stored, and the tables that are kept by month.
    package static func storage(on connection: isolated PostgresConnection) throws -> Storage {
        let size = try connection.query(
            """
            -- name: gaugeDatabaseSize
            SELECT pg_database_size(current_database()) AS bytes
            """
        ).one().int64("bytes")
        let tables = try connection.query(
            """
            -- name: gaugeMonths
            SELECT parent, min(starts_at) AS kept_since, max(ends_at) AS prepared_until, sum(bytes)::bigint AS bytes
            FROM repricer.month_partitions GROUP BY parent
            """
        ).map { row in
            try Storage.Table(
                name: row.text("parent"), keptSince: row.millisecondsOrNil("kept_since"),
                preparedUntil: row.millisecondsOrNil("prepared_until"), bytes: row.int64("bytes"))
        }
        return Storage(databaseBytes: size, tables: tables)
    }
}

import Facts
import Postgres

/// The state that all replicas share, which the health page reads besides the metrics.
enum HealthQueries {
    struct Queues: Sendable, Equatable {
        /// Notifications that are not folded, and those that cannot be.
        var waiting: Int64
        var quarantined: Int64
        var notUnderstood: Int64
        var webhooksPending: Int64
        var webhooksSince: Int64?
        var unsummed: Int64
    }

    static func queues(on connection: isolated PostgresConnection) throws -> Queues {
        let row = try connection.query(
            """
            -- name: healthQueues
            SELECT (SELECT count(*) FROM repricer.inbox WHERE error IS NULL) AS waiting,
                (SELECT count(*) FROM repricer.inbox WHERE error IS NOT NULL) AS quarantined,
                (SELECT count(*) FROM repricer.notifications WHERE NOT understood) AS not_understood,
                w.pending, w.since, (SELECT count(*) FROM (SELECT 1 FROM repricer.stale_figures LIMIT 100000) s) AS unsummed
            FROM (SELECT count(*) AS pending, min(due_since) AS since FROM repricer.webhook_deliveries
                WHERE state = 'pending') w
            """
        ).one()
        return try Queues(
            waiting: row.int64("waiting"), quarantined: row.int64("quarantined"),
            notUnderstood: row.int64("not_understood"), webhooksPending: row.int64("pending"),
            webhooksSince: row.millisecondsOrNil("since"), unsummed: row.int64("unsummed"))
    }

    struct OpenCalls: Sendable, Equatable {
        var kind: String
        var state: String
        var calls: Int64
        var oldestAt: Int64
    }

    /// The open calls by kind and state.
    static func openCalls(on connection: isolated PostgresConnection) throws -> [OpenCalls] {
        try connection.query(
            """
            -- name: healthOpenCalls
            SELECT kind, state, count(*) AS calls, min(prepared_at) AS oldest_at FROM repricer.store_calls
            WHERE settled_at IS NULL GROUP BY kind, state ORDER BY kind, state
            """
        ).map { row in
            try OpenCalls(
                kind: row.text("kind"), state: row.text("state"), calls: row.int64("calls"),
                oldestAt: row.milliseconds("oldest_at"))
        }
    }

    struct Rate: Sendable, Equatable {
        var endpoint: String
        /// The calls of the last second; nil where permits are not remembered.
        var lastSecond: Int64?
        var blockedUntil: Int64?
    }

    static func rates(now: Int64, on connection: isolated PostgresConnection) throws -> [Rate] {
        try connection.query(
            """
            -- name: healthRates
            SELECT endpoint, blocked_until, CASE WHEN taken_micros <> '{}' THEN (
                SELECT count(*) FROM unnest(taken_micros) t
                WHERE t <= \(now)::bigint * 1000 AND t > (\(now)::bigint - 1000) * 1000
                    -- Earlier ones only stand for the window that was free, and are no calls.
                    AND t >= counted_since_micros) END AS last_second
            FROM repricer.rate_limits ORDER BY endpoint
            """
        ).map { row in
            try Rate(
                endpoint: row.text("endpoint"), lastSecond: row.int64OrNil("last_second"),
                blockedUntil: row.millisecondsOrNil("blocked_until"))
        }
    }

    struct Work: Sendable, Equatable {
        var name: String
        var lastRunAt: Int64?
        var nextRunAt: Int64?
    }

    /// The work that one replica at a time does.
    static func work(on connection: isolated PostgresConnection) throws -> [Work] {
        try connection.query(
            """
            -- name: healthWork
            SELECT name, last_run_at, next_run_at FROM repricer.service_leases ORDER BY name
            """
        ).map { row in
            try Work(
                name: row.text("name"), lastRunAt: row.millisecondsOrNil("last_run_at"),
                nextRunAt: row.millisecondsOrNil("next_run_at"))
        }
    }

    static func serverVersion(on connection: isolated PostgresConnection) throws -> String {
        try connection.query(
            """
            -- name: healthServerVersion
            SELECT current_setting('server_version') AS version
            """
        ).one().text("version")
    }
}

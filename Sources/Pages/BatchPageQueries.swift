import Facts
import Postgres
import Pricing

/// The counts of a batch's page that are in no report.
enum BatchPageQueries {
    /// Changes that take effect on one day, UTC.
    struct Day: Sendable, Equatable {
        var day: CivilDate
        /// The number that was approved for the day.
        var forecast: Int64
        var effective: Int64
        /// The open changes that are due on that day as of now.
        var due: Int64
    }

    static func days(
        of batchID: String, on connection: isolated PostgresConnection
    ) throws -> [Day] {
        try connection.query(
            """
            -- name: batchPageDays
            SELECT to_char(d.day, 'YYYY-MM-DD') AS day,
                coalesce(sum(g.rows) FILTER (WHERE d.kind = 'forecast'), 0)::bigint AS forecast,
                coalesce(sum(g.rows) FILTER (WHERE d.kind = 'effective'), 0)::bigint AS effective,
                coalesce(sum(g.rows) FILTER (WHERE d.kind = 'due'), 0)::bigint AS due
            FROM (
                -- Counted by two days first: a batch has many rows and few days.
                SELECT (c.forecast_effective_at AT TIME ZONE 'UTC')::date AS forecast,
                    (coalesce(c.effective_at, c.due_effective_at) AT TIME ZONE 'UTC')::date AS came,
                    CASE WHEN c.state = 'effective' THEN 'effective' WHEN c.stage IN \(fragment: HomeQueries.openStages)
                        THEN 'due' END AS kind, count(*) AS rows
                FROM repricer.price_changes c
                WHERE c.batch_id = \(uuid: batchID) AND NOT c.is_held_out
                GROUP BY 1, 2, 3) g
            CROSS JOIN LATERAL (VALUES ('forecast', g.forecast), (g.kind, g.came)) AS d (kind, day)
            WHERE d.kind IS NOT NULL
            GROUP BY 1 ORDER BY 1
            """
        ).compactMap { row in
            guard let day = CivilDate(try row.text("day")) else { return nil }
            return try Day(
                day: day, forecast: row.int64("forecast"), effective: row.int64("effective"),
                due: row.int64("due"))
        }
    }

    struct Exception: Sendable, Equatable {
        var name: String
        var charges: Int64
    }

    /// The charge exceptions by kind, as far as they are in the stored figures.
    static func exceptions(
        of batchID: String, on connection: isolated PostgresConnection
    ) throws -> [Exception] {
        try connection.query(
            """
            -- name: batchPageExceptions
            SELECT exception, count(*) AS charges FROM repricer.kept_exceptions
            WHERE batch_id = \(uuid: batchID) GROUP BY exception ORDER BY charges DESC, exception
            """
        ).map { try Exception(name: $0.text("exception"), charges: $0.int64("charges")) }
    }

    struct Ended: Sendable, Equatable {
        var state: String
        var reason: String
        var rows: Int64
    }

    /// Why changes ended without taking effect, the most frequent reasons first.
    static func ended(
        of batchID: String, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [Ended] {
        try connection.query(
            """
            -- name: batchPageEnded
            SELECT stage, coalesce(reason, '') AS reason, count(*) AS rows FROM repricer.price_changes
            WHERE batch_id = \(uuid: batchID) AND stage IN ('declined', 'cancelled', 'lapsed', 'invalidated', 'rejected',
                'ineligible', 'missed', 'aborted')
            GROUP BY 1, 2 ORDER BY rows DESC, 1, 2 LIMIT \(limit)
            """
        ).map {
            try Ended(state: $0.text("stage"), reason: $0.text("reason"), rows: $0.int64("rows"))
        }
    }
}

import Postgres

/// The precomputed figures of reports.
enum FigureQueries {
    /// Recomputes the figures of up to `limit` marks, and returns for how many subscriptions. It runs in a transaction
    /// with one snapshot.
    static func summarise(
        limit: Int, on connection: isolated PostgresConnection
    ) throws -> Int {
        try connection.query(
            """
            -- name: summariseFigures
            SELECT repricer.summarise_figures(\(limit)::integer) AS subscriptions
            """
        ).one().int("subscriptions")
    }
}

import Postgres

/// The figures that reports keep beside the facts.
enum FigureQueries {
    /// Computes anew the figures of up to `limit` marks; returns of how many subscriptions. In a transaction of one
    /// snapshot.
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

import Postgres

/// The figures that reports keep beside the facts.
enum FigureQueries {
    /// Computes the figures of up to `limit` marks anew, and returns of how many subscriptions. It runs in a
    /// transaction of one snapshot.
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

package import Postgres

/// What callers of the Ledger hold: a pool for short work, a connection inside a transaction. They draw the
/// transaction's border; the SQL inside it is ours. The aliases spare them the import of `Postgres`.
package typealias LedgerPool = PostgresPool
package typealias LedgerConnection = PostgresConnection
package typealias LedgerStatement = SQL
package typealias LedgerDatabaseError = PostgresError

extension PostgresConnection {
    /// Runs several queries without leaving the connection's thread in between.
    package func read<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> T
    ) throws -> T {
        try body(self)
    }
}

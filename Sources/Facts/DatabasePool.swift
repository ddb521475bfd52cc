package import Postgres

/// What users of Facts hold: a pool for short work, and a connection inside a transaction. They decide where a
/// transaction begins and ends; the SQL inside it stands here. With these aliases they need not import `Postgres`.
package typealias DatabasePool = PostgresPool
package typealias DatabaseConnection = PostgresConnection
package typealias DatabaseStatement = SQL
package typealias DatabaseServerError = PostgresError

extension PostgresConnection {
    /// Runs several queries without leaving the connection's thread in between.
    package func read<T: Sendable>(
        _ body: @Sendable (isolated PostgresConnection) throws -> T
    ) throws -> T {
        try body(self)
    }
}

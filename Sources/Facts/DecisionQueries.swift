package import Postgres

extension PostgresConnection {
    /// Calls a database function that decides, records the decision and answers in the column `answer`. Logs name the
    /// statement `name`.
    package func decide(_ name: String, _ call: SQL) throws -> Row {
        try query(
            """
            -- name: \(unsafe: name)
            SELECT \(fragment: call) AS answer
            """
        ).one()
    }
}

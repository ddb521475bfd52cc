package import Postgres

extension PostgresConnection {
    /// Calls a function of the database that decides, records it and answers, in the column `answer`. `name` is that of
    /// the statement in logs.
    package func decide(_ name: String, _ call: SQL) throws -> Row {
        try query(
            """
            -- name: \(unsafe: name)
            SELECT \(fragment: call) AS answer
            """
        ).one()
    }
}

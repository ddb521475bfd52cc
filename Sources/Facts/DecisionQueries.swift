package import Postgres

extension PostgresConnection {
    /// Calls a database function that decides, records the decision and answers in the column `answer`. Logs name the
    /// statement `name`.
    ///
    /// - Parameter onlyHoldsBack: Whether the decision only holds calls back. A program older than the newest breaking
    ///   migration may make no other decisions.
    package func decide(
        _ name: String, _ call: SQL, onlyHoldsBack: Bool = false
    ) throws -> Row {
        try query(
            """
            -- name: \(unsafe: name)
            SELECT \(fragment: call) AS answer
            WHERE \(fragment: onlyHoldsBack ? "true" : ServiceControlQueries.allowsThisProgram)
            """
        ).one()
    }
}

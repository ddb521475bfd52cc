package import Postgres

extension PostgresConnection {
    /// Calls a database function that decides, records the decision and answers in the column `answer`. Logs name the
    /// statement `name`.
    ///
    /// - Parameter onlyHoldsBack: A program of before the newest breaking migration decides nothing more, but for what
    ///   only holds calls back.
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

package import Postgres
package import Pricing

/// Past increases that a person imported, because no notification told of them.
package enum ImportedIncreaseQueries {
    /// The increases of subscriptions, by their ids, in the order of their days. A day stands for its first instant
    /// in UTC.
    package typealias Found = [String: [PastIncrease]]

    /// The increases of subscriptions that share a bucket.
    package static func increases(of ids: [String]) -> Question<Found> {
        guard !ids.isEmpty else { return .answered([:]) }
        return Question(
            """
            -- name: importedIncreases
            SELECT original_transaction_id, sku, increased_on
            FROM repricer.imported_increases
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
            ORDER BY original_transaction_id, increased_on, sku
            """, found)
    }

    /// The increases of any subscriptions that had been imported by an instant; nil asks for all.
    package static func rows(
        of ids: [String], knownAt known: Instant?, on connection: isolated PostgresConnection
    ) throws -> Rows {
        try connection.query(
            """
            -- name: importedIncreasesOfMany
            SELECT original_transaction_id, sku, increased_on
            FROM repricer.imported_increases i
            WHERE original_transaction_id = ANY (\(ids)::text[])
                AND (\(timestamp: known?.milliseconds)::timestamptz IS NULL OR EXISTS (
                    SELECT FROM repricer.history_imports h WHERE h.number = i.number
                        AND h.imported_at <= \(timestamp: known?.milliseconds)::timestamptz))
            ORDER BY original_transaction_id, increased_on, sku
            """)
    }

    package static func found(_ rows: some Sequence<Row>) throws -> Found {
        var found: Found = [:]
        for row in rows {
            guard let day = CivilDate(try row.text("increased_on")) else {
                throw FactsError.unreadable("increased_on of an imported increase")
            }
            found[try row.text("original_transaction_id"), default: []].append(
                PastIncrease(sku: try row.text("sku"), at: day.startAt, source: .imported))
        }
        return found
    }
}

import Facts
package import Postgres
import Pricing

/// Past increases that a person imports.
package enum IncreaseQueries {
    /// All stored increases of these subscriptions.
    package static func load(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> [ImportedIncrease] {
        try connection.query(
            """
            -- name: storedIncreases
            SELECT original_transaction_id, sku, increased_on, old_price_milliunits, new_price_milliunits, currency
            FROM repricer.imported_increases WHERE original_transaction_id = ANY (\(ids)::text[])
            """
        ).map { row in
            guard let day = CivilDate(try row.text("increased_on")) else {
                throw FactsError.unreadable("increased_on of an imported increase")
            }
            return try ImportedIncrease(
                originalTransactionID: row.text("original_transaction_id"), sku: row.text("sku"),
                increasedOn: day, oldPrice: row.int64("old_price_milliunits"),
                newPrice: row.int64("new_price_milliunits"), currency: row.text("currency"))
        }
    }

    /// How many of these subscriptions nothing was received of yet.
    package static func unknown(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> Int {
        try connection.query(
            """
            -- name: unknownSubscriptions
            SELECT count(*) AS unknown FROM unnest(\(ids)::text[]) AS id
            LEFT JOIN repricer.subscriptions s ON s.original_transaction_id = id AND s.bucket = repricer.bucket_of(id)
            WHERE s.bucket IS NULL
            """
        ).one().int("unknown")
    }

    /// The rows whose item the subscription never had, as far as we know: it renews no such item, none was charged, and
    /// no change of ours named one. Subscriptions without any received data are left out.
    package static func ofUnknownItems(
        _ rows: [IncreaseFile.Row], on connection: isolated PostgresConnection
    ) throws -> [IncreaseFile.Row] {
        let keys = Set(rows.map { ItemKey($0.increase) }).sorted()
        let unknown = try connection.query(
            """
            -- name: unknownItems
            SELECT p.id, p.sku
            FROM unnest(\(keys.map(\.id))::text[], \(keys.map(\.sku))::text[]) AS p (id, sku)
            JOIN repricer.subscriptions s
                ON s.original_transaction_id = p.id AND s.bucket = repricer.bucket_of(p.id)
            WHERE NOT s.items @> jsonb_build_array(jsonb_build_object('sku', p.sku))
                AND NOT EXISTS (
                    SELECT FROM repricer.charges c
                    WHERE c.original_transaction_id = p.id AND c.bucket = s.bucket AND c.sku = p.sku)
                AND NOT EXISTS (
                    SELECT FROM repricer.price_changes c
                    WHERE c.original_transaction_id = p.id AND c.bucket = s.bucket
                        AND p.sku IN (c.sku, c.current_sku, c.called_sku))
            """
        ).map { try ItemKey(id: $0.text("id"), sku: $0.text("sku")) }
        let found = Set(unknown)
        return rows.filter { found.contains(ItemKey($0.increase)) }
    }

    fileprivate struct ItemKey: Hashable, Comparable {
        var id: String
        var sku: String

        static func < (left: ItemKey, right: ItemKey) -> Bool {
            (left.id, left.sku) < (right.id, right.sku)
        }
    }

    /// Stores increases as the next import, and returns its number. The database records who imports. `at` is UTC
    /// milliseconds. Throws a unique violation where an increase is stored already, or where another import took the
    /// number.
    package static func add(
        _ increases: [ImportedIncrease], file: String, contentSHA256: String, at: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Int {
        try connection.decide(
            "importHistory",
            """
            repricer.import_history(\(file)::text, \(contentSHA256)::text, \(timestamp: at),
                \(increases.map(\.originalTransactionID)), \(increases.map(\.sku)),
                \(increases.map(\.increasedOn.text))::text[]::date[], \(increases.map(\.oldPrice)),
                \(increases.map(\.newPrice)), \(increases.map(\.currency)))
            """
        ).int("answer")
    }
}

extension IncreaseQueries.ItemKey {
    fileprivate init(_ increase: ImportedIncrease) {
        self.init(id: increase.originalTransactionID, sku: increase.sku)
    }
}

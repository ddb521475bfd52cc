package import Postgres

/// The storefronts of subscriptions.
package enum StorefrontQueries {
    /// The number of subscriptions that have not ended, by storefront.
    package static func open(
        on connection: isolated PostgresConnection
    ) throws -> [String: Int64] {
        let rows = try connection.query(
            """
            -- name: openStorefronts
            SELECT storefront, count(*) AS subscriptions FROM repricer.subscriptions
            WHERE storefront IS NOT NULL AND coalesce(status IN (1, 3, 4), true)
            GROUP BY storefront
            """)
        var storefronts: [String: Int64] = [:]
        for row in rows {
            storefronts[try row.text("storefront")] = try row.int64("subscriptions")
        }
        return storefronts
    }
}

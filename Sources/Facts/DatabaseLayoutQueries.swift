import Postgres

/// Where the tables of subscriptions are.
package enum DatabaseLayout: Sendable, Equatable {
    /// In one PostgreSQL. A statement may search all buckets in whatever way is the fastest.
    case whole
    /// Spread over the nodes of a Citus cluster by `bucket`. There a statement that searches all buckets must not lock
    /// rows or use recursion, and may join only within a bucket.
    case spread

    /// The layout that tests set, so that the statements of a spread database run on a plain one.
    @TaskLocal package static var assumed: DatabaseLayout?

    package static func read(on connection: isolated DatabaseConnection) throws -> DatabaseLayout {
        if let assumed { return assumed }
        // The table to query exists only where the extension is installed.
        let hasCitus = try connection.query(
            """
            -- name: hasCitus
            SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL AS has_citus
            """
        ).one().bool("has_citus")
        guard hasCitus else { return .whole }
        // It compares the name, because a finance user may not resolve a regclass.
        let isSpread = try connection.query(
            """
            -- name: isSpread
            SELECT EXISTS (
                SELECT FROM pg_catalog.pg_dist_partition p
                JOIN pg_catalog.pg_class c ON c.oid = p.logicalrelid
                JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
                WHERE n.nspname = 'repricer' AND c.relname = 'price_changes') AS is_spread
            """
        ).one().bool("is_spread")
        return isSpread ? .spread : .whole
    }
}

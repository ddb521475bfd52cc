package import Postgres
import Synchronization

/// Whether the tables are spread over several machines by Citus (`Deploy/citus`). Nearly every statement is the same there.
/// Those that search all buckets with a lock, a recursion or a condition of another table are asked in another form,
/// which would read too much of one machine.
package enum SpreadQueries {
    package static func isSpread(_ connection: isolated PostgresConnection) throws -> Bool {
        try connection.query(
            """
            -- name: isSpread
            SELECT to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL AS is_spread
            """
        ).one().bool("is_spread")
    }
}

/// Remembers the answer, because it never changes.
package final class SpreadMemory: Sendable {
    private let known = Mutex<Bool?>(nil)

    package init() {}

    package func isSpread(_ connection: isolated PostgresConnection) throws -> Bool {
        if let known = known.withLock(\.self) { return known }
        let isSpread = try SpreadQueries.isSpread(connection)
        known.withLock { $0 = isSpread }
        return isSpread
    }
}

package import Postgres

/// How long statements wait for what another session holds.
package enum LockWaitQueries {
    /// Limits the wait for each lock in the rest of the transaction. A statement that waits longer fails with 55P03.
    package static func limit(milliseconds: Int64) -> SQL {
        SQL(unsafe: "SET LOCAL lock_timeout = \(max(1, min(milliseconds, 86_400_000)))")
    }
}

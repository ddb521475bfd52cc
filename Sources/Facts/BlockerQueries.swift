package import Postgres

/// Who holds rows that the service needs. Claims and folds pass locked subscriptions over. So they wait for nobody, and
/// the server names no blocker for them. It names the one of a change that is held, for as long as a claim waits for it.
package enum BlockerQueries {
    /// A session of another database user, with locks that writers of our tables hold.
    package struct Session: Sendable, Equatable {
        package var pid: Int
        package var user: String
        package var application: String
        /// When its transaction began, in UTC milliseconds; nil where this database user may not see it.
        package var since: Int64?
        /// Names the transaction, so that two sights of a session can be told to be of the same one.
        package var transaction: String
        /// Whether calls and folds wait for what it has locked. A session that submits a batch, for example, holds
        /// nothing that they need.
        package var isInTheWay: Bool
    }

    private static let sessionsMax = 5

    /// The session with the oldest transaction comes first, as far as this database user may see the ages.
    package static func sessions(
        on connection: isolated PostgresConnection
    ) throws -> [Session] {
        try connection.query(
            """
            -- name: blockingSessions
            WITH waiting AS (
                SELECT DISTINCT w.pid FROM pg_locks w JOIN pg_stat_activity s ON s.pid = w.pid
                WHERE NOT w.granted AND s.datname = current_database()
            ), holders AS (
                SELECT DISTINCT b.pid FROM waiting w CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) AS b (pid)
            )
            SELECT a.pid, a.usename, coalesce(a.application_name, '') AS application, min(a.xact_start) AS since,
                l.virtualtransaction AS transaction,
                -- Each decision locks the head of the audit trail until its transaction ends. Whoever submits writes changes,
                -- and locks none that are there already. A session that waits for another is not the one to be ended.
                (bool_or(l.mode NOT IN ('RowShareLock', 'RowExclusiveLock') OR l.relation IN (
                        'repricer.subscriptions'::regclass, 'repricer.bucket_turns'::regclass,
                        'repricer.store_calls'::regclass, 'repricer.service_controls'::regclass,
                        'repricer.audit_head'::regclass)
                        OR l.mode = 'RowShareLock' AND l.relation = 'repricer.price_changes'::regclass)
                    OR a.pid IN (SELECT h.pid FROM holders h))
                    AND a.pid NOT IN (SELECT w.pid FROM waiting w) AS is_in_the_way
            FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
            WHERE l.granted AND l.mode IN ('RowShareLock', 'RowExclusiveLock', 'ShareLock', 'ShareRowExclusiveLock',
                    'ExclusiveLock', 'AccessExclusiveLock')
                AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())
                AND l.relation IN ('repricer.subscriptions'::regclass, 'repricer.price_changes'::regclass,
                    'repricer.batches'::regclass, 'repricer.bucket_turns'::regclass,
                    'repricer.store_calls'::regclass, 'repricer.service_controls'::regclass,
                    'repricer.audit_head'::regclass)
                AND a.usename <> current_user
            GROUP BY a.pid, a.usename, a.application_name, l.virtualtransaction
            ORDER BY is_in_the_way DESC, since, a.pid LIMIT \(sessionsMax)
            """
        ).map { row in
            try Session(
                pid: row.int("pid"), user: row.text("usename"),
                application: row.text("application"), since: row.millisecondsOrNil("since"),
                transaction: row.text("transaction"), isInTheWay: row.bool("is_in_the_way"))
        }
    }
}

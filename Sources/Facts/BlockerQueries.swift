package import Postgres

/// Who holds rows that the service needs. Claims and folds skip locked subscriptions, and a claim waits only briefly
/// for a held change. So the server shows no blocker for them, and we must look for it.
package enum BlockerQueries {
    /// A session of another database user, with locks that writers of our tables hold.
    package struct Session: Sendable, Equatable {
        package var pid: Int
        package var user: String
        package var application: String
        /// When its transaction began, in UTC milliseconds; nil where this database user may not see it.
        package var since: Int64?
        /// Identifies the transaction, so that two observations of a session can be compared.
        package var transaction: String
        /// Whether calls and folds wait for what it has locked. A session that submits a batch, for example, holds
        /// nothing that they need.
        package var isInTheWay: Bool
    }

    private static let sessionsMax = 5

    /// The session with the oldest transaction comes first, as far as this database user may see the ages.
    ///
    /// - Parameter holdingChanges: Whether claims have met locked changes. Then any session that has written or locked
    ///   a change may hold them.
    package static func sessions(
        holdingChanges: Bool, on connection: isolated PostgresConnection
    ) throws -> [Session] {
        try connection.query(
            """
            -- name: blockingSessions
            WITH listed AS (
                SELECT a.pid, a.usename, coalesce(a.application_name, '') AS application, min(a.xact_start) AS since,
                    l.virtualtransaction AS transaction,
                    -- Each decision locks the head of the audit trail until its transaction ends.
                    bool_or(l.mode NOT IN ('RowShareLock', 'RowExclusiveLock') OR l.relation IN (
                        'repricer.subscriptions'::regclass, 'repricer.bucket_turns'::regclass,
                        'repricer.store_calls'::regclass, 'repricer.service_controls'::regclass,
                        'repricer.audit_head'::regclass)
                        OR \(holdingChanges) AND l.relation = 'repricer.price_changes'::regclass) AS is_in_the_way
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
            ), waiting AS (
                SELECT w.pid, w.is_in_the_way, pg_blocking_pids(w.pid) AS others FROM listed w
            )
            -- A session that waits for another one of these is not the one to end.
            SELECT s.pid, s.usename, s.application, s.since, s.transaction,
                (s.is_in_the_way OR EXISTS (SELECT FROM waiting w WHERE w.is_in_the_way AND s.pid = ANY (w.others)))
                    AND NOT EXISTS (
                        SELECT FROM waiting w JOIN listed o ON o.pid = ANY (w.others) WHERE w.pid = s.pid) AS is_in_the_way
            FROM listed s
            ORDER BY is_in_the_way DESC, s.since, s.pid LIMIT \(sessionsMax)
            """
        ).map { row in
            try Session(
                pid: row.int("pid"), user: row.text("usename"),
                application: row.text("application"), since: row.millisecondsOrNil("since"),
                transaction: row.text("transaction"), isInTheWay: row.bool("is_in_the_way"))
        }
    }
}

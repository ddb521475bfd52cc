package import Postgres

/// Leases for work that only one replica does at a time. A row names the owner until the lease ends. Leases end in real
/// time, because a dead process is dead in real time, while the service's clock decides when the work is due.
package enum LeaseQueries {
    /// Takes the lease when nobody holds it. Returns false where another process does, or where the work is not due
    /// at `now`; `now: nil` takes it whether it is due or not.
    package static func take(
        _ name: String, owner: String, until: Int64, realNow: Int64, now: Int64?,
        on connection: isolated PostgresConnection
    ) throws -> Bool {
        _ = try connection.execute(
            """
            -- name: createLease
            INSERT INTO repricer.service_leases (name) VALUES (\(name)) ON CONFLICT DO NOTHING
            """)
        return try connection.execute(
            """
            -- name: takeLease
            UPDATE repricer.service_leases
            SET owner = \(uuid: owner), leased_until = \(timestamp: until)
            WHERE name = \(name)
                AND (owner IS NULL OR owner = \(uuid: owner) OR leased_until <= \(timestamp: realNow))
                AND (\(timestamp: now)::timestamptz IS NULL OR next_run_at IS NULL
                    OR next_run_at <= \(timestamp: now))
            """) == 1
    }

    /// Prolongs a lease. Returns false where it was lost.
    package static func renew(
        _ name: String, owner: String, until: Int64, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.execute(
            """
            -- name: renewLease
            UPDATE repricer.service_leases SET leased_until = \(timestamp: until)
            WHERE name = \(name) AND owner = \(uuid: owner)
            """) == 1
    }

    /// Releases the lease, and says when the work is due again; nil leaves that as it was.
    package static func release(
        _ name: String, owner: String, ranAt: Int64?, nextRunAt: Int64?
    ) -> SQL {
        """
        -- name: releaseLease
        UPDATE repricer.service_leases SET owner = NULL, leased_until = NULL,
            last_run_at = coalesce(\(timestamp: ranAt)::timestamptz, last_run_at),
            next_run_at = coalesce(\(timestamp: nextRunAt)::timestamptz, next_run_at)
        WHERE name = \(name) AND owner = \(uuid: owner)
        """
    }
}

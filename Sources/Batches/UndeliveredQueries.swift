import Facts
package import Postgres

/// Whether any process delivers. A process that delivers requests permits as soon as a change is due. So where changes
/// are due and no permit was requested for a while, no such process runs.
package enum UndeliveredQueries {
    /// Changes are due and calls are allowed, but no process requests permits.
    package struct Undelivered: Sendable, Equatable {
        /// The last permit for a price change, in UTC milliseconds; nil where none was ever requested.
        package var askedAt: Int64?
    }

    /// After this time without a request for permits, no process delivers. Halted and throttled kinds are not reported
    /// here, because they request one only once a minute or less, and their halt is reported itself.
    private static let silenceMicros: Int64 = 180_000_000

    /// Returns nil where nothing is due, calls are held back, or a process requests permits. For a minute after any
    /// decision it returns nil too.
    package static func find(
        now: Int64, on connection: isolated PostgresConnection
    ) throws -> Undelivered? {
        let silent = try connection.query(
            """
            -- name: silentDelivery
            WITH clock AS (SELECT to_timestamp(repricer.rate_clock() / 1000000.0) AS at)
            SELECT to_timestamp(nullif(l.next_permit_micros, 0) / 1000000.0) AS asked_at, (SELECT at FROM clock) AS real_now
            FROM repricer.service_controls s
            LEFT JOIN repricer.rate_limits l ON l.endpoint = 'change_price'
            WHERE NOT \(fragment: ServiceControlQueries.isHeld)
                AND s.halted_at IS NULL AND NOT s.halted_kinds ? 'price_change' AND NOT s.throttled_kinds ? 'price_change'
                AND coalesce(l.blocked_until <= \(timestamp: now), true)
                AND coalesce(l.next_permit_micros, 0)
                    < \(now)::bigint * 1000 - \(silenceMicros)::bigint * coalesce(s.clock_rate, 1)
                AND NOT EXISTS (
                    SELECT 1 FROM (SELECT recorded_at FROM repricer.audit_trail ORDER BY sequence DESC LIMIT 1) a
                    WHERE a.recorded_at > (SELECT at FROM clock) - interval '1 minute')
            """
        ).oneOrNil()
        // These are two queries, because the changes are spread by bucket and the other tables are not.
        guard let silent,
            try isAnythingDue(now: now, realNow: silent.milliseconds("real_now"), on: connection)
        else { return nil }
        return Undelivered(askedAt: try silent.millisecondsOrNil("asked_at"))
    }

    private static func isAnythingDue(
        now: Int64, realNow: Int64, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try !connection.query(
            """
            -- name: undeliveredChanges
            SELECT 1 FROM repricer.price_changes c
            JOIN repricer.batches b ON b.batch_id = c.batch_id
            WHERE b.state = 'approved' AND NOT b.is_paused
                AND c.stage = 'queued' AND c.state = 'queued' AND NOT c.is_held
                AND c.wave <= b.released_wave AND NOT b.halted_storefronts ? c.storefront
                AND (c.is_ready OR c.send_after <= \(timestamp: now))
                AND (c.next_attempt_at IS NULL OR c.next_attempt_at <= \(timestamp: realNow))
            LIMIT 1
            """
        ).isEmpty
    }
}

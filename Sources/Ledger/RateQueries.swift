package import Postgres

/// The calls that one endpoint may be sent, over all processes and replicas.
package struct CallRate: Hashable, Sendable {
    /// Slots lie this share further apart than the rate asks, in thousandths: what is left of a second after its
    /// calls. A call may reach Apple that much later than another did and still not crowd a window.
    package static let marginPerMille = 15

    package var endpoint: String
    /// Calls in any second; at least 1.
    package var perSecond: Int
    /// How far ahead slots are reserved. A silence, a pause or a step of the clock concerns no call beyond it.
    package var horizonMicros: Int64

    package init(endpoint: String, perSecond: Int, horizonMicros: Int64 = 500_000) {
        self.endpoint = endpoint
        self.perSecond = min(max(1, perSecond), 1_000_000)
        self.horizonMicros = max(1, horizonMicros)
    }

    /// Microseconds between two slots, rounded up.
    package var spacingMicros: Int64 {
        let calls = Int64(perSecond) * 1000
        return (1_000_000 * Int64(1000 + Self.marginPerMille) + calls - 1) / calls
    }
}

/// The rate limit of each endpoint over all replicas: one small row an endpoint holds the first free instant. Who
/// wants to call moves it on, and owns what lies between; slots of a process that dies are lost.
package enum RateQueries {
    /// A run of slots that nobody else has.
    package struct Lease: Sendable, Hashable {
        package var granted: Int
        /// Microseconds since 1970 by the clock that was asked.
        package var firstAtMicros: Int64
        /// From the moment of the answer until the first slot.
        package var delayMicros: Int64
        /// UTC milliseconds: Apple asked for silence until then.
        package var blockedUntil: Int64?

        package init(
            granted: Int, firstAtMicros: Int64, delayMicros: Int64, blockedUntil: Int64? = nil
        ) {
            self.granted = granted
            self.firstAtMicros = firstAtMicros
            self.delayMicros = delayMicros
            self.blockedUntil = blockedUntil
        }
    }

    /// Reserves up to `wanted` slots within the horizon, none in the past. `nowMicros` is a rehearsal's clock; nil
    /// asks the database's, so that no replica's own clock matters.
    ///
    /// A clock that was set back would keep slots in a far future: nobody reserves that far, so they count for
    /// none, and the next ones start where the last honest lease must have ended.
    package static func lease(
        _ rate: CallRate, wanted: Int, nowMicros: Int64?, on connection: isolated PostgresConnection
    ) throws -> Lease {
        if let lease = try take(rate, wanted: wanted, nowMicros: nowMicros, on: connection) {
            return lease
        }
        _ = try connection.execute(
            """
            -- name: createRateLimit
            INSERT INTO repricer.rate_limits (endpoint) VALUES (\(rate.endpoint)) ON CONFLICT DO NOTHING
            """)
        return try take(rate, wanted: wanted, nowMicros: nowMicros, on: connection)
            ?? Lease(granted: 0, firstAtMicros: 0, delayMicros: 0, blockedUntil: nil)
    }

    /// nil when the endpoint has no row yet. The clock is read after the row's lock: waiting for it must not make
    /// slots start in the past.
    private static func take(
        _ rate: CallRate, wanted: Int, nowMicros: Int64?, on connection: isolated PostgresConnection
    ) throws -> Lease? {
        let (horizon, spacing) = (rate.horizonMicros, rate.spacingMicros)
        let row = try connection.query(
            """
            -- name: leaseSlots
            WITH held AS MATERIALIZED (
                SELECT endpoint, next_slot_micros, blocked_until FROM repricer.rate_limits
                WHERE endpoint = \(rate.endpoint) FOR UPDATE
            ), timed AS MATERIALIZED (
                SELECT *, coalesce(\(nowMicros)::bigint, repricer.rate_clock()) AS now FROM held
            ), placed AS MATERIALIZED (
                SELECT endpoint, now, next_slot_micros,
                    CASE WHEN extract(epoch FROM blocked_until) * 1000000 > now THEN blocked_until END
                        AS blocked_until,
                    CASE WHEN next_slot_micros > now + 2 * (\(horizon)::bigint + \(spacing)::bigint)
                        THEN now + \(horizon)::bigint + \(spacing)::bigint
                        ELSE greatest(next_slot_micros, now) END AS first
                FROM timed
            ), granted AS MATERIALIZED (
                SELECT endpoint, now, first, blocked_until, first < next_slot_micros AS is_set_back,
                    CASE WHEN blocked_until IS NOT NULL THEN 0
                        ELSE greatest(0, least(\(Int64(wanted)),
                            (now + \(horizon)::bigint - first + \(spacing)::bigint - 1)
                                / \(spacing)::bigint)) END AS slots
                FROM placed
            ), moved AS (
                UPDATE repricer.rate_limits r
                SET next_slot_micros = g.first + g.slots * \(spacing)::bigint
                FROM granted g WHERE r.endpoint = g.endpoint
                    AND (g.slots > 0 OR g.is_set_back)
            )
            SELECT slots, first, first - now AS delay, blocked_until FROM granted
            """
        ).oneOrNil()
        guard let row else { return nil }
        return Lease(
            granted: try row.int("slots"), firstAtMicros: try row.int64("first"),
            delayMicros: try row.int64("delay"),
            blockedUntil: try row.millisecondsOrNil("blocked_until"))
    }

    /// The clock that all replicas share; microseconds since 1970.
    package static func clockMicros(on connection: isolated PostgresConnection) throws -> Int64 {
        try connection.query(
            """
            -- name: sharedClock
            SELECT repricer.rate_clock() AS now
            """
        ).one().int64("now")
    }

    /// Gives back the end of a lease that no call will use, unless somebody reserved beyond it meanwhile.
    package static func giveBack(_ rate: CallRate, _ lease: Lease, used: Int) -> SQL {
        let spacing = rate.spacingMicros
        let end = lease.firstAtMicros + Int64(lease.granted) * spacing
        return """
            -- name: giveBackSlots
            UPDATE repricer.rate_limits
            SET next_slot_micros = \(lease.firstAtMicros + Int64(used) * spacing)
            WHERE endpoint = \(rate.endpoint) AND next_slot_micros = \(end)
            """
    }

    /// A 429 silences the endpoint for every replica.
    package static func block(endpoint: String, until: Int64) -> SQL {
        """
        -- name: blockEndpoint
        UPDATE repricer.rate_limits
        SET blocked_until = greatest(blocked_until, \(timestamp: until)::timestamptz)
        WHERE endpoint = \(endpoint)
        """
    }
}

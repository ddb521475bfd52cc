package import Postgres

/// The calls that one endpoint may be sent, over all processes and replicas.
package struct CallRate: Hashable, Sendable {
    /// By how many thousandths the window is longer than a second. So a call may reach Apple up to that much later than
    /// others, without more calls in a second than allowed.
    package static let marginPerMille: Int64 = 15
    /// The distance of permits that make up for missed ones, in thousandths of the even distance. It is nearly the even
    /// distance, so that a delayed call can be told from one too many.
    private static let catchUpPerMille: Int64 = 900
    /// The most permits a second that are remembered. A faster endpoint's permits only keep their distance.
    private static let rememberedMax = 1000.0
    /// In microseconds. With a longer horizon permits are not remembered either: only a rehearsal's clock reserves that
    /// far ahead, and it misses none.
    private static let rememberedHorizonMax: Int64 = 1_000_000

    package var endpoint: String
    /// Calls in any second. It may be below one, as in Sandbox, but not below one in a thousand seconds.
    package var perSecond: Double
    /// How far ahead permits are reserved. A silence, a pause or a step of the clock concerns no call beyond it.
    package var horizonMicros: Int64

    package init(endpoint: String, perSecond: Double, horizonMicros: Int64 = 500_000) {
        self.endpoint = endpoint
        self.perSecond = min(max(0.001, perSecond), 1_000_000)
        self.horizonMicros = max(1, horizonMicros)
    }

    /// The window that holds no more than `perSecond` permits, in microseconds.
    package var windowMicros: Int64 { 1000 * (1000 + Self.marginPerMille) }

    /// Microseconds between two permits at an even pace, rounded up.
    package var spacingMicros: Int64 {
        Int64((Double(windowMicros) / perSecond).rounded(.up))
    }

    /// The least distance between two permits, in microseconds.
    package var gapMicros: Int64 {
        isRemembered ? spacingMicros * Self.catchUpPerMille / 1000 : spacingMicros
    }

    /// The permits of a window, where they are counted; 0 where only their distance keeps the rate, as it does where a
    /// window holds no whole number of them.
    var rememberedPermits: Int {
        guard perSecond <= Self.rememberedMax, horizonMicros <= Self.rememberedHorizonMax,
            perSecond == perSecond.rounded()
        else { return 0 }
        return Int(perSecond)
    }

    private var isRemembered: Bool { rememberedPermits > 0 }
}

/// The rate limit of each endpoint over all replicas. An endpoint has one small row with the permits of the last window
/// and of the moments to come. Whoever wants to call adds permits to it. The permits of a process that dies are lost.
package enum RateQueries {
    /// Permits that one process has to itself.
    package struct Lease: Sendable, Hashable {
        /// Their instants in ascending order, in microseconds since 1970 by the clock that was asked.
        package var permits: [Int64]
        /// The instant of the same clock when it answered.
        package var nowMicros: Int64
        /// The earliest instant of a further permit, in microseconds since 1970.
        package var nextMicros: Int64
        /// Until when Apple asked for silence, in UTC milliseconds.
        package var blockedUntil: Int64?

        package init(
            permits: [Int64] = [], nowMicros: Int64 = 0, nextMicros: Int64 = 0,
            blockedUntil: Int64? = nil
        ) {
            self.permits = permits
            self.nowMicros = nowMicros
            self.nextMicros = nextMicros
            self.blockedUntil = blockedUntil
        }
    }

    /// Reserves up to `wanted` permits within the horizon, none of them in the past.
    ///
    /// `missed` are permits of earlier leases that no call has used or will use, so that others may have the room
    /// that they leave in their window. `nowMicros` is a rehearsal's clock; nil asks the database's clock, so that no
    /// replica's own clock matters.
    package static func lease(
        _ rate: CallRate, wanted: Int, missed: [Int64] = [], nowMicros: Int64?,
        on connection: isolated PostgresConnection
    ) throws -> Lease {
        let ask = leasePermits(rate, wanted: wanted, missed: missed, nowMicros: nowMicros)
        if let lease = try taken(connection.query(ask)) { return lease }
        _ = try connection.execute(
            """
            -- name: createRateLimit
            INSERT INTO repricer.rate_limits (endpoint) VALUES (\(rate.endpoint)) ON CONFLICT DO NOTHING
            """)
        return try taken(connection.query(ask)) ?? Lease()
    }

    private static func leasePermits(
        _ rate: CallRate, wanted: Int, missed: [Int64], nowMicros: Int64?
    ) -> SQL {
        """
        -- name: leasePermits
        SELECT now_micros, permits, next_micros, blocked_until FROM repricer.lease_permits(
            \(rate.endpoint), \(wanted), \(nowMicros), \(rate.horizonMicros), \(rate.gapMicros),
            \(rate.windowMicros), \(rate.rememberedPermits), \(missed))
        """
    }

    /// nil where the endpoint has no row yet.
    private static func taken(_ rows: Rows) throws -> Lease? {
        guard let row = try rows.oneOrNil() else { return nil }
        return try Lease(
            permits: row.int64s("permits"), nowMicros: row.int64("now_micros"),
            nextMicros: row.int64("next_micros"),
            blockedUntil: row.millisecondsOrNil("blocked_until"))
    }

    /// The clock that all replicas share, in microseconds since 1970.
    package static func clockMicros(on connection: isolated PostgresConnection) throws -> Int64 {
        try connection.ask(clockMicros)
    }

    package static var clockMicros: Question<Int64> {
        Question(
            """
            -- name: sharedClock
            SELECT repricer.rate_clock() AS now
            """
        ) { try $0.one().int64("now") }
    }

    /// How much longer the endpoint is silent by the clock that all replicas share, in milliseconds; nil where it is not.
    package static func silence(
        of endpoint: String, on connection: isolated PostgresConnection
    ) throws -> Int64? {
        try connection.query(
            """
            -- name: silenceLeft
            SELECT ceil(extract(epoch FROM blocked_until) * 1000 - repricer.rate_clock() / 1000)::bigint AS left_ms
            FROM repricer.rate_limits
            WHERE endpoint = \(endpoint) AND extract(epoch FROM blocked_until) * 1000000 > repricer.rate_clock()
            """
        ).oneOrNil()?.int64OrNil("left_ms")
    }

    /// Releases the permits of a lease that no call will use: all but its first `used`.
    package static func returnUnused(_ rate: CallRate, _ lease: Lease, used: Int) -> SQL {
        let unused = Array(lease.permits.dropFirst(used))
        let end = lease.permits.last.map { $0 + rate.gapMicros } ?? 0
        return """
            -- name: returnPermits
            UPDATE repricer.rate_limits
            SET next_permit_micros = CASE WHEN next_permit_micros = \(end) THEN \(unused.first ?? end)
                    ELSE next_permit_micros END,
                taken_micros = ARRAY(
                    SELECT t FROM unnest(taken_micros) AS t WHERE t <> ALL (\(unused)) ORDER BY t)
            WHERE endpoint = \(rate.endpoint)
            """
    }

    /// Silences the endpoint for every replica after a 429. `now` is a rehearsal's clock, in milliseconds; nil goes by the
    /// database's clock, as permits do, so that no replica's own clock makes the silence longer or shorter for the others.
    package static func block(endpoint: String, milliseconds: Int64, now: Int64?) -> SQL {
        """
        -- name: blockEndpoint
        UPDATE repricer.rate_limits
        SET blocked_until = greatest(blocked_until,
            coalesce(\(timestamp: now)::timestamptz, to_timestamp(repricer.rate_clock() / 1000000.0))
                + \(milliseconds) * interval '1 millisecond')
        WHERE endpoint = \(endpoint)
        """
    }
}

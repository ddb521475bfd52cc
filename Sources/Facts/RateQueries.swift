package import Postgres

/// The calls that one endpoint may be sent, over all processes and replicas.
package struct CallRate: Hashable, Sendable {
    /// A second's calls are spread over this share more than a second, in thousandths. A call may reach Apple that
    /// much later than another did and still not crowd a window.
    package static let marginPerMille: Int64 = 15
    /// What missed slots leave of a window is made up for by slots that lie this share of the even distance apart, in
    /// thousandths: nearly even, so that a call that was held up can be told from one too many.
    private static let catchUpPerMille: Int64 = 900
    /// A faster endpoint's slots only lie apart: nobody remembers so many.
    private static let rememberedMax = 1000
    /// Microseconds. Nor is one remembered that is reserved further ahead: by a rehearsal's clock, which misses none.
    private static let rememberedHorizonMax: Int64 = 1_000_000

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

    /// In which no more than `perSecond` slots lie; microseconds.
    package var windowMicros: Int64 { 1000 * (1000 + Self.marginPerMille) }

    /// Microseconds between two slots at an even pace, rounded up.
    package var spacingMicros: Int64 {
        (windowMicros + Int64(perSecond) - 1) / Int64(perSecond)
    }

    /// Microseconds between two slots at least.
    package var gapMicros: Int64 {
        isRemembered ? spacingMicros * Self.catchUpPerMille / 1000 : spacingMicros
    }

    /// Slots of a window are counted; else their distance alone keeps the rate.
    var isRemembered: Bool {
        perSecond <= Self.rememberedMax && horizonMicros <= Self.rememberedHorizonMax
    }
}

/// The rate limit of each endpoint over all replicas: one small row an endpoint holds the slots of the last window
/// and of the moments to come. Who wants to call adds to them; slots of a process that dies are lost.
package enum RateQueries {
    /// Slots that nobody else has.
    package struct Lease: Sendable, Hashable {
        /// Ascending; microseconds since 1970 by the clock that was asked.
        package var slots: [Int64]
        /// The same clock when it answered.
        package var nowMicros: Int64
        /// No slot is free before; microseconds since 1970.
        package var nextMicros: Int64
        /// UTC milliseconds: Apple asked for silence until then.
        package var blockedUntil: Int64?

        package init(
            slots: [Int64] = [], nowMicros: Int64 = 0, nextMicros: Int64 = 0,
            blockedUntil: Int64? = nil
        ) {
            self.slots = slots
            self.nowMicros = nowMicros
            self.nextMicros = nextMicros
            self.blockedUntil = blockedUntil
        }
    }

    /// Reserves up to `wanted` slots within the horizon, none in the past. `missed` are slots of earlier leases that no
    /// call used, and none will: what they leave of their window others may have. `nowMicros` is a rehearsal's clock;
    /// nil asks the database's, so that no replica's own clock matters.
    package static func lease(
        _ rate: CallRate, wanted: Int, missed: [Int64] = [], nowMicros: Int64?,
        on connection: isolated PostgresConnection
    ) throws -> Lease {
        let ask = leaseSlots(rate, wanted: wanted, missed: missed, nowMicros: nowMicros)
        if let lease = try taken(connection.query(ask)) { return lease }
        _ = try connection.execute(
            """
            -- name: createRateLimit
            INSERT INTO repricer.rate_limits (endpoint) VALUES (\(rate.endpoint)) ON CONFLICT DO NOTHING
            """)
        return try taken(connection.query(ask)) ?? Lease()
    }

    private static func leaseSlots(
        _ rate: CallRate, wanted: Int, missed: [Int64], nowMicros: Int64?
    ) -> SQL {
        """
        -- name: leaseSlots
        SELECT now_micros, slots, next_micros, blocked_until FROM repricer.lease_slots(
            \(rate.endpoint), \(wanted), \(nowMicros), \(rate.horizonMicros), \(rate.gapMicros),
            \(rate.windowMicros), \(rate.isRemembered ? rate.perSecond : 0), \(missed))
        """
    }

    /// nil when the endpoint has no row yet.
    private static func taken(_ rows: Rows) throws -> Lease? {
        guard let row = try rows.oneOrNil() else { return nil }
        return Lease(
            slots: try row.int64s("slots"), nowMicros: try row.int64("now_micros"),
            nextMicros: try row.int64("next_micros"),
            blockedUntil: try row.millisecondsOrNil("blocked_until"))
    }

    /// The clock that all replicas share; microseconds since 1970.
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

    /// Gives back what no call will use of a lease: all but its first `used` slots.
    package static func returnUnused(_ rate: CallRate, _ lease: Lease, used: Int) -> SQL {
        let unused = Array(lease.slots.dropFirst(used))
        let end = lease.slots.last.map { $0 + rate.gapMicros } ?? 0
        return """
            -- name: returnPermits
            UPDATE repricer.rate_limits
            SET next_slot_micros = CASE WHEN next_slot_micros = \(end) THEN \(unused.first ?? end)
                    ELSE next_slot_micros END,
                taken_micros = ARRAY(
                    SELECT t FROM unnest(taken_micros) AS t WHERE t <> ALL (\(unused)) ORDER BY t)
            WHERE endpoint = \(rate.endpoint)
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

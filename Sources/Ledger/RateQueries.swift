package import Postgres

/// The rate limit of each endpoint over all replicas: tokens are leased in blocks from one small row.
/// Instants are the business clock's, so a rehearsal on a virtual clock keeps virtual rates.
package enum RateQueries {
    package struct Lease: Sendable {
        package var granted: Int
        /// UTC milliseconds: Apple asked for silence until then.
        package var blockedUntil: Int64?
    }

    /// Creates the row of an endpoint with a full second of tokens.
    package static func create(
        endpoint: String, perSecond: Int, now: Int64, on connection: isolated PostgresConnection
    ) throws {
        _ = try connection.execute(
            """
            -- name: createRateLimit
            INSERT INTO repricer.rate_limits (endpoint, micro_tokens, refilled_at)
            VALUES (\(endpoint), \(Int64(perSecond) * 1_000_000), \(timestamp: now))
            ON CONFLICT DO NOTHING
            """)
    }

    /// Takes up to `wanted` tokens. A clock that went backwards refills nothing.
    package static func lease(
        endpoint: String, wanted: Int, perSecond: Int, now: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Lease {
        let row = try connection.query(
            """
            -- name: leaseTokens
            WITH current AS (
                SELECT endpoint, blocked_until,
                    least(
                        \(Int64(perSecond) * 1_000_000)::numeric,
                        micro_tokens + greatest(0,
                            extract(epoch FROM \(timestamp: now)::timestamptz - refilled_at))
                            * \(Int64(perSecond) * 1_000_000)::numeric)::bigint AS available
                FROM repricer.rate_limits WHERE endpoint = \(endpoint) FOR UPDATE
            ), taken AS (
                SELECT endpoint, blocked_until, available,
                    CASE WHEN blocked_until > \(timestamp: now)::timestamptz THEN 0
                        ELSE least(\(wanted), available / 1000000) END AS granted
                FROM current
            )
            UPDATE repricer.rate_limits r
            SET micro_tokens = t.available - t.granted * 1000000,
                refilled_at = greatest(r.refilled_at, \(timestamp: now)::timestamptz)
            FROM taken t WHERE r.endpoint = t.endpoint
            RETURNING t.granted, CASE WHEN t.blocked_until > \(timestamp: now)::timestamptz
                THEN t.blocked_until END AS blocked_until
            """
        ).oneOrNil()
        guard let row else { return Lease(granted: 0, blockedUntil: nil) }
        return Lease(
            granted: try row.int("granted"),
            blockedUntil: try row.millisecondsOrNil("blocked_until"))
    }

    /// Gives back tokens that no call used.
    package static func giveBack(endpoint: String, tokens: Int) -> SQL {
        """
        -- name: giveBackTokens
        UPDATE repricer.rate_limits SET micro_tokens = micro_tokens + \(Int64(tokens) * 1_000_000)
        WHERE endpoint = \(endpoint)
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

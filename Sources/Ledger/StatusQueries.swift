package import Postgres

/// What `status` adds to the counts: how far delivery is, and what the App Store's limits leave.
package enum StatusQueries {
    /// Instants are UTC milliseconds; nil where nothing is open.
    package struct Outlook: Sendable, Equatable {
        /// The earliest instant by which a queued change must be sent.
        package var nextSendBy: Int64?
        /// The latest instant at which an open change is due to take effect.
        package var lastDueEffectiveAt: Int64?
    }

    package struct Quota: Sendable, Equatable {
        package var endpoint: String
        /// Millionths of a call, when last refilled.
        package var microTokens: Int64
        package var refilledAt: Int64
        /// The App Store asked for silence until then.
        package var blockedUntil: Int64?
    }

    /// Of one batch, or of all.
    package static func outlook(
        batchID: String?, on connection: isolated PostgresConnection
    ) throws -> Outlook {
        let row = try connection.query(
            """
            -- name: deliveryOutlook
            SELECT min(send_by) FILTER (WHERE state = 'queued') AS next_send_by,
                max(due_effective_at) AS last_due_effective_at
            FROM repricer.price_changes
            WHERE state IN ('awaiting_approval', 'queued', 'sending', 'unknown', 'scheduled',
                    'pending_consent', 'accepted')
                AND (\(uuid: batchID)::uuid IS NULL OR batch_id = \(uuid: batchID)::uuid)
            """
        ).one()
        return Outlook(
            nextSendBy: try row.millisecondsOrNil("next_send_by"),
            lastDueEffectiveAt: try row.millisecondsOrNil("last_due_effective_at"))
    }

    package static func quotas(on connection: isolated PostgresConnection) throws -> [Quota] {
        try connection.query(
            """
            -- name: quotas
            SELECT endpoint, micro_tokens, refilled_at, blocked_until FROM repricer.rate_limits
            ORDER BY endpoint
            """
        ).map { row in
            Quota(
                endpoint: try row.text("endpoint"), microTokens: try row.int64("micro_tokens"),
                refilledAt: try row.milliseconds("refilled_at"),
                blockedUntil: try row.millisecondsOrNil("blocked_until"))
        }
    }
}

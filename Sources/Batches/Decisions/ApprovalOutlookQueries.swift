import Facts
package import Postgres

/// The due rows of a batch, and who may approve it.
package enum ApprovalOutlookQueries {
    /// What the policy says of one approver.
    package struct Approver: Sendable, Equatable {
        /// A database user or a role; nil stands for anybody, because no limit names anyone.
        package var name: String?
        /// The limits for which a second approver is needed; empty where this one may approve alone.
        package var exceeded: [String]
    }

    package static func approvers(
        of batchID: String, on connection: isolated PostgresConnection
    ) throws -> [Approver] {
        try connection.query(
            """
            -- name: approvalOutlook
            SELECT approver, exceeded FROM repricer.approval_outlook(\(uuid: batchID))
            """
        ).map {
            try Approver(name: $0.textOrNil("approver"), exceeded: $0.texts("exceeded"))
        }
    }

    /// Unsent rows, by when they may be sent and must be sent.
    package struct Due: Sendable, Equatable {
        package var unsent: Int64
        /// The rows that may be sent at once. Rows of unreleased waves are not among them.
        package var ready: Int64
        /// When the first of the other rows may be sent, in UTC milliseconds.
        package var nextAt: Int64?
        /// The rows of waves that are not released yet. They are neither ready nor next.
        package var waiting: Int64
        /// The rows whose last instant has passed: they take effect a renewal later, or not at all.
        package var overdue: Int64
        /// When the first of the others must be sent, in UTC milliseconds.
        package var firstSendBy: Int64?
        package var withinADay: Int64
        package var withinAWeek: Int64
    }

    package static func due(
        of batchID: String, now: Int64, on connection: isolated PostgresConnection
    ) throws -> Due {
        let row = try connection.query(
            """
            -- name: showDue
            SELECT count(*) AS unsent,
                count(*) FILTER (WHERE (c.send_after IS NULL OR c.send_after <= d.now) AND d.is_in_turn) AS ready,
                min(c.send_after) FILTER (WHERE c.send_after > d.now AND d.is_in_turn) AS next_at,
                count(*) FILTER (WHERE NOT d.is_in_turn) AS waiting,
                count(*) FILTER (WHERE \(fragment: TroubleQueries.isOverdue(now: now))) AS overdue,
                min(c.send_by) FILTER (WHERE c.send_by >= d.now) AS first_send_by,
                count(*) FILTER (WHERE c.send_by >= d.now AND c.send_by < d.now + interval '1 day') AS within_a_day,
                count(*) FILTER (WHERE c.send_by >= d.now AND c.send_by < d.now + interval '7 days')
                    AS within_a_week
            FROM repricer.price_changes c JOIN repricer.batches b ON b.batch_id = c.batch_id
            CROSS JOIN LATERAL (SELECT \(timestamp: now)::timestamptz AS now,
                c.wave <= b.released_wave OR c.wave = 1 AND b.state = 'awaiting_approval'
                    AND b.waves #>> '{0,release}' = 'approval' AS is_in_turn) AS d
            WHERE c.batch_id = \(uuid: batchID) AND c.stage IN ('awaiting_approval', 'queued')
                AND c.state IN ('awaiting_approval', 'queued') AND NOT c.is_held_out
            """
        ).one()
        return try Due(
            unsent: row.int64("unsent"), ready: row.int64("ready"),
            nextAt: row.millisecondsOrNil("next_at"), waiting: row.int64("waiting"),
            overdue: row.int64("overdue"),
            firstSendBy: row.millisecondsOrNil("first_send_by"),
            withinADay: row.int64("within_a_day"), withinAWeek: row.int64("within_a_week"))
    }
}

import Facts
package import Postgres

/// How far the events of the outbox have come as webhooks. All instants are of the clock that the machines share.
package enum WebhookQueries {
    /// One event that this process may deliver now: the first of its subscription that is not delivered.
    package struct ClaimedDelivery: Sendable, Hashable {
        package var aggregateID: String
        package var position: Int64
        package var eventID: String
        package var type: String
        /// The body, the same text at every attempt.
        package var body: String
        package var attempts: Int
        package var fence: Int64
        /// When it became due, in UTC milliseconds. The three days count from here.
        package var dueSince: Int64
    }

    /// Takes the first undelivered event of each subscription that is due. An event waits as long as the one before it.
    /// An event that another process holds becomes free when its lease ends.
    package static func takeDue(
        realNow: Int64, leaseUntil: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [ClaimedDelivery] {
        guard try DatabaseLayout.read(on: connection) == .spread else {
            return try takeDue(
                of: nil, realNow: realNow, leaseUntil: leaseUntil, limit: limit, on: connection)
        }
        // A spread database locks rows of one bucket at a time.
        var taken: [ClaimedDelivery] = []
        for bucket in try dueBuckets(realNow: realNow, limit: limit, on: connection)
        where taken.count < limit {
            taken += try takeDue(
                of: bucket, realNow: realNow, leaseUntil: leaseUntil, limit: limit - taken.count,
                on: connection)
        }
        return taken
    }

    /// When an event `d` is due, as `webhook_deliveries_due` has it.
    private static let dueAt: SQL = "coalesce(d.next_attempt_at, '-infinity')"

    /// The condition of an event `d` that is due, and the first of its subscription.
    private static func isDue(_ realNow: Int64) -> SQL {
        """
        d.state = 'pending' AND \(fragment: dueAt) <= \(timestamp: realNow)
            AND (d.lease_until IS NULL OR d.lease_until <= \(timestamp: realNow))
            AND NOT EXISTS (
                SELECT 1 FROM repricer.webhook_deliveries e
                WHERE e.aggregateid = d.aggregateid AND e.position < d.position
                    AND e.bucket = d.bucket AND e.state = 'pending')
        """
    }

    private static func dueBuckets(
        realNow: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [Int] {
        try connection.query(
            """
            -- name: dueWebhookBuckets
            SELECT d.bucket FROM repricer.webhook_deliveries d WHERE \(fragment: isDue(realNow))
            GROUP BY d.bucket ORDER BY min(coalesce(d.next_attempt_at, d.due_since)), d.bucket LIMIT \(limit)
            """
        ).map { try $0.int("bucket") }
    }

    /// - Parameter bucket: Nil for all.
    private static func takeDue(
        of bucket: Int?, realNow: Int64, leaseUntil: Int64, limit: Int,
        on connection: isolated PostgresConnection
    ) throws -> [ClaimedDelivery] {
        func isThere(_ column: SQL) -> SQL {
            guard let bucket else { return "true" }
            return "\(fragment: column) = \(bucket)::smallint"
        }
        return try connection.query(
            """
            -- name: takeDueWebhooks
            WITH heads AS (
                SELECT d.aggregateid, d.bucket, d.position FROM repricer.webhook_deliveries d
                WHERE \(fragment: isDue(realNow)) AND \(fragment: ServiceControlQueries.allowsThisProgram)
                    AND \(fragment: isThere("d.bucket"))
                ORDER BY \(fragment: dueAt), d.position LIMIT \(limit)
                FOR UPDATE OF d SKIP LOCKED
            ),
            taken AS (
                UPDATE repricer.webhook_deliveries d
                SET lease_until = \(timestamp: leaseUntil), fence = d.fence + 1, attempts = d.attempts + 1
                FROM heads, repricer.outbox o
                WHERE d.aggregateid = heads.aggregateid AND d.position = heads.position AND d.bucket = heads.bucket
                    AND o.aggregateid = d.aggregateid AND o.position = d.position AND o.bucket = d.bucket
                    AND \(fragment: isThere("d.bucket")) AND \(fragment: isThere("o.bucket"))
                RETURNING d.aggregateid, d.position, d.attempts, d.fence, d.due_since, o.id, o.type, o.aggregatetype,
                    o."timestamp", o.payload
            )
            SELECT t.aggregateid, t.position, t.attempts, t.fence, t.due_since, t.id, t.type,
                jsonb_build_object('id', t.id, 'type', t.type, 'aggregatetype', t.aggregatetype,
                    'aggregateid', t.aggregateid, 'position', t.position, 'timestamp', t."timestamp",
                    'payload', t.payload)::text AS body
            FROM taken t
            """
        ).map { row in
            try ClaimedDelivery(
                aggregateID: row.text("aggregateid"), position: row.int64("position"),
                eventID: row.text("id"), type: row.text("type"), body: row.text("body"),
                attempts: row.int("attempts"), fence: row.int64("fence"),
                dueSince: row.milliseconds("due_since"))
        }
    }

    /// How an attempt ended.
    package enum Fate: Sendable, Hashable {
        case delivered
        case retried(at: Int64, error: String)
        case abandoned(error: String)
    }

    /// Stores how the attempt ended, unless another process has taken the event over. Later events of the subscription
    /// get the same wait, so that no process reads them in vain meanwhile.
    package static func settle(_ held: ClaimedDelivery, _ fate: Fate, at: Int64) -> SQL {
        let state: String
        let error: String?
        var nextAttemptAt: Int64?
        switch fate {
        case .delivered: (state, error) = ("delivered", nil)
        case .abandoned(let text): (state, error) = ("given_up", text)
        case .retried(let later, let text):
            (state, error) = ("pending", text)
            nextAttemptAt = later
        }
        let settled: SQL = """
            UPDATE repricer.webhook_deliveries SET state = \(state), last_error = \(error),
                next_attempt_at = \(timestamp: nextAttemptAt), lease_until = NULL,
                settled_at = CASE WHEN \(state)::text = 'pending' THEN NULL
                    ELSE \(timestamp: at)::timestamptz END
            WHERE aggregateid = \(held.aggregateID) AND position = \(held.position)
                AND \(fragment: Bucket.isThat(of: held.aggregateID))
                AND fence = \(held.fence) AND state = 'pending'
            """
        guard let nextAttemptAt else {
            return """
                -- name: settleWebhook
                \(fragment: settled)
                """
        }
        return """
            -- name: postponeWebhook
            WITH settled AS (\(fragment: settled) RETURNING aggregateid, bucket, position)
            UPDATE repricer.webhook_deliveries d SET next_attempt_at = \(timestamp: nextAttemptAt)
            FROM settled s
            WHERE d.aggregateid = s.aggregateid AND d.bucket = s.bucket AND d.position > s.position
                AND d.state = 'pending' AND d.aggregateid = \(held.aggregateID)
                AND \(fragment: Bucket.isThat(of: held.aggregateID, "d.bucket"))
            """
    }

    /// Abandons events that became due before `dueBefore` and were not delivered because no webhook is configured.
    package static func abandonUndelivered(dueBefore: Int64, at: Int64) -> SQL {
        """
        -- name: abandonUndelivered
        UPDATE repricer.webhook_deliveries
        SET state = 'given_up', settled_at = \(timestamp: at), last_error = 'no webhook was configured'
        WHERE state = 'pending' AND due_since < \(timestamp: dueBefore)
            AND \(fragment: ServiceControlQueries.allowsThisProgram)
        """
    }

    /// Deletes events, at most `limit`, that were written before `before` and are delivered or abandoned.
    package static func prune(
        before: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> Int {
        try connection.execute(
            """
            -- name: pruneOutbox
            DELETE FROM repricer.outbox o USING (
                SELECT e.aggregateid, e.bucket, e.position FROM repricer.outbox e
                WHERE e."timestamp" < \(timestamp: before) AND NOT EXISTS (
                    SELECT 1 FROM repricer.webhook_deliveries d
                    WHERE d.aggregateid = e.aggregateid AND d.position = e.position
                        AND d.bucket = e.bucket AND d.state = 'pending')
                ORDER BY e."timestamp" LIMIT \(limit)
            ) old
            WHERE o.aggregateid = old.aggregateid AND o.position = old.position AND o.bucket = old.bucket
                AND \(fragment: ServiceControlQueries.allowsThisProgram)
            """)
    }

    /// Which events are delivered once more.
    package struct Selection: Sendable, Hashable {
        /// When they were written at the earliest, in UTC milliseconds.
        package var since: Int64?
        package var until: Int64?
        package var subscription: String?
        package var abandonedOnly = false

        package init() {}
    }

    /// Makes events due again, in their order, and returns how many: delivered and abandoned ones, and those that wait
    /// after a failed attempt, their own or that of an earlier event. They keep their ids, so a receiver recognises
    /// those that it has.
    package static func replay(
        _ selection: Selection, at: Int64, on connection: isolated PostgresConnection
    ) throws -> Int {
        try connection.execute(
            """
            -- name: replayWebhooks
            UPDATE repricer.webhook_deliveries d
            SET state = 'pending', attempts = 0, due_since = \(timestamp: at), next_attempt_at = NULL,
                settled_at = NULL, last_error = NULL
            FROM repricer.outbox o
            WHERE o.aggregateid = d.aggregateid AND o.position = d.position AND o.bucket = d.bucket
                AND (d.state IN ('delivered', 'given_up') OR d.next_attempt_at IS NOT NULL)
                AND \(fragment: ServiceControlQueries.allowsThisProgram)
                AND (d.state = 'given_up' OR NOT \(selection.abandonedOnly))
                AND (\(timestamp: selection.since)::timestamptz IS NULL
                    OR o."timestamp" >= \(timestamp: selection.since)::timestamptz)
                AND (\(timestamp: selection.until)::timestamptz IS NULL
                    OR o."timestamp" < \(timestamp: selection.until)::timestamptz)
                AND (\(selection.subscription)::text IS NULL
                    OR o.aggregateid = \(selection.subscription)::text)
            """)
    }

    /// Events by the state of their delivery, the oldest that waits, and the last error.
    package struct Summary: Sendable, Hashable {
        package var counts: [String: Int64]
        package var oldestPending: Int64?
        package var lastError: String?
    }

    package static func summary(on connection: isolated PostgresConnection) throws -> Summary {
        var summary = Summary(counts: [:], oldestPending: nil, lastError: nil)
        for row in try connection.query(
            """
            -- name: webhookCounts
            SELECT state, count(*) AS events, min(due_since) AS oldest
            FROM repricer.webhook_deliveries GROUP BY state
            """)
        {
            let state = try row.text("state")
            summary.counts[state] = try row.int64("events")
            if state == "pending" { summary.oldestPending = try row.millisecondsOrNil("oldest") }
        }
        summary.lastError = try connection.query(
            """
            -- name: lastWebhookError
            SELECT last_error FROM repricer.webhook_deliveries
            WHERE last_error IS NOT NULL AND state <> 'delivered'
            ORDER BY coalesce(settled_at, next_attempt_at) DESC NULLS LAST LIMIT 1
            """
        ).first?.textOrNil("last_error")
        return summary
    }
}

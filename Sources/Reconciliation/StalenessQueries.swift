package import Postgres

/// How old our knowledge is, and for which changes a statement is overdue.
package enum StalenessQueries {
    /// Instants are UTC milliseconds of the service's clock; nil where there is none.
    package struct Staleness: Sendable, Equatable {
        package var newestNotificationAt: Int64?
        package var oldestUnfoldedAt: Int64?
        package var historyReadThrough: Int64?
        package var silentChanges: Int64
        package var openChecks: Int64
    }

    /// The changes that Apple has, and that are past their renewal since before `now - margin`.
    private static func pastRenewal(now: Int64, margin: Int64) -> SQL {
        """
        SELECT original_transaction_id, bucket, batch_id, due_effective_at FROM repricer.price_changes
        WHERE stage IN ('scheduled', 'pending_consent', 'accepted')
            AND due_effective_at <= \(timestamp: now - margin)
        """
    }

    /// When Apple tells the customer of the change `c`. It moves with the renewal at which the change is due. Where it is
    /// not known whether Apple asks, it may only announce, which it does 27 days before the renewal
    /// (`apple-contract.md`, "Timing").
    private static let noticeAt: SQL = """
        (c.due_effective_at - CASE c.forecast_consent WHEN 'not_known'
            THEN least(c.forecast_effective_at - c.forecast_notice_at, interval '648 hours')
            ELSE c.forecast_effective_at - c.forecast_notice_at END)
        """

    /// The scheduled changes `c`, not past their renewal, that Apple was to tell the customer of before `now - margin`.
    private static func pastNotice(now: Int64, margin: Int64) -> SQL {
        """
        SELECT c.original_transaction_id, c.bucket, c.batch_id, c.due_effective_at FROM repricer.price_changes c
        WHERE c.stage = 'scheduled' AND c.forecast_notice_at <= \(timestamp: now - margin)
            AND c.due_effective_at > \(timestamp: now - margin)
            AND \(fragment: noticeAt) <= \(timestamp: now - margin)
        """
    }

    /// The changes for which a statement was due before `now - margin`.
    private static func silent(now: Int64, margin: Int64) -> SQL {
        """
        \(fragment: pastRenewal(now: now, margin: margin))
        UNION ALL
        \(fragment: pastNotice(now: now, margin: margin))
        """
    }

    /// The silent changes of which nothing was heard at all. While a payment is retried, a statement has told that it
    /// failed, and a status that was read since the notice was due has told that the change is still scheduled; the
    /// status is asked for all the same.
    private static func unheard(now: Int64, margin: Int64) -> SQL {
        """
        SELECT s.batch_id FROM (
            \(fragment: pastRenewal(now: now, margin: margin))
            UNION ALL
            \(fragment: pastNotice(now: now, margin: margin))
            AND NOT EXISTS (
                SELECT FROM repricer.status_checks l
                WHERE l.original_transaction_id = c.original_transaction_id AND l.bucket = c.bucket
                    AND l.reason = 'silent' AND l.list_id = '' AND l.outcome IN ('read', 'drifted')
                    AND l.done_at >= \(fragment: noticeAt))
        ) s
        WHERE NOT coalesce((
            SELECT u.in_billing_retry OR u.status IN (3, 4) FROM repricer.subscriptions u
            WHERE u.original_transaction_id = s.original_transaction_id AND u.bucket = s.bucket), false)
        """
    }

    /// Requests a status check of subscriptions with a silent change, the longest silent first. A subscription that was
    /// checked since `now - margin` is left alone.
    package static func wantSilent(
        now: Int64, margin: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> Int {
        try connection.execute(
            """
            -- name: wantSilentChecks
            INSERT INTO repricer.status_checks AS known
                (original_transaction_id, bucket, reason, list_id, requested_at)
            SELECT s.original_transaction_id, s.bucket, 'silent', '', \(timestamp: now)
            FROM (\(fragment: silent(now: now, margin: margin))) s
            WHERE NOT EXISTS (
                SELECT FROM repricer.status_checks l
                WHERE l.original_transaction_id = s.original_transaction_id AND l.bucket = s.bucket
                    AND l.reason = 'silent' AND l.list_id = ''
                    AND (l.done_at IS NULL OR l.done_at > \(timestamp: now - margin)))
            GROUP BY s.original_transaction_id, s.bucket
            ORDER BY min(s.due_effective_at), s.original_transaction_id LIMIT \(limit)
            ON CONFLICT (original_transaction_id, reason, list_id, bucket) DO UPDATE
                SET requested_at = EXCLUDED.requested_at, attempts = 0, next_check_at = NULL,
                    done_at = NULL, outcome = NULL, detail = NULL
                WHERE known.done_at IS NOT NULL
            """)
    }

    /// How many changes of the batch are silent.
    package static func silentChanges(
        of batchID: String, now: Int64, margin: Int64, on connection: isolated PostgresConnection
    ) throws -> Int64 {
        try connection.query(
            """
            -- name: silentChanges
            SELECT count(*) AS silent FROM (\(fragment: unheard(now: now, margin: margin))) s
            WHERE s.batch_id = \(uuid: batchID)
            """
        ).one().int64("silent")
    }

    /// The silent changes are those of one batch, or of all.
    package static func read(
        now: Int64, margin: Int64, of batchID: String? = nil,
        on connection: isolated PostgresConnection
    ) throws -> Staleness {
        let row = try connection.query(
            """
            -- name: staleness
            SELECT (SELECT max(received_at) FROM repricer.notification_ids) AS newest,
                (SELECT min(received_at) FROM repricer.inbox WHERE error IS NULL) AS unfolded,
                h.read_through,
                (SELECT count(*) FROM (\(fragment: unheard(now: now, margin: margin))) s
                    WHERE \(uuid: batchID)::uuid IS NULL OR s.batch_id = \(uuid: batchID)::uuid) AS silent,
                (SELECT count(*) FROM repricer.status_checks WHERE done_at IS NULL) AS checks
            FROM repricer.history_reading h
            """
        ).one()
        return try Staleness(
            newestNotificationAt: row.millisecondsOrNil("newest"),
            oldestUnfoldedAt: row.millisecondsOrNil("unfolded"),
            historyReadThrough: row.millisecondsOrNil("read_through"),
            silentChanges: row.int64("silent"), openChecks: row.int64("checks"))
    }
}

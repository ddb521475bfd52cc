import Batches
import Facts
package import Postgres

/// The rows that a lost database may have called, and their outcomes.
package enum RecoveryQueries {
    /// The condition that a change was not called, as far as this database knows.
    private static let uncalled: SQL = """
        c.state IN ('awaiting_approval', 'queued', 'rejected', 'ineligible', 'missed', 'aborted')
        """

    package struct Scope: Sendable, Equatable {
        /// The rows that may have been called since.
        package var changes: Int
        /// The calls without an outcome.
        package var openCalls: Int
        package var subscriptions: Int
    }

    package static func scope(
        since: Int64, on connection: isolated PostgresConnection
    ) throws -> Scope {
        let row = try connection.query(
            """
            -- name: recoveryScope
            WITH changes AS (
                SELECT c.original_transaction_id FROM repricer.price_changes c
                JOIN repricer.batches b ON b.batch_id = c.batch_id AND b.state <> 'rejected'
                WHERE NOT c.is_held_out AND (c.state IN ('awaiting_approval', 'queued')
                    OR \(fragment: uncalled) AND c.ended_at >= \(timestamp: since))
            ), calls AS (
                SELECT subject FROM repricer.store_calls WHERE settled_at IS NULL
            )
            SELECT (SELECT count(*) FROM changes) AS changes, (SELECT count(*) FROM calls) AS calls,
                (SELECT count(*) FROM (SELECT * FROM changes UNION SELECT * FROM calls) s) AS subscriptions
            """
        ).one()
        return try Scope(
            changes: row.int("changes"), openCalls: row.int("calls"),
            subscriptions: row.int("subscriptions"))
    }

    /// Requests a status check of every subscription with such a change or an open call. A second `recover` requests
    /// none twice.
    package static func wantChecks(
        since: Int64, in list: StatusCheckQueries.List, at: Int64,
        on connection: isolated PostgresConnection
    ) throws {
        try connection.execute(
            """
            -- name: wantRecoveryChecks
            INSERT INTO repricer.status_checks
                (original_transaction_id, bucket, reason, list_id, requested_at)
            SELECT s.id, repricer.bucket_of(s.id), \(list.reason.rawValue), \(list.id), \(timestamp: at)
            FROM (
                SELECT c.original_transaction_id FROM repricer.price_changes c
                JOIN repricer.batches b ON b.batch_id = c.batch_id
                WHERE c.doubtful_since <= greatest(\(timestamp: since), b.submitted_at) AND \(fragment: uncalled)
                UNION SELECT subject FROM repricer.store_calls
                WHERE settled_at IS NULL AND kind <> 'mass_extension'
            ) s (id)
            ON CONFLICT DO NOTHING
            """)
    }

    /// Parks unsent changes whose subscription could not be read. `until` is real time.
    package static func parkUnread(
        in list: StatusCheckQueries.List, until: Int64, on connection: isolated PostgresConnection
    ) throws {
        try connection.execute(
            """
            -- name: parkUnreadOfRecovery
            UPDATE repricer.price_changes c
            SET parked_reason = \(OpenChangeQueries.statusUnread + " by recover"), next_attempt_at = \(timestamp: until)
            FROM repricer.status_checks k
            WHERE k.reason = \(list.reason.rawValue) AND k.list_id = \(list.id)
                AND k.outcome IN \(fragment: isUnread) AND \(fragment: ServiceControlQueries.allowsThisProgram)
                AND c.original_transaction_id = k.original_transaction_id AND c.bucket = k.bucket
                AND c.state = 'queued'
            """)
    }

    /// Hands the subscriptions that could not be read to the service, which tries again each day. No call of such a
    /// subscription is sent until it is read. Checks from an earlier recovery that this one has read are withdrawn.
    package static func keepAsking(
        for list: StatusCheckQueries.List, on connection: isolated PostgresConnection
    ) throws {
        try connection.execute(
            """
            -- name: forgetReadByRecovery
            DELETE FROM repricer.status_checks a USING repricer.status_checks k
            WHERE a.reason = \(StatusCheckQueries.List.restored.reason.rawValue)
                AND a.list_id = \(StatusCheckQueries.List.restored.id)
                AND k.original_transaction_id = a.original_transaction_id AND k.bucket = a.bucket
                AND k.reason = \(list.reason.rawValue) AND k.list_id = \(list.id) AND k.outcome IN ('read', 'drifted')
            """)
        try connection.execute(
            """
            -- name: keepAskingAfterRecovery
            INSERT INTO repricer.status_checks (original_transaction_id, bucket, reason, list_id, requested_at,
                attempts, done_at, outcome, detail)
            SELECT k.original_transaction_id, k.bucket, \(StatusCheckQueries.List.restored.reason.rawValue),
                \(StatusCheckQueries.List.restored.id), k.requested_at, k.attempts, k.done_at, k.outcome, k.detail
            FROM repricer.status_checks k
            WHERE k.reason = \(list.reason.rawValue) AND k.list_id = \(list.id)
                AND k.outcome IN \(fragment: isUnread)
            ON CONFLICT ON CONSTRAINT status_checks_pkey DO UPDATE SET requested_at = excluded.requested_at,
                done_at = excluded.done_at, outcome = excluded.outcome, detail = excluded.detail
            """)
    }

    /// The subscriptions whose changes wait for a status that this list has now read. A claim made them wait while the
    /// check was still open, or an earlier check could not read it.
    package static func waiting(
        forReadOf list: StatusCheckQueries.List, on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: waitingForRecoveredStatus
            SELECT DISTINCT k.original_transaction_id FROM repricer.status_checks k
            JOIN repricer.price_changes c ON c.original_transaction_id = k.original_transaction_id AND c.bucket = k.bucket
            WHERE k.reason = \(list.reason.rawValue) AND k.list_id = \(list.id) AND k.outcome IN ('read', 'drifted')
                AND c.state = 'queued' AND \(fragment: OpenChangeQueries.waitsForStatus)
            ORDER BY 1
            """
        ).map { try $0.text("original_transaction_id") }
    }

    /// The outcomes after which the state at Apple is unknown. "Not found" is one of them: Apple has sold every
    /// subscription in the list, and may have applied a call to one that it temporarily does not show.
    private static let isUnread: SQL = "('refused', 'unreadable', 'unanswered', 'not_found')"

    package struct Outcome: Sendable, Equatable {
        package struct Batch: Sendable, Equatable {
            package var batchID: String
            package var name: String
            /// The App Store shows exactly their price, so they continue as scheduled.
            package var adopted: Int
            /// The App Store does not have them.
            package var released: Int
            /// They had ended unsent, and the App Store does not have them either.
            package var ended: Int
            package var unread: Int
        }

        package struct Unread: Sendable, Equatable {
            package var originalTransactionID: String
            package var why: String
        }

        package var batches: [Batch] = []
        /// The first hundred of them, in the order of their ids.
        package var unread: [Unread] = []
        package var unreadSubscriptions = 0
        /// The calls that are still without an outcome. Checks continue, and they are never sent under another id.
        package var openCalls = 0
        /// Whether a person has paused everything.
        package var isPaused = false
    }

    /// What an earlier recovery since the same instant found.
    package struct Former: Sendable, Equatable {
        /// When it ended, in UTC milliseconds.
        package var at: Int64
        package var by: String
        package var adopted: Int
        package var released: Int
        package var ended: Int
        package var unread: Int
    }

    /// The last one; nil where nobody has recovered since that instant.
    package static func former(
        since: Int64, on connection: isolated PostgresConnection
    ) throws -> Former? {
        try connection.query(
            """
            -- name: formerRecovery
            SELECT a.occurred_at, a.actor, f.* FROM repricer.audit_trail a
            CROSS JOIN LATERAL json_to_record(a.details -> 'found')
                AS f (adopted bigint, released bigint, ended bigint, unread bigint)
            WHERE a.object = 'everything' AND a.action = 'recovered'
                AND (a.details ->> 'since')::timestamptz = \(timestamp: since)::timestamptz
            ORDER BY a.sequence DESC LIMIT 1
            """
        ).oneOrNil().map { row in
            try Former(
                at: row.milliseconds("occurred_at"), by: row.text("actor"),
                adopted: row.int("adopted"), released: row.int("released"), ended: row.int("ended"),
                unread: row.int("unread"))
        }
    }

    /// Records the outcome in the audit trail.
    package static func note(_ outcome: Outcome, since: Int64, at: Int64) -> SQL {
        func sum(_ count: (Outcome.Batch) -> Int) -> Int64 {
            Int64(outcome.batches.map(count).reduce(0, +))
        }
        return """
            -- name: noteRecovery
            SELECT repricer.note_recovery(\(timestamp: since), \(timestamp: at), \(sum(\.adopted)), \(sum(\.released)),
                \(sum(\.ended)), \(Int64(outcome.unreadSubscriptions)))
            """
    }

    package static func outcome(
        since: Int64, in list: StatusCheckQueries.List, on connection: isolated PostgresConnection
    ) throws -> Outcome {
        var outcome = Outcome()
        outcome.batches = try connection.query(
            """
            -- name: recoveredBatches
            SELECT b.batch_id, b.name, count(*) FILTER (WHERE u.sent_at = u.doubtful_since) AS adopted,
                count(*) FILTER (WHERE u.is_open AND NOT u.is_unread) AS released,
                count(*) FILTER (WHERE u.is_ended AND NOT u.is_unread) AS ended,
                count(*) FILTER (WHERE u.is_unread AND (u.is_open OR u.is_ended)) AS unread
            FROM (
                SELECT c.batch_id, c.sent_at, c.doubtful_since, c.state IN ('awaiting_approval', 'queued') AS is_open,
                    c.state IN ('rejected', 'ineligible', 'missed', 'aborted') AS is_ended,
                    EXISTS (
                        SELECT FROM repricer.status_checks k
                        WHERE k.original_transaction_id = c.original_transaction_id AND k.bucket = c.bucket
                            AND k.reason = \(list.reason.rawValue) AND k.list_id = \(list.id)
                            AND k.outcome IN \(fragment: isUnread)) AS is_unread
                FROM repricer.price_changes c WHERE c.doubtful_since IS NOT NULL) u
            JOIN repricer.batches b ON b.batch_id = u.batch_id AND u.doubtful_since <= greatest(\(timestamp: since), b.submitted_at)
            GROUP BY b.batch_id, b.name ORDER BY b.name
            """
        ).map { row in
            try Outcome.Batch(
                batchID: row.text("batch_id"), name: row.text("name"), adopted: row.int("adopted"),
                released: row.int("released"), ended: row.int("ended"), unread: row.int("unread"))
        }
        outcome.unread = try connection.query(
            """
            -- name: unreadInRecovery
            SELECT original_transaction_id, coalesce(detail, outcome) AS why FROM repricer.status_checks
            WHERE reason = \(list.reason.rawValue) AND list_id = \(list.id)
                AND outcome IN \(fragment: isUnread)
            ORDER BY 1 LIMIT 100
            """
        ).map {
            try Outcome.Unread(
                originalTransactionID: $0.text("original_transaction_id"), why: $0.text("why"))
        }
        let row = try connection.query(
            """
            -- name: recoveryRest
            SELECT (SELECT count(*) FROM repricer.store_calls WHERE settled_at IS NULL) AS calls,
                (SELECT count(*) FROM repricer.status_checks
                WHERE reason = \(list.reason.rawValue) AND list_id = \(list.id)
                    AND outcome IN \(fragment: isUnread)) AS unread
            """
        ).one()
        outcome.openCalls = try row.int("calls")
        outcome.unreadSubscriptions = try row.int("unread")
        return outcome
    }
}

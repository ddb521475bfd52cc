import Facts
package import Postgres

/// The queue of status checks. Claims name one bucket. The instants of claims and retries are real time.
package enum StatusCheckQueries {
    package enum Reason: String, Sendable, CaseIterable {
        /// A person gave a list of ids.
        case sync
        /// Nothing was heard of an open change for too long.
        case silent
        /// A V1 notification, which is unsigned, hinted at a change.
        case legacy
        /// A database was restored, and what it has lost is read again.
        case recover
    }

    /// The checks that belong together: those of one file, or those of one reason.
    package struct List: Sendable, Hashable {
        package var reason: Reason
        /// The digest of a file; empty where the reason alone names the list.
        package var id: String

        package init(_ reason: Reason, id: String = "") {
            self.reason = reason
            self.id = id
        }

        /// The list that the service makes after it has found another database. Calls of its subscriptions wait for it.
        static let restored = List(.recover, id: RestoredDatabase.checkList)

        /// The list of subscriptions of which a call is due and nothing was heard. Their calls wait for it.
        static let unheard = List(.silent, id: UnheardSubscription.checkList)
    }

    package enum Outcome: String, Sendable, CaseIterable {
        case read, drifted, refused, unreadable, unanswered
        case notFound = "not_found"
    }

    package struct Wanted: Sendable, Hashable {
        package var originalTransactionID: String
        /// The line in its file.
        package var line: Int64?

        package init(_ originalTransactionID: String, line: Int64? = nil) {
            self.originalTransactionID = originalTransactionID
            self.line = line
        }
    }

    /// Requests checks. A check that was requested before, done or not, stays as it is. Returns how many are new.
    package static func want(
        _ wanted: [Wanted], in list: List, at: Int64, on connection: isolated PostgresConnection
    ) throws -> Int {
        try connection.execute(
            """
            -- name: wantChecks
            INSERT INTO repricer.status_checks
                (original_transaction_id, bucket, reason, list_id, line, requested_at)
            SELECT w.id, repricer.bucket_of(w.id), \(list.reason.rawValue), \(list.id), w.line, \(timestamp: at)
            FROM unnest(\(wanted.map(\.originalTransactionID))::text[],
                \(ints: wanted.map(\.line))::bigint[]) AS w (id, line)
            ORDER BY w.id, w.line
            ON CONFLICT DO NOTHING
            """)
    }

    /// Requests a check even where one was done before, because there is newer information. A check that is being made
    /// may have been answered before that, so it loses its claim, and its answer does not settle it.
    package static func wantAgain(
        _ originalTransactionID: String, in list: List, at: Int64,
        on connection: isolated PostgresConnection
    ) throws {
        try connection.execute(
            """
            -- name: wantCheckAgain
            INSERT INTO repricer.status_checks
                (original_transaction_id, bucket, reason, list_id, requested_at)
            VALUES (\(originalTransactionID), \(Bucket.of(originalTransactionID))::smallint,
                \(list.reason.rawValue), \(list.id), \(timestamp: at))
            ON CONFLICT (original_transaction_id, reason, list_id, bucket) DO UPDATE
                SET requested_at = excluded.requested_at, done_at = NULL, outcome = NULL,
                    detail = NULL, next_check_at = NULL, attempts = 0
            """)
    }

    /// A check that this process holds until its claim ends.
    package struct Claimed: Sendable, Hashable {
        package var originalTransactionID: String
        /// The tries without an answer.
        package var attempts: Int
    }

    /// The buckets with due checks. Each costs one index lookup.
    package static func dueBuckets(
        _ list: List, realNow: Int64, on connection: isolated PostgresConnection
    ) throws -> [Int] {
        try connection.query(
            """
            -- name: checkBuckets
            SELECT b.bucket FROM repricer.bucket_turns b, LATERAL (
                SELECT 1 FROM repricer.status_checks l
                WHERE l.reason = \(list.reason.rawValue) AND l.list_id = \(list.id)
                    AND l.bucket = b.bucket AND l.done_at IS NULL
                    AND l.requested_at > '-infinity'
                    AND (l.next_check_at IS NULL OR l.next_check_at <= \(timestamp: realNow))
                LIMIT 1) one
            ORDER BY b.bucket
            """
        ).map { try $0.int("bucket") }
    }

    package static func claim(
        _ list: List, bucket: Int, until: Int64, realNow: Int64, limit: Int,
        on connection: isolated PostgresConnection
    ) throws -> [Claimed] {
        try connection.query(
            """
            -- name: claimChecks
            WITH due AS (
                SELECT original_transaction_id FROM repricer.status_checks
                WHERE reason = \(list.reason.rawValue) AND list_id = \(list.id)
                    AND bucket = \(bucket)::smallint AND done_at IS NULL AND requested_at > '-infinity'
                    AND (next_check_at IS NULL OR next_check_at <= \(timestamp: realNow))
                    AND \(fragment: ServiceControlQueries.allowsThisProgram)
                ORDER BY next_check_at NULLS FIRST LIMIT \(limit) FOR UPDATE SKIP LOCKED
            )
            UPDATE repricer.status_checks l SET next_check_at = \(timestamp: until)
            FROM due
            WHERE l.original_transaction_id = due.original_transaction_id
                AND l.bucket = \(bucket)::smallint AND l.reason = \(list.reason.rawValue) AND l.list_id = \(list.id)
            RETURNING l.original_transaction_id, l.attempts
            """
        ).map {
            try Claimed(
                originalTransactionID: $0.text("original_transaction_id"),
                attempts: $0.int("attempts"))
        }
    }

    package struct Settled: Sendable, Hashable {
        package var originalTransactionID: String
        package var outcome: Outcome
        package var detail: String?

        package init(_ originalTransactionID: String, _ outcome: Outcome, detail: String? = nil) {
            self.originalTransactionID = originalTransactionID
            self.outcome = outcome
            self.detail = detail
        }
    }

    /// Stores the outcomes of claimed checks, with one statement a bucket.
    package static func settle(_ settled: [Settled], in list: List, at: Int64) -> [SQL] {
        Bucket.groups(settled, of: \.originalTransactionID).map { settled in
            """
            -- name: settleChecks
            UPDATE repricer.status_checks l SET done_at = \(timestamp: at), outcome = s.outcome,
                detail = s.detail, next_check_at = NULL
            FROM unnest(\(settled.map(\.originalTransactionID))::text[],
                \(settled.map(\.outcome.rawValue))::text[],
                \(texts: settled.map(\.detail))::text[]) AS s (id, outcome, detail)
            WHERE l.original_transaction_id = s.id AND l.reason = \(list.reason.rawValue)
                AND \(fragment: Bucket.isThat(of: settled.map(\.originalTransactionID), "l.bucket"))
                AND l.list_id = \(list.id) AND l.done_at IS NULL AND l.next_check_at IS NOT NULL
            """
        }
    }

    /// Releases checks without an answer, to be tried again at their instants; one statement a bucket.
    package static func release(
        _ tried: [(id: String, attempts: Int, at: Int64)], in list: List
    ) -> [SQL] {
        Bucket.groups(tried, of: \.id).map { tried in
            """
            -- name: releaseChecks
            UPDATE repricer.status_checks l SET attempts = p.attempts, next_check_at = p.at
            FROM unnest(\(tried.map(\.id))::text[], \(tried.map(\.attempts))::integer[],
                \(timestamps: tried.map(\.at))::timestamptz[]) AS p (id, attempts, at)
            WHERE l.original_transaction_id = p.id AND l.reason = \(list.reason.rawValue)
                AND \(fragment: Bucket.isThat(of: tried.map(\.id), "l.bucket"))
                AND l.list_id = \(list.id) AND l.done_at IS NULL
            """
        }
    }

    /// Releases the claims of a process that has ended, and forgets earlier tries.
    package static func freeClaims(of list: List) -> SQL {
        """
        -- name: freeCheckClaims
        UPDATE repricer.status_checks SET next_check_at = NULL, attempts = 0
        WHERE reason = \(list.reason.rawValue) AND list_id = \(list.id) AND done_at IS NULL
            AND requested_at > '-infinity' AND (next_check_at IS NOT NULL OR attempts > 0)
        """
    }

    /// The earliest instant at which an open check is due: nil where none is open, and 0 where one is due now.
    package static func nextCheck(
        of list: List, on connection: isolated PostgresConnection
    ) throws -> Int64? {
        let row = try connection.query(
            """
            -- name: nextCheck
            SELECT next_check_at FROM repricer.status_checks
            WHERE reason = \(list.reason.rawValue) AND list_id = \(list.id) AND done_at IS NULL
                AND requested_at > '-infinity'
            ORDER BY next_check_at NULLS FIRST LIMIT 1
            """
        ).oneOrNil()
        guard let row else { return nil }
        return try row.millisecondsOrNil("next_check_at") ?? 0
    }

    /// Requests again those checks of a list that ended unread before `doneBefore` and were first requested after
    /// `wantedAfter` (both in UTC milliseconds).
    static func repeatUnread(_ list: List, doneBefore: Int64, wantedAfter: Int64) -> SQL {
        """
        -- name: repeatUnreadChecks
        UPDATE repricer.status_checks SET done_at = NULL, outcome = NULL, detail = NULL, next_check_at = NULL,
            attempts = 0
        WHERE reason = \(list.reason.rawValue) AND list_id = \(list.id)
            AND outcome NOT IN ('read', 'drifted') AND done_at < \(timestamp: doneBefore)
            AND requested_at > \(timestamp: wantedAfter)
        """
    }

    package struct Counts: Sendable, Equatable {
        package var wanted: Int64 = 0
        package var open: Int64 = 0
        package var outcomes: [Outcome: Int64] = [:]

        package init() {}
    }

    package static func counts(
        of list: List, on connection: isolated PostgresConnection
    ) throws -> Counts {
        var counts = Counts()
        let rows = try connection.query(
            """
            -- name: countChecks
            SELECT outcome, count(*) AS checks FROM repricer.status_checks
            WHERE reason = \(list.reason.rawValue) AND list_id = \(list.id) GROUP BY outcome
            """)
        for row in rows {
            let checks = try row.int64("checks")
            counts.wanted += checks
            if let outcome = try row.textOrNil("outcome").flatMap({ Outcome(rawValue: $0) }) {
                counts.outcomes[outcome] = checks
            } else {
                counts.open += checks
            }
        }
        return counts
    }

    package struct Problem: Sendable {
        package var originalTransactionID: String
        package var line: Int64
        package var outcome: Outcome
        package var detail: String
    }

    /// The checks of a list that ended without a status, in the order of lines. A page begins after a line.
    package static func problems(
        of list: List, afterLine: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [Problem] {
        try connection.query(
            """
            -- name: checkProblems
            SELECT original_transaction_id, coalesce(line, 0) AS line, outcome,
                coalesce(detail, '') AS detail
            FROM repricer.status_checks
            WHERE reason = \(list.reason.rawValue) AND list_id = \(list.id)
                AND outcome NOT IN ('read', 'drifted') AND coalesce(line, 0) > \(afterLine)
            ORDER BY 2, 1 LIMIT \(limit)
            """
        ).compactMap { row in
            guard let outcome = Outcome(rawValue: try row.text("outcome")) else { return nil }
            return try Problem(
                originalTransactionID: row.text("original_transaction_id"), line: row.int64("line"),
                outcome: outcome, detail: row.text("detail"))
        }
    }

    /// Those of the subscriptions about which something waits in the inbox.
    package static func withUnfolded(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> Set<String> {
        Set(
            try connection.query(
                """
                -- name: unfoldedSubscriptions
                SELECT DISTINCT original_transaction_id FROM repricer.inbox
                WHERE original_transaction_id = ANY (\(ids)::text[]) AND error IS NULL
                    AND \(fragment: Bucket.isThat(of: ids))
                """
            ).map { try $0.text("original_transaction_id") })
    }

    /// Deletes up to `limit` finished checks of a list, and returns how many.
    package static func forget(
        _ list: List, doneBefore: Int64?, limit: Int, on connection: isolated PostgresConnection
    ) throws -> Int {
        try connection.execute(
            """
            -- name: forgetChecks
            DELETE FROM repricer.status_checks l USING (
                SELECT original_transaction_id FROM repricer.status_checks
                WHERE reason = \(list.reason.rawValue) AND list_id = \(list.id)
                    AND done_at IS NOT NULL
                    AND (\(timestamp: doneBefore)::timestamptz IS NULL
                        OR done_at < \(timestamp: doneBefore))
                LIMIT \(limit)
            ) old
            WHERE l.original_transaction_id = old.original_transaction_id
                AND l.reason = \(list.reason.rawValue) AND l.list_id = \(list.id)
            """)
    }
}

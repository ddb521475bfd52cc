import Calls
package import Facts
package import Postgres
package import Pricing

/// The requests that extend one subscription each, and what their calls do to them.
package enum ExtensionCallQueries {
    package enum State: String, Sendable, CaseIterable {
        case queued, sending, unknown, extended, refused, ineligible
    }

    /// A request that is due, or that a call carries.
    package struct Request: Sendable, Equatable {
        package var originalTransactionID: String
        package var extensionID: String
        package var days: Int
        package var reason: Int
        /// Whether an earlier call may have been applied though no check showed it.
        package var isDoubtful: Bool
        /// When the first call was made, in UTC milliseconds of the business clock.
        package var calledAt: Int64?
        package var renewalBefore: Instant?

        init(_ row: Row) throws {
            originalTransactionID = try row.text("original_transaction_id")
            extensionID = try row.text("extension_id")
            days = try row.int("extend_by_days")
            reason = try row.int("reason_code")
            isDoubtful = try row.bool("is_doubtful")
            calledAt = try row.millisecondsOrNil("called_at")
            renewalBefore = try row.instant("renewal_before")
        }
    }

    /// The state of the call `r` for the engine. Once a statement shows the extension, the call is only checked.
    package static func gate(endpoint: String, now: Int64) -> CallGate {
        CallGate(
            .renewalExtension, endpoint: endpoint, now: now, isJudgedInBucket: true,
            state: { bucket in
                """
                SELECT count(*) > 0 AS is_over, false AS is_held
                FROM \(fragment: AttributedExtensionQueries.inBucket(bucket)) a
                WHERE a.original_transaction_id = r.subject AND a.extension_id = ANY (r.carries) AND a.outcome <> 'failed'
                """
            },
            othersWait: SubjectWork.waits)
    }

    /// The buckets with due requests. Those with requests that were never put back come first, and among them the one
    /// that has waited longest.
    package static func dueBuckets(
        realNow: Int64, on connection: isolated PostgresConnection
    ) throws -> [Int] {
        try connection.query(
            """
            -- name: extensionBuckets
            SELECT b.bucket FROM repricer.bucket_turns b, LATERAL (
                SELECT c.next_attempt_at FROM repricer.extension_requests c
                WHERE c.bucket = b.bucket AND \(fragment: isDue(realNow: realNow))
                ORDER BY c.next_attempt_at NULLS FIRST LIMIT 1) first
            ORDER BY first.next_attempt_at NULLS FIRST, b.bucket
            """
        ).map { try $0.int("bucket") }
    }

    private static func isDue(realNow: Int64) -> SQL {
        """
        c.state = 'queued' AND c.requested_at > '-infinity'
            AND (c.next_attempt_at IS NULL OR c.next_attempt_at <= \(timestamp: realNow))
        """
    }

    /// Locks the subscriptions of due requests and returns the requests. A subscription with a call in flight, or
    /// with notifications that are not folded yet, waits, because its facts are not the newest. Nothing is returned
    /// while everything is paused.
    package static func lockDue(
        bucket: Int, limit: Int, realNow: Int64, on connection: isolated PostgresConnection
    ) throws -> [Request] {
        let isFree: SQL = """
            NOT \(fragment: StoreCallQueries.isInFlight(
                "c.original_transaction_id", bucket: "\(bucket)::smallint"))
            """
        let due = try connection.query(
            """
            -- name: lockDueExtensions
            SELECT c.* FROM repricer.extension_requests c
            JOIN repricer.subscriptions s
                ON s.original_transaction_id = c.original_transaction_id AND s.bucket = c.bucket
            WHERE c.bucket = \(bucket)::smallint AND \(fragment: isDue(realNow: realNow))
                AND NOT \(fragment: ServiceControlQueries.isHeld)
                AND NOT EXISTS (
                    SELECT 1 FROM repricer.inbox i
                    WHERE i.original_transaction_id = c.original_transaction_id AND i.error IS NULL
                        AND i.bucket = \(bucket)::smallint OFFSET 0)
                AND \(fragment: isFree)
            ORDER BY c.next_attempt_at NULLS FIRST, c.original_transaction_id LIMIT \(limit)
            FOR UPDATE OF s, c SKIP LOCKED
            """
        ).map { try Request($0) }
        guard !due.isEmpty else { return [] }
        // This is checked again under the locks, because another call may have begun before they were taken.
        let free = try connection.query(
            """
            -- name: freeExtensions
            SELECT c.original_transaction_id FROM repricer.extension_requests c
            WHERE c.original_transaction_id = ANY (\(due.map(\.originalTransactionID))::text[])
                AND c.bucket = \(bucket)::smallint AND c.state = 'queued' AND \(fragment: isFree)
            """
        ).map { try $0.text("original_transaction_id") }
        let isStillFree = Set(free)
        return due.filter { isStillFree.contains($0.originalTransactionID) }
    }

    /// The requests that these calls carry, by call id.
    package static func requests(
        of calls: [StoreCall], on connection: isolated PostgresConnection
    ) throws -> [String: Request] {
        let rows = try connection.query(
            """
            -- name: requestsOfExtensionCalls
            SELECT t.call, c.* FROM unnest(\(calls.map(\.subject))::text[], \(uuids: calls.map(\.callID))::uuid[])
                AS t (id, call)
            JOIN repricer.extension_requests c
                ON c.original_transaction_id = t.id AND c.call_id = t.call
                    AND c.bucket = \(calls.first?.bucket ?? -1)::smallint
            """)
        var requests: [String: Request] = [:]
        for row in rows { requests[try row.text("call")] = try Request(row) }
        return requests
    }

    /// The new renewal date that a notification or a status has shown since a call was made, where only that call
    /// explains it.
    package static func toldSince(
        _ due: Request, on connection: isolated PostgresConnection
    ) throws -> Instant? {
        let bucket: SQL = "\(Bucket.of(due.originalTransactionID))::smallint"
        return try connection.query(
            """
            -- name: extensionToldSince
            SELECT renewal_at FROM \(fragment: AttributedExtensionQueries.inBucket(bucket)) a
            WHERE original_transaction_id = \(due.originalTransactionID)
                AND extension_id = \(uuid: due.extensionID)::uuid AND outcome <> 'failed'
            ORDER BY told_at DESC LIMIT 1
            """
        ).oneOrNil()?.instant("renewal_at")
    }

    /// The days of each mass extension that may have moved this renewal beyond what was known when the call was made;
    /// the newest eight. Apple repeats a notification for a week, so one about such an extension may arrive that late.
    package static func massesThatMayHaveMoved(
        _ due: Request, on connection: isolated PostgresConnection
    ) throws -> [Int] {
        let bucket: SQL = "\(Bucket.of(due.originalTransactionID))::smallint"
        return try connection.query(
            """
            -- name: massesThatMayHaveMoved
            SELECT m.extend_by_days FROM repricer.mass_extensions m
            JOIN repricer.subscriptions s USING (product_id)
            WHERE s.original_transaction_id = \(due.originalTransactionID)
                AND s.bucket = \(fragment: bucket)
                AND coalesce(m.called_at, m.doubtful_since) IS NOT NULL
                AND m.state NOT IN ('refused', 'rejected')
                AND (m.storefronts IS NULL OR s.storefront = ANY (m.storefronts))
                AND coalesce(m.completed_at + interval '8 days', 'infinity')
                    >= \(timestamp: due.calledAt)
                AND NOT EXISTS (
                    SELECT FROM \(fragment: AttributedExtensionQueries.inBucket(bucket)) a
                    WHERE a.original_transaction_id = s.original_transaction_id
                        AND a.extension_id = m.extension_id
                        AND a.renewal_at <= \(timestamp: due.renewalBefore?.milliseconds))
            ORDER BY m.called_at DESC LIMIT 8
            """
        ).map { try $0.int("extend_by_days") }
    }

    /// Marks the request that a new call carries.
    package static func claim(
        _ due: Request, callID: String, isOfSandbox: Bool, renewalBefore: Instant?, now: Int64
    ) -> SQL {
        """
        -- name: claimExtension
        UPDATE repricer.extension_requests SET state = 'sending', call_id = \(uuid: callID)::uuid,
            called_at = coalesce(called_at, \(timestamp: now)), is_of_sandbox = \(isOfSandbox),
            renewal_before = coalesce(renewal_before, \(timestamp: renewalBefore?.milliseconds)),
            next_attempt_at = NULL
        WHERE \(fragment: isOne(due))
        """
    }

    /// How a request ended.
    struct Ending: Sendable {
        var state: State
        /// The source of the proof; nil where it is our own judgement.
        let by: Resolution.Proof.Source?
        var effectiveAt: Instant?
        var code: String?
        var detail: String?
    }

    /// Ends a request without a call, under the lock of its subscription.
    static func settle(_ due: Request, _ ending: Ending, at: Int64) -> SQL {
        settle(ending, at: at, where: isOne(due))
    }

    /// Ends the request that a call carries.
    static func settle(_ call: StoreCall, _ ending: Ending, at: Int64) -> SQL {
        settle(ending, at: at, where: isCarried(by: call))
    }

    private static func settle(_ ending: Ending, at: Int64, where isTheOne: SQL) -> SQL {
        """
        -- name: settleExtension
        UPDATE repricer.extension_requests SET state = \(ending.state.rawValue),
            settled_at = \(timestamp: at), settled_by = \(ending.by?.rawValue ?? "judgement"),
            effective_at = \(timestamp: ending.effectiveAt?.milliseconds), code = \(ending.code),
            detail = \(ending.detail), next_attempt_at = NULL
        WHERE \(fragment: isTheOne) AND state IN ('queued', 'sending', 'unknown')
        """
    }

    /// Puts the request back, to be judged and called again at `nextAt` (real time), because as far as we know it was
    /// not applied. `isParked` makes each wait longer.
    package static func requeue(
        _ call: StoreCall, reason: String, isDoubtful: Bool, nextAt: Int64?, isParked: Bool
    ) -> SQL {
        """
        -- name: requeueExtension
        UPDATE repricer.extension_requests SET state = 'queued', call_id = NULL, detail = \(reason),
            is_doubtful = is_doubtful OR \(isDoubtful),
            called_at = CASE WHEN is_doubtful OR \(isDoubtful) THEN called_at END,
            renewal_before = CASE WHEN is_doubtful OR \(isDoubtful) THEN renewal_before END,
            next_attempt_at = \(timestamp: nextAt)::timestamptz
                + \(fragment: isParked ? StoreCallQueries.furtherWait(after: call) : "interval '0'")
        WHERE \(fragment: isCarried(by: call))
        """
    }

    /// Leaves the outcome of a request unknown.
    package static func leaveUnknown(_ call: StoreCall, reason: String) -> SQL {
        """
        -- name: leaveExtensionUnknown
        UPDATE repricer.extension_requests SET state = 'unknown', detail = \(reason)
        WHERE \(fragment: isCarried(by: call))
        """
    }

    private static func isOne(_ due: Request) -> SQL {
        """
        original_transaction_id = \(due.originalTransactionID)
            AND extension_id = \(uuid: due.extensionID)::uuid
            AND \(fragment: Bucket.isThat(of: due.originalTransactionID))
        """
    }

    private static func isCarried(by call: StoreCall) -> SQL {
        """
        original_transaction_id = \(call.subject) AND bucket = \(call.bucket)::smallint
            AND call_id = \(uuid: call.callID)::uuid
        """
    }
}

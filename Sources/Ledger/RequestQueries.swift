package import Postgres
import Pricing

/// The intents: one row a call, written before it, fenced by its lease.
package enum RequestQueries {
    /// An intent that this process holds.
    package struct Held: Sendable {
        package var originalTransactionID: String
        package var requestReferenceID: String
        package var changeIDs: [String]
        package var transactionID: String
        /// The call as JSON, the very one of the first attempt.
        package var call: String
        package var fence: Int64
        package var attempts: Int
        package var looks: Int
        /// `send` the same call with the same id, or `look` at the subscription's status.
        package var nextStep: String
        /// What an earlier attempt was refused with, when that means "look".
        package var errorCode: Int64?
        /// A batch of its changes was withdrawn meanwhile: it may be looked at and is never sent again.
        package var isWithdrawn: Bool

        package init(
            originalTransactionID: String, requestReferenceID: String, changeIDs: [String],
            transactionID: String, call: String, fence: Int64 = 1, attempts: Int = 1,
            looks: Int = 0,
            nextStep: String = "send", errorCode: Int64? = nil, isWithdrawn: Bool = false
        ) {
            self.originalTransactionID = originalTransactionID
            self.requestReferenceID = requestReferenceID
            self.changeIDs = changeIDs
            self.transactionID = transactionID
            self.call = call
            self.fence = fence
            self.attempts = attempts
            self.looks = looks
            self.nextStep = nextStep
            self.errorCode = errorCode
            self.isWithdrawn = isWithdrawn
        }
    }

    /// Writes the intent and claims its changes; both or neither.
    package static func insert(
        _ request: Held, owner: String, leaseUntil: Int64, now: Int64
    ) -> [SQL] {
        let id = request.originalTransactionID
        return [
            """
            -- name: insertRequest
            INSERT INTO repricer.price_change_requests
                (original_transaction_id, request_reference_id, change_ids, transaction_id, call,
                 lease_owner, lease_until, prepared_at)
            VALUES (\(id), \(uuid: request.requestReferenceID), \(uuids: request.changeIDs)::uuid[],
                \(request.transactionID), \(json: request.call), \(uuid: owner),
                \(timestamp: leaseUntil), \(timestamp: now))
            """,
            """
            -- name: claimChanges
            UPDATE repricer.price_changes SET state = 'sending', reason = NULL,
                request_reference_id = \(uuid: request.requestReferenceID),
                sent_at = \(timestamp: now), state_since = \(timestamp: now), next_attempt_at = NULL,
                planned_effective_at = NULL
            WHERE original_transaction_id = \(id)
                AND change_id = ANY (\(uuids: request.changeIDs)::uuid[]) AND state = 'queued'
            """,
            DispatchQueries.history(
                id, request.changeIDs, .sending, at: now, kind: "request",
                evidenceID: request.requestReferenceID, reason: nil),
        ]
    }

    /// Whether intents wait for a call with their id, or for a look: what to lease tokens for.
    package static func due(
        realNow: Int64, on connection: isolated PostgresConnection
    ) throws -> (sends: Bool, looks: Bool) {
        let row = try connection.query(
            """
            -- name: dueRequests
            SELECT coalesce(bool_or(NOT is_look AND NOT is_paused), false) AS sends,
                coalesce(bool_or(is_look), false) AS looks
            FROM (\(fragment: dueRequests(realNow: realNow))) due
            """
        ).one()
        return (sends: try row.bool("sends"), looks: try row.bool("looks"))
    }

    /// Intents whose holder is gone, or whose retry is due, with what may be done about them. One whose batch
    /// was withdrawn, or whose changes a notification has settled, is only looked at; one of a paused batch
    /// waits.
    private static func dueRequests(realNow: Int64) -> SQL {
        """
        SELECT r.original_transaction_id, r.request_reference_id, r.lease_until,
            r.next_step = 'look' OR coalesce(c.is_withdrawn, true) AS is_look,
            coalesce(c.is_paused, false) AS is_paused, coalesce(c.is_withdrawn, false) AS is_withdrawn
        FROM repricer.price_change_requests r, LATERAL (
            SELECT bool_or(b.is_paused) AS is_paused, bool_or(b.state <> 'approved') AS is_withdrawn
            FROM repricer.price_changes p JOIN repricer.batches b ON b.batch_id = p.batch_id
            WHERE p.original_transaction_id = r.original_transaction_id
                AND p.request_reference_id = r.request_reference_id
                AND p.state IN ('sending', 'unknown')
        ) c
        WHERE r.state IN ('sending', 'unknown') AND r.lease_until <= \(timestamp: realNow)
            AND (r.next_attempt_at IS NULL OR r.next_attempt_at <= \(timestamp: realNow))
        """
    }

    /// Takes over due intents: to look at their subscriptions, or to send them once more.
    package static func takeOver(
        looking: Bool, owner: String, leaseUntil: Int64, realNow: Int64, limit: Int,
        on connection: isolated PostgresConnection
    ) throws -> [Held] {
        let rows = try connection.query(
            """
            -- name: takeOverRequests
            WITH due AS (
                SELECT d.* FROM (\(fragment: dueRequests(realNow: realNow))) d
                JOIN repricer.price_change_requests r
                    ON r.original_transaction_id = d.original_transaction_id
                        AND r.request_reference_id = d.request_reference_id
                WHERE d.is_look = \(looking) AND (d.is_look OR NOT d.is_paused)
                    AND r.state IN ('sending', 'unknown') AND r.lease_until <= \(timestamp: realNow)
                ORDER BY r.lease_until LIMIT \(limit) FOR UPDATE OF r SKIP LOCKED
            )
            UPDATE repricer.price_change_requests r
            SET lease_owner = \(uuid: owner), lease_until = \(timestamp: leaseUntil),
                fence = r.fence + 1, state = 'unknown', next_attempt_at = NULL,
                next_step = CASE WHEN due.is_look THEN 'look' ELSE 'send' END,
                attempts = r.attempts + CASE WHEN due.is_look THEN 0 ELSE 1 END,
                looks = r.looks + CASE WHEN due.is_look THEN 1 ELSE 0 END
            FROM due
            WHERE r.original_transaction_id = due.original_transaction_id
                AND r.request_reference_id = due.request_reference_id
            RETURNING r.*, due.is_withdrawn
            """)
        return try rows.map { try held($0) }
    }

    static func held(_ row: Row) throws -> Held {
        Held(
            originalTransactionID: try row.text("original_transaction_id"),
            requestReferenceID: try row.text("request_reference_id"),
            changeIDs: try row.texts("change_ids"),
            transactionID: try row.text("transaction_id"),
            call: try row.text("call"), fence: try row.int64("fence"),
            attempts: try row.int("attempts"), looks: try row.int("looks"),
            nextStep: try row.text("next_step"), errorCode: try row.int64OrNil("error_code"),
            isWithdrawn: try row.bool("is_withdrawn"))
    }

    /// Prolongs the leases of calls that are still out. One that was taken over has another fence and is left alone.
    package static func renew(_ requests: [Held], until: Int64) -> SQL {
        """
        -- name: renewLeases
        UPDATE repricer.price_change_requests r SET lease_until = \(timestamp: until)
        FROM unnest(\(requests.map(\.originalTransactionID))::text[],
            \(uuids: requests.map(\.requestReferenceID))::uuid[],
            \(requests.map(\.fence))::bigint[]) AS held (id, request, fence)
        WHERE r.original_transaction_id = held.id AND r.request_reference_id = held.request
            AND r.fence = held.fence AND r.state IN ('sending', 'unknown')
            AND r.next_attempt_at IS NULL
        """
    }

    /// Whether this process still holds the intent; taken with the subscription's lock, before any result is
    /// written. A holder whose lease was taken over writes nothing.
    package static func isHeld(
        _ request: Held, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            -- name: isRequestHeld
            SELECT 1 FROM repricer.price_change_requests
            WHERE original_transaction_id = \(request.originalTransactionID)
                AND request_reference_id = \(uuid: request.requestReferenceID)
                AND fence = \(request.fence) AND state IN ('sending', 'unknown')
            FOR UPDATE
            """
        ).count == 1
    }

    /// How an attempt ended, as stored with the intent.
    package struct Answer: Sendable {
        package var httpStatus: Int?
        package var errorCode: Int64?
        package var message: String?
        package var body: String?

        package init(
            httpStatus: Int? = nil, errorCode: Int64? = nil, message: String? = nil,
            body: String? = nil
        ) {
            self.httpStatus = httpStatus
            self.errorCode = errorCode
            self.message = message
            self.body = body
        }
    }

    /// Closes the intent: `answered` (Apple has it) or `refused` (Apple has it not).
    package static func settle(_ request: Held, state: String, _ answer: Answer, at: Int64) -> SQL {
        """
        -- name: settleRequest
        UPDATE repricer.price_change_requests SET state = \(state), settled_at = \(timestamp: at),
            http_status = \(answer.httpStatus), error_code = \(answer.errorCode),
            error_message = \(answer.message), answer = \(answer.body)
        WHERE original_transaction_id = \(request.originalTransactionID)
            AND request_reference_id = \(uuid: request.requestReferenceID) AND fence = \(request.fence)
        """
    }

    /// Nobody knows whether Apple has it: released for the next step, in real time. The looks that follow a
    /// call are counted from that call.
    package static func leaveUnknown(
        _ request: Held, _ answer: Answer, nextStep: String, nextAttemptAt: Int64, at: Int64
    ) -> [SQL] {
        [
            """
            -- name: leaveRequestUnknown
            UPDATE repricer.price_change_requests SET state = 'unknown', next_step = \(nextStep),
                looks = CASE WHEN next_step = 'send' THEN 0 ELSE looks END,
                next_attempt_at = \(timestamp: nextAttemptAt),
                lease_until = \(timestamp: nextAttemptAt), http_status = \(answer.httpStatus),
                error_code = \(answer.errorCode), error_message = \(answer.message),
                answer = \(answer.body)
            WHERE original_transaction_id = \(request.originalTransactionID)
                AND request_reference_id = \(uuid: request.requestReferenceID)
                AND fence = \(request.fence)
            """,
            """
            -- name: leaveChangesUnknown
            WITH moved AS (
                UPDATE repricer.price_changes SET state = 'unknown', reason = \(answer.message),
                    state_since = \(timestamp: at)
                WHERE original_transaction_id = \(request.originalTransactionID)
                    AND request_reference_id = \(uuid: request.requestReferenceID)
                    AND state IN ('sending', 'unknown')
                RETURNING original_transaction_id, change_id, state, reason
            )
            \(fragment: recordMoved(request, at: at))
            """,
        ]
    }

    /// A line of history for each change that the statement before it moved, and for no other.
    private static func recordMoved(_ request: Held, at: Int64) -> SQL {
        """
        INSERT INTO repricer.price_change_history
            (original_transaction_id, change_id, occurred_at, state, evidence_kind, evidence_id, reason)
        SELECT original_transaction_id, change_id, \(timestamp: at), state, 'request',
            \(request.requestReferenceID)::text, reason
        FROM moved ON CONFLICT DO NOTHING
        """
    }

    /// The call did not reach Apple or was definitely not applied: judged and sent again later, with a new id.
    /// A change whose batch was withdrawn meanwhile is withdrawn now.
    package static func requeue(
        _ request: Held, nextAttemptAt: Int64?, goesAlone: Bool, at: Int64, reason: String
    ) -> [SQL] {
        [
            """
            -- name: requeueChanges
            WITH moved AS (
                UPDATE repricer.price_changes c SET
                    state = CASE WHEN b.state = 'approved' THEN 'queued' ELSE 'aborted' END,
                    reason = CASE WHEN b.state = 'approved' THEN \(reason) ELSE b.state END,
                    ended_at = CASE WHEN b.state = 'approved' THEN NULL
                        ELSE \(timestamp: at)::timestamptz END,
                    sent_at = NULL, next_attempt_at = \(timestamp: nextAttemptAt),
                    state_since = \(timestamp: at), goes_alone = c.goes_alone OR \(goesAlone)
                FROM repricer.batches b
                WHERE b.batch_id = c.batch_id
                    AND c.original_transaction_id = \(request.originalTransactionID)
                    AND c.request_reference_id = \(uuid: request.requestReferenceID)
                    AND c.state IN ('sending', 'unknown')
                RETURNING c.original_transaction_id, c.change_id, c.state, c.reason
            )
            \(fragment: recordMoved(request, at: at))
            """,
            FoldWrites.releaseRoles([request.originalTransactionID]),
        ]
    }

    /// The App Store refused for good: the changes end with its code.
    package static func reject(_ request: Held, reason: String, at: Int64) -> [SQL] {
        [
            """
            -- name: rejectChanges
            WITH moved AS (
                UPDATE repricer.price_changes SET state = 'rejected', reason = \(reason),
                    ended_at = \(timestamp: at), state_since = \(timestamp: at)
                WHERE original_transaction_id = \(request.originalTransactionID)
                    AND request_reference_id = \(uuid: request.requestReferenceID)
                    AND state IN ('sending', 'unknown')
                RETURNING original_transaction_id, change_id, state, reason
            )
            \(fragment: recordMoved(request, at: at))
            """,
            FoldWrites.releaseRoles([request.originalTransactionID]),
        ]
    }

    /// The states of the changes that an intent carries, after a fold.
    package static func isSettled(
        _ request: Held, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.query(
            """
            -- name: isRequestSettled
            SELECT 1 FROM repricer.price_changes
            WHERE original_transaction_id = \(request.originalTransactionID)
                AND request_reference_id = \(uuid: request.requestReferenceID)
                AND state IN ('sending', 'unknown')
            """
        ).isEmpty
    }
}

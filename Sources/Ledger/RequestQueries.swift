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

        package init(
            originalTransactionID: String, requestReferenceID: String, changeIDs: [String],
            transactionID: String, call: String, fence: Int64 = 1, attempts: Int = 1,
            looks: Int = 0,
            nextStep: String = "send", errorCode: Int64? = nil
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
                sent_at = \(timestamp: now), state_since = \(timestamp: now), next_attempt_at = NULL
            WHERE original_transaction_id = \(id)
                AND change_id = ANY (\(uuids: request.changeIDs)::uuid[]) AND state = 'queued'
            """,
            DispatchQueries.history(
                id, request.changeIDs, .sending, at: now, kind: "request",
                evidenceID: request.requestReferenceID, reason: nil),
        ]
    }

    /// Takes over intents whose holder is gone, or whose retry is due.
    package static func takeOver(
        owner: String, leaseUntil: Int64, realNow: Int64, limit: Int,
        on connection: isolated PostgresConnection
    ) throws -> [Held] {
        let rows = try connection.query(
            """
            -- name: takeOverRequests
            WITH due AS (
                SELECT original_transaction_id, request_reference_id
                FROM repricer.price_change_requests
                WHERE state IN ('sending', 'unknown') AND lease_until <= \(timestamp: realNow)
                    AND (next_attempt_at IS NULL OR next_attempt_at <= \(timestamp: realNow))
                ORDER BY lease_until LIMIT \(limit) FOR UPDATE SKIP LOCKED
            )
            UPDATE repricer.price_change_requests r
            SET lease_owner = \(uuid: owner), lease_until = \(timestamp: leaseUntil),
                fence = r.fence + 1, state = 'unknown', next_attempt_at = NULL,
                attempts = r.attempts + CASE WHEN r.next_step = 'send' THEN 1 ELSE 0 END,
                looks = r.looks + CASE WHEN r.next_step = 'look' THEN 1 ELSE 0 END
            FROM due
            WHERE r.original_transaction_id = due.original_transaction_id
                AND r.request_reference_id = due.request_reference_id
            RETURNING r.*
            """)
        return try rows.map { row in
            Held(
                originalTransactionID: try row.text("original_transaction_id"),
                requestReferenceID: try row.text("request_reference_id"),
                changeIDs: try row.texts("change_ids"),
                transactionID: try row.text("transaction_id"),
                call: try row.text("call"), fence: try row.int64("fence"),
                attempts: try row.int("attempts"), looks: try row.int("looks"),
                nextStep: try row.text("next_step"), errorCode: try row.int64OrNil("error_code"))
        }
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

    /// Nobody knows whether Apple has it: released for the next step, in real time.
    package static func leaveUnknown(
        _ request: Held, _ answer: Answer, nextStep: String, nextAttemptAt: Int64, at: Int64
    ) -> [SQL] {
        [
            """
            -- name: leaveRequestUnknown
            UPDATE repricer.price_change_requests SET state = 'unknown', next_step = \(nextStep),
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
            UPDATE repricer.price_changes SET state = 'unknown', reason = \(answer.message),
                state_since = \(timestamp: at)
            WHERE original_transaction_id = \(request.originalTransactionID)
                AND request_reference_id = \(uuid: request.requestReferenceID)
                AND state IN ('sending', 'unknown')
            """,
            DispatchQueries.history(
                request.originalTransactionID, request.changeIDs, .unknown, at: at, kind: "request",
                evidenceID: request.requestReferenceID, reason: answer.message),
        ]
    }

    /// The call did not reach Apple or was definitely not applied: judged and sent again later, with a new id.
    package static func requeue(
        _ request: Held, nextAttemptAt: Int64?, goesAlone: Bool, at: Int64, reason: String
    ) -> [SQL] {
        [
            """
            -- name: requeueChanges
            UPDATE repricer.price_changes SET state = 'queued', reason = \(reason), sent_at = NULL,
                next_attempt_at = \(timestamp: nextAttemptAt), state_since = \(timestamp: at),
                goes_alone = goes_alone OR \(goesAlone)
            WHERE original_transaction_id = \(request.originalTransactionID)
                AND request_reference_id = \(uuid: request.requestReferenceID)
                AND state IN ('sending', 'unknown')
            """,
            DispatchQueries.history(
                request.originalTransactionID, request.changeIDs, .queued, at: at, kind: "request",
                evidenceID: request.requestReferenceID, reason: reason),
        ]
    }

    /// The App Store refused for good: the changes end with its code.
    package static func reject(_ request: Held, reason: String, at: Int64) -> [SQL] {
        [
            """
            -- name: rejectChanges
            UPDATE repricer.price_changes SET state = 'rejected', reason = \(reason),
                ended_at = \(timestamp: at), state_since = \(timestamp: at)
            WHERE original_transaction_id = \(request.originalTransactionID)
                AND request_reference_id = \(uuid: request.requestReferenceID)
                AND state IN ('sending', 'unknown')
            """,
            DispatchQueries.history(
                request.originalTransactionID, request.changeIDs, .rejected, at: at,
                kind: "request",
                evidenceID: request.requestReferenceID, reason: reason),
            FoldQueries.releaseRoles(request.originalTransactionID),
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

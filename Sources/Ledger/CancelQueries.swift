package import Postgres

/// Intents to cancel a subscription: one row a call, written before it, fenced by its lease.
package enum CancelQueries {
    /// An intent that this process holds.
    package struct Held: Sendable, Hashable {
        /// The subscription to be cancelled.
        package var originalTransactionID: String
        package var requestReferenceID: String
        /// The subscriptions whose dependents it is cancelled for, sorted.
        package var parents: [String]
        package var transactionID: String
        /// The call as JSON, the very one of the first attempt.
        package var call: String
        package var fence: Int64
        package var attempts: Int
        package var looks: Int
        /// `send` the same call with the same id, or `look` at the subscription's status.
        package var nextStep: String
        /// What an attempt was refused with, while a look is to tell what that means.
        package var errorCode: Int64?
        /// No dependent asks for it any more: it may be looked at and is never sent again.
        package var isOver: Bool

        package init(
            originalTransactionID: String, requestReferenceID: String, parents: [String],
            transactionID: String, call: String
        ) {
            self.originalTransactionID = originalTransactionID
            self.requestReferenceID = requestReferenceID
            self.parents = parents
            self.transactionID = transactionID
            self.call = call
            fence = 1
            attempts = 1
            looks = 0
            nextStep = "send"
            errorCode = nil
            isOver = false
        }

        fileprivate init(_ row: Row) throws {
            originalTransactionID = try row.text("original_transaction_id")
            requestReferenceID = try row.text("request_reference_id")
            parents = try row.texts("parents")
            transactionID = try row.text("transaction_id")
            call = try row.text("call")
            fence = try row.int64("fence")
            attempts = try row.int("attempts")
            looks = try row.int("looks")
            nextStep = try row.text("next_step")
            errorCode = try row.int64OrNil("error_code")
            isOver = try row.bool("is_over")
        }

        /// All whose locks a writer of this intent needs.
        package var subscriptions: [String] { parents + [originalTransactionID] }

        package var isLook: Bool { nextStep == "look" }

        /// Whether no earlier attempt with this id can have been applied.
        package var isFirstAttempt: Bool { attempts == 1 && looks == 0 }
    }

    /// Writes the intent and marks its dependents.
    package static func insert(
        _ request: Held, for dependents: [DependentQueries.Open], owner: String, leaseUntil: Int64,
        now: Int64
    ) -> [SQL] {
        [
            """
            -- name: insertCancelRequest
            INSERT INTO repricer.cancel_requests
                (original_transaction_id, request_reference_id, parents, transaction_id, call,
                 lease_owner, lease_until, prepared_at)
            VALUES (\(request.originalTransactionID), \(uuid: request.requestReferenceID),
                \(request.parents)::text[], \(request.transactionID), \(json: request.call),
                \(uuid: owner), \(timestamp: leaseUntil), \(timestamp: now))
            """,
            """
            -- name: markCancelSent
            WITH moved AS (
                UPDATE repricer.dependent_cancellations d
                SET state = 'cancel_sent', cancel_reference_id = \(uuid: request.requestReferenceID),
                    detail = NULL
                FROM unnest(\(dependents.map(\.originalTransactionID))::text[],
                    \(uuids: dependents.map(\.changeID))::uuid[],
                    \(dependents.map(\.dependentSKU))::text[]) AS t (id, change_id, sku)
                WHERE d.original_transaction_id = t.id AND d.change_id = t.change_id
                    AND d.dependent_sku = t.sku AND d.state = 'requested'
                RETURNING d.*
            )
            \(fragment: OutboxQueries.tellDependents)
            """,
        ]
    }

    /// Intents whose holder is gone or whose next step is due: to be looked at, or sent once more. One that is over is
    /// only looked at; one of a paused batch, or whose subscription has another call in flight, waits.
    private static func due(looking: Bool, realNow: Int64) -> SQL {
        let mayGo: SQL =
            looking
            ? "true"
            : """
            NOT d.is_paused AND \(fragment: OtherCalls.none(
                besides: .cancel, of: "r.original_transaction_id", since: "r.prepared_at",
                realNow: realNow))
            """
        return """
            repricer.cancel_requests r, LATERAL (
                SELECT count(*) = 0 AS is_over,
                    coalesce(bool_or(b.is_paused), false)
                        OR (SELECT is_paused FROM repricer.service_controls) AS is_paused
                FROM repricer.dependent_cancellations c
                JOIN repricer.batches b ON b.batch_id = c.batch_id
                WHERE c.original_transaction_id = ANY (r.parents)
                    AND c.cancel_reference_id = r.request_reference_id AND c.state = 'cancel_sent'
            ) d
            WHERE r.state IN ('sending', 'unknown') AND r.lease_until <= \(timestamp: realNow)
                AND (r.next_attempt_at IS NULL OR r.next_attempt_at <= \(timestamp: realNow))
                AND (r.next_step = 'look' OR d.is_over) = \(looking) AND \(fragment: mayGo)
            """
    }

    /// Locks the subscriptions of intents that are to be sent once more, so that no other call of them begins.
    private static func lockForSending(
        realNow: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: lockCancelsToSend
            SELECT r.original_transaction_id FROM (
                SELECT r.original_transaction_id, r.lease_until
                FROM \(fragment: due(looking: false, realNow: realNow))
            ) r
            JOIN repricer.subscriptions s ON s.original_transaction_id = r.original_transaction_id
            ORDER BY r.lease_until LIMIT \(limit) FOR UPDATE OF s SKIP LOCKED
            """
        ).map { try $0.text("original_transaction_id") }
    }

    /// Takes over due intents: to look at their subscriptions, or to send them once more.
    package static func takeOver(
        looking: Bool, owner: String, leaseUntil: Int64, realNow: Int64, limit: Int,
        on connection: isolated PostgresConnection
    ) throws -> [Held] {
        var isLocked: SQL = ""
        if !looking {
            let ids = try lockForSending(realNow: realNow, limit: limit, on: connection)
            guard !ids.isEmpty else { return [] }
            isLocked = "AND r.original_transaction_id = ANY (\(ids)::text[])"
        }
        return try connection.query(
            """
            -- name: takeOverCancelRequests
            WITH due AS (
                SELECT r.original_transaction_id, r.request_reference_id,
                    r.next_step = 'look' OR d.is_over AS is_look, d.is_over
                FROM \(fragment: due(looking: looking, realNow: realNow)) \(fragment: isLocked)
                ORDER BY r.lease_until LIMIT \(limit) FOR UPDATE OF r SKIP LOCKED
            )
            UPDATE repricer.cancel_requests r
            SET lease_owner = \(uuid: owner), lease_until = \(timestamp: leaseUntil),
                fence = r.fence + 1, state = 'unknown', next_attempt_at = NULL,
                next_step = CASE WHEN due.is_look THEN 'look' ELSE 'send' END,
                attempts = r.attempts + CASE WHEN due.is_look THEN 0 ELSE 1 END,
                looks = r.looks + CASE WHEN due.is_look THEN 1 ELSE 0 END
            FROM due
            WHERE r.original_transaction_id = due.original_transaction_id
                AND r.request_reference_id = due.request_reference_id
            RETURNING r.*, due.is_over
            """
        ).map { try Held($0) }
    }

    /// Prolongs the lease of a call that is still out; one taken over has another fence and is left alone.
    package static func renew(_ request: Held, until: Int64) -> SQL {
        """
        -- name: renewCancelLease
        UPDATE repricer.cancel_requests SET lease_until = \(timestamp: until)
        WHERE \(fragment: isHeld(request)) AND next_attempt_at IS NULL
        """
    }

    /// An attempt of which nothing has left: as if it had not been made. Not for the first one of an id, which is ended.
    package static func putBack(_ request: Held, nextAttemptAt: Int64) -> SQL {
        """
        -- name: putBackCancel
        UPDATE repricer.cancel_requests
        SET attempts = attempts - CASE WHEN next_step = 'look' THEN 0 ELSE 1 END,
            looks = looks - CASE WHEN next_step = 'look' THEN 1 ELSE 0 END,
            next_attempt_at = \(timestamp: nextAttemptAt), lease_until = \(timestamp: nextAttemptAt)
        WHERE \(fragment: isHeld(request))
        """
    }

    /// Whether this process still holds it; asked under the locks, before any result is written.
    package static func isHeld(
        _ request: Held, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try !connection.query(
            """
            -- name: heldCancelRequest
            SELECT 1 FROM repricer.cancel_requests WHERE \(fragment: isHeld(request)) FOR UPDATE
            """
        ).isEmpty
    }

    private static func isHeld(_ request: Held) -> SQL {
        """
        original_transaction_id = \(request.originalTransactionID)
            AND request_reference_id = \(uuid: request.requestReferenceID)
            AND fence = \(request.fence) AND state IN ('sending', 'unknown')
        """
    }

    /// What the end of an attempt does to its intent and its dependents.
    package enum Fate: Sendable, Hashable {
        /// A statement shows that the subscription will not renew.
        case proved(evidenceID: String, detail: String)
        /// A person must see: refused for good, or answered and still renewing.
        case discrepancy(detail: String, isApplied: Bool)
        /// Not applied by any attempt: judged anew, in real time, under a new id.
        case requeued(reason: String, nextLookAt: Int64)
        /// Nobody knows, or not yet: released for the next step, in real time.
        case unknown(reason: String, nextStep: String, nextAttemptAt: Int64)
    }

    package struct Answer: Sendable, Hashable {
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

    /// To be sent in one pipeline, by the holder of the lease and of all its locks.
    package static func end(_ request: Held, _ fate: Fate, _ answer: Answer, at: Int64) -> [SQL] {
        switch fate {
        case .proved(let evidenceID, let detail):
            [
                close(request, "answered", answer, at: at),
                settleDependents(
                    request, "confirmed", detail: detail, evidenceID: evidenceID, at: at),
            ]
        case .discrepancy(let detail, let isApplied):
            [
                close(request, isApplied ? "answered" : "refused", answer, at: at),
                settleDependents(request, "discrepancy", detail: detail, evidenceID: nil, at: at),
            ]
        case .requeued(let reason, let nextLookAt):
            [
                close(request, "refused", answer, at: at),
                requeueDependents(request, reason: reason, nextLookAt: nextLookAt),
            ]
        case .unknown(_, let nextStep, let nextAttemptAt):
            [leaveUnknown(request, nextStep: nextStep, nextAttemptAt: nextAttemptAt, answer)]
        }
    }

    private static func close(
        _ request: Held, _ state: String, _ answer: Answer, at: Int64
    ) -> SQL {
        """
        -- name: closeCancelRequest
        UPDATE repricer.cancel_requests SET state = \(state), settled_at = \(timestamp: at),
            http_status = \(answer.httpStatus.map { Int64($0) })::bigint,
            error_code = \(answer.errorCode), error_message = \(answer.message),
            answer = \(answer.body)
        WHERE \(fragment: isHeld(request))
        """
    }

    private static func leaveUnknown(
        _ request: Held, nextStep: String, nextAttemptAt: Int64, _ answer: Answer
    ) -> SQL {
        """
        -- name: leaveCancelUnknown
        UPDATE repricer.cancel_requests SET state = 'unknown', next_step = \(nextStep),
            looks = CASE WHEN next_step = 'send' THEN 0 ELSE looks END,
            next_attempt_at = \(timestamp: nextAttemptAt), lease_until = \(timestamp: nextAttemptAt),
            http_status = \(answer.httpStatus.map { Int64($0) })::bigint,
            error_code = \(answer.errorCode), error_message = \(answer.message),
            answer = \(answer.body)
        WHERE \(fragment: isHeld(request))
        """
    }

    private static func ofRequest(_ request: Held) -> SQL {
        """
        original_transaction_id = ANY (\(request.parents)::text[])
            AND cancel_reference_id = \(uuid: request.requestReferenceID) AND state = 'cancel_sent'
        """
    }

    private static func settleDependents(
        _ request: Held, _ state: String, detail: String, evidenceID: String?, at: Int64
    ) -> SQL {
        """
        -- name: settleCancelledDependents
        WITH moved AS (
            UPDATE repricer.dependent_cancellations
            SET state = \(state), detail = \(detail), settled_at = \(timestamp: at),
                settled_by_evidence = \(evidenceID)
            WHERE \(fragment: ofRequest(request))
            RETURNING *
        )
        \(fragment: OutboxQueries.tellDependents)
        """
    }

    private static func requeueDependents(
        _ request: Held, reason: String, nextLookAt: Int64
    ) -> SQL {
        """
        -- name: requeueDependents
        WITH moved AS (
            UPDATE repricer.dependent_cancellations
            SET state = 'requested', detail = \(reason), cancel_reference_id = NULL,
                next_look_at = \(timestamp: nextLookAt), looks = 0
            WHERE \(fragment: ofRequest(request))
            RETURNING *
        )
        \(fragment: OutboxQueries.tellDependents)
        """
    }
}

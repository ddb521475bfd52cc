package import Postgres

extension RequestQueries {
    /// What the end of an attempt does to its intent and its changes.
    package enum Fate: Sendable {
        /// Apple has it; the fold moved its changes.
        case answered
        /// The App Store refused for good: the changes end with its code. `isDoubtful`: an earlier attempt of it
        /// may have been applied, though no look showed it.
        case rejected(reason: String, isDoubtful: Bool = false)
        /// The call did not reach Apple or was definitely not applied: judged and sent again later, with a new
        /// id. A change whose batch was withdrawn meanwhile is withdrawn now. `nextAttemptAt` in real time.
        /// `isDoubtful`: nobody knows, and looks showed nothing. Statements are still followed for it.
        case requeued(
            reason: String, goesAlone: Bool, nextAttemptAt: Int64?, isDoubtful: Bool = false)
        /// Nobody knows whether Apple has it: released for the next step, in real time. The looks that follow a
        /// call are counted from that call.
        case unknown(nextStep: String, nextAttemptAt: Int64)
    }

    package struct Ending: Sendable {
        let request: Held
        let fate: Fate
        let answer: Answer

        package init(_ request: Held, _ fate: Fate, _ answer: Answer) {
            self.request = request
            self.fate = fate
            self.answer = answer
        }

        fileprivate var reason: String? {
            switch fate {
            case .answered: nil
            case .rejected(let reason, _), .requeued(let reason, _, _, _): reason
            case .unknown: answer.message
            }
        }

        fileprivate var nextAttemptAt: Int64? {
            switch fate {
            case .requeued(_, _, let at, _): at
            case .unknown(_, let at): at
            case .answered, .rejected: nil
            }
        }
    }

    /// How many attempts ended: one statement for each table and fate, however many they are.
    package struct Endings: Sendable {
        private var ended: [Ending] = []
        private var rejected: [Ending] = []
        private var requeued: [Ending] = []
        private var unknown: [Ending] = []

        package init() {}

        package mutating func append(_ ending: Ending) {
            switch ending.fate {
            case .answered: ended.append(ending)
            case .rejected:
                ended.append(ending)
                rejected.append(ending)
            case .requeued:
                ended.append(ending)
                requeued.append(ending)
            case .unknown: unknown.append(ending)
            }
        }

        /// The subscriptions whose call is over.
        package var closed: [String] { ended.map(\.request.originalTransactionID) }

        /// To be sent in one pipeline, in this order, by the holder of the leases.
        package func statements(at: Int64) -> [SQL] {
            var statements: [SQL] = []
            if !ended.isEmpty { statements.append(RequestQueries.close(ended, at: at)) }
            if !unknown.isEmpty { statements += RequestQueries.leaveUnknown(unknown, at: at) }
            if !requeued.isEmpty { statements.append(RequestQueries.requeue(requeued, at: at)) }
            if !rejected.isEmpty { statements.append(RequestQueries.reject(rejected, at: at)) }
            let freed = (requeued + rejected).map(\.request.originalTransactionID)
            if !freed.isEmpty { statements.append(FoldWrites.releaseRoles(freed)) }
            return statements
        }
    }

    /// Closes the intents: `answered` (Apple has it) or `refused` (Apple has it not).
    private static func close(_ endings: [Ending], at: Int64) -> SQL {
        """
        -- name: settleRequests
        UPDATE repricer.price_change_requests r SET state = t.state,
            settled_at = \(timestamp: at)::timestamptz, http_status = t.http_status,
            error_code = t.error_code, error_message = t.message, answer = t.answer
        FROM unnest(\(endings.column { $0.request.originalTransactionID })::text[],
            \(uuids: endings.column { $0.request.requestReferenceID })::uuid[],
            \(endings.column { $0.request.fence })::bigint[], \(endings.column { $0.state })::text[],
            \(ints: endings.sparseColumn { $0.answer.httpStatus.map { Int64($0) } })::bigint[],
            \(ints: endings.sparseColumn { $0.answer.errorCode })::bigint[],
            \(texts: endings.sparseColumn { $0.answer.message })::text[],
            \(texts: endings.sparseColumn { $0.answer.body })::text[]
        ) AS t (id, request, fence, state, http_status, error_code, message, answer)
        WHERE r.original_transaction_id = t.id AND r.request_reference_id = t.request
            AND r.fence = t.fence
        """
    }

    /// Opens again, one a subscription, the closed intents of changes of unknown outcome: the statement that had settled
    /// them was about another call, as a later one shows, and nobody would ask about them any more. They are looked at,
    /// and never sent again. Where a subscription has a call in flight, this waits for the settlement of that one.
    ///
    /// After the statements that close intents or move changes, under the subscriptions' locks.
    package static func reopen(_ ids: [String]) -> SQL {
        """
        -- name: reopenRequests
        UPDATE repricer.price_change_requests r SET state = 'unknown', settled_at = NULL,
            next_step = 'look', looks = 0, fence = r.fence + 1, next_attempt_at = r.lease_until,
            is_reopened = true
        FROM (SELECT DISTINCT unnest(\(ids)::text[]) AS id) t
        CROSS JOIN LATERAL (
            SELECT c.request_reference_id FROM repricer.price_changes c
            JOIN repricer.price_change_requests q
                ON q.original_transaction_id = c.original_transaction_id
                    AND q.request_reference_id = c.request_reference_id
            WHERE c.original_transaction_id = t.id AND c.state IN ('sending', 'unknown')
                AND q.state IN ('answered', 'refused')
            ORDER BY c.change_id LIMIT 1
        ) closed
        WHERE r.original_transaction_id = t.id
            AND r.request_reference_id = closed.request_reference_id
            AND NOT EXISTS (
                SELECT 1 FROM repricer.price_change_requests o
                WHERE o.original_transaction_id = t.id AND o.state IN ('sending', 'unknown') OFFSET 0)
        """
    }

    private static func leaveUnknown(_ endings: [Ending], at: Int64) -> [SQL] {
        [
            """
            -- name: leaveRequestsUnknown
            UPDATE repricer.price_change_requests r SET state = 'unknown', next_step = t.next_step,
                looks = CASE WHEN r.next_step = 'send' THEN 0 ELSE r.looks END,
                next_attempt_at = t.next_attempt_at, lease_until = t.next_attempt_at,
                http_status = t.http_status, error_code = t.error_code, error_message = t.message,
                answer = t.answer
            FROM unnest(\(endings.map(\.request.originalTransactionID))::text[],
                \(uuids: endings.map(\.request.requestReferenceID))::uuid[],
                \(endings.map(\.request.fence))::bigint[],
                \(endings.map(\.nextStep))::text[],
                \(timestamps: endings.map(\.nextAttemptAt))::timestamptz[],
                \(ints: endings.map { $0.answer.httpStatus.map { Int64($0) } })::bigint[],
                \(ints: endings.map(\.answer.errorCode))::bigint[],
                \(texts: endings.map(\.answer.message))::text[],
                \(texts: endings.map(\.answer.body))::text[]
            ) AS t (id, request, fence, next_step, next_attempt_at, http_status, error_code, message,
                answer)
            WHERE r.original_transaction_id = t.id AND r.request_reference_id = t.request
                AND r.fence = t.fence
            """,
            """
            -- name: leaveChangesUnknown
            WITH moved AS (
                UPDATE repricer.price_changes c SET state = 'unknown', reason = t.reason,
                    state_since = \(timestamp: at)::timestamptz
                FROM \(fragment: changes(of: endings))
                WHERE \(fragment: isOpen)
                RETURNING c.original_transaction_id, c.change_id, c.state, c.reason,
                    c.request_reference_id
            )
            \(fragment: recordMoved(at: at))
            """,
        ]
    }

    private static func requeue(_ endings: [Ending], at: Int64) -> SQL {
        """
        -- name: requeueChanges
        WITH moved AS (
            UPDATE repricer.price_changes c SET
                state = CASE WHEN b.state = 'approved' THEN 'queued' ELSE 'aborted' END,
                reason = CASE WHEN b.state = 'approved' THEN t.reason ELSE b.state END,
                ended_at = CASE WHEN b.state = 'approved' THEN NULL
                    ELSE \(timestamp: at)::timestamptz END,
                doubtful_since = \(fragment: doubtfulSince), sent_at = NULL,
                next_attempt_at = t.next_attempt_at,
                state_since = \(timestamp: at)::timestamptz,
                goes_alone = c.goes_alone OR t.goes_alone
            FROM \(fragment: changes(of: endings)), repricer.batches b
            WHERE b.batch_id = c.batch_id AND \(fragment: isOpen)
            RETURNING c.original_transaction_id, c.change_id, c.state, c.reason,
                c.request_reference_id
        )
        \(fragment: recordMoved(at: at))
        """
    }

    private static func reject(_ endings: [Ending], at: Int64) -> SQL {
        """
        -- name: rejectChanges
        WITH moved AS (
            UPDATE repricer.price_changes c SET state = 'rejected', reason = t.reason,
                ended_at = \(timestamp: at)::timestamptz,
                doubtful_since = \(fragment: doubtfulSince),
                state_since = \(timestamp: at)::timestamptz
            FROM \(fragment: changes(of: endings))
            WHERE \(fragment: isOpen)
            RETURNING c.original_transaction_id, c.change_id, c.state, c.reason,
                c.request_reference_id
        )
        \(fragment: recordMoved(at: at))
        """
    }

    /// The attempts `t` with each open change that they carry. Found by the subscription, one by one: how many are open
    /// changes faster than statistics, and a plan that starts from the state reads all that moved since the last vacuum.
    private static func changes(of endings: [Ending]) -> SQL {
        """
        (
            SELECT e.*, p.change_id FROM unnest(\(endings.map(\.request.originalTransactionID))::text[],
                \(uuids: endings.map(\.request.requestReferenceID))::uuid[],
                \(texts: endings.map(\.reason))::text[],
                \(timestamps: endings.map(\.nextAttemptAt))::timestamptz[],
                \(ints: endings.map { $0.goesAlone ? 1 : 0 })::bigint[]::integer[]::boolean[],
                \(ints: endings.map { $0.isDoubtful ? 1 : 0 })::bigint[]::integer[]::boolean[]
            ) AS e (id, request, reason, next_attempt_at, goes_alone, is_doubtful)
            CROSS JOIN LATERAL (
                SELECT p.change_id FROM repricer.price_changes p
                WHERE p.original_transaction_id = e.id AND p.request_reference_id = e.request
                    AND p.state IN ('sending', 'unknown')
                OFFSET 0
            ) p
        ) t
        """
    }

    /// The first call of the change `c` of unknown outcome is remembered for good, whatever becomes of later ones.
    private static let doubtfulSince: SQL = """
        CASE WHEN t.is_doubtful THEN coalesce(c.doubtful_since, c.sent_at) ELSE c.doubtful_since END
        """

    /// The change `c` is the one that `t` names, and is still open: not asked in words that an index on states answers.
    private static let isOpen: SQL = """
        c.original_transaction_id = t.id AND c.change_id = t.change_id
            AND c.request_reference_id = t.request AND (c.state IN ('sending', 'unknown')) IS TRUE
        """

    /// A line of history for each change that the statement before it moved, and for no other.
    private static func recordMoved(at: Int64) -> SQL {
        """
        INSERT INTO repricer.price_change_history
            (original_transaction_id, change_id, occurred_at, state, evidence_kind, evidence_id, reason)
        SELECT original_transaction_id, change_id, \(timestamp: at)::timestamptz, state, 'request',
            request_reference_id::text, reason
        FROM moved ON CONFLICT DO NOTHING
        """
    }
}

extension RequestQueries.Ending {
    fileprivate var state: String {
        switch fate {
        case .answered: "answered"
        case .rejected, .requeued, .unknown: "refused"
        }
    }

    fileprivate var nextStep: String {
        switch fate {
        case .unknown(let step, _): step
        case .answered, .rejected, .requeued: "send"
        }
    }

    fileprivate var goesAlone: Bool {
        switch fate {
        case .requeued(_, let alone, _, _): alone
        case .answered, .rejected, .unknown: false
        }
    }

    fileprivate var isDoubtful: Bool {
        switch fate {
        case .requeued(_, _, _, let isDoubtful), .rejected(_, let isDoubtful): isDoubtful
        case .answered, .unknown: false
        }
    }
}

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
        /// A batch of its changes was withdrawn, or the last instant of one has passed (`send_by`: sent now, it
        /// would take effect a renewal later), or it was opened again: it may be looked at and is never sent again.
        package var isOver: Bool
        /// When it was taken over a call of it could still be on its way: what a look does not show may come.
        package var isInFlight: Bool

        package init(
            originalTransactionID: String, requestReferenceID: String, changeIDs: [String],
            transactionID: String, call: String, fence: Int64 = 1, attempts: Int = 1,
            looks: Int = 0,
            nextStep: String = "send", errorCode: Int64? = nil, isOver: Bool = false,
            isInFlight: Bool = true
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
            self.isOver = isOver
            self.isInFlight = isInFlight
        }
    }

    /// Writes the intents and claims their changes; all or none, in three statements however many they are.
    /// A line that names a request that is new stands nowhere yet.
    /// `flightTime` in milliseconds: so long after its lease a call may still be on its way.
    package static func insert(
        _ requests: [Held], owner: String, leaseUntil: Int64, flightTime: Int64, now: Int64
    ) -> [SQL] {
        guard !requests.isEmpty else { return [] }
        let changes = requests.flatMap { request in
            request.changeIDs.map {
                (request.originalTransactionID, $0, request.requestReferenceID)
            }
        }
        return [
            """
            -- name: insertRequests
            INSERT INTO repricer.price_change_requests
                (original_transaction_id, request_reference_id, change_ids, transaction_id, call,
                 lease_owner, lease_until, in_flight_until, prepared_at)
            SELECT t.id, t.request, t.changes::uuid[], t.transaction_id, t.call::jsonb,
                \(uuid: owner)::uuid, \(timestamp: leaseUntil)::timestamptz,
                \(timestamp: leaseUntil + flightTime)::timestamptz, \(timestamp: now)::timestamptz
            FROM unnest(\(requests.column { $0.originalTransactionID })::text[],
                \(uuids: requests.column { $0.requestReferenceID })::uuid[],
                \(requests.column { arrayText($0.changeIDs) })::text[],
                \(requests.column { $0.transactionID })::text[], \(requests.column { $0.call })::text[]
            ) AS t (id, request, changes, transaction_id, call)
            """,
            """
            -- name: claimChanges
            UPDATE repricer.price_changes c SET state = 'sending', reason = NULL,
                request_reference_id = t.request, sent_at = \(timestamp: now)::timestamptz,
                state_since = \(timestamp: now)::timestamptz, next_attempt_at = NULL,
                planned_effective_at = NULL, called_sku = c.current_sku,
                called_dependent_skus = c.current_dependent_skus, former_skus = NULL
            FROM unnest(\(changes.map(\.0))::text[], \(uuids: changes.map(\.1))::uuid[],
                \(uuids: changes.map(\.2))::uuid[]) AS t (id, change_id, request)
            WHERE c.original_transaction_id = t.id AND c.change_id = t.change_id
                AND c.state = 'queued'
            """,
            """
            -- name: recordClaims
            INSERT INTO repricer.price_change_history
                (original_transaction_id, change_id, occurred_at, state, evidence_kind, evidence_id, reason)
            SELECT t.id, t.change_id, \(timestamp: now)::timestamptz, 'sending', 'request',
                t.request::text, NULL
            FROM unnest(\(changes.map(\.0))::text[], \(uuids: changes.map(\.1))::uuid[],
                \(uuids: changes.map(\.2))::uuid[]) AS t (id, change_id, request)
            """,
        ]
    }

    /// What open intents wait for.
    package struct Waiting: Sendable {
        /// For a call with their id.
        package var sends: Bool
        /// For a look at their subscription's status.
        package var looks: Bool
        /// UTC milliseconds: no lease of an open intent ends earlier; nil when none is open.
        package var firstLease: Int64?
    }

    /// Whether intents wait for a call with their id, or for a look. `floor` (UTC milliseconds): no open intent's
    /// lease ends before it.
    package static func waiting(
        from floor: Int64?, now: Int64, realNow: Int64
    ) -> Question<Waiting> {
        Question(
            """
            -- name: waitingRequests
            WITH first AS MATERIALIZED (
                SELECT lease_until FROM repricer.price_change_requests
                WHERE settled_at IS NULL
                    AND lease_until >= coalesce(\(timestamp: floor)::timestamptz, '-infinity')
                ORDER BY lease_until LIMIT 1
            )
            SELECT coalesce(bool_or(NOT is_look AND NOT waits), false) AS sends,
                coalesce(bool_or(is_look), false) AS looks,
                (SELECT lease_until FROM first) AS first_lease
            FROM (
                \(fragment: dueRequests(now: now, realNow: realNow))
                    AND r.lease_until >= (SELECT lease_until FROM first)
            ) due
            """
        ) { rows in
            let row = try rows.one()
            return Waiting(
                sends: try row.bool("sends"), looks: try row.bool("looks"),
                firstLease: try row.millisecondsOrNil("first_lease"))
        }
    }

    /// Intents whose holder is gone, or whose retry is due, with what may be done about them. One whose batch
    /// was withdrawn, whose last instant has passed, whose changes a notification has settled, or that was opened again,
    /// is only looked at; one of a paused batch or halted storefront, and every one while everything is paused, waits,
    /// as does one whose subscription has another call in flight. Where a change of another batch would wait with it, one
    /// that is held back is looked at instead, until it was seen applied or can't be any more and its changes are queued
    /// again.
    private static func dueRequests(now: Int64, realNow: Int64) -> SQL {
        """
        SELECT r.original_transaction_id, r.request_reference_id, r.lease_until,
            r.next_step = 'look' OR r.is_reopened
                OR coalesce(c.is_over OR c.is_awaited, true) AS is_look,
            CASE WHEN r.next_step = 'send' AND NOT r.is_reopened THEN coalesce(c.is_paused, false) OR NOT (\(fragment:
                OtherCalls.none(
                    besides: .priceChange, of: "r.original_transaction_id",
                    since: "r.prepared_at", realNow: realNow)))
                ELSE false END AS waits,
            coalesce(c.is_over OR c.is_awaited, false) OR r.is_reopened AS is_over
        FROM repricer.price_change_requests r, LATERAL (
            SELECT bool_or(b.is_paused OR b.halted_storefronts ? p.storefront) OR (SELECT is_paused FROM repricer.service_controls)
                    AS is_paused,
                bool_or(b.is_paused OR b.halted_storefronts ? p.storefront)
                    AND NOT (SELECT is_paused FROM repricer.service_controls)
                    AND (bool_or(NOT (b.is_paused OR b.halted_storefronts ? p.storefront))
                        OR \(fragment: hasQueued)) AS is_awaited,
                bool_or(\(fragment: isOver(now: now))) AS is_over
            FROM repricer.price_changes p JOIN repricer.batches b ON b.batch_id = p.batch_id
            WHERE p.original_transaction_id = r.original_transaction_id
                AND p.request_reference_id = r.request_reference_id
                AND p.state IN ('sending', 'unknown')
        ) c
        WHERE r.settled_at IS NULL AND r.lease_until <= \(timestamp: realNow)
            AND (r.next_attempt_at IS NULL OR r.next_attempt_at <= \(timestamp: realNow))
        """
    }

    /// Changes of the subscription of `r` could be sent now, or another call of it looked at again, if it had no call in
    /// flight.
    private static let hasQueued: SQL = """
        EXISTS (
            SELECT 1 FROM repricer.price_changes q JOIN repricer.batches w ON w.batch_id = q.batch_id
            WHERE q.original_transaction_id = r.original_transaction_id
                AND (q.state = 'queued' AND q.is_ready AND NOT q.is_held
                    AND w.state = 'approved' AND NOT w.is_paused AND q.wave <= w.released_wave
                    AND NOT w.halted_storefronts ? q.storefront
                    OR q.state IN ('sending', 'unknown')
                        AND q.request_reference_id <> r.request_reference_id))
        """

    /// Of a change `p` and its batch `b`: nothing of it may be sent any more.
    static func isOver(now: Int64) -> SQL {
        "b.state <> 'approved' OR p.send_by < \(timestamp: now)"
    }

    /// Locks the subscriptions of intents that are to be sent once more, so that no other call of them begins.
    private static func lockForSending(
        now: Int64, realNow: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [String] {
        try connection.query(
            """
            -- name: lockRequestsToSend
            SELECT d.original_transaction_id FROM (\(fragment: dueRequests(now: now, realNow: realNow))) d
            JOIN repricer.subscriptions s ON s.original_transaction_id = d.original_transaction_id
            WHERE NOT d.is_look AND NOT d.waits
            ORDER BY d.lease_until LIMIT \(limit) FOR UPDATE OF s SKIP LOCKED
            """
        ).map { try $0.text("original_transaction_id") }
    }

    /// Takes over due intents: to look at their subscriptions, or to send them once more.
    package static func takeOver(
        looking: Bool, owner: String, leaseUntil: Int64, flightTime: Int64, now: Int64,
        realNow: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [Held] {
        var isLocked: SQL = ""
        if !looking {
            let ids = try lockForSending(now: now, realNow: realNow, limit: limit, on: connection)
            guard !ids.isEmpty else { return [] }
            isLocked = "AND r.original_transaction_id = ANY (\(ids)::text[])"
        }
        let rows = try connection.query(
            """
            -- name: takeOverRequests
            WITH due AS (
                SELECT d.* FROM (\(fragment: dueRequests(now: now, realNow: realNow))) d
                JOIN repricer.price_change_requests r
                    ON r.original_transaction_id = d.original_transaction_id
                        AND r.request_reference_id = d.request_reference_id
                WHERE d.is_look = \(looking) AND (d.is_look OR NOT d.waits)
                    AND r.settled_at IS NULL AND r.lease_until <= \(timestamp: realNow)
                    \(fragment: isLocked)
                ORDER BY r.lease_until LIMIT \(limit) FOR UPDATE OF r SKIP LOCKED
            )
            UPDATE repricer.price_change_requests r
            SET lease_owner = \(uuid: owner), lease_until = \(timestamp: leaseUntil),
                fence = r.fence + 1, state = 'unknown', next_attempt_at = NULL,
                next_step = CASE WHEN due.is_look THEN 'look' ELSE 'send' END,
                in_flight_until = CASE WHEN due.is_look THEN r.in_flight_until
                    ELSE greatest(r.in_flight_until, \(timestamp: leaseUntil + flightTime)) END,
                attempts = r.attempts + CASE WHEN due.is_look THEN 0 ELSE 1 END,
                looks = r.looks + CASE WHEN due.is_look THEN 1 ELSE 0 END
            FROM due
            WHERE r.original_transaction_id = due.original_transaction_id
                AND r.request_reference_id = due.request_reference_id
            RETURNING r.*, due.is_over, \(fragment: isInFlight(realNow: realNow))
            """)
        return try rows.map { try held($0) }
    }

    /// Of a request `r`. One from before this was kept is none.
    static func isInFlight(realNow: Int64) -> SQL {
        "coalesce(r.in_flight_until > \(timestamp: realNow), false) AS is_in_flight"
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
            isOver: try row.bool("is_over"), isInFlight: try row.bool("is_in_flight"))
    }

    /// Prolongs the leases of calls that are still out. One that was taken over has another fence and is left
    /// alone; so is one that somebody is just writing, since waiting for several could lock up with who settles
    /// several.
    package static func renew(_ requests: [Held], until: Int64) -> SQL {
        """
        -- name: renewLeases
        WITH free AS (
            SELECT r.original_transaction_id, r.request_reference_id
            FROM \(fragment: fenced(requests))
            CROSS JOIN LATERAL (
                SELECT r.original_transaction_id, r.request_reference_id
                FROM repricer.price_change_requests r
                WHERE \(fragment: isHeld) AND r.next_attempt_at IS NULL
                FOR UPDATE SKIP LOCKED
            ) r
        )
        UPDATE repricer.price_change_requests r SET lease_until = \(timestamp: until)
        FROM free
        WHERE r.original_transaction_id = free.original_transaction_id
            AND r.request_reference_id = free.request_reference_id
        """
    }

    /// Which of these intents this process still holds, by request id; taken with their subscriptions' locks,
    /// before any result is written. A holder whose lease was taken over writes nothing.
    package static func holding(_ requests: [Held]) -> Question<Set<String>> {
        Question(
            """
            -- name: heldRequests
            SELECT r.request_reference_id
            FROM (SELECT * FROM \(fragment: fenced(requests)) ORDER BY id) t
            CROSS JOIN LATERAL (
                SELECT r.request_reference_id FROM repricer.price_change_requests r
                WHERE \(fragment: isHeld)
                FOR UPDATE
            ) r
            """
        ) { rows in Set(try rows.map { try $0.text("request_reference_id") }) }
    }

    private static func fenced(_ requests: [Held]) -> SQL {
        """
        unnest(\(requests.column { $0.originalTransactionID })::text[],
            \(uuids: requests.column { $0.requestReferenceID })::uuid[],
            \(requests.column { $0.fence })::bigint[]) AS t (id, request, fence)
        """
    }

    /// The intent `r` is open, and its lease is `t`'s. Asked for each `t` by itself, so that it is found by its key: how many
    /// are open changes faster than statistics, and a plan that starts from them reads all that ended since the last vacuum.
    private static let isHeld: SQL = """
        r.original_transaction_id = t.id AND r.request_reference_id = t.request AND r.fence = t.fence
        AND r.state IN ('sending', 'unknown')
        """

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

    /// Those whose changes a fold has settled, by request id.
    package static func settled(
        among requests: [Held], on connection: isolated PostgresConnection
    ) throws -> Set<String> {
        let rows = try connection.query(
            """
            -- name: settledRequests
            SELECT t.request FROM unnest(\(requests.map(\.originalTransactionID))::text[],
                \(uuids: requests.map(\.requestReferenceID))::uuid[]) AS t (id, request)
            WHERE NOT EXISTS (
                SELECT 1 FROM repricer.price_changes c
                WHERE c.original_transaction_id = t.id AND c.request_reference_id = t.request
                    AND c.state IN ('sending', 'unknown')
                OFFSET 0)
            """)
        return Set(try rows.map { try $0.text("request") })
    }

    /// Those of which a change was refused with the same code before, under another id; by request id. `codes`
    /// answers `requests` one by one.
    package static func refusedBefore(
        _ requests: [Held], codes: [Int64], on connection: isolated PostgresConnection
    ) throws -> Set<String> {
        guard !requests.isEmpty else { return [] }
        let rows = try connection.query(
            """
            -- name: refusedBefore
            SELECT t.request FROM unnest(\(requests.map(\.originalTransactionID))::text[],
                \(uuids: requests.map(\.requestReferenceID))::uuid[], \(codes)::bigint[],
                \(requests.map { arrayText($0.changeIDs) })::text[]) AS t (id, request, code, changes)
            WHERE EXISTS (
                SELECT 1 FROM repricer.price_change_requests r
                WHERE r.original_transaction_id = t.id AND r.request_reference_id <> t.request
                    AND r.state = 'refused' AND r.error_code = t.code
                    AND r.change_ids && t.changes::uuid[])
            """)
        return Set(try rows.map { try $0.text("request") })
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

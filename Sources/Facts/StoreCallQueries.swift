package import Postgres

/// The one table of calls to the App Store, for every kind of call.
///
/// The unique index `store_calls_one_in_flight` enforces one call in flight for each subscription, whatever the kind.
/// Every statement that locks or writes names one bucket. `waiting`, `unknownBuckets` and `otherBuckets` only read, and
/// search all buckets.
package enum StoreCallQueries {
    /// The condition that the subject `id` has a call in flight, or one whose outcome is unknown.
    package static func isInFlight(_ id: SQL, bucket: SQL) -> SQL {
        // OFFSET 0 makes PostgreSQL evaluate this for each subject separately, never for all at once.
        """
        EXISTS (
            SELECT 1 FROM repricer.store_calls o
            WHERE o.subject = \(fragment: id) AND o.bucket = \(fragment: bucket)
                AND o.state IN ('sending', 'unknown') OFFSET 0)
        """
    }

    /// Writes the intents of one claim, all or none.
    ///
    /// - Parameter flightTime: How long after its lease a call may still be on its way, in milliseconds.
    package static func insert(
        _ calls: [StoreCall], owner: String, leaseUntil: Int64, flightTime: Int64, now: Int64
    ) -> SQL {
        """
        -- name: insertCalls
        INSERT INTO repricer.store_calls
            (bucket, subject, call_id, kind, carries, parents, intent, lease_owner, lease_until,
             in_flight_until, prepared_at)
        SELECT t.bucket, t.subject, t.call, t.kind, t.carries::uuid[], t.parents::text[], t.intent::jsonb,
            \(uuid: owner)::uuid, \(timestamp: leaseUntil)::timestamptz,
            \(timestamp: leaseUntil + flightTime)::timestamptz, \(timestamp: now)::timestamptz
        FROM unnest(\(calls.column { Int64($0.bucket) })::bigint[], \(calls.column { $0.subject })::text[],
            \(uuids: calls.column { $0.callID })::uuid[], \(calls.column { $0.kind.rawValue })::text[],
            \(calls.column { arrayText($0.carries) })::text[],
            \(calls.column { arrayText($0.parents) })::text[], \(calls.column { $0.intent })::text[]
        ) AS t (bucket, subject, call, kind, carries, parents, intent)
        """
    }

    /// What open calls of a kind wait for.
    package struct Waiting: Sendable {
        /// The buckets with calls that wait to be sent once more.
        package var sends: [Int] = []
        /// The buckets with calls that wait for a status check.
        package var checks: [Int] = []
        /// The earliest end of a lease of an open call, in UTC milliseconds; nil where no call is open.
        package var firstLease: Int64?
    }

    /// The buckets in which open calls wait for a step. The bucket that has waited longest comes first. `floor` (UTC
    /// milliseconds) is a known lower bound of the ends of their leases.
    ///
    /// In a spread database this cannot judge what only a statement of one bucket can. Then both steps are tried in
    /// each bucket with due calls, and the statement that takes a call over judges it.
    package static func waiting(
        _ gate: CallGate, from floor: Int64?, realNow: Int64, layout: DatabaseLayout = .whole
    ) -> Question<Waiting> {
        var gate = gate
        let isJudgedLater = layout == .spread && gate.isJudgedInBucket
        if isJudgedLater { gate.state = { _ in "SELECT false AS is_over, false AS is_held" } }
        let isFound: SQL = isJudgedLater ? "true" : "d.is_check OR NOT d.waits"
        return Question(
            """
            -- name: waitingCalls
            WITH \(fragment: SubjectWork.awaited), \(fragment: silence(gate))\(fragment: gate.cancels ? ", \(fragment: SubjectWork.cancelled)" : ""),
            first AS MATERIALIZED (
                SELECT lease_until FROM repricer.store_calls
                WHERE kind = \(gate.kind.rawValue) AND settled_at IS NULL
                    AND lease_until >= coalesce(\(timestamp: floor)::timestamptz, '-infinity')
                ORDER BY lease_until LIMIT 1
            ), due AS MATERIALIZED (
                SELECT d.bucket, d.is_check, min(d.lease_until) AS waits_since
                FROM (
                    \(fragment: due(
                        gate, bucket: "r.bucket", realNow: realNow,
                        among: "r.lease_until >= (SELECT lease_until FROM first)"))
                ) d
                WHERE \(fragment: isFound)
                GROUP BY d.bucket, d.is_check
            )
            SELECT first.lease_until, due.bucket, due.is_check
            FROM first LEFT JOIN due ON true
            ORDER BY due.waits_since, due.bucket
            """
        ) { rows in
            var waiting = Waiting()
            for row in rows {
                waiting.firstLease = try row.millisecondsOrNil("lease_until")
                guard let bucket = try row.int64OrNil("bucket").map({ Int($0) }) else { continue }
                let isCheck = try row.bool("is_check")
                if isCheck || isJudgedLater, !waiting.checks.contains(bucket) {
                    waiting.checks.append(bucket)
                }
                if !isCheck { waiting.sends.append(bucket) }
            }
            return waiting
        }
    }

    /// The longest silence of an endpoint, in milliseconds of the business clock, during which other work of the
    /// subject waits. During a longer one, its call is checked.
    private static let silenceMax: Int64 = 120_000
    /// After this many attempts in vain, a call that other work of the subject waits for is checked.
    private static let attemptsMax = 8

    /// The CTE `silence`: whether the endpoint of the calls is silent for longer than `silenceMax`. It belongs to no
    /// bucket.
    private static func silence(_ gate: CallGate) -> SQL {
        """
        silence AS MATERIALIZED (
            SELECT EXISTS (
                SELECT 1 FROM repricer.rate_limits l
                WHERE l.endpoint = \(gate.endpoint)
                    AND l.blocked_until > \(timestamp: gate.now + silenceMax)::timestamptz) AS is_silent)
        """
    }

    /// Open calls whose holder is gone, or whose next step is due, with what may be done about them. `bucket` is that of
    /// the call `r`. It needs the CTEs `silence` and `awaited`.
    ///
    /// A call that is over, or was opened again, is only checked. A call that is held back waits, because sending the
    /// same id later is safest. If other work of its subject waits for it, a call that is held back, that was sent in
    /// vain again and again, or whose endpoint is silent is instead checked, until it was seen applied or cannot be
    /// applied any more. Nothing holds a check back.
    private static func due(
        _ gate: CallGate, bucket: SQL, realNow: Int64, among condition: SQL
    ) -> SQL {
        """
        SELECT o.subject, o.call_id, o.bucket, o.lease_until,
            o.next_step = 'check' OR o.is_reopened OR o.is_over OR o.is_awaited AS is_check,
            o.next_step = 'send' AND NOT o.is_reopened AND o.is_held AS waits,
            o.is_over OR o.is_awaited OR o.is_reopened AS is_over
        FROM (
            SELECT r.subject, r.call_id, r.bucket, r.lease_until, r.next_step, r.is_reopened,
                coalesce(k.is_over, false) AS is_over,
                coalesce(k.is_held, false) OR \(fragment: ServiceControlQueries.isHeld) AS is_held,
                NOT \(fragment: ServiceControlQueries.isHeld)
                    AND (coalesce(k.is_held, false) OR r.attempts >= \(attemptsMax)
                        OR (SELECT is_silent FROM silence))
                    AND (\(fragment: gate.othersWait(bucket))) AS is_awaited
            FROM repricer.store_calls r
            CROSS JOIN LATERAL (\(fragment: gate.state(bucket))) k
            WHERE r.kind = \(gate.kind.rawValue) AND r.settled_at IS NULL
                AND r.lease_until <= \(timestamp: realNow)
                AND (r.next_attempt_at IS NULL OR r.next_attempt_at <= \(timestamp: realNow))
                AND \(fragment: condition)
        ) o
        """
    }

    /// What a step of a call depends on in other buckets. A statement that locks rows of one bucket may not read
    /// another, so this is read first. For example, whether a call in bucket 12 may cancel a dependent of a change in
    /// bucket 7 depends on the batch of that change.
    package struct OtherBuckets: Sendable, Equatable {
        package var isSilent = false
        /// Subjects of the bucket whose call is awaited by dependents of parents on other subscriptions.
        package var awaited: [String] = []
        /// For each dependent that a call of the bucket cancels: the call, whether the parent's batch holds it back,
        /// and whether it is no longer wanted.
        package var cancelled: [Cancelled] = []

        package struct Cancelled: Sendable, Equatable {
            package var callID: String
            package var isHeld: Bool
            package var isOver: Bool
        }

        /// The CTEs `silence`, `awaited` and `cancelled` of these values.
        fileprivate var given: SQL {
            """
            awaited AS (
                SELECT subject FROM unnest(\(awaited)::text[]) AS subject
            ), silence AS (
                SELECT \(isSilent)::boolean AS is_silent
            ), cancelled AS (
                SELECT * FROM unnest(\(uuids: cancelled.map(\.callID))::uuid[],
                    \(bools: cancelled.map(\.isHeld))::boolean[], \(bools: cancelled.map(\.isOver))::boolean[])
                    AS t (call_id, is_held, is_over)
            )
            """
        }
    }

    package static func otherBuckets(
        _ gate: CallGate, bucket: Int, on connection: isolated PostgresConnection
    ) throws -> OtherBuckets {
        let rows = try connection.query(
            """
            -- name: awaitedOfOtherBuckets
            WITH \(fragment: SubjectWork.awaited), \(fragment: silence(gate))
            SELECT s.is_silent, a.subject FROM silence s
            LEFT JOIN awaited a ON repricer.bucket_of(a.subject) = \(bucket)::smallint
            """)
        var others = OtherBuckets()
        for row in rows {
            others.isSilent = try row.bool("is_silent")
            if let subject = try row.textOrNil("subject") { others.awaited.append(subject) }
        }
        guard gate.cancels else { return others }
        others.cancelled = try connection.query(
            """
            -- name: cancelledOfOtherBuckets
            WITH \(fragment: SubjectWork.cancelled)
            SELECT c.call_id, c.is_held, c.is_over FROM cancelled c
            WHERE repricer.bucket_of(c.subject) = \(bucket)::smallint
            """
        ).map { row in
            try OtherBuckets.Cancelled(
                callID: row.text("call_id"), isHeld: row.bool("is_held"),
                isOver: row.bool("is_over"))
        }
        return others
    }

    /// Takes over due calls of one bucket: to check their subjects, or to send them once more.
    package static func takeOver(
        _ gate: CallGate, _ step: StoreCall.Step, bucket: Int, owner: String, leaseUntil: Int64,
        flightTime: Int64, realNow: Int64, limit: Int, on connection: isolated PostgresConnection
    ) throws -> [StoreCall] {
        let isCheck = step == .check
        let others = try otherBuckets(gate, bucket: bucket, on: connection)
        let due = due(
            gate, bucket: "\(bucket)::smallint", realNow: realNow,
            among: "r.bucket = \(bucket)::smallint")
        // The part that locks names no table that every node has: Citus would not take the lock on one of them alone.
        return try connection.query(
            """
            -- name: takeOverCalls
            WITH \(fragment: others.given), due AS MATERIALIZED (
                \(fragment: due)
            ), taken AS MATERIALIZED (
                SELECT d.subject, d.call_id, d.is_check, d.is_over
                FROM due d
                JOIN repricer.store_calls r
                    ON r.subject = d.subject AND r.call_id = d.call_id AND r.bucket = \(bucket)::smallint
                WHERE d.is_check = \(isCheck) AND (d.is_check OR NOT d.waits)
                    AND r.settled_at IS NULL AND r.lease_until <= \(timestamp: realNow)
                ORDER BY r.lease_until LIMIT \(limit) FOR UPDATE OF r SKIP LOCKED
            )
            UPDATE repricer.store_calls r
            SET lease_owner = \(uuid: owner), lease_until = \(timestamp: leaseUntil),
                fence = r.fence + 1, state = 'unknown', next_attempt_at = NULL,
                next_step = CASE WHEN taken.is_check THEN 'check' ELSE 'send' END,
                in_flight_until = CASE WHEN taken.is_check THEN r.in_flight_until
                    ELSE greatest(r.in_flight_until, \(timestamp: leaseUntil + flightTime)) END,
                attempts = r.attempts + CASE WHEN taken.is_check THEN 0 ELSE 1 END,
                checks = r.checks + CASE WHEN taken.is_check THEN 1 ELSE 0 END
            FROM taken
            WHERE r.subject = taken.subject AND r.call_id = taken.call_id AND r.bucket = \(bucket)::smallint
            RETURNING r.*, taken.is_over, r.in_flight_until > \(timestamp: realNow) AS is_in_flight
            """
        ).map { try call($0) }
    }

    /// The buckets with calls of unknown outcome of a kind that no process holds, whether their next step is due or
    /// not.
    package static func unknownBuckets(
        _ kind: StoreCall.Kind, realNow: Int64, on connection: isolated PostgresConnection
    ) throws -> [Int] {
        try connection.query(
            """
            -- name: unknownCallBuckets
            SELECT DISTINCT r.bucket FROM repricer.store_calls r
            WHERE r.kind = \(kind.rawValue) AND \(fragment: isFree(realNow: realNow)) ORDER BY r.bucket
            """
        ).map { try $0.int("bucket") }
    }

    /// Takes over calls of unknown outcome of one bucket to check them, whether their next step is due or not. It
    /// passes over the ids in `seen`.
    package static func takeOverUnknown(
        _ gate: CallGate, bucket: Int, owner: String, leaseUntil: Int64, realNow: Int64, limit: Int,
        besides seen: [String], on connection: isolated PostgresConnection
    ) throws -> [StoreCall] {
        let others = try otherBuckets(gate, bucket: bucket, on: connection)
        return try connection.query(
            """
            -- name: takeOverUnknownCalls
            WITH \(fragment: others.given), known AS MATERIALIZED (
                SELECT r.subject, r.call_id, coalesce(k.is_over, false) OR r.is_reopened AS is_over
                FROM repricer.store_calls r
                CROSS JOIN LATERAL (\(fragment: gate.state("\(bucket)::smallint"))) k
                WHERE r.kind = \(gate.kind.rawValue) AND r.bucket = \(bucket)::smallint
                    AND r.call_id <> ALL (\(uuids: seen)::uuid[]) AND \(fragment: isFree(realNow: realNow))
            ), open AS MATERIALIZED (
                SELECT n.* FROM known n
                JOIN repricer.store_calls r
                    ON r.subject = n.subject AND r.call_id = n.call_id AND r.bucket = \(bucket)::smallint
                -- Written so that only the key finds the call, and no index of open calls is read from end to end.
                WHERE (\(fragment: isFree(realNow: realNow))) IS TRUE
                    AND \(fragment: ServiceControlQueries.isForNewerPrograms) IS NOT TRUE
                ORDER BY r.subject LIMIT \(limit) FOR UPDATE OF r SKIP LOCKED
            )
            UPDATE repricer.store_calls r
            SET lease_owner = \(uuid: owner), lease_until = \(timestamp: leaseUntil),
                fence = r.fence + 1, state = 'unknown', next_attempt_at = NULL, next_step = 'check',
                checks = r.checks + 1
            FROM open
            WHERE r.subject = open.subject AND r.call_id = open.call_id AND r.bucket = \(bucket)::smallint
            RETURNING r.*, open.is_over, r.in_flight_until > \(timestamp: realNow) AS is_in_flight
            """
        ).map { try call($0) }
    }

    /// The condition that no process holds the call: its lease is over, or it waits for its next step. A call that is
    /// on its way has no next attempt.
    private static func isFree(realNow: Int64) -> SQL {
        """
        r.settled_at IS NULL AND (r.lease_until <= \(timestamp: realNow)
            OR (r.state = 'unknown' AND r.next_attempt_at IS NOT NULL))
        """
    }

    private static func call(_ row: Row) throws -> StoreCall {
        guard let kind = StoreCall.Kind(rawValue: try row.text("kind")),
            let step = StoreCall.Step(rawValue: try row.text("next_step"))
        else { throw FactsError.unreadable("store_calls.kind or next_step") }
        return try StoreCall(
            kind, subject: row.text("subject"), callID: row.text("call_id"),
            bucket: row.int("bucket"), carries: row.texts("carries"), parents: row.texts("parents"),
            intent: row.text("intent"), fence: row.int64("fence"), attempts: row.int("attempts"),
            checks: row.int("checks"), step: step, errorCode: row.int64OrNil("error_code"),
            isOver: row.bool("is_over"), isInFlight: row.bool("is_in_flight"),
            inFlightUntil: row.milliseconds("in_flight_until"))
    }

    // MARK: Leases

    /// Prolongs the leases of calls that are still out. A call that was taken over has another fence and is left alone.
    /// So is a call that another transaction is writing, because waiting for several rows could deadlock with a
    /// transaction that settles several.
    package static func renew(_ calls: [StoreCall], until: Int64) -> SQL {
        """
        -- name: renewLeases
        WITH free AS (
            SELECT r.subject, r.call_id, r.bucket
            FROM \(fragment: fenced(calls))
            CROSS JOIN LATERAL (
                SELECT r.subject, r.call_id, r.bucket
                FROM repricer.store_calls r
                WHERE \(fragment: isHeld(calls)) AND r.next_attempt_at IS NULL
                FOR UPDATE SKIP LOCKED
            ) r
        )
        UPDATE repricer.store_calls r SET lease_until = \(timestamp: until)
        FROM free
        WHERE r.subject = free.subject AND r.call_id = free.call_id AND \(fragment: isInBucket(of: calls))
        """
    }

    /// The ids of those calls that this process still holds. It is asked under the locks of the subscriptions that the
    /// calls change, before any result is written. A holder whose lease was taken over writes nothing.
    package static func holding(_ calls: [StoreCall]) -> Question<Set<String>> {
        Question(
            """
            -- name: heldCalls
            SELECT r.call_id
            FROM (SELECT * FROM \(fragment: fenced(calls)) ORDER BY subject) t
            CROSS JOIN LATERAL (
                SELECT r.call_id FROM repricer.store_calls r
                WHERE \(fragment: isHeld(calls))
                FOR UPDATE
            ) r
            """
        ) { rows in Set(try rows.map { try $0.text("call_id") }) }
    }

    private static func fenced(_ calls: [StoreCall]) -> SQL {
        """
        unnest(\(calls.column { $0.subject })::text[], \(uuids: calls.column { $0.callID })::uuid[],
            \(calls.column { $0.fence })::bigint[]) AS t (subject, call, fence)
        """
    }

    /// The condition that the call `r` is open, and that its lease is that of `t`. It is evaluated for each `t`
    /// separately, so that the key finds the row. How many calls are open changes faster than statistics, and a plan
    /// that starts from the open ones reads all that ended since the last vacuum.
    private static func isHeld(_ calls: [StoreCall]) -> SQL {
        """
        r.subject = t.subject AND r.call_id = t.call AND r.fence = t.fence
            AND r.state IN ('sending', 'unknown') AND \(fragment: isInBucket(of: calls))
        """
    }

    /// Calls that one statement holds together are of one bucket.
    package static func isInBucket(of calls: [StoreCall]) -> SQL {
        "r.bucket = \(calls.first?.bucket ?? -1)::smallint"
    }
}

/// What a kind of call supplies about its open calls, in SQL, so that the engine treats all kinds alike.
package struct CallGate: Sendable {
    package var kind: StoreCall.Kind
    /// The endpoint to which its calls are sent, as `rate_limits` names it.
    package var endpoint: String
    /// The business clock, in UTC milliseconds.
    package var now: Int64
    /// One row about the call `r` of this bucket: `is_over` (it is never sent again, but may be checked; null counts as
    /// false) and `is_held` (it is not sent now). Each table that it reads is read in that bucket.
    package var state: @Sendable (_ bucket: SQL) -> SQL
    /// Whether `state` reads the CTE `cancelled`.
    package var cancels: Bool
    /// The condition that other work of the subject of `r` waits for its outcome. It may read the CTE `awaited`.
    package var othersWait: @Sendable (_ bucket: SQL) -> SQL
    /// Whether, in a spread database, only a statement of one bucket can evaluate `state`.
    package var isJudgedInBucket: Bool

    package init(
        _ kind: StoreCall.Kind, endpoint: String, now: Int64, cancels: Bool = false,
        isJudgedInBucket: Bool = false,
        state: @escaping @Sendable (SQL) -> SQL,
        othersWait: @escaping @Sendable (SQL) -> SQL = { _ in "false" }
    ) {
        self.kind = kind
        self.endpoint = endpoint
        self.now = now
        self.cancels = cancels
        self.isJudgedInBucket = isJudgedInBucket
        self.state = state
        self.othersWait = othersWait
    }
}

extension StoreCallQueries {
    /// Whether a call is settled.
    package static func isSettled(
        _ call: StoreCall, on connection: isolated PostgresConnection
    ) throws -> Bool {
        try !connection.query(
            """
            -- name: isCallSettled
            SELECT 1 FROM repricer.store_calls
            WHERE subject = \(call.subject) AND call_id = \(uuid: call.callID)
                AND bucket = \(call.bucket)::smallint AND settled_at IS NOT NULL
            """
        ).isEmpty
    }
}

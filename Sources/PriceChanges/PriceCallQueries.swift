import Calls
package import Facts
package import Postgres
package import Pricing

/// What the calls of price changes do to their changes.
package enum PriceCallQueries {
    /// The state of the call `r` for the engine.
    ///
    /// The call is over, and never sent again, when its batch was withdrawn, when its last instant (`send_by`) has
    /// passed, when a notification has settled its changes, or when one of its changes is held back and another is not.
    /// Sent after `send_by`, it would take effect a renewal later. It is held back while its batch is paused or its
    /// storefront halted. It continues while a code has halted its batch, because its outcome must become known.
    package static func gate(endpoint: String, now: Int64) -> CallGate {
        CallGate(
            .priceChange, endpoint: endpoint, now: now,
            state: { bucket in
                """
                SELECT coalesce(bool_or(p.is_over) OR bool_or(p.is_held) AND NOT bool_and(p.is_held), true)
                        AS is_over,
                    bool_or(p.is_held) AS is_held
                FROM (
                    SELECT b.state <> 'approved' OR p.send_by < \(timestamp: now) AS is_over,
                        b.is_paused AND b.probe_at IS NULL OR \(fragment: StorefrontHalt.holds("p")) AS is_held
                    FROM repricer.price_changes p JOIN repricer.batches b ON b.batch_id = p.batch_id
                    WHERE p.original_transaction_id = r.subject AND p.request_reference_id = r.call_id
                        AND p.bucket = \(fragment: bucket) AND p.state IN ('sending', 'unknown')
                ) p
                """
            },
            othersWait: SubjectWork.waits)
    }

    /// Marks the changes that calls carry as sending, in two statements however many there are. A history line that
    /// names a new call cannot exist yet.
    ///
    /// - Parameters:
    ///   - renewals: The renewal dates of their subscriptions, by which the calls were planned.
    ///   - again: Changes among them that differ from a change before its first call.
    ///   - called: Subscriptions among theirs that were called before. Reports may keep figures of these.
    ///   - remarks: What the history says beside the call of some changes, by their ids.
    ///   - now: The business clock, in UTC milliseconds.
    package static func claim(
        _ calls: [StoreCall], planned renewals: [String: Instant],
        again: [(id: String, changeID: String)], called: [String],
        remarks: [(changeID: String, text: String)] = [], now: Int64
    ) -> [SQL] {
        guard let bucket = calls.first?.bucket else { return [] }
        let marked: SQL =
            called.isEmpty
            ? ""
            : """
            , marked AS (
                INSERT INTO repricer.stale_figures (original_transaction_id, bucket)
                SELECT id, \(bucket)::smallint FROM unnest(\(called)::text[]) AS id)
            """
        let changes = calls.flatMap { call in call.carries.map { (call.subject, $0, call.callID) } }
        let knownAt = changes.map { renewals[$0.0]?.milliseconds }
        let remark: SQL =
            remarks.isEmpty
            ? "NULL"
            : """
            (SELECT r.remark FROM unnest(\(uuids: remarks.map(\.changeID))::uuid[], \(remarks.map(\.text))::text[])
                AS r (change_id, remark) WHERE r.change_id = t.change_id)
            """
        return [
            """
            -- name: claimChanges
            WITH \(fragment: VersionQueries.ofChanges(again))\(fragment: marked)
            UPDATE repricer.price_changes c SET state = 'sending', reason = NULL,
                recorded_at = \(fragment: VersionQueries.now), claim_recorded_at = \(fragment: VersionQueries.now),
                request_reference_id = t.call, sent_at = \(timestamp: now)::timestamptz,
                state_since = \(timestamp: now)::timestamptz, next_attempt_at = NULL,
                planned_effective_at = NULL, called_renewal_at = t.renewal_at, moved_since_call = NULL,
                moved_before_call = coalesce(c.moved_before_call, c.moved_since_call), parked_reason = NULL, called_sku = c.current_sku,
                called_dependent_skus = c.current_dependent_skus, former_skus = NULL,
                former_until = NULL
            FROM unnest(\(changes.map(\.0))::text[], \(uuids: changes.map(\.1))::uuid[],
                \(uuids: changes.map(\.2))::uuid[], \(timestamps: knownAt)::timestamptz[])
                AS t (id, change_id, call, renewal_at)
            WHERE c.original_transaction_id = t.id AND c.change_id = t.change_id
                AND c.bucket = \(bucket)::smallint AND c.state = 'queued'
            """,
            """
            -- name: recordClaims
            INSERT INTO repricer.price_change_history
                (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id, reason,
                 recorded_at)
            SELECT t.id, \(bucket)::smallint, t.change_id, \(timestamp: now)::timestamptz, 'sending', 'request',
                t.call::text, \(fragment: remark), (SELECT repricer.recording_instant())
            FROM unnest(\(changes.map(\.0))::text[], \(uuids: changes.map(\.1))::uuid[],
                \(uuids: changes.map(\.2))::uuid[]) AS t (id, change_id, call)
            """,
        ]
    }

    /// The ids of those calls whose changes a fold has settled.
    package static func settled(
        among calls: [StoreCall], on connection: isolated PostgresConnection
    ) throws -> Set<String> {
        let rows = try connection.query(
            """
            -- name: settledCalls
            SELECT t.call FROM unnest(\(calls.map(\.subject))::text[],
                \(uuids: calls.map(\.callID))::uuid[]) AS t (id, call)
            WHERE NOT EXISTS (
                SELECT 1 FROM repricer.price_changes c
                WHERE c.original_transaction_id = t.id AND c.request_reference_id = t.call
                    AND c.bucket = \(calls.first?.bucket ?? -1)::smallint
                    AND c.state IN ('sending', 'unknown')
                OFFSET 0)
            """)
        return Set(try rows.map { try $0.text("call") })
    }

    // MARK: How calls end

    /// The instants of both clocks, in UTC milliseconds, and how much real time a second of the business clock takes.
    package struct Clocks: Sendable {
        var now: Int64
        var realNow: Int64
        var realMicrosPerSecond: Int64
    }

    /// Why a change waits by itself.
    fileprivate enum Parking: Int64 {
        case parked = 1
        /// Its token was refused, and the status shows another one.
        case staleToken
        /// Its token was refused, and the status shows no other. The next call goes without a token.
        case sameStaleToken
        /// It was refused as a probe. The next probes are of other subscriptions.
        case probed
        /// Its token was refused in a probe, and the status shows another one, with which the change may probe once
        /// more.
        case probedStaleToken

        /// The raw value as an SQL literal.
        var sql: SQL { SQL(unsafe: "\(rawValue)") }
    }

    private static func isOne(of parkings: Parking...) -> SQL {
        "t.parking IN (\(unsafe: parkings.map { "\($0.rawValue)" }.joined(separator: ", ")))"
    }

    /// The statements that store the endings, one for each way to end, however many endings there are. The holder of
    /// the leases sends them in one pipeline, in this order. Applied calls need none, because a fold has moved their
    /// changes.
    static func settle(_ endings: [ResolvedCall], by clocks: Clocks) -> [SQL] {
        let at = clocks.now
        var rejected: [ResolvedCall] = []
        var requeued: [ResolvedCall] = []
        var unknown: [ResolvedCall] = []
        for ending in endings {
            switch ending.resolution {
            case .applied: continue
            case .refused: rejected.append(ending)
            case .released: requeued.append(ending)
            case .open: unknown.append(ending)
            }
        }
        var statements: [SQL] = []
        if !unknown.isEmpty { statements.append(leaveUnknown(unknown, at: at)) }
        if !requeued.isEmpty { statements.append(requeue(requeued, by: clocks)) }
        if !rejected.isEmpty { statements.append(reject(rejected, at: at)) }
        let freed = (requeued + rejected).map(\.call.subject)
        if !freed.isEmpty { statements.append(FoldWrites.releaseRoles(freed)) }
        return statements
    }

    /// Leaves the outcome of the changes unknown. Where an attempt has no `parkedReason`, the reason before is kept.
    private static func leaveUnknown(_ endings: [ResolvedCall], at: Int64) -> SQL {
        """
        -- name: leaveChangesUnknown
        WITH \(fragment: former(of: endings)), moved AS (
            UPDATE repricer.price_changes c SET state = 'unknown', reason = t.reason,
                recorded_at = \(fragment: VersionQueries.now),
                state_since = CASE c.state WHEN 'unknown' THEN c.state_since
                    ELSE \(timestamp: at)::timestamptz END,
                parked_reason = coalesce(t.parked_reason, c.parked_reason)
            FROM \(fragment: changes(of: endings))
            WHERE \(fragment: isOpen(of: endings))
            RETURNING c.original_transaction_id, c.bucket, c.change_id, c.state, c.reason,
                c.request_reference_id
        )
        \(fragment: recordMoved(at: at))
        """
    }

    /// Makes each call due once more before the last instant of its change, however long it would wait.
    static func endWaits(_ calls: [StoreCall], before clocks: Clocks) -> SQL {
        """
        -- name: endWaits
        UPDATE repricer.store_calls r SET next_attempt_at = due.at, lease_until = due.at
        FROM unnest(\(calls.map(\.subject))::text[], \(uuids: calls.map(\.callID))::uuid[]) AS t (id, call)
        CROSS JOIN LATERAL (
            SELECT \(timestamp: clocks.realNow)::timestamptz + greatest(interval '5 seconds',
                (min(p.send_by) - \(timestamp: clocks.now)::timestamptz - interval '30 seconds')
                    * \(clocks.realMicrosPerSecond)::float8 / 1000000) AS at
            FROM repricer.price_changes p
            WHERE p.original_transaction_id = t.id AND p.request_reference_id = t.call
                AND p.bucket = \(calls.first?.bucket ?? -1)::smallint AND p.state IN ('sending', 'unknown')
                AND p.send_by > \(timestamp: clocks.now)::timestamptz
        ) due
        WHERE r.subject = t.id AND r.call_id = t.call AND \(fragment: StoreCallQueries.isInBucket(of: calls))
            AND r.next_attempt_at > due.at
        """
    }

    /// Puts the changes back, to be judged and sent again with a new id. A change whose batch was withdrawn meanwhile
    /// is aborted instead. Statements about a doubtful change are still followed.
    private static func requeue(_ endings: [ResolvedCall], by clocks: Clocks) -> SQL {
        let at = clocks.now
        return """
            -- name: requeueChanges
            WITH \(fragment: former(of: endings)), moved AS (
                UPDATE repricer.price_changes c SET recorded_at = \(fragment: VersionQueries.now),
                    state = CASE WHEN b.state = 'approved' THEN 'queued' ELSE 'aborted' END,
                    reason = CASE WHEN b.state = 'approved' THEN t.reason ELSE b.state END,
                    ended_at = CASE WHEN b.state = 'approved' THEN NULL
                        ELSE \(timestamp: at)::timestamptz END,
                    doubtful_since = \(fragment: doubtfulSince), 
                    refused_at = CASE WHEN t.was_refused THEN coalesce(c.refused_at, c.sent_at) ELSE c.refused_at END,
                    sent_at = NULL,
                    -- With a time zone the sum depends on a setting, and an update of spread tables takes no such.
                    next_attempt_at = least((t.next_attempt_at AT TIME ZONE 'UTC' + \(fragment: furtherWait)) AT TIME ZONE 'UTC',
                        \(fragment: lastTry(clocks))),
                    state_since = \(timestamp: at)::timestamptz,
                    goes_alone = c.goes_alone OR t.goes_alone,
                    parked_reason = CASE WHEN \(fragment: isParked) THEN t.reason END,
                    parks = c.parks + (\(fragment: isParked) AND NOT \(fragment: isProbe) AND c.parks < 100)::integer::smallint,
                    stale_tokens = CASE t.parking WHEN 0 THEN c.stale_tokens
                            WHEN \(fragment: Parking.staleToken.sql) THEN c.stale_tokens + 1
                            WHEN \(fragment: Parking.sameStaleToken.sql) THEN 2
                            WHEN \(fragment: Parking.probedStaleToken.sql) THEN 1 ELSE 0 END
                        * (NOT \(fragment: isParked))::integer::smallint
                FROM \(fragment: changes(of: endings)), repricer.batches b
                WHERE b.batch_id = c.batch_id AND \(fragment: isOpen(of: endings))
                RETURNING c.original_transaction_id, c.bucket, c.change_id, c.state, c.reason,
                    c.request_reference_id
            ), \(fragment: VersionQueries.markMoved)
            \(fragment: recordMoved(at: at))
            """
    }

    /// The condition that a change is parked. A token that is refused twice, or that the status shows again, is left
    /// out of the next call. A change that goes without a token, and is refused for it, is parked.
    private static let isParked: SQL = """
        (\(fragment: isOne(of: .parked, .probed))
            OR \(fragment: isOne(of: .staleToken, .sameStaleToken)) AND c.stale_tokens >= 2
            OR \(fragment: isOne(of: .probedStaleToken)) AND c.stale_tokens >= 1)
        """
    private static let isProbe = isOne(of: .probed, .probedStaleToken)

    /// The wait on top of the one that the ending already has, which is two minutes for a parked change or a probe.
    /// Each time that a change is parked, its whole wait doubles, up to an hour. A probe waits for ten minutes in all,
    /// so that the next nine probes are of other subscriptions.
    private static let furtherWait: SQL = """
        CASE WHEN \(fragment: isProbe) AND \(fragment: isParked) THEN interval '8 minutes' WHEN \(fragment: isParked)
            THEN least(interval '2 minutes' * power(2, least(c.parks, 5)), interval '1 hour')
                - CASE WHEN \(fragment: isOne(of: .parked)) THEN interval '2 minutes' ELSE interval '0' END
            ELSE interval '0' END
        """

    /// Within this many milliseconds of its last instant a parked change is not tried once more. The program computes
    /// the instants, because in SQL a sum with a time zone depends on a setting, which Citus refuses in an update of
    /// spread tables.
    private static let lastTryWithin: Int64 = 35_000

    /// The latest next attempt of a parked change: half a minute before its last instant, however long it would wait.
    /// Null once that has passed, so that it is tried once more and not again and again, and null for a change that is
    /// not parked.
    private static func lastTry(_ clocks: Clocks) -> SQL {
        """
        CASE WHEN \(fragment: isParked) AND c.send_by > \(timestamp: clocks.now + lastTryWithin)::timestamptz
            THEN (\(timestamp: clocks.realNow)::timestamptz AT TIME ZONE 'UTC'
                + (c.send_by - \(timestamp: clocks.now)::timestamptz - interval '30 seconds')
                    * \(clocks.realMicrosPerSecond)::float8 / 1000000) AT TIME ZONE 'UTC' END
        """
    }

    private static func reject(_ endings: [ResolvedCall], at: Int64) -> SQL {
        """
        -- name: rejectChanges
        WITH \(fragment: former(of: endings)), moved AS (
            UPDATE repricer.price_changes c SET state = 'rejected', reason = t.reason, parked_reason = NULL,
                recorded_at = \(fragment: VersionQueries.now),
                ended_at = \(timestamp: at)::timestamptz,
                doubtful_since = \(fragment: doubtfulSince),
                state_since = \(timestamp: at)::timestamptz
            FROM \(fragment: changes(of: endings))
            WHERE \(fragment: isOpen(of: endings))
            RETURNING c.original_transaction_id, c.bucket, c.change_id, c.state, c.reason,
                c.request_reference_id
        ), \(fragment: VersionQueries.markMoved)
        \(fragment: recordMoved(at: at))
        """
    }

    private static func former(of endings: [ResolvedCall]) -> SQL {
        VersionQueries.ofChanges(
            """
            \(fragment: changes(of: endings)) JOIN repricer.price_changes c ON \(fragment: isOpen(of: endings))
            """)
    }

    /// The attempts `t` with each open change that they carry. Each is found by its subscription. The number of open
    /// changes varies faster than the statistics, and a plan that starts from the state would read every row that moved
    /// since the last vacuum.
    private static func changes(of endings: [ResolvedCall]) -> SQL {
        """
        (
            SELECT e.*, p.change_id FROM unnest(\(endings.map(\.call.subject))::text[],
                \(uuids: endings.map(\.call.callID))::uuid[], \(texts: endings.map(\.reason))::text[],
                \(timestamps: endings.map { $0.release == nil ? nil : $0.nextAt })::timestamptz[],
                \(ints: endings.map { $0.release?.goesAlone == true ? 1 : 0 })::bigint[]::integer[]::boolean[],
                \(ints: endings.map { $0.isDoubtful ? 1 : 0 })::bigint[]::integer[]::boolean[],
                \(ints: endings.map { $0.release?.parking?.rawValue ?? 0 })::bigint[],
                \(texts: endings.map(\.parkedReason))::text[],
                \(ints: endings.map { $0.wasRefused ? 1 : 0 })::bigint[]::integer[]::boolean[]
            ) AS e (id, call, reason, next_attempt_at, goes_alone, is_doubtful, parking, parked_reason, was_refused)
            CROSS JOIN LATERAL (
                SELECT p.change_id FROM repricer.price_changes p
                WHERE p.original_transaction_id = e.id AND p.request_reference_id = e.call
                    AND p.bucket = \(endings.first?.call.bucket ?? -1)::smallint
                    AND p.state IN ('sending', 'unknown')
                OFFSET 0
            ) p
        ) t
        """
    }

    /// The instant of the first call of the change `c` with an unknown outcome. It is kept for good, whatever becomes
    /// of later calls.
    private static let doubtfulSince: SQL = """
        CASE WHEN t.is_doubtful THEN coalesce(c.doubtful_since, c.sent_at) ELSE c.doubtful_since END
        """

    /// The condition that the change `c` is the one that `t` names, and is still open. It is written so that the
    /// planner cannot use an index on states.
    private static func isOpen(of endings: [ResolvedCall]) -> SQL {
        """
        c.original_transaction_id = t.id AND c.change_id = t.change_id
            AND c.bucket = \(endings.first?.call.bucket ?? -1)::smallint
            AND c.request_reference_id = t.call AND (c.state IN ('sending', 'unknown')) IS TRUE
        """
    }

    /// Writes a history line for each change that the statement before it moved, and for no other.
    private static func recordMoved(at: Int64) -> SQL {
        """
        INSERT INTO repricer.price_change_history
            (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id, reason)
        SELECT original_transaction_id, bucket, change_id, \(timestamp: at)::timestamptz, state, 'request',
            request_reference_id::text, reason
        FROM moved ON CONFLICT DO NOTHING
        """
    }
}

extension Resolution.Release {
    fileprivate var parking: PriceCallQueries.Parking? {
        switch (after, staleToken) {
        case (.probed, .replaced): .probedStaleToken
        case (.probed, _): .probed
        case (.parked, _): .parked
        case (_, .replaced): .staleToken
        case (_, .same): .sameStaleToken
        case (_, .unread), (_, nil): nil
        }
    }
}

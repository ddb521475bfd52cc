package import Postgres
package import Pricing

/// The calls for one subscription each: claimed, made, settled. Leases and retries live in real time.
package enum ExtensionCallQueries {
    package enum State: String, Sendable, CaseIterable {
        case queued, sending, unknown, extended, refused, ineligible
    }

    /// One that is due.
    package struct Due: Sendable, Equatable {
        package var originalTransactionID: String
        package var extensionID: String
        package var days: Int
        package var reason: Int
        package var state: State
        package var attempts: Int
        /// An earlier attempt may have been applied though its answer was lost.
        package var mayBeApplied: Bool
        /// The business clock, UTC milliseconds.
        package var calledAt: Int64?
        package var renewalBefore: Instant?
    }

    /// The buckets with due calls.
    package static func dueBuckets(
        realNow: Int64, on connection: isolated PostgresConnection
    ) throws -> [Int] {
        try connection.query(
            """
            -- name: extensionBuckets
            SELECT b.bucket FROM generate_series(0, 63) AS b (bucket), LATERAL (
                SELECT 1 FROM repricer.extension_calls c
                WHERE c.bucket = b.bucket::smallint AND c.state IN ('queued', 'sending', 'unknown')
                    AND (c.next_attempt_at IS NULL OR c.next_attempt_at <= \(timestamp: realNow))
                LIMIT 1) one
            ORDER BY b.bucket
            """
        ).map { try $0.int("bucket") }
    }

    /// Nothing else is in flight for the subscription of the call `c`. One that is queued begins anew.
    private static func isFree(realNow: Int64) -> SQL {
        OtherCalls.none(
            besides: .renewalExtension, of: "c.original_transaction_id",
            since: "CASE WHEN c.state = 'queued' THEN 'infinity' ELSE c.called_at END",
            realNow: realNow)
    }

    /// Locks the subscriptions of due calls and returns them. One with another call in flight waits, and one with
    /// notifications not yet folded: its facts are not the newest. None while everything is paused.
    package static func lockDue(
        bucket: Int, limit: Int, realNow: Int64, on connection: isolated PostgresConnection
    ) throws -> [Due] {
        let due = try connection.query(
            """
            -- name: lockDueExtensions
            SELECT c.* FROM repricer.extension_calls c
            JOIN repricer.subscriptions s USING (original_transaction_id)
            WHERE c.bucket = \(bucket)::smallint AND c.state IN ('queued', 'sending', 'unknown')
                AND (c.next_attempt_at IS NULL OR c.next_attempt_at <= \(timestamp: realNow))
                AND NOT (SELECT is_paused FROM repricer.service_controls)
                AND NOT EXISTS (
                    SELECT 1 FROM repricer.inbox i
                    WHERE i.original_transaction_id = c.original_transaction_id AND i.error IS NULL)
                AND \(fragment: isFree(realNow: realNow))
            ORDER BY c.next_attempt_at NULLS FIRST, c.original_transaction_id LIMIT \(limit)
            FOR UPDATE OF s, c SKIP LOCKED
            """
        ).map { row in
            Due(
                originalTransactionID: try row.text("original_transaction_id"),
                extensionID: try row.text("extension_id"), days: try row.int("extend_by_days"),
                reason: try row.int("reason_code"),
                state: State(rawValue: try row.text("state")) ?? .unknown,
                attempts: try row.int("attempts"), mayBeApplied: try row.bool("may_be_applied"),
                calledAt: try row.millisecondsOrNil("called_at"),
                renewalBefore: try row.instant("renewal_before"))
        }
        guard !due.isEmpty else { return [] }
        // Asked for once more under the locks: another call may have begun before they were had.
        let free = try connection.query(
            """
            -- name: freeExtensions
            SELECT c.original_transaction_id FROM repricer.extension_calls c
            WHERE c.original_transaction_id = ANY (\(due.map(\.originalTransactionID))::text[])
                AND c.state IN ('queued', 'sending', 'unknown') AND \(fragment: isFree(realNow: realNow))
            """
        ).map { try $0.text("original_transaction_id") }
        let isFree = Set(free)
        return due.filter { isFree.contains($0.originalTransactionID) }
    }

    /// The new renewal date that a notification or a status told since a call was made, when nothing but the call
    /// explains it.
    package static func toldSince(
        _ due: Due, on connection: isolated PostgresConnection
    ) throws -> Instant? {
        try connection.query(
            """
            -- name: extensionToldSince
            SELECT renewal_at FROM repricer.attributed_extensions
            WHERE original_transaction_id = \(due.originalTransactionID)
                AND extension_id = \(uuid: due.extensionID)::uuid AND outcome <> 'failed'
            ORDER BY told_at DESC LIMIT 1
            """
        ).oneOrNil()?.instant("renewal_at")
    }

    /// The days of each mass extension that may have moved this renewal beyond what was known of it when the call was
    /// made; the newest eight. Word of one may be late for as long as Apple repeats a notification, which is a week.
    package static func massesThatMayHaveMoved(
        _ due: Due, on connection: isolated PostgresConnection
    ) throws -> [Int] {
        try connection.query(
            """
            -- name: massesThatMayHaveMoved
            SELECT m.extend_by_days FROM repricer.mass_extensions m
            JOIN repricer.subscriptions s USING (product_id)
            WHERE s.original_transaction_id = \(due.originalTransactionID)
                AND m.called_at IS NOT NULL AND m.state <> 'refused'
                AND (m.storefronts IS NULL OR s.storefront = ANY (m.storefronts))
                AND coalesce(m.completed_at + interval '8 days', 'infinity')
                    >= \(timestamp: due.calledAt)
                AND NOT EXISTS (
                    SELECT FROM repricer.attributed_extensions a
                    WHERE a.original_transaction_id = s.original_transaction_id
                        AND a.extension_id = m.extension_id
                        AND a.renewal_at <= \(timestamp: due.renewalBefore?.milliseconds))
            ORDER BY m.called_at DESC LIMIT 8
            """
        ).map { try $0.int("extend_by_days") }
    }

    /// The intent: written and committed before the call. One that was being sent when its process died may have
    /// arrived.
    package static func claim(
        _ due: Due, owner: String, renewalBefore: Instant?, now: Int64, leaseUntil: Int64
    ) -> SQL {
        """
        -- name: claimExtension
        UPDATE repricer.extension_calls SET state = 'sending', attempts = attempts + 1,
            may_be_applied = may_be_applied OR state = 'sending',
            called_at = coalesce(called_at, \(timestamp: now)),
            renewal_before = coalesce(renewal_before, \(timestamp: renewalBefore?.milliseconds)),
            lease_owner = \(uuid: owner)::uuid, leased_until = \(timestamp: leaseUntil),
            next_attempt_at = \(timestamp: leaseUntil)
        WHERE original_transaction_id = \(due.originalTransactionID)
            AND extension_id = \(uuid: due.extensionID)::uuid
        """
    }

    /// Prolongs the lease of calls that are still out; one that was taken over, or whose lease is over, is left alone.
    package static func renew(_ claimed: [Due], owner: String, realNow: Int64, until: Int64) -> SQL
    {
        """
        -- name: renewExtensions
        UPDATE repricer.extension_calls c
        SET leased_until = \(timestamp: until), next_attempt_at = \(timestamp: until)
        FROM unnest(\(claimed.map(\.originalTransactionID))::text[],
            \(uuids: claimed.map(\.extensionID))::uuid[]) AS t (id, extension_id)
        WHERE c.original_transaction_id = t.id AND c.extension_id = t.extension_id
            AND c.lease_owner = \(uuid: owner)::uuid AND c.state = 'sending'
            AND c.leased_until > \(timestamp: realNow)
        """
    }

    /// How a call ended.
    package struct Ending: Sendable {
        package enum Source: String, Sendable {
            case answer, notification, status, judgement
        }

        package var state: State
        package var settledBy: Source
        package var effectiveAt: Instant?
        package var code: String?
        package var detail: String?

        package init(
            _ state: State, by settledBy: Source, effectiveAt: Instant? = nil, code: String? = nil,
            detail: String? = nil
        ) {
            self.state = state
            self.settledBy = settledBy
            self.effectiveAt = effectiveAt
            self.code = code
            self.detail = detail
        }
    }

    /// `owner` is nil where the caller holds the row's lock instead of a lease. Nothing happens to one whose lease
    /// was lost.
    package static func settle(
        _ due: Due, owner: String?, _ ending: Ending, at: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Bool {
        try connection.execute(
            """
            -- name: settleExtension
            UPDATE repricer.extension_calls SET state = \(ending.state.rawValue),
                settled_at = \(timestamp: at), settled_by = \(ending.settledBy.rawValue),
                effective_at = \(timestamp: ending.effectiveAt?.milliseconds), code = \(ending.code),
                detail = \(ending.detail), lease_owner = NULL, leased_until = NULL,
                next_attempt_at = NULL
            WHERE original_transaction_id = \(due.originalTransactionID)
                AND extension_id = \(uuid: due.extensionID)::uuid
                AND state IN ('queued', 'sending', 'unknown')
                AND (\(uuid: owner)::uuid IS NULL OR lease_owner = \(uuid: owner)::uuid)
            """) == 1
    }

    /// A claim of which nothing has left: as if it had not been made. Due again at `nextAt`, real time.
    package static func putBack(_ due: Due, owner: String, nextAt: Int64) -> SQL {
        """
        -- name: putBackExtension
        UPDATE repricer.extension_calls
        SET state = CASE WHEN may_be_applied THEN 'unknown' ELSE 'queued' END,
            attempts = attempts - 1,
            called_at = CASE WHEN attempts > 1 THEN called_at END,
            renewal_before = CASE WHEN attempts > 1 THEN renewal_before END,
            lease_owner = NULL, leased_until = NULL, next_attempt_at = \(timestamp: nextAt)
        WHERE original_transaction_id = \(due.originalTransactionID)
            AND extension_id = \(uuid: due.extensionID)::uuid AND lease_owner = \(uuid: owner)::uuid
        """
    }

    /// Not settled: tried again at `nextAt`, real time. `mayBeApplied`: this attempt may have arrived.
    package static func putOff(
        _ due: Due, owner: String, mayBeApplied: Bool, nextAt: Int64, detail: String
    ) -> SQL {
        """
        -- name: putOffExtension
        UPDATE repricer.extension_calls
        SET may_be_applied = may_be_applied OR \(mayBeApplied),
            state = CASE WHEN may_be_applied OR \(mayBeApplied) THEN 'unknown' ELSE 'queued' END,
            lease_owner = NULL, leased_until = NULL, next_attempt_at = \(timestamp: nextAt),
            detail = \(detail)
        WHERE original_transaction_id = \(due.originalTransactionID)
            AND extension_id = \(uuid: due.extensionID)::uuid AND lease_owner = \(uuid: owner)::uuid
        """
    }
}

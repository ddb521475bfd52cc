import Calls
package import Facts
package import Postgres
import Pricing

/// What the calls of Cancel a Subscription do to the dependents for which they are made.
package enum CancelQueries {
    /// The state of the call `r` for the engine. The call is over, and never sent again, when no dependent asks for it
    /// any more, or when any of its dependents is no longer to be cancelled: it would end what the customer has bought
    /// again. It is held back while a batch of its parents is paused.
    package static func gate(endpoint: String, now: Int64) -> CallGate {
        CallGate(
            .cancel, endpoint: endpoint, now: now, cancels: true,
            state: { _ in
                """
                SELECT coalesce(bool_or(c.is_over), true) AS is_over, bool_or(c.is_held) AS is_held
                FROM cancelled c WHERE c.call_id = r.call_id
                """
            },
            othersWait: SubjectWork.waits)
    }

    /// The stored intent of the latest cancellation of the subscription, where its token was refused as stale.
    static func staleIntent(
        of target: String, on connection: isolated PostgresConnection
    ) throws -> String? {
        try connection.query(
            """
            -- name: staleCancelIntent
            SELECT CASE r.error_code WHEN \(ResolutionTable.staleTokenCode)::bigint THEN r.intent END AS intent
            FROM repricer.store_calls r
            WHERE r.subject = \(target) AND r.bucket = \(Bucket.of(target))::smallint AND r.kind = 'cancel'
                AND r.settled_at IS NOT NULL
            ORDER BY r.settled_at DESC LIMIT 1
            """
        ).oneOrNil()?.textOrNil("intent")
    }

    /// The statements that show the renewal off since these calls of one bucket, by their subscriptions: the calls were
    /// applied, whatever came afterwards.
    package static func turnedOff(
        by calls: [StoreCall], on connection: isolated PostgresConnection
    ) throws -> [String: String] {
        guard let bucket = calls.first?.bucket else { return [:] }
        return try connection.query(
            """
            -- name: turnedOffByCalls
            SELECT r.subject, min(e.evidence_id) AS evidence_id
            FROM repricer.store_calls r
            JOIN repricer.subscription_events e ON e.original_transaction_id = r.subject AND e.bucket = \(bucket)::smallint
            WHERE r.subject = ANY (\(calls.map(\.subject))::text[]) AND r.call_id = ANY (\(uuids: calls.map(\.callID))::uuid[])
                AND r.bucket = \(bucket)::smallint
                AND \(fragment: isOffSince("r"))
            GROUP BY r.subject
            """
        ).reduce(into: [:]) { found, row in
            found[try row.text("subject")] = try row.text("evidence_id")
        }
    }

    /// The statement that shows the renewal off since a call for this dependent that was given up with an unknown outcome:
    /// that call was applied, and the customer has turned the renewal on again. nil where there is none.
    package static func turnedOff(
        for open: DependentQueries.Open, on target: String,
        on connection: isolated PostgresConnection
    ) throws -> String? {
        let bucket = Bucket.of(target)
        return try connection.query(
            """
            -- name: turnedOffByDoubtfulCall
            SELECT min(e.evidence_id) AS evidence_id
            FROM repricer.store_calls r
            JOIN repricer.subscription_events e ON e.original_transaction_id = r.subject AND e.bucket = \(bucket)::smallint
            WHERE r.subject = \(target) AND r.bucket = \(bucket)::smallint AND r.kind = 'cancel' AND r.is_doubtful
                AND \(open.originalTransactionID) = ANY (r.parents)
                AND r.prepared_at >= \(timestamp: open.requestedAt)::timestamptz
                AND \(fragment: isOffSince("r"))
            """
        ).one().textOrNil("evidence_id")
    }

    /// The condition that the statement `e` shows the renewal off since this call. Apple's clock dates the statement, and
    /// ours the call.
    private static func isOffSince(_ call: String) -> SQL {
        """
        e.signed_at >= \(unsafe: call).prepared_at - \(TrackedChange.clockMargin) * interval '1 millisecond'
            AND e.statement #>> '{renewal,autoRenewStatus}' = '0'
        """
    }

    /// Marks the dependents that a new call cancels. A statement that writes names one bucket, so there is one for each
    /// bucket of their parents.
    package static func claim(_ call: StoreCall, for dependents: [DependentQueries.Open]) -> [SQL] {
        Bucket.groups(dependents, of: \.originalTransactionID).map { claim(call, ofOneBucket: $0) }
    }

    private static func claim(
        _ call: StoreCall, ofOneBucket dependents: [DependentQueries.Open]
    ) -> SQL {
        let ids = dependents.map(\.originalTransactionID)
        return """
            -- name: markCancelSent
            WITH named AS (
                SELECT * FROM unnest(\(ids)::text[], \(uuids: dependents.map(\.changeID))::uuid[],
                    \(dependents.map(\.dependentSKU))::text[]) AS t (id, change_id, sku)
            ), \(fragment: VersionQueries.ofDependents("""
                named t JOIN repricer.dependent_cancellations d ON \(fragment: isRequested(of: ids))
                """)), moved AS (
                UPDATE repricer.dependent_cancellations d
                SET state = 'cancel_sent', cancel_reference_id = \(uuid: call.callID), detail = NULL,
                    recorded_at = \(fragment: VersionQueries.now)
                FROM named t WHERE \(fragment: isRequested(of: ids))
                RETURNING d.*
            )
            \(fragment: OutboxQueries.tellDependents(of: ids))
            """
    }

    private static func isRequested(of ids: [String]) -> SQL {
        """
        d.original_transaction_id = t.id AND d.change_id = t.change_id AND d.dependent_sku = t.sku
            AND \(fragment: Bucket.isThat(of: ids, "d.bucket")) AND d.state = 'requested'
        """
    }

    /// The parents of a call, grouped by bucket, because a statement that writes names one bucket.
    private static func parents(of call: StoreCall) -> [[String]] {
        Bucket.groups(call.parents, of: \.self)
    }

    private static func ofCall(_ call: StoreCall, _ parents: [String]) -> SQL {
        """
        d.original_transaction_id = ANY (\(parents)::text[]) AND \(fragment: Bucket.isThat(of: parents, "d.bucket"))
            AND d.cancel_reference_id = \(uuid: call.callID) AND d.state = 'cancel_sent'
        """
    }

    private static func former(of call: StoreCall, _ parents: [String]) -> SQL {
        VersionQueries.ofDependents(
            "repricer.dependent_cancellations d WHERE \(fragment: ofCall(call, parents))")
    }

    /// Confirms the dependents, because a statement shows that the subscription will not renew.
    package static func confirm(
        _ call: StoreCall, detail: String?, evidenceID: String?, at: Int64
    ) -> [SQL] {
        end(call, "confirmed", detail: detail, evidenceID: evidenceID, at: at)
    }

    /// Hands the dependents to a person, because the call was refused for good, or was answered and the subscription
    /// still renews.
    package static func abandon(_ call: StoreCall, detail: String, at: Int64) -> [SQL] {
        end(call, "discrepancy", detail: detail, evidenceID: nil, at: at)
    }

    private static func end(
        _ call: StoreCall, _ state: String, detail: String?, evidenceID: String?, at: Int64
    ) -> [SQL] {
        parents(of: call).map { parents in
            """
            -- name: settleCancelledDependents
            WITH \(fragment: former(of: call, parents)), moved AS (
                UPDATE repricer.dependent_cancellations d
                SET recorded_at = \(fragment: VersionQueries.now), state = \(state), detail = \(detail), settled_at = \(timestamp: at),
                    settled_by_evidence = \(evidenceID)
                WHERE \(fragment: ofCall(call, parents))
                RETURNING *
            )
            \(fragment: OutboxQueries.tellDependents(of: parents))
            """
        }
    }

    /// Puts the dependents back, to be judged again under a new id at `nextCheckAt` (real time), because no attempt was
    /// applied. `isParked` makes each wait longer.
    package static func requeue(
        _ call: StoreCall, reason: String, nextCheckAt: Int64, isParked: Bool
    ) -> [SQL] {
        parents(of: call).map { parents in
            """
            -- name: requeueDependents
            WITH \(fragment: former(of: call, parents)), moved AS (
                UPDATE repricer.dependent_cancellations d
                SET recorded_at = \(fragment: VersionQueries.now), state = 'requested', detail = \(reason), cancel_reference_id = NULL,
                    next_check_at = \(timestamp: nextCheckAt)::timestamptz
                        + \(fragment: isParked ? StoreCallQueries.furtherWait(after: call) : "interval '0'"),
                    checks = 0
                WHERE \(fragment: ofCall(call, parents))
                RETURNING *
            )
            \(fragment: OutboxQueries.tellDependents(of: parents))
            """
        }
    }
}

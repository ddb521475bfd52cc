package import Postgres
package import Pricing

/// What a fold reads besides the statements, and what it writes.
package enum FoldQueries {
    /// Our changes of these subscriptions that were ever sent: the others are no business of a fold.
    package static func sentChanges(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> [String: [TrackedChange]] {
        let rows = try connection.query(
            """
            -- name: sentChanges
            SELECT * FROM repricer.price_changes
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND sent_at IS NOT NULL
            ORDER BY original_transaction_id, change_id
            """)
        var changes: [String: [TrackedChange]] = [:]
        for row in rows {
            changes[try row.text("original_transaction_id"), default: []].append(try tracked(row))
        }
        return changes
    }

    private static func tracked(_ row: Row) throws -> TrackedChange {
        let stateText = try row.text("state")
        guard let state = ChangeState(rawValue: stateText) else {
            throw LedgerError.unreadable("price_changes.state '\(stateText)'")
        }
        let progress = ChangeProgress(
            state: state, reason: try row.textOrNil("reason"),
            scheduledAt: try row.instant("scheduled_at"),
            consentAskedAt: try row.instant("consent_asked_at"),
            acceptedAt: try row.instant("accepted_at"),
            acceptance: try row.textOrNil("acceptance").flatMap { Acceptance(rawValue: $0) },
            effectiveAt: try row.instant("effective_at"), endedAt: try row.instant("ended_at"),
            since: Instant(milliseconds: try row.milliseconds("state_since")))
        let sentAt = Instant(milliseconds: try row.milliseconds("sent_at"))
        return TrackedChange(
            changeID: try row.text("change_id"), sku: try row.text("sku"),
            oldPrice: try row.int64("current_price_milliunits"),
            newPrice: try row.int64("new_price_milliunits"),
            dependentSKUs: try row.texts("dependent_skus"),
            requestReferenceID: try row.textOrNil("request_reference_id"), sentAt: sentAt,
            callProgress: callProgress(of: progress, sentAt: sentAt), progress: progress)
    }

    /// States that only we decide stay; all others are read anew from the statements.
    private static func callProgress(of progress: ChangeProgress, sentAt: Instant) -> ChangeProgress
    {
        switch progress.state {
        case .awaitingApproval, .queued, .rejected, .ineligible, .missed, .aborted: progress
        case .unknown: ChangeProgress(state: .unknown, since: sentAt)
        case .sending, .scheduled, .pendingConsent, .accepted, .effective, .declined, .cancelled,
            .lapsed, .invalidated:
            ChangeProgress(state: .sending, since: sentAt)
        }
    }

    package static func cancellations(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> [String: [DependentCancellation]] {
        let rows = try connection.query(
            """
            -- name: dependentCancellations
            SELECT * FROM repricer.dependent_cancellations
            WHERE original_transaction_id = ANY (\(ids)::text[])
            ORDER BY original_transaction_id, change_id, dependent_sku
            """)
        var cancellations: [String: [DependentCancellation]] = [:]
        for row in rows {
            let cancellation = DependentCancellation(
                changeID: try row.text("change_id"), dependentSKU: try row.text("dependent_sku"),
                parentSKU: try row.text("parent_sku"), cause: try row.text("cause"),
                price: try row.int64OrNil("price_milliunits"),
                currency: try row.textOrNil("currency"),
                state: DependentCancellation.State(rawValue: try row.text("state")) ?? .discrepancy,
                requestedAt: Instant(milliseconds: try row.milliseconds("requested_at")),
                requestedByEvidence: try row.text("requested_by_evidence"),
                settledAt: try row.instant("settled_at"),
                settledByEvidence: try row.textOrNil("settled_by_evidence"),
                detail: try row.textOrNil("detail"))
            cancellations[try row.text("original_transaction_id"), default: []].append(cancellation)
        }
        return cancellations
    }

    /// The writes of one folded subscription, to be sent in one pipeline with those of many others.
    ///
    /// `reopened` are changes that had ended and are open again by a late statement.
    package static func save(
        _ state: SubscriptionState, _ transitions: [Transition], reopened: [TrackedChange] = []
    ) throws -> [SQL] {
        let id = state.facts.originalTransactionID
        var statements = [try SubscriptionQueries.save(state)]
        statements += reopened.map { yield(id, to: $0, at: state.facts.signedAt) }
        // Ended ones first: an item has room for one open change.
        let ended = state.changes.filter(\.progress.state.isFinal)
        let open = state.changes.filter { !$0.progress.state.isFinal }
        statements += (ended + open).map { saveChange(id, $0) }
        if !transitions.isEmpty { statements.append(insertHistory(id, transitions)) }
        if !state.charges.isEmpty { statements.append(saveCharges(id, state.charges)) }
        statements += state.cancellations.map { saveCancellation(id, $0) }
        if !state.changes.isEmpty {
            statements.append(releaseRoles(id))
            statements.append(closeRequests(id, at: state.facts.signedAt))
        }
        statements += reopened.map { restoreRoles(id, $0) }
        return statements
    }

    /// An unsent change of an item whose earlier one turns out to be open: Apple has that one, so this one
    /// can't go.
    private static func yield(_ id: String, to reopened: TrackedChange, at: Instant?) -> SQL {
        """
        -- name: yieldToReopened
        WITH moved AS (
            UPDATE repricer.price_changes SET state = 'ineligible', reason = 'conflict_open_change',
                ended_at = greatest(state_since, \(timestamp: at?.milliseconds)::timestamptz),
                state_since = greatest(state_since, \(timestamp: at?.milliseconds)::timestamptz)
            WHERE original_transaction_id = \(id) AND sku = \(reopened.sku)
                AND change_id <> \(uuid: reopened.changeID)
                AND state IN ('awaiting_approval', 'queued')
            RETURNING original_transaction_id, change_id, state, state_since, reason
        )
        INSERT INTO repricer.price_change_history
            (original_transaction_id, change_id, occurred_at, state, evidence_kind, evidence_id, reason)
        SELECT original_transaction_id, change_id, state_since, state, 'judgement',
            \("reopened " + reopened.changeID)::text, reason
        FROM moved ON CONFLICT DO NOTHING
        """
    }

    /// The parts that its SKUs play again, where no newer change has taken them.
    private static func restoreRoles(_ id: String, _ reopened: TrackedChange) -> SQL {
        """
        -- name: restoreRoles
        INSERT INTO repricer.dependency_roles (original_transaction_id, sku, role, change_id)
        SELECT \(id)::text, part.sku, part.role, \(uuid: reopened.changeID)::uuid
        FROM (
            SELECT \(reopened.sku)::text AS sku, 'parent' AS role
            WHERE cardinality(\(reopened.dependentSKUs)::text[]) > 0
            UNION ALL SELECT unnest(\(reopened.dependentSKUs)::text[]), 'dependent'
        ) part
        ON CONFLICT DO NOTHING
        """
    }

    private static func saveChange(_ id: String, _ change: TrackedChange) -> SQL {
        let progress = change.progress
        return """
            -- name: saveChange
            UPDATE repricer.price_changes SET
                state = \(progress.state.rawValue), reason = \(progress.reason),
                scheduled_at = \(timestamp: progress.scheduledAt?.milliseconds),
                consent_asked_at = \(timestamp: progress.consentAskedAt?.milliseconds),
                accepted_at = \(timestamp: progress.acceptedAt?.milliseconds),
                acceptance = \(progress.acceptance?.rawValue),
                effective_at = \(timestamp: progress.effectiveAt?.milliseconds),
                ended_at = \(timestamp: progress.endedAt?.milliseconds),
                state_since = \(timestamp: progress.since.milliseconds)
            WHERE original_transaction_id = \(id) AND change_id = \(uuid: change.changeID)
            """
    }

    private static func insertHistory(_ id: String, _ transitions: [Transition]) -> SQL {
        """
        -- name: insertHistory
        INSERT INTO repricer.price_change_history
            (original_transaction_id, change_id, occurred_at, state, evidence_kind, evidence_id, reason)
        SELECT \(id)::text, * FROM unnest(
            \(uuids: transitions.map(\.changeID))::uuid[],
            \(timestamps: transitions.map(\.at.milliseconds))::timestamptz[],
            \(transitions.map(\.state.rawValue))::text[],
            \(transitions.map(\.evidenceKind.rawValue))::text[],
            \(transitions.map(\.evidenceID))::text[],
            \(texts: transitions.map(\.reason))::text[])
        ON CONFLICT DO NOTHING
        """
    }

    private static func saveCharges(_ id: String, _ charges: [Charge]) -> SQL {
        """
        -- name: saveCharges
        INSERT INTO repricer.charges AS known
            (original_transaction_id, transaction_id, sku, purchased_at, price_milliunits, currency,
             revoked_at)
        SELECT \(id)::text, * FROM unnest(
            \(charges.map(\.transactionID))::text[],
            \(charges.map(\.sku))::text[],
            \(timestamps: charges.map(\.purchasedAt.milliseconds))::timestamptz[],
            \(charges.map(\.price))::bigint[],
            \(charges.map(\.currency))::text[],
            \(timestamps: charges.map { $0.revokedAt?.milliseconds })::timestamptz[])
        ON CONFLICT (original_transaction_id, transaction_id, sku) DO UPDATE
            SET revoked_at = EXCLUDED.revoked_at
            WHERE known.revoked_at IS NULL AND EXCLUDED.revoked_at IS NOT NULL
        """
    }

    private static func saveCancellation(_ id: String, _ cancellation: DependentCancellation) -> SQL
    {
        """
        -- name: saveCancellation
        INSERT INTO repricer.dependent_cancellations AS known
            (original_transaction_id, change_id, dependent_sku, parent_sku, batch_id, cause, state,
             price_milliunits, currency, requested_at, requested_by_evidence, settled_at,
             settled_by_evidence, detail)
        SELECT \(id)::text, c.change_id, \(cancellation.dependentSKU)::text,
            \(cancellation.parentSKU)::text, c.batch_id, \(cancellation.cause)::text,
            \(cancellation.state.rawValue)::text, \(cancellation.price), \(cancellation.currency)::text,
            \(timestamp: cancellation.requestedAt.milliseconds),
            \(cancellation.requestedByEvidence)::text,
            \(timestamp: cancellation.settledAt?.milliseconds),
            \(cancellation.settledByEvidence)::text, \(cancellation.detail)::text
        FROM repricer.price_changes c
        WHERE c.original_transaction_id = \(id) AND c.change_id = \(uuid: cancellation.changeID)
        ON CONFLICT (original_transaction_id, change_id, dependent_sku) DO UPDATE SET
            cause = EXCLUDED.cause, state = EXCLUDED.state, price_milliunits = EXCLUDED.price_milliunits,
            requested_at = EXCLUDED.requested_at,
            requested_by_evidence = EXCLUDED.requested_by_evidence, settled_at = EXCLUDED.settled_at,
            settled_by_evidence = EXCLUDED.settled_by_evidence, detail = EXCLUDED.detail
        -- One given up stays a discrepancy until a statement settles it.
        WHERE (known.state <> EXCLUDED.state OR known.settled_by_evidence
                IS DISTINCT FROM EXCLUDED.settled_by_evidence)
            AND NOT (EXCLUDED.state = 'requested' AND known.state = 'discrepancy'
                AND known.settled_by_evidence IS NULL)
        """
    }

    /// A change that ended frees its SKUs for other batches.
    static func releaseRoles(_ id: String) -> SQL {
        """
        -- name: releaseRoles
        DELETE FROM repricer.dependency_roles d USING repricer.price_changes c
        WHERE d.original_transaction_id = \(id)
            AND c.original_transaction_id = d.original_transaction_id AND c.change_id = d.change_id
            AND c.ended_at IS NOT NULL
        """
    }

    /// A request of unknown outcome whose changes a notification has settled needs no further call. One with a
    /// call on its way has no next attempt, and stays: it is the one call in flight of its subscription.
    private static func closeRequests(_ id: String, at: Instant?) -> SQL {
        """
        -- name: closeSettledRequests
        UPDATE repricer.price_change_requests r
        SET state = 'answered', settled_at = \(timestamp: at?.milliseconds)
        WHERE r.original_transaction_id = \(id) AND r.state = 'unknown'
            AND r.next_attempt_at IS NOT NULL
            AND NOT EXISTS (
                SELECT 1 FROM repricer.price_changes c
                WHERE c.original_transaction_id = r.original_transaction_id
                    AND c.change_id = ANY (r.change_ids) AND c.state IN ('sending', 'unknown'))
        """
    }
}

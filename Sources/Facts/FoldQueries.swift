import Postgres
package import Pricing

/// What a fold reads besides the statements.
package enum FoldQueries {
    /// What is known of some subscriptions, by their ids.
    package struct Known: Sendable {
        /// The changes that Apple has, had, or may have. A fold does not affect the others.
        package var changes: [String: [TrackedChange]]
        package var cancellations: [String: [DependentCancellation]]
        /// Our calls that turned a renewal off, or may have.
        package var ownCancels: [String: [OwnCancel]]

        /// All that is stored of a subscription, as the last fold left it.
        package func state(
            of id: String, _ stored: SubscriptionQueries.Stored?
        ) -> SubscriptionState {
            var state = SubscriptionState(
                facts: stored?.facts ?? SubscriptionFacts(originalTransactionID: id),
                changes: changes[id] ?? [])
            state.increases = stored?.increases ?? []
            state.seenSKUs = stored?.seenSKUs ?? []
            state.cancellations = cancellations[id] ?? []
            state.ownCancels = ownCancels[id] ?? []
            state.foldedThrough = stored?.foldedThrough
            return state
        }
    }

    /// - Parameter changes: The changes of some of the subscriptions, as they were read under the lock.
    package static func knowing(
        of ids: [String], changes: [String: [TrackedChange]] = [:]
    ) -> Question<Known> {
        let others = changes.isEmpty ? ids : ids.filter { changes[$0] == nil }
        let asked = others.isEmpty ? [] : [sentChangesOf(others)]
        return Question(asked + [cancellationsOf(ids), ownCancelsOf(ids)]) { answers in
            guard answers.count == asked.count + 2 else {
                throw FactsError.unreadable(
                    "\(answers.count) answers to \(asked.count + 2) questions")
            }
            let read = try asked.isEmpty ? [:] : sentChanges(answers[0])
            return Known(
                changes: changes.merging(read) { known, _ in known },
                cancellations: try cancellations(answers[asked.count]),
                ownCancels: try ownCancels(answers[asked.count + 1]))
        }
    }

    private static func sentChangesOf(_ ids: [String]) -> SQL {
        """
        -- name: sentChanges
        SELECT original_transaction_id, change_id, state, reason, scheduled_at, consent_asked_at,
            accepted_at, acceptance, effective_at, ended_at, due_effective_at, state_since, sent_at, send_by, doubtful_since,
            planned_effective_at, called_renewal_at, moved_since_call, sku, dependent_skus, current_sku, current_dependent_skus,
            called_sku, called_dependent_skus, former_skus, currency,
            current_price_milliunits, new_price_milliunits, request_reference_id, undoes_change_id, is_leaving,
            CASE WHEN cardinality(dependent_skus) > 0 THEN (
                SELECT ARRAY(SELECT jsonb_array_elements_text(item -> 'dependentSKUs'))
                FROM repricer.store_calls r, jsonb_array_elements(r.intent -> 'items') item
                WHERE r.subject = c.original_transaction_id AND r.bucket = c.bucket
                    AND \(fragment: Bucket.isThat(of: ids, "r.bucket"))
                    AND r.call_id = c.request_reference_id
                    AND item ->> 'sku' = coalesce(c.called_sku, c.sku) LIMIT 1)
            END AS told_dependent_skus,
            CASE WHEN former_until IS NOT NULL THEN ARRAY(
                SELECT coalesce((extract(epoch FROM u.at) * 1000)::bigint::text, '')
                FROM unnest(former_until) WITH ORDINALITY AS u (at, place) ORDER BY u.place)
            END AS former_until
        FROM repricer.price_changes c
        WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
            AND (sent_at IS NOT NULL OR doubtful_since IS NOT NULL)
        ORDER BY original_transaction_id, change_id
        """
    }

    private static func sentChanges(_ rows: Rows) throws -> [String: [TrackedChange]] {
        var changes: [String: [TrackedChange]] = [:]
        for row in rows {
            changes[try row.text("original_transaction_id"), default: []].append(try tracked(row))
        }
        return changes
    }

    private static func tracked(_ row: Row) throws -> TrackedChange {
        let stateText = try row.text("state")
        guard let state = ChangeState(rawValue: stateText) else {
            throw FactsError.unreadable("price_changes.state '\(stateText)'")
        }
        var progress = try ChangeProgress(
            state: state, dueAt: row.instant("due_effective_at"),
            since: Instant(milliseconds: row.milliseconds("state_since")))
        progress.reason = try row.textOrNil("reason")
        progress.scheduledAt = try row.instant("scheduled_at")
        progress.consentAskedAt = try row.instant("consent_asked_at")
        progress.acceptedAt = try row.instant("accepted_at")
        progress.acceptance = try row.textOrNil("acceptance").flatMap { Acceptance(rawValue: $0) }
        progress.effectiveAt = try row.instant("effective_at")
        progress.endedAt = try row.instant("ended_at")
        progress.slip = try row.textOrNil("moved_since_call").flatMap { Slip(rawValue: $0) }
        let submitted = try row.text("sku")
        let submittedDependents = try row.texts("dependent_skus")
        let sku = try row.textOrNil("current_sku") ?? submitted
        let dependents = try row.textsOrNil("current_dependent_skus") ?? submittedDependents
        let called = try row.textOrNil("called_sku") ?? submitted
        let calledDependents = try row.textsOrNil("called_dependent_skus") ?? submittedDependents
        var change = try TrackedChange(
            changeID: row.text("change_id"), sku: sku,
            oldPrice: row.int64("current_price_milliunits"),
            newPrice: row.int64("new_price_milliunits"), progress: progress)
        change.currency = try row.text("currency")
        change.dependentSKUs = dependents
        change.calledSKU = called == sku ? nil : called
        change.calledDependentSKUs = calledDependents == dependents ? nil : calledDependents
        change.toldDependentSKUs = try row.textsOrNil("told_dependent_skus")
        change.formerSKUs = try row.textsOrNil("former_skus") ?? []
        for (name, until) in zip(change.formerSKUs, try row.textsOrNil("former_until") ?? []) {
            change.formerUntil[name] = Int64(until).map { Instant(milliseconds: $0) }
        }
        change.requestReferenceID = try row.textOrNil("request_reference_id")
        change.sentAt = try row.instant("sent_at")
        change.sendBy = try row.instant("send_by")
        change.calledRenewalAt = try row.instant("called_renewal_at")
        change.doubtfulSince = try row.instant("doubtful_since")
        change.isLeaving = try row.bool("is_leaving")
        try change.beginAtCall(
            plannedAt: row.instant("planned_effective_at") ?? progress.dueAt)
        change.undoes = try row.textOrNil("undoes_change_id")
        return change
    }

    private static func ownCancelsOf(_ ids: [String]) -> SQL {
        """
        -- name: ownCancels
        SELECT subject, call_id, prepared_at, settled_at, reenabled_at
        FROM repricer.store_calls
        WHERE subject = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
            AND kind = 'cancel' AND (state <> 'refused' OR is_doubtful)
        ORDER BY subject, prepared_at, call_id
        """
    }

    private static func ownCancels(_ rows: Rows) throws -> [String: [OwnCancel]] {
        var cancels: [String: [OwnCancel]] = [:]
        for row in rows {
            var cancel = try OwnCancel(
                requestReferenceID: row.text("call_id"),
                preparedAt: Instant(milliseconds: row.milliseconds("prepared_at")))
            cancel.settledAt = try row.instant("settled_at")
            cancel.reenabledAt = try row.instant("reenabled_at")
            cancels[try row.text("subject"), default: []].append(cancel)
        }
        return cancels
    }

    private static func cancellationsOf(_ ids: [String]) -> SQL {
        """
        -- name: dependentCancellations
        SELECT * FROM repricer.dependent_cancellations
        WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
        ORDER BY original_transaction_id, change_id, dependent_sku
        """
    }

    private static func cancellations(_ rows: Rows) throws -> [String: [DependentCancellation]] {
        var cancellations: [String: [DependentCancellation]] = [:]
        for row in rows {
            var cancellation = try DependentCancellation(
                changeID: row.text("change_id"), dependentSKU: row.text("dependent_sku"),
                parentSKU: row.text("parent_sku"), cause: row.text("cause"),
                state: DependentCancellation.State(rawValue: row.text("state")) ?? .discrepancy,
                requestedAt: Instant(milliseconds: row.milliseconds("requested_at")),
                requestedByEvidence: row.text("requested_by_evidence"))
            cancellation.price = try row.int64OrNil("price_milliunits")
            cancellation.currency = try row.textOrNil("currency")
            cancellation.settledAt = try row.instant("settled_at")
            cancellation.settledByEvidence = try row.textOrNil("settled_by_evidence")
            cancellation.detail = try row.textOrNil("detail")
            cancellation.isCrossSubscription = try row.bool("is_cross_subscription")
            cancellation.cancelReferenceID = try row.textOrNil("cancel_reference_id")
            cancellations[try row.text("original_transaction_id"), default: []].append(cancellation)
        }
        return cancellations
    }
}

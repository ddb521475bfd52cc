package import Postgres
package import Pricing

/// What a fold of many subscriptions writes. Each table gets one statement, however many subscriptions and lines
/// there are.
package struct FoldWrites: Sendable {
    /// The folded states, in the order of the folds. One pass collects them, because folds are large and there are many
    /// statements.
    private var states: [SubscriptionState] = []
    private var ended: [Moved] = []
    private var open: [Moved] = []
    private var lines: [Line] = []
    /// The lines of `SubscriptionFold.answered`, which nearly all lines are. They are written without a search for
    /// duplicates.
    private var answers: [Line] = []
    /// The subscriptions with a change that moved, each with the instant of the newest statement.
    private var touched: [(id: String, at: Instant?)] = []
    /// The subscriptions with a change that has ended, now or earlier.
    private var freed: [String] = []
    /// The subscriptions with a change whose call no statement answers.
    private var unanswered: [String] = []
    /// The subscriptions whose figures reports keep, or should keep from now on.
    private var figured: [String] = []
    /// The folds that need further statements.
    private var eventful: [SubscriptionFold] = []

    fileprivate typealias Line = (id: String, line: Transition)
    /// A change that moved. It is large and goes into several statements, so it is shared and not copied.
    fileprivate final class Moved: Sendable {
        let id: String
        let change: TrackedChange
        let latest: Evidence?
        /// Whether reports of the past need its former version, because the new version does not show it.
        let keepsFormer: Bool

        init(_ id: String, _ change: TrackedChange, _ latest: Evidence?, keepsFormer: Bool) {
            self.id = id
            self.change = change
            self.latest = latest
            self.keepsFormer = keepsFormer
        }
    }
    /// The newest statement, which a correction names.
    fileprivate typealias Evidence = (source: SubscriptionEvent.Source, id: String)

    package init() {}

    package mutating func append(_ one: SubscriptionFold) {
        let id = one.id
        states.append(one.state)
        let latest = one.latest.map { (source: $0.source, id: $0.key.evidenceID) }
        for change in one.moved {
            let moved = Moved(
                id, change, latest, keepsFormer: !one.scheduled.contains(change.changeID))
            if change.progress.state.isFinal {
                ended.append(moved)
            } else {
                open.append(moved)
            }
        }
        if one.altersFigures { figured.append(id) }
        for line in one.transitions {
            if one.answered.contains(line.changeID) {
                answers.append((id, line))
            } else {
                lines.append((id, line))
            }
        }
        if !one.moved.isEmpty {
            touched.append((id, one.state.facts.signedAt))
            if !one.reopened.isEmpty || one.moved.contains(where: { $0.progress.endedAt != nil }) {
                freed.append(id)
            }
        }
        if one.state.changes.contains(where: \.isUnanswered) { unanswered.append(id) }
        if !one.isPlain { eventful.append(one) }
    }

    /// The statements, to be sent in one pipeline and in this order.
    ///
    /// - Parameter holdsCalls: The caller holds, and settles, the one call in flight of each subscription.
    package func statements(holdsCalls: Bool = false) -> [SQL] {
        guard !states.isEmpty else { return [] }
        var statements = [SubscriptionQueries.save(states)]
        for one in eventful {
            statements += one.state.renames.filter { $0.holds(in: one.state.facts) }
                .flatMap { Self.renameUnsent(one.id, $0) }
            statements += one.reopened.map {
                Self.yield(one.id, to: $0, at: one.state.facts.signedAt)
            }
        }
        // Changes that ended come first, because an item has room for one open change.
        for changes in [ended, open] where !changes.isEmpty {
            statements.append(Self.saveChanges(changes))
        }
        if !answers.isEmpty { statements.append(Self.recordAnswers(answers)) }
        if !lines.isEmpty { statements.append(Self.insertHistory(lines)) }
        // A fold without any statement has no evidence to name.
        let told = (ended + open).filter { $0.latest != nil }
        if !touched.isEmpty, !told.isEmpty { statements.append(Self.correctHistory(told)) }
        statements += MoneyQueries.save(eventful)
        for one in eventful {
            for cancellation in one.cancellations {
                statements.append(Self.correctCancellation(one.id, cancellation))
                statements.append(Self.saveCancellation(one.id, cancellation))
            }
        }
        for one in eventful {
            statements += one.reenabled.map { Self.saveReenabled(one.id, $0) }
        }
        statements += ExtensionFoldQueries.save(eventful)
        if !freed.isEmpty { statements.append(Self.releaseRoles(freed)) }
        if !figured.isEmpty { statements.append(VersionQueries.mark(figured)) }
        if !holdsCalls {
            if !touched.isEmpty {
                statements.append(
                    StoreCallQueries.closeSettled(
                        touched.map { (id: $0.id, at: $0.at?.milliseconds) }))
            }
            if !unanswered.isEmpty { statements.append(StoreCallQueries.reopen(unanswered)) }
        }
        for one in eventful {
            statements += one.reopened.map { Self.restoreRoles(one.id, $0) }
        }
        return statements
    }

    /// Ends the unsent change of an item whose earlier change turns out to be open. Apple has the earlier one, so
    /// this one cannot be sent.
    fileprivate static func yield(_ id: String, to reopened: TrackedChange, at: Instant?) -> SQL {
        """
        -- name: yieldToReopened
        WITH \(fragment: VersionQueries.ofChanges("repricer.price_changes c WHERE \(fragment: yields(id, to: reopened))")),
        moved AS (
            UPDATE repricer.price_changes c SET state = 'ineligible', reason = 'conflict_open_change',
                ended_at = greatest(state_since, \(timestamp: at?.milliseconds)::timestamptz),
                state_since = greatest(state_since, \(timestamp: at?.milliseconds)::timestamptz),
                recorded_at = \(fragment: VersionQueries.now)
            WHERE \(fragment: yields(id, to: reopened))
            RETURNING original_transaction_id, bucket, change_id, state, state_since, reason
        ), \(fragment: VersionQueries.markMoved)
        INSERT INTO repricer.price_change_history
            (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id, reason)
        SELECT original_transaction_id, bucket, change_id, state_since, state, 'judgement',
            \("reopened " + reopened.changeID)::text, reason
        FROM moved ON CONFLICT DO NOTHING
        """
    }

    private static func yields(_ id: String, to reopened: TrackedChange) -> SQL {
        """
        c.original_transaction_id = \(id) AND \(fragment: Bucket.isThat(of: id, "c.bucket"))
            AND coalesce(c.current_sku, c.sku) = \(reopened.sku) AND c.change_id <> \(uuid: reopened.changeID)
            AND c.undoes_change_id IS NULL AND c.state IN ('awaiting_approval', 'queued')
        """
    }

    /// Restores the roles of its SKUs, where no newer change has taken them.
    fileprivate static func restoreRoles(_ id: String, _ reopened: TrackedChange) -> SQL {
        """
        -- name: restoreRoles
        INSERT INTO repricer.dependency_roles (original_transaction_id, bucket, sku, role, change_id)
        SELECT \(id)::text, repricer.bucket_of(\(id)::text), part.sku, part.role, \(uuid: reopened.changeID)::uuid
        FROM (
            SELECT \(reopened.sku)::text AS sku, 'parent' AS role
            WHERE cardinality(\(reopened.dependentSKUs)::text[]) > 0
            UNION ALL SELECT unnest(\(reopened.dependentSKUs)::text[]), 'dependent'
        ) part
        ON CONFLICT DO NOTHING
        """
    }

    private static func saveChanges(_ changes: [Moved]) -> SQL {
        let kept = changes.filter(\.keepsFormer).map { (id: $0.id, changeID: $0.change.changeID) }
        return """
            -- name: saveChanges
            WITH \(fragment: VersionQueries.ofChanges(kept))
            UPDATE repricer.price_changes c SET
                recorded_at = \(fragment: VersionQueries.now), state = t.state, reason = t.reason, scheduled_at = t.scheduled_at,
                consent_asked_at = t.consent_asked_at, accepted_at = t.accepted_at,
                acceptance = t.acceptance, effective_at = t.effective_at, ended_at = t.ended_at,
                state_since = t.state_since, current_sku = nullif(t.current_sku, c.sku),
                current_dependent_skus = nullif(t.current_dependent_skus, c.dependent_skus),
                former_skus = t.former_skus, former_until = t.former_until,
                planned_effective_at = CASE WHEN t.due_at IS DISTINCT FROM t.planned_at
                    THEN t.planned_at END,
                due_effective_at = coalesce(t.due_at, c.due_effective_at), moved_since_call = t.moved_since_call,
                is_leaving = t.is_leaving,
                sent_at = coalesce(t.adopted_call_at, c.sent_at)
            -- The casts stand in a subquery for the reason given at SubscriptionQueries.setting.
            FROM (SELECT u.*, u.dependents::text[] AS current_dependent_skus, u.former::text[] AS former_skus,
                u.until::timestamptz[] AS former_until FROM unnest(
                \(changes.column { $0.id })::text[], \(uuids: changes.column { $0.change.changeID })::uuid[],
                \(changes.column { $0.change.progress.state.rawValue })::text[], \(texts: changes.sparseColumn { $0.change.progress.reason })::text[],
                \(timestamps: changes.sparseColumn { $0.change.progress.scheduledAt?.milliseconds })::timestamptz[],
                \(timestamps: changes.sparseColumn { $0.change.progress.consentAskedAt?.milliseconds })::timestamptz[],
                \(timestamps: changes.sparseColumn { $0.change.progress.acceptedAt?.milliseconds })::timestamptz[],
                \(texts: changes.sparseColumn { $0.change.progress.acceptance?.rawValue })::text[],
                \(timestamps: changes.sparseColumn { $0.change.progress.effectiveAt?.milliseconds })::timestamptz[],
                \(timestamps: changes.sparseColumn { $0.change.progress.endedAt?.milliseconds })::timestamptz[],
                \(timestamps: changes.column { $0.change.progress.since.milliseconds })::timestamptz[],
                \(changes.column { $0.change.sku })::text[],
                \(changes.column { arrayText($0.change.dependentSKUs) })::text[],
                \(texts: changes.sparseColumn { $0.change.formerSKUs.isEmpty ? nil : arrayText($0.change.formerSKUs) })::text[],
                \(texts: changes.sparseColumn { $0.change.formerUntilText })::text[],
                \(timestamps: changes.sparseColumn { $0.change.progress.dueAt?.milliseconds })::timestamptz[],
                \(timestamps: changes.sparseColumn { $0.change.callProgress.dueAt?.milliseconds })::timestamptz[],
                \(texts: changes.sparseColumn { $0.change.progress.slip?.rawValue })::text[],
                \(bools: changes.column { $0.change.isLeaving })::boolean[],
                \(timestamps: changes.sparseColumn { $0.change.adoptedCallAt?.milliseconds })::timestamptz[]
            ) AS u (id, change_id, state, reason, scheduled_at, consent_asked_at, accepted_at,
                acceptance, effective_at, ended_at, state_since, current_sku, dependents,
                former, until, due_at, planned_at, moved_since_call, is_leaving, adopted_call_at) OFFSET 0) AS t
            WHERE c.original_transaction_id = t.id AND c.change_id = t.change_id
                AND \(fragment: Bucket.isThat(of: changes.lazy.map(\.id), "c.bucket"))
            """
    }

    private static func recordAnswers(_ lines: [Line]) -> SQL {
        """
        -- name: recordAnswers
        \(fragment: insert(lines))
        """
    }

    private static func insertHistory(_ lines: [Line]) -> SQL {
        """
        -- name: insertHistory
        \(fragment: insert(lines))
        ON CONFLICT DO NOTHING
        """
    }

    private static func insert(_ lines: [Line]) -> SQL {
        """
        INSERT INTO repricer.price_change_history
            (original_transaction_id, change_id, occurred_at, state, evidence_kind, evidence_id, reason, bucket,
             recorded_at)
        SELECT t.*, repricer.bucket_of(t.id), (SELECT repricer.recording_instant()) FROM unnest(
            \(lines.column { $0.id })::text[],
            \(uuids: lines.column { $0.line.changeID })::uuid[],
            \(timestamps: lines.column { $0.line.at.milliseconds })::timestamptz[],
            \(lines.column { $0.line.state.rawValue })::text[],
            \(lines.column { $0.line.evidenceKind.rawValue })::text[],
            \(lines.column { $0.line.evidenceID })::text[],
            \(texts: lines.sparseColumn { $0.line.reason })::text[]
        ) AS t (id, change_id, occurred_at, state, evidence_kind, evidence_id, reason)
        """
    }

    /// The most by which clocks may differ, in milliseconds. A line may bear an earlier instant than a state that it
    /// contradicts.
    private static let clocksDifferMax: Int64 = 86_400_000

    /// No newest line of these changes is older than this (UTC milliseconds), because each state has a line of its
    /// instant or later.
    private static func oldestNewestLine(of moved: [Moved]) -> Int64 {
        (moved.lazy.map(\.change.progress.since.milliseconds).min() ?? 0) - clocksDifferMax
    }

    /// Writes the corrections that `SubscriptionFold.correction` describes, where a line contradicts the new state. It
    /// reads only the months since the oldest state, because history is kept for ever and each month costs time.
    private static func correctHistory(_ moved: [Moved]) -> SQL {
        """
        -- name: correctHistory
        INSERT INTO repricer.price_change_history
            (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id, reason)
        SELECT t.id, repricer.bucket_of(t.id), t.change_id,
            newest.occurred_at + interval '1 millisecond', t.state, t.evidence_kind, t.evidence_id,
            \(SubscriptionFold.correctionReason)::text || newest.state
        FROM unnest(
            \(moved.column { $0.id })::text[], \(uuids: moved.column { $0.change.changeID })::uuid[],
            \(moved.column { $0.change.progress.state.rawValue })::text[],
            \(texts: moved.column { $0.latest?.source.rawValue })::text[],
            \(texts: moved.column { $0.latest?.id })::text[]
        ) AS t (id, change_id, state, evidence_kind, evidence_id)
        -- This is one step of the index for nearly all changes, because their newest line says their state.
        JOIN LATERAL (
            SELECT h.state FROM repricer.price_change_history h
            WHERE h.original_transaction_id = t.id AND h.change_id = t.change_id
                AND \(fragment: Bucket.isThat(of: moved.lazy.map(\.id), "h.bucket"))
                AND h.occurred_at >= \(timestamp: oldestNewestLine(of: moved))
            ORDER BY h.occurred_at DESC LIMIT 1
        ) line ON line.state <> t.state,
        LATERAL (
            SELECT h.occurred_at, h.state, bool_or(h.state = t.state) OVER () AS holds
            FROM repricer.price_change_history h
            WHERE h.original_transaction_id = t.id AND h.change_id = t.change_id
                AND \(fragment: Bucket.isThat(of: moved.lazy.map(\.id), "h.bucket"))
                AND h.occurred_at = (
                    SELECT max(m.occurred_at) FROM repricer.price_change_history m
                    WHERE m.original_transaction_id = t.id AND m.change_id = t.change_id
                        AND \(fragment: Bucket.isThat(of: moved.lazy.map(\.id), "m.bucket"))
                        AND m.occurred_at >= \(timestamp: oldestNewestLine(of: moved)))
                AND h.occurred_at >= \(timestamp: oldestNewestLine(of: moved))
            ORDER BY h.state LIMIT 1
        ) newest
        WHERE NOT newest.holds
        ON CONFLICT DO NOTHING
        """
    }

    private static func saveReenabled(_ id: String, _ cancel: OwnCancel) -> SQL {
        """
        -- name: saveReenabled
        UPDATE repricer.store_calls SET reenabled_at = \(timestamp: cancel.reenabledAt?.milliseconds)
        WHERE subject = \(id) AND call_id = \(uuid: cancel.requestReferenceID) AND \(fragment: Bucket.isThat(of: id))
        """
    }

    private static func saveCancellation(_ id: String, _ cancellation: DependentCancellation) -> SQL
    {
        """
        -- name: saveCancellation
        WITH \(fragment: VersionQueries.ofDependents("""
            repricer.dependent_cancellations d
            WHERE \(fragment: isThat(id, cancellation)) AND (d.state <> \(cancellation.state.rawValue)
                    OR d.settled_by_evidence IS DISTINCT FROM \(cancellation.settledByEvidence)::text)
                AND NOT (\(cancellation.state.rawValue)::text = 'requested' AND d.state = 'discrepancy'
                    AND d.settled_by_evidence IS NULL)
            """)), moved AS (
        INSERT INTO repricer.dependent_cancellations AS known
            (original_transaction_id, bucket, change_id, dependent_sku, parent_sku, batch_id, cause, state,
             price_milliunits, currency, requested_at, requested_by_evidence, settled_at,
             settled_by_evidence, detail, is_cross_subscription, recorded_at)
        SELECT \(id)::text, c.bucket, c.change_id, \(cancellation.dependentSKU)::text,
            \(cancellation.parentSKU)::text, c.batch_id, \(cancellation.cause)::text,
            \(cancellation.state.rawValue)::text, \(cancellation.price), \(cancellation.currency)::text,
            \(timestamp: cancellation.requestedAt.milliseconds),
            \(cancellation.requestedByEvidence)::text,
            \(timestamp: cancellation.settledAt?.milliseconds),
            \(cancellation.settledByEvidence)::text, \(cancellation.detail)::text,
            \(cancellation.isCrossSubscription), \(fragment: VersionQueries.now)
        FROM repricer.price_changes c
        WHERE c.original_transaction_id = \(id) AND c.change_id = \(uuid: cancellation.changeID)
            AND \(fragment: Bucket.isThat(of: id, "c.bucket"))
        ON CONFLICT (original_transaction_id, change_id, dependent_sku, bucket) DO UPDATE SET
            parent_sku = EXCLUDED.parent_sku, cause = EXCLUDED.cause, state = EXCLUDED.state,
            price_milliunits = EXCLUDED.price_milliunits, requested_at = EXCLUDED.requested_at,
            -- That of another subscription is known to its canceller.
            currency = CASE WHEN EXCLUDED.is_cross_subscription THEN known.currency ELSE EXCLUDED.currency END,
            requested_by_evidence = EXCLUDED.requested_by_evidence, settled_at = EXCLUDED.settled_at,
            settled_by_evidence = EXCLUDED.settled_by_evidence, detail = EXCLUDED.detail,
            -- What is asked for anew is checked anew. A call that was made stays named.
            target_transaction_id = CASE WHEN EXCLUDED.state <> 'requested'
                THEN known.target_transaction_id END,
            target_period = CASE WHEN EXCLUDED.state <> 'requested' THEN known.target_period END,
            cancel_reference_id = CASE WHEN EXCLUDED.state <> 'requested'
                THEN known.cancel_reference_id END,
            is_cross_subscription = EXCLUDED.is_cross_subscription, next_check_at = NULL, checks = 0,
            recorded_at = EXCLUDED.recorded_at
        -- An abandoned cancellation stays a discrepancy until a statement settles it.
        WHERE (known.state <> EXCLUDED.state OR known.settled_by_evidence
                IS DISTINCT FROM EXCLUDED.settled_by_evidence)
            AND NOT (EXCLUDED.state = 'requested' AND known.state = 'discrepancy'
                AND known.settled_by_evidence IS NULL)
        RETURNING *
        )
        \(fragment: OutboxQueries.tellDependents(of: [id]))
        """
    }

    /// Corrects the cause of a cancellation whose state stays the same, where a late statement shows an earlier or
    /// another cause. The state did not change, so there is no event.
    private static func correctCancellation(
        _ id: String, _ cancellation: DependentCancellation
    ) -> SQL {
        """
        -- name: correctCancellation
        WITH \(fragment: VersionQueries.ofDependents("""
            repricer.dependent_cancellations d WHERE \(fragment: isCorrected(id, cancellation))
            """))
        UPDATE repricer.dependent_cancellations d SET
            parent_sku = \(cancellation.parentSKU), cause = \(cancellation.cause),
            price_milliunits = \(cancellation.price),
            currency = CASE WHEN \(cancellation.isCrossSubscription)::boolean THEN d.currency ELSE \(cancellation.currency)::text END,
            requested_at = \(timestamp: cancellation.requestedAt.milliseconds),
            requested_by_evidence = \(cancellation.requestedByEvidence),
            is_cross_subscription = \(cancellation.isCrossSubscription), recorded_at = \(fragment: VersionQueries.now)
        WHERE \(fragment: isCorrected(id, cancellation))
        """
    }

    private static func isCorrected(_ id: String, _ cancellation: DependentCancellation) -> SQL {
        """
        \(fragment: isThat(id, cancellation)) AND d.state = \(cancellation.state.rawValue)
            AND d.settled_by_evidence IS NOT DISTINCT FROM \(cancellation.settledByEvidence)::text
            AND ((d.parent_sku, d.cause, d.price_milliunits, d.requested_at, d.requested_by_evidence, d.is_cross_subscription)
                IS DISTINCT FROM (\(cancellation.parentSKU)::text, \(cancellation.cause)::text, \(cancellation.price)::bigint,
                    \(timestamp: cancellation.requestedAt.milliseconds)::timestamptz,
                    \(cancellation.requestedByEvidence)::text, \(cancellation.isCrossSubscription)::boolean)
                OR NOT \(cancellation.isCrossSubscription)::boolean AND d.currency IS DISTINCT FROM \(cancellation.currency)::text)
        """
    }

    private static func isThat(_ id: String, _ cancellation: DependentCancellation) -> SQL {
        """
        d.original_transaction_id = \(id) AND d.change_id = \(uuid: cancellation.changeID)
            AND \(fragment: Bucket.isThat(of: id, "d.bucket")) AND d.dependent_sku = \(cancellation.dependentSKU)
        """
    }

    /// Frees the SKUs of changes that ended, so that other batches may name them.
    package static func releaseRoles(_ ids: [String]) -> SQL {
        """
        -- name: releaseRoles
        DELETE FROM repricer.dependency_roles d USING repricer.price_changes c
        WHERE d.original_transaction_id = ANY (\(ids)::text[])
            AND c.original_transaction_id = d.original_transaction_id AND c.change_id = d.change_id
            AND c.bucket = d.bucket AND \(fragment: Bucket.isThat(of: ids, "d.bucket"))
            AND c.ended_at IS NOT NULL
        """
    }
}

extension FoldWrites {
    /// The condition that the unsent change `c` names the item itself or as a dependent. In a batch with a holdout it
    /// also covers changes that ended without being applied, because `report holdout` shows whether their items are
    /// still paid for.
    private static func isNamed(_ id: String, _ sku: String) -> SQL {
        """
        c.original_transaction_id = \(id)
            AND (c.state IN ('awaiting_approval', 'queued')
                OR c.state IN ('rejected', 'ineligible', 'missed', 'aborted') AND EXISTS (
                    SELECT FROM repricer.batches b
                    WHERE b.batch_id = c.batch_id AND b.holdout_basis_points > 0))
            AND \(fragment: Bucket.isThat(of: id, "c.bucket"))
            AND (coalesce(c.current_sku, c.sku) = \(sku)
                OR \(sku) = ANY (coalesce(c.current_dependent_skus, c.dependent_skus)))
        """
    }

    /// Gives an unsent change of a renamed item the new name. It is about the same product, and is judged and sent
    /// under that name.
    fileprivate static func renameUnsent(_ id: String, _ told: ToldRename) -> [SQL] {
        let (from, to) = (told.rename.from, told.rename.to)
        return [
            """
            -- name: renameUnsentChanges
            WITH \(fragment: VersionQueries.ofChanges("repricer.price_changes c WHERE \(fragment: isNamed(id, from))")),
            renamed AS (
                UPDATE repricer.price_changes c SET recorded_at = \(fragment: VersionQueries.now),
                    current_sku = CASE WHEN coalesce(current_sku, sku) = \(from) THEN \(to)::text
                        ELSE current_sku END,
                    current_dependent_skus = CASE
                        WHEN \(from) = ANY (coalesce(current_dependent_skus, dependent_skus))
                        THEN array_replace(coalesce(current_dependent_skus, dependent_skus),
                            \(from)::text, \(to)::text)
                        ELSE current_dependent_skus END
                WHERE \(fragment: isNamed(id, from))
                RETURNING bucket, change_id, state, current_sku
            )
            INSERT INTO repricer.price_change_history
                (original_transaction_id, bucket, change_id, occurred_at, state, evidence_kind, evidence_id, reason)
            SELECT \(id)::text, bucket, change_id, \(timestamp: told.key.signedAt.milliseconds), state,
                \(told.source.rawValue)::text, \(told.key.evidenceID)::text,
                \("renamed from \(from) to \(to)")::text
            FROM renamed WHERE current_sku = \(to) AND state IN ('awaiting_approval', 'queued')
            ON CONFLICT DO NOTHING
            """,
            // From now on, the item's role is stored under its new name.
            """
            -- name: renameRoles
            WITH former AS (
                DELETE FROM repricer.dependency_roles
                WHERE original_transaction_id = \(id) AND sku = \(from) AND \(fragment: Bucket.isThat(of: id))
                RETURNING bucket, role, change_id
            )
            INSERT INTO repricer.dependency_roles (original_transaction_id, bucket, sku, role, change_id)
            SELECT \(id)::text, bucket, \(to)::text, role, change_id FROM former ON CONFLICT DO NOTHING
            """,
            // Changes of other subscriptions still use the old name, so both names are kept.
            """
            -- name: renameClaims
            INSERT INTO repricer.dependent_claims (original_transaction_id, bucket, sku, claimed_by, change_id, period)
            SELECT original_transaction_id, bucket, \(to)::text, claimed_by, change_id, period FROM repricer.dependent_claims
            WHERE original_transaction_id = \(id) AND sku = \(from) AND \(fragment: Bucket.isThat(of: id))
            ON CONFLICT DO NOTHING
            """,
        ]
    }
}

extension ToldRename {
    /// Whether the newest facts know the item by its new name only. A fold from the beginning meets old renames
    /// again, and by now the old name may be another item's.
    fileprivate func holds(in facts: SubscriptionFacts) -> Bool {
        facts.items.contains { $0.sku == rename.to && $0.renews }
            && !facts.items.contains { $0.sku == rename.from }
    }
}

extension TrackedChange {
    /// The ends of the former names, in their order, in PostgreSQL's form of an array; nil where none has one.
    fileprivate var formerUntilText: String? {
        guard !formerUntil.isEmpty else { return nil }
        let ends = formerSKUs.map { name in formerUntil[name].map { "\"\($0.text)\"" } ?? "NULL" }
        return "{" + ends.joined(separator: ",") + "}"
    }
}

/// PostgreSQL's text form of a `text[]` with every element quoted, for an array of arrays.
package func arrayText(_ elements: [String]) -> String {
    let quoted = elements.map { element in
        guard element.utf8.contains(where: { $0 == 0x22 || $0 == 0x5C }) else { return element }
        return element.replacing("\\", with: "\\\\").replacing("\"", with: "\\\"")
    }
    return quoted.isEmpty ? "{}" : "{\"" + quoted.joined(separator: "\",\"") + "\"}"
}

extension TrackedChange {
    /// Whether it was called and no statement shows that it was applied.
    package var isUnanswered: Bool {
        progress.state == .sending || progress.state == .unknown
    }
}

extension SubscriptionFold {
    fileprivate var id: String { state.facts.originalTransactionID }

    /// Whether there is nothing to write but facts, changes that moved and their lines.
    fileprivate var isPlain: Bool {
        !isAnew && reopened.isEmpty && cancellations.isEmpty && reenabled.isEmpty
            && state.renames.isEmpty && state.money.isEmpty && state.extensions.isEmpty
    }
}

package import Postgres

/// CTEs for statements that replace rows which reports of the past read, or that change stored figures. They store the
/// former versions of the rows, and mark the figures to be computed again. All parts of a statement see the same
/// snapshot, so these CTEs read the rows as they were before. The caller holds the locks of the subscriptions.
package enum VersionQueries {
    /// The CTE `instant`: one recording instant for the whole statement.
    package static let instant: SQL =
        "instant AS MATERIALIZED (SELECT repricer.recording_instant() AS at)"

    /// The `recorded_at` of the rows that the statement writes.
    package static let now: SQL = "(SELECT at FROM instant)"

    /// Keeps the changes `c` of `source`, which is the text after FROM. It needs the CTE `instant`.
    package static func ofChanges(_ source: SQL) -> SQL {
        """
        \(fragment: instant), former AS (
            INSERT INTO repricer.price_change_versions (original_transaction_id, bucket, change_id, recorded_at,
                recorded_until, claim_recorded_at, current_sku, former_skus, former_until,
                current_dependent_skus, send_after, send_by,
                due_effective_at, planned_effective_at, moved_before_call, moved_since_call, request_reference_id, state,
                state_since, reason, doubtful_since, refused_at, sent_at, scheduled_at, consent_asked_at, accepted_at, acceptance,
                effective_at, ended_at, is_leaving)
            SELECT c.original_transaction_id, c.bucket, c.change_id, c.recorded_at,
                \(fragment: now), c.claim_recorded_at, c.current_sku, c.former_skus, c.former_until,
                c.current_dependent_skus, c.send_after, c.send_by,
                c.due_effective_at, c.planned_effective_at, c.moved_before_call, c.moved_since_call, c.request_reference_id, c.state,
                c.state_since, c.reason, c.doubtful_since, c.refused_at, c.sent_at, c.scheduled_at, c.consent_asked_at, c.accepted_at, c.acceptance,
                c.effective_at, c.ended_at, c.is_leaving
            FROM \(fragment: source)
            -- It was replaced twice within a microsecond, and nobody saw what it was in between.
            ON CONFLICT DO NOTHING
        )
        """
    }

    /// Keeps these changes, by subscription and id.
    package static func ofChanges(_ changes: [(id: String, changeID: String)]) -> SQL {
        guard !changes.isEmpty else { return instant }
        return ofChanges(
            """
            unnest(\(changes.map(\.id))::text[], \(uuids: changes.map(\.changeID))::uuid[]) AS k (id, change_id)
            JOIN repricer.price_changes c ON c.original_transaction_id = k.id AND c.change_id = k.change_id
                AND \(fragment: Bucket.isThat(of: changes.lazy.map(\.id), "c.bucket"))
            """)
    }

    /// Keeps the dependents' cancellations `d` of `source` as whole rows. It needs the CTE `instant`.
    package static func ofDependents(_ source: SQL) -> SQL {
        """
        \(fragment: instant), former AS (
            INSERT INTO repricer.dependent_cancellation_versions
            SELECT d.*, \(fragment: now) FROM \(fragment: source)
            ON CONFLICT DO NOTHING
        )
        """
    }

    /// Marks the subscriptions of the rows that the CTE `moved` returns.
    package static let markMoved: SQL = """
        marked AS (
            INSERT INTO repricer.stale_figures (original_transaction_id, bucket)
            SELECT DISTINCT original_transaction_id, bucket FROM moved
        )
        """

    /// Marks these subscriptions in a statement of its own, in the transaction that changes their figures.
    static func mark(_ ids: [String]) -> SQL {
        """
        -- name: markFigures
        INSERT INTO repricer.stale_figures (original_transaction_id, bucket)
        SELECT id, repricer.bucket_of(id) FROM unnest(\(ids)::text[]) AS id
        """
    }
}

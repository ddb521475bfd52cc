import Postgres
import Pricing

/// What a fold writes about renewal-date extensions.
enum ExtensionFoldQueries {
    static func save(_ folded: [SubscriptionFold]) -> [SQL] {
        var statements: [SQL] = []
        let anew = folded.filter(\.isAnew).map {
            (id: $0.state.facts.originalTransactionID, since: $0.checkpoint?.before.milliseconds)
        }
        if !anew.isEmpty { statements.append(forget(anew)) }
        let told = folded.flatMap { one in
            one.state.extensions.map { (one.state.facts.originalTransactionID, $0) }
        }
        if !told.isEmpty { statements.append(insert(told)) }
        let moved = folded.filter { one in
            one.state.extensions.contains { $0.outcome != .failed }
        }
        if !moved.isEmpty { statements.append(note(moved)) }
        return statements
    }

    /// Deletes the extensions that a new fold will write again. A fold from the beginning, or from a checkpoint, finds
    /// every extension since then, perhaps with other evidence.
    private static func forget(_ begun: [(id: String, since: Int64?)]) -> SQL {
        """
        -- name: forgetExtensions
        DELETE FROM repricer.renewal_extensions e
        USING unnest(\(begun.map(\.id))::text[], \(timestamps: begun.map(\.since))::timestamptz[]) AS t (id, since)
        WHERE e.original_transaction_id = t.id AND \(fragment: Bucket.isThat(of: begun.lazy.map(\.id), "e.bucket"))
            AND e.told_at >= coalesce(t.since, '-infinity')
        """
    }

    private static func insert(_ told: [(id: String, said: ToldExtension)]) -> SQL {
        """
        -- name: saveExtensions
        INSERT INTO repricer.renewal_extensions AS known
            (original_transaction_id, evidence_id, told_at, outcome, product_id, storefront,
             renewal_before, renewal_at, bucket)
        SELECT t.*, repricer.bucket_of(t.id) FROM unnest(
            \(told.map(\.id))::text[], \(told.map(\.said.evidenceID))::text[],
            \(timestamps: told.map(\.said.toldAt.milliseconds))::timestamptz[],
            \(told.map(\.said.outcome.rawValue))::text[],
            \(texts: told.map(\.said.productID))::text[],
            \(texts: told.map(\.said.storefront))::text[],
            \(timestamps: told.map { $0.said.renewalBefore?.milliseconds })::timestamptz[],
            \(timestamps: told.map { $0.said.renewalAt?.milliseconds })::timestamptz[]
        ) AS t (id, evidence_id, told_at, outcome, product_id, storefront, renewal_before, renewal_at)
        ON CONFLICT (original_transaction_id, evidence_id, bucket) DO UPDATE
            SET told_at = excluded.told_at, outcome = excluded.outcome,
                product_id = excluded.product_id, storefront = excluded.storefront,
                renewal_before = excluded.renewal_before, renewal_at = excluded.renewal_at
            WHERE known IS DISTINCT FROM excluded
        """
    }

    /// Notes that the unsent changes of these subscriptions must be dated anew. Dating needs rules, so the fold does
    /// not do it.
    private static func note(_ folded: [SubscriptionFold]) -> SQL {
        """
        -- name: noteMovedRenewals
        INSERT INTO repricer.moved_renewals AS known (original_transaction_id, bucket, moved_at)
        SELECT t.id, repricer.bucket_of(t.id), t.at FROM unnest(
            \(folded.map { $0.state.facts.originalTransactionID })::text[],
            \(timestamps: folded.map { $0.state.facts.signedAt?.milliseconds })::timestamptz[]
        ) AS t (id, at)
        WHERE EXISTS (
            SELECT 1 FROM repricer.price_changes c
            WHERE c.original_transaction_id = t.id AND c.state IN ('awaiting_approval', 'queued')
                AND \(fragment: Bucket.isThat(of: folded.map(\.state.facts.originalTransactionID), "c.bucket")))
        ON CONFLICT (original_transaction_id, bucket) DO UPDATE
            SET moved_at = greatest(known.moved_at, excluded.moved_at)
        """
    }
}

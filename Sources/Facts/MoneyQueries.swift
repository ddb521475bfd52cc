import Postgres
import Pricing

/// Writes the money ledger and the charges that reports count.
enum MoneyQueries {
    fileprivate typealias Line = (id: String, entry: MoneyEntry)

    /// The statements that write the money of the folds, in this order. The caller holds the locks of the
    /// subscriptions.
    static func save(_ folds: [SubscriptionFold]) -> [SQL] {
        let lines = folds.flatMap { fold in
            fold.state.money.map { (fold.state.facts.originalTransactionID, $0) }
        }
        let begun = folds.filter(\.isAnew)
        let anew = begun.map(\.state.facts.originalTransactionID)
        // Charges before the checkpoint are final, because no stored statement contains them any more.
        let since = begun.map { $0.checkpoint?.moneySince.milliseconds }
        guard !lines.isEmpty || !anew.isEmpty else { return [] }
        let charges = lines.filter { $0.1.terms != nil }
        var statements = [record(lines, anew: anew, since: since)]
        if !charges.isEmpty { statements.append(saveCharges(charges)) }
        let renamed = begun.filter(\.isRenamed)
        if !charges.isEmpty, !renamed.isEmpty { statements.append(dropCharges(charges, renamed)) }
        // A subscription without a refund needs no sum of refunds.
        let given = Set(lines.lazy.filter { $0.1.terms == nil }.map(\.0)).union(anew).sorted()
        if !given.isEmpty { statements.append(sumRefunds(given)) }
        statements.append(markPutBack(Set(lines.map(\.0)).union(anew).sorted()))
        return statements
    }

    /// Marks the figures of subscriptions with a row whose call was refused and put back. No fold follows such a row,
    /// but reports name a charge above its old price.
    private static func markPutBack(_ ids: [String]) -> SQL {
        """
        -- name: markPutBack
        INSERT INTO repricer.stale_figures (original_transaction_id, bucket)
        SELECT DISTINCT c.original_transaction_id, c.bucket FROM repricer.price_changes c
        WHERE c.original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids, "c.bucket"))
            AND c.refused_at IS NOT NULL
        """
    }

    /// Adds what the ledger does not have yet: a line, or the difference by which a later statement changes one. A fold
    /// from the beginning, or of a charge, contains all lines, so a correcting line takes out whatever else the ledger
    /// has.
    private static func record(_ lines: [Line], anew: [String], since: [Int64?]) -> SQL {
        let ids = Set(lines.map(\.id)).union(anew).sorted()
        // What was signed of the tax holds as long as the amount does.
        let tax: SQL =
            "CASE WHEN t.amount = k.amount THEN coalesce(t.tax_exclusive, k.tax_exclusive) ELSE t.tax_exclusive END"
        return """
            -- name: recordMoney
            WITH told AS (
                SELECT * FROM unnest(
                    \(lines.map(\.id))::text[], \(lines.map(\.entry.key.transactionID))::text[],
                    \(lines.map(\.entry.key.sku))::text[], \(lines.map(\.entry.key.kind.rawValue))::text[],
                    \(timestamps: lines.map(\.entry.key.occurredAt.milliseconds))::timestamptz[],
                    \(lines.map { Int64($0.entry.key.number) })::bigint[], \(lines.map(\.entry.currency))::text[],
                    \(lines.map(\.entry.amount))::bigint[], \(ints: lines.map(\.entry.taxExclusive))::bigint[],
                    \(texts: lines.map(\.entry.storefront))::text[], \(lines.map(\.entry.evidenceID))::text[]
                ) AS t (id, transaction_id, sku, kind, occurred_at, number, currency, amount, tax_exclusive, storefront,
                    evidence_id)
            ), begun AS (
                SELECT * FROM unnest(\(anew)::text[], \(timestamps: since)::timestamptz[]) AS t (id, since)
            ), known AS (
                SELECT e.original_transaction_id AS id, e.transaction_id, e.sku, e.kind, e.occurred_at,
                    e.number::bigint AS number, e.currency, sum(e.amount_milliunits)::bigint AS amount,
                    sum(e.tax_exclusive_milliunits)::bigint AS tax_exclusive, max(e.correction) AS correction,
                    max(e.storefront) AS storefront, max(e.evidence_id) AS evidence_id,
                    e.kind = 'charge' OR e.original_transaction_id = ANY (\(anew)::text[]) AS is_told_whole
                FROM repricer.money_entries e
                WHERE e.original_transaction_id = ANY (\(ids)::text[])
                    AND \(fragment: Bucket.isThat(of: ids, "e.bucket"))
                    AND (EXISTS (
                        SELECT FROM begun b WHERE b.id = e.original_transaction_id
                            AND (b.since IS NULL OR e.kind <> 'charge' OR e.occurred_at >= b.since)) OR EXISTS (
                        SELECT FROM told t WHERE t.id = e.original_transaction_id
                            AND t.transaction_id = e.transaction_id AND t.sku = e.sku
                            -- Of a charge that retention has forgotten, a fold tells the refunds and not the charge.
                            AND (e.kind <> 'charge' OR t.kind = 'charge')))
                GROUP BY e.original_transaction_id, e.transaction_id, e.sku, e.kind, e.occurred_at, e.number, e.currency
            )
            INSERT INTO repricer.money_entries
                (original_transaction_id, bucket, transaction_id, sku, kind, occurred_at, number, correction,
                 amount_milliunits, tax_exclusive_milliunits, currency, storefront, evidence_id, recorded_at)
            SELECT id, repricer.bucket_of(id), transaction_id, sku, kind, occurred_at, number::integer,
                coalesce(k.correction + 1, 0), coalesce(t.amount, 0) - coalesce(k.amount, 0),
                CASE WHEN t.tax_exclusive IS NOT NULL OR k.tax_exclusive IS NOT NULL
                    THEN coalesce(\(fragment: tax), 0) - coalesce(k.tax_exclusive, 0) END,
                currency, coalesce(t.storefront, k.storefront), coalesce(t.evidence_id, k.evidence_id), r.at
            FROM told t FULL JOIN known k USING (id, transaction_id, sku, kind, occurred_at, number, currency)
            -- Once for all lines. As a subquery in the list above it makes Citus find nothing known of several buckets.
            CROSS JOIN (SELECT repricer.recording_instant() AS at OFFSET 0) r
            WHERE CASE WHEN t.amount IS NULL THEN k.is_told_whole AND (k.amount, coalesce(k.tax_exclusive, 0)) <> (0, 0)
                ELSE (t.amount, coalesce(\(fragment: tax), 0))
                    IS DISTINCT FROM (k.amount, coalesce(k.tax_exclusive, 0)) END
            """
    }

    private static func saveCharges(_ charges: [Line]) -> SQL {
        """
        -- name: saveCharges
        WITH told AS (SELECT * FROM unnest(
            \(charges.map(\.id))::text[],
            \(charges.map(\.entry.key.transactionID))::text[],
            \(charges.map(\.entry.key.sku))::text[],
            \(timestamps: charges.map(\.entry.key.occurredAt.milliseconds))::timestamptz[],
            \(timestamps: charges.map { $0.entry.terms?.expiresAt?.milliseconds })::timestamptz[],
            \(timestamps: charges.map { $0.entry.terms?.revokedAt?.milliseconds })::timestamptz[],
            \(charges.map { $0.entry.terms?.price ?? 0 })::bigint[],
            \(charges.map { $0.entry.terms?.quantity ?? 1 })::bigint[],
            \(charges.map(\.entry.currency))::text[],
            \(texts: charges.map(\.entry.storefront))::text[],
            \(bools: charges.map { $0.entry.terms?.isOffer ?? false })::boolean[],
            \(bools: charges.map { $0.entry.terms?.isPurchase ?? false })::boolean[],
            \(bools: charges.map { $0.entry.terms?.isAddedSeat ?? false })::boolean[],
            \(bools: charges.map { $0.entry.terms?.isRelisted ?? false })::boolean[],
            \(texts: charges.map { $0.entry.terms?.period })::text[]
        ) AS t (id, transaction_id, sku, purchased_at, expires_at, revoked_at, price, quantity, currency, storefront,
            is_offer, is_purchase, is_added_seat, is_relisted, period)
        ), \(fragment: VersionQueries.instant), former AS (
            INSERT INTO repricer.charge_versions
            SELECT h.*, \(fragment: VersionQueries.now) FROM told t
            JOIN repricer.charges h ON h.original_transaction_id = t.id AND h.transaction_id = t.transaction_id
                AND h.sku = t.sku AND \(fragment: Bucket.isThat(of: charges.lazy.map(\.id), "h.bucket"))
            WHERE (h.purchased_at, h.expires_at, h.revoked_at, h.price_milliunits, h.quantity, h.currency, h.storefront,
                    h.is_offer, h.is_purchase, h.is_added_seat, h.is_relisted, h.period)
                IS DISTINCT FROM (t.purchased_at, t.expires_at, t.revoked_at, t.price, t.quantity, t.currency, t.storefront,
                    t.is_offer, t.is_purchase, t.is_added_seat, t.is_relisted, t.period)
            ON CONFLICT DO NOTHING
        )
        INSERT INTO repricer.charges AS known
            (original_transaction_id, transaction_id, sku, purchased_at, expires_at, revoked_at, price_milliunits, quantity,
             currency, storefront, is_offer, is_purchase, is_added_seat, is_relisted, period, bucket, recorded_at)
        SELECT t.*, repricer.bucket_of(t.id), \(fragment: VersionQueries.now) FROM told t
        ON CONFLICT (original_transaction_id, transaction_id, sku, bucket) DO UPDATE
            SET purchased_at = EXCLUDED.purchased_at, expires_at = EXCLUDED.expires_at,
                revoked_at = EXCLUDED.revoked_at,
                price_milliunits = EXCLUDED.price_milliunits, quantity = EXCLUDED.quantity,
                currency = EXCLUDED.currency, storefront = EXCLUDED.storefront,
                is_offer = EXCLUDED.is_offer, is_purchase = EXCLUDED.is_purchase,
                is_added_seat = EXCLUDED.is_added_seat, is_relisted = EXCLUDED.is_relisted,
                period = EXCLUDED.period,
                recorded_at = EXCLUDED.recorded_at
            WHERE (known.purchased_at, known.expires_at, known.revoked_at, known.price_milliunits, known.quantity,
                    known.currency, known.storefront, known.is_offer, known.is_purchase, known.is_added_seat, known.is_relisted,
                    known.period)
                IS DISTINCT FROM (EXCLUDED.purchased_at, EXCLUDED.expires_at, EXCLUDED.revoked_at,
                    EXCLUDED.price_milliunits, EXCLUDED.quantity, EXCLUDED.currency, EXCLUDED.storefront,
                    EXCLUDED.is_offer, EXCLUDED.is_purchase,
                    EXCLUDED.is_added_seat, EXCLUDED.is_relisted, EXCLUDED.period)
        """
    }

    /// Deletes charges that were stored under another name of their item. A late statement may show that the item was
    /// renamed, that it was not, or which items the transaction had listed before.
    private static func dropCharges(_ charges: [Line], _ renamed: [SubscriptionFold]) -> SQL {
        let ids = renamed.map(\.state.facts.originalTransactionID)
        return """
            -- name: dropCharges
            WITH told AS (SELECT * FROM unnest(
                \(charges.map(\.id))::text[], \(charges.map(\.entry.key.transactionID))::text[],
                \(charges.map(\.entry.key.sku))::text[]
            ) AS t (id, transaction_id, sku)
            ), \(fragment: VersionQueries.instant), gone AS (
                DELETE FROM repricer.charges h
                USING unnest(\(ids)::text[], \(timestamps: renamed.map { $0.checkpoint?.moneySince.milliseconds })::timestamptz[])
                    AS b (id, since)
                WHERE h.original_transaction_id = b.id AND \(fragment: Bucket.isThat(of: ids, "h.bucket"))
                    AND (b.since IS NULL OR h.purchased_at >= b.since)
                    AND EXISTS (
                        SELECT FROM told t WHERE t.id = b.id AND t.transaction_id = h.transaction_id)
                    AND NOT EXISTS (
                        SELECT FROM told t WHERE t.id = b.id AND t.transaction_id = h.transaction_id AND t.sku = h.sku)
                RETURNING h.*
            )
            INSERT INTO repricer.charge_versions SELECT g.*, \(fragment: VersionQueries.now) FROM gone g ON CONFLICT DO NOTHING
            """
    }

    /// Stores the refunds of each charge, less their reversals, as the sum of the ledger's lines.
    private static func sumRefunds(_ ids: [String]) -> SQL {
        """
        -- name: sumRefunds
        WITH sums AS (
            SELECT h.original_transaction_id, h.bucket, h.transaction_id, h.sku,
                coalesce(-sum(e.amount_milliunits), 0)::bigint AS refunded
            FROM repricer.charges h
            LEFT JOIN repricer.money_entries e ON e.original_transaction_id = h.original_transaction_id
                AND e.bucket = h.bucket AND e.transaction_id = h.transaction_id AND e.sku = h.sku
                AND e.currency = h.currency AND e.kind <> 'charge'
            WHERE h.original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids, "h.bucket"))
            GROUP BY h.original_transaction_id, h.bucket, h.transaction_id, h.sku
        ), \(fragment: VersionQueries.instant), former AS (
            INSERT INTO repricer.charge_versions
            SELECT c.*, \(fragment: VersionQueries.now) FROM sums s
            JOIN repricer.charges c ON \(fragment: isSummed(ids))
            ON CONFLICT DO NOTHING
        )
        UPDATE repricer.charges c SET refunded_milliunits = s.refunded, recorded_at = \(fragment: VersionQueries.now)
        FROM sums s WHERE \(fragment: isSummed(ids))
        """
    }

    /// The condition that the charge `c` is that of the sum `s`, and stores another sum.
    private static func isSummed(_ ids: [String]) -> SQL {
        """
        c.original_transaction_id = s.original_transaction_id AND c.bucket = s.bucket
            AND c.transaction_id = s.transaction_id AND c.sku = s.sku AND c.refunded_milliunits <> s.refunded
            AND \(fragment: Bucket.isThat(of: ids, "c.bucket"))
        """
    }
}

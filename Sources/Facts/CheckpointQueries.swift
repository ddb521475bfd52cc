package import Postgres
package import Pricing

/// Checkpoints: folded states that replace the statements which retention drops.
package enum CheckpointQueries {
    package static func load(
        _ ids: [String], on connection: isolated PostgresConnection
    ) throws -> [String: FoldCheckpoint] {
        guard !ids.isEmpty else { return [:] }
        let rows = try connection.query(
            """
            -- name: loadCheckpoints
            SELECT * FROM repricer.subscription_checkpoints
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
            """)
        var checkpoints: [String: FoldCheckpoint] = [:]
        for row in rows {
            let stored = try SubscriptionQueries.read(row)
            let rest = try row.stored("rest") as StoredCheckpoint
            checkpoints[stored.facts.originalTransactionID] = FoldCheckpoint(
                before: Instant(milliseconds: try row.milliseconds("covers_before")),
                facts: stored.facts, increases: stored.increases, seenSKUs: stored.seenSKUs,
                foldedThrough: stored.foldedThrough, changes: rest.changes, money: rest.money,
                cancellations: rest.cancellations, reenabledAt: rest.reenabledAt,
                toldPeriods: rest.toldPeriods ?? [])
        }
        return checkpoints
    }

    /// Replaces the earlier checkpoints of these subscriptions, and notes the new ones in the rows of the
    /// subscriptions, whose locks the caller holds. All are of one bucket and one instant.
    package static func save(_ checkpoints: [FoldCheckpoint]) -> [SQL] {
        guard let before = checkpoints.first?.before.milliseconds else { return [] }
        let ids = checkpoints.map(\.facts.originalTransactionID)
        let states = checkpoints.map { checkpoint in
            var state = SubscriptionState(facts: checkpoint.facts, changes: [])
            state.increases = checkpoint.increases
            state.seenSKUs = checkpoint.seenSKUs
            state.foldedThrough = checkpoint.foldedThrough
            return state
        }
        return [
            """
            -- name: putCheckpoints
            INSERT INTO repricer.subscription_checkpoints (original_transaction_id, bucket, covers_before, rest)
            SELECT t.id, repricer.bucket_of(t.id), \(timestamp: before)::timestamptz, t.rest
            FROM unnest(\(ids)::text[], \(jsons: checkpoints.map { StoredJSON.text(StoredCheckpoint($0)) })::jsonb[]) AS t (id, rest)
            ON CONFLICT (original_transaction_id, bucket) DO UPDATE
                SET covers_before = excluded.covers_before, rest = excluded.rest
            """,
            """
            -- name: saveCheckpoints
            UPDATE repricer.subscription_checkpoints s \(fragment: SubscriptionQueries.setting(states))
            """,
            """
            -- name: markCheckpoints
            UPDATE repricer.subscriptions SET checkpoint_at = \(timestamp: before)
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
            """,
        ]
    }

    /// The subscriptions that still have, in the inbox, a notification signed before the instant. It is not folded yet,
    /// or never will be.
    package static func waiting(
        _ ids: [String], before: Int64
    ) -> Question<Set<String>> {
        Question(
            """
            -- name: waitingBefore
            SELECT DISTINCT original_transaction_id FROM repricer.inbox
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
                AND coalesce(signed_at, received_at) < \(timestamp: before)
            """
        ) { Set(try $0.map { try $0.text("original_transaction_id") }) }
    }

    /// The types of statements that reports still need after their month was dropped: who left, failed to pay, came
    /// back or got money back.
    private static let marks = [
        "DID_CHANGE_RENEWAL_PREF", "DID_FAIL_TO_RENEW", "EXPIRED", "GRACE_PERIOD_EXPIRED",
        "OFFER_REDEEMED", "PRICE_INCREASE", "REFUND", "REFUND_REVERSED", "RENEWAL_EXTENDED",
        "REVOKE", "SUBSCRIBED",
    ]

    /// Whether a statement has one of these types, or says that a charge succeeded after it had failed.
    private static func isMark(_ table: SQL) -> SQL {
        """
        (\(fragment: table).type = ANY (\(marks)::text[])
            OR \(fragment: table).type = 'DID_RENEW' AND \(fragment: table).subtype = 'BILLING_RECOVERY')
        """
    }

    /// Whether a statement was the first to tell that the subscription began anew, after a charge before that. Where no
    /// statement tells of the purchase, this alone explains the renewals that followed.
    private static func tellsReturn(_ table: SQL) -> SQL {
        let start: SQL = "#>> '{renewal,recentSubscriptionStartAt}'"
        func isTold(before table: SQL, in others: SQL, as statement: SQL) -> SQL {
            """
            EXISTS (
                SELECT FROM \(fragment: others) o
                WHERE o.original_transaction_id = \(fragment: table).original_transaction_id
                    AND o.bucket = \(fragment: table).bucket
                    AND \(fragment: statement) \(fragment: start) = \(fragment: table).statement \(fragment: start)
                    AND (o.recorded_at, o.signed_at, o.evidence_id) < (\(fragment: table).recorded_at,
                        \(fragment: table).signed_at, \(fragment: table).evidence_id))
            """
        }
        return """
            (EXISTS (
                SELECT FROM repricer.charges h
                WHERE h.original_transaction_id = \(fragment: table).original_transaction_id
                    AND h.bucket = \(fragment: table).bucket AND h.purchased_at < to_timestamp(
                        (\(fragment: table).statement \(fragment: start))::bigint / 1000.0) - interval '1 minute')
                AND NOT \(fragment: isTold(before: table, in: "repricer.subscription_events", as: "o.statement"))
                AND NOT \(fragment: isTold(
                    before: table, in: "repricer.kept_statements", as: "coalesce(o.statement, o.renewal_told)")))
            """
    }

    /// The start of the paid period in a statement, unless a charge that was recorded by then shows it. It must be
    /// kept, because the checkpoint that replaces the statement does not say when the period was known. An added seat
    /// starts no period.
    private static func toldPeriod(_ table: SQL) -> SQL {
        let told: SQL =
            "to_timestamp((\(fragment: table).statement #>> '{transaction,purchasedAt}')::bigint / 1000.0)"
        return """
            CASE WHEN \(fragment: table).statement #>> '{transaction,details,additionalTransactionReason}'
                IS DISTINCT FROM 'SEAT_ADDITION' AND NOT EXISTS (
                SELECT FROM repricer.charges h
                WHERE h.original_transaction_id = \(fragment: table).original_transaction_id AND NOT h.is_added_seat
                    AND h.bucket = \(fragment: table).bucket AND h.purchased_at >= \(fragment: told)
                    AND h.recorded_at <= \(fragment: table).recorded_at) THEN \(fragment: told) END
            """
    }

    /// Keeps what reports need from the statements that a checkpoint of these subscriptions replaces. A subscription
    /// without a change of ours or a dependent of one is left out, because reports do not need it. The exception is a
    /// statement with an ignored part: its money is in no sum, and a report lists it.
    package static func keepMarks(_ ids: [String], before: Int64) -> [SQL] {
        guard !ids.isEmpty else { return [] }
        return [
            """
            -- name: keepMarks
            INSERT INTO repricer.kept_statements (original_transaction_id, bucket, signed_at, evidence_id, source, type,
                subtype, recorded_at, told_period_at, tells_end, left_out, status, renewal_told)
            SELECT e.original_transaction_id, e.bucket, e.signed_at, e.evidence_id, e.source, e.type, e.subtype,
                e.recorded_at, e.told_period_at, coalesce(repricer.tells_end(e.statement), false), e.statement -> 'ignored',
                e.statement ->> 'status', repricer.renewal_told(e.statement)
            FROM (
                SELECT t.*, \(fragment: toldPeriod("t")) AS told_period_at FROM repricer.subscription_events t
                WHERE t.original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids, "t.bucket"))
                    AND t.signed_at < \(timestamp: before)) e
            WHERE (\(fragment: isMark("e")) OR e.told_period_at IS NOT NULL OR e.statement -> 'ignored' IS NOT NULL
                    OR \(fragment: tellsReturn("e")))
                AND (e.statement -> 'ignored' IS NOT NULL OR EXISTS (
                    SELECT FROM repricer.price_changes c
                    WHERE c.original_transaction_id = e.original_transaction_id AND c.bucket = e.bucket)
                OR EXISTS (
                    SELECT FROM repricer.dependent_claims d
                    WHERE d.original_transaction_id = e.original_transaction_id AND d.bucket = e.bucket))
            ON CONFLICT DO NOTHING
            """,
            """
            -- name: keepMarksOnly
            UPDATE repricer.kept_statements k SET statement = NULL, told_period_at = \(fragment: toldPeriod("k")),
                tells_end = coalesce(repricer.tells_end(statement), false), left_out = statement -> 'ignored',
                status = statement ->> 'status', renewal_told = repricer.renewal_told(statement)
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
                AND signed_at < \(timestamp: before) AND statement IS NOT NULL
                AND (\(fragment: isMark("k")) OR \(fragment: toldPeriod("k")) IS NOT NULL
                    OR statement -> 'ignored' IS NOT NULL OR \(fragment: tellsReturn("k")))
            """,
            """
            -- name: dropCarried
            DELETE FROM repricer.kept_statements
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
                AND signed_at < \(timestamp: before) AND statement IS NOT NULL
            """,
        ]
    }

    /// Keeps the whole statements of subscriptions that cannot have a checkpoint yet.
    package static func carry(_ ids: [String], before: Int64) -> [SQL] {
        guard !ids.isEmpty else { return [] }
        return [
            """
            -- name: carryStatements
            INSERT INTO repricer.kept_statements
                (original_transaction_id, bucket, signed_at, evidence_id, source, type, subtype, statement, recorded_at,
                 left_out)
            SELECT original_transaction_id, bucket, signed_at, evidence_id, source, type, subtype, statement, recorded_at,
                statement -> 'ignored'
            FROM repricer.subscription_events
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
                AND signed_at < \(timestamp: before)
            ON CONFLICT (original_transaction_id, signed_at, evidence_id, bucket) DO UPDATE
                SET statement = excluded.statement, recorded_at = excluded.recorded_at, left_out = excluded.left_out
            """
        ]
    }

    /// Deletes statements in the default partition, which dropping a month's partition does not remove.
    package static func dropStrays(_ ids: [String], before: Int64) -> [SQL] {
        guard !ids.isEmpty else { return [] }
        return [
            """
            -- name: dropStrayStatements
            DELETE FROM repricer.subscription_events_default
            WHERE original_transaction_id = ANY (\(ids)::text[]) AND \(fragment: Bucket.isThat(of: ids))
                AND signed_at < \(timestamp: before)
            """
        ]
    }
}

package import Postgres

/// Events for other programs: rows of `repricer.outbox` in the shape that Debezium's outbox router reads, and how far
/// each webhook has come.
package enum OutboxQueries {
    /// The value of `aggregatetype`: the events of one subscription are in order.
    static let aggregateType = "subscription"

    /// The end of a statement whose CTE `moved` returns rows of `dependent_cancellations`. It writes an event for each,
    /// named after the state that it reached. The writer holds the locks of their subscriptions, so the events of one
    /// subscription get rising positions. An event waits as long as the one before it that waits for its next attempt.
    package static func tellDependents(of ids: [String]) -> SQL {
        """
        , told AS (
            INSERT INTO repricer.outbox (aggregateid, bucket, position, aggregatetype, type, payload)
            SELECT m.original_transaction_id, m.bucket,
                greatest(repricer.rate_clock(), (
                    SELECT max(o.position) + 1 FROM repricer.outbox o
                    WHERE o.aggregateid = m.original_transaction_id
                        AND \(fragment: Bucket.isThat(of: ids, "o.bucket"))))
                    + row_number() OVER (
                        PARTITION BY m.original_transaction_id ORDER BY m.change_id, m.dependent_sku) - 1,
                \(aggregateType), 'dependent_cancellation.' || m.state,
                jsonb_build_object(
                    'original_transaction_id', m.original_transaction_id, 'change_id', m.change_id,
                    'batch_id', m.batch_id, 'parent_sku', m.parent_sku,
                    'dependent_sku', CASE WHEN m.is_cross_subscription
                        THEN regexp_replace(m.dependent_sku, '^[0-9]+/', '') ELSE m.dependent_sku END,
                    'dependent_transaction_id', CASE WHEN m.is_cross_subscription
                        THEN m.target_transaction_id ELSE m.original_transaction_id END,
                    'cause', m.cause, 'state', m.state, 'lost_per_period_milliunits', m.price_milliunits,
                    'currency', m.currency, 'period', CASE WHEN m.is_cross_subscription THEN m.target_period
                        ELSE (SELECT c.period FROM repricer.price_changes c
                            WHERE c.original_transaction_id = m.original_transaction_id
                                AND c.change_id = m.change_id AND \(fragment: Bucket.isThat(of: ids, "c.bucket"))) END,
                    'requested_at', m.requested_at,
                    'requested_by_evidence', m.requested_by_evidence, 'settled_at', m.settled_at,
                    'settled_by_evidence', m.settled_by_evidence,
                    'cancel_reference_id', m.cancel_reference_id, 'detail', m.detail)
            FROM moved m
            RETURNING aggregateid, bucket, position
        )
        INSERT INTO repricer.webhook_deliveries (aggregateid, bucket, position, next_attempt_at)
        SELECT t.aggregateid, t.bucket, t.position, (
            SELECT max(w.next_attempt_at) FROM repricer.webhook_deliveries w
            WHERE w.aggregateid = t.aggregateid AND w.state = 'pending'
                AND \(fragment: Bucket.isThat(of: ids, "w.bucket")))
        FROM told t
        """
    }
}

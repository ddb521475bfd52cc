import Postgres
import TestSupport

/// A database that has seen much: its statistics say that looking for a subscription from end to end is dear.
enum LargeTables {
    static let rows = 10_000

    static func fill(_ connection: PostgresConnection) async throws {
        try await connection.script(script)
    }

    private static let script = """
        SET session_replication_role = replica;
        CREATE TEMP TABLE made AS SELECT i, i::text AS id, repricer.bucket_of(i::text) AS bucket,
            gen_random_uuid() AS change, timestamptz '2026-01-01' + i * interval '1 second' AS at
        FROM generate_series(1, \(rows)) AS i;
        INSERT INTO repricer.subscriptions (original_transaction_id, bucket) SELECT id, bucket FROM made;
        INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, line, sku,
            direction, currency, storefront, period, current_price_milliunits, new_price_milliunits,
            forecast_consent, forecast_effective_at, send_by, due_effective_at, state_since, state, is_ready)
        SELECT id, bucket, change, '00000000-0000-7000-8000-000000000001', i, 'A', 'increase', 'USD', 'USA',
            'P1M', 1, 2, 'required', at, at, at, at, CASE i % 4 WHEN 0 THEN 'scheduled' ELSE 'queued' END, true
        FROM made;
        INSERT INTO repricer.price_change_history (original_transaction_id, bucket, change_id, occurred_at,
            state, evidence_kind, evidence_id)
        SELECT id, bucket, change, at, 'queued', 'approval', 'e' FROM made;
        INSERT INTO repricer.store_calls (bucket, subject, call_id, kind, intent, carries, state, settled_at,
            lease_owner, lease_until, in_flight_until, prepared_at)
        SELECT bucket, id, change, 'price_change', '{}', ARRAY[change], 'answered', at, change, at, at, at
        FROM made;
        INSERT INTO repricer.subscription_events (original_transaction_id, bucket, signed_at, evidence_id,
            source, statement)
        SELECT id, bucket, at, 'e', 'notification', '{}' FROM made;
        INSERT INTO repricer.kept_statements (original_transaction_id, bucket, signed_at, evidence_id, source,
            statement, recorded_at)
        SELECT id, bucket, at, 'k', 'notification', '{}', at FROM made;
        INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at,
            price_milliunits, currency) SELECT id, bucket, id, 'A', at, 1, 'USD' FROM made;
        INSERT INTO repricer.money_entries SELECT id, bucket, id, 'A', 'charge', at, 0, 0, 1, 1, 'USD', 'USA', 'e'
        FROM made;
        INSERT INTO repricer.imported_increases SELECT id, bucket, 'A', '2025-01-01', 1, 2, 'USD', 1 FROM made;
        INSERT INTO repricer.notifications (notification_uuid, received_at, understood, signed_payload)
        SELECT id, at, true, 'p' FROM made;
        INSERT INTO repricer.notification_ids SELECT id, at FROM made;
        INSERT INTO repricer.inbox (original_transaction_id, bucket, notification_uuid, received_at, signed_at)
        SELECT id, bucket, id, at, at FROM made;
        INSERT INTO repricer.dependent_cancellations (original_transaction_id, bucket, change_id, dependent_sku,
            parent_sku, batch_id, cause, requested_at, requested_by_evidence)
        SELECT id, bucket, change, 'B', 'A', change, 'declined', at, 'e' FROM made;
        INSERT INTO repricer.dependency_roles SELECT id, bucket, 'A', 'parent', change FROM made;
        INSERT INTO repricer.dependent_claims SELECT id, bucket, 'A', id, change FROM made;
        INSERT INTO repricer.status_checks (original_transaction_id, bucket, reason, requested_at)
        SELECT id, bucket, 'silent', at FROM made;
        INSERT INTO repricer.renewal_extensions (original_transaction_id, bucket, evidence_id, told_at, outcome)
        SELECT id, bucket, 'e', at, 'extended' FROM made;
        INSERT INTO repricer.moved_renewals SELECT id, bucket, at FROM made;
        INSERT INTO repricer.extension_requests (original_transaction_id, bucket, extension_id, extend_by_days,
            reason_code, requested_by, requested_at)
        SELECT id, bucket, change, 1, 1, 'x', at FROM made;
        INSERT INTO repricer.outbox (aggregateid, bucket, position, aggregatetype, type, payload)
        SELECT id, bucket, 1, 's', 't', '{}' FROM made;
        INSERT INTO repricer.webhook_deliveries (aggregateid, bucket, position) SELECT id, bucket, 1 FROM made;
        SET session_replication_role = origin;
        ANALYZE
        """
}

import Postgres

/// Rows for the reports that nothing else of the fixture fills, so that each page of a report has its columns.
extension PagesFixture {
    package static func fillReports() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            UPDATE repricer.batches SET holdout_basis_points = 500 WHERE batch_id = '\(finished)';
            INSERT INTO repricer.kept_exceptions (original_transaction_id, bucket, change_id, batch_id, transaction_id, sku,
                exception, occurred_at, amount_milliunits, expected_milliunits, refunded_milliunits, currency, storefront)
            SELECT original_transaction_id, bucket, change_id, batch_id, original_transaction_id || '-9', sku, 'charges_other_price',
                '2026-03-20Z', new_price_milliunits + 1000, new_price_milliunits, 0, currency, storefront
            FROM repricer.price_changes WHERE state = 'effective' AND batch_id = '\(underWay)';
            INSERT INTO repricer.notifications (notification_uuid, received_at, signed_at, type, subtype, understood, unknown,
                signed_payload)
            VALUES ('told-1', '2026-03-31Z', '2026-03-31Z', 'PRICE_CHANGE', 'ACCEPTED', true, '{field:data.renewalInfo.newField}', 'x'),
                ('told-2', '2026-03-31Z', '2026-03-31Z', 'SOMETHING_NEW_\(script)', NULL, false, '{type:SOMETHING_NEW}', 'x');
            INSERT INTO repricer.mass_extensions (extension_id, product_id, storefronts, extend_by_days, reason_code, note,
                eligible_count, state, submitted_by, submitted_at, decided_by, decided_at, called_at, completed_at, status_succeeded,
                status_failed, detail)
            VALUES ('00000000-0000-7000-8000-0000000000e1', 'com.example.bundle', '{DEU,USA}', 14, 2, 'outage', 1200, 'complete',
                'ana', '2026-03-01Z', 'ben', '2026-03-02Z', '2026-03-02Z', '2026-03-03Z', 1190, 10, 'the summary came late \(script)');
            INSERT INTO repricer.extension_requests (original_transaction_id, bucket, extension_id, extend_by_days, reason_code, note,
                state, requested_by, requested_at, called_at, renewal_before, effective_at, settled_at, settled_by)
            SELECT original_transaction_id, bucket, '00000000-0000-7000-8000-0000000000e2', 7, 1, 'asked for', 'extended', 'ana',
                '2026-03-01Z', '2026-03-01Z', '2026-04-10Z', '2026-04-17Z', '2026-03-02Z', 'notification'
            FROM repricer.subscriptions WHERE original_transaction_id = '\(subscription)';
            SELECT report.close_month('2026-03', '2026-04-01Z');
            """)
        await connection.close()
    }
}

import Postgres

/// A small harness for the views: one batch in every kind of state, with charges worked out by hand.
enum ReportFixture {
    static let batch = "00000000-0000-7000-8000-00000000000a"
    static let otherBatch = "00000000-0000-7000-8000-00000000000b"
    /// 2026-06-01T00:00:00Z.
    static let asOf: Int64 = 1_780_272_000_000

    static func batchSQL(
        _ id: String, name: String, rows: Int, refused: Int = 0
    ) -> String {
        """
        INSERT INTO repricer.batches (batch_id, name, state, content_sha256, plan_hash,
            planned_as_of, row_count, rejected_row_count, submitted_by, submitted_at, decided_by,
            decided_at)
        VALUES ('\(id)', '\(name)', 'approved', '\(id)', 'h', '2026-01-01Z', \(rows), \(refused),
            'alice', '2026-01-01Z', 'bob', '2026-01-02Z');
        """
    }

    struct Change {
        var subscription: String
        var batch = ReportFixture.batch
        var line: Int
        var old: Int
        var new: Int
        var consent: String
        var place = "('USD', 'USA', 'P1M')"
        var state: String
        var dependents = "{}"
        var asked: String?
        var acceptance: String?
        var effective: String?
        var due = "2026-03-01Z"

        var changeID: String {
            let digits = String(line)
            return "00000000-0000-7000-8000-" + String(repeating: "0", count: 12 - digits.count)
                + digits
        }

        var sql: String {
            """
            INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, line,
                sku, direction, current_price_milliunits, new_price_milliunits, dependent_skus,
                forecast_consent, forecast_effective_at, send_by, due_effective_at, state,
                sent_at, consent_asked_at, acceptance, effective_at, state_since, submitted_by,
                currency, storefront, period)
            SELECT '\(subscription)', repricer.bucket_of('\(subscription)'), '\(changeID)', '\(batch)', \(line), 'PLAN',
                '\(new > old ? "increase" : "decrease")', \(old), \(new), '\(dependents)',
                '\(consent)', '2026-03-01Z', '2026-02-01Z', '\(due)', '\(state)',
                \(state == "queued" ? "NULL" : "'2026-01-03Z'"), \(quoted(asked)),
                \(quoted(acceptance)), \(quoted(effective)), '2026-01-03Z', 'alice', p.*
            FROM (VALUES \(place)) AS p;
            """
        }

        private func quoted(_ text: String?) -> String {
            text.map { "'\($0)'" } ?? "NULL"
        }
    }

    static func charge(
        _ subscription: String, _ day: String, _ price: Int, currency: String = "USD",
        isRevoked: Bool = false
    ) -> String {
        """
        INSERT INTO repricer.charges (original_transaction_id, bucket, transaction_id, sku, purchased_at,
            price_milliunits, currency, refunded_milliunits)
        VALUES ('\(subscription)', repricer.bucket_of('\(subscription)'),
            '\(subscription)-\(day)', 'PLAN',
            '\(day)', \(price), '\(currency)', \(isRevoked ? price : 0));
        """
    }

    static let everyState: String = {
        let changes = [
            Change(
                subscription: "1", line: 2, old: 9990, new: 12990, consent: "required",
                state: "effective", asked: "2026-01-10Z", acceptance: "consented",
                effective: "2026-03-01Z"),
            Change(
                subscription: "2", line: 3, old: 4990, new: 5990, consent: "not_required",
                state: "effective", acceptance: "informed", effective: "2026-03-05Z"),
            Change(
                subscription: "3", line: 4, old: 1_000_000, new: 1_500_000, consent: "required",
                place: "('JPY', 'JPN', 'P1Y')", state: "declined", dependents: "{EXTRA}",
                asked: "2026-01-10Z"),
            Change(
                subscription: "4", line: 5, old: 2990, new: 1990, consent: "none",
                place: "('USD', 'USA', 'P1W')", state: "effective", effective: "2026-03-01Z"),
            Change(
                subscription: "5", line: 6, old: 5000, new: 9000, consent: "not_required",
                place: "('EUR', 'DEU', 'P1M')", state: "pending_consent", asked: "2026-05-10Z",
                due: "2026-07-01Z"),
            Change(
                subscription: "6", line: 7, old: 5000, new: 6000, consent: "not_required",
                place: "('EUR', 'DEU', 'P1M')", state: "accepted", acceptance: "informed",
                due: "2026-05-01Z"),
            Change(
                subscription: "7", line: 8, old: 5000, new: 6000, consent: "not_required",
                place: "('EUR', 'DEU', 'P1M')", state: "queued", due: "2026-08-01Z"),
            Change(
                subscription: "8", line: 9, old: 3990, new: 4990, consent: "not_required",
                state: "cancelled"),
        ]
        return batchSQL(batch, name: "spring", rows: 8, refused: 1)
            + "INSERT INTO repricer.batch_rejects VALUES ('\(batch)', 10, '9', 'PLAN', 'bad_sku', 'm');"
            + changes.map(\.sql).joined()
            + charge("1", "2026-02-01Z", 9990) + charge("1", "2026-03-01Z", 12990)
            + charge("1", "2026-04-01Z", 12990)
            + charge("1", "2026-05-01Z", 12990, isRevoked: true)
            + charge("2", "2026-03-05Z", 5990)
            + charge("4", "2026-03-01Z", 1990) + charge("4", "2026-03-08Z", 1990)
                + """
                INSERT INTO repricer.dependent_cancellations (original_transaction_id, bucket, change_id,
                    dependent_sku, parent_sku, batch_id, cause, state, price_milliunits, currency,
                    requested_at, requested_by_evidence, settled_at, settled_by_evidence)
                SELECT '3', repricer.bucket_of('3'), change_id, 'EXTRA', 'PLAN', batch_id, 'declined', 'confirmed', 500000,
                    'JPY', '2026-03-01Z', 'e1', '2026-03-02Z', 'e2'
                FROM repricer.price_changes WHERE original_transaction_id = '3';
                """
    }()

    /// What a function of the database says of the moves of `batch`: month, cause, opening, closing and price effect.
    static func moves(
        _ source: String, at instant: String, on owner: PostgresConnection
    ) async throws -> String {
        try await owner.query(
            """
            SELECT coalesce(string_agg(concat_ws(' ', month, cause, opening, closing, effect), '; ' ORDER BY month, cause), '')
                AS moves
            FROM (SELECT month, cause, sum(opening) AS opening, sum(closing) AS closing, sum(price_effect) AS effect
                FROM repricer.\(unsafe: source)('\(unsafe: instant)', '\(unsafe: batch)')
                GROUP BY 1, 2 HAVING sum(opening) <> 0 OR sum(closing) <> 0 OR sum(price_effect) <> 0) m
            """
        ).one().text("moves")
    }
}

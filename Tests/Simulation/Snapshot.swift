import Foundation
import Postgres

/// What the database says at the end, as JSON for the auditor: tables and reports as they stand.
enum Snapshot {
    private static let analysedFrom = 200
    private static let questions: [(name: String, sql: String)] = [
        (
            "changes",
            """
            SELECT change_id, batch_id, line, original_transaction_id AS id, sku, current_sku, dependent_skus, undoes_change_id AS undoes,
                current_price_milliunits AS old_price, new_price_milliunits AS price, currency, direction, state, reason,
                request_reference_id AS reference, acceptance, parked_reason, is_ready, is_held, wave, at(send_after) AS send_after,
                at(send_by) AS send_by, at(sent_at) AS sent_at,
                at(doubtful_since) AS doubtful_since, at(effective_at) AS effective_at, at(ended_at) AS ended_at,
                at(coalesce(planned_effective_at, due_effective_at)) AS planned_at, at(due_effective_at) AS due_at
            FROM repricer.price_changes ORDER BY batch_id, line
            """
        ),
        (
            "batches",
            """
            SELECT batch_id, state, row_count, rejected_row_count, is_paused, halted_by
            FROM repricer.batches ORDER BY submitted_at
            """
        ),
        (
            "summaries",
            "SELECT * FROM report.batch_summary"
        ),
        (
            "calls",
            """
            SELECT call_id, kind, subject, carries, state, attempts, http_status, error_code, is_reopened, is_doubtful
            FROM repricer.store_calls
            """
        ),
        (
            "dependents",
            """
            SELECT original_transaction_id AS id, change_id, dependent_sku, parent_sku, is_cross_subscription AS is_cross,
                target_transaction_id AS target, state, at(requested_at) AS requested_at, detail
            FROM repricer.dependent_cancellations
            """
        ),
        (
            "extensions",
            """
            SELECT original_transaction_id AS id, extension_id, mass_extension_id, call_id, extend_by_days AS days, state,
                at(effective_at) AS effective_at, code FROM repricer.extension_requests
            """
        ),
        ("masses", "SELECT extension_id, state, code FROM repricer.mass_extensions"),
        (
            "subscriptions",
            """
            SELECT original_transaction_id AS id, status, auto_renews, storefront, at(expires_at) AS expires_at
            FROM repricer.subscriptions
            """
        ),
        (
            "money",
            """
            SELECT original_transaction_id AS id, transaction_id AS transaction, sku, kind, amount_milliunits AS amount,
                currency, at(occurred_at) AS at, change_id, explained_as FROM report.money
            """
        ),
        (
            "exceptions",
            """
            SELECT original_transaction_id AS id, transaction_id AS transaction, sku, exception, change_id
            FROM report.charge_exception
            """
        ),
        (
            "forecasts",
            """
            SELECT change_id, batch_id, direction, forecast_consent AS consent, forecast_threshold_source AS source,
                forecast_reasons AS reasons, forecast_not_known AS not_known, at(forecast_effective_at) AS at,
                period, storefront, at(planned_effective_at) AS planned_at, at(due_effective_at) AS due_at,
                coalesce(moved_before_call, moved_since_call) AS slip,
                at((SELECT b.submitted_at FROM repricer.batches b WHERE b.batch_id = c.batch_id)) AS submitted_at,
                jsonb_path_query_array(forecast_rules,
                    '$[*] ? (@.rule == "increase_within_12_months").inputs.because') ->> 0 AS because
            FROM repricer.price_changes c WHERE undoes_change_id IS NULL
            """
        ),
        ("accuracy", "SELECT * FROM report.forecast_accuracy"),
        ("bridge", "SELECT * FROM report.revenue_bridge ORDER BY month"),
        ("audit", "SELECT count(*) AS lines FROM repricer.audit_trail"),
    ]

    /// `{"changes":[…],…}`
    static func json(_ database: SimulationDatabase) async throws -> String {
        let connection = try await PostgresConnection.connect(
            database.url(), applicationName: "snapshot")
        try await connection.script(
            """
            CREATE SCHEMA snapshot;
            CREATE FUNCTION snapshot.at(timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE
                AS 'SELECT (extract(epoch FROM $1) * 1000)::bigint';
            SET search_path = snapshot;
            """)
        // The reports of a small world need no statistics, which cost as much as a tenth of its life.
        let count = try await connection.query("SELECT count(*) AS n FROM repricer.subscriptions")
            .one().int("n")
        if count > analysedFrom { try await connection.script("ANALYZE") }
        var parts: [String] = []
        for (name, sql) in questions {
            let text = try await connection.query(
                "SELECT coalesce(json_agg(q), '[]')::text AS rows FROM (\(unsafe: sql)) q"
            ).one().text("rows")
            parts.append("\"\(name)\":\(text)")
        }
        await connection.close()
        return "{" + parts.joined(separator: ",") + "}"
    }
}

import Foundation
package import Postgres
package import Pricing

/// What a submission stores: the rows that can go, the parts their SKUs play, and the rows refused.
package enum SubmissionQueries {
    /// A change as submitted, with its forecast. Money in milliunits.
    package struct NewChange: Sendable, Encodable {
        var original_transaction_id: String
        var change_id: String
        var line: Int
        var sku: String
        var direction: String
        var currency: String
        var storefront: String
        var period: String
        var current_price_milliunits: Int64
        var new_price_milliunits: Int64
        var dependent_skus: [String]
        var expected_price_milliunits: Int64?
        var effective_on_or_after: String?
        var forecast_consent: String
        var forecast_reasons: [String]
        var forecast_threshold_source: String?
        var forecast_rules: String
        var forecast_renewal_at: String?
        var forecast_notice_at: String?
        var forecast_effective_at: String
        var send_after: String?
        var send_by: String

        /// nil for a row that can't go.
        package init?(_ plan: PlanRow, changeID: String) {
            guard plan.fault == nil, let direction = plan.direction, let currency = plan.currency,
                let storefront = plan.storefront, let period = plan.period,
                let currentPrice = plan.currentPrice, let newPrice = plan.newPrice,
                let consent = plan.consent, let effectiveAt = plan.effectiveAt,
                let sendBy = plan.sendBy
            else { return nil }
            original_transaction_id = plan.originalTransactionID
            change_id = changeID
            line = plan.line
            sku = plan.sku
            self.direction = direction.rawValue
            self.currency = currency
            self.storefront = storefront
            self.period = period
            current_price_milliunits = currentPrice
            new_price_milliunits = newPrice
            dependent_skus = plan.dependentSKUs
            expected_price_milliunits = plan.expectedPrice
            effective_on_or_after = plan.effectiveOnOrAfter?.text
            forecast_consent = consent.rawValue
            forecast_reasons = plan.reasons.map(\.rawValue)
            forecast_threshold_source = plan.thresholdSource?.rawValue
            forecast_rules = plan.rulesJSON
            forecast_renewal_at = plan.renewalAt?.text
            forecast_notice_at = plan.noticeAt?.text
            forecast_effective_at = effectiveAt.text
            send_after = plan.sendAfter?.text
            self.send_by = sendBy.text
        }
    }

    /// Stores changes with the parts that their SKUs play. The database's own keys refuse a second open change
    /// of an item, and a dependent that is shared, chained or its own parent.
    package static func insert(
        _ changes: [NewChange], batchID: String, at: Instant
    ) throws -> [SQL] {
        let rows = try JSONText.encode(changes)
        return [
            """
            -- name: insertChanges
            INSERT INTO repricer.price_changes (original_transaction_id, change_id, batch_id, line, sku,
                direction, currency, storefront, period, current_price_milliunits,
                new_price_milliunits, dependent_skus, expected_price_milliunits,
                effective_on_or_after, forecast_consent, forecast_reasons, forecast_threshold_source,
                forecast_rules, forecast_renewal_at, forecast_notice_at, forecast_effective_at,
                send_after, send_by, due_effective_at, state_since)
            SELECT r.original_transaction_id, r.change_id, \(uuid: batchID), r.line, r.sku,
                r.direction, r.currency, r.storefront, r.period, r.current_price_milliunits,
                r.new_price_milliunits, r.dependent_skus, r.expected_price_milliunits,
                r.effective_on_or_after, r.forecast_consent, r.forecast_reasons,
                r.forecast_threshold_source, r.forecast_rules::jsonb, r.forecast_renewal_at,
                r.forecast_notice_at, r.forecast_effective_at, r.send_after, r.send_by,
                r.forecast_effective_at, \(timestamp: at.milliseconds)
            FROM jsonb_to_recordset(\(json: rows)) AS r (
                original_transaction_id text, change_id uuid, line bigint, sku text, direction text,
                currency text, storefront text, period text, current_price_milliunits bigint,
                new_price_milliunits bigint, dependent_skus text[], expected_price_milliunits bigint,
                effective_on_or_after date, forecast_consent text, forecast_reasons text[],
                forecast_threshold_source text, forecast_rules text, forecast_renewal_at timestamptz,
                forecast_notice_at timestamptz, forecast_effective_at timestamptz,
                send_after timestamptz, send_by timestamptz)
            """,
            """
            -- name: insertRoles
            INSERT INTO repricer.dependency_roles (original_transaction_id, sku, role, change_id)
            SELECT r.original_transaction_id, r.sku, 'parent', r.change_id
            FROM jsonb_to_recordset(\(json: rows)) AS r (
                original_transaction_id text, change_id uuid, sku text, dependent_skus text[])
            WHERE cardinality(r.dependent_skus) > 0
            UNION ALL
            SELECT r.original_transaction_id, unnest(r.dependent_skus), 'dependent', r.change_id
            FROM jsonb_to_recordset(\(json: rows)) AS r (
                original_transaction_id text, change_id uuid, dependent_skus text[])
            """,
            """
            -- name: insertSubmittedHistory
            INSERT INTO repricer.price_change_history
                (original_transaction_id, change_id, occurred_at, state, evidence_kind, evidence_id)
            SELECT r.original_transaction_id, r.change_id, \(timestamp: at.milliseconds),
                'awaiting_approval', 'submission', \(batchID)::text
            FROM jsonb_to_recordset(\(json: rows)) AS r (
                original_transaction_id text, change_id uuid)
            """,
        ]
    }

    /// Keeps the refused rows of a batch that was submitted all the same.
    package static func insertRejects(_ rows: [PlanRow], batchID: String) -> SQL {
        let refused = rows.filter { $0.fault != nil }
        return """
            -- name: insertRejects
            INSERT INTO repricer.batch_rejects
                (batch_id, line, original_transaction_id, sku, code, message)
            SELECT \(uuid: batchID), * FROM unnest(
                \(refused.map { Int64($0.line) })::bigint[],
                \(refused.map(\.originalTransactionID))::text[],
                \(refused.map(\.sku))::text[],
                \(refused.map { $0.code?.rawValue ?? "" })::text[],
                \(refused.map { $0.fault?.message ?? "" })::text[])
            """
    }
}

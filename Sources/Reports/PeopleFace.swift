import Pricing

// What people see: names without units, money in the currency's decimals, rates in per cent.

extension ReportName {
    /// The heading of the report.
    package var title: String {
        switch self {
        case .batchSummary: "Batches"
        case .priceChange: "Price changes"
        case .consentFunnel: "Consent funnel"
        case .revenueImpact: "Revenue impact"
        case .pendingConsent: "Consent pending"
        case .upcomingEffective: "Coming into effect"
        case .dependentCancellation: "Cancelled dependents"
        case .forecastAccuracy: "Forecast against fact"
        case .reconciliation: "Reconciliation"
        case .notificationHealth: "Notifications"
        case .unknownPart: "Unknown parts"
        case .renewalExtension: "Renewal-date extensions"
        }
    }

    /// One record below the other instead of one a line: many columns, few rows.
    var isInRecords: Bool { self == .batchSummary }

    /// Columns that a table leaves to CSV and JSON.
    var hiddenFromPeople: Set<String> {
        switch self {
        case .batchSummary: []
        case .priceChange:
            [
                "batch_id", "change_id", "difference_milliunits", "effective_on_or_after",
                "forecast_reasons", "forecast_threshold_source", "forecast_renewal_at",
                "forecast_notice_at", "send_after_at", "send_by_at", "due_effective_at", "is_final",
                "request_reference_id", "sent_at", "scheduled_at", "consent_asked_at",
                "accepted_at",
                "ended_at", "state_since_at", "first_charged_at", "dependent_skus",
            ]
        case .revenueImpact:
            [
                "batch_id", "old_per_period_milliunits", "new_per_period_milliunits",
                "declined_lost_per_period_milliunits", "cancelled_lost_per_period_milliunits",
                "dependent_lost_per_period_milliunits", "charged_changes",
            ]
        case .dependentCancellation:
            ["batch_id", "change_id", "requested_by_evidence", "settled_by_evidence"]
        case .pendingConsent, .upcomingEffective: ["batch_id", "change_id"]
        case .consentFunnel, .forecastAccuracy, .reconciliation: ["batch_id"]
        case .notificationHealth, .unknownPart: []
        case .renewalExtension:
            [
                "retry_of", "reason_code", "requested_at", "approved_at", "called_at",
                "eligible_forecast", "retried", "retried_extended", "renewal_before_at", "code",
                "storefronts",
            ]
        }
    }
}

extension ReportColumn {
    var isMoney: Bool { kind == .integer && name.hasSuffix("_milliunits") }
    var isRate: Bool { kind == .integer && name.hasSuffix("_basis_points") }

    /// The name without its unit.
    var heading: String {
        for unit in ["_milliunits", "_basis_points"] where name.hasSuffix(unit) {
            return String(name.dropLast(unit.count)) + (isRate ? "_%" : "")
        }
        return name
    }
}

extension ReportTable {
    /// The columns of a table for people, as indexes.
    var shownColumns: [Int] {
        columns.indices.filter { !name.hiddenFromPeople.contains(columns[$0].name) }
    }

    /// A cell as people read it; empty for NULL.
    func shown(_ row: [String?], _ index: Int) -> String {
        guard index < row.count, let cell = row[index] else { return "" }
        let column = columns[index]
        if column.isRate, let points = Int64(cell) {
            return PriceText.decimal(points.multipliedClamped(by: 10))
        }
        if column.isMoney, let milliunits = Int64(cell) {
            return money(milliunits, currency: self.cell(row, "currency"))
        }
        if column.kind == .boolean { return cell == "true" ? "yes" : "no" }
        return cell
    }
}

/// `12.99`, `310` for a currency without decimals; three decimals where nobody knows the currency.
func money(_ milliunits: Int64, currency: String?) -> String {
    PriceText.decimal(milliunits, decimals: currency.flatMap { appleDecimals[$0] } ?? 3)
}

private let appleDecimals: [String: Int] = Dictionary(
    Currency.apple.map { ($0.code, $0.decimals) }, uniquingKeysWith: { first, _ in first })

extension Int64 {
    func multipliedClamped(by factor: Int64) -> Int64 {
        let (product, isOver) = multipliedReportingOverflow(by: factor)
        return isOver ? (signum() * factor.signum() < 0 ? .min : .max) : product
    }

    func addedClamped(_ other: Int64) -> Int64 {
        let (sum, isOver) = addingReportingOverflow(other)
        return isOver ? (other < 0 ? .min : .max) : sum
    }
}

/// `2026-12-01T00:00:00Z`.
func instantText(_ milliseconds: Int64) -> String {
    Instant(milliseconds: milliseconds).text
}

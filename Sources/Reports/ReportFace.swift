/// How a report is presented: what people see of it, and in which order.
struct ReportFace {
    let title: String
    /// The order of the rows. It is total, so that the same facts print the same report.
    let order: String
    var hasBatches = true
    /// The columns that only CSV and JSON have.
    var hidden: Set<String> = ["batch_id"]
    /// The columns that can be added up over the rows of a currency. Prices a period cannot, because periods differ.
    var totals: Set<String> = []
}

extension ReportName {
    var face: ReportFace {
        switch self {
        case .batchSummary:
            ReportFace(title: "Batches", order: "submitted_at, batch_id", hidden: [])
        case .priceChange: .priceChange
        case .consentFunnel: .consentFunnel
        case .revenueImpact: .revenueImpact
        case .pendingConsent:
            ReportFace(
                title: "Consent pending",
                order: "consent_due_at, original_transaction_id, change_id",
                hidden: ["batch_id", "change_id"])
        case .upcomingEffective:
            ReportFace(
                title: "Coming into effect",
                order: "due_effective_at, original_transaction_id, change_id",
                hidden: ["batch_id", "change_id"])
        case .dependentCancellation:
            ReportFace(
                title: "Cancelled dependents",
                order: "requested_at, original_transaction_id, change_id, dependent_sku",
                hidden: ["batch_id", "change_id", "requested_by_evidence", "settled_by_evidence"])
        case .forecastAccuracy: .forecastAccuracy
        case .money: .money
        case .chargeException: .chargeException
        case .closedPeriod:
            ReportFace(
                title: "Closed months", order: "month, currency, batch_name, batch_id, kind")
        case .revenueBridge:
            ReportFace(
                title: "What brought a month's revenue to the next",
                order: "batch_name, batch_id, currency, storefront, month")
        case .revenueBridgeTotal:
            ReportFace(
                title: "What brought a month's revenue to the next, in one currency",
                order: "batch_name, batch_id, month")
        case .revenueAtRisk: .revenueAtRisk
        case .holdout:
            ReportFace(
                title: "Sent against held out",
                order: "batch_name, batch_id, forecast_consent DESC")
        case .reconciliation:
            ReportFace(
                title: "Reconciliation", order: "batch_name NULLS LAST, batch_id, check_name")
        case .notificationHealth:
            ReportFace(
                title: "Notifications", order: "type, subtype", hasBatches: false, hidden: [])
        case .unknownPart:
            ReportFace(title: "Unknown parts", order: "kind, name", hasBatches: false, hidden: [])
        case .renewalExtension: .renewalExtension
        }
    }
}

extension ReportFace {
    fileprivate static let priceChange = ReportFace(
        title: "Price changes", order: "batch_id, line, original_transaction_id, change_id",
        hidden: [
            "batch_id", "change_id", "difference_milliunits", "effective_on_or_after",
            "forecast_reasons", "forecast_threshold_source", "forecast_renewal_at",
            "forecast_notice_at", "send_after_at", "send_by_at", "due_effective_at", "is_final",
            "request_reference_id", "sent_at", "scheduled_at", "consent_asked_at", "accepted_at",
            "ended_at", "state_since_at", "first_charged_at", "dependent_skus",
        ])

    fileprivate static let consentFunnel = ReportFace(
        title: "Consent funnel",
        order: "batch_name, batch_id, direction DESC, forecast_consent DESC",
        totals: [
            "changes", "sent", "asked_for_consent", "consented", "informed", "effective",
            "declined", "cancelled", "fell_with_parent", "lapsed", "other", "open",
        ])

    fileprivate static let revenueImpact = ReportFace(
        title: "Revenue impact, tax included",
        order: "batch_name, batch_id, currency, storefront, period",
        hidden: [
            "batch_id", "old_per_period_milliunits", "new_per_period_milliunits",
            "declined_lost_per_period_milliunits", "cancelled_lost_per_period_milliunits",
            "dependent_lost_per_period_milliunits", "lapsed_lost_per_period_milliunits",
            "other_items_lost_per_period_milliunits", "charged_changes",
            "charged_renewals_with_tax", "uplift_without_tax_milliunits",
            "silent_per_period_milliunits",
        ],
        totals: [
            "changes", "effective", "charged_renewals", "old_total_milliunits",
            "new_total_milliunits", "uplift_milliunits", "uplift_per_month_milliunits",
            "declined", "cancelled", "lapsed", "dependents_cancelled", "lost_per_month_milliunits",
            "silent",
        ])

    fileprivate static let forecastAccuracy = ReportFace(
        title: "Forecast against fact",
        order: "batch_name, batch_id, forecast_consent, came_consent, direction, "
            + "forecast_threshold_source, forecast_reasons, forecast_not_known, forecast_because",
        hidden: ["batch_id", "is_as_forecast"])

    fileprivate static let money = ReportFace(
        title: "Money",
        // A line and its corrections may have the same instant. A report that must stay the same to the byte needs a
        // total order.
        order:
            "occurred_at, recorded_at, original_transaction_id, transaction_id, sku, kind, is_correction, "
            + "currency, amount_milliunits, tax_exclusive_milliunits, storefront, explained_as, evidence_id",
        hidden: ["batch_id", "change_id", "recorded_at", "evidence_id", "is_correction"],
        totals: ["amount_milliunits"])

    fileprivate static let chargeException = ReportFace(
        title: "Charges that are not as they should be",
        order: "batch_name, batch_id, exception, occurred_at, original_transaction_id, "
            + "transaction_id, sku, change_id, amount_milliunits",
        hidden: ["batch_id", "change_id"])

    fileprivate static let revenueAtRisk = ReportFace(
        title: "Revenue at risk by the day consent is due",
        order: "consent_due_on, batch_name, batch_id, currency, storefront, period",
        totals: ["changes", "asked", "to_be_asked", "not_known", "at_risk_per_month_milliunits"])

    fileprivate static let renewalExtension = ReportFace(
        title: "Renewal-date extensions",
        order: "requested_at, kind, extension_id, original_transaction_id", hasBatches: false,
        hidden: [
            "retry_of", "reason_code", "requested_at", "approved_at", "called_at",
            "eligible_forecast", "retried", "retried_extended", "renewal_before_at", "code",
            "storefronts",
        ])
}

/// The reports: each is a view of schema `report`, under the same name.
package enum ReportName: String, Hashable, Sendable, CaseIterable {
    case batchSummary = "batch_summary"
    case priceChange = "price_change"
    case consentFunnel = "consent_funnel"
    case revenueImpact = "revenue_impact"
    case pendingConsent = "pending_consent"
    case upcomingEffective = "upcoming_effective"
    case dependentCancellation = "dependent_cancellation"
    case forecastAccuracy = "forecast_accuracy"
    case money
    case chargeException = "charge_exception"
    case closedPeriod = "closed_period"
    case reconciliation
    case notificationHealth = "notification_health"
    case unknownPart = "unknown_part"
    case renewalExtension = "renewal_extension"

    /// The name as typed: `batch_summary` and `batch-summary` are the same; nil for any other.
    package init?(argument: String) {
        let name = String(argument.lowercased().map { $0 == "-" ? "_" : $0 })
        self.init(rawValue: name)
    }

    /// Whether the rows belong to batches, so that one batch can be asked for.
    package var hasBatches: Bool { face.hasBatches }
    /// Whether the report can tell what was known at an earlier instant: the view has a function `NAME_as_of`.
    package var hasPast: Bool {
        switch self {
        case .batchSummary, .priceChange, .consentFunnel, .revenueImpact, .pendingConsent,
            .upcomingEffective,
            .dependentCancellation, .forecastAccuracy, .money, .chargeException, .reconciliation:
            true
        case .closedPeriod, .notificationHealth, .unknownPart, .renewalExtension: false
        }
    }
    /// The heading of the report.
    package var title: String { face.title }
    /// The order of the rows: total, so that the same facts print the same report.
    var order: String { face.order }
    /// Columns that a table leaves to CSV and JSON.
    var hiddenFromPeople: Set<String> { face.hidden }
    /// One record below the other instead of one a line: many columns, few rows.
    var isInRecords: Bool { self == .batchSummary }

    private typealias Face = (
        title: String, order: String, hidden: Set<String>, hasBatches: Bool
    )

    private static let detailsOfChange: Set = [
        "batch_id", "change_id", "difference_milliunits", "effective_on_or_after",
        "forecast_reasons", "forecast_threshold_source", "forecast_renewal_at",
        "forecast_notice_at", "send_after_at", "send_by_at", "due_effective_at", "is_final",
        "request_reference_id", "sent_at", "scheduled_at", "consent_asked_at",
        "accepted_at", "ended_at", "state_since_at", "first_charged_at", "dependent_skus",
    ]

    private var face: Face {
        let change = "original_transaction_id, change_id"
        switch self {
        case .batchSummary: return ("Batches", "submitted_at, batch_id", [], true)
        case .priceChange:
            return ("Price changes", "batch_id, line, \(change)", Self.detailsOfChange, true)
        case .consentFunnel:
            let order = "batch_name, batch_id, direction DESC, forecast_consent DESC"
            return ("Consent funnel", order, ["batch_id"], true)
        case .revenueImpact:
            let hidden: Set = [
                "batch_id", "old_per_period_milliunits", "new_per_period_milliunits",
                "declined_lost_per_period_milliunits", "cancelled_lost_per_period_milliunits",
                "dependent_lost_per_period_milliunits", "charged_changes",
            ]
            let order = "batch_name, batch_id, currency, storefront, period"
            return ("Revenue impact", order, hidden, true)
        case .pendingConsent:
            return (
                "Consent pending", "consent_due_at, \(change)", ["batch_id", "change_id"], true
            )
        case .upcomingEffective:
            return (
                "Coming into effect", "due_effective_at, \(change)", ["batch_id", "change_id"], true
            )
        case .dependentCancellation:
            return (
                "Cancelled dependents", "requested_at, \(change), dependent_sku",
                ["batch_id", "change_id", "requested_by_evidence", "settled_by_evidence"], true
            )
        case .forecastAccuracy:
            let order =
                "batch_name, batch_id, forecast_consent, came_consent, direction, "
                + "forecast_threshold_source, forecast_reasons, forecast_not_known, forecast_because"
            return ("Forecast against fact", order, ["batch_id", "is_as_forecast"], true)
        case .money:
            return (
                "Money",
                "occurred_at, recorded_at, original_transaction_id, transaction_id, sku, kind",
                ["batch_id", "change_id", "recorded_at", "evidence_id", "is_correction"], true
            )
        case .chargeException:
            return (
                "Charges that are not as they should be",
                "batch_name, batch_id, exception, occurred_at, original_transaction_id, transaction_id, sku",
                ["batch_id", "change_id"], true
            )
        case .closedPeriod:
            return (
                "Closed months", "month, currency, batch_name, batch_id, kind", ["batch_id"], true
            )
        case .reconciliation:
            let order = "batch_name NULLS LAST, batch_id, check_name"
            return ("Reconciliation", order, ["batch_id"], true)
        case .notificationHealth: return ("Notifications", "type, subtype", [], false)
        case .unknownPart: return ("Unknown parts", "kind, name", [], false)
        case .renewalExtension:
            let hidden: Set = [
                "retry_of", "reason_code", "requested_at", "approved_at", "called_at",
                "eligible_forecast", "retried", "retried_extended", "renewal_before_at", "code",
                "storefronts",
            ]
            let order = "requested_at, kind, extension_id, original_transaction_id"
            return ("Renewal-date extensions", order, hidden, false)
        }
    }
}

/// One column of a report.
package struct ReportColumn: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        case text
        /// `bigint`: milliunits, basis points or a number of things, as the name says.
        case integer
        /// `true` or `false`.
        case boolean
        /// `2026-12-01T00:00:00Z`.
        case instant
        /// `2026-12-01`.
        case day
        /// Texts separated by `;`, as in a batch file.
        case list
    }

    package let name: String
    package let kind: Kind
    /// The database's own comment on the column.
    package let meaning: String
}

/// What to read of a report.
package struct ReportQuery: Hashable, Sendable {
    package var name: ReportName
    /// The id of the one batch wanted; nil for all.
    package var batchID: String?
    /// What was known at this instant is wanted, UTC milliseconds; nil for what is known now.
    package var asOf: Int64?
    /// Of what is known now: the instant that lateness is judged at, UTC milliseconds; nil for the server's clock.
    package var judgedAt: Int64?

    package init(
        _ name: ReportName, batchID: String? = nil, asOf: Int64? = nil, judgedAt: Int64? = nil
    ) {
        self.name = name
        self.batchID = batchID
        self.asOf = asOf
        self.judgedAt = judgedAt
    }
}

/// Why a report could not be read.
package enum ReportError: Error, Hashable, Sendable, CustomStringConvertible {
    case unknownBatch(String)
    case hasNoBatches(ReportName)
    /// Nobody keeps what this report said at an earlier instant.
    case hasNoPast(ReportName)
    /// The instant lies ahead of the database's clock, or is out of its range.
    case notYet(String)
    /// The view is missing or closed to this user.
    case notReadable(ReportName)
    case unavailable(String)
    case failed(String)

    package var description: String {
        switch self {
        case .unknownBatch(let text):
            "no batch \(text.debugDescription), or more than one of that name; give the id that "
                + "`repricer report batch_summary` shows"
        case .hasNoBatches(let name):
            "report \(name.rawValue) is about the whole installation; leave --batch out"
        case .hasNoPast(let name):
            "report \(name.rawValue) can't tell what was known at an instant; leave --as-of out, or ask one of "
                + ReportName.allCases.filter(\.hasPast).map(\.rawValue).joined(separator: ", ")
        case .notYet(let why): "\(why); leave --as-of out for what is known now"
        case .notReadable(let name):
            "report.\(name.rawValue) can't be read by this database user; run `repricer migrate`, "
                + "or GRANT repricer_finance to the user"
        case .unavailable(let why):
            "the database cannot be reached: \(why); check REPRICER_DATABASE_URL and that "
                + "PostgreSQL runs"
        case .failed(let why): "the report failed: \(why)"
        }
    }
}

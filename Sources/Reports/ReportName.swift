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
    package var hasBatches: Bool {
        self != .notificationHealth && self != .unknownPart && self != .renewalExtension
    }

    /// The order of the rows: total, so that the same facts print the same report.
    var order: String {
        switch self {
        case .batchSummary: "submitted_at, batch_id"
        case .priceChange: "batch_id, line, original_transaction_id, change_id"
        case .consentFunnel: "batch_name, batch_id, direction DESC, forecast_consent DESC"
        case .revenueImpact: "batch_name, batch_id, currency, storefront, period"
        case .pendingConsent: "consent_due_at, original_transaction_id, change_id"
        case .upcomingEffective: "due_effective_at, original_transaction_id, change_id"
        case .dependentCancellation:
            "requested_at, original_transaction_id, change_id, dependent_sku"
        case .forecastAccuracy:
            "batch_name, batch_id, forecast_consent, came_consent, direction, "
                + "forecast_threshold_source, forecast_reasons"
        case .reconciliation: "batch_name NULLS LAST, batch_id, check_name"
        case .notificationHealth: "type, subtype"
        case .unknownPart: "kind, name"
        case .renewalExtension:
            "requested_at, kind, extension_id, original_transaction_id"
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

    package init(name: String, kind: Kind, meaning: String) {
        self.name = name
        self.kind = kind
        self.meaning = meaning
    }
}

/// What to read of a report.
package struct ReportQuery: Hashable, Sendable {
    package var name: ReportName
    /// The id of the one batch wanted; nil for all.
    package var batchID: String?
    /// The instant that lateness is judged at, UTC milliseconds; nil for the server's clock.
    package var asOf: Int64?

    package init(_ name: ReportName, batchID: String? = nil, asOf: Int64? = nil) {
        self.name = name
        self.batchID = batchID
        self.asOf = asOf
    }
}

/// Why a report could not be read.
package enum ReportError: Error, Hashable, Sendable, CustomStringConvertible {
    case unknownBatch(String)
    case hasNoBatches(ReportName)
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

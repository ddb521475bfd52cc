import ServiceKit

/// The reports. Each is a view of schema `report` with the same name.
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
    case revenueBridge = "revenue_bridge"
    case revenueBridgeTotal = "revenue_bridge_total"
    case revenueAtRisk = "revenue_at_risk"
    case holdout
    case closedPeriod = "closed_period"
    case reconciliation
    case notificationHealth = "notification_health"
    case unknownPart = "unknown_part"
    case renewalExtension = "renewal_extension"

    /// Reads the name as it is typed: `batch_summary` and `batch-summary` are the same; nil for any other.
    package init?(argument: String) {
        let name = String(argument.lowercased().map { $0 == "-" ? "_" : $0 })
        self.init(rawValue: name)
    }

    /// Whether the rows belong to batches, so that the report can be limited to one batch.
    package var hasBatches: Bool { face.hasBatches }
    /// Whether the report can show what was known at an earlier instant, by the function `NAME_as_of`.
    package var hasPast: Bool {
        switch self {
        case .batchSummary, .priceChange, .consentFunnel, .revenueImpact, .pendingConsent,
            .upcomingEffective,
            .dependentCancellation, .forecastAccuracy, .money, .chargeException, .reconciliation,
            .revenueBridge, .revenueBridgeTotal, .revenueAtRisk, .holdout:
            true
        case .closedPeriod, .notificationHealth, .unknownPart, .renewalExtension:
            false
        }
    }
    /// The heading of the report.
    package var title: String { face.title }
    /// The order of the rows. It is total, so that the same facts print the same report.
    var order: String { face.order }
    /// The columns that only CSV and JSON have.
    var hiddenFromPeople: Set<String> { face.hidden }
    /// The columns that can be added up over the rows of a currency.
    var totals: Set<String> { face.totals }
    /// Whether rows are shown as records, because there are many columns and few rows.
    var isInRecords: Bool { self == .batchSummary }
}

/// One column of a report.
package struct ReportColumn: Hashable, Sendable {
    package enum Kind: Hashable, Sendable {
        case text
        /// `uuid`.
        case id
        /// `bigint`: milliunits, basis points or a number of things, as the name says.
        case integer
        /// `true` or `false`.
        case boolean
        /// `2026-12-01T00:00:00Z`, with as many digits of a second as it has; or `infinity`.
        case instant
        /// `2026-12-01`.
        case day
        /// Texts as PostgreSQL writes an array: `{A,"B, C"}`. People read them separated by `;`, as in a batch file.
        case list
    }

    package let name: String
    package let kind: Kind
    /// The database's own comment on the column.
    package let meaning: String
}

/// The database's comments on a report and its columns.
package struct ReportDescription: Hashable, Sendable {
    package let name: ReportName
    package let meaning: String
    package let columns: [ReportColumn]
}

/// What to read of a report.
package struct ReportQuery: Hashable, Sendable {
    package var name: ReportName
    /// The id of the one batch that is wanted; nil for all.
    package var batchID: String?
    /// The instant whose knowledge is wanted, in UTC milliseconds; nil for now.
    package var asOf: Int64?
    /// The further microseconds of that instant, 0 to 999, because recorded instants have them.
    package var asOfMicroseconds: Int64 = 0
    /// The ISO 4217 code to which a report of one currency converts; nil for US dollars.
    package var reportingCurrency: String?
    /// The instant by which lateness is judged, in UTC milliseconds, for what is known now; nil for the server's
    /// clock.
    package var judgedAt: Int64?
    /// Only rows of this currency, and of this storefront, are read, where a report has such a column.
    package var currency: String?
    package var storefront: String?
    /// Only lines of money since then, and before then: UTC milliseconds.
    package var occurredFrom: Int64?
    package var occurredBefore: Int64?
    /// The most rows that are read; nil for all.
    package var rowsMax: Int?

    package init(
        _ name: ReportName, batchID: String? = nil, asOf: Int64? = nil, judgedAt: Int64? = nil
    ) {
        self.name = name
        self.batchID = batchID
        self.asOf = asOf
        self.judgedAt = judgedAt
    }

    var asOfText: String? {
        asOf.map { RFC3339.format($0, microseconds: asOfMicroseconds) }
    }
}

/// Why a report could not be read.
package enum ReportError: Error, Hashable, Sendable, CustomStringConvertible {
    case unknownBatch(String)
    /// Several batches have the name, or an id with this beginning; the text lists them.
    case ambiguousBatch(String)
    case hasNoBatches(ReportName)
    /// What this report showed at an earlier instant is not stored.
    case hasNoPast(ReportName)
    /// The instant lies ahead of the database's clock, or is out of its range.
    case notYet(String)
    /// The view is missing or closed to this user.
    case notReadable(ReportName)
    /// A sum exceeds the 64 bits of a figure.
    case tooLarge(ReportName, String)
    case unavailable(String)
    case failed(String)

    package var description: String {
        switch self {
        case .unknownBatch(let text):
            "no batch \(text.debugDescription); give the name or the id that "
                + "`repricer report batch_summary` shows"
        case .ambiguousBatch(let sentence): sentence
        case .hasNoBatches(let name):
            "report \(name.rawValue) is about the whole installation; leave --batch out"
        case .hasNoPast(let name):
            "report \(name.rawValue) can't tell what was known at an instant; leave --as-of out, or ask one of "
                + ReportName.allCases.filter(\.hasPast).map(\.rawValue).joined(separator: ", ")
        case .notYet(let why): "\(why); leave --as-of out for what is known now"
        case .notReadable(let name):
            "report.\(name.rawValue) can't be read by this database user; run `repricer migrate`, "
                + "or GRANT repricer_finance to the user"
        case .tooLarge(let name, let why):
            "report \(name.rawValue) has a sum of more than 2^63 milliunits, and none is printed wrong: \(why); "
                + (name == .revenueAtRisk
                    ? "`repricer report price_change` has each row"
                    : "`repricer report money` has each line")
        case .unavailable(let why):
            "the database cannot be reached: \(why); check REPRICER_DATABASE_URL and that "
                + "PostgreSQL runs"
        case .failed(let why): "the report failed: \(why)"
        }
    }
}

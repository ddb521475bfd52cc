import Facts
import JSON
import Postgres
import Pricing
import ServiceKit

/// Rows of a submission, column by column: the changes, and the refused rows. They are built on any thread and stored
/// by `SubmissionQueries.store`.
///
/// They get no history line, because the batch records when and by whom all its rows were submitted.
struct SubmissionRows: Sendable {
    fileprivate var changes = Changes()
    fileprivate var rejects = Rejects()
    fileprivate let batchID: String
    private let at: Int64
    private let waves: WavePlan?

    /// Required values of a row are not checked here, because the constraints of the table refuse a NULL.
    fileprivate struct Changes: Sendable {
        var originalTransactionIDs: [String] = []
        var changeIDs: [String] = []
        var lines: [Int] = []
        var waves: [Int] = []
        var rules: [String] = []
        var renewals: [Int64?] = []
        var notices: [Int64?] = []
        var effective: [Int64?] = []
        var sendAfter: [Int64?] = []
        var sendBy: [Int64?] = []
        /// The kind of each row, by its place from 1 on.
        var kinds: [Int] = []
        /// The distinct terms.
        var shared: [SharedTerms] = []
        var places: [SharedTerms: Int] = [:]
    }

    /// The terms that many rows of a batch share. They are sent once for all of them.
    fileprivate struct SharedTerms: Hashable, Sendable {
        let sku: String
        let dependentSKUs: [String]
        let direction: PlanRow.Direction?
        let currency: String?
        let storefront: String?
        let period: String?
        let currentPrice: Int64?
        let newPrice: Int64?
        let expectedPrice: Int64?
        let effectiveOnOrAfter: CivilDate?
        let consent: Consent?
        let reasons: [ConsentReason]
        let notKnown: [ConsentReason]
        let thresholdSource: RuleSource?
        let atRisk: Int64?
        let atRiskElsewhere: [ItemCharge]
        let isStale: Bool
        let seats: Int64
        let rules: [RuleAnswer]

        init(_ plan: PlanRow, rules: [RuleAnswer]) {
            sku = plan.sku
            dependentSKUs = plan.dependentSKUs
            direction = plan.direction
            currency = plan.currency
            storefront = plan.storefront
            period = plan.period
            currentPrice = plan.currentPrice
            newPrice = plan.newPrice
            expectedPrice = plan.expectedPrice
            effectiveOnOrAfter = plan.effectiveOnOrAfter
            consent = plan.consent
            reasons = plan.reasons
            notKnown = plan.notKnown
            thresholdSource = plan.thresholdSource
            atRisk = plan.atRisk
            atRiskElsewhere = plan.atRiskElsewhere
            isStale = plan.isStale
            seats = plan.seats
            self.rules = rules
        }

        /// It hashes the fields that differ most.
        func hash(into hasher: inout Hasher) {
            hasher.combine(sku)
            hasher.combine(storefront)
            hasher.combine(currentPrice)
            hasher.combine(newPrice)
            hasher.combine(atRisk)
        }
    }

    fileprivate struct Rejects: Sendable {
        var lines: [Int] = []
        var originalTransactionIDs: [String] = []
        var skus: [String] = []
        var codes: [String] = []
        var messages: [String] = []
    }

    init(batchID: String, at: Instant, waves: WavePlan?) {
        self.batchID = batchID
        self.at = at.milliseconds
        self.waves = waves
    }

    /// Adds a row. A row that can go becomes a change; a refused one is kept beside the batch.
    mutating func add(_ plan: PlanRow, random: inout some RandomNumberGenerator) {
        if let fault = plan.fault { return addReject(plan, fault) }
        changes.originalTransactionIDs.append(plan.originalTransactionID)
        changes.changeIDs.append(UUIDv7.make(nowMilliseconds: at, random: &random))
        changes.lines.append(plan.line)
        changes.waves.append(
            waves.flatMap {
                $0.wave(ofSubscription: plan.originalTransactionID, storefront: plan.storefront)
            } ?? 0)
        var (own, shared): ([RuleAnswer], [RuleAnswer]) = ([], [])
        for rule in plan.rules {
            if rule.holdsInstant { own.append(rule) } else { shared.append(rule) }
        }
        changes.rules.append(own.json)
        changes.renewals.append(plan.renewalAt?.milliseconds)
        changes.notices.append(plan.noticeAt?.milliseconds)
        changes.effective.append(plan.effectiveAt?.milliseconds)
        changes.sendAfter.append(plan.sendAfter?.milliseconds)
        changes.sendBy.append(plan.sendBy?.milliseconds)
        changes.kinds.append(place(of: SharedTerms(plan, rules: shared)))
    }

    private mutating func place(of terms: SharedTerms) -> Int {
        if let place = changes.places[terms] { return place }
        changes.shared.append(terms)
        changes.places[terms] = changes.shared.count
        return changes.shared.count
    }

    private mutating func addReject(_ plan: PlanRow, _ fault: RowFault) {
        rejects.lines.append(plan.line)
        // The row may have been spoiled by a NUL, which no text of PostgreSQL can hold.
        rejects.originalTransactionIDs.append(plan.originalTransactionID.withoutNUL)
        rejects.skus.append(plan.sku.withoutNUL)
        rejects.codes.append(fault.code.rawValue)
        rejects.messages.append(fault.message.withoutNUL)
    }
}

/// What a submission stores, in one transaction: it begins its batch, stores rows, and finishes it. The database
/// takes rows between the two and at no other time.
enum SubmissionQueries {
    static func begin(
        _ batchID: String, name: String, contentSHA256: String, terms: BatchTerms, asOf now: Instant
    ) -> SQL {
        """
        -- name: beginSubmission
        SELECT repricer.begin_submission(\(uuid: batchID), \(name)::text, \(contentSHA256)::text,
            \(terms.grouping.rawValue)::text, \(json: terms.waves?.json ?? "[]"), \(json: terms.guards.json),
            \(timestamp: now.milliseconds), \(terms.holdout)::integer)
        WHERE \(fragment: ServiceControlQueries.allowsThisProgram)
        """
    }

    /// Stores rows. The database's own keys refuse a second open change of an item, and a dependent that is shared,
    /// chained or its own parent.
    static func store(_ rows: SubmissionRows) -> [SQL] {
        var statements: [SQL] = []
        if !rows.changes.lines.isEmpty { statements.append(store(rows.changes, of: rows.batchID)) }
        if !rows.rejects.lines.isEmpty { statements.append(store(rows.rejects, of: rows.batchID)) }
        return statements
    }

    private static func store(_ rows: SubmissionRows.Changes, of batchID: String) -> SQL {
        """
        -- name: storeChanges
        SELECT repricer.store_changes(\(uuid: batchID), \(rows.originalTransactionIDs),
            \(uuids: rows.changeIDs), \(rows.lines), \(rows.waves), \(rows.shared.column(\.sku)),
            \(rows.shared.column { ArrayText.format($0.dependentSKUs) }),
            \(texts: rows.shared.column { $0.direction?.rawValue }), \(texts: rows.shared.column(\.currency)),
            \(texts: rows.shared.column(\.storefront)), \(texts: rows.shared.column(\.period)),
            \(ints: rows.shared.column(\.currentPrice)), \(ints: rows.shared.column(\.newPrice)),
            \(ints: rows.shared.column(\.expectedPrice)),
            \(texts: rows.shared.column { $0.effectiveOnOrAfter?.text }),
            \(texts: rows.shared.column { $0.consent?.rawValue }),
            \(rows.shared.column { ArrayText.format($0.reasons.map(\.rawValue)) }),
            \(texts: rows.shared.column { $0.thresholdSource?.rawValue }), \(jsons: rows.rules),
            \(timestamps: rows.renewals), \(timestamps: rows.notices), \(timestamps: rows.effective),
            \(timestamps: rows.sendAfter), \(timestamps: rows.sendBy),
            \(rows.shared.column { ArrayText.format($0.notKnown.map(\.rawValue)) }),
            \(ints: rows.shared.column(\.atRisk)), \(jsons: rows.shared.column { $0.atRiskElsewhere.stored }),
            \(rows.kinds), \(rows.shared.column(\.rules.json)),
            \(bools: rows.shared.column { $0.isStale }), \(rows.shared.column(\.seats)))
        """
    }

    private static func store(_ rows: SubmissionRows.Rejects, of batchID: String) -> SQL {
        """
        -- name: storeRejects
        SELECT repricer.store_rejects(\(uuid: batchID), \(rows.lines), \(rows.originalTransactionIDs),
            \(rows.skus), \(rows.codes), \(rows.messages))
        """
    }

    /// Counts what is stored, and adds the submission to the audit trail.
    static func finish(_ batchID: String, _ totals: Submission.Totals) -> SQL {
        """
        -- name: finishSubmission
        SELECT repricer.finish_submission(\(uuid: batchID), \(totals.planHash)::text, \(totals.changes),
            \(totals.rejects))
        """
    }
}

extension [ItemCharge] {
    /// The value as it is stored in JSON; nil where there is none.
    fileprivate var stored: String? {
        guard !isEmpty else { return nil }
        var json = JSONWriter()
        json.list(self) { charge, json in
            json.object { json in
                json.member("currency", charge.currency)
                json.member("storefront", charge.storefront)
                json.member("period", charge.period)
                json.member("milliunits", charge.amount)
            }
        }
        return json.text
    }
}

extension String {
    fileprivate var withoutNUL: String {
        utf8.contains(0) ? String(decoding: utf8.filter { $0 != 0 }, as: UTF8.self) : self
    }
}

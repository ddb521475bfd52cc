import Facts
import Postgres
import Pricing
import ServiceKit

/// Rows of a submission as COPY takes them: the changes, the parts their SKUs play, and the rows refused. Made on
/// any thread, stored by `SubmissionQueries.store`.
///
/// History begins after it: that a change was submitted, when and by whom, its batch says for all of its rows.
struct SubmissionCopy: Sendable {
    fileprivate var changes = COPYText()
    fileprivate var roles = COPYText()
    fileprivate var claims = COPYText()
    fileprivate var rejects = COPYText()
    private let batchID: String
    private let at: Int64
    private let waves: WavePlan?

    init(batchID: String, at: Instant, waves: WavePlan?) {
        self.batchID = batchID
        self.at = at.milliseconds
        self.waves = waves
    }

    /// Adds a row: one that can go becomes a change, a refused one is kept beside the batch.
    mutating func add(
        _ plan: PlanRow, random: inout some RandomNumberGenerator
    ) throws(PostgresError) {
        if let fault = plan.fault { return try addReject(plan, fault) }
        let changeID = UUIDv7.make(nowMilliseconds: at, random: &random)
        try addChange(plan, changeID)
        guard !plan.dependentSKUs.isEmpty else { return }
        try addRole("parent", of: plan.sku, plan, changeID)
        for sku in plan.dependentSKUs {
            try addRole("dependent", of: sku, plan, changeID)
        }
        for place in Set(plan.dependentPlaces) { try addClaim(on: place, plan, changeID) }
    }

    /// The columns in the order of `copyChanges`. What a row that can go never lacks is not
    /// checked here: the table's own constraints refuse a NULL.
    private mutating func addChange(
        _ plan: PlanRow, _ changeID: String
    ) throws(PostgresError) {
        try changes.append(plan.originalTransactionID)
        changes.append(Bucket.of(plan.originalTransactionID))
        try changes.append(changeID)
        try changes.append(batchID)
        changes.append(plan.line)
        try changes.append(plan.sku)
        try changes.append(plan.direction?.rawValue)
        try changes.append(plan.currency)
        try changes.append(plan.storefront)
        try changes.append(plan.period)
        changes.append(plan.currentPrice)
        changes.append(plan.newPrice)
        try changes.append(texts: plan.dependentSKUs)
        changes.append(plan.expectedPrice)
        try changes.append(plan.effectiveOnOrAfter?.text)
        try changes.append(plan.consent?.rawValue)
        try changes.append(texts: plan.reasons.map(\.rawValue))
        try changes.append(plan.thresholdSource?.rawValue)
        try changes.append(text: plan.rulesJSONBytes)
        try changes.append(timestamp: plan.renewalAt?.milliseconds)
        try changes.append(timestamp: plan.noticeAt?.milliseconds)
        try changes.append(timestamp: plan.effectiveAt?.milliseconds)
        try changes.append(timestamp: plan.sendAfter?.milliseconds)
        try changes.append(timestamp: plan.sendBy?.milliseconds)
        try changes.append(timestamp: plan.effectiveAt?.milliseconds)
        try changes.append(timestamp: at)
        changes.append(
            waves.flatMap {
                $0.wave(ofSubscription: plan.originalTransactionID, storefront: plan.storefront)
            } ?? 0)
        changes.endRow()
    }

    private mutating func addRole(
        _ role: String, of sku: String, _ plan: PlanRow, _ changeID: String
    ) throws(PostgresError) {
        try roles.append(plan.originalTransactionID)
        roles.append(Bucket.of(plan.originalTransactionID))
        try roles.append(sku)
        try roles.append(role)
        try roles.append(changeID)
        roles.endRow()
    }

    /// On an item of another subscription, under that one: whoever judges it finds who else names it.
    private mutating func addClaim(
        on reference: DependentReference, _ plan: PlanRow, _ changeID: String
    ) throws(PostgresError) {
        guard let carrier = reference.originalTransactionID else { return }
        try claims.append(carrier)
        claims.append(Bucket.of(carrier))
        try claims.append(reference.sku)
        try claims.append(plan.originalTransactionID)
        try claims.append(changeID)
        claims.endRow()
    }

    private mutating func addReject(_ plan: PlanRow, _ fault: RowFault) throws(PostgresError) {
        try rejects.append(batchID)
        rejects.append(plan.line)
        // What spoiled the row may be a NUL, which no text of PostgreSQL holds.
        try rejects.append(plan.originalTransactionID.withoutNUL)
        try rejects.append(plan.sku.withoutNUL)
        try rejects.append(fault.code.rawValue)
        try rejects.append(fault.message.withoutNUL)
        rejects.endRow()
    }
}

/// What a submission stores. Its batch comes last, when the number of rows is known: the transaction must have
/// asked for that with `batchComesLast`.
enum SubmissionQueries {
    /// Lets rows of this transaction name a batch that is stored before its end.
    static func batchComesLast(on connection: isolated PostgresConnection) throws {
        _ = try connection.execute(
            """
            -- name: batchComesLast
            SET CONSTRAINTS repricer.price_changes_batch_id_fkey,
                repricer.batch_rejects_batch_id_fkey DEFERRED
            """)
    }

    /// Stores rows. The database's own keys refuse a second open change of an item, and a dependent that is
    /// shared, chained or its own parent.
    static func store(
        _ rows: SubmissionCopy, on connection: isolated PostgresConnection
    ) throws {
        try rows.changes.copy(
            """
            -- name: copyChanges
            COPY repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, line, sku,
                direction, currency, storefront, period, current_price_milliunits,
                new_price_milliunits, dependent_skus, expected_price_milliunits,
                effective_on_or_after, forecast_consent, forecast_reasons, forecast_threshold_source,
                forecast_rules, forecast_renewal_at, forecast_notice_at, forecast_effective_at,
                send_after, send_by, due_effective_at, state_since, wave) FROM STDIN
            """, on: connection)
        try rows.roles.copy(
            """
            -- name: copyRoles
            COPY repricer.dependency_roles (original_transaction_id, bucket, sku, role, change_id) FROM STDIN
            """, on: connection)
        try rows.claims.copy(
            """
            -- name: copyClaims
            COPY repricer.dependent_claims (original_transaction_id, bucket, sku, claimed_by, change_id) FROM STDIN
            """, on: connection)
        try rows.rejects.copy(
            """
            -- name: copyRejects
            COPY repricer.batch_rejects (batch_id, line, original_transaction_id, sku, code, message)
                FROM STDIN
            """, on: connection)
    }
}

extension COPYText {
    /// A row of texts, which stand for values of any type.
    mutating func append(row texts: String...) throws(PostgresError) {
        for text in texts { try append(text) }
        endRow()
    }

    /// Sends the rows, if there are any.
    func copy(_ sql: SQL, on connection: isolated PostgresConnection) throws {
        guard !bytes.isEmpty else { return }
        _ = try connection.copyIn(sql, bytes)
    }
}

extension String {
    fileprivate var withoutNUL: String {
        utf8.contains(0) ? String(decoding: utf8.filter { $0 != 0 }, as: UTF8.self) : self
    }
}

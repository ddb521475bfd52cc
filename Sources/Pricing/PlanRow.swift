/// The forecast for one row of a batch: what `plan --rows` and `explain --json` print.
package struct PlanRow: Hashable, Sendable {
    /// The line in the file; 0 where there is no file (`explain`, the check before sending).
    package var line: Int
    package var originalTransactionID: String
    package var sku: String
    /// The fault; nil for a row that can be sent.
    package var fault: RowFault?
    /// Every fault of the row's own cells, the one of `fault` included; empty where its cells are in order.
    package var cellFaults: [RowCode] = []
    package var direction: Direction?
    package var currency: String?
    package var storefront: String?
    /// The period as Apple wrote it.
    package var period: String?
    package var currentPrice: Int64?
    package var newPrice: Int64?
    /// The forecast of consent; nil where no verdict was reached.
    package var consent: Consent?
    /// The answers of the consent rules; nil for a decrease, and where the rules could not be asked.
    package var verdict: ConsentVerdict?
    /// How a later call that is still in time would be judged, where that differs. The verdict itself is for a call at
    /// `judgedAt`.
    package var turn: ConsentTurn?
    /// The instant of the call for which the rules were evaluated.
    package var judgedAt: Instant?
    /// The `signedDate` of the newest statement behind the facts.
    package var factsAt: Instant?
    /// Since when statements tell what the subscription was charged.
    package var knownSince: Instant?
    /// Whether a known renewal date has passed without a statement about that renewal.
    package var isStale = false
    /// How many seats the running period was charged for. The prices are for one seat.
    package var seats: Int64 = 1
    /// The number of seats by which sums multiply the prices; nil for a row whose running price is not known.
    package var knownSeats: Int64? { currentPrice == nil ? nil : seats }
    /// What a period loses when the customer does not consent, dependents included, in milliunits of the row's
    /// currency; nil for a decrease.
    package var atRisk: Int64?
    /// The part of `atRisk` that sums count with another row of the batch.
    package var sharedAtRisk: Int64 = 0
    /// The charges of dependents in another currency or period.
    package var atRiskElsewhere: [ItemCharge] = []
    /// The charges of all dependents on other subscriptions of the customer, those of `atRiskElsewhere` included.
    package var atRiskOnOthers: [ItemCharge] = []
    /// R0, the next renewal.
    package var renewalAt: Instant?
    /// The dates of a row that can be sent; nil for a refused row.
    package var noticeAt: Instant?
    package var sendAfter: Instant?
    package var sendBy: Instant?
    package var effectiveAt: Instant?
    /// The first later call that leads to an earlier renewal than `effectiveAt`; nil where none does.
    package var soonerFrom: Instant?
    package var dependentSKUs: [String] = []
    package var expectedPrice: Int64?
    package var effectiveOnOrAfter: CivilDate?

    package enum Direction: String, Hashable, Sendable, CaseIterable {
        case increase, decrease
    }

    package var code: RowCode? { fault?.code }
    /// Why the row cannot be sent: every fault of its cells, or else the first fault that the facts show.
    package var faults: [RowCode] {
        cellFaults.isEmpty ? code.map { [$0] } ?? [] : cellFaults
    }
    package var reasons: [ConsentReason] { verdict?.reasons ?? [] }
    package var notKnown: [ConsentReason] { verdict?.notKnown ?? [] }
    /// The answers of the rules. An answer that turns before `sendBy` says when, and to what.
    package var rules: [RuleAnswer] {
        let rules = verdict?.rules ?? []
        guard let turn else { return rules }
        return rules.map { rule in
            guard let then = turn.answers[rule.rule] else { return rule }
            var rule = rule
            rule.inputs += [
                .init(name: "turns_at", value: .instant(turn.at)),
                .init(name: "turns_to", value: then.map { .flag($0) } ?? .missing),
            ]
            return rule
        }
    }
    package var thresholdSource: RuleSource? { verdict?.thresholdSource }

    /// A row whose own cells make it unusable, as far as it is known.
    package init(
        line: Int, originalTransactionID: String = "", sku: String = "", fault: RowFault? = nil
    ) {
        self.line = line
        self.originalTransactionID = originalTransactionID
        self.sku = sku
        self.fault = fault
    }
}

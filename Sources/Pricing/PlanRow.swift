/// The forecast for one row of a batch: what `plan --rows` and `explain --json` print.
package struct PlanRow: Hashable, Sendable {
    /// 0 where no file is involved (`explain`, the check before sending).
    package var line: Int
    package var originalTransactionID: String
    package var sku: String
    /// Nil for a row that can go.
    package var fault: RowFault?
    /// Every fault of the row's own cells, the first that `fault` names included; empty where its cells are in order.
    package var cellFaults: [RowCode] = []
    package var direction: Direction?
    package var currency: String?
    package var storefront: String?
    /// As Apple wrote it.
    package var period: String?
    package var currentPrice: Int64?
    package var newPrice: Int64?
    /// Nil where no verdict was reached.
    package var consent: Consent?
    /// What the consent rules said; nil for a decrease, and where they could not be asked.
    package var verdict: ConsentVerdict?
    /// The verdict holds for a call at `judgedAt`; this is what a later one in time meets, where it differs.
    package var turn: ConsentTurn?
    /// The instant that the rules were asked for: at which the call goes.
    package var judgedAt: Instant?
    /// `signedDate` of the newest statement that the facts rest on.
    package var factsAt: Instant?
    /// Since when statements tell what the subscription was charged.
    package var knownSince: Instant?
    /// Whether a renewal that is known lies behind: what it brought is not.
    package var isStale = false
    /// What a period loses when the customer doesn't consent, dependents counted in: milliunits of the row's currency;
    /// nil for a decrease.
    package var atRisk: Int64?
    /// Dependents in another currency or period.
    package var atRiskElsewhere: [ItemCharge] = []
    /// R0.
    package var renewalAt: Instant?
    /// The dates of a row that can go; nil for a refused one.
    package var noticeAt: Instant?
    package var sendAfter: Instant?
    package var sendBy: Instant?
    package var effectiveAt: Instant?
    package var dependentSKUs: [String] = []
    /// Where dependents that live on other subscriptions of the customer were found, however the row names them.
    package var dependentPlaces: [DependentReference] = []
    package var expectedPrice: Int64?
    package var effectiveOnOrAfter: CivilDate?

    package enum Direction: String, Hashable, Sendable, CaseIterable {
        case increase, decrease
    }

    package var code: RowCode? { fault?.code }
    /// What keeps the row from going: all that is wrong with its cells, else the first that the facts hold against it.
    package var faults: [RowCode] {
        cellFaults.isEmpty ? code.map { [$0] } ?? [] : cellFaults
    }
    package var reasons: [ConsentReason] { verdict?.reasons ?? [] }
    package var notKnown: [ConsentReason] { verdict?.notKnown ?? [] }
    /// One whose answer turns before `sendBy` says when, and to what.
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

    /// What is known of a row that the file itself spoiled.
    package init(
        line: Int, originalTransactionID: String = "", sku: String = "", fault: RowFault? = nil
    ) {
        self.line = line
        self.originalTransactionID = originalTransactionID
        self.sku = sku
        self.fault = fault
    }
}

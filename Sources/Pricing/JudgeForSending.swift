/// A change as it was submitted, with the figures that its verdict was based on.
package struct StoredChange: Hashable, Sendable {
    package var changeID: String
    package var originalTransactionID: String
    package var sku: String
    /// The new price in milliunits.
    package var newPrice: Int64
    package var currentPrice: Int64
    package var currency: String
    package var storefront: String?
    package var period: String?
    package var consent: Consent
    package var dependentSKUs: [String]
    package var effectiveOnOrAfter: CivilDate?
    /// The plan's forecast that a later call, though in time, would need consent.
    package var foreseen: ForeseenConsent?
    /// The renewal that the plan dates it to, and the last call for that; nil for a change without a plan.
    package var dueAt: Instant?
    package var sendBy: Instant?

    package init(
        changeID: String, originalTransactionID: String, sku: String, newPrice: Int64,
        currentPrice: Int64, currency: String, storefront: String?, period: String?,
        consent: Consent, dependentSKUs: [String], effectiveOnOrAfter: CivilDate?,
        foreseen: ForeseenConsent? = nil, dueAt: Instant? = nil, sendBy: Instant? = nil
    ) {
        self.changeID = changeID
        self.originalTransactionID = originalTransactionID
        self.sku = sku
        self.newPrice = newPrice
        self.currentPrice = currentPrice
        self.currency = currency
        self.storefront = storefront
        self.period = period
        self.consent = consent
        self.dependentSKUs = dependentSKUs
        self.effectiveOnOrAfter = effectiveOnOrAfter
        self.foreseen = foreseen
        self.dueAt = dueAt
        self.sendBy = sendBy
    }
}

/// Consent that becomes necessary by time alone, as the plan of a change forecast.
package struct ForeseenConsent: Hashable, Sendable {
    /// A call from this instant on needs it.
    package var from: Instant
    /// The rules that ask for it then.
    package var reasons: Set<ConsentReason>

    package init(from: Instant, reasons: Set<ConsentReason>) {
        self.from = from
        self.reasons = reasons
    }

    /// The rules that may require consent at an instant without being a drift. After the forecast ones, time may also
    /// turn other rules. An increase of another item is not among them, because time does not cause one.
    func excused(at instant: Instant) -> Set<ConsentReason> {
        guard from <= instant else { return [] }
        return reasons.union(ConsentReason.allCases.filter { $0 != .increaseWithin12Months })
    }
}

/// What to do with a change that is due.
package enum SendingVerdict: Hashable, Sendable {
    /// It is sent now. The row carries the dates of a call made now.
    case send(PlanRow)
    /// A call now would take effect too early.
    case wait(until: Instant)
    /// The change ends as `ineligible` with this code.
    case ineligible(RowFault)
}

extension Judge {
    /// Judges a submitted change again before it is sent, on the newest facts.
    ///
    /// A difference from the day of the submission is `drifted`, never silent: another current price, currency,
    /// storefront or period, or consent that is needed now and certainly was not then. Consent that was not known may
    /// turn out either way, and consent that is no longer known changes only dates. Consent that is needed only because
    /// of our own increases is no drift, because the plan of the later one showed it. Nor is consent that the change's
    /// own plan forecast for a later call. `context.openChanges` may contain the change itself.
    package func judgeForSending(
        _ change: StoredChange, facts: SubscriptionFacts?, context: JudgeContext
    ) -> SendingVerdict {
        let plan = planAnew(change, facts: facts, context: context)
        // A drift comes before the codes that follow it in `RowCode`, as in a plan.
        let drift = change.drift(to: plan, at: plan.judgedAt ?? now) {
            planAnew(change, facts: facts, context: context.withoutOurs)
        }
        let faults = [plan.fault, drift].compactMap { $0 }
        if let fault = faults.min(by: { $0.code.rank < $1.code.rank }) { return .ineligible(fault) }
        if let sendAfter = plan.sendAfter { return .wait(until: sendAfter) }
        if let sooner = change.sooner(than: plan) { return .wait(until: sooner) }
        return .send(plan)
    }

    /// The dates of a submitted change on the newest facts, with a fault where it cannot be sent as it is.
    package func planAnew(
        _ change: StoredChange, facts: SubscriptionFacts?, context: JudgeContext
    ) -> PlanRow {
        var others = context
        others.openChanges.removeAll { $0.changeID == change.changeID }
        // The row takes the currency of the facts. If that is not the submitted currency, it is a drift here, not a
        // mismatch in a file.
        let row = BatchRow(
            line: 0, originalTransactionID: change.originalTransactionID, sku: change.sku,
            newPrice: change.newPrice, currency: facts?.currency ?? change.currency,
            storefront: facts?.storefront == nil ? change.storefront : nil,
            dependentSKUs: change.dependentSKUs, effectiveOnOrAfter: change.effectiveOnOrAfter)
        guard let plan = judge(rows: [row], facts: facts, context: others).first else {
            preconditionFailure("one row in gives one row out")
        }
        return plan
    }
}

extension StoredChange {
    /// From when a call reaches the renewal that was approved, where one now is too late for it. A call that needs consent
    /// must leave up to 60 days before the renewal, and one that needs none 27, so the days before a consent lapses may
    /// be too late, and those after it in time again.
    fileprivate func sooner(than plan: PlanRow) -> Instant? {
        guard let dueAt, let sendBy, let sooner = plan.soonerFrom, sooner <= sendBy,
            let effectiveAt = plan.effectiveAt, effectiveAt > dueAt
        else { return nil }
        return sooner
    }

    /// `withoutOurs` is the plan as if we had increased no other item.
    fileprivate func drift(
        to plan: PlanRow, at now: Instant, withoutOurs: () -> PlanRow
    ) -> RowFault? {
        let excused = foreseen.map { $0.excused(at: now) } ?? []
        let needsConsent =
            plan.consent == .required && consent != .required && consent != .notKnown
            && !withoutOurs().reasons.allSatisfy(excused.contains)
        let differences = [
            difference(
                "price", from: PriceText.amount(currentPrice, currency),
                to: plan.currentPrice.map { PriceText.amount($0, currency) }),
            difference("currency", from: currency, to: plan.currency),
            difference("storefront", from: storefront, to: plan.storefront),
            difference("period", from: period, to: plan.period),
            needsConsent
                ? "needs consent (\(plan.reasons.map(\.rawValue).joined(separator: ", ")))" : nil,
        ].compactMap { $0 }
        guard !differences.isEmpty else { return nil }
        return RowFault(
            .drifted, "since the submission: \(differences.joined(separator: "; "))",
            remedy: "plan and submit the row again")
    }

    /// nil where the newest facts do not say.
    private func difference(_ what: String, from old: String?, to new: String?) -> String? {
        guard let new, new != old else { return nil }
        return "\(what) \(old ?? "not known") is now \(new)"
    }
}

extension StoredChange {
    /// Why a call needs consent that the change's own plan did not foresee, though it is no drift: an increase of ours
    /// came before it. nil where it needs none, or its plan said so.
    package func unforeseenConsent(in plan: PlanRow) -> String? {
        guard consent == .notRequired, plan.consent == .required,
            let increase = plan.verdict?.lastIncrease,
            plan.reasons.contains(.increaseWithin12Months)
        else { return nil }
        if let foreseen, foreseen.reasons.contains(.increaseWithin12Months),
            plan.judgedAt.map({ foreseen.from <= $0 }) ?? false
        {
            return nil
        }
        let cause =
            switch increase.origin {
            case .change(let id): "of \(id)"
            case .past: "\(increase.sku) rose at \(increase.at.text)"
            case .line(let line): "of line \(line)"
            }
        return "needs consent now because \(cause), which its plan did not foresee"
    }
}

extension RowCode {
    /// Its place in the list of codes. A row carries the first code of the list that applies.
    package var rank: Int { RowCode.allCases.firstIndex(of: self) ?? 0 }
}

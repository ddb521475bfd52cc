/// The rows of one subscription, each judged together with the others.
///
/// It is a class, which the `RowCase`s of its rows share, because its content is costly to copy.
final class RowGroup: Sendable {
    let judge: Judge
    let facts: SubscriptionFacts
    let context: JudgeContext
    /// nil where Apple has not said when the subscription renews.
    let renewals: Renewals?
    /// The dependencies in the batch alone, and with all that is known; nil where no row has dependents.
    let dependenciesInFile: DependencyRules?
    let dependencies: DependencyRules?
    /// All rows of the batch that name the subscription.
    let rows: [BatchRow]
    /// The lines that name each SKU, where there are many.
    private let linesBySKU: [String: [Int]]?

    /// `rows` are all rows of the batch that name the subscription.
    init(_ judge: Judge, rows: [BatchRow], facts: SubscriptionFacts, context: JudgeContext) {
        self.judge = judge
        renewals = Renewals(facts: facts, environment: judge.environment)
        let facts = facts.asChanging
        self.facts = facts
        self.context = context
        self.rows = rows
        if rows.contains(where: { !$0.dependentSKUs.isEmpty }) {
            dependenciesInFile = DependencyRules(rows: rows, facts: nil, openChanges: [])
            dependencies = DependencyRules(
                rows: rows, facts: facts, openChanges: context.openChanges)
        } else {
            (dependenciesInFile, dependencies) = (nil, nil)
        }
        linesBySKU =
            rows.count <= 8
            ? nil : Dictionary(grouping: rows, by: \.sku).mapValues { $0.map(\.line) }
    }

    /// Refuses the wanted rows, in their order, because nothing was ever received of the subscription.
    func planUnknown(at isWanted: (_ line: Int) -> Bool, _ take: (consuming PlanRow) -> Void) {
        for row in rows where isWanted(row.line) {
            var plan = PlanRow(row)
            plan.fault =
                RowCase(row, of: self).faultOfFile()
                ?? RowFault(
                    .unknownSubscription,
                    "nothing is known of this subscription",
                    remedy:
                        "let repricer sync FILE read it from the App Store (this file will do), or correct the id"
                )
            take(plan)
        }
    }

    /// The first `max` other lines of the batch that name the row's SKU of this subscription. Not all of them, because
    /// a file may repeat one row many times.
    func otherLines(of row: BatchRow, max: Int) -> [Int] {
        if let linesBySKU {
            return Array((linesBySKU[row.sku] ?? []).lazy.filter { $0 != row.line }.prefix(max))
        }
        var others: [Int] = []
        for other in rows where other.line != row.line && other.sku == row.sku {
            others.append(other.line)
        }
        return others
    }

    /// Judges the wanted rows, and hands them over in their order.
    ///
    /// Increases that can be sent count against those of later renewals, and so do open changes that wait. The earliest
    /// ones depend on no others, so verdicts are reached renewal by renewal.
    func plan(at isWanted: (_ line: Int) -> Bool, _ take: (consuming PlanRow) -> Void) {
        var waiting = waitingIncreases
        var history = called(of: &waiting, besides: knownHistory)
        guard !waiting.isEmpty || rows.count > 1 && (!areAllOfOneRenewal || hasDependentsAsRows)
        else {
            for row in rows where isWanted(row.line) {
                take(plan(RowCase(row, of: self), history))
            }
            return
        }
        let cases = rows.map { RowCase($0, of: self) }
        var plans = cases.map { plan($0, history) }
        var open = plans.indices.filter { plans[$0].isIncreaseThatCanGo }
        while true {
            let renewals = waiting.map { renewal(of: $0, besides: history) }
            let dates = open.compactMap { plans[$0].effectiveAt } + renewals.compactMap { $0 }
            guard let earliest = dates.min() else { break }
            let settled = zip(waiting, renewals).filter { $0.1 == earliest }.map(\.0)
            settled.forEach { history.add($0.increase(at: earliest)) }
            waiting.removeAll(where: settled.contains)
            for index in open where plans[index].effectiveAt == earliest {
                history.add(
                    EarlierIncrease(
                        sku: plans[index].sku, at: earliest, origin: .line(plans[index].line)))
            }
            open.removeAll { plans[$0].effectiveAt == earliest }
            for index in open { plans[index] = plan(cases[index], history) }
        }
        for index in plans.indices where plans[index].isIncreaseThatIsRefused {
            plans[index] = plan(cases[index], history)
        }
        noteSharedRisk(&plans)
        for plan in plans where isWanted(plan.line) { take(plan) }
    }

    /// Whether all increases of the rows take effect at the same renewal, whatever their price, so that none counts
    /// against another. For a monthly plan the notice is the same with and without consent, and the Sandbox has no
    /// notice.
    private var areAllOfOneRenewal: Bool {
        guard rows.allSatisfy({ $0.effectiveOnOrAfter == nil }) else { return false }
        switch judge.environment {
        case .sandbox: return true
        case .production:
            return facts.period == Period.month.text && facts.storefront.map { $0 != "KOR" } == true
        }
    }

    /// The increases that count regardless of the batch: those that took effect, open changes of ours that Apple was
    /// told of, and what Apple shows.
    var knownHistory: IncreaseHistory {
        var known = context.increaseHistory.map {
            EarlierIncrease(sku: $0.sku, at: $0.at, origin: .past($0.source))
        }
        for change in context.openChanges where !change.state.isFinal && !change.isUnsent {
            if let at = change.increasesAt { known.append(change.increase(at: at)) }
        }
        let history = IncreaseHistory(known)
        return IncreaseHistory(known + shown(besides: history))
    }

    /// An absurd product counts as one seat: no sum can hold it.
    private func seats(of plan: PlanRow, _ row: BatchRow) -> Int64 {
        let prices = [plan.currentPrice ?? 0, row.newPrice]
        let isTooMuch = prices.contains { $0.multipliedReportingOverflow(by: facts.seats).overflow }
        return isTooMuch ? 1 : facts.seats
    }

    private func plan(_ rowCase: RowCase, _ history: IncreaseHistory) -> PlanRow {
        var plan = PlanRow(rowCase.row)
        describe(&plan, rowCase)
        plan.judgedAt = judge.callsFrom
        let timeline = forecast(&plan, rowCase, history)
        plan.fault = rowCase.firstFault()
        guard plan.fault == nil else { return plan }
        // The search ends where the calendar does.
        let isBeyondCalendar = timeline == nil && renewals != nil && plan.consent != nil
        guard timeline?.effectiveAt.isOnCalendar != false, !isBeyondCalendar else {
            plan.fault = RowFault(
                .malformedRow, "it would take effect after the year 9999",
                remedy: "use an earlier effective_on_or_after, release or day to judge at")
            return plan
        }
        // Without these no call can be made, and a row with incomplete facts must never be sent.
        guard let timeline, plan.storefront != nil, facts.currency != nil else {
            let missing =
                timeline == nil
                ? "when this subscription renews"
                : plan.storefront == nil ? "its storefront" : "in which currency it is charged"
            plan.fault = RowFault(
                .unknownSubscription, "Apple has not said \(missing)",
                remedy: "read its state with repricer sync")
            return plan
        }
        plan.noticeAt = timeline.noticeAt
        plan.sendAfter = timeline.sendAfter
        plan.sendBy = timeline.sendBy
        plan.turn = timeline.turn
        plan.soonerFrom = timeline.soonerFrom
        plan.effectiveAt = timeline.effectiveAt
        return plan
    }

    /// Puts what is known of the row's item into the plan.
    private func describe(_ plan: inout PlanRow, _ rowCase: RowCase) {
        plan.currency = facts.currency ?? plan.currency
        plan.storefront = facts.storefront ?? plan.storefront
        plan.period = facts.period
        plan.currentPrice = rowCase.currentPrice
        plan.direction = rowCase.direction
        plan.factsAt = facts.signedAt
        plan.knownSince = facts.knownSince
        plan.seats = seats(of: plan, rowCase.row)
        plan.isStale = facts.isStale(at: judge.now)
        plan.renewalAt = renewals.map { $0.renewal($0.firstIndex(atOrAfter: judge.now)) }
            .flatMap { $0.isOnCalendar ? $0 : nil }
    }

    /// The same for a row whose own cells make it unusable. It may have no new price, and gets no verdict.
    func describe(_ plan: inout PlanRow) {
        let row = BatchRow(
            line: plan.line, originalTransactionID: plan.originalTransactionID, sku: plan.sku,
            newPrice: plan.newPrice ?? 0, currency: plan.currency ?? "")
        describe(&plan, RowCase(row, of: self))
        if plan.newPrice == nil { plan.direction = nil }
    }

    /// Puts the consent verdict into the plan, and the dates that follow from it.
    private func forecast(
        _ plan: inout PlanRow, _ rowCase: RowCase, _ history: IncreaseHistory
    ) -> Timeline? {
        guard let direction = plan.direction, let price = plan.currentPrice else { return nil }
        let onOrAfter = rowCase.row.effectiveOnOrAfter
        switch direction {
        case .decrease:
            plan.consent = Consent.none
            let timeline = renewals.flatMap {
                RenewalSearch($0, increase: nil, now: judge.callsFrom).timeline(
                    onOrAfter: onOrAfter)
            }
            plan.judgedAt = timeline?.judgedAt ?? judge.callsFrom
            return timeline
        case .increase:
            guard
                let increase = increase(
                    of: rowCase.row.sku, from: price, to: rowCase.row.newPrice,
                    currency: plan.currency, storefront: plan.storefront, at: judge.callsFrom,
                    besides: history)
            else { return nil }
            let timeline = renewals.flatMap {
                RenewalSearch($0, increase: increase, now: judge.callsFrom)
                    .timeline(onOrAfter: onOrAfter)
            }
            let verdict = increase.verdict(
                at: timeline?.judgedAt ?? judge.callsFrom,
                for: timeline?.effectiveAt ?? .distantFuture)
            plan.consent = verdict.consent
            plan.verdict = verdict
            plan.judgedAt = timeline?.judgedAt ?? judge.callsFrom
            noteAtRisk(&plan, rowCase.row)
            return timeline
        }
    }

    /// nil where Apple has not said the period or the currency.
    func increase(
        of sku: String, from price: Int64, to newPrice: Int64, currency: String?,
        storefront: String?, at call: Instant, besides history: IncreaseHistory
    ) -> IncreaseCase? {
        guard let period = facts.period.map(Period.init), let currency else { return nil }
        return IncreaseCase(
            ConsentQuestion(
                storefront: storefront, currency: currency, period: period, currentPrice: price,
                newPrice: newPrice, knownSince: facts.knownSince,
                isKnownFromStart: facts.isKnownFromStart, now: call),
            rules: judge.rules, history: history,
            conversions: storefront == "KOR" ? conversions(besides: sku) : OfferConversions())
    }

    /// The renewals at which other renewing items change from their offer to their full price.
    private func conversions(besides sku: String) -> OfferConversions {
        var found = OfferConversions()
        guard let renewals else { return found }
        for item in facts.items where item.sku != sku && item.renews {
            guard let offer = item.offer, offer.isInForce else { continue }
            if let end = renewals.conversion(of: offer) {
                found.known.append(OfferConversion(sku: item.sku, at: end))
            } else {
                found.withoutEnd = found.withoutEnd ?? item.sku
            }
        }
        return found
    }
}

extension PlanRow {
    fileprivate var isIncreaseThatCanGo: Bool { fault == nil && direction == .increase }
    fileprivate var isIncreaseThatIsRefused: Bool { fault != nil && direction == .increase }
}

/// Judges rows against the newest facts: pure, so that the same rows, facts, rules and instant always give
/// the same plan.
package struct Judge: Sendable {
    package let rules: RulesInForce
    package let environment: StoreEnvironment
    package let now: Instant

    package init(rules: RulesInForce, environment: StoreEnvironment, now: Instant) {
        self.rules = rules
        self.environment = environment
        self.now = now
    }

    /// Judges rows of one subscription, in their order. No rule looks further than one subscription and the
    /// context, so a batch of any size can be judged a piece at a time.
    ///
    /// `mentions` are all rows of the batch that name the subscription, these included, in the order of lines;
    /// where it is empty, these are all. `facts` is nil for a subscription that nothing was ever received of.
    package func judge(
        rows: [BatchRow], mentions: [BatchMention] = [], facts: SubscriptionFacts?,
        context: JudgeContext
    ) -> [PlanRow] {
        guard let facts else { return rows.map(unknownSubscription) }
        let all = mentions.isEmpty ? rows.map(BatchMention.init) : mentions
        let dependencies = DependencyRules(
            rows: all, facts: facts, openChanges: context.openChanges)
        let renewing = facts.renewingSKUs
        var lines: [String: [Int]] = [:]
        for mention in all { lines[mention.sku, default: []].append(mention.line) }
        return rows.map { row in
            let item = facts.items.first { $0.sku == row.sku }
            let rowCase = RowCase(
                row: row, facts: facts, item: item, context: context,
                linesOfSKU: lines[row.sku] ?? [],
                dependencies: dependencies, renewingSKUs: renewing)
            return judge(rowCase)
        }
    }

    private func unknownSubscription(_ row: BatchRow) -> PlanRow {
        var plan = PlanRow(row)
        plan.fault = RowFault(
            .unknownSubscription, "no notification of this subscription was ever received",
            remedy: "check the id, or take its notifications in with repricer ingest")
        return plan
    }

    private func judge(_ rowCase: RowCase) -> PlanRow {
        var plan = PlanRow(rowCase.row)
        let facts = rowCase.facts
        plan.currency = facts.currency ?? rowCase.row.currency
        plan.storefront = facts.storefront ?? rowCase.row.storefront
        plan.period = facts.period
        plan.currentPrice = rowCase.currentPrice
        plan.direction = rowCase.direction
        plan.judgedAt = now
        plan.factsAt = facts.signedAt
        plan.knownSince = facts.knownSince
        plan.isStale = (facts.renewalAt ?? facts.expiresAt).map { $0 < now } ?? false
        let renewals = Renewals(facts: facts, environment: environment)
        plan.renewalAt = renewals?.next(now)
        let timeline = forecast(&plan, rowCase, renewals)
        plan.fault = rowCase.firstFault()
        guard plan.fault == nil else { return plan }
        plan.dependentPlaces = rowCase.context.places(of: rowCase.row)
        // Without these no call can be made, and a row must never go half known.
        guard let timeline, plan.storefront != nil else {
            let missing = timeline == nil ? "when this subscription renews" : "its storefront"
            plan.fault = RowFault(
                .unknownSubscription, "Apple has not said \(missing)",
                remedy: "take its newest notification in with repricer ingest")
            return plan
        }
        plan.noticeAt = timeline.noticeAt
        plan.sendAfter = timeline.sendAfter
        plan.sendBy = timeline.sendBy
        plan.effectiveAt = timeline.effectiveAt
        return plan
    }

    /// The consent verdict, put into the plan, and the dates that follow from it.
    private func forecast(
        _ plan: inout PlanRow, _ rowCase: RowCase, _ renewals: Renewals?
    ) -> Timeline? {
        guard let direction = plan.direction, let currentPrice = plan.currentPrice,
            let period = plan.period.map(Period.init), let currency = plan.currency
        else { return nil }
        let onOrAfter = rowCase.row.effectiveOnOrAfter
        guard direction == .increase else {
            plan.consent = Consent.none
            let timeline = renewals?.timeline(consent: .none, onOrAfter: onOrAfter, now: now)
            plan.judgedAt = timeline?.sendAfter ?? now
            return timeline
        }
        let question = ConsentQuestion(
            storefront: plan.storefront, currency: currency, period: period,
            currentPrice: currentPrice, newPrice: rowCase.row.newPrice,
            lastIncrease: rowCase.context.lastIncrease, knownSince: plan.knownSince,
            isKnownFromStart: rowCase.facts.isKnownFromStart, now: now)
        // A row that waits for a date is judged for the instant at which it goes, and until then the verdict may turn.
        let turns = onOrAfter == nil || renewals == nil ? [] : question.turns
        var (verdict, timeline) = judge(question, rowCase, renewals)
        var judgedAt = timeline?.sendAfter ?? now
        for turn in turns where judgedAt >= turn {
            var later = question
            later.now = turn
            (verdict, timeline) = judge(later, rowCase, renewals)
            judgedAt = timeline?.sendAfter ?? turn
            timeline?.sendAfter = judgedAt
        }
        plan.consent = verdict.consent
        plan.verdict = verdict
        plan.judgedAt = judgedAt
        return timeline
    }

    /// The verdict at the question's instant, and the dates of a call from then on.
    private func judge(
        _ question: ConsentQuestion, _ rowCase: RowCase, _ renewals: Renewals?
    ) -> (ConsentVerdict, Timeline?) {
        func timeline(_ verdict: ConsentVerdict) -> Timeline? {
            renewals?.timeline(
                consent: verdict.consent, onOrAfter: rowCase.row.effectiveOnOrAfter,
                now: question.now)
        }
        let verdict = ConsentVerdict(question, rules: rules)
        let dates = timeline(verdict)
        // Whether an offer ends at the effective renewal depends on that renewal, and it on the verdict:
        // the other rules give the renewal at which the question is asked.
        guard question.storefront == "KOR", let renewals, let effectiveAt = dates?.effectiveAt,
            let item = rowCase.otherItems.first(where: { item in
                item.offer.map { $0.isInForce && renewals.conversion(of: $0) == effectiveAt }
                    ?? false
            })
        else { return (verdict, dates) }
        var conversion = question
        conversion.koreaConversion = OfferConversion(sku: item.sku, at: effectiveAt)
        let converted = ConsentVerdict(conversion, rules: rules)
        return (converted, timeline(converted))
    }
}

extension PlanRow {
    /// What the row itself says.
    package init(_ row: BatchRow) {
        self.init(line: row.line, originalTransactionID: row.originalTransactionID, sku: row.sku)
        currency = row.currency
        storefront = row.storefront
        newPrice = row.newPrice
        dependentSKUs = row.dependentSKUs
        expectedPrice = row.expectedPrice
        effectiveOnOrAfter = row.effectiveOnOrAfter
    }
}

/// One question about a cohort: what happens if these items cost that much from a call of that day on.
package struct Scenario: Hashable, Sendable {
    package var rule: ScenarioRule
    package var ending: PriceEnding
    /// The instant of the call.
    package var sentAt: Instant

    package init(rule: ScenarioRule, ending: PriceEnding, sentAt: Instant) {
        self.rule = rule
        self.ending = ending
        self.sentAt = sentAt
    }
}

/// The subscriptions of a scenario: active ones that renew one of these items.
package struct Cohort: Hashable, Sendable {
    package var skus: [String]
    /// The storefronts; empty for any.
    package var storefronts: [String] = []
    package var period: String?
    package var currency: String?
    /// The running subscription started before this day in UTC.
    package var startedBefore: CivilDate?
    /// The current price is below this, in milliunits.
    package var priceBelow: Int64?
    package var priceAbove: Int64?
    /// Items that are cancelled with the others, where the same subscription renews them.
    package var dependents: [String] = []

    package init(skus: [String]) { self.skus = skus }

    /// The items of a subscription that belong to the cohort.
    func items(of facts: SubscriptionFacts) -> [SubscriptionFacts.Item] {
        guard facts.status == 1, facts.autoRenews != false, facts.holder == nil,
            storefronts.isEmpty || facts.storefront.map(storefronts.contains) == true,
            period == nil || facts.period == period,
            currency == nil || facts.currency == currency, isOldEnough(facts)
        else { return [] }
        return facts.items.filter { item in
            guard item.renews, skus.contains(item.sku),
                let price = item.currentPrice ?? item.renewalPrice
            else { return false }
            return (priceBelow.map { price < $0 } ?? true)
                && (priceAbove.map { price > $0 } ?? true)
        }
    }

    private func isOldEnough(_ facts: SubscriptionFacts) -> Bool {
        guard let startedBefore else { return true }
        return facts.startedAt.map { $0 < startedBefore.startAt } ?? false
    }
}

/// Judges a cohort for several scenarios, as `plan` would judge the batch of each.
package struct ScenarioJudge: Sendable {
    private struct Question: Sendable {
        var scenario: Scenario
        var judge: Judge
        var rules: RulesInForce
    }

    package let cohort: Cohort
    private let questions: [Question]
    private let environment: StoreEnvironment
    private let now: Instant

    /// - Parameter now: The instant of the forecast. Open changes that wait are sent from then on, before later calls
    ///   of a scenario.
    package init(
        _ scenarios: [Scenario], of cohort: Cohort, rules: RuleSet, environment: StoreEnvironment,
        now: Instant
    ) {
        self.cohort = cohort
        self.environment = environment
        self.now = now
        questions = scenarios.map { scenario in
            Question(
                scenario: scenario,
                judge: Judge(
                    rules: RuleCourse(rules, from: scenario.sentAt), environment: environment,
                    now: scenario.sentAt, waitingSince: now),
                rules: rules.inForce(at: scenario.sentAt))
        }
    }

    /// One empty forecast for each scenario.
    package var emptyForecasts: [ScenarioForecast] {
        questions.map { ScenarioForecast(sentAt: $0.scenario.sentAt) }
    }

    /// Adds one subscription to each scenario's forecast. `taking` gets the rows of each, by the scenario's place.
    package func add(
        _ facts: SubscriptionFacts, _ context: JudgeContext, to forecasts: inout [ScenarioForecast],
        taking take: (Int, PlanRow) -> Void = { _, _ in }
    ) {
        let renewals = Renewals(facts: facts, environment: environment)
        let facts = facts.asChanging
        let items = cohort.items(of: facts)
        guard !items.isEmpty, let code = facts.currency else { return }
        // A renewal that lies before a later call is none that has passed by now.
        let isStale = facts.isStale(at: now)
        // The cohort is the same for all scenarios.
        if !forecasts.isEmpty { forecasts[0].see(facts, cohort) }
        for (place, question) in questions.enumerated() where forecasts.indices.contains(place) {
            var rows: [BatchRow] = []
            for (index, item) in items.enumerated() {
                switch price(of: item, facts, code, question) {
                case .success(let price):
                    rows.append(row(index + 1, item, price, facts, code))
                case .failure(let none): forecasts[place].refuse(none)
                }
            }
            guard !rows.isEmpty else { continue }
            let plans = plans(rows, facts, context, question)
            let kept = plans.filter { !isAsked($0, question) }
            for _ in kept.count..<plans.count { forecasts[place].refuse(.alwaysAsked) }
            for row in kept {
                forecasts[place].add(
                    row, renewals: renewals, fallingAt: kept.fall(of: row), isStale: isStale)
                take(place, row)
            }
        }
    }

    /// Whether no price of this rule is possible without consent.
    private func isAsked(_ row: PlanRow, _ question: Question) -> Bool {
        question.scenario.rule == .maxWithoutConsent && row.fault == nil
            && row.consent != .notRequired
    }

    /// Judges the rows of a subscription. Dependents are cancelled with one item: the first that can be sent and is no
    /// dependent itself.
    private func plans(
        _ rows: [BatchRow], _ facts: SubscriptionFacts, _ context: JudgeContext,
        _ question: Question
    ) -> [PlanRow] {
        let dependents = cohort.dependents.filter { sku in
            facts.items.contains { $0.sku == sku && $0.renews }
        }
        func judged(_ rows: [BatchRow]) -> [PlanRow] {
            question.judge.judge(rows: rows, facts: facts, context: context)
        }
        guard !dependents.isEmpty else { return judged(rows) }
        let others = rows.indices.filter { !dependents.contains(rows[$0].sku) }
        var first: [PlanRow]?
        for parent in others.isEmpty ? Array(rows.indices.prefix(1)) : others {
            var named = rows
            named[parent].dependentSKUs = dependents.filter { $0 != rows[parent].sku }
            let plans = judged(named)
            if plans[parent].fault == nil, !isAsked(plans[parent], question) { return plans }
            first = first ?? plans
        }
        return first ?? judged(rows)
    }

    private func row(
        _ line: Int, _ item: SubscriptionFacts.Item, _ price: Int64, _ facts: SubscriptionFacts,
        _ currency: String
    ) -> BatchRow {
        BatchRow(
            line: line, originalTransactionID: facts.originalTransactionID, sku: item.sku,
            newPrice: price, currency: currency, storefront: facts.storefront,
            expectedPrice: item.currentPrice ?? item.renewalPrice)
    }

    private func price(
        of item: SubscriptionFacts.Item, _ facts: SubscriptionFacts, _ code: String,
        _ question: Question
    ) -> Result<Int64, ScenarioForecast.NoPrice> {
        guard let current = item.currentPrice ?? item.renewalPrice,
            let currency = question.rules.currency(code)
        else { return .failure(.notANumber) }
        guard question.scenario.rule == .maxWithoutConsent else {
            return question.scenario.rule.price(from: current)
                .flatMap { question.scenario.ending.price($0, in: currency) }
                .map { .success($0) } ?? .failure(.notANumber)
        }
        guard let storefront = facts.storefront, let period = facts.period,
            let largest = question.rules.largestBelowThreshold(
                from: current, storefront: storefront, currency: currency,
                kind: Period(period).kind)
        else { return .failure(.alwaysAsked) }
        // It is rounded down first, because the nearest price of the currency may need consent.
        let step = currency.smallestStep
        guard let price = question.scenario.ending.price(largest / step * step, in: currency),
            price > current
        else { return .failure(.notANumber) }
        return .success(price)
    }
}

extension [PlanRow] {
    /// When the item of a row is cancelled with another row's, if that row's customer declines; nil where no row has it
    /// as a dependent, and where its customer is or may be asked about it as well.
    fileprivate func fall(of row: PlanRow) -> Instant? {
        guard !row.mayBeLost else { return nil }
        return filter {
            $0.mayBeLost && $0.sku != row.sku && $0.dependentSKUs.contains(row.sku)
        }.compactMap(\.effectiveAt).min()
    }
}

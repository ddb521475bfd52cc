/// Judges rows by the newest facts. It is pure, so the same rows, facts, rules and instant always give the same plan.
package struct Judge: Sendable {
    package let rules: RuleCourse
    package let environment: StoreEnvironment
    package let now: Instant

    package init(rules: RuleCourse, environment: StoreEnvironment, now: Instant) {
        self.rules = rules
        self.environment = environment
        self.now = now
    }

    /// Judges by these rules, whenever a row is sent.
    package init(rules: RulesInForce, environment: StoreEnvironment, now: Instant) {
        self.init(rules: RuleCourse(rules), environment: environment, now: now)
    }

    /// Judges rows of one subscription, in their order. No rule needs more than one subscription and the context, so
    /// a batch of any size can be judged a piece at a time.
    ///
    /// `siblings` are all rows of the batch that name the subscription, these included, in the order of lines; where
    /// it is empty, these are all. `facts` is nil for a subscription of which nothing was ever received.
    package func judge(
        rows: [BatchRow], siblings: [BatchRow] = [], facts: SubscriptionFacts?,
        context: JudgeContext
    ) -> [PlanRow] {
        let all = siblings.count > rows.count ? siblings : rows
        guard let facts else {
            let unknown = SubscriptionFacts(
                originalTransactionID: rows.first?.originalTransactionID ?? "")
            let lines = Set(rows.map(\.line))
            return RowGroup(self, rows: all, facts: unknown, context: context)
                .plansOfUnknown { lines.contains($0) }
        }
        let group = RowGroup(self, rows: all, facts: facts, context: context)
        guard siblings.count > rows.count else { return group.plans { _ in true } }
        let lines = rows.map(\.line)
        let isFew = lines.count <= 8
        let set = isFew ? [] : Set(lines)
        return group.plans { isFew ? lines.contains($0) : set.contains($0) }
    }
}

extension PlanRow {
    /// The content of the row itself.
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

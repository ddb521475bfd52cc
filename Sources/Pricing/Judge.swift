/// Judges rows against the newest facts: pure, so that the same rows, facts, rules and instant always give
/// the same plan.
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

    /// Judges rows of one subscription, in their order. No rule looks further than one subscription and the
    /// context, so a batch of any size can be judged a piece at a time.
    ///
    /// `siblings` are all rows of the batch that name the subscription, these included, in the order of lines;
    /// where it is empty, these are all. `facts` is nil for a subscription that nothing was ever received of.
    package func judge(
        rows: [BatchRow], siblings: [BatchRow] = [], facts: SubscriptionFacts?,
        context: JudgeContext
    ) -> [PlanRow] {
        guard let facts else { return rows.map(unknownSubscription) }
        guard siblings.count > rows.count else {
            return RowGroup(self, rows: rows, facts: facts, context: context).plans { _ in true }
        }
        let lines = rows.map(\.line)
        let isFew = lines.count <= 8
        let set = isFew ? [] : Set(lines)
        return RowGroup(self, rows: siblings, facts: facts, context: context)
            .plans { isFew ? lines.contains($0) : set.contains($0) }
    }

    private func unknownSubscription(_ row: BatchRow) -> PlanRow {
        var plan = PlanRow(row)
        plan.fault = RowFault(
            .unknownSubscription, "no notification of this subscription was ever received",
            remedy: "check the id, or read its state with repricer sync")
        return plan
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

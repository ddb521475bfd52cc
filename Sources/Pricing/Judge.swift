/// Judges rows by the newest facts. It is pure, so the same rows, facts, rules and instant always give the same plan.
package struct Judge: Sendable {
    package let rules: RuleCourse
    package let environment: StoreEnvironment
    package let now: Instant
    /// The instant from which open changes wait for their calls. Where rows are judged for calls on a later day it is
    /// before `now`, because open changes are sent in between.
    let waitingSince: Instant
    /// The first instant at which a row may be called: `now`, or the release of its wave.
    let callsFrom: Instant

    package init(
        rules: RuleCourse, environment: StoreEnvironment, now: Instant,
        waitingSince: Instant = .distantFuture
    ) {
        self.rules = rules
        self.environment = environment
        self.now = now
        self.waitingSince = min(now, waitingSince)
        callsFrom = now
    }

    private init(_ judge: Judge, callsFrom: Instant) {
        rules = judge.rules
        environment = judge.environment
        now = judge.now
        waitingSince = judge.waitingSince
        self.callsFrom = max(judge.now, callsFrom)
    }

    /// The same judge for rows that wait until `instant`: it judges on what is known at `now`, and assumes no call
    /// before `instant`.
    package func calling(from instant: Instant) -> Judge { Judge(self, callsFrom: instant) }

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
        var plans: [PlanRow] = []
        judge(rows: rows, siblings: siblings, facts: facts, context: context) { plans.append($0) }
        return plans
    }

    /// The same, but hands over each plan row as it is judged, because plan rows are large and a batch has a million of
    /// them.
    package func judge(
        rows: [BatchRow], siblings: [BatchRow] = [], facts: SubscriptionFacts?,
        context: JudgeContext, _ take: (consuming PlanRow) -> Void
    ) {
        let hasOthers = siblings.count > rows.count
        let group = RowGroup(
            self, rows: hasOthers ? siblings : rows,
            facts: facts
                ?? SubscriptionFacts(
                    originalTransactionID: rows.first?.originalTransactionID ?? ""),
            context: context)
        let lines = hasOthers && rows.count > 8 ? Set(rows.map(\.line)) : []
        let isWanted = { (line: Int) -> Bool in
            if !hasOthers { return true }
            return lines.isEmpty ? rows.contains { $0.line == line } : lines.contains(line)
        }
        if facts == nil {
            group.planUnknown(at: isWanted, take)
        } else {
            group.plan(at: isWanted, take)
        }
    }

    /// Adds the known facts of its item to a row whose own cells make it unusable.
    package func describe(_ row: inout PlanRow, facts: SubscriptionFacts) {
        RowGroup(self, rows: [], facts: facts, context: JudgeContext()).describe(&row)
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

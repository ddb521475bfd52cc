package import Ledger
package import Pricing

/// Forecasts a batch: rows in, verdicts out. It reads facts and rules and writes nothing.
package struct Planner: Sendable {
    private let pool: LedgerPool
    private let rules: RuleSet
    private let environment: StoreEnvironment

    /// Subscriptions whose facts are read at once.
    static let subscriptionsPerRead = 2000

    package init(pool: LedgerPool, rules: RuleSet, environment: StoreEnvironment) {
        self.pool = pool
        self.rules = rules
        self.environment = environment
    }

    /// Judges rows as of an instant. `spoiled` are rows that the file itself made unusable; they keep their
    /// place. The result is in the order of lines.
    package func plan(
        rows: [BatchRow], spoiled: [PlanRow] = [], asOf now: Instant
    ) async throws -> [PlanRow] {
        let bySubscription = Dictionary(grouping: rows, by: \.originalTransactionID)
        let ids = bySubscription.keys.sorted()
        let judge = Judge(rules: rules.inForce(at: now), environment: environment, now: now)
        var planned = spoiled
        planned.reserveCapacity(rows.count + spoiled.count)
        for start in stride(from: 0, to: ids.count, by: Self.subscriptionsPerRead) {
            let chunk = Array(ids[start..<min(start + Self.subscriptionsPerRead, ids.count)])
            let known = try await facts(of: chunk)
            for id in chunk {
                planned += judge.judge(
                    rows: bySubscription[id] ?? [], facts: known.facts[id],
                    context: known.contexts[id] ?? JudgeContext())
            }
        }
        return planned.sorted { $0.line < $1.line }
    }

    private struct Known: Sendable {
        var facts: [String: SubscriptionFacts] = [:]
        var contexts: [String: JudgeContext] = [:]
    }

    private func facts(of ids: [String]) async throws -> Known {
        try await pool.withTransaction { connection in
            let stored = try SubscriptionQueries.load(ids, on: connection)
            let open = try DispatchQueries.openChanges(ids, withoutInFlight: false, on: connection)
            let tokens = Set(stored.values.compactMap(\.facts.appAccountToken)).sorted()
            let siblings = try SubscriptionQueries.renewingSKUs(ofCustomers: tokens, on: connection)
            var known = Known()
            // A subscription of which nothing was folded yet is as good as unknown.
            for (id, subscription) in stored where subscription.foldedThrough != nil {
                known.facts[id] = subscription.facts
                known.contexts[id] = JudgeContext(
                    openChanges: (open[id] ?? []).map(JudgeContext.OpenChange.init),
                    siblingSKUs: subscription.facts.appAccountToken.flatMap { siblings[$0] } ?? [],
                    increaseHistory: subscription.increases.past)
            }
            return known
        }
    }
}

extension JudgeContext.OpenChange {
    init(_ change: DispatchQueries.OpenChange) {
        self.init(
            changeID: change.changeID, sku: change.sku, newPrice: change.newPrice,
            dependentSKUs: change.dependentSKUs, state: change.state)
    }
}

extension [RecordedIncrease] {
    /// The anchor of the 12 months is the instant it took effect, else when it was communicated.
    package var past: [PastIncrease] {
        compactMap { increase in
            (increase.effectiveAt ?? increase.communicatedAt).map {
                PastIncrease(sku: increase.sku, at: $0)
            }
        }
    }
}

import Batches
import Facts
import Postgres
import Pricing

extension OpenChangeQueries.Claimable {
    /// What these changes are judged by, both when they are due and when they are redated.
    func context(
        of stored: SubscriptionQueries.Stored, _ imported: [PastIncrease]?,
        _ siblings: [String: Set<String>], _ carriers: [String: SubscriptionQueries.Carrier]
    ) -> JudgeContext {
        let customer = stored.facts.appAccountToken
        var context = JudgeContext(
            increases: stored.increases, imported: imported ?? [], openChanges: changes, ours: ours)
        context.siblingSKUs = customer.flatMap { siblings[$0] } ?? []
        for reference in changes.flatMap(\.named) {
            context.note(
                reference, on: reference.originalTransactionID.flatMap { carriers[$0] },
                customer: customer)
        }
        return context
    }
}

extension Sequence<OpenChangeQueries.Claimable> {
    /// The subscriptions that these changes name for their dependents.
    func carriers(
        on connection: isolated PostgresConnection
    ) throws -> [String: SubscriptionQueries.Carrier] {
        let ids = Set(flatMap(\.changes).flatMap(\.named).compactMap(\.originalTransactionID))
        return ids.isEmpty ? [:] : try SubscriptionQueries.carriers(ids.sorted(), on: connection)
    }
}

extension OpenChangeQueries.OpenChange {
    /// The dependents that are named with their subscription.
    fileprivate var named: [DependentReference] {
        dependentSKUs.map { DependentReference($0) }.filter { $0.originalTransactionID != nil }
    }
}

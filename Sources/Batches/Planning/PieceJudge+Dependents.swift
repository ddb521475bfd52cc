import Facts
import Pricing

extension PieceJudge {
    typealias Known = PlanQueries.FactRows.Known

    /// Reads what rows with dependents are judged by: on which subscription the dependents are, their roles there, and
    /// who else names them, in the batch and by open changes. `rows` are all rows with dependents of the known
    /// subscriptions.
    func addDependents(
        to known: [String: Known], _ rows: [BatchRow]
    ) async throws {
        var skus: [String: Set<String>] = [:]
        var parents: [String: Set<String>] = [:]
        for row in rows where known[row.originalTransactionID] != nil {
            skus[row.originalTransactionID, default: []].formUnion(row.dependentSKUs)
            parents[row.originalTransactionID, default: []].insert(row.sku)
        }
        guard !skus.isEmpty else { return }
        let families = try await families(of: skus.keys.compactMap { known[$0]?.facts })
        let households = families.mapValues { Household($0, rows: siblings) }
        for (id, names) in skus {
            guard let household = known[id]?.customer.flatMap({ households[$0] }) else { continue }
            known[id]?.place(names, of: id, among: household.siblings)
        }
        try await addCarriers(to: known, skus)
        try await addClaims(to: known, skus, parents, households)
    }

    /// What the batch alone says about the dependents of an unknown subscription: who else names them or their parents,
    /// and their roles in rows of their own subscriptions.
    func contextOfFile(_ rows: [BatchRow]) -> JudgeContext {
        var context = JudgeContext(increaseHistory: [])
        for row in rows where !row.dependentSKUs.isEmpty {
            for name in row.dependentSKUs {
                let reference = DependentReference(name)
                guard let carrier = reference.originalTransactionID else { continue }
                context.note(reference, as: name, besides: siblings(carrier))
            }
            for name in [row.sku] + row.dependentSKUs {
                let place = DependentReference(name).placed(on: row.originalTransactionID).text
                let found = claims(place)
                if !found.isEmpty { context.claims[place] = found }
            }
        }
        return context
    }

    /// The subscriptions of customers who have several, by customer.
    private func families(
        of facts: [SubscriptionFacts]
    ) async throws -> [String: [SubscriptionQueries.Sibling]] {
        let tokens = Set(facts.compactMap(\.appAccountToken)).sorted()
        guard !tokens.isEmpty else { return [:] }
        return try await connection.read {
            try SubscriptionQueries.siblings(ofCustomers: tokens, on: $0)
        }
    }

    /// Reads the other subscriptions that carry dependents.
    private func addCarriers(
        to known: [String: Known], _ skus: [String: Set<String>]
    ) async throws {
        var places: [String: [(name: String, reference: DependentReference)]] = [:]
        for (id, names) in skus {
            let found = known[id]?.context.onOtherSubscriptions(names) ?? []
            if !found.isEmpty { places[id] = found }
        }
        guard !places.isEmpty else { return }
        let ids = Set(places.values.joined().compactMap(\.reference.originalTransactionID))
        let carriers = try await connection.read {
            try SubscriptionQueries.carriers(ids.sorted(), on: $0)
        }
        for (id, found) in places {
            let customer = known[id]?.customer
            for (name, reference) in found {
                guard let carrier = reference.originalTransactionID else { continue }
                known[id]?.context.note(
                    reference, as: name, on: carriers[carrier], customer: customer)
                known[id]?.context.note(reference, as: name, besides: siblings(carrier))
            }
        }
    }

    /// Reads who names the items of rows with dependents, and who names these dependents.
    private func addClaims(
        to known: [String: Known], _ skus: [String: Set<String>],
        _ parents: [String: Set<String>], _ households: [String: Household]
    ) async throws {
        var named: [String: Set<String>] = [:]
        var carriers = Set(skus.keys)
        for (id, names) in skus {
            let others = known[id]?.context.onOtherSubscriptions(names) ?? []
            carriers.formUnion(others.compactMap(\.reference.originalTransactionID))
            let own = names.subtracting(others.map(\.name)).union(parents[id] ?? [])
            named[id] = Set(others.map(\.reference.text))
                .union(own.map { DependentReference($0).placed(on: id).text })
        }
        let ids = carriers.sorted()
        let open = try await connection.read { try PlanQueries.claims(on: ids, on: $0) }
        let customers = try await claimants(named.values.joined())
        for (id, names) in named {
            let household = known[id]?.customer.flatMap { households[$0] }
            for name in names {
                let rows = claims(name).filter {
                    Self.mayBeOne(known[id]?.customer, customers[$0.originalTransactionID])
                }
                let found = rows + (household?.claims[name] ?? []) + (open[name] ?? [])
                if !found.isEmpty { known[id]?.context.claims[name] = found }
            }
        }
    }

    /// The customers of the subscriptions whose rows name any of these in the batch, without unknown customers.
    private func claimants(
        _ names: some Sequence<String>
    ) async throws -> [String: String] {
        let ids = Set(names.flatMap { claims($0).map(\.originalTransactionID) }).sorted()
        guard !ids.isEmpty else { return [:] }
        return try await connection.read { try SubscriptionQueries.customers(of: ids, on: $0) }
    }

    /// Whether both may be the same customer. A row that names another customer's item is refused, so it does not claim
    /// that item.
    private static func mayBeOne(_ customer: String?, _ other: String?) -> Bool {
        guard let customer, let other else { return true }
        return customer.lowercased() == other.lowercased()
    }
}

/// A customer's subscriptions, and what rows of the batch say across them by SKUs alone.
private struct Household {
    let siblings: [SubscriptionQueries.Sibling]
    /// The claims by `SUBSCRIPTION/SKU`.
    private(set) var claims: [String: [DependentClaim]] = [:]

    init(_ siblings: [SubscriptionQueries.Sibling], rows: (String) -> [BatchRow]) {
        self.siblings = siblings
        for sibling in siblings {
            let id = sibling.originalTransactionID
            for row in rows(id) {
                for name in row.dependentSKUs {
                    for place in siblings.places(of: name, namedBy: sibling) {
                        claims[place.text, default: []].append(
                            DependentClaim(
                                originalTransactionID: id, sku: row.sku, line: row.line))
                    }
                }
            }
        }
    }
}

extension [SubscriptionQueries.Sibling] {
    /// Where a SKU leads that rows of one of these subscriptions name alone, apart from items of their own.
    fileprivate func places(
        of name: String, namedBy one: SubscriptionQueries.Sibling
    ) -> [DependentReference] {
        guard !one.hasOwn(name), DependentReference(name).originalTransactionID == nil else {
            return []
        }
        return places(of: name, besides: one.originalTransactionID)
    }

    fileprivate func places(of sku: String, besides id: String) -> [DependentReference] {
        filter { $0.originalTransactionID != id && $0.renewing.contains(sku) }
            .map {
                DependentReference(originalTransactionID: $0.originalTransactionID, sku: sku)
            }
    }
}

extension PlanQueries.FactRows.Known {
    fileprivate var customer: String? { facts.appAccountToken }

    /// Notes what renews on the customer's subscriptions, and where names lead that are none of a subscription's own
    /// items.
    fileprivate func place(
        _ names: Set<String>, of id: String, among siblings: [SubscriptionQueries.Sibling]
    ) {
        let foreign = names.subtracting(facts.renewingSKUs)
        guard !foreign.isEmpty else { return }
        for sibling in siblings {
            for sku in sibling.renewing {
                let named = DependentReference(
                    originalTransactionID: sibling.originalTransactionID, sku: sku)
                context.siblingSKUs.formUnion([sku, named.text])
            }
        }
        for name in foreign where DependentReference(name).originalTransactionID == nil {
            let places = siblings.places(of: name, besides: id)
            if !places.isEmpty { context.places[name] = places }
        }
    }
}

extension JudgeContext {
    /// Those of the names that lead to other subscriptions, with each place.
    fileprivate func onOtherSubscriptions(
        _ names: Set<String>
    ) -> [(name: String, reference: DependentReference)] {
        names.flatMap { name -> [(name: String, reference: DependentReference)] in
            let reference = DependentReference(name)
            guard reference.originalTransactionID == nil else { return [(name, reference)] }
            return (places[name] ?? []).map { (name, $0) }
        }
    }
}

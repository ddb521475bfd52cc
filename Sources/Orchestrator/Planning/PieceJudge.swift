import Ledger
import Pricing

/// Judges pieces of a batch, each row beside all rows of its subscription.
struct PieceJudge: Sendable {
    let judge: Judge
    let connection: LedgerConnection
    /// All rows of the batch that name a subscription, in the order of lines; may be empty for one row alone.
    let company: @Sendable (String) -> [BatchMention]
    /// The rows of the batch that name an item, as `SUBSCRIPTION/SKU`, as their dependent.
    let claims: @Sendable (String) -> [DependentClaim]

    func judge(_ entries: [BatchFileEntry]) async throws -> PlannedPiece {
        var places: [String: [Int]] = [:]
        places.reserveCapacity(entries.count)
        var rows: [PlanRow] = []
        rows.reserveCapacity(entries.count)
        for (place, entry) in entries.enumerated() {
            switch entry {
            case .row(let row):
                places[row.originalTransactionID, default: []].append(place)
                // Its place; the verdict follows.
                rows.append(PlanRow(line: row.line))
            case .spoiled(let row): rows.append(row.plan)
            }
        }
        // In the order of the index, which spares the server jumps.
        let ids = places.keys.sorted()
        let read = try await connection.read { try PlanQueries.facts(ids, on: $0) }
        var known = try read.decoded()
        try await addSiblings(to: &known, entries)
        try await addCarriers(to: &known, entries)
        try await addClaims(to: &known, entries)
        for (id, indices) in places {
            let batchRows = indices.compactMap { index -> BatchRow? in
                guard case .row(let row) = entries[index] else { return nil }
                return row
            }
            let found = known[id]
            let judged = judge.judge(
                rows: batchRows, company: company(id), facts: found?.facts,
                context: found?.context ?? JudgeContext())
            for (index, row) in zip(indices, judged) { rows[index] = row }
        }
        return PlannedPiece(entries: entries, rows: rows)
    }

    /// Reads what else the customers of rows with dependents have, where their own subscription does not answer.
    private func addSiblings(
        to known: inout [String: PlanQueries.FactRows.Known], _ entries: [BatchFileEntry]
    ) async throws {
        var customers: [String: String] = [:]
        for case .row(let row) in entries where !row.dependentSKUs.isEmpty {
            guard let facts = known[row.originalTransactionID]?.facts,
                let customer = facts.appAccountToken,
                !facts.renewingSKUs.isSuperset(of: row.dependentSKUs)
            else { continue }
            customers[row.originalTransactionID] = customer
        }
        guard !customers.isEmpty else { return }
        let tokens = Set(customers.values).sorted()
        let siblings = try await connection.read {
            try SubscriptionQueries.renewingSKUs(ofCustomers: tokens, on: $0)
        }
        for (id, customer) in customers {
            known[id]?.context.siblingSKUs = siblings[customer] ?? []
        }
    }
}

extension PieceJudge {
    /// Reads the subscriptions that rows name as `SUBSCRIPTION/SKU`.
    private func addCarriers(
        to known: inout [String: PlanQueries.FactRows.Known], _ entries: [BatchFileEntry]
    ) async throws {
        var named: [String: Set<DependentReference>] = [:]
        for case .row(let row) in entries where !row.dependentSKUs.isEmpty {
            let references = row.dependentSKUs.map { DependentReference($0) }
                .filter { $0.originalTransactionID != nil }
            if !references.isEmpty {
                named[row.originalTransactionID, default: []].formUnion(references)
            }
        }
        guard !named.isEmpty else { return }
        let ids = Set(named.values.flatMap { $0.compactMap(\.originalTransactionID) }).sorted()
        let carriers = try await connection.read {
            try SubscriptionQueries.carriers(ids, on: $0)
        }
        for (id, references) in named {
            guard var found = known[id] else { continue }
            for reference in references {
                found.context.note(
                    reference, on: reference.originalTransactionID.flatMap { carriers[$0] },
                    customer: found.facts.appAccountToken)
                if let company = reference.originalTransactionID.map(company) {
                    found.context.note(reference, besides: company)
                }
            }
            known[id] = found
        }
    }
}

extension PieceJudge {
    /// Reads who else names the items of rows with dependents, and these dependents: in the batch and by open changes.
    private func addClaims(
        to known: inout [String: PlanQueries.FactRows.Known], _ entries: [BatchFileEntry]
    ) async throws {
        var named: [String: Set<DependentReference>] = [:]
        for case .row(let row) in entries where !row.dependentSKUs.isEmpty {
            let id = row.originalTransactionID
            guard known[id] != nil else { continue }
            named[id, default: []].formUnion(
                (row.dependentSKUs + [row.sku]).map { DependentReference($0).placed(on: id) })
        }
        guard !named.isEmpty else { return }
        let ids = Set(named.values.flatMap { $0.compactMap(\.originalTransactionID) }).sorted()
        let open = try await connection.read { try PlanQueries.claims(on: ids, on: $0) }
        for (id, references) in named {
            for name in references.map(\.text) {
                let found = claims(name) + (open[name] ?? [])
                if !found.isEmpty { known[id]?.context.claims[name] = found }
            }
        }
    }
}

extension JudgeContext {
    /// What the newest facts say of a dependent on a subscription that the row names.
    mutating func note(
        _ reference: DependentReference, on carrier: SubscriptionQueries.Carrier?, customer: String?
    ) {
        guard let carrier else { return }
        if let customer, let other = carrier.customer,
            customer.lowercased() != other.lowercased()
        {
            obstacles[reference.text] = .foreign
            return
        }
        if carrier.renewing.contains(reference.sku) { siblingSKUs.insert(reference.text) }
        switch carrier.roles[reference.sku] {
        case "parent": obstacles[reference.text] = .parent
        case "dependent": obstacles[reference.text] = .dependent
        default: break
        }
    }

    /// What the same batch says of it, in its rows of the other subscription.
    fileprivate mutating func note(_ reference: DependentReference, besides rows: [BatchMention]) {
        guard obstacles[reference.text] == nil else { return }
        if rows.contains(where: { $0.sku == reference.sku && !$0.dependentSKUs.isEmpty }) {
            obstacles[reference.text] = .parent
        } else if rows.contains(where: { $0.dependentSKUs.contains(reference.sku) }) {
            obstacles[reference.text] = .dependent
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

import Ledger
import Pricing

/// Judges pieces of a batch, each row beside all rows of its subscription.
struct PieceJudge: Sendable {
    let judge: Judge
    let connection: LedgerConnection
    /// All rows of the batch that name a subscription, in the order of lines; may be empty for one row alone.
    let company: @Sendable (String) -> [BatchMention]

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

extension JudgeContext.OpenChange {
    init(_ change: DispatchQueries.OpenChange) {
        self.init(
            changeID: change.changeID, sku: change.sku, newPrice: change.newPrice,
            dependentSKUs: change.dependentSKUs, state: change.state)
    }
}

import Batches
import Postgres
import Pricing

/// Plans and approvals of a household: what several subscriptions say of one item.
extension DeliveryWorld {
    /// One customer: 1 and 2 carry A and B, 3 carries FAR and NEAR.
    static func household() async throws -> DeliveryWorld {
        let world = try await make()
        for id in ["1", "2"] { try await world.subscribe(id, items: ["A", "B"]) }
        try await world.subscribe("3", items: ["FAR", "NEAR"])
        return world
    }

    func planned(_ rows: [BatchRow]) async throws -> [PlanRow] {
        try await Planner(pool: submitter, rules: .shipped, environment: .production)
            .plan(rows: rows, asOf: now)
    }

    /// `CODE: message` of each row, in the order of lines; empty for one that can go.
    func faults(_ rows: [BatchRow]) async throws -> [String] {
        try await planned(rows).map { row in
            row.fault.map { "\($0.code.rawValue): \($0.message)" } ?? ""
        }
    }

    func store(_ rows: [PlanRow], _ content: String) async throws -> String {
        switch try await Submission.store(
            rows, name: content, contentSHA256: content, planHash: "hash", asOf: now,
            pool: submitter)
        {
        case .stored(let id), .sameAsBefore(let id): return id
        }
    }

    /// What the database says against an approval; nil where it takes it.
    func refusal(_ batchID: String) async throws -> String? {
        do {
            try await approve(batchID)
            return nil
        } catch let error as PostgresError {
            return error.message
        }
    }
}

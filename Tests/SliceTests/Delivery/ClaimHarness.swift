import Batches
import Postgres
import Pricing

/// Plans and approvals of a household: what several subscriptions say of one item.
extension DeliveryHarness {
    /// One customer: 1 and 2 carry A and B, 3 carries FAR and NEAR.
    static func household() async throws -> DeliveryHarness {
        let harness = try await make()
        for id in ["1", "2"] { try await harness.subscribe(id, items: ["A", "B"]) }
        try await harness.subscribe("3", items: ["FAR", "NEAR"])
        return harness
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
        try await stored(rows, content: content).batchID
    }

    /// Stores rows that are planned already: those that can go as changes, the refused ones beside them.
    func stored(
        _ rows: [PlanRow], content: String, terms: BatchTerms = BatchTerms(), rowsAPiece: Int = .max
    ) async throws -> Submission.Outcome {
        try await Submission.store(
            name: content, contentSHA256: content, asOf: now, terms: terms, storesRefused: true,
            pool: submitter, reportingTo: Deaf()
        ) { sink in
            for start in stride(from: 0, to: rows.count, by: rowsAPiece) {
                let piece = rows.dropFirst(start).prefix(rowsAPiece)
                try await sink.take(
                    try sink.prepare(PlannedPiece(entries: [], rows: Array(piece))))
            }
            let changes = rows.count { $0.fault == nil }
            return ("hash", changes, rows.count - changes)
        }
    }

    private struct Deaf: PlanSink {
        func prepare(_ piece: PlannedPiece) {}
        func take(_ prepared: Void) {}
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

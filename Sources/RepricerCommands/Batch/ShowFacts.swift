import Batches
import Facts
import Postgres
import Pricing

/// What was submitted, and what is left to decide: all that `show` and `approve` tell, of one snapshot.
struct ShowFacts: Sendable {
    let batch: BatchQueries.Batch
    let terms: ShowQueries.Terms
    let figures: BatchFigures
    let money: MoneyAMonth
    let waves: [ControlQueries.Wave]
    let guards: [GuardRail]
    let due: ApprovalOutlookQueries.Due
    /// The approvers; empty unless the batch awaits approval.
    let approvers: [ApprovalOutlookQueries.Approver]

    var awaitsApproval: Bool { batch.state == "awaiting_approval" }

    static func read(
        _ batch: BatchQueries.Batch, now: Int64, in reportingCurrency: String,
        rate: Configuration.CallRate?, pool: PostgresPool
    ) async throws -> ShowFacts {
        let rules = try await pool.rules(at: Instant(milliseconds: now), knownAt: nil)
        return try await pool.withTransaction(.repeatableRead) { connection in
            let terms = try ShowQueries.terms(of: batch.batchID, on: connection)
            var figures = try ShowQueries.figures(
                of: batch.batchID, asOf: Instant(milliseconds: terms.plannedAsOf), on: connection)
            let late = try rate.map {
                try LateRows.count(of: batch.batchID, $0, now: now, on: connection)
            }
            if let late, late > 0 { figures.warnings[.late] = .init(count: late) }
            return ShowFacts(
                batch: batch, terms: terms, figures: figures,
                money: MoneyAMonth(
                    figures.money, in: reportingCurrency,
                    by: rules.inForce(at: Instant(milliseconds: now))),
                waves: try ControlQueries.waves(of: batch.batchID, on: connection),
                guards: try GuardQueries.rails(of: batch.batchID, on: connection).rails,
                due: try ApprovalOutlookQueries.due(
                    of: batch.batchID, now: now, on: connection),
                approvers: batch.state == "awaiting_approval"
                    ? try ApprovalOutlookQueries.approvers(of: batch.batchID, on: connection) : [])
        }
    }
}

package import Postgres
package import Pricing

/// What was submitted, and what is left to decide: all that `show`, `approve` and the approval page tell, of one
/// snapshot.
package struct ApprovalFacts: Sendable {
    package let batch: BatchQueries.Batch
    package let terms: ShowQueries.Terms
    package private(set) var figures: BatchFigures
    /// By the exchange rates that are in force now.
    package let money: MoneyAMonth
    package let waves: [ControlQueries.Wave]
    package let guards: [GuardRail]
    package let due: ApprovalOutlookQueries.Due
    /// The approvers; empty unless the batch awaits approval.
    package let approvers: [ApprovalOutlookQueries.Approver]
    /// The rows that would miss their renewal; nil where they were not counted.
    package private(set) var lateRows: Int?

    /// Reads without the late rows, for which the calls of all open batches are read. Read it in a transaction that
    /// sees one snapshot.
    ///
    /// - Parameter now: UTC milliseconds.
    package static func read(
        _ batch: BatchQueries.Batch, now: Int64, in reportingCurrency: String,
        on connection: isolated PostgresConnection
    ) throws -> ApprovalFacts {
        let (id, at) = (batch.batchID, Instant(milliseconds: now))
        let rules = try RuleQueries.load(.from, at, knownAt: nil, on: connection)
        let terms = try ShowQueries.terms(of: id, on: connection)
        let figures = try ShowQueries.figures(
            of: id, asOf: Instant(milliseconds: terms.plannedAsOf), on: connection)
        return ApprovalFacts(
            batch: batch, terms: terms, figures: figures,
            money: MoneyAMonth(figures.money, in: reportingCurrency, by: rules.inForce(at: at)),
            waves: try ControlQueries.waves(of: id, on: connection),
            guards: try GuardQueries.rails(of: id, on: connection).rails,
            due: try ApprovalOutlookQueries.due(of: id, now: now, on: connection),
            approvers: batch.awaitsApproval
                ? try ApprovalOutlookQueries.approvers(of: id, on: connection) : [])
    }

    /// Adds the late rows to the warnings.
    package mutating func note(lateRows: Int?) {
        self.lateRows = lateRows
        if let lateRows, lateRows > 0 { figures.warnings[.late] = .init(count: lateRows) }
    }
}

extension OpenCallQueries {
    /// How many rows of a stored batch would miss their renewal at the allowed rate, the calls of other open batches
    /// counted.
    package static func lateRowCount(
        of batchID: String, callsPerThousandSeconds rate: Int, now: Int64,
        on connection: isolated PostgresConnection
    ) throws -> Int {
        let open = try OpenCallQueries.open(of: batchID, now: now, on: connection)
        return CallList.lateRowCount(
            of: open.own, besides: open.others, callsPerThousandSeconds: rate,
            now: Instant(milliseconds: now))
    }
}

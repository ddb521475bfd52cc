package import Postgres
package import Pricing

/// What was submitted and what is left to decide: everything that `show`, `approve` and the approval page display.
package struct ApprovalFacts: Sendable {
    package let batch: BatchQueries.Batch
    package let terms: ShowQueries.Terms
    package private(set) var figures: BatchFigures
    /// By the exchange rates that are in force now.
    package let money: MoneyAMonth
    package let guards: [GuardRail]
    /// The rows that would miss their renewal; nil where they were not counted.
    package private(set) var lateRows: Int?
    private let outlook: Outlook

    package var waves: [ControlQueries.Wave] { outlook.waves }
    package var due: ApprovalOutlookQueries.Due { outlook.due }
    /// When waves, due and approvers were counted, in UTC milliseconds.
    package var countedAt: Int64 { outlook.countedAt }
    /// Whether it awaits approval although every renewal in its plan had passed when it was counted.
    package var isOutOfDate: Bool {
        guard batch.awaitsApproval, let last = figures.lastEffectiveAt else { return false }
        return last.milliseconds < countedAt
    }
    /// The approvers; empty unless the batch awaits approval.
    package var approvers: [ApprovalOutlookQueries.Approver] { outlook.approvers }

    /// The facts that time, other batches and the policy change after the submission.
    package struct Outlook: Sendable {
        package let waves: [ControlQueries.Wave]
        package let due: ApprovalOutlookQueries.Due
        package let approvers: [ApprovalOutlookQueries.Approver]
        fileprivate let overtaken: BatchWarning.Rows?
        /// UTC milliseconds.
        package let countedAt: Int64

        /// Counts it; of an approved batch there is nobody left to approve.
        package static func count(
            _ id: String, awaitsApproval: Bool, now: Int64,
            on connection: isolated PostgresConnection
        ) throws -> Outlook {
            Outlook(
                waves: try ControlQueries.waves(of: id, on: connection),
                due: try ApprovalOutlookQueries.due(of: id, now: now, on: connection),
                approvers: awaitsApproval
                    ? try ApprovalOutlookQueries.approvers(of: id, on: connection) : [],
                overtaken: try ShowQueries.overtaken(by: id, on: connection), countedAt: now)
        }
    }

    /// The part that takes only a few rows of the database to read, however large the batch is.
    package struct Terms: Sendable {
        package let batch: BatchQueries.Batch
        package let terms: ShowQueries.Terms
        fileprivate let guards: [GuardRail]
        fileprivate let rules: RulesInForce

        /// - Parameter now: UTC milliseconds.
        package static func read(
            _ batch: BatchQueries.Batch, now: Int64, on connection: isolated PostgresConnection
        ) throws -> Terms {
            let (id, at) = (batch.batchID, Instant(milliseconds: now))
            return Terms(
                batch: batch, terms: try ShowQueries.terms(of: id, on: connection),
                guards: try GuardQueries.rails(of: id, on: connection).rails,
                rules: try RuleQueries.load(.from, at, knownAt: nil, on: connection)
                    .inForce(at: at))
        }
    }

    /// - Parameter figures: Those of the stored plan.
    package init(
        _ terms: Terms, _ figures: BatchFigures, _ outlook: Outlook, in reportingCurrency: String
    ) {
        batch = terms.batch
        self.terms = terms.terms
        self.figures = figures
        if let overtaken = outlook.overtaken {
            self.figures.warnings[.makesOthersAsk] = overtaken
        }
        money = MoneyAMonth(figures.money, in: reportingCurrency, by: terms.rules)
        guards = terms.guards
        self.outlook = outlook
    }

    /// Reads all but the late rows, which need the calls of all open batches. The caller must use a transaction that
    /// sees one snapshot.
    ///
    /// - Parameter now: UTC milliseconds.
    package static func read(
        _ batch: BatchQueries.Batch, now: Int64, in reportingCurrency: String,
        on connection: isolated PostgresConnection
    ) throws -> ApprovalFacts {
        let terms = try Terms.read(batch, now: now, on: connection)
        let figures = try ShowQueries.figures(
            of: batch.batchID, asOf: Instant(milliseconds: terms.terms.plannedAsOf),
            on: connection)
        let outlook = try Outlook.count(
            batch.batchID, awaitsApproval: batch.awaitsApproval, now: now, on: connection)
        return ApprovalFacts(terms, figures, outlook, in: reportingCurrency)
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

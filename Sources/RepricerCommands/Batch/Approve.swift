import Batches
import Extensions
import Postgres
import Reports
import ServiceKit

extension Commands {
    static let approve = Command(
        "approve", "release a batch for delivery: the second pair of eyes", positionals: [batch],
        options: [yes],
        discussion: """
            Prints what `show` prints and asks; --yes does not ask, and is needed where there is no terminal. The database refuses the submitter's own approval (exit code 4). Where the batch exceeds your limits \
            (`policy show`), your approval is recorded as the first, and another approver has to give the second \
            (exit code 4, too). A mass extension (`extend all`) is approved by its id, or the beginning of it, in the same way.
            """
    ) { invocation in
        let name = try invocation.arguments.required(batch)
        let configuration = try invocation.configuration()
        return try await invocation.withDatabase { pool, now in
            let rate = try await configuration.completed(by: pool).changePriceRate
            let approval: Approval
            if let mass = try await massExtension(name, pool: pool) {
                try ask(about: mass, invocation)
                approval = try await approve(mass, at: now, pool)
            } else {
                let batch = try await BatchFinder.find(name, pool: pool)
                try await ask(about: batch, at: now, rate, pool, invocation)
                approval = try await invocation.telling(
                    "approving \(counted(batch.rowCount, "change"))"
                ) { try await approve(batch, at: now, pool) }
            }
            var facts = approval.facts
            if let batchID = approval.batchID, let rate {
                facts =
                    facts + [
                        "late_rows": try await invocation.warnOfLateRows(
                            of: batchID, rate, now: now, pool)
                    ]
            }
            let isFirst: JSONValue = [
                "needs_second_approver": approval.exceeded != nil,
                "exceeded": approval.exceeded ?? [],
            ]
            try invocation.print(
                json: facts + isFirst,
                approval.exceeded == nil ? "approved \(approval.done)\n" : "")
            guard let exceeded = approval.exceeded else {
                if let batchID = approval.batchID {
                    let word = try await BatchFinder.word(for: batchID, pool: pool)
                    invocation.suggest("status \(word) --watch")
                }
                return .done
            }
            throw CommandFailure(
                .approvalNeededOrRefused,
                "your approval of \(approval.name) is recorded as the first; a second approver is "
                    + "needed: \(harmless(exceeded.joined(separator: "; ")))")
        }
    }

    /// Shows what is to be approved and asks for it, unless the database will refuse it anyway.
    private static func ask(
        about batch: BatchQueries.Batch, at now: Int64, _ rate: Configuration.CallRate?,
        _ pool: PostgresPool, _ invocation: Invocation
    ) async throws {
        let terms = try await pool.withTransaction {
            try ShowQueries.terms(of: batch.batchID, on: $0)
        }
        guard batch.awaitsApproval, !terms.isOwn else { return }
        try invocation.checkSomebodyAnswers("approve")
        // A program that passed `--yes` only reads the result.
        guard !invocation.isJSON || !invocation.arguments[yes] else { return }
        let facts = try await invocation.telling("reading what was submitted") {
            try await ApprovalFacts.read(batch, now: now, in: "USD", rate, pool)
        }
        // The person who approves must see all of it, however small the screen is.
        let text =
            facts.text(isTerminal: invocation.dependencies.isOutputTerminal, rows: nil) + "\n"
        if invocation.isJSON {
            invocation.dependencies.sayPlainly(text)
        } else {
            try invocation.print(text)
        }
        try invocation.confirm(
            "approve \(batch.rowCount == 1 ? "this 1 change" : "these \(counted(batch.rowCount)) changes") of \(harmless(batch.name))?"
        )
    }

    private static func ask(
        about mass: ExtensionQueries.Mass, _ invocation: Invocation
    ) throws {
        guard mass.state == "awaiting_approval" else { return }
        try invocation.checkSomebodyAnswers("approve")
        try invocation.confirm(
            "extend all of \(harmless(mass.productID)) by \(mass.days) days?")
    }

    private struct Approval: Sendable {
        let name: String
        /// The batch; nil for an extension.
        var batchID: String?
        let done: String
        let facts: JSONValue
        /// What exceeds the limits of the approver; nil where it is approved.
        let exceeded: [String]?
    }

    private static func approve(
        _ batch: BatchQueries.Batch, at now: Int64, _ pool: PostgresPool
    ) async throws -> Approval {
        try await pool.withTransaction { connection in
            let rows = try BatchQueries.approve(batch.batchID, at: now, on: connection)
            let name = harmless(batch.name)
            return Approval(
                name: name, batchID: batch.batchID,
                done: "\(counted(rows ?? 0, "change")) of \(name)",
                facts: [
                    "batch_id": batch.batchID, "state": rows == nil ? batch.state : "approved",
                    "rows": rows,
                ],
                exceeded: rows == nil
                    ? try PolicyQueries.ownShortfall(batch.batchID, on: connection) : nil)
        }
    }

    private static func approve(
        _ mass: ExtensionQueries.Mass, at now: Int64, _ pool: PostgresPool
    ) async throws -> Approval {
        let exceeded = try await pool.withTransaction {
            try ExtensionQueries.approve(mass.extensionID, at: now, on: $0)
        }
        return Approval(
            name: mass.extensionID,
            done: "\(mass.extensionID): all of \(harmless(mass.productID)) by \(mass.days) days",
            facts: [
                "extension_id": mass.extensionID, "state": exceeded == nil ? "queued" : mass.state,
            ], exceeded: exceeded)
    }

    /// The mass extension with this id; nil where there is none. Throws for the extension of one subscription, which
    /// needs no decision.
    static func massExtension(
        _ text: String, pool: PostgresPool
    ) async throws -> ExtensionQueries.Mass? {
        guard let id = try await massID(text, pool: pool) else { return nil }
        let (mass, isSingle) = try await pool.withTransaction { connection in
            (
                try ExtensionQueries.mass(id, on: connection),
                try ExtensionQueries.isSingle(id, on: connection)
            )
        }
        guard mass == nil, isSingle else { return mass }
        throw CommandFailure(
            .conflict,
            "\(id) extends one subscription, which needs no approval and can't be taken back; "
                + "see `repricer extend status \(id)`")
    }

    /// The whole id that `text` may stand for. Where it also names a batch, it stands for neither.
    private static func massID(_ text: String, pool: PostgresPool) async throws -> String? {
        if text.isUUID { return text.lowercased() }
        guard let id = try await ExtensionFinder.begun(text, isMass: true, pool: pool) else {
            return nil
        }
        guard try await !BatchFinder.isNamed(text, pool: pool) else {
            throw CommandFailure(
                .conflict,
                "\(quoted(text)) names a batch, and begins the id of extension \(id); give the whole id"
            )
        }
        return id
    }
}

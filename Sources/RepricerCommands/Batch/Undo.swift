import Batches
import Postgres
import Pricing
import Reports
import ServiceKit

extension Commands {
    private static let undoName = ValueOption(
        "name", "NAME", "what people will call the new batch; default: undo of BATCH")
    private static let subscription = ValueOption(
        "subscription", "ID", "only of this subscription")
    private static let sku = ValueOption("sku", "SKU", "only of this item")
    private static let dryRun = Flag("dry-run", "print what would be taken back; store nothing")

    static let undo = Command(
        "undo", "take back what Apple has scheduled and nobody was told of", positionals: [batch],
        options: [undoName, subscription, sku, dryRun],
        discussion: """
            Stores a new batch with the old prices, prints its id; another user approves it, within their limits. An \
            undone change ends as invalidated (undone) when Apple shows that its price is no longer scheduled, not \
            before. Apple does not promise that a second call replaces the first: where it refuses or keeps the \
            price, the undo is rejected and the change goes on. What can't be undone is told, line by line or in one where many are alike, with what \
            to do instead. Exits 3 when nothing can be.
            """
    ) { invocation in
        let name = try invocation.arguments.required(batch)
        return try await invocation.withDatabase { pool, now in
            var random = SystemRandomNumberGenerator()
            let undoID = UUIDv7.make(nowMilliseconds: now, random: &random)
            let batch = try await BatchFinder.find(name, pool: pool)
            let scope = UndoQueries.Scope(
                batchID: batch.batchID, subscription: invocation.arguments[subscription],
                sku: invocation.arguments[sku])
            let newName =
                try invocation.arguments[undoName].map(BatchName.checked)
                ?? String("undo of \(batch.name)".prefix(200))
            guard !invocation.arguments[dryRun] else {
                return try await rehearse(scope, batch.name, at: now, pool, invocation)
            }
            let (rows, counts, refused) = try await invocation.telling(
                "storing the inverse changes"
            ) {
                let rows = try await pool.withTransaction {
                    try UndoQueries.store(scope, as: undoID, name: newName, at: now, on: $0)
                }
                // In a spread database a transaction cannot read what a function of the owner has written in it.
                return try await pool.withTransaction { connection in
                    (
                        rows,
                        try UndoQueries.refusedCounts(scope, by: undoID, at: now, on: connection),
                        try UndoQueries.refused(
                            scope, by: undoID, at: now, limit: refusedShown, on: connection)
                    )
                }
            }
            tell(refused, of: counts.values.reduce(0, +), invocation)
            guard rows > 0 else { throw try await nothingUndone(scope, batch.name, counts, pool) }
            try invocation.print(
                json: [
                    "batch_id": undoID, "undoes_batch_id": batch.batchID, "rows": rows,
                    "refused": byName(counts),
                ], undoID + "\n")
            invocation.note(
                "stored \(counted(rows, "inverse change")); "
                    + "\(rows == 1 ? "it waits" : "they wait") for another user's approval")
            invocation.suggest("show \(try await BatchFinder.word(for: undoID, pool: pool))")
            return .done
        }
    }

    private static func byName(_ counts: [UndoObstacle: Int64]) -> [String: Int64] {
        Dictionary(uniqueKeysWithValues: counts.map { ($0.key.rawValue, $0.value) })
    }

    /// What an undo at this instant would take back, and what not.
    private static func rehearse(
        _ scope: UndoQueries.Scope, _ batchName: String, at now: Int64, _ pool: PostgresPool,
        _ invocation: Invocation
    ) async throws -> ExitCode {
        let (recall, counts, refused) = try await invocation.telling(
            "counting what can be taken back"
        ) {
            try await pool.withTransaction(.repeatableRead) { connection in
                (
                    Recall(
                        takeable: try UndoQueries.takeable(scope, at: now, on: connection),
                        beyond: try UndoQueries.beyond(scope, at: now, on: connection),
                        now: Instant(milliseconds: now)),
                    try UndoQueries.refusedCounts(scope, by: nil, at: now, on: connection),
                    try UndoQueries.refused(
                        scope, by: nil, at: now, limit: refusedShown, on: connection)
                )
            }
        }
        guard recall.rows > 0 else {
            tell(refused, of: counts.values.reduce(0, +), invocation)
            throw try await nothingUndone(scope, batchName, counts, pool)
        }
        let all = recall.rows + counts.values.reduce(0, +)
        try invocation.print(
            json: [
                "dry_run": true, "undoes_batch_id": scope.batchID, "rows": recall.rows,
                "refused": byName(counts),
            ] + recall.json,
            sentence(
                "\(counted(recall.rows)) of \(counted(all, "change")) of \(harmless(batchName)) can be taken back, "
                    + recall.untilText) + recall.takeable.table(Recall.itemColumns)
                + recall.beyondText
                + codeTable("CAN'T BE TAKEN BACK", byName(counts).sorted { $0.key < $1.key }) {
                    UndoObstacle(rawValue: $0)?.words(1) ?? ""
                })
        return .done
    }

    /// The most that are shown. A batch may have millions, so the others are only counted.
    private static let refusedShown = 10_000
    /// The most lines that say the same. More of them become one line with their number.
    private static let alikeMax = 5

    private static func tell(
        _ refused: [UndoQueries.Refused], of all: Int64, _ invocation: Invocation
    ) {
        let reasons = refused.map { one in
            "\(one.obstacle.rawValue): \(one.obstacle.meaning(state: one.state, toldAt: one.toldAt)); "
                + one.obstacle.remedy
        }
        let counts = reasons.reduce(into: [String: Int]()) { $0[$1, default: 0] += 1 }
        var told: Set<String> = []
        for (one, reason) in zip(refused, reasons) {
            let alike = counts[reason, default: 0]
            guard alike <= alikeMax else {
                if told.insert(reason).inserted {
                    let words = one.obstacle.words(alike, state: one.state, toldAt: one.toldAt)
                    invocation.dependencies.sayPlainly(
                        sentence(harmless("\(counted(alike, "change")) \(words)")))
                }
                continue
            }
            invocation.dependencies.sayPlainly(
                sentence(
                    harmless("line \(one.line): \(one.originalTransactionID) \(one.sku): \(reason)")
                ))
        }
        let more = all - Int64(refused.count)
        if more > 0 {
            invocation.note("\(counted(more)) more can't be undone; `repricer report price_change`")
        }
    }

    private static func nothingUndone(
        _ scope: UndoQueries.Scope, _ batchName: String, _ counts: [UndoObstacle: Int64],
        _ pool: PostgresPool
    ) async throws -> CommandFailure {
        guard counts.isEmpty else {
            let inDoubt = try await pool.withTransaction {
                try UndoQueries.inDoubt(scope.batchID, on: $0)
            }
            return CommandFailure(
                .inputRejected,
                "nothing stored: nothing of \(harmless(batchName)) can be undone"
                    + (inDoubt > 0 ? "; \(doubt(inDoubt))" : ""))
        }
        let what = [
            scope.subscription.map { "subscription \(quoted($0))" },
            scope.sku.map { "item \(quoted($0))" },
        ].compactMap { $0 }.joined(separator: ", ")
        return CommandFailure(
            .inputRejected,
            "nothing stored: \(harmless(batchName)) has no change of \(what); "
                + "`repricer report price_change` lists them")
    }
}

extension UndoObstacle {
    /// Why one change, or several, cannot be undone: the words after their number, with the code. Without a state the
    /// words fit any.
    fileprivate func words(_ count: Int, state: String? = nil, toldAt: Instant? = nil) -> String {
        let isOne = count == 1
        let verb = { (one: String, several: String) in isOne ? one : several }
        let them = verb("it", "them")
        let inState = state.map { ": \(spaced($0))" } ?? ""
        let since = toldAt.map { " since \($0.text)" } ?? ""
        let (what, remedy): (String, String) =
            switch self {
            case .isAnUndo:
                (
                    verb("takes back another change itself", "take back other changes themselves"),
                    "submit the price that is wanted"
                )
            case .notSent:
                (
                    "\(verb("is", "are")) not with Apple yet\(inState)",
                    "withdraw \(them) with repricer abort"
                )
            case .inFlight:
                (
                    verb("waits for the answer to its call", "wait for the answers to their calls"),
                    "try again when \(verb("it is", "they are")) scheduled"
                )
            case .alreadyEffective:
                (
                    "\(verb("was", "were")) charged at the new price",
                    "submit the old price as a new change"
                )
            case .alreadyCommunicated where state == "scheduled":
                (
                    "can't be stopped at Apple\(since)",
                    "wait until \(verb("it", "they")) took effect, then submit the old price"
                )
            case .alreadyCommunicated:
                (
                    "\(verb("was", "were")) told to the customer\(verb("", "s"))\(inState)",
                    "wait until \(verb("it", "they")) took effect, then submit the old price"
                )
            case .hasEnded: ("\(verb("has", "have")) ended\(inState)", "nothing is to be undone")
            case .undoUnderWay:
                ("\(verb("is", "are")) being taken back already", "approve or abort that undo")
            }
        return state == nil ? "\(what); \(remedy)" : "\(what) (\(rawValue)); \(remedy)"
    }
}

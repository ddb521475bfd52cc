import Batches
import Facts
import Postgres

extension Commands {
    private static let pausedBatch = Positional(
        "BATCH", BatchFinder.meaning, isRequired: false, noun: .batches)
    private static let reason = ValueOption(
        "reason", "TEXT", "why; shown by status and kept in the audit trail")

    static let pause = Command(
        "pause", "send nothing more until resumed", positionals: [pausedBatch],
        options: [everything, reason],
        discussion: """
            Durable: it holds for every replica within a second, and over restarts. Calls in flight finish; \
            notifications are still taken in and statuses read. --all stops every call that changes anything.
            A halted batch stays halted, asks the App Store no more, and waits for `resume`.
            """
    ) { invocation in
        try await setPause(invocation, isPaused: true)
    }

    static let resume = Command(
        "resume", "go on sending", positionals: [pausedBatch], options: [everything, reason],
        discussion: """
            Of a batch also the storefronts that a code has halted; its parked rows are tried at once.
            """
    ) { invocation in
        try await setPause(invocation, isPaused: false)
    }

    private static func setPause(_ invocation: Invocation, isPaused: Bool) async throws -> ExitCode
    {
        let named = invocation.arguments[pausedBatch]
        guard (named != nil) != invocation.arguments[everything] else {
            throw UsageError("give either BATCH or --all")
        }
        return try await invocation.withDatabase { pool, now in
            let found = try await BatchFinder.find(named, pool: pool)
            let id = found?.batchID
            let (isNew, stands) = try await pool.withTransaction { connection in
                guard try isPaused || ControlQueries.isHeldBack(id, on: connection) else {
                    return (false, "")
                }
                let before = try standing(of: id, on: connection)
                let isNew = try ControlQueries.setPause(
                    id, isPaused: isPaused, reason: invocation.arguments[reason], at: now,
                    on: connection)
                let after = try standing(of: id, on: connection)
                return (isNew, isPaused ? pausedWords(before, after) : "")
            }
            let subject = found.map { harmless($0.name) } ?? "everything"
            let said =
                isPaused
                ? stands.isEmpty ? "paused \(subject)" : "\(subject) \(stands)"
                : isNew ? "resumed \(subject)" : "\(subject) is not paused: nothing to resume"
            try invocation.print(
                json: ["batch_id": id, "paused": isPaused, "changed": isNew], said + "\n")
            let word: String? =
                if let id { try await BatchFinder.word(for: id, pool: pool) } else { nil }
            invocation.suggest(
                isPaused ? "resume \(word ?? "--all")" : word.map { "status \($0)" } ?? "status")
            return .done
        }
    }

    private static func standing(
        of batchID: String?, on connection: isolated PostgresConnection
    ) throws -> (any Pausable)? {
        guard let batchID else { return try ServiceControlQueries.everything(on: connection) }
        return try BatchQueries.all(on: connection).first { $0.batchID == batchID }
    }

    /// What was already paused or halted before a pause; empty where nothing was.
    private static func pausedWords(_ before: (any Pausable)?, _ after: (any Pausable)?) -> String {
        guard let before, let after, before.isPaused else { return "" }
        let stop = after.haltedBy == nil ? "paused" : "halted"
        let isHeldByPerson = before.haltedBy == nil || before.alsoPausedBy != nil
        return harmless(
            isHeldByPerson
                ? "is \(stop) already\(after.whoAndWhy)" : "is \(stop)\(after.whoAndWhy)")
    }
}

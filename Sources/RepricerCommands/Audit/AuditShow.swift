import Batches

extension Commands {
    private static let shownBatch = ValueOption(
        "batch", "BATCH", "only what was decided about this batch: \(BatchFinder.meaning)",
        noun: .batches)

    static let auditShow = Command(
        "audit show", "list who decided what, and when", options: [shownBatch],
        discussion:
            "With --json, one object a line. `audit verify` proves that the list is as it was written."
    ) { invocation in
        try await invocation.withPool(try invocation.configuration()) { pool in
            let batch = try await BatchFinder.find(invocation.arguments[shownBatch], pool: pool)
            let wanted = batch.map { "batch:\($0.batchID)" }
            let waiting = try await pool.withTransaction { try AuditQueries.settle(on: $0) }
            var last = Int64.min
            while true {
                let after = last
                let lines = try await pool.withTransaction { connection in
                    try AuditQueries.page(after: after, object: wanted, on: connection)
                }
                for line in lines {
                    try invocation.print(json: json(line), text(line))
                }
                guard let newest = lines.last, lines.count == AuditQueries.linesPerPage else {
                    if waiting > 0 {
                        invocation.note(
                            "\(waiting) more wait for a session that holds the end of the trail")
                    }
                    return .done
                }
                last = newest.sequence
            }
        }
    }

    private static func text(_ line: AuditChain.Line) -> String {
        let details = line.details == "{}" ? "" : "  \(line.details)"
        return harmless(
            "\(line.sequence)  \(line.occurredAt)  \(line.actor)  \(line.action)  \(line.object)\(details)"
        )
            + "\n"
    }

    private static func json(_ line: AuditChain.Line) -> JSONValue {
        [
            "sequence": line.sequence, "occurred_at": line.occurredAt,
            "recorded_at": line.recordedAt, "actor": line.actor, "action": line.action,
            "object": line.object, "details": JSONValue.finished(line.details),
            "previous_hash": line.previousHash, "hash": line.hash,
        ]
    }
}

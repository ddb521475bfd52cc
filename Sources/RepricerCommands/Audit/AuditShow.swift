import Batches

extension Commands {
    private static let shownBatch = ValueOption(
        "batch", "BATCH", "only what was decided about this batch; its id or its name")

    static let auditShow = Command(
        "audit show", "list who decided what, and when", options: [shownBatch],
        discussion:
            "With --json, one object a line. `audit verify` proves that the list is as it was written."
    ) { invocation in
        let configuration = try invocation.configuration()
        return try await invocation.withPool(configuration) { pool in
            var object: String?
            if let name = invocation.arguments[shownBatch] {
                object = "batch:\(try await BatchFinder.find(name, pool: pool).batchID)"
            }
            let wanted = object
            var last = Int64.min
            while true {
                let after = last
                let lines = try await pool.withTransaction { connection in
                    try AuditQueries.page(after: after, object: wanted, on: connection)
                }
                for line in lines {
                    try invocation.print(invocation.isJSON ? json(line).text + "\n" : text(line))
                }
                guard let newest = lines.last, lines.count == AuditQueries.linesPerPage else {
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
        .object([
            "sequence": .integer(line.sequence), "occurred_at": .string(line.occurredAt),
            "recorded_at": .string(line.recordedAt), "actor": .string(line.actor),
            "action": .string(line.action), "object": .string(line.object),
            "details": .finished(line.details), "previous_hash": .string(line.previousHash),
            "hash": .string(line.hash),
        ])
    }
}

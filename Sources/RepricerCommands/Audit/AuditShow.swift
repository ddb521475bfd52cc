import Batches
import JSON
import Reports

extension Commands {
    private static let shownBatch = ValueOption(
        "batch", "BATCH", "only what was decided about this batch: \(BatchFinder.meaning)",
        noun: .batches)

    static let auditShow = Command(
        "audit show", "list who decided what, and when", options: [shownBatch],
        discussion:
            "Piped, each line has all its details as JSON; with --json, it is one object. `audit verify` proves that the list is as it was written."
    ) { invocation in
        try await invocation.withPool(try invocation.configuration()) { pool in
            let batch = try await BatchFinder.find(invocation.arguments[shownBatch], pool: pool)
            let wanted = batch.map { "batch:\($0.batchID)" }
            let waiting = try await pool.withTransaction { try AuditQueries.settle(on: $0) }
            var last = Int64.min
            // On a terminal the list is one text, which a pager shows as a whole.
            let isGathered = invocation.screenRows != nil && !invocation.isJSON
            var gathered = ""
            while true {
                let after = last
                let lines = try await pool.withTransaction { connection in
                    try AuditQueries.page(after: after, object: wanted, on: connection)
                }
                for line in lines {
                    if isGathered {
                        gathered += text(line)
                    } else {
                        try invocation.print(json: json(line), text(line))
                    }
                }
                guard let newest = lines.last, lines.count == AuditQueries.linesPerPage else {
                    if isGathered { try invocation.page(gathered) }
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
        if let columns = Screen.columns { return screenText(line, columns: columns) }
        let details = line.details == "{}" ? "" : "  \(line.details)"
        return harmless(
            "\(line.sequence)  \(line.occurredAt)  \(line.actor)  \(line.action)  \(line.object)\(details)"
        )
            + "\n"
    }

    /// How many characters of a batch's id are shown: enough to identify it.
    private static let idShown = 13
    private static let batchObject = "batch:"

    /// Who did what, with the details in words below it. Programs and files get the line as stored.
    private static func screenText(_ line: AuditChain.Line, columns: Int) -> String {
        // To the second: the instant is in UTC.
        let at = line.occurredAt.prefix(19) + "Z"
        let isOfBatch = line.object.hasPrefix(batchObject)
        let object =
            isOfBatch ? String(line.object.prefix(batchObject.count + idShown)) : line.object
        let head = "\(line.sequence)  \(at)  \(line.actor)  \(line.action)  \(object)"
        let indent = "    "
        let details = brokenText(
            harmless(words(line.details)), width: max(20, columns - indent.count))
        return
            (cellCount(head) <= columns ? harmless(head) : broken(harmless(head), columns: columns))
            + "\n"
            + details.map { indent + $0 + "\n" }.joined()
    }

    /// `{"rows":60,"submitted_by":"ana"}` as `rows 60; submitted by ana`.
    private static func words(_ details: String) -> String {
        guard let root = JSONDocument.read(Array(details.utf8)) else { return details }
        var parts: [String] = []
        root.forEachMember { name, value in
            guard !value.isNull else { return }
            parts.append("\(spaced(name.text ?? "")) \(shown(value))")
        }
        return parts.joined(separator: "; ")
    }

    private static func shown(_ value: JSONNode) -> String {
        if let elements = value.elements { return elements.map(shown).joined(separator: ", ") }
        guard let text = value.text else { return value.raw }
        // A digest says nothing to a person; its beginning is enough to compare two.
        let isDigest = text.utf8.count == 64 && text.allSatisfy(\.isHexDigit)
        return isDigest ? text.prefix(12) + "…" : text
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

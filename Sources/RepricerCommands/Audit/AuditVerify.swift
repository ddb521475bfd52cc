import Batches
import Reports

extension Commands {
    private static let keptHead = ValueOption(
        "head", "HASH",
        "a head that was printed earlier, HASH or NUMBER:HASH; finds a trail cut since")

    static let auditVerify = Command(
        "audit verify", "recompute the audit trail and find what was tampered with",
        options: [keptHead],
        discussion: """
            Names each line that was edited, moved or removed, and each batch, version of the rules, import of past \
            increases, mass extension or closed month that has no line, differs from it or is gone (exit code 1), and prints \
            the head: number and hash of the last line. Keep it where the database's owner cannot write: with --head, lines \
            cut off at the end are found, and a trail that was written anew.
            """
    ) { invocation in
        let kept = try invocation.arguments[keptHead].map { text throws(UsageError) in
            try head(text)
        }
        let bar = invocation.progressBar
        defer { bar.clear() }
        let chain = try await invocation.withPool(try invocation.configuration()) { pool in
            let waiting = try await pool.withTransaction { try AuditQueries.settle(on: $0) }
            var chain = try await pool.withTransaction(.repeatableRead) { connection in
                try AuditQueries.verify(kept: kept, on: connection) { done, total in
                    bar.drawIfLate(
                        done: done, total: total,
                        note: "\(counted(done)) of \(counted(total, "line"))")
                }
            }
            if waiting > 0 { chain.noteWaiting(waiting) }
            return chain
        }
        bar.clear()
        try invocation.print(json: json(chain), text(chain))
        guard chain.findingCount > 0 else { return .done }
        throw CommandFailure(
            .failed, "the audit trail does not hold: \(counted(chain.findingCount, "finding"))")
    }

    /// `HASH` or `NUMBER:HASH`, as printed.
    private static func head(_ text: String) throws(UsageError) -> AuditChain.Head {
        let parts = text.split(separator: ":", omittingEmptySubsequences: false)
        let hash = parts.last.map { $0.lowercased() } ?? ""
        let isHash =
            hash.utf8.count == 64 && hash.utf8.allSatisfy { "0123456789abcdef".utf8.contains($0) }
        let number = parts.count == 2 ? parts.first.flatMap { Int64($0) } : nil
        guard isHash, parts.count == 1 || (number ?? -1) >= 0, parts.count <= 2 else {
            throw UsageError(
                "--head cannot be \(quoted(text)); give the 64 digits that audit verify printed, "
                    + "or NUMBER:HASH")
        }
        return AuditChain.Head(sequence: number, hash: hash)
    }

    private static func text(_ chain: AuditChain) -> String {
        var text = ""
        for finding in chain.findings { text += harmless(finding.message) + "\n" }
        let leftOut = chain.findingCount - chain.findings.count
        if leftOut > 0 { text += "and \(leftOut) more\n" }
        if chain.findingCount == 0 {
            text += "\(counted(chain.lineCount)) lines, all as they were written\n"
        }
        return text + "head \(chain.head.sequence ?? 0):\(harmless(chain.head.hash))\n"
    }

    private static func json(_ chain: AuditChain) -> JSONValue {
        [
            "is_intact": chain.findingCount == 0, "lines": chain.lineCount,
            "head": ["sequence": chain.head.sequence, "hash": chain.head.hash] as JSONValue,
            "findings": chain.findings.map { finding -> JSONValue in
                ["kind": finding.kind.rawValue, "line": finding.line, "message": finding.message]
            }, "finding_count": chain.findingCount,
        ]
    }
}

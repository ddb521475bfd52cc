import Batches

extension Commands {
    private static let keptHead = ValueOption(
        "head", "HASH",
        "a head that was printed earlier, HASH or NUMBER:HASH; finds a trail cut since")

    static let auditVerify = Command(
        "audit verify", "recompute the audit trail and find what was tampered with",
        options: [keptHead],
        discussion: """
            Names each line that was edited, moved or removed (exit code 1), and prints the head: number and hash of \
            the last line. Keep it where the database's owner cannot write: with --head, lines cut off at the end \
            are found, and a trail that was written anew.
            """
    ) { invocation in
        let kept = try invocation.arguments[keptHead].map { text throws(UsageError) in
            try head(text)
        }
        let configuration = try invocation.configuration()
        let chain = try await invocation.withPool(configuration) { pool in
            try await pool.withTransaction(.repeatableRead) { connection in
                try AuditQueries.verify(kept: kept, on: connection)
            }
        }
        try invocation.print(invocation.isJSON ? json(chain).text + "\n" : text(chain))
        guard chain.findingCount > 0 else { return .done }
        throw CommandFailure(
            .failed, "the audit trail does not hold: \(chain.findingCount) findings")
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
            text += "\(chain.lineCount) lines, all as they were written\n"
        }
        return text + "head \(chain.head.sequence ?? 0):\(harmless(chain.head.hash))\n"
    }

    private static func json(_ chain: AuditChain) -> JSONValue {
        .object([
            "is_intact": .bool(chain.findingCount == 0), "lines": .integer(chain.lineCount),
            "head": .object([
                "sequence": .number(chain.head.sequence), "hash": .string(chain.head.hash),
            ]),
            "findings": .array(
                chain.findings.map { finding in
                    .object([
                        "kind": .string(finding.kind.rawValue), "line": .number(finding.line),
                        "message": .string(finding.message),
                    ])
                }),
            "finding_count": .integer(Int64(chain.findingCount)),
        ])
    }
}

import Notifications
import Reports

extension Commands {
    private static let file = Positional(
        "FILE",
        "NDJSON, one {\"signedPayload\":\"…\"} a line; - or nothing is standard input",
        isRequired: false)

    static let ingest = Command(
        "ingest", "take notifications in from a file", positionals: [file],
        discussion: """
            The same checks and the same inbox as over HTTP; what is known already counts as duplicate. Exits 3 \
            when a line was refused. What gzip compressed comes in by `zcat FILE | repricer ingest -`.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        try configuration.check(Live.common)
        let live = try await Live(invocation, configuration)
        let path = invocation.arguments[file] ?? "-"
        return try await invocation.withPool(configuration) { pool in
            let intake = try live.intake(NotificationStore(pool: pool))
            try await pool.withConnection { connection in
                try await ServiceRights.check(on: connection)
                try await AppCheck.bind(configuration, on: connection)
            }
            let reader = IngestReader(intake: intake, threads: live.cores)
            let chunks = try FileChunks(path: path)
            let bar = invocation.progressBar
            defer { bar.clear() }
            do {
                let summary = try await reader.ingest {
                    bar.drawIfLate(read: chunks.bytesRead, of: chunks.size)
                    return try chunks.next()
                }
                bar.clear()
                try tell(summary, of: path, invocation)
                return summary.isClean ? .done : .inputRejected
            } catch let error as IngestError {
                bar.clear()
                // The lines that were stored before the error are reported too, because they stay stored.
                if error.soFar.lines > 0 { try tell(error.soFar, of: path, invocation) }
                let code: ExitCode =
                    switch error.kind {
                    case .away: .unavailable
                    case .outdated: .failed
                    case .unreadable: .inputRejected
                    }
                throw CommandFailure(
                    code, error.description, isAboutFile: error.kind == .unreadable)
            }
        }
    }

    private static func tell(
        _ summary: IngestSummary, of path: String, _ invocation: Invocation
    ) throws {
        for problem in summary.problems {
            invocation.dependencies.sayPlainly("\(path):\(problem.line): \(problem.refusal)\n")
        }
        try invocation.print(json: json(summary), text(summary))
    }

    private static func text(_ summary: IngestSummary) -> String {
        var parts = [
            "\(counted(summary.lines)) lines", "\(counted(summary.new)) new",
            "\(counted(summary.duplicate)) duplicate",
        ]
        if summary.notUnderstood > 0 {
            parts.append("\(counted(summary.notUnderstood)) not understood")
        }
        if summary.malformed > 0 { parts.append("\(counted(summary.malformed)) malformed") }
        if summary.refusedCount > 0 { parts.append("\(counted(summary.refusedCount)) refused") }
        return parts.joined(separator: ", ") + "\n"
    }

    private static func json(_ summary: IngestSummary) -> JSONValue {
        [
            "lines": summary.lines, "new": summary.new, "duplicate": summary.duplicate,
            "not_understood": summary.notUnderstood, "malformed": summary.malformed,
            "refused": summary.refused,
        ]
    }
}

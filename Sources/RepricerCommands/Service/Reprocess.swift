import Notifications
import Postgres
import Pricing
import Reports
import ServiceKit

extension Commands {
    private static let reprocessSince = ValueOption(
        "since", "INSTANT", "read what was received since then, as 2026-12-01T00:00:00Z")
    private static let reprocessAll = Flag(
        "all", "also read what was understood, and fold all of it again")

    static let reprocess = Command(
        "reprocess", "read stored notifications anew after an upgrade",
        options: [reprocessSince, reprocessAll],
        discussion: """
            Reads the notifications of that time that were not understood, in whole or in part, and those that \
            folding quarantined. What reads differently today goes into the inbox again. The service may run \
            meanwhile; a second run finds nothing left to do.
            """
    ) { invocation in
        guard let since = try invocation.arguments.instant(reprocessSince) else {
            throw UsageError("--since is needed: from when on to read, as 2026-12-01T00:00:00Z")
        }
        let isAll = invocation.arguments[reprocessAll]
        let configuration = try invocation.configuration()
        let now = try await invocation.now(configuration)
        guard since < now.milliseconds else {
            throw UsageError(
                "--since \(Instant(milliseconds: since).text) does not lie before now, \(now.text)")
        }
        return try await invocation.withPool(configuration) { pool in
            try await pool.withConnection { try await ServiceRights.check(on: $0) }
            let log = invocation.log("reprocess", level: .info)
            let bar = invocation.progressBar
            defer { bar.clear() }
            let summary = try await Reprocessor(pool: pool, log: log).run(since: since, all: isAll)
            {
                bar.drawIfLate(
                    done: 0, total: 0, note: counted(Int64($0.read), "notification") + " read")
            }
            bar.clear()
            try invocation.print(json: json(summary), text(summary))
            return summary.damaged == 0 ? .done : .failed
        }
    }

    private static func text(_ summary: Reprocessor.Summary) -> String {
        var parts = [
            "\(summary.read) read", "\(summary.requeued) in the inbox again",
            "\(summary.corrected) corrected", "\(summary.unchanged) as before",
        ]
        if summary.damaged > 0 { parts.append("\(summary.damaged) damaged") }
        return parts.joined(separator: ", ")
            + "; \(summary.stillNotUnderstood) still not understood\n"
    }

    private static func json(_ summary: Reprocessor.Summary) -> JSONValue {
        [
            "read": summary.read, "requeued": summary.requeued, "corrected": summary.corrected,
            "unchanged": summary.unchanged, "damaged": summary.damaged,
            "still_not_understood": summary.stillNotUnderstood,
        ]
    }
}

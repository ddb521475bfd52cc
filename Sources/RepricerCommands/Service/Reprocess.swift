import Notifications
import Postgres
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
            folding set aside. What reads differently today goes into the inbox again. The service may run \
            meanwhile; a second run finds nothing left to do.
            """
    ) { invocation in
        guard let since = try invocation.arguments.instant(reprocessSince) else {
            throw UsageError("--since is needed: from when on to read, as 2026-12-01T00:00:00Z")
        }
        let configuration = try invocation.configuration()
        let isAll = invocation.arguments[reprocessAll]
        return try await invocation.withPool(configuration) { pool in
            try await pool.withConnection { try await ServiceRights.check(on: $0) }
            let log = Log(component: "reprocess", clock: invocation.world.realClock) {
                invocation.world.sayPlainly($0 + "\n")
            }
            let summary = try await Reprocessor(pool: pool, log: log).run(since: since, all: isAll)
            try invocation.print(invocation.isJSON ? json(summary).text + "\n" : text(summary))
            return summary.damaged == 0 ? .done : .failed
        }
    }

    private static func text(_ summary: Reprocessor.Summary) -> String {
        var parts = [
            "\(summary.read) read", "\(summary.putBack) in the inbox again",
            "\(summary.corrected) corrected", "\(summary.unchanged) as before",
        ]
        if summary.damaged > 0 { parts.append("\(summary.damaged) damaged") }
        return parts.joined(separator: ", ")
            + "; \(summary.stillNotUnderstood) still not understood\n"
    }

    private static func json(_ summary: Reprocessor.Summary) -> JSONValue {
        .object([
            "read": .integer(Int64(summary.read)), "put_back": .integer(Int64(summary.putBack)),
            "corrected": .integer(Int64(summary.corrected)),
            "unchanged": .integer(Int64(summary.unchanged)),
            "damaged": .integer(Int64(summary.damaged)),
            "still_not_understood": .integer(Int64(summary.stillNotUnderstood)),
        ])
    }
}

import Batches
import Pricing
import Reconciliation
import Reports
import ServiceKit

extension Commands {
    private static let ids = Positional(
        "FILE",
        "original transaction ids, one a line, or a CSV file with that column; - is standard input")
    static let sync = Command(
        "sync", "load the state of given subscriptions from the App Store", positionals: [ids],
        discussion: """
            Asks at REPRICER_STATUS_RATE, all processes together. Stopped in its middle, the same file again goes \
            on where it stood; after its end it begins anew. Facts that differ from Apple's are corrected and told. \
            Exits 3 when a line is no id or the App Store does not know an id, 6 when it is away.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        try configuration.check(Live.reconciling)
        let live = try await Live(invocation, configuration)
        let path = try invocation.arguments.required(ids)
        return try await invocation.withPool(configuration, size: 4) { pool in
            try await pool.withConnection { try await ServiceRights.check(on: $0) }
            let synchronizer = Synchronizer(
                pool: pool, runner: try live.checks(pool, log: invocation.log()), clock: live.clock)
            let input = try BatchInput(path: path)
            let loaded = try await synchronizer.load(input) { fault, line in
                invocation.dependencies.sayPlainly(fault.text(file: path, line: line) + "\n")
            }
            guard loaded.ids > 0 else {
                throw CommandFailure(
                    .inputRejected, "\(path): empty_file: the file has no ids; write one a line",
                    isAboutFile: true)
            }
            return try await run(synchronizer, loaded, path, invocation)
        }
    }

    private static func run(
        _ synchronizer: Synchronizer, _ loaded: Synchronizer.Loaded, _ path: String,
        _ invocation: Invocation
    ) async throws -> ExitCode {
        if loaded.doneBefore > 0 {
            invocation.note(
                "going on: \(counted(loaded.doneBefore)) of \(counted(loaded.ids)) were read before"
            )
        }
        let bar = invocation.progressBar
        var checks = StatusCheckSummary()
        var failure: (any Error)?
        do {
            try await synchronizer.run(loaded.list, into: &checks) { checks in
                let done = loaded.doneBefore + Int64(checks.done)
                bar.drawIfLate(
                    done: done, total: loaded.ids,
                    note:
                        "\(counted(done)) of \(counted(loaded.ids)), \(counted(checks.drifted)) drifted"
                )
            }
        } catch {
            failure = error
        }
        bar.clear()
        return try await tell(synchronizer, loaded, checks, failure, path, invocation)
    }

    private static func tell(
        _ synchronizer: Synchronizer, _ loaded: Synchronizer.Loaded, _ checks: StatusCheckSummary,
        _ failure: (any Error)?, _ path: String, _ invocation: Invocation
    ) async throws -> ExitCode {
        try await synchronizer.forEachProblem(of: loaded.list) { problem in
            let text = "\(path):\(problem.line): \(problem.outcome.rawValue): "
            invocation.dependencies.sayPlainly(
                text + "\(problem.originalTransactionID): \(problem.detail)\n")
        }
        let counts = try await synchronizer.counts(of: loaded.list)
        let text = SyncText(loaded: loaded, counts: counts, checks: checks)
        try invocation.print(json: text.json, text.text)
        if let failure { throw commandFailure(failure) }
        try await synchronizer.forget(loaded.list)
        return loaded.faults == 0 && text.unread == 0 ? .done : .inputRejected
    }
}

/// The summary of the whole list as text and JSON, including what earlier runs read.
struct SyncText {
    let loaded: Synchronizer.Loaded
    let counts: StatusCheckQueries.Counts
    let checks: StatusCheckSummary

    private func count(_ outcome: StatusCheckQueries.Outcome) -> Int64 {
        counts.outcomes[outcome, default: 0]
    }

    private var read: Int64 { count(.read) + count(.drifted) }
    var unread: Int64 { counts.wanted - counts.open - read }

    var text: String {
        definitionList([
            (
                "ids",
                "\(counts.wanted), \(loaded.duplicates) duplicate, \(counted(loaded.faults, "bad line"))"
            ),
            ("read", "\(read)" + earlier),
            ("not found", "\(count(.notFound))"),
            ("refused", "\(count(.refused) + count(.unreadable) + count(.unanswered))"),
            ("still open", "\(counts.open)"),
            ("drift", counted(count(.drifted), "subscription")),
        ]) + checks.driftTable
    }

    private var earlier: String {
        loaded.doneBefore > 0 ? ", \(loaded.doneBefore) of all by an earlier run" : ""
    }

    var json: JSONValue {
        [
            "complete": counts.open == 0, "lines": loaded.lines, "bad_lines": loaded.faults,
            "duplicates": loaded.duplicates, "ids": counts.wanted,
            "done_before": loaded.doneBefore, "read": read, "not_found": count(.notFound),
            "refused": count(.refused), "unreadable": count(.unreadable),
            "unanswered": count(.unanswered), "open": counts.open, "drifted": count(.drifted),
            "statuses": checks.json,
        ]
    }
}

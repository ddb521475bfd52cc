import AppStore
import Calls
import Pricing
import Reconciliation
import ServiceKit

extension Commands {
    private static let since = ValueOption(
        "since", "INSTANT", "read the notification history from here, as 2026-12-01T00:00:00Z")
    /// How long a reconciler elsewhere is waited for.
    private static let waitMax: Duration = .seconds(600)
    private static let waitStep: Duration = .milliseconds(500)

    static let reconcile = Command(
        "reconcile", "close gaps: missed notifications, unknown outcomes, silent changes",
        options: [since],
        discussion: """
            Reads Apple's notification history from where the last reading ended (180 days at most; 30 in Sandbox), \
            failed ones first; each goes the way of one that arrives over HTTP. Then reads the statuses of \
            subscriptions with a call of unknown outcome or a change silent for REPRICER_SILENT_AFTER, and tells \
            where our facts differed. It sends no price change. Stopped in its middle, it goes on from there; exits \
            6 when the App Store or the database is away.
            """
    ) { invocation in
        let configuration = try invocation.configuration()
        try configuration.check(Live.reconciling)
        let live = try await Live(invocation, configuration)
        let since = try invocation.arguments.instant(since).map { Instant(milliseconds: $0) }
        let now = Instant(milliseconds: live.clock.nowMilliseconds())
        if let since, since >= now {
            throw UsageError("--since \(since.text) does not lie before now, \(now.text)")
        }
        let log = Log(component: "repricer", level: .warning, clock: live.realClock) {
            invocation.world.sayPlainly($0 + "\n")
        }
        return try await invocation.withPool(configuration, size: 6) { pool in
            try await pool.withConnection { try await ServiceRights.check(on: $0) }
            let bar = ProgressBar(world: invocation.world, isQuiet: invocation.isQuiet)
            let reconciler = try live.reconciler(pool, log: log)
            let (summary, failure) = try await run(reconciler, since, bar, invocation)
            bar.clear()
            try tell(summary, failure, configuration, invocation)
            return try exitCode(failure)
        }
    }

    /// Waits for a reconciler that runs elsewhere, as `serve` does.
    private static func run(
        _ reconciler: Reconciler, _ since: Instant?, _ bar: ProgressBar, _ invocation: Invocation
    ) async throws -> (summary: Reconciler.Summary, failure: (any Error)?) {
        var waited: Duration = .zero
        while true {
            let result = try await reconciler.runOnce(since: since) { history in
                bar.draw(
                    done: 0, total: 0,
                    note: "history: \(history.pages) pages, \(history.new) missed")
            }
            if let result { return result }
            if waited == .zero { invocation.note("another process reconciles; waiting for it") }
            guard waited < waitMax else {
                throw CommandFailure(
                    .conflict, "another process has been reconciling for long; try again later")
            }
            try await Task.sleep(for: waitStep)
            waited += waitStep
        }
    }

    private static func exitCode(_ failure: (any Error)?) throws -> ExitCode {
        guard let failure else { return .done }
        throw commandFailure(failure)
    }

    /// What stopped reading from the App Store, with its exit code.
    static func commandFailure(_ failure: any Error) -> any Error {
        if failure is LongSilence { return CommandFailure(.unavailable, "\(failure)") }
        guard let error = failure as? ReconcileError else { return failure }
        switch error {
        case .storeAway, .databaseAway: return CommandFailure(.unavailable, "\(error)")
        case .refused, .brokenAnswer: return CommandFailure(.failed, "\(error)")
        case .leaseLost: return CommandFailure(.conflict, "\(error)")
        }
    }

    private static func tell(
        _ summary: Reconciler.Summary, _ failure: (any Error)?, _ configuration: Configuration,
        _ invocation: Invocation
    ) throws {
        if summary.history.isCutShort, let from = summary.history.since {
            let days = NotificationHistoryRequest.days(configuration.environment ?? .production)
            invocation.note(
                "Apple keeps notifications for \(days) days: the history is read from \(from.text)")
        }
        let text = ReconcileText(summary: summary, isComplete: failure == nil)
        try invocation.print(invocation.isJSON ? text.json.text + "\n" : text.text)
    }
}

/// The summary as text and JSON.
struct ReconcileText {
    let summary: Reconciler.Summary
    let isComplete: Bool

    var text: String {
        let history = summary.history
        var rows = [
            ("history", span),
            ("pages", "\(history.pages)"),
            (
                "notifications",
                "\(history.seen) seen, \(history.new) new, \(history.duplicate) duplicate, "
                    + "\(history.refusedCount) refused"
            ),
        ]
        if history.unreadable > 0 { rows.append(("without payload", "\(history.unreadable)")) }
        for (code, count) in history.refused.sorted(by: { $0.key < $1.key }) {
            rows.append(("refused", "\(count) \(code)"))
        }
        rows += [
            ("folded", "\(summary.folded)"),
            (
                "unknown outcomes",
                "\(summary.unknownLooked) looked at, \(summary.unknownSettled) settled"
            ),
            ("silent changes", "\(summary.silent) subscriptions to look at"),
        ]
        return definitionList(rows + LookText(summary.looks).rows)
            + LookText(summary.looks).driftTable
    }

    private var span: String {
        guard let since = summary.history.since else { return "not read" }
        let end = summary.history.through.map { "to \($0.text)" } ?? "not read to its end"
        return "from \(since.text) \(end)"
    }

    var json: JSONValue {
        let history = summary.history
        return .object([
            "complete": .bool(isComplete),
            "history": .object([
                "since": .text(history.since?.text), "through": .text(history.through?.text),
                "cut_short": .bool(history.isCutShort), "pages": .integer(Int64(history.pages)),
                "seen": .integer(Int64(history.seen)), "new": .integer(Int64(history.new)),
                "duplicate": .integer(Int64(history.duplicate)),
                "refused": .counts(history.refused.mapValues(Int64.init)),
                "unreadable": .integer(Int64(history.unreadable)),
                "restarts": .integer(Int64(history.restarts)),
            ]),
            "folded": .integer(Int64(summary.folded)),
            "unknown": .object([
                "looked": .integer(Int64(summary.unknownLooked)),
                "settled": .integer(Int64(summary.unknownSettled)),
            ]),
            "silent": .integer(Int64(summary.silent)),
            "statuses": LookText(summary.looks).json,
        ])
    }
}

/// What looks brought, as text and JSON.
struct LookText {
    let looks: LookSummary

    init(_ looks: LookSummary) {
        self.looks = looks
    }

    private func count(_ outcome: LookQueries.Outcome) -> Int {
        looks.outcomes[outcome, default: 0]
    }

    var rows: [(String, String)] {
        var parts = ["\(looks.read) read"]
        for outcome in [LookQueries.Outcome.notFound, .refused, .unreadable, .unanswered]
        where count(outcome) > 0 {
            let name = outcome.rawValue.map { $0 == "_" ? " " : $0 }
            parts.append("\(count(outcome)) \(String(name))")
        }
        return [
            ("statuses", parts.joined(separator: ", ")),
            ("drift", "\(looks.drifted) subscriptions"),
        ]
    }

    /// One line a field that differed.
    var driftTable: String {
        guard !looks.driftLines.isEmpty else { return "" }
        var table = Table([.left("SUBSCRIPTION"), .left("FIELD"), .left("OURS"), .left("APPLE'S")])
        for line in looks.driftLines {
            for drift in line.drifts {
                table.add([line.originalTransactionID, drift.field, drift.ours, drift.apples])
            }
        }
        let more = looks.drifted - looks.driftLines.count
        return "\n" + table.text + (more > 0 ? "… and \(more) more subscriptions\n" : "")
    }

    var json: JSONValue {
        .object([
            "read": .integer(Int64(looks.read)),
            "not_found": .integer(Int64(count(.notFound))),
            "refused": .integer(Int64(count(.refused))),
            "unreadable": .integer(Int64(count(.unreadable))),
            "unanswered": .integer(Int64(count(.unanswered))),
            "retries": .integer(Int64(looks.retries)),
            "drifted": .integer(Int64(looks.drifted)),
            "drift_fields": .counts(looks.driftFields.mapValues(Int64.init)),
            "drift": .array(
                looks.driftLines.flatMap { line in
                    line.drifts.map { drift in
                        .object([
                            "original_transaction_id": .string(line.originalTransactionID),
                            "field": .string(drift.field), "ours": .string(drift.ours),
                            "apples": .string(drift.apples),
                        ])
                    }
                }),
        ])
    }
}

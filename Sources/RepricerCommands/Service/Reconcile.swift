import AppStore
import Calls
import Pricing
import Reconciliation
import Reports
import ServiceKit

extension Commands {
    private static let since = ValueOption(
        "since", "INSTANT", "read the notification history from here, as 2026-12-01T00:00:00Z")
    /// How long it waits for a reconciler in another process.
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
        let since = try invocation.arguments.instant(since).map { Instant(milliseconds: $0) }
        let configuration = try invocation.configuration()
        try configuration.check(Live.reconciling)
        let live = try await Live(invocation, configuration)
        let now = Instant(milliseconds: live.clock.nowMilliseconds())
        if let since, since >= now {
            throw UsageError("--since \(since.text) does not lie before now, \(now.text)")
        }
        return try await invocation.withPool(configuration, size: 6) { pool in
            try await pool.withConnection { try await ServiceRights.check(on: $0) }
            try await DecidingClock.check(configuration, pool)
            let bar = invocation.progressBar
            let reconciler = try live.reconciler(pool, log: invocation.log())
            let (summary, failure) = try await run(reconciler, since, bar, invocation)
            bar.clear()
            try tell(summary, failure, configuration, invocation)
            if let failure { throw commandFailure(failure) }
            return .done
        }
    }

    private static func run(
        _ reconciler: Reconciler, _ since: Instant?, _ bar: ProgressBar, _ invocation: Invocation
    ) async throws -> (summary: Reconciler.Summary, failure: (any Error)?) {
        try await whenFree(invocation) {
            try await reconciler.runOnce(since: since) { history in
                bar.drawIfLate(
                    done: 0, total: 0,
                    note:
                        "history: \(counted(history.pages, "page")), \(counted(history.new)) missed"
                )
            }
        }
    }

    /// Repeats `body` while it returns nil, because another process reconciles.
    static func whenFree<Value>(
        _ invocation: Invocation, _ body: () async throws -> Value?
    ) async throws -> Value {
        var waited: Duration = .zero
        while true {
            if let result = try await body() { return result }
            if waited == .zero { invocation.note("another process reconciles; waiting for it") }
            guard waited < waitMax else {
                throw CommandFailure(
                    .conflict, "another process has been reconciling for long; try again later")
            }
            try await Task.sleep(for: waitStep)
            waited += waitStep
        }
    }

    /// The failure that stopped reading from the App Store, with its exit code.
    static func commandFailure(_ failure: any Error) -> any Error {
        if failure is LongSilence { return CommandFailure(.unavailable, "\(failure)") }
        guard let error = failure as? ReconcileError else { return failure }
        switch error {
        case .storeAway, .databaseAway: return CommandFailure(.unavailable, "\(error)")
        case .refused, .untaken, .brokenAnswer, .outdated:
            return CommandFailure(.failed, "\(error)")
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
        try invocation.print(json: text.json, text.text)
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
                "\(summary.unknownChecked) checked, \(summary.unknownSettled) settled"
            ),
            ("silent changes", "\(summary.silent) subscriptions to check"),
        ]
        return definitionList(rows + summary.checks.rows) + summary.checks.driftTable
    }

    private var span: String {
        guard let since = summary.history.since else { return "not read" }
        let end = summary.history.through.map { "to \($0.text)" } ?? "not read to its end"
        return "from \(since.text) \(end)"
    }

    var json: JSONValue {
        let history = summary.history
        return [
            "complete": isComplete,
            "history": [
                "since": history.since, "through": history.through,
                "cut_short": history.isCutShort, "pages": history.pages, "seen": history.seen,
                "new": history.new, "duplicate": history.duplicate, "refused": history.refused,
                "unreadable": history.unreadable, "restarts": history.restarts,
            ] as JSONValue, "folded": summary.folded,
            "unknown": [
                "checked": summary.unknownChecked, "settled": summary.unknownSettled,
            ] as JSONValue, "silent": summary.silent, "statuses": summary.checks.json,
        ]
    }
}

/// The results of status checks, as text and JSON.
extension StatusCheckSummary {
    private func count(_ outcome: StatusCheckQueries.Outcome) -> Int {
        outcomes[outcome, default: 0]
    }

    fileprivate var rows: [(String, String)] {
        var parts = ["\(read) read"]
        for outcome in [StatusCheckQueries.Outcome.notFound, .refused, .unreadable, .unanswered]
        where count(outcome) > 0 {
            parts.append("\(count(outcome)) \(outcome.rawValue.replacing("_", with: " "))")
        }
        return [
            ("statuses", parts.joined(separator: ", ")), ("drift", "\(drifted) subscriptions"),
        ]
    }

    private static let driftColumns: [Column<(id: String, drift: Drift)>] = [
        .text("SUBSCRIPTION", "original_transaction_id") { $0.id },
        .text("FIELD", "field") { $0.drift.field }, .text("OURS", "ours") { $0.drift.ours },
        .text("APPLE'S", "apples") { $0.drift.apples },
    ]

    private var driftRows: [(id: String, drift: Drift)] {
        driftLines.flatMap { line in line.drifts.map { (line.originalTransactionID, $0) } }
    }

    /// One line for each field that differed.
    var driftTable: String {
        guard !driftLines.isEmpty else { return "" }
        let more = drifted - driftLines.count
        return "\n" + driftRows.table(Self.driftColumns, isShownEmpty: true)
            + (more > 0 ? "… and \(more) more subscriptions\n" : "")
    }

    var json: JSONValue {
        [
            "read": read, "not_found": count(.notFound), "refused": count(.refused),
            "unreadable": count(.unreadable), "unanswered": count(.unanswered),
            "retries": retries, "drifted": drifted, "drift_fields": driftFields,
            "drift": driftRows.json(Self.driftColumns),
        ]
    }
}

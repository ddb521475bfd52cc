import Facts
import Pricing
import Reconciliation
import Reports
import ServiceKit

extension Commands {
    private static let lostSince = ValueOption(
        "lost-since", "INSTANT", "the last instant that the database surely knows, as of its backup"
    )
    private static let dryRun = Flag("dry-run", "say what would be asked; write nothing")

    static let recover = Command(
        "recover", "after a restore or a failover with loss: learn what was called and forgotten",
        options: [lostSince, dryRun],
        discussion: """
            Holds all calls back, reads Apple's notification history since then, and asks the status of every \
            subscription with a row that may have been called. A row whose very price Apple shows is adopted: it goes \
            on as scheduled. The others are released and sent as planned. Rows whose status can't be read wait a day, \
            and are named. Then calls go on. Stopped in its middle, calls stay held back: run it again with the same \
            instant. Exits 1 when a status could not be read, 6 when the App Store or the database is away.
            """
    ) { invocation in
        let instant = try invocation.arguments.instant(lostSince)
        guard let since = instant.map({ Instant(milliseconds: $0) }) else {
            throw UsageError("--lost-since is missing: give the instant of the backup")
        }
        let configuration = try invocation.configuration()
        try configuration.check(Live.reconciling)
        let live = try await Live(invocation, configuration)
        let now = Instant(milliseconds: live.clock.nowMilliseconds())
        guard since < now else {
            throw UsageError("--lost-since \(since.text) does not lie before now, \(now.text)")
        }
        return try await invocation.withPool(configuration, size: 6) { pool in
            try await pool.withConnection { try await ServiceRights.check(on: $0) }
            let recovery = try live.recovery(pool, since: since, log: invocation.log())
            let former = try await recovery.former()
            if let former { invocation.note(former.text(since: since)) }
            guard !invocation.arguments[dryRun] else {
                try tell(try await recovery.scope(), configuration, invocation)
                return .done
            }
            let outcome = try await recovered(recovery, invocation)
            let text = RecoverText(lostSince: since, outcome: outcome, former: former)
            try invocation.print(json: text.json, text.text)
            return outcome.unreadSubscriptions == 0 ? .done : .failed
        }
    }

    private static func tell(
        _ scope: RecoveryQueries.Scope, _ configuration: Configuration, _ invocation: Invocation
    ) throws {
        let rate = configuration.statusRate?.perSecond ?? 1
        try invocation.print(
            json: [
                "changes": scope.changes, "open_calls": scope.openCalls,
                "subscriptions": scope.subscriptions,
            ],
            definitionList([
                ("rows that may have been called", "\(scope.changes)"),
                ("calls without an outcome", "\(scope.openCalls)"),
                (
                    "subscriptions to ask",
                    "\(scope.subscriptions), about \(Int(Double(scope.subscriptions) / rate / 60) + 1) min"
                ),
            ]) + "nothing was written\n")
    }

    private static func recovered(
        _ recovery: Recovery, _ invocation: Invocation
    ) async throws -> RecoveryQueries.Outcome {
        let changes = try await recovery.begin()
        invocation.note("calls are held back; \(changes) rows may have been called")
        invocation.note("waiting until no call can be on its way any more")
        try await recovery.waitForFlight()
        let bar = invocation.progressBar
        do {
            let history = try await whenFree(invocation) {
                try await recovery.readHistory { history in
                    bar.drawIfLate(
                        done: 0, total: 0,
                        note:
                            "history: \(counted(history.pages, "page")), \(counted(history.new)) new"
                    )
                }
            }
            if let failure = history.failure { throw failure }
            invocation.note("history: \(history.summary.history.new) notifications were missing")
            try await recovery.readStatuses { checks in
                bar.drawIfLate(
                    done: 0, total: 0, note: "statuses: \(counted(checks.done)) asked")
            }
        } catch {
            bar.clear()
            invocation.note(
                "calls stay held back; run `recover --lost-since \(recovery.lostSince.text)` again")
            throw commandFailure(error)
        }
        bar.clear()
        return try await recovery.end()
    }
}

/// The result of a recovery, as text and JSON.
struct RecoverText {
    let lostSince: Instant
    let outcome: RecoveryQueries.Outcome
    let former: RecoveryQueries.Former?

    private static let columns: [Column<RecoveryQueries.Outcome.Batch>] = [
        .text("BATCH", "name") { harmless($0.name) },
        .key("batch_id") { $0.batchID },
        .number("ADOPTED", "adopted") { $0.adopted },
        .number("RELEASED", "released") { $0.released },
        .number("ENDED", "ended") { $0.ended },
        .number("NOT READ", "not_read") { $0.unread },
    ]

    private static let unreadColumns: [Column<RecoveryQueries.Outcome.Unread>] = [
        .key("original_transaction_id") { $0.originalTransactionID }, .key("why") { $0.why },
    ]

    var text: String {
        var lines = outcome.batches.table(Self.columns, isShownEmpty: true)
        lines += """
            adopted: Apple shows the row's very price; released: Apple does not have it, it is sent as planned; \
            ended: it had ended here, and Apple does not have it

            """
        if outcome.openCalls > 0 {
            lines +=
                outcome.openCalls == 1
                ? "1 call has no outcome yet: it is checked before anything is sent\n"
                : "\(outcome.openCalls) calls have no outcome yet: they are checked before anything is sent\n"
        }
        for unread in outcome.unread {
            lines += "not read: \(unread.originalTransactionID): \(harmless(unread.why))\n"
        }
        let more = outcome.unreadSubscriptions - outcome.unread.count
        if more > 0 { lines += "… and \(more) more\n" }
        if outcome.batches.contains(where: { $0.unread > 0 }) {
            lines += "their rows wait a day; run recover again to ask once more\n"
        } else if outcome.unreadSubscriptions > 0 {
            lines += "no row waits for them: what became of theirs was told by notifications\n"
        }
        return lines
            + (outcome.isPaused
                ? "everything is paused still: `repricer resume --all`" : "calls go on")
            + "; `report reconciliation` names what is left\n"
    }

    var json: JSONValue {
        [
            "lost_since": lostSince, "batches": outcome.batches.json(Self.columns),
            "open_calls": outcome.openCalls, "not_read": outcome.unreadSubscriptions,
            "not_read_first": outcome.unread.json(Self.unreadColumns),
            "recovered_before_at": former?.at.instantText,
        ]
    }
}

extension RecoveryQueries.Former {
    fileprivate func text(since: Instant) -> String {
        "recovered since \(since.text) already, at \(at.instantText) by \(harmless(by)): \(adopted) rows adopted, "
            + "\(released) released, \(ended) ended, \(unread) subscriptions not read"
    }
}

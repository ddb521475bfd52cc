import Batches
import Facts
import Postgres
import Pricing
import Reconciliation
import Reports
import ServiceKit

/// Everything that `status` shows, read in one transaction.
struct StatusFacts: Sendable, Equatable {
    let batch: BatchQueries.Batch?
    /// Who approved the requested batch, where it needs another approver.
    let firstApprovers: [String]
    /// All batches, the oldest first.
    let batches: [BatchQueries.Batch]
    let states: [String: Int64]
    let rejected: [String: Int64]
    let dependents: [String: Int64]
    let everything: ServiceControlQueries.Everything
    /// The waves of the requested batch.
    let waves: [ControlQueries.Wave]
    let guards: [GuardReading]
    /// Those of the requested batch, or else of all approved ones. Without a batch only refused rows that wait are
    /// read.
    let haltedStorefronts: [ControlQueries.HaltedStorefront]
    let refused: [StatusQueries.Refused]
    /// Whether there are more of them than are listed.
    let hasMoreRefused: Bool
    /// Parked extensions, and cancellations without an answer, where no batch was requested.
    let parkedBesides: [StatusQueries.Refused]
    /// The rows that were refused, or put back before they were sent, by batch, of batches that a code has halted.
    let putBack: [String: Int64]
    let moved: [TroubleQueries.Moved]
    /// The rows that would be late at the allowed rate, of the requested batch, or else of all approved ones.
    let lateRows: [OpenCallQueries.Late]
    /// Whether late rows were counted, because the allowed rate is known and they were requested.
    let knowsLate: Bool
    /// The waiting waves of the requested batch, or else of all.
    let waitingWaves: [TroubleQueries.WaitingWave]
    let outlook: StatusQueries.Outlook
    /// Set where changes are due and no process delivers them.
    let undelivered: UndeliveredQueries.Undelivered?
    let quotas: [StatusQueries.Quota]
    /// nil where one batch was requested, because notifications belong to no batch.
    let notifications: StatusQueries.Notifications?
    let staleness: StalenessQueries.Staleness

    /// More would hide the rest of the output, and the report has them all.
    private static let refusedMax = 20
    private static let movedMax = 5

    static func read(
        batchID: String?, now: Int64, silentAfter: Duration, rate: Configuration.CallRate?,
        pool: PostgresPool
    ) async throws -> StatusFacts {
        try await pool.withTransaction(.repeatableRead) { connection in
            let all = try BatchQueries.all(on: connection)
            let (states, outlook) = try StatusQueries.tally(
                batchID: batchID, now: now, on: connection)
            let dependents = try BatchQueries.dependentCounts(batchID: batchID, on: connection)
            let refused =
                try batchID == nil && outlook.trouble.parked == 0
                && dependents["requested", default: 0] == 0
                ? []
                : StatusQueries.refused(of: batchID, limit: refusedMax + 1, on: connection)
            let besides =
                try batchID == nil
                ? ParkedWorkQueries.besidesBatches(limit: refusedMax + 1, on: connection) : []
            return StatusFacts(
                batch: batchID.flatMap { id in all.first { $0.batchID == id } },
                firstApprovers: try batchID.map {
                    try ShowQueries.firstApprovers(of: $0, on: connection)
                } ?? [],
                batches: all,
                states: states,
                rejected: try BatchQueries.rejectCounts(batchID: batchID, on: connection),
                dependents: dependents,
                everything: try ServiceControlQueries.everything(on: connection),
                waves: try batchID.map { try ControlQueries.waves(of: $0, on: connection) } ?? [],
                guards: try batchID.map { try guards(of: $0, now: now, on: connection) } ?? [],
                haltedStorefronts: try ControlQueries.haltedStorefronts(
                    of: batchID, on: connection),
                refused: Array(refused.prefix(refusedMax)),
                hasMoreRefused: refused.count > refusedMax || besides.count > refusedMax,
                parkedBesides: Array(besides.prefix(refusedMax)),
                putBack: try StatusQueries.putBack(
                    of: all.filter { $0.isHaltedByCode && batchID ?? $0.batchID == $0.batchID }
                        .map(\.batchID), on: connection),
                moved: try outlook.trouble.moved == 0
                    ? []
                    : batchID.map {
                        try TroubleQueries.moved(of: $0, limit: movedMax, on: connection)
                    } ?? [],
                lateRows: try rate.map {
                    try LateRows.counts(of: batchID, $0, now: now, on: connection)
                } ?? [], knowsLate: rate != nil,
                waitingWaves: try TroubleQueries.waitingWaves(
                    of: batchID, now: now, on: connection), outlook: outlook,
                undelivered: try UndeliveredQueries.find(now: now, on: connection),
                quotas: try StatusQueries.quotas(on: connection),
                notifications: batchID == nil
                    ? try StatusQueries.notifications(on: connection) : nil,
                staleness: try StalenessQueries.read(
                    now: now, margin: silentAfter.milliseconds, of: batchID, on: connection))
        }
    }

    /// The newest first, for people.
    var newestBatches: [BatchQueries.Batch] { batches.reversed() }

    private static func guards(
        of batchID: String, now: Int64, on connection: isolated PostgresConnection
    ) throws -> [GuardReading] {
        let (rails, countFrom) = try GuardQueries.rails(of: batchID, on: connection)
        guard !rails.isEmpty else { return [] }
        // It is counted here only if the service has not counted yet, because a million rows take a second.
        let kept = try GuardQueries.reading(of: batchID, on: connection)
        let counts =
            try kept?.counts
            ?? GuardQueries.counts(
                of: batchID, since: countFrom, figures: Set(rails.map(\.figure)), now: now,
                on: connection)
        return rails.compactMap { rail in
            counts[rail.figure].map { GuardReading(rail: rail, count: $0, countedAt: kept?.at) }
        }
    }

    var rowCount: Int64 { states.values.reduce(0, +) }

    var finalCount: Int64 {
        states.filter { ChangeState(rawValue: $0.key)?.isFinal ?? false }.values.reduce(0, +)
    }

    /// The rows that the App Store has, or that need no call any more.
    var deliveredCount: Int64 { rowCount - count(.awaitingApproval, .queued, .sending, .unknown) }

    /// Those of them for which no customer's answer is awaited any more.
    var answeredCount: Int64 { deliveredCount - count(.scheduled, .pendingConsent) }

    private func count(_ wanted: ChangeState...) -> Int64 {
        wanted.reduce(0) { $0 + states[$1.rawValue, default: 0] }
    }

    /// Whether every change has ended, and every dependent's cancellation is settled.
    var isFinal: Bool {
        let open = ["requested", "cancel_sent"].map { dependents[$0, default: 0] }.reduce(0, +)
        return finalCount == rowCount && open == 0
    }

    /// The states in the order of a change's life, without those that have no rows.
    var statesInOrder: [(String, Int64)] {
        let known = ChangeState.allCases.map(\.rawValue)
        let unknown = states.keys.filter { !known.contains($0) }.sorted()
        return (known + unknown).compactMap { name in states[name].map { (name, $0) } }
    }
}

/// The facts as text and JSON. From the rates and the reserved instants it computes how many calls are left in this
/// second.
struct StatusText {
    let facts: StatusFacts
    let now: Int64
    let changePricePerSecond: Double

    var text: String {
        let tables = [
            definitionList(head), countTable("STATE", facts.statesInOrder),
            facts.waves.table(waveColumns(of: facts.batch)),
            facts.guards.table(GuardReading.columns),
            (facts.refused + facts.parkedBesides).table(Self.refusedColumns) + moreRefused,
            facts.moved.table(TroubleText.movedColumns),
            refusedTable(facts.rejected.map { ($0.key, $0.value) }),
            countTable("DEPENDENTS", facts.dependents.sorted { $0.key < $1.key }),
            (facts.notifications?.unknown ?? []).table(Self.unknownColumns),
            facts.batch == nil ? facts.newestBatches.table(batchColumns) : "",
        ]
        return tables.filter { !$0.isEmpty }.joined(separator: "\n")
    }

    private var moreRefused: String {
        guard facts.hasMoreRefused else { return "" }
        let batch = facts.batch.map { " --batch \(word(for: $0))" } ?? ""
        return wrapped("and more: `repricer report price_change\(batch)` lists all changes")
    }

    /// What is paused, halted or waits for a person; usually empty.
    var alerts: [(String, String)] {
        var alerts = facts.everything.headlines
        if let batch = facts.batch, batch.isPaused {
            alerts.append(
                (batch.haltedBy == nil ? "PAUSED" : "HALTED", "this batch\(whoAndWhy(batch))"))
        }
        return alerts + approvals + standstills
    }

    /// What waits for a second person. Of all batches the oldest are named.
    private var approvals: [(String, String)] {
        let waiting = (facts.batch.map { [$0] } ?? facts.batches).filter(\.awaitsApproval)
        let shown = waiting.prefix(Self.approvalsShown).map { batch in
            let what = facts.batch == nil ? "batch \(harmless(batch.name))" : "this batch"
            let count = rows(batch.rowCount, "waits", "wait", "for approval")
            return ("APPROVE", "\(what): \(count), `repricer approve \(word(for: batch))`")
        }
        let more = waiting.count - shown.count
        return shown
            + (more > 0
                ? [("APPROVE", "\(counted(more, "more batch", plural: "more batches"))")] : [])
    }

    private static let approvalsShown = 3

    /// The batch as an argument of a command, by its id: a name may contain anything, and this text is pasted into a
    /// shell.
    private func word(for batch: BatchQueries.Batch) -> String {
        NamedBatch.word(for: batch.batchID, among: facts.batches.map(\.named))
    }

    private var standstills: [(String, String)] {
        let batches =
            facts.batch == nil
            ? facts.batches.filter { $0.state == "approved" && ($0.isPaused || $0.haltedBy != nil) }
                .map {
                    (
                        $0.haltedBy == nil ? "PAUSED" : "HALTED",
                        "batch \(harmless($0.name))\(whoAndWhy($0))"
                    )
                } : []
        return nobodyDelivers + batches
            + facts.haltedStorefronts.map { ("HALTED", $0.text(isOfAll: facts.batch == nil)) }
            + TroubleText.headlines(facts)
    }

    private var nobodyDelivers: [(String, String)] {
        facts.undelivered.map { found in
            let since = found.askedAt.map { "since \($0.instantText)" } ?? "so far"
            return [
                (
                    "NOBODY DELIVERS",
                    "changes are due, and no process has asked for a call \(since); `repricer serve` delivers"
                )
            ]
        } ?? []
    }

    /// The lines of `--watch`: the batch and the time, the progress of delivery, answers and ends, the states, and what
    /// needs a person.
    func live(columns: Int) -> [String] {
        let name = facts.batch.map { "batch \(harmless($0.name))" } ?? "all batches"
        let head = brokenText("\(name), \((now / 1000 * 1000).instantText)", width: columns)
        let shares = [
            ("delivered", facts.deliveredCount), ("answered", facts.answeredCount),
            ("final", facts.finalCount),
        ].map { ($1, "\(counted($1)) of \(counted(facts.rowCount)) \($0)") }
        let longest = shares.map(\.1.count).max() ?? 0
        let bars = shares.flatMap { count, note in
            ProgressBar.lines(
                done: count, total: facts.rowCount, note: note, noteColumns: longest,
                columns: columns)
        }
        let states = facts.statesInOrder.map { "\(counted($1)) \($0)" }.joined(separator: ", ")
        // Colours are added after the lines are broken, because colour codes take no columns.
        let painted = brokenText(states, width: columns).map { line in
            line.split(separator: " ").map { word in
                word.hasSuffix(",")
                    ? Paint.word(String(word.dropLast())) + "," : Paint.word(String(word))
            }.joined(separator: " ")
        }
        return head + bars + painted
            + alerts.flatMap { label, text in
                let lines = brokenText("\(label): \(harmless(text))", width: columns)
                guard let first = lines.first, first.hasPrefix("\(label):") else { return lines }
                return [Paint.word(label) + first.dropFirst(label.count)] + lines.dropFirst()
            }
    }

    private var head: [(String, String)] {
        var head = facts.everything.headlines
        if let batch = facts.batch {
            head += [
                ("batch", "\(batch.batchID) \(batch.name)"),
                ("state", stateWords(of: batch)),
                ("submitted", "\(batch.submittedAt.instantText) by \(batch.submittedBy)"),
            ]
            if !facts.firstApprovers.isEmpty {
                let missing =
                    batch.state == "awaiting_approval" ? "; somebody else must approve, too" : ""
                head.append(
                    (
                        "approved first",
                        "by \(facts.firstApprovers.joined(separator: ", "))\(missing)"
                    ))
            }
            if let by = batch.decidedBy, let at = batch.decidedAt {
                head.append(("decided", "\(at.instantText) by \(by)"))
            }
            if let undone = batch.undoesBatchID { head.append(("undoes", undone)) }
            if batch.waveCount > 0 {
                head.append(("waves", "\(batch.releasedWave) of \(batch.waveCount) released"))
            }
        }
        head += standstills
        head += [
            ("rows", "\(counted(facts.rowCount)): \(counted(facts.finalCount)) final"),
            ("refused rows", counted(facts.rejected.values.reduce(0, +))),
            (
                "next send by",
                facts.outlook.nextSendBy.map { $0.instantText + ($0 < now ? ", overdue" : "") }
                    ?? "-"
            ),
            ("forecast end", facts.outlook.lastDueEffectiveAt?.instantText ?? "-"),
            ("quota left", quotaText),
            ("newest notification", facts.staleness.newestNotificationAt?.instantText ?? "-"),
            ("history read to", facts.staleness.historyReadThrough?.instantText ?? "-"),
            ("silent changes", counted(facts.staleness.silentChanges)),
        ]
        return head + (facts.notifications.map { [("notifications", $0.text)] } ?? [])
    }

    private func stateWords(of batch: BatchQueries.Batch) -> String {
        let isFinal = !facts.outlook.openBatches.contains(batch.batchID)
        // A pause can outlast the last row while dependents are still to be cancelled. An abort ends it.
        let isPaused = batch.isPaused && ["approved", "awaiting_approval"].contains(batch.state)
        return batch.stateWords(isFinal: isFinal)
            + (isPaused ? (isFinal ? ", paused" : "") + whoAndWhy(batch) : "")
    }

    private func whoAndWhy(_ batch: BatchQueries.Batch) -> String {
        guard batch.isPaused, batch.haltedBy != nil else { return batch.whoAndWhy }
        let putBack = facts.putBack[batch.batchID].map {
            "; \(counted($0, "row")) \($0 == 1 ? "was" : "were") refused or not sent any more, and \($0 == 1 ? "waits" : "wait") until it ends"
        }
        let name = word(for: batch)
        return batch.whoAndWhy + (putBack ?? "")
            + "; `repricer resume \(name)` lets it go on once the cause is mended, `repricer abort \(name)` ends it"
    }

    private static let unknownColumns: [Column<StatusQueries.Notifications.Unknown>] = [
        .text("UNKNOWN", "kind") { $0.kind }, .text("WHAT", "name") { $0.name },
        .number("NOTIFICATIONS", "notifications") { $0.notifications },
        .instant("LAST", "last_received_at") { $0.lastReceivedAt },
    ]

    private static let refusedColumns: [Column<StatusQueries.Refused>] = [
        .text("REFUSED BY APPLE", "original_transaction_id") { $0.originalTransactionID },
        .text("ITEM", "sku") { $0.sku }, .text("STATE", "state") { $0.state },
        .text("REASON", "reason") { $0.reason },
        .shown(.left("NEXT TRY")) { $0.nextAttemptAt?.instantText ?? "-" },
        .key("next_attempt_at") { $0.nextAttemptAt?.instantText },
        .instant("SINCE", "since") { $0.since }, .text("BATCH", "batch") { $0.batchName },
    ]

    /// How many characters of a UUIDv7 are shown: up to its millisecond, which is enough to identify a batch.
    private static let idShown = 13

    /// Shortens a long name, which would leave no room for the table. The beginning of the id identifies the batch as
    /// well.
    private static func shortened(_ name: String, _ longest: Int?) -> String {
        guard let longest else { return name }
        return name.split(separator: " ", omittingEmptySubsequences: false).map { word in
            word.count > longest ? word.prefix(longest - 1) + "…" : word
        }.joined(separator: " ")
    }

    /// A terminal has room for the beginning of an id and the day.
    private var batchColumns: [Column<BatchQueries.Batch>] {
        let open = facts.outlook.openBatches
        return [
            .shown(.left("BATCH")) {
                Screen.columns == nil ? $0.batchID : String($0.batchID.prefix(Self.idShown))
            },
            .key("batch_id") { $0.batchID },
            .shown(.left("NAME")) {
                Self.shortened($0.name, Screen.columns.map { max(8, $0 - 68) })
            },
            .key("name") { $0.name },
            .shown(.left("STATE")) { $0.stateWords(isFinal: !open.contains($0.batchID)) },
            .key("state") { $0.state },
            .key("standing") { $0.standing(isFinal: !open.contains($0.batchID)) },
            .key("paused") { $0.isPaused },
            .key("pause") { $0.pauseJSON },
            .key("wave_count") { $0.waveCount }, .key("released_wave") { $0.releasedWave },
            .count("ROWS", "rows") { $0.rowCount },
            .number("REFUSED", "refused") { $0.rejectedRowCount },
            .key("submitted_by") { $0.submittedBy },
            .shown(.left("SUBMITTED")) {
                String($0.submittedAt.instantText.prefix(Screen.columns == nil ? .max : 10))
            },
            .key("submitted_at") { $0.submittedAt.instantText },
            .shown(.left("BY")) { $0.submittedBy }, .key("decided_by") { $0.decidedBy },
            .key("decided_at") { $0.decidedAt?.instantText },
        ]
    }

    /// The calls that may still be made in this second, or now where the rate is below one a second. It is the whole
    /// rate before the service has made any call.
    private var quotaLeft: Int64 {
        let quota = facts.quotas.first { $0.endpoint == "change_price" }
        if let until = quota?.blockedUntil, until > now { return 0 }
        let reserved = max(0, (quota?.nextPermitAt ?? now) - now)
        guard changePricePerSecond >= 1 else { return reserved == 0 ? 1 : 0 }
        return Int64(changePricePerSecond) * (1000 - min(reserved, 1000)) / 1000
    }

    private var quotaText: String {
        let left = quotaLeft
        let blocked = facts.quotas.compactMap(\.blockedUntil).filter { $0 > now }.max()
        let silence = blocked.map { "; no call before \($0.instantText)" }
        let rate =
            changePricePerSecond >= 1
            ? "\(left) of \(Int64(changePricePerSecond)) price changes this second"
            : "\(left == 0 ? "none" : "one") at this moment, one price change every "
                + "\(counted(Int64((1 / changePricePerSecond).rounded()), "second"))"
        return rate + (silence ?? "")
    }

    /// Whether the batch is under way, paused, halted or finished. A pause of everything counts as its pause too.
    private var standing: String? {
        let own = facts.batch.flatMap {
            $0.standing(isFinal: !facts.outlook.openBatches.contains($0.batchID))
        }
        return own == "under_way" && facts.everything.isPaused ? "paused" : own
    }

    var json: JSONValue {
        let (staleness, outlook) = (facts.staleness, facts.outlook)
        var json: JSONValue = [
            "batch_id": facts.batch?.batchID, "name": facts.batch?.name,
            "state": facts.batch?.state,
            "standing": standing,
            "paused": facts.everything.isPaused || facts.batch?.isPaused ?? false,
            "everything": facts.everything.json, "rows": facts.rowCount,
            "final_rows": facts.finalCount, "is_final": facts.isFinal,
            "states": JSONValue.counts(facts.statesInOrder), "rejected_rows": facts.rejected,
            "dependents": facts.dependents, "next_send_by": outlook.nextSendBy?.instantText,
            "forecast_end": outlook.lastDueEffectiveAt?.instantText, "quota_left": quotaLeft,
            "newest_notification_at": staleness.newestNotificationAt?.instantText,
            "oldest_unfolded_at": staleness.oldestUnfoldedAt?.instantText,
            "history_read_through": staleness.historyReadThrough?.instantText,
            "silent_changes": staleness.silentChanges, "now": now.instantText,
        ]
        json =
            json + TroubleText.json(facts) + [
                "nobody_delivers": facts.undelivered != nil,
                "refused_by_apple": (facts.refused + facts.parkedBesides).json(Self.refusedColumns),
                "has_more_refused_by_apple": facts.hasMoreRefused,
                "halted_storefronts": facts.haltedStorefronts.json(storefrontColumns),
            ]
        if let batch = facts.batch {
            json =
                json + [
                    "pause": batch.pauseJSON,
                    "put_back_rows": facts.putBack[batch.batchID],
                    "grouping": batch.grouping,
                    "next_release_at": batch.nextReleaseAt?.instantText,
                    "waves": facts.waves.json(waveColumns(of: facts.batch)),
                    "guards": facts.guards.json(GuardReading.columns),
                    "undoes_batch_id": batch.undoesBatchID,
                ]
        } else {
            json = json + ["batches": facts.newestBatches.json(batchColumns)]
        }
        guard let arrived = facts.notifications else { return json }
        let notifications: JSONValue = [
            "waiting": arrived.waiting, "quarantined": arrived.quarantined,
            "not_understood": arrived.notUnderstood,
            "unknown": arrived.unknown.json(Self.unknownColumns),
        ]
        return json + ["notifications": notifications]
    }
}

extension StatusQueries.Notifications {
    fileprivate var text: String {
        var parts = ["\(counted(waiting)) waiting"]
        if quarantined > 0 { parts.append("\(counted(quarantined)) quarantined") }
        if notUnderstood > 0 { parts.append("\(counted(notUnderstood)) not understood") }
        return parts.joined(separator: ", ")
    }
}

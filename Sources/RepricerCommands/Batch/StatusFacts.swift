import Batches
import Facts
import Postgres
import Pricing
import Reconciliation
import ServiceKit

/// Everything that `status` shows, read in one transaction.
struct StatusFacts: Sendable, Equatable {
    let batch: BatchQueries.Batch?
    /// All batches when none was asked for.
    let batches: [BatchQueries.Batch]
    let states: [String: Int64]
    let rejected: [String: Int64]
    let dependents: [String: Int64]
    let everything: ServiceControlQueries.Everything
    /// Of the batch that was asked for.
    let waves: [ControlQueries.Wave]
    let guards: [GuardReading]
    let haltedStorefronts: [ControlQueries.HaltedStorefront]
    let outlook: StatusQueries.Outlook
    let quotas: [StatusQueries.Quota]
    /// nil where one batch was asked for: notifications belong to none.
    let notifications: StatusQueries.Notifications?
    let staleness: StalenessQueries.Staleness

    static func read(
        batchID: String?, now: Int64, silentAfter: Duration, pool: PostgresPool
    ) async throws -> StatusFacts {
        try await pool.withTransaction(.repeatableRead) { connection in
            let all = try BatchQueries.all(on: connection)
            let (states, outlook) = try StatusQueries.tally(batchID: batchID, on: connection)
            return StatusFacts(
                batch: batchID.flatMap { id in all.first { $0.batchID == id } }, batches: all,
                states: states,
                rejected: try BatchQueries.rejectCounts(batchID: batchID, on: connection),
                dependents: try BatchQueries.dependentCounts(batchID: batchID, on: connection),
                everything: try ServiceControlQueries.everything(on: connection),
                waves: try batchID.map { try ControlQueries.waves(of: $0, on: connection) } ?? [],
                guards: try batchID.map { try guards(of: $0, on: connection) } ?? [],
                haltedStorefronts: try batchID.map {
                    try ControlQueries.haltedStorefronts(of: $0, on: connection)
                } ?? [],
                outlook: outlook,
                quotas: try StatusQueries.quotas(on: connection),
                notifications: batchID == nil
                    ? try StatusQueries.notifications(on: connection) : nil,
                staleness: try StalenessQueries.read(
                    now: now, margin: silentAfter.milliseconds, on: connection))
        }
    }

    private static func guards(
        of batchID: String, on connection: isolated PostgresConnection
    ) throws -> [GuardReading] {
        let (rails, countFrom) = try GuardQueries.rails(of: batchID, on: connection)
        guard !rails.isEmpty else { return [] }
        // Counted anew only where the service has not yet: a million rows take a second.
        let kept = try GuardQueries.reading(of: batchID, on: connection)
        let counts =
            try kept?.counts
            ?? GuardQueries.counts(
                of: batchID, since: countFrom, figures: Set(rails.map(\.figure)), on: connection)
        return rails.compactMap { rail in
            counts[rail.figure].map { GuardReading(rail: rail, count: $0, countedAt: kept?.at) }
        }
    }

    var rowCount: Int64 { states.values.reduce(0, +) }

    var finalCount: Int64 {
        states.filter { ChangeState(rawValue: $0.key)?.isFinal ?? false }.values.reduce(0, +)
    }

    /// Every change ended, and every dependent's cancellation is settled.
    var isFinal: Bool {
        let open = ["requested", "cancel_sent"].map { dependents[$0, default: 0] }.reduce(0, +)
        return finalCount == rowCount && open == 0
    }

    /// States in the order of a change's life, those without rows left out.
    var statesInOrder: [(state: String, rows: Int64)] {
        let known = ChangeState.allCases.map(\.rawValue)
        let unknown = states.keys.filter { !known.contains($0) }.sorted()
        return (known + unknown).compactMap { name in states[name].map { (name, $0) } }
    }
}

/// The facts as text and JSON; rates turn the reserved instants into what is left of a second.
struct StatusText {
    let facts: StatusFacts
    let now: Int64
    let changePricePerSecond: Int

    var text: String {
        var head = facts.everything.headlines
        if let batch = facts.batch {
            head += [
                ("batch", "\(batch.batchID) \(batch.name)"),
                ("state", batch.state + (batch.isPaused ? ", paused" + whoAndWhy(of: batch) : "")),
                ("submitted", "\(RFC3339.format(batch.submittedAt)) by \(batch.submittedBy)"),
            ]
            if let by = batch.decidedBy, let at = batch.decidedAt {
                head.append(("decided", "\(RFC3339.format(at)) by \(by)"))
            }
            if let undone = batch.undoesBatchID { head.append(("undoes", undone)) }
            head += facts.haltedStorefronts.map { ("HALTED", $0.headline) }
            if batch.waveCount > 0 {
                head.append(("waves", "\(batch.releasedWave) of \(batch.waveCount) released"))
            }
        }
        head += [
            ("rows", "\(facts.rowCount): \(facts.finalCount) final"),
            ("refused rows", "\(facts.rejected.values.reduce(0, +))"),
            ("next send by", shown(facts.outlook.nextSendBy)),
            ("forecast end", shown(facts.outlook.lastDueEffectiveAt)),
            ("quota left", quotaText),
            ("newest notification", shown(facts.staleness.newestNotificationAt)),
            ("history read to", shown(facts.staleness.historyReadThrough)),
            ("silent changes", "\(facts.staleness.silentChanges)"),
        ]
        if let notifications = facts.notifications {
            head.append(("notifications", notifications.text))
        }
        var text = definitionList(head)
        if !facts.states.isEmpty {
            var table = Table([.left("STATE"), .right("ROWS")])
            for entry in facts.statesInOrder { table.add([entry.state, "\(entry.rows)"]) }
            text += "\n" + table.text
        }
        if !facts.waves.isEmpty { text += "\n" + facts.waves.table }
        if !facts.guards.isEmpty { text += "\n" + GuardReading.table(of: facts.guards) }
        text += counts("REFUSED", facts.rejected) + counts("DEPENDENTS", facts.dependents)
        if let unknown = facts.notifications?.unknown, !unknown.isEmpty {
            text += "\n" + unknownTable(unknown)
        }
        if facts.batch == nil && !facts.batches.isEmpty { text += "\n" + batchTable }
        return text
    }

    private func unknownTable(_ unknown: [StatusQueries.Notifications.Unknown]) -> String {
        var table = Table([
            .left("UNKNOWN"), .left("WHAT"), .right("NOTIFICATIONS"), .left("LAST"),
        ])
        for part in unknown {
            table.add([
                part.kind, harmless(part.name), "\(part.notifications)",
                RFC3339.format(part.lastReceivedAt),
            ])
        }
        return table.text
    }

    private var batchTable: String {
        var table = Table([
            .left("BATCH"), .left("NAME"), .left("STATE"), .right("ROWS"), .right("REFUSED"),
            .left("SUBMITTED"), .left("BY"),
        ])
        for batch in facts.batches {
            table.add([
                batch.batchID, batch.name, batch.state + (batch.isPaused ? ", paused" : ""),
                "\(batch.rowCount)", "\(batch.rejectedRowCount)",
                RFC3339.format(batch.submittedAt), batch.submittedBy,
            ])
        }
        return table.text
    }

    private func counts(_ heading: String, _ counts: [String: Int64]) -> String {
        guard !counts.isEmpty else { return "" }
        var table = Table([.left(heading), .right("ROWS")])
        for (name, rows) in counts.sorted(by: { $0.key < $1.key }) { table.add([name, "\(rows)"]) }
        return "\n" + table.text
    }

    private func shown(_ instant: Int64?) -> String { instant.map(RFC3339.format) ?? "-" }

    /// Calls that may be made this second; nil before the service has made any.
    private var quotaLeft: Int64? {
        guard let quota = facts.quotas.first(where: { $0.endpoint == "change_price" }) else {
            return nil
        }
        if let until = quota.blockedUntil, until > now { return 0 }
        let reserved = min(max(0, quota.nextSlotAt - now), 1000)
        return Int64(changePricePerSecond) * (1000 - reserved) / 1000
    }

    private var quotaText: String {
        guard let left = quotaLeft else { return "-" }
        let blocked = facts.quotas.compactMap(\.blockedUntil).filter { $0 > now }.max()
        let silence = blocked.map {
            "; the App Store asked for silence until \(RFC3339.format($0))"
        }
        return "\(left) of \(changePricePerSecond) price changes this second" + (silence ?? "")
    }

    var json: JSONValue {
        var members: [JSONValue.Member] = [
            .init(name: "batch_id", value: .text(facts.batch?.batchID)),
            .init(name: "name", value: .text(facts.batch?.name)),
            .init(name: "state", value: .text(facts.batch?.state)),
            .init(
                name: "paused",
                value: .bool(facts.everything.isPaused || facts.batch?.isPaused ?? false)),
            .init(name: "everything", value: facts.everything.json),
            .init(name: "rows", value: .integer(facts.rowCount)),
            .init(name: "final_rows", value: .integer(facts.finalCount)),
            .init(name: "is_final", value: .bool(facts.isFinal)),
            .init(
                name: "states",
                value: .object(
                    facts.statesInOrder.map { .init(name: $0.state, value: .integer($0.rows)) })),
            .init(name: "rejected_rows", value: .counts(facts.rejected)),
            .init(name: "dependents", value: .counts(facts.dependents)),
            .init(name: "next_send_by", value: .text(facts.outlook.nextSendBy.map(RFC3339.format))),
            .init(
                name: "forecast_end",
                value: .text(facts.outlook.lastDueEffectiveAt.map(RFC3339.format))),
            .init(name: "quota_left", value: .number(quotaLeft)),
            .init(
                name: "newest_notification_at",
                value: .text(facts.staleness.newestNotificationAt.map(RFC3339.format))),
            .init(
                name: "oldest_unfolded_at",
                value: .text(facts.staleness.oldestUnfoldedAt.map(RFC3339.format))),
            .init(
                name: "history_read_through",
                value: .text(facts.staleness.historyReadThrough.map(RFC3339.format))),
            .init(name: "silent_changes", value: .integer(facts.staleness.silentChanges)),
            .init(name: "now", value: .string(RFC3339.format(now))),
        ]
        if let batch = facts.batch {
            members += [
                .init(name: "pause", value: batch.pauseJSON),
                .init(name: "grouping", value: .string(batch.grouping)),
                .init(
                    name: "next_release_at", value: .text(batch.nextReleaseAt.map(RFC3339.format))),
                .init(name: "waves", value: .array(facts.waves.map(\.json))),
                .init(name: "guards", value: .array(facts.guards.map(\.json))),
                .init(
                    name: "halted_storefronts", value: .array(facts.haltedStorefronts.map(\.json))),
                .init(name: "undoes_batch_id", value: .text(batch.undoesBatchID)),
            ]
        }
        if facts.batch == nil {
            members.append(.init(name: "batches", value: .array(facts.batches.map(batchJSON))))
        }
        if let notifications = facts.notifications {
            members.append(.init(name: "notifications", value: notifications.json))
        }
        return .object(members)
    }

    private func batchJSON(_ batch: BatchQueries.Batch) -> JSONValue {
        .object([
            "batch_id": .string(batch.batchID), "name": .string(batch.name),
            "state": .string(batch.state), "paused": .bool(batch.isPaused),
            "pause": batch.pauseJSON, "wave_count": .integer(batch.waveCount),
            "released_wave": .integer(batch.releasedWave), "rows": .integer(batch.rowCount),
            "refused": .integer(batch.rejectedRowCount),
            "submitted_by": .string(batch.submittedBy),
            "submitted_at": .string(RFC3339.format(batch.submittedAt)),
            "decided_by": .text(batch.decidedBy),
            "decided_at": .text(batch.decidedAt.map(RFC3339.format)),
        ])
    }
}

extension StatusQueries.Notifications {
    fileprivate var text: String {
        var parts = ["\(waiting) waiting"]
        if setAside > 0 { parts.append("\(setAside) set aside") }
        if notUnderstood > 0 { parts.append("\(notUnderstood) not understood") }
        return parts.joined(separator: ", ")
    }

    fileprivate var json: JSONValue {
        .object([
            "waiting": .integer(waiting), "set_aside": .integer(setAside),
            "not_understood": .integer(notUnderstood),
            "unknown": .array(
                unknown.map { part in
                    .object([
                        "kind": .string(part.kind), "name": .string(part.name),
                        "notifications": .integer(part.notifications),
                        "last_received_at": .string(RFC3339.format(part.lastReceivedAt)),
                    ])
                }),
        ])
    }
}

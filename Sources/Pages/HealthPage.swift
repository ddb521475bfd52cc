import Batches
import Facts
import Pricing
import Reconciliation
import Reports

extension Site {
    func healthPage() async throws -> Page {
        let now = clock.nowMilliseconds()
        let margin = about.silentAfter
        let schema = try await pool.withConnection { try await schemaState($0) }
        let health = try await pool.withTransaction(.repeatableRead) { connection in
            HealthView(
                everything: try ServiceControlQueries.everything(on: connection),
                batches: try BatchQueries.all(on: connection),
                storefronts: try ControlQueries.haltedStorefronts(of: nil, on: connection),
                staleness: try StalenessQueries.read(now: now, margin: margin, on: connection),
                undelivered: try UndeliveredQueries.find(now: now, on: connection),
                queues: try HealthQueries.queues(on: connection),
                calls: try HealthQueries.openCalls(on: connection),
                rates: try HealthQueries.rates(now: now, on: connection),
                work: try HealthQueries.work(on: connection),
                server: try HealthQueries.serverVersion(on: connection), schema: schema,
                about: about, now: now)
        }
        return Page(
            title: "Health of the service", lead: health.lead, body: health.body, asOf: now,
            isLive: true)
    }
}

private struct HealthView {
    let everything: ServiceControlQueries.Everything
    let batches: [BatchQueries.Batch]
    let storefronts: [ControlQueries.HaltedStorefront]
    let staleness: StalenessQueries.Staleness
    let undelivered: UndeliveredQueries.Undelivered?
    let queues: HealthQueries.Queues
    let calls: [HealthQueries.OpenCalls]
    let rates: [HealthQueries.Rate]
    let work: [HealthQueries.Work]
    let server: String
    let schema: SchemaState
    let about: Site.About
    let now: Int64

    private var notices: [Notice] {
        let all = batches.map(\.named)
        var notices = [undelivered?.notice].compactMap(\.self) + everything.notices
        notices += batches.filter { $0.state == "approved" }.compactMap {
            $0.stopNotice(NamedBatch.word(for: $0.batchID, among: all))
        }
        notices += storefronts.map { $0.notice(inBatch: batches) }
        notices += rates.compactMap { silence($0) }
        if let obstacle = schema.obstacle() {
            notices.append(
                Notice(
                    .alarm, "Schema:",
                    "\(HTML(obstacle)). "
                        + "\(HTML.command("repricer migrate")) as the owner, or the release that migrated it."
                ))
        }
        if queues.quarantined > 0 {
            notices.append(
                Notice(
                    .alarm, "Quarantine:",
                    "\(counted(queues.quarantined, "notification")) could not be folded and wait for a person. "
                        + "\(HTML.command("repricer status")) names them, \(HTML.command("repricer reprocess")) tries again."
                ))
        }
        if staleness.silentChanges > 0 {
            notices.append(
                Notice(
                    .warn, "Silence:",
                    "of \(counted(staleness.silentChanges, "change")) nothing was heard when it was due; \(whoAsks)."
                ))
        }
        return notices
    }

    /// Statuses are asked for by the reconciler alone, and no process may run it.
    private var whoAsks: HTML {
        let lastRunAt = work.first { $0.name == Reconciler.leaseName }?.lastRunAt
        if let lastRunAt, now - lastRunAt <= margin { return "the status is asked for" }
        let since: HTML = lastRunAt.map { "since \(.time($0))" } ?? "so far"
        return
            "nobody has asked for the status \(since): \(HTML.command("repricer reconcile")) asks, and "
            + "\(HTML.command("repricer serve")) where it is not switched off"
    }

    private var margin: Int64 { max(about.silentAfter, Self.day) }

    private static let day: Int64 = 86_400_000

    private func silence(_ rate: HealthQueries.Rate) -> Notice? {
        guard let until = rate.blockedUntil, until > now else { return nil }
        // While calls of a kind are halted or slowed down, it is our own wait for the next one that asks, and the notice of that
        // says so.
        guard !waitsForAProbe(rate.endpoint) else { return nil }
        return Notice(
            .warn, "Silence asked for:",
            "the App Store takes no calls of \(spaced(rate.endpoint)) until \(.time(until)).",
            holdsCalls: true)
    }

    private func waitsForAProbe(_ endpoint: String) -> Bool {
        let kind: StoreCall.Kind? =
            switch endpoint {
            case "change_price": .priceChange
            case "cancel": .cancel
            case "extend": .renewalExtension
            case "extend_all": .massExtension
            default: nil
            }
        guard let kind else { return false }
        return everything.isServiceHalted(kind)
            || everything.haltedKinds.contains { $0.kind == kind.rawValue }
            || everything.throttledKinds.contains { $0.kind == kind.rawValue }
    }

    /// It says that all is well only if nothing holds calls back and there is no warning.
    var lead: HTML {
        let alarms = Int64(notices.count { $0.kind == .alarm })
        let holds = Int64(notices.count { $0.kind != .alarm && $0.holdsCalls })
        let needed = "\(counted(alarms, "thing")) \(alarms == 1 ? "needs" : "need") somebody"
        let hold = holds == 1 ? "holds calls back" : "hold calls back"
        let warnings = Int64(notices.count { $0.kind == .warn && !$0.holdsCalls })
        let text =
            switch (alarms, holds) {
            case (0, 0): warnings == 0 ? "No alarm, and nothing holds calls back" : "No alarm"
            case (0, _): "No alarm, but \(counted(holds, "thing")) \(hold)"
            case (_, 0): "\(needed)"
            case (_, _): "\(needed), and \(counted(holds)) more \(hold)"
            }
        let rest = warnings == 0 ? "" : "; \(counted(warnings, "warning"))"
        return "<p class=\"lead\">\(text)\(rest).</p>\n"
    }

    var body: HTML {
        notices.html + glance + section("Calls to the App Store", callTables)
            + section("Lags and queues", lags) + section("Work of one replica at a time", workTable)
            + section("Versions", versions)
    }

    private var glance: HTML {
        cards([
            card(
                "Newest notification", age(staleness.newestNotificationAt),
                .time(staleness.newestNotificationAt, none: "none was received")),
            card(
                "Notifications to process", HTML(counted(queues.waiting)),
                staleness.oldestUnfoldedAt.map { "the oldest since \(.time($0))" } ?? "none waits"),
            card(
                "Calls under way", HTML(counted(calls.reduce(0) { $0 + $1.calls })),
                calls.map(\.oldestAt).min().map { "the oldest since \(.time($0))" } ?? "none is out"
            ),
            card(
                "Changes not heard of", HTML(counted(staleness.silentChanges)),
                "nothing was heard when it was due"),
            card(
                "History read", age(staleness.historyReadThrough),
                .time(staleness.historyReadThrough, none: "it was never read")),
        ])
    }

    /// How long ago, in the largest unit.
    private func age(_ at: Int64?) -> HTML {
        guard let at else { return "–" }
        let seconds = max(0, now - at) / 1000
        let text =
            switch seconds {
            case ..<120: counted(seconds, "second")
            case ..<7200: counted(seconds / 60, "minute")
            case ..<172_800: counted(seconds / 3600, "hour")
            default: counted(seconds / 86_400, "day")
            }
        return HTML("\(text) ago")
    }

    private var callTables: HTML {
        let rateRows = rates.map { rate in
            [
                HTML(spaced(rate.endpoint)), HTML(rate.lastSecond.map { counted($0) } ?? "–"),
                rate.blockedUntil.map { $0 > now ? "until \(.time($0))" : "no" } ?? "no",
            ]
        }
        let open = calls.map { call in
            [
                HTML(spaced(call.kind)), HTML(spaced(call.state)), HTML(counted(call.calls)),
                .time(call.oldestAt),
            ]
        }
        let allowed: HTML =
            about.callsPerThousandSeconds.map {
                "<p class=\"note\">Price changes may be called \(PriceText.decimal(Int64($0), decimals: $0 % 1000 == 0 ? 0 : 3)) times a second, all replicas together.</p>\n"
            } ?? .none
        guard !rateRows.isEmpty || !open.isEmpty else { return "<p>No call was made yet.</p>\n" }
        return HTMLTable(
            "Rates, over all replicas",
            [
                .text("Endpoint"), .number("Calls in the last second"),
                .text("No call before"),
            ], rateRows, isStacked: true
        ).html + allowed
            + HTMLTable(
                "Calls under way",
                [.text("Kind"), .text("State"), .number("Calls"), .text("Oldest")], open
            ).html
    }

    private var lags: HTML {
        definitions([
            ("Notifications waiting", HTML(counted(queues.waiting))),
            ("Notifications in quarantine", HTML(counted(queues.quarantined))),
            (
                "Notifications not understood",
                queues.notUnderstood == 0
                    ? "0"
                    : "\(counted(queues.notUnderstood)): <a href=\"/reports/unknown_part\">what is unknown</a>"
            ), ("Status checks waiting", HTML(counted(staleness.openChecks))),
            (
                "Webhooks pending",
                queues.webhooksSince.map {
                    "\(counted(queues.webhooksPending)), since \(.time($0))"
                }
                    ?? HTML(counted(queues.webhooksPending))
            ),
            (
                "Subscriptions not summed up yet",
                HTML(queues.unsummed >= 100_000 ? "more than 100,000" : counted(queues.unsummed))
            ),
        ])
            + "<p class=\"note\">Each figure is over all replicas. <code>/metrics</code> has those of this process."
            + "\(about.isRehearsal ? " In a rehearsal webhooks and some work are dated in real time." : "")</p>\n"
    }

    private var workTable: HTMLTable {
        HTMLTable(
            "Work of one replica at a time",
            [.text("Work"), .text("Last done"), .text("Next")],
            work.map { [$0.words, .time($0.lastRunAt), .time($0.nextRunAt)] },
            isStacked: true)
    }

    private var versions: HTML {
        definitions([
            ("repricer", "\(about.version), of the process that answers"),
            (
                "Schema of the database",
                "\(schema.version); the program is of \(expectedSchemaVersion)"
            ),
            ("PostgreSQL", HTML(server)), ("Environment", HTML(about.environment)),
            ("App", HTML(about.bundleID)),
            ("Clock", about.isRehearsal ? "virtual, of a rehearsal" : "of this machine"),
        ])
    }
}

extension HealthQueries.Work {
    /// Its description for a person who does not know its name in the log.
    fileprivate var words: HTML {
        switch name {
        case Reconciler.leaseName: "Reads Apple's history and statuses (<code>reconcile</code>)"
        case "guards": "Judges the guards of batches"
        default: HTML(spaced(name))
        }
    }
}

package import Calls
package import Facts
import Notifications
import Postgres
package import PriceChanges
package import Pricing
package import ServiceKit

/// Closes the gaps in what Apple told us: missed notifications, calls of unknown outcome, changes silent too long.
package struct Reconciler: Sendable {
    package struct Dependencies: Sendable {
        package var pool: DatabasePool
        package var history: any HistoryCalls
        package var store: any StoreCalls
        package var intake: any HistoryIntake
        package var environment: StoreEnvironment
        /// The clock that decides what is silent and how far back the history goes.
        package var clock: any WallClock
        /// The clock of leases and retries.
        package var realClock: any WallClock
        package var log: Log
        package var metrics: Metrics
        package var limits: Limits
        package var wait: CallPermitSource.Wait

        package init(
            pool: DatabasePool, history: any HistoryCalls, store: any StoreCalls,
            intake: any HistoryIntake, environment: StoreEnvironment, clock: any WallClock,
            realClock: any WallClock, log: Log, metrics: Metrics, limits: Limits = Limits(),
            wait: @escaping CallPermitSource.Wait = { try await Task.sleep(for: $0) }
        ) {
            self.pool = pool
            self.history = history
            self.store = store
            self.intake = intake
            self.environment = environment
            self.clock = clock
            self.realClock = realClock
            self.log = log
            self.metrics = metrics
            self.limits = limits
            self.wait = wait
        }
    }

    package struct Limits: Sendable {
        /// Status reads a second. Reads of the history have the same rate separately.
        package var statusPerSecond = 50.0
        /// How long after a statement about it was expected a change counts as silent.
        package var silentAfter: Duration = .seconds(86_400)
        package var silentPerRun = 10_000
        /// The longest silence of the App Store that is waited out. A longer one ends the run.
        package var silenceMax: Duration = .seconds(60)
        package var history = HistoryReader.Limits()
        package var checks = StatusCheckRunner.Limits()
        /// The most rounds of folding after the history was read.
        package var foldRoundsMax = 100_000

        package init() {}
    }

    /// The result of one run.
    package struct Summary: Hashable, Sendable {
        package var history = HistorySummary()
        package var folded = 0
        package var unknownChecked = 0
        package var unknownSettled = 0
        package var silent = 0
        package var checks = StatusCheckSummary()

        package init() {}
    }

    package static let leaseName = "reconcile"
    package static let historyEndpoint = "history"
    package static let statusEndpoint = "status"

    let dependencies: Dependencies

    package init(_ dependencies: Dependencies) {
        self.dependencies = dependencies
        ReconcileService.declare(dependencies.metrics)
    }

    var lease: HeldLease {
        HeldLease(name: Self.leaseName, pool: dependencies.pool, realClock: dependencies.realClock)
    }

    /// Runs once. Returns nil where another process is running. What was done counts in `summary` also where it
    /// throws.
    package func runOnce(
        since: Instant? = nil, progress: @escaping @Sendable (HistorySummary) -> Void = { _ in }
    ) async throws -> (summary: Summary, failure: (any Error)?)? {
        try await once { await run(since: since, lease: $0, progress: progress) }
    }

    /// Reads and folds only the history; otherwise it is like `runOnce`.
    ///
    /// - Parameter began: It is called where this process is the one that reads it.
    package func readHistory(
        since: Instant?, through: Instant? = nil, began: @escaping @Sendable () -> Void = {},
        progress: @escaping @Sendable (HistorySummary) -> Void = { _ in }
    ) async throws -> (summary: Summary, failure: (any Error)?)? {
        try await once { lease in
            began()
            var summary = Summary()
            do {
                try await readHistory(
                    since: since, through: through, lease: lease, progress, into: &summary.history)
                try await fold(into: &summary)
            } catch {
                return (summary, error)
            }
            return (summary, nil)
        }
    }

    private func once(
        _ body: @Sendable (HeldLease) async -> (summary: Summary, failure: (any Error)?)
    ) async throws -> (summary: Summary, failure: (any Error)?)? {
        let lease = lease
        guard try await lease.take(dueAt: nil) else { return nil }
        let dependencies = dependencies
        return try await lease.whileRenewing(
            log: dependencies.log, nextRunAt: { nil }, now: { dependencies.clock.nowMilliseconds() }
        ) {
            await body(lease)
        }
    }

    /// Runs all parts in their order. A part that fails does not stop those that can do without it.
    func run(
        since: Instant?, lease: HeldLease, progress: @escaping @Sendable (HistorySummary) -> Void
    ) async -> (summary: Summary, failure: (any Error)?) {
        var summary = Summary()
        var failure: (any Error)?
        for part in Part.allCases where failure.map(Self.endsOneAlone) ?? true {
            do {
                try await run(part, since, lease, progress, into: &summary)
            } catch {
                failure = Self.endsOneAlone(error) ? failure ?? error : error
            }
        }
        count(summary)
        return (summary, failure)
    }

    private enum Part: CaseIterable {
        case history, fold, unknownOutcomes, silent, hinted, former
    }

    /// Whether a failure concerns only its own part: the run was not cancelled, we still hold its lease, and the
    /// database still accepts this program.
    private static func endsOneAlone(_ failure: any Error) -> Bool {
        switch failure {
        case is CancellationError, ReconcileError.leaseLost, ReconcileError.outdated: false
        default: (failure as? PostgresError)?.sqlState != .programTooOld
        }
    }

    private func run(
        _ part: Part, _ since: Instant?, _ lease: HeldLease,
        _ progress: @escaping @Sendable (HistorySummary) -> Void, into summary: inout Summary
    ) async throws {
        switch part {
        case .history:
            try await readHistory(since: since, lease: lease, progress, into: &summary.history)
        case .fold: try await fold(into: &summary)
        case .unknownOutcomes: try await settleUnknown(into: &summary)
        case .silent: try await checkSilent(into: &summary)
        case .hinted:
            try await statusChecks.run(StatusCheckQueries.List(.legacy), into: &summary.checks)
        case .former: try await forgetFormer()
        }
    }

    private func permitSource(_ endpoint: String) -> CallPermitSource {
        CallPermitSource(
            pool: dependencies.pool, endpoint: endpoint,
            perSecond: dependencies.limits.statusPerSecond,
            clock: dependencies.clock, silenceMax: dependencies.limits.silenceMax,
            wait: dependencies.wait)
    }

    private func readHistory(
        since: Instant?, through: Instant? = nil, lease: HeldLease,
        _ progress: @escaping @Sendable (HistorySummary) -> Void, into summary: inout HistorySummary
    ) async throws {
        let reader = HistoryReader(
            calls: dependencies.history, intake: dependencies.intake, pool: dependencies.pool,
            permitSource: permitSource(Self.historyEndpoint), lease: lease,
            clock: dependencies.clock,
            environment: dependencies.environment, limits: dependencies.limits.history,
            progress: progress)
        try await reader.read(since: since, through: through, into: &summary)
    }

    /// Folds the entries of the history before statuses are compared, because they would otherwise count as drift. It
    /// folds only what has arrived until now: while the App Store resends missed notifications, new ones keep arriving.
    private func fold(into summary: inout Summary) async throws {
        let projector = Projector(
            pool: dependencies.pool, log: dependencies.log, metrics: dependencies.metrics)
        guard
            let last = try await dependencies.pool.read({ try EventQueries.newestWaiting(on: $0) })
        else { return }
        for _ in 0..<dependencies.limits.foldRoundsMax {
            let folded = try await projector.foldOnce()
            summary.folded += folded
            guard folded > 0,
                try await dependencies.pool.read({ try EventQueries.waits(until: last, on: $0) })
            else { return }
        }
    }

    /// A check that shows nothing makes the call's next step due at once. With the scheduler's growing waits, runs that
    /// are more frequent than a wait would postpone that step for ever.
    private static let afterCheck = Backoff(
        first: .milliseconds(500), max: .milliseconds(500), factor: 1)

    private func settleUnknown(into summary: inout Summary) async throws {
        let statuses = permitSource(Self.statusEndpoint)
        let engine = CallEngine(
            pool: dependencies.pool, environment: dependencies.environment,
            clock: dependencies.clock,
            realClock: dependencies.realClock, log: dependencies.log, metrics: dependencies.metrics,
            limits: CallEngine.Limits())
        try await engine.followClock()
        let kind = PriceChangeKind(
            store: dependencies.store, permitSource: statuses, checkPermitSource: statuses,
            policy: CallPolicy(retry: Self.afterCheck),
            halts: BatchHalts(
                pool: dependencies.pool, clock: dependencies.clock,
                realClock: dependencies.realClock, log: dependencies.log,
                metrics: dependencies.metrics, probes: engine.limits.probes))
        let unknown = UnknownOutcomes(engine: engine, kind: kind)
        var checked = UnknownOutcomes<PriceChangeKind>.Summary()
        defer {
            summary.unknownChecked = checked.checked
            summary.unknownSettled = checked.settled
        }
        try await unknown.settleAll(into: &checked)
    }

    private func checkSilent(into summary: inout Summary) async throws {
        let now = dependencies.clock.nowMilliseconds()
        let limits = dependencies.limits
        summary.silent = try await dependencies.pool.withTransaction { connection in
            try StalenessQueries.wantSilent(
                now: now, margin: limits.silentAfter.milliseconds, limit: limits.silentPerRun,
                on: connection)
        }
        try await statusChecks.run(StatusCheckQueries.List(.silent), into: &summary.checks)
    }

    /// Deletes finished checks, which are kept for a time because they prevent repeated ones. Checks after a lost
    /// database that could not be read are requested again.
    private func forgetFormer() async throws {
        let now = dependencies.clock.nowMilliseconds()
        let limits = dependencies.limits
        let old = now - 2 * limits.silentAfter.milliseconds
        _ = try await dependencies.pool.withTransaction { connection in
            for list in [
                StatusCheckQueries.List(.silent), StatusCheckQueries.List(.legacy), .unheard,
            ] {
                _ = try StatusCheckQueries.forget(
                    list, doneBefore: old, limit: limits.silentPerRun, on: connection)
            }
            _ = try connection.pipeline([
                StatusCheckQueries.repeatUnread(
                    .restored, doneBefore: now - 86_400_000, wantedAfter: 0),
                // A hint comes only once, and an answer without a status may be our fault, not the subscription's.
                StatusCheckQueries.repeatUnread(
                    StatusCheckQueries.List(.legacy), doneBefore: now - 3_600_000,
                    wantedAfter: old),
            ])
        }
    }

    private var statusChecks: StatusCheckRunner {
        StatusCheckRunner(
            pool: dependencies.pool, store: dependencies.store,
            permitSource: permitSource(Self.statusEndpoint),
            clock: dependencies.clock, realClock: dependencies.realClock,
            limits: dependencies.limits.checks, log: dependencies.log)
    }

    /// Reads the statuses that a list asks for.
    func check(_ list: StatusCheckQueries.List) async throws {
        var summary = Summary()
        defer { count(summary) }
        try await statusChecks.run(list, into: &summary.checks)
    }

    private func count(_ summary: Summary) {
        let metrics = dependencies.metrics
        metrics.increment("repricer_history_pages_total", by: summary.history.pages)
        metrics.increment("repricer_history_missed_total", by: summary.history.new)
        metrics.increment("repricer_history_refused_total", by: summary.history.refusedCount)
        for (field, times) in summary.checks.driftFields {
            metrics.increment("repricer_drift_total", labels: ["field": field], by: times)
        }
        for (outcome, checks) in summary.checks.outcomes {
            metrics.increment(
                "repricer_status_checks_total", labels: ["outcome": outcome.rawValue], by: checks)
        }
    }
}

package import Calls
package import Facts
import Notifications
package import PriceChanges
package import Pricing
package import ServiceKit

/// Closes the gaps in what Apple told us: missed notifications, calls of unknown outcome, changes silent too long.
package struct Reconciler: Sendable {
    package struct World: Sendable {
        package var pool: LedgerPool
        package var history: any HistoryCalls
        package var store: any StoreCalls
        package var door: any NotificationDoor
        package var environment: StoreEnvironment
        /// Decides what is silent and how far back the history goes.
        package var clock: any WallClock
        /// Leases and retries.
        package var realClock: any WallClock
        package var log: Log
        package var metrics: Metrics
        package var limits: Limits
        package var wait: CallBudget.Wait

        package init(
            pool: LedgerPool, history: any HistoryCalls, store: any StoreCalls,
            door: any NotificationDoor, environment: StoreEnvironment, clock: any WallClock,
            realClock: any WallClock, log: Log, metrics: Metrics, limits: Limits = Limits(),
            wait: @escaping CallBudget.Wait = { try await Task.sleep(for: $0) }
        ) {
            self.pool = pool
            self.history = history
            self.store = store
            self.door = door
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
        /// Statuses; the history has as many calls of its own.
        package var statusPerSecond = 50
        /// A change is silent when nothing was heard so long after something should have been.
        package var silentAfter: Duration = .seconds(86_400)
        package var silentPerRun = 10_000
        /// A longer silence that Apple asks for ends the run.
        package var silenceMax: Duration = .seconds(60)
        package var history = HistoryReader.Limits()
        package var looks = LookRunner.Limits()
        /// Rounds of folding what the history brought.
        package var foldRoundsMax = 100_000

        package init() {}
    }

    /// What one run did.
    package struct Summary: Hashable, Sendable {
        package var history = HistorySummary()
        package var folded = 0
        package var unknownLooked = 0
        package var unknownSettled = 0
        package var silent = 0
        package var looks = LookSummary()

        package init() {}
    }

    package static let leaseName = "reconcile"
    package static let historyEndpoint = "history"
    package static let statusEndpoint = "status"

    let world: World

    package init(_ world: World) {
        self.world = world
    }

    var lease: HeldLease {
        HeldLease(name: Self.leaseName, pool: world.pool, realClock: world.realClock)
    }

    /// Runs once, unless another process is at it: then nil. What was done counts in `summary` also when it
    /// throws.
    package func runOnce(
        since: Instant? = nil, progress: @escaping @Sendable (HistorySummary) -> Void = { _ in }
    ) async throws -> (summary: Summary, failure: (any Error)?)? {
        let lease = lease
        guard try await lease.take(dueAt: nil) else { return nil }
        let world = world
        return try await lease.whileRenewing(
            log: world.log, nextRunAt: { nil }, now: { world.clock.nowMilliseconds() }
        ) {
            await run(since: since, lease: lease, progress: progress)
        }
    }

    /// All parts in their order; a part that fails doesn't stop those that can do without it.
    func run(
        since: Instant?, lease: HeldLease, progress: @escaping @Sendable (HistorySummary) -> Void
    ) async -> (summary: Summary, failure: (any Error)?) {
        var summary = Summary()
        do {
            try await readHistory(since: since, lease: lease, progress, into: &summary.history)
            try await fold(into: &summary)
            try await settleUnknown(into: &summary)
            try await lookAtSilent(into: &summary)
        } catch {
            count(summary)
            return (summary, error)
        }
        count(summary)
        return (summary, nil)
    }

    private func budget(_ endpoint: String) -> CallBudget {
        CallBudget(
            pool: world.pool, endpoint: endpoint, perSecond: world.limits.statusPerSecond,
            clock: world.clock, silenceMax: world.limits.silenceMax, wait: world.wait)
    }

    private func readHistory(
        since: Instant?, lease: HeldLease,
        _ progress: @escaping @Sendable (HistorySummary) -> Void, into summary: inout HistorySummary
    ) async throws {
        let reader = HistoryReader(
            calls: world.history, door: world.door, pool: world.pool,
            budget: budget(Self.historyEndpoint), lease: lease, clock: world.clock,
            environment: world.environment, limits: world.limits.history, progress: progress)
        try await reader.read(since: since, into: &summary)
    }

    /// What the history brought is folded before statuses are compared: else it would count as drift.
    private func fold(into summary: inout Summary) async throws {
        let projector = Projector(pool: world.pool, log: world.log, metrics: world.metrics)
        for _ in 0..<world.limits.foldRoundsMax {
            let folded = try await projector.foldOnce()
            summary.folded += folded
            if folded == 0 { return }
        }
    }

    /// A look that shows nothing hands the call back for its next step at once: with the scheduler's growing
    /// waits, runs that come more often than a wait lasts would postpone that step for ever.
    private static let afterLook = Backoff(
        first: .milliseconds(500), max: .milliseconds(500), factor: 1)

    private func settleUnknown(into summary: inout Summary) async throws {
        let statuses = budget(Self.statusEndpoint)
        let engine = CallEngine(
            pool: world.pool, environment: world.environment, clock: world.clock,
            realClock: world.realClock, log: world.log, metrics: world.metrics,
            limits: CallEngine.Limits())
        try await engine.followClock()
        let kind = PriceChangeKind(
            store: world.store, budget: statuses, checkBudget: statuses,
            policy: CallPolicy(retry: Self.afterLook),
            halts: BatchHalts(
                pool: world.pool, clock: world.clock, log: world.log, metrics: world.metrics))
        let unknown = UnknownOutcomes(
            engine: engine, kind: kind,
            settlement: CallSettlement(pool: world.pool, kind: kind, log: world.log))
        var looked = UnknownOutcomes<PriceChangeKind>.Summary()
        defer {
            summary.unknownLooked = looked.looked
            summary.unknownSettled = looked.settled
        }
        try await unknown.settleAll(into: &looked)
    }

    private func lookAtSilent(into summary: inout Summary) async throws {
        let now = world.clock.nowMilliseconds()
        let limits = world.limits
        summary.silent = try await world.pool.withTransaction { connection in
            try StalenessQueries.wantSilent(
                now: now, margin: limits.silentAfter.milliseconds, limit: limits.silentPerRun,
                on: connection)
        }
        let runner = LookRunner(
            pool: world.pool, store: world.store, budget: budget(Self.statusEndpoint),
            clock: world.clock, realClock: world.realClock, limits: limits.looks, log: world.log)
        for reason in [LookQueries.Reason.silent, .legacy] {
            try await runner.run(LookQueries.List(reason), into: &summary.looks)
        }
        // Finished looks are kept while they hold further ones back, and then forgotten.
        let old = now - 2 * limits.silentAfter.milliseconds
        _ = try await world.pool.withTransaction { connection in
            for reason in [LookQueries.Reason.silent, .legacy] {
                _ = try LookQueries.forget(
                    LookQueries.List(reason), doneBefore: old, limit: limits.silentPerRun,
                    on: connection)
            }
        }
    }

    private func count(_ summary: Summary) {
        let metrics = world.metrics
        metrics.increment("repricer_history_pages_total", by: summary.history.pages)
        metrics.increment("repricer_history_missed_total", by: summary.history.new)
        metrics.increment("repricer_history_refused_total", by: summary.history.refusedCount)
        for (field, times) in summary.looks.driftFields {
            metrics.increment("repricer_drift_total", labels: ["field": field], by: times)
        }
        for (outcome, looks) in summary.looks.outcomes {
            metrics.increment(
                "repricer_status_looks_total", labels: ["outcome": outcome.rawValue], by: looks)
        }
    }
}

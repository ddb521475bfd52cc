import Facts
import ServiceKit
import Synchronization

/// Reconciles on a schedule by the service's clock: one replica at a time, and once in an interval over all replicas.
package final class ReconcileService: Service {
    package let name = "reconciler"
    private let reconciler: Reconciler
    private let every: Duration
    /// The least real time between runs, and between checks of the schedule, however fast the clock runs.
    private static let pauseMin: Duration = .seconds(5)
    private let outage: Outage
    /// When the last failed run of this replica ended, in UTC milliseconds of the service's clock.
    private let failedAt = Mutex<Int64?>(nil)
    private static let pauseMax: Duration = .seconds(60)
    /// The real time after which a failed run is tried again.
    private static let failureWait: Duration = .seconds(30)

    /// - Parameter every: The time from the start of a run to that of the next, by the service's clock.
    package init(
        _ reconciler: Reconciler, every: Duration
    ) {
        self.reconciler = reconciler
        self.every = every
        outage = Outage(
            log: reconciler.dependencies.log, level: .warning, failure: "reconciling stopped",
            recovery: "reconciling goes through again")
    }

    package func run() async throws {
        let dependencies = reconciler.dependencies
        let pause = min(
            max(dependencies.clock.realDuration(of: every) / 10, Self.pauseMin), Self.pauseMax)
        await Rounds(
            log: dependencies.log, failure: "reconciling failed", failureWait: Self.failureWait,
            wait: dependencies.wait
        ).run {
            // The first run waits too, so that a service that restarts again and again makes no requests.
            try await dependencies.wait(pause)
            if case .failed = try await runIfDue() { return Self.failureWait }
            return .zero
        }
    }

    package enum Turn: Hashable, Sendable {
        /// It was not due, or another replica is running it.
        case notOurs
        case ran(Reconciler.Summary)
        case failed(Reconciler.Summary)
    }

    /// Runs once if it is due and nobody else is running.
    package func runIfDue() async throws -> Turn {
        let dependencies = reconciler.dependencies
        let lease = reconciler.lease
        let start = dependencies.clock.nowMilliseconds()
        guard try await lease.take(dueAt: start) else { return .notOurs }
        let next = start + every.milliseconds
        let dueAgain = Mutex(next)
        let (summary, failure) = try await lease.whileRenewing(
            log: dependencies.log, nextRunAt: { dueAgain.withLock { $0 } },
            now: { dependencies.clock.nowMilliseconds() }
        ) {
            let (summary, failure) = await reconciler.run(since: nil, lease: lease) { _ in }
            if failure != nil {
                // A failed run is due again soon, not after a whole interval.
                let soon = dependencies.clock.nowMilliseconds() + Self.failureWait.milliseconds
                dueAgain.withLock { $0 = min(next, soon) }
            }
            return (summary, failure)
        }
        // A run that the end of the service cuts short has not failed. Another one is due soon.
        if failure != nil { try Task.checkCancellation() }
        dependencies.metrics.increment(
            "repricer_reconcile_runs_total", labels: ["result": failure == nil ? "done" : "failed"])
        if let failure {
            if wentThroughElsewhere(until: start) { outage.end() }
            failedAt.withLock { $0 = dependencies.clock.nowMilliseconds() }
            outage.note("\(failure)")
            try await dependencies.noteCatchUp("\(failure)")
            return .failed(summary)
        }
        outage.end()
        if summary.history.new > 0 || summary.checks.drifted > 0 {
            dependencies.log.notice(
                "gaps closed",
                [
                    "missed": "\(summary.history.new)", "drifted": "\(summary.checks.drifted)",
                    "pages": "\(summary.history.pages)",
                ])
        }
        return .ran(summary)
    }

    /// Whether the last failed run here ended so long ago that another replica must have run since. That its run
    /// succeeded is an inference, because replicas do not tell each other.
    private func wentThroughElsewhere(until start: Int64) -> Bool {
        guard let failed = failedAt.withLock({ $0 }) else { return false }
        let clock = reconciler.dependencies.clock
        let between = clock.realDuration(of: .milliseconds(start - failed))
        return between
            > max(
                clock.realDuration(of: every) * 2, (Self.failureWait + Self.pauseMax) * 2)
    }

    static func declare(_ metrics: Metrics) {
        metrics.declareCounter(
            "repricer_reconcile_runs_total", "Runs of the reconciler, by result.",
            labels: ["result": ["done", "failed"]])
        metrics.declareCounter(
            "repricer_history_pages_total", "Pages of the notification history read.")
        metrics.declareCounter(
            "repricer_history_missed_total",
            "Notifications that only the history brought: they never arrived.")
        metrics.declareCounter(
            "repricer_history_refused_total", "Entries of the history that were refused.")
        metrics.declareCounter(
            "repricer_drift_total", "Facts that differed from Apple's status, by field.",
            labels: ["field": Drift.fields])
        metrics.declareCounter(
            "repricer_status_checks_total", "Statuses read, by outcome.",
            labels: ["outcome": StatusCheckQueries.Outcome.allCases.map(\.rawValue)])
    }
}

extension Reconciler.Dependencies {
    /// Stores why a read failed, for `status`, while calls wait for it.
    func noteCatchUp(_ answer: String) async throws {
        let note = ServiceControlQueries.noteCatchUpAnswer(answer)
        try await pool.write(note)
    }
}

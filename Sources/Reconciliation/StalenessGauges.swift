package import Facts
package import ServiceKit

/// Keeps the gauges that say how old our knowledge is.
package struct StalenessGauges: Service {
    package let name = "staleness"
    private let pool: DatabasePool
    private let clock: any WallClock
    private let log: Log
    private let metrics: Metrics
    private let silentAfter: Duration
    /// The real time between two readings.
    private static let every: Duration = .seconds(15)
    private let read: ReadFigures

    /// - Parameter pool: A pool that only gauges use, with a timeout for its statements.
    package init(
        pool: DatabasePool, clock: any WallClock, realClock: any WallClock, log: Log,
        metrics: Metrics, silentAfter: Duration
    ) {
        self.pool = pool
        self.clock = clock
        self.log = log
        self.metrics = metrics
        self.silentAfter = silentAfter
        read = ReadFigures([.ages], metrics: metrics, realClock: realClock)
        metrics.declareGauge(
            "repricer_notification_newest_age_seconds",
            "Since the newest notification was received, on the service's clock; absent: none was.")
        metrics.declareGauge(
            "repricer_inbox_oldest_age_seconds",
            "Age of the oldest notification that is not folded yet; 0: none waits.")
        metrics.declareGauge(
            "repricer_changes_silent",
            "Open changes of which something should have been heard and nothing was.")
        metrics.declareGauge(
            "repricer_history_lag_seconds",
            "How far behind the notification history is read; absent: it never was.")
        metrics.declareGauge(
            "repricer_status_checks_open", "Statuses that are still to be read.")
    }

    package func run() async throws {
        await Rounds(
            log: log, level: .warning, failure: "ages of what was heard are not read; trying again",
            failureWait: Self.every, count: { metrics.increment("repricer_figures_failures_total") }
        ).run {
            try await refresh()
            return Self.every
        }
    }

    package func refresh() async throws {
        let now = clock.nowMilliseconds()
        let margin = silentAfter.milliseconds
        let staleness = try await pool.read {
            try StalenessQueries.read(now: now, margin: margin, on: $0)
        }
        func age(_ instant: Int64) -> Double { Double(max(0, now - instant)) / 1000 }
        if let newest = staleness.newestNotificationAt {
            metrics.set("repricer_notification_newest_age_seconds", to: age(newest))
        }
        metrics.set(
            "repricer_inbox_oldest_age_seconds", to: staleness.oldestUnfoldedAt.map(age) ?? 0)
        metrics.set("repricer_changes_silent", to: Double(staleness.silentChanges))
        if let through = staleness.historyReadThrough {
            metrics.set("repricer_history_lag_seconds", to: age(through))
        }
        metrics.set("repricer_status_checks_open", to: Double(staleness.openChecks))
        read.note(.ages)
    }
}

import Batches
package import Facts
import Pricing
package import ServiceKit
import Synchronization

/// Updates the gauges that may count millions of rows: open changes, deadlines at risk, and storage. They use their own
/// connection, because the gauges that are read every few seconds must not wait for a count.
package final class CountGauges: Service {
    package let name = "counts"
    private let pool: DatabasePool
    private let clock: any WallClock
    private let metrics: Metrics
    private let log: Log
    private let limits: Limits
    private let read: ReadFigures
    private let pause = Mutex<Duration>(.zero)

    package struct Limits: Sendable {
        /// The time between two counts.
        package var every: Duration = .seconds(60)
        /// Counting takes at most one part in this many of the time, unless counts would then be older than `pauseMax`.
        package var share = 50
        package var pauseMax: Duration = .seconds(15 * 60)
        /// The price changes that are allowed in a thousand seconds, over all replicas; nil in a process that makes
        /// none and does not know it.
        package var changesPerThousandSeconds: Int?

        package init() {}
    }

    /// - Parameter pool: A pool of one connection that only this service uses, with a timeout for its statements.
    package init(
        pool: DatabasePool, clock: any WallClock, realClock: any WallClock, metrics: Metrics,
        log: Log, limits: Limits = Limits()
    ) {
        self.pool = pool
        self.clock = clock
        self.metrics = metrics
        self.log = log
        self.limits = limits
        DatabaseGauges.declareCounts(metrics)
        let deadlines: [ReadFigures.Group] =
            limits.changesPerThousandSeconds == nil ? [] : [.deadlines]
        read = ReadFigures(
            [.changes, .storage] + deadlines, metrics: metrics, realClock: realClock)
    }

    package func run() async throws {
        await Rounds(
            log: log, level: .warning,
            failure: "counts of the database are not read; trying again", failureWait: .zero,
            count: { [metrics] in metrics.increment("repricer_figures_failures_total") }
        ).run {
            // It waits before each round, and so also after a failed one.
            try await Task.sleep(for: pause.withLock { $0 })
            try await refresh()
            return .zero
        }
    }

    /// Counts each group. Where one count fails, the others are still made.
    package func refresh() async throws {
        let started = ContinuousClock.now
        defer {
            let took = ContinuousClock.now - started
            let wanted = max(limits.every, min(took * limits.share, limits.pauseMax))
            pause.withLock { $0 = wanted }
        }
        let instant = clock.nowMilliseconds()
        var failure: (any Error)?
        func trying(_ group: ReadFigures.Group, _ body: () async throws -> Void) async throws {
            do {
                try await body()
                read.note(group)
            } catch let error as CancellationError {
                throw error
            } catch {
                failure = failure ?? error
            }
        }
        try await trying(.changes) {
            tell(changes: try await pool.read { try GaugeQueries.openChanges(on: $0) }, instant)
        }
        try await trying(.storage) {
            tell(try await pool.read { try GaugeQueries.storage(on: $0) })
        }
        if let rate = limits.changesPerThousandSeconds {
            try await trying(.deadlines) {
                let open = try await pool.read {
                    try OpenCallQueries.open(of: nil, now: instant, on: $0).others
                }
                let late = CallList.lateRowCount(
                    of: open, besides: [], callsPerThousandSeconds: rate,
                    now: Instant(milliseconds: instant))
                metrics.set("repricer_changes_late_at_rate", to: Double(late))
            }
        }
        if let failure { throw failure }
    }

    // MARK: What is told

    private func tell(changes: [GaugeQueries.Queue], _ now: Int64) {
        let known = Dictionary(changes.map { ($0.labels[0], $0) }) { first, _ in first }
        let states = ChangeState.allCases.filter { !$0.isFinal }.map(\.rawValue)
        metrics.set(
            "repricer_changes",
            toAll: states.map { (["state": $0], Double(known[$0]?.count ?? 0)) })
        metrics.set(
            "repricer_changes_oldest_age_seconds",
            toAll: states.map { state in
                let oldest = known[state]?.oldestAt ?? now
                return (["state": state], Double(max(0, now - oldest)) / 1000)
            })
    }

    private func tell(_ storage: GaugeQueries.Storage) {
        metrics.set("repricer_database_size_bytes", to: Double(storage.databaseBytes))
        func samples(
            _ value: (GaugeQueries.Storage.Table) -> Int64?
        ) -> [(labels: [String: String], value: Double)] {
            storage.tables.compactMap { table in
                value(table).map { (["table": table.name], Double($0) / 1000) }
            }
        }
        metrics.set("repricer_kept_since_timestamp_seconds", toAll: samples(\.keptSince))
        metrics.set(
            "repricer_months_prepared_until_timestamp_seconds", toAll: samples(\.preparedUntil))
        metrics.set(
            "repricer_kept_bytes",
            toAll: storage.tables.map { (["table": $0.name], Double($0.bytes)) })
    }
}

import Batches
package import Facts
import Pricing
package import ServiceKit
import Synchronization

/// Keeps the gauges of what all replicas share: queues and their age, open calls, the used part of the rate,
/// deadlines at risk, and what is stored. A scrape never waits for the database: it gets what was read last, and
/// whether the database answers.
package struct DatabaseGauges: Service {
    package let name = "database gauges"
    private let pool: DatabasePool
    private let clock: any WallClock
    private let realClock: any WallClock
    private let metrics: Metrics
    private let limits: Limits
    private let rounds: Rounds
    private let memory = Memory()

    package struct Limits: Sendable {
        /// The time between two readings of what costs little.
        package var every: Duration = .seconds(5)
        /// The time between two counts of what may be millions.
        package var countsEvery: Duration = .seconds(60)
        /// Counting takes at most one part in this many of the time.
        package var countsShare = 50
        /// The allowed calls of a thousand seconds, over all replicas, by endpoint.
        package var callsPerThousandSeconds: [String: Int] = [:]

        package init() {}
    }

    /// What was read last, with the real time of this process.
    private final class Memory: Sendable {
        struct State {
            var answeredAt: ContinuousClock.Instant?
            var countsDueAt: ContinuousClock.Instant?
        }

        let state = Mutex(State())
    }

    /// How old an answer may be before the database counts as hanging: three readings, or three of its statements.
    private static let silentAfter: Duration = .seconds(20)

    /// - Parameter pool: A pool of one connection that only this service uses, with a timeout for its statements.
    package init(
        pool: DatabasePool, clock: any WallClock, realClock: any WallClock, metrics: Metrics,
        log: Log, limits: Limits = Limits()
    ) {
        self.pool = pool
        self.clock = clock
        self.realClock = realClock
        self.metrics = metrics
        self.limits = limits
        rounds = Rounds(
            log: log, level: .warning,
            failure: "figures of the database are not read; trying again",
            failureWait: limits.every,
            count: { metrics.increment("repricer_figures_failures_total") })
        Self.declare(metrics)
        for (endpoint, rate) in limits.callsPerThousandSeconds {
            metrics.set(
                "repricer_rate_limit_calls_per_second", labels: ["endpoint": endpoint],
                to: Double(rate) / 1000)
        }
        metrics.onRender { [memory] metrics in
            let answeredAt = memory.state.withLock { $0.answeredAt }
            let isUp = answeredAt.map { .now - $0 < Self.silentAfter } ?? false
            metrics.set("repricer_database_up", to: isUp ? 1 : 0)
        }
    }

    package func run() async throws {
        await rounds.run {
            try await refresh()
            return limits.every
        }
    }

    /// Does one reading, with the counts when they are due.
    package func refresh(now: ContinuousClock.Instant = .now) async throws {
        let instant = clock.nowMilliseconds()
        do {
            let (backlogs, calls, rates, undelivered) = try await pool.read { connection in
                (
                    try GaugeQueries.backlogs(on: connection),
                    try GaugeQueries.openCalls(on: connection),
                    try GaugeQueries.rates(now: instant, on: connection),
                    try UndeliveredQueries.find(now: instant, on: connection)
                )
            }
            tell(backlogs)
            tell(calls, instant)
            tell(rates, instant)
            metrics.set("repricer_changes_due_undelivered", to: undelivered == nil ? 0 : 1)
        } catch let error as DatabaseServerError where !error.isConnectionLoss {
            // It answers, though with an error: the schema is another one, or a right is missing.
            if error.sqlState != nil { memory.state.withLock { $0.answeredAt = now } }
            throw error
        } catch {
            memory.state.withLock { $0.answeredAt = nil }
            throw error
        }
        memory.state.withLock { $0.answeredAt = now }
        metrics.set(
            "repricer_figures_read_timestamp_seconds",
            to: Double(realClock.nowMilliseconds()) / 1000)
        guard memory.state.withLock({ $0.countsDueAt.map { $0 <= now } ?? true }) else { return }
        try await count(instant)
    }

    private func count(_ instant: Int64) async throws {
        let started = ContinuousClock.now
        defer {
            let took = ContinuousClock.now - started
            let pause = max(limits.countsEvery, took * limits.countsShare)
            memory.state.withLock { $0.countsDueAt = .now + pause }
        }
        let rate = limits.callsPerThousandSeconds["change_price"]
        let (changes, storage, open) = try await pool.read { connection in
            (
                try GaugeQueries.openChanges(on: connection),
                try GaugeQueries.storage(on: connection),
                rate == nil
                    ? [] : try OpenCallQueries.open(of: nil, now: instant, on: connection).others
            )
        }
        tell(changes: changes, instant)
        tell(storage)
        if let rate {
            let late = CallList.lateRowCount(
                of: open, besides: [], callsPerThousandSeconds: rate,
                now: Instant(milliseconds: instant))
            metrics.set("repricer_changes_late_at_rate", to: Double(late))
        }
    }

    // MARK: What is told

    private func age(_ instant: Int64?, _ now: Int64) -> Double {
        instant.map { Double(max(0, now - $0)) / 1000 } ?? 0
    }

    private func tell(_ backlogs: GaugeQueries.Backlogs) {
        metrics.set("repricer_inbox_waiting", to: Double(backlogs.inboxWaiting))
        metrics.set("repricer_inbox_quarantined", to: Double(backlogs.inboxQuarantined))
        metrics.set("repricer_webhooks_pending", to: Double(backlogs.webhooksPending))
        metrics.set(
            "repricer_webhooks_oldest_age_seconds",
            to: age(backlogs.webhooksSince, realClock.nowMilliseconds()))
        metrics.set("repricer_figures_unsummed", to: Double(backlogs.staleFigures))
        metrics.set("repricer_catching_up", to: backlogs.isCatchingUp ? 1 : 0)
    }

    private func tell(_ calls: [GaugeQueries.Queue], _ now: Int64) {
        let known = Dictionary(calls.map { ($0.labels, $0) }) { first, _ in first }
        let all = StoreCall.Kind.allCases.flatMap { kind in
            ["sending", "unknown"].map { [kind.rawValue, $0] }
        }
        let samples = all.map { place in
            (
                labels: ["kind": place[0], "state": place[1]], count: known[place]?.count ?? 0,
                age: age(known[place]?.oldestAt, now)
            )
        }
        metrics.set("repricer_calls_open", toAll: samples.map { ($0.labels, Double($0.count)) })
        metrics.set("repricer_calls_oldest_age_seconds", toAll: samples.map { ($0.labels, $0.age) })
    }

    private func tell(_ rates: [GaugeQueries.Rate], _ now: Int64) {
        metrics.set(
            "repricer_rate_used_calls_per_second",
            toAll: rates.compactMap { rate in
                rate.lastSecond.map { (["endpoint": rate.endpoint], Double($0)) }
            })
        metrics.set(
            "repricer_rate_silence_seconds",
            toAll: rates.map { rate in
                let left = rate.blockedUntil.map { Double(max(0, $0 - now)) / 1000 } ?? 0
                return (["endpoint": rate.endpoint], left)
            })
    }

    private func tell(changes: [GaugeQueries.Queue], _ now: Int64) {
        let known = Dictionary(changes.map { ($0.labels[0], $0) }) { first, _ in first }
        let states = ChangeState.allCases.filter { !$0.isFinal }.map(\.rawValue)
        metrics.set(
            "repricer_changes",
            toAll: states.map { (["state": $0], Double(known[$0]?.count ?? 0)) })
        metrics.set(
            "repricer_changes_oldest_age_seconds",
            toAll: states.map { (["state": $0], age(known[$0]?.oldestAt, now)) })
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

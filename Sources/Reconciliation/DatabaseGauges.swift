import Batches
package import Facts
import Pricing
package import ServiceKit
import Synchronization

/// Updates the gauges of state that all replicas share and that is quick to read: queues and their age, open calls, and
/// the used part of the rate. A scrape never waits for the database: it gets the last values, and whether the database
/// answers.
package struct DatabaseGauges: Service {
    package let name = "database gauges"
    private let pool: DatabasePool
    private let clock: any WallClock
    private let realClock: any WallClock
    private let metrics: Metrics
    private let limits: Limits
    private let rounds: Rounds
    private let read: ReadFigures
    private let memory = Memory()

    package struct Limits: Sendable {
        /// The time between two readings.
        package var every: Duration = .seconds(5)
        /// The allowed calls of a thousand seconds, over all replicas, by endpoint. It is empty in a process that makes
        /// no calls, because its settings do not apply.
        package var callsPerThousandSeconds: [String: Int] = [:]
        /// Whether a webhook is configured, so that events are delivered.
        package var hasWebhook = true

        package init() {}
    }

    /// When the database answered last, in the real time of this process.
    private final class Memory: Sendable {
        let answeredAt = Mutex<ContinuousClock.Instant?>(nil)
    }

    /// How old an answer may be before the database counts as hanging: three readings, or three of its statements.
    private static let silentAfter: Duration = .seconds(20)

    /// - Parameter pool: A pool that only gauges use, with a timeout for its statements.
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
        read = ReadFigures([.queues], metrics: metrics, realClock: realClock)
        for (endpoint, rate) in limits.callsPerThousandSeconds {
            metrics.set(
                "repricer_rate_limit_calls_per_second", labels: ["endpoint": endpoint],
                to: Double(rate) / 1000)
        }
        metrics.onRender { [memory] metrics in
            let answeredAt = memory.answeredAt.withLock { $0 }
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

    /// Does one reading.
    package func refresh(now: ContinuousClock.Instant = .now) async throws {
        let instant = clock.nowMilliseconds()
        do {
            let (backlogs, calls, rates, undelivered) = try await pool.read { connection in
                (
                    try GaugeQueries.backlogs(on: connection),
                    try GaugeQueries.openCalls(on: connection),
                    try GaugeQueries.rates(
                        of: limits.callsPerThousandSeconds.keys.sorted(),
                        now: clock is SystemClock ? nil : instant, on: connection),
                    try UndeliveredQueries.find(now: instant, on: connection)
                )
            }
            tell(backlogs)
            tell(calls, instant)
            tell(rates)
            metrics.set("repricer_changes_due_undelivered", to: undelivered == nil ? 0 : 1)
        } catch let error as DatabaseServerError where !error.isConnectionLoss {
            // The database answers, though with an error, because the schema differs or a right is missing.
            if error.sqlState != nil { memory.answeredAt.withLock { $0 = now } }
            throw error
        } catch {
            memory.answeredAt.withLock { $0 = nil }
            throw error
        }
        memory.answeredAt.withLock { $0 = now }
        read.note(.queues)
    }

    // MARK: What is told

    private func age(_ instant: Int64?, _ now: Int64) -> Double {
        instant.map { Double(max(0, now - $0)) / 1000 } ?? 0
    }

    private func tell(_ backlogs: GaugeQueries.Backlogs) {
        metrics.set("repricer_inbox_waiting", to: Double(backlogs.inboxWaiting))
        metrics.set("repricer_inbox_quarantined", to: Double(backlogs.inboxQuarantined))
        metrics.set("repricer_webhooks_pending", to: Double(backlogs.webhooksPending))
        metrics.set("repricer_webhooks_given_up", to: Double(backlogs.webhooksGivenUp))
        metrics.set(
            "repricer_webhooks_oldest_age_seconds",
            to: limits.hasWebhook ? age(backlogs.webhooksSince, realClock.nowMilliseconds()) : 0)
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

    private func tell(_ rates: [GaugeQueries.Rate]) {
        metrics.set(
            "repricer_rate_used_calls_per_second",
            toAll: rates.compactMap { rate in
                rate.lastSecond.map { (["endpoint": rate.endpoint], Double($0)) }
            })
        metrics.set(
            "repricer_rate_silence_seconds",
            toAll: rates.map { (["endpoint": $0.endpoint], Double($0.silenceMilliseconds) / 1000) })
    }
}

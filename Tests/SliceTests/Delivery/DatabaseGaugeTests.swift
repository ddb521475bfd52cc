import Facts
import Postgres
import Reconciliation
import ServiceKit
import TestSupport
import Testing

@testable import Pricing

/// What metrics say of queues that all replicas share.
@Suite(.database) struct DatabaseGaugeTests {
    private typealias Harness = DeliveryHarness

    private static func gauges(
        _ harness: Harness, _ metrics: Metrics, callsPerThousandSeconds rate: Int = 5000
    ) -> DatabaseGauges {
        var limits = DatabaseGauges.Limits()
        limits.countsEvery = .zero
        limits.countsShare = 0
        limits.callsPerThousandSeconds = ["change_price": rate]
        return DatabaseGauges(
            pool: harness.service, clock: harness.clock, realClock: harness.realClock,
            metrics: metrics, log: .silent, limits: limits)
    }

    private static func has(_ metrics: Metrics, _ sample: String) -> Bool {
        metrics.render().contains("\n\(sample)\n")
    }

    @Test func gauges_ofQueues_tellTheirDepthAndAge() async throws {
        let harness = try await Harness.make()
        for id in ["1", "2", "3"] { try await harness.subscribe(id) }
        try await harness.submitAndApprove([
            Harness.row("1", line: 2), Harness.row("2", line: 3), Harness.row("3", line: 4),
        ])
        let metrics = Metrics()
        let gauges = Self.gauges(harness, metrics)
        harness.clock.advance(by: .seconds(90))

        try await gauges.refresh()

        #expect(Self.has(metrics, #"repricer_changes{state="queued"} 3"#))
        #expect(Self.has(metrics, #"repricer_changes_oldest_age_seconds{state="queued"} 90"#))
        #expect(Self.has(metrics, #"repricer_changes{state="unknown"} 0"#))
        #expect(Self.has(metrics, "repricer_database_up 1"))
        #expect(Self.has(metrics, "repricer_changes_late_at_rate 0"))
        #expect(
            Self.has(metrics, #"repricer_rate_limit_calls_per_second{endpoint="change_price"} 5"#))
        #expect(metrics.render().contains(#"repricer_kept_bytes{table="notifications"} "#))

        try await harness.deliver(harness.scheduler())
        try await gauges.refresh()

        #expect(Self.has(metrics, #"repricer_changes{state="queued"} 0"#))
        #expect(Self.has(metrics, #"repricer_changes_oldest_age_seconds{state="queued"} 0"#))
        await harness.close()
    }

    @Test func gauges_ofCallsWithoutAnOutcome_tellHowLong() async throws {
        let harness = try await Harness.make([.unavailable])
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await harness.deliver(harness.scheduler())
        let metrics = Metrics()
        harness.clock.advance(by: .seconds(1000))

        try await Self.gauges(harness, metrics).refresh()

        #expect(Self.has(metrics, #"repricer_calls_open{kind="price_change",state="unknown"} 1"#))
        #expect(
            Self.has(
                metrics,
                #"repricer_calls_oldest_age_seconds{kind="price_change",state="unknown"} 1000"#))
        #expect(Self.has(metrics, #"repricer_changes{state="unknown"} 1"#))
        await harness.close()
    }

    /// One call in 23 days: of three rows that have 13, none is in time but the first.
    @Test func gauges_whereTheRateIsTooSmall_tellWhatWillBeLate() async throws {
        let harness = try await Harness.make()
        for id in ["1", "2", "3"] { try await harness.subscribe(id) }
        try await harness.submitAndApprove([
            Harness.row("1", line: 2), Harness.row("2", line: 3), Harness.row("3", line: 4),
        ])
        let (slow, quick) = (Metrics(), Metrics())

        try await Self.gauges(harness, slow, callsPerThousandSeconds: 1).refresh()
        try await Self.gauges(harness, quick, callsPerThousandSeconds: 5000).refresh()
        harness.clock.advance(by: .seconds(13 * 86_400 - 1500))
        let late = Metrics()
        try await Self.gauges(harness, late, callsPerThousandSeconds: 1).refresh()

        #expect(Self.has(slow, "repricer_changes_late_at_rate 0"))
        #expect(Self.has(quick, "repricer_changes_late_at_rate 0"))
        #expect(!Self.has(late, "repricer_changes_late_at_rate 0"))
        await harness.close()
    }

    @Test func gauges_whenTheDatabaseIsAway_sayThatAlone() async throws {
        let pool = DatabasePool(
            conninfo: "host=/nonexistent dbname=x", applicationName: "test", size: 1)
        let metrics = Metrics()
        let gauges = DatabaseGauges(
            pool: pool, clock: ManualClock(0), realClock: ManualClock(0), metrics: metrics,
            log: .silent)

        await #expect(throws: PostgresError.self) { try await gauges.refresh() }

        #expect(Self.has(metrics, "repricer_database_up 0"))
        #expect(!metrics.render().contains("\nrepricer_inbox_waiting "))
    }

    @Test func gauges_whenTheirQuestionsFail_sayThatTheDatabaseAnswers() async throws {
        let metrics = Metrics()
        let pool = DatabasePool(
            conninfo: try await TestDatabase.makeEmptyDatabase(), applicationName: "test", size: 1)
        let gauges = DatabaseGauges(
            pool: pool, clock: ManualClock(0), realClock: ManualClock(0), metrics: metrics,
            log: .silent)

        await #expect(throws: PostgresError.self) { try await gauges.refresh() }

        #expect(Self.has(metrics, "repricer_database_up 1"))
        await pool.close()
    }
}

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

    /// All that `serve` reads.
    private struct Gauges {
        let queues: DatabaseGauges
        let counts: CountGauges

        func refresh() async throws {
            try await queues.refresh()
            try await counts.refresh()
        }
    }

    private static func gauges(
        _ harness: Harness, _ metrics: Metrics, callsPerThousandSeconds rate: Int? = 5000
    ) -> Gauges {
        var limits = DatabaseGauges.Limits()
        limits.callsPerThousandSeconds = rate.map { ["change_price": $0] } ?? [:]
        var counted = CountGauges.Limits()
        counted.changesPerThousandSeconds = rate
        return Gauges(
            queues: DatabaseGauges(
                pool: harness.service, clock: harness.clock, realClock: harness.realClock,
                metrics: metrics, log: .silent, limits: limits),
            counts: CountGauges(
                pool: harness.service, clock: harness.clock, realClock: harness.realClock,
                metrics: metrics, log: .silent, limits: counted))
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

    /// The settings of a process that calls nobody are not those that count.
    @Test func gauges_ofAProcessThatMakesNoCalls_sayNothingOfRates() async throws {
        let harness = try await Harness.make()
        let metrics = Metrics()

        try await Self.gauges(harness, metrics, callsPerThousandSeconds: nil).refresh()

        #expect(Self.has(metrics, #"repricer_changes{state="queued"} 0"#))
        for absent in ["changes_late_at_rate", "rate_limit_calls_per_second"] {
            #expect(!metrics.render().contains("\nrepricer_\(absent)"))
        }
        #expect(!metrics.render().contains(#"read_timestamp_seconds{group="deadlines"}"#))
        await harness.close()
    }

    /// Each group tells when it was read itself: others may go on being read.
    @Test func gauges_whereOneCountFails_readTheOthersAndSayWhichIsOld() async throws {
        let harness = try await Harness.make()
        let metrics = Metrics()
        let gauges = Self.gauges(harness, metrics)
        func readAt(_ group: String) -> Double? {
            let name = #"repricer_figures_read_timestamp_seconds{group="\#(group)"} "#
            return metrics.render().split(separator: "\n").first { $0.hasPrefix(name) }
                .flatMap { Double($0.dropFirst(name.count)) }
        }
        let start = Double(harness.realClock.nowMilliseconds()) / 1000
        let never = ["queues", "changes", "storage", "deadlines"].map(readAt)
        let owner = try await TestDatabase.connect()
        try await owner.script("ALTER VIEW repricer.month_partitions RENAME TO elsewhere")
        harness.realClock.advance(by: .seconds(60))

        await #expect(throws: PostgresError.self) { try await gauges.refresh() }

        #expect(never == [start, start, start, start], "the start counts, so that it is noticed")
        #expect(readAt("queues") == start + 60)
        #expect(readAt("changes") == start + 60)
        #expect(readAt("deadlines") == start + 60)
        #expect(readAt("storage") == start)
        #expect(Self.has(metrics, #"repricer_changes{state="queued"} 0"#))
        #expect(Self.has(metrics, "repricer_changes_late_at_rate 0"))
        #expect(!metrics.render().contains("\nrepricer_kept_bytes{"))
        await owner.close()
        await harness.close()
    }

    /// A lease after a silence fills the window behind it, so that the window's calls don't all leave in its first half.
    @Test(arguments: [1_772_323_200_000, nil] as [Int64?])
    func rateUsed_byOneCallAfterASilence_isOne(_ now: Int64?) async throws {
        let connection = try await TestDatabase.connect()
        let rate = CallRate(endpoint: "change_price", perSecond: 50)

        let rates = try await connection.transaction { connection in
            _ = try RateQueries.lease(
                rate, wanted: 1, nowMicros: now.map { $0 * 1000 }, on: connection)
            _ = try connection.execute(
                RateQueries.block(endpoint: "change_price", milliseconds: 60_000, now: now))
            return try GaugeQueries.rates(
                of: ["change_price", "cancel"], now: now, on: connection)
        }

        let used = Dictionary(uniqueKeysWithValues: rates.map { ($0.endpoint, $0) })
        #expect(used["change_price"]?.lastSecond == 1)
        // The database's clock may have gone on.
        #expect((50_000...60_000).contains(used["change_price"]?.silenceMilliseconds ?? 0))
        // Nobody has called it yet, and that is known.
        #expect(used["cancel"]?.lastSecond == 0)
        #expect(used["cancel"]?.silenceMilliseconds == 0)
        await connection.close()
    }

    @Test func rateUsed_byCallsOfTheLastSecond_countsThemAll() async throws {
        let connection = try await TestDatabase.connect()
        let rate = CallRate(endpoint: "change_price", perSecond: 50)
        let start: Int64 = 1_772_323_200_000

        let used = try await connection.transaction { connection in
            for step in 0..<12 as Range<Int64> {
                _ = try RateQueries.lease(
                    rate, wanted: 25, nowMicros: (start + step * 250) * 1000, on: connection)
            }
            return try GaugeQueries.rates(of: [], now: start + 3000, on: connection)
        }

        #expect((45...50).contains(used.first?.lastSecond ?? 0), "\(used)")
        await connection.close()
    }

    /// Events that nobody tries, because no webhook is configured, are no trouble.
    @Test func gauges_ofEventsThatWereGivenUp_standUntilTheyAreReplayed() async throws {
        let harness = try await Harness.make()
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            INSERT INTO repricer.outbox (aggregateid, bucket, position, aggregatetype, type, payload)
            SELECT '1', repricer.bucket_of('1'), n, 'subscription', 'x', '{}' FROM generate_series(1, 3) n;
            INSERT INTO repricer.webhook_deliveries (aggregateid, bucket, position, state, last_error, settled_at)
            VALUES ('1', repricer.bucket_of('1'), 1, 'given_up', 'answered 500', '2026-01-01Z'),
                ('1', repricer.bucket_of('1'), 2, 'given_up', 'no webhook was configured', '2026-01-01Z'),
                ('1', repricer.bucket_of('1'), 3, 'pending', 'answered 500', NULL);
            """)
        let metrics = Metrics()
        let gauges = Self.gauges(harness, metrics)

        try await gauges.refresh()
        #expect(Self.has(metrics, "repricer_webhooks_given_up 1"))
        try await owner.script("UPDATE repricer.webhook_deliveries SET state = 'delivered'")
        try await gauges.refresh()

        #expect(Self.has(metrics, "repricer_webhooks_given_up 0"))
        await owner.close()
        await harness.close()
    }

    /// Where no webhook is set, events wait for nobody, and nobody is to be paged for them.
    @Test(arguments: [true, false])
    func eventsThatWait_haveAnAge_whereAWebhookIsSet(hasWebhook: Bool) async throws {
        let harness = try await Harness.make()
        try await harness.write(
            """
            WITH event AS (
                INSERT INTO repricer.outbox (aggregateid, bucket, position, aggregatetype, type, payload)
                VALUES ('1', repricer.bucket_of('1'), 1, 'subscription', 'x', '{}') RETURNING *
            )
            INSERT INTO repricer.webhook_deliveries (aggregateid, bucket, position, due_since)
            SELECT aggregateid, bucket, position, \(timestamp: harness.realClock.nowMilliseconds() - 7_200_000) FROM event
            """)
        let metrics = Metrics()
        var limits = DatabaseGauges.Limits()
        limits.hasWebhook = hasWebhook
        let gauges = DatabaseGauges(
            pool: harness.service, clock: harness.clock, realClock: harness.realClock,
            metrics: metrics, log: .silent, limits: limits)

        try await gauges.refresh()

        #expect(Self.has(metrics, "repricer_webhooks_pending 1"))
        #expect(
            Self.has(metrics, "repricer_webhooks_oldest_age_seconds \(hasWebhook ? 7200 : 0)"))
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

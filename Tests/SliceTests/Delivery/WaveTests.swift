import Batches
import Postgres
import PriceChanges
import ServiceKit
import TestSupport
import Testing

@testable import Pricing

/// Staged batches: what waits, what releases it, and what becomes of rows that waited too long.
@Suite(.database) struct WaveTests {
    private typealias Harness = DeliveryHarness

    /// Ids whose points are below 5000 (first half) and above.
    private static let halves = split()

    private static func split() -> (first: String, second: String) {
        let ids = (1...100).map(String.init)
        return (
            ids.first { WavePlan.point(of: $0) < 5000 } ?? "",
            ids.first { WavePlan.point(of: $0) >= 5000 } ?? ""
        )
    }

    private static func harness(_ waves: String) async throws -> (Harness, batchID: String) {
        let harness = try await Harness.make()
        try await harness.subscribe(halves.first)
        try await harness.subscribe(halves.second)
        let batchID = try await harness.submit(
            [
                Harness.row(halves.second), Harness.row(halves.first, line: 3),
                Harness.row(halves.first, "B", line: 4),
            ],
            terms: BatchTerms(grouping: .item, waves: try WavePlan(waves)))
        return (harness, batchID)
    }

    private static func watch(_ harness: Harness) -> BatchWatch {
        BatchWatch(pool: harness.service, clock: harness.clock, log: .silent, metrics: Metrics())
    }

    private static func release(
        _ harness: Harness, _ batchID: String, through: Int? = nil
    )
        async throws -> Int
    {
        let at = harness.now.milliseconds
        return try await harness.approver.withTransaction {
            try ControlQueries.release(batchID, through: through, at: at, on: $0)
        }
    }

    /// Its release leaves a minute, after rounding, and a call takes 20 seconds. From the approval on there were days for
    /// all of them.
    @Test(arguments: [
        ("50%,rest@2026-03-04T00:00:00Z", true), ("50%,rest@+3d", false),
        ("50%@hand,rest@+3d", true),
    ])
    func callsOfALaterWave_areLate_whereItsReleaseComesTooLate(
        waves: String, isApproved: Bool
    ) async throws {
        let harness = try await Harness.make()
        let plan = try WavePlan(waves)
        let ids = (1...24).map(String.init)
        for id in ids { try await harness.subscribe(id) }
        let batchID = try await harness.submit(
            ids.enumerated().map { Harness.row($1, line: $0 + 2) }, terms: BatchTerms(waves: plan))
        if isApproved { try await harness.approve(batchID) }
        try await harness.write(
            "UPDATE repricer.price_changes SET send_by = '2026-03-04T00:01:30Z' WHERE wave = 2")
        let later = ids.count { plan.wave(ofSubscription: $0, storefront: "USA") == 2 }
        let now = harness.now.milliseconds

        let open = try await harness.submitter.withTransaction {
            try OpenCallQueries.open(of: batchID, now: now, on: $0)
        }

        #expect(later > 7)
        #expect(
            CallList.lateRowCount(
                of: open.own, besides: open.others, callsPerThousandSeconds: 50, now: harness.now)
                == later - 4)
        await harness.close(isTamperedWith: true)
    }

    @Test func wave_untilItIsReleased_isNeverSent() async throws {
        let (harness, batchID) = try await Self.harness("50%,rest")
        try await harness.approve(batchID)

        try await harness.deliver(harness.scheduler())
        try await Self.watch(harness).round()
        try await harness.deliver(harness.scheduler())

        #expect(try await harness.changes() == ["A queued", "A scheduled", "B scheduled"])
        #expect(Set(harness.store.calls.map(\.transactionID)) == [Self.halves.first])

        #expect(try await Self.release(harness, batchID) == 2)
        try await harness.deliver(harness.scheduler())

        #expect(try await harness.changes() == ["A scheduled", "A scheduled", "B scheduled"])
        await harness.close()
    }

    @Test func wave_heldByHand_waitsForAPersonAfterTheApproval() async throws {
        let (harness, batchID) = try await Self.harness("50%@hand,rest")
        try await harness.approve(batchID)

        try await harness.deliver(harness.scheduler())
        #expect(harness.store.calls.isEmpty)
        #expect(try await Self.release(harness, batchID, through: 2) == 2)
        try await harness.deliver(harness.scheduler())

        #expect(harness.store.calls.count == 3)
        await harness.close()
    }

    @Test(arguments: ["50%,rest@+1d", "50%,rest@2026-03-02"])
    func wave_withATime_isReleasedThenAndNotWhilePaused(waves: String) async throws {
        let (harness, batchID) = try await Self.harness(waves)
        try await harness.approve(batchID)
        let watch = Self.watch(harness)

        harness.clock.advance(by: .seconds(86_399))
        try await watch.round()
        #expect(try await Self.releasedWave(harness) == 1)
        harness.clock.advance(by: .seconds(1))
        try await harness.setPause(batchID, true)
        try await watch.round()
        #expect(try await Self.releasedWave(harness) == 1)
        try await harness.setPause(batchID, false)
        try await watch.round()
        try await watch.round()

        #expect(try await Self.releasedWave(harness) == 2)
        let lines = try await harness.service.withConnection { connection in
            try await connection.query(
                """
                SELECT action || ' ' || coalesce(details ->> 'label', '') AS line
                FROM repricer.audit_trail ORDER BY sequence
                """
            ).map { try $0.text("line") }
        }
        #expect(
            lines == ["submit ", "approve ", "release 50%", "pause ", "resume ", "release rest"])
        await harness.close()
    }

    /// All waves that became due meanwhile would go at once, unless they waited, too.
    @Test(arguments: [
        "is_paused = true, paused_by = 'ben', paused_at = now()",
        "halted_at = now(), halted_reason = '4010000'",
        #"halted_kinds = '{"price_change": {"at": "2026-03-01T00:00:00Z", "reason": "403"}}'"#,
        #"throttled_kinds = '{"price_change": {"since": "2026-03-01T00:00:00Z", "until": "2026-03-01T00:00:00Z", "answer": "503"}}'"#,
        "catch_up_since = '2026-03-01Z'",
        "unreached_kinds = jsonb_build_object('price_change', jsonb_build_object("
            + "'since', now(), 'tried', now(), 'answer', '503', 'seen', clock_timestamp()))",
        "is_paused = false; UPDATE repricer.rate_limits SET blocked_until = '2026-03-04T02:00:00Z' WHERE endpoint = 'change_price'",
    ])
    func waves_whileEverythingIsPausedOrHalted_areNotReleasedByTime(standing: String) async throws {
        let (harness, batchID) = try await Self.harness("50%,30%@+1d,rest@+1d")
        try await harness.approve(batchID)
        let watch = Self.watch(harness)
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            INSERT INTO repricer.rate_limits (endpoint) VALUES ('change_price') ON CONFLICT DO NOTHING;
            UPDATE repricer.service_controls SET \(standing)
            """)

        harness.clock.advance(by: .seconds(3 * 86_400))
        for _ in 0..<3 { try await watch.round() }
        #expect(try await Self.releasedWave(harness) == 1)
        try await owner.script(
            """
            UPDATE repricer.service_controls SET is_paused = false, paused_by = NULL, paused_at = NULL, halted_at = NULL,
                halted_reason = NULL, halted_kinds = '{}', throttled_kinds = '{}', catch_up_since = NULL,
                unreached_kinds = '{}';
            UPDATE repricer.rate_limits SET blocked_until = NULL
            """)
        for _ in 0..<3 { try await watch.round() }

        // The third has its day from the release of the second on.
        #expect(try await Self.releasedWave(harness) == 2)
        await owner.close()
        await harness.close()
    }

    /// Instants that passed during a pause do not release one wave upon the other: what the first shows can still stop the
    /// next.
    @Test func wavesWithInstants_afterAPauseOverAllOfThem_keepTheirDistance() async throws {
        let (harness, batchID) = try await Self.harness(
            "25%@2026-03-02,25%@2026-03-04,rest@2026-03-04T12:00:00Z")
        try await harness.approve(batchID)
        let watch = Self.watch(harness)
        func forecast() async throws -> [Int: Int64] {
            let now = harness.now
            let found = try await harness.submitter.withTransaction {
                try WaveReleaseQueries.releases(of: [batchID], now: now, on: $0)
            }
            return Dictionary(
                uniqueKeysWithValues: found.map {
                    ($0.wave, ($1.milliseconds - now.milliseconds) / 3_600_000)
                })
        }
        #expect(try await forecast() == [1: 24, 2: 72, 3: 84])
        try await harness.setPause(batchID, true)
        harness.clock.advance(by: .seconds(10 * 86_400))
        #expect(try await forecast() == [1: 0, 2: 48, 3: 60])
        try await harness.setPause(batchID, false)

        for (hours, expected) in [(0, 1), (47, 1), (1, 2), (11, 2), (1, 3)] {
            harness.clock.advance(by: .seconds(hours * 3600))
            for _ in 0..<3 { try await watch.round() }
            #expect(try await Self.releasedWave(harness) == expected, "after \(hours) more hours")
            if hours == 0 { #expect(try await forecast() == [2: 48, 3: 60]) }
        }
        await harness.close()
    }

    /// A halted batch asks with its own rows whether calls are taken again.
    @Test func waveOfAHaltedBatch_isReleasedByTimeOnlyWhereNoRowIsLeftToAskWith() async throws {
        let (harness, batchID) = try await Self.harness("50%,rest@+1d")
        try await harness.approve(batchID)
        let watch = Self.watch(harness)
        try await harness.write(
            """
            UPDATE repricer.batches SET is_paused = true, halted_by = '4000134', probe_at = now() + interval '1 year',
                paused_by = 'repricerd', paused_at = now(), paused_reason = 'refused'
            """)
        harness.clock.advance(by: .seconds(2 * 86_400))
        try await watch.round()
        #expect(try await Self.releasedWave(harness) == 1)

        try await harness.write(
            "UPDATE repricer.price_changes SET state = 'aborted', ended_at = now() WHERE wave = 1")
        try await watch.round()

        #expect(try await Self.releasedWave(harness) == 2)
        await harness.close()
    }

    private static func releasedWave(_ harness: Harness) async throws -> Int {
        try await harness.service.withConnection { connection in
            try await connection.query("SELECT released_wave FROM repricer.batches").one()
                .int("released_wave")
        }
    }

    @Test func release_whenNothingIsLeftOrApproved_isRefused() async throws {
        let (harness, batchID) = try await Self.harness("50%,rest")

        await #expect(throws: (any Error).self) { try await Self.release(harness, batchID) }
        try await harness.approve(batchID)
        await #expect(throws: (any Error).self) {
            try await Self.release(harness, batchID, through: 1)
        }
        _ = try await Self.release(harness, batchID)
        await #expect(throws: (any Error).self) { try await Self.release(harness, batchID) }

        await harness.close()
    }

    /// The subscriptions renew in 40 days: an announced increase sent after day 13 takes effect a month later.
    @Test func wave_releasedAfterItsDeadline_movesToTheNextRenewal() async throws {
        let (harness, batchID) = try await Self.harness("50%,rest")
        try await harness.approve(batchID)
        try await harness.deliver(harness.scheduler())

        harness.clock.advance(by: .seconds(20 * 86_400))
        _ = try await Self.release(harness, batchID)
        try await harness.deliver(harness.scheduler())

        #expect(try await harness.changes() == ["A scheduled", "A scheduled", "B scheduled"])
        let reason = try await harness.service.withConnection { connection in
            try await connection.query(
                """
                SELECT reason FROM repricer.price_change_history
                WHERE original_transaction_id = \(Self.halves.second) AND reason IS NOT NULL
                """
            ).map { try $0.text("reason") }
        }
        #expect(reason.count == 1)
        #expect(reason.first?.hasPrefix("moved from the renewal of 2026-04-10") == true)
        await harness.close()
    }

    @Test func wave_releasedAfterTheSubscriptionEnded_endsMissed() async throws {
        let (harness, batchID) = try await Self.harness("50%,rest")
        try await harness.approve(batchID)
        try await harness.deliver(harness.scheduler())

        harness.clock.advance(by: .seconds(20 * 86_400))
        try await harness.tell(
            SubscriptionEvent(
                key: .init(signedAt: harness.now, evidenceID: "off"), source: .notification,
                originalTransactionID: Self.halves.second, type: "DID_CHANGE_RENEWAL_STATUS",
                status: 1, renewal: RenewalStatement(autoRenewStatus: 0)))
        _ = try await Self.release(harness, batchID)
        try await harness.deliver(harness.scheduler())

        #expect(try await harness.changes().first == "A missed auto_renew_off")
        await harness.close()
    }

    /// 20,000 rows of a paused batch and of a wave to come stand before one row that may go: it costs some probes.
    @Test func heldRows_howeverMany_areNotRead() async throws {
        let harness = try await Harness.make()
        try await harness.subscribe("1")
        try await harness.submitAndApprove([Harness.row("1")])
        try await Self.fill(rows: 20_000)
        let realNow = harness.realClock.nowMilliseconds()

        let (due, ids, read) = try await harness.service.withTransaction { connection in
            let due = try connection.ask(DueQueries.earliest(realNow: realNow))
            let ids = try connection.ask(
                DueQueries.locking(due, until: nil, limit: 25, realNow: realNow)
            ).ids
            let read = try connection.query(
                """
                SELECT idx_tup_fetch + seq_tup_read AS rows FROM pg_stat_xact_user_tables
                WHERE relname = 'price_changes'
                """
            ).one().int64("rows")
            return (due, ids, read)
        }

        #expect(due.count == 1)
        #expect(ids == ["1"])
        #expect(read < 1000, "\(read) rows read")
        await harness.close()
    }

    private static func fill(rows: Int) async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            INSERT INTO repricer.batches (batch_id, name, state, content_sha256, plan_hash, planned_as_of,
                row_count, submitted_by, submitted_at, decided_by, decided_at, is_paused, waves, released_wave)
            SELECT ('0190a0a0-0000-7000-8000-00000000000' || n)::uuid, 'held', 'approved', 'h' || n, 'h',
                '2026-01-01Z', \(rows / 2), 'x', '2026-01-01Z', 'y', '2026-01-01Z', n = 1,
                CASE WHEN n = 2 THEN '[{"label":"1%","release":"approval"},{"label":"rest","release":"hand"}]'::jsonb ELSE '[]' END,
                CASE WHEN n = 2 THEN 1 ELSE 0 END
            FROM generate_series(1, 2) n;
            INSERT INTO repricer.price_changes (original_transaction_id, bucket, change_id, batch_id, line, sku,
                direction, currency, storefront, period, current_price_milliunits, new_price_milliunits,
                forecast_consent, forecast_effective_at, send_by, due_effective_at, state, is_ready, wave,
                state_since, submitted_by)
            SELECT 'held-' || i, repricer.bucket_of('held-' || i), gen_random_uuid(), ('0190a0a0-0000-7000-8000-00000000000' || 1 + i % 2)::uuid,
                i, 'A', 'increase', 'USD', 'USA', 'P1M', 1000, 2000, 'not_required', '2026-01-02Z',
                '2026-01-01Z', '2026-01-02Z', 'queued', true, CASE i % 2 WHEN 1 THEN 2 ELSE 0 END,
                '2026-01-01Z', 'x'
            FROM generate_series(1, \(rows)) i;
            ANALYZE repricer.price_changes
            """)
        await owner.close()
    }
}

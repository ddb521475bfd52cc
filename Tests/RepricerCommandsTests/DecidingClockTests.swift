import Facts
import Postgres
import ServiceKit
import TestSupport
import Testing

@testable import RepricerCommands

/// What is dropped, exported or not read any more can't be brought back, so no wrong clock decides it.
@Suite(.database) struct DecidingClockTests {
    /// The clock that all share stands so many seconds behind this machine's.
    private static func setDatabaseClock(behind seconds: Int) async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            CREATE OR REPLACE FUNCTION repricer.rate_clock() RETURNS bigint LANGUAGE sql VOLATILE
            RETURN ((extract(epoch FROM clock_timestamp()) - \(seconds)) * 1000000)::bigint
            """)
        await owner.close()
    }

    private static func setRealTime() async throws {
        let owner = try await TestDatabase.connect()
        try await owner.script("UPDATE repricer.service_controls SET is_rehearsal = false")
        await owner.close()
    }

    private static func now(by clock: any WallClock) async throws -> Int64 {
        let pool = PostgresPool(conninfo: TestDatabase.url, applicationName: "test", size: 1)
        defer { Task { await pool.close() } }
        return try await DecidingClock.now(by: clock, pool)
    }

    @Test(arguments: [(7200, 7200), (-7200, 0)])
    func earlierClock_decides(behind: Int, expected: Int64) async throws {
        try await Self.setDatabaseClock(behind: behind)

        let now = try await Self.now(by: SystemClock())

        let difference = SystemClock().nowMilliseconds() - now - expected * 1000
        #expect((0..<60_000).contains(difference))
    }

    @Test(arguments: [86_500, -86_500, 94_000_000])
    func clocksFarApart_decideNothing(behind: Int) async throws {
        try await Self.setDatabaseClock(behind: behind)

        await #expect(throws: CommandFailure.self) { try await Self.now(by: SystemClock()) }
        // A rehearsal's clock is no machine's.
        #expect(try await Self.now(by: ManualClock(5)) == 5)
    }

    /// A replica whose clock is ahead neither takes a living lease nor holds its own for others beyond its end.
    @Test func lease_isDatedByTheDatabasesClock() async throws {
        try await Self.setDatabaseClock(behind: 7200)
        let pool = PostgresPool(conninfo: TestDatabase.url, applicationName: "test", size: 1)
        let lease = HeldLease(name: "history", pool: pool, realClock: SystemClock())

        #expect(try await lease.take(dueAt: nil))

        let left = try await pool.read {
            try $0.query(
                """
                SELECT extract(epoch FROM leased_until - clock_timestamp())::bigint + 7200 AS seconds
                FROM repricer.service_leases WHERE name = 'history'
                """
            ).one().int("seconds")
        }
        #expect((-60...10).contains(left))
        await pool.close()
    }

    /// Its time would misdate what is read, dropped or exported, for good.
    @Test(arguments: [
        ["retention", "--keep", "7m"], ["retention", "--keep", "7m", "--dry-run"],
        ["evidence", "export", "--month", "2026-01", "/tmp/never-exported.jsonl"],
    ])
    func virtualClock_onADatabaseOfRealTime_isRefused(words: [String]) async throws {
        let environment = Self.environment
        try await Self.setRealTime()

        let refused = await run(
            words + ["--clock", "2031-01-01T00:00:00Z@1@1767225600000"],
            environment: environment)

        #expect(refused.code == .conflict, "\(refused.messages)")
        #expect(refused.messages.contains("none of a rehearsal"), "\(refused.messages)")
    }

    @Test func reconcile_byAVirtualClock_onADatabaseOfRealTime_isRefused() async throws {
        let scratch = try ScratchFolder()
        let store = try GapStore(messages: 0)
        try await Self.setRealTime()
        try await store.serving { url in
            let refused = await run(
                ["reconcile", "--clock", "2031-01-01T00:00:00Z@1@1767225600000"],
                environment: try GapCommandKillTests.settings(url, store, scratch))

            #expect(refused.code == .conflict, "\(refused.messages)")
            #expect(refused.messages.contains("none of a rehearsal"), "\(refused.messages)")
        }
    }

    private static var environment: [String: String] {
        [
            "REPRICER_DATABASE_URL": TestDatabase.url, "REPRICER_BUNDLE_ID": "com.example.stream",
            "REPRICER_ENVIRONMENT": "Sandbox", "REPRICER_API_BASE_URL": "http://127.0.0.1:1",
        ]
    }
}

import Notifications
import Postgres
import ServiceKit
import TestSupport
import Testing

@Suite(.database) struct MonthsAheadTests {
    static func prepared(
        _ table: MonthPartitions.Table, _ pool: PostgresPool
    ) async throws -> [String] {
        try await pool.withConnection { connection in
            try await connection.read { try MonthPartitions.all(of: table, on: $0).map(\.name) }
        }
    }

    @Test func prepareOnce_asMonthsPass_keepsThreeAhead() async throws {
        let url = try await TestDatabase.login("svc", memberOf: ["repricer_service"])
        let pool = PostgresPool(conninfo: url, applicationName: "test", size: 1)
        let clock = ManualClock(try #require(RFC3339.parse("2027-11-30T23:59:59Z")))
        let months = MonthsAhead(pool: pool, clock: clock, log: .silent)

        let first = try await months.prepareOnce()
        let again = try await months.prepareOnce()
        clock.advance(by: .seconds(1))
        let nextMonth = try await months.prepareOnce()

        // Seven tables; and Apple tells the statements of seven months before again.
        #expect([first, again, nextMonth] == [7 * 4 + 7, 0, 7])
        for table in MonthPartitions.Table.allCases {
            let before = table == .statements ? (4...9).map { "2027_0\($0)" } + ["2027_10"] : []
            let places =
                before + ["2027_11", "2027_12", "2028_01", "2028_02", "2028_03", "default"]
            #expect(
                try await Self.prepared(table, pool) == places.map { "\(table.rawValue)_\($0)" })
        }
        await pool.close()
    }

    @Test func run_onAHurriedClock_keepsUp() async throws {
        let pool = PostgresPool(conninfo: TestDatabase.url, applicationName: "test", size: 1)
        let start = try #require(RFC3339.parse("2027-11-30T00:00:00Z"))
        // A day in no time: the service checks again at once.
        let clock = JumpingClock(start)
        let months = MonthsAhead(pool: pool, clock: clock, log: .silent)

        try await withThrowingTaskGroup(of: Void.self) { group in
            group.addTask { try await months.run() }
            while try await Self.prepared(.history, pool).count < 6 { await Task.yield() }
            group.cancelAll()
            // Cancelled is how a service ends.
            try? await group.waitForAll()
        }

        #expect(try await Self.prepared(.history, pool).count >= 6)
        await pool.close()
    }
}

/// A month passes at each check.
private final class JumpingClock: WallClock {
    private let clock: ManualClock

    init(_ start: Int64) { clock = ManualClock(start) }

    func nowMilliseconds() -> Int64 {
        clock.advance(by: .seconds(31 * 86_400))
        return clock.nowMilliseconds()
    }

    func realDuration(of interval: Duration) -> Duration { .zero }
}

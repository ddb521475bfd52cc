import Facts
import Postgres
import TestSupport
import Testing

/// The rate is kept in every window, whatever the replicas do.
@Suite(.database) struct RateQueriesTests {
    private static let start: Int64 = 1_772_323_200_000_000
    private static let second: Int64 = 1_000_000
    /// How late a call leaves at most, and how much longer one takes to Apple than another.
    private static let jitter: Int64 = 15_000

    /// The last is too fast for its permits to be remembered.
    @Test(arguments: [50, 7, 1, 1200])
    func lease_whateverReplicasDo_keepsTheRateInEveryWindow(perSecond: Int) async throws {
        let pool = try await Self.pool(size: 1)
        let rate = CallRate(endpoint: "change_price", perSecond: Double(perSecond))
        var random = Seeded(state: 42 + UInt64(perSecond))
        var arrivals: [Int64] = []
        var missed: [Int64] = []
        var now = Self.start

        while now < Self.start + 40 * Self.second {
            now += Int64.random(in: 0...60_000, using: &random)
            let wanted = Int.random(in: 1...max(25, perSecond / 4), using: &random)
            // What was missed is told by and by, some of it late.
            let told = missed.filter { _ in Bool.random(using: &random) }
            missed.removeAll { told.contains($0) }
            let lease = try await Self.lease(rate, wanted, missed: told, at: now, of: pool)
            // A third of the replicas die, and some use fewer permits than they reserved.
            let dies = Int.random(in: 0..<3, using: &random) == 0
            let used = Int.random(in: 0...lease.permits.count, using: &random)
            if !dies && Bool.random(using: &random) {
                try await Self.giveBack(rate, lease, used: used, of: pool)
            }
            for permit in lease.permits.prefix(used) {
                if Int.random(in: 0..<5, using: &random) == 0 {
                    missed.append(permit)
                } else {
                    arrivals.append(permit + Int64.random(in: 0...Self.jitter, using: &random))
                }
            }
        }

        #expect(arrivals.count > 10 * perSecond)
        #expect(Self.most(of: arrivals, in: Self.second) <= perSecond)
        #expect(Self.most(of: arrivals, in: 10 * Self.second) <= 10 * perSecond)
        await pool.close()
    }

    /// Sandbox allows a cancellation in two seconds.
    @Test(arguments: [0.5, 0.125, 2.5])
    func lease_ofABrokenRate_keepsItAndUsesIt(perSecond: Double) async throws {
        let pool = try await Self.pool(size: 1)
        let rate = CallRate(endpoint: "cancel", perSecond: perSecond)
        var calls: [Int64] = []

        for turn in 0..<1600 {
            calls += try await Self.lease(
                rate, 3, at: Self.start + Int64(turn) * 100_000, of: pool
            ).permits
        }

        #expect(Self.most(of: calls, in: 16 * Self.second) <= Int(16 * perSecond))
        #expect(Double(calls.count) >= 0.95 * 160 * perSecond)
        await pool.close()
    }

    @Test func lease_whileThereIsWork_uses98PercentOfTheRate() async throws {
        let pool = try await Self.pool(size: 1)
        let rate = CallRate(endpoint: "change_price", perSecond: 50)
        var calls = 0

        for turn in 0..<600 {
            calls += try await Self.lease(
                rate, 25, at: Self.start + Int64(turn) * 100_000, of: pool
            ).permits.count
        }

        // 60 seconds, and the last lease reaches half a second beyond them.
        #expect(Double(calls) / 60.4 >= 0.98 * 50)
        #expect(Double(calls) / 60.4 <= 50)
        await pool.close()
    }

    /// A permit in sixteen is missed, and told of by the lease that follows: of the calls that permits at the even
    /// distance would carry, a hundredth is lost at most, and not a sixteenth.
    @Test func lease_wherePermitsAreMissed_makesUpForThem() async throws {
        let pool = try await Self.pool(size: 1)
        let rate = CallRate(endpoint: "change_price", perSecond: 50)
        var calls: [Int64] = []
        var missed: [Int64] = []
        var number = 0

        for turn in 0..<600 {
            let lease = try await Self.lease(
                rate, 25, missed: missed, at: Self.start + Int64(turn) * 100_000, of: pool)
            missed = []
            for permit in lease.permits {
                number += 1
                if number % 16 == 0 { missed.append(permit) } else { calls.append(permit) }
            }
        }

        #expect(Double(calls.count) >= 0.99 * 60_400_000 / Double(rate.spacingMicros))
        #expect(Self.most(of: calls, in: Self.second) <= 50)
        await pool.close()
    }

    @Test func lease_ofManyConnectionsAtOnce_sharesNoPermit() async throws {
        let pool = try await Self.pool(size: 6)
        let rate = CallRate(endpoint: "status", perSecond: 10_000)

        let leases = try await withThrowingTaskGroup(of: [RateQueries.Lease].self) { group in
            for _ in 0..<6 {
                group.addTask {
                    var leases: [RateQueries.Lease] = []
                    for _ in 0..<40 {
                        leases.append(try await Self.lease(rate, 9, at: nil, of: pool))
                    }
                    return leases
                }
            }
            return try await group.reduce(into: []) { $0 += $1 }
        }

        let sorted = leases.flatMap(\.permits).sorted()
        #expect(sorted.count > 200)
        for (earlier, later) in zip(sorted, sorted.dropFirst()) {
            #expect(later >= earlier + rate.gapMicros)
        }
        #expect(leases.allSatisfy { lease in lease.permits.allSatisfy { $0 >= lease.nowMicros } })
        await pool.close()
    }

    @Test func lease_whenTheClockIsSetBack_goesOnBehindTheLastLease() async throws {
        let pool = try await Self.pool(size: 1)
        let rate = CallRate(endpoint: "change_price", perSecond: 50)
        _ = try await Self.lease(rate, 25, at: Self.start + 3600 * Self.second, of: pool)

        let lease = try await Self.lease(rate, 25, at: Self.start, of: pool)
        let next = try await Self.lease(rate, 25, at: Self.start + 2 * Self.second, of: pool)

        // What was reserved before the step may still leave within a horizon, and counts for a window more.
        #expect(lease.permits == [])
        #expect(lease.nextMicros == Self.start + rate.horizonMicros + rate.windowMicros)
        #expect(next.permits.count == 25)
        await pool.close()
    }

    @Test func giveBack_ofTheLastPermits_leavesThemToTheNextLease() async throws {
        let pool = try await Self.pool(size: 1)
        let rate = CallRate(endpoint: "change_price", perSecond: 50)
        let first = try await Self.lease(rate, 10, at: Self.start, of: pool)
        try await Self.giveBack(rate, first, used: 4, of: pool)

        let second = try await Self.lease(rate, 5, at: Self.start, of: pool)

        #expect(second.permits == Array(first.permits[4..<9]))
        await pool.close()
    }

    @Test func giveBack_whereSomebodyReservedBeyond_leavesRoomInTheWindow() async throws {
        let pool = try await Self.pool(size: 1)
        let rate = CallRate(endpoint: "change_price", perSecond: 10)
        let first = try await Self.lease(rate, 4, at: Self.start, of: pool)
        let beyond = try await Self.lease(rate, 1, at: Self.start, of: pool)
        try await Self.giveBack(rate, first, used: 1, of: pool)

        var calls = Array(first.permits.prefix(1)) + beyond.permits
        var now = Self.start
        while now < Self.start + 2 * Self.second {
            now += 100_000
            calls += try await Self.lease(rate, 9, at: now, of: pool).permits
        }

        #expect(calls == calls.sorted())
        // Three of the first four were given back: at the even distance the first window would hold seven.
        #expect(calls.filter { $0 < Self.start + rate.windowMicros }.count == 8)
        #expect(Self.most(of: calls, in: Self.second) == 10)
        await pool.close()
    }

    /// The silence is as long as it was asked for by the clock that permits go by, whatever clock the process has that met
    /// it: only how long is told.
    @Test func block_withoutARehearsalsClock_goesByTheDatabases() async throws {
        let pool = try await Self.pool(size: 1)
        let prices = CallRate(endpoint: "change_price", perSecond: 50)
        let lease = { @Sendable in
            try await pool.withTransaction {
                try RateQueries.lease(prices, wanted: 1, nowMicros: nil, on: $0)
            }
        }
        _ = try await lease()
        let before = try await pool.withTransaction { try RateQueries.clockMicros(on: $0) }
        _ = try await pool.withConnection {
            try await $0.pipeline([
                RateQueries.block(endpoint: "change_price", milliseconds: 60_000, now: nil)
            ])
        }
        let after = try await pool.withTransaction { try RateQueries.clockMicros(on: $0) }

        let until = try #require(try await lease().blockedUntil)

        #expect((before / 1000 + 59_999...after / 1000 + 60_001).contains(until))
        await pool.close()
    }

    @Test func block_silencesOneEndpointUntilItsInstant() async throws {
        let pool = try await Self.pool(size: 1)
        let prices = CallRate(endpoint: "change_price", perSecond: 50)
        let statuses = CallRate(endpoint: "status", perSecond: 50)
        _ = try await Self.lease(prices, 1, at: Self.start, of: pool)
        let until = Self.start / 1000 + 60_000
        _ = try await pool.withConnection {
            try await $0.pipeline([
                RateQueries.block(
                    endpoint: "change_price", milliseconds: 60_000, now: Self.start / 1000)
            ])
        }

        let during = try await Self.lease(prices, 5, at: Self.start + 59 * Self.second, of: pool)
        let other = try await Self.lease(statuses, 5, at: Self.start + 59 * Self.second, of: pool)
        let after = try await Self.lease(prices, 5, at: Self.start + 60 * Self.second, of: pool)

        #expect((during.permits.count, during.blockedUntil) == (0, until))
        #expect((other.permits.count, other.blockedUntil) == (5, nil))
        #expect((after.permits.count, after.blockedUntil) == (5, nil))
        await pool.close()
    }

    private static func pool(size: Int) async throws -> DatabasePool {
        DatabasePool(
            conninfo: try await TestDatabase.login("service", memberOf: ["repricer_service"]),
            applicationName: "rates", size: size)
    }

    private static func lease(
        _ rate: CallRate, _ wanted: Int, missed: [Int64] = [], at now: Int64?, of pool: DatabasePool
    ) async throws -> RateQueries.Lease {
        try await pool.withConnection { connection in
            try await connection.read {
                try RateQueries.lease(
                    rate, wanted: wanted, missed: missed, nowMicros: now, on: $0)
            }
        }
    }

    private static func giveBack(
        _ rate: CallRate, _ lease: RateQueries.Lease, used: Int, of pool: DatabasePool
    ) async throws {
        _ = try await pool.withConnection {
            try await $0.pipeline([RateQueries.returnUnused(rate, lease, used: used)])
        }
    }

    /// The most arrivals in any half-open window.
    private static func most(of arrivals: [Int64], in window: Int64) -> Int {
        let sorted = arrivals.sorted()
        var most = 0
        var first = 0
        for (index, arrival) in sorted.enumerated() {
            while arrival - sorted[first] >= window { first += 1 }
            most = max(most, index - first + 1)
        }
        return most
    }
}

private struct Seeded: RandomNumberGenerator {
    var state: UInt64

    mutating func next() -> UInt64 {
        state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
        return (state ^ (state >> 29)) &* 0xBF58_476D_1CE4_E5B9
    }
}

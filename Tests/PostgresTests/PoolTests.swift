import Postgres
import Synchronization
import TestSupport
import Testing

@Suite(.database)
struct PoolTests {
    private func makePool(
        size: Int, waitMax: Duration = .seconds(60), url: String = TestDatabase.url
    ) -> PostgresPool {
        PostgresPool(conninfo: url, applicationName: "pool", size: size, waitMax: waitMax)
    }

    @Test func pool_whenContended_servesEverybodyWithinItsSize() async throws {
        let pool = makePool(size: 3)
        let open = Lent()

        let sum = try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 1...100 {
                group.addTask {
                    try await pool.withConnection { connection in
                        open.enter()
                        defer { open.leave() }
                        return try await connection.query("SELECT \(number) AS n").one().int("n")
                    }
                }
            }
            return try await group.reduce(0, +)
        }

        #expect(sum == 5050)
        #expect(open.most <= 3)
        #expect(pool.openCount <= 3)
        await pool.close()
        #expect(pool.openCount == 0)
    }

    @Test func pool_whenBackendsAreTerminated_recovers() async throws {
        let pool = makePool(size: 2)
        let killer = try await TestDatabase.connect()

        for _ in 0..<3 {
            let process = try await pool.withConnection { await $0.backendProcessID }
            let ended = try await killer.query(
                "SELECT pg_terminate_backend(\(process), 10000) AS ended"
            ).one().bool("ended")
            let answer = try await pool.withConnection {
                try await $0.query("SELECT 1 AS n").one().int("n")
            }

            #expect(ended)
            #expect(answer == 1)
        }
        #expect(pool.openCount == 1)
        await pool.close()
    }

    @Test func pool_whenConnectionBreaksInUse_replacesIt() async throws {
        let pool = makePool(size: 1)

        await #expect(throws: PostgresError.self) {
            try await pool.withConnection {
                try await $0.script("SELECT pg_terminate_backend(pg_backend_pid())")
            }
        }

        #expect(pool.openCount == 0)
        #expect(try await pool.withConnection { try await $0.query("SELECT 1").count } == 1)
        await pool.close()
    }

    @Test func pool_whenTransactionIsLeftOpen_throwsTheConnectionAway() async throws {
        let pool = makePool(size: 1)

        try await pool.withConnection { try await $0.script("BEGIN; CREATE TABLE left_open ()") }
        let tables = try await pool.withConnection {
            try await $0.query("SELECT 1 FROM pg_class WHERE relname = 'left_open'").count
        }

        #expect(tables == 0)
        await pool.close()
    }

    @Test func waiter_whenNothingBecomesFree_timesOut() async throws {
        let pool = makePool(size: 1, waitMax: .milliseconds(20))

        let error = await #expect(throws: PostgresError.self) {
            try await pool.withConnection { _ in try await pool.withConnection { _ in } }
        }

        #expect(error?.code == .poolTimedOut)
        #expect(try await pool.withConnection { try await $0.query("SELECT 1").count } == 1)
        await pool.close()
    }

    @Test func waiter_whenCancelled_leavesThePoolWhole() async throws {
        let pool = makePool(size: 1)

        try await pool.withConnection { _ in
            let waiters = (0..<20).map { _ in
                Task { try await pool.withConnection { _ in } }
            }
            for waiter in waiters { waiter.cancel() }
            for waiter in waiters {
                await #expect(throws: CancellationError.self) { try await waiter.value }
            }
        }

        #expect(try await pool.withConnection { try await $0.query("SELECT 1").count } == 1)
        #expect(pool.openCount == 1)
        await pool.close()
    }

    @Test func waiter_whenPoolCloses_isTold() async throws {
        let pool = makePool(size: 1)

        let error = await #expect(throws: PostgresError.self) {
            try await pool.withConnection { _ in
                async let waiting: Void = pool.withConnection { _ in }
                await pool.close()
                try await waiting
            }
        }

        #expect(error?.code == .poolClosed)
        #expect(pool.openCount == 0)
    }

    @Test func pool_whenServerIsAway_failsWithoutLosingSlots() async throws {
        let pool = makePool(size: 2, url: "host=/nonexistent")

        for _ in 0..<5 {
            let error = await #expect(throws: PostgresError.self) {
                try await pool.withConnection { _ in }
            }
            #expect(error?.isConnectionLoss == true)
        }

        #expect(pool.openCount == 0)
    }

    /// Noticed before the body runs, or after a body that failed: never in between, for it runs once.
    @Test func readAndTransaction_whenTheIdleConnectionDied_runOnceOnAnother() async throws {
        let pool = makePool(size: 1)
        let killer = try await TestDatabase.connect()
        let runs = Lent()

        var answers: [Int] = []
        for isRead in [true, false] {
            let process = try await pool.read { $0.backendProcessID }
            let ended = try await killer.query(
                "SELECT pg_terminate_backend(\(process), 60000) AS ended"
            ).one().bool("ended")
            #expect(ended)
            if isRead {
                answers.append(
                    try await pool.read { connection in
                        runs.enter()
                        return try connection.query("SELECT 1 AS n").one().int("n")
                    })
            } else {
                answers.append(
                    try await pool.withTransaction { connection in
                        runs.enter()
                        return try connection.query("SELECT 2 AS n").one().int("n")
                    })
            }
        }

        #expect(answers == [1, 2])
        #expect(runs.most == 2)
        #expect(pool.openCount == 1)
        await pool.close()
        await killer.close()
    }

    @Test func read_whenItsConnectionBreaksOrItsBodyThrows_leavesThePoolWhole() async throws {
        struct Refusal: Error {}
        let pool = makePool(size: 1)

        await #expect(throws: Refusal.self) { try await pool.read { _ in throw Refusal() } }
        #expect(pool.openCount == 1)
        await #expect(throws: PostgresError.self) {
            try await pool.read { try $0.script("SELECT pg_terminate_backend(pg_backend_pid())") }
        }
        #expect(pool.openCount == 0)
        try await pool.read { try $0.script("BEGIN; CREATE TABLE left_open ()") }
        #expect(pool.openCount == 0)
        #expect(
            try await pool.read { try $0.query("SELECT to_regclass('left_open') AS t").one() }
                .textOrNil("t") == nil)
        await pool.close()
    }

    @Test func withTransaction_whenBodyThrows_givesBackACleanConnection() async throws {
        struct Refusal: Error {}
        let pool = makePool(size: 1)

        await #expect(throws: Refusal.self) {
            try await pool.withTransaction { connection in
                try connection.script("CREATE TABLE gone ()")
                throw Refusal()
            }
        }
        let value = try await pool.withTransaction(.serializable) { connection in
            try connection.query("SELECT to_regclass('gone') IS NULL AS gone").one().bool("gone")
        }

        #expect(value)
        #expect(pool.openCount == 1)
        await pool.close()
    }
}

/// How many users hold a connection now, and how many did at most.
private final class Lent: Sendable {
    private let counts = Mutex((now: 0, most: 0))

    var most: Int { counts.withLock { $0.most } }

    func enter() {
        counts.withLock { $0 = ($0.now + 1, max($0.most, $0.now + 1)) }
    }

    func leave() {
        counts.withLock { $0.now -= 1 }
    }
}

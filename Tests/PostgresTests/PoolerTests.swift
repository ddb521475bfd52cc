import Postgres
import TestSupport
import Testing

/// Through a real PgBouncer in transaction mode, where each transaction may run in another server session.
@Suite(.database)
struct PoolerTests {
    private func pool(
        _ url: String, size: Int, options: ConnectionOptions = .init()
    ) -> PostgresPool {
        PostgresPool(conninfo: url, applicationName: "pooler", size: size, options: options)
    }

    @Test func connection_throughAPooler_knowsItAndADirectOneDoesNot() async throws {
        let pooler = try TestPooler(for: ["postgres"], sessions: 1)
        let pooled = try await PostgresConnection.connect(
            await pooler.url(), applicationName: "pooled")
        let direct = try await TestDatabase.connect()

        #expect(await pooled.isPooled)
        #expect(await !direct.isPooled)
        await pooled.close()
        await direct.close()
    }

    @Test func statements_ofManyConnectionsOverTwoSessions_allSucceed() async throws {
        let pooler = try TestPooler(for: ["postgres"], sessions: 2)
        let pool = pool(try await pooler.url(), size: 8)

        let sum = try await withThrowingTaskGroup(of: Int.self) { group in
            for number in 1...200 {
                group.addTask {
                    switch number % 3 {
                    case 0:
                        try await pool.withConnection {
                            try await $0.query("SELECT \(number) AS n").one().int("n")
                        }
                    case 1:
                        try await pool.withTransaction { connection in
                            let half = try connection.query("SELECT \(number) AS n").one().int("n")
                            return try connection.query("SELECT \(half) + 0 AS n").one().int("n")
                        }
                    default:
                        try await pool.withConnection { connection in
                            try await connection.pipeline([
                                "SELECT \(number) AS n", "SELECT \(number) - 0 AS n",
                            ])[1].one().int("n")
                        }
                    }
                }
            }
            return try await group.reduce(0, +)
        }

        #expect(sum == 20_100)
        await pool.close()
    }

    @Test func instants_whenTheServerHasAnotherZone_comeBackAsTheyWere() async throws {
        let pooler = try TestPooler(for: ["postgres"], sessions: 1)
        let owner = try await TestDatabase.connect()
        try await owner.script(
            """
            DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET TimeZone = ''Asia/Tokyo''',
                current_database()); END $$
            """)
        let connection = try await PostgresConnection.connect(
            await pooler.url(), applicationName: "pooled")

        let alone = try await connection.query(
            "SELECT \(timestamp: 1_772_323_200_123)::timestamptz AS at"
        ).one().milliseconds("at")
        let inside = try await connection.transaction { connection in
            try connection.query("SELECT \(timestamp: 1_772_323_200_123)::timestamptz AS at")
                .one().milliseconds("at")
        }

        #expect(alone == 1_772_323_200_123)
        #expect(inside == 1_772_323_200_123)
        await connection.close()
        await owner.close()
    }

    /// BEGIN and what holds for the transaction alone travel with its first statement.
    @Test func transaction_throughAPooler_setsItsLimitsAndTakesTwoTrips() async throws {
        let pooler = try TestPooler(for: ["postgres"], sessions: 1)
        let connection = try await PostgresConnection.connect(
            await pooler.url(), applicationName: "pooled",
            options: .init(statementTimeout: .seconds(50), lockTimeout: .seconds(20)))
        try await connection.script("CREATE TABLE kept (n bigint)")
        let before = await connection.tripCount

        let limits = try await connection.transaction(.repeatableRead) { connection in
            let row = try connection.query(
                """
                SELECT current_setting('statement_timeout') AS statement,
                    current_setting('lock_timeout') AS lock,
                    current_setting('transaction_isolation') AS isolation,
                    current_setting('jit') AS jit
                """
            ).one()
            try connection.sendLater(["INSERT INTO kept VALUES (\(1))"])
            return [
                try row.text("statement"), try row.text("lock"), try row.text("isolation"),
                try row.text("jit"),
            ]
        }

        #expect(limits == ["50s", "20s", "repeatable read", "off"])
        #expect(await connection.tripCount == before + 2)
        #expect(await connection.isReusable)
        try await connection.transaction { connection in
            try connection.sendLater(["INSERT INTO kept VALUES (\(2))"])
        }
        let error = await #expect(throws: PostgresError.self) {
            try await connection.transaction { connection in
                try connection.sendLater(["INSERT INTO kept VALUES (\(3))", "SELECT 1 / \(0)"])
            }
        }
        #expect(error?.sqlState?.isDataException == true)
        #expect(error?.phase == nil)
        let kept = try await connection.query("SELECT n FROM kept ORDER BY n")
        #expect(try kept.map { try $0.int("n") } == [1, 2])
        await connection.close()
    }

    /// The service has limits, and asks most things so.
    @Test func pipeline_throughAPoolerWithLimits_isOneTransactionAndOneTrip() async throws {
        let pooler = try TestPooler(for: ["postgres"], sessions: 1)
        let connection = try await PostgresConnection.connect(
            await pooler.url(), applicationName: "pooled",
            options: .init(lockTimeout: .seconds(20), idleInTransactionTimeout: .seconds(30)))
        try await connection.script("CREATE TABLE kept (n bigint)")
        let before = await connection.tripCount

        let rows = try await connection.pipeline([
            "INSERT INTO kept VALUES (\(1))", "SELECT current_setting('lock_timeout') AS lock",
        ])

        #expect(rows.count == 2)
        #expect(try rows.last?.one().text("lock") == "20s")
        #expect(await connection.tripCount == before + 1)
        let error = await #expect(throws: PostgresError.self) {
            try await connection.pipeline(["INSERT INTO kept VALUES (\(2))", "SELECT 1 / \(0)"])
        }
        #expect(error?.sqlState?.isDataException == true)
        #expect(await connection.isReusable)
        let after = try await connection.pipeline([
            "SELECT count(*) AS n FROM kept", "SELECT current_setting('lock_timeout') AS lock",
        ])
        #expect(try after.first?.one().int("n") == 1)
        await connection.close()
        let other = try await PostgresConnection.connect(
            await pooler.url(), applicationName: "other")
        let kept = try await other.query("SELECT current_setting('lock_timeout') AS lock")
        #expect(try kept.one().text("lock") == "0")
        await other.close()
    }

    /// Set for a session, they would hold for whoever gets that session next.
    @Test func limits_ofOneUser_doNotReachTheNext() async throws {
        let pooler = try TestPooler(for: ["postgres"], sessions: 1)
        let url = try await pooler.url()
        let reader = try await PostgresConnection.connect(
            url, applicationName: "reader",
            options: .init(statementTimeout: .milliseconds(50), isReadOnly: true))
        let writer = try await PostgresConnection.connect(url, applicationName: "writer")
        try await writer.script("CREATE TABLE kept (n bigint)")

        await #expect {
            try await inTime { try await reader.execute("INSERT INTO kept VALUES (1)") }
        } throws: {
            ($0 as? PostgresError)?.sqlState == .readOnlyTransaction
        }
        await #expect { try await reader.query("SELECT pg_sleep(20)") } throws: {
            ($0 as? PostgresError)?.sqlState == SQLState("57014")
        }
        let stored = try await writer.execute("INSERT INTO kept SELECT \(2) FROM pg_sleep(0.1)")

        #expect(stored == 1)
        let read = try await inTime { try await reader.query("SELECT n FROM kept") }
        #expect(try read.map { try $0.int("n") } == [2])
        await reader.close()
        await writer.close()
    }

    @Test func connection_whoseServerBecameReadOnly_isNotLentAgain() async throws {
        let pool = pool(TestDatabase.url, size: 1)
        let former = try await pool.withConnection { connection in
            try await connection.script("SET default_transaction_read_only = on")
            return await connection.backendProcessID
        }

        await #expect {
            try await pool.withConnection { try await $0.script("CREATE TABLE kept (n bigint)") }
        } throws: {
            ($0 as? PostgresError)?.sqlState == .readOnlyTransaction
        }
        let next = try await pool.withConnection { connection in
            try await connection.script("CREATE TABLE kept (n bigint)")
            return await connection.backendProcessID
        }

        #expect(next != former)
        await pool.close()
    }
}

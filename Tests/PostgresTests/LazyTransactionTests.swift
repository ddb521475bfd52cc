import Postgres
import TestSupport
import Testing

/// `BEGIN` travels with the first statement, and what nobody reads with `COMMIT`.
@Suite(.database)
struct LazyTransactionTests {
    struct Refusal: Error, Equatable {}

    private func makeTable() async throws -> PostgresConnection {
        let connection = try await TestDatabase.connect()
        try await connection.script("CREATE TABLE t (n int CONSTRAINT t_pkey PRIMARY KEY)")
        return connection
    }

    private func stored() async throws -> [Int] {
        let other = try await TestDatabase.connect()
        let numbers = try await other.query("SELECT n FROM t ORDER BY n").map { try $0.int("n") }
        await other.close()
        return numbers
    }

    /// Ends the session of `connection`, and waits until it is gone.
    private static func end(_ connection: isolated PostgresConnection) async throws {
        let victim = connection.backendProcessID
        let killer = try await TestDatabase.connect()
        let ended = try await killer.query(
            "SELECT pg_terminate_backend(\(victim), 60000) AS ended"
        ).one().bool("ended")
        #expect(ended)
        await killer.close()
    }

    // MARK: Round trips

    @Test func transaction_whenItsBodySendsNothing_sendsNothing() async throws {
        let connection = try await makeTable()
        let before = await connection.tripCount

        let value = try await connection.transaction { _ in 7 }
        await #expect(throws: Refusal()) {
            try await connection.transaction { _ in throw Refusal() }
        }

        #expect(value == 7)
        #expect(await connection.tripCount == before)
        #expect(await connection.isReusable)
    }

    @Test func transaction_thatReadsAndWritesLater_takesTwoTrips() async throws {
        let connection = try await makeTable()
        let before = await connection.tripCount

        for number in 1...2 {
            try await connection.transaction { connection in
                _ = try connection.query("SELECT \(number) AS n")
                try connection.sendLater(["INSERT INTO t VALUES (\(number))"])
                try connection.sendLater(["UPDATE t SET n = n + 10 WHERE n = \(number)"])
            }
        }

        #expect(await connection.tripCount == before + 4)
        #expect(try await stored() == [11, 12])
        #expect(await connection.isReusable)
    }

    @Test func transaction_thatOnlyWritesLater_takesOneTrip() async throws {
        let connection = try await makeTable()
        let before = await connection.tripCount

        try await connection.transaction(.serializable) { connection in
            try connection.sendLater((1...3).map { "INSERT INTO t VALUES (\($0))" })
        }

        #expect(await connection.tripCount == before + 1)
        #expect(try await stored() == [1, 2, 3])
    }

    @Test func query_afterOthersForLater_takesThemAlong() async throws {
        let connection = try await makeTable()
        let before = await connection.tripCount

        let seen = try await connection.transaction { connection in
            try connection.sendLater(["INSERT INTO t VALUES (\(1))"])
            let one = try connection.query("SELECT count(*) AS n FROM t").one().int("n")
            try connection.sendLater(["INSERT INTO t VALUES (\(2))"])
            let two = try connection.pipeline(["SELECT count(*) AS n FROM t", "SELECT 5 AS n"])
                .map { try $0.one().int("n") }
            try connection.sendLater(["INSERT INTO t VALUES (\(3))"])
            try connection.script("UPDATE t SET n = -n")
            return [one] + two
        }

        #expect(seen == [1, 2, 5])
        // One for the query, one for the pipeline, two for the script, and COMMIT.
        #expect(await connection.tripCount == before + 5)
        #expect(try await stored() == [-3, -2, -1])
    }

    // MARK: What the first act is

    @Test func scriptAndPipeline_asFirstAct_areInsideTheTransaction() async throws {
        let connection = try await makeTable()

        await #expect(throws: Refusal()) {
            try await connection.transaction { connection in
                try connection.script("INSERT INTO t VALUES (1)")
                throw Refusal()
            }
        }
        await #expect(throws: Refusal()) {
            try await connection.transaction { connection in
                _ = try connection.pipeline(["INSERT INTO t VALUES (3)"])
                throw Refusal()
            }
        }

        #expect(try await stored().isEmpty)
        #expect(await connection.isReusable)
    }

    @Test func copy_asAStatement_isRefusedAndTheConnectionClosed() async throws {
        for text in ["COPY t FROM STDIN", "COPY t TO STDOUT"] {
            let connection = try await TestDatabase.connect()
            try await connection.script("CREATE TABLE IF NOT EXISTS t (n int)")

            await #expect {
                try await connection.transaction { _ = try $0.query(SQL(unsafe: text)) }
            } throws: {
                ($0 as? PostgresError)?.code == .wrongCall
            }

            #expect(await !connection.isReusable)
        }
    }

    @Test func repeatableRead_whenOthersWriteMeanwhile_seesItsFirstStatement() async throws {
        let connection = try await makeTable()
        let other = try await TestDatabase.connect()

        let seen = try await connection.transaction(.repeatableRead) { connection in
            let level = try connection.query("SHOW transaction_isolation").one()
            let first = try connection.query("SELECT count(*) AS n FROM t").one().int("n")
            try await other.script("INSERT INTO t VALUES (1)")
            let second = try connection.query("SELECT count(*) AS n FROM t").one().int("n")
            return (try level.text("transaction_isolation"), first, second)
        }

        #expect(seen.0 == "repeatable read")
        #expect([seen.1, seen.2] == [0, 0])
        await other.close()
    }

    @Test func firstStatement_whenItFails_isItsOwnErrorAndSwallowedAborts() async throws {
        let connection = try await makeTable()

        let thrown = await #expect(throws: PostgresError.self) {
            try await connection.transaction { _ = try $0.query("SELECT 1 / \(0)") }
        }
        let swallowed = await #expect(throws: PostgresError.self) {
            try await connection.transaction { _ = try? $0.query("SELECT 1 / \(0)") }
        }

        #expect(thrown?.sqlState?.isDataException == true)
        #expect(thrown?.phase == nil)
        #expect(swallowed?.code == .transactionAborted)
        #expect(await connection.isReusable)
    }

    @Test func firstStatement_whoseValueIsRefused_sendsNothing() async throws {
        let connection = try await makeTable()
        let before = await connection.tripCount

        let error = await #expect(throws: PostgresError.self) {
            try await connection.transaction { _ = try $0.query("SELECT \("\0")::text") }
        }

        #expect(error?.code == .nulInText)
        #expect(await connection.tripCount == before)
        #expect(await connection.isReusable)
    }

    /// What follows a BEGIN that failed would be stored by itself.
    @Test func begin_whenItFailsAndTheBodySwallowsIt_letsNothingThrough() async throws {
        let connection = try await makeTable()

        let error = await #expect(throws: PostgresError.self) {
            try await connection.transaction { connection in
                try await Self.end(connection)
                for _ in 0..<3 {
                    let again = #expect(throws: PostgresError.self) {
                        try connection.query("INSERT INTO t VALUES (1)")
                    }
                    #expect(again?.phase == .begin)
                }
                #expect(throws: PostgresError.self) { try connection.sendLater(["SELECT 1"]) }
            }
        }

        #expect(error?.phase == .begin)
        #expect(error?.isConnectionLoss == true)
        #expect(await !connection.isReusable)
        #expect(try await stored().isEmpty)
    }
}

import Postgres
import TestSupport
import Testing

@Suite(.database)
struct PipelineTests {
    struct Refusal: Error, Equatable {}

    @Test func pipeline_whenBatchesAreLargeBothWays_neverDeadlocks() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script("CREATE TABLE t (n bigint PRIMARY KEY, payload text)")
        let payload = String(repeating: "p", count: 20_000)

        let results = try await connection.pipeline(
            (0..<1000).map { "INSERT INTO t VALUES (\($0), \(payload)) RETURNING n, payload" })

        #expect(results.count == 1000)
        #expect(try results[999].one().int("n") == 999)
        #expect(try results[0].one().text("payload") == payload)
        #expect(await connection.isReusable)
        #expect(await connection.preparedStatementCount == 1)
    }

    @Test func pipeline_whenOneStatementFails_storesNothingAndStaysUsable() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script("CREATE TABLE t (n int CONSTRAINT positive CHECK (n > 0))")

        let error = await #expect(throws: PostgresError.self) {
            try await connection.pipeline([
                "INSERT INTO t VALUES (\(1))", "INSERT INTO t VALUES (\(0))",
                "SELECT \(3) AS fresh",
            ])
        }

        #expect(error?.constraint == "positive")
        #expect(await connection.isReusable)
        let rows = try await connection.pipeline([
            "SELECT count(*) AS n FROM t", "SELECT \(3) AS fresh",
        ])
        #expect(try rows[0].one().int("n") == 0)
        #expect(try rows[1].one().int("fresh") == 3)
    }

    @Test func start_followsWhatWasStartedBefore_andEachTellsItsOwnEnd() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script("CREATE TABLE t (n int CONSTRAINT positive CHECK (n > 0))")

        let first = await connection.start(["INSERT INTO t VALUES (\(7))"])
        let second = await connection.start(["INSERT INTO t SELECT -max(n) FROM t"])
        let third = await connection.start(["INSERT INTO t SELECT max(n) + 1 FROM t"])

        try await first.value
        let error = await #expect(throws: PostgresError.self) { try await second.value }
        #expect(error?.constraint == "positive")
        try await third.value
        let rows = try await connection.query("SELECT n FROM t ORDER BY n")
        #expect(try rows.map { try $0.int("n") } == [7, 8])
    }

    /// All statements succeed, and the commit at the sync does not.
    @Test func pipeline_whenItsCommitFails_isNoSuccess() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(
            "CREATE TABLE t (n int CONSTRAINT once UNIQUE DEFERRABLE INITIALLY DEFERRED)")

        let error = await #expect(throws: PostgresError.self) {
            try await connection.pipeline([
                "INSERT INTO t VALUES (\(1))", "INSERT INTO t VALUES (\(1))",
            ])
        }

        #expect(error?.constraint == "once")
        let other = try await TestDatabase.connect()
        #expect(try await other.query("SELECT n FROM t").isEmpty)
        #expect(await !connection.isReusable)
        await other.close()
    }

    /// The server dies after the results, before the commit: these came, for they are many.
    @Test func pipeline_whenTheServerDiesAtItsCommit_isNoSuccess() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script(
            """
            CREATE TABLE t (n int);
            CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
                $$BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END$$;
            CREATE CONSTRAINT TRIGGER dies AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION die();
            """)

        let error = await #expect(throws: PostgresError.self) {
            try await connection.pipeline([
                "INSERT INTO t VALUES (\(1))",
                "SELECT repeat('x', 100) FROM generate_series(1, 10000)",
            ])
        }

        #expect(error?.isConnectionLoss == true)
        let other = try await TestDatabase.connect()
        #expect(try await other.query("SELECT n FROM t").isEmpty)
        await other.close()
    }

    @Test func pipeline_whenInsideATransaction_endsWithIt() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script("CREATE TABLE t (n int)")

        await #expect(throws: Refusal()) {
            try await connection.transaction { connection in
                _ = try connection.pipeline((1...10).map { "INSERT INTO t VALUES (\($0))" })
                throw Refusal()
            }
        }

        let left = try await connection.query("SELECT count(*) AS n FROM t").one().int("n")
        #expect(left == 0)
    }

    @Test func pipeline_whenAValueIsRefused_sendsNothing() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script("CREATE TABLE t (v text)")

        let error = await #expect(throws: PostgresError.self) {
            try await connection.pipeline([
                "INSERT INTO t VALUES (\("a"))", "INSERT INTO t VALUES (\("\0"))",
            ])
        }

        #expect(error?.code == .nulInText)
        #expect(try await connection.query("SELECT count(*) AS n FROM t").one().int("n") == 0)
    }

    @Test func pipeline_whenBackendEnds_isAConnectionLoss() async throws {
        let connection = try await TestDatabase.connect()
        let payload = String(repeating: "p", count: 20_000)
        let ending: SQL = "SELECT pg_terminate_backend(pg_backend_pid())"

        let error = await #expect(throws: PostgresError.self) {
            try await connection.pipeline(
                [ending] + (0..<500).map { _ in "SELECT \(payload)::text" })
        }

        #expect(error?.isConnectionLoss == true)
        #expect(await connection.isReusable == false)
    }

    @Test func pipeline_whenManyDistinctStatements_staysBounded() async throws {
        let connection = try await TestDatabase.connect()

        let rows = try await connection.pipeline(
            (0..<300).map { "SELECT \(1) + \(unsafe: String($0)) AS n" })

        #expect(try rows[299].one().int("n") == 300)
        #expect(await connection.preparedStatementCount == 256)
        #expect(try await connection.pipeline(["SELECT 7 AS n"])[0].one().int("n") == 7)
    }

    @Test func copy_whenCalledTheWrongWay_isTypedAndUsable() async throws {
        let connection = try await TestDatabase.connect()
        try await connection.script("CREATE TABLE t (n int)")

        for text in ["COPY t FROM STDIN", "COPY t TO STDOUT"] {
            await #expect { try await connection.script(text) } throws: {
                ($0 as? PostgresError)?.code == .wrongCall
            }
        }
        #expect(try await connection.query("SELECT 1 AS n").one().int("n") == 1)
    }
}
